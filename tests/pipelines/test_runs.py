"""Runs of a project: the tables after each, what each reads, and what a run that is killed leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from altneu.cli.pipelines import running
from altneu.cli.pipelines.logs import PART, Log
from altneu.cli.pipelines.running import Pipeline, Selection
from altneu.cli.pipelines.tables import Tables
from altneu.errors import AltneuError, PipelineError
from altneu.session import Session
from altneu.views.peek import explained
from tests.pipelines.projects import KILLED, TABLES, Killed, Project, order, rows_of
from tests.store.support import CHILD

FIRST = {
    "orders": 5,
    "by_city": [("Bari", "9", "1"), ("None", "12", "1"), ("Oslo", "6", "1")],
    "dearest": [("1", "2", "9"), ("2", "4", "6"), ("3", "4", "6")],
    "placed_once": [
        ("1", "Oslo", "4"),
        ("2", "Bari", "9"),
        ("3", "cheap", "2"),
        ("4", "None", "6"),
        ("4", "None", "6"),
    ],
    "busy": [("2026-01-01", "2"), ("2026-01-03", "2")],
    "tea_days": [("2026-01-01", "1"), ("2026-01-02", "3")],
    "every_id": [("-1",), ("-3",), ("1",), ("2",), ("3",), ("4",), ("4",)],
}
SECOND = {
    "customers": [("ann", "Rome"), ("bob", "Bari"), ("eve", "Oslo")],
    "by_city": [("Bari", "9", "1"), ("Oslo", "7", "1"), ("Rome", "5", "1")],
    "dearest": [("1", "2", "9"), ("2", "5", "7"), ("3", "1", "4")],
    "raw": 7,  # what a stream has appended stays, although its file is gone
    "placed_once": [*FIRST["placed_once"], ("5", "Oslo", "7"), ("6", "cheap", "1")],
    "busy": [("2026-01-01", "2")],
    "every_id": [("-1",), ("-3",), ("-5",), *[(str(i),) for i in (1, 2, 3, 4, 4, 5, 6)]],
}


def check(project, expected):
    for name, rows in expected.items():
        there = project.table(name)
        assert (len(there) if isinstance(rows, int) else there) == rows, name


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A project after its first run, and what that did."""
    project = Project.shop(tmp_path_factory.mktemp("first") / "shop")
    project.first()
    return project, Pipeline(str(project.spec)).run()


@pytest.fixture
def shop(first, tmp_path):
    """A copy of it at the same place, as far as its paths say."""
    project, _ = first
    before = tmp_path / "before"
    shutil.copytree(project.root, before, copy_function=shutil.copy2)
    yield project
    shutil.rmtree(project.root)
    shutil.copytree(before, project.root, copy_function=shutil.copy2)


def test_the_first_run(first):
    project, report = first
    check(project, FIRST)
    assert (report.files, report.rows) == (5, 12)  # two files of orders twice: as a whole, and as a stream
    about = json.loads((project.root / "storage/tables/by_day/_table.json").read_text())
    assert about["comment"] == "orders of each day; a semicolon"
    assert about["properties"] == {"shop.team": "sales"}
    assert about["columns"] == "day date, n bigint, total bigint"
    assert project.sent() == rows_of(
        {"id": i, "item": x} for i, x in ((1, "TEA"), (2, "JAM"), (3, "TEA"), (4, "INK"), (4, "INK"))
    )


def test_a_run_without_changes_does_nothing(shop):
    before = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*") if path.is_file() and path.name != "lock"}
    report = Pipeline(str(shop.spec)).run()
    assert (report.files, report.rows, report.steps, report.appended) == (0, 0, 0, {})
    assert not any(report.changed.values())
    store = shop.root / "storage" / "altneu"
    now = {path: path.stat().st_mtime_ns for path in shop.root.rglob("*") if path.is_file() and path.name != "lock"}
    assert {path for path in now if now[path] != before.get(path) and store not in path.parents} == set()


def test_the_second_run_reads_what_is_new(shop):
    shop.second()
    report = Pipeline(str(shop.spec)).run()
    check(shop, SECOND)
    assert (report.files, report.rows) == (4, 7)  # two files of customers, and one of orders twice
    assert report.appended == {"raw": 2, "cheap": 1, "dear": 1, "sent": 2, "tea_days": 1, "ids": 2, "teas": 1}
    assert len(shop.sent()) == 7


