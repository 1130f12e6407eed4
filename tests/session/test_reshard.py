"""Resharding: after it every step gives what it would have given, and nothing is read but what is kept."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import altneu as an
from altneu import Session
from altneu.errors import PlanError, StoreError, StorePlanError
from altneu.runtime import local
from altneu.store import DirectoryStore
from tests.oracle import agree, asof_cases, latest_cases, locked_cases
from tests.oracle.random_plans_cases import Scene
from tests.oracle.retries import Retries
from tests.oracle.runners import Judge, Runner, contents_of, state_left
from tests.session.reshard_cases import check_places

TRADES = an.source("trades", "item string, price long")
TOTAL = TRADES.group_by("item").agg(n="count(*)", total="sum(price)")


def parting(rng: random.Random):
    """Before a step, now and then: more shards."""

    def before(session: Session, step: int) -> None:
        if step and rng.random() < 0.7 and session.shards < 20:
            session.reshard(session.shards * rng.choice([2, 2, 3]))
            check_places(session)

    return before


@pytest.mark.parametrize("seed", range(4))
def test_random_plans_go_on_as_if_nothing_had_happened(seed, tmp_path_factory):
    rng = random.Random(seed)
    folder = (lambda: tmp_path_factory.mktemp("store")) if seed % 2 else lambda: None
    opened = lambda path: Session(path=path, shards=1 if seed < 2 else 2)  # noqa: E731
    scene = Scene(seed + 100)
    scene.cuts = list(range(1, scene.cuts[-1] + 1))
    scene.check(Runner("parted", opened, folder, ahead=seed % 3 == 0, before_step=parting(rng)))


@pytest.mark.parametrize("family", agree.FAMILIES[::2], ids=lambda family: family.name)
def test_loops_go_on_as_if_nothing_had_happened(family):
    rng = random.Random(family.name)
    batch = replace(agree.Batch.draw(rng, 8), cuts=[2, 4, 6, 9])
    runner = Runner("parted", lambda _: Session(shards=1, retain=batch.retain), ahead=True, before_step=parting(rng))
    trace = runner.run({family.name: family.plan}, agree.SOURCES, batch.history, batch.cuts)[family.name]
    Judge({family.name: family.plan}, batch.history).check(family.name, trace)


@pytest.mark.parametrize(
    "module",
    [asof_cases, latest_cases, locked_cases],
    ids=lambda m: m.__name__.rpartition(".")[2].removesuffix("_cases"),
)
def test_what_joins_remember_goes_with_its_key(module):
    rng, names = random.Random(1), sorted(module.PLANS)
    end = 1 + max(t for updates in module.HISTORY.values() for _, t, _ in updates)
    runner = Runner("parted", lambda _: Session(shards=2), together=True, ahead=True, before_step=parting(rng))
    module.JUDGE.run(runner, module.SOURCES, [end // 3, end // 2, end], rng.sample(names, min(len(names), 4)))


def test_nothing_is_left_when_everything_is_taken_back():
    """So what was there before finds what comes after, in the same shard."""
    with Session(shards=2) as session:
        session.maintain("total", TOTAL)
        session.maintain("pairs", TRADES.join(TRADES, on="item"))
        rows = [(f"item {i % 50}", i) for i in range(200)]
        session.insert("trades", rows)
        session.retract("trades", rows[:100], time=3)
        session.advance()
        session.reshard(8)
        session.retract("trades", rows[100:])
        session.advance(to=5)
        assert not session.view("total").to_pylist()
        assert not list(state_left(session))


def test_tasks_part_what_the_driver_parts(tmp_path):
    def filled(path, executor):
        session = Session(path=path, shards=2)
        session.maintain("total", TOTAL)
        session._engine.executor = executor or session._engine.executor
        session.insert("trades", [(f"item {i % 700}", i) for i in range(3000)])
        session.insert("trades", [("later", i) for i in range(50)], time=4)
        session.advance()
        return session

    def kept(session):
        actual = {}
        for name, shard in {*session._engine.table.live, *session._engine.table.stored}:
            state = session._engine.table.get(name, shard)
            parts = [*(batch.updates() for batch in state.spine.batches), state.future.updates()]
            actual[name, shard] = Counter(row for part in parts for row in part.rows.to_pylist())
        return {key: rows for key, rows in actual.items() if rows}

    with filled(tmp_path / "a", None) as one, filled(tmp_path / "b", Retries(2, room=2000)) as other:
        for session in (one, other):
            session.reshard(6)
        assert kept(one) == kept(other)
        assert other._engine.executor.shards == 6
        for session in (one, other):
            session.advance(to=6)
        assert contents_of(one.view("total")) == contents_of(other.view("total"))


def test_it_is_one_commit_that_a_store_is_opened_with(tmp_path):
    with Session(path=tmp_path, shards=2) as session:
        session.maintain("total", TOTAL)
        session.insert("trades", [(f"item {i}", i) for i in range(100)])
        session.advance()
        number, changes = session._engine.table.store.number, session.view("total").changes().to_pylist()
        session.reshard(4)
        assert session._engine.table.store.number == number + 1
        assert session.view("total").changes().to_pylist() == changes
        shown = contents_of(session.view("total"))
    with Session(path=tmp_path) as session:
        assert session.shards == 4
        assert contents_of(session.maintain("total", TOTAL)) == shown
    with Session(path=tmp_path, shards=12) as session:
        view = session.maintain("total", TOTAL)
        assert session.shards == 4
        session.retract("trades", [("item 7", 7)])
        session.advance()
        assert session.shards == 12
        assert len(view.to_pylist()) == 99


def test_one_that_fails_never_happened(tmp_path, monkeypatch):
    with Session(path=tmp_path, shards=2) as session:
        view = session.maintain("total", TOTAL)
        session.insert("trades", [(f"item {i}", i) for i in range(100)])
        session.advance()
        shown, number = contents_of(view), session._engine.table.store.number

        def refuse(*_: object, **__: object) -> None:
            raise StoreError("no more room")

        for at, name in ((DirectoryStore, "commit"), (local, "parted_states")):
            with monkeypatch.context() as patch:
                patch.setattr(at, name, refuse)
                with pytest.raises(StoreError, match="no more room"):
                    session.reshard(4)
            assert (session.shards, session._engine.table.store.number) == (2, number)
            assert contents_of(view) == shown
        session.insert("trades", [("item 3", 1)])
        session.advance()
        session.reshard(4)
        assert contents_of(view)["item 3", 2, 4] == 1
    with Session(path=tmp_path) as session:
        assert contents_of(session.maintain("total", TOTAL))["item 3", 2, 4] == 1


def test_only_multiples_and_only_with_all_views(tmp_path):
    with Session(path=tmp_path, shards=2) as session:
        session.maintain("total", TOTAL)
        session.advance()
        for wrong in (3, 1, 0):
            with pytest.raises(PlanError, match=r"2 shard\(s\) cannot become"):
                session.reshard(wrong)
        session.reshard(2)
    with Session(path=tmp_path) as session, pytest.raises(StorePlanError, match="also maintains 'total'"):
        session.reshard(4)
