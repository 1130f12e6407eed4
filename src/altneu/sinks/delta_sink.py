"""A Delta table as a target: its rows and its mark change in one transaction of the table's log.

The mark is made of application transactions, which Delta keeps with the data in each version and in checkpoints:
``altneu`` counts what sinks have written, so that of two that write at once the second is refused; ``altneu/to`` is the
time up to which the table has the changes; and ``altneu/of/<store>`` is the count at which a store wrote last.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.engine.reading import updates_table
from altneu.errors import SchemaError, SinkError
from altneu.errors.extras import require
from altneu.order import Epoch
from altneu.sinks.base import MODES, Mark, Mode, Sink, check_partitions, refuse_negative, several
from altneu.trace.update import Updates, consolidate
from altneu.types import VARIANT, contains, to_ddl, type_name

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

    from altneu.engine.reading import OnErrors
from altneu.views.view import View

COUNT = "row_count"
_OPERATION = "#operation"  # what happens to a key: what follows, or a number from 1 on of a key that is new
_GONE, _CHANGED = -1, 0
_SEVERAL = "several rows of the key of row "
_APP = "altneu"
_NO_NAME = {*" ,;{}()\n\t="}
_NULLS = {"": "an empty string", "__HIVE_DEFAULT_PARTITION__": "the text of the folder of nulls"}
_TRIES = 5  # of a commit that met one of another program, a compaction perhaps


class DeltaSink(Sink):
    """A Delta table; see ``altneu.sinks.delta``."""

    modes: ClassVar[tuple[Mode, ...]] = (*MODES, "rows")

    def __init__(
        self,
        view: View,
        path: str | os.PathLike[str],
        mode: Mode,
        key: Sequence[str],
        *,
        partition_by: Sequence[str],
        configuration: Mapping[str, str],
        storage_options: Mapping[str, str],
        errors: OnErrors,
        lease: float | str,
    ) -> None:
        super().__init__(view, mode, key, errors, lease)
        require("delta", "a sink into a Delta table")
        self._path, self._options = os.fspath(path), dict(storage_options) or None
        self._partition_by, self._configuration = list(several(partition_by)), dict(configuration)
        controls = {"append": (*self.followed.time_names(), "diff"), "upsert": (), "merge": (COUNT,), "rows": ()}[mode]
        self.followed.check_names((*controls, _OPERATION))
        fields = [f.with_nullable(True) for f in view.schema]
        self._schema = pa.schema([*fields, *(pa.field(name, pa.int64()) for name in controls)])
        for field in view.schema:
            absent = pt.is_duration(field.type) or pt.is_interval(field.type) or pt.is_time(field.type)
            if absent or contains(field.type, VARIANT.equals):
                raise SchemaError(
                    f"column {field.name!r} has type {type_name(field.type)}, which Delta tables do not have; let the "
                    "view select a cast of it to another type"
                )
            if _NO_NAME & {*field.name}:
                raise SchemaError(
                    f"column {field.name!r} of view {view.name!r} has a name that Delta tables do not have: none of "
                    "' ,;{}()\\n\\t=' may be in it; rename it in the view"
                )
        check_partitions(view, self._partition_by)
        self._table: DeltaTable | None = None

    @property
    def where(self) -> str:
        """The table."""
        return f"Delta table {self._path}"

    # the mark -------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark | None:
        """The mark of the newest version."""
        table = self._open()
        if table is None:
            return None
        self._check_table(table)
        written = table.transaction_version(_APP)
        if written is None:
            if pa.table(table.get_add_actions()).num_rows:
                raise SinkError(
                    f"{self.where} has rows, but no transaction says which of the view's changes these are; choose "
                    "another path"
                )
            return None
        mine = table.transaction_version(_of(self.followed.history_id)) == written
        store = self.followed.history_id if mine else "another store"
        return Mark(store, self.view.name, table.transaction_version(f"{_APP}/to") or 0)

    def _open(self) -> DeltaTable | None:
        """The newest version of the table, None if there is none."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        self._table = None
        try:
            if DeltaTable.is_deltatable(self._path, self._options):
                self._table = DeltaTable(self._path, storage_options=self._options)
        except DeltaError as error:
            raise SinkError(f"{self.where} cannot be opened: {error}") from error
        return self._table

    @property
    def _declared(self) -> dict[str, str]:
        """What the table's properties say of the sink."""
        return {
            "altneu.view": self.view.name,
            "altneu.mode": self.mode,
            "altneu.key": json.dumps(self.key),
            "altneu.columns": to_ddl(self.view.schema),
        }

    def _check_table(self, table: DeltaTable) -> None:
        """Refuse a table that is not of this sink."""
        metadata = table.metadata()
        if "altneu.view" not in metadata.configuration:
            raise SinkError(f"{self.where} was not made by a sink of altneu; choose another path")
        said = {**metadata.configuration, "partition_by": json.dumps(metadata.partition_columns)}
        given = {**self._declared, **self._configuration, "partition_by": json.dumps(self._partition_by)}
        for name, value in given.items():
            if said.get(name) != value:
                raise SinkError(
                    f"{self.where} has {name.removeprefix('altneu.')} {said.get(name)!r}, but this sink has {value!r}; "
                    "use the same, or choose another path"
                )

    def _properties(self, after: Mark) -> CommitProperties:
        """The transactions of a commit, by which it is the mark and rivals are refused."""
        from deltalake import CommitProperties, Transaction

        assert self._table is not None
        number = (self._table.transaction_version(_APP) or 0) + 1
        versions = {_APP: number, f"{_APP}/to": after.frontier, _of(after.store): number}
        said = {"altneu.view": after.view, "altneu.frontier": str(after.frontier)}
        return CommitProperties(said, app_transactions=[Transaction(*each) for each in versions.items()])

    # rows -----------------------------------------------------------------------------------------------------------

    def contents(self) -> Updates:
        """The rows of the table."""
        schema = self.view.schema
        if self._table is None:
            return Updates.empty(schema, 1)
        table = pa.table(self._table.scan()).select(self._schema.names).cast(self._schema).combine_chunks()
        counted = len(self._schema) > len(schema)
        diffs = table[self._schema.names[-1]].to_numpy() if counted else np.ones(table.num_rows, np.int64)
        rows = Rows.from_batch(table.select(schema.names).cast(schema))
        return consolidate(Updates(rows, np.zeros((1, rows.count), np.int64), diffs), Epoch())

    def apply(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        """Commit rows and mark in one version of the table."""
        from deltalake.exceptions import CommitFailedError, DeltaError

        self._refuse_partitions(updates)
        rows = self._schema.empty_table() if self.mode == "rows" else self._rows(updates)
        for left in reversed(range(_TRIES)):
            try:
                self._create(before)
                properties = self._properties(after)
                if not len(updates):
                    self._write_mark(properties)
                elif self.mode == "append":
                    self._append(rows, properties)
                elif self.mode == "rows":
                    self._replace(updates, properties)
                else:
                    self._merge(rows, properties)
            except CommitFailedError as error:
                self._refuse_rival(before, error)
                if not left:
                    raise SinkError(
                        f"{self.where} is changed by another program all the time, so that no commit succeeded: {error}"
                    ) from error
            except DeltaError as error:
                self._table = None
                if found := re.search(f"{_SEVERAL}(\\d+)", str(error)):
                    self.refuse_key(Rows.from_batch(rows.slice(int(found[1]) - 1, 1).select(self.key)))
                raise SinkError(f"{self.where} accepted none of the changes: {error}") from error
            else:
                return

    def _refuse_rival(self, before: Mark | None, error: BaseException) -> None:
        """Refuse a target whose mark is another one, now that it is read again."""
        if self.mark() != before:
            raise SinkError(f"{self.where} was written by another process meanwhile; run again") from error

    def _create(self, before: Mark | None) -> None:
        """Create the table, empty and without a mark, if it does not exist."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if self._table is not None:
            return
        try:
            self._table = DeltaTable.create(
                self._path,
                self._schema,
                partition_by=self._partition_by or None,
                configuration={**self._configuration, **self._declared},
                storage_options=self._options,
                raise_if_key_not_exists=False,
            )
        except DeltaError as error:
            self._refuse_rival(before, error)  # another one has created it, and perhaps written
            if self._table is None:
                raise

    def _write_mark(self, properties: CommitProperties) -> None:
        assert self._table is not None
        self._table.create_write_transaction(
            [], "append", self._table.schema(), self._partition_by or None, commit_properties=properties
        )

    def _append(self, rows: pa.Table, properties: CommitProperties) -> None:
        from deltalake import write_deltalake

        assert self._table is not None
        write_deltalake(self._table, rows, mode="append", commit_properties=properties)

    def _replace(self, updates: Updates, properties: CommitProperties) -> None:
        """Delete rows of which copies go, and insert the copies that stay, with those that come."""
        assert self._table is not None
        added, removed = updates.filter(updates.diffs > 0), updates.filter(updates.diffs < 0)
        inserted = Updates.concat([added, self._left(removed)], self.view.schema, 1)
        copies = inserted.rows.take(np.repeat(np.arange(len(inserted)), inserted.diffs))
        rows = pa.Table.from_batches([copies.to_batch()]).cast(self._schema)
        if not len(removed):
            self._append(rows, properties)
            return
        gone = pa.Table.from_batches([removed.rows.to_batch()]).cast(self._schema)
        operation = np.repeat([_CHANGED, _GONE], [rows.num_rows, gone.num_rows])
        source = pa.concat_tables([rows, gone]).append_column(_OPERATION, pa.array(operation))
        goes = f"{_col('s', _OPERATION)} = {_GONE}"
        same = [f"({_col('t', n)} IS NOT DISTINCT FROM {_col('s', n)})" for n in self._schema.names]
        merger = self._table.merge(source, " AND ".join([goes, *same]), "s", "t", commit_properties=properties)
        given = {_quoted(n): _col("s", n) for n in self._schema.names}
        merger.when_matched_delete().when_not_matched_insert(given, f"NOT ({goes})").execute()

    def _left(self, removed: Updates) -> Updates:
        """Of rows of which copies go, how many stay in the table.

        Raises:
            SinkError: there are fewer than go.
        """
        assert self._table is not None
        schema, parts = self.view.schema, [removed]
        hashes = np.unique(hash_rows(removed.rows)) if len(removed) else ()
        for batch in self._table.scan() if len(removed) else ():
            table = pa.Table.from_batches([pa.record_batch(batch)]).select(schema.names).cast(self._schema)
            rows = Rows.from_batch(table.cast(schema).combine_chunks())
            rows = rows.take(np.flatnonzero(np.isin(hash_rows(rows), hashes)))
            parts.append(Updates(rows, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64)))
        left = consolidate(Updates.concat(parts, schema, 1), Epoch())
        refuse_negative(left, self.view.name)
        return left

    def _merge(self, rows: pa.Table, properties: CommitProperties) -> None:
        """Find the rows of the table by their keys, or by all of their columns, and delete, update or insert them."""
        assert self._table is not None
        names = self._schema.names
        same = self.key or self.view.schema.names
        condition = " AND ".join(f"({_col('t', n)} IS NOT DISTINCT FROM {_col('s', n)})" for n in same) or "true"
        merger = self._table.merge(rows, condition, "s", "t", commit_properties=properties)
        given = {_quoted(n): _col("s", n) for n in names}
        if self.mode == "upsert":
            gone, stays = (f"{_col('s', _OPERATION)} {sign} {_GONE}" for sign in ("=", "<>"))
            changed = given | {_quoted(self.key[0]): _failing_if_new(_col("s", self.key[0]))}
            merger = merger.when_matched_delete(gone).when_matched_update(changed, stays)
            merger.when_not_matched_insert(given, stays).execute()
        else:
            total = f"{_col('t', COUNT)} + {_col('s', COUNT)}"
            merger = merger.when_matched_delete(f"{total} = 0").when_matched_update({_quoted(COUNT): total})
            merger.when_not_matched_insert(given).execute()

    def _rows(self, updates: Updates) -> pa.Table:
        """What is written: changes, rows with what is added to their counts, or a row or nothing for each key."""
        names = self._schema.names
        if self.mode != "upsert":
            table = updates_table(updates, names[len(self.view.schema) : -1], names[-1])
            return table.cast(self._schema)
        added, removed = updates.filter(updates.diffs > 0), updates.filter(updates.diffs < 0)
        # A sum for each key: 1 if its row went, twice a number from 1 on if the row of this number came, or both.
        came = self._of_keys(added, 2 * np.arange(1, len(added) + 1))
        went = self._of_keys(removed, np.ones(len(removed), np.int64))
        keys = consolidate(Updates.concat([came, went], came.schema, 1), Epoch())
        gone = keys.filter(keys.diffs == 1).rows.to_batch()
        new = keys.diffs[keys.diffs % 2 == 0] // 2
        operation = np.full(len(added) + gone.num_rows, _CHANGED)
        operation[len(added) :] = _GONE
        operation[new - 1] = new
        rows = pa.Table.from_batches([added.rows.to_batch()]).cast(self._schema)
        rest = {n: gone[n] if n in self.key else pa.nulls(gone.num_rows, rows.schema.field(n).type) for n in names}
        return pa.concat_tables([rows, pa.table(rest, rows.schema)]).append_column(_OPERATION, pa.array(operation))

    def _refuse_partitions(self, updates: Updates) -> None:
        """Refuse what the log of a table, or its folders, cannot tell from a null, and what deltalake cannot write."""
        for name in self._partition_by:
            column = updates.rows.columns[updates.schema.names.index(name)]
            for text, what in _NULLS.items() if pt.is_string(column.type) else ():
                if pc.any(pc.equal(column, text)).as_py():
                    raise SinkError(
                        f"view {self.view.name!r} has {what} in {name!r}, by which {self.where} is partitioned, and "
                        f"there it would be read as a null; select nullif({name}, '{text}') into the view, or "
                        "partition by another column"
                    )
            whole = pc.trunc(column) if pt.is_decimal(column.type) else column
            if pc.any(pc.less(column, whole)).as_py():
                raise SinkError(
                    f"view {self.view.name!r} has a negative fraction in {name!r}, by which {self.where} is "
                    "partitioned; deltalake cannot write it there: partition by another column"
                )

    def _of_keys(self, updates: Updates, weights: Ints) -> Updates:
        """The keys of rows, with weights.

        Raises:
            SinkError: two rows have the same key, or a row is there twice.
        """
        keys, none = updates.rows.select(self.key), np.zeros((1, len(updates)), np.int64)
        counts = consolidate(Updates(keys, none, np.abs(updates.diffs)), Epoch())
        several = np.flatnonzero(counts.diffs > 1)
        if len(several):
            self.refuse_key(counts.rows.take(several[:1]))
        return Updates(keys, none, weights)


def _failing_if_new(value: str) -> str:
    """A column's new value where the table has the key, and of a key that is new to the view an error instead."""
    number = _col("s", _OPERATION)
    failing = f"CAST(concat('{_SEVERAL}', CAST({number} AS VARCHAR)) AS BIGINT)"
    return f"CASE WHEN (CASE WHEN {number} > 0 THEN {failing} ELSE 1 END) = 0 THEN NULL ELSE {value} END"


def _of(store: str) -> str:
    return f"{_APP}/of/{store}"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _col(table: str, name: str) -> str:
    return f"{table}.{_quoted(name)}"
