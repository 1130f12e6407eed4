"""What a clumsy or hostile user broke once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import altneu as an
from altneu.errors import InputError, PlanError, ReadError, SchemaError, SourceFailedError, TimeRangeError
from altneu.testing import assert_changes

S = an.source("s", "k long, v long")


def opened(collection: an.Collection = S) -> tuple[an.Session, an.View]:
    session = an.Session()
    return session, session.maintain("v", collection)


# functions of batches ------------------------------------------------------------------------------------------------


@an.arrow
def _divides_six(batch: pa.RecordBatch) -> pa.Array:
    return pc.greater(pc.divide(6, batch["v"]), 2)


def test_a_filter_of_batches_that_raises_on_a_row_makes_an_error_of_that_row_alone():
    session, view = opened(S.filter(_divides_six))
    session.insert("s", [(1, 0), (1, 1), (1, 2), (1, 6)])
    session.advance()
    assert [(e["code"], e["row"]) for e in view.errors().to_pylist()] == [("PYTHON_EXCEPTION", '{"k": 1, "v": 0}')]
    assert sorted(view.to_pylist(errors="ignore")) == [(1, 1), (1, 2)]
    session.retract("s", [(1, 0)])
    session.advance()
    assert sorted(view.to_pylist()) == [(1, 1), (1, 2)]


@pytest.mark.parametrize("made", [None, [True, True], pa.array([1, 1]), pa.array([True]), pa.array([True] * 3)])
def test_a_filter_of_batches_that_returns_something_else_is_an_error_of_every_row_it_is_wrong_for(made):
    session, view = opened(S.filter(an.arrow(lambda _: made)))
    session.insert("s", [(1, 1), (2, 2)])
    session.advance()
    right = isinstance(made, pa.Array) and made.equals(pa.array([True]))  # as many as there are, one row at a time
    assert (len(view.to_pylist(errors="ignore")), view.errors().num_rows) == ((2, 0) if right else (0, 2))


# arguments ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: an.Session("state/"), PlanError),
        (lambda: an.Session(retain=-1), PlanError),
        (lambda: an.Session(retain="some"), PlanError),
        (lambda: an.Session(shards=0), PlanError),
        (lambda: an.Session(shards=1.5), InputError),
        (lambda: an.Session().maintain("v", "select 1"), PlanError),
        (lambda: an.Session().maintain("", S), PlanError),
        (lambda: an.source("s", pa.schema([])), SchemaError),
        (lambda: S.top_k("x", by="v"), PlanError),
        (lambda: S.top_k(1.5, by="v"), PlanError),
    ],
)
def test_arguments_of_a_wrong_kind_are_refused_at_once(make, error):
    with pytest.raises(error):
        make()


def test_whole_numbers_are_whole_numbers():
    session, view = opened()
    session.insert("s", [(1, 1)], time=np.int64(3), diff=np.int32(2))
    session.advance(to=np.int64(4))
    assert_changes(view, [(1, 1, 3, 2)])
    for wrong in (1.5, "5", True):
        with pytest.raises(InputError):
            session.advance(to=wrong)
        with pytest.raises(InputError):
            view.to_arrow(at=wrong)
    with pytest.raises(TimeRangeError):
        session.retract("s", [(1, 1)], diff=-(2**63))
    assert session.lower == 4


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (pd.DataFrame({"k": [1, "a"], "v": [1, 2]}), SchemaError),
        (pd.DataFrame([[1, 2, 3]], columns=["k", "v", "v"]), SchemaError),
        (pa.table([pa.array([1])] * 3, names=["k", "v", "v"]), SchemaError),
        (pd.Series([1, 2]), SchemaError),
        (pl.Series([1, 2]), SchemaError),
        (pl.LazyFrame({"k": [1]}).select("nothing"), SourceFailedError),
    ],
)
def test_frames_that_are_no_rows_of_the_source_are_refused(data, error):
    session, view = opened()
    with pytest.raises(error):
        session.insert("s", data)
    session.insert("s", [(1, 1)])
    session.advance()
    assert view.to_pylist() == [(1, 1)]


def test_a_view_of_more_rows_than_fit_says_so():
    session, view = opened()
    session.insert("s", [(1, 1)], diff=2**62)
    session.advance()
    with pytest.raises(ReadError, match="maintain its count"):
        view.to_arrow()
    assert view.changes()["diff"].to_pylist() == [2**62]


def test_an_inspect_that_raises_says_that_the_step_is_committed():
    def inspect(_row, _time, _diff):
        raise RuntimeError("mine")

    session, view = opened(S.inspect(inspect))
    session.insert("s", [(1, 1)])
    with pytest.raises(RuntimeError, match="mine") as caught:
        session.advance()
    assert "the step is committed, lower is 1" in caught.value.__notes__[0]
    assert (session.lower, view.to_pylist()) == (1, [(1, 1)])
    session.advance()


def test_an_interrupt_inside_compiled_code_is_an_interrupt(monkeypatch):
    """Numba gives a Ctrl-C that meets compiled code out as a SystemError."""

    def interrupted(*_):
        raise SystemError("a kernel returned a result with an exception set") from KeyboardInterrupt()

    session, view = opened()
    session.insert("s", [(1, 1)])
    with monkeypatch.context() as patch:
        patch.setattr(session._engine.executor, "step", interrupted)
        with pytest.raises(KeyboardInterrupt):
            session.advance()
    assert session.lower == 0
    session.advance()
    assert view.to_pylist() == [(1, 1)]


def test_void_is_a_type_anywhere_in_a_schema():
    columns = an.source("s", "a void, void int, b array<void>, c map<int, void> , d VOID comment 'x', e void").schema
    assert columns.names == ["a", "void", "b", "c", "d", "e"]
    assert [columns.field(n).type for n in ("a", "void", "d", "e")] == [pa.null(), pa.int32(), pa.null(), pa.null()]
    with pytest.raises(SchemaError, match="cannot be NOT NULL"):
        an.source("s", "a void not null")


# Spark's frames -------------------------------------------------------------------------------------------------------


def test_frames_that_a_step_could_not_read_are_refused_when_inserted(spark):
    stream = spark.readStream.format("rate").load().selectExpr("value k", "value v")
    with an.Session(spark) as session:
        view = session.maintain("v", S)
        with pytest.raises(InputError, match=r"session\.follow"):
            session.insert("s", stream)
        with pytest.raises(SchemaError, match="several columns that Spark reads as 'v'"):
            session.insert("s", spark.sql("select 1L k, 1L v, 1L V"))
        with pytest.raises(SchemaError, match="Arrow lacks"):
            session.insert("s", spark.sql("select 1L k, interval '1' year v"))
        session.insert("s", spark.sql("select 1L k, 2L v, interval '1' year y"), extra="ignore")
        session.advance()
        assert view.to_pylist() == [(1, 2)]


@pytest.mark.parametrize("shards", [1, 3])
def test_a_late_view_filled_by_spark_pairs_the_rows_of_an_arrangement_that_is_there_already_once(spark, shards):
    """What a task was given whole came to the join as new and as old too, and every pair was made twice."""
    r = an.source("r", "k long, w long")
    with an.Session(spark, shards=shards, placement="spark") as session:
        session.maintain("s", S)
        session.maintain("r", r)
        session.maintain("self-join", S.join(S, on="k"))  # keeps S by k
        session.insert("s", [(1, 1), (2, 2)])
        session.insert("r", [(1, 10), (3, 30)])
        session.advance()
        late = session.maintain("late", S.join(r, on="k"))
        assert late.to_pylist() == [(1, 1, 10)]
        session.retract("r", [(1, 10)])
        session.insert("r", [(2, 20)])
        session.advance()
        assert late.to_pylist() == [(2, 2, 20)]


@pytest.mark.parametrize("placement", ["driver", "spark"])
@pytest.mark.parametrize("query", ["count by key", "count", "another column"])
def test_a_value_that_does_not_fit_is_refused_wherever_it_is_read_and_whether_the_plan_needs_it_or_not(
    spark, placement, query
):
    """Spark's cast of a bulk load wrapped 2^32 + 1 to the key 1 where ANSI is off."""
    source = an.source("s", "k int, v int not null, w int")
    plan = {
        "count by key": source.group_by("k").agg(n="count(*)"),
        "count": source.group_by().agg(n="count(*)"),
        "another column": source.select("w"),
    }[query]
    ansi = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with an.Session(spark, placement=placement) as session:
            view = session.maintain("v", plan)
            for rows in ([(2**32 + 1, 1, 1)], [(1, None, 1)]):
                session.insert("s", spark.createDataFrame([(1, 1, 1), *rows], "k long, v int, w int"))
                with pytest.raises(SchemaError, match=r"does not fit|has a null there"):
                    session.advance()
                session.discard()
            session.insert("s", spark.createDataFrame([(1, 1, 1)], "k long, v int, w int"))
            session.advance()
            assert len(view.to_pylist()) == 1
    finally:
        spark.conf.set("spark.sql.ansi.enabled", ansi)
