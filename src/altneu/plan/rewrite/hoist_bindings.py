"""What a loop defines and need not compute round by round is computed outside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from altneu import types as T
from altneu.expressions import Literal
from altneu.plan.ir import (
    Concat,
    Constant,
    Differentiate,
    EnterAt,
    Inspect,
    Loop,
    Node,
    Result,
    ToNeu,
    Variable,
    free_levels,
    ordered,
)
from altneu.plan.rewrite.transform import transform


def hoist_bindings(node: Node) -> Node:
    """Take variables out of loops whose values the rounds do not change, and those that no round reads.

    A variable whose body reads no variable of its loop is that body from round 1 on. Those that read it through the
    loop read in round 0 what it begins as, and still do: where it begins empty its body enters at round 1, and any
    other stays in the loop. A variable that no body reads is a function of what the others come to, and is computed of
    that. So every round makes of the variables that are left what it made of them before.

    At a limit of rounds where a loop stops, what is read through the loop is a round older than what comes out; a
    variable that reads so stays.
    """
    done: dict[str, tuple[Node, ...]] = {}

    def change(new: Node, _: Node) -> Node:
        if not isinstance(new, Result):
            return new
        loop = new.loop
        if loop.fingerprint not in done:
            done[loop.fingerprint] = _results(loop)
        return done[loop.fingerprint][new.index]

    return transform(node, change)


@dataclass(frozen=True)
class _Parts:
    """The variables of a loop by number: what is constant, what is computed after the loop, and what stays in it.

    Of the last some may be ``unread`` by any body: they stay because a body computes them on its way.
    """

    constant: tuple[int, ...]
    after: tuple[int, ...]
    kept: tuple[int, ...]
    unread: tuple[int, ...]


def _results(loop: Loop) -> tuple[Node, ...]:
    """What each variable of a loop comes to."""
    parts = _parts_of(loop)
    results = {i: _opened(loop, i, loop.bodies[i]) for i in parts.constant}
    if parts.kept:
        smaller = _without(loop, parts)
        results |= {i: Result(smaller, place) for place, i in enumerate(parts.kept)}
    rest = {i: _opened(loop, i, _of_results(loop, i, results)) for i in parts.after}
    return tuple((results | rest)[i] for i in range(len(loop.names)))


def _parts_of(loop: Loop) -> _Parts:
    numbers = range(len(loop.names))
    read = {
        n.index
        for body in loop.bodies
        for n in _inside(loop, body)
        if isinstance(n, Variable) and n.level == loop.level
    }
    constant = [
        i for i in numbers if loop.level not in free_levels(loop.bodies[i]) and (i not in read or _enters_late(loop, i))
    ]
    computed = {n.fingerprint for n in _inside(loop, *(loop.bodies[i] for i in read))}
    unread = [i for i in numbers if i not in read and i not in constant]
    after = [i for i in unread if loop.bodies[i].fingerprint not in computed and _is_after(loop, i)]
    kept = [i for i in numbers if i not in constant and i not in after]
    return _Parts(tuple(constant), tuple(after), tuple(kept), tuple(i for i in unread if i in kept))


def _inside(loop: Loop, *roots: Node) -> Iterator[Node]:
    """The nodes of bodies that depend on the rounds of a loop."""
    return ordered(*roots, key=lambda n: n.fingerprint, without=lambda n: loop.level not in free_levels(n))


def _enters_late(loop: Loop, i: int) -> bool:
    """Whether what a variable is in round 0 can be said where its body is read from outside."""
    first = loop.initial[i]
    return first.fingerprint == loop.bodies[i].fingerprint or (isinstance(first, Constant) and not first.rows)


def _is_after(loop: Loop, i: int) -> bool:
    """Whether a body is a function of the results of the other variables."""
    body = loop.bodies[i]
    if any(isinstance(n, Differentiate | ToNeu) and n.level == loop.level for n in _inside(loop, body)):
        return False
    if any(isinstance(n, Inspect) for n in _inside(loop, body)):  # it shows the rounds
        return False
    others = {j: Constant((), loop.variable(j).schema) for j in range(len(loop.names)) if j != i}
    return not loop.stops or loop.level not in free_levels(_of_results(loop, i, others))


def _without(loop: Loop, parts: _Parts) -> Loop:
    """The loop over the variables that stay in it."""
    place = {i: at for at, i in enumerate(parts.kept)}

    def change(new: Node, old: Node) -> Node:
        if not isinstance(old, Variable) or old.level != loop.level:
            return new
        if old.index in place:
            return Variable(loop.level, place[old.index], old.schema)
        body = _opened(loop, old.index, loop.bodies[old.index])
        same = loop.initial[old.index].fingerprint == loop.bodies[old.index].fingerprint
        return body if same else EnterAt(body, Literal(loop.step(old.index), T.LONG), loop.level)

    notes = [f"{loop.names[i]} (reads no variable)" for i in parts.constant]
    notes += [f"{loop.names[i]} (no variable reads it)" for i in parts.after]
    if not notes and loop.unread == parts.unread:
        return loop
    return replace(
        loop,
        names=tuple(loop.names[i] for i in parts.kept),
        initial=tuple(loop.initial[i] for i in parts.kept),
        bodies=tuple(_rebuilt(loop.bodies[i], loop.level, change, {}) for i in parts.kept),
        unread=tuple(place[i] for i in parts.unread),
        steps=tuple(loop.steps[i] for i in parts.kept) if loop.steps else (),
        hoisted=(*loop.hoisted, *notes),
    )


def _of_results(loop: Loop, i: int, results: Mapping[int, Node]) -> Node:
    """A body computed of the ``results`` of variables in the place of what they have in a round."""
    replaced = {loop.bodies[j].fingerprint: result for j, result in results.items()}

    def change(new: Node, old: Node) -> Node:
        match old:
            case Variable(level, index) if level == loop.level and not loop.stops:
                return results[index]
            case EnterAt(level=level) if level == loop.level and not loop.stops:
                assert isinstance(new, EnterAt)
                return new.input
            case _:
                return new

    return _rebuilt(loop.bodies[i], loop.level, change, replaced)


def _rebuilt(root: Node, level: int, change: Callable[[Node, Node], Node], replaced: Mapping[str, Node]) -> Node:
    """A plan with every node that reads a variable of ``level`` changed, inputs first; ``known`` ones are replaced."""
    done, waiting = dict(replaced), [root]
    while waiting:
        node = waiting[-1]
        if node.fingerprint in done:
            waiting.pop()
        elif level not in free_levels(node):
            done[waiting.pop().fingerprint] = node
        elif below := [i for i in node.inputs if i.fingerprint not in done]:
            waiting += below
        else:
            rebuilt = node.over([done[i.fingerprint] for i in node.inputs])
            done[waiting.pop().fingerprint] = change(rebuilt, node)
    return done[root.fingerprint]


def _opened(loop: Loop, i: int, node: Node) -> Node:
    """A collection under the schema of a variable, which allows nulls everywhere."""
    schema = loop.variable(i).schema
    return node if node.schema.equals(schema) else Concat((node, Constant((), schema)))
