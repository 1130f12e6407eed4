"""Executing statements: each is parsed, and run by the method for its kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Collection as Names
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import pyarrow as pa
from sqlglot import exp

from altneu.collections.collection import Collection
from altneu.engine.aside import Aside
from altneu.engine.engine import Engine
from altneu.engine.reading import Time
from altneu.engine.replace import replace
from altneu.errors import AltneuError, PlanError, StatementError
from altneu.errors.nearest import listed
from altneu.explain import Explained, rendered
from altneu.expressions import has_window
from altneu.expressions.construct import literal
from altneu.expressions.literals import literal_sql
from altneu.operators.kernels.spans import show_row
from altneu.sql.scope import table_named
from altneu.sql.statements.altering import alter, comment, versions_of
from altneu.sql.statements.arguments import Arguments
from altneu.sql.statements.assigning import assigned, set_to, with_defaults
from altneu.sql.statements.binder import DefinitionBinder
from altneu.sql.statements.defined import TEMPORARY, Defined, Definitions
from altneu.sql.statements.defining import Definer
from altneu.sql.statements.dropping import Dropper
from altneu.sql.statements.feeding import Feeds
from altneu.sql.statements.merging import Merging, read_once
from altneu.sql.statements.ordered import ordered
from altneu.sql.statements.parser import parse, with_parameters
from altneu.sql.statements.registering import Registration
from altneu.sql.statements.result import Result
from altneu.sql.statements.shown import describe, show
from altneu.sql.statements.subscribed import Subscribed
from altneu.sql.statements.templates import Templates
from altneu.sql.statements.tree import (
    FOLLOWED,
    Advance,
    Alter,
    Comment,
    CreateFunction,
    CreateIndex,
    CreateSchema,
    CreateSink,
    CreateSource,
    CreateView,
    Creation,
    Delete,
    Describe,
    Drop,
    Explain,
    Follow,
    Insert,
    Merge,
    Refresh,
    Select,
    Show,
    Statement,
    Subscribe,
    Transaction,
    Truncate,
    Update,
    Use,
)
from altneu.sql.trees import has_aggregate
from altneu.streams import Following, Streams
from altneu.types import quote_name
from altneu.views.lookup import First
from altneu.views.peek import explained, peek
from altneu.views.view import View

if TYPE_CHECKING:
    from altneu.streams.stream import OnStep

Looking: TypeAlias = Select | Show | Describe | Explain
"""What changes nothing."""
Answer: TypeAlias = Result | Subscribed | Following
"""What a statement answers: rows or a message, or what goes on after it."""
S = TypeVar("S", bound=Statement)


class Statements:
    """The statements of one session, and what they have defined.

    A statement that changes rows takes a step, so that whatever comes after it sees them; between BEGIN and COMMIT the
    step is COMMIT's. A query, too, takes a step first where rows wait that were inserted before it.
    """

    def __init__(self, engine: Engine, streams: Streams) -> None:
        self._engine, self._streams = engine, streams
        self.known = Definitions(engine)
        self.feeds = Feeds(engine, streams, self.known)
        self.binder = DefinitionBinder(engine, self.known)
        self.dropper = Dropper(engine, streams, self.known, self.feeds)
        self.definer = Definer(engine, self.known, self.binder, self.dropper, self.feeds)
        self.udf = Registration(engine, self.known)
        self.templates = Templates(engine, self.known, self.binder.shown)
        self._aside: Aside | None = None  # the rows that were inserted since BEGIN, until COMMIT
        self._failed: str | None = None  # the error there, after which only ROLLBACK or COMMIT is accepted
        self._changed: dict[str, int] = {}  # tables that DELETE and UPDATE have changed there, after how many steps
        self._subscribed = count(1)

    def run(self, text: str, arguments: Arguments | None = None) -> Answer:
        """Execute all statements of a text, with the values of its parameters; the result of the last one."""
        if arguments is not None:
            text = with_parameters(text, arguments)
        if (result := self.asked_again(text)) is not None:
            return result
        results = [result for _, result in self.results(text)]
        return results[-1] if results else Result(None, "no statement")

    def results(self, text: str) -> Iterator[tuple[Statement, Answer]]:
        """Execute the statements of a text one by one, as the iterator advances; each with its result.

        Nothing of a text that does not parse is executed. Statements of several threads run one after the other,
        except those that wait for streams.
        """
        try:
            statements = parse(with_parameters(text, None), self.known.within)
        except AltneuError as error:
            self._give_up(error)
            raise
        self.restore()
        for statement in statements:
            try:
                result = self._done(statement)
            except BaseException as error:
                self._give_up(error)
                if len(statements) > 1:
                    error.add_note(f"altneu: line {statement.line}: {statement.title}")
                raise
            yield statement, result

    def asked_again(self, text: str, *, settles: bool = True) -> Result | None:
        """The rows of a query that was asked before, perhaps with other constants, if lookups answer it; else None.

        It takes a step for pending rows where ``run`` does, unless it only ``look``s. While another thread takes one it
        is answered as of before, unless this thread has inserted rows: a thread always finds what it inserted.
        """
        if self._open or self._failed is not None or not isinstance(text, str):
            return None
        if (asking := self.templates.asked(text)) is None:
            return None
        settles = settles and _is_of_now(asking.at)
        before = self._engine.before
        if before is not None and not (settles and self._engine.has_own_pending):  # else it counts what the step does
            table = asking.answer(before)
            return None if table is None else self._table(table)
        if settles and self._engine.spark is not None:
            self.settle()  # without the lock, as it may wait for streams
        with self._engine.lock:
            self._engine.check_open()
            if settles and self._engine.spark is None:
                self.settle()
            table = asking.answer(self._engine)
        return None if table is None else self._table(table)

    def restore(self) -> None:
        """Restore the definitions of the store."""
        with self._engine.lock:
            self.definer.restore()

    def refuse_ending_sinks(self, going_on: Names[str]) -> None:
        """Refuse to let a view end that a sink follows; before that, what is defined is restored.

        Raises:
            PlanError: a sink follows another view than those that go on.
            StatementError: a transaction is open.
        """
        self._outside("a swap")
        self.restore()
        for sink in (defined for defined in self.known.all.values() if defined.kind == "SINK"):
            view = self.binder.maintained(sink.stated(CreateSink).view, "CREATE SINK")
            if view not in going_on:
                raise PlanError(
                    f"the SINK {sink.name} follows view {view!r}, which the fork does not have with the same columns: "
                    f"DROP SINK {sink.name} first"
                )

    def detach(self) -> None:
        """Let go of sinks, which others go on with."""
        for defined in self.known.all.values():
            if defined.attached is not None:
                defined.attached.close()

    def _done(self, statement: Statement) -> Answer:
        if self._failed is not None and not (isinstance(statement, Transaction) and statement.word != "BEGIN"):
            raise StatementError(
                "the transaction was aborted by an error, and further statements are refused until ROLLBACK ends it: "
                f"{self._failed}"
            )
        if isinstance(statement, _WITH_STREAMS):
            return _DO.execute(self, statement)
        if _settles(statement) and not self._open:
            self.definer.check()
            self.feeds.drain()
        with self._engine.lock:
            if self._aside is not None and isinstance(statement, _CHANGES):
                with self._aside.inserting():
                    return _DO.execute(self, statement)
            if isinstance(statement, _CHANGES):
                with self._engine.all_or_nothing():
                    return _DO.execute(self, statement)
            return _DO.execute(self, statement)

    def _give_up(self, error: BaseException) -> None:
        """After an error between BEGIN and COMMIT, nothing of the transaction counts."""
        with self._engine.lock:
            if self._open and self._failed is None:
                self._failed = f"{error}".partition("\n")[0]
                error.add_note("altneu: this failed after BEGIN, so the transaction is aborted; ROLLBACK ends it")

    @property
    def _open(self) -> bool:
        return self._aside is not None

    def rolled_back(self) -> bool:
        """End a transaction that has no COMMIT, if there is one; nothing of it counts."""
        with self._engine.lock:
            was, self._aside, self._failed = self._open, None, None
            return was

    def _message(self, message: str) -> Result:
        return Result(None, message)

    def _table(self, table: pa.Table) -> Result:
        return Result(table, spark=self._engine.spark)

    # steps ----------------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Take a step for all inserted rows, and for rows of sources that have not been read yet."""
        if self._open:
            return
        self.definer.check()
        if not self._engine.lock.is_mine:  # who waits for streams must not have it
            self.feeds.drain()
        self._count_pending()

    def _count_pending(self) -> None:
        """Take a step for rows that wait for one."""
        with self._engine.lock:
            if self._engine.has_pending or (self._engine.has_open and not self._streams.have_times):
                self._step()

    def _step(self) -> None:
        """Close a time; where streams decide when times are closed, only commit the inserted rows."""
        if self._streams.have_times:
            self._engine.commit()
        else:
            self._engine.advance()

    def _transaction(self, statement: Transaction) -> Result:
        if statement.word == "BEGIN":
            if self._open:
                raise StatementError("BEGIN: a transaction is open already; COMMIT or ROLLBACK it first")
            self.settle()
            self._aside, self._changed = Aside(self._engine), {}
            return self._message("BEGIN")
        aside, failed = self._aside, self._failed
        if aside is None:
            raise StatementError(f"{statement.word}: there was no BEGIN, so each statement is a transaction of its own")
        self._aside, self._failed = None, None
        if statement.word == "COMMIT" and failed is not None:
            return self._message(f"ROLLBACK: nothing of the transaction counts, because an error aborted it: {failed}")
        if statement.word == "COMMIT":
            self._count(aside)
        return self._message(statement.word)

    def _count(self, aside: Aside) -> None:
        """Take a step for the rows of a transaction, or for none of them.

        Raises:
            StatementError: rows that it has found in a table may be others now.
        """
        engine = self._engine
        since = {name for name, steps in self._changed.items() if engine.inserted.get(name, 0) > steps}
        if since := since | ({*self._changed} & engine.waiting().sources):
            raise StatementError(
                f"COMMIT: {', '.join(sorted(since))} was changed from outside of the transaction after it had found "
                "the rows to change, so nothing of it counts; run it again from BEGIN"
            )
        with engine.all_or_nothing():
            aside.count()
            self.settle()

    def _outside(self, what: str) -> None:
        if self._open:
            raise StatementError(f"{what} cannot run inside a transaction; COMMIT or ROLLBACK first")

    def _advance(self, statement: Advance) -> Result:
        self._outside("ADVANCE")
        closed = self._engine.closed
        event = None if statement.event is None else _at_least(statement.event, closed.own)
        again = event is None or not any(event) or event == closed.own
        if statement.to is not None and statement.to <= closed.lower and again:  # a script that is run again
            return self._message(f"ADVANCE: times before {closed.lower} are closed already")
        to = statement.to if statement.to is None else max(statement.to, closed.lower)
        step = self._engine.advance(to, event)
        further = "" if event is None else f", and event times before {event if event[1:] else event[0]}"
        return self._message(f"ADVANCE: times before {step.upper}{further} are closed")

    # definitions ----------------------------------------------------------------------------------------------------

    def _create(self, statement: Creation) -> Result:
        self._outside("CREATE")
        query = statement.query if isinstance(statement, CreateSource) else None
        if isinstance(statement, CreateSink) or statement.replace or query is not None:
            self.settle()
        message = self.definer.create(statement)
        if query is not None:
            rows = self.definer.fill(statement.name, lambda: self._rows_of_table(statement.name, query), self._step)
            message += "" if rows is None else f", with {rows} rows"
        if statement.replace:
            self.settle()  # what is different counts from the next time on
        return self._message(message)

    def _rows_of_table(self, name: str, query: exp.Expr) -> pa.Table:
        """The rows of a query, as those of a table with its columns."""
        shown = self.binder.shown(query)
        come = shown.collection.select(*map(quote_name, shown.columns))
        return peek(self._engine, assigned(come, self._engine.source(name).schema, name))

    def _alter(self, statement: Alter) -> Result:
        self._outside("ALTER")
        with self._engine.lock:
            source = self.known.defined(statement.name, statement.kind)
        self.feeds.stop(source.name)
        self.definer.check()
        self._count_pending()
        with self._engine.lock:
            message = alter(self._engine, self.known, self.binder, statement)
            self._count_pending()  # views whose rows are others count from the next time on
        return self._message(message)

    def _drop(self, statement: Drop) -> Result:
        self._outside("DROP")
        with self._engine.lock:
            streams = [d.name for d in self.dropper.dropped(statement) if d.kind == "SOURCE"]
        for name in streams:
            self.feeds.stop(name)
        with self._engine.lock:
            return self._message(self.dropper.drop(statement))

    def _comment(self, statement: Comment) -> Result:
        self._outside("COMMENT ON")
        return self._message(comment(self._engine, self.known, statement))

    def _use(self, statement: Use) -> Result:
        self.known.use(statement.path)
        return self._message(f"USE {'.'.join(statement.path)}")

    # queries --------------------------------------------------------------------------------------------------------

    def _bind(self, tree: exp.Expr) -> Collection:
        return self.binder.query(tree)

    def _rows(self, tree: exp.Expr, at: Time = None) -> pa.Table:
        query = ordered(tree, partial(self.binder.shown, at=at))
        return query.apply(peek(self._engine, query.shown.collection, at, first=query.first))

    def _select(self, statement: Select) -> Result:
        if _settles(statement):
            self.settle()
        return self._table(self._rows(statement.query, statement.at))

    def look(self, statement: Looking) -> Result:
        """Answer from the current state: no step is taken for pending rows, and nothing changes."""
        match statement:
            case Select():
                return self._table(self._rows(statement.query, statement.at))
            case Show():
                return self._show(statement)
            case Describe():
                return self._describe(statement)
            case _:
                return self._explain(statement)

    def _show(self, statement: Show) -> Result:
        return self._table(show(statement, self._engine, self.known))

    def _describe(self, statement: Describe) -> Result:
        query = None if statement.query is None else ordered(statement.query, self.binder.shown).shown
        return self._table(describe(statement, self.known, query))

    def _explain(self, statement: Explain) -> Result:
        text = rendered(self._explained(statement), statement.form, analyze=statement.analyze)
        return self._table(pa.table({"plan": text.split("\n") if statement.form == "text" else [text]}))

    def _explained(self, statement: Explain) -> Explained:
        """The plan of a view that is kept, or of a query, which ANALYZE runs once."""
        if statement.query is not None:
            query = ordered(statement.query, self.binder.shown)
            in_order = None if query.first is None else (query.shown.collection, query.first)
            names = {name.lower() for name in query.shown.names}
            several = len(names) < len(query.shown.names)  # of one name: a query shows them, and no view may have them
            explained = query.shown.collection if several else self._bind(statement.query)
            return self._explained_query(explained, in_order, analyze=statement.analyze)
        defined = self.known.get_defined(str(statement.name))
        if defined is not None and defined.view is None and defined.kind in ("VIEW", "SOURCE"):
            return self._explained_query(self.known[defined.name], analyze=statement.analyze)
        return self._engine.explained(str(statement.name) if defined is None else defined.view or defined.name)

    def _explained_query(
        self, collection: Collection, in_order: tuple[Collection, First] | None = None, *, analyze: bool
    ) -> Explained:
        if analyze:
            self.settle()
        return explained(self._engine, collection, analyze=analyze, in_order=in_order)

    def _subscribe(self, statement: Subscribe) -> Subscribed:
        self._outside("SUBSCRIBE")
        if statement.as_of is None:
            self.settle()
        name, end = self._subscribed_view(statement)
        rest = {"snapshot": statement.snapshot, "as_of": statement.as_of, "up_to": statement.up_to}
        try:
            view = View(self._engine, name)
            subscription = view.subscribe(**rest, form="arrow")  # type: ignore[arg-type]
            return Subscribed(statement, subscription, self._engine.coordinates(name) or ("time",), end)
        except BaseException:
            end()
            raise

    def _subscribed_view(self, statement: Subscribe) -> tuple[str, Callable[[], None]]:
        """The view that is subscribed to, and what to do at the end: one of a query is maintained until then."""
        defined = None if statement.name is None else self.known.get_defined(statement.name)
        named = statement.name is not None and (
            defined is None or (defined.view is not None and defined.kind != "INDEX")
        )
        if named:
            return self.binder.maintained(str(statement.name), "SUBSCRIBE"), lambda: None
        tree = statement.query or exp.select("*").from_(table_named(str(statement.name)))
        name = f"{TEMPORARY}subscribe {next(self._subscribed)}"
        self._engine.maintain(name, self._bind(tree), contents=statement.snapshot is not False)
        self.feeds.insert()
        self.settle()

        def end() -> None:
            if name in self._engine.views_stored:
                self._engine.drop(name)

        return name, end

    # rows -----------------------------------------------------------------------------------------------------------

    def _written(self, name: str) -> Defined:
        """What may be inserted into: a table, or a source that a program feeds.

        Raises:
            StatementError: it is neither.
        """
        defined = self.known.defined(name, "TABLE", "SOURCE")
        if defined.error is not None:
            raise defined.error
        if defined.stated(CreateSource).origin.kind != "insert":
            raise StatementError(
                f"{name!r} is fed from {defined.stated(CreateSource).origin}; INSERT goes into a TABLE"
            )
        if defined.name not in self._engine.sources:
            raise StatementError(f"no view reads source {name!r} and it has no KEEP, so its rows would be lost")
        return defined

    def _insert(self, statement: Insert) -> Result:
        target = self._written(statement.name)
        old = None if statement.instead is None else self._matching(statement.name, statement.instead)
        self.settle()
        schema = self._engine.source(target.name).schema
        defaults = self._defaults(target)
        query = self.binder.shown(with_defaults(statement.query, statement.columns or schema.names, schema, defaults))
        come = query.collection.select(*map(quote_name, query.columns))  # by their places: several may have one name
        come = assigned(come, schema, statement.name, query.names if statement.by_name else statement.columns, defaults)
        rows = peek(self._engine, come)
        if statement.overwrite:
            self._replace(target, rows, "INSERT OVERWRITE")
            return self._message(f"INSERT OVERWRITE {rows.num_rows}")
        if old is not None:
            self._check_all_meet(come, rows, statement)
            self._change(target, [old], [rows])
            return self._message(f"INSERT {rows.num_rows} in the place of {old.num_rows}")
        self._engine.insert(target.name, rows)
        self.settle()
        return self._message(f"INSERT {rows.num_rows}")

    def _defaults(self, target: Defined) -> dict[str, str]:
        """The values of columns that INSERT does not name, where they are not null."""
        versions = versions_of(self._engine, target)
        given = versions.defaults
        values = {f.name: literal(given[n], f.type) for n, f in versions.present.by_number.items() if n in given}
        return {column: literal_sql(value.value, value.type) for column, value in values.items()}

    def _check_all_meet(self, come: Collection, rows: pa.Table, statement: Insert) -> None:
        """Refuse rows in the place of those that meet a condition if they do not.

        Raises:
            StatementError: naming the condition.
        """
        assert statement.instead is not None
        meet = peek(self._engine, come.filter(statement.instead.copy())).num_rows  # type: ignore[arg-type]
        if meet < rows.num_rows:
            raise StatementError(
                f"INSERT INTO {statement.name} REPLACE WHERE {statement.instead.sql('spark')}: all rows of the query "
                f"must meet the condition, but {rows.num_rows - meet} of {rows.num_rows} do not"
            )

    def _truncate(self, statement: Truncate) -> Result:
        target = self._written(statement.name)
        self.settle()
        self._replace(target, [], "TRUNCATE")
        return self._message("TRUNCATE")

    def _replace(self, target: Defined, rows: Any, what: str) -> None:
        """Make rows all that a table has."""
        if self._open and target.name in self._engine.waiting().sources:
            raise StatementError(
                f"{target.name!r} has changes that are not committed yet, which {what} cannot see; COMMIT first"
            )
        replace(self._engine, target.name, rows)
        self.settle()
        self._changed.setdefault(target.name, self._engine.steps)

    def _change(self, target: Defined, gone: Sequence[pa.Table], come: Sequence[pa.Table]) -> None:
        for rows in gone:
            self._engine.insert(target.name, rows, sign=-1)
        for rows in come:
            self._engine.insert(target.name, rows)
        self.settle()
        self._changed.setdefault(target.name, self._engine.steps)

    def _delete(self, statement: Delete) -> Result:
        rows = self._matching(statement.name, statement.where, statement.alias, statement.common)
        self._change(self._written(statement.name), [rows], [])
        return self._message(f"DELETE {rows.num_rows}")

    def _update(self, statement: Update) -> Result:
        target = self._written(statement.name)
        schema = self._engine.source(target.name).schema
        values = {name.lower(): tree for name, tree in statement.values}
        if len(values) < len(statement.values):
            twice = Counter(name.lower() for name, _ in statement.values).most_common(1)[0][0]
            raise StatementError(f"UPDATE sets column {twice!r} twice")
        for name, _ in statement.values:
            if name.lower() not in {c.lower() for c in schema.names}:
                raise StatementError(f"{statement.name!r} has no column {name!r}; it has: {listed(name, schema.names)}")
        old = self._matching(statement.name, statement.where, statement.alias, statement.common)
        query = _all_of(target.name, statement.where, statement.alias, statement.common)
        defaults = self._defaults(target)
        values = {name: set_to(tree, name, schema, defaults) for name, tree in values.items()}
        new = {c: values.get(c.lower(), exp.column(c, quoted=True)).copy() for c in schema.names}
        query.set("expressions", [exp.alias_(tree, c, quoted=True) for c, tree in new.items()])
        come = peek(self._engine, assigned(self._bind(query), schema, statement.name))
        self._change(target, [old], [come])
        return self._message(f"UPDATE {old.num_rows}")

    def _merge(self, statement: Merge) -> Result:
        target = self._changeable(statement.name)
        statement, rows = read_once(statement, self._rows, self.known.within)
        with self.known.given(rows):
            return self._merged(statement, target)

    def _merged(self, statement: Merge, target: Defined) -> Result:
        schema, defaults = self._engine.source(target.name).schema, self._defaults(target)
        source = self.binder.shown(statement.select("*")).names
        merging = Merging.of(statement.with_values(lambda c, tree: set_to(tree, c, schema, defaults)), schema, source)
        if merging.counts is not None:
            pairs, updated = (self._rows(tree)["n"][0].as_py() for tree in merging.counts)
            if pairs > updated:
                key = merging.several(self._rows)
                named = f", that with {show_row(list(key), list(key.values()))}" if key else ""
                raise StatementError(
                    f"MERGE: several rows of {statement.source.alias_or_name} change one row of {statement.name}{named}"
                    "; ON must find one at most, so let the source have one row for each of its keys"
                )
        gone = [peek(self._engine, self.binder.shown(tree).collection) for tree in merging.gone]
        come = [
            [
                peek(self._engine, assigned(self._bind(c.query), schema, statement.name, c.columns, defaults))
                for c in some
            ]
            for some in (merging.updates, merging.inserts)
        ]
        self._change(target, gone, [rows for some in come for rows in some])
        updated, inserted = (sum(rows.num_rows for rows in some) for some in come)
        deleted = sum(rows.num_rows for rows in gone) - updated
        return self._message(f"MERGE: {inserted} inserted, {updated} updated, {deleted} deleted")

    def _changeable(self, name: str) -> Defined:
        """A table of which rows may be found and changed now; pending rows are counted.

        Raises:
            StatementError: it does not keep its rows, or has changes that are not committed.
        """
        target = self._written(name)
        if target.view is None:
            raise StatementError(
                f"source {name!r} does not keep its rows, so it cannot list them; declare it with KEEP"
            )
        if self._open and (target.name in self._changed or target.name in self._engine.waiting().sources):
            raise StatementError(
                f"{name!r} has changes that are not committed yet, which DELETE, UPDATE and MERGE cannot see; COMMIT "
                "first, or change the rows before you insert others"
            )
        self.settle()
        return target

    def _matching(
        self, name: str, where: exp.Expr | None, alias: str | None = None, common: exp.With | None = None
    ) -> pa.Table:
        target = self._changeable(name)
        if where is not None and (has_aggregate(where) or has_window(where)):
            raise StatementError(
                f"WHERE must test each row of {name!r} by itself, got an aggregate or a window function; choose the "
                "rows by a query with HAVING or QUALIFY: WHERE key IN (SELECT ...)"
            )
        return peek(self._engine, self.binder.shown(_all_of(target.name, where, alias, common)).collection)

    # sources --------------------------------------------------------------------------------------------------------

    def _refresh(self, statement: Refresh) -> Result:
        self._outside("REFRESH")
        sources = [
            d for d in self.known.all.values() if d.kind == "SOURCE" and d.stated(CreateSource).origin.kind != "insert"
        ]
        if statement.name is not None and statement.view:
            below = self.known.below(self.known.defined(statement.name, "MATERIALIZED VIEW"))
            sources = [source for source in sources if source in below]
        elif statement.name is not None:
            sources = [self.known.defined(statement.name, "SOURCE")]
        self.settle()  # pending rows are counted first, so that the comparison does not take them for new
        for source in sources:
            named = statement.name is not None and not statement.view
            if named or source.view is not None or source.stated(CreateSource).origin.is_followed:
                self.feeds.refresh(source)
        self.settle()
        what = f"MATERIALIZED VIEW {statement.name}: " if statement.view else ""
        return self._message(f"REFRESH {what}" + (", ".join(s.name for s in sources) or "of nothing"))

    def _follow(self, statement: Follow) -> Following:
        return self.follow(statement)

    def follow(self, statement: Follow, on_step: OnStep | None = None) -> Following:
        """Follow streams, by name or all that views read and nobody follows."""
        self._outside("FOLLOW")
        self.definer.check()
        followed = self.feeds.followed
        sources = [s for s in self.feeds.live(*FOLLOWED) if s.name not in followed]
        if statement.names:
            sources = [self.known.defined(name, "SOURCE") for name in statement.names]
            for source in sources:
                if not source.stated(CreateSource).origin.is_followed:
                    raise StatementError(
                        f"source {source.name!r} is not a stream: {source.stated(CreateSource).origin}"
                    )
        if not sources:
            raise StatementError("there is no stream to follow: CREATE SOURCE … FROM STREAM, and a view that reads it")
        if self._engine.has_pending:
            self._step()
        now, trigger = bool(statement.options.get("AVAILABLE_NOW", False)), statement.options.get("TRIGGER")
        return self.feeds.follow(sources, available_now=now, trigger=trigger, on_step=on_step)


