"""Arrays, maps and structs: making them and taking from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import INTEGRAL, can_implicitly_cast, common_type, wider
from altneu.expressions.functions.comparison import contains_map
from altneu.expressions.lists import (
    Lists,
    any_per_row,
    element_at,
    explode,
    first_of_each,
    first_per_row,
    implode,
    implode_map,
    keep,
)
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.vector import Mask, Values, Vector, both_valid, validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Arrays, maps and structs"


def _list_of(name: str, arg: Expr) -> pa.DataType:
    if arg.type == T.NULL:
        return T.NULL
    if not pt.is_list(arg.type):
        raise TypeMismatchError(f"{name} takes an array, not {T.type_name(arg.type)} (`{arg.text}`)")
    return arg.type.value_type


def _ordered(name: str, kind: pa.DataType) -> None:
    if contains_map(kind):
        raise TypeMismatchError(f"{name}: maps cannot be compared")


def _array_rule(args: Sequence[Expr]) -> Typing:
    found = common_type((a.type for a in args), "array") if args else T.NULL
    return Typing([found] * len(args), T.list_type(found), False)


@register(
    "array",
    rule=_array_rule,
    style="vector",
    group=GROUP,
    usage="array(a, b, …)",
    doc="An array of the values, brought to one type.",
)
def array(call: Call, count: int, *items: Vector) -> Vector:
    """An array of the values."""
    size = len(items)
    if not size:
        return Vector(call.type, arrow=pa.array([[]], call.type), constant=True)
    stacked = pa.concat_arrays([v.arrow for v in items])
    index = (np.arange(count)[:, None] + np.arange(size)[None, :] * count).reshape(-1)
    made = implode(np.full(count, size), stacked.take(pa.array(index)), None)
    return Vector(call.type, arrow=made, constant=all(v.constant for v in items))


def _struct_rule(args: Sequence[Expr]) -> Typing:
    if not args or len(args) % 2:
        raise TypeMismatchError("named_struct takes names and values in turn")
    fields = []
    for name, value in zip(args[::2], args[1::2], strict=True):
        if not isinstance(getattr(name, "value", None), str):
            raise TypeMismatchError(f"named_struct: the name `{name.text}` must be a constant text")
        fields.append(pa.field(name.value, value.type, True))  # type: ignore[attr-defined]
    return Typing([None] * len(args), pa.struct(fields), False)


@register(
    "named_struct",
    rule=_struct_rule,
    style="vector",
    group=GROUP,
    usage="named_struct('a', x, …), struct(x, …)",
    doc="A struct of the values; struct() names a field as its column, or col1, col2 and so on.",
)
def named_struct(call: Call, count: int, *parts: Vector) -> Vector:
    """A struct of the values."""
    children = [v.expand(count).arrow for v in parts[1::2]]
    constant = all(v.constant for v in parts)
    return Vector(call.type, arrow=pa.StructArray.from_arrays(children, fields=list(call.type)), constant=constant)


def _map_rule(args: Sequence[Expr]) -> Typing:
    if len(args) % 2:
        raise TypeMismatchError("map takes keys and values in turn")
    if not args:
        raise TypeMismatchError("map() without entries has no type; write map_from_arrays of two typed arrays")
    key = common_type((a.type for a in args[::2]), "map keys")
    item = common_type((a.type for a in args[1::2]), "map values")
    return Typing([key, item] * (len(args) // 2), pa.map_(key, item), False)


@register(
    "map",
    rule=_map_rule,
    style="vector",
    group=GROUP,
    usage="map(k, v, …)",
    doc="A map of keys to values. A null or repeated key is an error.",
    fails=True,
)
def make_map(call: Call, count: int, *parts: Vector) -> Any:
    """A map of keys to values."""
    size = len(parts) // 2
    index = pa.array((np.arange(count)[:, None] + np.arange(size)[None, :] * count).reshape(-1))
    keys = pa.concat_arrays([v.expand(count).arrow for v in parts[::2]]).take(index)
    items = pa.concat_arrays([v.expand(count).arrow for v in parts[1::2]]).take(index)
    return checked_map(call, np.full(count, size), keys, items, None)


def checked_map(call: Call, lengths: Values, keys: pa.Array, items: pa.Array, valid: Mask | None) -> Out:
    """A map array, with an error for rows that have a null key or the same key twice."""
    rows = np.repeat(np.arange(len(lengths)), lengths)
    null = np.asarray(keys.is_null())
    repeated = ~first_of_each(rows, nested.rank(keys))
    missing = np.bincount(rows[null], minlength=len(lengths)) > 0
    twice = (np.bincount(rows[repeated], minlength=len(lengths)) > 0) & ~missing
    failures = [
        (missing, "NULL_MAP_KEY", f"`{call.text}`: a map has no null key"),
        (twice, "DUPLICATED_MAP_KEY", f"`{call.text}`: a key comes twice"),
    ]
    if missing.any():  # Arrow holds no null key; the row has failed, so any will do
        fine = ~missing[rows]
        keys, items = keys.filter(pa.array(fine)), items.filter(pa.array(fine))
        lengths = np.where(missing, 0, lengths)
    return Out(implode_map(lengths, keys, items, valid, call.type), failures)


def _index_rule(args: Sequence[Expr]) -> Typing:
    expect_count("[]", args, 2)
    kind = args[0].type
    if pt.is_map(kind):
        return Typing([None, accept("[]", 1, args[1], kind.key_type)], kind.item_type, True)
    if pt.is_list(kind):
        if args[1].type not in (*INTEGRAL, T.NULL):
            raise TypeMismatchError(
                f"`{args[0].text}[{args[1].text}]`: an array's index is a whole number, not {T.type_name(args[1].type)}"
            )
        return Typing([None, T.LONG], kind.value_type, True)
    raise TypeMismatchError(f"`{args[0].text}` is {T.type_name(kind)}, which has no elements")


def _in_map(entries: pa.Array, key: pa.Array) -> pa.Array:
    """Each row's value at its own key; null where there is none."""
    lists = explode(entries)
    keys, items = lists.elements.field(0), lists.elements.field(1)
    wanted, have = nested.ranks(key.take(pa.array(lists.rows)), keys)
    match = (wanted == have) & np.asarray(key.is_valid())[lists.rows]
    return element_at(Lists(lists.offsets, items, lists.valid), first_per_row(lists, match))


