"""Differentiate, integrate and what is between them, against updates with their moments, on every runner."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import Session
from tests.oracle.histories import random_cuts, random_history, undone
from tests.oracle.moments import CalculusJudge
from tests.oracle.runners import Runner

ORDERS = an.source("orders", "trial int, k long, v long")
PRICES = an.source("prices", "trial int, k long, w long")
SOURCES = {"orders": ORDERS, "prices": PRICES}
KEY = ["trial", "k"]
TIMES = 5
TABLES = {
    "orders": lambda rng, case: (case, rng.randrange(3), rng.randrange(3)),
    "prices": lambda rng, case: (case, rng.randrange(3), rng.randrange(3)),
}

D = ORDERS.differentiate()
BEFORE = PRICES.delay_to_neu()
EDGES = PRICES.select("trial", src="k", dst="w")


def along(nodes, edges=EDGES):
    return nodes.join(edges, on={"trial": "trial", "k": "src"}).select("trial", k="dst")


def reach(nodes, edges=EDGES):
    return rounds(nodes, lambda x: along(x, edges))


def rounds(nodes, body):
    """A few rounds: changes may be negative, and then there need not be a last one."""
    return nodes.iterate(lambda x: body(x).concat(nodes).distinct(), max_rounds=4, on_limit="stop")


_best = lambda _, group: [sum(row.v * count for row, count in group) % 7]  # noqa: E731 -- tasks know no tests

PLANS = {
    "the same": D.consolidate().integrate(),
    "linear": D.filter("v > 0")
    .select("trial", "k", u="v + k")
    .map(lambda r: (r.trial, r.u), "t int, u long")
    .integrate(),
    "failing": D.filter("6 div v > 1").integrate(),
    "beside itself": D.concat(ORDERS).integrate(),
    "after itself": D.concat(ORDERS.delay_to_neu()).integrate(),
    "forgotten": D.join(PRICES, on=KEY).delay_to_neu().integrate(),
    "as of": D.join(PRICES, on=KEY).integrate(),
    "as of before": D.join(BEFORE, on=KEY).integrate(),
    "as of, failing": D.join(PRICES, on=KEY).filter("v div w >= 0").integrate(),
    "at the same time": D.join(PRICES.differentiate(), on=KEY).integrate(),
    "as of the other way": PRICES.differentiate()
    .join(ORDERS, on=KEY)
    .concat(D.join(BEFORE, on=KEY).select("trial", "k", "w", "v"))
    .integrate(),
    "itself as of": D.join(ORDERS.select("trial", "k", u="v"), on=KEY).integrate(),
    "semijoin": D.semijoin(PRICES, on=KEY).integrate(),
    "semijoin before": D.semijoin(BEFORE, on=KEY).integrate(),
    "antijoin": D.antijoin(PRICES, on=KEY).integrate(),
    "antijoin the other way": PRICES.antijoin(D, on=KEY).integrate(),
    "left join": D.join(PRICES, on=KEY, how="left").integrate(),
    "full join": D.join(PRICES, on=KEY, how="full").integrate(),
    "as of a count": D.join(BEFORE.group_by(*KEY).agg(n="count(*)", total="sum(w)"), on=KEY).integrate(),
    "as of the least": D.join(PRICES.group_by(*KEY).agg(w="min(w)"), on=KEY).integrate(),
    "sums of changes": D.group_by(*KEY).agg(n="count(*)", total="sum(v)").integrate(),
    "counts of changes": D.select(*KEY).count().integrate(),
    "distinct changes": D.select(*KEY).distinct().integrate(),
    "threshold": D.select(*KEY).threshold(lambda n: min(abs(n), 2)).integrate(),
    "top_k": D.top_k(1, "v desc", per=KEY).integrate(),
    "a function": D.group_by(*KEY).reduce(_best, "best long").integrate(),
    "extremes": D.group_by(*KEY).agg(least="min(v)", all="collect_list(v)").integrate(),
    "then a count": D.join(PRICES, on=KEY).integrate().group_by(*KEY).agg(n="count(*)", total="sum(w)"),
    "as of what was as of": D.join(PRICES, on=KEY).integrate().differentiate().join(BEFORE, on=KEY).integrate(),
    "moments of moments": D.join(PRICES, on=KEY).differentiate().semijoin(PRICES, on=KEY).integrate().integrate(),
    "a loop in moments": reach(D.select(*KEY)).integrate(),
    "a loop over moments": reach(ORDERS.select(*KEY), EDGES.differentiate()).integrate(),
    "moments in a loop": rounds(ORDERS.select(*KEY), lambda x: along(x.differentiate()).integrate()),
    "both in a loop": rounds(
        ORDERS.select(*KEY),
        lambda x: along(x, EDGES.differentiate()).concat(along(x.differentiate(), EDGES.delay_to_neu())).integrate(),
    ),
    "moments around and in a loop": rounds(D.select(*KEY), lambda x: along(x.differentiate()).integrate()).integrate(),
    "moments in a loop in a loop": rounds(
        ORDERS.select(*KEY),
        lambda x: rounds(
            x, lambda y: along(y.differentiate(), EDGES.semijoin(x, on={"trial": "trial", "src": "k"})).integrate()
        ),
    ),
    "sums in moments in a loop": rounds(
        ORDERS, lambda x: x.differentiate().group_by(*KEY).agg(v="count(*) % 3").integrate()
    ),
    "a semijoin in moments in a loop": rounds(
        ORDERS.select(*KEY),
        lambda x: along(
            EDGES.differentiate().semijoin(x, on={"trial": "trial", "src": "k"}).select("trial", k="src").integrate()
        ),
    ),
    "distinct in moments in a loop": rounds(
        ORDERS.select(*KEY), lambda x: along(x).differentiate().distinct().join(PRICES, on=KEY).select(*KEY).integrate()
    ),
    "the most in moments in a loop": rounds(
        ORDERS, lambda x: x.differentiate().concat(x.delay_to_neu()).top_k(1, "v", per=KEY).integrate()
    ),
    "a loop in moments in a loop": rounds(ORDERS.select(*KEY), lambda x: rounds(x.differentiate(), along).integrate()),
}


def histories(seed, cases=4):
    rng = random.Random(seed)
    history = random_history(rng, TABLES, cases, TIMES, 2)
    late = undone(history, TIMES)
    return rng, {name: history[name] + late[name] for name in history}


# Where a step is dear, one of each kind: what holds updates, keeps moments, folds them, goes round.
FEW = [
    "linear",
    "failing",
    "as of",
    "as of before",
    "antijoin",
    "sums of changes",
    "a function",
    "moments of moments",
    "moments in a loop",
]


@pytest.mark.parametrize("seed", range(2))
def test_every_time_shows_what_its_moments_add_up_to(seed):
    rng, history = histories(seed)
    runner = Runner("memory", lambda _: Session(shards=1 + 2 * seed))
    judge = CalculusJudge(PLANS, history)
    for name, trace in runner.run(PLANS, SOURCES, history, random_cuts(rng, TIMES + 1)).items():
        judge.check(name, trace)


def test_every_runner_has_moments(runner: Runner):
    rng, history = histories(2)
    plans = {name: PLANS[name] for name in FEW}
    judge = CalculusJudge(plans, history)
    for name, trace in runner.run(plans, SOURCES, history, random_cuts(rng, TIMES + 1)).items():
        judge.check(name, trace)
