"""Reduce with a Python function: rows that it makes of each group, at every moment at which the group changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.canonical import canonical_rows
from altneu.columnar.python_values import exception_text, reason, value_text
from altneu.columnar.ranking import Order, whole_order
from altneu.columnar.rows import Record, Rows, record_type
from altneu.errors import DiffOverflowError, ImpureFunctionError, SchemaError
from altneu.operators.kernels.changes import state_text
from altneu.operators.kernels.contents import Contents, contents
from altneu.operators.kernels.grouping import order_within_groups
from altneu.operators.kernels.groups import (
    PYTHON_EXCEPTION,
    PYTHON_VALUE,
    Groups,
    ReduceOutput,
    error_updates,
    is_quiet,
    output,
    require_total,
)
from altneu.operators.linear.function_steps import as_row
from altneu.operators.reduce.aggregates import NEGATIVE, check_names
from altneu.operators.reduce.spec import ReduceSpec
from altneu.order import Epoch
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates, consolidate

RESULT_TYPE = "PYTHON_RESULT_TYPE"
_LIMIT = 2**63
MOST_REMEMBERED = 1 << 18

Member = tuple[Record, int]


@dataclass(frozen=True)
class PythonSpec(ReduceSpec):
    """``function(key, rows)`` makes rows of each group of ``key``.

    ``key`` is a Record of the key columns, ``rows`` a list of (Record of the other columns, count) ordered by value.
    The function gives an iterable of results, each a tuple, a dict or, for one column, a value; with ``with_diffs``
    of pairs (result, diff). It must depend on nothing but its arguments. With ``first``, a number and an order, the
    rows are so many first ones, ties decided by the whole row. A group with a count below zero is an error, unless
    the function is ``signed`` and takes such counts too.
    """

    looks_ahead = False  # a function is called for nothing that is not there in the end

    key: tuple[str, ...]
    function: Callable[[Any, list[tuple[Any, int]]], Iterable[Any]]
    result: pa.Schema
    input: pa.Schema
    with_diffs: bool = False
    first: tuple[int, tuple[Order, ...]] | None = None
    signed: bool = False

    def __post_init__(self) -> None:
        check_names([*self.key, *self.result.names])

    @cached_property
    def schema(self) -> pa.Schema:
        """Key columns, then the result's columns."""
        return pa.schema([*(self.input.field(name) for name in self.key), *self.result])

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """The rows of each group, given to the function."""
        return reduce_python(given, self, operator)

    def for_similar_groups(self) -> PythonSpec:
        """With a memory of what the function made."""
        return remembering(self)


def remembering(spec: PythonSpec) -> PythonSpec:
    """The same, which asks its function only once what a group with certain contents comes to.

    For runs over nearly the same history: for as many rows as ``MOST_REMEMBERED``, whose values Python can hash.
    """
    matches: dict[tuple[Any, ...], list[Any]] = {}
    held = 0

    def function(key: Any, rows: list[tuple[Any, int]]) -> list[Any]:
        nonlocal held
        contents = (key, *rows)
        try:
            result = matches.get(contents)
        except TypeError:  # a list or a map among the values
            return list(spec.function(key, rows))
        if result is None:
            result = list(spec.function(key, rows))
            held += len(rows)
            if held <= MOST_REMEMBERED:
                matches[contents] = result
        return result

    return replace(spec, function=function)


@dataclass(frozen=True, slots=True)
class Made:
    """What a group came to at a moment: results with their diffs, or an error."""

    results: list[tuple[tuple[Any, ...], int]]
    error: tuple[str, str] | None = None


_NOTHING = Made([])


