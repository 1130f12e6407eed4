"""Reduce inside loops: the times of one round are the epochs of the step, which are a chain.

In round r the output at (e, r) must accumulate to f(I(e, r)), the function of the input at (e, r) and before. What
came out before is right wherever it lies, so the change at (e, r) is what is left of f(I) when its changes along every
coordinate are taken: with one loop

    f(I(e, r)) - f(I(e-, r)) - f(I(e, r-)) + f(I(e-, r-))

where e- and r- are the moments before. That is two runs of the kernels for totally ordered times, over the epochs: one
over the history of rounds <= r, and one, taken away, over that of rounds < r. Inside k loops there are 2^k of them, a
round being before another when it is in some coordinate. No outputs are kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from altneu.batch import Arranged, Layout, find_in
from altneu.hashing import Hashes, hash_rows
from altneu.operators.grouping import group_rows
from altneu.operators.groups import Groups, ReduceOutput, number_new
from altneu.operators.reduce import ReduceSpec, reduce
from altneu.rows import Ints, Rows
from altneu.update import Updates, consolidate

Mask = npt.NDArray[np.bool_]


def reduce_in_round(
    arranged: Arranged, rounds: tuple[int, ...], again: Updates, spec: ReduceSpec, operator: str
) -> ReduceOutput:
    """Bring the groups up to date, at one round, that have new updates or are to be looked at ``again``.

    Shape:  times are (epoch, rounds …); every new update and every time of ``again`` (rows of the key) is at
            ``rounds``; ``pended`` are the times, at later rounds, at which groups must be looked at again.
    Cost:   re-reads the touched groups' histories; 2^k runs over them inside k loops.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/oracle/test_loops.py).
    """
    width = arranged.layout.lattice.width
    history = _History.of(arranged, again)
    at = np.array(rounds, np.int64)[:, None]
    within = np.asarray((history.times[1:] <= at).all(axis=0))
    pended = history.later(~within, at)
    fresh = history.times[0] >= history.first[history.group]
    masks: list[Mask] = []
    signs: list[int] = []
    for strict in product((False, True), repeat=len(rounds)):
        lines = np.flatnonzero(strict)
        mask = np.asarray(within & (history.times[1 + lines] < at[lines]).all(axis=0))
        if (mask & fresh).any():
            masks.append(mask)
            signs.append(-1 if len(lines) % 2 else 1)
    if not masks:
        nothing = reduce(history.groups([within & ~fresh], fresh), spec, operator)
        return ReduceOutput(_widened(nothing.oks, width), _widened(nothing.errs, width), pended)
    epochs, line = np.unique(history.times[0, fresh], return_inverse=True)
    history.moment[fresh] = line * len(masks)
    made = reduce(history.groups(masks, fresh), spec, operator)

    def placed(updates: Updates) -> Updates:
        moment, run = np.divmod(updates.times[0], len(masks))
        times = np.concatenate([epochs[moment][None], np.repeat(at, len(updates), axis=1)])
        signed = Updates(updates.rows, times, updates.diffs * np.array(signs)[run])
        return consolidate(signed, arranged.layout.lattice)

    return ReduceOutput(placed(made.oks), placed(made.errs), pended)


def _widened(nothing: Updates, width: int) -> Updates:
    return replace(nothing, times=np.empty((width, 0), np.int64))


@dataclass
class _History:
    """Everything that the touched groups ever received, old updates before new ones.

    Shape:  ``keys`` K rows; n updates: ``group``, ``times`` (width, n), ``values`` n rows, ``hashes``, ``diffs``;
            ``first`` (K,) the least epoch of each group at which it may change; ``moment`` (n,) what kernels are given
            as times.
    """

    layout: Layout
    keys: Rows
    first: Ints
    group: Ints
    times: Ints
    values: Rows
    hashes: Hashes
    diffs: Ints
    moment: Ints

    @classmethod
    def of(cls, arranged: Arranged, again: Updates) -> _History:
        """Gather the groups of the new updates, and those to be looked at again."""
        layout, new = arranged.layout, arranged.new
        hashes, keys = new.distinct_keys()
        number = number_new(arranged)
        epochs = [b.times[0] for b in new.blocks]
        seeds = [number]
        if len(again):
            both = Rows.concat([keys, again.rows], layout.key_schema)
            which, some = group_rows(both, np.zeros((0, both.count), np.int64))
            number, keys = which[number], both.take(some)
            hashes = hash_rows(keys)
            seeds = [number, which[both.count - len(again) :]]
            epochs.append(again.times[0])
        first = np.full(keys.count, np.iinfo(np.int64).max)
        np.minimum.at(first, np.concatenate(seeds), np.concatenate(epochs))
        parts = [(number, new.updates_by_key())] if len(new) else []
        if any(len(batch) for batch in arranged.old):
            old = find_in(arranged.old, hashes, keys)
            parts.insert(0, (old.probe, (old.values, old.value_hash, old.times, old.diffs)))
        values, value_hash, times, diffs = zip(*(columns for _, columns in parts), strict=True)
        group = np.concatenate([g for g, _ in parts])
        return cls(
            layout,
            keys,
            first,
            group,
            np.concatenate(times, axis=1),
            Rows.concat(values, layout.value_schema),
            np.concatenate(value_hash),
            np.concatenate(diffs),
            np.zeros(len(group), np.int64),
        )

    def groups(self, masks: list[Mask], fresh: Mask) -> Groups:
        """The groups as the kernels take them, once for each mask: what is fresh is new, at its moment."""
        count = self.keys.count
        old = [np.flatnonzero(m & ~fresh) for m in masks]
        new = [np.flatnonzero(m & fresh) for m in masks]
        old_group = np.concatenate([self.group[part] + k * count for k, part in enumerate(old)])
        new_group = np.concatenate([self.group[part] + k * count for k, part in enumerate(new)])
        old_at, new_at = np.concatenate(old), np.concatenate(new)
        moments = np.concatenate([self.moment[part] + k for k, part in enumerate(new)])
        order, back = np.argsort(new_group, kind="stable"), np.argsort(old_group, kind="stable")
        new_at, old_at = new_at[order], old_at[back]
        starts = np.searchsorted(old_group[back], np.arange(count * len(masks) + 1))
        return Groups(
            self.layout,
            self.keys if len(masks) == 1 else self.keys.take(np.tile(np.arange(count), len(masks))),
            new_group[order],
            self.values.take(new_at),
            self.hashes[new_at],
            moments[order],
            self.diffs[new_at],
            starts,
            self.values.take(old_at),
            self.hashes[old_at],
            self.diffs[old_at],
        )

    def later(self, mask: Mask, at: Ints) -> Updates:
        """For updates of other rounds: the rounds at which they meet this one, each with its least epoch, a group."""
        group = self.group[mask]
        rounds = np.maximum(self.times[1:, mask], at)
        epoch = np.maximum(self.times[0, mask], self.first[group])
        order = np.lexsort((epoch, *rounds[::-1], group))
        lines = np.concatenate([group[None], rounds])[:, order]
        fresh = np.ones(len(order), np.bool_)
        fresh[1:] = (lines[:, 1:] != lines[:, :-1]).any(axis=0)
        chosen = order[fresh]
        times = np.concatenate([epoch[chosen][None], rounds[:, chosen]])
        return Updates(self.keys.take(group[chosen]), times, np.ones(len(chosen), np.int64))
