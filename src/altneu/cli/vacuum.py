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
        ("what would be removed, even while a session runs", "altneu vacuum --path state --dry-run"),
        ("remove the files, and list them", "altneu vacuum --path state --verbose"),
        ("the result as JSON", "altneu vacuum --path state --json"),
    ],
    shape="one object: store, dry_run, bytes, and for each of commits, segments, scratch, temporary and leases "
    "{files, bytes, names}",
)
@path_option()
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    help="The number of commits to which a damaged store can go back.",
)
@click.option("-v", "--verbose", is_flag=True, help="List every file.")
@reporting
def vacuum(out: Output, path: str, keep: int, *, dry_run: bool, verbose: bool) -> None:
    """Remove files of a store that are no longer needed.

    These are segments that no commit refers to, temporary files of killed processes, commits older than the retained
    ones, and expired leases. Files that a reader with a lease may still read stay. A session vacuums its store by
    itself, every two hundred commits; this command is for a store that no session has open, for example after a
    kill, and is refused while a session has it open.
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
