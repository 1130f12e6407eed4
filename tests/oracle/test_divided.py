"""Heavy keys, which are divided over tasks: the same rows, changes and states, and less for the task of the key."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.runtime import divided
from altneu.runtime.local import LocalExecutor
from tests.oracle.histories import History, random_history, undone
from tests.oracle.retries import Retries
from tests.oracle.runners import Judge, Runner

FACTS = an.source("facts", "k long, v long, x string")
DIMS = an.source("dims", "k long, n string")
MORE = an.source("more", "v long, m long")
SOURCES = {"facts": FACTS, "dims": DIMS, "more": MORE}
TABLES = {
    "facts": lambda rng, _: (rng.choice([0, 0, 0, 1, 2, None]), rng.randint(0, 5), rng.choice(["a", "b", None])),
    "dims": lambda rng, _: (rng.choice([0, 0, 1, 2, None]), rng.choice(["p", "q"])),
    "more": lambda rng, _: (rng.randint(0, 2), rng.randint(0, 2)),
}
JOINED = FACTS.join(DIMS, on="k")
PLANS = {
    "inner": JOINED,
    "of all but the key": JOINED.select("v", "x", "n"),
    "of some columns": JOINED.select("k", "n"),
    "summed": JOINED.group_by("n").agg(c="count(*)", s="sum(v)"),
    "by the key": JOINED.group_by("k").agg(c="count(*)", s="sum(v)"),
    "counted": FACTS.select("k").join(DIMS, on="k").group_by("n").agg(c="count(*)"),
    "least": JOINED.group_by("n").agg(least="min(v)", most="max(x)"),
    "left": FACTS.join(DIMS, on="k", how="left"),
    "right": FACTS.join(DIMS, on="k", how="right"),
    "full": FACTS.join(DIMS, on="k", how="full"),
    "semi": FACTS.semijoin(DIMS, on="k"),
    "anti": FACTS.antijoin(DIMS, on="k"),
    "self": FACTS.join(FACTS.select("k", w="v"), on="k"),
    "two": JOINED.join(MORE, on="v"),
    "union": FACTS.select("k", "v").concat(MORE.select(k="v", v="m")).join(DIMS, on="k"),
    "failing": JOINED.select("n", q="10 div v"),
    "index": JOINED.group_by("k", "v").agg(c="count(distinct x)"),
}


def history_of(seed: int, size: int) -> History:
    history = random_history(random.Random(seed), TABLES, 2, 6, size)
    end = undone(history, 6)
    return {name: updates + end[name] for name, updates in history.items()}


class Dividing(Retries):
    """Tasks that count in how many segments keys were divided."""

    def __init__(self, shards: int, room: int | None = None) -> None:
        super().__init__(shards, room=room)
        self.divided = 0

    def _run_job(self, task, title, frames, rows, seen):
        self.divided += bool(task.divided)
        return super()._run_job(task, title, frames, rows, seen)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(divided, "LEAST_ROWS", 1)


def runner_of(executor: Retries, folder: Path, **options) -> Runner:
    def opened(path: Path | None) -> Session:
        session = Session(path=path, shards=executor.shards)
        session._engine.executor = executor
        return session

    return Runner("divided", opened, lambda: folder, **options)


@pytest.mark.parametrize("name", PLANS)
def test_every_join_of_a_heavy_key(name, tmp_path):
    """Step by step, reopened after each."""
    judge, executor = Judge(PLANS, history_of(1, 6)), Dividing(3)
    judge.run(runner_of(executor, tmp_path, reopened=True), SOURCES, [2, 4, 7], [name])
    assert executor.divided == 0 if name == "by the key" else executor.divided


def test_with_what_comes_later_and_steps_in_the_driver(tmp_path):
    """Future rows wait in the shard of their key, and what slices have made is read by steps that know of none."""
    judge, executor = Judge(PLANS, history_of(2, 8)), Dividing(2)
    names = [name for name in PLANS if name not in ("by the key", "self", "index")]
    judge.run(runner_of(executor, tmp_path / "ahead", ahead=True, together=True), SOURCES, [2, 7], names)

    def alternate(session: Session, step: int) -> None:
        session._engine.executor = (executor, LocalExecutor())[step % 2]

    judge.run(
        runner_of(executor, tmp_path / "turns", before_step=alternate, together=True), SOURCES, [2, 3, 5, 7], names[:5]
    )
    assert executor.divided > 2


def test_with_little_room_and_with_collisions(tmp_path_factory):
    """A slice of a shard runs in parts as a shard does."""
    judge, names = Judge(PLANS, history_of(3, 6)), ["summed", "left", "two", "failing"]
    for room, bits in ((300, 64), (None, 3)):
        executor = Dividing(2, room)
        with hash_bits(bits):
            runner = runner_of(executor, tmp_path_factory.mktemp("store"), together=True)
            judge.run(runner, SOURCES, [3, 7], names)
        assert executor.divided
