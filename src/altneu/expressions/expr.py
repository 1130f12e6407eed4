"""Compiled expressions: immutable, typed trees that evaluate over rows.

An ``Expr`` is one of three things: a column, a literal, or a call of a registered function. Every operator, cast and
CASE is a call, so rewriting, printing and evaluating need to know only these three.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.columnar.canonical import canonical, varies
from altneu.errors import ExpressionSyntaxError
from altneu.expressions.literals import literal_sql
from altneu.expressions.names import UPDATE_TIME
from altneu.expressions.vector import (
    Failures,
    Mask,
    Vector,
    both_valid,
    constant_vector,
    failed_rows,
    has_numpy,
)

if TYPE_CHECKING:
    from altneu.columnar.rows import Rows


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an expression on n rows.

    Shape:  ``values`` n values, null where the row failed; ``failed`` n booleans, or None when no row failed.
    """

    values: pa.Array
    failed: Mask | None
    failures: Failures = ()

    def error(self, row: int) -> tuple[str, str]:
        """Code and message of a failed row: the failure that Spark, evaluating from the left, meets first.

        Raises:
            IndexError: the row did not fail.
        """
        for failure in self.failures:
            if failure.mask[row]:
                return failure.code, failure.text(row)
        raise IndexError(f"row {row} did not fail")


class Scope:
    """The rows an expression is evaluated on, with the vectors of the columns it has already read."""

    __slots__ = ("columns", "count", "rows")

    def __init__(self, rows: Rows, columns: dict[str, Vector] | None = None) -> None:
        self.rows, self.count = rows, rows.count
        self.columns: dict[str, Vector] = {} if columns is None else columns

    def column(self, name: str) -> Vector:
        """The vector of a column."""
        vector = self.columns.get(name)
        if vector is None:
            array = self.rows.column(name)
            vector = self.columns[name] = Vector(array.type, arrow=array)
        return vector


MAX_DEPTH = 200
"""Evaluation recurses, and Python's stack is not endless."""
MAX_CALLS = 100_000
"""Calls of one expression, equal ones counted each time: so long is its text, and what goes through its parts."""


