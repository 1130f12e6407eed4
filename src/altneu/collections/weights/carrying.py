"""Linear logic over the columns of the data, with those of the weight carried past it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, update_wrapper
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Record, as_array, record_type
from altneu.expressions import parse
from altneu.linear import (
    BoundLogic,
    Emit,
    ExplodeFunction,
    FilterFunction,
    FlatMapFunction,
    Function,
    JoinFunction,
    MakingStep,
    MapFunction,
    Project,
    Step,
)
from altneu.operators.linear.function_steps import as_row
from altneu.types import quote_name


def carrying(logic: BoundLogic, schema: pa.Schema, carried: Sequence[str]) -> BoundLogic:
    """Logic for rows of some columns, as logic for rows that have further columns, which it hands on as they are.

    Shape:  ``schema`` has all columns; the logic was bound to those that are not ``carried``, and reads no others: its
            Python functions are not given them.
    """
    steps: list[Step] = []
    for step in logic.steps:
        steps.append(_carrying(step, schema, carried))
        schema = steps[-1].output(schema)
    return BoundLogic(tuple(steps), logic.delay)


def _carrying(step: Step, schema: pa.Schema, carried: Sequence[str]) -> Step:
    kept = tuple((name, parse(quote_name(name), schema)) for name in carried)
    if isinstance(step, Project):
        return Project((*step.outputs, *kept))
    if isinstance(step, Emit):
        return replace(step, updates=tuple(replace(u, outputs=(*u.outputs, *kept)) for u in step.updates))
    if isinstance(step, FilterFunction):
        return replace(step, function=_around(step.function, _keep, _Columns.of(schema, carried, step.function)))
    if isinstance(step, MakingStep):
        columns, made = _Columns.of(schema, carried, step.function), [schema.field(name) for name in carried]
        kind = {MapFunction: "map", FlatMapFunction: "flat_map"}.get(type(step), "updates")
        function = _around(step.function, _make, columns, step.schema, kind)
        return replace(step, function=function, schema=pa.schema([*step.schema, *made]))
    return step


def weighing(step: ExplodeFunction | JoinFunction, weight: Sequence[pa.Field]) -> MakingStep:
    """A function whose diffs are weights as one of rows that have them in columns; their counts are 1."""
    made = pa.schema([*step.schema, *weight])
    return replace(step, function=_around(step.function, _weigh, step.schema, len(weight)), schema=made)


def _around(function: Function, around: Callable[..., Any], *given: Any) -> Function:
    """What calls a function, in its place: a partial, so that what the function reads is followed as before."""
    call = update_wrapper(partial(around, function.call, *given), function.call)
    digest = Function.digest_of(f"{around.__name__} {given} {function.digest}")
    return replace(function, call=call, digest=digest)


@dataclass(frozen=True)
class _Columns:
    """Which columns of rows are the data, and which are carried."""

    names: tuple[str, ...]
    own: tuple[int, ...]
    carried: tuple[int, ...]
    batch: bool

    @classmethod
    def of(cls, schema: pa.Schema, carried: Sequence[str], function: Function) -> _Columns:
        own = tuple(i for i, name in enumerate(schema.names) if name not in carried)
        rest = tuple(schema.names.index(name) for name in carried)
        return cls(tuple(schema.names), own, rest, function.batch)

    def data(self, row: Any) -> Any:
        """A row or a batch without the columns that are carried."""
        if self.batch:
            return row.select(list(self.own))
        return _record(tuple(self.names[i] for i in self.own))(row[i] for i in self.own)


@cache
def _record(names: tuple[str, ...]) -> type[Record]:
    return record_type(names)


def _keep(call: Callable[..., Any], columns: _Columns, row: Any) -> Any:
    """What a filter says of the data."""
    return call(columns.data(row))


def _make(call: Callable[..., Any], columns: _Columns, schema: pa.Schema, kind: str, row: Any) -> Any:
    """Rows that are made of the data, with the carried columns of the row they are made of."""
    made = call(columns.data(row))
    if columns.batch:
        return _make_batch(made, columns, schema, row, one=kind == "map")
    more = tuple(row[i] for i in columns.carried)
    if kind == "map":
        return (*as_row(made, schema), *more)
    if kind == "flat_map":
        return [(*as_row(x, schema), *more) for x in made]
    return [((*as_row(x, schema), *more), *rest) for x, *rest in made]


def _make_batch(made: Any, columns: _Columns, schema: pa.Schema, row: pa.RecordBatch, *, one: bool) -> Any:
    """A batch that was made, with the carried columns of the rows at the positions that are said."""
    result, *rest = made if isinstance(made, tuple) and made and not one else (made,)
    if not isinstance(result, pa.RecordBatch | pa.Table) or not (one or rest):
        return made  # which is refused
    positions = np.arange(row.num_rows) if one else np.asarray(rest[0])
    values = [as_array(result.column(name)) for name in schema.names]
    values += [row.column(i).take(pa.array(positions)) for i in columns.carried]
    batch = pa.RecordBatch.from_arrays(values, [*schema.names, *(columns.names[i] for i in columns.carried)])
    return batch if one else (batch, *rest)


def _weigh(call: Callable[..., Any], schema: pa.Schema, width: int, row: Any) -> Iterator[Any]:
    """Pairs of a row and a weight, or triples with a time, as rows with the weight in columns, once each."""
    for x, *time, weight in call(row):
        values = (weight,) if width == 1 else tuple(weight)
        yield ((*as_row(x, schema), *values), *time, 1)
