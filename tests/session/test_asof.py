"""As-of joins in sessions: what they are asked and refuse, what they keep and share, and what a change reads."""

from __future__ import annotations

from datetime import date, datetime, timedelta

import pandas as pd
import pytest

import altneu as an
from altneu import Session
from altneu.errors import DiffOverflowError, PlanError, TypeMismatchError, UnknownColumnError
from altneu.operators.asof import revising as asof

NOON = datetime.fromisoformat("2013-01-01T11:30:00")
L = an.source("l", "k long, at long, a string", keep=True)
R = an.source("r", "k long, at long, b string", keep=True)


def revising(left=L, right=R, on="k", time="at", **options):
    return left.asof_join(right, on, time=time, mode="revising", **options)


# what is asked --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{}, {"mode": "backwards"}])
def test_without_a_mode_the_three_are_told_apart(given):
    with pytest.raises(PlanError) as refused:
        L.asof_join(R, "k", **given)
    first, *lines = str(refused.value).splitlines()
    assert ("needs a mode" in first) == (not given)
    assert [line.split(":")[0].strip() for line in lines] == ["mode='logical'", "mode='locked'", "mode='revising'"]
    assert all(len(line) > 80 for line in lines)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"mode": "revising"}, "time="),
        ({"mode": "revising", "left_time": "at"}, "right_time="),
        ({"mode": "revising", "time": "at", "left_time": "at"}, "left_time="),
        ({"mode": "revising", "time": "at", "simultaneous": False}, "simultaneous"),
        ({"mode": "locked", "simultaneous": "x"}, "simultaneous must be True or False, got 'x'"),
        ({"mode": "revising", "time": "at", "allow_exact_matches": "no"}, "must be True or False, got 'no'"),
        ({"mode": "revising", "time": "at", "direction": "up"}, "'backward', 'forward' or 'nearest', got 'up'"),
        ({"mode": "revising", "time": "at", "how": "full"}, "inner or left"),
        ({"mode": "revising", "time": "at", "tolerance": -1}, "negative"),
        ({"mode": "locked", "tolerance": 3}, "time="),
        ({"mode": "locked", "direction": "forward"}, "time="),
        ({"mode": "locked", "allow_exact_matches": False}, "time="),
        ({"mode": "logical", "time": "at"}, "locked"),
        ({"mode": "logical", "how": "left"}, "locked"),
        ({"mode": "locked", "on": ()}, "key"),
    ],
)
def test_what_does_not_go_together_is_refused(options, told):
    with pytest.raises(PlanError, match=told):
        L.asof_join(R, **{"on": "k", **options})


def test_columns_that_are_not_there_are_named():
    with pytest.raises(UnknownColumnError, match=r"'moment'.*k, at, a"):
        revising(time="moment")
    with pytest.raises(UnknownColumnError, match="'c'"):
        revising(on="c")


def test_timestamps_are_whole_numbers_dates_or_timestamps():
    numbers = L.select("k", "a", at="cast(at as double)")
    with pytest.raises(TypeMismatchError, match=r"double.*cast it"):
        revising(numbers)
    days = R.select("k", "b", at="cast('2013-01-01' as date)")
    with pytest.raises(TypeMismatchError, match=r"bigint.*date"):
        revising(L, days)
    with pytest.raises(TypeMismatchError, match="map"):
        L.select("k", "at", m="map(a, k)").asof_join(R, "k", mode="locked")


@pytest.mark.parametrize(
    ("kind", "tolerance", "units"),
    [
        ("long", 7, 7),
        ("int", 0, 0),
        ("date", 7, 7),
        ("date", timedelta(days=2), 2),
        ("timestamp", timedelta(seconds=2), 2_000_000),
        ("timestamp_ntz", "2 seconds", 2_000_000),
        ("timestamp_ntz", "interval '1' day", 86_400_000_000),
        ("timestamp", pd.Timedelta("3ms"), 3_000),
    ],
)
def test_a_tolerance_is_in_the_units_of_its_timestamps(kind, tolerance, units):
    source = an.source("s", f"k long, at {kind}")
    assert revising(source, source, tolerance=tolerance).node.rule.tolerance == units


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("long", timedelta(1)), ("long", "3"), ("date", timedelta(hours=1)), ("timestamp", 3), ("timestamp", "1 month"),
     ("timestamp", "soon"), ("long", 1.5), ("long", True)],
)  # fmt: skip
def test_a_tolerance_in_other_units_is_refused(kind, tolerance):
    source = an.source("s", f"k long, at {kind}")
    with pytest.raises(TypeMismatchError, match="tolerance"):
        revising(source, source, tolerance=tolerance)


