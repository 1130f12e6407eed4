"""Parquet as a target: files of changes, or a table whose readers see one complete version at every moment."""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.engine.reading import updates_table
from altneu.errors import SchemaError, SinkError
from altneu.order import Epoch
from altneu.sinks.base import Mark, Mode, Sink, refuse_negative, sole_writer
from altneu.store import LocalFolder, folder_of
from altneu.trace.update import Updates, consolidate
from altneu.types import to_ddl

if TYPE_CHECKING:
    from altneu.engine.reading import OnErrors
from altneu.views.view import View

TABLE = "_altneu.json"  # what begins with an underscore is no data to Spark, Arrow and DuckDB
_RANGE = re.compile(r"changes-(\d{19})-(\d{19})\.parquet", re.ASCII)
_PART = re.compile(r"part-\d{5}-[0-9a-f]{32}\.parquet", re.ASCII)
_LARGEST = 1 << 30
_FORMAT = 1
_EMPTY = Epoch()


@dataclass(frozen=True)
class Version:
    """The contents of a target's pointer file.

    Shape:  ``files`` has the file of each bucket with rows; ``old`` the files of earlier versions that readers may
            still have open, oldest first.
    """

    mark: Mark
    schema: str
    mode: str
    key: tuple[str, ...]
    buckets: int
    files: dict[int, str] = field(default_factory=dict)
    old: tuple[tuple[str, ...], ...] = ()

    def to_bytes(self) -> bytes:
        """The text of the pointer file."""
        said = {
            "format": _FORMAT,
            "store": self.mark.store,
            "view": self.mark.view,
            "frontier": self.mark.frontier,
            "schema": self.schema,
            "mode": self.mode,
            "key": list(self.key),
            "buckets": self.buckets,
            "files": {str(bucket): name for bucket, name in sorted(self.files.items())},
            "old": [list(names) for names in self.old],
        }
        return (json.dumps(said, indent=1) + "\n").encode("ascii")

    @classmethod
    def from_bytes(cls, data: memoryview, where: str) -> Version:
        """Parse the text of a pointer file.

        Raises:
            SinkError: it is not a pointer file.
        """
        try:
            said: Any = json.loads(bytes(data))
            files = {int(bucket): str(name) for bucket, name in said["files"].items()}
            old = tuple(tuple(map(str, names)) for names in said["old"])
            strange = [n for names in (files.values(), *old) for n in names if not _PART.fullmatch(n)]
            mark = Mark(str(said["store"]), str(said["view"]), int(said["frontier"]))
            rest = said["schema"], said["mode"], tuple(said["key"]), int(said["buckets"])
            fits = said["format"] == _FORMAT and not strange
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise SinkError(f"{where} does not say what a table is made of: {error}") from error
        if not fits:
            raise SinkError(f"{where} has a format that this version does not know, or names files outside the table")
        return cls(mark, *rest, files, old)


