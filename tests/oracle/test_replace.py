"""Snapshots as changes: what a source holds is what was given last, and views above it follow, on every runner."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.columnar.hashing import hash_bits
from tests.oracle.keyed_cases import plans as keyed_plans
from tests.oracle.plans import KEY, SOURCES, random_plan, row_of
from tests.oracle.recompute import Multiset
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, row_text, state_left, table_of, unlike

SEEN_WHOLE = {name: an.source(name, "trial int, k long, v long") for name in ("p", "q")}
COMMANDED = {
    "p": an.source("p", "trial int, k long, v long", key=KEY),
    "q": an.source("q", "trial int, k long, v long", distinct=True),
}
DECLARED = {"kept": SOURCES, "seen whole": SEEN_WHOLE, "commanded": COMMANDED}


def is_set(source: Collection) -> bool:
    return source.node.commanded_by is not None


@dataclass
class Life:
    """A session whose sources are replaced, and between that changed row by row; and what they ought to hold."""

    rng: random.Random
    runner: Runner
    sources: dict[str, Collection]
    plans: dict[str, Collection]
    held: dict[str, Multiset] = field(default_factory=dict)
    past: dict[str, dict[int, Multiset]] = field(default_factory=dict)
    commits: int = 0

    def __post_init__(self) -> None:
        self.held = {name: Counter() for name in self.sources}
        self.past = {name: {} for name in self.sources}
        self.folder = self.runner.folder()
        self.judge = Judge(self.plans, {})
        self.judge.held = self.at  # type: ignore[method-assign]
        self.open()

    def open(self) -> None:
        self.session = self.runner.open_session(self.folder)
        self.views = {name: self.session.maintain(name, plan) for name, plan in self.plans.items()}

    def at(self, time: int) -> dict[str, Multiset]:
        return {name: self.past[name][time] for name in self.sources}

    def snapshot(self, name: str) -> Multiset:
        """Another one, which has much of what is there."""
        rng = self.rng
        rows = Counter({row: n for row, n in self.held[name].items() if rng.random() < 0.7})
        for _ in range(rng.randint(0, 6)):
            rows[row_of(rng, rng.randrange(2))] += rng.choice([1, 1, 2])
        return rows

    def forms(self, name: str, rows: Multiset) -> tuple[Any, dict[str, Any]]:
        """A snapshot in one of the forms that it may have."""
        counted = table_of([(row, 0, n) for row, n in rows.items()], self.sources[name])
        each = [row for row, n in rows.items() for _ in range(n)]
        self.rng.shuffle(each)
        choice = self.rng.randrange(3)
        if choice == 0 and not is_set(self.sources[name]):
            return self.runner.convert(counted.drop("time")), {"diff": "diff"}
        if choice == 1:
            return each, {}
        table = table_of([(row, 0, 1) for row in each], self.sources[name]).select(self.sources[name].columns)
        return self.runner.convert(table), {}

    def replace(self, name: str) -> None:
        rows = self.snapshot(name)
        data, more = self.forms(name, rows)
        self.session.replace(name, data, **more)
        self.held[name] = Counter(dict.fromkeys(rows, 1)) if is_set(self.sources[name]) else Counter(rows)

    def change(self, name: str) -> None:
        """Insert or retract a row, in both."""
        held, row = self.held[name], row_of(self.rng, self.rng.randrange(2))
        if held and self.rng.random() < 0.5:
            row = self.rng.choice([*held])
            self.session.retract(name, [row])
            held[row] -= 1
        else:
            self.session.insert(name, [row])
            held[row] = 1 if is_set(self.sources[name]) else held[row] + 1
        self.held[name] = Counter({row: n for row, n in held.items() if n})

    def step(self) -> None:
        session, rng = self.session, self.rng
        self.runner.before_step(session, rng.randrange(2))
        for name in self.sources:
            for act in rng.choice(["", "R", "R", "c", "cR", "Rc", "RcR", "ccRcc"]):
                self.replace(name) if act == "R" else self.change(name)
        upper = session.lower + rng.randint(1, 2)
        for name in self.sources:
            self.past[name] |= {time: Counter(self.held[name]) for time in range(session.lower, upper)}
        session.advance(to=upper)
        self.check()

    def check(self) -> None:
        time = self.session.lower - 1
        for name, view in self.views.items():
            wanted, errors = self.judge.expected(name, time)
            assert not unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})), name
            names = self.plans[name].columns
            negative = {("NEGATIVE_MULTIPLICITY", row_text(names, row)) for row, n in wanted.items() if n < 0}
            assert errors_of(view) == errors | negative, name

    def reopen(self) -> None:
        self.session.close()
        self.open()
        self.check()


def life(seed: int, runner: Runner, declared: str, plans: int) -> Life:
    rng, sources = random.Random(seed), DECLARED[declared]
    if declared == "commanded":
        all_plans = keyed_plans(sources)
        chosen = {name: all_plans[name] for name in rng.sample([*all_plans], plans)}
    else:
        chosen = {str(i): random_plan(rng, rng.randint(2, 6), sources) for i in range(plans)}
    # each source is read, and where nothing else has its rows, shown
    shown = {name: source if declared == "seen whole" else source.count() for name, source in sources.items()}
    whole = {f"all of {name}": plan for name, plan in shown.items()}
    return Life(rng, runner, sources, {**whole, **chosen})


@pytest.mark.sampled(2)
@pytest.mark.parametrize("declared", DECLARED)
def test_views_follow_snapshots(runner, declared):
    """Whatever was inserted before, in whichever form, on every runner."""
    quick = runner.name not in ("driver", "spark", "mixed")
    for seed in range(6 if quick else 1):
        running = life(seed, runner, declared, 3 if quick else 1)
        for _ in range(6 if quick else 3):
            running.step()
            if runner.reopened:
                running.reopen()
        running.session.close()


@pytest.mark.parametrize("declared", DECLARED)
def test_with_history_retained_parted_and_with_collisions(declared):
    for seed, open_session in enumerate(
        [
            lambda _: Session(retain="all", shards=2),
            lambda _: Session(memory="1m", shards=3, retain=2),
            lambda _: Session(shards=2),
        ]
    ):
        with hash_bits([None, 1, 3][seed] or 64):
            running = life(40 + seed, Runner("many", open_session), declared, 3)
            for number in range(5):
                running.step()
                if number == 2 and seed == 2:
                    running.session.reshard(4)
            running.session.close()


@pytest.mark.parametrize("declared", DECLARED)
def test_nothing_is_left_of_sources_that_are_replaced_by_nothing(declared):
    running = life(7, Runner("shards", lambda _: Session(shards=2)), declared, 4)
    for _ in range(4):
        running.step()
    assert [*state_left(running.session)]
    for name in running.sources:
        running.session.replace(name, [])
    running.session.advance()
    assert [*state_left(running.session)] == []
    running.session.close()
