"""Durable state: immutable segments and a commit log, and the same in memory.

``DirectoryStore`` keeps a session in a folder, ``MemoryStore`` in memory; both are a ``Store``. ``write_segment`` and
``open_segment`` are for the processes that compute.
"""

from altneu.store.base import CommitInfo, Store, Vacuumed
from altneu.store.directory import DirectoryStore
from altneu.store.folder import Folder, LocalFolder
from altneu.store.fork import (
    FORK,
    STREAMS,
    State,
    fork_of,
    in_other_names,
    make_fork,
    named_blobs,
    renamed,
    root_of,
    share_segments,
)
from altneu.store.leases import HeldLease, Lease, Leases, lease_end, lease_seconds, least_commit, least_since
from altneu.store.locate import Location, folder_of
from altneu.store.lock import holder_of
from altneu.store.memory import MemoryStore
from altneu.store.orphans import RemovedFiles, vacuum_store
from altneu.store.reader import Snapshot, StoreReader
from altneu.store.references import Admitted, Json, SegmentRef
from altneu.store.segments import SegmentWriter, Verify, forget_segments, open_segment, write_segment
from altneu.store.survey import StoreCheck, check_store
from altneu.store.windows import read_between, read_blocks

__all__ = [
    "FORK",
    "STREAMS",
    "Admitted",
    "CommitInfo",
    "DirectoryStore",
    "Folder",
    "HeldLease",
    "Json",
    "Lease",
    "Leases",
    "LocalFolder",
    "Location",
    "MemoryStore",
    "RemovedFiles",
    "SegmentRef",
    "SegmentWriter",
    "Snapshot",
    "State",
    "Store",
    "StoreCheck",
    "StoreReader",
    "Vacuumed",
    "Verify",
    "check_store",
    "folder_of",
    "forget_segments",
    "fork_of",
    "holder_of",
    "in_other_names",
    "lease_end",
    "lease_seconds",
    "least_commit",
    "least_since",
    "make_fork",
    "named_blobs",
    "open_segment",
    "read_between",
    "read_blocks",
    "renamed",
    "root_of",
    "share_segments",
    "vacuum_store",
    "write_segment",
]
