"""How much is taken up at a time: said, derived from what a process has left, and kept to."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from altneu import Session
from altneu.columnar.hashing import hash_bits, hash_rows
from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.order import Antichain, Epoch
from altneu.runtime import memory
from altneu.runtime.batch_writer import BatchWriter, ranges
from altneu.runtime.files import Files
from altneu.runtime.segments import Place, SegmentBatchWriter, Writer
from altneu.runtime.spill import Spill, bytes_of, ordered
from altneu.store import SegmentRef
from altneu.store.folder import LocalFolder
from altneu.trace.batch import Batch, Description, Layout
from altneu.trace.merging import merge
from altneu.trace.update import Updates

LAYOUT = Layout(pa.schema([("k", pa.int64()), ("v", pa.string())]), ("k",), Epoch())
CHILD = Path(__file__).with_name("bounded_child.py")


def random_updates(rng: random.Random, count: int, time: int = 0) -> Updates:
    rows = {"k": [rng.randrange(200) for _ in range(count)], "v": [rng.choice("abc") * 3 for _ in range(count)]}
    diffs = np.array([rng.choice([1, 1, -1]) for _ in range(count)], np.int64)
    return Updates(Rows.from_pydict(rows, LAYOUT.schema), np.full((1, count), time), diffs)


def random_batches(rng: random.Random) -> list[Batch]:
    parts = [random_updates(rng, rng.randint(0, 400), time) for time in range(3)]
    return [Batch.build(part, LAYOUT, Description.interval(Epoch(), t, t + 1)) for t, part in enumerate(parts)]


def listed(batch: Batch) -> list[object]:
    updates = batch.updates()
    return list(zip(updates.rows.to_pylist(), updates.times[0].tolist(), updates.diffs.tolist(), strict=True))


@pytest.mark.parametrize(("said", "wanted"), [(1024, 1024), ("64k", 65536), ("2 GB", 2 << 30), ("1g", 1 << 30)])
def test_memory_is_said_in_bytes_or_with_a_unit(said, wanted):
    assert memory.bytes_in(said) == wanted


@pytest.mark.parametrize("said", ["much", "", -1, 0, "1.5g", True])
def test_what_is_no_number_of_bytes_is_refused(said):
    with pytest.raises(PlanError, match="must be a number of bytes"):
        Session(memory=said)


def test_what_is_left_is_shared_out(monkeypatch):
    monkeypatch.setattr(memory, "addresses_left", lambda: None)
    assert memory.shares(None) == (memory.DEFAULT // memory.SHARE, None)
    assert memory.shares(1200 << 20) == ((1200 << 20) // memory.SHARE, None)
    monkeypatch.setattr(memory, "addresses_left", lambda: 600 << 20)
    assert memory.shares(None) == ((600 << 20) // memory.SHARE, (600 << 20) // memory.OPEN_SHARE)
    assert memory.shares(300 << 20) == ((300 << 20) // memory.SHARE, (300 << 20) // memory.OPEN_SHARE)
    monkeypatch.setattr(memory, "addresses_left", lambda: 0)
    assert memory.shares(None) == (memory.LEAST, memory.LEAST)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_spilled_comes_back_by_ranges(seed):
    rng = random.Random(seed)
    with Spill() as spill:
        given = [random_updates(rng, rng.randint(1, 300)) for _ in range(4)]
        for number, updates in enumerate(given):
            spill.write(number % 2, *ordered(updates, hash_rows(updates.rows)))
        cuts = sorted({0, 256, *(rng.randrange(257) for _ in range(3))})
        for port in (0, 1):
            actual = [[] for _ in cuts]
            for i, cut in enumerate(pairwise(cuts)):
                for part in spill.read(port, cut):
                    hashes = hash_rows(part.rows) >> np.uint64(56)
                    assert ((hashes >= cut[0]) & (hashes < cut[1])).all()
                    actual[i] += zip(part.rows.to_pylist(), part.diffs.tolist(), strict=True)
            wanted = [
                pair
                for updates in given[port::2]
                for pair in zip(updates.rows.to_pylist(), updates.diffs.tolist(), strict=True)
            ]
            assert sorted(pair for some in actual for pair in some) == sorted(wanted)
        assert not list(spill.read("another", (0, 256)))
    assert bytes_of(given[0]) >= 24 * len(given[0])


def test_ranges_are_all_of_the_hashes():
    for size, room in ((0, 10), (100, None), (100, 7), (10**12, 1)):
        actual = ranges(size, room)
        assert actual[0][0] == 0
        assert actual[-1][1] == 1 << 64
        assert all(a[1] == b[0] for a, b in pairwise(actual))


@pytest.mark.parametrize("bits", [64, 3, 11])
@pytest.mark.parametrize("scarce", [False, True])
def test_merging_into_segments_is_merging(tmp_path, bits, scarce):
    """Also where keys collide, which the blocks of a segment have to tell."""
    with hash_bits(bits):
        for seed in range(6):
            rng = random.Random(seed)
            batches, since = random_batches(rng), Antichain.of(Epoch(), rng.randrange(3))
            folder = LocalFolder(tmp_path)
            batch_writer = SegmentBatchWriter(
                rng.choice([50, 2000]),
                files=Files(folder, {}.__getitem__, scarce=scarce),
                writer=Writer(Place(folder, 1, False)),
            )
            whole = merge(batches, since)
            for other in (
                batch_writer.merged(batches, since),
                BatchWriter(rng.choice([50, 2000])).merged(batches, since),
            ):
                assert listed(other) == listed(whole)
                assert other.description == whole.description
                assert [b for b in other.blocks if b.collision_free] == list(other.blocks) or bits < 64
                lower, upper = sorted(rng.getrandbits(64 if bits == 64 else bits) for _ in range(2))
                assert listed(other.between(lower, upper)) == listed(whole.between(lower, upper))


@pytest.mark.parametrize("scarce", [False, True])
def test_parts_that_are_not_in_order_are_merged(tmp_path, scarce):
    rng, folder = random.Random(1), LocalFolder(tmp_path)
    files = Files(folder, {}.__getitem__, scarce=scarce)
    batch_writer = SegmentBatchWriter(300, files=files, writer=Writer(Place(folder, 1, False)))
    description = Description.interval(Epoch(), 0, 1)
    growing, given = batch_writer.growing(LAYOUT, description), [random_updates(rng, 50) for _ in range(5)]
    for updates in given:
        growing.add(Batch.build(updates, LAYOUT, description))
    result = growing.finish()
    assert listed(result) == listed(Batch.build(Updates.concat(given, LAYOUT.schema, 1), LAYOUT, description))
    stored = files.blocks(LAYOUT, result.stored, 0, 1 << 64)
    assert sum(map(len, stored)) == len(result)
    assert SegmentRef.from_json(result.stored).rows == len(stored)  # a packed block is one row


@pytest.mark.skipif(sys.platform != "linux", reason="addresses are bounded, and counted, on Linux")
@pytest.mark.parametrize(("how", "well"), [("in parts", True), ("at once", False)])
def test_an_inbox_larger_than_what_is_left_is_taken_up_in_parts(tmp_path, how, well):
    settings = {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "1048576"}
    settings |= {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, str(CHILD), str(tmp_path), how],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    if well:
        assert done.returncode == 0, done.stderr + done.stdout
        assert done.stdout.split() == ["2500000"]
    else:
        assert done.returncode == 1
        assert "MemoryError" in done.stdout or "malloc" in done.stdout
