"""``altneu subscribe --path STORE VIEW``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import click

from altneu.cli.command import Taught, nearest, path_option, reporting, stopped_cleanly
from altneu.cli.offline import Maintained, Names
from altneu.cli.opening import open_reader
from altneu.cli.output import Output, as_json, text
from altneu.errors import PlanError
from altneu.types import quote_name

EVERY = 0.2  # seconds between two looks at the log


@click.command(
    cls=Taught,
    short_help="Print the changes of a view as another process commits them.",
    examples=[
        (
            "the contents of a view, then every change as it is committed (Ctrl-C ends it)",
            "altneu subscribe --path state totals",
        ),
        ("the present contents only", "altneu subscribe --path state --once totals"),
        (
            "the result of a query at time 0 and its changes since, as JSON",
            ('altneu subscribe --path state --once --since 0 --json \\\n  "SELECT max(total) AS most FROM totals"'),
        ),
    ],
    shape='one object for each change: {"time": 3, "diff": -1, "row": {"column": value, …}}; "time" is a list if '
    'the view has two times; with --progress also {"complete": 3}',
)
@click.argument("view", metavar="VIEW|QUERY")
@path_option()
@click.option(
    "--since", type=click.IntRange(min=0), metavar="TIME", help="Begin at this time (default: the last closed one)."
)
@click.option("--until", type=click.IntRange(min=0), metavar="TIME", help="End before this time.")
@click.option(
    "--snapshot/--no-snapshot",
    default=None,
    help="Begin with the contents at that time (the default, except for a view without contents), or only with later "
    "changes.",
)
@click.option("--follow/--once", "follows", default=True, help="Continue with every commit, or end at the last one.")
@click.option("--progress", is_flag=True, help="Also print when a time is complete.")
@click.option(
    "--every",
    type=click.FloatRange(min=0.01),
    default=EVERY,
    show_default=True,
    help="Seconds between checks for a new commit.",
)
@reporting
def subscribe(
    out: Output,
    view: str,
    path: str,
    since: int | None,
    until: int | None,
    every: float,
    *,
    snapshot: bool | None,
    follows: bool,
    progress: bool,
) -> None:
    """Print the changes of a view, or of a query over views, as another process commits them.

    Each line has a time, a diff (1: the row was added, -1: it was removed) and the row. The store is read without a
    lock; a lease retains the history that is still to be printed. A query is maintained in this process, from the
    changes of the views that it reads. Ctrl-C ends it normally.
    """
    with stopped_cleanly(), open_reader(path, since=since) as reader, suppress(KeyboardInterrupt):
        show = _Shown(out, progress=progress)
        names = Names(reader)
        name = named(names, view)
        options: dict[str, Any] = {"as_of": since, "snapshot": snapshot, "up_to": until}
        if name in names.views:
            with out.busy("reading what is there"):
                of_view = reader.view(name)
                show.heading(of_view.schema.names, reader.view(name).coordinates or ("time",))
                subscription = of_view.subscribe(show.row, show.end, **options)
            take: Callable[[], object] = _delivered
        else:
            with out.busy("computing the query"):
                query = Maintained(reader, view if name is None else f"TABLE {quote_name(name)}", since)
                show.heading(query.view.schema.names, ("time",))
                if query.since >= 0:
                    options["as_of"] = query.since
                subscription = query.view.subscribe(show.row, show.end, **options)
                query.take()
            take = query.take
        pause = threading.Event()
        while follows and not subscription.closed:
            if reader.refresh():
                take()
            else:
                pause.wait(every)


def named(names: Names, text: str) -> str | None:
    """The name that a text is, told in any case; None where it is a query.

    Raises:
        PlanError: it is one word, and no name of the store's.
    """
    match = {name.lower(): name for name in names}.get(text.strip().lower())
    if match is None and len(text.split()) == 1:
        raise PlanError(f"no view {text!r}{nearest(text, names)}")
    return match


def _delivered() -> None:
    """A reader gives its subscriptions what there is by itself."""


class _Shown:
    """Prints changes."""

    def __init__(self, out: Output, *, progress: bool) -> None:
        self._out, self._progress = out, progress
        self._columns: list[str] = []

    def heading(self, columns: list[str], times: tuple[str, ...]) -> None:
        """What is going to be told."""
        self._columns = columns
        self._out.heading([*times, "diff", *columns])

    def row(self, row: tuple[Any, ...], time: int | tuple[int, ...], diff: int) -> None:
        """A change."""
        if self._out.as_json:
            change = {"time": time, "diff": diff, "row": dict(zip(self._columns, row, strict=True))}
            self._out.more(as_json(change))
            return
        times = time if isinstance(time, tuple) else (time,)
        self._out.more("  ".join(text(value) for value in (*times, f"{diff:+d}", *row)))

    def end(self, time: int) -> None:
        """A time that is complete."""
        if not self._progress:
            self._out.flush()
        elif self._out.as_json:
            self._out.json({"complete": time})
        else:
            self._out.line(f"{time}  complete", "dim")
