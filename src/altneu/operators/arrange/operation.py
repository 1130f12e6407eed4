"""Arrangements: the one stateful operation, and how arrangements that exist are read."""

from __future__ import annotations

from dataclasses import dataclass

from altneu.operators.asof.locked import LockSpec, arrivals, lock
from altneu.operators.base import MANY_ROWS, ArrangementState, Here, Operation, Outputs
from altneu.operators.latest.events import events, latest
from altneu.operators.source.keyed import changed
from altneu.order import Antichain
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates


@dataclass(frozen=True)
class ReadOp(Operation, tag="ReadOp", kind="read"):
    """The whole contents of an arrangement that exists already, for hydration.

    With ``present`` what came before ``since`` is there as of then, so that it cancels with what is given as of then.
    """

    starts = True

    arrangement: str
    present: bool = False

    def step(self, here: Here) -> Outputs:
        """Its batches and held updates, together."""
        if (state := here.stored(self.arrangement)) is None:
            return [None]
        parts = [*(b.updates() for b in state.spine.batches), state.holds.updates()]
        updates = Updates.concat(parts, here.schema, here.lattice.width)
        return [here.present(updates, here.lattice) if self.present else updates]

    @property
    def reads(self) -> str:
        """The arrangement."""
        return self.arrangement


@dataclass(frozen=True)
class ArrangeOp(Operation, tag="ArrangeOp", kind="arrangement"):
    """The one stateful operation: updates into an arrangement, future ones into its hold.

    With ``latest`` the updates are events, and what is kept is the greatest event of each key in the order of these
    columns (``operators/latest/events.py``). With ``locked`` they are left rows of an as-of join, the second input is
    the arrangement of the right ones, and what is kept is what each met, or without a right side when each came
    (``operators/asof/locked.py``). If ``commanded`` they are commands to a source, all of them due, and what is kept
    is the source's rows (``operators/source/keyed.py``). With a layout that has ``changes_only`` what comes in is
    handed on, and nothing but the history that is asked for is kept.
    """

    starts = True

    arrangement: str
    layout: Layout
    latest: tuple[str, ...] | None = None
    locked: LockSpec | None = None
    commanded: bool = False

    @property
    def transforms(self) -> bool:
        """Whether something else is kept than what comes in."""
        told = self.latest is not None or self.locked is not None or self.commanded
        return told or self.layout.changes_only

    def step(self, here: Here) -> Outputs:
        """The arrangement with its new batch; updates of later times are held."""
        name, layout = self.arrangement, self.layout
        known = here.stored(name)
        if name in here.mode.given and known is not None:
            return [Arranged(layout, (), known.spine.merged(here.description(layout.lattice).since))]
        folded = here.region.since if here.mode.hydrating else None
        parts = self._incoming(here.received(), folded)
        if not parts and (known is None or not known.holds.is_due(here.region.rounds, here.region.upper)):
            return [None]
        state = ArrangementState.empty(layout) if known is None else known
        due, holds = state.holds.take(here.region.rounds, here.region.upper)
        arrived, later = here.split(parts, layout.lattice)
        description = here.description(layout.lattice)
        old = state.spine.batches
        if self.commanded:  # commands, which are not rows of the arrangement, wait elsewhere
            new = changed(Updates.concat(parts, parts[0].schema, layout.lattice.width), old, layout, description)
        else:
            updates = Updates.concat([*due, *arrived], layout.schema, layout.lattice.width)
            new = Batch.build(here.kept_apart(updates, layout.lattice), layout, description)
        if self.latest is not None:
            new = latest(Arranged(layout, old, new), self.latest)
        elif self.locked is not None:
            right = None if self.locked.times else here.arranged(1)
            new = lock(Arranged(layout, old, new), right, self.locked, folded)
        kept = new.packed()
        if later:  # at once, so that the order in which messages arrive leaves no trace
            holds = holds.add(Updates.concat(later, layout.schema, layout.lattice.width), here.mode.held)
        here.put(name, ArrangementState(state.spine, holds), kept)
        return [Arranged(layout, old, kept if len(new) >= MANY_ROWS else new)]

    def _incoming(self, parts: list[Updates], folded: Antichain | None) -> list[Updates]:
        """Updates as rows of the arrangement."""
        if self.latest is not None:
            return [events(part, self.layout, folded) for part in parts]
        if self.locked is not None:
            return [arrivals(part, self.layout, folded) for part in parts]
        return parts

    @property
    def keeps(self) -> tuple[str, Layout]:
        """The arrangement."""
        return self.arrangement, self.layout

    @property
    def takes_from(self) -> str:
        """The arrangement, too, holds updates."""
        return self.arrangement

    @property
    def shard_key(self) -> tuple[str, ...]:
        """The columns whose hash decides where its rows are."""
        return self.layout.key if self.locked is None else self.locked.keys[0]
