"""Rows: n rows of named, typed Arrow columns, the payload that operators move by ``take``.

A ``pyarrow.RecordBatch`` forgets its row count when it has no columns, and an empty key or an empty value is an
everyday thing here (``count`` of everything, ``distinct``), so the count is carried beside the columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, time
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu.columnar.immutable import immutable
from altneu.columnar.python_values import arrow_values, python_values, readable

Ints = npt.NDArray[np.int64]
Apply = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""``map``, or what does the same in another way."""

_FEW = 4  # rows of which some are taken by slices
_LONG = pa.int64()
_WHOLE_WORDS = frozenset(
    (pa.lib.Type_INT64, pa.lib.Type_UINT64, pa.lib.Type_DOUBLE, pa.lib.Type_TIMESTAMP, pa.lib.Type_DECIMAL128)
)
_NUMBERS: dict[int, tuple[set[type], type]] = {
    pa.lib.Type_INT8: ({int}, np.int8), pa.lib.Type_INT16: ({int}, np.int16), pa.lib.Type_INT32: ({int}, np.int32),
    pa.lib.Type_INT64: ({int}, np.int64), pa.lib.Type_DOUBLE: ({float}, np.float64),
}  # fmt: skip  # what Python's numbers are as they are; NumPy makes them in a third of the time
_TAKE = pc.get_function("array_take")  # what ``Array.take`` comes to in the end; a step takes small arrays many times


