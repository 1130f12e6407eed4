"""``altneu query``: over views however they were defined, beside their writer, in every form."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import altneu as an
from altneu.store import LocalFolder
from altneu.store.identity import FILE


def test_rows_as_a_table(call, store_path):
    done = call("query", "--path", store_path, "SELECT * FROM totals ORDER BY total DESC NULLS LAST")
    assert done.lines == ["item  total", "tea       7", "jam       5", "milk   NULL"]
    assert (done.code, done.err) == (0, "(3 rows of time 2)\n")


def test_a_json_object_a_row(call, store_path):
    done = call("query", "--path", store_path, "--json", "SELECT item, total > 5 AS dear FROM totals ORDER BY item")
    assert done.objects == [
        {"item": "jam", "dear": False},
        {"item": "milk", "dear": None},
        {"item": "tea", "dear": True},
    ]
    assert (done.code, done.err) == (0, "")


def test_the_name_of_a_view_is_a_query(call, store_path):
    assert call("query", "--path", store_path, "--json", "Dear").objects == [{"what": "tea", "cost": 7}]
    assert "no table or view 'totls'" in call("query", "--path", store_path, "totls").err


def test_names_that_sql_gave_to_queries_and_views_of_programs(call, store_path):
    assert call("query", "--path", store_path, "--json", "TABLE Dear").objects == [{"what": "tea", "cost": 7}]
    joined = "SELECT o.item, d.tail FROM orders o JOIN delays d ON d.delay = o.price + 95"
    assert call("query", "--path", store_path, "--json", joined).objects == [{"item": "tea", "tail": "N1"}]
    assert call("query", "--path", store_path, "--json", "SELECT * FROM delays ORDER BY tail").objects == [
        {"tail": "N1", "delay": 99.0}
    ]


def test_a_time_that_is_kept_of_one_clock_and_of_two(call, store_path):
    count = "SELECT count(*) AS n FROM orders"
    assert [call("query", "--path", store_path, "--json", "--at", t, count).objects[0]["n"] for t in (0, 1, 2)] == [
        3,
        3,
        4,
    ]
    assert call("query", "--path", store_path, "--json", f"{count} AS OF 0").objects == [{"n": 3}]
    delays = "SELECT tail, delay FROM delays ORDER BY tail"
    at = {
        t: [o["tail"] for o in call("query", "--path", store_path, "--json", "--at", t, delays).objects]
        for t in ("1,1", "2,1", "1")
    }
    assert at == {"1,1": ["N1", "N2"], "2,1": ["N1"], "1": ["N1", "N2"]}
    assert call("query", "--path", store_path, "--json", "--at", ",1", delays).objects == [
        {"tail": "N1", "delay": 10.0}
    ]


def test_queries_that_read_nothing(call, store_path):
    assert call("query", "--path", store_path, "--json", "VALUES (1, 'x')").objects == [{"col1": 1, "col2": "x"}]
    assert call("query", "--path", store_path, "--json", "SELECT mz_now() AS t FROM totals LIMIT 1").code == 1


@pytest.mark.parametrize("form", ["csv", "json"])
def test_other_forms(call, store_path, tmp_path, form):
    query = "SELECT item, total, array(total, 1) AS xs, DATE'2024-01-02' AS d, total > 5 AS b FROM totals ORDER BY item"
    printed = call("query", "--path", store_path, "--format", form, query)
    file = tmp_path / f"rows.{form}"
    written = call("query", "--path", store_path, "--out", file, query)
    assert (written.code, written.out, written.err) == (0, "", f"3 rows of time 2 in {file}\n")
    assert file.read_text() == printed.out
    if form == "csv":
        head, jam, milk, _ = csv.reader(io.StringIO(printed.out))
        assert head == ["item", "total", "xs", "d", "b"]
        assert jam == ["jam", "5", "[5, 1]", "2024-01-02", "false"]
        assert milk == ["milk", "", "[null, 1]", "2024-01-02", ""]
    else:
        assert json.loads(printed.out.splitlines()[0])["xs"] == [5, 1]


def test_parquet(call, store_path, tmp_path):
    assert call("query", "--path", store_path, "--out", tmp_path / "x.parquet", "TABLE totals").code == 0
    assert min(pq.read_table(tmp_path / "x.parquet").to_pylist(), key=str) == {"item": "jam", "total": 5}
    assert [p.name for p in tmp_path.iterdir()] == ["x.parquet"]


def test_files_beside_views_and_by_themselves(call, store_path, tmp_path):
    pq.write_table(pa.table({"item": ["tea", "jam"], "shelf": [1, 2]}), tmp_path / "shelves.parquet")
    (tmp_path / "stock.csv").write_text("item,n\ntea,10\n")
    (tmp_path / "more.json").write_text('{"item": "jam", "n": 3}\n')
    shelves = ("--source", f"shelves={tmp_path}/shelves.parquet")
    joined = "SELECT t.item, shelf, total FROM totals t JOIN shelves s ON s.item = t.item ORDER BY shelf"
    assert call("query", "--path", store_path, *shelves, "--json", joined).objects == [
        {"item": "tea", "shelf": 1, "total": 7},
        {"item": "jam", "shelf": 2, "total": 5},
    ]
    files = (*shelves, "--source", f"stock={tmp_path}/*.csv", "--source", f"more={tmp_path}/more.json")
    both = "SELECT * FROM stock UNION ALL SELECT * FROM more"
    together = f"SELECT shelf, CAST(n AS INT) AS n FROM ({both}) JOIN shelves USING (item) ORDER BY 1"
    assert call("query", *files, "--json", together).objects == [{"shelf": 1, "n": 10}, {"shelf": 2, "n": 3}]
    for source, code, message in (
        ("x=y.txt", 2, "ends in .parquet, .csv, .json"),
        (f"x={tmp_path}", 2, f"is a folder; name its files, as {tmp_path}/*.parquet"),
        ("x=nowhere.csv", 1, "there is no file 'nowhere.csv'"),
    ):
        done = call("query", "--source", source, "TABLE x")
        assert (done.code, message in done.err) == (code, True)
    assert "name a store with --path" in call("query", "SELECT 1").err


def test_beside_the_session_that_writes(call, orders):
    count = ("query", "--path", orders, "--json", "SELECT sum(total) AS s FROM totals")
    with an.Session(path=orders) as session:
        session.sql("INSERT INTO orders VALUES ('oil', 88)")
        assert call(*count).objects == [{"s": 100}]
        session.sql("DELETE FROM orders")
        assert call(*count).objects == [{"s": None}]
        assert not list((orders / "readers").iterdir())  # the lease is taken back


def test_errors_of_a_view_are_printed(call, tmp_path):
    with an.Session(path=tmp_path / "s") as session:
        session.sql("CREATE TABLE t (k INT); CREATE MATERIALIZED VIEW v AS SELECT 1 / k AS x FROM t")
        session.sql("INSERT INTO t VALUES (0), (1)")
    done = call("query", "--path", tmp_path / "s", "TABLE v")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("ViewHasErrorsError: view 'v' has 1 error(s)")
    assert call("query", "--path", tmp_path / "s", "--ignore-errors", "--json", "TABLE v").objects == [{"x": 1.0}]
    assert "DIVIDE" in call("query", "--path", tmp_path / "s", "SELECT 1 / k FROM t").err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (
            ["SELECT * FROM total"],
            1,
            "UnknownTableError: no table or view 'total' (line 1, column 15); did you mean totals?",
        ),
        (["TABLE by_item"], 1, "no table or view 'by_item'"),
        (["SELECT FROM"], 1, "StatementError: line 1"),
        (["SELECT pric FROM orders"], 1, "UnknownColumnError: no column 'pric'"),
        (["DELETE FROM orders"], 1, "query takes one query, not `DELETE FROM orders`; altneu run"),
        (["SELECT 1; SELECT 2"], 1, "not 2 statements"),
        (["--at", "9", "TABLE totals"], 1, "NotYetKnownError: --at 9 is not closed yet"),
        (["--at", "1", "TABLE totals AS OF 1"], 1, "leave one of them out"),
        (["--at", "soon", "TABLE totals"], 2, "got 'soon'"),
        (["--format", "parquet", "TABLE totals"], 2, "name it with --out"),
        (["--format", "json", "SELECT 1 AS x, 2 AS x"], 1, "SchemaError: two columns are called 'x'"),
        (["--out", "x.parquet", "SELECT 1 AS x, 2 AS x"], 1, "SchemaError: two columns are called 'x'"),
        (["--out", "rows", "TABLE totals"], 2, "does not show its format"),
        (["--json", "--format", "csv", "TABLE totals"], 2, "exclude each other"),
        (["--out", "no/such/folder.csv", "TABLE totals"], 1, "folder.csv: there is no folder no/such"),
        ([], 2, "Missing argument 'VIEW|QUERY'"),
    ],
)
def test_what_fails(call, store_path, arguments, code, message):
    done = call("query", "--path", store_path, *arguments)
    assert (done.code, done.out) == (code, "")
    assert message in done.err
    if code == 1:
        as_json = call("query", "--path", store_path, "--json", *arguments).objects
        assert len(as_json) == 1
        assert f"{as_json[0]['error']}: {as_json[0]['message']}".splitlines()[0] in done.err


COMMANDS = [("query", "SELECT 1"), ("subscribe", "--once", "totals"), ("status",), ("vacuum",), ("explain",)]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_no_store_where_one_is_looked_for(call, store_path, tmp_path, command):
    def error_at(path):
        done = call(command[0], "--path", path, *command[1:])
        assert (done.code, done.out) == (1, "")
        return done.err

    assert "there is no store in" in error_at(store_path.parent / "stat")
    assert "did you mean 'state'?" in error_at(store_path.parent / "stat")
    assert error_at(tmp_path).endswith(": it is empty\n")
    (tmp_path / "a.txt").write_text("x")
    assert error_at(tmp_path).endswith(": it holds a.txt\n")
    assert error_at(tmp_path / "a.txt").endswith(": it is a file, but a store is a folder\n")
    assert error_at(tmp_path / "b").endswith(": no such folder\n")
    assert "there is no folder" in error_at(tmp_path / "b" / "c")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_a_store_of_a_later_format_and_a_damaged_one(call, store, command):
    last = max((store / "log").iterdir())
    whole = last.read_bytes()
    last.write_bytes(whole[:-1])
    done = call(command[0], "--path", store, *command[1:])
    assert done.code == 1
    assert f"StoreCorruptError: {last}" in done.err
    last.write_bytes(whole)
    answer = json.loads((store / FILE).read_text()) | {"format": 99}
    LocalFolder(store).put(FILE, json.dumps(answer).encode())
    done = call(command[0], "--path", store, *command[1:], "--json")
    assert (done.code, done.objects[-1]["error"]) == (1, "StoreVersionError")


def test_many_rows_are_written_as_quickly_as_they_are_read(tmp_path, call):
    with an.Session(path=tmp_path / "many") as session:
        session.maintain("many", an.source("n", "name string, k long"))
        session.insert("n", [(None if i == 7 else f"r{i}", i) for i in range(1_200)])
        session.advance()
    lines = call("query", "--path", tmp_path / "many", "SELECT name, k FROM many ORDER BY k").lines
    assert (lines[:2], lines[8]) == (["name      k", "r0        0"], "NULL      7")
    assert (lines[-1], len(lines)) == ("r1199  1199", 1_201)


def test_a_view_without_contents_is_subscribed_to_and_not_read(call, tmp_path):
    with an.Session(path=tmp_path / "state") as session:
        session.sql("CREATE TABLE orders (item STRING, price INT)")
        session.sql("CREATE MATERIALIZED VIEW dear WITH (CONTENTS = false) AS SELECT * FROM orders WHERE price > 5")
        session.sql("INSERT INTO orders VALUES ('tea', 3), ('oil', 9)")
    done = call("query", "--path", tmp_path / "state", "SELECT * FROM dear")
    assert done.code
    assert "view 'dear' is maintained with contents=False" in done.err
    answer = call("subscribe", "--path", tmp_path / "state", "--once", "--json", "--progress", "dear")
    assert (answer.code, answer.objects) == (0, [])
    since = call("subscribe", "--path", tmp_path / "state", "--snapshot", "--once", "dear")
    assert since.code
    assert "contents=False and therefore no snapshot" in since.err
    kept = call("subscribe", "--path", tmp_path / "state", "--once", "SELECT count(*) FROM dear")
    assert kept.code
    assert "contents=False" in kept.err


def test_a_time_that_cannot_be_read_is_told_in_words_of_the_command_line(call, store_path):
    closed = "is not closed yet: the last closed time is 2; the session that writes the store closes it"
    for arguments, said in (
        (("--at", "9", "TABLE totals"), f"--at 9 {closed}"),
        (("--at", "9", "SELECT item FROM totals WHERE item = 'tea'"), f"--at 9 {closed}"),
        (("SELECT * FROM totals AS OF 9",), f"AS OF 9 {closed}"),
    ):
        done = call("query", "--path", store_path, *arguments)
        assert done.code == 1
        assert said in " ".join(done.err.split())
