"""Views that get other plans: they go on as if they had been so from the start, and the differences are changes."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.errors import HydrationError, PlanError
from tests.oracle.plans import SOURCES, random_plan, row_of
from tests.oracle.recompute import Multiset
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, row_text, unlike

COLUMNS = ("trial", "k", "v")


def shaped(rng: random.Random) -> Any:
    """A random collection with the columns that all of them have, so that each may take another's place."""
    kind = rng.randrange(6)
    p, q = SOURCES["p"], SOURCES["q"]
    if kind == 0:
        return p.filter(f"v > {rng.randint(-2, 2)}")
    if kind == 1:
        return p.concat(q)
    if kind == 2:
        return p.group_by("trial", "k").agg(v="sum(v)")
    if kind == 3:
        return p.join(q, on="k").select("trial", "k", v="right.v")
    if kind == 4:
        return p.concat(q).distinct()
    return q.group_by("trial", "k").agg(v="max(v)")


class Life:
    """A session in which a view is redefined again and again, and what it ought to show at each time."""

    def __init__(self, seed: int, runner: Runner) -> None:
        self.rng, self.runner, self.folder = random.Random(seed), runner, runner.folder()
        self.held: dict[str, Multiset] = {name: Counter() for name in SOURCES}
        self.past: dict[int, Multiset] = {}
        self.got: Multiset = Counter()
        self.times: list[int] = []
        self.plan = shaped(self.rng)
        self.other = random_plan(self.rng, 3, SOURCES)
        self.open()

    def open(self, *, replace: bool = False) -> None:
        self.session = self.runner.open_session(self.folder)
        for name, source in SOURCES.items():
            self.session.maintain(f"all of {name}", source)
        self.view = self.session.maintain("v", self.plan, replace=replace)
        self.beside = self.session.maintain("beside", self.other)
        self.subscription = self.view.subscribe(self.change)

    def change(self, row: Any, time: int, diff: int) -> None:
        self.got[tuple(row)] += diff
        self.times.append(time)

    def expected(self, plan: Any) -> tuple[Multiset, Any]:
        judge = Judge({"v": plan}, {})
        judge.held = lambda _: self.held  # type: ignore[method-assign,assignment]
        return judge.expected("v", self.session.lower)

    def step(self) -> None:
        rng, session = self.rng, self.session
        self.runner.before_step(session, rng.randrange(2))
        for name in SOURCES:
            for _ in range(rng.randint(0, 4)):
                row, held = row_of(rng, rng.randrange(2)), self.held[name]
                if held and rng.random() < 0.3:
                    row = rng.choice([*held])
                    session.retract(name, [row])
                    held[row] -= 1
                else:
                    session.insert(name, [row])
                    held[row] += 1
                self.held[name] = Counter({row: n for row, n in held.items() if n})
        session.advance()
        self.check()

    def check(self) -> None:
        wanted, errors = self.expected(self.plan)
        positive = Counter({row: n for row, n in wanted.items() if n > 0})
        assert not unlike(contents_of(self.view), positive)
        negative = {("NEGATIVE_MULTIPLICITY", row_text(COLUMNS, row)) for row, n in wanted.items() if n < 0}
        assert errors_of(self.view) == errors | negative
        if not errors and not negative:
            assert Counter({row: n for row, n in self.got.items() if n}) == positive
        self.past[self.session.lower - 1] = positive

    def redefine(self) -> None:
        """Another plan, which counts from the next time on."""
        before = contents_of(self.view)
        self.plan = shaped(self.rng)
        self.view = self.session.maintain("v", self.plan, replace=True)
        assert contents_of(self.view) == before  # until a time is closed

    def reopen(self, *, redefined: bool) -> None:
        """In another process, with the same plan or another one."""
        self.session.close()
        if redefined:
            self.plan = shaped(self.rng)
        self.got = Counter()
        self.open(replace=redefined)


def lives(seed: int, runner: Runner, steps: int) -> Life:
    life = Life(seed, runner)
    for _ in range(steps):
        for _ in range(life.rng.randrange(3)):  # also twice at one time
            life.redefine()
        life.step()
        if runner.reopened:
            life.reopen(redefined=life.rng.random() < 0.5)
            life.step()
    return life


def test_views_go_on_with_other_plans(runner: Runner) -> None:
    quick = runner.name not in ("driver", "spark", "mixed")
    for seed in range(8 if quick else 1):
        lives(seed, runner, 5 if quick else 2).session.close()


