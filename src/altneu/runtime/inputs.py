"""Inputs of a step: how rows from outside get times, diffs and the source's types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.canonical import canonical, repeated_keys, varies
from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Ints, Rows, as_array
from altneu.errors import BeforeFrontierError, InputError, SchemaError, TimeRangeError, TypeMismatchError
from altneu.errors.nearest import listed
from altneu.operators.source.keyed import COMMANDS, DELETE, DELETE_KEY, INSERT, command_schema
from altneu.order import Antichain, Lattice, difference
from altneu.trace.update import Updates
from altneu.types import normalise_type, type_name

T = TypeVar("T")
_BEYOND = 2**63


@dataclass(frozen=True)
class Commands:
    """What rows of a source that takes commands ask for.

    ``kind`` is one of ``COMMANDS``, by its number, or the name of a column that says it; None: to insert the row or to
    delete it, as the sign of its diff says. ``schema`` and ``key`` are the source's own, ``call`` tells when the
    commands were given, and ``row`` is the column that says where in the call each was; None: the data's order does.
    """

    schema: pa.Schema
    key: tuple[str, ...]
    call: int
    kind: int | str | None = None
    row: str | None = None

    @property
    def read(self) -> pa.Schema:
        """The columns that are read: all, or those of the key; a row that may be only a key has nulls elsewhere."""
        if self.kind == DELETE_KEY:
            return pa.schema([self.schema.field(n) for n in self.key])
        if isinstance(self.kind, str):
            return pa.schema([f.with_nullable(f.nullable or f.name not in self.key) for f in self.schema])
        return self.schema

    def of(self, updates: Updates, table: pa.Table, source: str) -> Updates:
        """Updates as commands, each once.

        Raises:
            SchemaError: a kind that is none, or a null in a column that has none in a row that is more than a key.
        """
        count = len(updates)
        there = dict(zip(updates.schema.names, updates.rows.columns, strict=True))
        own = [there[f.name] if f.name in there else pa.nulls(count, f.type) for f in self.schema]
        call = np.full(count, self.call, np.int64)
        row = np.arange(count) if self.row is None else np.asarray(as_array(table.column(self.row)), np.int64)
        kinds = self._kinds(updates, table, source)
        if isinstance(self.kind, str):
            self._check_nulls(own, kinds, source)
        controls = [kinds.astype(np.int8), call, row]
        rows = Rows(command_schema(self.schema), (*own, *map(pa.array, controls)), count)
        return Updates(rows, updates.times, np.ones(count, np.int64))

    def _check_nulls(self, columns: Sequence[pa.Array], kinds: Ints, source: str) -> None:
        for field_, column in zip(self.schema, columns, strict=True):
            bad = np.asarray(column.is_null()) & (kinds != DELETE_KEY) & (not field_.nullable)
            if bad.any():
                row = int(np.flatnonzero(bad)[0])
                raise SchemaError(
                    f"column {field_.name!r} of source {source!r} is NOT NULL, but row {row} has a null there"
                )

    def _kinds(self, updates: Updates, table: pa.Table, source: str) -> Ints:
        if self.kind is None:
            return np.where(updates.diffs < 0, DELETE, INSERT)
        if not isinstance(self.kind, str):
            return np.full(len(updates), self.kind)
        column = as_array(table.column(self.kind)).cast(pa.string())
        kinds = pc.index_in(column, pa.array(COMMANDS))
        if kinds.null_count:
            row = kinds.is_null().index(True).as_py()
            raise SchemaError(
                f"row {row} for source {source!r}: the command must be one of {', '.join(COMMANDS)}, "
                f"got {column[row].as_py()!r}"
            )
        return np.asarray(kinds, np.int64)


@immutable(frozen=True)
class Stamp:
    """How the rows of one insert get their times and diffs.

    ``time`` is one time for all rows or the name of a column; ``diff`` one diff or the name of a column, ``sign`` -1
    for a retraction. Such columns are read and, unless the source has them too, taken off the row.
    """

    source: str
    schema: pa.Schema
    lattice: Lattice
    lower: Antichain
    time: int | str
    diff: int | str
    sign: int = 1
    own: tuple[int | str, ...] = ()  # the times after the first, of a source that has several
    commands: Commands | None = None  # what rows ask for, of a source that takes commands
    append_only: bool = False  # whether a negative diff is refused
    closed: tuple[int, ...] = ()  # of rows' own times those that are not at or beyond these are closed

    def __post_init__(self) -> None:
        time, diff = self.time, self.diff
        fits = type(time) is type(diff) is int and -_BEYOND < time < _BEYOND and -_BEYOND < diff < _BEYOND
        if not fits:
            for name in ("time", "diff"):
                value = getattr(self, name)
                if (checked := _number_or_name(value, name)) is not value:
                    object.__setattr__(self, name, checked)  # NumPy's whole numbers are not `int`
        if self.own:
            object.__setattr__(self, "own", tuple([_number_or_name(value, "event") for value in self.own]))

    def check_open(self, lower: int) -> None:
        """Refuse a time of all rows that is closed, before any row is read.

        Raises:
            BeforeFrontierError: the time is before ``lower``, or an event time before those that are not closed.
        """
        if not isinstance(self.time, str) and self.time < lower:
            raise BeforeFrontierError(
                f"time {self.time} is closed: the session's lower is {lower}; insert at {lower} or later"
            )
        for event, least in zip(self.own, self.closed, strict=False):
            if not isinstance(event, str) and event < least:
                raise BeforeFrontierError(
                    f"event time {event} is closed: rows of {self.source!r} can be about {least} or later; what is "
                    "known of earlier ones is final"
                )

    @property
    def is_plain(self) -> bool:
        """Whether all rows have one time and one diff, so that the source's columns are all that is read."""
        time, diff = type(self.time), type(self.diff)  # as ``has_one_time`` has it, without a call: every insert asks
        return time is int and diff is int and not self.own and self.commands is None

    @property
    def has_one_time(self) -> bool:
        """Whether all rows are updates at one time; each may have a diff of its own."""
        return type(self.time) is int and not self.own and self.commands is None

    @property
    def columns(self) -> list[str]:
        """Every column that is read."""
        requested = () if self.commands is None else (self.commands.kind, self.commands.row)
        extra = [c for c in (self.time, *self.own, self.diff, *requested) if isinstance(c, str)]
        names: list[str] = self.schema.names
        return list(dict.fromkeys([*names, *extra])) if extra else names

    def reading(self, columns: list[str] | None) -> Stamp:
        """The same stamp for some of the source's columns only."""
        if columns is None:
            return self
        return replace(self, schema=pa.schema([self.schema.field(c) for c in columns]))

    def updates(self, table: pa.Table | pa.RecordBatch) -> Updates:
        """Updates from a table that has ``columns`` (and perhaps more).

        Raises:
            SchemaError: a column is missing or of another type, or a null where the schema allows none.
            BeforeFrontierError: a row's time, or its event time, is closed already.
        """
        rows = conform(table, self.schema, self.source)
        if self.is_plain:
            return self._plain(rows)
        times = self._times(table, rows.count)
        diffs = self.diffs_of(table, rows.count)
        same = isinstance(self.time, int)  # one time for all rows is looked at once
        self._refuse_late(times[:1, :1] if same else times[:1])
        updates = Updates(rows, times, diffs)
        if self.commands is not None:
            updates = self.commands.of(updates, table, self.source)
        some = self.diff != 0 if isinstance(self.diff, int) else diffs.all()
        return updates if some else updates.filter(diffs != 0)

    def diffs_of(self, table: pa.Table | pa.RecordBatch, count: int) -> Ints:
        """The diffs of so many rows.

        Raises:
            SchemaError: they are in a column that is not there, is of another type, or has a null.
            InputError: one is negative, and the source is append-only.
        """
        diffs = self._integers(table, self.diff, count, "diff")
        diffs = difference.negate(diffs) if self.sign < 0 else diffs
        if self.append_only:
            self._refuse_retractions(diffs)
        return diffs

    def of_columns(self, columns: Sequence[pa.Array], count: int) -> Updates:
        """The same from columns of the schema's names and types, of a stamp that is plain."""
        return self._plain(_in_one_form(tuple(columns), self.schema, self.source, count))

    def _plain(self, rows: Rows) -> Updates:
        """Rows at the one time and with the one diff."""
        times, diffs = np.empty((1, rows.count), np.int64), np.empty(rows.count, np.int64)
        times[:] = self.time
        diffs[:] = self.diff
        least = self.lower.least
        if least is None or self.time < least:  # type: ignore[operator]  # of a plain stamp it is a number
            self._refuse_late(times[:1, :1])
        if self.sign < 0:
            diffs = difference.negate(diffs)
        if self.append_only:
            self._refuse_retractions(diffs[:1])
        updates = Updates(rows, times, diffs)
        return updates if self.diff != 0 else updates.filter(diffs != 0)

    def _refuse_retractions(self, diffs: Ints) -> None:
        """Refuse negative diffs, of a source to which rows are only added."""
        if (diffs < 0).any():
            i = int(np.flatnonzero(diffs < 0)[0])
            raise InputError(
                f"source {self.source!r} is append-only, and row {i} has the diff {diffs[i]}: its rows stay for good, "
                "and what they replace is not kept; declare the source without append_only=True if rows are retracted"
            )

    def _refuse_late(self, times: Ints) -> None:
        """Refuse times that are closed."""
        late = ~self.lower.less_equal(times)
        if np.count_nonzero(late):
            i = int(np.flatnonzero(late)[0])
            raise BeforeFrontierError(
                f"row {i} of the insert into {self.source!r} has time {self.lattice.format(times[:1, i : i + 1])}, "
                f"but times before {self.lattice.format(self.lower.elements[:, :1])} are closed; give it a later time"
            )

    def _times(self, table: pa.Table | pa.RecordBatch, count: int) -> Ints:
        time = self._integers(table, self.time, count, "time")
        if not self.own:
            return time.reshape(1, -1)
        own = np.stack([self._integers(table, where, count, "event time") for where in self.own])
        if (own < 0).any():
            line, i = (int(place[0]) for place in np.nonzero(own < 0))
            raise TimeRangeError(
                f"row {i} of the insert into {self.source!r} has the event time {own[line, i]}; times are whole "
                "numbers from 0 on, so count from an earlier beginning"
            )
        if any(self.closed) and (late := (own < np.array(self.closed, np.int64)[:, None]).any(axis=0)).any():
            i, (least, *more) = int(np.flatnonzero(late)[0]), self.closed
            row, before = own[:, i].tolist(), self.closed if more else least
            raise BeforeFrontierError(
                f"row {i} of the insert into {self.source!r} has the event time {tuple(row) if more else row[0]}, but "
                f"event times before {before} are closed; what is known of them is final"
            )
        return np.concatenate([time[None], own])

    def _integers(self, table: pa.Table | pa.RecordBatch, where: int | str, count: int, what: str) -> Ints:
        if isinstance(where, int):
            return np.full(count, where, np.int64)
        one = f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
        if where not in table.column_names:
            raise SchemaError(
                f"{what}={where!r} is not a column of the data; its columns are: {', '.join(table.column_names)}"
            )
        column = as_array(table.column(where))
        if not pa.types.is_integer(column.type):
            raise SchemaError(f"{what} column {where!r} is {named(column.type)}, but {one} is a whole number (long)")
        if column.null_count:
            raise SchemaError(
                f"{what} column {where!r} is null in row {column.is_null().index(True).as_py()}; every row needs {one}"
            )
        try:
            return np.asarray(column.cast(pa.int64()))
        except pa.ArrowInvalid as error:
            raise SchemaError(f"{what} column {where!r} holds a number beyond 64 bits: {error}") from None


