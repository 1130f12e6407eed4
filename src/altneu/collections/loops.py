"""Loops as plans: their variables, what their bodies make of these, and how many of them are being written.

It is written over any class of collections, so that ``Collection`` can have a verb for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any, Literal, Protocol, TypeVar

import pyarrow as pa

from altneu.errors import PlanError, SchemaError
from altneu.plan import ir
from altneu.types import type_name

OnLimit = Literal["error", "stop"]
MAX_ROUNDS = ir.MAX_ROUNDS

_open_loops = threading.local()


class Planned(Protocol):
    """A collection, as a loop sees it: a plan with a schema."""

    def __init__(self, node: ir.Node) -> None: ...

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns."""

    @property
    def node(self) -> ir.Node:
        """Its plan."""


C = TypeVar("C", bound=Planned)


def loop(
    kind: type[C],
    body: Callable[..., C | Sequence[C]],
    initial: Mapping[str, C],
    max_rounds: int,
    on_limit: OnLimit,
    step: int | Mapping[str, int] = 1,
) -> tuple[C, ...]:
    """A loop over named variables, as ``altneu.recursive`` says; ``kind`` is the class of its collections."""
    if on_limit not in ("error", "stop"):
        raise PlanError(f'on_limit must be "error" or "stop", got {on_limit!r}')
    if not isinstance(max_rounds, Integral) or max_rounds < 1:
        raise PlanError(f"max_rounds must be at least 1, got {max_rounds!r}")
    if not initial:
        raise PlanError("a recursion needs at least one variable: recursive(body, name=its first value)")
    steps = steps_of(step, initial, "step must be a whole number of rounds of at least 1 for each variable")
    level = level_of_loop() + 1
    names, first = tuple(initial), tuple(c.node for c in initial.values())
    variables = [ir.Variable(level, i, ir.open_schema(node.schema)) for i, node in enumerate(first)]
    bodies = bodies_over(kind, names, variables, body)
    stops = on_limit == "stop"
    later = steps if max(steps) > 1 else ()
    whole = ir.Loop(names, first, tuple(c.node for c in bodies), level, int(max_rounds), stops, steps=later)
    return tuple(kind(ir.Result(whole, i)) for i in range(len(names)))


def bodies_over(
    kind: type[C], names: Sequence[str], variables: Sequence[ir.Variable], body: Callable[..., Any], what: str = "loop"
) -> tuple[C, ...]:
    """What the body of a loop, or of feedback, makes of its variables, checked."""
    level = variables[0].level
    _open_loops.count = level + 1
    try:
        bodies = bodies_of(body(*map(kind, variables)))
    finally:
        _open_loops.count = level
    _check_bodies(kind, names, variables, bodies, what)
    return bodies


def level_of_loop() -> int:
    """The level of the innermost loop that is being written, -1 outside of all."""
    return getattr(_open_loops, "count", 0) - 1


def steps_of(given: int | Mapping[str, int], variables: Iterable[str], what: str) -> tuple[int, ...]:
    """The steps of variables, given for all of them or by name.

    Raises:
        PlanError: one is less than 1, or no number, or missing, or of no variable.
    """
    names = list(variables)
    steps = dict(given) if isinstance(given, Mapping) else dict.fromkeys(names, given)
    for name in [*steps, *names]:
        step = steps.get(name)
        if name not in names or not isinstance(step, Integral) or isinstance(step, bool) or step < 1:
            raise PlanError(f"{what}, got {given!r}")
    return tuple(int(steps[name]) for name in names)


def bodies_of(result: Any) -> tuple[Any, ...]:
    """What the body of a loop returns: a collection for each variable, and of one variable it may be alone."""
    return tuple(result) if isinstance(result, Iterable) else (result,)


def _check_bodies(
    kind: type[Any], names: Sequence[str], variables: Sequence[ir.Variable], bodies: Sequence[Any], what: str
) -> None:
    if len(bodies) != len(names) or not all(isinstance(c, kind) for c in bodies):
        raise PlanError(
            f"the body of {'a ' * (what == 'loop')}{what} over {', '.join(names)} must return {len(names)} "
            f"collection(s), one for each variable, got {bodies!r}"
        )
    for name, variable, collection in zip(names, variables, bodies, strict=True):
        mine, theirs = ([(f.name, type_name(f.type)) for f in s] for s in (variable.schema, collection.schema))
        if mine != theirs:
            raise SchemaError(
                f"the {what}'s variable {name} has the columns {shown_columns(mine)}, and its body returns "
                f"{shown_columns(theirs)}; use select to make them equal"
            )
        if max(ir.moments(collection.node), default=-1) >= variables[0].level:
            raise PlanError(f"the body returns a differentiated collection for {name}; integrate it first")
        if verb := ir.arrival_verb_in_loop(collection.node):
            raise PlanError(
                f"{verb} reads what changes from round to round, which it cannot; use it before the loop or after"
                if what == "loop"
                else f"{verb} reads a variable of feedback, which it cannot; use it before the feedback or after"
            )


def shown_columns(columns: list[tuple[str, str]]) -> str:
    """Names and types of columns, as errors show them."""
    return f"({', '.join(f'{n} {t}' for n, t in columns)})"
