"""Random updates of many shapes, and the model they are judged by: a Counter over Python values."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import strategies as st

from altneu.columnar import few
from altneu.columnar.hashing import hash_bits
from altneu.columnar.rows import Rows
from altneu.order import Antichain, Epoch, Lattice, Product
from altneu.trace import batch as batch_module
from altneu.trace import merging as merging_module
from altneu.trace import spine as spine_module
from altneu.trace.batch import Layout
from altneu.trace.update import Updates

# A handful of values a type, so that rows meet, and null among them.
DOMAINS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "i": (pa.int64(), [None, 0, 1, -1]),
    "b": (pa.int8(), [None, 0, -1]),
    "s": (pa.string(), [None, "", "a", "a much longer string than eight bytes", "ä"]),
    "y": (pa.binary(), [None, b"", b"\0", b"\0\0"]),
    "t": (pa.bool_(), [None, True, False]),
    "f": (pa.float64(), [None, 0.0, 1.5]),
    "d": (pa.decimal128(20, 2), [None, Decimal("0.00"), Decimal("-1.50"), Decimal("123456789012345678.25")]),
    "l": (pa.list_(pa.int64()), [None, [], [1], [1, 2], [None]]),
    "ll": (pa.list_(pa.list_(pa.string())), [None, [], [[]], [["a"], None], [["a", "b"]]]),
    "r": (pa.struct([("x", pa.bool_()), ("z", pa.string())]), [None, {"x": True, "z": "a"}, {"x": None, "z": "a"}]),
    "m": (pa.map_(pa.string(), pa.int64()), [None, [], [("k", 1)], [("k", None)]]),
    "n": (pa.null(), [None]),
}
LATTICES: list[Lattice] = [Epoch(), Product(Epoch(), Epoch())]

Update = tuple[tuple[Any, ...], Any, int]


@dataclass
class History:
    """Steps of updates over one layout; the bits of hash that tests leave, None for all."""

    layout: Layout
    steps: list[list[Update]]
    bits: int | None

    @contextmanager
    def hashing(self) -> Iterator[None]:
        """Cut hashes down as the history says."""
        if self.bits is None:
            yield
        else:
            with hash_bits(self.bits):
                yield

    def updates(self, step: int) -> Updates:
        return updates_of(self.steps[step], self.layout.schema, self.layout.lattice)


def updates_of(updates: Sequence[Update], schema: pa.Schema, lattice: Lattice) -> Updates:
    rows = Rows.from_pylist([row for row, _, _ in updates], schema)
    diffs = np.array([diff for _, _, diff in updates], np.int64)
    return Updates(rows, lattice.from_pylist([time for _, time, _ in updates]), diffs)


def frozen(value: Any) -> Any:
    """A value that can be a dictionary's key."""
    if isinstance(value, (list, tuple)):
        return tuple(map(frozen, value))
    return tuple(sorted((k, frozen(v)) for k, v in value.items())) if isinstance(value, dict) else value


def listed(updates: Updates, lattice: Lattice) -> list[tuple[Any, Any, int]]:
    rows = map(frozen, updates.rows.to_pylist())
    return list(zip(rows, lattice.to_pylist(updates.times), updates.diffs.tolist(), strict=True))


def summed(updates: Iterable[tuple[Any, Any, int]]) -> dict[tuple[Any, Any], int]:
    """What consolidation means: the sum of diffs per (data, time), zeros left out."""
    total: Counter[tuple[Any, Any]] = Counter()
    for row, time, diff in updates:
        total[frozen(row), time] += diff
    return {key: diff for key, diff in total.items() if diff}


def accumulated(updates: Iterable[tuple[Any, Any, int]], at: Any) -> dict[Any, int]:
    """Contents at a time: the sum of diffs per row over all updates at times <= it."""
    total: Counter[Any] = Counter()
    for row, time, diff in updates:
        if time <= at if isinstance(at, int) else all(a <= b for a, b in zip(time, at, strict=True)):
            total[frozen(row)] += diff
    return {row: diff for row, diff in total.items() if diff}


def all_times(lattice: Lattice, top: int) -> list[Any]:
    """Every time with coordinates up to ``top``."""
    return list(range(top + 1)) if lattice.width == 1 else list(itertools.product(range(top + 1), repeat=lattice.width))


@st.composite
def histories(draw: st.DrawFn, steps: int = 1, rows: int = 12) -> History:
    """Up to ``steps`` steps of up to ``rows`` updates each; step e holds times whose first coordinate is e."""
    names = draw(st.lists(st.sampled_from(sorted(DOMAINS)), max_size=4, unique=True))
    key = draw(st.lists(st.sampled_from(names), max_size=2, unique=True)) if names else []
    schema = pa.schema([(name, DOMAINS[name][0]) for name in names])
    lattice = draw(st.sampled_from(LATTICES))
    row = st.tuples(*(st.sampled_from(DOMAINS[name][1]) for name in names))
    diff = st.sampled_from([1, -1, 1, 2, 0])
    given = []
    for epoch in range(draw(st.integers(1, steps))):
        moment = st.just(epoch) if lattice.width == 1 else st.tuples(st.just(epoch), st.integers(0, 2))
        if steps == 1:
            moment = st.integers(0, 2) if lattice.width == 1 else st.tuples(st.integers(0, 1), st.integers(0, 1))
        given.append(draw(st.lists(st.tuples(row, moment, diff), max_size=rows)))
    return History(Layout(schema, tuple(key), lattice), given, draw(st.sampled_from([None, 0, 2])))


def small_blocks(patch: pytest.MonkeyPatch, rows: int, slice_rows: int = 4096) -> None:
    """Set how many rows a block and a slice of a merge have."""
    for module in (batch_module, merging_module, spine_module):
        patch.setattr(module, "BLOCK_ROWS", rows)
    patch.setattr(few, "MOST", min(few.MOST, rows))
    patch.setattr(spine_module, "SLICE_ROWS", slice_rows)


def frontier(lattice: Lattice, *times: Any) -> Antichain:
    return Antichain.of(lattice, *times)
