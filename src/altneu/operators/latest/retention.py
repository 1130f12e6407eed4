"""The latest event of each key, as a way in which an arrangement retains its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from altneu.operators.arrange.retention import EVERY_UPDATE
from altneu.operators.base import Here
from altneu.operators.latest.events import events, latest
from altneu.operators.node import Key
from altneu.order import Antichain
from altneu.trace.batch import Arranged, Batch, Layout
from altneu.trace.update import Updates


@dataclass(frozen=True)
class LatestEvents:
    """The input is a log of events; retained is the greatest event of each key in the ``order`` of these columns."""

    order: Key
    is_input = is_collection = needs_history = False

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """Events, with whether they were taken back."""
        return [events(part, layout, since) for part in parts]

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The changes of the greatest events."""
        return latest(Arranged(layout, old, EVERY_UPDATE.batch(here, updates, old, layout, since)), self.order)

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """All of it."""
        return new

    def shard_key(self, layout: Layout) -> Key:
        """The key."""
        return layout.key

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """All columns but the mark of what was taken back."""
        return tuple(layout.schema.names[:-1]), ", the latest row of each key"
