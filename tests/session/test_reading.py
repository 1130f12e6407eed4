"""Reading views: contents at a time, changes of the last advance, errors, and what cannot be answered."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, NotYetKnownError, PlanError, ReadError, SchemaError, ViewHasErrorsError
from altneu.testing import assert_changes

NUMBERS = an.source("n", "k long, v long")


def counts(view, at=None):
    return Counter(view.to_pylist(at))


@pytest.fixture
def session():
    with an.Session() as session:
        yield session


def grow(session, steps):
    """One more row at every time; at time t there are t + 1."""
    for _ in range(steps):
        session.insert("n", [(1, session.lower)])
        session.advance()


def test_only_the_present_is_retained_by_default(session):
    view = session.maintain("v", NUMBERS)
    grow(session, 5)
    assert view.since == 4
    assert sum(counts(view).values()) == sum(counts(view, 4).values()) == 5
    with pytest.raises(
        HistoryGoneError, match=r"at=3 is no longer retained: view 'v' can be read from 4 to 4; .*retain"
    ):
        view.to_arrow(at=3)
    with pytest.raises(NotYetKnownError, match=r"at=5 is not closed yet: .* is 4; advance\(to=6\) closes it"):
        view.to_arrow(at=5)


@pytest.mark.parametrize("retain", [1, 3, "all"])
def test_a_session_retains_as_much_history_as_configured(retain):
    with an.Session(retain=retain) as session:
        view, total = session.maintain("v", NUMBERS), session.maintain("sum", NUMBERS.group_by("k").agg(s="sum(v)"))
        grow(session, 30)
        first = 0 if retain == "all" else 29 - retain
        assert view.since == first
        for at in range(first, 30):
            assert counts(view, at) == Counter((1, v) for v in range(at + 1))
            assert total.to_pylist(at) == [(1, sum(range(at + 1)))]
        if first:
            with pytest.raises(HistoryGoneError):
                view.to_arrow(at=first - 1)


def test_history_that_nobody_can_read_is_compacted():
    """The progress law of compaction: a row toggled a thousand times is no more state than one that never was."""
    kept = {}
    for retain in (None, "all"):
        with an.Session(retain=retain) as session:
            session.maintain("v", NUMBERS)
            for i in range(1000):
                session.insert("n", [(1, 1)], diff=1 if i % 2 == 0 else -1)
                step = session.advance()
            kept[retain] = step.state_rows
    assert kept[None] <= 16
    assert kept["all"] == 1000


def test_changes_are_those_of_the_last_advance_and_no_more(session):
    view = session.maintain("v", NUMBERS.group_by("k").agg(s="sum(v)"))
    assert view.changes().num_rows == 0
    session.insert("n", [(1, 5, 0), (1, 6, 2), (1, 0, 3)], time="t")
    session.advance(to=4)
    assert_changes(view, [(1, 5, 0, 1), (1, 5, 2, -1), (1, 11, 2, 1)])
    session.advance()
    assert view.changes().num_rows == 0
    session.retract("n", [(1, 5), (1, 6), (1, 0)])
    assert session.advance().changes_out == {"v": 1}
    assert_changes(view, [(1, 11, 5, -1)])


def test_control_columns_of_changes_may_be_renamed(session):
    view = session.maintain("v", an.source("e", "time string, x long"))
    session.insert("e", [("noon", 1)])
    session.advance()
    with pytest.raises(SchemaError, match=r"has a column 'time'; name the control columns: changes\(time_column"):
        view.changes()
    assert view.changes(time_column="at").to_pylist() == [{"time": "noon", "x": 1, "at": 0, "diff": 1}]


def test_rows_come_as_often_as_they_count(session):
    view = session.maintain("v", NUMBERS)
    session.insert("n", [(1, 1), (2, 2)], diff=3)
    session.advance()
    assert view.to_arrow().num_rows == 6
    assert view.to_arrow().schema == view.schema


def test_a_row_retracted_that_was_never_there_is_an_error_until_it_comes(session):
    view, counted = session.maintain("v", NUMBERS), session.maintain("c", NUMBERS.count())
    session.insert("n", [(1, 1)])
    session.retract("n", [(2, 2)])
    session.advance()
    with pytest.raises(ViewHasErrorsError, match=r"1 error\(s\):\n  view v: NEGATIVE_MULTIPLICITY: .*\(row {\"k\": 2"):
        view.to_arrow()
    with pytest.raises(ViewHasErrorsError):
        view.to_pylist()
    assert view.to_pylist(errors="ignore") == [(1, 1)]
    assert counts(counted) == Counter([(1, 1, 1), (2, 2, -1)])
    session.insert("n", [(2, 2)])
    session.advance()
    assert view.to_pylist() == [(1, 1)]
    assert view.errors().num_rows == 0


def test_reading_asks_for_errors_to_be_raised_or_ignored(session):
    view = session.maintain("v", NUMBERS)
    with pytest.raises(ReadError, match="errors must be"):
        view.to_arrow(errors="hide")


def test_a_local_session_has_no_spark_dataframes(session):
    view = session.maintain("v", NUMBERS)
    with pytest.raises(ReadError, match=r"no Spark; read the view with to_arrow"):
        view.df()


def test_names_of_views(session):
    view = session.maintain("v", NUMBERS)
    assert session.view("v").schema == view.schema
    assert session.views == ["v"]
    assert repr(view) == "View(v: k bigint, v bigint)"
    with pytest.raises(PlanError, match="no view 'w'; the views are: v"):
        session.view("w")


def test_a_closed_session_says_so():
    session = an.Session()
    view = session.maintain("v", NUMBERS)
    session.close()
    session.close()
    for use in (
        view.to_arrow,
        session.advance,
        lambda: session.insert("n", []),
        lambda: session.maintain("w", NUMBERS),
    ):
        with pytest.raises(ReadError, match="this session is closed"):
            use()


def test_steps_say_what_they_did(session):
    session.maintain("v", NUMBERS)
    session.maintain("s", NUMBERS.group_by("k").agg(s="sum(v)"))
    session.insert("n", [(1, 1), (1, 2), (2, 5)])
    step = session.advance(to=3)
    assert (step.lower, step.upper, step.changes_in, step.placement) == (0, 3, 3, "driver")
    assert step.changes_out == {"v": 3, "s": 2}
    assert step.seconds > 0
    assert step.state_rows == sum(len(s.spine) for s in session._engine.table.live.values())


def test_inspect_is_shown_every_update_after_the_commit(session):
    seen = []
    view = session.maintain("v", NUMBERS.filter("v > 0").inspect(lambda *u: seen.append((*u, session.lower))))
    session.insert("n", [(1, 1, 2), (1, -1, 0), (1, 1, 2), (2, 5, 0)], time="t")
    session.advance(to=3)
    assert seen == [((2, 5), 0, 1, 3), ((1, 1), 2, 2, 3)]
    assert counts(view) == Counter({(2, 5): 1, (1, 1): 2})
    session.retract("n", [(2, 5)])
    session.advance()
    assert seen[2:] == [((2, 5), 3, -1, 4)]


def test_a_failing_inspect_does_not_undo_the_step(session):
    view = session.maintain("v", NUMBERS.inspect(lambda *_: 1 // 0))
    session.insert("n", [(1, 1)])
    with pytest.raises(ZeroDivisionError):
        session.advance()
    assert session.lower == 1
    assert view.to_pylist() == [(1, 1)]
    assert view.changes().num_rows == 1
