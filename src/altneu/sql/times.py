"""``update_time()`` in a SELECT: a column of the one relation in FROM, before WHERE is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp

from altneu.errors import PlanError
from altneu.expressions.names import UPDATE_TIME
from altneu.sql.scope import Field, Relation
from altneu.timed import with_update_time

TIMED = "update time"
"""Under this name a SELECT's tree says that ``update_time()`` is a column of what it reads."""


def with_times(tree: exp.Select) -> exp.Select:
    """A SELECT of its own with each ``update_time()`` as a column; those in queries inside it are theirs."""
    from altneu.sql.binder import name_of

    calls = list(_own(tree))
    if not calls:
        return tree
    tree.meta[TIMED] = True
    named = [
        exp.alias_(item, name_of(item), quoted=True, copy=False)
        if not isinstance(item, exp.Alias) and any(call in calls for call in item.find_all(exp.Anonymous))
        else item
        for item in tree.expressions
    ]
    tree.set("expressions", named)
    for call in calls:
        if call.expressions:
            raise PlanError(f"update_time() takes no argument, got `{call.sql('spark')}`: it is of the row")
        call.replace(exp.Column(this=exp.to_identifier(UPDATE_TIME, quoted=True)))
    return tree


def _own(tree: exp.Select) -> Iterator[exp.Anonymous]:
    todo: list[exp.Expr] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Anonymous) and node.name.lower() == "update_time":
            yield node
        todo += [below for below in node.iter_expressions(reverse=True) if not isinstance(below, exp.Query)]


def refuse_several(tree: exp.Select, items: Sequence[exp.Expr], others: int) -> None:
    """Refuse ``update_time()`` where FROM has not exactly one relation.

    Raises:
        PlanError: with the remedy.
    """
    if TIMED not in tree.meta:
        return
    if not items:
        raise PlanError("update_time() is about when a row of FROM came, and this SELECT has no FROM")
    if len(items) + others > 1:
        raise PlanError(
            "update_time() is about when a row of one table, view or query came, and FROM has several here: put the "
            "join into a query, SELECT *, update_time() AS came FROM (SELECT … FROM a JOIN b …) AS j, or take "
            "update_time() of one side in a query of its own"
        )


def timed(relation: Relation) -> Relation:
    """The rows of a relation with the time at which each came, under a name that is no user's."""
    field = Field("", UPDATE_TIME, UPDATE_TIME, starred=False)
    return replace(relation, node=with_update_time(relation.node), fields=(*relation.fields, field))
