"""Tables as text: read, written, and refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import altneu as an
from altneu.errors import InputError, SchemaError
from altneu.testing import table, to_text


def test_types_are_the_headers_the_schemas_or_the_cells():
    rows_shown = table("""
        | id | name | share | ok    | price decimal(9,2) | time | diff |
        |----|------|-------|-------|--------------------|------|------|
        | 1  | tea  | 0.5   | true  | 1.50               | 0    | +1   |
        | 2  | NULL | NaN   | FALSE |                    | 3    | -2   |
    """)
    kinds = [pa.int64(), pa.string(), pa.float64(), pa.bool_(), pa.decimal128(9, 2), pa.int64(), pa.int64()]
    assert rows_shown.schema.types == kinds
    assert rows_shown.to_pylist()[0]["price"] == Decimal("1.50")
    assert rows_shown.column("name").to_pylist() == ["tea", None]
    source = an.source("s", "id int, day date, at timestamp_ntz")
    rows_shown = table("id | day | at\n7 | 2024-02-29 | 2024-02-29 12:30:00", source)
    assert rows_shown.to_pylist() == [
        {"id": 7, "day": dt.date(2024, 2, 29), "at": dt.datetime.fromisoformat("2024-02-29T12:30")}
    ]
    assert rows_shown.schema.field("id").type == pa.int32()


def test_quoted_texts_and_nested_cells():
    rows_shown = table(
        """
        a        | b array<long> | c struct<x:long> | d map<string,long>
        ' a|b ''' | [1, null]     | {"x": 2}         | {"k": 3}
        ''       | []            | NULL             | {}
        null     |               | {"x": null}      |
        """
    )
    assert rows_shown.column("a").to_pylist() == [" a|b '", "", None]
    assert rows_shown.column("b").to_pylist() == [[1, None], [], None]
    assert rows_shown.column("c").to_pylist() == [{"x": 2}, None, {"x": None}]
    assert rows_shown.column("d").to_pylist() == [[("k", 3)], [], None]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("", InputError, "must begin with a header"),
        ("a | a\n1 | 2", InputError, "line 1: a name occurs twice"),
        ("a | \n1 | 2", InputError, "line 1: a column of the header has no name"),
        ("a | b\n1 | 2\n3", InputError, "line 3: 1 cells, but the header has 2"),
        ("a long\n1\nx", SchemaError, "line 3, column 'a' must be bigint, got 'x'"),
        ("a nonsense\n1", SchemaError, "column 'a' of the table"),
        ("a array<long>\n[", SchemaError, r"line 2, column 'a' must be array<bigint>, got '\['"),
        ("day date\n2023-02-29", SchemaError, "line 2, column 'day'"),
    ],
)
def test_what_does_not_fit_is_reported_by_line_and_column(text, error, message):
    with pytest.raises(error, match=message):
        table(text)


TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\v\f\x1c\x1d\x1e\x85\u2028\u2029"))


@given(st.lists(st.tuples(st.none() | TEXTS, st.none() | st.integers(-9, 9), st.booleans())))
def test_what_is_written_is_read(rows):
    schema = pa.schema([("a", pa.string()), ("n", pa.int64()), ("b", pa.bool_())])
    columns = list(zip(*rows, strict=True)) or [(), (), ()]
    result = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    read = table(to_text(result), schema)
    assert sorted(map(str, read.to_pylist())) == sorted(map(str, result.to_pylist()))


def test_values_that_look_like_something_else_are_read_as_they_were():
    pairs = pa.map_(pa.string(), pa.int64())
    result = pa.table(
        {
            "a": pa.array(["-", "--", ":-:", "NULL"]),
            "b": pa.array([b"abc", b"", None, b"-"]),
            "c": pa.array([["a|b"], ["it's"], [], None]),
            "d": pa.array([[("k|", 1)], [], None, [("x", None)]], pairs),
        }
    )
    assert table(to_text(result), result.schema).sort_by("a").equals(result.sort_by("a"))
