"""Functions of users in expressions: what they are given, what is made of their results, and what is refused."""

from __future__ import annotations

import datetime as dt
import random
import time
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import altneu as an
from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import ImpureFunctionError, NonDeterministicError, PlanError, SchemaError, TypeMismatchError
from altneu.expressions import parse
from altneu.linear.chance import by_chance
from altneu.linear.checked import same
from altneu.linear.user_values import taken, taken_or_null
from tests.oracle.recompute import plain

ANSWERS = [
    tuple(part.strip() for part in line.split(" | ", 3))
    for line in (Path(__file__).parent / "spark_udf_answers.txt").read_text().splitlines()
    if not line.startswith("#")
]
NAMES = {"datetime": dt, "Decimal": Decimal, "nan": float("nan")}
OF_JAVA = "a text of Java's"

DIFFERENT = {
    # Spark keeps the lowest bits of a whole number that does not fit; here it is an error
    *(("tinyint", value, "pickled") for value in ("300", "1099511627776")),
    ("int", "1099511627776", "pickled"),
    # null in Spark, whose pickled form of such a number is another type; here it does not fit
    *((kind, "1180591620717411303424", "pickled") for kind in ("tinyint", "int", "bigint")),
    # texts that Java makes of what it has no text for: {a=1}
    *(("string", value, "pickled") for value in ("[1, 2]", "{'a': 1}", "{'a': 1, 'b': 'x'}", "[None, 'x']")),
    ("string", "datetime.timedelta(seconds=1, microseconds=500000)", "pickled"),
}
TUPLES = {("array<string>", text, "arrow") for text in ("(1, 2)", "('p', 'q')")}
"""Spark takes tuples for arrays of numbers alone."""
BYTES = {(f"array<{kind}>", text) for kind in ("int", "string") for text in ("b'xy'", "bytearray(b'z')")}
"""Spark takes pickled bytes for arrays of numbers."""


def value_of(text: str) -> Any:
    return eval(text, NAMES)  # noqa: S307 -- texts of this folder


def made_of(value: Any, kind: pa.DataType, how: str) -> Any:
    """What altneu makes of a result."""
    try:
        array = (taken if how == "arrow" else taken_or_null)([value], kind)
    except (pa.ArrowException, SchemaError, OverflowError, TypeError, ValueError, ArithmeticError):
        return "error"
    return plain(array[0].as_py())


@pytest.mark.parametrize("kind", dict.fromkeys(answer[0] for answer in ANSWERS))
def test_results_are_converted_as_spark_converts_them(kind):
    for _, text, how, answer in (a for a in ANSWERS if a[0] == kind):
        found = made_of(value_of(text), T.parse_type(kind), how)
        if answer == OF_JAVA or (kind, text, how) in DIFFERENT:
            assert found == "error", (text, how)
        elif answer == "error":
            assert found == "error" or (kind, text, how) in TUPLES, (text, how)
        else:
            wanted = plain(_in_utc(value_of(answer.replace("Row(", "dict(")), kind))
            assert same(found, wanted) or (kind, text) in BYTES, (text, how, found, wanted)


def _in_utc(value: Any, kind: str) -> Any:
    if kind == "timestamp" and value is not None:
        return value.replace(tzinfo=dt.UTC)
    if kind.startswith("map") and value is not None:
        return list(value.items())
    return value


# what functions are given ---------------------------------------------------------------------------------------------

SCHEMA = T.parse_schema(
    "b boolean, i int, l bigint, x double, d decimal(8,2), s string, y binary, day date, at timestamp, "
    "ntz timestamp_ntz, xs array<timestamp>, m map<string, bigint>, st struct<a int, b string>"
)
AT = dt.datetime(2020, 1, 2, 3, 4, 5, 6)  # noqa: DTZ001 -- as Spark gives it
ROW = (
    *(True, 1, 2, 1.5, Decimal("1.25"), "a", b"xy", AT.date(), AT.replace(tzinfo=dt.UTC), AT),
    *([AT.replace(tzinfo=dt.UTC), None], [("k", 5)], {"a": 1, "b": None}),
)


NULLS = (None,) * len(ROW)


def evaluated(f: an.Udf, *columns: str, rows: Any = (ROW, NULLS)) -> Any:
    """The values and failures of a call."""
    result = parse(f(*columns), SCHEMA).evaluate(Rows.from_pylist(list(rows), SCHEMA))
    failed = {} if result.failed is None else {i: result.error(i) for i in range(len(rows)) if result.failed[i]}
    return result.values.to_pylist(), failed


