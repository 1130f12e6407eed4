"""Laws of the one form of values: however a value is written, it ends in the same bits, and is still that value."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar.canonical import canonical, canonical_rows, repeated_keys, varies
from altneu.columnar.columns import encode
from altneu.columnar.rows import Rows

ODD_NAN = struct.unpack("d", struct.pack("Q", 0xFFF8_0000_0000_0001))[0]
LEAVES = {
    pa.int64(): st.integers(-3, 3),
    pa.string(): st.text("ab", max_size=2),
    pa.bool_(): st.booleans(),
    pa.float64(): st.sampled_from([0.0, -0.0, 1.5, math.nan, ODD_NAN, math.inf]),
    pa.float32(): st.sampled_from([0.0, -0.0, 1.5]),
}
KEYS = {
    **{t: LEAVES[t] for t in (pa.int64(), pa.string(), pa.bool_())},
    pa.float64(): st.sampled_from([0.0, -1.5, 2.0]),
}
FLAT_KEYS = st.sampled_from(list(KEYS))
KEY_TYPES = st.one_of(
    FLAT_KEYS, FLAT_KEYS.map(pa.list_), FLAT_KEYS.map(lambda t: pa.struct([("x", t), ("y", pa.int64())]))
)
TYPES = st.recursive(
    st.sampled_from(list(LEAVES)),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.tuples(inner, inner).map(lambda p: pa.struct(list(zip("xy", p, strict=True)))),
        st.tuples(KEY_TYPES, inner).map(lambda p: pa.map_(*p)),
    ),
    max_leaves=5,
)


def values_of(kind: pa.DataType, *, key: bool = False) -> st.SearchStrategy[Any]:
    if pa.types.is_map(kind):
        keys, items = values_of(kind.key_type, key=True), values_of(kind.item_type)
        result = st.lists(st.tuples(keys, items), max_size=3, unique_by=lambda entry: repr(entry[0]))
    elif pa.types.is_list(kind):
        result = st.lists(values_of(kind.value_type, key=key), max_size=3)
    elif pa.types.is_struct(kind):
        result = st.fixed_dictionaries({f.name: values_of(f.type, key=key) for f in kind})
    else:
        result = KEYS[kind] if key else LEAVES[kind]
    return result if key else st.one_of(result, result, st.none())


def rewritten(value: Any, kind: pa.DataType, rng: Any) -> Any:
    """The same value, written in another way."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        entries = [(rewritten(k, kind.key_type, rng), rewritten(v, kind.item_type, rng)) for k, v in value]
        rng.shuffle(entries)
        return entries
    if pa.types.is_list(kind):
        return [rewritten(v, kind.value_type, rng) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: rewritten(value[f.name], f.type, rng) for f in kind}
    if isinstance(value, float) and (value == 0 or math.isnan(value)):
        return rng.choice([0.0, -0.0] if value == 0 else [math.nan, ODD_NAN])
    return value


def meaning(value: Any, kind: pa.DataType) -> Any:
    """A value without anything that its form may change."""
    if value is None:
        return None
    if pa.types.is_map(kind):
        return frozenset((meaning(k, kind.key_type), meaning(v, kind.item_type)) for k, v in value)
    if pa.types.is_list(kind):
        return tuple(meaning(v, kind.value_type) for v in value)
    if pa.types.is_struct(kind):
        return tuple(meaning(value[f.name], f.type) for f in kind)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def bits(column: pa.Array) -> list[bytes]:
    return encode(Rows(pa.schema([("x", column.type)]), (column,), len(column)))


@given(st.data(), st.randoms(use_true_random=False))
def test_a_value_has_one_form(data, rng):
    kind = data.draw(TYPES)
    given_values = data.draw(st.lists(values_of(kind), min_size=1, max_size=4))
    column = pa.array(given_values, kind)
    other = pa.array([None, *(rewritten(v, kind, rng) for v in given_values)], kind)
    one = canonical(column)
    assert bits(one) == bits(canonical(other.slice(1))) == bits(canonical(other)[1:])
    assert [meaning(v, kind) for v in one.to_pylist()] == [meaning(v, kind) for v in given_values]
    assert one.type == kind
    assert canonical(one) is one, "what is in its form is not moved"
    assert not repeated_keys(one).any()
    assert varies(kind) or one is column


KIND = pa.map_(pa.string(), pa.int64())
TWICE = [("a", 1), ("b", 2), ("a", 3)]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (KIND, [None, [("a", 1)], TWICE]),
        (pa.list_(KIND), [[], [[("a", 1)], [("b", 1)]], [[], TWICE]]),
        (pa.struct([("n", pa.int64()), ("m", KIND)]), [None, {"n": 1, "m": []}, {"n": 2, "m": TWICE}]),
        (pa.map_(pa.int64(), KIND), [[(1, []), (2, [])], [], [(1, TWICE)]]),
        (pa.map_(pa.float64(), pa.int64()), [[], [(0.0, 1)], [(-0.0, 1), (1.0, 2), (0.0, 3)]]),
        (pa.map_(pa.float64(), pa.int64()), [[], [(0.0, 1)], [(math.nan, 1), (1.0, 2), (ODD_NAN, 3)]]),
        (pa.map_(pa.list_(pa.int64()), pa.int64()), [[], [([1], 1), ([2], 1)], [([1], 1), ([], 2), ([1], 1)]]),
    ],
    ids=lambda kind: str(kind)[:40],
)
def test_a_key_that_comes_twice_is_found(kind, values):
    column = canonical(pa.array(values, kind))
    assert repeated_keys(column).tolist() == [False, False, True]
    assert repeated_keys(column.slice(2)).tolist() == [True]
    with pytest.raises(pa.ArrowInvalid, match="'x' has a key twice"):
        canonical_rows(Rows(pa.schema([("x", kind)]), (column,), 3))


def test_what_lies_under_a_null_is_nothing():
    entries = pa.MapArray.from_arrays(
        pa.array([0, 2, 3]), ["a", "a", "b"], pa.array([1, 2, 3]), mask=pa.array([True, False])
    )
    assert repeated_keys(canonical(entries)).tolist() == [False, False]
    assert np.array_equal(canonical(entries).is_null(), [True, False])
