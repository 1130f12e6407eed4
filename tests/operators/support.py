"""Random histories, run step by step through a reduce and judged against recomputation at every time."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.kernels.groups import ReduceOutput
from altneu.operators.reduce.calls import Aggregate
from altneu.order import Epoch
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates

LATTICE = Epoch()
NAN = float("nan")

Update = tuple[tuple[Any, ...], int, int]
Step = list[Update]


def call(function: str, arguments: tuple[str, ...], *, distinct: bool = False) -> Aggregate:
    """An aggregate for kernels, which know its type by the columns that they read."""
    return Aggregate(function, arguments, pa.null(), distinct)


def updates_of(schema: pa.Schema, updates: Iterable[Update]) -> Updates:
    listed = list(updates)
    rows = Rows.from_pylist([row for row, _, _ in listed], schema)
    times = np.array([time for _, time, _ in listed], np.int64).reshape(1, -1)
    return Updates(Rows(schema, rows.columns, len(listed)), times, np.array([diff for _, _, diff in listed], np.int64))


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def comparable(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row whose NaN equals itself, lists and structs included."""
    plain = (tuple(v.values()) if isinstance(v, dict) else v for v in row)
    return tuple(comparable(v) if isinstance(v, list | tuple) else "NaN" if is_nan(v) else v for v in plain)


def collect(updates: Updates) -> dict[int, Counter[tuple[Any, ...]]]:
    """Changes per time; an update that another one cancels or repeats is an operator's fault."""
    result: dict[int, Counter[tuple[Any, ...]]] = {}
    seen = set()
    for row, time, diff in zip(
        updates.rows.to_pylist(), updates.times[0].tolist(), updates.diffs.tolist(), strict=True
    ):
        assert diff != 0
        assert (comparable(row), time) not in seen, "an output that no reader can tell apart"
        seen.add((comparable(row), time))
        result.setdefault(time, Counter())[comparable(row)] += diff
    return result


@dataclass
class Run:
    """Feeds steps to an operator as the engine would: earlier batches as old, apart or merged."""

    layout: Layout
    reduce: Callable[[Arranged], ReduceOutput]
    explode: Callable[[Updates], Updates] = lambda updates: updates
    merged: bool = False

    def __post_init__(self) -> None:
        self.old: tuple[Batch, ...] = ()
        self.everything: list[Updates] = []

    def step(self, updates: Updates, upper: int) -> ReduceOutput:
        slots = self.explode(updates)
        description = Description.interval(LATTICE, 0, upper)
        new = Batch.build(slots, self.layout, description)
        result = self.reduce(Arranged(self.layout, self.old, new))
        assert result.oks.schema.equals(result.oks.rows.schema)
        assert len(result.pended) == 0
        if self.merged:
            whole = Updates.concat([*(b.updates() for b in self.old), slots], self.layout.schema, 1)
            whole = Updates(whole.rows, np.full((1, len(whole)), upper - 1, np.int64), whole.diffs)
            self.old = (Batch.build(whole, self.layout, description),)
        elif len(new):
            self.old = (*self.old, new)
        return result

    @property
    def state(self) -> Counter[tuple[Any, ...]]:
        """What the arrangement holds, added up over times."""
        held: Counter[tuple[Any, ...]] = Counter()
        for batch in self.old:
            actual = batch.updates()
            for row, diff in zip(actual.rows.to_pylist(), actual.diffs.tolist(), strict=True):
                held[comparable(row)] += diff
        return Counter({row: count for row, count in held.items() if count})


Expected = tuple[Counter[tuple[Any, ...]], Counter[tuple[str, str, str]]]


def check(
    run: Run, schema: pa.Schema, steps: Sequence[Step], oracle: Callable[[Counter[tuple[Any, ...]]], Expected]
) -> None:
    """At every time, what came out must be the change of what the oracle makes of the accumulated input."""
    held: Counter[tuple[Any, ...]] = Counter()
    values: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    oks: Counter[tuple[Any, ...]] = Counter()
    errs: Counter[tuple[str, str, str]] = Counter()
    for step in steps:
        times = sorted({time for _, time, _ in step})
        result = run.step(updates_of(schema, step), (times[-1] if times else 0) + 1)
        rows = collect(result.oks)
        bad = collect(result.errs)
        assert set(rows) | set(bad) <= set(times)
        for now in times:
            for row, time, diff in step:
                if time == now:
                    values[comparable(row)] = row
                    held[comparable(row)] += diff
            good, wrong = oracle(Counter({values[row]: count for row, count in held.items() if count}))
            assert rows.get(now, Counter()) == change(oks, good), (now, step)
            actual = Counter({error[1:]: n for error, n in bad.get(now, Counter()).items()})
            assert actual == change(errs, wrong), (now, step)
            oks, errs = good, wrong


def change(before: Counter[Any], after: Counter[Any]) -> Counter[Any]:
    difference = Counter(after)
    difference.subtract(before)
    return Counter({row: n for row, n in difference.items() if n})


def history(
    rng: random.Random,
    value: Callable[[random.Random], tuple[Any, ...]],
    steps: int,
    size: int,
    *,
    diffs: Sequence[int] = (1, 1, 2, -1),
) -> list[Step]:
    """Steps of updates on few rows: insertions, exact retractions, simultaneous changes that cancel."""
    alive: list[tuple[tuple[Any, ...], int]] = []
    time = 0
    result: list[Step] = []
    for _ in range(steps):
        step: Step = []
        for _ in range(rng.randint(0 if result else 1, size)):
            if rng.random() < 0.6:
                time += rng.randint(0, 2)
            if alive and rng.random() < 0.45:
                row, diff = alive.pop(rng.randrange(len(alive)))
                step.append((row, time, -diff))
            else:
                row, diff = value(rng), rng.choice(diffs)
                step.append((row, time, diff))
                alive.append((row, diff))
        time += 1
        result.append(step)
    return result


def undone(steps: Sequence[Step]) -> Step:
    """One more step that retracts everything."""
    end = 1 + max((time for step in steps for _, time, _ in step), default=0)
    held: Counter[tuple[Any, ...]] = Counter()
    values = {}
    for step in steps:
        for row, _, diff in step:
            held[comparable(row)] += diff
            values[comparable(row)] = row
    return [(values[row], end, -count) for row, count in held.items() if count]
