"""Arrays, maps and structs: making them and taking from them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import INTEGRAL, common_type
from altneu.expressions.lists import (
    Lists,
    element_at,
    explode,
    first_of_each,
    first_per_row,
    implode,
    implode_map,
)
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Mask, Values, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Arrays, maps and structs")


def _array_rule(args: Arguments) -> Typing:
    result = args.common() if args else T.NULL
    return Typing([result] * len(args), T.list_type(result), False)


@scalar("array(…)", rule=_array_rule, usage="array(a, b, …)", grows=True)
def array(call: Call, count: int, *items: Vector) -> Vector:
    """An array of the values, brought to one type."""
    size = len(items)
    if not size:
        return Vector(call.type, arrow=pa.array([[]], call.type), constant=True)
    stacked = pa.concat_arrays([v.arrow for v in items])
    index = (np.arange(count)[:, None] + np.arange(size)[None, :] * count).reshape(-1)
    result = implode(np.full(count, size), stacked.take(pa.array(index)), None)
    return Vector(call.type, arrow=result, constant=all(v.constant for v in items))


def _struct_rule(args: Arguments) -> Typing:
    if not args or len(args) % 2:
        raise TypeMismatchError("named_struct takes names and values in turn")
    fields = []
    for name, value in zip(args[::2], args[1::2], strict=True):
        if not isinstance(getattr(name, "value", None), str):
            raise TypeMismatchError(f"named_struct: the name `{name.text}` must be a constant text")
        fields.append(pa.field(name.value, value.type, True))  # type: ignore[attr-defined]
    return Typing([None] * len(args), pa.struct(fields), False)


@scalar("named_struct(…)", rule=_struct_rule, usage="named_struct('a', x, …), struct(x, …)")
def named_struct(call: Call, count: int, *parts: Vector) -> Vector:
    """A struct of the values; struct() names a field as its column, or col1, col2 and so on."""
    children = [v.expand(count).arrow for v in parts[1::2]]
    constant = all(v.constant for v in parts)
    return Vector(call.type, arrow=pa.StructArray.from_arrays(children, fields=list(call.type)), constant=constant)


def _map_rule(args: Arguments) -> Typing:
    if len(args) % 2:
        raise TypeMismatchError("map takes keys and values in turn")
    if not args:
        raise TypeMismatchError("map() without entries has no type; write map_from_arrays of two typed arrays")
    key = common_type((a.type for a in args[::2]), "map keys")
    item = common_type((a.type for a in args[1::2]), "map values")
    return Typing([key, item] * (len(args) // 2), pa.map_(key, item), False)


@scalar("map(…)", rule=_map_rule, usage="map(k, v, …)", fails=True)
def make_map(call: Call, count: int, *parts: Vector) -> Any:
    """A map of keys to values. A null or repeated key is an error."""
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


def _index_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if pt.is_map(kind):
        return Typing([None, args.accept(1, kind.key_type)], kind.item_type, True)
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


@scalar("[](xs, i)", rule=_index_rule, usage="xs[i], m[k], m.k", fails=True)
def index(call: Call, container: pa.Array, key: pa.Array) -> Any:
    """The element of an array at an index from zero, or a map's value for a key.

    An index outside the array is an error; for a missing key the value is NULL.
    """
    if pt.is_map(container.type):
        return _in_map(container, key)
    lists = explode(container)
    at = np.asarray(key.fill_null(0)).astype(np.int64)
    return Out(element_at(lists, at), (_outside(call, lists, at, "INVALID_ARRAY_INDEX"),))


def _element_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if pt.is_map(kind):
        return Typing([None, args.accept(1, kind.key_type)], kind.item_type, True)
    return Typing([None, args.accept(1, T.INT)], args.element(), True)


def _from_one(at: Values, lists: Lists) -> Values:
    return np.where(at > 0, at - 1, np.where(at < 0, lists.lengths + at, -1))


@scalar("element_at(xs, i)", rule=_element_rule, usage="element_at(xs, i), element_at(m, k)", fails=True)
def element_at_one(call: Call, container: pa.Array, key: pa.Array) -> Any:
    """The element of an array at an index from one, or from the end if negative; or a map's value for a key.

    An index outside the array is an error; for a missing key the value is NULL.
    """
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


@scalar("try_element_at(xs, i)", rule=_element_rule, fails=True)
def try_element_at(call: Call, container: pa.Array, key: pa.Array) -> Any:
    """`element_at`, but NULL for an index outside."""
    if pt.is_map(container.type):
        return _in_map(container, key)
    lists = explode(container)
    at = np.asarray(key.fill_null(1)).astype(np.int64)
    text = f"`{call.text}`: elements are counted from 1, or from -1 at the end"
    return Out(element_at(lists, _from_one(at, lists)), ((at == 0, "INVALID_INDEX_OF_ZERO", text),))


def _get_rule(args: Arguments) -> Typing:
    return Typing([None, args.accept(1, T.INT)], args.element(), True)


@scalar("get(xs, i)", rule=_get_rule)
def get(container: pa.Array, key: pa.Array) -> pa.Array:
    """The element at an index from zero; NULL for an index outside."""
    return element_at(explode(container), np.asarray(key.fill_null(0)).astype(np.int64))


def _field_rule(args: Arguments) -> Typing:
    kind, name = args[0].type, args[1].value  # type: ignore[attr-defined]
    inner = kind.value_type if pt.is_list(kind) else kind
    matches = inner.field(name)
    result = T.list_type(matches.type) if pt.is_list(kind) else matches.type
    return Typing([None, None], result, args[0].nullable or matches.nullable)


@scalar(".(s, field)", rule=_field_rule, usage="s.field")
def field(structs: pa.Array, name: str) -> pa.Array:
    """A field of a struct; of an array of structs, the array of the field."""
    if pt.is_struct(structs.type):
        return pc.struct_field(structs, structs.type.get_field_index(name))
    lists = explode(structs)
    inner = pc.struct_field(lists.elements, lists.elements.type.get_field_index(name))
    return implode(lists.lengths, inner, lists.valid)


def _size_rule(args: Arguments) -> Typing:
    if not (pt.is_list(args[0].type) or pt.is_map(args[0].type)):
        raise TypeMismatchError(f"size takes an array or a map, not {T.type_name(args[0].type)} (`{args[0].text}`)")
    return Typing([None], T.INT)


@scalar("size(xs)", "cardinality", "array_size", rule=_size_rule)
def size(container: pa.Array) -> pa.Array:
    """Number of elements of an array or entries of a map."""
    lists = explode(container)
    return pa.array(lists.lengths.astype(np.int32), T.INT, mask=None if lists.valid is None else ~lists.valid)
