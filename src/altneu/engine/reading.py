"""What can be read of a view: at which times, and which changes between them; the same for sessions and readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Ints
from altneu.engine.subscribers import Subscribers
from altneu.errors import AltneuError, HistoryGoneError, NotYetKnownError, ReadError, SchemaError
from altneu.operators.node import Node
from altneu.order import LARGEST, Antichain
from altneu.plan.physical import ViewPorts
from altneu.runtime.inputs import whole_number
from altneu.runtime.pieces import at_once, between
from altneu.runtime.read import At
from altneu.runtime.state import StateTable
from altneu.runtime.stored import StoredView
from altneu.trace.batch import Batch, reaches
from altneu.trace.update import Updates

Time = int | tuple[int | None, ...] | None
Lock = AbstractContextManager[object]
"""What is held while something is read."""


ASKED = "the query"  # what is answered once has no name of its own


@dataclass(frozen=True)
class Known:
    """What is known and kept of a view.

    Shape:  it can be read at times from ``since`` up to but not including ``lower``; its changes are distinguished
            after ``since``, and from ``began`` on, where the last advance began; of a second time from ``events`` on.
    """

    view: str
    lower: int
    since: int
    began: int
    events: int
    coordinates: tuple[str, ...] | None
    remedy: str
    functions: tuple[str, ...] = ()  # the Python functions that its rows come through
    alike: int = 0  # from when on other arrangements of its rows can be read in place of its contents
    frontier: Callable[[], Antichain] | None = None  # the times at which it may change again; None: at any open one
    node: Node | None = None  # its plan, whose columns errors of rows name; None: not known
    closing: str = "advance(to={}) closes it"  # what closes the time before the one in its place

    def arrangements(self, alike: Sequence[str], at: At) -> Sequence[str]:
        """Those of the arrangements of its rows, contents first, that can be read at a time."""
        return alike if at[0] >= self.alike else alike[:1]

    @property
    def doubt(self) -> str:
        """Another cause of a negative count than a retraction of a missing row; "" if there is none."""
        if not self.functions:
            return ""
        which = "one of the Python functions" if len(self.functions) > 1 else "the Python function"
        return f"{which} {', '.join(self.functions)} returned other rows at the retraction than at the insertion"

    @property
    def title(self) -> str:
        """What errors call it."""
        return self.view if self.view == ASKED else f"view {self.view!r}"

    def readable(self, at: Time) -> At:
        """The time to read at, coordinate by coordinate, checked against the readable times.

        A view with two times can be read at every retained event time. Where event times are closed, that may be at a
        time to come: nothing changes there any more, unless something waits or comes from sources with one time.

        Raises:
            HistoryGoneError: the time is before ``since``, or the event time is no longer retained.
            NotYetKnownError: the time is at or beyond the frontier.
        """
        rest: At = ()
        if self.coordinates is not None:
            names = self.coordinates[1:]
            if isinstance(at, tuple) and len(at) != 1 + len(names):
                raise ReadError(f"at={at!r} must be one time, or one for each of {', '.join(self.coordinates)}")
            at, *own = at if isinstance(at, tuple) and len(at) == 1 + len(names) else (at, *[None] * len(names))
            rest = tuple(
                LARGEST if event is None else self._closed_event(whole_number(event, f"at ({name})"))
                for name, event in zip(names, own, strict=True)
            )
        if at is None:
            return max(self.lower - 1, self.since), *rest
        at = whole_number(at, "at")
        if at >= self.lower and not self._is_final((at, *rest)):
            raise NotYetKnownError(
                f"at={at} is not closed yet: the last closed time is {self.lower - 1}; {self.closing.format(at + 1)}"
            )
        if at < self.since:
            raise HistoryGoneError(
                f"at={at} is no longer retained: {self.title} can be read from {self.since} to {self.lower - 1}; "
                f"{self.remedy}"
            )
        return at, *rest

    def _is_final(self, at: At) -> bool:
        """Whether nothing changes any more at a time that the session has not closed."""
        if self.frontier is None or self.coordinates is None or at[0] > LARGEST:
            return False
        return not self.frontier().less_equal(np.array(at, np.int64)[:, None])[0]

    def _closed_event(self, event: int) -> int:
        if event < self.events:
            raise HistoryGoneError(
                f"event time {event} is no longer retained: {self.title} can be read about {self.events} "
                "or later, which includes all earlier events; Session(retain_events=...) keeps more"
            )
        return min(event, LARGEST)

    def range_after(self, since: int, until: int | None) -> tuple[int, int]:
        """The times after ``since`` up to and including ``until``, as a half-open interval.

        Raises:
            NotYetKnownError: one of them is not closed yet.
        """
        since = whole_number(since, "since")
        until = self.lower - 1 if until is None else whole_number(until, "until")
        for name, time in (("since", since), ("until", until)):
            if time >= self.lower and time >= 0:
                raise NotYetKnownError(f"{name}={time} is not closed yet: the last closed time is {self.lower - 1}")
        return since + 1, max(until, since) + 1

    def distinguishes(self, start: int) -> bool:
        """Whether the contents distinguish the changes at ``start`` and later from earlier ones."""
        return self.since < max(start, 1)

    def history_gone(self, start: int) -> HistoryGoneError:
        """The error for changes that are compacted."""
        return HistoryGoneError(
            f"changes since {start - 1} are no longer retained: {self.title} has them since "
            f"{min(self.since, self.lower - 1)}, up to {self.lower - 1}; {self.remedy}"
        )


def least_readable(view: StoredView, since: int, lower: int) -> int:
    """The least time at which a view can be read, in a session that is closed up to ``lower`` and retains ``since``.

    A view with ``retain`` keeps more history than the session, beginning at the time when ``retain`` was given.
    """
    least = max(since, int(view["since"]))
    if "retain" not in view:
        return least
    times, start = view["retain"]["times"], view["retain"]["start"]
    return min(least, start if times == "all" else max(start, lower - 1 - times))


OnErrors = Literal["raise", "ignore"]


def check_on_errors(errors: object, refused: type[AltneuError]) -> None:
    """Refuse what says neither to raise the errors of a view nor to ignore them."""
    if errors not in ("raise", "ignore"):
        raise refused(f'errors must be "raise" or "ignore", got {errors!r}')


class Readable(Protocol):
    """A view, as an engine reads it for Spark."""

    name: str

    def to_arrow(self, at: Time = None, errors: OnErrors = "raise") -> pa.Table:
        """Its contents at a time."""

    def raise_errors(self, at: At) -> None:
        """Raise if it has errors at a time."""


class StateOfViews(Protocol):
    """The state from which contents and errors of views are read."""

    @property
    def lock(self) -> Lock:
        """Held while something is read."""

    @property
    def table(self) -> StateTable:
        """The state of every arrangement."""

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept."""

    def arrangements(self, name: str) -> Sequence[str]:
        """The arrangements that have all rows of a view, its contents first."""

    def known(self, name: str) -> Known:
        """What is known and kept of a view."""


