"""Case v: steps in which a growing share of TPC-H's orders comes and goes, beside Spark's own query on the new tables.

``python -m bench.tpch.crossing 1 2`` does it at a scale factor, with so many steps of each size; further arguments are
the numbers of the queries.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

import altneu as an
from altneu import sql
from altneu.engine.parts import Placement
from altneu.runtime.journal import Refresh as How
from bench.inputs import FOLDER
from bench.scale import Scale
from bench.tables import Aim, Findings, Table, markdown
from bench.tpch import data
from bench.tpch.compare import Query, rows_of
from bench.tpch.measure import CORES
from bench.tpch.refresh import Refresh

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SHARES = (0.0001, 0.001, 0.01, 0.1, 0.5)
MOST = 1.3  # how many times as long as Spark's own query a step may take
AS_FRAMES = 100_000  # rows of a table's changes from which on they are given as a DataFrame


@dataclass
class Taken:
    """Seconds of each side: of Spark's query, and of the steps by their share; in how many the view was computed anew.

    ``difference`` is how the view differs in the end from what Spark makes of the tables.
    """

    own: list[float] = field(default_factory=list)
    ours: dict[float, list[float]] = field(default_factory=lambda: defaultdict(list))
    anew: dict[float, int] = field(default_factory=lambda: defaultdict(int))
    difference: str | None = None

    def ratio(self, share: float) -> float:
        """Seconds of a step for one of Spark's query."""
        return float(np.median(self.ours[share]) / np.median(self.own))


class Run:
    """Tables before and after all changes, and the changes of each step, as Parquet files.

    And a Spark session, which may be given; small steps are the driver's if "auto".
    """

    def __init__(
        self,
        folder: Path,
        scale: float,
        turns: int,
        spark: SparkSession | None = None,
        placement: Placement = "auto",
    ) -> None:
        self.folder, self.texts, self.placement = folder, data.texts(), placement
        settings: dict[str, str | int] = {"spark.sql.shuffle.partitions": CORES}
        self.spark = spark or an.spark_session("altneu bench", f"local[{CORES}]", config=settings)
        tables = data.generate(scale)
        self._write("before", tables)
        refresh, orders = Refresh(tables, seed=1), tables["orders"].num_rows
        self.steps: list[tuple[float, str, dict[str, int]]] = []
        for turn in range(turns + 1):  # the first one warms up
            for share in SHARES:
                half = max(round(share * orders / 2), 1)
                refresh.orders(half, half)
                changes, name = refresh.changes(), f"step-{turn}-{share}"
                self._write(name, changes)
                self.steps.append((share, name, {table: rows.num_rows for table, rows in changes.items()}))
        self._write("after", refresh.now())

    def _write(self, name: str, tables: dict[str, Any]) -> None:
        for table, rows in tables.items():
            pq.write_table(rows, self._file(name, table), row_group_size=data.ROW_GROUP)

    def _file(self, name: str, table: str) -> str:
        return str(self.folder / f"{name}-{table}.parquet")

    def show(self, name: str) -> None:
        """Let Spark's queries read the tables as they are before, or after, all changes."""
        for table in data.TABLES:
            self.spark.read.parquet(self._file(name, table)).createOrReplaceTempView(table)

    def own(self, number: int) -> float:
        """Spark's query, written to Parquet."""
        started = time.perf_counter()
        self.spark.sql(self.texts[number]).write.mode("overwrite").parquet(str(self.folder / "out"))
        return time.perf_counter() - started

    def taken(self, number: int, how: How) -> Taken:
        """A view in a new store that takes all steps; between them Spark's query, on as many rows."""
        result, store = Taken(), self.folder / "store"
        shutil.rmtree(store, ignore_errors=True)
        self.show("before")
        with an.Session(self.spark, path=store, placement=self.placement) as session:
            view = session.maintain("v", sql.query(self.texts[number], data.sources()), refresh=how)
            for name in session.sources:
                session.insert(name, self.spark.table(name))
            session.advance()
            for i, (share, name, sizes) in enumerate(self.steps):
                started = time.perf_counter()
                for table in session.sources:
                    if table in sizes:
                        path = self._file(name, table)
                        is_large = sizes[table] >= AS_FRAMES or self.placement == "spark"
                        rows = self.spark.read.parquet(path) if is_large else pq.read_table(path)
                        session.insert(table, rows, diff="diff")
                step = session.advance()
                if i >= len(SHARES):
                    result.ours[share].append(time.perf_counter() - started)
                    result.anew[share] += bool(step.recomputed)
                if share == SHARES[-1]:
                    self.own(number) if i < len(SHARES) else result.own.append(self.own(number))
            self.show("after")
            query = Query.of(self.texts[number])
            whole = rows_of(self.spark.sql(query.whole).toArrow())
            result.difference = query.difference(rows_of(view.to_arrow()), whole)
        return result


def measure(scale: Scale) -> Findings:
    """Some queries of each kind, each by itself."""
    return compared(0.3 if scale.name == "full" else 0.03, (1, 3, 5, 6, 9, 13, 18, 21), scale.turns)


def compared(scale: float, numbers: Sequence[int], turns: int, how: How = "auto") -> Findings:
    """Some of the queries, at a scale factor."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    found = {}
    with tempfile.TemporaryDirectory(prefix="tpch-crossing-", dir=FOLDER) as folder:
        run = Run(Path(folder).absolute(), scale, turns)
        for number in numbers:
            print(f"v. q{number}", flush=True)
            found[number] = run.taken(number, how)
    return _told(found, scale, turns, how)


def _told(found: dict[int, Taken], scale: float, turns: int, how: How) -> Findings:
    sizes = [f"{100 * share:g} %" for share in SHARES]
    title = f"v. TPC-H at scale factor {scale}: a share of the orders comes and goes, seconds a step"
    table = Table(title, ["query", "Spark's query, s", *(f"{size}: s (ratio)" for size in sizes), "anew"])
    for number, taken in found.items():
        cells = [f"{np.median(taken.ours[s]):.2f} ({taken.ratio(s):.2f}x)" for s in SHARES]
        anew = ", ".join(size for size, s in zip(sizes, SHARES, strict=True) if taken.anew[s]) or "none"
        table.add(f"q{number}", f"{np.median(taken.own):.2f}", *cells, anew)
    table.notes.append(
        f"local[{CORES}], durable, refresh={how}; of steps of each size, the median of {turns} after a first one; "
        "half of the orders of a step are new, the other half go, each with its lines. Changes are Arrow tables, those "
        f"of {AS_FRAMES:,} rows and more Parquet files that Spark reads. Spark's query reads the whole tables from "
        "Parquet and writes to Parquet. Anew: at which sizes the view was computed anew."
    )
    worst, share, number = max((taken.ratio(s), s, n) for n, taken in found.items() for s in SHARES)
    wrong = {n: taken.difference for n, taken in found.items() if taken.difference is not None}
    for n, problem in wrong.items():
        print(f"v. q{n} differs: {problem}")
    what = f"{worst:,.2f}x (q{number} at {100 * share:g} %)"
    return Findings(
        [table],
        [
            Aim(f"v: no step takes more than {MOST:g}x of Spark's query", what, worst / MOST),
            Aim(
                "v: in the end every view is what Spark makes of the tables",
                f"{len(wrong)} differ" if wrong else "yes",
                1 + len(wrong),
            ),
        ],
    )


if __name__ == "__main__":
    chosen = [int(number) for number in sys.argv[3:]] or data.QUERIES
    print(markdown(compared(float(sys.argv[1]), chosen, int(sys.argv[2]))))
