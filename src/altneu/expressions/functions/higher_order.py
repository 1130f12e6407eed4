"""Functions that take a lambda: ``transform``, ``filter``, ``exists``, ``forall``, ``aggregate``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.lambdas import ElementScope, Lambda, gathered
from altneu.expressions.lists import Lists, any_per_row, element_at, explode, implode, keep
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Failures, Mask, Vector, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr, Scope

scalar = Group("Lambdas")


def _rule(args: Arguments) -> Typing:
    name, array, body = args.name, args[0], args[1]
    if name != "transform" and body.type not in (T.BOOLEAN, T.NULL):
        raise TypeMismatchError(f"{name}: the lambda `{body.text}` must give a boolean, not {T.type_name(body.type)}")
    result = {"transform": T.list_type(body.type), "filter": array.type}.get(name, T.BOOLEAN)
    return Typing([None, None], result, array.nullable or (result == T.BOOLEAN and body.nullable))


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


@scalar("transform(xs, f)", rule=_rule, usage="transform(xs, x -> …), transform(xs, (x, i) -> …)", grows=True)
def transform(call: Call, scope: Scope) -> Vector:
    """The lambda's value for every element; i is the element's index, from zero."""
    lists, value, failures = _mapped(call, scope)
    return Vector(call.type, arrow=implode(lists.lengths, value.arrow, lists.valid), failures=failures)


def _truths(value: Vector) -> Mask:
    if value.type == T.NULL:
        return np.zeros(len(value), np.bool_)
    return value.values if value.valid is None else value.values & value.valid


@scalar("filter(xs, f)", rule=_rule, usage="filter(xs, x -> …), filter(xs, (x, i) -> …)")
def filter_elements(call: Call, scope: Scope) -> Vector:
    """The elements for which the lambda is true."""
    lists, value, failures = _mapped(call, scope)
    return Vector(call.type, arrow=keep(lists, _truths(value)), failures=failures)


@scalar("exists(xs, f)", rule=_rule, usage="exists(xs, x -> …)")
def exists(call: Call, scope: Scope) -> Vector:
    """Whether the lambda is true for some element."""
    return _quantified(call, scope, True)


@scalar("forall(xs, f)", rule=_rule, usage="forall(xs, x -> …)")
def forall(call: Call, scope: Scope) -> Vector:
    """Whether the lambda is true for every element."""
    return _quantified(call, scope, False)


def _quantified(call: Call, scope: Scope, wanted: bool) -> Vector:
    """``exists`` looks for a true element, ``forall`` for a false one; a null leaves it open."""
    lists, value, failures = _mapped(call, scope)
    known = np.ones(len(value), np.bool_) if value.valid is None else value.valid
    truths = _truths(value)
    result = any_per_row(lists, truths if wanted else known & ~truths)
    open_rows = any_per_row(lists, ~known) & ~result
    valid = ~open_rows if lists.valid is None else ~open_rows & lists.valid
    return Vector(T.BOOLEAN, result if wanted else ~result, None if valid.all() else valid, failures=failures)


def _aggregate_rule(args: Arguments) -> Typing:
    start, merge = args[1], args[2]
    if merge.type != start.type:
        raise TypeMismatchError(
            f"aggregate: the lambda `{merge.text}` gives {T.type_name(merge.type)}, the start `{start.text}` is "
            f"{T.type_name(start.type)}; cast the start"
        )
    return Typing([None] * len(args), args[-1].type if len(args) == 4 else start.type, True)


@scalar(
    "aggregate(xs, start, f[, g])",
    "reduce",
    rule=_aggregate_rule,
    usage="aggregate(xs, start, (sum, x) -> …[, sum -> …])",
)
def aggregate(call: Call, scope: Scope) -> Vector:
    """The elements folded into one value from the left."""
    count = scope.count  # one step per place, for all rows that reach it
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
        present_rows = pa.array(np.arange(count), mask=~present)
        result = Vector(finished.type, arrow=finished.arrow.take(present_rows))
    return result.with_failures(failures)


def parameter_types(name: str, args: Sequence[Expr | None], place: int) -> list[pa.DataType]:
    """Types of the parameters of the lambda at a place, given the arguments before it.

    Raises:
        TypeMismatchError: the function takes no lambda there, or the first argument is not an array.
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
