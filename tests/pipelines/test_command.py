"""``altneu pipelines``: what it writes, and what it refuses with a remedy."""

from __future__ import annotations

import json
import re

import pytest
from click.testing import CliRunner

from altneu.cli import main
from altneu.cli.pipelines.running import Pipeline
from altneu.errors import AltneuError
from tests.pipelines.projects import Project

VIEW = "CREATE MATERIALIZED VIEW one AS SELECT 1 AS x;\n"
PY = "from pyspark import pipelines as dp\nfrom pyspark.sql import functions as F\nDATA = spark.conf.get('shop.data')\n"
STREAM = PY + "@dp.table\ndef t():\n    return spark.readStream.json(DATA + '/f', schema='x INT, y STRING'){}\n"
SOURCE = PY + "@dp.materialized_view\ndef v():\n    return spark.read{}\n"


def call(*arguments):
    return CliRunner().invoke(main, ["pipelines", *map(str, arguments)], catch_exceptions=False)


def project_of(root, **files):
    project = Project(root / "p")
    (project.data / "f").mkdir()
    for name, text in files.items():
        project.write(name.replace("_", "."), text)
    return project


def test_init_run_and_dry_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert json.loads(call("init", "--name", "shop", "--json").stdout) == {"project": "shop"}
    monkeypatch.chdir(tmp_path / "shop" / "transformations")  # the spec is found above
    dry = call("dry-run", "--json")
    assert [json.loads(line)["table"] for line in dry.stdout.splitlines()] == [
        "example_python_materialized_view",
        "example_sql_materialized_view",
    ]
    assert not list((tmp_path / "shop" / "pipeline-storage").iterdir())
    ran = call("run", "--json")
    *tables, last = map(json.loads, ran.stdout.splitlines())
    assert [t["changed"] for t in tables] == [10, 5]
    assert last == {"files": 0, "rows": 0, "steps": 1, "changed": 15}
    assert "materialized view example_sql_materialized_view: 0 rows changed" in call("run").stdout


def test_arguments(tmp_path):
    spec = project_of(tmp_path, a_sql=VIEW).spec
    for arguments in (
        ["init"],
        ["run", spec, "--name", "x"],
        ["run", spec, "--spec", spec],
        ["dry-run", spec, "--refresh", "one"],
    ):
        assert call(*arguments).exit_code == 2, arguments
    missing = call("run", tmp_path / "other.yml")
    assert (missing.exit_code, "PIPELINE_SPEC_FILE_DOES_NOT_EXIST" in missing.stderr) == (1, True)
    assert "one: 1 row changed" in call("run", spec, "--full-refresh", "one").stdout
    assert "CONFLICTING_PIPELINE_REFRESH_OPTIONS" in call("run", spec, "--full-refresh-all", "--refresh", "one").stderr


SPECS = {
    "PIPELINE_STORAGE_ROOT_INVALID": "name: a\nstorage: /tmp/x\n",
    "PIPELINE_SPEC_UNEXPECTED_FIELD": "name: a\nstorage: file:///x\ncolour: red\n",
    "PIPELINE_SPEC_MISSING_REQUIRED_FIELD": "name: a\n",
    "altneu keeps the tables of a pipeline on a local disk": "name: a\nstorage: s3a://bucket/x\n",
    "spark.sql.ansi.enabled": "name: a\nstorage: file:///x\nconfiguration: {spark.sql.ansi.enabled: 'false'}\n",
    "spark.sql.legacy.x": "name: a\nstorage: file:///x\nconfiguration: {spark.sql.legacy.x: LEGACY}\n",
    "is not the spec of a pipeline": "",
}


@pytest.mark.parametrize("message", SPECS)
def test_specs_that_are_refused(tmp_path, message):
    project = project_of(tmp_path, a_sql=VIEW)
    project.spec.write_text(SPECS[message])
    with pytest.raises(AltneuError, match=message):
        Pipeline(str(project.spec))


