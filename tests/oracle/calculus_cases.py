"""What tests of calculus share with other tests."""

from __future__ import annotations

import random

import altneu as an
from tests.oracle.histories import random_history, undone

ORDERS = an.source("orders", "trial int, k long, v long")
PRICES = an.source("prices", "trial int, k long, w long")
SOURCES = {"orders": ORDERS, "prices": PRICES}
KEY = ["trial", "k"]
TIMES = 5
TABLES = {
    "orders": lambda rng, case: (case, rng.randrange(3), rng.randrange(3)),
    "prices": lambda rng, case: (case, rng.randrange(3), rng.randrange(3)),
}


def along(nodes, edges):
    return nodes.join(edges, on={"trial": "trial", "k": "src"}).select("trial", k="dst")


def reach(nodes, edges):
    return rounds(nodes, lambda x: along(x, edges))


def rounds(nodes, body):
    """A few rounds: changes may be negative, and then there need not be a last one."""
    return nodes.iterate(lambda x: body(x).concat(nodes).distinct(), max_rounds=4, on_limit="stop")


_best = lambda _, group: [sum(row.v * count for row, count in group) % 7]  # noqa: E731 -- tasks know no tests


def plans(orders, prices):
    d, before = orders.differentiate(), prices.delay_to_neu()
    edges = prices.select("trial", src="k", dst="w")
    return {
        "the same": d.consolidate().integrate(),
        "linear": d.filter("v > 0")
        .select("trial", "k", u="v + k")
        .map(lambda r: (r.trial, r.u), "t int, u long")
        .integrate(),
        "failing": d.filter("6 div v > 1").integrate(),
        "beside itself": d.concat(orders).integrate(),
        "after itself": d.concat(orders.delay_to_neu()).integrate(),
        "forgotten": d.join(prices, on=KEY).delay_to_neu().integrate(),
        "as of": d.join(prices, on=KEY).integrate(),
        "moments": d.moments(),
        "moments of matches": d.join(before, on=KEY).concat(orders.join(before, on=KEY)).moments("m"),
        "moments of sums": d.group_by(*KEY).agg(total="sum(v)").moments().filter("moment = 'neu' or total > 0"),
        "moments told twice": d.differentiate().semijoin(prices, on=KEY).moments("inner").moments("outer"),
        "moments told, and one column": d.moments().select("trial", "moment").count(),
        "moments told in a loop": rounds(
            orders.select(*KEY),
            lambda x: along(x.differentiate(), edges).moments().filter("moment = 'neu'").negate().select(*KEY),
        ),
        "as of before": d.join(before, on=KEY).integrate(),
        "as of, failing": d.join(prices, on=KEY).filter("v div w >= 0").integrate(),
        "at the same time": d.join(prices.differentiate(), on=KEY).integrate(),
        "as of the other way": prices.differentiate()
        .join(orders, on=KEY)
        .concat(d.join(before, on=KEY).select("trial", "k", "w", "v"))
        .integrate(),
        "itself as of": d.join(orders.select("trial", "k", u="v"), on=KEY).integrate(),
        "semijoin": d.semijoin(prices, on=KEY).integrate(),
        "semijoin before": d.semijoin(before, on=KEY).integrate(),
        "antijoin": d.antijoin(prices, on=KEY).integrate(),
        "antijoin the other way": prices.antijoin(d, on=KEY).integrate(),
        "left join": d.join(prices, on=KEY, how="left").integrate(),
        "full join": d.join(prices, on=KEY, how="full").integrate(),
        "as of a count": d.join(before.group_by(*KEY).agg(n="count(*)", total="sum(w)"), on=KEY).integrate(),
        "as of the least": d.join(prices.group_by(*KEY).agg(w="min(w)"), on=KEY).integrate(),
        "sums of changes": d.group_by(*KEY).agg(n="count(*)", total="sum(v)").integrate(),
        "counts of changes": d.select(*KEY).count().integrate(),
        "distinct changes": d.select(*KEY).distinct().integrate(),
        "threshold": d.select(*KEY).threshold(lambda n: min(abs(n), 2)).integrate(),
        "top_k": d.top_k(1, "v desc", per=KEY).integrate(),
        "a function": d.group_by(*KEY).reduce(_best, "best long").integrate(),
        "extremes": d.group_by(*KEY).agg(least="min(v)", all="collect_list(v)").integrate(),
        "then a count": d.join(prices, on=KEY).integrate().group_by(*KEY).agg(n="count(*)", total="sum(w)"),
        "as of what was as of": d.join(prices, on=KEY).integrate().differentiate().join(before, on=KEY).integrate(),
        "a circle as of": d.select("trial", a="k", b="v")
        .join(before.select("trial", b="k", c="w"), on=["trial", "b"])
        .join(orders.select("trial", a="k", c="v"), on=["trial", "a", "c"])
        .integrate(),
        "moments of moments": d.join(prices, on=KEY).differentiate().semijoin(prices, on=KEY).integrate().integrate(),
        "by event time, in moments": d.asof_join(
            prices, KEY, left_time="v", right_time="w", mode="revising", how="left"
        ).integrate(),
        "changes of prices, by event time": orders.asof_join(
            prices.differentiate(), KEY, left_time="v", right_time="w", mode="revising"
        ).integrate(),
        "by event time, in moments in a loop": rounds(
            orders,
            lambda x: (
                x.differentiate()
                .asof_join(prices, KEY, left_time="v", right_time="w", mode="revising")
                .select("trial", "k", v="w")
                .integrate()
            ),
        ),
        "triangles as of": d.join(prices.select("trial", v="k", x="w"), on=["trial", "v"])
        .join(before.select("trial", "k", x="w"), on=[*KEY, "x"])
        .integrate(),
        "a loop in moments": reach(d.select(*KEY), edges).integrate(),
        "a loop over moments": reach(orders.select(*KEY), edges.differentiate()).integrate(),
        "moments in a loop": rounds(orders.select(*KEY), lambda x: along(x.differentiate(), edges).integrate()),
        "both in a loop": rounds(
            orders.select(*KEY),
            lambda x: (
                along(x, edges.differentiate()).concat(along(x.differentiate(), edges.delay_to_neu())).integrate()
            ),
        ),
        "moments around and in a loop": rounds(
            d.select(*KEY), lambda x: along(x.differentiate(), edges).integrate()
        ).integrate(),
        "moments in a loop in a loop": rounds(
            orders.select(*KEY),
            lambda x: rounds(
                x, lambda y: along(y.differentiate(), edges.semijoin(x, on={"trial": "trial", "src": "k"})).integrate()
            ),
        ),
        "sums in moments in a loop": rounds(
            orders, lambda x: x.differentiate().group_by(*KEY).agg(v="count(*) % 3").integrate()
        ),
        "a semijoin in moments in a loop": rounds(
            orders.select(*KEY),
            lambda x: along(
                edges.differentiate()
                .semijoin(x, on={"trial": "trial", "src": "k"})
                .select("trial", k="src")
                .integrate(),
                edges,
            ),
        ),
        "distinct in moments in a loop": rounds(
            orders.select(*KEY),
            lambda x: along(x, edges).differentiate().distinct().join(prices, on=KEY).select(*KEY).integrate(),
        ),
        "the most in moments in a loop": rounds(
            orders, lambda x: x.differentiate().concat(x.delay_to_neu()).top_k(1, "v", per=KEY).integrate()
        ),
        "a loop in moments in a loop": rounds(
            orders.select(*KEY), lambda x: reach(x.differentiate(), edges).integrate()
        ),
    }


PLANS = plans(ORDERS, PRICES)


def histories(seed, cases=4):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, cases, TIMES, 2)
    late = undone(history, TIMES)
    return rng, {name: history[name] + late[name] for name in history}


# Where a step is dear, one of each kind: what holds updates, keeps moments, folds them, goes round.
FEW = [
    "moments of matches",
    "linear",
    "failing",
    "as of",
    "as of before",
    "antijoin",
    "sums of changes",
    "a function",
    "moments of moments",
    "triangles as of",
    "moments in a loop",
]
