"""The graph of a pipeline: what each dataset reads, as plans over the rows that are stored and those that are new.

A materialized view is a plan over *logs* (``logs``): the rows of files, and of streaming tables, part by part. A flow
is a plan over sources of its own, one for each thing that it reads, which get the new rows of streams and all rows of
what is read as a batch.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from altneu.cli.pipelines import cdc
from altneu.cli.pipelines.elements import Cdc, Dataset, Elements, FlowOf, SqlQuery
from altneu.cli.pipelines.errors import refused, unsupported
from altneu.cli.pipelines.files import Stored
from altneu.cli.pipelines.logs import Log
from altneu.cli.pipelines.plans import with_names, with_paths
from altneu.cli.pipelines.statements import stream_name, stream_of, with_streams
from altneu.collections.collection import Collection
from altneu.collections.declaring import source as declare
from altneu.errors import AltneuError, UnknownTableError
from altneu.expressions.pyspark.connect import name_parts
from altneu.plan import ir
from altneu.sql.frames import from_connect
from altneu.sql.queries import query
from altneu.types import parse_schema, quote_name, to_ddl

Input: TypeAlias = "Stored | str"
"""What a flow reads: files, a table of another program's, or a dataset by its name."""


@dataclass(frozen=True)
class Leaf:
    """A source of a flow's plan: what it has the rows of, and whether those that are new or all of them."""

    name: str
    input: Input
    stream: bool

    @property
    def key(self) -> str:
        """What the progress of the flow is known by."""
        return self.input if isinstance(self.input, str) else self.input.name


@dataclass(frozen=True)
class Flow:
    """A flow: its plan, and the sources that this reads."""

    name: str
    collection: Collection
    leaves: tuple[Leaf, ...]
    query: FlowOf


@dataclass(frozen=True)
class Resolved:
    """A dataset with what it is computed from.

    ``collection`` is over logs; of a sink there is none. ``log`` has the rows of a streaming table, and of one that
    auto CDC writes the events.
    """

    dataset: Dataset
    collection: Collection | None
    flows: tuple[Flow, ...] = ()
    log: Log | None = None
    reads: frozenset[str] = frozenset()
    files: Mapping[str, Stored] = field(default_factory=dict)  # read as batches, by the names of their logs

    @property
    def is_log(self) -> bool:
        """Whether its rows are those of its log, and not computed from them."""
        return self.log is not None and not isinstance(self.flows[0].query.query, Cdc)


class Graph:
    """The datasets of a pipeline, each resolved when it is first read.

    Raises:
        PipelineError: a name that there is not, a circle, a batch where a stream must be, or another part of the graph
            that Spark refuses, by Spark's name for it; a query that altneu does not have, by name and place.
    """

    def __init__(self, elements: Elements) -> None:
        self.elements = elements
        self._known: dict[str, Resolved] = {}
        self._open: list[str] = []
        for _, dataset in sorted(elements.datasets.items()):  # not as a folder happens to list its files
            if dataset.kind == "temporary view":
                self._check_view(dataset)
            else:
                self.resolved(dataset)

    @property
    def order(self) -> list[Resolved]:
        """Tables and sinks, each after those that it reads."""
        return [*self._known.values()]

    def __getitem__(self, name: str) -> Resolved:
        return self._known[name.lower()]

    def resolved(self, dataset: Dataset) -> Resolved:
        """A dataset, and before it what it reads."""
        key = dataset.name.lower()
        if key not in self._known:
            with self._opened(dataset):
                made = self._view(dataset) if dataset.kind == "materialized view" else self._appended(dataset)
            self._known[key] = made
        return self._known[key]

    @contextmanager
    def _opened(self, dataset: Dataset) -> Iterator[None]:
        name = dataset.name.lower()
        if name in self._open:
            circle = " → ".join([*self._open[self._open.index(name) :], name])
            raise refused(
                "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED", f"datasets read each other: {circle}", dataset.place
            )
        self._open.append(name)
        try:
            yield
        finally:
            self._open.pop()

    # kinds ------------------------------------------------------------------------------------------------------------

    def _check_view(self, dataset: Dataset) -> None:
        """Refuse a temporary view that means nothing, although nothing may read it."""
        (flow,) = self.elements.flows_of(dataset)
        with self._opened(dataset):
            self.bound(flow, _Flowing(self))

    def _view(self, dataset: Dataset) -> Resolved:
        (flow,) = self.elements.flows_of(dataset)
        reading = _Batch(self)
        collection = self.bound(flow, reading)
        if reading.streams:
            raise refused(
                "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW",
                f"materialized view {dataset.name!r} reads a stream; read the table with spark.read.table, or without "
                "STREAM",
                flow.place,
            )
        collection = _as_declared(dataset, collection)
        return Resolved(dataset, collection, (), None, frozenset(reading.reads), reading.files)

    def _appended(self, dataset: Dataset) -> Resolved:
        """A streaming table, or a sink."""
        flows, reads, files = list[Flow](), set[str](), dict[str, Stored]()
        for query_ in self.elements.flows_of(dataset):
            reading = _Flowing(self)
            collection = self.bound(query_, reading)
            if not reading.streams:
                raise refused(
                    "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE",
                    f"flow {query_.name!r} writes to {dataset.kind} {dataset.name!r} and reads no stream; read with "
                    "spark.readStream, or STREAM, or make it a materialized view",
                    query_.place,
                )
            leaves = tuple(reading.leaves.values())
            _check_stateless(collection.node, {leaf.name for leaf in leaves if leaf.stream}, query_)
            flows.append(Flow(query_.name, collection, leaves, query_))
            reads |= reading.reads
            files |= reading.files
        if dataset.kind == "sink":
            return Resolved(dataset, None, tuple(flows), None, frozenset(reads), files)
        schema = _together(dataset, flows)
        log = Log(dataset.name, schema)
        collection = log.collection
        if isinstance(flows[0].query.query, Cdc):
            collection = _as_declared(dataset, cdc.applied(flows[0].query.query, collection))
        elif dataset.schema is not None:
            _as_declared(dataset, collection)
        return Resolved(dataset, collection, tuple(flows), log, frozenset(reads), files)

    # queries ----------------------------------------------------------------------------------------------------------

    def bound(self, flow: FlowOf, reading: Reading) -> Collection:
        """The collection that the query of a flow describes.

        Raises:
            PipelineError: with the place of the flow.
        """
        names = self.elements.names
        try:
            if isinstance(flow.query, Cdc):
                parts = name_parts(flow.query.source)
                name = stream_name(parts, names.catalog, names.database)
                every = f"SELECT * FROM {name}"  # noqa: S608  # quoted
                return cdc.events(flow.query, query(every, _Catalog(self, reading)))
            if isinstance(flow.query, SqlQuery):
                text = with_paths(flow.query.text, reading.named, flow.place)
                text = with_streams(text, names.catalog, names.database, flow.place)
                return query(text, _Catalog(self, reading))
            relation = with_names(flow.query.relation, names, reading.named, flow.place)
            return from_connect(relation, _Catalog(self, reading))
        except UnknownTableError as error:
            raise refused("TABLE_OR_VIEW_NOT_FOUND", str(error), f"flow {flow.name}, {flow.place}") from None
        except AltneuError as error:
            if not re.search(r"line \d+\)$", str(error)):  # the place of the flow, or of a view below it
                error.args = (f"{error} (flow {flow.name}, {flow.place})",)
            raise


