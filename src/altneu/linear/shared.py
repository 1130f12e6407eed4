"""Common subexpressions of steps: computed once, in a column, right before the first step that needs them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from altneu.expressions import Call, Column, Expr, parts_of
from altneu.expressions.sharing import is_plain, replace_subexpressions, shared_subexpressions
from altneu.linear.mapping import mapped
from altneu.linear.steps import Emit, Extend, Filter, Project, Step, Temporal

_LONG = 60


def share(steps: Sequence[Step]) -> list[Step]:
    """The steps with every common subexpression that may be computed first in a column of its own."""
    per_step = [list(_evaluated(step)) for step in steps]
    common = _common(per_step)
    columns: dict[Expr, Expr] = {}
    shared: list[list[tuple[str, Expr]]] = [[] for _ in steps]
    first: dict[Expr, int] = {}
    for i, part in enumerate(per_step if common else ()):
        for expression, _ in part:
            first = dict.fromkeys(_calls(expression), i) | first
    for expression in common:
        name = _name(expression, len(columns), {c.column_name for c in columns.values()})
        column = Column(name, expression.type, expression.nullable)
        shared[first[expression]].append((column.name, replace_subexpressions(expression, columns)))
        columns[expression] = column
    result: list[Step] = []
    for step, outputs in zip(steps, shared, strict=True):
        result += _in_layers(outputs)
        result.append(mapped(step, lambda e: replace_subexpressions(e, columns)) if columns else step)
    return result


def _name(expression: Expr, number: int, taken: Collection[str] = ()) -> str:
    """A shared column is called what it is, so that plans can be read; functions of users may have equal names."""
    text = expression.sql
    name = f"#{text}"
    return name if len(text) <= _LONG and name not in taken else f"#{number} {text[:_LONG]}…"


def work(steps: Sequence[Step]) -> int:
    """How many calls it takes to evaluate steps in order, common ones once."""
    per_step = [list(_evaluated(step)) for step in steps]
    columns: dict[Expr, Expr] = {}
    total = 0
    for i, expression in enumerate(_common(per_step)):
        total += replace_subexpressions(expression, columns).calls
        columns[expression] = Column(_name(expression, i), expression.type, expression.nullable)
    return total + sum(replace_subexpressions(e, columns).calls for part in per_step for e, _ in part)


def adds_at_most(most: int, step: Step, before: Sequence[Step], after: Project) -> bool:
    """Whether a step between others adds so much work to theirs, or less."""
    mine = _calls_of(step)
    known = {c for c in mine if not c.can_fail and not is_plain(c) and _is_called(c, before, after)}
    if sum(_new_calls(e, known) for e in step.expressions) <= most:
        return True
    # What has nothing in common with the step is as much work with it as without.
    tests = [s for s in before if not mine.isdisjoint(_calls_of(s))]
    written = Project(tuple((n, e) for n, e in after.outputs if not mine.isdisjoint(_calls(e))))
    return work([*tests, step, written]) <= work([*tests, written]) + most


def _is_called(call: Expr, before: Sequence[Step], after: Project) -> bool:
    return any(call in _calls(e) for _, e in after.outputs) or any(call in _calls_of(s) for s in before)


def _new_calls(expression: Expr, known: set[Expr]) -> int:
    """At most so many calls an expression makes beside ``known`` ones, which are computed once for all."""
    calls: dict[Expr, int] = dict.fromkeys(known, 0)
    for part in reversed(parts_of(expression)):
        if part not in calls:
            calls[part] = isinstance(part, Call) + sum(calls[inner] for inner in part.inner)
    return calls[expression]


def _calls_of(step: Step) -> frozenset[Expr]:
    if isinstance(step, Filter):
        return _calls(step.predicate)
    return frozenset().union(*map(_calls, step.expressions))


@lru_cache(maxsize=10_000)
def _calls(expression: Expr) -> frozenset[Expr]:
    return frozenset(part for part in parts_of(expression) if isinstance(part, Call))


def _common(per_step: Sequence[Sequence[tuple[Expr, bool]]]) -> list[Expr]:
    expressions = [pair for part in per_step for pair in part]
    return shared_subexpressions(
        [e for e, _ in expressions], {i for i, (_, sure) in enumerate(expressions) if not sure}
    )


def _evaluated(step: Step) -> Iterator[tuple[Expr, bool]]:
    """A step's expressions in order, each with whether it is asked of every row and may make it an error."""
    match step:
        case Temporal(bounds, _, tolerant):
            lower = next((b for b in bounds if b.kind == "lower"), None)
            first = None if lower is None or tolerant else lower.value if lower.unless is None else lower.unless
            rest = list(step.expressions)
            if first is not None:
                rest.remove(first)
                yield first, True
            yield from ((e, False) for e in rest)
        case Emit(updates):
            for update in updates:
                yield from ((e, e is update.when or update.when is None) for e in update.expressions)
        case _:
            sure = not (isinstance(step, Filter) and step.tolerant)
            yield from ((e, sure) for e in step.expressions)


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
