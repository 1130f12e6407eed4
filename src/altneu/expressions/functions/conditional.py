"""Choosing between values: a branch that a row does not take cannot fail that row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.expressions.coercion import common_type
from altneu.expressions.registry import Group
from altneu.expressions.rules import Arguments, Typing, accept
from altneu.expressions.vector import Failures, Mask, Vector, has_numpy, null_vector, restrict

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Scope

scalar = Group("Conditional")


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


def _case_rule(args: Arguments) -> Typing:
    last = len(args) // 2 * 2
    values = [*args[1:last:2], *args[last:]]
    result = common_type((v.type for v in values), "CASE")
    types: list[pa.DataType | None] = []
    for i in range(0, last, 2):
        types += [accept("CASE WHEN", 0, args[i], T.BOOLEAN), result]
    types += [result] * (len(args) - last)
    return Typing(types, result, len(args) == last or any(v.nullable for v in values))


@scalar("case(a, b, …)", "when", rule=_case_rule, message_name="CASE", usage="CASE [a] WHEN b THEN c … ELSE d END")
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
        open_rows = open_rows & ~mask
        if not open_rows.any():  # no row asks for the branches that are left
            result = value.expand(count)
            break
        taken.append((mask, value))
    else:
        result = args[-1].vector(scope) if len(args) % 2 else null_vector(call.type)
        if result.failures:
            failures += restrict(result.failures, open_rows)
    for mask, value in reversed(taken):
        result = choose(mask, value, result, count)
    result = Vector(call.type, arrow=result.arrow) if not has_numpy(call.type) else result
    return result.expand(count).with_failures(failures)


scalar("if(a, b, c)", "iff", rule=_case_rule, usage="if(a, b, c), iff(a, b, c)", doc="b where a is true, else c.")(case)


def _coalesce_rule(args: Arguments) -> Typing:
    result = args.common()
    return Typing([result] * len(args), result, all(a.nullable for a in args))


@scalar("coalesce(a, …)", "nvl", "ifnull", rule=_coalesce_rule, usage="coalesce(a, b, …), nvl(a, b)")
def coalesce(call: Call, scope: Scope) -> Vector:
    """The first value that is not null; those after it are not evaluated."""
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


def _nvl2_rule(args: Arguments) -> Typing:
    result = args.common(1)
    return Typing((None, result, result), result, args[1].nullable or args[2].nullable)


@scalar("nvl2(a, b, c)", rule=_nvl2_rule, doc="b where a is not null, else c.")
def nvl2(call: Call, scope: Scope) -> Vector:
    """The second where the first is not null, else the third."""
    test, yes, no = (a.vector(scope) for a in call.args)
    present = np.ones(scope.count, np.bool_) if test.valid is None else _full(test.valid, scope.count)
    failures = test.failures + restrict(yes.failures, present) + restrict(no.failures, ~present)
    return choose(present, yes, no, scope.count).with_failures(failures)


def _nanvl_rule(args: Arguments) -> Typing:
    result = T.FLOAT if args[0].type == args[1].type == T.FLOAT else T.DOUBLE
    return Typing((result, result), result)


@scalar("nanvl(a, b)", rule=_nanvl_rule, doc="b where a is NaN, else a.")
def nanvl(call: Call, scope: Scope) -> Vector:
    """The second where the first is NaN, else the first."""
    first, second = (a.vector(scope) for a in call.args)
    mask = np.isnan(first.values) & (True if first.valid is None else first.valid)
    mask = _full(mask, scope.count)
    return choose(mask, second, first, scope.count).with_failures(first.failures + restrict(second.failures, mask))