def test_what_is_asked_for_is_refreshed(shop):
    shop.second()
    report = Pipeline(str(shop.spec)).run(Selection(refresh=("by_city", "raw")))
    assert set(report.changed) == {"by_city", "raw"}
    check(shop, {"by_city": SECOND["by_city"], "raw": 7, "placed_once": FIRST["placed_once"], "busy": FIRST["busy"]})
    Pipeline(str(shop.spec)).run()  # flows that have not run since read from where they were
    check(shop, SECOND)


def test_a_full_refresh_begins_again(shop):
    shop.second()
    Pipeline(str(shop.spec)).run(Selection(full_refresh=("raw",)))
    assert [row[0] for row in shop.table("raw")] == ["1", "2", "5", "6"]  # of the files that there are now
    Pipeline(str(shop.spec)).run(Selection(full_refresh_all=True))
    assert [row[0] for row in shop.table("raw")] == ["1", "2", "5", "6"]
    assert shop.table("placed_once") == [
        ("1", "Rome", "4"),
        ("2", "Bari", "9"),
        ("5", "Oslo", "7"),
        ("6", "cheap", "1"),
    ]
    fresh = {name: shop.table(name) for name in TABLES}
    report = Pipeline(str(shop.spec)).run()
    assert report.steps == 0
    assert {name: shop.table(name) for name in TABLES} == fresh


@pytest.mark.parametrize("option", ["refresh", "full_refresh"])
def test_tables_that_there_are_not(shop, option):
    with pytest.raises(PipelineError, match=r"TABLE_OR_VIEW_NOT_FOUND.*'ordrs'.*orders"):
        Pipeline(str(shop.spec)).run(Selection(**{option: ("ordrs",)}))
    with pytest.raises(PipelineError, match="CONFLICTING_PIPELINE_REFRESH_OPTIONS"):
        Selection(**{option: ("orders",)}, full_refresh_all=True)


# changes of the files ------------------------------------------------------------------------------------------------


def test_queries_that_change(shop):
    """A view becomes what its query says; a flow appends with its new query, and what it has appended stays."""
    orders = shop.files / "orders.py"
    text = orders.read_text()
    text = text.replace('filter("price > 3")', 'filter("price > 6")').replace(
        'filter("place <= 3")', 'filter("place <= 1")'
    )
    text = text.replace('F.sum("price").alias("total"), ', 'F.max("price").alias("highest"), ')
    orders.write_text(text)
    shop.put("orders/3.json", [order(7, "bob", "tea", 5, 5), order(8, "bob", "tea", 8, 5)])
    Pipeline(str(shop.spec)).run()
    assert shop.table("dearest") == [("1", "2", "9")]
    assert shop.table("by_city") == [("Bari", "9", "1"), ("None", "6", "1"), ("Oslo", "4", "1")]
    assert json.loads((shop.root / "storage/tables/by_city/_table.json").read_text())["columns"].startswith(
        "city string, highest"
    )
    assert shop.table("placed_once") == sorted([*FIRST["placed_once"], ("8", "Bari", "8")])


def test_a_table_whose_flows_get_other_columns(shop):
    days = shop.files / "more" / "days.sql"
    days.write_text(
        days.read_text().replace("SELECT day, id FROM STREAM tea", "SELECT day, id, 1 AS one FROM STREAM tea")
    )
    with pytest.raises(
        PipelineError, match=r"'tea_days' has the columns day date, id bigint, and .* one int.*--full-refresh"
    ):
        Pipeline(str(shop.spec)).run()
    Pipeline(str(shop.spec)).run(Selection(full_refresh=("tea_days",)))
    assert shop.table("tea_days") == [("2026-01-01", "1", "1"), ("2026-01-02", "3", "1")]
    Pipeline(str(shop.spec)).run()
    assert len(shop.table("every_id")) == 9  # as in Spark, a stream of a table that began again has its rows again


def test_datasets_that_come_and_go(shop):
    days = shop.files / "more" / "days.sql"
    text = days.read_text()
    days.write_text("CREATE MATERIALIZED VIEW items AS SELECT item, count(*) AS n FROM raw GROUP BY item")
    report = Pipeline(str(shop.spec)).run()
    assert shop.table("items") == [("ink", "2"), ("jam", "1"), ("tea", "2")]
    assert (report.files, report.rows) == (0, 0)
    days.write_text(text)
    Pipeline(str(shop.spec)).run()
    check(shop, FIRST)


