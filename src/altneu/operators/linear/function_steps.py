"""Steps that call Python functions: of one row at a time, or of a record batch.

All of them are one thing: a function gives, for a row, the updates ``(row, time, diff)`` that it becomes. ``map`` gives
one, ``flat_map`` any number, at the least time and once each; ``explode`` adds diffs, ``join_function`` times as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.canonical import canonical_rows
from altneu.columnar.python_values import exception_text, reason, value_text
from altneu.columnar.rows import Ints, Rows, as_array, record_type
from altneu.errors import DiffOverflowError, ImpureFunctionError, SchemaError, TooWideError
from altneu.linear import (
    EVENT,
    KNOWN,
    ExplodeFunction,
    FilterFunction,
    FlatMapFunction,
    JoinFunction,
    MakingStep,
    MapFunction,
    NotDelayed,
    Step,
)
from altneu.operators.kernels.groups import PYTHON_EXCEPTION, PYTHON_VALUE
from altneu.operators.kernels.spans import Failures, Spans, concat, truth

_LARGEST = 2**63 - 1

Made = tuple[tuple[object, ...], tuple[int, int], int]
Calling = Callable[[Any], Iterable[Made]]


def _calling(step: MakingStep) -> Calling:
    """A step's function as one that gives updates of tuples."""
    call, schema = step.function.call, step.schema
    match step:
        case MapFunction():
            return lambda row: [(as_row(call(row), schema), (0, 0), 1)]
        case ExplodeFunction():
            return lambda row: [(as_row(x, schema), (0, 0), _whole(d, "diff")) for x, d in call(row)]
        case JoinFunction(two=two):
            return lambda row: [(as_row(x, schema), _times_of(t, two=two), _whole(d, "diff")) for x, t, d in call(row)]
        case _:
            return lambda row: [(as_row(x, schema), (0, 0), 1) for x in call(row)]


def _times_of(time: object, *, two: bool) -> tuple[int, int]:
    """A time that a function gave, with an event time, which is the first if it gave none."""
    known, about = time if two and isinstance(time, tuple) and len(time) == 2 else (time, None)
    if isinstance(known, tuple):
        need = (
            "a whole number or a pair of a time and an event time"
            if two
            else "a whole number, as rows do not have two times"
        )
        raise SchemaError(f"the function gave {time!r} for a time, which has to be {need}")
    return tuple(0 if t is None else max(_whole(t, "time"), 0) for t in (known, about))  # type: ignore[return-value]


def _whole(value: object, what: str) -> int:
    if not isinstance(value, Integral) or isinstance(value, bool):
        raise SchemaError(f"the function gave {value!r} for a {what}, which is a whole number")
    number = int(value)
    if abs(number) > _LARGEST:
        raise SchemaError(f"the function gave {number} for a {what}, which is beyond 64 bits")
    return number


def _exception(error: Exception) -> tuple[str, str]:
    return PYTHON_EXCEPTION, exception_text(error)


def _call_rows(call: Callable[[Any], Any], spans: Spans, failures: Failures) -> tuple[list[Any], list[int]]:
    """Call a function per row; return its results and the positions on which it did not raise."""
    record = record_type(spans.schema.names)
    results, good = [], []
    errors: dict[int, tuple[str, str]] = {}
    rows, refused = spans.rows.for_functions()
    for i, row in enumerate(rows):
        if i in refused:
            errors[i] = (PYTHON_VALUE, refused[i])
            continue
        try:
            results.append(call(record(row)))
            good.append(i)
        except ImpureFunctionError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
            errors[i] = _exception(error)
    failures.add(spans, np.fromiter(errors, np.int64, len(errors)), errors.__getitem__)
    return results, good


