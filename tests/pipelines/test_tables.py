"""Delta and Iceberg tables as inputs of a pipeline, and as what its tables are stored as."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.utils.config import Config

from altneu.cli.pipelines.running import Pipeline, Selection
from altneu.errors import AltneuError
from faults.delta_tables import Changing
from tests.pipelines.projects import KILLED, Project, rows_of
from tests.store.support import CHILD

PY = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\nDATA = spark.conf.get('shop.data')\n"
COPIES = (
    PY
    + """
@dp.materialized_view(format="{form}", partition_cols=["P"])
def every():
    return spark.read.format("{read}").load({place})

@dp.materialized_view
def totals():
    return spark.read.table("every").groupBy("p").agg(F.count("*").alias("n"), F.sum("k").alias("total"))
"""
)
APPENDED = (
    PY
    + """
@dp.table(format="{form}", partition_cols=["k"])
def seen():
    return spark.readStream.format("{read}"){option}.load({place}).select("k", F.upper("v").alias("v"))
"""
)


POINTS = range(1, 30) if os.environ.get("ALTNEU_PIPELINES") else (13,)


def delta_rows(folder):
    return rows_of(pa.table(DeltaTable(str(folder)).scan()).to_pylist())


def shown(table):
    return rows_of(dict(zip("kvp", row, strict=True)) for row, n in table.contents().items() for _ in range(n))


@pytest.mark.parametrize("seed", range(2))
def test_a_view_of_a_delta_table_is_kept_as_one(tmp_path, seed):
    """Whatever is done to the table between runs: its rows, with their copies, and each run one version."""
    rng = random.Random(seed)
    project = Project(tmp_path / "p")
    table = Changing(project.data / "table", rng, partitioned=rng.random() < 0.5)
    project.write("a.py", COPIES.format(form="delta", read="delta", place="DATA + '/table'"))
    kept = project.root / "storage/tables/every"
    for turn in range(5):
        for _ in range(rng.randint(1, 3)):
            table.change()
        if turn == 3:  # nothing says any more what has changed
            shutil.rmtree(table.path)
            table = Changing(project.data / "table", rng, partitioned=False)
            table.change()
        if turn == 4:  # the log of versions between is gone
            for _ in range(3):
                table.change()
            table.table.create_checkpoint()
            for version in range(table.number):
                (project.data / f"table/_delta_log/{version:020d}.json").unlink()
        Pipeline(str(project.spec)).run()
        assert delta_rows(kept) == shown(table)
        groups = Counter(row[2] for row, n in table.contents().items() for _ in range(n))
        assert [row[:2] for row in project.table("totals")] == sorted((str(p), str(n)) for p, n in groups.items())
        assert DeltaTable(str(kept)).metadata().partition_columns == ["p"]
        version = DeltaTable(str(kept)).version()
        report = Pipeline(str(project.spec)).run()
        assert (report.rows, report.steps, DeltaTable(str(kept)).version()) == (0, 0, version)


def test_a_second_run_reads_what_a_table_has_changed(tmp_path):
    project = Project(tmp_path / "p")
    place = project.data / "table"
    write_deltalake(str(place), pa.table({"k": list(range(1000)), "v": ["a"] * 1000, "p": [1] * 1000}))
    project.write("a.py", COPIES.format(form="delta", read="delta", place="DATA + '/table'"))
    assert Pipeline(str(project.spec)).run().rows == 1000
    DeltaTable(str(place)).update(updates={"v": "'b'"}, predicate="k = 7")  # a file of 1,000 rows is written again
    report = Pipeline(str(project.spec)).run()
    assert (report.rows, report.changed) == (2, {"every": 2, "totals": 0})


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_a_stream_of_a_delta_table(tmp_path, form):
    project = Project(tmp_path / "p")
    place, partitions = str(project.data / "table"), ', partition_cols=["k"]'
    text = APPENDED.format(form=form, read="delta", option="", place="DATA + '/table'")
    project.write("a.py", text if form == "delta" else text.replace(partitions, ""))

    def add(*rows):
        write_deltalake(place, pa.table({"k": [k for k, _ in rows], "v": [v for _, v in rows]}), mode="append")

    def kept():
        there = project.root / "storage/tables/seen"
        return delta_rows(there) if form == "delta" else project.table("seen")

    add((1, "a"), (1, "a"), (2, "b"))
    Pipeline(str(project.spec)).run()
    assert kept() == [("1", "A"), ("1", "A"), ("2", "B")]
    add((3, "c"))
    add((4, "d"))
    DeltaTable(place).optimize.compact()  # changes no row
    assert Pipeline(str(project.spec)).run().appended == {"seen": 2}
    assert len(kept()) == 5
    assert Pipeline(str(project.spec)).run().steps == 0
    DeltaTable(place).delete("k = 1")
    with pytest.raises(
        AltneuError, match=r"deleted 2 rows.*materialized view.*skipChangeCommits.*flow seen, .*a\.py, line"
    ):
        Pipeline(str(project.spec)).run()
    skipping = APPENDED.format(
        form=form, read="delta", option=".option('skipChangeCommits', 'true')", place="DATA + '/table'"
    )
    project.write("a.py", skipping if form == "delta" else skipping.replace(partitions, ""))
    add((5, "e"))
    assert Pipeline(str(project.spec)).run().appended == {"seen": 1}
    Pipeline(str(project.spec)).run(Selection(full_refresh=("seen",)))
    assert kept() == [("2", "B"), ("3", "C"), ("4", "D"), ("5", "E")]
    shutil.rmtree(place)
    add((9, "z"))
    with pytest.raises(AltneuError, match=r"not the table .*--full-refresh seen"):
        Pipeline(str(project.spec)).run()


@pytest.mark.parametrize("point", POINTS)
def test_a_run_between_delta_tables_that_is_killed_is_continued(tmp_path, point):
    project = Project(tmp_path / "p")
    place = str(project.data / "table")
    write_deltalake(place, pa.table({"k": [1, 1, 2], "v": ["a", "a", "b"], "p": [1, 1, 2]}))
    project.write("a.py", COPIES.format(form="delta", read="delta", place="DATA + '/table'"))
    option = ".option('skipChangeCommits', True)"
    project.write("b.py", APPENDED.format(form="delta", read="delta", option=option, place="DATA + '/table'"))
    Pipeline(str(project.spec)).run()
    DeltaTable(place).update(updates={"v": "'c'"}, predicate="k = 1")
    write_deltalake(place, pa.table({"k": [3, 3], "v": ["d", "d"], "p": [1, 1]}), mode="append")
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(project.spec), str(point)]
    done = subprocess.run(command, env=CHILD, capture_output=True, text=True, check=False)
    assert done.returncode == 9 or "to the end" in done.stdout, done.stderr[-3000:]
    Pipeline(str(project.spec)).run()
    tables = project.root / "storage/tables"
    assert delta_rows(tables / "every") == delta_rows(place)
    assert delta_rows(tables / "seen") == [("1", "A"), ("1", "A"), ("2", "B"), ("3", "D"), ("3", "D")]
    assert project.table("totals") == [("1", "4", "8"), ("2", "1", "2")]


def test_tables_that_are_stored_otherwise_from_some_run_on(tmp_path):
    project = Project(tmp_path / "p")
    project.first()
    text = "CREATE {kind} one {using} AS SELECT id, item FROM {source};"
    raw = "CREATE STREAMING TABLE raw AS SELECT * FROM STREAM parquet.`${shop.data}/r`;\n"
    (project.data / "r").mkdir()
    pq.write_table(pa.table({"id": [1, 1, 2], "item": ["a", "a", "b"]}), project.data / "r/1.parquet")
    there = project.root / "storage/tables/one"
    for kind, source in (("MATERIALIZED VIEW", "raw"), ("STREAMING TABLE", "STREAM raw")):
        for using in ("", "USING DELTA", "USING DELTA PARTITIONED BY (Item)", "", "USING delta"):
            project.write("a.sql", raw + text.format(kind=kind, using=using, source=source))
            Pipeline(str(project.spec)).run()
            assert DeltaTable.is_deltatable(str(there)) == bool(using)
            rows = delta_rows(there) if using else project.table("one")
            assert rows == [("1", "a"), ("1", "a"), ("2", "b")]
    project.write("a.sql", raw + text.format(kind=kind, using="USING DELTA PARTITIONED BY (nowhere)", source=source))
    with pytest.raises(AltneuError, match=r"COLUMN_NOT_DEFINED_IN_TABLE.*'nowhere'"):
        Pipeline(str(project.spec)).run()


def test_a_streaming_table_that_comes_back_has_its_rows_alone(tmp_path):
    project = Project(tmp_path / "p")
    (project.data / "r").mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), project.data / "r/1.parquet")
    one, other = (
        "CREATE MATERIALIZED VIEW v AS SELECT 1 AS x;\n",
        (
            "CREATE STREAMING TABLE one USING DELTA TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
            " AS SELECT * FROM STREAM(parquet.`${shop.data}/r`);"
        ),
    )
    there = str(project.root / "storage/tables/one")
    for text in (one + other, one, one + other):
        project.write("a.sql", text)
        Pipeline(str(project.spec)).run()
        assert delta_rows(there) == [("1",), ("2",)]
    assert DeltaTable(there).metadata().configuration["delta.enableChangeDataFeed"] == "true"


def test_iceberg_tables_both_ways(tmp_path, monkeypatch):
    project = Project(tmp_path / "p", database="kept")
    for name, value in {
        "TYPE": "sql",
        "URI": f"sqlite:///{tmp_path}/c.db",
        "WAREHOUSE": f"file://{tmp_path}/w",
    }.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SHOP__{name}", value)
    monkeypatch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())  # which is read when pyiceberg is imported
    project.spec.write_text(project.spec.read_text() + "catalog: shop\n")
    with load_catalog(
        "shop", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/w"
    ) as catalog:
        catalog.create_namespace("raw")
        rows = pa.table({"k": [1, 1, 2], "v": ["a", "a", "b"], "p": [1, 1, None]})
        table = catalog.create_table("raw.orders", rows.schema)
        table.append(rows)
        place = "'shop.raw.orders'"
        project.write("a.py", COPIES.format(form="iceberg", read="iceberg", place=place))
        project.write("b.py", APPENDED.format(form="iceberg", read="iceberg", option="", place=place))

        def check(every, seen):
            Pipeline(str(project.spec)).run()
            tables = {n: catalog.load_table(f"kept.{n}").scan().to_arrow() for n in ("every", "seen")}
            assert rows_of(tables["every"].to_pylist()) == every
            assert rows_of(tables["seen"].to_pylist()) == seen
            assert Pipeline(str(project.spec)).run().steps == 0

        check([("1", "a", "1"), ("1", "a", "1"), ("2", "b", "None")], [("1", "A"), ("1", "A"), ("2", "B")])
        table.append(pa.table({"k": [3], "v": ["c"], "p": [3]}))
        check(
            [("1", "a", "1"), ("1", "a", "1"), ("2", "b", "None"), ("3", "c", "3")],
            [("1", "A"), ("1", "A"), ("2", "B"), ("3", "C")],
        )
        table.delete("k = 1")
        with pytest.raises(AltneuError, match="deleted 2 rows"):
            Pipeline(str(project.spec)).run()
        Pipeline(str(project.spec)).run(Selection(full_refresh=("kept.seen", "kept.every")))
        check([("2", "b", "None"), ("3", "c", "3")], [("2", "B"), ("3", "C")])
    project.spec.write_text(project.spec.read_text().replace("catalog: shop\n", ""))
    with pytest.raises(AltneuError, match=r"needs a catalog: say catalog: in the spec.*a\.py, line"):
        Pipeline(str(project.spec))
