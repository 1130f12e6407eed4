"""What is not supported is refused by name, with its place or with what works instead; so are mistakes."""

import pytest

import altneu as an
from altneu.errors import PlanError
from altneu.sql import query

T, U = an.source("t", "a int, b string, x bigint"), an.source("u", "a int, y bigint, arr array<int>")

REFUSED = {
    "select a, from t where": "line 1, column 9: something is missing beside a comma",
    "select a fro t": "line 1, column 14",
    "insert into t values (1)": "the text must be one query (SELECT, VALUES, WITH ...), got INSERT",
    "select 1; select 2": "2 statements",
    "select nosuch from t": "no column 'nosuch' (in line 1, column 8); the columns are: a, b, x",
    "select t.q from t, u": "no column 't.q' (in line 1, column 10); the columns are: t.a, t.b",
    "select * from tt": "no table or view 'tt' (line 1, column 15); did you mean t? There are: t, u",
    "select q.* from t": "there is no 'q' in FROM; there are: t",
    "select a from t, u": "column 'a' may be one of several: t.a, u.a",
    "select t.a, u.a from t, u": "two columns are called 'a'; give one of them another name: SELECT ... AS name",
    "select a, b from t group by a": "'b' is neither in GROUP BY nor inside an aggregate",
    "select a from t group by 2": "GROUP BY 2: there are 1 columns",
    "select a from t order by 2 limit 1": "ORDER BY 2: there are 1 columns",
    "select a from t where count(*) > 1": "test it in HAVING",
    "select a from t limit x": "LIMIT needs a whole number",
    "select a from t where rand() > 0.5": "rand() returns another answer each time",
    "select * from t tablesample (10 percent)": "not supported: TABLESAMPLE",
    "select a from t left join u on exists (select 1 from u)": "a subquery in the ON of an outer join",
    "select a from t where a in (select a, y from u)": "IN needs a query of 1 column(s), got 2: a, y",
    "select (select a, y from u) from t": "a scalar subquery needs a query of 1 column(s)",
    "select a from t union all select a, y from u": "UNION: one side has 1 columns (a), the other 2 (a, y)",
    "select b from t union all select arr from u": "UNION: column 'b' is string on one side and array<int>",
    "select * from t right join lateral (select * from u where u.a = t.a) s on true": "RIGHT JOIN LATERAL",
    "select * from nosuch(1)": "the table function nosuch(); there are generate_series, range, explode",
    "select sum(x) over w from t": "no window 'w'; WINDOW names none",
    "select a from t asof join u on t.a = u.a": "ASOF JOIN needs equalities and one comparison of timestamps",
    "values (1, 2), (3)": "VALUES: row 1 has 2 columns, and row 2 has 1",
    "values (1), (1 / 0)": "VALUES: row 2, column 1",
    "select * from (values (1)) v(a, b)": "VALUES has 1 columns, and 2 names: a, b",
    "with c(k, l) as (select a from t) select * from c": "c names 2 columns, and its query has 1",
    "with recursive r as (select a from t union all select max(a) from r) select * from r": (
        "GROUP BY, DISTINCT, aggregates and LIMIT in the recursive part of r; WITH MUTUALLY RECURSIVE"
    ),
    "with recursive r as (select a from t union all select r.a from r join r q on r.a = q.a) select * from r": (
        "r more than once"
    ),
    "with mutually recursive r (a int) as (select a, b from t) select * from r": "has 1 columns, and a query",
    "with mutually recursive r as (select a from t) select * from r": "must declare its columns with their types",
    "select a from t cluster by a": "CLUSTER BY",
    "select a from t join u using (nosuch)": "no column 'nosuch' (in USING)",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_said(text):
    with pytest.raises(PlanError) as caught:
        query(text, {"t": T, "u": U})
    assert REFUSED[text] in str(caught.value)


MORE = {
    "select a, count(*) from t group by a with rollup": "GROUP BY a, b ... ROLLUP; write GROUP BY ROLLUP (a, b)",
    "with recursive r as (select 1 n union all select n + 1 from r where n < 9 limit 3) select * from r": (
        "LIMIT of WITH RECURSIVE r"
    ),
    "with recursive r as (select a from t union all select row_number() over (order by a) from r) select * from r": (
        "window functions in the recursive part of r"
    ),
    "with recursive r as (select a from t union all select u.a from r right join u on r.a = u.a) select * from r": (
        "an outer join that r may be missing from"
    ),
    "select (select count(*) from u where u.a = t.a having count(*) = 0) from t": "HAVING or QUALIFY without GROUP BY",
    "select b, n from t, lateral (select count(*) n from u where u.a = t.a union all select t.x) s": "UNION of",
}


@pytest.mark.parametrize("text", MORE)
def test_what_would_be_answered_wrongly_is_not(text):
    with pytest.raises(PlanError) as caught:
        query(text, {"t": T, "u": U})
    assert MORE[text] in str(caught.value)
