"""Regular expressions that come out of rows: each is compiled once, and one that is none fails its row."""

from __future__ import annotations

import random
import re

import numpy as np
import pyarrow.compute as pc
import pytest

import altneu as an

A = an.source("a", "s string, p string")
PIECES = ["a", "b", "[ab]", "a+", "(a|bb)", "^", "$", ".", "x?", r"\\d", "("]


def test_a_pattern_of_each_row_is_as_python_has_it():
    rng = random.Random(5)
    rows = [
        (
            "".join(rng.choices("abx1", k=rng.randrange(6))) if rng.random() < 0.9 else None,
            "".join(rng.choices(PIECES, k=rng.randrange(4))) if rng.random() < 0.9 else None,
        )
        for _ in range(500)
    ]
    plans = {
        "found": A.select("s", "p", y="s rlike p"),
        "many": A.select("s", "p", y="regexp_count(s, p)"),
        "by": A.select("s", "p", y="regexp_replace(s, p, '<$0>')"),
    }
    with an.Session() as session:
        for name, plan in plans.items():
            session.maintain(name, plan)
        session.insert("a", rows)
        session.advance()
        good = [(s, p) for s, p in rows if s is None or p is None or "(" not in p.replace("(a|bb)", "")]
        assert len(good) < len(rows)

        def expected(of):
            return sorted(((s, p, None if s is None or p is None else of(s, p)) for s, p in good), key=repr)

        actual = session.view("found")
        assert sorted(actual.to_pylist(errors="ignore"), key=repr) == expected(lambda s, p: bool(re.search(p, s)))
        many = sorted(session.view("many").to_pylist(errors="ignore"), key=repr)
        assert [(s, p, None if y is None else bool(y)) for s, p, y in many] == sorted(
            actual.to_pylist(errors="ignore"), key=repr
        )
        errors = actual.errors().to_pylist()
        assert {e["code"] for e in errors} == {"INVALID_PARAMETER_VALUE"}
        assert len(errors) == len({row for row in rows if row not in good})
        assert all("missing )" in e["message"] for e in errors)
        session.retract("a", rows)
        session.advance()
        assert [session.view(name).to_pylist() for name in plans] == [[], [], []]


def test_a_pattern_is_compiled_once_for_all_rows_that_have_it(monkeypatch):
    seen = []
    match = pc.match_substring_regex
    monkeypatch.setattr(pc, "match_substring_regex", lambda s, p: seen.append((p, len(s))) or match(s, p))
    with an.Session() as session:
        view = session.maintain("v", A.filter("s rlike p").count())
        session.insert("a", [(f"a{n % 50}", f"a{n % 20}$") for n in range(2_000)])
        session.advance()
        assert len(view.to_pylist()) > 0
    assert len(seen) == 20
    assert sum(rows for _, rows in seen) == 2_000
    assert np.unique([p for p, _ in seen]).size == 20


def test_what_may_find_nothing_may_be_null():
    """Also where the text is never null."""
    with an.Session() as session:
        found = an.source("t", "s string not null").select(f="regexp_substr(s, 'b+')")
        view = session.maintain("v", found.filter("f IS NULL"))
        session.insert("t", [("abc",), ("xyz",)])
        session.advance()
        assert found.schema.field("f").nullable
        assert view.to_pylist() == [(None,)]


EMPTY = ["x*", "x?", "(x*)", "x*|b", "[^a]*", "(a|x)*", "x?|(b)"]
ASSERTING = [r"\\b", "^", "$", "^x", "x$", r"\\bx", r"\\B"]
TEXTS = ["abxc", "aa", "", "xx", "xxa b", "x x", "äxx\nxé", None]


_CALLS = [
    *(("split", ""), ("split", ", 2"), ("split", ", 3"), ("regexp_replace", ", '-'"), ("regexp_count", "")),
    *(("regexp_replace", ", '<$0>'"), ("regexp_extract_all", ", 0")),
]


@pytest.mark.parametrize(("patterns", "texts"), [(EMPTY, TEXTS), (ASSERTING, TEXTS[:6])])
def test_matches_of_nothing_are_where_java_finds_them(spark, patterns, texts):
    values = ", ".join("(NULL)" if t is None else "('" + t.replace("\n", "\\n") + "')" for t in texts)
    asked = [f"{name}(s, '{p}'{more})" for p in patterns for name, more in _CALLS]
    asked += ["regexp_replace(s, '(x*)', '<$1>')", "regexp_extract_all(s, '(x)|(a*)', 2)"]
    text = f"SELECT s, {', '.join(asked)} FROM VALUES {values} t(s)"
    with an.Session() as session:
        actual = sorted(map(tuple, session.sql(text).to_pylist()), key=repr)
    expected = sorted(map(tuple, spark.sql(text).collect()), key=repr)
    for row, other in zip(actual, expected, strict=True):
        assert {a: (x, y) for a, x, y in zip(asked, row[1:], other[1:], strict=True) if x != y} == {}, row[0]
        assert row == other
