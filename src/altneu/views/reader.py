"""Reading a store that another session may be writing: without Spark, plans or locks."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa

from altneu.engine.closing import Closing
from altneu.engine.frontier import Closed
from altneu.engine.reading import Known, OnErrors, Readable, Time, least_readable, refuse_without_contents
from altneu.engine.subscribers import Subscribers
from altneu.errors import HistoryGoneError, PlanError, ReadError
from altneu.errors.nearest import did_you_mean
from altneu.order import Antichain, Epoch
from altneu.plan.functions import titles
from altneu.plan.physical import ViewPorts
from altneu.runtime.described import Described, is_changes_only, layout_from_json
from altneu.runtime.files import Files, from_ipc
from altneu.runtime.interrupts import Lock
from altneu.runtime.journal import stored_outputs
from altneu.runtime.pieces import Piece
from altneu.runtime.state import FutureSummary, StateTable
from altneu.runtime.stored import (
    Data,
    StoredDefinition,
    StoredLayout,
    arrangements_in,
    definitions_in,
    lower_in,
    own_in,
    session_in,
    views_in,
)
from altneu.store import Lease, Location, SegmentRef, Snapshot, StoreReader, fork_of, lease_end, lease_seconds
from altneu.trace.batch import Layout
from altneu.trace.update import Updates
from altneu.views.contents import summary
from altneu.views.trace import Trace
from altneu.views.view import View

Changed = tuple[Piece, int, int]  # the updates of a piece from one time up to but not including another

REMEDY = (
    "Session(retain=...) of the writer (altneu run --set retain=...) retains more, and so does a reader that is opened "
    "with since=... in time"
)


@dataclass(frozen=True)
class SnapshotFiles(Files):
    """Opens the data of one commit."""

    snapshot: Snapshot | None = None

    def open(self, data: Data) -> list[pa.RecordBatch]:
        """All record batches of a segment or blob.

        Raises:
            HistoryGoneError: its file was deleted.
        """
        if "blob" in data:
            return from_ipc(self.blob(data["blob"]))
        assert self.snapshot is not None
        return self.snapshot.open_segment(SegmentRef.from_json(data))


class SnapshotTable(StateTable):
    """The arrangements of one commit, each opened when it is first read; future updates are not opened."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot, Epoch(), durable=False)
        for name, shard, value in arrangements_in(snapshot.state):
            self.stored[name, shard] = {"batches": value["batches"], "hold": []}

    @property
    def files(self) -> Files:
        """The object that opens its data."""
        assert isinstance(self.store, Snapshot)
        return SnapshotFiles(self.store.segment_directory, self.blob, snapshot=self.store)


