"""Case c: the same stream of updates in small, middling and large batches."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from bench.inputs import FOLDER, Columns, parquet
from bench.measure import Peak, memory
from bench.scale import Scale
from bench.tables import Findings, Table


def counting() -> an.Collection:
    """A filter and a count: two operators."""
    return an.source("events", "k long, v long").filter("v >= 100").group_by("k").agg(n="count(*)")


def joining() -> an.Collection:
    """The same filter, and a join with a table of one row a key."""
    dimension = an.source("dimension", "k long, w long")
    return an.source("events", "k long, v long").filter("v >= 100").join(dimension, on="k")


def stream(updates: int, keys: int) -> Path:
    """Rows that come, and each third one a retraction of a row that came within the last hundred or so."""

    def make(rng: np.random.Generator) -> Columns:
        k, v = rng.integers(0, keys, updates), rng.integers(0, 1000, updates)
        d = np.ones(updates, np.int64)
        removed = np.arange(2, updates, 3)
        earlier = np.maximum(
            removed - 1 - 3 * rng.integers(0, 30, len(removed)), 1
        )  # the second of three: never retracted twice
        earlier, first = np.unique(earlier, return_index=True)
        removed = removed[first]
        k[removed], v[removed], d[removed] = k[earlier], v[earlier], -1
        return {"k": k, "v": v, "d": d}

    return parquet(f"stream-{updates}-{keys}", make)


def dimension(rows: int) -> Path:
    """One row a key."""
    return parquet(f"dimension-{rows}", lambda rng: {"k": rng.permutation(rows), "w": rng.integers(0, 1000, rows)})


@dataclass
class Rate:
    """Updates a second, and the memory it took."""

    updates: float
    peak: Peak


def run(view: an.Collection, files: dict[str, Path], batch: int, updates: int, store: Path | None) -> Rate:
    """Feed the first ``updates`` of the stream in batches, an advance after each; reading the file is included."""
    with an.Session(path=store) if store else an.Session() as session:
        session.maintain("view", view)
        if "dimension" in files:
            session.insert("dimension", pq.read_table(files["dimension"]))
        session.advance()
        warm = pa.table({"k": [0, 1, 0], "v": [500, 500, 500], "d": [1, 1, -1]})
        for _ in range(20):
            session.insert("events", warm, diff="d")
            session.advance()
        with memory() as peak:
            started = time.perf_counter()
            table = pq.read_table(files["events"]).slice(0, updates).combine_chunks()
            for start in range(0, updates, batch):
                session.insert("events", table.slice(start, batch), diff="d")
                session.advance()
            seconds = time.perf_counter() - started
        return Rate(updates / seconds, peak)


def median(rates: Iterable[Rate]) -> Rate:
    """The median rate, with the largest peak."""
    result, peak = list(rates), Peak()
    for rate in result:
        peak = peak.join(rate.peak)
    return Rate(float(np.median([rate.updates for rate in result])), peak)


def measure(scale: Scale) -> Findings:
    """Both views, in memory and durable, in every size of batch."""
    longest = max(count for _, count in scale.streams)
    table = Table(
        "c. the same stream in batches",
        ["view, session", *(f"batches of {batch:,}: updates/s" for batch, _ in scale.streams), "peak MiB"],
        notes=[
            "A third of the updates retract. The first "
            + ", ".join(f"{count:,}" for _, count in scale.streams)
            + " updates of one stream, reading its Parquet file included. Durable: every batch is a synced commit."
        ],
    )
    views = {
        f"filter + count, {scale.stream_groups:,} groups": (counting(), scale.stream_groups, False),
        f"filter + join with {scale.stream_dimension:,} rows": (joining(), scale.stream_dimension, True),
    }
    figures = {}
    with tempfile.TemporaryDirectory(prefix="run-", dir=_folder()) as folder:
        for name, (view, keys, joins) in views.items():
            files = {"events": stream(longest, keys)} | ({"dimension": dimension(keys)} if joins else {})
            for durable in (False, True):
                label = f"{name}, {'durable' if durable else 'in memory'}"
                print(f"c. {label}")
                rates = [
                    median(
                        run(view, files, batch, count, Path(folder) / f"{label}-{batch}-{turn}" if durable else None)
                        for turn in range(scale.turns)
                    )
                    for batch, count in scale.streams
                ]
                if not durable:
                    which = "join" if joins else "count"
                    figures |= {f"c {which} {b}": r.updates for (b, _), r in zip(scale.streams, rates, strict=True)}
                peak = Peak()
                for rate in rates:
                    peak = peak.join(rate.peak)
                table.add(label, *(f"{rate.updates:,.0f}" for rate in rates), peak)
    return Findings([table], figures=figures)


def _folder() -> Path:
    FOLDER.mkdir(parents=True, exist_ok=True)
    return FOLDER
