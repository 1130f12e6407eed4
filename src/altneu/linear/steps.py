"""The steps of bound logic: what happens to one row, with names resolved and types known.

Steps are values without rows; ``altneu.operators.linear`` evaluates them over column batches. Each says what it makes
of a schema, which columns it reads, and whether a row may fail on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import pyarrow as pa

from altneu import types as T
from altneu.expressions import Call, Expr, Literal
from altneu.expressions.collations import mark_of
from altneu.expressions.intervals import mark_of_units
from altneu.expressions.temporal import Bound
from altneu.linear.delay import NO_DELAY, Delay
from altneu.linear.function import Function
from altneu.linear.user_function import digest_of

Outputs: TypeAlias = tuple[tuple[str, Expr], ...]

_LONGEST = 80  # characters of a label
_DAY = 86_400_000_000  # microseconds, which day-time intervals count


class Step:
    """One step; the defaults are those of a step that may do anything to a row."""

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        raise NotImplementedError(type(self).__name__)

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Columns that this step reads, except those that it only passes on."""
        return frozenset(schema.names)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """The expressions that are evaluated; a Python function is none."""
        return ()

    @property
    def can_fail(self) -> bool:
        """Whether any row may become an error; False is a promise."""
        return True

    @property
    def digest(self) -> str:
        """What distinguishes this step from others with the same text; fingerprints contain it."""
        return ""

    @property
    def label(self) -> str:
        """What error rows call it: its text, or as much of it as can be taken in."""
        text = str(self)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class RowStep(Step):
    """A step that keeps the columns as they are."""

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return schema


def written(expression: Expr) -> str:
    """Canonical text, and how it was written where errors of rows say so: state holds them.

    Functions of users are told apart by their digests, as the text has their names alone.
    """
    if not expression.calls:
        return expression.sql
    text = expression.text if expression.can_fail else expression.sql
    shown = expression.sql if text == expression.sql else f"{expression.sql} as {text}"
    functions = digest_of(expression)
    return f"{shown} calling {functions}" if functions else shown


def _shown(outputs: Outputs) -> str:
    return ", ".join(n if e.is_column and e.column_name == n else f"{e.sql} as {n}" for n, e in outputs)


def _exact(outputs: Outputs) -> str:
    return str([(n, written(e), str(e.type)) for n, e in outputs])


def _fields(outputs: Outputs) -> list[pa.Field]:
    return [T.marked(pa.field(name, e.type, e.nullable), mark_of(e) or mark_of_units(e)) for name, e in outputs]


def _columns(outputs: Outputs) -> frozenset[str]:
    return frozenset().union(*(e.columns for _, e in outputs))


@dataclass(frozen=True)
class Filter(RowStep):
    """Keep the rows on which the predicate is true (false and null reject).

    ``tolerant``: rows on which it fails pass; the same predicate is asked again where it was written, which makes
    the error of the rows that get there.
    """

    predicate: Expr
    tolerant: bool = False

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the predicate."""
        return self.predicate.columns

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return (self.predicate,)

    @property
    def can_fail(self) -> bool:
        """Whether the predicate can, and that is an error here."""
        return self.predicate.can_fail and not self.tolerant

    @property
    def label(self) -> str:
        """A function alone where it looks at columns that altneu itself has made."""
        condition = self.predicate
        name = condition.name if isinstance(condition, Call) else ""
        if (
            name.isidentifier()
            and name not in ("and", "or", "not")
            and all(c.startswith("#") for c in condition.columns)
        ):
            return f"filter {name}"
        return super().label

    @property
    def digest(self) -> str:
        """The predicate as it was written."""
        return written(self.predicate)

    def __str__(self) -> str:
        return f"filter{' early' * self.tolerant} {self.predicate.sql}"


@dataclass(frozen=True)
class Extend(Step):
    """Add columns, each computed from the row as it came; altneu's own have names that begin with ``#``."""

    outputs: Outputs

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return pa.schema([*schema, *_fields(self.outputs)])

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the expressions."""
        return _columns(self.outputs)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return tuple(e for _, e in self.outputs)

    @property
    def can_fail(self) -> bool:
        """Whether an expression can."""
        return any(e.can_fail for _, e in self.outputs)

    @property
    def digest(self) -> str:
        """The expressions as they were written."""
        return _exact(self.outputs)

    def __str__(self) -> str:
        return f"compute {', '.join(e.sql if n.startswith('#') else f'{e.sql} as {n}' for n, e in self.outputs)}"


@dataclass(frozen=True)
class Project(Step):
    """Compute the columns of a new row, each from the whole old row."""

    outputs: Outputs

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return self._schema

    @cached_property
    def _schema(self) -> pa.Schema:
        return pa.schema(_fields(self.outputs))

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the expressions."""
        return _columns(self.outputs)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return tuple(e for _, e in self.outputs)

    @property
    def can_fail(self) -> bool:
        """Whether an expression can."""
        return any(e.can_fail for _, e in self.outputs)

    @property
    def digest(self) -> str:
        """The expressions as they were written."""
        return _exact(self.outputs)

    def __str__(self) -> str:
        return f"select {_shown(self.outputs)}"


