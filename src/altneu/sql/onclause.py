"""ON with subqueries: the pairs of rows that meet it, and what decides which rows are in one."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from altneu.collections.joining import columns_of, project
from altneu.expressions import parse
from altneu.sql.binding import QueryBinder
from altneu.sql.joins import Part, meet
from altneu.sql.scope import Relation, Scope, bound, columns_in
from altneu.sql.subqueries import Subqueries


class Pairs:
    """The pairs of rows of two sides that meet resolved ``conditions``, and others that have subqueries.

    ``scope`` is what names mean over both sides. Of the others ``nested`` are those that have to see both sides; one
    that reads the right side alone is applied to ``right``, if rows of that are not kept. ``read`` are the columns
    that decide whether two rows are a pair.
    """

    def __init__(
        self, binder: QueryBinder, scope: Scope, left: Part, right: Part, conditions: Sequence[exp.Expr]
    ) -> None:
        self.binder, self.scope, self.left, self.right, self.conditions = binder, scope, left, right, conditions
        self.nested: list[exp.Expr] = []
        self.read = {n for c in conditions for n in columns_in(c)}

    def test(self, conditions: Sequence[exp.Expr], relation: Relation | None) -> None:
        """Add conditions with subqueries; ``relation`` is the right side, if a condition may be applied there."""
        for condition in conditions:
            read = self._columns_read(condition)
            if relation is not None and read <= self.right.names.keys():
                lifted = Subqueries(self.binder, Scope(relation))
                lifted.where(condition)
                relation = lifted.scope.relation
                self.right = Part(relation.node, self.right.names)
            else:
                self.read |= read
                self.nested.append(condition)

    def _columns_read(self, condition: exp.Expr) -> set[str]:
        """The columns of both sides, and those carried of the query around, that a condition reads."""
        lifted = self._lifted(meet(self.left, self.right, self.conditions))
        lifted.where(condition)
        outside = [n for n in condition.walk(prune=lambda n: isinstance(n, exp.Query)) if isinstance(n, exp.Column)]
        return lifted.taken | {self.scope.column(column)[0] for column in outside}

    def _lifted(self, met: Part) -> Subqueries:
        return Subqueries(self.binder, Scope(self.scope.relation.with_node(met.node), self.scope.around))

    @property
    def met(self) -> Part:
        """The pairs."""
        met = meet(self.left, self.right, self.conditions)
        lifted = self._lifted(met)
        for condition in self.nested:
            lifted.where(condition)
        node = lifted.scope.relation.node
        return Part.of(project(node, columns_of(node.schema, met.node.schema.names)))


def null_unless(part: Part, columns: Sequence[str], conditions: Sequence[exp.Expr]) -> Part:
    """Rows with nulls in some columns, unless conditions are true."""
    schema = part.node.schema
    outputs = []
    for name in schema.names:
        tree: exp.Expr = bound(name)
        if name in columns:
            tree = exp.Case(ifs=[exp.If(this=exp.and_(*(c.copy() for c in conditions), copy=False), true=tree)])
        outputs.append((name, parse(tree, schema)))
    return Part.of(project(part.node, outputs))


__all__ = ["Pairs", "null_unless"]
