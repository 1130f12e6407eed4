"""Whether an expression can fail, where its constants tell more than its types do."""

from __future__ import annotations

from altneu.expressions.expr import Call, Expr, Literal, walk
from altneu.expressions.functions.patterns import like_pattern


def never_fails(expr: Expr) -> bool:
    r"""Whether no row can fail; False may be said of an expression that never does.

    ``Expr.can_fail``, which takes part in what plans are called in stores, does not look at constants: a ``LIKE`` may
    have a pattern that is none.

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> schema = T.parse_schema("s string, n int")
    >>> (
    ...     never_fails(parse("s like 'a%' and n > 0", schema)),
    ...     never_fails(parse("s like 'a\\\\' and n > 0", schema)),
    ... )
    (True, False)
    >>> never_fails(parse("s like s", schema)), never_fails(parse("1 div n > 0", schema))
    (False, False)
    """
    if not expr.can_fail:
        return True
    parts: list[Expr] = []
    walk(expr, parts.append)
    return all(not part.function.can_fail(part) or _is_pattern(part) for part in parts if isinstance(part, Call))


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
