"""Case t: each TPC-H query loaded from Parquet into a durable view by Spark, beside Spark's own query into Parquet.

``python -m bench.tpch.bulk 1 2`` does it at a scale factor, with so many turns.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

import altneu as an
from altneu import sql
from altneu.engine.parts import Placement
from bench.inputs import FOLDER
from bench.measure import MIB
from bench.scale import Scale
from bench.spark_metrics import Scanned, scanned
from bench.tables import Aim, Findings, Table, markdown
from bench.tpch import data
from bench.tpch.compare import Query, rows_of
from bench.tpch.measure import CORES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEAN, WORST = 1.5, 3.0


@dataclass
class Pair:
    """Both sides of one query: seconds of each run, what the last one read, and what is kept."""

    own: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)
    read: tuple[Scanned, Scanned] = (Scanned(), Scanned())
    rows: int = 0
    bytes: int = 0
    difference: str | None = None

    @property
    def ratio(self) -> float:
        """Altneu's seconds for one of Spark's."""
        return float(np.median(self.ours) / np.median(self.own))


class Run:
    """The tables as Parquet files, and a Spark session, which may be given; small loads are the driver's if "auto"."""

    def __init__(
        self, folder: Path, scale: float, spark: SparkSession | None = None, placement: Placement = "auto"
    ) -> None:
        self.folder, self.texts, self.placement = folder, data.texts(), placement
        settings: dict[str, str | int] = {"spark.sql.shuffle.partitions": CORES}
        self.spark = spark or an.spark_session("altneu bench", f"local[{CORES}]", config=settings)
        for name, table in data.generate(scale).items():
            pq.write_table(table, self._file(name), row_group_size=data.ROW_GROUP)
            self.spark.read.parquet(self._file(name)).createOrReplaceTempView(name)

    def _file(self, table: str) -> str:
        return str(self.folder / f"{table}.parquet")

    def own(self, number: int) -> float:
        """Spark's query, written to Parquet."""
        started = time.perf_counter()
        self.spark.sql(self.texts[number]).write.mode("overwrite").parquet(str(self.folder / "out"))
        return time.perf_counter() - started

    def ours(self, number: int, pair: Pair) -> float:
        """The view in a new store, committed; what Spark read for it, and not for the check, is in the pair."""
        store = self.folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        started = time.perf_counter()
        with an.Session(self.spark, path=store, placement=self.placement) as session:
            with scanned(self.spark) as read:
                view = session.maintain("v", sql.query(self.texts[number], data.sources()))
                for name in session.sources:
                    session.insert(name, self.spark.table(name))
                step = session.advance()
                taken = time.perf_counter() - started
            pair.read = pair.read[0], read
            query = Query.of(self.texts[number])
            pair.difference = query.difference(rows_of(view.to_arrow()), rows_of(self.spark.sql(query.whole).toArrow()))
        pair.rows, pair.bytes = step.state_rows, sum(f.stat().st_size for f in store.rglob("*") if f.is_file())
        return taken

    def pair(self, number: int, turns: int) -> Pair:
        """Both in turns, after a first turn that does not count."""
        pair = Pair()
        for turn in range(turns + 1):
            with scanned(self.spark) as own:
                seconds = self.own(number)
            pair.read = own, own
            mine = self.ours(number, pair)
            if turn:
                pair.own.append(seconds)
                pair.ours.append(mine)
        return pair


def measure(scale: Scale) -> Findings:
    """Every query by itself."""
    return compared(0.3 if scale.name == "full" else 0.03, data.QUERIES, scale.turns)


def compared(scale: float, numbers: Sequence[int], turns: int) -> Findings:
    """Some of the queries, at a scale factor."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pairs = {}
    with tempfile.TemporaryDirectory(prefix="tpch-bulk-", dir=FOLDER) as folder:
        run = Run(Path(folder).absolute(), scale)
        for number in numbers:
            print(f"t. q{number}")
            pairs[number] = run.pair(number, turns)
    return _told(pairs, scale, turns)


def _told(pairs: dict[int, Pair], scale: float, turns: int) -> Findings:
    columns = [
        "query",
        "Spark, s",
        "altneu, s",
        "ratio",
        "files' MiB",
        "of Spark's",
        "MiB to Python",
        "updates kept",
        "MiB",
    ]
    table = Table(f"t. TPC-H at scale factor {scale} from Parquet files: the first computation", columns)
    for number, pair in pairs.items():
        own, ours = pair.read
        table.add(
            f"q{number}",
            f"{np.median(pair.own):.2f}",
            f"{np.median(pair.ours):.2f}",
            f"{pair.ratio:.1f}x",
            f"{ours.bytes / MIB:,.0f}",
            f"{own.bytes / MIB:,.0f}",
            f"{ours.into_python / MIB:,.1f}",
            f"{pair.rows:,}",
            f"{pair.bytes / MIB:,.1f}",
        )
    ratios = {n: pair.ratio for n, pair in pairs.items()}
    mean, (worst, where) = float(np.exp(np.mean(np.log([*ratios.values()])))), max((r, n) for n, r in ratios.items())
    table.notes.append(
        f"local[{CORES}], medians of {turns} turns after a first. Spark: its own query, written to Parquet. altneu: a "
        "new store, the plan, the load and the commit, of a view that is then kept right. MiB to Python count each of "
        "a job's stages."
    )
    findings = Findings(tables=[table])
    wrong = {n: pair.difference for n, pair in pairs.items() if pair.difference is not None}
    findings.aims += [
        Aim(f"t: the geometric mean of the ratios is at most {MEAN}x", f"{mean:,.1f}x", mean / MEAN),
        Aim(f"t: no ratio is over {WORST:.0f}x", f"{worst:,.1f}x (q{where})", worst / WORST),
        Aim(
            "t: every view is what Spark makes of the tables",
            f"{len(wrong)} differ" if wrong else "yes",
            1 + len(wrong),
        ),
    ]
    for number, problem in wrong.items():
        print(f"t. q{number} differs: {problem}")
    return findings


if __name__ == "__main__":
    print(markdown(compared(float(sys.argv[1]), data.QUERIES, int(sys.argv[2]))))