UNSUPPORTED = {
    r"group by.*over a stream in flow 't'.*materialized view.*a\.py, line": STREAM.format(".groupBy('x').count()"),
    "distinct, .*over a stream in flow 't'": STREAM.format(".distinct()"),
    "join on x over a stream in flow 't'": STREAM.format(
        ".alias('a').join(spark.readStream.json(DATA + '/g', schema='x INT'), 'x')"
    ),
    r"group by.*over a stream in flow 't'.*materialized view.*a\.py, line \d": STREAM.format(
        ".withWatermark('y', '1 hour').groupBy(F.window(F.to_timestamp('y'), '1 hour')).count()"
    ),
    r"dropDuplicatesWithinWatermark; .*materialized view.*a\.py, line \d": STREAM.format(
        ".withWatermark('y', '1 hour').dropDuplicatesWithinWatermark(['x'])"
    ),
    "'?z'?.*there are.*x, y|no column.*z": STREAM.format(".withWatermark('z', '1 hour')"),
    "the option versionAsOf = '3' of delta tables": SOURCE.format(
        ".format('delta').option('versionAsOf', 3).load('/nowhere')"
    ),
    "a schema of delta tables": SOURCE.format(".format('delta').schema('x INT').load('/nowhere')"),
    "there is no Delta table at /nowhere": SOURCE.format(".format('delta').load('/nowhere')"),
    "format 'kafka'.*parquet, csv, json": SOURCE.format(".format('kafka').load()"),
    "JSON files without a schema": SOURCE.format(".json(DATA + '/f')"),
    r"option allowComments = 'true' of json files; there are: recursivefilelookup, mode.*a\.py, line": SOURCE.format(
        ".schema('x INT').option('allowComments', True).json(DATA + '/f')"
    ),
    "the path .s3://x.": SOURCE.format(".schema('x INT').json('s3://x')"),
    "PATH_NOT_FOUND": None,
    r"partitions \(id\) of table 'v'.*make it a Delta": PY
    + "@dp.materialized_view(partition_cols=['id'])\ndef v():\n    return spark.range(3)\n",
    "cluster_by=": PY + "@dp.materialized_view(cluster_by=['id'])\ndef v():\n    return spark.range(3)\n",
    "format 'orc' of table 'v'": PY + "@dp.materialized_view(format='orc')\ndef v():\n    return spark.range(3)\n",
    "spark.sql.odd in spark_conf of flow 'v'": PY
    + "@dp.materialized_view(spark_conf={'spark.sql.odd': 'x'})\ndef v():\n    return spark.range(3)\n",
    "must return a DataFrame, got int": PY + "@dp.materialized_view\ndef v():\n    return 3\n",
    "sink 's' of format 'kafka'": VIEW
    and STREAM.format("")
    + "dp.create_sink('s', 'kafka')\n@dp.append_flow(target='s')\ndef f():\n    return spark.readStream.table('t')\n",
    "option 'mode' of sink 's'": STREAM.format("") + "dp.create_sink('s', 'json', {'path': '/x', 'mode': 'a'})\n"
    "@dp.append_flow(target='s')\ndef f():\n    return spark.readStream.table('t')\n",
    "sample of a DataFrame": PY + "@dp.materialized_view\ndef v():\n    return spark.range(3).sample(0.5)\n",
    "reading materialized view 'v' as a stream": PY + "@dp.materialized_view\ndef v():\n    return spark.range(3)\n"
    "@dp.table\ndef t():\n    return spark.readStream.table('v')\n",
}


@pytest.mark.parametrize("message", UNSUPPORTED)
def test_what_is_not_supported_is_named(tmp_path, message):
    text = UNSUPPORTED[message] or SOURCE.format(".schema('x INT').json(DATA + '/nowhere')")
    project = project_of(tmp_path, a_py=text)
    with pytest.raises(AltneuError, match=message):
        Pipeline(str(project.spec)).run()


STATEMENTS = {
    "CREATE VIEW in a pipeline": "CREATE VIEW v AS SELECT 1 AS x",
    "USE in a pipeline": "USE DATABASE shop",
    "have CREATE statements and SET, got INSERT": "INSERT INTO t VALUES (1)",
    "run ONCE": "CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO ONCE t BY NAME SELECT 1",
    r"partitions \(x\) of table 'v'.*USING DELTA": "CREATE MATERIALIZED VIEW v PARTITIONED BY (x) AS SELECT 1 AS x",
    "clusters of table 'v'": "CREATE MATERIALIZED VIEW v CLUSTER BY (x) AS SELECT 1 AS x",
    "SET": "SET spark.sql.ansi.enabled = false",
    "expected BY NAME": "CREATE STREAMING TABLE t; CREATE FLOW f AS INSERT INTO t SELECT 1",
    "AUTOCDC_MISSING_SEQUENCE_BY": "CREATE STREAMING TABLE t FLOW AUTO CDC FROM STREAM s KEYS (x)",
    "AUTOCDC_TRACK_HISTORY_REQUIRES_SCD2": "CREATE STREAMING TABLE t FLOW AUTO CDC FROM STREAM s KEYS (x) "
    "SEQUENCE BY y TRACK HISTORY ON x",
    r"STREAM\(…\) has the name of a table": "CREATE STREAMING TABLE t AS SELECT * FROM STREAM(a b)",
}


