"""Sources whose rows have weights: ``insert(diff=)`` takes them in every form of data, and refuses what is none."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import altneu as an
from altneu import Session
from altneu.collections.weights import Min, Sums, Union, Weight
from altneu.errors import InputError, PlanError, SchemaError, TypeMismatchError
from faults.stream_files import Files, follow

SUMS = an.source("t", "k long, n long, x double", weight=Sums("n", "x"))
PLAIN = an.source("t", "k long, n long")


def shown(*inserts: tuple[Any, dict[str, Any]], source: an.weights.Weighted = SUMS) -> list[Any]:
    with Session() as session:
        view = session.maintain("v", source.consolidate())
        for data, options in inserts:
            session.insert("t", data, **options)
        session.advance()
        return sorted(view.to_pylist())


def test_a_weight_is_a_value_or_a_column_or_in_columns_of_the_rows() -> None:
    wanted = [(1, 2, 0.5), (2, 3, 0.25)]
    assert shown(([(1, 2, 0.5), (2, 3, 0.25)], {})) == wanted
    assert shown(([1], {"diff": (2, 0.5)}), ([{"k": 2}], {"diff": (3, 0.25)})) == wanted
    assert shown(([(1, 2, 0.5), (2, 3, 0.25)], {"diff": ("a", "b")})) == wanted
    assert shown(([(1, 0.5)], {"diff": (2, "b")}), ([(2, 3)], {"diff": ("n", 0.25)})) == wanted
    columns = {"k": [1, 2], "a": [2, 3], "b": [0.5, 0.25]}
    for frame in (pa.table(columns), pa.RecordBatch.from_pydict(columns), pd.DataFrame(columns), pl.DataFrame(columns)):
        assert shown((frame, {"diff": ("a", "b")})) == wanted


def test_weights_have_times_beside_them() -> None:
    with Session() as session:
        view = session.maintain("v", SUMS.consolidate())
        session.insert("t", [(1, 2, 2), (1, 3, 3)], time="at", diff=("n", 0.0))
        session.advance(to=3)
        assert view.to_pylist() == [(1, 2, 0.0)]
        session.advance(to=4)
        assert view.to_pylist() == [(1, 5, 0.0)]


def test_the_negative_of_a_weight_takes_it_back_wherever_it_came_from(tmp_path: Path) -> None:
    with Session(path=tmp_path) as session:
        session.maintain("v", SUMS.consolidate())
        session.insert("t", [1, 2], diff=(2, 0.5))
        session.advance()
    with Session(path=tmp_path) as session:
        view = session.maintain("v", SUMS.consolidate())
        session.retract("t", [1], diff=(2, 0.5))
        session.insert("t", [2], diff=(-1, 0))
        session.advance()
        assert view.to_pylist() == [(2, 1, 0.5)]


def test_kept_sources_know_their_weight_when_they_are_reopened(tmp_path: Path) -> None:
    kept = an.source("t", "k long, n long", keep=True, weight=Min("n"))
    with Session(path=tmp_path) as session:
        session.maintain("v", kept.consolidate())
        session.insert("t", [1], diff=5)
        session.advance()
    with Session(path=tmp_path) as session:
        with pytest.raises(InputError, match=r"Min\('n'\) of source 't' has none"):
            session.retract("t", [1], diff=5)
        session.insert("t", [1], diff=3)
        with pytest.raises(PlanError, match=r"it must be an.source\('t', .*, weight=Min\('n'\)\)"):
            session.maintain("w", an.source("t", "k long, n long", keep=True))
        assert session.maintain("v", kept.consolidate()).to_pylist() == [(1, 5)]
        session.advance()
        assert session.view("v").to_pylist() == [(1, 3)]
        session.replace("t", [1, 2], diff=9)
        session.advance()
        assert sorted(session.view("v").to_pylist()) == [(1, 9), (2, 9)]


def test_rows_given_again_are_compared_with_their_weights() -> None:
    with Session() as session:
        session.maintain("v", SUMS.consolidate())
        session.insert("t", [1, 2], diff=(2, 0.5))
        session.advance()
        with pytest.raises(InputError, match="keeps other counts or sums"):
            session.backfill("t", [1, 2], diff=(2, 0.75))
        session.backfill("t", [1, 2], diff=(2, 0.5))


def test_weights_of_any_type_are_given_as_values() -> None:
    class Pairs(Weight):
        layout, zero = "struct<a: bigint, b: array<string>>", None

        def add(self, a: Any, b: Any) -> Any:
            return max(a, b, key=repr)

    sets = an.source("t", "k long, u array<string>", weight=Union("u"))
    assert shown(([1], {"diff": ["a", "b"]}), ([1], {"diff": ["c"]}), source=sets) == [(1, ["a", "b", "c"])]
    pairs = an.source("t", "k long, p struct<a: bigint, b: array<string>>", weight=Pairs("p"))
    assert shown(([1], {"diff": {"a": 1, "b": ["x"]}}), source=pairs) == [(1, {"a": 1, "b": ["x"]})]
    decimals = an.source("t", "k long, d decimal(9,2)", weight=Sums("d"))
    assert shown(([1, 1], {"diff": Decimal("1.25")}), source=decimals) == [(1, Decimal("2.50"))]


REFUSED: dict[str, tuple[Any, Any, dict[str, Any], type[Exception], str]] = {
    "a tuple for counts": (PLAIN, [(1, 2)], {"diff": (1, 2)}, InputError, "source 't' has no weight, so diff must be"),
    "a dict for counts": (PLAIN, [(1, 2)], {"diff": {"n": 1}}, InputError, "declare the source with .* weight="),
    "a count for a tuple": (SUMS, [1], {"diff": 2}, InputError, r"Sums\('n', 'x'\), so diff must be a tuple of n, x"),
    "too few": (SUMS, [1], {"diff": (2,)}, InputError, r"must be a tuple of n, x, .* got \(2,\)"),
    "another type": (SUMS, [1], {"diff": (1.5, 2)}, SchemaError, "gives 1.5 for column 'n' of its weight, .* bigint"),
    "no column": (pa, pa.table({"k": [1]}), {"diff": ("m", 2)}, SchemaError, "diff='m' is not a column of the data"),
    "twice": (
        pa,
        pa.table({"k": [1], "n": [2]}),
        {"diff": (1, 2)},
        SchemaError,
        "has a column 'n', and diff= gives this column of the weight too",
    ),
    "rows with their weight": (SUMS, [(1, 2, 0.5)], {"diff": (1, 2)}, SchemaError, "has 3 values for the 1 columns k"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_weight_of_a_source_is_refused_by_name(name: str) -> None:
    source, data, options, kind, message = REFUSED[name]
    plan = source if source is PLAIN else SUMS.consolidate()
    with Session() as session:
        session.maintain("v", plan)
        with pytest.raises(kind, match=message):
            session.insert("t", data, **options)
        assert not session._engine.has_pending


def test_a_weight_without_negative_is_not_retracted_but_its_row_is() -> None:
    least = an.source("t", "k long, n long", weight=Min("n"))
    with Session() as session:
        view = session.maintain("v", least.consolidate())
        session.insert("t", [1], diff=5)
        session.insert("t", [1], diff=3)
        session.advance()
        with pytest.raises(InputError, match="retract with a weight needs a weight with negate, and Min"):
            session.retract("t", [1], diff=3)
        session.retract("t", [(1, 3)])
        session.advance()
        assert view.to_pylist() == [(1, 5)]


def test_a_source_has_one_weight_and_rows_that_add_up() -> None:
    with pytest.raises(PlanError, match="has a weight, and key= makes rows of commands"):
        an.source("t", "k long, n long", key="k", weight=Sums("n"))  # type: ignore[call-overload]
    with pytest.raises(PlanError, match="has a weight, and distinct= makes"):
        an.source("t", "k long, n long", distinct=True, weight=Sums("n"))  # type: ignore[call-overload]
    with pytest.raises(TypeMismatchError, match="must be a number, got string"):
        an.source("t", "k long, n string", weight=Sums("n"))
    with pytest.raises(PlanError, match=r"late_rows needs a source, .* without weight="):
        an.late_rows(SUMS)  # type: ignore[arg-type]
    with Session() as session:
        session.maintain("v", SUMS.consolidate())
        with pytest.raises(PlanError, match=r"declared twice, with different .* weight="):
            session.maintain("w", an.source("t", "k long, n long, x double"))


# Spark ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_frames_of_spark_have_their_weights_beside_them(spark: Any) -> None:
    frame = spark.createDataFrame([(1, 2, 0.5), (2, 3, 0.25)], "k long, a long, b double")
    sets = an.source("s", "k long, u array<struct<a: bigint, b: string, at: timestamp_ntz>>", weight=Union("u"))
    one = {"a": 1, "b": "x", "at": datetime(2026, 3, 29, 2, 30)}  # noqa: DTZ001 -- without a zone
    with Session(spark, placement="spark") as session:
        views = session.maintain("v", SUMS.consolidate()), session.maintain("w", sets.consolidate())
        session.insert("t", frame, diff=("a", "b"))
        session.insert("t", frame.select("k"), diff=(1, 0.5))
        session.insert("s", frame.select("k"), diff=[one])
        session.retract("t", frame.select("k", "a").where("k = 2"), diff=("a", 0.25))
        session.advance()
        assert sorted(views[0].to_pylist()) == [(1, 3, 1.0), (2, 1, 0.5)]
        assert sorted(views[1].to_pylist()) == [(1, [one]), (2, [one])]
        for rows, diff, message in (
            (frame.select("k"), ("c", 1), "diff='c' is not a column of the data"),
            (frame.withColumnRenamed("a", "n"), (1, 0.5), "has a column 'n', and diff= gives"),
        ):
            with pytest.raises(SchemaError, match=message):
                session.insert("t", rows, diff=diff)


@pytest.mark.spark
def test_micro_batches_have_their_weights_beside_them(spark: Any, tmp_path: Path) -> None:
    files = Files(spark, tmp_path / "in")
    weighted = an.source("n", "k long, v long, n long", weight=Sums("n"))
    files.put((1, 10, 3), (1, 20, 4, -1))
    with Session(path=tmp_path / "state") as session:
        view = session.maintain("v", weighted.select("k").consolidate())
        follow(session, files, diff="time")
        assert view.to_pylist() == [(1, 7)]
