"""Comparisons by collations over ``values.SCHEMA``, beside the expressions of ``cases``."""

from __future__ import annotations

_NAMES = ("UTF8_BINARY", "UTF8_LCASE", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM")
_OF_ICU = ("UNICODE", "UNICODE_CI", "UNICODE_CI_AI", "de", "tr_CI", "sv_CI_AI", "zh_Hant_TWN")
_PASSED = [
    "concat(s1 COLLATE UTF8_LCASE, '')",
    "concat('', s1 COLLATE UTF8_LCASE, s2 COLLATE UTF8_LCASE)",
    "substring(s1 COLLATE UTF8_LCASE, 1, 3)",
    "left(s1 COLLATE UTF8_LCASE_RTRIM, 3)",
    "right(s1 COLLATE UNICODE_CI, 3)",
    "repeat(s1 COLLATE UTF8_LCASE, 1)",
    "reverse(s1 COLLATE UTF8_LCASE)",
    "lpad(s1 COLLATE UTF8_LCASE, 3, 'x')",
    "rpad(s1 COLLATE UNICODE_CI, 3, 'x')",
    "coalesce(s1 COLLATE UTF8_LCASE, s2)",
    "if(small > 0, s1 COLLATE UTF8_LCASE, s2)",
    "CASE WHEN small > 0 THEN s1 WHEN small < 0 THEN s2 COLLATE UTF8_LCASE END",
    "(s1 || s2 COLLATE UTF8_LCASE)",
]
_OTHER = "upper(s2)"

COLLATIONS = [
    *(f"s1 {symbol} upper(s1) COLLATE {name}" for name in _NAMES for symbol in ("=", "<", ">=")),
    *(f"s1 {symbol} upper(s1) COLLATE {name}" for name in _OF_ICU for symbol in ("=", "<")),
    *(f"concat(s1, '  ') COLLATE {name}_RTRIM <=> s2" for name in _OF_ICU),
    *(f"s1 COLLATE {name} IN ('ABC', 'İ', ' ', 'SS', 'UNICODE', 'Line\\nbreak')" for name in _OF_ICU),
    "replace(s1, 'ß', 's') = upper(s2) COLLATE UNICODE_AI",
    "s1 BETWEEN 'a' COLLATE de AND s2 COLLATE de",
    "collation(s1 COLLATE unicode_rtrim_ai_ci)",
    "typeof(s1 COLLATE EN_usa_ci)",
    *(f"concat(s1, '  ') COLLATE {name} <=> s2" for name in _NAMES),
    *(f"s1 COLLATE {name} != {_OTHER}" for name in _NAMES),
    *(f"s1 COLLATE {name} IN ('ABC', 'İ', ' ', 'SS', 'Line\\nbreak')" for name in _NAMES),
    *(f"{text} = {other}" for text in _PASSED for other in ("s2", "upper(s1)", "'ABC'")),
    "upper(s1 COLLATE UTF8_LCASE) = lower(s1)",
    "lower(s1 COLLATE UNICODE_CI) < upper(s2)",
    "nullif(s1 COLLATE UTF8_LCASE, 'ABC') = 'abc'",
    "nullif(s1 COLLATE UTF8_LCASE, 'ABC') IS NULL",
    "collation(reverse(concat(s1, 'x') COLLATE de_CI))",
    "length(concat(s1 COLLATE UTF8_LCASE, s2))",
    "s1 BETWEEN 'a' COLLATE UTF8_LCASE AND s2 COLLATE UTF8_LCASE",
    "s1 > 'B' COLLATE UTF8_LCASE OR s2 COLLATE utf8_lcase = 'it''S'",
    "CASE s1 COLLATE UTF8_LCASE WHEN 'A' THEN 1 WHEN upper(s2) THEN 2 END",
    "collate(s1, 'system.builtin.UTF8_LCASE') = s2",
    "s1 COLLATE UTF8_LCASE COLLATE UTF8_BINARY = lower(s2)",
    "CAST(s1 COLLATE UTF8_LCASE AS STRING) = lower(s1)",
    "length(s1 COLLATE UTF8_LCASE)",
    "s1 COLLATE UTF8_LCASE IS NULL",
    "collation(s1)",
    "collation(s1 COLLATE utf8_lcase_rtrim)",
    "typeof(s1 COLLATE UTF8_LCASE)",
    *(
        f"'{a}' COLLATE UTF8_LCASE = '{b}'"
        for a, b in (
            ("ς", "Σ"),
            ("İ", "i̇"),
            ("ß", "ẞ"),
            ("ss", "ß"),
            ("ΑΣ", "ας"),
            ("\u212a", "k"),
            ("ǅ", "ǆ"),
            ("Ⅷ", "ⅷ"),
        )
    ),
]
