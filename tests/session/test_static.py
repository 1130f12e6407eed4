"""Closed sources: what is refused, what is stored at n and at 100 n, what EXPLAIN says, and late views."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import HydrationError, InputError, PlanError, StorePlanError, UnknownSourceError

ORDERS = an.source("orders", "id long, nation long, day long")
NATIONS = an.source("nations", "nation long, name string")
NAMED = ORDERS.join(NATIONS, on="nation").select("id", "name")
ROWS = [(1, "Peru"), (2, "Oman"), (3, "Mali")]
KEYS = {"nation": "nation"}


def orders(count, first=0):
    return [(i, i % 5, i % 97) for i in range(first, first + count)]


def stored(session):
    """Updates in all states but the contents and last changes of views."""
    engine = session._engine
    contents = {ports.contents for ports in engine.plan.views.values()}
    return sum(engine.table.rows(name) for name in engine.plan.arrangements if name not in contents)


def opened(path=None, nations=NATIONS, **more):
    session = an.Session(path=path)
    session.maintain("named", ORDERS.join(nations, on="nation").select("id", "name"), **more)
    return session


JOINS = {
    "join": NAMED,
    "other way round": NATIONS.join(ORDERS, on="nation").select("id", "name"),
    "left": ORDERS.join(NATIONS, on="nation", how="left").select("id", "name"),
    "semijoin": ORDERS.semijoin(NATIONS, on="nation"),
    "antijoin": ORDERS.antijoin(NATIONS, on="nation"),
    "as of": ORDERS.asof_join(
        NATIONS.select("nation", "name", since="nation * 10"),
        "nation",
        left_time="day",
        right_time="since",
        mode="revising",
    ),
    "two": ORDERS.join(NATIONS, on="nation").join(NATIONS.select(day="nation", other="name"), on="day"),
}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("name", JOINS)
def test_what_is_joined_with_a_closed_source_is_not_stored(name, shards):
    """At n and 100 n: without closing the state grows with the other side, after closing it does not."""
    state = {}
    for closed in (False, True):
        for count in (50, 5_000):
            with an.Session(shards=shards) as session:
                view = session.maintain("v", JOINS[name])
                session.insert("nations", ROWS)
                session.insert("orders", orders(20))
                session.advance()
                if closed:
                    session.close_source("nations")
                    assert stored(session) < 30  # nothing of what there was
                session.insert("orders", orders(count, 20))
                session.advance()
                state[closed, count] = stored(session)
                shown = sorted(view.to_pylist(), key=str)
            with an.Session() as session:
                view = session.maintain("v", JOINS[name])
                session.insert("nations", ROWS)
                session.insert("orders", orders(count + 20))
                session.advance()
                assert sorted(view.to_pylist(), key=str) == shown
    assert state[False, 5_000] > 20 * state[False, 50]
    assert state[True, 5_000] == state[True, 50] < 30


def test_several_joined_keep_only_closed_relations():
    """A delta join with one relation that changes stores none of it."""
    lines = an.source("lines", "id long, nation long, part long")
    parts = an.source("parts", "part long, label string")
    plan = lines.join(NATIONS, on="nation").join(parts, on="part").select("id", "name", "label")
    for joins in ("delta", "binary"):
        for shards in (1, 2):
            with an.Session(shards=shards) as session:
                view = session.maintain("v", plan, joins=joins)
                session.insert("nations", ROWS)
                session.insert("parts", [(1, "a"), (2, "b")])
                session.insert("lines", [(i, i % 4, i % 3) for i in range(1_000)])
                session.advance()
                before = stored(session)
                for name in ("nations", "parts"):
                    session.close_source(name)
                assert before > 1_000
                assert stored(session) < 20
                session.insert("lines", [(5_000, 1, 2), (5_001, 9, 2)])
                session.advance()
                assert view.changes().to_pylist() == [{"id": 5_000, "name": "Peru", "label": "b", "time": 1, "diff": 1}]


def test_arrangements_that_others_read_stay():
    with opened() as session:
        counts = session.maintain("counts", ORDERS.group_by("nation").agg(days="collect_list(id)"))
        session.insert("nations", ROWS)
        session.insert("orders", orders(10))
        session.advance()
        session.close_source("nations")
        assert stored(session) > 10
        session.retract("orders", orders(5))
        session.advance()
        assert sorted(counts.to_pylist()) == [(i, [5 + i]) for i in range(5)]
        session.drop("counts")
        session.advance()  # releases what nobody reads any more
        assert stored(session) < 10


# closing --------------------------------------------------------------------------------------------------------------


def test_a_closed_source_takes_no_more_rows():
    with opened() as session:
        session.insert("nations", ROWS)
        with pytest.raises(InputError, match=r"rows of it are inserted, and no step has them; advance\(\) first"):
            session.close_source("nations")
        session.advance()
        session.close_source("nations")
        session.close_source("nations")
        for change in (session.insert, session.retract, session.replace):
            with pytest.raises(InputError, match=r"source 'nations' is closed \(close_source\), so its rows never"):
                change("nations", [(4, "Chad")])
        assert not session._engine.has_pending
        with pytest.raises(UnknownSourceError, match="no maintained view reads a source 'nation'"):
            session.close_source("nation")
        session.drop("named")
        session.drop_source("nations")
        session.maintain("named", NAMED)
        session.insert("nations", [(4, "Chad")])
        session.advance()


def test_static_sources_are_closed_by_the_step_that_has_their_rows():
    nations = an.source("nations", "nation long, name string", static=True)
    with opened(nations=nations) as session:
        session.insert("orders", orders(100))
        session.advance()
        session.insert("nations", ROWS[:1])
        session.insert("nations", ROWS[1:])
        session.commit()
        session.insert("nations", [(4, "Chad")])
        session.advance()
        with pytest.raises(InputError, match=r"is closed \(static=True, and a step has had its rows\)"):
            session.insert("nations", ROWS)
        session.insert("orders", orders(1, 101))
        session.advance()
        assert stored(session) < 10
        assert ("Peru" in str(session.view("named").changes().to_pylist())) == (101 % 5 == 1)
    with pytest.raises(PlanError, match="static must be True or False, got 1"):
        an.source("nations", "nation long", static=1)


def test_rows_of_later_times_count_at_their_times():
    """They wait, and as long as they do nothing is released that they are looked up in."""
    with opened() as session:
        session.insert("nations", ROWS)
        session.insert("nations", [(4, "Chad")], time=3)
        session.insert("orders", orders(5))
        session.insert("orders", [(100, 1, 0)], time=6)
        session.advance()
        session.close_source("nations")
        assert stored(session) == 3 + 1 + 5 + 1
        session.advance(to=4)
        assert ("4" in str(session.view("named").changes())) is True
        session.advance(to=5)
        assert stored(session) == 4 + 1  # and the order that waits
        session.advance(to=7)
        assert session.view("named").changes().to_pylist() == [{"id": 100, "name": "Peru", "time": 6, "diff": 1}]
        assert stored(session) == 4


def test_a_view_of_closed_sources_alone_is_static():
    with opened() as session:
        view = session.maintain("names", NATIONS.select("name").distinct())
        session.insert("nations", ROWS)
        session.insert("nations", [(4, "Chad")], time=3)
        session.advance()
        assert not session.is_static("names")
        session.close_source("nations")
        assert not session.is_static("names")
        session.advance(to=4)
        assert session.is_static("names")
        assert not session.is_static("named")
        assert view.to_arrow().num_rows == 4


def test_explain_says_what_is_static():
    with opened() as session:
        session.insert("nations", ROWS)
        session.insert("orders", orders(50))
        session.advance()
        assert "static" not in session.explain("named")
        session.close_source("nations")
        text = session.explain("named")
        assert text.count("static: its sources are closed") == 2  # the source and its arrangement
        assert "state: future updates only, because what it is joined with is static, 0 updates" in text


# stores ---------------------------------------------------------------------------------------------------------------


def test_it_is_in_the_store(tmp_path):
    with opened(tmp_path) as session:
        session.insert("nations", ROWS)
        session.insert("orders", orders(2_000))
        session.insert("orders", [(9_000, 2, 0)], time=4)
        session.advance()
        session.close_source("nations")
    with opened(tmp_path) as session:
        assert stored(session) == len(ROWS) + 1
        with pytest.raises(InputError, match="source 'nations' is closed"):
            session.insert("nations", ROWS)
        session.insert("orders", [(9_001, 3, 0)])
        session.reshard(2)
        session.advance(to=5)
        assert sorted(row["id"] for row in session.view("named").changes().to_pylist()) == [9_000, 9_001]
    with an.Session(path=tmp_path) as session, pytest.raises(StorePlanError, match="also maintains 'named'"):
        session.close_source("nations")
    an.check_store(tmp_path)


def test_a_closing_that_fails_has_not_happened(tmp_path, monkeypatch):
    with opened(tmp_path) as session:
        session.insert("nations", ROWS)
        session.insert("orders", orders(100))
        session.advance()
        commit = type(session.store).commit
        calls = []

        def failing(self, *args, **more):
            calls.append(1)
            if len(calls) == 2:  # the release; the closing itself is committed
                raise an.errors.StoreFullError("full")
            return commit(self, *args, **more)

        monkeypatch.setattr(type(session.store), "commit", failing)
        with pytest.raises(an.errors.StoreFullError):
            session.close_source("nations")
        assert stored(session) > 100
        session.insert("orders", orders(10, 100))
        session.advance()
        assert stored(session) < 10
        assert session.view("named").to_arrow().num_rows == 66
    with opened(tmp_path) as session:
        assert session.view("named").to_arrow().num_rows == 66


@pytest.mark.parametrize("keep", [False, True])
def test_late_views_of_what_was_released(tmp_path, keep):
    """From a kept source they are filled, and what was released is stored again; else they are refused."""
    source = an.source("orders", "id long, nation long, day long", keep=keep)
    people = an.source("people", "nation long, who string")
    named = source.join(NATIONS, on="nation").select("id", "name")
    late = source.join(people, on="nation").select("id", "who")
    with an.Session(path=tmp_path) as session:
        session.maintain("named", named)
        session.insert("nations", ROWS)
        session.insert("orders", orders(10))
        session.insert("orders", [(50, 1, 1)], time=5)
        session.advance()
        session.close_source("nations")
        session.advance()
        again = session.maintain(
            "again", NATIONS.join(people, on="nation").select("name", "who")
        )  # what is closed stays
        if not keep:
            with pytest.raises(HydrationError, match="rows of source 'orders'"):
                session.maintain("late", late)
            return
        view = session.maintain("late", late)
        session.insert("people", [(1, "Ann")])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, "Ann"), (6, "Ann")]
        assert again.to_pylist() == [("Peru", "Ann")]
    with an.Session(path=tmp_path) as session:
        view, other = session.maintain("late", late), session.maintain("named", named)
        session.maintain("again", NATIONS.join(people, on="nation").select("name", "who"))
        session.advance(to=6)
        assert sorted(view.to_pylist()) == [(1, "Ann"), (6, "Ann"), (50, "Ann")]
        assert max(other.to_pylist()) == (50, "Peru")
        session.drop("late")
        session.advance()
        session.insert("orders", [(51, 2, 0)])
        session.advance()
        assert max(other.to_pylist()) == (51, "Oman")


@pytest.mark.parametrize("later", [lambda c: c.delay(by=3), lambda c: c.filter("logical_now() >= nation + 5")])
def test_a_late_view_whose_static_side_is_still_to_come_stores_the_other_side_again(later):
    """Its rows of later times find the rows that were released."""
    kept = an.source("orders", "id long, nation long, day long", keep=True)
    nations = an.source("nations", "nation long, name string", keep=True)
    plan = kept.join(later(nations), on="nation").select("id", "name")
    with an.Session(retain="all") as session, an.Session(retain="all") as other:
        late = other.maintain("late", plan)
        for one in (session, other):
            one.maintain("named", kept.join(nations, on="nation").select("id", "name"))
            one.insert("nations", ROWS)
            one.insert("orders", orders(10))
            one.advance()
        session.close_source("nations")
        view = session.maintain("late", plan)
        for time in range(1, 10):
            for one in (session, other):
                one.insert("orders", orders(5, 100 * time))
                one.advance()
            assert sorted(view.to_pylist()) == sorted(late.to_pylist()), time
        assert len(view.to_pylist()) > 30
        assert session._engine.plan.released  # again, when nothing waits any more


def test_a_released_source_whose_rows_wait_cannot_be_backfilled():
    """Not even if what was released has all columns of the source."""
    one, other = an.source("one", "k long"), an.source("other", "k long")
    with an.Session() as session:
        view = session.maintain("both", one.join(other, on="k"))
        session.insert("one", [1, 2])
        session.insert("one", [3], time=4)
        session.insert("other", [1, 2, 3])
        session.advance()
        session.close_source("other")
        with pytest.raises(InputError, match="cannot be backfilled now: 'arrange by k' of view 'both' holds changes"):
            session.backfill("one", [1, 2])
        session.advance(to=6)
        assert sorted(view.to_pylist()) == [(1,), (2,), (3,)]
        session.backfill("one", [1, 2, 3])
        assert session.maintain("count", one.count()).to_arrow().num_rows == 3
        session.insert("one", [3])
        session.advance()
        assert sorted(view.to_pylist()) == [(1,), (2,), (3,), (3,)]


def test_a_query_reads_what_is_stored():
    with opened() as session:
        session.insert("nations", ROWS)
        session.insert("orders", orders(10))
        session.advance()
        session.close_source("nations")
        assert session.sql("SELECT count(*) FROM named").to_pylist() == [(6,)]
        assert session.peek(NATIONS).num_rows == 3
        with pytest.raises(HydrationError):
            session.peek(ORDERS)
        explanation = session.view("named").explain_row((1, "Peru"))
        assert "source orders, whose rows are not stored" in str(explanation)


def test_in_sql_a_table_or_a_file_is_static(tmp_path):
    (tmp_path / "nations.csv").write_text("1,Peru\n2,Oman\n")
    path = tmp_path / "state"
    for _ in range(2):  # the script is run again
        with an.Session(path=path) as session:
            session.sql(f"""
                CREATE SOURCE nations (nation BIGINT, name STRING) FROM FILE '{tmp_path}/nations.csv' FORMAT CSV STATIC;
                CREATE TABLE regions (region STRING) STATIC;
                CREATE SOURCE orders (id BIGINT, nation BIGINT);
                CREATE MATERIALIZED VIEW named AS SELECT id, name FROM orders o JOIN nations n ON o.nation = n.nation;
            """)
            first = session.lower
            session.insert("orders", [(first * 100 + i, i % 4) for i in range(50)])
            session.advance()
            session.insert("orders", [(first * 100 + 99, 1)])
            session.advance()
            assert session.view("named").changes().to_pylist()[0]["name"] == "Peru"
            orders = [o for o in session.explained("named").operators if "future updates only" in o.state]
            assert [o.updates for o in orders] == [0]
            with pytest.raises(InputError, match="source 'nations' is closed"):
                session.insert("nations", ROWS)
            if first == 0:
                session.sql("BEGIN; INSERT INTO regions VALUES ('a'); INSERT INTO regions VALUES ('b'); COMMIT")
            for text in ("INSERT INTO regions VALUES ('c')", "DELETE FROM regions", "TRUNCATE TABLE regions"):
                with pytest.raises(InputError, match="source 'regions' is closed"):
                    session.sql(text)
            assert session.sql("SELECT count(*) FROM regions").to_pylist() == [(2,)]
    with an.Session(path=path) as session:
        session.sql("DROP TABLE regions; CREATE TABLE regions (region STRING); INSERT INTO regions VALUES ('d')")
        session.sql("INSERT INTO regions VALUES ('e')")


def test_streams_are_not_closed(spark, tmp_path):
    static = an.source("codes", "k long", static=True)
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("1\n")
    stream = spark.readStream.schema("k long").csv(str(tmp_path / "in"))
    with an.Session(spark) as session:
        session.maintain("codes", static)
        with pytest.raises(InputError, match="source 'codes' is static, so its first step closes it"):
            session.follow(codes=stream)
        session.maintain("n", an.source("n", "k long"))
        with session.follow(n=stream, checkpoint=tmp_path / "checkpoint", available_now=True) as following:
            following.wait()
        with pytest.raises(InputError, match=r"it is fed by a stream; session\.unfollow\('n'\) ends that"):
            session.close_source("n")
        session.unfollow("n")
        session.close_source("n")
        assert session.is_static("n")
        with pytest.raises(InputError, match="source 'n' is closed"):
            session.follow(n=stream)


def test_a_stored_source_is_still_static_when_the_store_is_opened_again(tmp_path):
    """Also where no view reads it, and none of its rows has come."""
    kept = an.source("kept", "k long", keep=True, static=True)
    with an.Session(path=tmp_path) as session:
        session.maintain("v", kept.filter("k > 1"))
        session.drop("v")
    with an.Session(path=tmp_path) as session:
        session.insert("kept", [(1,), (2,)])
        session.advance()
        with pytest.raises(InputError, match="source 'kept' is closed"):
            session.insert("kept", [(3,)])
        assert session.maintain("v", kept.filter("k > 1")).to_pylist() == [(2,)]
        assert session.is_static("v")
