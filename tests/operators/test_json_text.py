"""JSON members as columns: the rules one by one, and against Python's ``json`` on texts at random."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.linear.steps import JsonField
from altneu.operators.json.scan import DEEPEST
from altneu.operators.json.text import parse_json
from tests.operators import json_oracle
from tests.operators.json_oracle import INVALID, WRONG


def field(ddl: str, *path: str, unit: str = "") -> JsonField:
    return JsonField("x", path, T.parse_type(ddl), unit)


def outcome(texts: list[str | None], *fields: JsonField) -> list[tuple[Any, ...] | str]:
    """A tuple of values for each text, or the code of its failure."""
    columns, failed, failure = parse_json(pa.array(texts, pa.string()), fields)
    for column, f in zip(columns, fields, strict=True):
        column.validate(full=True)
        assert (column.type, len(column)) == (f.type, len(texts))
    values = list(zip(*(_plain(c) for c in columns), strict=True))
    return [failure(i)[0] if failed is not None and failed[i] else v for i, v in enumerate(values)]


def _plain(column: pa.Array) -> list[Any]:
    """Python values; times as integers."""
    return column.cast(_untimed(column.type)).to_pylist()


def _untimed(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_temporal(kind):
        return pa.int32() if kind == T.DATE else pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([f.with_type(_untimed(f.type)) for f in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, _untimed(kind.item_type))
    return T.list_type(_untimed(kind.value_type)) if pa.types.is_list(kind) else kind


def read(ddl: str, *texts: str, unit: str = "") -> list[Any]:
    """What the member v of each text is read as."""
    actual = outcome([f'{{"v": {t}}}' for t in texts], field(ddl, "v", unit=unit))
    return [f if isinstance(f, str) else f[0] for f in actual]


def message(text: str, *fields: JsonField) -> str:
    _, failed, failure = parse_json(pa.array(["{}", text]), fields)
    assert failed is not None
    assert failed.tolist() == [False, True]
    return failure(1)[1]


def test_members_are_found_at_any_depth():
    texts = ['{"a": {"b": {"c": 1}, "d": "x"}, "e": [{"a": 5}]}', ' {"a":{"d":"y"}}\n', None, "{}"]
    fields = [field("int", "a", "b", "c"), field("string", "a", "d"), field("string", "e"), field("string", "a")]
    assert outcome(texts, *fields) == [
        (1, "x", '[{"a":5}]', '{"b":{"c":1},"d":"x"}'),
        (None, "y", None, '{"d":"y"}'),
        (None, None, None, None),
        (None, None, None, None),
    ]


@pytest.mark.parametrize("text", ["null", '{"a": null}', '{"a": {"b": null}}', '{"a": {}}', '{"b": {"b": 1}}'])
def test_null_and_absent_members_are_null(text):
    assert outcome([text], field("int", "a", "b")) == [(None,)]


def test_of_members_of_one_name_the_last_counts():
    texts = [
        '{"a": {"b": 1, "c": 2}, "a": {"b": 3}}',
        '{"a": 1, "a": null}',
        '{"a": "x", "a": {"b": 4, "c": 5, "b": 6}}',
    ]
    assert outcome(texts, field("int", "a", "b"), field("int", "a", "c")) == [(3, None), (None, None), (6, 5)]
    assert read("map<string, int>", '{"a": 1, "b": 2, "a": null}') == [[("a", None), ("b", 2)]]


def test_names_are_compared_by_what_they_mean():
    texts = [
        r'{"\u0061\ud83d\ude00": 1}',
        '{"a😀": 2}',
        r'{"a\ud83d": 3, "\\u0061": 4, "a": 5, "a😀b": 6}',
        r'{"\u0062":7}',
    ]
    assert outcome(texts, field("int", "a😀")) == [(1,), (2,), (None,), (None,)]
    assert outcome([r'{"a\nb": 1}', r'{"a\\nb": 2}'], field("int", "a\nb")) == [(1,), (None,)]
    assert outcome(['{"": 1, "A": 2}'], field("int", ""), field("int", "a")) == [(1, None)]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        '{"a"',
        '{"a":',
        '{"a":1',
        '{"a":1,',
        '{"a":1,}',
        "{,}",
        "{a:1}",
        "{'a':1}",
        '{"a" 1}',
        '{"a":1 "b":2}',
        '{"a":1}}',
        '{"a":1} x',
        '{"a":1}{"a":2}',
        '{"a":1}\n{"a":2}',
        '{"a":1},',
        "[",
        "[1",
        "[1,",
        "[1,]",
        "[,1]",
        "[1 2]",
        "[1}",
        '{"a":1]',
        "]",
        "1,2",
        "1 2",
        '"a" "b"',
        "01",
        "-",
        "-01",
        "+1",
        "1.",
        ".5",
        "1.e5",
        "1e",
        "1e+",
        "0x10",
        "NaN",
        "Infinity",
        "-Infinity",
        "nan",
        "tru",
        "truex",
        "True",
        "nul",
        "falsee",
        '"a',
        '"a\\"',
        '"\\',
        '"\\x"',
        '"\\u12"',
        '"\\u12g4"',
        '"\\u"',
        '"a\nb"',
        '"\t"',
        '"1234567\n"',
        "\ufeff{}",
        "\u00a0{}",
        "{}\x00",
        "// x\n{}",
    ],
)
def test_what_is_no_json(text):
    assert not json_oracle.is_json(text)
    assert outcome([text], field("int", "zz")) == [INVALID]
    assert outcome(["{}", f'{{"zz": 1, "y": {text}}}', "{}"], field("int", "zz"))[1] == INVALID


def test_a_raw_line_end_does_not_part_a_document():
    assert outcome(['{\n"a"\r\n:\t1\n}\n', '{"a": 2}'], field("int", "a")) == [(1,), (2,)]


def test_depth_has_a_limit():
    deep, deeper = "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1), "[" * DEEPEST + "]" * DEEPEST
    assert outcome([f'{{"a": {deep}, "b": 1}}', f'{{"a": {deeper}, "b": 1}}'], field("int", "b")) == [(1,), INVALID]
    assert read("string", deep, "[" * 1_000_000) == [deep, INVALID]
    assert message(f"[{deeper}]", field("int", "b")) == ("the text has over 1000 objects and arrays within each other")


def test_messages_say_where_and_what():
    assert message('{"a": "é", "b": tru}', field("int", "b")) == (
        "the text is no JSON: it goes wrong at 'tru}' (character 17)"
    )
    assert message('{"a": 1', field("int", "b")) == "the text is no JSON: it goes wrong at its end (character 8)"
    assert message('{"a": {"b": [1, 2.5]}}', field("array<int>", "a", "b")) == "a.b[1] is 2.5, which is no int"
    assert message("[1]", field("int", "a")) == "the document is [1], which is no object"
    assert message('"x"', field("map<string,string>")) == 'the document is "x", which is no object'
    long = "x" * 100
    assert message(f'{{"a": "{long}"}}', field("int", "a")) == f'a is "{long[:59]}..., which is no int'
    structs = field("array<struct<k: map<string, tinyint>>>", "a")
    assert message('{"a": [{}, {"k": {"p": 1, "q": 128}}]}', structs) == "a[1].k.q is 128, which is no tinyint"
    assert message('{"a": {"b": 1}}', field("struct<b: struct<c: int>>", "a")) == "a.b is 1, which is no object"
    assert message('{"a": "1", "b": 2}', field("int", "a"), field("string", "b", "c")) == 'a is "1", which is no int'


def test_a_path_through_something_else_fails():
    texts = ['{"a": 1}', '{"a": "x"}', '{"a": []}', '{"a": true}', "[]", "1", '"a"']
    assert outcome(texts, field("int", "a", "b")) == [WRONG] * 7


def test_booleans():
    assert read("boolean", "true", "false", "null", "1", '"true"', "[]") == [True, False, None, WRONG, WRONG, WRONG]


def test_integers():
    assert read("bigint", "0", "-0", str(2**63 - 1), str(-(2**63)), "17") == [0, 0, 2**63 - 1, -(2**63), 17]
    assert read("bigint", str(2**63), str(-(2**63) - 1), "1" * 400, "1.0", "1e2", '"1"', "true", "{}") == [WRONG] * 8
    assert read("tinyint", "127", "-128", "128", "-129", "256") == [127, -128, WRONG, WRONG, WRONG]
    assert read("smallint", "32767", "32768", "65536") == [32767, WRONG, WRONG]
    assert read("int", "2147483647", "2147483648", "4294967296", "-2147483648") == [2**31 - 1, WRONG, WRONG, -(2**31)]


def test_floats():
    assert read("double", "1", "-2.5e-3", "1E+2", "0.1", "123456789012345678901234567890") == [
        1.0,
        -2.5e-3,
        100.0,
        0.1,
        123456789012345678901234567890.0,
    ]
    assert math.copysign(1, read("double", "-0.0")[0]) == 1
    assert read("double", "5e-324", "1e-999", "1.7976931348623157e308") == [5e-324, 0.0, 1.7976931348623157e308]
    assert read("double", "1e999", "-1e999", '"1.5"', '"nan"', "true") == [WRONG] * 5
    assert read("float", "1e39", "3.4028235e38", "16777217") == [WRONG, 3.4028234663852886e38, 16777216.0]
    assert read("float", '"Infinity"', '"+INF"', '"-INF"', '"-Infinity"') == [math.inf, math.inf, -math.inf, -math.inf]
    assert math.isnan(read("double", '"NaN"')[0])


def test_decimals():
    assert read("decimal(10,2)", "1.005", "-1.005", '"7"', "1e3", '"2.50"', '"+.5"', '"1."') == [
        Decimal(x) for x in ("1.01", "-1.01", "7.00", "1000.00", "2.50", "0.50", "1.00")
    ]
    assert read("decimal(3,2)", "9.994", "9.995", "10", "1e9", '"1e999999999"') == [Decimal("9.99"), *[WRONG] * 4]
    assert read("decimal(5,0)", '" 1"', '""', '"x"', '"1_0"', '"NaN"', '"\u0661"', "true", "[]", '"1e"') == [WRONG] * 9
    assert read("decimal(38,0)", "9" * 38, "9" * 39, "1e-999999999") == [Decimal("9" * 38), WRONG, 0]


def test_strings():
    assert read("string", '""', '"a\u0000"'.replace("\0", "\\u0000"), r'"\"\\\/\b\f\n\r\t"', r'"é\u00e9\u20AC"') == [
        "",
        "a\0",
        '"\\/\b\f\n\r\t',
        "éé€",
    ]
    assert read("string", r'"\ud83d\ude00"', '"😀"', r'"\uD83D\uDE00x"') == ["😀", "😀", "😀x"]
    assert read("string", r'"\ud83d"', r'"\ude00\ud83d"', r'"\ud83dx"', r'"\ud83d\n"', r'"\ud83d\u0041"') == [WRONG] * 5
    assert read("string", "1.50", "-0", "1E5", "true", "null", "[ ]", '{ "a b" : [ 1 ,\n"c\\n d" , "\\ud800" ] }') == [
        "1.50",
        "-0",
        "1E5",
        "true",
        None,
        "[]",
        r'{"a b":[1,"c\n d","\ud800"]}',
    ]


def test_binary_is_base64():
    assert read("binary", '"AQI="', '""', '"AQI"', '"é"', "1") == [b"\1\2", b"", WRONG, WRONG, WRONG]


def test_nothing_is_void_but_null():
    assert read("void", "null", "1") == [None, WRONG]


def test_dates_and_timestamps_as_texts_are_read_as_casts_read_them():
    assert read("date", '"1970-01-02"', '"1969-12-31T10:00:00Z"', '"x"', "1", '""') == [1, -1, WRONG, WRONG, WRONG]
    assert read("timestamp", '"1970-01-01T00:00:01.5Z"', '"1970-01-01 01:00:00+01:00"', '"1970-01-01"', "1") == [
        1_500_000,
        0,
        0,
        WRONG,
    ]
    assert read("timestamp_ntz", '"1970-01-01T00:00:01+05:00"', '"13:00"') == [1_000_000, WRONG]


def test_dates_and_timestamps_as_numbers_have_units():
    assert read("date", "1", "-1", str(2**31), '"1970-01-03"', "1.5", unit="d") == [1, -1, WRONG, 2, WRONG]
    for unit, size in (("s", 1_000_000), ("ms", 1_000), ("us", 1)):
        assert read("timestamp", "7", "-7", "1e3", '"1970-01-01"', unit=unit) == [7 * size, -7 * size, WRONG, 0]
    assert read("timestamp_ntz", "1999", "-1", unit="ns") == [1, -1]
    assert read("timestamp", str(2**63 // 10**6), str(2**63 // 10**6 - 1), str(-(2**63)), unit="s") == [
        (2**63 // 10**6) * 10**6,
        (2**63 // 10**6 - 1) * 10**6,
        WRONG,
    ]
    assert (
        read("array<struct<t: timestamp, d: date>>", '[{"t": 1}]', '[{"d": 1}]', unit="ms")
        == [
            [{"t": 1000, "d": None}],
            WRONG,
        ]
        or True
    )
    assert read("array<struct<t: timestamp, d: date>>", '[{"t": 1}]', '[{"d": 1}]', unit="ms") == [
        [{"t": 1000, "d": None}],
        WRONG,
    ]


def test_arrays_structs_and_maps():
    assert read("array<int>", "[]", "[ 1 , null,3 ]", "null", "{}", "1", '[1, "2"]', "[[1]]") == [
        [],
        [1, None, 3],
        None,
        *[WRONG] * 4,
    ]
    assert read("array<array<string>>", '[[], null, ["a", 1]]') == [[[], None, ["a", "1"]]]
    assert read(
        "struct<a: int, b: struct<c: string>>", "{}", '{"b": {"c": "x"}, "z": 0}', "null", "[]", '{"b": 1}'
    ) == [
        {"a": None, "b": None},
        {"a": None, "b": {"c": "x"}},
        None,
        WRONG,
        WRONG,
    ]
    assert read("map<string, array<int>>", "{}", r'{"\u0061": [1], "b": null}', "[]", r'{"\ud800": [1]}') == [
        [],
        [("a", [1]), ("b", None)],
        WRONG,
        WRONG,
    ]
    assert read("array<struct<a: int, b: map<string, double>>>", '[{"b": {"x": 1}}, null, {"a": 2, "a": 3}]') == [
        [{"a": None, "b": [("x", 1.0)]}, None, {"a": 3, "b": None}]
    ]
    assert outcome(["[1, 2]", "null", "{}"], field("array<int>")) == [([1, 2],), (None,), WRONG]


def test_not_null_holds_inside():
    assert read("struct<a: int not null>", '{"a": 1}', "{}", '{"a": null}', "null") == [{"a": 1}, WRONG, WRONG, None]
    assert read("struct<a: struct<b: date not null, c: array<int>> not null>", '{"a": {"b": "1970-01-02"}}', "{}") == [
        {"a": {"b": 1, "c": None}},
        WRONG,
    ]
    required = pa.list_(pa.field("element", T.INT, nullable=False))
    columns, failed, failure = parse_json(pa.array(["[1]", "[null]"]), [JsonField("x", (), required)])
    assert (columns[0][0].as_py(), failed.tolist()) == ([1], [False, True])
    assert failure(1) == (WRONG, "the document[0] is null, which is no int NOT NULL")


@pytest.mark.parametrize(
    "ddl",
    ["boolean", "double", "decimal(9,2)", "string", "binary", "date", "timestamp", "array<int>", "map<string,int>"],
)
def test_under_a_null_struct_nothing_that_is_not_null_is_null(ddl):
    kind = T.parse_type(f"struct<a: struct<b: {ddl} not null> not null>")
    columns, failed, _ = parse_json(pa.array(["null", None]), [JsonField("x", (), kind)])
    assert failed is None
    assert columns[0].to_pylist() == [None, None]
    assert columns[0].field(0).null_count == columns[0].field(0).field(0).null_count == 0


def test_one_member_may_be_read_twice_and_as_more_than_it_holds():
    text = '{"a": {"b": 1, "c": [2]}}'
    fields = [field("string", "a"), field("struct<b: int>", "a"), field("string", "a", "c"), field("int", "a", "b")]
    assert outcome([text], *fields) == [('{"b":1,"c":[2]}', {"b": 1}, "[2]", 1)]


def test_slices_and_no_texts():
    texts = pa.array(["x", '{"a": 1}', None, '{"a": 3}', "x"]).slice(1, 3)
    columns, failed, _ = parse_json(texts, [field("int", "a")])
    assert (columns[0].to_pylist(), failed) == ([1, None, 3], None)
    for empty in (pa.array([], pa.string()), pa.nulls(0, pa.string()), pa.array(["x"]).slice(1)):
        columns, failed, _ = parse_json(empty, [field("map<string, array<struct<a: int>>>", "a"), field("date")])
        assert ([len(c) for c in columns], failed) == ([0, 0], None)
    columns, failed, _ = parse_json(pa.nulls(2, pa.string()), [field("array<date>", "a")])
    assert (columns[0].to_pylist(), failed) == ([None, None], None)


@pytest.mark.parametrize("ddl", ["interval day to second", "map<int, int>", "array<map<date, int>>"])
def test_types_that_json_is_not_read_as(ddl):
    with pytest.raises(TypeMismatchError, match=r"JSON is not read as .*; read it as a string, and cast that"):
        parse_json(pa.array([], pa.string()), [field(ddl, "a")])


@pytest.mark.parametrize(("file", "outer"), [("debezium-customers", ["payload"]), ("debezium-customers-no-schema", [])])
def test_recorded_envelopes_are_read_as_python_reads_them(data_dir, file, outer):
    texts = (data_dir / "cdc" / f"{file}.jsonl").read_text().splitlines()
    fields = [
        field("struct<id: int, email: string>", *outer, "after"),
        field("string", *outer, "op"),
        field("bigint", *outer, "source", "ts_ms"),
        field("int", *outer, "before", "id"),
    ]
    envelopes = [json.loads(t) for t in texts]
    envelopes = [e["payload"] if outer else e for e in envelopes]
    assert outcome(texts, *fields) == [
        (
            e["after"] and {name: e["after"][name] for name in ("id", "email")},
            e["op"],
            e["source"]["ts_ms"],
            e["before"] and e["before"]["id"],
        )
        for e in envelopes
    ]


_space = st.sampled_from(["", "", "", " ", "\n", "\t\r "])
_character = st.one_of(
    st.sampled_from(["a", "b", "c", "é", "😀", r"\"", r"\n", r"\/", r"\u0061", r"\u00e9", r"\ud83d\ude00"]),
    st.sampled_from([r"\ud83d", r"\ude00", r"\u0000", "1", "-", "\u2028"]),
)
_string = st.lists(_character, max_size=12).map(lambda cs: '"' + "".join(cs) + '"')
_name = st.sampled_from(['"a"', '"b"', '"c"', r'"\u0061"', '"ab"', '""', r'"b\u0000"', r'"\ud800"'])
_number = st.one_of(
    st.integers(-300, 300).map(str),
    st.integers(-(2**70), 2**70).map(str),
    st.sampled_from([str(e + d) for e in (2**7, 2**15, 2**31, 2**63) for d in (-1, 0)]),
    st.sampled_from([str(-e - d) for e in (2**7, 2**15, 2**31, 2**63) for d in (0, 1)]),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.from_regex(
        r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,3})?",
        fullmatch=True,
        alphabet=st.characters(codec="ascii"),
    ),
)
_words = st.sampled_from(
    ['"NaN"', '"-INF"', '"1.25"', '"-7e2"', '"2024-02-29"', '"2024-02-29T01:02:03.5+01:00"', '"AQI="', '"x y"']
)
_scalar = st.one_of(st.sampled_from(["null", "true", "false", "null"]), _number, _string, _words)


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    padded = st.tuples(_space, inner, _space).map("".join)
    member = st.tuples(_space, _name, _space, st.just(":"), padded).map("".join)
    return st.one_of(
        st.lists(padded, max_size=4).map(lambda xs: f"[{','.join(xs)}]"),
        st.lists(member, max_size=5).map(lambda xs: f"{{{','.join(xs)}}}"),
    )


_value = st.recursive(_scalar, _containers, max_leaves=12)


_flat = st.sampled_from(
    [
        T.parse_type(t)
        for t in ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary")
    ]
    + [
        T.parse_type(t)
        for t in ("decimal(10,2)", "decimal(38,6)", "decimal(18,0)", "date", "timestamp", "timestamp_ntz")
    ]
)
_type = st.recursive(
    _flat,
    lambda inner: st.one_of(
        inner.map(T.list_type),
        inner.map(lambda t: pa.map_(T.STRING, t)),
        st.lists(inner, min_size=1, max_size=3).map(lambda ts: pa.struct(list(zip(("a", "b", "c"), ts, strict=False)))),
    ),
    max_leaves=4,
)
_KNOWN = {
    T.BOOLEAN: st.sampled_from(["true", "false"]),
    T.STRING: st.one_of(_string, _value),
    T.BINARY: st.binary(max_size=6).map(lambda b: f'"{base64.b64encode(b).decode()}"'),
    T.DATE: st.dates().map(lambda d: f'"{d}"'),
    T.TIMESTAMP: st.datetimes().map(lambda t: f'"{t.isoformat()}Z"'),
    T.TIMESTAMP_NTZ: st.datetimes().map(lambda t: f'"{t}"'),
}


def _holding(draw: st.DrawFn, kind: pa.DataType) -> str:
    """JSON of a type, as a rule; members in any order, and some of them twice or not asked for."""
    odd = draw(st.integers(0, 19))
    if odd < 2:
        return draw(_value) if odd else "null"
    if pa.types.is_list(kind):
        return f"[{','.join(_holding(draw, kind.value_type) for _ in range(draw(st.integers(0, 3))))}]"
    if pa.types.is_struct(kind):
        members = [f'"{f.name}"{draw(_space)}:{draw(_space)}{_holding(draw, f.type)}' for f in kind]
        more = st.tuples(_name, _value).map(lambda m: f"{m[0]}:{m[1]}")
        members += draw(st.lists(more, max_size=1)) if odd == 2 else []
        return f"{{{','.join(draw(st.permutations(members)))}}}"
    if pa.types.is_map(kind):
        count = draw(st.integers(0, 3))
        return f"{{{','.join(f'{draw(_name)}:{_holding(draw, kind.item_type)}' for _ in range(count))}}}"
    if pa.types.is_temporal(kind) and draw(st.booleans()):
        return draw(st.one_of(st.integers(-(10**6), 10**6), st.integers(-(2**64), 2**64)).map(str))
    if pa.types.is_decimal(kind):
        return draw(st.one_of(_number, st.decimals(-(10**4), 10**4).map(lambda d: f'"{d}"')))
    if pa.types.is_integer(kind):
        near = 2 ** (kind.bit_width - 1) + 1
        return draw(st.one_of(st.integers(-100, 100), st.integers(-near, near)).map(str))
    return draw(_KNOWN.get(kind, _number))


def _inner(path: tuple[str, ...], kind: pa.DataType) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """A type, and those of the members within."""
    yield path, kind
    if pa.types.is_struct(kind):
        for f in kind:
            yield from _inner((*path, f.name), f.type)


@st.composite
def _cases(draw: st.DrawFn) -> tuple[list[str | None], list[JsonField]]:
    """Documents of a type, some with a character too many, too few, or wrong, and fields that ask for parts of it."""
    kind = draw(_type)
    if draw(st.booleans()):
        kind = pa.struct([("a", kind), ("b", draw(_type))])
    texts: list[str | None] = []
    for _ in range(draw(st.integers(1, 8))):
        text = draw(_space) + _holding(draw, kind) + draw(_space)
        if draw(st.integers(0, 9)) == 0:
            at = draw(st.integers(0, len(text) - 1))
            text = text[:at] + draw(_damage) + text[at + draw(st.integers(0, 1)) :]
        texts.append(draw(st.sampled_from([text] * 9 + [None])))
    unit = draw(st.sampled_from(["", "d", "s", "ms", "us", "ns"]))
    within = st.sampled_from(list(_inner((), kind)))
    asked = draw(st.lists(st.one_of(within, within, within, st.tuples(_path, _type)), min_size=1, max_size=3))
    return texts, [JsonField("x", path, inner, unit) for path, inner in asked]


_path = st.lists(st.sampled_from(["a", "b", "c", "", "b\0"]), min_size=1, max_size=3).map(tuple)
_damage = st.sampled_from(["", "", '"', "\\", "{", "]", ",", ":", "0", "e", ".", " ", "\n", "x"])


def _comparable(value: Any) -> Any:
    if isinstance(value, float):
        return str(value)
    if isinstance(value, dict):
        return {k: _comparable(v) for k, v in value.items()}
    return [_comparable(v) for v in value] if isinstance(value, list | tuple) else value


@given(_cases())
def test_texts_at_random_are_read_as_one_by_one(case):
    texts, fields = case
    assert _comparable(outcome(texts, *fields)) == _comparable([json_oracle.parse(t, fields) for t in texts])
