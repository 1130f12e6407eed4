"""Every operator of the Python front end at least once, over three small tables whose rows carry their case."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import altneu as an
from altneu import Collection
from tests.oracle.recompute import plain

A = an.source("a", "trial int, k long, v long, s string")
B = an.source("b", "trial int, k int, w long, s string")
C = an.source("c", "trial int, k long, x double, f float, d decimal(8,2)")
SOURCES = {"a": A, "b": B, "c": C}
DOUBLES = [0.0, -0.0, 1.5, -2.25, 0.1, 1e300, 1e-300, float("nan"), float("inf"), float("-inf")]


def row_of_a(rng: random.Random, case: int) -> tuple[object, ...]:
    return case, rng.choice([1, 1, 2, 3, None]), rng.choice([0, 1, 2, 5, -3, None]), rng.choice(["x", "y", "", None])


def row_of_b(rng: random.Random, case: int) -> tuple[object, ...]:
    return case, rng.choice([1, 2, 2, 4, None]), rng.choice([1, 2, 7, None]), rng.choice(["x", "z", None])


def row_of_c(rng: random.Random, case: int) -> tuple[object, ...]:
    decimal = rng.choice(["0.00", "1.25", "-3.50", "99.99", None])
    some = rng.choice([None, *DOUBLES] if case % 4 > 1 else [None, *DOUBLES[:5]])
    return (
        case,
        rng.choice([1, 1, 2, None]),
        plain(some),
        plain(rng.choice([1.5, -0.5, None])),
        decimal and Decimal(decimal),
    )


TABLES = {"a": row_of_a, "b": row_of_b, "c": row_of_c}


def queries() -> dict[str, Collection]:
    """By name; the case is part of every key, but for the queries that ask about everything at once."""
    one = A.select("trial", "k", "v")
    other = B.select("trial", k="cast(k as bigint)", v="w")
    return {
        **_linear(one, other),
        **_in_time(one, other),
        **_tables(one),
        **_joins(one, other),
        **_aggregates(),
        **_reductions(one),
        **_weights(one),
        **_windows(),
        **_shared(one, other),
    }


def _linear(one: Collection, other: Collection) -> dict[str, Collection]:
    return {
        "source": A,
        "select": A.select("*", "v + 1 as more", twice="v * 2", text="coalesce(s, '!')"),
        "select with errors": A.select("trial", "k", part="10 div v"),
        "filter": A.filter("v > 0 and s <> 'y'"),
        "filter with errors": A.filter("10 div v > 2"),
        "filter function": A.filter(lambda r: r.v is not None and r.v % 2 == 0),
        "filter function with errors": A.filter(lambda r: r.v > 1),
        "map": A.map(lambda r: (r.trial, (r.v or 0) * 3), "trial int, y long"),
        "map to one value": A.map(lambda r: r.trial, "trial int"),
        "map with errors": A.map(lambda r: {"trial": r.trial, "y": 6 // r.v}, "trial int, y long"),
        "map of batches": A.map(_double, "trial int, y long"),
        "function of a user": A.select("trial", y=_sixth("v"), z=_texts("s", _texts("s", an.lit("!")))),
        "filtered by functions of users": A.filter((_tenfold("v") > 10) | (_texts("s", "s") == "xx")),
        "flat_map": A.flat_map(_repeat, "trial int, n long"),
        "flat_map with errors": A.flat_map(lambda r: [(r.trial, 6 // r.v), (r.trial, 1)], "trial int, n long"),
        "negate": A.negate(),
        "concat": one.concat(other, one.filter("v = 1")),
        "concat of opposites": one.concat(one.negate().filter("k = 1")),
        "consolidate": A.select("trial", "k").consolidate(),
        "sample": A.sample(0.5, by="k"),
        "sample of pairs": A.sample(0.5, by=["k", "v"], seed=3).select("trial", "v"),
        "inspect": A.select("trial", "k").inspect(_look),
        "linear chain": A.filter("k > 0")
        .select("trial", y="12 div v", v="v")
        .negate()
        .filter("y <> 6")
        .select("trial", z="y + v"),
    }


def _in_time(one: Collection, other: Collection) -> dict[str, Collection]:
    """Rows that appear, go and wait by themselves."""
    window = one.temporal("v", "k + 4")
    return {
        "temporal": window,
        "temporal, never": one.temporal(upper="v", null_upper="never"),
        "temporal with errors": one.filter("logical_now() < 10 div v"),
        "logical_now": one.filter("k > 0 and logical_now() >= v and (logical_now() <= k + 3 or v is null)"),
        "logical_now between": one.filter("logical_now() between v and k + 3"),
        "logical_now equal": one.filter("logical_now() = v"),
        "two temporal filters": window.select("*", u="v + 1").filter("logical_now() > k").temporal("u - 1", "u + 3"),
        "temporal of a failing row": window.select("trial", y="6 div k"),
        "window of groups": window.group_by("trial", "k").agg(n="count(*)", total="sum(v)"),
        "window of extremes": window.group_by("trial", "k").agg(least="min(v)"),
        "window of distinct rows": window.select("trial", "k").distinct(),
        "window of a top_k": window.top_k(1, by="v desc", per=["trial", "k"]),
        "join of windows": window.join(other.temporal("v"), on=["trial", "k"]),
        "window of a join": one.join(other, on=["trial", "k"]).temporal("v", "`right.v` + 4"),
        "window of an outer join": one.join(other, on=["trial", "k"], how="left").filter("logical_now() >= v"),
        "window of a window": window.group_by("trial").agg(n="count(*)").temporal(upper="n + 3"),
        "delay": one.delay(by=2),
        "delay to every third": one.delay(every=3),
        "delay with a function": one.delay(lambda t: t + t // 3),
        "delay of a window": window.delay(every=2).filter("v > 0").delay(by=1),
        "delay of a join": one.delay(by=1).join(other, on=["trial", "k"]),
        "change between ticks": one.concat(one.delay(by=1).negate()).count(),
    }


def _tables(one: Collection) -> dict[str, Collection]:
    """Steps that make any number of rows."""
    triples = [
        ({"trial": "trial", "y": "v + k"}, "v", "k"),
        ({"trial": "trial", "y": "v"}, "v + 3", "-k"),
        ({"trial": "trial", "y": "k"}, None, 1),
    ]
    texts = one.select("trial", text="concat('{\"a\": {\"b\": ', coalesce(cast(v as string), 'nul'), '}}')")
    return {
        "explode with diffs": one.explode(
            lambda r: [((r.trial, r.k), r.v or 0), ((r.trial, 7), -1)], "trial int, y long"
        ),
        "explode with errors": one.explode(lambda r: [((r.trial, r.k), 6 // r.v)], "trial int, y long"),
        "join_function": one.join_function(_moments, "trial int, y long"),
        "join_function of expressions": one.join_function(triples),
        "join_function with errors": one.join_function([({"trial": "trial", "y": "6 div v"}, "k", 2)]),
        "generate_series": one.generate_series("k", "v", as_="i"),
        "generate_series outer": one.generate_series("k", "v", as_="i", outer=True),
        "generate_series outer with errors": one.generate_series(1, "v", "k", as_="i", outer=True),
        "generate_series with errors": one.generate_series(1, 5, "v", as_="i").filter("i > 1"),
        "unnest": one.unnest("array(k, v, k)", as_="x", ordinality="at").select("trial", "x", "at"),
        "unnest outer": one.unnest("if(v > 0, array(v), null)", as_="x", outer=True),
        "unnest a map": one.filter("k is not null").unnest("map(k, v, 9L, k)"),
        "repeat_row": one.repeat_row("v"),
        "repeat_row_non_negative": one.repeat_row_non_negative("v"),
        "count of what is owed": one.repeat_row("v").select("trial", "k").count(),
        "json": texts.json("text", "b long", paths={"b": "a.b"}).select("trial", "b"),
        "series in a window": one.generate_series(0, "v", as_="i").temporal("i", "i + 2").filter("i <> k"),
        "groups of a series": one.generate_series(0, "v", as_="i").group_by("trial", "i").agg(n="count(*)"),
    }


def _moments(row: Any) -> Iterable[tuple[tuple[int, int], int, int]]:
    for i in range(max(row.v or 0, 0) % 4):
        yield (row.trial, i), i + (row.k or 0), i + 1
        yield (row.trial, i), 2 * i + (row.k or 0), -i


def _double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"trial": batch.column("trial"), "y": pc.multiply(batch.column("v"), 2)})


_double = an.arrow(_double)


@an.udf(returns="long")
def _sixth(v: int | None) -> int:
    return 6 // v  # type: ignore[operator]  # fails on zero and on null


@an.udf(returns="long", vectorized="arrow")
def _tenfold(v: pa.Array) -> pa.Array:
    return pc.multiply(v, 10)


@an.udf(returns="string")
def _texts(one: str | None, other: str | None) -> str | None:
    return None if one is None or other is None else one + other


def _repeat(row: Any) -> Iterable[tuple[int, int]]:
    for n in range(max(row.v or 0, 0) % 4):
        yield row.trial, n
        yield row.trial, 0


def _look(row: Any, time: int, diff: int) -> None:
    assert diff != 0


def _joins(one: Collection, other: Collection) -> dict[str, Collection]:
    by_s = ["trial", "s"]
    twice = {"trial": "trial", "k": "k", "v": "k"}
    return {
        "join": one.join(other, on=["trial", "k"]),
        "join on other names": one.join(other, on={"trial": "trial", "v": "k"}),
        "join of mixed types": A.join(B, on=["trial", "k"]),
        "join on three columns": A.join(A.select("trial", "k", "s", y="v"), on=["trial", "k", "s"]),
        "join on doubles": C.select("trial", "k", "x").join(C.select("trial", "x", j="k"), on=["trial", "x"]),
        "join on one column twice": one.join(other, on=twice),
        "full join on one column twice": one.join(other.select("trial", w="v", k="k"), on=twice, how="full"),
        "semijoin on one column twice": one.semijoin(other, on=twice),
        "antijoin on one column twice": one.antijoin(other, on=twice),
        "self-join": A.join(A, on=["trial", "k"]).select("trial", "v", "`right.v` as u"),
        "left join": A.join(B.select("trial", "s", "w"), on=by_s, how="left"),
        "right join": A.join(B, on=by_s, how="right"),
        "full join": A.join(B, on=by_s, how="full"),
        "full join on other names": one.join(other, on={"trial": "trial", "v": "k"}, how="full"),
        "left join of mixed types": A.join(B, on=["trial", "k"], how="left"),
        "right join of mixed types": A.join(B, on=["trial", "k"], how="right"),
        "semijoin": A.semijoin(B, on=by_s),
        "semijoin of mixed types": A.semijoin(B, on=["trial", "k"]),
        "antijoin": A.antijoin(B, on=by_s),
        "antijoin of itself": A.antijoin(A.filter("v > 1"), on=["trial", "k"]),
        "join of errors": A.select("trial", y="6 div v").join(B.select("trial", y="4 div w"), on=["trial", "y"]),
    }


def _aggregates() -> dict[str, Collection]:
    a, c = A.group_by("trial", "k"), C.group_by("trial", "k")
    everything = A.group_by()
    return {
        "count rows": a.agg(n="count(*)"),
        "count, sum, avg": a.agg(n="count(v)", total="sum(v)", mean="avg(v)", both="count(v, s)"),
        "sums of floats": c.agg(x="sum(x)", f="sum(f)", mean="avg(x)", n="count(x)"),
        "sums of decimals": c.agg(d="sum(d)", mean="avg(d)"),
        "min, max": a.agg(least="min(v)", most="max(v)", first="min(s)", last="max(s)"),
        "min, max of floats": c.agg(least="min(x)", most="max(x)", d="max(d)"),
        "count distinct, filtered": a.agg(
            n="count(distinct v)",
            some="count(distinct v) FILTER (WHERE v > 1)",
            others="count(distinct v) FILTER (WHERE s IS NULL OR v < 2)",
            total="sum(distinct v) FILTER (WHERE s IS NOT NULL)",
        ),
        "count distinct": a.agg(n="count(distinct v)", pairs="count(distinct v, s)", total="sum(distinct v)"),
        "collect": a.agg(xs="collect_list(v)", ys="collect_set(v)", texts="collect_list(s)", n="count(*)"),
        "collect floats": c.agg(xs="collect_list(x)", ys="collect_set(x)"),
        "aggregate filters": a.agg(
            n="count(*) filter (where v > 0)", m="max(v) filter (where s = 'x')", some="bool_or(v > 1)"
        ),
        "count_if, bool_and": a.agg(n="count_if(v > 0)", every="bool_and(v > 0)"),
        "expressions of aggregates": a.agg(ratio="sum(v) / count(*)", spread="max(v) - min(v)"),
        "expression of sums": a.agg(y="sum(v) * 2 + count(v)", z="sum(v + k)"),
        "errors above aggregates": a.agg(y="100 div sum(v)"),
        "errors below aggregates": A.select("trial", "k", y="6 div v").group_by("trial", "k").agg(t="sum(y)"),
        **_statistics(),
        "group by expression": A.group_by("trial", odd="pmod(v, 2)").agg(n="count(*)"),
        "group by text": A.group_by("trial", "s").agg(n="count(*)", total="sum(v)"),
        "group by doubles": C.group_by("trial", "x").agg(n="count(*)"),
        "default row": everything.agg(n="count(*)", total="sum(v)", mean="avg(v)"),
        "default row of all": everything.agg(n="count(*)", least="min(v)", xs="collect_set(s)"),
        "default row, filtered": A.filter("trial = 0").group_by().agg(n="count(*)", total="sum(v)"),
        "default row, expression": A.filter("trial = 2")
        .group_by()
        .agg(y="count(*) + coalesce(sum(v), 100)", m="max(v)"),
        "overflowing sum": A.select("trial", "k", big="v * 4611686018427387904")
        .group_by("trial")
        .agg(total="sum(big)"),
        "overflowing sum, in range": A.filter("v <> 0")
        .select("trial", big="4611686018427387904")
        .group_by("trial")
        .agg(t="sum(big)"),
    }


def _statistics() -> dict[str, Collection]:
    a, c = A.group_by("trial", "k"), C.group_by("trial", "k")
    return {
        "variances": c.agg(v="var_samp(x)", w="var_pop(d)", s="stddev(f)", t="stddev_pop(x)", n="count(x)"),
        "shapes": c.agg(s="skewness(x)", r="kurtosis(x)", t="skewness(d)", l="kurtosis(d)"),
        "pairs": c.agg(a="covar_pop(x, d)", b="covar_samp(x, d)", c="corr(x, d)", d="corr(d, f)"),
        "lines": c.agg(
            slope="regr_slope(x, d)",
            start="regr_intercept(d, f)",
            r2="regr_r2(d, x)",
            n="regr_count(x, d)",
            x="regr_avgx(f, d)",
            xx="regr_sxx(d, f)",
            yy="regr_syy(d, f)",
            xy="regr_sxy(d, x)",
        ),
        "statistics beside others": c.agg(
            v="stddev(x)", u="stddev(distinct x)", w="corr(distinct d, f)", most="max(x)"
        ),
        "statistics by filter": a.agg(v="var_pop(v) filter (where s = 'x')", c="corr(v, k) filter (where v > 0)"),
        "statistics of everything": A.filter("trial < 2").group_by().agg(v="stddev(v)", m="median(v)", b="bit_or(v)"),
        "bits": a.agg(a="bit_and(v)", o="bit_or(v)", x="bit_xor(v)", t="try_sum(v)", m="try_avg(v)"),
        "bits beside others": a.agg(
            a="bit_and(v)", o="bit_or(cast(v as tinyint))", x="bit_xor(distinct v)", m="min(v)"
        ),
        "try_sum": A.select("trial", "k", big="v * 4611686018427387904 div 2")
        .group_by("trial")
        .agg(t="try_sum(big)", n="count(*)"),
        "percentiles": a.agg(
            m="median(v)",
            p="percentile(v, array(0.0, 0.3, 1.0))",
            c="percentile_cont(0.3) within group (order by v desc)",
            d="percentile_disc(0.4) within group (order by v)",
            e="percentile_disc(0.4) within group (order by v desc)",
            u="median(distinct v)",
        ),
        "percentiles of others": c.agg(
            m="median(x)", d="percentile_approx(d, array(0.25, 0.75))", x="percentile(f, 0.1)"
        ),
        "modes": a.agg(m="mode(v)", s="mode() within group (order by s desc)", n="mode(k + v)"),
        "by another": a.agg(
            most="max_by(s, v)", least="min_by(v, s)", two="max_by(v, s, 2)", few="min_by(s, v, 2)", some="any_value(s)"
        ),
        "by one other, and that": a.agg(most="max_by(s, v)", v="max(v)"),
        "least by one other": c.agg(least="min_by(x, f)"),
        "by one other, of some rows": a.agg(most="max_by(v, s) filter (where v > 0)"),
        "by one other, of everything": A.filter("trial < 2").group_by().agg(least="min_by(v, s)", s="min(s)"),
        "a field of a struct": a.agg(v="max(struct(s, v)).v", s="max(struct(s, v)).s"),
        "texts joined": a.agg(
            plain="listagg(s)",
            comma="listagg(v, ', ')",
            unique="listagg(distinct s, '-') within group (order by s desc)",
            order="string_agg(s, '|') within group (order by v desc nulls first, s)",
            listed="array_agg(v) within group (order by s, v desc)",
        ),
    }


def _reductions(one: Collection) -> dict[str, Collection]:
    return {
        "count": one.count(),
        "count by name": A.select("trial", "s").count("n"),
        "distinct": one.distinct(),
        "distinct floats": C.select("trial", "x").distinct(),
        "distinct of expressions": C.select("trial", x="x * -1", y="x + 0").distinct(),
        "threshold": one.threshold(lambda n: max(n, 0) // 2),
        "threshold by row": A.select("trial", "k").threshold(lambda r, n: 6 // (n - r.k) % 3, with_row=True),
        "threshold shows negatives": one.threshold(lambda n: -n),
        "threshold with errors": A.select("trial", "k").threshold(lambda n: 6 // (n - 2)),
        "top_k": A.top_k(2, "v desc, s", per=["trial", "k"]),
        "top_k with ties": A.top_k(2, "k", per="trial"),
        "top_k nulls first": A.top_k(3, "v desc nulls first, s nulls last", per=["trial"]),
        "top_k of everything": A.filter("trial < 2").top_k(3, "v"),
        "top_k by expression": A.top_k(1, "pmod(v, 3) desc", per=["trial"]),
        "top_k of floats": C.select("trial", "k", "x").top_k(2, "x desc", per=["trial"]),
        "reduce": A.group_by("trial", "k").reduce(_spread, "least long, rows long"),
        "reduce with errors": A.group_by("trial").reduce(lambda _, rows: [6 // len(rows[1:])], "y long"),
        "reduce with diffs": A.group_by("trial").reduce(_counted, "s string", with_diffs=True),
        "reduce of the first": A.group_by("trial").reduce(
            _listed, "some string", needs=an.first(3, by="v desc nulls first, s")
        ),
        "reduce of the last": A.group_by("trial", odd="pmod(v, 2)").reduce(
            _listed, "some string", needs=an.last(2, by="s")
        ),
        "reduce by expression": A.group_by("trial", odd="pmod(v, 2)").reduce(_spread, "least long, rows long"),
    }


def _weights(one: Collection) -> dict[str, Collection]:
    """Weights by the operators that add them up; of counts below zero too."""
    of = an.weights
    numbers = C.select("trial", "k", "x", "d").weighted(of.Sums("x", "d"))
    some = one.weighted(of.Sums("v"))
    return {
        "totals": A.select("trial", "k", n="1", s="v").weighted(of.Sums("n", "s")).consolidate(),
        "totals of numbers": numbers.consolidate(),
        "totals that cancel": some.concat(one.filter("k = 1").weighted(of.Sums("v")).negate()).consolidate(),
        "totals of pairs": some.join(some, on=["trial", "k"]).consolidate(),
        "totals out of range": one.select("trial", "k", big="v * 4611686018427387904")
        .weighted(of.Sums("big"))
        .consolidate(),
        "least weights": one.weighted(of.Min("v")).consolidate(),
        "best weights": A.weighted(of.Best("v desc", "s")).consolidate(),
        "united weights": A.select("trial", "k", u="array(v, k)").weighted(of.Union("u")).consolidate(),
        "own weights": one.weighted(_Gcd("v")).consolidate(),
        "own weights of any sign": one.weighted(_Xor("v")).negate().consolidate(),
        "own weights past functions": one.weighted(_Xor("v"))
        .map(lambda r: (r.trial, (r.k or 0) % 2), "trial int, odd long")
        .filter(lambda r: r.odd == 1)
        .consolidate(),
    }


class _Gcd(an.weights.Weight):
    layout, zero = "bigint", 0

    def add(self, a: int, b: int) -> int:
        return math.gcd(a, b)

    def multiply(self, a: int, b: int) -> int:
        return abs(a * b)


class _Xor(an.weights.Weight):
    layout, zero = "bigint", 0

    def add(self, a: int, b: int) -> int:
        return a ^ b

    def negate(self, a: int) -> int:
        return a


def _windows() -> dict[str, Collection]:
    """Window functions."""
    by_k, by_v = "partition by trial, k", "partition by trial order by v"
    return {
        "window ranks": A.window(
            number=f"row_number() over ({by_v} desc)", place=f"rank() over ({by_v})", part=f"ntile(2) over ({by_v})"
        ),
        "window neighbours": A.window(
            was=f"v - lag(v, 1, k) over ({by_v})", next=f"lead(s, 2) ignore nulls over ({by_v}, s desc)"
        ),
        "window of near rows": A.window(
            was="lag(v, 2) over (partition by trial order by s desc nulls last)",
            mean="avg(v) over (partition by trial order by s desc nulls last rows between 1 preceding and 2 following)",
        ),
        "window of near rows of all": A.filter("trial < 2").window(
            most="max(v) over (order by v, s rows between 2 preceding and 1 preceding)"
        ),
        "window frames": A.window(
            moving=f"sum(v) over ({by_v} rows between 1 preceding and 1 following)",
            near=f"count(s) over ({by_v} range between 2 preceding and current row)",
            first=f"first_value(s) over ({by_v} desc, s)",
        ),
        "window of two orders": A.window(
            number=f"row_number() over ({by_v} desc)",
            was="lag(v) over (partition by trial order by s)",
            near="max(v) over (partition by trial order by k rows between 1 preceding and 1 following)",
        ),
        "window of what is behind": A.window(
            total=f"sum(v) over ({by_v} rows between current row and unbounded following)",
            most=f"max(s) over ({by_v} rows between 1 preceding and unbounded following)",
            last=f"last_value(s) over ({by_v} rows between 1 following and unbounded following)",
            next=f"lead(k) over ({by_v})",
        ),
        "window of peers and what is behind": A.window(
            n=f"count(s) over ({by_v} desc range between current row and unbounded following)",
            least=f"min(k) over ({by_v} desc range between current row and unbounded following)",
        ),
        "window of expressions": A.window(
            share=f"v / sum(v) over ({by_k})", n="count(*) filter (where v > 0) over (partition by trial, pmod(v, 2))"
        ),
        "window with errors": A.window(part=f"sum(6 div v) over ({by_k})", y=f"6 div rank() over ({by_v})"),
        "window of floats": C.window(
            total=f"sum(x) over ({by_k} order by f rows unbounded preceding)",
            mean=f"avg(d) over ({by_k})",
            most=f"max(x) over ({by_k})",
        ),
        "window, some of it": A.window(a=f"rank() over ({by_k} order by v)", b=f"count(*) over ({by_k})")
        .select("trial", "k", "a")
        .filter("k > 1 and a < 3"),
        "window, first rows": A.window(n="row_number() over (partition by trial, k order by v desc)").filter("n <= 2"),
        "window, first ranks": A.window(
            place=f"rank() over ({by_v})", total=f"sum(v) over ({by_v})", was=f"lag(k) over ({by_v})"
        ).filter("place < 3 and k >= 0"),
        "window, first places": A.window(place=f"dense_rank() over ({by_v} desc nulls last)")
        .filter("place in (1, 3)")
        .select("trial", "k"),
        "window, first rows and their peers": A.window(
            n=f"row_number() over ({by_k} order by v)", total=f"count(s) over ({by_k} order by v)"
        ).filter("n <= 2"),
        "window of groups and back": A.group_by("trial", "k")
        .agg(n="count(*)")
        .window(share="n / sum(n) over (partition by trial)", most="max(n) over (partition by trial)")
        .filter("n = most")
        .select("trial", "k"),
        "window of everything": A.filter("trial < 2").window(number="row_number() over (order by v, s)"),
    }


def _spread(key: tuple[Any, ...], rows: list[tuple[Any, int]]) -> Iterable[tuple[Any, int]]:
    values = [r.v for r, _ in rows if r.v is not None]
    if values:
        yield min(values), sum(n for _, n in rows)


def _listed(key: tuple[Any, ...], rows: list[tuple[Any, int]]) -> Iterable[tuple[Any, ...]]:
    yield (repr([(*r, n) for r, n in rows]),)


def _counted(key: tuple[Any, ...], rows: list[tuple[Any, int]]) -> Iterable[tuple[Any, int]]:
    return [((r.s,), n if r.v else -n) for r, n in rows]


def _shared(one: Collection, other: Collection) -> dict[str, Collection]:
    """Collections that are read more than once, and several operators deep."""
    totals = A.group_by("trial", "k").agg(total="sum(v)", n="count(*)")
    paths = one.select("trial", "k", "v").distinct()
    two = paths.join(paths, on={"trial": "trial", "v": "k"}).select("trial", "k", v="`right.v`")
    return {
        "diamond": totals.join(A.distinct(), on=["trial", "k"]).select("trial", "s", y="total - coalesce(v, 0)"),
        "diamond of opposites": one.distinct().concat(one.distinct().negate()),
        "diamond of errors": A.select("trial", y="6 div v")
        .filter("y > 1")
        .concat(A.select("trial", y="6 div v").filter("y < 1")),
        "two hops": two.concat(paths).distinct(),
        "reduce of reduce": totals.group_by("trial").agg(most="max(total)", ks="collect_list(k)"),
        "top of counts": one.count().top_k(2, "count desc", per="trial"),
        "distinct of join": one.join(other, on=["trial", "k"]).select("trial", "v").distinct().count(),
        "outer join of aggregates": totals.join(
            B.group_by("trial", "k").agg(m="max(w)"), on=["trial", "k"], how="full"
        ),
        "antijoin of negated": one.antijoin(other.negate().negate(), on=["trial", "k"])
        .group_by("trial")
        .agg(n="count(*)"),
    }
