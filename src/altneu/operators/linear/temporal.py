"""Temporal filters: when a row may exist, from the bounds that its values give.

Source: the rules of Materialize's temporal filters, evaluated for whole columns (docs/linear.md says them).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from altneu.columnar.rows import Ints
from altneu.expressions import Result
from altneu.expressions.expr import Scope
from altneu.expressions.temporal import Bound
from altneu.linear import NEVER, Delay, NotDelayed, Temporal
from altneu.operators.kernels.spans import Failures, Mask, Spans, truth
from altneu.trace.update import Updates


def bound(step: Temporal, spans: Spans, failures: Failures) -> Spans:
    """Let every row begin at its greatest lower bound and end at its least upper one; what is empty is gone.

    A lower bound that fails makes the row an error, an upper one only while the row is not known to end at once. A
    null bound excludes the row, yet later ones are still asked for errors.
    Law:    at every time the result accumulates to the filter with that time in the place of ``logical_now()``
            (tests/operators/test_temporal.py).
    """
    times = spans.updates.times
    begin = times[0].copy()
    end = np.full(len(spans), NEVER, np.int64) if spans.until is None else spans.until.copy()
    requested = _Asking(step, spans, failures, Scope(spans.rows))
    for one in (b for b in step.bounds if b.kind == "lower"):
        values, present = requested.value(one, requested.alive)
        begin = np.where(present, np.maximum(begin, values), begin)
    end = np.maximum(end, begin)
    unended = (end > begin) | (end == NEVER)
    for one in (b for b in step.bounds if b.kind == "upper"):
        values, present = requested.value(one, requested.alive & unended)
        end = np.where(present, np.minimum(end, np.maximum(values, begin)), end)
        unended &= ~present | (end > begin)
    keep = requested.alive & ~requested.excluded & (end > begin)
    moved = times.copy()
    moved[0] = begin
    updates = spans.updates
    until = None if (end == NEVER).all() else end
    return Spans(Updates(updates.rows, moved, updates.diffs), until).filter(keep)


@dataclass
class _Asking:
    """Evaluates bounds one by one; rows that failed are asked no more, rows that met a null are."""

    step: Temporal
    spans: Spans
    failures: Failures
    scope: Scope
    alive: Mask = field(init=False)
    excluded: Mask = field(init=False)

    def __post_init__(self) -> None:
        self.alive = np.ones(len(self.spans), np.bool_)
        self.excluded = np.zeros(len(self.spans), np.bool_)

    def value(self, one: Bound, requested: Mask) -> tuple[Ints, Mask]:
        """A bound's values, and the rows among ``asked`` that it binds."""
        if one.unless is not None:
            free = one.unless.result(self.scope)
            requested = self._fails(free, requested) & ~truth(free.values)
        result = one.value.result(self.scope)
        requested = self._fails(result, requested)
        null = np.asarray(result.values.is_null()) if result.values.null_count else np.zeros(len(requested), np.bool_)
        values = np.array(result.values.fill_null(0) if result.values.null_count else result.values, np.int64)
        if not one.null_open:
            self.excluded |= null & requested
        requested = requested & ~null
        if one.after:
            last = requested & (values == NEVER)
            self._fail(last, lambda _: ("TIME_OVERFLOW", _no_later(one)))
            requested = requested & ~last
            values = values + (values != NEVER)
        return self._delayed(values, requested, self.step.delay)

    def _delayed(self, values: Ints, requested: Mask, delay: Delay) -> tuple[Ints, Mask]:
        while delay and requested.any():
            index = np.flatnonzero(requested)
            try:
                values = values.copy()
                values[index] = delay.apply(np.maximum(values[index], 0))
                break
            except NotDelayed as error:
                bad = np.zeros(len(requested), np.bool_)
                bad[index[error.index]] = True
                text = ("DELAY", str(error))
                self._fail(bad, lambda _, text=text: text)  # type: ignore[misc]
                requested = requested & ~bad
        return values, requested

    def _fails(self, result: Result, requested: Mask) -> Mask:
        if result.failed is None:
            return requested
        self._fail(result.failed & requested, result.error)
        return requested & ~result.failed

    def _fail(self, mask: Mask, describe: Callable[[int], tuple[str, str]]) -> None:
        """Rows that failed are errors, or, where that is tolerated, are not bound."""
        if not self.step.tolerant and mask.any():
            self.failures.add(self.spans, np.flatnonzero(mask), describe)
            self.alive &= ~mask


def _no_later(one: Bound) -> str:
    instead = "; of a row that never goes, ask logical_now() < …, or leave the bound out" if one.kind == "upper" else ""
    return f"there is no time after {NEVER}, which {one} asks for{instead}"
