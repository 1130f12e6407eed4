"""What DataFrames stand for, what they read, what is refused of them and where, and plans that stay the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UnknownColumnError
from altneu.runtime.spark.versions import spark_schema
from altneu.sql.frames import from_connect
from altneu.sql.frames.handles import of_plan
from tests.frames import work
from tests.tpch.history import few_rows

pytest.importorskip("grpc", reason="Spark Connect's client is not installed")
from pyspark.sql.connect import functions as F
from pyspark.sql.connect import plan as connect_plan
from pyspark.sql.connect.window import Window
from pyspark.sql.types import ArrayType, DoubleType, IntegerType, StringType, StructType

ORDERS = an.source("orders", "k bigint, x int, n string")
ITEMS = an.source("items", "k bigint, w double")
ROWS = [(1, 5, "a"), (1, 7, "b"), (2, None, "c")]


@pytest.fixture
def session():
    with an.Session() as opened:
        yield opened


@pytest.fixture
def tables(session):
    return SimpleNamespace(orders=session.frame(ORDERS), items=session.frame(ITEMS))


def filled(session, frame):
    view = session.maintain("v", frame)
    session.insert("orders", ROWS)
    session.advance()
    return sorted(view.to_pylist(), key=repr)


SAME = F.udf(lambda x: x, IntegerType())
BY_K = Window.partitionBy("k").orderBy("x")
MAPPED = r"mapInPandas or mapInArrow .*use map, flat_map|neither rows nor a server"  # Spark 3.5 says that
REFUSED = [
    (lambda t: t.orders.sample(0.1), r"sample of a DataFrame; .*chance.*\[in sample, step 2 of 2"),
    (
        lambda t: t.orders.randomSplit([0.5, 0.5], 3)[1],
        r"randomSplit of a DataFrame; .*chance.*\[in randomSplit, step 2",
    ),
    (lambda t: t.orders.selectExpr("stack(2, k, x)"), r"stack\(\): .*col0 must have one type, got bigint and int"),
    (lambda t: t.orders.filter("x > 1").summary(), r"summary of a DataFrame.*step 3 of 3"),
    (lambda t: t.orders.mapInArrow(lambda rows: rows, "k int"), MAPPED),
    (lambda t: t.orders.groupBy("k").pivot("n").count(), r"pivot\(n\): .*give the values.*in groupBy\(\)\.agg"),
    (
        lambda t: t.orders.withColumn("y", F.udf(lambda x: x, IntegerType()).asNondeterministic()("x")),
        r"the function .* is declared nondeterministic .*in withColumn",
    ),
    (lambda t: t.orders.select(F.rand()), r"rand.*in select, step 2"),
    (lambda t: t.orders.groupBy("k").agg(F.first("x")), r"first\(\) is not supported.*order.*in groupBy\(\)\.agg"),
    (lambda t: t.orders.withWatermark("n", "1 minute"), r"with watermark of a DataFrame"),
    (lambda t: t.orders.orderBy(F.sum("x")), r"orderBy\(.*\): an aggregate or a window belongs into"),
    (
        lambda t: t.orders.filter(F.row_number().over(BY_K) == 1),
        r"window function.*in filter",
    ),
    (lambda t: t.orders.crossJoin(t.orders.alias("o")).select("k"), r"'k' may be one of several.*in select"),
    (lambda t: t.orders.to(t.items.schema), r"to schema of a DataFrame; name and cast"),
    (lambda t: t.orders.dropDuplicates([]), r"dropDuplicates\(\[\]\): name at least one column"),
]


@pytest.mark.parametrize(("query", "said"), REFUSED)
def test_what_is_refused_is_named_with_its_place(session, tables, query, said):
    with pytest.raises(PlanError, match=said):
        session.maintain("v", query(tables))
    assert session.views == []


def test_names_that_are_no_columns_are_told_with_those_that_are(session, tables):
    with pytest.raises(UnknownColumnError, match=r"no column 'nosuch'.* k, x, n \[in select"):
        session.maintain("v", tables.orders.select("nosuch"))
    with pytest.raises(UnknownColumnError, match=r"no column 'nosuch' here.* are: k, x, n \[in filter"):
        session.maintain("v", tables.orders.filter(tables.orders.nosuch > 1))
    with pytest.raises(UnknownColumnError, match="no column 'w' here: it may be one of another DataFrame"):
        session.maintain("v", tables.orders.filter(tables.items.w > 1))
    with pytest.raises(UnknownColumnError, match=r"dropDuplicates"):
        session.maintain("v", tables.orders.dropDuplicates(["nosuch"]))
    with pytest.raises(TypeMismatchError, match="neither in GROUP BY"):
        session.maintain("v", tables.orders.groupBy("k").agg(F.col("x")))
    with pytest.raises(SchemaError, match="two columns are called 'k'"):
        session.maintain("v", tables.orders.join(tables.items, tables.orders.k == tables.items.k))


def test_a_handle_has_columns_and_no_rows(session, tables):
    joined = tables.orders.join(tables.items, "k")
    assert joined.columns == ["k", "x", "n", "w"]
    assert [f.dataType.simpleString() for f in joined.schema.fields] == ["bigint", "int", "string", "double"]
    with pytest.raises(PlanError, match=r"neither rows nor a server.*session\.peek"):
        joined.collect()
    assert repr(joined) == "DataFrame[k: bigint, x: int, n: string, w: double]"
    assert joined._repr_html_() is None  # a notebook shows the text
    with pytest.raises(PlanError, match="no source or view 'nosuch'; there are: orders, items"):
        session.frame("nosuch")
    with pytest.raises(PlanError, match="a source or a name"):
        session.frame(ORDERS.filter("x > 1"))


def test_a_view_with_the_name_of_a_source_is_not_read_by_name(session, tables):
    everything = session.maintain("everything", tables.orders)
    view = session.maintain("orders", tables.orders.filter("x > 5"))
    session.insert("orders", ROWS)
    session.advance()
    with pytest.raises(PlanError, match="'orders' is a source, which DataFrames of this session read, and a view"):
        session.frame("orders")
    assert session.peek(tables.orders.groupBy().count()).to_pylist() == [{"count": 3}]
    assert (len(everything.to_pylist()), view.to_pylist()) == (3, [(1, 7, "b")])


def test_views_and_tables_of_sql_are_read_by_name(session, tables):
    session.sql("CREATE TABLE rates (n STRING, rate INT)")
    session.sql("INSERT INTO rates VALUES ('a', 10), ('b', 20)")
    assert filled(session, tables.orders.filter("x > 5").select("n", "x")) == [("b", 7)]
    over = session.frame("v").join(session.frame("RATES"), "n")
    assert session.peek(over).to_pylist() == [{"n": "b", "x": 7, "rate": 20}]
    text = of_plan(connect_plan.SQL("SELECT n, x + 1 AS y FROM v"), over.sparkSession)
    assert session.peek(text).to_pylist() == [{"n": "b", "y": 8}]


def test_rows_that_a_plan_has_with_it_are_constants(session, tables):
    table = pa.table({"n": ["a", "b", "b"], "z": [1, 2, None]})
    local = of_plan(connect_plan.LocalRelation(table), tables.orders.sparkSession)
    assert filled(session, tables.orders.join(local, "n").select("n", "x", "z")) == [
        ("a", 5, 1),
        ("b", 7, 2),
        ("b", 7, None),
    ]


def test_temporary_views_of_dataframes(session):
    kept = an.source("orders", "k bigint, x int, n string", keep=True)
    tables = SimpleNamespace(orders=session.frame(kept), items=session.frame(ITEMS))
    spark = tables.orders.sparkSession
    tables.orders.filter("x > 5").createOrReplaceTempView("dear")
    tables.orders.createOrReplaceTempView("orders")  # it is so already
    over = spark.sql("SELECT d.k, i.w FROM Dear d LEFT JOIN items i ON d.k = i.k")
    assert filled(session, over) == [(1, None)]
    assert session.peek(spark.table("dear").select("n")).to_pylist() == [{"n": "b"}]
    assert session.peek(session.frame("dear")).to_pylist() == [{"k": 1, "x": 7, "n": "b"}]
    with pytest.raises(PlanError, match="there is a temporary view 'dear'"):
        tables.orders.createTempView("dear")
    tables.orders.filter("x < 6").createOrReplaceTempView("DEAR")
    assert session.peek(spark.table("dear").select("n")).to_pylist() == [{"n": "a"}]
    assert sorted(session.view("v").to_pylist()) == [(1, None)]
    for name in ("items", "v"):
        with pytest.raises(PlanError, match=f"there is a source or view '{name}'"):
            tables.orders.filter("x < 6").createOrReplaceTempView(name)
    with pytest.raises(PlanError, match="neither rows nor a server"):
        tables.orders.write.saveAsTable("t")


def test_dataframes_in_a_text_of_sql(session, tables):
    spark = tables.orders.sparkSession
    dear = spark.sql("SELECT k, x FROM {o} WHERE x > 5", o=tables.orders)
    both = spark.sql("SELECT a.k, b.n FROM {d} a JOIN {o} b ON a.k = b.k", d=dear.filter(dear.x < 9), o=tables.orders)
    assert filled(session, both.select(both.n, F.col("k"))) == [("a", 1), ("b", 1)]
    with pytest.raises(PlanError, match=r"arguments of spark\.sql"):
        spark.sql("SELECT :x", {"x": 1})


def test_columns_may_be_chosen_by_a_pattern(session, tables):
    assert filled(session, tables.orders.select(tables.orders.colRegex("`[kx]`"))) == [(1, 5), (1, 7), (2, None)]


def test_a_long_chain_of_operations_is_no_deep_recursion(session, tables):
    frame = tables.orders
    for i in range(120):
        frame = frame.withColumn("x", F.col("x") + i % 2)
    assert filled(session, frame.select("k", "x")) == [(1, 65), (1, 67), (2, None)]


def test_equal_dataframes_are_one_plan_whatever_spark_counts(session, tables):
    def query(t):
        wide = t.orders.join(t.items.alias("i"), F.col("i.k") == t.orders.k).withColumn("y", F.col("x") + 1)
        return wide.groupBy(F.col("y") % 2).pivot("n", ["a"]).agg(F.sum("w")).orderBy(F.col("a").desc()).limit(3)

    first = query(tables)
    for _ in range(30):
        tables.orders.select("k")  # takes numbers of plans
    second = query(SimpleNamespace(orders=session.frame(ORDERS), items=session.frame(ITEMS)))
    catalog = {"orders": ORDERS, "items": ITEMS}
    plans = [from_connect(f._plan.plan(None), catalog).node for f in (first, second)]
    assert repr(plans[0]) == repr(plans[1])


def test_a_view_goes_on_in_a_store_that_is_opened_again(quick):
    for expected in ([(1, 12)], [(1, 12), (2, 4)]):
        with an.Session(path=quick / "state") as session:
            orders = session.frame(ORDERS)
            view = session.maintain("v", orders.filter("x > 0").groupBy("k").agg(F.sum("x").alias("s")))
            session.insert("orders", ROWS if len(expected) == 1 else [(2, 4, "d")])
            session.advance()
            assert sorted(view.to_pylist()) == expected


NESTED = an.source(
    "nested", "id long, s struct<x: int, t: struct<x: int, y: string>>, j string, xs array<int>", keep=True
)
NESTED_ROWS = [
    (1, {"x": 1, "t": {"x": 2, "y": "q"}}, '{"a": 1, "b": ["u"]}', [3, 1, 2]),
    (2, {"x": 1, "t": None}, None, None),
    (3, None, '{"a": "w"}', []),
]
READ = StructType().add("a", IntegerType()).add("b", ArrayType(StringType()))
BY_ID = Window.partitionBy(F.lit(1)).orderBy("id")
WRITTEN = {  # an expression, and Spark's answer for the three rows
    "a field in a field": (
        F.col("s").withField("t.x", F.lit(3)),
        [{"x": 1, "t": {"x": 3, "y": "q"}}, {"x": 1, "t": None}, None],
    ),
    "a new field in a field": (
        F.col("s").withField("t.z", F.lit(3)),
        [{"x": 1, "t": {"x": 2, "y": "q", "z": 3}}, {"x": 1, "t": None}, None],
    ),
    "a field without a field": (F.col("s").dropFields("t.x"), [{"x": 1, "t": {"y": "q"}}, {"x": 1, "t": None}, None]),
    "a schema of PySpark": (F.from_json("j", READ), [{"a": 1, "b": ["u"]}, None, {"a": None, "b": None}]),
    "nth_value": (F.nth_value("id", 2).over(BY_ID), [None, 2, 2]),
    "nth_value without nulls": (F.nth_value("xs", 2, True).over(BY_ID), [None, None, []]),
    "a lambda in a lambda": (
        F.transform("xs", lambda x: F.size(F.filter("xs", lambda y: y < x))),
        [[2, 0, 1], None, []],
    ),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_what_pyspark_writes_in_its_own_way(session, name):
    expression, expected = WRITTEN[name]
    view = session.maintain("v", session.frame(NESTED).select("id", expression.alias("r")))
    session.insert("nested", NESTED_ROWS)
    session.advance()
    assert [value for _, value in sorted(view.to_pylist(), key=lambda row: row[0])] == expected


def test_a_lambda_is_the_same_however_many_pyspark_has_counted(tmp_path):
    """PySpark numbers the variables of lambdas as long as the program runs; a store knows its view again."""
    for _ in range(2):
        with an.Session(path=tmp_path / "store") as session:
            doubled = session.frame(NESTED).select("id", F.transform("xs", lambda x: 2 * x).alias("r"))
            view = session.maintain("v", doubled)
            session.insert("nested", NESTED_ROWS[:1])
            session.advance()
            shown = view.to_pylist()
    assert shown == 2 * [(1, [6, 2, 4])]


def test_to_keep_rows_is_nothing_where_there_are_none(session, tables):
    kept = tables.orders.cache().filter("x > 5").persist()
    assert filled(session, kept.unpersist()) == [(1, 7, "b")]


@pytest.mark.parametrize("schema", ["k bigint, w double", StructType().add("k", "long").add("w", "double").json()])
def test_rows_that_a_dataframe_brings_may_be_none(session, tables, schema):
    """As createDataFrame([], schema) of Connect gives them: columns and no rows."""
    none = of_plan(connect_plan.LocalRelation(None, schema), tables.orders.sparkSession)
    assert filled(session, tables.orders.join(none, "k", "left").select("k", "w")) == [(1, None), (1, None), (2, None)]
    assert session.view("v").schema.field("w").type == pa.float64()


def test_a_percentile_of_values_that_count_once(session, tables):
    of_x = tables.orders.groupBy("k").agg(F.percentile("x", 0.5).alias("m"), F.percentile("x", [0.0, 1.0], 1))
    assert filled(session, of_x) == [(1, 6.0, [5.0, 7.0]), (2, None, None)]
    with pytest.raises(PlanError, match="with frequencies"):
        session.maintain("w", tables.orders.groupBy("k").agg(F.percentile("x", 0.5, 2)))


def test_functions_of_users(session, tables):
    """PySpark's own, which the plan has as bytes, and those that the session has names for."""
    session.udf.register("plus", lambda a, b: a + b, "int")
    session.sql("CREATE FUNCTION squared(v INT) RETURNS INT RETURN v * v")
    third = F.udf(lambda x: x / 3, DoubleType(), useArrow=True)
    frame = tables.orders.select(
        SAME("x").alias("a"), third(F.col("x") * 3).alias("b"), F.call_udf("plus", F.col("x"), F.lit(1)).alias("c"),
        F.call_function("squared", F.col("x")).alias("d"),
    ).filter(SAME("a") > 0)  # fmt: skip
    shown = filled(session, frame)
    assert shown == sorted(((x, float(x), x + 1, x * x) for _, x, *_ in ROWS if x), key=repr)
    session.retract("orders", ROWS)
    session.advance()
    assert session.view("v").to_pylist() == []