def _outside(call: Call, lists: Lists, index: Values, code: str) -> tuple[Mask, str, Any]:
    lengths = lists.lengths
    bad = (index < 0) | (index >= lengths)
    return (
        bad,
        code,
        lambda row: f"`{call.text}`: the index is outside of the array, which has {int(lengths[row])} elements",
    )


@register(
    "[]",
    rule=_index_rule,
    style="arrow",
    group=GROUP,
    usage="xs[i], m[k], m.k",
    doc="Element of an array by its index from zero (an error outside), or a map's value at a key (NULL without it).",
    fails=True,
)
def index(call: Call, container: pa.Array, key: pa.Array) -> Any:
    """Element by index or key."""
    if pt.is_map(container.type):
        return _in_map(container, key)
    lists = explode(container)
    at = np.asarray(key.fill_null(0)).astype(np.int64)
    return Out(element_at(lists, at), (_outside(call, lists, at, "INVALID_ARRAY_INDEX"),))


def _element_rule(name: str) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        kind = args[0].type
        if pt.is_map(kind):
            return Typing([None, accept(name, 1, args[1], kind.key_type)], kind.item_type, True)
        return Typing([None, accept(name, 1, args[1], T.INT)], _list_of(name, args[0]), True)

    return rule


def _from_one(at: Values, lists: Lists) -> Values:
    return np.where(at > 0, at - 1, np.where(at < 0, lists.lengths + at, -1))