def reduce_python(given: Arranged | Groups, spec: PythonSpec, operator: str = "reduce") -> ReduceOutput:
    """Bring the rows that a function makes of the touched groups up to date.

    Shape:  an arrangement by ``spec.key`` in; rows of ``spec.schema`` and error rows out. A function that raises, or
            whose result does not fit, gives an error in place of the group's rows, until it does not.
    Cost:   re-reads the touched groups; one call per group before the step and one per moment that changes it, each of
            the size of the group. No exchange, no state beside the arrangement.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/operators/test_reduce_python.py).

    Raises:
        PlanError: the times are not totally ordered.
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    require_total(given, operator)
    if is_quiet(given):
        return output(spec.schema, [], [])
    held = contents(given)
    results: list[tuple[int, tuple[Any, ...], int]] = []
    errors: list[tuple[int, int, tuple[str, str]]] = []
    for at, was, is_ in _moments(held, spec):
        for result, sign in ((was, -1), (is_, 1)):
            results += [(at, row, sign * diff) for row, diff in result.results]
        if was.error != is_.error:
            errors += [(at, sign, result.error) for result, sign in ((was, -1), (is_, 1)) if result.error]
    failed = np.array([a for a, _, _ in errors], np.int64)
    diffs = np.array([d for _, d, _ in errors], np.int64)
    errs = error_updates(operator, held.groups, failed, diffs, [text for _, _, text in errors])
    return output(spec.schema, [_rows(results, held, spec)], [errs])


def _rows(results: list[tuple[int, tuple[Any, ...], int]], held: Contents, spec: PythonSpec) -> Updates:
    """The results as updates; what was and still is cancels."""
    groups = held.groups
    at = np.array([a for a, _, _ in results], np.int64)
    result = canonical_rows(Rows.from_pylist([row for _, row, _ in results], spec.result))
    keys = groups.keys.take(groups.new_group[at])
    rows = Rows(spec.schema, (*keys.columns, *result.columns), len(results))
    diffs = np.array([d for _, _, d in results], np.int64)
    return consolidate(Updates(rows, groups.new_times[at].reshape(1, -1), diffs), Epoch())


def _moments(held: Contents, spec: PythonSpec) -> Iterator[tuple[int, Made, Made]]:
    """For each moment: a new update at it, what its group came to before, and what it comes to."""
    groups = held.groups
    order, starts = order_within_groups(whole_order(held.values), held.group, len(groups))
    ordered = order.tolist()
    picked = ordered
    if spec.first is not None:
        picked = order_within_groups(whole_order(held.values, spec.first[1]), held.group, len(groups))[0].tolist()
    place = {} if spec.first is None else {value: at for at, value in enumerate(ordered)}
    record, key_record = record_type(held.values.schema.names), record_type(groups.keys.schema.names)
    rows, refused = held.values.for_functions()
    values = [record(row) for row in rows]
    key_rows, refused_keys = groups.keys.for_functions()
    keys = [key_record(row) for row in key_rows]
    counts = [0] * len(values)
    for value, diff in zip(held.old_value.tolist(), groups.old_diffs.tolist(), strict=True):
        counts[value] += diff
    was, current = _NOTHING, -1

    def beyond(group: int, there: list[int]) -> str | None:
        if not there or not (refused or refused_keys):
            return None
        return refused_keys.get(group) or next((refused[v] for v in there if v in refused), None)

    def made_of(group: int) -> Made:
        there = [(v, counts[v]) for v in picked[starts[group] : starts[group + 1]] if counts[v]]
        if not spec.signed and any(count < 0 for _, count in there):
            return Made([], state_text(NEGATIVE, ()))
        if spec.first is not None:
            there = sorted(_first(there, spec.first[0]), key=lambda one: place[one[0]])
        members = [(values[v], count) for v, count in there]
        return call_function(spec, keys[group], members, beyond(group, [v for v, _ in there]))

    new_value, new_diffs = held.new_value.tolist(), held.new_diffs.tolist()
    bounds = zip(held.moments[:-1].tolist(), held.moments[1:].tolist(), strict=True)
    for (begin, end), group, at in zip(bounds, held.moment_group.tolist(), held.moment_at.tolist(), strict=True):
        if group != current:
            current, was = group, made_of(group)
        changes = dict.fromkeys(new_value[begin:end], 0)
        for value, diff in zip(new_value[begin:end], new_diffs[begin:end], strict=True):
            changes[value] += diff
        if not any(changes.values()):
            continue
        for value, diff in changes.items():
            counts[value] += diff
            if not -_LIMIT <= counts[value] < _LIMIT:
                raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
        is_ = made_of(group)
        yield at, was, is_
        was = is_


def _first(there: list[tuple[int, int]], k: int) -> Iterator[tuple[int, int]]:
    """The first k of some rows, each with its count."""
    for value, count in there:
        if k > 0:
            yield value, min(count, k)
        k -= count


def call_function(spec: PythonSpec, key: Record, members: list[Member], refused: str | None) -> Made:
    """What the function makes of a group; of an empty one, nothing, and an error if it is ``refused``, for a reason."""
    if not members:
        return _NOTHING
    if refused is not None:
        return Made([], (PYTHON_VALUE, refused))
    try:
        given = list(spec.function(key, members))
    except ImpureFunctionError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
        return Made([], (PYTHON_EXCEPTION, exception_text(error)))
    try:
        results = [_result(value, spec) for value in given]
        canonical_rows(Rows.from_pylist([row for row, _ in results], spec.result))
    except Exception as error:  # noqa: BLE001 -- pyarrow calls what the values are made of
        return Made([], (RESULT_TYPE, f"the function's result does not fit its columns: {reason(error)}"))
    return Made(results)


def _result(value: Any, spec: PythonSpec) -> tuple[tuple[Any, ...], int]:
    return result_with_diff(value, spec.result) if spec.with_diffs else (as_row(value, spec.result), 1)


def result_with_diff(value: Any, result: pa.Schema) -> tuple[tuple[Any, ...], int]:
    """A pair (row, diff) that a function gave, as a row of the columns of its result.

    Raises:
        SchemaError: it is none.
    """
    if not (isinstance(value, tuple | list) and len(value) == 2 and isinstance(value[1], int | np.integer)):
        raise SchemaError(f"with_diffs takes pairs (row, diff), and the function gave {value_text(value)}")
    diff = int(value[1])
    if not -_LIMIT < diff < _LIMIT:
        raise SchemaError(f"a diff of {diff} leaves the signed 64-bit range")
    return as_row(value[0], result), diff
