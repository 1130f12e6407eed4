"""Batches: immutable, sorted, consolidated runs of updates, the bricks of every arrangement."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate, pairwise
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from altneu.columnar import few
from altneu.columnar.columns import FEW, Stack, kind_of
from altneu.columnar.gathered import Gathered
from altneu.columnar.hashing import NULL_HASH, Hashes, hash_rows, is_injective, is_number
from altneu.columnar.immutable import immutable, lazy
from altneu.columnar.lookup import by_probe, expand, find_few, gather_runs, locate, locate_all, renumber, rows_of_hits
from altneu.columnar.narrow import (
    WORD,
    Narrow,
    bytes_of,
    narrow_rows,
    narrowed,
    narrowed_words,
    one_word,
    stored_columns,
    whole,
)
from altneu.columnar.ranking import Order, order_words
from altneu.columnar.rows import Ints, Rows
from altneu.columnar.sorting import SMALL, Sorted, Unsorted, settle
from altneu.columnar.threads import LEAST
from altneu.errors import TooWideError, TypeMismatchError
from altneu.order import Antichain, Lattice
from altneu.trace.update import Updates

BLOCK_ROWS = 1 << 16
BUILT_ROWS = 1 << 20  # that are sorted together
PACKED_ROWS = 1 << 10  # shorter blocks stay as they are: they do not last
CONTROL = "#"  # control columns beside the payload begin with it; no column of a user may
_LARGEST_SUM = 1 << 62
LARGEST_HASH = (1 << 64) - 1
_LARGEST_COUNTED = 1 << 32  # a diff; there may be 2^31 rows
_FEW_RUNS = 8  # that are sliced and put together, in less time than kernels gather them
UNCOUNTED = -2  # in place of what a block counts, until that is first asked for
_FEW_BLOCKS = 64  # that are listed in less time than one of them is looked for
Which: TypeAlias = Ints | slice  # of the rows of a block
_NO_INTS = np.empty(0, np.int64)
_ONE_BLOCK = np.zeros(1, np.int64)


@immutable(frozen=True)
class Layout:
    """How updates of ``schema`` are arranged: by ``key``, with times of ``lattice``; the other columns are the value.

    With ``order`` (value columns and their directions), the values of a key are sorted by these columns, and ties by
    all other columns, ascending, nulls first. The word of the first order column (``ranking.order_words``) then
    replaces the hash of a value, so a collision is a tie, which the columns decide.

    With ``changes_only`` the sums of the updates are not kept: merging drops the updates that ``since`` no longer
    distinguishes (``uncompacted_from``), instead of advancing their times to ``since``.

    >>> from altneu.order import Epoch
    >>> schema = pa.schema([("src", pa.int64()), ("dst", pa.int64()), ("w", pa.float64())])
    >>> layout = Layout(schema, ("dst",), Epoch())
    >>> layout.values
    ('src', 'w')
    """

    schema: pa.Schema
    key: tuple[str, ...]
    lattice: Lattice
    order: tuple[Order, ...] = ()
    changes_only: bool = False

    def __post_init__(self) -> None:
        """An order by anything else would read another column."""
        for column, *_ in self.order:
            assert column in self.values, f"the order of a layout must name value columns, got {column!r}"

    @lazy
    def values(self) -> tuple[str, ...]:
        """The columns that are not key columns, in schema order."""
        return tuple(name for name in self.schema.names if name not in self.key)

    @lazy
    def keys(self) -> int:
        """The number of key columns."""
        return len(self.key)

    @lazy
    def has_told_keys(self) -> bool:
        """Whether hashes tell keys, but for null; tests of collisions ask ``is_injective`` again."""
        return is_injective(self.key_schema)

    @lazy
    def has_number(self) -> bool:
        """Whether the key is one whole number, date or time: where hashes tell keys, ``unmixed`` gives it."""
        return is_number(self.key_schema)

    @lazy
    def key_schema(self) -> pa.Schema:
        """The key columns, in key order."""
        return pa.schema([self.schema.field(name) for name in self.key])

    @lazy
    def value_schema(self) -> pa.Schema:
        """The value columns, in schema order."""
        return pa.schema([self.schema.field(name) for name in self.values])

    @lazy
    def fixed_bytes(self) -> int:
        """Bytes of an update's values of fixed widths, the two hashes, the times and the diff among them."""
        return WORD * (3 + self.lattice.width) + sum(kind_of(dtype)[1] for dtype in self.schema.types)

    @lazy
    def only_value(self) -> np.dtype[Any] | None:
        """Where the value is one column of whole numbers, dates or times, and the order is its: how it lies in memory.

        There the word of a value that is not null tells the value. None elsewhere.
        """
        types = self.value_schema.types
        if not self.order or types[1:] or not (pa.types.is_signed_integer(types[0]) or pa.types.is_temporal(types[0])):
            return None
        return np.dtype(f"i{types[0].bit_width // 8}")

    @lazy
    def _places(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Positions in the schema of the key and the value columns, and of every schema column in key + values."""
        both = self.key + self.values
        at = self.schema.get_field_index
        names = self.schema.names
        return tuple(map(at, self.key)), tuple(map(at, self.values)), tuple(both.index(name) for name in names)

    def split(self, rows: Rows) -> tuple[Rows, Rows]:
        """Rows of ``schema`` as key rows and value rows."""
        key, value, _ = self._places
        columns, count = rows.columns, rows.count
        return (
            Rows(self.key_schema, tuple(map(columns.__getitem__, key)), count),
            Rows(self.value_schema, tuple(map(columns.__getitem__, value)), count),
        )

    def value_hashes(self, values: Rows) -> Hashes:
        """What value rows are sorted by within a key: their hashes, or the words of the first order column."""
        if not self.order:
            return hash_rows(values)
        name, descending, nulls_first = self.order[0]
        return order_words(values.column(name), descending=descending, nulls_first=nulls_first)

    def join(self, keys: Rows, values: Rows) -> Rows:
        """Key rows and value rows as rows of ``schema``."""
        both = keys.columns + values.columns
        return Rows(self.schema, tuple(map(both.__getitem__, self._places[2])), keys.count)


@immutable(frozen=True, slots=True)
class Description:
    """The promises of a batch about its part of a collection.

    Let C be all updates of a collection, and write F <= t when some element of the antichain F is <= t. A batch with
    ``lower``, ``upper`` and ``since`` holds a set U of updates with:

    1. for all data x and all times t with since <= t: the sum of d over (x, s, d) in U with s <= t equals the sum of d
       over (x, s, d) in C with lower <= s, not upper <= s, and s <= t;
    2. no two updates of U have the same x and s; no d is zero;
    3. U is sorted by (key hash, key bytes, value hash, value bytes, linear extension of s); where the layout has an
       order, by (key hash, key bytes, order columns, other value columns, linear extension of s).

    It does not promise: that for all (x, s, d) in U, not upper <= s (a time may have been advanced by ``since`` to or
    beyond ``upper``); nor since <= s (times are advanced when batches merge, not before); nor anything about sums at
    a t with not since <= t.

    If the layout has ``changes_only``, U lacks the updates before ``uncompacted_from(since)``; 1 holds for the rest.

    Building or merging a batch establishes 2 and 3, and preserves 1: only the caller of ``build`` knows whether the
    updates are all of C between the bounds.

    Law:    tests/laws/test_batch.py quotes 1 to 3 (of ``build``), tests/laws/test_spine.py (of merging).
    """

    lower: Antichain
    upper: Antichain
    since: Antichain

    @classmethod
    def interval(cls, lattice: Lattice, lower: object, upper: object) -> Description:
        """From one Python time up to another, nothing compacted; ``None`` as upper is the closed frontier.

        >>> from altneu.order import Epoch
        >>> Description.interval(Epoch(), 0, 1)
        Description(lower=Antichain({0}), upper=Antichain({1}), since=Antichain({0}))
        """
        above = Antichain.of(lattice) if upper is None else Antichain.of(lattice, upper)
        return cls(Antichain.of(lattice, lower), above, Antichain.minimum(lattice))


def uncompacted_from(since: Antichain) -> int:
    """The first coordinate from which ``since`` leaves times as they are; 0 before any compaction.

    >>> from altneu.order import Epoch
    >>> [uncompacted_from(Antichain.of(Epoch(), since)) for since in (0, 1, 7)]
    [0, 2, 8]
    """
    least = int(since.elements[0].min())
    return least + 1 if least else 0


def reaches(upper: Any, start: int) -> bool:
    """Whether updates before a frontier, its elements, may be at ``start`` or later."""
    return upper.shape[1] != 1 or int(upper[0, 0]) > start or bool((upper[1:] > 0).any())


@immutable(frozen=True, eq=False)
class Block:
    """A contiguous sorted run of a batch, in memory or in a mapped file.

    Shape:  ``keys`` and ``values`` n rows; ``key_hash``, ``value_hash`` uint64 (n,); ``times`` int64 (width, n);
            ``diffs`` int64 (n,). A block is never empty. A key's run may continue in the next block.

    ``collision_free`` says that every run of equal key hash in the block holds one key, including the parts of the run
    in the blocks before and after.
    """

    layout: Layout
    keys: Rows
    values: Rows
    key_hash: Hashes
    value_hash: Hashes
    times: Ints
    diffs: Ints
    collision_free: bool

    def __len__(self) -> int:
        return self.diffs.size

    def __reduce__(self) -> tuple[Any, ...]:
        # Cached tables hold addresses of this process and must stay in it.
        parts = (self.layout, self.keys, self.values, self.key_hash, self.value_hash, self.times, self.diffs)
        return Block, (*parts, self.collision_free)

    @lazy
    def table(self) -> Ints:
        """The block's line for ``lookup.locate``, as (1, 4)."""
        words = self.key_hash.view(np.int64)
        address = words.__array_interface__["data"][0]
        return np.array([[address, words.size, words[0], words[-1]]], np.int64)

    @lazy
    def addresses(self) -> Ints:
        """Where the value hashes, the diffs and each line of the times are: (columns, 3), as ``Narrow.line``."""
        base, step = self.times.__array_interface__["data"][0], self.times.strides[0]
        times = [(base + step * i, WORD, 0) for i in range(self.times.shape[0])]
        whole = [(words.__array_interface__["data"][0], WORD, 0) for words in (self.value_hash, self.diffs)]
        return np.array([*whole, *times], np.int64)

    @lazy
    def places(self) -> Ints | None:
        """Where the columns of the key are, and behind them those of the value: see ``few.stored_places``."""
        types = (*self.layout.key_schema.types, *self.layout.value_schema.types)
        return few.stored_places((*stored_columns(self.keys), *stored_columns(self.values)), types)

    @lazy
    def total(self) -> tuple[int | None, Ints]:
        """The sum of the diffs, or None if it may leave 64 bits; and the latest times, (width, 1)."""
        diffs, most = self.diffs, max(-int(self.diffs.min()), int(self.diffs.max()))
        total = None if most * len(diffs) >= _LARGEST_SUM else int(diffs.sum())
        return total, self.times.max(axis=1, keepdims=True)

    @lazy
    def counted(self) -> tuple[int, int]:
        """For kernels: the address of the sums of diffs before each row and of all, or 0 and the diff that all have.

        -1 where a diff is so large that sums of sums may not fit. Made when first asked for, of 8 bytes a row.
        """
        least, most = int(np.minimum.reduce(self.diffs)), int(np.maximum.reduce(self.diffs))
        if max(-least, most) > _LARGEST_COUNTED:
            return -1, 0
        return (0, most) if least == most else (self._sums_before.ctypes.data, 0)

    @lazy
    def _sums_before(self) -> Ints:
        return np.concatenate([[0], np.cumsum(self.diffs)])

    @property
    def nbytes(self) -> int:
        """Bytes of payload and control columns."""
        return bytes_of(self.keys) + bytes_of(self.values) + WORD * len(self) * (3 + len(self.times))

    def find(self, key_hash: Hashes, keys: Rows) -> tuple[Ints, Ints]:
        """The rows with the probes' keys: a count for each probe, and the positions of all rows, probe by probe.

        Probes need not be sorted nor distinct. Null equals null.

        Cost:   O(probes log n); about 10 microseconds for one probe, 100 ns each for many sorted ones.
        Law:    tests/laws/test_batch.py (against comparing every pair).
        """
        hits, _, _ = _search((self,), self.table, key_hash, keys)
        probe, rows = expand(hits, _ONE_BLOCK)
        return np.bincount(probe, minlength=len(key_hash)).astype(np.int64, copy=False), rows

    def run_starts(self) -> Ints:
        """Positions where a key starts that the row before does not have."""
        return _run_starts((self,), self.layout)

    def updates(self) -> Updates:
        """The updates, with rows of ``layout.schema``."""
        return Updates(self.layout.join(self.keys, self.values), self.times, self.diffs)

    def times_at(self, rows: Ints) -> Ints:
        """The times of some rows."""
        return self.times.take(rows, axis=1)

    def diffs_at(self, rows: Which) -> Ints:
        """The diffs of some rows."""
        return self.diffs[rows]

    def value_hash_at(self, rows: Which) -> Hashes:
        """The value hashes of some rows."""
        return self.value_hash[rows]

    def key_hash_at(self, rows: Which) -> Hashes:
        """The key hashes of some rows."""
        return self.key_hash[rows]

    def take(self, index: Ints) -> Block:
        """Some of the rows, in order."""
        times = self.times.take(index, axis=1)
        control = (self.key_hash[index], self.value_hash[index], times, self.diffs[index])
        return Block(self.layout, self.keys.take(index), self.values.take(index), *control, self.collision_free)

    def slice(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop``, without copying."""
        cut = slice(start, stop)
        control = (self.key_hash[cut], self.value_hash[cut], self.times[:, cut], self.diffs[cut])
        return Block(
            self.layout, self.keys.slice(start, stop), self.values.slice(start, stop), *control, self.collision_free
        )


class PackedBlock(Block):
    """A block in fewer bytes: whole numbers as narrow as their range allows, in rows, hashes, words, times and diffs.

    ``lines`` are the key hashes, the value hashes, the diffs, and each line of the times. What is read of all rows is
    built anew each time; what is read of some, by ``Block.addresses`` or position, is not.
    """

    lines: tuple[Narrow, ...]

    def __init__(
        self, layout: Layout, rows: tuple[Rows, Rows], lines: tuple[Narrow, ...], *, collision_free: bool
    ) -> None:
        attributes: dict[str, Any] = {"layout": layout, "keys": rows[0], "values": rows[1], "lines": lines}
        self.__dict__.update(attributes | {"collision_free": collision_free})

    def __len__(self) -> int:
        return self.lines[0].count

    @property
    def key_hash(self) -> Hashes:
        """All key hashes."""
        return self.lines[0].words().view(np.uint64)

    @property
    def value_hash(self) -> Hashes:
        """All value hashes."""
        return self.lines[1].words().view(np.uint64)

    @property
    def diffs(self) -> Ints:
        """All diffs."""
        return self.lines[2].words()

    @property
    def times(self) -> Ints:
        """All times."""
        return np.stack([line.words() for line in self.lines[3:]])

    @lazy
    def table(self) -> Ints:
        """As of any block; of hashes that are all one there is no address."""
        address, _, least = self.lines[0].line
        first, last = (least, least) if not address else self.lines[0].at([0, -1]).words()
        return np.array([[address, len(self), first, last]], np.int64)

    @lazy
    def addresses(self) -> Ints:
        """As of any block."""
        return np.array([line.line for line in self.lines[1:]], np.int64)

    @property
    def nbytes(self) -> int:
        """Bytes of what is kept."""
        shared = {id(column.codes) for column in stored_columns(self.values) if isinstance(column, Narrow)}
        lines = sum(line.nbytes for line in self.lines if id(line.codes) not in shared)
        return bytes_of(self.keys) + bytes_of(self.values) + lines

    def times_at(self, rows: Ints) -> Ints:
        """The times of some rows."""
        return np.stack([line.at(rows).words() for line in self.lines[3:]])

    def diffs_at(self, rows: Which) -> Ints:
        """The diffs of some rows."""
        return self.lines[2].at(rows).words()

    def value_hash_at(self, rows: Which) -> Hashes:
        """The value hashes of some rows."""
        return self.lines[1].at(rows).words().view(np.uint64)

    def key_hash_at(self, rows: Which) -> Hashes:
        """The key hashes of some rows."""
        return self.lines[0].at(rows).words().view(np.uint64)

    def slice(self, start: int, stop: int) -> Block:
        """Rows ``start`` to ``stop``, without copying."""
        rows = self.keys.slice(start, stop), self.values.slice(start, stop)
        lines = tuple([line.at(slice(start, stop)) for line in self.lines])
        return PackedBlock(self.layout, rows, lines, collision_free=self.collision_free)


def packed(block: Block, least: int | None = None) -> Block:
    """A block in fewer bytes, where it has at least so many rows (None: ``PACKED_ROWS``); of fewer it would not matter.

    Law:    every row, hash, time and diff is what it was (tests/laws/test_narrow.py).
    """
    if isinstance(block, PackedBlock) or len(block) < (PACKED_ROWS if least is None else least):
        return block
    layout, values = block.layout, narrow_rows(block.values)
    words: Narrow | None = None
    if layout.order:
        first = stored_columns(values)[layout.values.index(layout.order[0][0])]
        words = narrowed_words(block.value_hash.view(np.int64), first if isinstance(first, Narrow) else None)
    elif not layout.values:
        words = one_word(block.value_hash)
    lines = (
        one_word(block.key_hash) or whole(block.key_hash),
        words or whole(block.value_hash),
        *[narrowed(line) or whole(line) for line in (block.diffs, *block.times)],
    )
    return PackedBlock(layout, (narrow_rows(block.keys), values), lines, collision_free=block.collision_free)


def cut_blocks(blocks: Iterable[Block], lower: int, upper: int) -> tuple[Block, ...]:
    """The parts of blocks with key hashes from ``lower`` up to but not including ``upper``."""
    pieces = []
    for block in blocks:
        hashes = block.key_hash
        start = int(np.searchsorted(hashes, np.uint64(lower)))
        stop = len(hashes) if upper > LARGEST_HASH else int(np.searchsorted(hashes, np.uint64(upper)))
        if start < stop:
            pieces.append(block if stop - start == len(hashes) else block.slice(start, stop))
    return tuple(pieces)


@immutable(frozen=True, slots=True)
class Matches:
    """Rows found for probes: row k has the key of probe ``probe[k]``; ordered by probe, older batches first.

    Shape:  m matches; ``values`` m rows of the layout's value columns, ``value_hash`` uint64 (m,), ``times``
            (width, m).
    """

    probe: Ints
    values: Rows
    value_hash: Hashes
    times: Ints
    diffs: Ints

    def __len__(self) -> int:
        return self.diffs.size


@immutable(frozen=True, eq=False)
class Batch:
    """Updates between two frontiers, sorted and consolidated, in blocks; ``Description`` has its promises.

    >>> from altneu.order import Epoch
    >>> layout = Layout(pa.schema([("k", pa.string()), ("v", pa.int64())]), ("k",), Epoch())
    >>> rows = Rows.from_pylist([("a", 1), ("b", 2), ("a", 1)], layout.schema)
    >>> updates = Updates(rows, np.zeros((1, 3), np.int64), np.ones(3, np.int64))
    >>> batch = Batch.build(updates, layout, Description.interval(Epoch(), 0, 1))
    >>> sorted(zip(batch.updates().rows.to_pylist(), batch.updates().diffs.tolist()))
    [(('a', 1), 2), (('b', 2), 1)]
    >>> probes = Rows.from_pydict({"k": ["b", "c", "a"]}, layout.key_schema)
    >>> found = find_in([batch], hash_rows(probes), probes)
    >>> found.probe.tolist(), found.values.to_pylist(), found.diffs.tolist()
    ([0, 2], [(2,), (1,)], [1, 2])
    """

    layout: Layout
    description: Description
    blocks: tuple[Block, ...]

    @lazy
    def count(self) -> int:
        """The number of updates."""
        return sum([len(block) for block in self.blocks])

    def __len__(self) -> int:
        return self.count

    def __reduce__(self) -> tuple[Any, ...]:
        return Batch, (self.layout, self.description, self.blocks)

    @classmethod
    def empty(cls, layout: Layout, description: Description) -> Batch:
        """A batch without updates between the bounds."""
        return cls(layout, description, ())

    @classmethod
    def build(cls, updates: Updates, layout: Layout, description: Description) -> Batch:
        """Sort and consolidate updates, in any order, of rows of ``layout.schema``.

        Cost:   O(n log n); about 200 ns per row for two integer columns, 15 microseconds for one row. Memory holds
                the updates, the batch and, if keys are many, the work space for sorting ``BUILT_ROWS``.
        Law:    the sums of ``Description`` (tests/laws/test_batch.py).

        Raises:
            DiffOverflowError: a summed diff leaves the signed 64-bit range.
        """
        count = updates.diffs.size
        if count == 0:
            return cls(layout, description, ())
        if count > BUILT_ROWS:
            return cls(layout, description, _built_in_parts(updates, layout))
        blocks = _built(updates, layout)
        batch = cls(layout, description, blocks)
        if not blocks[1:]:  # all of this is computed lazily otherwise
            known = batch.__dict__
            known["count"] = known["rows_at_most"] = blocks[0].diffs.size if blocks else 0
            if count <= few.MOST and blocks:
                known["table"], known["addresses"] = blocks[0].table, blocks[0].addresses[None]
        return batch

    @lazy
    def table(self) -> Ints:
        """The blocks' lines for ``lookup.locate``, as (blocks, 4)."""
        if self.blocks and not self.blocks[1:]:
            return self.blocks[0].table
        return np.concatenate([b.table for b in self.blocks]) if self.blocks else np.empty((0, 4), np.int64)

    @lazy
    def addresses(self) -> Ints:
        """Where the control columns of the blocks are, as (blocks, columns, 3): see ``Block.addresses``."""
        if self.blocks and not self.blocks[1:]:
            return self.blocks[0].addresses[None]
        return np.array([b.addresses for b in self.blocks], np.int64).reshape(-1, 2 + self.layout.lattice.width, 3)

    @lazy
    def places(self) -> Ints | None:
        """Where the columns of the blocks are, as (blocks, columns, 6): see ``Block.places``; None where one has none.

        Nor has a block that holds several keys of one hash.
        """
        lines = [block.places for block in self.blocks if block.collision_free]
        if len(lines) < len(self.blocks) or any([line is None for line in lines]):  # noqa: C419  # a generator takes longer
            return None
        return np.array(lines, np.int64)

    @lazy
    def counted(self) -> Ints:
        """What the blocks count, as (blocks, 2): see ``Block.counted``; ``UNCOUNTED`` where nobody has asked."""
        return np.array([(UNCOUNTED, 0)] * len(self.blocks), np.int64).reshape(-1, 2)

    @property
    def nbytes(self) -> int:
        """Bytes of payload and control columns."""
        return sum(block.nbytes for block in self.blocks)

    @property
    def first_hash(self) -> int:
        """The least key hash of a batch that has any."""
        return int(self.blocks[0].table[0, 2].view(np.uint64))

    @property
    def last_hash(self) -> int:
        """The greatest key hash of a batch that has any."""
        return int(self.blocks[-1].table[0, 3].view(np.uint64))

    @property
    def bytes_as_rows(self) -> int:
        """About how many bytes it takes up where all of its columns are built, as a merge does."""
        return max(self.nbytes, self.rows_at_most * self.layout.fixed_bytes)

    @lazy
    def rows_at_most(self) -> int:
        """No fewer than its updates; known without touching them."""
        return self.count

    def between(self, lower: int, upper: int) -> Batch:
        """The rows whose key hash is at or beyond ``lower`` and before ``upper``, without copying.

        Law:    the parts between any bounds, in order, are the batch (tests/laws/test_batch.py).
        """
        if lower <= 0 and upper > LARGEST_HASH:
            return self
        return Batch(self.layout, self.description, cut_blocks(self.blocks, lower, upper))

    def described(self, description: Description) -> Batch:
        """The same rows under another description."""
        return Batch(self.layout, description, self.blocks)

    def packed(self) -> Batch:
        """The same in fewer bytes, for keeping in memory; itself if that is impossible."""
        if self.count < PACKED_ROWS:
            return self
        blocks = tuple(map(packed, self.blocks))
        same = all(new is old for new, old in zip(blocks, self.blocks, strict=True))
        return self if same else Batch(self.layout, self.description, blocks)

    def updates(self) -> Updates:
        """All updates, with rows of ``layout.schema``, in batch order."""
        parts = [block.updates() for block in self.blocks]
        return Updates.concat(parts, self.layout.schema, self.layout.lattice.width)

    def updates_by_key(self) -> tuple[Rows, Hashes, Ints, Ints]:
        """Values, their hashes, times and diffs of all updates, in batch order."""
        blocks = self.blocks
        if blocks and not blocks[1:]:
            return blocks[0].values, blocks[0].value_hash, blocks[0].times, blocks[0].diffs
        return (
            Rows.concat([b.values for b in blocks], self.layout.value_schema),
            np.concatenate([b.value_hash for b in blocks]),
            np.concatenate([b.times for b in blocks], axis=1),
            np.concatenate([b.diffs for b in blocks]),
        )

    def distinct_keys(self) -> tuple[Hashes, Rows]:
        """Every key once, with its hash, in batch order: probes for other arrangements."""
        return self._distinct_keys

    @lazy
    def _distinct_keys(self) -> tuple[Hashes, Rows]:
        if not self.blocks:
            return np.empty(0, np.uint64), Rows.empty(self.layout.key_schema)
        if self.count == 1:
            return self.blocks[0].key_hash, self.blocks[0].keys
        starts = _run_starts(self.blocks, self.layout)
        if len(self.blocks) == 1 and len(starts) == len(self):
            return self.blocks[0].key_hash, self.blocks[0].keys
        hashes = np.concatenate([b.key_hash for b in self.blocks])
        return hashes[starts], Stack([b.keys for b in self.blocks], self.layout.key_schema).take(starts)


class LazyBatch(Batch):
    """A batch whose blocks are loaded when they are used, all of them or those of some keys.

    ``part`` loads the updates from one key hash up to but not including another; ``rows`` counts updates, ``size``
    their bytes, which are upper bounds unless ``exact``. ``stored`` is the creator's name for the data.
    """

    stored: Any

    def __init__(
        self,
        layout: Layout,
        description: Description,
        rows: int,
        size: int,
        part: Callable[[int, int], Sequence[Block]],
        *,
        exact: bool = True,
        stored: Any = None,
    ) -> None:
        attributes: dict[str, Any] = {"layout": layout, "description": description, "_part": part, "stored": stored}
        self.__dict__.update(attributes | {"rows_at_most": rows, "_size": size} | ({"count": rows} if exact else {}))

    @lazy
    def blocks(self) -> tuple[Block, ...]:
        """All of it."""
        read: Sequence[Block] = self.__dict__["_part"](0, LARGEST_HASH + 1)
        return tuple(read)

    def between(self, lower: int, upper: int) -> Batch:
        """As of any batch; what lies outside is not brought."""
        if "blocks" in self.__dict__ or (lower <= 0 and upper > LARGEST_HASH):
            return super().between(lower, upper)
        return Batch(self.layout, self.description, tuple(self.__dict__["_part"](lower, upper)))

    def described(self, description: Description) -> Batch:
        """As of any batch; it stays unopened."""
        other = LazyBatch.__new__(LazyBatch)
        other.__dict__.update(self.__dict__, description=description)
        return other

    def packed(self) -> Batch:
        """Itself: it is where it is."""
        return self

    @property
    def nbytes(self) -> int:
        """Bytes of payload and control columns, about."""
        return int(self.__dict__["_size"])


@immutable(frozen=True)
class Arranged:
    """An arrangement as one consumer sees it in one step: ``old`` batches, and ``new``, this step's updates.

    ``new`` is consolidated in itself but not with ``old``. Old and new are per consumer: to a view that is being
    hydrated everything is new.
    """

    layout: Layout
    old: tuple[Batch, ...]
    new: Batch

    @property
    def all(self) -> tuple[Batch, ...]:
        """Old and new batches."""
        return (*self.old, self.new)


def find_in(batches: Sequence[Batch], key_hash: Hashes, keys: Rows) -> Matches:
    """Find probes in many batches of one layout, and gather the matches.

    Probes need not be sorted nor distinct. Null equals null. ``batches`` must not be empty.

    Matches that are one run of one block are views of it; others are gathered.

    Cost:   O(probes log n + matches); blocks whose range of hashes holds no probe are not touched. About 20
            microseconds for one probe.
    Law:    tests/laws/test_batch.py (against comparing every pair).

    Raises:
        TypeMismatchError: the probes' columns are not of the key's types.
    """
    return matches_of(*runs_of(batches, key_hash, keys), batches[0].layout)


def runs_of(batches: Sequence[Batch], key_hash: Hashes, keys: Rows) -> tuple[Ints, list[Block]]:
    """Where probes are in many batches: runs of rows as lines (probe, block, start, stop), and the blocks meant.

    Shape:  lines by probe, for each older blocks first.
    """
    hits, used, _ = _search(*_all_blocks(batches), key_hash, keys)
    return hits, used


def chains_of(batches: Sequence[Batch], key_hash: Hashes, keys: Rows) -> tuple[Ints, list[Block], Chains]:
    """What ``runs_of`` finds, and which batch each block is of: runs of one batch follow each other."""
    blocks, table = _all_blocks(batches)
    hits, used, which = _search(blocks, table, key_hash, keys)
    return hits, used, Chains(blocks, which, len(table))


def matches_of(hits: Ints, used: Sequence[Block], layout: Layout, *, as_read: bool = False) -> Matches:
    """Gather the rows of runs, which are as ``runs_of`` gives them, or parts of those.

    With ``as_read``, a column of the values of several runs, or of a short one, is gathered when it is read
    (``Gathered``).
    """
    if hits.shape[0] == 1 and (not as_read or int(hits[0, 3] - hits[0, 2]) > FEW):  # nothing to gather
        probe, number, start, stop = hits[0].tolist()
        block = used[number].slice(start, stop)
        return Matches(np.full(stop - start, probe), block.values.built(), block.value_hash, block.times, block.diffs)
    if 0 < hits.shape[0] <= _FEW_RUNS and not as_read:
        found = hits.tolist()
        if sum([stop - start for *_, start, stop in found]) <= FEW:
            return _matches_of_few(found, used, layout)
    if len(hits) < len(used):  # of a long run few rows may be wanted, and a block costs more than its rows
        hits = hits.copy()
        used = [used[i] for i in renumber(hits, len(used)).tolist()]
    if not used:
        nothing = np.empty((2 + layout.lattice.width, 0), np.int64)
        empty = Rows.empty(layout.value_schema)
        return Matches(nothing[0], empty, nothing[0].view(np.uint64), nothing[2:], nothing[1])
    stack = Stack([b.values for b in used], layout.value_schema)
    probes, rows, control = gather_runs(hits, stack.starts, np.array([b.addresses for b in used]))
    values = Gathered(stack, rows) if as_read else stack.take(rows)
    return Matches(probes, values, control[0].view(np.uint64), control[2:], control[1])


def _matches_of_few(hits: list[list[int]], used: Sequence[Block], layout: Layout) -> Matches:
    """The same of a few runs: slices, put together."""
    runs = [used[number].slice(start, stop) for _, number, start, stop in hits]
    values = [run.values.columns for run in runs]
    columns = tuple([pa.concat_arrays(parts) for parts in zip(*values, strict=True)])
    diffs = np.concatenate([run.diffs for run in runs])
    return Matches(
        np.repeat([probe for probe, *_ in hits], [stop - start for *_, start, stop in hits]),
        Rows(layout.value_schema, columns, diffs.size),
        np.concatenate([run.value_hash for run in runs]),
        np.concatenate([run.times for run in runs], axis=1),
        diffs,
    )


def hit_blocks(batches: Sequence[Batch], key_hash: Hashes) -> list[Block]:
    """The blocks, older first, that hold the hash of a probe: all that is worth a ``Block.find``.

    Cost:   one kernel call; a few microseconds for one probe, however many blocks there are.
    """
    blocks, table = _all_blocks(batches)
    hits = locate(table, key_hash if len(key_hash) == 1 else np.sort(key_hash))
    return [blocks[i] for i in renumber(hits, len(table)).tolist()]


@immutable(frozen=True, slots=True)
class Probed:
    """Where probes were found: ``hits``, runs of rows, by probe, as lines (probe, block, start, stop) of ``blocks``."""

    hits: Ints
    blocks: Sequence[Block]


def probe(batches: Sequence[Batch], key_hash: Hashes, keys: Rows) -> Probed:
    """Find probes in many batches of one layout; nothing is gathered.

    Cost:   O(probes log n); about 10 microseconds for one probe.
    """
    return Probed(*runs_of(batches, key_hash, keys))


_blocks_of = attrgetter("blocks")


class _Blocks:
    """The blocks of several batches, numbered through."""

    def __init__(self, batches: Sequence[Batch]) -> None:
        self._batches = batches

    @lazy
    def _starts(self) -> list[int]:
        return list(accumulate(map(len, map(_blocks_of, self._batches)), initial=0))

    def __getitem__(self, index: int) -> Block:
        batch = bisect_right(self._starts, index) - 1
        return self._batches[batch].blocks[index - self._starts[batch]]

    @staticmethod
    def are_few(numbers: Ints, of: int) -> bool:
        """Whether so few ``of`` all are looked for one by one."""
        return not numbers.size or (of > _FEW_BLOCKS and 8 * numbers.size < of)

    def some(self, numbers: Ints, of: int) -> list[Block]:
        """Some of them."""
        if self.are_few(numbers, of):
            return [self[i] for i in numbers.tolist()]
        every = [block for batch in self._batches for block in batch.blocks]
        return [every[i] for i in numbers.tolist()]

    def batches_of(self, numbers: Ints, of: int) -> Ints:
        """The number of the batch that each of some blocks is of, of all."""
        if of == len(self._batches):  # one a batch
            return numbers
        return np.array(self._starts).searchsorted(numbers, "right") - 1

    def addresses(self) -> Ints:
        """Those of each of them, as ``Batch.addresses``."""
        return np.concatenate([batch.addresses for batch in self._batches])

    def counted(self) -> Ints:
        """What each of them counts, as ``Batch.counted``."""
        return np.concatenate([batch.counted for batch in self._batches])

    def count(self, index: int) -> tuple[int, int]:
        """What one of them counts, which its batch then knows."""
        batch = bisect_right(self._starts, index) - 1
        counted = self[index].counted
        self._batches[batch].counted[index - self._starts[batch]] = counted
        return counted


@immutable(frozen=True, eq=False)
class Chains:
    """Which blocks some are ``of`` all; kernels read them through tables that each batch makes once."""

    blocks: _Blocks
    which: Ints
    of: int

    def batch(self) -> Ints:
        """The number of the batch that each is of."""
        return self.blocks.batches_of(self.which, self.of)

    def words(self) -> Ints:
        """Where the words of each are, (blocks, 3), as ``Block.addresses``."""
        if self.blocks.are_few(self.which, self.of):
            return np.array([self.blocks[i].addresses[0] for i in self.which.tolist()], np.int64).reshape(-1, 3)
        return self.blocks.addresses()[self.which, 0]

    def counted(self) -> Ints:
        """What each counts, (blocks, 2), as ``Block.counted``."""
        if not self.which.size:
            return np.empty((0, 2), np.int64)
        found = self.blocks.counted()[self.which]
        for i in (found[:, 0] == UNCOUNTED).nonzero()[0].tolist():
            found[i] = self.blocks.count(int(self.which[i]))
        return found


def _all_blocks(batches: Sequence[Batch]) -> tuple[_Blocks, Ints]:
    batches = [b for b in batches if b.blocks]
    if not batches:
        return _Blocks(batches), np.empty((0, 4), np.int64)
    return _Blocks(batches), np.concatenate([b.table for b in batches])


def _search(
    blocks: _Blocks | tuple[Block, ...], table: Ints, key_hash: Hashes, keys: Rows
) -> tuple[Ints, list[Block], Ints]:
    """Runs of rows with the probes' keys, as lines (probe, block, start, stop), the blocks these number, and which."""
    if key_hash.size < LEAST:
        hits, which, has_null = find_few(table, key_hash, NULL_HASH)
    else:
        order, probes = _NO_INTS, key_hash
        if not (probes[1:] >= probes[:-1]).all():
            order = np.argsort(probes, kind="stable")
            probes = probes[order]
        hits = locate_all(table, probes)
        which = renumber(hits, len(table))
        hits, has_null = by_probe(hits, order), bool((probes == NULL_HASH).any())
    if not hits.size:
        return hits, [], _NO_INTS
    used = blocks.some(which, table.shape[0]) if isinstance(blocks, _Blocks) else [blocks[i] for i in which.tolist()]
    schema = used[0].layout.key_schema
    if not has_null and is_injective(schema):
        return hits, used, which
    return _verified(hits, used, keys, schema), used, which


def _verified(hits: Ints, used: list[Block], keys: Rows, schema: pa.Schema) -> Ints:
    """The hits whose key really is the probe's: one comparison a run, or one a row where keys collide."""
    for column, field in zip(keys.columns, schema, strict=True):
        if column.type != field.type:
            raise TypeMismatchError(
                f"probing key {field.name!r} of type {field.type} with {column.type}; cast the probes"
            )
    stack = Stack([*(b.keys for b in used), keys], schema)
    if not all(b.collision_free for b in used):
        hits = rows_of_hits(hits)
    equal = stack.equal(stack.starts[hits[:, 1]] + hits[:, 2], stack.starts[-2] + hits[:, 0])
    return hits if equal.all() else hits[equal]


def _run_starts(blocks: Sequence[Block], layout: Layout) -> Ints:
    """Positions in the stack of all blocks where a key starts."""
    hashes = blocks[0].key_hash if len(blocks) == 1 else np.concatenate([b.key_hash for b in blocks])
    if len(hashes) == 1:
        return np.zeros(1, np.int64)
    differs = np.ones(len(hashes), np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=differs[1:])
    if not all(b.collision_free for b in blocks):
        suspects = np.flatnonzero(~differs)
        stack = Stack([b.keys for b in blocks], layout.key_schema)
        differs[suspects] = ~stack.equal(suspects - 1, suspects)
    return np.flatnonzero(differs)


def _built(updates: Updates, layout: Layout) -> tuple[Block, ...]:
    """Updates, at least one, sorted and consolidated."""
    keys, values = layout.split(updates.rows)
    if updates.diffs.size <= few.MOST and (block := _few(updates, keys, values, layout)) is not None:
        return (block,) if block.diffs.size else ()
    key_hash, value_hash = hash_rows(keys), layout.value_hashes(values)
    stacks = Stack((keys,), layout.key_schema), Stack((values,), layout.value_schema)
    rows_in = Unsorted(*stacks, key_hash, value_hash, updates.times, updates.diffs, layout.order)
    return blocks_of(settle(rows_in, layout.lattice), rows_in, layout)


def _few(updates: Updates, keys: Rows, values: Rows, layout: Layout) -> Block | None:
    """The same of few updates by one kernel, as a block that may be empty; None where it does not decide."""
    places = few.places_of(keys.columns + values.columns)
    if places is None:
        return None
    words = layout.value_hashes(values) if layout.order else few.NO_WORDS
    times, diffs = updates.times, updates.diffs
    places, starts = places[None], few.STARTS[diffs.size]
    done = few.settled(places, starts, layout.keys, times, diffs, words)
    return None if done is None else _block_of(done, ((keys, values),), places, starts, layout)


def merged_few(blocks: Sequence[Block], times: Ints, diffs: Ints, layout: Layout) -> Block | None:
    """The updates of blocks, few in all and with other times, as a block that may be empty; None as of ``_few``."""
    parts = [(block.keys, block.values) for block in blocks]
    columns = [keys.columns + values.columns for keys, values in parts]  # which own the memory, until the end
    lines = []
    for some in columns:
        if (line := few.places_of(some)) is None:
            return None
        lines.append(line)
    places, starts = np.array(lines), np.array([0, *accumulate([block.diffs.size for block in blocks])])
    words = np.concatenate([block.value_hash for block in blocks]) if layout.order else few.NO_WORDS
    done = few.settled(places, starts, layout.keys, times, diffs, words)
    return None if done is None else _block_of(done, parts, places, starts, layout)


def _block_of(
    done: few.Settled, parts: Sequence[tuple[Rows, Rows]], places: Ints, starts: Ints, layout: Layout
) -> Block | None:
    """Few updates that are settled, with the rows of the parts that they came from; None if one column is too wide."""
    keys, values = parts[0]
    index, control, table, addresses = done
    if index is not None or parts[1:]:
        index = np.arange(control[3].size) if index is None else index
        taken = few.gathered(places, starts, index, layout.key_schema.types + layout.value_schema.types)
        if taken is None:
            try:
                keys = Stack([k for k, _ in parts], layout.key_schema).take(index)
                values = Stack([v for _, v in parts], layout.value_schema).take(index)
            except TooWideError:
                return None
        else:
            first = len(layout.key)
            keys = Rows(layout.key_schema, tuple(taken[:first]), index.size)
            values = Rows(layout.value_schema, tuple(taken[first:]), index.size)
    block = Block(layout, keys, values, *control, True)
    block.__dict__["table"], block.__dict__["addresses"] = table, addresses  # which are lazy otherwise
    return block


def _built_in_parts(updates: Updates, layout: Layout) -> tuple[Block, ...]:
    """The same of many updates: those of a range of key hashes after the others, each packed when it is done."""
    bits = min((len(updates) // BUILT_ROWS).bit_length(), 16)
    part = (hash_rows(layout.split(updates.rows)[0]) >> np.uint64(64 - bits)).astype(np.uint16)
    order = np.argsort(part, kind="stable")
    ends = np.cumsum(np.bincount(part)).tolist()
    blocks: list[Block] = []
    for start, stop in pairwise([0, *ends]):
        if start < stop:
            blocks += map(packed, _built(updates.take(order[start:stop]), layout))
    return tuple(blocks)


def blocks_of(done: Sorted, rows_in: Unsorted, layout: Layout) -> tuple[Block, ...]:
    """Blocks of at most ``BLOCK_ROWS`` rows of what ``settle`` kept; payload in order already is not copied."""
    index, keys_in = done.index, rows_in.keys
    count = index.size
    whole = count <= BLOCK_ROWS and count == keys_in.total and not keys_in.parts[1:]
    if whole and (index.tolist() == [*range(count)] if count < SMALL else bool((index == np.arange(count)).all())):
        keys, values = rows_in.keys.parts[0], rows_in.values.parts[0]
        control = (done.key_hash, done.value_hash, np.ascontiguousarray(done.times), done.diffs)
        return (Block(layout, keys, values, *control, done.collision_free),) if count else ()
    times = np.ascontiguousarray(done.times)
    blocks: list[Block] = []
    start, size = 0, BLOCK_ROWS
    while start < count:
        cut = slice(start, min(start + size, count))
        try:
            keys, values = rows_in.keys.take(done.index[cut]), rows_in.values.take(done.index[cut])
        except TooWideError:
            if size == 1:
                raise
            size //= 2
            continue
        control = (done.key_hash[cut], done.value_hash[cut], times[:, cut], done.diffs[cut])
        blocks.append(Block(layout, keys, values, *control, done.collision_free))
        start = cut.stop
    return tuple(blocks)
