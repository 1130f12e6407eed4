"""``session.replace``: what the step receives, what is refused, which values are equal, and what it costs."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import InputError, SchemaError, SourceFailedError, UnknownSourceError
from altneu.operators.arrange.operation import ReadOp

STOCK = an.source("stock", "item string, n long", keep=True)
ROWS = [("tea", 3), ("tea", 3), ("jam", 5), (None, 1)]


@pytest.fixture
def session():
    with an.Session() as session:
        session.maintain("total", STOCK.group_by("item").agg(n="sum(n)"))
        session.insert("stock", ROWS)
        session.advance()
        yield session


def changes(session, name="total"):
    return sorted(
        ((*list(row.values())[:-2], row["diff"]) for row in session.view(name).changes().to_pylist()), key=str
    )


def test_the_step_receives_the_differences(session):
    session.replace("stock", [("tea", 3), ("jam", 5), ("oil", 2), (None, 1)])
    step = session.advance()
    assert step.changes_in == 2  # one tea less, and oil
    assert changes(session) == [("oil", 2, 1), ("tea", 3, 1), ("tea", 6, -1)]
    before = session.lower
    session.replace("stock", pa.table({"item": ["oil", "jam", "tea", None], "n": [2, 5, 3, 1]}))
    assert not session._engine.has_pending
    assert session.lower == before


@pytest.mark.parametrize(
    "form",
    [
        list,
        lambda rows: [{"item": item, "n": n} for item, n in rows],
        lambda rows: pa.table({"n": [n for _, n in rows], "item": [item for item, _ in rows]}),
        lambda rows: pd.DataFrame(rows, columns=["item", "n"]),
        lambda rows: pl.DataFrame(rows, schema=["item", "n"], orient="row"),
        iter,
    ],
)
def test_every_form_of_rows(session, form):
    session.replace("stock", form([("tea", 3), ("oil", 9)]))
    session.advance()
    assert sorted(session.view("total").to_pylist()) == [("oil", 9), ("tea", 3)]


def test_a_column_may_say_how_often_a_row_is_there(session):
    session.replace("stock", [("tea", 3, 4), ("jam", 5, 0)], diff="times")
    session.advance()
    assert session.view("total").to_pylist() == [("tea", 12)]


def test_what_waits_is_replaced_and_what_comes_after_is_added(session):
    session.insert("stock", [("oil", 1)])
    session.replace("stock", [("salt", 1)])
    session.replace("stock", [("rye", 1), ("tea", 3)])
    session.insert("stock", [("oat", 1)])
    session.retract("stock", [("tea", 3)])
    session.advance(to=session.lower + 3)
    assert sorted(session.view("total").to_pylist()) == [("oat", 1), ("rye", 1)]


def test_equal_values_are_equal_however_they_are_written(spark):
    """Floats, maps and decimals of another form are no difference, on Spark either."""
    source = an.source("x", "k int, x double, m map<string,int>, d decimal(8,2), t timestamp", keep=True)
    rows = {"k": pa.array([1, 2, 3], pa.int64()), "x": [0.0, float("nan"), None]}
    maps, other = [[("a", 1), ("b", 2)], [], None], [[("b", 2), ("a", 1)], [], None]
    times = pa.array([0, 1, None], pa.timestamp("us", "UTC"))

    def table(maps, zero):
        known = {**rows, "x": [zero, *rows["x"][1:]], "m": pa.array(maps, pa.map_(pa.string(), pa.int32()))}
        return pa.table({**known, "d": pa.array([1, 2, None], pa.int8()), "t": times})

    for placement in ("driver", "spark"):
        with an.Session(spark, placement=placement) as session:
            session.maintain("x", source)
            session.replace("x", table(maps, 0.0))
            assert session.advance().changes_in == 3
            session.replace("x", table(other, -0.0))
            assert not session._engine.has_pending
            frame = spark.createDataFrame(table(other, -0.0))
            session.replace("x", frame)
            assert not session._engine.has_pending
            session.replace("x", frame.where("k < 3").union(frame.where("k = 1")))
            assert session.advance().changes_in == 2
            assert sorted(row[0] for row in session.view("x").to_pylist()) == [1, 1, 2]


@pytest.mark.parametrize("key", [None, "k"])
def test_large_differences_stay_with_spark(spark, monkeypatch, key):
    """More changes than the driver takes are a DataFrame, which the next step's tasks read."""
    monkeypatch.setattr("altneu.engine.replace.READ_ROWS", 100)
    source = an.source("x", "k long, v long", keep=key is None, key=key)
    with an.Session(spark, shards=3) as session:
        view = session.maintain("x", source)
        session.replace("x", spark.range(5_000).selectExpr("id as k", "id % 7 as v"))
        assert session._engine.pending.frames
        assert session.advance().changes_in == 5_000
        session.replace("x", spark.range(10, 5_000).selectExpr("id as k", "if(id < 400, 9, id % 7) as v"))
        assert session._engine.pending.frames
        assert session.advance().changes_in == 10 + 390 * 2
        assert sorted(view.to_pylist()) == [(k, 9 if k < 400 else k % 7) for k in range(10, 5_000)]
        session.replace("x", spark.range(10, 5_000).selectExpr("id as k", "if(id < 400, 9, id % 7) as v"))
        assert not session._engine.has_pending


