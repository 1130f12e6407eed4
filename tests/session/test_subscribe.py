"""Subscriptions: snapshot, as of, up to, times in order, functions that raise."""

from __future__ import annotations

import gc
import random
from collections import Counter

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, ReadError

ORDERS = an.source("orders", "item string, price long")
TWO = an.source("two", "item string", time=("system", "event"))


class Log:
    def __init__(self):
        self.seen = []

    def change(self, row, time, diff):
        self.seen.append((tuple(row), time, diff))

    def end(self, time):
        self.seen.append(time)

    def take(self):
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def log():
    return Log()


def step(session, *rows):
    session.insert("orders", [(item, price, diff) for item, price, diff in rows], diff="d")
    session.advance()


@pytest.fixture(params=["memory", "store"])
def session(request, tmp_path):
    with an.Session(path=None if request.param == "memory" else tmp_path / "state") as session:
        session.maintain("v", ORDERS)
        yield session


def test_a_snapshot_then_changes_in_order_of_time(session, log):
    step(session, ("a", 1, 2), ("b", 2, 1))
    with session.view("v").subscribe(log.change, log.end):
        assert sorted(log.take()[:2]) == [(("a", 1), 0, 2), (("b", 2), 0, 1)]
        step(session, ("a", 1, -1), ("c", 3, 1))
        assert log.take() == [(("a", 1), 1, -1), (("c", 3), 1, 1), 1]
        session.insert("orders", [("d", 4, 5), ("e", 5, 3), ("f", 6, 9)], time="t")
        session.advance(to=8)
        assert log.take() == [(("e", 5), 3, 1), 3, (("d", 4), 5, 1), 5, 7]
        session.advance()
        assert log.take() == [8]
    session.advance()
    assert log.take() == []
    assert session.view("v").since == 9


def test_from_a_time_up_to_another(session, log):
    view = session.view("v")
    session._engine.times.retain = 10
    for at in range(6):
        step(session, ("a", at, 1))
    view.subscribe(log.change, log.end, as_of=3, up_to=5)
    assert sorted(map(str, log.take())) == sorted(
        map(str, [*((("a", n), 3, 1) for n in range(4)), 3, (("a", 4), 4, 1), 4])
    )
    view.subscribe(log.change, log.end, as_of=3, up_to=3)
    assert log.take() == []
    late = view.subscribe(log.change, log.end, as_of=7, up_to=9, snapshot=False)
    for at in range(6, 10):
        step(session, ("a", at, 1))
    assert log.take() == [(("a", 8), 8, 1), 8]
    assert late.closed
    with pytest.raises(ReadError, match="up_to=1 is before as_of=4"):
        view.subscribe(log.change, as_of=4, up_to=1)
    session._engine.times.retain = 0
    session.advance()
    with pytest.raises(HistoryGoneError, match="at=3 is no longer retained"):
        view.subscribe(log.change, as_of=3)


def test_a_function_that_raises_stays_where_it_is_and_the_step_is_committed(session, log):
    fails = {2}

    def change(row, time, diff):
        if time in fails:
            raise ValueError("the wire is cut")
        log.change(row, time, diff)

    session.view("v").subscribe(change, log.end)
    other = Log()
    session.view("v").subscribe(other.change)
    step(session, ("a", 0, 1))
    step(session, ("a", 1, 1))
    with pytest.raises(ValueError, match="the wire is cut") as raised:
        step(session, ("a", 2, 1))
    assert "the step is committed, lower is 3" in raised.value.__notes__[0]
    assert session.lower == 3
    with pytest.raises(ValueError, match="the wire is cut"):
        step(session, ("a", 3, 1))
    fails.clear()
    step(session, ("a", 4, 1))
    assert [s for s in log.take() if not isinstance(s, int)] == [(("a", n), n, 1) for n in range(5)]
    assert other.take() == [(("a", n), n, 1) for n in range(5)]


def test_a_function_that_raises_for_the_snapshot_has_no_subscription(session):
    step(session, ("a", 0, 1))
    with pytest.raises(TypeError, match="takes 0 positional arguments"):
        session.view("v").subscribe(lambda: None)
    step(session, ("a", 1, 1))
    assert session.lower == 2


def test_what_is_called_must_be_a_function(session):
    for given in ({"on_change": "print"}, {"on_time_end": 3}):
        with pytest.raises(ReadError, match=f"{next(iter(given))} must be a function, got "):
            session.view("v").subscribe(**given)


def test_iterating_takes_what_is_closed_and_goes_on(session):
    view = session.view("v")
    subscription = view.subscribe(form="arrow")
    seen = Counter()
    chance = random.Random(1)
    for at in range(30):
        step(session, *((chance.choice("ab"), 0, chance.choice((-1, 1, 2))) for _ in range(chance.randrange(3))))
        if at % 4 == 0:
            for table in subscription:
                assert len(set(table["time"].to_pylist())) == 1
                for row in table.to_pylist():
                    seen[row["item"], row["price"]] += row["diff"]
            assert list(subscription) == []
            actual = view._read(None, "ignore")
            assert {r: n for r, n in seen.items() if n} == dict(
                zip(actual.rows.to_pylist(), actual.diffs.tolist(), strict=True)
            )
    for _ in subscription:
        break  # what was not taken is given again
    assert next(iter(subscription))["time"][0].as_py() == 29
    del subscription
    gc.collect()
    session.advance()
    assert view.since == 30


def test_two_times_are_told_apart(log):
    with an.Session() as session:
        view = session.maintain("v", TWO)
        session.insert("two", [("a", 3), ("a", 5)], time="event")
        session.advance()
        session.insert("two", [("a", 4)], time="event")
        view.subscribe(log.change, log.end)
        session.advance()
        assert log.take() == [(("a",), (0, 3), 1), (("a",), (0, 5), 1), 0, (("a",), (1, 4), 1), 1]


def test_a_reader_delivers_when_it_is_refreshed(tmp_path, log):
    with an.Session(path=tmp_path) as session:
        session.maintain("v", ORDERS)
        step(session, ("a", 0, 1))
        with an.read(tmp_path) as reader:
            reader.view("v").subscribe(log.change, snapshot=False)
            reader.refresh()
            for at in range(1, 6):
                step(session, ("a", at, 1))
            session._engine.journal.store.vacuum(keep=1)
            assert reader.refresh()
            assert log.take() == [(("a", n), n, 1) for n in range(1, 6)]
            reader.refresh()
        step(session)
        assert session.view("v").since == 6


def test_dropping_the_view_ends_it(session, log):
    subscription = session.view("v").subscribe(log.change)
    session.drop("v")
    assert subscription.closed


def test_a_function_that_takes_steps_itself_gets_each_time_once(session):
    session.maintain("numbers", an.source("numbers", "n long").select("n"))
    numbers = []

    def count(row, time, diff):
        numbers.append((row[0], diff))
        if row[0] < 5:
            session.insert("numbers", [row[0] + 1])
            session.advance()

    session.view("numbers").subscribe(count, snapshot=False)
    session.insert("numbers", [1])
    session.advance()
    assert numbers == [(n, 1) for n in range(1, 6)]
