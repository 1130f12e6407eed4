"""Physical plans: operations wired by ports, cut into stages where rows change shard.

A *stage* has no exchange inside. Stages form one chain by exchange depth: what a later stage needs passes through as
messages, so nothing is computed twice. A ``Channel`` is one such passage: a port, the key by which its rows find
their shard (none: they stay where they are), and the stage that wants them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from altneu.batch import Layout
from altneu.errors import ERROR_SCHEMA
from altneu.linear import BoundLogic, Function
from altneu.operators.accumulate import Accumulator
from altneu.operators.join import JoinSpec
from altneu.operators.reduce import ReduceSpec
from altneu.order import Lattice

IDENTITY = BoundLogic()


@dataclass(frozen=True)
class Port:
    """One output of one operation."""

    node: int
    output: int = 0


@dataclass(frozen=True)
class SourceOp:
    """Updates that a session was given for a source."""

    name: str


@dataclass(frozen=True)
class ConstantOp:
    """Rows of the least time; they flow once, when what reads them is hydrated."""

    rows: tuple[tuple[object, ...], ...]


@dataclass(frozen=True)
class ReadOp:
    """The whole contents of an arrangement that exists already, for hydration."""

    arrangement: str


@dataclass(frozen=True)
class LinearOp:
    """Linear logic; output 0 the rows, output 1 the errors."""

    logic: BoundLogic


@dataclass(frozen=True)
class ConcatOp:
    """The sum of the inputs."""


@dataclass(frozen=True)
class ExplodeOp:
    """Rows into the additive slots of their group, combined before they are exchanged."""

    accumulator: Accumulator


@dataclass(frozen=True)
class ArrangeOp:
    """The one stateful operation: updates into an arrangement, future ones into its hold.

    With ``latest`` the updates are events, and what is kept is the greatest event of each key in the order of these
    columns (``operators/latest.py``).
    """

    arrangement: str
    layout: Layout
    latest: tuple[str, ...] | None = None


@dataclass(frozen=True)
class LatestOp:
    """The rows of an arrangement of latest events; output 1 the errors of those that were retracted.

    As with joins and reduces, ``logic`` is applied to the rows at once; output 2 is its errors.
    """

    order: tuple[str, ...]
    logic: BoundLogic = IDENTITY


@dataclass(frozen=True)
class ConsolidateOp:
    """The step's updates, each (data, time) once."""


@dataclass(frozen=True)
class TapOp:
    """The step's updates, consolidated and handed to a Python function after the commit."""

    function: Function


@dataclass(frozen=True)
class JoinOp:
    """Equijoin of two arrangements, and the linear logic that is applied to its matches before they are built.

    Output 0 the rows, output 2 the errors of the logic.
    """

    spec: JoinSpec
    logic: BoundLogic = IDENTITY


@dataclass(frozen=True)
class ReduceOp:
    """A function of each group of an arrangement, and the linear logic that is applied to its results.

    Output 0 the rows, output 1 the errors of the function, output 2 those of the logic.
    """

    spec: ReduceSpec
    logic: BoundLogic = IDENTITY


HOSTS = (JoinOp, ReduceOp, LatestOp)
"""Operations that take over the linear logic that alone reads their rows."""
LOGIC_ERRORS = 2
"""The output on which they give its errors."""


Operation = (
    SourceOp
    | ConstantOp
    | ReadOp
    | LinearOp
    | ConcatOp
    | ExplodeOp
    | ArrangeOp
    | LatestOp
    | ConsolidateOp
    | TapOp
    | JoinOp
    | ReduceOp
)


@dataclass(frozen=True)
class PhysicalNode:
    """An operation with its inputs and its place.

    ``exchange`` is the key by which the input must be spread before it gets here (None: it may come as it is);
    ``logical`` the fingerprint of the logical node it was made for; ``schema`` of output 0.
    """

    operation: Operation
    inputs: tuple[Port, ...]
    stage: int
    schema: pa.Schema
    exchange: tuple[str, ...] | None = None
    label: str = ""
    logical: str = ""


