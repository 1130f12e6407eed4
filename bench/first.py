"""Cases a and b: the first computation against Spark's own query, then one-row changes against recomputing."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq

import altneu as an
from bench.inputs import FOLDER
from bench.measure import Peak, Steps, Timed, in_turns, memory, milliseconds, timed
from bench.scale import Scale
from bench.tables import Aim, Findings, Table
from bench.workloads import Change, Workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ONE_STEP_RUNS = 3
JUDGED_SECONDS = 1.0  # a first computation is judged where Spark's own query takes longer
FIRST_LIMIT, STEP_MILLISECONDS, CHEAPER = 2.0, 1.0, 20.0

ON_SPARK, DURABLE, IN_MEMORY = "altneu, Spark", "altneu, local, durable", "altneu, local, in memory"
NOOP, PARQUET = "Spark, result discarded", "Spark, result to Parquet"


@dataclass
class Run:
    """A session that maintains the workload's view, and what was measured of it."""

    session: an.Session
    placement: str = ""
    state_rows: int = 0
    one_by_one: Steps = field(default_factory=Steps)
    many_times: Timed = field(default_factory=Timed)
    one_time: Timed = field(default_factory=Timed)
    peak: Peak = field(default_factory=Peak)
    changes: list[Change] = field(default_factory=list)


