"""Lower logical plans to physical ones: place arrangements, share them, cut stages where rows must change shard.

Sharing is by construction: every logical node is lowered once per fingerprint, and an arrangement is made once per
(port, key). An exchange is left out where the rows are already spread by the key that is asked for.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from altneu.errors import ERROR_SCHEMA, PlanError
from altneu.linear import BoundLogic, Negate, Outputs
from altneu.linear.lineage import projections
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.asof.locked import locked_layout, times_spec
from altneu.operators.asof.operation import AsofOp, LockedOp
from altneu.operators.base import LOGIC_ERRORS, Hosting, Operation
from altneu.operators.calculus.operation import DifferentiateOp, IntegrateOp, ToNeuOp
from altneu.operators.concat.operation import ConcatOp, ConsolidateOp, TapOp
from altneu.operators.delta_join.operation import DeltaJoinOp
from altneu.operators.join.operation import JoinOp
from altneu.operators.join.pairs import JoinSpec
from altneu.operators.latest.events import kept_schema
from altneu.operators.latest.operation import LatestOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.loop.operation import EnterAtOp, EnterOp, FeedbackOp, FeedOp, LeaveOp
from altneu.operators.reduce.operation import ExplodeOp, ReduceOp
from altneu.operators.source.keyed import command_schema
from altneu.operators.source.operation import CommandsOp, ConstantOp, RowsOp, SourceOp
from altneu.order import Lattice
from altneu.plan import ir
from altneu.plan.kernels import accumulator_of, asof_spec_of, lock_spec_of, mixed, reduce_spec_of
from altneu.plan.paths import delta_paths
from altneu.plan.physical import ROOT, PhysicalNode, Plan, Port, Scope, ViewPorts, scheduled, scope_lattice
from altneu.plan.relations import Relations, delta_join
from altneu.trace.batch import Layout

Key = tuple[str, ...]


@dataclass(frozen=True)
class Lowered:
    """A logical node's output port and where its rows are.

    ``spread`` is the key that decides their shard (None: not known; the empty key: all are in one shard); ``settled``
    says that equal rows are always in the same shard, whatever decides it. Rows straight from a source are neither:
    they come from any task.
    """

    port: Port
    spread: Key | None
    settled: bool = True


@dataclass(frozen=True)
class _OpenLoop:
    """A loop that is being lowered: its scope, what its variables are there, and how its parts are told from others."""

    scope: int
    variables: tuple[Lowered, ...]
    name: str
    limit: int | None


@dataclass
class Lowering:
    """Builds one plan for all the views of a session; ``readers`` counts what reads each logical node.

    A node is lowered into the innermost loop whose variables it reads, and what reads none into no loop: it is computed
    once and not in every round.
    """

    lattice: Lattice
    readers: Mapping[str, int] = field(default_factory=dict)
    shards: int = 1
    nodes: list[PhysicalNode] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=lambda: [ROOT])
    done: dict[str, Lowered] = field(default_factory=dict)
    arranged: dict[tuple[Port, Key, str | None, bool], int] = field(default_factory=dict)
    exploded: dict[str, int] = field(default_factory=dict)
    failing: dict[Port, tuple[str, Lowered]] = field(default_factory=dict)
    loops: dict[int, _OpenLoop] = field(default_factory=dict)  # by level, those being lowered
    results: dict[str, tuple[Lowered, ...]] = field(default_factory=dict)
    spreads: dict[Port, Key] = field(default_factory=dict)
    commanded: dict[int, int] = field(default_factory=dict)  # by the arrangement of a source, what gives its rows

    def add(
        self,
        operation: Operation,
        inputs: tuple[Port, ...],
        schema: pa.Schema,
        *,
        exchange: Key | None = None,
        label: str = "",
        logical: str = "",
        scope: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> int:
        """Append an operation in the innermost scope of its inputs; in which stage is decided at the end."""
        if scope is None:
            scope = self._innermost(self.nodes[p.node].scope for p in inputs)
        self.nodes.append(PhysicalNode(operation, inputs, 0, schema, exchange, label, logical, scope, notes))
        return len(self.nodes) - 1

    def _depth(self, scope: int) -> int:
        return self.scopes[scope].depth

    def scope_of(self, lowered: Lowered) -> int:
        """The scope that a lowered node's updates are in."""
        return self.nodes[lowered.port.node].scope

    def lattice_in(self, scope: int) -> Lattice:
        """The times of a scope."""
        return scope_lattice(self.lattice, self.scopes, scope)

    def entered(self, lowered: Lowered, scope: int) -> Lowered:
        """Updates as they are seen in a loop; those that are there already as they are."""
        if self._innermost([scope, self.scope_of(lowered)]) == self.scope_of(lowered):
            return lowered
        schema = self._schema(lowered.port)
        label = "enter at the earlier moment" if self.scopes[scope].kind == "moment" else "enter the loop"
        number = self.add(EnterOp(), (lowered.port,), schema, label=label, scope=scope)
        return self._noted(replace(lowered, port=Port(number)))

    def left(self, lowered: Lowered) -> Lowered:
        """Updates as they are seen outside the innermost scope that they are in."""
        inside = self.scopes[self.scope_of(lowered)]
        schema = self._schema(lowered.port)
        operation: Operation = LeaveOp()
        label = f"leave the loop over {', '.join(inside.names)}"
        if inside.kind == "moment":
            operation, label = IntegrateOp(), "integrate"
        number = self.add(operation, (lowered.port,), schema, label=label, scope=inside.parent, notes=inside.notes)
        return self._noted(replace(lowered, port=Port(number)))

    def _innermost(self, scopes: Iterable[int]) -> int:
        """Of scopes that are inside one another the innermost.

        Raises:
            PlanError: they are not.
        """
        asked = set(scopes)
        found = max(asked, key=self._depth, default=0)
        around = [found]
        while around[-1]:
            around.append(self.scopes[around[-1]].parent)
        if not asked <= {*around}:
            raise PlanError(
                "what was differentiated, or delayed to neu, has moments of one time, and is used beside a source that "
                "has two; declare its source with two times as well, or integrate it first"
            )
        return found

    def _moments(self, around: int) -> int:
        """The scope of the moments of a scope's times."""
        found = next((i for i, s in enumerate(self.scopes) if s.kind == "moment" and s.parent == around), None)
        if found is None:
            found = len(self.scopes)
            self.scopes.append(Scope(around, self._depth(around) + 1, "moment"))
        return found

    def _moments_of(self, node: ir.Moments, below: Lowered) -> int:
        """The scope that a node says, of the times of the loop that it was written in."""
        scope = self.scope_of(below)
        if node.level >= 0:
            scope = self.loops[node.level].scope
        else:
            while self.scopes[scope].kind == "moment":
                scope = self.scopes[scope].parent
        for _ in range(node.depth):
            scope = self._moments(scope)
        return scope

    def _in_moments(self, node: ir.Differentiate | ir.ToNeu | ir.Integrate) -> Lowered:
        below = self.lower(node.input)
        scope = self._moments_of(node, below)
        match node:
            case ir.Differentiate():
                below = self.entered(below, self.scopes[scope].parent)
                number = self.add(DifferentiateOp(), (below.port,), node.schema, label="differentiate", scope=scope)
            case ir.ToNeu():
                below = self.entered(below, scope)
                number = self.add(ToNeuOp(), (below.port,), node.schema, label="delay to neu", scope=scope)
            case ir.Integrate():  # of what is in no moments nothing is forgotten
                return self.left(below) if self.scope_of(below) == scope else below
        return replace(below, port=Port(number))

    def _schema(self, port: Port) -> pa.Schema:
        return self.nodes[port.node].schema if port.output == 0 else ERROR_SCHEMA

    def _name_of(self, node: ir.Node) -> str:
        """A name for a collection across processes: that of its plan, and of the loops it is in."""
        level = ir.free_level(node)
        return node.fingerprint if level is None else f"{self.loops[level].name}/{node.fingerprint}"

    def arrange(
        self,
        lowered: Lowered,
        key: Key,
        origin: str,
        label: str,
        order: str | None = None,
        *,
        changes_only: bool = False,
    ) -> int:
        """The arrangement of a port by a key, made once; ``origin`` names the collection across processes."""
        place = (lowered.port, key, order, changes_only)
        if place not in self.arranged:
            schema = self._schema(lowered.port)
            exchange = None if lowered.spread is not None and lowered.spread == key else key
            lattice = self.lattice_in(self.scope_of(lowered))
            kind = "" if order is None else f"|by {order}"
            name = _name(f"changes|{origin}" if changes_only else f"{origin}{kind}", key)
            operation = ArrangeOp(name, Layout(schema, key, lattice, order, changes_only))
            self.arranged[place] = self.add(
                operation, (lowered.port,), schema, exchange=exchange, label=label, logical=origin
            )
        return self.arranged[place]

    def lower(self, node: ir.Node) -> Lowered:
        """Lower a node and all it depends on, once; inputs first, so that a plan may be of any depth."""
        name = self._name_of(node)
        if name not in self.done:
            for below in ir.ordered(node, below=_lowered_first, without=lambda n: self._name_of(n) in self.done):
                if (place := self._name_of(below)) not in self.done:
                    _check_times(below)
                    self.done[place] = self._noted(self._lower(below))
        return self.done[name]

    def _noted(self, lowered: Lowered) -> Lowered:
        """Note for the plan how the rows of a port are spread."""
        self.spreads.pop(lowered.port, None)  # an operation that took over logic has other columns than before
        if lowered.spread is not None:
            self.spreads[lowered.port] = lowered.spread
        return lowered

    def _lower(self, node: ir.Node) -> Lowered:
        return _LOWER[type(node)](self, node)

    def _source(self, node: ir.Source) -> Lowered:
        if node.commanded_by is not None:
            return self._commanded(node, node.commanded_by)
        scope = self._event_scope() if node.coordinates else 0
        label = f"source {node.name}"
        number = self.add(SourceOp(node.name), (), node.schema, label=label, logical=node.fingerprint, scope=scope)
        port = Port(number)
        if node.keep:
            self._keep(node, port)
        return Lowered(port, None, settled=False)

    def _commanded(self, node: ir.Source, key: Key) -> Lowered:
        """Commands, those that are due, the arrangement of the rows that they change, and these rows.

        The arrangement is that of the rows by the key for all who ask for one.
        """
        commands, logical, by = command_schema(node.schema), node.fingerprint, ", ".join(node.key or ("row",))
        number = self.add(SourceOp(node.name), (), commands, label=f"source {node.name}", logical=logical)
        waiting = CommandsOp(commands_name(node), Layout(commands, key, self.lattice))
        label = f"commands to {node.name}"
        number = self.add(waiting, (Port(number),), commands, exchange=key, label=label, logical=logical)
        operation = ArrangeOp(_name(logical, key), Layout(node.schema, key, self.lattice), commanded=True)
        label = f"keep {node.name} by {by}"
        state = self.add(operation, (Port(number),), node.schema, label=label, logical=logical)
        label = f"rows of {node.name}"
        number = self.add(RowsOp(node.key), (Port(state),), node.schema, label=label, logical=logical)
        self.arranged[Port(number), key, None, False] = state
        self.commanded[state] = number
        if node.key:
            self._may_fail(node, Lowered(Port(number, 1), None))
        return Lowered(Port(number), key)

    def keep(self, source: ir.Source) -> None:
        """Arrange all rows of a source, whether it is declared with ``keep`` or not."""
        port = self.lower(source).port
        if source.commanded_by is None:
            self._keep(source, port)

    def _keep(self, source: ir.Source, port: Port) -> None:
        self.arrange(Lowered(port, None), tuple(source.schema.names), source.fingerprint, f"keep {source.name}")

    def _constant(self, node: ir.Constant) -> Lowered:
        number = self.add(ConstantOp(node.rows), (), node.schema, label="constant")
        return Lowered(Port(number), None, settled=False)

    def _concat(self, node: ir.Concat) -> Lowered:
        parts = [self.lower(p) for p in node.parts]
        scope = self._innermost(map(self.scope_of, parts))
        parts = [self.entered(p, scope) for p in parts]
        spreads = {p.spread for p in parts}
        ports = tuple(p.port for p in parts)
        number = self.add(ConcatOp(), ports, node.schema, label="concat", logical=node.fingerprint)
        return Lowered(Port(number), spreads.pop() if len(spreads) == 1 else None, all(p.settled for p in parts))

    def _consolidate(self, node: ir.Consolidate) -> Lowered:
        return self._spread_by_row(node.input, ConsolidateOp(), "consolidate")

    def _inspect(self, node: ir.Inspect) -> Lowered:
        self._spread_by_row(node.input, TapOp(node.function), f"inspect {node.function.name}")
        return self.lower(node.input)

    def _arranged_by(self, node: ir.ArrangedBy) -> Lowered:
        return self.lower(node.input)

    def _variable(self, node: ir.Variable) -> Lowered:
        return self.loops[node.level].variables[node.index]

    def _enter_at(self, node: ir.EnterAt) -> Lowered:
        inside = self.entered(self.lower(node.input), self.loops[node.level].scope)
        label = f"enter at round {node.rounds.sql}"
        operation = EnterAtOp(node.rounds, self.loops[node.level].limit)
        number = self.add(operation, (inside.port,), node.schema, label=label)
        return replace(inside, port=Port(number))

    def _result(self, node: ir.Result) -> Lowered:
        return self._loop(node.loop)[node.index]

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
        return Lowered(Port(number), everything if lowered.spread is None else lowered.spread)

    def _linear(self, node: ir.Linear) -> Lowered:
        """Logic goes into the join or reduce below it when nobody else reads that; else it is an operation.

        So it is where a table function follows a reduce, whose rows are few: what it makes can then flow.
        The names of arrangements do not depend on which it is, for another view may change it.
        """
        below = self.lower(node.input)
        number, errors = below.port.node, LOGIC_ERRORS
        host = self.nodes[number].operation
        alone = isinstance(node.input, _HOSTED) and self.readers[node.input.fingerprint] == 1
        flows = node.logic.expands and not isinstance(host, JoinOp | DeltaJoinOp)
        if alone and isinstance(host, Hosting) and not flows:
            operation = replace(host, logic=node.logic)
            self.nodes[number] = replace(
                self.nodes[number], operation=operation, schema=node.schema, logical=node.fingerprint
            )
        else:
            errors = 1
            number = self.add(
                LinearOp(node.logic), (below.port,), node.schema, label=str(node.logic), logical=node.fingerprint
            )
        if node.logic.has_errors:
            self._may_fail(node, Lowered(Port(number, errors), None, below.settled))
        return Lowered(Port(number), spread_after(node.logic, below.spread), below.settled)

    def _join(self, node: ir.Join) -> Lowered:
        left, right = self.lower(node.left), self.lower(node.right)
        label = f"join on {', '.join(node.left_key)}"
        sides = ((left, node.left, node.left_key), (right, node.right, node.right_key))
        inputs = tuple(
            Port(self.arrange(lowered, key, self._name_of(side), _arrange_label(key))) for lowered, side, key in sides
        )
        scope = self._innermost(self.nodes[p.node].scope for p in inputs)
        spec = JoinSpec(node.schema, node.outputs, self.lattice_in(scope))
        notes = (node.reason,) if node.reason else ()
        port = Port(self.add(JoinOp(spec), inputs, node.schema, label=label, logical=node.fingerprint, notes=notes))
        for side, key in ((0, node.left_key), (1, node.right_key)):
            name_of = {column: name for name, s, column in node.outputs if s == side}
            if all(k in name_of for k in key):
                return Lowered(port, tuple(name_of[k] for k in key))
        return Lowered(port, None)

    def _delta_join(self, node: ir.MultiJoin) -> Lowered:
        parts = [(self.lower(part), self._name_of(part)) for part in node.parts]
        relations = Relations(node, delta_paths(node.variables))
        inputs = tuple(
            Port(self.arrange(parts[i][0], key, parts[i][1], _arrange_label(key))) for i, key in relations.arrangements
        )
        scope = self._innermost(self.nodes[p.node].scope for p in inputs)
        return Lowered(delta_join(self, relations, inputs, scope), None)

    def _reduced(self, node: ir.Reduce) -> Lowered:
        return self._accumulable(node) if node.accumulable else self._general(node)

    def _accumulable(self, node: ir.Reduce) -> Lowered:
        below = self.lower(node.input)
        accumulator = accumulator_of(node)
        schema = accumulator.slot_schema
        kept = (
            node.reducer if isinstance(node.reducer, ir.Aggregates) else "counts"
        )  # distinct, count, threshold keep the same
        origin = f"{self._name_of(node.input)}|{node.key}|{kept}"
        if origin not in self.exploded:
            self.exploded[origin] = self.add(ExplodeOp(accumulator), (below.port,), schema, label="combine")
        spread = below.spread if below.spread == node.key else None
        slots = Lowered(Port(self.exploded[origin]), spread)
        return self._reduce(node, self.arrange(slots, node.key, origin, _group_label(node.key)))

    def _general(self, node: ir.Reduce) -> Lowered:
        below = self.lower(node.input)
        return self._reduce(node, self.arrange(below, node.key, self._name_of(node.input), _arrange_label(node.key)))

    def _reduce(self, node: ir.Reduce, state: int) -> Lowered:
        spec = reduce_spec_of(node)
        number = self.add(
            ReduceOp(spec), (Port(state),), node.schema, label=str(node.reducer), logical=node.fingerprint
        )
        self._may_fail(node, Lowered(Port(number, 1), None))
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
        self._may_fail(node, Lowered(Port(number, 1), None))
        return Lowered(Port(number), node.key)

    def _asof(self, node: ir.AsOf) -> Lowered:
        left, right = self.lower(node.left), self.lower(node.right)
        scope = self._innermost(map(self.scope_of, (left, right)))
        if node.locked:
            return self._locked(node, left, right)
        if scope:  # of times that are no chain, or no longer the sides' own
            return self.lower(mixed(node))
        sides = ((left, node.left, node.left_key), (right, node.right, node.right_key))
        inputs = tuple(
            Port(self._by_stamp(lowered, key, side, stamp))
            for (lowered, side, key), stamp in zip(sides, node.stamps or (), strict=True)
        )
        label = f"as-of join by {' and '.join(dict.fromkeys(node.stamps or ()))}, {node.rule}"
        operation = AsofOp(asof_spec_of(node))
        number = self.add(operation, inputs, node.schema, label=label, logical=node.fingerprint)
        return self._joined(node, number)

    def _by_stamp(self, lowered: Lowered, key: Key, side: ir.Node, stamp: str) -> int:
        label = f"arrange by {', '.join((*key, stamp))}"
        return self.arrange(lowered, key, self._name_of(side), label, stamp)

    def _locked(self, node: ir.AsOf, left: Lowered, right: Lowered) -> Lowered:
        """What left rows have met is kept where the right rows of their key are, whatever the key is that it is by."""
        if node.stamps is None:
            label = _arrange_label(node.right_key)
            state = self.arrange(right, node.right_key, self._name_of(node.right), label)
        else:
            state = self._by_stamp(right, node.right_key, node.right, node.stamps[1])
        spec = lock_spec_of(node)
        layout = locked_layout(spec, self.lattice)
        operation = ArrangeOp(_name(f"locked|{node.fingerprint}", layout.key), layout, locked=spec)
        exchange = None if left.spread is not None and left.spread == node.left_key else node.left_key
        label = f"as-of join on {', '.join(node.left_key)}, locked in"
        inputs = (left.port, Port(state))
        logical = node.fingerprint
        kept = self.add(operation, inputs, layout.schema, exchange=exchange, label=f"keep {label}", logical=logical)
        return self._joined(node, self.add(LockedOp(spec), (Port(kept),), node.schema, label=label, logical=logical))

    def _update_time(self, node: ir.UpdateTime) -> Lowered:
        """Kept by the whole row, wherever its input lies, so that the state is the same however that is computed."""
        below = self.lower(node.input)
        spec = times_spec(node.input.schema, node.schema)
        layout = locked_layout(spec, self.lattice)
        operation = ArrangeOp(_name(f"update time|{node.fingerprint}", layout.key), layout, locked=spec)
        exchange = None if below.spread == layout.key else layout.key
        logical, label = node.fingerprint, "update_time()"
        kept = self.add(
            operation, (below.port,), layout.schema, exchange=exchange, label=f"keep {label}", logical=logical
        )
        number = self.add(LockedOp(spec), (Port(kept),), node.schema, label=label, logical=logical)
        self._may_fail(node, Lowered(Port(number, 1), None))
        return Lowered(Port(number), layout.key)

    def _joined(self, node: ir.AsOf, number: int) -> Lowered:
        """The output of an as-of join: spread as the left side's key is."""
        self._may_fail(node, Lowered(Port(number, 1), None))
        name_of = {column: name for name, side, column in node.outputs if side == 0}
        known = all(k in name_of for k in node.left_key)
        return Lowered(Port(number), tuple(name_of[k] for k in node.left_key) if known else None)

    def view(self, node: ir.Node, *, changes_only: bool = False) -> ViewPorts:
        """Keep a collection's contents, and the errors of everything it is computed from, each origin once.

        With ``changes_only`` an arrangement of its own takes the place of the contents, which keeps none of them.
        """
        asked = node.key if isinstance(node, ir.ArrangedBy) else None
        while isinstance(node, ir.ArrangedBy):
            node = node.input
        lowered = self.lower(node)
        key = asked or lowered.spread or tuple(node.schema.names)  # of the empty key: by row, in all the shards
        label = "changes" if changes_only else "contents"
        contents = self.arrange(lowered, key, node.fingerprint, label, changes_only=changes_only)
        return ViewPorts(self._arrangement(contents), self._errors(node), node.schema, changes_only)

    def _errors(self, node: ir.Node) -> tuple[str, ...]:
        """Arrangements of the errors of everything a view is computed from: one an origin, so diamonds multiply none.

        Errors of settled rows are settled too and stay where they are; the others are exchanged. A reader adds them up.
        """
        everything = tuple(ERROR_SCHEMA.names)
        names = []
        so_far = Plan(self.lattice, tuple(self.nodes))  # what depends on what, in no order of stages
        upstream = {*so_far.upstream(self.lower(node).port)}
        upstream |= {rows for state, rows in self.commanded.items() if state in upstream}
        for origin, lowered in [self.failing[p] for i in sorted(upstream) for p in self._failing_of(i)]:
            outside = self._outside(lowered)
            placed = Lowered(outside.port, everything if outside.settled else None)
            names.append(self._arrangement(self.arrange(placed, everything, f"errors|{origin}", "errors")))
        return tuple(names)

    def _event_scope(self) -> int:
        """The scope of what has a second time."""
        found = next((i for i, s in enumerate(self.scopes) if s.kind == "event"), None)
        if found is None:
            found = len(self.scopes)
            self.scopes.append(Scope(0, 1, "event"))
        return found

    def _may_fail(self, node: ir.Node, errors: Lowered) -> None:
        """Note that an operation has errors: each origin keeps its own."""
        self.failing[errors.port] = self._name_of(node), errors

    def _failing_of(self, i: int) -> list[Port]:
        return [p for p in (Port(i, 1), Port(i, LOGIC_ERRORS)) if p in self.failing]

    def _outside(self, lowered: Lowered) -> Lowered:
        """Updates as they are seen outside all loops and moments."""
        while self.scopes[self.scope_of(lowered)].kind in ("loop", "moment"):
            key = f"leave|{lowered.port}"
            if key not in self.done:
                self.done[key] = self.left(lowered)
            lowered = self.done[key]
        return lowered

    def _loop(self, loop: ir.Loop) -> tuple[Lowered, ...]:
        """Lower a loop, once; what its variables come to, outside it."""
        name = self._name_of(loop)
        if name not in self.results:
            self.results[name] = self._lower_loop(loop, name)
        return self.results[name]

    def _lower_loop(self, loop: ir.Loop, name: str) -> tuple[Lowered, ...]:
        level = ir.free_level(loop)
        parent = 0 if level is None else self.loops[level].scope
        if level is None and ir.coordinates(loop):
            parent = self._event_scope()
        if ir.moments(loop):
            parent = self._innermost([parent, *(self.scope_of(self.lower(n)) for n in ir.read_from_outside(loop))])
        scope = len(self.scopes)
        notes = (f"computed outside the loop: {', '.join(loop.hoisted)}",) if loop.hoisted else ()
        self.scopes.append(Scope(parent, self._depth(parent) + 1, "loop", loop.names, loop.max_rounds, notes))
        initial = [self.entered(self.lower(i), scope) for i in loop.initial]
        feeds = [_name(f"feedback|{name}|{i}", ()) for i in range(len(initial))]
        variables = []
        for i, first in enumerate(initial):
            if i in loop.unread:
                variables.append(first)  # nobody asks
                continue
            schema, label = loop.variable(i).schema, loop.names[i]
            back = self.add(FeedbackOp(feeds[i]), (), schema, label=f"{label} of the round before", scope=scope)
            at = self.add(ConcatOp(), (first.port, Port(back)), schema, label=f"variable {label}", scope=scope)
            variables.append(Lowered(Port(at), None))
        around = self.loops.get(loop.level)
        limit = loop.max_rounds if loop.stops else None
        self.loops[loop.level] = _OpenLoop(scope, tuple(variables), name, limit)
        results = [self.entered(self.lower(body), scope) for body in loop.bodies]
        for i, (first, result) in enumerate(zip(initial, results, strict=True)):
            if i not in loop.unread:
                self._feed(loop, i, feeds[i], first, result)
        del self.loops[loop.level]
        if around is not None:
            self.loops[loop.level] = around
        return tuple(self.left(r) for r in results)

    def _feed(self, loop: ir.Loop, i: int, name: str, first: Lowered, result: Lowered) -> None:
        """What a body makes, less what the variable began as, comes round: together that is what it made."""
        schema, scope, label = loop.variable(i).schema, self.scope_of(result), loop.names[i]
        away = self.add(LinearOp(BoundLogic((Negate(),))), (first.port,), schema, label="negate")
        change = self.add(ConcatOp(), (result.port, Port(away)), schema, label=f"change of {label}")
        layout = Layout(schema, tuple(schema.names), self.lattice_in(scope))
        feed = FeedOp(name, layout, loop.max_rounds if loop.stops else None)
        self.add(feed, (Port(change),), schema, exchange=layout.key, label=f"next {label}")

    def plan(self, views: Mapping[str, ViewPorts]) -> Plan:
        """What was lowered so far as a plan."""
        nodes, schedule = scheduled(self.nodes, self.scopes)
        return Plan(
            self.lattice, nodes, dict(views), spreads=self.spreads, scopes=tuple(self.scopes), schedule=schedule
        )

    def _arrangement(self, number: int) -> str:
        operation = self.nodes[number].operation
        assert isinstance(operation, ArrangeOp)
        return operation.arrangement


