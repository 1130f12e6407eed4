"""How what reduces read is retained: the numbers of rows below zero in loops, and groups that are added up."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from altneu.columnar.canonical import canonical_rows
from altneu.columnar.rows import Rows, record_type
from altneu.operators.arrange.retention import EVERY_UPDATE, EveryUpdate
from altneu.operators.base import Here
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import with_old
from altneu.operators.node import Key
from altneu.operators.reduce.python_reduce import PythonSpec, call_function
from altneu.order import Antichain, parted, placed
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates


@dataclass(frozen=True)
class WithoutRounds:
    """All updates, as of the first round: what one round has added and another takes away then cancels.

    For collections that mean the same in all rounds.
    """

    is_input = is_collection = needs_history = False

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """As they are."""
        return parts

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The updates at the first round, sorted and consolidated."""
        together = Updates.concat(updates, layout.schema, layout.lattice.width)
        outer, rounds = parted(layout.lattice, together.times)
        at_first = Updates(together.rows, placed(layout.lattice, outer, np.zeros_like(rounds)), together.diffs)
        return EVERY_UPDATE.batch(here, [at_first], old, layout, since)

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """All of it."""
        return new

    def shard_key(self, layout: Layout) -> Key:
        """The key."""
        return layout.key

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """All columns."""
        return EVERY_UPDATE.described(layout)


@dataclass(frozen=True)
class AddedUp(EveryUpdate):
    """Of each group the sum in the place of its rows, for a function that adds up elements of an abelian group."""

    spec: PythonSpec

    is_input = is_collection = False

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The sums, and the retractions of the rows that they are of."""
        new = super().batch(here, updates, old, layout, since)
        return added_up(Arranged(layout, old, new), self.spec) if len(new) else new

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """All columns, of sums."""
        return tuple(layout.schema.names), ", added up for each key"


def added_up(arranged: Arranged, spec: PythonSpec) -> Batch:
    """Changes of groups as changes of their sums.

    Shape:  an arrangement whose ``new`` updates are rows of groups, and whose ``old`` are what this function gave
            before; the new batch. At each time at which a group changes, the sum of its rows as of then takes the place
            of those rows that came at no other rounds and event times. Rows that cannot be added up stay.
    Cost:   the rows that groups with new rows have: one for each of their rounds and event times once history is
            compacted, before that two for each batch. A call for each group and time. No state beside the arrangement.
    Law:    at every time the rows of a group have the sum of all rows that arrived up to then, however they are divided
            into steps (tests/oracle/test_weights.py).
    """
    layout, new = arranged.layout, arranged.new
    keys, values, group, times, diffs, first_new = with_old(arranged)
    number, first = group_rows(values, group.reshape(1, -1))
    sums = _Sums(spec, keys, values.take(first))
    moments = list(zip(group.tolist(), map(tuple, times[1:].T.tolist()), times[0].tolist(), strict=True))
    for i in range(first_new):
        sums.held[moments[i][:2]][int(number[i])] += int(diffs[i])
    changes: dict[tuple[int, tuple[int, ...], int], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for i in range(first_new, len(moments)):
        changes[moments[i]][int(number[i])] += int(diffs[i])
    for moment in sorted(changes):
        sums.change(moment, changes[moment])
    at = np.array([row for _, row, _ in sums.changed], np.int64)
    when = np.array([[time, *rest] for (_, rest, time), _, _ in sums.changed], np.int64).reshape(-1, len(times)).T
    rows = layout.join(keys.take(np.array([g for (g, _, _), _, _ in sums.changed], np.int64)), sums.rows().take(at))
    amounts = np.array([amount for _, _, amount in sums.changed], np.int64)
    return Batch.build(Updates(rows, np.ascontiguousarray(when), amounts), layout, new.description)


class _Sums:
    """The rows of groups, by number, of which some are sums of others.

    ``held`` has for each group, and each place of all times but the first coordinate, the counts of its rows;
    ``changed`` are updates: a group and its time, the number of a row, and how often more it is there.
    """

    def __init__(self, spec: PythonSpec, keys: Rows, values: Rows) -> None:
        self.spec, self.values = spec, values
        self.held: dict[tuple[int, tuple[int, ...]], dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.changed: list[tuple[tuple[int, tuple[int, ...], int], int, int]] = []
        self._record = record_type(values.schema.names)
        rows, self._refused = values.for_functions()
        self._read = [self._record(row) for row in rows]
        self._made: list[tuple[object, ...]] = []
        key_record, (key_rows, self._refused_keys) = record_type(keys.schema.names), keys.for_functions()
        self._keys = [key_record(row) for row in key_rows]

    def change(self, moment: tuple[int, tuple[int, ...], int], changes: dict[int, int]) -> None:
        """The rows of a group have changed: their sum is what is there from now on."""
        group, rest, _ = moment
        before = {row: count for row, count in self.held[group, rest].items() if count}
        now = {row: before.get(row, 0) + changes.get(row, 0) for row in (*before, *changes)}
        now = {row: count for row, count in now.items() if count}
        if now:  # also one row alone, which may be zero
            now = self._sum(group, now)
        for row in dict.fromkeys((*before, *now)):
            if amount := now.get(row, 0) - before.get(row, 0):
                self.changed.append((moment, row, amount))
        self.held[group, rest] = now

    def _sum(self, group: int, rows: dict[int, int]) -> dict[int, int]:
        """One row, or none, in the place of some; these where they have no sum."""
        if group in self._refused_keys or any(row in self._refused for row in rows):
            return rows
        made = call_function(self.spec, self._keys[group], [(self._read[r], n) for r, n in rows.items()], None)
        if made.error is not None:  # the reduce above says so
            return rows
        result = {}
        for row, count in made.results:
            result[len(self._read)] = count
            self._read.append(self._record(row))
            self._made.append(row)
        return result

    def rows(self) -> Rows:
        """The rows by their numbers."""
        made = canonical_rows(Rows.from_pylist(self._made, self.spec.result))
        return Rows.concat([self.values, Rows(self.values.schema, made.columns, made.count)], self.values.schema)
