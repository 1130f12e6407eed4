"""COLLATE where it has a meaning, and where it is refused: no collation is ever dropped without a word."""

from __future__ import annotations

import unicodedata

import pytest

import altneu as an
from altneu import types as T
from altneu.errors import PlanError, UnsupportedFunctionError
from altneu.expressions import parse
from altneu.expressions.collations import NAMES
from altneu.expressions.functions.collating import collation_key
from altneu.sql import query

SCHEMA = T.parse_schema("s string, i int, xs array<string>")
ROWS = an.source("rows", SCHEMA)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("initcap(s COLLATE UTF8_LCASE) = 'a'", r"initcap\(\) of"),
        (
            "concat(s COLLATE UTF8_LCASE, s COLLATE UNICODE) = 'a'",
            "concat: the collations UNICODE and UTF8_LCASE do not",
        ),
        ("upper(s COLLATE UTF8_LCASE) = s COLLATE UTF8_BINARY", "do not mix"),
        *((f"{f}(s COLLATE UNICODE, 'a')", rf"{f}\(\) of") for f in ("contains", "startswith", "endswith", "instr")),
        ("replace(s COLLATE UNICODE, 'a', 'b') = 'B'", r"replace\(\) of"),
        ("split_part(s COLLATE UTF8_LCASE_RTRIM, 'a', 1) = 'B'", r"split_part\(\) of"),
        ("trim(TRAILING 'A' FROM s COLLATE UTF8_LCASE_RTRIM) = 'B'", r"trim\(\) of"),
        ("struct(s COLLATE UTF8_LCASE)", r"named_struct\(\) of"),
        ("upper(s COLLATE de_CI)", r"upper\(\) of"),
        ("s COLLATE UNICODE_CI LIKE 'a%'", r"like\(\) of"),
        ("split(s COLLATE UTF8_LCASE_RTRIM, 'a')", r"split\(\) of"),
        ("initcap(s COLLATE UTF8_LCASE)", r"initcap\(\) of"),
        ("transform(xs, x -> x COLLATE UTF8_LCASE)", "a text with a collation is not supported here"),
        ("s COLLATE UTF8_LCASE = s COLLATE UTF8_BINARY", "do not mix"),
        ("s COLLATE UTF8_LCASE = i", "not a text"),
        ("i COLLATE UTF8_LCASE = 'a'", "takes a text"),
        ("s COLLATE UNICODE_XI = 'a'", "the collation UNICODE_XI is not supported; there are UTF8_BINARY"),
        ("s COLLATE br = 'a'", "the collation br is not supported: the ICU"),
        ("collate(s, s) = 'a'", "must be a constant"),
        ("CAST(s AS STRING COLLATE UTF8_LCASE) = s", "do not mix"),
        ("CAST(array(xs) AS ARRAY<ARRAY<STRING COLLATE UTF8_LCASE>>)", "a COLLATE inside the type"),
    ],
)
def test_where_a_collation_would_be_lost_it_is_refused(text, why):
    with pytest.raises(PlanError, match=why):
        parse(text, SCHEMA)


@pytest.mark.parametrize("text", ["collect_set(s COLLATE UTF8_LCASE)", "collect_list(DISTINCT s COLLATE UTF8_LCASE)"])
def test_other_aggregates_of_values_take_none(text):
    with pytest.raises(UnsupportedFunctionError, match="collation"):
        ROWS.group_by("i").agg(f"{text} AS x")


_VALUES = [
    ("max(s COLLATE UTF8_LCASE)", "a"),
    ("min(s COLLATE UTF8_LCASE)", "A"),
    ("max_by(i, s COLLATE UTF8_LCASE)", 1),
    ("any_value(s) COLLATE UTF8_LCASE = 'a'", True),
]


@pytest.mark.parametrize(("text", "expected"), _VALUES)
def test_aggregates_that_compare_obey_the_collation(text, expected):
    with an.Session() as session:
        view = session.maintain("v", ROWS.group_by("i").agg(f"{text} AS x").select("x"))
        session.insert("rows", [("a", 1, None), ("A", 1, None)])
        session.advance()
        assert view.to_pylist() == [(expected,)]


def test_a_text_of_a_group_by_a_collation_is_refused_with_what_to_show():
    why = r"several values in a group of equal s COLLATE UTF8_LCASE; show min\(s\) or max\(s\), or .*collation_key\(s"
    with pytest.raises(PlanError, match=why):
        query("SELECT s, count(*) FROM rows GROUP BY s COLLATE UTF8_LCASE", {"rows": ROWS})


