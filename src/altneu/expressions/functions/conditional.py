"""Choosing between values: a branch that a row does not take cannot fail that row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.expressions.coercion import common_type
from altneu.expressions.registry import Typing, register
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.vector import Failures, Mask, Vector, has_numpy, null_vector, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr, Scope

GROUP = "Conditional"


def choose(mask: Mask, yes: Vector, no: Vector, count: int) -> Vector:
    """``yes`` where the mask is true, ``no`` elsewhere; failures are the caller's business."""
    if has_numpy(yes.type):
        values = np.where(mask, yes.values, no.values)
        valid: Mask | None = None
        if yes.valid is not None or no.valid is not None:
            valid = np.where(mask, True if yes.valid is None else yes.valid, True if no.valid is None else no.valid)
        return Vector(yes.type, values, valid)
    if mask.all():
        return yes.expand(count)
    if not mask.any():
        return no.expand(count)
    both = pa.concat_arrays([no.arrow, yes.arrow])
    rows = np.arange(count)
    index = np.where(mask, (0 if yes.constant else rows) + len(no), 0 if no.constant else rows)
    return Vector(yes.type, arrow=both.take(pa.array(index)))


def _full(mask: Mask, count: int) -> Mask:
    return mask if len(mask) == count else np.repeat(mask, count)


def _true(vector: Vector, count: int) -> Mask:
    mask = vector.values if vector.valid is None else vector.values & vector.valid
    return _full(mask, count)


def _case_rule(args: Sequence[Expr]) -> Typing:
    expect_count("CASE", args, 2, 1_000_000)
    last = len(args) // 2 * 2
    values = [*args[1:last:2], *args[last:]]
    found = common_type((v.type for v in values), "CASE")
    types: list[pa.DataType | None] = []
    for i in range(0, last, 2):
        types += [accept("CASE WHEN", 0, args[i], T.BOOLEAN), found]
    types += [found] * (len(args) - last)
    return Typing(types, found, len(args) == last or any(v.nullable for v in values))


@register(
    "case",
    "when",
    rule=_case_rule,
    style="lazy",
    group=GROUP,
    usage="CASE [a] WHEN b THEN c … ELSE d END",
    doc="The value of the first branch whose condition is true.",
)
def case(call: Call, scope: Scope) -> Vector:
    """The value of the first branch whose condition is true."""
    count, args = scope.count, call.args
    open_rows = np.ones(count, np.bool_)
    failures: Failures = ()
    taken: list[tuple[Mask, Vector]] = []
    for i in range(0, len(args) - 1, 2):
        condition, value = args[i].vector(scope), args[i + 1].vector(scope)
        if condition.failures:
            failures += restrict(condition.failures, open_rows)
        mask = _true(condition, count) & open_rows
        if value.failures:
            failures += restrict(value.failures, mask)
        taken.append((mask, value))
        open_rows = open_rows & ~mask
    if len(args) % 2:
        result = args[-1].vector(scope)
        if result.failures:
            failures += restrict(result.failures, open_rows)
    else:
        result = null_vector(call.type)
    for mask, value in reversed(taken):
        result = choose(mask, value, result, count)
    result = Vector(call.type, arrow=result.arrow) if not has_numpy(call.type) else result
    return result.expand(count).with_failures(failures)


def _if_rule(args: Sequence[Expr]) -> Typing:
    expect_count("if", args, 3)
    return _case_rule(args)


register(
    "if",
    "iff",
    rule=_if_rule,
    style="lazy",
    group=GROUP,
    usage="if(a, b, c), iff(a, b, c)",
    doc="b where a is true, else c.",
)(case)


def _coalesce_rule(args: Sequence[Expr]) -> Typing:
    expect_count("coalesce", args, 1, 1_000_000)
    found = common_type((a.type for a in args), "coalesce")
    return Typing([found] * len(args), found, all(a.nullable for a in args))


@register(
    "coalesce",
    "nvl",
    "ifnull",
    rule=_coalesce_rule,
    style="lazy",
    group=GROUP,
    usage="coalesce(a, b, …), nvl(a, b)",
    doc="The first that is not null; the rest is not evaluated.",
)
def coalesce(call: Call, scope: Scope) -> Vector:
    """The first argument that is not null."""
    count = scope.count
    result = call.args[0].vector(scope)
    failures, missing = result.failures, None if result.valid is None else _full(~result.valid, count)
    failed = np.zeros(count, np.bool_)
    for failure in failures:
        failed = failed | failure.mask
    for arg in call.args[1:]:
        if missing is None:
            break
        missing = missing & ~failed
        value = arg.vector(scope)
        if value.failures:
            own = restrict(value.failures, missing)
            failures += own
            for failure in own:
                failed = failed | failure.mask
        result = choose(missing, value, result, count)
        missing = None if value.valid is None else missing & ~value.valid
    if call.type == T.NULL:
        return Vector(T.NULL, arrow=pa.nulls(count), failures=failures)
    return result.expand(count).with_failures(failures)


def _nvl2_rule(args: Sequence[Expr]) -> Typing:
    expect_count("nvl2", args, 3)
    found = common_type((a.type for a in args[1:]), "nvl2")
    return Typing((None, found, found), found, args[1].nullable or args[2].nullable)


@register(
    "nvl2", rule=_nvl2_rule, style="lazy", group=GROUP, usage="nvl2(a, b, c)", doc="b where a is not null, else c."
)
def nvl2(call: Call, scope: Scope) -> Vector:
    """B where a is not null, else c."""
    test, yes, no = (a.vector(scope) for a in call.args)
    present = np.ones(scope.count, np.bool_) if test.valid is None else _full(test.valid, scope.count)
    failures = test.failures + restrict(yes.failures, present) + restrict(no.failures, ~present)
    return choose(present, yes, no, scope.count).with_failures(failures)


def _nanvl_rule(args: Sequence[Expr]) -> Typing:
    expect_count("nanvl", args, 2)
    found = T.FLOAT if args[0].type == args[1].type == T.FLOAT else T.DOUBLE
    return Typing((found, found), found)


@register("nanvl", rule=_nanvl_rule, style="lazy", group=GROUP, usage="nanvl(a, b)", doc="b where a is NaN, else a.")
def nanvl(call: Call, scope: Scope) -> Vector:
    """B where a is NaN, else a."""
    first, second = (a.vector(scope) for a in call.args)
    mask = np.isnan(first.values) & (True if first.valid is None else first.valid)
    mask = _full(mask, scope.count)
    return choose(mask, second, first, scope.count).with_failures(first.failures + restrict(second.failures, mask))
