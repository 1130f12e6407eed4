"""Laws of batches: the clauses of ``Description`` for ``build``, and lookups against comparing every pair."""

from __future__ import annotations

import pickle
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar import columns as columns_module
from altneu.columnar.columns import encode
from altneu.columnar.hashing import hash_bits, hash_rows
from altneu.columnar.rows import Rows
from altneu.errors import DiffOverflowError, StoreCorruptError, TooWideError, TypeMismatchError
from altneu.order import Antichain, Epoch, Product
from altneu.trace import batch as batch_module
from altneu.trace.batch import (
    LARGEST_HASH,
    Batch,
    Block,
    Description,
    Layout,
    LazyBatch,
    cut_blocks,
    find_in,
    hit_blocks,
)
from altneu.trace.merging import merge
from altneu.trace.records import batch_of_records, packed_records, records_of
from altneu.trace.update import Updates
from tests.laws.histories import (
    DOMAINS,
    History,
    accumulated,
    all_times,
    frozen,
    histories,
    listed,
    small_blocks,
    summed,
    updates_of,
)

PAIRS = Layout(pa.schema([("k", pa.int64()), ("v", pa.string())]), ("k",), Epoch())


def whole(layout: Layout) -> Description:
    """All of time, nothing compacted."""
    return Description.interval(layout.lattice, layout.lattice.decode((0,) * layout.lattice.width), None)


def build(history: History, step: int = 0) -> Batch:
    return Batch.build(history.updates(step), history.layout, whole(history.layout))


def pairs(updates: list[tuple[tuple[Any, Any], int, int]]) -> Batch:
    return Batch.build(updates_of(updates, PAIRS.schema, Epoch()), PAIRS, whole(PAIRS))


@given(histories(rows=25))
def test_sums_at_every_time_are_those_of_the_updates_given(history: History) -> None:
    """Description, 1: "for all data x and all times t with since <= t: the sum of d over (x, s, d) in U ..."."""
    lattice = history.layout.lattice
    with history.hashing():
        actual = listed(build(history).updates(), lattice)
    for time in all_times(lattice, 3):
        assert accumulated(actual, time) == accumulated(history.steps[0], time)


@given(histories(rows=25))
def test_batches_are_consolidated(history: History) -> None:
    """Description, 2: "no two updates of U have the same x and s; no d is zero"."""
    with history.hashing():
        actual = listed(build(history).updates(), history.layout.lattice)
    assert all(diff for _, _, diff in actual)
    assert len({(row, time) for row, time, _ in actual}) == len(actual)
    assert summed(actual) == summed(history.steps[0])


def sort_columns(batch: Batch) -> list[tuple[Any, ...]]:
    """Per update, what batches are sorted by."""
    result: list[tuple[Any, ...]] = []
    for b in batch.blocks:
        times = zip(*(k.tolist() for k in batch.layout.lattice.sort_keys(b.times)), strict=True)
        hashes = b.key_hash.tolist(), b.value_hash.tolist()
        result += zip(hashes[0], encode(b.keys), hashes[1], encode(b.values), times, strict=True)
    return result


@given(st.data(), histories(rows=25))
def test_batches_are_sorted(data: st.DataObject, history: History) -> None:
    """Description, 3: "U is sorted by (key hash, key bytes, value hash, value bytes, linear extension of s)"."""
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([1, 3, 65536])))
        batch = build(history)
        assert all(len(b) > 0 for b in batch.blocks)
        columns = sort_columns(batch)
        assert columns == sorted(columns)
        for block in batch.blocks:
            assert np.array_equal(block.key_hash, hash_rows(block.keys))
            assert np.array_equal(block.value_hash, hash_rows(block.values))


@given(histories(rows=25))
def test_collisions_are_reported(history: History) -> None:
    with history.hashing():
        for block in build(history).blocks:
            keys = set(zip(block.key_hash.tolist(), map(frozen, block.keys.to_pylist()), strict=True))
            alone = len({hash_ for hash_, _ in keys}) == len(keys)
            assert alone or not block.collision_free
            assert block.collision_free or history.bits is not None, "64 bits tell these apart"


def draw_probes(data: st.DataObject, layout: Layout) -> Rows:
    row = st.tuples(*(st.sampled_from(DOMAINS[name][1]) for name in layout.key))
    return Rows.from_pylist(data.draw(st.lists(row, max_size=12)), layout.key_schema)


