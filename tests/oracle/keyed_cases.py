"""What tests of keyed share with other tests."""

from __future__ import annotations

import altneu as an
from altneu import Collection
from tests.oracle.plans import KEY

P = an.source("p", "trial int, k long, v long", key=KEY)
Q = an.source("q", "trial int, k long, v long", distinct=True)
SOURCES = {"p": P, "q": Q}


def plans(sources: dict[str, Collection]) -> dict[str, Collection]:
    p, q = sources.values()
    return {
        "rows": p,
        "set": q,
        "some columns": p.select("trial", "k"),
        "a filter": p.filter("v > 1 or v is null"),
        "what may fail": p.select(*KEY, w="4 div v"),
        "grouped by the key": p.group_by(*KEY).agg(n="count(*)", v="max(v)"),
        "grouped by another column": p.group_by("trial", "v").agg(n="count(*)", s="sum(k)"),
        "joined by the key": p.join(q, on=KEY),
        "joined with itself": p.join(p, on={"trial": "trial", "v": "k"}),
        "three joined": p.join(q, on=KEY).join(p.select("trial", "k", w="v"), on=KEY),
        "outer": p.join(q, on=KEY, how="full"),
        "what the set lacks": p.antijoin(q, on=KEY),
        "distinct": q.distinct(),
        "both": p.concat(q).count(),
        "the greatest": q.top_k(1, by="v desc", per=KEY),
        "a window": p.window(n="row_number() over (partition by trial order by v, k)"),
        "moments": p.differentiate().integrate(),
    }


PLANS = plans(SOURCES)
