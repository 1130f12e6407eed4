"""Lower logical plans to physical ones: place arrangements, share them, cut stages where rows must change shard.

Sharing is by construction: every logical node is lowered once per fingerprint, and an arrangement is made once per
(port, key). An exchange is left out where the rows are already spread by the key that is asked for.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa

from altneu import ir
from altneu.batch import Layout
from altneu.errors import ERROR_SCHEMA
from altneu.kernels import accumulator_of, reduce_spec_of
from altneu.linear import (
    BoundLogic,
    Emit,
    Extend,
    FilterFunction,
    GenerateSeries,
    Outputs,
    ParseJson,
    Project,
    RowStep,
    Unnest,
)
from altneu.operators.join import JoinSpec
from altneu.operators.latest import kept_schema
from altneu.order import Lattice
from altneu.physical import (
    HOSTS,
    LOGIC_ERRORS,
    ArrangeOp,
    ConcatOp,
    ConsolidateOp,
    ConstantOp,
    ExplodeOp,
    JoinOp,
    LatestOp,
    LinearOp,
    Operation,
    PhysicalNode,
    Plan,
    Port,
    ReduceOp,
    SourceOp,
    TapOp,
    ViewPorts,
)

Key = tuple[str, ...]


@dataclass(frozen=True)
class Lowered:
    """A logical node's output port and where its rows are.

    ``spread`` is the key that decides their shard (None: not known); ``settled`` says that equal rows are always in the
    same shard, whatever decides it. Rows straight from a source are neither: they come from any task.
    """

    port: Port
    spread: Key | None
    settled: bool = True


@dataclass
class Lowering:
    """Builds one plan for all the views of a session; ``readers`` counts what reads each logical node."""

    lattice: Lattice
    readers: Mapping[str, int] = field(default_factory=dict)
    nodes: list[PhysicalNode] = field(default_factory=list)
    done: dict[str, Lowered] = field(default_factory=dict)
    arranged: dict[tuple[Port, Key], int] = field(default_factory=dict)
    exploded: dict[str, int] = field(default_factory=dict)
    error_ports: dict[str, Lowered] = field(default_factory=dict)

    def add(self, operation: Operation, inputs: tuple[Port, ...], schema: pa.Schema, **where: object) -> int:
        """Append an operation at the earliest stage its inputs allow."""
        exchange = where.get("exchange")
        stage = max((self.nodes[p.node].stage for p in inputs), default=0) + (exchange is not None)
        self.nodes.append(PhysicalNode(operation, inputs, stage, schema, **where))  # type: ignore[arg-type]
        return len(self.nodes) - 1

    def arrange(self, lowered: Lowered, key: Key, origin: str, label: str) -> int:
        """The arrangement of a port by a key, made once; ``origin`` names the collection across processes."""
        if (lowered.port, key) not in self.arranged:
            schema = self.nodes[lowered.port.node].schema if lowered.port.output == 0 else ERROR_SCHEMA
            exchange = None if lowered.spread is not None and lowered.spread == key else key
            operation = ArrangeOp(_name(origin, key), Layout(schema, key, self.lattice))
            self.arranged[lowered.port, key] = self.add(
                operation, (lowered.port,), schema, exchange=exchange, label=label, logical=origin
            )
        return self.arranged[lowered.port, key]

    def lower(self, node: ir.Node) -> Lowered:
        """Lower a node and all it depends on, once."""
        if node.fingerprint not in self.done:
            self.done[node.fingerprint] = self._lower(node)
        return self.done[node.fingerprint]

    def _lower(self, node: ir.Node) -> Lowered:
        match node:
            case ir.Source():
                port = Port(
                    self.add(
                        SourceOp(node.name), (), node.schema, label=f"source {node.name}", logical=node.fingerprint
                    )
                )
                if node.keep:
                    self.arrange(Lowered(port, None), tuple(node.schema.names), node.fingerprint, f"keep {node.name}")
                return Lowered(port, None, settled=False)
            case ir.Constant():
                return Lowered(
                    Port(self.add(ConstantOp(node.rows), (), node.schema, label="constant")), None, settled=False
                )
            case ir.Linear():
                return self._linear(node)
            case ir.Concat():
                parts = [self.lower(p) for p in node.parts]
                spreads = {p.spread for p in parts}
                number = self.add(
                    ConcatOp(), tuple(p.port for p in parts), node.schema, label="concat", logical=node.fingerprint
                )
                return Lowered(
                    Port(number), spreads.pop() if len(spreads) == 1 else None, all(p.settled for p in parts)
                )
            case ir.Join():
                return self._join(node)
            case ir.Reduce():
                return self._accumulable(node) if node.accumulable else self._general(node)
            case ir.Latest():
                return self._latest(node)
            case ir.Consolidate():
                return self._spread_by_row(node.input, ConsolidateOp(), "consolidate")
            case ir.Inspect():
                self._spread_by_row(node.input, TapOp(node.function), f"inspect {node.function.name}")
                return self.lower(node.input)
            case _:
                raise TypeError(type(node).__name__)

    def _spread_by_row(self, input_node: ir.Node, operation: Operation, label: str) -> Lowered:
        """An operation for which equal rows must meet, however they are spread."""
        lowered = self.lower(input_node)
        everything = tuple(input_node.schema.names)
        number = self.add(
            operation,
            (lowered.port,),
            input_node.schema,
            exchange=everything if lowered.spread is None else None,
            label=label,
            logical=input_node.fingerprint,
        )
        return Lowered(Port(number), lowered.spread or everything)

    def _linear(self, node: ir.Linear) -> Lowered:
        """Logic goes into the join or reduce below it when nobody else reads that; else it is an operation.

        The names of arrangements do not depend on which it is, for another view may change it.
        """
        below = self.lower(node.input)
        number, errors = below.port.node, LOGIC_ERRORS
        host = self.nodes[number].operation
        alone = isinstance(node.input, _HOSTED) and self.readers[node.input.fingerprint] == 1
        if alone and isinstance(host, HOSTS):
            operation = replace(host, logic=node.logic)
            self.nodes[number] = replace(
                self.nodes[number], operation=operation, schema=node.schema, logical=node.fingerprint
            )
        else:
            errors = 1
            number = self.add(
                LinearOp(node.logic), (below.port,), node.schema, label=str(node.logic), logical=node.fingerprint
            )
        if node.logic.can_fail:
            self.error_ports[node.fingerprint] = Lowered(Port(number, errors), None, below.settled)
        return Lowered(Port(number), spread_after(node.logic, below.spread), below.settled)

    def _join(self, node: ir.Join) -> Lowered:
        left, right = self.lower(node.left), self.lower(node.right)
        label = f"join on {', '.join(node.left_key)}"
        inputs = (
            Port(self.arrange(left, node.left_key, node.left.fingerprint, f"arrange by {', '.join(node.left_key)}")),
            Port(
                self.arrange(right, node.right_key, node.right.fingerprint, f"arrange by {', '.join(node.right_key)}")
            ),
        )
        spec = JoinSpec(node.schema, node.outputs, self.lattice)
        port = Port(self.add(JoinOp(spec), inputs, node.schema, label=label, logical=node.fingerprint))
        for side, key in ((0, node.left_key), (1, node.right_key)):
            name_of = {column: name for name, s, column in node.outputs if s == side}
            if all(k in name_of for k in key):
                return Lowered(port, tuple(name_of[k] for k in key))
        return Lowered(port, None)

    def _accumulable(self, node: ir.Reduce) -> Lowered:
        below = self.lower(node.input)
        accumulator = accumulator_of(node)
        schema = accumulator.slot_schema
        kept = (
            node.reducer if isinstance(node.reducer, ir.Aggregates) else "counts"
        )  # distinct, count, threshold keep the same
        origin = f"{node.input.fingerprint}|{node.key}|{kept}"
        if origin not in self.exploded:
            self.exploded[origin] = self.add(ExplodeOp(accumulator), (below.port,), schema, label="combine")
        spread = below.spread if below.spread == node.key else None
        slots = Lowered(Port(self.exploded[origin]), spread)
        return self._reduce(node, self.arrange(slots, node.key, origin, _group_label(node.key)))

    def _general(self, node: ir.Reduce) -> Lowered:
        below = self.lower(node.input)
        return self._reduce(node, self.arrange(below, node.key, node.input.fingerprint, _group_label(node.key)))

    def _reduce(self, node: ir.Reduce, state: int) -> Lowered:
        spec = reduce_spec_of(node)
        number = self.add(
            ReduceOp(spec), (Port(state),), node.schema, label=str(node.reducer), logical=node.fingerprint
        )
        self.error_ports[node.fingerprint] = Lowered(Port(number, 1), None)
        return Lowered(Port(number), node.key)

    def _latest(self, node: ir.Latest) -> Lowered:
        below = self.lower(node.input)
        layout = Layout(kept_schema(node.schema), node.key, self.lattice)
        operation = ArrangeOp(_name(f"latest|{node.fingerprint}", node.key), layout, node.order)
        exchange = None if below.spread == node.key else node.key
        label = f"latest by {', '.join(node.order)}"
        state = self.add(
            operation, (below.port,), layout.schema, exchange=exchange, label=f"keep {label}", logical=node.fingerprint
        )
        number = self.add(LatestOp(node.order), (Port(state),), node.schema, label=label, logical=node.fingerprint)
        self.error_ports[node.fingerprint] = Lowered(Port(number, 1), None)
        return Lowered(Port(number), node.key)

    def view(self, node: ir.Node) -> ViewPorts:
        """Keep a collection's contents, and the errors of everything it is computed from, each origin once."""
        lowered = self.lower(node)
        spread = lowered.spread or None
        key = spread or tuple(node.schema.names)
        contents = self.arrange(lowered, key, node.fingerprint, "contents")
        return ViewPorts(self._arrangement(contents), self._errors(node), node.schema)

    def _errors(self, node: ir.Node) -> tuple[str, ...]:
        """Arrangements of the errors of everything a view is computed from: one an origin, so diamonds multiply none.

        Errors of settled rows are settled too and stay where they are; the others are exchanged. A reader adds them up.
        """
        everything = tuple(ERROR_SCHEMA.names)
        names = []
        for origin in (n.fingerprint for n in ir.walk(node) if n.fingerprint in self.error_ports):
            lowered = self.error_ports[origin]
            placed = Lowered(lowered.port, everything if lowered.settled else None)
            names.append(self._arrangement(self.arrange(placed, everything, f"errors|{origin}", "errors")))
        return tuple(names)

    def _arrangement(self, number: int) -> str:
        operation = self.nodes[number].operation
        assert isinstance(operation, ArrangeOp)
        return operation.arrangement


