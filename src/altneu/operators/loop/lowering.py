"""Loops as operations: what begins, what a round reads of the round before, and what the bodies feed back."""

from __future__ import annotations

from dataclasses import replace

from altneu.linear import BoundLogic, Negate
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.linear.operation import LinearOp
from altneu.operators.loop.node import EnterAt, Loop, Result, Variable
from altneu.operators.loop.operation import EnterAtOp, FeedbackOp, FeedOp
from altneu.operators.lowering import Lowered, Lowering, OpenLoop, Port, arrangement_id
from altneu.trace.batch import Layout


def lower_variable(to: Lowering, node: Variable) -> Lowered:
    """What its loop has for it."""
    return to.loops[node.level].variables[node.index]


def lower_enter_at(to: Lowering, node: EnterAt) -> Lowered:
    """Into the loop, at a round of each row's own."""
    loop = to.loops[node.level]
    inside = to.entered(to.lower(node.input), loop.scope)
    label = f"enter at round {node.rounds.sql}"
    number = to.add(EnterAtOp(node.rounds, loop.limit), (inside.port,), node.schema, label=label)
    return replace(inside, port=Port(number))


def lower_result(to: Lowering, node: Result) -> Lowered:
    """A variable of the loop, which is lowered once for all of them."""
    return to.results_of(node.loop, lambda name: _lowered(to, node.loop, name))[node.index]


def _lowered(to: Lowering, loop: Loop, name: str) -> tuple[Lowered, ...]:
    notes = (f"computed outside the loop: {', '.join(loop.hoisted)}",) if loop.hoisted else ()
    scope = to.loop_scope(loop, notes)
    initial = [to.entered(to.lower(i), scope) for i in loop.initial]
    feeds = [arrangement_id(f"feedback|{name}|{i}", ()) for i in range(len(initial))]
    variables = tuple(
        first if i in loop.unread else _variable(to, loop, i, first, feeds[i], scope) for i, first in enumerate(initial)
    )
    around = to.loops.get(loop.level)
    to.loops[loop.level] = OpenLoop(scope, variables, name, loop.max_rounds if loop.stops else None)
    results = [to.entered(to.lower(body), scope) for body in loop.bodies]
    for i, (first, result) in enumerate(zip(initial, results, strict=True)):
        if i not in loop.unread:
            _feed(to, loop, i, feeds[i], first, result)
    del to.loops[loop.level]
    if around is not None:
        to.loops[loop.level] = around
    return tuple(to.left(result) for result in results)


def _variable(to: Lowering, loop: Loop, i: int, first: Lowered, feed: str, scope: int) -> Lowered:
    """The initial rows of a variable, and what the rounds fed back."""
    schema, label = loop.variable(i).schema, loop.names[i]
    when = "the round before" if loop.step(i) == 1 else f"{loop.step(i)} rounds before"
    back = to.add(FeedbackOp(feed), (), schema, label=f"{label} of {when}", scope=scope)
    at = to.add(ConcatOp(), (first.port, Port(back)), schema, label=f"variable {label}", scope=scope)
    return Lowered(Port(at), None)


def _feed(to: Lowering, loop: Loop, i: int, feed: str, first: Lowered, result: Lowered) -> None:
    """Feed back the rows of a body less the initial ones, so that the variable has the rows of the body."""
    schema, scope, label = loop.variable(i).schema, to.scope_of(result), loop.names[i]
    removed = to.add(LinearOp(BoundLogic((Negate(),))), (first.port,), schema, label="negate")
    change = to.add(ConcatOp(), (result.port, Port(removed)), schema, label=f"change of {label}")
    layout = Layout(schema, tuple(schema.names), to.lattice_in(scope))
    operation = FeedOp(feed, layout, loop.max_rounds if loop.stops else None, loop.step(i))
    to.add(operation, (Port(change),), schema, exchange=layout.key, label=f"next {label}")
