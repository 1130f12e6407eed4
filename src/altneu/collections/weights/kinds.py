"""The kinds of weights that the engine adds up by itself."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.collections.weights.weighted import Weight
from altneu.errors import PlanError
from altneu.expressions import Expr, cast, parse
from altneu.linear import BoundLogic, Project, Unnest
from altneu.plan import ir
from altneu.types import DOUBLE, LONG, no_key, quote_name, type_name

Product = Literal["+", "least", "greatest"]
_ELEMENT = "#element"


class _Built(Weight):
    """A weight whose product is written as expressions."""

    def entered(self, column: Expr) -> Expr:
        """Whole numbers as bigint and floating-point ones as double; other types as they are."""
        if pa.types.is_integer(column.type):
            return cast(column, LONG)
        return cast(column, DOUBLE) if pa.types.is_floating(column.type) else column

    def multiplied(self, rows: Collection, left: Sequence[str], right: Sequence[str]) -> Collection:
        """One projection."""
        for a, b in zip(left, right, strict=True):
            kinds = [rows.schema.field(name).type for name in (a, b)]
            if kinds[0] != kinds[1] and not all(map(pa.types.is_decimal, kinds)):
                raise self.mismatch(rows._column(b), f"{type_name(kinds[0])}, as what it is multiplied with")
        data = [(name, rows._column(name)) for name in rows.columns if name not in (*left, *right)]
        texts = self.products([quote_name(n) for n in left], [quote_name(n) for n in right])
        made = [(name, parse(text, rows.schema)) for name, text in zip(self.columns, texts, strict=True)]
        return rows._project(
            [*data, *((name, self.settled(e, rows, a)) for (name, e), a in zip(made, left, strict=True))]
        )

    def settled(self, product: Expr, rows: Collection, left: str) -> Expr:
        """A product in the type of a factor."""
        return cast(product, rows.schema.field(left).type)

    @abstractmethod
    def products(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """The columns of a product, as expressions over those of its factors."""


def _shown(rows: Collection, data: Sequence[str], weight: Sequence[str]) -> Collection:
    """What a reduce gives in the columns ``#0`` … under the names of the weight."""
    names = [*((n, n) for n in data), *((n, f"#{i}") for i, n in enumerate(weight))]
    return rows._project([(name, rows._column(column)) for name, column in names])


