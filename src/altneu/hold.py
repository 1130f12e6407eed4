"""Holds: updates that no region has covered yet, kept in order of time until one does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.order import Antichain, Lattice
from altneu.rows import Ints
from altneu.update import Updates, consolidate

MERGED_BYTES = 1 << 30  # runs are not merged to more: the texts of one Arrow column end at 2 GiB


@dataclass(frozen=True, eq=False)
class Run:
    """Consolidated updates in order of time, of which the first ``skip`` have been taken.

    ``whole`` stays what it is while its front is taken away, so that a store need not write it again. When less than
    half of it is left, what is left becomes a run of its own: what is gone takes no more room than what is there.
    """

    whole: Updates
    skip: int = 0

    @classmethod
    def of(cls, updates: Updates, lattice: Lattice) -> Run:
        """Sort updates by the linear extension of time, equal ``(data, time)`` pairs summed, zeros dropped."""
        together = consolidate(updates, lattice)
        keys = lattice.sort_keys(together.times)
        return cls(together if len(together) < 2 else together.take(np.lexsort(keys[::-1])))

    def __len__(self) -> int:
        return len(self.whole) - self.skip

    @property
    def times(self) -> Ints:
        """The times of what is left, in order."""
        return self.whole.times[:, self.skip :]

    def least(self, lattice: Lattice) -> int:
        """The first sort key of the first update left."""
        return int(lattice.sort_keys(self.times[:, :1])[0][0])

    def updates(self) -> Updates:
        """What is left."""
        return self._between(self.skip, len(self.whole)) if self.skip else self.whole

    def due(self, upper: Antichain) -> int:
        """How many updates are not at or beyond ``upper``."""
        if upper.least is not None:
            return int(np.searchsorted(self.times[0], upper.least))
        return len(self) - int(np.count_nonzero(upper.less_equal(self.times)))

    def split(self, upper: Antichain) -> tuple[Updates, Run]:
        """The updates not at or beyond ``upper``, and the run of the rest."""
        cut = self.due(upper)
        if upper.least is None and upper.less_equal(self.times[:, :cut]).any():
            # In a partial order what is due need not come first.
            beyond = upper.less_equal(self.times)
            return self.updates().filter(~beyond), Run(self.updates().filter(beyond))
        start = self.skip + cut
        rest = Run(self.whole, start)
        if 0 < 2 * len(rest) < len(self.whole):
            rest = Run(self.whole.take(np.arange(start, len(self.whole))))
        return self._between(self.skip, start), rest

    def _between(self, start: int, stop: int) -> Updates:
        whole = self.whole
        return Updates(whole.rows.slice(start, stop), whole.times[:, start:stop], whole.diffs[start:stop])


@dataclass(frozen=True)
class Hold:
    """Future updates in runs, of which a newer one is less than half as long as the one before it was; immutable.

    Two runs may hold updates that cancel; they do when the runs are merged, or when they are due.

    Cost:   adding k updates sorts those k, and each update is merged O(log n) times while it waits; a run much larger
            than what is added is not touched. Taking reads the front of each run and nothing further in the future.
    Law:    what is taken and what is left together accumulate to what was added (tests/laws/test_hold.py).
    """

    schema: pa.Schema
    lattice: Lattice
    runs: tuple[Run, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, updates: Updates) -> Hold:
        """With more updates; runs of similar size are merged, so that a retracted row does not wait for ever."""
        if not len(updates):
            return self
        new = Run.of(updates, self.lattice)
        start = self._merged_from(new)
        if start < len(self.runs):
            parts = [*(run.updates() for run in self.runs[start:]), new.whole]
            new = Run.of(Updates.concat(parts, self.schema, self.lattice.width), self.lattice)
        return self._of([*self.runs[:start], new])

    def _merged_from(self, new: Run) -> int:
        """The first of the runs that are merged with a new one: none is more than twice as long as all newer ones."""
        start, rows, size = len(self.runs), len(new), _bytes(new)
        while start and len(self.runs[start - 1]) <= 2 * rows:
            size += _bytes(self.runs[start - 1])
            if size > MERGED_BYTES:
                break
            start -= 1
            rows += len(self.runs[start])
        return start

    def _of(self, runs: Sequence[Run]) -> Hold:
        return Hold(self.schema, self.lattice, tuple(run for run in runs if len(run)))

    def least(self) -> int | None:
        """The least first sort key held: nothing here is due before it."""
        return min((run.least(self.lattice) for run in self.runs), default=None)

    def due(self, upper: Antichain) -> int:
        """How many of the held updates are not at or beyond ``upper``."""
        return sum(run.due(upper) for run in self.runs)

    def is_due(self, upper: Antichain) -> bool:
        """Whether anything held lies before ``upper``."""
        if self.lattice.is_total:
            return any(not upper.less_equal(run.times[:, :1])[0] for run in self.runs)
        return self.due(upper) > 0

    def take(self, upper: Antichain) -> tuple[list[Updates], Hold]:
        """The updates not at or beyond ``upper``, and the hold of the rest."""
        parts = [run.split(upper) for run in self.runs]
        return [due for due, _ in parts if len(due)], self._of([rest for _, rest in parts])

    def updates(self) -> Updates:
        """Everything held."""
        return Updates.concat([run.updates() for run in self.runs], self.schema, self.lattice.width)


def _bytes(run: Run) -> int:
    return sum(column.nbytes for column in run.updates().rows.columns)