def test_a_flow_that_comes_later_reads_everything(shop):
    shop.write("late.sql", "CREATE FLOW late AS INSERT INTO every_id BY NAME SELECT id + 100 AS id FROM STREAM raw")
    report = Pipeline(str(shop.spec)).run()
    assert report.appended == {"late": 5}
    assert [row for row in shop.table("every_id") if int(row[0]) > 100] == [
        ("101",),
        ("102",),
        ("103",),
        ("104",),
        ("104",),
    ]


# what it costs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 100])
def test_the_second_run_costs_what_changes(tmp_path, times):
    """The same numbers of rows are read, inserted and changed beside n rows and 100 n."""
    project = Project(tmp_path / "p")
    project.write(
        "all.sql",
        """
        CREATE STREAMING TABLE raw AS SELECT * FROM STREAM seen;
        CREATE MATERIALIZED VIEW by_item AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
        CREATE MATERIALIZED VIEW by_raw AS SELECT item, count(*) AS n FROM raw GROUP BY item;
        """,
    )
    project.write(
        "orders.py",
        f"""
from pyspark import pipelines as dp

@dp.materialized_view
def orders():
    return spark.read.json({str(project.data)!r} + "/orders", schema="id BIGINT, item STRING, price BIGINT")

@dp.table
def seen():
    return spark.readStream.json({str(project.data)!r} + "/orders", schema="id BIGINT, item STRING, price BIGINT")
""",
    )
    n = 50 * times
    project.put("orders/1.json", [{"id": i, "item": f"item {i % n}", "price": i} for i in range(n)])
    Pipeline(str(project.spec)).run()
    project.put("orders/2.json", [{"id": n + i, "item": f"item {i}", "price": 1} for i in range(3)])
    report = Pipeline(str(project.spec)).run()
    assert (report.files, report.rows, report.appended) == (2, 6, {"raw": 3, "seen": 3})
    assert report.changed == {"orders": 3, "seen": 3, "raw": 3, "by_item": 6, "by_raw": 6}
    assert report.steps == 3
    written = sum(len(list((project.root / "storage/tables" / name).glob("part-*"))) for name in ("raw", "seen"))
    assert written == 4  # a file for each run: none is written again


def test_a_part_of_a_log_is_looked_up():
    """What a flow reads of a table, and what is taken away with a file, is found without reading the rest."""
    log = Log("t", pa.schema([("x", pa.int64())]))
    with Session() as session:
        session.maintain(log.view, log.source.arrange_by(PART))
        for part in range(3):
            log.insert(session, pa.table({"x": [part, part]}), part)
            session.advance()
        assert log.read(session, [0, 2]).to_pydict() == {"x": [0, 0, 2, 2]}
        plan = explained(session._engine, log.source.filter(f"{PART} = 1"))
    assert f"lookup: source rows of {log.name} by {PART} = 1" in str(plan)


# runs that are killed ------------------------------------------------------------------------------------------------

POINTS = range(1, 70) if os.environ.get("ALTNEU_PIPELINES") else (14,)


@pytest.mark.parametrize("point", POINTS)
def test_a_run_that_is_killed_is_continued(shop, point):
    """Whatever is the last that a run did, the next one makes the tables right, and appends nothing twice."""
    shop.second()
    command = [sys.executable, "-W", "ignore", "-c", KILLED, str(shop.spec), str(point)]
    done = subprocess.run(command, env=CHILD, capture_output=True, text=True, check=False)
    assert done.returncode == 9 or "to the end" in done.stdout, done.stderr[-3000:]
    Pipeline(str(shop.spec)).run()
    check(shop, SECOND)
    assert shop.sent() == rows_of(
        {"id": i, "item": x}
        for i, x in zip((1, 2, 3, 4, 4, 5, 6), ("TEA", "JAM", "TEA", "INK", "INK", "TEA", "JAM"), strict=True)
    )


def test_a_run_that_is_killed_while_a_pipeline_begins_again_is_continued(shop, monkeypatch):
    """Of the files of a store that is being removed some are gone."""

    def some(folder):
        next(file for file in sorted(Path(folder).rglob("*")) if file.is_file()).unlink()
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Tables, "clear", lambda *_: None)
        patch.setattr(running.shutil, "rmtree", some)
        with pytest.raises(Killed):
            Pipeline(str(shop.spec)).run(Selection(full_refresh_all=True))
    Pipeline(str(shop.spec)).run()
    check(shop, FIRST)
    assert sorted(path.name for path in (shop.root / "storage").iterdir()) == ["altneu", "tables"]


