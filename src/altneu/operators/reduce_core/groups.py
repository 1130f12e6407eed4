"""Groups as a function sees them that says how its output changes: what is new, what is there, what it made so far."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.canonical import canonical_rows
from altneu.columnar.python_values import exception_text, reason
from altneu.columnar.rows import Record, Rows, record_type
from altneu.errors import ImpureFunctionError, ReadError
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import PYTHON_EXCEPTION, PYTHON_VALUE, key_errors, no_errors
from altneu.operators.reduce.python_reduce import RESULT_TYPE, result_with_diff
from altneu.order import Lattice
from altneu.trace.batch import Arranged, Batch, Layout, find_in
from altneu.trace.cursor import between, chunks, places, settled
from altneu.trace.update import Updates

CODE, MESSAGE = "#code", "#message"  # of a group on which the function failed
_NO_BOUND = object()

Member = tuple[Record, int]


@dataclass(frozen=True)
class CoreSpec:
    """``function(key, changes, group)`` gives the changes of a group's output, as pairs (row, diff)."""

    key: tuple[str, ...]
    function: Callable[..., Any]
    result: pa.Schema
    input: pa.Schema

    @cached_property
    def kept(self) -> pa.Schema:
        """What is kept: the key, the columns of the result, and why there are none."""
        result = [field.with_nullable(True) for field in self.result]
        failure = [pa.field(CODE, pa.string()), pa.field(MESSAGE, pa.string())]
        return pa.schema([*(self.input.field(name) for name in self.key), *result, *failure])

    def layout(self, lattice: Lattice) -> Layout:
        """How it is arranged."""
        return Layout(self.kept, self.key, lattice)


class Group:
    """A group at a time, as ``reduce_core`` gives it to its function: nothing of it is read before it is asked for.

    ``output`` is what the function has made of it so far: pairs (row, count).
    """

    def __init__(
        self, batches: Sequence[Batch], layout: Layout, key: Rows, key_hash: int, time: int, output: list[Member]
    ) -> None:
        self._batches, self._layout, self._key, self._hash, self._time = batches, layout, key, key_hash, time
        self.output = output

    def __iter__(self) -> Iterator[Member]:
        return self.rows()

    def rows(self, start: Any = _NO_BOUND, stop: Any = _NO_BOUND) -> Iterator[Member]:
        """The rows of the group with their counts, those of a key in its order; some are read at a time.

        With an order, ``start`` and ``stop`` are bounds of its first column: from ``start`` on, before ``stop``, in the
        direction of the order. Counts below zero are given as they are.

        Cost:   O(log n) to begin, and what is taken of it.

        Raises:
            ReadError: bounds without an order, or values that do not fit the column.
        """
        layout = self._layout
        given = [bound is not _NO_BOUND for bound in (start, stop)]
        if any(given) and not layout.order:
            raise ReadError('rows(start=, stop=) needs an order: reduce_core(..., order="column")')
        names = [name for name, _, _ in layout.order[:1]]
        ends = [self._one(names, (b,)) if g else None for g, b in zip(given, (start, stop), strict=True)]
        first, last = places(layout, self._hash, ends)
        record = record_type(layout.values)
        for part in chunks(self._batches, layout, first, last):
            found = self._now(part)
            if any(given):
                found = between(found, layout.order[0], *ends)
            values, refused = layout.split(found.rows)[1].for_functions()
            if refused:
                raise ReadError(next(iter(refused.values())))
            yield from zip(map(record, values), found.diffs.tolist(), strict=True)

    def count(self, row: Any) -> int:
        """How often a row is in the group; ``row`` has the columns that are not of the key, as a tuple or a dict.

        Cost:   O(log n).

        Raises:
            ReadError: it does not fit the columns.
        """
        layout = self._layout
        names = layout.values
        values = tuple(row[name] for name in names) if isinstance(row, dict) else tuple(row)
        wanted = self._one(names, values)
        place = self._hash, int(layout.value_hashes(wanted)[0])
        found = 0
        for part in chunks(self._batches, layout, place, place):
            now = self._now(part)
            both = Rows.concat([layout.split(now.rows)[1], wanted], layout.value_schema)
            number, _ = group_rows(both, np.empty((0, both.count), np.int64))
            found += int(now.diffs[number[:-1] == number[-1]].sum())
        return found

    @property
    def is_empty(self) -> bool:
        """Whether it has no row.

        Cost:   what is read until there is one.
        """
        parts = chunks(self._batches, self._layout, *places(self._layout, self._hash, (None, None)))
        return not any(len(self._now(part)) for part in parts)

    def _now(self, part: Updates) -> Updates:
        """What of some updates there is at the time, of this key alone."""
        layout = self._layout
        early = part.filter(part.times[0] <= self._time)
        at_once = Updates(early.rows, np.zeros_like(early.times), early.diffs)
        found = settled(at_once, layout)
        both = Rows.concat([layout.split(found.rows)[0], self._key], layout.key_schema)
        number, _ = group_rows(both, np.empty((0, both.count), np.int64))
        mine = number[:-1] == number[-1]
        return found if mine.all() else found.filter(mine)

    def _one(self, names: Sequence[str], values: Sequence[Any]) -> Rows:
        schema = pa.schema([self._layout.schema.field(name) for name in names])
        try:
            return canonical_rows(Rows.from_pylist([tuple(values)], schema))
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ReadError(f"the values do not fit the columns {', '.join(names)}: {error}") from None


