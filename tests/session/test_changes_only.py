"""Views without contents: what changes in them is told as of any other view, and nothing of their result is kept."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.engine.reading import snapshot
from altneu.errors import (
    HistoryGoneError,
    HydrationError,
    PlanError,
    ReadError,
    StorePlanError,
)
from altneu.store import forget_segments

READINGS = an.source("readings", "sensor long, degrees long")
OTHER = an.source("other", "k long")
HOT = READINGS.filter("degrees > 90")
SUMS = READINGS.group_by("sensor").agg(total="sum(degrees)", n="count(*)")
RATIOS = READINGS.select("sensor", ratio="1000 / degrees")


def counted(table, *times: str) -> Counter:
    """The rows of a table of changes, added up."""
    actual = Counter()
    for row in table.to_pylist():
        diff = row.pop("diff")
        for name in ("time", *times):
            row.pop(name, None)
        actual[tuple(row.values())] += diff
    return Counter({row: n for row, n in actual.items() if n})


def kept(session: an.Session, name: str) -> int:
    """Updates that are kept of a view's result, whether they wait or are there."""
    return session._engine.table.rows(session._engine.ports(name).contents)


def stored_batches(session: an.Session, name: str) -> list:
    """The batches of a view's result that the last commit names."""
    state, contents = session.store.state, session._engine.ports(name).contents
    return [b for key, value in state.items() if key.startswith(f"arrangement/{contents}/") for b in value["batches"]]


ON_SPARK = [pytest.param(placement, marks=pytest.mark.spark) for placement in ("spark", "driver")]


@pytest.fixture(params=["memory", "store", "shards", *ON_SPARK])
def session(request, tmp_path):
    options = {"memory": {}, "store": {"path": tmp_path / "s"}, "shards": {"path": tmp_path / "s", "shards": 3}}
    if request.param in options:
        result = an.Session(**options[request.param])
    else:
        result = an.Session(request.getfixturevalue("spark"), placement=request.param, shards=2)
    with result:
        yield result


# what is told ---------------------------------------------------------------------------------------------------------


def test_changes_subscriptions_and_counts_are_those_of_a_view_with_contents(session):
    plain = session.maintain("plain", SUMS)
    view = session.maintain("sums", SUMS, contents=False)
    answer, added = [], Counter()
    view.subscribe(lambda row, time, diff: answer.append((*row, time, diff)))
    for step in range(4):
        session.insert("readings", [(k, 10 * step + k) for k in range(3)])
        if step:
            session.retract("readings", [(0, 10 * step - 10)])
        result = session.advance(session.lower + 1 + step)
        assert result.changes_out["sums"] == result.changes_out["plain"] == view.changes().num_rows
        added += counted(view.changes())
        added = Counter({row: n for row, n in added.items() if n})
    assert Counter(dict.fromkeys(plain.to_pylist(), 1)) == Counter({row: n for row, n in added.items() if n > 0})
    again = Counter()
    for *row, _, diff in answer:
        again[tuple(row)] += diff
    assert {row: n for row, n in again.items() if n} == dict(added)
    assert (view.changes_only, plain.changes_only) == (True, False)


def test_negative_counts_are_reported_as_they_are(session):
    view = session.maintain("hot", HOT, contents=False)
    session.retract("readings", [(1, 95)])
    session.advance()
    assert view.changes().to_pylist() == [{"sensor": 1, "degrees": 95, "time": 0, "diff": -1}]
    assert view.errors().num_rows == 0
    session.insert("readings", [(1, 95)], diff=2)
    session.advance()
    assert counted(view.changes()) == {(1, 95): 2}


def test_an_error_is_kept_until_its_cause_is_removed_and_the_row_appears_then(session):
    view = session.maintain("ratios", RATIOS, contents=False)
    session.insert("readings", [(1, 0), (2, 10)])
    session.advance()
    assert counted(view.changes()) == {(2, 100.0): 1}
    assert [row["code"] for row in view.errors().to_pylist()] == ["DIVIDE_BY_ZERO"]
    session.retract("readings", [(1, 0)])
    session.insert("readings", [(1, 20)])
    session.advance()
    assert counted(view.changes()) == {(1, 50.0): 1}
    assert view.errors().num_rows == 0


