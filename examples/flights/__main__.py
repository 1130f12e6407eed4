"""``python -m examples.flights``: the main example as a command."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import altneu as an
from examples.flights import data, show
from examples.flights.run import Pipeline, Verdict, month_start, open_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--months", default=9, type=click.IntRange(1, 11), help="Months of 2013 to load at once, first.")
@click.option(
    "--days", default=None, type=click.IntRange(1, 334), help="Days to go on for.  [default: to the year's end]"
)
@click.option(
    "--local", is_flag=True, help="Maintain the views in this process, without Spark (which still checks them)."
)
@click.option(
    "--report",
    default="out/flights.html",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where the report goes.",
)
@click.option(
    "--state",
    default=None,
    type=click.Path(path_type=Path, file_okay=False),
    help="Keep the state here, and go on from it.",
)
def main(months: int, days: int | None, local: bool, report: Path, state: Path | None) -> None:
    """Keep seven views over the flights of New York City right while a year happens, and check them against Spark."""
    console = Console()
    console.print(show.INTRODUCTION, show.VIEWS, sep="\n")
    begin = time.perf_counter()
    cut = data.tick(month_start(months + 1))
    stop = data.tick(month_start(13))
    if days is not None:
        stop = min(stop, cut + days * data.DAY)
    with tempfile.TemporaryDirectory(prefix="flights-") as folder:
        fine = _run(console, Path(folder), cut, stop, local=local, report=report, state=state)
    console.print(f"The whole run took {time.perf_counter() - begin:.0f} s.")
    sys.exit(0 if fine else 1)


def _run(console: Console, folder: Path, cut: int, stop: int, *, local: bool, report: Path, state: Path | None) -> bool:
    with console.status("reading the flights and starting Spark"):
        stream = data.Stream.load()
        everything = folder / "updates.parquet"
        stream.between(0, stop).write_parquet(everything)
        spark = an.spark_session(app_name="altneu: flights")
    try:
        with open_session(None if local else spark, state) as session:
            pipeline = Pipeline(session, stream)
            if pipeline.lower < cut:
                _load(console, pipeline, cut, None if local else spark, folder)
            else:
                console.print(f"The state in {state} goes on from {data.day_of(pipeline.lower):%d %B %Y}.")
            _days(console, pipeline, stop)
            console.print(show.board_table(pipeline, show.last_day(pipeline)), show.routes_table(pipeline))
            more = [show.chains_table(pipeline), show.weather_table(pipeline)]
            console.print(*map(show.as_rich, more), "")
            console.print(
                "[bold]Is it right?[/bold] Spark computes every view from scratch, from the flights as they now stand:"
            )
            verdicts = _verdicts(console, pipeline, spark, everything, folder)
            if pipeline.days:
                table = show.comparison(pipeline, verdicts)
                console.print("", show.as_rich(table))
                title = "The flights of New York City, 2013, kept up day by day"
                console.print(f"Report: {show.write_report(report, pipeline, [table, *more], title)}")
            return all(verdict.equal for verdict in verdicts)
    finally:
        spark.stop()


def _load(console: Console, pipeline: Pipeline, cut: int, spark: SparkSession | None, folder: Path) -> None:
    updates = pipeline.stream.between(pipeline.lower, cut)
    where = "in this process" if spark is None else "through Spark, from Parquet"
    doing = f"loading {len(updates):,} changes, up to {data.day_of(cut - 1):%d %B}, {where}, as one step"
    if not console.is_terminal:  # a log shows no spinner
        console.print(f"{doing} …")
    with console.status(doing):
        if spark is None:
            bulk = pipeline.load(updates, cut)
        else:
            updates.write_parquet(folder / "bulk.parquet")
            bulk = pipeline.load(spark.read.parquet(str(folder / "bulk.parquet")), cut)
    rate = bulk.changes_in / bulk.seconds
    console.print(
        f"Loaded the year up to {data.day_of(cut - 1):%d %B} {where}, as one step: {bulk.changes_in:,} changes in, "
        f"{bulk.total_out:,} out, {bulk.seconds:.1f} s ({rate:,.0f} a second).\n"
    )


def _days(console: Console, pipeline: Pipeline, stop: int) -> None:
    columns = (
        TextColumn("day by day"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("days", total=-(-(stop - pipeline.lower) // data.DAY))
        for record in pipeline.keep_up(stop):
            progress.console.print(show.day_line(record), highlight=False)
            progress.advance(task)
    console.print()


def _verdicts(console: Console, pipeline: Pipeline, spark: SparkSession, updates: Path, folder: Path) -> list[Verdict]:
    verdicts = []
    for verdict in pipeline.verdicts(spark, updates, folder):
        show.say_verdict(console, verdict)
        verdicts.append(verdict)
    return verdicts


if __name__ == "__main__":
    main()
