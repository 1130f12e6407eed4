"""Sources that are sets or have a key, as a session's user meets them."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import (
    BeforeFrontierError,
    HydrationError,
    InputError,
    PlanError,
    SchemaError,
    StreamError,
    UnknownColumnError,
    ViewHasErrorsError,
)
from altneu.operators.source import keyed

USERS = an.source("users", "id long, name string", key="id")
PAIRS = an.source("pairs", "a long, b long", distinct=True)
PLAIN = an.source("plain", "id long, name string")


def rows(view):
    return sorted(view.to_pylist())


def test_a_set_has_a_row_once_however_often_it_is_inserted():
    with an.Session() as session:
        view = session.maintain("pairs", PAIRS)
        session.insert("pairs", [(1, 2), (1, 2), (3, 4)], diff=5)
        session.insert("pairs", [(1, 2)])
        session.advance()
        assert rows(view) == [(1, 2), (3, 4)]
        session.retract("pairs", [(1, 2), (7, 7)])
        session.retract("pairs", [(7, 7)])
        session.advance()
        assert rows(view) == [(3, 4)]
        session.insert("pairs", [(7, 7)])  # nothing is owed
        session.advance()
        assert rows(view) == [(3, 4), (7, 7)]


def test_commands_of_one_step_are_obeyed_in_the_order_in_which_they_were_given():
    with an.Session(shards=2) as session:
        view = session.maintain("users", USERS)
        session.insert_or_update("users", [(1, "a"), (1, "b")])
        session.delete_key("users", [1])
        session.insert_or_update("users", [(1, "c"), (2, "d")])
        session.insert_or_update("users", pa.table({"name": ["e", "f"], "id": [2, 2]}))
        session.insert_or_update("users", [(3, "then")], time=2)
        session.delete_key("users", [{"id": 3}], time=1)
        step = session.advance(to=3)
        assert step.changes_in == 9
        assert rows(view) == [(1, "c"), (2, "f"), (3, "then")]
        assert len(view.changes().to_pylist()) == 3  # what came and went at one time never was


def test_two_rows_of_a_key_are_errors_until_there_is_one():
    with an.Session() as session:
        view = session.maintain("users", USERS)
        other = session.maintain("names", USERS.select("name"))
        session.insert("users", [(1, "Ada"), (2, "Bob"), (1, "Ada")])
        session.advance()
        assert rows(view) == [(1, "Ada"), (2, "Bob")]
        session.insert("users", [(1, "Eve")])
        session.advance()
        with pytest.raises(ViewHasErrorsError, match="the key id=1 has several rows"):
            view.to_pylist()
        errors = view.errors().to_pylist()
        assert {(e["code"], e["row"]) for e in errors} == {
            ("DUPLICATE_KEY", '{"id": 1, "name": "Ada"}'),
            ("DUPLICATE_KEY", '{"id": 1, "name": "Eve"}'),
        }
        assert other.errors().num_rows == 2
        session.retract("users", [(1, "Ada")])
        session.advance()
        assert rows(view) == [(1, "Eve"), (2, "Bob")]
        session.insert("users", [(1, "Ada"), (1, "Kim")])
        session.advance()
        session.insert_or_update("users", [(1, "Lou")])
        session.advance()
        assert rows(view) == [(1, "Lou"), (2, "Bob")]


@pytest.mark.parametrize("count", [100, 10_000])
def test_a_command_looks_up_its_key_and_keeps_nothing_but_the_row(count, monkeypatch):
    """Counted: as many rows are read of a hundred times the rows, and what is kept is one row a key."""
    read = []
    find = keyed.find_in

    def counted(*given):
        result = find(*given)
        read.append(len(result))
        return result

    with an.Session() as session:
        session.maintain("users", USERS)
        session.maintain("named", USERS.group_by("id").agg(n="count(*)", name="max(name)").filter("n > 0"))
        session.insert_or_update("users", [(i, "x") for i in range(count)])
        session.advance()
        monkeypatch.setattr(keyed, "find_in", counted)
        session.insert_or_update("users", [(5, "y"), (6, "y"), (count, "new")])
        session.delete_key("users", [7, 7, -1])
        session.advance()
        assert read == [3]
        for i in range(200):  # keys that come and go, and one that changes
            session.insert_or_update("users", [(-i, "gone"), (5, f"{i}")], time=session.lower + i)
            session.delete_key("users", [-i], time=session.lower + i + 1)
        session.advance(to=session.lower + 201)
        for i in range(20):
            session.insert_or_update("users", [(5, f"{i}"), (-i, "gone")])
            session.delete_key("users", [-i])
            session.advance()
        kept = {o.label: o.updates for o in session.explained("users").operators if o.state}
        assert kept["commands to users"] == 0
        assert count <= kept["keep users by id"] < count + 64  # a few small batches are left to be merged


def test_explain_says_what_is_kept_and_that_it_is_shared():
    with an.Session() as session:
        session.maintain("users", USERS)
        session.maintain("joined", USERS.join(USERS.select("id", other="name"), on="id"))
        session.maintain("pairs", PAIRS)
        text = session.explain("users")
        assert "state: arrangement (id, name), the present row of each key, 0 updates, shared with joined" in text
        assert "state: future commands only, and none that were carried out" in text
        assert "state: arrangement (a, b), each present row once" in session.explain("pairs")
        plan = session.explained("joined")
        assert [o.label for o in plan.operators if o.state].count("keep users by id") == 1


def test_what_a_source_has_no_key_for_is_refused_by_name():
    with an.Session() as session:
        for source in (PAIRS, PLAIN, USERS):
            session.maintain(source.node.name, source)
        with pytest.raises(InputError, match=r"source 'plain' has no key, which insert_or_update needs.*key="):
            session.insert_or_update("plain", [(1, "a")])
        with pytest.raises(InputError, match="source 'pairs' is a set without a key, which delete_key needs"):
            session.delete_key("pairs", [(1, 2)])
        with pytest.raises(SchemaError, match="row 0 for source 'users' has 2 values for the 1 columns id"):
            session.delete_key("users", [(1, "a")])
        with pytest.raises(SchemaError, match="lacks column 'id'"):
            session.delete_key("users", pa.table({"name": ["a"]}))
        session.advance()
        with pytest.raises(BeforeFrontierError, match="time 0 is closed"):
            session.insert_or_update("users", [(1, "a")], time=0)
        assert not session._engine.has_pending


def test_wrong_keys_are_refused_where_they_are_declared():
    with pytest.raises(UnknownColumnError, match="the key of source 'users'"):
        an.source("users", "id long", key="ident")
    with pytest.raises(PlanError, match=r"key=\(\) of source 'users' must name one column or several, each once"):
        an.source("users", "id long", key=())
    with pytest.raises(PlanError, match="each once"):
        an.source("users", "id long", key=["id", "id"])
    with pytest.raises(PlanError, match="source 'users' has two times, system and event, and key= is for"):
        an.source("users", "id long", key="id", time=("system", "event"))
    with pytest.raises(PlanError, match="distinct= is for sources with one"):
        an.source("users", "id long", distinct=True, time=("system", "event"))
    with pytest.raises(PlanError, match="distinct must be True or False, got 1"):
        an.source("users", "id long", distinct=1)
    with an.Session() as session:
        session.maintain("users", USERS)
        with pytest.raises(PlanError, match="declared twice, with different columns, times, key="):
            session.maintain("others", an.source("users", "id long, name string", key="name"))


def test_a_source_without_a_key_is_what_it_was():
    assert PLAIN.node.describe() == "plain"
    assert an.source("users", "id long", key="id").node.fingerprint != an.source("users", "id long").node.fingerprint


def test_kept_rows_stay_while_no_view_reads_them(tmp_path):
    kept = an.source("users", "id long, name string", key="id", keep=True)
    with an.Session(path=tmp_path / "s") as session:
        session.maintain("users", kept.filter("name > 'a'"))
        session.insert_or_update("users", [(1, "a"), (2, "b")])
        session.insert_or_update("users", [(1, "c")], time=3)
        session.advance()
        session.drop("users")
        session.insert_or_update("users", [(2, "d"), (4, "e")])
        session.advance()
    with an.Session(path=tmp_path / "s") as session:
        session.delete_key("users", [4])
        session.advance(to=5)
        session.reshard(2)
        view = session.maintain("all", kept)
        assert rows(view) == [(1, "c"), (2, "d")]
        session.drop("all")
        with pytest.raises(PlanError, match=r"an.source\('users', .*, keep=True, key=\['id'\]\)"):
            session.maintain("all", an.source("users", "id long, name string", keep=True))
        session.drop_source("users")
        assert session.sources == []
        assert not {**session._engine.table.live, **session._engine.table.stored}


def test_without_keep_rows_go_with_the_last_view():
    with an.Session() as session:
        session.maintain("users", USERS)
        session.insert("users", [(1, "a")])
        session.advance()
        late = session.maintain("late", USERS.group_by("name").agg(n="count(*)"))
        session.drop("users")
        again = session.maintain("users", USERS)
        assert (rows(late), rows(again)) == ([("a", 1)], [(1, "a")])
        session.drop("late")
        session.drop("users")
        with pytest.raises(HydrationError, match=r"^maintain view 'users' in a new session"):
            session.maintain("users", USERS)
        with pytest.raises(
            InputError, match=r"source 'users' has a key: .* session.drop_source\('users'\), declare it again"
        ):
            session.backfill(USERS, [(1, "a")])
        session.drop_source("users")
        assert session.maintain("users", USERS).to_pylist() == []


def test_a_row_is_explained_by_the_rows_that_are_there():
    with an.Session() as session:
        view = session.maintain("doubled", USERS.join(PLAIN, on="id"))
        session.insert_or_update("users", [(1, "a")])
        session.insert("plain", [(1, "p")])
        session.advance()
        session.insert_or_update("users", [(1, "b")])
        session.advance()
        why = view.explain_row(view.to_pylist()[0])
        assert why.sufficient
        assert {found.source: found.updates.rows.to_pylist() for found in why.inputs}["users"] == [(1, "b")]


def test_not_null_columns_need_no_value_where_a_key_is_deleted():
    strict = an.source("users", "id long not null, name string not null", key="id")
    with an.Session() as session:
        view = session.maintain("users", strict)
        session.insert_or_update("users", [(1, "a"), (2, "b")])
        session.delete_key("users", [1])
        with pytest.raises(SchemaError, match="column 'name' of source 'users' is NOT NULL"):
            session.insert_or_update("users", [(3, None)])
        session.advance()
        assert rows(view) == [(2, "b")]


@pytest.mark.spark
@pytest.mark.parametrize("placement", ["auto", "spark"])
def test_rows_of_a_dataframe_are_obeyed_in_its_order(placement, spark, tmp_path):
    """Whoever reads it: the driver, or tasks, which read partitions all at once."""
    count, keys = 5000, 40
    frame = spark.range(0, count, 1, 4).selectExpr(f"id % {keys} as id", "concat('n', id) as name")
    last = {(k, f"n{count - keys + k}") for k in range(keys)}
    with an.Session(spark, tmp_path / "state", placement=placement, shards=3) as session:
        view = session.maintain("users", USERS)
        session.insert_or_update("users", [(k, "before") for k in range(keys)])
        session.insert_or_update("users", frame)
        session.advance()
        assert set(view.to_pylist()) == last
        session.insert_or_update("users", frame.limit(30))
        session.delete_key("users", frame.selectExpr("id").where("id < 10"))
        session.insert_or_update("users", [(0, "after")])
        session.advance()
        assert Counter(k for k, _ in view.to_pylist()) == Counter([0, *range(10, keys)])
        assert (0, "after") in view.to_pylist()
        session.insert("users", frame.selectExpr("id", "name").where("name = 'n4990'"))  # 4990 % 40 is 30
        session.advance()
        assert view.errors().num_rows == 0


@pytest.mark.spark
@pytest.mark.parametrize("max_rows", [None, 7])
def test_a_stream_of_commands(max_rows, spark, tmp_path):
    """Each micro-batch in order, cut into pieces or not; what is deleted needs no more than its key."""
    rng, there = random.Random(2), {}
    with an.Session(spark, tmp_path / "state") as session:
        view = session.maintain("users", USERS)
        folder = tmp_path / "in"
        for batch in range(2):
            lines = []
            for n in range(40):
                key, op = rng.randrange(6), rng.choice(["insert_or_update", "insert_or_update", "delete_key"])
                lines.append(f"{key},{'' if op == 'delete_key' else f'v{batch}.{n}'},{op}")
                if op == "delete_key":
                    there.pop(key, None)
                else:
                    there[key] = f"v{batch}.{n}"
            folder.mkdir(exist_ok=True)
            (folder / f"{batch}.csv").write_text("\n".join(lines))
            stream = spark.readStream.schema("id long, name string, op string").csv(str(folder))
            session.follow(users=stream, command="op", max_rows=max_rows, available_now=True).wait()
            assert dict(view.to_pylist()) == there


@pytest.mark.spark
def test_commands_of_streams_that_are_none_are_refused(spark, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "0.csv").write_text("1,a,upsert\n")
    with an.Session() as session:
        view = session.maintain("users", USERS)
        session.maintain("plain", PLAIN)
        stream = spark.readStream.schema("id long, name string, op string").csv(str(tmp_path / "in"))
        with pytest.raises(InputError, match="source 'plain' has no key, which insert_or_update needs"):
            session.follow(plain=stream, command="insert_or_update", available_now=True)
        with pytest.raises(InputError, match="leave diff= out"):
            session.follow(users=stream, command="op", diff=2, available_now=True)
        with pytest.raises(SchemaError, match="command='nowhere' is neither a column"):
            session.follow(users=stream, command="nowhere", available_now=True)
        with pytest.raises(SchemaError, match=r"command='id' .* must be a string"):
            session.follow(users=stream, command="id", available_now=True)
        with pytest.raises(StreamError, match=r"row 0 for source 'users': the command must be one of .*, got 'upsert'"):
            session.follow(users=stream, command="op", available_now=True).wait()
        session.follow(
            users=stream, command="delete_key", available_now=True, checkpoint=tmp_path / "again", extra="ignore"
        ).wait()
        assert view.to_pylist() == []


def test_a_key_beside_distinct_is_refused():
    with pytest.raises(PlanError, match=r"source 'users' has a key.*leave out distinct=True, or leave out key="):
        an.source("users", "k long, v long", key="k", distinct=True)
