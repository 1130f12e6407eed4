"""What the page's addresses answer."""

from __future__ import annotations

import json
import threading
import time

import httpx
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import SetupError
from altneu.page import console
from altneu.page import rows as page_rows
from altneu.page.app import ADDRESSES
from tests.page.conftest import SCRIPT


def ask(client, text, status=200):
    answer = client.post("api/sql", json={"text": text})
    assert answer.status_code == status, answer.text
    return answer.json()


def rows(client, view, **parameters):
    answer = client.get("api/rows", params={"view": view, **parameters})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_session_is_served(client, session):
    answer = client.get("api/session").json()
    assert (answer["lower"], answer["steps"], answer["store"], answer["allow_writes"]) == (1, 1, "in memory", False)
    assert [(v["name"], v["errors"]) for v in answer["views"]] == [("orders", 0), ("total", 0), ("each", 1)]
    assert answer["retained"]["updates"] == sum(session._engine.table.rows(n) for n in session._engine.table.layouts)
    assert answer["doing"] is answer["failed"] is None


def test_steps_are_listed_with_the_times_of_their_ends(client, session):
    session.insert("orders", [("tea", 4, 1)])
    before = time.time()
    session.advance(to=5)
    (step,) = client.get("api/steps", params={"after": 1}).json()["steps"]
    assert (step["number"], step["lower"], step["upper"], step["changes_in"]) == (2, 1, 5, 1)
    assert step["changes_out"] == {"orders": 1, "total": 2, "each": 1}
    assert before - 1 < step["ended"] < time.time() + 1
    assert len(client.get("api/steps", params={"n": 1}).json()["steps"]) == 1


def test_rows_come_in_windows_in_an_order_and_filtered(client):
    rows_shown = rows(client, "orders", limit=2)
    assert [c["name"] for c in rows_shown["columns"]] == ["item", "price", "qty"]
    assert rows_shown["rows"] == [[SCRIPT, 7, 1], ["jam", 5, 2]]  # a small view is in order of its columns
    assert (rows_shown["selected"], rows_shown["distinct"], rows_shown["whole"]) == (4, 4, True)
    assert rows(client, "orders", sort="price", descending=1, limit=1)["rows"] == [[SCRIPT, 7, 1]]
    assert rows(client, "orders", filter="TE")["rows"] == [["tea", 3, 1]]
    assert rows(client, "orders", filter="5")["rows"] == [["jam", 5, 2]]
    assert rows(client, "orders", offset=3)["rows"] == [["tea", 3, 1]]
    assert rows(client, "orders", offset=30)["rows"] == []


def test_rows_that_are_there_several_times_have_a_count(client, session):
    session.insert("orders", [("tea", 3, 1), ("tea", 3, 1)])
    session.advance()
    rows_shown = rows(client, "orders", filter="tea")
    assert (rows_shown["rows"], rows_shown["counts"]) == ([["tea", 3, 1]], [3])
    assert rows_shown["rows_with_counts"] == 6


def test_of_a_large_view_the_first_part_is_shown_and_that_is_said(client, session, monkeypatch):
    session.insert("orders", [(f"item {i}", i, 1) for i in range(2_000)])
    session.advance()
    monkeypatch.setattr(page_rows, "MOST", 500)
    rows_shown = rows(client, "orders", limit=1000)
    assert rows_shown["whole"] is False
    assert 300 < rows_shown["selected"] < 700
    everything = set(session.view("orders").to_pylist())
    assert {tuple(row) for row in rows_shown["rows"]} <= everything


def test_changes_are_listed_removals_first(client, session):
    session.retract("orders", [("tea", 3, 1)])
    session.insert("orders", [("tea", 9, 1)])
    session.advance()
    session.advance()
    (change,) = client.get("api/changes", params={"view": "total"}).json()["changes"]
    assert (change["number"], change["total"], change["diffs"], change["times"]) == (2, 2, [-1, 1], [[1], [1]])
    assert change["rows"] == [["tea", 3, 1], ["tea", 9, 1]]
    assert client.get("api/changes", params={"view": "total", "after": 2}).json()["changes"] == []
    (cut,) = client.get("api/changes", params={"view": "total", "rows": 1}).json()["changes"]
    assert (cut["total"], cut["rows"]) == (2, [["tea", 3, 1]])


def test_of_many_changes_the_first_are_kept(client, session):
    session.insert("orders", [(f"item {i}", i, 1) for i in range(3_000)])
    session.advance()
    (change,) = client.get("api/changes", params={"view": "orders"}).json()["changes"]
    assert (change["total"], len(change["rows"])) == (3_000, 500)


