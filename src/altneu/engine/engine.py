"""The engine of a session: all operations on its parts, each of them with the lock.

Users call ``altneu.Session``, whose docstrings describe arguments, costs and errors; they are not repeated here. Views,
statements, streams, provenance and the live page are built on the engine, and the session on them.
"""

from __future__ import annotations

import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.collections.source_weights import Diff
from altneu.collections.sources import Extra, InsertTime
from altneu.engine.before import Before
from altneu.engine.frontier import Closed, checked_retain
from altneu.engine.history import Step
from altneu.engine.inserting import insert, next_call, refuse_closed, source_named
from altneu.engine.maintaining import choose_joins, maintain, release, set_refresh, set_retain
from altneu.engine.parts import Parts
from altneu.engine.reading import Known, OnErrors, Readable, StateOfViews, Time, changes, refuse_without_contents
from altneu.engine.recomputing import checked_refresh
from altneu.engine.stepping import advance
from altneu.errors import InputError, PlanError, StorePlanError, UnknownSourceError
from altneu.errors.nearest import listed
from altneu.explain import Explained, Facts, explained
from altneu.order import Antichain
from altneu.plan import ir
from altneu.plan.functions import titles
from altneu.plan.rewrite import Joins
from altneu.runtime import interrupts
from altneu.runtime.execution import no_spark
from altneu.runtime.inputs import Inputs, whole_number
from altneu.runtime.journal import Refresh
from altneu.runtime.read import event_times
from altneu.runtime.reshard import Parting
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.stored import StoredDefinition, StoredStream
from altneu.store import Lease, fork_of, lease_end, lease_seconds
from altneu.trace.update import Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

READ_ROWS = 500_000  # a view with fewer updates is read by the driver


