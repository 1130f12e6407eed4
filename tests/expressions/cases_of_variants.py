"""Expressions of variants over ``values.SCHEMA``, beside those of ``cases``; ``j1`` has documents, and other texts."""

from __future__ import annotations

_V = "try_parse_json(j1)"
_OF_NUMBERS = (
    "to_variant_object(named_struct('y', y1, 'i', i1, 'l', l1, 'f', f1, 'd', d1, 'n', n1, 'm', m1, 'w', m2, 'b', b1))"
)
_OF_OTHERS = (
    "to_variant_object(named_struct('s', s1, 'x', x1, 't', t1, 'p', p1, 'q', cast(q1 as timestamp_ntz), 'num', num, "
    "'moment', moment))"
)
_DOCUMENTS = (
    "",
    " ",
    "01",
    "-",
    "-0",
    "-0.0",
    "1.",
    ".5",
    "1e400",
    "1.50",
    "100.00",
    "0.000",
    "1e2 x",
    "1x",
    "truex",
    "[1] x",
    "[1,]",
    "[1 2]",
    "{''a'':1}",
    "NaN",
    '{"a":1,"a":2}',
    '{"b":{"z":1},"a":[{"z":2,"y":3}]}',
    "12345678901234567890",
    "123456789012345678901234567890123456789",
    "0.1234567890123456789012345678901234567890",
    "999999999.999999999",
    "1.0E+2",
    '"\\\\ud83d\\\\ude00"',
    '"\\\\ud83d"',
    '"\\\\u0001\\\\n\\\\"\\\\/"',
    '{"":{"a.b":[null]}}',
    "// c",
)
_TYPES = (
    "string",
    "boolean",
    "tinyint",
    "int",
    "bigint",
    "float",
    "double",
    "decimal(10,2)",
    "decimal(38,0)",
    "date",
    "timestamp",
    "timestamp_ntz",
    "binary",
    "array<int>",
    "array<variant>",
    "map<string,string>",
    "map<string,double>",
    "struct<a:int,b:array<string>>",
    "struct<i:int,s:date,n:decimal(5,1),x:string>",
    "variant",
)
_PATHS = ("$", "$.a", "$.a[0]", "$[1]", "$['a'].b", '$["b"][0]', "$.b[2].c", "$.s", "$.n")

VARIANTS = [
    "parse_json(j1)",
    _V,
    _OF_NUMBERS,
    _OF_OTHERS,
    *(f"try_parse_json('{text}')" for text in _DOCUMENTS),
    *(f"schema_of_variant(try_parse_json('{text}'))" for text in _DOCUMENTS[4:26]),
    f"is_variant_null({_V})",
    f"is_variant_null(variant_get({_V}, '$.a'))",
    f"is_valid_variant({_V})",
    f"schema_of_variant({_V})",
    f"schema_of_variant({_OF_NUMBERS})",
    f"schema_of_variant({_OF_OTHERS})",
    *(f"variant_get({_V}, '{path}')".replace("$['a']", '$["a"]') for path in _PATHS),
    f"try_variant_get({_V}, concat('$.', s1))",
    *(f"try_variant_get({_V}, '$', '{kind}')" for kind in _TYPES),
    *(f"variant_get({_V}, '$.a', '{kind}')" for kind in _TYPES[:4]),
    *(
        f"try_variant_get({values}, '$', 'map<string,{kind}>')"
        for values, kinds in ((_OF_NUMBERS, _TYPES[1:13]), (_OF_OTHERS, _TYPES[:13]))  # floats print as in Java 19
        for kind in kinds
    ),
    f"variant_get({_OF_NUMBERS}, '$.m', 'timestamp')",
    f"variant_get({_OF_OTHERS}, '$.moment', 'date')",
    *(f"cast({_V} as {kind})" for kind in _TYPES),
    *(f"try_cast({_V} as {kind})" for kind in _TYPES[10:]),
    f"variant_set({_V}, '$.z', {_V})",
    f"cast(array({_V}, null) as array<string>)",
    f"cast(array({_V}, null) as string)",
    f"cast(struct({_V}) as string)",
    *(
        f"cast({name} as variant)"
        for name in (
            "b1",
            "y1",
            "i1",
            "l1",
            "f1",
            "d1",
            "n1",
            "m1",
            "s1",
            "x1",
            "t1",
            "p1",
            "cast(q1 as timestamp_ntz)",
        )
    ),
    "cast(array(i1, null) as variant)",
    f"cast(array({_V}, null) as variant)",
    f"to_variant_object(array({_V}, variant_get({_V}, '$.a')))",
    "to_variant_object(map('a', s1, 'k', s2))",
    f"to_variant_object(struct(array(struct(s1 as b, i1 as a)) as z, {_V} as v))",
    f"to_json({_V})",
    f"to_json(struct({_V} as v, i1))",
    f"typeof({_V})",
    f"coalesce({_V}, parse_json('1'))",
    f"CASE WHEN b1 THEN {_V} ELSE cast(s1 as variant) END",
    f"array({_V}, cast(1 as variant))",
    f"map('a', {_V})",
    f"{_V} IS NULL",
    f"{_V}:a",
    f"{_V}:a[0]",
    f"{_V}:['a'].b",
    f"{_V}:a.b[1].c",
    f"{_V}:`a`",
    f"{_V}:a::string",
    "try_parse_json('[1, 2.5]'):[1]::double + 1",
    f"variant_delete({_V}, '$.a', '$.b[0]', null)",
    f"variant_delete({_V}, '$[0]', '$[0]')",
    f"variant_delete({_V}, '$.missing')",
    f"variant_strip_nulls({_V})",
    f"variant_strip_nulls({_V}, false)",
    *(
        f"{prefix}variant_{name}({_V}, {path}, {value})"
        for prefix, value in (("", "s1"), ("try_", "array(i1, 2)"))
        for name in ("insert", "set", "array_append")
        for path in ("'$.z'", "'$.a'", "'$.a[1]'", "'$[3]'", "'$.z.y[1]'", "concat('$.', num)")
    ),
    f"variant_set({_V}, '$.z', i1, false)",
    f"try_variant_set({_V}, '$.a', i1, false)",
    f"upper({_V})",
    f"concat({_V}, s1)",
    f"coalesce({_V}, s1)",
    "variant_array_append(cast(array(1) as variant), '$', n1)",
    f"variant_insert({_V}, '$.q', null)",
]
