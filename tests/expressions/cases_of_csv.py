"""Expressions of CSV over ``values.SCHEMA``, beside those of ``cases``; ``c1`` has records."""

from __future__ import annotations

_SCHEMAS = (
    "a INT, b STRING",
    "a STRING, b DOUBLE",
    "a DOUBLE, b FLOAT",
    "a DECIMAL(5,2), b DECIMAL(38,10)",
    "a BOOLEAN, b BIGINT",
    "a TINYINT, b SMALLINT",
    "a BINARY, b BINARY, c STRING",
    "a STRING",
)
_OPTIONS = (
    "'sep', ';'",
    "'delimiter', '|', 'nullValue', 'a'",
    "'quote', '\\''",
    "'escape', '\"'",
    "'nullValue', '1'",
    "'sep', '\\t'",
)
_WRITING = (
    "'sep', ';'",
    "'quoteAll', 'true'",
    "'nullValue', 'NA', 'emptyValue', 'none'",
    "'quote', '\\'', 'escape', '\\''",
    "'escapeQuotes', 'false'",
    "'dateFormat', 'dd/MM/yyyy', 'timestampFormat', 'yyyy/MM/dd HH'",
)

CSV = [
    *(f"from_csv(c1, '{schema}')" for schema in _SCHEMAS),
    *(f"from_csv(c1, 'a STRING, b STRING', map({options}))" for options in _OPTIONS),
    "from_csv(c1, 'a DATE, b DATE').b",
    "from_csv(num, 'a INT')",
    "from_csv(num, 'a DOUBLE')",
    "from_csv(num, 'a FLOAT')",
    "from_csv(num, 'a DECIMAL(10,2)')",
    "from_csv(num, 'a BOOLEAN')",
    "from_csv(moment, 'a TIMESTAMP').a",
    "from_csv(moment, 'a TIMESTAMP_NTZ').a",
    "from_csv(moment, 'a DATE').a",
    "from_csv(date_format(t1, 'dd/MM/yyyy'), 'a DATE', map('dateFormat', 'dd/MM/yyyy'))",
    "from_csv(s1, 'a STRING, b INT')",
    "from_csv(to_csv(struct(s1, i1)), 's STRING, i INT')",
    "from_csv(c1, 'a INT, b STRING', map('mode', 'FAILFAST'))",
    "to_csv(struct(s1, i1, s2))",
    "to_csv(struct(coalesce(s1, '')))",
    "to_csv(struct(b1, y1, h1, l1, n1, m1, m2, x1))",
    "to_csv(struct(t1, p1, cast(q1 as timestamp_ntz)))",
    "to_csv(struct(d1, cast(small as float)))",
    "to_csv(struct(array(s1, s2), map('a', i1, 'b', null), struct(t1, null as z, x1)))",
    "to_csv(struct(array(i1, null), struct(p1)))",
    "to_csv(if(b1, null, struct(coalesce(i1, 0))))",
    "to_csv(named_struct('a', c1, 'b', ' x '))",
    *(f"to_csv(struct(c1, s1, i1, t1, p1), map({options}))" for options in _WRITING),
    *(
        f"schema_of_csv('{text}')"
        for text in (
            "1,abc",
            "1,2147483648,12345678901234567890,1.5,1e5,true,TRUE,2020-01-01,2020-01-01 10:00:00,2020-01-01T10:00:00Z",
            '"",,NaN,Infinity,99999999999999999999999999999999999999999,1d,0x1, 7 ,+3',
            "-0,1.0,.5,5.,2020-01,2020,12/12/2012,null,NULL,yes,1L,1f,inf,-Infinity",
            '"a,b",1',
        )
    ),
    "schema_of_csv('a|1', map('sep', '|'))",
]
