"""Queries written once and read by three roads: of a classic session, of Connect's client, and Spark's own answers."""

from __future__ import annotations

import datetime as dt

import pytest

import altneu as an
from altneu.errors import AltneuError, PlanError, StorePlanError
from altneu.runtime.spark.versions import spark_schema
from tests.frames import work
from tests.tpch.history import few_rows

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.errors import PySparkException
from pyspark.sql import Window as ClassicWindow
from pyspark.sql import functions as classic_functions
from pyspark.sql.connect import functions as connect_functions
from pyspark.sql.connect.window import Window as ConnectWindow

ROWS = an.source(
    "rows",
    "k bigint, x int, o int, n string, at timestamp, day date, l array<int>, s struct<t: struct<a: int, b: string>>, "
    "m map<string, int>",
)
DAY = dt.date(2026, 1, 1)


def at(minute):
    return dt.datetime(2026, 1, 1, 10, minute, tzinfo=dt.UTC)


DATA = [
    (1, None, 1, "a", at(0), DAY, [3, 1, None, 2], {"t": {"a": 1, "b": "p"}}, {"u": 1}),
    (1, 5, 2, "b", at(4), dt.date(2026, 2, 1), [2, 2], {"t": {"a": None, "b": "q"}}, {}),
    (1, 7, 3, None, at(20), dt.date(2024, 2, 29), [], {"t": None}, None),
    (2, None, 4, "a", at(2), None, None, None, {"v": 2}),
    (3, 5, 5, "c", None, dt.date(2026, 1, 31), [9], {"t": {"a": 3, "b": None}}, {"w": None}),
]
GONE = (2, 9, 9, "z", at(7), DAY, [1], {"t": {"a": 9, "b": "z"}}, {"z": 9})
SINCE = {}
"""The version of Spark that first has what a query says, where that is not 3.5."""
QUERIES = {}
"""Each a function of the module of functions, the class Window and the table."""


def query(name, since=(3, 5)):
    def note(function):
        QUERIES[name], SINCE[name] = function, since
        return function

    return note


def text_query(name, *expressions, keys=None, since=(3, 5)):
    """A query of expressions written in SQL, as aggregates where there are ``keys``."""

    def written(F, _W, t):
        columns = [F.expr(text).alias(f"c{i}") for i, text in enumerate(expressions)]
        return t.select("o", *columns) if keys is None else t.groupBy(*keys).agg(*columns)

    query(name, since)(written)


LISTS = ("collect_list", "array_agg", "collect_set")
text_query(
    "nulls in lists",
    *(f"sort_array({f}(x) RESPECT NULLS)" for f in LISTS),
    *(f"sort_array({f}(x) IGNORE NULLS)" for f in LISTS),
    *(f"sort_array({f}(x) FILTER (WHERE o > 1) RESPECT NULLS)" for f in LISTS),
    "sort_array(collect_list(DISTINCT x) RESPECT NULLS)",
    "size(collect_list(l) RESPECT NULLS)",
    keys=["k"],
    since=(4, 2),
)
text_query(
    "nulls in windows",
    *(f"{f}(x) RESPECT NULLS OVER (PARTITION BY k ORDER BY o)" for f in ("first", "last_value", "any_value", "max")),
    *(f"{f}(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY o)" for f in ("first", "last_value", "any_value", "lead")),
    "first(x, true) RESPECT NULLS OVER (PARTITION BY k ORDER BY o)",
    since=(4, 2),
)
text_query(
    "nulls in lists of windows",
    *(
        f"sort_array({f}(x) {nulls} NULLS OVER (PARTITION BY k ORDER BY o))"
        for f in LISTS
        for nulls in ("RESPECT", "IGNORE")
    ),
    since=(4, 2),
)

