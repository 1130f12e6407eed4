"""Iceberg tables that change at random, what follows them, and what their views must show.

pyiceberg writes no files of deletes; those of Spark, Flink and Trino are written here, as the format has them.
"""

from __future__ import annotations

import json
import random
import struct
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles
from pyiceberg.transforms import IdentityTransform
from pyiceberg.typedef import EMPTY_DICT, Record
from pyiceberg.types import LongType, NestedField, StringType
from pyroaring import BitMap

import altneu as an
from altneu.sinks import Sink
from altneu.streams import Status
from faults.delta_tables import QUERY, ROWS, Row

SCHEMA = Schema(
    NestedField(1, "k", LongType(), required=False),
    NestedField(2, "v", StringType(), required=False),
    NestedField(3, "p", LongType(), required=False),
)
ARROW = pa.schema([("k", pa.int64()), ("v", pa.string()), ("p", pa.int64())])
NAME = "shop.rows"
MOST_PATH, POSITION = 2147483546, 2147483545  # the numbers of the columns of deletes by position


def properties(folder: Path) -> dict[str, str]:
    """A catalog in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"type": "sql", "uri": f"sqlite:///{folder}/catalog.db", "warehouse": f"file://{folder}"}


class _Deletes(ManifestWriterV2):
    """Of files of deletes."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


class _Deleting(_FastAppendFiles):
    """A snapshot that adds a file of deletes."""

    def __init__(self, table: Table, deletes: DataFile) -> None:
        self._transaction_of_table = table.transaction()
        super().__init__(Operation.DELETE, self._transaction_of_table, table.io)
        self._deletes = deletes

    def _manifests(self) -> list[ManifestFile]:
        metadata = self._transaction.table_metadata
        spec, schema, output = metadata.spec(), metadata.schema(), self.new_manifest_output()
        with _Deletes(spec, schema, output, self._snapshot_id, "null") as writer:
            entry = ManifestEntry.from_args(
                status=ManifestEntryStatus.ADDED, snapshot_id=self._snapshot_id, data_file=self._deletes
            )
            writer.add(entry)
        return [writer.to_manifest_file(), *super()._manifests()]


