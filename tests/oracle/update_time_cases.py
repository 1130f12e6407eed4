"""What tests of update time share with other tests."""

from __future__ import annotations

import altneu as an
from altneu import Collection

LEFT = an.source("left", "trial int, k long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, b string", keep=True)
KEY = ["trial", "k"]
TIMED = LEFT.select("*", came=an.update_time())


def plans() -> dict[str, Collection]:
    """By name."""
    both = LEFT.join(RIGHT, on=KEY)
    return {
        "of a source": TIMED,
        "of fewer columns": LEFT.select("trial", "k").select("trial", came="update_time()"),
        "in an expression": LEFT.select("trial", "a", x="6 div (update_time() - a)"),
        "filtered before": LEFT.filter("a > 0").select("*", came="update_time()"),
        "filtered after": TIMED.filter("a > 0 and came > 2").select("trial", "came"),
        "in a filter": LEFT.filter("update_time() % 2 = 0 and k = 1"),
        "of what comes and goes by itself": LEFT.filter("logical_now() >= a * 3").select("*", came="update_time()"),
        "for some time": LEFT.filter("logical_now() < update_time() + 2"),
        "since when": LEFT.group_by(*KEY).agg(since="min(update_time())", n="count(*)"),
        "since when at all": LEFT.select(*KEY).distinct().select("*", since="update_time()"),
        "by when": LEFT.group_by("trial", came="update_time()").agg(n="count(*)"),
        "of a join": both.select("*", came="update_time()").select("trial", "b", "came"),
        "below a join": TIMED.join(RIGHT, on=KEY).select("trial", "b", "came"),
        "of groups": LEFT.group_by("trial").agg(n="count(*)", m="max(a)").select("*", came="update_time()"),
        "of what may be owed": LEFT.select(*KEY).concat(RIGHT.select(*KEY).negate()).select("*", came="update_time()"),
        "twice": TIMED.filter("came > 1").select("trial", "came").select("*", again="update_time()"),
        "delayed": LEFT.delay(every=3).select("*", came="update_time()"),
        "of copies": LEFT.unnest("array(1, 1, update_time())", as_="n").select("trial", "n", came="update_time()"),
        "beside a loop": TIMED.select("trial", "came").iterate(
            lambda x: x.concat(x.select("trial", came="least(came + 1, 9)")).distinct()
        ),
        "locked and timed": TIMED.asof_join(RIGHT, KEY, mode="locked").select("*", met="update_time()"),
    }


PLANS = plans()
