"""Upsert streams in sessions: keys that come and go, what is kept of them, and how they are read late and again."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu.errors import (
    DiffOverflowError,
    HydrationError,
    PlanError,
    TypeMismatchError,
    UnknownColumnError,
    ViewHasErrorsError,
)
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.latest.retention import LatestEvents
from altneu.order import Antichain
from altneu.testing import assert_changes

LOG = an.source("log", "offset long, name string, price long")
CURRENT = LOG.latest(key="name", order="offset")
PRICES = CURRENT.filter("price is not null").select("name", "price")


@pytest.fixture
def session():
    with an.Session(shards=2) as session:
        yield session


def send(session, *rows, **how):
    session.insert("log", list(rows), **how)


def state_of(session):
    """What the arrangements of latest events keep: updates as they lie, and rows when all history is folded."""
    kept, folded, held = 0, 0, 0
    for name, i in session._engine.plan.arrangements.items():
        operation = session._engine.plan.nodes[i].operation
        if isinstance(operation, ArrangeOp) and isinstance(operation.retention, LatestEvents):
            for shard in session._engine.table.shards_of(name):
                state = session._engine.table.get(name, shard)
                kept += len(state.spine)
                folded += len(state.spine.merged(Antichain.of(session._engine.lattice, session.lower)))
                held += len(state.future)
    return kept, folded, held


def test_a_key_comes_and_goes(session):
    view = session.maintain("prices", PRICES)
    seen = []
    for offset, price in enumerate([3, None, None, 4, 5, None, 6]):
        send(session, (offset, "tea", price), (offset, "jam", 1))
        session.advance()
        seen.append(dict(view.to_pylist()).get("tea"))
    assert seen == [3, None, None, 4, 5, None, 6]
    assert dict(view.to_pylist()) == {"tea": 6, "jam": 1}
    send(session, (5, "tea", 99), (-1, "jam", None))  # late: greater ones are there
    session.advance()
    assert dict(view.to_pylist()) == {"tea": 6, "jam": 1}
    assert view.changes().num_rows == 0


def test_a_step_of_many_times_tells_each_of_them(session):
    view = session.maintain("current", CURRENT)
    for time, row in enumerate([(1, "tea", 1), (5, "tea", 5), (3, "tea", 3), (6, "tea", None)]):
        send(session, row, time=time)
    session.advance(to=4)
    assert_changes(
        view,
        [
            (1, "tea", 1, 0, 1),
            (1, "tea", 1, 1, -1),
            (5, "tea", 5, 1, 1),
            (5, "tea", 5, 3, -1),
            (6, "tea", None, 3, 1),
        ],
    )


def test_events_of_later_times_wait_and_history_can_be_read():
    with an.Session(retain="all") as session:
        view = session.maintain("prices", PRICES)
        send(session, (2, "tea", 2), time=4)
        send(session, (1, "tea", 1))
        send(session, (9, "tea", None), time=7)
        session.advance(to=5)
        assert state_of(session)[2] == 1
        session.advance(to=9)
        assert [dict(view.to_pylist(at=t)).get("tea") for t in range(9)] == [1, 1, 1, 1, 2, 2, 2, None, None]
        assert state_of(session)[2] == 0


def test_an_event_that_was_sent_too_early_can_be_called_back_before_its_time(session):
    view = session.maintain("prices", PRICES)
    send(session, (1, "tea", 1))
    send(session, (2, "tea", 2), time=4)
    session.advance()
    session.retract("log", [(2, "tea", 2)], time=4)
    session.advance(to=6)
    assert view.to_pylist() == [("tea", 1)]
    assert state_of(session)[2] == 0


def test_what_is_kept_is_one_row_a_key(session):
    session.maintain("prices", PRICES)
    rng = random.Random(1)
    keys, offset = 200, 0
    for _ in range(60):
        events = [(offset + i, f"key {rng.randrange(keys)}", rng.randrange(9)) for i in range(100)]
        offset += 100
        send(session, *rng.sample(events, len(events)), *events[:10])
        session.advance()
    kept, folded, held = state_of(session)
    assert (folded, held) == (keys, 0)
    assert kept <= 4 * keys  # of 6,000 events, twice that many changes
    send(session, *((offset + i, f"key {i}", None) for i in range(keys)))
    session.advance()
    assert session.view("prices").to_pylist() == []
    assert state_of(session)[1] == keys


def test_a_large_load_of_history_is_compacted_at_once(session):
    session.maintain("prices", PRICES)
    for time in range(10):
        session.insert("log", [(time, f"key {i}", i) for i in range(3_000)], time=time)
    session.advance(to=10)
    assert state_of(session) == (3_000, 3_000, 0)


def test_it_costs_an_exchange_by_key_and_says_what_it_keeps(session):
    session.maintain("prices", CURRENT, strict=True)
    session.maintain("joined", CURRENT.join(LOG.latest("name", "price"), on="name"), strict=True)
    send(session, (1, "tea", 3))
    session.advance()
    text = session.explain("prices")
    for part in (
        "latest by offset  [key: name; cost per step: |change| log n (incremental)]",
        "key: name; exchange: name; state: arrangement (offset, name, price), the latest row of each key, 1 updates",
        "1 exchange(s); the cost of a step is bounded by the change (incremental)",
    ):
        assert part in text, text
    assert session.explain("joined").count("exchange: name") == 2


def test_the_exchange_is_left_out_where_rows_are_spread_so_already(session):
    session.maintain("twice", CURRENT.select("name", "price").latest("name", "price"))
    assert "1 exchange(s)" in session.explain("twice")


def test_a_late_view_stands_on_what_is_kept(session):
    session.maintain("prices", PRICES)
    send(session, (2, "tea", 2), (1, "tea", 1), (1, "jam", None))
    send(session, (3, "jam", 3), time=5)
    session.advance()
    before = len(session._engine.plan.arrangements)
    late = session.maintain("gone", CURRENT.filter("price is null").select("name"))
    assert late.to_pylist() == [("jam",)]
    assert len(session._engine.plan.arrangements) == before + 1  # its own contents
    session.advance(to=6)
    assert late.to_pylist() == []
    assert sorted(session.view("prices").to_pylist()) == [("jam", 3), ("tea", 2)]
    session.drop("prices")
    send(session, (4, "jam", None))
    session.advance()
    assert late.to_pylist() == [("jam",)]


def test_a_late_log_is_read_from_what_keeps_its_rows_and_not_from_what_is_latest(session):
    kept = an.source("log", LOG.schema, keep=True)
    session.maintain("prices", kept.latest("name", "offset"))
    send(session, (2, "tea", 2), (1, "tea", 9))
    session.advance()
    late = session.maintain("dearest", kept.latest("name", "price"))
    count = session.maintain("events", kept.group_by().agg(n="count(*)"))
    assert late.to_pylist() == [(1, "tea", 9)]
    assert count.to_pylist() == [(2,)]


def test_a_late_log_is_judged_by_what_is_there(session):
    """What was retracted before anyone asked is no error, whether or not the rows' own arrangement is merged yet."""
    kept = an.source("log", LOG.schema, keep=True)
    early = session.maintain("prices", kept.latest("name", "offset"))
    for offset in (1, 2):
        send(session, (offset, "tea", offset))
        session.advance()
    session.retract("log", [(2, "tea", 2)])
    session.advance()
    late = session.maintain("late", kept.select("name", "offset").latest("name", "offset"))
    assert late.to_pylist() == [("tea", 1)]
    assert early.errors().num_rows == 1


