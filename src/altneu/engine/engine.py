"""The engine of a session: its journal, catalogue, executor and lock, and the operations that combine them.

Users call ``altneu.Session``, whose docstrings describe arguments, costs and errors; they are not repeated here. Views,
statements, streams, provenance and the live page are built on the engine, and the session on them.
"""

from __future__ import annotations

import tempfile
import time as clock
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property, partial
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, Literal

from altneu.collections.collection import Collection
from altneu.collections.source_weights import Diff, weight_names, with_weights
from altneu.collections.sources import (
    Extra,
    InsertTime,
    check_frame,
    commands_of,
    is_spark_frame,
    own_times,
    python_columns,
    refuse_extra,
    to_table,
    unread,
)
from altneu.engine.before import Before, Mark
from altneu.engine.catalogue import Catalogue, described
from altneu.engine.closing import Closing
from altneu.engine.frontier import Closed
from altneu.engine.history import History, Step
from altneu.engine.idle_merging import IdleMerging
from altneu.engine.planning import check_maintained, refuse_events
from altneu.engine.reading import (
    Known,
    OnErrors,
    Readable,
    StateOfViews,
    Time,
    changes,
    least_readable,
    refuse_without_contents,
)
from altneu.engine.recomputing import Chosen, Refreshing, checked_refresh, recompute
from altneu.engine.sizes import SizesOfInputs
from altneu.engine.subscribers import Subscribers
from altneu.errors import (
    AltneuError,
    HydrationError,
    InputError,
    PlanError,
    ReadError,
    StepFailedError,
    StorePlanError,
    TimeRangeError,
    UnknownSourceError,
)
from altneu.explain import Explained, Facts, explained, refuse_unbounded
from altneu.operators.base import Region, StepMode
from altneu.order import LARGEST, Antichain, Epoch
from altneu.plan import ir
from altneu.plan.functions import recorded, titles
from altneu.plan.hydrate import hydration_plan, missing
from altneu.plan.physical import Plan, ViewPorts
from altneu.plan.rewrite import Choices, Joins, Sizes, open_joins
from altneu.plan.static import released_name
from altneu.runtime import interrupts
from altneu.runtime.base import compact
from altneu.runtime.execution import Executor, no_spark
from altneu.runtime.inputs import Inputs, Stamp, whole_number
from altneu.runtime.inspections import Inspections
from altneu.runtime.journal import Journal, Refresh
from altneu.runtime.local import LocalExecutor
from altneu.runtime.measured import Measurements, Ran
from altneu.runtime.memory import bytes_in
from altneu.runtime.outcome import Outcome, batch_rows
from altneu.runtime.progress import compiling
from altneu.runtime.read import event_times
from altneu.runtime.reshard import Parting
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.spark.reach import lacking
from altneu.runtime.spark.versions import check_version, parallelism
from altneu.runtime.state import FutureSummary, StateTable
from altneu.runtime.step_limit import before_feedback, step_limit
from altneu.runtime.stored import StoredDefinition, StoredStream, StoredView
from altneu.store import (
    DirectoryStore,
    Lease,
    Location,
    MemoryStore,
    Store,
    fork_of,
    lease_end,
    lease_seconds,
    least_since,
)
from altneu.trace.update import Updates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FRONTIERS = 16  # that are remembered
READ_ROWS = 500_000  # a view with fewer updates is read by the driver
Placement = Literal["auto", "spark", "driver"]


