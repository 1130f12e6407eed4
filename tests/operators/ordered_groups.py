"""Histories of groups whose rows lie in an order, kernel by kernel."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.kernels import located
from altneu.operators.kernels.below_zero import below_zero
from altneu.operators.kernels.in_order import GroupsInOrder, in_order
from altneu.operators.reduce.needed import read_needed
from altneu.order import Antichain, Epoch
from altneu.plan.ir import Source
from altneu.trace import batch as batches
from altneu.trace.batch import Arranged, Batch, Description, Layout, find_in
from altneu.trace.spine import Spine
from altneu.trace.update import Updates, consolidate

SCHEMA = pa.schema([("k", pa.int64()), ("v", pa.int64()), ("s", pa.string())])
BELOW = Source("t", SCHEMA)
ORDERS = [
    (("v", False, True),),
    (("v", True, False),),
    (("s", True, True), ("v", False, False)),
    (("s", False, False),),
]


def updates_of(listed):
    rows = Rows.from_pylist([row for row, _, _ in listed], SCHEMA)
    times, diffs = (np.array([u[i] for u in listed], np.int64) for i in (1, 2))
    return Updates(rows, times.reshape(1, -1), diffs)


def as_counts(updates):
    actual = Counter()
    result = consolidate(updates, Epoch())
    for row, time, diff in zip(result.rows.to_pylist(), result.times[0].tolist(), result.diffs.tolist(), strict=True):
        actual[row, time] += diff
    return {what: diff for what, diff in actual.items() if diff}


def packed(batch):
    """A batch in fewer bytes, however small it is."""
    with patch.object(batches, "PACKED_ROWS", 1):
        return batch.packed()


class Values:
    """The distinct values that an order has in groups, arranged in it."""

    def __init__(self, order):
        names = ["k", *(name for name, _, _ in order if name != "k")]
        self.at = [SCHEMA.get_field_index(name) for name in names]
        self.layout = Layout(pa.schema([SCHEMA.field(name) for name in names]), ("k",), Epoch(), order)
        self.spine = Spine.empty(self.layout)
        self.rows, self.there = Counter(), Counter()

    def step(self, listed, description):
        """What is new of them; a row of which there are less than none is none."""
        made = []
        for time in sorted({time for _, time, _ in listed}):
            for row, at, diff in listed:
                if at == time:
                    was = self.rows[row] > 0
                    self.rows[row] += diff
                    value = tuple(row[i] for i in self.at)
                    before = self.there[value] > 0
                    self.there[value] += (self.rows[row] > 0) - was
                    if before != (self.there[value] > 0):
                        made.append((value, time, 1 - 2 * before))
        rows = Rows.from_pylist([value for value, _, _ in made], self.layout.schema)
        times, diffs = (np.array([u[i] for u in made], np.int64) for i in (1, 2))
        new = Batch.build(Updates(rows, times.reshape(1, -1), diffs), self.layout, description)
        given = Arranged(self.layout, self.spine.batches, new)
        self.spine = self.spine.insert(packed(new), since=Antichain.of(Epoch(), max(description.upper.least - 2, 0)))
        return given


class Group:
    """An arrangement in an order, with the number of its rows below zero beside it."""

    def __init__(self, order):
        self.layout = Layout(SCHEMA, ("k",), Epoch(), order)
        self.spine = Spine.empty(self.layout)
        self.negative_layout = Layout(self.layout.key_schema, ("k",), Epoch())
        self.negative = Spine.empty(self.negative_layout)
        self.values = Values(order)
        self.distinct = None
        self.upper = 0

    def step(self, listed, upper):
        """One step: the arrangement with what is new, and that of the numbers of rows below zero."""
        description = Description.interval(Epoch(), self.upper, upper)
        new = Batch.build(updates_of(listed), self.layout, description)
        given = Arranged(self.layout, self.spine.batches, new)
        change = below_zero(given, self.negative.batches)
        negative = Batch.build(change, self.negative_layout, description)
        both = Arranged(self.negative_layout, self.negative.batches, negative)
        self.distinct = self.values.step(listed, description)
        self.spine = self.spine.insert(packed(new), since=Antichain.of(Epoch(), max(upper - 2, 0)))
        self.negative = self.negative.insert(negative, since=Antichain.of(Epoch(), max(upper - 2, 0)))
        self.upper = upper
        return given, both


def history(rng, steps, below):
    """Updates of one step after the other; rows come, go, count several times and, where ``below``, below zero."""
    there = Counter()
    time = 0
    for _ in range(steps):
        upper = time + rng.choice([1, 1, 3])
        result = []
        nulls = rng.random() < 0.3  # at times all that comes in has no value
        for _ in range(rng.choice([1, 2, 2, 30])):
            v, text = rng.choice([None, -(2**63), *range(30)]), rng.choice([None, "a", "b", "long enough to tie"])
            row = (rng.randrange(2), None if nulls else v, text)
            standing = [r for r, n in there.items() if n > 0]
            if standing and rng.random() < 0.3:
                row = min(standing, key=repr) if rng.random() < 0.5 else rng.choice(sorted(standing, key=repr))
                at = rng.randrange(time, upper) if below else upper - 1
                result.append((row, at, -rng.randint(1, there[row])))
            elif below and rng.random() < 0.1:
                result.append((row, rng.randrange(time, upper), -2))
            else:
                result.append((row, rng.randrange(time, upper), rng.randint(1, 2)))
            there[row] += result[-1][2]
        yield result, upper
        time = upper


def check_as_whole(order, reduce, needed, rng, *, steps, below):
    """What is made of the rows that are needed is what is made of the whole groups; at how many steps these are fewer.

    ``reduce`` takes what a kernel takes.
    """
    group, fewer = Group(order), 0
    for made, upper in history(rng, steps, below):
        given, negative = group.step(made, upper)
        if not len(given.new):
            continue
        found = read_needed(given, needed, negative, group.distinct)
        check_order(found)
        whole, of_found = reduce(given), reduce(found)
        assert as_counts(of_found.oks) == as_counts(whole.oks)
        assert as_counts(of_found.errs) == as_counts(whole.errs)
        fewer += bool(given.old) and len(found.old_diffs) < len(find_in(given.old, *given.new.distinct_keys()))
    return fewer


def check_order(groups):
    """The ranks of rows that were read are those of a sort of them, however they came to be known."""
    if not isinstance(groups, GroupsInOrder):
        return
    rows, diffs, old, new = groups.picked()
    group = np.concatenate([groups.old_group, groups.new_group])
    rank, first = groups.in_order
    wanted = in_order(rows.built(), group, groups.layout.order)
    assert rank.tolist() == wanted.rank.tolist()
    assert rank[first].tolist() == list(range(len(first)))
    assert rows.take(old).to_pylist() == groups.old_values.to_pylist()
    assert rows.take(new).to_pylist() == groups.new_values.to_pylist()
    assert diffs.tolist() == [*groups.old_diffs.tolist(), *groups.new_diffs.tolist()]


def _ones(part):
    return np.ones(len(part), np.int64)


def loaded(count, order, *, v=lambda part: part, s=lambda part: ["x"] * len(part), diffs=_ones):
    """A group of so many rows in two batches: columns and diffs are made of the numbers from 0 on."""
    layout = Layout(SCHEMA, ("k",), Epoch(), order)
    spine, values = Spine.empty(layout), np.random.default_rng(0).permutation(count)
    for time, part in enumerate((values[: count // 2], values[count // 2 :])):
        rows = Rows.from_pydict({"k": np.zeros(len(part), np.int64), "v": v(part), "s": s(part)}, SCHEMA)
        new = Updates(rows, np.full((1, len(part)), time), diffs(part))
        batch = Batch.build(new, layout, Description.interval(Epoch(), time, time + 1))
        spine = spine.insert(batch.packed(), since=Antichain.of(Epoch(), time), effort=0)
    return layout, spine


def read_for(change, layout, spine, needed):
    """A loaded group with some new updates, and as it is read for them."""
    new = Batch.build(updates_of(change), layout, Description.interval(Epoch(), 2, 3))
    negative = Arranged(Layout(layout.key_schema, ("k",), Epoch()), (), Batch.empty(layout, new.description))
    given = Arranged(layout, spine.batches, new)
    distinct = None
    if getattr(needed, "peers", False):
        rows = [(row, 0, 1) for batch in spine.batches for row in batch.updates().rows.to_pylist()]
        distinct = Values(layout.order)
        for part in (rows, change):
            arranged = distinct.step(part, Description.interval(Epoch(), 2 * (part is change), 2 + (part is change)))
        distinct = arranged
    return given, read_needed(given, needed, negative, distinct)


def count_rows_read(monkeypatch):
    """A list with a number, to which the old updates that are read from now on are added; more may be appended."""
    read, found = [0], located.matches_of

    def counted(*parts, **how):
        made = found(*parts, **how)
        read[-1] += len(made)
        return made

    monkeypatch.setattr(located, "matches_of", counted)
    return read
