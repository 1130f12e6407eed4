"""What tests of explain share with other tests."""

from __future__ import annotations

import altneu as an

FLIGHTS = an.source("flights", "carrier string, origin string, delay long")
CARRIERS = an.source("carriers", "carrier string, name string", keep=True)
PLANS = {
    "linear": FLIGHTS.filter("delay > 0").select("carrier", hours="delay div 60"),
    "join": FLIGHTS.join(CARRIERS, on="carrier"),
    "left join": FLIGHTS.join(CARRIERS, on="carrier", how="left"),
    "self-join": FLIGHTS.join(FLIGHTS, on="origin"),
    "accumulable": FLIGHTS.group_by("carrier").agg(n="count(*)", delay="avg(delay)"),
    "hierarchical": FLIGHTS.group_by("carrier").agg(worst="max(delay)"),
    "everything": FLIGHTS.group_by().agg(n="count(*)"),
    "top of everything": FLIGHTS.top_k(3, "delay desc"),
    "windows": FLIGHTS.window(
        place="rank() over (partition by carrier order by delay desc)",
        near="avg(delay) over (partition by carrier order by origin rows 2 preceding)",
        all="count(*) over (partition by origin)",
    ),
    "distinct": FLIGHTS.select("origin").distinct(),
    "no second exchange": FLIGHTS.join(CARRIERS, on="carrier").group_by("carrier").agg(n="count(*)"),
    "as of": FLIGHTS.differentiate().join(CARRIERS.delay_to_neu(), on="carrier").integrate(),
    "diamond": FLIGHTS.distinct().concat(FLIGHTS.distinct().negate()),
}
