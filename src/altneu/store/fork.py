"""Forks: a store that begins with the state of another one and shares its segments.

Segments are never changed, so two stores may have the same ones: each folder has a name of its own for each, and each
store's vacuum removes only its own names. Neither store knows, or needs, the other.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from altneu.errors import StoreError, StoreLockedError
from altneu.store.commit import RECOVERED, Commit
from altneu.store.directory import FOLDERS, make_folders
from altneu.store.folder import Folder
from altneu.store.identity import FILE, make_identity, read_identity
from altneu.store.log import CommitLog
from altneu.store.reader import Snapshot
from altneu.store.references import Json, References, admit, segment_name

FORK = "fork"  # the key that tells of which store a store is a fork, as of which commit
STREAMS = "streams"  # the folder with Spark's checkpoints
State = dict[str, Json]


def make_fork(snapshot: Snapshot, folder: Folder, adapt: Callable[[State, Folder], State]) -> None:
    """Make a store in an empty folder that begins with the state of a commit of another one.

    Its first commit is a checkpoint with the next number; ``adapt`` changes its state, and may write into the folder
    ``streams/``. ``format.json`` is written last, and before that there is no store: what a fork that was killed has
    left is removed by the next one. Whoever calls it protects the files of the snapshot by a lease.

    Cost:   one link (on an object store one copy, inside it) for each segment that the state names, and one commit; no
            segment is read.
    Law:    killed anywhere and run again, the result is the same, and the store that is forked is as before
            (tests/store/test_fork.py).

    Raises:
        StoreError: the folder has files already, or is on another file system.
        StoreLockedError: another process makes a store there.
    """
    folder.make()
    folder = folder.probed()
    make_folders(folder, (STREAMS,))
    for name in FOLDERS:
        folder.child(name).check()
    writer = folder.writer()
    try:
        if folder.has(FILE):
            raise StoreError(f"{folder.where()} has a store already; give the fork a folder of its own")
        for place in (folder.child(name) for name in FOLDERS):
            for name in place.names():
                place.remove(name)
        identity = uuid.uuid4().hex
        share_segments(snapshot, folder, {})
        folder.child("segments").sync()
        whole = {key: value for key, value in snapshot.state.items() if key != RECOVERED}
        earlier = fork_of(snapshot.state)["of"]
        told: Json = {"of": [*earlier, root_of(snapshot.identity)], "commit": snapshot.number}
        state = adapt({**whole, FORK: told}, folder)
        number = snapshot.number + 1
        commit = Commit(
            number=number,
            transaction=uuid.uuid4().hex,
            parent=snapshot.digest if number > 1 else identity,
            at=time.time(),
            checkpoint=True,
            frontier=snapshot.frontier,
            set=state,
            info={"forked": told},
            blobs=named_blobs(state, snapshot.blobs()),
        )
        CommitLog(folder.child("log"), identity).put(commit)
        make_identity(folder, identity)
        if read_identity(folder)[1] != identity:
            raise StoreLockedError(f"another process has made a store in {folder.where()}")
        folder.sync()
        folder.sync_parent()
    finally:
        writer.release()


def root_of(identity: str) -> str:
    """The id that a store was made with, of its identity, or of that of a view's history.

    >>> root_of("6f0c.17/3")
    '6f0c'
    """
    return identity.partition("/")[0].partition(".")[0]


def fork_of(state: Mapping[str, Json]) -> dict[str, Any]:
    """Of which stores a store is a fork, the nearest last, and as of which commit of that; of none by default."""
    value = state.get(FORK)
    return value if isinstance(value, dict) else {"of": [], "commit": 0}


def share_segments(snapshot: Snapshot, folder: Folder, names: Mapping[str, str]) -> None:
    """Have the segments of a snapshot in the folder of another store too, some under other ``names``."""
    mine, other = snapshot.segment_directory, folder.child("segments")
    there = set(other.names())
    for name in snapshot.segments:
        if (called := names.get(name, name)) not in there:
            mine.share(name, other, called)


def renamed(snapshot: Snapshot, live: Mapping[str, str], number: int) -> dict[str, str]:
    """The names that the segments of a snapshot get in another store, whose commit ``number`` names them.

    ``live`` are the names of that store's segments by their checksums; others get the number of the commit, as the
    segments that a step writes.
    """
    refs = snapshot.segments.values()
    return {ref.name: live.get(ref.checksum, segment_name(number, ref.checksum)) for ref in refs}


def in_other_names(value: Any, segments: Mapping[str, str], blobs: Callable[[str], str]) -> Any:
    """A value of the state with other names for the segments and blobs in it."""
    if isinstance(value, list):
        return [in_other_names(part, segments, blobs) for part in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1 and "blob" in value:
        return {"blob": blobs(value["blob"])}
    if len(value) == 1 and "segment" in value:
        inner = value["segment"]
        return {"segment": {**inner, "name": segments[inner["name"]]}}
    return {key: in_other_names(part, segments, blobs) for key, part in value.items()}


def named_blobs(state: State, blobs: Mapping[str, memoryview]) -> dict[str, memoryview]:
    """Those of some blobs that a state names."""
    found = References()
    for value in state.values():
        admit(value, found)
    return {name: blob for name, blob in blobs.items() if name in found.blobs}
