"""Functions that take a lambda: ``transform``, ``filter``, ``exists``, ``forall``, ``aggregate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import nested
from altneu.expressions.coercion import common_type
from altneu.expressions.functions.nested import checked_map
from altneu.expressions.lambdas import ElementScope, Lambda, gathered
from altneu.expressions.lists import (
    Lists,
    aligned,
    any_per_row,
    element_at,
    explode,
    first_of_each,
    implode,
    implode_map,
    keep,
)
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Failure, Failures, Mask, Values, Vector, both_valid, failed_rows, restrict

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


def _alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether two types are the same but for the names of a struct's fields."""
    if pt.is_struct(one) and pt.is_struct(other):
        pairs = zip(one, other, strict=False)
        return one.num_fields == other.num_fields and all(_alike(a.type, b.type) for a, b in pairs)
    return one == other


def _aggregate_rule(args: Arguments) -> Typing:
    start, merge = args[1], args[2]
    if not _alike(merge.type, start.type):
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
        inner = ElementScope(scope, rows, dict(zip(merge.parameters, values, strict=False)))
        stepped = merge.body.vector(inner).expand(len(rows))
        failures += gathered(stepped.failures, rows, count)
        index = np.arange(count)
        index[rows] = count + np.arange(len(rows))
        state = pa.concat_arrays([state, stepped.arrow.view(state.type)]).take(pa.array(index))
    result = Vector(state.type, arrow=state.take(pa.array(np.arange(count), mask=~present)))
    if len(call.args) == 4:
        finish = call.args[3]
        assert isinstance(finish, Lambda)
        inner = ElementScope(scope, np.arange(count), dict.fromkeys(finish.parameters, result))
        finished = finish.body.vector(inner).expand(count)
        failures += restrict(finished.failures, present)
        present_rows = pa.array(np.arange(count), mask=~present)
        result = Vector(finished.type, arrow=finished.arrow.take(present_rows))
    return result.with_failures(failures)


def _compared_rule(args: Arguments) -> Typing:
    body = args[1]
    if body.type != T.INT:
        raise TypeMismatchError(f"array_sort: the lambda `{body.text}` must give an int, not {T.type_name(body.type)}")
    return Typing([None, None], args[0].type)


_MOST_PAIRS = 1 << 20  # that are compared at once, but for one array


@scalar(
    "array_sort_by(xs, f)",
    rule=_compared_rule,
    usage="array_sort(xs, (x, y) -> …)",
    message_name="array_sort",
    fails=True,
)
def array_sort_by(call: Call, scope: Scope) -> Vector:
    """The elements in the order in which the lambda gives a number below zero, zero or above; a null is an error."""
    # Its value is computed for every pair of an array's elements. Java sorts as Python does, by runs and insertions,
    # which is what a lambda shows that contradicts itself.
    array, function = call.args[0].vector(scope), call.args[1]
    assert isinstance(function, Lambda)
    lists = explode(array.expand(scope.count).arrow)
    starts = np.concatenate([[0], np.cumsum(lists.lengths)[:-1]]).astype(np.int64)
    squares = np.cumsum(lists.lengths.astype(np.int64) ** 2)
    places, failures = np.arange(len(lists.elements)), array.failures
    row = 0
    while row < scope.count:
        done = squares[row - 1] if row else 0
        end = max(int(np.searchsorted(squares, done + _MOST_PAIRS, side="right")), row + 1)
        failures += _sorted(function, scope, lists, starts, range(row, end), places)
        row = end
    elements = lists.elements.take(pa.array(places))
    return Vector(call.type, arrow=implode(lists.lengths, elements, lists.valid), failures=failures)


def _sorted(
    function: Lambda, scope: Scope, lists: Lists, starts: Values, rows: Sequence[int], places: Values
) -> Failures:
    """Bring the places of some rows' elements into order, and what failed of the comparisons that this needed."""
    pairs = [np.indices((n, n)).reshape(2, -1) + start for n, start in ((lists.lengths[r], starts[r]) for r in rows)]
    left, right = np.concatenate(pairs, axis=1).astype(np.int64)
    of_row = np.repeat(np.asarray(rows), [p.shape[1] for p in pairs])
    sides = [lists.elements.take(pa.array(side)) for side in (left, right)]
    values = [Vector(side.type, arrow=side) for side in sides]
    inner = ElementScope(scope, of_row, dict(zip(function.parameters, values, strict=False)))
    found = function.body.vector(inner).expand(len(left))
    signs = np.where(found.valid, found.values, 0) if found.valid is not None else found.values
    used = np.zeros(len(left), np.bool_)
    first = 0
    for r in rows:
        n, start = int(lists.lengths[r]), int(starts[r])

        def compare(a: int, b: int, first: int = first, n: int = n) -> int:
            used[first + a * n + b] = True
            return int(signs[first + a * n + b])

        places[start : start + n] = [start + i for i in sorted(range(n), key=cmp_to_key(compare))]
        first += n * n
    failures = gathered(restrict(found.failures, used), of_row, scope.count)
    failed = failed_rows(found.failures)
    nulls = used & ~found.valid if found.valid is not None else np.zeros(len(left), np.bool_)
    nulls &= True if failed is None else ~failed
    if nulls.any():
        message = f"array_sort: the lambda `{function.body.text}` gave NULL for two elements"
        failures += gathered((Failure(nulls, "COMPARATOR_RETURNS_NULL", message),), of_row, scope.count)
    return failures


