"""Types and schemas: DDL as Spark reads it, Arrow's other types brought home."""

from __future__ import annotations

import pyarrow as pa
import pytest

from altneu import types as T
from altneu.errors import SchemaError

DDL = (
    "src bigint, d decimal(10,2), xs array<int>, m map<string,bigint>, s struct<a:int,b:string>, "
    "t timestamp NOT NULL, u timestamp_ntz, w binary, x tinyint, y smallint, f float, g double, `my col` boolean, "
    "z array<struct<`a b`:array<date>>>, i interval day to second, v void"
)


def test_ddl_survives_the_round_trip():
    schema = T.parse_schema(DDL)
    assert T.to_ddl(schema) == DDL
    assert T.parse_schema(T.to_ddl(schema)) == schema


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("long", "bigint"),
        ("byte", "tinyint"),
        ("short", "smallint"),
        ("integer", "int"),
        ("real", "float"),
        ("varchar(10)", "string"),
        ("char(3)", "string"),
        ("decimal", "decimal(10,0)"),
        ("dec(5)", "decimal(5,0)"),
        ("numeric(3,1)", "decimal(3,1)"),
        ("timestamp_ltz", "timestamp"),
        ("struct<a int>", "struct<a:int>"),
    ],
)
def test_aliases(alias, name):
    assert T.type_name(T.parse_type(alias)) == name


def test_names_are_sparks(spark):
    for field in T.parse_schema(DDL.rpartition(", i ")[0]):
        ours = T.type_name(field.type)
        theirs = spark.sql(f"select cast(null as {ours}) as x").schema["x"].dataType.simpleString()
        assert theirs.replace("a b", "`a b`") == ours


@pytest.mark.parametrize(
    ("text", "blamed"),
    [
        ("a int b int", "'b'"),
        ("a foo", "'foo'"),
        ("", "''"),
        ("a", "'a'"),
        ("a int, A long", "'A' occurs twice"),
        ("a decimal(50,2)", "decimal(50,2)"),
        ("a decimal(2,3)", "decimal(2,3)"),
        ("a int default 5", "DEFAULT 5"),
        ("a: int", "'a'"),
        ("k int, a varchar(3)", "column 'a': VARCHAR(3) is not supported"),
        ("a char(5)", "column 'a': CHAR(5) is not supported"),
        ("a char", "declare it string"),
        ("a array<struct<b: varchar(3)>>", "column 'a': VARCHAR(3) is not supported"),
        ("a interval year to month", "not supported"),
        ("a map<variant, int>", "must not be variants"),
    ],
)
def test_a_bad_schema_is_refused_with_the_text_that_is_wrong(text, blamed):
    with pytest.raises(SchemaError) as caught:
        T.parse_schema(text)
    assert blamed in str(caught.value)


def test_arrow_schemas_are_normalised():
    schema = pa.schema(
        [
            ("a", pa.large_string()),
            ("b", pa.dictionary(pa.int32(), pa.string_view())),
            ("c", pa.uint8()),
            ("d", pa.uint32()),
            ("e", pa.timestamp("ns", "Europe/Paris")),
            ("f", pa.timestamp("s")),
            ("g", pa.date64()),
            ("h", pa.large_list(pa.field("item", pa.uint16()))),
            ("i", pa.decimal256(20, 3)),
            ("j", pa.binary(4)),
            ("k", pa.float16()),
            ("l", pa.duration("ms")),
            pa.field("m", pa.struct([("x", pa.large_binary())]), nullable=False),
        ]
    )
    actual = T.parse_schema(schema)
    assert T.to_ddl(actual) == (
        "a string, b string, c smallint, d bigint, e timestamp, f timestamp_ntz, g date, h array<int>, "
        "i decimal(20,3), j binary, k float, l interval day to second, m struct<x:binary> NOT NULL"
    )
    assert T.parse_schema(actual) == actual


@pytest.mark.parametrize("kind", [pa.uint64(), pa.decimal256(50, 2), pa.decimal128(5, -2)])
def test_arrow_types_that_no_type_of_spark_holds_are_refused(kind):
    with pytest.raises(SchemaError, match="'here'"):
        T.parse_schema(pa.schema([("here", kind)]))


def test_a_schema_is_text_or_arrow():
    with pytest.raises(SchemaError, match="got list"):
        T.parse_schema([("a", "int")])


def test_comments_in_ddl_have_quotes_as_texts_have():
    """None of them is kept, and none stands in the way."""
    plain = T.parse_schema("a int, b array<int> not null")
    for comment in ("'it''s'", '"it\'s"', "r'a' 'b'"):
        assert T.parse_schema(f"a int COMMENT {comment}, b array<int> NOT NULL COMMENT {comment}") == plain
