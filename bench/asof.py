"""As-of joins: trades with the quote as of their time, all at once beside Polars and pandas, then a row at a time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import numpy as np
import pandas as pd
import polars as pl

import altneu as an
from bench.inputs import generator
from bench.measure import Steps, interleaved, milliseconds
from bench.scale import Scale
from bench.tables import Findings, Table

QUOTES, TRADES, SPAN = 131_401, 77_263, 10_000_000
Mode = Literal["revising", "locked"]
MODES: tuple[Mode, ...] = ("revising", "locked")
TICKERS = {"100 tickers": 100, "one ticker": 1}
_TRADES = an.source("trades", "ticker string, at long, id long, price long")
_QUOTES = an.source("quotes", "ticker string, at long, bid long, ask long")


def market(tickers: int, shrink: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Trades and quotes in order of time, half of either at a timestamp that another one shares."""
    rng = generator(f"asof {tickers}")
    names = np.array([f"T{i:03d}" for i in range(tickers)])

    def stamps(count: int) -> np.ndarray[Any, Any]:
        alone = rng.choice(SPAN // 2, count - count // 4, replace=False)
        return np.sort(np.concatenate([alone, alone[: count // 4]])) * 2

    def common(count: int) -> dict[str, Any]:
        return {"ticker": rng.choice(names, count), "at": stamps(count)}

    many, few = QUOTES // shrink, TRADES // shrink
    trades = pl.DataFrame({**common(few), "id": np.arange(few), "price": rng.integers(1, 10_000, few)})
    bids = {"bid": rng.integers(1, 10_000, many), "ask": rng.integers(1, 10_000, many)}
    return trades, pl.DataFrame({**common(many), **bids}).sort("at", "bid", "ask")


def kept(mode: Mode, trades: pl.DataFrame, quotes: pl.DataFrame) -> tuple[an.Session, an.View]:
    """A session that has computed the join of all rows."""
    session = an.Session()
    joined = _TRADES.asof_join(_QUOTES, "ticker", time="at", how="left", mode=mode)
    view = session.maintain("joined", joined.select("id", "bid", "ask"))
    session.insert("trades", trades)
    session.insert("quotes", quotes)
    session.advance()
    return session, view


def first(findings: Findings, name: str, trades: pl.DataFrame, quotes: pl.DataFrame, turns: int) -> None:
    """The whole join at once."""
    both = trades.to_pandas(), quotes.to_pandas()
    mixed = trades.sample(fraction=1, shuffle=True, seed=1), quotes.sample(fraction=1, shuffle=True, seed=2)
    contenders: dict[str, Callable[[], object]] = {
        "altneu, revising": lambda: kept("revising", trades, quotes),
        "altneu, locked in": lambda: kept("locked", trades, quotes),
        "Polars": lambda: trades.join_asof(quotes, on="at", by="ticker", check_sortedness=False),
        "Polars, sorting first": lambda: (
            mixed[0]
            .sort("at")
            .join_asof(mixed[1].sort("at", "bid", "ask"), on="at", by="ticker", check_sortedness=False)
        ),
        "pandas": lambda: pd.merge_asof(*both, on="at", by="ticker"),
    }
    for run in contenders.values():
        run()
    result = interleaved(contenders, turns)
    count = len(trades) + len(quotes)
    wanted = trades.join_asof(quotes, on="at", by="ticker", check_sortedness=False).select("id", "bid", "ask")
    same = {}
    for mode in MODES:
        shown = pl.DataFrame(pl.from_arrow(kept(mode, trades, quotes)[1].to_arrow()))
        same[mode] = shown.sort("id").equals(wanted.sort("id"))
    table = Table(
        f"i. {len(trades):,} trades as of {len(quotes):,} quotes, {name}: all at once",
        ["", "seconds", "rows/s", "against Polars"],
    )
    for contender, timed in result.items():
        against = timed.least / result["Polars"].least
        table.add(contender, f"{timed.least:.3f}", f"{count / timed.least:,.0f}", f"{against:.1f}x")
    table.notes.append(
        f"The fastest of {turns} runs, taken in turns. Polars and pandas get rows in order of time, unless the name "
        "says otherwise, and return a frame; altneu maintains a view. Half of the rows share their timestamp with "
        "another row; of such quotes Polars takes the last, which here is the greatest. All answers are the same: "
        f"{'yes' if all(same.values()) else 'NO'}."
    )
    findings.tables.append(table)


def single(findings: Findings, name: str, trades: pl.DataFrame, quotes: pl.DataFrame, changes: int) -> None:
    """One row at a time comes, or goes again."""
    table = Table(
        f"i. {len(trades):,} trades as of {len(quotes):,} quotes, {name}: one-row steps",
        ["", "p50, ms", "p99, ms", "p99 computed, ms", "changes out, mean"],
    )
    for mode in MODES:
        session, _ = kept(mode, trades, quotes)
        rng = generator(f"steps {name}")
        for side, frame in (("trades", trades), ("quotes", quotes)):
            steps, out = Steps(), 0
            for _ in range(changes // 2):
                ticker, _, *rest = frame.row(int(rng.integers(len(frame))))
                row = (ticker, int(rng.integers(SPAN)), *rest)
                for diff in (1, -1):
                    out += steps.run(partial(_step, session, side, row, diff))
            clocks = ((steps.wall, 50), (steps.wall, 99), (steps.cpu, 99))
            figures = (f"{milliseconds(clock, percentile):.2f}" for clock, percentile in clocks)
            table.add(f"{mode}: {side}", *figures, f"{out / changes:.2f}")
        session.close()
    table.notes.append(
        f"{changes:,} steps each, in memory: one step inserts a row at a random time, the next step retracts it. "
        "Computed: the CPU time of this thread, which other processes on the machine do not affect."
    )
    findings.tables.append(table)


def _step(session: an.Session, side: str, row: tuple[Any, ...], diff: int) -> int:
    (session.insert if diff > 0 else session.retract)(side, [row])
    return sum(session.advance().changes_out.values())


def measure(scale: Scale) -> Findings:
    """All of it."""
    findings = Findings()
    full = scale.name == "full"
    for name, tickers in TICKERS.items():
        trades, quotes = market(tickers, 1 if full else 10)
        first(findings, name, trades, quotes, 7 if full else 3)
        single(findings, name, trades, quotes, 1000 if full else 200)
    return findings
