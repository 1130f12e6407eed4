"""Append-only sources: what is refused, what is kept at n and at 100 n, late views, restarts, SQL, explanations."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

import altneu as an
from altneu import Collection, Session
from altneu.errors import InputError, PlanError, StatementError
from altneu.operators.reduce.best_rows import BestRows

COLUMNS = "k long, v long, w string"
T, PLAIN = an.source("t", COLUMNS, append_only=True), an.source("t", COLUMNS)
KEPT_SOURCE = an.source("t", COLUMNS, append_only=True, keep=True)
View = Callable[[Collection], Collection]
VIEWS: dict[str, View] = {
    "max": lambda t: t.group_by("k").agg(hi="max(v)"),
    "both": lambda t: t.group_by("k").agg(lo="min(v)", hi="max(v)"),
    "beside sums": lambda t: t.group_by("k").agg(hi="max(v)", n="count(*)", s="sum(v)"),
    "by": lambda t: t.group_by("k").agg(last="max_by(w, v)"),
    "first": lambda t: t.top_k(1, "v desc, w", per="k"),
    "first, key behind": lambda t: t.select("v", "w", "k").top_k(1, "v desc, w", per="k"),
    "first, keys apart": lambda t: t.select("w", "v", "k").top_k(1, "v desc", per=["k", "w"]),
    "logic above, key behind": lambda t: (
        t.select("v", "w", "k").top_k(1, "v desc, w", per="k").filter("v > 9").select("k", n="v + k")
    ),
    "all": lambda t: t.group_by().agg(hi="max(v)", lo="min(w)"),
    "of the best": lambda t: t.group_by("k", "w").agg(hi="max(v)").group_by("k").agg(hi="max(hi)"),
}
GROUPS = {"of the best": 55, "first, keys apart": 55, "all": 1}


def rows(count: int, first: int = 0) -> list[tuple[int, int, str]]:
    return [(i % 5, (i * 7919) % 100_003, f"w{i % 11}") for i in range(first, first + count)]


def stored(session: Session) -> int:
    """Updates in all states but the contents and last changes of views."""
    engine = session._engine
    contents = {ports.contents for ports in engine.plan.views.values()}
    return sum(engine.table.rows(name) for name in engine.plan.arrangements if name not in contents)


def filled(session: Session, source: Collection, name: str, count: int) -> an.View:
    view = session.maintain("v", VIEWS[name](source))
    for first in range(0, count, count // 10):
        session.insert("t", rows(count // 10, first))
        session.advance()
    return view


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", VIEWS)
def test_the_state_does_not_grow_with_the_rows(name: str, shards: int) -> None:
    """Of each group a few updates until batches are merged; else it would be every row."""
    for count in (100, 10_000):
        with Session(shards=shards) as session, Session() as other:
            view, whole = filled(session, T, name, count), filled(other, PLAIN, name, count)
            assert sorted(view.to_pylist()) == sorted(whole.to_pylist())
            assert stored(session) <= 20 * GROUPS.get(name, 5) < 10_000
            assert name == "beside sums" or stored(other) >= min(count, 100)


@pytest.mark.parametrize("name", VIEWS)
def test_a_step_reads_a_few_rows_however_many_came(name: str, read: list[int]) -> None:
    def rows_read(count: int) -> list[int]:
        with Session() as session:
            filled(session, T, name, count)
            result = []
            for row in [(1, 10**6, "w1"), (1, 5, "w2"), (7, 5, "w1")]:
                session.insert("t", [row])
                read.append(0)
                session.advance()
                result.append(read[-1])
            return result

    few, many = rows_read(1_000), rows_read(100_000)
    assert all(more <= fewer + 100 for fewer, more in zip(few, many, strict=True)), (few, many)


def test_a_million_rows_leave_one() -> None:
    """At one time and at many."""
    with Session() as session:
        view = session.maintain("v", VIEWS["all"](T))
        values = pa.array([(i * 7919) % 1_000_003 for i in range(1_000_000)])
        table = pa.table({"k": values, "v": values, "w": pa.array(["w"] * 1_000_000)})
        session.insert("t", table)
        assert session.advance().state_rows <= 5
        times = pa.array([1 + i % 1000 for i in range(1_000_000)])
        session.insert("t", table.append_column("at", times), time="at")
        session.advance(to=1001)
        assert (view.to_pylist(), stored(session)) == ([(1_000_002, "w")], 2)


def shortest(edges: Collection, start: Collection) -> Collection:
    def closer(x: Collection) -> Collection:
        near = x.join(edges, on={"node": "src"}).select(node="dst", cost="cost + weight")
        return near.concat(start).group_by("node").agg(cost="min(cost)")

    return start.iterate(closer)


def test_shortest_paths_keep_the_best_of_each_node_and_not_of_each_edge() -> None:
    """Of a node the costs that were the least by some round, however many edges lead to it."""
    state = {}
    for degree in (4, 400):
        edges = [(i, (i * 31 + j) % 50, 1 + (i * j * 7919) % 1009) for i in range(50) for j in range(degree)]
        shown = {}
        for append_only in (False, True):
            e = an.source("e", "src long, dst long, weight long", append_only=append_only)
            s = an.source("s", "node long, cost long", append_only=append_only)
            with Session() as session:
                view = session.maintain("v", shortest(e, s))
                session.insert("s", [(0, 0)])
                for part in range(4):
                    session.insert("e", edges[part::4])
                    session.advance()
                shown[append_only] = sorted(view.to_pylist())
                assert ("the first row of each key" in session.explain("v")) is append_only
                plan, table = session._engine.plan, session._engine.table
                named = [name for name, i in plan.arrangements.items() if "#arg0" in plan.nodes[i].label]
                state[degree, append_only] = sum(map(table.rows, named))
        assert shown[True] == shown[False]
    assert state[400, False] > 50 * 300
    assert state[400, True] < 50 * 8


REFUSED = "source 't' is append-only"


def test_retractions_are_refused() -> None:
    with Session() as session:
        view = session.maintain("v", VIEWS["max"](KEPT_SOURCE))
        session.insert("t", rows(10))
        session.advance()
        before = view.to_pylist()
        with pytest.raises(InputError, match=f"{REFUSED}, and row 0 has the diff -1: its rows stay for good"):
            session.retract("t", rows(1))
        with pytest.raises(InputError, match=f"{REFUSED}, and row 0 has the diff -2"):
            session.insert("t", rows(2), diff=-2)
        table = pa.table({"k": [1, 2], "v": [3, 4], "w": ["a", "b"], "n": [1, -1]})
        with pytest.raises(InputError, match=f"{REFUSED}, and row 1 has the diff -1"):
            session.insert("t", table, diff="n")
        with pytest.raises(InputError, match=f"{REFUSED}, and to replace its rows is to retract some"):
            session.replace("t", rows(3))
        session.advance()
        assert view.to_pylist() == before


def test_what_is_declared_with_it() -> None:
    with pytest.raises(PlanError, match="append_only must be True or False, got 1"):
        an.source("t", COLUMNS, append_only=1)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="source 't' is append-only, and key= makes rows of commands"):
        an.source("t", COLUMNS, append_only=True, key="k")
    with pytest.raises(PlanError, match=r"and distinct= makes rows of commands, .* is source\(...\).distinct\(\)"):
        an.source("t", COLUMNS, append_only=True, distinct=True)
    with Session() as session:
        session.maintain("v", T)
        with pytest.raises(PlanError, match="declared twice"):
            session.maintain("w", PLAIN)


@pytest.mark.spark
def test_retractions_in_a_frame_of_spark_are_refused(spark: object, tmp_path: object) -> None:
    """The step fails as a whole: the tasks see them, and nothing is committed."""
    with Session(spark, path=f"{tmp_path}/store") as session:
        view = session.maintain("v", VIEWS["max"](T))
        frame = spark.createDataFrame([(1, 2, "a", 1), (1, 3, "b", 1)], "k long, v long, w string, n long")  # type: ignore[attr-defined]
        session.insert("t", frame, diff="n")
        session.advance()
        assert view.to_pylist() == [(1, 3)]
        session.insert("t", frame.selectExpr("k", "v", "w", "-n AS n"), diff="n")
        with pytest.raises(an.errors.AltneuError, match=REFUSED):
            session.advance()
        session.discard("t")
        session.advance()
        assert view.to_pylist() == [(1, 3)]


@pytest.mark.parametrize("name", VIEWS)
def test_a_late_view_and_a_reopened_store_go_on(name: str, tmp_path: object) -> None:
    path = f"{tmp_path}/store"
    with Session(path=path, shards=2) as session:
        session.maintain("first", KEPT_SOURCE.select("k"))
        session.insert("t", rows(100))
        session.advance()
        late = session.maintain("v", VIEWS[name](KEPT_SOURCE))
        shown = sorted(late.to_pylist())
        session.reshard(4)
    with Session(path=path) as session, Session() as other:
        session.maintain("first", KEPT_SOURCE.select("k"))
        view = session.maintain("v", VIEWS[name](KEPT_SOURCE))
        assert sorted(view.to_pylist()) == shown
        session.insert("t", rows(300, 100))
        session.advance()
        whole = other.maintain("v", VIEWS[name](PLAIN))
        other.insert("t", rows(400))
        other.advance()
        assert sorted(view.to_pylist()) == sorted(whole.to_pylist())
        with pytest.raises(InputError, match=REFUSED):
            session.retract("t", rows(1))


def test_rows_of_later_times_and_times_that_are_retained() -> None:
    with Session(retain="all") as session:
        view = session.maintain("v", VIEWS["max"](T))
        session.insert("t", [(1, 5, "a")], time=0)
        session.insert("t", [(1, 9, "a")], time=3)
        session.insert("t", [(1, 7, "a"), (2, None, "a")], time=1)
        session.advance(to=2)
        session.advance(to=5)
        assert [sorted(view.to_pylist(at=at)) for at in range(4)] == [
            [(1, 5)],
            [(1, 7), (2, None)],
            [(1, 7), (2, None)],
            [(1, 9), (2, None)],
        ]


IN_SQL = {
    "aggregates": "SELECT k, max(v) AS hi, min_by(w, v) AS w, count(*) AS n FROM t GROUP BY k",
    "numbered": "SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM t) WHERE r = 1",
    "numbered, key behind": """
        SELECT v, w, k FROM (SELECT v, w, k, row_number() OVER (PARTITION BY k ORDER BY v DESC) AS r FROM t) WHERE r = 1
    """,
    "distinct on": "SELECT DISTINCT ON (k) k, v, w FROM t ORDER BY k, v",
}


@pytest.mark.parametrize("name", IN_SQL)
@pytest.mark.parametrize("declared", ["CREATE TABLE t ({})", "CREATE SOURCE t ({}) KEEP"])
def test_in_sql(name: str, declared: str) -> None:
    declared = declared.format("k BIGINT, v BIGINT, w STRING")
    with Session() as session, Session() as other:
        for own, text in ((session, f"{declared} APPEND ONLY"), (other, declared)):
            own.sql(f"{text}; CREATE MATERIALIZED VIEW x AS {IN_SQL[name]}")
            own.insert("t", rows(200))
            own.advance()
        assert sorted(session.sql("SELECT * FROM x").to_pylist()) == sorted(other.sql("SELECT * FROM x").to_pylist())
        assert "the first row of each key by" in session.explain("x")
        assert "the first row of each key by" not in other.explain("x")


def test_statements_that_retract_are_refused() -> None:
    with Session() as session:
        session.sql("CREATE TABLE t (k BIGINT, v BIGINT) APPEND ONLY")
        session.sql("INSERT INTO t VALUES (1, 2)")
        for statement in ("DELETE FROM t WHERE k = 1", "UPDATE t SET v = 3", "TRUNCATE TABLE t"):
            with pytest.raises(InputError, match=REFUSED):
                session.sql(statement)
        assert session.sql("SELECT * FROM t").to_pylist() == [(1, 2)]
        with pytest.raises(StatementError, match="comes twice"):
            session.sql("CREATE SOURCE s (k INT) APPEND ONLY APPEND ONLY")


def test_explain_says_what_is_kept() -> None:
    with Session() as session:
        session.maintain("v", VIEWS["both"](T))
        states = [operator.state for operator in session.explained("v").operators if operator.state]
        assert any("the first row of each key by #arg0 nulls last and by #arg0 desc" in state for state in states)
        assert "the cost of a step is bounded by the change (incremental)" in session.explain("v")


def test_rows_that_are_not_the_first_are_not_exchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each step at most the first rows of each key, however many come."""
    arrived = []
    batch = BestRows.batch

    def counted(self, here, updates, *rest):  # type: ignore[no-untyped-def]
        arrived.append(sum(map(len, updates)))
        return batch(self, here, updates, *rest)

    monkeypatch.setattr(BestRows, "batch", counted)
    with Session(shards=4) as session:
        session.maintain("v", VIEWS["both"](T))
        for count in (2_000, 200_000):
            arrived.clear()
            session.insert("t", rows(count))
            session.advance()
            assert 0 < sum(arrived) <= 5 * 2 * 4


def test_a_row_is_explained_by_the_rows_that_are_stored() -> None:
    with Session() as session:
        view = session.maintain("v", VIEWS["max"](KEPT_SOURCE))
        session.insert("t", [(1, 5, "a"), (1, 9, "b"), (2, 1, "c")])
        session.advance()
        explained = view.explain_row((1, 9))
        assert [(row["k"], row["v"]) for row in explained.to_arrow("t").to_pylist()] == [(1, 9)]