@given(st.data(), histories(steps=4))
def test_lookups_find_what_comparing_every_pair_finds(data: st.DataObject, history: History) -> None:
    layout, lattice = history.layout, history.layout.lattice
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([1, 3, 65536])))
        batches = [build(history, step) for step in range(len(history.steps))]
        probes = draw_probes(data, layout)
        matches = find_in(batches, hash_rows(probes), probes)
        assert np.array_equal(matches.value_hash, hash_rows(matches.values))
    expected = []
    for probe, wanted in enumerate(map(frozen, probes.to_pylist())):
        for batch in batches:
            for block in batch.blocks:
                held = zip(map(frozen, block.keys.to_pylist()), map(frozen, block.values.to_pylist()), strict=True)
                rest = zip(lattice.to_pylist(block.times), block.diffs.tolist(), strict=True)
                expected += [(probe, v, *r) for (k, v), r in zip(held, rest, strict=True) if k == wanted]
    values = map(frozen, matches.values.to_pylist())
    times, diffs = lattice.to_pylist(matches.times), matches.diffs.tolist()
    assert list(zip(matches.probe.tolist(), values, times, diffs, strict=True)) == expected, "by probe, older first"


@given(st.data(), histories())
def test_a_block_finds_the_same_with_counts(data: st.DataObject, history: History) -> None:
    with history.hashing():
        probes = draw_probes(data, history.layout)
        hashes = hash_rows(probes)
        for block in build(history).blocks:
            counts, rows = block.find(hashes, probes)
            held = list(map(frozen, block.keys.to_pylist()))
            expected = [[i for i, k in enumerate(held) if k == wanted] for wanted in map(frozen, probes.to_pylist())]
            assert counts.tolist() == list(map(len, expected))
            assert rows.tolist() == [i for found in expected for i in found]


@given(st.data(), histories(rows=25))
def test_every_key_starts_once(data: st.DataObject, history: History) -> None:
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([1, 3, 65536])))
        batch = build(history)
        hashes, keys = batch.distinct_keys()
        assert np.array_equal(hashes, hash_rows(keys))
        held = [k for block in batch.blocks for k in map(frozen, block.keys.to_pylist())]
        assert list(map(frozen, keys.to_pylist())) == list(dict.fromkeys(held))
        for block in batch.blocks:
            held = list(map(frozen, block.keys.to_pylist()))
            assert block.run_starts().tolist() == [i for i, k in enumerate(held) if k not in held[:i]]


@given(st.data(), histories(rows=25))
def test_the_parts_between_bounds_are_the_batch(data: st.DataObject, history: History) -> None:
    """In memory, and where blocks are brought only when they are touched."""
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([2, 65536])))
        batch = build(history)
        hashes = [int(h) for block in batch.blocks for h in block.key_hash]
        bound = st.one_of(st.sampled_from([0, 1, *hashes]), st.integers(0, LARGEST_HASH))
        bounds = [0, *sorted(data.draw(st.lists(bound, max_size=4))), LARGEST_HASH + 1]
        asked = []

        def part(lower: int, upper: int) -> tuple[Block, ...]:
            asked.append((lower, upper))
            return cut_blocks(batch.blocks, lower, upper)

        lazy = LazyBatch(batch.layout, batch.description, len(batch), batch.nbytes, part)
        for whole in (batch, lazy):
            parts = [whole.between(lower, upper) for lower, upper in pairwise(bounds)]
            updates = [encode_all(part) for part in parts]
            assert [row for rows in updates for row in rows] == encode_all(batch)
            for (lower, upper), found in zip(pairwise(bounds), parts, strict=True):
                assert all(lower <= int(h) < upper for block in found.blocks for h in block.key_hash)
        assert len(lazy) == len(batch)
        assert asked == [*pairwise(bounds)][: len(asked)]


def encode_all(batch: Batch) -> list[Any]:
    updates = batch.updates()
    return list(zip(map(repr, updates.rows.to_pylist()), updates.times.T.tolist(), updates.diffs.tolist(), strict=True))


