"""The expressions inside steps: to look at all of them, and to put others in their place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from altneu.expressions import Call, Column, Expr
from altneu.expressions.lambdas import Lambda
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


def parts_of(expression: Expr) -> Iterator[Expr]:
    """An expression and all its parts; equal parts are repeated."""
    yield expression
    inner = expression.args if isinstance(expression, Call) else ()
    for part in (expression.body,) if isinstance(expression, Lambda) else inner:
        yield from parts_of(part)


def calls_in(expression: Expr) -> int:
    """How many calls an expression makes, those that are equal counted each time."""
    return _calls_in(expression) if isinstance(expression, Call | Lambda) else 0


@lru_cache(maxsize=10_000)
def _calls_in(expression: Expr) -> int:
    return sum(isinstance(part, Call) for part in parts_of(expression))


def fits(expressions: tuple[Expr, ...], columns: Mapping[str, Expr], most: int, deepest: int) -> bool:
    """Whether the expressions stay small and flat when the columns they read are replaced by expressions."""
    sizes = {n: calls_in(e) for n, e in columns.items()}
    if not any(sizes.values()):
        return True
    for expression in expressions:
        read = [p.name for p in parts_of(expression) if isinstance(p, Column) and p.name in columns]
        depth = expression.depth + max((columns[n].depth for n in read), default=0)
        if depth > deepest or calls_in(expression) + sum(sizes[n] for n in read) > most:
            return False
    return True
