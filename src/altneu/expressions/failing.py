"""Whether an expression can fail, where its constants tell more than its types do."""

from __future__ import annotations

import pyarrow as pa

from altneu.expressions.expr import Call, Expr, Literal, parts_of
from altneu.expressions.functions.patterns import like_pattern

_MOST_DIGITS = 38


def never_fails(expr: Expr) -> bool:
    r"""Whether no row can fail; False may be said of an expression that never does.

    ``Expr.can_fail``, which takes part in what plans are called in stores, does not look at constants: a ``LIKE`` may
    have a pattern that is none.

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> schema = T.parse_schema("s string, n int, a array<int>")
    >>> (
    ...     never_fails(parse("s like 'a%' and n > 0", schema)),
    ...     never_fails(parse("s like 'a\\\\' and n > 0", schema)),
    ... )
    (True, False)
    >>> never_fails(parse("s like s", schema)), never_fails(parse("1 div n > 0", schema))
    (False, False)
    >>> never_fails(parse("exists(a, x -> n div x > 0)", schema))
    False
    """
    if not expr.can_fail:
        return True
    return all(call_never_fails(part) for part in parts_of(expr) if isinstance(part, Call))


def call_never_fails(call: Call) -> bool:
    """The same of a call alone, whatever its arguments do."""
    return not call.function.can_fail(call) or _is_pattern(call) or _fits(call)


def _fits(call: Call) -> bool:
    """Whether a decimal result has a digit for each that there may be: its type is cut at 38 digits, and this is not.

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> schema = T.parse_schema("p decimal(15,2), q decimal(30,2)")
    >>> never_fails(parse("p * (1 - p)", schema)), never_fails(parse("p * q", schema))
    (True, False)
    """
    types = [a.type for a in call.args]
    if len(types) != 2 or not all(map(pa.types.is_decimal, types)):
        return False
    (whole, scale), (other_whole, other_scale) = ((t.precision - t.scale, t.scale) for t in types)
    if call.name in ("+", "-"):
        return max(whole, other_whole) + max(scale, other_scale) + 1 <= _MOST_DIGITS
    return call.name == "*" and whole + scale + other_whole + other_scale + 1 <= _MOST_DIGITS


def _is_pattern(call: Call) -> bool:
    """Whether a call looks for a pattern that is well formed."""
    constants = [a.value for a in call.args[1:] if isinstance(a, Literal)]
    if call.name not in ("like", "ilike") or len(constants) != len(call.args) - 1 or None in constants:
        return False
    pattern, escape = [*constants, "\\"][:2]
    try:
        like_pattern(pattern, escape)
    except ValueError:
        return False
    return True
