"""A run of a pipeline: what is new is read, flows append, views follow, and the tables that change are written."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from altneu.cli.pipelines.cdc import check_events
from altneu.cli.pipelines.elements import TABLES, Cdc
from altneu.cli.pipelines.errors import refused
from altneu.cli.pipelines.files import File, Files, Stored
from altneu.cli.pipelines.graph import Flow, Graph, Leaf, Resolved
from altneu.cli.pipelines.loading import find_spec, load, load_spec, storage_of
from altneu.cli.pipelines.logs import OWN, PART, ROWS, VIEW, Books, Log, Part
from altneu.cli.pipelines.outside import check_sink, write
from altneu.cli.pipelines.tables import Tables
from altneu.cli.pipelines.versioned import Position, VersionedTable
from altneu.collections.collection import Collection
from altneu.errors import (
    AltneuError,
    PipelineError,
    PlanError,
    SchemaError,
    SinkError,
    StorePlanError,
    UnknownSourceError,
    ViewHasErrorsError,
)
from altneu.errors.nearest import listed
from altneu.session import Session
from altneu.types import to_ddl

STEP_BYTES = 256 << 20  # of files that are read into one commit
_PER_STEP = 1 << 20  # parts of one step have numbers of their own
_STORE, _TABLES = "altneu", "tables"


@dataclass
class Report:
    """What a run has done.

    Units:  ``files`` and ``rows`` are those read from files; ``appended`` rows by each flow; ``changed`` rows that came
            to or went from each table; ``steps`` of the session.
    """

    files: int = 0
    rows: int = 0
    appended: dict[str, int] = field(default_factory=dict)
    changed: dict[str, int] = field(default_factory=dict)
    steps: int = 0


@dataclass(frozen=True)
class Selection:
    """What of a pipeline is run: everything, or some tables; and which of them begin again."""

    refresh: tuple[str, ...] = ()
    full_refresh: tuple[str, ...] = ()
    full_refresh_all: bool = False

    def __post_init__(self) -> None:
        for option, given in (("--full-refresh", self.full_refresh), ("--refresh", self.refresh)):
            if self.full_refresh_all and given:
                raise refused(
                    "CONFLICTING_PIPELINE_REFRESH_OPTIONS",
                    f"--full-refresh-all is about all tables, and {option} names {', '.join(given)}: give one of them",
                )


class Pipeline:
    """A pipeline of a spec's files.

    Raises:
        PipelineError: the spec, a file or the graph is not right; nothing has been read or written.
    """

    def __init__(self, spec: str | None = None) -> None:
        path = find_spec(spec)
        self._spec = load_spec(path)
        self._storage = storage_of(self._spec)
        self._elements = load(path, self._spec)
        self.graph = Graph(self._elements)
        for resolved in self.graph.order:
            dataset = resolved.dataset
            if dataset.kind == "sink":
                check_sink(dataset)
            else:
                self.tables.form(dataset)

    @property
    def store(self) -> Path:
        """The folder of the store."""
        return self._storage / _STORE

    @property
    def tables(self) -> Tables:
        """The folders of the tables."""
        return Tables(self._storage / _TABLES, self._elements.names)

    def run(
        self,
        selection: Selection | None = None,
        written: Callable[[str, str, int], None] = lambda *_: None,
        say: Callable[[str], None] = lambda _: None,
    ) -> Report:
        """Bring the tables to what their queries say now.

        ``written`` is told of each table, with its kind and the number of rows that changed; ``say`` what sinks of the
        format "console" have.

        Cost:   files that are new or have changed are read; what views, flows and tables then do depends on the rows
                that these change. Without any, nothing is computed, committed or written.
        Law:    after each run the tables are those of ``spark-pipelines run`` (tests/pipelines/test_spark.py).

        Raises:
            PipelineError: the selection names no table; a file cannot be read. What was committed stays, and the next
                run continues.
            ViewHasErrorsError: an expression fails for a row. Other flows and tables are brought up to date.
        """
        selection = selection or Selection()
        graph = self.graph
        chosen = _chosen(graph, selection)
        gone = self.store.with_name(f"{_STORE}.removed")
        if gone.exists():  # a run was stopped here
            shutil.rmtree(gone)
        if selection.full_refresh_all and self.store.exists():
            Session(path=self.store).close()  # nobody else has it
            for resolved in graph.order:
                if resolved.dataset.kind in TABLES:
                    self.tables.clear(resolved.dataset)
            self.store.rename(gone)  # at once: what is left of a store that is removed file by file cannot be opened
            shutil.rmtree(gone)
        self.store.parent.mkdir(parents=True, exist_ok=True)
        with Session(path=self.store) as session:
            names = graph.elements.names
            again = [graph[names.known(name.split("."))] for name in selection.full_refresh]
            _refuse_other_columns(session, graph, again)
            run = _Run(graph, session, self.tables, written, say)
            run.full_refresh(again)
            run.files(r for r in graph.order if r.dataset.name.lower() in chosen)
            mine = [r for r in graph.order if r.dataset.name.lower() in chosen]
            for resolved in mine:
                run.append(resolved)
            run.write(resolved for resolved in mine if resolved.dataset.kind in TABLES)
            if run.failed is not None:
                raise run.failed
            return run.report


def _chosen(graph: Graph, selection: Selection) -> set[str]:
    """The names of what is updated, in lower case.

    Raises:
        PipelineError: a name that is no table of the pipeline.
    """
    tables = {r.dataset.name.lower() for r in graph.order if r.dataset.kind in TABLES}
    names = graph.elements.names
    for name in (*selection.refresh, *selection.full_refresh):
        if names.known(name.split(".")).lower() not in tables:
            raise refused(
                "TABLE_OR_VIEW_NOT_FOUND",
                f"there is no table {name!r} to refresh; there are: {listed(name, sorted(tables))}",
            )
    if selection.refresh or selection.full_refresh:
        return {names.known(name.split(".")).lower() for name in (*selection.refresh, *selection.full_refresh)}
    return {r.dataset.name.lower() for r in graph.order}


class _Run:
    """One run over an open store."""

    def __init__(
        self,
        graph: Graph,
        session: Session,
        tables: Tables,
        written: Callable[[str, str, int], None],
        say: Callable[[str], None],
    ) -> None:
        self._graph, self._session, self._tables = graph, session, tables
        self._written, self._say = written, say
        self.report = Report()
        self.failed: AltneuError | None = None  # the first of a flow or a table
        self._behind: set[str] = set()  # what reads as a batch something that could not be read
        self._logs = {log.name: log for log in _logs(graph)}
        views = {r.dataset.name: r.collection for r in graph.order if r.collection is not None and not r.is_log}
        kept = {*OWN, *views, *(log.view for log in self._logs.values())}
        for view in [view for view in session.views_stored if view not in kept]:
            session.drop(view)
        stored, before = {*session.views_stored}, session.store.next_number
        self._books = Books(session)
        for log in self._logs.values():
            _maintained(session, log.view, log.source.arrange_by(PART))
        for name, collection in views.items():
            _maintained(session, name, collection)
        if session.store.next_number != before or not session.lower:
            self._advance()  # what a view with another query has counts from the next step on, and so do constants
        self._forget_lost(stored)

    def _forget_lost(self, stored: set[str]) -> None:
        """Forget what the books have of logs that the files no longer read, and of flows into these."""
        books = self._books
        gone = [log for log in books.logs() if f"{VIEW}{log}" not in stored]
        for log in gone:
            if log not in self._logs:
                with suppress(UnknownSourceError):  # a run was stopped here
                    self._session.drop_source(f"{ROWS}{log}")
            for part in books.parts(log):
                books.remove(log, part)
        titles = {log.partition(" (")[0] for log in gone}
        flows = [flow for flow in books.flows() if flow.partition("/")[0] in titles]
        for flow in flows:
            books.forget(flow)
        if gone:
            self._advance()

    def _advance(self) -> None:
        self._session.advance()
        self.report.steps += 1

    # what begins again ------------------------------------------------------------------------------------------------

    def full_refresh(self, resolved: Iterable[Resolved]) -> None:
        """Have tables begin again: streaming tables without rows, and flows without progress."""
        for one in resolved:
            self._tables.clear(one.dataset)
            if one.log is not None:
                parts = [*self._books.parts(one.log.name)]
                for part in parts:
                    one.log.retract(self._session, part.number)
                    self._books.remove(one.log.name, part)
                for flow in _keys(one):
                    self._books.forget(flow)
                if parts:
                    self._advance()

    # files that are read as a whole -----------------------------------------------------------------------------------

    def files(self, chosen: Iterable[Resolved]) -> None:
        """Read what is new in the files that some tables read as batches, and take away what is gone."""
        wanted: dict[str, Stored] = {}
        below = {one.dataset.name: self._files_below(one, set()) for one in chosen}
        for files in below.values():
            wanted |= files
        for stored in wanted.values():
            log = Log(stored.name, stored.columns)
            try:
                if isinstance(stored, VersionedTable):
                    self._follow_table(log, stored)
                else:
                    self._follow(log, stored)
            except PipelineError as error:  # before anything of it was inserted
                readers = sorted(name for name, files in below.items() if stored.name in files)
                self._fail(PipelineError(f"{error}: not brought up to date: {', '.join(readers)}"))
                self._behind |= {name.lower() for name in readers}

    def _files_below(self, one: Resolved, seen: set[str]) -> dict[str, Stored]:
        """The files that a table reads, also through materialized views, which are part of its plan."""
        found = dict(one.files)
        for name in one.reads - seen:
            seen.add(name)
            below = self._graph[name]
            if below.dataset.kind == "materialized view":
                found |= self._files_below(below, seen)
        return found

    def _follow(self, log: Log, files: Files) -> None:
        books, session = self._books, self._session
        had = {part.path: part for part in books.parts(log.name)}
        now = {file.path: file for file in files.listed()}
        gone = [part for path, part in had.items() if path not in now or _is_other(part, now[path])]
        new = [file for path, file in now.items() if path not in had or _is_other(had[path], file)]
        for some in _steps(new) if new else [()] if gone else []:
            rows = [self._read(files, file) for file in some]
            for part in gone:
                log.retract(session, part.number)
                books.remove(log.name, part)
            gone = []
            for number, (file, table) in enumerate(zip(some, rows, strict=True), session.lower * _PER_STEP):
                log.insert(session, table, number)
                books.add(log.name, Part(number, file.path, file.size, file.modified))
            self._advance()

    def _follow_table(self, log: Log, table: VersionedTable) -> None:
        """Take what has changed in a table; its rows are one part, which says how far it was read."""
        books, session = self._books, self._session
        had = next(iter(books.parts(log.name)), None)
        known = None if had is None or had.modified else Position.of(had.path, had.size)
        for change in table.changes(known, STEP_BYTES):
            if change.whole and had is not None:
                log.retract(session, had.number)
            log.insert(session, change.came, 0)
            log.insert(session, change.went, 0, -1)
            if had is not None:
                books.remove(log.name, had)
            had = Part(0, change.position.said, change.position.number, 0 if change.last else 1)
            books.add(log.name, had)
            self.report.rows += change.came.num_rows + change.went.num_rows
            self._advance()

    def _read(self, files: Files, file: File) -> pa.Table:
        rows = files.read(file)
        self.report.files += 1
        self.report.rows += rows.num_rows
        return rows

    # tables -----------------------------------------------------------------------------------------------------------

    def append(self, resolved: Resolved) -> None:
        """Run the flows of a table or a sink; if one fails, the others are run all the same, and it next time."""
        for flow, key in zip(resolved.flows, _keys(resolved), strict=True):
            self._send(resolved, flow, key)  # of a run that was stopped
            if resolved.dataset.name.lower() in self._behind:
                continue
            try:
                while self._append(resolved, flow, key):
                    self._send(resolved, flow, key)
            except PipelineError as error:  # before anything was inserted
                self._fail(PipelineError(f"{error} (flow {flow.name}, {flow.query.place})"))
            except ViewHasErrorsError as error:
                self._fail(error)

    def _send(self, resolved: Resolved, flow: Flow, key: str) -> None:
        """Write what a flow has for a sink; a part that was written before it could be noted is written again."""
        store, unsent = self._session.store.identity, self._books.unsent(key)
        for part, rows in unsent:
            write(resolved.dataset, flow.name, rows, store, part, self._say)
            self._books.sent(key, part)
        if unsent:
            self._advance()

    def _fail(self, error: AltneuError) -> None:
        """Keep the first error, which ends the run, and tell of the others."""
        if self.failed is None:
            self.failed = error
        else:
            self._say(f"{type(error).__name__}: {error}")

    def write(self, tables: Iterable[Resolved]) -> None:
        """Write tables; if one has errors, the others are written all the same."""
        for resolved in tables:
            dataset = resolved.dataset
            if dataset.name.lower() in self._behind:
                continue
            try:
                changed = self._tables.write(self._session, self._books, resolved)
            except (PipelineError, SchemaError, SinkError, ViewHasErrorsError) as error:
                self._fail(error)
            else:
                self.report.changed[dataset.name] = changed
                self._written(dataset.name, dataset.kind, changed)

    def _append(self, resolved: Resolved, flow: Flow, key: str) -> bool:
        """Have a flow append what its streams have that is new, in one commit; False if there is nothing."""
        streams = {leaf: self._new(resolved, key, leaf) for leaf in flow.leaves if leaf.stream}
        if not any(seen for _, seen in streams.values()):
            return False
        rows = {leaf.name: new for leaf, (new, _) in streams.items()}
        if any(table.num_rows for table in rows.values()):
            rows |= {leaf.name: self._all(leaf) for leaf in flow.leaves if not leaf.stream}
        part = self._session.lower
        self._put(resolved, flow, key, _answer(flow, rows), part)
        for leaf, (_, seen) in streams.items():
            note = self._books.move if isinstance(leaf.input, VersionedTable) else self._books.see
            for path, number in seen.items():
                note(key, leaf.key, path, number)
        self._advance()
        return True

    def _put(self, resolved: Resolved, flow: Flow, key: str, rows: pa.Table, part: int) -> None:
        self.report.appended[flow.name] = self.report.appended.get(flow.name, 0) + rows.num_rows
        if not rows.num_rows:
            return
        if resolved.log is None:
            self._books.send(key, part, rows)
            return
        if isinstance(flow.query.query, Cdc):
            check_events(flow.query.query, rows)
        by_lower = {name.lower(): rows.column(name) for name in rows.column_names}
        columns = [
            by_lower[f.name.lower()].cast(f.type) if f.name.lower() in by_lower else pa.nulls(rows.num_rows, f.type)
            for f in resolved.log.schema
        ]
        resolved.log.insert(self._session, pa.table(columns, schema=resolved.log.schema), part)
        self._books.add(resolved.log.name, Part(part, flow.name))

    def _new(self, resolved: Resolved, key: str, leaf: Leaf) -> tuple[pa.Table, dict[str, int]]:
        """The rows of a stream that a flow has not read, and what it has read with them."""
        seen = self._books.seen(key, leaf.key)
        if isinstance(leaf.input, VersionedTable):
            had = next((Position.of(*one) for one in seen.items()), None)
            change = leaf.input.appended(had, resolved.dataset.name, STEP_BYTES)
            if change is None:
                return leaf.input.columns.empty_table(), {}
            self.report.rows += change.came.num_rows
            return change.came, {change.position.said: change.position.number}
        if isinstance(leaf.input, Files):
            files = next(_steps([file for file in leaf.input.listed() if file.path not in seen]), ())
            tables = [self._read(leaf.input, file) for file in files]
            return pa.concat_tables([leaf.input.columns.empty_table(), *tables]), {file.path: 0 for file in files}
        log = self._graph[leaf.input].log
        assert log is not None
        parts = [part.number for part in self._books.parts(log.name) if part.number > seen.get("", -1)]
        return log.read(self._session, parts), {"": max(parts)} if parts else {}

    def _all(self, leaf: Leaf) -> pa.Table:
        """The rows of what a flow reads as a batch."""
        if not isinstance(leaf.input, str):
            return self._session.peek(Log(leaf.input.name, leaf.input.columns).collection)
        collection = self._graph[leaf.input].collection
        assert collection is not None
        return self._session.peek(collection)


def _refuse_other_columns(session: Session, graph: Graph, again: Sequence[Resolved]) -> None:
    """Refuse a streaming table whose flows have other columns than the rows that it has.

    Raises:
        PipelineError: naming both; a table that begins again may have any.
    """
    for one in graph.order:
        if one.log is None or one in again:
            continue
        name = one.dataset.name
        other = [v for v in session.views_stored if v.startswith(f"{VIEW}{name} (") and v != one.log.view]
        if other:
            raise refused(
                "UNABLE_TO_INFER_PIPELINE_TABLE_SCHEMA",
                f"table {name!r} has the columns {other[0].removeprefix(f'{VIEW}{name} (')[:-1]}, and its flows have "
                f"{to_ddl(one.log.schema)} now: --full-refresh {name} makes it anew of what its streams have",
                one.dataset.place,
            )


def _keys(resolved: Resolved) -> list[str]:
    """What the progress of each flow is known by."""
    return [f"{resolved.dataset.name}/{flow.name}" for flow in resolved.flows]


def _logs(graph: Graph) -> Iterator[Log]:
    for resolved in graph.order:
        if resolved.log is not None:
            yield resolved.log
        for files in resolved.files.values():
            yield Log(files.name, files.columns)


def _is_other(part: Part, file: File) -> bool:
    return (part.size, part.modified) != (file.size, file.modified)


def _steps(files: Sequence[File]) -> Iterator[list[File]]:
    """Files that are read together: at most about ``STEP_BYTES`` of them."""
    some, size = list[File](), 0
    for file in files:
        if some and size + file.size > STEP_BYTES:
            yield some
            some, size = [], 0
        some.append(file)
        size += file.size
    if some:
        yield some


def _maintained(session: Session, name: str, collection: Collection) -> None:
    """Maintain a view; if it had another query, it gets this one, and is computed anew if its columns are others."""
    try:
        session.maintain(name, collection, replace=True)
    except (PlanError, StorePlanError):
        if name not in session.views_stored:
            raise
        session.drop(name)
        session.maintain(name, collection)


def _answer(flow: Flow, rows: dict[str, pa.Table]) -> pa.Table:
    """What a flow appends for new rows.

    Raises:
        ViewHasErrorsError: an expression fails for one.
    """
    with Session() as session:
        view = session.maintain(f"flow {flow.name}", flow.collection)
        for name, table in rows.items():
            if table.num_rows:
                session.insert(name, table)
        session.advance()
        return view.to_arrow()
