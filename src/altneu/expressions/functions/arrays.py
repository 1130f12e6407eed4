"""Arrays: what is in them, in what order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import can_implicitly_cast, describe, wider
from altneu.expressions.functions.nested import scalar
from altneu.expressions.limits import counted
from altneu.expressions.lists import (
    Lists,
    any_per_row,
    compacted,
    concat_arrays,
    explode,
    first_of_each,
    first_per_row,
    implode,
    keep,
    offsets_of,
)
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Failure, Mask, Vector, both_valid, validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _contains_rule(args: Arguments) -> Typing:
    element = args.element()
    if args[1].type == T.NULL:
        raise TypeMismatchError(f"{args.name}: the value sought is NULL; cast it to a type")
    result = wider(element, args[1].type)
    if result is None:
        raise TypeMismatchError(
            f"{args.name}: {T.type_name(element)} and {T.type_name(args[1].type)} do not mix; cast one"
        )
    args.check_ordered(result)
    return Typing([T.list_type(result), result], T.BOOLEAN, True)


def _position_rule(args: Arguments) -> Typing:
    return _contains_rule(args)._replace(type=T.LONG, nullable=None)


def _matches(lists: Lists, value: pa.Array) -> Mask:
    wanted, have = nested.ranks(value.take(pa.array(lists.rows)), lists.elements)
    return (wanted == have) & np.asarray(lists.elements.is_valid()) & np.asarray(value.is_valid())[lists.rows]


@scalar("array_contains(xs, x)", rule=_contains_rule)
def array_contains(xs: pa.Array, value: pa.Array) -> Out:
    """Whether the array has the value; NULL if it does not, but has a null."""
    lists = explode(xs)
    result = any_per_row(lists, _matches(lists, value))
    unknown = any_per_row(lists, np.asarray(lists.elements.is_null())) & ~result
    valid = both_valid(lists.valid, validity(value))
    return Out(pa.array(result, T.BOOLEAN, mask=None if valid is None else ~valid), (), unknown)


@scalar("array_position(xs, x)", rule=_position_rule)
def array_position(xs: pa.Array, value: pa.Array) -> pa.Array:
    """The position of the value's first occurrence, from one; 0 if there is none."""
    lists = explode(xs)
    place = first_per_row(lists, _matches(lists, value)) + 1
    valid = both_valid(lists.valid, validity(value))
    return pa.array(place, T.LONG, mask=None if valid is None else ~valid)


def _element_and_list(args: Arguments) -> Typing:
    result = wider(args.element(), args[1].type)
    if result is None:
        raise TypeMismatchError(
            f"{args.name}: {T.type_name(args[0].type)} and {T.type_name(args[1].type)} do not mix; cast one"
        )
    return Typing([T.list_type(result), result], T.list_type(result))


@scalar("array_remove(xs, x)", rule=_element_and_list)
def array_remove(xs: pa.Array, value: pa.Array) -> Out:
    """The array without the elements that equal the value."""
    lists = explode(xs)
    return Out(keep(lists, ~_matches(lists, value)), (), np.asarray(value.is_null()))


def _append_rule(args: Arguments) -> Typing:
    return _element_and_list(args)._replace(nullable=args[0].nullable)


@scalar("array_append(xs, x)", rule=_append_rule, grows=True)
def array_append(call: Call, count: int, xs: Vector, value: Vector) -> Vector:
    """The array with a value at its end."""
    return _joined_element(call, count, xs, value, first=False)


@scalar("array_prepend(xs, x)", rule=_append_rule, grows=True)
def array_prepend(call: Call, count: int, xs: Vector, value: Vector) -> Vector:
    """The array with a value at its start."""
    return _joined_element(call, count, xs, value, first=True)


def _joined_element(call: Call, count: int, xs: Vector, value: Vector, *, first: bool) -> Vector:
    arrays, values = xs.expand(count).arrow, value.expand(count).arrow
    lists = explode(arrays)
    single = implode(np.ones(count, np.int64), values, None)
    if lists.valid is not None:
        single = single.take(pa.array(np.arange(count), mask=~lists.valid))
    joined = concat_arrays((single, arrays) if first else (arrays, single), arrays.type)
    return Vector(call.type, arrow=joined, constant=xs.constant and value.constant)


def _insert_rule(args: Arguments) -> Typing:
    result = wider(args.element(), args[2].type)
    if result is None:
        raise TypeMismatchError(f"array_insert: {describe(args[i].type for i in (0, 2))} do not mix; cast one")
    return Typing(
        [T.list_type(result), args.accept(1, T.INT), result], T.list_type(result), args[0].nullable or args[1].nullable
    )


