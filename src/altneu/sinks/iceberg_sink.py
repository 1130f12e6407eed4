"""An Iceberg table as a target: its rows and its mark change in one commit of its catalog.

The mark is in the table's properties, which a commit sets together with its snapshot, and which compactions and expired
snapshots leave as they are. A commit names the snapshot that it follows, and is not repeated on another one: of two
sinks that write at once the second is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu.columnar.hashing import Hashes, hash_rows
from altneu.columnar.rows import Rows
from altneu.engine.reading import updates_table
from altneu.errors import InputError, SchemaError, SinkError
from altneu.errors.extras import require
from altneu.order import Epoch
from altneu.sinks import partitions
from altneu.sinks.base import MODES, Mark, Mode, Sink, refuse_negative, several
from altneu.streams.tables.iceberg import catalog_of
from altneu.trace.update import Updates, consolidate
from altneu.types import VARIANT, contains, to_ddl, type_name

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import FileScanTask, Table, Transaction
    from pyiceberg.table.update.snapshot import _OverwriteFiles

    from altneu.engine.reading import OnErrors
from altneu.views.view import View

COUNT = "row_count"
_TRIES = 5  # of a commit that met one of another program, a compaction perhaps
_NO_RETRY = {"commit.retry.num-retries": "0"}  # pyiceberg would repeat a commit on what a rival has written


class IcebergSink(Sink):
    """An Iceberg table; see ``altneu.sinks.iceberg``."""

    modes: ClassVar[tuple[Mode, ...]] = (*MODES, "rows")

    def __init__(
        self,
        view: View,
        table: str,
        mode: Mode,
        key: Sequence[str],
        *,
        catalog: str | Mapping[str, str] | Catalog | None,
        partition_by: Sequence[str],
        properties: Mapping[str, str],
        errors: OnErrors,
        lease: float | str,
    ) -> None:
        super().__init__(view, mode, key, errors, lease)
        require("iceberg", "a sink into an Iceberg table")
        if "." not in str(table):
            raise SinkError(f"an Iceberg table is named with its namespace, such as 'shop.totals', got {table!r}")
        self._name, self._partition_by, self._properties = table, list(several(partition_by)), dict(properties)
        try:
            self._catalog = catalog_of(catalog)
        except InputError as error:
            raise SinkError(str(error)) from error
        controls = {"append": (*self.followed.time_names(), "diff"), "upsert": (), "merge": (COUNT,), "rows": ()}[mode]
        self.followed.check_names(controls)
        for field in view.schema:
            absent = pt.is_duration(field.type) or pt.is_interval(field.type) or pt.is_null(field.type)
            if absent or contains(field.type, VARIANT.equals):
                raise SchemaError(
                    f"column {field.name!r} has type {type_name(field.type)}, which Iceberg tables do not have; let "
                    "the view select a cast of it to another type"
                )
            if (inner := _of_structs(field.type)) is not None:
                raise SchemaError(
                    f"column {field.name!r} has type {type_name(field.type)}, and pyiceberg does not write which "
                    f"values of {type_name(inner)} are null; let the view select to_json({field.name})"
                )
        fields = [f.with_nullable(True) for f in view.schema]
        self._schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in controls)])
        self._partitions = partitions.checked(view, self._partition_by)
        self._table: Table | None = None

    @property
    def where(self) -> str:
        """The table."""
        return f"Iceberg table {self._name}"

    @property
    def identity(self) -> str:
        """The table and its catalog: two catalogs may have tables of one name."""
        return f"{self.where} of {self._catalog.name} {self._catalog.properties.get('uri', '')}"

    # the mark -------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark | None:
        """The mark of the present metadata."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        self._table = None
        try:
            self._table = self._catalog.load_table(self._name)
        except (NoSuchTableError, NoSuchNamespaceError):
            return None
        self._check_table(self._table)
        said = self._table.properties
        if "altneu.store" not in said:
            if self._table.metadata.current_snapshot() is not None:
                raise SinkError(
                    f"{self.where} has snapshots, but its properties do not say which of the view's changes these are; "
                    "choose another table"
                )
            return None
        return Mark(said["altneu.store"], self.view.name, int(said["altneu.frontier"]))

    @property
    def _declared(self) -> dict[str, str]:
        """What the table's properties say of the sink."""
        return {
            "altneu.view": self.view.name,
            "altneu.mode": self.mode,
            "altneu.key": json.dumps(self.key),
            "altneu.columns": to_ddl(self.view.schema),
            "altneu.partition-by": json.dumps(self._partition_by),
        }

    def _check_table(self, table: Table) -> None:
        """Refuse a table that is not of this sink."""
        if "altneu.view" not in table.properties:
            raise SinkError(f"{self.where} was not made by a sink of altneu; choose another table")
        for name, value in {**self._declared, **self._properties}.items():
            if (said := table.properties.get(name)) != value:
                raise SinkError(
                    f"{self.where} has {name.removeprefix('altneu.')} {said!r}, but this sink has {value!r}; "
                    "use the same, or choose another table"
                )

    # rows -----------------------------------------------------------------------------------------------------------

    def contents(self) -> Updates:
        """The rows of the table."""
        if self._table is None:
            return Updates.empty(self.view.schema, 1)
        return consolidate(self._updates(self._table.scan().to_arrow()), Epoch())

    def _updates(self, table: pa.Table) -> Updates:
        """Rows of the table, with their counts or diffs."""
        schema = self.view.schema
        table = table.select(self._schema.names).cast(self._schema).combine_chunks()
        counted = len(self._schema) > len(schema)
        diffs = np.asarray(table[self._schema.names[-1]] if counted else np.ones(len(table)), np.int64)
        rows = Rows.from_batch(table.select(schema.names).cast(schema))
        return Updates(rows, np.zeros((1, rows.count), np.int64), diffs)

    def apply(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        """Commit rows and mark at once."""
        from pyiceberg.exceptions import CommitFailedException

        for left in reversed(range(_TRIES)):
            try:
                transaction = self._opened(before).transaction()
                transaction.set_properties({"altneu.store": after.store, "altneu.frontier": str(after.frontier)})
                self._write(transaction, updates, after)
                transaction.commit_transaction()
            except CommitFailedException as error:
                if self.mark() != before:
                    raise SinkError(f"{self.where} was written by another process meanwhile; run again") from error
                if not left:
                    raise SinkError(
                        f"{self.where} is changed by another program all the time, so that no commit succeeded: {error}"
                    ) from error
            else:
                return

    def _opened(self, before: Mark | None) -> Table:
        """The table as ``mark`` found it, created if there was none, which does not repeat a commit."""
        from pyiceberg.exceptions import NoSuchNamespaceError, TableAlreadyExistsError

        if self._table is None:
            said = {**self._properties, **self._declared}
            try:
                with self._catalog.create_table_transaction(self._name, self._schema, properties=said) as creating:
                    if self._partition_by:
                        with creating.update_spec() as spec:
                            partitions.add(spec, self._partitions)
                self._table = self._catalog.load_table(self._name)
            except NoSuchNamespaceError as error:
                namespace = self._name.rpartition(".")[0]
                raise SinkError(
                    f"the namespace of {self.where} does not exist; create it: catalog.create_namespace({namespace!r})"
                ) from error
            except TableAlreadyExistsError as error:  # another one has created it, and perhaps written
                if self.mark() != before or self._table is None:
                    raise SinkError(f"{self.where} was written by another process meanwhile; run again") from error
        table = self._table
        said = {**table.metadata.properties, **_NO_RETRY}
        table.metadata = table.metadata.model_copy(update={"properties": said})
        return table

    def _write(self, transaction: Transaction, updates: Updates, after: Mark) -> None:
        """Let a snapshot replace the files that have rows of changed keys by the same files with the changes."""
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        assert self._table is not None
        replaced: list[FileScanTask] = []
        if self.mode == "append":
            names = self._schema.names[len(self.view.schema) :]
            rows = updates_table(updates, names[:-1], names[-1]).cast(self._schema)
        else:
            rows = self._merged(updates, replaced)
        snapshot = transaction.update_snapshot({"altneu.frontier": str(after.frontier)})
        with _alone(snapshot.overwrite()) if replaced else snapshot.fast_append() as files:
            for task in replaced:
                files.delete_data_file(task.file)
            if len(rows):
                for file in _dataframe_to_data_files(transaction.table_metadata, rows, self._table.io):
                    files.append_data_file(file)

    def _merged(self, updates: Updates, replaced: list[FileScanTask]) -> pa.Table:
        """The changes and what is in the files that have rows of the same keys; these files are added to a list."""
        assert self._table is not None
        names = list(self.key) or self.view.schema.names
        changed = np.unique(hash_rows(updates.rows, names))
        parts = [updates]
        for task in self._table.scan().plan_files() if len(updates) else ():
            if np.isin(self._hashes(task, names), changed).any():
                replaced.append(task)
                parts.append(self._updates(self._read(task, self._schema.names)))
        net = consolidate(Updates.concat(parts, self.view.schema, 1), Epoch())
        refuse_negative(net, self.view.name)
        if self.mode == "merge":
            return updates_table(net, (), COUNT).cast(self._schema)
        if self.mode == "rows":
            copies = net.rows.take(np.repeat(np.arange(len(net)), net.diffs))
            return pa.Table.from_batches([copies.to_batch()]).cast(self._schema)
        keys = net.rows.select(names)
        counts = consolidate(Updates(keys, np.zeros((1, len(net)), np.int64), net.diffs), Epoch())
        several = np.flatnonzero(counts.diffs > 1)
        if len(several):
            self.refuse_key(counts.rows.take(several[:1]))
        return pa.Table.from_batches([net.rows.to_batch()]).cast(self._schema)

    def _hashes(self, task: FileScanTask, names: Sequence[str]) -> Hashes:
        """Of each row of a file the hash of some columns."""
        schema = pa.schema([self.view.schema.field(name) for name in names])
        table = self._read(task, names).cast(pa.schema([self._schema.field(name) for name in names]))
        return hash_rows(Rows.from_batch(table.cast(schema).combine_chunks()))

    def _read(self, task: FileScanTask, names: Sequence[str]) -> pa.Table:
        from pyiceberg.expressions import AlwaysTrue
        from pyiceberg.io.pyarrow import ArrowScan

        assert self._table is not None
        table = self._table
        return ArrowScan(table.metadata, table.io, table.schema().select(*names), AlwaysTrue()).to_table([task])


def _alone(files: _OverwriteFiles) -> _OverwriteFiles:
    """A snapshot in the making that looks at each manifest by itself.

    pyiceberg looks at several at once, in threads, with one evaluator, which holds the manifest that it is at: of a
    partitioned table it overlooked files that have to go, and refused the commit.
    """
    evaluator_of = files._build_manifest_evaluator

    def alone(spec: int) -> Callable[[ManifestFile], bool]:
        def may_match(manifest: ManifestFile) -> bool:
            return evaluator_of(spec)(manifest)

        return may_match

    files._build_manifest_evaluator = alone  # type: ignore[assignment, method-assign]
    return files


def _of_structs(kind: pa.DataType) -> pa.DataType | None:
    """An array of structs or a map to structs in a type; None if there is none."""
    inner = (
        kind.value_type if pt.is_list(kind) or pt.is_large_list(kind) else kind.item_type if pt.is_map(kind) else None
    )
    if inner is not None and pt.is_struct(inner):
        return kind
    within = [inner] if inner is not None else [field.type for field in kind] if pt.is_struct(kind) else []
    return next((found for each in within if (found := _of_structs(each)) is not None), None)
