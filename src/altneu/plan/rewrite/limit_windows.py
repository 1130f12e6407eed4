"""Rows behind the first few of a partition are left out before they are numbered, not afterwards."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from altneu.expressions import Column, Literal
from altneu.expressions.expr import Call
from altneu.linear import Filter
from altneu.linear.steps import Temporal
from altneu.plan.ir import Linear, Node, Reduce, TopK, WindowCall, WindowFunctions
from altneu.plan.rewrite.merge_linear import merge_linear
from altneu.plan.rewrite.transform import readers, transform

TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}


def limit_windows(node: Node) -> Node:
    """Put a top_k below window functions of whose rows only those up to some ``row_number()`` are wanted.

    All of the functions are to be of what is before a row in that order. The test of the number is then known; where
    nobody reads the number, the top_k is all that is left when columns are pruned.
    """
    node = merge_linear(node)
    counts = readers(node)

    def change(new: Node, old: Node) -> Node:
        alone = isinstance(old, Linear) and counts[old.input.fingerprint] == 1
        return _limited(new) if alone and isinstance(new, Linear) else new

    return transform(node, change)


def _limited(node: Linear) -> Linear:
    window = node.input
    if not isinstance(window, Reduce) or not isinstance(window.reducer, WindowFunctions):
        return node
    for i, call in enumerate(window.reducer.calls):
        column = f"#w{i}"
        limits = [_limit(test, column) for test in node.cut.asked_first()]
        k = min((limit for limit in limits if limit is not None), default=0)
        if call.call.function != "row_number" or k < 1 or not all(precedes(c, call) for c in window.reducer.calls):
            continue
        first = Reduce(window.input, window.key, TopK(k, call.order))
        below = window.input if _holds(window.input, first) else first
        left = node.cut.without_first(partial(_is_known, column, k))
        return Linear(replace(window, input=below), left)
    return node


def _is_known(column: str, most: int, test: Filter | Temporal) -> bool:
    """Whether a test passes where a number is no greater than ``most``."""
    limit = _limit(test, column, sure=True)
    return limit is not None and limit >= most


def _limit(test: Filter | Temporal, column: str, *, sure: bool = False) -> int | None:
    """The greatest number that passes a test of it; with ``sure`` of a test that all up to that pass."""
    if not isinstance(test, Filter) or not isinstance(test.predicate, Call) or test.predicate.name not in TURNED:
        return None
    name, (left, right) = test.predicate.name, test.predicate.args
    if isinstance(left, Literal):
        name, left, right = TURNED[name], right, left
    number = right.value if isinstance(right, Literal) else None
    if not isinstance(left, Column) or left.name != column or not isinstance(number, int) or name in (">", ">="):
        return None
    if sure and name == "=" and number != 1:
        return None
    return number - 1 if name == "<" else number


def precedes(call: WindowCall, numbered: WindowCall, *, with_peers: bool = False) -> bool:
    """Whether what a function comes to on a row depends on nothing behind it, or behind its peers, in an order."""
    if call.order != numbered.order:
        return False
    if call.frame is not None:
        return (call.frame.rows or with_peers) and isinstance(call.frame.end, int) and call.frame.end <= 0
    forward = {"lag": -call.number, "lead": call.number, "row_number": 0, "rank": 0, "dense_rank": 0}
    return forward.get(call.call.function, 1) <= 0


def _holds(node: Node, first: Reduce) -> bool:
    """Whether a collection has no rows of a partition behind some first ones anyway."""
    match node, first.reducer:
        case Reduce(_, first.key, TopK(k, order)), TopK(most, wanted):
            return k <= most and order == wanted
    return False
