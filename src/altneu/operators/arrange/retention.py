"""How arranged rows are retained: which rows an arrangement has of the updates that come to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from altneu.operators.base import Here
from altneu.operators.node import Key
from altneu.order import Antichain
from altneu.trace.batch import Batch, Layout
from altneu.trace.update import Updates


class Retention(Protocol):
    """How an arrangement retains its input, as a value of its operation.

    There is one for each way: ``EveryUpdate`` here, the others beside their operators.
    """

    @property
    def is_input(self) -> bool:
        """Whether the arrangement accumulates to its input: then it may be read in the place of that."""

    @property
    def is_collection(self) -> bool:
        """Whether it accumulates to the rows of its logical node."""

    @property
    def needs_history(self) -> bool:
        """Whether what is retained depends on when rows came, so that it cannot be computed from what is there now."""

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """Updates of the input as rows of the layout; those that were read back are advanced to ``since``."""

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The new batch that encoded updates of the region make, with the ``old`` batches before it."""

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """The part of the new batch that readers see in this round of the loops around."""

    def shard_key(self, layout: Layout) -> Key:
        """The columns whose hash decides in which shard a row is."""

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """For EXPLAIN: the columns that an arrangement has, and what it has of them."""


@dataclass(frozen=True)
class EveryUpdate:
    """All updates: the arrangement accumulates to its input."""

    is_input = is_collection = True
    needs_history = False

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """As they are."""
        return parts

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The updates, sorted and consolidated."""
        if updates and not updates[1:]:
            together = updates[0]
        else:
            together = Updates.concat(updates, layout.schema, layout.lattice.width)
        if here.region.events:
            together = here.region.from_events(together, layout.lattice)
        return Batch.build(together, layout, here.description(layout.lattice))

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """All of it."""
        return new

    def shard_key(self, layout: Layout) -> Key:
        """The key."""
        return layout.key

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """All columns."""
        return tuple(layout.schema.names), ""


EVERY_UPDATE = EveryUpdate()


@dataclass(frozen=True)
class Nothing(EveryUpdate):
    """None of the updates: they are passed on, and only those of later times wait (``plan/static.py``)."""

    is_input = is_collection = False


NOTHING = Nothing()
