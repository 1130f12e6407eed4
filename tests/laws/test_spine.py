"""Laws of spines: every readable sum is kept, and merging keeps up: few batches, bounded pauses, nothing piles up."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from altneu.columnar.columns import encode
from altneu.columnar.hashing import hash_bits, hash_rows
from altneu.columnar.rows import Rows
from altneu.errors import BeforeFrontierError, DiffOverflowError, PlanError
from altneu.order import Antichain, Epoch, Lattice
from altneu.trace import merging as merging_module
from altneu.trace.batch import Batch, Description, Layout, uncompacted_from
from altneu.trace.merging import Merge
from altneu.trace.spine import (
    EFFORT,
    LOOSE_BATCHES,
    LOOSE_ROWS,
    SLICE_ROWS,
    TINY_BATCHES,
    Spine,
    is_settled,
    merge,
)
from altneu.trace.update import Updates
from tests.laws.histories import (
    History,
    accumulated,
    all_times,
    histories,
    listed,
    small_blocks,
    summed,
    updates_of,
)

LONGS = Layout(pa.schema([("k", pa.int64()), ("v", pa.int64())]), ("k",), Epoch())


def at(lattice: Lattice, epoch: int) -> Antichain:
    return Antichain.of(lattice, epoch if lattice.width == 1 else (epoch,) * lattice.width)


def begins(lattice: Lattice, epoch: int) -> Antichain:
    return Antichain.of(lattice, epoch if lattice.width == 1 else (epoch, 0))


def contents(batches: Iterable[Batch], lattice: Lattice, time: Any) -> dict[Any, int]:
    return accumulated((u for batch in batches for u in listed(batch.updates(), lattice)), time)


def check_readable(batches: Sequence[Batch], given_updates: list[Any], since: Antichain, top: int) -> None:
    lattice = since.lattice
    for time in all_times(lattice, top):
        if since.less_equal(lattice.from_python(time))[0]:
            assert contents(batches, lattice, time) == accumulated(given_updates, time)


def draw_since(data: st.DataObject, lattice: Lattice, epoch: int) -> Antichain:
    if lattice.width == 1:
        return Antichain.of(lattice, data.draw(st.integers(0, epoch)))
    corner = st.tuples(st.integers(0, epoch), st.integers(0, 2))
    return Antichain.of(lattice, *data.draw(st.lists(corner, min_size=1, max_size=2)))


@given(st.data(), histories(steps=14, rows=6))
def test_every_readable_sum_is_that_of_all_updates(data: st.DataObject, history: History) -> None:
    """Description, 1 to 3, of batches that were merged; and descriptions that follow each other without a gap."""
    layout, lattice = history.layout, history.layout.lattice
    spine, since = Spine.empty(layout), Antichain.minimum(lattice)
    before: list[tuple[Spine, Antichain, int]] = []
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([2, 7, 65536])), data.draw(st.sampled_from([2, 5, 4096])))
        for step in range(len(history.steps)):
            described = Description(begins(lattice, step), begins(lattice, step + 1), since)
            batch = Batch.build(history.updates(step), layout, described)
            before.append((spine, since, step - 1))
            since = since.join(draw_since(data, lattice, step))
            effort, whole = data.draw(st.sampled_from([0, 1, 512])), data.draw(st.integers(0, 5)) == 0
            loosely = data.draw(st.booleans())
            spine = spine.insert(batch, since, effort, merging=merge if whole else None, loosely=loosely)
            if data.draw(st.integers(0, 3)) == 0:
                spine = spine.gathered(since, effort)
                assert not spine.loose
            answer = [b.description for b in spine.batches]
            assert all(a.upper == b.lower for a, b in pairwise(answer))
            assert all(d.since.less_equal_frontier(since) for d in answer)
            assert spine.upper == described.upper
        every = [u for step in history.steps for u in step]
        check_readable(spine.batches, every, since, len(history.steps))
        check_readable(spine.compact(since).batches, every, since, len(history.steps))
        for older, then, step in before[-3:]:  # a spine is a value: what was inserted later has not touched it
            check_readable(older.batches, [u for s in history.steps[: step + 1] for u in s], then, step)


@given(st.data(), histories(steps=10, rows=6))
def test_work_without_inserts_keeps_every_readable_sum_and_ends_in_one_batch(
    data: st.DataObject, history: History
) -> None:
    layout, lattice = history.layout, history.layout.lattice
    spine, since = Spine.empty(layout), Antichain.minimum(lattice)
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([2, 7, 65536])), data.draw(st.sampled_from([2, 5, 4096])))
        for step in range(len(history.steps)):
            described = Description(begins(lattice, step), begins(lattice, step + 1), since)
            since = since.join(draw_since(data, lattice, step))
            spine = spine.insert(Batch.build(history.updates(step), layout, described), since)
            every = [u for s in history.steps[: step + 1] for u in s]
            for _ in range(data.draw(st.integers(0, 3))):
                before, (spine, used) = spine, spine.exert(data.draw(st.sampled_from([1, 3, 512])), since)
                assert used > 0 or spine is before
                check_readable(spine.batches, every, since, len(history.steps))
        for at_end in (since, since.join(begins(lattice, len(history.steps)))):
            total = 0
            while (result := spine.exert(2, at_end))[1]:
                total += result[1]
                assert total <= 2 * len(every)
                spine = result[0]
            assert len(spine.batches) <= 1
            assert not spine.has_merges
            check_readable(spine.batches, every, at_end, len(history.steps))
        assert is_settled([b.description for b in spine.batches], at_end)
        if lattice.width == 1:  # all is past: what no time tells apart is added up
            assert spine.rows == spine.compact(at_end).rows


@pytest.mark.parametrize("effort", [1, 100, 5000])
def test_work_without_inserts_is_bounded(effort: int) -> None:
    layout, spine, since = LONGS, Spine.empty(LONGS), Antichain.minimum(Epoch())
    for t in range(6):
        n = 4000 >> t
        rows = Rows.from_pydict({"k": list(range(n)), "v": [t] * n}, layout.schema)
        updates = Updates(rows, np.full((1, n), t), np.ones(n, np.int64))
        described = Description(begins(Epoch(), t), begins(Epoch(), t + 1), since)
        spine = spine.insert(Batch.build(updates, layout, described), since)
    calls, total, rows_before = 0, 0, spine.rows
    while True:
        spine, used = spine.exert(effort, since)
        if not used:
            break
        assert used < 2 * max(effort, 8)  # the updates of one key, and of one hash, are merged together
        calls, total = calls + 1, total + used
        if effort == 1 and calls == 50:
            return
    assert total == rows_before
    assert len(spine.batches) == 1


@given(st.data(), histories(steps=8))
def test_what_no_reader_can_tell_apart_is_one_after_compaction(data: st.DataObject, history: History) -> None:
    layout, lattice = history.layout, history.layout.lattice
    since = draw_since(data, lattice, len(history.steps))
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([2, 7, 65536])), data.draw(st.sampled_from([2, 4096])))
        spine = Spine.empty(layout)
        for step in range(len(history.steps)):
            described = Description(begins(lattice, step), begins(lattice, step + 1), Antichain.minimum(lattice))
            spine = spine.insert(Batch.build(history.updates(step), layout, described), Antichain.minimum(lattice))
        compacted = spine.compact(since)
        actual = [u for batch in compacted.batches for u in listed(batch.updates(), lattice)]
        blocks = [b for batch in compacted.batches for b in batch.blocks]
        columns = [
            (*key, times)
            for b in blocks
            for *key, times in zip(
                b.key_hash.tolist(),
                encode(b.keys),
                b.value_hash.tolist(),
                encode(b.values),
                zip(*(k.tolist() for k in lattice.sort_keys(b.times)), strict=True),
                strict=True,
            )
        ]
    advanced = [
        (row, lattice.to_python(since.advance(lattice.from_python(time))), diff)
        for step in history.steps
        for row, time, diff in step
    ]
    assert len(compacted.batches) <= 1
    assert summed(actual) == summed(advanced)
    assert len(actual) == len(summed(advanced)), "an update that no reader can tell from another"
    assert columns == sorted(columns)


def longs(count: int, time: int, pick: np.random.Generator, keys: int = 1 << 40) -> Batch:
    columns = tuple(pa.array(pick.integers(0, keys, count)) for _ in range(2))
    rows = Rows(LONGS.schema, columns, count)
    updates = Updates(rows, np.full((1, count), time, np.int64), np.ones(count, np.int64))
    return Batch.build(updates, LONGS, Description.interval(Epoch(), time, time + 1))


SIZES: dict[str, list[int]] = {
    "ones": [1] * 3000,
    "tens": [10] * 2000,
    "thousands": [1000] * 200,
    "growing": list(range(1, 300)),
    "shrinking": list(range(300, 0, -1)),
    "bulk, then ones": [300_000, 200_000] + [1] * 2500,
    "any": [int(10 ** random.Random(i).uniform(0, 4.5)) for i in range(200)],
}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES.keys())
def test_batches_stay_few_and_pauses_bounded(sizes: list[int]) -> None:
    pick = np.random.default_rng(1)
    spine, total, taken = Spine.empty(LONGS), 0, 0
    for time, size in enumerate(sizes):
        older = {id(m.inputs): m for m in spine.nodes if isinstance(m, Merge)}
        spine = spine.insert(longs(size, time, pick), at(Epoch(), time))
        total += size
        assert len(spine) == total
        assert len(spine.batches) <= 2 * math.log2(total + 1) + 8
        for node in spine.nodes:
            if isinstance(node, Merge) and id(node.inputs) in older:
                step = older[id(node.inputs)].remaining - node.remaining
                taken += step
                assert step <= node.credit + 2 * size + EFFORT + 2 * SLICE_ROWS
    assert taken <= total * 2 * math.log2(total), "each row is merged O(log n) times"


@pytest.mark.parametrize("size", [1, 30, 400, LOOSE_ROWS + 1])
def test_batches_of_rounds_wait_for_the_end_of_their_step(size: int) -> None:
    """Unless they are many or large: then they are merged as others are."""
    pick, spine, rounds, loose = np.random.default_rng(1), Spine.empty(LONGS), 6, 0
    most = LOOSE_BATCHES + TINY_BATCHES + 24
    for step in range(20):
        since, before = at(Epoch(), step * rounds), len(spine.batches)
        for number in range(step * rounds, (step + 1) * rounds):
            spine = spine.insert(longs(size, number, pick), since, loosely=True)
        assert len(spine.batches) == before + rounds or size > LOOSE_ROWS
        assert spine.loose <= (rounds if size <= LOOSE_ROWS else 0)
        loose += spine.loose
        spine = spine.gathered(since)
        assert spine.rows == size * rounds * (step + 1)
        assert len(spine.batches) <= most
    assert bool(loose) == (size <= LOOSE_ROWS)
    for number in range(20 * rounds, 20 * rounds + 200):
        spine = spine.insert(longs(size, number, pick), since, loosely=True)
        assert spine.loose <= LOOSE_BATCHES
        assert len(spine.batches) <= most


def test_merges_go_on_when_little_arrives_and_when_nothing_does() -> None:
    pick = np.random.default_rng(2)
    spine = Spine.empty(LONGS)
    sizes = [*(1 << k for k in range(14, 7, -1)), 1 << 8]  # of which the last makes all of them due
    for time, size in enumerate(sizes):
        spine = spine.insert(longs(size, time, pick), at(Epoch(), time))
    assert len(spine.batches) > 1, "a merge of so many more rows than came is not done at once"
    steps, total = 0, sum(sizes)
    while len(spine.batches) > 1:
        nothing = Batch.empty(LONGS, Description.interval(Epoch(), len(sizes) + steps, len(sizes) + steps + 1))
        spine = spine.insert(nothing, at(Epoch(), len(sizes)))
        steps += 1
        assert steps <= total / EFFORT + 1
    assert (len(spine), steps > 10) == (total, True)


@pytest.mark.parametrize("scale", [1, 30])
def test_rounds_of_a_load_leave_no_merge_on_its_way(scale: int) -> None:
    """What is merged would be kept beside what it is merged into, in every arrangement of a loop at once."""
    pick = np.random.default_rng(4)
    spine = Spine.empty(LONGS)
    for time, size in enumerate([300, 2_000, 9_000, 8_000, 3_000, 700]):
        spine = spine.insert(longs(size * scale, time, pick), at(Epoch(), time))
        assert not any(isinstance(node, Merge) for node in spine.nodes)


def test_whole_finishes_what_is_due() -> None:
    pick = np.random.default_rng(3)
    spine = Spine.empty(LONGS)
    for time in range(2):
        spine = spine.insert(longs(20_000, time, pick), at(Epoch(), time), merging=merge if time == 1 else None)
    assert [len(b) for b in spine.batches] == [40_000]


def test_what_is_merged_in_little_memory_is_not_merged_otherwise() -> None:
    """``merging`` keeps less in memory than ``merge`` does: only slices are merged without it."""
    pick = np.random.default_rng(5)
    spine, merged = Spine.empty(LONGS), []

    def merging(batches: Sequence[Batch], since: Antichain) -> Batch:
        merged.append(sum(map(len, batches)))
        return merge(batches, since)

    for time in range(3):
        spine = spine.insert(longs(20_000, time, pick), at(Epoch(), time), merging=merging)
    assert merged == [40_000]
    assert [len(b) for b in spine.batches] == [40_000, 20_000]


@pytest.mark.parametrize("size", [1, 40, 3000])
def test_toggled_rows_do_not_pile_up(size: int) -> None:
    """Progress: after many inserts, updates that no reader can tell apart are gone but for the newest."""
    rows = Rows(LONGS.schema, (pa.array(range(size)), pa.array(range(size))), size)
    spine = Spine.empty(LONGS)
    peak = 0
    for time in range(400):
        diffs = np.full(size, 1 if time % 2 == 0 else -1, np.int64)
        updates = Updates(rows, np.full((1, size), time, np.int64), diffs)
        batch = Batch.build(updates, LONGS, Description.interval(Epoch(), time, time + 1))
        spine = spine.insert(batch, at(Epoch(), time))
        peak = max(peak, len(spine))
    assert peak <= max(12 * size, 64 + size)
    assert len(spine.compact(at(Epoch(), 400))) == 0


def test_history_that_may_be_asked_for_is_kept() -> None:
    spine = Spine.empty(LONGS)
    for time in range(200):
        batch = Batch.build(
            updates_of([((1, 1), time, 1 if time % 2 == 0 else -1)], LONGS.schema, Epoch()),
            LONGS,
            Description.interval(Epoch(), time, time + 1),
        )
        spine = spine.insert(batch, at(Epoch(), 150))
    for time in range(150, 200):
        assert contents(spine.batches, Epoch(), time) == ({(1, 1): 1} if time % 2 == 0 else {})
    assert len(spine.compact(at(Epoch(), 150))) == 50


def test_a_slice_takes_as_many_rows_as_there_is_fuel_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a large and a small batch alike: what a merge costs beside its rows it costs for each slice."""
    slices: list[int] = []
    merge_slice = merging_module._merge_slice

    def counted(sources: Any, at: Any, ends: Any, since: Antichain) -> Any:
        slices.append(sum(ends) - sum(at))
        return merge_slice(sources, at, ends, since)

    monkeypatch.setattr(merging_module, "_merge_slice", counted)
    pick = np.random.default_rng(3)
    merged = Merge.start([longs(200_000, 0, pick), longs(20_000, 1, pick)], at(Epoch(), 1))
    while merged.remaining:
        merged = merged.advance(20_000, SLICE_ROWS, at(Epoch(), 1))
    assert len(slices) < 2.5 * 220_000 / 20_000
    assert max(slices) <= 20_000
    assert len(merged.finished()) == 220_000


