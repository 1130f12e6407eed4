"""GROUP BY ROLLUP, CUBE and GROUPING SETS: each row once for each set, with the keys that are not in the set null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

from sqlglot import exp

from altneu import ir
from altneu.errors import PlanError
from altneu.expressions import Expr, cast, literal
from altneu.expressions.parse import tree_of
from altneu.joining import columns_of
from altneu.linear import BoundLogic, Emit, Update
from altneu.sql.scope import bound
from altneu.types import LONG

SET, ID = "^set", "^grouping"  # which set, and its bits: 1 for a key that is not in it, the last key lowest
FUNCTIONS = ("grouping", "grouping_id")
_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)


@dataclass(frozen=True)
class Sets:
    """Sets of keys, by their numbers."""

    sets: tuple[frozenset[int], ...]
    count: int

    def emitted(self, node: ir.Node, keys: Sequence[tuple[Expr, str]]) -> ir.Node:
        """Each row once for each set, with a column for each key beside its own."""
        rows = columns_of(node.schema, node.schema.names)
        updates = []
        for number, chosen in enumerate(self.sets):
            values = [(n, e if i in chosen else cast(literal(None), e.type)) for i, (e, n) in enumerate(keys)]
            marks = [(SET, literal(number)), (ID, cast(literal(self._bits(chosen)), LONG))]
            updates.append(Update((*rows, *values, *marks)))
        return ir.Linear(node, BoundLogic((Emit(tuple(updates)),)))

    def _bits(self, chosen: frozenset[int]) -> int:
        return sum(1 << (self.count - 1 - i) for i in range(self.count) if i not in chosen)

    def told(self, call: exp.Anonymous, place: Sequence[int | None]) -> exp.Expr:
        """``grouping(key)`` or ``grouping_id()`` as an expression over the groups; ``place`` says which keys it names.

        Raises:
            PlanError: it names something that is no key.
        """
        if None in place:
            raise PlanError(f"`{call.sql('spark')}` names what GROUP BY does not")
        if call.name.lower() == "grouping":
            if len(place) != 1 or place[0] is None:
                raise PlanError(f"`{call.sql('spark')}`: grouping() takes one key of GROUP BY")
            shifted = f"shiftright(`{ID}`, {self.count - 1 - place[0]})"
            made = _bound_text(f"CAST({shifted} & 1L AS TINYINT)")
        elif place and list(place) != list(range(self.count)):
            raise PlanError(f"`{call.sql('spark')}`: grouping_id() takes all keys of GROUP BY in their order, or none")
        else:
            made = bound(ID)
        return made


def _bound_text(text: str) -> exp.Expr:
    """A tree whose columns are bound."""
    return tree_of(text).transform(lambda n: bound(n.name) if isinstance(n, exp.Column) else n, copy=False)


def sets_of(group: exp.Group) -> tuple[list[exp.Expr], list[frozenset[int]]] | None:
    """The keys of a GROUP BY with ROLLUP, CUBE or GROUPING SETS, and the sets of their numbers; None: it has none."""
    if not any(isinstance(part, _KINDS) for part in group.expressions):
        return None
    keys: list[exp.Expr] = []
    parts = [_sets(part, keys) for part in group.expressions]
    return keys, [frozenset().union(*chosen) for chosen in product(*parts)]


def _sets(part: exp.Expr, keys: list[exp.Expr]) -> list[frozenset[int]]:
    """The sets of one element of GROUP BY; its keys are noted."""
    if isinstance(part, exp.GroupingSets):
        return [found for one in part.expressions for found in _sets(one, keys)]
    if not isinstance(part, exp.Rollup | exp.Cube):
        return [_numbers(part, keys)]
    steps = [_numbers(one, keys) for one in part.expressions]
    if isinstance(part, exp.Rollup):
        chosen = [steps[:n] for n in range(len(steps), -1, -1)]
    else:
        chosen = [list(some) for n in range(len(steps), -1, -1) for some in combinations(steps, n)]
    return [frozenset().union(*some) for some in chosen]


def _numbers(part: exp.Expr, keys: list[exp.Expr]) -> frozenset[int]:
    """The numbers of the keys that stand together in brackets, or of one key."""
    part = part.unnest()
    together = part.expressions if isinstance(part, exp.Tuple) else [part]
    for key in together:
        if key not in keys:
            keys.append(key)
    return frozenset(keys.index(key) for key in together)


__all__ = ["FUNCTIONS", "ID", "SET", "Sets", "sets_of"]