def test_errors_are_listed(client, session):
    answer = client.get("api/errors", params={"view": "each"}).json()
    assert (answer["total"], answer["rows"][0][1]) == (1, "DIVIDE_BY_ZERO")
    assert '"item": "salt"' in answer["rows"][0][3]
    session.retract("orders", [("salt", 1, 0)])
    session.advance()
    assert client.get("api/errors", params={"view": "each"}).json()["total"] == 0


def test_a_view_and_the_sources_are_described(client):
    view = client.get("api/view", params={"view": "total"}).json()
    assert [c["type"] for c in view["columns"]] == ["string", "bigint", "bigint"]
    assert (view["times"], view["definition"], view["lower"]) == (["time"], None, 1)
    (source,) = client.get("api/sources").json()["sources"]
    assert (source["name"], source["filled"], source["stream"]) == ("orders", True, False)
    assert client.get("api/streams").json() == {"streams": []}


def test_definitions_of_statements_are_served():
    with an.Session() as session, session.serve(allow_writes=True) as page, httpx.Client(base_url=page.url) as client:
        assert ask(client, "CREATE TABLE t (k BIGINT)")["message"] == "TABLE t created"
        ask(client, "CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS k FROM t; INSERT INTO t VALUES (1)")
        assert rows(client, "v")["rows"] == [[2]]
        answer = client.get("api/view", params={"view": "v"}).json()["definition"]
        assert answer == "CREATE MATERIALIZED VIEW v AS SELECT k + 1 AS k FROM t"
        assert "without an end" in ask(client, "SUBSCRIBE v", 403)["error"]["message"]


WRONG = [
    ("api/rows", 400, "view is missing"),
    ("api/rows?view=nope", 404, "the views are: orders, total, each"),
    ("api/rows?view=orders&offset=-1", 400, "must be a whole number"),
    ("api/rows?view=orders&offset=1e9", 400, "must be a whole number"),
    ("api/rows?view=orders&limit=100000", 400, "from 1 to 1000"),
    ("api/rows?view=orders&sort=nope", 400, "the columns are: item, price, qty"),
    ("api/steps?n=x", 400, "got 'x'"),
    ("api/nothing", 404, "/api/nothing"),
    ("nothing.js", 404, "/api lists the paths"),
    ("..%2Fapp.py", 404, "not found"),
    ("static%2F..%2F..%2Fapp.py", 404, "not found"),
    ("__init__.py", 404, "does not exist"),
]


def test_what_is_wrong_is_said(client):
    for path, status, said in WRONG:
        answer = client.get(path)
        assert answer.status_code == status, path
        assert said.lower() in answer.json()["error"]["message"].lower(), path


def test_every_address_is_listed_and_answers(client):
    assert client.get("api").json() == ADDRESSES
    for path in ADDRESSES:
        if path.startswith("/") and "updates" not in path:
            answer = client.get(path.replace("view=", "view=orders").replace("sort=", "sort=item"))
            assert answer.status_code == 200, path


def test_the_graph_is_served_and_drawn_and_follows_steps(client, session):
    answer = client.get("api/graph", params={"picture": 1}).json()
    operators = {o["id"]: o for o in answer["operators"]}
    assert answer["picture"].count("data-operator=") == len(operators)
    assert "<style" not in answer["picture"]
    assert [v["name"] for v in answer["views"]] == ["orders", "total", "each"]
    source = next(o for o in answer["operators"] if o["kind"] == "source")
    assert (source["total"]["rows_out"], source["did"].partition(",")[0]) == (4, "4 in")
    kept = [o for o in answer["operators"] if o["arrangement"] is not None]
    assert all(o["updates"] == session._engine.table.rows(o["arrangement"]) for o in kept)
    session.insert("orders", [("tea", 4, 1)])
    session.advance()
    after = client.get("api/graph").json()
    assert "picture" not in after
    assert after["plan"] == answer["plan"]
    assert next(o for o in after["operators"] if o["id"] == source["id"])["total"]["rows_out"] == 5
    one = client.get("api/graph", params={"view": "total"}).json()
    assert 0 < len(one["operators"]) < len(operators)
    assert client.get("api/graph", params={"view": "nope"}).status_code == 404


