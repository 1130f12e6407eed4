"""What a load sends from task to task: rows of a source go to the stage that reads them, and through no other."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.errors import SourceFailedError
from altneu.operators.arrange.operation import ArrangeOp
from bench.spark_metrics import exchanged

ROWS = 40_000
FACTS = an.source("facts", "a long, v long")
LINKS = {name: an.source(name, f"{name} long, {after} long") for name, after in zip("bcd", "abc", strict=True)}
CHAIN = (
    LINKS["d"]
    .join(LINKS["c"], on="c")
    .join(LINKS["b"], on="b")
    .join(FACTS, on="a")
    .group_by("d")
    .agg(n="count(*)", s="sum(v)")
)
"""Three small sources joined one after the other, and then a large one."""


def rows(spark, joined):
    """Rows whose values for the keys of other sources are the same numbers."""
    links = zip("bcd", "abc", strict=True)
    frames = {name: spark.range(10).selectExpr(f"id AS {name}", f"id AS {after}") for name, after in links}
    return {**frames, "facts": spark.range(0, ROWS, 1, 2).selectExpr(f"id % {joined} AS a", "xxhash64(id) % 1000 AS v")}


def loaded(spark, plan, frames, path=None, placement="spark"):
    with an.Session(spark, path=path, shards=2, placement=placement) as session:
        view = session.maintain("view", plan)
        for name in session.sources:
            session.insert(name, frames[name])
        with exchanged(spark) as read:
            session.advance()
        return [sum(stage) for stage in read], Counter(view.to_pylist())


def test_a_source_that_is_joined_last_is_sent_once(spark):
    frames = rows(spark, 10)
    alone, _ = loaded(spark, FACTS.arrange_by("a"), frames)
    read, shown = loaded(spark, CHAIN, frames)
    assert sum(read) < 1.3 * sum(alone)
    assert shown == loaded(spark, CHAIN, frames, placement="driver")[1]
    assert sum(n for _, n, _ in shown) == ROWS


def test_where_a_source_is_arranged_is_where_it_is_first_read():
    with an.Session(shards=2) as session:
        session.maintain("view", CHAIN)
        session.maintain("early", FACTS.semijoin(LINKS["b"], on="a"))
        plan = session._engine.plan
        stages = {
            plan.source_of[port.node]: node.stage
            for node in plan.nodes
            for port in node.inputs
            if isinstance(node.operation, ArrangeOp) and port.node in plan.source_of
        }
    assert stages["facts"] == plan.first_uses["facts"] == 1  # as the second view reads it there
    with an.Session(shards=2) as session:
        session.maintain("view", CHAIN)
        plan = session._engine.plan
        assert plan.first_uses["facts"] > plan.first_uses["b"] > plan.first_uses["c"] == plan.first_uses["d"] == 1


@pytest.mark.parametrize("broken", ["facts", "b"])
def test_a_source_that_is_read_late_and_fails_is_named(spark, tmp_path, broken):
    """Nothing is committed, and the session goes on."""
    frames = rows(spark, 10)
    name = frames[broken].columns[0]
    failing = f"IF({name} > 5, CAST(raise_error('no disk') AS bigint), {name}) AS {name}"
    bad = frames[broken].selectExpr(failing, *frames[broken].columns[1:])
    with an.Session(spark, path=tmp_path / "store", shards=2, placement="spark") as session:
        view = session.maintain("view", CHAIN)
        for source in session.sources:
            session.insert(source, bad if source == broken else frames[source])
        with pytest.raises(SourceFailedError, match=broken):
            session.advance()
        assert view.to_pylist() == []
        session.discard(broken)
        session.insert(broken, frames[broken])
        session.advance()
        assert sum(n for _, n, _ in view.to_pylist()) == ROWS


PRICES = an.source("prices", "item long, amount decimal(15,2), pieces int")


@pytest.mark.parametrize("count", [40_000, 160_000])
def test_a_row_takes_the_bytes_that_its_values_need(spark, count):
    """Three numbers of 28 bytes, with a time and a diff of 16, whose ranges take 2, 3 and 4 bytes."""
    prices = spark.range(0, count, 1, 2).selectExpr(
        "xxhash64(id) & 65535 AS item", "CAST((xxhash64(id, 1) & 8388607) / 100 AS decimal(15,2)) AS amount",
        "CAST(xxhash64(id, 2) & 2147483647 AS int) AS pieces",
    )  # fmt: skip
    read, shown = loaded(spark, PRICES.arrange_by("item"), {"prices": prices})
    assert sum(shown.values()) == count
    assert 8 * count < sum(read) < 12 * count


EDGES = an.source("edges", "src long, dst long")
TWO_HOPS = EDGES.join(EDGES, on={"dst": "src"}).select("src", via="dst", dst="`right.dst`")
TRIANGLES = TWO_HOPS.join(EDGES, on={"src": "src", "dst": "dst"})


def test_what_a_delta_join_has_arranged_does_not_travel(spark):
    """Stages that look rows up get the name of what is new in an arrangement: 48 bytes a row do not come along."""
    sizes = {}
    for nodes in (4_000, 16_000):  # edges that do not go on
        rows = 8 * nodes
        edges = spark.range(0, rows, 1, 2).selectExpr(f"id % {nodes} AS src", f"{nodes} + id DIV 8 AS dst")
        with an.Session(spark, shards=2, placement="spark") as session:
            view = session.maintain("view", TRIANGLES, joins="delta")
            text = session.explain("view")
            session.insert("edges", edges)
            with exchanged(spark) as read:
                session.advance()
            assert view.to_pylist() == []
        arranged = text.count("arrange by")
        sizes[nodes] = sum(sum(stage) for stage in read) / (rows * arranged)
    assert max(sizes.values()) < 16, sizes