def test_functions_are_given_values_as_spark_gives_them():
    seen: list[Any] = []
    f = an.udf(lambda *values: seen.append(values), "int", memo=True)  # which is called once
    evaluated(f, *SCHEMA.names)
    first, nulls = seen
    assert first[:10] == (True, 1, 2, 1.5, Decimal("1.25"), "a", b"xy", AT.date(), AT, AT)
    assert (first[8].tzinfo, first[10], first[11]) == (None, [AT, None], {"k": 5})
    assert (first[12].a, first[12][1]) == (1, None)
    assert nulls == (None,) * len(ROW)


@pytest.mark.parametrize("vectorized", ["arrow", "pandas"])
def test_functions_of_columns_are_given_them_whole(vectorized):
    seen: list[Any] = []

    def keep(*columns: Any) -> Any:
        seen.append(columns)
        return columns[2]

    assert evaluated(an.udf(keep, "bigint", vectorized=vectorized, memo=True), *SCHEMA.names) == ([2, None], {})
    ((*columns,),) = seen
    if vectorized == "arrow":
        assert [c.type for c in columns] == SCHEMA.types
    else:
        assert columns[8].dtype == "datetime64[ns]"
        assert list(columns[12].columns) == ["a", "b"]
        assert columns[5].tolist() == ["a", None]


def test_what_a_function_raises_is_the_error_of_its_row():
    def inverse(i: int | None) -> float:
        return 1 / i  # type: ignore[operator]

    rows = [(None, i, *(None,) * 11) for i in (1, 0, None, 4)]
    values, failed = evaluated(an.udf(inverse, "double"), "i", rows=rows)
    assert values == [1.0, None, None, 0.25]
    assert failed[1] == ("PYTHON_EXCEPTION", "ZeroDivisionError: division by zero")
    assert failed[2][1].startswith("TypeError: unsupported operand type(s) for /: 'int' and 'NoneType'")
    assert sorted(failed) == [1, 2]


@pytest.mark.parametrize("vectorized", ["arrow", "pandas"])
def test_of_a_batch_only_the_rows_that_fail_are_errors(vectorized):
    calls: list[int] = []

    def picky(column: Any) -> Any:
        values = column.tolist() if vectorized == "pandas" else column.to_pylist()
        calls.append(len(values))
        if 3 in values or 77 in values:
            raise ValueError("no")
        return column

    rows = [(None, i, *(None,) * 11) for i in range(100)]
    values, failed = evaluated(an.udf(picky, "int", vectorized=vectorized, memo=True), "i", rows=rows)
    assert values == [None if i in (3, 77) else i for i in range(100)]
    assert failed == dict.fromkeys((3, 77), ("PYTHON_EXCEPTION", "ValueError: no"))
    assert len(calls) < 32  # halves of halves
    calls.clear()
    evaluated(an.udf(picky, "int", vectorized=vectorized, memo=True), "i", rows=rows[4:70])
    assert calls == [66]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda _: 5, "f returned 5, and must return an Arrow array"),
        (lambda c: c.slice(1), "f returned 0 values for 1 rows"),
        (lambda c: pa.array(["x"] * len(c)), "f returned values that do not fit its type: Failed to parse string: 'x'"),
    ],
)
def test_what_a_function_of_arrays_returns_is_checked(answer, message):
    _, failed = evaluated(an.udf(answer, "int", vectorized="arrow", name="f"), "i", rows=[ROW])
    assert failed[0][0] == "PYTHON_RESULT_TYPE"
    assert failed[0][1].startswith(message)


def test_a_result_that_does_not_fit_is_the_error_of_its_row():
    values, failed = evaluated(an.udf(lambda i: i or [1], "int", name="f"), "i")
    assert values == [1, None]
    assert failed[1][0] == "PYTHON_RESULT_TYPE"
    assert failed[1][1].startswith("f returned [1], which does not fit its type")


def test_the_function_is_not_called_for_rows_whose_arguments_fail():
    seen: list[Any] = []
    f = an.udf(seen.append, "int", memo=True)
    rows = [(None, i, *(None,) * 11) for i in (1, 0, 2)]
    result = parse(f(an.lit(4) / an.col("i")), SCHEMA).evaluate(Rows.from_pylist(rows, SCHEMA))
    assert seen == [4.0, 2.0]
    assert result.error(1)[0] == "DIVIDE_BY_ZERO"


def test_no_date_beyond_python_reaches_a_function():
    far = pa.array([2932897], pa.int32()).cast(pa.date32())
    schema = pa.schema([("day", pa.date32())])
    result = parse(an.udf(str, "string", name="f")("day"), schema).evaluate(Rows(schema, (far,), 1))
    assert result.error(0)[0] == "PYTHON_VALUE"
    assert "argument 1 of f is '+10000-01-01', for which Python has no value" in result.error(0)[1]


