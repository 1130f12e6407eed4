"""What a person sees of the run: lines and tables in the terminal, and the report."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

from examples import report
from examples.flights import data, verify
from examples.flights.run import Pipeline, Verdict
from examples.report import StepRecord

INTRODUCTION = (
    "[bold]336,776 flights left New York City in 2013.[/bold] Here that year happens again, minute by minute. Every "
    "flight is announced at midnight, corrected when it leaves (or is cancelled) and corrected again when it lands (or "
    "is diverted): each correction takes a row back and puts another in its place. Seven views are written once and "
    "kept right from then on:"
)
VIEWS = """\
  [cyan]board[/cyan]   flights by day, airport and state
  [cyan]delays[/cyan]  delay by airline and hour of the day
  [cyan]routes[/cyan]  the ten routes that arrive latest
  [cyan]fleet[/cyan]   each flight with its airline and plane
  [cyan]recent[/cyan]  who left in the last 24 hours, by airport
  [cyan]chains[/cyan]  how far a late arrival delays the plane's later flights that day (a loop)
  [cyan]weather[/cyan] the weather at each departure, as it was known then and as it turned out (as-of joins)
"""

_SUMMARY = (
    "Every flight is announced at midnight, corrected when it leaves and corrected when it lands; each correction "
    "retracts a row. One step is one day; within it the views are right at every minute."
)

LEFT: dict[str, Any] = {"title_justify": "left", "caption_justify": "left"}

STATES = ("scheduled", "departed", "landed", "diverted", "cancelled")


def day_line(record: StepRecord) -> str:
    """One line for one day: changes in, changes out, seconds."""
    return f"{record.label}  {record.changes_in:>7,} changes in  {record.total_out:>7,} out  {record.seconds:6.2f} s"


def board_table(pipeline: Pipeline, day: date) -> Table:
    """The departure board of one day, one line an airport."""
    board = pl.DataFrame(pl.from_arrow(pipeline.views["board"].to_arrow())).filter(pl.col("day") == day)
    count = {
        (origin, state): flights for origin, state, flights in board.select("origin", "state", "flights").iter_rows()
    }
    table = Table(
        title=f"Departure board at the end of {day:%A}, {day.day} {day:%B %Y}",
        box=box.SIMPLE_HEAD,
        title_justify="left",
    )
    table.add_column("airport")
    for state in STATES:
        table.add_column(state, justify="right")
    for origin in sorted({origin for origin, _ in count}):
        table.add_row(origin, *(f"{count.get((origin, state), 0):,}" for state in STATES))
    return table


def routes_table(pipeline: Pipeline) -> Table:
    """The ten routes that arrive latest."""
    table = Table(title="Routes that arrive latest so far", box=box.SIMPLE_HEAD, **LEFT)
    table.add_column("route")
    table.add_column("landed", justify="right")
    table.add_column("mean delay, min", justify="right")
    for row in sorted(pipeline.views["routes"].to_arrow().to_pylist(), key=lambda row: -row["delay"]):
        table.add_row(f"{row['origin']} → {row['dest']}", f"{row['flights']:,}", f"{row['delay']:.1f}")
    return table


def chains_table(pipeline: Pipeline) -> report.Table:
    """The ten late arrivals that explain most of the delays that follow them."""
    chains = pl.DataFrame(pl.from_arrow(pipeline.views["chains"].to_arrow()))
    longest = chains.sort("minutes", "root", descending=[True, False]).head(10)
    rows = [
        (
            f"{row['day'].day} {row['day']:%b}",
            row["tailnum"],
            f"{row['carrier']} {row['flight']}",
            f"{row['origin']} → {row['dest']}",
            row["late"],
            row["flights"],
            row["minutes"],
        )
        for row in longest.iter_rows(named=True)
    ]
    note = (
        "A plane that arrives late and leaves late on its next flight of the day hands on the smaller of both, as long "
        "as it lasts. late: minutes, at arrival. explained: minutes by which later flights left late because of that; "
        "each counts once, for the flight that first arrived late by it. Flights back to New York are not in the data."
    )
    columns = ("day", "plane", "flight", "route", "late", "later flights", "explained")
    return report.Table("Delay chains: the late arrivals that explain most", columns, rows, note)


def weather_table(pipeline: Pipeline) -> report.Table:
    """How often the weather that was known when flights left was not that of the hour, by airport."""
    weather = pl.DataFrame(pl.from_arrow(pipeline.views["weather"].to_arrow()))
    lines = weather.group_by("origin").agg(
        pl.len(),
        (pl.col("known") != pl.col("observed")).sum().alias("differ"),
        (pl.col("departed") - pl.col("known")).mean().alias("known_age"),
        (pl.col("departed") - pl.col("observed")).mean().alias("age"),
        (pl.col("known_temp") - pl.col("temp")).abs().max().alias("warmer"),
    )
    rows: list[Sequence[report.Cell]] = [
        (origin, count, differ, 100 * differ / count, known_age, age, warmer)
        for origin, count, differ, known_age, age, warmer in lines.sort("origin").iter_rows()
    ]
    note = (
        "known: the last observation that was published when the flight left, locked in then. later: the last one of "
        "before it left, whenever published. The data does not say when that was: here it is 20 to 80 minutes after "
        "the hour. age: minutes between observation and departure, mean. °F: the largest difference of temperature."
    )
    columns = ("airport", "departures", "differ", "percent", "known, age", "later, age", "°F")
    return report.Table("The weather at departure: as known then, and as it turned out", columns, rows, note)


def comparison(pipeline: Pipeline, verdicts: Sequence[Verdict]) -> report.Table:
    """The one table: recomputing every view against keeping all of them up for a day."""
    days = pipeline.days
    columns = ("view", "rows", "equal", "anew, s", "out a day", "day, s", "max, s", "ratio")
    rows: list[Sequence[report.Cell]] = []
    for verdict in verdicts:
        out = round(statistics.median(day.changes_out[verdict.view] for day in days))
        rows.append((verdict.view, verdict.rows, verdict.equal, verdict.recompute_seconds, out, None, None, None))
    anew = sum(verdict.recompute_seconds for verdict in verdicts)
    out = round(statistics.median(day.total_out for day in days))
    slowest = max(day.seconds for day in days)
    equal = all(verdict.equal for verdict in verdicts)
    total = sum(verdict.rows for verdict in verdicts)
    rows.append(("all seven", total, equal, anew, out, pipeline.median_day, slowest, anew / pipeline.median_day))
    note = (
        "equal: to Spark's answer, row by row. anew: Spark computes the view from the final flights in Parquet, the "
        "best of three warm runs, results left in Spark. out a day: changes of the view, median. day, max: insert a "
        "day's changes and bring all seven views through every minute of it, median and slowest (the first of a "
        "process, which loads the kernels). ratio: anew to day."
    )
    return report.Table("Computing anew against keeping up", columns, rows, note)


def as_rich(table: report.Table) -> Table:
    """A report's table for the terminal."""
    shown = Table(title=table.title, caption=table.note, box=box.SIMPLE_HEAD, **LEFT)
    for name, cell in zip(table.columns, table.rows[-1], strict=True):
        shown.add_column(name, justify="left" if isinstance(cell, bool | str) else "right")
    for row in table.rows:
        shown.add_row(*map(_plain, row))
    return shown


