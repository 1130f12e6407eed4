"""Compare expressions with Spark itself on the same rows.

All expressions go into one select: each stands in ``CASE WHEN ok THEN expression END``, where ``ok`` says for which
rows altneu gave a value, so that Spark evaluates it there and nowhere else; an error that altneu missed then fails
the query. Of the rows that altneu says fail, some are put to Spark one by one, and must fail with the same error class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.classic.dataframe import DataFrame

from altneu import types as T
from altneu.columnar.canonical import canonical
from altneu.columnar.python_values import python_values
from altneu.columnar.rows import Rows
from altneu.expressions import Result, parse
from altneu.runtime.spark.versions import from_arrow, spark_schema, to_arrow

ASKED_PER_CODE = 2
_OF_MAPS = ("map", "transform_keys", "str_to_map")


def compare(spark, table: pa.Table, expressions: Sequence[str], tolerance: dict[str, float] | None = None) -> list[str]:
    """Differences between altneu and Spark, one text each; empty when they agree."""
    schema = T.parse_schema(table.schema)
    rows = Rows.from_batch(table)
    compiled = {text: parse(text, schema) for text in expressions}
    results = {text: expr.evaluate(rows) for text, expr in compiled.items()}
    differences = _types(spark, table, compiled)
    differences += _values(spark, table, results, tolerance or {})
    return differences + _errors(spark, table, results)


def as_frame(spark, table: pa.Table) -> DataFrame:
    """Rows in Spark; timestamps without a zone are TIMESTAMP_NTZ, which Spark itself does not make of Arrow's."""
    return from_arrow(spark, table, spark_schema(table.schema))


def _types(spark, table, compiled):
    frame = as_frame(spark, table.slice(0, 0))
    columns = {text: f"({text}) AS e{i}" for i, text in enumerate(compiled)}
    try:
        fields = frame.selectExpr(*columns.values()).schema
    except Exception:  # noqa: BLE001 -- asked one by one, to name the one at fault
        differences = []
        for text, column in columns.items():
            try:
                frame.selectExpr(column)
            except Exception as error:  # noqa: BLE001 -- whatever Spark raises is a difference
                differences.append(f"{text}: Spark refuses it: {_reason(error)}")
        return differences
    names = {
        text: field.dataType.simpleString().replace(", ", ",") for text, field in zip(compiled, fields, strict=True)
    }
    return [
        f"{text}: Spark's type is {names[text]}, ours {T.type_name(expr.type)}"
        for text, expr in compiled.items()
        if names[text] != T.type_name(expr.type).replace("`", "")
    ]


def _values(spark, table, results, tolerance):
    oks = np.stack([np.ones(len(table), bool) if r.failed is None else ~r.failed for r in results.values()], axis=1)
    flat = pa.array(oks.reshape(-1))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(len(table) + 1) * oks.shape[1], pa.int32()), flat)
    wide = table.append_column("__row", pa.array(range(len(table)))).append_column("__ok", lists)
    frame = as_frame(spark, wide)
    columns = [f"CASE WHEN __ok[{i}] THEN ({text}) END AS e{i}" for i, text in enumerate(results)]
    try:
        actual = to_arrow(frame.repartition(1).selectExpr("__row", *columns)).sort_by("__row")
    except Exception as error:  # noqa: BLE001 -- narrowed down to the expressions at fault
        return _narrow(spark, frame, results, columns, error)
    differences = []
    for i, (text, result) in enumerate(results.items()):
        differences += _column(
            text, table, result, plain(actual.column(f"e{i}").combine_chunks()), tolerance.get(text, 0.0)
        )
    return differences


def _narrow(spark, frame, results, columns, error):
    differences = []
    for text, column in zip(results, columns, strict=True):
        try:
            to_arrow(frame.repartition(1).selectExpr(column))
        except Exception as one:  # noqa: BLE001 -- reported
            differences.append(f"{text}: Spark fails where altneu has a value: {_reason(one)}")
    return differences or [f"Spark fails on all expressions together: {_reason(error)}"]


def _reason(error: Exception) -> str:
    text = str(error)
    return text[text.find("[") :].splitlines()[0][:300] if "[" in text else text.splitlines()[0][:300]


def _column(text: str, table: pa.Table, result: Result, theirs: list, tolerance: float) -> list[str]:
    differences = []
    for row, (mine, their) in enumerate(zip(plain(result.values), theirs, strict=True)):
        if result.failed is not None and result.failed[row]:
            continue
        if not same(mine, their, tolerance):
            differences.append(f"{text} at {_shown(table, row, text)}: Spark {their!r}, altneu {mine!r}")
    return differences[:3]


