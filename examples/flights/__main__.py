"""``python -m examples.flights``: the main example as a command."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

import altneu as an
from examples.flights import data, show
from examples.flights.run import Pipeline, Verdict, month_start, open_session
from examples.flights.stream import Days, Follower, write_days
from examples.flights.tables import append_days, differences
from examples.report import StepRecord

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
    "--stream/--no-stream",
    "streamed",
    default=True,
    help="Follow the days as streams of files, in a process that is killed half way; or insert them here.",
)
@click.option(
    "--tables",
    is_flag=True,
    help="Follow the days as versions of Delta tables instead of files, and keep three views as tables.",
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
@click.option(
    "--serve",
    "port",
    default=None,
    type=click.IntRange(1, 65535),
    help="Show the session on a live page at this port, while it runs.",
)
def main(  # an option each
    months: int,
    days: int | None,
    local: bool,
    streamed: bool,
    tables: bool,
    report: Path,
    state: Path | None,
    port: int | None,
) -> None:
    """Keep seven views over the flights of New York City right while a year happens, and check them against Spark."""
    if tables and not streamed:
        raise click.UsageError("--tables follows the days, and --no-stream inserts them: leave one of them out")
    console = Console()
    console.print(show.INTRODUCTION, show.VIEWS, sep="\n")
    begin = time.perf_counter()
    cut = data.tick(month_start(months + 1))
    stop = data.tick(month_start(13))
    if days is not None:
        stop = min(stop, cut + days * data.DAY)
    with tempfile.TemporaryDirectory(prefix="flights-") as folder:
        where = Path(folder, "state") if state is None else state
        place = Place(Path(folder), where, local, port, tables)
        if port is not None:
            console.print(f"While there is a session, its page is http://127.0.0.1:{port}/ .")
        fine = _run(console, place, cut, stop, streamed=streamed, report=report)
    console.print(f"The whole run took {time.perf_counter() - begin:.0f} s.")
    sys.exit(0 if fine else 1)


@dataclass(frozen=True)
class Place:
    """Where a run happens: its files, its state, in this process or on Spark; the port of its page, if any.

    With ``tables`` the days are versions of Delta tables.
    """

    folder: Path
    state: Path
    local: bool
    port: int | None
    tables: bool

    def session(self, spark: SparkSession) -> an.Session:
        """Open the session."""
        return open_session(None if self.local else spark, self.state, self.port)


def _run(console: Console, place: Place, cut: int, stop: int, *, streamed: bool, report: Path) -> bool:
    folder, state = place.folder, place.state
    with console.status("reading the flights and starting Spark"):
        stream = data.Stream.load()
        everything = folder / "updates.parquet"
        stream.between(0, stop).write_parquet(everything)
        spark = an.spark_session(app_name="altneu: flights")
    try:
        with place.session(spark) as session:
            loaded = Pipeline(session, stream)
            if loaded.lower < cut:
                _load(console, loaded, cut, None if place.local else spark, folder)
            else:
                console.print(f"The state in {state} continues from {data.day_of(loaded.lower):%d %B %Y}.")
            if not streamed:
                _days(console, loaded, stop)
            lower = loaded.lower
        written: dict[str, int] = {}
        if lower < stop:
            spark.stop()  # all that is done now, others do
            loaded.days, written = _streamed_days(console, stream, place, lower, stop)
            spark = an.spark_session(app_name="altneu: flights")
        with place.session(spark) as session:
            pipeline = Pipeline(session, stream)
            pipeline.bulk, pipeline.days = loaded.bulk, loaded.days
            if written:
                _say_taken(console, session, written)
            if written and place.tables:
                _say_kept(console, session, place)
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
    with _progress(console, -(-(stop - pipeline.lower) // data.DAY)) as told:
        for record in pipeline.keep_up(stop):
            told(record)


@contextmanager
def _progress(console: Console, days: int) -> Iterator[Callable[[StepRecord], None]]:
    columns = (
        TextColumn("day by day"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("days", total=days)

        def told(record: StepRecord) -> None:
            progress.console.print(show.day_line(record), highlight=False)
            progress.advance(task)

        yield told
    console.print()


def _streamed_days(
    console: Console, stream: data.Stream, place: Place, lower: int, stop: int
) -> tuple[list[StepRecord], dict[str, int]]:
    """Write the days as files, have a process follow them, kill it half way, and have another one go on.

    The days, and how many changes the files of each stream hold.
    """
    folder = Path(f"{place.state}.days")
    written = (append_days if place.tables else write_days)(stream, folder, lower, stop)
    days, told = Days(), -(-(stop - lower) // data.DAY)
    what = "versions of two Delta tables now" if place.tables else "files now, one a day"
    console.print(
        f"The other {told} days are {what}. A process of its own follows them as streams, flights and "
        "weather;\nit knows of the store alone, and this process only of what it says."
    )

    def follower() -> Follower:
        return Follower(folder, place.state, stop, local=place.local, port=place.port, tables=place.tables)

    with _progress(console, told) as say:
        if half := told // 2:
            _follow(console, follower(), days, say, half)
        _follow(console, follower(), days, say)
    return days.records, written


def _say_taken(console: Console, session: an.Session, written: dict[str, int]) -> None:
    """What the store says of the streams, against what the files hold."""
    rows = session.rows_followed
    taken = " and ".join(f"{rows[name]:,} of {count:,} changes of {name}" for name, count in written.items())
    console.print(f"Of what the files hold, the streams took {taken}: [bold]no day twice, none left out.[/bold]\n")
    if any(rows[name] != count for name, count in written.items()):
        raise RuntimeError("the streams did not take what the files hold")


def _say_kept(console: Console, session: an.Session, place: Place) -> None:
    """What the tables that are kept have, against their views."""
    wrong = differences(session, f"{place.state}.days")
    console.print(f"The tables of {', '.join(wrong)} are equal to their views.\n" if not any(wrong.values()) else "")
    if any(wrong.values()):
        raise RuntimeError(f"tables differ from their views in so many rows: {wrong}")


def _follow(
    console: Console, follower: Follower, days: Days, say: Callable[[StepRecord], None], kill_after: int | None = None
) -> None:
    """Hear what a follower says to its end, or kill it when so many days are told."""
    hearing, begun = follower.said(), len(days.records)
    for said in hearing:
        if len(days.records) == begun and begun and said.stream == "flights":
            console.print(f"A new process opened the store, and goes on with {data.day_of(said.seen):%a %d %b}.")
            begun = -1
        record = days.add(said)
        if record is not None:
            say(record)
            if len(days.records) == kill_after:
                follower.kill()
                hearing.close()
                console.print(
                    f"[bold]kill -9[/bold] when the rows of {data.day_of(said.seen):%a %d %b} are in commit "
                    f"{said.commit} (the line of that day is still to come). Another process starts on the same store."
                )
                return
    say(days.end())


def _verdicts(console: Console, pipeline: Pipeline, spark: SparkSession, updates: Path, folder: Path) -> list[Verdict]:
    verdicts = []
    for verdict in pipeline.verdicts(spark, updates, folder):
        show.say_verdict(console, verdict)
        verdicts.append(verdict)
    return verdicts


if __name__ == "__main__":
    main()