def test_functions_of_users_in_a_classic_session(spark):
    from pyspark.sql import functions as classic

    spark.createDataFrame([(1, 5, "a")], "k bigint, x int, n string").createOrReplaceTempView("orders")
    try:
        with an.Session(spark, placement="driver") as session:
            session.frame(ORDERS)
            twice = classic.udf(lambda v: None if v is None else 2 * v, IntegerType())
            added = classic.pandas_udf(lambda v, w: v + w, "bigint")
            frame = spark.table("orders").select(twice("x").alias("y"), added("k", "x").alias("z")).filter("y > 2")
            shown = filled(session, frame)
            assert shown == sorted(((2 * x, k + x) for k, x, *_ in ROWS if x and x > 1), key=repr)
    finally:
        spark.catalog.dropTempView("orders")


def test_a_classic_session_reads_its_tables_and_views_by_name_and_its_rows(spark):
    from pyspark.sql import functions as classic

    spark.createDataFrame([(1, 5, "a")], "k bigint, x int, n string").createOrReplaceTempView("orders")
    try:
        with an.Session(spark, placement="driver") as session:
            session.frame(ORDERS)
            rates = spark.createDataFrame([("a", 10), ("b", 20)], "n string, rate int")
            frame = (
                spark.table("orders").join(rates, "n").select("n", (classic.col("x") * classic.col("rate")).alias("y"))
            )
            assert filled(session, frame) == [("a", 50), ("b", 140)]
            for query, said in (
                (frame.sample(0.5), r"(?i)sample (in|of) a DataFrame; .*chance"),
                (frame.select(classic.udf(lambda v: v, IntegerType()).asNondeterministic()("y")), "nondeterministic"),
                (spark.range(3).select(classic.rand().alias("r")), "rand"),
            ):
                with pytest.raises(PlanError, match=said):
                    session.maintain("w", query)
    finally:
        spark.catalog.dropTempView("orders")