def test_events_that_nothing_keeps_cannot_be_had_late(session):
    session.maintain("prices", PRICES)
    send(session, (1, "tea", 1))
    session.advance()
    with pytest.raises(HydrationError, match="needs the rows of source 'log'"):
        session.maintain("dearest", LOG.latest("name", "price"))


def test_a_store_takes_it_up_again(tmp_path):
    wanted = {}
    for step in range(6):
        with an.Session(path=tmp_path / "state") as session:
            view = session.maintain("prices", PRICES)
            assert dict(view.to_pylist(errors="ignore")) == wanted
            assert view.errors().num_rows == (step == 4)
            send(session, (10 + step, "tea", step), (step, "late", step), (9 - step, "jam", step))
            send(session, (30 + step, "tea", 30 + step), time=session.lower + 2)
            if step == 3:
                session.retract("log", [(100, "bad", 1)])
            if step == 4:
                send(session, (101, "bad", 2))
            session.advance()
            now = 30 + step - 2 if step >= 2 else step
            wanted = {"tea": now, "late": step, "jam": 0} | ({"bad": 2} if step >= 4 else {})
            assert dict(view.to_pylist(errors="ignore")) == wanted
    with an.Session(path=tmp_path / "state") as session:
        assert dict(session.maintain("prices", PRICES).to_pylist()) == wanted
        assert state_of(session)[1:] == (4, 2)