class Reading(ABC):
    """What a query reads: ``streams`` says whether any of it is a stream."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self.streams = False
        self.reads: set[str] = set()
        self.files: dict[str, Stored] = {}
        self.named_files: dict[str, tuple[Stored, bool]] = {}

    def named(self, stored: Stored, *, stream: bool) -> list[str]:
        """The name by which a query reads files."""
        name = f"#files.{len(self.named_files)}.files"
        self.named_files[name] = stored, stream
        return name.split(".")

    @abstractmethod
    def of_files(self, files: Stored, *, stream: bool) -> Collection:
        """The rows of files."""

    @abstractmethod
    def of_table(self, resolved: Resolved, *, stream: bool) -> Collection:
        """The rows of a table."""


class _Batch(Reading):
    """The reads of a materialized view: of all rows, as they are stored."""

    def of_files(self, files: Stored, *, stream: bool) -> Collection:
        self.streams |= stream
        self.files[files.name] = files
        return Log(files.name, files.columns).collection

    def of_table(self, resolved: Resolved, *, stream: bool) -> Collection:
        self.streams |= stream
        assert resolved.collection is not None
        return resolved.collection


class _Flowing(Reading):
    """The reads of a flow, each a source of its own."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph)
        self.leaves: dict[tuple[str, bool], Leaf] = {}

    def of_files(self, files: Stored, *, stream: bool) -> Collection:
        if not stream:
            self.files[files.name] = files
        return self._leaf(files, files.columns, stream=stream)

    def of_table(self, resolved: Resolved, *, stream: bool) -> Collection:
        name = resolved.dataset.name
        if stream and not resolved.is_log:
            raise unsupported(
                f"reading {resolved.dataset.kind} {name!r} as a stream",
                "its rows change and go away, which a stream cannot say: read it as a batch, with spark.read.table or "
                "without STREAM, in a materialized view",
            )
        assert resolved.collection is not None
        return self._leaf(name, resolved.collection.schema, stream=stream)

    def _leaf(self, of: Input, schema: pa.Schema, *, stream: bool) -> Collection:
        self.streams |= stream
        leaf = Leaf(f"{'stream' if stream else 'batch'} {len(self.leaves)}", of, stream)
        leaf = self.leaves.setdefault((leaf.key, stream), leaf)
        return declare(leaf.name, _nullable(schema))


