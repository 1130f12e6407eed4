"""Random plans with much to move: filters and bounds above joins, sums and groups, of what is shared and not."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import altneu as an
from altneu import Collection

Updates = list[tuple[tuple[int, int | None, int | None], int, int]]
Pick = Callable[[], Collection]
SOURCES = {
    "p": an.source("p", "trial int, k long, v long"),
    "q": an.source("q", "trial int, k long, v long", keep=True),
}
KEY = ["trial", "k"]
FILTERS = [
    "v > 0",
    "k = 1",
    "k < 2 and v <> k",
    "v is null or k > 0",
    "k is null",
    "3 div v > 0",
    "4 div k < 4 and v >= 1",
    "v between 1 and 4",
    "trial >= 0 and k + v > 1",
    "false or v = 2",
]
BOUNDS = [
    "logical_now() >= v",
    "logical_now() < v",
    "logical_now() >= k and logical_now() < v",
    "logical_now() <= v",
    "logical_now() < v + 2",
    "logical_now() >= v and (logical_now() < k or k is null)",
    "logical_now() >= 6 div v and k > 0",
]
CASE = "case when k > 0 then v else k end"
VALUES = ["v", "k", "v + 1", "pmod(v, 3)", "coalesce(v, k)", "4 div v", "2", "null", CASE]


def random_plan(rng: random.Random, verbs: int, *, of: Sequence[str] = ()) -> Collection:
    """A collection some verbs away from the sources, with a filter and a bound at the top.

    ``of``: only these verbs, and only a projection at the top.
    """
    result = list(SOURCES.values())
    joins = 0
    for _ in range(verbs):
        name = rng.choice([n for n in of or VERBS if joins < 3 or "join" not in n])
        joins += "join" in name
        result.append(VERBS[name](rng, lambda: rng.choice([result[-1], result[-1], *result])))
    top = result[-1]
    if of:
        return top.select(*rng.choice([KEY, ["trial", "v"], ["trial"], [*KEY, "v"]]))
    for texts in rng.sample([FILTERS, BOUNDS], rng.randint(1, 2)):
        top = top.filter(rng.choice(texts))
    return top


FALLIBLE = ["6 div v > 1", "4 div k > 3", "3 div (k - v) > 2", "1 div (v - 1) < 0", "4 div (k - 1) < 3"]
FALLIBLE_BOUNDS = ["logical_now() <= 4 div k", "logical_now() < 2 div (k - v)", "logical_now() > 4 div k"]


def random_difference(rng: random.Random, verbs: int) -> Collection:
    """What is left of a collection when rows of it cancel, below tests that may fail where another rejects.

    Antijoins and outer joins are such differences, and so is one that is written as a sum.
    """
    result = list(SOURCES.values())
    for at in range(verbs):
        verb = rng.choice(BETWEEN if at < verbs - 1 and rng.random() < 0.4 else DIFFERENCES)
        result.append(VERBS[verb](rng, iter([result[-1], *(rng.choice(result) for _ in range(2))]).__next__))
    top = result[-1]
    tests = [*rng.sample(FALLIBLE, 2), *(rng.choice(texts) for texts in [FALLIBLE_BOUNDS, BOUNDS, FILTERS])]
    for text in rng.sample(tests, rng.randint(2, 4)):
        top = top.filter(text)
    return top


def _pair(rng: random.Random, joined: Collection) -> Collection:
    v = rng.choice(["v", "`right.v`", "v + `right.v`", "coalesce(`right.v`, v)", "v"])
    kept = joined.filter(rng.choice(["`right.v` > 1", "v < `right.v`"])) if rng.random() < 0.3 else joined
    return kept.select("trial", "k", v=f"cast({v} as bigint)")


WINDOWS = [
    "row_number() over (partition by trial, k order by v desc)",
    "rank() over (partition by trial order by v, k)",
    "v - lag(v, 1, k) over (partition by trial order by k)",
    "sum(v) over (partition by trial, k)",
    "max(v) over (partition by trial order by k rows between 1 preceding and 1 following)",
    "first_value(k) over (partition by trial, pmod(v, 2) order by v)",
    "count(*) over (partition by trial order by v range between 1 preceding and current row)",
]


VERBS: dict[str, Callable[[random.Random, Pick], Collection]] = {
    "filter": lambda rng, c: c().filter(rng.choice(FILTERS)),
    "filter again": lambda rng, c: c().filter(rng.choice(FILTERS)),
    "bound": lambda rng, c: c().filter(rng.choice(BOUNDS)),
    "select": lambda rng, c: c().select(*KEY, v=f"cast({rng.choice(VALUES)} as bigint)"),
    "swap": lambda _, c: c().select("trial", k="v", v="k"),
    "wide": lambda rng, c: c().select("*", w=rng.choice(VALUES)).filter("w is not null").select(*KEY, "v"),
    "negate": lambda _, c: c().negate(),
    "repeat": lambda _, c: c().repeat_row("pmod(v, 3)"),
    "series": lambda _, c: c().generate_series("1", "pmod(v, 4)", as_="i").select(*KEY, v="cast(i as bigint)"),
    "delay": lambda rng, c: c().delay(by=rng.randint(1, 2)),
    "map": lambda _, c: c().map(lambda r: (r.trial, r.k, r.v and r.v - 1), "trial int, k long, v long"),
    "concat": lambda _, c: c().concat(c()),
    "minus": lambda _, c: c().concat(c().negate()),
    "consolidate": lambda _, c: c().consolidate(),
    "inspect": lambda _, c: c().inspect(look),
    "inner join": lambda rng, c: _pair(rng, c().join(c(), on=KEY)),
    "join on a value": lambda _, c: (
        c().join(c().select("trial", j="k", w="v"), on={"trial": "trial", "v": "j"}).select("trial", "k", v="w")
    ),
    "outer join": lambda rng, c: _pair(rng, c().join(c(), on=KEY, how=rng.choice(["left", "right", "full"]))),
    "semijoin": lambda _, c: c().semijoin(c(), on=KEY),
    "antijoin": lambda _, c: c().antijoin(c(), on={"trial": "trial", "v": "k"}),
    "antijoin on the key": lambda _, c: c().antijoin(c(), on=KEY),
    "all but some": lambda _, c: _all_but(c(), c(), c()),
    "left join": lambda _, c: c().join(c(), on=KEY, how="left").select(*KEY, "v"),
    "self-join": lambda rng, c: _selfjoin(rng, c()),
    "distinct": lambda _, c: c().distinct(),
    "count": lambda _, c: c().count().select(*KEY, v="count"),
    "threshold": lambda _, c: c().threshold(lambda n: min(max(n, 0), 2)),
    "sum": lambda _, c: c().group_by(*KEY).agg(v="pmod(sum(v), 7)", m="count(*)").select(*KEY, "v"),
    "max": lambda _, c: c().group_by("trial").agg(k="max(k)", v="min(v)"),
    "top_k": lambda rng, c: c().top_k(2, "v desc", per=rng.choice([KEY, ["trial"]])),
    "some of the aggregates": lambda rng, c: (
        c().group_by(*KEY).agg(a="sum(v)", b="max(v)", n="count(v)").select(*KEY, v=rng.choice(["a", "b", "n", "1L"]))
    ),
    "one key, two joins": lambda rng, c: _shared_key(rng, c(), c()),
    "number of pairs": lambda _, c: (
        c().join(c(), on=KEY).select("trial", v="1L").group_by("trial").agg(k="count(*)", v="max(v)")
    ),
    "false": lambda _, c: c().filter("trial < 0 and k = 1 and false"),
    "top of wide rows": lambda rng, c: (
        c()
        .select(*KEY, "v", x="pmod(v, 2)", y="v + k")
        .top_k(2, rng.choice(["v", "x desc", "y"]), per=rng.choice([KEY, ["trial"]]))
        .select(*KEY, v=rng.choice(["v", "x", "y"]))
    ),
    "window": lambda rng, c: c().window(w=rng.choice(WINDOWS)).select(*KEY, v="cast(w as bigint)"),
    "first of a window": lambda rng, c: (
        c()
        .window(n=WINDOWS[0], was="lag(v) over (partition by trial, k order by v desc)")
        .filter(rng.choice(["n <= 2", "3 > n and v > 0", "n = 2", "n = 1 and k > 0"]))
        .select(*KEY, v=rng.choice(["v", "was", "cast(n as bigint)"]))
    ),
    "some of the windows": lambda rng, c: (
        c()
        .select(*KEY, "v", x="pmod(v, 2)", y="v + k")
        .window(a=rng.choice(WINDOWS), b=rng.choice(WINDOWS))
        .select(*KEY, v=f"cast({rng.choice(['a', 'b', 'x', 'y', 'v'])} as bigint)")
    ),
    "latest": lambda rng, c: c().latest(rng.choice([KEY, ["trial"]]), "v"),
    "group": lambda _, c: c().group_by(*KEY).reduce(rows_of, "v long").select(*KEY, "v"),
    "twice distinct": lambda _, c: c().distinct().consolidate().filter("k > 0").distinct().consolidate(),
    "everything": lambda _, c: c().select("k", "trial", v="v").select(*KEY, "v"),
}
DIFFERENCES = ["antijoin", "antijoin on the key", "outer join", "left join", "all but some", "minus"]
BETWEEN = ["select", "swap", "wide", "filter", "concat", "consolidate", "distinct", "inner join", "everything"]
NOT_MOVED = [
    n for n in VERBS if "filter" not in n and n not in ("bound", "swap", "repeat", "series", "delay", "threshold")
]


def _shared_key(rng: random.Random, one: Collection, other: Collection) -> Collection:
    """Two joins and a reduce of one collection by one key, each of which reads other columns."""
    wide = one.select(*KEY, "v", w="k + 1", x="10 div v")
    joins = (
        wide.join(other, on=KEY).select(*KEY, v=rng.choice(["v", "w", "`right.v`"]))
        for other in [other, other.negate()]
    )
    return wide.group_by(*KEY).agg(v=rng.choice(["max(v)", "min(w)", "count(distinct v)"])).concat(*joins)


def _all_but(all_rows: Collection, one: Collection, other: Collection) -> Collection:
    """Inclusion and exclusion: the parts are made in different ways, and what is common to them cancels."""
    of_one, of_other = (all_rows.semijoin(c, on=KEY) for c in (one, other))
    return all_rows.concat(of_one.negate(), of_other.negate(), of_one.semijoin(other, on=KEY))


def _selfjoin(rng: random.Random, collection: Collection) -> Collection:
    return _pair(rng, collection.join(collection, on=KEY))


def look(row: object, time: int, diff: int) -> None:
    """Look at an update: it is never nothing."""
    assert diff


def twice(count: int) -> int:
    """A threshold."""
    return 2 * count


def two(row: Any) -> tuple[int, int]:
    """Two columns of a row."""
    return row.k, row.a


def rows_of(key: tuple[int, int], rows: Iterable[tuple[Any, int]]) -> Iterator[int]:
    """How many rows a group has."""
    yield sum(n for _, n in rows)


def largest(key: tuple[int, ...], rows: Iterable[tuple[Any, int]]) -> Iterator[int]:
    """The largest value of a column in a group."""
    yield max(row.a for row, _ in rows)


def random_rows(rng: random.Random) -> dict[str, Counter[tuple[int, int | None, int | None]]]:
    """A row or two for every source, of few values."""
    return {
        name: Counter((0, rng.choice([0, 1, 2, 2]), rng.choice([0, 0, 1, 2])) for _ in range(rng.randint(0, 2)))
        for name in SOURCES
    }


def random_history(rng: random.Random, trials: int, times: int) -> Updates:
    """Small trials of their own, so that an error in one leaves the others to be compared; what goes away was there."""
    result: Updates = []
    for trial in range(trials):
        there: list[tuple[int, int | None, int | None]] = []
        for time in range(times):
            for _ in range(rng.randint(0, 2)):
                if there and rng.random() < 0.3:
                    result.append((there.pop(rng.randrange(len(there))), time, -1))
                else:
                    row = (trial, rng.choice([0, 1, 2, None]), rng.choice([0, 1, 2, 3, 5, None]))
                    there.append(row)
                    result.append((row, time, 1))
    return result
