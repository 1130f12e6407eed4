"""Queries that are asked again: prepared once for all constants, and answered as those that are bound as written."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

import altneu as an
from altneu.sql import queries
from altneu.sql.statements.templates import Template
from tests.session.lookup_cases import LITERALS, by_full_reads, counting, filled, outcome


@pytest.fixture
def session():
    with an.Session(retain="all") as session:
        session.sql("CREATE TABLE t (k BIGINT, i INT, s STRING, x DOUBLE); CREATE INDEX by_k ON t (k)")
        session.sql("CREATE MATERIALIZED VIEW n AS SELECT s, count(*) AS n, max(i) AS m FROM t GROUP BY s")
        rows = [(n % 7, n, "abc"[n % 3], n / 2) for n in range(30)]
        session.insert("t", rows)
        session.advance()
        yield session


def asked(session, text):
    return outcome(lambda: session.sql(text))


def is_bound(session, monkeypatch, text):
    """Whether a text is parsed and bound when it is asked."""
    bound, real = [], queries._answer
    with monkeypatch.context() as patch:
        patch.setattr(queries, "_answer", lambda *given: bound.append(1) or real(*given))
        session.sql(text)
    return bool(bound)


FORMS = (
    "SELECT * FROM t WHERE k = {}",
    "SELECT i, x + 1 AS y FROM t WHERE k = {} AND x > 3",
    "SELECT i FROM t WHERE {} = k ORDER BY i DESC LIMIT 2",
    "SELECT i FROM t AS u WHERE (u.k = {} OR k = 1) AND i >= {}",
    "SELECT i FROM t WHERE k IN ({}, 3, {})",
    "SELECT i FROM t WHERE k = {} AND i != {} AND i <> 8",
    "SELECT count(*) AS n, sum(x) AS x FROM t WHERE k = {} AND i BETWEEN {} AND 20",
    "SELECT a.i, n.n FROM t AS a JOIN n ON a.s = n.s WHERE a.k = {}",
    "SELECT * FROM n WHERE s IN (SELECT s FROM t WHERE k = {} AND i < 9)",
)


@pytest.mark.parametrize("form", FORMS)
def test_one_preparation_serves_all_constants(session, monkeypatch, form):
    def text(n):
        return form.format(*[n] * 2)

    for n in range(2):
        session.sql(text(n))
    with counting(monkeypatch) as answers:
        for n in (3, 4, 0, 99, 6):
            assert not is_bound(session, monkeypatch, text(n))
            answer = asked(session, text(n))
            with by_full_reads(monkeypatch):
                assert answer == asked(session, text(n))
    assert len(answers) == 10


def test_texts_are_constants_too(session, monkeypatch):
    for s in "ab":
        session.sql(f"SELECT * FROM n WHERE s = '{s}'")
    assert not is_bound(session, monkeypatch, "SELECT * FROM n WHERE s = 'c'")
    assert session.sql("SELECT n, m FROM n WHERE s = 'c'").to_pylist() == [(10, 29)]
    assert session.sql("SELECT n FROM n WHERE s = 'it is not here'").to_pylist() == []
    assert session.sql("SELECT n FROM n WHERE s = 'it''s not'").to_pylist() == []


def test_other_types_are_other_queries(session, monkeypatch):
    texts = [f"SELECT * FROM t WHERE k = {k}" for k in (1, 2, 2**31, 2**63, "'3'", 1.0, "-1", "2L", "1e0", "NULL")]
    for text in texts * 3:
        answer = asked(session, text)
        with by_full_reads(monkeypatch):
            assert answer == asked(session, text), text


TYPED = {
    "k": ("-1", "5", "- 3", "0"),
    "i": ("-3", "1", "0", "-2147483648"),
    "y": ("7Y", "0Y", "-1Y"),
    "k >": ("-1L", "1L", "5L"),
    "e": ("1.50", "0.00", "-1.50"),
    "e <": ("1.5", "-1.5", "0.1", ".5"),
    "d": ("0.1D", "-0.0D", "1e308", "1e400"),
    "f": ("0.1F", "1.5F", "-0.0F"),
    "s": ("'a'", "''", "'-- no comment'", "'a?:;'"),
    "b": ("true", "FALSE"),
    "day": ("DATE '2024-01-01'", "DATE '2024-02-29'", "date'1999-12-31'", "DATE '2024-1-1'"),
    "at": (
        "TIMESTAMP '2024-01-01T12:30:00Z'",
        "TIMESTAMP '2024-01-01 00:00:00'",
        "timestamp'2024-01-01 13:30:00+01:00'",
    ),
    "at >=": ("TIMESTAMP_LTZ '2024-01-01T12:30:00Z'", "TIMESTAMP_LTZ '2025-01-01'"),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("column", TYPED)
@pytest.mark.parametrize("form", ["{c} {v}", "({c} {v}) AND k = -1", "k IN (1, -1) AND ({c}{v} OR {c} {v})"])
def test_constants_of_each_type_are_parameters(column, form, monkeypatch):
    sign = column if " " in column else f"{column} ="
    with filled(random.Random(column), zero=True) as session:
        texts = ["SELECT * FROM facts WHERE " + form.format(c=sign, v=v) for v in TYPED[column]]
        for _ in range(2):
            for text in texts:
                session.sql(text)
        for text in texts:
            answer = asked(session, text)
            assert not is_bound(session, monkeypatch, text) or " " in column, text  # a range of all rows is a scan
            with by_full_reads(monkeypatch):
                assert answer == asked(session, text), text
        assert len(session.statements.templates._queries._values) == len({Template.of(text).text for text in texts})


def test_what_is_no_constant_stays(session, monkeypatch):
    """What looks like a constant and is none, or fails."""
    for test in (
        "k -1 = {}",
        "k = 1 -{}",
        "k = - -{}",
        "k = -({})",
        "i IS NOT TRUE AND k = {}",
        "k = {} AND (i > 3) IS TRUE",
        "s = X'6{}' AND k = 1",
        "s = DATE'2024-13-0{}' AND k = 1",
        "k = 1 AND DATE'2024-01-0{}' - INTERVAL '1' DAY < DATE'2024-01-02'",
        "s = 'a' 'b{}' AND k = 1",
        "k = 1.{}e0 AND `i` = 8",
        "t.i = 8 AND k = {}.",
    ):
        for n in (1, 1, 1, 2, 2, 1, 3):
            text = f"SELECT * FROM t WHERE {test.format(n)}"
            answer = asked(session, text)
            with by_full_reads(monkeypatch):
                assert answer == asked(session, text), text


STAY = (
    "SELECT k = {} AS same FROM t WHERE k = 1",
    "SELECT i FROM t WHERE k = 1 ORDER BY i LIMIT {}",
    "SELECT i FROM t WHERE k = 1 ORDER BY {}",
    "SELECT k, count(*) AS n FROM t WHERE k = 1 GROUP BY {}",
    "SELECT i FROM t WHERE k = 1 AND x * {} > 4",
    "SELECT i FROM t WHERE k = 1 AND substring(s, {}) = ''",
    "SELECT 'WHERE k = {} ' AS w, i FROM t WHERE k = 1",
    "SELECT `WHERE` FROM (SELECT i AS `WHERE` FROM t WHERE k = {})",
    "SELECT i FROM t WHERE k = 1 GROUP BY i HAVING i > {}",
    "SELECT i FROM t WHERE k = 1 -- AND i = {}",
)


@pytest.mark.parametrize("form", STAY)
def test_constants_elsewhere_are_a_part_of_the_query(session, monkeypatch, form):
    for n in (1, 1, 1, 2, 2, 1, 2):
        text = form.format(n)
        answer = asked(session, text)
        with by_full_reads(monkeypatch):
            assert answer == asked(session, text), text
        result = session.sql(text) if isinstance(answer, list) else None
        with by_full_reads(monkeypatch):
            assert result is None or result.columns == session.sql(text).columns


def test_no_answer_is_stale(session):
    text = "SELECT * FROM v WHERE k = 1 AND i > 7"
    session.sql("CREATE VIEW v AS SELECT k, i FROM t")
    for _ in range(3):
        assert sorted(session.sql(text).to_pylist()) == [(1, 8), (1, 15), (1, 22), (1, 29)]
    session.sql("INSERT INTO t VALUES (1, 100, 'a', 0)")
    assert len(session.sql(text)) == 5
    session.sql("CREATE OR REPLACE VIEW v AS SELECT k, i, s FROM t WHERE i < 20")
    for _ in range(3):
        assert sorted(session.sql(text).to_pylist()) == [(1, 8, "c"), (1, 15, "a")]
    session.sql("DROP INDEX by_k")
    assert sorted(session.sql(text).to_pylist()) == [(1, 8, "c"), (1, 15, "a")]
    session.sql("DROP VIEW v; CREATE MATERIALIZED VIEW v AS SELECT i AS k, k AS i FROM t")
    for _ in range(3):
        assert session.sql(text).to_pylist() == []
    session.sql("DROP MATERIALIZED VIEW v")
    for _ in range(3):
        with pytest.raises(an.errors.PlanError, match="no table or view 'v'"):
            session.sql(text)


def test_a_view_that_python_replaces(session):
    text = "SELECT * FROM p WHERE a = 1"
    for shown in ("a", "b"):
        source = an.source(f"q {shown}", f"a long, {shown}1 long")
        session.maintain("p", source.arrange_by("a"))
        session.insert(f"q {shown}", [(1, 2)])
        session.advance()
        for _ in range(3):
            assert session.sql(text).columns == ["a", f"{shown}1"]
            assert session.sql(text).to_pylist() == [(1, 2)]
        session.drop("p")


def test_times_and_transactions(session, monkeypatch):
    text = "SELECT i FROM t WHERE k = 1 AND i > 25"
    for _ in range(3):
        assert session.sql(text).to_pylist() == [(29,)]
    session.insert("t", [(1, 50, "a", 0.0)])
    assert sorted(session.sql(text).to_pylist()) == [(29,), (50,)]  # what waits is counted first
    last = session.lower - 1
    for _ in range(3):
        assert session.sql(f"{text} AS OF {last - 1}").to_pylist() == [(29,)]
        assert len(session.sql(f"{text} AS OF {last}")) == 2
    with pytest.raises(an.errors.NotYetKnownError):
        session.sql(f"{text} AS OF {last + 1}")
    session.sql("BEGIN; INSERT INTO t VALUES (1, 60, 'a', 0)")
    assert len(session.sql(text)) == 2
    with pytest.raises(an.errors.AltneuError):
        session.sql("SELECT nothing FROM t")
    with pytest.raises(an.errors.StatementError, match="aborted"):
        session.sql(text)
    session.sql("ROLLBACK")
    assert len(session.sql(text)) == 2


def test_errors_are_those_of_the_query_as_written(session):
    session.sql("CREATE MATERIALIZED VIEW r AS SELECT k, 1 / i AS r FROM t")
    session.sql("CREATE INDEX r_k ON r (k)")
    for _ in range(3):
        with pytest.raises(an.errors.ViewHasErrorsError):
            session.sql("SELECT * FROM r WHERE k = 1")
    session.close()
    with pytest.raises(an.errors.ReadError, match="closed"):
        session.sql("SELECT * FROM t WHERE k = 1")


def test_few_are_remembered(session, monkeypatch):
    remembered = session.statements.templates
    monkeypatch.setattr(remembered._queries, "most", 3)
    monkeypatch.setattr(remembered._kept, "most", 3)
    for n in range(9):
        for _ in range(2):
            session.sql(f"SELECT k AS c{n} FROM t WHERE k = 1")
    assert len(remembered._queries._values) == len(remembered._kept._values) == 3


@pytest.mark.parametrize("seed", range(2))
def test_random_queries_with_changing_constants(seed, monkeypatch):
    rng = random.Random(seed)
    with filled(rng) as session, counting(monkeypatch) as answers:
        for _ in range(20):
            name, other = rng.sample(["k", "i", "y", "s", "e", "d", "day"], 2)
            sign = rng.choice(["=", "=", "<=>", "<", ">="])
            for _ in range(4):
                first, second = rng.choice(LITERALS[name]), rng.choice(LITERALS[other])
                text = f"SELECT * FROM facts WHERE {name} = {first} AND {other} {sign} {second}"
                answer = asked(session, text)
                with by_full_reads(monkeypatch):
                    assert answer == asked(session, text), text
    assert len(answers) > 30


def test_threads_ask_beside_steps(session):
    """Each answer is of one time: the view has as many rows as its count says."""

    def ask(n):
        return [
            session.sql(f"SELECT a.n AS n, b.n AS m FROM n AS a JOIN n AS b ON a.s = b.s WHERE a.s = '{s}'").to_pylist()
            for s in "abc" * 10
        ]

    with ThreadPoolExecutor(3) as pool:
        asking = [pool.submit(ask, n) for n in range(3)]
        for n in range(10):
            session.insert("t", [(n, n, s, 0.0) for s in "abc"])
            session.advance()
        found = [rows for answer in asking for rows in answer.result()]
    assert all(len(rows) == 1 and rows[0][0] == rows[0][1] for rows in found)


def test_templates_leave_names_and_other_constants():
    template = Template.of("SELECT 1 FROM t WHERE `k 1` = 7 AND a1 = 1.5 AND b = X'00' AND c='q' AND d = 3000000000")
    assert template.text == (
        "SELECT 1 FROM t WHERE `k 1` = :int_0 AND a1 = :decimal_2_1_1 AND b = X'00' AND c=:string_2 AND d = :bigint_3"
    )
    assert template.constants == ("7", "1.5", "'q'", "3000000000")
    for text in (
        "k = 1 -- 2",
        'k = 1 AND s = "a"',
        "k = ?",
        "k = :int_0 AND k = 5",
        "k = 1 /* 2 */",
        "k = 1; SELECT 2",
    ):
        assert Template.of(f"SELECT 1 FROM t WHERE {text}").constants == ()
