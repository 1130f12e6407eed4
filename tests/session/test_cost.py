"""What EXPLAIN says of costs: a step of an operator that it calls incremental reads as many rows at n as at 100 n."""

from __future__ import annotations

import random
import re
import statistics
from pathlib import Path

import pyarrow as pa
import pytest

import altneu as an
from altneu.expressions.aggregate_calls import AGGREGATES
from altneu.operators.reduce.calls import COPY_NUMBER
from altneu.operators.reduce.window_functions import OF_PLACE, PICKING
from altneu.sql import query

T = an.source("t", "g int, id long, v long, x double, w string", keep=True)
U = an.source("u", "id long, z long", keep=True)
QUOTES = U.select(g="cast(1 as int)", at="id", z="z")
BY_G = T.group_by("g")
SOME = T.select("g", "id", v="if(v % 7 = 0, v, null)", w="if(v % 9 = 0, w, null)")
OVER = "OVER (PARTITION BY g ORDER BY id"


def in_sql(text):
    return query(text, {"t": T, "u": U})


_ALL_BY_ID = an.Relations(t=T, u=U, w=U.select("id", y="z"))
PLANS = {
    "filter": T.filter("v % 2 = 0"),
    "join_core": T.join_core(U, "id", lambda _, t, u: [(t.v, u.z)], "v long, z long"),
    "weighted": T.weighted(an.weights.Sums("v")).consolidate(),
    "select": T.select("g", y="v + 1"),
    "map": T.map(lambda row: (row.v,), "y long"),
    "concat": T.select("id").concat(U.select("id")),
    "sample": T.sample(0.5, by="id"),
    "join": T.join(U, on="id"),
    "left join": T.join(U, on="id", how="left"),
    "semijoin": T.semijoin(U, on="id"),
    "antijoin": T.antijoin(U, on="id"),
    "three-way join": T.join(U, on="id").join(U.select("id", y="z"), on="id"),
    "a join planned by hand": _ALL_BY_ID.join(
        _ALL_BY_ID.changes("t").half_join("u").half_join("w"),
        _ALL_BY_ID.changes("u").half_join("w").half_join("t"),
        _ALL_BY_ID.changes("w").half_join("t").half_join("u"),
    ),
    "distinct": T.select("g", "w").distinct(),
    "count": T.select("w").count(),
    "distinct in SQL": in_sql("SELECT g, count(DISTINCT w) n, sum(DISTINCT v) s, avg(DISTINCT x) m FROM t GROUP BY g"),
    "first rows in SQL": in_sql(f"SELECT g, id, w FROM t QUALIFY row_number() {OVER} DESC) = 1"),
    "distinct on in SQL": in_sql("SELECT DISTINCT ON (g) g, id, w FROM t ORDER BY g, id DESC"),
    "first ranks in SQL": in_sql(f"SELECT * FROM (SELECT *, rank() {OVER} DESC) r FROM t) WHERE r <= 3"),
    "threshold": T.select("w").threshold(lambda n: min(n, 2)),
    "sums": BY_G.agg(n="count(*)", s="sum(v)", m="avg(x)", d="stddev(x)"),
    "extremes": BY_G.agg(lo="min(v)", hi="max(v)"),
    "last by": BY_G.agg(last="max_by(w, id)"),
    "last three by": BY_G.agg(last="max_by(w, id, 3)", first="min_by(v, id, 2)"),
    "some of all": BY_G.agg(last="max_by(w, x, 3)", least="slice(collect_list(v), 1, 5)", n="count(*)"),
    "count distinct": BY_G.agg(n="count(distinct w)", s="sum(distinct v)"),
    "filtered": BY_G.agg(n="count(distinct w)", s="count(distinct w) FILTER (WHERE v > 9)"),
    "several": BY_G.agg(n="count(*)", hi="max(x)", lo="min(v)", d="count(distinct w)"),
    "percentiles": BY_G.agg(m="median(x)", q="percentile(x, 0.9)", d="percentile_approx(v, 0.25)"),
    "distinct percentiles": BY_G.agg(m="median(distinct x)", q="percentile(distinct v, 0.9)"),
    "counts of tuples": BY_G.agg(n="count(v, w)", d="count(distinct v % 100, w)"),
    "modes": BY_G.agg(m="mode(v % 50)", all="mode(id)", last="mode() within group (order by id desc)"),
    "all of it": T.group_by().agg(n="count(*)", hi="max(v)", m="median(x)"),
    "top_k": T.top_k(10, "v desc", per="g"),
    "top_k of all": T.top_k(10, "v"),
    "reduce of the first": BY_G.reduce(lambda _, rows: [len(rows)], "n long", needs=an.first(10, by="v")),
    "reduce of the last": BY_G.reduce(lambda _, rows: [len(rows)], "n long", needs=an.last(1, by="id")),
    "top_k of ties": T.select("g", "id", half="v % 2").top_k(3, "half, id", per="g"),
    "extremes of long texts": T.select("g", w="concat('alike: ', w)").group_by("g").agg(a="min(w)", b="max(w)"),
    "lag of ties": T.select("g", "id", half="v % 2").window(w="lag(id) OVER (PARTITION BY g ORDER BY half, id)"),
    "lag": T.window(w1=f"lag(v) {OVER})", w2=f"lead(v, 3) {OVER})"),
    "moving": T.window(w1=f"avg(x) {OVER} ROWS 5 PRECEDING)", w2=f"sum(v) {OVER} ROWS 5 PRECEDING)"),
    "moving statistics": T.window(
        d=f"stddev(x) {OVER} ROWS 5 PRECEDING)",
        m=f"median(x) {OVER} ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING)",
        n=f"count(DISTINCT w) {OVER} ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING)",
    ),
    "between": T.window(near=f"sum(v) {OVER} RANGE BETWEEN 8 PRECEDING AND CURRENT ROW)"),
    "between on one side": T.window(
        m=f"max(v) {OVER} RANGE BETWEEN UNBOUNDED PRECEDING AND 8 PRECEDING)",
        s=f"sum(v) {OVER} RANGE BETWEEN UNBOUNDED PRECEDING AND 4 FOLLOWING)",
        t=f"last_value(w) {OVER} RANGE BETWEEN UNBOUNDED PRECEDING AND 8 PRECEDING)",
    ),
    "between on the other side": T.window(
        m=f"max(v) {OVER} DESC RANGE BETWEEN 8 PRECEDING AND UNBOUNDED FOLLOWING)",
        n=f"count(*) {OVER} DESC RANGE BETWEEN 4 FOLLOWING AND UNBOUNDED FOLLOWING)",
    ),
    "between and near": T.window(s=f"sum(v) {OVER} RANGE BETWEEN 8 PRECEDING AND CURRENT ROW)", p=f"lag(w, 2) {OVER})"),
    "ignoring nulls": SOME.window(
        a=f"lag(v) IGNORE NULLS {OVER})",
        b=f"last_value(w) IGNORE NULLS {OVER})",
        c=f"nth_value(v, 2) IGNORE NULLS {OVER} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    ),
    "running and ignoring nulls": SOME.window(a=f"last_value(v) IGNORE NULLS {OVER})", n=f"count(v) {OVER})"),
    "nth from here": T.window(n=f"nth_value(v, 3) {OVER} ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)"),
    "several orders": T.window(
        a=f"lag(v) {OVER})",
        b="lead(id) OVER (PARTITION BY g ORDER BY x DESC)",
        c="avg(x) OVER (PARTITION BY g ORDER BY w ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING)",
        d="min(id) OVER (PARTITION BY g)",
    ),
    "an order and what runs on in another": T.window(
        a="lag(v) OVER (PARTITION BY g ORDER BY x)", n=f"row_number() {OVER})"
    ),
    "row_number": T.window(n=f"row_number() {OVER})"),
    "rank": T.window(n=f"rank() {OVER})"),
    "running": T.window(n=f"count(*) {OVER})", s=f"sum(v) {OVER})", m=f"avg(x) {OVER} ROWS UNBOUNDED PRECEDING)"),
    "dense_rank": T.window(n=f"dense_rank() {OVER})"),
    "running extremes": T.window(a=f"max(v) {OVER})", b=f"first_value(w) {OVER})", c=f"nth_value(x, 3) {OVER})"),
    "running back": T.window(
        n=f"count(*) {OVER} DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        s=f"sum(v) {OVER} DESC ROWS BETWEEN 1 PRECEDING AND UNBOUNDED FOLLOWING)",
        m=f"max(x) {OVER} DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        b=f"last_value(w) {OVER} DESC ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        c=f"lag(v) {OVER} DESC)",
    ),
    "running back with peers": T.window(
        s=f"avg(x) {OVER} DESC RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
        m=f"min(v) {OVER} DESC RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    ),
    "last value": T.window(a=f"last_value(w) {OVER})"),
    "of the whole partition": T.window(
        a="v - min(id) OVER (PARTITION BY g)",
        b=f"lag(v) {OVER})",
        n="count(DISTINCT v % 8) OVER (PARTITION BY g)",
        m="count_if(v < 0) OVER (PARTITION BY g)",
    ),
    "median of the whole partition": T.select("g", "id", y="least(v % 8, 1)").window(
        w="median(y) OVER (PARTITION BY g)"
    ),
    "first row_numbers": T.window(n=f"row_number() {OVER})").filter("n <= 10"),
    "first ranks": T.window(n=f"rank() {OVER})", s=f"sum(v) {OVER})").filter("n < 10 and s > 0"),
    "first dense_ranks": T.window(n=f"dense_rank() {OVER} DESC)", m=f"max(v) {OVER} DESC)").filter("n in (1, 4)"),
    "latest": T.latest("g", "id"),
    "as-of join": T.asof_join(QUOTES, "g", left_time="id", right_time="at", mode="revising"),
    "locked as-of join": T.asof_join(QUOTES, "g", left_time="id", right_time="at", mode="locked"),
    "update time": T.select("id", since="update_time()"),
    "arrange_by": T.arrange_by("w"),
    "generate_series": T.select("id").generate_series("id", "id + 2", as_="n"),
}

WHOLE = {
    "collect": BY_G.agg(rows="collect_list(v)"),
    "collect set": BY_G.agg(rows="collect_set(w)"),
    "reduce": BY_G.reduce(lambda _, rows: [len(rows)], "n long"),
    "shares of a place": T.window(n=f"percent_rank() {OVER})", m=f"ntile(4) {OVER})"),
    "running shares": T.window(n=f"sum(v) {OVER}) / sum(v) OVER (PARTITION BY g)"),
}


def rows_read(plan, count, read, shards=1):
    """Rows read by steps that insert a row at the end, one in the middle that goes again, and a pair of a join."""
    with an.Session(shards=shards) as session:
        session.maintain("view", plan)
        ids = range(0, 2 * count, 2)
        columns = {"g": [1] * count, "id": ids, "v": [i * 7919 % 10007 for i in ids], "x": [i % 8191 / 7 for i in ids]}
        table = {**columns, "w": [f"w{i % 9_973}" for i in ids]}
        if "t" in session.sources:
            session.insert("t", pa.table({n: pa.array(list(c), T.schema.field(n).type) for n, c in table.items()}))
        if "u" in session.sources:
            session.insert("u", [(i, i) for i in ids])
        session.advance()
        steps = [
            ("t", (1, 2 * count, 12_000, 1.5, "new"), 1),
            ("t", (1, 2 * count - 7, 500, 9_000.5, "w3"), 1),
            ("t", (1, 2 * count - 7, 500, 9_000.5, "w3"), -1),
            ("t", (1, 2 * count - 2, columns["v"][-1], columns["x"][-1], table["w"][-1]), -1),
            ("u", (2 * count - 7, 4), 1),
            ("u", (2 * count - 4, 2 * count - 4), -1),
        ]
        result = []
        for source, row, diff in steps:
            if source not in session.sources:
                continue
            session.insert(source, [row], diff=diff)
            read.append(0)
            session.advance()
            result.append(read[-1])
        return result, session.explained("view")


def worst(explained):
    return {operator.called for operator in explained.operators if operator.tells_cost}


@pytest.mark.parametrize("name", PLANS)
def test_what_is_called_incremental_reads_as_much_of_a_hundred_times_as_many_rows(name, read):
    (few, explained), (many, _) = (rows_read(PLANS[name], count, read) for count in (600, 60_000))
    assert worst(explained) == {"incremental"}
    assert all(b <= 2 * a + 40 for a, b in zip(few, many, strict=True)), (few, many)
    assert max(many) < 1_000


@pytest.mark.parametrize("direction", ["", " DESC"])
def test_running_extremes_are_read_up_to_where_they_stay(direction, read):
    """A change of a row that is not an extreme changes no row behind it, and reads none."""
    over = f"OVER (PARTITION BY g ORDER BY id{direction})"
    plan = T.window(a=f"max(v) {over}", b=f"min(x) {over}", c=f"first_value(w) {over}", d=f"last_value(w) {over}")
    counted = []
    for count in (6_000, 60_000):
        with an.Session() as session:
            view = session.maintain("view", plan)
            rows = [(1, 2 * i, i * 7919 % 10007, i % 100 / 7 + 1, f"w{i}") for i in range(count)]
            session.insert("t", rows)
            session.advance()
            row = (1, 2 * count - 2021 if direction else 2021, 1, 2.5, "new")
            for diff in (1, -1):
                session.insert("t", [row], diff=diff)
                read.append(0)
                session.advance()
                counted.append(read[-1])
                assert len(view.changes()) == 1
            assert "to where results stay" in str(session.explain("view"))
    assert max(counted) < 200, counted


@pytest.mark.parametrize("name", WHOLE)
def test_what_reads_its_groups_is_called_bounded(name, read):
    (few, explained), (many, _) = (rows_read(WHOLE[name], count, read) for count in (100, 1_000))
    assert "bounded" in worst(explained)
    assert max(many) > 5 * max(few)


@pytest.mark.parametrize("call", ["collect_set(w)", "string_agg(DISTINCT w, ';')"])
def test_a_set_reads_its_distinct_values_however_many_rows_have_them(call, read):
    def read_for(count):
        with an.Session() as session:
            session.maintain("view", T.group_by("g").agg(values=call, n="count(*)"))
            session.insert("t", [(1, i, i, i / 2, f"w{i % 40}") for i in range(count)])
            session.advance()
            result = []
            for diff in (1, -1):
                session.insert("t", [(1, -1, -1, 0.5, "new")], diff=diff)
                read.append(0)
                session.advance()
                result.append(read[-1])
            return result

    few, many = map(read_for, (200, 20_000))
    assert all(b <= a + 40 for a, b in zip(few, many, strict=True)), (few, many)
    assert 40 < max(many) < 400


OF_ITS_GROUP = "is made of the whole group, as long as it is"
READS_THE_GROUP = {
    "collect_list(v)": OF_ITS_GROUP,
    "array_agg(v)": OF_ITS_GROUP,
    "collect_set(w)": OF_ITS_GROUP,
    "listagg(w)": OF_ITS_GROUP,
    "string_agg(DISTINCT w, ';')": OF_ITS_GROUP,
    "first(v) WITHIN GROUP (ORDER BY id, w DESC)": "changes on all rows of its group",
    "collect_union(array(v))": OF_ITS_GROUP,
    "schema_of_variant_agg(CAST(v AS variant))": OF_ITS_GROUP,
    "bitmap_construct_agg(v)": OF_ITS_GROUP,
    "bitmap_or_agg(CAST(w AS binary))": OF_ITS_GROUP,
    "bitmap_and_agg(CAST(w AS binary))": OF_ITS_GROUP,
}
READS_LITTLE = [
    *("count(*)", "count(v)", "count(DISTINCT v)", "approx_count_distinct(w)", "sum(v)", "try_sum(v)"),
    *("sum(DISTINCT v)", "avg(x)", "mean(x)", "try_avg(x)", "avg(DISTINCT x)", "min(v)", "max(x)", "any_value(v)"),
    *(f"{f}(x)" for f in ("stddev", "stddev_samp", "std", "stddev_pop", "variance", "var_samp", "var_pop")),
    *("skewness(x)", "kurtosis(x)", "covar_samp(x, v)", "covar_pop(x, v)", "corr(x, v)", "stddev(DISTINCT x)"),
    *(f"regr_{f}(x, v)" for f in ("slope", "intercept", "r2", "count", "avgx", "avgy", "sxx", "syy", "sxy")),
    *("max_by(w, id, 3)", "min_by(w, id, 2)"),
    *("max_by(w, id)", "min_by(w, id)", "median(x)", "percentile(x, 0.5)", "percentile(x, array(0.1, 0.9))"),
    *("percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)"),
    *("percentile_approx(x, 0.5)", "approx_percentile(x, 0.5)", "count_if(v > 1)", "bool_and(v > 1)", "every(v > 1)"),
    *("count(v, w)", "count(DISTINCT v, w)", "median(DISTINCT x)", "percentile(DISTINCT x, array(0.1, 0.9))"),
    *("first(v) WITHIN GROUP (ORDER BY id)", "last(v, true) WITHIN GROUP (ORDER BY id DESC)"),
    *("mode(w)", "mode() WITHIN GROUP (ORDER BY v DESC)"),
    *("bool_or(v > 1)", "any(v > 1)", "some(v > 1)", "bit_and(v)", "bit_or(v)", "bit_xor(v)"),
]


@pytest.mark.parametrize("whole", [False, True], ids=["few", "whole"])
@pytest.mark.parametrize("key", [("g",), ()], ids=["groups", "everything"])
def test_every_aggregate_is_called_by_what_it_reads(key, whole):
    """One that reads its group reads all rows where these are one group, and EXPLAIN then calls it full."""
    with an.Session() as session:
        for text in READS_THE_GROUP if whole else READS_LITTLE:
            session.maintain("view", T.group_by(*key).agg(result=text))
            expected = {"incremental"} if not whole else {"incremental", "bounded" if key else "full"}
            assert worst(session.explained("view")) == expected, text
            session.drop("view")


def test_every_aggregate_of_the_reference_is_among_them():
    names = {name.lower() for usage, _ in AGGREGATES for name in re.findall(r"(\w+)\(", usage)}
    tested = {name.lower() for text in [*READS_THE_GROUP, *READS_LITTLE] for name in re.findall(r"(\w+)\(", text)}
    assert names - tested == set()


ON_ALL_ROWS = "changes on all rows of its partition"
NOT_FROM_SUMS = "is one row of a frame, in which a row may be farther away than the bound"
FRAME = "{over} ORDER BY id ROWS BETWEEN"
_END = "UNBOUNDED FOLLOWING"
READS_THE_PARTITION = {
    "percent_rank() {over} ORDER BY id)": ON_ALL_ROWS,
    "cume_dist() {over} ORDER BY id)": ON_ALL_ROWS,
    "ntile(4) {over} ORDER BY id)": ON_ALL_ROWS,
    "sum(v) {over}) - sum(v) {over} ORDER BY id)": ON_ALL_ROWS,
    "ntile(4) {over} ORDER BY id) + max(v) {over})": ON_ALL_ROWS,
    "collect_list(w) {over})": OF_ITS_GROUP,
    "collect_set(w) {over})": OF_ITS_GROUP,
    "row_number() {over} ORDER BY id) + sum(v) {over} ORDER BY id DESC)": "changes before a row and behind it",
    f"row_number() {{over}} ORDER BY id) + count(v) {FRAME} CURRENT ROW AND UNBOUNDED FOLLOWING)": ON_ALL_ROWS,
    "first_value(v) IGNORE NULLS {over} ORDER BY id)": "asks for the first row of all that is not null",
    "last_value(v) IGNORE NULLS {over} ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING)": NOT_FROM_SUMS,
    "last_value(v) {over} ORDER BY id RANGE BETWEEN 5 PRECEDING AND UNBOUNDED FOLLOWING)": NOT_FROM_SUMS,
    "first_value(v) {over} ORDER BY id RANGE BETWEEN 5 FOLLOWING AND UNBOUNDED FOLLOWING)": NOT_FROM_SUMS,
    "max(v) {over} ORDER BY x RANGE BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING)": "doubles have no distance",
}
READS_LITTLE_OF_THE_PARTITION = [
    *(f"{f} {{over}} ORDER BY id)" for f in ("row_number()", "rank()", "dense_rank()", "lag(v)", "lead(v, 3)")),
    *(f"{f} {{over}} ORDER BY id)" for f in ("first_value(w)", "last_value(w)", "nth_value(w, 2)")),
    *(f"{f} {{over}} ORDER BY id)" for f in ("first(w)", "last(w)", "any_value(w)")),
    f"first_value(v) {FRAME} CURRENT ROW AND UNBOUNDED FOLLOWING)",
    f"last_value(v) {FRAME} 3 PRECEDING AND UNBOUNDED FOLLOWING)",
    *(f"{f}(v) IGNORE NULLS {{over}} ORDER BY id)" for f in ("lag", "lead", "last_value")),
    "counter_diff(v) {over} ORDER BY id)",
    f"first_value(v) IGNORE NULLS {FRAME} 3 PRECEDING AND 2 FOLLOWING)",
    f"first_value(v) IGNORE NULLS {FRAME} CURRENT ROW AND UNBOUNDED FOLLOWING)",
    *(f"nth_value(v, 2){how} {FRAME} CURRENT ROW AND UNBOUNDED FOLLOWING)" for how in ("", " IGNORE NULLS")),
    "last_value(v) {over} ORDER BY id RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)",
    "max(v) {over} ORDER BY id RANGE BETWEEN 5 PRECEDING AND UNBOUNDED FOLLOWING)",
    *(f"{f}(v) {{over}} ORDER BY id RANGE BETWEEN UNBOUNDED PRECEDING AND 5 PRECEDING)" for f in ("max", "last")),
    "sum(v) {over} ORDER BY id RANGE BETWEEN 5 PRECEDING AND 1 PRECEDING) + lag(v) {over} ORDER BY id)",
    "sum(v) {over} ORDER BY id RANGE BETWEEN 5 PRECEDING AND 1 PRECEDING) + row_number() {over} ORDER BY id)",
    "lag(v) {over} ORDER BY id) + lag(v) {over} ORDER BY v DESC)",
    "row_number() {over} ORDER BY id) + lead(v) {over} ORDER BY w) + lag(v) {over} ORDER BY v)",
    "lag(v) {over} ORDER BY id) + lead(v) {over} ORDER BY v DESC) + max(v) {over})",
]
OF_ALL = [
    *("count(*)", "count(v)", "sum(v)", "avg(x)", "stddev(x)", "corr(x, v)", "bit_or(v)", "count(v, w)"),
    *("min(v)", "max(x)", "max_by(w, id)", "min_by(w, id)", "median(x)", "percentile(x, array(0.1, 0.9))", "mode(w)"),
    *("percentile_disc(0.5) WITHIN GROUP (ORDER BY x)", "bool_and(v > 1)", "count(DISTINCT v)", "sum(DISTINCT v)"),
    *("count(DISTINCT v, w)", "avg(DISTINCT x)", "stddev(DISTINCT x)", "median(DISTINCT x)"),
    "approx_count_distinct(w)",
]
RUNNING = [
    *("count(*)", "count(v)", "sum(v)", "avg(x)", "mean(x)", "min(v)", "max(x)", "any_value(v)", "count_if(v > 1)"),
    *("regr_count(x, v)", "regr_avgx(x, v)", "regr_avgy(x, v)", "max_by(w, id)", "min_by(w, id)", "bool_and(v > 1)"),
    *("every(v > 1)", "bool_or(v > 1)", "any(v > 1)", "some(v > 1)"),
]


def windows(*, whole):
    """Window functions that read their partition, or those that read little of it: each aggregate over all frames.

    Those that are not among ``RUNNING`` know nothing of all rows before a place, and read these.
    """
    aggregates = [text for text in (*READS_LITTLE, *READS_THE_GROUP) if whole == (text not in RUNNING)]
    yield from READS_THE_PARTITION if whole else READS_LITTLE_OF_THE_PARTITION
    yield from (f"{text} {{over}} ORDER BY id)" for text in aggregates)
    yield from (f"{text} {FRAME} CURRENT ROW AND UNBOUNDED FOLLOWING)" for text in aggregates)
    if not whole:
        yield from (f"{text} {FRAME} 2 PRECEDING AND 1 FOLLOWING)" for text in (*READS_LITTLE, *READS_THE_GROUP))
        yield from (f"{text} {{over}})" for text in OF_ALL)
        yield f"sum(v) {{over}}) + lag(v) {{over}} ORDER BY id) + max(v) {FRAME} UNBOUNDED PRECEDING AND {_END})"
        yield from (f"sum(v) {{over}} ORDER BY id) - {text} {{over}})" for text in ("min(v)", "count(DISTINCT v)"))


@pytest.mark.parametrize("whole", [False, True], ids=["few", "whole"])
@pytest.mark.parametrize("key", ["PARTITION BY g", ""], ids=["groups", "everything"])
def test_every_window_function_is_called_by_what_it_reads(key, whole):
    with an.Session() as session:
        for text in windows(whole=whole):
            session.maintain("view", T.window(result=text.format(over=f"OVER ({key}")))
            expected = {"incremental"} if not whole else {"incremental", "bounded" if key else "full"}
            assert worst(session.explained("view")) == expected, text
            session.drop("view")


def test_every_window_function_of_the_reference_is_among_them():
    """With every aggregate: ``windows`` has those."""
    table = (Path(__file__).parents[2] / "docs" / "window_functions.md").read_text().split("## Functions and frames")[1]
    names = set(re.findall(r"(\w+)\(", table.split("`IGNORE NULLS`")[0])) | {"first", "last", "any_value"}
    tested = {re.match(r"\w+", text)[0] for text in (*READS_THE_PARTITION, *READS_LITTLE_OF_THE_PARTITION)}
    assert names - tested == set()
    assert {*OF_PLACE, *PICKING} - tested == {COPY_NUMBER}  # which plans alone have


ROWS = T.select("g", "id", "v")
VERBS = {
    "antijoin": T.antijoin(U, on="id"),
    "arrange_by": T.arrange_by("w"),
    "asof_join": T.asof_join(QUOTES, "g", left_time="id", right_time="at", mode="revising"),
    "concat": ROWS.concat(ROWS),
    "consolidate": ROWS.consolidate(),
    "count": ROWS.count(),
    "delay": ROWS.delay(every=2),
    "distinct": ROWS.distinct(),
    "explode": ROWS.explode(lambda row: [((row.v,), 1)], "v long"),
    "filter": ROWS.filter("v > 0"),
    "flat_map": ROWS.flat_map(lambda row: [(row.v,)], "v long"),
    "generate_series": ROWS.generate_series("id", "id + 2", as_="n"),
    "inspect": ROWS.inspect(lambda *_: None),
    "iterate": T.select("id").iterate(lambda x: x.join(U, on="id").select(id="z").concat(T.select("id")).distinct()),
    "join": T.join(U, on="id", how="full"),
    "join_core": T.join_core(U, "id", lambda _, t, u: [(t.v, u.z)], "v long, z long"),
    "latest": T.latest("g", "id"),
    "map": ROWS.map(lambda row: (row.v,), "v long"),
    "negate": ROWS.negate(),
    "repeat_row": ROWS.repeat_row("v"),
    "repeat_row_non_negative": ROWS.repeat_row_non_negative("v"),
    "sample": ROWS.sample(0.5, by="id"),
    "select": ROWS,
    "semijoin": T.semijoin(U, on="id"),
    "temporal": ROWS.temporal("v", "v + 2"),
    "threshold": ROWS.threshold(abs),
    "top_k": T.top_k(3, "x"),
    "weighted": T.select("g", "v").weighted(an.weights.Sums("v")).consolidate(),
    "agg": T.group_by().agg(n="count(*)", most="max(x)", usual="mode(w)"),
}
BY_ROW = {"delay_to_neu", "differentiate", "enter_at", "integrate", "join_function", "json", "moments", "unnest"}
"""Verbs that look at one row at a time, in moments, or of columns that ``T`` has not."""
OF_FUNCTIONS = {"agg", "reduce", "reduce_core", "window"}
"""Verbs that are called by what the functions read that they are given: ``windows`` and ``READS_THE_GROUP``.

What ``reduce_core`` reads is counted in tests/oracle/test_reduce_core.py.
"""


@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_reads_all_that_there_is(verb):
    """Of one group of all rows: what reads it is called full."""
    with an.Session() as session:
        session.maintain("view", VERBS[verb])
        assert "full" not in worst(session.explained("view"))


def test_every_verb_has_a_word():
    verbs = {name for name in dir(an.Collection) if not name.startswith("_")} - {"columns", "schema", "group_by"}
    grouped = {name for name in dir(T.group_by("g")) if not name.startswith("_")} - {"key", "keys", "node", "wrap"}
    assert verbs | grouped == {*VERBS} | BY_ROW | OF_FUNCTIONS


LINEAR = {
    "consolidate", "delay", "delay_to_neu", "differentiate", "enter_at", "explode", "flat_map", "inspect", "integrate",
    "join_function", "json", "moments", "negate", "repeat_row", "repeat_row_non_negative", "temporal", "unnest",
}  # fmt: skip
"""Verbs that look at one row at a time, as ``filter`` and ``map`` do, and keep none but future updates."""


def test_every_verb_is_counted():
    """A loop costs what the verbs of its body do, in each round."""
    verbs = {name for name in dir(an.Collection) if not name.startswith("_")} - {"columns", "schema", "iterate"}
    text = Path(__file__).read_text()
    assert {verb for verb in verbs - LINEAR if f".{verb}(" not in text} == set()


EDGES, ROOTS = an.source("edges", "src long, dst long, weight long"), an.source("roots", "node long")


def least_labels():
    """Components without an order in which labels enter: all labels reach the neighbours of a node."""
    both = EDGES.select("src", "dst").concat(EDGES.select(src="dst", dst="src")).distinct()
    own = both.select(node="src").distinct().select("node", label="node")

    def least(labels):
        heard = labels.join(both, on={"node": "src"}).select(node="dst", label="label")
        return heard.concat(own).group_by("node").agg(label="min(label)")

    return own.iterate(least)


def nearest():
    """The three least distances at which a node is reached."""
    start = ROOTS.select("node", distance="0L")

    def nearer(known):
        further = known.join(EDGES, on={"node": "src"}).select(node="dst", distance="distance + weight")
        return further.concat(start).distinct().top_k(3, "distance", per="node")

    return start.iterate(nearer)


IN_LOOPS = {
    "breadth-first search": lambda: an.algorithms.bfs(EDGES, ROOTS),
    "shortest paths": lambda: an.algorithms.shortest_paths(EDGES, ROOTS),
    "components": lambda: an.algorithms.connected_components(EDGES),
    "least labels": least_labels,
    "nearest three": nearest,
}


def read_at_a_hub(plan, count, read, shards):
    """Rows read by steps that change one of the edges that lead to a node of which there are many."""
    hub, rng = count + 1, random.Random(count)
    weight = {node: rng.randrange(10, 1 << 40) for node in range(1, count + 1)}
    lower, result = hub // 2, []
    with an.Session(shards=shards) as session:
        session.maintain("view", plan)
        direct = [] if plan is PLAIN else [(0, node, 1) for node in weight]
        session.insert("edges", [*direct, *((node, hub, weight[node]) for node in weight), (hub, count + 2, 1)])
        if "roots" in session.sources:
            session.insert("roots", [(0,)])
        session.advance()
        first = min(weight, key=weight.get)
        edges = [(lower, hub, weight[lower]), (count, hub, weight[count]), (count + 9, hub, 3)]
        edges += [] if plan is PLAIN else [(first, hub, weight[first])] * ("roots" in session.sources)
        for edge in edges:
            for diff in (1, -1) if edge[0] > count else (-1, 1):
                session.insert("edges", [edge], diff=diff)
                read.append(0)
                session.advance()
                result.append(read[-1])
    return result


PLAIN = least_labels()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize("name", IN_LOOPS)
def test_a_hub_of_a_graph_costs_the_same_however_many_edges_lead_to_it(name, shards, read):
    plan = PLAIN if name == "least labels" else IN_LOOPS[name]()
    few, many = (read_at_a_hub(plan, count, read, shards) for count in (300, 30_000))
    assert all(b <= 2 * a + 40 for a, b in zip(few, many, strict=True)), (few, many)
    assert max(many) < 1_000


def triangles(*third):
    """Triangles along paths planned by hand; ``third`` is how the third corner is found, from each of the sides."""
    sides = {"ab": ("a", "b"), "bc": ("b", "c"), "ac": ("a", "c")}
    relations = an.Relations(**{name: EDGES.select(**{x: "src", y: "dst"}) for name, (x, y) in sides.items()})
    return relations.join(*(how(relations.changes(name)) for name, how in zip(sides, third, strict=True)))


EXTENDED = triangles(
    lambda path: path.extend("c", "bc", "ac"),
    lambda path: path.extend("a", "ab", "ac"),
    lambda path: path.extend("b", "ab", "bc"),
)
LOOKED_UP = triangles(
    lambda path: path.half_join("bc").lookup("ac"),
    lambda path: path.half_join("ac").lookup("ab"),
    lambda path: path.half_join("bc").lookup("ab"),
)


@pytest.mark.parametrize("shards", [1, 3])
def test_paths_by_hand_cost_their_candidates(shards, read):
    """An edge to a hub has one candidate at its other end: an extension reads that, a half join all at the hub."""

    def read_for(plan, count):
        with an.Session(shards=shards) as session:
            view = session.maintain("view", plan)
            session.insert("edges", [(0, i, 1) for i in range(1, count)] + [(-1, 1, 1)])
            session.advance()
            result = []
            for diff in (1, -1):
                session.insert("edges", [(-1, 0, 1)], diff=diff)
                read.append(0)
                session.advance()
                result.append(read[-1])
                assert view.to_pylist() == [(-1, 0, 1)] * (diff > 0)
            return result

    few, many = (read_for(EXTENDED, count) for count in (100, 10_000))
    assert all(b <= a + 10 for a, b in zip(few, many, strict=True)), (few, many)
    assert max(many) < 60
    few, many = (read_for(LOOKED_UP, count) for count in (100, 10_000))
    assert all(99 <= a < 400 and b >= 9_999 for a, b in zip(few, many, strict=True)), (few, many)


QUEUED = 20_000  # rows, of which steps take one after the other from the front
TAKEN = 200


def drained(read, change, session):
    """Rows read by each of some steps, of which each takes away the first row of a queue."""
    result = []
    for i in range(TAKEN):
        change(i)
        read.append(0)
        session.advance()
        result.append(read[-1])
    return result


def is_flat(counts):
    """Whether the last steps read what the first do; where batches are merged, what cancels is found anew, once."""
    return statistics.median(counts[-20:]) <= 1.5 * statistics.median(counts[:20]) + 20


@pytest.mark.parametrize("name", ["shortest paths", "nearest three"])
def test_a_queue_in_a_loop_costs_the_same_however_much_was_taken_from_it(name, read):
    """Of the edges to a hub the best goes in each step."""
    hub = QUEUED + 1
    with an.Session() as session:
        session.maintain("view", IN_LOOPS[name]())
        nodes = range(1, hub)
        edges = [*((0, node, 1) for node in nodes), *((node, hub, 10 + node) for node in nodes), (hub, hub + 1, 1)]
        session.insert("edges", edges)
        session.insert("roots", [(0,)])
        session.advance()
        counts = drained(read, lambda i: session.insert("edges", [(i + 1, hub, 11 + i)], diff=-1), session)
        assert session.peek(session.collections["view"].filter(f"node = {hub}")).num_rows >= 1
    assert is_flat(counts), counts
    assert statistics.median(counts) < 500


EVENTS = an.source("t", "g int, v long", time=("known", "day"))
AT_TWO_TIMES = {
    "extremes": EVENTS.group_by("g").agg(lo="min(v)", hi="max(v)"),
    "top_k": EVENTS.top_k(3, "v desc", per="g"),
}


@pytest.mark.parametrize("name", AT_TWO_TIMES)
def test_the_first_rows_are_read_with_two_times(name, read):
    def rows_read(count):
        result = []
        with an.Session() as session:
            session.maintain("view", AT_TWO_TIMES[name])
            session.insert("t", [(1, v) for v in range(count)], time=3)
            session.advance()
            for row, event, diff in [((1, 7), 5, -1), ((1, count + 5), 4, 1), ((1, count + 5), 6, -1), ((1, -1), 9, 1)]:
                session.insert("t", [row], time=event, diff=diff)
                read.append(0)
                session.advance()
                result.append(read[-1])
        return result

    few, many = map(rows_read, (600, 60_000))
    assert all(b <= 2 * a + 40 for a, b in zip(few, many, strict=True)), (few, many)
    assert max(many) < 200


@pytest.mark.parametrize("name", AT_TWO_TIMES)
def test_a_queue_with_two_times_costs_the_same_however_much_was_taken_from_it(name, read):
    """Each row goes at a later event time than those before it; a row of an earlier event time is not overlooked."""
    with an.Session() as session:
        session.maintain("view", AT_TWO_TIMES[name])
        first = 1 if name == "extremes" else -1
        session.insert("t", [(1, first * v) for v in range(QUEUED)], time=0)
        session.advance()
        change = lambda i: session.insert("t", [(1, first * i)], time=i + 1, diff=-1)  # noqa: E731
        counts = drained(read, change, session)
        assert is_flat(counts), counts
        assert statistics.median(counts) < 500
        session.insert("t", [(1, -first)], time=50)
        session.advance()
        with an.Session() as other:
            other.maintain("view", AT_TWO_TIMES[name])
            other.insert("t", [(1, first * v) for v in range(QUEUED)], time=0)
            for i in range(TAKEN):
                change_of = (1, first * i)
                other.insert("t", [change_of], time=i + 1, diff=-1)
            other.insert("t", [(1, -first)], time=50)
            other.advance()
            for day in (0, 1, 49, 50, 51, TAKEN, TAKEN + 1):
                at = (session.lower - 1, day), (other.lower - 1, day)
                mine, theirs = (s.view("view").to_arrow(at=t) for s, t in zip((session, other), at, strict=True))
                assert sorted(map(repr, mine.to_pylist())) == sorted(map(repr, theirs.to_pylist()))


@pytest.mark.spark
@pytest.mark.parametrize("name", ["extremes", "top_k"])
def test_a_queue_costs_the_same_in_a_session_on_spark(name, read, spark, tmp_path):
    """Its steps run in the driver, over states that are stored; a new session finds what cancels once."""
    plan = {"extremes": BY_G.agg(lo="min(v)"), "top_k": T.top_k(3, "v", per="g")}[name]

    def row(v):
        return (1, v, v, 0.5, "w")

    with an.Session(path=tmp_path, spark=spark) as session:
        session.maintain("view", plan)
        session.insert("t", [row(v) for v in range(QUEUED)])
        session.advance()
        counts = drained(read, lambda i: session.insert("t", [row(i)], diff=-1), session)
        assert is_flat(counts), counts
        assert statistics.median(counts) < 500
    with an.Session(path=tmp_path, spark=spark) as session:
        session.maintain("view", plan)
        counts = drained(read, lambda i: session.insert("t", [row(TAKEN + i)], diff=-1), session)
        assert is_flat(counts[1:]), counts
        assert max(counts[1:10]) < 500
