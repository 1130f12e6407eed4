"""What tests of asof share with other tests."""

from __future__ import annotations

import random

import altneu as an
from altneu import Collection
from tests.oracle.histories import random_history
from tests.oracle.recompute import Row
from tests.oracle.runners import Judge

LEFT = an.source("left", "trial int, k long, at long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, at long, b string", keep=True)
SOURCES = {"left": LEFT, "right": RIGHT}
KEY = ["trial", "k"]
CASES, TIMES = 6, 6


def plans() -> dict[str, Collection]:
    """By name."""

    def of(**options) -> Collection:
        return LEFT.asof_join(RIGHT, KEY, time="at", mode="revising", **options)

    result = {
        f"{direction}, {how}, {tolerance}, {exact}": of(
            direction=direction, how=how, tolerance=tolerance, allow_exact_matches=exact
        )
        for direction, how, tolerance, exact in (
            ("backward", "inner", None, True),
            ("backward", "left", 2, False),
            ("forward", "left", None, False),
            ("forward", "inner", 1, True),
            ("nearest", "left", 1, True),
            ("nearest", "inner", None, False),
        )
    }
    renamed = RIGHT.select("trial", "b", key="k", stamp="at")
    return result | {
        "one key": LEFT.asof_join(RIGHT, "trial", time="at", mode="revising", how="left"),
        "of other names": LEFT.asof_join(
            renamed, {"trial": "trial", "k": "key"}, left_time="at", right_time="stamp", mode="revising", how="left"
        ),
        "by a cast key": LEFT.asof_join(
            RIGHT.select("trial", "at", "b", k="CAST(k AS double)"), KEY, time="at", mode="revising", how="left"
        ),
        "of no columns": LEFT.select("trial", "at").asof_join(
            RIGHT.select("trial", "at"), "trial", time="at", mode="revising"
        ),
        "above what may fail": LEFT.select("*", x="6 div a").asof_join(RIGHT, KEY, time="at", mode="revising"),
        "of few columns": of(how="left").select("trial", "a", "b"),
        "ties": of(how="left", ties="b desc"),
        "ties, forward": of(direction="forward", ties=["b nulls last"]),
        "ties, nearest, of few columns": LEFT.asof_join(
            RIGHT.select("trial", "at", "k", "b", c="length(b)", d="k"), "trial", time="at", mode="revising",
            direction="nearest", how="left", ties="d desc, c nulls last"
        ).select("trial", "a", k="`right.k`"),
        "ties in a loop": LEFT.select("trial", "k", "at").iterate(
            lambda x: x.asof_join(RIGHT.select("trial", "at", "k"), "trial", time="at", mode="revising",
                                  direction="forward", allow_exact_matches=False, ties="k desc")
            .select("trial", k="`right.k`", at="`right.at`").concat(LEFT.select("trial", "k", "at")).distinct()
        ),
        "below a filter": of().filter("b <> 'x' and a > 0"),
        "below what may fail": of().select("trial", y="6 div a"),
        "below a reduce": of(how="left").group_by("trial", "b").agg(n="count(*)", last="max(at)"),
        "below a join": of().join(LEFT.select(*KEY, z="a"), on=KEY),
        "of itself": LEFT.asof_join(
            LEFT.select("trial", "k", "at", c="a"), KEY, time="at", mode="revising", allow_exact_matches=False
        ),
        "the left time is a key": LEFT.asof_join(
            RIGHT, {"trial": "trial", "at": "k"}, time="at", mode="revising", how="left", direction="forward"
        ),
        "the right time is a key": LEFT.asof_join(
            RIGHT, {"trial": "trial", "k": "at"}, time="at", mode="revising", direction="nearest", tolerance=2, ties="b"
        ),
        "both times are keys": LEFT.asof_join(RIGHT, ["trial", "at"], time="at", mode="revising", how="left"),
        "in a loop": LEFT.select("trial", "k", "at").iterate(
            lambda x: x.asof_join(RIGHT.select("trial", "at"), "trial", time="at", mode="revising", direction="forward",
                                  allow_exact_matches=False)
            .select("trial", "k", at="`right.at`").concat(LEFT.select("trial", "k", "at")).distinct()
        ),
        "in a loop on the right": RIGHT.select("trial", "k", "at").iterate(
            lambda x: LEFT.select("trial", "k", "at").asof_join(x, "trial", time="at", mode="revising", how="left")
            .select("trial", k="`right.k`", at="coalesce(`right.at`, at) + 1").filter("at < 4")
            .concat(RIGHT.select("trial", "k", "at")).distinct(), max_rounds=12, on_limit="stop"
        ),
    }  # fmt: skip


PLANS = plans()


def row_of_left(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([None, *range(6)]), rng.randrange(3)


def row_of_right(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([None, *range(6)]), rng.choice(["x", "y", None])


TABLES = {"left": row_of_left, "right": row_of_right}
HISTORY = random_history(random.Random(1), TABLES, CASES, TIMES, 3)
JUDGE = Judge(PLANS, HISTORY)