class CommitViews:
    """The views as of one commit, for reading only."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        known, self.lower = session_in(snapshot.state), lower_in(snapshot.frontier)
        self.closed = Closed(self.lower, own_in(snapshot.frontier), frozenset(known.get("closed", ())))
        self.since, self.events = int(known.get("since", 0)), int(known.get("events", 0))
        self.began = int(known.get("began", self.lower))
        self.views = views_in(snapshot.state)
        self.table = SnapshotTable(snapshot)
        self._described: dict[str, Described] = {}
        self._alike: dict[str, tuple[str, ...]] = {}
        self._below_zero: dict[str, str] = {}

    def described(self, name: str) -> Described:
        """The arrangements and layouts of a view.

        Raises:
            PlanError: there is no such view.
            ReadError: the commit lacks the description.
        """
        if name not in self._described:
            if name not in self.views:
                there_are = f"{', '.join(map(repr, self.views)) or '(none)'}{did_you_mean(name, self.views)}"
                raise PlanError(f"no view {name!r}; the views are: {there_are}")
            description = self.views[name].get("kept")
            if description is None:
                raise ReadError(
                    f"an older version of altneu wrote the store, without the layout of view {name!r}: open the store "
                    "once in a session of this version, maintain the view there, and advance"
                )
            self._described[name] = Described.from_json(description)
            self._described[name].open_in(self.table)
        return self._described[name]

    def arrangements(self, name: str) -> tuple[str, ...]:
        """The arrangements that have all rows of a view, its contents first: also indexes, and what other views keep.

        Cost:   for each commit a look at the descriptions of all arrangements.
        """
        if name not in self._alike:
            contents = self.described(name).ports.contents
            layout, rows = self.table.layouts[contents], self.described(name).rows.get(contents)
            kept = [view["kept"] for view in self.views.values() if "kept" in view]
            told = [view["contents"] for view in kept if not is_changes_only(view)]
            told += [arrangement for view in kept for arrangement in view.get("arrangements", ())]
            there = {arrangement for arrangement, _ in self.table.stored}
            alike = {own["arrangement"]: own for own in told if rows is not None and own.get("rows") == rows}
            for own in alike.values():
                self._open(own)
            others = (own for own in alike if own in there and own != contents)
            layouts = self.table.layouts
            fit = [own for own in others if _are_alike(layouts[own], layout)]
            self._alike[name] = (contents, *fit)
        return self._alike[name]

    def _open(self, arrangement: StoredLayout) -> None:
        """Let the table know an arrangement."""
        own, number = arrangement["arrangement"], arrangement.get("below_zero")
        self.table.layouts.setdefault(own, layout_from_json(arrangement))
        if number is not None:
            self._open(number)
            self._below_zero[own] = number["arrangement"]

    def below_zero(self, arrangement: str) -> str | None:
        """The arrangement that counts, for an ordered one of ``arrangements``, the rows with negative counts."""
        return self._below_zero.get(arrangement)

    def known(self, name: str) -> Known:
        """The times at which a view can be read, and what its errors say."""
        coordinates, view = self.described(name).coordinates, self.views[name]
        since = least_readable(view, self.since, self.lower)
        began = max(self.began, int(view.get("lower", self.lower)))
        functions = tuple(titles(view.get("functions", ())))
        return Known(
            name,
            self.lower,
            since,
            began,
            self.events,
            coordinates,
            REMEDY,
            functions,
            max(since, self.since),
            partial(self.frontier, name),
            closing="the session that writes the store closes it",
        )

    def frontier(self, name: str) -> Antichain:
        """The times at which a view may change again; of a commit of an earlier altneu, all that are not closed."""
        described, theirs = self.described(name), {*self.views[name]["arrangements"]}
        states = ((own, value) for own, _, value in arrangements_in(self.snapshot.state) if own in theirs)
        waiting = [FutureSummary.of_stored(value).least for _, value in states if value["hold"]]
        coordinates, unknown = described.coordinates or ("time",), {"": 1}
        sources = unknown if described.sources is None else described.sources
        return self.closed.frontier_of(len(coordinates), sources, waiting)

    def last(self, name: str) -> list[Piece]:
        """The changes of a view in the last advance, one split for each batch."""
        contents = self.described(name).ports.contents
        batches = stored_outputs(self.snapshot, contents, self.lower)
        return [Piece.of(self.snapshot, self.table.layouts[contents], [batch]) for batch in batches]

    def pieces(self, name: str) -> list[Piece]:
        """The contents of a view, one split for each shard."""
        contents = self.described(name).ports.contents
        values = [value for (arrangement, _), value in sorted(self.table.stored.items()) if arrangement == contents]
        return [Piece.of(self.snapshot, self.table.layouts[contents], value["batches"]) for value in values]


def _are_alike(one: Layout, other: Layout) -> bool:
    """Whether rows of two arrangements of one collection have the same columns and times."""
    return one.lattice.width == other.lattice.width and one.schema.equals(other.schema)


class StoreReadings(Closing):
    """The implementation of ``Reader``: the views of a store as of its last commit, read by ``View``."""

    def __init__(
        self,
        path: Location,
        *,
        lease: float | str | None = "1 hour",
        since: int | None = None,
        shared: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.lock = Lock()
        self._since = since
        self.subscribers = Subscribers()
        self._store = StoreReader(path, lease=lease, since=since, shared=shared, storage_options=storage_options or {})
        self._commit_views = CommitViews(self._store.snapshot)

    @property
    def where(self) -> str:
        """The store's address."""
        return self._store.where

    @property
    def commit(self) -> int:
        """Number of the commit that is read."""
        return self._commit_views.snapshot.number

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed."""
        return self._commit_views.lower

    @property
    def views(self) -> list[str]:
        """Names of the views."""
        return list(self._commit_views.views)

    @property
    def definitions(self) -> Mapping[str, StoredDefinition]:
        """The definitions that SQL statements made, by name (docs/format.md)."""
        return definitions_in(self._commit_views.snapshot.state)

    @property
    def table(self) -> StateTable:
        """The state of every arrangement."""
        return self._commit_views.table

    def refresh(self) -> bool:
        """Move to the last commit; returns whether there was a new one."""
        with self.lock:
            advanced, history = self._store.refresh(), self.store_id
            if advanced:
                self._commit_views = CommitViews(self._store.snapshot)
            if self.store_id != history and self.subscribers.since is not None:
                self.subscribers.end()
                raise HistoryGoneError(
                    f"the store {self._store.where} went back to an earlier commit after damage and lost the later "
                    "changes that subscriptions have delivered; these subscriptions are closed, so subscribe again"
                )
            try:
                self.subscribers.deliver(f"the reader is at {self.lower}")
            finally:
                self._keep()
            return advanced

    def hold(self, since: int | None) -> None:
        """Request the history after ``since`` from the writer's next step on, in place of the earlier request.

        None requests no history.
        """
        with self.lock:
            self._since = since
            self._keep()

    def _keep(self) -> None:
        """Move the lease; while the requested history is compacted already, keep the older commits, which have it."""
        since = min((s for s in (self._since, self.subscribers.since) if s is not None), default=None)
        is_retained = since is None or self._commit_views.since <= since
        self._store.keep(self.commit if is_retained else self._store.leased, since)

    def view(self, name: str) -> View:
        """A view by name."""
        self.ports(name)
        return View(self, name)

    def close(self, *, keep: bool = False) -> None:
        """Delete the lease, or with ``keep`` let it expire; a second call has no effect."""
        self.subscribers.end()
        self._store.close(keep=keep)

    @property
    def store_id(self) -> str:
        """The id of this store."""
        return self._commit_views.snapshot.identity

    def history_id(self, name: str) -> str:
        """The id of a view's history: that of the store, and the commit that added the view."""
        self._commit_views.described(name)
        return f"{self.store_id}/{self._commit_views.views[name].get('added', 0)}"

    @property
    def forked_from(self) -> AbstractSet[str]:
        """The ids of the stores of which this store is a fork."""
        return frozenset(fork_of(self._commit_views.snapshot.state)["of"])

    def keep_for(self, name: str, since: int, lease: float | str) -> None:
        """Keep the history after a time for an external reader, under a name, while its lease is valid."""
        self._store.lease(Lease(name, None, since, lease_end(lease_seconds(lease))))

    # what views are read from ---------------------------------------------------------------------------------------

    def ports(self, name: str) -> ViewPorts:
        """The arrangements of a view's contents and errors."""
        return self._commit_views.described(name).ports

    def arrangements(self, name: str) -> tuple[str, ...]:
        """The arrangements that have all rows of a view, its contents first."""
        return self._commit_views.arrangements(name)

    def below_zero(self, arrangement: str) -> str | None:
        """The arrangement that counts, for an ordered one of ``arrangements``, the rows with negative counts."""
        return self._commit_views.below_zero(arrangement)

    def coordinates(self, name: str) -> tuple[str, ...] | None:
        """The names of a view's two times; None if it has one."""
        return self._commit_views.described(name).coordinates

    def known(self, name: str) -> Known:
        """The times at which a view can be read, and what its errors say."""
        return self._commit_views.known(name)

    def frontier(self, name: str) -> Antichain:
        """The times at which a view may change again."""
        return self._commit_views.frontier(name)

    def last_changes(self, name: str) -> Updates:
        """The updates of a view in the last advance."""
        commit_views = self._commit_views
        return self._together(
            name, [(piece, commit_views.known(name).began, commit_views.lower) for piece in commit_views.last(name)]
        )

    def updates(self, name: str, start: int, end: int) -> Updates:
        """The updates of a view at times from ``start`` up to but not including ``end``.

        Raises:
            HistoryGoneError: they have been compacted.
        """
        return self._together(name, self.changed(name, start, end))

    def _together(self, name: str, pieces: list[Changed]) -> Updates:
        layout = self.table.layouts[self.ports(name).contents]
        parts = [piece.changes(start, end) for piece, start, end in pieces]
        return Updates.concat(parts, layout.schema, layout.lattice.width)

    def pieces(self, name: str, at: int) -> list[Piece]:
        """The contents of a view at a time, one split for each shard.

        Raises:
            HistoryGoneError: the time is compacted in all commits that are retained.
        """
        refuse_without_contents(self.ports(name), name)
        commit_views = self._commit_views
        while commit_views.known(name).since > at:
            commit_views = self._before(commit_views, name, at + 1)
        return commit_views.pieces(name)

    def _before(self, commit_views: CommitViews, name: str, start: int) -> CommitViews:
        """The views as of the commit before, to read changes from ``start`` on."""
        try:
            earlier = CommitViews(self._store.before(commit_views.snapshot.number))
            earlier.described(name)
        except (HistoryGoneError, PlanError, ReadError):
            raise self.known(name).history_gone(start) from None
        return earlier

    def changed(self, name: str, start: int, end: int) -> list[Changed]:
        """The splits with the updates of a view at these times, each with the range of times to read from it.

        A step that was running when this reader requested the history may still have compacted it. The changes of such
        a step are in its own commit, which the lease keeps; therefore this goes back through the commits as far as
        necessary.

        Raises:
            HistoryGoneError: they have been compacted.
        """
        ranges: list[Changed] = []
        commit_views = self._commit_views
        while start < end:
            known = commit_views.known(name)
            if known.began <= start:
                return ranges + [(piece, start, end) for piece in commit_views.last(name)]
            recent = start if known.distinguishes(start) else known.since + 1
            low = min(recent, known.began)
            pieces = commit_views.last(name) if known.began < recent else commit_views.pieces(name)
            if low < end:
                ranges += [(r, low, end) for piece in pieces if (r := piece.reaching(low)).batches]
                end = low
            if start < end:
                commit_views = self._before(commit_views, name, start)
        return ranges

    def frame(self, view: Readable, at: Time, errors: OnErrors) -> NoReturn:
        """Raises: Spark reads stores by itself."""
        refuse_without_contents(self.ports(view.name), view.name)
        raise ReadError(f'a reader has no Spark; spark.read.format("altneu").option("view", {view.name!r}).load(path)')


