"""Values on their way into functions of users and out of them, as Spark gives and takes them.

In: timestamps are naive datetimes in UTC, structs records, maps dictionaries. Out, there are two ways. ``taken`` is
that of Spark's Arrow-optimized UDFs, which Spark 4.2 and later make by default: a value of another type is converted
where Arrow can, and is an error where it cannot. ``taken_or_null`` is that of pickled UDFs: it becomes null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.columnar.python_values import arrow_values, readable, value_text
from altneu.columnar.rows import record_type
from altneu.errors import SchemaError, TooWideError
from altneu.expressions import Literal, construct
from altneu.types import type_name

Change = Callable[[Any], Any]


# in -------------------------------------------------------------------------------------------------------------------


def given(column: pa.Array) -> tuple[list[Any], list[int]]:
    """The values of a column as a function is given them, and the positions of those that Python does not have.

    >>> given(pa.array([{"a": 1}], pa.struct([("a", pa.int32())])))[0][0].a
    1
    """
    values, beyond = readable(column)
    change = _shown(column.type)
    if change is None:
        return values, beyond
    out_of_range = set(beyond)
    return [v if v is None or i in out_of_range else change(v) for i, v in enumerate(values)], beyond


def _shown(kind: pa.DataType) -> Change | None:
    """What a function is given of a value that is not null; None: the value itself."""
    if pt.is_timestamp(kind):
        return _naive if kind.tz else None
    if pt.is_list(kind):
        inner = _shown(kind.value_type)
        return None if inner is None else lambda values: [v if v is None else inner(v) for v in values]
    if pt.is_map(kind):
        key, item = _shown(kind.key_type) or _same, _shown(kind.item_type) or _same
        return lambda entries: {key(k): v if v is None else item(v) for k, v in entries}
    if pt.is_struct(kind):
        names = [f.name for f in kind]
        changes = [_shown(f.type) or _same for f in kind]
        record = record_type(names)

        def struct(value: Mapping[str, Any]) -> Any:
            fields = zip(names, changes, strict=True)
            return record(None if value[n] is None else change(value[n]) for n, change in fields)

        return struct
    return None


def _same(value: Any) -> Any:
    return value


def _naive(value: datetime) -> datetime:
    return value.replace(tzinfo=None)


# out ------------------------------------------------------------------------------------------------------------------


def taken(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Results of a function as a column, as Spark's Arrow-optimized UDFs convert them.

    >>> taken([1, True, 2.0], pa.string()).to_pylist(), taken([1.5], pa.int32()).to_pylist()
    (['1', 'true', '2.0'], [1])

    Raises:
        pyarrow.ArrowException, SchemaError, OverflowError, TypeError, ValueError: one of them does not fit.
        TooWideError: they are more bytes than one column holds.
    """
    change = _written(kind)
    changed = values if change is None else [None if v is None else change(v) for v in values]
    try:
        return arrow_values(changed, kind)
    except (MemoryError, TooWideError):
        raise
    except (pa.ArrowException, OverflowError, TypeError, ValueError):
        parts = [_one(value, kind) for value in changed]  # each by itself, whatever is beside it
        return pa.concat_arrays(parts) if parts else pa.array([], kind)


def _one(value: Any, kind: pa.DataType) -> pa.Array:
    try:
        return arrow_values([value], kind)
    except pa.ArrowTypeError:  # a truth for a number, for instance
        raise
    except pa.ArrowInvalid:
        if pt.is_decimal(kind) and isinstance(value, Decimal):
            return arrow_values([value.quantize(Decimal(1).scaleb(-kind.scale), ROUND_DOWN, _WIDE)], kind)
        return pa.array([value]).cast(kind)


def _written(kind: pa.DataType) -> Change | None:
    """How Arrow is given a value that is not null; None: as it is."""
    if pt.is_string(kind):
        return _text
    if pt.is_binary(kind):
        return lambda value: _need(value, bytes | bytearray, "bytes or a bytearray", kind)
    if pt.is_decimal(kind):
        return lambda value: _need(value, Decimal, "a decimal.Decimal", kind)
    if pt.is_timestamp(kind):
        return lambda value: _need(value, datetime, "a datetime.datetime", kind)
    if pt.is_list(kind):
        element = _written(kind.value_type) or _same

        def elements(value: Any) -> Any:
            items = _need(value, list | tuple | np.ndarray, "a list", kind)
            return [None if v is None else element(v) for v in items]

        return elements
    if pt.is_map(kind):
        key, item = _written(kind.key_type) or _same, _written(kind.item_type) or _same

        def entries(value: Any) -> Any:
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(key(k), None if v is None else item(v)) for k, v in pairs]

        return entries
    if pt.is_struct(kind):
        return _struct(kind, [_written(f.type) or _same for f in kind], tuple)
    return None


