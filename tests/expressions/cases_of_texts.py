"""Expressions of texts, bytes and maps over ``values.SCHEMA``, beside those of ``cases``."""

from __future__ import annotations

XS, YS, SS = "array(i1, i2, small)", "array(i2, 7)", "array(s1, s2)"
NULLABLE, MAP = "if(b1, null, array(i1, i2))", "map('a', i1, 'b', i2)"
URL = "concat('http://u:p@', if(b1, 'h.org:80', '127.0.0.1'), '/a/', url_encode(s1), '?k=', url_encode(s2), '&x=%20#f')"
ODD_URLS = (
    "element_at(array('http://h_x/', 'http://[::1]:8/x', '//host/x?', 'a:b', 'http:///x?q#', 'mailto:a@b', '', 'abc', "
    "'http://h:8x/', 'http://-a.org/', 'x:/p;a=1/é', 'http://a.b./?k=1&k=2'), pmod(coalesce(small, 0), 12) + 1)"
)
BAD_URLS = (
    "element_at(array('http://h/a b', 'http://', '1http://x/', 'http://ho|st/', 'http://h/%zz', 'http://h/^', 'a:', "
    "':x', 'http://h/p[', 'http://[x]/', 'ok'), pmod(coalesce(small, 0), 11) + 1)"
)


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


ENCODINGS = _lines(f"""
    bin(i1)
    bin(l1)
    conv(num, 10, 16)
    conv(num, 16, -10)
    conv(num, 36, 2)
    conv(l1, 10, -36)
    conv(s1, 16, small)
    conv('7b', small * 4, 10)
    unhex(num)
    unhex(hex(x1))
    unhex(s1)
    unbase64(base64(x1))
    unbase64(concat(base64(x1), '\\n*'))
    encode(s1, 'utf-8')
    encode(s1, 'UTF-16')
    encode(s1, 'UTF-16LE')
    encode(s1, 'UTF-32')
    encode(s1, 'iso-8859-1')
    encode(s1, 'us-ascii')
    encode(s1, s2)
    decode(x1, 'ISO-8859-1')
    decode(x1, 'US-ASCII')
    decode(encode(s1, 'UTF-16'), 'UTF-16')
    decode(encode(s1, 'UTF-32'), 'utf-32')
    decode(x1, 'UTF-16BE')
    decode(s1, 'ISO-8859-1')
    decode(i1, 1, 'one', null, s1, 7, 'seven')
    decode(s1, 'a', i1, 'b', 2, l1)
    to_binary(num)
    to_binary(s1, 'utf-8')
    to_binary(base64(x1), 'base64')
    to_binary(s1, 'base64')
    try_to_binary(num, 'hex')
    try_to_binary(num, 'base64')
    try_to_binary(concat(num, '='), 'base64')
    to_base32(x1)
    to_base32(s1)
    from_base32(to_base32(x1))
    from_base32(s1)
    from_base32(num)
    hmac(concat('k', s1), s2)
    hmac('k', x1, 'MD5')
    hmac(s1, s2, 'SHA-1')
    hmac('k', s1, 'SHA-512')
    hmac(s1, x1, 'sha256')
    is_valid_utf8(s1)
    make_valid_utf8(s1)
    validate_utf8(s1)
    try_validate_utf8(s1)
    url_encode(s1)
    url_encode(num)
    url_decode(url_encode(s1))
    url_decode(s1)
    url_decode(num)
    try_url_decode(s1)
    bitmap_bit_position(l1)
    bitmap_bucket_number(l1)
    bitmap_count(x1)
    bit_get(i1, small)
    getbit(l1, 63)
    bit_get(y1, 7)
    {
    "".join(
        f'''
    parse_url({URL}, '{part}')'''
        for part in ("HOST", "PATH", "QUERY", "REF", "PROTOCOL", "FILE", "AUTHORITY", "USERINFO", "x")
    )
}
    parse_url({URL}, 'QUERY', 'k')
    parse_url({URL}, 'PATH', 'k')
    {
    "".join(
        f'''
    parse_url({ODD_URLS}, '{part}')'''
        for part in ("HOST", "PATH", "QUERY", "FILE", "AUTHORITY")
    )
}
    parse_url({BAD_URLS}, 'HOST')
    try_parse_url({BAD_URLS}, 'PATH')
    parse_url({ODD_URLS}, 'QUERY', 'k')
""")

HASHES = [
    *(
        f"{name}({value})"
        for name in ("hash", "xxhash64")
        for value in (
            *("b1", "y1", "h1", "i1", "l1", "f1", "d1", "n1", "m1", "m2", "s1", "x1", "t1", "p1", "j1", "num"),
            "i1, s1, null, d1",
            "concat(s1, j1, s2, j1)",
            f"{XS}, {SS}",
            f"{NULLABLE}, i2",
            "struct(i1, s1, struct(d1, m1) as q)",
            "p1 - p2",
            "array(array(s1, null), array())",
        )
    ),
    "hash(null)",
    "xxhash64('a', 1)",
]

