"""Vectors: arrays of floats, multiplied, compared and normalized."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.lists import Lists, any_per_row, explode, implode
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments
from altneu.expressions.vector import Mask, Values, Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Vectors")
_LISTED = T.list_type(T.FLOAT)
_TWO = "(xs array<float>, ys array<float>) -> float?"


def _check(args: Arguments) -> None:
    for arg in args[: 1 if args.name.startswith("vector_norm") else 2]:
        if arg.type not in (_LISTED, T.NULL):
            raise TypeMismatchError(
                f"{args.name} takes array<float>, not {T.type_name(arg.type)} (`{arg.text}`); cast it"
            )


def _numbers(lists: Lists) -> Values:
    return Vector(T.FLOAT, arrow=lists.elements).values.astype(np.float64)


def _has_null(lists: Lists) -> Mask:
    return any_per_row(lists, np.asarray(lists.elements.is_null()))


def _sums(lists: Lists, values: Values) -> Values:
    return np.bincount(lists.rows, values, len(lists.offsets) - 1)


def _pair(call: Call, xs: pa.Array, ys: pa.Array) -> tuple[Lists, Values, Values, Mask, Any]:
    """Elements beside each other, rows with a null among them, and the failure of unequal lengths."""
    left, right = explode(xs), explode(ys)
    uneven = (left.lengths != right.lengths) & np.asarray(xs.is_valid()) & np.asarray(ys.is_valid())
    even = left.lengths == right.lengths
    x, y = _numbers(left)[even[left.rows]], _numbers(right)[even[right.rows]]
    lengths = np.where(even, left.lengths, 0)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    null = _has_null(left) | _has_null(right)
    message = f"`{call.text}`: the vectors must have the same dimension"
    return Lists(offsets, left.elements, None), x, y, null, (uneven, "VECTOR_DIMENSION_MISMATCH", message)


def _result(values: Values, failure: Any, null: Mask) -> Out:
    return Out(pa.array(values.astype(np.float32), T.FLOAT), [failure] if failure else [], null)


@scalar(f"vector_inner_product{_TWO}", check=_check, fails=True)
def vector_inner_product(call: Call, xs: pa.Array, ys: pa.Array) -> Out:
    """The sum of the products of two vectors' elements."""
    rows, x, y, null, failure = _pair(call, xs, ys)
    return _result(_sums(rows, x * y), failure, null)


@scalar(f"vector_l2_distance{_TWO}", check=_check, fails=True)
def vector_l2_distance(call: Call, xs: pa.Array, ys: pa.Array) -> Out:
    """The Euclidean distance of two vectors."""
    rows, x, y, null, failure = _pair(call, xs, ys)
    return _result(np.sqrt(_sums(rows, (x - y) ** 2)), failure, null)


@scalar(f"vector_cosine_similarity{_TWO}", check=_check, fails=True)
def vector_cosine_similarity(call: Call, xs: pa.Array, ys: pa.Array) -> Out:
    """The cosine of the angle between two vectors; NULL if one has no length."""
    rows, x, y, null, failure = _pair(call, xs, ys)
    length = np.sqrt(_sums(rows, x * x)) * np.sqrt(_sums(rows, y * y))
    return _result(_sums(rows, x * y) / np.where(length == 0, 1, length), failure, null | (length == 0))


def _degree(call: Call, degree: float, count: int) -> Any:
    bad = np.full(count, degree not in (1.0, 2.0, float("inf")))
    return bad, "INVALID_VECTOR_NORM_DEGREE", f"`{call.text}`: the degree must be 1.0, 2.0 or infinity"


def _norms(lists: Lists, degree: float) -> Values:
    values = np.abs(_numbers(lists))
    if degree == float("inf"):
        result = np.zeros(len(lists.offsets) - 1)
        np.maximum.at(result, lists.rows, values)
        return result
    return _sums(lists, values) if degree == 1 else np.sqrt(_sums(lists, values**2))


def _constant_degree(args: Arguments) -> None:
    _check(args)
    if len(args) > 1 and (not args[1].is_literal or getattr(args[1], "value", None) is None):
        raise TypeMismatchError(f"{args.name}: the degree `{args[1].text}` must be a constant")


def _degree_of(call: Call) -> float:
    return float(call.args[1].value) if len(call.args) > 1 else 2.0  # type: ignore[attr-defined]


@scalar("vector_norm(xs array<float>[, degree float]) -> float?", check=_constant_degree, fails=True)
def vector_norm(call: Call, xs: pa.Array, *_: pa.Array) -> Out:
    """The length of a vector: Euclidean, or by the degree 1.0 or infinity."""
    lists = explode(xs)
    return _result(_norms(lists, _degree_of(call)), _degree(call, _degree_of(call), len(xs)), _has_null(lists))


@scalar("vector_normalize(xs array<float>[, degree float]) -> array<float>?", check=_constant_degree, fails=True)
def vector_normalize(call: Call, xs: pa.Array, *_: pa.Array) -> Out:
    """The vector of the same direction and of length 1; NULL if it has no length."""
    lists = explode(xs)
    norms = _norms(lists, _degree_of(call))
    scaled = (_numbers(lists) / np.where(norms == 0, 1, norms)[lists.rows]).astype(np.float32)
    elements = pa.array(scaled + np.float32(0), T.FLOAT)
    result = implode(lists.lengths, elements, lists.valid, T.FLOAT)
    return Out(result, [_degree(call, _degree_of(call), len(xs))], _has_null(lists) | (norms == 0))