class Reader(Closing):
    """The views of a store as of its last commit, for a process that does not write the store.

    A reader stays at its commit until ``refresh``; it never sees a part of a step. Its ``lease`` protects the files of
    that commit and is renewed while the reader is open; use ``lease=None`` if the folder cannot be written. ``since``
    requests that the writer retain the history after that time, from its next step on and while the lease is valid, so
    that ``changes(since=...)`` can read it. Close the reader, or use ``with``.

    >>> import tempfile, altneu as an
    >>> orders = an.source("orders", "item string, price long")
    >>> with tempfile.TemporaryDirectory() as path, an.Session(path=path) as session:
    ...     total = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     session.insert("orders", [("tea", 3)])
    ...     _ = session.advance()
    ...     with an.read(path) as reader:
    ...         session.insert("orders", [("tea", 4)])
    ...         _ = session.advance()
    ...         before = reader.view("total").to_pylist()
    ...         before, reader.refresh(), reader.view("total").to_pylist()
    ([('tea', 3)], True, [('tea', 7)])
    """

    def __init__(self, readings: StoreReadings) -> None:
        self._readings = readings

    def __repr__(self) -> str:
        return f"Reader({self._readings.where}, commit {self.commit}: {', '.join(self.views)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: its views, and how many updates each keeps."""
        title = f"Reader of {self._readings.where}, commit {self.commit}"
        return summary(title, self._readings, self.views, self.lower)

    @property
    def commit(self) -> int:
        """Number of the commit that is read."""
        return self._readings.commit

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed."""
        return self._readings.lower

    @property
    def views(self) -> list[str]:
        """Names of the views."""
        return self._readings.views

    @property
    def definitions(self) -> Mapping[str, Any]:
        """The definitions that SQL statements made, by name (docs/format.md)."""
        return self._readings.definitions

    def refresh(self) -> bool:
        """Go to the last commit; whether there was a new one.

        Cost:   a listing of the log, and the commits in between.

        Raises:
            HistoryGoneError: there are subscriptions, and the store went back to an earlier commit after damage.
        """
        return self._readings.refresh()

    def hold(self, since: int | None) -> None:
        """Request the history after ``since`` from the writer's next step on, in place of the earlier request.

        None requests no history.
        """
        self._readings.hold(since)

    def view(self, name: str) -> View:
        """A view by name; each read of it is as of the reader's present commit.

        Raises:
            PlanError: there is no such view.
        """
        return self._readings.view(name)

    def trace(self, name: str) -> Trace:
        """A view as a trace, with lookups and cursors; each is as of the reader's present commit.

        Raises:
            PlanError: there is no such view.
        """
        self._readings.ports(name)
        return Trace(self._readings, name)

    def close(self, *, keep: bool = False) -> None:
        """Delete the lease, or with ``keep`` let it expire; a second call has no effect."""
        self._readings.close(keep=keep)


def read(
    path: Location,
    *,
    lease: float | str | None = "1 hour",
    since: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Reader:
    """Open a store for reading, whether a session is writing it or not.

    Raises:
        StoreError: there is no store at ``path``.
        StoreVersionError: a version of altneu with another format wrote it.
        StoreCorruptError: a file of it is damaged; names the file.
    """
    return Reader(StoreReadings(path, lease=lease, since=since, storage_options=storage_options))