class Engine(Parts):
    """Inputs, steps, commits and views; safe to share between threads."""

    # names ------------------------------------------------------------------------------------------------------------

    @property
    def sources(self) -> list[str]:
        """Names of the sources that the maintained views read, and of those whose rows are stored."""
        return list(self.declared)

    @property
    def collections(self) -> dict[str, Collection]:
        """The maintained views as they were written, their sources, and the stored sources, by name."""
        sources = {name: Collection(source) for name, source in self.declared.items()}
        return {**sources, **self.catalogue.collections}

    @property
    def definitions(self) -> Mapping[str, StoredDefinition]:
        """The definitions of statements, by name, as of the last commit."""
        return self.journal.definitions

    def defining(
        self, definitions: Mapping[str, StoredDefinition | None], forgotten: Iterable[str] = ()
    ) -> AbstractContextManager[None]:
        """A context whose first commit records definitions by name (None deletes one) and forgets sources."""
        return self.journal.defining(definitions, tuple(forgotten))

    @property
    def streams_stored(self) -> Mapping[str, StoredStream]:
        """The position of each stream, as of the last commit."""
        return self.journal.streams

    @property
    def views(self) -> list[str]:
        """Names of the maintained views."""
        return list(self.catalogue.nodes)

    @property
    def views_stored(self) -> list[str]:
        """Names of the views in the store, including those that are not maintained here yet."""
        return list(self.journal.views)

    @property
    def jobs(self) -> Jobs:
        """The Spark jobs of the steps, with the numbers of rows that they read."""
        return self.executor.jobs

    @property
    def declared(self) -> Mapping[str, ir.Source]:
        """The sources that the maintained views read, and those whose rows are stored."""
        return self.catalogue.sources

    # views ------------------------------------------------------------------------------------------------------------

    def maintain(
        self,
        name: str,
        collection: Collection,
        *,
        strict: bool = False,
        joins: Joins = "auto",
        trust_functions: bool = False,
        contents: bool = True,
        retain: int | Literal["all"] | None = None,
        refresh: Refresh | None = None,
    ) -> None:
        """Maintain a collection from now on, under a name."""
        with self.lock:
            self.check_open()
            maintain(
                self,
                name,
                collection,
                strict=strict,
                joins=joins,
                trust_functions=trust_functions,
                contents=contents,
                retain=retain,
                refresh=refresh,
            )

    def retain_view(self, name: str, retain: int | Literal["all"]) -> None:
        """Retain so much history of a view from now on."""
        with self.lock:
            self.check_open()
            self.ports(name)
            set_retain(self, name, checked_retain(retain))

    def refresh_view(self, name: str, refresh: Refresh) -> None:
        """Refresh a view so from now on."""
        with self.lock:
            self.check_open()
            self.ports(name)
            set_refresh(self, name, checked_refresh(refresh))

    def drop(self, name: str) -> None:
        """Forget a view and the state that only it needs."""
        with self.lock:
            self.check_open()
            known = {**self.catalogue.nodes, **self.journal.views}
            if name not in known:
                raise PlanError(f"no view {name!r}; the views are: {listed(name, known)}")
            plan = self.catalogue.lowered(self.shards, less=name, without=self.journal.forgotten)
            with interrupts.deferred():
                self.journal.drop(name, plan.arrangements)
                self.subscribers.end(name)
                self.catalogue.remove(name, plan)
                self.measured.keep(plan)

    def drop_source(self, name: str, release_stream: Callable[[str], None]) -> None:
        """Forget a source that no view reads; ``release_stream`` forgets its stream, or refuses while it runs."""
        with self.lock:
            self.check_open()
            self.require_stored_views()
            self.adopt()
            if self.catalogue.readers(name) and self.is_backfilled(name):
                self.keep_no_more(name)
                return
            journal, definition = self.journal, self.definitions.get(name.lower())
            if definition is not None and definition["kind"] in ("SOURCE", "TABLE"):
                raise PlanError(f"{name!r} was created by a statement; DROP {definition['kind']} {name} drops it")
            if readers := self.catalogue.readers(name):
                raise PlanError(f"the view(s) {', '.join(readers)} read source {name!r}; drop these first")
            if name not in {*journal.kept, *journal.filled, *journal.streams}:
                raise UnknownSourceError(f"no source {name!r}; the sources are: {listed(name, self.declared)}")
            release_stream(name)
            plan = self.catalogue.lowered(self.shards, without=[name])
            with interrupts.deferred():
                journal.drop_source(name, plan.arrangements)
                self.discard(name)
                self.catalogue.plan = plan
                self.measured.keep(plan)

    def is_backfilled(self, name: str) -> bool:
        """Whether the rows of a source that is declared without ``keep=True`` are stored."""
        return name in self.journal.kept and not self.journal.kept[name].get("keep", True)

    def keep_no_more(self, name: str) -> None:
        """Drop the rows that ``backfill`` stored of a source; its views stay as they are."""
        with self.lock:
            plan = self.catalogue.lowered(self.shards, without=[name])
            with interrupts.deferred():
                self.journal.keep_no_more(name, plan.arrangements)
                self.catalogue.plan = plan
                self.measured.keep(plan)

    def explained(self, name: str | None = None) -> Explained:
        """The operators of a view, or of all views in one graph, and what each did since the session was opened.

        Raises:
            PlanError: there is no such view.
            ReadError: the session is closed.
        """
        with self.lock:
            self.check_open()
            if name is not None:
                self.ports(name)
            return explained(self.plan, name, self.facts())

    def facts(self) -> Facts:
        """The sizes and measurements that EXPLAIN shows."""
        table, measured = self.table, self.measured
        times, asked = partial(event_times, table), self.executor.jobs.asked
        refreshed = partial(self.refreshing.told, self.plan)
        return Facts(table.rows, table.size, times, measured.read(), str(measured), dict(asked), refreshed)

    def reshard(self, shards: int) -> None:
        """Split all state into more shards, a multiple of the present number, and commit."""
        with self.lock:
            self.check_open()
            self.require_stored_views()
            self.adopt()
            self.catalogue.refuse_unowned(waiting=False)
            split = Parting.of(self.shards, whole_number(shards, "shards"))
            if split.times > 1:
                plan = self.catalogue.lowered(shards)
                outcome = self.executor.reshard(self.plan, self.table, split)
                interrupts.check()
                with interrupts.deferred():
                    self.journal.commit_shards(shards, outcome)
                    self.shards = self.executor.shards = shards
                    self.catalogue.plan = plan
            self.requested_shards = shards

    def refuse_closed(self, name: str) -> None:
        """Refuse to change a source that is closed.

        Raises:
            InputError: it is.
        """
        refuse_closed(self, name)

    def release(self) -> None:
        """Store no longer what is only looked up for updates of closed sources, and commit that."""
        release(self)

    def forget_stream(self, name: str) -> None:
        """Forget the position of a stream, and commit."""
        if name in self.journal.streams:
            self.journal.forget_stream(name)

    # inputs -----------------------------------------------------------------------------------------------------------

    def next_call(self) -> int:
        """A number for a call with commands, greater than all earlier ones in any session of the store."""
        return next_call(self)

    def insert(
        self,
        source: str,
        data: Any,
        time: InsertTime = None,
        diff: Diff = None,
        sign: int = 1,
        kind: int | None = None,
        extra: Extra = "error",
    ) -> None:
        """Insert rows into a source, or with ``sign=-1`` retract them; as commands if it is a set or has a key."""
        with self.lock:
            self.check_open()
            insert(self, source, data, time, diff, sign, kind, extra)

    def source(self, name: str) -> ir.Source:
        """The source of this name.

        Raises:
            UnknownSourceError: no view reads a source of this name, and none is stored.
        """
        return source_named(self, name)

    @property
    def sources_filled(self) -> frozenset[str]:
        """Names of the sources that ever had rows, as of the last commit."""
        return frozenset(self.journal.filled)

    @property
    def has_pending(self) -> bool:
        """Whether there are inserted rows that no step has processed."""
        return bool(self.pending.updates or self.pending.frames)

    @property
    def has_own_pending(self) -> bool:
        """Whether some of them were inserted by this thread."""
        pending = self.pending  # which another thread replaces when its step is committed
        return get_ident() in pending.threads and bool(pending.updates or pending.frames)

    @property
    def has_open(self) -> bool:
        """Whether a commit has rows that do not count yet, since no time was closed after it.

        Before the first time is closed, constants of views are such rows, and what aggregates make of no row.
        """
        return self.journal.is_open or (self.lower == 0 and self.table.is_due(Antichain.of(self.lattice, 1), 0))

    def discard(self, source: str | None = None) -> None:
        """Discard the rows inserted into a source (or into all) since the last advance."""
        with self.lock:
            for table in (self.pending.updates, self.pending.frames):
                for name in list(table) if source is None else [source]:
                    table.pop(name, None)

    def waiting(self) -> Inputs:
        """A copy of the rows inserted since the last advance."""
        with self.lock:
            return self.pending.and_more(Inputs())

    def wait_again(self, inputs: Inputs) -> None:
        """Replace the inserted rows by the result of an earlier ``waiting``."""
        with self.lock:
            self.pending = inputs

    @contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Within it, what is inserted and not committed is discarded after an error or an interrupt.

        Rows that waited before wait again, unless a step within it has committed them. The caller has the lock.
        """
        waiting, steps, outer = self.waiting(), self.steps, self.takes_back
        self.takes_back = True
        try:
            yield
        except BaseException:
            with interrupts.deferred():
                self.wait_again(waiting if self.steps == steps else Inputs())
            raise
        finally:
            self.takes_back = outer

    @property
    def steps(self) -> int:
        """The number of steps that this session has committed."""
        return self.journal.steps

    # steps ------------------------------------------------------------------------------------------------------------

    def advance(self, to: int | None = None, event: int | tuple[int, ...] | None = None) -> Step:
        """Close every time before ``to`` (default: one tick), bring all views up to date, and commit."""
        with self.lock:
            self.check_open()
            before = self.journal.lower
            upper = before + 1 if to is None else whole_number(to, "to")
            closed = self.journal.own
            if event is not None:
                self.require_stored_views()
                closed = self.times.closing(event)
            if upper < before or (upper == before and closed == self.journal.own):
                raise InputError(f"advance(to={upper}) would go back: the session's lower is {before}")
            return self._advance(upper, {}, closed)

    def commit(self) -> None:
        """Make the inserted rows durable without closing a time."""
        with self.lock:
            self.check_open()
            self._advance(self.lower, {})

    def take(
        self, inputs: Inputs, upper: int, streams: Mapping[str, StoredStream], *, replaced: str | None = None
    ) -> Step:
        """Process micro-batches together with the inserted rows, and advance to ``upper``, at least ``lower``.

        The positions of the ``streams`` are in the same commit as their rows. Rows inserted into the source
        ``replaced`` do not count, because a snapshot has come since. If the step fails, the inserted rows are still
        pending and the micro-batches are dropped.
        """
        with self.lock:
            self.check_open()
            for name in inputs.sources:
                self.refuse_closed(name)
            own, steps = self.pending, self.journal.steps
            self.pending = (own if replaced is None else own.without(replaced)).and_more(inputs)
            try:
                return self._advance(upper, streams)
            except BaseException:
                if self.journal.steps == steps:
                    self.pending = own
                raise

    def _advance(self, upper: int, streams: Mapping[str, StoredStream], own: tuple[int, ...] = ()) -> Step:
        started = clock.perf_counter()
        self.make_ready()
        if self.open_joins:
            choose_joins(self)
        return advance(self, upper, streams, own or self.journal.own, started)

    def make_ready(self) -> None:
        """Ensure what a step needs: that all views of the store are maintained, and the requested number of shards."""
        if self.catalogue.waiting():
            self.require_stored_views()
        if not self.adopted:
            self.adopt()
        if self.catalogue.unowned:
            self.catalogue.refuse_unowned(waiting=True)
        if self.journal.closed:
            self.release()
        if self.requested_shards != self.shards:
            self.reshard(self.requested_shards)

    def adopt(self) -> None:
        """Once all views are maintained: the remaining state is that of sources that an earlier version stored."""
        if not self.adopted:
            self.catalogue.adopt(self.shards)
            self.table.layouts = self.plan.arranged
            self.adopted = True

    def require_stored_views(self) -> None:
        """Refuse to continue without a view that the store has.

        Raises:
            StorePlanError: some views are not maintained here; the message names them.
        """
        if waiting := self.catalogue.waiting():
            raise StorePlanError(
                f"the store also maintains {', '.join(map(repr, waiting))}, which would miss this step; "
                "maintain them in this session, or drop them"
            )

    # reading ----------------------------------------------------------------------------------------------------------

    def since_of(self, name: str) -> int:
        """The least time at which a view can be read."""
        return self.times.since_of(name)

    def coordinates(self, name: str) -> tuple[str, ...] | None:
        """The names of a view's two times; None if it has one."""
        return self.times.coordinates(name)

    @property
    def closed(self) -> Closed:
        """What is closed for good: times, event times and sources."""
        return self.times.closed

    @property
    def open_times(self) -> Antichain:
        """The times at which sources take rows: pairs, if a source has two times."""
        return self.times.open_times

    def frontier(self, name: str) -> Antichain:
        """The times at which a view may change again."""
        with self.lock:
            self.check_open()
            return self.times.frontier_of(name, self.closed, self.table.future)

    @property
    def retained(self) -> tuple[int, int, int]:
        """The frontier, and the least time and event time that can be read."""
        return self.journal.lower, self.journal.since, self.journal.events

    @property
    def before(self) -> Before | None:
        """The state before the step that another thread computes just now; None if none does."""
        mark = self.mark
        return None if mark is None or self.lock.is_mine else Before(self, mark, self.times.frontier_of)

    def arrangements(self, name: str) -> tuple[str, ...]:
        """The arrangements that have all rows of a view, its contents first."""
        return self.plan.arrangements_alike(self.ports(name).contents)

    def known(self, name: str) -> Known:
        """The times at which a view can be read, and what its errors say."""
        self.check_open()
        self.ports(name)
        journal = self.journal
        began = max(journal.began, int(journal.views[name].get("lower", journal.lower)))
        coordinates, remedy = self.coordinates(name), "Session(retain=...) keeps more"
        functions = tuple(titles(journal.views[name].get("functions", ())))
        since = self.since_of(name)
        alike = max(journal.since, since)
        return Known(
            name,
            journal.lower,
            since,
            began,
            journal.events,
            coordinates,
            remedy,
            functions,
            alike,
            partial(self.frontier, name),
            self.catalogue.nodes.get(name),
        )

    def last_changes(self, name: str) -> Updates:
        """The updates of a view in the last advance."""
        self.check_open()
        ports = self.ports(name)
        return self.journal.outputs(ports.contents, self.table.layouts[ports.contents])

    def updates(self, name: str, start: int, end: int) -> Updates:
        """The updates of a view at times from ``start`` up to but not including ``end``.

        Raises:
            HistoryGoneError: they have been compacted.
        """
        known, contents = self.known(name), self.ports(name).contents
        return changes(self.table, contents, known, start, end, partial(self.last_changes, name))

    @property
    def store_id(self) -> str:
        """The id of the session's store."""
        return self.journal.store.identity

    def history_id(self, name: str) -> str:
        """The id of a view's history: that of the store, and the commit that added the view."""
        return f"{self.store_id}/{self.journal.views[name].get('added', 0)}"

    @property
    def forked_from(self) -> AbstractSet[str]:
        """The ids of the stores of which the session's store is a fork."""
        return frozenset(fork_of(self.journal.store.state)["of"])

    def keep_for(self, name: str, since: int, lease: float | str) -> None:
        """Retain the history after a time for an external reader, under a name, while its lease is valid."""
        self.journal.store.lease(Lease(name, None, since, lease_end(lease_seconds(lease))))

    def frame(self, view: Readable, at: Time, errors: OnErrors) -> DataFrame:
        """A view's contents as a Spark DataFrame."""
        refuse_without_contents(self.ports(view.name), view.name)
        if self.spark is None:
            raise no_spark()
        time = self.known(view.name).readable(at)
        ports = self.ports(view.name)
        never = self.catalogue.collections[view.name].node.never_null
        ports = replace(ports, schema=pa.schema([f.with_nullable(f.name not in never) for f in ports.schema]))
        if self.table.rows(ports.contents) <= READ_ROWS or self.lacking is not None:
            rows = view.to_arrow(at, errors)
            return self.executor.frame_of(pa.Table.from_arrays(rows.columns, schema=ports.schema))
        if errors == "raise":
            view.raise_errors(time)
        return self.executor.read(self.table, ports, view.name, time, errors)


@contextmanager
def at_rest(state: StateOfViews) -> Iterator[StateOfViews]:
    """The state of views at a time between two steps: while one is computed by another thread, the state before it."""
    before = state.before if isinstance(state, Engine) else None
    if before is not None:
        yield before
        return
    with state.lock:
        yield state