def _make(step: MakingStep, spans: Spans, failures: Failures) -> Spans:
    """Replace rows by what the function makes of them."""
    if step.function.batch:
        return _in_batches(lambda part: _make_batch(step, part, failures), step.schema, spans, failures)
    calling = _calling(step)
    results, good = _call_rows(lambda row: list(calling(row)), spans, failures)
    parents = [i for i, result in zip(good, results, strict=True) for _ in result]
    flat = [one for result in results for one in result]
    rows, fits = build_rows([row for row, _, _ in flat], step.schema, spans, parents, failures)
    result = spans.taken_with(np.array(parents, np.int64)[fits], rows)
    if not isinstance(step, ExplodeFunction | JoinFunction):
        return result
    diffs = np.array([d for _, _, d in flat], np.int64)[fits]
    if isinstance(step, ExplodeFunction):
        return result.multiplied(diffs).existing()
    times = np.array([t for _, t, _ in flat], np.int64).reshape(len(flat), 2).T[:, fits]
    return _timed(step, result, times, diffs, failures)


def _timed(step: JoinFunction, result: Spans, times: Ints, diffs: Ints, failures: Failures) -> Spans:
    """Join delayed times and multiply diffs; a time that cannot be delayed makes an error of the row that was made.

    Shape:  ``times`` int64 ``(2, n)``, the second line for event times, which are not read where there are none.
    """
    while step.delay and len(result):
        try:
            times = step.delay.move(times)
            break
        except NotDelayed as error:
            text = ("DELAY", str(error))
            failures.add(result, error.index, lambda _, text=text: text)  # type: ignore[misc]
            keep = np.ones(len(result), np.bool_)
            keep[error.index] = False
            result, times, diffs = result.filter(keep), times[:, keep], diffs[keep]
    result = result.joined(times[KNOWN])
    return (result.about(times[EVENT]) if step.two else result).multiplied(diffs).existing()


def _filter(step: FilterFunction, spans: Spans, failures: Failures) -> Spans:
    if step.function.batch:
        return _in_batches(lambda part: _keep_batch(step, part), spans.schema, spans, failures)
    results, good = _call_rows(lambda r: bool(step.function.call(r)), spans, failures)
    return spans.take(np.array([i for i, keep in zip(good, results, strict=True) if keep], dtype=np.int64))


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
    results: list[tuple[object, ...]], schema: pa.Schema, spans: Spans, parents: Sequence[int], failures: Failures
) -> tuple[Rows, Ints]:
    """Convert Python rows to columns; rows whose values do not fit the types become errors.

    Returns the rows and, for each, its position among the results.
    """
    index = np.array(parents, dtype=np.int64)
    try:
        return canonical_rows(Rows.from_pylist(results, schema)), np.arange(len(results))
    except (MemoryError, TooWideError):
        raise
    except Exception:  # noqa: BLE001, S110 -- pyarrow calls what the values are made of
        pass  # some value does not fit: find which rows, one by one
    good: list[int] = []
    errors: dict[int, tuple[str, str]] = {}
    for i, row in enumerate(results):
        try:
            canonical_rows(Rows.from_pylist([row], schema))
            good.append(i)
        except Exception as error:  # noqa: BLE001 -- as above; a row alone that has no room is one that does not fit
            text = f"the function's result {value_text(row)} does not fit its columns: {reason(error)}"
            errors[int(index[i])] = ("PYTHON_RESULT_TYPE", text)
    failures.add(spans, np.fromiter(errors, np.int64, len(errors)), errors.__getitem__)
    return canonical_rows(Rows.from_pylist([results[i] for i in good], schema)), np.array(good, np.int64)


