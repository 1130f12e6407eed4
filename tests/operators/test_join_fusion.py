"""Linear logic inside a join gives what it gives behind it, whatever the chunks, and builds only what passes."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.columnar.rows import Rows
from altneu.operators.join import pairs as joining
from altneu.operators.join.pairs import JoinSpec, TooManyMatches, join
from altneu.operators.linear.logic import run_logic
from altneu.order import Epoch, Product
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates
from tests.operators.join_fusion_cases import (
    JOINED,
    LEFT,
    LOGICS,
    OUTPUTS,
    RIGHT,
    SCHEMA,
    arranged,
    bound,
    side,
    total,
)


def pairs(left: Arranged, right: Arranged, spec: JoinSpec) -> Updates:
    """The matches that this step owes, one by one."""

    def each(batches):
        return [
            (dict(zip(u.schema.names, row, strict=True)), time, diff)
            for u in (b.updates() for b in batches)
            for row, time, diff in zip(u.rows.to_pylist(), u.times.T, u.diffs.tolist(), strict=True)
        ]

    both = [(each([left.new]), each(right.all)), (each(left.old), each([right.new]))]
    result = [
        (tuple((x, y)[s][column] for _, s, column in spec.outputs), np.maximum(t, u), d * e)
        for mine, theirs in both
        for x, t, d in mine
        for y, u, e in theirs
        if x["k"] is not None and x["k"] == y["k"]
    ]
    times = np.array([time for _, time, _ in result], np.int64).reshape(len(result), spec.lattice.width).T
    return Updates(
        Rows.from_pylist([r for r, _, _ in result], spec.schema), times, np.array([d for *_, d in result], int)
    )


@pytest.mark.parametrize("lattice", [Epoch(), Product(Epoch(), Epoch())], ids=["total", "partial"])
@pytest.mark.parametrize("chunk", [1, 3, 1 << 16])
@pytest.mark.parametrize("name", LOGICS)
def test_logic_in_a_join_gives_what_it_gives_of_every_pair(monkeypatch, name, chunk, lattice):
    monkeypatch.setattr(joining, "CHUNK", chunk)
    logic, spec = LOGICS[name], JoinSpec(SCHEMA, OUTPUTS, lattice)
    rng = random.Random(f"{name} {lattice}")
    for _ in range(6):
        left, right = (arranged(side(rng, schema, lattice, rng.randint(1, 4))) for schema in (LEFT, RIGHT))
        rows, errors = join(left, right, spec, logic)
        wanted, failed = run_logic(logic, pairs(left, right, spec))
        assert rows.schema == wanted.schema
        assert total(rows) == total(wanted)
        assert total(errors) == total(failed)


def crowd(schema: pa.Schema, rows: int, text: str) -> Arranged:
    columns = (pa.array(np.zeros(rows, np.int64)), pa.array(np.arange(rows)), pa.array([text] * rows, schema.types[2]))
    updates = Updates(Rows(schema, columns, rows), np.zeros((1, rows), np.int64), np.ones(rows, np.int64))
    return arranged([Batch.build(updates, Layout(schema, ("k",), Epoch()), Description.interval(Epoch(), 0, 1))])


def test_memory_follows_what_passes_and_not_what_matches():
    """A million matches of two kilobytes each, of which a thousand pass: neither they nor their positions are kept."""
    right = pa.schema([("k", pa.int64()), ("c", pa.int64()), ("d", pa.string())])
    sides = crowd(LEFT, 1000, "x" * 1000), crowd(right, 1000, "y" * 1000)
    logic = bound(
        an.source("j", "k long, a long, b string, c long, d string, k2 long").filter("a = c").select("b", "d", "a")
    )
    spec = JoinSpec(pa.schema([*SCHEMA][:4]).append(right.field("d")).append(SCHEMA.field("k2")), OUTPUTS, Epoch())
    before, pool = pa.default_memory_pool(), pa.system_memory_pool()  # which nothing else uses
    assert before.backend_name != pool.backend_name
    pa.set_memory_pool(pool)
    tracemalloc.start()
    try:
        rows, _ = join(*sides, spec, logic)
        peak = pool.max_memory() + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert len(rows) == 1000
    assert peak < 32 << 20


def test_the_budget_counts_matches_and_not_what_passes():
    right = pa.schema([("k", pa.int64()), ("c", pa.int64()), ("d", pa.string())])
    sides = crowd(LEFT, 100, "x"), crowd(right, 100, "y")
    spec = JoinSpec(pa.schema([*SCHEMA][:4]).append(right.field("d")).append(SCHEMA.field("k2")), OUTPUTS, Epoch())
    logic = bound(JOINED.filter("a > 1000"))
    assert len(join(*sides, spec, logic, budget=10_000)[0]) == 0
    with pytest.raises(TooManyMatches):
        join(*sides, spec, logic, budget=9_999)