query("fields of a field")(lambda F, W, t: t.select("o", "s.t.*"))
query("fields of a field of a name")(lambda F, W, t: t.select("rows.s.t.*", "o"))
query("fields of a field in SQL")(lambda F, W, t: t.selectExpr("o", "s.t.*"))
query("fields of an array")(lambda F, W, t: t.select("o", "l.*"))
query("fields of a number")(lambda F, W, t: t.selectExpr("s.t.a.*"))


def in_sql(name, text):
    @query(name)
    def written(_F, _W, t):
        t.createOrReplaceTempView("named_rows")
        return t.sparkSession.sql(text).filter("k > 0")


in_sql(
    "WITH",
    "WITH z AS (SELECT k AS g, count(*) AS c FROM named_rows GROUP BY k) "
    "SELECT r.k, r.o, z.c FROM named_rows r LEFT JOIN z ON z.g = r.k",
)
in_sql(
    "names of WITH that are read twice, and by one another",
    "WITH z AS (SELECT k, max(x) AS m FROM named_rows GROUP BY k), y (k, n) AS (SELECT k, m + 1 FROM z WHERE m > 0) "
    "SELECT z.k, z.m, y.n, w.m AS again FROM z JOIN y ON z.k = y.k CROSS JOIN z AS w",
)
in_sql(
    "WITH in subqueries",
    "SELECT k, o, (WITH z AS (SELECT max(o) AS m FROM named_rows) SELECT m FROM z) AS m, "
    "EXISTS (WITH y AS (SELECT o FROM named_rows WHERE x = 5) SELECT 1 FROM y WHERE y.o > r.o) AS e FROM named_rows r",
)
in_sql(
    "WITH of which subqueries read",
    "WITH z AS (SELECT k, o FROM named_rows WHERE x IS NOT NULL) SELECT k, o, "
    "(SELECT count(*) FROM z WHERE z.k = r.k) AS c FROM named_rows r WHERE o IN (SELECT o FROM z) OR k = 2",
)


def sessions(name, *keys, by):
    @query(name)
    def written(F, _W, t):
        found = t.groupBy(*(F.col(k) for k in keys), by(F)).agg(F.count("*").alias("n"), F.max("x").alias("m"))
        w = found.columns[len(keys)]
        return found.select(*keys, F.col(f"{w}.start").alias("start"), F.col(f"{w}.end").alias("end"), "n", "m")


sessions("sessions", by=lambda F: F.session_window("at", "5 minutes"))
sessions("sessions of a key", "k", by=lambda F: F.session_window("at", "3 minutes 30 seconds"))
sessions("sessions by a name", "n", "k", by=lambda F: F.session_window(F.col("at"), "1 hour").alias("w"))
sessions("sessions of local times", by=lambda F: F.session_window(F.col("at").cast("timestamp_ntz"), "5 minutes"))
sessions("sessions of dates", by=lambda F: F.session_window(F.to_timestamp("day"), "40 days"))
GAPS = {
    "a gap for each case": lambda F: F.when(F.col("k") == 1, "5 minutes").otherwise("1 minute"),
    "a gap for some": lambda F: F.when(F.col("o") < 3, "5 minutes").when(F.col("o") == 4, "0 seconds"),
    "gaps of values": lambda F: F.expr("case k when 1 then '5 minutes' when 2 then null else '1 day' end"),
    "one gap or another": lambda F: F.expr("if(k = 1, '17 minutes', '2 hours')"),
}
for name, gap in GAPS.items():
    sessions(f"sessions with {name}", by=lambda F, gap=gap: F.session_window("at", gap(F)))
    sessions(f"sessions of a key with {name}", "n", by=lambda F, gap=gap: F.session_window("at", gap(F)))
query("sessions of rows")(
    lambda F, W, t: t.select("k", F.session_window("at", "5 minutes").alias("w")).select("k", "w")
)
query("sessions in SQL")(
    lambda F, W, t: t.groupBy(F.expr("session_window(at, '5 minutes')")).agg(F.sum("o")).select("sum(o)")
)