@pytest.mark.parametrize("bits", [None, 2])
def test_one_key_of_many_rows_is_merged_in_slices(bits: int | None) -> None:
    layout = Layout(pa.schema([("v", pa.string())]), (), Epoch())
    pick = random.Random(5)
    updates = [((str(pick.randrange(300)),), t, pick.choice([1, -1])) for t in range(2) for _ in range(400)]
    hashing = History(layout, [updates], bits).hashing()
    with pytest.MonkeyPatch.context() as patch, hashing:
        small_blocks(patch, 64)
        batches = [
            Batch.build(updates_of(part, layout.schema, Epoch()), layout, Description.interval(Epoch(), t, t + 1))
            for t, part in enumerate((updates[:400], updates[400:]))
        ]
        merged = merge(batches, at(Epoch(), 1))
        first = Merge.start(batches, at(Epoch(), 1)).advance(1, 64, at(Epoch(), 1))
    assert bits is not None or 0 < first.total - first.remaining < 200, "the key is cut between value hashes"
    assert summed(listed(merged.updates(), Epoch())) == summed([(row, 1, d) for row, _, d in updates])
    assert max(len(b) for b in merged.blocks) <= 64


@pytest.mark.parametrize("several", [False, True])
def test_keys_that_share_a_hash_are_not_cut_between_value_hashes(several: bool) -> None:
    """Value hashes ascend within one key only, so a slice ends with all the keys of a hash."""
    pick = random.Random(3)
    with hash_bits(1), pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 8)
        sharing = np.flatnonzero(hash_rows(Rows.from_pydict({"k": range(20)}, LONGS.key_schema)) == 0).tolist()
        batches, every = [], []
        for t in range(2):
            keys = sharing[:4] if several else sharing[t : t + 1]
            part = [((pick.choice(keys), pick.randrange(30)), t, 1) for _ in range(60)]
            updates = updates_of(part, LONGS.schema, Epoch())
            batches.append(Batch.build(updates, LONGS, Description.interval(Epoch(), t, t + 1)))
            every += part
        merged = merge(batches, at(Epoch(), 1))
    actual = listed(merged.updates(), Epoch())
    assert summed(actual) == summed([(row, 1, d) for row, _, d in every])
    assert len(actual) == len(summed(actual))
    keys = [key for block in merged.blocks for (key,) in block.keys.to_pylist()]
    assert keys == sorted(keys, key=keys.index), "the rows of a key lie together"


