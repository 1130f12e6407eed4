"""What `altneu status` tells of a store, read from its last commit and its folders: no lock, no lease, no row."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from altneu.errors import AltneuError, StoreCorruptError, StoreError
from altneu.runtime.described import schema_from_text
from altneu.runtime.stored import (
    State,
    StoredDefinition,
    StoredStream,
    StoredView,
    arrangements_in,
    definitions_in,
    lower_in,
    own_in,
    session_in,
    sources_in,
    streams_in,
    views_in,
)
from altneu.sql.statements.defined import stated
from altneu.sql.statements.tree import CreateSink, CreateSource
from altneu.store import Folder, Json, Leases, LocalFolder, Snapshot, StoreReader, check_store, holder_of, vacuum_store
from altneu.store.identity import read_identity
from altneu.store.references import References, admit
from altneu.streams.record import Record
from altneu.types import to_ddl

Report = dict[str, Any]
"""A part of what ``altneu status --json`` writes."""
_ATTEMPTS = 10


def status_of(folder: Folder, *, check: bool) -> Report:
    """Everything; the members are those that ``altneu status --json`` writes."""
    version, identity = read_identity(folder)
    snapshot = StoreReader(folder, lease=None).snapshot
    state = snapshot.state
    known, lower = session_in(state), lower_in(snapshot.frontier)
    arrangements = _arrangements(snapshot)
    definitions = [*definitions_in(state).values()]
    return {
        "store": folder.where(),
        "format": version,
        "id": identity,
        **_health(folder, snapshot, check=check),
        "lock": _lock(folder),
        "commit": _commit(folder, snapshot),
        "times": {
            "lower": lower,
            "event": list(own_in(snapshot.frontier)),
            "since": int(known.get("since", 0)),
            "events": int(known.get("events", 0)),
        },
        "shards": int(known.get("shards", 0)),
        "views": _views(state, arrangements, definitions, int(known.get("since", 0))),
        "sources": _sources(state, arrangements, definitions),
        "sinks": _sinks(definitions),
        "arrangements": list(arrangements.values()),
        "files": _files(folder),
        "leases": _leases(folder),
        "streams": [_stream(name, value, lower) for name, value in streams_in(state).items()],
    }


def _health(folder: Folder, snapshot: Snapshot, *, check: bool) -> Report:
    """Whether everything that the last commit names is there, with its size; with ``check`` every byte of the store."""
    if check:
        checked = check_store(folder)
        problems = list(checked.problems)
        return {"health": "damaged" if problems else "whole", "checked": "every byte", "problems": problems}
    problems = []
    segments = folder.child("segments")
    for ref in references(snapshot).segments.values():
        try:
            size = segments.sizes([ref.name])[ref.name]
        except StoreCorruptError as error:
            if StoreReader(folder, lease=None).snapshot.number != snapshot.number:
                continue  # the writer has gone on, and may have removed it
            problems.append(str(error))
            continue
        if size != ref.bytes:
            problems.append(f"{segments.where(ref.name)} has {size} bytes where the log says {ref.bytes}")
    return {"health": "damaged" if problems else "whole", "checked": "sizes", "problems": problems}


def references(snapshot: Snapshot) -> References:
    """The data that a commit names."""
    referenced = References()
    for value in snapshot.state.values():
        admit(value, referenced)
    return referenced


def _lock(folder: Folder) -> Report:
    if not isinstance(folder, LocalFolder):
        return {"held": None, "by": None}  # an object store has no locks
    by = holder_of(folder.path / "lock")
    return {"held": by is not None, "by": by}


def _commit(folder: Folder, snapshot: Snapshot) -> Report | None:
    """The last commit; who made it is known where nobody has opened the store since."""
    history = snapshot.history(1)
    if not history:
        return None
    by = None
    if isinstance(folder, LocalFolder):
        lock = folder.path / "lock"
        if lock.is_file() and lock.stat().st_mtime <= history[0].at:
            by = lock.read_text(encoding="utf-8", errors="replace").strip() or None
    return {"number": history[0].number, "at": _time(history[0].at), "by": by, "info": dict(history[0].info)}


def _time(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.UTC).isoformat(timespec="seconds")


def _arrangements(snapshot: Snapshot) -> dict[str, Report]:
    """What each arrangement keeps, over its shards: updates, those among them that are not due yet, and bytes."""
    arrangements: dict[str, Report] = {}
    used: dict[str, list[str]] = {}
    for view, stored in views_in(snapshot.state).items():
        for name in stored["arrangements"]:
            used.setdefault(name, []).append(view)
    for name, _, value in arrangements_in(snapshot.state):
        blank = {"name": name, "views": used.get(name, []), "shards": 0, "updates": 0, "waiting": 0, "bytes": 0}
        arrangement = arrangements.setdefault(name, blank)
        arrangement["shards"] += 1
        arrangement["updates"] += sum(int(batch["rows"]) for batch in value["batches"])
        arrangement["waiting"] += sum(int(run["run"]["rows"]) - int(run["skip"]) for run in value["hold"])
        names = References()
        admit(cast(Json, value), names)
        arrangement["bytes"] += sum(ref.bytes for ref in names.segments.values())
        arrangement["bytes"] += sum(snapshot.blob(blob).nbytes for blob in names.blobs)
    return arrangements


def _views(
    state: State, arrangements: dict[str, Report], definitions: list[StoredDefinition], since: int
) -> list[Report]:
    kinds = {entry["name"]: entry["kind"] for entry in definitions}
    return [
        _view(name, view, arrangements, kinds.get(name), since)
        for name, view in views_in(state).items()
        if not name.startswith("#")
    ]


def _view(name: str, value: StoredView, arrangements: dict[str, Report], kind: str | None, since: int) -> Report:
    described = value.get("kept")  # absent in the first stores
    contents = {} if described is None else arrangements.get(described["contents"]["arrangement"], {"updates": 0})
    errors = [] if described is None else [arrangements.get(e["arrangement"], {}) for e in described["errors"]]
    return {
        "name": name,
        "kind": kind or "PYTHON",
        "since": max(since, int(value.get("since", 0))),
        "updates": contents.get("updates"),
        "errors": sum(encoded.get("updates", 0) for encoded in errors),
        "bytes": sum(arrangements.get(a, {}).get("bytes", 0) for a in value["arrangements"]),
        "arrangements": value["arrangements"],
    }


def _sources(state: State, arrangements: dict[str, Report], definitions: list[StoredDefinition]) -> list[Report]:
    """Sources of statements, and those of programs that ever had rows or whose rows are kept."""
    filled, retained = session_in(state).get("filled", []), sources_in(state)
    sources: list[Report] = []
    for definition in definitions:
        if definition["kind"] in ("SOURCE", "TABLE"):
            statement = stated(definition)
            assert isinstance(statement, CreateSource)
            sources.append(
                {
                    "name": definition["name"],
                    "kind": definition["kind"],
                    "from": str(statement.origin),
                    "columns": definition["columns"],
                    "filled": definition["name"] in filled,
                }
            )
    mine = {source["name"] for source in sources}
    for name in dict.fromkeys([*filled, *retained]):
        if name not in mine:
            columns = to_ddl(schema_from_text(retained[name]["schema"])) if name in retained else None
            sources.append(
                {"name": name, "kind": "PYTHON", "from": "INSERT", "columns": columns, "filled": name in filled}
            )
    for source in sources:
        source["retained"] = None
        if source["name"] in retained:
            source["retained"] = arrangements.get(retained[source["name"]]["arrangement"], {}).get("updates", 0)
    return sources


def _sinks(definitions: list[StoredDefinition]) -> list[Report]:
    sinks = []
    for definition in definitions:
        if definition["kind"] == "SINK":
            statement = stated(definition)
            assert isinstance(statement, CreateSink)
            sinks.append({"name": definition["name"], "from": statement.view, "into": statement.kind.upper()})
    return sinks


def _files(folder: Folder) -> Report:
    """What is on the disk, by folder, and what of it a vacuum would remove."""
    places = {place: _sizes(folder.child(place)) for place in ("log", "segments", "scratch")}
    status: Report = {place: {"files": len(sizes), "bytes": sum(sizes)} for place, sizes in places.items()}
    try:
        status["removable"] = {"bytes": vacuum_store(folder, dry_run=True).bytes}
    except StoreError as error:  # a damaged log, which health tells of
        status["removable"] = {"bytes": None, "error": str(error)}
    return status


def _sizes(folder: Folder) -> list[int]:
    if isinstance(folder, LocalFolder):
        return _sizes_of(folder.path)
    for _ in range(_ATTEMPTS):
        try:
            return list(folder.sizes(folder.names()).values())
        except StoreCorruptError:
            continue  # a file went while it was looked at
    raise StoreError(f"{folder.where()} changes faster than it can be listed; try again")


def _sizes_of(path: Path) -> list[int]:
    sizes = []
    for entry in os.scandir(path) if path.is_dir() else ():
        try:
            sizes.append(entry.stat(follow_symlinks=False).st_size)
        except FileNotFoundError:
            continue  # it went while it was looked at
    return sizes


def _leases(folder: Folder) -> list[Report]:
    leases = folder.child("readers")
    if isinstance(leases, LocalFolder) and not leases.path.is_dir():
        return []
    all_of_them = Leases(leases)
    live = {lease.file for lease in all_of_them.live()}
    encoded_leases = []
    for lease in [*all_of_them.live(), *all_of_them.over()]:
        try:
            by = all_of_them.holder(lease)
        except AltneuError:
            continue  # its reader has closed
        encoded = asdict(lease) | {"until": _time(lease.until), "live": lease.file in live, "by": by}
        encoded_leases.append(encoded)
    return encoded_leases


def _stream(name: str, value: StoredStream, lower: int) -> Report:
    """How far a stream is, and how far what it has seen lies before the session's clock."""
    record = Record.from_json(value)
    return {
        "name": name,
        "batch": record.batch,
        "piece": [record.piece, record.of],
        "rows": record.rows,
        "late": record.late,
        "seen": record.seen,
        "frontier": record.frontier,
        "behind": None if record.seen is None else max(record.seen + 1 - lower, 0),
    }