_LOWER: dict[type[ir.Node], Callable[[Lowering, Any], Lowered]] = {
    ir.Source: Lowering._source,
    ir.Constant: Lowering._constant,
    ir.Linear: Lowering._linear,
    ir.Concat: Lowering._concat,
    ir.Join: Lowering._join,
    ir.MultiJoin: Lowering._delta_join,
    ir.Reduce: Lowering._reduced,
    ir.Latest: Lowering._latest,
    ir.AsOf: Lowering._asof,
    ir.UpdateTime: Lowering._update_time,
    ir.Consolidate: Lowering._consolidate,
    ir.Inspect: Lowering._inspect,
    ir.ArrangedBy: Lowering._arranged_by,
    ir.Differentiate: Lowering._in_moments,
    ir.ToNeu: Lowering._in_moments,
    ir.Integrate: Lowering._in_moments,
    ir.Variable: Lowering._variable,
    ir.EnterAt: Lowering._enter_at,
    ir.Result: Lowering._result,
}


def _lowered_first(node: ir.Node) -> Sequence[ir.Node]:
    """What is lowered before a node: of a loop's result what its variables begin as, and what it reads from outside."""
    if isinstance(node, ir.Result):
        return (*node.loop.initial, *ir.read_from_outside(node.loop))
    return node.inputs