def test_timestamps_of_two_types_are_compared_in_a_common_one():
    days, moments = an.source("d", "k long, at date"), an.source("m", "k long, at timestamp_ntz")
    with Session() as session:
        view = session.maintain("v", revising(days, moments, tolerance="12 hours", direction="nearest"))
        session.insert("d", [(1, date(2013, 1, 1)), (1, date(2013, 1, 9))])
        session.insert("m", [(1, NOON), (1, NOON + timedelta(days=7))])
        session.advance()
        assert view.to_pylist() == [(1, date(2013, 1, 1), NOON)]


EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 2, 2**63 - 1]


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
def test_timestamps_at_the_ends_of_64_bits(direction):
    for tolerance in (None, 0, 1, 2**63 - 1):
        plan = revising(direction=direction, tolerance=tolerance, how="left").select("at", met="`right.at`")
        for kept in (EXTREMES, EXTREMES[::2], EXTREMES[1::2]):
            with Session() as session:
                view = session.maintain("v", plan)
                session.insert("l", [(1, at, "x") for at in EXTREMES[:4]])
                session.insert("r", [(1, at, "x") for at in kept[:2]])
                session.advance()
                session.insert("l", [(1, at, "x") for at in EXTREMES[4:]])
                session.insert("r", [(1, at, "x") for at in kept[2:]])
                session.advance()
                wanted = {at: nearest(at, kept, direction, tolerance) for at in EXTREMES}
                assert dict(view.to_pylist()) == wanted


def nearest(at, kept, direction, tolerance):
    some = [s for s in kept if direction == "nearest" or (s <= at if direction == "backward" else s >= at)]
    actual = min(some, key=lambda s: (abs(at - s), s), default=None)
    return actual if actual is None or tolerance is None or abs(at - actual) <= tolerance else None


# where it may be used -------------------------------------------------------------------------------------------------


def test_a_locked_join_takes_one_time_outside_loops():
    locked = L.asof_join(R, "k", mode="locked").select("k", "at", "a")
    with pytest.raises(PlanError, match="a locked asof_join reads what changes from round to round"):
        L.iterate(lambda x: x.asof_join(R, "k", mode="locked").select("k", "at", "a").concat(locked))
    with pytest.raises(PlanError, match="a locked asof_join"):
        L.differentiate().asof_join(R, "k", mode="locked")
    two = an.source("two", "k long", time=("system", "event"))
    with Session() as session, pytest.raises(PlanError, match="a locked asof_join needs collections with one time"):
        session.maintain("v", two.asof_join(R, "k", mode="locked"))


def test_at_two_times_every_event_time_has_its_own_matches():
    two = an.source("two", "k long, at long", time=("system", "event"))
    with Session(retain="all") as session:
        view = session.maintain("v", revising(two, R.select("k", "at", "b")).select("at", "b"))
        session.insert("two", [(1, 10)], time=1)
        session.insert("two", [(1, 20)], time=2)
        session.insert("r", [(1, 5, "x")])
        session.advance()
        session.insert("r", [(1, 15, "y")])
        session.advance()
        read = {at: sorted(view.to_pylist(at=at)) for at in [(0, 1), (0, 2), (1, 1), (1, 2)]}
    first, second = [(10, "x")], [(10, "x"), (20, "x")]
    assert read == {(0, 1): first, (0, 2): second, (1, 1): first, (1, 2): [(10, "x"), (20, "y")]}


def test_among_moments_changes_meet_what_is_nearest_then():
    with Session() as session:
        view = session.maintain("v", revising(L.differentiate(), R).select("a", "b").integrate())
        session.insert("r", [(1, 5, "x")])
        session.insert("l", [(1, 10, "first")])
        session.advance()
        session.insert("r", [(1, 7, "y")])
        session.insert("l", [(1, 10, "second")])
        session.advance()
        assert sorted(view.to_pylist()) == [("first", "x"), ("second", "y")]


# what is kept and read ------------------------------------------------------------------------------------------------


