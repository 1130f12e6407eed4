"""A table with versions that a session follows: each version is a step, and its number the stream's position."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Ints
from altneu.engine.engine import Engine
from altneu.engine.replace import difference, refuse_replacing
from altneu.errors import InputError, SchemaError, StreamError
from altneu.operators.source.keyed import ROW
from altneu.order import Antichain, Epoch
from altneu.plan import ir
from altneu.runtime.inputs import Inputs, Stamp, conform, named, whole_number
from altneu.streams.record import Record
from altneu.streams.stream import Options, Registry, Stream
from altneu.streams.tables import DIFF, Given, Table, Version, seconds_of
from altneu.trace.update import Updates, consolidate

POLL = 0.5  # seconds between two looks for a new version
_SNAPSHOT = "contents "  # before the checksum of a version that was taken whole
# What is of streams alone, with the values that say nothing.
_LEFT_OUT = {"command": None, "max_rows": None, "snapshots": False}


class TableStream(Stream):
    """A table whose versions a session takes, one after the other: each once, and in its commit the version's number.

    Rows that a version both takes away and brings add up before they are inserted, so that a file that is written again
    for one row is a change of one row.
    """

    taken = "version", "versions"

    def __init__(self, engine: Engine, registry: Registry, given: Given, source: ir.Source, options: Options) -> None:
        for option, default in _LEFT_OUT.items():
            if (value := getattr(options, option)) != default:
                raise InputError(
                    f"{option}={value!r} of source {source.name!r} is for streams of Spark's: a table's versions say "
                    "which rows come and go, and max_bytes= of the table how much a step reads; leave it out"
                )
        if source.distinct:
            raise InputError(
                f"source {source.name!r} is distinct, and a table counts its rows: one of two equal rows may go. "
                "Declare the source without distinct=True, and use .distinct() where it is read"
            )
        super().__init__(engine, registry, source, replace(options, diff=DIFF))
        diff = 1 if options.diff is None else options.diff
        if source.weight is not None and options.diff is not None:
            raise InputError(
                f"diff={options.diff!r} of source {source.name!r}: a table's rows have their weights in the columns "
                f"{', '.join(source.weight.columns)}; leave diff= out"
            )
        self._weight = diff if isinstance(diff, str) else whole_number(diff, "diff")
        self._numbers = [*self.controls.values(), *([self._weight] if isinstance(self._weight, str) else [])]
        names = list(dict.fromkeys([*source.schema.names, *self._numbers]))
        self._check_late()
        record = registry.stored(source.name)
        begins = record.query is None or self._begins_again(record)
        position = None if begins else (record.batch, (record.plan or "").removeprefix(_SNAPSHOT))
        self._given = given
        self._table: Table = given.open(source.name, names, self._check_columns, position)
        self._ended = threading.Event()
        self._pause = POLL
        self._until: int | None = None

    @property
    def followed(self) -> str:
        """The table, as it was given."""
        return str(self._given)

    def _check_columns(self, there: pa.Schema) -> pa.Schema:
        """Refuse a table whose columns are not those of the source, or of other types.

        What the source got after its first rows, the table may get later.

        Raises:
            SchemaError: the message names the column and both types.
        """
        source, versions = self.source, self.engine.catalogue.columns.versions_of(self.source)
        added = [f for n, f in versions.present.by_number.items() if n not in versions.all[0].numbers and f.nullable]
        for column in added:
            if column.name in source.schema.names and column.name not in there.names:
                there = there.append(column)
        frontier = Antichain.of(self.engine.lattice, 0)
        Stamp(source.name, source.schema, self.engine.lattice, frontier, 0, 1).updates(there.empty_table())
        for column in self._numbers:
            kind = there.field(column).type if column in there.names else None
            if kind is None or not pa.types.is_integer(kind):
                what = "diff" if column == self._weight else "time"
                raise SchemaError(
                    f"{what}={column!r} of source {self.name!r} must be a column of the table with whole numbers, "
                    f"got {'none of this name' if kind is None else named(kind)}; without Spark it is no expression"
                )
        self._refuse_extra(there.names, source.schema.names, self._numbers)
        return there

    # life -----------------------------------------------------------------------------------------------------------

    def start(self, folder: str, *, available_now: bool, trigger: str | None) -> None:
        """Start to take versions: with ``available_now`` those that there are, else each when it is there."""
        if trigger is not None:
            self._pause = seconds_of(trigger)
        self._until = self._table.latest() if available_now else None
        self._check_position(self.record)
        self._begun = True
        self._start()

    def _run(self) -> None:
        while not self._stopping:
            took = self._take_next()
            if not took and self._until is not None:
                return
            if not took:
                self._ended.wait(self._pause)

    def _end(self) -> None:
        self._ended.set()

    # where it is ------------------------------------------------------------------------------------------------------

    def _check_position(self, record: Record) -> None:
        """Refuse a table of which the store's position is not one.

        Raises:
            StreamError: it is another table, or an older or a diverged copy of it.
        """
        if record.query is None or self._begins_again(record):
            return
        table, version = self._table, record.batch
        had = f"the store has source {self.name!r} up to version {version} of the table {record.query}"
        if record.query != table.identity:
            raise StreamError(f"{had}, but {table.where} is another one, {table.identity}. {self._remedy(record)}")
        latest = table.latest()
        if latest < version:
            raise StreamError(
                f"{had}, but {table.where} has only the versions up to {latest}: it was restored from an older copy. "
                f"{self._remedy(record)}"
            )
        if not table.agrees(version, (record.plan or "").removeprefix(_SNAPSHOT)):
            raise StreamError(
                f"{had}, but version {version} of {table.where} is a different one: table and store are copies that "
                f"have diverged. {self._remedy(record)}"
            )

    def _remedy(self, record: Record) -> str:
        return (
            f"restart={record.mark!r} makes the source what the table is now, as session.replace does, and follows it "
            "from there: an option of session.follow, in SQL WITH (RESTART = …) of the same statement; "
            f"session.unfollow({self.name!r}) forgets the table and keeps its rows"
        )

    def _begins_again(self, record: Record) -> bool:
        """Whether the source is to become what the table is now.

        Raises:
            InputError: its rows have times of their own.
        """
        again = record.query is not None and self.options.restart == record.mark
        if again and self.controls:
            raise InputError(
                f"restart={record.mark!r} replaces the rows of source {self.name!r}, whose rows have their own times, "
                f"time={self.options.time!r}: to replace them does not say at which; session.unfollow({self.name!r}), "
                "retract the rows and follow the table again"
            )
        return again

    def _difference(self, rows: Any) -> Inputs:
        return difference(self.engine, self.name, rows, 1 if self.source.commanded_by else DIFF, "ignore")

    # versions ---------------------------------------------------------------------------------------------------------

    def _take_next(self) -> bool:
        """Take the next version, if there is one."""
        record = self.record
        again = self._begins_again(record)
        if record.query is None or again:
            number = self._table.first()
        elif record.due <= (self._table.latest() if self._until is None else self._until):
            number = record.due
        else:
            return False
        with self._at_work(number):
            try:
                self._take_version(record, number, again=again)
            except StreamError as error:
                if record.query is None:
                    raise
                raise StreamError(f"{error}. {self._remedy(record)}") from error
        return True

    def _take_version(self, record: Record, number: int, *, again: bool) -> None:
        table, begun = self._table, record.query is not None and not again
        resumed = begun and not record.is_whole
        whole = (record.plan or "").startswith(_SNAPSHOT) if resumed else not begun
        version = table.contents(number) if whole else table.changes(number)
        if whole and not again and not self._given.snapshot:
            version = replace(version, parts=())
        plan = f"{_SNAPSHOT if whole else ''}{version.plan or ''}"
        if again:
            refuse_replacing(self.source, 1)
            done = table.identity, number, plan, 0, 1
            self._take_piece(self._rows(version, 0, 1), done, snapshot=True)
            return
        first, of = (record.piece + 1, record.of) if resumed else (0, version.pieces(self._given.step_bytes))
        for piece in range(first, of):
            if self._stopping:
                return  # the rest of the version is taken when it is followed again
            self._take_piece(self._rows(version, piece, of), (table.identity, number, plan, piece, of), snapshot=False)

    def _rows(self, version: Version, piece: int, of: int) -> pa.Table:
        """The changes of a piece, consolidated, with the columns of times, what goes before what comes."""
        table = self._table.read(version.piece(piece, of))
        fields = [*self.source.schema, *(pa.field(name, pa.int64()) for name in self.controls)]
        for name, column in self.controls.items():
            table = table.append_column(name, table[column])
        rows = conform(table.select([field.name for field in fields]), pa.schema(fields), self.name)
        diffs = self._diffs(table)
        net = consolidate(Updates(rows, np.zeros((1, rows.count), np.int64), diffs), Epoch())
        net = net.take(np.argsort(net.diffs > 0, kind="stable"))
        result = pa.Table.from_batches([net.rows.to_batch()]).append_column(DIFF, pa.array(net.diffs))
        return result.append_column(ROW, pa.array(np.arange(len(net))))

    def _diffs(self, table: pa.Table) -> Ints:
        """Of rows that came 1, of those that went -1, each times what ``diff`` says."""
        signs = np.asarray(table[DIFF], np.int64)
        if not isinstance(self._weight, str):
            return signs * self._weight
        column = table[self._weight]
        if column.null_count:
            raise SchemaError(f"diff={self._weight!r} of source {self.name!r} is null in a row; every row needs a diff")
        return signs * np.asarray(column.cast(pa.int64()))