class _Replacing(_OverwriteFiles):
    """A compaction, which says so."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        self._operation = Operation.OVERWRITE  # which pyiceberg can sum up
        return Summary(Operation.REPLACE, **super()._summary(snapshot_properties).additional_properties)

    def _validate_concurrency(self) -> None:
        pass


class Changing:
    """A table of rows ``(k, v, p)`` that each call of ``change`` gives one or more snapshots."""

    def __init__(self, folder: Path, rng: random.Random, *, partitioned: bool) -> None:
        warnings.filterwarnings("ignore", "Delete operation did not match", UserWarning)  # as some do
        self.properties, self.rng, self.folder = properties(folder), rng, folder
        self.catalog: Catalog = load_catalog("default", **self.properties)
        self.catalog.create_namespace_if_not_exists("shop")
        spec = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "p")) if partitioned else PartitionSpec()
        self.table = self.catalog.create_table_if_not_exists(NAME, SCHEMA, partition_spec=spec)

    def close(self) -> None:
        """Let go of the catalog."""
        self.catalog.close()

    @property
    def number(self) -> int:
        """The newest snapshot's."""
        current = self.table.refresh().metadata.current_snapshot()
        return 0 if current is None else int(current.sequence_number or 0)

    def some(self, count: int) -> pa.Table:
        """Random rows, some of them equal and some with nulls."""
        rows = [
            {"k": self.rng.choice([None, *range(9)]), "v": self.rng.choice("abcd"), "p": self.rng.choice([None, 0, 1])}
            for _ in range(count)
        ]
        return pa.Table.from_pylist(rows, ARROW)

    def change(self) -> None:
        """Whatever one may do with a table."""
        self.table.refresh()
        kinds = ["append", "append", "delete", "overwrite", "upsert", "position", "position", "equality", "replace"]
        getattr(self, f"_{self.rng.choice([*kinds, 'rollback', 'branch'])}")()
        self.table.refresh()

    def _append(self) -> None:
        self.table.append(self.some(self.rng.randint(1, 12)))

    def _delete(self) -> None:
        if not self._has_deletes:  # which pyiceberg cannot rewrite
            self.table.delete(f"k = {self.rng.randrange(9)}")

    def _overwrite(self) -> None:
        if not self._has_deletes:
            self.table.overwrite(self.some(self.rng.randint(0, 12)))

    def _upsert(self) -> None:
        if not self._has_deletes:
            keys = self.rng.sample(range(9), 3)
            self.table.delete("p = 1")
            self.table.overwrite(pa.table({"k": keys, "v": ["x", "y", "z"], "p": [0, 1, 0]}, ARROW), f"k = {keys[0]}")

    def _rollback(self) -> None:
        earlier = [s.snapshot_id for s in self.table.metadata.snapshots]
        if earlier:
            current = self.table.metadata.current_snapshot()
            ids = {entry.snapshot_id for entry in self.table.metadata.snapshot_log}
            choice = self.rng.choice([i for i in earlier if i in ids])
            if current is not None and choice != current.snapshot_id:
                with self.table.manage_snapshots() as manage:
                    manage.set_current_snapshot(snapshot_id=choice)
            self.table.refresh()
        self._append()

    def _branch(self) -> None:
        current = self.table.metadata.current_snapshot()
        if current is None:
            return
        name = f"b{len(self.table.metadata.snapshots)}"
        with self.table.manage_snapshots() as manage:
            manage.create_branch(current.snapshot_id, name)
        self.table.refresh()
        self.table.append(self.some(3), branch=name)
        self.table.refresh()
        self._append()

    def _replace(self) -> None:
        """All files of a partition as one, which is the same table."""
        tasks = list(self.table.scan().plan_files()) if not self._has_deletes else []
        if len(tasks) < 2:
            return
        rows = self.table.scan().to_arrow().cast(ARROW)
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        transaction = self.table.transaction()
        producer = _Replacing(Operation.REPLACE, transaction, self.table.io)
        for task in tasks:
            producer.delete_data_file(task.file)
        for file in _dataframe_to_data_files(self.table.metadata, rows, self.table.io):
            producer.append_data_file(file)
        producer.commit()
        transaction.commit_transaction()

    @property
    def _has_deletes(self) -> bool:
        current = self.table.metadata.current_snapshot()
        return current is not None and any(
            m.content == ManifestContent.DELETES for m in current.manifests(self.table.io)
        )

    # deletes --------------------------------------------------------------------------------------------------------

    def files(self) -> list[tuple[DataFile, int]]:
        """The data files of the present snapshot, with the numbers of the snapshots that added them."""
        current = self.table.metadata.current_snapshot()
        if current is None:
            return []
        found = [
            (entry.data_file, int(entry.sequence_number or 0))
            for manifest in current.manifests(self.table.io)
            if manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(self.table.io)
        ]
        return sorted(found, key=lambda each: each[0].file_path)

    def _position(self) -> None:
        """Delete rows of a file by their places, or of two files of a partition at once."""
        files = [file for file, _ in self.files() if file.record_count]
        if not files:
            return
        chosen = self.rng.choice(files)
        among = [f for f in files if f.partition == chosen.partition and f.spec_id == chosen.spec_id]
        several = self.rng.sample(among, min(self.rng.randint(1, 2), len(among)))
        self.delete_positions(several, lambda count: self.rng.sample(range(count), self.rng.randint(1, count)))

    def delete_positions(self, files: Sequence[DataFile], chosen: Callable[[int], Iterable[int]]) -> None:
        """Delete rows of files of one partition by their places."""
        rows = sorted((f.file_path, position) for f in files for position in chosen(f.record_count))
        schema = pa.schema(
            [
                pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(MOST_PATH)}),
                pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION)}),
            ]
        )
        columns = [list(column) for column in zip(*rows, strict=True)]
        self.commit_deletes(pa.table(columns, schema), DataFileContent.POSITION_DELETES, files[0].partition, None)

    def _equality(self) -> None:
        """Delete all rows of some keys, of every partition or of one."""
        by = self.rng.choice([["k"], ["v", "k"]])
        keys = self.some(3).select(by)
        files = self.files()
        partition = self.rng.choice(files)[0].partition if files else None
        if partition is not None:
            self.delete_equal(keys, partition)

    def delete_equal(self, keys: pa.Table, partition: Record) -> None:
        """Delete the rows that are equal to some in the columns of a table."""
        numbers = [SCHEMA.find_field(name).field_id for name in keys.column_names]
        fields = [
            pa.field(name, keys.schema.field(name).type, True, {"PARQUET:field_id": str(number)})
            for name, number in zip(keys.column_names, numbers, strict=True)
        ]
        self.commit_deletes(keys.cast(pa.schema(fields)), DataFileContent.EQUALITY_DELETES, partition, numbers)

    def commit_deletes(
        self, rows: pa.Table, content: DataFileContent, partition: Record, numbers: list[int] | None
    ) -> None:
        """Add a file of deletes in a snapshot of its own."""
        path = Path(f"{self.folder}/deletes-{len(self.table.metadata.snapshots)}-{self.rng.randrange(10**9)}.parquet")
        pq.write_table(rows, path)
        self._commit(path, FileFormat.PARQUET, rows.num_rows, content, partition, numbers)

    def _commit(
        self, path: Path, kind: FileFormat, rows: int, content: Any, partition: Record, numbers: list[int] | None
    ) -> None:
        deletes = DataFile.from_args(
            content=content,
            file_path=f"file://{path}",
            file_format=kind,
            partition=partition,
            record_count=rows,
            file_size_in_bytes=path.stat().st_size,
            equality_ids=numbers,
        )
        deletes.spec_id = self.table.metadata.default_spec_id
        producer = _Deleting(self.table, deletes)
        producer.commit()
        producer._transaction_of_table.commit_transaction()
        self.table.refresh()

    def delete_by_vector(self, file: DataFile, gone: Sequence[int]) -> None:
        """Delete rows of a file by their places, in a deletion vector, which is all that the file has."""
        bitmap = BitMap(gone).serialize()
        vector = struct.pack("<q", 1) + struct.pack("<i", 0) + bitmap
        inner = bytes.fromhex("D1D33964") + vector
        blob = struct.pack(">i", len(inner)) + inner + struct.pack(">I", zlib.crc32(inner))
        footer = json.dumps(
            {
                "blobs": [
                    {
                        "type": "deletion-vector-v1",
                        "fields": [],
                        "snapshot-id": -1,
                        "sequence-number": -1,
                        "offset": 4,
                        "length": len(blob),
                        "properties": {"referenced-data-file": file.file_path, "cardinality": str(len(gone))},
                    }
                ],
                "properties": {},
            }
        ).encode()
        magic = b"PFA1"
        whole = magic + blob + magic + footer + struct.pack("<i", len(footer)) + bytes(4) + magic
        path = Path(f"{self.folder}/vector-{len(self.table.metadata.snapshots)}.puffin")
        path.write_bytes(whole)
        self._commit(path, FileFormat.PUFFIN, len(gone), DataFileContent.POSITION_DELETES, file.partition, None)

    def write_file(self, table: Table, rows: pa.Table) -> None:
        """Append a file that pyarrow writes: pyiceberg does not write which lists of structs are null."""
        path = Path(f"{self.folder}/{len(rows)}-rows.parquet")
        pq.write_table(rows, path)
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=f"file://{path}",
            file_format=FileFormat.PARQUET,
            partition=Record(),
            record_count=len(rows),
            file_size_in_bytes=path.stat().st_size,
        )
        file.spec_id = 0
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as files:
            files.append_data_file(file)

    # what there must be ---------------------------------------------------------------------------------------------

    def contents(self, snapshot_id: int | None = None) -> Counter[Row]:
        """The rows of a snapshot, from its manifests and files, by the rules of the format and in plain Python."""
        metadata = self.table.refresh().metadata
        snapshot = metadata.current_snapshot() if snapshot_id is None else metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            return Counter()
        entries = [e for m in snapshot.manifests(self.table.io) for e in m.fetch_manifest_entry(self.table.io)]
        result: Counter[Row] = Counter()
        for entry in entries:
            data = entry.data_file
            if data.content != DataFileContent.DATA:
                continue
            rows = pq.read_table(data.file_path.removeprefix("file://"), partitioning=None).to_pylist()
            for position, row in enumerate(rows):
                if not any(_deleted(entry, other, position, row) for other in entries):
                    result[tuple(row.get(name) for name in ARROW.names)] += 1
        return result

    def expected(self) -> Counter[Row]:
        """The rows of ``QUERY`` over the present snapshot."""
        return expected(self.contents())

    def snapshot_of(self, number: int) -> int | None:
        """The id of the snapshot of a number."""
        return next((s.snapshot_id for s in self.table.metadata.snapshots if s.sequence_number == number), None)


