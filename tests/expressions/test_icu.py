"""ICU's collations: equal is what Spark says is equal, and in its order; what ICU 66 orders otherwise has no key."""

# ruff: noqa: RUF001 -- letters that look alike are told apart

from __future__ import annotations

import itertools
import random
import unicodedata

import pyarrow as pa
import pytest

import altneu as an
from altneu import types as T
from altneu.errors import SetupError, UnsupportedFunctionError
from altneu.expressions import icu, parse
from altneu.expressions.collations import NAMES, name_of
from altneu.expressions.functions.collating import collation_key
from altneu.expressions.icu_locales import LOCALES, OTHERS
from altneu.expressions.registry import Out
from altneu.runtime.spark.versions import to_arrow
from altneu.sql import query
from tests.expressions.against_spark import as_frame

_LETTERS = [
    *"aAbBcCdDeEhHiIjJkKlLnNoOrRsSßẞtTuUyYzZ019 -_.,'\"“”„‘’‚()&@#\t\n",
    *"äÄöüéèêñçåÅøæœıİłđžčšćőű\u0300\u0301\u0308\u0327\u0328\u030a\u030c\u0323",
    *(
        "ﬁ",
        "Ⅷ",
        "①",
        "½",
        "ａ",
        "ª",
        "™",
        "\U0001f600",
        "❤\ufe0f",
        "中",
        "文",
        "㐀",
        "\U00020000",
        "が",
        "カ",
        "ｶ",
        "ー",
    ),
    *("한", "\u1112\u1161\u11ab", "я", "Я", "й", "Ђ", "α", "Ω", "ς", "ש", "ا", "آ", "आ", "ไ", "ก", "\u200d", "\ufffd"),
    *("ch", "CH", "dž", "lj", "Ll", "ij", "aa", "Aa", "dd", "ng", "cs", "gy", "ngy", "ʻ", "\U00010400", "\U0001d49c"),
]
_SAMPLED = (
    "UNICODE",
    "de",
    "tr",
    "sv",
    "hu",
    "es",
    "fr_CAN",
    "cs",
    "ja",
    "zh",
    "zh_Hant_TWN",
    "th",
    "da",
    "sr_Latn",
    "ar",
)


def texts(rng: random.Random, count: int) -> list[str]:
    made = ("".join(rng.choices(_LETTERS, k=rng.randint(0, 5))) + rng.choice(["", "", " ", "  "]) for _ in range(count))
    return sorted({unicodedata.normalize(rng.choice(["NFC", "NFD"]), text) for text in made} | {"", " "})


def ranks(keys: pa.Array) -> list[int]:
    order = {key: i for i, key in enumerate(sorted(set(keys.to_pylist())), 1)}
    return [order[key] for key in keys.to_pylist()]


def keyed(words: list[str], name: str) -> tuple[list[str], pa.Array]:
    """The words that have a key, and their keys."""
    result = collation_key(pa.array(words, pa.string()), name)
    if not isinstance(result, Out):
        return words, result
    ((failed, _, _),) = result.failures
    kept = [i for i, bad in enumerate(failed) if not bad]
    return [words[i] for i in kept], result.values.take(pa.array(kept))


def differences(spark, words: list[str], names: list[str]) -> list[str]:
    """Where ranks by collations are not Spark's."""
    known = words
    for name in names:
        known, _ = keyed(known, name)
    frame = as_frame(spark, pa.table({"s": pa.array(known, pa.string())})).repartition(1)
    found = to_arrow(
        frame.selectExpr(
            "s", *(f"dense_rank() OVER (ORDER BY s COLLATE {name}) AS r{i}" for i, name in enumerate(names))
        )
    )
    result = []
    for i, name in enumerate(names):
        mine = ranks(collation_key(found["s"].combine_chunks(), name))
        for text, ours, theirs in zip(found["s"].to_pylist(), mine, found[f"r{i}"].to_pylist(), strict=True):
            if ours != theirs:
                result.append(f"{name}: {text!r} is at {theirs} in Spark, here at {ours}")
                break
    return result


@pytest.mark.parametrize("locale", _SAMPLED)
def test_texts_have_the_order_and_the_equality_that_spark_gives_them(spark, locale):
    words = texts(random.Random(locale), 1500)
    names = [f"{locale}{case}{accents}" for case in ("", "_CI") for accents in ("", "_AI")]
    assert differences(spark, words, [*names, f"{locale}_CI_RTRIM", f"{locale}_AI_RTRIM"]) == []