def _plain(cell: report.Cell) -> str:
    if isinstance(cell, bool):
        return "[green]yes[/green]" if cell else "[bold red]NO[/bold red]"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.3g}" if isinstance(cell, float) else cell or ""


def say_verdict(console: Console, verdict: Verdict) -> None:
    """One line for one view: equal, or where not."""
    if verdict.equal:
        console.print(
            f"  [green]equal[/green]   {verdict.view:<7} {verdict.rows:>8,} rows, doubles within {verify.RELATIVE:g}"
        )
    else:
        console.print(f"  [bold red]DIFFERS[/bold red] {verdict.view:<7} {verdict.problem}", highlight=False)


def write_report(path: Path, pipeline: Pipeline, tables: Sequence[report.Table], title: str) -> Path:
    """Write the run's picture; the first table is the comparison."""
    days = pipeline.days
    ratio = float(tables[0].rows[-1][-1] or 0)
    facts = {
        "changes, per day (median)": f"{round(report.percentile([day.changes_in for day in days], 0.5)):,}",
        "a day, median": f"{pipeline.median_day:.3g} s",
        "a day, slowest": f"{max(day.seconds for day in days):.3g} s",
        "rows of state": f"{days[-1].state_rows:,}",
        "against computing anew": f"{ratio:.1f}× faster" if ratio >= 1 else f"{1 / ratio:.1f}× slower",
    }
    summary = [_SUMMARY]
    if pipeline.bulk is not None:
        bulk = pipeline.bulk
        facts = {"bulk load": f"{bulk.seconds:.3g} s", **facts}
        summary.append(
            f"Loaded first, as one step: {bulk.changes_in:,} changes, which made {bulk.total_out:,} changes of views."
        )
    summary.append("In the charts: hover for figures, drag to zoom, double-click to zoom out.")
    texts = [report.Text(f"Plan of {name}", pipeline.session.explain(name)) for name in pipeline.views]
    return report.write(report.Report(title, summary, facts, days, tables, texts), path)


def last_day(pipeline: Pipeline) -> date:
    """The day that ended last."""
    return data.day_of(pipeline.lower - 1)
