"""Reading arrangements: what they accumulate to at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from altneu.columnar.hashing import hash_rows
from altneu.columnar.lookup import word_stretch
from altneu.columnar.rows import Ints, Rows
from altneu.errors import ERROR_SCHEMA
from altneu.explain import EventTimes
from altneu.operators.base import ArrangementState, own_times
from altneu.operators.kernels.spans import Mask, show_row
from altneu.order import Epoch
from altneu.runtime.batch_writer import ranges
from altneu.runtime.state import StateTable
from altneu.trace.batch import LARGEST_HASH, Batch, Block, Layout, chains_of, find_in, runs_of
from altneu.trace.future import FutureUpdates
from altneu.trace.spine import Spine
from altneu.trace.update import Updates, consolidate

MOST_COUNTED = 1 << 20  # updates, of which EXPLAIN counts the event times
_LARGEST_SUM = 1 << 62
# How ``first_rows`` looks: so many updates of each batch, in the range of hashes that has about so many of all; the
# last is for an arrangement nearly all of which is one key.
_TRIES = ((256, 1 << 10), (1 << 12, 1 << 14), (1 << 14, None))

At = tuple[int, ...]  # a time, coordinate by coordinate


def accumulated(state: ArrangementState, at: At) -> Updates:
    """The rows of one shard with their counts at a time, all stamped with its first coordinate.

    Shape:  no two of equal row, no zero count; what has fewer coordinates than ``at``, as what a view with two times
            has from a source with one, is there at all of the others.
    """
    return summed(state.spine.batches, state.spine.layout, at)


def summed(batches: Sequence[Batch], layout: Layout, at: At) -> Updates:
    """What batches accumulate to at a time, as ``accumulated``."""
    own = np.array(at[: layout.lattice.width], np.int64)[:, None]
    parts = []
    for batch in batches:
        updates = batch.updates()
        late = np.asarray((updates.times > own).any(axis=0))
        parts.append(updates.filter(~late) if late.any() else updates)
    stamped = [replace(p, times=np.full((1, len(p)), at[0])) for p in parts]
    if len(parts) == 1 and not (parts[0].times != parts[0].times[:, :1]).any():
        return stamped[0]  # one batch at one time: nothing to add up
    return consolidate(Updates.concat(stamped, layout.schema, 1), Epoch())


def parts_of(state: ArrangementState, room: int) -> Iterator[ArrangementState]:
    """A state in parts, by ranges of its key, each of about ``room`` bytes; nothing of what it holds."""
    layout, batches = state.spine.layout, state.spine.batches
    for lower, upper in ranges(sum(batch.bytes_as_rows for batch in batches), room):
        part = [batch.between(lower, upper) for batch in batches]
        yield ArrangementState(Spine.of(layout, part), FutureUpdates(layout.schema, layout.lattice))


def contents(table: StateTable, name: str, at: At) -> Updates:
    """The rows of an arrangement with their counts at a time, over all shards."""
    parts = [accumulated(state, at) for shard in table.shards_of(name) if (state := table.get(name, shard)) is not None]
    return Updates.concat(parts, table.layouts[name].schema, 1)


def first_rows(table: StateTable, name: str, at: At, wanted: int) -> tuple[Updates, bool]:
    """Some rows of an arrangement with their counts at a time, and whether they are all.

    Shape:  at least ``wanted`` rows, unless there are fewer; more where they are there for the reading. If nearly all
            updates in front are of rows that are gone, there may be fewer, even none.
    Cost:   at most ``_TRIES`` times so many updates of each batch as its last entry has, whatever the arrangement
            keeps; on a remote store the blocks that they are in.
    Law:    tests/session/test_notebooks.py (rows of the whole, with their counts).
    """
    layout, parts, found, whole = table.layouts[name], list[Updates](), 0, True
    for shard in table.shards_of(name):
        if found >= wanted:
            whole = False
            break
        state = table.get(name, shard)
        if state is not None:
            part, is_all = _in_front(state.spine.batches, layout, at, wanted - found)
            parts.append(part)
            found, whole = found + len(part), whole and is_all
    return Updates.concat(parts, layout.schema, 1), whole


def _in_front(batches: Sequence[Batch], layout: Layout, at: At, wanted: int) -> tuple[Updates, bool]:
    total = sum(map(len, batches))
    found = Updates.empty(layout.schema, 1)
    for most, range_ in _TRIES:
        if total <= most:
            return summed(batches, layout, at), True
        upper = min(LARGEST_HASH + 1, (LARGEST_HASH + 1) * range_ // total) if range_ else LARGEST_HASH + 1
        found = summed(_heads(batches, most, upper), layout, at)
        if len(found) >= wanted:
            break
    return found, False


def _heads(batches: Sequence[Batch], most: int, upper: int) -> list[Batch]:
    """The updates in front of the same place in every batch: at most ``most`` of each, with key hashes below ``upper``.

    Equal rows have the same place, so a row is in all of the parts with all its updates, or in none.
    """
    place, heads = (upper, 0), list[list[Block]]()
    for batch in batches:
        left, head = most, list[Block]()
        for block in batch.between(0, upper).blocks:
            if len(block) > left:
                at = slice(left, left + 1)
                place = min(place, (int(block.key_hash_at(at)[0]), int(block.value_hash_at(at)[0])))
            if not left:
                break
            head.append(block.slice(0, min(left, len(block))))
            left -= len(head[-1])
        heads.append(head)
    cut = []
    for batch, head in zip(batches, heads, strict=True):
        ends = [(block, _before(block, place)) for block in head]
        cut.append(Batch(batch.layout, batch.description, tuple(b.slice(0, end) for b, end in ends if end)))
    return cut


def _before(block: Block, place: tuple[int, int]) -> int:
    """How many updates of a block are in front of a place, a key hash and a value hash."""
    every = slice(0, len(block))
    keys, values = block.key_hash_at(every), block.value_hash_at(every)
    if place[0] > LARGEST_HASH:
        return len(block)
    key, value = np.uint64(place[0]), np.uint64(place[1])
    return int(((keys < key) | ((keys == key) & (values < value))).sum())


def rows_with_key(table: StateTable, name: str, at: At, keys: Rows) -> Updates:
    """The rows of an arrangement that have one of some distinct keys, with their counts at a time.

    Shape:  ``keys`` are rows of the arrangement's key; null equals null.
    Cost:   O(log n) for each key, shard and batch, and what has the keys.
    """
    layout, hashes, parts = table.layouts[name], hash_rows(keys), []
    own = np.array(at[: layout.lattice.width], np.int64)[:, None]
    for shard in table.shards_of(name):
        state = table.get(name, shard)
        batches = [] if state is None else [batch for batch in state.spine.batches if len(batch)]
        if batches:
            matches = find_in(batches, hashes, keys)
            rows = layout.join(keys.take(matches.probe), matches.values)
            early = _early(matches.times, own)
            updates = Updates(rows, np.full((1, len(matches)), at[0]), matches.diffs)
            parts.append(updates if early.all() else updates.filter(early))
    return consolidate(Updates.concat(parts, layout.schema, 1), Epoch())


@dataclass(frozen=True)
class Stretch:
    """A part of the rows of a key in an ordered arrangement: words of the order, and how many updates of each batch.

    ``least`` and ``most`` are the first and last ``order_words`` of the first order column; ``first`` updates from the
    front are read, or all (None).
    """

    least: int = 0
    most: int = LARGEST_HASH
    first: int | None = None


EVERYTHING = Stretch()


def rows_in_order(table: StateTable, name: str, at: At, keys: Rows, wanted: Stretch) -> tuple[Updates, bool]:
    """The rows of a stretch with one of some distinct keys, with their counts at a time, and whether these are all.

    Shape:  if there are more, these are in front of all others in the order of the arrangement.
    Cost:   O(log n) for each key, shard and block that has it, and the updates of the stretch.
    Law:    tests/session/test_lookup.py (against reading all rows).
    """
    layout, hashes, parts = table.layouts[name], hash_rows(keys), list[Updates]()
    own = np.array(at[: layout.lattice.width], np.int64)[:, None]
    unread: int | None = None  # the least word that was left
    for shard in table.shards_of(name):
        state = table.get(name, shard)
        batches = [] if state is None else [batch for batch in state.spine.batches if len(batch)]
        if not batches:
            continue
        hits, used, chains = chains_of(batches, hashes, keys)
        batch_of = chains.batch().tolist()
        taken: Counter[tuple[int, int]] = Counter()  # of a key and a batch, whose blocks follow each other
        for probe, place, start, stop in hits.tolist():
            block, chain = used[place], (probe, batch_of[place])
            low, high = word_stretch(block.addresses, 0, start, stop, np.uint64(wanted.least), np.uint64(wanted.most))
            end = high if wanted.first is None else min(high, low + max(wanted.first - taken[chain], 0))
            if low < high and end < high:
                word = int(block.value_hash_at(slice(end, end + 1))[0])
                unread = word if unread is None else min(unread, word)
            if end > low:
                taken[chain] += end - low
                parts.append(block.slice(low, end).updates())
    early = [part.filter(_early(part.times, own)) for part in parts]
    stamped = [Updates(part.rows, np.full((1, len(part)), at[0]), part.diffs) for part in early]
    found = consolidate(Updates.concat(stamped, layout.schema, 1), Epoch())
    if unread is None:
        return found, True
    words = layout.value_hashes(layout.split(found.rows)[1])
    return found.filter(words < np.uint64(unread)), False


def updates_with_key(table: StateTable, name: str, keys: Rows) -> int:
    """How many updates ``rows_with_key`` reads, at whatever time.

    Cost:   O(log n) for each key, shard and batch.
    """
    hashes, count = hash_rows(keys), 0
    for shard in table.shards_of(name):
        state = table.get(name, shard)
        batches = [] if state is None else [batch for batch in state.spine.batches if len(batch)]
        if batches:
            hits, _ = runs_of(batches, hashes, keys)
            count += int((hits[:, 3] - hits[:, 2]).sum())
    return count


def row_count(table: StateTable, name: str, at: At) -> int | None:
    """The sum of the counts of an arrangement's rows at a time, negative ones included; None if it may exceed 64 bits.

    Cost:   one addition a block, which knows its sum; a block with updates after ``at`` is passed over, its times and
            diffs. No row is read or compared.
    Law:    the sum of the diffs of ``contents`` (tests/session/test_lookup.py).
    """
    own = np.array(at[: table.layouts[name].lattice.width], np.int64)[:, None]
    states = [state for shard in table.shards_of(name) if (state := table.get(name, shard)) is not None]
    count = 0
    for block in (block for state in states for batch in state.spine.batches for block in batch.blocks):
        total, latest = block.total
        if total is None:
            return None
        count += total if (latest <= own).all() else int(block.diffs[_early(block.times, own)].sum())
    return count if abs(count) < _LARGEST_SUM else None


def _early(times: Ints, own: Ints) -> Mask:
    return np.asarray((times <= own).all(axis=0))


def event_times(table: StateTable, name: str) -> EventTimes | None:
    """How many event times the groups of an arrangement keep apart; None where they are too many to look at."""
    if table.rows(name) > MOST_COUNTED:
        return None
    states = [state for shard in table.shards_of(name) if (state := table.get(name, shard)) is not None]
    blocks = [block for state in states for batch in state.spine.batches for block in batch.blocks]
    if not blocks:
        return EventTimes(0, 0, 0)
    own = own_times(table.layouts[name].lattice)
    pairs = np.stack(
        [
            np.concatenate([block.key_hash.view(np.int64) for block in blocks]),
            *np.concatenate([block.times[1 : 1 + own] for block in blocks], axis=1),
        ]
    )
    lines = np.unique(pairs, axis=1)
    _, many = np.unique(lines[0], return_counts=True)
    return EventTimes(len(many), lines.shape[1], int(many.max()))


def negatives(updates: Updates, view: str, doubt: str = "") -> Updates | None:
    """Error rows for the rows whose count is negative; None when there are none.

    ``doubt`` is what else may have made them so.
    """
    bad = np.flatnonzero(updates.diffs < 0)
    if not len(bad):
        return None
    rows = updates.rows.take(bad)
    columns = {
        "operator": [f"view {view}"] * len(bad),
        "code": ["NEGATIVE_MULTIPLICITY"] * len(bad),
        "message": [
            f"a row has count {d}: it was retracted more often than inserted{f', or {doubt}' * bool(doubt)}"
            for d in updates.diffs[bad].tolist()
        ],
        "row": [show_row(updates.schema.names, r) for r in rows.to_pylist()],
    }
    return Updates(Rows.from_pydict(columns, ERROR_SCHEMA), updates.times[:, bad], np.ones(len(bad), np.int64))
