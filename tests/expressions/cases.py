"""Expressions over ``values.SCHEMA``, by group; each is compared with Spark and put through the laws."""

from __future__ import annotations

from tests.expressions.cases_of_collations import COLLATIONS
from tests.expressions.cases_of_csv import CSV
from tests.expressions.cases_of_documents import JSON
from tests.expressions.cases_of_texts import ENCODINGS, FORMATS, HASHES, MAPS, NUMBER_FORMATS, TIMES, VECTORS, WORDS
from tests.expressions.cases_of_times import CLOCKS
from tests.expressions.cases_of_variants import VARIANTS

PAIRS = (
    "y1 y2,h1 y1,i1 i2,i1 l1,l1 l2,f1 f2,f1 i1,d1 d2,d1 n1,n1 n2,n1 i1,m1 m1,m1 m2,l1 m2,n1 m1".split(",")  # noqa: SIM905 -- a table
)
NUMBERS = ("y1", "h1", "i1", "l1", "f1", "d1", "n1")
XS, YS, SS, DS = "array(i1, i2, small)", "array(i2, 7)", "array(s1, s2)", "array(d1, d2)"
NULLABLE, MAP, STRUCT = "if(b1, null, array(i1, i2))", "map('a', i1, 'b', i2)", "named_struct('x', i1, 'y', s1)"
PATTERNS = (
    "yyyy-MM-dd",
    "yyyy/MM/dd HH:mm:ss",
    "EEE, d MMM yyyy",
    "MMMM d, yyyy h:mm a",
    "yy-M-d H:m:s.SSS",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "D Q QQQ hh 'o''clock' a EEEE",
    "HH:mm:ss Z z xxx k K",
    "yyyyMMdd",
)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


def _pair(pair: str, symbol: str) -> str:
    left, right = pair.split()
    return f"{left} {symbol} {right}"


ARITHMETIC = [
    *(_pair(p, s) for s in "+-*/%" for p in PAIRS),
    *(_pair(p, "div") for p in ("y1 y2", "i1 l2", "l1 l2", "n1 n2", "n1 i1")),
    *(f"{f}({a})" for f in ("-", "abs") for a in NUMBERS),
    *_lines("""
        pmod(y1, y2)
        pmod(h1, h2)
        pmod(i1, i2)
        pmod(l1, l2)
        pmod(f1, f2)
        pmod(d1, d2)
        pmod(n1, n2)
        mod(i1, i2)
        try_add(i1, i2)
        try_add(n1, n2)
        try_subtract(y1, y2)
        try_multiply(l1, l2)
        try_divide(i1, i2)
        try_mod(i1, i2)
        i1 + num
        num * 2
        d1 + num
        n1 + 1
        n1 * 2.5
        i1 + 1.5
        l1 % 7
        l1 % -7
        l1 % l2 * 2
        l1 div 3600
        l1 div -3600
        l1 div -1
        i1 div i2
        pmod(l1, 24)
        pmod(l1, -24)
        pmod(i1, 24) * 1000000
        small * small - small
        small + 2147483500
        small * 100000000
        cast(small as bigint) * 3037000500 * small
        small div 7 * 1000000000000000000
        small % 7 * 300000000
        pmod(small, 7) - 2147483647
        try_multiply(small, small)
        try_add(small, 2147483500)
        i1 + null
        -num
        +i1
        y1 + 1Y
        h1 - 2S
        i1 * 3L
        1e3 + i1
        1.5D * i1
        2.5BD * n1
        i1 & i2
        y1 | l1
        h1 ^ y1
        ~i1
        i1 << small
        l1 >> small
        i1 >>> small
        l1 >>> small
        shiftleft(l1, small)
        bit_count(i1)
        i1 | i2 & l1 ^ y1
        -i1 + ~i2
        i1 - i2 - 3
        2 * i1 % 5
    """),
]

