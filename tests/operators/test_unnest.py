"""unnest: elements of arrays and entries of maps, nulls and emptiness, slices."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from altneu import types as T
from altneu.operators.linear.expansion import Expansion
from altneu.operators.linear.unnest import unnest

LISTS = T.list_type(T.LONG)
TEXTS = pa.map_(T.STRING, T.list_type(T.STRING))


def rows(made: Expansion, begin: int = 0, end: int = 1_000) -> list[tuple[Any, ...]]:
    parents, columns = made.rows(begin, end)
    assert all(len(c) == len(parents) for c in columns)
    return list(zip(parents.tolist(), *(c.to_pylist() for c in columns), strict=True))


def test_elements_come_in_order_and_nothing_makes_no_row():
    lists = pa.array([[3, None, 1], None, [], [3]], LISTS)
    assert rows(unnest(lists)) == [(0, 3), (0, None), (0, 1), (3, 3)]
    assert rows(unnest(lists, ordinality=True)) == [(0, 3, 1), (0, None, 2), (0, 1, 3), (3, 3, 1)]


def test_outer_keeps_rows_without_elements():
    lists = pa.array([None, [None], []], LISTS)
    result = unnest(lists, ordinality=True, outer=True)
    assert result.counts.tolist() == [1, 1, 1]
    assert rows(result) == [(0, None, None), (1, None, 1), (2, None, None)]


def test_a_map_makes_keys_and_values():
    maps = pa.array([[("a", ["x"]), ("b", None)], None, [], [("c", [])]], TEXTS)
    assert rows(unnest(maps)) == [(0, "a", ["x"]), (0, "b", None), (3, "c", [])]
    assert rows(unnest(maps, ordinality=True, outer=True)) == [
        (0, "a", ["x"], 1),
        (0, "b", None, 2),
        (1, None, None, None),
        (2, None, None, None),
        (3, "c", [], 1),
    ]


def test_elements_may_be_of_any_type():
    struct = pa.struct([("a", T.LONG), ("b", LISTS)])
    values = [[{"a": 1, "b": [1]}, None, {"a": None, "b": None}], [{"a": 2, "b": []}]]
    result = unnest(pa.array(values, T.list_type(struct)).slice(1))
    assert rows(result) == [(0, {"a": 2, "b": []})]
    assert result.rows(0, 1)[1][0].type == struct
    assert rows(unnest(pa.array([[[1], None], []], T.list_type(LISTS)))) == [(0, [1]), (0, None)]
    assert rows(unnest(pa.array([[None, None]], T.list_type(T.NULL)))) == [(0, None), (0, None)]
    assert rows(unnest(pa.array([[[("k", 1)]], None], T.list_type(pa.map_(T.STRING, T.LONG))))) == [(0, [("k", 1)])]


def test_what_a_null_covers_is_not_there():
    covered = pa.Array.from_buffers(
        LISTS,
        2,
        [pa.py_buffer(b"\x02"), pa.py_buffer(pa.array([0, 2, 3], pa.int32()).buffers()[1])],
        children=[pa.array([1, 2, 3])],
    )
    assert covered.to_pylist() == [None, [3]]
    assert rows(unnest(covered)) == [(1, 3)]
    assert rows(unnest(covered, outer=True)) == [(0, None), (1, 3)]


@pytest.mark.parametrize("kind", [LISTS, TEXTS])
def test_no_rows_make_no_rows(kind):
    for made in (unnest(pa.array([], kind), ordinality=True), unnest(pa.array([None], kind), ordinality=True)):
        parents, columns = made.rows(0, 5)
        assert len(parents) == 0
        assert [len(c) for c in columns] == [0] * len(columns)


numbers = st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(-3, 3)), max_size=4))
entries = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from("abc"), st.one_of(st.none(), st.lists(st.sampled_from("xy"))), max_size=3),
)


@given(
    st.one_of(
        st.lists(numbers, max_size=8).map(lambda v: (LISTS, v)), st.lists(entries, max_size=8).map(lambda v: (TEXTS, v))
    ),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
    st.lists(st.integers(0, 30), max_size=4),
)
@example((LISTS, [None, [], None]), True, True, 1, [1])
def test_slices_of_slices_are_those_of_a_loop(case, ordinality, outer, offset, cuts):
    kind, values = case
    array = pa.array([None if v is None else list(v.items()) if isinstance(v, dict) else v for v in values], kind)
    result = unnest(array.slice(offset), ordinality=ordinality, outer=outer)
    expected: list[tuple[Any, ...]] = []
    for row, value in enumerate(values[offset:]):
        items = list(value.items()) if isinstance(value, dict) else [(v,) for v in value or ()]
        if not items and outer:
            expected.append((row, *([None] * (1 + (kind == TEXTS) + ordinality))))
        expected += [(row, *item, *([k] if ordinality else [])) for k, item in enumerate(items, 1)]
    assert result.counts.tolist() == [sum(r[0] == row for r in expected) for row in range(len(values[offset:]))]
    points = sorted({0, result.total, *(c for c in cuts if c <= result.total)})
    assert [r for a, b in pairwise(points) for r in rows(result, a, b)] == expected
