"""Sources that a program declares with further columns open the stores that have them without."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import altneu as an
from altneu import Session
from altneu.engine.sources import SourceColumns
from altneu.errors import HydrationError, InputError, PlanError

BEFORE, AFTER = "item string, price int", "item string, shop string, price int, note string"


def plans(orders: an.Collection) -> dict[str, an.Collection]:
    other = an.source("prices", "item string, least int")
    return {
        "totals": orders.group_by("item").agg(total="sum(price)"),
        "count": orders.group_by().agg(n="count(*)"),
        "dear": orders.select("item", "price").filter("price > 3"),
        "named": orders.select(name="upper(item)", twice="2 * price"),
        "joined": orders.join(other, on="item").select("item", "price", "least"),
        "items": orders.select("item").distinct(),
    }


def maintained(session: Session, orders: an.Collection) -> dict[str, Counter[Any]]:
    views = {name: session.maintain(name, plan) for name, plan in plans(orders).items()}
    return {name: Counter(view.to_pylist()) for name, view in views.items()}


@pytest.mark.parametrize("recorded", [True, False])  # an earlier altneu did not say which columns sources have
@pytest.mark.parametrize("keep", [False, True])
def test_an_old_store_opens_with_further_columns(tmp_path, monkeypatch, keep, recorded):
    with monkeypatch.context() as patched:
        if not recorded:
            patched.setattr(SourceColumns, "know", lambda *_: None)
        with Session(path=tmp_path, shards=2) as session:
            before = maintained(session, an.source("orders", BEFORE, keep=keep))
            session.insert("orders", [("tea", 3), ("tea", 4), ("jam", 5)])
            session.insert("prices", [("tea", 1)])
            session.advance()
            before = maintained(session, an.source("orders", BEFORE, keep=keep))
        states = {k: v for k, v in session.store.state.items() if k.startswith("arrangement/")}
    orders = an.source("orders", AFTER if recorded else "item string, price int, shop string, note string", keep=keep)
    row = {"item": "tea", "shop": "fair", "price": 9, "note": None}
    with Session(path=tmp_path) as session:
        assert maintained(session, orders) == before
        if not keep:
            kept = {k: v for k, v in session.store.state.items() if k.startswith("arrangement/")}
            assert kept == states  # nothing was computed again
            with pytest.raises(HydrationError, match="backfill"):
                session.maintain("by shop", orders.group_by("shop").agg(n="count(*)"))
        session.insert("orders", [row])
        session.retract("orders", [{"item": "jam", "price": 5}])
        session.advance()
        totals = session.view("totals").to_pylist()
        assert sorted(totals) == [("tea", 16)]
        assert session.view("named").explain_row(("TEA", 18)).sufficient
        if keep:
            by_shop = session.maintain("by shop", orders.group_by("shop").agg(n="count(*)"))
            assert Counter(by_shop.to_pylist()) == Counter([("fair", 1), (None, 2)])
            session.replace("orders", [row])
            session.advance()
            assert session.view("totals").to_pylist() == [("tea", 9)]
    with Session(path=tmp_path) as session:
        maintained(session, orders)
        if keep:
            session.maintain("by shop", orders.group_by("shop").agg(n="count(*)"))
        session.reshard(4)
        session.insert("orders", [row])
        session.advance()
        assert session.view("totals").to_pylist() == [("tea", 18 if keep else 25)]


def test_a_source_with_a_key_gets_a_column(tmp_path):
    def users(columns: str) -> an.Collection:
        return an.source("users", columns, key="id")

    with Session(path=tmp_path, shards=2) as session:
        session.maintain("names", users("id long, name string").select("name"))
        session.insert_or_update("users", [(1, "Ada"), (2, "Bob")])
        session.advance()
    later = users("id long, name string, mail string")
    with Session(path=tmp_path) as session:
        names = session.maintain("names", later.select("name"))
        mails = session.maintain("mails", later.select("id", "mail"))
        assert sorted(mails.to_pylist()) == [(1, None), (2, None)]
        session.insert_or_update("users", [(1, "Ada L.", "a@b.c")])
        session.delete_key("users", [2])
        session.advance()
        assert names.to_pylist() == [("Ada L.",)]
        assert mails.to_pylist() == [(1, "a@b.c")]
        session.insert("users", [(1, "Eve", None)])
        session.advance()
        assert names.errors().num_rows == 2
    with Session(path=tmp_path) as session:
        names = session.maintain("names", later.select("name"))
        session.maintain("mails", later.select("id", "mail"))
        session.insert_or_update("users", [(1, "Ada", None)])
        session.advance()
        assert names.to_pylist() == [("Ada",)]
        held = {name for name, _ in (*session._engine.table.live, *session._engine.table.stored)}
        assert held <= session._engine.plan.arrangements.keys()  # nothing is left of what was before


def test_what_is_refused():
    orders = an.source("orders", BEFORE, keep=True)
    session = Session()
    session.maintain("all", orders)
    session.insert("orders", [("tea", 3)])
    more = an.source("orders", f"{BEFORE}, shop string", keep=True)
    with pytest.raises(InputError, match="rows of source 'orders' are inserted and wait"):
        session.maintain("by shop", more.group_by("shop").agg(n="count(*)"))
    session.advance()
    for columns in ("item string", "item string, price long", f"{BEFORE}, shop string not null"):
        with pytest.raises(PlanError, match="'orders' is declared twice"):
            session.maintain("other", an.source("orders", columns, keep=True).select("item"))
    session.maintain("by shop", more.group_by("shop").agg(n="count(*)"))
    assert session.view("by shop").to_pylist() == [(None, 1)]
    items = an.source("items", "item string", distinct=True)
    session.maintain("items", items)
    with pytest.raises(InputError, match="'items' is a set of whole rows"):
        session.maintain("more", an.source("items", "item string, n long", distinct=True).select("n"))
