"""Orders and customers, as views and as streams."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window

spark = SparkSession.active()
DATA = spark.conf.get("shop.data")
ORDERS = "id BIGINT, customer STRING, item STRING, price BIGINT, day DATE"


@dp.materialized_view(comment="every order, of the files that there are")
def orders() -> DataFrame:
    return spark.read.format("json").schema(ORDERS).load(f"{DATA}/orders")


@dp.materialized_view(name="customers", schema="name STRING, city STRING")
def read_customers() -> DataFrame:
    return spark.read.csv(f"{DATA}/customers", schema="name STRING, city STRING", header=True)


@dp.temporary_view
def placed() -> DataFrame:
    people = spark.read.table("customers")
    orders = spark.read.table("orders")
    return orders.join(people, F.col("customer") == F.col("name"), "left").select("id", "customer", "city", "price")


@dp.materialized_view(table_properties={"shop.team": "sales"})
def by_city() -> DataFrame:
    return (
        spark.read.table("placed")
        .groupBy("city")
        .agg(F.sum("price").alias("total"), F.countDistinct("customer").alias("customers"))
    )


@dp.materialized_view
def dearest() -> DataFrame:
    place = F.row_number().over(Window.orderBy(F.desc("price"), "id"))
    orders = spark.table("orders").select(place.alias("place"), "id", "price")
    return orders.filter("place <= 3")


@dp.table
def raw() -> DataFrame:
    return spark.readStream.format("json").schema(ORDERS).load(f"{DATA}/orders")


dp.create_streaming_table("placed_once", comment="orders with the city that was known when they came")


@dp.append_flow(target="placed_once")
def dear() -> DataFrame:
    people = spark.read.table("customers")
    orders = spark.readStream.table("raw").filter("price > 3")
    return orders.join(people, F.col("customer") == F.col("name"), "left").select("id", "city", "price")


@dp.append_flow(target="placed_once", name="cheap")
def cheap_ones() -> DataFrame:
    return spark.readStream.table("raw").filter("price <= 3").select("id", F.lit("cheap").alias("city"), "price")


dp.create_sink("outside", "json", {"path": f"{DATA}/out", "checkpointLocation": f"{DATA}/checkpoints"})


@dp.append_flow(target="outside")
def sent() -> DataFrame:
    return spark.readStream.table("raw").select("id", F.upper("item").alias("item"))
