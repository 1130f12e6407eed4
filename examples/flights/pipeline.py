"""The views, each written once: altneu keeps them right while the flights change."""

from __future__ import annotations

import altneu as an
from altneu import Collection
from examples.flights import data

ENOUGH_FLIGHTS = 200
"""A route is judged when this many of its flights have landed."""


def views(enough: int = ENOUGH_FLIGHTS) -> dict[str, Collection]:
    """Build the views over the sources ``flights``, ``planes``, ``airlines`` and ``weather``, by name."""
    flights = an.source("flights", data.FLIGHTS)
    planes = an.source("planes", "value string").join_function(an.cdc.debezium(data.PLANES))  # events of a database
    airlines = an.source("airlines", data.AIRLINES)
    observations = an.source("weather", data.WEATHER)

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
    return {
        "board": board,
        "delays": delays,
        "routes": routes,
        "fleet": fleet,
        "recent": recent,
        "chains": delay_chains(flights),
        "weather": departures_in_weather(flights, observations),
    }


def departures_in_weather(flights: Collection, observations: Collection) -> Collection:
    """Each departure with the last observation at its airport: as it was known then, and as it turned out.

    An hour's observation is published later than that, so whoever left in between was told of an earlier hour. That is
    locked in. Beside it stands the last hour before the departure, which comes when it is published.

    Shape:  ``known`` and ``observed`` are the ticks of the two observations, null where there is none.
    """
    left = flights.filter("dep_delay is not null").select("id", "day", "origin", departed="sched_dep + dep_delay")
    times = {"left_time": "departed", "right_time": "observed"}
    told = left.asof_join(observations, "origin", mode="locked", how="left", **times)
    told = told.select("id", "day", "origin", "departed", known="observed", known_temp="temp", known_visib="visib")
    return told.asof_join(observations, "origin", mode="revising", how="left", **times)


def delay_chains(flights: Collection) -> Collection:
    """How far a plane's late arrival explains the delays of its later flights that day: one row for each that does.

    A plane's day is the flights that it left on, in the order of the timetable. When one arrives late and the next one
    leaves late, the smaller of both is explained. What is left of it when that flight arrives, late too, explains the
    one after it, and so on. A minute counts for the flight that first arrived late by it, and for no other.

    Shape:  ``root`` is the flight that arrived ``late`` minutes late, ``flights`` how many later ones that explains a
            part of, and ``minutes`` how much of their delays.
    """
    left = flights.filter("dep_delay is not null")

    # Which flight of its plane came before each; the first of a day comes after itself. No landing changes this.
    legs = left.select("tailnum", "day", "sched_dep", leg="id")
    before = (
        legs.join(legs, on=["tailnum", "day"])
        .filter("`right.sched_dep` < sched_dep or `right.sched_dep` = sched_dep and `right.leg` <= leg")
        .select("leg", before="`right.leg`", due="`right.sched_dep`")
        .top_k(1, by="before = leg, due desc, before desc", per="leg")
    )

    # What the flight before handed on to each: minutes by which the plane came late, and then left late.
    delays = left.select("id", "dep_delay", "arr_delay")
    steps = (
        before.join(delays, on={"before": "id"})
        .select("leg", "before", came="if(before = leg, 0, coalesce(arr_delay, 0))")
        .join(delays, on={"leg": "id"})
        .select("leg", "before", "dep_delay", "arr_delay", handed="greatest(least(came, dep_delay), 0)")
    )
    hops = steps.filter("handed > 0").select("before", "dep_delay", "arr_delay", next="leg")

    # Minutes of a root that its plane still lacks when a leg arrives: those beyond `above`, up to `late`.
    roots = steps.filter("arr_delay > handed").select(root="leg", above="handed", leg="leg", late="arr_delay")

    def hand_on(late: Collection) -> Collection:
        landed = late.join(hops, on={"leg": "before"}).filter("dep_delay > above and arr_delay > above")
        return landed.select("root", "above", leg="next", late="least(late, dep_delay, arr_delay)").concat(roots)

    explained = (
        roots.iterate(hand_on)
        .join(hops, on={"leg": "before"})
        .filter("dep_delay > above")
        .select("root", minutes="least(late, dep_delay) - above")
        .group_by("root")
        .agg(flights="count(*)", minutes="sum(minutes)")
    )
    arrived_late = left.filter("arr_delay > 0").select(
        "day", "tailnum", "carrier", "flight", "origin", "dest", root="id", late="arr_delay"
    )
    return arrived_late.join(explained, on="root")