@dataclass(frozen=True)
class Channel:
    """Rows of ``port`` on their way to ``stage``; ``arranged`` when they are an arrangement's new batch."""

    port: Port
    key: tuple[str, ...] | None
    stage: int
    schema: pa.Schema
    arranged: bool = False


@dataclass(frozen=True)
class ViewPorts:
    """Where a view's contents and errors are kept."""

    contents: str
    errors: tuple[str, ...]
    schema: pa.Schema


@dataclass(frozen=True)
class Plan:
    """Everything a session maintains, ready to run; nodes are in topological order."""

    lattice: Lattice
    nodes: tuple[PhysicalNode, ...]
    views: dict[str, ViewPorts] = field(default_factory=dict)
    read_layouts: dict[str, Layout] = field(default_factory=dict)  # of arrangements that only ReadOps name

    @cached_property
    def depth(self) -> int:
        """Number of stages."""
        return 1 + max((n.stage for n in self.nodes), default=0)

    @cached_property
    def arrangements(self) -> dict[str, int]:
        """Node of each arrangement."""
        return {n.operation.arrangement: i for i, n in enumerate(self.nodes) if isinstance(n.operation, ArrangeOp)}

    @cached_property
    def sources(self) -> dict[str, int]:
        """Node of each source."""
        return {n.operation.name: i for i, n in enumerate(self.nodes) if isinstance(n.operation, SourceOp)}

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Every passage from one stage to another."""
        found: dict[Channel, None] = {}
        for node in self.nodes:
            for port in node.inputs:
                channel = self._channel(node, port)
                if channel is not None:
                    found[channel] = None
        return tuple(found)

    def _channel(self, node: PhysicalNode, port: Port) -> Channel | None:
        producer = self.nodes[port.node]
        if producer.stage == node.stage:
            return None
        arranged = isinstance(producer.operation, ArrangeOp)
        schema = self.schema(port)
        return Channel(port, None if arranged else node.exchange, node.stage, schema, arranged)

    def schema(self, port: Port) -> pa.Schema:
        """Schema of what leaves a port."""
        return self.nodes[port.node].schema if port.output == 0 else ERROR_SCHEMA

    @cached_property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the nodes of each stage, in topological order."""
        return tuple(tuple(i for i, n in enumerate(self.nodes) if n.stage == s) for s in range(self.depth))

    @cached_property
    def inlets(self) -> dict[tuple[int, Port], int]:
        """For a node and one of its inputs that comes from an earlier stage: the number of its channel."""
        number = {c: i for i, c in enumerate(self.channels)}
        found = {}
        for i, node in enumerate(self.nodes):
            for port in node.inputs:
                channel = self._channel(node, port)
                if channel is not None:
                    found[i, port] = number[channel]
        return found

    @cached_property
    def outlets(self) -> dict[Port, tuple[int, ...]]:
        """The channels that each port feeds."""
        found: dict[Port, tuple[int, ...]] = {}
        for i, channel in enumerate(self.channels):
            found[channel.port] = (*found.get(channel.port, ()), i)
        return found

    def stage_label(self, stage: int) -> str:
        """Names of what a stage does, for people."""
        nodes = [self.nodes[i] for i in self.stages[stage]]
        names = [n.label for n in nodes if n.label and not isinstance(n.operation, LinearOp | ConcatOp)]
        return ", ".join(dict.fromkeys(names)) or "sources"

    def arrangements_of(self, view: str) -> list[str]:
        """Every arrangement that a view needs."""
        ports = self.views[view]
        roots = [Port(self.arrangements[n]) for n in (ports.contents, *ports.errors)]
        operations = [self.nodes[i].operation for i in self.upstream(*roots)]
        return sorted(o.arrangement for o in operations if isinstance(o, ArrangeOp))

    def upstream(self, *ports: Port) -> Iterator[int]:
        """Every node that the ports depend on."""
        seen: set[int] = set()
        todo = [p.node for p in ports]
        while todo:
            i = todo.pop()
            if i not in seen:
                seen.add(i)
                yield i
                todo += [p.node for p in self.nodes[i].inputs]
