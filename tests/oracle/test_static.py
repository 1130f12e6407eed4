"""Closed sources: every view goes on as if they were open and nothing came, whatever is no longer stored."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

import altneu as an
from altneu import Collection, Session
from altneu.columnar.hashing import hash_bits
from altneu.errors import HydrationError
from tests.oracle.histories import History, Update, random_cuts, random_history
from tests.oracle.parts_cases import in_parts, in_tasks
from tests.oracle.plans import KEY, TABLES, random_plan
from tests.oracle.runners import Judge, Runner, contents_of, table_of, unlike

OPEN = {name: an.source(name, "trial int, k long, v long") for name in ("p", "q")}
KEPT = {name: an.source(name, "trial int, k long, v long", keep=True) for name in ("p", "q")}
COMMANDED = {"p": OPEN["p"], "q": an.source("q", "trial int, k long, v long", distinct=True)}
P, Q = OPEN.values()


def reachable(start: Collection, edges: Collection) -> Collection:
    """A loop; of histories in which no count is below zero."""
    start, edges = (c.filter("trial % 2 = 0 and v is not null").distinct() for c in (start, edges))

    def body(x: Collection) -> Collection:
        return x.join(edges, on={"trial": "trial", "v": "k"}).select("trial", "k", v="right.v").concat(start).distinct()

    return start.iterate(body)


JOINS = {
    "join": P.join(Q, on=KEY),
    "join with itself": P.join(P.select("trial", "k", w="v"), on=KEY).join(Q, on=KEY),
    "right of a join": Q.filter("v > 0").join(P, on=KEY, how="left"),
    "full": P.join(Q, on=KEY, how="full"),
    "semijoin": P.semijoin(Q, on=KEY),
    "antijoin": P.antijoin(Q, on=KEY),
    "as of": P.asof_join(Q, KEY, left_time="v", right_time="v", mode="revising"),
    "as of, all": P.asof_join(Q, KEY, left_time="v", right_time="v", mode="revising", how="left"),
    "locked": P.asof_join(Q, KEY, left_time="v", right_time="v", mode="locked"),
    "of groups": P.group_by(*KEY).agg(n="count(*)").join(Q.group_by(*KEY).agg(m="max(v)"), on=KEY),
    "of a delay": P.join(Q.delay(by=2), on=KEY),
    "of what goes": P.join(Q.filter("logical_now() < v + 3"), on=KEY),
    "three": P.join(Q, on=KEY).join(Q.select("trial", "k", w="v").distinct(), on=KEY),
    "reachable": reachable(P, Q),
    "reachable in what changes": reachable(Q, P),
}


@dataclass
class Closing(Runner):
    """A runner that closes sources: by name, before which step."""

    closes: Mapping[str, int] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)

    def _run(self, plans: Mapping[str, Collection], sources: Any, history: History, cuts: Sequence[int]) -> Any:
        self.closed = set()

        def close(session: Session, step: int) -> None:
            for name, at in self.closes.items():
                if step >= at and name in session.sources:
                    session.close_source(name)
                    self.closed.add(name)

        self.before_step = close
        return super()._run(plans, sources, history, cuts)

    def give(self, session: Session, name: str, updates: Sequence[Update], source: Collection) -> None:
        if name not in self.closed:
            super().give(session, name, updates, source)
        elif updates:
            with pytest.raises(an.errors.InputError, match=f"source '{name}' is closed"):
                super().give(session, name, updates, source)


def closing(runner: Runner, closes: Mapping[str, int], **more: Any) -> Closing:
    return Closing(**{**vars(runner), "closes": closes, **more})


def until(history: History, ends: Mapping[str, int]) -> History:
    """Without the updates that come after a source is closed."""
    return {name: [u for u in updates if u[1] < ends.get(name, 1 << 60)] for name, updates in history.items()}


CUTS = [2, 3, 5, 6, 8]
HISTORY = random_history(random.Random(11), TABLES, 4, 8, 2)
WAYS = [{"q": 1}, {"p": 2}, {"q": 2, "p": 3}]


def test_joins_with_a_closed_source(runner):
    """On Spark, whose steps take longer, fewer joins and one way of closing."""
    quick = runner.name not in ("driver", "spark", "mixed")
    names = [*JOINS] if quick else ["full", "as of", "reachable", "three"]
    for closes in WAYS if quick else WAYS[:1]:
        judge = Judge(JOINS, until(HISTORY, {name: CUTS[at - 1] for name, at in closes.items()}))
        judge.run(closing(runner, closes), OPEN, CUTS, names)


@pytest.mark.parametrize("joins", ["delta", "binary"])
@pytest.mark.parametrize("shards", [1, 3])
def test_joins_of_several(joins, shards):
    one, other = P.select("trial", a="k", b="v"), Q.select("trial", b="k", c="v")
    third = P.select("trial", c="k", a="v")
    plans = {
        "triangle": one.join(other, on=["trial", "b"]).join(third, on=["trial", "c", "a"]),
        "path": one.join(other, on=["trial", "b"]).join(third.select("trial", "c", d="a"), on=["trial", "c"]),
    }
    for closes in WAYS:
        judge = Judge(plans, until(HISTORY, {name: CUTS[at - 1] for name, at in closes.items()}))
        runner = closing(Runner("many", lambda _: Session(shards=shards), joins=joins), closes)
        judge.run(runner, OPEN, CUTS)


@pytest.mark.parametrize("closes", WAYS, ids=str)
def test_rows_that_wait_come_after_the_closing(closes):
    """Everything is inserted before the first step; a closed source's rows of later times still count."""
    for shards in (1, 2):
        runner = Runner("ahead", lambda _: Session(shards=shards), ahead=True, together=True)  # noqa: B023
        names = [name for name in JOINS if name != "locked"]
        Judge(JOINS, HISTORY).run(closing(runner, closes), OPEN, CUTS, names)


