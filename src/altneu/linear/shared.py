"""Common subexpressions of steps: computed once, in a column, right before the first step that needs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from altneu.expressions import Column, Expr
from altneu.expressions.sharing import replace_subexpressions, shared_subexpressions
from altneu.linear.mapping import calls_in, expressions_of, mapped, parts_of
from altneu.linear.steps import Emit, Extend, Filter, Step, Temporal

_LONG = 60


def share(steps: Sequence[Step]) -> list[Step]:
    """The steps with every common subexpression that may be computed first in a column of its own."""
    asked = [list(_asked(step)) for step in steps]
    found = _common(asked)
    columns: dict[Expr, Expr] = {}
    made: list[list[tuple[str, Expr]]] = [[] for _ in steps]
    for expression in found:
        at = next(i for i, part in enumerate(asked) if any(expression in parts_of(e) for e, _ in part))
        column = Column(_name(expression, len(columns)), expression.type, expression.nullable)
        made[at].append((column.name, replace_subexpressions(expression, columns)))
        columns[expression] = column
    result: list[Step] = []
    for step, outputs in zip(steps, made, strict=True):
        result += _in_layers(outputs)
        result.append(mapped(step, lambda e: replace_subexpressions(e, columns)) if columns else step)
    return result


def _name(expression: Expr, number: int) -> str:
    """A shared column is called what it is, so that plans can be read."""
    text = expression.sql
    return f"#{text}" if len(text) <= _LONG else f"#{number} {text[:_LONG]}…"


def work(steps: Sequence[Step]) -> int:
    """How many calls it takes to evaluate steps in order, common ones once."""
    asked = [list(_asked(step)) for step in steps]
    columns: dict[Expr, Expr] = {}
    total = 0
    for i, expression in enumerate(_common(asked)):
        total += calls_in(replace_subexpressions(expression, columns))
        columns[expression] = Column(_name(expression, i), expression.type, expression.nullable)
    return total + sum(calls_in(replace_subexpressions(e, columns)) for part in asked for e, _ in part)


def _common(asked: Sequence[Sequence[tuple[Expr, bool]]]) -> list[Expr]:
    expressions = [pair for part in asked for pair in part]
    return shared_subexpressions(
        [e for e, _ in expressions], {i for i, (_, sure) in enumerate(expressions) if not sure}
    )


def _asked(step: Step) -> Iterator[tuple[Expr, bool]]:
    """A step's expressions in order, each with whether it is asked of every row and may make it an error."""
    match step:
        case Temporal(bounds, _, tolerant):
            lower = next((b for b in bounds if b.kind == "lower"), None)
            first = None if lower is None or tolerant else lower.value if lower.unless is None else lower.unless
            rest = list(expressions_of(step))
            if first is not None:
                rest.remove(first)
                yield first, True
            yield from ((e, False) for e in rest)
        case Emit(updates):
            for update in updates:
                yield from ((e, e is update.when or update.when is None) for e in update.expressions)
        case _:
            sure = not (isinstance(step, Filter) and step.tolerant)
            yield from ((e, sure) for e in expressions_of(step))


def _in_layers(outputs: Sequence[tuple[str, Expr]]) -> Iterator[Step]:
    """Columns in as many steps as it takes for each to read those before it."""
    layers: list[list[tuple[str, Expr]]] = []
    place: dict[str, int] = {}
    for name, expression in outputs:
        at = place[name] = 1 + max((place[c] for c in expression.columns if c in place), default=-1)
        if at == len(layers):
            layers.append([])
        layers[at].append((name, expression))
    return (Extend(tuple(layer)) for layer in layers)