class _Catalog(Mapping[str, Collection]):
    """What the names in one query mean; a dataset is resolved when it is asked for."""

    def __init__(self, graph: Graph, reading: Reading) -> None:
        self._graph, self._reading = graph, reading
        names = graph.elements.names
        self._datasets: dict[str, Dataset] = {}
        for dataset in graph.elements.datasets.values():
            if dataset.kind != "sink":
                is_view = dataset.kind == "temporary view"
                known = names.known([dataset.name]) if is_view else dataset.name
                for written in names.written(known):
                    self._datasets.setdefault(written.lower(), dataset)

    def __len__(self) -> int:
        return len(self._datasets)

    def __iter__(self) -> Iterator[str]:
        yield from self._datasets
        yield from (stream_name_of(name) for name in self._datasets if name.count(".") == 2)  # catalog, schema and name
        yield from self._reading.named_files

    def __getitem__(self, name: str) -> Collection:
        reading = self._reading
        if name in reading.named_files:
            files, stream = reading.named_files[name]
            return reading.of_files(files, stream=stream)
        streamed = stream_of(name)
        dataset = self._datasets[name if streamed is None else streamed]
        stream = streamed is not None
        if dataset.kind == "temporary view":
            return self._view(dataset, stream=stream)
        reading.reads.add(dataset.name.lower())
        return reading.of_table(self._graph.resolved(dataset), stream=stream)

    def _view(self, dataset: Dataset, *, stream: bool) -> Collection:
        reading, before = self._reading, self._reading.streams
        (flow,) = self._graph.elements.flows_of(dataset)
        reading.streams = False
        with self._graph._opened(dataset):
            collection = self._graph.bound(flow, reading)
        if reading.streams and not stream:
            raise refused(
                "INCOMPATIBLE_STREAMING_VIEW_READ",
                f"temporary view {dataset.name!r} reads a stream, and is read with spark.readStream or STREAM",
                dataset.place,
            )
        if stream and not reading.streams:
            raise refused(
                "INCOMPATIBLE_BATCH_VIEW_READ",
                f"temporary view {dataset.name!r} reads no stream, and is read with spark.read or without STREAM",
                dataset.place,
            )
        reading.streams |= before
        return collection


def stream_name_of(name: str) -> str:
    """The name in a catalog of a table that is read as a stream."""
    return f"#stream.{name}"


def _nullable(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_nullable(True) for f in schema])


def _as_declared(dataset: Dataset, collection: Collection) -> Collection:
    """The columns that a table declares, in their order.

    Raises:
        PipelineError: its query has others.
    """
    if dataset.schema is None:
        return collection
    declared = parse_schema(dataset.schema)
    has = {f.name: f.type for f in collection.schema}
    if has != {f.name: f.type for f in declared}:
        raise refused(
            "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE",
            f"table {dataset.name!r} declares {dataset.schema}, and its query has {to_ddl(collection.schema)}",
            dataset.place,
        )
    return collection.select(*map(quote_name, declared.names))


def _together(dataset: Dataset, flows: Sequence[Flow]) -> pa.Schema:
    """The columns of all flows of a table, matched by name.

    Raises:
        PipelineError: a column has two types.
    """
    columns: dict[str, pa.Field] = {}
    for flow in flows:
        for f in flow.collection.schema:
            known = columns.setdefault(f.name.lower(), f.with_nullable(True))
            if known.type != f.type:
                raise refused(
                    "UNABLE_TO_INFER_PIPELINE_TABLE_SCHEMA",
                    f"column {f.name!r} of table {dataset.name!r} is {known.type} in one flow and {f.type} in flow "
                    f"{flow.name!r}; cast it",
                    flow.query.place,
                )
    schema = pa.schema(columns.values())
    if dataset.schema is None or isinstance(flows[0].query.query, Cdc):
        return schema
    declared = parse_schema(dataset.schema)
    missing = [f for f in schema if f.name not in declared.names or declared.field(f.name).type != f.type]
    if missing:
        raise refused(
            "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE",
            f"table {dataset.name!r} declares {dataset.schema}, and its flows have {to_ddl(schema)}",
            dataset.place,
        )
    return _nullable(declared)


def _check_stateless(node: ir.Node, streams: set[str], flow: FlowOf) -> None:
    """Refuse what would have to remember earlier rows of a stream, to say what a new one appends.

    Raises:
        PipelineError: naming the operator.
    """
    moving: dict[int, bool] = {}
    for one in ir.ordered(node):
        below = [moving[id(i)] for i in one.inputs]
        moving[id(one)] = any(below) or (isinstance(one, ir.Source) and one.name in streams)
        fine = isinstance(one, ir.Linear | ir.Concat | ir.Consolidate | ir.Inspect)
        fine |= isinstance(one, ir.Join | ir.MultiJoin) and sum(below) < 2
        if any(below) and not fine:
            raise unsupported(
                f"{one.title} over a stream in flow {flow.name!r}",
                "what it appends would depend on rows that came before: make it a materialized view, which altneu "
                "keeps right at the cost of what changes",
                flow.place,
            )
