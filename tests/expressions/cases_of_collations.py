"""Comparisons by collations over ``values.SCHEMA``, beside the expressions of ``cases``."""

from __future__ import annotations

_NAMES = ("UTF8_BINARY", "UTF8_LCASE", "UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM")
_OF_ICU = ("UNICODE", "UNICODE_CI", "UNICODE_CI_AI", "de", "tr_CI", "sv_CI_AI", "zh_Hant_TWN")
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
