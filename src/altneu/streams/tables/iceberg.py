"""An Iceberg table that is followed: what a snapshot changes is in its manifests, and pyiceberg reads these.

A snapshot's number is its sequence number. Of a snapshot whose parent the source has, the files that it added and
removed are in the manifests that it wrote; where it changed files of deletes, or is no child of what the source has (a
table that was rolled back), all files of both are compared, each with the deletes that apply to it. Rows of a file that
came and went at once are read once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn, cast
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from altneu.errors import InputError, PlanError, SchemaError, StreamError
from altneu.errors.extras import require
from altneu.runtime.memory import bytes_in
from altneu.streams.tables.base import DIFF, STEP_BYTES, DataFile, Part, Version, instant, other_columns, together
from altneu.types import parse_schema

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile as IcebergFile
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table as IcebergTable
    from pyiceberg.table.name_mapping import NameMapping
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import IcebergType

_EMPTY = "-"  # in the place of a snapshot's id: the table before its first one


@dataclass(frozen=True)
class Iceberg:
    """An Iceberg table for ``session.follow``; see ``altneu.iceberg``."""

    name: str
    catalog: str | Mapping[str, str] | Catalog | None = field(repr=False)  # it may have passwords
    from_snapshot: int | None
    from_timestamp: str | None
    snapshot: bool
    step_bytes: int

    def __str__(self) -> str:
        return f"Iceberg table {self.name!r}"

    def schema(self) -> pa.Schema:
        """The columns of the present snapshot.

        Raises:
            InputError: there is no such table.
            SchemaError: a column has a type that Spark does not have.
        """
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        return parse_schema(schema_to_pyarrow(opened(self.name, self.catalog).schema(), include_field_ids=False))

    def open(
        self,
        source: str,
        columns: Sequence[str],
        check: Callable[[pa.Schema], pa.Schema],
        position: tuple[int, str] | None,
    ) -> FollowedIceberg:
        """Open the table for a source.

        Raises:
            InputError: there is no such table or snapshot.
            SchemaError: a column is not in the table, or of another type.
            StreamError: the table is of a format that is not read.
        """
        return FollowedIceberg(self, source, columns, check, position)


def iceberg(
    table: str,
    *,
    catalog: str | Mapping[str, str] | Catalog | None = None,
    from_snapshot: int | None = None,
    from_timestamp: str | datetime | None = None,
    snapshot: bool = True,
    max_bytes: int | str = STEP_BYTES,
) -> Iceberg:
    """An Iceberg table that a session follows: ``session.follow(orders=an.iceberg("shop.orders"))``.

    ``table`` is the table's name with its namespace. ``catalog`` is pyiceberg's: a ``Catalog``, the name of one in
    pyiceberg's configuration, or properties such as ``{"type": "sql", "uri": "sqlite:///catalog.db", "warehouse":
    "file:///data"}``, among which ``"name"`` may be its name; None is the catalog ``default`` of the configuration.

    The source first gets all rows of the table's present snapshot, or of ``from_snapshot``, or of the one that was
    present at ``from_timestamp`` (ISO 8601, in UTC if it has no offset); then what each later snapshot of the main
    branch changes, in a step and at a time of its own. With ``snapshot=False`` it begins with the changes after that
    snapshot. Where a stream goes on, its position counts and not these arguments.

    Tables of format version 2 and 3 with Parquet files are read, with deletes by position, by equality and by deletion
    vectors. A step reads about ``max_bytes`` of files: a larger snapshot is divided.

    Cost:   the files that a snapshot added and removed, and the manifests that it wrote. Where it changed files of
            deletes, or the table was rolled back, all manifests of two snapshots, and the data files whose deletes are
            others than before, each once.
    Law:    at each time the source has the rows of a snapshot (tests/session/test_follow_iceberg.py).

    Raises:
        InputError: arguments that contradict each other.
        MissingExtraError: pyiceberg is not installed: ``pip install 'altneu[iceberg]'``.

    >>> import altneu as an, pyarrow as pa, tempfile
    >>> from pyiceberg.catalog import load_catalog
    >>> place = tempfile.mkdtemp()
    >>> shop = {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}"}
    >>> with load_catalog("default", **shop) as catalog:
    ...     catalog.create_namespace("shop")
    ...     rows = pa.table({"item": ["tea", "jam"], "price": [3, 5]})
    ...     table = catalog.create_table("shop.orders", rows.schema)
    ...     table.append(rows)
    ...     orders = an.source("orders", "item string, price long")
    ...     with an.Session() as session:
    ...         total = session.maintain("total", orders.group_by().agg(total="sum(price)"))
    ...         for price in (4, 7):
    ...             table.overwrite(pa.table({"item": ["tea"], "price": [price]}), "item = 'tea'")
    ...             with session.follow(
    ...                 orders=an.iceberg("shop.orders", catalog=shop), available_now=True
    ...             ) as following:
    ...                 _ = following.wait()
    ...             print(total.to_pylist(), following.status["orders"].batch)
    [(9,)] 3
    [(12,)] 5
    """
    require("iceberg", "following an Iceberg table")
    if "." not in str(table):
        raise InputError(f"iceberg needs the name of a table with its namespace, such as 'shop.orders', got {table!r}")
    if from_snapshot is not None and from_timestamp is not None:
        raise InputError("iceberg begins at from_snapshot= or at from_timestamp=, not at both; leave one of them out")
    if from_snapshot is not None and type(from_snapshot) is not int:
        raise InputError(f"from_snapshot must be the id of a snapshot, a whole number, got {from_snapshot!r}")
    if not isinstance(snapshot, bool):
        raise InputError(f"snapshot must be True or False, got {snapshot!r}")
    try:
        most = bytes_in(max_bytes)
    except PlanError:
        raise InputError(f'max_bytes must be a number of bytes such as 1000000 or "64m", got {max_bytes!r}') from None
    at = None if from_timestamp is None else instant(from_timestamp)
    return Iceberg(table, catalog, from_snapshot, at, snapshot, most)


@dataclass(frozen=True)
class _File(DataFile):
    """A file and the files of deletes that apply to it, before and after a snapshot; None: the file is not there."""

    data: IcebergFile
    before: tuple[_Deletes, ...] | None
    after: tuple[_Deletes, ...] | None

    @property
    def sign(self) -> int:
        return (self.after is not None) - (self.before is not None)

    @property
    def partition(self) -> tuple[Any, ...]:
        return self.data.spec_id or 0, tuple(self.data.partition._data) if self.data.partition else ()


@dataclass(frozen=True)
class _Deletes:
    """A file of deletes, by position, by equality or of deletion vectors; what is in a file never changes."""

    path: str
    file: IcebergFile = field(compare=False)


class _Applying:
    """Which files of deletes apply to a data file of a snapshot."""

    def __init__(self, entries: Iterable[ManifestEntry]) -> None:
        from pyiceberg.manifest import DataFileContent
        from pyiceberg.table.delete_file_index import DeleteFileIndex

        self._by_position = DeleteFileIndex()
        self._by_equality: list[ManifestEntry] = []
        for entry in entries:
            if entry.data_file.content == DataFileContent.EQUALITY_DELETES:
                self._by_equality.append(entry)
            else:
                self._by_position.add_delete_file(entry, entry.data_file.partition)

    def to(self, entry: ManifestEntry) -> tuple[_Deletes, ...]:
        """Those of a file, in the order of their places."""
        data, number = entry.data_file, entry.sequence_number or 0
        found = self._by_position.for_data_file(number, data, data.partition)
        applying = [_deletes(file) for file in found]
        applying += [
            _deletes(deletes.data_file)
            for deletes in self._by_equality
            if number < (deletes.sequence_number or 0) and _reaches(deletes.data_file, data)
        ]
        return tuple(sorted(applying, key=lambda each: each.path))


class FollowedIceberg:
    """The snapshots of an Iceberg table, for one stream."""

    def __init__(
        self,
        given: Iceberg,
        source: str,
        columns: Sequence[str],
        check: Callable[[pa.Schema], pa.Schema],
        position: tuple[int, str] | None,
    ) -> None:
        require("iceberg", "following an Iceberg table")
        self._given, self._source, self._names, self._check = given, source, list(columns), check
        self._table = opened(given.name, given.catalog)
        if self._table.metadata.format_version < 2:
            raise StreamError(
                f"{self.where} is of format version 1, whose snapshots have no sequence numbers; raise it to 2 "
                "(ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2'))"
            )
        self._taken = _Taken.of(position)
        self._entries: dict[str, list[ManifestEntry]] = {}
        held = self._snapshot_of(self._taken.own) if position is not None else self._of_number(self.first())
        try:
            self._schema = self._schema_of(held)
        except SchemaError:
            if position is None or not self._is_fit_later(held):
                raise
            self._schema = _schema(self._table, held)  # of which nothing is read again

    def _is_fit_later(self, held: Snapshot | None) -> bool:
        """Whether the source's columns are those of a snapshot that is to be taken: changed as those of the table."""
        for snapshot in self._ancestors():
            if held is not None and _number(snapshot) <= _number(held):
                return False
            with suppress(SchemaError):
                self._schema_of(snapshot)
                return True
        return False

    @property
    def identity(self) -> str:
        """The id that the table got when it was created."""
        return f"iceberg:{self._table.metadata.table_uuid}"

    @property
    def where(self) -> str:
        """The table, as messages name it."""
        return f"Iceberg table {self._given.name}"

    # which snapshots ------------------------------------------------------------------------------------------------

    def latest(self) -> int:
        """The number of the newest snapshot; 0 if there is none."""
        self._table.refresh()
        current = self._table.metadata.current_snapshot()
        return 0 if current is None else _number(current)

    def first(self) -> int:
        """The number with which to begin.

        Raises:
            InputError: the table does not have the snapshot.
        """
        latest, given = self.latest(), self._given
        if given.from_snapshot is not None:
            for snapshot in self._ancestors():
                if snapshot.snapshot_id == given.from_snapshot:
                    return _number(snapshot)
            raise InputError(
                f"from_snapshot={given.from_snapshot} of source {self._source!r} is not among the snapshots of the "
                f"main branch of {self.where}: it was expired, or never was one"
            )
        if given.from_timestamp is None:
            return latest
        until = datetime.fromisoformat(given.from_timestamp).timestamp() * 1000
        for snapshot in self._ancestors():
            if snapshot.timestamp_ms <= until:
                return _number(snapshot)
        raise InputError(
            f"from_timestamp={given.from_timestamp!r} of source {self._source!r} is before the first snapshot of "
            f"{self.where} that is left"
        )

    def agrees(self, version: int, plan: str) -> bool:
        """Whether the snapshot of a number is the one that was taken, as far as the table still has either."""
        own = _Taken.of((version, plan)).own
        there = self._of_number(version)
        return own == _EMPTY or there is None or str(there.snapshot_id) == own or self._snapshot_of(own) is not None

    def _ancestors(self) -> Iterator[Snapshot]:
        """The snapshots of the main branch, the newest first, as far as they are left."""
        metadata = self._table.metadata
        snapshot = metadata.current_snapshot()
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else metadata.snapshot_by_id(parent)

    def _of_number(self, number: int) -> Snapshot | None:
        """The snapshot of a number, of any branch: numbers are of a table's commits."""
        return next((s for s in self._table.metadata.snapshots if s.sequence_number == number), None)

    def _snapshot_of(self, shown: str) -> Snapshot | None:
        return None if shown == _EMPTY else self._table.metadata.snapshot_by_id(int(shown))

    # what is in a snapshot ------------------------------------------------------------------------------------------

    def contents(self, version: int) -> Version:
        """All rows of a snapshot, a part for each file.

        Raises:
            StreamError: it was expired.
        """
        snapshot = self._of_number(version)
        if snapshot is None and version:
            self._gone(version)
        self._taken = _Taken(version, _EMPTY, _id(snapshot))
        self._schema = self._schema_of(snapshot)
        return self._version(_changed({}, self._files(snapshot)))

    def changes(self, version: int) -> Version:
        """What a snapshot changes of what the source has; nothing, if it is one of another branch.

        Raises:
            StreamError: it was expired, or what the source has; or the columns that are read are gone.
        """
        if version != self._taken.number:
            self._taken = _Taken(version, self._taken.own, self._due(version))
        taken = self._taken
        if taken.base == taken.own:
            return self._version([])
        before, after = self._snapshot_of(taken.base), self._snapshot_of(taken.own)
        if after is None:
            self._gone(version)
        if before is None and taken.base != _EMPTY:
            raise StreamError(
                f"source {self._source!r} has the rows of snapshot {taken.base} of {self.where}, which was expired, so "
                "that nothing says any more what has changed since"
            )
        self._schema = self._schema_of(after, version)
        if after.parent_snapshot_id == (None if before is None else before.snapshot_id):
            files = self._written_by(after, before)
            if files is not None:
                return self._version(files)
        return self._version(_changed(self._files(before), self._files(after)))

    def _version(self, files: Iterable[_File]) -> Version:
        taken = self._taken
        parts = together((file, file.partition, file.sign) for file in files)
        return Version(taken.number, f"{taken.base}>{taken.own}", parts)

    def _due(self, version: int) -> str:
        """The id of the snapshot of a number, or, if that is of another branch or expired, what the source has."""
        number = {_number(snapshot): snapshot for snapshot in self._ancestors()}
        return _id(number[version]) if version in number else self._taken.own

    def _written_by(self, after: Snapshot, before: Snapshot | None) -> list[_File] | None:
        """What a snapshot says it added and removed; None if it changed files of deletes."""
        from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
        from pyiceberg.table.snapshots import Operation

        if after.summary is not None and after.summary.operation == Operation.REPLACE:
            return []  # the same rows in other files
        added, removed = list[Any](), list[Any]()
        for manifest in self._manifests(after):
            if manifest.added_snapshot_id != after.snapshot_id:
                continue
            for entry in manifest.fetch_manifest_entry(self._table.io, discard_deleted=False):
                if entry.status == ManifestEntryStatus.EXISTING or entry.snapshot_id != after.snapshot_id:
                    continue
                if manifest.content == ManifestContent.DELETES:
                    return None
                (added if entry.status == ManifestEntryStatus.ADDED else removed).append(entry)
        now, then = self._applying(after) if added else None, self._applying(before) if removed else None
        came = [_file(entry, None, now.to(entry)) for entry in added if now is not None]
        went = [_file(entry, then.to(entry), None) for entry in removed if then is not None]
        return came + went

    def _files(self, snapshot: Snapshot | None) -> dict[str, tuple[ManifestEntry, tuple[_Deletes, ...]]]:
        """All files of a snapshot by their paths, with the deletes that apply to them."""
        from pyiceberg.manifest import ManifestContent

        applying = self._applying(snapshot)
        return {
            entry.data_file.file_path: (entry, applying.to(entry))
            for manifest in self._manifests(snapshot)
            if manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(self._table.io)
        }

    def _applying(self, snapshot: Snapshot | None) -> _Applying:
        from pyiceberg.manifest import ManifestContent

        manifests = [m for m in self._manifests(snapshot) if m.content == ManifestContent.DELETES]
        self._entries = {
            m.manifest_path: self._entries.get(m.manifest_path) or m.fetch_manifest_entry(self._table.io)
            for m in manifests
        }
        return _Applying(entry for entries in self._entries.values() for entry in entries)

    def _manifests(self, snapshot: Snapshot | None) -> list[ManifestFile]:
        if snapshot is None:
            return []
        try:
            return snapshot.manifests(self._table.io)
        except FileNotFoundError as error:
            self._gone(_number(snapshot), error)

    def _gone(self, version: int, cause: BaseException | None = None) -> NoReturn:
        raise StreamError(
            f"snapshot {version} of {self.where} can no longer be read: it was expired (expire_snapshots)"
        ) from cause

    # columns --------------------------------------------------------------------------------------------------------

    def _schema_of(self, snapshot: Snapshot | None, changed_by: int | None = None) -> Schema:
        """The columns of a snapshot that are read, being fit for the source.

        Raises:
            SchemaError: they are not those of the source, or of other types; StreamError if a snapshot changed them.
        """
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        schema = _schema(self._table, snapshot)
        try:
            self._check(schema_to_pyarrow(schema, include_field_ids=False))
        except SchemaError as error:
            if changed_by is None:
                raise
            raise StreamError(
                f"snapshot {changed_by} of {self.where} has other columns, and source {self._source!r} cannot take "
                f"them: {error}. {other_columns(self._source)}"
            ) from error
        return schema

    # rows -----------------------------------------------------------------------------------------------------------

    def read(self, parts: Iterator[Part]) -> pa.Table:
        """The rows of some parts, each with 1 or -1."""
        from pyiceberg.io.pyarrow import schema_to_pyarrow

        kinds = self._check(schema_to_pyarrow(self._schema, include_field_ids=False))
        shape = pa.schema([*(kinds.field(name) for name in self._names), pa.field(DIFF, pa.int64())])
        files = [cast(_File, file) for part in parts for file in part.files]
        tables = [self._rows(file, shape) for file in files]
        return pa.concat_tables([shape.empty_table(), *tables])

    def _rows(self, file: _File, shape: pa.Schema) -> pa.Table:
        """Of the rows of a file those that came or went, with 1 or -1."""
        try:
            by_equality = [d.file for d in {*(file.before or ()), *(file.after or ())} if d.file.equality_ids]
            keys = {number for deletes in by_equality for number in deletes.equality_ids or ()}
            numbers = {f.name: f.field_id for f in self._schema.fields if f.name in self._names}
            wanted = {*numbers.values()} | keys
            table = self._scan(file.data, wanted)
            there = self._kept(file.after, table, file.path).astype(np.int64)
            there -= self._kept(file.before, table, file.path)
        except FileNotFoundError as error:
            raise StreamError(
                f"{self.where} no longer has the file {file.path!r}, or files of its deletes, which this snapshot "
                "needs: they were removed (expire_snapshots, remove_orphan_files)"
            ) from error
        columns = [
            table[f"c{numbers[name]}"].cast(field.type) if name in numbers else pa.nulls(len(there), field.type)
            for name, field in zip(self._names, shape, strict=False)
        ]
        rows = pa.table([*columns, pa.array(there)], shape.remove_metadata())
        return rows.filter(pa.array(there != 0))

    def _scan(self, data: IcebergFile, wanted: set[int]) -> pa.Table:
        """All rows of a file in their order, each column under the name that its number gives it."""
        if data.file_format.value != "PARQUET":
            raise StreamError(
                f"the file {data.file_path!r} of {self.where} is {data.file_format.value}, and not Parquet"
            )
        fields = [self._field(number) for number in sorted(wanted)]
        with self._table.io.new_input(data.file_path).open() as opened:
            parquet = pq.ParquetFile(opened, coerce_int96_timestamp_unit="us")
            there = Projection(parquet.schema_arrow, self._table.metadata.name_mapping())
            table = parquet.read([there.names[number] for number in sorted(wanted & there.names.keys())])
            count = parquet.metadata.num_rows
        constants = self._constants(data)
        columns = {}
        for each in fields:
            number, kind = each.field_id, _arrow(each)
            if number in there.names:
                columns[f"c{number}"] = there.of(table[there.names[number]].combine_chunks(), each.field_type, kind)
            else:
                columns[f"c{number}"] = pa.repeat(pa.scalar(constants.get(number, each.initial_default), kind), count)
        return pa.table(columns)

    def _constants(self, data: IcebergFile) -> dict[int, Any]:
        """The values of columns that a file need not have, because all of its rows are of one partition."""
        from pyiceberg.transforms import IdentityTransform

        spec = self._table.metadata.specs()[data.spec_id or 0]
        return {
            field.source_id: _python(value)
            for field, value in zip(spec.fields, data.partition._data if data.partition else (), strict=False)
            if isinstance(field.transform, IdentityTransform)
        }

    def _field(self, number: int) -> Any:
        """A column by its number, which deletes may name though it was dropped."""
        for schema in (self._schema, *self._table.metadata.schemas[::-1]):
            try:
                return schema.find_field(number)
            except ValueError:
                continue
        raise StreamError(f"{self.where} has deletes by a column of number {number}, which is in none of its schemas")

    def _kept(self, deletes: tuple[_Deletes, ...] | None, table: pa.Table, path: str) -> np.ndarray[Any, Any]:
        """Which rows of a file are left by deletes; none, if the file is not there."""
        kept = np.full(len(table), deletes is not None)
        for each in deletes or ():
            if each.file.equality_ids:
                kept &= ~self._matched(each.file, table)
            else:
                kept[_positions(self._table.io, each.file, path)] = False
        return kept

    def _matched(self, deletes: IcebergFile, table: pa.Table) -> np.ndarray[Any, Any]:
        """Which rows are equal to one of a file of deletes in its columns, nulls being equal."""
        import polars as pl

        numbers = {*(deletes.equality_ids or ())}
        keys = [f"c{number}" for number in sorted(numbers)]
        gone = pl.from_arrow(self._scan(deletes, numbers).select(keys))
        rows = pl.from_arrow(table.select(keys))
        assert isinstance(gone, pl.DataFrame)
        assert isinstance(rows, pl.DataFrame)
        found = rows.with_row_index("#row").join(gone.unique(), on=keys, how="semi", nulls_equal=True)["#row"]
        matched = np.zeros(len(table), np.bool_)
        matched[found.to_numpy()] = True
        return matched


