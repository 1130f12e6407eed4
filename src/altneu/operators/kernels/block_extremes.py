"""Rows with the extreme value of a column among the rows of ordered groups before some place, few of which are read.

Of each block the ranks of the column's values are kept, and the greatest of every ``CHUNK`` of them: 4 bytes a row,
computed when they are first needed. The greatest value of a run is looked up in them. Whether its
row is there, or cancels with updates of other batches, is seen by reading its updates; if it cancels, the greatest on
both sides of it are next. Runs of ``FEW`` rows, as recent batches have, are not searched: all of their rows are read.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.columns import valid_mask
from altneu.columnar.gathered import Gathered
from altneu.columnar.ranking import codes, order_words
from altneu.columnar.rows import Ints
from altneu.operators.kernels.located import OldRows, column_of, places_in
from altneu.trace.batch import Block

CHUNK = 256
FEW = 32


def rows_of_extremes(old: OldRows, upto: Ints, name: str, greatest: bool) -> Ints:
    """Runs with rows that have the extreme value of a column among those of each key before ``upto`` in its runs.

    Nulls are ignored. The runs may contain other rows as well.

    Cost:   O(log n + CHUNK) for each block that has rows of the key, and for each row that cancels and whose value is
            more extreme than all that are there.
    Law:    tests/operators/test_suffix.py.
    """
    hits = old.located.hits
    count = upto - hits[:, 2]
    few, many = ((count > 0) & (count <= FEW)).nonzero()[0], (count > FEW).nonzero()[0]
    found = [_found(old, upto, many[hits[many, 0] == key], name, greatest) for key in set(hits[many, 0].tolist())]
    if few.size:
        found.append(_all(old, upto, few))
    return np.concatenate(found) if found else hits[:0]


def _all(old: OldRows, upto: Ints, runs: Ints) -> Ints:
    """The rows of some runs before ``upto``, with what cancels them in others."""
    hits, words = old.located.hits[runs], old.located.words_of
    rows = [
        words(block, low, high) for (_, block, low, _), high in zip(hits.tolist(), upto[runs].tolist(), strict=True)
    ]
    number = hits[:, 0].repeat([*map(len, rows)])
    return old.located.with_words(number, np.array([*chain.from_iterable(rows)], np.uint64))


def _found(old: OldRows, upto: Ints, runs: Ints, name: str, greatest: bool) -> Ints:
    """Those of one key, which has these runs."""
    hits, used = old.located.hits, old.located.used
    exact = pa.types.is_primitive(old.layout.schema.field(name).type)  # words are equal only where values are
    queue: list[tuple[int, int, int, int, int, int]] = []  # a value's word, greatest first; run, rank, row, part

    def put(h: int, low: int, high: int) -> None:
        block = used[hits[h, 1]]
        ranks = _ranks(block, name, greatest)
        row = ranks.greatest(low, high)
        if row >= 0:
            if row not in ranks.words:
                value = column_of(block, name, row, row + 1)
                ranks.words[row] = order_words(value, descending=greatest).item()
            heappush(queue, (ranks.words[row], h, -int(ranks.rank[row]), row, low, high))

    for h in runs.tolist():
        put(h, int(hits[h, 2]), int(upto[h]))
    result: list[Ints] = []
    best, done = -1, set[int]()
    while queue:
        word, h, _, row, low, high = heappop(queue)
        if done and (word > best or exact):
            break
        if h in done:
            continue
        key, number = hits[h, :2].tolist()
        updates = old.located.with_words(np.array([key]), used[number].value_hash_at(slice(row, row + 1)))
        if _is_there(old, updates, (key, number, row)):
            result.append(updates)
            done.add(h)
            best = word
        else:
            put(h, low, row)
            put(h, row + 1, high)
    return np.concatenate(result) if result else np.empty((0, 4), np.int64)


def _is_there(old: OldRows, runs: Ints, row: tuple[int, int, int]) -> bool:
    """Whether the updates of a row, line (key, block, row), do not cancel; all of them are in these runs."""
    if len(runs) == 1 and runs[0, 3] - runs[0, 2] == 1:
        return int(old.located.used[row[1]].diffs_at(slice(row[2], row[2] + 1))[0]) > 0
    found = old.read(runs)
    same = np.ones(1, np.bool_)
    if len(found) > 1:
        at = np.repeat(places_in(runs, np.array([row]), 0), len(found))
        same = Gathered.of(found.values).equal(np.arange(len(found)), at)
    return int(found.diffs[same].sum()) > 0


@dataclass(frozen=True)
class _Ranks:
    """Ranks of a column's values in a block, the greater the nearer to the wanted end, 0 of a null.

    Shape:  ``rank`` (n,), ``chunks`` the greatest of every ``CHUNK`` of them, and by row the ``words`` of those values
            that were the greatest of a run.
    """

    rank: npt.NDArray[np.int32]
    chunks: npt.NDArray[np.int32]
    words: dict[int, int] = field(default_factory=dict)

    @classmethod
    def of(cls, column: pa.Array, greatest: bool) -> _Ranks:
        """Of a column."""
        code = codes(column) if greatest else ~codes(column)
        rank = (np.unique(code, return_inverse=True)[1] + 1).astype(np.int32)
        if column.null_count:
            rank[~valid_mask(column)] = 0
        return cls(rank, np.maximum.reduceat(rank, np.arange(0, len(rank), CHUNK)))

    def greatest(self, low: int, high: int) -> int:
        """The row of greatest rank in [low, high), or -1 if all values there are null."""
        first, last = -(-low // CHUNK), high // CHUNK
        parts = [(low, high)]
        if first < last:
            chunk = first + int(self.chunks[first:last].argmax())
            parts = [(low, first * CHUNK), (chunk * CHUNK, (chunk + 1) * CHUNK), (last * CHUNK, high)]
        rows = [start + int(self.rank[start:stop].argmax()) for start, stop in parts if start < stop]
        row = max(rows, key=lambda row: int(self.rank[row]), default=-1)
        return row if row >= 0 and self.rank[row] else -1


def _ranks(block: Block, name: str, greatest: bool) -> _Ranks:
    """Those of a block, which keeps them."""
    kept: dict[tuple[str, bool], _Ranks] = block.__dict__.setdefault("#ranks", {})
    if (name, greatest) not in kept:
        kept[name, greatest] = _Ranks.of(column_of(block, name, 0, len(block)), greatest)
    return kept[name, greatest]
