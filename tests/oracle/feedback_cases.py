"""What tests of feedback from one time to a later one share with other tests."""

from __future__ import annotations

import altneu as an
from altneu import Collection

LEFT = an.source("left", "trial int, k long, a long", keep=True)
RIGHT = an.source("right", "trial int, k long, b string", keep=True)
KEY = ["trial", "k"]


def plans() -> dict[str, Collection]:
    """By name."""
    keys, ends = LEFT.select(*KEY), RIGHT.select(*KEY)
    columns = {"on": "trial int, k long"}

    def since(before):
        return (before.concat(keys).filter("k > 0").distinct().antijoin(ends, on=KEY),)

    def counted(before):
        """Grows with every tick at which there are rows: it never settles while there are any."""
        now = before.concat(keys.filter("k > 0").distinct().select("*", n="0L"))
        return (now.group_by(*KEY).agg(n="pmod(max(n) + 1, 5)"),)

    def both(first, second):
        return second.concat(keys).filter("k > 0").distinct(), first.semijoin(ends, on=KEY).distinct()

    (on,) = an.feedback(since, **columns)
    (later,) = an.feedback(since, by=3, **columns)
    (growing,) = an.feedback(counted, n="trial int, k long, n long")
    one, two = an.feedback(both, by={"first": 1, "second": 2}, first=columns["on"], second=columns["on"])
    (failing,) = an.feedback(
        lambda before: (before.concat(LEFT.select("trial", x="6 div a")).filter("x > 1").distinct(),),
        x="trial int, x long",
    )
    (gone,) = an.feedback(lambda before: (keys.concat(before.negate()),), x="trial int, k long")
    (reaching,) = an.feedback(
        lambda before: (
            before.concat(keys)
            .filter("k > 0")
            .distinct()
            .iterate(lambda x: x.concat(x.select("trial", k="least(k + 1, 3)")).distinct())
            .antijoin(ends, on=KEY),
        ),
        x="trial int, k long",
    )
    (upon,) = an.feedback(lambda before: (before.concat(on).distinct().semijoin(keys, on="trial"),), y=columns["on"])
    return {
        "since": on,
        "three ticks ago": later,
        "never settles": growing,
        "by each other, one": one,
        "by each other, two": two.select("trial"),
        "fails": failing,
        "alternates": gone,
        "with a loop inside": reaching,
        "upon another": upon,
        "grouped after": on.group_by("trial").agg(n="count(*)", m="max(k)"),
        "joined after": growing.join(RIGHT, on=KEY).select("trial", "n", "b"),
        "in a loop": on.iterate(lambda x: x.concat(x.select("trial", k="least(k + 1, 4)")).distinct()),
    }


PLANS = plans()
