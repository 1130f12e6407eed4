"""Queries written as DataFrames, of every kind of relation and expression that is supported.

Each is a function of the module of functions, the class ``Window``, and the tables: so that it can be written for Spark
itself, for a classic session's handles, and for those of Spark Connect's client.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

SCHEMAS = {
    "orders": "k bigint, x int, y int, d double, n string, day date, at timestamp, price decimal(10,2)",
    "items": "k bigint, q string, w double, tags array<string>",
    "shops": "id int, name string, at struct<town:string,zip:int>, open map<string,int>",
}
_AT = datetime.datetime(2024, 3, 1, 12, 0, tzinfo=datetime.UTC)
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "orders": [
        (1, 1, 2, 1.5, "a", datetime.date(2024, 1, 31), _AT, Decimal("10.50")),
        (1, 2, None, None, "b", datetime.date(2024, 2, 29), _AT + datetime.timedelta(minutes=7), Decimal("0.25")),
        (1, 2, None, None, "b", datetime.date(2024, 2, 29), _AT + datetime.timedelta(minutes=7), Decimal("0.25")),
        (2, 5, 3, 2.0, "c", None, _AT + datetime.timedelta(minutes=11), None),
        (2, -4, 3, float("nan"), "a%", datetime.date(2023, 12, 31), None, Decimal("99.99")),
        (3, 0, 0, 0.0, None, datetime.date(2024, 1, 1), _AT - datetime.timedelta(hours=30), Decimal("-3.10")),
        (None, 7, 1, -1.25, "b", datetime.date(2024, 1, 1), _AT, Decimal("7.00")),
        (4, None, 9, 8.5, "Zed", datetime.date(1999, 7, 4), _AT, Decimal("1.00")),
    ],
    "items": [
        (1, "p", 2.0, ["u", "v"]),
        (2, "q", 3.0, []),
        (2, "r", 1.0, ["u", None]),
        (9, "z", 0.0, None),
        (None, "n", 4.5, ["w"]),
    ],
    "shops": [
        (1, "North", ("Oslo", 150), {"mon": 8, "tue": 9}),
        (2, None, None, None),
        (3, "South", ("Bari", None), {}),
    ],
}


@dataclass
class Tables:
    """The three tables as DataFrames, and what makes one of numbers."""

    orders: Any
    items: Any
    shops: Any
    range: Any


Query = Callable[[Any, Any, Tables], Any]
QUERIES: dict[str, Query] = {
    # rows
    "filter": lambda F, W, t: t.orders.filter((t.orders.x > 1) & ~F.col("y").isNull()),
    "filter text": lambda F, W, t: t.orders.where("x > 1 OR n LIKE 'a%'"),
    "filter null": lambda F, W, t: t.orders.filter(F.col("y") > 1),
    "filter dropped": lambda F, W, t: t.orders.select("n").filter(t.orders.x > 1),
    "filter renamed": lambda F, W, t: t.orders.withColumnRenamed("x", "z").filter("z > 1").select("z", "n"),
    "isin": lambda F, W, t: t.orders.filter(F.col("k").isin(1, 3) & ~F.col("n").isin(["a", "c"])),
    "between": lambda F, W, t: t.orders.filter(F.col("day").between("2024-01-01", "2024-02-01")).select("k", "day"),
    "distinct": lambda F, W, t: t.orders.select("k", "n").distinct(),
    "dropDuplicates": lambda F, W, t: t.orders.dropDuplicates(),
    "dropDuplicates of keys": lambda F, W, t: t.orders.select("k").dropDuplicates(["k"]),
    "limit": lambda F, W, t: t.orders.orderBy(F.desc("x"), "k", "y", "d").select("k", "x").limit(3),
    "limit offset": lambda F, W, t: t.orders.orderBy(F.col("x").asc_nulls_last(), "k").offset(2).limit(3).select("x"),
    "limit of dropped": lambda F, W, t: t.orders.select("n").orderBy(t.orders.x.desc()).limit(1),
    "limit twice": lambda F, W, t: t.orders.orderBy("x").limit(5).orderBy(F.desc("x")).limit(2).select("x"),
    "sort of expression": lambda F, W, t: t.orders.sort(F.abs("x").desc(), ascending=True).limit(2).select("x"),
    "union": lambda F, W, t: t.orders.select("k").union(t.items.select("k")),
    "union of types": lambda F, W, t: t.orders.select("x").union(t.items.select("w")),
    "unionByName": lambda F, W, t: t.orders.select("k", "n").unionByName(t.items.select(F.col("q").alias("n"), "k")),
    "unionByName missing": lambda F, W, t: t.orders.select("k", "n").unionByName(t.items, allowMissingColumns=True),
    "union of three": lambda F, W, t: t.orders.select("k").union(t.items.select("k")).union(t.shops.select("id")),
    "intersect": lambda F, W, t: t.orders.select("k").intersect(t.items.select("k")),
    "intersectAll": lambda F, W, t: t.orders.select("k").intersectAll(t.items.select("k")),
    "subtract": lambda F, W, t: t.orders.select("k").subtract(t.items.select("k")),
    "exceptAll": lambda F, W, t: t.orders.select("k").exceptAll(t.items.select("k")),
    "hints": lambda F, W, t: t.orders.hint("broadcast").repartition(3, "k").coalesce(1).select("k"),
    "range": lambda F, W, t: t.orders.join(t.range(0, 5, 2), F.col("x") == F.col("id")).select("x", "id"),
    # columns
    "select": lambda F, W, t: t.orders.select("k", F.col("x") + 1, (F.col("x") * F.col("y")).alias("xy"), "n"),
    "select star": lambda F, W, t: t.items.select("*", F.lit(1).alias("one")),
    "selectExpr": lambda F, W, t: t.orders.selectExpr("x + 1 AS q", "upper(n) AS n", "k"),
    "withColumn": lambda F, W, t: t.orders.withColumn("x", F.col("x") * 2).withColumn("z", F.col("x") + 1),
    "withColumns": lambda F, W, t: t.items.withColumns({"w": F.col("w") + 1, "v": F.col("w") + 2}),
    "renamed": lambda F, W, t: t.items.withColumnsRenamed({"q": "qq", "no": "such"}),
    "toDF": lambda F, W, t: t.items.toDF("a", "b", "c", "d"),
    "drop": lambda F, W, t: t.orders.drop("x", "nosuch", "at").drop(t.orders.y),
    "aliases": lambda F, W, t: t.orders.alias("o").select("o.k", F.col("o.n").alias("m")).filter("m = 'b'"),
    "names": lambda F, W, t: t.orders.select(
        F.col("x") + F.col("y"),
        F.upper("n"),
        F.col("x").cast("string"),
        F.col("x").cast("bigint") * 2,
        F.col("n").like("a%"),
        F.col("x").isNull(),
        ~(F.col("x") > 1),
        F.lit("text"),
        F.lit(2.5),
        F.when(F.col("x") > 1, "big").otherwise("small"),
    ),
    "literals": lambda F, W, t: t.shops.select(
        "id",
        F.lit(None).alias("nothing"),
        F.lit(True).alias("b"),
        F.lit(2**40).alias("big"),
        F.lit(-7).alias("minus"),
        F.lit(0.1).alias("tenth"),
        F.lit("it's \\ \n").alias("s"),
        F.lit(datetime.date(2020, 2, 29)).alias("day"),
        F.lit(datetime.datetime(2020, 2, 29, 1, 2, 3, 4, tzinfo=datetime.UTC)).alias("at"),
        F.lit(Decimal("12.3400")).cast("decimal(12,4)").alias("dec"),
        F.lit([1, 2]).alias("list"),
        F.lit(datetime.timedelta(days=1, seconds=3)).alias("span"),
    ),
    "casts": lambda F, W, t: t.orders.select(
        F.col("x").cast("double").alias("a"),
        F.col("d").cast("string").alias("b"),
        F.col("price").cast("int").alias("c"),
        F.col("day").cast("timestamp").alias("e"),
        F.col("n").try_cast("int").alias("f"),
        F.col("price").cast("decimal(20,1)").alias("g"),
    ),
    "case": lambda F, W, t: t.orders.select(
        F.when(F.col("x") > 1, F.lit(1)).when(F.col("x") > 0, F.col("y")).alias("c"),
        F.coalesce("y", "x", F.lit(0)).alias("co"),
        F.expr("CASE n WHEN 'a' THEN 1 ELSE 0 END").alias("e"),
        F.nvl("y", F.lit(5)).alias("nv"),
        F.greatest("x", "y").alias("gr"),
    ),
    "texts": lambda F, W, t: t.orders.select(
        F.concat(F.col("n"), F.lit("-"), F.col("x").cast("string")).alias("a"),
        F.concat_ws("/", "n", "n").alias("b"),
        F.col("n").substr(1, 1).alias("c"),
        F.substring("n", 2, 2).alias("d"),
        F.length("n").alias("e"),
        F.regexp_replace("n", "[a-c]", "_").alias("f"),
        F.col("n").startswith("a").alias("g"),
        F.col("n").rlike("^[A-Z]").alias("h"),
        F.col("n").contains("%").alias("i"),
        F.lpad("n", 4, "*").alias("j"),
        F.trim("n").alias("l"),
        F.split("n", "e").alias("m"),
        F.lower("n").alias("o"),
        F.col("n").ilike("z%").alias("p"),
        F.instr("n", "e").alias("q"),
        F.locate("e", "n").alias("r"),
        F.translate("n", "ab", "xy").alias("s"),
        F.initcap("n").alias("t"),
    ),
    "numbers": lambda F, W, t: t.orders.select(
        F.round("d", 1).alias("a"),
        F.abs("x").alias("b"),
        (F.col("x") % 3).alias("c"),
        F.pmod("x", F.lit(3)).alias("e"),
        (F.col("x") / 2).alias("f"),
        F.floor("d").alias("g"),
        F.sqrt(F.abs("x")).alias("h"),
        F.col("x").bitwiseAND(3).alias("i"),
        F.pow("x", F.lit(2)).alias("j"),
        F.nanvl("d", F.lit(0.0)).alias("l"),
        F.isnan("d").alias("m"),
        (-F.col("x")).alias("o"),
        F.signum("x").alias("p"),
        (F.col("price") * 2).alias("q"),
        (F.col("price") / 3).alias("r"),
        F.shiftleft("x", 2).alias("s"),
        F.try_divide("x", "y").alias("u"),
        F.hash("x", "n").alias("v"),
    ),
    "dates": lambda F, W, t: t.orders.select(
        F.date_add("day", 3).alias("a"),
        F.datediff("day", F.lit(datetime.date(2024, 1, 1))).alias("b"),
        F.year("day").alias("c"),
        F.month("day").alias("d"),
        F.trunc("day", "month").alias("e"),
        F.date_trunc("hour", "at").alias("f"),
        F.to_date(F.lit("2020-01-02")).alias("g"),
        F.add_months("day", 1).alias("h"),
        F.hour("at").alias("i"),
        F.date_format("at", "yyyy-MM").alias("j"),
        (F.col("at") + F.expr("INTERVAL 1 DAY")).alias("l"),
        F.last_day("day").alias("m"),
        F.dayofweek("day").alias("n"),
        F.unix_timestamp("at").alias("o"),
        F.col("at").cast("date").alias("p"),
        F.months_between("day", F.lit(datetime.date(2024, 1, 1))).alias("q"),
    ),
    "structs": lambda F, W, t: t.shops.select(
        "id", "at.town", F.col("at").getField("zip"), F.col("at")["town"].alias("u")
    ),
    "struct star": lambda F, W, t: t.shops.select("at.*"),
    "struct made": lambda F, W, t: t.shops.select(F.struct("id", F.col("name").alias("nn")).alias("s")).select(
        "s.nn", "s.id"
    ),
    "maps": lambda F, W, t: t.shops.select(F.col("open")["mon"], F.sort_array(F.map_keys("open")).alias("keys")),
    "arrays": lambda F, W, t: t.items.select(
        F.size("tags").alias("a"),
        F.array_contains("tags", "u").alias("b"),
        F.array("w", F.lit(1.0)).alias("c"),
        F.sort_array("tags").alias("e"),
        F.element_at(F.array("w", "w"), 1).alias("f"),
        F.array("w")[0].alias("g"),
        F.array_distinct("tags").alias("h"),
        F.get("tags", F.lit(0)).alias("i"),
    ),
    "lambdas": lambda F, W, t: t.items.select(
        F.transform("tags", lambda v: F.upper(v)).alias("a"),
        F.filter("tags", lambda v: v.isNotNull()).alias("b"),
        F.exists("tags", lambda v: v == "u").alias("c"),
        F.aggregate(F.array("w", "w"), F.lit(0.0), lambda a, v: a + v).alias("d"),
        F.transform(F.array("w", "w"), lambda v, i: v + i).alias("e"),
    ),
    "explode": lambda F, W, t: t.items.select("k", F.explode("tags").alias("tag")),
    "explode outer": lambda F, W, t: t.items.select("k", F.explode_outer("tags")),
    "posexplode": lambda F, W, t: t.items.select(F.posexplode("tags").alias("p", "tag"), "q"),
    "explode map": lambda F, W, t: t.shops.select("id", F.explode("open").alias("day", "hour")),
    # joins
    "join using": lambda F, W, t: t.orders.join(t.items, "k"),
    "join using full": lambda F, W, t: t.orders.select("k", "x").join(t.items.select("k", "q"), ["k"], "full"),
    "join using right": lambda F, W, t: t.orders.select("k", "x").join(t.items.select("k", "q"), ["k"], "right"),
    "join on": lambda F, W, t: t.orders.join(t.items, t.orders.k == t.items.k, "left").select(
        t.orders.k, "q", t.items.k.alias("ik")
    ),
    "join on names": lambda F, W, t: (
        t.orders.alias("a")
        .join(t.orders.alias("b"), F.col("a.k") == F.col("b.x"))
        .select("a.n", "b.n".replace("n", "y"))
    ),
    "join on list": lambda F, W, t: t.orders.join(t.items, [t.orders.k == t.items.k, t.orders.x < t.items.w]).select(
        "x", "w"
    ),
    "join null safe": lambda F, W, t: t.orders.join(t.items, t.orders.k.eqNullSafe(t.items.k)).select("x", "q"),
    "join inequality": lambda F, W, t: t.orders.join(t.items, t.orders.x > t.items.w).select("x", "w"),
    "join semi": lambda F, W, t: t.orders.join(t.items, "k", "semi"),
    "join anti": lambda F, W, t: t.orders.join(t.items, t.orders.k == t.items.k, "anti"),
    "join cross": lambda F, W, t: t.shops.select("id").crossJoin(t.items.select("q")),
    "join cross filtered": lambda F, W, t: t.orders.crossJoin(t.items).filter(t.orders.k == t.items.k).select("x", "q"),
    "join right": lambda F, W, t: (
        t.orders.join(t.items, t.orders.k == t.items.k, "right").filter(t.orders.k.isNull()).select("q")
    ),
    "join outer": lambda F, W, t: t.orders.join(t.items, t.orders.k == t.items.k, "outer").select("x", "q"),
    "join of joins": lambda F, W, t: (
        t.orders.join(t.items, "k").join(t.shops, F.col("k") == F.col("id"), "left").select("x", "q", "name")
    ),
    "join dropped": lambda F, W, t: t.orders.join(t.items, t.orders.k == t.items.k).drop(t.items.k).select("k", "q"),
    # groups
    "count": lambda F, W, t: t.orders.groupBy("k").count(),
    "aggregates": lambda F, W, t: t.orders.groupBy("n").agg(
        F.sum("x"),
        F.avg("y"),
        F.min("day"),
        F.max("d"),
        F.count("y"),
        F.count("*"),
        F.countDistinct("x"),
        F.sum_distinct("x").alias("sd"),
    ),
    "aggregates of numbers": lambda F, W, t: t.orders.agg(
        F.sum("price").alias("a"),
        F.avg("price").alias("b"),
        F.stddev_pop("x").alias("c"),
        F.var_samp("y").alias("d"),
        F.count_if(F.col("x") > 1).alias("e"),
    ),
    "collect": lambda F, W, t: t.orders.groupBy("k").agg(
        F.sort_array(F.collect_list("n")).alias("ns"), F.sort_array(F.collect_set("n")).alias("set")
    ),
    "max_by": lambda F, W, t: (
        t.orders.filter("k < 4").groupBy("k").agg(F.max_by("n", "x").alias("m"), F.bool_or(F.col("x") > 1).alias("b"))
    ),
    "agg of all": lambda F, W, t: t.orders.agg(F.sum("x").alias("s"), F.count("*").alias("c")),
    "agg of none": lambda F, W, t: t.orders.filter("x > 1000").agg(F.sum("x").alias("s"), F.count("*").alias("c")),
    "agg dict": lambda F, W, t: t.orders.groupBy("k").agg({"x": "max"}),
    "agg shorthand": lambda F, W, t: t.orders.groupBy("k").sum("x", "y"),
    "group by expression": lambda F, W, t: t.orders.groupBy((F.col("x") % 2).alias("odd"), F.upper("n")).agg(
        F.count("*").alias("c")
    ),
    "agg expression": lambda F, W, t: t.orders.groupBy("k").agg(
        (F.sum("x") / F.count("*")).alias("r"), (F.col("k") + F.max("x")).alias("m")
    ),
    "having": lambda F, W, t: t.orders.groupBy("k").agg(F.sum("x").alias("s")).filter("s > 1").orderBy("s").limit(5),
    "group of group": lambda F, W, t: t.orders.groupBy("k").agg(F.sum("x").alias("s")).groupBy("s").count(),
    "rollup": lambda F, W, t: t.orders.rollup("k", "n").agg(F.sum("x").alias("s"), F.grouping_id().alias("g")),
    "cube": lambda F, W, t: t.orders.cube("k", "n").agg(F.count("*").alias("c"), F.grouping("k").alias("gk")),
    "grouping sets": lambda F, W, t: t.orders.groupingSets([[F.col("k")], [F.col("n")]], F.col("k"), F.col("n")).agg(
        F.sum("x").alias("s")
    ),
    "pivot": lambda F, W, t: t.orders.groupBy("k").pivot("n", ["a", "b"]).agg(F.sum("x")),
    "pivot several": lambda F, W, t: (
        t.orders.groupBy("k").pivot("n", ["a", "b"]).agg(F.sum("x").alias("s"), F.max("y").alias("m"))
    ),
    "pivot count": lambda F, W, t: t.orders.groupBy("k").pivot("n", ["a", "nosuch"]).count(),
    "unpivot": lambda F, W, t: t.orders.select("k", "x", "y", "d").unpivot("k", ["x", "y", "d"], "var", "val"),
    "unpivot all": lambda F, W, t: t.orders.select("k", "x", "y").unpivot("k", None, "var", "val"),
    "windows of time": lambda F, W, t: (
        t.orders.groupBy(F.window("at", "10 minutes").alias("w")).count().select("w.start", "w.end", "count")
    ),
    "windows that slide": lambda F, W, t: (
        t.orders.groupBy(F.window("at", "10 minutes", "5 minutes").alias("w"), "k")
        .agg(F.sum("x").alias("s"))
        .select("w.start", "k", "s")
    ),
    # windows
    "row_number": lambda F, W, t: (
        t.orders.dropDuplicates()
        .withColumn("rn", F.row_number().over(W.partitionBy("k").orderBy(F.desc("x"), "y", "n")))
        .filter("rn = 1")
    ),
    "rank": lambda F, W, t: t.orders.select(
        "k", "x", F.rank().over(W.orderBy("x")).alias("r"), F.dense_rank().over(W.orderBy(F.desc("x"))).alias("dr")
    ),
    "window sums": lambda F, W, t: t.orders.select(
        "k",
        "x",
        F.sum("x").over(W.partitionBy("k")).alias("s"),
        F.count("*").over(W.partitionBy("k").orderBy("x")).alias("c"),
    ),
    "window rows": lambda F, W, t: t.orders.dropDuplicates().select(
        "k", F.sum("x").over(W.partitionBy("k").orderBy("x", "n").rowsBetween(-1, 0)).alias("s")
    ),
    "window range": lambda F, W, t: t.orders.select(
        "k", F.sum("y").over(W.partitionBy("k").orderBy("x").rangeBetween(-3, 1)).alias("s")
    ),
    "window unbounded": lambda F, W, t: t.orders.select(
        "k",
        F.max("y")
        .over(W.partitionBy("k").orderBy("x").rangeBetween(W.unboundedPreceding, W.unboundedFollowing))
        .alias("s"),
    ),
    "lag": lambda F, W, t: t.orders.dropDuplicates().select(
        "k",
        "x",
        F.lag("x", 1).over(W.partitionBy("k").orderBy("x")).alias("p"),
        F.lead("x", 1, -1).over(W.partitionBy("k").orderBy("x")).alias("f"),
    ),
    "window expression": lambda F, W, t: t.orders.select(
        (F.col("x") - F.avg("x").over(W.partitionBy("k"))).alias("a"), "n"
    ),
    # missing values
    "fillna": lambda F, W, t: t.orders.fillna(0),
    "fillna text": lambda F, W, t: t.orders.fillna("?", subset=["n", "x"]),
    "fillna dict": lambda F, W, t: t.orders.fillna({"n": "?", "y": 7}),
    "dropna": lambda F, W, t: t.orders.dropna(),
    "dropna all": lambda F, W, t: t.orders.select("y", "d").dropna(how="all"),
    "dropna thresh": lambda F, W, t: t.orders.dropna(thresh=7),
    "dropna subset": lambda F, W, t: t.orders.dropna(subset=["d", "day"]),
    "replace": lambda F, W, t: t.orders.select("k", "x", "n").replace([1, 2], [10, 20]),
    "replace text": lambda F, W, t: t.orders.replace({"a": "A", "b": None}, subset=["n"]),
    # subqueries
    "in subquery": lambda F, W, t: t.orders.filter(t.orders.k.isin(t.items.select("k"))),
    "exists": lambda F, W, t: t.orders.filter(t.items.where(t.items.k == F.col("orders.k").outer()).exists()),
    "not exists": lambda F, W, t: t.orders.filter(~t.items.where(t.items.k == F.col("orders.k").outer()).exists()),
    "scalar": lambda F, W, t: t.orders.filter(F.col("x") > t.items.agg(F.avg("w")).scalar()),
    "scalar correlated": lambda F, W, t: t.orders.select(
        "k", "x", t.items.where(t.items.k == F.col("orders.k").outer()).select(F.sum("w")).scalar().alias("t")
    ),
    "lateral": lambda F, W, t: t.orders.lateralJoin(
        t.items.where(t.items.k == F.col("orders.k").outer()).select("q")
    ).select("x", "q"),
    "sql": lambda F, W, t: t.orders.select("k", "x").transform(
        lambda f: f.withColumn("z", F.expr("x * 2 + coalesce(k, 0)"))
    ),
    "withField": lambda F, W, t: t.shops.select("id", F.col("at").withField("zip", F.lit(7)).alias("at")).select(
        "id", "at.zip", "at.town"
    ),
}
