"""Expressions of JSON over ``values.SCHEMA``, beside those of ``cases``."""

from __future__ import annotations

_PATHS = "$ $.a $.b $.a[0] $.a[1].b $[*] $[*].a $[*][*] $[1] $.a[*] $.a[*].b $.a[0].b[*] $.a.b $.b.c.d[1] $.*"
_ODD_PATHS = (
    "$. a",
    "$[ 1 ]",
    "$.a.",
    "a",
    "",
    "$a",
    "$['a']",
    "$['a'][0]",
    "$[*][1]",
    " $.a",
    "$.b.c.d[*][*]",
    "$[*]['a']",
)
_SCHEMAS = (
    "a INT, b STRING",
    "a BIGINT, b DOUBLE",
    "a STRING, b BOOLEAN",
    "a DOUBLE, b TIMESTAMP",
    "a DECIMAL(5,1), b DATE",
    "a TINYINT, b TIMESTAMP_NTZ",
    "a TIMESTAMP, b BINARY",
    "a FLOAT, b ARRAY<INT>",
    "a ARRAY<DOUBLE>, b MAP<STRING,INT>",
    "a STRUCT<b:INT,c:INT>, b ARRAY<STRUCT<c:INT>>",
    "a ARRAY<STRUCT<b:STRING>>, b STRUCT<c:STRING>",
    "array<int>",
    "array<array<struct<a:int>>>",
    "map<string,struct<b:int,c:int>>",
    "array<struct<a:int,b:string>>",
)

JSON = [
    *(f"get_json_object(j1, '{path}')" for path in _PATHS.split()),
    *(f'get_json_object(j1, "{path}")' for path in _ODD_PATHS),
    "json_array_length(j1)",
    "json_object_keys(j1)",
    *(f"from_json(j1, '{schema}')" for schema in _SCHEMAS),
    *(f"from_json(if(j1 like '%null,%', '{{}}', j1), 'map<string,{kind}>')" for kind in ("string", "int")),
    "from_json(to_json(struct(d1, m1, s1, b1, l1, x1)), 'd1 double, m1 decimal(38,10), s1 string, l1 long')",
    "from_json(concat('[', i1, ']'), schema_of_json('[1]'))",
    "from_json(concat('{\"a\":', num, '}'), 'a double', map('mode', 'FAILFAST')).a is null",
    "from_json(to_json(struct(t1)), 't1 date', map('dateFormat', 'yyyy-MM-dd')).t1",
    "get_json_object(s1, s2)",
    "get_json_object(to_json(struct(s1, s2)), '$.s2')",
    "to_json(struct(i1, s1, d1, cast(small as float) as f, n1, m1, b1, x1))",
    "to_json(struct(t1, p1, cast(q1 as timestamp_ntz) as q, y1, l1))",
    "to_json(struct(i1, s1, struct(s2, i2) as st, array(i1, null, small) as xs), map('ignoreNullFields', 'false'))",
    "to_json(struct(p1, t1), map('timestampFormat', 'yyyy/MM', 'dateFormat', 'dd.MM.yyyy'))",
    "to_json(array(s1, s2))",
    "to_json(array(struct(s1, i1), null))",
    "to_json(map('a', i1, 'b', i2))",
    "to_json(map(small, s1))",
    "to_json(map(t1, d1))",
    "to_json(if(b1, null, array(array(i1), array())))",
    *(
        f"schema_of_json('{text}')"
        for text in (
            '{"a":1,"b":[1.5,2],"c":"x","d":null,"e":{}}',
            '[{"a":1},{"a":"x"}]',
            '{"a":12345678901234567890,"b c":true}',
            '[{"a":1},{"b":[null]},{"a":1.5}]',
            "1",
            "",
            "[]",
        )
    ),
]
