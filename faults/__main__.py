"""``python -m faults``: run every kind of fault, print the counts and the differences."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from faults import local, on_spark, streams, tables
from faults.report import Findings

WIDTH = 140
COUNTS = {
    "kills": 290,
    "spark": 20,
    "streams": 10,
    "workers": 50,
    "failures": 50,
    "flips": 50,
    "tables": 100,
    "iceberg": 100,
}
EXECUTORS = 8  # of the runs in which workers are killed, so many kill an executor of a cluster


def _workers(count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    return on_spark.workers(count, min(EXECUTORS, count // 4), seed, folder, done)


KINDS: dict[str, Callable[[int, int, Path, Callable[[], None]], Findings]] = {
    "kills": local.kills,
    "failures": local.failures,
    "flips": local.flips,
    "workers": _workers,
    "spark": on_spark.kills,
    "streams": streams.kills,
    "tables": partial(tables.kills, "delta"),
    "iceberg": partial(tables.kills, "iceberg"),
}


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--seed", default=1, help="Where everything random comes from.")
@click.option("--part", default=1.0, type=click.FloatRange(0, 10, min_open=True), help="So much of the usual counts.")
@click.option("--only", "only", multiple=True, type=click.Choice(list(KINDS)), help="This kind; may be repeated.")
def main(seed: int, part: float, only: tuple[str, ...]) -> None:
    """Disturb altneu in every way it says it stands, and compare with undisturbed runs.

    At full counts 310 kills (20 of them with Spark) and 10 streams whose followers are killed, 50 killed workers or
    executors, 50 operations on files that fail and 50 damaged stores, with readers beside all that is local, and 100
    sessions between Delta tables and 100 between Iceberg tables that are killed, with rivals beside: some half an
    hour on two cores.
    """
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDTH)
    begin, outcomes = time.monotonic(), list[Findings]()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        tempfile.TemporaryDirectory(prefix="altneu-faults-") as folder,
        Progress(*columns, console=console) as progress,
    ):
        for kind in [kind for kind in KINDS if not only or kind in only]:
            count = max(1, round(COUNTS[kind] * part))
            bar = progress.add_task(kind, total=count)
            place = Path(folder) / kind
            place.mkdir()
            outcomes.append(KINDS[kind](count, seed, place, partial(progress.advance, bar)))
    console.print(_table(outcomes))
    differences = local.total(outcomes)
    for findings in outcomes:
        for difference in findings.differences:
            console.print(f"[red]{findings.kind}[/red]: {difference}", highlight=False, markup=True)
    console.print(
        f"seed {seed}: {sum(each.runs for each in outcomes)} runs, {differences} differences, "
        f"{time.monotonic() - begin:.0f} s"
    )
    sys.exit(1 if differences else 0)


def _table(outcomes: list[Findings]) -> Table:
    table = Table("fault", "runs", "struck", "differences", "beside it")
    for findings in outcomes:
        table.add_row(
            findings.kind, str(findings.runs), str(findings.struck), str(len(findings.differences)), findings.notes
        )
    return table


if __name__ == "__main__":
    main()