class Projection:
    """The columns of a Parquet file by their numbers, which stay when a table renames them."""

    def __init__(self, schema: pa.Schema, mapping: NameMapping | None) -> None:
        self._mapped = {} if mapping is None else {n: f for f in mapping.root for n in f.names}
        self.names = {
            number: field.name for field in schema if (number := self._number(field, self._mapped)) is not None
        }

    def _number(self, field: pa.Field, mapped: Mapping[str, Any]) -> int | None:
        """The number of a column, or of a file without numbers that of its name in the table's mapping of names."""
        said = (field.metadata or {}).get(b"PARQUET:field_id")
        if said is not None:
            return int(said)
        found = mapped.get(field.name)
        return None if found is None else cast("int | None", found.field_id)

    def of(self, column: pa.Array, kind: IcebergType, arrow: pa.DataType) -> pa.Array:
        """A column as the table has it now: fields by their numbers, and types that were widened.

        pyiceberg's own reader makes lists and maps of structs that are null empty ones.
        """
        from pyiceberg.types import ListType, MapType, StructType

        if column.offset:
            column = pa.concat_arrays([column, column.slice(0, 0)])
        if isinstance(kind, StructType):
            there = {self._number(column.type.field(i), {}): i for i in range(column.type.num_fields)}
            named = {column.type.field(i).name: i for i in range(column.type.num_fields)}
            children = []
            for i, field in enumerate(kind.fields):
                place = there.get(field.field_id, named.get(field.name) if None in there else None)
                child = arrow.field(i).type
                children.append(
                    pa.nulls(len(column), child)
                    if place is None
                    else self.of(column.field(place), field.field_type, child)
                )
            return pa.StructArray.from_arrays(children, fields=[*arrow], mask=column.is_null())
        if isinstance(kind, ListType):
            values = self.of(column.values, kind.element_type, arrow.value_type)
            made = pa.LargeListArray if pa.types.is_large_list(column.type) else pa.ListArray
            return made.from_arrays(column.offsets, values, mask=column.is_null()).cast(arrow)
        if isinstance(kind, MapType):
            keys = self.of(column.keys, kind.key_type, arrow.key_type)
            items = self.of(column.items, kind.value_type, arrow.item_type)
            return pa.MapArray.from_arrays(column.offsets, keys, items, arrow, mask=column.is_null())
        return column.cast(arrow)


