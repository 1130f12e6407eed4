"""Linear operators: evaluate a ``BoundLogic`` over a batch of updates.

A row on which an expression or a function fails becomes an error row at its own time and with its own diff, so it heals
when the row is retracted; everything else goes on. Rows are taken through all steps a few at a time, so that what lies
between two steps stays in the processor's cache and what a table function makes is never there as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar import threads
from altneu.columnar.canonical import canonical
from altneu.columnar.rows import Apply, Rows
from altneu.errors import ERROR_SCHEMA, TooWideError
from altneu.expressions import Expr, Result, limits
from altneu.expressions.expr import Scope
from altneu.linear import (
    BoundLogic,
    Delay,
    Emit,
    GenerateSeries,
    Negate,
    NotDelayed,
    Outputs,
    ParseJson,
    RepeatRow,
    Step,
    Temporal,
    Unnest,
)
from altneu.operators.kernels.groups import no_errors
from altneu.operators.kernels.spans import Failures, Mask, RowLost, Spans
from altneu.operators.linear import function_steps, temporal
from altneu.operators.linear.block import Expressions, run_block
from altneu.operators.linear.emit import emit
from altneu.operators.linear.expansion import Expansion
from altneu.operators.linear.words import MOST_ROWS, run_program
from altneu.order import Lattice, difference
from altneu.trace.update import Updates, consolidate

CHUNK = 1 << 17  # rows that pass through all steps together: few enough for the cache, enough for Python to be little
FEW_CHUNKS = 4  # for fewer, threads cost more than they save
SLICE = 1 << 16  # rows that a table function makes at a time
PIECE = 1 << 18  # rows that are handed on together
EXPANDED_CHUNK = 1 << 14  # rows that threads expand at a time


def run_logic(logic: BoundLogic, updates: Updates) -> tuple[Updates, Updates]:
    """Apply the delay, then every step in order; return (oks, errors).

    Shape:  n updates in, any number out; ``width`` of the times unchanged.
    Cost:   one pass over the columns that each step reads; no exchange, no state. What is in memory between two steps
            is that of ``CHUNK`` rows.
    Law:    ``run(x + y) = run(x) + run(y)`` (tests/oracle/test_operators.py).
    """
    width, rows = updates.times.shape[0], updates.rows
    if logic.plain_columns is not None:
        output, places = logic.chosen(rows.schema)
        if rows.__class__ is Rows:
            columns = rows.columns
            columns = tuple([columns[i] for i in places])
        else:  # of which some are gathered
            columns = tuple([rows.column(name) for name in logic.plain_columns.values()])
        return Updates(Rows(output, columns, rows.count), updates.times, updates.diffs), no_errors(width)
    if logic.negates:
        return Updates(rows, updates.times, difference.negate(updates.diffs)), no_errors(width)
    if logic.is_expressions and updates.diffs.size <= CHUNK:
        if updates.diffs.size <= MOST_ROWS and (made := run_program(logic, updates)) is not None:
            return made, no_errors(width)
        failures = Failures(kept=logic.has_errors)
        try:
            oks = run_block(logic.steps, Spans(updates), failures).closed()
        except (TooWideError, pa.ArrowException):
            pass  # it is evaluated as below, fewer rows at a time
        else:
            if not oks.diffs.size:  # the block ends where no row is left, before it has the columns of the output
                oks = Updates.empty(logic.output(rows.schema), width)
            return oks, Updates.concat(failures.parts, ERROR_SCHEMA, width) if failures.parts else no_errors(width)
    starts = range(0, len(updates), CHUNK)

    def run(start: int) -> tuple[list[Updates], list[Updates]]:
        failures = Failures(kept=logic.has_errors)
        spans = _delayed(logic.delay, Spans(_chunk(updates, start, CHUNK)), failures)
        return [done.closed() for done in _through(logic.steps, spans, failures)], failures.parts

    def joined(parts: list[tuple[list[Updates], list[Updates]]], apply: Apply) -> tuple[Updates, Updates]:
        oks = [result for matches, _ in parts for result in matches]
        errors = [result for _, matches in parts for result in matches]
        output = logic.output(updates.schema)
        return Updates.concat(oks, output, width, apply), Updates.concat(errors, ERROR_SCHEMA, width, apply)

    if len(starts) < FEW_CHUNKS or threads.count() < 2 or logic.calls_python:  # which may not expect company
        return joined(list(map(run, starts)), map)
    with ThreadPoolExecutor(threads.count()) as pool:  # kernels let go of Python's lock
        return joined(list(pool.map(run, starts)), pool.map)


def pieces(logic: BoundLogic, updates: Updates, lattice: Lattice) -> Iterator[tuple[Updates, Updates]]:
    """What ``run_logic`` gives, for logic that expands: some of the rows and of the errors at a time.

    Shape:  each piece has about ``PIECE`` rows, or what ``SLICE`` rows of a table function become; the last has fewer.
    Cost:   as ``run_logic``, of rows that do not cancel: what comes in is consolidated before it is expanded. In memory
            is a piece, and one for each thread.
    Law:    the pieces accumulate to what ``run_logic`` gives (tests/session/test_expanding.py).
    """
    settled = consolidate(updates, lattice)
    width, output = len(updates.times), logic.output(updates.schema)
    small = EXPANDED_CHUNK if len(settled) >= FEW_CHUNKS * EXPANDED_CHUNK else CHUNK
    starts = range(0, len(settled), small)

    def begun(start: int) -> tuple[list[Spans], Iterator[Spans], Failures]:
        failures = Failures(kept=logic.has_errors)
        spans = _delayed(logic.delay, Spans(_chunk(settled, start, small)), failures)
        rest = _through(logic.steps, spans, failures)
        return _some(rest), rest, failures

    def put(parts: list[Spans], failures: Failures) -> tuple[Updates, Updates]:
        errors, failures.parts = failures.parts, []
        oks = Updates.concat([result.closed() for result in parts], output, width)
        return oks, Updates.concat(errors, ERROR_SCHEMA, width)

    def drained(one: tuple[list[Spans], Iterator[Spans], Failures]) -> Iterator[tuple[Updates, Updates]]:
        parts, rest, failures = one
        while parts or failures.parts:
            yield put(parts, failures)
            parts = _some(rest)

    if len(starts) < FEW_CHUNKS or threads.count() < 2 or logic.calls_python:
        for start in starts:
            yield from drained(begun(start))
        return
    with ThreadPoolExecutor(threads.count()) as pool:
        for at in range(0, len(starts), threads.count()):
            for one in list(pool.map(begun, starts[at : at + threads.count()])):
                yield from drained(one)


def _some(rest: Iterator[Spans]) -> list[Spans]:
    """The next rows, until they are ``PIECE``."""
    results: list[Spans] = []
    count = 0
    for spans in rest:
        results.append(spans)
        count += len(spans)
        if count >= PIECE:
            break
    return results


def _chunk(updates: Updates, start: int, size: int) -> Updates:
    if len(updates) <= size:
        return updates
    stop = min(start + size, len(updates))
    return Updates(updates.rows.slice(start, stop), updates.times[:, start:stop], updates.diffs[start:stop])


def _delayed(delay: Delay, spans: Spans, failures: Failures) -> Spans:
    if delay:
        failures.step = str(delay)
    while delay and len(spans):
        updates = spans.updates
        try:
            return Spans(Updates(updates.rows, delay.move(updates.times), updates.diffs))
        except NotDelayed as error:
            text = ("DELAY", str(error))
            failures.add(spans, error.index, lambda _, text=text: text)  # type: ignore[misc]
            good = np.ones(len(spans), np.bool_)
            good[error.index] = False
            spans = spans.filter(good)
    return spans


def _through(steps: Sequence[Step], spans: Spans, failures: Failures) -> Iterator[Spans]:
    """Take spans through the steps; what a table function makes goes on slice by slice."""
    at = 0
    while at < len(steps):
        if not len(spans):
            return
        step = failures.step = steps[at]
        if isinstance(step, Expressions):
            end = next((i for i in range(at, len(steps)) if not isinstance(steps[i], Expressions)), len(steps))
            result = _fitting(lambda part, a=at, b=end: run_block(steps[a:b], part, failures), spans, failures)  # type: ignore[misc]
        else:
            end, run = at + 1, _EXPAND.get(type(step)) or _RUN[type(step)]
            result = _fitting(lambda part, s=step, r=run: r(s, part, failures), spans, failures)  # type: ignore[misc]
        if len(result) == 1 and isinstance(result[0], Spans):
            spans, at = result[0], end
            continue
        for matches in result:
            for part in (matches,) if isinstance(matches, Spans) else matches:
                yield from _through(steps[end:], part, failures)
        return
    if len(spans):
        yield spans


def _fitting(
    run: Callable[[Spans], Spans | Iterator[Spans]], spans: Spans, failures: Failures
) -> list[Spans | Iterator[Spans]]:
    """What a step makes of rows, of fewer at a time where their values are more than a column holds.

    A row whose values are so by themselves is an error row.
    """
    before, known = failures.step, len(failures.parts)
    try:
        with limits.bounded(limits.CHUNK_BYTES):
            return [run(spans)]
    except RowLost:
        raise
    except (TooWideError, pa.ArrowException) as error:
        if not limits.overflows(error):
            raise
        del failures.parts[known:]
        failures.step = before
        if len(spans) > 1:
            half = len(spans) // 2
            halves = np.arange(half), np.arange(half, len(spans))
            return [result for half in halves for result in _fitting(run, spans.take(half), failures)]
        text = limits.VALUE_TOO_LARGE, f"a value of more than {limits.MOST_BYTES:,} bytes: {error}"
        failures.add(spans, np.zeros(1, np.int64), lambda _: text)
        return []


# expressions ----------------------------------------------------------------------------------------------------------


def _computed(outputs: Outputs, spans: Spans, failures: Failures) -> tuple[list[pa.Array], Mask | None]:
    """The columns of expressions, and the rows on which one of them failed: the first of them names the row's error."""
    scope = Scope(spans.rows)
    columns: list[pa.Array] = []
    failed: Mask | None = None
    for _, expression in outputs:
        if expression.is_column:
            columns.append(spans.rows.column(expression.column_name))
            continue
        result = expression.result(scope)
        columns.append(canonical(result.values))
        failed = _note(result, failed, spans, failures)
    return columns, failed


