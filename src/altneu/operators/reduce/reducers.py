"""The reducers: SQL aggregates, distinct, counts, thresholds, the first rows, window functions, Python functions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pyarrow as pa

from altneu.expressions import Column
from altneu.expressions.names import ACCUMULABLE
from altneu.linear import BoundLogic, Function, Project
from altneu.operators.linear.node import Linear
from altneu.operators.node import Columns, Key, Node, up_to
from altneu.operators.reduce.node import Ends, Order, Reduce, Reducer


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


EXTREMES = ("min", "max")


@dataclass(frozen=True)
class Aggregates(Reducer):
    """SQL aggregates, one output column ``#i`` each; with ``default_row`` the empty collection has a row too."""

    calls: tuple[Aggregate, ...]
    default_row: bool = False
    ordered: bool = False

    def __repr__(self) -> str:
        ordered = ", ordered=True" * self.ordered
        return f"Aggregates(calls={self.calls!r}, default_row={self.default_row!r}{ordered})"

    def __str__(self) -> str:
        return ", ".join(map(str, self.calls))

    @property
    def accumulable(self) -> bool:
        """Where all calls are."""
        return all(call.accumulable for call in self.calls)

    @property
    def accumulated(self) -> Aggregates:
        """The numbers of its calls."""
        return self

    @property
    def makes_sets(self) -> bool:
        """One row a group; the row of an empty collection is made beside."""
        return not self.default_row

    def with_order(self) -> Aggregates:
        """Over groups in the order of a column, where the least and the greatest of its values are all that is read."""
        columns = {call.arguments for call in self.calls}
        extremes = len(columns) == 1 and all(call.function in EXTREMES for call in self.calls)
        return replace(self, ordered=True) if extremes and not self.ordered else self

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """That of the column, nulls first."""
        return ((self.calls[0].arguments[0], False, True),) if self.ordered else ()

    @property
    def ends(self) -> Ends:
        """The last row says whether there is any; nulls are of no value."""
        return Ends(first=int(any(call.function == "min" for call in self.calls)), last=1, valued=True)

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, then ``#i`` of each call."""
        return [*key, *(pa.field(f"#{i}", c.type) for i, c in enumerate(self.calls))]

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:
        """The key, and the arguments of what is needed."""
        return frozenset(key).union(*(self.calls[i].arguments for i in self._needed(needed)))

    def at_least(self, needed: Columns) -> Columns:
        """One aggregate, the cheapest."""
        if self._needed(needed):
            return needed
        return needed | {f"#{next((i for i, c in enumerate(self.calls) if c.accumulable), 0)}"}

    def fewer(self, node: Reduce, needed: Columns) -> Node:
        """Without the aggregates that nobody reads, the others in the columns that they had."""
        kept = self._needed(needed)
        if len(kept) == len(self.calls):
            return node
        made = replace(node, reducer=replace(self, calls=tuple(self.calls[i] for i in kept)))
        names = [*node.key, *(f"#{i}" for i in kept)]
        return _named(made, [n if n in needed else "" for n in names])

    def _needed(self, needed: Columns) -> list[int]:
        return [i for i in range(len(self.calls)) if f"#{i}" in needed]


def _named(node: Node, names: list[str]) -> Node:
    """A node's columns under other names, without those whose name is empty."""
    columns = zip(names, node.schema, strict=True)
    outputs = tuple((name, Column(f.name, f.type, f.nullable)) for name, f in columns if name)
    return Linear(node, BoundLogic((Project(outputs),)))


@dataclass(frozen=True)
class Distinct(Reducer):
    """One copy of every row whose count is positive."""

    def __repr__(self) -> str:
        return "Distinct()"

    def __str__(self) -> str:
        return "distinct"

    is_whole: ClassVar[bool] = True
    accumulable = makes_sets = consolidates = True

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input."""
        return list(schema)


@dataclass(frozen=True)
class CountOf(Reducer):
    """Every row once, with its count in a column."""

    column: str

    def __repr__(self) -> str:
        return f"CountOf(column={self.column!r})"

    def __str__(self) -> str:
        return f"count as {self.column}"

    is_whole: ClassVar[bool] = True
    accumulable = makes_sets = consolidates = True

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input, and the count."""
        return [*schema, pa.field(self.column, pa.int64(), nullable=False)]


