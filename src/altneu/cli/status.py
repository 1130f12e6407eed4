"""``altneu status --path STORE``."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Any

import click

from altneu.cli.command import Taught, path_option, reporting
from altneu.cli.opening import store_folder
from altneu.cli.output import Output, in_bytes
from altneu.cli.survey import Report, status_of


@click.command(
    cls=Taught,
    examples=[
        ("the contents of a store, and the process that writes it", "altneu status --path state"),
        ("also the state of each arrangement", "altneu status --path state --verbose"),
        ("verify every byte, as JSON", "altneu status --path state --check --json"),
    ],
    exits={1: "the store cannot be read, or a part of it is damaged"},
    shape="one object: store, format, id, health, checked, problems, lock {held, by}, commit {number, at, by, info}, "
    "times {lower, event, since, events}, shards, views [{name, kind, since, updates, errors, bytes, "
    "arrangements}], sources [{name, kind, from, columns, filled, retained}], sinks [{name, from, into}], "
    "arrangements [{name, views, shards, updates, waiting, bytes}], files, leases [{name, commit, since, until, "
    "live, by}], streams [{name, batch, piece, rows, late, seen, frontier, behind}]",
)
@path_option()
@click.option("--check", is_flag=True, help="Read every byte and verify checksums; otherwise only sizes are compared.")
@click.option("-v", "--verbose", is_flag=True, help="Show arrangements, too.")
@reporting
def status(out: Output, path: str, *, check: bool, verbose: bool) -> None:
    """Show the contents of a store, its progress, and its users.

    Lists views, with the updates and bytes of their state; sources and streams, with their positions; files; readers
    with a lease; the process that writes the store. It takes no lock: a session may have the store open. The live page
    (altneu serve) shows what only a running session knows, such as subscriptions and the duration of steps.
    """
    with out.busy("reading the store"):
        report = status_of(store_folder(path), check=check)
    if out.as_json:
        out.json(report)
    else:
        _show(out, report, verbose=verbose)
    if report["problems"]:
        sys.exit(1)


def _show(out: Output, status: Report, *, verbose: bool) -> None:
    out.line(f"store    {status['store']}, format {status['format']}")
    out.line(f"health   {status['health']} ({status['checked']} compared)")
    for problem in status["problems"]:
        out.line(f"         {problem}", "red")
    if status["problems"]:
        out.line("         put these files back from a copy, or open it with recover=True (docs/stores.md)")
    lock = status["lock"]
    writer = (
        "unknown, because an object store has no lock" if lock["held"] is None else lock["by"] or "nobody has it open"
    )
    out.line(f"writer   {writer}")
    commit = status["commit"]
    if commit is None:
        out.line("commit   none yet")
    else:
        by = f" by {commit['by']}" if commit["by"] else ""
        out.line(f"commit   {commit['number']}, {_ago(commit['at'])}{by}")
    times = status["times"]
    closed = f"closed up to {times['lower'] - 1}, retained from {times['since']} on"
    out.line(f"times    {closed if times['lower'] else 'none closed yet'}; shards: {status['shards']}")
    files = status["files"]
    sizes = ", ".join(f"{files[p]['files']} in {p} ({in_bytes(files[p]['bytes'])})" for p in ("log", "segments"))
    out.line(f"files    {sizes}{_removable(files)}")
    _grid(out, "view", status["views"], ["name", "kind", "updates", "errors", "bytes", "since"])
    _grid(out, "source", status["sources"], ["name", "kind", "from", "filled", "retained"])
    _grid(out, "sink", status["sinks"], ["name", "from", "into"])
    _grid(out, "stream", status["streams"], ["name", "batch", "rows", "late", "seen", "frontier", "behind"])
    _grid(out, "reader", status["leases"], ["name", "by", "commit", "since", "until"])
    if verbose:
        _grid(out, "arrangement", status["arrangements"], ["name", "views", "shards", "updates", "waiting", "bytes"])


def _removable(files: Report) -> str:
    removable = files["removable"]["bytes"]
    return f"; a vacuum would free {in_bytes(removable)}" if removable else ""


def _ago(at: str) -> str:
    seconds = (dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(at)).total_seconds()
    for unit, size in (("day", 86400), ("hour", 3600), ("minute", 60)):
        if seconds >= size:
            count = int(seconds // size)
            return f"{at}, {count} {unit}{'' if count == 1 else 's'} ago"
    return f"{at}, {max(seconds, 0):.0f} seconds ago"


def _grid(out: Output, what: str, rows: list[Report], columns: list[str]) -> None:
    if not rows:
        return
    out.line()
    numeric = [any(isinstance(row[c], int) and not isinstance(row[c], bool) for row in rows) for c in columns]
    out.grid([what, *columns[1:]], [[_shown(c, row[c]) for c in columns] for row in rows], numeric)


def _shown(column: str, value: Any) -> Any:
    if value is None:
        return "-"
    if column == "bytes":
        return in_bytes(value)
    if isinstance(value, bool):
        return "yes" if value else "not yet"
    return ", ".join(value) if isinstance(value, list) else value