def test_a_retracted_row_is_an_error_until_a_greater_one_comes(session):
    view = session.maintain("prices", PRICES)
    send(session, (1, "tea", 1), (2, "tea", 2), (1, "jam", 1))
    session.advance()
    session.retract("log", [(2, "tea", 2)])
    session.advance()
    (error,) = view.errors().to_pylist()
    assert (error["operator"], error["code"]) == ("latest by offset", "RETRACTED_EVENT")
    assert error["row"] == '{"offset": 2, "name": "tea", "price": 2}'
    assert "send that key once more with a greater offset" in error["message"]
    with pytest.raises(ViewHasErrorsError, match="an event of name=tea was retracted"):
        view.to_pylist()
    assert view.to_pylist(errors="ignore") == [("jam", 1)]
    late = session.maintain("late", CURRENT.select("name"))
    assert late.errors().num_rows == 1
    send(session, (3, "tea", None))
    session.advance()
    assert view.to_pylist() == [("jam", 1)]
    assert sorted(late.to_pylist()) == [("jam",), ("tea",)]


def test_a_superseded_row_retracted_changes_nothing(session):
    view = session.maintain("prices", PRICES)
    send(session, (1, "tea", 1), (2, "tea", 2))
    session.advance()
    session.retract("log", [(1, "tea", 1)])
    session.advance()
    assert view.to_pylist() == [("tea", 2)]


def test_a_step_that_fails_leaves_no_trace(session):
    view = session.maintain("prices", PRICES)
    send(session, (1, "tea", 1))
    send(session, (5, "tea", 5), time=2)
    session.advance()
    for _ in range(3):
        send(session, (2, "tea", 2), diff=2**62)
    with pytest.raises(DiffOverflowError):
        session.advance(to=3)
    assert view.to_pylist() == [("tea", 1)]
    session.discard("log")
    send(session, (2, "tea", 2), diff=2**62)
    session.advance()
    assert view.to_pylist() == [("tea", 2)]
    session.advance()
    assert view.to_pylist() == [("tea", 5)]


def test_keys_and_orders_are_checked_when_the_plan_is_built():
    with pytest.raises(UnknownColumnError, match="no column 'offest'; the columns are: offset, name, price"):
        LOG.latest("name", "offest")
    with pytest.raises(UnknownColumnError, match="no column 'nam'"):
        LOG.latest(["name", "nam"], "offset")
    with pytest.raises(PlanError, match="which row of a key is the latest"):
        LOG.latest("name", [])
    maps = an.source("maps", "m map<string, long>, at long")
    with pytest.raises(TypeMismatchError, match="'m' has maps"):
        maps.latest("at", "m")
    with pytest.raises(TypeMismatchError, match="'m' has maps"):
        maps.latest("m", "at")
    with an.Session() as session:
        view = session.maintain("v", maps.latest("at", "at"))
        session.insert("maps", [({"b": 1}, 1), ({"a": 2}, 1), (None, 1)])
        session.advance()
        assert view.to_pylist() == [([("b", 1)], 1)]
