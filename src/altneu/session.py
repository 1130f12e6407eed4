"""Sessions: inputs, steps, commits and views."""

from __future__ import annotations

import tempfile
import time as clock
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from altneu._extras import require
from altneu.collections.collection import Collection
from altneu.collections.sources import InsertTime, check_frame, commands_of, is_spark_frame, to_table, two_times
from altneu.engine.backfill import backfill
from altneu.engine.catalogue import Catalogue, check_maintained, described, kept_sources
from altneu.engine.closing import Closing
from altneu.engine.history import History, Past
from altneu.engine.reading import Known, Time, changes, refuse_without_contents
from altneu.engine.subscription import Subscribers
from altneu.engine.view import OnErrors, View
from altneu.errors import (
    AltneuError,
    BeforeFrontierError,
    HydrationError,
    InputError,
    PlanError,
    ReadError,
    StepFailedError,
    StorePlanError,
    UnknownSourceError,
)
from altneu.explain import Explained, Facts, Form, explained, refuse_unbounded, rendered
from altneu.operators.keyed import DELETE_KEY, INSERT_OR_UPDATE
from altneu.order import Antichain, Epoch
from altneu.plan import ir
from altneu.plan.functions import recorded, titles
from altneu.plan.hydrate import hydration_plan, missing
from altneu.plan.physical import Plan, ViewPorts
from altneu.plan.rewrite import Joins
from altneu.runtime import interrupts
from altneu.runtime.base import Region, StepMode, fold
from altneu.runtime.inputs import Inputs, Stamp, whole_number
from altneu.runtime.journal import Journal, batch_rows
from altneu.runtime.local import LocalExecutor
from altneu.runtime.measured import Measurements
from altneu.runtime.memory import bytes_in
from altneu.runtime.portion import portion
from altneu.runtime.read import event_times
from altneu.runtime.reshard import Parting
from altneu.runtime.schedule import Outcome
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.state import StateTable
from altneu.runtime.taps import Taps
from altneu.store import (
    DirectoryStore,
    Lease,
    Location,
    MemoryStore,
    Store,
    lease_end,
    lease_seconds,
    least_since,
)
from altneu.streams import Following, Status, Streams
from altneu.trace.update import Updates

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from altneu.page import Page
    from altneu.provenance import Explanation
    from altneu.statements import Statements

READ_ROWS = 500_000  # a view with fewer updates is read by the driver
Placement = Literal["auto", "spark", "driver"]


@dataclass(frozen=True)
class Step:
    """What an advance did.

    Units:  ``lower`` and ``upper`` bound the times it closed; ``seconds`` is wall time, commit included; the changes
            are consolidated updates; ``state_rows`` counts updates kept in all arrangements.
    """

    lower: int
    upper: int
    seconds: float
    changes_in: int
    changes_out: Mapping[str, int]
    placement: str
    state_rows: int


