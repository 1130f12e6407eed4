"""Linear logic that calls functions with ``memo=True``: their results are kept by argument, and joined to the rows.

The results are a collection of their own: one row for each argument that there ever was, with what the function made of
it. An argument is there from the first time at which a row has it, and stays:

    arguments = rows.select(arguments).distinct()
    ever      = arguments.differentiate().threshold(positive).integrate().distinct()
    results   = ever.select(arguments, function(arguments))

``differentiate`` makes changes of the arguments; those that are positive, added up, are all arguments that ever came.
Nothing is taken away from them, so the function is called once for each and never for a retraction, and whatever it
answered then is what every row with that argument has, and what is retracted with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from altneu import types as T
from altneu.collections.moments import refuse_moments
from altneu.errors import PlanError, TypeMismatchError
from altneu.expressions import Call, Column, Expr, Literal, call, parts_of, replace_subexpressions
from altneu.expressions.lambdas import Variable
from altneu.linear import BoundLogic, Filter, Function, MapFunction, Project, Step
from altneu.linear.mapping import mapped
from altneu.linear.user_function import NO_ARGUMENT, Results, UserFunction, ValueOf, result_type, user_calls
from altneu.plan import ir
from altneu.types import uncompared

_ARGUMENTS = "#arguments"
_OUTSIDE = -1  # of all loops
_KNOWN = "#results"  # of a node: itself with the results that a filter has read, and the values of calls there


def linear(node: ir.Node, logic: BoundLogic) -> ir.Node:
    """Linear logic over a collection; results of functions that keep them are joined to its rows first.

    Shape:  the rows and columns of the logic.
    Cost:   without such functions linear. For each of them two exchanges by its arguments, and an arrangement of the
            rows; the arguments that there are, and those there ever were with their results.
    Law:    a function that always gives the same answer gives the rows that the logic alone gives
            (tests/oracle/test_functions_of_users.py).

    Raises:
        PlanError: such a function stands in a loop, between differentiate and integrate, over rows with several times,
            or inside a lambda.
    """
    for place, step in enumerate(logic.steps):
        calls = _memos(step)
        if not calls:
            continue
        before, after = BoundLogic(logic.steps[:place], logic.delay), BoundLogic(logic.steps[place + 1 :])
        rows = ir.Linear(node, before) if before else node
        done = _with_results(rows, step, calls)
        return linear(done, after) if after else done
    return ir.Linear(node, logic)


def _memos(step: Step) -> list[Call]:
    """The calls in a step of functions that keep their results, each once, inner ones first."""
    calls = (c for e in step.expressions for c in user_calls(e))
    return list(dict.fromkeys(c for c in calls if isinstance(c.function, UserFunction) and c.function.memo))


def _project(node: ir.Node, outputs: Sequence[tuple[str, Expr]]) -> ir.Node:
    """A projection that calls no such function."""
    return ir.Linear(node, BoundLogic((Project(tuple(outputs)),)))


def _with_results(rows: ir.Node, step: Step, calls: Sequence[Call]) -> ir.Node:
    """A step over rows to which the results of its calls are joined, one call after the other."""
    own = rows.schema.names
    known: list[tuple[Expr, Expr]] = []
    wide, before = rows.__dict__.get(_KNOWN, (rows, {}))
    if any(written in before for written in calls):  # a filter right before has called it: the results are the same
        rows = wide
    for at, written in enumerate(calls):
        found: Expr = written  # over the results that are joined already
        for inner, result in known:
            found = replace_subexpressions(found, {inner: result})
        assert isinstance(found, Call)
        if rows is wide and written in before:
            result = before[written]
        else:
            rows, result = _with_result(rows, found, f"#{len(rows.schema)}.{at} of {found.text}")
        step = mapped(step, lambda e, one={found: result}: replace_subexpressions(e, one))  # type: ignore[misc]
        known.append((found, result))
    done: ir.Node = ir.Linear(rows, BoundLogic((step,)))
    added = set(rows.schema.names).difference(own)
    if added.isdisjoint(done.schema.names):
        return done
    narrow = _project(
        done, [(f.name, Column(f.name, f.type, f.nullable, T.mark_of(f))) for f in done.schema if f.name not in added]
    )
    if isinstance(step, Filter):
        results = {written: result for written, (_, result) in zip(calls, known, strict=True)}
        narrow.__dict__[_KNOWN] = done, {**(before if rows is wide else {}), **results}
    return narrow


def _with_result(rows: ir.Node, found: Call, name: str) -> tuple[ir.Node, Call]:
    """Rows with what a call comes to, in a column more, and the expression of its value."""
    function = found.function
    assert isinstance(function, UserFunction)
    _check(rows, function, found)
    columns = [(f.name, Column(f.name, f.type, f.nullable, T.mark_of(f))) for f in rows.schema]
    arguments = _record(found.args)
    known = Column(_ARGUMENTS, arguments.type, False)
    asking = _project(rows, [*columns, (_ARGUMENTS, arguments)])
    now = ir.Reduce(_project(asking, [(_ARGUMENTS, known)]), (_ARGUMENTS,), ir.Distinct())
    came = ir.Reduce(ir.Differentiate(now, 1, _OUTSIDE), (_ARGUMENTS,), ir.Threshold(Function.of(positive)))
    ever = ir.Reduce(ir.Integrate(came, 1, _OUTSIDE), (_ARGUMENTS,), ir.Distinct())
    result = pa.field(name, result_type(function.returns), nullable=False)
    made = Results(function, pa.schema([ever.schema.field(_ARGUMENTS), result]))
    results = ir.Linear(ever, BoundLogic((MapFunction(made.function, made.schema),)))  # through which no test is moved
    outputs = (*((n, 0, n) for n, _ in columns), (name, 1, name))
    joined = ir.Join(asking, results, (_ARGUMENTS,), (_ARGUMENTS,), outputs)
    return joined, Call(ValueOf(function.title), (Column(name, result.type, False),), found.type, True)


def _record(args: Sequence[Expr]) -> Expr:
    """The arguments in one value, which is not null where they are."""
    parts: list[Expr] = [part for i, arg in enumerate(args) for part in (Literal(f"a{i}", T.STRING), arg)]
    return call("named_struct", parts or [Literal(NO_ARGUMENT, T.STRING), Literal(0, T.INT)])


def positive(count: int) -> int:
    """A count, or 0 in place of a negative one."""
    return max(count, 0)


def _check(rows: ir.Node, function: UserFunction, found: Call) -> None:
    title = f"{function.title}, a function with memo=True,"
    if any(isinstance(part, Variable) for part in parts_of(found)):
        raise PlanError(f"{title} cannot stand inside a lambda: its results are kept by arguments of a row")
    refuse_moments(rows, title, "keeps the results of arguments that come at a time")
    if ir.free_levels(rows):
        raise PlanError(
            f"{title} cannot be called in a loop for what changes from round to round: call it before the loop or after"
        )
    if names := ir.coordinates(rows):
        raise PlanError(
            f"{title} needs collections with one time, but one of its sources has {ir.times_named(names)}; "
            "view.changes() shows them"
        )
    for arg in found.args:
        if what := uncompared(arg.type):
            raise TypeMismatchError(
                f"{title} keeps results by argument, and `{arg.text}` has {what}, which are not compared"
            )
