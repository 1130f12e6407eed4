"""Whole lives of sessions, at random: rows of any time, views that come late and go, steps of any length, reopening.

After every step every view shows, at every time that is kept, what recomputation gives.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import altneu as an
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from altneu.plan.rewrite.transform import transform
from altneu.runtime.batch_writer import BatchWriter
from altneu.store import forget_segments
from tests.oracle.histories import accumulated
from tests.oracle.plans import SOURCES, random_plan, row_of
from tests.oracle.recompute import recompute
from tests.oracle.retries import Retries
from tests.oracle.runners import contents_of, errors_of, rows_of, table_of, unlike

NAMES = [f"v{i}" for i in range(6)]
ACTIONS = ["insert"] * 5 + ["advance"] * 4 + ["maintain"] * 2 + ["drop", "reopen", "discard", "reshard"]


class Life:
    """A session, and what it ought to hold."""

    def __init__(self, seed: int, path, kind: str) -> None:
        self.rng = random.Random(seed)
        self.path, self.kind = path, kind
        self.retain = self.rng.choice([None, 2, "all"])
        self.shards = {"memory": 1, "parts": self.rng.choice([1, 2])}.get(kind, 3)
        self.committed = {name: [] for name in SOURCES}
        self.pending = {name: [] for name in SOURCES}
        self.plans = {}
        self.without = set()  # the views that are made without contents
        self.session = self.open()
        for name, source in SOURCES.items():  # from the first step on, so that late views find their rows
            self.plans[name] = self.written(source)
            self.session.maintain(name, self.plans[name])
            if kind == "kept":  # their rows are kept by no view
                del self.plans[name]
                self.session.drop(name)

    def written(self, plan: an.Collection) -> an.Collection:
        """A plan, of sources whose rows are kept where no view keeps them."""
        if self.kind != "kept":
            return plan
        keep = lambda new, _: replace(new, keep=True) if isinstance(new, ir.Source) else new  # noqa: E731
        return an.Collection(transform(plan.node, keep))

    def open(self) -> an.Session:
        forget_segments()
        session = an.Session(path=self.path, retain=self.retain, shards=self.shards)
        if self.kind in ("retries", "tight"):
            session._engine.executor = Retries(session.shards, room=300 if self.kind == "tight" else None)
        elif self.kind == "parts":
            session._engine.executor.batch_writer = BatchWriter(self.rng.choice([100, 400]))
        return session

    def reshard(self) -> None:
        if self.kind in ("parts", "tight", "kept") and self.session.shards < 40 and self.rng.random() < 0.4:
            self.shards *= self.rng.choice([2, 3])
            self.session.reshard(self.shards)
            for name in self.plans:
                self.check(self.session.view(name))

    def insert(self) -> None:
        source, lower = self.rng.choice(list(SOURCES)), self.session.lower
        updates = [
            (
                row_of(self.rng, self.rng.randrange(2)),
                lower + self.rng.choice([0, 0, 1, 4]),
                self.rng.choice([1, 1, 2, -1]),
            )
            for _ in range(self.rng.randint(1, 5))
        ]
        self.session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
        self.pending[source] += updates

    def discard(self) -> None:
        source = self.rng.choice(list(SOURCES))
        self.session.discard(source)
        self.pending[source].clear()

    def maintain(self) -> None:
        name = self.rng.choice(NAMES)
        if name not in self.plans:
            known = list(self.plans.values())
            anew = not known or self.rng.random() < 0.8
            plan = self.written(random_plan(self.rng, self.rng.randint(1, 6))) if anew else self.rng.choice(known)
            self.plans[name] = plan
            if self.rng.random() < 0.4:
                self.without.add(name)
            self.check(self.taken_up(name))

    def taken_up(self, name: str) -> an.View:
        return self.session.maintain(name, self.plans[name], contents=name not in self.without)

    def drop(self) -> None:
        name = self.rng.choice(NAMES)
        if name in self.plans:
            del self.plans[name]
            self.without.discard(name)
            self.session.drop(name)

    def reopen(self) -> None:
        if self.path is None:
            return
        self.session.close()
        self.session = self.open()
        self.pending = {name: [] for name in SOURCES}
        for name in self.rng.sample(list(self.plans), len(self.plans)):
            self.check(self.taken_up(name))

    def advance(self) -> None:
        lower = self.session.lower  # before the first time nothing is there, constants included
        before = {name: self.expected(name, lower - 1)[0] if lower else Counter() for name in self.plans}
        self.session.advance(to=lower + self.rng.choice([1, 1, 2, 5]))
        for source, updates in self.pending.items():
            self.committed[source] += updates
            updates.clear()
        for name in self.plans:
            view = self.session.view(name)
            self.check(view)
            for row in rows_of(view.changes()):
                before[name][row[:-2]] += row[-1]
            assert unlike(before[name], self.expected(name, self.session.lower - 1)[0]) == {}

    def expected(self, name: str, time: int):
        return recompute(optimise(self.plans[name].node), {s: accumulated(u, time) for s, u in self.committed.items()})

    def check_changes(self, view: an.View) -> None:
        """What it had at a time, with the changes since, is what it has; nothing else is kept, and errors are there."""
        session, last = self.session, self.session.lower - 1
        for at in range(max(view.since, last - 3), last + 1):
            actual, errors = self.expected(view.name, at)
            assert errors_of(view, at) == errors, (view.name, at)
            for row in rows_of(view.changes(since=at)):
                actual[row[:-2]] += row[-1]
            assert unlike(actual, self.expected(view.name, last)[0]) == {}, (view.name, at)
        if last >= 0 == view.since:  # all that ever changed is told apart
            actual = Counter()
            for row in rows_of(view.changes(since=-1)):
                actual[row[:-2]] += row[-1]
            assert unlike(actual, self.expected(view.name, last)[0]) == {}, view.name
        name = session._engine.ports(view.name).contents
        states = [session._engine.table.get(name, shard) for shard in session._engine.table.shards_of(name)]
        if 0 < view.since >= last:
            assert not any(len(state.spine) for state in states), view.name

    def check(self, view: an.View) -> None:
        if view.name in self.without:
            self.check_changes(view)
            return
        for at in range(max(view.since, self.session.lower - 3), self.session.lower):
            wanted, errors = self.expected(view.name, at)
            shown = Counter({row: n for row, n in wanted.items() if n > 0})
            assert unlike(contents_of(view, at), shown) == {}, (view.name, at)
            if shown == wanted:
                assert errors_of(view, at) == errors, (view.name, at)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kind", ["memory", "shards", "retries", "parts", "tight", "kept"])
@pytest.mark.parametrize("seed", range(4))
def test_a_session_at_random(tmp_path, kind, seed):
    life = Life(seed, None if kind == "memory" else tmp_path / "state", kind)
    for _ in range(30):
        getattr(life, life.rng.choice(ACTIONS))()
    life.advance()
    life.session.close()