class Case:
    """One workload on one Spark, with a folder for stores and outputs."""

    def __init__(self, workload: Workload, scale: Scale, spark: SparkSession, folder: Path) -> None:
        self.workload, self.scale, self.spark, self.folder = workload, scale, spark, folder
        self.runs: dict[str, Run] = {}
        self._stores = 0

    # contenders -----------------------------------------------------------------------------------------------------

    def noop(self, files: dict[str, Path]) -> None:
        """Spark's query into a sink that keeps nothing."""
        self.workload.own_query(self.spark, files).write.format("noop").mode("overwrite").save()

    def to_parquet(self, files: dict[str, Path]) -> None:
        """Spark's query into Parquet files."""
        self.workload.own_query(self.spark, files).write.mode("overwrite").parquet(str(self.folder / "out"))

    def on_spark(self, files: dict[str, Path], placement: an.session.Placement = "auto") -> Run:
        """A session with Spark on a new store: the view computed and committed."""
        run = Run(an.Session(self.spark, path=self._store(), placement=placement))
        self.first(run, self.workload.read(self.spark, files))
        return run

    def local(self, files: dict[str, Path], *, durable: bool) -> Run:
        """A session without Spark, in memory or on a new store."""
        run = Run(an.Session(path=self._store()) if durable else an.Session())
        self.first(run, {name: pq.read_table(path) for name, path in files.items()})
        return run

    def _store(self) -> Path:
        self._stores += 1
        return self.folder / f"store-{self._stores}"

    def first(self, run: Run, inputs: dict[str, object]) -> None:
        """Maintain the view, insert everything, advance."""
        run.session.maintain("view", self.workload.view)
        for name, data in inputs.items():
            run.session.insert(name, data)
        step = run.session.advance()
        run.placement, run.state_rows = step.placement, step.state_rows

    # measurements ---------------------------------------------------------------------------------------------------

    def warm(self) -> None:
        """Run everything on a small input until compilers and workers have seen it."""
        small = self.workload.small
        for _ in range(2):
            self.noop(small)
            self.to_parquet(small)
            for run in (self.on_spark(small, "spark"), self.on_spark(small), self.local(small, durable=True)):
                run.session.insert(*self._one(self.workload.next_changes(1)[0])[:2])
                run.session.advance()
                run.session.close()

    def _keep(self, name: str, make: Callable[[], Run]) -> Callable[[], None]:
        """A contender whose session stays open, in the place of the one it left before."""

        def contender() -> None:
            if name in self.runs:
                self.runs.pop(name).session.close()
                gc.collect()
            self.runs[name] = make()

        return contender

    def first_computations(self) -> dict[str, Timed]:
        """Everything on the large input, in turns."""
        files = self.workload.files
        return in_turns(
            {
                NOOP: lambda: self.noop(files),
                PARQUET: lambda: self.to_parquet(files),
                ON_SPARK: self._keep(ON_SPARK, lambda: self.on_spark(files)),
                DURABLE: self._keep(DURABLE, lambda: self.local(files, durable=True)),
                IN_MEMORY: self._keep(IN_MEMORY, lambda: self.local(files, durable=False)),
            },
            self.scale.turns,
        )

    def _one(self, change: Change) -> tuple[str, list[tuple[int, int]], int]:
        return change.source, [change.row], change.diff

    def change_one_by_one(self, run: Run) -> None:
        """Each change in a step of its own."""
        changes = self.workload.next_changes(self.scale.changes)
        run.changes += changes

        def step(change: Change) -> None:
            source, rows, diff = self._one(change)
            run.session.insert(source, rows, diff=diff)
            run.session.advance()

        with memory() as peak:
            for change in changes:
                run.one_by_one.run(lambda change=change: step(change))  # type: ignore[misc]
        run.peak = run.peak.join(peak)

    def change_at_once(self, run: Run, *, times: bool) -> None:
        """All changes in one step, at as many times or all at the same one."""
        changes = self.workload.next_changes(self.scale.changes)
        run.changes += changes
        at = list(range(run.session.lower, run.session.lower + len(changes))) if times else None
        tables = {name: self.workload.change_table(name, changes, at) for name in self.workload.files}

        def step() -> None:
            for name, table in tables.items():
                run.session.insert(name, table, diff="d", time="at" if times else None)
            run.session.advance(to=run.session.lower + (len(changes) if times else 1))

        timed(step, run.many_times if times else run.one_time)

    def check(self, run: Run) -> str:
        """Compare the view with Spark's recomputation over files and changes; says what was compared.

        Raises:
            AssertionError: they differ.
        """
        inputs = {}
        for name, frame in self.workload.read(self.spark, self.workload.files).items():
            changes = self.spark.createDataFrame(self.workload.change_table(name, run.changes))
            inputs[name] = frame.selectExpr("*", "1L as d").unionAll(changes)
        names = run.session.view("view").to_arrow().schema.names if self._is_small(run) else self.workload_columns()
        expected = self._digest(self.spark.sql(self.workload.checksum, **inputs), names, "d")
        result = self._digest(run.session.view("view").df(), names, "1")
        assert expected == result, f"{self.workload.name}: the view has (rows, digest) {result}, Spark says {expected}"
        return f"After all changes the view equals Spark's recomputation: {result[0]:,} rows, by a sum of hashes."

    def _is_small(self, run: Run) -> bool:
        return run.state_rows < 1_000_000

    def workload_columns(self) -> list[str]:
        """Columns of the answer."""
        return self.workload.own_query(self.spark, self.workload.small).columns

    def _digest(self, frame: DataFrame, names: list[str], weight: str) -> tuple[int, int]:
        row = frame.selectExpr(
            f"cast(sum({weight}) as bigint)",
            f"sum(cast(xxhash64({', '.join(names)}) as decimal(20, 0)) * {weight})",
        ).first()
        assert row is not None
        return int(row[0]), int(row[1])


@contextmanager
def opened(workload: Workload, scale: Scale) -> Iterator[Case]:
    """A case with its Spark and its folder; both are gone afterwards."""
    with ExitStack() as stack:
        FOLDER.mkdir(parents=True, exist_ok=True)
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="run-", dir=FOLDER))
        spark = an.spark_session("altneu bench", config={"spark.driver.memory": "4g"})
        stack.callback(spark.stop)
        case = Case(workload, scale, spark, Path(folder).absolute())
        yield case
        for run in case.runs.values():
            run.session.close()


