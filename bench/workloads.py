"""The queries of cases a and b: as an altneu view, as Spark's own query, and the changes they are put through."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import altneu as an
from bench.inputs import generator, grouped, side
from bench.scale import Scale

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = 20_000  # rows of the input that both contenders are warmed on

Row = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """One row that comes (+1) or goes (-1)."""

    source: str
    row: Row
    diff: int


@dataclass
class Workload:
    """One query over Parquet files."""

    name: str
    title: str
    files: dict[str, Path]
    small: dict[str, Path]
    columns: dict[str, list[str]]
    view: an.Collection
    query: str  # over temporary views named like the sources
    checksum: str  # the same over sources with a column ``d``: how often each row counts
    fresh: Callable[[np.random.Generator, str], Row]
    rng: np.random.Generator = field(default_factory=lambda: generator("changes"))
    _retractable: dict[str, list[Row]] = field(default_factory=dict)

    def read(self, spark: SparkSession, files: dict[str, Path]) -> dict[str, DataFrame]:
        """The inputs as DataFrames."""
        return {name: spark.read.parquet(str(path)) for name, path in files.items()}

    def own_query(self, spark: SparkSession, files: dict[str, Path]) -> DataFrame:
        """Spark's own query, reading included."""
        return spark.sql(self.query, **self.read(spark, files))

    def next_changes(self, count: int) -> list[Change]:
        """So many changes: new rows and retractions of rows of the files in turns, over the sources in turns.

        No row of the files is retracted twice, over all calls.
        """
        changes = []
        sources = list(self.files)
        for i in range(count):
            source = sources[(i // 2) % len(sources)]
            if i % 2:
                changes.append(Change(source, self._loaded(source).pop(), -1))
            else:
                changes.append(Change(source, self.fresh(self.rng, source), 1))
        return changes

    def _loaded(self, source: str) -> list[Row]:
        if source not in self._retractable:
            table = pq.read_table(self.files[source])
            chosen = table.take(self.rng.choice(table.num_rows, min(20_000, table.num_rows // 2), replace=False))
            self._retractable[source] = list(zip(*(c.to_pylist() for c in chosen.columns), strict=True))
        return self._retractable[source]

    def change_table(self, source: str, changes: Sequence[Change], times: Sequence[int] | None = None) -> pa.Table:
        """Changes of one source as a table with a diff, and a time where they are given."""
        mine = [i for i, c in enumerate(changes) if c.source == source]
        data: dict[str, Any] = {
            name: [changes[i].row[place] for i in mine] for place, name in enumerate(self.columns[source])
        }
        data["d"] = [changes[i].diff for i in mine]
        if times is not None:
            data["at"] = [times[i] for i in mine]
        return pa.table({name: pa.array(values, pa.int64()) for name, values in data.items()})


def groups(scale: Scale) -> Workload:
    """Case a: count and sum by group."""
    events = an.source("events", "g long, v long")
    return Workload(
        name="a",
        title=f"a. count and sum over {scale.group_rows:,} rows in {scale.groups:,} groups",
        files={"events": grouped(scale.group_rows, scale.groups)},
        small={"events": grouped(SMALL, SMALL // 10)},
        columns={"events": ["g", "v"]},
        view=events.group_by("g").agg(n="count(*)", total="sum(v)"),
        query="select g, count(*) as n, sum(v) as total from {events} group by g",
        checksum="select g, sum(d) as n, sum(v * d) as total, 1 as d from {events} group by g having sum(d) > 0",
        fresh=lambda rng, _: (int(rng.integers(scale.groups)), int(rng.integers(1000))),
    )


def joined(scale: Scale, matches: int) -> Workload:
    """Case b: a join of two inputs of as many rows, each key in ``matches`` rows of either."""
    rows = scale.join_rows
    left, right = an.source("a", "k long, a long"), an.source("b", "k long, b long")
    of_matches = "one match a row" if matches == 1 else f"{matches} matches a row ({rows * matches:,} outputs)"
    return Workload(
        name=f"b{matches}",
        title=f"b. join of {rows:,} and {rows:,} rows, {of_matches}",
        files={s: side(s, rows, matches) for s in "ab"},
        small={s: side(s, SMALL, matches) for s in "ab"},
        columns={"a": ["k", "a"], "b": ["k", "b"]},
        view=left.join(right, on="k"),
        query="select k, a, b from {a} join {b} using (k)",
        checksum="select k, a, b, {a}.d * {b}.d as d from {a} join {b} using (k)",
        fresh=lambda rng, _: (int(rng.integers(rows // matches)), int(rng.integers(1_000_000))),
    )