@dataclass(frozen=True)
class _Taken:
    """The number that was asked for last, the id of the snapshot that the source had before it, and of its own."""

    number: int
    base: str
    own: str

    @classmethod
    def of(cls, position: tuple[int, str] | None) -> _Taken:
        """That of a position.

        >>> _Taken.of((3, "11>12"))
        _Taken(number=3, base='11', own='12')
        """
        if position is None or ">" not in position[1]:
            return cls(-1 if position is None else position[0], _EMPTY, _EMPTY)
        base, own = position[1].split(">")
        return cls(position[0], base, own)


def opened(name: str, catalog: str | Mapping[str, str] | Catalog | None) -> IcebergTable:
    """A table as it is now.

    Raises:
        InputError: there is no such table or catalog.
    """
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    known = catalog_of(catalog)
    try:
        return known.load_table(name)
    except (NoSuchTableError, NoSuchNamespaceError) as error:
        raise InputError(
            f"there is no Iceberg table {name!r} in the catalog {known.name!r}: {error}. A database may have several "
            'catalogs, and "name" among the properties says which'
        ) from error


def catalog_of(given: str | Mapping[str, str] | Catalog | None) -> Catalog:
    """A catalog by its name, by its properties, or as it is.

    Raises:
        InputError: pyiceberg has no such catalog.
    """
    from pyiceberg.catalog import Catalog, load_catalog

    if isinstance(given, Catalog):
        return given
    properties = dict(given) if isinstance(given, Mapping) else {}
    name = given if isinstance(given, str) else properties.pop("name", "default")
    try:
        return load_catalog(name, **properties)
    except (ValueError, ImportError) as error:
        raise InputError(
            f"catalog={given if isinstance(given, str) else sorted(properties)!r} is none of pyiceberg's: {error}"
        ) from error


