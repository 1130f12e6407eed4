"""Physical plans: operations wired by ports, cut into stages where rows change shard.

A *stage* has no exchange inside. Stages form one chain by exchange depth: what a later stage needs passes through as
messages, so nothing is computed twice. A ``Channel`` is one such passage: a port, the key by which its rows find
their shard (none: they stay where they are), and the stage that wants them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import count
from typing import Literal, NamedTuple

import pyarrow as pa

from altneu.errors import ERROR_SCHEMA
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.base import Here, Message, Operation, Outputs, Pieces
from altneu.operators.lowering import Port as Port  # noqa: PLC0414  # plans are made of them
from altneu.operators.lowering import arrangement_id, below_zero_name
from altneu.operators.source.operation import SourceOp
from altneu.order import AltNeu, Epoch, Lattice, Product, Rounds, outside
from altneu.trace.batch import Layout

MOST_WAYS = 8
"""A sum that a row reaches by more ways than these consolidates."""
_ROOTS = 16  # nodes of whose rows the ways are counted; in a sum of more those with the most


@dataclass(frozen=True)
class PhysicalNode:
    """An operation with its inputs and its place.

    ``exchange`` is the key by which the input must be partitioned (None: it may lie anyhow);
    ``logical`` the fingerprint of the logical node it was made for; ``schema`` of output 0. ``identity`` is what the
    operation is called in every plan of this session that has it.
    """

    operation: Operation
    inputs: tuple[Port, ...]
    stage: int
    schema: pa.Schema
    exchange: tuple[str, ...] | None = None
    label: str = ""
    logical: str = ""
    scope: int = 0
    notes: tuple[str, ...] = ()  # EXPLAIN's notes, a line each
    identity: str = ""


ScopeKind = Literal["root", "loop", "event", "moment"]


@dataclass(frozen=True)
class Scope:
    """Where times are finer than in its parent (-1: none), and how many scopes it is inside of.

    The first scope, the root, has the session's times. Others are loops over the variables ``names``, which add the
    round; one, of what has times of its own, adds these, called ``names`` after the first; and some have two moments of
    each time. Only loops are run one time after the other.
    """

    parent: int
    depth: int
    kind: ScopeKind = "loop"
    names: tuple[str, ...] = ()
    max_rounds: int = 0
    notes: tuple[str, ...] = ()  # EXPLAIN's notes where something leaves it


ROOT = Scope(-1, 0, "root")
PENDED = "#pended"  # how the states are called in which a step's reduces note where to look again in later rounds


@dataclass(frozen=True)
class LoopUnit:
    """A loop as one unit of a schedule: its scope, and the units that every round runs in order."""

    scope: int
    units: Schedule

    @cached_property
    def stages(self) -> Stages:
        """Every stage inside, those of loops in it too."""
        return tuple(s for u in self.units for s in (u.stages if isinstance(u, LoopUnit) else u))


Stages = tuple[int, ...]

_OUTPUTS = 3  # at most, of any node: rows, errors, and errors of the logic that it hosts


class Resolved(NamedTuple):
    """A node as a stage runs it: its methods, its ports, and of each of these the readers in its stage.

    ``in_pieces`` is None where there are none, ``wire`` the port of its only input, if that is one of its stage;
    ``frees`` are the ports that nobody reads after it.
    """

    step: Callable[[Here], Outputs]
    in_pieces: Callable[[Here], Iterator[Pieces] | list[Message | None] | None] | None
    wire: Port | None
    ports: tuple[Port, ...]
    readers: tuple[tuple[int, ...], ...]
    frees: tuple[Port, ...]


Schedule = tuple[Stages | LoopUnit, ...]
"""Loops, and between them the stages of one scope that follow each other."""


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
    """The arrangements of a view's contents and errors; with ``changes_only`` it has changes and no contents."""

    contents: str
    errors: tuple[str, ...]
    schema: pa.Schema
    changes_only: bool = False


