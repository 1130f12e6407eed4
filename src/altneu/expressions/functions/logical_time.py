"""The session's own time, which stands in the predicates of filters and is never evaluated."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from altneu.errors import TemporalPredicateError
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
