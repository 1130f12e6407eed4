"""Windows are what they are defined to be at every time: whatever comes late, in any order, in however many steps."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest

import altneu as an
from altneu.errors import PlanError, SchemaError, TypeMismatchError
from altneu.windows import hopping, session_windows, sliding, tumbling
from tests.oracle.runners import state_left

EVENTS = an.source("events", "key string, at long")
END = 60
MAX = 2**63 - 1

Arrival = tuple[tuple[str, int | None], int, int]


def arrivals(seed: int) -> list[Arrival]:
    """Events late, early, twice, before time 0 and without a time; some are taken back, some only then inserted."""
    rng = random.Random(seed)
    result: list[Arrival] = []
    for _ in range(rng.randint(1, 25)):
        at = rng.choice([None, *[rng.randint(-9, 40) for _ in range(9)]])
        arrived = max(0, (at or 0) + rng.choice([-5, 0, 0, 1, 3, 8, 20]))
        result.append(((rng.choice("ab"), at), arrived, rng.choice([1, 1, 2])))
        if rng.random() < 0.3:
            result.append((result[-1][0], max(0, arrived + rng.randint(0, 12)), -result[-1][2]))
    return result


def there(history: list[Arrival], now: int) -> Counter:
    """The events that have come by now and have a time."""
    rows: Counter = Counter()
    for row, arrived, diff in history:
        if arrived <= now and row[1] is not None:
            rows[row] += diff
    return Counter({row: n for row, n in rows.items() if n})


def contents(collection, history: list[Arrival], steps: list[int]) -> list[Counter]:
    """The contents at every time, read after steps that end at these times."""
    with an.Session(retain="all") as session:
        view = session.maintain("view", collection)
        done = 0
        for upper in steps:
            part = [(*row, arrived, diff) for row, arrived, diff in history if done <= arrived < upper]
            session.insert("events", part, time="time", diff="diff")
            session.advance(to=upper)
            done = upper
        assert view.errors().num_rows == 0
        return [Counter(view.to_pylist(at=now)) for now in range(END)]


def steps_of(seed: int) -> list[int]:
    rng = random.Random(seed)
    return sorted({END, *(rng.randint(1, END) for _ in range(rng.choice([0, 3, 15])))})


def starts(at: int, length: int, every: int, offset: int) -> list[int]:
    return [s for s in range(at - length + 1, at + 1) if (s - offset) % every == 0]


def seen(at: int, window_end: int, now: int, how: dict[str, int]) -> bool:
    last = window_end + how.get("grace", 0)
    return now >= (at if how.get("early") else last) and ("keep" not in how or now < last + how["keep"])


def sessions_of(history: list[Arrival], now: int, gap: int) -> Counter:
    result: Counter = Counter()
    for key in "ab":
        times = sorted(at for (k, at), n in there(history, now).items() for _ in range(n) if k == key and at <= now)
        firsts = [i for i, at in enumerate(times) if not i or at - times[i - 1] >= gap]
        for i, j in pairwise([*firsts, len(times)]):
            result[key, times[i], times[j - 1] + gap, j - i] += 1
    return result


# definitions ----------------------------------------------------------------------------------------------------------

SHOWN = [
    {},
    {"grace": 3},
    {"keep": 4},
    {"grace": 2, "keep": 1},
    {"early": True},
    {"early": True, "grace": 2, "keep": 5},
]


@pytest.mark.parametrize("seed", range(12))
def test_a_sliding_window_has_the_events_of_the_last_ticks(seed):
    rng = random.Random(seed)
    history, length, grace = arrivals(seed), rng.choice([1, 5, 12]), rng.choice([0, 0, 4])
    for now, found in enumerate(contents(sliding(EVENTS, "at", length, grace=grace), history, steps_of(seed))):
        at_least = now - grace - length
        rows = there(history, now)
        assert found == Counter({r: n for r, n in rows.items() if at_least < r[1] <= now - grace}), now


@pytest.mark.parametrize("seed", range(18))
def test_tumbling_and_hopping_windows_have_the_events_in_them(seed):
    rng = random.Random(seed)
    history, how = arrivals(seed), {**SHOWN[seed % 6], "offset": rng.choice([0, 3, -2, 100])}
    length, every = rng.choice([(7, 7), (10, 3), (3, 5), (1, 1), (6, 2)])
    views = [hopping(EVENTS, "at", length, every, **how)]
    if length == every:
        views.append(tumbling(EVENTS, "at", length, **how))
    for collection in views:
        for now, found in enumerate(contents(collection, history, steps_of(seed))):
            expected: Counter = Counter()
            for (key, at), n in there(history, now).items():
                for start in starts(at, length, every, how["offset"]):
                    end = start + length
                    if seen(at, end, now, how):
                        expected[key, at, start, end] += n
            assert found == expected, now


@pytest.mark.parametrize("seed", range(18))
def test_sessions_are_events_that_follow_each_other_by_less_than_the_gap(seed):
    history, how, gap = [a for a in arrivals(seed) if a[2] > 0], SHOWN[seed % 6], 1 + seed % 7
    for now, found in enumerate(contents(session_windows(EVENTS, "at", gap, "key", **how), history, steps_of(seed))):
        expected = sessions_of(history, now, gap)
        assert found == Counter({s: n for s, n in expected.items() if seen(s[1], s[2], now, how)}), now


@pytest.mark.parametrize("seed", range(6))
def test_sessions_no_longer_than_the_longest_do_not_miss_the_events_that_have_gone(seed):
    history, how = [a for a in arrivals(seed) if a[2] > 0], {"grace": 2, "keep": 3}
    whole = session_windows(EVENTS, "at", 3, "key", **how)
    bounded = session_windows(EVENTS, "at", 3, "key", **how, longest=END)
    assert contents(bounded, history, steps_of(seed)) == contents(whole, history, [END])


# one result a window, and late events ---------------------------------------------------------------------------------


def changes(view) -> list[tuple[object, ...]]:
    return sorted(tuple(c.values()) for c in view.changes().to_pylist())


def test_each_window_gives_one_result_at_its_end_which_a_late_event_corrects():
    counts = tumbling(EVENTS, "at", 10, grace=2, keep=5).group_by("window_start").agg(n="count(*)")
    with an.Session() as session:
        view = session.maintain("counts", counts)
        session.insert("events", [("a", 1), ("a", 9), ("b", 10)], time=0)
        session.insert("events", [("late", 3)], time=11)  # within the grace: as if it had been in time
        session.advance(to=13)
        assert changes(view) == [(0, 3, 12, 1)]
        session.insert("events", [("later", 4)], time=14)  # corrects what is shown
        session.insert("events", [("too late", 5)], time=17)  # the window has gone
        session.advance(to=30)
        assert changes(view) == [
            (0, 3, 14, -1), (0, 4, 14, 1), (0, 4, 17, -1), (10, 1, 22, 1), (10, 1, 27, -1),
        ]  # fmt: skip


def test_a_session_that_a_late_event_prolongs_is_taken_back():
    with an.Session() as session:
        view = session.maintain("sessions", session_windows(EVENTS, "at", 5, "key", grace=1))
        session.insert("events", [("a", 0), ("a", 3), ("a", 10)], time=0)
        session.advance(to=12)
        assert changes(view) == [("a", 0, 8, 2, 9, 1)]
        session.insert("events", [("a", 7)])
        session.advance(to=100)
        assert changes(view) == [("a", 0, 8, 2, 12, -1), ("a", 0, 15, 4, 16, 1)]


def test_an_event_a_gap_after_the_last_begins_another_session():
    with an.Session() as session:
        view = session.maintain("sessions", session_windows(EVENTS, "at", 5, early=True))
        session.insert("events", [("a", 0), ("b", 4), ("a", 9)])
        session.advance(to=6)
        assert view.to_pylist() == [(0, 9, 2)]
        session.advance(to=10)
        assert sorted(view.to_pylist()) == [(0, 9, 2), (9, 14, 1)]


# what is kept ---------------------------------------------------------------------------------------------------------

KEPT = {
    "sliding": sliding(EVENTS, "at", 50).group_by("key").agg(n="count(*)", last="max(at)"),
    "tumbling": tumbling(EVENTS, "at", 20, grace=5, keep=1).group_by("window_start").agg(last="max(at)"),
    "hopping": hopping(EVENTS, "at", 20, 5, grace=5, keep=1).group_by("window_start").agg(n="count(*)"),
    "session_windows": session_windows(EVENTS, "at", 4, "key", keep=1, longest=30),
}


@pytest.mark.parametrize("name", KEPT)
def test_after_a_long_pause_everything_has_gone_and_nothing_is_kept(name):
    rng = random.Random(name)
    with an.Session() as session:
        view = session.maintain("view", KEPT[name])
        for lower in range(0, 400, 100):
            rows = [(rng.choice("abc"), rng.randint(lower, lower + 99)) for _ in range(200)]
            session.insert("events", rows)
            session.advance(to=lower + 100)
        assert sum(rows for _, rows in state_left(session)) >= 10
        session.advance(to=10**12)
        assert view.to_pylist() == []
        assert list(state_left(session)) == []


def test_the_state_of_a_window_does_not_grow_with_what_has_gone_by():
    window = sliding(EVENTS, "at", 100).group_by("key").agg(last="max(at)")
    sizes = []
    with an.Session() as session:
        session.maintain("view", window)
        for lower in range(0, 5_000, 50):
            session.insert("events", [("a", at) for at in range(lower, lower + 50)], time="at")
            sizes.append(session.advance(to=lower + 50).state_rows)
    assert max(sizes[10:]) < 5 * 150


# arguments ------------------------------------------------------------------------------------------------------------


def test_the_time_is_any_expression_of_ticks():
    rows = an.source("rows", "`the time` int, sent timestamp")
    with an.Session() as session:
        views = [
            session.maintain("col", tumbling(rows, an.col("the time") - 7, 10, early=True).select("window_start")),
            session.maintain("text", sliding(rows, "`the time` - 3", 10**10).select("`the time`")),
            session.maintain("sent", session_windows(rows, "unix_seconds(sent)", 60, "`the time` % 2 as odd")),
        ]
        session.insert("rows", [{"the time": 2**31 - 1, "sent": None}, {"the time": 5}])
        session.advance(to=2**31)
        assert sorted(views[0].to_pylist()) == [(-10,), (2**31 - 8,)]
        assert sorted(views[1].to_pylist()) == [(5,), (2**31 - 1,)]
        assert views[2].to_pylist() == []
        assert views[2].schema.names == ["odd", "window_start", "window_end", "count"]


def test_windows_are_logic_too():
    week = sliding(an.logic.identity, "at", 7).select("key")
    assert week.run([("a", 3)], "key string, at long") == ([(("a",), 3, 1), (("a",), 10, -1)], [])
    hops = hopping(an.logic.filter("at > 0"), "at", 2, 1, keep=1)
    updates, errors = hops.run([("a", 0), ("b", 3)], "key string, at long")
    ends = [(("b", 3, 3, 5), 5, 1), (("b", 3, 2, 4), 4, 1), (("b", 3, 3, 5), 6, -1), (("b", 3, 2, 4), 5, -1)]
    assert sorted(updates) == sorted(ends)
    assert errors == []


@pytest.mark.parametrize(
    ("window", "at"),
    [
        (sliding(an.logic.identity, "at", 10), MAX - 5),
        (sliding(an.logic.identity, "at", 10, grace=MAX - 20), 15),
        (tumbling(an.logic.identity, "at", 10, early=True), MAX - 5),
        (tumbling(an.logic.identity, "at", 10, grace=100), MAX - 50),
        (tumbling(an.logic.identity, "at", 10, offset=3), -(2**63) + 1),
        (hopping(an.logic.identity, "at", 5, 5), MAX - 1),
        (hopping(an.logic.identity, "at", 10, 5), -(2**63) + 3),
    ],
)
def test_a_window_that_leaves_64_bits_is_an_error_row(window, at):
    updates, errors = window.run([(at,), (7,)], "at long")
    assert [(row["code"], diff) for row, _, diff in errors] == [("ARITHMETIC_OVERFLOW", 1)]
    assert {row[0] for row, _, _ in updates} <= {7}


def test_a_session_that_leaves_64_bits_is_an_error_row_until_it_goes():
    with an.Session() as session:
        view = session.maintain("sessions", session_windows(EVENTS, "at", 10, "key", early=True))
        session.insert("events", [("a", MAX - 5), ("b", 5)])
        session.advance(to=MAX - 4)
        assert [e["code"] for e in view.errors().to_pylist()] == ["PYTHON_RESULT_TYPE"]
        assert view.to_pylist(errors="ignore") == [("b", 5, 15, 1)]
        session.retract("events", [("a", MAX - 5)])
        session.advance()
        assert view.to_pylist() == [("b", 5, 15, 1)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sliding(EVENTS, "at", 0), r"length must be a whole number of ticks from 1 on, got 0"),
        (lambda: sliding(EVENTS, "at", 1.5), r"length must be .*, got 1\.5"),
        (lambda: sliding(EVENTS, "at", True), r"length must be .*, got True"),
        (lambda: sliding(EVENTS, "at", 5, grace=-1), r"grace must be a whole number of ticks from 0 on, got -1"),
        (lambda: tumbling(EVENTS, "at", 5, keep=0), r"keep must be a whole number of ticks from 1 on, got 0"),
        (lambda: tumbling(EVENTS, "at", 5, offset="3"), r"offset must be a whole number of ticks, got '3'"),
        (lambda: hopping(EVENTS, "at", 5, 0), r"every must be .*, got 0"),
        (lambda: session_windows(EVENTS, "at", 0), r"gap must be .*, got 0"),
        (lambda: session_windows(EVENTS, "at", 5, longest=9), r"longest=9 drops events .* give keep=ticks too"),
        (lambda: session_windows(EVENTS, "at", 5, longest=0, keep=1), r"longest must be .*, got 0"),
    ],
)
def test_numbers_that_make_no_window_are_refused(make, message):
    with pytest.raises(PlanError, match=message):
        make()


@pytest.mark.parametrize("kind", ["timestamp", "double", "date"])
@pytest.mark.parametrize("make", [sliding, tumbling, lambda e, at, n: hopping(e, at, n, n), session_windows])
def test_a_time_that_is_no_number_of_ticks_is_refused(kind, make):
    with pytest.raises(TypeMismatchError):
        make(an.source("typed", f"at {kind}"), "at", 7)


def test_a_column_of_a_windows_name_is_not_overwritten():
    with pytest.raises(SchemaError, match="window_start"):
        tumbling(an.source("named", "at long, window_start long"), "at", 5)
    with pytest.raises(SchemaError, match="window_end"):
        hopping(an.source("named too", "at long, window_end long"), "at", 5, 1)
