"""What a plan is made of, for people: operators with their keys, exchanges, state and cost, of one view or of all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from altneu.operators.base import CHANGE, EVERYTHING, GROUPS, Bound, Kind

Called = Literal["incremental", "bounded", "full"]
CALLED: dict[Bound, Called] = {CHANGE: "incremental", GROUPS: "bounded", EVERYTHING: "full"}


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
        """With the work of an operation that is shown as a part of it; it receives rows where it ``starts``."""
        rows_in = self.rows_in + (part.rows_in if starts else 0)
        steps, rounds = max(self.steps, part.steps), max(self.rounds, part.rounds)
        return replace(self, rows_in=rows_in, seconds=self.seconds + part.seconds, steps=steps, rounds=rounds)


@dataclass(frozen=True)
class Facts:
    """What is known of a plan while it runs: by arrangement what it keeps, by operator what was measured.

    ``measured`` gives the sum of all steps, and the last advance alone; ``run`` says which steps those are. ``asked``
    has, by source, what Spark was last asked for of a DataFrame; ``refreshed`` how a view is brought up to date, where
    that is not by the change alone.
    """

    rows: Callable[[str], int] | None = None
    bytes: Callable[[str], int] | None = None
    event_times: Callable[[str], EventTimes | None] | None = None
    measured: Callable[[str], tuple[Measured, Measured]] | None = None
    run: str = ""
    asked: Mapping[str, str] = field(default_factory=dict)
    refreshed: Callable[[str], str] | None = None


@dataclass(frozen=True)
class Operator:
    """One operator of a plan.

    Shape:  ``id`` is the same in every plan of a session; ``inputs`` are ids, of a join the left side's first.
            ``exchange`` is the key by which rows are spread on their way to it (empty: to one shard, None: they stay
            where they are). ``bound`` says what bounds the cost of a step, ``called`` is the word for it, ``cost`` a
            formula of it. Of an arrangement ``shared_with`` are the other views that read it; ``views`` are all that
            need the operator. ``back`` is the end of a loop's body from which a variable gets its next round. ``scope``
            is a number in ``scopes``, ``within`` what that is called, and those around it, the innermost first.
    Units:  ``updates`` and ``bytes`` of the state now, over all shards.
    """

    id: str
    label: str
    kind: Kind
    keys: tuple[str, ...]
    exchange: tuple[str, ...] | None
    state: str
    bound: Bound
    cost: str
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
        return self.kind != "source" and (bool(self.notes) or self.kind not in ("concat", "combine"))

    @property
    def tells_exchange(self) -> bool:
        """Whether rows may have to be spread on the way to it."""
        return self.exchange is not None or self.kind in ("arrangement", "commands", "consolidate", "inspect")

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain data."""
        return {**asdict(self), "called": self.called}


@dataclass(frozen=True)
class ExplainedView:
    """A view: the operator that has its contents, and facts about its plan as a whole.

    Shape:  ``errors`` counts the operators with an arrangement of errors for it; with ``by_arrival`` the contents
            depend on when rows arrive; ``refresh`` says how steps bring it up to date, if not by the change alone.
    """

    name: str
    contents: str
    errors: int
    exchanges: int
    bound: Bound
    by_arrival: bool
    refresh: str = ""

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
        by_id: dict[str, list[str]] = {o.id: [] for o in self.operators}
        for operator in self.operators:
            for name in operator.inputs:
                by_id[name].append(operator.id)
        return by_id

    def to_dict(self, *, analyze: bool = True) -> dict[str, Any]:
        """All of it as plain data, fit for JSON; without ``analyze`` nothing that was measured."""
        operators = [o.to_dict() for o in self.operators]
        encoded: dict[str, Any] = {"views": [v.to_dict() for v in self.views], "operators": operators}
        encoded |= {"scopes": [asdict(s) for s in self.scopes], "notes": list(self.notes)}
        if analyze:
            return {**encoded, "run": self.run}
        for operator in operators:
            for name in ("total", "last"):
                del operator[name]
        return encoded
