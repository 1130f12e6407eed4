"""The Python functions that linear logic calls: those of steps and delays, and of calls inside expressions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from altneu.linear.bound import BoundLogic
from altneu.linear.delay import Delay, DelayBoth, DelayFunction
from altneu.linear.function import Function
from altneu.linear.mapping import mapped
from altneu.linear.steps import FunctionStep
from altneu.linear.user_function import UserFunction, user_calls, with_user_functions

Change = Callable[[Function], Function]


def functions_of(logic: BoundLogic) -> Iterator[Function]:
    """The functions of its delay, then of each step."""
    yield from _of_delay(logic.delay)
    for step in logic.steps:
        if isinstance(step, FunctionStep):
            yield step.function
        for expression in step.expressions:
            for call in user_calls(expression):
                assert isinstance(call.function, UserFunction)
                yield call.function.function
        yield from _of_delay(getattr(step, "delay", None))


def with_functions(logic: BoundLogic, change: Change) -> BoundLogic:
    """The logic with each function changed; itself where it calls none."""
    if not any(True for _ in functions_of(logic)):
        return logic
    return BoundLogic(tuple(_changed_step(step, change) for step in logic.steps), _changed_delay(logic.delay, change))


def _of_delay(delay: Delay | None) -> Iterator[Function]:
    for part in () if delay is None else delay.parts:
        if isinstance(part, DelayFunction | DelayBoth):
            yield part.function


def _changed_step(step: Any, change: Change) -> Any:
    if isinstance(step, FunctionStep):
        step = replace(step, function=change(step.function))
    step = mapped(step, lambda expression: with_user_functions(expression, change))
    delay = getattr(step, "delay", None)
    return replace(step, delay=_changed_delay(delay, change)) if delay else step


def _changed_delay(delay: Delay, change: Change) -> Delay:
    parts = (
        replace(p, function=change(p.function)) if isinstance(p, DelayFunction | DelayBoth) else p for p in delay.parts
    )
    return Delay(tuple(parts))