# identity and refusals ------------------------------------------------------------------------------------------------


def test_equal_functions_make_equal_expressions():
    def of(n: int) -> an.Udf:
        return an.udf(lambda i: i + n, "int", name="f")

    one, same_one, other = (parse(f("i"), SCHEMA) for f in (of(1), of(1), of(2)))
    assert one == same_one
    assert one != other
    assert one.sql == other.sql == "f(i)"
    assert parse(an.udf(lambda i: i, "int", name="f", memo=True)("i"), SCHEMA) != parse(
        an.udf(lambda i: i, "int", name="f")("i"), SCHEMA
    )
    rows = an.source("rows", "i int")
    assert rows.select(y=of(1)("i")).node.fingerprint == rows.select(y=of(1)("i")).node.fingerprint
    assert rows.select(y=of(1)("i")).node.fingerprint != rows.select(y=of(2)("i")).node.fingerprint
    assert rows.filter(of(1)("i") > 0).node.fingerprint != rows.filter(of(2)("i") > 0).node.fingerprint


def test_two_functions_of_one_name_are_both_called():
    one, other = (an.udf(lambda i, n=n: i + n, "int", name="f") for n in (1, 10))
    rows = an.source("rows", "i int")
    with an.Session() as session:
        view = session.maintain("v", rows.select(a=one("i") + one("i"), b=other("i") * other("i")))
        session.insert("rows", [5])
        session.advance()
        assert view.to_pylist() == [(12, 225)]


def test_a_function_of_batches_that_looks_beyond_its_row_is_found():
    centred = an.udf(lambda i: pc.subtract(i, pc.mean(i)), "double", vectorized="arrow", name="centred")
    with pytest.raises(ImpureFunctionError, match=r"returned -1\.0 and then 0\.0 for 1"):
        evaluated(centred, "i", rows=[(None, i, *(None,) * 11) for i in (1, 3)])


def helper() -> int:
    return random.randint(1, 6)


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda _: random.random(), "random.random"),
        (lambda x: x + helper(), "random.randint"),
        (lambda _: uuid.uuid4().hex, "uuid.uuid4"),
        (lambda _: time.time(), "time.time"),
        (lambda _: dt.datetime.now(), "datetime.datetime.now"),  # noqa: DTZ005
        (lambda _: pd.Timestamp.now(), "pandas.Timestamp.now"),
        (lambda x: random.Random(x).random(), None),
        (lambda x: uuid.uuid5(uuid.NAMESPACE_DNS, x).hex, None),
        (lambda _: dt.datetime(2020, 1, 1), None),  # noqa: DTZ001
    ],
)
def test_chance_and_the_clock_are_refused_by_name(function, what):
    if what is not None:
        what = what.replace("pandas.Timestamp", "pandas.Timestamp")
        with pytest.raises(NonDeterministicError, match=f"f calls {what}, which answers differently each time"):
            an.udf(function, "string", name="f")
        an.udf(function, "string", memo=True)
    else:
        assert by_chance(function) is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: an.udf(len, "nonsense"), SchemaError, "nonsense"),
        (
            lambda: an.udf("int")(len),
            PlanError,
            r"udf needs a function, got 'int'; as a decorator it is written @an\.udf",
        ),
        (lambda: an.udf(len, 5), SchemaError, "returns must be a type, such as 'int' or 'array<string>', got 5"),
        (lambda: an.udf(len, "int", vectorized="numpy"), PlanError, "vectorized must be 'arrow', 'pandas' or None"),
        (lambda: parse(an.udf(lambda a: a, name="f")("i", "l"), SCHEMA), TypeMismatchError, "cannot be called with 2"),
        (
            lambda: parse(an.udf(lambda *a: a, name="f")(None), SCHEMA),
            TypeMismatchError,
            "argument 1 is NULL without a",
        ),
        (lambda: parse(an.udf(lambda *a: a, vectorized="arrow")(), SCHEMA), TypeMismatchError, "at least one argument"),
    ],
)
def test_what_is_no_function_of_a_row_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


# PySpark's own --------------------------------------------------------------------------------------------------------


