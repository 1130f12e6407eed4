"""Rows near fractions of the way through ordered groups: percentiles of them are those of the whole groups."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest

from altneu.operators.kernels import located, quantiles
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.operators.reduce.reducers import Aggregates
from altneu.operators.reduce.seen import Seen
from altneu.order import Epoch
from altneu.trace.batch import Arranged, Layout, find_in
from tests.operators import ordered_groups
from tests.operators.ordered_groups import SCHEMA, as_counts, check_as_whole, read_for

ORDER = (("v", False, True),)
FRACTIONS = (0.0, 0.1, 0.5, 2 / 3, 1.0)


def percentiles(column, fractions, *, descending=False):
    type_ = SCHEMA.field(column).type
    return tuple(Aggregate("percentile_disc", (column,), type_, options=(f, descending)) for f in fractions)


@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("fractions", [(0.5,), (0.0, 1.0), FRACTIONS], ids=str)
@pytest.mark.parametrize("column", ["v", "s"])
def test_percentiles_of_what_is_read_are_those_of_the_groups(column, fractions, descending, below, monkeypatch):
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(quantiles, "_MORE", 0)
    rng = random.Random(f"{column}{fractions}{descending}{below}")
    calls = percentiles(column, fractions, descending=descending)
    spec, needed = GeneralSpec(("k",), calls, SCHEMA), Aggregates(calls).needed(SCHEMA, ("k",))
    order = ((column, False, True),)
    fewer = check_as_whole(order, lambda given: reduce_general(given, spec), needed, rng, steps=60, below=below)
    assert fewer > 5 or below


def seen_of(layout):
    """Only the key and ``v`` of an arrangement's rows."""
    return Seen(Layout(pa.schema([*SCHEMA][:2]), ("k",), Epoch(), layout.order), ("v",))


@pytest.mark.parametrize("fractions", [(0.5,), (0.0, 1.0), FRACTIONS], ids=str)
def test_one_row_of_each_word_is_enough_where_nothing_else_is_seen(fractions, monkeypatch):
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(quantiles, "_MORE", 0)
    calls, (layout, _) = percentiles("v", fractions), loaded(10)
    seen, needed = seen_of(layout), Aggregates(calls).needed(SCHEMA, ("k",))
    spec = GeneralSpec(("k",), calls, seen.layout.schema)

    def reduce(given):
        if isinstance(given, Arranged):
            return reduce_general(given, GeneralSpec(("k",), calls, SCHEMA))
        return reduce_general(seen.groups(given), spec)

    assert seen.called(needed).of_words
    rng = random.Random(f"words {fractions}")
    assert check_as_whole(ORDER, reduce, seen.called(needed), rng, steps=120, below=False) > 20


def test_of_rows_with_one_value_one_is_read_however_many_they_are():
    calls = percentiles("v", (0.25, 0.5))
    for change in ([((0, 7, "new"), 2, 1)], [((0, 7, "3"), 2, -1)], [((0, None, "x"), 2, 1), ((0, 8, "y"), 2, 1)]):
        counts = []
        for count in (2_000, 200_000):
            layout, spine = ordered_groups.loaded(
                count, ORDER, v=lambda part: np.where(part % 100 == 0, part, 7), s=lambda part: [*map(str, part)]
            )
            seen = seen_of(layout)
            needed = seen.called(Aggregates(calls).needed(SCHEMA, ("k",)))
            given, near = read_for(change, layout, spine, needed)
            spec = GeneralSpec(("k",), calls, seen.layout.schema)
            if count == 2_000:
                of_all = reduce_general(given, GeneralSpec(("k",), calls, SCHEMA))
                assert as_counts(reduce_general(seen.groups(near), spec).oks) == as_counts(of_all.oks)
            counts.append(len(near.old_diffs))
        assert counts[1] <= counts[0] < 20


def loaded(count, diff=1):
    """A group of so many rows, most of them several times."""
    return ordered_groups.loaded(count, ORDER, diffs=lambda part: np.where(part == 0, diff, 1 + part % 3))


@pytest.mark.parametrize("fractions", [(0.5,), FRACTIONS], ids=str)
def test_what_is_read_does_not_grow_with_the_group(fractions):
    calls = percentiles("v", fractions)
    spec, needed = GeneralSpec(("k",), calls, SCHEMA), Aggregates(calls).needed(SCHEMA, ("k",))
    for change in ([((0, -5, "new"), 2, 1)], [((0, 3, "x"), 2, -1)], [((0, None, "x"), 2, 1), ((0, 1700, "y"), 2, 1)]):
        few, many = (read_for(change, layout, spine, needed) for layout, spine in (loaded(2_000), loaded(200_000)))
        assert len(many[1].old_diffs) <= len(few[1].old_diffs) + len(fractions) + 1
        assert len(few[1].old_diffs) <= 16 * (len(fractions) + len(change))
        for given, near in (few, many):
            assert as_counts(reduce_general(near, spec).oks) == as_counts(reduce_general(given, spec).oks)


def test_counts_too_large_to_be_summed_are_read_with_their_group():
    layout, spine = loaded(2_000, diff=2**62)
    needed = Aggregates(percentiles("v", [0.5])).needed(SCHEMA, ("k",))
    given, near = read_for([((0, 5, "new"), 2, 1)], layout, spine, needed)
    assert len(near.old_diffs) == len(find_in(given.old, *given.new.distinct_keys())) == 2_000
