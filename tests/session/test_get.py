"""``view.get``: the rows with some values are those that a full read has, and a key is looked up."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu.errors import HistoryGoneError, ReadError, ViewHasErrorsError
from altneu.runtime import read
from altneu.views import contents

ORDERS = an.source("orders", "item string, shop int, price double")
TOTALS = ORDERS.group_by("item", "shop").agg(total="sum(price)")


def filled(rows, steps=3, **options):
    session = an.Session(**options)
    views = {
        "totals": session.maintain("totals", TOTALS),
        "rows": session.maintain("rows", ORDERS),
        "indexed": session.maintain("indexed", ORDERS.arrange_by("shop")),
    }
    for part in range(steps):
        session.insert("orders", rows[part::steps])
        if part:
            session.retract("orders", rows[: len(rows) // 9])
            session.insert("orders", rows[: len(rows) // 9])
        session.advance()
    return session, views


def random_rows(rng, count):
    values = [None, "tea", "jam", "oil"], [None, 0, 1, 2], [None, 0.0, -0.0, float("nan"), 1.5]
    return [tuple(map(rng.choice, values)) for _ in range(count)]


def same(a, b):
    if a is None or b is None:
        return a is b
    return repr(a + 0.0) == repr(b + 0.0) if isinstance(a, float) else a == b


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("shards", [1, 3])
def test_the_rows_are_those_of_a_full_read(shards, durable, tmp_path):
    rng = random.Random(shards)
    options = {"path": tmp_path / "store"} if durable else {}
    session, views = filled(random_rows(rng, 60), shards=shards, retain="all", **options)
    if durable:
        session.close()
        session = an.Session(path=tmp_path / "store")
        plans = {"totals": TOTALS, "rows": ORDERS, "indexed": ORDERS.arrange_by("shop")}
        views = {name: session.maintain(name, plan) for name, plan in plans.items()}
    for view in views.values():
        names = view.schema.names
        for _ in range(60):
            at = rng.randrange(session.lower) if not durable else None
            everything = view.to_pylist(at)
            chosen = rng.sample(names, rng.randint(1, len(names))) if rng.random() < 0.5 else view.key
            row = rng.choice(everything) if rng.random() < 0.8 else rng.choice(random_rows(rng, 1))
            wanted = {name: row[names.index(name)] for name in chosen}
            expected = [r for r in everything if all(same(r[names.index(n)], v) for n, v in wanted.items())]
            assert sorted(map(repr, view.get(wanted, at))) == sorted(map(repr, expected))
    session.close()


def test_a_key_may_be_given_without_names():
    session, views = filled([("tea", 1, 2.0), ("tea", 2, 3.0), (None, 1, 4.0)])
    assert views["totals"].key == ("item", "shop")
    assert views["totals"].get(("tea", 2)) == [("tea", 2, 3.0)]
    assert views["totals"].get((None, 1)) == [(None, 1, 4.0)]
    assert sorted(views["indexed"].get(1), key=repr) == [("tea", 1, 2.0), (None, 1, 4.0)]
    assert views["totals"].get({"item": "tea", "shop": 2, "total": 9.0}) == []
    session.close()


def test_a_reader_looks_up_too(tmp_path):
    session, _ = filled([("tea", 1, 2.0), ("jam", 2, 3.0)], path=tmp_path / "store")
    with an.read(tmp_path / "store") as reader:
        assert reader.view("totals").get(("jam", 2)) == [("jam", 2, 3.0)]
    session.close()


def test_values_that_do_not_fit_are_refused():
    session, views = filled([("tea", 1, 2.0)])
    view = views["totals"]
    with pytest.raises(ReadError, match="no column 'price'; it has: item, shop, total"):
        view.get({"price": 1.0})
    with pytest.raises(ReadError, match=r"the key of view 'totals' must be 2 values \(item, shop\), got 1"):
        view.get("tea")
    with pytest.raises(ReadError, match="do not fit the columns of view 'totals'"):
        view.get(("tea", "one"))
    with pytest.raises(ReadError, match="errors must be"):
        view.get(("tea", 1), errors="none")
    with pytest.raises(HistoryGoneError):
        view.get(("tea", 1), at=0)
    changes = session.maintain("changes", ORDERS.filter("price > 0").select("item"), contents=False)
    with pytest.raises(ReadError, match="contents=False"):
        changes.get("tea")
    session.close()


def test_errors_of_the_view_are_raised():
    session = an.Session()
    view = session.maintain("ratios", ORDERS.select("item", ratio="1 / shop"))
    session.insert("orders", [("tea", 0, 1.0), ("jam", 2, 1.0)])
    session.advance()
    with pytest.raises(ViewHasErrorsError):
        view.get({"item": "jam"})
    assert view.get({"item": "jam"}, errors="ignore") == [("jam", 0.5)]
    session.close()


def test_at_two_times():
    source = an.source("known", "item string, price long", time=("system", "event"))
    with an.Session(retain="all") as session:
        view = session.maintain("totals", source.group_by("item").agg(total="sum(price)"))
        session.insert("known", [("tea", 3)], time=1)
        session.advance()
        session.insert("known", [("tea", 4)], time=2)
        session.advance()
        for at in [(0, 1), (0, 2), (1, 1), (1, 2), (1, 0), None]:
            assert view.get("tea", at) == view.to_pylist(at)


@pytest.mark.parametrize("shards", [1, 4])
def test_a_key_costs_its_rows_whatever_the_view_holds(shards, monkeypatch):
    looked_at, find_in = [], read.find_in
    monkeypatch.setattr(read, "find_in", lambda *given: looked_at.append(found := find_in(*given)) or found)
    monkeypatch.setattr(contents, "contents", lambda *_: pytest.fail("all contents are read"))
    for count in (100, 10_000):
        session, views = filled([(f"{n}", n, 1.0) for n in range(count)], shards=shards)
        del looked_at[:]
        with monkeypatch.context() as patch:
            patch.setattr(contents, "stored_errors", lambda *_: contents.Rows.empty(contents.ERROR_SCHEMA))
            assert views["totals"].get(("7", 7)) == [("7", 7, 1.0)]
        assert sum(map(len, looked_at)) <= 5
        session.close()
