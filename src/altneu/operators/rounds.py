"""Reduce where times are not a chain: inside loops, and where collections have an event time of their own.

The first coordinate of a time is the epoch; along it the kernels for totally ordered times run. The others are *lines*:
a round for each loop, of which a step runs one at a time, and before them the event time, of which it has all at once.
On line l the output at (e, l) must accumulate to f(I(e, l)), the function of the input at (e, l) and before. What came
out before is right wherever it lies, so the change at (e, l) is what is left of f(I) when its changes along every
coordinate are taken: with one line coordinate

    f(I(e, l)) - f(I(e-, l)) - f(I(e, l-)) + f(I(e-, l-))

where e- and l- are the moments before. That is two runs along the epochs: one over the history of lines <= l, and one,
taken away, over that of lines < l. Inside k loops there are 2^k of them, a round being before another when it is so in
some coordinate. Of two neighbouring event times the run of the lesser one is taken away from the greater. No outputs
are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import numpy.typing as npt

from altneu.batch import Arranged, Layout, find_in
from altneu.hashing import Hashes, hash_rows
from altneu.operators.grouping import group_rows
from altneu.operators.groups import Groups, ReduceOutput, number_new
from altneu.operators.reduce import ReduceSpec, reduce
from altneu.order import outside
from altneu.rows import Ints, Rows
from altneu.update import Updates, consolidate

Mask = npt.NDArray[np.bool_]

MOST_ROWS = 1 << 22  # that the kernels are given at once; a group that has many lines is read again for each


def reduce_in_round(
    arranged: Arranged, rounds: tuple[int, ...], again: Updates, spec: ReduceSpec, operator: str
) -> ReduceOutput:
    """Bring the groups up to date, at one round, that have new updates or are to be looked at ``again``.

    Shape:  times are (epoch[, event], rounds …); every new update and every time of ``again`` (rows of the key) is at
            ``rounds``; ``pended`` are the times, at later rounds, at which groups must be looked at again.
    Cost:   re-reads the touched groups' histories, for each event time from the first that changes on; 2^k runs over
            them inside k loops.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/oracle/test_loops.py, tests/oracle/test_two_times.py).
    """
    lattice = arranged.layout.lattice
    history = _History.of(arranged, again)
    at = np.array(rounds, np.int64)[:, None]
    depth = len(rounds)
    inner = history.times[len(history.times) - depth :]
    within = np.asarray((inner <= at).all(axis=0))
    pended = history.later(~within, at)
    fresh = history.times[0] >= history.first[0, history.group]
    epochs = np.unique(history.times[0, fresh])
    made = [
        _placed(history, run, reduce(run.groups, spec, operator), epochs, at)
        for run in _runs(history, within, fresh, epochs, at)
    ]
    oks, errs = ([m[i] for m in made] for i in range(2))
    if not made:
        nothing = reduce(history.nothing(), spec, operator)
        oks, errs = [_widened(nothing.oks, lattice.width)], [_widened(nothing.errs, lattice.width)]
    width = lattice.width
    return ReduceOutput(
        consolidate(Updates.concat(oks, oks[0].schema, width), lattice),
        consolidate(Updates.concat(errs, errs[0].schema, width), lattice),
        pended,
    )


def _widened(nothing: Updates, width: int) -> Updates:
    return Updates(nothing.rows, np.empty((width, 0), np.int64), nothing.diffs)


@dataclass(frozen=True)
class _Run:
    """Groups for the kernels, each a group of the history on one line; a moment is an epoch's number times the lines.

    ``line`` (P,) of each of these groups is its line, ``sign`` the factor for what it makes.
    """

    groups: Groups
    line: Ints
    sign: Ints


def _runs(history: _History, within: Mask, fresh: Mask, epochs: Ints, at: Ints) -> Iterator[_Run]:
    depth = len(at)
    inner = history.times[len(history.times) - depth :]
    for strict in product((False, True), repeat=depth):
        chosen = np.flatnonzero(strict)
        mask = within & np.asarray((inner[chosen] < at[chosen]).all(axis=0))
        if not (mask & fresh).any():
            continue
        sign = -1 if len(chosen) % 2 else 1
        rows = np.flatnonzero(mask)
        starts, ends = history.lines_of(rows)
        first = 0
        while first < history.line_count:
            last = _reach(starts, ends, first, history.line_count)
            yield history.run(rows, starts, ends, fresh, epochs, (first, last), sign)
            first = last


def _reach(starts: Ints, ends: Ints, first: int, count: int) -> int:
    """How many lines from ``first`` on may be read at once; at least one."""
    total = int(np.maximum(ends - np.maximum(starts, first), 0).sum())
    if total <= MOST_ROWS:
        return count
    size = np.zeros(count + 1, np.int64)
    np.add.at(size, starts, 1)
    np.add.at(size, ends, -1)
    upto = np.cumsum(np.cumsum(size)[first:count])
    return first + max(1, int(np.searchsorted(upto, MOST_ROWS, side="right")))


def _placed(history: _History, run: _Run, made: ReduceOutput, epochs: Ints, at: Ints) -> tuple[Updates, Updates]:
    """What a run made, at its times: on its line, and taken away again on the next line of its group."""
    return _on_lines(history, run, made.oks, epochs, at), _on_lines(history, run, made.errs, epochs, at)


def _on_lines(history: _History, run: _Run, updates: Updates, epochs: Ints, at: Ints) -> Updates:
    epoch, which = np.divmod(updates.times[0], max(1, len(run.line)))
    line, diffs = run.line[which], updates.diffs * run.sign[which]
    rounds = np.repeat(at, len(updates), axis=1)
    if history.events is None:
        return Updates(updates.rows, np.concatenate([epochs[epoch][None], rounds]), diffs)
    event, following = history.events[line], history.following[line]
    some = np.flatnonzero(following >= 0)
    back = updates.rows.take(some)
    times = np.concatenate([epochs[epoch][None], event[None], rounds])
    later = np.concatenate([epochs[epoch[some]][None], history.events[following[some]][None], rounds[:, some]])
    both = [Updates(updates.rows, times, diffs), Updates(back, later, -diffs[some])]
    return Updates.concat(both, updates.schema, len(times))


@dataclass
class _History:
    """Everything that the touched groups ever received, old updates before new ones.

    Shape:  ``keys`` K rows; n updates: ``group``, ``times`` (width, n), ``values`` n rows, ``hashes``, ``diffs``;
            ``first`` (1 or 2, K) the least epoch, and event time, of each group at which it may change. Lines are
            numbered through the groups, group g has those from ``line_start[g]`` up to ``line_start[g + 1]``: one, or,
            where there are event times, one for each ``events`` from the first that may change on; ``following`` is the
            next line of the same group, -1 for the last.
    """

    layout: Layout
    keys: Rows
    first: Ints
    group: Ints
    times: Ints
    values: Rows
    hashes: Hashes
    diffs: Ints
    line_start: Ints
    events: Ints | None
    following: Ints

    @classmethod
    def of(cls, arranged: Arranged, again: Updates) -> _History:
        """Gather the groups of the new updates, and those to be looked at again."""
        layout, new = arranged.layout, arranged.new
        flat = outside(layout.lattice)[0].width
        hashes, keys = new.distinct_keys()
        number = number_new(arranged)
        seen = [b.times[:flat] for b in new.blocks]
        seeds = [number]
        if len(again):
            both = Rows.concat([keys, again.rows], layout.key_schema)
            which, some = group_rows(both, np.zeros((0, both.count), np.int64))
            number, keys = which[number], both.take(some)
            hashes = hash_rows(keys)
            seeds = [number, which[both.count - len(again) :]]
            seen.append(again.times[:flat])
        first = np.full((flat, keys.count), np.iinfo(np.int64).max)
        for line, times in zip(first, np.concatenate(seen, axis=1), strict=True):
            np.minimum.at(line, np.concatenate(seeds), times)
        parts = [(number, new.updates_by_key())] if len(new) else []
        if any(len(batch) for batch in arranged.old):
            old = find_in(arranged.old, hashes, keys)
            parts.insert(0, (old.probe, (old.values, old.value_hash, old.times, old.diffs)))
        values, value_hash, times, diffs = zip(*(columns for _, columns in parts), strict=True)
        group, together = np.concatenate([g for g, _ in parts]), np.concatenate(times, axis=1)
        return cls(
            layout,
            keys,
            first,
            group,
            together,
            Rows.concat(values, layout.value_schema),
            np.concatenate(value_hash),
            np.concatenate(diffs),
            *_lines(first, group, together),
        )

    @property
    def line_count(self) -> int:
        """How many lines there are."""
        return int(self.line_start[-1])

    def lines_of(self, rows: Ints) -> tuple[Ints, Ints]:
        """The lines that each of some updates counts on: from its own event time to the last of its group."""
        group = self.group[rows]
        ends = self.line_start[group + 1]
        if self.events is None:
            return self.line_start[group], ends
        found = np.concatenate([np.repeat(np.arange(self.keys.count), np.diff(self.line_start)), group])
        order = np.lexsort(
            (
                np.repeat([1, 0], [self.line_count, len(rows)]),
                np.concatenate([self.events, self.times[1, rows]]),
                found,
            )
        )
        place = np.empty(len(order), np.int64)
        before = np.cumsum(order < self.line_count)
        place[order] = before
        return place[self.line_count :], ends

    def run(
        self, rows: Ints, starts: Ints, ends: Ints, fresh: Mask, epochs: Ints, span: tuple[int, int], sign: int
    ) -> _Run:
        """Some lines as groups for the kernels: what is fresh is new to them, at its moment."""
        low, high = span
        begin, end = np.maximum(starts, low), np.minimum(ends, high)
        many = np.maximum(end - begin, 0)
        row = np.repeat(rows, many)
        offset = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
        group = np.repeat(begin, many) + offset - low
        new = fresh[row]
        moment = np.searchsorted(epochs, self.times[0, row[new]]) * (high - low) + group[new]
        order, back = np.argsort(group[new], kind="stable"), np.argsort(group[~new], kind="stable")
        new_at, old_at = row[new][order], row[~new][back]
        count = high - low
        owner = np.searchsorted(self.line_start, np.arange(low, high), side="right") - 1
        groups = Groups(
            self.layout,
            self.keys if self.events is None and count == self.keys.count else self.keys.take(owner),
            group[new][order],
            self.values.take(new_at),
            self.hashes[new_at],
            moment[order],
            self.diffs[new_at],
            np.searchsorted(group[~new][back], np.arange(count + 1)),
            self.values.take(old_at),
            self.hashes[old_at],
            self.diffs[old_at],
        )
        return _Run(groups, np.arange(low, high), np.full(count, sign, np.int64))

    def nothing(self) -> Groups:
        """No groups."""
        none = np.empty(0, np.int64)
        values, hashes = self.values.slice(0, 0), self.hashes[:0]
        keys = self.keys.slice(0, 0)
        return Groups(self.layout, keys, none, values, hashes, none, none, np.zeros(1, np.int64), values, hashes, none)

    def later(self, mask: Mask, at: Ints) -> Updates:
        """For updates of other rounds: the rounds at which they meet this one, each with its least times, a group."""
        group = self.group[mask]
        flat = len(self.first)
        rounds = np.maximum(self.times[flat:, mask], at)
        meet = np.maximum(self.times[:flat, mask], self.first[:, group])
        order = np.lexsort((*rounds[::-1], group))
        lines = np.concatenate([group[None], rounds])[:, order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (lines[:, 1:] != lines[:, :-1]).any(axis=0)
        starts = np.flatnonzero(fresh)
        least = np.minimum.reduceat(meet[:, order], starts, axis=1) if len(starts) else meet
        chosen = order[starts]
        times = np.concatenate([least, rounds[:, chosen]])
        return Updates(self.keys.take(group[chosen]), times, np.ones(len(chosen), np.int64))


def _lines(first: Ints, group: Ints, times: Ints) -> tuple[Ints, Ints | None, Ints]:
    """Where each group's lines start, their event times, and the line that follows each."""
    count = first.shape[1]
    if len(first) == 1:
        return np.arange(count + 1), None, np.full(count, -1, np.int64)
    event = np.maximum(times[1], first[1, group])  # what came before the first that may change is seen on its line
    order = np.lexsort((event, group))
    owner, events = group[order], event[order]
    fresh = np.ones(len(order), np.bool_)
    fresh[1:] = (owner[1:] != owner[:-1]) | (events[1:] != events[:-1])
    owner, events = owner[fresh], events[fresh]
    following = np.arange(1, len(owner) + 1)
    following[:-1][owner[1:] != owner[:-1]] = -1
    following[-1:] = -1
    return np.searchsorted(owner, np.arange(count + 1)), events, following
