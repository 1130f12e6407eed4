"""Feeds of updates ``(data, time, diff)``: messages in any order, possibly repeated, and progress messages."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from altneu.cdc.files import message_files, read_lines
from altneu.cdc.logic import members_of, reading
from altneu.cdc.messages import Progress, Refused, Update, read, show
from altneu.collections.collection import Collection
from altneu.collections.declaring import source
from altneu.engine.history import Step
from altneu.errors import InputError, PlanError
from altneu.operators.json.text import Unit
from altneu.runtime.inputs import whole_number
from altneu.store import LocalFolder, Location, folder_of

Span: TypeAlias = tuple[int, int]

_DATA, _TIME, _DIFF = "data", "time", "diff"


class Session(Protocol):
    """The part of ``altneu.Session`` that a feed uses."""

    @property
    def lock(self) -> Any:
        """Held while the feed inserts and the session advances."""

    @property
    def lower(self) -> int:
        """The time before which all times are closed."""

    def insert(self, source: str, data: Any, *, time: str, diff: str) -> None:
        """Add rows to a source, each at its own time and with its own diff."""

    def discard(self, source: str) -> None:
        """Discard the rows inserted since the last advance."""

    def advance(self, to: int) -> Step:
        """Close every time before ``to``."""


class Fed(Protocol):
    """What a session is fed from: updates at their own times, complete up to a frontier."""

    @property
    def name(self) -> str:
        """The source."""

    @property
    def frontier(self) -> int:
        """The time before which all times are complete."""

    def attach(self, session: Session) -> None:
        """Attach to a session: the times that it has closed are closed here, too."""

    def refresh(self) -> None:
        """Look for more."""

    def give(self, session: Session, before: int) -> None:
        """Insert the updates before a time that are not closed."""

    def close(self, before: int) -> None:
        """The session has closed the times before this one, and has their updates."""


class Feed:
    """A source whose updates arrive as messages, which may be repeated, delayed and reordered.

    A message is a JSON string, or the parsed value, with updates or with progress::

        {"updates": [[{"id": 7, "name": "Ada"}, 3, 1], [{"id": 7, "name": "Ada"}, 5, -1]]}
        {"progress": {"lower": 0, "upper": 6, "counts": [[3, 1], [5, 1]]}}

    An update consists of data, a time and a diff; equal updates count once. A progress message gives the number of
    distinct updates of each time in ``[lower, upper)``; times that it does not name have none. A time is complete when
    as many updates as its count have arrived.

    ``fields`` are names and types of the members of the data; members that no view reads are not parsed. ``start`` is
    the first time of the feed. ``path`` is a folder that ``an.sinks.feed`` writes: ``advance`` reads the new files, so
    that the session follows the writer's view and its frontier. Messages may also look as serde writes ``Message`` of
    the Rust crate: ``{"Updates": ...}`` and ``{"Progress": {"lower": [0], ...}}``.

    Units:  ``unit`` as for ``debezium``.
    Cost:   memory for updates and counts of times that are not closed. Of a folder, each file is read once, and those
            of closed times never: the list of names is read by each advance.
    Law:    the result does not depend on the order or repetition of messages (tests/session/test_cdc_feed.py).
    Source: McSherry, "Change data capture (part 1)", 2020; differential dataflow's capture.

    >>> import altneu as an
    >>> feed = an.cdc.Feed("people", "name string")
    >>> with an.Session() as session:
    ...     view = session.maintain("people", feed.collection)
    ...     feed.offer(['{"progress": {"lower": 0, "upper": 9, "counts": [[2, 1], [7, 1]]}}'])
    ...     feed.offer(['{"updates": [[{"name": "Ada"}, 2, 1]]}', '{"updates": [[{"name": "Ada"}, 2, 1]]}'])
    ...     step = feed.advance(session)  # of time 7 an update is missing
    ...     feed.frontier, step.upper, view.to_pylist()
    (7, 7, [('Ada',)])
    """

    def __init__(
        self, name: str, fields: str | pa.Schema, *, unit: Unit = "", start: int = 0, path: Location | None = None
    ) -> None:
        rows = source(name, f"{_DATA} string NOT NULL")
        self.name = name
        self.collection: Collection = rows.join_function(reading(_DATA, members_of(fields, unit)))
        self._lower = whole_number(start, "start")
        self._folder = None if path is None else folder_of(path)
        self._read = self._lower  # the files up to this time have been read
        self._session: Session | None = None
        self._updates: dict[int, set[tuple[str, int]]] = {}
        self._counts: dict[int, int] = {}
        self._known: list[Span] = []  # the times with progress: spans that do not touch, in order, none before lower

    @property
    def frontier(self) -> int:
        """The time before which all times are complete."""
        end = self._known[0][1] if self._known and self._known[0][0] == self._lower else self._lower
        missing = (t for t, n in self._counts.items() if t < end and len(self._updates.get(t, ())) < n)
        return min(missing, default=end)

    # messages -------------------------------------------------------------------------------------------------------

    def offer(self, messages: Iterable[object]) -> None:
        """Add messages, in any order; repeated ones have no effect.

        Raises:
            InputError: a message is malformed, or contradicts an earlier one. It is dropped, the messages before it are
                kept, and all may be offered again.
        """
        one = isinstance(messages, str | bytes | bytearray | Mapping)
        for number, message in enumerate([messages] if one else messages):
            try:
                said = read(message)
                if isinstance(said, Progress):
                    self._take_progress(said)
                else:
                    self._take_updates(said)
            except Refused as error:
                raise InputError(f"message {number} for feed {self.name!r}: {error} (it is {show(message)})") from None

    def refresh(self) -> None:
        """Offer the messages of the files that have come to the folder, if the feed has one.

        Raises:
            InputError: as ``offer``; the file is read again by the next call.
        """
        folder = self._folder
        if folder is None or (isinstance(folder, LocalFolder) and not folder.path.exists()):  # not written yet
            return
        for file in message_files(folder):
            if file.upper > max(self._read, self._lower):
                self.offer(read_lines(folder, file))
                self._read = file.upper

    def _take_updates(self, updates: list[Update]) -> None:
        fresh: dict[int, set[tuple[str, int]]] = {}
        for update in updates:
            if update.time >= self._lower:
                fresh.setdefault(update.time, set()).add((update.data, update.diff))
        fresh = {time: distinct - self._updates.get(time, set()) for time, distinct in fresh.items()}
        for time, distinct in fresh.items():
            if self._is_known(time):
                _check_count(time, len(self._updates.get(time, ())) + len(distinct), self._counts.get(time, 0))
        for time, distinct in fresh.items():
            self._updates.setdefault(time, set()).update(distinct)

    def _is_known(self, time: int) -> bool:
        at = bisect_right(self._known, time, key=itemgetter(0)) - 1
        return at >= 0 and time < self._known[at][1]

    def _take_progress(self, progress: Progress) -> None:
        lower, upper = max(progress.lower, self._lower), progress.upper
        if lower >= upper:
            return
        counts = {t: n for t, n in progress.counts.items() if t >= lower}
        first = bisect_left(self._known, lower, key=itemgetter(1))
        last = bisect_right(self._known, upper, key=itemgetter(0))
        for begin, end in self._known[first:last]:
            _check_agreement(self._counts, counts, max(begin, lower), min(end, upper))
        for time in _times_within(self._updates, lower, upper):
            _check_count(time, len(self._updates[time]), counts.get(time, 0))
        touched = [*self._known[first:last], (lower, upper)]
        self._known[first:last] = [(min(b for b, _ in touched), max(e for _, e in touched))]
        self._counts |= counts

    # steps ----------------------------------------------------------------------------------------------------------

    def advance(self, session: Session) -> Step | None:
        """Bring a session up to the frontier: see ``altneu.cdc.advance``, which does so for several feeds.

        Errors are those of ``altneu.cdc.advance``.
        """
        return advance(session, self)

    def attach(self, session: Session) -> None:
        """Attach to a session: the times that it has closed are closed here, too.

        Raises:
            InputError: the feed has another session, or this one has closed times without the feed's updates.
        """
        if self._session is None:
            self._session = session
            self.close(session.lower)
        if self._session is not session:
            raise InputError(f"feed {self.name!r} already feeds another session; make one Feed for each session")
        if session.lower > self._lower:
            raise InputError(
                f"the session has closed the times before {session.lower}, but feed {self.name!r} has given it only "
                f"those before {self._lower}: advance the feeds of a session together, an.cdc.advance(session, feed, …)"
            )

    def give(self, session: Session, before: int) -> None:
        """Insert the distinct updates before a time."""
        table = self._complete(before)
        if table.num_rows:
            session.insert(self.name, table, time=_TIME, diff=_DIFF)

    def _complete(self, before: int) -> pa.Table:
        """The distinct updates before a time: their data, times and diffs."""
        triples = [(data, time, diff) for time, some in self._updates.items() if time < before for data, diff in some]
        columns = zip(*triples, strict=True) if triples else ((), (), ())
        kinds = (pa.string(), pa.int64(), pa.int64())
        arrays = [pa.array(c, k) for c, k in zip(columns, kinds, strict=True)]
        return pa.table(arrays, names=[_DATA, _TIME, _DIFF])

    def close(self, before: int) -> None:
        """Drop the updates and counts before a time; further ones are duplicates."""
        self._lower = max(self._lower, before)
        self._updates = {t: some for t, some in self._updates.items() if t >= before}
        self._counts = {t: n for t, n in self._counts.items() if t >= before}
        self._known = [(max(begin, before), end) for begin, end in self._known if end > before]


def advance(session: Session, *feeds: Fed) -> Step | None:
    """Advance a session to the time before which all times of several feeds are complete.

    What ``session.source_from`` imports is fed with them. Feeds with a ``path`` first read the new files. The distinct
    updates of complete times are inserted, each at its own time, and the session advances; if no further times are
    complete, nothing happens and the result is None. The first advance starts at the session's frontier: after a
    restart from a store its closed times are complete, and messages about them, which may be repeated from the
    beginning, are duplicates. Feeds of one session must advance together.

    Cost:   that of ``Session.insert`` and ``Session.advance``.

    Raises:
        InputError: the session has closed times without a feed's updates; or ``offer`` refuses a message of a file.
        UnknownSourceError: no maintained view reads a feed. Errors of ``Session.advance`` are raised too; uncommitted
            updates stay with the feeds.
    """
    if not feeds:
        raise PlanError("advance needs a feed: an.cdc.advance(session, feed, …)")
    with session.lock:
        for feed in feeds:
            feed.attach(session)
            feed.refresh()
        before, upper = session.lower, min(feed.frontier for feed in feeds)
        if upper <= before:
            return None
        try:
            for feed in feeds:
                feed.give(session, upper)
            return session.advance(upper)
        finally:
            for feed in feeds:
                if session.lower > before:
                    feed.close(upper)
                else:
                    session.discard(feed.name)


def _times_within(table: Mapping[int, object], lower: int, upper: int) -> list[int]:
    """The keys in ``[lower, upper)``."""
    if upper - lower < len(table):
        return [t for t in range(lower, upper) if t in table]
    return [t for t in table if lower <= t < upper]


def _check_count(time: int, distinct: int, count: int) -> None:
    if distinct > count:
        raise Refused(f"there are {distinct} distinct updates at time {time}, but its count is {count}")


def _check_agreement(one: Mapping[int, int], other: Mapping[int, int], lower: int, upper: int) -> None:
    """Check that two progress messages agree on the times that they share."""
    for time in (*_times_within(one, lower, upper), *_times_within(other, lower, upper)):
        if one.get(time, 0) != other.get(time, 0):
            raise Refused(
                f"the count of time {time} is {other.get(time, 0)}, but an earlier message said {one.get(time, 0)}"
            )
