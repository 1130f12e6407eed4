"""Comparing a view with Spark's own query over the same rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.errors import InputError
from altneu.provenance.finding import EVERYTHING, Finder, counted
from altneu.runtime.spark.versions import to_arrow
from altneu.testing.asserting import assert_contents, rows_of
from altneu.types import normalise_type, type_name
from altneu.views.contents import repeated
from altneu.views.view import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def assert_same_as_spark(
    view: View,
    query: str | DataFrame | Callable[[SparkSession], DataFrame],
    spark: SparkSession | None = None,
    *,
    tables: Mapping[str, Any] | None = None,
    at: int | None = None,
    tolerance: float = 0.0,
) -> None:
    """Assert that a view equals the result of Spark's own query, with the same counts, names and types, in any order.

    ``query`` is Spark SQL, a DataFrame, or a function that takes the Spark session and returns a DataFrame. For SQL and
    functions, temporary views with the names of the sources have their rows: those of ``tables`` (anything that
    ``spark.createDataFrame`` accepts, or a DataFrame), or by default the rows that the session stores of its sources at
    that time, which are all rows of a source with ``keep=True``. Floating-point numbers may differ by a relative error
    of ``tolerance``.

    Cost:   Spark runs the query; both results are fetched into the driver.

    Raises:
        AssertionError: they differ; shows the rows that only one of them has.
        InputError: there is no Spark, or the session does not store the rows of a source.
    """
    spark = spark or view._readings.spark  # type: ignore[attr-defined]
    if spark is None:
        raise InputError("a comparison needs a Spark session: assert_same_as_spark(view, query, spark)")
    if isinstance(query, str) or callable(query):
        inputs = dict(tables) if tables is not None else _retained(view, at)
        with _shown(spark, inputs):
            frame = spark.sql(query) if isinstance(query, str) else query(spark)
            answer = to_arrow(frame)
    else:
        answer = to_arrow(query)
    actual = rows_of(view, at)
    _same_columns(view, actual.schema, answer.schema)
    answer = pa.table(
        [c.cast(f.type) for c, f in zip(answer.columns, actual.schema, strict=True)], schema=actual.schema
    )
    if tolerance and _close(actual, answer, tolerance):
        return
    assert_contents(actual, answer)


def _retained(view: View, at: int | None) -> dict[str, pa.Table]:
    """The rows that the session of a view stores of its sources."""
    engine: Any = view._readings
    finder = Finder.of(engine, engine.known(view.name).readable(at))
    tables = {}
    for name in engine.sources:
        updates = finder.find(engine.source(name), EVERYTHING)
        if updates is None:
            raise InputError(
                f"the session does not keep the rows of source {name!r}; declare it with keep=True, or give them: "
                f"assert_same_as_spark(..., tables={{{name!r}: rows}})"
            )
        rows = repeated(counted(updates))
        tables[name] = pa.Table.from_arrays(list(rows.columns), schema=rows.schema)
    return tables


@contextmanager
def _shown(spark: SparkSession, tables: Mapping[str, Any]) -> Iterator[None]:
    """A context in which tables are temporary views of Spark."""
    try:
        for name, rows in tables.items():
            frame = rows if hasattr(rows, "createOrReplaceTempView") else spark.createDataFrame(rows)
            frame.createOrReplaceTempView(name)
        yield
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)


def _same_columns(view: View, actual: pa.Schema, answer: pa.Schema) -> None:
    mine = [(f.name.lower(), type_name(f.type)) for f in actual]
    theirs = [(f.name.lower(), type_name(normalise_type(f.type))) for f in answer]
    if mine != theirs:
        shown = [", ".join(f"{n} {t}" for n, t in columns) for columns in (mine, theirs)]
        raise AssertionError(f"view {view.name} has the columns {shown[0]}; Spark's answer has {shown[1]}")


def _close(actual: pa.Table, answer: pa.Table, tolerance: float) -> bool:
    """Whether rows are equal one by one, with floating-point numbers compared approximately."""
    floats = [i for i, f in enumerate(actual.schema) if pa.types.is_floating(f.type)]
    lists: list[list[Any]] = [list(Rows.from_batch(t).to_pylist()) for t in (actual, answer)]
    mine, theirs = (sorted(rows, key=lambda row: _key(row, floats)) for rows in lists)
    return len(mine) == len(theirs) and all(
        _near(a, b, tolerance) if i in floats else a == b
        for one, other in zip(mine, theirs, strict=True)
        for i, (a, b) in enumerate(zip(one, other, strict=True))
    )


def _key(row: tuple[Any, ...], floats: list[int]) -> tuple[str, ...]:
    """A sort key: the exact values first, then floating-point numbers with fewer digits."""
    exact = tuple(repr(v) for i, v in enumerate(row) if i not in floats)
    return (*exact, *(f"{row[i]:.6g}" if row[i] is not None else "" for i in floats))


def _near(a: float | None, b: float | None, tolerance: float) -> bool:
    if a is None or b is None:
        return a is b
    return (math.isnan(a) and math.isnan(b)) or math.isclose(a, b, rel_tol=tolerance)
