"""Joins of a DataFrame with ones that are derived from it; as a program, the answers of a server of Spark Connect."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

SCHEMA = "k bigint, x int, o int"
ROWS = [(1, None, 1), (1, 5, 2), (1, 7, 3), (2, None, 4), (3, 5, 5)]
HOW = ("inner", "left", "right", "full")


def totals(F: Any, t: Any) -> Any:
    """The rows of groups of the DataFrame."""
    return t.groupBy("k").agg(F.max("o").alias("z"))


def _using(how: str, of: str) -> Callable[..., Any]:
    def query(F: Any, t: Any) -> Any:
        g = totals(F, t.filter("o < 4"))
        return t.join(g, ["k"], how).select({"t": t.k, "g": g.k, "both": F.col("k")}[of].alias("key"), t.o, g.z)

    return query


def _on(how: str, of: str) -> Callable[..., Any]:
    def query(F: Any, t: Any) -> Any:
        g = totals(F, t.filter("o < 4"))
        return t.join(g, t.k == g.k, how).select({"t": t.k, "g": g.k, "o": t.o}[of].alias("key"), g.z)

    return query


def _with(after: Callable[[Any, Any, Any, Any], Any], how: str = "inner") -> Callable[..., Any]:
    """What is done with the DataFrame joined with its groups."""

    def query(F: Any, t: Any) -> Any:
        g = totals(F, t)
        return after(F, t.join(g, t.k == g.k, how), t, g)

    return query


def _two(F: Any, t: Any) -> Any:
    g, h = totals(F, t), t.groupBy("x").agg(F.count("*").alias("c"))
    return t.join(g, t.k == g.k).join(h, t.x == h.x).select(t.o, g.z, h.c)


def _twice(F: Any, t: Any) -> Any:
    least = t.groupBy("k").agg(F.min("o").alias("y"))
    return t.join(totals(F, t), "k").join(least, "k").select(t.k, t.o, "z", "y")


def _changed(F: Any, t: Any) -> Any:
    g = t.withColumn("x", F.col("x") * 2).withColumn("y", F.col("x") + 1)
    return t.join(g, t.o == g.o).select(t.x.alias("a"), g.x.alias("b"), g.y)


def _filtered(F: Any, t: Any) -> Any:
    g = t.filter("x > 5")
    return t.join(g, t.k == g.k).select(t.o)


def _groups_first(F: Any, t: Any) -> Any:
    g = totals(F, t)
    return g.join(t, t.k == g.k).select(t.o, g.z)


def _of_groups(F: Any, t: Any) -> Any:
    g, h = totals(F, t), t.groupBy("k").agg(F.count("x").alias("c"))
    return g.join(h, g.k == h.k).select(g.k, g.z, h.c)


SETS: dict[str, Callable[[Any], Any]] = {
    "a union": lambda t: t.union(t),
    "a union by name": lambda t: t.unionByName(t.drop("x"), allowMissingColumns=True),
    "a union that is filtered": lambda t: t.union(t.filter("o > 2")).filter("o < 5"),
    "an intersection": lambda t: t.intersect(t.filter("o > 2")),
    "an intersection of all": lambda t: t.filter("o > 2").intersectAll(t),
    "a difference": lambda t: t.exceptAll(t.filter("o > 2")),
    "distinct rows": lambda t: t.distinct(),
    "one row of a key": lambda t: t.dropDuplicates(["o"]),
    "rows with values": lambda t: t.fillna(0),
    "other names": lambda t: t.toDF("k", "x", "o"),
    "an alias": lambda t: t.alias("a"),
    "an order": lambda t: t.orderBy("o").limit(2),
    "a union of rows of it": lambda t: t.filter("o = 1").union(t.filter("o = 2")).dropDuplicates(["o"]),
    "columns under the same names": lambda t: t.select(t.k.alias("k"), "o"),
    "columns of the same values": lambda t: t.withColumn("o", t.o),
    "renamed columns": lambda t: t.withColumnRenamed("x", "y"),
    "a renamed column": lambda t: t.withColumnRenamed("o", "y").withColumnRenamed("y", "o"),
    "rows with other values": lambda t: t.replace(1, 7),
    "rows without nulls": lambda t: t.dropna(),
    "columns as rows": lambda t: t.unpivot(["k", "o"], ["x"], "name", "x"),
    "groups": lambda t: t.groupBy("k", "o").count(),
    "sums of groups": lambda t: t.rollup("k", "o").count(),
    "a semijoin": lambda t: t.join(t.filter("o < 3"), "k", "left_semi"),
    "a join by a name": lambda t: t.join(t.filter("o < 3").select("k"), "k", "right"),
    "a full join by a name": lambda t: t.join(t.filter("o < 3").select("k"), "k", "full"),
    "a hint": lambda t: t.hint("broadcast").repartition(2),
    "a star": lambda t: t.select("*", (t.o + 1).alias("p")),
    "a star of it": lambda t: t.select(t["*"]),
}


def _set(made: Callable[[Any], Any]) -> Callable[..., Any]:
    def query(_F: Any, t: Any) -> Any:
        g = made(t)
        return t.join(g, t.k == g.k).select(t.o)

    return query


def _of_side(made: Callable[[Any], Any]) -> Callable[..., Any]:
    return lambda _F, t: made(t).select(t.o, t.k)


QUERIES: dict[str, Callable[..., Any]] = {
    **{f"using, {how}, key of {of}": _using(how, of) for how in HOW for of in ("t", "g", "both")},
    **{f"on, {how}, {of}": _on(how, of) for how in ("inner", "left", "full") for of in ("t", "g", "o")},
    "no select": _with(lambda _F, j, _t, _g: j.drop("k")),
    "drop of groups": _with(lambda _F, j, _t, g: j.drop(g.k)),
    "drop of both": _with(lambda _F, j, t, _g: j.drop(t.k)),
    "star": _with(lambda _F, j, t, g: j.select(t["*"], g.z)),
    "filter": _with(lambda _F, j, t, g: j.filter(t.o == g.z).select(t.o, g.z)),
    "filter of both": _with(lambda _F, j, t, g: j.filter(t.k > 1).select(t.o, g.z)),
    "groups of it": _with(lambda F, j, t, g: j.groupBy(g.k).agg(F.sum(t.o).alias("q"))),
    "order": _with(lambda _F, j, t, _g: j.orderBy(t.o).select(t.o).limit(2)),
    "semi": _with(lambda _F, j, _t, _g: j.select("k", "o"), "left_semi"),
    "anti": _with(lambda _F, j, _t, _g: j.select("k", "o"), "left_anti"),
    "itself": lambda F, t: t.join(t, t.k == t.k).select(t.o),
    "itself using": lambda F, t: t.join(t, "k").select("k"),
    "two": _two,
    "twice using": _twice,
    "changed": _changed,
    "filtered": _filtered,
    "groups first": _groups_first,
    "of groups": _of_groups,
    **{f"itself in {name}": _set(made) for name, made in SETS.items()},
    **{f"{name}, columns of its side": _of_side(made) for name, made in SETS.items()},
}


def answer(query: Callable[..., Any], functions: Any, table: Any) -> tuple[list[str], list[list[Any]]] | str:
    """The columns and the rows of a query of Spark's, sorted; its error's class if it is refused."""
    from pyspark.errors import AnalysisException

    try:
        frame = query(functions, table)
        return frame.columns, sorted((list(row) for row in frame.collect()), key=repr)
    except AnalysisException as error:
        return str(error.getCondition() if hasattr(error, "getCondition") else error.getErrorClass())


if __name__ == "__main__":
    import json

    from pyspark.sql import SparkSession
    from pyspark.sql.connect import functions as connect_functions

    spark = SparkSession.builder.remote(sys.argv[1]).create()  # type: ignore[attr-defined]
    rows = spark.createDataFrame(ROWS, SCHEMA)
    found = {name: answer(query, connect_functions, rows) for name, query in QUERIES.items()}
    sys.stdout.write(json.dumps(found) + "\n")
