"""What a view may compute anew in a step, instead of bringing it up to date by the change.

A view's plan is cut in two. What is made of rows of sources one by one, and what other views read, is brought up to
date by the change, as always: *kept*. The rest is made of arrangements alone, so that it can be computed from what
they hold after the step, as that of a late view is: *recomputed*. Its former contents are subtracted, so that the
difference is the change of the step.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from altneu.errors import HydrationError
from altneu.operators.arrange.operation import ArrangeOp, FromOp, ReadOp
from altneu.operators.loop.operation import EnterAtOp, EnterOp, FeedbackOp, FeedOp, LeaveOp
from altneu.operators.source.operation import SourceOp
from altneu.plan.hydrate import Former, hydration_plan
from altneu.plan.physical import PhysicalNode, Plan, Port

_OF_LOOPS = (EnterOp, EnterAtOp, LeaveOp, FeedOp, FeedbackOp)


class Part(NamedTuple):
    """A plan that computes arrangements anew, those that it is given, and the former contents of those that change.

    Those in ``again`` it makes too, although they are there already.
    """

    plan: Plan
    given: frozenset[str]
    former: dict[str, Former]
    again: frozenset[str]


@dataclass(frozen=True)
class Recomputable:
    """The arrangements of a plan that some views may compute anew, each of which only one of them reads.

    Of those in ``outputs``, the views' contents and errors, the difference from what was there is the change.
    """

    plan: Plan
    views: tuple[str, ...]
    arrangements: frozenset[str]
    outputs: frozenset[str]

    @cached_property
    def kept(self) -> Plan:
        """The plan of everything else."""
        return self.plan.only([name for name in self.plan.arrangements if name not in self.arrangements])

    @cached_property
    def sources(self) -> frozenset[str]:
        """The sources that the views are made of."""
        return frozenset(source for view in self.views for source in self.plan.sources_of(view))

    def part(self, time: int, *, history: bool = False) -> Part:
        """The plan that computes these anew as of a time.

        The former contents are those of the outputs. With ``history`` they are those of every arrangement outside of
        loops, because somebody may read it as of an earlier time; of loops nobody does.

        Raises:
            HydrationError: rows are needed that no arrangement has.
        """
        plan, layouts = self.plan, self.plan.layouts
        former = {name: Former(before(name), layouts[name], time) for name in sorted(self.outputs)}
        for name in sorted(self.arrangements - self.outputs) if history else ():
            if not plan.loop_around(plan.nodes[plan.arrangements[name]].scope):
                former[name] = Former(before(name), layouts[name], time, fresh=f"fresh {name}")
        existing = plan.arrangements.keys() - self.arrangements
        part, given, again = hydration_plan(plan, ", ".join(self.views), existing, plan.sources.keys(), former=former)
        return Part(replace(part, views={name: plan.views[name] for name in self.views}), given, former, again)

    def __or__(self, other: Recomputable) -> Recomputable:
        """Both, of the same plan."""
        arrangements, outputs = self.arrangements | other.arrangements, self.outputs | other.outputs
        return Recomputable(self.plan, (*self.views, *other.views), arrangements, outputs)


def before(arrangement: str) -> str:
    """What the contents of an arrangement as they were before the step are called while it runs."""
    return f"before {arrangement}"


def recomputable(plan: Plan, view: str, sources: Collection[str]) -> Recomputable | str:
    """What a view may compute anew, or why that is nothing; ``sources`` are the states of kept sources.

    Cost:   O(size of the plan).
    Law:    the view has the contents and changes that it has by the change (tests/oracle/test_refresh.py).
    """
    ports = plan.views[view]
    if ports.changes_only:
        return "it has no contents from which the difference could be made"
    others = {name for other in plan.views if other != view for name in plan.arrangements_of(other)}
    private = [name for name in plan.arrangements_of(view) if name not in others and name not in sources]
    by_row = _by_row(plan)
    leaves = [name for name in private if plan.arrangements[name] in by_row]
    stays = {*plan.upstream(*(Port(plan.arrangements[name]) for name in leaves), *plan.showing)}
    stays.update(*(plan.upstream(Port(i)) for name, i in plan.arrangements.items() if name not in private))
    at = {name: plan.arrangements[name] for name in private}
    # what is arranged of nodes that run in any case, as their errors are, comes of the change
    below = {name: {port.node for port in plan.nodes[i].inputs} for name, i in at.items()}
    names = frozenset(name for name, i in at.items() if i not in stays and not below[name] <= stays)
    if ports.contents in others:
        return "another view reads its contents"
    if ports.contents not in names:
        return "its contents are made of rows of sources one by one"
    if plan.nodes[plan.arrangements[ports.contents]].operation.transforms:  # type: ignore[attr-defined]
        return "its contents depend on when rows came"
    found = Recomputable(plan, (view,), names, names & {ports.contents, *ports.errors})
    try:
        part = found.part(0)
    except HydrationError:
        if not plan.released.isdisjoint(plan.arrangements_of(view)):
            return "rows that it reads are not stored, because the sources that they are joined with are closed"
        return "it reads rows of a source that no arrangement has; keep=True of the source keeps them"
    if part.again:  # the step has brought them up to date already: to compute them too would count their rows twice
        return "it is made of a loop that something else is made of too"
    for node in part.plan.nodes:
        if (reason := _refused(plan, node, part.given)) is not None:
            return reason
    return found


def _by_row(plan: Plan) -> frozenset[int]:
    """The arrangements outside of loops that are made of rows of sources, or of arrivals, with no state between."""
    flowing, arranged = set[int](), set[int]()
    for i, node in enumerate(plan.nodes):
        operation = node.operation
        if plan.loop_around(node.scope):
            continue
        comes = any(port.node in flowing for port in node.inputs)
        if operation.keeps is not None and (comes or not isinstance(operation, ArrangeOp)):
            arranged.add(i)
        begins = isinstance(operation, SourceOp) or not operation.is_timeless
        if operation.keeps is None and (comes or begins) and not isinstance(operation, LeaveOp):
            flowing.add(i)
    return frozenset(arranged)


def _refused(plan: Plan, node: PhysicalNode, given: Collection[str]) -> str | None:
    """Why a node cannot be computed anew, if it cannot."""
    operation = node.operation
    if plan.own_times(node) or plan.has_moments(node):
        return "it has times of its own"
    if isinstance(operation, ReadOp | FromOp):
        return None
    if isinstance(operation, ArrangeOp):
        if operation.arrangement in given:
            return None
        if operation.is_released:
            return f"{node.label!r} stores no rows, because the sources that it is joined with are closed"
        return f"{node.label!r} depends on when rows came" if operation.retention.needs_history else None
    if isinstance(operation, _OF_LOOPS):
        return None if plan.loop_around(node.scope) or isinstance(operation, LeaveOp) else f"{node.label!r} feeds back"
    if not operation.is_timeless or operation.keeps is not None or operation.takes_from is not None:
        return f"{node.label!r} depends on when rows came"
    return None
