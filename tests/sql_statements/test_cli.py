"""``altneu run``: what it prints, how it ends, and that what it is killed at is gone on with."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

import altneu as an
from altneu.cli import main
from altneu.cli.output import text
from tests.store.support import CHILD

PIPELINE = """
-- totals per item
CREATE TABLE orders (item STRING, price DECIMAL(10, 2));
CREATE MATERIALIZED VIEW totals AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
INSERT INTO orders VALUES ('tea', 3.50), ('[b]jam[/b]', NULL);
SELECT * FROM totals ORDER BY item;
"""


@pytest.fixture
def pipeline(tmp_path):
    def write(script):
        path = tmp_path / "pipeline.sql"
        path.write_text(script)
        return str(path)

    return write


def run(*arguments, **rest):
    return CliRunner().invoke(main, ["run", *arguments], catch_exceptions=False, **rest)


def test_it_prints_what_queries_give(pipeline):
    result = run(pipeline(PIPELINE))
    assert result.exit_code == 0
    lines = [line.rstrip() for line in result.stdout.splitlines()]
    assert lines == ["item        total", "[b]jam[/b]   NULL", "tea          3.50", "(2 rows)"]
    assert result.stderr.splitlines() == ["TABLE orders created", "MATERIALIZED VIEW totals created", "INSERT 2"]


def test_a_store_goes_on(pipeline, tmp_path):
    for n in (1, 2):
        result = run(pipeline(PIPELINE), "--path", str(tmp_path / "state"), "--json", "--set", "retain=all")
        assert result.exit_code == 0
        answer = [json.loads(line) for line in result.stdout.splitlines()]
        assert answer[1]["message"] == f"MATERIALIZED VIEW totals {'created' if n == 1 else 'exists already'}"
        assert answer[-1]["rows"] == [["[b]jam[/b]", None], ["tea", f"{n * 3.5:.2f}"]]
    with an.Session(path=tmp_path / "state") as session:
        assert session.sql("SELECT count(*) FROM totals AS OF 0").to_pylist() == [(2,)]


def test_changes_are_printed(pipeline):
    script = (
        "CREATE TABLE t (k INT); SUBSCRIBE t WITH (PROGRESS); INSERT INTO t VALUES (1); "
        "SUBSCRIBE (SELECT k + 1 AS x FROM t); DELETE FROM t; EXPLAIN VIEW t"
    )
    lines = [line.rstrip() for line in run(pipeline(script)).stdout.splitlines()]
    assert lines[:9] == [
        "mz_timestamp  mz_progressed  mz_diff  k",
        "0  true  NULL  NULL",
        "0  false  1  1",
        "1  true  NULL  NULL",
        "mz_timestamp  mz_diff  x",
        "0  1  2",
        "1  false  -1  1",
        "2  true  NULL  NULL",
        "1  -1  2",
    ]
    assert lines[9] == "view t"
    answer = [json.loads(line) for line in run(pipeline(script), "--json").stdout.splitlines()]
    assert [line["change"] for line in answer if "change" in line][-1] == {"mz_timestamp": 1, "mz_diff": -1, "x": 2}


@pytest.mark.parametrize(
    ("script", "told", "note"),
    [
        ("SELECT 1;\nSELEKT 2", "StatementError: line 2, column 1: no statement begins with 'SELEKT'", None),
        ("SELECT 1;\nSELECT x FROM nope", "UnknownTableError: no table or view 'nope'", "  line 2: SELECT x FROM nope"),
        (
            "CREATE TABLE t (k INT); INSERT INTO t VALUES ('a')",
            "StatementError: column 'k' of 't' is int",
            "  line 1: INSERT",
        ),
    ],
)
def test_a_statement_that_fails_is_reported_and_the_exit_code_is_1(pipeline, script, told, note):
    result = run(pipeline(script))
    assert result.exit_code == 1
    assert told in result.stderr
    assert note is None or note in result.stderr
    if "SELEKT" in script:
        assert result.stdout == ""  # nothing is done of what does not parse
    as_json = run(pipeline(script), "--json")
    error = json.loads(as_json.stdout.splitlines()[-1])
    assert f"{error['error']}: {error['message']}".startswith(told)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["nowhere.sql"], "does not exist"),
        (["-", "--set", "retain"], "the value is missing"),
        (["-", "--set", "retain=much"], "retain does not accept 'much'"),
        (["-", "--set", "speed=5"], "the settings are: retain, retain_events"),
        (["-", "--set", "spark.ui.port=5"], "give --master too"),
        (["-", "--quickly"], "No such option"),
    ],
)
def test_a_command_that_is_not_understood_ends_with_2(arguments, told):
    result = run(*arguments, input="")
    assert result.exit_code == 2
    assert told in result.stderr


def test_help_and_version():
    answer = CliRunner().invoke(main, ["--help"]).output
    assert "run" in answer
    assert CliRunner().invoke(main, ["--version"], prog_name="altneu").output.startswith("altneu, version 0.")
    assert "--follow / --once" in CliRunner().invoke(main, ["run", "-h"]).output


def test_values_as_they_are_shown():
    assert [text(value) for value in (None, True, 1.5, "x", b"y")] == ["NULL", "true", "1.5", "x", "b'y'"]
    values = (
        "SELECT DATE'2024-01-02' AS d, TIMESTAMP'2024-01-02 03:04:05Z' AS t, X'00ff' AS b, array(1, 2) AS a, 1.50 AS n"
    )
    answer = json.loads(run("-", "--json", input=values).stdout)
    assert answer["rows"] == [["2024-01-02", "2024-01-02T03:04:05+00:00", "AP8=", [1, 2], "1.50"]]


def test_as_a_process(pipeline, tmp_path):
    command = [sys.executable, "-W", "ignore", "-m", "altneu.cli", "run", pipeline(PIPELINE)]
    command += ["--path", str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, env=CHILD, check=False)
    assert (done.returncode, done.stdout.count("tea"), "INSERT 2" in done.stderr) == (0, 1, True)