def test_a_group_by_a_collation_shows_the_least_of_its_texts():
    text = "SELECT s COLLATE UTF8_LCASE AS t, count(*) AS n FROM rows GROUP BY s COLLATE UTF8_LCASE"
    with an.Session() as session:
        view = session.maintain("v", query(text, {"rows": ROWS}))
        session.insert("rows", [("a", 1, None), ("A", 1, None), (None, 2, None)])
        session.advance()
        assert sorted(view.to_pylist(), key=str) == [("A", 2), (None, 1)]
        session.retract("rows", [("A", 1, None)])
        session.advance()
        assert sorted(view.to_pylist(), key=str) == [("a", 1), (None, 1)]


@pytest.mark.parametrize("call", ["lag(s COLLATE UTF8_LCASE) OVER (ORDER BY i)", "first(s COLLATE UTF8_LCASE) OVER ()"])
def test_windows_of_values_keep_the_collation(call):
    made = ROWS.window(x=call)
    with an.Session() as session:
        view = session.maintain("v", made.select(same="x = 'A'"))
        session.insert("rows", [("a", 1, None)])
        session.advance()
        assert view.to_pylist() == [(None if "lag" in call else True,)]


def test_users_functions_take_none():
    shout = an.udf(lambda text: text + "!", "string")
    with pytest.raises(UnsupportedFunctionError, match="collation"):
        an.sql.query("SELECT shout(s COLLATE UTF8_LCASE) AS x FROM rows", {"rows": ROWS}, {"shout": shout})


@pytest.mark.parametrize("name", NAMES)
def test_a_key_is_its_own_key(name):
    import pyarrow as pa

    texts = pa.array(["", " ", "Abc  ", "ΑΣ", "İ", "ß\t ", None, "Ǆx"])
    once = collation_key(texts, name)
    assert collation_key(once, name).equals(once)
    assert once.is_null().equals(texts.is_null())


def test_a_dataframe_with_a_column_of_a_collation_is_refused(spark):
    schema = spark.sql("SELECT 'a' COLLATE UTF8_LCASE AS s").schema
    frame = spark.createDataFrame([("Abc",), ("aBC",)], schema)
    with an.Session(spark) as session:
        for reading in (frame, frame.groupBy("s").count(), frame.filter("s = 'ABC'")):
            with pytest.raises(PlanError, match=r"collation.*; cast it to string"):
                session.maintain("v", reading)
        rows = session.maintain("rows", an.source("t", "s string").distinct())
        session.insert("t", frame)  # a column of a source has none, so its texts are told apart by their bytes
        session.advance()
        assert sorted(rows.to_pylist()) == [("Abc",), ("aBC",)]


def test_a_type_of_spark_connect_with_a_collation_is_refused():
    types_pb2 = pytest.importorskip("pyspark.sql.connect.proto.types_pb2")
    from altneu.expressions.pyspark.connect import type_text

    text = types_pb2.DataType
    assert (
        type_text(text(string=text.String()))
        == type_text(text(string=text.String(collation="UTF8_BINARY")))
        == "string"
    )
    with pytest.raises(PlanError, match="string collate UNICODE"):
        type_text(text(string=text.String(collation="UNICODE")))


_ODD = ["", "a", "A", "aBcABc", "b", "bC", "İ", "i", "i̇", "\u0307", "xİy", "İİ", "ΑΣ", "ς", "Σα", "ß", "ẞ", "É,é", "é"]
_SEARCHES = [
    *(f"{f}(s COLLATE UTF8_LCASE, p)" for f in ("contains", "startswith", "endswith", "instr", "find_in_set")),
    *(f"locate(p, s COLLATE UTF8_LCASE, {n})" for n in (0, 1, 2, 9)),
    "position(p IN s COLLATE UTF8_LCASE)",
    "CAST(replace(s COLLATE UTF8_LCASE, p, '_') AS STRING)",
    "CAST(replace(s COLLATE UTF8_LCASE, p) AS STRING)",
    *(
        f"CAST({f}(s COLLATE UTF8_LCASE, p, {n}) AS STRING)"
        for f in ("split_part", "substring_index")
        for n in (1, 2, -1)
    ),
]


def test_searches_by_lower_case_find_what_spark_finds(spark):
    import pyarrow as pa

    from tests.expressions.against_spark import compare

    pairs = [(a, b) for a in [*_ODD, None] for b in [*_ODD, None]]
    table = pa.table(
        {"s": pa.array([a for a, _ in pairs], pa.string()), "p": pa.array([b for _, b in pairs], pa.string())}
    )
    assert compare(spark, table, _SEARCHES) == []


