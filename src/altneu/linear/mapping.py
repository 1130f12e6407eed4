"""The expressions inside steps: to look at all of them, and to put others in their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from altneu.expressions import Expr
from altneu.expressions.temporal import Bound
from altneu.linear.steps import (
    Emit,
    Extend,
    Filter,
    GenerateSeries,
    Outputs,
    Project,
    RepeatRow,
    Step,
    Temporal,
    Unnest,
    Update,
)

Change = Callable[[Expr], Expr]
S = TypeVar("S", bound=Step)


def mapped(step: S, change: Change) -> S:
    """The step with each of its expressions changed; steps without expressions stay."""
    result: Step = step
    match step:
        case Filter(predicate):
            changed = change(predicate)
            result = step if changed is predicate else Filter(changed, step.tolerant)
        case Project(outputs) | Extend(outputs):
            result = replace(step, outputs=_outputs(outputs, change))
        case Temporal(bounds):
            result = replace(step, bounds=tuple(_bound(b, change) for b in bounds))
        case RepeatRow(count):
            result = replace(step, count=change(count))
        case Emit(updates):
            result = replace(step, updates=tuple(_update(u, change) for u in updates))
        case GenerateSeries(_, start, stop, by):
            result = replace(step, start=change(start), stop=change(stop), step=change(by))
        case Unnest(value):
            result = replace(step, value=change(value))
    return result  # type: ignore[return-value]


def _outputs(outputs: Outputs, change: Change) -> Outputs:
    return tuple((n, change(e)) for n, e in outputs)


def _bound(bound: Bound, change: Change) -> Bound:
    unless = None if bound.unless is None else change(bound.unless)
    return replace(bound, unless=unless, value=change(bound.value))


def _update(update: Update, change: Change) -> Update:
    given = (update.time, update.diff, update.when, update.event)
    return Update(_outputs(update.outputs, change), *(None if e is None else change(e) for e in given))


def fits(expressions: tuple[Expr, ...], columns: Mapping[str, Expr], most: int, deepest: int) -> bool:
    """Whether the expressions stay small and flat when the columns they read are replaced by expressions."""
    if not any(e.calls for e in columns.values()):
        return True
    for expression in expressions:
        read = [(columns[n], times) for n, times in expression.reads.items() if n in columns]
        depth = expression.depth + max((e.depth for e, _ in read), default=0)
        if depth > deepest or expression.calls + sum(e.calls * times for e, times in read) > most:
            return False
    return True
