"""Linear operators: evaluate a ``BoundLogic`` over a batch of updates.

A row on which an expression or a function fails becomes an error row at its own time and with its own diff, so it heals
when the row is retracted; everything else goes on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu import difference
from altneu.errors import ERROR_SCHEMA, SchemaError
from altneu.expressions import Expr
from altneu.floats import normalise, normalise_rows
from altneu.linear import BoundLogic, Filter, FilterFunction, FlatMapFunction, MapFunction, Negate, Project, Step
from altneu.rows import Rows, as_array, record_type
from altneu.update import Updates

Mask = npt.NDArray[np.bool_]


@dataclass
class Failures:
    """Error rows gathered while a run of steps is evaluated.

    ``operator`` is the step that is being evaluated: an error is the same however steps were merged or shared.
    """

    operator: str
    parts: list[Updates]

    def add(self, updates: Updates, index: npt.NDArray[np.integer], describe: Callable[[int], tuple[str, str]]) -> None:
        """Record the updates at ``index`` as errors; ``describe(i)`` gives (code, message)."""
        if not len(index):
            return
        failed = updates.take(index)
        texts = [describe(int(i)) for i in index]
        rows = [show_row(failed.schema.names, r) for r in failed.rows.to_pylist()]
        columns = {
            "operator": [self.operator] * len(index),
            "code": [c for c, _ in texts],
            "message": [m for _, m in texts],
            "row": rows,
        }
        self.parts.append(failed.with_rows(Rows.from_pydict(columns, ERROR_SCHEMA)))


def show_row(names: Sequence[str], row: Sequence[object]) -> str:
    """A row as readable text: JSON with Python's own text for what JSON lacks.

    >>> show_row(["a", "b"], (1, None))
    '{"a": 1, "b": null}'
    """
    return json.dumps(dict(zip(names, row, strict=True)), default=str, ensure_ascii=False)


def run_logic(logic: BoundLogic, updates: Updates) -> tuple[Updates, Updates]:
    """Apply every step in order; return (oks, errors).

    Shape:  n updates in, any number out; ``width`` of the times unchanged.
    Cost:   one pass a step over the columns it reads; no exchange, no state.
    Law:    ``run(x + y) = run(x) + run(y)`` (tests/oracle/test_operators.py).
    """
    failures = Failures("", [])
    width = len(updates.times)
    for i, step in enumerate(logic.steps):
        if not len(updates):
            updates = Updates.empty(BoundLogic(logic.steps[i:]).output(updates.schema), width)
            break
        failures.operator = str(step)
        updates = _RUN[type(step)](step, updates, failures)
    return updates, Updates.concat(failures.parts, ERROR_SCHEMA, width)


def _evaluate(expression: Expr, updates: Updates, failures: Failures) -> tuple[pa.Array, Mask | None]:
    result = expression.evaluate(updates.rows)
    if result.failed is None:
        return result.values, None
    failures.add(updates, np.flatnonzero(result.failed), result.error)
    return result.values, result.failed


def _filter(step: Filter, updates: Updates, failures: Failures) -> Updates:
    values, failed = _evaluate(step.predicate, updates, failures)
    keep = truth(values)
    if failed is not None:
        keep &= ~failed
    return updates if keep.all() else updates.filter(keep)


def truth(values: pa.Array) -> Mask:
    """True where a boolean array is true, false where it is false or null."""
    if values.null_count:
        values = values.fill_null(False)
    return np.array(values.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _project(step: Project, updates: Updates, failures: Failures) -> Updates:
    columns: list[pa.Array] = []
    any_failed: Mask | None = None
    for _, expression in step.outputs:
        if expression.is_column:
            columns.append(updates.rows.column(expression.column_name))
            continue
        result = expression.evaluate(updates.rows)
        columns.append(normalise(result.values))
        if result.failed is not None:  # the first failing column names the row's error: one row, one error
            fresh = result.failed if any_failed is None else result.failed & ~any_failed
            failures.add(updates, np.flatnonzero(fresh), result.error)
            any_failed = result.failed if any_failed is None else any_failed | result.failed
    projected = updates.with_rows(Rows(step.output(updates.schema), tuple(columns), len(updates)))
    return projected if any_failed is None else projected.filter(~any_failed)


def _negate(_step: Negate, updates: Updates, _failures: Failures) -> Updates:
    return Updates(updates.rows, updates.times, difference.negate(updates.diffs))


def _exception(error: Exception) -> tuple[str, str]:
    return "PYTHON_EXCEPTION", f"{type(error).__name__}: {error}"


def _call_rows(call: Callable[[Any], Any], updates: Updates, failures: Failures) -> tuple[list[Any], list[int]]:
    """Call a function per row; return its results and the positions on which it did not raise."""
    record = record_type(updates.schema.names)
    results, good = [], []
    errors: dict[int, tuple[str, str]] = {}
    for i, row in enumerate(updates.rows.to_pylist()):
        try:
            results.append(call(record(row)))
            good.append(i)
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
            errors[i] = _exception(error)
    failures.add(updates, np.fromiter(errors, np.int64, len(errors)), errors.__getitem__)
    return results, good


def _map(step: MapFunction, updates: Updates, failures: Failures) -> Updates:
    if step.function.batch:
        return _map_batch(step, updates, failures)
    results, good = _call_rows(lambda r: as_row(step.function.call(r), step.schema), updates, failures)
    rows, fits = build_rows(results, step.schema, updates, good, failures)
    return updates.take(fits).with_rows(rows)


def _flat_map(step: FlatMapFunction, updates: Updates, failures: Failures) -> Updates:
    if step.function.batch:
        return _map_batch(step, updates, failures)
    results, good = _call_rows(lambda r: [as_row(x, step.schema) for x in step.function.call(r)], updates, failures)
    parents = [i for i, made in zip(good, results, strict=True) for _ in made]
    rows, fits = build_rows([x for made in results for x in made], step.schema, updates, parents, failures)
    return updates.take(fits).with_rows(rows)


def _filter_function(step: FilterFunction, updates: Updates, failures: Failures) -> Updates:
    if step.function.batch:
        return _in_batches(lambda part: _keep_batch(step, part), updates.schema, updates, failures)
    results, good = _call_rows(lambda r: bool(step.function.call(r)), updates, failures)
    index = np.array([i for i, keep in zip(good, results, strict=True) if keep], dtype=np.int64)
    return updates.take(index)


def as_row(value: object, schema: pa.Schema) -> tuple[object, ...]:
    """A function's result as a tuple in schema order: a tuple or list, a dict, or one value for one column.

    Raises:
        SchemaError: the number or the names of the values are not those of the schema.
    """
    if isinstance(value, dict):
        unknown = [k for k in value if k not in schema.names]
        if unknown:
            raise SchemaError(
                f"the function returned {unknown[0]!r}, which is not among its columns: {', '.join(schema.names)}"
            )
        return tuple(value.get(n) for n in schema.names)
    if isinstance(value, tuple | list) and not (len(schema) == 1 and pa.types.is_nested(schema.field(0).type)):
        if len(value) != len(schema):
            raise SchemaError(
                f"the function returned {len(value)} values for {len(schema)} columns: {', '.join(schema.names)}"
            )
        return tuple(value)
    if len(schema) == 1:
        return (value,)
    raise SchemaError(f"the function returned {type(value).__name__} for the columns {', '.join(schema.names)}")


def build_rows(
    results: list[tuple[object, ...]], schema: pa.Schema, updates: Updates, parents: Sequence[int], failures: Failures
) -> tuple[Rows, npt.NDArray[np.int64]]:
    """Convert Python rows to columns; rows whose values do not fit the types become errors.

    Returns the rows and, for each, the position of the update it came from.
    """
    index = np.array(parents, dtype=np.int64)
    try:
        return normalise_rows(Rows.from_pylist(results, schema)), index
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError):
        pass  # some value does not fit: find which rows, one by one
    good: list[int] = []
    errors: dict[int, tuple[str, str]] = {}
    for i, row in enumerate(results):
        try:
            Rows.from_pylist([row], schema)
            good.append(i)
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError, ValueError) as error:
            errors[int(index[i])] = (
                "PYTHON_RESULT_TYPE",
                f"the function's result {row!r} does not fit its columns: {error}",
            )
    failures.add(updates, np.fromiter(errors, np.int64, len(errors)), errors.__getitem__)
    return normalise_rows(Rows.from_pylist([results[i] for i in good], schema)), index[good]


def _map_batch(step: MapFunction | FlatMapFunction, updates: Updates, failures: Failures) -> Updates:
    return _in_batches(lambda part: _one_batch(step, part), step.schema, updates, failures)


def _in_batches(call: Callable[[Updates], Updates], schema: pa.Schema, updates: Updates, failures: Failures) -> Updates:
    """Call a function of record batches; where it raises, halve the batch until the failing rows stand alone."""
    done: list[Updates] = []
    work = [np.arange(len(updates))]
    while work:
        index = work.pop()
        part = updates.take(index)
        try:
            done.append(call(part))
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
            if len(index) == 1:
                text = _exception(error)
                failures.add(part, np.zeros(1, np.int64), lambda _, text=text: text)  # type: ignore[misc]
            else:
                work += [index[len(index) // 2 :], index[: len(index) // 2]]
    return Updates.concat(done, schema, len(updates.times))


def _keep_batch(step: FilterFunction, part: Updates) -> Updates:
    made = step.function.call(part.rows.to_batch())
    if not isinstance(made, pa.Array | pa.ChunkedArray) or not pa.types.is_boolean(made.type):
        found = made.type if isinstance(made, pa.Array | pa.ChunkedArray) else type(made).__name__
        raise SchemaError(f"{step.function.name} returned {found}, and a filter needs an Arrow array of booleans")
    _check_count(step.function.name, len(made), len(part))
    return part.filter(truth(as_array(made)))


def _one_batch(step: MapFunction | FlatMapFunction, part: Updates) -> Updates:
    made = step.function.call(part.rows.to_batch())
    parents: npt.NDArray[np.int64] | None = None
    if isinstance(step, FlatMapFunction):
        made, positions = made
        parents = np.asarray(positions, dtype=np.int64)
    if not isinstance(made, pa.RecordBatch | pa.Table):
        raise SchemaError(f"{step.function.name} returned {type(made).__name__}, not a record batch")
    columns = tuple(as_array(made.column(f.name)).cast(f.type) for f in step.schema)
    expected = len(part) if parents is None else len(parents)
    _check_count(step.function.name, made.num_rows, expected)
    source = part if parents is None else part.take(parents)
    return source.with_rows(normalise_rows(Rows(step.schema, columns, expected)))


def _check_count(name: str, made: int, expected: int) -> None:
    if made != expected:
        raise SchemaError(f"{name} returned {made} rows, expected {expected}")


_RUN: dict[type[Step], Callable[[Any, Updates, Failures], Updates]] = {
    Filter: _filter,
    Project: _project,
    MapFunction: _map,
    FlatMapFunction: _flat_map,
    FilterFunction: _filter_function,
    Negate: _negate,
}