def test_a_row_is_explained(client, session):
    def why(view, row):
        return client.post("api/why", json={"view": view, "row": row})

    actual = rows(client, "total", filter="jam")
    answer = why("total", actual["ids"][0]).json()
    assert (answer["row"], answer["count"], answer["at"]) == ({"item": "jam", "total": 5, "n": 1}, 1, [0])
    assert [(i["source"], i["rows"]) for i in answer["inputs"]] == [("orders", [["jam", 5, 2, 0, 1]])]
    assert answer["operators"][0]["total"] == 1
    assert why("total", "nothing").status_code == 400
    assert why("nope", actual["ids"][0]).status_code == 404
    session.retract("orders", [("jam", 5, 2)])
    session.advance()
    gone = why("total", actual["ids"][0])
    assert (gone.status_code, "no longer in the view" in gone.text) == (404, True)


# the box --------------------------------------------------------------------------------------------------------------


def test_a_select_is_answered_and_takes_no_step(client, session):
    session.insert("orders", [("tea", 40, 1)])  # waits for the next step, and goes on waiting
    answer = ask(client, "SELECT item, sum(price) AS p FROM orders WHERE price < 6 GROUP BY item ORDER BY item")
    assert answer["rows"] == [["jam", 5], ["salt", 1], ["tea", 3]]
    assert (session.lower, session._engine.has_pending) == (1, True)
    assert ask(client, "SHOW MATERIALIZED VIEWS")["rows"][0] == ["orders", 4]
    plan = ask(client, "EXPLAIN SELECT count(*) FROM orders")
    assert plan["plan"] is True
    assert any("orders" in line for (line,) in plan["rows"])


WRITES = [
    "INSERT INTO orders VALUES ('x', 1, 1)",
    "DELETE FROM orders",
    "SELECT 1; DROP MATERIALIZED VIEW total",
    "CREATE MATERIALIZED VIEW w AS SELECT * FROM orders",
    "ADVANCE",
    "BEGIN",
]


def test_what_writes_is_refused_and_nothing_of_it_is_done(client, session):
    for text in WRITES:
        message = ask(client, text, 403)["error"]["message"]
        assert "read-only" in message
        assert "allow_writes=True" in message
    assert (session.lower, session.views) == (1, ["orders", "total", "each"])


def test_an_error_of_a_statement_is_returned_with_its_kind(client):
    assert ask(client, "SELECT nope FROM orders", 400)["error"]["kind"] == "UnknownColumnError"
    assert ask(client, "SELEC 1", 400)["error"]["kind"] == "StatementError"
    assert "1 error(s)" in ask(client, "SELECT * FROM each", 400)["error"]["message"]
    assert "no statement" in ask(client, "  -- nothing", 400)["error"]["message"]


def test_a_long_result_is_cut(client, session):
    session.insert("orders", [(f"item {i}", i, 1) for i in range(3_000)])
    session.advance()
    answer = ask(client, "SELECT * FROM orders")
    assert (len(answer["rows"]), answer["total"]) == (1_000, 3_004)


def test_what_is_posted_is_read_with_care(client):
    def post(content, kind="application/json"):
        return client.post("api/sql", content=content, headers={"content-type": kind}).status_code

    assert post(b'{"text": "SELECT 1"}', "text/plain") == 415
    assert post(b"{") == post(b"[]") == post(b"{}") == post(b'{"text": 5}') == 400
    assert post(b" " * (2 << 20)) == 413


# while a step runs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", ["--5", "1" * 5000, "\u0663", "1.5"])
def test_a_number_that_is_none_is_refused(client, number):
    answer = client.get("/api/steps", params={"n": number})
    assert (answer.status_code, "must be a whole number" in answer.json()["error"]["message"]) == (400, True)


@pytest.mark.parametrize(
    "posted", [b'{"text": "\\ud800"}', b"[" * 200_000, b'{"text": "select 1' + b"+1" * 4000 + b'"}']
)
def test_what_no_query_is_like_is_refused(client, posted):
    headers = {"content-type": "application/json"}
    assert client.post("/api/sql", content=posted, headers=headers).status_code == 400
    assert client.post("/api/sql", json={"text": "select 1"}, headers={"origin": "http://["}).status_code == 403


