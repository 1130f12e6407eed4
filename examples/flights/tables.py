"""The days as versions of Delta tables, which are followed, and three views as tables that are kept equal to them."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import altneu as an
from examples.flights import data

if TYPE_CHECKING:
    import polars as pl

    from altneu import Session
    from altneu.sinks import Sink
    from altneu.streams import Delta

KEPT = {"board": ["day", "origin", "state"], "recent": ["origin"], "routes": ["origin", "dest"]}
"""The views that are kept as tables, and their keys."""

_DAYS = "days"  # the application transaction by which a table says up to which tick it has the days


def append_days(stream: data.Stream, folder: Path, lower: int, upper: int) -> dict[str, int]:
    """Append the days from that of ``lower`` up to ``upper`` to two tables, a version a day, where they lack them.

    The result says how many updates each table has.
    """
    from deltalake import DeltaTable

    for day in range(lower - lower % data.DAY, upper, data.DAY):
        _append(stream.between(day, day + data.DAY), folder / "flights", day)
        _append(stream.published(day, day + data.DAY), folder / "weather", day)
    return {name: DeltaTable(folder / name).count() for name in ("flights", "weather")}


def _append(frame: pl.DataFrame, path: Path, tick: int) -> None:
    from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

    there = DeltaTable.is_deltatable(str(path))
    if not there or (DeltaTable(path).transaction_version(_DAYS) or 0) < tick:
        path.parent.mkdir(parents=True, exist_ok=True)
        done = CommitProperties(app_transactions=[Transaction(_DAYS, tick)])
        write_deltalake(path, frame.to_arrow(), mode="append", commit_properties=done)


def tables_of(folder: str | Path) -> dict[str, Delta]:
    """The tables of the days, from their first version on."""
    return {name: an.delta(f"{folder}/{name}", from_version=0) for name in ("flights", "weather")}


def kept(session: Session, folder: str | Path) -> list[Sink]:
    """The sinks of the views that are kept."""
    return [an.sinks.delta(session.view(name), f"{folder}/kept/{name}", key=key) for name, key in KEPT.items()]


def attached(session: Session, folder: str | Path) -> ExitStack:
    """Keep the tables equal to their views from now on, after each step."""
    stack = ExitStack()
    for sink in kept(session, folder):
        stack.enter_context(sink.attach())
    return stack


def differences(session: Session, folder: str | Path) -> dict[str, int]:
    """In how many rows each kept table differs from its view, as any reader of it would see."""
    from deltalake import DeltaTable

    result = {}
    for name in KEPT:
        rows = DeltaTable(f"{folder}/kept/{name}").to_pyarrow_table().to_pylist()
        there, view = Counter(tuple(row.values()) for row in rows), Counter(map(tuple, session.view(name).to_pylist()))
        result[name] = (there - view).total() + (view - there).total()
    return result
