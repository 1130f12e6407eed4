"""What tests of locked share with other tests."""

from __future__ import annotations

import random

import altneu as an
from altneu import Collection
from tests.oracle.histories import History, accumulated, random_history
from tests.oracle.recompute import Row
from tests.oracle.runners import Judge

LEFT = an.source("left", "trial int, k long, at long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, at long, b string", keep=True)
SOURCES = {"left": LEFT, "right": RIGHT}
KEY = ["trial", "k"]
CASES, TIMES = 6, 7


def plans() -> dict[str, Collection]:
    """By name."""

    def of(**options) -> Collection:
        return LEFT.asof_join(RIGHT, KEY, mode="locked", **options)

    return {
        "of the key": of(),
        "of the key, left": of(how="left"),
        "of the key, simultaneous out": of(how="left", simultaneous=False),
        "of one key": LEFT.select("trial", "k").asof_join(RIGHT.select("trial", "b"), "trial", mode="locked"),
        "by time, left": of(time="at", how="left"),
        "by time, inner": of(time="at", direction="nearest", tolerance=2),
        "by time, simultaneous out": of(time="at", simultaneous=False, allow_exact_matches=False, how="left"),
        "by time, ties": LEFT.asof_join(RIGHT, "trial", mode="locked", time="at", how="left", ties="k desc, b"),
        "by time, forward": LEFT.select("trial", "at").asof_join(
            RIGHT.select("trial", "at"), "trial", time="at", mode="locked", direction="forward", how="left"
        ),
        "by time, the left time is a key": LEFT.asof_join(
            RIGHT, {"trial": "trial", "at": "k"}, mode="locked", time="at", direction="forward"
        ),
        "by time, both times are keys": LEFT.asof_join(RIGHT, ["trial", "at"], mode="locked", time="at", how="left"),
        "above a join": LEFT.join(RIGHT.select(*KEY, c="b"), on=KEY).asof_join(
            RIGHT.select("trial", "at", "b"), "trial", mode="locked", time="at"
        ),
        "right above a reduce": LEFT.select("trial", "a").asof_join(
            RIGHT.group_by("trial").agg(n="count(*)", last="max(at)"), "trial", mode="locked", how="left"
        ),
        "below a filter": of(time="at").filter("b <> 'x' and a > 0").select("trial", "a"),
        "below what may fail": of(time="at").select("trial", y="6 div a"),
        "below a reduce": of(how="left").group_by("trial", "b").agg(n="count(*)"),
        "locked twice": of(time="at", how="left")
        .select("trial", "k", "at", "a", c="b")
        .asof_join(RIGHT.select("trial", "b"), "trial", mode="locked"),
    }


PLANS = plans()


def row_of_left(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 1, 2, None]), rng.choice([None, 0, 2, 3, 5]), rng.randrange(2)


def row_of_right(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([None, *range(6)]), rng.choice(["x", "y", None])


TABLES = {"left": row_of_left, "right": row_of_right}
HISTORY = random_history(random.Random(1), TABLES, CASES, TIMES, 3)
JUDGE = Judge(PLANS, HISTORY)


def present(history: History, time: int) -> History:
    """The history of whoever comes at ``time``: what is there then came then."""
    return {
        name: [(row, time, n) for row, n in accumulated(updates, time).items()] + [u for u in updates if u[1] > time]
        for name, updates in history.items()
    }
