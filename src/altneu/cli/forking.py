"""``altneu fork``, ``altneu compare`` and ``altneu swap``: another version of a pipeline beside a store."""

from __future__ import annotations

import sys

import click

from altneu.cli.command import Taught, path_option, reporting
from altneu.cli.opening import open_reader, open_session, store_folder
from altneu.cli.output import Output
from altneu.cli.query import SHOWN
from altneu.engine.reading import Time
from altneu.errors import AltneuError
from altneu.streams.forking import fork_store
from altneu.views.comparing import compare as compared

DIFFERENT = 3
_SECONDS = "90 seconds, 1 hour, 2 days"


@click.command(
    cls=Taught,
    examples=[
        ("a fork of a store, in a folder beside it", "altneu fork --path state --to green"),
        ("one that is never swapped in, and so retains no history", "altneu fork --path state --to trial --lease none"),
    ],
    shape="one object: store, fork, commit, the number of the store's commit that the fork begins with",
)
@path_option()
@click.option("--to", "target", required=True, metavar="FOLDER", help="Folder or address of the fork, which is empty.")
@click.option(
    "--lease",
    default="1 day",
    show_default=True,
    metavar="SPAN",
    help=f"Retain history for so long, for who follows the store: {_SECONDS}, or none.",
)
@reporting
def fork(out: Output, path: str, target: str, lease: str) -> None:
    """Copy a store, sharing its files.

    The fork has the views, sources, definitions and positions of streams of the last commit, and none of the SINKs.
    Files are linked, on an object store they are copied inside it. Another process may be writing the store. From then
    on each goes on by itself: run another version of the pipeline with --path set to the fork.
    """
    folder = store_folder(path)
    with out.busy("sharing the files of the store"):
        number = fork_store(folder, target, lease=None if lease == "none" else lease, to_options=folder.storage_options)
    if out.as_json:
        out.json({"store": folder.where(), "fork": target, "commit": number})
    else:
        out.line(f"{target} is a fork of {folder.where()} as of its commit {number}")


class _Times(click.ParamType["tuple[int | None, int | None]"]):
    """A time for both views, or two with a comma between; "last" for the last of a view."""

    name = "time"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int | None, int | None]:
        """Read it."""
        parts = [part.strip() for part in str(value).split(",")]
        if len(parts) > 2 or not all(part.isdecimal() or part == "last" for part in parts):
            self.fail(f"the time must be TIME, or LEFT,RIGHT, each a whole number or last, got {value!r}", param, ctx)
        times: list[Time] = [None if part == "last" else int(part) for part in parts]
        return times[0], times[-1]  # type: ignore[return-value]  # no pairs


@click.command(
    cls=Taught,
    examples=[
        (
            "whether a view of a fork has the rows that it has in the store",
            "altneu compare --path state --with green totals",
        ),
        (
            "by one of its columns, each at its last time, as JSON",
            "altneu compare --path state --with green --columns item --at last --json totals",
        ),
    ],
    shape='one object for each row that differs: {"column": value, …, "left_count", "right_count"}',
    exits={0: "the views are equal", DIFFERENT: "the views differ, in the rows that are shown"},
)
@click.argument("view")
@path_option()
@click.option("--with", "other", required=True, metavar="STORE", help="The other store, such as a fork of it.")
@click.option("--view", "other_view", help="The name of the view in the other store (default: the same).")
@click.option("--columns", metavar="NAMES", help="Compare by these columns alone, separated by commas.")
@click.option(
    "--at",
    type=_Times(),
    metavar="TIMES",
    help="TIME, or LEFT,RIGHT; last is the last of each (default: the last that both have closed).",
)
@click.option("--ignore-errors", is_flag=True, help="Compare views that have errors; their contents may then be wrong.")
@reporting
def compare(
    out: Output,
    view: str,
    path: str,
    other: str,
    other_view: str | None,
    columns: str | None,
    at: tuple[int | None, int | None] | None,
    *,
    ignore_errors: bool,
) -> None:
    """Show the rows of a view that differ between two stores.

    These are the rows that it does not have equally often, with their counts in each. Both are read at their last
    commits, without locks: other processes may be writing them.
    """
    names = None if columns is None else [name.strip() for name in columns.split(",")]
    with open_reader(path) as left, open_reader(other) as right, out.busy("comparing"):
        views = left.view(view), right.view(view if other_view is None else other_view)
        table = compared(*views, names, at=at, errors="ignore" if ignore_errors else "raise")
    if out.as_json:
        for row in table.to_pylist():
            out.json(row)
    elif table.num_rows:
        out.rows(table.slice(0, SHOWN) if out.is_terminal else table)
    out.note(f"({table.num_rows} row{'' if table.num_rows == 1 else 's'} that differ{'s' * (table.num_rows == 1)})")
    if table.num_rows:
        sys.exit(DIFFERENT)


@click.command(
    cls=Taught,
    examples=[
        ("let a fork take the place of its store", "altneu swap --path state --fork green"),
        ("the same with another fork, with the result as JSON", "altneu swap --path state --fork trial --json"),
    ],
    shape="one object: store, fork, views, their names",
)
@path_option()
@click.option("--fork", "fork_path", required=True, metavar="STORE", help="The fork, a store that altneu fork made.")
@click.option("--master", help='Run on Spark, such as "local[*]"; without it everything runs in this process.')
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A setting: retain=all, memory=1g …")
@reporting
def swap(out: Output, path: str, fork_path: str, master: str | None, settings: tuple[str, ...]) -> None:
    """Let a fork take the place of its store, in one commit.

    Views that both have go on with their history, and what is different is a change at the next time: readers and
    sinks of the store go on. Statements must have made the views of the fork; those of a program are swapped in by
    session.swap. No other process may have one of the two open for writing. The fork's folder is not needed afterwards.
    """
    folder, other = store_folder(path), store_folder(fork_path)
    with out.busy("swapping"), open_session(path, master, settings) as session:
        fork = open_session(fork_path, master, settings)
        with fork:
            fork.statements.restore()
            try:
                fork.statements.definer.check()
            except AltneuError as error:
                error.add_note("altneu: a program that registers its functions swaps the fork in with session.swap")
                raise
            session.swap(fork)
        views = session.views
    if out.as_json:
        out.json({"store": folder.where(), "fork": other.where(), "views": views})
    else:
        out.line(f"{folder.where()} has the state of {other.where()}, with {len(views)} views")
