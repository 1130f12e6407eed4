"""What an index means."""

from __future__ import annotations

from dataclasses import dataclass

from altneu.columnar.ranking import Order
from altneu.operators.concat.node import Named
from altneu.operators.node import AtEachTime, Key


@dataclass(frozen=True, eq=False)
class ArrangedBy(AtEachTime, Named, tag="ArrangedBy"):
    """The same collection, which rules leave as it is; a view of it is arranged by some columns, and in an order.

    Plans are rewritten with it and lowered without it, but for the root: it says no more than where a view's rows lie.
    """

    key: Key
    order: tuple[Order, ...] = ()

    def describe(self) -> str:
        """The columns, and the order within each of their values."""
        return repr(self.key) + f" in order {self.order!r}" * bool(self.order)