Output = dict[str, tuple[tuple[Any, ...], int]]
"""The rows of an output with their counts, by their text; canonical values with equal texts are equal."""
Failure = tuple[str, str] | None


def reduce_core(arranged: Arranged, made: Sequence[Batch], spec: CoreSpec, operator: str) -> tuple[Updates, Updates]:
    """The changes of what is kept of the groups that have changed.

    Shape:  an arrangement by ``spec.key`` in, with times that form a chain; ``made`` are the batches of what was kept
            before the step. Rows of ``spec.kept`` and error rows out.
    Cost:   the output of the touched groups, and what the function reads of them; a call for each group and time.
    Law:    at each time the output is what it was before, and the changes that the function gives
            (tests/oracle/test_reduce_core.py).
    """
    layout = arranged.layout
    hashes, keys = arranged.new.distinct_keys()
    updates = arranged.new.updates()
    own, values = layout.split(updates.rows)
    number, _ = group_rows(Rows.concat([keys, own], layout.key_schema), np.empty((0, keys.count + own.count), np.int64))
    group_of = {int(n): g for g, n in enumerate(number[: keys.count].tolist())}
    members = [group_of[n] for n in number[keys.count :].tolist()]
    rows, refused = values.for_functions()
    outputs, failures = _outputs(made, hashes, keys, spec)
    record, key_record = record_type(layout.values), record_type(spec.key)
    key_rows, refused_keys = keys.for_functions()
    told = _Told(spec, keys, operator)
    lines = sorted(zip(members, updates.times[0].tolist(), range(len(members)), strict=True))
    diffs = updates.diffs.tolist()
    for (group, time), some in groupby(lines, key=lambda line: line[:2]):
        places_ = [place for _, _, place in some]
        output, failure = outputs[group], failures.get(group)
        key = keys.take(np.array([group]))
        record_of_result = record_type(spec.result.names)
        now = [(record_of_result(row), n) for row, n in output.values()]
        there = Group(arranged.all, layout, key, int(hashes[group]), time, now)
        changes = [(record(rows[place]), diffs[place]) for place in places_]
        why = refused_keys.get(group) or next((refused[place] for place in places_ if place in refused), None)
        after: tuple[Output, Failure] = {}, None
        if not there.is_empty:
            after = _called(spec, key_record(key_rows[group]), changes, there, output, failure, why)
        told.change(group, time, (output, failure), after)
        outputs[group], failures[group] = after
    return told.output()