def _note(result: Result, failed: Mask | None, spans: Spans, failures: Failures) -> Mask | None:
    """Record the rows on which an expression is the first to fail; returns those on which any did."""
    if result.failed is None:
        return failed
    fresh = result.failed if failed is None else result.failed & ~failed
    failures.add(spans, np.flatnonzero(fresh), result.error)
    return result.failed if failed is None else failed | result.failed


def _widened(step: Step, spans: Spans, columns: Sequence[pa.Array]) -> Spans:
    return spans.with_rows(spans.rows.widened(step.output(spans.schema), columns))


def _parse_json(step: ParseJson, spans: Spans, failures: Failures) -> Spans:
    from altneu.operators.json.text import parse_json

    columns, failed, describe = parse_json(spans.rows.column(step.column), step.fields, step.needs)
    result = _widened(step, spans, columns)
    if failed is None:
        return result
    failures.add(spans, np.flatnonzero(failed), describe)
    return result.filter(~failed)


# diffs ----------------------------------------------------------------------------------------------------------------


def _negate(_step: Negate, spans: Spans, _failures: Failures) -> Spans:
    return spans.multiplied(np.full(1, -1, np.int64))


def _repeat(step: RepeatRow, spans: Spans, failures: Failures) -> Spans:
    result = step.count.evaluate(spans.rows)
    failed = _note(result, None, spans, failures)
    counts = np.asarray(result.values.fill_null(0))
    good = np.ones(len(spans), np.bool_) if failed is None else ~failed
    if step.non_negative and (counts < 0).any():
        bad = good & (counts < 0)
        failures.add(spans, np.flatnonzero(bad), lambda i: _negative(step, int(counts[i])))
        good &= ~bad
    return spans.filter(good).multiplied(counts[good]).existing()