def _in_batches(call: Callable[[Spans], Spans], schema: pa.Schema, spans: Spans, failures: Failures) -> Spans:
    """Call a function of record batches; where it raises, halve the batch until the failing rows stand alone."""
    done: list[Spans] = []
    work = [np.arange(len(spans))]
    while work:
        index = work.pop()
        part = spans.take(index)
        try:
            done.append(call(part))
        except (DiffOverflowError, ImpureFunctionError, TooWideError):
            raise
        except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
            if len(index) == 1:
                text = _exception(error)
                failures.add(part, np.zeros(1, np.int64), lambda _, text=text: text)  # type: ignore[misc]
            else:
                work += [index[len(index) // 2 :], index[: len(index) // 2]]
    return concat(done, schema, len(spans.updates.times))


def _keep_batch(step: FilterFunction, part: Spans) -> Spans:
    result = step.function.call(part.rows.to_batch())
    if not isinstance(result, pa.Array | pa.ChunkedArray) or not pa.types.is_boolean(result.type):
        matches = result.type if isinstance(result, pa.Array | pa.ChunkedArray) else type(result).__name__
        raise SchemaError(f"{step.function.name} returned {matches}, and a filter needs an Arrow array of booleans")
    _check_count(step.function.name, len(result), len(part))
    return part.filter(truth(as_array(result)))


_PARTS: dict[type[MakingStep], tuple[str, ...]] = {
    MapFunction: (),
    FlatMapFunction: ("positions",),
    ExplodeFunction: ("positions", "diffs"),
    JoinFunction: ("positions", "times", "diffs"),
}
"""What a function of batches returns beside its batch."""


def _make_batch(step: MakingStep, part: Spans, failures: Failures) -> Spans:
    returned = step.function.call(part.rows.to_batch())
    names = _PARTS[type(step)]
    if step_says_events := isinstance(step, JoinFunction) and step.two and len(returned) == 2 + len(names):
        names = (*names, "event times")
    if names and not (isinstance(returned, tuple) and len(returned) == 1 + len(names)):
        raise SchemaError(f"{step.function.name} returns a record batch and, as arrays, its {' and '.join(names)}")
    result, *more = returned if names else (returned,)
    if not isinstance(result, pa.RecordBatch | pa.Table):
        raise SchemaError(f"{step.function.name} returned {type(result).__name__}, not a record batch")
    columns = tuple(as_array(result.column(f.name)).cast(f.type) for f in step.schema)
    arrays = [_integers(step, name, values, result.num_rows) for name, values in zip(names, more, strict=True)]
    parents = arrays[0] if arrays else np.arange(len(part))
    _check_count(step.function.name, result.num_rows, len(parents))
    if len(parents) and not (parents.min() >= 0 and parents.max() < len(part)):
        raise SchemaError(f"{step.function.name} gave a position outside its batch of {len(part)} rows")
    spans = part.taken_with(parents, canonical_rows(Rows(step.schema, columns, len(parents))))
    if isinstance(step, JoinFunction):
        events = arrays[3] if step_says_events else np.zeros_like(arrays[1])
        return _timed(step, spans, np.maximum(np.stack([arrays[1], events]), 0), arrays[2], failures)
    return spans.multiplied(arrays[1]).existing() if isinstance(step, ExplodeFunction) else spans


def _integers(step: MakingStep, what: str, values: Any, count: int) -> Ints:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        if values.null_count:
            raise SchemaError(f"{step.function.name} gave {what} with nulls among them")
        values = values.to_numpy(zero_copy_only=False) if isinstance(values, pa.Array) else values.to_numpy()
    numbers = np.asarray(values)
    if numbers.size and not np.issubdtype(numbers.dtype, np.integer):
        raise SchemaError(f"{step.function.name} gave {what} of type {numbers.dtype}, which are whole numbers")
    _check_count(step.function.name, len(numbers), count)
    return numbers.astype(np.int64)


def _check_count(name: str, result: int, expected: int) -> None:
    if result != expected:
        raise SchemaError(f"{name} returned {result} rows, expected {expected}")


RUN: dict[type[Step], Callable[[Any, Spans, Failures], Spans]] = {
    FilterFunction: _filter,
    MapFunction: _make,
    FlatMapFunction: _make,
    ExplodeFunction: _make,
    JoinFunction: _make,
}
