"""The JSON values by which a store, and the tasks of Spark, name what an arrangement has (docs/format.md).

Values are dictionaries with typed keys: what a commit has is written and read as it is, byte for byte. Messages that
are written down are objects, so that they are told from messages in memory by their class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict, cast, final

from altneu.plan.functions import Recorded
from altneu.store import Json, SegmentRef

StoredOrder: TypeAlias = str | list[list[Any]] | None
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


class StoredLayout(TypedDict):
    """How an arrangement is laid out, for readers that do not have its plan.

    Arrangements with equal ``rows``, the fingerprint of a collection, have the same rows: all of it. ``below_zero`` is
    the one that counts, for an ordered arrangement, the rows with negative counts.
    """

    arrangement: str
    schema: str
    key: list[str]
    order: StoredOrder
    times: int
    rows: NotRequired[str]
    below_zero: NotRequired[StoredLayout]


class StoredContents(TypedDict):
    """Where a view's contents and errors are, what its times are called, and what else has all rows of a collection."""

    schema: str
    contents: StoredLayout
    errors: list[StoredLayout]
    coordinates: list[str] | None
    changes_only: NotRequired[bool]
    sources: NotRequired[dict[str, int]]
    arrangements: NotRequired[list[StoredLayout]]


class StoredRetain(TypedDict):
    """How many times before the last closed one a view retains, and from which time on it does."""

    times: int | Literal["all"]
    start: int


class StoredOwn(TypedDict):
    """The contents of a view that was redefined: what they are called after, and how they lie.

    ``number`` is that of its plan, which counts from the time ``since`` on.
    """

    origin: str
    key: list[str]
    schema: str
    number: int
    since: int


class StoredView(TypedDict):
    """What a store knows of a view; the keys that are not required are absent in the first stores."""

    fingerprint: str
    since: int
    arrangements: list[str]
    delta: list[str]
    versions: dict[str, str]
    lower: NotRequired[int]
    kept: NotRequired[StoredContents]
    functions: NotRequired[list[Recorded]]
    errors: NotRequired[str]
    whole_errors: NotRequired[list[str]]
    orders: NotRequired[Mapping[str, Mapping[str, Any]]]
    added: NotRequired[int]
    retain: NotRequired[StoredRetain]
    turns: NotRequired[Mapping[str, list[int]]]
    own: NotRequired[StoredOwn]
    refresh: NotRequired[Literal["incremental", "full"]]


class StoredWeight(TypedDict):
    """What a store knows of the weight of a source."""

    columns: list[str]
    text: str
    group: bool


class StoredSource(TypedDict):
    """A source whose rows are retained; with ``key`` or ``distinct`` also the state where commands to it wait."""

    schema: str
    coordinates: list[str]
    arrangement: str
    keep: NotRequired[bool]
    commands: NotRequired[str]
    key: NotRequired[list[str]]
    distinct: NotRequired[bool]
    static: NotRequired[bool]
    append_only: NotRequired[bool]
    weight: NotRequired[StoredWeight]


class StoredVersion(TypedDict):
    """The columns of a source at one time, with the numbers that they have for good."""

    schema: str
    numbers: list[int]


class StoredVersions(TypedDict):
    """The first versions of a source's columns, as a whole; ``defaults`` are by number, each a record batch."""

    versions: list[StoredVersion]
    defaults: NotRequired[dict[str, str]]


class StoredColumn(TypedDict):
    """A column that a version has anew or in another form, with its place among the columns."""

    place: int
    number: int
    schema: str


class StoredChange(TypedDict):
    """What a later version of a source's columns has that the version before it has not; ``defaults`` as there."""

    gone: NotRequired[list[int]]
    columns: NotRequired[list[StoredColumn]]
    defaults: NotRequired[dict[str, str]]


class StoredStream(TypedDict):
    """How far a stream was read."""

    query: str | None
    batch: int
    plan: str | None
    piece: int
    of: int
    rows: int
    late: int
    seen: int | None
    whole: int | None
    delay: int | None


class StoredDefinition(TypedDict):
    """What a statement has defined; ``columns`` and ``raw`` of sources."""

    kind: Literal["SOURCE", "TABLE", "VIEW", "MATERIALIZED VIEW", "INDEX", "SINK", "FUNCTION", "SCHEMA"]
    name: str
    text: str
    order: int
    columns: NotRequired[str]
    raw: NotRequired[str]
    indexes: NotRequired[dict[str, list[list[str]]]]
    versions: NotRequired[dict[str, int]]
    altered: NotRequired[list[str]]
    unfilled: NotRequired[bool]
    key: NotRequired[list[str]]
    path: NotRequired[list[str]]
    told: NotRequired[dict[str, str | None]]


