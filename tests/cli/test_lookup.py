"""``altneu query`` looks rows up by the keys of views and of indexes: its answers are those of a full read."""

from __future__ import annotations

import random
from functools import partial

import pytest

import altneu as an
from altneu.cli import offline
from altneu.runtime import read
from tests.session.lookup_cases import by_full_reads, counting, filled, outcome, query


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
    assert negative or len(answers) > 15  # a view with a negative count is read as a whole


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
def test_negative_counts_are_found_at_the_keys_of_negative_updates(shards):
    rng = random.Random(shards)
    with filled(rng, rows=40, negative=True, shards=shards, retain="all") as session:
        table = session._engine.table
        for view in ("facts", "totals", "by_i_s"):
            name = session._engine.ports(view).contents
            for at in range(session.lower):
                found = bool((read.contents(table, name, (at,)).diffs < 0).any())
                assert read.has_negative_rows(table, name, (at,)) is found
        name = session._engine.ports("facts").contents
        assert read.has_negative_rows(table, name, (session.lower - 1,), most=0) is None
