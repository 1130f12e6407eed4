"""Future updates: updates whose time is not closed yet, kept in order of time until it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Ints
from altneu.order import Antichain, Lattice, epochs, fixed, lifted_frontier, parted, placed
from altneu.trace.update import Updates, consolidate

_TINY_ROWS, _TINY_RUNS = 64, 8  # of a round of a loop: fewer runs of so few are due before merging them would pay
_FEW = 64  # updates whose rounds are looked at one by one
MERGED_BYTES = 1 << 30  # runs are not merged to more: the texts of one Arrow column end at 2 GiB


@immutable(frozen=True, eq=False)
class Run:
    """Consolidated updates in order of time, of which the first ``skip`` have been taken.

    ``whole`` does not change when its front is taken, so that a store need not write it again. When less than half of
    it is left, the rest becomes a run of its own, so that taken updates never need more room than the remaining ones.
    """

    whole: Updates
    skip: int = 0

    @classmethod
    def of(cls, updates: Updates, lattice: Lattice, *, settled: bool = False) -> Run:
        """Sort updates by the linear extension of time, and consolidate them unless they are ``settled``.

        ``settled`` means that no two of them share ``(data, time)``, and that no diff is zero.
        """
        together = updates if settled else consolidate(updates, lattice)
        if len(together) < 2 or (together.times[:, 1:] == together.times[:, :-1]).all():
            return cls(together)
        return cls(together.take(np.lexsort(lattice.sort_keys(together.times)[::-1])))

    def __len__(self) -> int:
        return len(self.whole) - self.skip

    @property
    def times(self) -> Ints:
        """The times of the remaining updates, in order."""
        return self.whole.times[:, self.skip :]

    def least(self, lattice: Lattice) -> int:
        """The epoch of the first remaining update."""
        return int(epochs(lattice, self.times[:, :1])[0])

    @property
    def nbytes(self) -> int:
        """Bytes of the remaining rows."""
        return sum(column.nbytes for column in self.updates().rows.columns)

    def updates(self) -> Updates:
        """The remaining updates."""
        return self._between(self.skip, len(self.whole)) if self.skip else self.whole

    def begins_before(self, upper: Antichain) -> bool:
        """Whether the first update is due: not at or beyond ``upper``."""
        if upper.least is not None:
            return bool(self.whole.times[0, self.skip] < upper.least)
        return not upper.less_equal(self.times[:, :1])[0]

    def due(self, upper: Antichain) -> int:
        """The number of updates that are due: not at or beyond ``upper``."""
        if upper.least is not None:
            return int(self.times[0].searchsorted(upper.least))
        return len(self) - int(np.count_nonzero(upper.less_equal(self.times)))

    def split(self, upper: Antichain) -> tuple[Updates, Run]:
        """The due updates, which are not at or beyond ``upper``, and a run of the rest."""
        cut = self.due(upper)
        if cut == len(self):
            return self.updates(), Run(self.whole, len(self.whole))
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


class LazyRun(Run):
    """A run that is opened when some of it is due; its rows, bytes and first epoch are known before.

    ``opened`` returns ``whole``, and ``stored`` is its creator's reference to it. ``nothing`` is an empty set of
    updates of the same columns, and ``counts`` the rows and bytes of the whole.
    """

    stored: Any

    def __init__(
        self,
        stored: Any,
        counts: tuple[int, int],
        skip: int,
        first: int,
        lattice: Lattice,
        nothing: Updates,
        opened: Callable[[], Updates],
    ) -> None:
        attributes = {"stored": stored, "_counts": counts, "skip": skip, "_first": first}
        self.__dict__.update(attributes, _lattice=lattice, _nothing=nothing, _opened=opened)

    @cached_property
    def whole(self) -> Updates:
        """All updates of the run, taken or not."""
        updates: Updates = self.__dict__["_opened"]()
        return updates

    def __len__(self) -> int:
        return int(self.__dict__["_counts"][0]) - self.skip

    @property
    def nbytes(self) -> int:
        """Bytes of the whole."""
        return int(self.__dict__["_counts"][1])

    def least(self, lattice: Lattice) -> int:
        """As for any run."""
        return int(self.__dict__["_first"])

    def begins_before(self, upper: Antichain) -> bool:
        """As for any run; it is not opened if its first epoch decides."""
        return not self._is_later(upper) and super().begins_before(upper)

    def due(self, upper: Antichain) -> int:
        """As for any run; it is not opened if nothing is due."""
        return 0 if self._is_later(upper) else super().due(upper)

    def split(self, upper: Antichain) -> tuple[Updates, Run]:
        """As for any run; it is not opened if nothing is due, and the rest keeps its reference."""
        if self._is_later(upper):
            return self.__dict__["_nothing"], self
        due, rest = super().split(upper)
        if rest.whole is self.whole and len(rest):
            other = LazyRun.__new__(LazyRun)
            other.__dict__.update(self.__dict__, skip=rest.skip, _first=rest.least(self.__dict__["_lattice"]))
            return due, other
        return due, rest

    def _is_later(self, upper: Antichain) -> bool:
        """Whether nothing is due, judged by the first epoch."""
        return upper.least is not None and self.__dict__["_first"] >= upper.least


@immutable(frozen=True)
class FutureRuns:
    """Future updates in runs, each but for a few tiny ones less than half as long as the one before it; immutable.

    Two runs may have updates that cancel; they cancel when the runs are merged, or when they are due.

    Cost:   adding k updates sorts these k, and each update is merged O(log n) times while it waits; runs that are much
            larger than the addition are not touched. Taking reads only the front of each run.
    Law:    the updates taken and those left accumulate to the updates added (tests/laws/test_future.py).
    """

    schema: pa.Schema
    lattice: Lattice
    runs: tuple[Run, ...] = ()

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def add(self, updates: Updates, most: int = MERGED_BYTES, *, settled: bool = False, tiny: int = 0) -> FutureRuns:
        """Add updates; runs of similar size are merged, so that a retracted row does not wait for ever.

        Merging never makes a run of more than ``most`` bytes. ``settled`` updates are consolidated already. Up to
        ``_TINY_RUNS`` runs are left alone that have at most ``tiny`` updates together.
        """
        if not len(updates):
            return self
        new = Run.of(updates, self.lattice, settled=settled)
        if not self.runs:
            return FutureRuns(self.schema, self.lattice, (new,)) if len(new) else self
        if len(self.runs) < _TINY_RUNS and len(self) + len(new) <= tiny:
            return FutureRuns(self.schema, self.lattice, (*self.runs, new)) if len(new) else self
        start = self._merged_from(new, most)
        if start < len(self.runs):
            parts = [*(run.updates() for run in self.runs[start:]), new.whole]
            new = Run.of(Updates.concat(parts, self.schema, self.lattice.width), self.lattice)
        return self._of([*self.runs[:start], new])

    def _merged_from(self, new: Run, most: int) -> int:
        """The first run to merge with a new one: none of these is more than twice as long as all newer ones."""
        start, rows, size = len(self.runs), len(new), 0
        while start and len(self.runs[start - 1]) <= 2 * rows:
            size += self.runs[start - 1].nbytes
            if size + new.nbytes > min(most, MERGED_BYTES):
                break
            start -= 1
            rows += len(self.runs[start])
        return start

    def _of(self, runs: Sequence[Run]) -> FutureRuns:
        return FutureRuns(self.schema, self.lattice, tuple(run for run in runs if len(run)))

    def least(self) -> int | None:
        """The least epoch: no update is due before it."""
        return min((run.least(self.lattice) for run in self.runs), default=None)

    def due(self, upper: Antichain) -> int:
        """The number of due updates, which are not at or beyond ``upper``."""
        return sum(run.due(upper) for run in self.runs)

    def is_due(self, upper: Antichain) -> bool:
        """Whether any update is due before ``upper``."""
        if self.lattice.is_total:
            for run in self.runs:  # noqa: SIM110 -- asked many times a round
                if run.begins_before(upper):
                    return True
            return False
        return self.due(upper) > 0

    def take(self, upper: Antichain) -> tuple[list[Updates], FutureRuns]:
        """The due updates, which are not at or beyond ``upper``, and the runs of the rest."""
        parts = [run.split(upper) for run in self.runs]
        return [due for due, _ in parts if len(due)], self._of([rest for _, rest in parts])

    def updates(self) -> Updates:
        """All future updates."""
        return Updates.concat([run.updates() for run in self.runs], self.schema, self.lattice.width)


Rounds = tuple[int, ...]


@immutable(frozen=True)
class FutureUpdates:
    """The future updates of one scope: separate runs for each round of loops that has any; immutable.

    A round therefore finds its due updates without reading those of other rounds. Outside loops there is one round.

    Shape:  times are those of ``lattice``; inside the runs they are those of ``outer``, ``lattice`` at fixed rounds.
    Law:    the updates taken and those left accumulate to the updates added (tests/laws/test_future.py).
    """

    schema: pa.Schema
    lattice: Lattice
    buckets: Mapping[Rounds, FutureRuns] = field(default_factory=dict)

    @property
    def outer(self) -> Lattice:
        """The lattice of the times in the runs of a round."""
        return fixed(self.lattice)

    @classmethod
    def of(cls, schema: pa.Schema, lattice: Lattice, runs: Iterable[tuple[Rounds, Run]]) -> FutureUpdates:
        """Future updates from runs, each of one round."""
        runs_by_rounds: dict[Rounds, tuple[Run, ...]] = {}
        for rounds, run in runs:
            runs_by_rounds[rounds] = (*runs_by_rounds.get(rounds, ()), run)
        return cls(schema, lattice, {r: FutureRuns(schema, fixed(lattice), some) for r, some in runs_by_rounds.items()})

    def __len__(self) -> int:
        return sum(map(len, self.buckets.values()))

    @property
    def runs(self) -> tuple[tuple[Rounds, Run], ...]:
        """Every run with its round; the times of a run are those outside loops."""
        return tuple((rounds, run) for rounds, waiting in self.buckets.items() for run in waiting.runs)

    def add(self, updates: Updates, most: int = MERGED_BYTES, *, settled: bool = False) -> FutureUpdates:
        """Add updates; ``most`` and ``settled`` are as for ``FutureRuns.add``."""
        together = updates if settled else consolidate(updates, self.lattice)
        if not len(together):
            return self
        buckets, outer = dict(self.buckets), self.outer
        for rounds, part in self._parts(together):
            waiting = buckets.pop(rounds, None) or FutureRuns(self.schema, outer)
            if (waiting := waiting.add(part, most, settled=True, tiny=_TINY_ROWS if rounds else 0)).runs:
                buckets[rounds] = waiting
        return FutureUpdates(self.schema, self.lattice, buckets)

    def _parts(self, updates: Updates) -> Iterator[tuple[Rounds, Updates]]:
        times, lines = parted(self.lattice, updates.times)
        outer = Updates(updates.rows, times, updates.diffs)
        if len(updates) == 1 or (lines == lines[:, :1]).all():
            yield tuple(lines[:, 0].tolist()), outer
            return
        if len(updates) <= _FEW:
            places: dict[Rounds, list[int]] = {}
            for i, rounds in enumerate(zip(*lines.tolist(), strict=True)):
                places.setdefault(rounds, []).append(i)
            parts = [(rounds, places[rounds]) for rounds in sorted(places)]
            order = np.array([i for _, part in parts for i in part])
            ends = [*accumulate([len(part) for _, part in parts], initial=0)]
            numbers = [rounds for rounds, _ in parts]
        else:
            order = np.lexsort(lines[::-1])
            lines = lines.take(order, axis=1)
            starts = np.flatnonzero((lines[:, 1:] != lines[:, :-1]).any(axis=0)) + 1
            ends = [0, *starts.tolist(), len(updates)]
            numbers = [*zip(*lines.take(ends[:-1], axis=1).tolist(), strict=True)]
        outer = outer.take(order)
        for rounds, (start, stop) in zip(numbers, pairwise(ends), strict=True):
            yield rounds, Updates(outer.rows.slice(start, stop), outer.times[:, start:stop], outer.diffs[start:stop])

    def take(self, rounds: Rounds, upper: Antichain) -> tuple[list[Updates], FutureUpdates]:
        """The due updates of a round, not at or beyond ``upper`` (of ``outer``), and the future updates that remain."""
        waiting = self.buckets.get(rounds)
        if waiting is None or not waiting.is_due(upper := self._bound(upper)):
            return [], self
        due, rest = waiting.take(upper)
        buckets = {**self.buckets, rounds: rest}
        if not rest.runs:
            del buckets[rounds]
        return [self._inside(part, rounds) for part in due], FutureUpdates(self.schema, self.lattice, buckets)

    def _inside(self, updates: Updates, rounds: Rounds) -> Updates:
        if not rounds:
            return updates
        lines = np.array(rounds, np.int64)[:, None].repeat(len(updates), axis=1)
        return Updates(updates.rows, placed(self.lattice, updates.times, lines), updates.diffs)

    def _bound(self, upper: Antichain) -> Antichain:
        """A bound of the session's times as a bound of the runs' times; if these are wider, by their first column."""
        outer = self.outer
        if upper.lattice is outer or upper.lattice == outer:
            return upper
        return lifted_frontier(upper, outer) if outer.is_total else upper

    def least(self) -> int | None:
        """The least epoch, of all rounds."""
        return min((least for waiting in self.buckets.values() if (least := waiting.least()) is not None), default=None)

    def due(self, upper: Antichain) -> int:
        """The number of due updates of all rounds, which are not at or beyond ``upper``."""
        upper = self._bound(upper)
        return sum(waiting.due(upper) for waiting in self.buckets.values())

    def is_due(self, rounds: Rounds, upper: Antichain) -> bool:
        """Whether any update of a round is due before ``upper``."""
        waiting = self.buckets.get(rounds)
        return waiting is not None and waiting.is_due(self._bound(upper))

    def due_in(self, rounds: Rounds, upper: Antichain) -> int:
        """The number of updates of a round that are due before ``upper``."""
        waiting = self.buckets.get(rounds)
        return 0 if waiting is None else waiting.due(self._bound(upper))

    def next_round(self, rounds: Rounds, upper: Antichain) -> int | None:
        """The least round with due updates, of a loop inside the given ``rounds`` of outer loops."""
        at, least = len(rounds), None
        for inside, some in self.buckets.items():
            later = least is not None and inside[at] >= least
            if not later and inside[:at] == rounds and some.is_due(self._bound(upper)):
                least = inside[at]
        return least

    def updates(self) -> Updates:
        """All future updates."""
        parts = [self._inside(waiting.updates(), rounds) for rounds, waiting in self.buckets.items()]
        return Updates.concat(parts, self.schema, self.lattice.width)
