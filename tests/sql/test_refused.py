"""What is not supported is refused by name, with its place or with what works instead; so are mistakes."""

import pytest

import altneu as an
from altneu.errors import PlanError
from altneu.sql import query

T, U = an.source("t", "a int, b string, x bigint"), an.source("u", "a int, y bigint, arr array<int>")

FLIGHTS = an.source("flights", "carrier string, delay int"), an.source("planes", "carrier string, seats int")
MISSPELT = {
    "select dealy from flights": "(in line 1, column 8); the columns are: carrier, delay; did you mean 'delay'?",
    "select Dealy from flights where delay > 1": "did you mean 'delay'?",
    "select f.dealy from flights f, planes p": "p.carrier, p.seats; did you mean 'f.delay'?",
    "select carier from flights f, planes p": "p.carrier, p.seats; did you mean 'f.carrier' or 'p.carrier'?",
    "select g.delay from flights f": "the columns are: carrier, delay; did you mean 'delay'?",
    "select g.delay from flights f, planes p": "p.carrier, p.seats; did you mean 'f.delay'?",
    "select flight.* from flights, planes": "there are: flights, planes; did you mean 'flights'?",
    "select * from main.flihgts": "did you mean flights? There are: flights, planes",
    # ORDER BY, which reads outputs and what they are computed from
    "select carrier c from flights order by dealy": "the columns are: c, carrier, delay; did you mean 'delay'?",
    "select delay from flights order by dealy + 1": "the columns are: delay, carrier; did you mean 'delay'?",
    "select p.seats s from flights f, planes p order by seat": (
        "the columns are: s, f.carrier, f.delay, p.carrier, p.seats; did you mean 'p.seats'?"
    ),
    "select carrier c, count(*) total from flights group by carrier order by totl": (
        "the columns are: c, total, carrier; did you mean 'total'?"
    ),
    "select carrier c, sum(delay) total from flights group by carrier having totl > 1": "did you mean 'total'?",
    # WHERE, which reads no outputs
    "select delay * 2 twice from flights where Twice > 4": (
        "'Twice' is an output of SELECT, and WHERE chooses the rows that it is made of: write what it is computed from"
    ),
    "select carrier, sum(delay) total from flights where total > 4 group by carrier": "made of: test it in HAVING",
    "select carrier, rank() over (order by delay) place from flights where place < 4": "made of: test it in QUALIFY",
}

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
    "select a from t where rand() > 0.5": (
        "rand() returns another answer each time, but a view must depend on its rows alone; put random values in a "
        "column of the source, or take a hash of a key, which samples rows as well: pmod(hash(key), 100) < 10"
    ),
    "select a from t where row_number() over (order by a) = 1": "test one in QUALIFY, or in the WHERE of a query that",
    "select a from t where x > 1 and sum(a) over () > 1": "test one in QUALIFY, or in the WHERE of a query that",
    "select * from t tablesample (10 percent)": "not supported: TABLESAMPLE",
    "select t.a from t asof join u on t.a = u.a and t.x >= u.y and exists (select 1 from u)": (
        "a subquery in the ON of an ASOF JOIN"
    ),
    "select t.a from t left join lateral (select y from u where u.a = t.a) s on s.y in (select y from u)": (
        "a subquery in the ON of LEFT JOIN LATERAL"
    ),
    "select * from t natural left semi join u": "NATURAL LEFT SEMI JOIN; name the columns, LEFT SEMI JOIN",
    "select * from t natural anti join u": "not supported: NATURAL ANTI JOIN; name the columns, LEFT ANTI JOIN",
    "select stack(2, a, b) from t": "stack(): the values of column col0 must have one type, got int and string",
    "select stack(2, a, x, null, 1) from t": "column col1 must have one type, got bigint and int",
    "select stack(2, 1, 1.5, null, 10.25) from t": "must have one type, got decimal(2,1) and decimal(4,2)",
    "select a from t order by nosuch + 1": "no column 'nosuch' (in line 1, column 26); the columns are: a",
    "select b, count(*) from t group by b order by a": "'a' is neither in GROUP BY nor inside an aggregate",
    "select distinct b from t order by a": "no column 'a' (in line 1, column 35); the columns are: b",
    "select b from t union select 'x' order by a || 'x'": "no column 'a' (in line 1, column 43); the columns are: b",
    "select a from t limit -1": "LIMIT needs a whole number, not `-1`",
    "select a from t limit 'x'": "LIMIT needs a whole number, not `'x'`",
    "select a from t limit 1 + (select 1)": "LIMIT needs a whole number",
    "select a from t order by a limit 1 offset null": "OFFSET needs a whole number, not `NULL`",
    "select * from t pivot (x for b in ('p'))": "PIVOT needs aggregates, got `x`",
    "select * from t pivot (sum(x) + a for b in ('p'))": "PIVOT needs aggregates, got `SUM(x) + a`",
    "select * from t pivot (sum(x) for b in (x))": "PIVOT ... IN needs constants, got `x`",
    "select * from t pivot (sum(x) for (a, b) in ('p'))": "PIVOT has 2 column(s), and `'p'` has 1 value(s)",
    "select * from t pivot (sum(x) for q in ('p'))": "no column 'q'",
    "select * from t unpivot (v for n in (x, b, q))": "no column 'q'",
    "select * from t unpivot ((v, w) for n in (x, a))": "UNPIVOT has 2 value column(s), and `x` has 1",
    "select * from u unpivot (v for n in (y, arr))": "UNPIVOT: column 'v' is made of bigint, array<int>",
    "select * from t pivot (sum(x))": "Expected FOR",
    "select a from t group by a, rollup (b) with cube": "GROUP BY has one of WITH ROLLUP, WITH CUBE",
    "select (with c as (select y from u where u.a = t.a), u as (select 1 y) select max(y) from c) m from t": (
        "c reads u, which WITH names again; rename one"
    ),
    "select struct(q.*) from t": "there is no 'q' in FROM; there are: t",
    "select b.* from t": "there is no 'b' in FROM; there are: t",
    "select * replace (1 as q) from t": "no column 'q' (in REPLACE)",
    "from t |> frobnicate a": "no pipe operator FROBNICATE; there are: WHERE, SELECT, EXTEND",
    "from t |> select a where a > 1": "|> SELECT takes a list alone, no WHERE; write |> before it",
    "from t |> aggregate sum(x) group by 4": "GROUP BY 4: there are 3 columns",
    "from t |> aggregate": "|> AGGREGATE needs an aggregate or GROUP BY",
    "from t |> set a + 1": "|> SET takes column = expression",
    "from t |> set q = 1": "no column 'q' (in REPLACE)",
    "from t |> drop q": "no column 'q' (in EXCEPT)",
    "from t |> union all": "an operand or argument is missing",
    "from t |> tablesample (10 percent)": "not supported: TABLESAMPLE",
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
    "select a from t cluster by a limit 2": "CLUSTER BY with LIMIT",
    "select a from t distribute by a sort by x limit 2": "DISTRIBUTE BY with LIMIT",
    "select a from t sort by a offset 2": "SORT BY with LIMIT",
    "select a from t sort by nosuch": "no column 'nosuch'",
    "select a from t distribute by nosuch": "no column 'nosuch'",
    "from t |> sort by nosuch": "no column 'nosuch'",
    "select a from t order by a sort by a": "SORT BY and ORDER BY of one query",
    "select a from t join u using (nosuch)": "no column 'nosuch' (in USING)",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_wrong_is_said(text):
    with pytest.raises(PlanError) as caught:
        query(text, {"t": T, "u": U})
    assert REFUSED[text] in str(caught.value)


