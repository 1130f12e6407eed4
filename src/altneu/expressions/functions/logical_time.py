"""The session's own time, and the time at which a row entered a collection: plans supply both."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from altneu.errors import TemporalPredicateError, UpdateTimeError
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Logical time")


def _rule(_args: Arguments) -> Typing:
    raise TemporalPredicateError(
        "logical_now() belongs in the predicate of a filter, alone on one side of a comparison with a bigint: "
        'filter("logical_now() < stop"). In SQL it is called mz_now() as well, and may stand in WHERE, HAVING and ON. '
        "A value that changes with every tick cannot be a column, a key or an argument: use a column that holds the "
        "time; filter before a join, a group or an order"
    )


@scalar("logical_now(…)", rule=_rule, usage="logical_now()", fold=False)
def logical_now(call: Call) -> NoReturn:
    """The session's time in ticks, a bigint.

    It may be used only in the predicate of a filter, compared by =, <, <=, >, >= or BETWEEN with an expression that
    does not contain it. The filter then bounds the times at which a row exists.
    """
    raise AssertionError(f"{call.text} is a bound of a filter, not a value")


def _no_place(_args: Arguments) -> Typing:
    raise UpdateTimeError


@scalar("update_time(…)", rule=_no_place, usage="update_time()", fold=False)
def update_time(call: Call) -> NoReturn:
    """The session's time at which this copy of the row entered the collection, a bigint.

    It may be used in the linear verbs and in `agg`, and in SQL in a SELECT over a single table, view or query.
    [update_time.md](update_time.md) says which copy a retraction removes.
    """
    raise AssertionError(f"{call.text} is a column, not a call")
