"""Spark's own ``spark-pipelines run`` on the same files: the same tables after each run, the same refusals.

``ALTNEU_PIPELINES=1`` runs the whole project of tests/pipelines/shop, which takes some minutes.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from altneu.cli.pipelines.running import Pipeline
from altneu.errors import AltneuError
from bench.cluster.server import ConnectServer
from tests.connect.clients import ended, started
from tests.pipelines.projects import TABLES, Project

pytestmark = pytest.mark.spark
WHOLE = bool(os.environ.get("ALTNEU_PIPELINES"))
SEVERAL_FLOWS = ("placed_once", "every_id")
"""Tables of several flows: the log of Spark's file sink has one batch of a number, and drops those of other flows."""

SMALL = {
    "orders.py": """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

DATA = spark.conf.get("shop.data")
ORDERS = "id BIGINT, customer STRING, item STRING, price BIGINT, day DATE"

@dp.materialized_view
def orders():
    return spark.read.format("json").schema(ORDERS).load(f"{DATA}/orders")

@dp.table
def raw():
    return spark.readStream.format("json").schema(ORDERS).load(f"{DATA}/orders").filter("price > 1")

dp.create_streaming_table("cheap")

@dp.append_flow(target="cheap", name="below_five")
def of_raw():
    return spark.readStream.table("raw").filter("price < 5").select("id", "item")
""",
    "totals.sql": """
CREATE TEMPORARY VIEW dear AS SELECT * FROM orders WHERE price > ${shop.least};
CREATE MATERIALIZED VIEW totals AS SELECT customer, sum(price) AS total FROM dear GROUP BY customer;
CREATE STREAMING TABLE once;
CREATE FLOW dear_ones AS INSERT INTO once BY NAME SELECT price, id FROM STREAM raw WHERE price > 4;
""",
}


@pytest.fixture(scope="module")
def server():
    with ConnectServer() as one:
        yield one


def of_spark(server, *runs):
    return ended(started("tests.pipelines.spark_client", json.dumps([{"url": server.url, **run} for run in runs])))


def put(project, step):
    if step == "first":
        project.first()
    else:
        project.second()


def test_a_small_project(server, tmp_path):
    ours, theirs = (Project(tmp_path / name, database="small") for name in ("ours", "theirs"))
    for project in (ours, theirs):
        project.first()
        for name, text in SMALL.items():
            project.write(name, text)
    tables = ("orders", "raw", "totals", "cheap", "once")
    run = {"spec": str(theirs.spec), "tables": tables}
    said = of_spark(server, run, {**run, "second": str(theirs.root)})
    mine = []
    for step in ("first", "second"):
        if step == "second":
            ours.second()
        Pipeline(str(ours.spec)).run()
        mine.append({name: ours.table(f"small.{name}") for name in tables})
    assert [{name: [tuple(row) for row in rows] for name, rows in one["tables"].items()} for one in said] == mine
    assert [len(one["raw"]) for one in mine] == [5, 6]


@pytest.mark.skipif(not WHOLE, reason="some minutes: ALTNEU_PIPELINES=1")
def test_the_whole_project(server, tmp_path):
    ours, theirs = Project.shop(tmp_path / "ours"), Project.shop(tmp_path / "theirs", database="shop")
    for step in ("first", "second"):
        put(ours, step)
        put(theirs, step)
        Pipeline(str(ours.spec)).run()
        (said,) = of_spark(server, {"spec": str(theirs.spec), "tables": TABLES})
        mine = ours.tables()
        for name, rows in said["tables"].items():
            if name in SEVERAL_FLOWS:
                assert {*map(tuple, rows)} < {*mine[name]}, name
            else:
                assert [tuple(row) for row in rows] == mine[name], (step, name)
        assert ours.sent() == theirs.sent()


