"""Messages about rows that fail show the expressions of the query, not the columns that altneu has made of them."""

import pytest

import altneu as an
from altneu.errors import ViewHasErrorsError

LONG = f"CAST(concat(txt, '{'a' * 60}', '{'b' * 60}') AS INT)"
"""Longer than what error rows keep of a step."""

TOLD = {
    "SELECT k, sum(10 div v) FROM t GROUP BY k": "select 10 div v: DIVIDE_BY_ZERO: Division by zero in `10 div v` (row",
    "SELECT k, sum(v) div (sum(v) - 1) AS q, count(*) FROM t GROUP BY k": (
        "select sum(v) div (sum(v) - 1): DIVIDE_BY_ZERO: Division by zero in `sum(v) div (sum(v) - 1)` (row"
    ),
    "SELECT k FROM t GROUP BY k HAVING 1 div (sum(v + 0) - 1) > 1": (
        "filter (1 div (sum(v + 0) - 1)) > 1: DIVIDE_BY_ZERO: Division by zero in `1 div (sum(v + 0) - 1)` (row"
    ),
    "SELECT CAST(txt AS INT) g, count(*) FROM t GROUP BY g": "  select CAST(txt AS int): CAST_INVALID_INPUT",
    f"SELECT k, sum({LONG}) FROM t GROUP BY k": f"  select {LONG.replace('INT', 'int')}: CAST_INVALID_INPUT",
    f"SELECT {LONG} g FROM t": f"  select {LONG.replace('INT', 'int')}: CAST_INVALID_INPUT",
    "SELECT k, sum(big) FROM t GROUP BY k": ": ARITHMETIC_OVERFLOW: sum(big) left the range of its type",
    "SELECT k, sum(big + 0) FROM t GROUP BY k": ": ARITHMETIC_OVERFLOW: sum(big + 0) left the range of its type",
    "SELECT k, sum(10 div v) OVER (PARTITION BY k) FROM t": "  select 10 div v: DIVIDE_BY_ZERO",
    "SELECT k, sum(v) div (sum(v) - 1) + row_number() OVER (ORDER BY k) FROM t GROUP BY k": (
        "select (sum(v) div (sum(v) - 1)) + row_number(): DIVIDE_BY_ZERO: Division by zero in "
        '`sum(v) div (sum(v) - 1)` (row {"k": "AA", "sum(v)": 1})'
    ),
    "SELECT 10 div v g, count(*) FROM t GROUP BY ROLLUP(10 div v)": "  select 10 div v: DIVIDE_BY_ZERO",
    "SELECT k FROM t ORDER BY 10 div v LIMIT 1": "  select 10 div v: DIVIDE_BY_ZERO",
    "SELECT x div (y - 1) FROM (SELECT k, max(v) x, sum(v) y FROM t GROUP BY k)": (
        "Division by zero in `max(v) div (sum(v) - 1)`"
    ),
    "SELECT k, element_at(collect_list(v), 5) FROM t GROUP BY k": "`element_at(collect_list(v), 5)`: the index",
    # where all names are the user's the step is shown as error rows have it
    "SELECT k, 10 div v FROM t": "  select k, 10L div CAST(v AS bigint) as 10 DIV v: DIVIDE_BY_ZERO",
}


@pytest.fixture(scope="module")
def session():
    with an.Session() as one:
        one.sql("CREATE TABLE t (k STRING, v INT, txt STRING, big BIGINT)")
        one.sql(f"INSERT INTO t VALUES ('AA', 1, 'x', {2**63 - 1}), ('AA', 0, '3', {2**63 - 1})")
        yield one


def said_by(read):
    with pytest.raises(ViewHasErrorsError) as caught:
        read()
    return str(caught.value)


@pytest.mark.parametrize("text", TOLD)
def test_a_query_is_told_of_in_its_own_words(session, text):
    said = said_by(lambda: session.sql(text).to_pylist())
    assert TOLD[text] in said
    assert "#" not in said
    assert "^" not in said
    assert "…" not in said


def test_so_is_a_view_and_its_error_rows_stay_as_stores_have_them(session):
    session.sql("CREATE MATERIALIZED VIEW ratios AS SELECT k, sum(v) div (sum(v) - 1) AS ratio FROM t GROUP BY k")
    said = said_by(session.view("ratios").to_pylist)
    assert "select sum(v) div (sum(v) - 1): DIVIDE_BY_ZERO: Division by zero in `sum(v) div (sum(v) - 1)` (row" in said
    (error,) = session.view("ratios").errors().to_pylist()
    assert "Division by zero in ``#0` div (`#0` - 1)`" in str(error)


def test_where_steps_are_called_alike_none_is_taken_for_the_other(session):
    """Of two aggregates that are computed on in the same way nothing tells which one an error row is about."""
    one = "SELECT k, 1 div {} AS x FROM t GROUP BY k"
    said = said_by(
        lambda: session.sql(f"{one.format('(sum(v) - 1)')} UNION ALL {one.format('(count(*) - 1)')}").to_pylist()
    )
    assert "`1 div (`#0` - 1)`" in said
