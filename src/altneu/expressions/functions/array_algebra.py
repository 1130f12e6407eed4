"""Arrays from arrays: unions, parts, repetitions, sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.calendar import civil_from_days, days_from_civil, month_length
from altneu.expressions.coercion import INTEGRAL, common_type
from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.arrays import array_distinct
from altneu.expressions.functions.nested import scalar
from altneu.expressions.limits import COLLECTION_SIZE_LIMIT_EXCEEDED, claim, counted, row_bytes
from altneu.expressions.lists import Lists, any_per_row, concat_arrays, explode, first_of_each, implode, keep
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Mask, Values, Vector, both_valid, validity

_LARGEST = np.uint64(2**64 - 1)

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _two_lists(args: Arguments) -> Typing:
    result = args.common()
    if not pt.is_list(result):
        raise TypeMismatchError(f"{args.name} takes two arrays, not {T.type_name(result)}")
    args.check_ordered(result)
    return Typing([result, result], result)


def _overlap_rule(args: Arguments) -> Typing:
    return _two_lists(args)._replace(type=T.BOOLEAN, nullable=True)


def _pair(a: pa.Array, b: pa.Array) -> tuple[Lists, Lists, Values, Values, Mask | None]:
    """Both arrays taken apart, with codes that are equal where row and element are."""
    left, right = explode(a), explode(b)
    ra, rb = nested.ranks(left.elements, right.elements)
    ra, rb = np.where(left.elements.is_null(), -1, ra), np.where(right.elements.is_null(), -1, rb)
    width = int(max(ra.max(initial=0), rb.max(initial=0))) + 2
    return left, right, left.rows * width + ra + 1, right.rows * width + rb + 1, both_valid(left.valid, right.valid)


def _nulled(result: pa.Array, valid: Mask | None) -> pa.Array:
    return result if valid is None else result.take(pa.array(np.arange(len(result)), mask=~valid))


@scalar("array_union(xs, ys)", rule=_two_lists, grows=True)
def array_union(call: Call, a: pa.Array, b: pa.Array) -> pa.Array:
    """Each value that is in at least one of the arrays, once."""
    return array_distinct(concat_arrays((a, b), call.type))


@scalar("array_intersect(xs, ys)", rule=_two_lists)
def array_intersect(a: pa.Array, b: pa.Array) -> pa.Array:
    """Each value that is in both arrays, once."""
    left, _, x, y, valid = _pair(a, b)
    return _nulled(keep(left, np.isin(x, y) & first_of_each(left.rows, x)), valid)


@scalar("array_except(xs, ys)", rule=_two_lists)
def array_except(a: pa.Array, b: pa.Array) -> pa.Array:
    """Each value of the first array that is not in the second, once."""
    left, _, x, y, valid = _pair(a, b)
    return _nulled(keep(left, ~np.isin(x, y) & first_of_each(left.rows, x)), valid)


@scalar("arrays_overlap(xs, ys)", rule=_overlap_rule)
def arrays_overlap(a: pa.Array, b: pa.Array) -> Out:
    """Whether the arrays share a value that is not null; NULL if not, but one has a null and neither is empty."""
    left, right, x, y, valid = _pair(a, b)
    result = any_per_row(left, np.isin(x, y) & np.asarray(left.elements.is_valid()))
    nulls = any_per_row(left, np.asarray(left.elements.is_null())) | any_per_row(
        right, np.asarray(right.elements.is_null())
    )
    unknown = ~result & nulls & (left.lengths > 0) & (right.lengths > 0)
    return Out(pa.array(result, T.BOOLEAN, mask=None if valid is None else ~valid), (), unknown)


@scalar("slice(xs array, start int, length int) -> xs", fails=True)
def slice_array(call: Call, xs: pa.Array, start: pa.Array, length: pa.Array) -> Out:
    """The part of an array from position start, counted from one, or from the end if negative."""
    lists = explode(xs)
    begin, count = (np.asarray(v.fill_null(1)).astype(np.int64) for v in (start, length))
    at = np.where(begin > 0, begin - 1, lists.lengths + begin)
    outside = (at < 0) | (at >= lists.lengths)
    lengths = np.where(outside | (count < 0), 0, np.minimum(count, lists.lengths - at))
    rows, places = lists.rows, lists.places
    mask = (places >= at[rows]) & (places < (at + lengths)[rows])
    valid = both_valid(validity(start), validity(length))
    failures = (
        (begin == 0, "INVALID_PARAMETER_VALUE", f"`{call.text}`: elements are counted from 1, or from -1 at the end"),
        ((count < 0) & (begin != 0), "INVALID_PARAMETER_VALUE", f"`{call.text}`: the length is negative"),
    )
    return Out(_nulled(keep(lists, mask), valid), failures)


def _flatten_rule(args: Arguments) -> Typing:
    inner = args.element()
    if not pt.is_list(inner):
        raise TypeMismatchError(f"flatten takes an array of arrays, not {T.type_name(args[0].type)}")
    return Typing([None], inner, True)


@scalar("flatten(xss)", rule=_flatten_rule)
def flatten(xss: pa.Array) -> Out:
    """The elements of the arrays in an array, as one array; NULL if one of these arrays is NULL."""
    outer = explode(xss)
    inner = explode(outer.elements)
    starts = inner.offsets[outer.offsets]
    result = implode(np.diff(starts), inner.elements, outer.valid)
    return Out(result, (), any_per_row(outer, np.asarray(outer.elements.is_null())))


def _repeat_rule(args: Arguments) -> Typing:
    return Typing([None, args.accept(1, T.INT)], T.list_type(args[0].type), args[1].nullable)


@scalar("array_repeat(x, n)", rule=_repeat_rule, fails=True)
def array_repeat(call: Call, count: int, value: Vector, times: Vector) -> Out:
    """An array of the value n times."""
    lengths = np.maximum(times.values, 0).astype(np.int64)
    if times.valid is not None:
        lengths = np.where(times.valid, lengths, 0)
    bad, failed = counted(call.text, lengths, np.maximum(row_bytes(value.arrow), 1))
    lengths = np.where(bad, 0, lengths)
    elements = value.arrow.take(pa.array(np.repeat(np.arange(count), lengths)))
    constant = value.constant and times.constant
    return Out(Vector(call.type, arrow=implode(lengths, elements, times.valid), constant=constant), [failed])


_MOMENTS = (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
_DAY = 86_400_000_000


def _sequence_rule(args: Arguments) -> Typing:
    if args[0].type in _MOMENTS:
        kind = common_type((a.type for a in args[:2]), args.name)
        if len(args) > 2 and args[2].type not in (T.DAY_TIME, T.YEAR_MONTH):
            raise TypeMismatchError(f"sequence of moments: the step is an interval, not {T.type_name(args[2].type)}")
        return Typing([kind, kind, *(a.type for a in args[2:])], T.list_type(kind))
    result = args.common()
    if result not in INTEGRAL:
        raise TypeMismatchError(f"sequence takes whole numbers, dates or timestamps, not {T.type_name(result)}")
    return Typing([result] * len(args), T.list_type(result))


@scalar("sequence(from, to[, step])", rule=_sequence_rule, fails=True)
def sequence(call: Call, start: pa.Array, stop: pa.Array, step: pa.Array | None = None) -> Out:
    """Whole numbers, dates or timestamps from one to another, both included; the step of moments is an interval."""
    if start.type in _MOMENTS:
        given = () if step is None else (step,)
        made = [0]

        def moments(*values: Any) -> list[int]:
            count = _count_of_moments(call, start.type, *values)
            made[0] += count
            bad, _ = counted(call.text, np.array([count]), 8)
            if bad[0]:
                raise RowFailure(COLLECTION_SIZE_LIMIT_EXCEEDED, f"`{call.text}` would have {count:,} elements")
            claim(8.0 * made[0], len(start))
            return _moments(start.type, count, *values)

        return each(call, moments, start, stop, *given)
    valid = both_valid(validity(start), validity(stop))
    a, b = (np.asarray(v.fill_null(0)).astype(np.int64) for v in (start, stop))
    by = np.where(a <= b, 1, -1) if step is None else np.asarray(step.fill_null(1)).astype(np.int64)
    if step is not None:
        valid = both_valid(valid, validity(step))
    wrong = ((by > 0) & (a > b)) | ((by < 0) & (a < b)) | ((by == 0) & (a != b))
    further = _steps(a, b, by)
    if valid is not None:
        further = np.where(valid & ~wrong, further, 0)
    bad, failed = counted(call.text, np.where(wrong, 0, further) + (further != _LARGEST), 8)
    lengths = np.where(wrong | bad, 0, further + np.uint64(1)).astype(np.int64)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    values = _counting(a, by, lengths)
    elements = pa.array(values.astype(start.type.to_pandas_dtype()), start.type)
    return Out(
        implode(lengths, elements, valid),
        ((wrong, "ILLEGAL_SEQUENCE_BOUNDARIES", f"`{call.text}`: the step leads away from the end"), failed),
    )


def _step_of_moments(start: int, stop: int, step: Any) -> tuple[int, int]:
    """The microseconds and the months of a step; without one it is a day towards the end."""
    if step is None:
        return (_DAY if start <= stop else -_DAY), 0
    return (step, 0) if isinstance(step, int) else (0, step[0])


def _count_of_moments(call: Call, kind: pa.DataType, start: int, stop: int, step: Any = None) -> int:
    """How many moments there are at most.

    Raises:
        RowFailure: the step does not lead from one to the other.
    """
    by, months = _step_of_moments(start, stop, step)
    way = (stop - start) * (_DAY if kind == T.DATE else 1)
    if kind == T.DATE and not months and abs(by) < _DAY:
        raise RowFailure("ILLEGAL_SEQUENCE_BOUNDARIES", f"`{call.text}`: the step between dates is less than a day")
    size = by + months * 28 * _DAY
    if (size > 0 and way < 0) or (size < 0 and way > 0) or (size == 0 and way != 0):
        raise RowFailure("ILLEGAL_SEQUENCE_BOUNDARIES", f"`{call.text}`: the step leads away from the end")
    return abs(way) // abs(size) + 1 if size else 1


def _moments(kind: pa.DataType, count: int, start: int, stop: int, step: Any = None) -> list[int]:
    """Moments as whole numbers; with a step of months each is so many months behind the start."""
    by, months = _step_of_moments(start, stop, step)
    unit = _DAY if kind == T.DATE else 1
    begin, end = start * unit, stop * unit
    places = np.arange(count, dtype=np.int64)
    values = begin + by * places
    if months:
        day, rest = divmod(begin, _DAY)
        year, month, of_month = civil_from_days(np.array([day]))
        total = year * 12 + month - 1 + months * places
        years, in_year = total // 12, total % 12 + 1
        days = days_from_civil(years, in_year, np.minimum(of_month, month_length(years, in_year)))
        values = days * _DAY + rest
        values = values[values <= end] if months > 0 else values[values >= end]
    return [int(v) for v in values // unit]


def _steps(a: Values, b: Values, by: Values) -> Values:
    """How many steps it is from one number to another, at most: up to 2^64 - 1, which is why they have no sign."""
    low, high = np.minimum(a, b).astype(np.uint64), np.maximum(a, b).astype(np.uint64)
    size = np.where(by < 0, np.uint64(0) - by.astype(np.uint64), by.astype(np.uint64))
    return (high - low) // np.maximum(size, np.uint64(1))


def _counting(start: Values, by: Values, lengths: Values) -> Values:
    """The numbers of each sequence, one after the other."""
    if len(lengths) == 1:
        return start + by * np.arange(lengths[0])
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(start, lengths) + places * np.repeat(by, lengths)