# a source with a key --------------------------------------------------------------------------------------------------


def test_of_a_key_with_several_rows_each_is_an_error_until_a_snapshot_has_one():
    users = an.source("users", "id long, name string", key="id")
    with an.Session() as session:
        view = session.maintain("users", users)
        session.replace("users", [(1, "Ada"), (2, "Bob"), (2, "Eve")])
        session.advance()
        assert sorted(view.errors()["row"].to_pylist()) == ['{"id": 2, "name": "Bob"}', '{"id": 2, "name": "Eve"}']
        session.insert_or_update("users", [(1, "Ann"), (3, "Cy")])
        session.replace("users", [(1, "Ada"), (2, "Eve"), (2, "Eve")])
        assert session.advance().changes_in <= 2  # Bob goes, and Eve, who is there, may be said to come
        assert sorted(view.to_pylist()) == [(1, "Ada"), (2, "Eve")]


# what is refused ------------------------------------------------------------------------------------------------------


def refused(session, told, *args, error=InputError, **more):
    state = session._engine.waiting(), session.store.number, session.lower
    with pytest.raises(error, match=told):
        session.replace(*args, **more)
    assert (session._engine.waiting(), session.store.number, session.lower) == state


def test_what_is_refused_changes_nothing(session):
    session.insert("stock", [("oil", 1)])
    refused(session, "no maintained view reads a source 'stok'", "stok", [], error=UnknownSourceError)
    refused(session, "row 0 for source 'stock' has 'x' in column 'n'", "stock", [("a", "x")], error=SchemaError)
    refused(
        session,
        "diff='times' is not a column",
        "stock",
        pa.table({"item": ["a"], "n": [1]}),
        diff="times",
        error=SchemaError,
    )
    session.advance()
    assert sorted(session.view("total").to_pylist(), key=str) == [("jam", 5), ("oil", 1), ("tea", 6), (None, 1)]


def test_the_advice_of_a_source_without_rows_can_be_followed():
    plain = an.source("stock", "item string, n long")
    with an.Session() as session:
        session.maintain("total", plain.group_by("item").agg(n="sum(n)"))
        session.insert("stock", ROWS)
        session.advance()
        refused(session, r"declare it with an\.source\('stock', \.\.\., keep=True\)", "stock", ROWS)
        session.backfill("stock", ROWS)
        session.replace("stock", [("rye", 1)])
        session.advance()
        assert session.view("total").to_pylist() == [("rye", 1)]


def test_rows_of_the_future_are_refused_until_they_are_there(session, tmp_path):
    session.insert("stock", [("rye", 1)], time=5)
    refused(session, r"inserted for later times \(time=5\)", "stock", [])
    session.discard("stock")
    session.insert("stock", [("rye", 1)], time=5)
    session.advance()
    refused(session, "inserted for time 5 or later are stored", "stock", [])
    session.advance(to=6)
    session.replace("stock", [])
    session.advance()
    assert session.view("total").to_pylist() == []
    session.insert("stock", [("rye", 1)])
    session.commit()
    refused(session, "inserted for time 7 or later are stored", "stock", [])


def test_commands_that_wait_are_refused(session):
    session.maintain("users", an.source("users", "id long, name string", key="id"))
    session.insert_or_update("users", [(1, "Ada")], time=9)
    refused(session, r"inserted for later times \(time=9\)", "users", [])
    session.advance()
    refused(session, "inserted for time 9 or later", "users", [])
    session.advance(to=10)
    session.replace("users", [])
    session.advance()
    assert session.view("users").to_pylist() == []
    refused(session, "has a key, so each of its rows is there once", "users", [(1, "a", 2)], diff="d")
    session.maintain("s", an.source("s", "id long", distinct=True))
    refused(session, "is a set, so each of its rows is there once", "s", [1], diff=2)


def test_two_times_are_refused(session):
    session.maintain("t", an.source("t", "k long", time=("known", "day"), keep=True))
    refused(session, "has two times, known and day", "t", [1])


def test_a_frame_that_fails_changes_nothing(spark):
    with an.Session(spark) as session:
        view = session.maintain("x", an.source("x", "k long", keep=True))
        session.replace("x", [1, 2])
        session.advance()
        bad = spark.range(3).selectExpr("1 div (id - 2) as k")
        refused(session, "DIVIDE_BY_ZERO", "x", bad, error=SourceFailedError)
        refused(session, "has a stream|is a stream", "x", spark.readStream.format("rate").load())
        session.replace("x", [2, 3])
        session.advance()
        assert sorted(view.to_pylist()) == [(2,), (3,)]