@register(
    "element_at",
    rule=_element_rule("element_at"),
    style="arrow",
    group=GROUP,
    usage="element_at(xs, i), element_at(m, k)",
    doc="Element by its index from one (from the end when negative; an error outside), or a map's value at a key.",
    fails=True,
)
def element_at_one(call: Call, container: pa.Array, key: pa.Array) -> Any:
    """Element by index from one, or by key."""
    if pt.is_map(container.type):
        return _in_map(container, key)
    lists = explode(container)
    at = np.asarray(key.fill_null(1)).astype(np.int64)
    place = _from_one(at, lists)
    bad, _, text = _outside(call, lists, place, "")
    zero = at == 0
    failures = (
        (zero, "INVALID_INDEX_OF_ZERO", f"`{call.text}`: elements are counted from 1, or from -1 at the end"),
        (bad & ~zero, "INVALID_ARRAY_INDEX_IN_ELEMENT_AT", text),
    )
    return Out(element_at(lists, place), failures)


@register(
    "try_element_at",
    rule=_element_rule("try_element_at"),
    style="arrow",
    group=GROUP,
    usage="try_element_at(xs, i)",
    doc="element_at, NULL outside.",
    fails=True,
)
def try_element_at(call: Call, container: pa.Array, key: pa.Array) -> Any:
    """Element by index from one, null outside."""
    if pt.is_map(container.type):
        return _in_map(container, key)
    lists = explode(container)
    at = np.asarray(key.fill_null(1)).astype(np.int64)
    text = f"`{call.text}`: elements are counted from 1, or from -1 at the end"
    return Out(element_at(lists, _from_one(at, lists)), ((at == 0, "INVALID_INDEX_OF_ZERO", text),))


def _get_rule(args: Sequence[Expr]) -> Typing:
    expect_count("get", args, 2)
    return Typing([None, accept("get", 1, args[1], T.INT)], _list_of("get", args[0]), True)


@register(
    "get",
    rule=_get_rule,
    style="arrow",
    group=GROUP,
    usage="get(xs, i)",
    doc="Element by its index from zero, NULL outside.",
)
def get(call: Call, container: pa.Array, key: pa.Array) -> pa.Array:
    """Element by index from zero, null outside."""
    return element_at(explode(container), np.asarray(key.fill_null(0)).astype(np.int64))


def _field_rule(args: Sequence[Expr]) -> Typing:
    kind, name = args[0].type, args[1].value  # type: ignore[attr-defined]
    inner = kind.value_type if pt.is_list(kind) else kind
    found = inner.field(name)
    result = T.list_type(found.type) if pt.is_list(kind) else found.type
    return Typing([None, None], result, args[0].nullable or found.nullable)


@register(
    ".",
    rule=_field_rule,
    style="arrow",
    group=GROUP,
    usage="s.field",
    doc="A field of a struct; of an array of structs, the array of the field.",
    constants=(1,),
)
def field(call: Call, structs: pa.Array, name: str) -> pa.Array:
    """A field of a struct."""
    if pt.is_struct(structs.type):
        return pc.struct_field(structs, structs.type.get_field_index(name))
    lists = explode(structs)
    inner = pc.struct_field(lists.elements, lists.elements.type.get_field_index(name))
    return implode(lists.lengths, inner, lists.valid)


def _size_rule(args: Sequence[Expr]) -> Typing:
    expect_count("size", args, 1)
    if not (pt.is_list(args[0].type) or pt.is_map(args[0].type)):
        raise TypeMismatchError(f"size takes an array or a map, not {T.type_name(args[0].type)} (`{args[0].text}`)")
    return Typing([None], T.INT)


@register(
    "size",
    "cardinality",
    "array_size",
    rule=_size_rule,
    style="arrow",
    group=GROUP,
    usage="size(xs)",
    doc="Number of elements of an array or entries of a map.",
)
def size(call: Call, container: pa.Array) -> pa.Array:
    """Number of elements."""
    lists = explode(container)
    return pa.array(lists.lengths.astype(np.int32), T.INT, mask=None if lists.valid is None else ~lists.valid)