@scalar("array_insert(xs, place, x)", rule=_insert_rule, fails=True, grows=True)
def array_insert(call: Call, count: int, xs: Vector, place: Vector, value: Vector) -> Vector:
    """The array with a value put in at a place, from one, or from the end if negative; nulls fill what is between."""
    lists, values = explode(xs.expand(count).arrow), value.expand(count).arrow
    at, sizes = place.expand(count).values.astype(np.int64), lists.lengths
    valid = both_valid(lists.valid, place.expand(count).valid)
    present = np.ones(count, np.bool_) if valid is None else valid
    zero = (at == 0) & present
    lengths = np.where(present & ~zero, np.maximum(sizes + 1, np.abs(at)), 0)
    width = max(lists.elements.nbytes // max(len(lists.elements), 1), 1)
    large, failed = counted(call.text, lengths, width)
    lengths = np.where(large, 0, lengths)
    rows = np.repeat(np.arange(count), lengths)
    places = np.arange(len(rows)) - np.repeat(offsets_of(lengths)[:-1], lengths)
    own = np.where(at > 0, at - 1, lengths + at)[rows]
    before = places - (places > own)
    shift = np.where(at < 0, np.maximum(lengths - sizes - 1, 0), 0)[rows]
    source = np.where(places > own, before - shift, before)
    there = (places != own) & (source >= 0) & (source < sizes[rows])
    index = np.where(places == own, len(lists.elements) + rows, lists.offsets[rows] + source)
    everything = pa.concat_arrays([lists.elements, values])
    known = there | (places == own)
    result = implode(lengths, everything.take(pa.array(np.where(known, index, 0), mask=~known)), valid)
    message = f"`{call.text}`: places count from 1, or from -1 at the end"
    failures = tuple(
        Failure(mask, code, text)
        for mask, code, text in ((zero, "INVALID_INDEX_OF_ZERO", message), failed)
        if mask.any()
    )
    constant = xs.constant and place.constant and value.constant
    return Vector(call.type, arrow=result, failures=failures, constant=constant)


@scalar("array_compact(xs array) -> xs")
def array_compact(xs: pa.Array) -> pa.Array:
    """The array without its nulls."""
    return compacted(xs)


@scalar("array_distinct(xs ordered array) -> xs")
def array_distinct(xs: pa.Array) -> pa.Array:
    """Each value once, in the order of first occurrence."""
    lists = explode(xs)
    return keep(lists, first_of_each(lists.rows, nested.rank(lists.elements)))


def _extreme_rule(args: Arguments) -> Typing:
    return Typing([None], args.element(ordered=True), True)


@scalar("array_max(xs)", rule=_extreme_rule)
def array_max(xs: pa.Array) -> pa.Array:
    """The greatest element that is not null."""
    return _extreme(xs, greatest=True)


@scalar("array_min(xs)", rule=_extreme_rule)
def array_min(xs: pa.Array) -> pa.Array:
    """The least element that is not null."""
    return _extreme(xs, greatest=False)


def _extreme(xs: pa.Array, *, greatest: bool) -> pa.Array:
    lists = explode(xs)
    present = np.flatnonzero(np.asarray(lists.elements.is_valid()))
    ranks = nested.rank(lists.elements)[present]
    rows = lists.rows[present]
    order = np.lexsort((ranks if not greatest else -ranks, rows))
    rows, present = rows[order], present[order]
    first = np.ones(len(rows), np.bool_)
    first[1:] = rows[1:] != rows[:-1]
    place = np.full(len(xs), -1, np.int64)
    place[rows[first]] = present[first]
    return lists.elements.take(pa.array(place, mask=place < 0))


def sorted_lists(xs: pa.Array, *, descending: bool, nulls_first: bool) -> pa.Array:
    """Elements of every array in order."""
    lists = explode(xs)
    ranks = nested.rank(lists.elements)
    null = np.asarray(lists.elements.is_null())
    key = np.where(null, 0, -ranks if descending else ranks)
    order = np.lexsort((key, null != nulls_first, lists.rows))
    return implode(lists.lengths, lists.elements.take(pa.array(order)), lists.valid)


def _check_direction(args: Arguments) -> None:
    if len(args) == 2 and not args[1].is_literal:
        raise TypeMismatchError(f"sort_array: the direction (`{args[1].text}`) must be a constant")


@scalar("sort_array(xs ordered array[, ascending as boolean]) -> xs", check=_check_direction)
def sort_array(xs: pa.Array, ascending: bool = True) -> pa.Array:
    """The elements in order, nulls first (last if descending)."""
    return sorted_lists(xs, descending=not ascending, nulls_first=ascending)


@scalar("array_sort(xs ordered array) -> xs")
def array_sort(xs: pa.Array) -> pa.Array:
    """The elements in ascending order, nulls last."""
    return sorted_lists(xs, descending=False, nulls_first=False)


def _join_rule(args: Arguments) -> Typing:
    element = args.element()
    if not can_implicitly_cast(element, T.STRING):
        raise TypeMismatchError(f"array_join takes an array of texts, not of {T.type_name(element)}")
    return Typing([T.list_type(T.STRING), T.STRING, T.STRING][: len(args)], T.STRING)


@scalar(
    "array_join(xs, separator[, instead])",
    rule=_join_rule,
    usage="array_join(xs, separator[, instead of null])",
    grows=True,
)
def array_join(xs: pa.Array, separator: pa.Array, instead: pa.Array | None = None) -> pa.Array:
    """The elements as one text; nulls are left out, or replaced."""
    if instead is None:
        return pc.binary_join(compacted(xs), separator)
    lists = explode(xs)
    filled = pc.if_else(lists.elements.is_valid(), lists.elements, instead.take(pa.array(lists.rows)))
    joined = pc.binary_join(implode(lists.lengths, filled, lists.valid), separator)
    return pc.if_else(instead.is_valid(), joined, None)
