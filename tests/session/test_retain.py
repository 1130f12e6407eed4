"""``maintain(retain=)``: one view keeps its history readable while that of the others is compacted."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, InputError, PlanError
from tests.session.short_histories import PLANS, T, changed


def shown(name, view, times):
    """All that can be read of a view at times: contents, errors and changes."""
    moments = [(t, e) for t in times for e in range(4)] if name == "by two times" else times
    at = {t: (sorted(map(str, view.to_pylist(t, errors="ignore"))), view.errors(t).num_rows) for t in moments}
    since = [] if name == "by two times" else view.changes(since=times[0], net=True).to_pylist()
    return at, sorted(map(str, since))


def check(session, view, name, reference, least):
    """A view can be read from ``least`` on, and answers as one of a session that retains everything."""
    assert view.since == max(least, 0)
    times = range(max(least, 0), session.lower)
    assert shown(name, view, times) == shown(name, reference, times)
    if least > 0:
        with pytest.raises(HistoryGoneError, match=f"can be read from {least} to"):
            view.to_pylist((least - 1, 0) if name == "by two times" else least - 1)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("retain", [4, "all"])
@pytest.mark.parametrize("own", ["memory", "shards", "durable", "merged", "idle"])
def test_a_view_answers_at_all_times_that_it_retains(tmp_path, own, retain):
    options = {"shards": 3} if own == "shards" else {"idle_merge_effort": 5_000} if own == "idle" else {}
    where = {"path": tmp_path} if own in ("durable", "idle") else {}
    rng, held = (random.Random(7), random.Random(7)), (Counter(), Counter())
    retained = ["joined", "fails", "reach", "by two times", "for a while"]

    def opened():
        session = an.Session(**where, **options)
        kept = dict.fromkeys(retained, retain) if session.lower == 0 else {}  # a store remembers it
        return session, {name: session.maintain(name, plan, retain=kept.get(name)) for name, plan in PLANS.items()}

    with an.Session(retain="all") as reference:
        expected = {name: reference.maintain(name, plan) for name, plan in PLANS.items()}
        session, views = opened()
        for step in range(12):
            for one, own_rng, rows in zip((session, reference), rng, held, strict=True):
                changed(one, own_rng, rows)
                one.advance()
            if own == "merged" and step % 3 == 2:
                session.merge()
            if where and step % 5 == 4:
                session.close()
                session, views = opened()
            for name, view in views.items():
                last = session.lower - 1
                least = last if name not in retained else 0 if retain == "all" else last - retain
                check(session, view, name, expected[name], least)
        session.close()
    if where:
        assert an.check_store(tmp_path).problems == ()


def test_queries_of_retained_views_are_answered_at_earlier_times():
    with an.Session() as session, an.Session(retain="all") as reference:
        for one, retain in ((session, "all"), (reference, None)):
            one.sql("CREATE SOURCE t (k BIGINT, v BIGINT)")
            own = "WITH (RETAIN = 'ALL')" if retain else ""
            one.sql(f"CREATE MATERIALIZED VIEW sums {own} AS SELECT k, sum(v) AS s FROM t GROUP BY k")
            one.sql("CREATE MATERIALIZED VIEW other AS SELECT k, max(v) AS m FROM t GROUP BY k")
            for i in range(8):
                one.sql(f"INSERT INTO t VALUES ({i % 3}, {i})")
                one.advance()
        start = session.view("sums").since
        assert start == 0
        queries = [
            "SELECT * FROM sums",
            "SELECT s FROM sums WHERE k = 1",
            "SELECT count(*) AS n FROM sums",
            "SELECT k FROM sums WHERE s > 3",
            "SELECT max(s) AS m FROM sums",
            "SELECT k FROM sums WHERE s = 4",
            "SELECT a.k, b.s FROM sums AS a JOIN sums AS b ON a.k = b.k",
        ]
        # another arrangement of the same rows, which came later and has less history, is not taken for them
        for one in (session, reference):
            sums = one.collections["sums"]
            one.maintain("again", sums.join(sums.select("k", t="s"), on={"s": "t"}))
        for at in range(start, session.lower):
            for query in queries:
                rows = [sorted(map(str, one.sql(f"{query} AS OF {at}").to_pylist())) for one in (session, reference)]
                assert rows[0] == rows[1], (query, at)
            large = [one.collections["sums"].filter("s >= 2") for one in (session, reference)]
            rows = [one.peek(c, at).to_pylist() for one, c in zip((session, reference), large, strict=True)]
            assert sorted(map(str, rows[0])) == sorted(map(str, rows[1]))
            for row in (1, {"s": 4}):
                assert session.view("sums").get(row, at=at) == reference.view("sums").get(row, at=at)
        for query in ("SELECT * FROM other", "SELECT sums.k, m FROM sums JOIN other ON sums.k = other.k"):
            assert session.sql(query).to_pylist()
            with pytest.raises(HistoryGoneError, match=f"can be read from {session.lower - 1} to"):
                session.sql(f"{query} AS OF {session.lower - 2}").to_pylist()


def states(session):
    """The updates of each arrangement."""
    return {name: len(state.spine) for (name, _), state in session._engine.table.live.items()}


def test_only_the_contents_and_errors_of_the_view_keep_history():
    sums = {}
    for own in (None, "all"):
        with an.Session() as session:
            view = session.maintain("sums", T.group_by("k").agg(s="sum(v)", n="count(*)"), retain=own)
            session.maintain("rows", T)
            for _ in range(300):
                session.insert("t", [(1, 1)])
                session.advance()
            session.merge()
            contents = session._engine.ports("sums").contents
            sums[own] = states(session)[contents], sum(n for name, n in states(session).items() if name != contents)
            assert view.since == (0 if own else 299)
    assert sums[None][0] == 1
    assert sums["all"][0] == 2 * 300 - 1
    assert sums["all"][1] == sums[None][1]  # no other state keeps any


def test_readers_of_a_store_obey_it(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.maintain("sums", PLANS["sums"], retain=3)
        session.maintain("rows", T)
        for i in range(8):
            session.insert("t", [(i % 2, i)])
            session.advance()
        with an.read(tmp_path) as reader:
            view, own = reader.view("sums"), session.view("sums")
            assert view.since == own.since == 4
            for at in range(4, 8):
                assert sorted(view.to_pylist(at)) == sorted(own.to_pylist(at))
                assert view.get({"k": 1}, at=at) == own.get({"k": 1}, at=at)
            assert view.changes(since=4, net=True).num_rows == own.changes(since=4, net=True).num_rows > 0
            assert reader.view("rows").since == 7


def test_it_is_changed_and_ended(tmp_path):
    with an.Session(path=tmp_path) as session:
        view = session.maintain("rows", T)
        same = session.maintain("same", T, retain=2)  # of the same contents
        for i in range(6):
            session.insert("t", [(i, i)])
            session.advance()
        assert (view.since, same.since) == (5, 3)
        session.maintain("rows", T, retain="all")  # what is gone for it does not come back
        session.advance()
        assert (view.since, same.since) == (5, 4)
    with an.Session(path=tmp_path) as session:
        view, same = session.maintain("rows", T), session.maintain("same", T, retain=0)
        for _ in range(3):
            session.advance()
        assert (view.since, same.since) == (5, 9)
        assert sorted(view.to_pylist(5)) == [(i, i) for i in range(6)]
        with pytest.raises(InputError, match="retain="):
            session.backfill("t", [(i, i) for i in range(6)])
        session.maintain("rows", T, retain=0)
        assert view.since == 9
        late = session.maintain("late", T.select("k"), retain=5)
        for _ in range(3):
            session.advance()
        assert (view.since, late.since) == (12, 9)
        for retain in (-1, 1.5, True, "some"):
            said = f'retain must be a whole number of at least 0, or "all", got {retain!r}'
            with pytest.raises(PlanError, match=re.escape(said)):
                session.maintain("rows", T, retain=retain)


def test_changes_of_a_view_without_contents_are_kept():
    with an.Session() as session:
        view = session.maintain("rows", T, contents=False, retain=3)
        for i in range(8):
            session.insert("t", [(i, i)])
            session.advance()
        assert view.since == 4
        assert [row["k"] for row in view.changes(since=4).to_pylist()] == [5, 6, 7]
        with pytest.raises(HistoryGoneError, match="since 4"):
            view.changes(since=3)
        assert session.advance().state_rows <= 4


@pytest.mark.spark
def test_on_spark_too(spark, tmp_path):
    with (
        an.Session(spark, path=tmp_path, placement="spark") as session,
        an.Session(retain="all") as reference,
    ):
        view = session.maintain("sums", PLANS["sums"], retain=2)
        expected = reference.maintain("sums", PLANS["sums"])
        for i in range(5):
            for one in (session, reference):
                one.insert("t", [(1, i), (2, i)])
                one.advance()
        assert view.since == 2
        for at in range(2, 5):
            assert sorted(view.to_pylist(at)) == sorted(expected.to_pylist(at))
        with pytest.raises(HistoryGoneError):
            view.to_pylist(1)
