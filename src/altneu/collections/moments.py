"""Refusing what is differentiated and not integrated."""

from __future__ import annotations

from altneu.errors import PlanError
from altneu.plan import ir


def refuse_moments(node: ir.Node, verb: str, why: str) -> None:
    """Refuse what is differentiated and not integrated.

    Raises:
        PlanError: it is; ``why`` says what that contradicts.
    """
    if ir.moments(node):
        raise PlanError(
            f"{verb} {why}, and this collection is differentiated; use it before differentiate or after integrate"
        )
