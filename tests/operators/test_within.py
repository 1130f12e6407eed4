"""Rows that may share a frame with those that a step touches: functions of frames of values change as of the groups."""

from __future__ import annotations

import random
from collections import Counter

import pyarrow as pa
import pytest

import altneu as an
from altneu.operators.kernels import around, located, suffix
from altneu.operators.reduce.calls import Aggregate, Frame, WindowCall
from altneu.operators.reduce.node import WHOLE, Around, Suffix, Within
from altneu.operators.reduce.reducers import WindowFunctions
from altneu.plan.rewrite import optimise
from altneu.trace import batch
from tests.lane import seeds
from tests.oracle.recompute import recompute

SCHEMA = "k int, at timestamp, day date, n long, v long, x double"
FRAMES = {
    "at": ["INTERVAL 3 HOURS PRECEDING AND CURRENT ROW", "INTERVAL 1 HOUR PRECEDING AND INTERVAL 2 HOURS FOLLOWING"],
    "day": ["INTERVAL 1 MONTH PRECEDING AND INTERVAL 2 DAYS PRECEDING", "CURRENT ROW AND INTERVAL 20 DAYS FOLLOWING"],
    "n": ["2 PRECEDING AND 1 PRECEDING", "3 PRECEDING AND 1 FOLLOWING", "CURRENT ROW AND CURRENT ROW"],
}
CALLS = ["sum(v)", "avg(x)", "count(*)", "max(v)", "min(x)", "collect_list(v)", "first_value(n)"]


def random_row(rng):
    hour, day = rng.choice([None, *range(12)]), rng.choice([None, *range(60)])
    n = rng.choice([None, -(2**63) + 2, 2**63 - 3, *range(20)])
    v, x = rng.choice([None, *range(5)]), rng.choice([None, 0.5, float("nan"), -1.25, 1e300])
    at = None if hour is None else hour * 3_600_000_000 + rng.choice([0, 1])
    return rng.choice([None, 1, 2]), at, day, n, v, x


def random_window(rng):
    order = rng.choice(list(FRAMES))
    direction = rng.choice(["", " DESC", " NULLS LAST"])
    over = f"PARTITION BY k ORDER BY {order}{direction} RANGE BETWEEN"
    return {f"w{i}": f"{rng.choice(CALLS)} OVER ({over} {rng.choice(FRAMES[order])})" for i in range(rng.randint(1, 3))}


ONE_SIDE = {
    "at": ["UNBOUNDED PRECEDING AND INTERVAL 2 HOURS PRECEDING", "UNBOUNDED PRECEDING AND INTERVAL 1 HOUR FOLLOWING"],
    "day": ["UNBOUNDED PRECEDING AND INTERVAL 1 MONTH PRECEDING", "UNBOUNDED PRECEDING AND INTERVAL 3 DAYS FOLLOWING"],
    "n": ["UNBOUNDED PRECEDING AND 3 PRECEDING", "UNBOUNDED PRECEDING AND 2 FOLLOWING"],
}
OTHER_SIDE = {
    "at": ["INTERVAL 2 HOURS PRECEDING AND UNBOUNDED FOLLOWING", "INTERVAL 1 HOUR FOLLOWING AND UNBOUNDED FOLLOWING"],
    "day": ["INTERVAL 1 MONTH PRECEDING AND UNBOUNDED FOLLOWING", "INTERVAL 3 DAYS FOLLOWING AND UNBOUNDED FOLLOWING"],
    "n": ["3 PRECEDING AND UNBOUNDED FOLLOWING", "2 FOLLOWING AND UNBOUNDED FOLLOWING"],
}
RUNNING = ["count(*)", "count(v)", "avg(x)", "max(v)", "min(x)", "last_value(v)", "nth_value(n, 2)"]
NEAR = ["lag(v) IGNORE NULLS OVER (O)", "lead(x, 2) OVER (O)", "last_value(v) IGNORE NULLS OVER (O)", "lag(n) OVER (O)"]
AHEAD = ["row_number() OVER (O)", "dense_rank() OVER (O)", "sum(v) OVER (O)", "max(x) OVER (O)"]


def mixed_window(rng):
    """Functions of several kinds in one order: frames that end at values on one side or both, near rows, all before."""
    order, back = rng.choice(list(FRAMES)), rng.random() < 0.3
    direction = rng.choice(["", " DESC", " NULLS LAST"])
    one_side = [f"{f} OVER (O RANGE BETWEEN {x})" for f in RUNNING for x in ONE_SIDE[order]]
    if back:
        one_side = [f"{f} OVER (O RANGE BETWEEN {x})" for f in RUNNING[:5] for x in OTHER_SIDE[order]]
    both = [f"{f} OVER (O RANGE BETWEEN {x})" for f in CALLS for x in FRAMES[order]]
    pools = [one_side, both[: -2 * back or None], NEAR[: 1 if back else None], [] if back else AHEAD]
    texts = [rng.choice(pool) for pool in pools if pool and rng.random() < 0.6] or [rng.choice(one_side)]
    return {f"w{i}": text.replace("(O", f"(PARTITION BY k ORDER BY {order}{direction}") for i, text in enumerate(texts)}


