"""Logical plans: what a query means, as immutable nodes that know their schema and their fingerprint.

Nodes know nothing of rows. Few are primitive (source, linear, concat, join, reduce, consolidate, inspect); the front
ends derive the rest from them (semijoin, antijoin, outer joins, distinct, count …).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ClassVar, TypeVar

import pyarrow as pa

from altneu.expressions import Expr
from altneu.expressions.names import ACCUMULABLE, UPDATE_TIME
from altneu.linear import BoundLogic, Function
from altneu.types import to_ddl

T = TypeVar("T")


def inputs_first(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """A function of a node that calls itself on the node's inputs: computed once a node, inputs before the node.

    So a plan may be of any depth, and what is shared costs once. The result is kept with the node, which never changes.

    Cost:   one call of ``function`` for each node that has not been asked before.
    """
    place = f"#{function.__module__}.{function.__qualname__}"

    @wraps(function)
    def found(node: Any) -> T:
        known = node.__dict__
        if place not in known:
            for below in ordered(node, without=lambda n: place in n.__dict__):
                below.__dict__[place] = function(below)
        result: T = known[place]
        return result

    return found


class Node:
    """A collection, described.

    ``tag`` is what fingerprints call a class, whatever it is renamed to: stored views are found by them.
    """

    tag: ClassVar[str]
    schema: pa.Schema

    def __init_subclass__(cls, tag: str = "") -> None:
        super().__init_subclass__()
        if tag:
            cls.tag = tag

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Collections this one is computed from."""
        return ()

    def describe(self) -> str:
        """One line that tells this node from any other over the same inputs."""
        raise NotImplementedError(type(self).__name__)

    @property
    @inputs_first
    def fingerprint(self) -> str:
        """Stable across processes: equal plans have equal fingerprints, so that they share state."""
        text = "\n".join([self.tag, self.describe(), to_ddl(self.schema), *(i.fingerprint for i in self.inputs)])
        return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


class Derived(Node):
    """A collection whose columns follow from those of its inputs."""

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""
        return _schema_of(self)

    def _schema(self) -> pa.Schema:
        raise NotImplementedError(type(self).__name__)


@inputs_first
def _schema_of(node: Node) -> pa.Schema:
    return node._schema() if isinstance(node, Derived) else node.schema


@dataclass(frozen=True, eq=False)
class Source(Node, tag="Source"):
    """Rows that a session inserts and retracts; with ``keep``, an arrangement of them is kept for late views.

    With a ``key``, or ``distinct``, what comes in are commands, and an arrangement of the rows that are there is kept.
    """

    name: str
    schema: pa.Schema
    keep: bool = False
    coordinates: tuple[str, str] | None = None  # what its two times are called, when it has two
    key: tuple[str, ...] | None = None
    distinct: bool = False

    def describe(self) -> str:
        """The name, whether all of it is kept, the coordinates of its times when they are two, and its key."""
        kept = f"{self.name} kept" if self.keep else self.name
        timed = kept if self.coordinates is None else f"{kept} {self.coordinates}"
        return timed if self.commanded_by is None else f"{timed} {f'key {self.key}' if self.key else 'distinct'}"

    @property
    def commanded_by(self) -> tuple[str, ...] | None:
        """The columns by which rows take each other's place, None where rows only add up."""
        return self.key or (tuple(self.schema.names) if self.distinct else None)

    @property
    def arranged_by(self) -> tuple[str, ...] | None:
        """The columns by which all of its rows are kept, None where they are not."""
        return self.commanded_by or (tuple(self.schema.names) if self.keep else None)

    @property
    def plain(self) -> Source:
        """The same rows where they only add up."""
        return Source(self.name, self.schema, self.keep, self.coordinates)


@dataclass(frozen=True, eq=False)
class Unary(Derived):
    """A collection made of one other; where nothing else is said it has the same columns."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The one input."""
        return (self.input,)

    def _schema(self) -> pa.Schema:
        """That of the input."""
        return self.input.schema


