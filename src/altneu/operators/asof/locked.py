"""As-of joins that lock in what a left row met: what was emitted is what its retraction takes back.

An arrangement by the whole left row keeps, for every copy of it that is there, when it came and what it met then. Its
rows are of four kinds: how many copies met something at a time, how many met nothing, each right row that they met
(counted once a copy), and how often the row was retracted while no copy was there. What comes in and waits for its time
is a fifth.

Without a right side nothing is met, and what is shown of a copy is when it came: that is ``update_time()``.

Copies go in the order in which they came: a retraction takes back what the earliest copy met. A row retracted while no
copy is there is an error, and the next copy that comes makes good for that: it meets nothing and nothing is kept of it.
Updates of a left row at one time are one update, their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.ranking import order_words
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import ERROR_SCHEMA, DiffOverflowError
from altneu.operators.asof.nearby import Points, between, windows
from altneu.operators.asof.nearest import first_at, lookups
from altneu.operators.asof.revising import Ranked, Side, kernel_sides, moments, words_of
from altneu.operators.asof.rule import AsOfRule
from altneu.operators.kernels.bitmap import empty_set
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import NEGATIVE_MULTIPLICITY, Groups, no_errors, touched
from altneu.operators.kernels.spans import show_row
from altneu.order import Antichain, Lattice, difference
from altneu.trace.batch import Arranged, Batch, Layout, find_in
from altneu.trace.update import Updates

ARRIVED, MATCHED, ALONE, MET, OWED = range(5)
_KIND, _AT = "#kind", "#at"
_LEAST = -(2**63)


@dataclass(frozen=True)
class LockSpec:
    """A locked as-of join of left rows with an arrangement of right ones.

    ``schemas`` and ``keys`` are those of both sides; ``outputs`` lists (name, side, column). With ``stamps`` and
    ``rule`` the nearest right row by these columns is met, else all rows of the key. With ``keeps`` a row that meets
    nothing has nulls. ``simultaneous`` says whether right changes of the left row's own time count. With ``times``
    there is no right side, and the outputs are the left row's columns and when it came.

    It is one class for two nodes, ``AsOf`` and ``UpdateTime``, and for two operations: the arrangement that retains
    what was met, and ``LockedOp`` above it. Unlike ``AsofSpec`` it has the keys of both sides: it looks matches up
    itself, and the state it writes is laid out by them.
    """

    schema: pa.Schema
    schemas: tuple[pa.Schema, pa.Schema]
    keys: tuple[tuple[str, ...], tuple[str, ...]]
    outputs: tuple[tuple[str, int, str], ...]
    keeps: bool
    stamps: tuple[str, str] | None
    rule: AsOfRule | None
    simultaneous: bool
    times: bool = False

    @property
    def met(self) -> tuple[str, ...]:
        """Right columns that are kept of a match."""
        return tuple(dict.fromkeys(column for _, side, column in self.outputs if side == 1))


def times_spec(schema: pa.Schema, timed: pa.Schema) -> LockSpec:
    """What keeps when rows of a schema came; ``timed`` has one column more, for that."""
    outputs = (*((n, 0, n) for n in schema.names), (timed.names[-1], 0, _AT))
    keys = tuple(schema.names), ()
    return LockSpec(timed, (schema, pa.schema([])), keys, outputs, True, None, None, True, times=True)


def locked_layout(spec: LockSpec, lattice: Lattice) -> Layout:
    """What is kept: left rows, when a copy came, of which kind the row is, and the right columns."""
    left, right = spec.schemas
    own = [pa.field(_AT, pa.int64(), nullable=False), pa.field(_KIND, pa.int8(), nullable=False)]
    theirs = [pa.field(f"#met.{n}", right.field(n).type) for n in spec.met]
    return Layout(pa.schema([*left, *own, *theirs]), tuple(left.names), lattice)


def arrivals(updates: Updates, layout: Layout, since: Antichain | None) -> Updates:
    """Left updates as rows of the layout; with ``since`` their history is folded up to there.

    A left side that is read back from an arrangement is folded as far as merging got by chance; what its rows meet must
    not depend on that.
    """
    count = len(updates)
    nothing = [pa.nulls(count, f.type) for f in list(layout.schema)[len(layout.key) + 2 :]]
    own = pa.array(np.zeros(count, np.int64)), pa.array(np.full(count, ARRIVED, np.int8))
    rows = Rows(layout.schema, (*updates.rows.columns, *own, *nothing), count)
    return Updates(rows, updates.times if since is None else since.advance(updates.times), updates.diffs)


def lock(memory: Arranged, right: Arranged | None, spec: LockSpec, since: Antichain | None) -> Batch:
    """The changes that left rows make to what is kept.

    Shape:  ``memory`` is the arrangement of ``locked_layout``, its ``new`` rows as ``arrivals`` makes them; no
            ``right`` where nothing is met. With ``since`` the sides were read back and folded up to there: right rows
            as of then were there before.
    Cost:   one lookup of the left rows that come or go, and one in the right side for each that comes: with a rule
            O(log n), without one as many rows as it meets. No exchange; state as above.
    Law:    at every time what is kept of the copies that are there is what each met when it came, whatever steps times
            are cut into (tests/oracle/test_locked.py).

    Raises:
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    layout = memory.layout
    if not len(memory.new):
        return memory.new
    groups = touched(memory)
    known_copies = _Copies.of(groups)
    changes, owed, entered, overflow = _settle(
        known_copies.start, known_copies.copies, known_copies.owed, groups.new_group, groups.new_diffs
    )
    if overflow:
        raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
    event, entry, copies = changes
    result = _Met.concat(
        known_copies.met(groups), _look_up(groups, entered, right, spec, since), len(known_copies.copies)
    )
    at = np.concatenate([known_copies.at, groups.new_times[entered]])
    alone = np.bincount(result.entry, minlength=len(at)) == 0
    matches, of = result.of(entry)
    diffs = difference.multiply(copies[of], result.count[matches])
    none = np.full(len(event), -1)
    owing, amount, sign = owed
    parts = [
        (event, at[entry], np.where(alone[entry], ALONE, MATCHED), none, copies),
        (event[of], at[entry][of], np.full(len(of), MET), result.row[matches], diffs),
        (owing, amount, np.full(len(owing), OWED), np.full(len(owing), -1), sign),
    ]
    event, at, kind, row, diffs = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    index = pa.array(row, mask=row < 0)
    values = (pa.array(at), pa.array(kind.astype(np.int8)), *(c.take(index) for c in result.rows.columns))
    keys = groups.keys.take(groups.new_group[event])
    rows = layout.join(keys, Rows(layout.value_schema, values, len(event)))
    return Batch.build(Updates(rows, groups.new_times[event].reshape(1, -1), diffs), layout, memory.new.description)