def _text(value: Any) -> str:
    return (
        ("true" if value else "false") if isinstance(value, bool) else value if isinstance(value, str) else str(value)
    )


def _need(value: Any, classes: Any, what: str, kind: pa.DataType) -> Any:
    if not isinstance(value, classes):
        raise SchemaError(f"a {type_name(kind)} must be {what}, got {value_text(value)}")
    return value


def _struct(kind: pa.DataType, changes: Sequence[Change], sequences: Any) -> Change:
    names = [f.name for f in kind]

    def struct(value: Any) -> Any:
        if isinstance(value, Mapping):
            unknown = [n for n in value if n not in names]
            if unknown:
                raise SchemaError(f"{unknown[0]!r} is not among the fields {', '.join(names)}")
            found = [value.get(n) for n in names]
        else:
            found = list(_need(value, sequences, "a tuple or a dict", kind))
        if len(found) != len(names):
            raise SchemaError(f"got {len(found)} values for the fields {', '.join(names)}")
        return {n: None if v is None else change(v) for n, v, change in zip(names, found, changes, strict=True)}

    return struct


def taken_or_null(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Results of a function as a column, as Spark converts those of pickled UDFs: null where the type is another.

    Other than Spark, a whole number beyond the bounds of its type is an error, and not what is left of its bits.

    >>> (
    ...     taken_or_null([1, True, 2.0, "3"], pa.int32()).to_pylist(),
    ...     taken_or_null([1, True], pa.string()).to_pylist(),
    ... )
    ([1, None, None, None], ['1', 'true'])

    Raises:
        pyarrow.ArrowException, SchemaError, OverflowError, TypeError, ValueError: as ``taken``.
    """
    change = _pickled(kind)
    return arrow_values([None if v is None else change(v) for v in values], kind)


def _pickled(kind: pa.DataType) -> Change:
    if pt.is_list(kind):
        inner = _pickled(kind.value_type)
        return lambda value: (
            [None if v is None else inner(v) for v in value] if isinstance(value, list | tuple) else None
        )
    if pt.is_map(kind):
        key, item = _pickled(kind.key_type), _pickled(kind.item_type)
        return lambda value: (
            [(key(k), None if v is None else item(v)) for k, v in value.items()] if isinstance(value, Mapping) else None
        )
    if pt.is_struct(kind):
        return _struct(kind, [_pickled(f.type) for f in kind], tuple | list)
    if pt.is_string(kind):
        return _java_text
    if pt.is_binary(kind):
        return lambda value: value.encode() if isinstance(value, str) else _of(value, bytes | bytearray)
    if pt.is_decimal(kind):
        unit = Decimal(1).scaleb(-kind.scale)
        return lambda value: value.quantize(unit, ROUND_HALF_UP, _WIDE) if isinstance(value, Decimal) else None
    if pt.is_date(kind):
        return lambda value: _need(value, date, "a datetime.date", kind)
    if pt.is_timestamp(kind):
        return lambda value: _need(value, datetime, "a datetime.datetime", kind)
    if pt.is_duration(kind):
        return lambda value: _need(value, timedelta, "a datetime.timedelta", kind)
    classes = next((classes for test, classes in _CLASSES if test(kind)), object)
    return lambda value: _of(value, classes)


_WIDE = Context(prec=80)
_CLASSES: tuple[tuple[Callable[[pa.DataType], bool], type], ...] = (
    (pt.is_boolean, bool),
    (pt.is_integer, int),
    (pt.is_floating, float),
)


def _of(value: Any, classes: Any) -> Any:
    """A value of a class, a truth being no whole number; else null."""
    return value if isinstance(value, classes) and (classes is not int or not isinstance(value, bool)) else None


def _java_text(value: Any) -> str:
    """What Java makes of a value that Python has pickled, where that is a text with a meaning."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return str(construct.cast(Literal(value, T.DOUBLE), T.STRING).value)  # type: ignore[attr-defined]
    if isinstance(value, int | Decimal):
        return str(value)
    raise SchemaError(f"a string must be a text, a number or a bool, got {value_text(value)}")
