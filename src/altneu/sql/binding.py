"""The interface of the binder for the clauses of a query; ``binder`` implements it above all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from sqlglot import exp

from altneu.expressions import Expr
from altneu.sql.scope import Around, Relation, Scope


@dataclass(frozen=True)
class Answer:
    """The result of binding a query: its relation, of which ``*`` are the outputs.

    ``empties`` are the values of its columns over no rows, None for null, where it aggregates without GROUP BY: such a
    query always has one row. ``order`` is that of a query whose rows are shown: columns of the plan, with descending
    and nulls first of each.
    """

    relation: Relation
    empties: tuple[Expr | None, ...] | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()


class QueryBinder(Protocol):
    """Binds the queries and the expressions that stand inside a clause."""

    def query(self, tree: exp.Expr, around: Around | None = None) -> Answer:
        """Any query.

        Raises:
            PlanError: something that is not supported, by name.
        """

    def table(self, tree: exp.Table) -> Relation:
        """A name in FROM."""

    def value(self, tree: exp.Expr, scope: Scope) -> tuple[Scope, exp.Expr]:
        """A resolved expression, and the scope with the columns that its subqueries add."""

    def naming(self, names: Mapping[str, Callable[[], Relation]]) -> Self:
        """A binder that knows more names, which hide those that it knew."""