class StoredSession(TypedDict, total=False):
    """What a store knows of a session as a whole."""

    shards: int
    since: int
    events: int
    filled: list[str]
    began: int
    open: bool
    closed: list[str]
    released: list[str]


State: TypeAlias = Mapping[str, Json]
"""All values of a commit, by key."""


def views_in(state: State) -> dict[str, StoredView]:
    """The views of a commit, by name."""
    return {key[5:]: cast(StoredView, value) for key, value in state.items() if key.startswith("view/")}


def sources_in(state: State) -> dict[str, StoredSource]:
    """The sources of a commit whose rows are retained, by name."""
    return {key[5:]: cast(StoredSource, value) for key, value in state.items() if key.startswith("kept/")}


def versions_in(state: State) -> dict[str, StoredVersions]:
    """The first versions of the columns of sources of a commit, by name."""
    return {key[7:]: cast(StoredVersions, value) for key, value in state.items() if key.startswith("schema/")}


def column_changes_in(state: State) -> dict[str, dict[int, StoredChange]]:
    """The changes of the columns of sources of a commit, by name and by their places among all versions."""
    found: dict[str, dict[int, StoredChange]] = {}
    for key, value in state.items():
        if key.startswith("columns/"):
            name, _, place = key[8:].rpartition("/")
            found.setdefault(name, {})[int(place)] = cast(StoredChange, value)
    return found


def streams_in(state: State) -> dict[str, StoredStream]:
    """The streams of a commit, by name."""
    return {key[7:]: cast(StoredStream, value) for key, value in state.items() if key.startswith("stream/")}


def definitions_in(state: State) -> dict[str, StoredDefinition]:
    """The definitions of a commit, by name in lower case."""
    return {key[4:]: cast(StoredDefinition, value) for key, value in state.items() if key.startswith("sql/")}


def arrangements_in(state: State) -> Iterator[tuple[str, int, StoredState]]:
    """The arrangements of a commit, by name and shard."""
    for key, value in state.items():
        if key.startswith("arrangement/"):
            _, name, shard = key.split("/")
            yield name, int(shard), state_of(value)


def session_in(state: State) -> StoredSession:
    """What a commit says of the session; nothing before the first step."""
    return cast(StoredSession, state.get("session", {}))


def lower_in(frontier: Json) -> int:
    """The least time of a commit's frontier that is not closed."""
    return cast(Frontier, frontier)[0][0] if frontier else 0


def own_in(frontier: Json) -> tuple[int, ...]:
    """The least of rows' own times of a commit's frontier that are not closed; empty where none ever was closed.

    >>> own_in([[5]]), own_in([[5, 3]])
    ((), (3,))
    """
    return tuple(cast(Frontier, frontier)[0][1:]) if frontier else ()


class StoredMessage(TypedDict):
    """What a ``MessageRef`` has, by name."""

    rows: int
    data: NotRequired[Data]
    part: NotRequired[int]
    old: NotRequired[list[StoredBatch]]


class StoredOutcome(TypedDict):
    """What a task of Spark has done (``Outcome``); nodes are texts, because they are keys."""

    states: list[tuple[str, int, StoredState]]
    new: dict[str, list[StoredBatch]]
    inspected: dict[str, Data]
    received: dict[str, int]
    sent: list[tuple[int, int, StoredMessage]]
    slices: list[tuple[str, int, list[StoredBatch]]]
    passed: int
    measured: dict[int, list[float]]


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

    def to_json(self) -> StoredMessage:
        """What it has, by name.

        >>> MessageRef(3, {"blob": "b1"}, part=0).to_json()
        {'data': {'blob': 'b1'}, 'part': 0, 'rows': 3}
        """
        given = {"old": None if self.old is None else list(self.old), "data": self.data, "part": self.part}
        return cast(StoredMessage, {**{k: v for k, v in given.items() if v is not None}, "rows": self.rows})

    @classmethod
    def from_json(cls, value: StoredMessage) -> MessageRef:
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


def changes_of(value: object) -> StoredChanges | None:
    """A value of a commit, under the key of a view's last changes, as what it is; None where there are none."""
    return cast(StoredChanges | None, value)
