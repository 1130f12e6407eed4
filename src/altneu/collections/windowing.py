"""From window functions as they are written to plans: one reduce for each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeGuard

from altneu.collections.grouping import aggregate_of
from altneu.collections.remembering import linear
from altneu.expressions import AggregateCall, Call, Column, Expr, WindowExpr
from altneu.expressions.aggregate import mark_of_call
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.window import WindowCall, WindowFrame
from altneu.linear import BoundLogic, Project
from altneu.plan import ir
from altneu.types import DOUBLE, FLOAT, LONG, mark_of

Outputs = list[tuple[str, Expr]]


def with_windows(node: ir.Node, exprs: Sequence[tuple[str, WindowExpr]], keep: Sequence[str] = ()) -> ir.Node:
    """Some columns of a collection, and expressions in which window functions stand.

    Shape:  as many rows as before: the columns ``keep``, then one column for each of ``exprs``.
    Cost:   for each distinct partition one exchange; its rows are kept in each order, and read around what changes, or
            without an order and re-read (``plan.rewrite.split_windows``, ``order_groups``).
    """
    plan = _Plan(node.schema.names)
    for _, expr in exprs:
        for call in expr.calls:
            plan.add(call)
    columns = plan.columns(node)
    result = _project(node, columns) if len(columns) > len(node.schema) else node
    for step in plan.steps:
        reduced = ir.Reduce(result, step.key, ir.WindowFunctions(tuple(step.calls)))
        outputs = [*_all(result), *((name, _column(reduced, f"#w{i}")) for i, name in enumerate(step.names))]
        result = _project(reduced, outputs)
    outputs = [(name, _column(result, name)) for name in keep]
    for name, expr in exprs:
        results = [(_column(result, plan.name_of[call]), mark_of_call(call.call)) for call in expr.calls]
        places = {f"#w{i}": replace(column, mark=mark or column.mark) for i, (column, mark) in enumerate(results)}
        outputs.append((name, expr.result.substitute(places)))
    return _project(result, outputs)


@dataclass
class _Step:
    """One partition: the columns that hold it, the calls, and what their results are called."""

    key: tuple[str, ...]
    calls: list[ir.WindowCall] = field(default_factory=list)
    names: list[str] = field(default_factory=list)


class _Plan:
    """What is computed before, and the steps; every distinct call once."""

    def __init__(self, names: Sequence[str]) -> None:
        self.taken = set(names)
        self.computed: dict[Expr, str] = {}
        self.by_key: dict[frozenset[str], _Step] = {}
        self.name_of: dict[WindowCall, str] = {}

    @property
    def steps(self) -> list[_Step]:
        """In the order of first use."""
        return [*self.by_key.values()]

    def columns(self, node: ir.Node) -> Outputs:
        """All columns of a collection, and those that are computed of them."""
        return [*_all(node), *((name, expr) for expr, name in self.computed.items())]

    def add(self, call: WindowCall) -> None:
        """Plan a call."""
        if call in self.name_of:
            return
        key = tuple(dict.fromkeys(self._place(p) for p in call.window.partition))
        order: dict[str, tuple[str, bool, bool]] = {}
        for one in call.window.order:
            name = self._place(one.expr)
            order.setdefault(name, (name, one.descending, one.nulls_first))
        aggregate = replace(aggregate_of(_as_they_are(call.call), self._place), text=call.sql)
        step = self.by_key.setdefault(frozenset(key), _Step(key))
        step.calls.append(
            ir.WindowCall(aggregate, (*order.values(),), self._frame(call.frame), call.number, call.ignore_nulls)
        )
        self.name_of[call] = self._fresh("#win")
        step.names.append(self.name_of[call])

    def _frame(self, frame: WindowFrame | None) -> ir.Frame | None:
        if frame is None:
            return None
        return ir.Frame(frame.rows, *(self._place(b) if isinstance(b, Expr) else b for b in (frame.start, frame.end)))

    def _place(self, expr: Expr) -> str:
        """The column that holds an expression."""
        if expr.is_column:
            return expr.column_name
        if expr not in self.computed:
            self.computed[expr] = self._fresh("#of")
        return self.computed[expr]

    def _fresh(self, prefix: str) -> str:
        name = next(name for i in count() if (name := f"{prefix}{i}") not in self.taken)
        self.taken.add(name)
        return name


def _as_they_are(call: AggregateCall) -> AggregateCall:
    """Sums take numbers of any width, so that none are kept twice."""
    if call.function not in ("sum", "avg"):
        return call
    return replace(call, args=tuple(a.args[0] if _only_widens(a) else a for a in call.args))


def _only_widens(expr: Expr) -> TypeGuard[Call]:
    if not isinstance(expr, Call) or expr.name != "cast" or not expr.implicit:
        return False
    kind = expr.args[0].type
    return (kind in INTEGRAL and expr.type == LONG) or (kind == FLOAT and expr.type == DOUBLE)


def _all(node: ir.Node) -> Outputs:
    return [(name, _column(node, name)) for name in node.schema.names]


def _column(node: ir.Node, name: str) -> Column:
    f = node.schema.field(name)
    return Column(f.name, f.type, f.nullable, mark_of(f))


def _project(node: ir.Node, outputs: Outputs) -> ir.Node:
    return linear(node, BoundLogic((Project(tuple(outputs)),)))
