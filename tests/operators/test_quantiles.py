"""Rows near fractions of the way through ordered groups: percentiles of them are those of the whole groups."""

from __future__ import annotations

import random

import numpy as np
import pytest

from altneu.columnar.rows import Rows
from altneu.operators.kernels import quantiles
from altneu.operators.reduce.calls import Aggregate
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.ranked import GeneralSpec, reduce_general
from altneu.operators.reduce.reducers import Aggregates
from altneu.order import Antichain, Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates
from tests.operators.ordered_groups import SCHEMA, Group, as_counts, history, updates_of

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
    monkeypatch.setattr(quantiles, "_SMALL", 0)
    monkeypatch.setattr(quantiles, "_MORE", 0)
    rng = random.Random(f"{column}{fractions}{descending}{below}")
    calls = percentiles(column, fractions, descending=descending)
    spec, needed = GeneralSpec(("k",), calls, SCHEMA), Aggregates(calls, ordered=True).needed
    group, fewer = Group(((column, False, True),)), 0
    for made, upper in history(rng, 60, below):
        given, negative = group.step(made, upper)
        if not len(given.new):
            continue
        whole, near = reduce_general(given, spec), read_needed(given, needed, negative)
        of_near = reduce_general(near, spec)
        assert as_counts(of_near.oks) == as_counts(whole.oks)
        assert as_counts(of_near.errs) == as_counts(whole.errs)
        fewer += bool(given.old) and len(near.old_diffs) < len(find_in(given.old, *given.new.distinct_keys()))
    assert fewer > 5 or below


def loaded(count, diff=1):
    """A group of so many rows in two batches."""
    layout = Layout(SCHEMA, ("k",), Epoch(), ORDER)
    rng = np.random.default_rng(0)
    spine, values = Spine.empty(layout), rng.permutation(count)
    for time, part in enumerate((values[: count // 2], values[count // 2 :])):
        rows = Rows.from_pydict({"k": np.zeros(len(part), np.int64), "v": part, "s": ["x"] * len(part)}, SCHEMA)
        diffs = np.where(part == 0, diff, 1 + part % 3)
        batch = Batch.build(
            Updates(rows, np.full((1, len(part)), time), diffs), layout, Description.interval(Epoch(), time, time + 1)
        )
        spine = spine.insert(batch, since=Antichain.of(Epoch(), time), effort=0)
    return layout, spine


def read_at(spine, layout, change, needed):
    """The group as it is read for some new updates."""
    new = Batch.build(updates_of(change), layout, Description.interval(Epoch(), 2, 3))
    negative = Arranged(Layout(layout.key_schema, ("k",), Epoch()), (), Batch.empty(layout, new.description))
    given = Arranged(layout, spine.batches, new)
    return given, read_needed(given, needed, negative)


@pytest.mark.parametrize("fractions", [(0.5,), FRACTIONS], ids=str)
def test_what_is_read_does_not_grow_with_the_group(fractions):
    calls = percentiles("v", fractions)
    spec, needed = GeneralSpec(("k",), calls, SCHEMA), Aggregates(calls, ordered=True).needed
    for change in ([((0, -5, "new"), 2, 1)], [((0, 3, "x"), 2, -1)], [((0, None, "x"), 2, 1), ((0, 1700, "y"), 2, 1)]):
        few, many = (read_at(spine, layout, change, needed) for layout, spine in (loaded(2_000), loaded(200_000)))
        assert len(many[1].old_diffs) <= len(few[1].old_diffs) + len(fractions) + 1
        assert len(few[1].old_diffs) <= 16 * (len(fractions) + len(change))
        for given, near in (few, many):
            assert as_counts(reduce_general(near, spec).oks) == as_counts(reduce_general(given, spec).oks)


def test_counts_too_large_to_be_summed_are_read_with_their_group():
    layout, spine = loaded(2_000, diff=2**62)
    needed = Aggregates(percentiles("v", [0.5]), ordered=True).needed
    given, near = read_at(spine, layout, [((0, 5, "new"), 2, 1)], needed)
    assert len(near.old_diffs) == len(find_in(given.old, *given.new.distinct_keys())) == 2_000
