"""Segments read block by block: what is read is what is mapped."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from altneu.errors import StoreCorruptError
from altneu.store import open_segment, read_between, read_blocks, write_segment
from altneu.store.folder import LocalFolder
from altneu.store.segments import _mapped

SCHEMA = pa.schema([("name", pa.string()), ("#key_hash", pa.uint64())])


def segment(folder, hashes, rng):
    """A segment sorted by hash, in blocks of any length, some of which end within a run of one hash."""
    batches, start = [], 0
    while start < len(hashes):
        stop = start + rng.randint(1, 9)
        part = hashes[start:stop]
        names = [str(h % 1000) for h in part]
        batches.append(pa.record_batch([pa.array(names), pa.array(part, pa.uint64())], schema=SCHEMA))
        start = stop
    return write_segment(str(folder), batches, SCHEMA, 1), batches


@pytest.mark.parametrize("seed", range(5))
def test_what_lies_between_two_hashes_is_read_and_little_else(tmp_path, seed):
    rng = random.Random(seed)
    folder = LocalFolder(tmp_path)
    hashes = sorted(rng.choice([rng.getrandbits(64), rng.randrange(4) << 62]) for _ in range(60))
    ref, batches = segment(tmp_path, hashes, rng)
    before = _mapped.cache_info().currsize
    for _ in range(50):
        lower, upper = sorted(rng.choice([*hashes, 0, 1 << 64, rng.getrandbits(64)]) for _ in range(2))
        numbers = range(rng.randrange(len(batches)), len(batches)) if rng.random() < 0.3 else None
        first, actual = read_between(folder, ref, "#key_hash", lower, upper, numbers)
        own = range(len(batches)) if numbers is None else numbers
        assert actual == batches[first : first + len(actual)]
        assert set(range(first, first + len(actual))) <= set(own)
        wanted = {i for i in own if any(lower <= h < upper for h in batches[i].column(1).to_pylist())}
        assert wanted <= set(range(first, first + len(actual)))
        assert len(actual) <= len([i for i in own if i in wanted]) + 2 + sum(h == lower for h in hashes)
    assert _mapped.cache_info().currsize == before
    assert read_blocks(folder, ref) == open_segment(folder, ref) == batches
    assert read_blocks(folder, ref, 2, 4) == batches[2:4]


def test_a_damaged_segment_is_named(tmp_path):
    ref, _ = segment(tmp_path, list(range(40)), random.Random(0))
    path = tmp_path / ref.name
    data = bytearray(path.read_bytes())
    data[-20:] = bytes(20)
    path.write_bytes(data)
    with pytest.raises(StoreCorruptError, match=ref.name):
        read_blocks(LocalFolder(tmp_path), ref)
    path.write_bytes(data[:-100])
    with pytest.raises(StoreCorruptError, match="bytes where the log says"):
        read_between(LocalFolder(tmp_path), ref, "#key_hash", 0, 5)
