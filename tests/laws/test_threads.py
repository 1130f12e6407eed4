"""Loops that are cut over threads give, bit by bit, what one thread gives."""

from __future__ import annotations

import os
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from altneu.columnar import threads
from altneu.columnar.columns import Stack
from altneu.columnar.hashing import hash_rows
from altneu.columnar.lookup import by_probe, locate, locate_all
from altneu.columnar.rows import Rows
from altneu.columnar.sorting import BUCKET, _sort

COUNT = 5000
SCHEMA = pa.schema(
    [
        ("tiny", pa.int8()),
        ("short", pa.int16()),
        ("number", pa.int32()),
        ("long", pa.int64()),
        ("money", pa.decimal128(30, 2)),
        ("flag", pa.bool_()),
        ("text", pa.string()),
        ("list", pa.list_(pa.int64())),
    ]
)


@pytest.fixture
def cut(monkeypatch):
    """Cut every loop in as many parts as there are to be threads."""
    monkeypatch.setattr(threads, "LEAST", 16)
    return lambda count: monkeypatch.setattr(threads._threads, "count", count)


def rows_of(generator, count):
    def with_nulls(values):
        return [None if lost else value for lost, value in zip(generator.random(count) < 0.1, values, strict=True)]

    few = generator.integers(0, 40, count).tolist()
    columns = [
        *(with_nulls(few) for _ in range(4)),
        with_nulls([Decimal(n) / 4 for n in few]),
        with_nulls([n % 2 == 0 for n in few]),
        with_nulls(["x" * n for n in few]),
        with_nulls([[n] * (n % 3) for n in few]),
    ]
    return Rows(SCHEMA, tuple(pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)), count)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_columns(cut, count):
    generator = np.random.default_rng(count)
    stack = Stack([rows_of(generator, COUNT), rows_of(generator, 77)], SCHEMA)
    left, right = generator.integers(0, stack.total, (2, COUNT))
    right[::3] = left[::3]
    cut(1)
    alone = stack.take(left), stack.equal(left, right), hash_rows(stack.parts[0])
    cut(count)
    taken = stack.take(left)
    assert all(a.equals(b) for a, b in zip(taken.columns, alone[0].columns, strict=True))
    assert (stack.equal(left, right) == alone[1]).all()
    assert 0 < alone[1].sum() < COUNT
    assert (hash_rows(stack.parts[0]) == alone[2]).all()


@pytest.mark.parametrize("spread", [1, 3, 1000, 1 << 62], ids=["one key", "three keys", "many", "all differ"])
@pytest.mark.parametrize("count", [2, 4])
def test_sorting(cut, count, spread):
    generator = np.random.default_rng(spread % 97)
    size = 8 * BUCKET + 5
    keys = generator.integers(0, spread, size).astype(np.uint64)
    values = generator.integers(0, 1 << 62, size).astype(np.uint64)
    order = np.lexsort((values, keys))
    cut(count)
    k, v, p = _sort(keys, values)
    assert (k == keys[order]).all()
    assert (v == values[order]).all()
    assert (keys[p] == k).all()
    assert (values[p] == v).all()
    assert (np.sort(p) == np.arange(size)).all()


def test_lookups(cut):
    generator = np.random.default_rng(3)
    blocks = [np.sort(generator.integers(0, 500, size).astype(np.uint64)) for size in (300, 40, 1000)]
    table = np.array([[b.ctypes.data, len(b), int(b[0]), int(b[-1])] for b in blocks], np.int64)
    probes = np.sort(generator.integers(0, 600, COUNT).astype(np.uint64))
    none = np.empty(0, np.int64)
    alone = by_probe(locate(table, probes), none)
    cut(4)
    assert (by_probe(locate_all(table, probes), none) == alone).all()


def test_what_a_part_raises_is_raised_when_all_have_ended(cut):
    cut(4)
    ended = []

    def loop(start, stop):
        if start == 0:
            raise ValueError("the first part")
        ended.append(start)

    with pytest.raises(ValueError, match="the first part"):
        threads.in_parts(64, loop)
    assert sorted(ended) == [16, 32, 48]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")  # Python 3.12 and later say so
def test_a_fork_starts_threads_of_its_own(cut):
    cut(4)
    threads.in_parts(64, lambda *_: None)
    child = os.fork()
    if child == 0:
        seen = []
        threads.in_parts(64, lambda start, _: seen.append(start))
        os._exit(0 if sorted(seen) == [0, 16, 32, 48] else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("count", [0, 5])
def test_limits(count):
    with pytest.raises(ValueError, match=f"threads must be from 1 to 4, got {count}"):
        threads.limit(count)
