"""The rows of each group that a Python reducer needs, where these are its first or its last ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Literal

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.errors import PlanError
from altneu.expressions import Col, parse_order
from altneu.plan import ir


@dataclass(frozen=True)
class Needs:
    """So many rows from an end of an order: what ``first`` and ``last`` make."""

    end: Literal["first", "last"]
    k: int
    by: str | Col | Sequence[str | Col]

    def __repr__(self) -> str:
        return f"{self.end}({self.k!r}, by={self.by!r})"

    def rows_of(self, schema: pa.Schema, key: Sequence[str]) -> ir.TopK:
        """These rows of each group of ``key``.

        Raises:
            PlanError: k is not a whole number of at least 1, or the order is by a group column or an expression.
            UnknownColumnError: an order column that is not there.
            TypeMismatchError: an order column that is a map.
        """
        if not isinstance(self.k, Integral) or isinstance(self.k, bool) or self.k < 1:
            raise PlanError(f"needs={self}: k must be a whole number of at least 1, got {self.k!r}")
        order: list[Order] = []
        for one in parse_order(self.by, schema):
            if not one.expr.is_column:
                got = f"got the expression {one.expr.text!r}; compute it with select() first"
                raise PlanError(f"needs={self}: by must be columns, {got}")
            name = one.expr.column_name
            if name in key:
                raise PlanError(f"needs={self}: {name!r} is a group column, which is equal on all rows of a group")
            back = self.end == "last"
            order.append((name, one.descending != back, one.nulls_first != back))
        return ir.TopK(int(self.k), tuple(order))


def first(k: int, by: str | Col | Sequence[str | Col]) -> Needs:
    """Say that a Python reducer needs the first k rows of each group in an order, as ``needs=`` of ``reduce``.

    ``by`` lists columns, as in ``top_k``: ``"price desc, at"``. Ties are decided by the value of the whole row. A row
    that occurs n times counts n times.

    >>> import altneu as an
    >>> an.first(10, by="price desc")
    first(10, by='price desc')

    Cost:   of ``reduce`` with it: a change of d rows reads about k + d rows of a group, whatever its size.
    """
    return Needs("first", k, by)


def last(k: int, by: str | Col | Sequence[str | Col]) -> Needs:
    """Say that a Python reducer needs the last k rows of each group in an order: the first in the reverse of it.

    >>> import altneu as an
    >>> an.last(10, by="at")
    last(10, by='at')

    Cost:   as of ``first``.
    """
    return Needs("last", k, by)