def test_every_locale_orders_letters_as_spark_does(spark):
    letters = [*map(chr, (*range(0x20, 0x250), *range(0x370, 0x600, 3))), *_LETTERS]
    names = sorted(LOCALES)
    for start in range(0, len(names), 12):
        assert differences(spark, sorted(set(letters)), names[start : start + 12]) == []


def test_characters_have_the_order_that_spark_gives_them(spark):
    rng = random.Random(0)
    borders = {ord(c) + d for c in icu._moved() for d in (-1, 1)}
    some = {*range(0x3000), *borders, *rng.sample(range(0x3000, 0x30000), 8000)}
    words = [chr(c) for c in sorted(some) if not 0xD800 <= c < 0xE000]
    assert differences(spark, words, ["UNICODE", "UNICODE_CI", "UNICODE_AI", "UNICODE_CI_AI"]) == []


def test_spark_has_the_locales_and_the_names(spark):
    theirs = {row.NAME for row in spark.sql("SELECT NAME FROM collations()").collect()}
    endings = ["".join(parts) for parts in itertools.product(("", "_CI"), ("", "_AI"), ("", "_RTRIM"))]
    assert {f"{locale}{ending}" for locale in (*LOCALES, *OTHERS) for ending in endings} | {*NAMES} == theirs
    for text in ("unicode_ai_ci", "UNICODE_RTRIM_CI", "EN_usa_cs_as", "sr_cyrl_BIH", "DE"):
        (row,) = spark.sql(f"SELECT collation('a' COLLATE {text})").collect()
        assert row[0] == f"SYSTEM.BUILTIN.{name_of(text)}"


@pytest.mark.parametrize(
    "text", ["xx", "en_us", "zh_CHN", "UNICODE_CI_CS", "UTF8_LCASE_CI", "UTF8_BINARY_AI", "de_de", *sorted(OTHERS)]
)
def test_others_are_refused_by_name(text):
    with pytest.raises(UnsupportedFunctionError, match=f"the collation {text} is not supported"):
        name_of(text)


@pytest.mark.parametrize("text", ["\U0001fae0", "a\u0378", "“\u0301", "\u20a8", "x’\u200d"])
def test_a_text_that_icu_orders_otherwise_is_an_error_row(text):
    with an.Session() as session:
        rows = an.source("rows", "s string")
        view = session.maintain("v", rows.select("s", same="s COLLATE UNICODE_CI = 'A'"))
        session.insert("rows", [("a",), (text,), (None,)])
        session.advance()
        assert sorted(map(str, view.to_pylist(errors="ignore"))) == ["('a', True)", "(None, None)"]
        (error,) = view.errors().to_pylist()
        assert error["code"] == "COLLATION_UNKNOWN_CHARACTER"
        session.retract("rows", [(text,)])
        session.advance()
        assert view.errors().to_pylist() == []


@pytest.mark.parametrize(
    ("text", "name", "fails"),
    [("ß", "UNICODE_AI", True), ("ß", "UNICODE_CI_AI", False), ("\u56cd", "zh_Hant_CI", True), ("\u0e3a", "th", True)],
)
def test_some_letters_have_a_place_in_some_collations_alone(text, name, fails):
    assert isinstance(collation_key(pa.array([text, "a"]), name), Out) == fails


def test_spark_contradicts_the_sort_keys_of_its_icu_about_one_letter(spark):
    (row,) = spark.sql("SELECT 'aß' COLLATE UNICODE < 'äß', 'ß' COLLATE UNICODE_AI = 'ss'").collect()
    assert tuple(row) == (False, False)
    assert parse("'aß' COLLATE UNICODE < 'äß'", T.parse_schema("s string")).text == "true"


def test_another_icu_is_refused(monkeypatch):
    monkeypatch.setitem(LOCALES, "fi", "00000000")
    monkeypatch.setattr(icu, "_icus", {})
    with pytest.raises(SetupError, match="the ICU of this DuckDB orders the texts of fi otherwise"):
        collation_key(pa.array(["a"]), "fi_CI")


def test_threads_have_their_own_connections():
    from concurrent.futures import ThreadPoolExecutor

    words = pa.array(["b", "Ä", "a"])
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: collation_key(words, "de_CI").to_pylist(), range(32)))
    assert all(answer == answers[0] for answer in answers)


