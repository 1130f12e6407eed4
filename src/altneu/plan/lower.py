"""Lower logical plans to physical ones: place arrangements, share them, cut stages where rows must change shard.

Sharing is by construction: every logical node is lowered once per fingerprint, and an arrangement is made once per
(port, key). An exchange is left out where the rows are already partitioned by the requested key.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any, NamedTuple

import pyarrow as pa

from altneu.columnar.ranking import Order, order_text
from altneu.errors import ERROR_SCHEMA, PlanError
from altneu.linear import BoundLogic
from altneu.operators.arrange.lowering import lower_arranged_by
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.asof.lowering import lower_asof, lower_update_time
from altneu.operators.base import LOGIC_ERRORS, Hosting, Operation
from altneu.operators.calculus.lowering import lower_differentiate, lower_integrate, lower_tell_moment, lower_to_neu
from altneu.operators.calculus.operation import IntegrateOp
from altneu.operators.concat.lowering import lower_concat, lower_consolidate, lower_inspect
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.delta_join.lowering import lower_delta_join
from altneu.operators.feedback.lowering import lower_recurred
from altneu.operators.join.lowering import lower_join
from altneu.operators.latest.lowering import lower_latest
from altneu.operators.linear.lowering import lower_linear
from altneu.operators.loop.lowering import lower_enter_at, lower_result, lower_variable
from altneu.operators.loop.operation import EnterOp, LeaveOp
from altneu.operators.lowering import Earlier, Lowered, OpenLoop, arrangement_id
from altneu.operators.node import Key
from altneu.operators.reduce.lowering import lower_reduce
from altneu.operators.reduce_core.lowering import lower_reduce_core
from altneu.operators.sample.lowering import lower_sample
from altneu.operators.source import lowering as sources
from altneu.order import Lattice
from altneu.plan import ir
from altneu.plan.physical import ROOT, PhysicalNode, Plan, Port, Scope, ViewPorts, scope_lattice, stages_of
from altneu.trace.batch import Layout


class Own(NamedTuple):
    """The contents of a view that was redefined: what they are called after, and how they lie."""

    origin: str
    key: Key
    schema: pa.Schema

    @property
    def arrangement(self) -> str:
        """The name of their arrangement."""
        return arrangement_id(self.origin, self.key)


@dataclass
class Lowering:
    """Builds one plan for all the views of a session; ``readers`` counts what reads each logical node.

    A node is lowered into the innermost loop whose variables it reads, and what reads none into no loop: it is computed
    once and not in every round.

    ``alone`` says of the nodes whose operations can take over logic whether they had one reader as that was asked.
    ``finished`` has, by what it was made of, each node of the last plan.
    """

    lattice: Lattice
    readers: Counter[str] = field(default_factory=Counter)
    shards: int = 1
    errors_show_all: Collection[str] = ()
    earlier: Mapping[str, Earlier] = field(default_factory=dict)
    nodes: list[PhysicalNode] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=lambda: [ROOT])
    done: dict[str, Lowered] = field(default_factory=dict)
    arranged: dict[tuple[Port, Key, tuple[Order, ...], bool], int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)  # what is made once
    failing: dict[Port, tuple[str, Lowered]] = field(default_factory=dict)
    loops: dict[int, OpenLoop] = field(default_factory=dict)  # by level, those being lowered
    results: dict[str, tuple[Lowered, ...]] = field(default_factory=dict)
    spreads: dict[Port, Key] = field(default_factory=dict)
    commanded: dict[int, int] = field(default_factory=dict)  # by the arrangement of a source, what gives its rows
    counted: set[str] = field(default_factory=set)  # logical nodes whose inputs are counted in ``readers``
    alone: dict[str, bool] = field(default_factory=dict)
    identities: list[str] = field(default_factory=list)
    called: Counter[str] = field(default_factory=Counter)  # how many nodes have each identity but for its number
    finished: dict[int, tuple[PhysicalNode, PhysicalNode]] = field(default_factory=dict)

    def copy(self) -> Lowering:
        """The same plan under construction, to go on with."""
        own = copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | dict | set):
                setattr(own, name, copy(value))
        return own

    def count_readers(self, roots: Collection[ir.Node]) -> bool:
        """Count what the plans of further views read; False if they read what was lowered as read by one alone."""
        changed = {root.fingerprint for root in roots}
        self.readers.update(root.fingerprint for root in roots)
        new = ir.ordered(*roots, key=lambda n: n.fingerprint, without=lambda n: n.fingerprint in self.counted)
        for node in [*new]:
            self.counted.add(node.fingerprint)
            beside = [below for below in node.lowered_first if below not in node.inputs]
            read = [below.fingerprint for below in (*node.inputs, *beside)]
            self.readers.update(read)
            changed.update(read)
        return all(self.alone.get(name, True) == (self.readers[name] == 1) for name in changed & self.alone.keys())

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
            scope = self.innermost(self.nodes[p.node].scope for p in inputs)
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
        if self.innermost([scope, self.scope_of(lowered)]) == self.scope_of(lowered):
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

    def innermost(self, scopes: Iterable[int]) -> int:
        """Of scopes that are inside one another the innermost.

        Raises:
            PlanError: they are not.
        """
        needed = set(scopes)
        deepest = max(needed, key=self._depth, default=0)
        around = [deepest]
        while around[-1]:
            around.append(self.scopes[around[-1]].parent)
        if not needed <= {*around}:
            raise PlanError(
                "a collection that is differentiated, or delayed to neu, has moments of one time, but is combined here "
                "with a source that has two; declare its source with two times as well, or integrate it first"
            )
        return deepest

    def _moments(self, around: int) -> int:
        """The scope of the moments of a scope's times."""
        scope = next((i for i, s in enumerate(self.scopes) if s.kind == "moment" and s.parent == around), None)
        if scope is None:
            scope = len(self.scopes)
            self.scopes.append(Scope(around, self._depth(around) + 1, "moment"))
        return scope

    def moment_scope(self, lowered: Lowered, level: int, depth: int) -> int:
        """The scope of the moments, so many inside one another, of the times of a loop, or (-1) of the outer times."""
        scope = self.scope_of(lowered)
        if level >= 0:
            scope = self.loops[level].scope
        else:
            while self.scopes[scope].kind == "moment":
                scope = self.scopes[scope].parent
        for _ in range(depth):
            scope = self._moments(scope)
        return scope

    def around(self, scope: int) -> int:
        """The scope that a scope is in."""
        return self.scopes[scope].parent

    def _schema(self, port: Port) -> pa.Schema:
        return self.nodes[port.node].schema if port.output == 0 else ERROR_SCHEMA

    def name_of(self, node: ir.Node) -> str:
        """A name for a collection across processes: that of its plan, and of the loops it is in."""
        level = ir.free_level(node)
        return node.fingerprint if level is None else f"{self.loops[level].name}/{node.fingerprint}"

    def arrange(
        self,
        lowered: Lowered,
        key: Key,
        origin: str,
        label: str,
        order: tuple[Order, ...] = (),
        *,
        changes_only: bool = False,
    ) -> int:
        """The arrangement of a port by a key, made once; ``origin`` names the collection across processes."""
        place = (lowered.port, key, order, changes_only)
        if place not in self.arranged:
            schema = self._schema(lowered.port)
            exchange = None if lowered.spread is not None and lowered.spread == key else key
            lattice = self.lattice_in(self.scope_of(lowered))
            kind = f"|by {order_text(order)}" if order else ""
            name = arrangement_id(f"changes|{origin}" if changes_only else f"{origin}{kind}", key)
            operation = ArrangeOp(name, Layout(schema, key, lattice, order, changes_only))
            self.arranged[place] = self.add(
                operation, (lowered.port,), schema, exchange=exchange, label=label, logical=origin
            )
        return self.arranged[place]

    def once(self, name: str, make: Callable[[], int]) -> int:
        """The operation of a name, made at the first call."""
        if name not in self.named:
            self.named[name] = make()
        return self.named[name]

    def arranged_already(self, lowered: Lowered, state: int) -> None:
        """Note that an operation arranges the rows of a port by the key that partitions them, and is read instead."""
        assert lowered.spread is not None
        self.arranged[lowered.port, lowered.spread, (), False] = state
        self.commanded[state] = lowered.port.node

    def host_of(self, node: ir.Node) -> Hosting | None:
        """The operation of a node that is lowered, if it takes over logic and has one reader."""
        if not node.hosts:
            return None
        self.alone[node.fingerprint] = self.readers[node.fingerprint] == 1
        if not self.alone[node.fingerprint]:
            return None
        operation = self.nodes[self.lower(node).port.node].operation
        return operation if isinstance(operation, Hosting) else None

    def give(self, port: Port, logic: BoundLogic, node: ir.Node) -> None:
        """Have the operation of a port take over logic, behind its own; its rows are those of a node then."""
        host = self.nodes[port.node]
        assert isinstance(host.operation, Hosting)
        operation = replace(host.operation, logic=host.operation.logic.followed_by(logic))
        self.nodes[port.node] = replace(host, operation=operation, schema=node.schema, logical=node.fingerprint)

    def lower(self, node: ir.Node) -> Lowered:
        """Lower a node and all it depends on, once; inputs first, so that a plan may be of any depth."""
        name = self.name_of(node)
        if name not in self.done:
            for below in ir.ordered(node, below=self._lowered_first, without=lambda n: self.name_of(n) in self.done):
                if (place := self.name_of(below)) not in self.done:
                    _check_times(below)
                    self.done[place] = self._noted(self._lower(below))
        return self.done[name]

    def _lowered_first(self, node: ir.Node) -> Sequence[ir.Node]:
        return (self.input_of(node),) if isinstance(node, ir.Linear) else _lowered_first(node)

    def input_of(self, node: ir.Linear) -> ir.Node:
        """What the logic of a node reads: its input, or the present version of a source if it has all of that."""
        earlier = self.earlier.get(node.input.fingerprint)
        if earlier is None or not node.logic.columns_read(node.input.schema) <= earlier.same:
            return node.input
        present = earlier.present
        return present if node.logic.output(present.schema).equals(node.schema) else node.input

    def _noted(self, lowered: Lowered) -> Lowered:
        """Note for the plan how the rows of a port are partitioned."""
        self.spreads.pop(lowered.port, None)  # an operation that took over logic has other columns than before
        if lowered.spread is not None:
            self.spreads[lowered.port] = lowered.spread
        return lowered

    def _lower(self, node: ir.Node) -> Lowered:
        return OPERATORS[type(node)](self, node)

    def keep(self, source: ir.Source) -> None:
        """Arrange all rows of a source, whether it is declared with ``keep`` or not."""
        port = self.lower(source).port
        if source.commanded_by is None:
            sources.keep(self, source, port)

    def view(self, node: ir.Node, *, changes_only: bool = False, own: Own | None = None) -> ViewPorts:
        """Keep a collection's contents, and the errors of everything it is computed from, each origin once.

        With ``changes_only`` an arrangement of its own replaces the contents; it retains none of them. So does one of
        the view's ``own``, which has the contents as they were before the view was redefined.
        """
        index = node if isinstance(node, ir.ArrangedBy) else None
        while isinstance(node, ir.ArrangedBy):
            node = node.input
        lowered = self.lower(node)
        if own is not None:
            contents = self._own(lowered, own)
            return ViewPorts(self._arrangement(contents), self._errors(node), own.schema, changes_only=False)
        key = lowered.spread or tuple(node.schema.names)  # of the empty key: by row, in all the shards
        order: tuple[Order, ...] = ()
        if index is not None:
            key, order = index.key, () if changes_only else index.order
        label = "changes" if changes_only else "contents"
        contents = self.arrange(lowered, key, node.fingerprint, label, order, changes_only=changes_only)
        return ViewPorts(self._arrangement(contents), self._errors(node), node.schema, changes_only)

    def _own(self, lowered: Lowered, own: Own) -> int:
        """An arrangement that no other operation reads, because it had other rows once."""
        port, layout = lowered.port, Layout(own.schema, own.key, self.lattice_in(self.scope_of(lowered)))
        if not self._schema(port).equals(own.schema):  # it says of more columns that they may be null
            port = Port(self.add(ConcatOp(), (port,), own.schema, label="contents"))
        exchange = None if lowered.spread is not None and lowered.spread == own.key else own.key
        operation = ArrangeOp(arrangement_id(own.origin, own.key), layout)
        return self.add(operation, (port,), own.schema, exchange=exchange, label="contents", logical=own.origin)

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

    def event_scope(self, names: tuple[str, ...]) -> int:
        """The scope of what has times of its own.

        Raises:
            PlanError: other sources have more of them, or fewer.
        """
        scope = next((i for i, s in enumerate(self.scopes) if s.kind == "event"), None)
        if scope is None:
            scope = len(self.scopes)
            self.scopes.append(Scope(0, 1, "event", names))
        if len(known := self.scopes[scope].names) != len(names):
            raise PlanError(
                f"one source has {ir.times_named(known)}, and another {ir.times_named(names)}: in one session all "
                "sources with several times must have equally many"
            )
        return scope

    def may_fail(self, node: ir.Node, errors: Lowered) -> None:
        """Note that an operation has errors: each origin keeps its own."""
        self.failing[errors.port] = self.name_of(node), errors

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

    def results_of(self, loop: ir.Node, make: Callable[[str], tuple[Lowered, ...]]) -> tuple[Lowered, ...]:
        """The results of a loop's variables outside it, made once for its name."""
        name = self.name_of(loop)
        if name not in self.results:
            self.results[name] = make(name)
        return self.results[name]

    def loop_scope(self, loop: ir.Loop, notes: tuple[str, ...]) -> int:
        """A new scope for a loop, inside the innermost scope of what the loop reads.

        It stands here, with ``moment_scope`` and ``event_scope``, because a scope is where all that is lowered meets:
        what is outside depends on the whole plan, not on one operator.
        """
        level = ir.free_level(loop)
        parent = 0 if level is None else self.loops[level].scope
        if level is None and (names := ir.coordinates(loop)):
            parent = self.event_scope(names)
        if ir.moments(loop):
            parent = self.innermost([parent, *(self.scope_of(self.lower(n)) for n in ir.read_from_outside(loop))])
        self.scopes.append(Scope(parent, self._depth(parent) + 1, "loop", loop.names, loop.max_rounds, notes))
        return len(self.scopes) - 1

    def plan(self, views: Mapping[str, ViewPorts]) -> Plan:
        """What was lowered so far as a plan."""
        stages, schedule = stages_of(self.nodes, self.scopes)
        self.identify()
        nodes, spreads = self._finished(stages), dict(self.spreads)
        return Plan(self.lattice, nodes, dict(views), spreads=spreads, scopes=tuple(self.scopes), schedule=schedule)

    def identify(self) -> None:
        """Say what nodes are called in every plan that has them, whatever other views there are.

        That is the name of their arrangement or of their logical node; what has neither, or is lowered once for each
        loop that it is in, is called after what it reads.
        """
        for node in self.nodes[len(self.identities) :]:
            parts = [node.operation.tag]
            keeps = node.operation.keeps
            state = node.operation.takes_from if keeps is None else keeps[0]
            if state is not None:
                parts.append(state)
            else:
                parts += [node.logical] if node.logical else [node.label]
                if node.scope or not node.logical:
                    parts += [f"{self.identities[port.node]}.{port.output}" for port in node.inputs]
            name = hashlib.blake2b("|".join(parts).encode(), digest_size=6).hexdigest()
            self.called[name] += 1
            self.identities.append(name if self.called[name] == 1 else f"{name}-{self.called[name]}")

    def _finished(self, stages: Sequence[int]) -> tuple[PhysicalNode, ...]:
        """The nodes with their stages and what they are called: those of the last plan where they are the same."""
        made: dict[int, tuple[PhysicalNode, PhysicalNode]] = {}
        for node, stage, identity in zip(self.nodes, stages, self.identities, strict=True):
            known = self.finished.get(id(node))  # of no other node: what it was made of is kept beside it
            if known is None or known[1].stage != stage or known[1].identity != identity:
                known = node, replace(node, stage=stage, identity=identity)
            made[id(node)] = known
        self.finished = made
        return tuple(node for _, node in made.values())

    def _arrangement(self, number: int) -> str:
        operation = self.nodes[number].operation
        assert isinstance(operation, ArrangeOp)
        return operation.arrangement


