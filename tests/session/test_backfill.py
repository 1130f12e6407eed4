"""Rows of a source given once more: advice that can be followed, what is refused, and what it costs."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing

import pandas as pd
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import HydrationError, InputError, PlanError, SchemaError, UnknownSourceError
from altneu.operators.arrange.operation import ReadOp
from altneu.order import Epoch
from altneu.plan.hydrate import _Cutter, hydration_plan
from altneu.plan.lower import lower
from altneu.plan.rewrite import optimise

A = an.source("a", "k long, v long, w long")
B = an.source("b", "k long, u long")
SUM = A.join(B, on="k").group_by("k").agg(n="sum(v + u)")
LATE = A.filter("w > 1").select("k", "w")
ROWS = [(1, 1, 1), (1, 2, 2), (2, 3, 3), (2, 3, 3), (3, 2, 0)]


@pytest.fixture(params=["memory", "shards", "durable", "reopened"])
def life(request, tmp_path):
    return Life(tmp_path / "state" if request.param in ("durable", "reopened") else None, request.param)


class Life:
    """A session with a view of a join, and how it goes on."""

    def __init__(self, path, kind):
        self.path, self.kind = path, kind
        self.session = self.opened()
        self.session.insert("a", ROWS)
        self.session.insert("b", [(1, 5), (2, 6)])
        self.session.advance()

    def opened(self):
        session = an.Session(path=self.path, shards=3 if self.kind == "shards" else None)
        session.maintain("sum", SUM)
        return session

    def goes_on(self):
        if self.kind == "reopened":
            self.session.close()
            self.session = self.opened()
        return self.session


def state(session):
    names = sorted({name for name, _ in (*session._engine.table.live, *session._engine.table.stored)})
    rows = {name: session._engine.table.rows(name) for name in names}
    return (
        session.store.number,
        session.sources,
        session._engine.plan,
        dict(session._engine.journal.kept),
        rows,
        [*session._engine.table.layouts],
    )


def advice(session, collection, name="late"):
    """The call that the error says, as Python."""
    with pytest.raises(HydrationError) as caught:
        session.maintain(name, collection)
    (call,) = re.findall(r"(session\.backfill\(.*?, rows\))", str(caught.value))
    return call


def test_the_advice_of_the_error_can_be_followed(life):
    session = life.goes_on()
    exec(advice(session, LATE), {"session": session, "an": an, "rows": ROWS})  # noqa: S102
    session = life.goes_on()
    view = session.maintain("late", LATE)
    assert sorted(view.to_pylist()) == [(1, 2), (2, 3), (2, 3)]
    session.insert("a", [(7, 7, 7)])
    session.retract("a", [(2, 3, 3)])
    session.advance()
    session.reshard(6)
    session = life.goes_on()
    assert sorted(session.maintain("late", LATE).to_pylist()) == [(1, 2), (2, 3), (7, 7)]
    assert sorted(session.maintain("all", A).to_pylist()) == [(1, 1, 1), (1, 2, 2), (2, 3, 3), (3, 2, 0), (7, 7, 7)]
    session.close()


def test_of_a_source_that_no_view_reads_the_advice_says_how_it_is_declared(life):
    session = life.goes_on()
    session.drop("sum")
    with pytest.raises(
        UnknownSourceError,
        match=r"pass the source itself, as it was declared: session\.backfill\(an\.source\('a', \.\.\.\)",
    ):
        session.backfill("a", ROWS)
    call = advice(session, LATE)
    assert call == "session.backfill(an.source('a', 'k bigint, v bigint, w bigint'), rows)"
    exec(call, {"session": session, "an": an, "rows": ROWS})  # noqa: S102
    assert session.sources == ["a"]
    with pytest.raises(
        PlanError, match=r"under another declaration: it must be an\.source\('a', 'k bigint, v bigint, w bigint'\);"
    ):
        session.maintain("late", an.source("a", "k long, v long, w long", keep=True))
    assert sorted(session.maintain("late", LATE).to_pylist()) == [(1, 2), (2, 3), (2, 3)]
    session.drop("late")
    session.drop_source("a")
    assert session.sources == []
    session.close()


def test_a_source_declared_with_keep_that_was_dropped_is_kept_again_as_declared():
    kept = an.source("a", "k long, v long, w long", keep=True)
    with an.Session() as session:
        session.maintain("all", kept)
        session.insert("a", ROWS)
        session.advance()
        assert session._engine.catalogue.called(an.source("z", "k long", keep=True).node) == {
            "z": "an.source('z', 'k bigint', keep=True)"
        }
        before = state(session)
        session.backfill(kept, ROWS)  # it is kept already: they are compared
        with pytest.raises(InputError, match=r"'keep a'.* of view 'all' keeps \(k=3, v=2, w=0\) once more than"):
            session.backfill("a", ROWS[:-1])
        assert state(session) == before


WRONG = {
    "one is missing": (ROWS[:-1], r"keeps \(k=3, v=2\) once more than the given rows produce"),
    "one is too many": ([*ROWS, (9, 9, 9)], r"keeps \(k=9, v=9\) once less than"),
    "too often": ([*ROWS, *ROWS], r"once less than|2 times less than"),
    "another value": ([(1, 1, 1), (1, 2, 2), (2, 3, 3), (2, 4, 3), (3, 2, 0)], r"\(k=2, v=[34]\) once (more|less)"),
    "none": ([], r"more than"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_refused_and_nothing_has_changed(case, life):
    rows, answer = WRONG[case]
    session = life.goes_on()
    before = state(session)
    with pytest.raises(
        InputError, match=f"source 'a' are not those that it holds: 'arrange by k' of view 'sum' .*{answer}"
    ):
        session.backfill("a", rows)
    assert state(session) == before
    with pytest.raises(HydrationError):
        session.maintain("late", LATE)
    session.backfill("a", ROWS)
    assert len(session.maintain("late", LATE).to_pylist()) == 3
    session.close()


FORMS = {
    "tuples": lambda: ROWS,
    "dictionaries": lambda: [dict(zip("kvw", row, strict=True)) for row in ROWS],
    "arrow": lambda: pa.table({"w": [r[2] for r in ROWS], "v": [r[1] for r in ROWS], "k": [r[0] for r in ROWS]}),
    "pandas": lambda: pd.DataFrame(ROWS, columns=[*"kvw"]),
}


def test_rows_are_compared_with_what_a_sample_of_them_keeps():
    with an.Session() as session:
        session.maintain("some", A.sample(0.5, "k"))
        session.insert("a", [(k, k, k) for k in range(20)])
        session.advance()
        with pytest.raises(InputError, match="are not those that it holds"):
            session.backfill("a", [])
        session.backfill("a", [(k, k, k) for k in range(20)])
        assert len(session.maintain("late", LATE).to_pylist()) == 18


@pytest.mark.parametrize("form", FORMS)
def test_rows_come_in_any_form(form):
    life = Life(None, "memory")
    life.session.backfill("a", FORMS[form]())
    assert sorted(life.session.maintain("all", A).to_pylist()) == sorted(ROWS)
    with pytest.raises(SchemaError, match="lacks column 'w'"):
        life.session.backfill("a", pa.table({"k": [1], "v": [1]}))


def test_counts_come_in_a_column_or_as_one_number():
    life = Life(None, "memory")
    life.session.retract("a", [(8, 8, 8)])
    life.session.advance()
    counted = [(1, 1, 1, 1), (1, 2, 2, 1), (2, 3, 3, 2), (3, 2, 0, 1), (8, 8, 8, -1)]
    life.session.backfill("a", counted, diff="n")
    assert life.session.maintain("late", A.select("w").count()).to_pylist()
    assert dict(life.session.view("late").to_pylist()) == {1: 1, 2: 1, 3: 2, 0: 1, 8: -1}


def test_what_is_inserted_and_not_yet_counted_is_not_among_the_rows(life):
    session = life.goes_on()
    session.insert("a", [(4, 4, 4)])
    session.insert("a", [(5, 5, 5)], time=8)
    session.backfill("a", ROWS)
    view = session.maintain("late", A.select("w"))
    assert sorted(view.to_pylist()) == [(0,), (1,), (2,), (3,), (3,)]
    session.advance()
    assert (4,) in view.to_pylist()
    session.advance(to=9)
    assert (5,) in view.to_pylist()
    session.close()


def test_what_cannot_be_backfilled_says_why_and_the_remedy_helps(life):
    session = life.goes_on()
    before = state(session)
    with pytest.raises(UnknownSourceError, match="no maintained view reads a source 'z'"):
        session.backfill("z", [])
    with pytest.raises(UnknownSourceError, match="source 'z' never had rows in this session"):
        session.backfill(an.source("z", "k long"), [])
    for wrong in (A.select("k"), 7):
        with pytest.raises(PlanError, match="the source of a backfill must be a name"):
            session.backfill(wrong, [])
    with pytest.raises(PlanError, match="declared twice"):
        session.backfill(an.source("a", "k long"), [])
    assert state(session) == before
    session.insert("a", [(1, 1, 1)], time=5)
    session.commit()
    with pytest.raises(
        InputError, match=r"for the future time 5, 'arrange by k' .*\(k=1, v=1\) once more.*advance beyond"
    ):
        session.backfill("a", ROWS)
    session.advance(to=6)
    session.backfill("a", [*ROWS, (1, 1, 1)])
    session.close()


def test_changes_that_wait_behind_what_is_not_compared_are_in_the_way():
    both = A.select("k").concat(B.select("k")).distinct()
    with an.Session() as session:
        session.maintain("both", both)
        session.insert("a", ROWS)
        session.insert("b", [(1, 1)], time=5)
        session.advance()
        with pytest.raises(InputError, match="'group by k' of view 'both' holds changes of future times"):
            session.backfill("a", ROWS)
        session.advance(to=6)
        session.backfill("a", ROWS)


def test_a_temporal_filter_does_not_hinder_it_and_is_compared():
    window = A.temporal("v", "v + 10")
    with an.Session() as session:
        session.maintain("window", window.group_by("k").agg(n="count(*)"))
        session.insert("a", ROWS)
        session.advance(to=2)
        with pytest.raises(InputError, match="keeps other counts or sums of the group"):
            session.backfill("a", ROWS[1:])
        session.backfill("a", ROWS)
        view = session.maintain("late", A.temporal("v", "w + 10"))
        for to in (3, 4, 12, 13, 14):
            session.advance(to=to)
            now = to - 1
            assert sorted(view.to_pylist()) == sorted(r for r in ROWS if r[1] <= now < r[2] + 10)


def test_history_that_is_kept_apart_is_in_the_way_and_goes(tmp_path):
    with an.Session(path=tmp_path, retain=5) as session:
        session.maintain("sum", SUM)
        for rows in (ROWS[:2], ROWS[2:]):
            session.insert("a", rows)
            session.advance()
        with pytest.raises(
            InputError, match=r"times before 1 can be read, from 0 on.*retained for: retain=\. .*without retain="
        ):
            session.backfill("a", ROWS)
    with an.Session(path=tmp_path) as session:
        session.maintain("sum", SUM)
        session.backfill("a", ROWS)
        assert len(session.maintain("late", LATE).to_pylist()) == 3
    with an.Session(path=tmp_path) as session:
        session.maintain("sum", SUM)
        assert len(session.maintain("late", LATE).to_pylist()) == 3


def test_a_sink_is_in_the_way_until_it_is_up_to_date(tmp_path):
    target = tmp_path / "out.db"
    with an.Session(path=tmp_path / "store") as session:
        sums = session.maintain("sum", A.group_by("k").agg(n="sum(v)"))
        sink = an.sinks.database(sums, lambda: sqlite3.connect(target), "sums", mode="upsert", key=["k"])
        for rows in (ROWS[:2], ROWS[2:]):
            session.insert("a", rows)
            session.advance()
            sink.run()
        session.advance()
        with pytest.raises(InputError, match=r"before 2 can be read, from 1 on.*readers and sinks \(sink-"):
            session.backfill("a", ROWS)
        sink.run()
        session.backfill("a", ROWS)
        late = session.maintain("late", LATE)
        assert len(late.to_pylist()) == 3
        session.retract("a", ROWS[1:2])
        session.advance()
        sink.run()
        with closing(sqlite3.connect(target)) as connection:
            there = connection.execute("SELECT * FROM sums").fetchall()
        assert sorted(there) == sorted(session.view("sum").to_pylist())
        assert len(late.to_pylist()) == 2


def test_two_times_are_refused_and_not_advised():
    both = an.source("e", "k long, v long", time=("system", "event"))
    with an.Session() as session:
        session.maintain("keys", both.select("k").distinct())
        session.insert("e", [(1, 1)], time=(0, 0))
        session.advance()
        with pytest.raises(InputError, match=r"source 'e' has two times, system and event.*keep=True"):
            session.backfill("e", [(1, 1)])
        with pytest.raises(HydrationError) as caught:
            session.maintain("late", both.select("v"))
        assert "backfill" not in str(caught.value)


def test_a_source_without_rows_is_kept_from_the_beginning():
    with an.Session() as session:
        session.maintain("sum", SUM)
        with pytest.raises(InputError, match="has never had a row"):
            session.backfill("a", ROWS)
        session.backfill("a", [])
        session.insert("a", ROWS)
        session.advance()
        assert len(session.maintain("late", LATE).to_pylist()) == 3


def test_rows_that_no_time_was_closed_for_are_not_there_yet():
    with an.Session() as session:
        session.maintain("sum", SUM)
        session.insert("a", ROWS)
        session.commit()
        with pytest.raises(InputError, match="before the first advance"):
            session.backfill("a", ROWS)


def test_drop_source_lets_go_of_what_is_kept_and_views_stay(life):
    session = life.goes_on()
    before = session.advance().state_rows
    session.backfill("a", ROWS)
    session.maintain("late", LATE)
    session.drop("late")
    assert session.advance().state_rows == before + len({*ROWS})
    session.drop_source("a")
    session = life.goes_on()
    assert session.advance().state_rows == before
    session.insert("a", [(1, 1, 1)])
    session.advance()
    assert dict(session.view("sum").to_pylist()) == {1: 1 + 2 + 1 + 15, 2: 18}
    advice(session, LATE)
    with pytest.raises(PlanError, match="read source"):
        session.drop_source("a")
    session.backfill("a", [*ROWS, (1, 1, 1)])
    session.drop("sum")
    assert session.sources == ["a"]
    session.drop_source("a")
    assert {name for name, _ in (*session._engine.table.live, *session._engine.table.stored)} == set()
    session.close()


def test_sources_of_statements(tmp_path):
    with an.Session(path=tmp_path) as session:
        session.sql("CREATE SOURCE s (k BIGINT, v BIGINT)")
        session.sql("CREATE MATERIALIZED VIEW n AS SELECT k, count(*) AS n FROM s GROUP BY k")
        session.sql("INSERT INTO s VALUES (1, 2), (1, 3)")
        session.advance()
        with pytest.raises(HydrationError, match=r"session\.backfill\('s', rows\)"):
            session.sql("SELECT sum(v) FROM s")
        with pytest.raises(InputError, match=r"other counts or sums of the group \(k=1\)"):
            session.backfill("s", [(1, 2)])
        session.backfill("s", [(1, 2), (1, 3)])
        assert session.sql("SELECT sum(v) AS t FROM s").to_pylist() == [(5,)]
    with an.Session(path=tmp_path) as session:
        assert session.sql("SELECT sum(v) AS t FROM s").to_pylist() == [(5,)]
        session.sql("DROP MATERIALIZED VIEW n; DROP SOURCE s")
        assert session.sources == []
        assert not session._engine.journal.kept
    with an.Session(path=tmp_path) as session:
        session.advance()
        assert {name for name, _ in (*session._engine.table.live, *session._engine.table.stored)} == set()


def test_digits_that_are_only_written_otherwise_are_no_difference():
    """A diff of 2^24 and more carries over at once; the same rows one by one do not."""
    many = 1 << 24
    with an.Session() as session:
        session.maintain("sum", A.group_by("k").agg(n="sum(v)", m="stddev(cast(v as double))"))
        for _ in range(2):
            session.insert("a", [(1, (1 << 40) + 12345, 1)], diff=many - 1)
            session.advance()
        session.insert("a", [(1, (1 << 40) + 12345, 1)], diff=2)
        session.advance()
        with pytest.raises(InputError, match="other counts or sums"):
            session.backfill("a", [(1, (1 << 40) + 12346, 1)], diff=2 * many)
        session.backfill("a", [(1, (1 << 40) + 12345, 1)], diff=2 * many)


def test_an_interrupted_or_failing_commit_leaves_all_as_it_was(life, monkeypatch):
    session = life.goes_on()
    before = state(session)

    def fails(*_):
        raise OSError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(session._engine.journal, "commit_source", fails)
        with pytest.raises(OSError, match="no room"):
            session.backfill("a", ROWS)
    assert state(session) == before
    session.backfill("a", ROWS)
    session.advance()
    session.close()


# cost -----------------------------------------------------------------------------------------------------------------


def read_in(session, monkeypatch):
    """Rows that the next steps read of arrangements, and what they were given."""
    result = []
    step = session._engine.executor.step

    def counted(plan, table, inputs, *rest):
        read = sum(table.rows(n.operation.arrangement) for n in plan.nodes if isinstance(n.operation, ReadOp))
        result.append((read, sum(len(u) for parts in inputs.updates.values() for u in parts), len(plan.nodes)))
        return step(plan, table, inputs, *rest)

    monkeypatch.setattr(session._engine.executor, "step", counted)
    return result


@pytest.mark.parametrize("n", [20, 2000])
def test_what_is_given_and_what_is_kept_of_it_is_read_once(n, monkeypatch):
    with an.Session() as session:
        session.maintain("sum", SUM)
        session.maintain("other", B.group_by("u").agg(n="count(*)"))
        rows = [(i, i, i) for i in range(n)]
        session.insert("a", rows)
        session.insert("b", [(i, i) for i in range(3 * n)])
        session.advance()
        result = read_in(session, monkeypatch)
        session.backfill("a", rows)
        ((read, given, _),) = result
        assert (read, given) == (n, n)  # of b, nothing


@pytest.mark.parametrize("n", [20, 2000])
def test_a_late_view_reads_each_arrangement_that_it_needs_once(n, monkeypatch):
    """From what a join keeps: the rows of both sides, whatever else there is, and plans are gone over once."""
    with an.Session() as session:
        session.maintain("sum", SUM)
        session.maintain("other", B.group_by("u").agg(n="count(*)"))
        session.insert("a", [(i, i, i) for i in range(n)])
        session.insert("b", [(i, i) for i in range(n)])
        session.advance()
        result = read_in(session, monkeypatch)
        session.maintain("late", A.join(B, on="k").filter("v > 1").group_by("v").agg(n="sum(u)", m="max(k)"))
        ((read, *_),) = result
        assert read <= 2 * n


def test_looking_for_what_a_late_view_can_be_filled_from_is_linear_in_the_views(monkeypatch):
    """How often a piece of logic is compared with another one, with some views and with ten times as many."""
    compared = []
    serves = _Cutter._serves

    def counted(self, *args):
        compared.append(args)
        return serves(self, *args)

    monkeypatch.setattr(_Cutter, "_serves", counted)
    for many in (4, 40):
        views = {f"v{i}": A.select(f"k + {i} as k", "v").join(B, on="k").select("v", "u") for i in range(many)}
        there = lower({name: optimise(view.node) for name, view in views.items()}, Epoch())
        late = {"late": optimise(A.select("k", "w").join(B, on="k").select("w", "u").node)}
        plan = lower({name: optimise(view.node) for name, view in views.items()} | late, Epoch())
        compared.clear()
        with pytest.raises(HydrationError, match="source 'a'"):
            hydration_plan(plan, "late", {*there.arrangements}, {"a", "b"})
        assert 0 < len(compared) <= many


# Spark ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_on_spark_by_a_job_and_in_the_driver(spark, tmp_path):
    rows = [(i % 50, i, i % 7) for i in range(2000)]
    for placement in ("spark", "driver"):
        with an.Session(spark, path=tmp_path / placement, shards=3, placement=placement) as session:
            session.maintain("sum", SUM)
            session.insert("a", rows)
            session.advance()
            given = spark.createDataFrame(rows, "k long, v long, w long")
            before = state(session)
            with pytest.raises(InputError, match=r"'arrange by k' of view 'sum' keeps \(k=3, v=3\) once more"):
                session.backfill("a", given.where("v <> 3"))
            assert state(session)[:4] == before[:4]
            session.backfill("a", given)
            view = session.maintain("late", A.filter("w = 3").select("k", "v"))
            assert sorted(view.to_pylist()) == sorted((k, v) for k, v, w in rows if w == 3)
        with an.Session(spark, path=tmp_path / placement) as session:
            session.maintain("sum", SUM)
            session.maintain("late", A.filter("w = 3").select("k", "v"))
            session.retract("a", rows[3:4])
            session.advance()
            assert session.maintain("again", A.filter("w = 3").count("n")).to_arrow().num_rows == 285