def test_one_row_of_many_times_is_merged() -> None:
    updates = [((1, 1), time, 1) for time in range(100)]
    with pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 16)
        batches = [
            Batch.build(updates_of(part, LONGS.schema, Epoch()), LONGS, Description.interval(Epoch(), t, t + 50))
            for t, part in ((0, updates[:50]), (50, updates[50:]))
        ]
        assert listed(merge(batches, at(Epoch(), 0)).updates(), Epoch()) == updates
        assert listed(merge(batches, at(Epoch(), 99)).updates(), Epoch()) == [((1, 1), 99, 100)]


def test_keys_that_share_a_hash_across_batches_and_blocks_stay_apart() -> None:
    with hash_bits(0), pytest.MonkeyPatch.context() as patch:
        small_blocks(patch, 3)
        batches = [
            Batch.build(
                updates_of([((k, k), t, 1) for k in (t, t + 2)], LONGS.schema, Epoch()),
                LONGS,
                Description.interval(Epoch(), t, t + 1),
            )
            for t in range(2)
        ]
        merged = merge(batches, at(Epoch(), 1))
        _, keys = merged.distinct_keys()
    assert sorted(keys.to_pylist()) == [(0,), (1,), (2,), (3,)]
    assert not any(b.collision_free for b in merged.blocks if len(b) > 1)