def measure(workload: Workload, scale: Scale) -> Findings:
    """Run a case and tell what it found."""
    with opened(workload, scale) as case:
        print(f"{workload.title}: warming up")
        case.warm()
        print(f"{workload.title}: first computation")
        first = case.first_computations()
        for name in (ON_SPARK, DURABLE, IN_MEMORY):
            print(f"{workload.title}: changes, {name}")
            run = case.runs[name]
            case.change_one_by_one(run)
            for _ in range(ONE_STEP_RUNS):
                case.change_at_once(run, times=True)
                case.change_at_once(run, times=False)
        equal = case.check(case.runs[ON_SPARK])
        return _tell(case, first, equal)


def _tell(case: Case, first: dict[str, Timed], equal: str) -> Findings:
    scale, workload = case.scale, case.workload
    table = Table(
        workload.title,
        [
            "first computation",
            "seconds",
            "/ Spark discarded",
            "/ Spark to Parquet",
            "peak MiB: Python (added) + JVM",
            "placed",
        ],
        notes=["Reading the Parquet files included; altneu's state and answer written where it is durable.", equal],
    )
    for name, result in first.items():
        ratios = (result.median / first[s].median for s in (NOOP, PARQUET))
        placed = case.runs[name].placement if name in case.runs else ""
        table.add(name, f"{result.median:.2f}", *(f"{r:.2f}" for r in ratios), result.peak, placed)
    again = first[NOOP].median
    count = scale.changes
    steps = Table(
        f"{workload.title}: {count:,} one-row changes",
        [
            "session",
            "one step p50 / p99 / max ms",
            f"{count:,} steps, s",
            f"one step, {count:,} times, ms",
            "one step, one time, ms",
            "steps / one step",
            "recomputing once / one-row step",
            "peak MiB",
        ],
        notes=[f"Recomputing is Spark's query with the result discarded: {again:.2f} s."],
    )
    for name, run in case.runs.items():
        p50, p99, most = (milliseconds(run.one_by_one.wall, p) for p in (50, 99, 100))
        steps.add(
            name,
            f"{p50:.2f} / {p99:.2f} / {most:.1f}",
            f"{run.one_by_one.total:.2f}",
            f"{run.many_times.median * 1e3:.1f}",
            f"{run.one_time.median * 1e3:.1f}",
            f"{run.one_by_one.total / run.many_times.median:.0f} / {run.one_by_one.total / run.one_time.median:.0f}",
            f"{again / p50 * 1e3:,.0f}",
            run.peak,
        )
    memory_run = case.runs[IN_MEMORY]
    figures = {
        f"{workload.name} first": first[IN_MEMORY].median,
        f"{workload.name} one": float(np.median(memory_run.one_by_one.wall)),
        f"{workload.name} once": memory_run.one_time.median,
    }
    return Findings([table, steps], _aims(case, first), figures)


def _aims(case: Case, first: dict[str, Timed]) -> list[Aim]:
    name, again = case.workload.name, first[NOOP].median
    aims = []
    for sink in (NOOP, PARQUET):
        ratio = first[ON_SPARK].median / first[sink].median
        judged = first[sink].median > JUDGED_SECONDS
        aims.append(
            Aim(
                f"{name}: first computation within {FIRST_LIMIT:.0f}x of {sink} (judged above {JUDGED_SECONDS:.0f} s)",
                f"{ratio:.2f}x of {first[sink].median:.2f} s",
                ratio / FIRST_LIMIT if judged else None,
            )
        )
    for session in (IN_MEMORY, DURABLE, ON_SPARK):
        run = case.runs[session]
        ratio = run.one_by_one.total / run.many_times.median
        text = f"{name}: {case.scale.changes:,} changes in one step {CHEAPER:.0f}x cheaper than one by one ({session})"
        aims.append(Aim(text, f"{ratio:.0f}x", CHEAPER / ratio))
    assert again > 0
    return aims