def _settles(statement: Statement) -> bool:
    """Whether a statement wants to be counted before it what sources have."""
    if isinstance(statement, Select):
        return _is_of_now(statement.at)
    kinds = (Advance, CreateSink, Delete, Insert, Merge, Transaction, Truncate, Update)
    return isinstance(statement, kinds)


def _is_of_now(at: Time) -> bool:
    """Whether a query asks for the last closed time."""
    return at is None or (isinstance(at, tuple) and at[0] is None)


def _at_least(event: int | tuple[int, ...], closed: tuple[int, ...]) -> tuple[int, ...]:
    """Up to where event times are to be closed, or where they are closed further; as given if it is not so many."""
    own = event if isinstance(event, tuple) else (event,)
    return tuple(map(max, own, closed)) if len(own) == len(closed) else own


def _all_of(name: str, where: exp.Expr | None, alias: str | None = None, common: exp.With | None = None) -> exp.Select:
    query = exp.select("*").from_(table_named(name, alias))
    if common is not None:
        query.set("with_", common.copy())
    return query if where is None else query.where(where.copy())


_CHANGES = (Insert, Delete, Merge, Truncate, Update)
"""These insert and retract rows: between BEGIN and COMMIT they are kept aside."""

_WITH_STREAMS = (Alter, Drop, Follow, Refresh, Subscribe)
"""These may wait for streams, which take their turn with the session's lock."""