def test_looking_waits_for_no_step_and_a_query_says_what_it_waits_for(client, session, monkeypatch):
    entered, go = threading.Event(), threading.Event()

    def slow(row, time, diff):
        entered.set()
        go.wait(20)

    session.view("orders").subscribe(slow, snapshot=False)
    session.insert("orders", [("late", 1, 1)])
    running = threading.Thread(target=session.advance)
    monkeypatch.setattr(console, "PATIENCE", 0.2)
    running.start()
    try:
        assert entered.wait(20)
        before = time.perf_counter()
        assert rows(client, "orders")["selected"] == 4  # as it was before the step
        assert client.get("api/session").json()["lower"] in (1, 2)
        assert client.get("metrics").status_code == 200
        assert time.perf_counter() - before < 5
        assert "busy" in ask(client, "SELECT 1", 400)["error"]["message"]
    finally:
        go.set()
        running.join()
    assert rows(client, "orders")["selected"] == 5
    assert ask(client, "SELECT count(*) AS n FROM orders")["rows"] == [[5]]


def test_reading_while_it_advances_sees_whole_steps(client, session):
    """Each step puts one row in the place of another: whenever it is looked at there are four."""
    stop = threading.Event()

    def steps():
        at = 3
        while not stop.is_set():
            session.retract("orders", [("tea", at, 1)])
            session.insert("orders", [("tea", at := at + 1, 1)])
            session.advance()

    running = threading.Thread(target=steps)
    running.start()
    try:
        seen = []
        for _ in range(60):
            rows_shown = rows(client, "orders")
            assert rows_shown["selected"] == 4
            seen.append(rows_shown["lower"])
    finally:
        stop.set()
        running.join()
    assert seen == sorted(seen)
    assert seen[-1] > seen[0]


def test_what_runs_is_reported_while_it_runs(client, session):
    with session._engine.past.watch("closing times 1 to 2"):
        doing = client.get("api/session").json()["doing"]
    assert doing["text"] == "closing times 1 to 2"
    assert 0 <= doing["seconds"] < 60


def test_a_failed_step_is_reported_until_one_succeeds(client, session):
    session.insert("orders", [("x", 1, 1)], diff=2**62)
    session.insert("orders", [("x", 1, 1)], diff=2**62)
    with pytest.raises(an.errors.AltneuError):
        session.advance()
    assert "DiffOverflowError" in client.get("api/session").json()["failed"]["error"]
    session.discard()
    session.advance()
    assert client.get("api/session").json()["failed"] is None


def test_updates_arrive_as_they_happen_and_resume_after_the_last_one(client, session):
    def next_update(lines):
        return next(json.loads(line[5:]) for line in lines if line.startswith("data:"))

    with client.stream("GET", "api/updates", params={"after": 1}) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        lines = stream.iter_lines()
        assert next_update(lines)["steps"] == []
        session.insert("orders", [("tea", 4, 1)])
        session.advance()
        update = next_update(lines)
        assert ([s["number"] for s in update["steps"]], update["session"]["lower"]) == ([2], 2)
    session.advance()
    with client.stream("GET", "api/updates", headers={"last-event-id": "1"}) as stream:
        assert [s["number"] for s in next_update(stream.iter_lines())["steps"]] == [2, 3]


# views that come and go -----------------------------------------------------------------------------------------------


def test_a_view_that_is_added_or_dropped_is_an_update_without_a_step(client, session):
    session.maintain("cheap", session.collections["orders"].filter("price < 4"))
    assert rows(client, "cheap")["selected"] == 2
    session.drop("cheap")
    assert client.get("api/rows", params={"view": "cheap"}).status_code == 404


def test_a_view_with_two_times(tmp_path):
    facts = an.source("facts", "k string, v long", time=("system", "event"))
    with an.Session(path=tmp_path) as session, session.serve() as page, httpx.Client(base_url=page.url) as client:
        session.maintain("sums", facts.group_by("k").agg(total="sum(v)"))
        session.insert("facts", [("a", 1)], time=(0, 5))
        session.insert("facts", [("a", 2)], time=(0, 9))
        session.advance()
        assert rows(client, "sums")["rows"] == [["a", 3]]
        answer = client.get("api/changes", params={"view": "sums"}).json()
        assert answer["times"] == ["system", "event"]
        assert sorted(map(tuple, answer["changes"][0]["times"])) == [(0, 5), (0, 9), (0, 9)]
        assert str(tmp_path) in client.get("api/session").json()["store"]


def test_a_store_that_is_opened_again_is_shown_at_once(tmp_path):
    orders = an.source("orders", "item string, price long")
    with an.Session(path=tmp_path) as session:
        session.maintain("orders", orders)
        session.insert("orders", [("tea", 3)])
        session.advance()
    with an.Session(path=tmp_path) as session:
        session.maintain("orders", orders)
        with session.serve() as page, httpx.Client(base_url=page.url) as client:
            assert rows(client, "orders")["rows"] == [["tea", 3]]
            assert client.get("api/session").json()["steps"] == 0