class Expr:
    """A typed expression over named columns; compare with ``==``, use as a dictionary key, pickle."""

    type: pa.DataType
    nullable: bool
    depth: int = 0
    calls: int = 0

    @property
    def inner(self) -> tuple[Expr, ...]:
        """What it is made of: the arguments of a call, the body of a lambda."""
        return ()

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        raise NotImplementedError

    @property
    def reads(self) -> Mapping[str, int]:
        """How often it reads each of its columns."""
        return dict.fromkeys(self.columns, 1)

    @property
    def can_fail(self) -> bool:
        """Whether any row could fail; False is a promise."""
        raise NotImplementedError

    @property
    def can_grow(self) -> bool:
        """Whether a value may become larger than those it is computed from, and so too large for a column.

        This is apart from ``can_fail``, by which plans are ordered: it takes a value of hundreds of megabytes.
        """
        return False

    @property
    def sql(self) -> str:
        """Canonical text; parsing it over the same schema gives an equal expression."""
        raise NotImplementedError

    @property
    def text(self) -> str:
        """The text without the casts that coercion put in, for messages."""
        raise NotImplementedError

    @property
    def is_column(self) -> bool:
        """Whether it is just a column."""
        return False

    @property
    def column_name(self) -> str:
        """The column that it is.

        Raises:
            AttributeError: it is not just a column.
        """
        raise AttributeError(f"{self.sql} is not a column")

    @property
    def is_literal(self) -> bool:
        """Whether it is a constant."""
        return False

    def vector(self, scope: Scope) -> Vector:
        """Evaluate over the rows of a scope."""
        raise NotImplementedError

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced by expressions of the same type; names not in ``mapping`` stay."""
        raise NotImplementedError

    def evaluate(self, rows: Rows) -> Result:
        """Evaluate over rows.

        Shape:  n rows in, n values out, null where the row failed.
        Cost:   5 to 20 microseconds a node on one row for numbers; then a few nanoseconds a row.
        """
        return self.result(Scope(rows))

    def result(self, scope: Scope) -> Result:
        """``evaluate`` on a scope, which several expressions may share."""
        vector = self.computed(scope)
        failures = vector.failures
        if not failures:
            return Result(vector.arrow, None)
        failed = failed_rows(failures)
        assert failed is not None
        if failed.all():
            return Result(pa.nulls(scope.count, self.type), failed, failures)
        return Result(_null_out(vector, failed), failed, failures)

    def computed(self, scope: Scope) -> Vector:
        """The values on all rows of a scope, in canonical form, with the failures; values that failed are arbitrary."""
        if self._is_quiet:
            vector = self.vector(scope)
        else:
            with np.errstate(all="ignore"):  # kernels check the numbers themselves; those under a null are arbitrary
                vector = self.vector(scope)
        if vector.constant:
            vector = vector.expand(scope.count)
        return _canonical(vector) if self._may_vary else vector

    @cached_property
    def _is_quiet(self) -> bool:
        """Whether NumPy has nothing to warn of: whole numbers are compared, and truths combined."""
        parts = parts_of(self)
        calls = [part for part in parts if isinstance(part, Call)]
        return all(c.name in _QUIET for c in calls) and all(part.type.id in _WHOLE for part in parts)

    @cached_property
    def _may_vary(self) -> bool:
        """Whether results may differ from their canonical form; values of columns do not."""
        return not self.is_column and varies(self.type)

    def __repr__(self) -> str:
        return f"<{self.sql}: {T.type_name(self.type)}>"


_QUIET = frozenset(("=", "!=", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "isnull", "isnotnull"))
_WHOLE = frozenset(t.id for t in (T.BOOLEAN, T.BYTE, T.SHORT, T.INT, T.LONG, T.DATE, T.TIMESTAMP))


def _canonical(vector: Vector) -> Vector:
    """The vector with each value in its canonical form."""
    if not pa.types.is_floating(vector.type):
        return Vector(vector.type, arrow=canonical(vector.arrow), failures=vector.failures)
    values = vector.values + vector.values.dtype.type(0)
    nan = np.isnan(values)
    if nan.any():
        values[nan] = np.nan
    return Vector(vector.type, values, vector.valid, failures=vector.failures)


def _null_out(vector: Vector, failed: Mask) -> pa.Array:
    if has_numpy(vector.type):
        return Vector(vector.type, vector.values, both_valid(vector.valid, ~failed)).arrow
    index = np.arange(len(failed))
    return vector.arrow.take(pa.array(index, mask=failed))


@dataclass(frozen=True, eq=True, repr=False)
class Column(Expr):
    """A column of the rows.

    ``mark`` is what its declaration says beside the type, such as the units of an interval (``T.mark_of``). Binding
    a query reads it; two columns that differ in it alone are equal.
    """

    name: str
    type: pa.DataType
    nullable: bool = True
    mark: str = field(default="", compare=False)

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return frozenset((self.name,))

    @property
    def can_fail(self) -> bool:
        """Whether any row could fail."""
        return False

    @property
    def sql(self) -> str:
        """Canonical text."""
        return "update_time()" if self.name == UPDATE_TIME else T.stored_name(self.name)

    @property
    def text(self) -> str:
        """The text for messages."""
        return self.sql

    @property
    def is_column(self) -> bool:
        """Whether it is just a column."""
        return True

    @property
    def column_name(self) -> str:
        """The column's name."""
        return self.name

    def vector(self, scope: Scope) -> Vector:
        """Evaluate over the rows of a scope."""
        return scope.column(self.name)

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced."""
        return mapping.get(self.name, self)


class Literal(Expr):
    """A constant: None, or a bool, int, float, Decimal, str or bytes; dates, timestamps and intervals as integers."""

    def __init__(self, value: Any, data_type: pa.DataType, shown: str = "") -> None:
        self._shown = shown  # the text in the query, where coercion has changed the type
        if isinstance(value, float) and value == 0:
            value = 0.0
        self.value, self.type, self.nullable = value, data_type, value is None
        same = "NaN" if isinstance(value, float) and math.isnan(value) else value
        if isinstance(value, Decimal):
            same = str(value)
        self._key = (same, data_type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[type[Literal], tuple[Any, pa.DataType, str]]:
        return Literal, (self.value, self.type, self._shown)

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return frozenset()

    @property
    def can_fail(self) -> bool:
        """Whether any row could fail."""
        return False

    @cached_property
    def sql(self) -> str:
        """Canonical text."""
        return literal_sql(self.value, self.type)

    @property
    def text(self) -> str:
        """The text for messages."""
        return self._shown or self.sql

    @property
    def is_literal(self) -> bool:
        """Whether it is a constant."""
        return True

    @cached_property
    def _constant(self) -> Vector:
        return constant_vector(self.value, self.type)

    def vector(self, scope: Scope) -> Vector:
        """Evaluate over the rows of a scope."""
        return self._constant

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced."""
        return self


