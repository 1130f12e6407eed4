"""``session.merge``: a quiet arrangement becomes small, and nothing that can be read changes."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.engine import idle_merging
from altneu.errors import HistoryGoneError, InputError, PlanError, StepFailedError
from altneu.trace.merging import Merge
from tests.session.short_histories import PLANS, T, changed


def shown(session, views):
    """All that can be read of each view: contents and errors at every time that is retained, and changes."""
    result = {}
    for name, view in views.items():
        times = range(view.since, session.lower)
        moments = [(t, e) for t in times for e in range(4)] if name == "by two times" else times
        at = {t: (sorted(map(str, view.to_pylist(t, errors="ignore"))), view.errors(t).num_rows) for t in moments}
        changes = Counter(map(str, view.changes().to_pylist()))
        since = [] if name == "by two times" else view.changes(since=view.since, net=True).to_pylist()
        result[name] = at, changes, sorted(map(str, since))
    return result


@pytest.mark.sampled(3)
@pytest.mark.parametrize("retain", [None, 2, "all"])
@pytest.mark.parametrize(("kind", "shards"), [("memory", 1), ("memory", 3), ("durable", 1)])
@pytest.mark.parametrize("effort", [3, 10_000])
def test_nothing_that_can_be_read_changes_by_idle_merging(tmp_path, kind, shards, retain, effort, monkeypatch):
    monkeypatch.setattr(idle_merging, "LEAST_EFFORT", 1)

    def opened(name, effort):
        where = {"path": tmp_path / name} if kind == "durable" else {}
        session = an.Session(shards=shards, retain=retain, idle_merge_effort=effort, **where)
        return session, {name: session.maintain(name, plan) for name, plan in PLANS.items()}

    (one, views), (other, merged) = opened("plain", 0), opened("merged", effort)
    rng, held = (random.Random(5), random.Random(5)), (Counter(), Counter())
    for step in range(10):
        for session, own, rows in zip((one, other), rng, held, strict=True):
            changed(session, own, rows)
            session.insert("t", [(9, 9)], time=session.lower + 1)
            for _ in range(own.randrange(4)):
                session.advance()
        if kind == "durable" and step % 5 == 4:
            for session in (one, other):
                session.commit()
                session.close()
            (one, views), (other, merged) = opened("plain", 0), opened("merged", effort)
        assert shown(one, views) == shown(other, merged)
    one.close()
    other.close()
    if kind == "durable":
        assert an.check_store(tmp_path / "merged").problems == ()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("retain", [None, 2, "all"])
@pytest.mark.parametrize(("kind", "shards"), [("memory", 1), ("memory", 3), ("durable", 1)])
def test_nothing_that_can_be_read_changes(tmp_path, kind, shards, retain):
    def opened(name):
        where = {"path": tmp_path / name} if kind == "durable" else {}
        session = an.Session(shards=shards, retain=retain, **where)
        return session, {name: session.maintain(name, plan) for name, plan in PLANS.items()}

    (one, views), (other, merged) = opened("plain"), opened("merged")
    rng, held = (random.Random(7), random.Random(7)), (Counter(), Counter())
    for step in range(12):
        for session, own, rows in zip((one, other), rng, held, strict=True):
            changed(session, own, rows)
            session.advance()
        if step % 3 == 2:
            pending = [(9, 9)]
            for session in (one, other):
                session.insert("t", pending, time=session.lower + 1)
            assert other.merge() >= 0
            assert other.merge() == 0
        if kind == "durable" and step % 5 == 4:
            other.commit()
            other.close()
            other, merged = opened("merged")
            one.commit()
            one.close()
            one, views = opened("plain")
        assert shown(one, views) == shown(other, merged)
    one.close()
    other.close()


def batches(session):
    return {key: (len(state.spine.batches), len(state.spine)) for key, state in session._engine.table.live.items()}


def test_a_quiet_arrangement_becomes_small():
    with an.Session(retain=3) as session:
        view, other = session.maintain("rows", T), session.maintain("other", an.source("o", "k long"))
        for i in range(100):
            session.insert("t", [(i, i)])
            session.retract("t", [(i - 1, i - 1)] if i else [])
            session.advance()
        before = sum(rows for _, rows in batches(session).values())
        for _ in range(10):
            session.insert("o", [(1,)])
            session.advance()
        assert sum(rows for _, rows in batches(session).values()) >= before  # a step does not touch what is quiet
        assert session.merge() > 0
        assert all(count <= 1 for count, _ in batches(session).values())
        assert sum(rows for (name, _), (_, rows) in batches(session).items()) <= 2 + 4
        assert Counter(view.to_pylist()) == Counter([(99, 99)])
        assert len(other.to_pylist()) == 10
        for _ in range(4):
            session.advance()
        session.merge()
        assert session.merge() == 0


def test_history_that_a_reader_needs_stays(tmp_path):
    with an.Session(path=tmp_path) as session:
        view = session.maintain("rows", T)
        session.insert("t", [(1, 1)])
        session.advance()
        with an.read(tmp_path, since=0) as reader:
            for i in range(2, 8):
                session.insert("t", [(i, i)])
                session.advance()
            session.merge()
            reader.refresh()
            assert reader.view("rows").to_pylist(at=0) == [(1, 1)]
            assert reader.view("rows").changes(since=0).num_rows == 6
            assert sorted(view.to_pylist(at=3)) == [(i, i) for i in range(1, 5)]
        session.advance()
        session.merge()
        with pytest.raises(HistoryGoneError):
            view.to_pylist(at=3)
        assert len(view.to_pylist()) == 7
    with an.Session(path=tmp_path) as session:
        commits = session._engine.journal.commits
        assert sorted(session.maintain("rows", T).to_pylist()) == [(i, i) for i in range(1, 8)]
        assert session.merge() == 0
        assert session._engine.journal.commits == commits
    assert an.check_store(tmp_path).problems == ()


def test_at_most_so_many_updates_are_merged():
    with an.Session() as session:
        session.maintain("rows", T)
        session.maintain("few", an.source("o", "k long"))
        for i in range(8):
            session.insert("t", [(i, j) for j in range(100)])
            session.insert("o", [(i,)])
            session.advance()
        session.merge(most=0)
        many = [count for count, rows in batches(session).values() if rows >= 100]
        session.merge(most=50)
        assert [count for count, rows in batches(session).values() if rows < 100] == [1]
        assert [count for count, rows in batches(session).values() if rows >= 100] == many
        session.merge()
        assert all(count == 1 for count, _ in batches(session).values())
        for most in (-1, 1.5, True):
            with pytest.raises(InputError, match="most"):
                session.merge(most)


def merged_rows(monkeypatch):
    """The rows that merges in instalments take from now on, counted as they are taken."""
    counted, advance = [0], Merge.advance

    def counting(self, fuel, slice_rows, since):
        after = advance(self, fuel, slice_rows, since)
        counted[0] += self.remaining - after.remaining
        return after

    monkeypatch.setattr(Merge, "advance", counting)
    return counted


@pytest.mark.parametrize("n", [1_000, 100_000])
@pytest.mark.parametrize("durable", [False, True])
def test_a_drained_arrangement_becomes_nothing_at_a_bounded_effort_for_each_step(tmp_path, monkeypatch, n, durable):
    """A queue that is filled and emptied, and left alone while another source goes on: n rows, and 100 n."""
    effort = n // 5
    where = {"path": tmp_path} if durable else {}
    with an.Session(idle_merge_effort=effort, retain=3, **where) as session:
        view = session.maintain("rows", T)
        session.maintain("other", an.source("o", "k long"))
        session.insert("t", [(i, i) for i in range(n)])
        session.advance()
        for part in range(4):  # the last of them are too few to be merged with the rest by inserts
            size = (n // 2, n // 4, n // 8, n // 8)[part]
            start = (0, n // 2, n // 2 + n // 4, n - n // 8)[part]
            session.retract("t", [(i, i) for i in range(start, start + size)])
            session.advance()
        counted, worst, steps = merged_rows(monkeypatch), 0, 0
        name = next(name for (name, _), (_, rows) in batches(session).items() if rows >= n // 2)
        while batches(session)[name, 0] != (0, 0):
            before = counted[0]
            session.insert("o", [(1,)])
            session.advance()
            worst, steps = max(worst, counted[0] - before), steps + 1
            assert steps < 100
        assert worst <= 2 * effort + 1024  # of the quiet one, and of the other
        assert view.to_pylist() == []
        assert view.errors().num_rows == 0
    if durable:
        with an.Session(path=tmp_path, idle_merge_effort=effort) as session:
            assert session.maintain("rows", T).to_pylist() == []
            session.maintain("other", an.source("o", "k long"))
            session.advance()
        assert an.check_store(tmp_path).problems == ()


def test_what_is_quiet_ends_in_one_batch_and_is_left_alone_then(tmp_path, monkeypatch):
    with an.Session(path=tmp_path, idle_merge_effort=600, retain=2) as session:
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items() if name != "by two times"}
        rng, held = random.Random(3), Counter()
        for _ in range(20):
            for _ in range(3):
                row = rng.randrange(3), rng.randrange(4)
                held[row] += 1
                session.insert("t", [row])
            session.insert_or_update("u", [(rng.randrange(3), rng.choice("xyz"))])
            session.advance()
        assert any(count > 1 for count, _ in batches(session).values())
        for _ in range(150):
            session.advance()
        assert all(count <= 1 for count, _ in batches(session).values())
        assert session.merge() == 0
        assert Counter(views["rows"].to_pylist()) == held
        counted = merged_rows(monkeypatch)
        for _ in range(5):
            session.advance()
        assert counted == [0]
    with an.Session(path=tmp_path, idle_merge_effort=600, retain=2) as session:
        views = {name: session.maintain(name, plan) for name, plan in PLANS.items() if name != "by two times"}
        for _ in range(5):
            session.advance()
        assert counted == [0]  # nor after the store was opened again
        assert Counter(views["rows"].to_pylist()) == held


def test_what_changes_every_few_steps_is_not_merged_again_and_again(monkeypatch):
    with an.Session(idle_merge_effort=1000) as session:
        session.maintain("rows", T)
        session.insert("t", [(i, i) for i in range(20_000)])
        session.advance()
        counted = merged_rows(monkeypatch)
        for i in range(20):
            session.insert("t", [(i, -1)])
            session.advance()
            for _ in range(10):
                session.advance()
        assert counted[0] < 5_000
        for _ in range(50):
            session.advance()
        assert [count for count, _ in batches(session).values() if count > 1] == []


def test_a_step_that_fails_leaves_merges_as_they_were(tmp_path):
    fails = an.source("f", "k long")
    with an.Session(path=tmp_path, idle_merge_effort=2_000) as session:
        view = session.maintain("rows", T)
        session.maintain("fails", fails.group_by().agg(s="sum(k)"))
        for start, size in ((0, 8_000), (8_000, 3_000), (11_000, 1_000)):
            session.insert("t", [(i, i) for i in range(start, start + size)])
            session.advance()
        commit = session._engine.journal.store.commit
        for i in range(40):
            if i % 3 == 1:
                session._engine.journal.store.commit = lambda *_: 1 / 0
                with pytest.raises(StepFailedError):
                    session.advance()
                session._engine.journal.store.commit = commit
            session.advance()
            assert len(view.to_pylist()) == 12_000
        assert all(count <= 1 for count, _ in batches(session).values())
    assert an.check_store(tmp_path).problems == ()


@pytest.mark.parametrize("effort", [-1, 1.5, True, "many"])
def test_the_effort_is_a_whole_number(effort):
    with pytest.raises((InputError, PlanError), match="idle_merge_effort"):
        an.Session(idle_merge_effort=effort)


@pytest.mark.spark
def test_idle_merging_on_spark_too(spark, tmp_path):
    def quiet(session):
        table = session._engine.table
        return all(len(table.descriptions(*key)) <= 1 for key in {**table.stored, **table.live})

    with an.Session(spark, path=tmp_path, placement="spark", retain=1, idle_merge_effort=2_000) as session:
        view = session.maintain("sums", PLANS["sums"])
        session.maintain("other", an.source("o", "k long"))
        for i in range(4):
            session.insert("t", [(k % 7, i) for k in range(50 >> i)])
            session.advance()
        expected = sorted(view.to_pylist())
        assert not quiet(session)
        for i in range(20):
            if i % 8 == 0:
                session.insert("o", [(i,)])
            session.advance()
        assert quiet(session)
        assert sorted(view.to_pylist()) == expected
        session.insert("t", [(1, 9)])
        session.advance()
        assert any(row[0] == 1 and row[3] == 9 for row in view.to_pylist())
    assert an.check_store(tmp_path).problems == ()


@pytest.mark.spark
def test_on_spark_too(spark, tmp_path):
    with an.Session(spark, path=tmp_path, placement="spark") as session:
        view = session.maintain("sums", PLANS["sums"])
        for i in range(4):
            session.insert("t", [(1, i), (2, i)])
            session.advance()
        expected = sorted(view.to_pylist())
        assert session.merge() >= 0
        assert sorted(view.to_pylist()) == expected
        session.insert("t", [(1, 9)])
        session.advance()
        assert (1, 5, 15, 9) in view.to_pylist()