def test_a_row_that_fails_stops_the_table(shop):
    shop.write("fails.sql", "CREATE MATERIALIZED VIEW fails AS SELECT 1 / (price - 9) AS x FROM orders")
    with pytest.raises(AltneuError, match=r"DIVIDE_BY_ZERO|zero"):
        Pipeline(str(shop.spec)).run()
    shop.write("fails.sql", "CREATE MATERIALIZED VIEW fails AS SELECT 1 / (price - 99) AS x FROM orders")
    Pipeline(str(shop.spec)).run()
    assert len(shop.table("fails")) == 5


FAILS = """
CREATE STREAMING TABLE fails AS SELECT id, 1 / (price - {wrong}) AS x FROM STREAM raw;
CREATE STREAMING TABLE after AS SELECT id FROM STREAM raw;
CREATE MATERIALIZED VIEW twice AS SELECT 2 * id AS id FROM orders;
"""


def test_a_row_that_fails_stops_the_flow_and_no_other(shop):
    shop.write("fails.sql", FAILS.format(wrong=9))
    with pytest.raises(AltneuError, match=r"flow fails(.|\n)*DIVIDE_BY_ZERO"):
        Pipeline(str(shop.spec)).run()
    assert len(shop.table("after")) == len(shop.table("twice")) == 5
    shop.write("fails.sql", FAILS.format(wrong=99))
    report = Pipeline(str(shop.spec)).run()
    assert report.changed["fails"] == 5
    assert not report.changed["after"]


def test_names_that_there_are_are_those_that_one_writes(shop):
    shop.write("fails.sql", "CREATE MATERIALIZED VIEW fails AS SELECT * FROM ordres")
    with pytest.raises(PipelineError, match="did you mean orders") as told:
        Pipeline(str(shop.spec))
    assert "#" not in str(told.value)


TEXTS = """
from pyspark import pipelines as dp

@dp.materialized_view
def a_table():
    return spark.range(1)

for form in ("json", "csv"):
    dp.create_sink(form, form, {{"path": "{out}/" + form}})

    @dp.append_flow(target=form, name="to_" + form)
    def flow():
        return spark.readStream.schema("s STRING, d DECIMAL(4, 2), t TIME, at TIMESTAMP").json("{out}/in")
"""


def test_sinks_have_the_texts_that_spark_writes(tmp_path):
    project = Project(tmp_path)
    project.put("in/1.json", [{"s": 'a"b', "d": 1.5, "t": "9:00", "at": "2026-01-01 10:00:00"}, {"s": ""}])
    project.write("texts.py", TEXTS.format(out=project.data))
    Pipeline(str(project.spec)).run()
    texts = {
        form: sorted(file.read_text().splitlines())
        for form in ("json", "csv")
        for file in (project.data / form).glob("part-*")
    }
    assert texts == {
        "json": [r'{"s":""}', r'{"s":"a\"b","d":1.50,"t":"09:00:00","at":"2026-01-01T10:00:00.000Z"}'],
        "csv": [r'"",,,', r'"a\"b",1.50,09:00:00,2026-01-01T10:00:00.000Z'],
    }


def test_a_file_whose_name_has_a_bracket_is_no_pattern(tmp_path):
    project = Project(tmp_path / "p")
    read = "\n".join(
        f"@dp.materialized_view\ndef of_{form}():\n    return spark.read.{form}(DATA + '/{form}')"
        for form in ("parquet", "text")
    )
    project.write("read.py", f"from pyspark import pipelines as dp\n\nDATA = spark.conf.get('shop.data')\n\n{read}\n")
    project.put_text("text/a[1].txt", "x\n")
    project.put_text("text/a1.txt", "y\n")  # what the name would match
    (project.data / "parquet").mkdir()
    pq.write_table(pa.table({"v": [1]}), project.data / "parquet" / "part[0].parquet")
    Pipeline(str(project.spec)).run()
    assert project.tables(["of_parquet", "of_text"]) == {"of_parquet": [("1",)], "of_text": [("x",), ("y",)]}
