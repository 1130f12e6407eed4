"""Functions that take a lambda: ``transform``, ``filter``, ``exists``, ``forall``, ``aggregate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.lambdas import ElementScope, Lambda, gathered
from altneu.expressions.lists import Lists, any_per_row, element_at, explode, implode, keep
from altneu.expressions.registry import Rule, Typing, register
from altneu.expressions.rules import expect_count
from altneu.expressions.vector import Failures, Mask, Vector, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr, Scope

GROUP = "Lambdas"


def _rule(name: str, condition: bool) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 2)
        body = args[1].type
        if condition and body not in (T.BOOLEAN, T.NULL):
            raise TypeMismatchError(f"{name}: the lambda `{args[1].text}` must give a boolean, not {T.type_name(body)}")
        result = {"transform": T.list_type(body), "filter": args[0].type}.get(name, T.BOOLEAN)
        nullable = args[0].nullable or (name in ("exists", "forall") and args[1].nullable)
        return Typing([None, None], result, nullable)

    return rule


def _mapped(call: Call, scope: Scope) -> tuple[Lists, Vector, Failures]:
    """The array taken apart, the lambda's value on every element, and what failed."""
    array = call.args[0].vector(scope)
    lists = explode(array.expand(scope.count).arrow)
    function = call.args[1]
    assert isinstance(function, Lambda)
    elements = Vector(lists.elements.type, arrow=lists.elements)
    places = Vector(T.INT, lists.places.astype(np.int32))
    inner = ElementScope(scope, lists.rows, dict(zip(function.parameters, (elements, places), strict=False)))
    value = function.body.vector(inner).expand(len(lists.elements))
    failures = array.failures + gathered(value.failures, lists.rows, scope.count)
    return lists, value, failures


@register(
    "transform",
    rule=_rule("transform", False),
    style="lazy",
    group=GROUP,
    usage="transform(xs, x -> …), transform(xs, (x, i) -> …)",
    doc="The lambda's value on every element (and its place from zero).",
    grows=True,
)
def transform(call: Call, scope: Scope) -> Vector:
    """The lambda's value on every element."""
    lists, value, failures = _mapped(call, scope)
    return Vector(call.type, arrow=implode(lists.lengths, value.arrow, lists.valid), failures=failures)


def _truths(value: Vector) -> Mask:
    if value.type == T.NULL:
        return np.zeros(len(value), np.bool_)
    return value.values if value.valid is None else value.values & value.valid


@register(
    "filter",
    rule=_rule("filter", True),
    style="lazy",
    group=GROUP,
    usage="filter(xs, x -> …), filter(xs, (x, i) -> …)",
    doc="The elements on which the lambda is true.",
)
def filter_elements(call: Call, scope: Scope) -> Vector:
    """The elements on which the lambda is true."""
    lists, value, failures = _mapped(call, scope)
    return Vector(call.type, arrow=keep(lists, _truths(value)), failures=failures)


def _quantified(wanted: bool) -> Callable[[Call, Scope], Vector]:
    """``exists`` looks for a true element, ``forall`` for a false one; a null leaves it open."""

    def kernel(call: Call, scope: Scope) -> Vector:
        lists, value, failures = _mapped(call, scope)
        known = np.ones(len(value), np.bool_) if value.valid is None else value.valid
        truths = _truths(value)
        found = any_per_row(lists, truths if wanted else known & ~truths)
        open_rows = any_per_row(lists, ~known) & ~found
        valid = ~open_rows if lists.valid is None else ~open_rows & lists.valid
        return Vector(T.BOOLEAN, found if wanted else ~found, None if valid.all() else valid, failures=failures)

    return kernel


for _name, _wanted, _doc in (
    ("exists", True, "Whether the lambda is true on some element."),
    ("forall", False, "Whether the lambda is true on every element."),
):
    register(_name, rule=_rule(_name, True), style="lazy", group=GROUP, usage=f"{_name}(xs, x -> …)", doc=_doc)(
        _quantified(_wanted)
    )


def _aggregate_rule(args: Sequence[Expr]) -> Typing:
    expect_count("aggregate", args, 3, 4)
    start, merge = args[1], args[2]
    if merge.type != start.type:
        raise TypeMismatchError(
            f"aggregate: the lambda `{merge.text}` gives {T.type_name(merge.type)}, the start `{start.text}` is "
            f"{T.type_name(start.type)}; cast the start"
        )
    return Typing([None] * len(args), args[-1].type if len(args) == 4 else start.type, True)


@register(
    "aggregate",
    "reduce",
    rule=_aggregate_rule,
    style="lazy",
    group=GROUP,
    usage="aggregate(xs, start, (sum, x) -> …[, sum -> …])",
    doc="The elements folded into one value from the left.",
)
def aggregate(call: Call, scope: Scope) -> Vector:
    """The elements folded into one value; one step per place, for all rows that reach it."""
    count = scope.count
    array, total = call.args[0].vector(scope), call.args[1].vector(scope)
    lists = explode(array.expand(count).arrow)
    merge = call.args[2]
    assert isinstance(merge, Lambda)
    present = np.ones(count, np.bool_) if lists.valid is None else lists.valid
    failures = array.failures + restrict(total.failures, present)
    state = total.expand(count).arrow
    for place in range(int(lists.lengths.max(initial=0))):
        rows = np.flatnonzero(lists.lengths > place)
        element = element_at(lists, np.full(count, place)).take(pa.array(rows))
        values = (Vector(state.type, arrow=state.take(pa.array(rows))), Vector(element.type, arrow=element))
        inner = ElementScope(scope, rows, dict(zip(merge.parameters, values, strict=True)))
        stepped = merge.body.vector(inner).expand(len(rows))
        failures += gathered(stepped.failures, rows, count)
        index = np.arange(count)
        index[rows] = count + np.arange(len(rows))
        state = pa.concat_arrays([state, stepped.arrow]).take(pa.array(index))
    result = Vector(state.type, arrow=state.take(pa.array(np.arange(count), mask=~present)))
    if len(call.args) == 4:
        finish = call.args[3]
        assert isinstance(finish, Lambda)
        inner = ElementScope(scope, np.arange(count), {finish.parameters[0]: result})
        finished = finish.body.vector(inner).expand(count)
        failures += restrict(finished.failures, present)
        kept = pa.array(np.arange(count), mask=~present)
        result = Vector(finished.type, arrow=finished.arrow.take(kept))
    return result.with_failures(failures)


def parameter_types(name: str, args: Sequence[Expr | None], place: int) -> list[pa.DataType]:
    """Types of the parameters of the lambda at a place, given the arguments before it.

    Raises:
        TypeMismatchError: the function takes no lambda there, or the first argument is no array.
    """
    first = args[0]
    if name not in ("transform", "filter", "exists", "forall", "aggregate", "reduce") or first is None:
        raise TypeMismatchError(f"{name}() takes no lambda there")
    if not pt.is_list(first.type):
        raise TypeMismatchError(f"{name} takes an array, not {T.type_name(first.type)} (`{first.text}`)")
    element = first.type.value_type
    if name in ("aggregate", "reduce"):
        start = args[1]
        if start is None or place not in (2, 3):
            raise TypeMismatchError(f"{name}() takes no lambda there")
        return [start.type, element] if place == 2 else [start.type]
    return [element, T.INT] if name in ("transform", "filter") else [element]