@dataclass(frozen=True)
class Plan:
    """Everything a session maintains, ready to run; nodes are in topological order."""

    lattice: Lattice
    nodes: tuple[PhysicalNode, ...]
    views: dict[str, ViewPorts] = field(default_factory=dict)
    read_layouts: dict[str, Layout] = field(default_factory=dict)  # of arrangements that only ReadOps name
    spreads: dict[Port, tuple[str, ...]] = field(default_factory=dict)  # by which columns rows lie where they are
    scopes: tuple[Scope, ...] = (ROOT,)
    schedule: Schedule = ((0,),)
    closed: frozenset[str] = frozenset()  # sources that take no more rows

    def is_static(self, node: int) -> bool:
        """Whether a node never has an update again, once none waits: all sources that it depends on are closed."""
        return bool(self.closed) and node in self._static

    @cached_property
    def _static(self) -> frozenset[int]:
        closed = {i for name, i in self.sources.items() if name in self.closed}
        reached = {*self.sources.values()} - closed
        size = -1
        while len(reached) != size:  # what a loop feeds back may stand behind what reads it
            size = len(reached)
            for i, node in enumerate(self.nodes):
                operation = node.operation
                back = operation.takes_from if operation.keeps is None else None
                if any(port.node in reached for port in node.inputs) or (
                    back is not None and self.arrangements[back] in reached
                ):
                    reached.add(i)
        return frozenset(range(len(self.nodes))) - reached

    @cached_property
    def released(self) -> frozenset[str]:
        """The arrangements that store none of their updates but future ones."""
        operations = ((name, self.nodes[i].operation) for name, i in self.arrangements.items())
        return frozenset(name for name, o in operations if isinstance(o, ArrangeOp) and o.is_released)

    def lattice_of(self, node: int) -> Lattice:
        """The times of a node's updates: those of the scope that the node is in."""
        return self.lattices[self.nodes[node].scope]

    @cached_property
    def lattices(self) -> tuple[Lattice, ...]:
        """The times of each scope."""
        return tuple(scope_lattice(self.lattice, self.scopes, i) for i in range(len(self.scopes)))

    @cached_property
    def revisited(self) -> frozenset[int]:
        """The arrangements that are read round by round: those in loops, and those outside that a loop reads."""
        looped = {i for i, n in enumerate(self.nodes) if self.loop_around(n.scope)}
        read = looped | {port.node for i in looped for port in self.nodes[i].inputs}
        return frozenset(i for i in read if isinstance(self.nodes[i].operation, ArrangeOp))

    @cached_property
    def is_one_stage(self) -> bool:
        """Whether all of it is one stage, with the session's times: nothing waits for another stage or round."""
        return bool(self.nodes) and self.schedule == ((0,),) and len(self.scopes) == 1

    @cached_property
    def loops(self) -> bool:
        """Whether anything is computed round by round."""
        return any(s.kind == "loop" for s in self.scopes)

    def own_times(self, node: PhysicalNode) -> int:
        """How many times of their own a node's updates have."""
        return next((len(s.names) - 1 for s in self._around(node.scope) if s.kind == "event"), 0)

    @cached_property
    def feedback(self) -> int | None:
        """After how many ticks a change comes back at the earliest, so that a step may go no further; None: never."""
        ticks = (node.operation.comes_back for node in self.nodes)
        return min((by for by in ticks if by is not None), default=None)

    def has_moments(self, node: PhysicalNode) -> bool:
        """Whether a node's updates are of moments."""
        return any(s.kind == "moment" for s in self._around(node.scope))

    def _around(self, scope: int) -> Iterator[Scope]:
        """A scope and all that it is inside of, without the root."""
        while scope:
            yield self.scopes[scope]
            scope = self.scopes[scope].parent

    def loop_around(self, scope: int) -> int:
        """The outermost loop that a scope is in, 0 when it is in none."""
        outermost = 0
        while scope:
            outermost = scope if self.scopes[scope].kind == "loop" else outermost
            scope = self.scopes[scope].parent
        return outermost

    @cached_property
    def depth(self) -> int:
        """Number of stages."""
        return 1 + max((n.stage for n in self.nodes), default=0)

    @cached_property
    def arrangements(self) -> dict[str, int]:
        """Node of each arrangement."""
        return {keeps[0]: i for i, n in enumerate(self.nodes) if (keeps := n.operation.keeps) is not None}

    @cached_property
    def arranged(self) -> dict[str, Layout]:
        """The layout of each arrangement."""
        return {name: self.layouts[name] for name in self.arrangements}

    def arrangements_alike(self, name: str) -> tuple[str, ...]:
        """The arrangements of the same rows as an arrangement, which is the first of them."""
        if name not in self._alike:
            same = self.nodes[self.arrangements[name]]
            alike = self.arrangements_with(same.logical, same.schema)
            self._alike[name] = (name, *(other for other in alike if other != name))
        return self._alike[name]

    def arrangements_with(self, collection: str, schema: pa.Schema) -> list[str]:
        """The arrangements of all rows of a collection, by its fingerprint."""
        same = [name for name in self.arrangements if self.collection_of(name) == collection]
        return [name for name in same if self.nodes[self.arrangements[name]].schema.equals(schema)]

    def collection_of(self, name: str) -> str | None:
        """The fingerprint of the collection of which an arrangement has all rows; None if it has other rows."""
        node = self.nodes[self.arrangements[name]]
        is_whole = isinstance(node.operation, ArrangeOp) and node.operation.has_collection
        return node.logical if is_whole else None

    @cached_property
    def _alike(self) -> dict[str, tuple[str, ...]]:
        return {}

    def below_zero(self, name: str) -> str | None:
        """The arrangement that counts, for an ordered one, the rows of each key with negative counts, if it is kept."""
        node, layout = self.nodes[self.arrangements[name]], self.layouts[name]
        numbers = arrangement_id(below_zero_name(node.logical, layout.order), layout.key)
        return numbers if layout.order and numbers in self.arrangements else None

    @cached_property
    def layouts(self) -> dict[str, Layout]:
        """The layout of every state that a step reads or writes, also of what it only writes for its later rounds."""
        layouts = dict(self.read_layouts)
        for i, node in enumerate(self.nodes):
            if (keeps := node.operation.keeps) is not None:
                layouts[keeps[0]] = keeps[1]
            elif node.operation.looks_again and node.scope:
                operation = self.nodes[node.inputs[0].node].operation
                assert isinstance(operation, ArrangeOp)
                layout = operation.layout
                layouts[pended(i)] = Layout(layout.key_schema, layout.key, layout.lattice)
        return layouts

    @cached_property
    def holders(self) -> dict[int, frozenset[str]]:
        """For each stage the states with future updates that it takes from."""
        return {stage: frozenset(name for name, _ in pairs) for stage, pairs in self.takers.items()}

    @cached_property
    def takers(self) -> dict[int, tuple[tuple[str, int], ...]]:
        """The same, each with the node that takes from it."""
        by_stage: dict[int, list[tuple[str, int]]] = {}
        for i, node in enumerate(self.nodes):
            if (name := node.operation.takes_from) is not None:
                by_stage.setdefault(node.stage, []).append((name, i))
            elif node.operation.looks_again and node.scope:
                by_stage.setdefault(node.stage, []).append((pended(i), i))
        return {stage: tuple(pairs) for stage, pairs in by_stage.items()}

    @cached_property
    def starters(self) -> dict[int, tuple[int, ...]]:
        """For each stage the nodes that may make something of no input, in a step that fills views."""
        by_stage: dict[int, tuple[int, ...]] = {}
        for i, node in enumerate(self.nodes):
            if node.operation.starts:
                by_stage[node.stage] = (*by_stage.get(node.stage, ()), i)
        return by_stage

    def states_of(self, stages: Stages) -> set[str]:
        """The states that stages read or make."""
        states: set[str] = set()
        for i in (i for stage in stages for i in self.stages[stage]):
            for operation in (self.nodes[i].operation, *(self.nodes[p.node].operation for p in self.nodes[i].inputs)):
                keeps = operation.keeps
                names = (keeps and keeps[0], operation.takes_from, operation.reads)
                states.update(name for name in names if name)
            states.add(pended(i))
        return states & self.layouts.keys()

    @cached_property
    def in_one_shard(self) -> Plan:
        """The same nodes, under the same numbers, for one shard: no row moves, so that a segment is one stage."""
        numbers, stage_of = count(), dict[int, int]()

        def fused(schedule: Schedule) -> Schedule:
            units: list[Stages | LoopUnit] = []
            for unit in schedule:
                if isinstance(unit, LoopUnit):
                    units.append(LoopUnit(unit.scope, fused(unit.units)))
                else:
                    stage = next(numbers)
                    units.append((stage,))
                    stage_of.update(dict.fromkeys(unit, stage))
            return tuple(units)

        schedule = fused(self.schedule)
        nodes = tuple(replace(n, stage=stage_of[n.stage], exchange=None) for n in self.nodes)
        return replace(self, nodes=nodes, schedule=schedule)

    @cached_property
    def sources(self) -> dict[str, int]:
        """Node of each source."""
        return {n.operation.name: i for i, n in enumerate(self.nodes) if isinstance(n.operation, SourceOp)}

    @cached_property
    def source_of(self) -> dict[int, str]:
        """The same the other way round: by its node the name of each source."""
        return {i: name for name, i in self.sources.items()}

    @cached_property
    def first_uses(self) -> dict[str, int]:
        """For each source the first stage that wants something of what stage 0 makes of it; 0 where none does."""
        above = [(channel.stage, {*self.upstream(channel.port)}) for channel in self.channels]
        return {
            name: min((stage for stage, nodes in above if node in nodes), default=0)
            for name, node in self.sources.items()
        }

    def layout_at(self, number: int) -> Layout | None:
        """The layout of the arrangement that a node is; None where it is none."""
        operation = self.nodes[number].operation
        return operation.layout if isinstance(operation, ArrangeOp) else None

    @cached_property
    def channels(self) -> tuple[Channel, ...]:
        """Every passage from one stage to another."""
        channels: dict[Channel, None] = {}
        for node in self.nodes:
            for port in node.inputs:
                channel = self._channel(node, port)
                if channel is not None:
                    channels[channel] = None
        return tuple(channels)

    def _channel(self, node: PhysicalNode, port: Port) -> Channel | None:
        producer = self.nodes[port.node]
        if producer.stage == node.stage:
            return None
        arranged = isinstance(producer.operation, ArrangeOp)
        schema = self.schema(port)
        return Channel(port, None if arranged else node.exchange, node.stage, schema, arranged)

    @cached_property
    def placed_by(self) -> dict[int, tuple[str, ...]]:
        """By which columns the rows of each channel lie in their shards; of those not named they lie anyhow.

        A channel without a key carries rows that lie by a key already.
        """
        keys = {i: c.key if c.key is not None else self.spreads.get(c.port) for i, c in enumerate(self.channels)}
        for (node, port), channel in self.inlets.items():
            lies = self.nodes[node].operation.lies_by()
            if lies is not None and port == self.nodes[node].inputs[0]:
                keys[channel] = lies
        return {i: key for i, key in keys.items() if key is not None}

    @cached_property
    def unplaced(self) -> frozenset[int]:
        """The nodes whose rows lie nowhere yet, because a step is given them: those of sources, before any exchange."""
        unplaced = set[int]()
        for i in self.stages[0]:
            operation, inputs = self.nodes[i].operation, self.nodes[i].inputs
            given = not inputs and operation.takes_from is None and operation.reads is None
            if given or any(port.node in unplaced for port in inputs):
                unplaced.add(i)
        return frozenset(unplaced)

    def shard_key(self, arrangement: str) -> tuple[str, ...]:
        """The columns of an arrangement whose hash decides where its rows are; settled errors lie anyhow."""
        number = self.arrangements.get(arrangement)
        operation = None if number is None else self.nodes[number].operation
        if isinstance(operation, ArrangeOp):
            return operation.shard_key
        return self.layouts[arrangement].key

    def in_parts(self, stage: int) -> bool:
        """Whether a stage works key by key, so that it may be run for some keys after the others.

        A delta join that is one operation looks rows up by several keys.
        """
        return stage not in self._whole_stages

    @cached_property
    def _whole_stages(self) -> frozenset[int]:
        return frozenset(n.stage for n in self.nodes if n.operation.whole)

    def schema(self, port: Port) -> pa.Schema:
        """Schema of what leaves a port."""
        return self.nodes[port.node].schema if port.output == 0 else ERROR_SCHEMA

    @cached_property
    def stages(self) -> tuple[tuple[int, ...], ...]:
        """Positions of the nodes of each stage, in topological order."""
        by_stage: list[list[int]] = [[] for _ in range(self.depth)]
        for i, node in enumerate(self.nodes):
            by_stage[node.stage].append(i)
        return tuple(map(tuple, by_stage))

    @cached_property
    def overlapping(self) -> frozenset[int]:
        """The sums to which one row comes by many ways, through other sums: they are consolidated.

        ``c = c.concat(c.filter(…))`` forty times has 2^40 ways and as few rows as before; every so many ways are
        summed up, so that no more updates pass than the rows times ``MOST_WAYS`` squared.
        """
        ways: list[dict[int, int]] = []
        sums: set[int] = set()
        for i, node in enumerate(self.nodes):
            if not node.operation.additive:
                ways.append({i: 1})
                continue
            total: dict[int, int] = {}
            for port in node.inputs:
                for root, many in ways[port.node].items():
                    total[root] = total.get(root, 0) + many
            if node.operation.is_sum and max(total.values(), default=0) > MOST_WAYS:
                sums.add(i)
                total = {i: 1}
            ways.append(total if len(total) <= _ROOTS else dict(sorted(total.items(), key=lambda t: -t[1])[:_ROOTS]))
        return frozenset(sums)

    @cached_property
    def inlets(self) -> dict[tuple[int, Port], int]:
        """For a node and one of its inputs that comes from an earlier stage: the number of its channel."""
        number = {c: i for i, c in enumerate(self.channels)}
        numbers = {}
        for i, node in enumerate(self.nodes):
            for port in node.inputs:
                channel = self._channel(node, port)
                if channel is not None:
                    numbers[i, port] = number[channel]
        return numbers

    @cached_property
    def wires(self) -> tuple[tuple[tuple[Port, int | None], ...], ...]:
        """For each node its inputs, each with its channel; None where it comes from a node of the same stage."""
        return tuple(tuple((p, self.inlets.get((i, p))) for p in node.inputs) for i, node in enumerate(self.nodes))

    @cached_property
    def readers(self) -> dict[Port, tuple[int, ...]]:
        """The nodes that read each port in the stage that it belongs to."""
        by_port: dict[Port, tuple[int, ...]] = {}
        for i, wires in enumerate(self.wires):
            for port in dict.fromkeys(port for port, channel in wires if channel is None):
                by_port[port] = (*by_port.get(port, ()), i)
        return by_port

    @cached_property
    def frees(self) -> tuple[tuple[Port, ...], ...]:
        """For each node the ports that it is the last to read: no later node of its stage, and no other stage."""
        last = {port: readers[-1] for port, readers in self.readers.items() if port not in self.outlets}
        by_node: list[list[Port]] = [[] for _ in self.nodes]
        for port, node in last.items():
            by_node[node].append(port)
        return tuple(map(tuple, by_node))

    @cached_property
    def resolved(self) -> tuple[Resolved, ...]:
        """For each node what a run of its stage needs to know of it."""
        return tuple(map(self._resolved, range(len(self.nodes))))

    def _resolved(self, i: int) -> Resolved:
        operation, ports = self.nodes[i].operation, tuple(Port(i, output) for output in range(_OUTPUTS))
        readers = tuple(self.readers.get(port, ()) for port in ports)
        wires = self.wires[i]
        wire = wires[0][0] if len(wires) == 1 and wires[0][1] is None else None
        in_pieces = operation.in_pieces if operation.flows else None
        return Resolved(operation.step, in_pieces, wire, ports, readers, self.frees[i])

    @cached_property
    def contents(self) -> frozenset[str]:
        """The arrangements of the contents of all views."""
        return frozenset(ports.contents for ports in self.views.values())

    @cached_property
    def changes_only(self) -> frozenset[str]:
        """The arrangements of views without contents."""
        return frozenset(ports.contents for ports in self.views.values() if ports.changes_only)

    @cached_property
    def listeners(self) -> tuple[frozenset[int], ...]:
        """The nodes that read each channel."""
        by_channel: list[set[int]] = [set() for _ in self.channels]
        for (node, _), channel in self.inlets.items():
            by_channel[channel].add(node)
        return tuple(map(frozenset, by_channel))

    @cached_property
    def outlets(self) -> dict[Port, tuple[int, ...]]:
        """The channels that each port feeds."""
        by_port: dict[Port, tuple[int, ...]] = {}
        for i, channel in enumerate(self.channels):
            by_port[channel.port] = (*by_port.get(channel.port, ()), i)
        return by_port

    def stage_label(self, stage: int) -> str:
        """Names of what a stage does, for people."""
        nodes = [self.nodes[i] for i in self.stages[stage]]
        names = [n.label for n in nodes if n.label and n.operation.is_named]
        return ", ".join(dict.fromkeys(names)) or "sources"

    def arrangements_of(self, view: str) -> list[str]:
        """Every arrangement that a view needs."""
        ports = self.views[view]
        operations = [self.nodes[i].operation for i in self._needed_by((ports.contents, *ports.errors))]
        return sorted(o.keeps[0] for o in operations if o.keeps is not None)

    def only(self, arrangements: Collection[str]) -> Plan:
        """The plan of some arrangements and what they need, with the views all of whose contents and errors they are.

        What shows what passes is there too. Of other nodes that keep nothing and have no reader, such as a variable of
        a loop outside of it, nothing is.
        """
        needed = sorted({*self._needed_by(arrangements), *self.upstream(*self.showing)})
        numbers = {i: at for at, i in enumerate(needed)}

        def renumbered(port: Port) -> Port:
            return Port(numbers[port.node], port.output)

        nodes = [replace(self.nodes[i], inputs=tuple(map(renumbered, self.nodes[i].inputs))) for i in needed]
        views = {n: p for n, p in self.views.items() if {p.contents, *p.errors} <= {*arrangements}}
        spreads = {renumbered(port): key for port, key in self.spreads.items() if port.node in numbers}
        cut, schedule = scheduled(nodes, self.scopes)
        return replace(self, nodes=cut, views=views, spreads=spreads, schedule=schedule)

    @cached_property
    def showing(self) -> tuple[Port, ...]:
        """The nodes that show what passes."""
        return tuple(Port(i) for i, node in enumerate(self.nodes) if node.operation.shows)

    def _needed_by(self, arrangements: Iterable[str]) -> set[int]:
        """The nodes that some arrangements depend on, themselves included."""
        needed = set(self.upstream(*(Port(self.arrangements[n]) for n in arrangements)))
        while True:  # of a loop all is computed, also what leads to none of its results that is read
            loops = {self.loop_around(self.nodes[i].scope) for i in needed} - {0}
            inside = [Port(i) for i, node in enumerate(self.nodes) if self.loop_around(node.scope) in loops]
            more = {*needed, *self.upstream(*inside)}
            if more == needed:
                return needed
            needed = more

    def sources_of(self, view: str) -> dict[str, int]:
        """The sources that a view is computed from, and how many times each has."""
        ports, names = self.views[view], self.source_of
        below = self.upstream(*(Port(self.arrangements[n]) for n in (ports.contents, *ports.errors)))
        return {names[i]: self.lattice_of(i).width for i in sorted(below) if i in names}

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
                operation = self.nodes[i].operation
                if operation.keeps is None and operation.takes_from is not None:  # from another node's state
                    todo.append(self.arrangements[operation.takes_from])


