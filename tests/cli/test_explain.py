"""``altneu explain``: of stores, also beside their writers, and of files that are not run."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

import altneu as an

FILE = """
CREATE TABLE clicks (page STRING, at BIGINT);
CREATE MATERIALIZED VIEW visits AS SELECT page, count(*) AS n FROM clicks GROUP BY page;
CREATE VIEW busy AS SELECT page FROM visits WHERE n > 1;
INSERT INTO clicks VALUES ('x', 1), ('x', 2);
CREATE SINK out FROM visits INTO PARQUET '{folder}/out';
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "pipeline.sql"
    path.write_text(FILE.format(folder=tmp_path))
    return path


def test_a_view_of_a_store_as_its_session_tells_it(call, orders):
    with an.Session(path=orders) as session:
        answer = session.sql("EXPLAIN VIEW totals").to_pylist()
        done = call("explain", "--path", orders, "Totals")  # while the session has it open
        session.sql("INSERT INTO orders VALUES ('oil', 1)")
    assert done.code == 0
    assert done.lines == [line for (line,) in answer]


def test_a_query_upon_what_the_store_keeps(call, orders):
    done = call("explain", "--path", orders, "SELECT o.price FROM orders o JOIN totals t ON o.item = t.item")
    assert "the query" in done.lines[0]
    assert "there already" in done.out
    assert "there already" in call("explain", "--path", orders, "dear").out


def test_all_views_in_one_graph_as_json(call, orders):
    (answer,) = call("explain", "--path", orders, "--json").objects
    assert {view["name"] for view in answer["views"]} == {"orders", "totals", "by_item"}
    assert {"source", "reduce"} <= {operator["kind"] for operator in answer["operators"]}
    (one,) = call("explain", "--path", orders, "totals", "--json").objects
    assert [view["name"] for view in one["views"]] == ["totals"]


def test_pictures(call, orders, tmp_path):
    assert call("explain", "--path", orders, "totals", "--out", tmp_path / "x.svg").code == 0
    root = ET.fromstring((tmp_path / "x.svg").read_text())  # noqa: S314  # made here
    assert root.tag.endswith("svg")
    assert "<svg" in call("explain", "--path", orders, "totals", "--form", "svg").out
    assert call("explain", "--path", orders, "--out", tmp_path / "x.html").code == 0
    assert "<html" in (tmp_path / "x.html").read_text()


def test_nothing_is_written(call, orders, tmp_path):
    before = {file: file.stat().st_mtime_ns for file in orders.rglob("*")}
    assert call("explain", "--path", orders).code == 0
    after = {file: file.stat().st_mtime_ns for file in orders.rglob("*")}
    assert {file for file in {**before, **after} if before.get(file) != after.get(file)} <= {orders / "readers"}


def test_sinks_of_a_store_are_left_alone(call, tmp_path):
    with an.Session(path=tmp_path / "s") as session:
        session.sql(FILE.format(folder=tmp_path))
    out = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*")}
    (tmp_path / "s" / "lock").touch()
    assert call("explain", "--path", tmp_path / "s", "visits").code == 0
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*")} == out


def test_a_file_that_is_not_run(call, file, tmp_path):
    done = call("explain", file, "visits")
    assert (done.code, done.lines[0]) == (0, "view visits")
    assert not (tmp_path / "out").exists()
    assert "1 update" not in done.out
    assert call("explain", "-", "busy", input=FILE).code == 0
    assert "the query" in call("explain", file, "SELECT max(n) FROM visits").out


def test_files_of_sources_are_not_read(call, tmp_path):
    (tmp_path / "rows.csv").write_text("k\n1\n2\n")
    script = tmp_path / "x.sql"
    script.write_text(
        f"CREATE SOURCE rows (k INT) FROM FILE '{tmp_path}/rows.csv' FORMAT CSV OPTIONS (header true) KEEP;"
        "CREATE MATERIALIZED VIEW m AS SELECT max(k) AS k FROM rows;"
    )
    planned = call("explain", script, "m")
    measured = call("explain", script, "m", "--analyze")
    assert (planned.code, measured.code) == (0, 0)
    assert "measured" not in planned.out
    assert "measured" in measured.out


def test_what_was_measured(call, file, tmp_path):
    (answer,) = call("explain", file, "visits", "--analyze", "--json").objects
    reads = [operator for operator in answer["operators"] if operator["kind"] == "source"]
    assert [operator["total"]["rows_out"] for operator in reads] == [2]
    assert (tmp_path / "out").exists()  # it was run


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--path", "{store}", "totls"], 1, "no view 'totls'; did you mean 'totals'?"),
        (["--path", "{store}", "delays"], 1, "view 'delays': only the Python program that defined it knows its plan"),
        (["--path", "{store}", "SELECT x FROM totals"], 1, "no column 'x'"),
        (["--path", "{store}", "totals", "orders"], 2, "one NAME or QUERY"),
        (["--path", "{store}", "--analyze"], 2, "leave out --analyze"),
        (["--json", "--form", "svg", "--path", "{store}"], 2, "exclude each other"),
        ([], 2, "name a store with --path, or a FILE.sql"),
        (["nowhere.sql"], 2, "there is no file nowhere.sql"),
        (["-", "v"], 1, "no view 'v'; there are: (none)"),
    ],
)
def test_what_fails(call, store_path, arguments, code, told):
    done = call("explain", *(str(a).format(store=store_path) for a in arguments), input="")
    assert (done.code, done.out) == (code, "")
    assert told in done.err


def test_a_file_that_does_not_parse(call):
    done = call("explain", "-", "--json", input="CREATE VEIW x")
    assert (done.code, done.objects[0]["error"]) == (1, "StatementError")