class Function(Protocol):
    """What a call needs of its function. The functions stand above expressions: ``registry.Function`` is all of one."""

    @property
    def name(self) -> str:
        """Its name, by which calls are compared."""

    @property
    def style(self) -> str:
        """The form in which its kernel takes arguments, see ``registry``."""

    @property
    def infix(self) -> bool:
        """Whether it is written between its arguments, and so in parentheses inside another."""

    @property
    def right_first(self) -> bool:
        """Whether arguments are evaluated from the right."""

    @property
    def fold(self) -> bool:
        """Whether a call of constants is a constant."""

    def can_fail(self, call: Call) -> bool:
        """Whether the call itself could fail on some row."""

    def can_grow(self, call: Call) -> bool:
        """Whether the call's value may be larger than its arguments."""

    def render(self, call: Call, texts: list[str]) -> str:
        """SQL text of a call, given the texts of its arguments."""

    def evaluate(self, call: Call, scope: Scope) -> Vector:
        """Evaluate a call over the rows of a scope."""


class Call(Expr):
    """A registered function applied to arguments that already have its types.

    ``implicit`` marks a cast that coercion put in; it takes no part in equality.
    """

    def __init__(
        self,
        function: Function,
        args: tuple[Expr, ...],
        data_type: pa.DataType,
        nullable: bool,
        implicit: bool = False,
    ) -> None:
        self.function, self.name = function, function.name
        self.args, self.type, self.nullable, self.implicit = args, data_type, nullable, implicit
        self.depth: int = 1 + max((a.depth for a in args), default=0)
        if self.depth > MAX_DEPTH:
            raise ExpressionSyntaxError(
                f"an expression is more than {MAX_DEPTH} calls deep; split it over several select()"
            )
        self.calls: int = 1 + sum(a.calls for a in args)
        if self.calls > MAX_CALLS:
            raise ExpressionSyntaxError(
                f"an expression must have at most {MAX_CALLS:,} calls, got {self.calls:,}; nullif, BETWEEN and CASE x "
                "WHEN compute what they compare twice or more often: compute that in a query in FROM"
            )
        self._hash = hash((self.name, args, data_type))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Call)
            and self._hash == other._hash
            and (self.name, self.args, self.type) == (other.name, other.args, other.type)
        )

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[type[Call], tuple[Any, ...]]:
        return Call, (self.function, self.args, self.type, self.nullable, self.implicit)

    @property
    def inner(self) -> tuple[Expr, ...]:
        """Its arguments."""
        return self.args

    @cached_property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return frozenset().union(*(a.columns for a in self.args))

    @cached_property
    def reads(self) -> Mapping[str, int]:
        """How often it reads each of its columns."""
        times: Counter[str] = Counter()
        for arg in self.args:
            times.update(arg.reads)
        return times

    @cached_property
    def can_fail(self) -> bool:
        """Whether any row could fail."""
        return any(a.can_fail for a in self.args) or self.function.can_fail(self)

    @cached_property
    def can_grow(self) -> bool:
        """Whether a value may become larger than those it is computed from."""
        return self.function.can_grow(self) or any(a.can_grow for a in self.args)

    @cached_property
    def sql(self) -> str:
        """Canonical text."""
        return self.function.render(self, [a.sql for a in self.args])

    @cached_property
    def text(self) -> str:
        """The text for messages."""
        if self.implicit:
            return self.args[0].text
        return self.function.render(self, [a.text for a in self.args]).removeprefix("lcase_")  # ``collations.BY_CASE``

    def vector(self, scope: Scope) -> Vector:
        """Evaluate over the rows of a scope."""
        return self.function.evaluate(self, scope)

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """The expression with columns replaced."""
        if self.columns.isdisjoint(mapping):
            return self
        args = tuple(a.substitute(mapping) for a in self.args)
        nullable = self.nullable or any(new.nullable > old.nullable for new, old in zip(args, self.args, strict=True))
        return Call(self.function, args, self.type, nullable, self.implicit)


def parts_of(expr: Expr) -> list[Expr]:
    """An expression and its parts, also those of lambdas: each once, after all the parts that contain it.

    Cost:   O(n) for n parts that differ, however often each of them is there.

    >>> from altneu.expressions.parse import parse
    >>> parts_of(parse("(a + b) * (a + b)", T.parse_schema("a int, b int")))
    [<(a + b) * (a + b): int>, <a + b: int>, <a: int>, <b: int>]
    """
    found: dict[Expr, None] = {}  # inner ones first
    left = [expr]
    while left:
        part = left[-1]
        inner = [p for p in part.inner if p not in found]
        if inner:
            left += inner
        else:
            found[left.pop()] = None
    return list(reversed(found))
