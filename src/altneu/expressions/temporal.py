"""Temporal predicates: comparisons of ``logical_now()`` become bounds on the times at which a row exists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from altneu.expressions.expr import Expr


@dataclass(frozen=True)
class Bound:
    """One bound of the times at which a row exists: from ``value`` on (lower), or until before it (upper).

    ``value`` is a long in ticks; ``after`` makes it one tick later (``now <= e`` is an upper bound of e + 1). Where
    ``unless`` is true there is no such bound. A null value excludes the row, unless ``null_open``: then it is no bound.
    """

    kind: Literal["lower", "upper"]
    value: Expr
    after: bool = False
    unless: Expr | None = None
    null_open: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return self.value.columns | (self.unless.columns if self.unless is not None else frozenset())

    @property
    def can_fail(self) -> bool:
        """Whether any row could fail: one tick more may leave 64 bits."""
        return self.after or self.value.can_fail or (self.unless is not None and self.unless.can_fail)

    @property
    def digest(self) -> str:
        """What tells this bound from any other."""
        parts = (self.value.sql, self.value.text, self.unless.sql if self.unless is not None else "")
        return f"{self} {parts} {self.null_open}"

    def __str__(self) -> str:
        sign = {("lower", False): ">=", ("lower", True): ">", ("upper", False): "<", ("upper", True): "<="}
        text = f"logical_now() {sign[self.kind, self.after]} {self.value.sql}"
        return f"({text} or {self.unless.sql})" if self.unless is not None else text
