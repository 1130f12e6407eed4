"""The ends of ordered groups: what a function of the first rows makes of them is what it makes of the whole groups."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

from altneu.columnar.ranking import order_text
from altneu.operators.kernels import ends, located
from altneu.operators.reduce.calls import Aggregate, FirstRows, Frame, WindowCall
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.node import Ends
from altneu.operators.reduce.python_reduce import PythonSpec, reduce_python
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.operators.reduce.reducers import WindowFunctions
from altneu.operators.reduce.top_k import TopKSpec, reduce_top_k
from altneu.operators.reduce.window import WindowSpec, reduce_window
from tests.lane import seeds
from tests.operators.ordered_groups import (
    BELOW,
    ORDERS,
    SCHEMA,
    Group,
    as_counts,
    check_as_whole,
    count_rows_read,
    history,
    loaded,
    read_for,
)


@pytest.fixture
def small(monkeypatch):
    """Little is read at first, and of small groups too."""
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(located, "_TIED", 0)
    monkeypatch.setattr(located, "_READ_FOR", 0)
    monkeypatch.setattr(ends, "_MORE", 2)
    monkeypatch.setattr(ends, "LEAST", 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
@pytest.mark.usefixtures("small")
def test_the_first_rows_of_the_ends_are_those_of_the_groups(order, k, below):
    rng, spec = random.Random(f"{order}{k}{below}"), TopKSpec(("k",), k, order, SCHEMA)
    fewer = check_as_whole(order, lambda given: reduce_top_k(given, spec), Ends(first=k), rng, steps=60, below=below)
    assert fewer > 5 or below


@pytest.mark.sampled(2)
@pytest.mark.parametrize("functions", [["min"], ["max"], ["min", "max"]], ids="-".join)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("column", ["v", "s"])
@pytest.mark.usefixtures("small")
def test_extremes_of_the_ends_are_those_of_the_groups(column, below, functions):
    rng = random.Random(f"{column}{below}{functions}")
    calls = tuple(Aggregate(function, (column,), SCHEMA.field(column).type) for function in functions)
    spec = GeneralSpec(("k",), calls, SCHEMA)
    some = Ends(first=int("min" in functions), last=1, valued=True, either=functions == ["min"])
    order = ((column, False, True),)
    fewer = check_as_whole(order, lambda given: reduce_general(given, spec), some, rng, steps=60, below=below)
    assert fewer > 5 or below


def numbering(function, order, **how):
    return WindowCall(Aggregate(function, (), pa.int32()), order, **how)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("function", ["rank", "dense_rank", "row_number"])
@pytest.mark.parametrize("order", [*ORDERS, (("s", True, True),)], ids=order_text)
@pytest.mark.usefixtures("small")
def test_first_ranks_of_the_ends_are_those_of_the_groups(order, function, k, below):
    """With functions of what is before a row, and of its peers; a sum leaves its range on rows behind, too."""
    rng, first = random.Random(f"{order}{function}{k}{below}"), FirstRows(numbering(function, order), k)
    calls = (
        WindowCall(Aggregate("sum", ("v",), pa.int64()), order, Frame(False, None, 0)),
        WindowCall(Aggregate("lag", ("s",), pa.string()), order, number=2),
        numbering("row_number", order),
    )
    for some in (calls, calls[1:], ()):
        reducer = WindowFunctions(some, first=first).with_order(BELOW, ("k",))
        assert reducer.state_order(SCHEMA, ("k",)) == order
        spec = WindowSpec(("k",), some, SCHEMA, first)
        needed = reducer.needed(SCHEMA, ("k",))
        fewer = check_as_whole(order, lambda given, s=spec: reduce_window(given, s), needed, rng, steps=50, below=below)
        assert fewer > 3 or below or (order[0][0] == "s" and len(order) == 1)  # many are equal


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("order", ORDERS, ids=order_text)
@pytest.mark.usefixtures("small")
def test_what_a_function_makes_of_the_first_rows_is_that_of_the_groups(order, k, below):
    def listed(key, rows):
        assert rows
        yield (repr([(*row, n) for row, n in rows]),)

    rng, result = random.Random(f"{order}{k}{below}"), pa.schema([("rows", pa.string())])
    spec = PythonSpec(("k",), listed, result, SCHEMA, first=(k, order))
    fewer = check_as_whole(order, lambda given: reduce_python(given, spec), Ends(first=k), rng, steps=60, below=below)
    assert fewer > 5 or below


@pytest.mark.parametrize("k", [1, 10])
def test_what_is_read_does_not_grow_with_the_group(k, monkeypatch):
    read = count_rows_read(monkeypatch)
    groups = [loaded(count, (("v", False, True),)) for count in (2_000, 200_000)]
    for change in ([((0, -5, "new"), 2, 1)], [((0, 3, "x"), 2, -1)], [((0, 700, "x"), 2, -1), ((0, 700, "y"), 2, 1)]):
        ties = Ends(first=k, with_ties=True), Ends(first=k, with_ties=True, distinct=True)
        for some in (Ends(first=k), Ends(first=1, last=1, valued=True), *ties):
            for group in groups:
                read.append(0)
                read_for(change, *group, some)
            few, many = read[-2:]
            assert many <= few <= 4 * (k + 2 * len(change)) + 8


@pytest.mark.parametrize("k", [1, 10])
def test_a_step_that_only_adds_rows_reads_as_many_however_many_it_adds(k, monkeypatch):
    read = count_rows_read(monkeypatch)
    group = loaded(20_000, (("v", False, True),))
    for some in (Ends(first=k), Ends(first=k, last=k, valued=True), Ends(first=k, with_ties=True)):
        for many in (1, 300):
            read.append(0)
            read_for([((0, 7 * i, "new"), 2, 1) for i in range(many)], *group, some)
        assert 0 < read[-1] <= read[-2] <= 8 * some.rows + 8


def test_rows_below_zero_and_rows_at_the_ends_are_looked_up_together(monkeypatch):
    looked_up, find = [], located.chains_of
    monkeypatch.setattr(located, "chains_of", lambda *given: looked_up.append(len(given[2].columns)) or find(*given))
    group = Group((("v", False, True),))
    group.step([((0, v, "x"), 0, 1) for v in range(100)], 1)
    given, negative = group.step([((0, 3, "x"), 1, -1)], 2)
    read_needed(given, Ends(first=1), negative)
    assert looked_up == [1]


def test_a_queue_costs_the_same_however_much_was_taken_from_it(monkeypatch):
    """Each step takes the first row away; the updates that cancel lie in different batches for long."""
    gathered = count_rows_read(monkeypatch)
    group, count, steps = Group((("v", False, True),)), 20_000, 1_000
    group.step([((0, v, "x"), 0, 1) for v in range(count)], 1)
    spec = TopKSpec(("k",), 1, group.layout.order, SCHEMA)
    for v in range(steps):
        given, negative = group.step([((0, v, "x"), v + 1, -1)], v + 2)
        gathered.append(0)
        made = as_counts(reduce_top_k(read_needed(given, Ends(first=1), negative), spec).oks)
        assert made == {((0, v, "x"), v + 1): -1, ((0, v + 1, "x"), v + 1): 1}
    quarter = steps // 4
    assert sum(gathered[-quarter:]) <= 1.5 * sum(gathered[1 : 1 + quarter])
    assert sum(gathered) < 100 * steps


@pytest.mark.parametrize("seed", seeds(4, 2))
def test_rows_below_zero_are_counted(seed):
    rng = random.Random(seed)
    group, everything = Group(ORDERS[seed % len(ORDERS)]), []
    for made, upper in history(rng, 40, below=True):
        group.step(made, upper)
        everything += made
        for time in range(upper - 2, upper):
            counts = Counter()
            for row, at, diff in everything:
                counts[row] += diff * (at <= time)
            expected = Counter(row[0] for row, n in counts.items() if n < 0)
            got = Counter()
            for batch in group.negative.batches:
                for (row, at), diff in as_counts(batch.updates()).items():
                    got[row[0]] += diff * (at <= time)
            assert {k: n for k, n in got.items() if n} == dict(expected)
