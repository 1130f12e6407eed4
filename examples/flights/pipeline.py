"""The views, each written once: altneu keeps them right while the flights change."""

from __future__ import annotations

import altneu as an
from altneu import Collection
from examples.flights import data

ENOUGH_FLIGHTS = 200
"""A route is judged when this many of its flights have landed."""


def views(enough: int = ENOUGH_FLIGHTS) -> dict[str, Collection]:
    """Build the views over the sources ``flights``, ``planes`` and ``airlines``, by name."""
    flights = an.source("flights", data.FLIGHTS)
    planes = an.source("planes", "value string").join_function(an.cdc.debezium(data.PLANES))  # events of a database
    airlines = an.source("airlines", data.AIRLINES)

    # How many flights of each day stand where: the departure board.
    board = flights.group_by("day", "origin", "state").agg(flights="count(*)")

    # Who leaves late, and when in the day. `hours` adds up fractions: a sum of doubles, of which each one rounds.
    delays = (
        flights.filter("dep_delay is not null")
        .group_by("carrier", "hour")
        .agg(
            flights="count(*)", mean="avg(dep_delay)", hours="sum(greatest(dep_delay, 0) / 60)", worst="max(dep_delay)"
        )
    )

    # Where passengers wait longest for those who arrive.
    routes = (
        flights.filter("state = 'landed'")
        .group_by("origin", "dest")
        .agg(flights="count(*)", delay="avg(arr_delay)")
        .filter(f"flights >= {enough}")
        .top_k(10, by="delay desc, origin, dest")
    )

    # Every flight with its airline's name and its plane, if the plane is known.
    fleet = (
        flights.join(airlines, on="carrier")
        .join(planes, on="tailnum", how="left")
        .select(
            "id", "day", "airline", "flight", "origin", "dest", "state", "dep_delay", "manufacturer", "model", "seats"
        )
    )

    # Who left in the last 24 hours: flights come into this view when they leave, and go a day later by themselves.
    left = "sched_dep + dep_delay"
    recent = (
        flights.filter(f"logical_now() >= {left} and logical_now() < {left} + {data.DAY}")
        .group_by("origin")
        .agg(flights="count(*)", mean="avg(dep_delay)", late="count_if(dep_delay > 15)")
    )
    return {"board": board, "delays": delays, "routes": routes, "fleet": fleet, "recent": recent}
