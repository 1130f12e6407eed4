"""Sessions: what users call to insert rows, take steps, and define, read and explain views."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from altneu.collections.collection import Collection
from altneu.collections.sources import InsertTime
from altneu.engine.backfill import backfill
from altneu.engine.closing import Closing
from altneu.engine.engine import Engine, Placement
from altneu.engine.history import Past, Step
from altneu.engine.reading import OnErrors, Time
from altneu.errors.extras import require
from altneu.explain import Explained, Form, rendered
from altneu.operators.source.keyed import DELETE_KEY, INSERT_OR_UPDATE
from altneu.plan.rewrite import Joins
from altneu.runtime.interrupts import Lock
from altneu.runtime.spark.jobs import Jobs
from altneu.store import Location, Store
from altneu.streams import Following, Status, Streams
from altneu.views.peek import peek
from altneu.views.view import View

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from altneu.page import Page
    from altneu.sql.statements import Statements

__all__ = ["Session", "Step", "session_over"]


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
        )
        self._set(engine)

    def _set(self, engine: Engine) -> None:
        self._engine, self._streams = engine, Streams(engine)
        self._pages: list[Page] = []
        self._made: Statements | None = None

    def __repr__(self) -> str:
        return f"Session({len(self.views)} views, lower {self.lower})"

    # life -------------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Let go of the store and of scratch files; what was committed stays, what was only inserted does not.

        Streams that are followed are stopped first, each after the micro-batch that it is at, and pages are closed.
        """
        self._streams.stop()
        for page in [*self._pages]:
            page.close()
        self._engine.close()

    @property
    def lock(self) -> Lock:
        """Held by every call, and again by who holds it: several calls inside it come one right after the other."""
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
        """Names of the sources that the maintained views are made of, and of those whose rows are kept."""
        return self._engine.sources

    @property
    def collections(self) -> dict[str, Collection]:
        """The maintained views as they were written, the sources they are made of and those kept, by name."""
        return self._engine.collections

    @property
    def lower(self) -> int:
        """The frontier: times before it are closed; the next insert happens at it unless told otherwise."""
        return self._engine.lower

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
        self._engine.maintain(
            name, collection, strict=strict, joins=joins, trust_functions=trust_functions, contents=contents
        )
        return View(self._engine, name)

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
        backfill(self._engine, source, rows, diff)

    def drop(self, name: str) -> None:
        """Forget a view and the state that only it needs.

        The rows of a source with ``keep=True``, or that ``backfill`` was given, stay until ``drop_source``.

        Raises:
            PlanError: there is no such view.
        """
        self._engine.drop(name)

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
        self._engine.drop_source(name)

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

        Of a reduce over two times also how many event times its groups have, which a correction is followed through.
        ``analyze`` adds what each operator did since the session was opened: rows, seconds, steps, bytes kept. ``form``
        is "text", "json", "svg", a picture, or "html", a page with the picture in it.

        Raises:
            PlanError: there is no such view, or no such form.
        """
        return rendered(self._engine.explained(name), form, analyze=analyze)

    def explained(self, name: str | None = None) -> Explained:
        """The operators of a view, or of all views in one graph, and what each did since the session was opened.

        Raises:
            PlanError: there is no such view.
            ReadError: the session is closed.
        """
        return self._engine.explained(name)

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
        self._engine.reshard(shards)

    # statements -------------------------------------------------------------------------------------------------------

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
        self._engine.check_open()
        return self.statements.run(text)

    @property
    def statements(self) -> Statements:
        """What ``sql`` does statements with, for tools that want the result of each: ``statements.results(text)``."""
        from altneu.sql.statements import Statements

        with self._engine.lock:
            if self._made is None:
                self._made = Statements(self._engine, self._streams)
            return self._made

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
        with self._engine.lock:
            self._engine.check_open()
            return peek(self._engine, collection, at, errors)

    # inputs -----------------------------------------------------------------------------------------------------------

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
        self._engine.insert(source, data, time, diff)

    def retract(self, source: str, data: Any, *, time: InsertTime = None, diff: int | str = 1) -> None:
        """Take rows away from a source: ``insert`` with the signs turned."""
        self._engine.insert(source, data, time, diff, -1)

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
        self._engine.insert(source, data, time, kind=INSERT_OR_UPDATE)

    def delete_key(self, source: str, keys: Any, *, time: int | str | None = None) -> None:
        """Delete whatever a source with a key has of some keys; of a key that is not there, nothing.

        ``keys`` is data as for ``insert``, of which only the key's columns are read: a list has tuples of them, or bare
        values where the key is one column.

        Cost:   the rows of these keys are looked up and deleted; nothing is kept of the command, nor of the key.

        Raises:
            InputError: the source has no key.
            UnknownSourceError, SchemaError, BeforeFrontierError: nothing of the call is kept.
        """
        self._engine.insert(source, keys, time, kind=DELETE_KEY)

    def discard(self, source: str | None = None) -> None:
        """Forget what was inserted into a source (or into all) since the last advance."""
        self._engine.discard(source)

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
        options: dict[str, Any] = {"time": time, "diff": diff, "watermark": watermark, "late": late, "command": command}
        options |= {"max_rows": max_rows, "restart": restart, "on_step": on_step}
        folder = None if checkpoint is None else str(checkpoint)
        return self._streams.follow({**streams, **more}, folder, options, available_now=available_now, trigger=trigger)

    @property
    def rows_followed(self) -> dict[str, int]:
        """How many rows of each stream were taken since it was first followed, by the last commit."""
        return {name: self._streams.stored(name).rows for name in self._engine.streams_stored}

    def unfollow(self, name: str) -> None:
        """Forget how far a stream was taken: its watermark holds nothing back, and following it begins anew.

        What was taken of it stays. Streams that are still read are stopped first: ``following.stop()``.

        Raises:
            InputError: it is followed just now, or never was.
        """
        with self._engine.lock:
            self._engine.check_open()
            self._streams.unfollow(name)
            self._engine.forget_stream(name)

    # steps ------------------------------------------------------------------------------------------------------------

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
        return self._engine.advance(to)

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
        self._engine.commit()

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
