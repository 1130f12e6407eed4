"""What the clauses of a query need of the binder that binds it; ``binder`` stands above them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from sqlglot import exp

from altneu.expressions import Expr
from altneu.sql.scope import Around, Relation, Scope


@dataclass(frozen=True)
class Answer:
    """What a query gives: its relation, of which ``*`` are the outputs.

    ``empties`` are the values of its columns over no rows, None for null, where it aggregates without GROUP BY: such a
    query has one row, whatever there is to aggregate. ``order`` is that of a query whose rows are shown: columns of the
    plan, with descending and nulls first of each.
    """

    relation: Relation
    empties: tuple[Expr | None, ...] | None = None
    order: tuple[tuple[str, bool, bool], ...] = ()


class QueryBinder(Protocol):
    """Binds the queries and the expressions that stand inside a clause."""

    def query(self, tree: exp.Expr, around: Around | None = None) -> Answer:
        """Any query.

        Raises:
            PlanError: what is not supported, by name.
        """

    def table(self, tree: exp.Table) -> Relation:
        """A name in FROM."""

    def value(self, tree: exp.Expr, scope: Scope) -> tuple[Scope, exp.Expr]:
        """An expression over a relation, with what its subqueries add to that."""

    def naming(self, names: Mapping[str, Callable[[], Relation]]) -> Self:
        """A binder that knows more names, which hide those that it knew."""
