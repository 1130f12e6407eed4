"""What tests of latest share with other tests."""

from __future__ import annotations

import random

import altneu as an
from altneu import Collection
from tests.oracle.histories import History, Update
from tests.oracle.recompute import Row
from tests.oracle.runners import Judge

LOG = an.source("log", "trial int, id long, at long, v string", keep=True)
OTHER = an.source("other", "trial int, id long, at double, w long", keep=True)
SOURCES = {"log": LOG, "other": OTHER}
KEY = ["trial", "id"]
CASES, TIMES = 6, 9


def plans() -> dict[str, Collection]:
    """By name; every log that is read only grows, whatever is done with what is latest in it."""
    log, other = LOG.latest(KEY, "at"), OTHER.latest(KEY, order=["at", "w"])
    there = log.filter("v is not null")
    return {
        "latest": log,
        "without tombstones": there,
        "of two columns": other,
        "of everything": LOG.latest(key=(), order=["at", "id"]),
        "by its own key": LOG.latest("id", order="id"),
        "above a filter": LOG.filter("v <> 'b' or v is null").latest(KEY, "at"),
        "above what may fail": OTHER.select(*KEY, "w", at="cast(6 div w as double)").latest(KEY, "at"),
        "below what may fail": other.select(*KEY, y="6 div w"),
        "above several": LOG.select(*KEY, "at").concat(OTHER.select(*KEY, at="cast(w as bigint)")).latest(KEY, "at"),
        "above a join": LOG.join(OTHER.select(*KEY, "w"), on=KEY).latest(KEY, ["w", "at"]),
        "below a join": there.join(other, on=KEY),
        "below a join on another column": there.join(other, on={"trial": "trial", "at": "id"}),
        "below a reduce": there.group_by("trial").agg(n="count(*)", last="max(at)", vs="collect_list(v)"),
        "twice": there.concat(log.filter("v is null")),
        "in two orders": log.concat(LOG.latest(KEY, "v").negate()),
        "minus what is gone": LOG.select(*KEY).distinct().antijoin(there, on=KEY),
    }


PLANS = plans()


def row_of_log(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([None, *range(6)]), rng.choice(["a", "b", None])


def row_of_other(rng: random.Random, case: int) -> Row:
    at = rng.choice([None, 0.5, -1.0, float("inf"), -float("inf"), 2.0])
    return case, rng.choice([1, 2, 3]), at, rng.choice([0, 1, 2, None])


def growing(rng: random.Random) -> History:
    """Events at any of the times, delivered more than once: with a count of two, at once, or again much later."""
    history: History = {}
    for name, make in (("log", row_of_log), ("other", row_of_other)):
        updates: list[Update] = []
        for case in range(CASES):
            events = [make(rng, case) for _ in range(rng.randint(0, 12))]
            for event in events:
                updates += [
                    (event, rng.randrange(TIMES), rng.choice([1, 1, 2])) for _ in range(rng.choice([1, 1, 2, 3]))
                ]
        rng.shuffle(updates)
        history[name] = updates
    return history


HISTORY = growing(random.Random(1))
JUDGE = Judge(PLANS, HISTORY)
