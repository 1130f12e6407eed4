"""Lambdas: functions over the elements of arrays, evaluated for all elements of all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from altneu.expressions.expr import Expr, Scope
from altneu.expressions.vector import Failure, Failures, Values, Vector


@dataclass(frozen=True, repr=False)
class Variable(Expr):
    """A lambda's parameter; ``mark`` is what its array's declaration says beside the type, its collation."""

    name: str
    type: pa.DataType
    nullable: bool = True
    mark: str = ""

    @property
    def columns(self) -> frozenset[str]:
        """None: a variable is not a column."""
        return frozenset()

    @property
    def can_fail(self) -> bool:
        """Never."""
        return False

    @property
    def sql(self) -> str:
        """Its name."""
        return self.name

    @property
    def text(self) -> str:
        """Its name."""
        return self.name

    def vector(self, scope: Scope) -> Vector:
        """Its value on every element."""
        assert isinstance(scope, ElementScope)
        return scope.variable(self.name)

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """Itself."""
        return self


@dataclass(frozen=True, repr=False)
class Lambda(Expr):
    """``(x, i) -> body``; evaluated by the function that it is given to."""

    parameters: tuple[str, ...]
    body: Expr

    @property
    def type(self) -> pa.DataType:
        """The type of the body."""
        return self.body.type

    @property
    def nullable(self) -> bool:  # type: ignore[override]
        """Whether the body is nullable."""
        return self.body.nullable

    @cached_property
    def depth(self) -> int:  # type: ignore[override]
        """How deep the body is."""
        return self.body.depth + 1

    @cached_property
    def calls(self) -> int:  # type: ignore[override]
        """How many calls are in the body."""
        return self.body.calls

    @property
    def inner(self) -> tuple[Expr, ...]:
        """The body."""
        return (self.body,)

    @property
    def columns(self) -> frozenset[str]:
        """Columns that the body reads beside its parameters."""
        return self.body.columns

    @property
    def reads(self) -> Mapping[str, int]:
        """How often the body reads each of its columns."""
        return self.body.reads

    @property
    def can_fail(self) -> bool:
        """Whether the body can."""
        return self.body.can_fail

    @property
    def can_grow(self) -> bool:
        """Whether the body's values can."""
        return self.body.can_grow

    @property
    def sql(self) -> str:
        """Canonical text."""
        return f"{self._head} -> {self.body.sql}"

    @property
    def text(self) -> str:
        """The text for messages."""
        return f"{self._head} -> {self.body.text}"

    @property
    def _head(self) -> str:
        return self.parameters[0] if len(self.parameters) == 1 else f"({', '.join(self.parameters)})"

    def substitute(self, mapping: Mapping[str, Expr]) -> Expr:
        """The lambda with columns of its body replaced."""
        return Lambda(self.parameters, self.body.substitute(mapping))


class ElementScope(Scope):
    """A scope of elements: variables hold the elements, columns (and outer variables) repeat the value of the row."""

    __slots__ = ("of", "outer", "variables")

    def __init__(self, outer: Scope, of: Values, variables: dict[str, Vector]) -> None:
        super().__init__(outer.rows)
        self.count, self.outer, self.of, self.variables = len(of), outer, of, variables

    def column(self, name: str) -> Vector:
        """A column, repeated for every element of its row."""
        vector = self.columns.get(name)
        if vector is None:
            vector = self.columns[name] = spread(self.outer.column(name), self.of)
        return vector

    def variable(self, name: str) -> Vector:
        """A parameter of this lambda or of one around it."""
        vector = self.variables.get(name)
        if vector is None:
            assert isinstance(self.outer, ElementScope)
            vector = self.variables[name] = spread(self.outer.variable(name), self.of)
        return vector


def spread(vector: Vector, of: Values) -> Vector:
    """Each row's value for every element of the row."""
    return vector if vector.constant else Vector(vector.type, arrow=vector.arrow.take(pa.array(of)))


def gathered(failures: Failures, of: Values, count: int) -> Failures:
    """Failures of elements as failures of their rows; a row tells the reason of its first element that failed."""
    gathered_: list[Failure] = []
    for failure in failures:
        hits = np.flatnonzero(failure.mask)
        mask = np.zeros(count, np.bool_)
        mask[of[hits]] = True
        first = dict(zip(of[hits][::-1].tolist(), hits[::-1].tolist(), strict=True))
        gathered_.append(Failure(mask, failure.code, lambda row, f=failure, at=first: f.text(at[row])))  # type: ignore[misc]
    return tuple(gathered_)
