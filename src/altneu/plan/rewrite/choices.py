"""What is chosen for a view's plan when it is added."""

from __future__ import annotations

from dataclasses import dataclass, field

from altneu.plan.rewrite.share_orders import Orders


@dataclass(frozen=True)
class Choices:
    """What was chosen for a view by what its session kept then, and stays so.

    That is which of its joins are delta joins, and what functions of groups read in an order that others keep; and, of
    joins that were put in an order, in which their relations are joined.
    """

    delta: list[str] = field(default_factory=list)
    orders: Orders = field(default_factory=dict)
    turns: dict[str, list[int]] = field(default_factory=dict)