OPERATORS: dict[type[ir.Node], Callable[[Lowering, Any], Lowered]] = {
    ir.Source: sources.lower_source,
    ir.Constant: sources.lower_constant,
    ir.Linear: lower_linear,
    ir.Concat: lower_concat,
    ir.Join: lower_join,
    ir.MultiJoin: lower_delta_join,
    ir.Reduce: lower_reduce,
    ir.ReduceCore: lower_reduce_core,
    ir.Latest: lower_latest,
    ir.AsOf: lower_asof,
    ir.UpdateTime: lower_update_time,
    ir.Consolidate: lower_consolidate,
    ir.Sample: lower_sample,
    ir.Inspect: lower_inspect,
    ir.ArrangedBy: lower_arranged_by,
    ir.Differentiate: lower_differentiate,
    ir.ToNeu: lower_to_neu,
    ir.TellMoment: lower_tell_moment,
    ir.Integrate: lower_integrate,
    ir.Variable: lower_variable,
    ir.EnterAt: lower_enter_at,
    ir.Result: lower_result,
    ir.Recurred: lower_recurred,
}
"""How each node is lowered; a loop is with the first of its results."""


def _lowered_first(node: ir.Node) -> Sequence[ir.Node]:
    """What is lowered before a node: of a loop's result what its variables begin as, and what it reads from outside."""
    if isinstance(node, ir.Result):
        return (*node.loop.initial, *ir.read_from_outside(node.loop))
    if isinstance(node, ir.Recurred):
        return tuple(ir.read_from_outside(node.recurrence))
    return node.lowered_first