def test_future_rows_are_changes_when_their_time_is_reached(session):
    view = session.maintain("hot", HOT, contents=False)
    session.insert("readings", [(1, 95)], time=5)
    session.advance()
    assert (view.changes().num_rows, kept(session, "hot")) == (0, 1)
    session.advance(to=8)
    assert view.changes().to_pylist() == [{"sensor": 1, "degrees": 95, "time": 5, "diff": 1}]
    session.advance()
    assert kept(session, "hot") == 0


def test_rows_that_expire_are_changes_of_a_late_view_too():
    source = an.source("s", "k long, until long", keep=True)
    live = source.filter("logical_now() < until")
    with an.Session() as session:
        session.maintain("all", source)
        session.insert("s", [(1, 4), (2, 9)])
        session.advance(to=2)
        view = session.maintain("live", live, contents=False)
        session.advance(to=6)
        assert view.changes().to_pylist() == [{"k": 1, "until": 4, "time": 4, "diff": -1}]


def test_history_is_told_apart_as_long_as_it_is_retained_and_no_longer(tmp_path):
    for path in (None, tmp_path / "s"):
        with an.Session(path=path, retain=10) as session:
            view = session.maintain("hot", HOT, contents=False)
            for time in range(100):
                session.insert("readings", [(time, 99)])
                session.advance()
                assert kept(session, "hot") <= 40
            for since in range(view.since, 100):
                assert counted(view.changes(since=since)) == {(t, 99): 1 for t in range(since + 1, 100)}
            with pytest.raises(HistoryGoneError):
                view.changes(since=view.since - 1)
            session.advance(to=400)
            assert kept(session, "hot") == 0


def test_a_long_advance_keeps_the_end_of_it():
    with an.Session(retain=5) as session:
        view = session.maintain("hot", HOT, contents=False)
        session.insert("readings", [(time, 99) for time in range(1000)], time="sensor")
        session.advance(to=1000)
        assert view.since == 994
        assert kept(session, "hot") == 5
        assert counted(view.changes(since=994)) == {(t, 99): 1 for t in range(995, 1000)}
        assert view.changes().num_rows == 1000


def test_a_subscription_that_raises_has_its_changes_given_again():
    given, fails = [], [True]

    def on_change(row, time, diff):
        if fails:
            raise ValueError
        given.append((row.sensor, time))

    with an.Session() as session:
        session.maintain("hot", HOT, contents=False).subscribe(on_change)
        for k in range(3):
            session.insert("readings", [(k, 99)])
            with pytest.raises(ValueError, match="delivers its time again"):
                session.advance()
        fails.clear()
        session.advance()
        assert given == [(0, 0), (1, 1), (2, 2)]
        session.advance()
        session.advance()
        assert kept(session, "hot") == 0


def test_a_reader_has_the_changes_it_asks_for(tmp_path):
    with an.Session(path=tmp_path / "s", shards=2) as session:
        session.maintain("hot", HOT, contents=False)
        session.insert("readings", [(0, 99)])
        session.advance()
        with an.read(tmp_path / "s", since=0) as reader:
            tables = reader.view("hot").subscribe(form="arrow")
            for k in range(1, 4):
                session.insert("readings", [(k, 99)])
                session.advance()
            reader.refresh()
            assert counted(reader.view("hot").changes(since=0)) == {(k, 99): 1 for k in range(1, 4)}
            assert [t.column("time").to_pylist() for t in tables] == [[1], [2], [3]]
            for read in (
                reader.view("hot").to_pylist,
                reader.view("hot").df,
                lambda: reader._readings.pieces("hot", 3),
            ):
                with pytest.raises(ReadError, match="contents=False"):
                    read()


# what is kept ---------------------------------------------------------------------------------------------------------


def test_nothing_is_kept_of_the_result_once_since_has_moved_also_if_nothing_touches_the_view(session):
    session.maintain("hot", HOT, contents=False)
    session.maintain("other", OTHER)
    session.insert("readings", [(k, 99) for k in range(2000)])
    session.advance()
    assert kept(session, "hot") == 2000  # since is 0, and all of history is told apart
    session.insert("other", [1])
    step = session.advance()
    assert kept(session, "hot") == 0
    assert step.state_rows == 1
    assert stored_batches(session, "hot") == []


