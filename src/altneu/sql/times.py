"""``update_time()`` in a SELECT: a column of the one relation in FROM, computed before WHERE."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sqlglot import exp

from altneu.collections.joining import columns_of, project
from altneu.collections.timed import with_update_time
from altneu.errors import PlanError
from altneu.expressions.names import UPDATE_TIME
from altneu.sql.scope import Field, Relation, fresh
from altneu.sql.trees import name_of

TIMED = "update time"
"""The key of a SELECT tree's ``meta`` for a query that reads ``update_time()``."""


def with_times(tree: exp.Select) -> exp.Select:
    """A SELECT with each ``update_time()`` of its own, not of queries inside it, as a column."""
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
            raise PlanError(f"update_time() takes no argument, got `{call.sql('spark')}`: it belongs to the row")
        call.replace(exp.Column(this=exp.to_identifier(UPDATE_TIME, quoted=True)))
    return tree


def _own(tree: exp.Select) -> Iterator[exp.Anonymous]:
    todo: list[exp.Expr] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, exp.Anonymous) and node.name.lower() == "update_time":
            yield node
        todo += [below for below in node.iter_expressions(reverse=True) if not isinstance(below, exp.Query)]


def timed(relation: Relation | None, others: int) -> Relation:
    """The one relation of FROM with the time at which each row arrived, under a name that no query can write.

    Raises:
        PlanError: FROM has several relations (``others`` is positive) or none; with the remedy.
    """
    if others:
        raise PlanError(
            "update_time() says when a row of one table, view or query arrived, but FROM has several here: put the "
            "join into a query, SELECT *, update_time() AS came FROM (SELECT … FROM a JOIN b …) AS j, or take "
            "update_time() of one side in a query of its own"
        )
    if relation is None:
        raise PlanError(
            "update_time() says when a row of a table, a view or a query in FROM arrived, but there is no single one "
            "here: put the query into FROM, SELECT *, update_time() AS came FROM (SELECT …) AS q"
        )
    node, name = with_update_time(relation.node), fresh("^update_time()", relation.node.schema.names)
    columns = columns_of(node.schema, node.schema.names)
    node = project(node, [(name if n == UPDATE_TIME else n, value) for n, value in columns])
    return replace(relation, node=node, fields=(*relation.fields, Field("", UPDATE_TIME, name, starred=False)))
