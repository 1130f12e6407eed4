"""COLLATE where it has a meaning, and where it is refused: no collation is ever dropped without a word."""

from __future__ import annotations

import pytest

import altneu as an
from altneu import types as T
from altneu.errors import PlanError, UnsupportedFunctionError
from altneu.expressions import parse
from altneu.expressions.collations import NAMES
from altneu.expressions.functions.collating import collation_key
from altneu.sql import query

SCHEMA = T.parse_schema("s string, i int, xs array<string>")
ROWS = an.source("rows", SCHEMA)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("initcap(s COLLATE UTF8_LCASE) = 'a'", r"initcap\(\) of"),
        (
            "concat(s COLLATE UTF8_LCASE, s COLLATE UNICODE) = 'a'",
            "concat: the collations UNICODE and UTF8_LCASE do not",
        ),
        ("upper(s COLLATE UTF8_LCASE) = s COLLATE UTF8_BINARY", "do not mix"),
        *((f"{f}(s COLLATE UNICODE, 'a')", rf"{f}\(\) of") for f in ("contains", "startswith", "endswith", "instr")),
        ("replace(s COLLATE UNICODE, 'a', 'b') = 'B'", r"replace\(\) of"),
        ("split_part(s COLLATE UTF8_LCASE_RTRIM, 'a', 1) = 'B'", r"split_part\(\) of"),
        ("trim('A' FROM s COLLATE UTF8_LCASE) = 'B'", r"trim\(\) of"),
        ("struct(s COLLATE UTF8_LCASE)", r"named_struct\(\) of"),
        ("upper(s COLLATE de_CI)", r"upper\(\) of"),
        ("s COLLATE UTF8_LCASE LIKE 'a%'", r"like\(\) of"),
        ("transform(xs, x -> x COLLATE UTF8_LCASE)", "a text with a collation is not supported here"),
        ("s COLLATE UTF8_LCASE = s COLLATE UTF8_BINARY", "do not mix"),
        ("s COLLATE UTF8_LCASE = i", "not a text"),
        ("i COLLATE UTF8_LCASE = 'a'", "takes a text"),
        ("s COLLATE UNICODE_XI = 'a'", "the collation UNICODE_XI is not supported; there are UTF8_BINARY"),
        ("s COLLATE br = 'a'", "the collation br is not supported: the ICU"),
        ("collate(s, s) = 'a'", "must be a constant"),
        ("CAST(s AS STRING COLLATE UTF8_LCASE) = s", "do not mix"),
        ("CAST(xs AS ARRAY<STRING COLLATE UTF8_LCASE>)", "a COLLATE inside the type"),
    ],
)
def test_where_a_collation_would_be_lost_it_is_refused(text, why):
    with pytest.raises(PlanError, match=why):
        parse(text, SCHEMA)


@pytest.mark.parametrize("text", ["collect_set(s COLLATE UTF8_LCASE)", "mode(s COLLATE UTF8_LCASE)"])
def test_other_aggregates_of_values_take_none(text):
    with pytest.raises(UnsupportedFunctionError, match="collation"):
        ROWS.group_by("i").agg(f"{text} AS x")


_VALUES = [
    ("max(s COLLATE UTF8_LCASE)", "a"),
    ("min(s COLLATE UTF8_LCASE)", "A"),
    ("max_by(i, s COLLATE UTF8_LCASE)", 1),
    ("any_value(s) COLLATE UTF8_LCASE = 'a'", True),
]


@pytest.mark.parametrize(("text", "expected"), _VALUES)
def test_aggregates_that_compare_obey_the_collation(text, expected):
    with an.Session() as session:
        view = session.maintain("v", ROWS.group_by("i").agg(f"{text} AS x").select("x"))
        session.insert("rows", [("a", 1, None), ("A", 1, None)])
        session.advance()
        assert view.to_pylist() == [(expected,)]


def test_a_text_of_a_group_by_a_collation_is_refused_with_what_to_show():
    why = r"several values in a group of equal s COLLATE UTF8_LCASE; show min\(s\) or max\(s\), or .*collation_key\(s"
    with pytest.raises(PlanError, match=why):
        query("SELECT s, count(*) FROM rows GROUP BY s COLLATE UTF8_LCASE", {"rows": ROWS})


