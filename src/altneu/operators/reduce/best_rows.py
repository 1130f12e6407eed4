"""The best rows of groups of which the best only improves: the others are not retained.

A function of the first row in an order makes the same of a group without a row, at all times at which a better one is
there. So a row is removed as of the join of its own times with that of a better row. Where rows are only added, this
leaves of each group the rows for which no better one came as early: over a total order one, once history is compacted,
and in a loop those that were the best by some round (docs/formalism.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from altneu.columnar.ranking import Order, Words, dense, order_text, order_words, whole_order
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.arrange.retention import EVERY_UPDATE
from altneu.operators.base import Here
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import with_old
from altneu.operators.node import Key
from altneu.order import Antichain, parted
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates

_MANY = 1024  # rows of a step
Orders = tuple[tuple[Order, ...], ...]


@dataclass(frozen=True)
class BestRows:
    """Of each group, whose best rows only improve, the rows that are the first in one of some ``orders`` at a time.

    Retractions of the input are passed over: ``plan.improving`` has proved that with each there comes a row that is as
    good. How often a row is there means nothing.
    """

    orders: Orders
    is_input = is_collection = needs_history = False

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """The rows that are added."""
        return [added(part) for part in parts]

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The rows that are not behind others, and the retractions of those that are overtaken."""
        together = Updates.concat(updates, layout.schema, layout.lattice.width)
        new = EVERY_UPDATE.batch(here, [may_be_first(together, layout.key, self.orders)], old, layout, since)
        return best_rows(Arranged(layout, old, new), self.orders) if len(new) else new

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """The updates of this round; a row that is removed in a later one has a better one there, for its readers."""
        if not rounds or not len(new):
            return new
        updates = new.updates()
        _, at = parted(new.layout.lattice, updates.times)
        now = (at == np.array(rounds)[:, None]).all(axis=0)
        return new if now.all() else Batch.build(updates.filter(now), new.layout, new.description)

    def shard_key(self, layout: Layout) -> Key:
        """The key."""
        return layout.key

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """All columns, of the first rows."""
        orders = " and by ".join(map(order_text, self.orders))
        return tuple(layout.schema.names), f", the first row of each key by {orders}"


def added(updates: Updates) -> Updates:
    """Without retractions."""
    return updates if (updates.diffs > 0).all() else updates.filter(updates.diffs > 0)


def may_be_first(updates: Updates, key: Key, orders: Orders) -> Updates:
    """Of many rows that are added those that may be the first of their key at their time, in one of some orders.

    Cost:   one look at each, which is less than sorting them.
    """
    if len(updates) < _MANY or not all(orders):
        return updates
    number, first = group_rows(updates.rows.select(key), updates.times)
    may_be = np.zeros(len(updates), np.bool_)
    for (name, descending, nulls_first), *_ in orders:
        words = order_words(updates.rows.column(name), descending=descending, nulls_first=nulls_first)
        may_be |= _are_least(number, words, len(first))
    return updates.filter(may_be)