def _check_times(node: ir.Node) -> None:
    verb = node.arrival_verb
    names = ir.coordinates(node) if verb else None
    if names:
        raise PlanError(
            f"{verb} needs collections with one time, but one of its sources has {ir.times_named(names)}; "
            "view.changes() shows them"
        )


def arrangement_name(node: ir.Node, key: Key) -> str | None:
    """What the arrangement of a collection outside loops by a key is called in every session; None inside loops."""
    return arrangement_id(node.fingerprint, key) if ir.free_level(node) is None else None


@dataclass(frozen=True)
class Options:
    """How views are lowered.

    ``changes_only`` names the views that have no contents, ``errors_show_all`` the fingerprints of linear nodes whose
    errors show all columns of a row, and not those alone that are read; ``earlier`` has, by fingerprint, the sources
    that are earlier versions of others; ``own`` the contents of views that were redefined.
    """

    shards: int = 1
    changes_only: frozenset[str] = frozenset()
    errors_show_all: frozenset[str] = frozenset()
    earlier: Mapping[str, Earlier] = field(default_factory=dict)
    own: Mapping[str, Own] = field(default_factory=dict)

    def of(self, views: Collection[str], nodes: AbstractSet[str]) -> tuple[object, ...]:
        """What of them matters for views whose plans have these logical nodes: equal where they are lowered alike."""
        earlier = {name: (e.present.fingerprint, e.logic, e.same) for name, e in self.earlier.items() if name in nodes}
        own = {name: contents for name, contents in self.own.items() if name in views}
        return self.shards, self.changes_only.intersection(views), self.errors_show_all & nodes, earlier, own


