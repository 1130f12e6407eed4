"""What each left row of a locked as-of join has met, as a way in which an arrangement retains its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from altneu.operators.arrange.retention import EVERY_UPDATE
from altneu.operators.asof.locked import LockSpec, arrivals, lock
from altneu.operators.base import Here
from altneu.operators.node import Key
from altneu.order import Antichain
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates


@dataclass(frozen=True)
class LockedMatches:
    """The input is the left rows, the second input the arrangement of the right ones; retained is what each met.

    Without a right side it is the time at which each copy came (``update_time()``).
    """

    spec: LockSpec
    is_input = is_collection = False

    @property
    def needs_history(self) -> bool:
        """Times of arrival are computed from nothing but the arrivals."""
        return self.spec.times

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """Left rows as arrivals."""
        return [arrivals(part, layout, since) for part in parts]

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """What the rows that came met, and what is gone of those that went."""
        right = None if self.spec.times else here.arranged(1)
        return lock(
            Arranged(layout, old, EVERY_UPDATE.batch(here, updates, old, layout, since)), right, self.spec, since
        )

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """All of it."""
        return new

    def shard_key(self, layout: Layout) -> Key:
        """Where the right rows of its key are."""
        return self.spec.keys[0]

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """The left row, and what is retained with it."""
        if self.spec.times:
            return layout.key, ", each present row with its time of arrival"
        met = ", ".join(self.spec.met) or "nothing but its key"
        return layout.key, f", each present row with its match ({met})"
