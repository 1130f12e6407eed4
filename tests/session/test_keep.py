"""Sources whose rows are kept: from the first view on until they are dropped, whatever becomes of the views."""

from __future__ import annotations

import pytest

import altneu as an
from altneu.errors import HydrationError, InputError, PlanError, StorePlanError, UnknownSourceError
from altneu.store import DirectoryStore

A = an.source("a", "k long, v long", keep=True)
B = an.source("b", "x long", keep=True)
TOTAL = A.group_by("k").agg(n="sum(v)")


@pytest.fixture(params=["memory", "durable", "reopened"])
def life(request, tmp_path):
    """How a session goes on: as it is, or opened again."""
    return Life(None if request.param == "memory" else tmp_path / "state", request.param == "reopened")


class Life:
    def __init__(self, path, again):
        self.path, self.again = path, again
        self.session = self.opened()

    def opened(self, **options):
        return an.Session(path=self.path, **({"shards": 2} | options))

    def goes_on(self, **options):
        if self.again:
            self.session.close()
            self.session = self.opened(**options)
        return self.session


def dropped(session):
    """Rows of now and of time 5, and the only view dropped."""
    session.maintain("total", TOTAL)
    session.insert("a", [(1, 1), (2, 2)])
    session.insert("a", [(1, 10)], time=5)
    session.advance()
    session.drop("total")


def total(session):
    return sorted(session.maintain("total", TOTAL).to_pylist())


def test_a_view_to_come_has_all_rows_also_those_inserted_while_there_was_none(life):
    dropped(life.session)
    session = life.goes_on()
    assert (session.views, session.sources) == ([], ["a"])
    session.insert("a", [(3, 3)])
    session.retract("a", [(2, 2)])
    session.advance()
    session = life.goes_on()
    assert total(session) == [(1, 1), (3, 3)]
    session.close()


def test_times_pass_at_which_future_rows_fall_due(life):
    dropped(life.session)
    session = life.goes_on()
    for to in (2, 10):
        session.advance(to=to)
    assert total(session) == [(1, 11), (2, 2)]
    session.retract("a", [(1, 10)])
    session.advance()
    assert total(session) == [(1, 1), (2, 2)]
    session.close()


def test_it_is_parted_with_the_rest(life):
    dropped(life.session)
    session = life.goes_on(shards=4)
    session.maintain("b", B)
    session.insert("b", [(1,)])
    session.advance()
    session.reshard(8)
    session.advance(to=6)
    assert session.shards == 8
    assert total(session) == [(1, 11), (2, 2)]
    session.close()


def test_a_source_with_two_times_is_kept_with_both(life):
    kept = an.source("e", "k long", keep=True, time=("system", "event"))
    life.session.maintain("all", kept)
    life.session.insert("e", [(1,)], time=(0, 3))
    life.session.advance()
    life.session.drop("all")
    session = life.goes_on()
    session.insert("e", [(2,)], time=(1, 0))
    session.advance()
    view = session.maintain("all", kept)
    assert (sorted(view.to_pylist(at=(1, 3))), view.to_pylist(at=(1, 2))) == ([(1,), (2,)], [(2,)])
    session.close()


def test_a_source_goes_when_it_is_dropped_and_may_be_another_then(life):
    dropped(life.session)
    session = life.goes_on()
    session.insert("a", [(7, 7)])
    session.drop_source("a")
    assert session.sources == []
    assert not session._engine.has_pending
    assert not session._engine.plan.nodes
    session = life.goes_on()
    assert {name for name, _ in (*session._engine.table.live, *session._engine.table.stored)} == set()
    assert not session._engine.sources_filled
    session.advance(to=10)
    other = session.maintain("other", an.source("a", "z string", keep=True))
    session.insert("a", [("new",)])
    session.advance()
    assert other.to_pylist() == [("new",)]
    session.close()


def test_what_was_declared_otherwise_says_how_it_is_kept(life):
    dropped(life.session)
    session = life.goes_on()
    for other in (an.source("a", "z string", keep=True), an.source("a", "k long, v long")):
        with pytest.raises(PlanError, match=r"an\.source\('a', 'k bigint, v bigint', keep=True\).*drop_source"):
            session.maintain("other", other)
    assert total(session) == [(1, 1), (2, 2)]
    session.close()