def test_collisions_in_parts_and_in_tasks(tmp_path):
    judge = Judge(JOINS, until(HISTORY, {"q": 2}))
    with hash_bits(2):
        judge.run(closing(Runner("memory", lambda _: Session(), together=True), {"q": 1}), OPEN, CUTS)
    for runner in (
        Runner("parts", in_parts(random.Random(1)), ahead=False, together=True),
        Runner("tight", in_tasks(400), lambda: tmp_path / "store", together=True),
    ):
        judge.run(closing(runner, {"q": 1}), OPEN, CUTS, ["join", "full", "as of", "reachable", "three"])


@pytest.mark.parametrize("seed", range(24))
def test_random_plans(seed, tmp_path):
    rng = random.Random(seed)
    times = rng.randint(3, 8)
    sources = rng.choice([OPEN, KEPT, OPEN])
    plans = {str(i): random_plan(rng, rng.randint(2, 7), sources) for i in range(4)}
    cuts = random_cuts(rng, times)
    closes = {name: rng.randrange(1, len(cuts) + 1) for name in rng.choice([["p"], ["q"], ["p", "q"]])}
    history = random_history(rng, TABLES, rng.randint(1, 3), times, 3)
    history = until(history, {name: cuts[at - 1] for name, at in closes.items()})
    shards, retain = rng.choice([1, 1, 2, 3]), rng.choice([None, 2, "all"])
    runner = rng.choice(
        [
            Runner("memory", lambda _: Session(shards=shards, retain=retain), together=True),
            Runner("durable", lambda path: Session(path=path), lambda: tmp_path, reopened=True, together=True),
        ]
    )
    Judge(plans, history).run(closing(runner, closes), sources, cuts)


@pytest.mark.parametrize("seed", range(10))
def test_late_views_drops_reopening_and_resharding(seed, tmp_path):
    """Views come and go above closed sources: right, or refused because rows are not stored."""
    rng, kept = random.Random(seed), seed % 2 == 0
    sources, times = KEPT if kept else OPEN, 7
    all_plans = {str(i): random_plan(rng, rng.randint(1, 6), sources) for i in range(9)}
    history = until(random_history(rng, TABLES, 2, times, 3), {"q": 2})
    all_plans |= {f"all of {name}": source.count() for name, source in sources.items()}
    judge, session = Judge(all_plans, history), Session(path=tmp_path, shards=2)
    names = [*(f"all of {name}" for name in sources), "0", "1", "2"]  # both sources are read throughout
    views = {name: session.maintain(name, all_plans[name]) for name in names}
    refused = 0
    for time in range(times):
        if time == 2:
            session.close_source("q")
        for name in session.sources:
            if name == "p" or time < 2:
                given = table_of([u for u in history[name] if u[1] == time], sources[name])
                session.insert(name, given, time="time", diff="diff")
        session.advance()
        match rng.choice(["reopen", "drop", "maintain", "maintain", "reshard"]):
            case "reopen":
                session.close()
                session = Session(path=tmp_path)
                views = {name: session.maintain(name, all_plans[name]) for name in rng.sample([*views], len(views))}
            case "drop" if len(views) > 2:
                name = rng.choice([name for name in views if "all" not in name])
                session.drop(name)
                del views[name]
            case "reshard" if session.shards < 8:
                session.reshard(session.shards * 2)
            case _:
                name = rng.choice([name for name in all_plans if name not in views] or [*views])
                try:
                    views[name] = session.maintain(name, all_plans[name])
                except HydrationError:
                    refused += 1
        for name, view in views.items():
            wanted, _ = judge.expected(name, time)
            positive = {row: n for row, n in wanted.items() if n > 0}
            assert not unlike(contents_of(view), type(wanted)(positive)), (time, name)
    assert not (kept and refused)
    session.close()
    an.check_store(tmp_path)