_L = "s COLLATE UTF8_LCASE"
_SPACED = ["UTF8_BINARY_RTRIM", "UTF8_LCASE_RTRIM"]
_GIVING = [
    *(
        f"{text}"
        for c in ("UTF8_LCASE", *_SPACED)
        for text in (
            f"replace(s COLLATE {c}, p, '_')",
            f"translate(s COLLATE {c}, p, 'xy')",
            f"substring_index(s COLLATE {c}, p, 1)",
            f"substring_index(s COLLATE {c}, p, -1)",
            f"trim(LEADING p FROM s COLLATE {c})",
            f"greatest(s COLLATE {c}, p)",
            f"least(s COLLATE {c}, p, NULL, 'b')",
            f"greatest('B', s COLLATE {c}, p)",
        )
    ),
    f"trim(p FROM {_L})",
    f"trim(TRAILING p FROM {_L})",
    f"ltrim('aİ', {_L})",
    f"mask({_L})",
    f"overlay({_L}, p, 2)",
    f"elt(1, {_L}, p)",
]
_LIKE = [
    "a%",
    "%b%",
    "%İ%",
    "_",
    "%ς",
    "ß",
    "%k%",
    "s",
    "a\\\\%%",
    "%\u0131",
    "I%",
    "i%",
    "µ",
    "_\\\\_",
    "_ß%",
    "_aß%",
    "ß_",
]
_LIKE += ["İ_%", "_s", "_\u017f", "_ẞ", "aß%ß", "%ß%a%", "%_", "a%c", "%%", "", "%", "A%%"]
_REGEXPS = ["a", "^a.*b", "[a-c]+", "(b)(c)?", "s", "k", "ς", "\\\\w", "[^a]", "[ας]", "\\\\s+", "^$", "\\\\bA"]
_PLAIN = "translate(s, 'İ\u0131ẞ\u017f\u212aß', '') COLLATE UTF8_LCASE"
_MORE = [
    *(f"{f}(s COLLATE {c}, p)" for c in _SPACED for f in ("contains", "startswith", "endswith", "instr")),
    *(f"locate(p, s COLLATE {c}, {n})" for c in _SPACED for n in (0, 1, 2, 9)),
    *(f"CAST({text} AS STRING)" for text in _GIVING),
    *(f"{_L} LIKE '{p}'" for p in _LIKE),
    *(f"{_L} ILIKE '{p}'" for p in _LIKE),
    *(f"s ILIKE '{p}'" for p in _LIKE),
    f"{_L} LIKE 'aa%' ESCAPE 'a'",
    f"{_L} LIKE concat('%', replace(p, '\\\\', ''))",
    f"{_L} LIKE concat('_', replace(p, '\\\\', ''))",
    f"{_L} LIKE ANY ('a%', 'B')",
    f"{_L} NOT LIKE 'A%'",
    "'a' LIKE 'A' COLLATE UTF8_LCASE",
    *(f"{_PLAIN} RLIKE '{p}'" for p in _REGEXPS),
    *(f"{f}({_PLAIN}, '{p}')" for f in ("regexp_count", "regexp_instr") for p in _REGEXPS),
    *(f"CAST(regexp_extract({_PLAIN}, '{p}', 0) AS STRING)" for p in _REGEXPS),
    *(f"CAST(regexp_substr({_PLAIN}, '{p}') AS STRING)" for p in _REGEXPS),
    *(f"CAST(regexp_replace({_PLAIN}, '{p}', '<$0>') AS STRING)" for p in _REGEXPS),
    *(f"{f}(s COLLATE UNICODE_CI)" for f in ("md5", "hash", "quote", "base64", "soundex", "crc32", "ascii")),
    *(f"collation({f}(s COLLATE de))" for f in ("md5", "hex", "mask", "quote")),
    f"collation(greatest({_L}, p))",
    f"greatest({_L}, p) = 'A'",
    f"replace({_L}, p, '_') = 'A_'",
    f"collation(regexp_replace({_L}, 'a', 'b'))",
    f"levenshtein({_L}, p)",
    f"format_string('%s', {_L})",
    f"try_cast({_L} AS INT)",
    f"nvl2({_L}, {_L}, p) = 'A'",
]
_LEFT = [
    *_ODD,
    "a ",
    "A  ",
    " ",
    "b a ",
    "\u0131",
    "I",
    "\u017f",
    "\u212a",
    "k",
    "İi̇I",
    "a%",
    "\\%",
    "100%",
    "µ",
    "\u039c",
    "a_",
    "s",
    "S",
]
_RIGHT = ["", "a", "A ", "bC", "İ", "i", "i̇", "\u0307", "ς", "ß", "ẞ", "É", " ", "\u0131I", "s", "k", "a%", "İi̇I", None]
_LEFT += ["aß", "aẞ", "xß", "xẞ", "xs", "x\u017f", "iẞ", "İx", "ßx", "ẞx"]


