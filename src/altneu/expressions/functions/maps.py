"""Maps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.functions.nested import checked_map, scalar
from altneu.expressions.lists import aligned, any_per_row, concat_arrays, explode, implode
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import both_valid

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _map(args: Arguments) -> pa.MapType:
    kind = args[0].type
    if not pt.is_map(kind):
        raise TypeMismatchError(f"{args.name} takes a map, not {T.type_name(kind)} (`{args[0].text}`)")
    return kind


def _contains_rule(args: Arguments) -> Typing:
    return Typing([None, args.accept(1, _map(args).key_type)], T.BOOLEAN)


@scalar("map_keys(m)", rule=lambda args: Typing([None], T.list_type(_map(args).key_type)))
def map_keys(m: pa.Array) -> pa.Array:
    """The keys of a map."""
    lists = explode(m)
    return implode(lists.lengths, lists.elements.field(0), lists.valid)


@scalar("map_values(m)", rule=lambda args: Typing([None], T.list_type(_map(args).item_type)))
def map_values(m: pa.Array) -> pa.Array:
    """The values of a map."""
    lists = explode(m)
    return implode(lists.lengths, lists.elements.field(1), lists.valid)


def _entries_rule(args: Arguments) -> Typing:
    kind = _map(args)
    entry = pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)])
    return Typing([None], T.list_type(entry))


@scalar("map_entries(m)", rule=_entries_rule)
def map_entries(call: Call, m: pa.Array) -> pa.Array:
    """The entries of a map as structs of key and value."""
    lists = explode(m)
    entries = pa.StructArray.from_arrays(
        [lists.elements.field(0), lists.elements.field(1)], fields=list(call.type.value_type)
    )
    return implode(lists.lengths, entries, lists.valid)


@scalar("map_contains_key(m, k)", rule=_contains_rule)
def map_contains_key(m: pa.Array, key: pa.Array) -> pa.Array:
    """Whether a map has the key."""
    lists = explode(m)
    wanted, have = nested.ranks(key.take(pa.array(lists.rows)), lists.elements.field(0))
    result = any_per_row(lists, wanted == have)
    missing = np.asarray(key.is_null()) | (False if lists.valid is None else ~lists.valid)
    return pa.array(result, T.BOOLEAN, mask=missing)


def _from_arrays_rule(args: Arguments) -> Typing:
    if not (pt.is_list(args[0].type) and pt.is_list(args[1].type)):
        raise TypeMismatchError("map_from_arrays takes an array of keys and one of values")
    return Typing([None, None], pa.map_(args[0].type.value_type, args[1].type.value_type))


@scalar("map_from_arrays(ks, vs)", rule=_from_arrays_rule, fails=True)
def map_from_arrays(call: Call, keys: pa.Array, items: pa.Array) -> Any:
    """A map from an array of keys and one of values of the same length."""
    left, right = explode(keys), explode(items)
    valid = both_valid(left.valid, right.valid)
    uneven = left.lengths != right.lengths
    even = ~uneven if valid is None else ~uneven & valid
    lengths = np.where(even, left.lengths, 0)
    out = checked_map(
        call,
        lengths,
        left.elements.filter(pa.array(even[left.rows])),
        right.elements.filter(pa.array(even[right.rows])),
        valid,
    )
    message = f"`{call.text}`: there are not as many keys as values"
    return out._replace(failures=[(uneven, "_LEGACY_ERROR_TEMP_2128", message), *out.failures])


def _from_entries_rule(args: Arguments) -> Typing:
    kind = args[0].type
    if not (pt.is_list(kind) and T.is_struct(kind.value_type) and kind.value_type.num_fields == 2):
        raise TypeMismatchError(f"map_from_entries takes an array of structs of two fields, not {T.type_name(kind)}")
    key, item = kind.value_type
    return Typing([None], pa.map_(key.type, item.type))


@scalar("map_from_entries(xs)", rule=_from_entries_rule, fails=True)
def map_from_entries(call: Call, entries: pa.Array) -> Any:
    """A map from an array of structs of key and value."""
    lists = explode(entries)
    return checked_map(call, lists.lengths, lists.elements.field(0), lists.elements.field(1), lists.valid)


def _concat_rule(args: Arguments) -> Typing:
    if not args:
        kind: pa.DataType = pa.map_(T.STRING, T.STRING)
        return Typing([], kind, False)
    for arg in args:
        if not pt.is_map(arg.type):
            raise TypeMismatchError(f"map_concat takes maps, not {T.type_name(arg.type)} (`{arg.text}`)")
    kind = args.common()
    return Typing([kind] * len(args), kind)


@scalar("map_concat(…)", rule=_concat_rule, usage="map_concat(m, n, …)", fails=True, grows=True)
def map_concat(call: Call, *maps: pa.Array) -> Any:
    """The entries of all maps in one. A key that is in two of them is an error."""
    if not maps:
        return pa.array([[]], call.type)
    entry = pa.struct([pa.field("key", call.type.key_type, False), pa.field("value", call.type.item_type)])
    lists = explode(concat_arrays([m.cast(T.list_type(entry)) for m in maps], T.list_type(entry)))
    return checked_map(call, lists.lengths, lists.elements.field(0), lists.elements.field(1), lists.valid)


def _zipped_rule(args: Arguments) -> Typing:
    """Names and arrays in turn."""
    fields = []
    for name, array in zip(args[::2], args[1::2], strict=True):
        if not isinstance(getattr(name, "value", None), str):
            raise TypeMismatchError(f"named_arrays_zip: the name `{name.text}` must be a constant text")
        if array.type != T.NULL and not pt.is_list(array.type):
            raise TypeMismatchError(f"arrays_zip takes arrays, not {T.type_name(array.type)} (`{array.text}`)")
        inner = T.NULL if array.type == T.NULL else array.type.value_type
        fields.append(pa.field(name.value, inner))  # type: ignore[attr-defined]
    return Typing([None] * len(args), T.list_type(pa.struct(fields)))


@scalar(
    "named_arrays_zip(…)",
    rule=_zipped_rule,
    usage="arrays_zip(xs, ys, …), named_arrays_zip('x', xs, 'y', ys, …)",
    grows=True,
)
def arrays_zip(call: Call, *args: pa.Array) -> Any:
    """An array of structs of the elements at each place; shorter arrays go on with nulls."""
    listed = T.list_type(T.NULL)
    lists = [explode(pa.nulls(len(a), listed) if a.type == T.NULL else a) for a in args[1::2]]
    lengths, columns, valid = aligned(lists)
    elements = pa.StructArray.from_arrays(columns, fields=list(call.type.value_type))
    return implode(lengths, elements, valid, call.type.value_type)
