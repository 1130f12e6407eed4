"""Rows near fractions of the way through ordered groups: percentiles of them are those of the whole groups."""

from __future__ import annotations

import random

import numpy as np
import pytest

from altneu.operators.kernels import located, quantiles
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.operators.reduce.reducers import Aggregates
from altneu.trace.batch import find_in
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