class Sums(_Built):
    """Sums of one or several columns of numbers: a group, and a ring with the product of each column.

    Whole numbers are summed as bigint, decimals exactly, and doubles exactly and rounded once; a null adds nothing. A
    row whose sums are all zero is not there. A sum outside its type is an error row.

    The product of decimals has the scale of both factors together, which may be at most 6.

    >>> from decimal import Decimal
    >>> import altneu as an
    >>> stock = an.source("stock", "item string, n long, worth decimal(9,2)")
    >>> counted = stock.weighted(an.weights.Sums("n", "worth"))
    >>> with an.Session() as session:
    ...     view = session.maintain("counted", counted.consolidate())
    ...     session.insert(
    ...         "stock",
    ...         [("tea", 2, Decimal("3.50")), ("tea", 1, Decimal("2.00")), ("jam", 1, Decimal("4.00"))],
    ...     )
    ...     session.retract("stock", [("jam", 1, Decimal("4.00"))])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [('tea', 3, Decimal('5.50'))]
    """

    @property
    def zero(self) -> Any:
        """Zero in each column."""
        return self._value([0] * len(self.columns))

    @property
    def one(self) -> Any:
        """One in each column."""
        return self._value([1] * len(self.columns))

    def _value(self, parts: Sequence[Any]) -> Any:
        return parts[0] if len(parts) == 1 else tuple(parts)

    def _parts(self, weight: Any) -> tuple[Any, ...]:
        return (weight,) if len(self.columns) == 1 else tuple(weight)

    def add(self, a: Any, b: Any) -> Any:
        """Column by column."""
        return self._value([x + y for x, y in zip(self._parts(a), self._parts(b), strict=True)])

    def negate(self, a: Any) -> Any:
        """Column by column."""
        return self._value([-x for x in self._parts(a)])

    def multiply(self, a: Any, b: Any) -> Any:
        """Column by column."""
        return self._value([x * y for x, y in zip(self._parts(a), self._parts(b), strict=True)])

    def entered(self, column: Expr) -> Expr:
        """bigint, double or a decimal of 38 digits."""
        if pa.types.is_decimal(column.type):
            return cast(column, pa.decimal128(38, column.type.scale))
        if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
            raise self.mismatch(column, "a number")
        return super().entered(column)

    def added(self, rows: Collection, data: tuple[str, ...]) -> Collection:
        """From totals."""
        calls = [
            ir.Aggregate("sum", (name,), rows.schema.field(name).type, text=f"sum({name})") for name in self.columns
        ]
        return _shown(Collection(ir.Reduce(rows.node, data, ir.Totals(tuple(calls)))), data, self.columns)

    def settled(self, product: Expr, rows: Collection, left: str) -> Expr:
        """Decimals have the scale of both factors."""
        if not pa.types.is_decimal(product.type):
            return super().settled(product, rows, left)
        return cast(product, pa.decimal128(38, product.type.scale))

    def products(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """Column by column."""
        return [f"{a} * {b}" for a, b in zip(left, right, strict=True)]

    def multiplied(self, rows: Collection, left: Sequence[str], right: Sequence[str]) -> Collection:
        """One projection, exact unless of doubles."""
        for a, b in zip(left, right, strict=True):
            kinds = [rows.schema.field(name).type for name in (a, b)]
            if all(map(pa.types.is_decimal, kinds)) and sum(kind.scale for kind in kinds) > 6:
                raise self.mismatch(rows._column(b), "a decimal whose scale is at most 6 with that of the other factor")
        return super().multiplied(rows, left, right)


class Moments(Sums):
    """A count, a sum and a sum of squares, with the product that they have where rows are paired.

    Of pairs of rows with values x and y it counts the pairs and sums up x + y and its squares: the ring of moments of
    factorised learning. So a join of many rows on each side is counted and summed without forming pairs.

    Source: Schleich, Olteanu, Ciucanu, Learning Linear Regression Models over Factorized Joins, SIGMOD 2016.

    >>> import altneu as an
    >>> weight = an.weights.Moments("n", "total", "squares")
    >>> weight.multiply((1, 3, 9), (1, 4, 16))  # of 3 and of 4: of 7
    (1, 7, 49)
    """

    def __init__(self, count: str, total: str, squares: str) -> None:
        super().__init__(count, total, squares)

    @property
    def one(self) -> Any:
        """A row of the value 0."""
        return 1, 0, 0

    def multiply(self, a: Any, b: Any) -> Any:
        """As if the values were added."""
        (n, s, q), (m, t, r) = a, b
        return n * m, s * m + n * t, q * m + 2 * s * t + n * r

    def entered(self, column: Expr) -> Expr:
        """Bigint or double: products of decimals have other scales."""
        if pa.types.is_decimal(column.type):
            raise self.mismatch(column, "a whole number or a double")
        return super().entered(column)

    def products(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """As if the values were added."""
        (n, s, q), (m, t, r) = left, right
        return [f"{n} * {m}", f"{s} * {m} + {n} * {t}", f"{q} * {m} + 2 * {s} * {t} + {n} * {r}"]


class _Chosen(_Built):
    """A weight whose sum is one of its parts; a null, in the first column, is zero.

    It has a product if one is named: one that keeps the order, so that it distributes over the choice.
    """

    zero: Any = None
    allowed: tuple[str, ...] = ("+",)

    def __init__(self, column: str, *more: str, multiply: Product | None = None) -> None:
        super().__init__(column, *more)
        if multiply is not None and multiply not in self.allowed:
            names = ", ".join(map(repr, self.allowed))
            raise PlanError(
                f"{type(self).__name__}(multiply=...) must be one of {names}, which keep its order, or None, "
                f"got {multiply!r}"
            )
        self.product = multiply

    def __repr__(self) -> str:
        product = "" if self.product is None else f", multiply={self.product!r}"
        return f"{super().__repr__()[:-1]}{product})"

    @property
    def multiply(self) -> Any:
        """The product that was named, None if none was."""
        return None if self.product is None else self._multiply

    @property
    def one(self) -> Any:
        """Of ``+`` it is 0 in each column; the others have none."""
        if self.product != "+":
            return None
        return 0 if len(self.columns) == 1 else (0,) * len(self.columns)

    def _multiply(self, a: Any, b: Any) -> Any:
        if a is None or b is None:
            return None
        if self.product != "+":
            return min(a, b) if self.product == "least" else max(a, b)
        return a + b if len(self.columns) == 1 else tuple(x + y for x, y in zip(a, b, strict=True))

    def entered(self, column: Expr) -> Expr:
        """A type with an order, and a number where the product is +."""
        kind = super().entered(column)
        if no_key(kind.type):
            raise self.mismatch(column, "of a type that has an order")
        number = pa.types.is_integer(kind.type) or pa.types.is_floating(kind.type) or pa.types.is_decimal(kind.type)
        if self.product == "+" and not number:
            raise self.mismatch(column, "a number, for the product +,")
        return kind

    def some(self, rows: Collection) -> Collection:
        """The rows whose weight is not zero."""
        return (
            rows.filter(f"{quote_name(self.columns[0])} is not null")
            if rows.schema.field(self.columns[0]).nullable
            else rows
        )

    def products(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """The product that was named."""
        if self.product == "+":
            return [f"{a} + {b}" for a, b in zip(left, right, strict=True)]
        return [
            f"case when {a} is not null and {b} is not null then {self.product}({a}, {b}) end"
            for a, b in zip(left, right, strict=True)
        ]


class _Extreme(_Chosen):
    function: str

    def __init__(self, column: str, *, multiply: Product | None = None) -> None:
        super().__init__(column, multiply=multiply)

    def added(self, rows: Collection, data: tuple[str, ...]) -> Collection:
        """From the first value in order."""
        (name,), some = self.columns, self.some(rows)
        call = ir.Aggregate(self.function, (name,), rows.schema.field(name).type, text=f"{self.function}({name})")
        return _shown(Collection(ir.Reduce(some.node, data, ir.Aggregates((call,)))), data, self.columns)


class Min(_Extreme):
    """The least value of a column; nulls are ignored.

    With ``multiply="+"`` products are sums (min-plus, as of lengths of paths), with ``"greatest"`` the greater value.
    It has no ``negate``; but rows may be retracted, for all weights are kept, unless rows are only added.

    >>> import altneu as an
    >>> offers = an.source("offers", "item string, price long", append_only=True)
    >>> with an.Session() as session:
    ...     cheapest = offers.weighted(an.weights.Min("price")).consolidate()
    ...     view = session.maintain("cheapest", cheapest)
    ...     session.insert("offers", [("tea", 5), ("tea", 3), ("tea", 4)])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [('tea', 3)]
    """

    function, allowed = "min", ("+", "greatest")

    def add(self, a: Any, b: Any) -> Any:
        """The lesser one."""
        return min((x for x in (a, b) if x is not None), default=None)


class Max(_Extreme):
    """The greatest value of a column; nulls are ignored.

    With ``multiply="+"`` products are sums, with ``"least"`` the lesser value (as of the widest path). Otherwise as
    ``Min``.
    """

    function, allowed = "max", ("+", "least")

    def add(self, a: Any, b: Any) -> Any:
        """The greater one."""
        return max((x for x in (a, b) if x is not None), default=None)


class Best(_Chosen):
    """The first of several columns in an order (``Best("cost", "hops", "name desc")``), compared one after the other.

    Nulls come last, and a row with a null in the first column has no weight. With ``multiply="+"`` the columns, all of
    them numbers, are added one by one. Otherwise as ``Min``.

    >>> import altneu as an
    >>> offers = an.source("offers", "item string, price long, shop string")
    >>> with an.Session() as session:
    ...     best = offers.weighted(an.weights.Best("price", "shop")).consolidate()
    ...     view = session.maintain("best", best)
    ...     session.insert("offers", [("tea", 3, "b"), ("tea", 3, "a"), ("tea", 4, "c")])
    ...     _ = session.advance()
    ...     view.to_pylist()
    [('tea', 3, 'a')]
    """

    def __init__(self, first: str, *more: str, multiply: Product | None = None) -> None:
        names, descending = [], []
        for one in (first, *more):
            name, _, direction = one.rpartition(" ")
            turned = direction.lower() == "desc" and bool(name)
            names.append(name.strip() if turned else one)
            descending.append(turned)
        super().__init__(*names, multiply=multiply)
        self.descending = tuple(descending)

    def __repr__(self) -> str:
        own = [
            f"{n} desc" if d else n
            for n, d in zip(self.columns, getattr(self, "descending", self.columns), strict=True)
        ]
        product = "" if self.product is None else f", multiply={self.product!r}"
        return f"Best({', '.join(map(repr, own))}{product})"

    def add(self, a: Any, b: Any) -> Any:
        """The first one."""
        there = [x for x in (a, b) if not self.is_zero(x)]
        for place in range(len(self.columns) - 1, -1, -1):  # by the last column first: sorting is stable
            some = [x for x in there if self._at(x, place) is not None]
            none = [x for x in there if self._at(x, place) is None]
            there = sorted(some, key=partial(self._at, place=place), reverse=self.descending[place]) + none
        return there[0] if there else None

    def _at(self, weight: Any, place: int) -> Any:
        return weight if len(self.columns) == 1 else weight[place]

    def is_zero(self, weight: Any) -> bool:
        """Whether its first column is null."""
        return weight is None or self._at(weight, 0) is None

    def added(self, rows: Collection, data: tuple[str, ...]) -> Collection:
        """From the first row in order."""
        order = tuple((name, turned, False) for name, turned in zip(self.columns, self.descending, strict=True))
        return Collection(ir.Reduce(self.some(rows).node, data, ir.TopK(1, order)))


class Union(_Built):
    """Sets, as arrays: the sum and the product of sets are their union. A null is zero; an empty array is a set.

    As a difference it is the provenance of a row: give the rows of each source the set of their names or numbers, and
    a row of the result has the set of those that it rests on (lineage).

    Shape:  of sums, arrays in the order of their elements, each once and without nulls.
    Source: Green, Karvounarakis, Tannen, Provenance Semirings, PODS 2007.

    >>> import altneu as an
    >>> weight = an.weights.Union("sources")
    >>> red = an.source("red", "k long").select("k", sources="array('red')").weighted(weight)
    >>> blue = an.source("blue", "k long").select("k", sources="array('blue')").weighted(weight)
    >>> with an.Session() as session:
    ...     view = session.maintain("both", red.concat(red.join(blue, on="k")).consolidate())
    ...     session.insert("red", [(1,), (2,)])
    ...     session.insert("blue", [(2,), (3,)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(1, ['red']), (2, ['blue', 'red'])]
    """

    zero: Any = None
    one: Any = ()  # the empty set

    def __init__(self, column: str) -> None:
        super().__init__(column)

    def add(self, a: Any, b: Any) -> Any:
        """The union."""
        if a is None or b is None:
            return b if a is None else a
        return sorted({*a, *b})

    def multiply(self, a: Any, b: Any) -> Any:
        """The union, unless one is zero."""
        return None if a is None or b is None else sorted({*a, *b})

    def entered(self, column: Expr) -> Expr:
        """An array of values that can be compared."""
        if not pa.types.is_list(column.type) or no_key(column.type.value_type):
            raise self.mismatch(column, "an array")
        return column

    def added(self, rows: Collection, data: tuple[str, ...]) -> Collection:
        """From the distinct elements of the sets."""
        (name,) = self.columns
        some = rows.filter(f"{quote_name(name)} is not null")
        steps = Unnest(some._column(name), (_ELEMENT,), None, True)
        each = some._linear(BoundLogic((steps,)))
        kept = [(n, each._column(n)) for n in (*data, _ELEMENT)]
        each = each._linear(BoundLogic((Project(tuple(kept)),)))
        call = ir.Aggregate("collect_set", (_ELEMENT,), rows.schema.field(name).type, text=f"union({name})")
        return _shown(Collection(ir.Reduce(each.node, data, ir.Aggregates((call,)))), data, self.columns)

    def products(self, left: Sequence[str], right: Sequence[str]) -> list[str]:
        """The union, which is null where one of them is."""
        return [f"array_sort(array_union({a}, {b}))" for a, b in zip(left, right, strict=True)]
