"""What the files of a pipeline define: datasets, and the flows that write to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from altneu.cli.pipelines.errors import refused
from altneu.errors import PipelineError
from altneu.expressions.pyspark.connect import name_parts
from altneu.sql.scope import full_name

Kind = Literal["materialized view", "streaming table", "temporary view", "sink"]
TABLES: tuple[Kind, ...] = ("materialized view", "streaming table")
_DEFAULT = ("spark_catalog", "default")


@dataclass(frozen=True)
class Place:
    """Where in the files something is defined."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}"


@dataclass(frozen=True)
class Names:
    """How names are read: with the catalog and the database of the spec before them."""

    catalog: str = _DEFAULT[0]
    database: str = _DEFAULT[1]

    def known(self, parts: Sequence[str]) -> str:
        """The name by which a dataset is known here: as short as it can be written.

        >>> names = Names(database="shop")
        >>> names.known(["orders"]), names.known(["shop", "orders"]), names.known(["default", "orders"])
        ('shop.orders', 'shop.orders', 'orders')
        """
        given = [*(self.catalog, self.database)[: max(3 - len(parts), 0)], *parts]
        return full_name(given)

    def written(self, name: str) -> list[str]:
        """The ways in which a dataset may be written, with dots.

        >>> Names().written("orders")
        ['orders', 'default.orders', 'spark_catalog.default.orders']
        >>> Names(database="shop").written("orders")
        ['default.orders', 'spark_catalog.default.orders']
        """
        parts = name.split(".")
        whole = [*_DEFAULT[: max(3 - len(parts), 0)], *parts] if len(parts) < 3 else parts
        least = 0 if whole[:2] == [self.catalog, self.database] else 1 if whole[0] == self.catalog else 2
        return [".".join(whole[-n:]) for n in range(1 + least, 4)]


@dataclass(frozen=True)
class Dataset:
    """A dataset: what is computed, and how it is stored."""

    name: str
    kind: Kind
    place: Place
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    schema: str | None = None
    format: str | None = None
    partition_by: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)  # of a sink


@dataclass(frozen=True)
class PlanQuery:
    """A query as a plan of Spark Connect's protocol."""

    relation: Any


@dataclass(frozen=True)
class SqlQuery:
    """A query as text."""

    text: str


@dataclass(frozen=True)
class Cdc:
    """Events that are applied to a table; expressions are in SQL, and columns are names."""

    source: str
    keys: tuple[str, ...]
    sequence: str
    deleted: str | None
    columns: tuple[str, ...] | None
    without: tuple[str, ...] | None
    history: bool
    tracked: tuple[str, ...] | None = None
    untracked: tuple[str, ...] | None = None


Query: TypeAlias = PlanQuery | SqlQuery | Cdc


@dataclass(frozen=True)
class FlowOf:
    """A flow: a query whose rows go into a dataset; ``target`` is as it is written, until all datasets are known."""

    name: str
    target: str
    query: Query
    place: Place


class Elements:
    """All that the files of a pipeline define, checked for what is there twice or not at all."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.datasets: dict[str, Dataset] = {}
        self.flows: dict[str, FlowOf] = {}

    def add_dataset(self, dataset: Dataset) -> None:
        """Add a dataset.

        Raises:
            PipelineError: there is one of this name.
        """
        _refuse_paths(dataset.name, dataset.place)
        other = self.datasets.get(dataset.name.lower())
        if other is not None:
            raise refused(
                "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT",
                f"{dataset.name!r} is a {other.kind} ({other.place}), and cannot be a {dataset.kind} too",
                dataset.place,
            )
        self.datasets[dataset.name.lower()] = dataset

    def add_flow(self, flow: FlowOf) -> None:
        """Add a flow.

        Raises:
            PipelineError: there is one of this name.
        """
        _refuse_paths(flow.name, flow.place)
        other = self.flows.get(flow.name.lower())
        if other is not None:
            raise refused(
                "PIPELINE_DUPLICATE_IDENTIFIERS.FLOW",
                f"flow {flow.name!r} writes to {other.target!r} ({other.place}) and to {flow.target!r}; "
                "flows need different names",
                flow.place,
            )
        self.flows[flow.name.lower()] = flow

    def flows_of(self, dataset: Dataset) -> list[FlowOf]:
        """The flows that write to a dataset, in the order of their names."""
        mine = (f for f in self.flows.values() if f.target.lower() == dataset.name.lower())
        return sorted(mine, key=lambda flow: flow.name)

    def check(self) -> None:
        """Refuse a graph in which something is missing, or too much.

        Raises:
            PipelineError: with the name that Spark has for it.
        """
        if not any(d.kind in TABLES for d in self.datasets.values()):
            raise refused(
                "RUN_EMPTY_PIPELINE",
                "there is no table: the files define neither a materialized view nor a streaming table, or the globs "
                "of the spec match no file",
            )
        self.flows = {key: self._aimed(flow) for key, flow in self.flows.items()}
        for flow in self.flows.values():
            if flow.target.lower() not in self.datasets:
                raise refused(
                    "TABLE_OR_VIEW_NOT_FOUND",
                    f"flow {flow.name!r} writes to {flow.target!r}, which is no dataset",
                    flow.place,
                )
        for dataset in self.datasets.values():
            self._check_flows(dataset, self.flows_of(dataset))

    def _aimed(self, flow: FlowOf) -> FlowOf:
        """A flow with the name of its dataset; sinks and temporary views have no database."""
        parts = name_parts(flow.target)
        written = ".".join(parts)
        return replace(flow, target=written if written.lower() in self.datasets else self.names.known(parts))

    def _check_flows(self, dataset: Dataset, flows: Sequence[FlowOf]) -> None:
        named = ", ".join(flow.name for flow in flows)
        if not flows:
            raise refused(
                "PIPELINE_DATASET_WITHOUT_FLOW",
                f"{dataset.kind} {dataset.name!r} has no query and no flow",
                dataset.place,
            )
        if dataset.kind == "materialized view" and len(flows) > 1:
            raise refused(
                "MATERIALIZED_VIEW_WITH_MULTIPLE_QUERIES",
                f"materialized view {dataset.name!r} has one query, got the flows {named}",
                dataset.place,
            )
        cdc = [flow for flow in flows if isinstance(flow.query, Cdc)]
        if cdc and len(flows) > 1:
            raise refused(
                "AUTOCDC_MULTIPLE_FLOWS_TO_TARGET",
                f"a target of auto CDC has one flow, and {dataset.name!r} has {named}",
                dataset.place,
            )
        if cdc and dataset.kind != "streaming table":
            raise refused(
                "INVALID_FLOW_QUERY_TYPE.AUTOCDC_RELATION_FOR_TEMPORARY_VIEW",
                f"auto CDC writes to a streaming table, and {dataset.name!r} is a {dataset.kind}",
                cdc[0].place,
            )


def _refuse_paths(name: str, place: Place) -> None:
    """Refuse a name that would be another folder than one of the tables'."""
    if "/" in name or not name.strip(".") or ".." in name:
        raise PipelineError(f"{name!r} cannot be the name of a dataset or a flow: folders and files have it ({place})")
