"""Views over three small sources, and steps that change these a little."""

from __future__ import annotations

import altneu as an

T, U = an.source("t", "k long, v long"), an.source("u", "k long, w string", key="k")
POINTS = an.source("p", "k long, v long", time=("system", "event"))
PLANS = {
    "rows": T,
    "joined": T.join(U, "k"),
    "semijoin": T.semijoin(U, "k"),
    "sums": T.group_by("k").agg(n="count(*)", s="sum(v)", m="max(v)"),
    "top": T.top_k(2, "v desc", per="k"),
    "reach": T.iterate(lambda x: x.join(T, on={"v": "k"}).select("k", v="`right.v`").concat(T).distinct()),
    "locked": T.asof_join(U, "k", mode="locked"),
    "arrived": T.select("*", at="update_time()"),
    "fails": T.select("k", q="10 div (v - 2)"),
    "latest": U.group_by().agg(n="count(*)"),
    "for a while": T.temporal("v", "v + 4"),
    "by two times": POINTS.group_by("k").agg(s="sum(v)", m="max(v)"),
}


def changed(session, rng, held):
    for _ in range(rng.randint(0, 4)):
        there = sorted(held.elements())
        row, diff = (rng.randrange(3), rng.randrange(4)), 1
        if there and rng.random() < 0.45:
            row, diff = rng.choice(there), -1
        held[row] += diff
        session.insert("t", [row], diff=diff)
        session.insert("p", [row], time=(session.lower, rng.randrange(3)), diff=diff)
    if rng.random() < 0.5:
        session.insert_or_update("u", [(rng.randrange(3), rng.choice("xyz"))])
