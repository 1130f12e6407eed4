"""Bound logic: the logic of a linear operator, as a value.

Linear operators act update by update, so a run of them is one value: a delay of the times that come in, and steps
applied in order. This package only describes them; ``altneu.operators.linear`` evaluates them over column batches.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from altneu.expressions.expr import Call, Expr, parts_of
from altneu.linear.delay import NO_DELAY, Delay
from altneu.linear.steps import (
    Emit,
    Extend,
    Filter,
    FunctionStep,
    GenerateSeries,
    JoinFunction,
    Negate,
    ParseJson,
    Project,
    RepeatRow,
    Step,
    Temporal,
    Unnest,
    delay_digest,
)
from altneu.linear.user_function import user_calls

_HANDS_ON = (Filter, Extend, Temporal, RepeatRow, GenerateSeries, Unnest, ParseJson, Negate)


@dataclass(frozen=True)
class BoundLogic:
    """A run of linear steps as one value, with names resolved against a schema.

    For an update ``(row, t, d)`` it gives ``(row', delay(t) joined with t', d * d')`` for each ``(row', t', d')`` that
    the steps make of the row.

    Law:  ``followed_by`` is associative and ``BoundLogic()`` is its identity (tests/laws/test_logic.py).
    """

    steps: tuple[Step, ...] = ()
    delay: Delay = NO_DELAY

    def followed_by(self, after: BoundLogic) -> BoundLogic:
        """This logic, then the other; adjacent negations cancel.

        The other's delay moves to the front: what this one's steps say of times is delayed by it. Where that is not
        so (``may_be_followed_by``) the two stay apart.
        """
        assert self.may_be_followed_by(after), after
        steps = [delayed(step, after.delay) for step in self.steps]
        for step in after.steps:
            if isinstance(step, Negate) and steps and isinstance(steps[-1], Negate):
                steps.pop()
            else:
                steps.append(step)
        return BoundLogic(tuple(steps), self.delay.then(after.delay))

    def output(self, schema: pa.Schema) -> pa.Schema:
        """The schema of the output for an input with ``schema``."""
        for step in self.steps:
            schema = step.output(schema)
        return schema

    def chosen(self, schema: pa.Schema) -> tuple[pa.Schema, tuple[int, ...]]:
        """Of logic that only chooses columns: the schema of the output, and where its columns are in the input."""
        known, output, places = self._chosen[0]
        if known is not schema or output is None:
            assert self.plain_columns is not None
            places = tuple([schema.get_field_index(name) for name in self.plain_columns.values()])
            output = self.output(schema)
            self._chosen[0] = schema, output, places
        return output, places

    @cached_property
    def program(self) -> list[tuple[pa.Schema | None, object]]:
        """A place for the last schema of an input, and what those who run the logic have made for it."""
        return [(None, None)]

    @cached_property
    def _chosen(self) -> list[tuple[pa.Schema | None, pa.Schema | None, tuple[int, ...]]]:
        """The last schema of an input, and what was chosen of it."""
        return [(None, None, ())]

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """Columns of ``schema`` that the result depends on."""
        needed: set[str] = set()
        current = schema
        for step in self.steps:
            needed |= step.columns_read(current)
            if not isinstance(step, _HANDS_ON):
                return frozenset(needed) & frozenset(schema.names)
            current = step.output(current)
        return frozenset(schema.names)

    @cached_property
    def plain_columns(self) -> dict[str, str] | None:
        """For logic that only chooses and renames columns: the input column of each output; None for any other."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], Project) or self.delay:
            return None
        outputs = self.steps[0].outputs
        return {n: e.column_name for n, e in outputs} if all(e.is_column for _, e in outputs) else None

    @cached_property
    def negates(self) -> bool:
        """Whether it changes the sign of every diff, and nothing else."""
        return self.steps == (Negate(),) and not self.delay

    @property
    def can_fail(self) -> bool:
        """Whether any row may become an error."""
        return bool(self.delay) or any(step.can_fail for step in self.steps)

    @cached_property
    def has_errors(self) -> bool:
        """Whether error rows may come of it: of rows that fail, or of values that grow too large for a column."""
        return self.can_fail or any(e.can_grow for step in self.steps for e in step.expressions)

    @cached_property
    def is_expressions(self) -> bool:
        """Whether it is one run of filters and computed columns, and computes only values that have one size each."""
        runs = all(isinstance(s, Filter | Extend | Project) and all(map(_is_small, s.expressions)) for s in self.steps)
        return runs and not self.delay

    @cached_property
    def calls_python(self) -> bool:
        """Whether a function of the user's is called."""
        if any(isinstance(s, FunctionStep) for s in self.steps):
            return True
        return any(True for s in self.steps for e in s.expressions for _ in user_calls(e))

    @cached_property
    def expands(self) -> bool:
        """Whether a table function is in it, so that a few rows may become more than there is memory for."""
        return any(isinstance(step, GenerateSeries | Unnest) for step in self.steps)

    @property
    def keeps_times(self) -> bool:
        """Whether every update keeps its time: only then does it commute with reduce, distinct and the like."""
        moves = (Temporal, JoinFunction)
        return not self.delay and not any(
            isinstance(s, moves)
            or (isinstance(s, Emit) and any(u.time is not None or u.event is not None for u in s.updates))
            for s in self.steps
        )

    def may_be_followed_by(self, after: BoundLogic) -> bool:
        """Whether both are one logic: not if a function of both times follows steps that make times."""
        return not after.delay.is_of_both or BoundLogic(self.steps).keeps_times

    def with_event_times(self) -> BoundLogic:
        """The logic for rows that have two times: what its functions say of times may be pairs."""
        steps = tuple(replace(step, two=True) if isinstance(step, JoinFunction) else step for step in self.steps)
        return replace(self, steps=steps) if steps != self.steps else self

    @property
    def moves_events(self) -> bool:
        """Whether it delays or makes event times, so that rows have to have some."""
        made = (u.event for s in self.steps if isinstance(s, Emit) for u in s.updates)
        return self.delay.moves_events or any(event is not None for event in made)

    @property
    def digest(self) -> str:
        """What tells this logic from any other; stable across processes."""
        parts = [delay_digest(self.delay)] if self.delay else []
        return "; ".join([*parts, *(f"{step} {step.digest}" for step in self.steps)])

    def __bool__(self) -> bool:
        return bool(self.steps or self.delay)

    def __str__(self) -> str:
        parts = [str(self.delay)] if self.delay else []
        return "; ".join([*parts, *map(str, self.steps)]) or "identity"


def _is_small(expression: Expr) -> bool:
    """Whether every value that is computed on the way is of numbers, truths and times: few bytes, whatever the row."""
    return all(_is_small_type(part.type) for part in parts_of(expression) if isinstance(part, Call))


def _is_small_type(type_: pa.DataType) -> bool:
    if pa.types.is_struct(type_):
        return all(_is_small_type(type_.field(i).type) for i in range(type_.num_fields))
    return pa.types.is_primitive(type_) or pa.types.is_decimal(type_) or pa.types.is_null(type_)


def delayed(step: Step, delay: Delay) -> Step:
    """The step with the times that it makes delayed; most make none."""
    if delay and isinstance(step, Temporal | Emit | JoinFunction):
        return replace(step, delay=step.delay.then(delay))
    return step
