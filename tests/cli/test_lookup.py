"""``altneu query`` looks rows up by the keys of views and of indexes: its answers are those of a full read."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.cli import offline
from altneu.views import lookup
from altneu.views.view import state_of
from tests.session.lookup_cases import by_full_reads, counting, filled, ordered_query, outcome, query, ranked


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize("zero", [False, True])
def test_answers_are_those_of_a_full_read(shards, negative, zero, monkeypatch, tmp_path):
    rng = random.Random(10 * shards + 2 * negative + zero)
    options = {"path": tmp_path / "store", "retain": "all", "shards": shards}
    filled(rng, negative=negative, zero=zero, **options).close()
    with an.read(tmp_path / "store") as reader, counting(monkeypatch) as answers:
        for _ in range(40):
            text, at, errors = query(rng, by_key=True), rng.choice([None, 0, 1, 2]), rng.choice(["raise", "ignore"])
            ask = partial(offline.ask, reader, text, at, errors)
            answer = outcome(lambda ask=ask: ask().table)
            with by_full_reads(monkeypatch):
                assert answer == outcome(lambda ask=ask: ask().table), (text, at, errors)
    assert len(answers) > (2 if negative else 15)


def test_an_index_of_sql_and_two_times(monkeypatch, tmp_path):
    path = tmp_path / "store"
    known = an.source("known", "item string, price long", time=("system", "event"))
    with an.Session(path=path, retain="all") as session:
        session.sql("CREATE TABLE t (k BIGINT, v STRING); CREATE INDEX by_v ON T (v); INSERT INTO t VALUES (1, 'a')")
        session.sql("INSERT INTO t VALUES (2, 'b'), (3, 'a'); DELETE FROM t WHERE k = 1")
        session.maintain("totals", known.group_by("item").agg(total="sum(price)"))
        session.insert("known", [("tea", 3), ("tea", 4)], time=(session.lower, 1))
        session.advance()
    with an.read(path) as reader:
        monkeypatch.setattr(offline, "_rows", lambda *_: pytest.fail("a whole view is read"))
        ask = offline.ask
        assert ask(reader, "SELECT k FROM T WHERE v = 'a'").table.to_pylist() == [{"k": 3}]
        assert ask(reader, "SELECT count(*) AS n FROM t", 0).table.to_pylist() == [{"n": 1}]
        assert ask(reader, "SELECT total FROM totals WHERE item = 'tea'", (None, 0)).table.to_pylist() == []
        assert ask(reader, "SELECT total FROM totals WHERE item = 'tea'").table.to_pylist() == [{"total": 7}]


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("negative", [False, True])
def test_ordered_answers_are_those_of_a_full_read(shards, negative, monkeypatch, tmp_path):
    rng = random.Random(10 * shards + negative)
    options = {"path": tmp_path / "store", "retain": "all", "shards": shards}
    filled(rng, 120, views=ranked, negative=negative, **options).close()
    monkeypatch.setattr("altneu.views.prepared._FEWEST", 4)
    stretches, real = [], lookup.rows_in_order
    monkeypatch.setattr(lookup, "rows_in_order", lambda *given: stretches.append(given[-1]) or real(*given))
    with an.read(tmp_path / "store") as reader:
        for _ in range(40):
            text, at = ordered_query(rng), rng.choice([None, 0, 1, 2])
            answer = outcome(lambda text=text, at=at: offline.ask(reader, text, at).table)
            with by_full_reads(monkeypatch):
                assert answer == outcome(lambda text=text, at=at: offline.ask(reader, text, at).table), (text, at)
    assert len(stretches) > 12


def test_a_row_with_a_negative_count_is_an_error_where_a_query_meets_it(tmp_path):
    with an.Session(path=tmp_path / "store") as session:
        session.maintain("orders", an.source("orders", "item long, price long").arrange_by("item"))
        session.insert("orders", [(1, 2), (1, 3), (2, 3)])
        session.retract("orders", [(1, 4)])
        session.advance()
        asked = session.sql("SELECT * FROM orders WHERE item = 2").to_pylist()
    with an.read(tmp_path / "store") as reader:
        for test in ("item = 2", "item + 1 = 3"):
            rows = offline.ask(reader, f"SELECT * FROM orders WHERE {test}").table.to_pylist()
            assert rows == [{"item": 2, "price": 3}]
        for test in ("item = 1", "price > 3", "true"):
            with pytest.raises(an.errors.ViewHasErrorsError, match="count -1"):
                offline.ask(reader, f"SELECT * FROM orders WHERE {test}")
        ignored = offline.ask(reader, "SELECT price FROM orders WHERE item = 1", errors="ignore").table.to_pylist()
        assert sorted(row["price"] for row in ignored) == [2, 3]
    assert asked == [(2, 3)]


TEXTS = (
    "SELECT total FROM totals WHERE item = 7",
    "SELECT * FROM orders WHERE shop = 7",
    "SELECT price FROM orders WHERE kind = 1 AND price < 9",
    "SELECT price FROM orders WHERE kind = 1 ORDER BY price LIMIT 3",
    "SELECT o.price, t.total FROM orders o JOIN totals t USING (item) WHERE o.shop = 7",
    "SELECT count(*) AS n FROM orders",
)


def test_a_lookup_reads_as_many_rows_whatever_a_store_holds(monkeypatch, tmp_path):
    monkeypatch.setattr(offline, "_rows", lambda *_: pytest.fail("a whole view is read"))
    by_key, in_order, counts = lookup.rows_with_key, lookup.rows_in_order, []
    for count in (300, 30_000):
        with an.Session(path=tmp_path / f"{count}") as session:
            source = an.source("orders", "item long, shop long, kind long, price long")
            session.maintain("least", source.top_k(3, "price", per="kind"))  # before the view that reads its order
            session.maintain("orders", source)
            session.maintain("totals", source.group_by("item").agg(total="sum(price)"))
            session.sql("CREATE INDEX by_shop ON orders (shop)")
            number = np.arange(count)
            session.insert("orders", pa.table({"item": number, "shop": number, "kind": number % 2, "price": number}))
            session.advance()
        read = []
        with an.read(tmp_path / f"{count}") as reader, monkeypatch.context() as patch:
            patch.setattr(lookup, "rows_with_key", lambda *given, to=read: to.append(by_key(*given)) or to[-1])
            patch.setattr(
                lookup, "rows_in_order", lambda *given, to=read: to.append((found := in_order(*given))[0]) or found
            )
            answers = [offline.ask(reader, text).table.num_rows for text in TEXTS]
            assert answers == [1, 1, 4, 3, 1, 1]
            patch.setattr("altneu.views.contents.contents", lambda *_: pytest.fail("all contents are read"))
            assert reader.view("orders").get({"shop": 7}, errors="ignore") == [(7, 7, 1, 7)]
        counts.append([len(updates) for updates in read])
    assert counts[0] == counts[1]
    assert sum(counts[0]) < 100


def test_an_index_that_was_dropped_is_not_read(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.sql(
            "CREATE TABLE t (k BIGINT, v BIGINT); CREATE INDEX by_v ON t (v); INSERT INTO t VALUES (1, 2), (3, 4)"
        )
        with an.read(tmp_path) as reader:
            state = state_of(reader.view("t"))
            assert len(state.arrangements("t")) == 2
            session.sql("DROP INDEX by_v; INSERT INTO t VALUES (5, 2)")
            assert len(reader.view("t").get({"v": 2})) == 1
            reader.refresh()
            assert len(state.arrangements("t")) == 1
            assert sorted(reader.view("t").get({"v": 2})) == [(1, 2), (5, 2)]
            session.sql("CREATE INDEX by_v ON t (v)")
            reader.refresh()
            assert len(state.arrangements("t")) == 2
            assert sorted(reader.view("t").get({"v": 2})) == [(1, 2), (5, 2)]
