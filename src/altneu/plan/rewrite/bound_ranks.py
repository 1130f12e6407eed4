"""Rows behind the first few of a partition are not ranked, where only those up to some rank are wanted."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from functools import partial

import pyarrow as pa

from altneu.expressions import Column, Expr, Literal
from altneu.expressions.expr import Call
from altneu.linear import Filter
from altneu.linear.steps import Temporal
from altneu.operators.reduce.calls import FirstRows
from altneu.plan.ir import Linear, Node, Reduce, WindowCall, WindowFunctions
from altneu.plan.rewrite.limit_windows import TURNED, precedes
from altneu.plan.rewrite.merge_linear import merge_linear
from altneu.plan.rewrite.transform import readers, transform

_NUMBERS = ("row_number", "rank", "dense_rank")
_MOST = 2**31 - 1  # the greatest rank that there is


def bound_ranks(node: Node) -> Node:
    """Have window functions, of whose rows only those up to some rank are wanted, read only these.

    All of the functions are to be of what is before a row, or equal to it, in the order of the rank. Equal rows have
    equal ranks, so all that are equal to one of the first rows are among these. No rank is below 1: where no other
    passes, there is nothing.
    """
    node = merge_linear(node)
    counts = readers(node)

    def change(new: Node, old: Node) -> Node:
        alone = isinstance(old, Linear) and counts[old.input.fingerprint] == 1
        return _bounded(new) if alone and isinstance(new, Linear) else new

    return merge_linear(transform(node, change))


def _bounded(node: Linear) -> Node:
    window = node.input
    if not isinstance(window, Reduce) or not isinstance(reducer := window.reducer, WindowFunctions):
        return node
    tests = [test for test in node.cut.asked_first() if isinstance(test, Filter)]
    bounds = [bound for i, call in enumerate(reducer.calls) if (bound := _bound(tests, i, call)) is not None]
    for k, i in sorted(bounds):
        if k < 1:
            return Linear(window, node.cut.with_test(Filter(Literal(False, pa.bool_()))).logic)
        if reducer.first is None and _may_be_bounded(reducer.calls[i], window, reducer):
            first = replace(window, reducer=replace(reducer, first=FirstRows(reducer.calls[i], k)))
            return Linear(first, node.cut.without_first(partial(_is_known, f"#w{i}", k)))
    return node


def _bound(tests: list[Filter], i: int, call: WindowCall) -> tuple[int, int] | None:
    """The greatest number that may pass, and of which call it is."""
    if call.call.function not in _NUMBERS:
        return None
    greatest = [_greatest(test.predicate, f"#w{i}") for test in tests]
    k = min((most for most in greatest if most is not None), default=_MOST)
    return None if k >= _MOST else (k, i)


def _may_be_bounded(number: WindowCall, window: Reduce, reducer: WindowFunctions) -> bool:
    all_are_peers = all(name in window.key for name, _, _ in number.order)
    if all_are_peers and any(call.reads_peers for call in reducer.calls):
        return False
    return all(precedes(call, number, with_peers=True) for call in reducer.calls)


def _is_known(column: str, most: int, test: Filter | Temporal) -> bool:
    """Whether a test passes where a number is no greater than ``most``."""
    if not isinstance(test, Filter) or not isinstance(test.predicate, Call) or test.predicate.name not in TURNED:
        return False
    limit = None if test.predicate.name == "=" else _greatest(test.predicate, column)
    return limit is not None and limit >= most


def _greatest(test: Expr, column: str) -> int | None:
    """The greatest whole number in a column that may pass a test; None if that is not known."""
    if not isinstance(test, Call):
        return None
    if test.name == "or":
        some = [_greatest(part, column) for part in test.args]
        return None if None in some else max(most for most in some if most is not None)
    if test.name == "in":
        one, *others = test.args
        values = [other.value if isinstance(other, Literal) else math.inf for other in others]
        known = _is_number(one, column) and math.inf not in values
        return max((math.floor(v) for v in values if isinstance(v, int | Decimal)), default=0) if known else None
    if test.name not in TURNED:
        return None
    name, (left, right) = test.name, test.args
    if isinstance(left, Literal):
        name, left, right = TURNED[name], right, left
    if not isinstance(right, Literal) or not _is_number(left, column):
        return None
    if right.value is None:
        return 0
    if name in (">", ">=") or not isinstance(right.value, int | Decimal):
        return None
    return math.ceil(right.value) - 1 if name == "<" else math.floor(right.value)


def _is_number(expression: Expr, column: str) -> bool:
    """Whether it is a column, which holds whole numbers of 32 bits, or the same numbers in a type that has them all."""
    if isinstance(expression, Call) and expression.name == "cast":
        if not (pa.types.is_int64(expression.type) or pa.types.is_decimal(expression.type)):
            return False
        (expression,) = expression.args
    return isinstance(expression, Column) and expression.name == column
