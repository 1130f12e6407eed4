"""Durable sessions: what survives, what does not, and what is refused when a store is opened again."""

from __future__ import annotations

import errno
import json
import os
from collections import Counter

import pytest

import altneu as an
from altneu.errors import PlanError, StoreError, StoreFullError, StoreLockedError, StorePlanError, StoreVersionError
from altneu.store import files, forget_segments
from altneu.testing import assert_changes
from tests.oracle.recompute import Multiset
from tests.session.durable_cases import no_file_beyond

ORDERS = an.source("orders", "item string, price long")
TOTAL = ORDERS.group_by("item").agg(total="sum(price)")


def open_session(path, **settings):
    forget_segments()
    return an.Session(path=path, **settings)


def contents(view) -> Multiset:
    return Counter(view.to_pylist())


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state"


@pytest.fixture
def filled(path):
    with open_session(path) as session:
        session.maintain("total", TOTAL)
        session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
        session.advance()
    return path


# what survives --------------------------------------------------------------------------------------------------------


def test_a_store_is_taken_up_where_it_was_left(filled):
    for price in range(1, 9):
        with open_session(filled) as session:
            assert session.lower == price
            view = session.maintain("total", TOTAL)
            assert contents(view) == Counter([("jam", 5), ("tea", 6 + price)])
            session.insert("orders", [("tea", 1)])
            session.advance()


def test_changes_of_the_last_advance_survive(filled):
    with open_session(filled) as session:
        view = session.maintain("total", TOTAL)
        assert_changes(view, "item | total | time\njam | 5 | 0\ntea | 7 | 0")
        session.advance()
        assert view.changes().num_rows == 0
    with open_session(filled) as session:
        assert session.maintain("total", TOTAL).changes().num_rows == 0


def test_future_rows_and_retained_history_survive(path):
    with open_session(path, retain=3) as session:
        session.maintain("v", ORDERS)
        session.insert("orders", [("now", 0, 0), ("soon", 1, 6), ("late", 2, 1_000)], time="t")
        session.advance(to=5)
    with open_session(path, retain=3) as session:
        view = session.maintain("v", ORDERS)
        assert view.since == 1
        assert contents(view) == Counter([("now", 0)])
        session.advance(to=8)
        assert contents(view) == Counter([("now", 0), ("soon", 1)])
        assert [view.to_pylist(at) for at in (4, 5)] == [[("now", 0)]] * 2
    with open_session(path) as session:
        view = session.maintain("v", ORDERS)
        session.advance(to=1_001)
        assert contents(view) == Counter([("now", 0), ("soon", 1), ("late", 2)])


def test_what_was_inserted_and_not_advanced_is_gone(filled):
    with open_session(filled) as session:
        session.maintain("total", TOTAL)
        session.insert("orders", [("tea", 100)])
    with open_session(filled) as session:
        view = session.maintain("total", TOTAL)
        session.advance()
        assert contents(view) == Counter([("jam", 5), ("tea", 7)])


def test_errors_survive_and_heal(path):
    plan = ORDERS.select("item", share="100 div price")
    with open_session(path) as session:
        session.maintain("v", plan)
        session.insert("orders", [("tea", 0), ("jam", 5)])
        session.advance()
    with open_session(path) as session:
        view = session.maintain("v", plan)
        assert [e["code"] for e in view.errors().to_pylist()] == ["DIVIDE_BY_ZERO"]
        session.retract("orders", [("tea", 0)])
        session.advance()
        assert view.to_pylist() == [("jam", 20)]


def test_large_state_goes_to_segments_and_comes_back(path):
    with open_session(path, shards=2) as session:
        session.maintain("v", ORDERS)
        session.insert("orders", [(f"item {i}", i) for i in range(20_000)])
        session.advance()
    assert len(list((path / "segments").iterdir())) >= 2
    with open_session(path) as session:
        view = session.maintain("v", ORDERS)
        session.retract("orders", [(f"item {i}", i) for i in range(10, 20_000)])
        session.advance()
        assert contents(view) == Counter((f"item {i}", i) for i in range(10))


def test_a_late_view_of_a_reopened_store_reads_what_is_kept(path):
    kept = an.source("orders", "item string, price long", keep=True)
    with open_session(path) as session:
        session.maintain("v", kept.filter("price > 100"))
        session.insert("orders", [("tea", 3), ("tea", 4)])
        session.advance()
    with open_session(path) as session:
        session.maintain("v", kept.filter("price > 100"))
        late = session.maintain("total", kept.group_by("item").agg(total="sum(price)"))
        assert late.to_pylist() == [("tea", 7)]
    with open_session(path) as session:
        session.maintain("v", kept.filter("price > 100"))
        assert session.maintain("total", kept.group_by("item").agg(total="sum(price)")).to_pylist() == [("tea", 7)]


