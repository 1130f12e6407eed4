"""The session's own time and the time at which a row came: both are given by plans and never evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from altneu.errors import TemporalPredicateError, UpdateTimeError
from altneu.expressions.registry import Typing, register

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Logical time"


def _rule(args: Sequence[Expr]) -> Typing:
    raise TemporalPredicateError(
        "logical_now() stands in the predicate of a filter only, alone on one side of a comparison with a bigint: "
        'filter("logical_now() < stop"). A value that changes with every tick is no column, no key and no argument: '
        "use a column that holds the time; filter before a join, a group or an order"
    )


@register(
    "logical_now",
    rule=_rule,
    style="vector",
    group=GROUP,
    usage="logical_now()",
    doc="The session's time in ticks, a bigint. In the predicate of a filter only, compared by =, <, <=, >, >= or "
    "BETWEEN with an expression without it: the filter then bounds the times at which a row exists.",
    fold=False,
)
def logical_now(call: Call, count: int) -> NoReturn:
    """Never called: a filter turns each comparison into a bound when the plan is built."""
    raise AssertionError(f"{call.text} is a bound of a filter, not a value")


def _no_place(args: Sequence[Expr]) -> Typing:
    raise UpdateTimeError


@register(
    "update_time",
    rule=_no_place,
    style="vector",
    group=GROUP,
    usage="update_time()",
    doc="The session's time at which this copy of the row came into the collection, a bigint. In the linear verbs and "
    "in agg; in SQL in a SELECT over one table, view or query. [update_time.md](update_time.md) says which copy a "
    "retraction takes.",
    fold=False,
)
def update_time(call: Call, count: int) -> NoReturn:
    """Never called: a plan gives it as a column."""
    raise AssertionError(f"{call.text} is a column, not a call")