def _deleted(entry: ManifestEntry, other: ManifestEntry, position: int, row: dict[str, Any]) -> bool:
    """Whether an entry of deletes applies to a row of a file."""
    data, deletes = entry.data_file, other.data_file
    if deletes.content == DataFileContent.DATA:
        return False
    rows = pq.read_table(deletes.file_path.removeprefix("file://"), partitioning=None).to_pylist()
    own, theirs = int(entry.sequence_number or 0), int(other.sequence_number or 0)
    if deletes.content == DataFileContent.POSITION_DELETES:
        return own <= theirs and {"file_path": data.file_path, "pos": position} in rows
    same = not len(deletes.partition) or deletes.partition == data.partition
    return own < theirs and same and any(all(row[name] == value for name, value in r.items()) for r in rows)


def expected(contents: Counter[Row]) -> Counter[Row]:
    """The rows of ``QUERY`` over rows, computed from all of them."""
    groups: dict[Any, list[Row]] = {}
    for (k, v, p), count in contents.items():
        if v != "d":
            groups.setdefault(p, []).extend([(k, v)] * count)
    result: Counter[Row] = Counter()
    for p, rows in groups.items():
        known = [k for k, _ in rows if k is not None]
        result[(p, len(rows), sum(known) if known else None, max(v for _, v in rows))] += 1
    return result


