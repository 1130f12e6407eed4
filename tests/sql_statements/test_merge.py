"""MERGE INTO gives what the clauses say of each row, and what a view of the table shows follows."""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

import altneu as an
from altneu.errors import AltneuError, StatementError
from tests.sql_statements.cases import rows

TABLES = """
CREATE TABLE t (k INT, v STRING, n BIGINT);
CREATE TABLE s (k INT, v STRING, n BIGINT);
CREATE MATERIALIZED VIEW total AS SELECT v, sum(n) AS n, count(*) AS c FROM t GROUP BY v;
"""
MOST = object()


def nothing(_):
    return None


MERGES = {
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *": (
        lambda _, s: [s],
        lambda s: s,
        lambda t: [t],
    ),
    "WHEN MATCHED AND s.n > 5 THEN UPDATE SET v = s.v, n = t.n + s.n WHEN MATCHED THEN DELETE": (
        lambda t, s: [(t[0], s[1], plus(t[2], s[2]))] if (s[2] or 0) > 5 else [],
        nothing,
        lambda t: [t],
    ),
    "WHEN MATCHED AND t.v = 'x' THEN DELETE WHEN MATCHED AND t.v = 'y' THEN UPDATE SET t.v = upper(s.v)": (
        lambda t, s: [] if t[1] == "x" else [(t[0], s[1].upper(), t[2])] if t[1] == "y" else [t],
        nothing,
        lambda t: [t],
    ),
    "WHEN NOT MATCHED BY TARGET AND n > 3 THEN INSERT (k, n) VALUES (k, n * 2) "
    "WHEN NOT MATCHED THEN INSERT (v, k) VALUES (concat(v, '!'), s.k)": (
        lambda t, _: [t],
        lambda s: (s[0], None, s[2] * 2) if (s[2] or 0) > 3 else (s[0], s[1] + "!", None),
        lambda t: [t],
    ),
    "WHEN NOT MATCHED BY SOURCE AND t.n IS NULL THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET v = 'gone' "
    "WHEN MATCHED THEN UPDATE SET n = (SELECT max(n) FROM s)": (
        lambda t, _: [(t[0], t[1], MOST)],
        nothing,
        lambda t: [] if t[2] is None else [(t[0], "gone", t[2])],
    ),
}


def plus(a, b):
    return None if a is None or b is None else a + b


def merged(t, s, clauses):
    met, new, old = clauses
    result, most = [], max((row[2] for row in s if row[2] is not None), default=None)
    for row in t:
        partners = [other for other in s if other[0] == row[0] and row[0] is not None]
        assert len(partners) <= 1
        result += met(row, partners[0]) if partners else old(row)
    keys = {row[0] for row in t if row[0] is not None}
    result += [come for row in s if row[0] not in keys and (come := new(row)) is not None]
    return [tuple(most if value is MOST else value for value in row) for row in result]


def literal(row):
    return "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")"


def filled(rng, session):
    """Rows of both, of which those of the table come several times, and keys of the source once."""
    t = [(rng.choice([None, 1, 2, 3, 4]), rng.choice("xyz"), rng.choice([None, 1, 7])) for _ in range(6)]
    t += t[:2]
    s = [(k, rng.choice("xyz"), rng.choice([None, 2, 9])) for k in rng.sample([None, 1, 2, 3, 5, 6], 4)]
    session.sql(f"INSERT OVERWRITE t VALUES {', '.join(map(literal, t))}")
    session.sql(f"INSERT OVERWRITE s VALUES {', '.join(map(literal, s))}")
    return t, s


@pytest.mark.sampled(2)
@pytest.mark.parametrize("indexed", [False, True])
@pytest.mark.parametrize("text", MERGES)
def test_each_row_is_changed_as_its_first_clause_says(text, indexed):
    rng = random.Random(text)
    with an.Session() as session:
        session.sql(TABLES)
        if indexed:
            session.sql("CREATE INDEX by_k ON t (k)")
        for _ in range(5):
            t, s = filled(rng, session)
            message = session.sql(f"MERGE INTO t USING s ON t.k = s.k {text}").message
            wanted = merged(t, s, MERGES[text])
            assert Counter(rows(session, "SELECT * FROM t")) == Counter(wanted), message
            assert Counter(rows(session, "SELECT * FROM total")) == totals(wanted)