def _contains_rule(name: str, returns: pa.DataType) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        element = _list_of(name, args[0])
        if args[1].type == T.NULL:
            raise TypeMismatchError(f"{name}: the value sought is NULL; cast it to a type")
        found = wider(element, args[1].type)
        if found is None:
            raise TypeMismatchError(
                f"{name}: {T.type_name(element)} and {T.type_name(args[1].type)} do not mix; cast one"
            )
        _ordered(name, found)
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


def _element_and_list(name: str, swap: bool = False) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        found = wider(_list_of(name, args[0]), args[1].type)
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
    )(
        lambda call, count, xs, value, first=_first: Vector(
            call.type,
            arrow=_joined_element(xs.expand(count).arrow, value.expand(count).arrow, first),
            constant=xs.constant and value.constant,
        )
    )


def concat_arrays(parts: Sequence[pa.Array], kind: pa.DataType) -> pa.Array:
    """Each row's arrays one after another; null when one is null."""
    taken = [explode(p) for p in parts]
    valid: Mask | None = None
    for lists in taken:
        valid = both_valid(valid, lists.valid)
    lengths = np.stack([lists.lengths for lists in taken], axis=1)
    if valid is not None:
        lengths = np.where(valid[:, None], lengths, 0)
    stacked = pa.concat_arrays([lists.elements for lists in taken])
    bases = np.cumsum([0, *(len(lists.elements) for lists in taken)])[:-1]
    starts = (np.stack([lists.offsets[:-1] for lists in taken], axis=1) + bases).reshape(-1)
    flat = lengths.reshape(-1)
    index = np.repeat(starts - np.concatenate([[0], np.cumsum(flat)[:-1]]), flat) + np.arange(flat.sum())
    return implode(lengths.sum(axis=1), stacked.take(pa.array(index)), valid, kind.value_type)


def reversed_lists(xs: pa.Array) -> pa.Array:
    """Elements of every array in reverse."""
    lists = explode(xs)
    last = np.repeat(lists.offsets[1:] - 1, lists.lengths)
    return implode(lists.lengths, lists.elements.take(pa.array(last - lists.places)), lists.valid)


def compacted(xs: pa.Array) -> pa.Array:
    """Arrays without their nulls."""
    lists = explode(xs)
    return keep(lists, np.asarray(lists.elements.is_valid()))


def _same_list(name: str, compared: bool = False) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        element = _list_of(name, args[0])
        if compared:
            _ordered(name, element)
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
        element = _list_of(name, args[0])
        _ordered(name, element)
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
    _ordered("sort_array", _list_of("sort_array", args[0]))
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
    element = _list_of("array_join", args[0])
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
)
def array_join(call: Call, xs: pa.Array, separator: pa.Array, instead: pa.Array | None = None) -> pa.Array:
    """The elements as one text."""
    if instead is None:
        return pc.binary_join(compacted(xs), separator)
    lists = explode(xs)
    filled = pc.if_else(lists.elements.is_valid(), lists.elements, instead.take(pa.array(lists.rows)))
    joined = pc.binary_join(implode(lists.lengths, filled, lists.valid), separator)
    return pc.if_else(instead.is_valid(), joined, None)


def _two_lists(name: str, returns: pa.DataType | None = None) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        found = common_type((a.type for a in args), name)
        if not pt.is_list(found):
            raise TypeMismatchError(f"{name} takes two arrays, not {T.type_name(found)}")
        _ordered(name, found)
        return Typing([found, found], returns or found, True if returns else None)

    return rule