@dataclass(frozen=True)
class Temporal(RowStep):
    """Let each row exist only within its bounds: from the greatest lower one until the least upper one.

    Bounds are evaluated in order, the lower ones first; ``tolerant`` takes a bound that fails for none at all (see
    ``Filter``). ``delay`` moves the bounds, for a delay that comes later.
    """

    bounds: tuple[Bound, ...]
    delay: Delay = NO_DELAY
    tolerant: bool = False

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the bounds."""
        return frozenset().union(*(b.columns for b in self.bounds))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return tuple(e for b in self.bounds for e in b.expressions)

    @property
    def can_fail(self) -> bool:
        """Whether a bound can, and that is an error here."""
        return (bool(self.delay) or any(b.can_fail for b in self.bounds)) and not self.tolerant

    @property
    def digest(self) -> str:
        """The bounds as they were written."""
        functions = "".join(f" calling {digest}" for e in self.expressions if (digest := digest_of(e)))
        return f"{[b.digest for b in self.bounds]} {delay_digest(self.delay)}{functions}"

    def __str__(self) -> str:
        moved = f" ({self.delay})" if self.delay else ""
        return f"while{' early' * self.tolerant} {' and '.join(map(str, self.bounds))}{moved}"


@dataclass(frozen=True)
class Update:
    """One update that an ``Emit`` makes of a row.

    ``when``: only where this is true. ``time`` is a long, joined with the row's time (None: the least), ``event`` with
    its event time; ``diff`` a long, multiplied with the row's diff (None: 1). Where one is null there is no update.
    """

    outputs: Outputs
    time: Expr | None = None
    diff: Expr | None = None
    when: Expr | None = None
    event: Expr | None = None

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        more = (self.when, self.time, self.event, self.diff)
        return (*(e for e in more if e is not None), *(e for _, e in self.outputs))

    def __str__(self) -> str:
        at = f" at {self.time.sql}" if self.time is not None else ""
        at += f" about {self.event.sql}" if self.event is not None else ""
        by = f" times {self.diff.sql}" if self.diff is not None else ""
        where = f" where {self.when.sql}" if self.when is not None else ""
        return f"({_shown(self.outputs)}){at}{by}{where}"


@dataclass(frozen=True)
class Emit(Step):
    """Replace each row by updates written as expressions: the declarative form of ``join_function``.

    All updates have the same columns, of the same types.
    """

    updates: tuple[Update, ...]
    delay: Delay = NO_DELAY

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        first = _fields(self.updates[0].outputs)
        return pa.schema(
            [f.with_nullable(any(u.outputs[i][1].nullable for u in self.updates)) for i, f in enumerate(first)]
        )

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of all expressions."""
        return frozenset().union(*(e.columns for u in self.updates for e in u.expressions))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return tuple(e for u in self.updates for e in u.expressions)

    @property
    def can_fail(self) -> bool:
        """Whether an expression can."""
        return bool(self.delay) or any(e.can_fail for u in self.updates for e in u.expressions)

    @property
    def digest(self) -> str:
        """The expressions as they were written."""
        parts = [
            (
                _exact(u.outputs),
                *("" if e is None else written(e) for e in (u.when, u.time, u.diff)),
                *(() if u.event is None else (written(u.event),)),
            )
            for u in self.updates
        ]
        return f"{parts} {delay_digest(self.delay)}"

    def __str__(self) -> str:
        moved = f" ({self.delay})" if self.delay else ""
        return f"emit {' + '.join(map(str, self.updates))}{moved}"


