"""Case q: one row into a group of any size, for each operator; a queue; DuckDB computing the same query anew."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import numpy as np
import pyarrow as pa

import altneu as an
from altneu.columnar.columns import Stack
from altneu.operators.kernels import small_around, small_ends
from altneu.sql import query
from altneu.trace import batch
from bench.durable import disk
from bench.inputs import FOLDER, generator, parquet
from bench.measure import Steps, milliseconds
from bench.scale import Scale
from bench.steps import fill
from bench.tables import Aim, Findings, Table

_READING = (small_ends, "_first_rows", 1), (small_ends, "_extremes", 2), (small_around, "_stretches", 5)
"""Kernels that read where rows lie, and which of their results says how many updates they read."""
SIZES, LARGEST = (10_000, 100_000, 1_000_000), 10_000_000
GROUPS = 100_000  # of the largest of SIZES
STEPS, QUICK_STEPS, WARM_STEPS, COUNTED_STEPS = 500, 100, 30, 20
QUEUE, QUICK_QUEUE = 100_000, 20_000
RECOMPUTED, QUICK_RECOMPUTED, STEPS_BETWEEN = 21, 7, 5
GROWTH_LIMIT, QUEUE_LIMIT = 2.0, 1.5
TURNS = 10_000  # of an empty loop, timed beside every step
VALUES = 1_000_000_000  # values of v are smaller, but for those of extreme rows
TYPES = {"g": "long", "id": "long", "v": "long", "w": "string"}
OVER = "OVER (PARTITION BY g ORDER BY id"


@dataclass(frozen=True)
class Operator:
    """A query over ``t``, which both altneu and DuckDB understand.

    ``columns`` are those of ``t``. New rows come ``last`` in their group where a row in the middle changes all rows
    after it. ``largest`` queries are also measured on 10,000,000 rows, ``compared`` ones with DuckDB, and with Pathway
    those that have a name in ``pathway_side``.
    """

    name: str
    text: str
    columns: str = "g v"
    last: bool = False
    largest: bool = False
    compared: bool = False
    lookup: bool = False
    pathway: str = ""

    @property
    def names(self) -> list[str]:
        """The columns of ``t``."""
        return self.columns.split()

    def plan(self) -> an.Collection:
        """The query as a collection."""
        t = an.source("t", ", ".join(f"{name} {TYPES[name]}" for name in self.names))
        result = query(self.text, {"t": t, "d": an.source("d", "g long, label long")})
        return result.arrange_by("id") if self.lookup else result


def _grouped(aggregates: str) -> str:
    return f"SELECT g, {aggregates} FROM t GROUP BY g"


def _windowed(function: str) -> str:
    return f"SELECT g, id, {function} AS r FROM t"


TOP = "SELECT g, id, v, row_number() OVER (PARTITION BY g ORDER BY v DESC, id) AS r FROM t"
RANKED = "SELECT g, id, v, rank() OVER (PARTITION BY g ORDER BY v DESC) AS r FROM t"
OPERATORS = (
    Operator("count + sum", _grouped("count(*) AS n, sum(v) AS s")),
    Operator("min + max", _grouped("min(v) AS low, max(v) AS high"), largest=True, compared=True,
             pathway="extremes"),
    Operator("top 10", f"SELECT g, id, v FROM ({TOP}) AS ranked WHERE r <= 10", "g id v", compared=True,
             pathway="top"),
    Operator("max_by", _grouped("max_by(id, v) AS best"), "g id v"),
    Operator("rank <= 10", f"SELECT g, id, v FROM ({RANKED}) AS ranked WHERE r <= 10", "g id v"),
    Operator("median", _grouped("median(v) AS m"), largest=True, compared=True),
    Operator("count(DISTINCT)", _grouped("count(DISTINCT w) AS n"), "g w", largest=True, compared=True,
             pathway="distinct"),
    Operator("count + max + count(DISTINCT)", _grouped("count(*) AS n, max(v) AS m, count(DISTINCT w) AS k"), "g v w"),
    Operator("row_number", _windowed(f"row_number() {OVER})"), "g id", last=True),
    Operator("dense_rank", _windowed(f"dense_rank() {OVER})"), "g id", last=True),
    Operator("first_value", _windowed(f"first_value(v) {OVER})"), "g id v", last=True),
    Operator("max of the partition", _windowed("max(v) OVER (PARTITION BY g)"), "g id v"),
    Operator("running max", _windowed(f"max(v) {OVER})"), "g id v", last=True),
    Operator("running sum", _windowed(f"sum(v) {OVER})"), "g id v", last=True),
    Operator("lag", _windowed(f"lag(v) {OVER})"), "g id v", largest=True, compared=True, pathway="lag"),
    Operator("two orders", _windowed(f"lag(v) {OVER}) AS q, lead(id) OVER (PARTITION BY g ORDER BY v)"), "g id v"),
    Operator("sum of a range", _windowed(f"sum(v) {OVER} RANGE BETWEEN 20 PRECEDING AND CURRENT ROW)"), "g id v"),
    Operator("moving average", _windowed(f"avg(v) {OVER} ROWS 10 PRECEDING)"), "g id v", compared=True,
             pathway="average"),
    Operator("filter + count", "SELECT g, count(*) AS n FROM t WHERE v >= 100 GROUP BY g", pathway="filter_count"),
    Operator("filter + join", "SELECT t.g, t.v, d.label FROM t JOIN d ON t.g = d.g WHERE t.v >= 100",
             pathway="filter_join"),
    Operator("view.get(key)", "SELECT id, g, v FROM t", "g id v", lookup=True),
)  # fmt: skip


def rows_of(operator: Operator, size: int, groups: int) -> pa.Table:
    """The first rows: ``id`` is even, in order; ``v`` is random, and half of the values of ``w`` are distinct."""
    rng = generator(f"one group, {size}, {groups}")
    made: dict[str, Callable[[], pa.Array]] = {
        "g": lambda: pa.array(rng.integers(0, groups, size)),
        "id": lambda: pa.array(2 * np.arange(size)),
        "v": lambda: pa.array(rng.integers(0, VALUES, size)),
        "w": lambda: pa.array([f"w{i}" for i in range(size // 2)]).take(pa.array(rng.integers(0, size // 2, size))),
    }
    return pa.table({name: made[name]() for name in operator.names})


def files(size: int) -> dict[str, Path]:
    """The inputs as Parquet files, ``id`` as ``o``: in one group, with the one row that it is joined with."""

    def make(_: np.random.Generator) -> dict[str, Any]:
        rows = rows_of(Operator("", "", "g id v w"), size, 1)
        return dict(zip(("g", "o", "v", "w"), rows.columns, strict=True))

    one = np.zeros(1, np.int64)
    return {"t": parquet(f"one-group-{size}", make), "d": parquet("one-group-d", lambda _: {"g": one, "label": one})}


def bytes_without_order(operator: Operator, size: int) -> float:
    """Bytes that an arrangement by the group without any order keeps, for each row of the table."""
    with an.Session() as session:
        names = ", ".join(f"{name} {TYPES[name]}" for name in operator.names)
        session.maintain("view", an.source("t", names).arrange_by("g"))
        fill(session, "t", rows_of(operator, size, 1))
        return sum(kept for _, kept in session._engine.table.sizes().values()) / size


@dataclass
class Group:
    """A view over ``size`` rows in so many groups, and the one-row steps on it."""

    operator: Operator
    size: int
    groups: int = 1
    path: Path | None = None
    steps: Steps = field(default_factory=Steps)

    def __post_init__(self) -> None:
        """Load the rows, in pieces that double the state."""
        self.rng = generator("one row")
        self.there: list[tuple[Any, ...]] = []
        self.number = 0
        self.session = an.Session(path=self.path)
        self.view = self.session.maintain("view", self.operator.plan())
        if "label" in self.operator.text:
            keys = np.arange(self.groups)
            self.session.insert("d", pa.table({"g": keys, "label": keys}))
        self.rows = rows_of(self.operator, self.size, self.groups)
        fill(self.session, "t", self.rows)

    @property
    def p50(self) -> float:
        """Milliseconds."""
        return milliseconds(self.steps.wall, 50)

    def change(self) -> tuple[tuple[Any, ...], int]:
        """A new row, then one that goes again, and so on: every other new row has the greatest value of all."""
        self.number += 1
        if self.number % 2 == 0 and len(self.there) > 1:
            at = -1 if self.operator.last else int(self.rng.integers(len(self.there)))
            return self.there.pop(at), -1
        draw = self.rng.integers
        place = self.size + self.number if self.operator.last else int(draw(self.size))
        made = {
            "g": int(draw(self.groups)),
            "id": 2 * place + 1,
            "v": VALUES + self.number if self.number % 4 == 1 else int(draw(VALUES)),
            "w": f"w{draw(self.size)}",
        }
        self.there.append(tuple(made[name] for name in self.operator.names))
        return self.there[-1], 1

    def step(self) -> tuple[tuple[Any, ...], int]:
        """One step, timed; of a lookup, the lookup after the step."""
        row, diff = change = self.change()
        apply = self.session.insert if diff > 0 else self.session.retract
        if self.operator.lookup:
            apply("t", [row])
            self.session.advance()
            self.steps.run(partial(self.view.get, 2 * int(self.rng.integers(self.size))))
        else:
            self.steps.run(partial(_advance, self.session, apply, row))
        return change

    @property
    def kept(self) -> float:
        """Bytes kept for each row of the table, in all arrangements."""
        return sum(size for _, size in self.session._engine.table.sizes().values()) / self.size

    @property
    def in_order(self) -> float:
        """Bytes kept for each row of the table, in the arrangement in an order that has the most of them; or 0."""
        table = self.session._engine.table
        return (
            max((kept for name, (_, kept) in table.sizes().items() if table.layouts[name].order), default=0) / self.size
        )

    def read(self) -> int:
        """Rows of arrangements that a step reads: the median of a few steps, which are not timed."""
        take, matches, timed = Stack.take, batch.Matches, self.steps
        counts: list[int] = []

        def taken(stack: Stack, rows: np.ndarray[Any, Any]) -> Any:
            counts[-1] += len(rows)
            return take(stack, rows)

        def matched(probe: np.ndarray[Any, Any], *rest: Any) -> Any:
            counts[-1] += len(probe)
            return matches(probe, *rest)

        def walking(kernel: Callable[..., Any], place: int) -> Callable[..., Any]:
            def walked(*given: Any) -> Any:
                result = kernel(*given)
                counts[-1] += max(result[place], 0)
                return result

            return walked

        with ExitStack() as patches:
            patches.enter_context(mock.patch.object(Stack, "take", taken))
            patches.enter_context(mock.patch.object(batch, "Matches", matched))
            for module, name, place in _READING:
                walked = walking(getattr(module, name), place)
                patches.enter_context(mock.patch.object(module, name, walked))
            for _ in range(COUNTED_STEPS):
                counts.append(0)
                self.step()
        self.steps = timed
        return int(np.median(counts))

    def warm_up(self) -> None:
        """Steps that do not count."""
        for _ in range(WARM_STEPS):
            self.step()
        self.steps = Steps()


def _advance(session: an.Session, apply: Callable[..., object], row: tuple[Any, ...]) -> None:
    apply("t", [row])
    session.advance()


def _empty_loop() -> None:
    for _ in range(TURNS):
        pass


def _shown(group: Group) -> str:
    return f"{group.p50:.2f} / {milliseconds(group.steps.wall, 99):.2f}"


def measure(scale: Scale) -> Findings:
    """Every operator, and the queue."""
    full = scale.name == "full"
    count = STEPS if full else QUICK_STEPS
    middle = SIZES[-1]
    sizes = (*SIZES, LARGEST) if full else SIZES
    main = Table(
        "q. one row into one group: p50 / p99 ms",
        [
            "operator",
            *(f"{size:,} rows" for size in sizes),
            f"{middle:,} rows in {GROUPS:,} groups",
            f"p50, most rows / {SIZES[0]:,}",
            "the same, CPU",
            "CPU ms",
            f"durable, {middle:,} rows: p50",
            "p50 in turns of an empty loop",
            f"rows read, {SIZES[0]:,} / most rows",
            "bytes kept a row",
            "bytes a row in order / without order",
        ],
    )
    main.notes.append(
        f"{count} steps on each state, the states in random order. A row comes or goes in every step: for row_number "
        "and the running sum at the end of its group, as any other place changes the rows after it, else anywhere."
    )
    main.notes.append(
        f"view.get(key): a lookup in a view of so many rows, after such a step. Turns: p50 on {middle:,} rows / a turn "
        "of an empty Python loop, timed beside the steps. CPU: the p50 of what this thread computed, and so not what "
        "other processes took; in ms on most rows."
    )
    main.notes.append(
        f"Rows read: of arrangements, the median of {COUNTED_STEPS} further steps. Bytes kept: of all arrangements of "
        f"the view together, its contents among them, for each of the {middle:,} rows. In order: of the "
        "largest arrangement in an order; without: of an arrangement by the group of the same rows, without one."
    )
    anew = Table(
        f"q. one row into a group of {middle:,} rows, and DuckDB, which computes the query anew",
        ["operator", "altneu p50, ms", "DuckDB p50, ms", "DuckDB / altneu"],
        notes=[
            "In turns in one process, DuckDB with as many threads as it likes. In the end the answers are the same."
        ],
    )
    anew.notes.append("`--pathway` measures Pathway on the same rows, in a table of its own.")
    findings = Findings([main, anew])
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        main.notes.append(f"The disk: {disk(Path(folder)):.2f} ms for the system calls of a commit of 2 KB alone, p50.")
    for operator in OPERATORS:
        print(f"q. {operator.name}")
        with tempfile.TemporaryDirectory(dir=FOLDER) as folder, ExitStack() as stack:
            measured = sizes if operator.largest else SIZES
            groups = {f"{size:,}": Group(operator, size) for size in measured}
            groups["many"] = Group(operator, middle, GROUPS)
            groups["durable"] = Group(operator, middle, path=Path(folder) / "state")
            for group in groups.values():
                stack.enter_context(group.session)
            turns = _in_turns(list(groups.values()), count)
            first, last, same = (groups[f"{size:,}"] for size in (SIZES[0], measured[-1], middle))
            growth = last.p50 / first.p50
            computed = milliseconds(last.steps.cpu, 50) / milliseconds(first.steps.cpu, 50)
            main.add(
                operator.name,
                *(_shown(groups[f"{size:,}"]) if size in measured else "" for size in sizes),
                _shown(groups["many"]),
                f"{growth:.2f}x",
                f"{computed:.2f}x",
                f"{milliseconds(last.steps.cpu, 50):.2f}",
                f"{groups['durable'].p50:.2f}",
                f"{same.p50 / 1e3 / turns:,.0f}",
                f"{first.read():,} / {last.read():,}",
                f"{same.kept:.0f}",
                f"{same.in_order:.1f} / {bytes_without_order(operator, middle):.1f}" if same.in_order else "",
            )
            what = "lookup" if operator.lookup else "one-row step"
            text = f"q: {operator.name}, a {what} in {last.size:,} rows within {GROWTH_LIMIT:.0f}x of {SIZES[0]:,}"
            findings.aims.append(Aim(f"{text}, p50", f"{growth:.2f}x", growth / GROWTH_LIMIT))
            findings.figures[f"q {operator.name}"] = same.p50 / 1e3
            if operator.compared:
                ours, theirs = _against_duckdb(same, RECOMPUTED if full else QUICK_RECOMPUTED)
                anew.add(operator.name, f"{ours:.2f}", f"{theirs:.2f}", f"{theirs / ours:,.0f}x")
        gc.collect()  # the states of this operator must not be let go of while the next one steps
    findings.extend(_queue(QUEUE if full else QUICK_QUEUE))
    return findings


def _in_turns(groups: list[Group], count: int) -> float:
    """Step on each state in turn, so that what disturbs the machine disturbs all; seconds of a turn of a loop.

    In random order: a step that waits for the disk makes the next one quicker, as the process is then due again.
    """
    loop, rng = Steps(), generator("turns")
    for group in groups:
        group.warm_up()
    for _ in range(count):
        for i in rng.permutation(len(groups)):
            groups[i].step()
        loop.run(_empty_loop)
    return float(np.median(loop.wall)) / TURNS


def _against_duckdb(group: Group, turns: int) -> tuple[float, float]:
    """P50 in ms of a step, and of the whole query in DuckDB over the same rows, in turns."""
    names, text = group.operator.names, group.operator.text
    group.steps, theirs = Steps(), Steps()
    with duckdb.connect() as database:
        database.register("given", group.rows)
        database.execute("CREATE TABLE t AS SELECT * FROM given")
        for row in group.there:
            _copy(database, names, row, 1)
        for _ in range(turns):
            for _ in range(STEPS_BETWEEN):
                _copy(database, names, *group.step())
            answer = theirs.run(lambda: database.execute(text).to_arrow_table())
        ours = group.view.to_arrow()
        database.register("answer", answer)
        database.register("ours", ours.select(answer.column_names))
        differing = database.execute("SELECT count(*) FROM (FROM answer EXCEPT ALL FROM ours)").fetchone()
    if ours.num_rows != answer.num_rows or differing != (0,):
        raise AssertionError(f"{group.operator.name}: the view does not show what DuckDB computes")
    return group.p50, milliseconds(theirs.wall, 50)


def _copy(database: duckdb.DuckDBPyConnection, names: list[str], row: tuple[Any, ...], diff: int) -> None:
    """Apply a change to DuckDB's table, too."""
    if diff > 0:
        database.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(names))})", row)
    else:  # one of its copies
        marks = " AND ".join(f"{name} = ?" for name in names)
        database.execute(f"DELETE FROM t WHERE rowid = (SELECT min(rowid) FROM t WHERE {marks})", row)


