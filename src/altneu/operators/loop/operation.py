"""Loops as operations: updates on their way in, round and out."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.columnar.narrow import narrow_rows
from altneu.expressions import Expr
from altneu.operators.base import CHANGE, MANY_ROWS, ArrangementState, Here, Operation, Outputs, RowByRow
from altneu.order import has_moments, lifted
from altneu.trace.batch import Layout
from altneu.trace.update import Updates, consolidate


@dataclass(frozen=True)
class EnterOp(RowByRow, tag="EnterOp", kind="enter"):
    """Updates on their way into scopes: from round 0 of each loop on, at the earlier of two moments."""

    at_each_time = False  # a scope has other times

    def step(self, here: Here) -> Outputs:
        """The updates, with times of the scope."""
        updates = here.one()
        if updates is None:
            return [None]
        below, inside = here.lattice_of_input(0), here.lattice
        if has_moments(inside):
            updates = here.present(updates, below)
        return [Updates(updates.rows, lifted(updates.times, below, inside), updates.diffs)]


@dataclass(frozen=True)
class EnterAtOp(RowByRow, tag="EnterAtOp", kind="enter"):
    """Updates that have entered a loop, moved to the round that an expression says of each row.

    Those of ``limit`` rounds on stay outside, where the loop stops there. Where the expression has no value it is
    round 0: when a row enters is of no consequence.
    """

    at_each_time = False  # a scope has other times

    rounds: Expr
    limit: int | None = None

    def step(self, here: Here) -> Outputs:
        """The updates, each at its round."""
        updates = here.one()
        if updates is None:
            return [None]
        result = self.rounds.evaluate(updates.rows)
        rounds = result.values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        times = updates.times.copy()
        times[-1] = np.maximum(times[-1], rounds if result.failed is None else np.where(result.failed, 0, rounds))
        moved = Updates(updates.rows, times, updates.diffs)
        return [moved if self.limit is None else moved.filter(times[-1] < self.limit)]


@dataclass(frozen=True)
class LeaveOp(RowByRow, tag="LeaveOp", kind="leave"):
    """Updates on their way out of a loop: what the rounds add up to; ``port`` of the loop that leaves is the input."""

    at_each_time = False  # a scope has other times

    def step(self, here: Here) -> Outputs:
        """The updates without their rounds, consolidated."""
        parts = [Updates(part.rows, part.times[:-1], part.diffs) for part in here.received()]
        if not parts:
            return [None]
        leaving = consolidate(Updates.concat(parts, parts[0].schema, here.lattice.width), here.lattice)
        if len(leaving) >= MANY_ROWS:  # it waits for the last round
            leaving = leaving.with_rows(narrow_rows(leaving.rows))
        return [leaving]


@dataclass(frozen=True)
class FeedbackOp(Operation, tag="FeedbackOp", kind="variable"):
    """What came round to a variable in this round; ``FeedOp`` of the same name put it there."""

    starts = looks_again = makes_rows = at_each_time = whole = False
    keeps = reads = None
    bound = CHANGE

    arrangement: str

    def step(self, here: Here) -> Outputs:
        """The held updates of this round."""
        state = here.known(self.arrangement)
        if state is None:
            return [None]
        due, future = state.future.take(here.region.rounds, here.region.upper)
        if not due:
            return [None]
        here.keep(self.arrangement, ArrangementState(state.spine, future))
        updates = Updates.concat(due, here.schema, here.lattice.width)
        return [updates if len(due) == 1 else consolidate(updates, here.lattice)]  # a run is consolidated

    @property
    def takes_from(self) -> str:
        """What ``FeedOp`` keeps."""
        return self.arrangement

    def lies_by(self) -> None:
        """It has no input."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """It has no input."""


@dataclass(frozen=True)
class FeedOp(Operation, tag="FeedOp", kind="next round"):
    """The end of a variable's body: its updates wait so many (``by``) rounds, from ``limit`` rounds on no longer.

    Of ``outer`` feedback they wait so many ticks of the session's clock. A step that fills a late view has all of its
    updates at the last closed time, so that what comes back is still to come.
    """

    starts = looks_again = makes_rows = at_each_time = whole = False
    takes_from = reads = None
    bound = CHANGE

    arrangement: str
    layout: Layout
    limit: int | None
    by: int = 1
    outer: bool = False

    def step(self, here: Here) -> Outputs:
        """Nothing; what has come round is held, consolidated, or +x and -x would go round after each other for ever.

        What was due in this round has been taken, even where that is not seen here because it happened in the same job.
        """
        updates = here.one()
        if updates is None:
            return [None]
        settled = consolidate(self._back(updates, here), here.lattice)
        times = settled.times
        if self.limit is not None:
            settled = settled.filter(times[-1] < self.limit)
        here.measure(rows_out=len(settled))
        if len(settled):
            state = here.state(self.arrangement, self.layout)
            _, waiting = state.future.take(here.region.rounds, here.region.upper)
            waiting = waiting.add(settled, here.mode.future_bytes, settled=True)
            here.keep(self.arrangement, ArrangementState(state.spine, waiting))
        return [None]

    def _back(self, updates: Updates, here: Here) -> Updates:
        times = updates.times.copy()
        if not self.outer:
            times[-1] += self.by
            return Updates(updates.rows, times, updates.diffs)
        upper = here.region.upper.least
        if here.mode.hydrating and upper is not None:
            times[0] = np.maximum(times[0], upper - 1)
        times[0] += self.by
        return Updates(updates.rows, times, updates.diffs)

    @property
    def comes_back(self) -> int | None:
        """Where it leads to another time."""
        return self.by if self.outer else None

    @property
    def keeps(self) -> tuple[str, Layout]:
        """What waits for the next round."""
        return self.arrangement, self.layout

    def lies_by(self) -> None:
        """As the exchange says."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """None but that of its loop, which is run as a whole."""
