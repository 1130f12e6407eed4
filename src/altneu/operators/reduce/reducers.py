"""The reducers: SQL aggregates, distinct, counts, thresholds, the first rows, window functions, Python functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.expressions import Call, Column, Expr
from altneu.expressions.names import NEVER_NULL
from altneu.linear import BoundLogic, Function, Project
from altneu.operators.linear.node import Linear
from altneu.operators.node import Columns, Key, Node, up_to
from altneu.operators.reduce.calls import Aggregate, FirstRows, State, WindowCall
from altneu.operators.reduce.node import (
    WHOLE,
    Around,
    Ends,
    F_co,
    Families,
    Needed,
    Part,
    Quantiles,
    Reduce,
    Reducer,
    Suffix,
    Within,
)
from altneu.types import uncompared


@dataclass(frozen=True)
class Aggregates(Reducer):
    """SQL aggregates, one output column ``#i`` each; with ``default_row`` the empty collection has a row too.

    ``shared`` lists columns that in every row are null or have one value, as the arguments of aggregates with filters.
    """

    calls: tuple[Aggregate, ...]
    default_row: bool = False
    ordered: bool = False
    shared: tuple[tuple[str, ...], ...] = ()

    def __repr__(self) -> str:
        ordered = ", ordered=True" * self.ordered + f", shared={self.shared!r}" * bool(self.shared)
        return f"Aggregates(calls={self.calls!r}, default_row={self.default_row!r}{ordered})"

    def __str__(self) -> str:
        return ", ".join(map(str, self.calls))

    def of_family(self, families: Families[F_co]) -> F_co:
        """Aggregates."""
        return families.aggregates(self.calls, default_row=self.default_row)

    @property
    def accumulable(self) -> bool:
        """Where all calls are."""
        return all(call.accumulable for call in self.calls)

    @property
    def accumulated(self) -> Aggregates:
        """The numbers of its calls."""
        return self

    @property
    def witnesses(self) -> Sequence[Mapping[str, str]]:
        """Of minima and maxima alone the rows that have them."""
        if not all(call.is_extreme for call in self.calls):
            return ()
        return [{call.arguments[0]: f"#{i}"} for i, call in enumerate(self.calls)]

    @property
    def makes_sets(self) -> bool:
        """One row a group; the row of an empty collection is made beside."""
        return not self.default_row

    def with_order(self, below: Node, key: Key) -> Aggregates:
        """Over states of which little is read: rows in the order of a column, sums, sums of distinct values."""
        if self.ordered or self.accumulable or not self._states:
            return self
        columns = [part.columns[0] for part in self._states if part.state == "sums of distinct values"]
        return replace(self, ordered=True, shared=_sharing(below, columns))

    @property
    def _states(self) -> tuple[Part, ...]:
        """Its calls by the state that they need; none where one of them reads the whole group."""
        places: dict[tuple[State, str, bool], list[int]] = {}
        shared = {column: columns[0] for columns in self.shared for column in columns}
        for i, call in enumerate(self.calls):
            state = call.state
            if state is None:
                return ()
            column = "" if state == "sums" else call.arguments[0]
            if state == "sums of distinct values":
                column = shared.get(column, column)
            places.setdefault((state, column, call.is_last), []).append(i)
        return tuple(
            Part(tuple(some), state, self._columns_of(state, some), last) for (state, _, last), some in places.items()
        )

    def _columns_of(self, state: State, places: Sequence[int]) -> tuple[str, ...]:
        """The columns that calls read, but for those of sums."""
        return () if state == "sums" else tuple(dict.fromkeys(self.calls[place].arguments[0] for place in places))

    @property
    def parts(self) -> tuple[Part, ...]:
        """Where it is ordered, but for one that reads rows in one order, which is all that is kept then."""
        return self._states if self.ordered and not self._column else ()

    @property
    def _column(self) -> str:
        states = self._states
        return states[0].columns[0] if len(states) == 1 and states[0].state in ("ends", "quantiles") else ""

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """That of the column of which alone values are asked for, nulls first."""
        return ((self._column, False, True),) if self.ordered and self._column else ()

    def needed(self, schema: pa.Schema, key: Key) -> Ends | Quantiles:
        """Values at fractions; else at the ends, where the last row says if there is any: nulls are of no value."""
        if self._states and self._states[0].state == "quantiles":
            return Quantiles(tuple(dict.fromkeys(call.fraction for call in self.calls)))
        first, last = (
            max([call.most or 1 for call in self.calls if call.from_end == end], default=0) for end in (0, 1)
        )
        return Ends(first=first, last=max(last, 1), valued=True, either=first > 0 and not last)

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, then ``#i`` of each call."""
        return [*key, *(pa.field(f"#{i}", c.type) for i, c in enumerate(self.calls))]

    def filled(self, below: Columns) -> Columns:
        """Counts and collections."""
        return frozenset(f"#{i}" for i, c in enumerate(self.calls) if c.function in NEVER_NULL)

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
        needed_calls = self._needed(needed)
        if len(needed_calls) == len(self.calls):
            return node
        reduced = replace(node, reducer=replace(self, calls=tuple(self.calls[i] for i in needed_calls)))
        names = [*node.key, *(f"#{i}" for i in needed_calls)]
        return _named(reduced, [n if n in needed else "" for n in names])

    def _needed(self, needed: Columns) -> list[int]:
        return [i for i in range(len(self.calls)) if f"#{i}" in needed]