def _number_or_name(value: Any, what: str) -> int | str:
    """A whole number of 64 bits, or the name of a column."""
    if (type(value) is int and -_BEYOND < value < _BEYOND) or isinstance(value, str):
        return value
    number = whole_number(value, what, " nor the name of a column")
    if abs(number) >= _BEYOND:
        raise TimeRangeError(f"{what}={value} is beyond 64 bits")
    return number


def whole_number(value: object, what: str, nor: str = "") -> int:
    """A whole number of any Python type, a boolean not being one.

    Raises:
        InputError: it is something else.
    """
    if type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool)):
        return int(value)
    raise InputError(f"{what}={value!r} is {'neither' if nor else 'not'} a whole number{nor}")


def named(data_type: pa.DataType) -> str:
    """Spark's name of a type, Arrow's where Spark has none."""
    try:
        return type_name(data_type)
    except (SchemaError, TypeMismatchError):
        return str(data_type)


def conform(table: pa.Table | pa.RecordBatch, schema: pa.Schema, source: str) -> Rows:
    """The columns of ``schema`` from a table, by name, in their types, every value in its one form.

    Raises:
        SchemaError: naming the column, the types, and the row where one is at fault.
    """
    names, there = schema.names, table.column_names
    if names != there:
        _require_columns(names, there, source)
        table = table.select(names)
    parts = zip(table.columns, schema, strict=True)
    columns = tuple([_conform_column(as_array(column), field, source) for column, field in parts])
    return _in_one_form(columns, schema, source, table.num_rows)