def test_a_spine_read_from_a_store_goes_on() -> None:
    pick = np.random.default_rng(4)
    spine = Spine.empty(LONGS)
    for time in range(30):
        spine = spine.insert(longs(10, time, pick), at(Epoch(), time))
    again = Spine.of(LONGS, spine.batches)
    assert again.upper == spine.upper
    batch = longs(10, 30, pick)
    assert len(again.insert(batch, at(Epoch(), 30))) == 310
    assert len(Spine.of(LONGS, [])) == 0


def test_a_batch_of_the_past_is_refused() -> None:
    pick = np.random.default_rng(5)
    spine = Spine.empty(LONGS).insert(longs(3, 4, pick), at(Epoch(), 0))
    with pytest.raises(BeforeFrontierError, match="cannot follow batches up to"):
        spine.insert(longs(3, 4, pick), at(Epoch(), 0))


def test_a_sum_that_leaves_int64_is_refused_when_merging() -> None:
    batches = [
        Batch.build(
            updates_of([((1, 1), t, 2**62)], LONGS.schema, Epoch()), LONGS, Description.interval(Epoch(), t, t + 1)
        )
        for t in range(2)
    ]
    assert len(merge(batches, at(Epoch(), 0))) == 2
    with pytest.raises(DiffOverflowError):
        merge(batches, at(Epoch(), 1))