def test_a_group_by_a_collation_shows_the_least_of_its_texts():
    text = "SELECT s COLLATE UTF8_LCASE AS t, count(*) AS n FROM rows GROUP BY s COLLATE UTF8_LCASE"
    with an.Session() as session:
        view = session.maintain("v", query(text, {"rows": ROWS}))
        session.insert("rows", [("a", 1, None), ("A", 1, None), (None, 2, None)])
        session.advance()
        assert sorted(view.to_pylist(), key=str) == [("A", 2), (None, 1)]
        session.retract("rows", [("A", 1, None)])
        session.advance()
        assert sorted(view.to_pylist(), key=str) == [("a", 1), (None, 1)]


@pytest.mark.parametrize("call", ["lag(s COLLATE UTF8_LCASE) OVER (ORDER BY i)", "first(s COLLATE UTF8_LCASE) OVER ()"])
def test_windows_of_values_keep_the_collation(call):
    made = ROWS.window(x=call)
    with an.Session() as session:
        view = session.maintain("v", made.select(same="x = 'A'"))
        session.insert("rows", [("a", 1, None)])
        session.advance()
        assert view.to_pylist() == [(None if "lag" in call else True,)]


def test_users_functions_take_none():
    shout = an.udf(lambda text: text + "!", "string")
    with pytest.raises(UnsupportedFunctionError, match="collation"):
        an.sql.query("SELECT shout(s COLLATE UTF8_LCASE) AS x FROM rows", {"rows": ROWS}, {"shout": shout})


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_its_own_key(name):
    import pyarrow as pa

    texts = pa.array(["", " ", "Abc  ", "ΑΣ", "İ", "ß\t ", None, "Ǆx"])
    once = collation_key(texts, name)
    assert collation_key(once, name).equals(once)
    assert once.is_null().equals(texts.is_null())


def test_a_dataframe_with_a_column_of_a_collation_is_refused(spark):
    schema = spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS s").schema
    frame = spark.createDataFrame([("Abc",), ("aBC",)], schema)
    with an.Session(spark) as session:
        for reading in (frame, frame.groupBy("s").count(), frame.filter("s = 'ABC'")):
            with pytest.raises(PlanError, match=r"collation.*; cast it to string"):
                session.maintain("v", reading)
        rows = session.maintain("rows", an.source("t", "s string").distinct())
        session.insert("t", frame)  # a column of a source has none, so its texts are told apart by their bytes
        session.advance()
        assert sorted(rows.to_pylist()) == [("Abc",), ("aBC",)]


def test_a_type_of_spark_connect_with_a_collation_is_refused():
    types_pb2 = pytest.importorskip("pyspark.sql.connect.proto.types_pb2")
    from altneu.expressions.pyspark.connect import type_text

    text = types_pb2.DataType
    assert (
        type_text(text(string=text.String()))
        == type_text(text(string=text.String(collation="UTF8_BINARY")))
        == "string"
    )
    with pytest.raises(PlanError, match="string collate UNICODE"):
        type_text(text(string=text.String(collation="UNICODE")))


_ODD = ["", "a", "A", "aBcABc", "b", "bC", "İ", "i", "i̇", "\u0307", "xİy", "İİ", "ΑΣ", "ς", "Σα", "ß", "ẞ", "É,é", "é"]
_SEARCHES = [
    *(f"{f}(s COLLATE UTF8_LCASE, p)" for f in ("contains", "startswith", "endswith", "instr", "find_in_set")),
    *(f"locate(p, s COLLATE UTF8_LCASE, {n})" for n in (0, 1, 2, 9)),
    "position(p IN s COLLATE UTF8_LCASE)",
    "CAST(replace(s COLLATE UTF8_LCASE, p, '_') AS STRING)",
    "CAST(replace(s COLLATE UTF8_LCASE, p) AS STRING)",
    *(
        f"CAST({f}(s COLLATE UTF8_LCASE, p, {n}) AS STRING)"
        for f in ("split_part", "substring_index")
        for n in (1, 2, -1)
    ),
]


def test_searches_by_lower_case_find_what_spark_finds(spark):
    import pyarrow as pa

    from tests.expressions.against_spark import compare

    pairs = [(a, b) for a in [*_ODD, None] for b in [*_ODD, None]]
    table = pa.table(
        {"s": pa.array([a for a, _ in pairs], pa.string()), "p": pa.array([b for _, b in pairs], pa.string())}
    )
    assert compare(spark, table, _SEARCHES) == []
