"""``update_time()``: the time at which a row arrived, as a further column."""

from __future__ import annotations

from altneu.errors import PlanError, TypeMismatchError
from altneu.expressions import parse
from altneu.expressions.names import UPDATE_TIME
from altneu.linear import BoundLogic, Project
from altneu.plan import ir
from altneu.types import no_key, quote_name


def with_update_time(node: ir.Node) -> ir.Node:
    """Rows with the time at which each came, in a column that no name of a user's finds.

    Raises:
        TypeMismatchError: rows that cannot be told apart.
        PlanError: rows that are there for a moment.
    """
    for f in node.schema:
        if what := no_key(f.type):
            raise TypeMismatchError(
                f"update_time() tells rows apart, and column {f.name!r} has {what}, which cannot be compared; select "
                "what you need of it first"
            )
    if ir.moments(node):
        raise PlanError(
            "update_time() depends on when rows arrive, and this collection is differentiated; use it before "
            "differentiate or after integrate"
        )
    return ir.UpdateTime(node)


def without_update_time(node: ir.Node) -> ir.Node:
    """The same without that column, where it is there."""
    names = [n for n in node.schema.names if n != UPDATE_TIME]
    if len(names) == len(node.schema.names):
        return node
    return ir.Linear(node, BoundLogic((Project(tuple((n, parse(quote_name(n), node.schema)) for n in names)),)))
