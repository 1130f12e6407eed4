"""Logic: what a linear operator does to one row, as a value.

Linear operators act update by update, so a run of them is one value: a tuple of steps applied in order. This module
only describes them; ``altneu.operators.linear`` evaluates them over column batches.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import pyarrow as pa

from altneu.expressions import Expr


@dataclass(frozen=True)
class Function:
    """A Python function inside a plan, with an identity that survives a restart.

    ``digest`` covers the code, its constants, names, defaults and the values it closes over, or the ``version`` that
    its author declares with it, so that a store notices when the function has been edited.
    """

    call: Callable[..., Any] = field(repr=False)
    digest: str
    batch: bool = False

    @classmethod
    def of(cls, call: Callable[..., Any]) -> Function:
        """Wrap a callable; ``altneu.arrow`` marks those that take record batches."""
        version = getattr(call, "__altneu_version__", None)
        text = f"{getattr(call, '__qualname__', type(call).__name__)}:{version or _code_text(call)}"
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return cls(call, digest, bool(getattr(call, "__altneu_arrow__", False)))

    @property
    def name(self) -> str:
        """The function's own name, for messages."""
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and (self.digest, self.batch) == (other.digest, other.batch)

    def __hash__(self) -> int:
        return hash((self.digest, self.batch))


def _code_text(call: Callable[..., Any]) -> str:
    """Everything about a function that can change what it computes, as text without addresses."""
    code = getattr(call, "__code__", None)
    if not isinstance(code, CodeType):  # a builtin, a class, a partial: its name and its parts must do
        parts = [getattr(call, "__module__", ""), getattr(call, "__qualname__", type(call).__qualname__)]
        inner = getattr(call, "func", None)
        if inner is not None:
            parts += [_code_text(inner), repr(getattr(call, "args", ())), repr(getattr(call, "keywords", {}))]
        return "|".join(parts)
    cells = [c.cell_contents for c in getattr(call, "__closure__", None) or ()]
    bound = [getattr(call, "__defaults__", None), getattr(call, "__kwdefaults__", None), *cells]
    return "|".join([_bytecode_text(code), *(_value_text(v) for v in bound)])


def _bytecode_text(code: CodeType) -> str:
    constants = [_bytecode_text(c) if isinstance(c, CodeType) else _value_text(c) for c in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{code.co_varnames}{constants}"


def _value_text(value: object) -> str:
    if callable(value):
        return _code_text(value)
    if isinstance(value, frozenset | set):
        return str(sorted(map(repr, value)))
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text  # an address would differ in every process


@dataclass(frozen=True)
class Filter:
    """Keep the rows on which the predicate is true (false and null reject)."""

    predicate: Expr

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return schema

    def __str__(self) -> str:
        return f"filter {self.predicate.sql}"


@dataclass(frozen=True)
class Project:
    """Compute the columns of a new row, each from the whole old row."""

    outputs: tuple[tuple[str, Expr], ...]

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return pa.schema([pa.field(name, e.type, e.nullable) for name, e in self.outputs])

    def __str__(self) -> str:
        shown = [n if e.is_column and e.column_name == n else f"{e.sql} as {n}" for n, e in self.outputs]
        return f"select {', '.join(shown)}"


@dataclass(frozen=True)
class MapFunction:
    """Replace each row by what a Python function returns for it."""

    function: Function
    schema: pa.Schema

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return self.schema

    def __str__(self) -> str:
        return f"map {self.function.name}"


@dataclass(frozen=True)
class FlatMapFunction:
    """Replace each row by the rows that a Python function yields for it."""

    function: Function
    schema: pa.Schema

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return self.schema

    def __str__(self) -> str:
        return f"flat_map {self.function.name}"


@dataclass(frozen=True)
class FilterFunction:
    """Keep the rows for which a Python function returns a true value."""

    function: Function

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return schema

    def __str__(self) -> str:
        return f"filter {self.function.name}"


@dataclass(frozen=True)
class Negate:
    """Turn every diff into its negative."""

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return schema

    def __str__(self) -> str:
        return "negate"


Step = Filter | Project | MapFunction | FlatMapFunction | FilterFunction | Negate


@dataclass(frozen=True)
class Logic:
    """A run of linear steps as one value.

    Law:  ``followed_by`` is associative and ``Logic()`` is its identity.
    """

    steps: tuple[Step, ...] = ()

    def followed_by(self, after: Logic) -> Logic:
        """This logic, then the other; adjacent negations cancel."""
        steps = list(self.steps)
        for step in after.steps:
            if isinstance(step, Negate) and steps and isinstance(steps[-1], Negate):
                steps.pop()
            else:
                steps.append(step)
        return Logic(tuple(steps))

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema of what comes out when rows of ``schema`` go in."""
        for step in self.steps:
            schema = step.output(schema)
        return schema

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Input columns that the result depends on."""
        needed: set[str] = set()
        for step in self.steps:
            if isinstance(step, Filter):
                needed |= step.predicate.columns
            elif isinstance(step, Project):
                return frozenset(needed.union(*(e.columns for _, e in step.outputs)))
            elif not isinstance(step, Negate):
                break
        return frozenset(schema.names)

    def plain_columns(self) -> dict[str, str] | None:
        """For logic that only chooses and renames columns: the input column of each output; None for any other."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], Project):
            return None
        outputs = self.steps[0].outputs
        return {n: e.column_name for n, e in outputs} if all(e.is_column for _, e in outputs) else None

    @property
    def can_fail(self) -> bool:
        """Whether any row may become an error."""
        return any(_step_can_fail(s) for s in self.steps)

    def __str__(self) -> str:
        return "; ".join(map(str, self.steps)) or "identity"


def _step_can_fail(step: Step) -> bool:
    if isinstance(step, Filter):
        return step.predicate.can_fail
    if isinstance(step, Project):
        return any(e.can_fail for _, e in step.outputs)
    return not isinstance(step, Negate)


def columns_of(outputs: Iterable[tuple[str, Expr]]) -> list[str]:
    """Names of projected columns."""
    return [name for name, _ in outputs]