def work(n: int) -> tuple[list[int], int, int]:
    """Rows into each operator in a step of one row, beside n that came before; rows kept of the result; bytes told."""
    with an.Session() as session:
        view = session.maintain("hot", HOT, contents=False)
        session.insert("readings", [(k, 99) for k in range(n)])
        session.advance()
        session.insert("readings", [(-1, 99)])
        session.advance()
        session.insert("readings", [(-2, 99)])
        session.advance()
        operators = session.explained("hot").operators
        return [o.last.rows_in for o in operators], kept(session, "hot"), view.changes().nbytes


def test_the_cost_of_a_step_and_its_state_do_not_follow_earlier_input():
    small, large = work(100), work(10_000)
    assert small == large
    assert small[:2] == ([1, 1, 1], 0)


def test_a_view_with_contents_beside_it_has_its_own(session):
    session.maintain("hot", HOT, contents=False)
    view = session.maintain("same", HOT)
    upon = session.maintain("upon", HOT.count())
    session.insert("readings", [(1, 95), (2, 10), (3, 99)])
    session.advance()
    session.advance()
    assert (kept(session, "hot"), kept(session, "same")) == (0, 2)
    assert Counter(view.to_pylist()) == {(1, 95): 1, (3, 99): 1}
    assert Counter(upon.to_pylist()) == {(1, 95, 1): 1, (3, 99, 1): 1}
    session.drop("hot")
    session.insert("readings", [(4, 99)])
    session.advance()
    assert len(view.to_pylist()) == 3


def test_a_late_view_is_computed_from_what_is_kept_or_refused():
    with an.Session() as session:
        session.maintain("sums", SUMS, contents=False)
        session.maintain("hot", HOT, contents=False)
        session.insert("readings", [(1, 95), (2, 10)])
        session.advance()
        late = session.maintain("late", SUMS)  # the sums themselves are kept
        assert Counter(late.to_pylist()) == {(1, 95, 1): 1, (2, 10, 1): 1}
        for collection in (HOT, HOT.count()):
            with pytest.raises(HydrationError, match=r"views 'sums', 'hot' are maintained without contents"):
                session.maintain("never", collection)
        session.advance()
        assert len(late.to_pylist()) == 2


def test_rows_that_are_given_once_more_fill_a_view_beside_one_without_contents():
    with an.Session() as session:
        hot = session.maintain("hot", HOT, contents=False)
        session.insert("readings", [(1, 95), (2, 10)])
        session.advance()
        session.backfill("readings", [(1, 95), (2, 10)])
        late = session.maintain("late", HOT)
        assert late.to_pylist() == [(1, 95)]
        session.retract("readings", [(1, 95)])
        session.advance()
        assert (late.to_pylist(), counted(hot.changes())) == ([], {(1, 95): -1})
        session.advance()
        assert kept(session, "hot") == 0


def test_a_late_view_without_contents_begins_with_the_next_changes():
    with an.Session() as session:
        session.maintain("all", READINGS)
        session.insert("readings", [(1, 95)])
        session.advance(to=5)
        view = session.maintain("sums", SUMS, contents=False)
        assert view.changes().num_rows == 0
        session.insert("readings", [(1, 5)])
        session.advance()
        assert counted(view.changes()) == {(1, 95, 1): -1, (1, 100, 2): 1}
        assert kept(session, "sums") == 0


def test_views_of_one_plan_share_arrangements_and_are_dropped_one_by_one():
    with an.Session(retain="all") as session:
        first, second = (session.maintain(name, HOT, contents=False) for name in ("a", "b"))
        assert session._engine.ports("a") == session._engine.ports("b")
        session.insert("readings", [(1, 95)])
        session.advance()
        session.drop("a")
        session.advance()
        assert counted(second.changes(since=-1)) == {(1, 95): 1}
        with pytest.raises(PlanError, match="no view 'a'"):
            first.changes()


