"""The generator: every event is a function of its number and the seed, so that a part of the stream is made alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import altneu as an

TABLES = {
    "person": (
        "id bigint, name string, email_address string, credit_card string, city string, state string, "
        "date_time timestamp, extra string"
    ),
    "auction": (
        "id bigint, item_name string, description string, initial_bid bigint, reserve bigint, date_time timestamp, "
        "expires timestamp, seller bigint, category bigint, extra string"
    ),
    "bid": "auction bigint, bidder bigint, price bigint, channel string, url string, date_time timestamp, extra string",
    "side_input": "key bigint, value string",
}
"""The streams, and the table that q13 looks numbers up in."""

QUERIES = tuple(f"q{number}" for number in range(23) if number != 12)

ROUND, AUCTIONS = 50, 3  # events, of which the first is a person and these many after it are auctions
FIRST_ID = 1000
HOT, ACTIVE_PEOPLE, OPEN_AUCTIONS = 100, 1000, 100
CATEGORIES, FIRST_CATEGORY = 5, 10
SIDE_ROWS = 10_000
START = int(datetime(2015, 7, 15, tzinfo=UTC).timestamp() * 1e6)

_STATES = np.array(["AZ", "CA", "ID", "OR", "WA", "WY"])
_CITIES = np.array(
    ["Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent"]
)
_FIRST = np.array(["Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"])
_LAST = np.array(["Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"])
_CHANNELS = np.array(["Google", "Facebook", "Baidu", "Apple"])

Numbers = np.ndarray[Any, Any]


def query(name: str) -> str:
    """The text of a query."""
    return (Path(__file__).parent / f"{name}.sql").read_text()


def sources() -> dict[str, an.Collection]:
    """The streams as sources of those names."""
    return {name: an.source(name, columns) for name, columns in TABLES.items()}


def side_input() -> pa.Table:
    """The table that q13 looks numbers up in."""
    keys = np.arange(SIDE_ROWS)
    return pa.table({"key": keys, "value": np.char.add("value ", keys.astype(str))})


def events(first: int, count: int, rate: int = 10_000, seed: int = 0) -> dict[str, pa.Table]:
    """The events from a number on, ``rate`` of them a second of their time.

    >>> made = events(0, 500)
    >>> {name: table.num_rows for name, table in made.items()}
    {'person': 10, 'auction': 30, 'bid': 460}
    >>> [made[name].slice(7, 1) == events(0, 400)[name].slice(7, 1) for name in made]
    [True, True, True]
    """
    number = np.arange(first, first + count)
    place = number % ROUND
    result = _Generator(rate, seed)
    return {
        "person": result.people(number[place == 0]),
        "auction": result.auctions(number[(place > 0) & (place <= AUCTIONS)]),
        "bid": result.bids(number[place > AUCTIONS]),
    }


class _Generator:
    """Rows of event numbers: each takes its chances from its own number."""

    def __init__(self, rate: int, seed: int) -> None:
        self._apart = 1_000_000 // rate
        self._seed = seed
        self._drawn = 0

    def people(self, number: Numbers) -> pa.Table:
        first, last = self._one_of(number, _FIRST), self._one_of(number, _LAST)
        name = _joined(first, " ", last)
        return pa.table(
            {
                "id": _people_until(number),
                "name": name,
                "email_address": _joined(_joined(first, ".", last), "@", _joined(self._text(number, 4), "", ".com")),
                "credit_card": self._below(number, 10_000).astype(str),
                "city": self._one_of(number, _CITIES),
                "state": self._one_of(number, _STATES),
                "date_time": self._time(number),
                "extra": self._text(number, 8),
            }
        )

    def auctions(self, number: Numbers) -> pa.Table:
        initial = self._price(number)
        open_for = 1 + self._below(number, 2 * self._apart * OPEN_AUCTIONS * ROUND // AUCTIONS)
        people = _people_until(number)
        hot = (people - FIRST_ID) // HOT * HOT + FIRST_ID
        seller = np.where(self._below(number, 4) > 0, hot, self._recent(number, people, ACTIVE_PEOPLE))
        return pa.table(
            {
                "id": _auctions_until(number),
                "item_name": self._text(number, 6),
                "description": self._text(number, 12),
                "initial_bid": initial,
                "reserve": initial + self._price(number),
                "date_time": self._time(number),
                "expires": _stamps(self._micros(number) + open_for),
                "seller": seller,
                "category": FIRST_CATEGORY + self._below(number, CATEGORIES),
                "extra": self._text(number, 8),
            }
        )

    def bids(self, number: Numbers) -> pa.Table:
        auctions, people = _auctions_until(number), _people_until(number)
        hot_auction = (auctions - FIRST_ID) // HOT * HOT + FIRST_ID
        hot_bidder = np.minimum((people - FIRST_ID) // HOT * HOT + 1 + FIRST_ID, people)
        channel = self._below(number, 8)
        named = np.where(channel < 4, _CHANNELS[channel % 4], _joined("channel-", "", self._below(number, 10_000)))
        address = _joined(
            "https://www.nexmark.com/", self._text(number, 4), _joined("/", self._text(number, 4), "/item.htm")
        )
        tagged = _joined(_joined(address, "?query=1", "&channel_id="), "", self._below(number, 1 << 20))
        return pa.table(
            {
                "auction": np.where(
                    self._below(number, 2) > 0, hot_auction, self._recent(number, auctions, OPEN_AUCTIONS)
                ),
                "bidder": np.where(self._below(number, 4) > 0, hot_bidder, self._recent(number, people, ACTIVE_PEOPLE)),
                "price": self._price(number),
                "channel": named,
                "url": np.where(channel % 2 > 0, address, tagged),
                "date_time": self._time(number),
                "extra": self._text(number, 8),
            }
        )

    def _micros(self, number: Numbers) -> Numbers:
        return START + number * self._apart

    def _time(self, number: Numbers) -> pa.Array:
        return _stamps(self._micros(number))

    def _drawn_of(self, number: Numbers) -> Numbers:
        """64 bits of chance a row (splitmix64), others with every call."""
        self._drawn += 1
        with np.errstate(over="ignore"):
            mixed = number.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            mixed += np.uint64((self._seed * 1_000_003 + self._drawn) * 0xD1B54A32D192ED03 % (1 << 64))
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))

    def _below(self, number: Numbers, limit: int) -> Numbers:
        return (self._drawn_of(number) % np.uint64(limit)).astype(np.int64)

    def _one_of(self, number: Numbers, values: Numbers) -> Numbers:
        return values[self._below(number, len(values))]

    def _recent(self, number: Numbers, last: Numbers, among: int) -> Numbers:
        """One of the last ids there are by then."""
        there = np.minimum(last - FIRST_ID + 1, among)
        return last - (self._drawn_of(number) % there.astype(np.uint64)).astype(np.int64)

    def _price(self, number: Numbers) -> Numbers:
        """From 1 to a million, as many of each order of magnitude, in cents."""
        return np.rint(10 ** (self._drawn_of(number) / 2.0**64 * 6) * 100).astype(np.int64)

    def _text(self, number: Numbers, letters: int) -> Numbers:
        drawn = self._drawn_of(number)
        codes = np.empty((len(number), letters), np.uint32)
        for i in range(letters):
            codes[:, i] = (drawn >> np.uint64(5 * i)) % np.uint64(26) + np.uint64(ord("a"))
        return codes.view(f"U{letters}").ravel() if len(number) else np.empty(0, f"U{letters}")


def _people_until(number: Numbers) -> Numbers:
    """The id of the last person there is by an event."""
    return FIRST_ID + number // ROUND


def _auctions_until(number: Numbers) -> Numbers:
    """The id of the last auction there is by an event; before the first one, of the first."""
    there = number // ROUND * AUCTIONS + np.minimum(number % ROUND, AUCTIONS)
    return FIRST_ID + np.maximum(there - 1, 0)


def _joined(first: Any, second: Any, third: Any) -> Numbers:
    texts = [np.asarray(part).astype(str) for part in (first, second, third)]
    return np.char.add(np.char.add(texts[0], texts[1]), texts[2])


def _stamps(micros: Numbers) -> pa.Array:
    return pa.array(micros, pa.timestamp("us", "UTC"))
