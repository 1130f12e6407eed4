"""The JSON values by which a store, and the tasks of Spark, name what an arrangement has (docs/format.md).

Values are dictionaries with typed keys: what a commit has is written and read as it is, byte for byte. Messages that
are written down are objects, so that they are told from messages in memory by their class.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NotRequired, TypeAlias, TypedDict, cast, final

from altneu.store import SegmentRef

Frontier: TypeAlias = list[list[int]]
"""Times, each a list of coordinates."""


class SegmentName(TypedDict):
    """What a segment is called, and what it has to be when it is opened."""

    name: str
    rows: int
    bytes: int
    checksum: str


@final
class InSegment(TypedDict):
    """Data in a segment of its own."""

    segment: SegmentName


@final
class InBlob(TypedDict):
    """Data in a blob, inside the commit."""

    blob: str


Data: TypeAlias = InSegment | InBlob
"""Where record batches are."""


class StoredBatch(TypedDict):
    """A batch of an arrangement."""

    lower: Frontier
    upper: Frontier
    since: Frontier
    rows: int
    data: Data


class StoredRun(TypedDict):
    """The updates of a run, in order of time, in one record batch."""

    rows: int
    data: Data


class StoredFuture(TypedDict):
    """A run of future updates without the first ``skip``, which are closed; inside a loop with its rounds."""

    run: StoredRun
    skip: int
    least: int
    rounds: NotRequired[list[int]]


class StoredState(TypedDict):
    """An arrangement in one shard: its batches, and the future updates that it holds back."""

    batches: list[StoredBatch]
    hold: list[StoredFuture]


class StoredChanges(TypedDict):
    """The updates of a view in the last advance, and the frontier up to which they go."""

    upper: int
    batches: list[StoredBatch]


@dataclass(frozen=True)
class MessageRef:
    """A message by the names of what it consists of; how many ``rows`` it brings is known without opening it.

    Updates are one record batch, number ``part``, of ``data``. An arrangement is its new batch, ``data``, and its
    ``old`` ones. One that its reader opens from the state has no data.
    """

    rows: int
    data: Data | None = None
    part: int | None = None
    old: tuple[StoredBatch, ...] | None = None

    def to_json(self) -> dict[str, Any]:
        """What it has, by name.

        >>> MessageRef(3, {"blob": "b1"}, part=0).to_json()
        {'data': {'blob': 'b1'}, 'part': 0, 'rows': 3}
        """
        given = {"old": None if self.old is None else list(self.old), "data": self.data, "part": self.part}
        return {**{key: value for key, value in given.items() if value is not None}, "rows": self.rows}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> MessageRef:
        """What ``to_json`` wrote.

        >>> MessageRef.from_json({"rows": 3})
        MessageRef(rows=3, data=None, part=None, old=None)
        """
        old = value.get("old")
        return cls(value["rows"], value.get("data"), value.get("part"), None if old is None else tuple(old))


def in_segment(ref: SegmentRef) -> InSegment:
    """The name of data in a segment."""
    return cast(InSegment, ref.to_json())


def state_of(value: object) -> StoredState:
    """A value of a commit, under the key of an arrangement, as what it is."""
    return cast(StoredState, value)