def totals(table):
    groups = {}
    for _, v, n in table:
        groups.setdefault(v, []).append(n)
    sums = {v: [n for n in some if n is not None] for v, some in groups.items()}
    return Counter((v, sum(sums[v]) if sums[v] else None, len(some)) for v, some in groups.items())


@pytest.fixture
def session():
    with an.Session() as session:
        session.sql(TABLES)
        session.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 2), (2, 'b', 2); INSERT INTO s VALUES (2, 'c', 3)")
        yield session


def test_it_counts_what_it_does(session):
    text = "MERGE INTO t USING s ON t.k = s.k + 5 WHEN NOT MATCHED BY SOURCE AND t.k = 2 THEN DELETE "
    text += "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT *"
    assert session.sql(text).message == "MERGE: 1 inserted, 1 updated, 2 deleted"


def test_the_source_may_be_a_query_and_read_a_with(session):
    text = "WITH new AS (SELECT k, max(n) AS n FROM s GROUP BY k) MERGE INTO default.t AS x USING "
    session.sql(text + "(SELECT k + 1 AS k, n FROM new) y ON x.k = y.k - 1 WHEN MATCHED THEN UPDATE SET x.n = y.n * 10")
    assert Counter(rows(session, "SELECT k, n FROM t")) == {(1, 1): 1, (2, 30): 2}


def test_names_of_the_source_go_on_to_be_known_where_its_rows_are_read_once(session):
    session.sql("CREATE TABLE db.s (k INT, v STRING); INSERT INTO db.s VALUES (2, 'e'), (9, 'f')")
    text = (
        "MERGE INTO t USING db.s ON t.k = db.s.k WHEN MATCHED AND (SELECT max(k) FROM db.s) = 9 THEN UPDATE SET v = s.v"
    )
    session.sql(text + " WHEN NOT MATCHED THEN INSERT (k, v) VALUES (spark_catalog.db.s.k, 'new')")
    assert Counter(rows(session, "SELECT k, v FROM t")) == {(1, "a"): 1, (2, "e"): 2, (9, "new"): 1}
    session.sql("MERGE INTO t USING t AS s (a, b, c) ON t.k = s.a + 1 WHEN MATCHED THEN UPDATE SET v = s.b")
    assert Counter(rows(session, "SELECT k, v FROM t")) == {(1, "a"): 1, (2, "a"): 2, (9, "new"): 1}
    session.sql("MERGE INTO t AS x USING t ON x.k = t.k AND x.k = 9 WHEN MATCHED THEN DELETE")
    assert Counter(rows(session, "SELECT k, v FROM t")) == {(1, "a"): 1, (2, "a"): 2}


def test_the_rows_of_a_large_source_are_not_brought_into_the_plan(session):
    session.sql("INSERT INTO s SELECT CAST(id AS INT), 'n', 0L FROM range(10, 10000)")
    session.sql("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT *")
    assert rows(session, "SELECT count(*), min(k), max(k) FROM t") == [(9991, 1, 9999)]


def test_a_row_is_changed_by_one_row_at_most(session):
    session.sql("INSERT INTO s VALUES (2, 'd', 4)")
    before = Counter(rows(session, "SELECT * FROM t"))
    with pytest.raises(StatementError, match=r'several rows of s change one row of t, that with \{"k": 2\}; ON must'):
        session.sql("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *")
    assert Counter(rows(session, "SELECT * FROM t")) == before
    session.sql("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED AND s.n = 4 THEN UPDATE SET *")  # one of both
    assert Counter(rows(session, "SELECT n FROM t WHERE k = 2")) == {(4,): 2}
    session.sql("MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE")  # all say the same
    assert rows(session, "SELECT k FROM t") == [(1,)]