def test_many_probes_into_many_blocks() -> None:
    pick = random.Random(7)
    updates = [((pick.randrange(3000), str(pick.randrange(9))), pick.randrange(3), 1) for _ in range(9000)]
    expected: dict[int, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 100)
        batches = [pairs(updates[:5000]), pairs(updates[5000:])]
    assert len(batches[0].blocks) > 40
    for batch in batches:
        for (key, _), _, _ in listed(batch.updates(), Epoch()):
            expected[key] = expected.get(key, 0) + 1
    wanted = [pick.randrange(4000) for _ in range(5000)]
    probes = Rows.from_pydict({"k": wanted}, PAIRS.key_schema)
    matches = find_in(batches, hash_rows(probes), probes)
    counts = np.bincount(matches.probe, minlength=5000).tolist()
    assert counts == [expected.get(key, 0) for key in wanted]
    assert (np.diff(matches.probe) >= 0).all()
    few = probes.slice(0, 5)
    hashes = set(hash_rows(few).tolist())
    hit = [b for batch in batches for b in batch.blocks if hashes & set(b.key_hash.tolist())]
    assert hit_blocks(batches, hash_rows(few)) == hit
    assert 0 < len(hit) < len(batches[0].blocks)


def test_null_is_a_key_as_any_other() -> None:
    batch = pairs([((None, "a"), 0, 1), ((1, "b"), 0, 1)])
    probes = Rows.from_pydict({"k": [None, 2]}, PAIRS.key_schema)
    matches = find_in([batch], hash_rows(probes), probes)
    assert (matches.probe.tolist(), matches.values.to_pylist()) == ([0], [("a",)])


def test_null_does_not_match_the_one_number_that_has_its_hash() -> None:
    def unmix(word: int, shift: int, factor: int) -> int:
        """Undo one round of SplitMix64: a multiplication after a shifted xor."""
        word = word * pow(factor, -1, 2**64) % 2**64
        result = word
        for _ in range(64 // shift):
            result = word ^ (result >> shift)
        return result

    word = 0x6E756C6C5F726F77
    for _ in range(3):
        word = 0x6E756C6C5F726F77 ^ (word >> 31)
    word = unmix(unmix(word, 27, 0x94D049BB133111EB), 30, 0xBF58476D1CE4E5B9)
    twin = (word - 0x9E3779B97F4A7C15) % 2**64
    twin -= 2**64 * (twin >= 2**63)
    both = Rows.from_pydict({"k": [twin, None]}, PAIRS.key_schema)
    assert len(set(hash_rows(both).tolist())) == 1, "the twin of null"
    batch = pairs([((twin, "number"), 0, 1), ((None, "null"), 0, 1)])
    assert not batch.blocks[0].collision_free
    result = find_in([batch], hash_rows(both), both)
    assert (result.probe.tolist(), result.values.to_pylist()) == ([0, 1], [("number",), ("null",)])
    lone = find_in([pairs([((twin, "number"), 0, 1)])], hash_rows(both), both)
    assert lone.probe.tolist() == [0]


def test_probes_of_another_type_are_refused() -> None:
    layout = Layout(pa.schema([("k", pa.string()), ("j", pa.int64())]), ("k", "j"), Epoch())
    batch = Batch.build(updates_of([(("a", 1), 0, 1)], layout.schema, Epoch()), layout, whole(layout))
    probes = Rows.from_pydict({"k": ["a"], "j": [1]}, pa.schema([("k", pa.string()), ("j", pa.int32())]))
    with pytest.raises(TypeMismatchError, match="probing key 'j' of type int64 with int32"):
        find_in([batch], hash_rows(probes), probes)


def test_probing_nothing_and_with_nothing() -> None:
    none = Rows.empty(PAIRS.key_schema)
    assert len(find_in([pairs([((1, "a"), 0, 1)])], hash_rows(none), none)) == 0
    probes = Rows.from_pydict({"k": [1]}, PAIRS.key_schema)
    matches = find_in([Batch.empty(PAIRS, whole(PAIRS))], hash_rows(probes), probes)
    assert (len(matches), matches.times.shape, matches.values.schema) == (0, (1, 0), PAIRS.value_schema)


def test_a_sum_that_leaves_int64_is_refused() -> None:
    with pytest.raises(DiffOverflowError):
        pairs([((1, "a"), 0, 2**62), ((1, "a"), 0, 2**62)])


@given(st.data(), histories(rows=25))
def test_batches_survive_a_mapped_file_without_being_copied(data: st.DataObject, history: History) -> None:
    layout = history.layout
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([3, 65536])))
        batch = build(history)
        again = batch_of_records(layout, batch.description, records_of(batch))
        narrow = batch_of_records(layout, batch.description, packed_records(batch))
        shipped = pickle.loads(pickle.dumps(batch))  # noqa: S301 -- written the line before
        probes = draw_probes(data, layout)
        expected = find_in([batch], hash_rows(probes), probes)
        for other in (again, narrow, shipped):
            assert sort_columns(other) == sort_columns(batch)
            assert listed(other.updates(), layout.lattice) == listed(batch.updates(), layout.lattice)
            assert [b.collision_free for b in other.blocks] == [b.collision_free for b in batch.blocks]
            assert find_in([other], hash_rows(probes), probes).probe.tolist() == expected.probe.tolist()