def _in_one_form(columns: tuple[pa.Array, ...], schema: pa.Schema, source: str, count: int) -> Rows:
    """Columns of a schema's types as rows, every value in its one form; nulls only where the schema allows them."""
    required, may_vary = _facts(schema)
    for place in required:
        _refuse_null(columns[place], schema.field(place), source)
    if may_vary:
        columns = tuple(map(canonical, columns))
        for name, column in zip(schema.names, columns, strict=True):
            if (twice := repeated_keys(column)).any():
                row = int(np.flatnonzero(twice)[0])
                raise SchemaError(
                    f"column {name!r} of source {source!r} has a map with a repeated key in row {row}; keep one of the "
                    "two entries"
                )
    return Rows(schema, columns, count)


_MOST_FACTS = 1024
_FACTS: dict[int, tuple[pa.Schema, tuple[tuple[int, ...], bool]]] = {}  # by the identity of their schema


def _facts(schema: pa.Schema) -> tuple[tuple[int, ...], bool]:
    """The places of the columns that have no nulls, and whether a value of any may have several forms."""
    known = _FACTS.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_FACTS) >= _MOST_FACTS:
            _FACTS.clear()
        required = tuple(i for i, f in enumerate(schema) if not f.nullable)
        known = _FACTS[id(schema)] = schema, (required, any(map(varies, schema.types)))
    return known[1]


