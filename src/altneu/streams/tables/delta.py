"""A Delta table that is followed: its log is read here, its files with Arrow, and no JVM is needed.

What a version changes is in its entry of the log. If that names files of changes, as a table with a change feed has
them, these are read; otherwise the files that the version added and removed: with 1 and -1 their rows add up to the
change. Checkpoints, deletion vectors and object stores are deltalake's work.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pf
import pyarrow.parquet as pq
from pyarrow import types as pt

from altneu.errors import InputError, PlanError, SchemaError, StreamError
from altneu.errors.extras import require
from altneu.runtime.memory import bytes_in
from altneu.streams.tables.base import DIFF, STEP_BYTES, DataFile, Part, Version, instant, other_columns, together

if TYPE_CHECKING:
    from deltalake import DeltaTable

_CHANGE, _GONE = "_change_type", ("delete", "update_preimage")
_READ = frozenset(  # features of a table that change how it is read, and are known here
    {
        "columnMapping",
        "deletionVectors",
        "timestampNtz",
        "typeWidening",
        "typeWidening-preview",
        "v2Checkpoint",
        "variantType",  # of columns that are not read: deltalake gives it to tables that have none
        "variantType-preview",
        "vacuumProtocolCheck",
    }
)


def _has_variants(kind: object) -> bool:
    """Whether a type, as the log of a table says it, is a variant or has one inside."""
    if not isinstance(kind, dict):
        return kind == "variant"
    inner = [kind.get(name) for name in ("elementType", "keyType", "valueType")]
    return any(map(_has_variants, [*inner, *(field["type"] for field in kind.get("fields", ()))]))


@dataclass(frozen=True)
class Delta:
    """A Delta table for ``session.follow``; see ``altneu.delta``."""

    path: str
    from_version: int | None
    from_timestamp: str | None
    snapshot: bool
    step_bytes: int
    storage_options: Mapping[str, str] = field(repr=False)  # they may have passwords

    def __str__(self) -> str:
        return f"Delta table {self.path!r}"

    def schema(self, version: int | None = None) -> pa.Schema:
        """The columns of the present version, or of another one.

        Raises:
            InputError: there is no such table.
            StreamError: it cannot be read.
        """
        return pa.schema(_opened(self, version).schema().to_arrow())

    def open(
        self,
        source: str,
        columns: Sequence[str],
        check: Callable[[pa.Schema], pa.Schema],
        position: tuple[int, str] | None,
    ) -> FollowedDelta:
        """Open the table for a source.

        Raises:
            InputError: there is no such table or version.
            SchemaError: a column is not in the table, or of another type.
            StreamError: the table has a feature that is not known.
        """
        return FollowedDelta(self, source, columns, check, position)


def delta(
    path: str | os.PathLike[str],
    *,
    from_version: int | None = None,
    from_timestamp: str | datetime | None = None,
    snapshot: bool = True,
    max_bytes: int | str = STEP_BYTES,
    storage_options: Mapping[str, str] | None = None,
) -> Delta:
    """A Delta table that a session follows: ``session.follow(orders=an.delta(path))``.

    The source first gets all rows of the table's present version, or of ``from_version``, or of the one that was
    present at ``from_timestamp`` (ISO 8601, in UTC if it has no offset); then what each later version changes, in a
    step and at a time of its own.
    With ``snapshot=False`` it begins with the changes after that version. Where a stream goes on, its position counts
    and not these arguments.

    A step reads about ``max_bytes`` of files: a larger version is divided, and the files of one partition that it both
    adds and removes stay together. ``storage_options`` are deltalake's, for object stores.

    Cost:   of a version with files of changes, these are read; otherwise the files that it added and removed.
    Law:    at each time the source has the rows of a version (tests/session/test_follow_delta.py).

    Raises:
        InputError: arguments that contradict each other.
        MissingExtraError: deltalake is not installed: ``pip install 'altneu[delta]'``.

    >>> import altneu as an, pyarrow as pa, tempfile
    >>> from deltalake import DeltaTable, write_deltalake
    >>> path = tempfile.mkdtemp()
    >>> write_deltalake(path, pa.table({"item": ["tea", "jam"], "price": [3, 5]}))
    >>> orders = an.source("orders", "item string, price long")
    >>> with an.Session() as session:
    ...     total = session.maintain("total", orders.group_by().agg(total="sum(price)"))
    ...     for price in (4, 7):
    ...         _ = DeltaTable(path).update(updates={"price": str(price)}, predicate="item = 'tea'")
    ...         with session.follow(orders=an.delta(path), available_now=True) as following:
    ...             _ = following.wait()
    ...         print(total.to_pylist(), following.status["orders"].batch)
    [(9,)] 1
    [(12,)] 2
    """
    require("delta", "following a Delta table")
    if from_version is not None and from_timestamp is not None:
        raise InputError("delta begins at from_version= or at from_timestamp=, not at both; leave one of them out")
    if from_version is not None and (type(from_version) is not int or from_version < 0):
        raise InputError(f"from_version must be a version of the table, from 0 on, got {from_version!r}")
    if not isinstance(snapshot, bool):
        raise InputError(f"snapshot must be True or False, got {snapshot!r}")
    try:
        most = bytes_in(max_bytes)
    except PlanError:
        raise InputError(f'max_bytes must be a number of bytes such as 1000000 or "64m", got {max_bytes!r}') from None
    at = None if from_timestamp is None else instant(from_timestamp)
    return Delta(os.fspath(path), from_version, at, snapshot, most, dict(storage_options or {}))


@dataclass(frozen=True)
class _File(DataFile):
    """A file of a version.

    Shape:  ``sign`` is 1 if the version added the file, -1 if it removed it, and None for a file of changes, which says
            it for each row. ``partition`` has the texts of the columns that are not in the file. ``masked`` is the
            version whose deletion vectors say which rows of the file count; None: all do.
    """

    sign: int | None
    partition: Mapping[str, str | None] = field(default_factory=dict)
    masked: int | None = None


@dataclass(frozen=True)
class _Columns:
    """The columns of a version: their types, what files call them, and which of them are not in files."""

    schema: pa.Schema
    in_files: Mapping[str, str]
    partitions: frozenset[str]


class FollowedDelta:
    """The versions of a Delta table, for one stream."""

    def __init__(
        self,
        given: Delta,
        source: str,
        columns: Sequence[str],
        check: Callable[[pa.Schema], pa.Schema],
        position: tuple[int, str] | None,
    ) -> None:
        require("delta", "following a Delta table")
        self._given, self._source, self._names, self._check = given, source, list(columns), check
        self._table = self._open(None)
        self._id = str(self._table.metadata().id)
        self._masks: dict[int, dict[str, Any]] = {}
        try:
            self._columns = self._declared(self._at(self.first() if position is None else position[0]))
        except SchemaError:
            if position is None or not self._is_fit_later(position[0] + 1):
                raise

    def _is_fit_later(self, version: int) -> bool:
        """Whether the source's columns are those that the next version declares: changed as those of the table.

        Raises:
            StreamError: it has renamed columns and written rows anew: those that it removed have the former names.
        """
        actions = self._actions(version) or []
        declared = next((action["metaData"] for action in actions if "metaData" in action), None)
        if declared is None:
            return False
        self._read_metadata(declared, version)
        before = {field.name for field in self._at(version - 1).schema().fields}
        is_mapped = (declared.get("configuration") or {}).get("delta.columnMapping.mode") == "name"
        gone, fresh = before - {*self._columns.schema.names}, {*self._names} - before
        if gone and fresh and not is_mapped and any("remove" in action for action in actions):
            raise StreamError(
                f"version {version} of {self.where} has {', '.join(sorted(fresh))} where it had "
                f"{', '.join(sorted(gone))}, and wrote its rows anew. Which is which is not said, so that the rows "
                f"that it removed are not known to source {self._source!r}: drop the source and make it again"
            )
        return True

    def _at(self, version: int) -> DeltaTable:
        """The table at a version, and where that is gone as it is now: then its changes tell what is missing."""
        if version > int(self._table.version()):
            return self._table
        try:
            return self._open(version)
        except StreamError:
            return self._table

    def _declared(self, table: DeltaTable) -> _Columns:
        """The columns of the table at a version.

        Raises:
            StreamError: it has a feature that is not known.
            SchemaError: its columns are not those that are read.
        """
        protocol, metadata = table.protocol(), table.metadata()
        self._read_features(protocol.min_reader_version, protocol.reader_features)
        return self._columns_of(table.schema(), metadata.partition_columns, metadata.configuration)

    @property
    def identity(self) -> str:
        """The id that the table got when it was created."""
        return f"delta:{self._id}"

    @property
    def where(self) -> str:
        """The table, as messages name it."""
        return f"Delta table {self._given.path}"

    def _open(self, version: int | None) -> DeltaTable:
        return _opened(self._given, version)

    # which versions -------------------------------------------------------------------------------------------------

    def latest(self) -> int:
        """The newest version."""
        self._table.update_incremental()
        return int(self._table.version())

    def first(self) -> int:
        """The version with which to begin.

        Raises:
            InputError: the table does not have it, or not yet.
        """
        latest, given = self.latest(), self._given
        if given.from_version is not None:
            if given.from_version > latest:
                raise InputError(
                    f"from_version={given.from_version} of source {self._source!r} is not there yet: {self.where} has "
                    f"the versions up to {latest}"
                )
            return given.from_version
        if given.from_timestamp is None:
            return latest
        at = self._open(None)
        at.load_as_version(given.from_timestamp)
        version = int(at.version())
        began = self._committed(version)
        if began is not None and began > datetime.fromisoformat(given.from_timestamp).timestamp() * 1000:
            raise InputError(
                f"from_timestamp={given.from_timestamp!r} of source {self._source!r} is before the first version of "
                f"{self.where} that is left, {version}"
            )
        return version

    def _committed(self, version: int) -> int | None:
        """When a version was committed, in milliseconds since 1970, if its entry of the log says that."""
        said = [a["commitInfo"] for a in self._actions(version) or () if "commitInfo" in a]
        return next((at for info in said if (at := info.get("inCommitTimestamp", info.get("timestamp")))), None)

    def agrees(self, version: int, plan: str) -> bool:
        """Whether a version's entry of the log has the checksum that it had, as far as either is known."""
        return not plan or self._plan_of(version) in (plan, None)

    def _plan_of(self, version: int) -> str | None:
        """A checksum of the entry of a version in the log; None if it is gone."""
        entry = self._entry(version)
        return None if entry is None else _checksum(entry)

    # what is in a version -------------------------------------------------------------------------------------------

    def contents(self, version: int) -> Version:
        """All rows of a version, a part for each file."""
        table = self._open(version)
        columns = self._declared(table)
        actions = pa.table(table.get_add_actions()).to_pylist()
        masks = self._masks_of(version)
        files = sorted(
            (
                _File(
                    unquote(action["path"]),
                    action["size_bytes"],
                    1,
                    {name: _text(value) for name, value in (action.get("partition") or {}).items()},
                    version if unquote(action["path"]) in masks else None,
                )
                for action in actions
            ),
            key=lambda file: file.path,
        )
        self._columns = columns
        return Version(version, self._plan_of(version), tuple(Part((file,)) for file in files))

    def changes(self, version: int) -> Version:
        """What a version changes: its files of changes, or those that it added and removed.

        Raises:
            StreamError: the entry of the log is gone, or the columns that are read.
        """
        entry = self._entry(version)
        if entry is None:
            _gone(self._given, version, None)
        files: list[_File] = []
        feed: list[_File] = []
        for action in map(json.loads, entry.splitlines()):
            for kind, said in action.items():
                if kind == "cdc":
                    feed.append(_file(said, None, None))
                elif kind in ("add", "remove") and said.get("dataChange", True):
                    files.append(self._data_file(kind, said, version))
                elif kind == "metaData":
                    self._read_metadata(said, version)
                elif kind == "protocol":
                    self._read_features(said.get("minReaderVersion", 1), said.get("readerFeatures"))
        return Version(version, _checksum(entry), _parts(feed or files))

    def _data_file(self, kind: str, said: dict[str, Any], version: int) -> _File:
        if kind == "remove" and said.get("partitionValues") is None and self._columns.partitions:
            raise StreamError(
                f"version {version} of {self.where} removed {said['path']!r} without telling its partition, so "
                "its rows are not known"
            )
        masked = None if said.get("deletionVector") is None else version - (kind == "remove")
        return _file(said, 1 if kind == "add" else -1, masked)

    def _entry(self, version: int) -> bytes | None:
        try:
            with self._files.open_input_stream(f"_delta_log/{version:020d}.json") as file:
                return bytes(file.readall())
        except FileNotFoundError:
            return None

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        entry = self._entry(version)
        return None if entry is None else [json.loads(line) for line in entry.splitlines()]

    @cached_property
    def _files(self) -> pf.FileSystem:
        from deltalake.fs import DeltaStorageHandler

        return pf.PyFileSystem(DeltaStorageHandler(self._given.path, dict(self._given.storage_options) or None))

    # columns and features -------------------------------------------------------------------------------------------

    def _read_metadata(self, said: dict[str, Any], version: int) -> None:
        """Take up the columns that a version declares.

        Raises:
            StreamError: those that are read are not among them, or of other types.
        """
        from deltalake import Schema

        schema = Schema.from_json(said["schemaString"])
        try:
            columns = self._columns_of(schema, said["partitionColumns"], said.get("configuration") or {})
        except SchemaError as error:
            raise StreamError(
                f"version {version} of {self.where} changed its columns, and source {self._source!r} cannot take them: "
                f"{error}. {other_columns(self._source)}"
            ) from error
        self._columns = columns

    def _columns_of(self, schema: Any, partitions: Sequence[str], configuration: Mapping[str, Any]) -> _Columns:
        """The columns of a version, those that are read being fit for the source."""
        arrow = self._check(pa.schema(schema.to_arrow()))
        mode = configuration.get("delta.columnMapping.mode") or "none"
        if mode not in ("none", "name"):
            raise StreamError(
                f"{self.where} maps its columns by {mode} (delta.columnMapping.mode), and altneu reads those that map "
                "them by name; write it anew, or follow a stream of Spark's: spark.readStream.format('delta')"
            )
        mapped = mode == "name"
        in_files = {}
        for said in json.loads(schema.to_json())["fields"]:
            name = said["name"]
            in_files[name] = said["metadata"].get("delta.columnMapping.physicalName", name) if mapped else name
            if mapped and name in self._names and pt.is_nested(arrow.field(name).type):
                raise SchemaError(
                    f"column {name!r} of {self.where} is nested, and the table maps the names of columns "
                    "(delta.columnMapping.mode), which is read for columns that are not; leave it out of the source"
                )
            if name in self._names and _has_variants(said["type"]):
                raise SchemaError(
                    f"column {name!r} of {self.where} has variants, which are not read; leave it out of the source, or "
                    "follow a stream of Spark's: spark.readStream.format('delta')"
                )
        return _Columns(arrow, in_files, frozenset(partitions))

    def _read_features(self, reader: int, features: Sequence[str] | None) -> None:
        """Refuse a table that is read in a way that is not known here."""
        unknown = sorted({*(features or ())} - _READ)
        if unknown or reader > 3:
            what = f"the feature {unknown[0]!r}" if unknown else f"minReaderVersion {reader}"
            raise StreamError(
                f"{self.where} has {what}, which altneu does not read; drop it (ALTER TABLE … DROP FEATURE), or follow "
                "a stream of Spark's: spark.readStream.format('delta')"
            )

    # rows -----------------------------------------------------------------------------------------------------------

    def read(self, parts: Iterator[Part]) -> pa.Table:
        """The rows of some parts, each with 1 or -1, those that went first."""
        tables = [self._rows(cast(_File, file)) for part in parts for file in part.files]
        return pa.concat_tables([self._read_schema.empty_table(), *tables])

    @property
    def _read_schema(self) -> pa.Schema:
        fields = [pa.field(name, self._columns.schema.field(name).type) for name in self._names]
        return pa.schema([*fields, pa.field(DIFF, pa.int64())])

    def _rows(self, file: _File) -> pa.Table:
        columns = self._columns
        inside = [columns.in_files.get(n, n) for n in self._names if n not in columns.partitions]
        try:
            with self._files.open_input_file(file.path) as opened:
                parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
                wanted = [*inside, _CHANGE] if file.sign is None else inside
                known = {*parquet.schema_arrow.names}
                table = parquet.read([n for n in wanted if n in known])
                count = parquet.metadata.num_rows
        except FileNotFoundError as error:
            raise StreamError(
                f"{self.where} no longer has the file {file.path!r}, which this version needs: vacuum removed it"
            ) from error
        arrays = [self._column(name, file, table, count) for name in self._names]
        if file.sign is None:
            signs = np.where(np.asarray(pc.is_in(table[_CHANGE].cast(pa.string()), pa.array(_GONE))), -1, 1)
        else:
            signs = np.full(count, file.sign)
        rows = pa.table([*arrays, pa.array(signs, pa.int64())], self._read_schema)
        if file.masked is None:
            return rows
        kept = np.ones(count, np.bool_)
        mask = self._masks_of(file.masked)[file.path]
        kept[: len(mask)] = np.asarray(mask)[:count]
        return rows.filter(pa.array(kept))

    def _column(self, name: str, file: _File, table: pa.Table, count: int) -> Any:
        kind, called = self._columns.schema.field(name).type, self._columns.in_files.get(name, name)
        if name in self._columns.partitions:
            return pa.repeat(_value(file.partition.get(called, file.partition.get(name)), kind), count)
        if called not in table.column_names:  # the file is older than the column
            return pa.nulls(count, kind)
        try:  # it is stored in a form of the writer's, or as it was before the column was widened
            return table[called].cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise StreamError(
                f"{self.where} has column {name!r} as {kind}, and a value of it in the file {file.path!r} "
                f"is none: {error}"
            ) from error

    def _masks_of(self, version: int) -> dict[str, Any]:
        """Of files with a deletion vector in a version, which rows count."""
        if version not in self._masks:
            found = pa.table(self._open(version).deletion_vectors())
            root = self._root
            paths = [_within(uri, root) for uri in found["filepath"].to_pylist()]
            rows = found["selection_vector"].combine_chunks()
            masks = {path: rows[i].values for i, path in enumerate(paths)} if paths else {}
            self._masks = {v: m for v, m in self._masks.items() if v >= version - 1} | {version: masks}
        return self._masks[version]

    @cached_property
    def _root(self) -> str:
        return unquote(str(self._table.table_uri)).rstrip("/")