def test_dropped_views_stay_dropped(filled):
    with open_session(filled) as session:
        session.maintain("total", TOTAL)
        session.maintain("rich", TOTAL.filter("total > 5"))
        session.drop("rich")
    with open_session(filled) as session:
        session.maintain("total", TOTAL)
        session.advance()
        assert contents(session.view("total")) == Counter([("jam", 5), ("tea", 7)])


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        ORDERS.group_by("item").agg(total="sum(price + 1)"),
        ORDERS.group_by("item").agg(total="max(price)"),
        an.source("orders", "item string, price int").group_by("item").agg(total="sum(price)"),
        an.source("others", "item string, price long").group_by("item").agg(total="sum(price)"),
        TOTAL.filter("total > 0"),
    ],
)
def test_a_store_with_another_plan_is_refused(filled, other):
    with open_session(filled) as session:
        with pytest.raises(StorePlanError, match=r"holds another plan .*replace=True.*session.drop\('total'\)"):
            session.maintain("total", other)
        view = session.maintain("total", TOTAL)
        session.insert("orders", [("tea", 1)])
        session.advance()
        assert contents(view) == Counter([("jam", 5), ("tea", 8)])


def test_an_edited_function_is_another_plan(path):
    with open_session(path) as session:
        session.maintain("v", ORDERS.map(lambda r: r.price * 2, "y long"))
        session.advance()
    with open_session(path) as session:
        with pytest.raises(StorePlanError):
            session.maintain("v", ORDERS.map(lambda r: r.price * 3, "y long"))
        session.maintain("v", ORDERS.map(lambda r: r.price * 2, "y long"))


def test_a_step_waits_for_every_view_of_the_store(filled):
    with open_session(filled) as session:
        with pytest.raises(PlanError, match="the store has a view 'total', but not its query; maintain"):
            session.view("total")
        with pytest.raises(StorePlanError, match="also maintains 'total', which would miss this step"):
            session.advance()
        session.drop("total")
        session.advance()
        session.maintain("names", an.source("names", "n string"))
        session.insert("names", ["x"])
        session.advance()
        assert session.view("names").to_pylist() == [("x",)]


def test_the_number_of_shards_belongs_to_the_store(path):
    with open_session(path, shards=3) as session:
        session.maintain("total", TOTAL)
        session.advance()
    with pytest.raises(StorePlanError, match="has 3 shards and cannot be opened with 2; leave shards out"):
        open_session(path, shards=2)
    with open_session(path) as session:
        assert session.shards == 3


def test_a_store_written_by_a_newer_version_is_refused_and_left_alone(filled):
    file = filled / "format.json"
    was = file.read_text()
    file.write_text(json.dumps(json.loads(was) | {"format": 99}))
    with pytest.raises(StoreVersionError):
        open_session(filled)
    file.write_text(was)
    with open_session(filled) as session:
        assert contents(session.maintain("total", TOTAL)) == Counter([("jam", 5), ("tea", 7)])


def test_one_session_at_a_time(filled):
    with open_session(filled) as session:
        with pytest.raises(StoreLockedError):
            an.Session(path=filled)
        assert contents(session.maintain("total", TOTAL)) == Counter([("jam", 5), ("tea", 7)])
    with open_session(filled):
        pass


@pytest.mark.parametrize("size", [100, 20_000])
def test_a_full_disk_commits_nothing_and_the_step_can_be_tried_again(filled, size):
    rows = [(f"item {i}", i) for i in range(5_000)]
    wanted = Counter([("jam", 5), ("tea", 7), *rows])
    with an.Session() as warm:  # compiled code is kept in files too
        warm.maintain("total", TOTAL)
        warm.insert("orders", rows)
        warm.advance()
    with open_session(filled) as session:
        view = session.maintain("total", TOTAL)
        session.insert("orders", rows)
        for _ in range(2):
            with no_file_beyond(size), pytest.raises(StoreFullError, match="cannot write"):
                session.advance()
            assert session.lower == 1
            assert contents(view) == Counter([("jam", 5), ("tea", 7)])
        session.advance()
        assert contents(view) == wanted
    with open_session(filled) as session:
        assert contents(session.maintain("total", TOTAL)) == wanted