class Readings(StateOfViews, Protocol):
    """The source for reading and following views: a session, or a reader of its store."""

    @property
    def store_id(self) -> str:
        """An id of the store."""

    def history_id(self, name: str) -> str:
        """An id of the history of a view: that of the store, and the commit that added the view."""

    @property
    def forked_from(self) -> AbstractSet[str]:
        """The ids of the stores of which the store is a fork."""

    def frontier(self, name: str) -> Antichain:
        """The times at which a view may change again."""

    def keep_for(self, name: str, since: int, lease: float | str) -> None:
        """Retain the history after a time for an external reader, under a name, while the lease is valid."""

    @property
    def subscribers(self) -> Subscribers:
        """The subscribers to changes."""

    def coordinates(self, name: str) -> tuple[str, ...] | None:
        """The names of the two times of a view; None if it has one time."""

    def last_changes(self, name: str) -> Updates:
        """The updates of a view in the last advance."""

    def updates(self, name: str, start: int, end: int) -> Updates:
        """The updates of a view at times from ``start`` up to but not including ``end``."""

    def frame(self, view: Readable, at: Time, errors: OnErrors) -> Any:  # this module does not know Spark
        """A view's contents as a Spark DataFrame."""


def refuse_without_contents(ports: ViewPorts, name: str) -> None:
    """Refuse to read the contents of a view without contents.

    Raises:
        ReadError: the view has no contents; names the view, and says what can be read.
    """
    if ports.changes_only:
        raise ReadError(
            f"view {name!r} is maintained with contents=False, so its rows are not stored; changes(), subscriptions "
            "and sinks return its changes. To read its rows, drop the view and maintain it with contents, from its "
            "first row on"
        )