def test_joins_with_one_right_side_share_its_arrangement():
    with Session() as session:
        session.maintain("latest", revising())
        before = set(session._engine.table.layouts)
        session.maintain("next", revising(direction="forward"))
        session.maintain("told", L.asof_join(R, "k", time="at", mode="locked"))
        added = [layout for name, layout in session._engine.table.layouts.items() if name not in before]
    assert [layout.order for layout in added if layout.order] == []
    assert len([layout for layout in added if "#kind" in layout.schema.names]) == 1


def test_explain_says_what_is_kept_and_a_strict_view_takes_it():
    with Session() as session:
        session.maintain("v", L.asof_join(R, time="at", mode="revising"), strict=True)
        session.maintain("w", L.asof_join(R, "k", mode="locked"), strict=True)
        assert "in order of at" in session.explain("v")
        assert "each present row with its match (at, b)" in session.explain("w")


@pytest.mark.parametrize("change", [("l", (1, 50_001, "new")), ("r", (1, 50_001, "new")), ("r", (1, 99_999, "last"))])
def test_a_change_reads_its_neighbours_and_not_its_key(change, monkeypatch):
    read = []

    def counted(*arguments):
        result = between(*arguments)
        read.append(len(result))
        return result

    source, row = change
    with Session() as session:
        view = session.maintain("v", revising().select("a", "b"))
        session.insert("l", [(1, 2 * i, f"l{i}") for i in range(50_000)])
        session.insert("r", [(1, 10 * i, f"r{i}") for i in range(10_000)])
        session.advance()
        between = asof.between
        monkeypatch.setattr(asof, "between", counted)
        for act in (session.insert, session.retract):
            act(source, [row])
            session.advance()
            assert view.changes().num_rows > 0 or row[1] == 99_999
        assert len(view.to_pylist()) == 50_000
    assert sum(read) < 60, "a few rows for either side and step"


RULES = [
    (direction, tolerance, exact)
    for direction in ("backward", "forward", "nearest")
    for tolerance, exact in ((None, True), (None, False), (40, True))
]


