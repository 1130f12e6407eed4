"""What EXPLAIN ANALYZE says was measured is what happened: against counts that are known, wherever a step ran."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu.errors import StepFailedError
from altneu.explain import Explained, Measured, Operator
from tests.explain.picture_cases import EDGES, TRIANGLES, reach
from tests.golden.explain_cases import PLANS

ORDERS = an.source("orders", "item string, price long")
PRICES = an.source("prices", "item string, unit long")
TOTAL = ORDERS.filter("price > 0").group_by("item").agg(total="sum(price)")
ROWS = [("tea", 3), ("tea", 4), ("jam", 5), ("free", 0)]


def one(found: Explained, kind: str, label: str = "") -> Operator:
    """The one operator of a kind, of several the one whose label begins so."""
    (operator,) = [o for o in found.operators if o.kind == kind and o.label.startswith(label)]
    return operator


def rows(measured: Measured | None) -> tuple[int, int]:
    assert measured is not None
    return measured.rows_in, measured.rows_out


def counts(found: Explained) -> dict[str, tuple[int, int, int, int, int]]:
    """Everything that does not depend on the clock, by operator."""
    return {
        o.id: (o.total.rows_in, o.total.rows_out, o.total.errors, o.total.steps, o.total.rounds)
        for o in found.operators
        if o.total is not None
    }


def test_rows_in_and_out_are_counted():
    with an.Session() as session:
        session.maintain("total", TOTAL)
        session.insert("orders", ROWS)
        session.advance()
        session.retract("orders", [("tea", 3)])
        session.advance()
        explained = session.explained("total")
        source, linear, combine = (one(explained, kind) for kind in ("source", "linear", "combine"))
        assert (rows(source.total), rows(source.last)) == ((5, 5), (1, 1))
        assert (rows(linear.total), rows(linear.last)) == ((5, 4), (1, 1))
        assert rows(combine.total)[0] == 4
        reduce = one(explained, "reduce")
        assert (rows(reduce.total)[1], rows(reduce.last)[1]) == (4, 2)  # jam, and tea three times
        contents = one(explained, "arrangement", "contents")
        assert (contents.total.steps, contents.total.rounds, contents.last.steps) == (2, 2, 1)
        assert contents.updates == session._engine.table.rows(contents.arrangement)
        assert contents.bytes > 0
        assert all(o.total.seconds > 0 for o in explained.operators)
        assert explained.run == "2 steps since the session was opened"


def test_errors_are_counted_by_themselves():
    with an.Session() as session:
        session.maintain("each", ORDERS.select(each="6 div price"))
        session.insert("orders", ROWS)
        session.advance()
        linear = one(session.explained("each"), "linear")
        assert (rows(linear.total), linear.total.errors) == ((4, 3), 1)
        assert "4 rows in, 3 out, 1 error, " in session.explain("each", analyze=True)
        assert "error," not in session.explain("each")


def test_a_quiet_step_leaves_the_last_figures_empty():
    with an.Session() as session:
        session.maintain("total", TOTAL)
        session.insert("orders", ROWS)
        session.advance()
        before = counts(session.explained("total"))
        session.advance()
        explained = session.explained("total")
        assert counts(explained) == before
        assert {o.last for o in explained.operators} == {Measured()}
        assert "nothing" not in session.explain("total", analyze=True)


def test_rounds_of_a_loop_are_added_up():
    with an.Session() as session:
        session.maintain("reach", reach(EDGES))
        session.insert("edges", [(i, i + 1) for i in range(5)])
        session.advance()
        explained = session.explained("reach")
        assert rows(one(explained, "leave").total) == (15, 15)
        feed, back = one(explained, "next round"), one(explained, "variable")
        assert (
            rows(feed.total)[1] == rows(back.total)[1] == 10
        )  # each pair that was not there in round 0 goes round once
        assert (back.total.steps, back.total.rounds) == (1, 4)
        assert (one(explained, "reduce").total.rounds, one(explained, "join").total.rounds) == (4, 5)
        assert one(explained, "source").total.rounds == 1
        assert "in 1 step of 5 rounds" in session.explain("reach", analyze=True)


@pytest.mark.parametrize("shards", [1, 3])
def test_a_delta_join_is_measured_as_one_operator(shards):
    with an.Session(shards=shards) as session:
        session.maintain("triangles", TRIANGLES)
        session.insert("edges", [(1, 2), (2, 3), (3, 1), (3, 4)])
        session.advance()
        actual = one(session.explained("triangles"), "delta join")
        assert rows(actual.total) == (12, 3)  # each edge is new to each of the three relations
        assert actual.total.steps == 1


def test_a_view_more_or_less_loses_no_figures():
    with an.Session() as session:
        session.maintain("joined", PLANS["join"])
        session.insert("flights", [("UA", "JFK", 70), ("AA", "JFK", 0)])
        session.insert("carriers", [("UA", "United")])
        session.advance()
        before = session.explained("joined")
        session.maintain("left", PLANS["left join"])
        after = session.explained("joined")
        assert counts(after) == counts(before)
        session.insert("flights", [("UA", "EWR", 1)])
        session.advance()
        assert rows(one(session.explained("joined"), "source", "source flights").total) == (3, 3)
        grown = counts(session.explained("joined"))
        session.drop("left")
        assert counts(session.explained("joined")) == grown
        assert [o.id for o in session.explained("joined").operators] == [o.id for o in before.operators]


def test_filling_a_late_view_is_measured_and_reading_for_it_is_not():
    with an.Session() as session:
        session.maintain("all", ORDERS)
        session.insert("orders", ROWS)
        session.advance()
        kept = one(session.explained("all"), "arrangement")
        session.maintain("worst", ORDERS.group_by("item").agg(worst="max(price)"))
        explained = session.explained("worst")
        assert rows(one(explained, "reduce").total) == (4, 3)
        assert rows(one(explained, "reduce").last) == (0, 0)
        assert rows(one(explained, "source").total) == (4, 4)
        assert one(session.explained("all"), "arrangement").total == kept.total
        assert explained.run == "2 steps since the session was opened"


def test_a_step_that_failed_did_nothing(monkeypatch):
    with an.Session() as session:
        session.maintain("total", TOTAL)
        session.insert("orders", ROWS)
        session.advance()
        before = counts(session.explained("total"))
        session.insert("orders", ROWS)
        with monkeypatch.context() as patch:

            def full(*_args, **_options):
                raise OSError("no room")

            patch.setattr(session._engine.journal, "commit_step", full)
            with pytest.raises(StepFailedError):
                session.advance()
        assert counts(session.explained("total")) == before
        session.advance()
        assert rows(one(session.explained("total"), "source").total) == (8, 8)


def test_parts_of_a_stage_add_up():
    actual = []
    for memory in (None, 100_000):
        with an.Session(memory=memory) as session:
            session.maintain("pairs", EDGES.join(EDGES, on={"dst": "src"}).select("src", dst="right.dst").distinct())
            session.insert("edges", [(i, i * 7 % 1000) for i in range(3000)])
            session.advance()
            session.retract("edges", [(i, i * 7 % 1000) for i in range(0, 3000, 3)])
            session.advance()
            plan = session.explained("pairs")
            actual.append({o.label: rows(o.total) for o in plan.operators if o.kind != "combine"})
            linked = [rows(o.total) for o in plan.operators if o.label.startswith("join on")]
    assert linked
    assert (
        actual[0]["join on dst, then select src, `right.dst` as dst"]
        == actual[1]["join on dst, then select src, `right.dst` as dst"]
    )
    assert actual[0]["arrange by dst"] == actual[1]["arrange by dst"] == (4000, 4000)
    assert actual[0]["reduce distinct [accumulable]"][1] == actual[1]["reduce distinct [accumulable]"][1]


def test_what_a_store_keeps_has_a_size_before_it_is_opened(tmp_path):
    def opened():
        session = an.Session(path=tmp_path / "state")
        session.maintain("all", EDGES)
        return session

    with opened() as session:
        session.insert("edges", [(i, i) for i in range(5000)])
        session.insert("edges", [(1, 2)], time=7)
        session.advance()
    with opened() as session:
        kept = one(session.explained("all"), "arrangement")
        assert (kept.updates, kept.total) == (5001, Measured())
        assert 5001 * 12 <= kept.bytes <= 5001 * 20  # a hash of eight bytes, and two numbers of two
        assert session.explained("all").run == "0 steps since the session was opened"
        assert "measured: nothing" in session.explain("all", analyze=True)


def test_analyze_runs_a_query_once_and_keeps_nothing_of_it():
    with an.Session() as session:
        session.sql("CREATE TABLE orders (item STRING, price BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item")
        session.sql("INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4)")
        before, kept = counts(session.explained()), session._engine.table.layouts
        session.insert("orders", [("jam", 1)])
        lines = [row.plan for row in session.sql("EXPLAIN ANALYZE SELECT max(price) AS most FROM orders")]
        answer = next(line for line in lines if "reduce max" in line)
        assert "measured: 4 rows in, " in answer
        assert any(line.startswith("  measured: once, in ") for line in lines)
        assert lines[-1] == "arrangements: 0 there already, 4 to build"
        assert session._engine.table.layouts == kept
        session.retract("orders", [("jam", 1)])
        session.advance()
        after = counts(session.explained())
        assert after.keys() == before.keys()
        assert one(session.explained("total"), "source").total.rows_in == 5
        plain = [row.plan for row in session.sql("EXPLAIN SELECT max(price) AS most FROM orders")]
        assert not any("measured" in line for line in plain)


VIEWS = {
    **{name: PLANS[name] for name in ("left join", "hierarchical")},
    "failing": PLANS["linear"].select(x="10 div (hours - 1)"),
    "triangles": TRIANGLES,
    "reach": reach(EDGES),
}


def drive(session: an.Session) -> list[dict[str, tuple[int, ...]]]:
    """Rows into a session, and some out again; what was counted after each step."""
    rng, actual = random.Random(5), []
    for name, view in VIEWS.items():
        session.maintain(name, view)
    flights = [(f"C{rng.randrange(5)}", "JFK", rng.randrange(-60, 400)) for _ in range(40)]
    session.insert("flights", flights)
    session.insert("carriers", [("C1", "one"), ("C2", "two")])
    session.insert("edges", [(1, 2), (2, 3), (3, 1)])
    session.advance()
    actual.append(counts(session.explained()))
    session.retract("flights", flights[:20])
    session.retract("edges", [(3, 1)])
    session.advance()
    return [*actual, counts(session.explained())]


def test_spark_counts_what_this_process_counts(spark):
    with an.Session(shards=2) as local, an.Session(spark, shards=2, placement="spark") as remote:
        assert drive(local) == drive(remote)
        assert all(o.total.seconds > 0 for o in remote.explained().operators if o.total.steps)


def test_rows_of_a_data_frame_are_counted_where_they_are_read(spark):
    """Also where Spark itself adds up the rows of a source."""

    def drive(session, frame):
        session.maintain("sums", ORDERS.group_by("item").agg(total="sum(price)"))
        session.maintain("kept", PRICES.filter("unit % 2 = 0"))  # which Spark is not asked
        session.insert("orders", frame(ROWS, "item string, price long"))
        session.insert("prices", frame([("tea", 1), ("jam", 2)], "item string, unit long"))
        session.advance()
        return [rows(o.total) for name in ("sums", "kept") for o in session.explained(name).operators]

    with an.Session(shards=2) as local, an.Session(spark, shards=2, placement="spark") as remote:
        expected = drive(local, lambda rows, _: rows)
        assert expected[:3] == [(4, 4), (4, 4), (4, 5)]  # nothing is added for what is free
        assert drive(remote, lambda rows, schema: spark.createDataFrame(rows, schema).coalesce(1)) == expected
