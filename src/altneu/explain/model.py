"""What a plan is made of, for people: operators with their keys, exchanges, state and cost, of one view or of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from altneu.errors import PlanError, UnboundedCostError
from altneu.explain.words import Kind, kind_of, labelled, logic_of
from altneu.operators.reduce import AccumulableSpec
from altneu.physical import (
    ArrangeOp,
    AsofOp,
    FeedbackOp,
    FeedOp,
    IntegrateOp,
    JoinOp,
    LatestOp,
    LockedOp,
    NewsOp,
    PhysicalNode,
    Plan,
    Port,
    ReduceOp,
    SourceOp,
)

Bound = Literal["the change", "the groups touched", "everything"]
Called = Literal["incremental", "bounded", "full"]
CHANGE: Bound = "the change"
GROUPS: Bound = "the groups touched"
EVERYTHING: Bound = "everything"
CALLED: dict[Bound, Called] = {CHANGE: "incremental", GROUPS: "bounded", EVERYTHING: "full"}
_BOUNDS = [*CALLED]
_SCOPES = {"event": "two times", "moment": "moments of each time"}


@dataclass(frozen=True)
class EventTimes:
    """How many event times the groups of an arrangement keep apart, each of which a correction may have to follow.

    Shape:  ``lines`` pairs of a group and an event time, of ``groups`` groups; ``most`` of them in one group.
    """

    groups: int
    lines: int
    most: int

    def __str__(self) -> str:
        if not self.groups:
            return "none so far"
        group = "1 group" if self.groups == 1 else f"{self.groups:,} groups"
        return f"{self.lines / self.groups:,.1f} on average in {group}, at most {self.most:,}"


@dataclass(frozen=True)
class Measured:
    """What an operator did, in one advance or since the session was opened.

    Units:  rows are updates, errors error rows that came of it; ``seconds`` of work, added up over shards; ``steps``
            those in which it had anything to do, ``rounds`` the same for the rounds of a loop (outside loops equal).
    """

    rows_in: int = 0
    rows_out: int = 0
    errors: int = 0
    seconds: float = 0.0
    steps: int = 0
    rounds: int = 0

    def __add__(self, other: Measured) -> Measured:
        return Measured(
            self.rows_in + other.rows_in,
            self.rows_out + other.rows_out,
            self.errors + other.errors,
            self.seconds + other.seconds,
            self.steps + other.steps,
            self.rounds + other.rounds,
        )

    def with_part(self, part: Measured, *, starts: bool) -> Measured:
        """With what an operation did that is shown as a part of it; rows come in where it ``starts``."""
        came = self.rows_in + (part.rows_in if starts else 0)
        steps, rounds = max(self.steps, part.steps), max(self.rounds, part.rounds)
        return replace(self, rows_in=came, seconds=self.seconds + part.seconds, steps=steps, rounds=rounds)


@dataclass(frozen=True)
class Facts:
    """What is known of a plan while it runs: by arrangement what it keeps, by operator what was measured.

    ``measured`` gives the sum of all steps, and the last advance alone; ``run`` says which steps those are.
    """

    rows: Callable[[str], int] | None = None
    bytes: Callable[[str], int] | None = None
    event_times: Callable[[str], EventTimes | None] | None = None
    measured: Callable[[str], tuple[Measured, Measured]] | None = None
    run: str = ""


@dataclass(frozen=True)
class Operator:
    """One operator of a plan.

    Shape:  ``id`` is the same in every plan of a session; ``inputs`` are ids, of a join the left side's first.
            ``exchange`` is the key by which rows are spread on their way to it (empty: to one shard, None: they stay
            where they are). ``bound`` says what bounds the cost of a step, ``called`` is the word for it. Of an
            arrangement ``shared_with`` are the other views that read it; ``views`` are all that need the operator.
            ``back`` is the end of a loop's body from which a variable gets its next round. ``scope`` is a number in
            ``scopes``, ``within`` what that is called, and those around it, the innermost first.
    Units:  ``updates`` and ``bytes`` are kept now, over all shards.
    """

    id: str
    label: str
    kind: Kind
    keys: tuple[str, ...]
    exchange: tuple[str, ...] | None
    state: str
    bound: Bound
    inputs: tuple[str, ...]
    logic: str = ""
    arrangement: str | None = None
    order: str | None = None
    shared_with: tuple[str, ...] = ()
    views: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    scope: int = 0
    within: tuple[str, ...] = ()
    back: str | None = None
    updates: int | None = None
    bytes: int | None = None
    event_times: str | None = None
    total: Measured | None = None
    last: Measured | None = None

    @property
    def called(self) -> Called:
        """The word for its bound: incremental, bounded or full."""
        return CALLED[self.bound]

    @property
    def tells_cost(self) -> bool:
        """Whether its cost is worth a word: what only hands rows on has none of its own."""
        return bool(self.notes) or self.kind not in ("source", "concat", "combine")

    @property
    def tells_exchange(self) -> bool:
        """Whether rows may have to be spread on the way to it."""
        return self.exchange is not None or self.kind in ("arrangement", "consolidate", "inspect")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**asdict(self), "called": self.called}


@dataclass(frozen=True)
class ExplainedView:
    """A view: the operator that keeps its contents, and what is said of its plan as a whole.

    Shape:  ``errors`` counts the operators that keep errors for it; ``by_arrival`` says that it depends on when rows
            come.
    """

    name: str
    contents: str
    errors: int
    exchanges: int
    bound: Bound
    by_arrival: bool

    @property
    def called(self) -> Called:
        """The word for its bound."""
        return CALLED[self.bound]

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**asdict(self), "called": self.called}


@dataclass(frozen=True)
class ExplainedScope:
    """A scope of a plan, where times are finer: a loop over variables, what has event times, or moments of times."""

    kind: Literal["root", "loop", "event", "moment"]
    parent: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """The operators of one view or of all views of a session, inputs before what reads them.

    ``run`` says in which steps it was measured.

    >>> import altneu as an
    >>> orders = an.source("orders", "item string, price long")
    >>> with an.Session() as session:
    ...     _ = session.maintain("total", orders.group_by("item").agg(total="sum(price)"))
    ...     plan = session.explained("total")
    >>> [(operator.kind, operator.called) for operator in plan.operators][-2:]
    [('reduce', 'incremental'), ('arrangement', 'incremental')]
    """

    views: tuple[ExplainedView, ...]
    operators: tuple[Operator, ...]
    scopes: tuple[ExplainedScope, ...] = ()
    run: str = ""
    notes: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Operator:
        return self._by_id[name]

    @cached_property
    def _by_id(self) -> Mapping[str, Operator]:
        return {o.id: o for o in self.operators}

    def readers(self) -> dict[str, list[str]]:
        """Ids of the operators that read each one."""
        found: dict[str, list[str]] = {o.id: [] for o in self.operators}
        for operator in self.operators:
            for name in operator.inputs:
                found[name].append(operator.id)
        return found

    def to_dict(self, *, analyze: bool = True) -> dict[str, Any]:
        """All of it as plain data, fit for JSON; without ``analyze`` nothing that was measured."""
        operators = [o.to_dict() for o in self.operators]
        told: dict[str, Any] = {"views": [v.to_dict() for v in self.views], "operators": operators}
        told |= {"scopes": [asdict(s) for s in self.scopes], "notes": list(self.notes)}
        if analyze:
            return {**told, "run": self.run}
        for operator in operators:
            for name in ("total", "last"):
                del operator[name]
        return told


def explained(plan: Plan, view: str | None = None, facts: Facts | None = None) -> Explained:
    """The operators of a view, or of all views in one graph, with the sources that are kept.

    Raises:
        PlanError: there is no such view.
    """
    if view is not None and view not in plan.views:
        raise PlanError(f"no view {view!r}; the views are: {', '.join(plan.views) or '(none)'}")
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
            shown |= {i for i in range(len(self.plan.nodes)) if self._is_kept_source(i)}
        hidden = {i for at in shown for i in self._inner(at)}
        operators = tuple(self.operator(i, view) for i in sorted(shown - hidden))
        scopes = tuple(ExplainedScope(s.kind, s.parent, s.names) for s in self.plan.scopes)
        return Explained(tuple(map(self.view, names)), operators, scopes, self.facts.run)

    def _is_kept_source(self, i: int) -> bool:
        node = self.plan.nodes[i]
        below = [self.plan.nodes[port.node].operation for port in node.inputs]
        return isinstance(node.operation, ArrangeOp) and len(below) == 1 and isinstance(below[0], SourceOp)

    def view(self, name: str) -> ExplainedView:
        """What is said of a view as a whole."""
        plan, ports = self.plan, self.plan.views[name]
        contents = plan.arrangements[ports.contents]
        nodes = [plan.nodes[i] for i, users in self.users.items() if name in users]
        exchanges = sum(1 for node in nodes if node.exchange is not None)
        worst = max((bound_of(plan, node) for node in nodes), key=_BOUNDS.index)
        by_arrival = any(isinstance(node.operation, IntegrateOp) for node in nodes)
        return ExplainedView(name, plan.nodes[contents].identity, len(ports.errors), exchanges, worst, by_arrival)

    def operator(self, i: int, view: str | None) -> Operator:
        """One operator."""
        plan, node = self.plan, self.plan.nodes[i]
        operation = node.operation
        arrangement = operation.arrangement if isinstance(operation, ArrangeOp | FeedOp) else None
        kept = self.kept.get(arrangement or "", ())
        others = tuple(name for name in kept if name != view) if view is not None or len(kept) > 1 else ()
        facts, known = self.facts, arrangement is not None
        inputs = tuple(dict.fromkeys(_arranged_below(plan, node))) if node.notes else [p.node for p in node.inputs]
        total, last = self._measured(i)
        return Operator(
            id=node.identity,
            label=labelled(plan, node),
            kind=kind_of(node),
            keys=_keys(plan, node),
            exchange=node.exchange,
            state=_state(operation) if isinstance(operation, ArrangeOp) else "",
            bound=bound_of(plan, node),
            inputs=tuple(plan.nodes[n].identity for n in inputs),
            logic=logic_of(node),
            arrangement=arrangement,
            order=operation.layout.order if isinstance(operation, ArrangeOp) else None,
            shared_with=others if isinstance(operation, ArrangeOp) else (),
            views=tuple(self.users.get(i, ())),
            notes=node.notes,
            scope=node.scope,
            within=tuple(self._around(node.scope)),
            back=plan.nodes[plan.arrangements[operation.arrangement]].identity
            if isinstance(operation, FeedbackOp)
            else None,
            updates=facts.rows(arrangement) if facts.rows and arrangement is not None else None,
            bytes=facts.bytes(arrangement) if facts.bytes and known and arrangement is not None else None,
            event_times=self._event_times(node),
            total=total,
            last=last,
        )

    def _around(self, scope: int) -> Iterator[str]:
        """What a scope and those around it are called."""
        while scope > 0:
            found = self.plan.scopes[scope]
            yield f"the loop over {', '.join(found.names)}" if found.kind == "loop" else _SCOPES[found.kind]
            scope = found.parent

    def _measured(self, i: int) -> tuple[Measured | None, Measured | None]:
        """What an operator did; of one that is several operations rows go in at its beginning and out at its end."""
        told, nodes = self.facts.measured, self.plan.nodes
        if told is None:
            return None, None
        total, last = told(nodes[i].identity)
        inner = self._inner(i)
        if inner:
            total, last = replace(total, rows_in=0), replace(last, rows_in=0)
        for at in inner:
            starts = isinstance(nodes[at].operation, NewsOp)
            more = told(nodes[at].identity)
            total, last = total.with_part(more[0], starts=starts), last.with_part(more[1], starts=starts)
        return total, last

    def _inner(self, i: int) -> list[int]:
        """The operations that are shown as a part of another one: the paths of a delta join in several shards."""
        node, found = self.plan.nodes[i], list[int]()
        todo = [port.node for port in node.inputs] if node.notes else []
        while todo:
            at = todo.pop()
            if not isinstance(self.plan.nodes[at].operation, ArrangeOp) and at not in found:
                found.append(at)
                todo += [port.node for port in self.plan.nodes[at].inputs]
        return found

    def _event_times(self, node: PhysicalNode) -> str | None:
        """The event times that a reduce follows a correction through, where it does and they are known."""
        told = self.facts.event_times
        if told is None or not isinstance(node.operation, ReduceOp) or not self.plan.has_event_times(node):
            return None
        arranged = self.plan.nodes[node.inputs[0].node].operation
        found = told(arranged.arrangement) if isinstance(arranged, ArrangeOp) else None
        return None if found is None else str(found)


def bound_of(plan: Plan, node: PhysicalNode) -> Bound:
    """What bounds the cost of a step of an operator."""
    if not isinstance(node.operation, ReduceOp):
        return CHANGE
    bound = CHANGE
    if not isinstance(node.operation.spec, AccumulableSpec):
        bound = GROUPS if _keys(plan, node) else EVERYTHING
    return max(bound, GROUPS, key=_BOUNDS.index) if plan.has_event_times(node) else bound


def _arranged_below(plan: Plan, node: PhysicalNode) -> Iterator[int]:
    """The arrangements that a delta join reads, whatever operations it is made of."""
    for port in node.inputs:
        below = plan.nodes[port.node]
        if isinstance(below.operation, ArrangeOp):
            yield port.node
        else:
            yield from _arranged_below(plan, below)


def _state(operation: ArrangeOp) -> str:
    """What an arrangement keeps."""
    layout, locked = operation.layout, operation.locked
    if locked is not None:
        met = ", ".join(locked.met) or "nothing but its key"
        return f"arrangement ({', '.join(layout.key)}), each row that is there with what it met ({met})"
    names = layout.schema.names if operation.latest is None else layout.schema.names[:-1]
    more = "" if operation.latest is None else ", the latest row of each key"
    return f"arrangement ({', '.join(names)}){more}" + (f", in order of {layout.order}" if layout.order else "")


def _keys(plan: Plan, node: PhysicalNode) -> tuple[str, ...]:
    """The key of an arrangement, or of the one that an operator reads first."""
    match node.operation:
        case ArrangeOp(_, layout):
            return layout.key
        case LatestOp() | ReduceOp() | JoinOp() | AsofOp() | LockedOp():
            arranged = plan.nodes[node.inputs[0].node].operation
            return arranged.layout.key if isinstance(arranged, ArrangeOp) else ()
        case _:
            return ()


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
