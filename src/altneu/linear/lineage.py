"""Which columns linear logic hands on, and which have no nulls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import pyarrow as pa

from altneu.expressions import Expr, may_be_null
from altneu.linear.bound import BoundLogic
from altneu.linear.steps import (
    Emit,
    Extend,
    FilterFunction,
    GenerateSeries,
    Outputs,
    ParseJson,
    Project,
    RowStep,
    Step,
    Unnest,
)

_ADDS = (RowStep, FilterFunction, Extend, GenerateSeries, Unnest, ParseJson)
"""Steps that hand on all columns, and may add some."""


def projections(step: Step) -> Sequence[Outputs] | None:
    """The columns that a step makes of a row, once for each row that it becomes; none: all of them, and perhaps more.

    None where nothing is known of them.
    """
    if isinstance(step, _ADDS):
        return ()
    if isinstance(step, Project):
        return (step.outputs,)
    if isinstance(step, Emit):
        return tuple(update.outputs for update in step.updates) or None
    return None


def handed_on(logic: BoundLogic, schema: pa.Schema) -> dict[str, str]:
    """The output columns of linear logic that hand on an input column, each with that."""
    names = {name: name for name in schema.names}
    for step in logic.steps:
        outputs = projections(step)
        if outputs is None:
            return {}
        if outputs:
            names = _through(names, outputs)
    return names


def without_nulls(logic: BoundLogic, schema: pa.Schema, known: AbstractSet[str]) -> frozenset[str]:
    """The output columns of linear logic that hold no null, where the ``known`` ones of the input hold none."""
    never = frozenset(known)
    for step in logic.steps:
        outputs = projections(step)
        if outputs:
            made = [{name for name, e in some if not may_be_null(e, never)} for some in outputs]
            never = frozenset.intersection(*map(frozenset, made))
        elif outputs is None:
            never = frozenset()
        schema = step.output(schema)
        never |= {field.name for field in schema if not field.nullable}
    return never


def _through(names: Mapping[str, str], projections: Sequence[Sequence[tuple[str, Expr]]]) -> dict[str, str]:
    """The columns that each of some projections hands on from the same one."""
    handed = [
        {n: names[e.column_name] for n, e in outputs if e.is_column and e.column_name in names}
        for outputs in projections
    ]
    return {n: old for n, old in handed[0].items() if all(other.get(n) == old for other in handed)}