def _opened(given: Delta, version: int | None) -> DeltaTable:
    """A table at a version, None: the present one."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    try:
        return DeltaTable(given.path, version, dict(given.storage_options) or None)
    except DeltaError as error:
        if version is not None:
            _gone(given, version, error)
        if isinstance(error, TableNotFoundError):
            raise InputError(f"there is no Delta table at {given.path}: {_said(error)}") from error
        raise StreamError(f"Delta table {given.path} cannot be opened: {_said(error)}") from error


def _gone(given: Delta, version: int, cause: BaseException | None) -> NoReturn:
    raise StreamError(
        f"version {version} of Delta table {given.path} can no longer be read: its log, or files of it, were removed "
        "(log retention, vacuum)"
    ) from cause


def _parts(files: Sequence[_File]) -> tuple[Part, ...]:
    return together((file, tuple(sorted(file.partition.items(), key=str)), file.sign or 0) for file in files)


def _file(said: dict[str, Any], sign: int | None, masked: int | None) -> _File:
    path = unquote(said["path"])
    if "://" in path or path.startswith(("/", "file:")):
        raise StreamError(
            f"a version names the file {path!r}, which is outside of the table's folder: the table is a shallow clone, "
            "and is not read; follow the table that it was cloned from"
        )
    return _File(path, said.get("size") or 0, sign, said.get("partitionValues") or {}, masked)


def _within(uri: str, root: str) -> str:
    """The path of a file in the table's folder."""
    path = unquote(uri)
    for beginning in (root, f"file://{root}", root.removeprefix("file://")):
        if path.startswith(f"{beginning}/"):
            return path[len(beginning) + 1 :]
    return path


def _checksum(entry: bytes) -> str:
    return hashlib.blake2b(entry, digest_size=16).hexdigest()


def _said(error: BaseException) -> str:
    return str(error).splitlines()[0]


def _text(value: Any) -> str | None:
    """A value of a partition's column as the log has it.

    >>> _text(True), _text(datetime.fromisoformat("2026-01-02T03:00:00+01:00")), _text(7)
    ('true', '2026-01-02 02:00:00', '7')
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return value.decode() if isinstance(value, bytes) else str(value)


def _value(text: str | None, kind: pa.DataType) -> pa.Scalar:
    """The value of a partition's column, of which the log has a text; an empty one is none."""
    if text is None or text == "":
        return pa.scalar(None, kind)
    if pt.is_timestamp(kind):
        naive = text.removesuffix("Z").replace("T", " ")
        return pa.scalar(naive).cast(pa.timestamp(kind.unit)).cast(kind)
    return pa.scalar(text).cast(kind)