VIEW = "CREATE MATERIALIZED VIEW one AS SELECT 1 AS x;\n"
PY = "from pyspark import pipelines as dp\n"
REFUSED = {
    "RUN_EMPTY_PIPELINE": {"a.sql": "CREATE TEMPORARY VIEW v AS SELECT 1 AS x"},
    "PIPELINE_DUPLICATE_IDENTIFIERS.OUTPUT": {"a.sql": VIEW + "CREATE STREAMING TABLE one;"},
    "PIPELINE_DATASET_WITHOUT_FLOW": {"a.sql": VIEW + "CREATE STREAMING TABLE t;"},
    "TABLE_OR_VIEW_NOT_FOUND": {"a.sql": "CREATE MATERIALIZED VIEW v AS SELECT * FROM nowhere"},
    "INVALID_FLOW_QUERY_TYPE.BATCH_RELATION_FOR_STREAMING_TABLE": {
        "a.sql": VIEW + "CREATE STREAMING TABLE t AS SELECT * FROM one"
    },
    "INVALID_FLOW_QUERY_TYPE.STREAMING_RELATION_FOR_MATERIALIZED_VIEW": {
        "a.py": PY
        + """
@dp.table
def t():
    return spark.readStream.json(spark.conf.get("shop.data"), schema="x INT")

@dp.materialized_view
def v():
    return spark.readStream.table("t")
"""
    },
    "INCOMPATIBLE_BATCH_VIEW_READ": {
        "a.sql": VIEW
        + "CREATE TEMPORARY VIEW v AS SELECT * FROM one; CREATE STREAMING TABLE t AS SELECT * FROM STREAM v"
    },
    "USER_SPECIFIED_AND_INFERRED_SCHEMA_NOT_COMPATIBLE": {
        "a.sql": "CREATE MATERIALIZED VIEW one (x STRING) AS SELECT 1 AS x;"
    },
    "AUTOCDC_COLUMNS_NOT_FOUND_IN_SCHEMA": {
        "a.py": PY
        + """
@dp.table
def t():
    return spark.readStream.json(spark.conf.get("shop.data"), schema="x INT, seq INT")

dp.create_streaming_table("people")
dp.create_auto_cdc_flow("people", "t", ["id"], "seq")
"""
    },
    "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE": {"a.py": 'spark.conf.set("a", "b")'},
    "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION": {
        "a.py": PY
        + """
@dp.materialized_view
def v():
    return spark.range(3 if spark.range(5).count() else 2)
"""
    },
    "PIPELINE_DUPLICATE_IDENTIFIERS.FLOW": {
        "a.sql": VIEW
        + "CREATE STREAMING TABLE a AS SELECT * FROM STREAM one; CREATE STREAMING TABLE b;"
        + "CREATE FLOW a AS INSERT INTO b BY NAME SELECT * FROM STREAM one"
    },
    "PARSE_SYNTAX_ERROR": {
        "a.sql": VIEW + "CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO ONCE t BY NAME SELECT * FROM one"
    },
    "cycle": {"a.sql": "CREATE MATERIALIZED VIEW a AS SELECT * FROM b; CREATE MATERIALIZED VIEW b AS SELECT * FROM a"},
}
OTHERWISE = {
    "PARSE_SYNTAX_ERROR": "a flow that is run ONCE",
    "cycle": "PIPELINE_GRAPH_NOT_TOPOLOGICALLY_SORTED",
}
"""Where Spark's text has no name of a condition, or another: what there is here."""


def refused_project(root, name):
    project = Project(root / re.sub(r"\W", "_", name))
    (project.data / "1.json").write_text('{"x": 1, "seq": 2}\n')
    for file, text in REFUSED[name].items():
        project.write(file, text)
    return project


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(tmp_path, name):
    project = refused_project(tmp_path, name)
    with pytest.raises(AltneuError, match=re.escape(OTHERWISE.get(name, name))) as caught:
        Pipeline(str(project.spec))
    assert not (project.root / "storage").exists()
    if name not in (
        "RUN_EMPTY_PIPELINE",
        "SESSION_MUTATION_IN_DECLARATIVE_PIPELINE",
        "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION",
    ):
        assert re.search(r"a\.(sql|py), line \d+", str(caught.value))


@pytest.mark.skipif(not WHOLE, reason="some minutes: ALTNEU_PIPELINES=1")
def test_spark_refuses_the_same(server, tmp_path):
    runs = {name: {"spec": str(refused_project(tmp_path, name).spec), "dry": True} for name in REFUSED}
    said = dict(zip(runs, of_spark(server, *runs.values()), strict=True))
    wrong = {name: one for name, one in said.items() if name not in one.get("error", "")}
    assert not wrong
