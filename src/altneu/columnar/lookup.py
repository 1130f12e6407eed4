"""Find hashes in many sorted blocks at once: one kernel call whatever the number of blocks.

A block is described by a line of its ``table``: the address of its key hashes, their number, the first and the last
hash. Most blocks cannot hold a probe and are passed over by the two latter, without touching their memory; nor is that
of a block touched whose hashes are all one. Words of values are described by a line as ``Block.addresses`` has it.
"""

from __future__ import annotations

import numpy as np

from altneu.columnar.columns import load8, load16, load32, load64, load_narrow
from altneu.columnar.hashing import Hashes
from altneu.columnar.rows import Ints
from altneu.columnar.threads import in_parts
from altneu.compiled import compiled

LAST_WORD = np.uint64(2**64 - 1)
ONE = np.uint64(1)
_FEW_HASHES = 64  # of which it makes no difference where they are looked for


@compiled(inline="always")
def first_at(address: int, low: int, high: int, target: np.uint64) -> int:
    """The first position in [low, high) whose word is at or above ``target``; ``high`` when none is."""
    while low < high:
        middle = (low + high) >> 1
        if load64(address + 8 * middle) < target:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def hash_from(address: int, size: int, first: np.uint64, last: np.uint64, target: np.uint64) -> int:
    """``first_at`` of ``size`` hashes from ``first`` to a greater ``last``, between which ``target`` is.

    Hashes lie evenly, so it is looked for where it would be then, and from there on in steps that double. So the
    memory that is read lies together, where a bisection would read all over the block.
    """
    if size < _FEW_HASHES:
        return first_at(address, 0, size, target)
    near = min(int(np.float64(target - first) / np.float64(last - first) * (size - 1)), size - 1)
    step, low, high = int(np.sqrt(np.float64(size))) >> 1, 0, size
    if load64(address + 8 * near) < target:
        low = near + 1
        while low + step < size:
            if load64(address + 8 * (low + step)) >= target:
                high = low + step
                break
            low += step + 1
            step += step
    else:
        high = near
        while high - step >= 0:
            if load64(address + 8 * (high - step)) < target:
                low = high - step + 1
                break
            high -= step
            step += step
    return first_at(address, low, high, target)


@compiled(inline="always")
def word_of(lines: Ints, block: int, position: int) -> np.uint64:
    """The word at a position of a block's words, which may be narrow: ``lines`` are (address, width, least)."""
    return np.uint64(load_narrow(lines[block, 0], lines[block, 1], lines[block, 2], position))


@compiled()
def first_word(lines: Ints, block: int, low: int, high: int, target: np.uint64) -> int:
    """``first_at`` of a block's words, which may be narrow.

    Most runs lie on one side of what is sought: of these the first and the last word are read, and no other.
    """
    if low >= high or word_of(lines, block, high - 1) < target:
        return high
    if word_of(lines, block, low) >= target:
        return low
    address, width, least = lines[block, 0], lines[block, 1], np.uint64(lines[block, 2])
    if width == 8:
        return first_at(address, low, high, target)
    code = target - least  # a sum of the least word and a code does not leave 64 bits
    while low < high:
        middle = (low + high) >> 1
        found = np.uint64(0)
        if width == 4:
            found = np.uint64(load32(address + 4 * middle))
        elif width == 2:
            found = np.uint64(load16(address + 2 * middle))
        else:
            found = np.uint64(load8(address + middle))
        if found < code:
            low = middle + 1
        else:
            high = middle
    return low


@compiled()
def word_stretch(lines: Ints, block: int, start: int, stop: int, low: np.uint64, high: np.uint64) -> tuple[int, int]:
    """Where in a run of a block words begin that are not below ``low``, and those end that are not above ``high``."""
    begin = first_word(lines, block, start, stop, low)
    return begin, stop if high == LAST_WORD else first_word(lines, block, begin, stop, high + ONE)


