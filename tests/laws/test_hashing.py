"""Laws of hashing: pinned for ever, equal rows hash equal however they lie in memory, different ones hardly ever."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar.hashing import hash_bits, hash_rows, is_injective
from altneu.columnar.rows import Rows
from altneu.errors import TypeMismatchError
from tests.laws.histories import DOMAINS


def rows_of(*columns: pa.Array) -> Rows:
    schema = pa.schema([(f"c{i}", c.type) for i, c in enumerate(columns)])
    return Rows(schema, columns, len(columns[0]))


def hashes(*columns: pa.Array) -> list[str]:
    return [f"{h:016x}" for h in hash_rows(rows_of(*columns)).tolist()]


# Stored batches are sorted by these. A line that changes is a format that changes.
VECTORS: list[tuple[pa.DataType, list[Any], list[str]]] = [
    (
        pa.int64(),
        [0, 1, -1, 2**63 - 1, -(2**63), None],
        [
            "e220a8397b1dcdaf",
            "910a2dec89025cc1",
            "e4d971771b652c20",
            "2a67d7552e039ea7",
            "481ec0a212a9f3db",
            "6e756c6c5f726f77",
        ],
    ),
    (pa.int8(), [0, 1, -1, None], ["e220a8397b1dcdaf", "910a2dec89025cc1", "e4d971771b652c20", "6e756c6c5f726f77"]),
    (
        pa.float64(),
        [0.0, -0.0, 1.5, float("nan"), float("inf"), None],
        [
            "e220a8397b1dcdaf",
            "e220a8397b1dcdaf",
            "d6dab18e1392608a",
            "c72971d82e15bb46",
            "249e5410c2f97d99",
            "6e756c6c5f726f77",
        ],
    ),
    (pa.float32(), [1.5, float("nan")], ["d6dab18e1392608a", "c72971d82e15bb46"]),
    (pa.bool_(), [False, True, None], ["e220a8397b1dcdaf", "910a2dec89025cc1", "6e756c6c5f726f77"]),
    (pa.date32(), [0, 19000, -1], ["e220a8397b1dcdaf", "d27c8b8b04e647f1", "e4d971771b652c20"]),
    (pa.timestamp("us", "UTC"), [0, 1_700_000_000_000_000], ["e220a8397b1dcdaf", "b7b8b1fcbda40e0f"]),
    (pa.timestamp("us"), [1_700_000_000_000_000], ["b7b8b1fcbda40e0f"]),
    (
        pa.string(),
        ["", "a", "ä", "0123456789abcdef0123456789abcdefX", None],
        ["ef46db3751d8e999", "d24ec4f1a98c6e5b", "ad857d534a6ca359", "ce5a102349511ece", "6e756c6c5f726f77"],
    ),
    (pa.binary(), [b"", b"\0", b"a"], ["ef46db3751d8e999", "e934a84adb052768", "d24ec4f1a98c6e5b"]),
    (
        pa.decimal128(38, 2),
        [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), None],
        ["72a4cd5faa938132", "58a726d2da580912", "8822d7d5443c08b1", "6e756c6c5f726f77"],
    ),
    (
        pa.list_(pa.int64()),
        [[], [1], [1, 2], [None], None],
        ["e220a8397b1dcdaf", "8c3f8962cb45d735", "2decc998a016da0e", "f5727e6d0c75fa56", "6e756c6c5f726f77"],
    ),
    (
        pa.struct([("x", pa.int64()), ("z", pa.string())]),
        [{"x": 1, "z": "a"}, {"x": None, "z": None}, None],
        ["5c03953124d53ebf", "ee9dbc46dce1ed89", "6e756c6c5f726f77"],
    ),
    (
        pa.map_(pa.string(), pa.int64()),
        [[], [("k", 1)], None],
        ["e220a8397b1dcdaf", "ec87232b875c8471", "6e756c6c5f726f77"],
    ),
    (pa.null(), [None], ["6e756c6c5f726f77"]),
]


@pytest.mark.parametrize(("dtype", "values", "expected"), VECTORS, ids=[str(v[0]) for v in VECTORS])
def test_vectors(dtype: pa.DataType, values: list[Any], expected: list[str]) -> None:
    assert hashes(pa.array(values, dtype)) == expected


@pytest.mark.parametrize(
    ("text", "published"),
    [
        (b"", "ef46db3751d8e999"),
        (b"a", "d24ec4f1a98c6e5b"),
        (b"abc", "44bc2cf5ad770999"),
        (b"Nobody inspects the spammish repetition", "fbcea83c8a378bf1"),  # longer than a stripe of 32 bytes
    ],
)
def test_strings_hash_by_the_published_xxh64(text: bytes, published: str) -> None:
    assert hashes(pa.array([text])) == [published]
    assert hashes(pa.array([text.decode()])) == [published]


def test_columns_are_combined_in_order() -> None:
    one, two = pa.array([1, 2], pa.int64()), pa.array(["a", None])
    assert hashes(one, two) == ["9a861d62ccc07e92", "0636b8a1a0254882"]
    assert hashes(two, one) != hashes(one, two)
    rows = rows_of(one, two)
    assert hash_rows(rows, ["c1", "c0"]).tolist() == hash_rows(rows_of(two, one)).tolist()
    assert hash_rows(rows, ["c0"]).tolist() == hash_rows(rows_of(one)).tolist()


def test_rows_without_columns_share_one_hash() -> None:
    assert [hex(h) for h in hash_rows(Rows(pa.schema([]), (), 2)).tolist()] == ["0x656d7074795f726f"] * 2


@given(st.lists(st.one_of(st.none(), st.integers(-128, 127)), max_size=20))
def test_integers_of_every_width_hash_alike(values: list[int | None]) -> None:
    actual = [hashes(pa.array(values, dtype)) for dtype in (pa.int8(), pa.int16(), pa.int32(), pa.int64())]
    assert actual.count(actual[0]) == 4


@given(st.lists(st.floats(width=32)))
def test_floats_and_doubles_hash_alike(values: list[float]) -> None:
    assert hashes(pa.array(values, pa.float32())) == hashes(pa.array(values, pa.float64()))


def test_every_nan_is_one_and_minus_zero_is_zero_inside_lists_too() -> None:
    bits = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64)
    nans = pa.array(bits.view(np.float64))
    assert len(set(hashes(nans))) == 1
    assert hashes(pa.array([0.0])) == hashes(pa.array([-0.0]))
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3]), nans)
    assert len(set(hashes(lists))) == 1
    assert hashes(pa.array([[0.0]])) == hashes(pa.array([[-0.0]]))
    assert struct.pack("d", 0.0) != struct.pack("d", -0.0)


@given(st.data())
def test_hash_depends_on_values_and_not_on_their_place(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=3, unique=True))
    size = data.draw(st.integers(0, 12))
    columns = [
        pa.array(data.draw(st.lists(st.sampled_from(DOMAINS[n][1]), min_size=size, max_size=size)), DOMAINS[n][0])
        for n in names
    ]
    whole = hashes(*columns)
    start = data.draw(st.integers(0, size))
    stop = data.draw(st.integers(start, size))
    assert hashes(*(c.slice(start, stop - start) for c in columns)) == whole[start:stop]
    order = data.draw(st.permutations(range(size)))
    index = pa.array(order, pa.int64())
    assert hashes(*(c.take(index) for c in columns)) == [whole[i] for i in order]
    rebuilt = [pa.array(c.to_pylist(), c.type) for c in columns]
    assert hashes(*rebuilt) == whole


def test_different_values_hash_differently() -> None:
    for dtype, values in DOMAINS.values():
        actual = hashes(pa.array(values, dtype))
        assert len(set(actual)) == len(values), dtype
    numbers = pa.array(np.arange(-50_000, 50_000))
    assert len(set(hashes(numbers))) == 100_000
    assert len(set(hashes(numbers.cast(pa.string())))) == 100_000
    pairs = pa.array(np.arange(100_000) // 317), pa.array(np.arange(100_000) % 317)
    assert len(set(hashes(*pairs))) == 100_000


def test_where_a_list_ends_matters() -> None:
    lists = pa.array([[["a"], ["b"]], [["a", "b"]], [["a", "b"], []]], pa.list_(pa.list_(pa.string())))
    assert len(set(hashes(lists))) == 3


def test_single_words_are_injective_and_others_are_not() -> None:
    def one(dtype: pa.DataType) -> bool:
        return is_injective(pa.schema([("a", dtype)]))

    assert one(pa.int64())
    assert one(pa.timestamp("us", "UTC"))
    assert one(pa.bool_())
    assert not one(pa.string())
    assert not one(pa.decimal128(38, 0))
    assert not one(pa.list_(pa.int64()))
    assert is_injective(pa.schema([]))
    assert not is_injective(pa.schema([("a", pa.int64()), ("b", pa.int64())]))
    with hash_bits(2):
        assert not one(pa.int64())


def test_hash_bits_cuts_down_and_lets_go() -> None:
    numbers = pa.array(range(1000))
    before = hashes(numbers)
    with hash_bits(2):
        assert len(set(hashes(numbers))) == 4
        with hash_bits(0):
            assert set(hashes(numbers)) == {"0" * 16}
    assert hashes(numbers) == before


def test_a_type_that_rows_cannot_have_is_refused() -> None:
    with pytest.raises(TypeMismatchError, match=r"month_day_nano_interval cannot be arranged; cast the column"):
        hash_rows(rows_of(pa.array([(1, 2, 3)], pa.month_day_nano_interval())))


def test_decimals_hash_by_both_words() -> None:
    wide = [Decimal(1), Decimal(2**64 + 1), Decimal(2**65 + 1), Decimal(-1)]
    assert len(set(hashes(pa.array(wide, pa.decimal128(38, 0))))) == 4