WORDS = _lines(f"""
    soundex(s1)
    soundex(concat('ash', s1, 'wick'))
    luhn_check(num)
    luhn_check(concat('7992739871', small))
    jaro_winkler_similarity(s1, s2)
    jaro_winkler_similarity(s1, 'abcd')
    jaro_winkler_similarity('crate', 'trace')
    find_in_set(s1, concat(s2, ',a,,abc'))
    find_in_set('', s1)
    mask(s1)
    mask(s1, 'Q', null, 'd', 'o')
    mask(concat(s1, '9٣😀'), 'U', 'l', 'd', '*')
    quote(s1)
    str_to_map(s1)
    str_to_map(concat('a:', s1, ';b'), ';', ':')
    str_to_map(concat('x=1&y=', num), '&', '=')
    elt(1, s1, s2)
    elt(small, s1, s2, 'c')
    elt(2, x1, x1)
    elt(2, s1, i1)
    nullifzero(i1)
    nullifzero(n1)
    nullifzero(d1)
    zeroifnull(i1)
    zeroifnull(d1)
    zeroifnull(n1)
    typeof(n1)
    typeof({XS})
    collation(s1)
    current_timezone()
    assert_true(b1)
    between(i1, small, 7)
    assert_true(i1 > 0, concat('no: ', s1))
    regexp_extract_all(s1, '([a-z])([a-z])', 2)
    regexp_extract_all(s1, '[a-z]+', 0)
    regexp_extract_all(s1, '([a-b])?([c-z])')
    regexp_extract_all(s1, '([a-b])', 3)
    regexp_extract_all(s1, concat('([', hex(s2), 'a-c])'))
    regexp_instr(s1, '[b-z]')
    regexp_instr(s1, 'q')
    regexp_instr(s1, '')
    regexp_instr(s1, concat('[', hex(s2), 'b]'), 0)
""")

MAPS = _lines(f"""
    array_insert({XS}, 2, 9)
    array_insert({XS}, small, 9)
    array_insert({XS}, -1, i2)
    array_insert({NULLABLE}, small, small)
    array_insert({SS}, 5, null)
    arrays_zip({XS}, {YS})
    arrays_zip({XS}, {SS}, {NULLABLE})
    arrays_zip({XS})
    zip_with({XS}, {YS}, (x, y) -> coalesce(x, 0) % 10 + y % 3)
    zip_with({NULLABLE}, {SS}, (x, y) -> concat(y, x, s1))
    zip_with({XS}, {YS}, (x, y) -> x div y)
    map_concat({MAP}, map('c', small))
    map_concat({MAP}, map(s1, l1))
    map_concat({MAP}, if(b1, null, map('d', 1)))
    map_concat(map(s1, struct(i1 as v)), map(concat(s1, 'x'), struct(i2 as v)))
    map_filter({MAP}, (k, v) -> v > 0)
    map_filter({MAP}, (k, v) -> k = s1 or v = 2)
    map_filter(if(b1, null, {MAP}), (k, v) -> null)
    transform_keys({MAP}, (k, v) -> concat(k, s1))
    transform_keys({MAP}, (k, v) -> v)
    transform_values({MAP}, (k, v) -> v % 7)
    transform_values({MAP}, (k, v) -> 1 div v)
    transform_values(if(b1, null, {MAP}), (k, v) -> k)
    map_zip_with({MAP}, map(s1, l1, 'a', 3), (k, v, w) -> struct(k, v, w))
    map_zip_with({MAP}, if(b1, null, map('a', s1)), (k, v, w) -> concat(w, v))
    map_zip_with(map(i1, s1), map(cast(small as bigint), d1), (k, v, w) -> k)
""")

_FORMS = (
    *("999", "000", "S999", "MI999", "999PR", "999S", "999MI", "9,000", "9G99,999D09", "$999,999.00", "S$99.9", ".9"),
    *("0.9", "9.", "00999", "99099", "9.99S", "S.99", "9.9PR", "MI9.9", "0,000,999.999", "s999"),
)
_READ = ("999", "099", "S99", "99S", "MI9", "9PR", "$9", "9,999", "9.9", "9.00", "999999999999.99", "0,000", "9,9.9")
_PATTERNS = ("#,##0.0#", "0.00", "#", "#.##", "000,000", "", "####,####.0", "0.###", ",###.#")