def _negative(step: RepeatRow, count: int) -> tuple[str, str]:
    return "NEGATIVE_REPEAT", f"repeat_row_non_negative got {count} from {step.count.text}; repeat_row takes any number"


# table functions ------------------------------------------------------------------------------------------------------


def _generate_series(step: GenerateSeries, spans: Spans, failures: Failures) -> Iterator[Spans]:
    from altneu.operators.linear.series import series

    spans, (start, stop, by) = _arguments((step.start, step.stop, step.step), spans, failures)
    return _expanded(step, series(start, stop, by, outer=step.outer), spans, failures)


def _unnest(step: Unnest, spans: Spans, failures: Failures) -> Iterator[Spans]:
    from altneu.operators.linear.unnest import unnest

    spans, (values,) = _arguments((step.value,), spans, failures)
    expansion = unnest(values, ordinality=step.ordinality is not None, outer=step.outer)
    return _expanded(step, expansion, spans, failures)


def _arguments(expressions: Sequence[Expr], spans: Spans, failures: Failures) -> tuple[Spans, list[pa.Array]]:
    """The values of a table function's arguments, on the rows on which none failed."""
    columns, failed = _computed([("", e) for e in expressions], spans, failures)  # type: ignore[arg-type]
    if failed is None:
        return spans, columns
    good = np.flatnonzero(~failed)
    return spans.take(good), [c.take(pa.array(good)) for c in columns]


def _expanded(step: Step, expansion: Expansion, spans: Spans, failures: Failures) -> Iterator[Spans]:
    """The rows that a table function makes beside their parents' columns, slice by slice."""
    for mask, code, message in expansion.failures:
        failures.add(spans, np.flatnonzero(mask), lambda i, c=code, m=message: (c, m(i)))  # type: ignore[misc]
    schema = step.output(spans.schema)
    for begin in range(0, expansion.total, SLICE):
        parents, columns = expansion.rows(begin, begin + SLICE)
        parent_rows = spans.rows.take(parents)
        yield spans.taken_with(parents, Rows(schema, (*parent_rows.columns, *columns), len(parents)))


Runner = Callable[[Any, Spans, Failures], Spans]

_RUN: dict[type[Step], Runner] = {
    Temporal: temporal.bound,
    Emit: emit,
    RepeatRow: _repeat,
    ParseJson: _parse_json,
    Negate: _negate,
    **function_steps.RUN,
}
_EXPAND: dict[type[Step], Callable[[Any, Spans, Failures], Iterator[Spans]]] = {
    GenerateSeries: _generate_series,
    Unnest: _unnest,
}
