"""From a plan, as it is run, to its explanation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from altneu.columnar.ranking import order_text
from altneu.errors import PlanError, UnboundedCostError
from altneu.errors.nearest import listed
from altneu.explain.model import (
    CALLED,
    Explained,
    ExplainedScope,
    ExplainedView,
    Facts,
    Measured,
    Operator,
)
from altneu.explain.shown import ShownPlan
from altneu.operators.base import COSTS, EVERYTHING, GROUPS, Bound
from altneu.plan.physical import PhysicalNode, Plan, Port

_BOUNDS = [*CALLED]
_SCOPES = {"event": "two times", "moment": "moments of each time"}


def explained(plan: Plan, view: str | None = None, facts: Facts | None = None) -> Explained:
    """The operators of a view, or of all views in one graph, with the sources that are arranged for late views.

    Raises:
        PlanError: there is no such view.
    """
    if view is not None and view not in plan.views:
        raise PlanError(f"no view {view!r}; the views are: {listed(view, plan.views)}")
    return _Reading(plan, facts or Facts()).explained(view)


class _Reading:
    """A plan as it is read: which nodes are shown, and under which names."""

    def __init__(self, plan: Plan, facts: Facts) -> None:
        self.plan, self.facts = plan, facts
        self.users: dict[int, list[str]] = {}
        self.kept: dict[str, list[str]] = {}  # the views that keep an arrangement, also by their errors
        for name, ports in plan.views.items():
            for i in plan.upstream(Port(plan.arrangements[ports.contents])):
                self.users.setdefault(i, []).append(name)
            for arrangement in plan.arrangements_of(name):
                self.kept.setdefault(arrangement, []).append(name)

    def explained(self, view: str | None) -> Explained:
        """Of one view, or of all."""
        names = [*self.plan.views] if view is None else [view]
        shown = {i for i, users in self.users.items() if not {*users}.isdisjoint(names)}
        if view is None:
            sources = [i for i in range(len(self.plan.nodes)) if self._is_kept_source(i)]
            shown |= {*self.plan.upstream(*map(Port, sources))}
        hidden = {i for at in shown for i in self._inner(at)}
        operators = tuple(self.operator(i, view) for i in sorted(shown - hidden))
        scopes = tuple(ExplainedScope(s.kind, s.parent, s.names) for s in self.plan.scopes)
        return ShownPlan(tuple(map(self.view, names)), operators, scopes, self.facts.run)

    def _is_kept_source(self, i: int) -> bool:
        node = self.plan.nodes[i]
        if self.plan.layout_at(i) is None or len(node.inputs) != 1:
            return False
        below = node.inputs[0].node
        commands = self.plan.nodes[below]  # those of a source with a key wait in between
        waits = commands.operation.keeps is not None and all(p.node in self.plan.source_of for p in commands.inputs)
        return below in self.plan.source_of or (waits and self.plan.layout_at(below) is None)

    def _asked(self, i: int) -> Iterator[str]:
        """What Spark was asked for, of the last DataFrame of a source."""
        text = self.facts.asked.get(self.plan.source_of.get(i, ""))
        if text is not None:
            yield f"Spark was asked for {text}"

    def view(self, name: str) -> ExplainedView:
        """What is said of a view as a whole."""
        plan, ports = self.plan, self.plan.views[name]
        contents = plan.arrangements[ports.contents]
        nodes = [plan.nodes[i] for i, users in self.users.items() if name in users]
        exchanges = sum(1 for node in nodes if node.exchange is not None)
        worst = max((bound_of(plan, node) for node in nodes), key=_BOUNDS.index)
        by_arrival = any(node.operation.is_by_arrival for node in nodes)
        identity, refreshed = plan.nodes[contents].identity, self.facts.refreshed
        refresh = "" if refreshed is None else refreshed(name)
        return ExplainedView(name, identity, len(ports.errors), exchanges, worst, by_arrival, refresh)

    def operator(self, i: int, view: str | None) -> Operator:
        """One operator."""
        plan, node = self.plan, self.plan.nodes[i]
        operation, layout = node.operation, plan.layout_at(i)
        arrangement = None if operation.keeps is None else operation.keeps[0]
        users = self.kept.get(arrangement or "", ())
        others = tuple(name for name in users if name != view) if view is not None or len(users) > 1 else ()
        facts = self.facts
        below = [p.node for p in node.inputs]
        if operation.has_paths:
            below = [*dict.fromkeys(_arranged_below(plan, node))]
        total, last = self._measured(i)
        return Operator(
            id=node.identity,
            label=labelled(plan, node),
            kind=operation.word,
            keys=_keys(plan, node),
            exchange=node.exchange,
            state=operation.retained,
            bound=bound_of(plan, node),
            cost=cost_of(plan, node),
            inputs=tuple(plan.nodes[n].identity for n in below),
            logic=str(operation.applied) if operation.applied else "",
            arrangement=arrangement,
            order=None if layout is None else order_text(layout.order) or None,
            shared_with=() if layout is None else others,
            views=tuple(self.users.get(i, ())),
            notes=(*node.notes, *self._static(i), *self._asked(i)),
            scope=node.scope,
            within=tuple(self._around(node.scope)),
            back=self._feed(node),
            updates=facts.rows(arrangement) if facts.rows and arrangement is not None else None,
            bytes=facts.bytes(arrangement) if facts.bytes and arrangement is not None else None,
            event_times=self._event_times(node),
            total=total,
            last=last,
        )

    def _static(self, i: int) -> tuple[str, ...]:
        """A note for a source or an arrangement that never changes again."""
        plan = self.plan
        shown = i in plan.source_of or plan.layout_at(i) is not None
        return ("static: its sources are closed",) if shown and plan.is_static(i) else ()

    def _feed(self, node: PhysicalNode) -> str | None:
        """The node from whose state a node takes future updates, where that is not its own: a variable's body's end."""
        name = node.operation.takes_from
        if name is None or node.operation.keeps is not None:
            return None
        return self.plan.nodes[self.plan.arrangements[name]].identity

    def _around(self, scope: int) -> Iterator[str]:
        """What a scope and those around it are called."""
        while scope > 0:
            around = self.plan.scopes[scope]
            yield f"the loop over {', '.join(around.names)}" if around.kind == "loop" else _SCOPES[around.kind]
            scope = around.parent

    def _measured(self, i: int) -> tuple[Measured | None, Measured | None]:
        """What an operator did; of one that is several operations rows go in at its beginning and out at its end."""
        measured, nodes = self.facts.measured, self.plan.nodes
        if measured is None:
            return None, None
        total, last = measured(nodes[i].identity)
        inner = self._inner(i)
        if inner:
            total, last = replace(total, rows_in=0), replace(last, rows_in=0)
        for at in inner:
            starts = all(self.plan.layout_at(port.node) is not None for port in nodes[at].inputs)
            more = measured(nodes[at].identity)
            total, last = total.with_part(more[0], starts=starts), last.with_part(more[1], starts=starts)
        return total, last

    def _inner(self, i: int) -> list[int]:
        """The operations that are shown as a part of another one: the paths of a delta join in several shards."""
        node, inner = self.plan.nodes[i], list[int]()
        todo = [port.node for port in node.inputs] if node.operation.has_paths else []
        while todo:
            at = todo.pop()
            if self.plan.layout_at(at) is None and at not in inner:
                inner.append(at)
                todo += [port.node for port in self.plan.nodes[at].inputs]
        return inner

    def _event_times(self, node: PhysicalNode) -> str | None:
        """The event times that a reduce follows a correction through, where it does and they are known."""
        event_times = self.facts.event_times
        if event_times is None or not node.operation.looks_again or not self.plan.own_times(node):
            return None
        keeps = self.plan.nodes[node.inputs[0].node].operation.keeps
        times = None if keeps is None else event_times(keeps[0])
        return None if times is None else str(times)


def labelled(plan: Plan, node: PhysicalNode) -> str:
    """What EXPLAIN shows of an operator."""
    return node.operation.described(node.label, own_times=plan.own_times(node))


def bound_of(plan: Plan, node: PhysicalNode) -> Bound:
    """What bounds the cost of a step of an operator."""
    bound = node.operation.bound
    if bound == GROUPS and not _keys(plan, node):
        bound = EVERYTHING
    revisits = node.operation.looks_again and plan.own_times(node) > 0
    return max(bound, GROUPS, key=_BOUNDS.index) if revisits else bound


def cost_of(plan: Plan, node: PhysicalNode) -> str:
    """What a step of an operator costs: as it says itself, unless groups are read as a whole all the same."""
    bound = bound_of(plan, node)
    return node.operation.cost if bound == node.operation.bound else COSTS[bound]


def _arranged_below(plan: Plan, node: PhysicalNode) -> Iterator[int]:
    """The arrangements that a delta join reads, whatever operations it is made of."""
    for port in node.inputs:
        if plan.layout_at(port.node) is not None:
            yield port.node
        else:
            yield from _arranged_below(plan, plan.nodes[port.node])


def _keys(plan: Plan, node: PhysicalNode) -> tuple[str, ...]:
    """The key of an arrangement, or by which an operator works."""
    return node.operation.works_by(plan.layout_at(node.inputs[0].node) if node.inputs else None)


def refuse_unbounded(plan: Plan, view: str) -> None:
    """Refuse a plan with an operator whose cost per step is bounded only by everything.

    Raises:
        UnboundedCostError: naming the operator and a remedy.
    """
    for i in plan.upstream(Port(plan.arrangements[plan.views[view].contents])):
        node = plan.nodes[i]
        if bound_of(plan, node) == EVERYTHING:
            raise UnboundedCostError(
                f"view {view!r} is maintained strictly, but {labelled(plan, node)!r} re-reads all rows on every "
                "change: it has no group key. Group it first (a top_k per group, then one over their winners), "
                "or maintain it with strict=False."
            )