def _pair(a: pa.Array, b: pa.Array) -> tuple[Lists, Lists, Values, Values, Mask | None]:
    """Both arrays taken apart, with codes that are equal where row and element are."""
    left, right = explode(a), explode(b)
    ra, rb = nested.ranks(left.elements, right.elements)
    ra, rb = np.where(left.elements.is_null(), -1, ra), np.where(right.elements.is_null(), -1, rb)
    width = int(max(ra.max(initial=0), rb.max(initial=0))) + 2
    return left, right, left.rows * width + ra + 1, right.rows * width + rb + 1, both_valid(left.valid, right.valid)


def _nulled(made: pa.Array, valid: Mask | None) -> pa.Array:
    return made if valid is None else made.take(pa.array(np.arange(len(made)), mask=~valid))


@register(
    "array_union",
    rule=_two_lists("array_union"),
    style="arrow",
    group=GROUP,
    usage="array_union(xs, ys)",
    doc="Each value of either, once.",
)
def array_union(call: Call, a: pa.Array, b: pa.Array) -> pa.Array:
    """Each value of either, once."""
    return array_distinct(call, concat_arrays((a, b), call.type))


@register(
    "array_intersect",
    rule=_two_lists("array_intersect"),
    style="arrow",
    group=GROUP,
    usage="array_intersect(xs, ys)",
    doc="Each value of both, once.",
)
def array_intersect(call: Call, a: pa.Array, b: pa.Array) -> pa.Array:
    """Each value of both, once."""
    left, _, x, y, valid = _pair(a, b)
    return _nulled(keep(left, np.isin(x, y) & first_of_each(left.rows, x)), valid)


@register(
    "array_except",
    rule=_two_lists("array_except"),
    style="arrow",
    group=GROUP,
    usage="array_except(xs, ys)",
    doc="Each value of the first that is not in the second, once.",
)
def array_except(call: Call, a: pa.Array, b: pa.Array) -> pa.Array:
    """Each value of the first that is not in the second, once."""
    left, _, x, y, valid = _pair(a, b)
    return _nulled(keep(left, ~np.isin(x, y) & first_of_each(left.rows, x)), valid)


@register(
    "arrays_overlap",
    rule=_two_lists("arrays_overlap", T.BOOLEAN),
    style="arrow",
    group=GROUP,
    usage="arrays_overlap(xs, ys)",
    doc="Whether they share a value that is not null; NULL when they do not but one has a null and none is empty.",
)
def arrays_overlap(call: Call, a: pa.Array, b: pa.Array) -> Out:
    """Whether two arrays share a value."""
    left, right, x, y, valid = _pair(a, b)
    found = any_per_row(left, np.isin(x, y) & np.asarray(left.elements.is_valid()))
    nulls = any_per_row(left, np.asarray(left.elements.is_null())) | any_per_row(
        right, np.asarray(right.elements.is_null())
    )
    unknown = ~found & nulls & (left.lengths > 0) & (right.lengths > 0)
    return Out(pa.array(found, T.BOOLEAN, mask=None if valid is None else ~valid), (), unknown)


def _slice_rule(args: Sequence[Expr]) -> Typing:
    expect_count("slice", args, 3)
    _list_of("slice", args[0])
    return Typing([None, accept("slice", 1, args[1], T.INT), accept("slice", 2, args[2], T.INT)], args[0].type)


@register(
    "slice",
    rule=_slice_rule,
    style="arrow",
    group=GROUP,
    usage="slice(xs, start, length)",
    doc="Part of an array from a place counted from one, or from the end when negative.",
    fails=True,
)
def slice_array(call: Call, xs: pa.Array, start: pa.Array, length: pa.Array) -> Out:
    """Part of an array."""
    lists = explode(xs)
    begin, count = (np.asarray(v.fill_null(1)).astype(np.int64) for v in (start, length))
    at = np.where(begin > 0, begin - 1, lists.lengths + begin)
    outside = (at < 0) | (at >= lists.lengths)
    kept = np.where(outside | (count < 0), 0, np.minimum(count, lists.lengths - at))
    rows, places = lists.rows, lists.places
    mask = (places >= at[rows]) & (places < (at + kept)[rows])
    valid = both_valid(validity(start), validity(length))
    failures = (
        (begin == 0, "INVALID_PARAMETER_VALUE", f"`{call.text}`: elements are counted from 1, or from -1 at the end"),
        ((count < 0) & (begin != 0), "INVALID_PARAMETER_VALUE", f"`{call.text}`: the length is negative"),
    )
    return Out(_nulled(keep(lists, mask), valid), failures)