class _Table:
    """By the class of a statement, the method that executes it."""

    def __init__(self) -> None:
        self._by_class: dict[type[Statement], Callable[[Statements, Any], Answer]] = {}

    def add(self, method: Callable[[Statements, S], Answer], *kinds: type[S]) -> _Table:
        """With a method, and the classes of statements that it takes."""
        self._by_class |= dict.fromkeys(kinds, method)
        return self

    def execute(self, statements: Statements, statement: Statement) -> Answer:
        """What a statement answers."""
        return self._by_class[type(statement)](statements, statement)


_DO = (
    _Table()
    .add(Statements._advance, Advance)
    .add(Statements._alter, Alter)
    .add(Statements._comment, Comment)
    .add(Statements._create, CreateFunction, CreateIndex, CreateSchema, CreateSink, CreateSource, CreateView)
    .add(Statements._delete, Delete)
    .add(Statements._describe, Describe)
    .add(Statements._drop, Drop)
    .add(Statements._explain, Explain)
    .add(Statements._follow, Follow)
    .add(Statements._insert, Insert)
    .add(Statements._merge, Merge)
    .add(Statements._refresh, Refresh)
    .add(Statements._select, Select)
    .add(Statements._show, Show)
    .add(Statements._subscribe, Subscribe)
    .add(Statements._transaction, Transaction)
    .add(Statements._truncate, Truncate)
    .add(Statements._update, Update)
    .add(Statements._use, Use)
)
