"""ASOF JOIN: each row with the other side as of its timestamp, or as of when it arrived."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from altneu.collections.asof import AsOfMode, AsOfOptions, Direction, absent, as_of, check_stamp
from altneu.collections.collection import Collection
from altneu.collections.joining import padded
from altneu.errors import PlanError
from altneu.expressions import Col
from altneu.plan import ir
from altneu.sql.dialect import SYSTEM_TIME
from altneu.sql.joins import Part, keyed, links
from altneu.sql.scope import bound, columns_in, extended, renamed
from altneu.types import DATE, TIMESTAMP, TIMESTAMP_NTZ, type_name

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
    mode: str = "REVISING",
    keeps: bool,
    ties: Sequence[tuple[str, bool, bool]] = (),
) -> Part:
    """An as-of join: equalities of keys, and one comparison of timestamps, ``left.t >= right.t``.

    ``mode`` is that of ``asof_join``. REVISING: the answer follows the rows there are, and late rows correct it.
    LOCKED: each row keeps what it met when it arrived; it may be without timestamps. LOGICAL: so does each change, by
    the time of the change alone. ``ties`` is the order of the right side, where it was given one: column of the plan,
    descending, nulls first.

    Raises:
        PlanError: not exactly one comparison of both sides, or other conditions.
    """
    equalities, rest = links(conditions, left, right)
    theirs = [c for c in rest if columns_in(c) and right.has(c) and not _is_system_time(c)]
    compared = [c for c in rest if not any(c is t for t in theirs)]
    is_timed = bool(compared) or mode == "REVISING"
    if mode == "LOGICAL" and (compared or keeps or ties):
        raise PlanError(
            "ASOF JOIN ... LOGICAL joins each change with the right side at the time of the change: it takes "
            "equalities only, no comparison of timestamps, no LEFT and no ORDER BY of the right side; LOCKED has these"
        )
    if not is_timed and not equalities:
        raise PlanError(f"ASOF JOIN ... {mode} needs an equality, such as ON a.key = b.key")
    if not is_timed and ties:
        raise PlanError(
            "ASOF JOIN ... LOCKED: an ORDER BY of the right side chooses among rows of one timestamp; add a comparison "
            "of timestamps, such as a.time >= b.time"
        )
    right = right.where(theirs)
    if equalities:
        left, right, keys, late = keyed(left, right, equalities)
        if late or any(safe for _, _, safe in equalities):
            raise PlanError("ASOF JOIN: each column must be compared once, with =")
    else:
        keys = (), ()
    outputs = tuple((n, side, c) for side, part in ((0, left), (1, right)) for n, c in part.names.items())
    if mode == "LOGICAL":
        changes = Collection(left.node).differentiate().node
        return Part.of(Collection(ir.Join(changes, right.node, *keys, outputs)).integrate().node)
    stamps, direction, exact = None, _MEANS[exp.GTE][0], True
    if is_timed:
        mine, other, (direction, exact) = _compared(compared, left, right, keys[1])
        (left, stamp), (right, their_stamp) = _stamped(left, mine), _stamped(right, other)
        stamps = stamp, their_stamp
    order = [Col(exp.Ordered(this=bound(c), desc=down, nulls_first=first)) for c, down, first in ties]
    how = "left" if keeps else "inner"
    known: AsOfMode = "locked" if mode == "LOCKED" else "revising"
    options = AsOfOptions(known, stamps, direction, None, exact, how, True, order or None)
    joined = as_of((left.node, right.node), keys, outputs, options)
    alone = absent(left.node, (*keys[0], *(stamps or ())[:1])) if keeps else None
    if alone is not None:
        mine_alone = {n: c for n, side, c in outputs if side == 0}
        joined = ir.Concat((joined, padded(alone, joined.schema, mine_alone)))
    return Part.of(joined)


def _compared(
    conditions: Sequence[exp.Expr], left: Part, right: Part, keys: Sequence[str]
) -> tuple[exp.Expr, exp.Expr, tuple[Direction, bool]]:
    """The timestamps of both sides, and what their comparison means."""
    if len(conditions) == 1 and _is_system_time(conditions[0]):
        (at,) = conditions[0].expressions
        return at, _version_of(right, at, left, keys), _MEANS[exp.GTE]
    if len(conditions) != 1 or type(conditions[0]) not in _MEANS:
        raise PlanError(
            "ASOF JOIN needs equalities and one comparison of timestamps, such as "
            "ON a.key = b.key AND a.time >= b.time; put other conditions into WHERE"
        )
    comparison, kind = conditions[0], type(conditions[0])
    mine, other = comparison.this, comparison.expression
    if right.has(mine) and left.has(other):
        mine, other, kind = other, mine, _TURNED[kind]
    if not all(columns_in(tree) and side.has(tree) for side, tree in ((left, mine), (right, other))):
        raise PlanError(
            "ASOF JOIN: a comparison must have a timestamp of each side, such as a.time >= b.time, "
            f"got {_text(comparison)}; put other conditions into WHERE"
        )
    return mine, other, _MEANS[kind]


def _is_system_time(condition: exp.Expr) -> bool:
    return isinstance(condition, exp.Anonymous) and condition.name == SYSTEM_TIME


def _version_of(right: Part, at: exp.Expr, left: Part, keys: Sequence[str]) -> exp.Expr:
    """The column that says since when a right row holds: the only column of its type that is not a key.

    Raises:
        PlanError: the left side's time is no timestamp of it, or there are several such columns, or none.
    """
    remedy = "write ASOF JOIN ... ON a.key = b.key AND a.time >= b.time, which names both"
    if not (columns_in(at) and left.has(at)) or (kind := left.expr(at).type) not in (DATE, TIMESTAMP, TIMESTAMP_NTZ):
        raise PlanError(
            "FOR SYSTEM_TIME AS OF must be a DATE or TIMESTAMP of the left side, or PROCTIME(), which is when a row "
            f"arrives; got `{at.sql('spark')}`; for other times {remedy}"
        )
    of_type = [n for n, c in right.names.items() if right.node.schema.field(c).type == kind and c not in keys]
    if len(of_type) != 1:
        found = f"it has {', '.join(of_type)}" if of_type else "it has none"
        raise PlanError(
            f"FOR SYSTEM_TIME AS OF `{at.sql('spark')}` needs a right side with one column of type {type_name(kind)} "
            f"beside its key, since when a row holds; {found}: {remedy}"
        )
    return bound(of_type[0])


def _stamped(part: Part, tree: exp.Expr) -> tuple[Part, str]:
    """A side with its timestamp in a column."""
    value = part.expr(tree)
    check_stamp(f"ASOF JOIN: {_text(tree)}", value.type)
    if value.is_column:
        return part, value.column_name
    name = f"^{renamed(tree, part.names).sql('spark')}"
    return Part(extended(part.node, [(name, value)]), part.names), name


def _text(tree: exp.Expr) -> str:
    """A resolved tree in an error, whose columns have the names of the query, a dot included."""
    return tree.sql("spark").replace("`", "")