class Session(Closing):
    """Maintains views as their sources change.

    ``Session()`` is local and in memory; ``Session(path="state/")`` local and durable; ``Session(spark, path=...)``
    runs large steps on Spark and small ones in the driver, on the same state. The path may be an address with its
    ``storage_options`` ("s3://bucket/state") or a pyarrow file system; ``recover=True`` opens a damaged store at
    its last whole commit (docs/stores.md). Times are whole numbers from 0; a session has one clock, ``lower``, before
    which everything is closed.

    ``retain`` keeps that many times before the last closed one readable (``at=``), ``"all"`` all of them; what
    readers and subscriptions still ask for is kept too. Of sources with two times ``retain_events`` keeps that many
    event times before the last closed time apart (default: all); what is about earlier ones counts as of the first
    of these. ``shards`` is the number of parts of all state on Spark (default: its cores); a store's is parted
    further by a multiple of it (``reshard``). ``memory`` is what a task, or a step in the driver, may use, in bytes
    or as "1g" (docs/running.md). ``check_functions`` calls every Python function of the views twice: where the two
    differ the step is refused with an ``ImpureFunctionError``, which names the function and the row
    (docs/python_functions.md). Safe to share between threads.

    ``placement`` says where a step is computed, and each round of a loop by itself; ``Step.placement`` says where it
    was. "auto" is the driver for up to a million rows, else Spark. What counts are the rows that were inserted, that
    fall due, or that a view added late reads. Of DataFrames up to 200,000 rows, all together, are brought to the
    driver: one row more is asked for, whatever Spark expects of them, and if it comes, Spark reads the DataFrame from
    the beginning. A join that makes more than ten million matches in the driver is computed again on Spark. "driver" is
    always the driver, to which DataFrames of any size are then brought; "spark" is always Spark.

    >>> import altneu as an
    >>> orders = an.source("orders", "item string, price long")
    >>> with an.Session() as session:
    ...     total = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
    ...     _ = session.advance()
    ...     session.retract("orders", [("tea", 3)])
    ...     _ = session.advance()
    ...     sorted(total.to_pylist()), sorted(total.changes().to_pylist(), key=str)[0]
    ([('jam', 5), ('tea', 4)], {'item': 'tea', 'total': 4, 'time': 1, 'diff': 1})
    """

    def __init__(
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
    ) -> None:
        if placement not in ("auto", "spark", "driver"):
            raise PlanError(f'placement={placement!r} is none of "auto", "spark", "driver"')
        if spark is not None and not hasattr(spark, "createDataFrame"):
            raise PlanError(f"Session(spark) takes a SparkSession, not {spark!r}; a folder is given as path=...")
        if retain is not None and retain != "all" and whole_number(retain, "retain") < 0:
            raise PlanError(f'retain={retain!r} is neither a number of times from 0 on nor "all"')
        if retain_events is not None and whole_number(retain_events, "retain_events") < 0:
            raise PlanError(f"retain_events={retain_events!r} is no number of times from 0 on")
        if shards is not None and whole_number(shards, "shards") < 1:
            raise PlanError(f"shards={shards!r}: there is at least one")
        self.lattice = Epoch()
        self.spark, self.placement, self.retain, self.retain_events = spark, placement, retain, retain_events
        if not isinstance(check_functions, bool):
            raise PlanError(f"check_functions must be True or False, got {check_functions!r}")
        self.check_functions = check_functions
        self._memory = None if memory is None else bytes_in(memory)
        self.lock = interrupts.Lock()
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        store = self._open_store(path, storage_options or {}, recover=recover)
        try:
            self._journal = Journal(store, self.lattice)
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
        stored = self._journal.shards
        if shards is not None and stored and shards % stored:
            raise StorePlanError(
                f"the store has {stored} shards and cannot be opened with {shards}; leave shards out, "
                "or take a multiple"
            )
        self.shards = stored or shards or (self.spark.sparkContext.defaultParallelism if self.spark else 1)
        self._wanted_shards = shards or self.shards
        self._journal.shards = self.shards
        if self.spark is None:
            self._executor: Any = LocalExecutor(self._memory)
        else:
            from altneu.runtime.spark.executor import SparkExecutor

            self._executor = SparkExecutor(self.spark, self.shards, self.placement, self._memory)
        self._catalogue = Catalogue(self._journal, self.lattice, check_functions=self.check_functions)
        self.table.layouts = self._plan.arranged
        self._pending = Inputs()
        self._adopted = False
        self._call = 0
        self._taps = Taps(self.lattice)
        self._measured = Measurements()
        self.streams = Streams(self)
        self.subscribers = Subscribers()
        self.past = History()
        self.pages: list[Page] = []
        self.statements: Statements | None = None
        self._closed = False

    # life -----------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the store and of scratch files; what was committed stays, what was only inserted does not.

        Streams that are followed are stopped first, each after the micro-batch that it is at, and pages are closed.
        """
        self.streams.stop()
        for page in [*self.pages]:
            page.close()
        with self.lock:
            if self._closed:
                return
            self._closed = True
            self.subscribers.end()
            self._executor.close()
            self._journal.store.close()
            self.table.release()
            self._pending = Inputs()
            if self._scratch is not None:
                self._scratch.cleanup()

    @property
    def store(self) -> Store:
        """Where commits go."""
        return self._journal.store

    @property
    def sources(self) -> list[str]:
        """Names of the sources that the maintained views are made of, and of those whose rows are kept."""
        return list(self._sources)

    @property
    def collections(self) -> dict[str, Collection]:
        """The maintained views as they were written, the sources they are made of and those kept, by name."""
        sources = {name: Collection(source) for name, source in self._sources.items()}
        return {**sources, **self._catalogue.collections}

    @property
    def definitions(self) -> Mapping[str, Any]:
        """What statements have defined, by name, by the last commit."""
        return self._journal.definitions

    def defining(self, definitions: Mapping[str, Any], forgotten: Iterable[str] = ()) -> AbstractContextManager[None]:
        """Inside, the first commit tells definitions, by name, None for one that goes, and forgets sources."""
        return self._journal.defining(definitions, tuple(forgotten))

    @property
    def streams_stored(self) -> Mapping[str, Any]:
        """How far each stream was taken, by the last commit."""
        return self._journal.streams

    @property
    def table(self) -> StateTable:
        """The state of every arrangement."""
        return self._journal.table

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed; the next insert happens at it unless told otherwise."""
        return self._journal.lower

    @property
    def views(self) -> list[str]:
        """Names of the maintained views."""
        return list(self._catalogue.nodes)

    @property
    def views_stored(self) -> list[str]:
        """Names of the views that the store has, those included that wait to be maintained here."""
        return list(self._journal.views)

    @property
    def jobs(self) -> Jobs:
        """The Spark jobs that steps were, and how many rows they read."""
        return self._executor.jobs

    @property
    def _plan(self) -> Plan:
        return self._catalogue.plan

    @property
    def _sources(self) -> Mapping[str, ir.Source]:
        return self._catalogue.sources

    # views ----------------------------------------------------------------------------------------------------------

    def maintain(
        self,
        name: str,
        collection: Collection,
        *,
        strict: bool = False,
        joins: Joins = "auto",
        trust_functions: bool = False,
        contents: bool = True,
    ) -> View:
        """Keep a collection right from now on, under a name.

        A view added late is computed from what other views keep, without re-reading sources. What came before
        ``since`` counts as of then at the latest, as its own times are not kept: a late view with a ``delay`` may lack
        it for as long as the delay is, from ``since`` on. What is between ``differentiate`` and ``integrate`` depends
        on when rows came, and takes all of that as having come at ``since``.

        In a store that has the view already, its state is taken up where it was left; a store that is opened again
        wants all its views maintained, or dropped, before the next ``advance``.

        ``strict`` refuses a plan in which some operator's cost per step is bounded only by everything.

        ``joins`` says how three and more collections are joined: "delta" keeps no intermediate result, "binary" keeps
        them all, and "auto" takes what has less to build beside what is arranged already, and delta joins for cyclic
        patterns; ``explain`` says which and why. A view that is there keeps what it has.

        A view that the store has is refused where one of its Python functions reads something else than it did
        (docs/python_functions.md): the error says which, and what. ``trust_functions`` takes it up all the same; it is
        for functions that give for every row what they gave before, and for another Python, whose code cannot be
        compared.

        With ``contents=False`` only what changes is wanted: ``view.changes()``, subscriptions, sinks, and the counts of
        a ``Step`` are as of any other view, and nothing of the result is kept but what waits for its time and the
        history that is asked for (``retain``, open subscriptions, leases). What its operators keep, and errors, are
        there as ever. Reading its contents is refused; a view upon the same collection has contents of its own, as
        long as its rows can be computed from what is kept.

        Raises:
            PlanError: the name is taken by another collection, ``joins="delta"`` is not possible, or the view is there
                with other ``contents``.
            UnboundedCostError: ``strict``, and an operator re-reads everything on every change.
            StorePlanError: the store holds another plan under this name, other functions or other ``contents``.
            HydrationError: rows are needed that nothing keeps; ``backfill`` gives them again.

        >>> import altneu as an
        >>> readings = an.source("readings", "sensor string, degrees long")
        >>> with an.Session() as session:
        ...     alerts = session.maintain("alerts", readings.filter("degrees > 90"), contents=False)
        ...     _ = alerts.subscribe(lambda row, time, diff: print(row, time, diff))
        ...     session.insert("readings", [("a", 20), ("b", 95)])
        ...     steps = [session.advance() for _ in range(3)]
        ...     steps[-1].state_rows
        ('b', 95) 0 1
        0
        """
        with self.lock:
            self._check_open()
            check_maintained(name, collection)
            if not isinstance(contents, bool):
                raise PlanError(f"contents must be True or False, got {contents!r}")
            self._catalogue.check_contents(name, contents=contents)
            collection = self._catalogue.recognised(name, collection, joins, trust=trust_functions)
            node, deltas = self._catalogue.chosen(name, collection, joins)
            if name in self._catalogue.nodes:
                return View(self, name)
            self._catalogue.check_sources(collection)
            try:
                self._add(name, collection, node, deltas, strict=strict, contents=contents)
            except HydrationError:
                upon = self._catalogue.upon_views(collection)
                if upon is None:
                    raise
                self._add(name, collection, upon, [], strict=strict, contents=contents)
            return View(self, name)

    def _add(
        self, name: str, collection: Collection, node: ir.Node, deltas: list[str], *, strict: bool, contents: bool
    ) -> None:
        """Take up a view: with the state that it has, or computed from what is there."""
        without = () if contents else (name,)
        plan = self._catalogue.lowered(self.shards, more={name: node}, changes_only=without)
        if strict:
            refuse_unbounded(plan, name)
        before = self.table.layouts
        self.table.layouts = plan.arranged
        try:
            if name not in self._journal.views:
                with self.past.watch(f"computing view {name}"):
                    self._hydrate(plan, name, collection, node, deltas)
            else:
                with interrupts.deferred():
                    self._journal.describe(name, described(plan, name, node), recorded(collection.node))
                    self._journal.keep(kept_sources(node))
                    self._catalogue.add(name, collection, node, plan)
        except BaseException:
            if name not in self._catalogue.nodes:
                self.table.layouts = before
            raise

    def _hydrate(self, plan: Plan, name: str, collection: Collection, node: ir.Node, deltas: list[str]) -> None:
        """Fill the arrangements that a view needs and that nothing has filled yet; commit it, and take it up."""
        journal, outcome = self._journal, None
        with journal.undoing():
            existing = journal.existing()
            if missing(plan, existing):
                part, given, anew = hydration_plan(plan, name, existing, journal.filled, self._catalogue.called(node))
                region = self._region(journal.since, journal.lower, journal.since, journal.events)
                mode = StepMode(self.shards, given, hydrating=True, anew=anew)
                outcome = self._executor.step(part, self.table, Inputs(), region, mode)
                journal.take(outcome)
            kept = described(plan, name, node)
            arrangements, sources = plan.arrangements_of(name), kept_sources(node)
            functions = recorded(collection.node)
            interrupts.check()
            with interrupts.deferred():
                journal.commit_view(name, node.fingerprint, arrangements, deltas, kept, functions, sources)
                self._catalogue.add(name, collection, node, plan)
        if outcome is not None:
            self._measured.fill(part, outcome.measured, given)

    def backfill(self, source: str | Collection, rows: Any, *, diff: int | str = 1) -> None:
        """Give the rows that a source holds now once more, and keep them: as if it had ``keep=True`` from the start.

        For a late view that needs rows which nothing keeps: maintain it afterwards. ``rows`` are as for ``insert``,
        every row of the source as often as it is there, at the last closed time; ``diff`` is a count or the name of a
        column. What was inserted since the last ``advance`` is not among them. A source that no view reads is given as
        it was declared, by what ``an.source`` made. Of a source that is kept already the rows are checked, and no more.

        They are compared with everything that is kept of what stateless verbs make of the source alone: its rows,
        filtered or with fewer columns, and the counts and sums of its groups. What no view keeps cannot be checked:
        rows that every view leaves out, columns that none reads, rows that were inserted with times in the future and
        that every view leaves out. If these are wrong, later views will be. ``drop_source`` lets go of what is kept.

        Cost:   the rows are read once, and go through the operators whose state they are compared with; that state is
                read once; on Spark this is one job. Afterwards as ``keep=True``.
        Law:    a view filled from it is what it would be had it been there from the start, of what is there at the last
                closed time (tests/oracle/test_backfill.py).

        Raises:
            InputError: they are not the rows that the source holds (it names the source, the operator that keeps
                something else, and a row that differs); or the source never had any; or changes of it wait for their
                time; or times before the last are kept apart (``retain``); or it has two times. Nothing has changed.
            UnknownSourceError: there is no such source.
            PlanError: it is declared otherwise than here.
            SchemaError: the rows do not fit its columns.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, price long")
        >>> with an.Session() as session:
        ...     _ = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
        ...     session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
        ...     _ = session.advance()
        ...     session.backfill("orders", [("jam", 5), ("tea", 3), ("tea", 4)])
        ...     sorted(session.maintain("dear", orders.filter("price > 3")).to_pylist())
        [('jam', 5), ('tea', 4)]
        """
        with self.lock:
            self._check_open()
            self._require_stored_views()
            self._adopt()
            backfill(self, source, rows, diff)

    def drop(self, name: str) -> None:
        """Forget a view and the state that only it needs.

        The rows of a source with ``keep=True``, or that ``backfill`` was given, stay until ``drop_source``.

        Raises:
            PlanError: there is no such view.
        """
        with self.lock:
            self._check_open()
            known = {**self._catalogue.nodes, **self._journal.views}
            if name not in known:
                raise PlanError(f"no view {name!r}; the views are: {', '.join(known) or '(none)'}")
            plan = self._catalogue.lowered(self.shards, less=name, without=self._journal.forgotten)
            with interrupts.deferred():
                self._journal.drop(name, plan.arrangements)
                self.subscribers.end(name)
                self._catalogue.remove(name, plan)
                self._measured.keep(plan)

    def drop_source(self, name: str) -> None:
        """Forget a source that no view reads: the rows kept of it, those that wait, and how far its stream was taken.

        The rows of a source with ``keep=True`` are kept from the first ``maintain`` that reads it until they are
        dropped here: while no view reads it, it takes inserts, goes with a reshard and into a session that is opened
        again, and a later view of it has all of its rows. A source that is dropped may be declared anew, otherwise too.

        Where views still read a source that was given to ``backfill``, its rows are kept no more, and that is all.

        Raises:
            UnknownSourceError: there is no such source.
            PlanError: a view reads it, or it is a statement's (``DROP SOURCE``, ``DROP TABLE``).
            StorePlanError: the store has views that are not maintained here, and may read it.
            InputError: its stream is being followed.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, price long", keep=True)
        >>> with an.Session() as session:
        ...     _ = session.maintain("total", orders.group_by().agg(total="sum(price)"))
        ...     session.insert("orders", [("tea", 3)])
        ...     _ = session.advance()
        ...     session.drop("total")
        ...     before = session.sources, session.maintain("orders", orders).to_pylist()
        ...     session.drop("orders")
        ...     session.drop_source("orders")
        ...     before, session.sources
        ((['orders'], [('tea', 3)]), [])
        """
        with self.lock:
            self._check_open()
            self._require_stored_views()
            self._adopt()
            if self._catalogue.readers(name) and self.is_backfilled(name):
                self.keep_no_more(name)
                return
            journal, found = self._journal, self.definitions.get(name.lower())
            if found is not None and found["kind"] in ("SOURCE", "TABLE"):
                raise PlanError(f"{name!r} was made by a statement; DROP {found['kind']} {name} drops it")
            if readers := self._catalogue.readers(name):
                raise PlanError(f"source {name!r} is read by the view(s) {', '.join(readers)}; drop these first")
            if name not in {*journal.kept, *journal.filled, *journal.streams}:
                raise UnknownSourceError(f"no source {name!r}; the sources are: {', '.join(self._sources) or '(none)'}")
            if name in journal.streams or name in self.streams.followed:
                self.streams.unfollow(name)
            plan = self._catalogue.lowered(self.shards, without=[name])
            with interrupts.deferred():
                journal.drop_source(name, plan.arrangements)
                self.discard(name)
                self._catalogue.plan = plan
                self._measured.keep(plan)

    def is_backfilled(self, name: str) -> bool:
        """Whether the rows of a source are kept that is declared without ``keep=True``."""
        return name in self._journal.kept and not self._journal.kept[name].get("keep", True)

    def keep_no_more(self, name: str) -> None:
        """Let go of the rows that ``backfill`` has kept of a source; views of it stay as they are."""
        with self.lock:
            plan = self._catalogue.lowered(self.shards, without=[name])
            with interrupts.deferred():
                self._journal.keep_no_more(name, plan.arrangements)
                self._catalogue.plan = plan
                self._measured.keep(plan)

    def view(self, name: str) -> View:
        """A maintained view by name; one that statements have defined in this store is taken up where it was left."""
        with self.lock:
            if name in self.views_stored and name not in self._catalogue.nodes and self.definitions:
                from altneu.statements import Statements

                Statements.of(self).restore()
        self.ports(name)
        return View(self, name)

    def ports(self, name: str) -> ViewPorts:
        """Where a view's contents and errors are kept."""
        return self._catalogue.ports(name)

    # statements -----------------------------------------------------------------------------------------------------

    def sql(self, text: str) -> Any:
        """Run statements, which semicolons part; what the last one gives (docs/sql.md).

        A query is answered once, with the rows there are: a ``Result``. ``CREATE MATERIALIZED VIEW`` maintains it.

        Raises:
            StatementError: a statement does not parse, is not supported, or does not fit what there is; those before
                it are done.

        >>> import altneu as an
        >>> with an.Session() as session:
        ...     _ = session.sql("CREATE TABLE orders (item STRING, price BIGINT)")
        ...     _ = session.sql(
        ...         "CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item"
        ...     )
        ...     _ = session.sql("INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4)")
        ...     session.sql("SELECT * FROM total ORDER BY item").to_pylist()
        [('jam', 5), ('tea', 7)]
        """
        self._check_open()
        from altneu.statements import Statements

        return Statements.of(self).run(text)

    def peek(self, collection: Collection, at: Time = None, errors: OnErrors = "raise") -> pa.Table:
        """The rows of a collection at a time, computed once from what views keep; nothing is kept or committed.

        Cost:   what maintaining it would cost first, less what views have arranged already: a view that is there is
                read as it is.

        Raises:
            HydrationError: rows are needed that nothing keeps.
            ViewHasErrorsError, HistoryGoneError, NotYetKnownError: as ``View.to_arrow``.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, price long")
        >>> with an.Session() as session:
        ...     view = session.maintain("orders", orders)
        ...     session.insert("orders", [("tea", 3), ("tea", 4)])
        ...     _ = session.advance()
        ...     session.peek(orders.group_by("item").agg(total="sum(price)")).to_pylist()
        [{'item': 'tea', 'total': 7}]
        """
        from altneu.statements.peek import peek

        with self.lock:
            self._check_open()
            return peek(self, collection, at, errors)

    def explain(self, name: str, *, analyze: bool = False, form: Form = "text") -> str:
        """What a view's operators cost: keys, exchanges, state kept, and what bounds a step's cost.

        Of a reduce over two times also how many event times its groups have, which a correction is followed through.
        ``analyze`` adds what each operator did since the session was opened: rows, seconds, steps, bytes kept. ``form``
        is "text", "json", "svg", a picture, or "html", a page with the picture in it.

        Raises:
            PlanError: there is no such view, or no such form.
        """
        return rendered(self.explained(name), form, analyze=analyze)

    def explained(self, name: str | None = None) -> Explained:
        """The operators of a view, or of all views in one graph, and what each did since the session was opened.

        Raises:
            PlanError: there is no such view.
            ReadError: the session is closed.
        """
        with self.lock:
            self._check_open()
            if name is not None:
                self.ports(name)
            return explained(self._plan, name, self.facts())

    def facts(self) -> Facts:
        """What is kept, and what was measured, as EXPLAIN tells it."""
        table, found = self.table, self._measured
        return Facts(table.rows, table.size, partial(event_times, table), found.read(), str(found))

    def explain_row(self, name: str, row: Mapping[str, Any] | Sequence[Any], at: Time = None) -> Explanation:
        """``View.explain_row``, by the view's name."""
        from altneu.provenance import explain_row

        return explain_row(self, name, row, at)

    def reshard(self, shards: int) -> None:
        """Part all state into more shards, a multiple of what there are, and commit: no source is read again.

        What the views show, and their plans, stay as they are. ``Session(path, shards=...)`` with a multiple does the
        same before the first step.

        Cost:   all state is read and written once: in the driver where it is small, else by one Spark job.
        Law:    every step after it gives what it would have given before (tests/session/test_reshard.py).

        Raises:
            PlanError: it is no multiple; nothing has happened.
            StorePlanError: the store has views that are not maintained here.
            StepFailedError, StoreFullError: nothing has happened.
        """
        with self.lock:
            self._check_open()
            self._require_stored_views()
            self._adopt()
            self._catalogue.refuse_unowned(waiting=False)
            parting = Parting.of(self.shards, whole_number(shards, "shards"))
            if parting.times > 1:
                plan = self._catalogue.lowered(shards)
                outcome = self._executor.reshard(self._plan, self.table, parting)
                interrupts.check()
                with interrupts.deferred():
                    self._journal.commit_shards(shards, outcome)
                    self.shards = self._executor.shards = shards
                    self._catalogue.plan = plan
            self._wanted_shards = shards

    # inputs ---------------------------------------------------------------------------------------------------------

    def insert(self, source: str, data: Any, *, time: InsertTime = None, diff: int | str = 1) -> None:
        """Add rows to a source; they count from the next ``advance`` that passes their time on, and are durable then.

        ``data``: a Spark DataFrame (of any size: many rows are read by Spark's tasks in the step), an Arrow table, a
        pandas or Polars frame, or a list of tuples or dictionaries. Columns go by their names; a frame's other columns
        are left out, and what a dictionary lacks is null. ``time`` is a time or the name of a column (default: the
        session's ``lower``); ``diff`` a count or the name of a column, negative counts retract. A column so named may
        be one of the source's or one more in the data; in tuples one more comes last, the time before the diff.

        A source with two times takes both: ``time=(system, event)``, each a time, a column's name, or None for the
        session's ``lower``; or only the second one, and the first is ``lower``.

        Of a source that is a set or has a key a row is there or not, however often it is inserted: of a diff its sign
        counts. Inserting a row that is there, and retracting one that is not, do nothing (docs/keyed.md).

        Raises:
            UnknownSourceError, SchemaError, BeforeFrontierError: nothing of the insert is kept.
        """
        self._insert(source, data, time, diff, 1)

    def retract(self, source: str, data: Any, *, time: InsertTime = None, diff: int | str = 1) -> None:
        """Take rows away from a source: ``insert`` with the signs turned."""
        self._insert(source, data, time, diff, -1)

    def insert_or_update(self, source: str, data: Any, *, time: int | str | None = None) -> None:
        """Give keys of a source with a key one row each, in the place of whatever they have.

        ``data`` and ``time`` are as for ``insert``. Commands for one key are obeyed in the order of their times and, at
        one time, in the order in which they were given: call after call, row after row, of a DataFrame partition after
        partition (docs/keyed.md).

        Cost:   the rows of these keys are looked up and changed; nothing is kept of the command.

        Raises:
            InputError: the source has no key.
            UnknownSourceError, SchemaError, BeforeFrontierError: nothing of the call is kept.

        >>> import altneu as an
        >>> users = an.source("users", "id long, name string", key="id")
        >>> with an.Session() as session:
        ...     view = session.maintain("users", users)
        ...     session.insert_or_update("users", [(1, "Ada"), (2, "Bob"), (1, "Ada L.")])
        ...     _ = session.advance()
        ...     session.delete_key("users", [2, 7])
        ...     _ = session.advance()
        ...     view.to_pylist()
        [(1, 'Ada L.')]
        """
        self._insert(source, data, time, 1, 1, INSERT_OR_UPDATE)

    def delete_key(self, source: str, keys: Any, *, time: int | str | None = None) -> None:
        """Delete whatever a source with a key has of some keys; of a key that is not there, nothing.

        ``keys`` is data as for ``insert``, of which only the key's columns are read: a list has tuples of them, or bare
        values where the key is one column.

        Cost:   the rows of these keys are looked up and deleted; nothing is kept of the command, nor of the key.

        Raises:
            InputError: the source has no key.
            UnknownSourceError, SchemaError, BeforeFrontierError: nothing of the call is kept.
        """
        self._insert(source, keys, time, 1, 1, DELETE_KEY)

    def next_call(self) -> int:
        """The number of a call that gives commands: greater than that of any before it, in any session of the store."""
        self._call = max(self._call + 1, self._journal.store.next_number << 32)
        return self._call

    def _insert(
        self, source: str, data: Any, time: InsertTime, diff: int | str, sign: int, kind: int | None = None
    ) -> None:
        with self.lock:
            self._check_open()
            commands = commands_of(self.source(source), self.next_call(), kind)
            schema = self.source(source).schema if commands is None else commands.read
            time, event = two_times(self.source(source), time)
            now = self.lower
            if isinstance(time, int) and time < now:
                raise BeforeFrontierError(
                    f"time {time} is closed: the session's lower is {now}; insert at {now} or later"
                )
            frontier = Antichain.of(self.lattice, now)
            when = now if time is None else time
            stamp = Stamp(source, schema, self.lattice, frontier, when, diff, sign, event, commands)
            if is_spark_frame(data) and self.spark is not None:
                check_frame(data, stamp)
                self._pending.frames.setdefault(source, []).append((data, stamp))
            else:
                updates = stamp.updates(to_table(data, stamp.columns, schema, source))
                if len(updates):
                    self._pending.updates.setdefault(source, []).append(updates)

    def source(self, name: str) -> ir.Source:
        """A source that the maintained views are made of, or whose rows are kept.

        Raises:
            UnknownSourceError: no view reads one of that name, and none is kept.
        """
        if name not in self._sources:
            raise UnknownSourceError(
                f"no maintained view reads a source {name!r}; the sources are: "
                f"{', '.join(self._sources) or '(none: maintain a view first)'}"
            )
        return self._sources[name]

    @property
    def sources_filled(self) -> frozenset[str]:
        """Names of the sources that ever had rows, by the last commit."""
        return frozenset(self._journal.filled)

    @property
    def has_pending(self) -> bool:
        """Whether anything was inserted that no step has taken up."""
        return bool(self._pending.updates or self._pending.frames)

    @property
    def has_open(self) -> bool:
        """Whether a commit has taken up rows and no time was closed since, so that they do not count yet."""
        return self._journal.is_open

    def discard(self, source: str | None = None) -> None:
        """Forget what was inserted into a source (or into all) since the last advance."""
        with self.lock:
            for table in (self._pending.updates, self._pending.frames):
                for name in list(table) if source is None else [source]:
                    table.pop(name, None)

    def waiting(self) -> Inputs:
        """What was inserted since the last advance, as it is now."""
        with self.lock:
            return self._pending.and_more(Inputs())

    def wait_again(self, inputs: Inputs) -> None:
        """Put what ``waiting`` gave in the place of what was inserted since."""
        with self.lock:
            self._pending = inputs

    @property
    def steps(self) -> int:
        """How many steps this session has committed."""
        return self._journal.steps

    def history(self, n: int = 1000) -> list[Past]:
        """The last steps, at most ``n`` of the last thousand, the oldest first: each with when it ended.

        >>> import altneu as an
        >>> with an.Session() as session:
        ...     _ = session.maintain("all", an.source("n", "k long"))
        ...     session.insert("n", [1, 2])
        ...     _ = session.advance()
        ...     [(past.number, past.step.changes_in) for past in session.history()]
        [(1, 2)]
        """
        return self.past.last(n)

    def serve(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        allow_writes: bool = False,
        token: str | None = None,
        open_to_all: bool = False,
    ) -> Page:
        """Show the session in a browser while it runs: its graph, steps, views, streams, and a box for queries.

        The page is served by a thread of this process at ``page.url``, until ``page.close()`` or the session's. Port 0
        is a free one. It only looks, takes no step and changes nothing, unless ``allow_writes``. Anybody on this
        machine can open it; a ``host`` that others reach wants a ``token``, which the address then has to tell, or
        ``open_to_all=True`` (docs/live_page.md).

        Cost:   a step tells what it did and is not waited for; reading goes on while a step runs, a query waits for it
                and the next step for the query.

        Raises:
            MissingExtraError: the packages of ``altneu[page]`` are not installed.
            SetupError: the port is taken, or others could reach the host and nothing was said of that.

        >>> import altneu as an
        >>> with an.Session() as session, session.serve() as page:
        ...     page.url.startswith("http://127.0.0.1:")
        True
        """
        require("page", "session.serve")
        from altneu.page import serve

        self._check_open()
        return serve(self, host, port, allow_writes=allow_writes, token=token, open_to_all=open_to_all)

    def follow(  # noqa: PLR0913  # options, each by its name
        self,
        streams: Mapping[str, DataFrame] = MappingProxyType({}),
        /,
        *,
        checkpoint: str | Path | None = None,
        available_now: bool = False,
        trigger: str | None = None,
        time: InsertTime | Mapping[str, InsertTime] = None,
        diff: int | str | Mapping[str, int | str] = 1,
        watermark: int | Mapping[str, int] | None = None,
        late: str | Mapping[str, str] = "revise",
        command: str | Mapping[str, str] | None = None,
        max_rows: int | Mapping[str, int] | None = None,
        restart: str | Mapping[str, str] | None = None,
        on_step: Callable[[Status, Step], object] | None = None,
        **more: DataFrame,
    ) -> Following:
        """Feed sources from Structured Streaming: every micro-batch is taken once, whatever is killed in between.

        ``session.follow(edges=spark.readStream...)``, or a mapping where a name is no identifier. A micro-batch takes
        the next time of the session, which closes it. How far the stream is then is in the same commit. With
        ``available_now`` what is there is taken and the streams end; else they go on, a batch as soon as one is done or
        every ``trigger`` ("10 seconds").

        With ``time``, a column or a SQL expression for a whole number, rows come at their own times, and the session
        advances to the least, over all such streams, of the greatest time seen less ``watermark``. Rows whose time is
        closed are ``late``: "revise" counts them from ``lower`` on, "drop" only counts how many, "error" puts them
        into ``an.late_rows(source)``. ``diff`` is a count, a column or an expression.

        ``command`` says what becomes of the rows of a source with a key: "insert", "delete", "insert_or_update" or
        "delete_key", or a column or a SQL expression that says it of each row (docs/keyed.md).

        ``max_rows`` cuts a larger micro-batch into pieces, a step each. ``checkpoint`` is the folder of Spark's
        checkpoints, in the store's own if it is a local one. ``restart`` is for a checkpoint and a store that have
        parted: the error that says so says what to give. An option that is not the same for all streams is a mapping by
        name.

        ``on_step(status, step)`` is called after every step of a stream, in the stream's thread and before the next
        step of any: ``view.changes()`` are those of this one. What it raises stops the stream, behind this step.

        Cost:   a one-row micro-batch is a Spark job to fetch it and a step in the driver (docs/streams_in.md).
        Law:    each row is counted once (tests/session/test_follow_killed.py).

        Raises:
            InputError: no stream, a stream on Spark Connect, a source that is followed already, or wrong options.
            StreamError: in ``wait()``: a stream stopped; it names the batch and what to do.
        """
        options = {"time": time, "diff": diff, "watermark": watermark, "late": late, "command": command}
        options["max_rows"] = max_rows
        self._check_open()
        self._make_ready()
        return self.streams.follow(
            {**streams, **more},
            None if checkpoint is None else str(checkpoint),
            {**options, "restart": restart, "on_step": on_step},
            available_now=available_now,
            trigger=trigger,
        )

    def unfollow(self, name: str) -> None:
        """Forget how far a stream was taken: its watermark holds nothing back, and following it begins anew.

        What was taken of it stays. Streams that are still read are stopped first: ``following.stop()``.

        Raises:
            InputError: it is followed just now, or never was.
        """
        with self.lock:
            self._check_open()
            self.streams.unfollow(name)
            if name in self._journal.streams:
                self._journal.forget_stream(name)

    # steps ----------------------------------------------------------------------------------------------------------

    def advance(self, to: int | None = None) -> Step:
        """Close every time before ``to`` (default: one tick), bring all views up to date, and commit.

        All the times in between are computed in one step, except that a million updates are taken up at once (a shard;
        ``altneu.runtime.portion``): when more are due, after a long pause, the advance takes several steps, each of
        them committed, and memory follows the largest. Cost: follows the change and what it touches.

        Raises:
            InputError: ``to`` does not lie after ``lower``.
            SourceFailedError, StepFailedError, DiffOverflowError, StoreFullError: nothing is committed; what was
                inserted is still there, and ``discard`` forgets it. In a later one of several steps: what was closed
                stays closed, ``lower`` tells up to where, and another advance goes on from there.
        """
        with self.lock:
            self._check_open()
            before = self.lower
            upper = before + 1 if to is None else whole_number(to, "to")
            if upper <= before:
                raise InputError(f"advance(to={upper}) would go back: the session's lower is {before}")
            return self._advance(upper, {})

    def commit(self) -> None:
        """Make what was inserted durable, and close no time: it counts when an advance passes its time.

        Views stay as they are, ``changes()`` included. It waits with what has times in the future, after the linear
        logic above it has run once.

        Raises:
            SourceFailedError, StepFailedError, StoreFullError: as ``advance``; what was inserted is still there.

        >>> import altneu as an
        >>> with an.Session() as session:
        ...     view = session.maintain("all", an.source("n", "k long"))
        ...     session.insert("n", [1])
        ...     session.commit()
        ...     before = view.to_pylist()
        ...     _ = session.advance()
        ...     before, view.to_pylist()
        ([], [(1,)])
        """
        with self.lock:
            self._check_open()
            self._advance(self.lower, {})

    def take(self, inputs: Inputs, upper: int, streams: Mapping[str, Any]) -> Step:
        """Take micro-batches up with what was inserted and advance, ``upper`` being ``lower`` or a later time.

        How far the ``streams`` are then is in the commit that has their rows. If there is no such commit, what was
        inserted otherwise is still there and the micro-batches are not.
        """
        with self.lock:
            self._check_open()
            own, steps = self._pending, self._journal.steps
            self._pending = own.and_more(inputs)
            try:
                return self._advance(upper, streams)
            except BaseException:
                if self._journal.steps == steps:
                    self._pending = own
                raise

    def _advance(self, upper: int, streams: Mapping[str, Any]) -> Step:
        started, before = clock.perf_counter(), self.lower
        self._make_ready()
        received, placements = 0, dict[str, None]()
        self._measured.begin()
        steps = self._journal.steps
        try:
            for outcome in self._steps(before, upper, streams):
                received += sum(outcome.received.values())
                placements[outcome.placement] = None
        except BaseException as caught:
            error = interrupts.original(caught)
            self.past.fail(error)
            if before < self.lower < upper:
                error.add_note(
                    f"altneu: of the times {before} to {upper} those before {self.lower} are closed and committed, "
                    f"and so is what was inserted; advance(to={upper}) goes on from there"
                )
            elif not isinstance(error, Exception):
                error.add_note(f"altneu: {self._became_of_step(committed=self._journal.steps > steps)}")
            if error is caught:
                raise
            raise error from caught
        closed = upper > before  # else the last changes are those of an advance before this
        changes = {n: self._journal.changes(p.contents) if closed else 0 for n, p in self._plan.views.items()}
        rows = sum(self.table.rows(n) for n in self.table.layouts)
        seconds = clock.perf_counter() - started
        return self.past.add(Step(before, upper, seconds, received, changes, ", ".join(placements), rows))

    def _became_of_step(self, *, committed: bool) -> str:
        """What an interrupt says of the step that it came in."""
        if committed:
            return f"the step is committed, lower is {self.lower}"
        undone = f"nothing of the step is committed, lower is {self.lower}, and what was inserted is still there"
        return f"{undone}: advance() takes the step again, session.discard() forgets the rows"

    def _steps(self, before: int, upper: int, streams: Mapping[str, Any]) -> Iterator[Outcome]:
        """The steps of an advance, each committed before the next: one, unless more is due than one takes up.

        The first takes all inputs, those of times that a later one closes too.
        """
        started = clock.monotonic()
        end = -1
        while end < upper:
            lower, steps = self.lower, self._journal.steps
            end = portion(self.table, self._pending, lower, upper, self.shards)
            closed = "" if lower == before else f", closed up to {lower}"
            try:
                with self.past.watch(f"closing times {before} to {upper}{closed}", started):
                    outcome = self._step(lower, end, streams, further=lower != before)
            finally:
                if self._journal.steps != steps:  # committed, even if an interrupt came right after
                    self._pending = Inputs()
            self._measured.add(self._plan, outcome.measured)
            self._journal.tidy()
            self._taps.add(self._plan, outcome.taps)
            times = [end] if end < upper else []  # the last step also shows updates of times that are not closed yet
            self._taps.show(Antichain.of(self.lattice, *times), self.lower)
            interrupts.check()
            streams = {}
            self.subscribers.deliver(f"the step is committed, lower is {self.lower}")
            yield outcome

    def _step(self, before: int, upper: int, streams: Mapping[str, Any], *, further: bool) -> Outcome:
        """Compute and commit, or leave everything as it was; a ``further`` step is not the first of its advance.

        A step from a time up to the same one closes none: it takes inputs up, and all of them wait.
        """
        since, events = self._since_after(upper), self._events_after(upper)
        # The rounds of a loop come back to history that earlier ones have made: none of that may be folded yet.
        inside = min(since, max(before - 1, 0)) if self._plan.loops else since
        after = self._region(before, upper, since, events)
        region = replace(self._region(before, upper, inside, events), folded=after.since)
        try:
            with self._journal.undoing(step=True):
                outcome = self._executor.step(self._plan, self.table, self._pending, region, StepMode(self.shards))
                if inside != since:
                    fold(outcome.states, after)
                self._journal.take(outcome)
                self._forget_changes(since)
                kept = {p.contents for p in self._plan.views.values()}
                new = {n: [b for b in batches if batch_rows(b)] for n, batches in outcome.new.items() if n in kept}
                filled = {*self._pending.updates, *self._pending.frames}
                info = {"placement": outcome.placement}
                told = new if upper > before else None
                interrupts.check()
                with interrupts.deferred():
                    self._journal.commit_step(upper, since, events, filled, told, info, streams, further=further)
                    self._pending = Inputs()
        except AltneuError:
            raise
        except Exception as error:
            if isinstance(error.__cause__, KeyboardInterrupt):
                raise error.__cause__ from None  # compiled code wraps it in a SystemError
            raise StepFailedError(
                f"the step from {before} to {upper} failed and nothing of it is committed: "
                f"{type(error).__name__}: {error}. "
                + ("" if further else "What was inserted is still there: advance again, or session.discard() it.")
            ) from error
        return outcome

    def _forget_changes(self, since: int) -> None:
        """Drop what views without contents keep of changes that nothing tells apart any more."""
        names = {ports.contents for ports in self._plan.views.values() if ports.changes_only}
        if names:
            self.table.forget_before(names, since)

    def _make_ready(self) -> None:
        """What a step needs: all views that the store has, and the number of shards that was asked for."""
        self._require_stored_views()
        self._adopt()
        self._catalogue.refuse_unowned(waiting=True)
        if self._wanted_shards != self.shards:
            self.reshard(self._wanted_shards)

    def _adopt(self) -> None:
        """Once, when all views are there: state that belongs to nothing is of sources that an earlier altneu kept."""
        if not self._adopted:
            self._catalogue.adopt(self.shards)
            self.table.layouts = self._plan.arranged
            self._adopted = True

    def _require_stored_views(self) -> None:
        if waiting := self._catalogue.waiting():
            raise StorePlanError(
                f"the store also maintains {', '.join(map(repr, waiting))}, which would miss this step; "
                "maintain them in this session, or drop them"
            )

    # reading --------------------------------------------------------------------------------------------------------

    def _region(self, lower: int, upper: int, since: int, events: int) -> Region:
        below, above, folded = (Antichain.of(self.lattice, time) for time in (lower, upper, since))
        return Region(below, above, folded, events=events)

    def _since_after(self, upper: int) -> int:
        """The least time that is told apart after a step: what the session keeps, and what readers still ask for."""
        if self.retain == "all":
            return self._journal.since
        asked = (least_since(self._journal.store.leases()), self.subscribers.since)
        wanted = min((upper - 1 - (self.retain or 0), *(time for time in asked if time is not None)))
        return max(self._journal.since, wanted)

    def _events_after(self, upper: int) -> int:
        known = self._journal.events
        return known if self.retain_events is None else max(known, upper - 1 - self.retain_events)

    def since_of(self, name: str) -> int:
        """The least time at which a view can be read."""
        return max(self._journal.since, int(self._journal.views[name]["since"]))

    def coordinates(self, name: str) -> tuple[str, str] | None:
        """What the two times of a view are called, None when it has one."""
        self.ports(name)
        return ir.coordinates(self._catalogue.nodes[name])

    def known(self, name: str) -> Known:
        """What is known and kept of a view."""
        self._check_open()
        self.ports(name)
        journal = self._journal
        began = max(journal.began, int(journal.views[name].get("lower", journal.lower)))
        coordinates, remedy = self.coordinates(name), "Session(retain=...) keeps more"
        functions = tuple(titles(journal.views[name].get("functions", ())))
        since = self.since_of(name)
        return Known(name, journal.lower, since, began, journal.events, coordinates, remedy, functions)

    def last_changes(self, name: str) -> Updates:
        """The updates of a view in the last advance."""
        self._check_open()
        ports = self.ports(name)
        return self._journal.outputs(ports.contents, self.table.layouts[ports.contents])

    def updates(self, name: str, start: int, end: int) -> Updates:
        """The updates of a view at times from ``start`` up to but not including ``end``.

        Raises:
            HistoryGoneError: they are no longer told apart.
        """
        known, contents = self.known(name), self.ports(name).contents
        return changes(self.table, contents, known, start, end, partial(self.last_changes, name))

    @property
    def store_id(self) -> str:
        """What tells the session's store from every other one."""
        return self._journal.store.identity

    def history_id(self, name: str) -> str:
        """What tells the history of a view from every other one: the store's, and the commit that added the view."""
        return f"{self.store_id}/{self._journal.views[name].get('added', 0)}"

    def keep_for(self, name: str, since: int, lease: float | str) -> None:
        """Have the history after a time kept for somebody outside, under a name, as long as the lease holds."""
        self._journal.store.lease(Lease(name, None, since, lease_end(lease_seconds(lease))))

    def frame(self, view: View, at: Time, errors: OnErrors) -> DataFrame:
        """A view's contents as a Spark DataFrame."""
        refuse_without_contents(self.ports(view.name), view.name)
        if self.spark is None:
            raise ReadError(
                "this session has no Spark; read the view with to_arrow() or to_pylist(), or make Session(spark, ...)"
            )
        time = self.known(view.name).readable(at)
        ports = self.ports(view.name)
        if self.table.rows(ports.contents) <= READ_ROWS:
            return self._executor.frame_of(view.to_arrow(at, errors))
        if errors == "raise":
            view.raise_errors(time)
        return self._executor.read(self.table, ports, view.name, time, errors)

    def _check_open(self) -> None:
        if self._closed:
            raise ReadError("this session is closed; make a new one (on the same path to go on where it ended)")