NUMBER_FORMATS = [
    *(f"to_char({c}, '{form}')" for form in _FORMS for c in ("i1", "cast(small as decimal(8,4)) / 8")),
    "to_char(n1, 'S999G999G999D99')",
    "to_char(y1, 'S99')",
    "to_char(l1, '9,999,999,999,999,999,999')",
    "to_char(small * 0.25D, 'S9.99')",
    "to_varchar(h1, '99999MI')",
    "to_char(m1, 'S9999999999999999999999999999.9999999999')",
    "to_char(t1, 'yyyy/MM')",
    "to_char(p1, 'yyyy-MM-dd HH:mm')",
    "to_char(x1, 'base64')",
    "to_char(x1, 'HEX')",
    *(f"to_number(num, '{form}')" for form in _READ),
    *(f"try_to_number(num, '{form}')" for form in ("S9", "999.999", "9,999")),
    *(f"try_to_number(to_char(n1, '{f}'), '{f}')" for f in ("S999,999,999.99", "$999999999.99MI", "999999999.99PR")),
    "try_to_number(concat('<', i1, '>'), '99PR')",
    "try_to_number(concat(' ', s1, '<5>'), '99PR')",
    "try_to_number(concat(small, ' ', abs(small), ' '), 'S999')",
    "try_to_number(concat(abs(small), ' - '), '9S')",
    "try_to_number(concat(small, ',', abs(small), '2'), 'S9,99')",
    *(f"format_number({c}, {d})" for c in ("i1", "l1", "n1", "m1", "m2") for d in (0, 2, "small")),
    *(f"format_number(nullif({c}, 0), {d})" for c in ("d1", "f1", "small * 0.125D") for d in (0, 2, "small")),
    *(f"format_number({c}, '{p}')" for p in _PATTERNS for c in ("i1", "n1", "cast(small as decimal(8,4)) / 8")),
    "format_number(i1, null)",
]

FORMATS = _lines(r"""
    format_string('%d %s', i1, s1)
    format_string('%5.2f|%-9s|%05d', d1, s1, small)
    format_string('%x %X %o %#x %08x', y1, h1, i1, l1, l1)
    format_string('%,d|%+d|% d|%(d|%(,d', i1, i1, l1, l1, i1)
    format_string('%08d|%-8d|%+,15d', small, small, l1)
    format_string('%e|%.3e|%.0e|%12.2E', d1, d1, d1, d1)
    format_string('%f|%.0f|%,.3f|%+010.1f', d1, d1, f1, d1)
    format_string('%b %B %b', b1, b2, s1)
    format_string('%c|%3c', cast(64 + small as int), 66Y)
    format_string('%s|%S|%.2s|%6.1s', s1, s1, s1, s1)
    format_string('%s %s %s %s', t1, p1, n1, b1)
    format_string('%s|%s', d1, m1)
    format_string('%2$s %1$s %s', s1, s2)
    format_string('%%|%n|%s', null)
    format_string('none')
    format_string(null, i1)
    format_string('%d', null)
    printf('%s', l1)
""")

_VECTOR = "array(cast(small as float), cast(y1 as float), 0.5f)"
TIMES = _lines("""
    time_bucket(interval 15 minutes, p1)
    time_bucket(interval 7 days, p1, timestamp '2020-01-01 10:00:00')
    time_bucket(interval 1 month, p1)
    time_bucket(interval '1-2' year to month, cast(p1 as timestamp_ntz))
    time_bucket(interval 2 months, p1 + make_dt_interval(small, small), timestamp '2019-12-31 12:00:00')
    time_bucket(interval '1 02:03:04.5' day to second, cast(p1 as timestamp_ntz), timestamp_ntz '2021-03-01 00:00:00')
    make_dt_interval(small, small, small, small * 1.5)
    make_dt_interval(i1)
    make_dt_interval(i1, i2, i1, n1)
    p1 + make_ym_interval(small, small)
    make_ym_interval(i1, small) is null
    p1 - make_dt_interval(small)
    make_timestamp(2020, small, 1, small, 30, 5.5, 'Europe/Paris')
    make_timestamp_ltz(2020, 2, small, 1, 2, 3, '+05:30')
    try_make_timestamp(2020, small, small, small, small, 59.999999)
    try_make_timestamp(2020, small, 1, 1, 1, 1, 'America/New_York')
    try_make_timestamp_ltz(2020, 1, 1, 24 + small, 0, 0)
    try_make_timestamp_ntz(2020, 1, 1, 0, 0, 58.5 + small)
    convert_timezone('Europe/Paris', 'America/New_York', cast(p1 as timestamp_ntz))
    convert_timezone('+05:30', cast(p1 as timestamp_ntz))
    convert_timezone(if(b1, 'Europe/Paris', 'Asia/Tokyo'), if(b2, 'UTC', '-03:00'), cast(p1 as timestamp_ntz))
    convert_timezone(if(b1, 'Nowhere', 'Asia/Tokyo'), cast(p1 as timestamp_ntz))
""")
VECTORS = _lines(f"""
    vector_inner_product({_VECTOR}, {_VECTOR})
    vector_inner_product({_VECTOR}, array(1f, null, 2f))
    vector_inner_product({_VECTOR}, if(b1, array(1f), array(1f, 2f, 3f)))
    vector_l2_distance({_VECTOR}, array(1f, 2f, 3f))
    vector_cosine_similarity({_VECTOR}, array(1f, 2f, cast(h1 as float)))
    vector_cosine_similarity(array(cast(small as float)), array(2f))
    vector_norm({_VECTOR})
    vector_norm({_VECTOR}, 1f)
    vector_norm(if(b1, null, {_VECTOR}), cast('Infinity' as float))
    vector_norm({_VECTOR}, 3f)
    vector_normalize({_VECTOR})
    vector_normalize(array(cast(small as float)), 1f)
""")
