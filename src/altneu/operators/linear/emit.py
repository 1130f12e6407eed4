"""``join_function`` written as expressions: each row becomes updates whose data, times and diffs are expressions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.columnar.canonical import canonical
from altneu.columnar.rows import Ints, Rows
from altneu.expressions import Expr
from altneu.expressions.expr import Scope
from altneu.linear import EVENT, KNOWN, Delay, Emit, NotDelayed, Update
from altneu.operators.kernels.spans import Failures, Mask, Spans, concat, truth


def emit(step: Emit, spans: Spans, failures: Failures) -> Spans:
    """Every update of every row: times joined, diffs multiplied.

    A row on which any of the expressions fails is one error, and none of its updates is there.
    Cost:   one pass an update over the columns it reads.
    """
    schema = step.output(spans.schema)
    requested = _Evaluation(spans, failures, np.ones(len(spans), np.bool_))
    evaluated = [requested.update(update, schema, step.delay) for update in step.updates]
    return concat([e.spans(spans, requested.good) for e in evaluated], schema, len(spans.updates.times))


@dataclass(frozen=True)
class _Evaluated:
    """One update of the rows at ``index``: its data, its times and its diffs, null where there is none."""

    index: Ints
    rows: Rows
    times: pa.Array | None
    events: pa.Array | None
    diffs: pa.Array | None

    def spans(self, source: Spans, good: Mask) -> Spans:
        """The updates of the rows that are good, times joined and diffs multiplied."""
        there = good[self.index]
        for values in (self.times, self.events, self.diffs):
            if values is not None and values.null_count:
                there &= np.asarray(values.is_valid())
        keep = np.flatnonzero(there)
        result = source.taken_with(self.index[keep], self.rows.take(keep))
        if self.times is not None:
            result = result.joined(np.asarray(self.times.take(pa.array(keep))))
        if self.events is not None and len(result.updates.times) > EVENT:  # where only rows matter there may be none
            result = result.about(np.asarray(self.events.take(pa.array(keep))))
        if self.diffs is not None:
            result = result.multiplied(np.asarray(self.diffs.take(pa.array(keep))))
        return result.existing()


@dataclass
class _Evaluation:
    """Evaluates expressions of rows; ``good`` are the rows on which nothing has failed yet."""

    spans: Spans
    failures: Failures
    good: Mask

    def update(self, update: Update, schema: pa.Schema, delay: Delay) -> _Evaluated:
        """The parts of one update, on the rows where it is made."""
        index = np.flatnonzero(self.good)
        if update.when is not None:
            index = index[truth(self.values(update.when, index))]
        times, events = (
            None if time is None else self._delayed(self.values(time, index), index, delay, coordinate)
            for coordinate, time in ((KNOWN, update.time), (EVENT, update.event))
        )
        diffs = None if update.diff is None else self.values(update.diff, index)
        columns = tuple(self.values(e, index) for _, e in update.outputs)
        return _Evaluated(index, Rows(schema, columns, len(index)), times, events, diffs)

    def values(self, expression: Expr, index: Ints) -> pa.Array:
        """An expression on the rows at ``index``, null where it fails."""
        rows = self.spans.rows
        if len(index) < rows.count:
            rows = rows.select(sorted(expression.columns)).take(index)
        result = expression.result(Scope(rows))
        if result.failed is not None:
            self._fail(index, np.flatnonzero(result.failed), result.error)
        return canonical(result.values)

    def _delayed(self, times: pa.Array, index: Ints, delay: Delay, coordinate: int) -> pa.Array:
        """Delayed times, those before the first taken for the first; null where that is not possible."""
        while delay and times.null_count < len(times):
            present = np.flatnonzero(np.asarray(times.is_valid()))
            values = np.array(times.fill_null(0), np.int64)
            mask = np.asarray(times.is_null())
            try:
                values[present] = delay.apply(np.maximum(values[present], 0), coordinate)
                return pa.array(values, mask=mask)
            except NotDelayed as error:
                text = ("DELAY", str(error))
                bad = present[error.index]
                self._fail(index, bad, lambda _, text=text: text)  # type: ignore[misc]
                mask[bad] = True
                times = pa.array(values, mask=mask)
        return times

    def _fail(self, index: Ints, bad: Ints, describe: Callable[[int], tuple[str, str]]) -> None:
        """Record failures at positions of ``index``; the first one names a row's error."""
        fresh = bad[self.good[index[bad]]]
        place = dict(zip(index[fresh].tolist(), fresh.tolist(), strict=True))
        self.failures.add(self.spans, index[fresh], lambda i: describe(place[i]))
        self.good[index[bad]] = False
