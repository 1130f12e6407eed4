"""What a stage in one shard, a segment and a whole step return: one record, which each adds to the one around it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TypeAlias, cast

from altneu.operators.base import ArrangementState, Message
from altneu.runtime.measured import Counted
from altneu.runtime.packed import Packed
from altneu.runtime.state import Names, state_to_json, updates_to_batch
from altneu.runtime.stored import Data, MessageRef, StoredBatch, StoredMessage, StoredOutcome, StoredState
from altneu.trace.batch import Batch
from altneu.trace.update import Updates

Sent: TypeAlias = tuple[int, int, Message | MessageRef | Packed]
"""A shard, a channel, and the message that goes there."""
StateKey: TypeAlias = tuple[str, int]
"""The name of a state, and a shard."""


@dataclass
class Outcome:
    """What a stage in one shard, a segment or a step has changed; the session's state changes by the commit alone.

    ``states`` exist only in this process, ``stored`` ones under the names that tasks have written; ``new`` are the new
    batches of arrangements, ``inspected`` the updates that inspected collections show, by node; ``sent`` are the
    messages to other stages (of a segment: to stages outside it), ``slices`` batches that other tasks have made for an
    arrangement's shard (``runtime/divided.py``), ``passed`` the rows that went from stage to stage
    inside a segment; ``received`` counts the rows of sources, and ``measured`` the work of each node. Of a step
    ``recomputed`` are the views that it computed anew.
    """

    placement: str = "driver"
    states: dict[StateKey, ArrangementState] = field(default_factory=dict)
    stored: dict[StateKey, StoredState] = field(default_factory=dict)
    new: dict[str, list[Batch | StoredBatch]] = field(default_factory=dict)
    inspected: dict[int, list[Updates]] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    sent: list[Sent] = field(default_factory=list)
    slices: dict[StateKey, list[StoredBatch]] = field(default_factory=dict)
    passed: int = 0
    measured: Counted = field(default_factory=Counted)
    recomputed: tuple[str, ...] = ()

    def add(self, more: Outcome) -> None:
        """Add what another shard, stage or task has changed; what is measured in rounds is added by ``add_segment``.

        >>> total = Outcome(received={"orders": 2})
        >>> total.add(Outcome(received={"orders": 3}, passed=1))
        >>> total.received, total.passed
        ({'orders': 5}, 1)
        """
        self._add_changes(more)
        self.states |= more.states
        self.stored |= more.stored
        self.sent += more.sent
        for key, batches in more.slices.items():
            self.slices.setdefault(key, []).extend(batches)
        self.measured.add(more.measured.counts)

    def add_segment(self, segment: Outcome, *, in_loop: bool) -> None:
        """Add a segment whose states and messages have found their places in the step."""
        self._add_changes(segment)
        self.measured.add_segment(segment.measured, in_loop=in_loop)
        if segment.placement != "driver":
            self.placement = segment.placement

    def _add_changes(self, more: Outcome) -> None:
        for name, batches in more.new.items():
            self.new.setdefault(name, []).extend(batches)
        if more.inspected:
            for node, updates in more.inspected.items():
                self.inspected.setdefault(node, []).extend(updates)
        if more.received:
            for source, rows in more.received.items():
                self.received[source] = self.received.get(source, 0) + rows
        self.passed += more.passed

    def retain_new(self, names: Collection[str]) -> None:
        """Forget the new batches of all arrangements but these: they are in their spines."""
        new = self.new
        self.new = {name: new[name] for name in new if name in names}

    # from a task to the driver --------------------------------------------------------------------------------------

    def to_json(self, names: Names) -> StoredOutcome:
        """As a task of Spark sends it: everything by the name under which ``names`` has written it.

        The messages are written by then (``wire.written``).
        """
        live = {key: state_to_json(state, names) for key, state in self.states.items()}
        encoded = {
            "states": [[name, shard, value] for (name, shard), value in {**self.stored, **live}.items()],
            "new": {name: [_named(b, names) for b in batches if batch_rows(b)] for name, batches in self.new.items()},
            "inspected": {str(node): _written(parts, names) for node, parts in self.inspected.items() if parts},
            "received": self.received,
            "sent": [[shard, channel, _ref(message)] for shard, channel, message in self.sent],
            "slices": [[name, shard, batches] for (name, shard), batches in self.slices.items()],
            "passed": self.passed,
            "measured": self.measured.counts,
        }
        return cast(StoredOutcome, encoded)  # JSON has lists where the type has tuples

    @classmethod
    def from_json(cls, value: StoredOutcome, opened: Callable[[int, Data], list[Updates]]) -> Outcome:
        """What ``to_json`` wrote; the updates that a node shows are ``opened`` at once."""
        return cls(
            "spark",
            {},
            {(name, shard): state for name, shard, state in value["states"]},
            cast(dict[str, list[Batch | StoredBatch]], value["new"]),
            {int(node): opened(int(node), data) for node, data in value["inspected"].items()},
            value["received"],
            [(shard, channel, MessageRef.from_json(message)) for shard, channel, message in value["sent"]],
            {(name, shard): batches for name, shard, batches in value["slices"]},
            value["passed"],
            Counted({int(node): counts for node, counts in value["measured"].items()}),
        )


def batch_rows(batch: Batch | StoredBatch) -> int:
    """Updates in a batch, opened or only named."""
    return batch.count if isinstance(batch, Batch) else batch["rows"]


def _named(batch: Batch | StoredBatch, names: Names) -> StoredBatch:
    return names.of(batch) if isinstance(batch, Batch) else batch


def _ref(message: Message | MessageRef | Packed) -> StoredMessage:
    assert isinstance(message, MessageRef)
    return message.to_json()


def _written(parts: list[Updates], names: Names) -> Data:
    batches = [updates_to_batch(updates) for updates in parts]
    return names.write(batches, batches[0].schema)
