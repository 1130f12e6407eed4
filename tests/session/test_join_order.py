"""Cyclic patterns along keys: joined one relation after the other, once it is known what rows come first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu import sql
from altneu.engine.sizes import SizesOfInputs
from altneu.errors import SourceFailedError
from altneu.plan.rewrite import join_order
from altneu.runtime.inputs import Inputs

TABLES = {
    "customers": "c bigint NOT NULL, nation int",
    "orders": "o bigint NOT NULL, c bigint, day int NOT NULL",
    "lines": "o bigint NOT NULL, s bigint NOT NULL, price double",
    "suppliers": "s bigint NOT NULL, nation int, region string",
}
QUERY = """
    SELECT customers.nation, region, o.o, price * 2 AS twice
    FROM suppliers, customers, orders o, lines l
    WHERE customers.c = o.c AND l.o = o.o AND l.s = suppliers.s AND customers.nation = suppliers.nation AND o.day > 1
"""
ALONG_KEYS = "| binary joins: no intermediate result has more than"
CYCLIC = "| delta join: the pattern is cyclic, and an intermediate result may outgrow"


def collection(text=QUERY, **declared):
    sources = {name: an.source(name, columns, **declared.get(name, {})) for name, columns in TABLES.items()}
    return sql.query(text, sources)


def tables(lines, seed=0, nations=5, nulls=False):
    """Rows with keys: every order has one customer, every line one order and one supplier."""
    rng = np.random.default_rng(seed)
    customers, orders, suppliers = max(lines // 30, 2), max(lines // 4, 3), max(lines // 60, 2)
    nation = pa.array(rng.integers(0, nations, customers), mask=rng.random(customers) < 0.2 * nulls)
    buyer = pa.array(rng.integers(0, customers, orders), mask=rng.random(orders) < 0.2 * nulls)
    return {
        "customers": pa.table({"c": np.arange(customers), "nation": nation.cast(pa.int32())}),
        "orders": pa.table(
            {"o": np.arange(orders), "c": buyer, "day": pa.array(rng.integers(0, 9, orders), pa.int32())}
        ),
        "lines": pa.table(
            {"o": rng.integers(0, orders, lines), "s": rng.integers(0, suppliers, lines), "price": rng.random(lines)}
        ),
        "suppliers": pa.table(
            {
                "s": np.arange(suppliers),
                "nation": pa.array(rng.integers(0, nations, suppliers), pa.int32()),
                "region": pa.array([f"r{i % 3}" for i in range(suppliers)]),
            }
        ),
    }


def load(session, rows, wrapped=lambda table: table):
    for name, table in rows.items():
        session.insert(name, wrapped(table))
    return session.advance()


def sorted_rows(view):
    return sorted(view.to_pylist(), key=repr)


def changes(rng, rows, there):
    """Some rows of each table that come, and some that go."""
    for name, table in rows.items():
        gone = [there[name].pop(int(rng.integers(len(there[name])))) for _ in range(min(3, len(there[name]) - 1))]
        new = [tuple(row.values()) for row in table.take(rng.integers(0, table.num_rows, 4)).to_pylist()]
        there[name] += new
        yield name, gone, new


@pytest.mark.parametrize(("seed", "shards"), [(0, 1), (1, 3), (2, 1), (3, 1)])
def test_views_are_what_a_delta_join_shows(seed, shards, tmp_path, monkeypatch):
    monkeypatch.setattr(join_order, "TELLING_ROWS", 1)
    rows = tables(60, seed, nations=2 + seed % 3, nulls=seed % 2 == 1)
    there = {name: [tuple(r.values()) for r in table.to_pylist()] for name, table in rows.items()}
    rng = np.random.default_rng(seed)
    with an.Session(shards=shards) as other:
        expected = other.maintain("v", collection(), joins="delta")
        load(other, rows)
        with an.Session(path=tmp_path / "s", shards=shards) as session:
            view = session.maintain("v", collection())
            load(session, rows)
            assert ALONG_KEYS in session.explain("v")
            assert sorted_rows(view) == sorted_rows(expected)
        with an.Session(path=tmp_path / "s") as session:  # what was chosen is read again
            view = session.maintain("v", collection())
            assert "| binary joins, as when the view was first maintained" in session.explain("v")
            for _ in range(4):
                for name, gone, new in changes(rng, rows, there):
                    for each in (session, other):
                        each.retract(name, gone)
                        each.insert(name, new)
                session.advance()
                other.advance()
                assert sorted_rows(view) == sorted_rows(expected)
        with an.Session(path=tmp_path / "s") as session:
            assert sorted_rows(session.maintain("v", collection())) == sorted_rows(expected)


def kept(joins, rows):
    with an.Session() as session:
        session.maintain("v", collection(), joins=joins)
        return load(session, rows).state_rows


def test_they_keep_less_than_a_delta_join():
    rows = tables(12_000)
    assert kept("auto", rows) * 1.5 < kept("delta", rows)
    assert kept("auto", rows) < kept("binary", rows)  # customers and suppliers of a nation first


@pytest.mark.parametrize("declared", [{}, {"customers": {"key": "c"}}])
def test_what_follows_a_view_goes_on_where_it_is_planned_anew(declared, tmp_path):
    rows, seen = tables(12_000), []
    with an.Session(path=tmp_path / "s") as session:
        view = session.maintain("v", collection(**declared))
        upon = session.maintain("per_region", collection(**declared).group_by("region").agg(n="count(*)"))
        with view.subscribe(lambda row, _time, diff: seen.append((row, diff))):
            assert CYCLIC in session.explain("v")
            load(session, rows)
            assert ALONG_KEYS in session.explain("v")
        shown = sorted_rows(view)
        assert sum(n for _, n in upon.to_pylist()) == len(shown) > 0
        assert ALONG_KEYS in session.explain("per_region")
        assert CYCLIC not in session.explain("per_region")
    assert sorted((row for row, diff in seen for _ in range(diff)), key=repr) == shown


@pytest.mark.parametrize("lines", [12_000, 120_000])
def test_each_key_of_the_smaller_sides_is_counted_once_and_none_of_the_largest(lines, monkeypatch):
    asked, own = [], SizesOfInputs._repeats
    monkeypatch.setattr(
        SizesOfInputs, "_repeats", lambda self, of, columns: asked.append((of.name, columns)) or own(self, of, columns)
    )
    with an.Session() as session:
        session.maintain("v", collection())
        load(session, tables(lines))
        assert ALONG_KEYS in session.explain("v")
        first = len(asked)
        load(session, tables(40))
    assert len(asked) == len({*asked}) == first <= 10
    assert "lines" not in {name for name, _ in asked}


def test_keys_that_arrow_does_not_group_by_are_not_known(monkeypatch):
    monkeypatch.setattr(join_order, "TELLING_ROWS", 1)
    a, b, c = (
        an.source(name, f"{x} array<int>, {y} array<int>")
        for name, x, y in (("a", "x", "y"), ("b", "y", "z"), ("c", "x", "z"))
    )
    with an.Session() as session:
        view = session.maintain("v", a.join(b, on="y").join(c, on=["x", "z"]))
        for name in "abc":
            session.insert(name, [([1], [1]), ([2], [2])])
        session.advance()
        assert CYCLIC in session.explain("v")
        assert len(view.to_pylist()) == 2


def test_what_is_between_the_joins_comes_after_them(monkeypatch):
    monkeypatch.setattr(join_order, "TELLING_ROWS", 1)
    source = {name: an.source(name, columns) for name, columns in TABLES.items()}
    pairs = source["suppliers"].join(source["customers"], on="nation").select("s", "c", "nation", near="nation * 2 + s")
    bought = pairs.filter("near % 3 <> 1").join(source["orders"], on="c").select("s", "o", "near", due="day + near")
    lines = bought.join(source["lines"], on=["s", "o"]).select("o", "near", "due", "price")
    rows = tables(400)
    with an.Session() as session, an.Session() as other:
        view, expected = session.maintain("v", lines), other.maintain("v", lines, joins="binary")
        assert CYCLIC in session.explain("v")
        load(session, rows)
        load(other, rows)
        assert ALONG_KEYS in session.explain("v")
        assert sorted_rows(view) == sorted_rows(expected) != []
        for each in (session, other):
            each.retract("customers", rows["customers"].slice(0, 2))
            each.advance()
        assert sorted_rows(view) == sorted_rows(expected)


def test_a_view_that_is_maintained_anew_is_planned_as_is_asked_then():
    with an.Session() as session:
        session.maintain("v", collection())
        session.drop("v")
        session.maintain("v", collection(), joins="delta")
        load(session, tables(12_000))
        assert "| delta join, as requested" in session.explain("v")


def test_keys_are_counted_as_the_source_has_them(spark):
    source = an.source("t", "k bigint")
    frame = spark.createDataFrame([("1",), ("01",), (" 1 ",), ("2",), (None,), (None,)], "k string")
    inputs = Inputs(frames={"t": [(frame, None)]})
    sizes = SizesOfInputs(inputs)
    assert (sizes.rows(source.node), sizes.repeats(source.node, ("k",))) == (6, 3)


def test_rows_that_cannot_be_counted_are_told_by_the_step(spark, tmp_path):
    rows = tables(60)
    with an.Session(spark) as session:
        view = session.maintain("v", collection())
        for name, table in rows.items():
            pq.write_table(table, tmp_path / f"{name}.parquet")
            session.insert(name, spark.read.parquet(str(tmp_path / f"{name}.parquet")))
        (tmp_path / "orders.parquet").rename(tmp_path / "away")
        with pytest.raises(SourceFailedError):
            session.advance()
        (tmp_path / "away").rename(tmp_path / "orders.parquet")
        session.advance()
        assert view.to_pylist()


def test_few_rows_say_little_and_hubs_much():
    few = tables(300)
    with an.Session() as session:
        session.maintain("v", collection())
        load(session, few)
        assert CYCLIC in session.explain("v")
    edges = an.source("edges", "src long, dst long")
    hops = edges.join(edges, on={"dst": "src"}).select(a="src", b="dst", c="`right.dst`")
    rng = np.random.default_rng(0)
    with an.Session() as session:
        session.maintain("triangles", hops.join(edges, on={"a": "src", "c": "dst"}))
        session.insert(
            "edges", pa.table({"src": rng.integers(0, 2_000, 20_000), "dst": rng.integers(0, 2_000, 20_000)})
        )
        session.advance()
        assert CYCLIC in session.explain("triangles")


def test_what_is_not_known_at_the_first_step_stays_as_it_was_planned():
    rows = tables(12_000)
    with an.Session() as session:
        view = session.maintain("v", collection())
        load(session, {name: rows[name] for name in ("customers", "orders")})
        load(session, {name: rows[name] for name in ("lines", "suppliers")})
        assert CYCLIC in session.explain("v")
        late = session.maintain("late", collection())
        assert sorted_rows(late) == sorted_rows(view)
    with an.Session() as session:
        session.maintain("v", collection(), joins="delta")
        load(session, rows)
        assert "| delta join, as requested" in session.explain("v")


def test_data_frames_are_counted_by_spark(spark, tmp_path):
    rows = tables(12_000, nulls=True)
    for name, table in rows.items():
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with an.Session() as other:
        expected = other.maintain("v", collection(), joins="delta")
        load(other, rows)
        with an.Session(spark, path=tmp_path / "store", shards=2) as session:
            view = session.maintain("v", collection())
            for name in rows:
                session.insert(name, spark.read.parquet(str(tmp_path / f"{name}.parquet")))
            session.advance()
            assert ALONG_KEYS in session.explain("v")
            assert sorted_rows(view) == sorted_rows(expected)