@pytest.mark.parametrize("message", STATEMENTS)
def test_statements_that_are_refused(tmp_path, message):
    project = project_of(tmp_path, a_sql=VIEW + STATEMENTS[message])
    with pytest.raises(AltneuError, match=message) as caught:
        Pipeline(str(project.spec))
    assert "line 2" in str(caught.value)


def test_formats_sinks_and_names(tmp_path):
    """Files of every format; sinks of every kind; a name with its database; a function of Python's."""
    import pyarrow as pa
    import pyarrow.orc
    import pyarrow.parquet as pq
    from deltalake import DeltaTable

    rows = pa.table({"x": [1, 2], "y": ["a", None]})
    project = Project(tmp_path / "p", database="shop")
    for form in ("parquet", "orc", "csv", "text"):
        (project.data / form).mkdir()
    pq.write_table(rows, project.data / "parquet/1.parquet")
    pyarrow.orc.write_table(rows, project.data / "orc/1.orc")
    project.put_text("csv/1.csv", "1;a\n2;\n")
    project.put_text("text/1.txt", "one\ntwo\n")
    project.write(
        "a.py",
        PY
        + """
from pyspark.sql.functions import udf

@udf("string")
def twice(text):
    return None if text is None else text + text

@dp.materialized_view
def every():
    csv = spark.read.schema("x INT, y STRING").option("sep", ";").csv(DATA + "/csv")
    parts = [spark.read.parquet(DATA + "/parquet"), spark.read.format("orc").load(DATA + "/orc")]
    rows = parts[0].unionAll(parts[1]).unionAll(csv.select(F.col("x").cast("long").alias("x"), "y"))
    return rows.select("x", twice("y").alias("y"))

@dp.materialized_view(name="shop.lines")
def of_text():
    return spark.read.text(DATA + "/text").crossJoin(spark.createDataFrame([(1, "a")], "n INT, t STRING"))

@dp.table
def streamed():
    return spark.readStream.schema("x LONG, y STRING").parquet(DATA + "/parquet")

@dp.materialized_view(name="elsewhere.total")
def total():
    return spark.sql("SELECT sum(x) AS x FROM shop.every")

for form in ("json", "csv", "parquet", "delta"):
    dp.create_sink(form + "_sink", form, {"path": DATA + "/out_" + form})
dp.create_sink("shown", "console")
"""
        + "".join(
            f"@dp.append_flow(target='{s}')\ndef to_{s}():\n    return spark.readStream.table('streamed')\n"
            for s in ("json_sink", "csv_sink", "parquet_sink", "delta_sink", "shown")
        ),
    )
    said = call("run", project.spec)
    assert said.exit_code == 0, said.stderr
    assert "shown (to_shown)" in said.stderr
    assert project.table("shop.every") == sorted([("1", "aa"), ("2", "None")] * 3)
    assert project.table("shop.lines") == [("one", "1", "a"), ("two", "1", "a")]
    assert project.table("elsewhere.total") == [("9",)]
    out = {form: project.data / f"out_{form}" for form in ("json", "csv", "parquet", "delta")}
    assert [sorted(f.read_text().splitlines()) for f in out["csv"].glob("*")] == [["1,a", "2,"]]
    for table in (pq.read_table(out["parquet"]), DeltaTable(str(out["delta"])).to_pyarrow_table()):
        assert table.sort_by("x").to_pylist() == rows.to_pylist()
    pq.write_table(pa.table({"x": [3], "y": ["c"]}), project.data / "parquet/2.parquet")
    assert call("run", project.spec).exit_code == 0
    assert project.table("elsewhere.total") == [("12",)]
    assert DeltaTable(str(out["delta"])).to_pyarrow_table().num_rows == 3
    assert pq.read_table(project.root / "storage/tables/shop.db/streamed").num_rows == 3


def test_a_watermark_says_nothing_where_no_row_is_remembered(tmp_path):
    project = project_of(
        tmp_path,
        a_py=STREAM.format(".withWatermark('at', '1 second').filter('x > 0')").replace("y STRING", "at TIMESTAMP"),
    )
    project.put("f/1.json", [{"x": 1, "at": "2026-01-01 10:00:00"}, {"x": 2, "at": "2020-01-01 10:00:00"}, {"x": 3}])
    Pipeline(str(project.spec)).run()
    assert [row[0] for row in project.table("t")] == ["1", "2", "3"]


