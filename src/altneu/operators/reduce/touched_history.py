"""The history of the groups that a step touches, with its times: what a reduce over any lattice reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from altneu.columnar.hashing import Hashes, hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import Groups, Picked, number_new
from altneu.operators.reduce.standing import FirstRows, Touched, first_rows
from altneu.order import AltNeu, Lattice, Rounds
from altneu.trace.batch import Arranged, Layout, find_in
from altneu.trace.update import Updates

Mask = npt.NDArray[np.bool_]


@lru_cache(maxsize=64)
def round_columns(lattice: Lattice) -> slice | list[int]:
    """Which columns of its times are rounds of loops."""
    if isinstance(lattice, Rounds):
        width = lattice.outer.width
        outer = np.arange(width)[round_columns(lattice.outer)]
        return [*outer.tolist(), *range(width, lattice.width)] if len(outer) else slice(width, lattice.width)
    if isinstance(lattice, AltNeu) and not lattice.is_total:
        return round_columns(lattice.inner)
    return slice(lattice.width, lattice.width)


@dataclass
class History:
    """What the touched groups ever received, or all that is needed of it, at one round ``at`` of the loops around.

    Shape:  ``keys`` K rows; n updates: ``group``, ``times`` (width, n), ``values`` n rows, ``hashes``, ``diffs``;
            the first ``arrived`` of them are older than this round. ``within`` says which are of ``at`` or of rounds
            before, ``known`` which earlier steps have dealt with. ``seeds`` are groups and times of what is new at
            ``at`` and of what is to be looked at again; ``first`` (width, K) is <= all seeds of a group. If it
            ``is_whole``, it has all that the groups ever received.

    In a loop what arrived in earlier rounds of this step is not known: its epochs tell it from what is. There the old
    history must be folded to epochs before this step. Elsewhere what is old is known, however far it is folded.
    """

    layout: Layout
    keys: Rows
    at: Ints
    seeds: tuple[Ints, Ints]
    first: Ints
    group: Ints
    times: Ints
    values: Rows
    hashes: Hashes
    diffs: Ints
    arrived: int
    is_whole: bool

    @cached_property
    def known(self) -> Mask:
        """Which updates earlier steps have dealt with."""
        if len(self.at):
            mask: Mask = self.times[0] < self.first[0, self.group]
            return mask
        return np.arange(len(self.group)) < self.arrived

    @cached_property
    def within(self) -> Mask:
        """Which updates are of ``at`` or of rounds before."""
        return np.asarray((self.times[round_columns(self.layout.lattice)] <= self.at).all(axis=0))

    @classmethod
    def of(
        cls, arranged: Arranged, rounds: tuple[int, ...], again: Updates, needed: FirstRows | None = None
    ) -> History:
        """Gather the groups of the new updates, and those to be looked at ``again``, or the rows that are needed."""
        layout, new = arranged.layout, arranged.new
        hashes, keys = new.distinct_keys()
        number = number_new(arranged)
        nothing = np.empty((layout.lattice.width, 0), np.int64)
        mine = (number, *new.updates_by_key()) if len(new) else None
        seeds = number, nothing if mine is None else np.ascontiguousarray(mine[3])
        if len(again):
            both = Rows.concat([keys, again.rows], layout.key_schema)
            hashes = np.concatenate([hashes, hash_rows(again.rows)])
            which, some = group_rows(both, np.zeros((0, both.count), np.int64), hashes)
            looked, number = which[both.count - len(again) :], which[number]
            keys, hashes = both.take(some), hashes[some]
            mine = None if mine is None else (number, *mine[1:])
            seeds = np.concatenate([number, looked]), np.concatenate([seeds[1], again.times], axis=1)
        first, at = _least_of(*seeds, keys.count), np.array(rounds, np.int64)[:, None]
        theirs, is_whole = None, True
        if any(batch.count for batch in arranged.old):
            if needed is None:
                old = find_in(arranged.old, hashes, keys)
            else:
                again_at = np.zeros(keys.count, np.bool_)
                again_at[seeds[0][len(new) :]] = True
                columns = round_columns(layout.lattice)
                touched = Touched(hashes, keys, number, at, first, again_at, columns)
                old, is_whole = first_rows(arranged, needed, touched)
            theirs = old.probe, old.values, old.value_hash, old.times, old.diffs
        arrived = 0 if theirs is None else len(theirs[0])
        group, values, words, times, diffs = _behind(theirs, mine, layout)
        value_hash = hash_rows(values) if layout.order else words
        return cls(layout, keys, at, seeds, first, group, times, values, value_hash, diffs, arrived, is_whole)

    def parts(self) -> Iterator[tuple[int, Ints]]:
        """The updates that a run over rounds <= ``at`` has, and for each set of loops those with lesser rounds there.

        With the sign that each run counts with; the updates by group. A run in which nothing is new changes nothing.
        """
        rounds = self.times[round_columns(self.layout.lattice)]
        for strict in product((False, True), repeat=len(self.at)):
            chosen = np.flatnonzero(strict)
            mask = self.within & np.asarray((rounds[chosen] < self.at[chosen]).all(axis=0))
            if (mask & ~self.known).any():
                rows = np.flatnonzero(mask)
                yield -1 if len(chosen) % 2 else 1, rows[np.argsort(self.group[rows], kind="stable")]

    def groups(self, owner: Ints, new: tuple[Ints, Ints, Ints], old: tuple[Ints, Ints]) -> Groups:
        """Groups for the kernels, those of ``owner``, and which updates each has.

        ``new`` are updates, their groups, ascending, and their moments; ``old`` updates by group, and where each group
        starts.
        """
        return _Chosen(self, owner, new, old)

    def later(self) -> Updates:
        """For updates of other rounds: the rounds at which they meet this one, each with its least times, a group."""
        lattice, mask = self.layout.lattice, ~self.within
        if not mask.any():
            return Updates.empty(self.keys.schema, lattice.width)
        group = self.group[mask]
        meet = lattice.join(self.times.compress(mask, axis=1), self.first.take(group, axis=1))
        order = np.lexsort((*meet[round_columns(lattice)][::-1], group))
        lines = np.concatenate([group[None], meet[round_columns(lattice)]]).take(order, axis=1)
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (lines[:, 1:] != lines[:, :-1]).any(axis=0)
        starts = np.flatnonzero(fresh)
        least = np.minimum.reduceat(meet.take(order, axis=1), starts, axis=1) if len(starts) else meet
        return Updates(self.keys.take(group[order[starts]]), least, np.ones(len(starts), np.int64))


_Columns: TypeAlias = tuple[Ints, Rows, Hashes, Ints, Ints]
"""Of some updates the groups, the values, their words, the times and the diffs."""


def _behind(old: _Columns | None, new: _Columns | None, layout: Layout) -> _Columns:
    """Old updates and behind them new ones, of which there may be none."""
    if old is None or new is None:
        some = new if old is None else old
        assert some is not None  # else there is no group
        return some[0], some[1], some[2], np.ascontiguousarray(some[3]), some[4]
    words, times = np.concatenate([old[2], new[2]]), np.concatenate([old[3], new[3]], axis=1)
    values = Rows.concat([old[1], new[1]], layout.value_schema)
    return np.concatenate([old[0], new[0]]), values, words, times, np.concatenate([old[4], new[4]])


class _Chosen(Groups):
    """Groups of some of a history's updates, whose rows are taken when they are read."""

    def __init__(self, history: History, owner: Ints, new: tuple[Ints, Ints, Ints], old: tuple[Ints, Ints]) -> None:
        attributes = {"_history": history, "_owner": owner, "_new": new[0], "_old": old[0]}
        attributes |= {"layout": history.layout, "new_group": new[1], "new_times": new[2], "old_start": old[1]}
        self.__dict__.update(attributes)

    def picked(self) -> Picked:
        """As of any groups; nothing is taken."""
        history: History = self.__dict__["_history"]
        return Picked(history.values, history.diffs, self.__dict__["_old"], self.__dict__["_new"])

    def keys_of(self, groups: Ints) -> Rows:
        """As of any groups; no other keys are taken."""
        keys: Rows = self.__dict__["_history"].keys
        return keys.take(self.__dict__["_owner"][groups])

    @cached_property
    def keys(self) -> Rows:
        """The key of each group."""
        return self.keys_of(np.arange(len(self)))

    @cached_property
    def new_values(self) -> Rows:
        """Of the new updates."""
        return self.picked().values.take(self.picked().new)

    @cached_property
    def old_values(self) -> Rows:
        """Of the old updates."""
        return self.picked().values.take(self.picked().old)

    @cached_property
    def new_hashes(self) -> Hashes:
        """Of the values of the new updates."""
        hashes: Hashes = self.__dict__["_history"].hashes
        return hashes[self.picked().new]

    @cached_property
    def old_hashes(self) -> Hashes:
        """Of the values of the old updates."""
        hashes: Hashes = self.__dict__["_history"].hashes
        return hashes[self.picked().old]

    @cached_property
    def new_diffs(self) -> Ints:
        """Of the new updates."""
        return self.picked().diffs[self.picked().new]

    @cached_property
    def old_diffs(self) -> Ints:
        """Of the old updates."""
        return self.picked().diffs[self.picked().old]


@compiled()
def _least_of(group: Ints, times: Ints, count: int) -> Ints:
    """The least of each coordinate of the times of each group."""
    result = np.full((len(times), count), np.iinfo(np.int64).max)
    for line in range(len(times)):
        for i in range(len(group)):
            result[line, group[i]] = min(result[line, group[i]], times[line, i])
    return result