READINGS = an.source(
    "readings",
    "id bigint, k string, x int, items array<struct<a: int, b: array<int>>>, tags array<string>, w array<double>, "
    "day date, at timestamp, local timestamp_ntz, text string",
)
NOON = datetime(2026, 3, 31, 12, 30, 15, 250000)  # noqa: DTZ001  # as Spark has it without a time zone
READ = [
    (i, k, x, items, tags, w, at and at.date(), at and at.replace(tzinfo=UTC), at, text)
    for i, k, x, items, tags, w, at, text in (
        (
            1,
            "a",
            None,
            [(1, [2, 3]), (4, None)],
            ["b", None, "a"],
            [2.0, float("nan"), -1.0],
            NOON,
            '{"a": 1, "b": [2]}',
        ),
        (2, "a", 5, [(None, [])], ["a"], [1.0, None], NOON - timedelta(days=31), '{"b": 1}'),
        (3, "a", None, [], [], [], None, "1;x"),
        (4, "a", 7, None, None, None, NOON, None),
        (5, "b", None, [(7, [7]), None], ["z", "y"], [0.5], NOON, "[1"),
        (6, "b", 1, [(8, [None])], [None], [None], NOON - timedelta(days=760), '{"a": "x"}'),
    )
]
GONE = (0, "a", 9, [(5, [6])], ["q"], [9.0], NOON.date(), NOON.replace(tzinfo=UTC), NOON, '{"a": 9}')