_HOSTED = (ir.Join, ir.Reduce, ir.Latest)  # lowered to HOSTS; what an Inspect shows is lowered to them too


def _name(origin: str, key: Key) -> str:
    return hashlib.blake2b(f"{origin}|{key}".encode(), digest_size=12).hexdigest()


def _group_label(key: Key) -> str:
    return f"group by {', '.join(key)}" if key else "one group"


def spread_after(logic: BoundLogic, spread: Key | None) -> Key | None:
    """By which columns rows are still spread after linear logic."""
    for step in logic.steps:
        if spread is None or isinstance(step, _KEEPS_COLUMNS):
            continue
        if isinstance(step, Project):
            outputs: tuple[Outputs, ...] = (step.outputs,)
        elif isinstance(step, Emit):
            outputs = tuple(u.outputs for u in step.updates)
        else:
            return None
        spreads = {_carried(o, spread) for o in outputs}
        spread = spreads.pop() if len(spreads) == 1 else None
    return spread


_KEEPS_COLUMNS = (RowStep, FilterFunction, Extend, GenerateSeries, Unnest, ParseJson)


def _carried(outputs: Outputs, spread: Key) -> Key | None:
    """The names that columns have after a projection; None when one of them is not handed on."""
    kept: dict[str, str] = {}
    for name, expression in outputs:
        if expression.is_column:
            kept.setdefault(expression.column_name, name)
    return tuple(kept[k] for k in spread) if all(k in kept for k in spread) else None


def lower(views: Mapping[str, ir.Node], lattice: Lattice) -> Plan:
    """Lower every view of a session into one plan that shares what they have in common."""
    readers = Counter(node.fingerprint for node in views.values())
    for node in ir.walk(*views.values()):
        readers.update(below.fingerprint for below in node.inputs)
    lowering = Lowering(lattice, readers)
    ports = {name: lowering.view(node) for name, node in views.items()}
    return Plan(lattice, tuple(lowering.nodes), ports)