def positions_of(index: npt.NDArray[np.integer], there: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """Positions as Arrow takes them, null where nothing is ``there``; not copied, if they are contiguous words."""
    if index.dtype == np.int64 and index.flags.c_contiguous:
        valid = None if there is None else pa.py_buffer(np.packbits(there, bitorder="little"))
        return pa.Array.from_buffers(_LONG, len(index), [valid, pa.py_buffer(index)])
    return pa.array(index, mask=None if there is None else ~there)


def taken(column: pa.Array, positions: pa.Array) -> pa.Array:
    """The values of an array at some positions, in that order."""
    return _TAKE.call([column, positions])


def as_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return one contiguous array: a chunked column is combined, an array is passed through."""
    if isinstance(column, pa.ChunkedArray):
        return (
            column.chunk(0)
            if column.num_chunks == 1
            else pa.concat_arrays(column.chunks or [pa.array([], column.type)])
        )
    return column


def array_of(values: Sequence[object], data_type: pa.DataType, *, more_fields: bool = False) -> pa.Array:
    """An Arrow array of Python values; what pyarrow's own would cut or read as something else is refused, at any depth.

    Refused are fractions of whole numbers and of moments, the time of day of a date, the zone of what has none, numbers
    as intervals, texts and sets as arrays, and keys that are no fields of a struct, unless ``more_fields`` lets them be
    left out.

    >>> array_of([1, None, 2.0], pa.int64()).to_pylist()
    [1, None, 2]
    >>> array_of([[1.5]], pa.list_(pa.int64()))
    Traceback (most recent call last):
    pyarrow.lib.ArrowInvalid: 1.5 is no int64

    Raises:
        pyarrow.ArrowInvalid, pyarrow.ArrowTypeError, OverflowError: a value does not fit the type.
    """
    if (code := data_type.id) in _NUMBERS and set(map(type, values)) == (dtype := _NUMBERS[code])[0]:
        try:
            numbers: npt.NDArray[Any] = np.array(values, dtype[1])
            return pa.Array.from_buffers(data_type, numbers.size, [None, pa.py_buffer(numbers)], 0)
        except OverflowError:  # said in the words of pyarrow
            pass
    refuse_unfit(values, data_type, more_fields=more_fields)
    return arrow_values(values, data_type)


def refuse_unfit(values: Iterable[object], data_type: pa.DataType, *, more_fields: bool = False) -> None:
    """Raise for a value, at any depth, of which pyarrow would keep only a part, or which it would read otherwise.

    Raises:
        pyarrow.ArrowInvalid: with the first such value.
    """
    if pt.is_nested(data_type):
        _refuse_unfit_inside(values, data_type, more_fields=more_fields)
        return
    if (is_unfit := _UNFIT.get(data_type.id)) is None:
        return
    for value in values:
        if is_unfit(value, data_type):
            raise pa.ArrowInvalid(f"{value!r} is no {data_type}")


def _refuse_unfit_inside(values: Iterable[object], data_type: pa.DataType, *, more_fields: bool) -> None:
    some = [v for v in values if v is not None]
    if pt.is_list(data_type):
        for value in some:
            if isinstance(value, str | bytes | bytearray | Mapping | AbstractSet):
                raise pa.ArrowInvalid(f"an array must be a list or a tuple, got {value!r}")
        inside = [x for v in some if isinstance(v, list | tuple) for x in v]
        refuse_unfit(inside, data_type.value_type, more_fields=more_fields)
    elif pt.is_struct(data_type):
        mappings = [dict(v) if isinstance(v, list) else v for v in some if isinstance(v, Mapping | list)]
        tuples = [v for v in some if isinstance(v, tuple)]
        names = [f.name for f in data_type]
        known = {*names}
        for value in () if more_fields else mappings:
            if unknown := [name for name in value if name not in known]:
                raise pa.ArrowInvalid(f"{unknown[0]!r} is none of the fields {', '.join(names)}")
        for value in tuples:
            if len(value) != len(names):
                raise pa.ArrowInvalid(f"{value!r} must have the {len(names)} fields {', '.join(names)}")
        for i, f in enumerate(data_type):
            inside = [v.get(f.name) for v in mappings] + [v[i] for v in tuples]
            refuse_unfit(inside, f.type, more_fields=more_fields)
    elif pt.is_map(data_type):
        pairs = [p for v in some for p in (v.items() if isinstance(v, Mapping) else v)]  # type: ignore[attr-defined]
        refuse_unfit([k for k, _ in pairs], data_type.key_type, more_fields=more_fields)
        refuse_unfit([x for _, x in pairs], data_type.item_type, more_fields=more_fields)


def _is_fraction(value: object, _: pa.DataType) -> bool:
    if isinstance(value, Decimal):
        return not value.is_finite() or value != value.to_integral_value()
    return isinstance(value, float) and value % 1 != 0


def _is_no_date(value: object, _: pa.DataType) -> bool:
    return isinstance(value, float | datetime)


def _is_no_time(value: object, _: pa.DataType) -> bool:
    return isinstance(value, float) or (isinstance(value, time) and value.tzinfo is not None)


def _is_no_timestamp(value: object, data_type: pa.DataType) -> bool:
    """Of a timestamp with a time zone Arrow would take the time of day in UTC, PySpark that of the zone."""
    zoned = isinstance(value, datetime) and value.tzinfo is not None
    return isinstance(value, float) or (zoned and data_type.tz is None)


def _is_no_interval(value: object, _: pa.DataType) -> bool:
    """Nothing says the unit of a number; PySpark refuses one, too."""
    return isinstance(value, int | float)


_UNFIT: dict[int, Callable[[object, pa.DataType], bool]] = {
    **dict.fromkeys((code for code in _NUMBERS if code != pa.lib.Type_DOUBLE), _is_fraction),
    pa.lib.Type_DATE32: _is_no_date,
    pa.lib.Type_TIME64: _is_no_time,
    pa.lib.Type_TIMESTAMP: _is_no_timestamp,
    pa.lib.Type_DURATION: _is_no_interval,
}
"""Which values of a type Arrow takes and should not: it would cut the fraction off a float, which is most often of
seconds, of a moment."""


class _Placed:
    """The addresses of a batch's columns: found by the first kernel that needs them, and kept for the next."""

    __slots__ = ("places",)

    places: tuple[tuple[int, ...], ...]


@immutable(frozen=True, slots=True)
class Rows(_Placed):
    """``count`` rows under ``schema``; ``columns[i]`` is the contiguous array of field i.

    >>> rows = Rows.from_pydict({"a": [1, 2, 3]}, pa.schema([("a", pa.int64())]))
    >>> rows.take(np.array([2, 0])).to_pylist()
    [(3,), (1,)]
    """

    schema: pa.Schema
    columns: tuple[pa.Array, ...]
    count: int

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.schema, self.columns, self.count)  # in another process the columns are elsewhere

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch | pa.Table) -> Rows:
        """Wrap a record batch or a table; chunked columns are combined."""
        return cls(batch.schema, tuple(as_array(c) for c in batch.columns), batch.num_rows)

    @classmethod
    def from_pydict(cls, columns: Mapping[str, Sequence[object]], schema: pa.Schema) -> Rows:
        """Build from Python lists, one a column, checked against ``schema``."""
        arrays = tuple(pa.array(columns[f.name], f.type) for f in schema)
        return cls(schema, arrays, len(arrays[0]) if arrays else 0)

    @classmethod
    def from_pylist(cls, rows: Sequence[Sequence[object]], schema: pa.Schema) -> Rows:
        """Build from tuples in schema order.

        Raises:
            pyarrow.ArrowInvalid: a value does not fit its column's type.
        """
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
        return cls(schema, tuple(array_of(c, f.type) for c, f in zip(columns, schema, strict=True)), len(rows))

    @classmethod
    def empty(cls, schema: pa.Schema) -> Rows:
        """No rows of ``schema``, the same each time; it is known by its identity, as a hash of a schema takes long."""
        result = _EMPTY.get(id(schema))
        if result is None or result.schema is not schema:
            if len(_EMPTY) >= _MOST_EMPTY:
                _EMPTY.clear()
            result = _EMPTY[id(schema)] = Rows(schema, tuple([pa.nulls(0, t) for t in schema.types]), 0)
        return result

    @classmethod
    def concat(cls, parts: Sequence[Rows], schema: pa.Schema, apply: Apply = map) -> Rows:
        """Stack rows of one schema; ``apply`` is ``map``, or a pool's, which stacks columns side by side."""
        parts = [p for p in parts if p.count]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty(schema)
        columns = tuple(apply(lambda i: pa.concat_arrays([p.columns[i] for p in parts]), range(len(schema))))
        return cls(schema, columns, sum([p.count for p in parts]))

    def take(self, index: npt.NDArray[np.integer]) -> Rows:
        """Rows at ``index`` (repeats allowed), in that order."""
        if self.count <= _FEW and index.size <= _FEW:
            return self._few(index.tolist())
        positions = positions_of(index)
        return Rows(self.schema, tuple([taken(c, positions) for c in self.columns]), len(index))

    def _few(self, index: list[int]) -> Rows:
        """The same of few rows: slices put together, which takes less time than Arrow's function."""
        if index == [*range(self.count)]:
            return self.built()
        if not index:
            return Rows.empty(self.schema)
        return Rows(self.schema, tuple([_few_of(column, index) for column in self.columns]), len(index))

    def filter(self, mask: npt.NDArray[np.bool_]) -> Rows:
        """Rows whose mask is true."""
        return self.take(np.flatnonzero(mask))

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop`` without copying."""
        return Rows(self.schema, tuple([c.slice(start, stop - start) for c in self.columns]), stop - start)

    def select(self, names: Sequence[str]) -> Rows:
        """The named columns, in that order."""
        schema, columns = self.schema, self.columns
        key = (id(schema), *names)
        known = _SELECTED.get(key)
        if known is None or known[0] is not schema:
            if len(_SELECTED) >= _MOST_EMPTY:
                _SELECTED.clear()
            index = tuple([schema.get_field_index(n) for n in names])
            known = _SELECTED[key] = schema, index, pa.schema([schema.field(i) for i in index])
        return Rows(known[2], tuple([columns[i] for i in known[1]]), self.count)

    def column(self, name: str) -> pa.Array:
        """The array of one column."""
        return self.columns[self.schema.get_field_index(name)]

    def column_at(self, name: str, index: npt.NDArray[np.integer]) -> pa.Array:
        """The values of one column at ``index``, in that order."""
        return taken(self.column(name), positions_of(index))

    def column_slice(self, name: str, start: int, stop: int) -> pa.Array:
        """The values of one column from row ``start`` up to ``stop``."""
        return self.column(name).slice(start, stop - start)

    def gathered(self, name: str, positions: pa.Array) -> pa.Array:
        """The values of one column at positions as ``positions_of`` has them, in that order."""
        return taken(self.column(name), positions)

    def widened(self, schema: pa.Schema, columns: Sequence[pa.Array]) -> Rows:
        """With more columns behind these, under the schema of both."""
        return Rows(schema, (*self.columns, *columns), self.count)

    def built(self) -> Rows:
        """The rows with nothing left to be gathered."""
        return self

    def to_pylist(self) -> list[tuple[object, ...]]:
        """Rows as Python tuples; a date or timestamp that Python has no value for is its text (``BeyondPython``)."""
        if not self.columns:
            return [()] * self.count
        return list(zip(*map(python_values, self.columns), strict=True))

    def for_functions(self) -> tuple[list[tuple[object, ...]], dict[int, str]]:
        """Rows as Python tuples, and for those that a Python function cannot be given, by position, why."""
        if not self.columns:
            return [()] * self.count, {}
        readings = [readable(column) for column in self.columns]
        refused: dict[int, str] = {}
        for name, (values, beyond) in zip(self.schema.names, readings, strict=True):
            for position in beyond:
                refused.setdefault(position, _refusal(name, values[position]))
        return list(zip(*(values for values, _ in readings), strict=True)), refused

    def to_batch(self) -> pa.RecordBatch:
        """As a record batch (which forgets ``count`` when there is no column)."""
        return pa.RecordBatch.from_arrays(list(self.columns), schema=self.schema)


def _few_of(column: pa.Array, index: list[int]) -> pa.Array:
    """Some values of a column.

    A slice of narrower values, texts or validity would be stored together with what is beside it, to whole words, and
    stored data is named by its bytes, which must depend on the rows alone.
    """
    if column.type.id not in _WHOLE_WORDS or column.null_count:
        return taken(column, pa.array(index, _LONG))
    if not index[1:]:
        return column.slice(index[0], 1)
    return pa.concat_arrays([column.slice(i, 1) for i in index])


def _refusal(name: str, value: object) -> str:
    return (
        f"column {name!r} has {str(value)[:200]!r}, for which Python has no value (its dates are those of the years 1 "
        "to 9999); cast the column to string, or leave it out, before the function"
    )


_MOST_EMPTY = 4096
_EMPTY: dict[int, Rows] = {}  # by the identity of their schema, which they keep
_SELECTED: dict[tuple[object, ...], tuple[pa.Schema, tuple[int, ...], pa.Schema]] = {}  # in the same way, and by names


class Record(tuple[object, ...]):
    """One row as Python functions see it: a tuple whose values are also attributes, named as the columns.

    >>> Flight = record_type(["carrier", "delay"])
    >>> row = Flight(("UA", 12))
    >>> row.delay, row["carrier"], row[1], row.asdict()
    (12, 'UA', 12, {'carrier': 'UA', 'delay': 12})
    """

    __slots__ = ()
    _names: dict[str, int] = {}  # noqa: RUF012 -- replaced, never changed, by each class that record_type makes

    def __getattr__(self, name: str) -> object:
        try:
            return tuple.__getitem__(self, self._names[name])
        except KeyError:
            raise AttributeError(f"no column {name!r}; the columns are: {', '.join(self._names)}") from None

    def __getitem__(self, key: object) -> object:  # type: ignore[override]
        if isinstance(key, str):
            try:
                return tuple.__getitem__(self, self._names[key])
            except KeyError:
                raise KeyError(f"no column {key!r}; the columns are: {', '.join(self._names)}") from None
        return tuple.__getitem__(self, key)  # type: ignore[call-overload]

    def asdict(self) -> dict[str, object]:
        """The row as a dictionary."""
        return dict(zip(self._names, self, strict=True))


def record_type(names: Sequence[str]) -> type[Record]:
    """Return the Record class for these column names."""
    return type("Record", (Record,), {"__slots__": (), "_names": {n: i for i, n in enumerate(names)}})