@pytest.mark.parametrize("seed", seeds(10, 4))
@pytest.mark.parametrize("below", [False, True])
@pytest.mark.parametrize("window", [random_window, mixed_window])
def test_frames_of_values_change_as_recomputation_says(window, seed, below, monkeypatch):
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(suffix, "_SEARCHED", 0)
    monkeypatch.setattr(around, "_MORE", 2)
    rng = random.Random(f"{seed}{below}")
    source = an.source("t", SCHEMA)
    with an.Session(shards=rng.choice([1, 2])) as session:
        views = {f"v{i}": source.window(**window(rng)) for i in range(3)}
        for name, view in views.items():
            session.maintain(name, view)
        rows = Counter()
        for _ in range(12):
            for _ in range(rng.choice([1, 1, 2, 25])):
                there = sorted((row for row, n in rows.items() if n > 0), key=repr)
                row, diff = random_row(rng), rng.choice([1, 1, 2])
                if there and rng.random() < 0.4:
                    row, diff = rng.choice(there), -1
                elif below and rng.random() < 0.1:
                    diff = -1
                rows[row] += diff
                session.insert("t", [row], diff=diff)
            session.advance()
            for name, view in views.items():
                held = Counter({row: n for row, n in rows.items() if n})
                expected, errors = recompute(optimise(view.node), {"t": held})
                shown = session.view(name)
                actual = (
                    tuple(tuple(v) if type(v) is list else v for v in r) for r in shown.to_pylist(errors="ignore")
                )
                assert Counter(map(repr, actual)) == Counter(map(repr, expected.elements()))
                assert sorted(e["code"] for e in shown.errors().to_pylist()) == sorted(code for code, _ in errors)


def rows_read(count, monkeypatch):
    """How many rows are gathered for one that is new, of a partition with a row every second."""
    read, matches = [0], batch.Matches

    def counted(probe, *rest):
        read[-1] += len(probe)
        return matches(probe, *rest)

    events = an.source("events", "k int, at timestamp, v long")
    over = "OVER (PARTITION BY k ORDER BY at RANGE BETWEEN INTERVAL 10 SECONDS PRECEDING AND CURRENT ROW)"
    with an.Session() as session, monkeypatch.context() as patch:
        view = session.maintain("moving", events.window(total=f"sum(v) {over}"))
        session.insert("events", [(1, i * 1_000_000, i % 10) for i in range(count)])
        session.advance()
        patch.setattr(batch, "Matches", counted)
        session.insert("events", [(1, 500_500_000, 1)])
        step = session.advance()
        assert "(incremental)" in session.explain("moving")
        assert len(view.to_pylist()) == count + 1
        assert step is not None
        return read[-1]


def test_what_is_read_does_not_grow_with_the_group(monkeypatch):
    few, many = (rows_read(count, monkeypatch) for count in (1_000, 30_000))
    assert many <= few + 4 <= 60


def test_frames_that_have_no_distance_read_the_group():
    schema = pa.schema(
        [("k", pa.int64()), ("v", pa.int64()), ("low", pa.int64()), ("x", pa.float64()), ("f", pa.float64())]
    )

    def window(column, frame, function="count"):
        return WindowFunctions((WindowCall(Aggregate(function, (), pa.int64()), ((column, False, True),), frame),))

    assert window("v", Frame(False, "low", 0)).needed(schema, ("k",)) == Within(("low",))
    assert window("v", Frame(False, 0, 0)).needed(schema, ("k",)) == Within(())
    assert window("x", Frame(False, "f", 0)).needed(schema, ("k",)) == WHOLE
    assert window("v", Frame(False, "low", None)).needed(schema, ("k",)) == WHOLE
    assert window("v", Frame(False, None, "low")).needed(schema, ("k",)) == Suffix(0, bounds=("low",))
    assert window("x", Frame(False, None, "f")).needed(schema, ("k",)) == WHOLE
    last = window("v", Frame(False, None, "low"), "last")
    assert last.needed(schema, ("k",)) == Suffix(0, beside=Around(2, with_ties=True, bounds=("low",)))
    assert window("v", Frame(False, "low", 0), "stddev").needed(schema, ("k",)) == WHOLE