@dataclass(frozen=True)
class RepeatRow(RowStep):
    """Multiply each row's count by a long; null and 0 leave nothing, a negative one may be an error."""

    count: Expr
    non_negative: bool = False

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the count."""
        return self.count.columns

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return (self.count,)

    @property
    def can_fail(self) -> bool:
        """Whether the count can, or may not be negative."""
        return self.non_negative or self.count.can_fail

    @property
    def digest(self) -> str:
        """The count as it was written."""
        return written(self.count)

    def __str__(self) -> str:
        return f"repeat_row{'_non_negative' * self.non_negative} {self.count.sql}"


@dataclass(frozen=True)
class GenerateSeries(Step):
    """One row for each value from ``start`` up to and with ``stop``, in a new column.

    ``outer`` keeps a row whose series is empty, with null.
    """

    name: str
    start: Expr
    stop: Expr
    step: Expr
    outer: bool = False

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return pa.schema([*schema, pa.field(self.name, self.start.type, nullable=self.outer)])

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the arguments."""
        return self.start.columns | self.stop.columns | self.step.columns

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return (self.start, self.stop, self.step)

    @property
    def can_fail(self) -> bool:
        """Whether an argument can, or the step may be zero, or no whole days where those are asked for."""
        return any(e.can_fail for e in (self.start, self.stop, self.step)) or not self._steps_well()

    def _steps_well(self) -> bool:
        if not isinstance(self.step, Literal):
            return False
        size, days = self.step.value, self.start.type == T.DATE and self.step.type == T.DAY_TIME
        return size is None or (size != 0 and not (days and size % _DAY))

    @property
    def digest(self) -> str:
        """The arguments as they were written."""
        arguments = str([(written(e), str(e.type)) for e in (self.start, self.stop, self.step)])
        return f"{arguments} outer" if self.outer else arguments

    def __str__(self) -> str:
        arguments = f"{self.start.sql}, {self.stop.sql}, {self.step.sql}"
        return f"generate_series{' outer' * self.outer}({arguments}) as {self.name}"


@dataclass(frozen=True)
class Unnest(Step):
    """One row for each element of an array, or entry of a map, in new columns.

    ``names`` are one name for an array's elements or two for a map's keys and values; ``ordinality`` names a column of
    positions from 1. ``outer`` keeps a row without elements, with nulls.
    """

    value: Expr
    names: tuple[str, ...]
    ordinality: str | None = None
    outer: bool = False

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        kind = self.value.type
        types = [kind.key_type, kind.item_type] if pa.types.is_map(kind) else [kind.value_type]
        added = [T.marked(pa.field(n, t), mark_of(self.value)) for n, t in zip(self.names, types, strict=True)]
        if self.ordinality is not None:
            added.append(pa.field(self.ordinality, pa.int64(), nullable=self.outer))
        return pa.schema([*schema, *added])

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Those of the array."""
        return self.value.columns

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated."""
        return (self.value,)

    @property
    def can_fail(self) -> bool:
        """Whether the array can."""
        return self.value.can_fail

    @property
    def digest(self) -> str:
        """The array as it was written, and what is asked of it."""
        return f"{written(self.value)} {self.value.type} {self.ordinality} {self.outer}"

    def __str__(self) -> str:
        more = f" with ordinality {self.ordinality}" if self.ordinality else ""
        return f"unnest{' outer' * self.outer} {self.value.sql} as {', '.join(self.names)}{more}"


