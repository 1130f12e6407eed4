"""A few updates met with those of equal key in the memory of the blocks: pairs, times and diffs from one kernel."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from altneu.columnar.columns import Stack
from altneu.columnar.hashing import NULL_HASH, SETTING
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.join.matched import Found, Pairs, Side
from altneu.operators.kernels.small_groups import key_hash_at, lines_of, run_of, word_at
from altneu.order import AltNeu, Lattice, Product, Rounds
from altneu.trace.batch import Batch, Block

FEW_PAIRS = 16  # of a key, that are made rather than looked at for what cancels
MOST_NEW = 4096  # updates that are met so
MOST_PAIRS = 1 << 15
MOST_BLOCKS = 3  # with pairs: rows of more are brought together first, as each takes calls of its own
_LARGEST_DIFF = 1 << 31  # the product of two fits
_NO_ENDS, _NO_DIFFS = np.empty((0, 2), np.int64), np.empty(0, np.int64)


def few_pairs(block: Block, batches: Sequence[Batch], lattice: Lattice, *, flipped: bool) -> list[Pairs] | None:
    """The pairs of the updates of a block with those of equal key in batches; ``flipped``: it is the right one.

    None where that is to be found out otherwise: keys that their hashes do not tell or that are null, many pairs, or
    values that repeat, of which some pairs need not be made.

    Cost:   O(log n) for each update and block, and the pairs.
    Law:    the pairs that ``Matcher`` makes otherwise (tests/operators/test_few_pairs.py).
    """
    if (met := met_with(block, batches, lattice)) is None:
        return None
    used, ends, at, times, diffs = met
    bounds = [0, *ends[:, 1].tolist()]
    others: Sequence[Side] = used
    if len(used) > MOST_BLOCKS:
        others, bounds = [_together(block, used, bounds, at)], [0, diffs.size]
        at = np.stack([at[0], np.arange(diffs.size)])
    results = []
    for other, start, end in zip(others, bounds[:-1], bounds[1:], strict=True):
        mine, theirs = at[0, start:end], at[1, start:end]
        blocks, rows = ((other, block), (theirs, mine)) if flipped else ((block, other), (mine, theirs))
        results.append(Pairs(blocks, rows, times[:, start:end], diffs[start:end]))
    return results


def met_with(
    block: Block, batches: Sequence[Batch], lattice: Lattice
) -> tuple[list[Block], Ints, Ints, Ints, Ints] | None:
    """The same as blocks that have rows of equal key, and for all pairs their rows, times and diffs.

    Shape:  lines (number, where the pairs of the block end), of each block; (2, n) the rows in ``block`` and there;
            (width, n) and (n,).
    """
    if block.diffs.size > MOST_NEW or not block.layout.has_told_keys or SETTING.mask is not None:
        return None
    some = [batch for batch in batches if batch.blocks]
    if not some:
        return [], _NO_ENDS, _NO_ENDS.T, np.empty((lattice.width, 0), np.int64), _NO_DIFFS
    mine, theirs = block.layout.lattice, some[0].layout.lattice
    same = mine is lattice is theirs
    if not lattice.is_columnwise or not (same or (is_padded(mine, lattice) and is_padded(theirs, lattice))):
        return None
    table, addresses = lines_of(some)
    found, ends, at, times, diffs = _met(
        block.table, block.addresses[None], table, addresses, lattice.width, lattice.is_total
    )
    return ([_block(some, number) for number in ends[:, 0].tolist()], ends, at, times, diffs) if found else None


def _together(block: Block, used: Sequence[Block], bounds: Sequence[int], at: Ints) -> Found:
    """The rows of several blocks that pairs have; those of each block end at the next of ``bounds``."""
    layout, stack = used[0].layout, Stack([b.values for b in used], used[0].layout.value_schema)
    rows = at[1] + np.repeat(stack.starts[:-1], np.diff(bounds))
    return Found(Rows(layout.key_schema, block.keys.take(at[0]).columns, rows.size), stack.take(rows))


def _block(batches: Sequence[Batch], number: int) -> Block:
    """The block of a number, all blocks of batches numbered through."""
    for batch in batches:
        blocks = batch.blocks
        if number == 0 or blocks[number:]:
            return blocks[number]
        number -= len(blocks)
    raise IndexError(number)


@lru_cache(maxsize=64)
def is_padded(below: Lattice, above: Lattice) -> bool:
    """Whether times of a scope, as they are in a scope further in, only have zeros behind them (``lifted``)."""
    if below is above or below == above:
        return True
    if isinstance(above, AltNeu):
        return False
    if isinstance(above, Rounds):
        return (isinstance(below, Rounds) and below.outer == above.outer) or is_padded(below, above.outer)
    return isinstance(above, Product) and is_padded(below, above.factors[0])


@compiled()
def _met(
    mine: Ints, mine_at: Ints, theirs: Ints, theirs_at: Ints, width: int, is_total: bool
) -> tuple[bool, Ints, Ints, Ints, Ints]:
    """If they are few; lines (block, where its pairs end), of each pair the rows in both blocks, times and diffs."""
    found, hits, total = _hits(mine, mine_at, theirs, theirs_at, is_total)
    ends, used, count = np.empty((len(hits), 2), np.int64), 0, 0
    at, times, diffs = np.empty((2, total), np.int64), np.empty((width, total), np.int64), np.empty(total, np.int64)
    for h in range(len(hits)):
        block, first, last, start, stop = hits[h]
        if used and ends[used - 1, 0] == block:
            used -= 1
        for i in range(first, last):
            for j in range(start, stop):
                diff, other = word_at(mine_at, 0, 1, i), word_at(theirs_at, block, 1, j)
                found &= -_LARGEST_DIFF < diff < _LARGEST_DIFF and -_LARGEST_DIFF < other < _LARGEST_DIFF
                at[0, count], at[1, count], diffs[count] = i, j, diff * other
                for line in range(width):
                    times[line, count] = max(_time(mine_at, 0, line, i), _time(theirs_at, block, line, j))
                count += 1
        ends[used, 0], ends[used, 1] = block, count
        used += 1
    return found, ends[:used], at, times, diffs


@compiled()
def _hits(mine: Ints, mine_at: Ints, theirs: Ints, theirs_at: Ints, is_total: bool) -> tuple[bool, Ints, int]:
    """Runs of equal key, lines (block, my rows from and up to, theirs from and up to), by block; how many pairs."""
    hits, count, total = np.empty((16, 5), np.int64), 0, 0
    for block in range(len(theirs)):
        first, last = 0, 0
        while first < mine[0, 1]:
            key = key_hash_at(mine, 0, first)
            while last < mine[0, 1] and key_hash_at(mine, 0, last) == key:
                last += 1
            start, stop = run_of(theirs, block, key)
            many = (last - first) * (stop - start)
            total += many
            looked_at = many > 1 and (is_total or many > FEW_PAIRS)
            if (
                key == NULL_HASH
                or total > MOST_PAIRS
                or (looked_at and (_repeats(mine_at, 0, first, last) or _repeats(theirs_at, block, start, stop)))
            ):
                return False, hits[:0], 0
            if many:
                if count == len(hits):
                    more = np.empty((2 * count, 5), np.int64)
                    more[:count] = hits
                    hits = more
                hits[count, 0], hits[count, 1], hits[count, 2] = block, first, last
                hits[count, 3], hits[count, 4] = start, stop
                count += 1
            first = last
    return True, hits[:count], total


@compiled(inline="always")
def _time(addresses: Ints, block: int, line: int, row: int) -> int:
    """A coordinate of a row's time, 0 where its scope has none."""
    return word_at(addresses, block, 2 + line, row) if line + 2 < addresses.shape[1] else 0


@compiled()
def _repeats(addresses: Ints, block: int, start: int, stop: int) -> bool:
    """Whether a value may come twice in a run of a key."""
    for row in range(start + 1, stop):
        if word_at(addresses, block, 0, row) == word_at(addresses, block, 0, row - 1):
            return True
    return False
