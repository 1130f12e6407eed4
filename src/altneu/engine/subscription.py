"""Subscriptions: the changes of a view, time by time, passed to functions or returned by iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import record_type
from altneu.engine.closing import Closing
from altneu.engine.reading import Followed
from altneu.errors import ReadError
from altneu.runtime.inputs import whole_number
from altneu.trace.update import Updates

Form = Literal["rows", "arrow"]
OnChange = Callable[..., object]
OnTimeEnd = Callable[[int], object]


class Subscription(Closing):
    """The changes of a view from a time on; created by ``view.subscribe``.

    Times are delivered in order, each one completely. Within a time, removed rows come before added rows; their order
    is otherwise undefined. ``position`` is the least time that has not been delivered. If a function raises, or a loop
    ends early, that time is delivered again: every update is delivered at least once. While a subscription is open, its
    session retains the history after ``position``; a session's subscription ends with the session.
    """

    def __init__(
        self,
        view: Followed,
        on_change: OnChange | None,
        on_time_end: OnTimeEnd | None,
        *,
        snapshot: bool | None,
        as_of: int | None,
        up_to: int | None,
        form: Form,
    ) -> None:
        if form not in ("rows", "arrow"):
            raise ReadError(f'form must be "rows" or "arrow", got {form!r}')
        for name, function in (("on_change", on_change), ("on_time_end", on_time_end)):
            if function is not None and not callable(function):
                raise ReadError(f"{name} must be a function, got {function!r}")
        known = view.known
        start = known.lower - 1 if as_of is None else whole_number(as_of, "as_of")
        if as_of is not None and as_of < known.lower:
            known.readable(start)  # or it is gone
        self.up_to = None if up_to is None else whole_number(up_to, "up_to")
        if self.up_to is not None and self.up_to < start:
            raise ReadError(f"up_to={self.up_to} is before as_of={start}: a subscription goes from as_of to up_to")
        self.view, self._on_change, self._on_time_end, self._form = view, on_change, on_time_end, form
        if snapshot and view.changes_only:
            raise ReadError(
                f"view {view.name!r} has contents=False and therefore no snapshot; leave snapshot out, "
                "and the subscription delivers the changes"
            )
        snapshot = not view.changes_only if snapshot is None else snapshot
        self._snapshot = start if snapshot and start >= 0 else None  # the time of the snapshot that is still to come
        self.position = start if self._snapshot is not None else start + 1
        self.closed = self.up_to is not None and self.position >= self.up_to

    def __repr__(self) -> str:
        return f"Subscription({self.view.name}, {'closed' if self.closed else f'at {self.position}'})"

    @property
    def name(self) -> str:
        """The view's name."""
        return self.view.name

    @property
    def pushes(self) -> bool:
        """Whether there is a function to call."""
        return self._on_change is not None or self._on_time_end is not None

    @property
    def begins_with_snapshot(self) -> bool:
        """Whether a snapshot is still to be delivered."""
        return self._snapshot is not None

    @property
    def since(self) -> int:
        """The time after which the subscription still needs the view's history."""
        return max(self.position if self._snapshot is not None else self.position - 1, 0)

    def close(self) -> None:
        """Deliver nothing more; closing twice has no further effect."""
        self.closed = True

    def poll(self) -> int:
        """Deliver newly closed times to the functions, and return the number of times that had changes.

        The session does this after each commit, a reader when it is refreshed.
        """
        delivered = 0
        for time, updates in self._due():
            if self._on_change is not None and len(updates):
                self._call(updates)
            if self._on_time_end is not None:
                self._on_time_end(time)
            delivered += bool(len(updates))
        return delivered

    def __iter__(self) -> Iterator[pa.Table]:
        """Iterate over newly closed times that had changes, one table per time, in the form of ``changes()``.

        It ends when no further time is closed; iterating again continues from there.
        """
        for _, updates in self._due():
            if len(updates):
                yield self._table(updates)

    def _due(self) -> Iterator[tuple[int, Updates]]:
        """Each closed time not yet delivered, with its updates; the last such time even if it has none.

        A time counts as delivered when the next one is requested.
        """
        end = self.view.known.lower
        end = end if self.up_to is None else min(end, self.up_to)
        if self._snapshot is not None and self._snapshot < end and not self.closed:
            yield self._snapshot, self.view.snapshot(self._snapshot)
            self.position, self._snapshot = self._snapshot + 1, None
        if self._snapshot is None and self.position < end and not self.closed:
            updates = self.view.updates(self.position, end)
            for time in sorted({*np.unique(updates.times[0]).tolist(), end - 1}):
                if self.closed:
                    return
                yield time, _retractions_first(updates.filter(np.asarray(updates.times[0] == time)))
                self.position = time + 1
        if self.up_to is not None and self.position >= self.up_to:
            self.close()

    def _call(self, updates: Updates) -> None:
        assert self._on_change is not None
        if self._form == "arrow":
            self._on_change(self._table(updates))
            return
        record: Any = record_type(updates.schema.names)
        times = (
            updates.times[0].tolist() if len(updates.times) == 1 else list(zip(*updates.times.tolist(), strict=True))
        )
        for row, time, diff in zip(updates.rows.to_pylist(), times, updates.diffs.tolist(), strict=True):
            self._on_change(record(row), time, diff)

    def _table(self, updates: Updates) -> pa.Table:
        return self.view.as_table(updates)


def _retractions_first(updates: Updates) -> Updates:
    return updates.take(np.argsort(updates.diffs > 0, kind="stable"))
