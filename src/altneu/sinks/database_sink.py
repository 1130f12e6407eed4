"""A table of a database as a target: its rows and its mark change in one transaction."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt
from sqlglot import exp

from altneu.columnar.rows import Rows
from altneu.errors import AltneuError, SchemaError, SinkError, UnknownColumnError
from altneu.order import Epoch
from altneu.sinks.base import Mark, Mode, Sink, refuse_negative
from altneu.trace.update import Updates, consolidate
from altneu.types import type_name

if TYPE_CHECKING:
    from altneu.engine.reading import OnErrors
from altneu.views.view import View

MARKS = "altneu_marks"  # a table of the database: how far each table has come
_MARK_COLUMNS = ("target", "id", "made_as", "store", "view_name", "frontier")
_MARK_TYPES = [*[pa.string()] * 5, pa.int64()]
_DERBY = {
    pa.string(): "VARCHAR(4000)",
    pa.binary(): "VARCHAR(4000) FOR BIT DATA",
    pa.float64(): "DOUBLE",
    pa.float32(): "REAL",
    pa.int8(): "SMALLINT",
    pa.timestamp("us", "UTC"): "TIMESTAMP",
    pa.timestamp("us"): "TIMESTAMP",
}

Row = tuple[Any, ...]
PARAMETER = "\0"  # where a statement has a parameter: no name has this character, whatever signs a driver takes


class Connection(Protocol):
    """The operations that a database sink needs of a driver; nothing is committed until ``commit``."""

    def execute(self, sql: str) -> None:
        """Run a statement without parameters."""

    def batch(self, sql: str, rows: Sequence[Row], types: Sequence[pa.DataType]) -> list[int]:
        """Run a statement for each row of parameters; returns how many rows of the table each changed."""

    def query(self, sql: str, types: Sequence[pa.DataType]) -> Iterator[Row]:
        """The rows of a query, as Python values of these types."""

    def runs(self, sql: str) -> bool:
        """Whether a query can be run."""

    def commit(self) -> None:
        """Commit everything since the last commit."""

    def rollback(self) -> None:
        """Roll back everything since the last commit."""

    def close(self) -> None:
        """Close the connection."""


class DatabaseSink(Sink):
    """A table of a database; see ``altneu.sinks.database`` and ``altneu.sinks.jdbc``.

    ``dialect``, the name of a dialect of sqlglot or "derby", decides how names are quoted and which types columns have.
    Statements are plain INSERT, UPDATE and DELETE, which every database accepts.
    """

    def __init__(
        self,
        view: View,
        connect: Callable[[], Connection],
        table: str,
        mode: Mode,
        key: Sequence[str],
        *,
        dialect: str,
        errors: OnErrors,
        lease: float | str,
        types: dict[str, str],
        described: str,
    ) -> None:
        super().__init__(view, mode, key, errors, lease)
        self._connect, self._table, self._dialect, self._types = connect, table, dialect, types
        self._described, self._id = described, uuid.uuid4().hex
        self._declared = f"mode={mode!r}" + (f", key={list(key)!r}" if key else "")
        controls = {"append": (*self.followed.time_names(), "diff"), "upsert": (), "merge": ("row_count",)}[mode]
        self.followed.check_names(controls)
        if unknown := [name for name in types if name not in view.schema.names]:
            raise UnknownColumnError(unknown[0], view.schema.names, f"the types of a sink of view {view.name}")
        fields = [*view.schema, *(pa.field(name, pa.int64(), nullable=False) for name in controls)]
        self._schema = pa.schema(fields)
        for field in view.schema:
            if pt.is_nested(field.type) or pt.is_duration(field.type) or pt.is_time(field.type):
                raise SchemaError(
                    f"column {field.name!r} has type {type_name(field.type)}, which database tables do not have; let "
                    "the view select to_json(...) of it, or a cast to another type"
                )

    @property
    def where(self) -> str:
        """The table."""
        return f"table {self._table} of {self._described}"

    @property
    def identity(self) -> str:
        """An id of this table, unique among databases, which is stored with the mark."""
        return self._id

    # the parts of a statement ---------------------------------------------------------------------------------------

    def _quoted(self, name: str) -> str:
        dialect = None if self._dialect == "derby" else self._dialect
        return exp.to_identifier(name, quoted=True).sql(dialect=dialect)

    def _name(self, table: str) -> str:
        """The name of a table, with each part of ``schema.table`` quoted."""
        return ".".join(self._quoted(part) for part in table.split("."))

    def _columns(self, names: Sequence[str]) -> str:
        return ", ".join(map(self._quoted, names))

    def _type(self, field: pa.Field) -> str:
        if field.name in self._types:
            return self._types[field.name]
        if self._dialect == "derby":
            return _DERBY.get(field.type) or exp.DataType.build(type_name(field.type), dialect="spark").sql()
        if self._dialect == "sqlite" and pt.is_decimal(field.type):
            return "TEXT"  # it has no decimals, and doubles would round
        return exp.DataType.build(type_name(field.type), dialect="spark").sql(dialect=self._dialect)

    def _create(self, connection: Connection) -> None:
        """Create the two tables if they do not exist; a table of the user's is used as it is."""
        there = [connection.runs(self._probe(table)) for table in (MARKS, self._table)]  # one that fails rolls back
        if not there[0]:
            text = [pa.field(name, pa.string(), nullable=False) for name in _MARK_COLUMNS[:-1]]
            fields = [*text, pa.field("frontier", pa.int64(), nullable=False)]
            parts = [f"{self._quoted(f.name)} {self._mark_type(f)} NOT NULL" for f in fields]
            parts.append(f"PRIMARY KEY ({self._quoted('target')})")
            connection.execute(f"CREATE TABLE {self._name(MARKS)} ({', '.join(parts)})")
        if not there[1]:
            must = {*self.key, *self._schema.names[len(self.view.schema) :]}
            nulls = ["" if f.nullable and f.name not in must else " NOT NULL" for f in self._schema]
            parts = [
                f"{self._quoted(f.name)} {self._type(f)}{null}" for f, null in zip(self._schema, nulls, strict=True)
            ]
            if self.key:
                parts.append(f"PRIMARY KEY ({self._columns(self.key)})")
            connection.execute(f"CREATE TABLE {self._name(self._table)} ({', '.join(parts)})")
            if there[0]:  # the mark of a table that was dropped is not this one's
                forget = f"DELETE FROM {self._name(MARKS)} WHERE {self._quoted('target')} = {PARAMETER}"
                connection.batch(forget, [(self._table,)], [pa.string()])
        connection.commit()

    def _probe(self, table: str) -> str:
        return f"SELECT 1 FROM {self._name(table)} WHERE 1 = 0"

    def _mark_type(self, field: pa.Field) -> str:
        return "VARCHAR(400)" if field.type == pa.string() else self._type(field)

    # reading ----------------------------------------------------------------------------------------------------------

    def mark(self) -> Mark | None:
        """The mark of the table."""
        with self._connected("cannot be created or read") as connection:
            self._create(connection)
            return self._mark(connection)

    @contextmanager
    def _connected(self, failed: str) -> Iterator[Connection]:
        """A connection, closed at the end; an error of the driver becomes one that says what of the table failed."""
        try:
            connection = self._connect()
            try:
                yield connection
            finally:
                connection.close()
        except AltneuError:
            raise
        except Exception as error:
            raise SinkError(f"{self.where} {failed}: {type(error).__name__}: {error}") from error

    def _mark(self, connection: Connection) -> Mark | None:
        sql = f"SELECT {self._columns(_MARK_COLUMNS)} FROM {self._name(MARKS)}"
        for name, own, declared, store, view, frontier in connection.query(sql, _MARK_TYPES):
            if name == self._table:
                if declared != self._declared:
                    raise SinkError(
                        f"{self.where} was created with {declared}, but this sink has {self._declared}; use the same, "
                        "or choose another table"
                    )
                self._id = own
                return Mark(store, view, frontier)
        return None

    def contents(self) -> Updates:
        """The rows of the table."""
        schema, types = self.view.schema, self._schema.types
        with self._connected("cannot be read") as connection:
            sql = f"SELECT {self._columns(self._schema.names)} FROM {self._name(self._table)}"
            result = list(connection.query(sql, types))
        width = len(schema)
        rows = Rows.from_pylist([row[:width] for row in result], schema)
        diffs = np.array([1 if self.mode == "upsert" else row[-1] for row in result], np.int64)
        return consolidate(Updates(rows, np.zeros((1, len(result)), np.int64), diffs), Epoch())

    # writing ----------------------------------------------------------------------------------------------------------

    def apply(self, updates: Updates, before: Mark | None, after: Mark) -> None:
        """Change rows and mark in one transaction, which is rolled back if another process has moved the mark."""
        if self._dialect == "sqlite":
            self._refuse_nan(updates)
        with self._connected("accepted none of the changes") as connection:
            try:
                if before is None:
                    self._refuse_rows(connection)
                self._move_mark(connection, before, after)
                {"append": self._append, "upsert": self._upsert, "merge": self._merge}[self.mode](connection, updates)
                connection.commit()
            except BaseException:
                connection.rollback()
                raise

    def _refuse_nan(self, updates: Updates) -> None:
        for field, column in zip(self.view.schema, updates.rows.columns, strict=True):
            if pt.is_floating(field.type) and pc.any(pc.is_nan(column)).as_py():
                raise SinkError(
                    f"column {field.name!r} of view {self.view.name!r} has a NaN, which SQLite reads as NULL; select "
                    f"nullif({field.name}, double('NaN')) into the view, or a cast to string"
                )

    def _refuse_rows(self, connection: Connection) -> None:
        """Refuse a table that has rows and no mark, since it is unknown which of the view's changes it has."""
        sql = f"SELECT count(*) FROM {self._name(self._table)}"
        if next(connection.query(sql, [pa.int64()]))[0]:
            raise SinkError(
                f"{self.where} has rows, but {MARKS} has no row that says which changes it has; empty it, or choose "
                "another table"
            )

    def _move_mark(self, connection: Connection, before: Mark | None, after: Mark) -> None:
        table = self._name(MARKS)
        if before is None:
            marks = ", ".join(PARAMETER for _ in _MARK_COLUMNS)
            sql = f"INSERT INTO {table} ({self._columns(_MARK_COLUMNS)}) VALUES ({marks})"
            line = (self._table, self._id, self._declared, after.store, after.view, after.frontier)
            connection.batch(sql, [line], _MARK_TYPES)
            return
        target, _, _, store, _, frontier = map(self._quoted, _MARK_COLUMNS)
        condition = " AND ".join(f"{name} = {PARAMETER}" for name in (target, store, frontier))
        sql = f"UPDATE {table} SET {store} = {PARAMETER}, {frontier} = {PARAMETER} WHERE {condition}"
        row = (after.store, after.frontier, self._table, before.store, before.frontier)
        changed = connection.batch(sql, [row], [pa.string(), pa.int64(), pa.string(), pa.string(), pa.int64()])
        if changed != [1]:
            raise SinkError(f"{self.where} was written by another process meanwhile; run again")

    def _append(self, connection: Connection, updates: Updates) -> None:
        values = zip(updates.rows.to_pylist(), *updates.times.tolist(), updates.diffs.tolist(), strict=True)
        self._insert(connection, [(*row, *controls) for row, *controls in values])

    def _insert(self, connection: Connection, rows: list[Row]) -> None:
        if rows:
            marks = ", ".join(PARAMETER for _ in self._schema)
            sql = f"INSERT INTO {self._name(self._table)} ({self._columns(self._schema.names)}) VALUES ({marks})"
            connection.batch(sql, rows, self._schema.types)

    def _upsert(self, connection: Connection, updates: Updates) -> None:
        """Delete, update and insert rows, by their keys."""
        names, others = self.view.schema.names, [n for n in self.view.schema.names if n not in self.key]
        places = [names.index(name) for name in self.key]
        removed: dict[Row, Row] = {}
        added: dict[Row, Row] = {}
        for row, diff in zip(updates.rows.to_pylist(), updates.diffs.tolist(), strict=True):
            key = tuple(row[i] for i in places)
            side = added if diff > 0 else removed
            if abs(diff) > 1 or key in side:
                self._refuse_key(key)
            if any(part is None for part in key):
                raise SinkError(f"a row of view {self.view.name!r} has no value in its key {self.key}: {row!r:.200}")
            side[key] = row
        self._delete(connection, [key for key in removed if key not in added], names=self.key)
        changed = [(added[key], key) for key in added if key in removed]
        if others and changed:
            sql = (
                f"UPDATE {self._name(self._table)} SET {', '.join(f'{self._quoted(n)} = {PARAMETER}' for n in others)} "
                f"WHERE {' AND '.join(f'{self._quoted(n)} = {PARAMETER}' for n in self.key)}"
            )
            rows = [(*(row[names.index(n)] for n in others), *key) for row, key in changed]
            types = [self.view.schema.field(n).type for n in (*others, *self.key)]
            self._one_each(connection.batch(sql, rows, types), rows)
        self._insert(connection, [row for key, row in added.items() if key not in removed])

    def _refuse_key(self, key: Row) -> None:
        named_key = dict(zip(self.key, key, strict=True))
        raise SinkError(
            f"view {self.view.name!r} has several rows of key {named_key}; choose a key that identifies each row, or "
            'mode="merge"'
        )

    def _one_each(self, changed: list[int], rows: Sequence[Row]) -> None:
        for count, row in zip(changed, rows, strict=True):
            if count != 1:
                raise SinkError(
                    f"{self.where} has {count} rows for {row!r:.200} where the sink wrote one: another program has "
                    "changed the table; empty it, delete its row in altneu_marks, and run again"
                )

    def _delete(self, connection: Connection, rows: Sequence[Row], names: Sequence[str]) -> None:
        for where, places in self._where(rows, names):
            part = [rows[i] for i in places]
            types = [self._schema.field(n).type for n, v in zip(names, part[0], strict=True) if v is not None]
            values = [tuple(v for v in row if v is not None) for row in part]
            changed = connection.batch(f"DELETE FROM {self._name(self._table)} WHERE {where}", values, types)
            self._one_each(changed, values)

    def _where(self, rows: Sequence[Row], names: Sequence[str]) -> Iterator[tuple[str, list[int]]]:
        """Conditions that match rows by their values, nulls included, and the rows of each condition."""

        def nulls(i: int) -> tuple[bool, ...]:
            return tuple(value is None for value in rows[i])

        for mask, places in itertools.groupby(sorted(range(len(rows)), key=nulls), nulls):
            tests = [
                f"{self._quoted(n)} IS NULL" if m else f"{self._quoted(n)} = {PARAMETER}"
                for n, m in zip(names, mask, strict=True)
            ]
            yield " AND ".join(tests) or "1 = 1", list(places)

    def _merge(self, connection: Connection, updates: Updates) -> None:
        """Add to the counts of existing rows, delete those whose count becomes 0, and insert the others."""
        names = self.view.schema.names
        count, table = self._quoted("row_count"), self._name(self._table)
        listed, diffs = updates.rows.to_pylist(), updates.diffs.tolist()
        missing: list[int] = []
        for where, places in self._where(listed, names):
            rows = [listed[i] for i in places]
            types = [f.type for f, v in zip(self.view.schema, rows[0], strict=True) if v is not None]
            values = [tuple(v for v in row if v is not None) for row in rows]
            added = [(diffs[i], *value) for i, value in zip(places, values, strict=True)]
            sql = f"UPDATE {table} SET {count} = {count} + {PARAMETER} WHERE {where}"
            changed = connection.batch(sql, added, [pa.int64(), *types])
            missing += [i for i, there in zip(places, changed, strict=True) if not there]
            lost = [value for i, value in zip(places, values, strict=True) if diffs[i] < 0]
            if lost:
                connection.batch(f"DELETE FROM {table} WHERE {count} = 0 AND {where}", lost, types)
        refuse_negative(updates.take(np.array(missing, np.int64)), self.view.name)
        self._insert(connection, [(*listed[i], diffs[i]) for i in missing])
