"""How the numbers of rows below zero are retained in loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from altneu.operators.arrange.retention import EVERY_UPDATE
from altneu.operators.base import Here
from altneu.operators.node import Key
from altneu.order import Antichain, parted, placed
from altneu.trace.batch import Batch, Layout
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
