"""ASOF JOIN: each row with the row of the other side that is nearest to its timestamp."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from altneu.collections.asof import AsOfOptions, Direction, absent, as_of
from altneu.collections.joining import padded
from altneu.errors import PlanError
from altneu.expressions import Col
from altneu.plan import ir
from altneu.sql.joins import Part, keyed, links
from altneu.sql.scope import bound, columns_in, extended, renamed

_TURNED: dict[type[exp.Expr], type[exp.Expr]] = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.LTE: exp.GTE, exp.LT: exp.GT}
_MEANS: dict[type[exp.Expr], tuple[Direction, bool]] = {
    exp.GTE: ("backward", True),
    exp.GT: ("backward", False),
    exp.LTE: ("forward", True),
    exp.LT: ("forward", False),
}


def asof(
    left: Part,
    right: Part,
    conditions: Sequence[exp.Expr],
    *,
    keeps: bool,
    ties: Sequence[tuple[str, bool, bool]] = (),
) -> Part:
    """An as-of join: equalities of keys, and one comparison of timestamps, ``left.t >= right.t``.

    The answer follows the rows there are: late rows correct it (``mode="revising"`` of ``asof_join``). ``ties`` is the
    order of the right side, where it was given one: column of the plan, descending, nulls first.

    Raises:
        PlanError: not exactly one comparison of both sides, or other conditions.
    """
    equalities, rest = links(conditions, left, right)
    theirs = [c for c in rest if columns_in(c) and right.has(c)]
    compared = [c for c in rest if not any(c is t for t in theirs)]
    if len(compared) != 1 or type(compared[0]) not in _MEANS:
        raise PlanError(
            "ASOF JOIN needs equalities and one comparison of timestamps, such as "
            "ON a.key = b.key AND a.time >= b.time; put other conditions into WHERE"
        )
    right = right.where(theirs)
    comparison, kind = compared[0], type(compared[0])
    mine, other = comparison.this, comparison.expression
    if right.has(mine) and left.has(other):
        mine, other, kind = other, mine, _TURNED[kind]
    if not (left.has(mine) and right.has(other)):
        raise PlanError(f"ASOF JOIN: `{comparison.sql('spark')}` does not compare one side with the other")
    if equalities:
        left, right, keys, late = keyed(left, right, equalities)
        if late or any(safe for _, _, safe in equalities):
            raise PlanError("ASOF JOIN: each column must be compared once, with =")
    else:
        keys = (), ()
    left, stamp = _stamped(left, mine)
    right, their_stamp = _stamped(right, other)
    direction, exact = _MEANS[kind]
    how = "left" if keeps else "inner"
    order = [Col(exp.Ordered(this=bound(c), desc=down, nulls_first=first)) for c, down, first in ties]
    options = AsOfOptions("revising", (stamp, their_stamp), direction, None, exact, how, True, order or None)
    outputs = tuple((n, side, c) for side, part in ((0, left), (1, right)) for n, c in part.names.items())
    joined = as_of((left.node, right.node), keys, outputs, options)
    alone = absent(left.node, (*keys[0], stamp)) if keeps else None
    if alone is not None:
        known = {n: c for n, side, c in outputs if side == 0}
        joined = ir.Concat((joined, padded(alone, joined.schema, known)))
    return Part.of(joined)


def _stamped(part: Part, tree: exp.Expr) -> tuple[Part, str]:
    """A side with its timestamp in a column."""
    value = part.expr(tree)
    if value.is_column:
        return part, value.column_name
    name = f"^{renamed(tree, part.names).sql('spark')}"
    return Part(extended(part.node, [(name, value)]), part.names), name