_VIEWS = {
    "equal": "SELECT s, i FROM rows WHERE s COLLATE UNICODE_CI_AI IN ('eté', 'STRASSE') OR s COLLATE de > 'x'",
    "between": "SELECT s, i FROM rows WHERE s BETWEEN 'a' COLLATE sv AND 'z' COLLATE sv",
    "groups": "SELECT min(s) s, count(*) n FROM rows GROUP BY s COLLATE UNICODE_CI_AI_RTRIM",
    "counted": "SELECT i, count(DISTINCT s COLLATE tr_CI) n FROM rows GROUP BY i",
    "joined": "SELECT a.s, b.s t FROM rows a JOIN rows b ON a.s COLLATE de_CI = b.s AND a.i < b.i",
    "top": "SELECT s, i FROM rows ORDER BY s COLLATE sv, s, i LIMIT 5",
    "ranked": "SELECT s, i, rank() OVER (PARTITION BY i ORDER BY s COLLATE UNICODE DESC) r FROM rows",
    "shared": "SELECT s, i, count(*) OVER (PARTITION BY s COLLATE UNICODE_CI) n FROM rows",
    "within": "SELECT s, i FROM rows WHERE s COLLATE fr_CI_AI IN (SELECT upper(s) FROM rows WHERE i = 1)",
    "sets": (
        "SELECT collation_key(s, 'UNICODE_CI') k FROM rows WHERE i = 1 EXCEPT "
        "SELECT collation_key(s, 'UNICODE_CI') FROM rows WHERE i = 2"
    ),
    "least": "SELECT i, min_by(s, struct(collation_key(s, 'de'), s)) s FROM rows GROUP BY i",
}
_WORDS = [
    "été",
    "ETE",
    "Eté",
    "ete ",
    "straße",
    "STRASSE",
    "strasse",
    "äpfel",
    "zebra",
    "Ångström",
    "ı",
    "I",
    "i",
    "İ",
    "",
    None,
]


@pytest.mark.parametrize("together", [True, False])
def test_views_are_what_recomputation_gives_in_one_step_and_in_many_and_reopened(tmp_path, together):
    rng = random.Random(together)

    def opened():
        session = an.Session(path=str(tmp_path / "state"))
        rows = an.source("rows", "s string, i int")
        return session, {name: session.maintain(name, query(text, {"rows": rows})) for name, text in _VIEWS.items()}

    session, views = opened()
    standing: list[tuple[str | None, int]] = []
    for step in range(8):
        if step == 4:
            session.close()
            session, views = opened()
        for _ in range(6):
            if standing and rng.random() < 0.4:
                row = standing.pop(rng.randrange(len(standing)))
                session.retract("rows", [row])
            else:
                row = (rng.choice(_WORDS), rng.randint(1, 2))
                standing.append(row)
                session.insert("rows", [row])
            if not together:
                session.advance()
        session.advance()
        with an.Session() as fresh:
            rows = an.source("rows", "s string, i int")
            again = {name: fresh.maintain(name, query(text, {"rows": rows})) for name, text in _VIEWS.items()}
            fresh.insert("rows", standing)
            fresh.advance()
            for name, view in views.items():
                assert sorted(map(repr, view.to_pylist())) == sorted(map(repr, again[name].to_pylist())), name
    session.close()


def test_a_step_on_spark_gives_the_same(spark):
    text = "SELECT min(s) s, count(*) n FROM rows WHERE s COLLATE UNICODE_CI > 'b' GROUP BY s COLLATE de_CI_AI"
    rows = an.source("rows", "s string, i int")
    with an.Session(spark, placement="spark") as session, an.Session() as here:
        on_spark = session.maintain("v", query(text, {"rows": rows}))
        local = here.maintain("v", query(text, {"rows": rows}))
        data = [(word, i) for i, word in enumerate(_WORDS * 3)]
        session.insert("rows", spark.createDataFrame(data, "s string, i int"))
        here.insert("rows", data)
        session.advance()
        here.advance()
        assert sorted(map(repr, on_spark.to_pylist())) == sorted(map(repr, local.to_pylist()))


def test_a_key_is_part_of_expressions():
    schema = T.parse_schema("s string")
    assert parse("s COLLATE UNICODE_CI = 'A'", schema).text == "collation_key(s, 'UNICODE_CI') = '2A0105'"