@pytest.mark.parametrize("bits", [1, 3, 64])
def test_earlier_times_show_what_they_showed(bits: int) -> None:
    with hash_bits(bits):
        for seed in range(4):
            life = lives(50 + seed, Runner("many", lambda _: Session(retain="all", shards=2)), 5)
            for time, rows in life.past.items():
                assert not unlike(contents_of(life.view, time), rows), time
            life.session.reshard(4)
            life.step()
            life.session.merge()
            life.redefine()
            life.step()
            life.session.close()


def test_what_is_the_same_changes_nothing() -> None:
    session = Session()
    view = session.maintain("v", SOURCES["p"].filter("v > 0"))
    session.insert("p", [(0, 1, 2)])
    session.advance()
    commits = session._engine.journal.commits
    session.maintain("v", SOURCES["p"].filter("v > 0"), replace=True)
    assert session._engine.journal.commits == commits
    session.advance()
    assert view.changes().num_rows == 0


def test_a_view_that_is_added_before_the_next_time_has_rows_at_once() -> None:
    """It does not take those that a view like it had before that was redefined."""
    some = an.source("some", "id long, n long", keep=True)
    other = an.source("other", "id long, n long")
    with Session(retain="all") as session:
        session.maintain("view", some.filter("n > 5"))
        session.maintain("unkept", other.filter("n > 5"))
        session.maintain("all", other)
        for name in ("some", "other"):
            session.insert(name, [(1, 1), (2, 9)])
        session.advance()
        session.maintain("view", some.filter("n > 0"), replace=True)
        late = session.maintain("late", some.filter("n > 0"))
        assert session.peek(some.filter("n > 0")).num_rows == 2
        assert contents_of(late) == {(1, 1): 1, (2, 9): 1}
        assert contents_of(session.view("view")) == {(2, 9): 1}
        session.advance()
        assert contents_of(late) == contents_of(session.view("view")) == {(1, 1): 1, (2, 9): 1}
        assert Counter(late.to_pylist(at=0)) == {(1, 1): 1, (2, 9): 1}
        assert session.view("view").to_pylist(at=0) == [(2, 9)]
        assert session.peek(some.filter("n > 0"), at=0).num_rows == 2

        session.maintain("unkept", other.filter("n > 0"), replace=True)
        session.drop("all")
        with pytest.raises(HydrationError, match="advance before view 'later' is maintained: only a view that was"):
            session.maintain("later", other.filter("n > 0"))
        session.advance()
        assert contents_of(session.maintain("later", other.filter("n > 0"))) == {(1, 1): 1, (2, 9): 1}


def test_what_cannot_go_on_is_refused() -> None:
    session = Session()
    session.maintain("all", SOURCES["p"])
    session.maintain("v", SOURCES["p"].filter("v > 0"))
    session.maintain("blind", SOURCES["p"].filter("v > 0"), contents=False)
    session.arrange("trace", SOURCES["p"], "k")
    session.insert("p", [(0, 1, 2)])
    session.advance()
    for name, collection, match in [
        ("v", SOURCES["p"].select("k"), r"has the columns trial int32, k int64, v int64, and would have k int64"),
        ("blind", SOURCES["p"].filter("v > 1"), "'blind' has no contents"),
        ("trace", SOURCES["p"].filter("v > 1"), "is a trace or an index"),
        ("v", SOURCES["p"].filter("v > 1").arrange_by("k"), "is a trace or an index"),
    ]:
        before = session._engine.journal.commits
        with pytest.raises(PlanError, match=match):
            session.maintain(name, collection, replace=True)
        assert session._engine.journal.commits == before
    assert session.view("v").to_pylist() == [(0, 1, 2)]


def test_only_what_is_different_comes() -> None:
    """However many rows a view has: those that stay are no changes."""
    for n in (100, 10_000):
        session = Session()
        session.maintain("all", SOURCES["p"])
        session.maintain("v", SOURCES["p"].filter("v > 0"))
        session.insert("p", [(0, i, i) for i in range(n)])
        session.advance()
        view = session.maintain("v", SOURCES["p"].filter("v > 3"), replace=True)
        session.advance()
        assert Counter(row["diff"] for row in view.changes().to_pylist()) == {-1: 3}
        session.insert("p", [(1, 1, 5)])
        session.advance()
        assert view.changes().num_rows == 1
