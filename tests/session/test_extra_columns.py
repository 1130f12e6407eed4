"""A column that data has and its source has not: refused in every form, and left out with ``extra="ignore"``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import InputError, SchemaError

ROWS = {"k": [1, 2], "s": ["a", "b"], "more": [0.5, 1.5]}
FORMS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "dictionaries": lambda columns: [
        dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
    ],
    "an iterator": lambda columns: iter(pa.table(columns).to_pylist()),
    "Arrow": pa.table,
    "a record batch": lambda columns: pa.table(columns).to_batches()[0],
    "pandas": pd.DataFrame,
    "Polars": pl.DataFrame,
    "lazy Polars": pl.LazyFrame,
}
EXPECTED = [(1, "a"), (2, "b")]


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> Callable[[dict[str, list[Any]]], Any]:
    return FORMS[request.param]


def _session(**options: Any) -> tuple[an.Session, Any]:
    session = an.Session()
    view = session.maintain("rows", an.source("rows", "k long, s string", **options))
    return session, view


def test_an_insert_refuses_it_or_leaves_it_out(form: Callable[..., Any]) -> None:
    session, view = _session()
    with pytest.raises(SchemaError, match="'more', which is not a column; the columns are: k, s"):
        session.insert("rows", form(ROWS))
    session.advance()
    assert view.to_pylist() == []  # none of the rows came
    session.insert("rows", form(ROWS), extra="ignore")
    session.advance()
    assert sorted(view.to_pylist()) == EXPECTED
    with pytest.raises(SchemaError, match="'more'"):
        session.retract("rows", form(ROWS))
    session.retract("rows", form(ROWS), extra="ignore")
    session.advance()
    assert view.to_pylist() == []


def test_a_column_that_an_argument_names_is_none_too_many(form: Callable[..., Any]) -> None:
    session, view = _session()
    data = {"k": [1, 2], "s": ["a", "b"], "at": [0, 1], "n": [2, 1]}
    session.insert("rows", form(data), time="at", diff="n")
    session.advance(2)
    assert sorted(view.to_pylist()) == [(1, "a"), (1, "a"), (2, "b")]
    with pytest.raises(SchemaError, match="'at'"):
        session.insert("rows", form(data), diff="n")


def test_a_snapshot_refuses_it_or_leaves_it_out(form: Callable[..., Any]) -> None:
    session, view = _session(keep=True)
    with pytest.raises(SchemaError, match="'more'"):
        session.replace("rows", form(ROWS))
    session.replace("rows", form(ROWS), extra="ignore")
    session.advance()
    assert sorted(view.to_pylist()) == EXPECTED


def test_a_backfill_refuses_it_or_leaves_it_out(form: Callable[..., Any]) -> None:
    session = an.Session()
    rows = an.source("rows", "k long, s string")
    session.maintain("counted", rows.group_by("s").agg(n="count(*)"))
    session.insert("rows", EXPECTED)
    session.advance()
    with pytest.raises(SchemaError, match="'more'"):
        session.backfill("rows", form(ROWS))
    session.backfill("rows", form(ROWS), extra="ignore")
    assert sorted(session.maintain("rows", rows).to_pylist()) == EXPECTED


def test_commands_by_key(form: Callable[..., Any]) -> None:
    session, view = _session(key="k")
    with pytest.raises(SchemaError, match="'more'"):
        session.insert_or_update("rows", form(ROWS))
    session.insert_or_update("rows", form(ROWS), extra="ignore")
    session.advance()
    assert sorted(view.to_pylist()) == EXPECTED
    with pytest.raises(SchemaError, match="'more'"):
        session.delete_key("rows", form(ROWS))
    session.delete_key("rows", form({"k": [1], "s": ["whatever"]}))  # the source's own columns are not too many
    session.delete_key("rows", form(ROWS), extra="ignore")
    session.advance()
    assert view.to_pylist() == []


def test_weights_that_are_named(form: Callable[..., Any]) -> None:
    session = an.Session()
    kept = an.source("paid", "k long, cost long", weight=an.weights.Sums("cost"))
    view = session.maintain("paid", kept.consolidate())
    data = {"k": [1, 2], "euros": [3, 4]}
    session.insert("paid", form(data), diff="euros")
    with pytest.raises(SchemaError, match="'more'"):
        session.insert("paid", form({**data, "more": [0, 0]}), diff="euros")
    session.insert("paid", form({**data, "more": [0, 0]}), diff="euros", extra="ignore")
    session.advance()
    assert sorted(view.to_pylist()) == [(1, 6), (2, 8)]


def test_a_missing_column_is_told_first() -> None:
    session, _ = _session()
    with pytest.raises(SchemaError, match="lacks column 's'; it has: k, S"):
        session.insert("rows", pa.table({"k": [1], "S": ["misspelled"]}), extra="ignore")
    with pytest.raises(SchemaError, match="lacks column 's'; it has: k, S"):
        session.insert("rows", pa.table({"k": [1], "S": ["misspelled"]}))


def test_another_word_than_these_is_refused() -> None:
    session, _ = _session(keep=True)
    for give in (session.insert, session.retract, session.replace, session.backfill):
        with pytest.raises(InputError, match='extra must be "error" or "ignore"'):
            give("rows", [(1, "a")], extra="drop")  # type: ignore[operator]


def test_sparks_frames_are_treated_alike(spark: Any) -> None:
    frame = spark.createDataFrame(list(zip(*ROWS.values(), strict=True)), list(ROWS))
    for session in (an.Session(spark), an.Session()):
        with session:
            view = session.maintain("rows", an.source("rows", "k long, s string", keep=True))
            with pytest.raises(SchemaError, match="'more'"):
                session.insert("rows", frame)
            with pytest.raises(SchemaError, match="'more'"):
                session.replace("rows", frame)
            session.insert("rows", frame, extra="ignore")
            session.advance()
            assert sorted(view.to_pylist()) == EXPECTED
            session.retract("rows", frame.select("k", "s"))
            session.advance()
            assert view.to_pylist() == []


def test_streams_are_treated_alike(spark: Any, tmp_path: Any) -> None:
    spark.createDataFrame(list(zip(*ROWS.values(), strict=True)), list(ROWS)).write.parquet(f"{tmp_path}/rows")
    stream = spark.readStream.schema("k long, s string, more double").parquet(f"{tmp_path}/rows")
    with an.Session(spark) as session:
        view = session.maintain("rows", an.source("rows", "k long, s string"))
        with pytest.raises(SchemaError, match="'more'"):
            session.follow(rows=stream, available_now=True)
        with session.follow(rows=stream, available_now=True, diff="cast(more * 2 as long)") as following:
            following.wait()  # an expression reads it
        assert sorted(view.to_pylist()) == [(1, "a"), (2, "b"), (2, "b"), (2, "b")]
        session.unfollow("rows")
        with session.follow(
            rows=stream, available_now=True, extra="ignore", checkpoint=str(tmp_path / "again")
        ) as again:
            again.wait()
        assert sorted(view.to_pylist()) == [(1, "a")] * 2 + [(2, "b")] * 4


def test_delta_tables_are_treated_alike(tmp_path: Any) -> None:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(tmp_path), pa.table(ROWS))
    with an.Session() as session:
        view = session.maintain("rows", an.source("rows", "k long, s string"))
        with pytest.raises(SchemaError, match="'more'"):
            session.follow(rows=an.delta(str(tmp_path)), available_now=True)
        with session.follow(rows=an.delta(str(tmp_path)), available_now=True, extra="ignore") as following:
            following.wait()
        assert sorted(view.to_pylist()) == EXPECTED
