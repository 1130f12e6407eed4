"""What `altneu status` tells of a store, read from its last commit and its folders: no lock, no lease, no row."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from altneu.errors import AltneuError, StoreCorruptError, StoreError
from altneu.runtime.described import schema_from_text
from altneu.sql.statements import parse
from altneu.sql.statements.tree import CreateSink, CreateSource
from altneu.store import Folder, Leases, LocalFolder, Snapshot, StoreReader, check_store, holder_of, vacuum_store
from altneu.store.identity import read_identity
from altneu.store.references import References, admit
from altneu.streams.record import Record
from altneu.types import to_ddl

Json = dict[str, Any]
_ATTEMPTS = 10


def status_of(folder: Folder, *, check: bool) -> Json:
    """Everything; the members are those that ``altneu status --json`` writes."""
    version, identity = read_identity(folder)
    snapshot = StoreReader(folder, lease=None).snapshot
    state: Mapping[str, Any] = snapshot.state
    known = state.get("session", {})
    frontier: Any = snapshot.frontier
    lower = int(frontier[0][0]) if frontier else 0
    arrangements = _arrangements(snapshot)
    definitions = [value for key, value in state.items() if key.startswith("sql/")]
    return {
        "store": folder.where(),
        "format": version,
        "id": identity,
        **_health(folder, snapshot, check=check),
        "lock": _lock(folder),
        "commit": _commit(folder, snapshot),
        "times": {"lower": lower, "since": int(known.get("since", 0)), "events": int(known.get("events", 0))},
        "shards": int(known.get("shards", 0)),
        "views": _views(state, arrangements, definitions, int(known.get("since", 0))),
        "sources": _sources(state, arrangements, definitions),
        "sinks": _sinks(definitions),
        "arrangements": list(arrangements.values()),
        "files": _files(folder),
        "leases": _leases(folder),
        "streams": [_stream(key[7:], value, lower) for key, value in state.items() if key.startswith("stream/")],
    }


def _health(folder: Folder, snapshot: Snapshot, *, check: bool) -> Json:
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


def _lock(folder: Folder) -> Json:
    if not isinstance(folder, LocalFolder):
        return {"held": None, "by": None}  # an object store has no locks
    by = holder_of(folder.path / "lock")
    return {"held": by is not None, "by": by}


def _commit(folder: Folder, snapshot: Snapshot) -> Json | None:
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


def _arrangements(snapshot: Snapshot) -> dict[str, Json]:
    """What each arrangement keeps, over its shards: updates, those among them that are not due yet, and bytes."""
    arrangements: dict[str, Json] = {}
    state: Mapping[str, Any] = snapshot.state
    used: dict[str, list[str]] = {}
    for key, value in state.items():
        if key.startswith("view/"):
            for name in value["arrangements"]:
                used.setdefault(name, []).append(key[5:])
    for key, value in state.items():
        if not key.startswith("arrangement/"):
            continue
        _, name, _ = key.split("/")
        blank = {"name": name, "views": used.get(name, []), "shards": 0, "updates": 0, "waiting": 0, "bytes": 0}
        arrangement = arrangements.setdefault(name, blank)
        arrangement["shards"] += 1
        arrangement["updates"] += sum(int(batch["rows"]) for batch in value["batches"])
        arrangement["waiting"] += sum(int(run["run"]["rows"]) - int(run["skip"]) for run in value["hold"])
        names = References()
        admit(value, names)
        arrangement["bytes"] += sum(ref.bytes for ref in names.segments.values())
        arrangement["bytes"] += sum(snapshot.blob(blob).nbytes for blob in names.blobs)
    return arrangements


def _views(state: Mapping[str, Any], arrangements: dict[str, Json], definitions: list[Json], since: int) -> list[Json]:
    kinds = {entry["name"]: entry["kind"] for entry in definitions}
    return [
        _view(key[5:], value, arrangements, kinds.get(key[5:]), since)
        for key, value in state.items()
        if key.startswith("view/") and not key.startswith("view/#")
    ]


def _view(name: str, value: Json, arrangements: dict[str, Json], kind: str | None, since: int) -> Json:
    described = value.get("kept")  # absent in the first stores
    contents = {} if described is None else arrangements.get(described["contents"]["arrangement"], {"updates": 0})
    errors = [arrangements.get(encoded["arrangement"], {}) for encoded in (described or {}).get("errors", ())]
    return {
        "name": name,
        "kind": kind or "PYTHON",
        "since": max(since, int(value.get("since", 0))),
        "updates": contents.get("updates"),
        "errors": sum(encoded.get("updates", 0) for encoded in errors),
        "bytes": sum(arrangements.get(a, {}).get("bytes", 0) for a in value["arrangements"]),
        "arrangements": value["arrangements"],
    }


def _sources(state: Mapping[str, Any], arrangements: dict[str, Json], definitions: list[Json]) -> list[Json]:
    """Sources of statements, and those of programs that ever had rows or whose rows are kept."""
    filled = state.get("session", {}).get("filled", [])
    retained = {key[5:]: value for key, value in state.items() if key.startswith("kept/")}
    sources = []
    for definition in definitions:
        if definition["kind"] in ("SOURCE", "TABLE"):
            statement: Any = parse(definition["text"])[0]
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
    mine = {definition["name"] for definition in sources}
    for name in dict.fromkeys([*filled, *retained]):
        if name not in mine:
            columns = to_ddl(schema_from_text(retained[name]["schema"])) if name in retained else None
            sources.append(
                {"name": name, "kind": "PYTHON", "from": "INSERT", "columns": columns, "filled": name in filled}
            )
    for definition in sources:
        definition["retained"] = None
        if definition["name"] in retained:
            definition["retained"] = arrangements.get(retained[definition["name"]]["arrangement"], {}).get("updates", 0)
    return sources


def _sinks(definitions: list[Json]) -> list[Json]:
    sinks = []
    for definition in definitions:
        if definition["kind"] == "SINK":
            statement: Any = parse(definition["text"])[0]
            assert isinstance(statement, CreateSink)
            sinks.append({"name": definition["name"], "from": statement.view, "into": statement.kind.upper()})
    return sinks


def _files(folder: Folder) -> Json:
    """What is on the disk, by folder, and what of it a vacuum would remove."""
    places = {place: _sizes(folder.child(place)) for place in ("log", "segments", "scratch")}
    status: Json = {place: {"files": len(sizes), "bytes": sum(sizes)} for place, sizes in places.items()}
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


def _leases(folder: Folder) -> list[Json]:
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


def _stream(name: str, value: Json, lower: int) -> Json:
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
