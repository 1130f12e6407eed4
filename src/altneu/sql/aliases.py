"""Aliases that other items of the same SELECT read: ``a + 1 AS b, b * b AS c``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice

from sqlglot import exp

from altneu.errors import PlanError
from altneu.expressions import Expr, has_window, parse
from altneu.sql import windows
from altneu.sql.binding import QueryBinder
from altneu.sql.scope import Scope, bound, fresh, is_bound
from altneu.sql.trees import has_aggregate, has_subquery, name_of, unaliased

_WRITTEN = 32
"""Nodes of an item that is written out where its alias is read, so that a constant is one there, too."""


class Aliases:
    """The items of a SELECT by their aliases; those that are not small are columns for the items that read them.

    Written out, ``a + a AS b, b + b AS c, …`` would double with each item. ``values`` are those of the columns that
    have been computed.
    """

    def __init__(self, trees: dict[str, exp.Expr], places: dict[str, int]) -> None:
        self._trees, self._places = trees, places  # by column, from left to right
        self.values: dict[str, Expr] = {}

    @classmethod
    def of(cls, items: Sequence[exp.Expr], trees: Sequence[exp.Expr], scope: Scope) -> tuple[Aliases, list[exp.Expr]]:
        """The aliases of a SELECT, and its items with those of the items before each put in.

        Raises:
            PlanError: several items have a name that is read.
        """
        before: list[tuple[str, exp.Expr]] = []
        columns: dict[str, exp.Expr] = {}
        places: dict[str, int] = {}
        result: list[exp.Expr] = []
        for item, tree in zip(items, trees, strict=True):
            value = tree
            if before and not is_bound(tree):
                known = [n.lower() for n, _ in before]
                for column in [n for n in tree.find_all(exp.Column) if not n.table and known.count(n.name.lower()) > 1]:
                    if not scope.is_local(column):
                        raise PlanError(f"{column.name!r} is the name of several columns before it; rename one")
                value = unaliased(tree, before, scope.is_local)
            result.append(value)
            if isinstance(item, exp.Alias) and not is_bound(item.this):
                if next(islice(value.walk(), _WRITTEN, None), None) is None:
                    before.append((name_of(item), value))
                    continue
                name = fresh(name_of(item), (*scope.relation.node.schema.names, *columns))
                columns[name], places[name] = value, len(result) - 1
                before.append((name_of(item), bound(name)))
        return cls(columns, places), result

    def over(self, trees: Sequence[exp.Expr]) -> Aliases:
        """The same aliases of the items as they are over groups."""
        return Aliases({name: trees[place] for name, place in self._places.items()}, self._places)

    def behind(self, trees: Iterable[exp.Expr]) -> list[str]:
        """The columns that expressions read, and those that these read, from left to right."""
        read = {c.name for tree in trees for c in tree.find_all(exp.Column) if is_bound(c)} if self._trees else set()
        found = []
        for name, tree in reversed(self._trees.items()):
            if name in read:
                found.append(name)
                read |= {c.name for c in tree.find_all(exp.Column) if is_bound(c)}
        return found[::-1]

    def aggregate(self, tree: exp.Expr) -> bool:
        """Whether an item aggregates, or one whose alias it reads."""
        return any(map(has_aggregate, [tree, *(self._trees[name] for name in self.behind([tree]))]))

    def computed(self, binder: QueryBinder, scope: Scope, trees: Iterable[exp.Expr]) -> Scope:
        """A scope with the columns that expressions read.

        Raises:
            PlanError: something in their items that is not supported.
        """
        for name in self.behind(trees):
            if name in scope.relation.node.schema.names:
                continue
            scope, tree = binder.value(self._trees[name], scope)
            scope, (tree,) = windows.computed(scope, [tree])
            self.values[name] = value = parse(tree, scope.relation.node.schema)
            scope = Scope(scope.relation.extended([(name, value)]), scope.around)
        return scope

    def read(self, trees: Sequence[exp.Expr]) -> list[exp.Expr]:
        """Items over these columns: those that others read are such a column."""
        names = {self._places[name]: name for name in self.behind(trees)}
        return [bound(names[place]) if place in names else tree for place, tree in enumerate(trees)]

    def before_rows_are_chosen(self, trees: Sequence[exp.Expr]) -> list[exp.Expr]:
        """Of items those that are computed over all rows, also those that QUALIFY drops: windows, and subqueries."""
        return [tree for tree in trees if _is_of_all_rows(self._trees.get(tree.name, tree) if is_bound(tree) else tree)]


def _is_of_all_rows(tree: exp.Expr) -> bool:
    return has_window(tree) or has_subquery(tree)
