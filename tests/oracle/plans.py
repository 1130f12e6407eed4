"""Random whole plans: verbs upon verbs over collections of one shape, with sharing, diamonds and self-joins."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import altneu as an
from altneu import Collection

Pick = Callable[[], Collection]
Verb = Callable[[random.Random, Pick], Collection]
SOURCES = {
    "p": an.source("p", "trial int, k long, v long", keep=True),
    "q": an.source("q", "trial int, k long, v long", keep=True),
}
KEY = ["trial", "k"]


def row_of(rng: random.Random, case: int) -> tuple[object, ...]:
    return case, rng.choice([0, 1, 1, 2, None]), rng.choice([0, 1, 2, 4, None])


TABLES = {"p": row_of, "q": row_of}


def random_plan(
    rng: random.Random, verbs: int, sources: Mapping[str, Collection] = SOURCES, among: Sequence[str] | None = None
) -> Collection:
    """A collection that is some verbs away from the sources; every verb takes any of the collections made so far.

    ``among`` names the verbs, in an order; all of them otherwise. What a verb makes is consolidated now and then,
    whatever it is: that says nothing, but where rows are.
    """
    result = list(sources.values())
    joins = 0
    for _ in range(verbs):
        name = rng.choice([n for n in among or VERBS if joins < MOST_JOINS or "join" not in n])
        joins += "join" in name
        verb = VERBS[name](rng, lambda: rng.choice([result[-1], *result]))
        result.append(verb.consolidate() if rng.random() < 0.3 else verb)
    return result[-1]


MOST_JOINS = 3  # counts multiply


def _pair(joined: Collection) -> Collection:
    return joined.select(*KEY, v="pmod(coalesce(v, 1) + 2 * coalesce(`right.v`, 2), 5)")


def _largest(key: tuple[Any, ...], rows: list[tuple[Any, int]]) -> Iterable[int]:
    yield max((r.v for r, _ in rows if r.v is not None), default=len(rows))


def _largest_of_all(_: tuple[Any, ...], rows: list[tuple[Any, int]]) -> Iterable[tuple[int, int, int]]:
    yield 0, len(rows), max((r.v for r, _ in rows if r.v is not None), default=0)


WINDOWS = [
    "count(*) over ()",
    "max(v) over ()",
    "row_number() over (partition by trial, k order by v desc)",
    "rank() over (partition by trial order by v, k)",
    "v - lag(v, 1, k) over (partition by trial order by k)",
    "sum(v) over (partition by trial, k)",
    "max(v) over (partition by trial order by k rows between 1 preceding and 1 following)",
    "first_value(k) over (partition by trial, pmod(v, 2) order by v)",
    "count(*) over (partition by trial order by v range between 1 preceding and current row)",
]


VERBS: dict[str, Verb] = {
    "filter": lambda rng, c: c().filter(rng.choice(["v > 0", "k = 1 or v is null", "v <> k", "3 div v > 0"])),
    "select": lambda rng, c: c().select(*KEY, v=rng.choice(["v + 1", "pmod(v * 3, 5)", "coalesce(v, k)", "4 div v"])),
    "swap": lambda _, c: c().select("trial", k="v", v="k"),
    "map": lambda _, c: c().map(lambda r: (r.trial, r.k, r.v and r.v - 1), "trial int, k long, v long"),
    "flat_map": lambda _, c: c().flat_map(
        lambda r: [(r.trial, r.k, n) for n in range(r.v % 3)], "trial int, k long, v long"
    ),
    "negate": lambda _, c: c().negate(),
    "concat": lambda _, c: c().concat(c()),
    "minus": lambda _, c: c().concat(c().negate()),
    "consolidate": lambda _, c: c().consolidate(),
    "sample": lambda rng, c: c().sample(0.6, by=rng.choice(["k", KEY, []])),
    "inner join": lambda _, c: _pair(c().join(c(), on=KEY)),
    "outer join": lambda rng, c: _pair(c().join(c(), on=KEY, how=rng.choice(["left", "right", "full"]))),
    "semijoin": lambda _, c: c().semijoin(c(), on=KEY),
    "antijoin": lambda _, c: c().antijoin(c(), on={"trial": "trial", "v": "k"}),
    "distinct": lambda _, c: c().distinct(),
    "count": lambda _, c: c().count().select(*KEY, v="count"),
    "threshold": lambda _, c: c().threshold(lambda n: min(max(n, 0), 2)),
    "sum": lambda _, c: c().group_by(*KEY).agg(v="pmod(sum(v), 7)"),
    "max": lambda _, c: c().group_by("trial").agg(k="max(k)", v="min(v)"),
    "count distinct": lambda _, c: c().group_by(*KEY).agg(v="count(distinct v)"),
    "top_k": lambda rng, c: c().top_k(2, "v desc", per=rng.choice([KEY, ["trial"]])),
    "top_k of all": lambda rng, c: c().top_k(rng.choice([1, 5]), "v desc, k, trial"),
    "sum of all": lambda _, c: c().group_by().agg(trial="max(trial)", k="count(*)", v="pmod(sum(v), 7)"),
    "reduce of all": lambda _, c: c().group_by().reduce(_largest_of_all, "trial int, k long, v long"),
    "window": lambda rng, c: c().window(w=rng.choice(WINDOWS)).select(*KEY, v="pmod(cast(w as bigint), 7)"),
    "reduce": lambda _, c: c().group_by(*KEY).reduce(_largest, "v long"),
    "weights": lambda _, c: c().weighted(an.weights.Sums("v")).consolidate().select(*KEY, v="pmod(v, 7)"),
    "least weights": lambda _, c: c().weighted(an.weights.Min("v")).consolidate(),
}