def changes(table: StateTable, name: str, known: Known, start: int, end: int, last: Callable[[], Updates]) -> Updates:
    """The updates of an arrangement from ``start`` up to but not including ``end``, each at its own time.

    ``last`` gives those of the last advance.
    Cost:   the changes of the last advance, or the times in all batches that reach beyond ``start``.

    Raises:
        HistoryGoneError: they are compacted.
    """
    if start >= known.began:
        return between(last(), start, end)
    if known.distinguishes(start):
        return history(table, name, start, end)
    raise known.history_gone(start)


def history(table: StateTable, name: str, start: int, end: int) -> Updates:
    """The updates of an arrangement at these times, over all shards."""
    layout = table.layouts[name]
    parts = []
    for shard in table.shards_of(name):
        state = table.get(name, shard)
        if state is not None:
            parts += [between(b.updates(), start, end) for b in state.spine.batches if reaches(_upper(b), start)]
    return Updates.concat(parts, layout.schema, layout.lattice.width)


def snapshot(table: StateTable, name: str, time: int) -> Updates:
    """The contents of an arrangement at a time, over all shards, as updates at that time."""
    layout = table.layouts[name]
    states = [state for shard in table.shards_of(name) if (state := table.get(name, shard)) is not None]
    parts = [at_once(state.spine.batches, layout, time) for state in states]
    return Updates.concat(parts, layout.schema, layout.lattice.width)


def _upper(batch: Batch) -> Ints:
    return batch.description.upper.elements


class Followed:
    """A view as its followers see it: its updates between times, and the form in which they are delivered."""

    def __init__(self, readings: Readings, name: str) -> None:
        self._readings, self.name = readings, name

    @property
    def lock(self) -> Lock:
        """Held while something is read."""
        return self._readings.lock

    @property
    def history_id(self) -> str:
        """An id of the view's history, which differs from that of another view that had its name."""
        return self._readings.history_id(self.name)

    @property
    def forked_from(self) -> AbstractSet[str]:
        """The ids of the stores of which the view's is a fork."""
        return self._readings.forked_from

    @property
    def known(self) -> Known:
        """The times at which the view can be read."""
        return self._readings.known(self.name)

    @property
    def changes_only(self) -> bool:
        """Whether the view has no contents, and so no snapshot."""
        return self._readings.ports(self.name).changes_only

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""
        return self._readings.ports(self.name).schema

    def hold(self, name: str, since: int, lease: float | str) -> None:
        """Retain the history after a time for an external reader, under a name, while the lease is valid."""
        self._readings.keep_for(name, since, lease)

    def updates(self, start: int, end: int) -> Updates:
        """The updates at times from ``start`` up to but not including ``end``, in no order.

        Raises:
            HistoryGoneError: they are compacted.
        """
        with self.lock:
            return self._readings.updates(self.name, start, end)

    def snapshot(self, time: int) -> Updates:
        """The contents at a time, as updates at that time; the second of two times is retained."""
        with self.lock:
            ports = self._readings.ports(self.name)
            refuse_without_contents(ports, self.name)
            self.known.readable(time)
            return snapshot(self._readings.table, ports.contents, time)

    def time_names(self, time_column: str | None = None) -> tuple[str, ...]:
        """The names of the time columns."""
        names: tuple[str, ...] = self._readings.coordinates(self.name) or ("time",)
        if time_column is None or len(names) == 1:
            return names if time_column is None else (time_column,)
        return time_column, *(
            (f"{time_column}_event",) if len(names) == 2 else (f"{time_column}_{n}" for n in names[1:])
        )

    def check_names(self, names: Sequence[str]) -> None:
        """Refuse control columns with the name of a column of the view, or with equal names.

        Raises:
            SchemaError: naming it.
        """
        taken = {name.lower() for name in self.schema.names}
        for i, column in enumerate(names):
            if column.lower() in taken or column in names[:i]:
                raise SchemaError(
                    f"the view has a column {column!r}; name the control columns: "
                    "changes(time_column=..., diff_column=...)"
                )

    def as_table(self, updates: Updates) -> pa.Table:
        """Updates as ``changes()`` shows them."""
        names = self.time_names()
        self.check_names((*names, "diff"))
        return updates_table(updates, names, "diff")


def updates_table(updates: Updates, times: Sequence[str], diff: str) -> pa.Table:
    """Updates as a table: the row's columns, those of its times, its diff."""
    columns = [*updates.rows.columns, *map(pa.array, updates.times[: len(times)]), pa.array(updates.diffs)]
    fields = [*updates.schema, *(pa.field(n, pa.int64()) for n in (*times, diff))]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
