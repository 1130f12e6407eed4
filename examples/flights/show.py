"""What a person sees of the run: lines and tables in the terminal, and the report."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

from altneu import report
from altneu.report import StepRecord
from examples.flights import data, verify
from examples.flights.run import Pipeline, Verdict

INTRODUCTION = (
    "[bold]336,776 flights left New York City in 2013.[/bold] Here that year happens again, minute by minute. Every "
    "flight is announced at midnight, corrected when it leaves (or is cancelled) and corrected again when it lands (or "
    "is diverted): each correction takes a row back and puts another in its place. Four views are written once and "
    "kept right from then on:"
)
VIEWS = """\
  [cyan]board[/cyan]   flights by day, airport and state
  [cyan]delays[/cyan]  delay by airline and hour of the day
  [cyan]routes[/cyan]  the ten routes that arrive latest
  [cyan]fleet[/cyan]   each flight with its airline and plane
"""

_SUMMARY = (
    "Every flight is announced at midnight, corrected when it leaves and corrected when it lands; each correction "
    "retracts a row. One step is one day; within it the views are right at every minute."
)

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
    table = Table(title="Routes that arrive latest so far", box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column("route")
    table.add_column("landed", justify="right")
    table.add_column("mean delay, min", justify="right")
    for row in sorted(pipeline.views["routes"].to_arrow().to_pylist(), key=lambda row: -row["delay"]):
        table.add_row(f"{row['origin']} → {row['dest']}", f"{row['flights']:,}", f"{row['delay']:.1f}")
    return table


def comparison(pipeline: Pipeline, verdicts: Sequence[Verdict]) -> report.Table:
    """The one table: recomputing every view against keeping all of them up for a day."""
    every = sum(verdict.recompute_seconds for verdict in verdicts)
    slowest = max(day.seconds for day in pipeline.days)
    columns = (
        "view",
        "rows",
        "equal to Spark's",
        "Spark anew (s)",
        "a day's changes out (median)",
        "a day (s, median)",
        "a day (s, max)",
        "ratio",
    )
    rows: list[Sequence[report.model.Cell]] = []
    for verdict in verdicts:
        out = [day.changes_out[verdict.view] for day in pipeline.days]
        rows.append(
            (
                verdict.view,
                verdict.rows,
                verdict.problem is None,
                verdict.recompute_seconds,
                round(report.percentile(out, 0.5)),
                "",
                "",
                "",
            )
        )
    outs = [day.total_out for day in pipeline.days]
    fine = all(verdict.problem is None for verdict in verdicts)
    total = sum(verdict.rows for verdict in verdicts)
    ratio = f"{every / pipeline.median_day:.1f}×"
    rows.append(
        ("all four", total, fine, every, round(report.percentile(outs, 0.5)), pipeline.median_day, slowest, ratio)
    )
    note = (
        "Spark anew: the least of three warm runs of the same query over the final rows of flights in Parquet, results "
        "left in Spark. A day: inserting its changes and advancing all four views through every minute of it. Ratio: "
        "Spark anew over the median day."
    )
    return report.Table("Computing anew against keeping up", columns, rows, note)


def as_rich(table: report.Table) -> Table:
    """A report's table for the terminal."""
    shown = Table(
        title=table.title, caption=table.note, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left"
    )
    for name, cell in zip(table.columns, table.rows[-1], strict=True):
        shown.add_column(name, justify="left" if isinstance(cell, bool | str) and name != "ratio" else "right")
    for row in table.rows:
        shown.add_row(*map(_plain, row))
    return shown


def _plain(cell: report.model.Cell) -> str:
    if isinstance(cell, bool):
        return "[green]yes[/green]" if cell else "[bold red]NO[/bold red]"
    if isinstance(cell, int):
        return f"{cell:,}"
    return f"{cell:.3g}" if isinstance(cell, float) else cell or ""


def say_verdict(console: Console, verdict: Verdict) -> None:
    """One line for one view: equal, or where not."""
    if verdict.problem is None:
        console.print(
            f"  [green]equal[/green]   {verdict.view:<7} {verdict.rows:>8,} rows, doubles within {verify.RELATIVE:g}"
        )
    else:
        console.print(f"  [bold red]DIFFERS[/bold red] {verdict.view:<7} {verdict.problem}", highlight=False)


def write_report(path: Path, pipeline: Pipeline, table: report.Table, title: str) -> Path:
    """Write the run's picture."""
    days = pipeline.days
    facts = {
        "changes, per day (median)": f"{round(report.percentile([day.changes_in for day in days], 0.5)):,}",
        "a day, median": f"{pipeline.median_day:.3g} s",
        "a day, slowest": f"{max(day.seconds for day in days):.3g} s",
        "rows of state": f"{days[-1].state_rows:,}",
        "against computing anew": str(table.rows[-1][-1]),
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
    return report.write(report.Report(title, summary, facts, days, [table], texts), path)


def last_day(pipeline: Pipeline) -> date:
    """The day that ended last."""
    return data.day_of(pipeline.lower - 1)