LOGIC = [
    *(
        _pair(p, s)
        for s in ("=", "<", "<=>")
        for p in (*PAIRS, "num i1", "num d1", "n1 num", "s1 s2", "b1 b2", "t1 t2")
    ),
    *(_pair(p, s) for s in ("!=", ">=", "<=", ">") for p in ("d1 d2", "s1 s2", "i1 d1", "p1 q1", "t1 p1")),
    *_lines("""
        x1 = x1
        moment = t1
        moment < p1
        t1 > moment
        num = b1
        n1 > 1.5
        i1 = '1'
        l1 < 2147483648
        num in (1, 2)
        i1 in (1, 2.5)
        i1 in (1, null)
        d1 in (1, cast('NaN' as double))
        s1 in ('a', 'b', 'abc', null)
        s1 in (s2, 'a')
        i1 in (1, 2, 3, 4, 5, 6, 7, 8, 31)
        i1 not in (1, 7)
        i1 between -1 and 7
        i1 not between 0 and 10
        b1 and b2
        b1 or b2
        not b1
        !b1
        b1 and 1/i1 > 0
        i1 <> 0 and 1/i1 > 0
        i1 = 0 or 1/i1 > 0
        1/i1 > 0 or i1 = 0
        b1 or i1/i2 > 1 and b2
        not i1 = i2
        i1 = i2 is null
        null = i1
        null and b1
        null or b1
        i1 <=> null
        case when b1 then i1 when b2 then l1 else d1 end
        case i1 when 1 then 'one' when -1 then 'minus' end
        case when i1 <> 0 then 10/i1 else 0 end
        case when i1 = 0 then -1 else i2 div i1 end
        if(b1, n1, m1)
        if(b1, s1, s2)
        coalesce(i1, i2, 0)
        coalesce(s1, s2)
        coalesce(i1, 1/0)
        coalesce(1/i1, 5)
        nvl(d1, f1)
        nullif(i1, i2)
        nullif(s1, 'a')
        nullif(i1, '1')
        nvl2(i1, s1, s2)
        ifnull(b1, b2)
        nanvl(d1, d2)
        greatest(i1, i2, l1)
        least(d1, d2)
        greatest(s1, s2)
        greatest(n1, i1)
        least(t1, t2)
        greatest(d1, null)
        isnull(i1)
        isnotnull(s1)
        isnan(d1)
        i1 is null
        b1 is true
        b1 is not false
        b1 is unknown
        i1 is distinct from i2
        i1 is not distinct from i2
    """),
]

_CASTS = {
    "y1": "bigint decimal(5,1) string boolean timestamp double",
    "i1": "tinyint smallint float decimal(5,1) decimal(20,6) string boolean timestamp",
    "l1": "tinyint int double decimal(20,6) decimal(38,0) string timestamp",
    "d1": "tinyint smallint int bigint float decimal(5,1) decimal(20,6) decimal(38,0) string boolean timestamp",
    "f1": "int bigint double decimal(20,6) boolean",
    "n1": "tinyint int double float decimal(5,1) decimal(20,6) string boolean timestamp",
    "m1": "int bigint double decimal(20,6) decimal(38,0) string",
    "b1": "int double decimal(5,1) string",
    "num": "tinyint smallint int bigint float double decimal(5,1) decimal(20,6) decimal(38,0) boolean binary",
    "moment": "date timestamp timestamp_ntz",
    "t1": "string timestamp timestamp_ntz",
    "p1": "string date timestamp_ntz bigint int double decimal(20,6)",
    "q1": "string date timestamp",
    "x1": "string",
    "s1": "int date binary",
}
CASTS = [
    *(f"cast({c} as {t})" for c, targets in _CASTS.items() for t in targets.split()),
    *(
        f"try_cast({c} as {t})"
        for c, t in (("num", "int"), ("num", "double"), ("num", "decimal(5,1)"), ("moment", "date"))
    ),
    *(
        f"try_cast({c} as {t})"
        for c, t in (("i1", "tinyint"), ("d1", "int"), ("d1", "decimal(5,1)"), ("num", "boolean"))
    ),
    *_lines(f"""
        i1::string
        int(num)
        double(s1)
        date(p1)
        timestamp(t1)
        string(d1)
        cast('  7 ' as int)
        date '2020-02-29'
        timestamp '2020-02-29 10:11:12.5'
        cast({XS} as array<string>)
        cast({STRUCT} as struct<x:string,y:string>)
        cast({MAP} as map<string,double>)
        cast(array(num, '1') as array<int>)
        try_cast(array(num, '1', null) as array<int>)
        try_cast(array(array(num), array('1')) as array<array<tinyint>>)
        try_cast(named_struct('a', num, 'b', i1) as struct<a: int, b: tinyint>)
        try_cast(map('k', num, 'l', '1') as map<string, decimal(5,1)>)
        cast(array(i1, i2) as string)
        cast(named_struct('x', d1, 'y', s1) as string)
        cast(map(small, s1) as string)
    """),
]