@dataclass(frozen=True)
class _Met:
    """Right rows that entries met: ``entry`` (n,) ascending, ``row`` (n,) in ``rows``, ``count`` (n,) for one copy."""

    entry: Ints
    row: Ints
    count: Ints
    rows: Rows

    @classmethod
    def concat(cls, one: _Met, other: _Met, first: int) -> _Met:
        """Both, the other's entries numbered from ``first`` on."""
        rows = Rows.concat([one.rows, other.rows], one.rows.schema)
        entry = np.concatenate([one.entry, other.entry + first])
        row = np.concatenate([one.row, other.row + one.rows.count])
        return cls(entry, row, np.concatenate([one.count, other.count]), rows)

    def of(self, entries: Ints) -> tuple[Ints, Ints]:
        """Positions of the matches of some entries, and which of the entries each is of."""
        start, stop = np.searchsorted(self.entry, entries), np.searchsorted(self.entry, entries, side="right")
        many = stop - start
        of = np.repeat(np.arange(len(entries)), many)
        return np.arange(len(of)) - np.repeat(np.cumsum(many) - many, many) + start[of], of


@dataclass(frozen=True)
class _Copies:
    """What was kept of the touched left rows: entries, one for each time at which copies came that are still there.

    Shape:  entries by (group, time): group g has those from ``start[g]`` up to ``start[g + 1]``, ``at`` and ``copies``
            of each; ``owed`` of each group; ``value`` (n,) the entry that each old row is a match of, -1 for others.
    """

    start: Ints
    at: Ints
    copies: Ints
    owed: Ints
    value: Ints

    @classmethod
    def of(cls, groups: Groups) -> _Copies:
        """Add up the old rows of the groups."""
        group = np.repeat(np.arange(len(groups)), np.diff(groups.old_start))
        kind = _ints(groups.old_values, _KIND)
        when = _ints(groups.old_values, _AT)
        owed = np.zeros(len(groups), np.int64)
        owing = kind == OWED
        np.add.at(owed, group[owing], when[owing] * groups.old_diffs[owing])
        copies = (kind == MATCHED) | (kind == ALONE)
        pairs = np.stack([group, when])
        some = np.flatnonzero(copies)
        order = some[np.lexsort((when[some], group[some]))]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (pairs[:, order[1:]] != pairs[:, order[:-1]]).any(axis=0)
        starts = np.flatnonzero(fresh)
        total = difference.sum_runs(groups.old_diffs[order], starts) if len(order) else np.empty(0, np.int64)
        first = order[starts]
        there = total != 0
        first, total = first[there], total[there]
        start = np.searchsorted(group[first], np.arange(len(groups) + 1))
        return cls(start, when[first], total, owed, _entry_of(start, when[first], group, when, kind))

    def met(self, groups: Groups) -> _Met:
        """The right rows that the entries met."""
        names = groups.old_values.schema.names[2:]
        rows = groups.old_values.select(names)
        some = np.flatnonzero(self.value >= 0)
        result = rows.take(some)
        number, first = group_rows(result, self.value[some].reshape(1, -1))
        total = np.zeros(len(first), np.int64)
        np.add.at(total, number, groups.old_diffs[some])
        entry = self.value[some][first]
        order = np.flatnonzero(total)[np.argsort(entry[total != 0], kind="stable")]
        return _Met(entry[order], first[order], total[order] // self.copies[entry[order]], result)


@compiled()
def _entry_of(start: Ints, at: Ints, group: Ints, when: Ints, kind: Ints) -> Ints:
    """The entry of each old row that is a match, -1 for other rows and for matches of copies that have gone."""
    result = np.full(len(group), -1, np.int64)
    for i in range(len(group)):
        if kind[i] == MET:
            stop = start[group[i] + 1]
            e = first_at(at, start[group[i]], stop, when[i])
            if e < stop and at[e] == when[i]:
                result[i] = e
    return result


@compiled()
def _settle(start: Ints, copies: Ints, owed: Ints, group: Ints, diffs: Ints) -> Any:
    """Let copies come and go: (event, entry, copies) of what changes, (event, owed, sign), and the events that came.

    Last, whether more was owed than 64 bits count. New entries are numbered behind the old ones, in the order of the
    events that they came with.
    """
    left = copies.copy()
    changes = np.empty((3, 2 * len(group) + len(copies)), np.int64)
    owing = np.empty((3, 2 * len(group)), np.int64)
    entered, fresh = np.empty(len(group), np.int64), np.empty(len(group), np.int64)
    count, owed_count, entries = 0, 0, 0
    at, stop, begin, current, debt = 0, 0, 0, -1, 0
    overflow = False
    for e in range(len(group)):
        if group[e] != current:
            current = group[e]
            at, stop, begin, debt = start[current], start[current + 1], entries, owed[current]
        before, amount = debt, diffs[e]
        if amount == _LEAST:  # which has no opposite
            overflow = True
            break
        if amount > 0:
            paid = min(amount, debt)
            debt -= paid
            if amount > paid:
                entered[entries], fresh[entries] = e, amount - paid
                changes[0, count], changes[1, count], changes[2, count] = e, len(copies) + entries, amount - paid
                entries += 1
                count += 1
        while amount < 0 and (at < stop or begin < entries):
            old = at < stop
            there = left[at] if old else fresh[begin]
            taken = min(there, -amount)
            amount += taken
            changes[0, count], changes[1, count], changes[2, count] = e, at if old else len(copies) + begin, -taken
            count += 1
            if old:
                left[at] -= taken
                at += 1 if left[at] == 0 else 0
            else:
                fresh[begin] -= taken
                begin += 1 if fresh[begin] == 0 else 0
        if amount < 0:
            debt -= amount
            overflow |= debt < 0
        if debt != before:
            if before:
                owing[0, owed_count], owing[1, owed_count], owing[2, owed_count] = e, before, -1
                owed_count += 1
            if debt:
                owing[0, owed_count], owing[1, owed_count], owing[2, owed_count] = e, debt, 1
                owed_count += 1
    return changes[:, :count].copy(), owing[:, :owed_count].copy(), entered[:entries].copy(), overflow


def _look_up(groups: Groups, entered: Ints, right: Arranged | None, spec: LockSpec, since: Antichain | None) -> _Met:
    """The right rows that new entries meet, each at its own time."""
    if right is None:
        none = np.empty(0, np.int64)
        return _Met(none, none, none, Rows.empty(pa.schema([])))
    left = groups.keys.take(groups.new_group[entered])
    times = groups.new_times[entered]
    if since is not None and not spec.simultaneous:  # what was there as of the fold was there before
        times = times + (times == since.least)
    result = _equal(left, times, right, spec) if spec.rule is None else _nearest(left, times, right, spec, spec.rule)
    names = [f"#met.{n}" for n in spec.met]
    fields = [
        right.layout.schema.field(n).with_name(m).with_nullable(True) for n, m in zip(spec.met, names, strict=True)
    ]
    columns = tuple(result.rows.column(n) for n in spec.met)
    return _Met(result.entry, result.row, result.count, Rows(pa.schema(fields), columns, result.rows.count))


def _equal(left: Rows, times: Ints, right: Arranged, spec: LockSpec) -> _Met:
    """All right rows of the key, with their counts at each time."""
    layout = right.layout
    keys = _as_key(left.select(spec.keys[0]), layout)
    hashes = hash_rows(keys)
    old, new = (find_in(batches, hashes, keys) for batches in (right.old or (right.new,), (right.new,)))
    seen = np.flatnonzero(new.times[0] <= times[new.probe] if spec.simultaneous else new.times[0] < times[new.probe])
    first = len(old) if right.old else 0
    values = Rows.concat([old.values.slice(0, first), new.values.take(seen)], layout.value_schema)
    probe = np.concatenate([old.probe[:first], new.probe[seen]])
    diffs = np.concatenate([old.diffs[:first], new.diffs[seen]])
    number, at = group_rows(values, probe.reshape(1, -1))
    order = np.argsort(number, kind="stable")
    count = difference.sum_runs(diffs[order], np.searchsorted(number[order], np.arange(len(at)))) if len(at) else diffs
    entry = probe[at]
    order = np.flatnonzero(count)[np.argsort(entry[count != 0], kind="stable")]
    rows = layout.join(keys.take(probe), values)
    return _Met(entry[order], at[order], count[order], rows)


def _nearest(left: Rows, times: Ints, right: Arranged, spec: LockSpec, rule: AsOfRule) -> _Met:
    """The one right row that is nearest at each time."""
    layout = right.layout
    assert spec.stamps is not None
    keys = _as_key(left.select(spec.keys[0]), layout)
    number, first = group_rows(keys, np.zeros((0, keys.count), np.int64))
    distinct = keys.take(first)
    words = order_words(left.column(spec.stamps[0]))
    points = Points(distinct, hash_rows(distinct), number, words, np.zeros(len(words), np.bool_))
    result = windows(points, right.old, right.new, exact=rule.exact)
    where = _window_of(number, words, result.spans.key, result.spans.high)
    old, new = (between(points, result.reach, batches, layout) for batches in (right.old, (right.new,)))
    group = np.concatenate([old.probe, new.probe])
    rows = Rows.concat([old.values, new.values], layout.value_schema)
    theirs = Side(rows, group, np.concatenate([old.diffs, new.diffs]), new.times[0])
    sides = Side(left, where, np.ones(len(where), np.int64), times), theirs
    count = len(result.moves)
    ranks = (
        Ranked.of(sides[0], spec.stamps[0], count, ties=None),
        Ranked.of(theirs, layout.order[0][0], count, ties=rule.ties),
    )
    when, events, _, order = moments(sides, ranks)
    there = empty_set(len(ranks[1].stamp))
    met, overflow = lookups(when, *kernel_sides(sides, ranks), events, there, words_of(rule), spec.simultaneous)
    if overflow:
        raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
    place = np.empty(len(order), np.int64)
    place[order] = met
    place = place[: len(where)]
    entry = np.flatnonzero(place >= 0)
    whole = layout.join(distinct.take(result.spans.key[group]), rows)
    return _Met(entry, ranks[1].row[place[entry]], np.ones(len(entry), np.int64), whole)


def _window_of(key: Ints, word: Any, keys: Ints, high: Any) -> Ints:
    """The window of each point: of those of its key, which are in order, the first that ends at or behind it."""
    many = len(keys)
    is_window = np.arange(many + len(key)) < many
    order = np.lexsort((is_window, np.concatenate([high, word]), np.concatenate([keys, key])))
    result = np.empty(len(order), np.int64)
    result[order] = np.cumsum(is_window[order])
    return result[many:]


def _as_key(rows: Rows, layout: Layout) -> Rows:
    return Rows(layout.key_schema, rows.columns, rows.count)


def locked_rows(changes: Batch, spec: LockSpec, operator: str) -> tuple[Updates, Updates]:
    """Changes of what is kept as (rows, errors)."""
    updates = changes.updates()
    kind = _ints(updates.rows, _KIND)
    shown = (kind == MET) | ((kind == ALONE) & spec.keeps)
    result = updates.filter(shown)
    names = {(0, n): n for n in (*spec.schemas[0].names, _AT)} | {(1, n): f"#met.{n}" for n in spec.met}
    columns = tuple(result.rows.column(names[side, column]) for _, side, column in spec.outputs)
    rows = result.with_rows(Rows(spec.schema, columns, len(result)))
    owed = updates.filter(kind == OWED)
    if not len(owed):
        return rows, no_errors(len(updates.times))
    left, side = owed.rows.select(spec.schemas[0].names), "" if spec.times else "left "
    texts: dict[str, Sequence[object]] = {
        "operator": [operator] * len(owed),
        "code": [NEGATIVE_MULTIPLICITY] * len(owed),
        "message": [f"a {side}row was retracted while none was there; the next one that comes makes good for it"]
        * len(owed),
        "row": [show_row(left.schema.names, row) for row in left.to_pylist()],
    }
    return rows, owed.with_rows(Rows.from_pydict(texts, ERROR_SCHEMA))


def _ints(rows: Rows, name: str) -> Ints:
    return np.asarray(rows.column(name).to_numpy(zero_copy_only=False), np.int64)
