"""Updates between stages: what is packed comes back as it was, in fewer bytes."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.operators.base import StepMode
from altneu.order import Antichain, Epoch
from altneu.runtime.divided import sent_to
from altneu.runtime.packed import Packed, unpacked
from altneu.trace.update import Updates

_DECIMAL, _LONG_DECIMAL = pa.decimal128(15, 2), pa.decimal128(38, 0)
_START = datetime.fromisoformat("2026-01-01")
VALUES = {
    "constant": (pa.int64(), lambda _: 7),
    "bytes": (pa.int64(), lambda i: i % 256 - 2**62),
    "words": (pa.int64(), lambda i: i * (1 << 40)),
    "extremes": (pa.int64(), lambda i: (-(2**63), 2**63 - 1)[i % 2]),
    "missing": (pa.int64(), lambda i: None if i % 5 == 0 else i),
    "ints": (pa.int32(), lambda i: -i),
    "doubles": (pa.float64(), lambda i: (float("nan"), -0.0, i / 3)[i % 3]),
    "decimals": (_DECIMAL, lambda i: Decimal(i * 7 - 1000) / 100),
    "greatest": (pa.decimal128(18, 0), lambda i: (-1) ** i * (10**18 - 1)),
    "no_decimals": (_DECIMAL, lambda _: None),
    "some_decimals": (_DECIMAL, lambda i: None if i % 3 else Decimal(i) / 100),
    "long_decimals": (_LONG_DECIMAL, lambda i: Decimal(10**30 - i)),
    "times": (pa.timestamp("us", "UTC"), lambda i: _START + timedelta(microseconds=i)),
    "local": (pa.timestamp("us"), lambda i: _START + timedelta(days=i % 2)),
    "spans": (pa.duration("us"), lambda i: timedelta(microseconds=-i)),
    "days": (pa.date32(), lambda i: date(2026, 1, 1) + timedelta(days=i)),
    "texts": (pa.string(), lambda i: None if i % 7 == 0 else "x" * (i % 4)),
    "truths": (pa.bool_(), lambda i: i % 2 == 0),
    "lists": (pa.list_(pa.int64()), lambda i: None if i % 4 == 0 else [i] * (i % 3)),
    "structs": (pa.struct([("a", pa.int64())]), lambda i: {"a": i}),
    "nothing": (pa.null(), lambda _: None),
}


def _updates(count: int, width: int = 1, names: tuple[str, ...] = tuple(VALUES)) -> Updates:
    schema = pa.schema([(name, VALUES[name][0]) for name in names])
    columns = [pa.array([VALUES[name][1](i) for i in range(count)], VALUES[name][0]) for name in names]
    times = np.stack([np.full(count, 3), np.arange(count) // 100, np.arange(count) << 40][:width]).astype(np.int64)
    return Updates(Rows(schema, tuple(columns), count), times, np.where(np.arange(count) % 9, 1, -2))


def _same(actual: Updates, wanted: Updates) -> None:
    assert actual.schema == wanted.schema
    for name, a, b in zip(wanted.schema.names, actual.rows.columns, wanted.rows.columns, strict=True):
        assert a.type == b.type
        a.validate(full=True)
        assert repr(a.to_pylist()) == repr(b.to_pylist()), name
    assert actual.times.tolist() == wanted.times.tolist()
    assert actual.diffs.tolist() == wanted.diffs.tolist()
    assert actual.times.dtype == actual.diffs.dtype == np.int64
    assert actual.times.flags.c_contiguous
    assert actual.diffs.flags.c_contiguous


@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("count", [0, 1, 63, 64, 1000])
def test_what_is_packed_comes_back(count, width):
    updates = _updates(count, width)
    packed = Packed.of(updates)
    assert len(packed) == count
    _same(packed.updates(), updates)
    there = Packed.from_bytes(packed.to_bytes(), updates.schema)
    _same(there.updates(), updates)
    for start, stop in ((0, count), (count // 3, count // 2), (count, count)):
        _same(there.slice(start, stop).updates(), updates.slice(start, stop))
        _same(Packed.of(updates.slice(start, stop)).updates(), updates.slice(start, stop))


def test_rows_without_columns_are_packed():
    updates = Updates(Rows(pa.schema([]), (), 100), np.zeros((1, 100), np.int64), np.arange(100))
    _same(Packed.from_bytes(Packed.of(updates).to_bytes(), updates.schema).updates(), updates)


def test_bytes_are_those_that_a_range_takes():
    """Times and diffs, which are mostly the same, take none; a price takes four bytes, and not sixteen."""
    updates = _updates(1000, names=("bytes", "decimals", "constant"))
    packed = Packed.of(Updates(updates.rows, updates.times, np.ones(1000, np.int64)))
    assert packed.nbytes == 1000 * (1 + 2 + 0)
    assert packed.bytes_as_updates == 1000 * (8 + 16 + 8 + 8 + 8)
    text = _updates(1000, names=("texts", "missing"))
    assert Packed.of(text).bytes_as_updates >= sum(c.nbytes for c in text.rows.columns) + 16 * 1000


LINES = pa.schema([("part", pa.int64()), ("supplier", pa.int64()), ("price", pa.decimal128(12, 2))])
PARTS = pa.schema([("part", pa.int64()), ("size", pa.int64())])


@pytest.mark.parametrize("count", [20_000, 200_000])
def test_a_stored_row_takes_the_bytes_that_its_values_need(tmp_path, count):
    """Two hashes of eight bytes, and numbers of one to four: not 16 for a price, 8 for a time and 8 for a diff."""
    lines, parts = an.source("lines", LINES), an.source("parts", PARTS)
    draw = np.random.default_rng(1)
    numbers = [draw.integers(0, count // share, count) for share in (10, 100)]
    prices = [Decimal(cents).scaleb(-2) for cents in draw.integers(100, 10_000_000, count).tolist()]
    with an.Session(path=tmp_path) as session:
        view = session.maintain("sized", lines.join(parts, on="part"))
        session.insert("lines", pa.table([*map(pa.array, numbers), pa.array(prices, LINES.types[2])], schema=LINES))
        session.insert("parts", [(part, part % 50) for part in range(count // 10)])
        session.advance()
        expected = sorted(view.to_pylist())
    sizes = [path.stat().st_size / count for path in (tmp_path / "segments").iterdir()]
    assert all(size < most for size, most in zip(sorted(sizes), (2.5, 24.5, 25.5), strict=True))
    with an.Session(path=tmp_path) as session:  # what was written is what is read
        view = session.maintain("sized", lines.join(parts, on="part"))
        assert sorted(view.to_pylist()) == expected
        assert len(expected) == count


@pytest.mark.parametrize("shards", [1, 2, 3, 200, 70_000])
def test_rows_are_sent_in_the_order_of_their_buckets(shards):
    updates = _updates(5000, names=("words", "texts"))
    wanted, seen = hash_rows(updates.rows, ("words",)), []
    for shard, sent in sent_to(0, updates, ("words",), StepMode(shards), Antichain.of(Epoch(), 1)):
        part = unpacked(sent)
        hashes = hash_rows(part.rows, ("words",))
        assert (hashes % np.uint64(shards) == shard).all()
        buckets = hashes >> np.uint64(56)
        assert shards > 256 or (buckets[1:] >= buckets[:-1]).all()
        seen += zip(hashes.tolist(), part.rows.column("texts").to_pylist(), part.diffs.tolist(), strict=True)
    given = zip(wanted.tolist(), updates.rows.column("texts").to_pylist(), updates.diffs.tolist(), strict=True)
    assert sorted(map(repr, seen)) == sorted(map(repr, given))