def looked_at(rule, many, what, times, monkeypatch):
    """Rows read and left rows looked at in a step that changes ``many`` adjacent right rows, and updates out of it.

    ``times`` says when each changes; ``what`` is a row's diff by its number. The result is compared with a brute one.
    """
    direction, tolerance, exact = rule
    plan = revising(direction=direction, tolerance=tolerance, allow_exact_matches=exact, how="left").select("a", "b")
    stamps = [10 * i for i in range(many)]
    before = [-50, *(s for i, s in enumerate(stamps) if what(i) < 0), 10 * many + 50]
    after = [-50, *(s for i, s in enumerate(stamps) if what(i) > 0), 10 * many + 50]
    lefts = [10 * i + i % 10 for i in range(many)]
    counts = []

    def reading(*arguments):
        counts.append(len(result := between(*arguments)))
        return result

    def sweeping(*arguments):
        result = sweep(*arguments)
        counts.append(result[3])
        return result

    with Session() as session:
        view = session.maintain("v", plan)
        session.insert("l", [(1, at, str(at)) for at in lefts])
        session.insert("r", [(1, at, str(at)) for at in before])
        session.advance()
        between, sweep = asof.between, asof.sweep
        with monkeypatch.context() as patch:
            patch.setattr(asof, "between", reading)
            patch.setattr(asof, "sweep", sweeping)
            rows = [(1, at, str(at), session.lower + times(i), what(i)) for i, at in enumerate(stamps)]
            session.insert("r", rows, time="time", diff="diff")
            session.advance(to=session.lower + many)
        met = dict(view.to_pylist())
        out = view.changes().num_rows
    for at in lefts[:: max(1, many // 50)]:
        assert met[str(at)] == nearest_text(at, after, rule)
    return sum(counts), out


def nearest_text(at, kept, rule):
    direction, tolerance, exact = rule
    actual = nearest(at, [s for s in kept if exact or s != at], direction, tolerance)
    return None if actual is None else str(actual)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("what", [lambda _: -1, lambda _: 1, lambda i: 1 if i % 3 else -1], ids=["out", "in", "both"])
def test_adjacent_right_rows_of_one_time_are_looked_past_once(rule, what, monkeypatch):
    few, _ = looked_at(rule, 250, what, lambda _: 0, monkeypatch)
    many, _ = looked_at(rule, 1000, what, lambda _: 0, monkeypatch)
    assert few < 10 * 250
    assert many < 4.2 * few


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("what", [-1, 1])
@pytest.mark.parametrize("order", [1, -1, 7])
def test_adjacent_right_rows_of_many_times_cost_what_they_change(rule, what, order, monkeypatch):
    many = 400
    read, out = looked_at(rule, many, lambda _: what, lambda i: i * order % many, monkeypatch)
    assert read < 10 * many + 3 * out


def test_ties_below_the_greatest_look_at_no_left_rows(monkeypatch):
    looked = []

    def sweeping(*arguments):
        result = sweep(*arguments)
        looked.append(result[3])
        return result

    with Session() as session:
        view = session.maintain("v", revising().select("a", "b"))
        session.insert("l", [(1, at, str(at)) for at in range(300)])
        session.insert("r", [(1, 0, "z")])
        session.advance()
        sweep = asof.sweep
        monkeypatch.setattr(asof, "sweep", sweeping)
        session.insert("r", [(1, 0, f"{t:03}", session.lower + t) for t in range(300)], time="time")
        session.advance(to=session.lower + 300)
        assert set(view.to_pylist()) == {(str(at), "z") for at in range(300)}
    assert looked == [0]


def test_a_right_row_of_no_account_is_passed_over():
    """What came and went between two steps is still kept for a while; nothing looks for its like beyond it."""
    with Session() as session:
        view = session.maintain("v", revising().select("at", "b"))
        session.insert("r", [(1, 0, "there")])
        session.advance()
        for at in range(1, 40):
            session.insert("r", [(1, at, "gone")])
            session.advance()
            session.retract("r", [(1, at, "gone")])
            session.advance()
        session.insert("l", [(1, 50, "x")])
        session.advance()
        assert view.to_pylist() == [(50, "there")]


def test_a_count_that_leaves_64_bits_is_refused():
    with Session() as session:
        session.maintain("v", revising())
        for time in range(2):
            session.insert("r", [(1, 0, "x")], diff=2**62, time=time)
        with pytest.raises(DiffOverflowError):
            session.advance(to=2)


TRADES = an.source("trades", "ticker string, at long, price long, seq long")


@pytest.mark.parametrize("mode", ["revising", "locked"])
@pytest.mark.parametrize(
    ("ties", "price"), [(None, 9), ("seq", 7), ("seq desc", 8), (["price desc"], 7), ("seq, price", 7)]
)
def test_of_rows_with_one_timestamp_the_last_by_ties_is_met(mode, ties, price):
    asked = an.source("asked", "ticker string, at long")
    for direction in ("backward", "forward", "nearest"):
        joined = asked.asof_join(TRADES, "ticker", time="at", mode=mode, ties=ties, direction=direction)
        with an.Session() as session:
            view = session.maintain("v", joined.select("price"))
            session.insert("trades", [("A", 10, 8, 1), ("A", 10, 9, 2), ("A", 10, 7, 3)])
            session.insert("asked", [("A", 10)])
            session.advance()
            assert view.to_pylist() == [(price,)]


def test_ties_are_said_and_tell_plans_apart():
    plans = {
        t: TRADES.asof_join(TRADES, "ticker", time="at", mode="revising", ties=t) for t in (None, "seq", "seq desc")
    }
    assert len({plan.node.fingerprint for plan in plans.values()}) == 3
    with an.Session() as session:
        session.maintain("v", plans["seq desc"])
        assert "ties by seq desc" in session.explain("v")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"mode": "locked", "ties": "seq"}, "give time='column'"),
        ({"mode": "logical", "ties": "seq"}, "give time='column'"),
        ({"mode": "revising", "time": "at", "ties": "seq + 1"}, "must name columns of the right side"),
        ({"mode": "revising", "time": "at", "ties": "nothing"}, "no column 'nothing'"),
        ({"mode": "revising", "time": "at", "ties": 5}, "ties must be an order of the right side's columns, .*got 5"),
        ({"mode": "revising", "time": "at", "ties": ""}, "ties must be an order .*got ''"),
        ({"mode": "revising", "time": "at", "ties": []}, r"ties must be an order .*got \[\]"),
    ],
)
def test_ties_that_say_nothing_are_refused(arguments, said):
    with pytest.raises(PlanError, match=said):
        TRADES.asof_join(TRADES, "ticker", **arguments)