def pended(node: int) -> str:
    """The name of the state in which a reduce notes where to look again."""
    return f"{PENDED}{node}"


def scope_lattice(lattice: Lattice, scopes: Sequence[Scope], scope: int) -> Lattice:
    """The times of a scope, when ``lattice`` are those of the session."""
    if not scope:
        return lattice
    kind, names = scopes[scope].kind, scopes[scope].names
    own = len(names) - 1 if kind == "event" else 0
    return _inner_lattice(scope_lattice(lattice, scopes, scopes[scope].parent), kind, own)


@lru_cache(maxsize=64)
def _inner_lattice(around: Lattice, kind: ScopeKind, own: int) -> Lattice:
    """The times of a scope of some kind: one object for those that are equal, so that to compare them is nothing."""
    match kind:
        case "event":
            return Product(around, *[Epoch()] * own)
        case "moment":
            return AltNeu(around)
        case _:
            outer, loops = outside(around)
            return Rounds(outer, loops + 1)


def _run_with(scopes: Sequence[Scope], scope: int) -> int:
    """The loop that a scope is run with, or the root: event times and moments are not run one after the other."""
    while scopes[scope].kind in ("event", "moment"):
        scope = scopes[scope].parent
    return scope


def scheduled(nodes: Sequence[PhysicalNode], scopes: Sequence[Scope]) -> tuple[tuple[PhysicalNode, ...], Schedule]:
    """Cut nodes, in topological order, into stages: none has an exchange inside, and each is of one scope.

    A loop is one unit: it runs after all it reads and before all that reads it.
    """
    stages, schedule = stages_of(nodes, scopes)
    return tuple(replace(n, stage=s) for n, s in zip(nodes, stages, strict=True)), schedule