MORE = {
    "with recursive r as (select 1 n union all select n + 1 from r where n < 9 limit 3) select * from r": (
        "LIMIT of WITH RECURSIVE r"
    ),
    "with recursive r as (select a from t union all select row_number() over (order by a) from r) select * from r": (
        "window functions in the recursive part of r"
    ),
    "with recursive r as (select a from t union all select u.a from r right join u on r.a = u.a) select * from r": (
        "an outer join that r may be missing from"
    ),
}


@pytest.mark.parametrize("text", MORE)
def test_what_would_be_answered_wrongly_is_not(text):
    with pytest.raises(PlanError) as caught:
        query(text, {"t": T, "u": U})
    assert MORE[text] in str(caught.value)


@pytest.mark.parametrize("text", MISSPELT)
def test_a_name_that_may_have_been_meant_is_said(text):
    """Misspelt columns with all that there are, each written as it can be read there, and the nearest ones."""
    with pytest.raises(PlanError) as caught:
        query(text, {one.node.name: one for one in FLIGHTS})
    assert MISSPELT[text] in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("select a,\n b from t group by a", "take its max or min (line 2, column 2)"),
        ("select a from t group by a having x > 1", "take its max or min (line 1, column 35)"),
        ("select a from t group by a having sum(x)", "`SUM(x)` is bigint; a condition must be boolean"),
        ("select *, count(*) from t group by a", "no column 'b'; the columns are: a [in"),
        (
            "select a, (select sum(x) from t) + array(1) from t",
            "`sum(x) + array(1)`: bigint + array<int> is not defined",
        ),
    ],
)
def test_messages_about_groups_have_a_place_and_no_column_of_the_plan(text, said):
    with pytest.raises(PlanError) as raised:
        query(text, {"t": T})
    assert said in str(raised.value)
    assert "^" not in str(raised.value)