def _schema(table: IcebergTable, snapshot: Snapshot | None) -> Schema:
    if snapshot is None or snapshot.schema_id is None:
        return table.schema()
    return next((s for s in table.metadata.schemas if s.schema_id == snapshot.schema_id), table.schema())


def _changed(
    before: Mapping[str, tuple[ManifestEntry, tuple[_Deletes, ...]]],
    after: Mapping[str, tuple[ManifestEntry, tuple[_Deletes, ...]]],
) -> Iterator[_File]:
    """The files that are in one of two snapshots, or in both with other deletes."""
    for path in before.keys() | after.keys():
        then, now = before.get(path), after.get(path)
        if then is None or now is None or then[1] != now[1]:
            entry = cast("tuple[ManifestEntry, Any]", now or then)[0]
            yield _file(entry, None if then is None else then[1], None if now is None else now[1])


def _file(entry: ManifestEntry, before: tuple[_Deletes, ...] | None, after: tuple[_Deletes, ...] | None) -> _File:
    data = entry.data_file
    return _File(data.file_path, data.file_size_in_bytes, data, before, after)


def _deletes(file: IcebergFile) -> _Deletes:
    return _Deletes(file.file_path, file)


def _reaches(deletes: IcebergFile, data: IcebergFile) -> bool:
    """Whether deletes by equality are for the partition of a file; those without one are for all."""
    if not deletes.partition or not len(deletes.partition):
        return True
    return deletes.spec_id == data.spec_id and deletes.partition == data.partition