def given(folder: Path, **options: Any) -> Any:
    """The table of a folder, to be followed from its first snapshot that is left."""
    return an.iceberg(NAME, catalog=properties(folder / "table"), **options)


def sinks(session: an.Session | an.Reader, folder: Path) -> list[Sink]:
    """A table of each kind."""
    rows, groups = session.view("rows"), session.view("v")
    where: dict[str, Any] = {"catalog": properties(folder / "table")}
    return [
        an.sinks.iceberg(groups, "shop.keyed", key=["p"], **where),
        an.sinks.iceberg(rows, "shop.counted", partition_by=["p"], **where),
        an.sinks.iceberg(rows, "shop.log", mode="append", **where),
        an.sinks.iceberg(rows, "shop.exact", mode="rows", **where),
    ]


def kept(folder: Path, name: str) -> Iterator[tuple[str, int, list[dict[str, Any]]]]:
    """Of each snapshot of a sink's table what it is called, its mark and its rows."""
    with load_catalog("default", **properties(folder / "table")) as catalog:
        table = catalog.load_table(f"shop.{name}")
        for snapshot in table.metadata.snapshots:
            upto = int(snapshot.summary["altneu.frontier"]) if snapshot.summary else 0
            yield (
                f"snapshot {snapshot.sequence_number}",
                upto,
                table.scan(snapshot_id=snapshot.snapshot_id).to_arrow().to_pylist(),
            )


def follow(session: an.Session, table: Changing, name: str = "rows", *, given: Any = None, **options: Any) -> Status:
    """Follow a table to its present end; the stream's status."""
    asked = an.iceberg(NAME, catalog=table.properties, **(given or {}))
    with session.follow({name: asked}, available_now=True, **options) as following:
        assert following.wait(200), f"{name} goes on for ever"
    return following.status[name]


__all__ = [
    "ARROW",
    "NAME",
    "QUERY",
    "ROWS",
    "SCHEMA",
    "Changing",
    "expected",
    "follow",
    "given",
    "kept",
    "properties",
    "sinks",
]