def test_texts_are_searched_trimmed_and_matched_as_in_spark(spark):
    import pyarrow as pa

    from tests.expressions.against_spark import compare

    pairs = [(a, b) for a in [*_LEFT, None] for b in _RIGHT]
    columns = {"s": [a for a, _ in pairs], "p": [b for _, b in pairs]}
    assert compare(spark, pa.table({n: pa.array(v, pa.string()) for n, v in columns.items()}), _MORE) == []


def test_like_takes_the_same_letters_for_one_as_spark(spark):
    import pyarrow as pa

    from tests.expressions.against_spark import compare

    old = [c for c in map(chr, range(0x1F000)) if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Cs")]
    letters = [c for c in old if len({c, c.lower(), c.upper()}) > 1]  # newer ones depend on the version of Java
    pairs = [
        (f"{a}{c}", f"_{b}{d}")
        for c in letters
        for d in {*c, *c.lower()[:1], *c.upper()[:1]}
        for a, b in (("a", ""), ("ab", "b"))
    ]
    table = pa.table({"s": [s for s, _ in pairs], "p": [p for _, p in pairs]})
    assert compare(spark, table, ["s COLLATE UTF8_LCASE LIKE p"]) == []


@pytest.mark.parametrize("text", ["s COLLATE UTF8_LCASE RLIKE 'i'", "regexp_count(s COLLATE UTF8_LCASE, 'i') = 1"])
def test_a_text_of_which_java_and_re2_differ_is_an_error_row(text):
    with an.Session() as session:
        view = session.maintain("v", ROWS.filter(text).select("s"))
        session.insert("rows", [("I", 1, None), ("İ", 1, None)])
        session.advance()
        (error,) = view.errors().to_pylist()
        assert error["code"] == "COLLATION_UNKNOWN_CHARACTER"
        session.retract("rows", [("İ", 1, None)])
        session.advance()
        assert view.to_pylist() == [("I",)]


def test_dataframes_of_a_source_with_a_collation_obey_it(spark):
    from pyspark.sql import functions as F
    from pyspark.sql.window import Window

    rows = [("Abc", "abc", 1), ("aBC", "ABC", 2), ("b", "B", 3), (None, None, 4)]
    schema = "k STRING COLLATE UTF8_LCASE, p STRING, i INT"
    made = {
        "filtered": lambda d: d.filter(F.col("k") == "ABC").select("i"),
        "grouped": lambda d: d.groupBy("k").count().select("count"),
        "distinct": lambda d: d.select("k").distinct().select(F.upper("k")),
        "deduplicated": lambda d: d.dropDuplicates(["k"]).select(F.lower("k")),
        "joined": lambda d: d.join(d.select("k", F.col("i").alias("j")), "k").select("i", "j"),
        "numbered": lambda d: d.select("i", F.count("*").over(Window.partitionBy("k")).alias("n")),
        "less": lambda d: d.select(F.lower("k")).subtract(d.filter("i < 3").select(F.lower("k"))),
        "common": lambda d: d.select(F.lower("k")).intersect(d.filter("i < 3").select(F.lower("k"))),
        "like": lambda d: d.filter(F.col("k").like("A%")).select("i"),
        "anti": lambda d: d.join(d.filter("i = 1").select("k"), "k", "left_anti").select("i"),
        "written": lambda d: d.groupBy(F.collate("p", "UTF8_LCASE")).count().select("count"),
        "best": lambda d: d.agg(F.countDistinct("k"), F.max("k"), F.greatest(F.max("k"), F.lit("A"))),
    }
    theirs = spark.createDataFrame(rows, schema)
    with an.Session(spark) as session:
        session.sql(f"CREATE TABLE c ({schema})")
        session.insert("c", rows)
        views = {name: session.maintain(name, make(session.frame("c"))) for name, make in made.items()}
        session.advance()
        for name, make in made.items():
            expected = sorted(map(repr, map(tuple, make(theirs).collect())))
            assert sorted(map(repr, map(tuple, views[name].to_pylist()))) == expected, name