def plain(array: pa.Array) -> list:
    """Python values; moments as integers, since Python's end at the year 9999."""
    if pa.types.is_timestamp(array.type) or pa.types.is_duration(array.type):
        array = array.cast(pa.int64())
    if pa.types.is_date(array.type):
        array = array.cast(pa.int32())
    return python_values(canonical(array))  # the entries of a map have no order, neither here nor in Spark


def same(mine: object, their: object, tolerance: float = 0.0) -> bool:
    """Whether two values are equal, floats bit by bit (NaN being NaN, -0.0 being 0.0)."""
    if isinstance(mine, float) and isinstance(their, float):
        if math.isnan(mine) or math.isnan(their):
            return math.isnan(mine) and math.isnan(their)
        if mine == their:
            return True
        return tolerance > 0 and math.isclose(mine, their, rel_tol=tolerance, abs_tol=tolerance)
    if isinstance(mine, (list, tuple)) and isinstance(their, (list, tuple)):
        return len(mine) == len(their) and all(same(a, b, tolerance) for a, b in zip(mine, their, strict=True))
    if isinstance(mine, dict) and isinstance(their, dict):
        return mine.keys() == their.keys() and all(same(mine[k], their[k], tolerance) for k in mine)
    return type(mine) is type(their) and mine == their


def _errors(spark, table, results):
    """At every row that altneu says fails, Spark has no value either; for a few of each class the class is the same."""
    failing = {text: result for text, result in results.items() if result.failed is not None}
    if not failing:
        return []
    wide = table.append_column("__row", pa.array(range(len(table))))
    # Spark's builder of maps is left in disorder by a failure, so that it cannot be tried on more than one row
    tried = {text: result for text, result in failing.items() if not text.startswith(_OF_MAPS)}
    spark.conf.set("spark.sql.subexpressionElimination.enabled", False)  # it would lift a part out of the try
    try:
        tries = _tried(spark, as_frame(spark, wide).repartition(1), list(tried))
        actual = to_arrow(tries).sort_by("__row")
    finally:
        spark.conf.unset("spark.sql.subexpressionElimination.enabled")
    differences = []
    for i, (text, result) in enumerate(tried.items()):
        given = np.asarray(actual.column(f"e{i}").combine_chunks().is_valid()) & result.failed
        if given.any():
            row = int(given.argmax())
            value = plain(actual.column(f"e{i}").slice(row, 1).combine_chunks())[0]
            differences.append(f"{text} at {_shown(table, row, text)}: Spark {value!r}, altneu {result.error(row)}")
    return differences + _codes(spark, table, failing)


def _tried(spark, frame, texts):
    """The expressions, each null where Spark's evaluation raises (Catalyst's TryEval has no name in SQL)."""
    jvm, parser = spark._jvm, spark._jsparkSession.sessionState().sqlParser()
    columns = [frame._jdf.col("__row")]
    for i, text in enumerate(texts):
        tree = jvm.org.apache.spark.sql.catalyst.expressions.TryEval(parser.parseExpression(text))
        columns.append(getattr(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(tree), "as")(f"e{i}"))
    array = spark._sc._gateway.new_array(jvm.org.apache.spark.sql.Column, len(columns))
    for i, column in enumerate(columns):
        array[i] = column
    return DataFrame(frame._jdf.select(array), spark)


def _codes(spark, table, failing):
    differences, asked = [], {}
    for text, result in failing.items():
        for row in np.flatnonzero(result.failed):
            code, message = result.error(int(row))
            if asked.setdefault(code, 0) >= ASKED_PER_CODE or asked.get((code, text)):
                continue
            asked[code] += 1
            asked[code, text] = 1
            actual = _verdict(as_frame(spark, table.slice(int(row), 1)), text)
            if actual != code:
                shown = _shown(table, int(row), text)
                differences.append(f"{text} at {shown}: Spark {actual}, altneu {code}: {message}")
    return differences


def _shown(table, row: int, text: str) -> dict[str, object]:
    return {k: v for k, v in table.slice(row, 1).to_pylist()[0].items() if k in text}


def _verdict(frame, text: str) -> str:
    """The error class that Spark raises, or the value that it gives."""
    try:
        got = to_arrow(frame.selectExpr(f"({text}) AS x"))
    except Exception as error:  # noqa: BLE001 -- its class is what is asked for
        return (getattr(error, "getCondition", lambda: None)() or _reason(error)).strip("[").split(".")[0]
    return repr(plain(got.column(0).combine_chunks())[0])
