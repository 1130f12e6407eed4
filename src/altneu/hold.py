"""Holds: updates that no region has covered yet, kept in order of time until one does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.order import Antichain, Lattice
from altneu.update import Updates, consolidate


@dataclass(frozen=True)
class Hold:
    """Future updates in runs, each sorted by the linear extension of time; immutable.

    Cost:   adding k updates sorts those k, and each update is merged O(log n) times while it waits; taking the due
            ones reads the front of each run and nothing that lies further in the future.
    Law:    what is taken and what is left together accumulate to what was added (tests/laws/test_hold.py).
    """

    schema: pa.Schema
    lattice: Lattice
    runs: tuple[Updates, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, updates: Updates) -> Hold:
        """With more updates; runs of similar size are merged, so that a retracted row does not wait for ever."""
        if not len(updates):
            return self
        runs = [*self.runs, self._sorted(updates)]
        while len(runs) > 1 and len(runs[-2]) <= 2 * len(runs[-1]):
            last, before = runs.pop(), runs.pop()
            runs.append(self._sorted(Updates.concat([before, last], self.schema, self.lattice.width)))
        return Hold(self.schema, self.lattice, tuple(r for r in runs if len(r)))

    def _sorted(self, updates: Updates) -> Updates:
        together = consolidate(updates, self.lattice)
        return together.take(np.lexsort(self.lattice.sort_keys(together.times)[::-1]))

    def least(self) -> int | None:
        """The least first sort key held: nothing here is due before it."""
        return min((int(self.lattice.sort_keys(r.times[:, :1])[0][0]) for r in self.runs), default=None)

    def is_due(self, upper: Antichain) -> bool:
        """Whether anything held lies before ``upper``."""
        return any(not upper.less_equal(r.times[:, :1])[0] for r in self.runs) or (
            not self.lattice.is_total and any(not upper.less_equal(r.times).all() for r in self.runs)
        )

    def take(self, upper: Antichain) -> tuple[list[Updates], Hold]:
        """The updates not at or beyond ``upper``, and the hold of the rest."""
        due: list[Updates] = []
        left: list[Updates] = []
        for run in self.runs:
            if self.lattice.is_total and upper.least is not None:
                cut = int(np.searchsorted(run.times[0], upper.least))
                parts = _split_at(run, cut)
            else:
                beyond = upper.less_equal(run.times)
                parts = (run.filter(~beyond), run.filter(beyond))
            due += [parts[0]] if len(parts[0]) else []
            left += [parts[1]] if len(parts[1]) else []
        return due, Hold(self.schema, self.lattice, tuple(left))

    def updates(self) -> Updates:
        """Everything held."""
        return Updates.concat(self.runs, self.schema, self.lattice.width)


def _split_at(run: Updates, cut: int) -> tuple[Updates, Updates]:
    n = len(run)
    return (
        Updates(run.rows.slice(0, cut), run.times[:, :cut], run.diffs[:cut]),
        Updates(run.rows.slice(cut, n), run.times[:, cut:], run.diffs[cut:]),
    )