def test_what_cannot_be_dropped_says_why(life):
    session = life.session
    session.maintain("total", TOTAL)
    session.maintain("plain", an.source("p", "k long"))
    session.insert("p", [(1,)])
    session.advance()
    with pytest.raises(PlanError, match=r"the view\(s\) total read source 'a'"):
        session.drop_source("a")
    with pytest.raises(UnknownSourceError, match="no source 'z'; the sources are: a, p"):
        session.drop_source("z")
    session.drop("plain")
    with pytest.raises(HydrationError):
        session.maintain("plain", an.source("p", "k long"))
    session.drop_source("p")  # its rows are kept by nothing; that it had some is forgotten
    assert session.maintain("plain", an.source("p", "k long")).to_pylist() == []
    if life.again:
        session = life.goes_on()
        with pytest.raises(StorePlanError, match="also maintains"):
            session.drop_source("a")
    session.close()


def test_statements_drop_what_they_created(life):
    session = life.session
    session.sql("CREATE TABLE t (k BIGINT); INSERT INTO t VALUES (1)")
    session.sql("CREATE SOURCE s (k BIGINT) KEEP")
    with pytest.raises(PlanError, match="DROP TABLE t drops it"):
        session.drop_source("t")
    session = life.goes_on()
    session.sql("SELECT * FROM t")
    assert {*session.sources} == {"s", "t"}
    session.sql("DROP TABLE t; DROP SOURCE s")
    session = life.goes_on()
    assert session.sources == []
    assert not session._engine.journal.kept
    session.sql("CREATE TABLE t (z STRING); INSERT INTO t VALUES ('a')")
    assert session.sql("SELECT * FROM t").to_pylist() == [("a",)]
    session.close()


def test_a_store_of_an_earlier_altneu_is_understood(tmp_path):
    """It told of no source that it is kept, and left the state behind when the last view of one went."""
    with an.Session(path=tmp_path, shards=2) as session:
        session.maintain("b", B)
        dropped(session)
    with DirectoryStore.create_or_open(tmp_path) as store:
        store.commit([[1]], delete=[key for key in store.state if key.startswith("kept/")])
    with an.Session(path=tmp_path, shards=4) as session:
        session.maintain("b", B)
        session.advance(to=10)
        assert (session.shards, sorted(session.sources)) == (4, ["a", "b"])
        assert total(session) == [(1, 11), (2, 2)]
    with an.Session(path=tmp_path) as session:
        assert sorted(session.sources) == ["a", "b"]


def test_state_of_which_nobody_knows_what_it_is_stops_what_it_would_stand_in_the_way_of(tmp_path):
    kept = an.source("e", "k long", keep=True, time=("system", "event"))
    with an.Session(path=tmp_path, shards=2) as session:
        session.maintain("all", kept)
        session.insert("e", [(1,)], time=(0, 3))
        session.insert("e", [(2,)], time=(5, 3))
        session.advance()
        session.drop("all")
    with DirectoryStore.create_or_open(tmp_path) as store:
        store.commit([[1]], delete=[key for key in store.state if key.startswith("kept/")])
    with an.Session(path=tmp_path) as session:
        for act in (lambda: session.reshard(4), session.advance):
            with pytest.raises(StorePlanError, match="maintain a view of that source"):
                act()
        view = session.maintain("all", kept)
        session.reshard(4)
        session.advance(to=6)
        assert sorted(view.to_pylist(at=(5, 3))) == [(1,), (2,)]


def test_explain_and_a_vacuum_know_of_it(tmp_path):
    with an.Session(path=tmp_path) as session:
        dropped(session)
        session._engine.journal.store.vacuum(keep=1)
        labels = [operator.label for operator in session.explained().operators]
        assert labels == ["source a", "keep a"]
        assert session.explained().operators[1].updates == 3
    with an.Session(path=tmp_path) as session:
        assert total(session) == [(1, 1), (2, 2)]


def test_rows_of_spark_are_kept_without_a_view(spark, tmp_path):
    with an.Session(spark, path=tmp_path / "state", placement="spark") as session:
        dropped(session)
        session.insert("a", spark.createDataFrame([(5, 5)], "k long, v long"))
        assert session.advance().placement == "spark"
    with an.Session(spark, path=tmp_path / "state") as session:
        assert total(session) == [(1, 1), (2, 2), (5, 5)]


def test_a_source_that_is_followed_is_not_dropped(spark, tmp_path):
    (tmp_path / "in").mkdir()
    stream = spark.readStream.schema("k long, v long").json(str(tmp_path / "in"))
    with an.Session(spark) as session:
        session.maintain("total", TOTAL)
        session.drop("total")
        with session.follow(a=stream) as following:
            with pytest.raises(InputError, match="being followed"):
                session.drop_source("a")
            following.stop()
        session.drop_source("a")
        assert session.sources == []
