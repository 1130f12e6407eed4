"""Groups in order of which few rows are read, where times are no chain: in loops, and with two times.

A row *stands* at some times of a step as often as it is sure to be there at each of them: what earlier steps left of
it at all of these times, less all that is taken away of it at any of them. Rows of which at least k units stand at the
front of a group leave no room among the first k for those behind them, whatever else happens to any row.

A round looks at the times of its own round and, where something is new at an earlier one, of the round before. A group
must be looked at again at the later rounds of the rows that were read, one after the other, and at no others: until
then no row that is read comes or goes, so the same units stand. Inside several loops two rounds may meet at a third, at
which only rows change that neither has read; there a group is read whole once it has been looked at in a step
(docs/formalism.md, "The first rows of a group").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from altneu.columnar.columns import Mask
from altneu.columnar.hashing import Hashes
from altneu.columnar.rows import Ints, Rows
from altneu.operators.kernels.dead_rows import DeadRows
from altneu.operators.kernels.ends import Units, ends_of
from altneu.operators.kernels.located import NewRows, OldRows, Ranked, start_of
from altneu.operators.reduce.node import Ends
from altneu.trace.batch import Arranged, Matches

_COUNTED = 1 << 32  # units of an update that count; all that are taken away do
_ALL_TOUCHED = 4  # a group is read whole if this step has touched one of so many of its updates, or more


@dataclass(frozen=True)
class FirstRows:
    """The first rows of groups in an order, which a function needs.

    Shape:  ``negative`` has the number of rows of each key whose count is below zero, arranged by the key.
    """

    ends: Ends
    negative: Arranged


@dataclass(frozen=True)
class Touched:
    """The groups that a round of a step computes.

    Shape:  ``keys`` K rows with their ``hashes``; of the new updates the ``number`` of each one's key; ``at`` (k, 1) is
            the round in the k loops around, and ``first`` (width, K) is <= all times at which a group has something
            new at this round, or is to be looked ``again`` at (K,). ``rounds`` are the coordinates that are rounds.
    """

    hashes: Hashes
    keys: Rows
    number: Ints
    at: Ints
    first: Ints
    again: Mask
    rounds: slice | list[int]


def first_rows(arranged: Arranged, needed: FirstRows, touched: Touched) -> tuple[Matches, bool]:
    """The old updates of some groups, by key, that decide what is made of their first rows; whether that is all.

    Cost:   O((k + d) log n) rows for d updates of this step, k needed, and the rows before these that do not stand:
            those of later rounds and event times, and those that come and go.
    Law:    a function of the first and last rows makes the same of it as of the whole groups
            (tests/operators/test_ends_at_partial_times.py).
    """
    old = OldRows.of(arranged, needed.negative, touched.hashes, touched.keys)
    dead, is_whole = DeadRows.of(arranged), bool(old.whole_up_to().all())
    result = old.all() if is_whole else _read(arranged, needed, touched, old, dead)
    if dead.gaps:
        words = arranged.new.updates_by_key()[1] if len(arranged.new) else np.empty(0, np.uint64)
        dead.close(arranged, touched.keys, touched.number, words)
    return result, is_whole


def _read(arranged: Arranged, needed: FirstRows, touched: Touched, old: OldRows, dead: DeadRows) -> Matches:
    """The same of groups that are not all read whole; what is ``dead`` of them is passed over, and noted."""
    new = _new_rows(arranged, touched)
    start, nobody = start_of(arranged), np.zeros(touched.keys.count, np.bool_)
    runs = old.in_step() if len(touched.at) else old.located.hits[:0]
    if not len(runs) and len(touched.at) < 2:
        return ends_of(needed.ends, new, old, _Standing(touched, new, nobody, start), dead)
    many = np.bincount(runs[:, 0], runs[:, 3] - runs[:, 2], minlength=len(nobody))
    old = old.and_whole(_ALL_TOUCHED * many >= np.maximum(old.size, 1))
    if len(touched.at) > 1:
        old = old.and_whole(touched.again | (many > 0))
    recent = old.read(runs[~old.whole[runs[:, 0]]])
    is_new = recent.times[0] >= touched.first[0, recent.probe]
    earlier = nobody.copy()
    earlier[recent.probe[is_new & (recent.times[touched.rounds] < touched.at).all(axis=0)]] = True
    new = _with(new, recent, arranged)
    return ends_of(needed.ends, new, old, _Standing(touched, new, earlier, start), dead)


def _new_rows(arranged: Arranged, touched: Touched) -> NewRows:
    """What is new at this round; of groups that are looked at again it may be nothing."""
    nothing = Rows.empty(arranged.layout.value_schema), np.empty(0, np.uint64), None, np.empty(0, np.int64)
    values, words, _, diffs = arranged.new.updates_by_key() if len(arranged.new) else nothing
    order = np.argsort(touched.number, kind="stable")
    by_key = touched.number[order], values.take(order), words[order], diffs[order]
    return NewRows(touched.hashes, touched.keys, *by_key)


def _with(new: NewRows, recent: Matches, arranged: Arranged) -> NewRows:
    """What is new of some keys with what earlier rounds of the step have made: those rows, too, are read."""
    number = np.concatenate([new.number, recent.probe])
    order = np.argsort(number, kind="stable")
    return replace(
        new,
        number=number[order],
        values=Rows.concat([new.values, recent.values], arranged.layout.value_schema).take(order),
        words=np.concatenate([new.words, recent.value_hash])[order],
        diffs=np.concatenate([new.diffs, np.zeros(len(recent), np.int64)])[order],
    )


def _cancel(rank: Ints, times: Ints, diffs: Ints, count: int) -> Mask:
    """Of which ranks the updates cancel at each of some coordinates of their times."""
    order = np.lexsort((*times, rank))
    lines = np.concatenate([rank[None], times]).take(order, axis=1)
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (lines[:, 1:] != lines[:, :-1]).any(axis=0)
    starts = np.flatnonzero(fresh)
    left = np.add.reduceat(diffs[order], starts) if len(starts) else diffs[:0]
    result = np.ones(count, np.bool_)
    result[lines[0, starts[left != 0]]] = False
    return result


@dataclass(frozen=True)
class _Standing:
    """How many units stand at a round, and at the round before in groups of which something ``earlier`` is new."""

    touched: Touched
    new: NewRows
    earlier: Mask
    start: int

    @property
    def _outer(self) -> Ints:
        """Which coordinates of times are not rounds."""
        outer = np.ones(len(self.touched.first), np.bool_)
        outer[self.touched.rounds] = False
        return np.flatnonzero(outer)

    @property
    def events(self) -> Ints | None:
        """The first of each key's new event times."""
        return self.touched.first[self._outer[1]] if len(self._outer) > 1 else None

    def dead(self, ranked: Ranked) -> tuple[Mask, Ints]:
        """Those whose updates cancel in every round and were there before the step.

        At each event time, too; else from the last of their event times on.
        """
        old, outer, count = ranked.old, self._outer, len(ranked.owner)
        alive = np.bincount(ranked.rank, old.times[0] >= self.start, minlength=count) > 0
        always = ~alive & _cancel(ranked.rank, old.times[1:], old.diffs, count)
        events = np.zeros(count, np.int64)
        if len(outer) < 2:  # there are no event times
            return always, events
        np.maximum.at(events, ranked.rank, old.times[outer[1]])
        events[always] = 0
        return ~alive & _cancel(ranked.rank, old.times[self.touched.rounds], old.diffs, count), events

    def units(self, ranked: Ranked) -> Sequence[tuple[Units, Mask]]:
        """Of each rank, for each of these rounds."""
        touched, old, count = self.touched, ranked.old, len(ranked.owner)
        rounds, outer = old.times[touched.rounds], self._outer
        first = touched.first.take(old.probe, axis=1)
        stands = (old.times[outer] <= first[outer]).all(axis=0)
        if len(touched.at):  # what came in earlier rounds of this step does not stand
            stands &= old.times[0] < first[0]
        gained = np.where(stands, np.minimum(old.diffs, _COUNTED), np.minimum(old.diffs, 0))
        gained[(rounds > touched.at).any(axis=0)] = 0
        ranks = np.concatenate([ranked.rank, ranked.ranks[len(old) :]])
        lost = np.minimum(self.new.diffs, 0)
        everyone = np.ones(1, np.bool_)
        result = [(np.bincount(ranks, np.concatenate([gained, lost]), minlength=count), everyone)]
        if self.earlier.any():
            gained[(rounds >= touched.at).any(axis=0)] = 0
            result.append((np.bincount(ranked.rank, gained, minlength=count), self.earlier))
        return result