@dataclass(frozen=True)
class Totals(Reducer):
    """Sums of each group, in columns ``#i``, of rows of any sign: a group has a row where they are not all zero.

    That is the sum of a group's elements in an abelian group; the number of rows behind a sum is not part of it.
    """

    calls: tuple[Aggregate, ...]

    def __repr__(self) -> str:
        return f"Totals(calls={self.calls!r})"

    def __str__(self) -> str:
        return f"total {', '.join(map(str, self.calls))}"

    def of_family(self, families: Families[F_co]) -> F_co:
        """Totals."""
        return families.totals(self.calls)

    accumulable = makes_sets = True

    @property
    def accumulated(self) -> Totals:
        """The sums."""
        return self

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, then ``#i`` of each sum."""
        return [*key, *(pa.field(f"#{i}", c.type) for i, c in enumerate(self.calls))]

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:
        """The key, and all that is summed up: any of it decides whether there is a row."""
        return frozenset(key).union(*(call.arguments for call in self.calls))


_MOST_SHARED = 30  # columns whose flags fit into an int


def _sharing(below: Node, columns: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Which columns are one expression, or null where a condition is not true; several of each."""
    outputs: dict[str, Expr] = {}
    if isinstance(below, Linear) and below.logic.steps and isinstance(project := below.logic.steps[-1], Project):
        outputs = dict(project.outputs)
    by_value: dict[Expr, list[str]] = {}
    for column in columns:
        value = outputs.get(column)
        if isinstance(value, Call) and value.name == "case" and len(value.args) == 2:
            value = value.args[1]
        if value is not None:
            by_value.setdefault(value, []).append(column)
    return tuple(tuple(some) for some in by_value.values() if 1 < len(some) <= _MOST_SHARED)


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

    def of_family(self, families: Families[F_co]) -> F_co:
        """Distinct rows."""
        return families.distinct()

    @property
    def keeps_sets(self) -> bool:
        """It does."""
        return True

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

    def of_family(self, families: Families[F_co]) -> F_co:
        """Counts."""
        return families.counts(self.column)

    is_whole: ClassVar[bool] = True
    accumulable = makes_sets = consolidates = True

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input, and the count."""
        return [*schema, pa.field(self.column, pa.int64(), nullable=False)]


@dataclass(frozen=True)
class Threshold(Reducer):
    """Every row as often as a Python function says for its count, or for the row and its count."""

    function: Function
    with_row: bool = False

    def __repr__(self) -> str:
        return f"Threshold(function={self.function!r}{', with_row=True' * self.with_row})"

    def __str__(self) -> str:
        return f"threshold {self.function.name}"

    def of_family(self, families: Families[F_co]) -> F_co:
        """Thresholds."""
        return families.threshold(self.function, with_row=self.with_row)

    def functions(self) -> Iterable[Function]:
        """Its function."""
        return (self.function,)

    def with_functions(self, change: Callable[[Function], Function]) -> Reducer:
        """With another one."""
        return replace(self, function=change(self.function))

    is_whole: ClassVar[bool] = True
    accumulable = True

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input."""
        return list(schema)


def _within(order: tuple[Order, ...], schema: pa.Schema, key: Key) -> tuple[Order, ...]:
    """An order of rows as one within groups of equal key: by some column, whatever it says."""
    own = tuple(column for column in order if column[0] not in key)
    return own or tuple((name, False, True) for name in schema.names if name not in key)[:1]


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

    def with_order(self, below: Node, key: Key) -> TopK:
        """Over groups in its order."""
        return self if self.ordered else replace(self, ordered=True)

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """Its own; where that is decided by the key, or says nothing, the order of all columns decides."""
        return _within(self.order, schema, key) if self.ordered else ()

    def needed(self, schema: pa.Schema, key: Key) -> Ends:
        """The first k."""
        return Ends(first=self.k)

    def of_family(self, families: Families[F_co]) -> F_co:
        """First rows."""
        return families.first_rows(self.k, self.order)

    @property
    def picks_rows(self) -> bool:
        """It does."""
        return True

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input."""
        return list(schema)

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:
        """The key and the order; ties are decided by the whole row, so only columns behind all that are read may go."""
        return up_to(below, frozenset(key) | {column for column, _, _ in self.order}, needed)


def backward_calls(calls: tuple[WindowCall, ...], schema: pa.Schema, key: Key) -> tuple[WindowCall, ...]:
    """Window functions of one order as those of its reverse that come to the same on every row; none if there are none.

    Where one tells rows apart that are equal in the order, the reverse is one of all columns, which decide their order;
    then these are no peers, so that no other function may be of peers.
    """
    order, calls = calls[0].order, tuple(call.of_rows for call in calls)
    if any(call.reads_ties for call in calls):
        named = {name for name, _, _ in order}
        rest = [field for field in schema if field.name not in named and field.name not in key]
        if any(call.reads_peers for call in calls) or any(uncompared(field.type) for field in rest):
            return ()
        order += tuple((field.name, False, True) for field in rest)
    reverse = tuple((name, not descending, not nulls_first) for name, descending, nulls_first in order)
    turned = [call.backward(reverse) for call in calls]
    return () if None in turned else tuple(call for call in turned if call is not None)


@dataclass(frozen=True)
class WindowFunctions(Reducer):
    """Every row, as often as it is there, with a column ``#w0``, ``#w1`` … of each window function.

    With ``first`` only the first rows, by a number in the order of all the functions, which look only back. If
    ``backward``, groups lie in the reverse order, in which functions of what is behind a row look back.
    """

    calls: tuple[WindowCall, ...]
    ordered: bool = False
    first: FirstRows | None = None
    backward: bool = False

    def __repr__(self) -> str:
        first = "" if self.first is None else f", first={self.first!r}"
        ordered = ", ordered=True" * self.ordered + ", backward=True" * self.backward
        return f"WindowFunctions(calls={self.calls!r}{ordered}{first})"

    def __str__(self) -> str:
        calls = ", ".join(map(str, self.calls))
        return f"window {calls}" if self.first is None else f"window {calls} where {self.first}".replace("  ", " ")

    def of_family(self, families: Families[F_co]) -> F_co:
        """Window functions."""
        return families.windows(self.calls, self.first, backward=self.backward)

    @property
    def reads_ties(self) -> bool:
        """Whether one of its calls tells rows apart that are equal in the order."""
        return any(call.reads_ties for call in self._computed)

    @property
    def _computed(self) -> tuple[WindowCall, ...]:
        """Its calls, and the number of the rows."""
        return self.calls if self.first is None else (*self.calls, self.first.number)

    def with_order(self, below: Node, key: Key) -> WindowFunctions:
        """Over groups in the order that all calls have, or its reverse.

        It is so if in this order none reads more than rows around its own and sums before.
        """
        if self.ordered or len({call.order for call in self._computed}) > 1:
            return self
        if self.needed(below.schema, key) != WHOLE:
            return replace(self, ordered=True)
        calls = backward_calls(self.calls, below.schema, key)
        backward = calls and replace(self, calls=calls).needed(below.schema, key) != WHOLE
        return replace(self, ordered=True, backward=True) if backward else self

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """That of its calls; where it is decided by the key, or says nothing, the order of all columns decides."""
        computed = backward_calls(self.calls, schema, key) if self.backward else self._computed
        return _within(computed[0].order, schema, key) if self.ordered else ()

    def needed(self, schema: pa.Schema, key: Key) -> Needed:
        """As far as two calls reach, one behind the other; and all that is behind, where one runs on.

        For the first rows these, with all of their peers where one of the functions reads peers.
        """
        if self.backward:
            return replace(self, calls=backward_calls(self.calls, schema, key), backward=False).needed(schema, key)
        if self.first is not None:
            with_ties = any(call.reads_peers for call in self._computed)
            distinct = self.first.number.call.function == "dense_rank"
            return Ends(first=self.first.k, with_ties=with_ties, distinct=distinct)
        if any(call.may_fail(schema) for call in self.calls):
            return WHOLE
        one_place = all(name in key for name, _, _ in self.calls[0].order)  # all rows of a group are peers
        if one_place and any(call.reads_peers for call in self.calls):
            return WHOLE
        wide = tuple(dict.fromkeys(call.call.arguments[0] for call in self.calls if call.sums_wide(schema)))
        far = [call for call in self.calls if call.reach is None and call.seeks is None]
        bounds = {call: call.bounds(schema) for call in far}
        running = [call for call in far if bounds[call] is None]
        bounds |= {call: call.running_bounds(schema) for call in running}
        extremes = tuple(dict.fromkeys(call.running_extreme for call in running if call.running_extreme))
        if not frozenset(key).isdisjoint((*wide, *(column for column, _ in extremes))):
            return WHOLE  # the rows of a group in an order are read without its key
        around = self._around(key, bounds)
        if around is None or any(call.runs is None for call in running):
            return WHOLE
        if not running:
            framed = far and not around.reads_others
            return Within(around.bounds, wide) if framed else replace(around, sums_of_wide=wide)
        units = max(around.units, *(2 * (call.runs or 0) for call in running))
        beside = around.values or (around.bounds and units)
        return Suffix(
            0 if beside else units,
            wide,
            max(call.first_rows for call in running),
            extremes,
            any(call.call.function == "dense_rank" for call in running),
            () if beside else around.bounds,
            replace(around, units=units) if beside else None,
            settles=all(call.settles for call in running) and not around.reads_others and not around.bounds,
        )

    def _around(self, key: Key, bounds: Mapping[WindowCall, tuple[str, ...] | None]) -> Around | None:
        """What those of its calls read that look some rows away, or have such bounds; None where it may be all rows."""
        seeking = [call for call in self.calls if call.seeks is not None]
        if None in bounds.values() or any(call.call.arguments[0] in key for call in seeking):
            return None  # a part of the key is null on all rows or on none
        values: dict[str, int] = {}
        for call in seeking:
            (name,) = call.call.arguments
            values[name] = max(values.get(name, 0), 2 * (call.seeks or 0))
        return Around(
            units=2 * max(call.reach or 0 for call in self.calls),
            values=tuple(values.items()),
            with_ties=any(call.reads_peers for call in (*seeking, *bounds)),
            bounds=tuple(dict.fromkeys(name for names in bounds.values() for name in names or ())),
        )

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """Those of the input, then ``#wi`` of each call."""
        return [*schema, *(pa.field(f"#w{i}", c.call.type) for i, c in enumerate(self.calls))]

    def filled(self, below: Columns) -> Columns:
        """Those of the input, counts, collections and places."""
        return below.union(f"#w{i}" for i, c in enumerate(self.calls) if c.call.function in NEVER_NULL)

    def reads(self, below: Node, key: Key, needed: Columns) -> Columns:
        """What the calls read; where one tells rows apart that are equal in the order, all that decides it."""
        calls = [*(self.calls[i] for i in self._needed(needed)), *self._computed[len(self.calls) :]]
        columns = frozenset(n for n in below.schema.names if n in needed).union(*(call.columns for call in calls))
        tied = [frozenset(column for column, _, _ in call.order) for call in calls if call.reads_ties]
        fixed = frozenset(key)
        return up_to(below, fixed | frozenset.intersection(*tied), columns) if tied else fixed | columns

    def fewer(self, node: Reduce, needed: Columns) -> Node:
        """Without the window functions that nobody reads; with none it is its input, or the first rows of it."""
        needed_calls = self._needed(needed)
        if len(needed_calls) == len(self.calls):
            return node
        reduced: Node = node.input
        if needed_calls or self.first is not None:
            reduced = replace(node, reducer=replace(self, calls=tuple(self.calls[i] for i in needed_calls)))
        return _named(reduced, [*node.input.schema.names, *(f"#w{i}" for i in needed_calls)])

    def _needed(self, needed: Columns) -> list[int]:
        return [i for i in range(len(self.calls)) if f"#w{i}" in needed]


@dataclass(frozen=True)
class PythonReduce(Reducer):
    """Rows that a Python function makes of each group, or of the rows that it ``needs``.

    If it is ``signed``, it is given rows whose counts are below zero as any others. If it is ``additive`` too, the row
    that it makes of some rows of a group may take their place there, as a sum those that it is of.
    """

    function: Function
    result: pa.Schema
    with_diffs: bool = False
    needs: TopK | None = None
    signed: bool = False
    additive: bool = False

    def __repr__(self) -> str:
        needs = ("" if self.needs is None else f", needs={self.needs!r}") + ", signed=True" * self.signed
        needs += ", additive=True" * self.additive
        return (
            f"PythonReduce(function={self.function!r}, result={self.result!r}, with_diffs={self.with_diffs!r}{needs})"
        )

    def __str__(self) -> str:
        return f"reduce {self.function.name}" + ("" if self.needs is None else f" of {self.needs}")

    def of_family(self, families: Families[F_co]) -> F_co:
        """Python functions."""
        first = None if self.needs is None else (self.needs.k, self.needs.order)
        return families.python(self.function, self.result, first, with_diffs=self.with_diffs, signed=self.signed)

    def with_order(self, below: Node, key: Key) -> PythonReduce:
        """Over groups in the order of the rows that it needs."""
        if self.needs is None or self.needs.ordered:
            return self
        return replace(self, needs=self.needs.with_order(below, key))

    def state_order(self, schema: pa.Schema, key: Key) -> tuple[Order, ...]:
        """That of the rows that it needs."""
        return () if self.needs is None else self.needs.state_order(schema, key)

    def needed(self, schema: pa.Schema, key: Key) -> Needed:
        """The rows that it needs; else the group."""
        return WHOLE if self.needs is None else self.needs.needed(schema, key)

    def functions(self) -> Iterable[Function]:
        """Its function."""
        return (self.function,)

    def with_functions(self, change: Callable[[Function], Function]) -> Reducer:
        """With another one."""
        return replace(self, function=change(self.function))

    def columns(self, schema: pa.Schema, key: list[pa.Field]) -> list[pa.Field]:
        """The key, and what the function says."""
        return [*key, *self.result]


def best_orders(node: Reduce) -> tuple[tuple[Order, ...], ...] | None:
    """In which orders of its input's columns a reduce reads no row but the first; None if it reads others too.

    Aggregates that are read from sums are passed over.
    """
    reducer = node.reducer
    if isinstance(reducer, TopK):
        return (tuple(line for line in reducer.order if line[0] not in node.key),) if reducer.k == 1 else None
    if not isinstance(reducer, Aggregates):
        return None
    extremes = [call for call in reducer.calls if not call.accumulable]
    if not extremes or not all(call.is_extreme for call in extremes):
        return None
    return tuple(dict.fromkeys(((call.arguments[0], call.function == "max", False),) for call in extremes))
