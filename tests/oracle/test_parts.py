"""A stage run in parts, by ranges of its keys' hashes, makes what it makes when it is run at once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.runtime import local
from altneu.runtime.batch_writer import BatchWriter
from altneu.runtime.parts import Inbox, StageRun
from altneu.trace.update import Updates
from tests.oracle import (
    agree,
    asof_cases,
    calculus_cases,
    delta_joins_cases,
    latest_cases,
    locked_cases,
    loops_cases,
    operators_cases,
)
from tests.oracle import two_times_cases as two_times
from tests.oracle.moments import CalculusJudge
from tests.oracle.parts_cases import in_parts, in_tasks
from tests.oracle.random_plans_cases import Scene
from tests.oracle.runners import Judge, Runner

MODULES = [operators_cases, loops_cases, latest_cases, locked_cases, asof_cases, delta_joins_cases]


def check(runner: Runner, module: Any, few: int) -> None:
    end = 1 + max(t for updates in module.HISTORY.values() for _, t, _ in updates)
    names = random.Random(few).sample(sorted(module.PLANS), min(few, len(module.PLANS)))
    module.JUDGE.run(runner, module.SOURCES, [end // 2, end], names)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2].removesuffix("_cases"))
def test_every_operator(module):
    few = {operators_cases: 9, asof_cases: 1, locked_cases: 1}.get(module, 2)
    check(Runner("parts", in_parts(random.Random(1)), ahead=True), module, few)


@pytest.mark.parametrize("module", MODULES[:-1], ids=lambda m: m.__name__.rpartition(".")[2].removesuffix("_cases"))
def test_every_operator_in_tasks(module, tmp_path_factory):
    few = 2 if module is operators_cases else 1
    check(Runner("tight", in_tasks(400), lambda: tmp_path_factory.mktemp("store"), together=True), module, few)


def test_two_times():
    two_times.check_on(Runner("parts", in_parts(random.Random(4))), "count")


def test_moments():
    _, history = calculus_cases.histories(5, cases=2)
    few = {name: calculus_cases.PLANS[name] for name in calculus_cases.FEW}
    judge = CalculusJudge(few, history)
    runner = Runner("parts", in_parts(random.Random(2)), ahead=True, together=True)
    for name, trace in runner.run(few, calculus_cases.SOURCES, history, [2, calculus_cases.TIMES + 1]).items():
        judge.check(name, trace)


@pytest.mark.parametrize("bits", [9, 11])
def test_collisions(bits, tmp_path_factory):
    """Of a key whose hash is one of few a part is not made less; blocks that tell of collisions go on telling."""
    with hash_bits(bits):
        runner = Runner("tight", in_tasks(300), lambda: tmp_path_factory.mktemp("store"))
        Scene(41).check(runner)


class Twice(StageRun):
    """A run of a stage that is made at once and in parts, and compared."""

    parts = 0

    def sent(self):
        actual = self.inbox
        whole = StageRun(*self._given(Inbox(self.plan, None)), BatchWriter())
        small = Inbox(self.plan, 1 if self.plan.in_parts(self.stage) else None)
        for port, messages in actual.all().items():
            for message in messages:
                whole.inbox.add(port, message)
                small.add(port, message)
        parted = StageRun(*self._given(small), BatchWriter(200))
        sent = [list(run.sent()) for run in (whole, parted)]
        assert summed_messages(sent[0]) == summed_messages(sent[1])
        outcomes = whole.outcome, parted.outcome
        states = [{key: kept(state) for key, state in outcome.states.items()} for outcome in outcomes]
        assert states[0] == states[1]
        news = [{n: summed([b.updates()]) for n, (b,) in outcome.new.items() if len(b)} for outcome in outcomes]
        assert news[0] == news[1]
        taps = [{n: summed(parts) for n, parts in outcome.inspected.items()} for outcome in outcomes]
        assert taps[0] == taps[1]
        Twice.parts += parted.inbox.spill is not None
        chosen = random.Random(self.stage + self.shard).choice([0, 1])
        self.outcome = outcomes[chosen]
        yield from sent[chosen]

    def _given(self, inbox):
        return self.plan, self.stage, self.shard, self.snapshot, inbox, self.region, self.mode


def summed(parts: Iterable[Updates]) -> Counter[Any]:
    """What updates add up to, row by row and time by time."""
    found: Counter[Any] = Counter()
    for part in parts:
        for row, time, diff in zip(part.rows.to_pylist(), part.times.T.tolist(), part.diffs.tolist(), strict=True):
            found[repr(row), tuple(time)] += diff
    return Counter({key: diff for key, diff in found.items() if diff})


def summed_messages(sent: Iterable[Any]) -> dict[Any, Counter[Any]]:
    """What messages add up to, for each shard and channel."""
    found: dict[Any, list[Updates]] = {}
    for shard, channel, message in sent:
        updates = message if isinstance(message, Updates) else message.new.updates()
        found.setdefault((shard, channel), []).append(updates)
    return {place: rows for place, parts in found.items() if (rows := summed(parts))}


def kept(state: Any) -> tuple[Counter[Any], Counter[Any]]:
    """What a state has that can be read, and what it holds by round."""
    held = summed([state.future.updates()])
    return summed(batch.updates() for batch in state.spine.batches), held


@pytest.mark.parametrize("seed", range(3))
def test_in_parts_and_at_once_are_the_same(seed, monkeypatch):
    """The law: whichever way each stage of a step goes, it sends, keeps and shows the same."""
    monkeypatch.setattr(local, "StageRun", Twice)
    monkeypatch.setattr(Twice, "parts", 0)
    Scene(seed + 60).check(Runner("twice", lambda _: Session(shards=2), ahead=bool(seed % 2)))
    assert Twice.parts > 3


@pytest.mark.parametrize("family", agree.FAMILIES[1:4], ids=lambda family: family.name)
def test_rounds_in_parts_and_at_once_are_the_same(family, monkeypatch):
    monkeypatch.setattr(local, "StageRun", Twice)
    monkeypatch.setattr(Twice, "parts", 0)
    batch = replace(agree.Batch.draw(random.Random(family.name), 4), cuts=[3, 9])
    runner = Runner("twice", lambda _: Session(shards=2, retain=batch.retain), ahead=batch.ahead)
    trace = runner.run({family.name: family.plan}, agree.SOURCES, batch.history, batch.cuts)[family.name]
    Judge({family.name: family.plan}, batch.history).check(family.name, trace)
    assert Twice.parts > 3