class Growing:
    """Lowers the views of a session; when views are added, it goes on from what it has lowered.

    Law:    the plan is that of ``lower``, which lowers all of them (tests/laws/test_growing.py).
    """

    def __init__(self, lattice: Lattice) -> None:
        self._lattice = lattice
        self._known: _Known | None = None

    def lower(
        self,
        views: Mapping[str, ir.Node],
        options: Options,
        sources: Iterable[ir.Source] = (),
        new: Collection[str] = (),
    ) -> Plan:
        """Lower views, and ``sources`` whose rows are retained, into one plan that shares what is common.

        What is lowered for the views that are ``new`` is not kept, as they may not be there the next time.

        Cost:   the views behind the first one that is new are lowered, and all of them where one of these reads what
                was lowered as read by one operation alone. Each node gets its stage.
        """
        there = dict(takewhile(lambda item: item[0] not in new, views.items()))
        known = self._gone_on(there, options)
        begun = known.copy()
        if not begun.add({name: node for name, node in views.items() if name not in there}, options):
            begun = self._begin(views, options)
        for source in sources:
            begun.lowering.keep(source)
        plan = begun.lowering.plan(begun.ports)
        known.lowering.finished = begun.lowering.finished
        return plan

    def _gone_on(self, views: Mapping[str, ir.Node], options: Options) -> _Known:
        """Views, lowered: from those that were lowered before if these are the first of them."""
        known, self._known = self._known, None  # should it fail, the next time begins anew
        if known is None or not known.goes_on(views, options) or not known.add(views, options):
            known = self._begin(views, options)
        known.lowering.identify()
        self._known = known
        return known

    def _begin(self, views: Mapping[str, ir.Node], options: Options) -> _Known:
        known = _Known(Lowering(self._lattice, shards=options.shards))
        known.add(views, options)
        return known