@pytest.mark.parametrize("reason", [errno.EIO, errno.ENOSPC])
def test_segments_that_cannot_be_synced_are_written_again(filled, monkeypatch, reason):
    rows = [(f"item {i}", i) for i in range(50_000)]
    segments, sync = filled / "segments", files._sync
    synced, failing = [], True

    def fails_at_second(path, flags=0):
        if path.parent == segments:
            synced.append(path.name)
            if failing and len(synced) == 2:
                raise OSError(reason, os.strerror(reason))
        sync(path, flags)

    with open_session(filled) as session:
        view, rich = (session.maintain(n, q) for n, q in (("total", TOTAL), ("rich", TOTAL.filter("total > 5"))))
        before = {file.name for file in segments.iterdir()}
        monkeypatch.setattr(files, "_sync", fails_at_second)
        session.insert("orders", rows)
        with pytest.raises(StoreError, match=r"cannot write .*seg-"):
            session.advance()
        assert len(synced) > 2  # those that could be are not kept either
        assert {file.name for file in segments.iterdir()} == before
        assert session.lower == 1
        assert contents(view) == Counter([("jam", 5), ("tea", 7)])
        failing = False
        session.advance()
        assert {file.name for file in segments.iterdir()} - before <= set(synced)
        monkeypatch.undo()
        wanted = contents(view), contents(rich)
        assert wanted[0] == Counter([("jam", 5), ("tea", 7), *rows])
    with open_session(filled) as session:
        assert (
            contents(session.maintain("total", TOTAL)),
            contents(session.maintain("rich", TOTAL.filter("total > 5"))),
        ) == wanted


def test_a_full_disk_maintains_no_view_by_halves(filled):
    with open_session(filled) as session:
        session.maintain("total", TOTAL)
        with no_file_beyond(100), pytest.raises(StoreFullError):
            session.maintain("rich", TOTAL.filter("total > 5"))
        assert session.views == ["total"]
        session.insert("orders", [("jam", 1)])
        session.advance()
        rich = session.maintain("rich", TOTAL.filter("total > 5"))
        assert contents(rich) == Counter([("jam", 6), ("tea", 7)])
    with open_session(filled) as session:
        session.maintain("total", TOTAL)
        assert contents(session.maintain("rich", TOTAL.filter("total > 5"))) == Counter([("jam", 6), ("tea", 7)])


def test_a_plan_whose_errors_read_otherwise_is_another_plan(path):
    """What an error says is state: written otherwise, it would never be found again when its row goes."""
    with open_session(path) as session:
        session.maintain("v", ORDERS.select(share="100 div price"))
        session.maintain("w", ORDERS.select(next="price + 0"))
        session.insert("orders", [("tea", 0)])
        session.advance()
    with open_session(path) as session:
        with pytest.raises(StorePlanError):
            session.maintain("v", ORDERS.select(share="100L div price"))
        session.maintain("v", ORDERS.select(share="100 div price"))
        session.maintain("w", ORDERS.select(next="price + 0"))
        session.retract("orders", [("tea", 0)])
        session.advance()
        assert not session.view("v").errors().num_rows


@pytest.mark.parametrize("kept", [(False, True), (True, False)])
def test_a_source_is_kept_from_the_beginning_or_not_at_all(path, kept):
    """What came before is not there for late views, so a source that is kept from some time on is another one."""
    for keep in kept:
        orders = an.source("orders", "id long, item string", keep=keep)
        totals = orders.group_by("item").agg(n="count(*)")
        with an.Session(path=path) as session:
            if keep != kept[0]:
                with pytest.raises(StorePlanError, match=r"keep= of a source"):
                    session.maintain("totals", totals)
            else:
                session.maintain("totals", totals)
                session.insert("orders", [(1, "tea")])
                session.advance()


def test_a_one_row_step_is_one_file(path):
    """With arrangements of several thousand rows beside it, and whatever is merged on the way."""
    with open_session(path) as session:
        session.maintain("total", TOTAL)
        session.maintain("pairs", ORDERS.join(ORDERS, on="item").select("item", low="price", high="right.price"))
        session.insert("orders", [(f"item {i}", i) for i in range(5_000)])
        session.advance()
        written = []
        for i in range(40):  # with checkpoints, which name everything, among them
            before = {found for found in path.rglob("*") if found.is_file()}
            session.insert("orders", [(f"item {i}", i + 1)])
            session.advance()
            written.append({found for found in path.rglob("*") if found.is_file()} - before)
    names = [sorted(found.parent.name for found in files) for files in written]
    merged = [i for i, found in enumerate(names) if found != ["log"]]
    assert len(merged) <= 1  # a merge that has come to its end, and is too large for a commit
    assert all("log" in found for found in names)
