"""``altneu subscribe``: changes as another session commits them."""

from __future__ import annotations

import threading

import pytest

import altneu as an
from altneu.cli.offline import Maintained
from altneu.cli.opening import open_reader


def test_what_is_there(call, store_path):
    done = call("subscribe", "--path", store_path, "--once", "--progress", "Totals")
    assert done.lines[0] == "time  diff  item  total"
    assert sorted(done.lines[1:-1]) == ["2  +1  jam  5", "2  +1  milk  NULL", "2  +1  tea  7"]
    assert (done.lines[-1], done.code, done.err) == ("2  complete", 0, "")


def test_what_has_changed_as_json(call, store_path):
    done = call(
        "subscribe", "--path", store_path, "--once", "--since", 1, "--no-snapshot", "--progress", "--json", "totals"
    )
    assert done.objects == [{"time": 2, "diff": 1, "row": {"item": "milk", "total": None}}, {"complete": 2}]
    until = call(
        "subscribe", "--path", store_path, "--since", 0, "--until", 2, "--json", "orders"
    )  # which ends by itself
    assert {o["time"] for o in until.objects} == {0}


def test_a_view_with_two_times(call, store_path):
    done = call("subscribe", "--path", store_path, "--once", "--since", 1, "--no-snapshot", "--json", "delays")
    assert {"time": [2, 1], "diff": -1, "row": {"tail": "N2", "delay": 5.5}} in done.objects
    heading = call("subscribe", "--path", store_path, "--once", "delays").lines[0]
    assert heading == "known  day  diff  tail  delay"


def test_a_query_is_kept_right(call, store_path):
    most = "SELECT max(total) AS most, count(*) AS n FROM totals"
    done = call("subscribe", "--path", store_path, "--once", "--since", 0, "--json", most)
    assert done.objects == [
        {"time": 0, "diff": 1, "row": {"most": 7, "n": 2}},
        {"time": 2, "diff": -1, "row": {"most": 7, "n": 2}},
        {"time": 2, "diff": 1, "row": {"most": 7, "n": 3}},
    ]
    named = call("subscribe", "--path", store_path, "--once", "--json", "dear")
    assert named.objects == [{"time": 2, "diff": 1, "row": {"what": "tea", "cost": 7}}]
    constant = call("subscribe", "--path", store_path, "--once", "--json", "VALUES (1)")
    assert constant.objects == [{"time": 2, "diff": 1, "row": {"col1": 1}}]


def test_a_query_beside_the_writer_says_what_one_in_it_does(orders):
    query = (
        "SELECT count(*) AS n, sum(total) AS s FROM totals t WHERE EXISTS (SELECT 1 FROM orders WHERE item = t.item)"
    )
    with an.Session(path=orders) as session, open_reader(str(orders)) as reader:
        kept = Maintained(reader, query, None)
        kept.take()
        for statement in (
            "INSERT INTO orders VALUES ('oil', 1), ('oil', 2)",
            "DELETE FROM orders WHERE item = 'tea'",
            "BEGIN; DELETE FROM orders WHERE item = 'oil'; INSERT INTO orders VALUES ('tea', 9); COMMIT",
            "DELETE FROM orders",
        ):
            session.sql(statement)
            assert reader.refresh()
            kept.take()
            assert kept.view.to_pylist() == session.sql(query).to_pylist()
        kept.close()


def test_it_follows_another_session(call, orders):
    """The session writes when the subscription's lease is there; it ends at a time, so that nothing is waited for."""
    with an.Session(path=orders) as session:
        done = []

        def write():
            while not list((orders / "readers").iterdir()):
                pass
            for n in range(4):
                session.sql(f"INSERT INTO orders VALUES ('oil', {n})")

        writer = threading.Thread(target=write)
        writer.start()
        done = call(
            "subscribe", "--path", orders, "--until", 5, "--json", "--every", 0.01, "SELECT sum(total) AS s FROM totals"
        )
        writer.join()
    assert done.code == 0
    state = {}
    for told in done.objects:
        state[told["row"]["s"]] = state.get(told["row"]["s"], 0) + told["diff"]
    assert {row: n for row, n in state.items() if n} == {18: 1}
    assert [told["time"] for told in done.objects] == sorted(told["time"] for told in done.objects)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["total"], 1, "PlanError: no view 'total'; did you mean 'totals'?"),
        (["xyz"], 1, "no view 'xyz'; there are: orders, totals, delays, dear"),
        (["SELECT x FROM totals"], 1, "no column 'x'"),
        (["SELECT * FROM delays"], 1, "view 'delays' has two times"),
        (["SELECT 1 AS OF 0"], 1, "--since says where changes begin"),
        (["--since", "9", "SELECT * FROM totals"], 1, "NotYetKnownError"),
        (["--since", "2", "--until", "1", "totals"], 1, "up_to=1 is before as_of=2"),
        (["--since", "x", "totals"], 2, "'x' is not a valid integer"),
        ([], 2, "Missing argument"),
    ],
)
def test_what_fails(call, store_path, arguments, code, told):
    done = call("subscribe", "--path", store_path, "--once", *arguments)
    assert (done.code, done.out.count("complete")) == (code, 0)
    assert told in done.err


def test_history_that_is_gone(call, orders):
    with an.Session(path=orders) as session:
        session.sql("INSERT INTO orders VALUES ('oil', 1)")
        session.sql("INSERT INTO orders VALUES ('oil', 1)")
    for what in ("totals", "SELECT * FROM totals"):
        done = call("subscribe", "--path", orders, "--since", 0, "--once", "--json", what)
        assert (done.code, done.objects[-1]["error"]) == (1, "HistoryGoneError")
