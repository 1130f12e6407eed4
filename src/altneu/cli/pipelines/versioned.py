"""Delta and Iceberg tables that a pipeline reads: their columns, their rows, and what has changed since a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.cli.pipelines.errors import refused, unsupported
from altneu.errors import InputError, PipelineError, SchemaError, StreamError
from altneu.order import Epoch
from altneu.runtime.inputs import conform
from altneu.streams.tables import DIFF, Given, Table, Version
from altneu.streams.tables.delta import delta
from altneu.streams.tables.iceberg import iceberg
from altneu.trace.update import Updates, consolidate
from altneu.types import parse_schema

FORMATS = ("delta", "iceberg")
_SKIP = "skipchangecommits"


@dataclass(frozen=True)
class Position:
    """How far a table was read: the table, what tells its copies apart, and the number of its version."""

    table: str
    plan: str
    number: int

    @property
    def said(self) -> str:
        """All but the number, as a text."""
        return f"{self.table} {self.plan}"

    @classmethod
    def of(cls, said: str, number: int) -> Position:
        """A position that was kept.

        >>> Position.of(Position("delta:1", "a", 3).said, 3)
        Position(table='delta:1', plan='a', number=3)
        """
        table, _, plan = said.partition(" ")
        return cls(table, plan, number)


@dataclass(frozen=True)
class Change:
    """What some versions changed: ``came`` and ``went`` have the columns of the table, and a row for each copy."""

    position: Position
    came: pa.Table
    went: pa.Table
    whole: bool = False
    """Whether these are all rows of a version, in the place of what was read before."""
    last: bool = True
    """Whether no more rows of the version follow."""


@dataclass(frozen=True)
class VersionedTable:
    """A table that is read: the same value means the same rows.

    ``place`` is the folder of a Delta table, or the name of an Iceberg table with its namespace, and before that
    perhaps the name of its catalog in pyiceberg's configuration.
    """

    form: str
    place: str
    skipping: bool = field(default=False)
    """Whether a stream passes over versions that change or delete rows."""

    @property
    def name(self) -> str:
        """What it is known by in the store."""
        return f"{self.form} {self.place}"

    @cached_property
    def _given(self) -> Given:
        if self.form == "delta":
            return delta(self.place)
        catalog, _, own = self.place.rpartition(".")[0].rpartition(".")
        named = f"{own}.{self.place.rpartition('.')[2]}" if catalog else self.place
        return iceberg(named, catalog=catalog or None)

    @cached_property
    def columns(self) -> pa.Schema:
        """Its present columns.

        Raises:
            PipelineError: there is no such table, or it cannot be read.
        """
        given: Any = self._given
        try:
            there = parse_schema(given.schema())
        except (InputError, SchemaError) as error:
            raise PipelineError(str(error)) from error
        return pa.schema([f.with_nullable(True) for f in there])

    def _open(self, position: Position | None) -> Table:
        given = None if position is None else (position.number, position.plan)
        return self._given.open(self.name, self.columns.names, self._check, given)

    def _check(self, there: pa.Schema) -> pa.Schema:
        """The columns of a version with those that it does not have yet.

        Raises:
            SchemaError: one had another type.
        """
        for column in self.columns:
            if column.name not in there.names:
                there = there.append(column)
        conform(there.empty_table().select(self.columns.names), self.columns, self.name)
        return there

    def changes(self, had: Position | None, most: int) -> Iterator[Change]:
        """What has changed since a position, a change for about ``most`` bytes of files.

        Where nothing tells what has changed (there is no position, the table is another one, or its history is gone),
        the first change is ``whole``, and those after it add to it.

        Raises:
            PipelineError: the present version cannot be read.
        """
        try:
            if had is not None:
                table = self._open(had)
                if table.identity == had.table and had.number <= table.latest() and table.agrees(had.number, had.plan):
                    yield from self._later(table, had, most)
                    return
        except (StreamError, SchemaError):
            pass  # the present rows are enough
        try:
            yield from self._whole(self._open(None), most)
        except (InputError, SchemaError) as error:
            raise PipelineError(f"{error} (while reading {self.name})") from error

    def _whole(self, table: Table, most: int) -> Iterator[Change]:
        version = table.contents(table.latest())
        position = Position(table.identity, version.plan or "", version.number)
        of = version.pieces(most)
        for number in range(of):
            came, _ = self._net([table.read(version.piece(number, of))])
            yield Change(position, came, came.slice(0, 0), number == 0, number == of - 1)

    def _later(self, table: Table, had: Position, most: int) -> Iterator[Change]:
        some, size, position = list[pa.Table](), 0, had
        for version in map(table.changes, range(had.number + 1, table.latest() + 1)):
            size += sum(part.size for part in version.parts)
            if some and size > most:
                yield Change(position, *self._net(some))
                some, size = [], 0
            some.append(table.read(iter(version.parts)))
            position = Position(table.identity, version.plan or "", version.number)
        if some:
            yield Change(position, *self._net(some))

    def appended(self, had: Position | None, of: str, most: int) -> Change | None:
        """What a stream reads next: the rows of the present version, then what later versions add; None if nothing.

        Raises:
            PipelineError: it is another table, its history is gone, or a version changed or deleted rows.
        """
        again = f"altneu pipelines run --full-refresh {of}"
        try:
            table = self._open(had)
            if had is None:
                version = table.contents(table.latest())
                rows, _ = self._net([table.read(iter(version.parts))])
                return Change(Position(table.identity, version.plan or "", version.number), rows, rows.slice(0, 0))
            if table.identity != had.table or not table.agrees(had.number, had.plan) or table.latest() < had.number:
                raise refused(
                    "DELTA_SOURCE_TABLE_CHANGED" if self.form == "delta" else "ICEBERG_SOURCE_TABLE_CHANGED",
                    f"{table.where} is not the table of which the flow has read version {had.number}: {again} reads "
                    "all of it",
                )
            return self._next(table, had, most)
        except StreamError as error:
            raise PipelineError(f"{error}: {again} reads all of the table") from error
        except (InputError, SchemaError) as error:
            raise PipelineError(f"{error} (while reading {self.name})") from error

    def _next(self, table: Table, had: Position, most: int) -> Change | None:
        found, size, position = list[pa.Table](), 0, had
        for version in map(table.changes, range(had.number + 1, table.latest() + 1)):
            size += sum(part.size for part in version.parts)
            if found and size > most:
                break
            found.append(self._added(table, version))
            position = Position(table.identity, version.plan or "", version.number)
        if not found:
            return None
        came = pa.concat_tables(found)
        return Change(position, came, came.slice(0, 0))

    def _added(self, table: Table, version: Version) -> pa.Table:
        came, went = self._net([table.read(iter(version.parts))])
        if went.num_rows and not self.skipping:
            raise refused(
                "DELTA_SOURCE_TABLE_IGNORE_CHANGES" if self.form == "delta" else "ICEBERG_SOURCE_TABLE_CHANGES",
                f"version {version.number} of {table.where} changed or deleted {went.num_rows} rows, which a stream "
                "cannot say: read it as a batch, with spark.read or without STREAM, in a materialized view, or with "
                "the option skipChangeCommits = true, which passes over such versions",
            )
        return came.slice(0, 0) if went.num_rows else came

    def _net(self, tables: list[pa.Table]) -> tuple[pa.Table, pa.Table]:
        """What came and what went, of rows with signs, when what was only copied is left out."""
        table = pa.concat_tables(tables)
        rows = conform(table.select(self.columns.names), self.columns, self.name)
        signs = np.asarray(table[DIFF], np.int64)
        net = consolidate(Updates(rows, np.zeros((1, rows.count), np.int64), signs), Epoch())
        return self._copies(net, 1), self._copies(net, -1)

    def _copies(self, net: Updates, sign: int) -> pa.Table:
        some = net.filter(sign * net.diffs > 0)
        rows = some.rows.take(np.repeat(np.arange(len(some)), np.abs(some.diffs)))
        return pa.Table.from_batches([rows.to_batch()]).cast(self.columns)


def table_of(form: str, place: str, options: Mapping[str, str], place_in_file: object) -> VersionedTable:
    """What a ``spark.read`` or ``spark.readStream`` of a table says.

    Raises:
        PipelineError: an option that altneu does not read.
    """
    skipping = False
    for name, value in options.items():
        if form == "delta" and name.lower() == _SKIP:
            skipping = value.lower() == "true"
        elif name.lower() not in ("maxfilespertrigger", "maxbytespertrigger"):
            raise unsupported(
                f"the option {name} = {value!r} of {form} tables",
                "a pipeline reads a table as it is, and a stream what is appended to it; of Delta there is the option "
                "skipChangeCommits: leave it out",
                place_in_file,
            )
    return VersionedTable(form, place, skipping)
