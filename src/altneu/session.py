"""Sessions: what users call to insert rows, take steps, and define, read and explain views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from altneu.collections.collection import Collection, check_collection
from altneu.collections.source_weights import Diff
from altneu.collections.sources import Extra, InsertTime, is_spark_frame
from altneu.columnar import html
from altneu.engine.backfill import backfill
from altneu.engine.close import close_source, is_static
from altneu.engine.closing import Closing
from altneu.engine.columns import declare
from altneu.engine.engine import Engine
from altneu.engine.history import Past, Step
from altneu.engine.merging import merge
from altneu.engine.parts import Placement
from altneu.engine.reading import OnErrors, Time
from altneu.engine.redefine import redefine
from altneu.engine.replace import replace as replace_rows
from altneu.engine.swapping import swap, swappable
from altneu.errors import PlanError, ReadError, UnknownTableError
from altneu.errors.elsewhere import NamedElsewhere
from altneu.errors.extras import require
from altneu.explain import Explained, Form, rendered
from altneu.expressions import Col
from altneu.operators.source.keyed import DELETE_KEY, INSERT_OR_UPDATE
from altneu.order import Antichain
from altneu.plan.rewrite import Joins
from altneu.runtime.interrupts import Lock
from altneu.runtime.journal import Refresh
from altneu.runtime.spark.jobs import Jobs
from altneu.store import Location, Store
from altneu.streams import Delta, Following, Iceberg, Status, Streams
from altneu.streams.forking import forget_checkpoints, fork_store, swapped_streams
from altneu.views.contents import summary
from altneu.views.imported import Imported
from altneu.views.peek import peek
from altneu.views.trace import Trace
from altneu.views.view import View, state_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from altneu.collections.functions import Udf
    from altneu.page import Page
    from altneu.sql.frames import Described
    from altneu.sql.statements import Statements
    from altneu.sql.statements.registering import Registration

__all__ = ["Session", "Step", "session_over"]


class Session(Closing, NamedElsewhere):
    """Maintains views as their sources change.

    ``Session()`` is local and in memory; ``Session(path="state/")`` local and durable; ``Session(spark, path=...)``
    runs large steps on Spark and small ones in the driver, on the same state. The path may be an address with its
    ``storage_options`` ("s3://bucket/state") or a pyarrow file system; ``recover=True`` opens a damaged store at
    its last whole commit (docs/stores.md). Times are whole numbers from 0; a session has one clock, ``lower``, before
    which everything is closed.

    ``retain`` keeps that many times before the last closed one readable (``at=``), ``"all"`` all of them; history that
    readers and subscriptions need is retained too. For sources with two times ``retain_events`` retains that many event
    times before the last closed time (default: all); rows about earlier ones count as of the first of these. ``shards``
    is the number of shards of all state on Spark (default: its cores); a multiple splits the shards of a store
    (``reshard``). ``memory`` limits a task, or a step in the driver, in bytes or as "1g" (docs/running.md).
    ``check_functions`` calls every Python function of the views twice: if the results differ, the step is refused with
    an ``ImpureFunctionError`` that names the function and the row (docs/python_functions.md). ``idle_merge_effort`` is
    the number of updates that each step merges in arrangements which it does not touch (default: none), so that what is
    quiet becomes one batch; ``merge`` does that at once (docs/stores.md). Safe to share between threads.

    ``placement`` decides where a step, and each round of a loop, is computed; ``Step.placement`` says where it was.
    "auto" is the driver for up to a million rows, else Spark. It counts inserted rows, future rows whose time is
    closed, and rows that a view added late reads. Up to 200,000 rows of a step's DataFrames are fetched into the
    driver: altneu requests one row more, whatever Spark's estimate, and if that row exists, Spark reads the DataFrame
    from the beginning. A join with more than ten million matches in the driver is computed again on Spark. "driver" is
    always the driver, which then fetches DataFrames of any size; "spark" is always Spark. On Spark Connect "auto" is
    "driver", which a warning says, if the server's workers cannot import altneu or cannot read and write the store.

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

    _what = "a session"
    _instead: ClassVar = {
        "createDataFrame": "use insert(name, rows)",
        "delete": "use retract(name, rows), or delete_key(name, keys) of a source with a key",
        "query": "use sql(query)",
        **dict.fromkeys(
            ("read", "readStream"), "use those of the SparkSession, with insert(name, df) and follow(name=df)"
        ),
        "stop": "use close()",
        "subscribe": "use view(name).subscribe(...)",
        **dict.fromkeys(("get", "table"), "use view(name)"),
        **dict.fromkeys(("update", "upsert"), "use insert_or_update(name, rows) of a source with a key"),
    }

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
        engine = Engine(
            spark,
            path,
            storage_options=storage_options,
            recover=recover,
            shards=shards,
            placement=placement,
            retain=retain,
            retain_events=retain_events,
            memory=memory,
            check_functions=check_functions,
            idle_merge_effort=idle_merge_effort,
        )
        self._set(engine)

    def _set(self, engine: Engine) -> None:
        self._engine, self._streams = engine, Streams(engine)
        self._pages: list[Page] = []
        self._statements: Statements | None = None
        self._described: Described | None = None

    def __repr__(self) -> str:
        return f"Session({len(self.views)} views, lower {self.lower})"

    def _repr_html_(self) -> str:
        """What a notebook shows: its views, and how many updates each keeps."""
        try:
            self._engine.check_open()
            return summary("Session", self._engine, self.views, self.lower)
        except ReadError as error:
            return html.titled("Session", html.note(str(error)))

    # life -------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Release the store and scratch files; committed rows stay, rows that were only inserted are lost.

        It first stops followed streams, each after its current micro-batch, and closes pages.
        """
        self._streams.stop()
        for page in [*self._pages]:
            page.close()
        self._engine.close()

    def fork(
        self, path: Location, *, storage_options: Mapping[str, Any] | None = None, lease: float | str | None = "1 day"
    ) -> Session:
        """Make a copy of the store that shares its segments, and open it: another version can be built and compared.

        The path may be an address; without ``storage_options`` those of the store count.

        The fork has everything that the last commit has: views with their state, sources, definitions of statements,
        positions of streams, and this session's settings; the views of this session are maintained in it, and the
        functions of ``session.udf`` are known. Rows that wait for a step are not in it. From then on the two know
        nothing of each other: each has its own clock, takes its own rows, and follows streams on by itself, from the
        same positions and with its own copies of Spark's checkpoints in the store's folder; a stream with
        ``checkpoint=`` elsewhere begins in the fork with ``restart=``. The fork has none of the SINKs that statements
        made, and a sink in a program is refused a target that the store writes (docs/howto/blue_green.md).

        For the time of the ``lease`` the fork retains the history of all that follows, as a reader would have it, so
        that who follows the store's views can go on with them after ``swap``; None retains none.

        Cost:   one hard link (on an object store a copy, inside it) for each segment, and one commit; nothing is
                computed. Space is shared as long as neither has merged what both had.
        Law:    the fork begins equal to the store, and what either does, or whether it is killed, changes nothing for
                the other (tests/session/test_fork.py, tests/store/test_fork.py).

        Raises:
            StoreError: this session has no ``path``; or the folder has files already, or is on another file system.

        >>> import altneu as an, tempfile
        >>> orders = an.source("orders", "item string, price long", keep=True)
        >>> place = tempfile.TemporaryDirectory()
        >>> session = an.Session(path=f"{place.name}/blue")
        >>> totals = session.maintain("totals", orders.group_by("item").agg(total="sum(price)"))
        >>> session.insert("orders", [("tea", 3), ("tea", 4)])
        >>> _ = session.advance()
        >>> with session.fork(f"{place.name}/green") as green:
        ...     dearest = orders.group_by("item").agg(total="max(price)")
        ...     green_totals = green.maintain("totals", dearest, replace=True)
        ...     _ = green.advance()
        ...     totals.to_pylist(), green_totals.to_pylist()
        ([('tea', 7)], [('tea', 4)])
        >>> session.close()
        >>> place.cleanup()
        """
        with self._engine.lock:
            self._engine.check_open()
            store = swappable(self._engine)
            fork_store(store.folder, path, lease=lease, to_options=storage_options or {})
            settings, collections = self._engine.settings, self._engine.catalogue.collections
            fork = Session(path=path, storage_options=storage_options, **settings)
            try:
                fork._know(self._registered)
                if fork._engine.definitions:
                    fork.statements.restore()
                for name, collection in collections.items():
                    if name in fork.views_stored and name not in fork.views:
                        contents = name not in self._engine.catalogue.changes_only
                        fork._engine.maintain(name, collection, trust_functions=True, contents=contents)
            except BaseException:
                fork.close()
                raise
        return fork

    def swap(self, fork: Session) -> None:
        """Let a fork of this session's store take its place: this session goes on with the views of the fork.

        In one commit the store gets the state of the fork: its views, sources, definitions, and the positions of its
        streams. Views that both have, with contents and with the same columns, go on with their history: the rows that
        are different come and go at the next time that is closed, for readers, subscriptions and sinks alike, which
        notice nothing else. Other views of the store end, and other views of the fork are new. SINKs of the store stay,
        and sinks of a program go on, as do functions of ``session.udf``, those of the fork before others of the same
        name; temporary views end. Spark's checkpoints in the fork's folder are copied.

        Before that, streams of both are stopped, and the one that is behind closes the times that the other has closed.
        Feed both the same rows: what only this session has had is not in the fork (``an.compare`` tells). The fork is
        closed; its folder is not needed any more. Follow streams again afterwards; views that this session did not
        maintain yet need not be maintained before, unless the fork's clock is ahead.

        Cost:   a link for each segment of the fork; of views that go on the contents of both are read once; one commit
                with the whole state. Their contents are stored apart from the state of operators from then on.
        Law:    killed anywhere, the store is as before or has the state of the fork, and every sink ends equal to its
                view (tests/session/test_swap.py).

        Raises:
            StoreError: it is no fork of this session's store.
            PlanError: a SINK follows a view that ends or gets other columns, or the fork has SINKs of its own.
            StatementError: a transaction is open.
            InputError: rows wait for a step; or a reader or a sink still needs history that the fork lacks.
            StorePlanError: the fork has views that it does not maintain, or other shards.

        >>> import altneu as an, tempfile
        >>> orders = an.source("orders", "item string, price long", keep=True)
        >>> place = tempfile.TemporaryDirectory()
        >>> session = an.Session(path=f"{place.name}/blue")
        >>> totals = session.maintain("totals", orders.group_by("item").agg(total="sum(price)"))
        >>> session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
        >>> _ = session.advance()
        >>> changes = totals.subscribe(snapshot=False)
        >>> green = session.fork(f"{place.name}/green")
        >>> green_totals = green.maintain(
        ...     "totals", orders.group_by("item").agg(total="max(price)"), replace=True
        ... )
        >>> _ = green.advance()
        >>> an.compare(totals, green_totals, at=(0, 1)).num_rows
        2
        >>> session.swap(green)
        >>> _ = session.advance()
        >>> for table in changes:
        ...     print(table.to_pylist())
        [{'item': 'tea', 'total': 7, 'time': 2, 'diff': -1}, {'item': 'tea', 'total': 4, 'time': 2, 'diff': 1}]
        >>> session.close()
        >>> place.cleanup()
        """
        if fork is self or not hasattr(fork, "_engine"):
            raise PlanError(f"swap needs a session on a fork of this one's store, got {fork!r:.200}")
        for one in (self, fork):
            one._streams.stop()
        with self._engine.lock, fork._engine.lock:
            engine, theirs = self._engine, fork._engine
            for each in (engine, theirs):
                each.check_open()
            before = self.statements if engine.definitions else None
            registered = self._registered | fork._registered
            swap(
                engine,
                theirs,
                lambda mine, other: swapped_streams(mine, other, theirs.streams_stored),
                lambda going_on: None if before is None else before.refuse_ending_sinks(going_on),
            )
            if before is not None:
                before.detach()
            self._statements, self._described, self._streams = None, None, Streams(engine)
            fork.close()
            forget_checkpoints(swappable(engine).folder, engine.streams_stored)
            self._know(registered)
            if engine.definitions:
                self.statements.restore()

    @property
    def _registered(self) -> dict[str, Udf]:
        """The functions that the program has given names."""
        return {} if self._statements is None else dict(self._statements.known.registered)

    def _know(self, registered: Mapping[str, Udf]) -> None:
        if registered:
            self.statements.known.take_over(registered)

    @property
    def lock(self) -> Lock:
        """The reentrant lock that every call takes: hold it to make several calls without others in between."""
        return self._engine.lock

    @property
    def spark(self) -> SparkSession | None:
        """The SparkSession, None of a session without."""
        return self._engine.spark

    @property
    def shards(self) -> int:
        """Into how many parts all state is parted."""
        return self._engine.shards

    @property
    def store(self) -> Store:
        """Where commits go."""
        return self._engine.store

    @property
    def sources(self) -> list[str]:
        """Names of the sources that maintained views read, and of those whose rows are kept."""
        return self._engine.sources

    @property
    def collections(self) -> dict[str, Collection]:
        """The maintained views as written, the sources that they read and kept sources, by name."""
        return self._engine.collections

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed; the next insert has this time unless it gives another."""
        return self._engine.lower

    @property
    def frontier(self) -> Antichain:
        """The times at which sources take rows; a view's ``frontier`` says when it may change again.

        Of a session with a source with two times it has pairs: ``{(5, 3)}`` if times before 5 and event times before 3
        are closed. Sources with one time take rows from 5 on, which count about all event times.
        """
        return self._engine.open_times

    @property
    def views(self) -> list[str]:
        """Names of the maintained views."""
        return self._engine.views

    @property
    def views_stored(self) -> list[str]:
        """Names of the views that the store has, those included that wait to be maintained here."""
        return self._engine.views_stored

    @property
    def jobs(self) -> Jobs:
        """The Spark jobs that steps were, and how many rows they read."""
        return self._engine.jobs

    # views ------------------------------------------------------------------------------------------------------------

    def maintain(
        self,
        name: str,
        collection: Collection | DataFrame,
        *,
        strict: bool = False,
        joins: Joins = "auto",
        trust_functions: bool = False,
        contents: bool = True,
        retain: int | Literal["all"] | None = None,
        refresh: Refresh | None = None,
        replace: bool = False,
    ) -> View:
        """Maintain a collection under a name: keep it up to date from now on.

        A DataFrame of PySpark over sources and views of this session (``frame``) is maintained as the collection that
        it describes (docs/howto/dataframes.md).

        A view added late is computed from the state of other views, without re-reading sources. Rows from before
        ``since`` count as arrived at ``since``, because their own times are not retained: a late view with a ``delay``
        may lack them for the length of the delay, from ``since`` on. A plan between ``differentiate`` and ``integrate``
        depends on when rows arrived, and treats all of these as arrived at ``since``.

        If the store has the view already, it continues from its stored state; in a reopened store all views must be
        maintained, or dropped, before the next ``advance``.

        ``strict`` refuses a plan with an operator that re-reads everything on every change.

        ``joins`` chooses how three and more collections are joined: "delta" stores no intermediate result, "binary"
        stores them all, and "auto" takes the plan with fewer new arrangements, and delta joins for cyclic patterns,
        unless the first rows show that these are joined along keys and that binary joins keep less (docs/joins.md);
        ``explain`` shows the choice and the reason. An existing view keeps its plan.

        A stored view is refused if one of its Python functions, or anything that it reads, has changed
        (docs/python_functions.md): the error names the function and the change. ``trust_functions`` accepts it all the
        same; use it if the functions still return the same results for every row, or for another version of Python,
        whose code cannot be compared.

        With ``contents=False`` the view stores no contents: ``view.changes()``, subscriptions, sinks, and the counts of
        a ``Step`` work as for any other view, and of its result only future updates and the retained history
        (``retain``, open subscriptions, leases) are stored. Its operators' state and its errors are stored as usual.
        Reading its contents is refused; another view of the same collection can have contents, if its rows can be
        computed from existing state.

        ``retain`` keeps so many times before the last closed one readable of this view alone, or "all" from now on, if
        the session does not keep more: its contents and errors keep their history, and no other state does. A store
        remembers it until another is given; 0 ends it. ``view.since`` says from when on the view can be read, with
        ``at=``, ``changes(since=)``, by readers of the store, and by ``peek`` and SQL's AS OF in queries that read
        only such views.

        ``refresh`` says how steps bring the view up to date. "auto", the default, is by the change, unless it costs
        less to compute anew what this view alone has: both are estimated for each step with 10,000 updates or more.
        "incremental" is always by the change, and "full" always anew. Contents, changes, subscriptions and sinks are
        the same; ``Step.recomputed`` and ``explain`` tell. A store remembers it until another is given
        (docs/refresh.md).

        With ``replace=True`` a view that has the name, here or in the store, gets this collection if it has another
        one with the same columns. Its history goes on: the rows that are different come and go at the next time that is
        closed, and readers, subscriptions and sinks get them as the changes of that time (docs/howto/schemas.md).

        Raises:
            PlanError: the name belongs to another collection (with ``replace``, of other columns or times, or without
                contents), ``joins="delta"`` is not possible, or the view exists
                with other ``contents``; ``retain`` is neither a whole number of at least 0 nor "all"; with
                ``refresh="full"`` nothing of the view can be computed anew (the error says why).
            UnboundedCostError: ``strict``, and an operator re-reads everything on every change.
            StorePlanError: the store holds another plan under this name, other functions or other ``contents``.
            HydrationError: the view needs rows that no state has; ``backfill`` gives them again.

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
        collection = self._collection(collection)
        declare(self._engine, name, collection)
        if replace and isinstance(collection, Collection):
            self._redefine(name, collection, joins)
        self._engine.maintain(
            name,
            collection,
            strict=strict,
            joins=joins,
            trust_functions=trust_functions,
            contents=contents,
            retain=retain,
            refresh=refresh,
        )
        return View(self._engine, name)

    def _redefine(self, name: str, collection: Collection, joins: Joins) -> None:
        """Give a view another query, and with it what statements have defined over it."""
        with self._engine.lock:
            self._engine.check_open()
            if self._engine.definitions:
                self.statements.definer.redefine(name, collection, joins)
            else:
                redefine(self._engine, {name: collection}, joins)

    def arrange(
        self,
        name: str,
        collection: Collection,
        *key: str,
        order: str | Col | Sequence[str | Col] = (),
        joins: Joins = "auto",
        trust_functions: bool = False,
        retain: int | Literal["all"] | None = None,
    ) -> Trace:
        """Arrange a collection by a key, and within it in an order, and return the arrangement as a value.

        It is ``maintain(name, collection.arrange_by(*key, order=order))``, and the trace a view like any other, which
        also has lookups and cursors. Joins of ``trace.collection`` by the key read it, and so do other views of the
        collection (docs/traces.md). ``trace.retain`` changes how much history it keeps.

        Cost:   one exchange by the key, unless rows are partitioned by it already; one arrangement of all columns.

        Raises:
            PlanError, UnknownColumnError: as ``arrange_by``, and as ``maintain``, which raises others too.

        >>> import altneu as an
        >>> people = an.source("people", "id long, name string")
        >>> with an.Session(retain="all") as session:
        ...     by_id = session.arrange("people by id", people, "id")
        ...     session.insert("people", [(1, "Ada"), (2, "Bob")])
        ...     _ = session.advance()
        ...     session.retract("people", [(1, "Ada")])
        ...     _ = session.advance()
        ...     (
        ...         by_id.lookup(1),
        ...         by_id.lookup(1, at=0),
        ...         [(*key, *value, time, diff) for key, value, time, diff in by_id.cursor(1)],
        ...     )
        ([], [(('Ada',), 1)], [(1, 'Ada', 0, 1), (1, 'Ada', 1, -1)])
        """
        check_collection(collection, "arrange")
        arranged = collection.arrange_by(*key, order=order)
        declare(self._engine, name, arranged)
        self._engine.maintain(name, arranged, joins=joins, trust_functions=trust_functions, retain=retain)
        return Trace(self._engine, name)

    def trace(self, name: str) -> Trace:
        """A view of this session as a trace: its contents, by the key by which they lie.

        Raises:
            PlanError: there is no such view.
        """
        self._engine.ports(name)
        return Trace(self._engine, name)

    def source_from(
        self,
        view: View,
        name: str | None = None,
        *,
        keep: bool = False,
        errors: OnErrors = "raise",
        lease: float | str = "1 hour",
    ) -> Imported:
        """Import a view or a trace of another session, or of a reader of a store, as a source called ``name``.

        ``imported.collection`` is the source, and ``imported.advance()`` brings this session up to the view's
        frontier: first with a snapshot as of ``view.since``, or of this session's ``lower`` if that is later, then with
        each change at its own time. This session's clock is the view's, so ``advance`` it by its imports alone; the
        position of the import is ``lower``, and a reopened session continues from there. In between, the view's
        session retains the history that is missing here: while both live, and in a store for ``lease`` beyond the last
        advance. ``keep`` is as in ``an.source``; ``errors="ignore"`` imports a view that has errors, too.

        Cost:   the rows of the snapshot, then the changes, through the driver.
        Law:    at every time that both have closed the source has the rows of the view (tests/oracle/test_traces.py).

        Raises:
            PlanError: the view belongs to this session, or has two times.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, price long")
        >>> with an.Session() as shop, an.Session() as office:
        ...     by_item = shop.arrange("by item", orders, "item")
        ...     imported = office.source_from(by_item)
        ...     totals = office.maintain("totals", imported.collection.group_by("item").agg(total="sum(price)"))
        ...     shop.insert("orders", [("tea", 3), ("tea", 4)])
        ...     _ = shop.advance()
        ...     _ = imported.advance()
        ...     shop.retract("orders", [("tea", 3)])
        ...     _ = shop.advance()
        ...     before, step = totals.to_pylist(), imported.advance()
        ...     before, totals.to_pylist(), office.lower
        ([('tea', 7)], [('tea', 4)], 2)
        """
        if not isinstance(view, View):
            raise PlanError(f"source_from needs a view or a trace of another session or reader, got {view!r}")
        if state_of(view) is self._engine:
            raise PlanError(f"view {view.name!r} belongs to this session: build upon its collection instead")
        with self._engine.lock:
            self._engine.check_open()
            source = view.name if name is None else name
            began = source in self._engine.journal.filled
            return Imported(
                self,
                source,
                view,
                began=began,
                keep=keep,
                errors=errors,
                lease=lease,
                importer=self._engine.store_id,
            )

    def backfill(self, source: str | Collection, rows: Any, *, diff: Diff = None, extra: Extra = "error") -> None:
        """Give a source's present rows again, and keep them, as if it had ``keep=True`` from the start.

        For a late view that needs rows that no state has: call this, then maintain the view. ``rows`` and ``extra`` are
        as for ``insert``: every row of the source as often as it counts, at the last closed time; ``diff`` is a count
        or the name of a column. Rows inserted since the last ``advance`` must not be among them. If no view reads the
        source, pass the collection that ``an.source`` returned. For a source that is kept already, the rows are only
        checked.

        They are compared with all state that stateless verbs derive from the source alone: its rows, filtered or with
        fewer columns, and the counts and sums of its groups. Data that no view stores cannot be checked: rows, also
        future ones, that every view filters out, and columns that no view reads. If these are wrong, later views will
        be wrong. ``drop_source`` frees the kept rows.

        Cost:   the rows are read once, and go through the operators whose state they are compared with; that state is
                read once; on Spark this is one job. Afterwards as ``keep=True``.
        Law:    a view filled from it equals one maintained from the start, as of the last closed time
                (tests/oracle/test_backfill.py).

        Raises:
            InputError: the rows differ from those of the source (the error names the source, the operator whose state
                differs, and such a row); or the source never had any; or it has future updates; or earlier times
                are retained (``retain``); or it has two times. Nothing has changed.
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
        backfill(self._engine, source, rows, diff, extra)

    def drop(self, name: str) -> None:
        """Forget a view and the state that only it needs.

        The rows of a source with ``keep=True``, or that ``backfill`` was given, stay until ``drop_source``.

        Raises:
            PlanError: there is no such view, or what statements have defined reads it by its name.
        """
        if self._engine.definitions and (readers := self.statements.known.dependants(name)):
            shown = ", ".join(f"{d.kind} {d.name}" for d in readers)
            raise PlanError(f"view {name!r} is read by {shown}; DROP these first, or maintain it with replace=True")
        self._engine.drop(name)

    def drop_source(self, name: str) -> None:
        """Forget a source that no view reads: its kept rows, its future rows, and the position of its stream.

        The rows of a source with ``keep=True`` are kept from the first ``maintain`` that reads it until they are
        dropped here: even while no view reads it, it accepts inserts and survives resharding and reopening, and a later
        view of it has all of its rows. A dropped source may be declared again, also differently.

        For a source that was given to ``backfill`` and that views still read, only the kept rows are dropped.

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
        self._engine.drop_source(name, self._streams.release)

    def close_source(self, name: str) -> None:
        """Close a source for good: it takes no more rows, and joins with it no longer store their other side.

        A join stores both sides, because new rows of each are looked up in the other. A closed source has no new rows,
        so the join need not store the other side: its rows are looked up in the closed source and forgotten.
        Arrangements that another operator or view reads stay, as does everything of the
        closed source. ``explain`` says what is static, and which arrangements have only future updates left
        (docs/static.md). Rows that wait for later times still count at their times.

        A view that is added later and needs rows that are no longer stored is refused, unless their source is declared
        with ``keep=True``. Closing is in the store; ``drop_source`` forgets it with the source. Closing a closed source
        does nothing. ``an.source(..., static=True)`` closes a source with the first step that has its rows.

        Cost:   nothing is computed; the batches of the arrangements are dropped from the store with the commit.
        Law:    every view goes on as if the source were open and nothing came (tests/oracle/test_static.py).

        Raises:
            UnknownSourceError: there is no such source.
            InputError: rows of it are inserted and wait for a step, or a stream feeds it.
            StorePlanError: the store has views that are not maintained here.

        >>> import altneu as an
        >>> orders = an.source("orders", "id long, nation long")
        >>> nations = an.source("nations", "nation long, name string")
        >>> with an.Session() as session:
        ...     view = session.maintain(
        ...         "named", orders.join(nations, on="nation").select("id", "name"), contents=False
        ...     )
        ...     session.insert("nations", [(1, "Peru"), (2, "Oman")])
        ...     session.insert("orders", [(i, 1 + i % 2) for i in range(1000)])
        ...     _ = session.advance()
        ...     before = session.advance().state_rows
        ...     session.close_source("nations")
        ...     session.insert("orders", [(1000, 1)])
        ...     _ = session.advance()
        ...     before, view.changes().to_pylist(), session.advance().state_rows
        (1002, [{'id': 1000, 'name': 'Peru', 'time': 2, 'diff': 1}], 2)
        """
        close_source(self._engine, name)

    def is_static(self, view: str) -> bool:
        """Whether a view never changes again: all of its sources are closed, and no update waits for a later time.

        Raises:
            PlanError: there is no such view.

        >>> import altneu as an
        >>> nations = an.source("nations", "nation long, name string")
        >>> with an.Session() as session:
        ...     _ = session.maintain("names", nations.select("name"))
        ...     session.insert("nations", [(1, "Peru")])
        ...     _ = session.advance()
        ...     session.close_source("nations")
        ...     session.is_static("names")
        True
        """
        return is_static(self._engine, view)

    def view(self, name: str) -> View:
        """A maintained view by name; one that statements have defined in this store is taken up where it was left."""
        engine = self._engine
        with engine.lock:
            if name in engine.views_stored and name not in engine.views and engine.definitions:
                self.statements.restore()
        engine.ports(name)
        return View(engine, name)

    def explain(self, name: str, *, analyze: bool = False, form: Form = "text") -> str:
        """What a view's operators cost: keys, exchanges, state kept, and what bounds a step's cost.

        For a reduce over two times it also shows how many event times its groups have, which a correction goes through.
        ``analyze`` adds what each operator did since the session was opened: rows, seconds, steps, bytes kept. ``form``
        is "text", "json", "svg", a picture, or "html", a page with the picture in it.

        Raises:
            PlanError: there is no such view, or no such form.
        """
        if not isinstance(name, str):
            raise PlanError(f"explain needs the name of a view, got {name!r}: maintain it first; of SQL, EXPLAIN query")
        return rendered(self._engine.explained(name), form, analyze=analyze)

    def explained(self, name: str | None = None) -> Explained:
        """The operators of a view, or of all views in one graph, and what each did since the session was opened.

        Raises:
            PlanError: there is no such view.
            ReadError: the session is closed.
        """
        return self._engine.explained(name)

    def reshard(self, shards: int) -> None:
        """Split all state into more shards, a multiple of the present number, and commit; no source is read again.

        The contents of views, and their plans, do not change. ``Session(path, shards=...)`` with a multiple does the
        same before the first step.

        Cost:   all state is read and written once: in the driver where it is small, else by one Spark job.
        Law:    every step after it gives what it would have given before (tests/session/test_reshard.py).

        Raises:
            PlanError: it is not a multiple; nothing has happened.
            StorePlanError: the store has views that are not maintained here.
            StepFailedError, StoreFullError: nothing has happened.
        """
        self._engine.reshard(shards)

    # statements -------------------------------------------------------------------------------------------------------

    def sql(self, text: str, args: Mapping[str, Any] | Sequence[Any] | None = None) -> Any:
        """Run statements, separated by semicolons, and return the result of the last one (docs/sql.md).

        A query is answered once, with the present rows, as a ``Result``. ``CREATE MATERIALIZED VIEW`` maintains it.
        ``args`` are the values of the text's parameters: a mapping for ``:name``, a list for ``?``. A value is None, a
        bool, number, text, bytes, date, datetime, timedelta, or a list or dict of these.

        Raises:
            StatementError: a statement does not parse, is not supported, or does not fit the existing definitions;
                those before it are done. Or parameters and values do not fit; then no statement runs.

        >>> import altneu as an
        >>> with an.Session() as session:
        ...     _ = session.sql("CREATE TABLE orders (item STRING, price BIGINT)")
        ...     _ = session.sql(
        ...         "CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item"
        ...     )
        ...     _ = session.sql("INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4)")
        ...     session.sql("SELECT * FROM total WHERE item = :item", {"item": "tea"}).to_pylist()
        [('tea', 7)]
        """
        self._engine.check_open()
        try:
            return self.statements.run(text, args)
        except UnknownTableError as error:
            if error.table in self._engine.views_stored and error.table not in self._engine.views:
                remedy = f"session.maintain({error.table!r}, query) first, or read it by an.read(path) or altneu query"
                error.args = (f"{error}. The store has view {error.table!r}, but not its query: {remedy}",)
            elif error.table and self._engine.spark is not None:
                what = "tables and temporary views of Spark are not read by session.sql"
                error.args = (f"{error} ({what}: session.maintain and session.peek take their DataFrames)",)
            raise

    @property
    def statements(self) -> Statements:
        """The interpreter of ``sql``, for tools that need every result: ``statements.results(text)``."""
        if self._statements is None:
            from altneu.sql.statements import Statements

            with self._engine.lock:
                if self._statements is None:
                    self._statements = Statements(self._engine, self._streams)
        return self._statements

    @property
    def udf(self) -> Registration:
        """Where functions of yours get names for ``sql``: ``session.udf.register("score", f, "double")``."""
        return self.statements.udf

    def frame(self, source: str | Collection) -> DataFrame:
        """A DataFrame of PySpark that stands for a source or a view, to write queries on (docs/howto/dataframes.md).

        ``maintain`` and ``peek`` read what is written on it. It has the columns and no rows. Of a session on Spark it
        is a DataFrame of that; of one without, it is made with the client of Spark Connect (``altneu[connect]``), needs
        no server, and its columns are expressions of ``pyspark.sql.connect.functions``.

        Raises:
            PlanError: there is none of this name, or a collection is no source.
            MissingExtraError: there is no SparkSession, and Spark Connect's client is not installed.

        >>> import altneu as an
        >>> from pyspark.sql.connect import functions as F
        >>> with an.Session() as session:
        ...     orders = session.frame(an.source("orders", "item string, price long"))
        ...     total = orders.groupBy("item").agg(F.sum("price").alias("total"))
        ...     view = session.maintain("total", total)
        ...     session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist()), total.columns
        ([('jam', 5), ('tea', 7)], ['item', 'total'])
        """
        return self._frames.frame(source)

    @property
    def _frames(self) -> Described:
        if self._described is None:
            from altneu.sql.frames import Described

            self._engine.check_open()
            with self._engine.lock:
                self.statements.restore()
                self._described = Described(self._engine.spark, self.statements.known)
        return self._described

    def _collection(self, value: Collection | DataFrame) -> Collection:
        """A collection, or what a DataFrame describes."""
        if not is_spark_frame(value):
            return value  # type: ignore[return-value]  # what is neither is refused by who reads it
        return self._frames.collection(value)

    def peek(self, collection: Collection | DataFrame, at: Time = None, errors: OnErrors = "raise") -> pa.Table:
        """The rows of a collection at a time, computed once from the state of views; nothing is stored or committed.

        A DataFrame over sources and views of this session (``frame``) is the collection that it describes.

        Cost:   O(log n) for each key if it requires values of the keys of the views that it reads (docs/sql.md); it is
                planned once, the next time 0.2 ms with one key. While another thread computes a step, the answer is
                that of before the step then, and does not wait for it. Else the cost of the first step of maintaining
                it, less existing arrangements: an existing view is read directly.

        Raises:
            HydrationError: it needs rows that no state has.
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
        return peek(self._engine, self._collection(collection), at, errors)

    # inputs -----------------------------------------------------------------------------------------------------------

    def insert(
        self, source: str, data: Any, *, time: InsertTime = None, diff: Diff = None, extra: Extra = "error"
    ) -> None:
        """Add rows to a source; they count, and are durable, after the next ``advance`` that passes their time.

        ``data``: a Spark DataFrame (of any size: many rows are read by Spark's tasks in the step), an Arrow table, a
        pandas or Polars frame, or a list of tuples or dictionaries. Columns are matched by name, and missing keys of a
        dictionary are null. A column of a frame or a key of a dictionary that the source does not have is refused; with
        ``extra="ignore"`` it is left out. ``time`` is a time or the name of a column (default: the session's
        ``lower``); ``diff`` a count (default: 1) or the name of a column, negative counts retract. Such a column may
        belong to the source or be an additional one; in tuples additional ones come last, the time before the diff.

        Rows of a source with a ``weight`` have their weights in its columns; or ``diff`` is their weight, and the rows
        are without these columns: a value or the name of a column, and if the weight has several columns a tuple of
        one for each (docs/weights.md).

        A source with two times takes both: ``time=(system, event)``, each a time, a column's name, or None for the
        session's ``lower``; or only the second one, and the first is ``lower``.

        In a source that is a set or has a key a row exists or not, however often it is inserted, and only the sign of a
        diff counts. Inserting an existing row, or retracting a missing one, has no effect (docs/keyed.md).

        Raises:
            UnknownSourceError, SchemaError, BeforeFrontierError: none of the rows were inserted.
        """
        self._engine.insert(source, data, time, diff, extra=extra)

    def retract(
        self, source: str, data: Any, *, time: InsertTime = None, diff: Diff = None, extra: Extra = "error"
    ) -> None:
        """Remove rows from a source: ``insert`` with the signs reversed.

        If ``diff`` is a weight, its negative is added.

        Raises:
            InputError: ``diff`` is a weight that has no negative.
        """
        self._engine.insert(source, data, time, diff, -1, extra=extra)

    def insert_or_update(
        self, source: str, data: Any, *, time: int | str | None = None, extra: Extra = "error"
    ) -> None:
        """Replace all rows of some keys of a source with a key by one row each.

        ``data``, ``time`` and ``extra`` are as for ``insert``. Commands for one key are carried out in the order of
        their times and, at equal times, in the order of the calls, then of rows, in a DataFrame of partitions
        (docs/keyed.md).

        Cost:   the rows of these keys are looked up and changed; the command is not stored.

        Raises:
            InputError: the source has no key.
            UnknownSourceError, SchemaError, BeforeFrontierError: the call had no effect.

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
        self._engine.insert(source, data, time, kind=INSERT_OR_UPDATE, extra=extra)

    def delete_key(self, source: str, keys: Any, *, time: int | str | None = None, extra: Extra = "error") -> None:
        """Delete all rows of some keys of a source with a key; a missing key has no effect.

        ``keys`` is data as for ``insert``, but only the key's columns are read, whatever the others of the source have:
        a list has tuples of the key, or plain values if it is one column.

        Cost:   the rows of these keys are looked up and deleted; neither the command nor the key is stored.

        Raises:
            InputError: the source has no key.
            UnknownSourceError, SchemaError, BeforeFrontierError: the call had no effect.
        """
        self._engine.insert(source, keys, time, kind=DELETE_KEY, extra=extra)

    def replace(self, source: str, data: Any, *, diff: Diff = None, extra: Extra = "error") -> None:
        """Make ``data`` all that a source has from the next ``advance`` on; the step receives only the differences.

        For a source of which whole snapshots come: if a thousand of a million rows have changed, 2,000 changes are
        inserted, a retraction and an insertion each, and views cost what these cost. ``data`` and ``extra`` are as for
        ``insert``; each row is there as often as it is given, or as ``diff``, a count or the name of a column, says.

        The rows are compared at once with those of the last closed time, which some state must have with all columns:
        of a source with ``keep=True``, a key or ``distinct=True``, or one that a view shows or joins whole. Rows of
        the source that wait for the next step are replaced too; what is inserted later is added. Rows that wait for
        later times are refused, because a snapshot does not say whether they are still to come.

        Of a source with a key, rows that are not among ``data`` are deleted and new ones inserted; if ``data`` has
        several rows of one key, each is an error row (``DUPLICATE_KEY``), as if they were inserted.

        Cost:   ``data`` and the rows that are there are read once each and sorted by all columns: in the driver up to a
                million rows, else on Spark, without bringing either to the driver (docs/howto/snapshots.md).
        Law:    from the next advance on the source accumulates to ``data`` (tests/oracle/test_replace.py).

        Raises:
            InputError: no state has all rows of the source; or rows wait for later times; or it has two times.
            UnknownSourceError, SchemaError: as ``insert``. The inserted rows are as before.

        >>> import altneu as an
        >>> stock = an.source("stock", "item string, n long", keep=True)
        >>> with an.Session() as session:
        ...     view = session.maintain("stock", stock)
        ...     session.replace("stock", [("tea", 10), ("jam", 2), ("oil", 4)])
        ...     _ = session.advance()
        ...     session.replace("stock", [("tea", 9), ("jam", 2)])
        ...     _ = session.advance()
        ...     for change in sorted(view.changes().to_pylist(), key=str):
        ...         print(change)
        {'item': 'oil', 'n': 4, 'time': 1, 'diff': -1}
        {'item': 'tea', 'n': 10, 'time': 1, 'diff': -1}
        {'item': 'tea', 'n': 9, 'time': 1, 'diff': 1}
        """
        replace_rows(self._engine, source, data, diff, extra)

    def discard(self, source: str | None = None) -> None:
        """Discard the rows inserted into a source (or into all) since the last advance."""
        self._engine.discard(source)

    def follow(  # noqa: PLR0913  # options, each by its name
        self,
        streams: Mapping[str, DataFrame | Delta | Iceberg] = MappingProxyType({}),
        /,
        *,
        checkpoint: str | Path | None = None,
        available_now: bool = False,
        trigger: str | None = None,
        time: InsertTime | Mapping[str, InsertTime] = None,
        diff: Diff | Mapping[str, Diff] = None,
        watermark: int | Mapping[str, int] | None = None,
        late: str | Mapping[str, str] = "revise",
        command: str | Mapping[str, str] | None = None,
        max_rows: int | Mapping[str, int] | None = None,
        snapshots: bool | Mapping[str, bool] = False,
        restart: str | Mapping[str, str] | None = None,
        extra: Extra | Mapping[str, Extra] = "error",
        on_step: Callable[[Status, Step], object] | None = None,
        **more: DataFrame | Delta | Iceberg,
    ) -> Following:
        """Feed sources from Structured Streaming or from tables: each row counts once, whatever is killed in between.

        ``session.follow(edges=spark.readStream...)``, or a mapping if a name is not an identifier. A micro-batch takes
        the next time of the session, which closes it. The same commit has the stream's position. With ``available_now``
        the streams take the available rows and end; else they continue, with the next batch as soon as one is done or
        every ``trigger`` ("10 seconds").

        With ``time``, a column or a SQL expression for a whole number, rows have their own times, and the session
        advances to the least, over all such streams, of the greatest time seen less ``watermark``. Rows whose time is
        closed are ``late``: "revise" counts them from ``lower`` on, "drop" only counts how many, "error" puts them into
        ``an.late_rows(source)``. ``diff`` is a count, a column or an expression; for a source with a ``weight`` it is
        as for ``insert``.

        ``command`` says what the rows of a source with a key do: "insert", "delete", "insert_or_update" or
        "delete_key", or a column or a SQL expression with one of these for each row (docs/keyed.md).

        With ``snapshots`` each micro-batch is all that the source has from then on, as for ``replace``: the step
        receives the differences, and rows inserted meanwhile are replaced. One micro-batch must be one snapshot: if
        each is a file, the stream takes one at a time (``maxFilesPerTrigger`` 1). It goes without ``time``, ``command``
        and ``max_rows``, and not beside streams with ``time`` (docs/howto/snapshots.md).

        A column that the source does not have, and that no option names, is refused; with ``extra="ignore"`` it is left
        out. ``max_rows`` splits a larger micro-batch into pieces, a step each. ``checkpoint`` is the folder of Spark's
        checkpoints, by default inside a local store. ``restart`` is for a checkpoint and a store that have diverged:
        the error that reports this names the value to give. An option that differs between streams is a mapping by
        name. On Spark Connect the server writes the micro-batches into the folder, from which they are taken.

        ``session.follow(orders=an.delta(path))`` follows a Delta table, without Spark: each version takes the next
        time. ``time`` and ``diff`` may be columns then; ``command``, ``max_rows`` and ``snapshots`` are left
        out, ``trigger`` is how often it looks for a new version, and ``restart`` makes the source what the table is now
        (docs/howto/delta.md).

        ``on_step(status, step)`` is called after every step of a stream, in the stream's thread and before the next
        step of any: ``view.changes()`` has the changes of this step. If it raises, the stream stops after this step.

        Cost:   a one-row micro-batch is a Spark job to fetch it and a step in the driver (docs/streams_in.md).
        Law:    each row is counted once (tests/session/test_follow_killed.py,
                tests/session/test_follow_delta_killed.py).

        Raises:
            InputError: no stream, a source that is followed already, or wrong options.
            StreamError: in ``wait()``: a stream stopped; it names the batch and what to do.
        """
        options: dict[str, Any] = {"time": time, "diff": diff, "watermark": watermark, "late": late, "command": command}
        options |= {"max_rows": max_rows, "snapshots": snapshots, "restart": restart, "extra": extra}
        options |= {"on_step": on_step}
        folder = None if checkpoint is None else str(checkpoint)
        return self._streams.follow({**streams, **more}, folder, options, available_now=available_now, trigger=trigger)

    @property
    def rows_followed(self) -> dict[str, int]:
        """The number of rows of each stream since it was first followed, as of the last commit."""
        return {name: self._streams.stored(name).rows for name in self._engine.streams_stored}

    def unfollow(self, name: str) -> None:
        """Forget a stream's position: its watermark no longer holds times back, and following it starts afresh.

        Its rows stay. Stop a running stream first: ``following.stop()``.

        Raises:
            InputError: it is being followed, or never was.
        """
        with self._engine.lock:
            self._engine.check_open()
            self._streams.unfollow(name)
            self._engine.forget_stream(name)

    # steps ------------------------------------------------------------------------------------------------------------

    def advance(self, to: int | None = None, *, event: int | tuple[int, ...] | None = None) -> Step:
        """Close every time before ``to`` (default: one tick), bring all views up to date, and commit.

        With ``event`` event times before it are closed too, in the same commit and for good: no source takes rows about
        them any more, and what is known of them is final, at every time to come (``view.frontier``). Rows that were
        inserted before still count, also those of future times. ``retain_events`` then counts back from the last closed
        event time. ``to`` may be the session's ``lower`` if only event times are to be closed. Where sources have more
        than two times, ``event`` is a tuple: what is not at or beyond it in each of them is closed.

        All times in between are computed in one step of at most a million updates per shard
        (``altneu.runtime.step_limit``): with more future updates, after a long pause, the advance takes several steps,
        each with its commit, and memory follows the largest. Cost: proportional to the change and the rows that it
        touches.

        Raises:
            InputError: ``to`` does not lie after ``lower``; ``event`` lies before what is closed, or no source has two
                times.
            SourceFailedError, StepFailedError, DiffOverflowError, StoreFullError: nothing is committed; the inserted
                rows are still pending, and ``discard`` drops them. In a later one of several steps: closed times
                stay closed, ``lower`` says up to where, and another advance continues from there.
        """
        return self._engine.advance(to, event)

    def commit(self) -> None:
        """Make inserted rows durable without closing a time: they count when an advance passes their time.

        Views do not change, ``changes()`` included. The rows wait among future updates, after the linear logic above
        the source has run once.

        Raises:
            SourceFailedError, StepFailedError, StoreFullError: as ``advance``; the inserted rows are still pending.

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
        self._engine.commit()

    def merge(self, most: int | None = None) -> int:
        """Merge the state of all arrangements, each into one batch without the history that has gone, and commit.

        Steps merge the arrangements that they touch, in instalments, so that an arrangement which no step touches any
        more keeps its last batches, in which rows may cancel, and history that nobody may read now. Call this while
        nothing arrives. Nothing that can be read changes: neither contents and ``changes()`` nor what ``retain``,
        subscriptions and leases retain; inserted rows stay pending. What is one batch without such history is left
        as it is. With ``most``, arrangements are merged from the smallest on, as long as they have at most so many
        updates together; calls with a greater number go on.

        Returns how many updates fewer there are. ``altneu vacuum``, and later steps, remove the files of a durable
        session that nothing names any more.

        Cost:   all updates of the arrangements that are merged, read and written once, in this process; memory for
                the largest of them twice. One commit, and none if there is nothing to merge.
        Law:    the answers of a session are the same with and without (tests/session/test_merge.py).

        Raises:
            InputError: ``most`` is negative, or no whole number.
            StorePlanError: the store has views that this session does not maintain yet.

        >>> import altneu as an
        >>> with an.Session() as session:
        ...     view = session.maintain("all", an.source("n", "k long"))
        ...     for k in range(5):
        ...         session.insert("n", [(k,)])
        ...         _ = session.advance()
        ...         session.retract("n", [(k,)])
        ...         _ = session.advance()
        ...     session.merge(), session.merge()
        (2, 0)
        """
        return merge(self._engine, most)

    def history(self, n: int = 1000) -> list[Past]:
        """The last ``n`` steps, or a thousand if that is less, oldest first, each with the clock time of its end.

        >>> import altneu as an
        >>> with an.Session() as session:
        ...     _ = session.maintain("all", an.source("n", "k long"))
        ...     session.insert("n", [1, 2])
        ...     _ = session.advance()
        ...     [(past.number, past.step.changes_in) for past in session.history()]
        [(1, 2)]
        """
        return self._engine.past.last(n)

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

        A thread of this process serves the page at ``page.url``, until ``page.close()`` or the end of the session. Port
        0 is a free one. The page is read-only and takes no step, unless ``allow_writes``. Anybody on this machine can
        open it; a ``host`` that others reach needs a ``token``, which the address must then contain, or
        ``open_to_all=True`` (docs/live_page.md).

        Cost:   a step records a snapshot and does not wait for the page; the page reads while a step runs, but a query
                waits for the step, unless it was asked before and looks its rows up, and the next step for the query.

        Raises:
            MissingExtraError: the packages of ``altneu[page]`` are not installed.
            SetupError: the port is in use, or others can reach the host and neither a token nor ``open_to_all`` is
                given.

        >>> import altneu as an
        >>> with an.Session() as session, session.serve() as page:
        ...     page.url.startswith("http://127.0.0.1:")
        True
        """
        require("page", "session.serve")
        from altneu.page import Monitor, serve

        self._engine.check_open()
        page = serve(
            Monitor(self._engine, self._streams, self.statements),
            host,
            port,
            allow_writes=allow_writes,
            token=token,
            open_to_all=open_to_all,
            closed=self._pages.remove,
        )
        self._pages.append(page)
        return page


def session_over(engine: Engine) -> Session:
    """A session that calls an engine which is there, such as one that only plans."""
    session = Session.__new__(Session)
    session._set(engine)
    return session