def test_values_of_every_kind_are_shown():
    kinds = (
        "a boolean, b tinyint, c long, d double, e decimal(20,3), f string, g binary, h date, i timestamp, "
        "j timestamp_ntz, k array<int>, l map<string,int>, m struct<x:int,y:array<string>>"
    )
    with an.Session() as session, session.serve() as page, httpx.Client(base_url=page.url) as client:
        session.sql(f"CREATE TABLE t ({kinds})")
        session.sql(
            "INSERT INTO t VALUES (true, CAST(1 AS TINYINT), 9223372036854775807, double('NaN'), 1.5, 'ü', X'00ff', "
            "DATE '2013-01-31', TIMESTAMP '2013-01-31 10:00:00', TIMESTAMP_NTZ '2013-01-31 10:00:00', array(1, 2), "
            "map('a', 1), named_struct('x', 1, 'y', array('z')))"
        )
        session.sql("INSERT INTO t (a) VALUES (NULL)")
        empty, full = sorted(rows(client, "t")["rows"], key=lambda row: row[0] is not None)
        assert empty == [None] * 13
        assert full[:9] == [
            True,
            1,
            "9223372036854775807",
            "NaN",
            "1.500",
            "ü",
            "0x00ff",
            "2013-01-31",
            "2013-01-31 10:00:00+00:00",
        ]
        assert full[9:] == ["2013-01-31 10:00:00", [1, 2], [["a", 1]], {"x": 1, "y": ["z"]}]
        for text in ("9223372036854775807", "1.5", "2013-01", '"y": ["z"]'):
            assert rows(client, "t", filter=text)["selected"] == 1, text
        assert client.get("api/rows", params={"view": "t", "sort": "k"}).status_code == 400
        for column in "abcdefghij":
            assert rows(client, "t", sort=column)["selected"] == 2


# life -----------------------------------------------------------------------------------------------------------------


def test_a_page_ends_with_its_session_or_before():
    with an.Session() as session:
        first, second = session.serve(), session.serve()
        assert first.url != second.url
        first.close()
        first.close()
        assert (first.closed, second.closed, session._pages) == (True, False, [second])
        with pytest.raises(httpx.ConnectError):
            httpx.get(first.url)
        assert httpx.get(second.url).status_code == 200
    assert second.closed
    with pytest.raises(httpx.ConnectError):
        httpx.get(second.url)


def test_closing_waits_for_no_listener():
    with an.Session() as session:
        page = session.serve()
        with httpx.Client(base_url=page.url) as client, client.stream("GET", "api/updates") as stream:
            lines = stream.iter_lines()
            next(line for line in lines if line)
            before = time.perf_counter()
            page.close()
            assert time.perf_counter() - before < 4


def test_a_port_that_is_taken_is_said():
    with an.Session() as session, session.serve() as page:
        port = int(page.url.rstrip("/").rpartition(":")[2])
        with pytest.raises(SetupError, match="port=0 chooses a free one"):
            session.serve(port=port)
        with pytest.raises(SetupError, match="from 1 to 65535"):
            session.serve(port=70_000)


def test_a_million_rows_open_at_once():
    names = pa.array([f"name {i % 997}" for i in range(1_000_000)])
    table = pa.table({"k": pa.array(range(1_000_000)), "name": names})
    with an.Session() as session, session.serve() as page, httpx.Client(base_url=page.url, timeout=60) as client:
        session.maintain("n", an.source("n", "k long, name string"))
        session.insert("n", table)
        session.advance()
        session.insert("n", [(-1, "last")])
        session.advance()
        before = time.perf_counter()
        rows_shown = rows(client, "n")
        opened = time.perf_counter() - before
        assert (rows_shown["selected"], len(rows_shown["rows"])) == (1_000_001, 50)
        before = time.perf_counter()
        assert rows(client, "n", offset=999_950, limit=100)["offset"] == 999_950
        paged = time.perf_counter() - before
        assert rows(client, "n", sort="k", limit=1)["rows"] == [[-1, "last"]]
        assert rows(client, "n", filter="name 12", sort="k", limit=2)["rows"] == [[12, "name 12"], [120, "name 120"]]
        assert opened < 5
        assert paged < opened
