"""Conversions between types, with Spark's ANSI checks: which are possible, and between numbers, booleans and times.

Conversions from and to text are in ``text_in`` and ``text_out``.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.columnar.canonical import canonical
from altneu.expressions import decimals, text_in, text_out
from altneu.expressions.cast_failures import CAST_OVERFLOW, INVALID, OUT_OF_RANGE, explain
from altneu.expressions.coercion import INTEGRAL, is_decimal, is_nested, is_numeric
from altneu.expressions.variants import casting
from altneu.expressions.variants.text import spelled
from altneu.expressions.vector import (
    Failure,
    Mask,
    Values,
    Vector,
    both_valid,
    dtype_of,
    failed_rows,
    has_numpy,
    validity,
)

_FLOATS = (T.FLOAT, T.DOUBLE)
_TIMES = (T.TIMESTAMP, T.TIMESTAMP_NTZ)
_POINTS = (T.DATE, *_TIMES)
_MICROS, _DAY = 1_000_000, 86_400_000_000


def possible(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether ANSI mode lets one type be cast to another."""
    if source in (target, T.NULL):
        return True
    if T.VARIANT in (source, target):
        return casting.readable(target) if source == T.VARIANT else casting.writable(source, objects=False)
    if is_nested(source):
        return target == T.STRING or _possible_nested(source, target)
    if is_nested(target) or target in (T.NULL, T.STRING):
        return bool(target == T.STRING) and source != T.YEAR_MONTH
    if source == T.STRING:
        return target not in (T.DAY_TIME, T.YEAR_MONTH)
    if source == T.TIME:
        return target in INTEGRAL or is_decimal(target)
    if is_numeric(source):
        return is_numeric(target) or target in (T.BOOLEAN, T.TIMESTAMP)
    if source == T.BOOLEAN:
        return is_numeric(target)
    if source == T.DATE:
        return target in _TIMES
    if source == T.TIMESTAMP:
        return target in (*_POINTS, T.TIME) or is_numeric(target)
    if source == T.TIMESTAMP_NTZ:
        return target in (*_POINTS, T.TIME)
    return False


def _possible_nested(source: pa.DataType, target: pa.DataType) -> bool:
    if pt.is_list(source) and pt.is_list(target):
        return possible(source.value_type, target.value_type)
    if pt.is_map(source) and pt.is_map(target):
        return possible(source.key_type, target.key_type) and possible(source.item_type, target.item_type)
    if pt.is_struct(source) and pt.is_struct(target) and source.num_fields == target.num_fields:
        return all(possible(a.type, b.type) for a, b in zip(source, target, strict=True))
    return False