def _pairs(call: Call, scope: Scope) -> tuple[Lists, Vector, Failures]:
    """The map taken apart, the lambda's value on every entry, and what failed."""
    entries = call.args[0].vector(scope)
    lists = explode(entries.expand(scope.count).arrow)
    function = call.args[1]
    assert isinstance(function, Lambda)
    values = [Vector(part.type, arrow=part) for part in (lists.elements.field(0), lists.elements.field(1))]
    inner = ElementScope(scope, lists.rows, dict(zip(function.parameters, values, strict=False)))
    value = function.body.vector(inner).expand(len(lists.elements))
    return lists, value, entries.failures + gathered(value.failures, lists.rows, scope.count)


def _pairs_rule(args: Arguments) -> Typing:
    kind, body = args[0].type, args[1]
    if args.name == "map_filter" and body.type not in (T.BOOLEAN, T.NULL):
        raise TypeMismatchError(f"{args.name}: `{body.text}` must give a boolean, not {T.type_name(body.type)}")
    result = pa.map_(kind.key_type, body.type) if args.name == "transform_values" else kind
    if args.name == "transform_keys":
        args.check_ordered(body.type)
        if body.type == T.NULL:
            raise TypeMismatchError(f"{args.name}: the key `{body.text}` must not be NULL")
        result = pa.map_(body.type, kind.item_type)
    return Typing([None, None], T.normalise_type(result))


@scalar("map_filter(m, f)", rule=_pairs_rule, usage="map_filter(m, (k, v) -> …)")
def map_filter(call: Call, scope: Scope) -> Vector:
    """The entries of a map for which the lambda is true."""
    lists, value, failures = _pairs(call, scope)
    mask = _truths(value)
    lengths = np.bincount(lists.rows[mask], minlength=scope.count)
    kept = lists.elements.filter(pa.array(mask))
    result = implode_map(lengths, kept.field(0), kept.field(1), lists.valid, call.type)
    return Vector(call.type, arrow=result, failures=failures)


@scalar("transform_values(m, f)", rule=_pairs_rule, usage="transform_values(m, (k, v) -> …)", grows=True)
def transform_values(call: Call, scope: Scope) -> Vector:
    """The map with the lambda's value for each entry's value."""
    lists, value, failures = _pairs(call, scope)
    result = implode_map(lists.lengths, lists.elements.field(0), value.arrow, lists.valid, call.type)
    return Vector(call.type, arrow=result, failures=failures)


@scalar("transform_keys(m, f)", rule=_pairs_rule, usage="transform_keys(m, (k, v) -> …)", fails=True, grows=True)
def transform_keys(call: Call, scope: Scope) -> Vector:
    """The map with the lambda's value for each entry's key. A null or repeated key is an error."""
    lists, value, failures = _pairs(call, scope)
    return _map_of(call, lists.lengths, value.arrow, lists.elements.field(1), lists.valid, failures)


def _map_of(
    call: Call, lengths: Values, keys: pa.Array, items: pa.Array, valid: Mask | None, known: Failures
) -> Vector:
    """A map whose keys are checked, beside failures that come first."""
    out = checked_map(call, lengths, keys, items, valid)
    own = tuple(Failure(mask, code, message) for mask, code, message in out.failures if mask.any())
    failed = failed_rows(known)
    return Vector(call.type, arrow=out.values, failures=known + (own if failed is None else restrict(own, ~failed)))


def _zip_rule(args: Arguments) -> Typing:
    return Typing([None] * 3, T.list_type(args[2].type))


@scalar("zip_with(xs, ys, f)", rule=_zip_rule, usage="zip_with(xs, ys, (x, y) -> …)", grows=True)
def zip_with(call: Call, scope: Scope) -> Vector:
    """The lambda's value for the elements at each place of two arrays; a shorter array goes on with nulls."""
    count = scope.count
    vectors = [arg.vector(scope) for arg in call.args[:2]]
    arrays = [v.expand(count).arrow for v in vectors]
    lengths, columns, valid = aligned([explode(a) for a in arrays])
    rows = np.repeat(np.arange(count), lengths)
    failures = _in_turn(vectors)
    return _zipped(call, scope, call.args[2], rows, columns, failures, lambda v: implode(lengths, v, valid))


def _in_turn(vectors: Sequence[Vector]) -> Failures:
    """Failures of arguments: what comes after a null is not evaluated."""
    first, second = vectors
    return first.failures + (second.failures if first.valid is None else restrict(second.failures, first.valid))


def _zipped(
    call: Call,
    scope: Scope,
    function: Expr,
    rows: Values,
    columns: Sequence[pa.Array],
    failures: Failures,
    made: Callable[[pa.Array], pa.Array],
) -> Vector:
    assert isinstance(function, Lambda)
    values = [Vector(column.type, arrow=column) for column in columns]
    inner = ElementScope(scope, rows, dict(zip(function.parameters, values, strict=False)))
    value = function.body.vector(inner).expand(len(rows))
    return Vector(call.type, arrow=made(value.arrow), failures=failures + gathered(value.failures, rows, scope.count))


