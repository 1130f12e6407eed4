"""What never changes again, because its sources are closed, and which arrangements nobody looks up because of that.

A node is static if all sources that it is computed from are closed, and no update waits on the way to it. A join looks
up an arrangement for the updates of its other inputs. If these are static there are none, so the arrangement is
*released*: it passes on what is new to it and stores nothing but future updates.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace

from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.arrange.retention import EVERY_UPDATE, NOTHING
from altneu.operators.lowering import arrangement_id
from altneu.plan.physical import Plan, Port


def released_name(arrangement: str) -> str:
    """What the state of an arrangement is called after its release: only its future updates."""
    return arrangement_id(f"released|{arrangement}", ())


def releasable(plan: Plan, retained: Collection[str]) -> Mapping[str, frozenset[str]]:
    """The arrangements that nobody looks up once no update waits in some states: for each of them, these states.

    Shape:  ``retained`` names arrangements that are needed for what they hold, such as those of kept sources.
    """
    if not plan.closed:
        return {}
    readers: dict[int, list[tuple[int, int]]] = {}
    for i, node in enumerate(plan.nodes):
        for place, port in enumerate(node.inputs):
            readers.setdefault(port.node, []).append((i, place))
    contents = {n for ports in plan.views.values() for n in (ports.contents, *ports.errors)}
    result: dict[str, frozenset[str]] = {}
    for name, i in plan.arrangements.items():
        operation = plan.nodes[i].operation
        if not isinstance(operation, ArrangeOp) or operation.retention != EVERY_UPDATE or name in contents:
            continue
        if name in retained or plan.has_moments(plan.nodes[i]) or i not in readers:
            continue
        others = [plan.nodes[reader].operation.looked_up_for(place) for reader, place in readers[i]]
        ports = [
            plan.nodes[reader].inputs[other]
            for (reader, _), places in zip(readers[i], others, strict=True)
            for other in places or ()
        ]
        if None not in others and all(_is_static_outside(plan, port) for port in ports):
            result[name] = frozenset(state for port in ports for state in _states(plan, port))
    return result


def _is_static_outside(plan: Plan, port: Port) -> bool:
    """Whether a port is static and in no loop: in a step that fills views, rounds of a loop have updates of it each."""
    return plan.is_static(port.node) and not plan.loop_around(plan.nodes[port.node].scope)


def _states(plan: Plan, port: Port) -> Iterator[str]:
    """The states from which updates may come to a port later."""
    for i in plan.upstream(port):
        operation = plan.nodes[i].operation
        names = (operation.takes_from, None if operation.keeps is None else operation.keeps[0])
        yield from (name for name in names if name is not None)


def released(plan: Plan, names: Collection[str]) -> Plan:
    """The plan in which some arrangements pass their updates on and store none of them."""
    if not names:
        return plan
    nodes = []
    for node in plan.nodes:
        operation = node.operation
        if isinstance(operation, ArrangeOp) and operation.arrangement in names:
            operation = replace(operation, arrangement=released_name(operation.arrangement), retention=NOTHING)
        nodes.append(replace(node, operation=operation))
    return replace(plan, nodes=tuple(nodes))