@pytest.mark.parametrize("lattice", [Epoch(), Product(Epoch(), Epoch())])
def test_a_block_of_a_mapped_file_is_a_view_of_it(tmp_path: Path, lattice: Any) -> None:
    layout = Layout(PAIRS.schema, ("k",), lattice)
    times = [0, 1] if lattice.width == 1 else [(0, 1), (1, 0)]
    updates = [((i % 7, str(i)), times[i % 2], 1) for i in range(1000)]
    batch = Batch.build(updates_of(updates, layout.schema, lattice), layout, whole(layout))
    path = str(tmp_path / "batch.arrow")
    records = records_of(batch)
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, records[0].schema) as writer:
        for record in records:
            writer.write_batch(record)
    with pa.memory_map(path) as source:
        base = source.read_buffer(source.size())
        reader = pa.ipc.open_file(base)
        mapped = batch_of_records(
            layout, batch.description, [reader.get_batch(i) for i in range(reader.num_record_batches)]
        )
        block = mapped.blocks[0]
        places = [a.ctypes.data for a in (block.key_hash, block.value_hash, block.times, block.diffs)]
        places += [c.buffers()[1].address for c in (*block.keys.columns, *block.values.columns)]
        assert all(base.address <= place < base.address + base.size for place in places)
        assert listed(mapped.updates(), lattice) == listed(batch.updates(), lattice)
        in_memory, words = batch.blocks[0], ("key_hash", "value_hash", "diffs")  # one type: no kernel is compiled twice
        assert [numba.typeof(getattr(block, w)) for w in words] == [numba.typeof(getattr(in_memory, w)) for w in words]
        assert numba.typeof(block.times[0]) == numba.typeof(in_memory.times[0])
        probes = Rows.from_pydict({"k": [3]}, layout.key_schema)
        assert len(find_in([mapped], hash_rows(probes), probes)) == 143


def test_a_stored_batch_of_another_arrangement_is_refused() -> None:
    records = records_of(pairs([((1, "a"), 0, 1)]))
    other = Layout(pa.schema([("k", pa.int64()), ("w", pa.string())]), ("k",), Epoch())
    with pytest.raises(StoreCorruptError, match="restore the store"):
        batch_of_records(other, whole(other), records)


def test_a_block_of_strings_that_cannot_be_gathered_in_one_is_cut() -> None:
    updates = [((i, "x" * 100), 0, 1) for i in range(10)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "FEW", 0)  # fewer rows than that never come near the limit
        patch.setattr(columns_module, "COLUMN_BYTES", 250)
        small_blocks(patch, 8)
        batch = pairs(updates)
        merged = merge([batch, pairs(updates)], Antichain.minimum(Epoch()))
        patch.setattr(columns_module, "COLUMN_BYTES", 99)
        with pytest.raises(TooWideError, match="1 rows hold over 99 bytes"):
            pairs(updates)
    assert [len(b) for b in batch.blocks] == [2] * 5
    assert summed(listed(merged.updates(), Epoch())) == {(row, time): 2 for row, time, _ in updates}


def test_hashes_cut_to_nothing_leave_answers_exact() -> None:
    with hash_bits(0):
        batch = pairs([((i % 5, str(i)), 0, 1) for i in range(40)])
        probes = Rows.from_pydict({"k": [3, 9]}, PAIRS.key_schema)
        matches = find_in([batch], hash_rows(probes), probes)
    assert sorted(matches.values.to_pylist()) == sorted((str(i),) for i in range(3, 40, 5))