DATETIME = [
    *(f"{f}({c})" for f in ("year", "quarter", "month", "day", "dayofweek", "weekday") for c in ("t1", "p1")),
    *(
        f"{f}({c})"
        for f in ("dayofyear", "weekofyear", "hour", "minute", "second", "dayname", "monthname")
        for c in ("t1", "q1")
    ),
    *(f"extract({f} from p1)" for f in ("year", "week", "doy", "hour", "second")),
    *(f'date_format({c}, "{f}")' for f in PATTERNS for c in ("p1", "t1")),
    *_lines("""
        date_part('year', t1)
        year(moment)
        date_add(t1, small)
        date_sub(t1, small)
        t1 + 5
        t1 - small
        5 + t1
        datediff(t1, t2)
        p1 - p2
        p1 - t1
        q1 - t1
        q1 - p1
        t1 + interval 1 day
        t1 - interval 3 days
        t1 + interval 1 week
        t1 + interval 5 hours
        t1 + interval 1 month
        t1 - interval 13 months
        t1 + interval 1 year
        p1 + interval 1 day
        p1 + interval 90 minutes
        p1 - interval '1 02:03:04.5' day to second
        p1 + interval '1-2' year to month
        q1 + interval 1 month
        q1 + interval 1 hour
        interval 1 day + p1
        p1 + small * interval 1 hour
        p1 + interval 1 hour * small
        p1 + interval '1 day 2 hours'
        p1 + interval '1' second / 3
        p1 - interval 1.5 seconds
        t1 + interval '-1' day
        t1 + (interval 1 day + interval 2 days)
        add_months(t1, small)
        last_day(t1)
        next_day(t1, 'MON')
        next_day(t1, 'friday')
        months_between(p1, p2)
        months_between(p1, p2, false)
        trunc(t1, 'MM')
        trunc(t1, 'year')
        trunc(t1, 'week')
        trunc(t1, 'quarter')
        trunc(t1, 'xx')
        date_trunc('hour', p1)
        date_trunc('month', p1)
        date_trunc('week', p1)
        date_trunc('quarter', t1)
        date_trunc('day', q1)
        date_trunc('millisecond', p1)
        date_trunc('zz', p1)
        make_date(2020, small, 1)
        make_date(i1, 2, 29)
        make_timestamp(2020, small, 1, small, 30, 5.5)
        make_timestamp(2020, 2, 28, 23, 59, 60)
        make_timestamp_ntz(2020, 2, small, 1, 2, 3)
        unix_seconds(p1)
        unix_millis(p1)
        unix_micros(p1)
        unix_date(t1)
        date_from_unix_date(small)
        timestamp_seconds(i1)
        timestamp_seconds(l1)
        timestamp_seconds(d1)
        timestamp_millis(i1)
        timestamp_micros(l1)
        p1 > '2020-01-01 10:00:00'
        to_date(moment)
        to_date(p1)
        to_date(moment, 'yyyy-MM-dd')
        to_date(date_format(t1, 'dd/MM/yyyy'), 'dd/MM/yyyy')
        to_timestamp(moment, 'yyyy-MM-dd HH:mm:ss')
        to_timestamp(date_format(p1, 'yyyyMMddHHmmss'), 'yyyyMMddHHmmss')
        to_timestamp(date_format(p1, 'd MMM yyyy h:mm:ss.SSSSSS a'), 'd MMM yyyy h:mm:ss.SSSSSS a')
        try_to_timestamp(moment, 'yyyy-MM-dd HH:mm:ss')
        try_to_timestamp(moment)
        to_timestamp_ntz(moment)
        from_unixtime(i1)
        from_unixtime(i1, 'yyyy')
        unix_timestamp(p1)
        unix_timestamp(moment, 'yyyy-MM-dd')
        from_utc_timestamp(p1, 'America/New_York')
        to_utc_timestamp(p1, 'Europe/Paris')
        from_utc_timestamp(p1, '+05:30')
        to_utc_timestamp(p1, 'America/Los_Angeles')
    """),
]