def _check_times(node: ir.Node) -> None:
    verb = node.arrival_verb
    names = ir.coordinates(node) if verb else None
    if names:
        raise PlanError(
            f"{verb} takes collections with one time, and a source below it has two, "
            f"{' and '.join(names)}; view.changes() shows both"
        )


_HOSTED = (
    ir.Join,
    ir.MultiJoin,
    ir.Reduce,
    ir.Latest,
    ir.AsOf,
    ir.UpdateTime,
)  # lowered to operations that take over logic; what an Inspect shows is lowered to them too


def arrangement_name(node: ir.Node, key: Key) -> str | None:
    """What the arrangement of a collection outside loops by a key is called in every session; None inside loops."""
    return _name(node.fingerprint, key) if ir.free_level(node) is None else None


def commands_name(source: ir.Source) -> str:
    """What the state of a source's commands that wait is called in every session."""
    return _name(f"commands|{source.fingerprint}", source.commanded_by or ())


def _name(origin: str, key: Key) -> str:
    return hashlib.blake2b(f"{origin}|{key}".encode(), digest_size=12).hexdigest()


def _arrange_label(key: Key) -> str:
    """What an arrangement of rows is called, whether joins or reduces read it: both may, and other views' too."""
    return f"arrange by {', '.join(key)}" if key else "one group"


