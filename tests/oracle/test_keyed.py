"""Sources that are sets or have a key, on every runner, against dictionaries; and whole plans above them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.columnar.hashing import hash_bits
from tests.oracle.histories import History, Update, random_cuts
from tests.oracle.keyed_cases import PLANS, SOURCES, plans
from tests.oracle.parts_cases import in_parts, in_tasks
from tests.oracle.plans import KEY, TABLES, random_plan
from tests.oracle.recompute import Multiset, Row
from tests.oracle.runners import Judge, Runner, contents_of, errors_of, observe, state_left, table_of, unlike

KEPT = {
    "p": an.source("p", "trial int, k long, v long", key=KEY, keep=True),
    "q": an.source("q", "trial int, k long, v long", distinct=True, keep=True),
}
INSERT, RETRACT, UPDATE, DELETE = "insert", "retract", "insert_or_update", "delete_key"
KINDS = {"p": (INSERT, RETRACT, UPDATE, UPDATE, DELETE), "q": (INSERT, INSERT, RETRACT)}
CASES, TIMES = 4, 8


def commands(rng: random.Random, cases: int, times: int, size: int) -> History:
    """By source, in the order in which they are given: (row, time, (call, kind, diff)); times come in any order."""
    history: History = {}
    for name, make in TABLES.items():
        found: list[Any] = []
        for call in range(rng.randint(2, size)):
            kind = rng.choice(KINDS[name])
            for _ in range(rng.randint(1, 5)):
                diff = rng.choice([1, 1, 2]) if kind in (INSERT, RETRACT) else 1
                found.append((make(rng, rng.randrange(cases)), rng.randrange(times), (call, kind, diff)))
        history[name] = found
    return history


def obeyed(name: str, given: Sequence[Any], time: int) -> Multiset:
    """What a dictionary of sets of rows, by key, has at a time."""
    there: dict[Row, set[Row]] = {}
    for row, _, (_, kind, _) in sorted((g for g in given if g[1] <= time), key=lambda g: g[1]):
        rows = there.setdefault(row[:2] if name == "p" else row, set())
        if kind in (UPDATE, DELETE):
            rows.clear()
        if kind == RETRACT:
            rows.discard(row)
        elif kind != DELETE:
            rows.add(row)
    return Counter(row for rows in there.values() for row in rows)


@dataclass
class Commanded(Judge):
    """What plans show whose sources take commands."""

    def held(self, time: int) -> dict[str, Multiset]:
        return {name: obeyed(name, given, time) for name, given in self.history.items()}


def give(session: Session, name: str, given: Sequence[Any], source: Collection, convert: Any = lambda t: t) -> None:
    """Commands one after the other, those of one kind that follow each other in one call."""
    for (_, kind), some in groupby(given, key=lambda g: g[2][:2]):
        table = table_of([(row, time, diff) for row, time, (_, _, diff) in some], source)
        more = {"diff": "diff"} if kind in (INSERT, RETRACT) else {}
        table = table if more else table.drop("diff")
        getattr(session, kind)(name, convert(table), time="time", **more)


@dataclass
class Commanding(Runner):
    """A runner that gives commands."""

    def give(self, session: Session, name: str, updates: Sequence[Update], source: Collection) -> None:
        give(session, name, updates, source, self.convert)


def commanding(runner: Runner, **more: Any) -> Commanding:
    return Commanding(**{**vars(runner), **more})


FEW = ["rows", "set", "joined by the key"]
HISTORY = commands(random.Random(3), CASES, TIMES, 9)
JUDGE = Commanded(PLANS, HISTORY)
EACH, ONE = list(range(1, TIMES + 1)), [TIMES]


def test_every_step_shows_what_a_dictionary_has(runner):
    some = {"memory": [EACH, ONE], "shards": [EACH, [4, TIMES]], "durable": [[2, 3, TIMES]]}
    names = None if runner.name in some else FEW  # a step of a Spark job is dear
    for cuts in some.get(runner.name, [[3, TIMES]]):
        JUDGE.run(commanding(runner), SOURCES, cuts, names)


def test_commands_that_wait_for_their_time_are_obeyed_as_they_were_given(runner):
    if runner.name == "spark":
        pytest.skip("what waits does not know how it came")
    judge = Commanded(PLANS, commands(random.Random(8), CASES, TIMES, 9))
    judge.run(commanding(runner, ahead=True, together=True), SOURCES, [2, 3, TIMES], FEW)


def test_collisions_of_hashes_change_nothing():
    for bits in (1, 3):
        with hash_bits(bits):
            JUDGE.run(Commanding("memory", lambda _: Session(), together=True), SOURCES, [3, TIMES])


@pytest.mark.parametrize("seed", range(14))
def test_random_plans_above_random_commands(seed):
    rng = random.Random(seed)
    times = rng.randint(3, 8)
    judge = Commanded(
        {str(i): random_plan(rng, rng.randint(2, 7), SOURCES) for i in range(4)},
        commands(rng, rng.randint(1, 3), times, 12),
    )
    shards = rng.choice([1, 1, 2, 3])
    retain = rng.choice([None, 2, "all"])
    runner = Commanding("shards", lambda _: Session(shards=shards, retain=retain), together=True, ahead=seed % 3 == 0)
    judge.run(runner, SOURCES, random_cuts(rng, times))


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_late_views_reopening_and_resharding_change_nothing(seed, kept, tmp_path):
    """Commands wait from the beginning, or come in time; views come and go, and the store is closed and parted."""
    rng, sources = random.Random(seed), KEPT if kept else SOURCES
    everything, history = plans(sources), commands(rng, CASES, TIMES, 12)
    judge, shards = Commanded(everything, history), 1
    maintained = ["rows", "set"]
    session = Session(path=tmp_path)
    views = {name: session.maintain(name, everything[name]) for name in maintained}
    for name, source in sources.items():
        give(session, name, history[name][: len(history[name]) // 2], source)
    for time in range(TIMES):
        for name, source in sources.items():
            give(session, name, [g for g in history[name][len(history[name]) // 2 :] if g[1] == time], source)
        session.advance()
        for name, view in views.items():
            check(judge, name, view, time)
        choice = rng.choice(["reshard", "reopen", "drop", "drop", "maintain", "maintain"])
        if choice == "reshard":
            shards *= 2
            session.reshard(shards)
        elif choice == "reopen":
            session.close()
            session = Session(path=tmp_path)
            views = {name: session.maintain(name, everything[name]) for name in maintained}
        elif choice == "drop" and len(maintained) > (0 if kept else 2):
            session.drop(maintained[-1])
            views.pop(maintained.pop())
        else:
            new = rng.choice([name for name in everything if name not in maintained])
            maintained.append(new)
            views[new] = session.maintain(new, everything[new])
        for name, view in views.items():
            check(judge, name, view, time)
    session.close()


def check(judge: Judge, name: str, view: an.View, time: int) -> None:
    wanted, errors = judge.expected(name, time)
    assert unlike(contents_of(view), Counter({row: n for row, n in wanted.items() if n > 0})) == {}
    assert errors == errors_of(view)


@pytest.mark.parametrize("shards", [1, 3])
def test_nothing_is_left_of_keys_that_are_gone(shards):
    """One row a key that is there, whatever commands there were: when all are deleted, nothing."""
    with Session(shards=shards) as session:
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items()}
        for name, given in HISTORY.items():
            give(session, name, given, SOURCES[name])
        session.advance(to=TIMES)
        for view in views.values():
            observe(view, TIMES - 1, TIMES)
        for name in SOURCES:
            rows = [(case, k, v) for case in range(CASES) for k in (0, 1, 2, None) for v in (0, 1, 2, 4, None)]
            if name == "p":
                session.delete_key(name, [row[:2] for row in rows])
            else:
                session.retract(name, rows)
        session.advance()
        assert list(state_left(session)) == []


def test_in_parts_and_in_tasks_nothing_else_comes(tmp_path):
    """With room for a few rows at a time, and run as Spark's tasks run it, in any order and some twice."""
    for runner in (
        Commanding("parts", in_parts(random.Random(1)), ahead=True, together=True),
        Commanding("tight", in_tasks(400), lambda: tmp_path / "store", together=True),
    ):
        JUDGE.run(runner, SOURCES, [TIMES // 2, TIMES], [*FEW, "grouped by another column"])
