"""Functions of groups in an order read them from an arrangement that another function keeps in that order.

What each keeps follows from its own plan: the columns that it reads, in the order that it asks for. So ``max(v)``, the
first ten rows by ``v`` and ``median(v)`` would keep the rows three times. Where a collection lies in an order that
serves a function (``operators.reduce.asked``) and has the function's columns, the function reads it there. That depends
on what a session keeps when a view is added, as delta joins do; a view remembers it by the columns and the orders.

Only what is made of one collection by the same steps is compared, up to the columns that are chosen of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.expressions import Column
from altneu.linear import BoundLogic, Outputs, Project
from altneu.operators.node import Key
from altneu.operators.reduce.asked import Asked, asked_of
from altneu.plan.ir import Linear, Node, Reduce, coordinates, free_level, moments, walk
from altneu.plan.rewrite.transform import transform

Orders = Mapping[str, Mapping[str, Any]]
"""What some reduces read in place of their inputs, by the fingerprints that these reduces had, as JSON.

Each has ``columns``, pairs of a name and a column of the collection below (None: all of its columns, by their names),
and ``orders``, each a list of (column, descending, nulls first).
"""


@dataclass(frozen=True)
class Kept:
    """A collection whose rows are kept by a key and in an order."""

    node: Node
    key: Key
    order: tuple[Order, ...]

    @property
    def rank(self) -> tuple[int, int, str]:
        """Of two in one plan that could serve each other, the greater does."""
        return len(self.node.schema), len(self.order), self.node.fingerprint


def kept_orders(roots: Iterable[Node]) -> list[Kept]:
    """What some plans keep."""
    found: dict[Kept, None] = {}
    for node in walk(*roots):
        if not isinstance(node, Reduce) or not _has_one_time(node):
            continue
        if node.orders:
            (below,) = node.input.inputs
            found |= dict.fromkeys(Kept(below, node.key, order) for order in node.orders)
        else:
            found |= dict.fromkeys(
                Kept(node.input, node.key, one.order) for one in asked_of(node) if _is_all(node, one)
            )
    return [*found]


def _has_one_time(node: Node) -> bool:
    """Whether its times are those of the session, which are totally ordered."""
    return free_level(node) is None and not coordinates(node) and not moments(node)


def _is_all(node: Reduce, asked: Asked) -> bool:
    """Whether what it would keep is its input, and not some columns of it."""
    return len(asked.columns) + len(node.key) == len(node.input.schema)


def share_orders(root: Node, others: Sequence[Node] = ()) -> tuple[Node, Orders]:
    """The plan with reduces that read what other plans keep, or others of this plan; and which these are.

    Law:    the plans before and after give the same updates (tests/session/test_shared_orders.py).
    """
    orders: dict[str, Mapping[str, Any]] = {}
    asking = [node for node in walk(root) if isinstance(node, Reduce) and _has_one_time(node) and asked_of(node)]
    if not asking:
        return root, orders
    there = {node.fingerprint for node in walk(*others)}
    kept, own = kept_orders(others), kept_orders([root])
    for node in asking:
        if not node.orders and node.fingerprint not in there:
            best = max(_offers(node, kept, own), key=lambda offer: offer[0], default=None)
            if best is not None:
                orders[node.fingerprint] = best[1]
    return with_orders(root, orders), orders


def _offers(node: Reduce, kept: Sequence[Kept], own: Sequence[Kept]) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """The collections that serve a reduce: how many of its orders, and how."""
    asked = asked_of(node)
    mine = [Kept(node.input, node.key, one.order) for one in asked]
    if any(_same(one, other) for one in mine for other in kept):
        return
    for below in {one.node.fingerprint: one.node for one in [*kept, *own] if asked and one.key == node.key}.values():
        _, columns = _parted(below)
        narrow = _narrowed(node.input, below)
        if narrow is None:
            continue
        names = {name: one.column_name for name, one in narrow.outputs if one.is_column}
        serving = []
        for one, alone in zip(asked, mine, strict=True):
            offered = [*kept, *(other for other in own if other.rank > alone.rank)]
            orders = [other.order for other in offered if _same(replace(other, order=()), Kept(below, node.key, ()))]
            serving += [o for o in orders if one.needed_in(names, node.key, below.schema, o) is not None][:1]
        if serving:
            plain = columns and [[name, expression.column_name] for name, expression in columns]
            used = [[list(line) for line in order] for order in dict.fromkeys(serving)]
            yield len(serving), {"columns": plain, "orders": used}


def _same(one: Kept, other: Kept) -> bool:
    return (one.node.fingerprint, one.key, one.order) == (other.node.fingerprint, other.key, other.order)


def _parted(node: Node) -> tuple[Node, Outputs | None]:
    """A collection, and which of its columns a node has; None if it has all of them."""
    if not isinstance(node, Linear) or not node.logic.steps or not isinstance(last := node.logic.steps[-1], Project):
        return node, None
    rest = BoundLogic(node.logic.steps[:-1], node.logic.delay)
    return (Linear(node.input, rest) if rest else node.input), last.outputs


def _narrowed(node: Node, below: Node) -> Project | None:
    """What makes a node of another that has columns of the same collection; None where that is impossible."""
    (mine, outputs), (theirs, columns) = _parted(node), _parted(below)
    if mine.fingerprint != theirs.fingerprint or (columns and not all(one.is_column for _, one in columns)):
        return None
    schema = below.schema
    names = {one.column_name: name for name, one in columns} if columns else {name: name for name in schema.names}
    instead = {old: _column(schema, name) for old, name in names.items()}
    if outputs is None:
        outputs = tuple((name, _column(mine.schema, name)) for name in mine.schema.names)
    if not all(one.columns <= instead.keys() for _, one in outputs):
        return None
    return Project(tuple((name, one.substitute(instead)) for name, one in outputs))


def _column(schema: pa.Schema, name: str) -> Column:
    field = schema.field(name)
    return Column(name, field.type, field.nullable)


def with_orders(root: Node, orders: Orders) -> Node:
    """The plan in which some reduces read what was chosen for them."""

    def change(new: Node, old: Node) -> Node:
        if not isinstance(new, Reduce) or old.fingerprint not in orders:
            return new
        choice = orders[old.fingerprint]
        below, _ = _parted(new.input)
        if choice["columns"] is not None:
            outputs = tuple((name, _column(below.schema, column)) for name, column in choice["columns"])
            below = Linear(below, BoundLogic((Project(outputs),)))
            below = _merged(below)
        narrow = _narrowed(new.input, below)
        assert narrow is not None
        kept = tuple(tuple((name, down, first) for name, down, first in order) for order in choice["orders"])
        return replace(new, input=Linear(below, BoundLogic((narrow,))), orders=kept)

    return transform(root, change) if orders else root


def without_orders(root: Node) -> Node:
    """The plan in which each reduce keeps its own input, for a session that has other inputs."""
    return transform(root, lambda new, _: replace(new, orders=()) if isinstance(new, Reduce) and new.orders else new)


def _merged(node: Linear) -> Linear:
    """With the steps below it as one."""
    below = node.input
    if not isinstance(below, Linear) or not below.logic.may_be_followed_by(node.logic):
        return node
    return Linear(below.input, below.logic.followed_by(node.logic))
