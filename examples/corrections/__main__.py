"""``python -m examples.corrections``: the example of two times as a command."""

from __future__ import annotations

import random
import statistics
import sys
from contextlib import nullcontext

import click
import polars as pl
from rich import box
from rich.console import Console
from rich.table import Table

import altneu as an
from examples.corrections.data import LONGEST, Reports, date_of
from examples.corrections.run import LATE, Day, Pipeline

INTRODUCTION = (
    "[bold]What was known then?[/bold] Arrival delays are reported on the day of the flight. One in five is a guess, "
    "the delay on leaving, and is corrected one to fourteen days later. So rows have two times: the day on which they "
    "were known, and the day that they are about. Views are read at both, [cyan]view.df(at=(known, day))[/cyan]."
)
JANUARY = 30  # its last day
PAIRS = 40


@click.command(context_settings={"show_default": True, "help_option_names": ["-h", "--help"]})
@click.option("--days", default=59, type=click.IntRange(JANUARY + LONGEST + 1, 365), help="Days of 2013 to follow.")
@click.option("--local", is_flag=True, help="In this process, without Spark.")
def main(days: int, *, local: bool) -> None:
    """Follow the delays of January and February 2013 as they were reported and corrected: what was known when?"""
    console = Console()
    console.print(INTRODUCTION, "")
    spark = None if local else an.spark_session(app_name="altneu: corrections")
    with nullcontext() if spark is None else spark, an.Session(spark, retain="all") as session:
        pipeline = Pipeline(session, Reports.load(days))
        took = [pipeline.next_day() for _ in range(days)]
        asked = [JANUARY, JANUARY + 1, JANUARY + 7, days - 1]
        console.print(means(pipeline, asked), late(pipeline, asked), cost(pipeline, took))
        wrong = check(pipeline, days)
    told = "[bold red]DIFFERENT[/bold red]: " + ", ".join(wrong) if wrong else "[green]equal[/green]"
    console.print(f"Both views at {PAIRS} pairs of days, beside what the reports say themselves: {told}")
    sys.exit(1 if wrong else 0)


def means(pipeline: Pipeline, asked: list[int]) -> Table:
    """The mean delay of January for the carriers with the most flights, as it was known on some days."""
    known = [pipeline.read("carriers", day, JANUARY) for day in asked]
    table = _table("January's mean arrival delay, minutes, as known on", "carrier", "flights", asked)
    for carrier, flights in known[-1].sort("flights", descending=True).head(8).select("carrier", "flights").iter_rows():
        then = [frame.row(by_predicate=pl.col("carrier") == carrier, named=True)["mean"] for frame in known]
        table.add_row(carrier, f"{flights:,}", *(f"{mean:.2f}" for mean in then))
    return table


def late(pipeline: Pipeline, asked: list[int]) -> Table:
    """How many flights of January the list of late ones had on some days, and how many were on it wrongly."""
    known = [set(pipeline.read("late", day, JANUARY)["id"]) for day in asked]
    table = _table(f"January's flights {LATE // 60} hours late, as listed on", "", "", asked)
    table.add_row("on the list", "", *(f"{len(ids):,}" for ids in known))
    table.add_row("not on it now", "", *(f"{len(ids - known[-1]):,}" for ids in known))
    table.add_row("not on it yet", "", *(f"{len(known[-1] - ids):,}" for ids in known))
    return table


def _table(title: str, first: str, second: str, asked: list[int]) -> Table:
    table = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    table.add_column(first)
    table.add_column(second, justify="right")
    for day in asked:
        table.add_column(f"{date_of(day).day} {date_of(day):%b}", justify="right")
    return table


def cost(pipeline: Pipeline, took: list[Day]) -> str:
    """What a day with corrections cost, and what EXPLAIN says of it."""
    usual = took[LONGEST:]  # from then on corrections come from as many days as they ever do
    middle = lambda name: statistics.median(getattr(day, name) for day in usual)  # noqa: E731
    told = {
        line.split("; ")[-1].rstrip("]") for line in pipeline.session.explain("carriers").split("\n") if "; a" in line
    }
    return (
        f"A day brings {middle('changes'):,.0f} changes, with {middle('corrections'):,.0f} corrections of "
        f"{middle('past'):.0f} earlier days; views change by {middle('made'):,.0f} updates in "
        f"{1000 * middle('seconds'):.0f} ms (medians).\nEXPLAIN: " + "; ".join(sorted(told)) + "\n"
    )


def check(pipeline: Pipeline, days: int) -> list[str]:
    """Views and pairs of days at which they do not say what they ought to."""
    rng = random.Random(1)  # noqa: S311 -- which days are looked at
    pairs = [(days - 1, days - 1), *((rng.randrange(days), rng.randrange(days)) for _ in range(PAIRS - 1))]
    return [f"{view} at {pair}" for pair in pairs for view in pipeline.differences(*pair)]


if __name__ == "__main__":
    main()