def _called(
    spec: CoreSpec, key: Record, changes: list[Member], group: Group, output: Output, failure: Failure, why: str | None
) -> tuple[Output, Failure]:
    """The output of a group after its changes, or why there is none; after a failure it begins with the whole group."""
    if why is not None:
        return {}, (PYTHON_VALUE, why)
    try:
        given = list(spec.function(key, list(group.rows()) if failure is not None else changes, group))
    except ImpureFunctionError:
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
        return {}, (PYTHON_EXCEPTION, exception_text(error))
    try:
        pairs = [result_with_diff(value, spec.result) for value in given]
        rows = canonical_rows(Rows.from_pylist([row for row, _ in pairs], spec.result)).to_pylist()
    except Exception as error:  # noqa: BLE001 -- pyarrow calls what the values are made of
        return {}, (RESULT_TYPE, f"the function's result does not fit its columns: {reason(error)}")
    after = dict(output)
    for row, (_, diff) in zip(rows, pairs, strict=True):
        text = repr(row)
        count = after.get(text, (row, 0))[1] + diff
        if count:
            after[text] = row, count
        else:
            after.pop(text, None)
    return after, None


def _outputs(
    made: Sequence[Batch], hashes: Any, keys: Rows, spec: CoreSpec
) -> tuple[defaultdict[int, Output], dict[int, Failure]]:
    """What the touched groups have made so far, and which of them failed."""
    outputs: defaultdict[int, Output] = defaultdict(dict)
    failures: dict[int, Failure] = {}
    batches = [batch for batch in made if len(batch)]
    if not batches:
        return outputs, failures
    matches = find_in(batches, hashes, keys)
    width = len(spec.result)
    probes, diffs = matches.probe.tolist(), matches.diffs.tolist()
    sums: dict[tuple[int, str], list[Any]] = {}
    for group, row, diff in zip(probes, matches.values.to_pylist(), diffs, strict=True):
        sums.setdefault((group, repr(row)), [row, 0])[1] += diff
    for (group, _), (row, count) in sums.items():
        if count and row[width] is not None:
            failures[group] = row[width], row[width + 1]
        elif count:
            result = tuple(row[:width])
            outputs[group][repr(result)] = result, count
    return outputs, failures


class _Told:
    """What a step says of the groups: changes of what is kept, and of errors."""

    def __init__(self, spec: CoreSpec, keys: Rows, operator: str) -> None:
        self._spec, self._keys, self._operator = spec, keys, operator
        self._lines: list[tuple[int, int, tuple[Any, ...], int]] = []
        self._errors: list[tuple[int, int, tuple[str, str], int]] = []

    def change(self, group: int, time: int, before: tuple[Output, Failure], after: tuple[Output, Failure]) -> None:
        """Note what is another after a time than before."""
        nothing = (None,) * len(self._spec.result)
        for text in dict.fromkeys([*before[0], *after[0]]):
            row, was = before[0].get(text, (None, 0))
            new, is_ = after[0].get(text, (row, 0))
            if was != is_ and new is not None:
                self._lines.append((group, time, (*new, None, None), is_ - was))
        if before[1] != after[1]:
            for failure, sign in ((before[1], -1), (after[1], 1)):
                if failure is not None:
                    self._lines.append((group, time, (*nothing, *failure), sign))
                    self._errors.append((group, time, failure, sign))

    def output(self) -> tuple[Updates, Updates]:
        """All of it."""
        spec, lines = self._spec, self._lines
        schema = pa.schema(list(spec.kept)[len(spec.key) :])
        values = Rows.from_pylist([row for _, _, row, _ in lines], schema)
        keys = self._keys.take(np.array([group for group, _, _, _ in lines], np.int64))
        times = np.array([[time for _, time, _, _ in lines]], np.int64)
        diffs = np.array([diff for _, _, _, diff in lines], np.int64)
        oks = Updates(Rows(spec.kept, (*keys.columns, *values.columns), len(lines)), times, diffs)
        if not self._errors:
            return oks, no_errors(1)
        at = np.array([group for group, _, _, _ in self._errors], np.int64)
        when = np.array([time for _, time, _, _ in self._errors], np.int64)
        signs = np.array([sign for _, _, _, sign in self._errors], np.int64)
        errors = key_errors(self._operator, self._keys.take(at), when, signs, [e for _, _, e, _ in self._errors])
        return oks, errors
