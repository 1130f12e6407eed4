"""Queries over a stored state that another session may be writing: without a lock or the plans of its views."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import pyarrow as pa

from altneu import sql
from altneu.collections.collection import Collection
from altneu.collections.declaring import source
from altneu.engine.reading import ASKED, OnErrors, Time, refuse_without_contents, updates_table
from altneu.errors import HistoryGoneError, NotYetKnownError, ReadError, StatementError
from altneu.linear.user_function import UserFunction
from altneu.order import Epoch
from altneu.plan import ir
from altneu.plan.lower import lower
from altneu.plan.physical import Plan
from altneu.runtime.read import contents
from altneu.runtime.stored import StoredDefinition
from altneu.session import Session
from altneu.sql.functions import SqlFunction
from altneu.sql.scope import Within
from altneu.sql.statements import parse
from altneu.sql.statements.defined import function_of, path_in, stated
from altneu.sql.statements.ordered import Ordered, ordered
from altneu.sql.statements.tree import CreateFunction, CreateView, Select
from altneu.trace.update import Updates
from altneu.types import quote_name
from altneu.views.prepared import prepared_over
from altneu.views.reader import Reader, StoreReadings
from altneu.views.view import followed, state_of

NAME = "the query"
_DIFF = "#diff"


class Names(Mapping[str, Collection]):
    """What names mean in a query over a store: its views, as sources of their rows, and names of queries over them.

    Beside them, and in place of a view of the same name, ``files`` that the command names; without a store only these.
    """

    def __init__(self, reader: Reader | None, files: Mapping[str, pa.Table] = MappingProxyType({})) -> None:
        self._reader, self.files = reader, files
        definitions = {} if reader is None else reader.definitions
        hidden = {value["name"] for value in definitions.values() if value["kind"] == "INDEX"}
        stored = [] if reader is None else reader.views
        self.views = [name for name in stored if name not in hidden and not name.startswith("#")]
        self._functions = {key: v for key, v in definitions.items() if v["kind"] == "FUNCTION"}
        self._named = {v["name"]: v for v in definitions.values() if v["kind"] == "VIEW"}
        self._collections: dict[str, Collection] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self.files, *self.views, *self._named]))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Collection:
        if name not in self._collections:
            if name in self.files:
                self._collections[name] = source(name, self.files[name].schema)
            elif name in self._named:
                self._collections[name] = self._bound(self._named[name])
            elif name in self.views and self._reader is not None:
                self._collections[name] = source(name, self._reader.view(name).schema)
            else:
                raise KeyError(name)
        return self._collections[name]

    def function(self, name: str) -> UserFunction | SqlFunction | None:
        """The function that a statement of the store has created under a name."""
        definition = self._functions.get(f"{name}()")
        if definition is None:
            return None
        statement = stated(definition)
        assert isinstance(statement, CreateFunction)
        return function_of(statement, self)

    def find(self, name: str) -> bool:
        """Functions of programs are not in a store."""
        return False

    def function_names(self) -> list[str]:
        """The names of the functions that statements have created."""
        return [key.removesuffix("()") for key in self._functions]

    def _bound(self, definition: StoredDefinition) -> Collection:
        """What ``CREATE VIEW`` gave a name to."""
        statement = stated(definition)
        assert isinstance(statement, CreateView)
        result = sql.query(statement.query, self, self, within=Within(path_in(definition)))
        if not statement.columns:
            return result
        renamed = zip(statement.columns, result.columns, strict=True)
        return result.select(**{new: quote_name(old) for new, old in renamed})


def selected(text: str, what: str) -> Select:
    """The one query that a text is.

    Raises:
        StatementError: it is something else.
    """
    statements = parse(text)
    if len(statements) != 1 or not isinstance(statements[0], Select):
        title = f"not `{statements[0].title}`" if len(statements) == 1 else f"not {len(statements)} statements"
        raise StatementError(f"{what} takes one query, {title}; altneu run runs other statements")
    return statements[0]


def sources_of(collection: Collection) -> list[str]:
    """The views that a query reads."""
    return sorted({node.name for node in ir.walk(collection.node) if isinstance(node, ir.Source)})


@dataclass(frozen=True)
class Answer:
    """The rows of a query, in its order, and the time that they are of."""

    table: pa.Table
    at: int


def ask(
    reader: Reader | None,
    text: str,
    at: Time = None,
    errors: OnErrors = "raise",
    files: Mapping[str, pa.Table] = MappingProxyType({}),
) -> Answer:
    """Answer a query over a store's views, at the last closed time or an earlier one that is kept, and over files.

    Its plan is run once over the rows of the views that it reads, in memory. If it needs only rows that have some keys,
    or the first in an order, or only their number, these are looked up, as in a session.

    Cost:   O(log n) for each key; else reads these views. What computing the query once costs. Each file is read as a
            whole when a process first looks into it, to check its digest: a second for a gigabyte.

    Raises:
        StatementError, PlanError: it is no query, or names what is not there.
        HistoryGoneError, NotYetKnownError: a time that cannot be read.
        ViewHasErrorsError: a view that it reads has errors, or the query makes some, as of rows with negative counts.
    """
    select = selected(text, "query")
    if at is not None and select.at is not None:
        raise StatementError("the query has AS OF, and --at names a time too; leave one of them out")
    names, at_time = Names(reader, files), select.at if at is None else at
    answer = ordered(select.query, lambda tree: sql.shown(tree, names, names))
    with _asked_at("--at" if at is not None else "AS OF"):
        return _answered(reader, answer, names, at_time, errors, files)


@contextmanager
def _asked_at(said: str) -> Iterator[None]:
    """Tell of a time that cannot be read in the words in which it was given, which are not those of Python."""
    try:
        yield
    except (HistoryGoneError, NotYetKnownError) as error:
        if str(error).startswith("at="):
            error.args = (f"{said} {str(error).removeprefix('at=')}",)
        raise


def _answered(
    reader: Reader | None,
    answer: Ordered,
    names: Names,
    at_time: Time,
    errors: OnErrors,
    files: Mapping[str, pa.Table],
) -> Answer:
    time = _system_time(reader, at_time)
    if reader is not None and (table := _looked_up(reader, names, answer, at_time, time)) is not None:
        return Answer(answer.apply(table), time)
    with Session() as session:
        view = session.maintain(NAME, answer.shown.collection)
        for name in sources_of(answer.shown.collection):
            if name not in session.sources:
                continue
            if reader is None or name in files:
                session.insert(name, files[name], time=time)
            else:
                session.insert(name, _rows(reader, name, at_time, errors), time=time, diff=_DIFF)
        session.advance(time + 1)
        return Answer(answer.apply(view.to_arrow(time, errors)), time)


def _looked_up(reader: Reader, names: Names, asked: Ordered, at: Time, time: int) -> pa.Table | None:
    """The answer from lookups; None if the views have to be read as a whole, as where one has an error."""
    collection = asked.shown.collection
    views = {name: name for name in sources_of(collection) if name in names.views and name not in names.files}
    if not views:
        return None
    state = state_of(reader.view(next(iter(views))))
    assert isinstance(state, StoreReadings)
    with state.lock:

        def arrangements(view: str) -> tuple[str, ...]:
            return () if state.ports(view).changes_only else state.arrangements(view)

        table, node = state.table, collection.node
        query = prepared_over(node, views, arrangements, table, _lowered, asked.first, state.below_zero)
        if query is None:
            return None
        times = {view: state.known(view).readable(_time_of(reader, view, at)) for view in query.views.values()}
        answer = query.answer(state, times, (time,))
        return None if answer is None else answer.table


def _lowered(node: ir.Node) -> Plan:
    return lower({ASKED: node}, Epoch())


def _time_of(reader: Reader, view: str, at: Time) -> Time:
    """The time at which a view is read: of one with one time, the first of two."""
    return at[0] if isinstance(at, tuple) and reader.view(view).coordinates is None else at


def _system_time(reader: Reader | None, at: Time) -> int:
    system = at[0] if isinstance(at, tuple) else at
    last = 0 if reader is None else max(reader.lower - 1, 0)
    return last if system is None else system


def _rows(reader: Reader, name: str, at: Time, errors: OnErrors) -> pa.Table:
    """The rows of a view, each once, with their counts in a column more.

    Raises:
        ViewHasErrorsError: an operator of it failed. A negative count is an error only where the query meets it.
    """
    view = reader.view(name)
    state = state_of(view)
    with state.lock:
        ports, time = state.ports(name), state.known(name).readable(_time_of(reader, name, at))
        refuse_without_contents(ports, name)
        if errors == "raise":
            view.raise_errors(time)
        return updates_table(contents(state.table, ports.contents, time), (), _DIFF)


class Maintained:
    """A query that is kept right in this process, from the changes of the views of a store that it reads.

    The first ``take`` gives it what there was at ``since``; each one after that what was closed since, as the reader
    has it.
    """

    def __init__(self, reader: Reader, text: str, since: int | None) -> None:
        select = selected(text, "subscribe")
        if select.at is not None:
            raise StatementError("AS OF is for queries that are answered once; --since says where changes begin")
        names = Names(reader)
        collection = sql.query(select.query, names, names)
        self._reader = reader
        self._read = {name: followed(reader.view(name)) for name in sources_of(collection)}
        for name in self._read:
            if reader.view(name).coordinates is not None:
                raise ReadError(
                    f"view {name!r} has two times, and a subscribed query needs views with one: subscribe to the view"
                )
        self._session = Session()
        self.view = self._session.maintain(NAME, collection)
        self.since = reader.lower - 1 if since is None else since
        self._position = -1
        reader.hold(max(self.since, 0))

    def take(self) -> None:
        """Go to where the reader is.

        Raises:
            HistoryGoneError, NotYetKnownError: of changes after ``since``, or of that time.
        """
        if self._position < 0 <= self.since:
            self._step({name: view.snapshot(self.since) for name, view in self._read.items()}, self.since + 1)
        elif self._position < 0:
            self._position = 0
        upper = self._reader.lower
        if self._position < upper:
            self._step({name: view.updates(self._position, upper) for name, view in self._read.items()}, upper)
        self._reader.hold(max(upper - 1, 0))

    def _step(self, changes: dict[str, Updates], upper: int) -> None:
        for name, updates in changes.items():
            if len(updates) and name in self._session.sources:
                self._session.insert(name, updates_table(updates, ["#time"], _DIFF), time="#time", diff=_DIFF)
        self._position = upper
        self._session.advance(upper)

    def close(self) -> None:
        """Let go of it."""
        self._session.close()