# stores ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("retain", [None, 2, "all"])
def test_a_store_that_is_opened_again_or_parted_goes_on(tmp_path, retain):
    path, added = tmp_path / "s", Counter()
    for life in range(4):
        forget_segments()
        with an.Session(path=path, retain=retain, shards=1 if life < 2 else None) as session:
            view = session.maintain("sums", SUMS, contents=False)
            if life == 2:
                session.reshard(3)
            for step in range(3):
                session.insert("readings", [(k, life + step) for k in range(4)])
                session.advance()
                added.update(counted(view.changes()))
            if retain == "all":
                again = counted(view.changes(since=-1))
                assert again == {row: n for row, n in added.items() if n}
            if retain is None:
                assert kept(session, "sums") == 0
    assert an.check_store(path).problems == ()
    assert {row: n for row, n in added.items() if n} == {(k, 36 - 6, 12): 1 for k in range(4)}


def test_a_view_stays_as_it_was_created(tmp_path):
    with an.Session(path=tmp_path / "s") as session:
        session.maintain("hot", HOT, contents=False)
        session.maintain("sums", SUMS)
        session.maintain("hot", HOT, contents=False)
        with pytest.raises(PlanError, match="'hot' is maintained without contents"):
            session.maintain("hot", HOT)
        with pytest.raises(PlanError, match="'sums' is maintained with contents"):
            session.maintain("sums", SUMS, contents=False)
        with pytest.raises(PlanError, match="must be True or False, got 'no'"):
            session.maintain("other", HOT, contents="no")
        session.insert("readings", [(1, 95)])
        session.advance()
    with an.Session(path=tmp_path / "s") as session:
        with pytest.raises(StorePlanError, match="'hot' is maintained without contents"):
            session.maintain("hot", HOT)
        with pytest.raises(StorePlanError, match="'sums' is maintained with contents"):
            session.maintain("sums", SUMS, contents=False)
        view = session.maintain("hot", HOT, contents=False)
        session.maintain("sums", SUMS)
        assert counted(view.changes()) == {(1, 95): 1}
        session.drop("hot")
        with pytest.raises(HydrationError):
            session.maintain("hot", HOT)


# what is refused ------------------------------------------------------------------------------------------------------


def test_reading_is_refused_by_name(session):
    view = session.maintain("hot", HOT, contents=False)
    session.insert("readings", [(1, 95)])
    session.advance()
    reads = [
        view.to_pylist,
        view.to_arrow,
        view.df,
        lambda: view.to_pylist(at=0),
        lambda: view.to_arrow(errors="ignore"),
        lambda: view.explain_row((1, 95)),
        lambda: view.subscribe(snapshot=True),
    ]
    for read in reads:
        with pytest.raises(ReadError, match=r"view 'hot' (is maintained with|has) contents=False"):
            read()
    assert list(view.subscribe()) == []
    assert view.errors(at=0).num_rows == 0


def test_explain_says_that_nothing_is_kept():
    nothing = "nothing of (sensor, degrees) but future updates and retained history"
    with an.Session() as session:
        session.maintain("hot", HOT, contents=False)
        text = session.explain("hot")
        assert text.startswith("view hot\n  changes  [key: sensor, degrees;")
        assert f"exchange: sensor, degrees; state: {nothing}, 0 updates" in text
        assert session.explained("hot").operators[-1].state == nothing
        assert "keeps: nothing of" in session.explain("hot", form="svg")


def test_views_of_two_times_and_of_loops(tmp_path):
    two = an.source("two", "k long", time=("system", "event"))
    edges = an.source("edges", "a long, b long")
    reach = edges.iterate(lambda r: r.join(edges, on={"b": "a"}).select("a", b="right.b").concat(edges).distinct())
    with an.Session(path=tmp_path / "s") as session:
        plain = session.maintain("plain", reach)
        views = [session.maintain("two", two, contents=False), session.maintain("reach", reach, contents=False)]
        session.insert("two", [(1, 7), (2, 9)], time=(None, "event"))
        added = Counter()
        for edge in ((1, 2), (2, 3), (3, 1), (3, 4)):
            session.insert("edges", [edge])
            session.advance()
            added.update(counted(views[1].changes()))
            if session.lower == 1:
                assert sorted(views[0].changes().column("event").to_pylist()) == [7, 9]
        assert Counter(plain.to_pylist()) == {row: n for row, n in added.items() if n}
        assert (kept(session, "two"), kept(session, "reach")) == (0, 0)
        with pytest.raises(ReadError, match="contents=False"):
            views[0].to_pylist(at=(2, 8))
        assert snapshot(session._engine.table, session._engine.ports("two").contents, 3).rows.count == 0