def _require_columns(names: Sequence[str], there: Sequence[str], source: str) -> None:
    """Refuse data that lacks one of some columns, or has it twice."""
    counts = Counter(there)
    several = [n for n in names if counts[n] > 1]
    if several:
        raise SchemaError(f"the data for source {source!r} has several columns {several[0]!r}; keep one of them")
    missing = [n for n in names if n not in counts]
    if missing:
        there_are = listed(missing[0], counts)
        raise SchemaError(f"the data for source {source!r} lacks column {missing[0]!r}; it has: {there_are}")


def _conform_column(column: pa.Array, f: pa.Field, source: str) -> pa.Array:
    result = column.type
    if result != f.type:
        wanted = named(f.type)
        if not _may_cast(result, f.type):
            raise SchemaError(
                f"column {f.name!r} of source {source!r} is {wanted}, but the data has {named(result)}; "
                "cast it before inserting"
            )
        try:
            column = column.cast(f.type)
        except pa.ArrowInvalid as error:
            raise SchemaError(
                f"column {f.name!r} of source {source!r} is {wanted}, and a value of the data does not fit: {error}"
            ) from None
    _refuse_null(column, f, source)
    return column


def _refuse_null(column: pa.Array, f: pa.Field, source: str) -> None:
    if not f.nullable and column.null_count:
        row = column.is_null().index(True).as_py()
        raise SchemaError(f"column {f.name!r} of source {source!r} is NOT NULL, but row {row} has a null there")


def _may_cast(data_type: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a value of one type is a value of the other, possibly after a check that it fits."""
    if pa.types.is_null(data_type):
        return True
    try:
        data_type = normalise_type(data_type)
    except (SchemaError, TypeMismatchError):
        return pa.types.is_integer(data_type) and pa.types.is_integer(wanted)
    if data_type == wanted or (pa.types.is_integer(data_type) and pa.types.is_integer(wanted)):
        return True
    if pa.types.is_floating(wanted):
        return pa.types.is_floating(data_type) or pa.types.is_integer(data_type)
    if pa.types.is_decimal(wanted):
        return pa.types.is_decimal(data_type) or pa.types.is_integer(data_type)
    if pa.types.is_timestamp(wanted):
        return pa.types.is_timestamp(data_type)
    return pa.types.is_nested(wanted) and pa.types.is_nested(data_type)


@dataclass
class Inputs:
    """What was inserted since the last step, by source: updates, and DataFrames each with the stamp that reads it.

    ``threads`` are the ids of the threads that inserted it, without those of streams.
    """

    updates: dict[str, list[Updates]] = field(default_factory=dict)
    frames: dict[str, list[tuple[Any, Stamp]]] = field(default_factory=dict)
    threads: set[int] = field(default_factory=set)

    @property
    def sources(self) -> set[str]:
        """The sources that something was inserted into."""
        return {*self.updates, *self.frames}

    def without(self, source: str) -> Inputs:
        """What was inserted into the other sources; this is not changed."""
        updates = {name: some for name, some in self.updates.items() if name != source}
        frames = {name: some for name, some in self.frames.items() if name != source}
        return Inputs(updates, frames, self.threads)

    def and_more(self, other: Inputs) -> Inputs:
        """Both; neither is changed."""
        updates, frames = _both(self.updates, other.updates), _both(self.frames, other.frames)
        return Inputs(updates, frames, self.threads | other.threads)


def _both(some: dict[str, list[T]], more: dict[str, list[T]]) -> dict[str, list[T]]:
    return {name: [*some.get(name, ()), *more.get(name, ())] for name in {**some, **more}}