INEXACT = _lines("""
    sqrt(d1)
    cbrt(d1)
    exp(d1)
    expm1(d1)
    sin(d1)
    cos(d1)
    tan(d1)
    cot(d1)
    sec(d1)
    csc(d1)
    asin(d1)
    acos(d1)
    atan(d1)
    sinh(d1)
    cosh(d1)
    tanh(d1)
    asinh(d1)
    acosh(d1)
    atanh(d1)
    degrees(d1)
    radians(d1)
    rint(d1)
    sign(d1)
    signum(d1)
    ln(d1)
    log10(d1)
    log2(d1)
    log1p(d1)
    sqrt(num)
    log(n1)
    log(d1, d2)
    pow(d1, d2)
    power(i1, small)
    atan2(d1, d2)
    hypot(d1, d2)
    pi()
    e()
""")
"""Functions whose last digit is the library's business: compared to twelve digits, those of vectors to six."""

ROUNDING = [
    *(f"{f}({c})" for f in ("ceil", "floor") for c in ("d1", "f1", "i1", "n1", "m1", "m2")),
    *(f"{f}({c})" for f in ("round", "bround") for c in ("d1", "i1", "n1", "m1")),
    *(f"{f}({c}, {k})" for f in ("ceil", "floor") for c in ("n1", "i1") for k in (1, -1)),
    *(f"{f}({c}, {k})" for f in ("round", "bround") for c in ("d1", "f1", "i1", "n1") for k in (2, -1)),
    *["round(num)", "round(d1*1.1, 3)", "round(d2/7, 4)", "bround(2.5)", "round(2.675D, 2)", "factorial(small)"],
    *["width_bucket(d1, 0, 10, 5)", "width_bucket(d1, 10, 0, 5)", "round(y1, -1)"],
]