def test_the_row_that_several_change_is_named_by_its_columns_in_on(session):
    session.sql("CREATE TABLE days (day DATE, shop STRING, n BIGINT)")
    session.sql("CREATE TABLE more (day DATE, who STRING, n BIGINT)")
    first, second = "DATE'2024-05-01'", "DATE'2024-05-02'"
    session.sql(f"INSERT INTO days VALUES ({first}, 'a', 1), ({first}, 'a', 1), ({second}, 'b', 1)")
    session.sql(f"INSERT INTO more VALUES ({first}, 'A', 2), ({second}, 'B', 3), ({second}, 'B', 4)")
    for on, key in (
        ("d.day = m.day AND upper(shop) = m.who", '{"day": "2024-05-02", "shop": "b"}'),
        ("upper(shop) = who AND EXISTS (SELECT 1 FROM t WHERE t.k = m.n)", '{"shop": "b"}'),
    ):
        session.sql("INSERT INTO t VALUES (2, 'x', 1), (3, 'x', 1), (4, 'x', 1)")
        with pytest.raises(StatementError, match=re.escape(f"change one row of days, that with {key}; ON")):
            session.sql(f"MERGE INTO days d USING more m ON {on} WHEN MATCHED THEN UPDATE SET n = m.n")
    with pytest.raises(StatementError, match="several rows of m change one row of days; ON must"):
        session.sql("MERGE INTO days d USING more m ON m.n > 2 WHEN MATCHED THEN UPDATE SET n = m.n")


@pytest.mark.parametrize(
    ("on", "key"),
    [
        ("t2.a = q.a", '{"a": [1]}'),
        ("t2.n = q.w", '{"n": NaN}'),
        ("t2.a = q.a AND t2.n = q.w", '{"a": [1], "n": NaN}'),
        ("t2.a IS NULL AND q.w > 1", '{"a": null}'),
    ],
)
def test_the_row_that_several_change_is_named_whatever_its_key_holds(session, on, key):
    """Lists, NaN, a null; and a column that has the name of the count."""
    session.sql("CREATE TABLE t2 (a ARRAY<INT>, n DOUBLE)")
    session.sql("INSERT INTO t2 VALUES (array(1), double('NaN')), (array(2), 2), (null, 3)")
    twice = "(VALUES (array(1), double('NaN')), (array(1), double('NaN'))) q(a, w)"
    with pytest.raises(StatementError, match=re.escape(f"change one row of t2, that with {key}; ON")):
        session.sql(f"MERGE INTO t2 USING {twice} ON {on} WHEN MATCHED THEN UPDATE SET n = 3")


def test_a_transaction_has_all_of_it_or_nothing(session):
    merge = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE"
    session.sql(f"BEGIN; {merge}")
    with pytest.raises(StatementError, match="changes that are not committed yet, which DELETE, UPDATE and MERGE"):
        session.sql(merge)
    session.sql("ROLLBACK")
    assert rows(session, "SELECT count(*) FROM t") == [(3,)]
    session.sql(f"BEGIN; {merge}; INSERT INTO t VALUES (9, 'z', 9); COMMIT")
    assert sorted(rows(session, "SELECT k FROM t")) == [(1,), (9,)]


REFUSED = {
    "MERGE INTO t USING s ON t.k = s.k": "expected WHEN [NOT] MATCHED … THEN …",
    "MERGE INTO t USING t ON true WHEN MATCHED THEN DELETE": "both sides are called t",
    "MERGE INTO t USING (SELECT 1 AS k) ON true WHEN MATCHED THEN DELETE": "the query needs a name",
    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN INSERT *": "expected UPDATE SET … or DELETE, not 'INSERT'",
    "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN DELETE": "expected INSERT, not 'DELETE'",
    "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (1, 2)": "1 columns, and has 2 values",
    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET q = 1": "'t' has no column 'q'; it has: k, v, n",
    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET s.k = 1": "s.k is not a column of t",
    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET k = 1, k = 2": "sets column 'k' twice",
    "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET *": "must be the last",
    "MERGE INTO t USING s ON t.k = s.k WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *": "name the columns",
    "MERGE INTO t USING (SELECT k FROM s) y ON t.k = y.k WHEN MATCHED THEN UPDATE SET *": "has no v, n",
    "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE": "columns do not change",
    "MERGE INTO t USING s ON t.k = q WHEN MATCHED THEN DELETE": "no column 'q'",
    "MERGE INTO total USING s ON true WHEN MATCHED THEN DELETE": "'total' is a MATERIALIZED VIEW",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_said(session, text):
    with pytest.raises(AltneuError) as caught:
        session.sql(text)
    assert REFUSED[text] in str(caught.value)