def _group_label(key: Key) -> str:
    return f"group by {', '.join(key)}" if key else "one group"


def spread_after(logic: BoundLogic, spread: Key | None) -> Key | None:
    """By which columns rows are still spread after linear logic."""
    for step in logic.steps:
        made = projections(step)
        if spread is None or made is None:
            return None
        if made:
            spreads = {_carried(outputs, spread) for outputs in made}
            spread = spreads.pop() if len(spreads) == 1 else None
    return spread


def _carried(outputs: Outputs, spread: Key) -> Key | None:
    """The names that columns have after a projection; None when one of them is not handed on."""
    kept: dict[str, str] = {}
    for name, expression in outputs:
        if expression.is_column:
            kept.setdefault(expression.column_name, name)
    return tuple(kept[k] for k in spread) if all(k in kept for k in spread) else None


def _identified(nodes: Iterable[PhysicalNode]) -> tuple[PhysicalNode, ...]:
    """Nodes with what they are called in every plan that has them, whatever other views there are.

    That is the name of their arrangement or of their logical node; what has neither, or is lowered once for each loop
    that it is in, is called after what it reads.
    """
    found: list[PhysicalNode] = []
    seen: Counter[str] = Counter()
    for node in nodes:
        told = [node.operation.tag]
        if isinstance(node.operation, ArrangeOp | CommandsOp | FeedOp | FeedbackOp):
            told.append(node.operation.arrangement)
        else:
            told += [node.logical] if node.logical else [node.label]
            if node.scope or not node.logical:
                told += [f"{found[port.node].identity}.{port.output}" for port in node.inputs]
        name = hashlib.blake2b("|".join(told).encode(), digest_size=6).hexdigest()
        seen[name] += 1
        found.append(replace(node, identity=name if seen[name] == 1 else f"{name}-{seen[name]}"))
    return tuple(found)


def lower(
    views: Mapping[str, ir.Node],
    lattice: Lattice,
    shards: int = 1,
    sources: Iterable[ir.Source] = (),
    changes_only: Collection[str] = (),
) -> Plan:
    """Lower every view of a session, and ``sources`` whose rows are kept, into one plan that shares what is common.

    ``changes_only`` names the views of which no contents are kept.
    """
    readers = Counter(node.fingerprint for node in views.values())
    for node in ir.walk(*views.values()):
        readers.update(below.fingerprint for below in node.inputs)
    lowering = Lowering(lattice, readers, shards)
    ports = {name: lowering.view(node, changes_only=name in changes_only) for name, node in views.items()}
    for source in sources:
        lowering.keep(source)
    plan = lowering.plan(ports)
    return replace(plan, nodes=_identified(plan.nodes))
