"""Nexmark's queries as DataFrames."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Query = Callable[[Any, Any, Any], Any]


def q0(F: Any, W: Any, t: Any) -> Any:
    return t.bid.select("auction", "bidder", "price", "date_time", "extra")


def q1(F: Any, W: Any, t: Any) -> Any:
    return q0(F, W, t).withColumn("price", F.expr("0.908 * price"))


def q2(F: Any, W: Any, t: Any) -> Any:
    return t.bid.filter(F.col("auction") % 123 == 0).select("auction", "price")


def q3(F: Any, W: Any, t: Any) -> Any:
    return (
        t.auction.join(t.person, t.auction.seller == t.person.id)
        .filter((F.col("category") == 10) & F.col("state").isin("OR", "ID", "CA"))
        .select("name", "city", "state", t.auction.id)
    )


def _valid(F: Any, t: Any) -> Any:
    a, b = t.auction.alias("a"), t.bid.alias("b")
    return a.join(
        b,
        (F.col("a.id") == F.col("b.auction")) & F.col("b.date_time").between(F.col("a.date_time"), F.col("a.expires")),
    )


def q4(F: Any, W: Any, t: Any) -> Any:
    final = _valid(F, t).groupBy("a.id", "category").agg(F.max("price").alias("final"))
    return final.groupBy("category").agg(F.avg("final").alias("average"))


def q5(F: Any, W: Any, t: Any) -> Any:
    counted = (
        t.bid.groupBy("auction", F.window("date_time", "10 seconds", "2 seconds").alias("w"))
        .agg(F.count("*").alias("num"))
        .select("auction", "num", F.col("w.start").alias("started"), F.col("w.end").alias("ended"))
    )
    most = counted.groupBy("started", "ended").agg(F.max("num").alias("most"))
    return counted.join(most, ["started", "ended"]).filter("num >= most").select("auction", "num", "started", "ended")


def q6(F: Any, W: Any, t: Any) -> Any:
    place = F.row_number().over(W.partitionBy("a.id", "a.seller").orderBy(F.desc("b.price"), "b.date_time"))
    last = (
        _valid(F, t)
        .select("seller", "id", F.col("price").alias("final"), "b.date_time", place.alias("place"))
        .filter("place <= 1")
    )
    recent = W.partitionBy("seller").orderBy("date_time").rowsBetween(-10, W.currentRow)
    return last.select("seller", "id", F.avg("final").over(recent).alias("average"))


def q7(F: Any, W: Any, t: Any) -> Any:
    most = (
        t.bid.groupBy(F.window("date_time", "10 seconds"))
        .agg(F.max("price").alias("most"))
        .select("most", "window.start", "window.end")
    )
    inside = (
        (F.col("price") == F.col("most")) & (F.col("date_time") >= F.col("start")) & (F.col("date_time") < F.col("end"))
    )
    return t.bid.join(most, inside).select("auction", "price", "bidder", "date_time", "extra")


def q8(F: Any, W: Any, t: Any) -> Any:
    def seen(table: Any, *names: str) -> Any:
        spans = table.groupBy(*names, F.window("date_time", "10 seconds").alias("w")).count()
        return spans.select(*names, F.col("w.start").alias("started"), F.col("w.end").alias("ended"))

    sellers = seen(t.auction, "seller").withColumnRenamed("seller", "id")
    return seen(t.person, "id", "name").join(sellers, ["id", "started", "ended"]).select("id", "name", "started")


def q9(F: Any, W: Any, t: Any) -> Any:
    place = F.row_number().over(W.partitionBy("a.id").orderBy(F.col("b.price").desc(), F.col("b.date_time").asc()))
    bid = [
        "auction",
        "bidder",
        "price",
        F.col("b.date_time").alias("bid_date_time"),
        F.col("b.extra").alias("bid_extra"),
    ]
    return _valid(F, t).select("a.*", *bid, place.alias("place")).filter(F.col("place") <= 1).drop("place")


def q10(F: Any, W: Any, t: Any) -> Any:
    formats = {"day": "yyyy-MM-dd", "minute": "HH:mm"}
    return q0(F, W, t).withColumns({name: F.date_format("date_time", form) for name, form in formats.items()})


def q11(F: Any, W: Any, t: Any) -> Any:
    before = F.lag("date_time").over(W.partitionBy("bidder").orderBy("date_time"))
    gap = F.unix_micros("date_time") - F.unix_micros(before)
    marked = t.bid.select("bidder", "date_time", F.when(gap < 10_000_000, 0).otherwise(1).alias("begins"))
    so_far = (
        W.partitionBy("bidder").orderBy("date_time", F.desc("begins")).rowsBetween(W.unboundedPreceding, W.currentRow)
    )
    return (
        marked.withColumn("session", F.sum("begins").over(so_far))
        .groupBy("bidder", "session")
        .agg(
            F.count("*").alias("bid_count"),
            F.min("date_time").alias("started"),
            (F.max("date_time") + F.expr("INTERVAL '10' SECOND")).alias("ended"),
        )
        .drop("session")
    )


def q13(F: Any, W: Any, t: Any) -> Any:
    return t.bid.join(t.side_input, t.bid.auction % 10000 == t.side_input.key).select(
        "auction", "bidder", "price", "date_time", "value"
    )


def q14(F: Any, W: Any, t: Any) -> Any:
    hour = F.hour("date_time")
    kind = F.when((hour >= 8) & (hour <= 18), "dayTime").when((hour <= 6) | (hour >= 20), "nightTime")
    return (
        t.bid.withColumn("price", F.expr("0.908 * price"))
        .filter((F.col("price") > 1000000) & (F.col("price") < 50000000))
        .select(
            "auction",
            "bidder",
            "price",
            kind.otherwise("otherTime").alias("bid_time_type"),
            "date_time",
            "extra",
            (F.length("extra") - F.length(F.replace("extra", F.lit("c"), F.lit("")))).alias("c_counts"),
        )
    )


def _ranks(F: Any, what: str, *, distinct: str | None = None) -> list[Any]:
    ranks = {
        "rank1": F.col("price") < 10000,
        "rank2": F.col("price").between(10000, 999999),
        "rank3": F.col("price") >= 1000000,
    }
    if distinct is None:
        return [F.count_if(test).alias(f"{rank}_{what}") for rank, test in ranks.items()]
    return [F.countDistinct(F.when(test, F.col(distinct))).alias(f"{rank}_{what}") for rank, test in ranks.items()]


def _day(F: Any) -> Any:
    return F.date_format("date_time", "yyyy-MM-dd").alias("day")


def _counts(F: Any) -> list[Any]:
    return [
        F.count("*").alias("total_bids"),
        *_ranks(F, "bids"),
        F.countDistinct("bidder").alias("total_bidders"),
        *_ranks(F, "bidders", distinct="bidder"),
        F.countDistinct("auction").alias("total_auctions"),
        *_ranks(F, "auctions", distinct="auction"),
    ]


def q15(F: Any, W: Any, t: Any) -> Any:
    return t.bid.groupBy(_day(F)).agg(*_counts(F))


def q16(F: Any, W: Any, t: Any) -> Any:
    minute = F.max(F.date_format("date_time", "HH:mm")).alias("minute")
    return t.bid.groupBy("channel", _day(F)).agg(minute, *_counts(F))


def q17(F: Any, W: Any, t: Any) -> Any:
    prices = [
        f("price").alias(f"{n}_price") for n, f in (("min", F.min), ("max", F.max), ("avg", F.avg), ("sum", F.sum))
    ]
    return t.bid.groupBy("auction", _day(F)).agg(F.count("*").alias("total_bids"), *_ranks(F, "bids"), *prices)


def q18(F: Any, W: Any, t: Any) -> Any:
    place = F.row_number().over(W.partitionBy("bidder", "auction").orderBy(F.desc("date_time")))
    return t.bid.withColumn("place", place).filter("place <= 1").drop("place")


def q19(F: Any, W: Any, t: Any) -> Any:
    place = F.row_number().over(W.partitionBy("auction").orderBy(F.desc("price"), "date_time"))
    return t.bid.select("*", place.alias("place")).where("place <= 10")


def q20(F: Any, W: Any, t: Any) -> Any:
    b, a = t.bid, t.auction
    return b.join(a.filter(a.category == 10), b.auction == a.id).select(
        *("auction", "bidder", "price", "channel", "url"),
        b.date_time.alias("bid_date_time"),
        b.extra.alias("bid_extra"),
        *("item_name", "description", "initial_bid", "reserve"),
        a.date_time.alias("auction_date_time"),
        *("expires", "seller", "category"),
        a.extra.alias("auction_extra"),
    )


def q21(F: Any, W: Any, t: Any) -> Any:
    found, lower = F.regexp_extract("url", "(&|^)channel_id=([^&]*)", 2), F.lower("channel")
    known = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
    number = F.when(lower == "apple", "0")
    for name in ("google", "facebook", "baidu"):
        number = number.when(lower == name, known[name])
    return t.bid.filter((found != "") | lower.isin(*known)).select(
        "auction", "bidder", "price", "channel", number.otherwise(found).alias("channel_id")
    )


def q22(F: Any, W: Any, t: Any) -> Any:
    parts = [F.split_part("url", F.lit("/"), F.lit(n + 3)).alias(f"dir{n}") for n in (1, 2, 3)]
    return t.bid.select("auction", "bidder", "price", "channel", *parts)


QUERIES: dict[str, Query] = {f"q{n}": globals()[f"q{n}"] for n in range(23) if n != 12}
