"""Differentiate, integrate and what is between them, against updates with their moments, on every runner."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.plan.rewrite import optimise
from altneu.runtime import base, portion
from altneu.trace import spine
from tests.oracle.histories import random_cuts, random_history, undone
from tests.oracle.moments import CalculusJudge, Meaning, Moving
from tests.oracle.runners import Runner, contents_of, errors_of, row_text, table_of

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


@pytest.mark.parametrize("seed", range(2))
def test_every_time_shows_what_its_moments_add_up_to(seed):
    rng, history = histories(seed)
    runner = Runner("memory", lambda _: Session(shards=1 + 2 * seed))
    judge = CalculusJudge(PLANS, history)
    for name, trace in runner.run(PLANS, SOURCES, history, random_cuts(rng, TIMES + 1)).items():
        judge.check(name, trace)


def test_every_runner_has_moments(runner: Runner):
    rng, history = histories(2)
    few = {name: PLANS[name] for name in FEW}
    judge = CalculusJudge(few, history)
    for name, trace in runner.run(few, SOURCES, history, random_cuts(rng, TIMES + 1)).items():
        judge.check(name, trace)


MANY = 40


@pytest.fixture
def folds_at_once(monkeypatch):
    """Every batch is merged with those before it, and folded, in the step in which it comes."""
    for name, value in {"TINY_ROWS": 0, "TINY_BATCHES": 0}.items():
        monkeypatch.setattr(spine, name, value)
    monkeypatch.setattr(base, "FOLD_ROWS", 1)


@pytest.mark.parametrize(
    "name", ["as of", "as of before", "sums of changes", "moments of moments", "moments in a loop"]
)
def test_steps_and_folding_change_nothing(name, folds_at_once):
    """Old rows are seen at the least time that any reader asks for, and must not seem to be of the same time."""
    rng = random.Random(7)
    history = random_history(rng, TABLES, 2, MANY, 1)
    judge = CalculusJudge({name: PLANS[name]}, history)
    seen = []
    for cuts, retain in (([MANY], None), (range(1, MANY + 1), None), (range(1, MANY + 1), "all"), (range(3, 43, 3), 4)):
        for ahead in (False, True):
            runner = Runner("memory", lambda _, retain=retain: Session(retain=retain), ahead=ahead)
            trace = runner.run({name: PLANS[name]}, SOURCES, history, cuts)[name]
            seen.append(sorted((u for step in trace.steps for u in step.changes if u[1] < MANY), key=repr))
    judge.check(name, trace)
    assert all(changes == seen[0] for changes in seen)
    assert seen[0]


@pytest.mark.parametrize("seed", range(2))
def test_an_advance_in_many_steps_is_as_one(monkeypatch, seed):
    """What is not due yet waits for its moments, and is counted by the epochs of these."""
    monkeypatch.setattr(portion, "STEP_ROWS", 3)
    _, history = histories(5 + seed, cases=2)
    few = {name: PLANS[name] for name in FEW}
    judge = CalculusJudge(few, history)
    for cuts in ([TIMES + 1], [2, TIMES + 1]):
        runner = Runner("memory", lambda _: Session(), ahead=True, together=bool(seed))
        for name, trace in runner.run(few, SOURCES, history, cuts).items():
            judge.check(name, trace)


def test_hashes_that_collide_change_nothing():
    rng, history = histories(3)
    few = {name: PLANS[name] for name in FEW}
    with hash_bits(2):
        traces = Runner("memory", lambda _: Session(shards=3)).run(few, SOURCES, history, random_cuts(rng, TIMES + 1))
    judge = CalculusJudge(few, history)
    for name, trace in traces.items():
        judge.check(name, trace)


KEPT = {name: an.source(name, c.schema, keep=True) for name, c in SOURCES.items()}
LATE = plans(**KEPT)


@pytest.mark.parametrize("retain", [None, "all"])
def test_a_late_view_takes_what_is_there_as_having_come_at_once(retain):
    """As much of history as is kept is as it was; what came before has come at its beginning."""
    _, history = histories(4)
    start = TIMES // 2
    since = 0 if retain else start - 1
    moved = {name: [(row, max(t, since), n) for row, t, n in updates] for name, updates in history.items()}
    judge = CalculusJudge(LATE, moved)
    with Session(retain=retain) as session:
        for name, source in KEPT.items():
            session.maintain(name, source)
        for lower, upper in [(0, start), *((t, t + 1) for t in range(start, TIMES + 1))]:
            for name, source in KEPT.items():
                session.insert(
                    name,
                    table_of([u for u in history[name] if lower <= u[1] < upper], source),
                    time="time",
                    diff="diff",
                )
            session.advance(to=upper)
            for name, plan in LATE.items() if upper == start else ():
                session.maintain(f"late {name}", plan)
            for name in LATE:
                wanted, errors = judge.expected(name, upper - 1)
                view = session.view(f"late {name}")
                assert contents_of(view) == Counter({r: n for r, n in wanted.items() if n > 0}), (name, upper)
                negative = {
                    ("NEGATIVE_MULTIPLICITY", row_text(view.schema.names, r)) for r, n in wanted.items() if n < 0
                }
                assert errors_of(view) == errors | negative, (name, upper)


EVENTS = an.source("events", "trial int, k long, v long", time=("system", "event"))
AT_TWO_TIMES = {
    "the same": EVENTS.differentiate().consolidate().integrate(),
    "as of": EVENTS.differentiate().join(PRICES, on=KEY).integrate(),
    "itself as of before": EVENTS.differentiate()
    .join(EVENTS.select("trial", "k", u="v").delay_to_neu(), on=KEY)
    .integrate(),
    "itself as of": EVENTS.differentiate().join(EVENTS.select("trial", "k", u="v"), on=KEY).integrate(),
    "sums of changes": EVENTS.differentiate().group_by(*KEY).agg(n="count(*)", total="sum(v)").integrate(),
    "distinct": EVENTS.select(*KEY).differentiate().distinct().integrate(),
    "top_k": EVENTS.differentiate().concat(EVENTS.delay_to_neu()).top_k(1, "v", per=KEY).integrate(),
    "antijoin": EVENTS.differentiate().antijoin(PRICES, on=KEY).integrate(),
    "moments of moments": EVENTS.differentiate()
    .differentiate()
    .group_by(*KEY)
    .agg(n="count(*)")
    .integrate()
    .integrate(),
    "a loop in moments": reach(
        EVENTS.differentiate().select(*KEY), PRICES.select("trial", src="k", dst="w")
    ).integrate(),
    "moments in a loop": rounds(EVENTS.select(*KEY), lambda x: x.differentiate().semijoin(PRICES, on=KEY).integrate()),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", AT_TWO_TIMES)
def test_moments_of_two_times(name, seed):
    """Also, for the last seed, when event times long ago are not kept apart: then rows are about the first that is."""
    rng = random.Random(seed)
    plan = AT_TWO_TIMES[name]
    one = random_history(rng, TABLES, 2, 3, 1)
    rows = [(row, (s, rng.randrange(3)), n) for row, s, n in one["orders"]]
    rows += [(row, (min(s + 1, 2), e), -n) for row, (s, e), n in rows if rng.random() < 0.3]
    prices = [(row, (t,), n) for row, t, n in one["prices"]]
    steps = [(0, 3)] if rng.random() < 0.3 else [(0, 1), (1, 2), (2, 3)]
    apart = [(t, upper - 1 if seed == 2 else 0) for lower, upper in steps for t in range(lower, upper)]
    moved = [(row, (s, max(e, dict(apart)[s])), n) for row, (s, e), n in rows]
    meaning = Meaning({"events": Moving.of(("event",), moved), "prices": Moving.of((), prices)})
    wanted = meaning.of(optimise(plan.node))
    with Session(retain="all", shards=1 + seed, retain_events=0 if seed == 2 else None) as session:
        view = session.maintain("v", plan)
        for lower, upper in steps:
            for row, at, n in rows:
                if lower <= at[0] < upper:
                    session.insert("events", [row], time=at, diff=n)
            for row, (t,), n in prices if "prices" in session._engine.declared else ():
                if lower <= t < upper:
                    session.insert("prices", [row], time=t, diff=n)
            session.advance(to=upper)
        for at in product(range(3), range(apart[-1][1], 4)):
            held = wanted.at(at)
            assert contents_of(view, at) == Counter({r: n for r, n in held.items() if n > 0}), at
            negative = {("NEGATIVE_MULTIPLICITY", row_text(plan.columns, r)) for r, n in held.items() if n < 0}
            assert errors_of(view, at) == meaning.failed(at) | negative, at