@dataclass(frozen=True, eq=False)
class Constant(Node, tag="Constant"):
    """Rows that are there from the least time on and never change."""

    rows: tuple[tuple[object, ...], ...]
    schema: pa.Schema

    def describe(self) -> str:
        """The rows."""
        return repr(self.rows)


@dataclass(frozen=True, eq=False)
class Linear(Unary, tag="Linear"):
    """Linear logic, update by update."""

    logic: BoundLogic

    def _schema(self) -> pa.Schema:
        """What the logic makes of the input's schema."""
        return self.logic.output(self.input.schema)

    def describe(self) -> str:
        """Every step with the parts that its text leaves out."""
        return self.logic.digest


@dataclass(frozen=True, eq=False)
class Concat(Derived, tag="Concat"):
    """The sum of collections of one schema."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The parts."""
        return self.parts

    def _schema(self) -> pa.Schema:
        """The common schema; a column is nullable where it is in any part."""
        first = self.parts[0].schema
        return pa.schema(
            [f.with_nullable(any(p.schema.field(i).nullable for p in self.parts)) for i, f in enumerate(first)]
        )

    def describe(self) -> str:
        """Nothing beside the parts."""
        return ""


@dataclass(frozen=True, eq=False)
class Join(Derived, tag="Join"):
    """Equijoin: pairs with equal, non-null keys; times joined, diffs multiplied.

    ``outputs`` lists (name, side, column): side 0 is the left input, 1 the right. Where it is the last of a tree of
    joins, ``reason`` is what EXPLAIN says of its staying one.
    """

    left: Node
    right: Node
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    outputs: tuple[tuple[str, int, str], ...]
    reason: str = field(default="", compare=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    def _schema(self) -> pa.Schema:
        """The output columns with the types they have in their inputs."""
        sides = (self.left.schema, self.right.schema)
        return pa.schema([sides[side].field(column).with_name(name) for name, side, column in self.outputs])

    def describe(self) -> str:
        """Keys and outputs."""
        return f"{self.left_key} {self.right_key} {self.outputs}"


@dataclass(frozen=True, eq=False)
class MultiJoin(Node, tag="MultiJoin"):
    """Equijoin of several collections at once, without intermediate results; what a tree of ``Join`` may become.

    ``variables`` names the columns of each part: those of one name are equal, and not null when they are several.
    ``outputs`` lists (name, variable); ``schema`` is that of the tree. ``reason`` is what EXPLAIN says of the choice,
    and ``reused`` are the parts and keys that had been arranged when it was made.
    """

    parts: tuple[Node, ...]
    variables: tuple[tuple[str, ...], ...]
    outputs: tuple[tuple[str, str], ...]
    schema: pa.Schema
    reason: str = field(default="", compare=False)
    reused: frozenset[tuple[int, tuple[str, ...]]] = field(default=frozenset(), compare=False)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The parts."""
        return self.parts

    def describe(self) -> str:
        """Variables and outputs."""
        return f"{self.variables} {self.outputs}"


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a group: a function over named columns of the input; ``text`` is how it was written."""

    function: str
    arguments: tuple[str, ...]
    type: pa.DataType
    distinct: bool = False
    text: str = field(default="", compare=False, repr=False)

    options: tuple[Any, ...] = ()

    @property
    def accumulable(self) -> bool:
        """Whether a few numbers per group are all the state it needs."""
        several = self.function == "count" and len(self.arguments) > 1
        return self.function in ACCUMULABLE and not self.distinct and not several

    def __repr__(self) -> str:
        options = f", options={self.options!r}" * bool(self.options)
        return (
            f"Aggregate(function={self.function!r}, arguments={self.arguments!r}, type={self.type!r}, "
            f"distinct={self.distinct!r}{options})"
        )

    def __str__(self) -> str:
        return self.text or f"{self.function}({'distinct ' * self.distinct}{', '.join(self.arguments) or '*'})"


@dataclass(frozen=True)
class Aggregates:
    """SQL aggregates, one output column ``#i`` each; with ``default_row`` the empty collection has a row too."""

    calls: tuple[Aggregate, ...]
    default_row: bool = False

    def __repr__(self) -> str:
        return f"Aggregates(calls={self.calls!r}, default_row={self.default_row!r})"

    def __str__(self) -> str:
        return ", ".join(map(str, self.calls))


@dataclass(frozen=True)
class Distinct:
    """One copy of every row whose count is positive."""

    def __repr__(self) -> str:
        return "Distinct()"

    def __str__(self) -> str:
        return "distinct"


@dataclass(frozen=True)
class CountOf:
    """Every row once, with its count in a column."""

    column: str

    def __repr__(self) -> str:
        return f"CountOf(column={self.column!r})"

    def __str__(self) -> str:
        return f"count as {self.column}"


@dataclass(frozen=True)
class Threshold:
    """Every row as often as a Python function says for its count."""

    function: Function

    def __repr__(self) -> str:
        return f"Threshold(function={self.function!r})"

    def __str__(self) -> str:
        return f"threshold {self.function.name}"


@dataclass(frozen=True)
class TopK:
    """The first k rows of each group in an order of columns, ties decided by value."""

    k: int
    order: tuple[tuple[str, bool, bool], ...]  # column, descending, nulls first

    def __repr__(self) -> str:
        return f"TopK(k={self.k!r}, order={self.order!r})"

    def __str__(self) -> str:
        return f"top {self.k} by " + ", ".join(f"{c}{' desc' if d else ''}" for c, d, _ in self.order)


@dataclass(frozen=True)
class Frame:
    """Which rows of its group a row's function is over, in an order: those from ``start`` up to and with ``end``.

    Bounds of ``rows`` count rows from the row itself, those before it negative. Else 0 is the row with its peers,
    which are equal to it in the order, and a name is the column that holds a value of the one order column. None has
    no bound.
    """

    rows: bool
    start: int | str | None
    end: int | str | None

    def __repr__(self) -> str:
        return f"Frame(rows={self.rows!r}, start={self.start!r}, end={self.end!r})"

    def __str__(self) -> str:
        start = _bound(self.start, "unbounded preceding")
        return f"{'rows' if self.rows else 'range'} between {start} and {_bound(self.end, 'unbounded following')}"


def _bound(bound: int | str | None, without: str) -> str:
    if bound is None or isinstance(bound, str):
        return bound or without
    return f"{abs(bound)} {'preceding' if bound < 0 else 'following'}" if bound else "current row"


@dataclass(frozen=True)
class WindowCall:
    """One window function: an aggregate over a frame, or a function of a row's place in its group.

    Rows that ``order`` leaves undecided are in the order of all their columns. ``number`` is how many rows on ``lead``
    reads (``lag``: back), which row of its frame ``nth_value`` gives, and into how many parts ``ntile`` cuts. With
    ``ignore_nulls`` rows on which the argument is null do not count. ``lag`` and ``lead`` without an argument are true
    where there is such a row, and null where there is none.
    """

    call: Aggregate
    order: tuple[tuple[str, bool, bool], ...] = ()  # column, descending, nulls first
    frame: Frame | None = None
    number: int = 1
    ignore_nulls: bool = False

    def __repr__(self) -> str:
        return (
            f"WindowCall(call={self.call!r}, order={self.order!r}, frame={self.frame!r}, "
            f"number={self.number!r}, ignore_nulls={self.ignore_nulls!r})"
        )

    def __str__(self) -> str:
        order = ", ".join(f"{c}{' desc' if d else ''}" for c, d, _ in self.order)
        frame = "" if self.frame in (None, *USUAL_FRAMES) else f" {self.frame}"
        return f"{self.call}{f' by {order}' if order else ''}{frame}"

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        bounds = () if self.frame is None else (self.frame.start, self.frame.end)
        return frozenset((*self.call.arguments, *(c for c, _, _ in self.order), *(b for b in bounds if type(b) is str)))

    @property
    def asks_for_ties(self) -> bool:
        """Whether it tells rows apart that are equal in the order, which all of their columns decide then."""
        if self.frame is None:
            return self.call.function not in ("rank", "dense_rank", "percent_rank", "cume_dist")
        return self.frame.rows or not (self.call.distinct or self.call.function in KNOW_NO_ORDER)


USUAL_FRAMES = Frame(False, None, 0), Frame(False, None, None)
KNOW_NO_ORDER = ACCUMULABLE | {"min", "max", "collect_set", "mode", "percentile", "percentile_disc"}
"""Aggregates of which the order of rows is known to make no difference."""


@dataclass(frozen=True)
class WindowFunctions:
    """Every row, as often as it is there, with a column ``#w0``, ``#w1`` … of each window function."""

    calls: tuple[WindowCall, ...]

    def __repr__(self) -> str:
        return f"WindowFunctions(calls={self.calls!r})"

    def __str__(self) -> str:
        return f"window {', '.join(map(str, self.calls))}"


@dataclass(frozen=True)
class PythonReduce:
    """Rows that a Python function makes of each group."""

    function: Function
    result: pa.Schema
    with_diffs: bool = False

    def __repr__(self) -> str:
        return f"PythonReduce(function={self.function!r}, result={self.result!r}, with_diffs={self.with_diffs!r})"

    def __str__(self) -> str:
        return f"reduce {self.function.name}"


@dataclass(frozen=True)
class AsOfRule:
    """Which right row a left row meets: the nearest in a direction, no further than ``tolerance`` units away.

    ``exact`` says whether its own timestamp counts. Of right rows with one timestamp the last is met in the order of
    ``ties`` (column, descending, nulls first) and then of the whole row.
    """

    direction: str
    tolerance: int | None
    exact: bool
    ties: tuple[tuple[str, bool, bool], ...] = ()

    def __str__(self) -> str:
        within = "" if self.tolerance is None else f", within {self.tolerance}"
        order = (f"{c}{' desc' * d}{_nulls(d, first)}" for c, d, first in self.ties)
        ties = f", ties by {', '.join(order)}" if self.ties else ""
        return f"{self.direction}{within}{'' if self.exact else ', no exact matches'}{ties}"

    def __repr__(self) -> str:
        ties = f", ties={self.ties!r}" * bool(self.ties)
        return f"AsOfRule(direction={self.direction!r}, tolerance={self.tolerance!r}, exact={self.exact!r}{ties})"


def _nulls(descending: bool, first: bool) -> str:
    """How an order says where nulls are, where it is not as usual."""
    return "" if first is not descending else f" nulls {'first' if first else 'last'}"


@dataclass(frozen=True)
class AsOfReduce:
    """An as-of join of groups that hold rows of both sides: what ``AsOf`` is where times are no chain.

    ``side`` is true in left rows, ``stamp`` is their timestamp; ``left`` and ``right`` are columns of one side, and
    ``shown`` the right side's columns as (name, column), for errors.
    """

    side: str
    stamp: str
    left: tuple[str, ...]
    right: tuple[str, ...]
    shown: tuple[tuple[str, str], ...]
    rule: AsOfRule
    keeps: bool

    def __repr__(self) -> str:
        return (
            f"AsOfReduce(side={self.side!r}, stamp={self.stamp!r}, left={self.left!r}, right={self.right!r}, "
            f"shown={self.shown!r}, rule={self.rule!r}, keeps={self.keeps!r})"
        )

    def __str__(self) -> str:
        return f"as-of join, {self.rule}"


# Fingerprints are made of what __repr__ gives, whatever becomes of the names of classes and fields.
Reducer = Aggregates | Distinct | CountOf | Threshold | TopK | WindowFunctions | PythonReduce | AsOfReduce


@dataclass(frozen=True, eq=False)
class Reduce(Unary, tag="Reduce"):
    """A function of each group of rows with equal key; an empty group yields nothing."""

    key: tuple[str, ...]
    reducer: Reducer

    @property
    def accumulable(self) -> bool:
        """Whether the state is a few numbers per group and not the group."""
        if isinstance(self.reducer, Aggregates):
            return all(c.accumulable for c in self.reducer.calls)
        return isinstance(self.reducer, Distinct | CountOf | Threshold)

    def _schema(self) -> pa.Schema:
        """Key columns, then what the reducer adds."""
        keys = [self.input.schema.field(k) for k in self.key]
        match self.reducer:
            case Aggregates(calls):
                return pa.schema([*keys, *(pa.field(f"#{i}", c.type) for i, c in enumerate(calls))])
            case Distinct() | Threshold() | TopK():
                return self.input.schema
            case CountOf(column):
                return pa.schema([*self.input.schema, pa.field(column, pa.int64(), nullable=False)])
            case WindowFunctions(calls):
                return pa.schema([*self.input.schema, *(pa.field(f"#w{i}", c.call.type) for i, c in enumerate(calls))])
            case PythonReduce(_, result):
                return pa.schema([*keys, *result])
            case AsOfReduce(left=left, right=right):
                theirs = [self.input.schema.field(n).with_nullable(True) for n in right]
                return pa.schema([*keys, *(self.input.schema.field(n) for n in left), *theirs])

    def describe(self) -> str:
        """Key and reducer."""
        return f"{self.key} {self.reducer!r}"


@dataclass(frozen=True, eq=False)
class Latest(Unary, tag="Latest"):
    """The input is a log of events; of each key, the one that is greatest in the order of some columns.

    Ties are decided by the whole row. An event that is there more than once counts once.
    """

    key: tuple[str, ...]
    order: tuple[str, ...]

    def describe(self) -> str:
        """Key and order."""
        return f"{self.key} {self.order}"


@dataclass(frozen=True, eq=False)
class AsOf(Derived, tag="AsOf"):
    """Each left row with right rows of equal key as of its timestamp, or as of when it came.

    ``rule`` with the columns ``stamps`` chooses the one right row that is nearest; without, all of the key are met.
    With ``keeps`` a left row that meets nothing has nulls. With ``locked`` a left row meets what is there at its own
    logical time (``simultaneous`` changes in or out), and keeps it; else the matches follow the right side. Keys and
    timestamps are not null. ``outputs`` as in ``Join``.
    """

    left: Node
    right: Node
    left_key: tuple[str, ...]
    right_key: tuple[str, ...]
    outputs: tuple[tuple[str, int, str], ...]
    keeps: bool
    stamps: tuple[str, str] | None
    rule: AsOfRule | None
    locked: bool = False
    simultaneous: bool = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    def _schema(self) -> pa.Schema:
        """The output columns; those of the right side are nullable where a left row may meet nothing."""
        sides = (self.left.schema, self.right.schema)
        fields = [(side, sides[side].field(column).with_name(name)) for name, side, column in self.outputs]
        return pa.schema([f.with_nullable(f.nullable or (self.keeps and side == 1)) for side, f in fields])

    def describe(self) -> str:
        """Keys, outputs and which rows are met."""
        times = f"{self.stamps} {self.rule} {self.locked} {self.simultaneous}"
        return f"{self.left_key} {self.right_key} {self.outputs} {self.keeps} {times}"


@dataclass(frozen=True, eq=False)
class UpdateTime(Unary, tag="UpdateTime"):
    """The same rows with the time at which each copy came; of copies of a row the first to come is the first to go.

    What it gives depends on its input's history, so rules change nothing below it for the sake of what is above: two
    views that are written over one such collection say the same of a row.
    """

    def _schema(self) -> pa.Schema:
        """That of the input, and the time."""
        return self.input.schema.append(pa.field(UPDATE_TIME, pa.int64(), nullable=False))

    def describe(self) -> str:
        """Nothing beside the input."""
        return ""


@dataclass(frozen=True, eq=False)
class Consolidate(Unary, tag="Consolidate"):
    """The same collection, each (data, time) in one update."""

    def describe(self) -> str:
        """Nothing beside the input."""
        return ""


@dataclass(frozen=True, eq=False)
class Inspect(Unary, tag="Inspect"):
    """The same collection; after each commit a Python function is shown its consolidated updates."""

    function: Function

    def describe(self) -> str:
        """The function's digest."""
        return self.function.digest


@dataclass(frozen=True, eq=False)
class ArrangedBy(Unary, tag="ArrangedBy"):
    """The same collection, which rules leave as it is; a view of it is arranged by some columns.

    Plans are rewritten with it and lowered without it, but for the root: it says no more than where a view's rows lie.
    """

    key: tuple[str, ...]

    def describe(self) -> str:
        """The columns."""
        return repr(self.key)


@dataclass(frozen=True, eq=False)
class Variable(Node, tag="Variable"):
    """What a variable of a loop holds at the start of a round.

    ``level`` counts the loops around it that were being written when its own was, so that of two loops one inside the
    other each knows its variables.
    """

    level: int
    index: int
    schema: pa.Schema

    def describe(self) -> str:
        """Which variable of which loop."""
        return f"{self.level}.{self.index}"


@dataclass(frozen=True, eq=False)
class EnterAt(Unary, tag="EnterAt"):
    """A collection from outside of which each row enters a loop at the round that an expression says."""

    rounds: Expr
    level: int

    def describe(self) -> str:
        """The expression and the loop."""
        return f"{self.rounds.sql} {self.level}"


@dataclass(frozen=True, eq=False)
class Moments(Unary):
    """What goes into a scope of moments, two for each time, or out of it.

    ``level`` is that of the innermost loop that was being written (-1: none): the times are those there. ``depth``
    counts the scopes of moments inside one another at that level, from 1.
    """

    depth: int = 1
    level: int = -1

    def describe(self) -> str:
        """Which scope."""
        return f"{self.level}.{self.depth}"


@dataclass(frozen=True, eq=False)
class Differentiate(Moments, tag="Differentiate"):
    """The changes of a collection, each there at the earlier moment of its time and gone at the later one."""


@dataclass(frozen=True, eq=False)
class ToNeu(Moments, tag="ToNeu"):
    """A collection in a scope of moments, each change at the later moment of its time."""


@dataclass(frozen=True, eq=False)
class Integrate(Moments, tag="Integrate"):
    """What earlier moments add up to, at the times outside the scope; later moments are forgotten."""


MAX_ROUNDS = 1_000_000
"""A loop that needs more rounds is taken for one that never ends, unless it says how many it may have."""
_FIRST_MAX_ROUNDS = 10_000


@dataclass(frozen=True, eq=False)
class Loop(Derived, tag="Loop"):
    """Variables that begin as ``initial`` and become, all at once and round after round, what ``bodies`` make of them.

    No collection itself: ``Result`` is what a variable comes to. ``max_rounds`` bounds the rounds; with ``stops`` the
    variables then are what they are, else a loop that needs more fails. ``unread`` numbers variables that no
    body reads, so that nothing of them comes round; ``hoisted`` is what EXPLAIN says of those that were taken out.
    """

    names: tuple[str, ...]
    initial: tuple[Node, ...]
    bodies: tuple[Node, ...]
    level: int
    max_rounds: int
    stops: bool = False
    unread: tuple[int, ...] = ()
    hoisted: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What the variables begin as, then what becomes of them."""
        return (*self.initial, *self.bodies)

    def _schema(self) -> pa.Schema:
        """That of the first variable."""
        return self.variable(0).schema

    def variable(self, index: int) -> Variable:
        """A variable as the bodies read it."""
        return Variable(self.level, index, open_schema(self.initial[index].schema))

    def describe(self) -> str:
        """Names and bounds; the bound that is the default is told as it was when the first stores were written."""
        limit = _FIRST_MAX_ROUNDS if self.max_rounds == MAX_ROUNDS and not self.stops else self.max_rounds
        return f"{self.names} {self.level} {limit} {self.stops}" + f" {self.unread}" * bool(self.unread)


@dataclass(frozen=True, eq=False)
class Result(Derived, tag="Result"):
    """What a variable of a loop comes to."""

    loop: Loop
    index: int

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The loop."""
        return (self.loop,)

    def _schema(self) -> pa.Schema:
        """That of the variable."""
        return self.loop.variable(self.index).schema

    def describe(self) -> str:
        """Which variable."""
        return str(self.index)


@inputs_first
def coordinates(node: Node) -> tuple[str, str] | None:
    """What the two times of a collection are called, None when it has one: it has two when any of its sources has."""
    if isinstance(node, Source):
        return node.coordinates
    return next((found for found in map(coordinates, node.inputs) if found is not None), None)


def told_by_arrival(node: Node) -> str | None:
    """The verb of a node that takes one time, outside loops, because it is about when rows come; None for others."""
    if isinstance(node, AsOf):
        return "a locked asof_join" if node.locked else None
    if isinstance(node, UpdateTime):
        return "update_time()"
    return type(node).__name__.lower() if isinstance(node, Inspect | Latest) else None


def is_by_arrival(node: Node) -> bool:
    """Whether what a node gives depends on when the rows came that are there, and not on them alone."""
    return isinstance(node, UpdateTime | Integrate) or (isinstance(node, AsOf) and node.locked)


@inputs_first
def told_by_arrival_in_loop(node: Node) -> str | None:
    """The verb of such a node, here or below, that reads the variable of a loop; None where there is none."""
    verb = told_by_arrival(node)
    if verb and free_level(node) is not None:
        return verb
    return next((found for found in map(told_by_arrival_in_loop, node.inputs) if found), None)


def open_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with nulls allowed everywhere: a round may bring what the first collection had not."""
    return pa.schema([f.with_nullable(True) for f in schema])


def free_level(node: Node) -> int | None:
    """The level of the innermost loop whose variables a node reads and that is not part of it; None: it reads none."""
    return max(_free(node), default=None)


def free_levels(node: Node) -> frozenset[int]:
    """The levels of all loops whose variables a node reads and that are not part of it."""
    return _free(node)


@inputs_first
def _free(node: Node) -> frozenset[int]:
    found: frozenset[int] = frozenset()
    for below in node.inputs:
        found |= _free(below)
    match node:
        case Variable(level):
            return frozenset([level])
        case EnterAt(_, _, level) | Differentiate(_, _, level) | ToNeu(_, _, level) if level >= 0:
            return found | {level}
        case Loop():
            return found - {node.level}
    return found


def read_from_outside(loop: Loop) -> Iterator[Node]:
    """The collections from outside that a loop reads, each fingerprint once."""

    def is_outside(node: Node) -> bool:
        return max(_free(node), default=-1) < loop.level

    within = ordered(*loop.inputs, below=lambda n: () if is_outside(n) else n.inputs, key=lambda n: n.fingerprint)
    return filter(is_outside, within)


@inputs_first
def moments(node: Node) -> Mapping[int, int]:
    """The scopes of moments that a collection is in: how many inside one another, by the level of the loop around.

    What one input is in all others enter; a loop leaves those of its own level.
    """
    found: dict[int, int] = {}
    for below in node.inputs:
        for level, depth in moments(below).items():
            found[level] = max(depth, found.get(level, 0))
    match node:
        case Differentiate(_, depth, level) | ToNeu(_, depth, level):
            found[level] = depth
        case Integrate(_, depth, level) if level in found:
            found[level] = min(found[level], depth - 1)
        case Loop():
            found = {level: depth for level, depth in found.items() if level < node.level}
    return {level: depth for level, depth in found.items() if depth}


def inputs_of(node: Node) -> Sequence[Node]:
    """The inputs of a node."""
    return node.inputs


def ordered(
    *roots: Node,
    below: Callable[[Node], Sequence[Node]] = inputs_of,
    key: Callable[[Node], Hashable] = id,
    without: Callable[[Node], bool] = lambda _: False,
) -> Iterator[Node]:
    """The roots and the nodes below them, inputs first, each ``key`` once; those ``without`` which with all below them.

    Nothing is recursive here, so that a plan may be of any depth.

    Cost:   a visit for each node, and a look at each of its inputs.
    """
    seen: set[Hashable] = set()
    todo = [(root, False) for root in reversed(roots)]
    while todo:
        node, is_entered = todo.pop()
        if is_entered:
            yield node
        elif (place := key(node)) not in seen and not without(node):
            seen.add(place)
            todo.append((node, True))
            todo += [(lower, False) for lower in reversed(below(node))]


def walk(*roots: Node) -> Iterator[Node]:
    """Every node below the roots, inputs first, each fingerprint once."""
    return ordered(*roots, key=lambda node: node.fingerprint)