def _positions(io: Any, deletes: IcebergFile, path: str) -> Any:
    """The places of a file's rows that deletes name."""
    from pyiceberg.manifest import FileFormat
    from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
    from pyiceberg.table.puffin import PuffinFile

    with io.new_input(deletes.file_path).open() as file:
        if deletes.file_format == FileFormat.PUFFIN:
            vectors = deletion_vectors_from_puffin_file(PuffinFile(file.read()))
            found = [v.to_vector().to_numpy() for v in vectors if v.referenced_data_file == path]
            return np.concatenate([np.zeros(0, np.int64), *found]).astype(np.int64)
        if deletes.file_format == FileFormat.PARQUET:
            table = pq.read_table(file, columns=["file_path", "pos"], filters=[("file_path", "==", path)])
            return np.asarray(table["pos"], np.int64)
    raise StreamError(f"the file of deletes {deletes.file_path!r} is {deletes.file_format.value}, which is not read")


def _arrow(field: Any) -> pa.DataType:
    """The type of a column in Arrow."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.schema import Schema

    return schema_to_pyarrow(Schema(field), include_field_ids=False).field(0).type


def _python(value: Any) -> Any:
    """A value of a partition as Arrow takes it."""
    return value.bytes if isinstance(value, UUID) else value


def _number(snapshot: Snapshot) -> int:
    return int(snapshot.sequence_number or 0)


def _id(snapshot: Snapshot | None) -> str:
    return _EMPTY if snapshot is None else str(snapshot.snapshot_id)