def best_rows(arranged: Arranged, orders: Sequence[Sequence[Order]]) -> Batch:
    """The changes that added rows make to the best rows of each group.

    Shape:  an arrangement over a columnwise lattice in, whose ``new`` updates are rows that come, and whose ``old`` are
            what this function gave before; updates of the rows that are new and not behind another, and of those that
            are overtaken in all orders. Their times are joins with times of ``new``: in loops of later rounds too.
    Cost:   one lookup of the keys that have new rows, one sort of what these keep and of the new rows for each order.
            A key keeps the rows for which no better one came as early. No exchange, no state beside the arrangement.
    Law:    at every time the first row kept is the first of all rows that arrived up to that time, however the rows are
            divided into steps (tests/operators/test_best_rows.py).
    """
    layout, lattice = arranged.layout, arranged.layout.lattice
    keys, values, group, times, diffs, first_new = with_old(arranged)
    count = len(group)
    is_new, comes = np.arange(count) >= first_new, np.flatnonzero(diffs > 0)
    stays, newly, overtaken = np.zeros(count, np.bool_), np.zeros(count, np.bool_), diffs > 0
    until = times.copy()
    for order in orders:
        rank = dense([group, *whole_order(values, order)], count)
        position = comes[np.lexsort((*lattice.sort_keys(times[:, comes])[::-1], rank[comes]))]
        behind, by = _behind(position, group, rank, np.ascontiguousarray(times), is_new)
        stays |= ~behind
        newly |= (by >= 0) & is_new[by]
        overtaken &= by >= 0
        until = np.maximum(until, times[:, np.where(by >= 0, by, np.arange(count))])
    stays &= is_new
    mine = np.flatnonzero(stays & overtaken & ~newly)  # new ones, behind an old one from a later time on
    at = np.concatenate([np.arange(first_new), np.flatnonzero(stays), mine])
    when = np.concatenate([times[:, at[: len(at) - len(mine)]], until[:, mine]], axis=1)
    sign = np.concatenate([diffs[:first_new], np.ones(int(stays.sum()), np.int64), np.full(len(mine), -1)])
    number, _ = group_rows(values, group.reshape(1, -1))
    bound, is_bound = _first_of(number, np.flatnonzero(overtaken & newly), until, count)
    gone = np.flatnonzero(is_bound[number[at]])
    fresh = slice(first_new, len(at))
    row = np.concatenate([at[fresh], at[gone]])
    joined = np.maximum(when[:, gone], bound[:, number[at[gone]]])
    rows = layout.join(keys.take(group[row]), values.take(row))
    changes = Updates(
        rows, np.concatenate([when[:, fresh], joined], axis=1), np.concatenate([sign[fresh], -sign[gone]])
    )
    return Batch.build(changes, layout, arranged.new.description)


def _first_of(number: Ints, some: Ints, until: Ints, count: int) -> tuple[Ints, Any]:
    """For each numbered row, of which ``some`` updates are overtaken: from when on, and whether it is."""
    bound, is_bound = np.zeros((len(until), count), np.int64), np.zeros(count, np.bool_)
    reverse = some[::-1]  # the first counts
    bound[:, number[reverse]], is_bound[number[reverse]] = until[:, reverse], True
    return bound, is_bound


@compiled()
def _are_least(number: Ints, words: Words, count: int) -> Any:
    """Which rows have the least word of their group."""
    least = np.full(count, np.uint64(0xFFFFFFFFFFFFFFFF))
    for i in range(len(number)):
        least[number[i]] = min(least[number[i]], words[i])
    result = np.zeros(len(number), np.bool_)
    for i in range(len(number)):
        result[i] = words[i] == least[number[i]]
    return result


@compiled()
def _behind(position: Ints, group: Ints, rank: Ints, times: Ints, is_new: Any) -> tuple[Any, Ints]:
    """Which rows have a better or equal one at a lesser or equal time, and for each one that is better, or -1.

    Rows come by group, then the best first, then by time. ``frontier`` are those before in their group of which none
    has a time greater than another's. The better row is one of this step if there is any, and of those the earliest.
    """
    n = len(group)
    behind, by = np.zeros(n, np.bool_), np.full(n, -1, np.int64)
    frontier, size = np.empty(len(position), np.int64), 0
    for p in range(len(position)):
        i = position[p]
        if p == 0 or group[i] != group[position[p - 1]]:
            size = 0
        for f in range(size):
            j = frontier[f]
            behind[i] |= _is_before(times, j, i)
            if rank[j] != rank[i]:
                b = by[i]
                if b < 0 or (is_new[j] and not is_new[b]) or (is_new[j] == is_new[b] and times[0, j] < times[0, b]):
                    by[i] = j
        if behind[i]:
            continue
        kept = 0
        for f in range(size):
            if not _is_before(times, i, frontier[f]):
                frontier[kept] = frontier[f]
                kept += 1
        frontier[kept] = i
        size = kept + 1
    return behind, by


@compiled()
def _is_before(times: Ints, i: int, j: int) -> bool:
    """Whether a time is less than another or equal, in every column."""
    before = True
    for line in range(times.shape[0]):
        before &= times[line, i] <= times[line, j]
    return before