@dataclass(frozen=True)
class JsonField:
    """A value inside a JSON text: the new column's name, the way to it, its type.

    A path is names of objects' members, from the outside in. ``unit`` tells what whole numbers mean for dates ("d") and
    timestamps ("s", "ms", "us", "ns"). Where there is no member at ``path``, not even null, the first of ``fallbacks``
    that has one is read. An object must have at least one of the members ``needs``, if any are named.
    """

    name: str
    path: tuple[str, ...]
    type: pa.DataType
    unit: str = ""
    fallbacks: tuple[tuple[str, ...], ...] = ()

    @property
    def digest(self) -> tuple[object, ...]:
        """What tells this field from any other."""
        described = (self.name, self.path, str(self.type), self.unit)
        return (*described, self.fallbacks) if self.fallbacks else described

    def __str__(self) -> str:
        return f"{' or '.join('.'.join(p) for p in (self.path, *self.fallbacks))} as {self.name}"


@dataclass(frozen=True)
class ParseJson(Step):
    """Read fields of a JSON text into new columns; members that are not asked for are not looked at.

    A null text gives nulls, and so does an absent member; a text that is no JSON, or a member of another type, is an
    error. ``needs`` are paths of objects with names of members: an object that is there and has none of them is an
    error too.
    """

    column: str
    fields: tuple[JsonField, ...]
    needs: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return pa.schema([*schema, *(pa.field(f.name, f.type) for f in self.fields)])

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """The text."""
        return frozenset((self.column,))

    @property
    def label(self) -> str:
        """The text that is read; which members are depends on who else reads it."""
        return f"json {self.column}"

    @property
    def digest(self) -> str:
        """Ways, types and units."""
        return str([f.digest for f in self.fields]) + (str(self.needs) if self.needs else "")

    def __str__(self) -> str:
        return f"json {self.column}: {', '.join(map(str, self.fields))}"


@dataclass(frozen=True)
class FunctionStep(Step):
    """A step that calls a Python function of a row, or of a batch of them."""

    function: Function

    @property
    def digest(self) -> str:
        """That of the function."""
        return self.function.digest


@dataclass(frozen=True)
class FilterFunction(FunctionStep):
    """Keep the rows for which a Python function returns a true value."""

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return schema

    def __str__(self) -> str:
        return f"filter {self.function.name}"


@dataclass(frozen=True)
class MakingStep(FunctionStep):
    """A step whose Python function returns rows of ``schema``."""

    schema: pa.Schema

    def output(self, schema: pa.Schema) -> pa.Schema:
        """Schema after this step."""
        return self.schema


@dataclass(frozen=True)
class MapFunction(MakingStep):
    """Replace each row by what a Python function returns for it."""

    def __str__(self) -> str:
        return f"map {self.function.name}"


@dataclass(frozen=True)
class FlatMapFunction(MakingStep):
    """Replace each row by the rows that a Python function yields for it."""

    def __str__(self) -> str:
        return f"flat_map {self.function.name}"


@dataclass(frozen=True)
class ExplodeFunction(MakingStep):
    """Replace each row by the (row, diff) pairs that a Python function yields for it."""

    def __str__(self) -> str:
        return f"explode {self.function.name}"


@dataclass(frozen=True)
class JoinFunction(MakingStep):
    """Replace each row by the (row, time, diff) triples that a Python function yields for it.

    Of ``two`` times a time may be a pair, of the time and the event time; the lowering says whether there are two.
    """

    delay: Delay = NO_DELAY
    two: bool = False

    @property
    def digest(self) -> str:
        """That of the function, and of the delay."""
        return f"{self.function.digest} {delay_digest(self.delay)}"

    def __str__(self) -> str:
        return f"join_function {self.function.name}{f' ({self.delay})' if self.delay else ''}"


@dataclass(frozen=True)
class Negate(RowStep):
    """Turn every diff into its negative."""

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """None."""
        return frozenset()

    @property
    def can_fail(self) -> bool:
        """Never."""
        return False

    def __str__(self) -> str:
        return "negate"


def delay_digest(delay: Delay) -> str:
    """A delay as text that tells it from any other."""
    functions = [p.function.digest for p in delay.parts if hasattr(p, "function")]
    return f"{delay} {functions}" if delay else ""