@compiled(inline="always")
def gallop(address: int, low: int, size: int, target: np.uint64) -> int:
    """The same from ``low`` on, in time logarithmic in the distance."""
    step = 1
    high = low
    while high < size and load64(address + 8 * high) < target:
        low = high + 1
        high += step
        step += step
    return first_at(address, low, min(high, size), target)


@compiled(nogil=True)
def locate(table: Ints, probes: Hashes) -> Ints:
    """Runs of equal key hash that probes hit, as lines (probe, block, start, stop), by block, then by probe.

    Shape:  ``table`` (blocks, 4); ``probes`` ascending, repeats allowed; (hits, 4) out.
    Cost:   O(blocks log probes + probes log(block / probes)) memory touches.
    """
    hits = np.empty((len(probes) + 8, 4), np.int64)
    count = 0
    for block in range(len(table)):
        address, size = table[block, 0], table[block, 1]
        first, last = np.uint64(table[block, 2]), np.uint64(table[block, 3])
        probe, above = 0, len(probes)
        while probe < above:
            middle = (probe + above) >> 1
            if probes[middle] < first:
                probe = middle + 1
            else:
                above = middle
        few = (len(probes) - probe) * 16 < size
        at = 0
        while probe < len(probes) and probes[probe] <= last:
            target = probes[probe]
            found, stop = True, size
            if first == last:  # all have this hash
                at = 0
            else:
                at = first_at(address, at, size, target) if few else gallop(address, at, size, target)
                found = load64(address + 8 * at) == target  # in range: wanted is at most the last hash
                if found and target != last:
                    stop = gallop(address, at + 1, size, target + ONE)
            if found:
                if count == len(hits):
                    more = np.empty((2 * count, 4), np.int64)
                    more[:count] = hits
                    hits = more
                hits[count, 0], hits[count, 1], hits[count, 2], hits[count, 3] = probe, block, at, stop
                count += 1
            probe += 1
    return hits[:count]


def locate_all(table: Ints, probes: Hashes) -> Ints:
    """What ``locate`` finds, in parts of the probes: by part, then by block, then by probe."""
    hits_by_start: dict[int, Ints] = {}

    def part(start: int, stop: int) -> None:
        hits_by_start[start] = hits = locate(table, probes[start:stop])
        hits[:, 0] += start

    in_parts(len(probes), part)
    return (
        hits_by_start[0]
        if len(hits_by_start) == 1
        else np.concatenate([hits_by_start[start] for start in sorted(hits_by_start)])
    )


@compiled()
def by_probe(hits: Ints, original: Ints) -> Ints:
    """Hits with probes renumbered by ``original`` (empty: not at all), sorted by probe, blocks kept in order."""
    count = 0
    for h in range(len(hits)):
        if len(original):
            hits[h, 0] = original[hits[h, 0]]
        count = max(count, hits[h, 0] + 1)
    sorted_already = True
    for h in range(1, len(hits)):
        if hits[h, 0] < hits[h - 1, 0]:
            sorted_already = False
            break
    if sorted_already:
        return hits
    at = np.zeros(count + 1, np.int64)
    for h in range(len(hits)):
        at[hits[h, 0] + 1] += 1
    for p in range(count):
        at[p + 1] += at[p]
    out = np.empty_like(hits)
    for h in range(len(hits)):
        to = at[hits[h, 0]]
        at[hits[h, 0]] += 1
        out[to] = hits[h]
    return out


@compiled()
def rows_of_hits(hits: Ints) -> Ints:
    """Every row of every run as a run of its own."""
    total = 0
    for h in range(len(hits)):
        total += hits[h, 3] - hits[h, 2]
    out = np.empty((total, 4), np.int64)
    to = 0
    for h in range(len(hits)):
        for at in range(hits[h, 2], hits[h, 3]):
            out[to, 0], out[to, 1], out[to, 2], out[to, 3] = hits[h, 0], hits[h, 1], at, at + 1
            to += 1
    return out