class ParquetSink(Sink):
    """A folder of Parquet files; see ``altneu.sinks.parquet``."""

    def __init__(
        self,
        view: View,
        path: str | os.PathLike[str],
        mode: Mode,
        key: Sequence[str],
        *,
        errors: OnErrors,
        lease: float | str,
        buckets: int,
        keep: int,
    ) -> None:
        super().__init__(view, mode, key, errors, lease)
        counts: list[tuple[str, Any, int]] = [("buckets", buckets, 1), ("keep", keep, 0)]
        for option, value, least in counts:
            if not isinstance(value, int) or value < least:
                raise SinkError(f"{option} must be a whole number of at least {least}, got {value!r}")
        folder = folder_of(path)
        if not isinstance(folder, LocalFolder):
            raise SinkError(
                f"{folder.where()} is not on a local disk; use spark.readStream with format altneu to write there"
            )
        self._folder, self._buckets, self._keep = folder, buckets, keep
        self._names = (*self.followed.time_names(), "diff")
        if mode == "append":
            self.followed.check_names(self._names)
        folder.make()

    @property
    def where(self) -> str:
        """The folder."""
        return self._folder.where()

    def _version(self) -> Version | None:
        if not self._folder.has(TABLE):
            return None
        version = Version.from_bytes(self._folder.read(TABLE), self._folder.where(TABLE))
        mine = (self.mode, self.key, to_ddl(self.view.schema))
        if (version.mode, version.key, version.schema) != mine:
            raise SinkError(
                f"{self.where} was created with mode={version.mode!r}, key={list(version.key)} and columns "
                f"{version.schema}; use the same, or choose another folder"
            )
        return version

    def mark(self) -> Mark | None:
        """The mark; in mode "append" it is read from the names of the files, in case the pointer was not written."""
        version = self._version()
        if self.mode != "append":
            return None if version is None else version.mark
        ends = [int(match[2]) for name in self._folder.names() if (match := _RANGE.fullmatch(name))]
        if not ends:
            return None if version is None else version.mark
        if version is None:
            return self._mark_of(max(ends))
        return version.mark if version.mark.frontier >= max(ends) else self._mark_of(max(ends))

    def _mark_of(self, end: int) -> Mark:
        """The mark in the last file of changes."""
        name = next(n for n in self._folder.names() if (match := _RANGE.fullmatch(n)) and int(match[2]) == end)
        said = pq.read_schema(self._folder.path / name).metadata or {}
        return Mark(said.get(b"altneu.store", b"").decode(), said.get(b"altneu.views.view", b"").decode(), end)

    def contents(self) -> Updates:
        """The rows of the target."""
        schema = self.view.schema
        if self.mode != "append":
            version = self._version()
            tables = [self._read(name) for name in version.files.values()] if version is not None else []
            rows = Rows.concat([Rows.from_batch(table) for table in tables], schema)
            return _counted(rows, np.ones(rows.count, np.int64))
        names = [name for name in self._folder.names() if _RANGE.fullmatch(name)]
        parts = [pq.read_table(self._folder.path / name).combine_chunks() for name in names]
        whole = pa.concat_tables(parts) if parts else None
        if whole is None:
            return Updates.empty(schema, 1)
        return _counted(Rows.from_batch(whole.select(schema.names).cast(schema)), whole["diff"].to_numpy())

    def _read(self, name: str) -> pa.Table:
        return pq.read_table(self._folder.path / name, partitioning=None).cast(self.view.schema)

    def apply(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        """Write the changes; they take effect when the pointer, or the file of changes, gets its final name."""
        with sole_writer(self, self._folder, before):
            if self.mode == "append":
                self._append(updates, before, after)
            else:
                self._merge(updates, after)

    def _append(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        start = 0 if before is None else before.frontier
        if len(updates):
            table = updates_table(updates, self._names[:-1], self._names[-1])
            said = {"altneu.store": after.store, "altneu.views.view": after.view}
            self._put(f"changes-{start:019d}-{after.frontier:019d}.parquet", table.replace_schema_metadata(said))
        version = Version(after, to_ddl(self.view.schema), self.mode, self.key, 0)
        self._folder.put(TABLE, version.to_bytes())
        self._folder.sync()

    def _merge(self, updates: Updates, after: Mark) -> None:
        known = self._version() or Version(after, to_ddl(self.view.schema), self.mode, self.key, self._buckets)
        files, replaced = dict(known.files), []
        for bucket, part in self._by_bucket(updates, known.buckets):
            if bucket in files:
                replaced.append(files[bucket])
            rows = self._merged(files.pop(bucket, None), part)
            if rows.count:
                name = f"part-{bucket:05d}-{uuid.uuid4().hex}.parquet"
                self._put(name, pa.Table.from_batches([rows.to_batch()]))
                files[bucket] = name
        old = (*known.old, tuple(replaced)) if replaced else known.old
        old = old[-self._keep :] if self._keep else ()
        version = Version(after, known.schema, self.mode, self.key, known.buckets, files, old)
        self._folder.sync()
        self._folder.put(TABLE, version.to_bytes())
        self._folder.sync()
        self._clear(version)

    def _by_bucket(self, updates: Updates, buckets: int) -> Iterator[tuple[int, Updates]]:
        of_key = updates.rows.select(self.key or updates.schema.names)
        bucket = hash_rows(of_key) % np.uint64(buckets)
        for number in np.unique(bucket).tolist():
            yield int(number), updates.filter(np.asarray(bucket == number))

    def _merged(self, name: str | None, part: Updates) -> Rows:
        """The rows of one bucket after its changes."""
        there = Rows.empty(part.schema) if name is None else Rows.from_batch(self._read(name))
        before = Updates(there, np.zeros((1, there.count), np.int64), np.ones(there.count, np.int64))
        after = consolidate(Updates.concat([before, part], part.schema, 1), _EMPTY)
        refuse_negative(after, self.view.name)
        rows = after.rows.take(np.repeat(np.arange(len(after)), after.diffs))
        if self.key:
            self._check_keys(rows)
        return rows

    def _check_keys(self, rows: Rows) -> None:
        keys = rows.select(self.key)
        ones = Updates(keys, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64))
        counts = consolidate(ones, _EMPTY)
        twice = np.flatnonzero(counts.diffs > 1)
        if len(twice):
            key = dict(zip(self.key, counts.rows.take(twice[:1]).to_pylist()[0], strict=True))
            raise SinkError(
                f"view {self.view.name!r} has {counts.diffs[twice[0]]} rows of key {key}; choose a key that identifies "
                'each row, or mode="merge"'
            )

    def _put(self, name: str, table: pa.Table) -> None:
        sink = pa.BufferOutputStream()
        try:
            pq.write_table(table, sink)
        except pa.ArrowNotImplementedError as error:
            raise SchemaError(f"view {self.view.name!r} has a column that Parquet cannot hold: {error}") from error
        self._folder.put(name, memoryview(sink.getvalue()))

    def _clear(self, version: Version) -> None:
        """Remove files that are in none of the retained versions, and unfinished files."""
        named = {*version.files.values(), *(name for names in version.old for name in names)}
        for name in self._folder.names():
            if _PART.fullmatch(name) and name not in named:
                self._folder.remove(name)
        self._folder.clear_unfinished()

    def files(self) -> list[str]:
        """The files of the present version, for any reader; they stay for the next ``keep`` versions."""
        return parquet_files(self._folder.path)


def _counted(rows: Rows, diffs: Ints) -> Updates:
    return consolidate(Updates(rows, np.zeros((1, rows.count), np.int64), np.asarray(diffs, np.int64)), _EMPTY)


def parquet_files(path: str | os.PathLike[str]) -> list[str]:
    """The files of a sink's table, all of one version: ``spark.read.parquet(*parquet_files(path))``.

    Raises:
        SinkError: the folder has no table of a sink.
    """
    folder = LocalFolder(Path(path))
    if not folder.has(TABLE):
        raise SinkError(f"{folder.where()} is not a table of a sink: it has no {TABLE}")
    version = Version.from_bytes(folder.read(TABLE), folder.where(TABLE))
    if version.mode == "append":
        return [folder.where(name) for name in folder.names() if _RANGE.fullmatch(name)]
    return [folder.where(name) for name in version.files.values()]