class Engine(Closing):
    """Inputs, steps, commits and views; safe to share between threads."""

    def __init__(  # noqa: PLR0913  # options, each by its name
        self,
        spark: SparkSession | None = None,
        path: Location | None = None,
        *,
        storage_options: Mapping[str, Any] | None = None,
        recover: bool = False,
        shards: int | None = None,
        placement: Placement = "auto",
        retain: int | Literal["all"] | None = None,
        retain_events: int | None = None,
        memory: int | str | None = None,
        check_functions: bool = False,
        idle_merge_effort: int = 0,
    ) -> None:
        if placement not in ("auto", "spark", "driver"):
            raise PlanError(f'placement must be "auto", "spark" or "driver", got {placement!r}')
        if spark is not None and not hasattr(spark, "createDataFrame"):
            raise PlanError(f"Session(spark) needs a SparkSession, got {spark!r}; give a folder as path=...")
        retain = checked_retain(retain)
        if retain_events is not None and whole_number(retain_events, "retain_events") < 0:
            raise PlanError(f"retain_events must be a whole number of at least 0, got {retain_events!r}")
        if shards is not None and whole_number(shards, "shards") < 1:
            raise PlanError(f"shards must be at least 1, got {shards!r}")
        self.lattice = Epoch()
        self.spark, self.placement, self.retain, self.retain_events = spark, placement, retain, retain_events
        if not isinstance(check_functions, bool):
            raise PlanError(f"check_functions must be True or False, got {check_functions!r}")
        self.check_functions = check_functions
        if whole_number(idle_merge_effort, "idle_merge_effort") < 0:
            raise PlanError(f"idle_merge_effort must be a whole number of at least 0, got {idle_merge_effort!r}")
        self._idle = IdleMerging(idle_merge_effort) if idle_merge_effort else None
        self._memory = None if memory is None else bytes_in(memory)
        self.lock = interrupts.Lock()
        self._open_joins = set[str]()  # views whose joins are chosen anew when their first rows are here
        compiling.listen()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        store = self._open_store(path, storage_options or {}, recover=recover)
        try:
            self.journal = Journal(store, self.lattice)
            self._open(shards)
        except BaseException:
            store.close()
            raise

    def _open_store(self, path: Location | None, storage_options: Mapping[str, Any], *, recover: bool) -> Store:
        if path is not None:
            return DirectoryStore.create_or_open(path, storage_options=storage_options, recover=recover)
        if self.spark is None:
            return MemoryStore()
        self._scratch = tempfile.TemporaryDirectory(prefix="altneu-")  # Spark's tasks need files to hand state on
        return DirectoryStore.create_or_open(Path(self._scratch.name) / "state", durable=False)

    def _open(self, shards: int | None) -> None:
        stored = self.journal.shards
        if shards is not None and stored and shards % stored:
            raise StorePlanError(
                f"the store has {stored} shards and cannot be opened with {shards}; leave shards out, "
                "or choose a multiple"
            )
        if self.spark is not None:
            check_version(self.spark)
        self.shards = stored or shards or (parallelism(self.spark) if self.spark else 1)
        self.requested_shards = shards or self.shards
        self.journal.shards = self.shards
        if self.spark is None:
            self.executor: Executor = LocalExecutor(self._memory)
        else:
            from altneu.runtime.spark.executor import SparkExecutor

            self._choose_placement()
            self.executor = SparkExecutor(self.spark, self.shards, self.placement, self._memory)
        self._begin()
        self.subscribers = Subscribers()
        self._mark: Mark | None = None  # while a step is computed
        self._closed = False

    def _begin(self) -> None:
        """Begin with what the journal knows: no view is maintained yet."""
        self.catalogue = Catalogue(self.journal, self.lattice, check_functions=self.check_functions)
        self.table.layouts = self.plan.arranged
        self.pending = Inputs()
        self.inserted = dict[str, int]()  # by source the number of the last step that counted rows of it
        self._frontiers: dict[int, Antichain] = {}
        self._ordinary = StepMode(self.shards)
        self._adopted = False
        self._call = 0
        self.inspections = Inspections(self.lattice)
        self.measured = Measurements()
        self.refreshing = Refreshing(self.journal)
        self.past = History()

    @contextmanager
    def beginning_anew(self) -> Iterator[None]:
        """A context that begins with what the store has now; if nothing is committed in it, all is as before."""
        before, number = {**self.__dict__}, self.store.number
        try:
            self.journal = Journal(self.store, self.lattice)
            self._open_joins = set()
            self._begin()
            yield
        except BaseException:
            if self.store.number == number:
                self.__dict__.clear()
                self.__dict__.update(before)
            raise

    @cached_property
    def lacking(self) -> str | None:
        """What the workers of a server lack for this session; None if nothing, and of a Spark that this process runs.

        Cost:   the first time, one job.
        """
        folder = self.journal.store.segment_directory
        return None if self.spark is None or folder is None else lacking(self.spark, folder)

    def _choose_placement(self) -> None:
        """The driver, where a server's workers cannot do the work: other machines may know nothing of this one."""
        if self.placement == "auto" and self.lacking is not None:
            self.placement = "driver"
            warnings.warn(
                f'altneu: placement="driver" is chosen, so every step runs in this process: {self.lacking}. '
                "docs/running.md says what Spark's workers need",
                stacklevel=2,
            )

    # life -------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the store and delete scratch files."""
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self.subscribers.end()
            self.executor.close()
            self.journal.store.close()
            self.table.release()
            self.pending = Inputs()
            if self._scratch is not None:
                self._scratch.cleanup()

    @property
    def store(self) -> Store:
        """Where commits go."""
        return self.journal.store

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
    def table(self) -> StateTable:
        """The state of every arrangement."""
        return self.journal.table

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed; by default, rows are inserted at this time."""
        return self.journal.lower

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
    def plan(self) -> Plan:
        """The one plan of all views."""
        return self.catalogue.plan

    @property
    def declared(self) -> Mapping[str, ir.Source]:
        """The sources that the maintained views read, and those whose rows are stored."""
        return self.catalogue.sources

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments with which another session computes and retains as this one does."""
        names = ("spark", "placement", "retain", "retain_events", "check_functions")
        effort = self._idle.effort if self._idle else 0
        return {name: getattr(self, name) for name in names} | {"memory": self._memory, "idle_merge_effort": effort}

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
            check_maintained(name, collection)
            if not isinstance(contents, bool):
                raise PlanError(f"contents must be True or False, got {contents!r}")
            retain, refresh = checked_retain(retain), checked_refresh(refresh)
            self.catalogue.check_contents(name, contents=contents)
            collection = self.catalogue.planner.recognised(name, collection, joins, trust=trust_functions)
            node, choices = self.catalogue.planner.chosen(name, collection, joins)
            if self.retain_events is not None:
                refuse_events(name, collection.node)
            if name in self.catalogue.nodes:
                self._retain(name, retain)
                self._refresh(name, refresh)
                return
            self.catalogue.check_sources(collection)
            add = partial(self._add, name, collection, strict=strict, contents=contents, retain=retain, refresh=refresh)
            try:
                add(node, choices)
                self._open_joins.discard(name)
                if joins == "auto" and open_joins(node):
                    self._open_joins.add(name)
            except HydrationError:
                upon = self.catalogue.planner.upon_views(collection)
                if upon is None:
                    raise
                add(upon, Choices())

    def retain_view(self, name: str, retain: int | Literal["all"]) -> None:
        """Retain so much history of a view from now on."""
        with self.lock:
            self.check_open()
            self.ports(name)
            self._retain(name, checked_retain(retain))

    def _retain(self, name: str, retain: int | Literal["all"] | None) -> None:
        """Retain so much history of a view that is maintained from now on; what is gone does not come back."""
        if retain is not None:
            with interrupts.deferred():
                self.journal.retain(name, retain, self.since_of(name))

    def refresh_view(self, name: str, refresh: Refresh) -> None:
        """Refresh a view so from now on."""
        with self.lock:
            self.check_open()
            self.ports(name)
            self._refresh(name, checked_refresh(refresh))

    def _refresh(self, name: str, refresh: Refresh | None) -> None:
        """Refresh a view that is maintained so from now on."""
        if refresh is not None and refresh != self.refreshing.setting(name):
            self.refreshing.check(self.plan, name, refresh)
            with interrupts.deferred():
                self.journal.refresh(name, refresh)

    def _add(
        self,
        name: str,
        collection: Collection,
        node: ir.Node,
        choices: Choices,
        *,
        strict: bool,
        contents: bool,
        retain: int | Literal["all"] | None,
        refresh: Refresh | None,
    ) -> None:
        """Add a view: with its stored state, or computed from existing state."""
        without = () if contents else (name,)
        plan = self.catalogue.lowered(self.shards, more={name: node}, changes_only=without)
        if strict:
            refuse_unbounded(plan, name)
        if name not in self.journal.views:
            self.refreshing.check(plan, name, refresh)
        before = self.table.layouts
        self.table.layouts = plan.arranged
        try:
            if name not in self.journal.views:
                with self.past.watch(f"computing view {name}"):
                    self._hydrate(plan, name, collection, node, choices, retain, refresh)
            else:
                with interrupts.deferred():
                    arrangements = plan.arrangements_of(name) if self.catalogue.columns.earlier(node) else None
                    needed = {*self.journal.views[name]["arrangements"]} if arrangements is not None else set[str]()
                    self.journal.describe(name, described(plan, name, node), recorded(collection.node), arrangements)
                    self.journal.keep(self.catalogue.columns.retained_sources(node))
                    self.catalogue.columns.know(collection)
                    self.catalogue.add(name, collection, node, plan)
                    self.journal.remove(self.journal.unneeded(needed, plan.arrangements))
                self._retain(name, retain)
                self._refresh(name, refresh)
        except BaseException:
            if name not in self.catalogue.nodes:
                self.table.layouts = before
            raise

    def _hydrate(
        self,
        plan: Plan,
        name: str,
        collection: Collection,
        node: ir.Node,
        choices: Choices,
        retain: int | Literal["all"] | None,
        refresh: Refresh | None,
    ) -> None:
        """Compute the arrangements of a view that do not exist yet, commit, and add the view."""
        journal, outcome, since = self.journal, None, 0
        with journal.undoing():
            existing = journal.existing()
            if missing(plan, existing):
                part, imported, recompute = self._hydration(plan, name, existing, node)
                region = self.region(journal.since, journal.lower, journal.since, journal.events)
                mode = StepMode(self.shards, imported, hydrating=True, anew=recompute)
                outcome = self.executor.step(part, self.table, Inputs(), region, mode)
                journal.take(outcome)
                since = min(self.catalogue.redefined(part.read_layouts), max(journal.lower - 1, 0))
            stored_again = {n: released_name(n) for n in journal.released if n in plan.arrangements}
            encoded = described(plan, name, node)
            arrangements, sources = plan.arrangements_of(name), self.catalogue.columns.retained_sources(node)
            functions, whole_errors = recorded(collection.node), self.catalogue.whole_errors(node)
            interrupts.check()
            with interrupts.deferred():
                self.catalogue.columns.know(collection)
                journal.commit_view(
                    name,
                    node.fingerprint,
                    arrangements,
                    choices,
                    encoded,
                    functions,
                    sources,
                    stored_again=stored_again,
                    whole_errors=whole_errors,
                    retain=retain,
                    refresh=refresh,
                    since=since,
                )
                self.catalogue.add(name, collection, node, plan)
        if outcome is not None:
            self.measured.fill(part, outcome.measured, imported)

    def _hydration(
        self, plan: Plan, name: str, existing: set[str], node: ir.Node
    ) -> tuple[Plan, frozenset[str], frozenset[str]]:
        """The plan that fills what a view lacks; views that were just redefined do not have the rows yet."""
        filled, called = self.journal.filled, self.catalogue.called(node)
        unlike = frozenset(found.arrangement for found in self.catalogue.redefined_after(self.lower - 1).values())
        try:
            return hydration_plan(plan, name, existing, filled, called, unlike=unlike)
        except HydrationError as error:
            if not unlike:
                raise
            hydration_plan(plan, name, existing, filled, called)  # if that fails too it is for another reason
            raise HydrationError(
                f"advance before view {name!r} is maintained: only a view that was redefined has the rows that it "
                "needs, and that from the next time on"
            ) from error

    def _choose_joins(self) -> None:
        """Plan views anew whose joins were chosen by their pattern alone, once the first rows of all sources are here.

        Such a view has no rows, so that nothing is computed twice; it keeps its name, and what follows it.
        """
        sizes = None
        for name in [*self._open_joins]:
            read = self.catalogue.read_by(name) if name in self.catalogue.nodes else frozenset()
            if not read or not read.isdisjoint(self.journal.filled):
                self._open_joins.discard(name)
            elif read <= self.pending.sources:
                self._open_joins.discard(name)
                sizes = sizes or Sizes(SizesOfInputs(self.pending))
                with self.past.watch(f"choosing how view {name} joins"):
                    node, choices = self.catalogue.planner.best(name, self.catalogue.collections[name], "auto", sizes)
                if node.fingerprint != self.catalogue.nodes[name].fingerprint:
                    self._plan_anew(name, node, choices)

    def _plan_anew(self, name: str, node: ir.Node, choices: Choices) -> None:
        """Give a view that has no rows another plan, and commit it."""
        collection, view = self.catalogue.collections[name], self.journal.views[name]
        without = {name} & self.catalogue.changes_only
        plan = self.catalogue.lowered(self.shards, more={name: node}, changes_only=without)
        before, self.table.layouts = self.table.layouts, plan.arranged
        try:
            retain = view["retain"]["times"] if "retain" in view else None
            self._hydrate(plan, name, collection, node, choices, retain, view.get("refresh"))
        except BaseException:
            if self.catalogue.nodes[name] is not node:
                self.table.layouts = before
            raise
        held = {state for state, _ in (*self.table.live, *self.table.stored)}
        self.journal.remove(held.intersection(view["arrangements"]) - plan.arrangements.keys())
        self.measured.keep(plan)

    def drop(self, name: str) -> None:
        """Forget a view and the state that only it needs."""
        with self.lock:
            self.check_open()
            known = {**self.catalogue.nodes, **self.journal.views}
            if name not in known:
                raise PlanError(f"no view {name!r}; the views are: {', '.join(known) or '(none)'}")
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
                raise UnknownSourceError(f"no source {name!r}; the sources are: {', '.join(self.declared) or '(none)'}")
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

    def ports(self, name: str) -> ViewPorts:
        """The arrangements of a view's contents and errors."""
        return self.catalogue.ports(name)

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
        if name in self.journal.closed:
            how = "static=True, and a step has had its rows" if name in self.catalogue.static else "close_source"
            raise InputError(
                f"source {name!r} is closed ({how}), so its rows never change; to change them, drop the views that "
                f"read it, forget it with session.drop_source({name!r}), in SQL DROP, and declare and fill it again"
            )

    def release(self) -> None:
        """Store no longer what is only looked up for updates of closed sources, and commit that."""
        journal, catalogue = self.journal, self.catalogue
        if not journal.closed:
            return
        names = catalogue.releasable()
        if not names and self.plan.closed == journal.closed:
            return
        before, plan = self.plan, catalogue.lowered(self.shards, release=names)
        with interrupts.deferred():
            if names:
                states = {name: (released_name(name), plan.layouts[released_name(name)]) for name in names}
                views = [view for view in catalogue.nodes if not names.isdisjoint(before.arrangements_of(view))]
                told = {view: self._described_anew(view, plan) for view in views}
                self.table.layouts = {**self.table.layouts, **plan.arranged}
                journal.release(states, told)
            catalogue.plan, self.table.layouts = plan, plan.arranged
            self.measured.keep(plan)

    def _described_anew(self, name: str, plan: Plan) -> StoredView:
        """What is stored of a view, with the arrangements that it needs in a plan."""
        encoded = described(plan, name, self.catalogue.nodes[name]).to_json()
        return {**self.journal.views[name], "arrangements": plan.arrangements_of(name), "kept": encoded}

    def forget_stream(self, name: str) -> None:
        """Forget the position of a stream, and commit."""
        if name in self.journal.streams:
            self.journal.forget_stream(name)

    # inputs -----------------------------------------------------------------------------------------------------------

    def next_call(self) -> int:
        """A number for a call with commands, greater than all earlier ones in any session of the store."""
        self._call = max(self._call + 1, self.journal.store.next_number << 32)
        return self._call

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
            declared = self.source(source)
            if source in self.journal.closed:
                self.refuse_closed(source)
            commands = None
            if kind is not None or declared.commanded_by is not None:
                commands = commands_of(declared, self.next_call(), kind)
            schema = declared.schema if commands is None else commands.read
            own: tuple[int | str, ...] = ()
            if declared.coordinates is not None or (time is not None and isinstance(time, tuple)):
                time, own = own_times(declared, time)
            now = self.journal.lower
            closed = self.closed.own_of(1 + len(own)) if own else ()
            when = now if time is None else time
            others = unread(declared, extra, () if diff is None else weight_names(diff))
            if diff is None:
                diff = 1
            else:
                times = [where for where in (when, *own) if isinstance(where, str)]
                data, diff = with_weights(declared, data, diff, sign, times, others)
            stamp = Stamp(
                source,
                schema,
                self.lattice,
                self._frontier(now),
                when,
                diff,
                sign,
                own,
                commands,
                declared.append_only,
                closed,
            )
            if time is not None or own:
                stamp.check_open(now)
            self.pending.threads.add(get_ident())
            if type(data) is list and stamp.is_plain:
                updates = stamp.of_columns(python_columns(data, schema.names, schema, source, others), len(data))
            elif is_spark_frame(data) and self.spark is not None:
                check_frame(data, stamp)
                refuse_extra(data.columns, stamp.columns, others, source)
                self.pending.frames.setdefault(source, []).append((data, stamp))
                return
            else:
                table = to_table(data, stamp.columns, schema, source, others)
                updates = stamp.updates(table)
                refuse_extra(table.column_names, stamp.columns, others, source)
            if updates.diffs.size:
                self.pending.updates.setdefault(source, []).append(updates)

    def _frontier(self, time: int) -> Antichain:
        """The frontier at a time: the same one while a step and the inserts around it ask for it."""
        frontiers = self._frontiers
        if time in frontiers:
            return frontiers[time]
        if len(frontiers) >= _FRONTIERS:
            frontiers.clear()
        known = frontiers[time] = Antichain.of(self.lattice, time)
        return known

    def source(self, name: str) -> ir.Source:
        """The source of this name.

        Raises:
            UnknownSourceError: no view reads a source of this name, and none is stored.
        """
        declared = self.catalogue.source(name)
        if declared is None:
            raise UnknownSourceError(
                f"no maintained view reads a source {name!r}; the sources are: "
                f"{', '.join(self.declared) or '(none: maintain a view first)'}"
            )
        return declared

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
        """Whether a commit has rows that do not count yet, since no time was closed after it."""
        return self.journal.is_open

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
            closed = self.journal.own if event is None else self._closing(event)
            if upper < before or (upper == before and closed == self.journal.own):
                raise InputError(f"advance(to={upper}) would go back: the session's lower is {before}")
            return self._advance(upper, {}, closed)

    def _closing(self, event: int | tuple[int, ...]) -> tuple[int, ...]:
        """Up to where rows' own times are to be closed, checked.

        Raises:
            InputError: they are closed further already, or are others, or no source has any.
            TimeRangeError: one is beyond 64 bits.
        """
        self.require_stored_views()
        names = self._times_of_sources
        if len(names) == 1:
            raise InputError(
                f"advance(event={event}) closes event times, and no source has any; an.source(..., "
                'time=("system", "event")) declares a source with two times'
            )
        own = tuple(whole_number(time, "event") for time in (event if isinstance(event, tuple) else (event,)))
        if len(own) != len(names) - 1:
            raise InputError(
                f"advance(event={event!r}) must say where each of {', '.join(names[1:])} is closed, as a tuple of "
                f"{len(names) - 1}"
            )
        known = self.closed.own_of(len(names)) or (0,) * len(own)
        if any(time < least for time, least in zip(own, known, strict=True)):
            before = known if len(known) > 1 else known[0]
            raise InputError(f"advance(event={event}) would go back: event times before {before} are closed already")
        if max(own) > LARGEST:
            raise TimeRangeError(f"event={event} is beyond 64 bits")
        return own if any(own) else self.journal.own

    @property
    def _times_of_sources(self) -> tuple[str, ...]:
        """What the times of the sources are called that have most of them."""
        several = (source.coordinates for source in self.declared.values() if source.coordinates)
        return next(several, ("time",))

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
        started, before = clock.perf_counter(), self.journal.lower
        self.make_ready()
        if self._open_joins:
            self._choose_joins()
        received, placements = 0, dict[str, None]()
        recomputed: tuple[str, ...] = ()
        self.measured.begin()
        steps = self.journal.steps
        try:
            for outcome in self._steps(before, upper, streams, own or self.journal.own):
                received += sum(outcome.received.values())
                placements[outcome.placement] = None
                if outcome.recomputed:
                    recomputed = (*recomputed, *(view for view in outcome.recomputed if view not in recomputed))
        except BaseException as caught:
            error = interrupts.original(caught)
            self.past.fail(error)
            if before < self.lower < upper:
                error.add_note(
                    f"altneu: of the times {before} to {upper}, those before {self.lower} are closed and committed, as "
                    f"are the inserted rows; advance(to={upper}) continues from there"
                )
            elif not isinstance(error, Exception):
                error.add_note(f"altneu: {self._became_of_step(committed=self.journal.steps > steps)}")
            if error is caught:
                raise
            raise error from caught
        # The last changes are those of an advance before this, if it closed no time.
        changed = self.journal.changes() if upper > before else {}
        views = self.catalogue.plan.views.items()
        changes = {name: changed[c] if (c := ports.contents) in changed else 0 for name, ports in views}
        seconds, total = clock.perf_counter() - started, self.journal.table.total
        placed = ", ".join(placements)
        return self.past.add(Step(before, upper, seconds, received, changes, placed, total, recomputed))

    def _became_of_step(self, *, committed: bool) -> str:
        """The message of an interrupt, about the step that it stopped."""
        if committed:
            return f"the step is committed, lower is {self.lower}"
        undone = f"nothing of the step is committed, lower is {self.lower}, and the inserted rows are still pending"
        return f"{undone}: advance() takes the step again, session.discard() discards the rows"

    def _steps(
        self, before: int, upper: int, streams: Mapping[str, StoredStream], own: tuple[int, ...]
    ) -> Iterator[Outcome]:
        """The steps of an advance, each committed before the next: one, unless more updates are due than one may have.

        The first step processes all inputs, also those at times that a later step closes. The last closes event times.
        """
        started, journal = clock.monotonic(), self.journal
        end = -1
        while end < upper:
            lower, steps, inserted = journal.lower, journal.steps, self.pending.sources
            end = step_limit(journal.table, self.pending, lower, upper, self.shards)
            feedback = self.catalogue.plan.feedback
            if feedback is not None and end > lower:
                end = before_feedback(journal.table, self.pending, lower, end, feedback)
            chosen = None
            if end > lower and self.refreshing.may_recompute(self.pending):
                chosen = self._chosen(lower, end, streaming=bool(streams))
                end = end if chosen is None else chosen.time + 1
            so_far = "" if lower == before else f", closed up to {lower}"
            try:
                with self.past.watch(f"closing times {before} to {upper}{so_far}", started):
                    closed = own if end == upper else journal.own
                    outcome, ran = self._step(lower, end, streams, closed, chosen, further=lower != before)
            finally:
                if journal.steps != steps:  # committed, even if an interrupt came right after
                    for name in inserted:
                        self.inserted[name] = journal.steps
                    self.pending = Inputs()
            self.measured.add(*ran)
            if chosen is not None:
                self.refreshing.took(chosen)
            if journal.table.durable:
                journal.tidy()
            if outcome.inspected or self.inspections.is_waiting:
                self.inspections.add(ran[0].plan, outcome.inspected)
                times = [end] if end < upper else []  # the last step also shows updates of times not closed yet
                self.inspections.show(Antichain.of(self.lattice, *times), self.lower)
            interrupts.check()
            streams = {}
            self.subscribers.deliver(f"the step is committed, lower is {journal.lower}")
            yield outcome

    def _chosen(self, lower: int, upper: int, *, streaming: bool) -> Chosen | None:
        """What the next step computes anew; the rows of micro-batches are not counted."""
        pending = self.pending
        sizes = None if streaming or not pending.frames else SizesOfInputs(pending)

        def in_frames(source: str) -> int | None:
            return None if sizes is None else sizes.in_frames(source)

        counted = self.measured.counted
        return self.refreshing.chosen(self.plan, lower, upper, pending, counted, in_frames, self.since_after)

    def _step(
        self,
        before: int,
        upper: int,
        streams: Mapping[str, StoredStream],
        own: tuple[int, ...],
        chosen: Chosen | None,
        *,
        further: bool,
    ) -> tuple[Outcome, list[Ran]]:
        """Compute and commit, or leave everything as it was; a ``further`` step is not the first of its advance.

        A step from a time to the same time closes none: it stores the inputs as future updates. What is ``chosen`` is
        computed anew after everything else, from what that has become.
        """
        journal = self.journal
        plan = self.catalogue.plan if chosen is None else chosen.what.kept
        since, events = self.since_after(upper), self.events_after(upper, own)
        # The rounds of a loop come back to history that earlier ones have written: none of it may be compacted yet.
        inside = min(since, max(before - 1, 0)) if plan.loops else since
        region = self.region(before, upper, inside, events, compacted=since)
        try:
            with journal.undoing(step=True) as states:
                retained, closed = (journal.lower, journal.since, journal.events), (journal.own, journal.closed)
                self._mark = Mark(states, journal.table.layouts, retained, journal.began, closed)
                try:
                    outcome = self.executor.step(plan, journal.table, self.pending, region, self._mode)
                    if plan.loops:
                        compact(outcome.states, region.final, histories=inside != since)
                    journal.take(outcome)
                    ran = [Ran(plan, outcome.measured)]
                    if chosen is not None:
                        again = self.region(before, upper, chosen.time, events, compacted=since)
                        ran.append(recompute(chosen, journal, self.executor, self.shards, again, outcome))
                finally:
                    self._mark = None
                if plan.changes_only:  # drop the changes that are no longer retained
                    journal.table.forget_before(plan.changes_only, region.final)
                if self._idle is not None and upper > before:
                    self._idle.step(journal.table, region)
                shown = self.catalogue.plan.contents
                new = {n: [b for b in batches if batch_rows(b)] for n, batches in outcome.new.items() if n in shown}
                filled = {*self.pending.updates, *self.pending.frames}
                info: dict[str, object] = {"placement": outcome.placement}
                if chosen is not None:
                    info["recomputed"] = [*chosen.what.views]
                announced = new if upper > before else None
                interrupts.check()
                static = self.catalogue.static
                closes = static.intersection(filled | journal.filled) if static else frozenset[str]()
                with interrupts.deferred():
                    journal.commit_step(
                        upper,
                        since,
                        events,
                        filled,
                        announced,
                        info,
                        streams,
                        further=further,
                        closes=closes,
                        own=own,
                    )
                    self.pending = Inputs()
        except AltneuError:
            raise
        except Exception as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None  # compiled code wraps it in a SystemError
            raise StepFailedError(
                f"the step from {before} to {upper} failed and nothing of it is committed: "
                f"{type(error).__name__}: {error}. "
                + (
                    ""
                    if further
                    else "The inserted rows are still pending: advance again, or discard them with session.discard()."
                )
            ) from error
        return outcome, ran

    @property
    def _mode(self) -> StepMode:
        """The mode of an ordinary step, the same one each time."""
        if self._ordinary.shards != self.shards:
            self._ordinary = StepMode(self.shards)
        return self._ordinary

    def make_ready(self) -> None:
        """Ensure what a step needs: that all views of the store are maintained, and the requested number of shards."""
        self.require_stored_views()
        if not self._adopted:
            self.adopt()
        if self.catalogue.unowned:
            self.catalogue.refuse_unowned(waiting=True)
        if self.journal.closed:
            self.release()
        if self.requested_shards != self.shards:
            self.reshard(self.requested_shards)

    def adopt(self) -> None:
        """Once all views are maintained: the remaining state is that of sources that an earlier version stored."""
        if not self._adopted:
            self.catalogue.adopt(self.shards)
            self.table.layouts = self.plan.arranged
            self._adopted = True

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

    def region(self, lower: int, upper: int, since: int, events: int, compacted: int | None = None) -> Region:
        """The times of a step from ``lower`` up to ``upper``, and the times that are retained while it runs.

        ``compacted`` is the least that is retained after it, if that is another.
        """
        at = self._frontier
        retained = at(since)
        final = retained if compacted is None or compacted == since else at(compacted)
        after = since if compacted is None else compacted
        return Region(at(lower), at(upper), retained, compacted=final, events=events, kept=self._kept(after, upper))

    def _kept(self, since: int, upper: int) -> dict[str, int] | None:
        """The arrangements of contents and errors that views retain longer than the session, and from when on."""
        kept: dict[str, int] = {}
        for name, view in self.journal.views.items():
            if "retain" in view and name in self.plan.views:
                ports, least = self.plan.views[name], least_readable(view, since, upper)
                kept |= {a: min(least, kept.get(a, least)) for a in (ports.contents, *ports.errors) if least < since}
        return kept or None

    def since_of_arrangements(self, names: Iterable[str]) -> int:
        """The least time at which all of these arrangements can be read."""
        since = self.journal.since
        kept = self._kept(since, self.lower) or {}
        return max((kept.get(name, since) for name in names), default=since)

    def since_after(self, upper: int) -> int:
        """The least time that is retained after a step, for ``retain`` and for readers."""
        if self.retain == "all":
            return self.journal.since
        since = upper - 1 - (self.retain or 0)
        for requested in (least_since(self.journal.store.leases()), self.subscribers.since):
            if requested is not None and requested < since:
                since = requested
        return max(self.journal.since, since)

    def events_after(self, upper: int, own: tuple[int, ...]) -> int:
        """The least event time that is retained after a step, for ``retain_events``.

        It counts back from the last closed event time, and from the last closed time as long as none is closed.
        """
        known = self.journal.events
        return known if self.retain_events is None else max(known, (own[0] if own else upper) - 1 - self.retain_events)

    def since_of(self, name: str) -> int:
        """The least time at which a view can be read."""
        return least_readable(self.journal.views[name], self.journal.since, self.lower)

    def coordinates(self, name: str) -> tuple[str, ...] | None:
        """The names of a view's two times; None if it has one."""
        self.ports(name)
        return ir.coordinates(self.catalogue.nodes[name])

    @property
    def closed(self) -> Closed:
        """What is closed for good: times, event times and sources."""
        journal = self.journal
        return Closed(journal.lower, journal.own, journal.closed)

    @property
    def open_times(self) -> Antichain:
        """The times at which sources take rows: pairs, if a source has two times."""
        return self.closed.frontier(len(self._times_of_sources))

    def frontier(self, name: str) -> Antichain:
        """The times at which a view may change again."""
        with self.lock:
            self.check_open()
            return self.frontier_of(name, self.closed, self.table.future)

    def frontier_of(self, name: str, closed: Closed, future: Mapping[tuple[str, int], FutureSummary]) -> Antichain:
        """The times at which a view may change again, if so much is closed and there are such future updates."""
        self.ports(name)
        theirs = {*self.plan.arrangements_of(name)}
        waiting = [summary.least for (state, _), summary in future.items() if state in theirs]
        coordinates = self.coordinates(name) or ("time",)
        return closed.frontier_of(len(coordinates), self.plan.sources_of(name), waiting)

    @property
    def retained(self) -> tuple[int, int, int]:
        """The frontier, and the least time and event time that can be read."""
        return self.journal.lower, self.journal.since, self.journal.events

    @property
    def before(self) -> Before | None:
        """The state before the step that another thread computes just now; None if none does."""
        mark = self._mark
        return None if mark is None or self.lock.is_mine else Before(self, mark, self.frontier_of)

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
        if self.table.rows(ports.contents) <= READ_ROWS or self.lacking is not None:
            return self.executor.frame_of(view.to_arrow(at, errors))
        if errors == "raise":
            view.raise_errors(time)
        return self.executor.read(self.table, ports, view.name, time, errors)

    def check_open(self) -> None:
        """Check that the session is open.

        Raises:
            ReadError: it is closed.
        """
        if self._closed:
            raise ReadError("this session is closed; open a new one (on the same path to continue where it ended)")


def checked_retain(retain: int | Literal["all"] | None) -> int | Literal["all"] | None:
    """A number of times to retain, of any type of whole numbers.

    Raises:
        PlanError: it is neither a number of at least 0 nor "all".
    """
    if retain is None or retain == "all":
        return retain
    if (number := whole_number(retain, "retain")) < 0:
        raise PlanError(f'retain must be a whole number of at least 0, or "all", got {retain!r}')
    return number


@contextmanager
def at_rest(state: StateOfViews) -> Iterator[StateOfViews]:
    """The state of views at a time between two steps: while one is computed by another thread, the state before it."""
    before = state.before if isinstance(state, Engine) else None
    if before is not None:
        yield before
        return
    with state.lock:
        yield state