def test_merging_nothing() -> None:
    with pytest.raises(PlanError, match=r"Spine\.merged"):
        merge([], at(Epoch(), 0))
    assert len(Spine.empty(LONGS).merged(at(Epoch(), 0))) == 0
    assert Spine.empty(LONGS).compact(at(Epoch(), 0)).batches == ()


@given(st.data(), histories(steps=8, rows=6))
def test_of_changes_alone_those_are_kept_that_are_told_apart(data: st.DataObject, history: History) -> None:
    layout, lattice = replace(history.layout, changes_only=True), history.layout.lattice
    spine, since = Spine.empty(layout), Antichain.minimum(lattice)
    with pytest.MonkeyPatch.context() as patch, history.hashing():
        small_blocks(patch, data.draw(st.sampled_from([2, 7, 65536])), data.draw(st.sampled_from([2, 5, 4096])))
        for step in range(len(history.steps)):
            batch = Batch.build(
                history.updates(step), layout, Description(begins(lattice, step), begins(lattice, step + 1), since)
            )
            since = begins(lattice, data.draw(st.integers(int(since.elements[0].min()), step)))
            effort, whole = data.draw(st.sampled_from([0, 1, 512])), data.draw(st.integers(0, 5)) == 0
            spine = spine.insert(batch, since, effort, merging=merge if whole else None)
            if data.draw(st.booleans()):
                spine = spine.from_time(uncompacted_from(since))
        start = uncompacted_from(since)
        compacted = spine.compact(since)

    def changes(updates: Iterable[Any], start: int = 0) -> Counter[Any]:
        found: Counter[Any] = Counter()
        for row, time, diff in updates:
            if (time if lattice.width == 1 else time[0]) >= start:
                found[repr(row), time] += diff
        return Counter({change: n for change, n in found.items() if n})

    every = changes((u for i in range(len(history.steps)) for u in listed(history.updates(i), lattice)), start)
    assert changes((u for b in spine.batches for u in listed(b.updates(), lattice)), start) == every
    assert changes(u for b in compacted.batches for u in listed(b.updates(), lattice)) == every


@pytest.mark.parametrize("n", [1_000, 4_000])
def test_changes_that_are_told_apart_for_a_while_do_not_pile_up(n: int) -> None:
    layout, window, most = replace(LONGS, changes_only=True), 50, 0
    spine = Spine.empty(layout)
    for time in range(n):
        rows = Rows.from_pydict({"k": [time], "v": [0]}, layout.schema)
        batch = Batch.build(
            Updates(rows, np.array([[time]]), np.array([1])), layout, Description.interval(Epoch(), time, time + 1)
        )
        since = Antichain.of(Epoch(), max(time - window, 0))
        spine = spine.from_time(uncompacted_from(since)).insert(batch, since)
        most = max(most, len(spine))
    assert most <= 3 * window
