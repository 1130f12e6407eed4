"""Rows that go through linear logic a few at a time, on several threads, come out as they do all at once."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.columnar import threads
from altneu.columnar.rows import Rows
from altneu.linear.normal import normalise
from altneu.operators.linear import logic as linear
from altneu.trace.update import Updates

COUNT = 1000


@pytest.mark.parametrize("columns", [["v", "w", "text"], ["w"]])
def test_chunks_on_threads_give_what_one_pass_gives(monkeypatch, columns):
    generator = np.random.default_rng(7)
    schema = pa.schema([("v", pa.int64()), ("text", pa.string())])
    values = [None if v == 9 else int(v) for v in generator.integers(-5, 10, COUNT)]
    values[400:480] = [-1] * 80  # a chunk of which nothing is left
    rows = Rows.from_pylist([(v, f"row {i}") for i, v in enumerate(values)], schema)
    times = generator.integers(0, 5, (2, COUNT))
    updates = Updates(rows, times, generator.choice([-1, 1, 2], COUNT))
    logic = an.logic.filter("v >= 0").select("*", w="60 div v").filter("w < 50").select(*columns)
    bound = normalise(logic.bind(schema), schema)
    whole = linear.run_logic(bound, updates)
    monkeypatch.setattr(linear, "CHUNK", 16)
    for count in (1, 3):
        monkeypatch.setattr(threads._threads, "count", count)
        for made, wanted in zip(linear.run_logic(bound, updates), whole, strict=True):
            assert len(made)
            assert made.rows.to_pylist() == wanted.rows.to_pylist()
            assert (made.times == wanted.times).all()
            assert made.times.shape == wanted.times.shape
            assert (made.diffs == wanted.diffs).all()