@pytest.mark.spark
def test_functions_of_pyspark_answer_as_in_spark(spark):
    from pyspark.sql import functions as sf
    from pyspark.sql.types import LongType

    @sf.pandas_udf("long")
    def doubled(x: pd.Series) -> pd.Series:
        return x * 2

    @sf.pandas_udf("long")
    def tripled(parts: Iterator[pd.Series]) -> Iterator[pd.Series]:
        for x in parts:
            yield x * 3

    @sf.pandas_udf("long")
    def added(parts: Iterator[tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:
        for x, y in parts:
            yield x + y

    @sf.pandas_udf("struct<a: long, b: string>")
    def framed(x: pd.Series, s: pd.Series) -> pd.DataFrame:
        return pd.DataFrame({"a": x, "b": s.str.upper()})

    functions = {
        "plain": (sf.udf(lambda x: None if x is None else x + 1, LongType()), "x"),
        "pickled": (sf.udf(lambda x: x, "int", useArrow=False), "x"),
        "text": (sf.udf(lambda s: s and s * 2), "s"),
        "day": (sf.udf(lambda at: at and at.date(), "date"), "at"),
        "later": (sf.udf(lambda at: at and at + dt.timedelta(days=1), "timestamp"), "at"),
        "pairs": (sf.udf(lambda x, s: (x, s), "struct<a: long, b: string>"), "x", "s"),
        "field": (sf.udf(lambda st: st and st.a, "int"), "st"),
        "entries": (sf.udf(lambda m: None if m is None else sorted(m), "array<string>"), "m"),
        "doubled": (doubled, "x"),
        "tripled": (tripled, "x"),
        "added": (added, "x", "x"),
        "framed": (framed, "x", "s"),
    }
    if hasattr(sf, "arrow_udf"):
        functions["arrow"] = (sf.arrow_udf(lambda x: pc.multiply(x, 7), "long"), "x")
    rows = [
        (1, "a", AT.replace(tzinfo=dt.UTC), {"a": 1, "b": "x"}, {"k": 5, "j": 6}),
        (None, None, None, None, None),
        (2**40, "é", AT.replace(tzinfo=dt.UTC), {"a": None, "b": None}, {}),
    ]
    ddl = "x long, s string, at timestamp, st struct<a: int, b: string>, m map<string, long>"
    functions.pop("pickled")  # of 2^40 as an int Spark keeps the lowest bits
    frame = spark.createDataFrame(rows, ddl).select(*(f(*names).alias(n) for n, (f, *names) in functions.items()))
    source = an.source("rows", ddl.replace(": ", " "))
    mine = source.select(**{n: an.udf(f)(*names) for n, (f, *names) in functions.items()})
    assert mine.schema.types == [T.normalise_type(f.type, "") for f in frame.toArrow().schema]
    with an.Session(spark, placement="spark") as session:
        view = session.maintain("v", mine)
        session.insert("rows", frame.sparkSession.createDataFrame(rows, ddl))
        session.advance()
        wanted = sorted((tuple(map(plain, row.values())) for row in frame.toArrow().to_pylist()), key=str)
        assert sorted((tuple(map(plain, row.values())) for row in view.to_arrow().to_pylist()), key=str) == wanted


@pytest.mark.spark
def test_functions_registered_in_spark_are_found_by_name(spark):
    from pyspark.sql import functions as sf

    spark.udf.register("plus_one", lambda x: x + 1, "int")
    spark.udf.register("doubled", sf.pandas_udf(lambda x: x * 2, "long"))
    spark.udf.register("dice", sf.udf(lambda: 4, "int").asNondeterministic())
    with an.Session(spark) as session:
        session.sql("CREATE TABLE t (k INT); INSERT INTO t VALUES (1), (2)")
        session.sql("CREATE MATERIALIZED VIEW v AS SELECT plus_one(k) AS a, doubled(k) AS b FROM t")
        assert sorted(session.sql("SELECT * FROM v").to_pylist()) == [(2, 2), (3, 4)]
        session.sql("DELETE FROM t WHERE plus_one(k) = 2")
        assert session.sql("SELECT * FROM v").to_pylist() == [(3, 4)]
        assert spark.sql("SELECT plus_one(2), doubled(2)").first()[:] == (3, 4)
        with pytest.raises(NonDeterministicError, match="dice is declared nondeterministic"):
            session.sql("SELECT dice()")
        with pytest.raises(PlanError, match=r"there is no function 'plus_two'.*did you mean plus_one"):
            session.sql("SELECT plus_two(k) FROM t")


def test_functions_of_groups_are_refused_by_name():
    class Grouped:
        func, returnType, evalType, deterministic, __name__ = len, "int", 202, True, "totals"  # noqa: N815

        def __call__(self) -> None: ...

    with pytest.raises(
        PlanError, match=r"totals aggregates groups, which group_by\(\.\.\.\)\.reduce\(\.\.\.\) does here"
    ):
        an.udf(Grouped())
    Grouped.evalType, Grouped.deterministic = 100, False
    with pytest.raises(NonDeterministicError, match=r"totals is declared nondeterministic \(asNondeterministic\(\)\)"):
        an.udf(Grouped())
    assert an.udf(Grouped(), memo=True).function.form == "pickled"