def stages_of(nodes: Sequence[PhysicalNode], scopes: Sequence[Scope]) -> tuple[list[int], Schedule]:
    """The stage of each node, and the schedule of these, as ``scheduled`` cuts them."""
    scheduling = _Scheduling(nodes, scopes)
    schedule = scheduling.number(0)
    return scheduling.stages, schedule


Item = tuple[int | None, int]
"""A loop and -1, or None and a node that is in none."""


class _Scheduling:
    """Numbers the stages of nodes, scope by scope."""

    def __init__(self, nodes: Sequence[PhysicalNode], scopes: Sequence[Scope]) -> None:
        self.nodes, self.scopes = nodes, scopes
        self.home = [_run_with(scopes, i) for i in range(len(scopes))]
        self.stages = [0] * len(nodes)
        self.counter = count()
        self.loops: dict[int, list[int]] = {}  # of the root and of each loop, the loops right inside
        self.members: dict[int, list[int]] = {}  # of the same the nodes inside, also those in loops in it
        for i, result in enumerate(scopes):
            if result.kind == "loop":
                self.loops.setdefault(self.home[result.parent], []).append(i)
        for i, node in enumerate(nodes):
            at = self.home[node.scope]
            self.members.setdefault(at, []).append(i)
            while at:
                at = self.home[scopes[at].parent]
                self.members.setdefault(at, []).append(i)

    def number(self, scope: int) -> Schedule:
        """The schedule of the root or of a loop, with the stages of its nodes numbered."""
        levels = self._levels(scope)
        if scope == 0:
            self._arrange_late(levels)
        nodes: dict[int, list[int]] = {}
        loops: dict[int, list[int]] = {}
        for (unit, i), at in levels.items():
            if unit is None:
                nodes.setdefault(at, []).append(i)
        for loop in self.loops.get(scope, []):
            if (loop, -1) in levels:
                loops.setdefault(levels[loop, -1], []).append(loop)
        units: list[list[int] | LoopUnit] = []
        for level in range(1 + max(levels.values(), default=0)):
            here = nodes.get(level, [])
            if here or (scope == 0 and level == 0):
                stage = next(self.counter)
                if units and isinstance(units[-1], list):
                    units[-1].append(stage)
                else:
                    units.append([stage])
                for i in here:
                    self.stages[i] = stage
            units += [LoopUnit(s, self.number(s)) for s in loops.get(level, ())]
        return tuple(unit if isinstance(unit, LoopUnit) else tuple(unit) for unit in units)

    def _levels(self, scope: int) -> dict[Item, int]:
        """How many exchanges and loops are before each node and loop that is right inside a scope."""
        levels: dict[Item, int] = {}
        changed = True
        while changed:  # a loop's level depends on all of its nodes, wherever they stand
            changed = False
            for i in self.members.get(scope, []):
                item = self._item(i, scope)
                level = max(levels.get(item, 0), self._level_after_inputs(i, item, scope, levels))
                if levels.get(item) != level:
                    levels[item] = level
                    changed = scope != 0 or bool(self.loops)  # else inputs come first, and one pass is enough
        return levels

    def _arrange_late(self, levels: dict[Item, int]) -> None:
        """Arrange what sources give where it is first read: before, it would only be handed on from stage to stage."""
        readers: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            for port in node.inputs:
                readers.setdefault(port.node, []).append(i)
        for i, node in enumerate(self.nodes):
            is_of_source = all(levels.get((None, port.node), 1) == 0 for port in node.inputs)
            if isinstance(node.operation, ArrangeOp) and is_of_source and (None, i) in levels and i in readers:
                items = [self._item(j, 0) for j in readers[i]]
                apart = [
                    item[0] is not None or self.nodes[j].exchange is not None
                    for item, j in zip(items, readers[i], strict=True)
                ]
                latest = min(levels[item] - later for item, later in zip(items, apart, strict=True))
                levels[None, i] = max(levels[None, i], latest)

    def _level_after_inputs(self, i: int, item: Item, scope: int, levels: dict[Item, int]) -> int:
        level = 0
        for port in self.nodes[i].inputs:
            if not self._is_inside(port.node, scope):
                continue
            other = self._item(port.node, scope)
            if other[0] is not None and other == item:
                continue
            apart = item[0] is not None or other[0] is not None or self.nodes[i].exchange is not None
            level = max(level, levels.get(other, 0) + apart)
        return level

    def _is_inside(self, i: int, scope: int) -> bool:
        at = self.home[self.nodes[i].scope]
        while at and at != scope:
            at = self.home[self.scopes[at].parent]
        return at == scope

    def _item(self, i: int, scope: int) -> Item:
        """The loop right inside a scope that a node inside it is in, or the node itself."""
        at, below = self.home[self.nodes[i].scope], None
        while at != scope:
            at, below = self.home[self.scopes[at].parent], at
        return (None, i) if below is None else (below, -1)
