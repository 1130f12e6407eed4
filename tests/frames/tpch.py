"""TPC-H's queries as DataFrames; correlated subqueries are written as what they are, with ``outer``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Query = Callable[[Any, Any], Any]


def _revenue(F: Any) -> Any:
    return F.col("l_extendedprice") * (1 - F.col("l_discount"))


def q1(F: Any, t: Any) -> Any:
    return (
        t.lineitem.filter(F.col("l_shipdate") <= F.lit("1998-09-02").cast("date"))
        .groupBy("l_returnflag", "l_linestatus")
        .agg(
            F.sum("l_quantity").alias("sum_qty"),
            F.sum("l_extendedprice").alias("sum_base_price"),
            F.sum(_revenue(F)).alias("sum_disc_price"),
            F.sum(_revenue(F) * (1 + F.col("l_tax"))).alias("sum_charge"),
            F.avg("l_quantity").alias("avg_qty"),
            F.avg("l_extendedprice").alias("avg_price"),
            F.avg("l_discount").alias("avg_disc"),
            F.count("*").alias("count_order"),
        )
        .orderBy("l_returnflag", "l_linestatus")
    )


def q2(F: Any, t: Any) -> Any:
    offers = (
        t.partsupp.join(t.supplier, F.col("ps_suppkey") == F.col("s_suppkey"))
        .join(t.nation, F.col("s_nationkey") == F.col("n_nationkey"))
        .join(t.region.filter("r_name = 'EUROPE'"), F.col("n_regionkey") == F.col("r_regionkey"))
    )
    least = offers.groupBy(F.col("ps_partkey").alias("least_part")).agg(F.min("ps_supplycost").alias("least"))
    return (
        t.part.filter((F.col("p_size") == 15) & F.col("p_type").endswith("BRASS"))
        .join(offers, F.col("p_partkey") == F.col("ps_partkey"))
        .join(least, (F.col("p_partkey") == F.col("least_part")) & (F.col("ps_supplycost") == F.col("least")))
        .orderBy(F.desc("s_acctbal"), "n_name", "s_name", "p_partkey")
        .select("s_acctbal", "s_name", "n_name", "p_partkey", "p_mfgr", "s_address", "s_phone", "s_comment")
        .limit(100)
    )


def q3(F: Any, t: Any) -> Any:
    return (
        t.customer.filter(F.col("c_mktsegment") == "BUILDING")
        .join(t.orders, F.col("c_custkey") == F.col("o_custkey"))
        .join(t.lineitem, F.col("l_orderkey") == F.col("o_orderkey"))
        .filter((F.col("o_orderdate") < "1995-03-15") & (F.col("l_shipdate") > "1995-03-15"))
        .groupBy("l_orderkey", "o_orderdate", "o_shippriority")
        .agg(F.sum(_revenue(F)).alias("revenue"))
        .select("l_orderkey", "revenue", "o_orderdate", "o_shippriority")
        .orderBy(F.desc("revenue"), "o_orderdate")
        .limit(10)
    )


def q4(F: Any, t: Any) -> Any:
    late = t.lineitem.filter(
        (F.col("l_orderkey") == F.col("o_orderkey").outer()) & (F.col("l_commitdate") < F.col("l_receiptdate"))
    )
    return (
        t.orders.filter("o_orderdate >= DATE '1993-07-01' AND o_orderdate < DATE '1993-10-01'")
        .filter(late.exists())
        .groupBy("o_orderpriority")
        .agg(F.count("*").alias("order_count"))
    )


def q5(F: Any, t: Any) -> Any:
    return (
        t.customer.join(t.orders, F.col("c_custkey") == F.col("o_custkey"))
        .join(t.lineitem, F.col("l_orderkey") == F.col("o_orderkey"))
        .join(
            t.supplier,
            (F.col("l_suppkey") == F.col("s_suppkey")) & (F.col("c_nationkey") == F.col("s_nationkey")),
        )
        .join(t.nation, F.col("s_nationkey") == F.col("n_nationkey"))
        .join(t.region, F.col("n_regionkey") == F.col("r_regionkey"))
        .where("r_name = 'ASIA' AND o_orderdate >= DATE '1994-01-01' AND o_orderdate < DATE '1995-01-01'")
        .groupBy("n_name")
        .agg(F.sum(_revenue(F)).alias("revenue"))
        .sort("revenue", ascending=False)
    )


def q6(F: Any, t: Any) -> Any:
    return t.lineitem.filter(
        F.col("l_shipdate").between("1994-01-01", "1994-12-31")
        & F.expr("l_discount BETWEEN 0.05 AND 0.07")
        & (F.col("l_quantity") < 24)
    ).agg(F.sum(F.col("l_extendedprice") * F.col("l_discount")).alias("revenue"))


def q7(F: Any, t: Any) -> Any:
    first, second = t.nation.alias("n1"), t.nation.alias("n2")
    names = (F.col("n1.n_name"), F.col("n2.n_name"))
    return (
        t.supplier.join(t.lineitem, F.col("s_suppkey") == F.col("l_suppkey"))
        .join(t.orders, F.col("o_orderkey") == F.col("l_orderkey"))
        .join(t.customer, F.col("c_custkey") == F.col("o_custkey"))
        .join(first, F.col("s_nationkey") == F.col("n1.n_nationkey"))
        .join(second, F.col("c_nationkey") == F.col("n2.n_nationkey"))
        .filter(((names[0] == "FRANCE") & (names[1] == "GERMANY")) | ((names[0] == "GERMANY") & (names[1] == "FRANCE")))
        .filter(F.col("l_shipdate").between("1995-01-01", "1996-12-31"))
        .select(
            names[0].alias("supp_nation"),
            names[1].alias("cust_nation"),
            F.year("l_shipdate").alias("l_year"),
            _revenue(F).alias("volume"),
        )
        .groupBy("supp_nation", "cust_nation", "l_year")
        .agg(F.sum("volume").alias("revenue"))
    )


def q8(F: Any, t: Any) -> Any:
    first, second = t.nation.alias("n1"), t.nation.alias("n2")
    return (
        t.part.filter("p_type = 'ECONOMY ANODIZED STEEL'")
        .join(t.lineitem, F.col("p_partkey") == F.col("l_partkey"))
        .join(t.supplier, F.col("s_suppkey") == F.col("l_suppkey"))
        .join(t.orders, F.col("l_orderkey") == F.col("o_orderkey"))
        .join(t.customer, F.col("o_custkey") == F.col("c_custkey"))
        .join(first, F.col("c_nationkey") == F.col("n1.n_nationkey"))
        .join(t.region, F.col("n1.n_regionkey") == F.col("r_regionkey"))
        .join(second, F.col("s_nationkey") == F.col("n2.n_nationkey"))
        .filter((F.col("r_name") == "AMERICA") & F.col("o_orderdate").between("1995-01-01", "1996-12-31"))
        .select(F.year("o_orderdate").alias("o_year"), _revenue(F).alias("volume"), F.col("n2.n_name").alias("nation"))
        .groupBy("o_year")
        .agg(
            (F.sum(F.when(F.col("nation") == "BRAZIL", F.col("volume")).otherwise(0)) / F.sum("volume")).alias(
                "mkt_share"
            )
        )
    )


def q9(F: Any, t: Any) -> Any:
    return (
        t.part.filter(F.col("p_name").contains("green"))
        .join(t.lineitem, F.col("p_partkey") == F.col("l_partkey"))
        .join(t.supplier, F.col("s_suppkey") == F.col("l_suppkey"))
        .join(t.partsupp, (F.col("ps_suppkey") == F.col("l_suppkey")) & (F.col("ps_partkey") == F.col("l_partkey")))
        .join(t.orders, F.col("o_orderkey") == F.col("l_orderkey"))
        .join(t.nation, F.col("s_nationkey") == F.col("n_nationkey"))
        .withColumn("amount", _revenue(F) - F.col("ps_supplycost") * F.col("l_quantity"))
        .groupBy(F.col("n_name").alias("nation"), F.year("o_orderdate").alias("o_year"))
        .agg(F.sum("amount").alias("sum_profit"))
    )


def q10(F: Any, t: Any) -> Any:
    columns = ["c_custkey", "c_name", "c_acctbal", "c_phone", "n_name", "c_address", "c_comment"]
    return (
        t.customer.join(t.orders, F.col("c_custkey") == F.col("o_custkey"))
        .join(t.lineitem, F.col("l_orderkey") == F.col("o_orderkey"))
        .join(t.nation, F.col("c_nationkey") == F.col("n_nationkey"))
        .filter("o_orderdate >= DATE '1993-10-01' AND o_orderdate < DATE '1994-01-01' AND l_returnflag = 'R'")
        .groupBy(*columns)
        .agg(F.sum(_revenue(F)).alias("revenue"))
        .select("c_custkey", "c_name", "revenue", "c_acctbal", "n_name", "c_address", "c_phone", "c_comment")
        .orderBy(F.col("revenue").desc())
        .limit(20)
    )


def q11(F: Any, t: Any) -> Any:
    german = t.partsupp.join(t.supplier, F.col("ps_suppkey") == F.col("s_suppkey")).join(
        t.nation.filter("n_name = 'GERMANY'"), F.col("s_nationkey") == F.col("n_nationkey")
    )
    value = F.col("ps_supplycost") * F.col("ps_availqty")
    whole = german.select(F.sum(value) * F.expr("0.0001000000"))
    return german.groupBy("ps_partkey").agg(F.sum(value).alias("value")).filter(F.col("value") > whole.scalar())


def q12(F: Any, t: Any) -> Any:
    urgent = F.col("o_orderpriority").isin("1-URGENT", "2-HIGH")
    return (
        t.orders.join(t.lineitem, F.col("o_orderkey") == F.col("l_orderkey"))
        .filter(F.col("l_shipmode").isin(["MAIL", "SHIP"]))
        .filter("l_commitdate < l_receiptdate AND l_shipdate < l_commitdate")
        .filter("l_receiptdate >= DATE '1994-01-01' AND l_receiptdate < DATE '1995-01-01'")
        .groupBy("l_shipmode")
        .agg(
            F.sum(F.when(urgent, 1).otherwise(0)).alias("high_line_count"),
            F.sum(F.when(~urgent, 1).otherwise(0)).alias("low_line_count"),
        )
    )


def q13(F: Any, t: Any) -> Any:
    on = (F.col("c_custkey") == F.col("o_custkey")) & ~F.col("o_comment").like("%special%requests%")
    counted = (
        t.customer.join(t.orders, on, "left_outer").groupBy("c_custkey").agg(F.count("o_orderkey").alias("c_count"))
    )
    return counted.groupBy("c_count").agg(F.count("*").alias("custdist")).orderBy(F.desc("custdist"), F.desc("c_count"))


def q14(F: Any, t: Any) -> Any:
    promoted = F.when(F.col("p_type").startswith("PROMO"), _revenue(F)).otherwise(0)
    return (
        t.lineitem.join(t.part, F.col("l_partkey") == F.col("p_partkey"))
        .filter("l_shipdate >= DATE '1995-09-01' AND l_shipdate < DATE '1995-10-01'")
        .agg((F.expr("100.00") * F.sum(promoted) / F.sum(_revenue(F))).alias("promo_revenue"))
    )


def q15(F: Any, t: Any) -> Any:
    revenue = (
        t.lineitem.filter("l_shipdate >= DATE '1996-01-01' AND l_shipdate < DATE '1996-04-01'")
        .groupBy(F.col("l_suppkey").alias("supplier_no"))
        .agg(F.sum(_revenue(F)).alias("total_revenue"))
    )
    return (
        t.supplier.join(revenue, F.col("s_suppkey") == F.col("supplier_no"))
        .filter(F.col("total_revenue") == revenue.select(F.max("total_revenue")).scalar())
        .select("s_suppkey", "s_name", "s_address", "s_phone", "total_revenue")
    )


def q16(F: Any, t: Any) -> Any:
    complaints = t.supplier.filter(F.col("s_comment").like("%Customer%Complaints%")).select("s_suppkey")
    return (
        t.partsupp.join(t.part, F.col("p_partkey") == F.col("ps_partkey"))
        .filter((F.col("p_brand") != "Brand#45") & ~F.col("p_type").like("MEDIUM POLISHED%"))
        .filter(F.col("p_size").isin(49, 14, 23, 45, 19, 3, 36, 9))
        .filter(~F.col("ps_suppkey").isin(complaints))
        .groupBy("p_brand", "p_type", "p_size")
        .agg(F.countDistinct("ps_suppkey").alias("supplier_cnt"))
    )


def q17(F: Any, t: Any) -> Any:
    usual = t.lineitem.alias("l2").where(F.col("l2.l_partkey") == F.col("p_partkey").outer())
    return (
        t.lineitem.join(t.part, F.col("p_partkey") == F.col("l_partkey"))
        .filter("p_brand = 'Brand#23' AND p_container = 'MED BOX'")
        .filter(F.col("l_quantity") < usual.select(F.expr("0.2") * F.avg("l_quantity")).scalar())
        .agg((F.sum("l_extendedprice") / F.expr("7.0")).alias("avg_yearly"))
    )


def q18(F: Any, t: Any) -> Any:
    large = t.lineitem.groupBy("l_orderkey").agg(F.sum("l_quantity").alias("q")).filter("q > 300").select("l_orderkey")
    return (
        t.customer.join(t.orders, F.col("c_custkey") == F.col("o_custkey"))
        .join(t.lineitem, F.col("o_orderkey") == F.col("l_orderkey"))
        .join(large.withColumnRenamed("l_orderkey", "large"), F.col("o_orderkey") == F.col("large"), "left_semi")
        .groupBy("c_name", "c_custkey", "o_orderkey", "o_orderdate", "o_totalprice")
        .agg(F.sum("l_quantity"))
        .orderBy(F.desc("o_totalprice"), "o_orderdate")
        .limit(100)
    )


def q19(F: Any, t: Any) -> Any:
    def kind(brand: str, size: str, least: int, most: int) -> Any:
        containers = {
            "SM": ["SM CASE", "SM BOX", "SM PACK", "SM PKG"],
            "MED": ["MED BAG", "MED BOX", "MED PKG", "MED PACK"],
            "LG": ["LG CASE", "LG BOX", "LG PACK", "LG PKG"],
        }[size]
        return (
            (F.col("p_brand") == brand)
            & F.col("p_container").isin(containers)
            & F.col("l_quantity").between(least, least + 10)
            & F.col("p_size").between(1, most)
        )

    return (
        t.lineitem.join(t.part, F.col("p_partkey") == F.col("l_partkey"))
        .filter(F.col("l_shipmode").isin("AIR", "AIR REG") & (F.col("l_shipinstruct") == "DELIVER IN PERSON"))
        .filter(kind("Brand#12", "SM", 1, 5) | kind("Brand#23", "MED", 10, 10) | kind("Brand#34", "LG", 20, 15))
        .agg(F.sum(_revenue(F)).alias("revenue"))
    )


def q20(F: Any, t: Any) -> Any:
    sold = t.lineitem.where(
        (F.col("l_partkey") == F.col("ps_partkey").outer())
        & (F.col("l_suppkey") == F.col("ps_suppkey").outer())
        & F.col("l_shipdate").between("1994-01-01", "1994-12-31")
    ).select(F.expr("0.5") * F.sum("l_quantity"))
    forest = t.part.filter(F.col("p_name").startswith("forest")).select("p_partkey")
    offers = t.partsupp.filter(F.col("ps_partkey").isin(forest)).filter(F.col("ps_availqty") > sold.scalar())
    return (
        t.supplier.filter(F.col("s_suppkey").isin(offers.select("ps_suppkey")))
        .join(t.nation.filter("n_name = 'CANADA'"), F.col("s_nationkey") == F.col("n_nationkey"))
        .select("s_name", "s_address")
    )


def q21(F: Any, t: Any) -> Any:
    def other(name: str) -> Any:
        return t.lineitem.alias(name).where(
            (F.col(f"{name}.l_orderkey") == F.col("l1.l_orderkey").outer())
            & (F.col(f"{name}.l_suppkey") != F.col("l1.l_suppkey").outer())
        )

    return (
        t.supplier.join(t.lineitem.alias("l1"), F.col("s_suppkey") == F.col("l1.l_suppkey"))
        .join(t.orders.filter("o_orderstatus = 'F'"), F.col("o_orderkey") == F.col("l1.l_orderkey"))
        .join(t.nation.filter("n_name = 'SAUDI ARABIA'"), F.col("s_nationkey") == F.col("n_nationkey"))
        .filter("l1.l_receiptdate > l1.l_commitdate")
        .filter(other("l2").exists() & ~other("l3").where("l3.l_receiptdate > l3.l_commitdate").exists())
        .groupBy("s_name")
        .agg(F.count("*").alias("numwait"))
        .orderBy(F.desc("numwait"), "s_name")
        .limit(100)
    )


def q22(F: Any, t: Any) -> Any:
    codes = ["13", "31", "23", "29", "30", "18", "17"]
    some = t.customer.withColumn("cntrycode", F.substring("c_phone", 1, 2)).filter(F.col("cntrycode").isin(codes))
    usual = some.filter("c_acctbal > 0.00").select(F.avg("c_acctbal"))
    return (
        some.filter(F.col("c_acctbal") > usual.scalar())
        .join(t.orders, F.col("o_custkey") == F.col("c_custkey"), "left_anti")
        .groupBy("cntrycode")
        .agg(F.count("*").alias("numcust"), F.sum("c_acctbal").alias("totacctbal"))
    )


QUERIES: dict[int, Query] = {n: globals()[f"q{n}"] for n in range(1, 23)}