def _columns(frame, *columns):
    return frame.select("id", *(column.alias(f"v{i}") for i, column in enumerate(columns)))


CLASSIC = {
    f"{name}, {over}": lambda f, w, t, name=name, over=over: t.select(
        "id",
        f.expr(f"{name} OVER (PARTITION BY k ORDER BY id {over})").alias("v"),
    )
    for name in (
        *("first(x, true)", "last(x, true)", "first_value(x) IGNORE NULLS", "last_value(x) IGNORE NULLS"),
        *("any_value(x, true)", "nth_value(x, 2) IGNORE NULLS", "nth_value(x, 2)", "first(x)"),
    )
    for over in ("", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING")
} | {
    "first and last of PySpark": lambda f, w, t: t.select(
        "id",
        f.first("x", True).over(w.partitionBy("k").orderBy("id")),
        f.last("x", ignorenulls=True).over(w.partitionBy("k").orderBy("id")),
    ),
    "fields of variables": lambda f, w, t: _columns(
        t,
        f.transform("items", lambda i: i.a),
        f.transform("items", lambda i: i["a"] + 1),
        f.transform("items", lambda i: f.size(i.getField("b"))),
        f.filter("items", lambda i: i.a > 1),
        f.exists("items", lambda i: f.size(i.b) > 1),
        f.expr("transform(items, i -> i.a)"),
        f.aggregate("items", f.lit(0), lambda total, i: total + f.coalesce(i.a, f.lit(0))),
    ),
    "variables of nested lambdas": lambda f, w, t: _columns(
        t,
        f.transform("items", lambda i: f.transform(i.b, lambda j: j + i.a)),
        f.transform("items", lambda i: f.transform(i.b, lambda j: f.struct(i.a.alias("x"), j.alias("y")))),
        f.transform("tags", lambda i: f.transform("w", lambda j: f.struct(i.alias("x"), j.alias("y")))),
        f.transform("items", lambda i: f.struct(i.a.alias("x"))["x"]),
    ),
    "fields of a struct that is made": lambda f, w, t: _columns(t, f.struct("x", "k")["x"]),
    "moments and dates less intervals": lambda f, w, t: _columns(
        t,
        *(
            f.col(column) - f.expr(f"INTERVAL {interval}")
            for column in ("at", "local", "day")
            for interval in ("1 DAY", "26 HOURS", "1 MONTH", "'1 02:03:04.5' DAY TO SECOND", "-1 DAY")
        ),
        f.col("day") + f.expr("INTERVAL 3 DAYS"),
        f.col("at") - f.expr("x * INTERVAL 1 HOUR"),
        f.lit("2026-03-01").cast("timestamp") - f.expr("INTERVAL 1 MONTH"),
    ),
    "arrays in their own order": lambda f, w, t: _columns(
        t,
        *(f.array_sort(column) for column in ("tags", "w", "items")),
        f.array_sort(f.transform("items", lambda i: f.struct(i.a.alias("x")))),
        f.transform("items", lambda i: f.array_sort(i.b)),
    ),
    "lists in their own order": lambda f, w, t: t.groupBy("k").agg(f.array_sort(f.collect_list("x")).alias("v")),
    "percentiles": lambda f, w, t: t.groupBy("k").agg(
        f.percentile("x", 0.5).alias("v0"),
        f.percentile("x", [0.25, 0.75], 1).alias("v1"),
        f.expr("percentile(x, 0.5)").alias("v2"),
        f.expr("percentile(x, 0.5, 1L)").alias("v3"),
    ),
    "texts with a schema": lambda f, w, t: _columns(
        t,
        f.from_json("text", "a int, b array<int>"),
        f.from_json("text", StructType().add("a b", "string", False).add("a", "string", True, {"comment": "it's"})),
        f.map_values(f.from_json("text", "map<string, string>")),
        f.from_json(f.lit('[{"a": 1}]'), "array<struct<a: int>>")[0]["a"],
        f.from_csv("text", "a string, b string", {"sep": ";"}),
        f.from_json(f.lit('{"a": "31/12/2026"}'), "a date", {"dateFormat": "dd/MM/yyyy"}),
    ),
    "texts with options": lambda f, w, t: _columns(
        t,
        f.to_json(f.struct("x", "k"), {"ignoreNullFields": "false"}),
        f.to_json(f.struct("x", "k")),
        f.to_csv(f.struct("id", "k"), {"sep": ";"}),
        f.schema_of_json(f.lit('{"a": 1}')),
        f.schema_of_csv(f.lit("1;2"), {"sep": ";"}),
    ),
    "pivot with values": lambda f, w, t: t.groupBy("id").pivot("k", ["a", "c"]).sum("x"),
    "pivot of texts with values": lambda f, w, t: t.groupBy("id").pivot("k", ["a", "c"]).agg(f.max("text")),
}
"""What the SQL of Catalyst's expressions does not say, or says otherwise than a user writes it."""


@pytest.fixture(scope="module")
def of_spark(spark):
    """Views of a classic session, after rows were retracted, and what Spark answers."""
    from pyspark.sql import Window as ClassicWindow
    from pyspark.sql import functions as classic

    rows = spark.createDataFrame(READ, spark_schema(READINGS.schema)).alias("readings")
    with few_rows(spark):
        found = {n: work.by_spark(query, classic, ClassicWindow, rows) for n, query in CLASSIC.items()}
    with an.Session(spark, placement="driver") as session:
        handle = session.frame(READINGS)
        views = {n: session.maintain(n, query(classic, ClassicWindow, handle)) for n, query in CLASSIC.items()}
        session.insert("readings", [GONE, *READ])
        session.advance()
        session.retract("readings", [GONE])
        session.advance()
        yield views, found


@pytest.mark.parametrize("name", CLASSIC)
def test_what_the_sql_of_an_expression_of_spark_does_not_say(of_spark, name):
    views, found = of_spark
    assert work.kept(views[name]) == found[name]


def test_keys_of_groups_in_sql_of_a_classic_session_are_no_pivot(spark):
    with an.Session(spark, placement="driver") as session:
        session.frame(READINGS).createOrReplaceTempView("read")
        try:
            keys = [
                spark.sql(f"SELECT {what}")
                for what in (
                    "k FROM read GROUP BY k",
                    "k FROM read WHERE id > 1 GROUP BY k HAVING count(*) > 0",
                    "k FROM read GROUP BY ROLLUP (k) HAVING k IS NOT NULL",
                )
            ]
            views = [session.maintain(f"v{i}", frame) for i, frame in enumerate(keys)]
            session.insert("readings", READ)
            session.advance()
            assert [sorted(v.to_pylist()) for v in views] == [[("a",), ("b",)]] * 3
        finally:
            spark.catalog.dropTempView("read")


def test_temporary_views_of_a_classic_session(spark):
    """Of DataFrames of the session they are its queries, also in SQL; of Spark's own rows they are constants."""
    with an.Session(spark, placement="driver") as session:
        readings = session.frame(READINGS)
        few = session.maintain("few", READINGS.filter("id > 1").select("id", "k"))
        made = {
            "readings": readings,
            "dear": readings.filter("id > 1").select("id", "k"),
            "rates": spark.createDataFrame([("a", 10)], "k string, rate int"),
            "few": readings.select("id", "k"),
        }
        try:
            for name, frame in made.items():
                frame.createOrReplaceTempView(name)
            texts = ("SELECT id, k FROM dear", "SELECT id, k FROM readings WHERE id > 1", "SELECT d.* FROM dear d")
            views = [session.maintain(f"v{i}", spark.sql(text)) for i, text in enumerate(texts)]
            joined = session.maintain("joined", spark.sql("SELECT d.id, r.rate FROM dear d JOIN rates r ON d.k = r.k"))
            session.insert("readings", READ)
            session.advance()
            assert few.to_pylist()
            assert [sorted(v.to_pylist()) for v in views] == [sorted(few.to_pylist())] * 3
            assert sorted(joined.to_pylist()) == sorted((number, 10) for number, k in few.to_pylist() if k == "a")
            with pytest.raises(PlanError, match=r"'few' is a source or view of the session, and a temporary view"):
                session.maintain("w", spark.table("few"))
            with pytest.raises(PlanError, match=r"no table or view 'dear'.* session.peek take their DataFrames"):
                session.sql("SELECT * FROM dear")
        finally:
            for name in made:
                spark.catalog.dropTempView(name)


REFUSED_OF_SPARK = [
    (lambda f, t: t.groupBy("id").pivot("k").sum("x"), r"pivot\(k\): .*give the values"),
    (lambda f, t: t.groupBy("id").pivot("k").agg(f.sum("x"), f.count("x")), r"pivot\(k\): .*give the values"),
    (
        lambda f, t: t.groupBy("id", f.upper("k")).pivot("k").agg(f.max("text")),
        r"agg\(\{\}\) .* give a pivot its values, pivot",
    ),
    (lambda f, t: t.crosstab("id", "k"), r"give the values"),
    (lambda f, t: t.groupBy("k").agg(f.percentile("x", 0.5, 2)), r"percentile\(x, …, 2\) with frequencies"),
    (
        lambda f, t: t.select(f.expr("day - (day - day)").alias("v")),
        r"a date plus or minus an interval of days that varies.*date_sub",
    ),
    (lambda f, t: t.groupBy("k").agg(f.first("x", True)), r"first\(\) is not supported.*order"),
    (lambda f, t: t.filter("x > 1").localCheckpoint(), r"a DataFrame after checkpoint\(\); use the DataFrame as it"),
]


@pytest.mark.parametrize(("query", "said"), REFUSED_OF_SPARK)
def test_what_is_refused_of_a_classic_session(spark, query, said):
    from pyspark.sql import functions as classic

    with an.Session(spark, placement="driver") as session, pytest.raises(PlanError, match=said):
        session.maintain("v", query(classic, session.frame(READINGS)))


def test_files_and_tables_that_a_classic_session_reads_are_named(spark, tmp_path):
    path = str(tmp_path / "rows")
    spark.range(3).write.parquet(path)
    spark.sql(f"CREATE TABLE rows_of_a_table USING parquet LOCATION '{path}'")
    try:
        for frame, read in (
            (spark.read.parquet(path).filter("id > 1"), f"parquet file:{path}"),
            (spark.table("rows_of_a_table"), r"table spark_catalog\.default\.rows_of_a_table"),
        ):
            said = (
                rf"not supported: reading {read} in a view's DataFrame; make a source.* \[in table of the DataFrame\]"
            )
            with an.Session(spark, placement="driver") as session, pytest.raises(PlanError, match=said):
                session.maintain("v", frame)
    finally:
        spark.sql("DROP TABLE rows_of_a_table")