def backwards(F):
    return lambda a, b: F.when(a.isNull(), 1).when(b.isNull(), -1).when(a < b, 1).when(a > b, -1).otherwise(0)


query("sorted backwards")(lambda F, W, t: t.select("o", F.array_sort("l", backwards(F)).alias("v")))
query("sorted texts")(
    lambda F, W, t: t.select(
        "o",
        F.array_sort(F.split(F.lit("pear,fig,apple,kiwi,nut"), ","), lambda a, b: F.length(a) - F.length(b)).alias("v"),
    )
)
query("sorted in an order of its own")(
    lambda F, W, t: t.select(
        "o",
        F.array_sort(F.sequence(F.lit(1), F.col("o") * 7), lambda a, b: (a * 37 % 11 - b * 37 % 11) * t.o).alias("v"),
    )
)
text_query(
    "sorted in SQL",
    "array_sort(l, (a, b) -> case when a < b then 1 when a > b then -1 else 0 end)",  # nulls are equal to all: no order
    "array_sort(transform(sequence(1, 31), i -> i * 17 % 31), (a, b) -> case when (a + b) % 3 = 0 then -1 else 1 end)",
    "array_sort(array(named_struct('a', 2), named_struct('a', o)), (p, q) -> p.a - q.a)",
    "array_sort(transform(array(array(3, 1), array(2)), i -> array_sort(i, (a, b) -> b - a)), (p, q) -> p[0] - q[0])",
)
query("sorted by no number")(lambda F, W, t: t.select(F.expr("array_sort(l, (a, b) -> a < b)")))

UNITS = ("YEAR", "quarter", "MONTH", "Week", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")
for function in ("timestampdiff", "datediff", "date_diff"):
    text_query(
        function,
        *(f"{function}({unit}, at, timestamp '2024-02-29 23:59:59.5')" for unit in UNITS),
        *(f"{function}({unit}, date '2021-01-31', day)" for unit in UNITS),
        *(f"{function}({unit}, day, at)" for unit in UNITS),
    )
for function in ("timestampadd", "dateadd", "date_add"):
    text_query(
        function,
        *(f"{function}({unit}, x - 6, at)" for unit in (*UNITS, "dayofyear")),
        *(f"typeof({function}({unit}, o * 1000, day))" for unit in UNITS),
        *(f"{function}({unit}, 13, timestamp_ntz '2021-01-31 23:59:58')" for unit in UNITS),
        f"{function}(month, 1, '2021-01-31')",
    )
text_query("dates and days", "date_add(day, 3)", "datediff(day, date '2026-01-01')", "dateadd(day, x)")
query("units of time of functions", (4, 0))(
    lambda F, W, t: t.select(
        F.timestamp_add("MONTH", "x", "at").alias("a"), F.timestamp_diff("HOUR", "at", F.to_timestamp("day")).alias("b")
    )
)
query("a column's name of a unit")(lambda F, W, t: t.selectExpr("timestampadd(MONTH, 1, at)", "datediff(day, day)"))
query("no unit")(lambda F, W, t: t.selectExpr("dateadd(nanosecond, 1, at)"))
query("no unit of a difference")(lambda F, W, t: t.selectExpr("datediff(dayofyear, at, at)"))
query("casts of values with parts")(
    lambda F, W, t: t.select(
        "o",
        F.col("l").cast("array<string>").alias("l"),
        F.map_entries(F.col("m").cast("map<string,string>")).alias("m"),
        F.col("s").cast("struct<u:struct<p:string,q:string>>").alias("s"),
        F.split("n", ",").cast("array<binary>")[0].alias("b"),
    )
)
for kind in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,1)"):

    @query(f"pivot of a {kind}")
    def pivoted(F, _W, t, kind=kind):
        return t.withColumn("p", F.col("x").cast(kind)).groupBy("k").pivot("p", [5, 7]).agg(F.max("o"))


