"""Arrays: what is in them, in what order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import can_implicitly_cast, wider
from altneu.expressions.functions.nested import GROUP, check_ordered, list_of
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
)
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import expect_count
from altneu.expressions.vector import Mask, Vector, both_valid, validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr


def _contains_rule(name: str, returns: pa.DataType) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        element = list_of(name, args[0])
        if args[1].type == T.NULL:
            raise TypeMismatchError(f"{name}: the value sought is NULL; cast it to a type")
        found = wider(element, args[1].type)
        if found is None:
            raise TypeMismatchError(
                f"{name}: {T.type_name(element)} and {T.type_name(args[1].type)} do not mix; cast one"
            )
        check_ordered(name, found)
        return Typing([T.list_type(found), found], returns, True if returns == T.BOOLEAN else None)

    return rule


def _matches(lists: Lists, value: pa.Array) -> Mask:
    wanted, have = nested.ranks(value.take(pa.array(lists.rows)), lists.elements)
    return (wanted == have) & np.asarray(lists.elements.is_valid()) & np.asarray(value.is_valid())[lists.rows]


@register(
    "array_contains",
    rule=_contains_rule("array_contains", T.BOOLEAN),
    style="arrow",
    group=GROUP,
    usage="array_contains(xs, x)",
    doc="Whether the array has the value; NULL when it has not but has a null.",
)
def array_contains(call: Call, xs: pa.Array, value: pa.Array) -> Out:
    """Whether the array has the value."""
    lists = explode(xs)
    found = any_per_row(lists, _matches(lists, value))
    unknown = any_per_row(lists, np.asarray(lists.elements.is_null())) & ~found
    valid = both_valid(lists.valid, validity(value))
    return Out(pa.array(found, T.BOOLEAN, mask=None if valid is None else ~valid), (), unknown)


@register(
    "array_position",
    rule=_contains_rule("array_position", T.LONG),
    style="arrow",
    group=GROUP,
    usage="array_position(xs, x)",
    doc="Place of the value's first occurrence, from one; 0 when there is none.",
)
def array_position(call: Call, xs: pa.Array, value: pa.Array) -> pa.Array:
    """Place of a value."""
    lists = explode(xs)
    place = first_per_row(lists, _matches(lists, value)) + 1
    valid = both_valid(lists.valid, validity(value))
    return pa.array(place, T.LONG, mask=None if valid is None else ~valid)


def _element_and_list(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        found = wider(list_of(name, args[0]), args[1].type)
        if found is None:
            raise TypeMismatchError(
                f"{name}: {T.type_name(args[0].type)} and {T.type_name(args[1].type)} do not mix; cast one"
            )
        return Typing([T.list_type(found), found], T.list_type(found))

    return rule


@register(
    "array_remove",
    rule=_element_and_list("array_remove"),
    style="arrow",
    group=GROUP,
    usage="array_remove(xs, x)",
    doc="The array without the elements that equal the value.",
)
def array_remove(call: Call, xs: pa.Array, value: pa.Array) -> Out:
    """The array without a value."""
    lists = explode(xs)
    return Out(keep(lists, ~_matches(lists, value)), (), np.asarray(value.is_null()))


def _joined_element(xs: pa.Array, value: pa.Array, first: bool) -> pa.Array:
    lists = explode(xs)
    single = implode(np.ones(len(xs), np.int64), value, None)
    if lists.valid is not None:
        single = single.take(pa.array(np.arange(len(xs)), mask=~lists.valid))
    return concat_arrays((single, xs) if first else (xs, single), xs.type)


for _name, _first, _doc in (("array_append", False, "end"), ("array_prepend", True, "start")):

    def _append_rule(args: Sequence[Expr], name: str = _name) -> Typing:
        return _element_and_list(name)(args)._replace(nullable=args[0].nullable)

    register(
        _name,
        rule=_append_rule,
        style="vector",
        group=GROUP,
        usage=f"{_name}(xs, x)",
        doc=f"The array with a value at its {_doc}.",
        grows=True,
    )(
        lambda call, count, xs, value, first=_first: Vector(
            call.type,
            arrow=_joined_element(xs.expand(count).arrow, value.expand(count).arrow, first),
            constant=xs.constant and value.constant,
        )
    )


def _same_list(name: str, compared: bool = False) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        element = list_of(name, args[0])
        if compared:
            check_ordered(name, element)
        return Typing([None], args[0].type)

    return rule


@register(
    "array_compact",
    rule=_same_list("array_compact"),
    style="arrow",
    group=GROUP,
    usage="array_compact(xs)",
    doc="The array without its nulls.",
)
def array_compact(call: Call, xs: pa.Array) -> pa.Array:
    """The array without its nulls."""
    return compacted(xs)


@register(
    "array_distinct",
    rule=_same_list("array_distinct", True),
    style="arrow",
    group=GROUP,
    usage="array_distinct(xs)",
    doc="Each value once, in the order of first occurrence.",
)
def array_distinct(call: Call, xs: pa.Array) -> pa.Array:
    """Each value once."""
    lists = explode(xs)
    return keep(lists, first_of_each(lists.rows, nested.rank(lists.elements)))


def _extreme_rule(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        element = list_of(name, args[0])
        check_ordered(name, element)
        return Typing([None], element, True)

    return rule


def _extreme(greatest: bool) -> Any:
    def kernel(call: Call, xs: pa.Array) -> pa.Array:
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

    return kernel


for _name, _greatest in (("array_max", True), ("array_min", False)):
    register(
        _name,
        rule=_extreme_rule(_name),
        style="arrow",
        group=GROUP,
        usage=f"{_name}(xs)",
        doc=f"The {'greatest' if _greatest else 'least'} element that is not null.",
    )(_extreme(_greatest))


def sorted_lists(xs: pa.Array, *, descending: bool, nulls_first: bool) -> pa.Array:
    """Elements of every array in order."""
    lists = explode(xs)
    ranks = nested.rank(lists.elements)
    null = np.asarray(lists.elements.is_null())
    key = np.where(null, 0, -ranks if descending else ranks)
    order = np.lexsort((key, null != nulls_first, lists.rows))
    return implode(lists.lengths, lists.elements.take(pa.array(order)), lists.valid)


def _sort_rule(args: Sequence[Expr]) -> Typing:
    expect_count("sort_array", args, 1, 2)
    check_ordered("sort_array", list_of("sort_array", args[0]))
    if len(args) == 2 and not args[1].is_literal:
        raise TypeMismatchError(f"sort_array: the direction (`{args[1].text}`) must be a constant")
    return Typing([None, T.BOOLEAN][: len(args)], args[0].type)


@register(
    "sort_array",
    rule=_sort_rule,
    style="arrow",
    group=GROUP,
    usage="sort_array(xs[, ascending])",
    doc="Elements in order, nulls first (last when descending).",
    constants=(1,),
)
def sort_array(call: Call, xs: pa.Array, ascending: bool = True) -> pa.Array:
    """Elements in order."""
    return sorted_lists(xs, descending=not ascending, nulls_first=ascending)


@register(
    "array_sort",
    rule=_same_list("array_sort", True),
    style="arrow",
    group=GROUP,
    usage="array_sort(xs)",
    doc="Elements in ascending order, nulls last.",
)
def array_sort(call: Call, xs: pa.Array) -> pa.Array:
    """Elements in ascending order, nulls last."""
    return sorted_lists(xs, descending=False, nulls_first=False)


def _join_rule(args: Sequence[Expr]) -> Typing:
    expect_count("array_join", args, 2, 3)
    element = list_of("array_join", args[0])
    if not can_implicitly_cast(element, T.STRING):
        raise TypeMismatchError(f"array_join takes an array of texts, not of {T.type_name(element)}")
    return Typing([T.list_type(T.STRING), T.STRING, T.STRING][: len(args)], T.STRING)


@register(
    "array_join",
    rule=_join_rule,
    style="arrow",
    group=GROUP,
    usage="array_join(xs, separator[, instead of null])",
    doc="The elements as one text; nulls are left out, or replaced.",
    grows=True,
)
def array_join(call: Call, xs: pa.Array, separator: pa.Array, instead: pa.Array | None = None) -> pa.Array:
    """The elements as one text."""
    if instead is None:
        return pc.binary_join(compacted(xs), separator)
    lists = explode(xs)
    filled = pc.if_else(lists.elements.is_valid(), lists.elements, instead.take(pa.array(lists.rows)))
    joined = pc.binary_join(implode(lists.lengths, filled, lists.valid), separator)
    return pc.if_else(instead.is_valid(), joined, None)
