"""The rows of a source that takes commands, as a way in which an arrangement retains its input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from altneu.operators.base import Here
from altneu.operators.node import Key
from altneu.operators.source.keyed import changed
from altneu.order import Antichain
from altneu.trace.batch import Batch, Layout
from altneu.trace.update import Updates


@dataclass(frozen=True)
class CommandedRows:
    """The input is commands, all of them due, because future ones wait before it; retained are the source's rows."""

    is_input = needs_history = False
    is_collection = True

    def encoded(self, parts: list[Updates], layout: Layout, since: Antichain | None) -> list[Updates]:
        """Commands, which are not rows of the layout."""
        return parts

    def batch(
        self, here: Here, updates: Sequence[Updates], old: tuple[Batch, ...], layout: Layout, since: Antichain | None
    ) -> Batch:
        """The changes that the commands make to the rows."""
        commands = Updates.concat(updates, updates[0].schema, layout.lattice.width)
        return changed(commands, old, layout, here.description(layout.lattice))

    def told(self, new: Batch, rounds: tuple[int, ...]) -> Batch:
        """All of it."""
        return new

    def shard_key(self, layout: Layout) -> Key:
        """The key."""
        return layout.key

    def described(self, layout: Layout) -> tuple[tuple[str, ...], str]:
        """All columns, by key or by row."""
        by_row = set(layout.key) == set(layout.schema.names)
        rows = ", each present row once" if by_row else ", the present row of each key"
        return tuple(layout.schema.names), rows