@compiled()
def expand(hits: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Per matching row: its probe, and its number in the stack of blocks that begin at ``starts``."""
    total = 0
    for h in range(len(hits)):
        total += hits[h, 3] - hits[h, 2]
    probe, row = np.empty(total, np.int64), np.empty(total, np.int64)
    to = 0
    for h in range(len(hits)):
        base = starts[hits[h, 1]]
        for at in range(hits[h, 2], hits[h, 3]):
            probe[to], row[to] = hits[h, 0], base + at
            to += 1
    return probe, row


@compiled()
def gather_runs(hits: Ints, starts: Ints, addresses: Ints) -> tuple[Ints, Ints, Ints]:
    """What ``expand`` gives, and the control columns of these rows as ``gather_words``."""
    probe, row = expand(hits, starts)
    return probe, row, gather_words(addresses, starts, row)


@compiled()
def rows_in(hits: Ints, block: int, probes: int) -> tuple[Ints, Ints]:
    """Of hits by probe, those in one block: how many rows each probe has there, and which they are."""
    counts, total = np.zeros(probes, np.int64), 0
    for h in range(len(hits)):
        if hits[h, 1] == block:
            counts[hits[h, 0]] += hits[h, 3] - hits[h, 2]
            total += hits[h, 3] - hits[h, 2]
    rows, to = np.empty(total, np.int64), 0
    for h in range(len(hits)):
        if hits[h, 1] == block:
            for at in range(hits[h, 2], hits[h, 3]):
                rows[to] = at
                to += 1
    return counts, rows


@compiled()
def renumber(hits: Ints, blocks: int) -> Ints:
    """Number the blocks that are hit 0, 1, ... in the hits, in place; return which blocks these are."""
    number = np.full(blocks, -1, np.int64)
    for h in range(len(hits)):
        number[hits[h, 1]] = 0
    used = 0
    for b in range(blocks):
        if number[b] == 0:
            number[b] = used
            used += 1
    which = np.empty(used, np.int64)
    for b in range(blocks):
        if number[b] >= 0:
            which[number[b]] = b
    for h in range(len(hits)):
        hits[h, 1] = number[hits[h, 1]]
    return which


@compiled()
def find_few(table: Ints, probes: Hashes, null: np.uint64) -> tuple[Ints, Ints, bool]:
    """What ``locate`` finds for probes in any order, by probe; which blocks are meant; whether a probe is ``null``."""
    ascending, has_null = True, False
    for i in range(len(probes)):
        ascending &= i == 0 or probes[i] >= probes[i - 1]
        has_null |= probes[i] == null
    original, in_order = np.empty(0, np.int64), probes.copy()
    if not ascending:
        original = np.argsort(in_order, kind="mergesort")
        in_order = in_order[original]
    hits = locate(table, in_order)
    which = renumber(hits, len(table))
    return by_probe(hits, original), which, has_null


@compiled()
def gather_words(addresses: Ints, starts: Ints, rows: Ints) -> Ints:
    """Control columns at ``rows`` of stacked blocks, as words.

    Shape:  ``addresses`` (blocks, columns, 3), as ``Block.addresses``; (columns, n) out.
    """
    out = np.empty((addresses.shape[1], len(rows)), np.int64)
    block = 0
    for k in range(len(rows)):
        row = rows[k]
        if row < starts[block] or row >= starts[block + 1]:
            low, high = 0, len(starts) - 1
            while high - low > 1:
                middle = (low + high) >> 1
                if starts[middle] <= row:
                    low = middle
                else:
                    high = middle
            block = low
        for c in range(addresses.shape[1]):
            address, width, least = addresses[block, c, 0], addresses[block, c, 1], addresses[block, c, 2]
            out[c, k] = load_narrow(address, width, least, row - starts[block])
    return out