@dataclass
class _Known:
    """Views that are lowered, and how."""

    lowering: Lowering
    views: dict[str, ir.Node] = field(default_factory=dict)
    ports: dict[str, ViewPorts] = field(default_factory=dict)
    how: tuple[object, ...] = ()

    def copy(self) -> _Known:
        return _Known(self.lowering.copy(), dict(self.views), dict(self.ports), self.how)

    def goes_on(self, views: Mapping[str, ir.Node], options: Options) -> bool:
        """Whether these views are the first of others, with the same plans, and lowered as those are to be."""
        return (
            len(self.views) <= len(views)
            and all(a == b for a, b in zip(self.views, views, strict=False))
            and all(views[name] is node for name, node in self.views.items())
            and self.how == options.of(self.views, self.lowering.counted)
        )

    def add(self, views: Mapping[str, ir.Node], options: Options) -> bool:
        """Lower those of the views that are not there; False, and none, if they read what had one reader alone."""
        more = {name: node for name, node in views.items() if name not in self.views}
        lowering = self.lowering
        lowering.errors_show_all, lowering.earlier = options.errors_show_all, options.earlier
        if not lowering.count_readers(more.values()):
            return False
        for name, node in more.items():
            self.ports[name] = lowering.view(node, changes_only=name in options.changes_only, own=options.own.get(name))
        self.views |= more
        self.how = options.of(self.views, lowering.counted)
        return True


def lower(views: Mapping[str, ir.Node], lattice: Lattice, shards: int = 1) -> Plan:
    """Lower views into one plan that shares what is common."""
    return Growing(lattice).lower(views, Options(shards), new=views)
