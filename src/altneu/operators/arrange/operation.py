"""Arrangements: the one stateful operation, and how arrangements that exist are read."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from altneu.columnar.ranking import order_text
from altneu.operators.arrange.retention import EVERY_UPDATE, NOTHING, Retention
from altneu.operators.base import BY_KEY, CHANGE, MANY_ROWS, ArrangementState, Here, Operation, Outputs, RowByRow
from altneu.order import difference
from altneu.trace.batch import PACKED_ROWS, Arranged, Layout
from altneu.trace.update import Updates


@dataclass(frozen=True)
class ReadOp(Operation, tag="ReadOp", kind="read"):
    """The whole contents of an arrangement that exists already, for hydration.

    With ``present`` what came before ``since`` is there as of then, so that it cancels with what is given as of then.
    """

    starts = makes_rows = at_each_time = True
    looks_again = whole = False
    keeps = takes_from = None
    bound = CHANGE

    arrangement: str
    present: bool = False

    def step(self, here: Here) -> Outputs:
        """Its batches and held updates, together."""
        if (state := here.stored(self.arrangement)) is None:
            return [None]
        parts = [*(b.updates() for b in state.spine.batches), state.future.updates()]
        updates = Updates.concat(parts, here.schema, here.lattice.width)
        return [here.present(updates, here.lattice) if self.present else updates]

    @property
    def reads(self) -> str:
        """The arrangement."""
        return self.arrangement

    def lies_by(self) -> None:
        """It has no input."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """It has no input."""


@dataclass(frozen=True)
class FromOp(RowByRow, tag="FromOp", kind="from"):
    """Updates as they count from a time on: earlier ones at that time.

    With ``gone`` these alone, retracted: what was there goes.
    """

    at_each_time = False

    time: int
    gone: bool = False

    def step(self, here: Here) -> Outputs:
        """The updates, at the time or later."""
        parts = here.received()
        if not parts:
            return [None]
        updates = Updates.concat(parts, here.schema, here.lattice.width)
        if self.gone:
            updates = updates.filter(updates.times[0] < self.time)
        times = updates.times.copy()
        np.maximum(times[0], self.time, out=times[0])
        diffs = difference.negate(updates.diffs) if self.gone else updates.diffs
        return [here.summed(replace(updates, times=times, diffs=diffs))]


@dataclass(frozen=True)
class ArrangeOp(Operation, tag="ArrangeOp", kind="arrangement"):
    """The one stateful operation: updates into an arrangement, which holds future updates back.

    What is retained of the input is said by ``retention``. With a layout that has ``changes_only`` the input is passed
    on, and the arrangement has nothing but the history that is requested.
    """

    starts = True
    looks_again = makes_rows = at_each_time = whole = False
    reads = None
    bound = CHANGE

    arrangement: str
    layout: Layout
    retention: Retention = EVERY_UPDATE

    @property
    def transforms(self) -> bool:
        """Whether the arrangement does not accumulate to its input."""
        return not self.retention.is_input or self.layout.changes_only

    @property
    def has_collection(self) -> bool:
        """Whether it accumulates to the rows of its logical node."""
        return self.retention.is_collection and not self.layout.changes_only

    @property
    def is_released(self) -> bool:
        """Whether it stores none of its updates but future ones."""
        return self.retention == NOTHING

    @property
    def cost(self) -> str:
        """Batches are merged as they grow."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """The arrangement with its new batch; updates of later times are held back."""
        name, layout = self.arrangement, self.layout
        known = here.stored(name)
        if name in here.mode.given and known is not None:
            return [Arranged(layout, (), known.spine.merged(here.description(layout.lattice).since))]
        since = here.region.since if here.mode.hydrating else None
        parts = self.retention.encoded(here.received(), layout, since)
        if not parts and (known is None or not known.future.is_due(here.region.rounds, here.region.upper)):
            return [None]
        state = ArrangementState.empty(layout) if known is None else known
        future, due = state.future, list[Updates]()
        if future.buckets:
            due, future = future.take(here.region.rounds, here.region.upper)
        arrived, later = here.region.split(parts, layout.lattice)
        old = state.spine.batches
        new = self.retention.batch(here, [*due, *arrived], old, layout, since)
        packed = new if new.count < PACKED_ROWS else new.packed()
        if later:  # at once, so that the order in which messages arrive leaves no trace
            future = future.add(Updates.concat(later, layout.schema, layout.lattice.width), here.mode.future_bytes)
        here.put(name, ArrangementState(state.spine, future), packed)
        told = self.retention.told(packed if new.count >= MANY_ROWS else new, here.region.rounds)
        return [Arranged(layout, old, told)]

    @property
    def keeps(self) -> tuple[str, Layout]:
        """The arrangement."""
        return self.arrangement, self.layout

    @property
    def takes_from(self) -> str:
        """The arrangement, too, holds updates back."""
        return self.arrangement

    def lies_by(self) -> None:
        """As the exchange or the input says."""

    def exchange_key(self, schema: pa.Schema) -> tuple[str, ...]:
        """That by which it is partitioned."""
        return self.shard_key

    def works_by(self, first: Layout | None) -> tuple[str, ...]:
        """That of its layout."""
        return self.layout.key

    @property
    def retained(self) -> str:
        """What its retention says."""
        layout = self.layout
        if self.is_released:
            return "future updates only, because what it is joined with is static"
        if layout.changes_only:
            columns = ", ".join(layout.schema.names)
            return f"nothing of ({columns}) but future updates and retained history"
        names, rows = self.retention.described(layout)
        order = f", in order of {order_text(layout.order)}" if layout.order else ""
        return f"arrangement ({', '.join(names)}){rows}{order}"

    @property
    def shard_key(self) -> tuple[str, ...]:
        """The columns whose hash decides in which shard a row is."""
        return self.retention.shard_key(self.layout)