query("ifnull of a side that is the other one, too")(
    lambda F, W, t: t.crossJoin(t.filter(F.expr("ifnull(x, o) > nvl(o, 1)")).select(F.col("o").alias("p"))).select(
        "o", "p"
    )
)
query("a field of the structs of an array")(
    lambda F, W, t: t.select("o", F.array(F.col("s.t"), F.col("s.t"))["a"].alias("a"))
)
query("replace of a number that no column has")(lambda F, W, t: t.select("o", "x").replace(5.5, 2.5).replace(7, 1.9))
query("an alias of changed columns")(
    lambda F, W, t: t.withColumn("x", F.col("x") + 1).drop("k").alias("a").select("a.*").drop("m")
)
query("aliases of changed columns in a join")(
    lambda F, W, t: (
        t.fillna(0)
        .alias("a")
        .join(t.withColumn("x", F.col("x") + 1).alias("b"), F.col("a.x") == F.col("b.x"))
        .select("a.x", "b.o", F.col("a.o").alias("p"))
    )
)
query("a semijoin by names")(
    lambda F, W, t: t.join(t.filter("o > 2").select("o", "k"), ["o", "k"], "semi").drop("m", "at", "day", "l", "s")
)
query("an antijoin by a name")(lambda F, W, t: t.select("k", "x", "o").join(t.filter("o > 2"), "x", "anti"))
query("limit of maps")(lambda F, W, t: t.select("m", "o").limit(99).select("o", F.map_keys("m").alias("v")))
query("limit of nothing but maps")(lambda F, W, t: t.select("m").limit(99).select(F.map_keys("m").alias("v")))
query("offset of maps")(lambda F, W, t: t.select("o", F.array("m").alias("v")).offset(1).select(F.lit(1)))
query("one row of a key with maps")(lambda F, W, t: t.select("k", "m").dropDuplicates(["k"]).select("k"))
query("one row of a map")(lambda F, W, t: t.dropDuplicates(["m"]).select("m"))
query("distinct maps")(lambda F, W, t: t.select("k", "m").distinct())
for name, made in {
    "distinct": lambda d: d.distinct(),
    "an intersection of": lambda d: d.intersect(d),
    "a difference of": lambda d: d.exceptAll(d),
    "a union of": lambda d: d.union(d).groupBy("v").count().select("count"),
}.items():

    @query(f"{name} structs of maps")
    def of_structs(F, _W, t, made=made):
        return made(t.select(F.struct("m").alias("v")))

    @query(f"{name} arrays of maps")
    def of_arrays(F, _W, t, made=made):
        return made(t.select(F.array("m").alias("v")))


query("an empty list")(
    lambda F, W, t: t.filter(~F.col("n").isin([])).select("o", "k", F.col("x").isin([]).alias("v"), F.isnull("x"))
)
query("no replacements")(lambda F, W, t: t.select("o", "x").replace({}, subset=["x"]))
query("unpivot of texts and numbers")(lambda F, W, t: t.unpivot("o", ["x", "n"], "name", "v"))
query("maps as an order")(lambda F, W, t: t.select("k", "m").orderBy("m").limit(1))

KNOWN = [name for name in QUERIES if SINCE[name] <= work.VERSION]


def shown(session, functions, window):
    """What views of all queries have after rows have come and gone; or the error of one that is refused."""
    handle, views = session.frame(ROWS), {}
    for name in KNOWN:
        try:
            views[name] = session.maintain(name, QUERIES[name](functions, window, handle))
        except AltneuError as error:
            views[name] = error
        except PySparkException as error:  # Spark refuses it when it is written
            views[name] = PlanError(str(error))
    session.insert("rows", [GONE, *DATA[1:]])
    session.advance()
    session.retract("rows", [GONE])
    session.insert("rows", DATA[:1])
    session.advance()
    return {name: v if isinstance(v, AltneuError) else work.kept(v) for name, v in views.items()}