STRINGS = _lines(r"""
    upper(s1)
    lower(s1)
    initcap(s1)
    length(s1)
    length(x1)
    char_length(s1)
    octet_length(s1)
    bit_length(s1)
    substring(s1, 2)
    substr(s1, 2, 3)
    substr(s1, -3, 2)
    substr(s1, -10, 9)
    substr(s1, 0, 2)
    substr(s1, small, small)
    substring(s1 from 2 for 3)
    substr(x1, 2, 2)
    left(s1, 2)
    right(s1, 2)
    left(s1, small)
    right(s1, small)
    concat(s1, s2)
    s1 || '-' || s2
    concat(s1, i1)
    concat('a', null)
    concat_ws(',', s1, s2)
    concat_ws('-', s1, 'x', s2)
    concat_ws(s1, s2, 'a')
    concat_ws(',', if(b1, s1, null))
    concat_ws('-', if(b1, s1, null), if(b1, null, s2), nullif(s2, 'a'))
    concat_ws(s1, if(b1, s2, null), array(nullif(s2, s2)))
    trim(s1)
    ltrim(s1)
    rtrim(s1)
    btrim(s1, 'ab')
    trim(both 'a' from s1)
    trim(leading 'a' from s1)
    trim(trailing 'c' from s1)
    ltrim('ab', s1)
    lpad(s1, 5, '*')
    rpad(s1, 7, 'ab')
    lpad(s1, small)
    rpad(s1, small, '')
    repeat(s1, small)
    space(small)
    reverse(s1)
    instr(s1, 'b')
    instr(s1, s2)
    locate('b', s1)
    locate('b', s1, 3)
    locate('', s1)
    locate('c', s1, 2)
    position('b' in s1)
    replace(s1, 'a', 'xx')
    replace(s1, 'ab')
    replace(s1, '', 'x')
    translate(s1, 'abc', '12')
    ascii(s1)
    chr(i1)
    startswith(s1, 'a')
    endswith(s1, 'c')
    contains(s1, 'b')
    contains(s1, s2)
    substring_index(s1, ',', 2)
    substring_index(s1, ',', -2)
    substring_index(s1, 'b', 1)
    split_part(s1, ',', 2)
    split_part(s1, ',', -1)
    split_part(s1, ',', 0)
    split_part(s1, 'b', small)
    overlay(s1 placing 'XX' from 2)
    overlay(s1, 'XX', 2, 0)
    base64(x1)
    hex(x1)
    hex(s1)
    hex(i1)
    hex(l1)
    md5(s1)
    md5(x1)
    sha(s1)
    sha1(x1)
    sha2(s1, 256)
    sha2(x1, 0)
    sha2(s1, 512)
    sha2(s1, small)
    sha2(x1, 224)
    sha2(s1, 384)
    sha2(s1, 1)
    crc32(s1)
    crc32(x1)
    levenshtein(s1, s2)
    levenshtein(s1, 'abc')
    s1 like 'a%'
    s1 like '%c'
    s1 like '%b%'
    s1 like 'a_c'
    s1 like 'abc'
    s1 like '%'
    s1 like ''
    s1 like '\\%%'
    s1 like '%/_%' escape '/'
    s1 not like 'a%'
    s1 ilike 'A%'
    s1 like s2
    s1 rlike '^[a-c]+$'
    s1 rlike 'b'
    s1 rlike concat('[', hex(s2), 'a-c]')
    regexp_replace(s1, concat('[', hex(s2), 'a-c]'), '<$0>')
    regexp_extract(s1, concat('([', hex(s2), 'a-c]+)'), 1)
    regexp_count(s1, concat('[', hex(s2), 'a-c]'))
    split(s1, concat('[', hex(s2), 'bc]'))
    regexp_like(s1, '[A-Z]')
    regexp_extract(s1, '([a-z])([a-z])', 2)
    regexp_extract(s1, '[a-z]+', 0)
    regexp_extract(s1, '([a-b])', 3)
    regexp_replace(s1, '[aeiou]', '<$0>')
    regexp_replace(s1, '(a)(b)', '$2$1')
    regexp_count(s1, '[a-z]')
    regexp_substr(s1, '[b-z]+')
    split(s1, ',')
    split(s1, '[,b]')
    split(s1, '')
    split(s1, ',', 2)
    split(s1, 'b', 1)
    split(s1, '', 3)
    length(i1)
    upper(i1)
""")

