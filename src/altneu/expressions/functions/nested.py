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
from altneu.expressions.coercion import INTEGRAL, common_type
from altneu.expressions.functions.comparison import contains_map
from altneu.expressions.lists import (
    Lists,
    element_at,
    explode,
    first_of_each,
    first_per_row,
    implode,
    implode_map,
)
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.vector import Mask, Values, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Arrays, maps and structs"


def list_of(name: str, arg: Expr) -> pa.DataType:
    """The type of an array's elements.

    Raises:
        TypeMismatchError: the argument is no array.
    """
    if arg.type == T.NULL:
        return T.NULL
    if not pt.is_list(arg.type):
        raise TypeMismatchError(f"{name} takes an array, not {T.type_name(arg.type)} (`{arg.text}`)")
    return arg.type.value_type


def check_ordered(name: str, kind: pa.DataType) -> None:
    """Check that values can be compared.

    Raises:
        TypeMismatchError: there are maps in them.
    """
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
    grows=True,
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
        return Typing([None, accept(name, 1, args[1], T.INT)], list_of(name, args[0]), True)

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
    return Typing([None, accept("get", 1, args[1], T.INT)], list_of("get", args[0]), True)


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
