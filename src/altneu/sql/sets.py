"""GROUP BY ROLLUP, CUBE and GROUPING SETS: each row once for each set, with the keys that are not in the set null."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import prod

from sqlglot import exp

from altneu.errors import PlanError
from altneu.expressions.parse import tree_of
from altneu.sql.quantified import as_struct
from altneu.sql.scope import bound

ID = "^grouping"  # the grouping id: a bit for each key, 1 where it is not in the set, the last key lowest
FUNCTIONS = ("grouping", "grouping_id")
_VIRTUAL = "grouping__id"
MOST_SETS = 4_096
"""Grouping sets of one GROUP BY: a CUBE of twelve keys has so many."""
_KINDS = (exp.Rollup, exp.Cube, exp.GroupingSets)


@dataclass(frozen=True)
class Sets:
    """Sets of the keys of a GROUP BY, by their numbers."""

    sets: tuple[frozenset[int], ...]
    count: int

    def translated(self, call: exp.Anonymous, place: Sequence[int | None]) -> exp.Expr:
        """``grouping(key)`` or ``grouping_id()`` as an expression over the groups; ``place`` says which keys it names.

        Raises:
            PlanError: it names something other than a key.
        """
        if None in place:
            raise PlanError(f"`{call.sql('spark')}` names a column that is not in GROUP BY")
        if call.name.lower() == "grouping":
            if len(place) != 1 or place[0] is None:
                raise PlanError(f"`{call.sql('spark')}`: grouping() needs one key of GROUP BY")
            shifted = f"shiftright(`{ID}`, {self.count - 1 - place[0]})"
            result = _bound_text(f"CAST({shifted} & 1L AS TINYINT)")
        elif place and list(place) != list(range(self.count)):
            raise PlanError(f"`{call.sql('spark')}`: grouping_id() needs all keys of GROUP BY in their order, or none")
        else:
            result = bound(ID)
        return result


def _bound_text(text: str) -> exp.Expr:
    """A tree whose columns are bound."""
    return tree_of(text).transform(lambda n: bound(n.name) if isinstance(n, exp.Column) else n, copy=False)


def with_grouping_id(tree: exp.Select) -> exp.Select:
    """A SELECT with grouping sets, changed in place: its ``grouping__id`` is ``grouping_id()``."""
    group = tree.args.get("group")
    several = sets_of(group) if group is not None else None
    if several == ([], [frozenset()]):  # all rows together, of which there is one row also where there are none
        tree.set("group", None)
        tree.set("having", tree.args.get("having") or exp.Having(this=exp.true()))
    elif several is not None:
        for column in [c for c in tree.find_all(exp.Column) if c.name.lower() == _VIRTUAL and not c.table]:
            if column.find_ancestor(exp.Select) is tree:
                column.replace(exp.Anonymous(this="grouping_id", expressions=[]))
    return tree


def sets_of(group: exp.Group) -> tuple[list[exp.Expr], list[frozenset[int]]] | None:
    """The keys of a GROUP BY with ROLLUP, CUBE or GROUPING SETS, and the sets of their numbers; None: it has none."""
    behind = _behind(group)
    if behind is None and not any(isinstance(part, _KINDS) for part in group.expressions):
        return None
    keys: list[exp.Expr] = []
    if behind is not None:  # the keys are in the order in which they stand before it
        _numbers(exp.Tuple(expressions=group.expressions), keys)
    written = [behind] if behind is not None else group.expressions
    count = prod(map(_count, written))
    if count > MOST_SETS:
        raise PlanError(
            f"GROUP BY must stand for at most {MOST_SETS:,} grouping sets, got {count:,}; name those that are needed "
            "in GROUPING SETS"
        )
    parts = [_sets(part, keys) for part in written]
    return keys, [frozenset().union(*chosen) for chosen in product(*parts)]


def _count(part: exp.Expr) -> int:
    """How many sets one element of GROUP BY stands for."""
    if isinstance(part, exp.GroupingSets):
        return sum(map(_count, part.expressions))
    steps = len(part.expressions)
    return 2**steps if isinstance(part, exp.Cube) else steps + 1 if isinstance(part, exp.Rollup) else 1


def _behind(group: exp.Group) -> exp.Expr | None:
    """What stands behind the keys, ``WITH ROLLUP``, ``WITH CUBE`` or ``GROUPING SETS (...)``, with the keys in it.

    Raises:
        PlanError: there are several.
    """
    found = [part for name in ("rollup", "cube", "grouping_sets") for part in group.args.get(name) or ()]
    if not found:
        return None
    if len(found) > 1 or any(isinstance(part, _KINDS) for part in group.expressions):
        raise PlanError("GROUP BY has one of WITH ROLLUP, WITH CUBE and GROUPING SETS behind its keys, got several")
    (behind,) = found
    if isinstance(behind, exp.GroupingSets):
        return behind
    return type(behind)(expressions=[key.copy() for key in group.expressions])


def _sets(part: exp.Expr, keys: list[exp.Expr]) -> list[frozenset[int]]:
    """The sets of one element of GROUP BY; its keys are added to ``keys``."""
    if isinstance(part, exp.GroupingSets):
        return [chosen_keys for one in part.expressions for chosen_keys in _sets(one, keys)]
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
    together = [as_struct(key) for key in (part.expressions if isinstance(part, exp.Tuple) else [part])]
    for key in together:
        if key not in keys:
            keys.append(key)
    return frozenset(keys.index(key) for key in together)


__all__ = ["FUNCTIONS", "ID", "Sets", "sets_of", "with_grouping_id"]
