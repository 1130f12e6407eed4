"""``session.fork``: a copy that goes on by itself, with streams from where they were and sinks that are not its own."""

from __future__ import annotations

import uuid
from collections import Counter

import pytest

import altneu as an
from altneu.errors import PlanError, SinkError, StoreError, StreamError
from faults.stream_files import Files, N, follow

ORDERS = an.source("orders", "item string, price long", keep=True)
TOTALS = ORDERS.group_by("item").agg(total="sum(price)")
DEAREST = ORDERS.group_by("item").agg(total="max(price)")
NESTED = ORDERS.select("price", key="price").join(ORDERS.select("item", key="price"), on="key")


@pytest.fixture
def files(spark, tmp_path):
    return Files(spark, tmp_path / "in")


def rows(view) -> Counter:
    return Counter(view.to_pylist())


def shared(blue, green) -> set[str]:
    """The segments that are one file."""
    mine, others = blue / "segments", green / "segments"
    names = {p.name for p in mine.iterdir()} & {p.name for p in others.iterdir()}
    return {name for name in names if (mine / name).samefile(others / name)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("place", ["disk", "memory"])
def test_two_pipelines_from_one_past(tmp_path, place):
    at = tmp_path if place == "disk" else f"memory://{uuid.uuid4().hex}"
    with an.Session(path=f"{at}/blue", retain=3) as blue:
        totals, joined = blue.maintain("totals", TOTALS), blue.maintain("joined", NESTED)
        for n in range(4):
            blue.insert("orders", [(f"item {i}", n) for i in range(2000)])
            blue.advance()
        blue.insert("orders", [("tea", 100)])  # waits, and is not in the fork
        with blue.fork(f"{at}/green") as green:
            assert (green.lower, green.views) == (blue.lower, blue.views)
            assert {name: rows(green.view(name)) for name in green.views} == {
                "totals": rows(totals),
                "joined": rows(joined),
            }
            assert rows(green.view("totals")) == rows(blue.view("totals"))
            assert green.view("totals").changes().to_pylist() == totals.changes().to_pylist()
            assert rows(green.view("totals")) == rows(totals)
            assert sorted(green.view("totals").to_pylist(at=1)) == sorted(totals.to_pylist(at=1))
            green.maintain("totals", DEAREST, replace=True)
            green.insert("orders", [("jam", 7)])
            green.advance()
            blue.advance()
            assert rows(green.view("totals")) == Counter([("jam", 7), *((f"item {i}", 3) for i in range(2000))])
            assert rows(totals) == Counter([("tea", 100), *((f"item {i}", 6) for i in range(2000))])
    if place == "disk":
        assert shared(tmp_path / "blue", tmp_path / "green")
    with an.Session(path=f"{at}/green") as green:
        assert len(green.maintain("totals", DEAREST, replace=True).to_pylist()) == 2001
        green.drop("joined")
        green.advance()
    with an.Session(path=f"{at}/blue") as blue:
        assert len(blue.maintain("totals", TOTALS).to_pylist()) == 2001


def test_views_that_wait_for_their_query_and_kept_sources(tmp_path):
    with an.Session(path=tmp_path / "blue") as blue:
        blue.maintain("totals", TOTALS)
        blue.maintain("log", ORDERS, contents=False)
        blue.insert("orders", [("tea", 3)])
        blue.advance()
    with an.Session(path=tmp_path / "blue") as blue:
        blue.maintain("log", ORDERS, contents=False)
        with blue.fork(tmp_path / "green") as green:
            assert green.views == ["log"]
            assert green.views_stored == ["totals", "log"]
            assert green.maintain("totals", TOTALS).to_pylist() == [("tea", 3)]
            assert green.maintain("all", ORDERS).to_pylist() == [("tea", 3)]
            green.insert("orders", [("tea", 4)])
            green.advance()
            assert green.view("log").changes().to_pylist() == [{"item": "tea", "price": 4, "time": 1, "diff": 1}]


def test_statements_and_their_sinks(tmp_path):
    with an.Session(path=tmp_path / "blue") as blue:
        blue.sql(f"""
            CREATE TABLE orders (item STRING, price BIGINT);
            CREATE FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN 2 * x;
            CREATE MATERIALIZED VIEW totals AS SELECT item, twice(sum(price)) AS total FROM orders GROUP BY item;
            CREATE INDEX by_item ON totals (item);
            CREATE SINK s FROM totals INTO PARQUET '{tmp_path}/out';
            INSERT INTO orders VALUES ('tea', 3);
        """)
        written = sorted(p.name for p in (tmp_path / "out").rglob("*"))
        with blue.fork(tmp_path / "green") as green:
            green.sql("INSERT INTO orders VALUES ('jam', 5)")
            assert green.sql("SELECT * FROM totals ORDER BY item").to_pylist() == [("jam", 10), ("tea", 6)]
            assert green.sql("SHOW SINKS").to_pylist() == []
            assert sorted(p.name for p in (tmp_path / "out").rglob("*")) == written
            green.sql(
                "CREATE OR REPLACE MATERIALIZED VIEW totals AS "
                "SELECT item, sum(price) AS total FROM orders GROUP BY item"
            )
            with pytest.raises(SinkError, match="is written by the store of which this one is a fork"):
                green.sql(f"CREATE SINK mine FROM totals INTO PARQUET '{tmp_path}/out'")
        assert blue.sql("SELECT * FROM totals").to_pylist() == [("tea", 6)]
        blue.sql("INSERT INTO orders VALUES ('tea', 1)")
        assert sorted(p.name for p in (tmp_path / "out").rglob("*")) != written


def test_sinks_of_a_program_refuse_the_targets_of_the_store(tmp_path):
    with an.Session(path=tmp_path / "blue") as blue:
        view = blue.maintain("totals", TOTALS)
        blue.insert("orders", [("tea", 3)])
        blue.advance()
        an.sinks.parquet(view, str(tmp_path / "out")).run()
        with blue.fork(tmp_path / "green") as green, green.fork(tmp_path / "grandchild") as grandchild:
            for fork in (green, grandchild):
                with pytest.raises(SinkError, match=r"choose another target, or swap the fork in"):
                    an.sinks.parquet(fork.view("totals"), str(tmp_path / "out")).run()
                an.sinks.parquet(fork.view("totals"), str(tmp_path / f"out of {fork.store.identity}")).run()
            with an.read(tmp_path / "green") as reader, pytest.raises(SinkError, match="swap the fork in"):
                an.sinks.parquet(reader.view("totals"), str(tmp_path / "out")).run()
            green.insert("orders", [("tea", 4)])
            green.advance()
            with pytest.raises(SinkError, match="swap the fork in"):
                an.sinks.parquet(green.view("totals"), str(tmp_path / "out")).attach()
        blue.insert("orders", [("tea", 4)])
        blue.advance()
        assert an.sinks.parquet(view, str(tmp_path / "out")).run() == 2


def test_streams_go_on_in_both_from_where_they_were(files, tmp_path):
    files.put((1, 1), (2, 2))
    with an.Session(path=tmp_path / "blue") as blue:
        blue.maintain("v", N)
        follow(blue, files)
        with blue.fork(tmp_path / "green") as green:
            files.put((3, 3))
            assert follow(green, files).batches == 1
            assert follow(blue, files).batches == 1
            files.put((4, 4))
            assert follow(green, files).batches == 1
            assert rows(green.view("v")) == Counter([(1, 1), (2, 2), (3, 3), (4, 4)])
            assert rows(blue.view("v")) == Counter([(1, 1), (2, 2), (3, 3)])
            with pytest.raises(StreamError, match="but this is another query"):
                follow(green, files, checkpoint=str(tmp_path / "blue/streams"))
    with an.Session(path=tmp_path / "green") as green:
        view = green.maintain("v", N)
        files.put((5, 5))
        assert follow(green, files).batches == 1
        assert rows(view) == Counter([(n, n) for n in range(1, 6)])


def test_a_checkpoint_elsewhere_is_not_shared(files, tmp_path):
    files.put((1, 1))
    with an.Session(path=tmp_path / "blue") as blue:
        blue.maintain("v", N)
        follow(blue, files, checkpoint=str(tmp_path / "checkpoints"))
        with blue.fork(tmp_path / "green") as green:
            files.put((2, 2))
            for options in ({"checkpoint": str(tmp_path / "checkpoints")}, {}):
                with pytest.raises(StreamError, match=r"of the query a fork of .*, but this is another query"):
                    follow(green, files, **options)
        assert follow(blue, files, checkpoint=str(tmp_path / "checkpoints")).batches == 1
        assert rows(blue.view("v")) == Counter([(1, 1), (2, 2)])


def test_settings_are_those_of_the_session(tmp_path):
    settings = {"retain": "all", "memory": "1g", "check_functions": True, "idle_merge_effort": 1000}
    with an.Session(path=tmp_path / "blue", **settings) as blue, blue.fork(tmp_path / "green") as green:
        assert green._engine.settings == blue._engine.settings
        assert green._engine.settings["idle_merge_effort"] == 1000


def test_refused(tmp_path, spark):
    for session in (an.Session(), an.Session(spark)):
        with session, pytest.raises(StoreError, match=r"this session has no store to fork: open it with path="):
            session.fork(tmp_path / "green")
    with an.Session(path=tmp_path / "blue") as blue:
        with pytest.raises(StoreError, match="is the store itself; give the fork a folder of its own"):
            blue.fork(tmp_path / "blue")
        blue.fork(tmp_path / "green").close()
        with pytest.raises(StoreError, match="has a store already; give the fork a folder of its own"):
            blue.fork(tmp_path / "green")
        blue.maintain("totals", TOTALS)
        with pytest.raises(PlanError, match="no view 'other'"):
            blue.view("other")