def test_one_update_is_kept_and_a_zero_is_not() -> None:
    assert len(pairs([((1, "a"), 0, 1)])) == 1
    assert len(pairs([((1, "a"), 0, 0)])) == 0
    empty = Updates.empty(PAIRS.schema, 1)
    assert len(Batch.build(empty, PAIRS, whole(PAIRS)).updates()) == 0


def test_rows_of_parts_are_compared_and_gathered_as_their_values_say() -> None:
    """Slices begin within a byte of a bitmap and within a run of offsets."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns_module, "FEW", 0)
        for dtype, values in DOMAINS.values():
            schema = pa.schema([("c", dtype)])
            whole_column = pa.array(values * 7, dtype)
            parts = [
                Rows(schema, (whole_column.slice(start, 9),), len(whole_column.slice(start, 9))) for start in (0, 3)
            ]
            stack = columns_module.Stack(parts, schema)
            index = np.random.default_rng(1).integers(0, stack.total, 50)
            expected = [v for part in parts for v in part.columns[0].to_pylist()]
            assert stack.take(index).columns[0].to_pylist() == [expected[i] for i in index]
            other = np.random.default_rng(2).integers(0, stack.total, 50)
            same = [expected[i] == expected[j] for i, j in zip(index, other, strict=True)]
            assert stack.equal(index, other).tolist() == same
            taken = stack.take(index)
            taken.columns[0].validate(full=True)
            pairs_of_bytes = zip(encode(taken), encode(stack.take(other)), strict=True)
            assert [a == b for a, b in pairs_of_bytes] == same


def test_bytes_of_rows_that_follow_each_other_are_copied_together_without_those_of_nulls(monkeypatch):
    """A null may have bytes in the middle of a run of rows."""
    monkeypatch.setattr(columns_module, "FEW", 0)
    rng = random.Random(4)
    texts = ["x" * rng.choice([0, 1, 7, 8, 9, 40]) + str(i) for i in range(200)]
    plain = pa.array(texts)
    nulls = np.array([rng.random() < 0.2 for _ in texts])
    bitmap = pa.py_buffer(np.packbits(~nulls, bitorder="little"))
    column = pa.Array.from_buffers(pa.string(), len(texts), [bitmap, *plain.buffers()[1:]])
    expected = [None if null else text for text, null in zip(texts, nulls, strict=True)]
    assert column.to_pylist() == expected
    schema = pa.schema([("c", pa.string())])
    parts = [Rows(schema, (part,), len(part)) for part in (column.slice(3, 100), plain, column.slice(100))]
    stack, values = columns_module.Stack(parts, schema), expected[3:103] + texts + expected[100:]
    for index in (range(stack.total), range(50, 150), [5, 6, 7, 99, 100, 101, 3, 4, 4, 5], range(stack.total)[::-1]):
        assert stack.take(np.array(index)).columns[0].to_pylist() == [values[i] for i in index]


@pytest.mark.parametrize("bits", [1, 3, 64])
def test_a_large_batch_is_built_in_parts_as_it_is_whole(monkeypatch, bits):
    """Of many updates those of a range of key hashes are sorted at a time; keys may collide."""
    rng = random.Random(bits)
    rows = [(rng.choice([None, *range(40)]), rng.choice("xyz")) for _ in range(500)]
    times = np.array([[rng.randrange(3) for _ in rows]], np.int64)
    diffs = np.array([rng.choice([1, 1, -1]) for _ in rows], np.int64)
    updates = Updates(Rows.from_pylist(rows, PAIRS.schema), times, diffs)
    with hash_bits(bits):
        once = Batch.build(updates, PAIRS, whole(PAIRS))
        monkeypatch.setattr(batch_module, "BUILT_ROWS", 16)
        parts = Batch.build(updates, PAIRS, whole(PAIRS))
        assert sorted(listed(parts.updates(), Epoch()), key=repr) == sorted(listed(once.updates(), Epoch()), key=repr)
        if bits == 64:
            assert len(parts.blocks) > len(once.blocks)
        for one, other in pairwise(parts.blocks):
            assert one.key_hash[-1] < other.key_hash[0]