class Queue:
    """One group of ``size`` rows under ``min``, whose least row goes at each step."""

    def __init__(self, size: int) -> None:
        self.session, self.front, self.steps = an.Session(), 0, Steps()
        plan = an.source("t", "g long, v long").group_by("g").agg(least="min(v)")
        self.view = self.session.maintain("view", plan)
        fill(self.session, "t", pa.table({"g": np.zeros(size, np.int64), "v": np.arange(size)}))

    def pop(self) -> None:
        """One step, timed."""
        self.steps.run(partial(_advance, self.session, self.session.retract, (0, self.front)))
        self.front += 1


def _queue(size: int) -> Findings:
    """The last tenth of a queue's steps and the first tenth of another's, in turns."""
    print("q. a queue")
    table = Table(
        f"q. a queue of {size:,} rows in one group under min(), drained from the front, one row a step",
        ["", "p50 ms", "p99 ms", "max ms", "p50 CPU ms"],
    )
    tenth = size // 10
    old, new = Queue(size), Queue(size)
    with old.session, new.session:
        for _ in range(size - tenth):
            old.pop()
        before, old.steps = old.steps, Steps()
        for _ in range(tenth):
            new.pop()
            old.pop()
        if old.view.to_pylist() or new.view.to_pylist() != [(0, tenth)]:
            raise AssertionError("the queues do not show their least rows")
    parts = {"first tenth": new.steps, "all before the last tenth": before, "last tenth": old.steps}
    for name, steps in parts.items():
        computed = f"{milliseconds(steps.cpu, 50):.2f}"
        table.add(name, *(f"{milliseconds(steps.wall, p):.2f}" for p in (50, 99, 100)), computed)
    ratio = milliseconds(old.steps.wall, 50) / milliseconds(new.steps.wall, 50)
    table.notes.append(
        "The first and the last tenth are those of two queues, in turns, the last one drained before. "
        f"p50 of the last tenth / p50 of the first: {ratio:.2f}"
    )
    aim = Aim(f"q: a queue costs at its end within {QUEUE_LIMIT}x of its beginning, p50", f"{ratio:.2f}x",
              ratio / QUEUE_LIMIT)  # fmt: skip
    return Findings([table], [aim])
