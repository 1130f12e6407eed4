"""Windows over event time: a few lines each on top of temporal filters (docs/windows.md teaches them).

An event has a time of its own, ``at``, in ticks of the session's time; it may come later than that, and in any order.
A window is a span ``[start, end)`` of such times. ``sliding`` shows the events of the last while at every tick; the
others cut time into pieces, or events into sessions, and show a window's events, or results of them, once it has ended.

*Grace* is how many ticks a window waits for late events. A window that has ended and waited is shown for ``keep``
ticks, and what comes for it meanwhile corrects what is shown; what comes later still never appears. An event that comes
ahead of its time waits for it. One whose time is null is in no window; one whose window leaves 64 bits is an error row.
(SQL's window functions, ``rank() OVER (…)`` and its like, are ``Collection.window``.)

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
"""A collection or a ``Logic``; the same comes back."""

__all__ = ["hopping", "session_windows", "sliding", "tumbling"]


def sliding(events: Linear, at: At, length: int, *, grace: int = 0) -> Linear:
    """The events of the last ``length`` ticks: at every time ``now``, those with ``now - length < at <= now``.

    With ``grace`` the window shown at ``now`` is the one of ``now - grace``, and complete if no event was later than
    ``grace``. A later event appears when it comes, for what is left of its time.

    Shape:  each event becomes one that goes by itself; no column is added.
    Cost:   linear: no exchange, no state; each event's retraction is held, where it is needed, until it is due. What
            follows keeps the events of one window and no more.
    Law:    as defined, at every time and for every order of arrival (tests/session/test_windows.py).

    Raises:
        PlanError: a length below 1 or a negative grace.
        TypeMismatchError: ``at`` is no whole number.
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
    """The events with the one window of ``length`` ticks that each is in, as ``window_start`` and ``window_end``.

    Windows begin at the multiples of ``length``, moved by ``offset``. Events are shown from ``window_end + grace`` on,
    so that what is computed of a window appears once and whole (``early``: as they come); ``keep`` ticks after that
    they go (None: never).

    Shape:  two columns more, of type bigint.
    Cost:   linear: no exchange, no state; an event is held until its window is shown, and then its retraction until it
            goes. What follows keeps the windows that are shown: with ``keep=None`` all there ever were.
    Law:    as ``sliding``.

    Raises:
        PlanError: a length or a keep below 1, a negative grace.
        TypeMismatchError: ``at`` is no whole number.
        SchemaError: a column is called ``window_start`` or ``window_end`` already.
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
    """The events once for each window that they are in, where one of ``length`` ticks begins ``every`` so many.

    Where ``every`` is less than ``length`` the windows overlap, and an event comes out ``length / every`` times; where
    it is more there are gaps, and an event in one is in no window. All else is as in ``tumbling``.

    Shape:  two columns more, ``window_start`` and ``window_end``.
    Cost:   as ``tumbling``, for every window that an event is in.
    Law:    as ``sliding``; with ``every=length`` it is ``tumbling``.

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
    """The sessions of each ``per``: spans in which events follow each other by less than ``gap`` ticks.

    A session ends a gap after its last event, at ``window_end``, and an event then or later begins another. Sessions
    are shown from ``window_end + grace`` on (``early``: as they grow), for ``keep`` ticks (None: for ever). A late
    event that lies between two sessions makes one of them.

    Shape:  columns ``per``, ``window_start``, ``window_end``, ``count``: one row a session.
    Cost:   one exchange by ``per``; the times of the events are kept, and those of one ``per`` read again at every time
            at which one comes or goes. They go ``longest`` ticks after the session that they were the last event of
            would have; without ``longest``, never. A session that is longer loses its beginning.
    Law:    as ``sliding``.

    Raises:
        PlanError: a gap, a keep or a longest below 1, a negative grace; ``longest`` without ``keep``; a ``Logic``.
        TypeMismatchError: ``at`` is no whole number.
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
                f"longest={longest} drops events whose session would be shown for ever; give keep=ticks too"
            )
        _whole(longest=(longest, 1), grace=(grace, 0), keep=(keep, 1))
        until = _plus("window_start", gap + grace + keep + longest)
    times = events.select(*([per] if isinstance(per, str) else per), window_start=_plus(at, 0))
    if (kind := times.schema.field("window_start").type) != LONG:
        raise TypeMismatchError(f"the time of an event must be a whole number of ticks, got {type_name(kind)}")
    present = times.filter("window_start is not null")
    if early or until is not None:  # what is not shown before it has ended need not wait for its beginning
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
    """Each window while it is to be seen: from ``begin``, or once it has ended and waited."""
    _whole(grace=(grace, 0), keep=(1 if keep is None else keep, 1))
    lower = _plus("window_end", grace) if begin is None else begin
    return windows.temporal(lower, None if keep is None else _plus("window_end", grace + keep))


def _last_start(at: At, every: int, offset: int) -> str:
    """The beginning of the last window that begins at or before a time."""
    _whole(offset=(offset, None))
    return f"{_plus(at, 0)} - pmod({_plus(at, 0)} - {offset % every}L, {every}L)"


def _plus(at: At, ticks: int) -> str:
    """An expression that many ticks later, as a bigint whatever whole number it is."""
    return f"({at if isinstance(at, str) else tree_of(at).sql(dialect='spark')}) + {ticks}L"


def _whole(**numbers: tuple[object, int | None]) -> None:
    """Refuse what is no whole number of at least so many.

    Raises:
        PlanError: naming the argument.
    """
    for name, (value, least) in numbers.items():
        if not isinstance(value, int) or isinstance(value, bool) or (least is not None and value < least):
            expected = "a whole number of ticks" + ("" if least is None else f" from {least} on")
            raise PlanError(f"{name} must be {expected}, got {value!r}")
