"""Windows over event time, built from temporal filters (docs/windows.md is a tutorial).

An event has a time of its own, ``at``, in ticks of the session's time; it may arrive later, and events may arrive in
any order. A window is an interval ``[start, end)`` of event times. ``sliding`` shows, at every tick, the events of the
last ``length`` ticks. The other functions divide time into windows, or events into sessions, and show the events of a
window, or results computed from them, once the window has ended.

*Grace* is the number of ticks for which a window waits for late events. After that, the window is shown for ``keep``
ticks; an event that arrives meanwhile corrects what is shown, and one that arrives later never appears. An event that
arrives before its own time waits for it. An event whose time is null is in no window; one whose window exceeds 64 bits
is an error row. (SQL's window functions, such as ``rank() OVER (…)``, are ``Collection.window``.)

>>> import altneu as an
>>> clicks = an.source("clicks", "user string, at long")
>>> with an.Session() as session:
...     hourly = (
...         an.windows.tumbling(clicks, "at", 3600, grace=60).group_by("window_start").agg(n="count(*)")
...     )
...     view = session.maintain("hourly", hourly)
...     session.insert("clicks", [("ada", 10), ("bob", 20), ("ada", 3700)])
...     _ = session.advance(to=3661)
...     view.to_pylist(), view.changes()["time"].to_pylist()
([(0, 2)], [3660])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

from altneu.collections.collection import Collection
from altneu.collections.verbs import LinearVerbs
from altneu.errors import PlanError, TypeMismatchError
from altneu.expressions import Col
from altneu.expressions.parse import tree_of
from altneu.types import LONG, quote_name, type_name

At: TypeAlias = str | Col
Linear = TypeVar("Linear", bound=LinearVerbs)
"""A collection or a ``Logic``; the result is of the same type."""

__all__ = ["hopping", "session_windows", "sliding", "tumbling"]


def sliding(events: Linear, at: At, length: int, *, grace: int = 0) -> Linear:
    """The events of the last ``length`` ticks: at every time ``now``, those with ``now - length < at <= now``.

    With ``grace`` the window shown at ``now`` is that of ``now - grace``, which is complete if no event was later than
    ``grace``. A later event appears when it arrives, for the rest of its time.

    Shape:  the same columns; each event disappears by itself.
    Cost:   linear: no exchange, no state; the retraction of each event waits, in the operator that needs it, until it
            is due. Later operators keep the events of one window only.
    Law:    the definition holds at every time, for every order of arrival (tests/session/test_windows.py).

    Raises:
        PlanError: the length is below 1, or the grace is negative.
        TypeMismatchError: ``at`` is not a whole number.
    """
    _whole(length=(length, 1), grace=(grace, 0))
    return events.temporal(_plus(at, grace), _plus(at, grace + length))


def tumbling(
    events: Linear,
    at: At,
    length: int,
    *,
    grace: int = 0,
    keep: int | None = None,
    early: bool = False,
    offset: int = 0,
) -> Linear:
    """Assign each event to its window of ``length`` ticks, in the columns ``window_start`` and ``window_end``.

    Windows begin at the multiples of ``length``, moved by ``offset``. Events appear at ``window_end + grace``, so that
    results computed from a window appear once and complete (with ``early=True``: as they arrive). They disappear
    ``keep`` ticks later (None: never).

    Shape:  two more columns, of type bigint.
    Cost:   linear: no exchange, no state; an event waits until its window is shown, and then its retraction until the
            window disappears. Later operators keep the windows that are shown: with ``keep=None`` all windows ever.
    Law:    as ``sliding``.

    Raises:
        PlanError: the length or keep is below 1, or the grace is negative.
        TypeMismatchError: ``at`` is not a whole number.
        SchemaError: a column ``window_start`` or ``window_end`` exists already.
    """
    _whole(length=(length, 1))
    placed = events.select("*", window_start=_last_start(at, length, offset))
    return _shown(placed.select("*", window_end=_plus("window_start", length)), at if early else None, grace, keep)


def hopping(
    events: Linear,
    at: At,
    length: int,
    every: int,
    *,
    grace: int = 0,
    keep: int | None = None,
    early: bool = False,
    offset: int = 0,
) -> Linear:
    """Assign each event to all its windows, of which one of ``length`` ticks begins at every multiple of ``every``.

    If ``every`` is less than ``length`` the windows overlap, and an event occurs ``length / every`` times; if it is
    greater there are gaps, and an event in a gap is dropped. Everything else is as in ``tumbling``.

    Shape:  two more columns, ``window_start`` and ``window_end``.
    Cost:   as ``tumbling``, for each window of an event.
    Law:    as ``sliding``; with ``every=length`` the result is that of ``tumbling``.

    Raises:
        PlanError, TypeMismatchError, SchemaError: as ``tumbling``.
    """
    _whole(length=(length, 1), every=(every, 1))
    last, after = _last_start(at, every, offset), f"{_plus(at, 1)} - {length}L"
    placed = events.generate_series(last, after, f"-{every}L", as_="window_start")
    return _shown(placed.select("*", window_end=_plus("window_start", length)), at if early else None, grace, keep)


def session_windows(
    events: Collection,
    at: At,
    gap: int,
    per: str | Sequence[At] = (),
    *,
    grace: int = 0,
    keep: int | None = None,
    early: bool = False,
    longest: int | None = None,
) -> Collection:
    """The sessions of each ``per``: intervals in which events follow each other within less than ``gap`` ticks.

    A session ends at ``window_end``, ``gap`` ticks after its last event; an event at that time or later begins another
    session. Sessions are shown from ``window_end + grace`` on (with ``early=True``: as they grow), for ``keep`` ticks
    (None: for ever). A late event between two sessions may merge them.

    Shape:  columns ``per``, ``window_start``, ``window_end``, ``count``: one row for each session.
    Cost:   one exchange by ``per``. The times of the events are kept, and those of one ``per`` are read again whenever
            one of them is added or removed. An event is removed ``longest`` ticks after the time at which a session
            that ends with it would disappear; without ``longest``, never. A session that is longer loses its beginning.
    Law:    as ``sliding``.

    Raises:
        PlanError: gap, keep or longest is below 1, the grace is negative, ``longest`` is given without ``keep``, or
            ``events`` is a ``Logic``.
        TypeMismatchError: ``at`` is not a whole number.
    """
    if not isinstance(events, Collection):
        raise PlanError(
            f"session_windows groups rows and needs a collection, got {events!r}: "
            "session_windows(rows.join_function(logic), ...)"
        )
    _whole(gap=(gap, 1))
    until = None
    if longest is not None:
        if keep is None:
            raise PlanError(
                f"longest={longest} drops events whose session would stay in the view for ever; give keep=ticks too"
            )
        _whole(longest=(longest, 1), grace=(grace, 0), keep=(keep, 1))
        until = _plus("window_start", gap + grace + keep + longest)
    times = events.select(*([per] if isinstance(per, str) else per), window_start=_plus(at, 0))
    if (kind := times.schema.field("window_start").type) != LONG:
        raise TypeMismatchError(f"the time of an event must be a whole number of ticks, got {type_name(kind)}")
    present = times.filter("window_start is not null")
    if early or until is not None:  # a session that is shown only after its end need not wait for its beginning
        present = present.temporal("window_start" if early else None, until)
    groups = present.group_by(*map(quote_name, times.columns[:-1]))
    sessions = groups.reduce(_sessions(gap), "window_start long, window_end long, count long")
    return _shown(sessions, "window_start" if early else None, grace, keep)


def _sessions(gap: int) -> Callable[[Any, list[tuple[Any, int]]], Iterator[tuple[int, int, int]]]:
    """Start, end and number of events of each session, from the times of one group in their order."""

    def sessions(_: object, times: list[tuple[Any, int]]) -> Iterator[tuple[int, int, int]]:
        start = end = times[0][0].window_start
        count = 0
        for (at,), n in times:
            if count and at >= end:
                yield start, end, count
                start, count = at, 0
            end, count = at + gap, count + n
        yield start, end, count

    return sessions


def _shown(windows: Linear, begin: At | None, grace: int, keep: int | None) -> Linear:
    """Each window while it is shown: from ``begin`` on, or from its end plus the grace."""
    _whole(grace=(grace, 0), keep=(1 if keep is None else keep, 1))
    lower = _plus("window_end", grace) if begin is None else begin
    return windows.temporal(lower, None if keep is None else _plus("window_end", grace + keep))


def _last_start(at: At, every: int, offset: int) -> str:
    """The beginning of the last window that begins at or before a time."""
    _whole(offset=(offset, None))
    return f"{_plus(at, 0)} - pmod({_plus(at, 0)} - {offset % every}L, {every}L)"


def _plus(at: At, ticks: int) -> str:
    """An expression plus a number of ticks, as a bigint."""
    return f"({at if isinstance(at, str) else tree_of(at).sql(dialect='spark')}) + {ticks}L"


def _whole(**numbers: tuple[object, int | None]) -> None:
    """Check that arguments are whole numbers, not below their minimum.

    Raises:
        PlanError: one is not; the message names it.
    """
    for name, (value, least) in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
            expected = "a whole number of ticks" + ("" if least is None else f" from {least} on")
            raise PlanError(f"{name} must be {expected}, got {value!r}")