@dataclass(frozen=True)
class Threshold(Reducer):
    """Every row as often as a Python function says for its count."""

    function: Function

    def __repr__(self) -> str:
        return f"Threshold(function={self.function!r})"

    def __str__(self) -> str:
        return f"threshold {self.function.name}"

    is_whole: ClassVar[bool] = True
    accumulable = True

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input."""
        return list(schema)


@dataclass(frozen=True)
class TopK(Reducer):
    """The first k rows of each group in an order of columns, ties decided by value.

    With ``ordered`` it reads them from the front of a group whose rows lie in that order.
    """

    k: int
    order: tuple[Order, ...]
    ordered: bool = False

    def __repr__(self) -> str:
        return f"TopK(k={self.k!r}, order={self.order!r}{', ordered=True' * self.ordered})"

    def __str__(self) -> str:
        return f"top {self.k} by " + ", ".join(f"{c}{' desc' if d else ''}" for c, d, _ in self.order)

    def with_order(self) -> TopK:
        """Over groups in its order."""
        return self if self.ordered else replace(self, ordered=True)

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """Its own; where that is decided by the key, or says nothing, the order of all columns decides."""
        values: list[Order] = [(name, False, True) for name in schema.names if name not in key]
        own = tuple(column for column in self.order if column[0] not in key)
        return (own or tuple(values[:1])) if self.ordered else ()

    @property
    def ends(self) -> Ends:
        """The first k."""
        return Ends(first=self.k)

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input."""
        return list(schema)

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:
        """The key and the order; ties are decided by the whole row, so only columns behind all that are read may go."""
        return up_to(below, frozenset(key) | {column for column, _, _ in self.order}, needed)


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
class WindowFunctions(Reducer):
    """Every row, as often as it is there, with a column ``#w0``, ``#w1`` … of each window function."""

    calls: tuple[WindowCall, ...]

    def __repr__(self) -> str:
        return f"WindowFunctions(calls={self.calls!r})"

    def __str__(self) -> str:
        return f"window {', '.join(map(str, self.calls))}"

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input, then ``#wi`` of each call."""
        return [*schema, *(pa.field(f"#w{i}", c.call.type) for i, c in enumerate(self.calls))]

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:
        """What the calls read; where one tells rows apart that are equal in the order, all that decides it."""
        calls = [self.calls[i] for i in self._needed(needed)]
        wanted = frozenset(n for n in below.schema.names if n in needed).union(*(call.columns for call in calls))
        tied = [frozenset(column for column, _, _ in call.order) for call in calls if call.asks_for_ties]
        fixed = frozenset(key)
        return up_to(below, fixed | frozenset.intersection(*tied), wanted) if tied else fixed | wanted

    def fewer(self, node: Reduce, needed: Columns) -> Node:
        """Without the window functions that nobody reads; with none it is its input."""
        kept = self._needed(needed)
        if len(kept) == len(self.calls):
            return node
        made: Node = node.input
        if kept:
            made = replace(node, reducer=replace(self, calls=tuple(self.calls[i] for i in kept)))
        return _named(made, [*node.input.schema.names, *(f"#w{i}" for i in kept)])

    def _needed(self, needed: Columns) -> list[int]:
        return [i for i in range(len(self.calls)) if f"#w{i}" in needed]


@dataclass(frozen=True)
class PythonReduce(Reducer):
    """Rows that a Python function makes of each group."""

    function: Function
    result: pa.Schema
    with_diffs: bool = False

    def __repr__(self) -> str:
        return f"PythonReduce(function={self.function!r}, result={self.result!r}, with_diffs={self.with_diffs!r})"

    def __str__(self) -> str:
        return f"reduce {self.function.name}"

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, and what the function says."""
        return [*key, *self.result]
