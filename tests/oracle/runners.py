"""Where plans are run, and how what they show is compared with the oracle."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import altneu as an
from altneu import Collection, Session, View
from altneu.columnar.hashing import hash_bits
from altneu.order import Antichain
from altneu.plan.rewrite import optimise
from tests.oracle.histories import History, Update, accumulated
from tests.oracle.recompute import Errors, Multiset, plain, recompute, without_zeros

Sources = Mapping[str, Collection]


@dataclass
class Observation:
    """What a view showed after one step; ``past`` what it still showed of earlier times."""

    lower: int
    upper: int
    changes: list[Update]
    contents: Multiset
    errors: Errors
    raises: bool
    past: dict[int, Multiset] = field(default_factory=dict)


@dataclass
class Trace:
    """What a view showed from the beginning to the end."""

    start: Multiset
    steps: list[Observation] = field(default_factory=list)


Traces = dict[str, Trace]


@dataclass
class Runner:
    """One way to run sessions.

    ``together``: all plans in one session, because a step is dear; else each by itself. ``ahead``: everything is
    inserted before the first step, and what is later than that has to wait.
    """

    name: str
    open_session: Callable[[Path | None], Session]
    folder: Callable[[], Path | None] = lambda: None
    reopened: bool = False
    together: bool = False
    ahead: bool = False
    joins: Any = "auto"
    convert: Callable[[pa.Table], Any] = lambda table: table
    before_step: Callable[[Session, int], None] = lambda *_: None

    def run(self, plans: Mapping[str, Collection], sources: Sources, history: History, cuts: Sequence[int]) -> Traces:
        """Run every plan over a history, cut into steps at ``cuts``."""
        parts = [dict(plans)] if self.together else [{name: plan} for name, plan in plans.items()]
        traces: Traces = {}
        for part in parts:
            traces |= self._run(part, sources, history, cuts)
        return traces

    def give(self, session: Session, name: str, updates: Sequence[Update], source: Collection) -> None:
        """Insert updates into a source."""
        session.insert(name, self.convert(table_of(updates, source)), time="time", diff="diff")

    def _run(self, plans: Mapping[str, Collection], sources: Sources, history: History, cuts: Sequence[int]) -> Traces:
        folder = self.folder()
        session = self.open_session(folder)
        views = {name: session.maintain(name, plan, joins=self.joins) for name, plan in plans.items()}
        read = [name for name in sources if name in session._engine.declared]
        traces = {name: Trace(contents_of(view)) for name, view in views.items()}
        for step, (lower, upper) in enumerate(pairwise([0, *cuts])):
            self.before_step(session, step)
            for name in read:
                first, last = (0 if step == 0 else cuts[-1], cuts[-1]) if self.ahead else (lower, upper)
                updates = [u for u in history[name] if first <= u[1] < last]
                self.give(session, name, updates, sources[name])
            session.advance(to=upper)
            for name, view in views.items():
                traces[name].steps.append(observe(view, lower, upper))
            if self.reopened:
                session.close()
                session = self.open_session(folder)
                views = {name: session.maintain(name, plan, joins=self.joins) for name, plan in plans.items()}
                for name, view in views.items():
                    assert observe(view, lower, upper) == traces[name].steps[-1]
        session.close()
        return traces


def table_of(updates: Sequence[Update], source: Collection) -> pa.Table:
    """Updates as an Arrow table with a time and a diff column."""
    columns = [*zip(*((*row, time, diff) for row, time, diff in updates), strict=True)] or [()] * (
        len(source.columns) + 2
    )
    schema = pa.schema([*source.schema, pa.field("time", pa.int64()), pa.field("diff", pa.int64())])
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(map(plain, row.values())) for row in table.to_pylist()]


def contents_of(view: View, at: int | None = None) -> Multiset:
    return Counter(rows_of(view.to_arrow(at, errors="ignore")))


def errors_of(view: View, at: int | None = None) -> Errors:
    return {(error["code"], error["row"]) for error in view.errors(at).to_pylist()}


def observe(view: View, lower: int, upper: int) -> Observation:
    changes = [(row[:-2], row[-2], row[-1]) for row in rows_of(view.changes())]
    try:
        view.to_arrow()
        raises = False
    except an.errors.ViewHasErrorsError:
        raises = True
    past = {time: contents_of(view, time) for time in range(view.since, upper - 1)}
    return Observation(lower, upper, sorted(changes, key=repr), contents_of(view), errors_of(view), raises, past)


@dataclass
class Judge:
    """What plans over one history ought to show, at every time."""

    plans: Mapping[str, Collection]
    history: History
    known: dict[tuple[str, int], tuple[Multiset, Errors]] = field(default_factory=dict)

    def expected(self, name: str, time: int) -> tuple[Multiset, Errors]:
        if (name, time) not in self.known:
            plan = optimise(self.plans[name].node)  # which may drop the error of a column that nothing reads
            self.known[name, time] = recompute(plan, self.held(time), time, self.held)
        return self.known[name, time]

    def held(self, time: int) -> dict[str, Multiset]:
        """What the sources hold at a time."""
        return {source: accumulated(updates, time) for source, updates in self.history.items()}

    def run(self, runner: Runner, sources: Sources, cuts: Sequence[int], names: Iterable[str] | None = None) -> None:
        """Run the plans, or those named, over the history cut into steps, and check what each shows."""
        plans = {name: self.plans[name] for name in (self.plans if names is None else names)}
        for name, trace in runner.run(plans, sources, self.history, cuts).items():
            self.check(name, trace)

    def run_with_collisions(self, sources: Sources, cuts: Sequence[int]) -> None:
        """The same with hashes of one bit and of three."""
        for bits in (1, 3):
            with hash_bits(bits):
                self.run(Runner("memory", lambda _: Session(), together=True), sources, cuts)

    def check_rewritten(self, name: str, times: Iterable[int]) -> None:
        """The rewritten plan means the same, where no count is below zero: errors may be lost that way."""
        even = {source: [u for u in updates if u[0][0] % 2 == 0] for source, updates in self.history.items()}
        judge, plan = Judge(self.plans, even), self.plans[name].node
        for time in times:
            actual, wanted = (recompute(p, judge.held(time), time, judge.held)[0] for p in (optimise(plan), plan))
            assert unlike(actual, wanted) == {}

    def check(self, name: str, trace: Trace) -> None:
        """After every step the view shows what it ought to, and its changes lead there through every time between."""
        held = Counter(trace.start)
        names = self.plans[name].columns
        for seen in trace.steps:
            check_consolidated(seen)
            for time in range(seen.lower, seen.upper):
                for row, t, diff in seen.changes:
                    if t == time:
                        held[row] += diff
                wanted, errors = self.expected(name, time)
                wrong = unlike(held, wanted)
                assert not wrong, f"{name}: the changes up to {time} do not add up (found, wanted): {wrong}"
            wrong = unlike(seen.contents, Counter({row: n for row, n in wanted.items() if n > 0}))
            assert not wrong, f"{name}: the contents at {seen.upper - 1} are wrong (found, wanted): {wrong}"
            negative = {("NEGATIVE_MULTIPLICITY", row_text(names, row)) for row, n in wanted.items() if n < 0}
            wanted_errors = errors | negative
            assert seen.errors == wanted_errors, (
                f"{name}: the errors at {seen.upper - 1} are wrong: found {seen.errors - wanted_errors} too many, "
                f"{wanted_errors - seen.errors} missing"
            )
            assert seen.raises == bool(seen.errors)
            for time, shown in seen.past.items():
                wanted = Counter({row: n for row, n in self.expected(name, time)[0].items() if n > 0})
                wrong = unlike(shown, wanted)
                assert not wrong, f"{name}: at {seen.upper} what is shown of {time} is wrong (found, wanted): {wrong}"


def check_consolidated(seen: Observation) -> None:
    """No two changes that a reader cannot tell apart, none that says nothing, none outside the step."""
    assert len({(row, time) for row, time, _ in seen.changes}) == len(seen.changes)
    assert all(diff != 0 and seen.lower <= time < seen.upper for _, time, diff in seen.changes)


def unlike(found: Multiset, wanted: Multiset) -> dict[tuple[Any, ...], tuple[int, int]]:
    """Rows whose count differs: what was found and what was wanted."""
    found, wanted = without_zeros(found), without_zeros(wanted)
    return {row: (found[row], wanted[row]) for row in found.keys() | wanted.keys() if found[row] != wanted[row]}


def row_text(names: Sequence[str], row: tuple[Any, ...]) -> str:
    return json.dumps(dict(zip(names, row, strict=True)), default=str, ensure_ascii=False)


def state_left(session: Session) -> Iterator[tuple[str, int]]:
    """Arrangements that add up to something, or hold something, with how many rows."""
    for (name, shard), state in session._engine.table.live.items():
        lattice = state.spine.layout.lattice
        lower = np.zeros((lattice.width, 1), np.int64)
        lower[0] = session.lower
        rows = len(state.spine.merged(Antichain(lattice, lower))) + len(state.future)
        if rows:
            yield f"{name}/{shard}", rows
