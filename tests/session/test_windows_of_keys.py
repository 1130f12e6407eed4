"""Window functions of a column that they partition by give what they give of a copy of it."""

from __future__ import annotations

import pytest

import altneu as an

ROWS = [(k, s, o) for k in (None, 1, 2) for o, s in enumerate("abbac")]
CALLS = (
    "sum({}) OVER (PARTITION BY k ORDER BY o ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
    "sum({}) OVER (PARTITION BY k ORDER BY s, o)",
    "max({}) OVER (PARTITION BY k ORDER BY s)",
    "min({}) OVER (PARTITION BY k ORDER BY o DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "count({}) OVER (PARTITION BY k ORDER BY o)",
    "lag({}) OVER (PARTITION BY k ORDER BY o)",
    "max({}) OVER (PARTITION BY k)",
    "sum({}) OVER (PARTITION BY k)",
    "count(DISTINCT {}) OVER (PARTITION BY k, s)",
    "percentile({}, 0.5) OVER (PARTITION BY k)",
    "mode({}) OVER (PARTITION BY k)",
)


@pytest.mark.parametrize("together", [False, True])
def test_functions_of_the_key(together):
    """Groups in an order are read in part, and have no key in their rows; several share their order and rows."""
    with an.Session() as session:
        session.sql("CREATE TABLE t (k BIGINT, s STRING, o BIGINT)")
        pairs = [(f"v{i}", [call]) for i, call in enumerate(CALLS)]
        for name, calls in [*pairs, *([("all", [*CALLS])] if together else [])]:
            for view, column, source in ((name, "k", "t"), (f"{name}_copy", "c", "(SELECT *, k AS c FROM t)")):
                shown = ", ".join(f"{call.format(column)} AS r{i}" for i, call in enumerate(calls))
                session.sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT k, s, o, {shown} FROM {source}")
        changes = [(ROWS[:9], []), (ROWS[9:], ROWS[2:4]), ([(1, "b", 9)], ROWS[5:7])]
        for number, (more, fewer) in enumerate(changes):
            session.insert("t", more)
            session.retract("t", fewer)
            session.advance()
            for name in [n for n in session.views if f"{n}_copy" in session.views]:
                mine = sorted(session.view(name).to_pylist(), key=repr)
                assert mine, (number, name)
                assert mine == sorted(session.view(f"{name}_copy").to_pylist(), key=repr), (number, name)


def test_words_of_sql_that_are_names_of_columns():
    """What the parser takes for the beginning of something else is quoted wherever altneu writes it."""
    names = ("on", "for", "drop", "minus", "fetch", "inner", "current_user", "xor")
    for name in names:
        with an.Session() as session:
            rows = an.source("t", f"k int, `{name}` string")
            best = session.maintain("best", rows.top_k(1, by="k"))
            latest = session.maintain("distinct", rows.top_k(1, by="k DESC", per=name))
            session.insert("t", [(2, "a"), (1, "b")])
            session.advance()
            assert best.to_pylist() == [(1, "b")]
            assert sorted(latest.to_pylist()) == [(1, "b"), (2, "a")]