def _flatten_rule(args: Sequence[Expr]) -> Typing:
    expect_count("flatten", args, 1)
    inner = _list_of("flatten", args[0])
    if not pt.is_list(inner):
        raise TypeMismatchError(f"flatten takes an array of arrays, not {T.type_name(args[0].type)}")
    return Typing([None], inner, True)


@register(
    "flatten",
    rule=_flatten_rule,
    style="arrow",
    group=GROUP,
    usage="flatten(xss)",
    doc="The elements of the arrays in an array; NULL when one of them is.",
)
def flatten(call: Call, xss: pa.Array) -> Out:
    """The elements of arrays in arrays."""
    outer = explode(xss)
    inner = explode(outer.elements)
    starts = inner.offsets[outer.offsets]
    made = implode(np.diff(starts), inner.elements, outer.valid)
    return Out(made, (), any_per_row(outer, np.asarray(outer.elements.is_null())))


def _repeat_rule(args: Sequence[Expr]) -> Typing:
    expect_count("array_repeat", args, 2)
    return Typing([None, accept("array_repeat", 1, args[1], T.INT)], T.list_type(args[0].type), args[1].nullable)


@register(
    "array_repeat",
    rule=_repeat_rule,
    style="vector",
    group=GROUP,
    usage="array_repeat(x, n)",
    doc="An array of the value n times.",
)
def array_repeat(call: Call, count: int, value: Vector, times: Vector) -> Vector:
    """An array of a value so many times."""
    lengths = np.maximum(times.values, 0).astype(np.int64)
    if times.valid is not None:
        lengths = np.where(times.valid, lengths, 0)
    elements = value.arrow.take(pa.array(np.repeat(np.arange(count), lengths)))
    return Vector(call.type, arrow=implode(lengths, elements, times.valid), constant=value.constant and times.constant)


def _sequence_rule(args: Sequence[Expr]) -> Typing:
    expect_count("sequence", args, 2, 3)
    found = common_type((a.type for a in args), "sequence")
    if found not in INTEGRAL:
        raise TypeMismatchError(f"sequence takes whole numbers, not {T.type_name(found)}")
    return Typing([found] * len(args), T.list_type(found))


@register(
    "sequence",
    rule=_sequence_rule,
    style="arrow",
    group=GROUP,
    usage="sequence(from, to[, step])",
    doc="Whole numbers from one to another, both included.",
    fails=True,
)
def sequence(call: Call, start: pa.Array, stop: pa.Array, step: pa.Array | None = None) -> Out:
    """Whole numbers in a row."""
    valid = both_valid(validity(start), validity(stop))
    a, b = (np.asarray(v.fill_null(0)).astype(np.int64) for v in (start, stop))
    by = np.where(a <= b, 1, -1) if step is None else np.asarray(step.fill_null(1)).astype(np.int64)
    if step is not None:
        valid = both_valid(valid, validity(step))
    wrong = ((by > 0) & (a > b)) | ((by < 0) & (a < b)) | ((by == 0) & (a != b))
    lengths = np.where(wrong, 0, (b - a) // np.where(by == 0, 1, by) + 1)
    if valid is not None:
        lengths = np.where(valid, lengths, 0)
    places = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    values = np.repeat(a, lengths) + places * np.repeat(by, lengths)
    elements = pa.array(values.astype(start.type.to_pandas_dtype()), start.type)
    return Out(
        implode(lengths, elements, valid),
        ((wrong, "ILLEGAL_SEQUENCE_BOUNDARIES", f"`{call.text}`: the step leads away from the end"),),
    )