def _map_zip_rule(args: Arguments) -> Typing:
    key = _common_key(args.name, args[0], args[1])
    kinds = [pa.map_(key, a.type.item_type) for a in args[:2]]
    return Typing([*map(T.normalise_type, kinds), None], T.normalise_type(pa.map_(key, args[2].type)))


@scalar("map_zip_with(m, n, f)", rule=_map_zip_rule, usage="map_zip_with(m, n, (k, v, w) -> …)", grows=True)
def map_zip_with(call: Call, scope: Scope) -> Vector:
    """The map of the lambda's values for every key of two maps; the value of a map without the key is null."""
    count = scope.count
    vectors = [arg.vector(scope) for arg in call.args[:2]]
    left, right = (explode(v.expand(count).arrow) for v in vectors)
    valid = both_valid(left.valid, right.valid)
    keys = pa.concat_arrays([left.elements.field(0), right.elements.field(0)])
    rows = np.concatenate([left.rows, right.rows])
    if valid is not None:
        keys, rows = keys.filter(pa.array(valid[rows])), rows[valid[rows]]
    order = np.argsort(rows, kind="stable")
    keys, rows = keys.take(pa.array(order)), rows[order]
    once = first_of_each(rows, nested.rank(keys))
    keys, rows = keys.filter(pa.array(once)), rows[once]
    columns = [keys, *(_looked_up(lists, rows, keys) for lists in (left, right))]
    lengths = np.bincount(rows, minlength=count)
    failures = _in_turn(vectors)
    made = lambda v: implode_map(lengths, keys, v, valid, call.type)  # noqa: E731 -- given on
    return _zipped(call, scope, call.args[2], rows, columns, failures, made)


def _looked_up(lists: Lists, rows: Values, keys: pa.Array) -> pa.Array:
    """The values of maps for keys of their rows; null where there is none."""
    have, wanted = nested.ranks(lists.elements.field(0), keys)
    width = int(max(have.max(initial=0), wanted.max(initial=0))) + 1
    known = lists.rows * width + have
    order = np.argsort(known, kind="stable")
    sought = rows * width + wanted
    place = np.searchsorted(known[order], sought)
    inside = place < len(known)
    place = np.where(inside, place, 0)
    found = inside & (known[order][place] == sought) if len(known) else inside
    index = order[place] if len(known) else place
    return lists.elements.field(1).take(pa.array(index, mask=~found))


def _common_key(name: str, first: Expr, second: Expr) -> pa.DataType:
    for arg in (first, second):
        if not pt.is_map(arg.type):
            raise TypeMismatchError(f"{name} takes two maps, not {T.type_name(arg.type)} (`{arg.text}`)")
    return common_type([first.type.key_type, second.type.key_type], name)


_OF_ARRAYS = ("transform", "filter", "exists", "forall")
_OF_MAPS = ("map_filter", "transform_keys", "transform_values")
LAMBDAS = {
    **dict.fromkeys((*_OF_ARRAYS, *_OF_MAPS, "array_sort"), (1,)),
    **dict.fromkeys(("zip_with", "map_zip_with"), (2,)),
    **dict.fromkeys(("aggregate", "reduce"), (2, 3)),
}
"""The places of the arguments that are lambdas."""


def parameter_types(name: str, args: Sequence[Expr | None], place: int) -> list[pa.DataType]:
    """Types of the parameters of the lambda at a place, given the arguments before it.

    Raises:
        TypeMismatchError: the function takes no lambda there, or the arguments before it are not what it goes through.
    """
    known = [arg for arg in args[:place] if arg is not None]
    if len(known) == place == 1 and name in _OF_ARRAYS:
        element = _element(name, known[0])
        return [element, T.INT] if name in ("transform", "filter") else [element]
    if len(known) == place == 1 and name == "array_sort":
        return [_element(name, known[0])] * 2
    if len(known) == place == 1 and name in _OF_MAPS:
        kind = known[0].type
        if not pt.is_map(kind):
            raise TypeMismatchError(f"{name} takes a map, not {T.type_name(kind)} (`{known[0].text}`)")
        return [kind.key_type, kind.item_type]
    if len(known) == place == 2 and name == "zip_with":
        return [_element(name, arg) for arg in known]
    if len(known) == place == 2 and name == "map_zip_with":
        return [_common_key(name, *known), *(arg.type.item_type for arg in known)]
    if name in ("aggregate", "reduce") and place in (2, 3) and len(known) >= 2:
        element, start = _element(name, known[0]), known[1].type
        return [start, element] if place == 2 else [start]
    raise TypeMismatchError(f"{name}() takes no lambda there")


def _element(name: str, array: Expr) -> pa.DataType:
    if not pt.is_list(array.type):
        raise TypeMismatchError(f"{name} takes an array, not {T.type_name(array.type)} (`{array.text}`)")
    return array.type.value_type
