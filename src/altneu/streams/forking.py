"""Forking a store: what is the fork's own from its first commit on, its streams above all."""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from altneu.errors import StoreError
from altneu.runtime.stored import StoredStream, definitions_in, session_in, streams_in
from altneu.store import (
    FORK,
    STREAMS,
    Folder,
    Json,
    Lease,
    Leases,
    LocalFolder,
    Location,
    State,
    StoreReader,
    folder_of,
    lease_end,
    lease_seconds,
    make_fork,
)
from altneu.streams.checkpoint import own_name

_TRIES = 5  # Spark may remove what it has no more use for while it is copied


def fork_store(
    path: Location,
    to: Location,
    *,
    lease: float | str | None,
    storage_options: Mapping[str, Any] = MappingProxyType({}),
    to_options: Mapping[str, Any] = MappingProxyType({}),
) -> int:
    """Make a store that begins with the last commit of another one, which may be open; returns that commit's number.

    The fork has all views, sources and definitions, and follows streams on from where the store is, with copies of
    Spark's checkpoints that are in the store's folder. It has none of the SINKs. For the time of the ``lease`` it
    retains history from then on, so that whoever follows the store may go on with the fork in its place.

    Cost, Raises: as ``make_fork``.
    """
    folder, target = folder_of(path, storage_options), folder_of(to, to_options)
    if folder.where().rstrip("/") == target.where().rstrip("/"):
        raise StoreError(f"{folder.where()} is the store itself; give the fork a folder of its own")
    reader = StoreReader(folder)
    try:
        snapshot = reader.snapshot
        needs = (
            None
            if lease is None
            else Lease(FORK, None, int(session_in(snapshot.state).get("since", 0)), lease_end(lease_seconds(lease)))
        )

        def adapted(state: State, made: Folder) -> State:
            if needs is not None:
                Leases(made.child("readers")).add(needs)
            return _adapted(state, folder, made)

        make_fork(snapshot, target, adapted)
        return snapshot.number
    finally:
        reader.close()


def _adapted(state: State, folder: Folder, fork: Folder) -> State:
    """The state of a fork: sinks stay with the store, and streams of Spark have checkpoints of their own."""
    if isinstance(fork, LocalFolder):
        shutil.rmtree(fork.path / STREAMS, ignore_errors=True)  # of a fork that was killed
    sinks = {f"sql/{name}" for name, definition in definitions_in(state).items() if definition["kind"] == "SINK"}
    streams = {f"stream/{name}": _forked(name, stream, folder, fork) for name, stream in streams_in(state).items()}
    return {key: value for key, value in state.items() if key not in sinks} | streams


def _forked(name: str, stream: StoredStream, folder: Folder, fork: Folder) -> Json:
    """The position of a stream in a fork: of a table the same; of Spark that of a query of its own.

    A checkpoint elsewhere is not copied. Its query is then one that Spark does not know, so that the fork never goes on
    with the checkpoint of the store.
    """
    query = stream["query"]
    if query is None or ":" in query:  # of a table
        return cast(Json, stream)
    own = str(uuid.uuid4())
    if copy_checkpoint(name, query, own, folder, fork):
        return cast(Json, {**stream, "query": own})
    return cast(Json, {**stream, "query": f"a fork of {query}"})


def swapped_streams(folder: Folder, fork: Folder, streams: Mapping[str, StoredStream]) -> dict[str, StoredStream]:
    """The positions of a fork's streams in its store, whose place it takes, with copies of its checkpoints there."""
    result = {**streams}
    for name, stream in streams.items():
        query, own = stream["query"], str(uuid.uuid4())
        if query is not None and ":" not in query and copy_checkpoint(name, query, own, fork, folder):
            result[name] = {**stream, "query": own}
    return result


def forget_checkpoints(folder: Folder, streams: Mapping[str, StoredStream]) -> None:
    """Remove the checkpoints of streams that were copied, but for those with which they go on."""
    if not isinstance(folder, LocalFolder):
        return
    for name, stream in streams.items():
        own, at = own_name(name), folder.path / STREAMS
        if (at / f"{own}.{stream['query']}").is_dir():
            for other in (at / own, *at.glob(f"{own}.*")):
                if other.name != f"{own}.{stream['query']}":
                    shutil.rmtree(other, ignore_errors=True)


def copy_checkpoint(name: str, query: str, called: str, folder: Folder, to: Folder) -> bool:
    """Copy the checkpoint of a query from one store to another, as that of a query ``called`` otherwise."""
    if not isinstance(folder, LocalFolder) or not isinstance(to, LocalFolder):
        return False
    own, streams = own_name(name), folder.path / STREAMS
    source = next((at for at in (streams / f"{own}.{query}", streams / own) if _id_in(at) == query), None)
    if source is None:
        return False
    target = to.path / STREAMS / f"{own}.{called}"
    for left in reversed(range(_TRIES)):
        shutil.rmtree(target, ignore_errors=True)
        try:
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.tmp", ".metadata.crc"))
            break
        except (shutil.Error, OSError) as error:
            if not left:
                raise StoreError(f"cannot copy Spark's checkpoint {source}: {error}") from error
    (target / "metadata").write_text(json.dumps({"id": called}))
    return True


def _id_in(checkpoint: Path) -> str | None:
    """The id of the query whose checkpoint a folder is."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError):
        return str(json.loads((checkpoint / "metadata").read_text())["id"])
    return None
