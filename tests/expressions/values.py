"""Rows with values that break things: nulls, NaN, infinities, extremes, empty and odd texts, leap days, far dates."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal

import pyarrow as pa

from altneu import types as T

SCHEMA = T.parse_schema(
    "b1 boolean, b2 boolean, y1 byte, y2 byte, h1 short, h2 short, i1 int, i2 int, l1 long, l2 long, "
    "f1 float, f2 float, d1 double, d2 double, n1 decimal(10,2), n2 decimal(10,2), m1 decimal(38,10), "
    "m2 decimal(20,0), s1 string, s2 string, num string, moment string, x1 binary, t1 date, t2 date, "
    "p1 timestamp, p2 timestamp, q1 timestamp_ntz, small int, j1 string, c1 string, k1 string"
)
_NAN, _INF = float("nan"), float("inf")
_INTS = {T.BYTE: 7, T.SHORT: 15, T.INT: 31, T.LONG: 63}
_FLOATS = [
    0.0,
    1.0,
    -1.0,
    0.5,
    -2.5,
    1e-5,
    1e10,
    123456.789,
    -7.0,
    3.0,
    _NAN,
    _INF,
    -_INF,
    1e300,
    1e-300,
    9.007199254740993e15,
    2.0**63,
    -(2.0**31),
    1e7,
    1e-3,
    0.1,
]
_TEXTS = [
    "",
    " ",
    "a",
    "A",
    "abc",
    "Abc Def",
    "  padded\t",
    "ünïcödé",
    "日本語",
    "😀 smile",
    "a,b,,c",
    "%_\\",
    "it's",
    "x.y*z",
    "abcabc",
    "line\nbreak",
    "ß",
    "İ",
    "éé",
    "UPPER lower",
]
_NUMBERS = [
    "0",
    "1",
    "-1",
    " 12 ",
    "+7",
    "1.5",
    "-0.0",
    "1e3",
    "abc",
    "",
    "127",
    "128",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "NaN",
    "Infinity",
    "-inf",
    "1.",
    ".5",
    "0x1F",
    "1_000",
    "1d",
    "2f",
    "99999999999999999999999999999999999999999",
    "0.005",
    "-0.125",
    "true",
    "no",
    "T",
    "1L",
    "--1",
    "1 2",
]
_WHENS = [
    "2020-02-29",
    "2019-02-29",
    "2020-1-2",
    "2020",
    "2020-07",
    "0001-01-01",
    "9999-12-31",
    "+10000-01-01",
    "2020-02-29 10:11:12",
    "2020-02-29T23:59:59.123456789",
    "2020-02-29 10:11:12.5+01:00",
    "2020-02-29 10:11:12Z",
    "2020-02-29 24:00:00",
    "2020-13-01",
    "",
    "x",
    " 2021-03-04 ",
    "2021-03-04T",
    "1969-12-31 23:59:59.999999",
    "2020-02-29 10:11",
    "2020-02-29 10",
    "20200229",
    "2020-02-29 10:11:12 Europe/Paris",
    "2020-02-29x",
    "-0001-01-01",
    "1582-10-10",
]
_DOCUMENTS = r"""
{"a":[1.10, 1e400, 123456789012345678901234567890, -0.0, 1E2, 0.1e-7], "b":null}
{"a":"x\u00e9\n\"q", "b":[true,false,null]}
{"a":["x\u00e9\n\"q/\/", {"b\"": null, "c": [[]]}], "b":"é日😀\ud83d\ude00"}
{"a":1} x
{"a":1
{'a':'b', "b":'it\'s'}
{"a":{"b":1,"b":2}, "b": "2020-02-29T10:11:12.5+01:00"}
{"a":null,"a":2, "b":"2020-02-29"}
[1,2,3]
[[1,2],[3,4]]
[{"a":1},{"a":2, "b":"x"},{"b":null}]
{"a":[{"b":1},{"b":[2]}], "b":{"c":{"d":[1,[2]]}}}
[{"a":"x"},{"b":2}]
{"a":01}
{"a":1,}
{"a":NaN, "b":-INF}
{"a":"NaN", "b":"+INF"}
{"a":"\ud800", "b":3}
{"a":["\ud800"]}
"x"
17
17x
null
nullx
true
{}
[]
{"a":12345678901,"b":9223372036854775808}
{"a":128,"b":1.25}
{"a":"12","b":"YWJj"}
{"a":"","b":true}
{ "a" : 5 , "b" : [ 1 , "x" ] }
{"a":{"b":1,"c":"x"},"b":[{"c":1},{"c":"x"}]}
{"a":[1,2],"b":{"k":1,"j":null}}
{"a":1577934245,"b":"x y"}
""".strip().splitlines()
_CLOCKS = [
    *("12", "1:2", "1:2:3", "01:02:03.", "01:02:03.1", "01:02:03.1234567", " 12:00 ", "T12:00", "12:00:60", "24:00:00"),
    *("12:00:00 PM", "12:00 AM", "1:00 pm", "12:00:00Z", "12:00:00+01:00", "12:00:00.1234567890", "001:00", "1:002"),
    *("12:00:00.5 am", "12:00pm", "13:00 PM", "0:00 AM", "-1:00", "12:", "12:00:", "12: 00", "12:0:0", "12:00  PM"),
    *("12:00\tPM", "00:00", "23:59:59.999999", "23:59:59", "06:07:08.000009", "2020-01-01 12:00:00", "", "x", "t1:00"),
]
_RECORDS = [
    *r'''
1,a
1, 0.8
 1 , b
1
1,2,3
,
a,,
"a,b",2
"a""b",2
"a\"b",2
a"b,2
"ab
"a,b
"a" ,2
"a"
"a"b,c
"a" x,b
"",x
"",""
"a\b",c
"a\\",c
"a\\"b",c
"""",c
"
"""
\"a,b
1;2;"a;b"
'a,b',"c"
'a''b',c
a|b|"c"
"a","b"""
true,127
FALSE,32768
128,9223372036854775807
+1,-0
1.255,99999
"1,000.5",.5
NaN,Inf
-Infinity,1e3
0x10,1d
tRue, 1
2020-02-30,2020-02-29 10:11:12
# a,1
'''.strip("\n").splitlines(),
    "a\tb",
    '"a"\t"b"',
    "a\nb,c",
    '"a\nb",c',
    "a\r\n",
    " ",
    "",
    "1,é日",
    "\u0661,1",
]


def special(kind: pa.DataType, name: str) -> list[object]:
    """Values of a type that are likely to break something."""
    if kind == T.BOOLEAN:
        return [True, False]
    if kind in _INTS:
        top = 2 ** _INTS[kind]
        return [0, 1, -1, 2, 7, -7, 31, 100, top - 1, -top, -top + 1, top // 2]
    if kind in (T.FLOAT, T.DOUBLE):
        return _FLOATS
    if pa.types.is_decimal(kind):
        top = Decimal(10**kind.precision - 1).scaleb(-kind.scale, _WIDE)
        step = Decimal(1).scaleb(-kind.scale)
        return [
            v.quantize(step, context=_WIDE)
            for v in (
                Decimal(0),
                Decimal(1),
                Decimal(-1),
                Decimal("2.5"),
                Decimal("-3.75"),
                step,
                -step,
                Decimal(3),
                Decimal(12345),
                top,
                top.copy_negate(),
            )
        ]
    if kind == T.STRING:
        return {"num": _NUMBERS, "moment": _WHENS, "j1": _DOCUMENTS, "c1": _RECORDS, "k1": _CLOCKS}.get(name, _TEXTS)  # type: ignore[return-value]
    if kind == T.BINARY:
        return [b"", b"abc", b"\x00\x7f", "é".encode(), b"A" * 20]
    if kind == T.DATE:
        return [
            dt.date(1970, 1, 1),
            dt.date(2020, 2, 29),
            dt.date(2019, 12, 30),
            dt.date(2021, 1, 3),
            dt.date(1, 1, 1),
            dt.date(9999, 12, 31),
            dt.date(1969, 12, 31),
            dt.date(1582, 10, 10),
            dt.date(2000, 1, 31),
            dt.date(1900, 2, 28),
        ]
    return _moments(kind)


def _moments(kind: pa.DataType) -> list[object]:
    zone = dt.UTC if kind == T.TIMESTAMP else None
    return [
        dt.datetime(*parts, tzinfo=zone)
        for parts in (
            (1970, 1, 1),
            (2020, 2, 29, 12, 34, 56, 789012),
            (1969, 12, 31, 23, 59, 59, 999999),
            (2019, 12, 30, 0, 0, 1),
            (9999, 12, 31, 23, 59, 59, 999999),
            (1, 1, 1),
            (2013, 3, 10, 2, 30),
            (2021, 1, 31, 6, 0, 0, 1),
            (1900, 1, 1, 0, 0, 0, 500000),
        )
    ]


def _wide():
    from decimal import Context

    return Context(prec=80)


_WIDE = _wide()


def table(count: int = 160, seed: int = 5) -> pa.Table:
    """Rows in which every special value of every column occurs, in combinations drawn at random."""
    draw = random.Random(seed)
    columns = []
    for field in SCHEMA:
        values = [None, *special(field.type, field.name)] if field.name != "small" else [None, *range(-4, 9)]
        column = [*values, *(draw.choice(values) for _ in range(count - len(values)))]
        draw.shuffle(column)
        columns.append(pa.array(column, field.type))
    return pa.Table.from_arrays(columns, schema=SCHEMA)
