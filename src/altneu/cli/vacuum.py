"""``altneu vacuum --path STORE``."""

from __future__ import annotations

import click

from altneu.cli.command import Taught, path_option, reporting
from altneu.cli.opening import store_folder
from altneu.cli.output import Output, in_bytes
from altneu.store import vacuum_store

_KINDS = {
    "commits": "commits before those that are kept",
    "segments": "segments that no commit refers to",
    "scratch": "scratch files",
    "temporary": "files that were half written",
    "leases": "leases that ran out",
}


@click.command(
    cls=Taught,
    examples=[
        ("what would be removed, also beside a session", "altneu vacuum --path state --dry-run"),
        ("remove it, and list every file", "altneu vacuum --path state --verbose"),
        ("for a program", "altneu vacuum --path state --json"),
    ],
    shape="one object: store, dry_run, bytes, and for each of commits, segments, scratch, temporary and leases "
    "{files, bytes, names}",
)
@path_option()
@click.option("--dry-run", is_flag=True, help="Remove nothing, and say what would be.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="Commits that a damaged store can go back to.",
)
@click.option("-v", "--verbose", is_flag=True, help="Name every file.")
@reporting
def vacuum(out: Output, path: str, keep: int, *, dry_run: bool, verbose: bool) -> None:
    """Remove the files of a store that nobody needs.

    These are segments that no commit refers to, scratch, files that a process which died left half written, commits
    before those that are kept, and leases that ran out. What a reader with a lease may still read stays. A session
    vacuums its store by itself, every two hundred commits; this is for a store that no session has open, as after a
    kill, and it is refused while one has.
    """
    folder = store_folder(path)
    with out.busy("looking through the store" if dry_run else "vacuuming"):
        removed = vacuum_store(folder, keep=keep, dry_run=dry_run)
    if out.as_json:
        kinds = {
            kind: {"files": len(files), "bytes": sum(files.values()), "names": list(files)}
            for kind, files in removed.kinds.items()
        }
        out.json({"store": folder.where(), "dry_run": dry_run, "bytes": removed.bytes, **kinds})
        return
    for kind, files in removed.kinds.items():
        if files:
            out.line(f"{len(files):>8} {_KINDS[kind]}, {in_bytes(sum(files.values()))}")
            for name in sorted(files) if verbose else ():
                out.line(f"           {name}")
    verb = "would be removed" if dry_run else "removed"
    out.line(f"{in_bytes(removed.bytes)} {verb}" if any(removed.kinds.values()) else "nothing to remove")