@pytest.fixture(scope="module")
def of_spark(spark):
    """Spark's answers; or its errors."""
    rows = spark.createDataFrame(DATA, spark_schema(ROWS.schema)).alias("rows")
    found = {}
    with few_rows(spark):
        for name in KNOWN:
            try:
                found[name] = work.by_spark(QUERIES[name], classic_functions, ClassicWindow, rows)
            except PySparkException as error:
                found[name] = error
    return found


@pytest.fixture(scope="module")
def classic(spark):
    with an.Session(spark, placement="driver") as session:
        return shown(session, classic_functions, ClassicWindow)


@pytest.fixture(scope="module")
def described():
    with an.Session() as session:
        return shown(session, connect_functions, ConnectWindow)


@pytest.mark.parametrize("name", KNOWN)
def test_a_classic_session_has_sparks_answer(name, classic, of_spark):
    same(classic[name], of_spark[name])


@pytest.mark.parametrize("name", KNOWN)
def test_connects_client_has_sparks_answer(name, described, of_spark):
    same(described[name], of_spark[name])


def same(mine, its):
    if isinstance(its, Exception):
        assert isinstance(mine, AltneuError), its
    elif isinstance(mine, AltneuError):
        raise mine
    else:
        assert mine == its


def test_groups_by_sessions_of_an_earlier_step_are_refused(spark):
    """Spark makes whole sessions of them, also under another name."""

    def queries(F, t):
        window = F.session_window("at", "5 minutes")
        yield t.withColumn("w", window).groupBy("w").count()
        yield t.select("k", window).filter("k > 1").groupBy("k", "session_window").count()
        yield t.select(window.alias("w"), "k").groupBy(F.col("w")).agg(F.sum("k"))

    with an.Session() as without, an.Session(spark, placement="driver") as session:
        for one, F in ((without, connect_functions), (session, classic_functions)):
            for frame in queries(F, one.frame(ROWS)):
                with pytest.raises(PlanError, match=r"groups by '\w+', a session_window of an earlier step; group by"):
                    one.maintain("v", frame)


def test_a_view_of_another_kind_of_session_is_refused_and_may_be_replaced(spark, tmp_path):
    """A classic session describes a window otherwise than Connect's client, here with the columns in another order."""

    def view(session, F, W, **options):
        first = F.row_number().over(W.partitionBy("k").orderBy("o"))
        frame = session.frame(an.source("t", "k int, o int, n string", keep=True))
        return session.maintain("v", frame.select("o", "k", first.alias("place")), **options)

    with an.Session(path=tmp_path) as session:
        view(session, connect_functions, ConnectWindow)
        session.insert("t", [(1, 5, "a"), (1, 7, "b")])
        session.advance()
    with an.Session(spark, tmp_path, placement="driver") as session:
        with pytest.raises(StorePlanError, match="or it is a DataFrame of another kind or version of Spark"):
            view(session, classic_functions, ClassicWindow)
        here = view(session, classic_functions, ClassicWindow, replace=True)
        session.insert("t", [(1, 3, "c")])
        session.advance()
        assert sorted(here.to_pylist()) == [(3, 1, 1), (5, 1, 2), (7, 1, 3)]


def test_a_comparison_that_is_null_is_an_error():
    """As in Spark: COMPARATOR_RETURNS_NULL; what is not compared may fail."""
    with an.Session() as session:
        view = session.maintain(
            "v",
            an.source("t", "l array<int>").select(
                v="array_sort(l, (a, b) -> if(a = b, raise_error('equal'), int(nullif(a - b, 1))))"
            ),
        )
        session.insert("t", [([3, 1],), ([5],), ([],), (None,)])
        session.advance()
        assert sorted(view.to_pylist(), key=repr) == [(None,), ([1, 3],), ([5],), ([],)]
        session.insert("t", [([1, 2],)])
        session.advance()
        with pytest.raises(AltneuError, match=r"array_sort: the lambda .* gave NULL for two elements"):
            view.to_pylist()
