"""Maps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.functions.nested import GROUP, checked_map
from altneu.expressions.lists import any_per_row, explode, implode
from altneu.expressions.registry import Rule, Typing, register
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.vector import both_valid

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr


def _map_rule(name: str, result: Any, count: int = 1) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, count)
        kind = args[0].type
        if not pt.is_map(kind):
            raise TypeMismatchError(f"{name} takes a map, not {T.type_name(kind)} (`{args[0].text}`)")
        types = [None, accept(name, 1, args[1], kind.key_type)] if count == 2 else [None]
        return Typing(types, result(kind))

    return rule


@register(
    "map_keys",
    rule=_map_rule("map_keys", lambda k: T.list_type(k.key_type)),
    style="arrow",
    group=GROUP,
    usage="map_keys(m)",
    doc="The keys of a map.",
)
def map_keys(call: Call, m: pa.Array) -> pa.Array:
    """The keys of a map."""
    lists = explode(m)
    return implode(lists.lengths, lists.elements.field(0), lists.valid)


@register(
    "map_values",
    rule=_map_rule("map_values", lambda k: T.list_type(k.item_type)),
    style="arrow",
    group=GROUP,
    usage="map_values(m)",
    doc="The values of a map.",
)
def map_values(call: Call, m: pa.Array) -> pa.Array:
    """The values of a map."""
    lists = explode(m)
    return implode(lists.lengths, lists.elements.field(1), lists.valid)


def _entry_type(kind: pa.DataType) -> pa.DataType:
    return T.list_type(pa.struct([pa.field("key", kind.key_type, False), pa.field("value", kind.item_type)]))


@register(
    "map_entries",
    rule=_map_rule("map_entries", _entry_type),
    style="arrow",
    group=GROUP,
    usage="map_entries(m)",
    doc="The entries of a map as structs of key and value.",
)
def map_entries(call: Call, m: pa.Array) -> pa.Array:
    """The entries of a map."""
    lists = explode(m)
    entries = pa.StructArray.from_arrays(
        [lists.elements.field(0), lists.elements.field(1)], fields=list(call.type.value_type)
    )
    return implode(lists.lengths, entries, lists.valid)


@register(
    "map_contains_key",
    rule=_map_rule("map_contains_key", lambda k: T.BOOLEAN, 2),
    style="arrow",
    group=GROUP,
    usage="map_contains_key(m, k)",
    doc="Whether a map has the key.",
)
def map_contains_key(call: Call, m: pa.Array, key: pa.Array) -> pa.Array:
    """Whether a map has a key."""
    lists = explode(m)
    wanted, have = nested.ranks(key.take(pa.array(lists.rows)), lists.elements.field(0))
    found = any_per_row(lists, wanted == have)
    missing = np.asarray(key.is_null()) | (False if lists.valid is None else ~lists.valid)
    return pa.array(found, T.BOOLEAN, mask=missing)


def _from_arrays_rule(args: Sequence[Expr]) -> Typing:
    expect_count("map_from_arrays", args, 2)
    if not (pt.is_list(args[0].type) and pt.is_list(args[1].type)):
        raise TypeMismatchError("map_from_arrays takes an array of keys and one of values")
    return Typing([None, None], pa.map_(args[0].type.value_type, args[1].type.value_type))


@register(
    "map_from_arrays",
    rule=_from_arrays_rule,
    style="arrow",
    group=GROUP,
    usage="map_from_arrays(ks, vs)",
    doc="A map from an array of keys and one of values of the same length.",
    fails=True,
)
def map_from_arrays(call: Call, keys: pa.Array, items: pa.Array) -> Any:
    """A map from two arrays."""
    left, right = explode(keys), explode(items)
    valid = both_valid(left.valid, right.valid)
    uneven = left.lengths != right.lengths
    kept = ~uneven if valid is None else ~uneven & valid
    lengths = np.where(kept, left.lengths, 0)
    out = checked_map(
        call,
        lengths,
        left.elements.filter(pa.array(kept[left.rows])),
        right.elements.filter(pa.array(kept[right.rows])),
        valid,
    )
    message = f"`{call.text}`: there are not as many keys as values"
    return out._replace(failures=[(uneven, "_LEGACY_ERROR_TEMP_2128", message), *out.failures])


def _from_entries_rule(args: Sequence[Expr]) -> Typing:
    expect_count("map_from_entries", args, 1)
    kind = args[0].type
    if not (pt.is_list(kind) and pt.is_struct(kind.value_type) and kind.value_type.num_fields == 2):
        raise TypeMismatchError(f"map_from_entries takes an array of structs of two fields, not {T.type_name(kind)}")
    key, item = kind.value_type
    return Typing([None], pa.map_(key.type, item.type))


@register(
    "map_from_entries",
    rule=_from_entries_rule,
    style="arrow",
    group=GROUP,
    usage="map_from_entries(xs)",
    doc="A map from an array of structs of key and value.",
    fails=True,
)
def map_from_entries(call: Call, entries: pa.Array) -> Any:
    """A map from its entries."""
    lists = explode(entries)
    return checked_map(call, lists.lengths, lists.elements.field(0), lists.elements.field(1), lists.valid)