def can_fail(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether a cast could fail on some value."""
    if source in (target, T.NULL):
        return False
    if T.VARIANT in (source, target) or (target == T.STRING and T.contains(source, T.VARIANT.equals)):
        return True
    if target in (T.STRING, T.BINARY):
        return False
    if is_nested(source):
        return any(can_fail(source.field(i).type, target.field(i).type) for i in range(source.num_fields))
    if source == T.STRING:
        return True
    if source in INTEGRAL and target in INTEGRAL:
        return bool(INTEGRAL.index(source) > INTEGRAL.index(target))
    if target in INTEGRAL:
        narrow = source == T.TIME and target in (T.BYTE, T.SHORT)
        return narrow or source in _FLOATS or is_decimal(source) or (source == T.TIMESTAMP and target != T.LONG)
    if is_decimal(target):
        return _decimal_may_overflow(source, target)
    return source in _FLOATS and target == T.TIMESTAMP


def _decimal_may_overflow(source: pa.DataType, target: pa.DataType) -> bool:
    if is_decimal(source):
        return bool(source.precision - source.scale + (source.scale > target.scale) > target.precision - target.scale)
    digits = {T.TIME: 6, T.BOOLEAN: 1, T.BYTE: 3, T.SHORT: 5, T.INT: 10, T.LONG: 19}.get(source, 400)
    return bool(digits > target.precision - target.scale)


def convert(vector: Vector, target: pa.DataType, *, strict: bool = True) -> Vector:
    """The values in another type, with a failure for each that does not fit.

    Of arrays, maps' values and structs a part that does not fit fails its row if ``strict``, else it is null by itself.

    Shape:  n values in, n out; nulls stay null.
    """
    source = vector.type
    if source == target:
        return vector
    if source == T.NULL:
        return Vector(target, arrow=pa.nulls(len(vector), target), constant=vector.constant)
    if source == T.VARIANT:
        return from_variant(vector, target, strict=True)
    if target == T.VARIANT:
        result = casting.column_written(vector.arrow)
        return Vector(target, arrow=result.arrow, failures=result.failures, constant=vector.constant)
    if source == T.STRING and not is_nested(target):
        return text_in.parse(vector, target)
    if target == T.STRING:
        array, damaged = spelled(vector.arrow)
        failures = casting.failures_of(damaged, len(array))
        return Vector(T.STRING, arrow=text_out.to_text(array), failures=failures, constant=vector.constant)
    if is_nested(source):
        array, failures = _nested(vector.arrow, target, strict)
        return Vector(target, arrow=array, failures=failures, constant=vector.constant)
    kernel = _kernel(source, target)
    return kernel(vector, target)


def from_variant(vector: Vector, target: pa.DataType, *, strict: bool) -> Vector:
    """Variants in another type; what does not fit fails its row if ``strict``, else it is null by itself."""
    casts = casting.Casts(possible, convert)
    result = casting.column_read(vector.arrow, target, casts, strict=strict)
    return Vector(target, arrow=result.arrow, failures=result.failures, constant=vector.constant)


def _kernel(source: pa.DataType, target: pa.DataType) -> Callable[[Vector, pa.DataType], Vector]:
    if target == T.BOOLEAN:
        return lambda vector, _: _same(vector, T.BOOLEAN, np.asarray(vector.values != 0, np.bool_))
    if is_decimal(target):
        return _to_decimal
    if is_decimal(source):
        return _from_decimal
    if source in (*_POINTS, T.TIME) or target in _POINTS:
        return _time
    if source in _FLOATS and target in INTEGRAL:
        return _float_to_integral
    return _number


def _same(vector: Vector, target: pa.DataType, values: Values) -> Vector:
    return Vector(target, values, vector.valid, constant=vector.constant)


def checked(vector: Vector, target: pa.DataType, values: Values, bad: Mask, code: str = CAST_OVERFLOW) -> Vector:
    """Converted values with a failure where ``bad`` is true."""
    if vector.valid is not None:
        bad = bad & vector.valid
    if not bad.any():
        return _same(vector, target, values)
    return Vector(
        target,
        values,
        vector.valid,
        failures=(Failure(bad, code, explain(vector, target, code)),),
        constant=vector.constant,
    )


def _number(vector: Vector, target: pa.DataType) -> Vector:
    """Between whole numbers, booleans and floats where nothing but the range can be lost."""
    values = vector.values.astype(dtype_of(target))
    if vector.type in INTEGRAL and target in INTEGRAL and INTEGRAL.index(vector.type) > INTEGRAL.index(target):
        return checked(vector, target, values, values != vector.values)
    return _same(vector, target, values)


def _float_to_integral(vector: Vector, target: pa.DataType) -> Vector:
    dtype = dtype_of(target)
    limits = np.iinfo(dtype)
    values = vector.values
    whole = np.trunc(values)
    # 2^63 - 1 is not a double: the nearest one is 2^63, which Java's comparison lets through and saturates
    top = float(limits.max)
    fits = (np.floor(values) <= top) & (np.ceil(values) >= float(limits.min))
    clipped = np.where(fits, whole, 0)
    result = np.where(clipped >= top, limits.max, np.where(clipped >= top, 0, clipped).astype(dtype)).astype(dtype)
    return checked(vector, target, result, ~fits)


def _to_decimal(vector: Vector, target: pa.DataType) -> Vector:
    source = vector.type
    if source in _FLOATS or source in (T.TIMESTAMP, T.TIME):
        return _inexact_to_decimal(vector, target)
    scale, digits = (source.scale, source.precision) if is_decimal(source) else (0, 19)
    values = vector.values
    if source == T.BOOLEAN:
        values = values.astype(np.int64)
    elif values.dtype != object:
        values = values.astype(np.int64, copy=False)
    values, bad = decimals.fit(decimals.rescale(values, scale, target.scale, digits), target)
    return checked(vector, target, values, bad, OUT_OF_RANGE)


def _inexact_to_decimal(vector: Vector, target: pa.DataType) -> Vector:
    """Floats go through their shortest text, as Java's BigDecimal.valueOf does."""
    if vector.type in (T.TIMESTAMP, T.TIME):
        values, bad = decimals.fit(decimals.rescale(vector.values, 6, target.scale, 19), target)
        return checked(vector, target, values, bad, OUT_OF_RANGE)
    finite = np.isfinite(vector.values)
    present = finite if vector.valid is None else finite & vector.valid
    array = pa.array(vector.values.astype(np.float64), mask=~present)
    values, bad = text_in.decimals_of(text_out.shortest(array), target)
    if not finite.all():  # NaN and infinities become null, with ANSI too
        return checked(
            Vector(vector.type, vector.values, present, constant=vector.constant), target, values, bad, OUT_OF_RANGE
        )
    return checked(vector, target, values, bad, OUT_OF_RANGE)


def _from_decimal(vector: Vector, target: pa.DataType) -> Vector:
    scale = vector.type.scale
    if target in _FLOATS:
        if scale == 0 and vector.values.dtype != object:
            return _same(vector, target, vector.values.astype(dtype_of(target)))
        text = pc.cast(vector.arrow, T.STRING)
        values = Vector(T.DOUBLE, arrow=pc.cast(text, T.DOUBLE)).values
        return _same(vector, target, values.astype(dtype_of(target)))
    unit = _MICROS if target == T.TIMESTAMP else 1
    values = vector.values.astype(object) if vector.type.precision + 6 > 18 else vector.values
    whole = abs(values * unit) // 10**scale
    whole = np.where(np.asarray(values < 0, np.bool_), -whole, whole)
    limits = np.iinfo(dtype_of(target))
    bad = np.asarray((whole > limits.max) | (whole < limits.min), np.bool_)
    return checked(vector, target, np.where(bad, 0, whole).astype(dtype_of(target)), bad)


def _time(vector: Vector, target: pa.DataType) -> Vector:
    source, values = vector.type, vector.values
    if source == T.DATE:
        return _same(vector, target, values.astype(np.int64) * _DAY)
    if target == T.DATE:
        return _same(vector, target, (values // _DAY).astype(np.int32))
    if target == T.TIME:
        return _same(vector, target, values % _DAY)
    if target in _TIMES and source in _TIMES:
        return _same(vector, target, values)
    if target == T.TIMESTAMP:
        return _number_to_time(vector)
    if target in _FLOATS:
        return _same(vector, target, (values / _MICROS).astype(dtype_of(target)))
    seconds = values // _MICROS
    result = seconds.astype(dtype_of(target))
    return checked(vector, target, result, result != seconds)


def _number_to_time(vector: Vector) -> Vector:
    values = vector.values
    if vector.type in INTEGRAL:
        seconds = values.astype(np.int64)
        limit = np.iinfo(np.int64).max // _MICROS
        clipped = np.clip(seconds, -limit - 1, limit)
        result = np.where(clipped < -limit, np.iinfo(np.int64).min, np.maximum(clipped, -limit) * _MICROS)
        return _same(vector, T.TIMESTAMP, np.where(seconds > limit, np.iinfo(np.int64).max, result))
    finite = np.isfinite(values)
    micros = np.where(finite, values.astype(np.float64) * _MICROS, 0.0)
    far = np.abs(micros) >= 2.0**63
    cut = checked(vector, T.TIMESTAMP, np.where(far, 0, micros).astype(np.int64), far)
    return cut if finite.all() else _also(cut, checked(vector, T.TIMESTAMP, cut.values, ~finite, INVALID))


def _also(first: Vector, second: Vector) -> Vector:
    return first.with_failures(first.failures + second.failures)


def _nested(array: pa.Array, target: pa.DataType, strict: bool) -> tuple[pa.Array, tuple[Failure, ...]]:
    """Arrays, maps and structs part by part; a part that fails, fails its row, as a key of a map does in any case."""
    count = len(array)
    valid = validity(array)
    mask = None if valid is None else pa.array(~valid)
    if pt.is_struct(target):
        parts = [_child(child, f.type, strict) for child, f in zip(array.flatten(), target, strict=True)]
        nested = pa.StructArray.from_arrays([p.arrow for p in parts], fields=list(target), mask=mask)
        return nested, tuple(failure for p in parts for failure in p.failures)
    offsets = offsets_of(array)
    rows = np.repeat(np.arange(count), np.diff(offsets))
    if pt.is_map(target):
        keys = _child(map_keys(array), target.key_type, strict=True)
        items = _child(map_items(array), target.item_type, strict)
        nested = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys.arrow, items.arrow, type=target, mask=mask)
        nested = canonical(nested)  # keys of another type may have another order
        parts = [keys, items]
    else:
        values = _child(array.flatten(), target.value_type, strict)
        nested = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values.arrow, type=target, mask=mask)
        parts = [values]
    failures = []
    for failure in (f for p in parts for f in p.failures):
        hit = np.zeros(count, np.bool_)
        hit[rows[failure.mask]] = True
        first = {
            int(r): int(i)
            for i, r in reversed(list(zip(np.flatnonzero(failure.mask), rows[failure.mask], strict=True)))
        }
        failures.append(Failure(hit, failure.code, lambda row, f=failure, at=first: f.text(at[row])))  # type: ignore[misc]
    return nested, tuple(failures)


def _child(array: pa.Array, target: pa.DataType, strict: bool) -> Vector:
    result = convert(Vector(array.type, arrow=array), target, strict=strict)
    return result if strict else or_null(result)


def or_null(vector: Vector) -> Vector:
    """The same values, null where one has failed."""
    own = failed_rows(vector.failures)
    return vector if own is None else with_nulls(vector, own)


def offsets_of(array: pa.Array) -> Values:
    """Offsets of a list or map array from zero, null rows empty, matching ``flatten()``."""
    valid = validity(array)
    raw = (
        np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        if len(array)
        else np.zeros(1, np.int32)
    )
    lengths = np.diff(raw)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def map_keys(array: pa.Array) -> pa.Array:
    """All keys of a map array, row after row, of rows that are not null."""
    return _entries(array).field(0)


def map_items(array: pa.Array) -> pa.Array:
    """All values of a map array, row after row, of rows that are not null."""
    return _entries(array).field(1)


def _entries(array: pa.Array) -> pa.Array:
    kind = pa.list_(pa.struct([array.type.key_field, array.type.item_field]))
    return array.cast(kind).flatten()


def with_nulls(vector: Vector, null: Mask) -> Vector:
    """The same values, null where the mask is true, without failures."""
    if has_numpy(vector.type):
        return Vector(vector.type, vector.values, both_valid(vector.valid, ~null), constant=vector.constant)
    index = pa.array(np.arange(len(vector)), mask=null)
    return Vector(vector.type, arrow=vector.arrow.take(index), constant=vector.constant)


def saturated(values: Values) -> Values:
    """Doubles as int64, cut to its range as Java does; NaN is 0."""
    top = 2.0**63
    result = np.where(np.abs(values) < top, values, 0).astype(np.int64)
    return np.where(values >= top, 2**63 - 1, np.where(values <= -top, -(2**63), result))