PYTHON = {
    r"ZeroDivisionError: division by zero \(transformations/a\.py, line 3\)": "x = 1\ny = 0\nx / y\n",
    r"SyntaxError: .* \(transformations/a\.py, line 2\)": "x = 1\ndef f(:\n",
    r"ModuleNotFoundError: No module named 'nowhere' \(transformations/a\.py, line 1\)": "import nowhere\n",
    r"AttributeError: .*'colour'.* \(transformations/a\.py, line 6\)": PY
    + "@dp.materialized_view\ndef v():\n    return F.colour('x')\n",
    r"KeyError: 'x' \(transformations/a\.py, line 5\)": PY
    + "def f(name):\n    return {}[name]\n@dp.materialized_view\ndef v():\n    return spark.range(f('x'))\n",
    r"ATTEMPT_ANALYSIS.* \(transformations/a\.py, line 6\)": PY
    + "@dp.materialized_view\ndef v():\n    return spark.range(spark.range(3).count())\n",
}


@pytest.mark.parametrize("message", PYTHON)
def test_errors_of_python_are_one_line_with_their_place(tmp_path, message):
    project = project_of(tmp_path, a_py=PYTHON[message])
    said = call("dry-run", project.spec)
    assert said.exit_code == 1
    told = said.stderr[said.stderr.index("Importing") :].splitlines()[1:]
    assert len(told) == 1, told
    assert re.search(message, told[0]), told


def test_texts_have_the_values_of_settings(tmp_path):
    project = project_of(tmp_path, a_sql="CREATE MATERIALIZED VIEW one AS SELECT '${shop.name}' AS x;")
    text = project.spec.read_text().replace(
        "configuration:\n", "configuration:\n  shop.name: ${hivevar:shop.own} tea\n  shop.own: '7'\n"
    )
    project.spec.write_text(text)
    project.write(
        "b.py", PY + "@dp.materialized_view\ndef two():\n    return spark.sql('SELECT ${spark:shop.own} AS x')\n"
    )
    Pipeline(str(project.spec)).run()
    assert (project.table("one"), project.table("two")) == ([("7 tea",)], [("7",)])
    for wrong, message in {
        "${shop.nothing}": r"SQL_CONF_NOT_FOUND.*\$\{shop.nothing\} in transformations/a.sql.*shop.own",
        "${env:HOME}": "env:HOME",
        "${shop.circle}": "CIRCULAR_REFERENCE.*shop.circle -> shop.circle",
    }.items():
        project.spec.write_text(text.replace("  shop.own", "  shop.circle: ${shop.circle}\n  shop.own"))
        project.write("a.sql", f"CREATE MATERIALIZED VIEW one AS SELECT '{wrong}' AS x;")
        with pytest.raises(AltneuError, match=message):
            Pipeline(str(project.spec))


def test_a_file_that_cannot_be_read_stops_what_reads_it_and_no_other(tmp_path):
    project = project_of(
        tmp_path,
        a_py=PY
        + """
@dp.materialized_view
def broken():
    return spark.read.schema("x INT").option("mode", "FAILFAST").json(DATA + "/f")

@dp.table
def joined():
    return spark.readStream.schema("x INT").json(DATA + "/g").join(spark.read.table("broken"), "x")

@dp.table
def whole():
    return spark.readStream.schema("x INT").json(DATA + "/g")
""",
        b_sql="CREATE MATERIALIZED VIEW below AS SELECT count(*) AS n FROM broken;\n"
        "CREATE MATERIALIZED VIEW beside AS SELECT count(*) AS n FROM whole;\n",
    )
    project.put("f/1.json", [{"x": 1}])
    project.put("g/1.json", [{"x": 1}])
    names = ("broken", "joined", "whole", "below", "beside")
    Pipeline(str(project.spec)).run()
    assert project.tables(names) == {n: [("1",)] for n in names}
    good = project.put_text("f/1.json", '{"x": 7}\n{"x": 1}\n')
    bad = project.put_text("f/2.json", '{"x": \n')
    project.put("g/2.json", [{"x": 7}])
    said = call("run", project.spec)
    assert said.exit_code == 1
    assert re.search(r"f/2\.json.*: not brought up to date: below, broken, joined", said.stderr), said.stderr
    one, two = [("1",)], [("1",), ("7",)]
    assert project.tables(names) == {"broken": one, "joined": one, "whole": two, "below": one, "beside": [("2",)]}
    bad.unlink()
    assert good.exists()
    assert call("run", project.spec).exit_code == 0
    assert project.tables(names) == {"broken": two, "joined": two, "whole": two, "below": [("2",)], "beside": [("2",)]}