NESTED = _lines(f"""
    {XS}
    array(1, 2.5)
    array(s1, null)
    size(array())
    {XS}[small]
    {XS}[0]
    array(1, 2, 3)[1]
    element_at({XS}, small)
    element_at({XS}, -1)
    try_element_at({XS}, 7)
    get({XS}, small)
    {MAP}['a']
    {MAP}[s1]
    element_at({MAP}, 'zz')
    {MAP}.a
    size({XS})
    size({NULLABLE})
    size({MAP})
    array_contains({XS}, 1)
    array_contains({XS}, small)
    array_contains({SS}, 'a')
    array_contains({NULLABLE}, i2)
    array_contains({DS}, d1)
    array_contains(array(1, 2, null), 3)
    array_position({XS}, small)
    array_position({SS}, s2)
    array_remove({XS}, small)
    array_append({XS}, 5)
    array_prepend({NULLABLE}, small)
    array_append({SS}, null)
    array_compact({XS})
    array_distinct({XS})
    array_distinct({DS})
    array_max({XS})
    array_min({DS})
    array_max({DS})
    array_max({SS})
    sort_array({XS})
    sort_array({XS}, false)
    array_sort({DS})
    array_sort({SS})
    array_join({SS}, ',')
    array_join({SS}, '-', 'NULL')
    array_join({XS}, ',')
    array_union({XS}, {YS})
    array_intersect({XS}, {YS})
    array_except({XS}, {YS})
    array_except({NULLABLE}, {YS})
    arrays_overlap({XS}, {YS})
    arrays_overlap({SS}, array('a'))
    slice({XS}, 2, 2)
    slice({XS}, -2, 1)
    slice({XS}, small, 2)
    slice({XS}, 1, small)
    flatten(array(array(i1), if(b1, null, array(i2, 1))))
    flatten(array({XS}, {YS}))
    array_repeat(s1, small)
    sequence(1, small)
    sequence(small, 1)
    concat({XS}, {YS})
    concat({NULLABLE}, {XS})
    reverse({XS})
    reverse({NULLABLE})
    {STRUCT}
    {STRUCT}.x
    struct(i1, s1)
    struct(i1, s1 as q, 1)
    array(named_struct('x', i1), named_struct('x', i2)).x
    struct(1 as a, 'x' as b).a
    {MAP}
    map(s1, 1, s2, 2)
    map_keys({MAP})
    map_values({MAP})
    map_entries({MAP})
    map_contains_key({MAP}, s1)
    map_from_arrays({SS}, array(1, 2))
    map_from_arrays({SS}, {NULLABLE})
    map_from_entries(array(struct(s1 as k, i1 as v), struct('q' as k, i2 as v)))
    struct(i1, s1) = struct(i2, s2)
    array(i1, i2) < array(i2, i1)
    array(d1, d2) >= array(d2, d1)
    struct(d1, i1) < struct(d2, i2)
    {NULLABLE} = {NULLABLE}
    {NULLABLE} <=> null
    coalesce({NULLABLE}, {YS})
    greatest({XS}, {YS})
    case when b1 then {XS} else {YS} end
    if(b1, array(1), array(1.5))
    concat_ws(',', {SS}, 'z', s2)
    {XS} in ({YS}, {XS})
""")

LAMBDAS = _lines(f"""
    transform({XS}, x -> x div 2)
    transform({XS}, (x, i) -> x % 5 + i)
    transform({NULLABLE}, x -> concat(s1, x))
    transform({XS}, x -> 10 div x)
    transform(array({XS}, {NULLABLE}), ys -> transform(ys, y -> y > small))
    transform(array(named_struct('x', i1)), s -> s.x)
    transform(array(1, 2), x -> x + 1)
    filter({XS}, x -> x > 0)
    filter({XS}, (x, i) -> i > 0)
    size(filter({XS}, x -> x is not null))
    exists({XS}, x -> x = small)
    exists({NULLABLE}, x -> x is null)
    exists({XS}, x -> null)
    forall({XS}, x -> x > -5)
    aggregate({XS}, 0L, (s, x) -> s + coalesce(x, 0))
    aggregate({NULLABLE}, cast(0 as bigint), (s, x) -> s + x, s -> s * 2)
    reduce({SS}, '', (s, x) -> concat(s, x))
""")

GROUPS = {
    "arithmetic": ARITHMETIC,
    "logic": LOGIC,
    "casts": CASTS,
    "datetime": DATETIME,
    "inexact": INEXACT,
    "rounding": ROUNDING,
    "strings": STRINGS,
    "nested": NESTED,
    "lambdas": LAMBDAS,
    "encodings": ENCODINGS,
    "words": WORDS,
    "maps": MAPS,
    "json": JSON,
    "collations": COLLATIONS,
    "csv": CSV,
    "times of day": CLOCKS,
    "variants": VARIANTS,
    "hashes": HASHES,
    "formats": FORMATS,
    "times": TIMES,
    "vectors": VECTORS,
    "number formats": NUMBER_FORMATS,
}
