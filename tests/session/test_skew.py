"""A key with half of the rows is no task's alone: what each task of Spark reads, counted by Spark."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu.runtime.spark import executor as spark_executor
from bench.spark_metrics import exchanged

ROWS = 60_000
SHARDS = 4
FACTS = an.source("facts", "k long, v long")
DIMS = an.source("dims", "k long, n string")
JOINED = FACTS.join(DIMS, on="k")
PLANS = {
    "joined": JOINED,
    "summed": JOINED.group_by("n").agg(s="sum(v)"),
    "semi": FACTS.semijoin(DIMS, on="k"),
    "anti": FACTS.antijoin(DIMS.filter("k > 10"), on="k"),
}
KEY = f"CASE WHEN id % 2 = 0 THEN {ROWS} ELSE id END"  # which is in no small range


@pytest.fixture(scope="module")
def facts(spark, tmp_path_factory):
    """Rows of which every other one has the same key, in a table that Spark reads from the beginning."""
    path = str(tmp_path_factory.mktemp("facts") / "table")
    spark.range(0, ROWS, 1, 2).selectExpr(f"{KEY} AS k", "xxhash64(id) % 1000000000000 AS v").write.parquet(path)
    return spark.read.parquet(path)


@pytest.fixture(scope="module")
def dims(spark):
    return spark.range(ROWS + 1).selectExpr("id AS k", "concat('n', id % 7) AS n")


def loaded(spark, facts, dims, plan, path=None):
    with an.Session(spark, path=path, shards=SHARDS, placement="spark") as session:
        view = session.maintain("view", plan)
        session.insert("facts", facts)
        session.insert("dims", dims)
        with exchanged(spark) as read:
            session.advance()
        return read, Counter(view.to_pylist())


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_every_task_reads_as_much_of_a_load(name, spark, facts, dims, monkeypatch):
    read, shown = loaded(spark, facts, dims, PLANS[name])
    assert max(read[0]) < 1.15 * sum(read[0]) / SHARDS
    monkeypatch.setattr(spark_executor, "heavy_keys", lambda *_: (None, {}))
    before, known = loaded(spark, facts, dims, PLANS[name])
    assert max(before[0]) > 1.3 * sum(before[0]) / SHARDS
    assert sum(map(sum, read)) < 1.25 * sum(map(sum, before))
    assert shown == known


@pytest.mark.parametrize("aggregates", ["count(*)", "sum(v)", "count(distinct v % 3)"])
def test_of_a_group_that_has_half_of_the_rows_a_few_are_sent(aggregates, spark, facts, dims):
    """Sums are made where rows are read, and where rows are joined."""
    read, _ = loaded(spark, facts, dims, JOINED.group_by(k=f"k = {ROWS}").agg(a=aggregates))
    assert max(read[-1]) < 5_000


def test_rows_of_a_heavy_key_are_taken_back(spark, facts, dims, tmp_path):
    """What slices of a shard have made lies in the shard: later steps, on Spark or not, and a late view read it."""
    path, half = tmp_path / "store", facts.where("v % 2 = 0")
    _, first = loaded(spark, facts, dims, JOINED, path)
    with an.Session(spark, path=path, shards=SHARDS, placement="spark") as session:
        view = session.maintain("view", JOINED)
        assert Counter(view.to_pylist()) == first
        session.retract("facts", half)
        session.advance()
        rest = Counter(view.to_pylist())
        assert rest == Counter(row for row in first.elements() if row[1] % 2)
    with an.Session(path=path) as session:
        view = session.maintain("view", JOINED)
        session.retract("dims", [(ROWS, f"n{ROWS % 7}")])
        session.insert("dims", [(ROWS, "other")])
        session.advance()
        assert Counter(view.to_pylist()) == Counter(
            (k, v, "other" if k == ROWS else n) for (k, v, n) in rest.elements()
        )
        late = session.maintain("late", JOINED.group_by("n").agg(c="count(*)"))
        assert dict(late.to_pylist())["other"] == sum(row[0] == ROWS for row in rest.elements())
        session.reshard(2 * SHARDS)
        assert Counter(view.to_pylist()).total() == rest.total()
    assert an.check_store(path).problems == ()