def test_it_follows_what_a_store_has(tmp_path):
    for rows in ([("tea", 3)], [("tea", 4), ("jam", 1)], []):
        with an.Session(path=tmp_path, shards=2) as session:
            view = session.maintain("total", STOCK.group_by("item").agg(n="sum(n)"))
            session.replace("stock", rows)
            session.advance()
            assert sorted(view.to_pylist()) == sorted(rows)
    with an.Session(path=tmp_path) as session, pytest.raises(an.errors.StorePlanError):
        session.replace("stock", [])  # a view of the store is not maintained here
    an.check_store(tmp_path)


# what it costs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("declared", [{"keep": True}, {"key": "k"}, {"distinct": True}])
def test_old_rows_are_read_once_and_the_step_follows_the_change(declared, monkeypatch):
    """At n and 100 n: old rows come out of the arrangement once, and the step receives the differences alone."""
    opened, step = [0], ReadOp.step

    def counted(self, here):
        (updates,) = step(self, here)
        opened[0] += 0 if updates is None else len(updates)
        return [updates]

    monkeypatch.setattr(ReadOp, "step", counted)
    for count in (500, 50_000):
        with an.Session(shards=2) as session:
            session.maintain("x", an.source("x", "k long, v long", **declared))
            session.replace("x", pa.table({"k": range(count), "v": range(count)}))
            assert session.advance().changes_in == count
            opened[0] = 0
            session.replace("x", pa.table({"k": range(count), "v": [v + (v < 10) for v in range(count)]}))
            assert opened[0] == count
            assert session.advance().changes_in == 20
            assert opened[0] == count


# statements -----------------------------------------------------------------------------------------------------------


def sql_rows(session, text):
    return sorted(session.sql(text).to_pylist())


@pytest.fixture
def tables():
    with an.Session(shards=2) as session:
        session.sql(
            "CREATE TABLE t (k INT, v STRING); CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM t GROUP BY k"
        )
        session.sql("INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, 'b')")
        yield session


def test_insert_overwrite(tables):
    assert tables.sql("INSERT OVERWRITE TABLE t VALUES (1, 'a'), (3, 'c')").message == "INSERT OVERWRITE 2"
    assert sql_rows(tables, "SELECT * FROM n") == [(1, 1), (3, 1)]
    assert tables.history()[-1].step.changes_in == 3
    tables.sql("INSERT OVERWRITE t (v, k) SELECT v, k + 1 FROM t")
    assert sql_rows(tables, "SELECT * FROM t") == [(2, "a"), (4, "c")]
    assert tables.sql("TRUNCATE TABLE t").message == "TRUNCATE"
    assert sql_rows(tables, "SELECT * FROM n") == []


def test_insert_overwrite_in_a_transaction(tables):
    tables.sql("BEGIN; INSERT OVERWRITE t VALUES (7, 'g'); COMMIT")
    assert sql_rows(tables, "SELECT * FROM t") == [(7, "g")]
    tables.sql("BEGIN; TRUNCATE TABLE t; INSERT INTO t VALUES (8, 'h'); ROLLBACK")
    assert sql_rows(tables, "SELECT * FROM t") == [(7, "g")]
    tables.sql("BEGIN; TRUNCATE TABLE t; INSERT INTO t VALUES (8, 'h'); COMMIT")
    assert sql_rows(tables, "SELECT * FROM t") == [(8, "h")]
    for first, second in [("INSERT INTO t VALUES (9, 'i')", "TRUNCATE TABLE t"), ("TRUNCATE TABLE t", "DELETE FROM t")]:
        with pytest.raises(an.errors.StatementError, match="has changes that are not committed yet"):
            tables.sql(f"BEGIN; {first}; {second}")
        tables.sql("ROLLBACK")
    assert sql_rows(tables, "SELECT * FROM t") == [(8, "h")]


def test_statements_say_what_cannot_be_replaced(tables, tmp_path):
    (tmp_path / "x.csv").write_text("1,a\n")
    tables.sql(f"CREATE SOURCE s (k INT, v STRING) FROM FILE '{tmp_path}/x.csv' FORMAT CSV KEEP")
    tables.sql("CREATE SOURCE fed (k INT); CREATE MATERIALIZED VIEW f AS SELECT k + 1 AS k FROM fed")
    for text, told in [
        ("INSERT OVERWRITE s VALUES (1, 'x')", "'s' is fed from FILE"),
        ("TRUNCATE TABLE n", "'n' is a MATERIALIZED VIEW"),
        ("TRUNCATE TABLE fed", "declare it with .* in SQL CREATE SOURCE … KEEP"),
        ("INSERT OVERWRITE t SELECT 1", "needs 2 columns"),
        ("TRUNCATE", "a table's name"),
        ("INSERT OVERWRITE DIRECTORY 'x' SELECT 1", "unexpected|expected"),
    ]:
        with pytest.raises(an.errors.AltneuError, match=told):
            tables.sql(text)
    assert sql_rows(tables, "SELECT * FROM t") == [(1, "a"), (1, "a"), (2, "b")]
