"""Sums of small groups in a round of a loop, read where they lie: one call of a kernel for all of them.

Where the hash of a key tells the key, the hashes of keys, those of slot numbers and the diffs are all that there is to
know of an arrangement of slots, and they lie in memory whose addresses its blocks know (``small_groups``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import NULL_HASH, Hashes, is_injective, unmixed
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.exact_sum import SCRATCH, bump
from altneu.operators.kernels.groups import ReduceOutput
from altneu.operators.kernels.small_groups import (
    AHEAD_ROUNDS,
    MOST_NEW,
    NEVER,
    lines_of_all,
    looked_at_again,
    run_of,
    told,
    touched_keys,
    word_at,
)
from altneu.operators.reduce.aggregates import DATA, EMPTY, column_of, finals_into
from altneu.order import outside
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates

MOST_ROWS = 512  # updates of a group that is read
_SETS = 4  # with what is new and without, up to the round and before it


def sums_in_round(
    given: Arranged,
    rounds: tuple[int, ...],
    again: Updates,
    schema: pa.Schema,
    slots: Hashes,
    tables: tuple[Ints, Ints],
    shown: int,
) -> ReduceOutput | None:
    """Bring what is made of the sums of each touched group up to date, at a round of one loop.

    None where more is needed than this has: more than one epoch, groups of more than ``MOST_ROWS`` updates, null keys,
    sums that leave their range, counts below zero.

    Shape:  all as for ``reduce_in_round``; rows of ``schema`` out: the key's columns and an aggregate each. ``slots``
            are the hashes of the numbers of slots; ``tables`` the kinds of arguments and how aggregates are read.
    Cost:   O(log n) for each touched group, and its slots once for each of at most ``AHEAD_ROUNDS`` later rounds.
    Law:    what ``reduce_in_round`` makes of the groups otherwise (tests/operators/test_small_sums.py).
    """
    layout = given.layout
    outer, depth = outside(layout.lattice)
    if depth != 1 or outer.width != 1 or not 0 < given.new.count + len(again) <= MOST_NEW:
        return None
    if not is_injective(layout.key_schema) or not is_injective(layout.value_schema):
        return None
    looked_at = looked_at_again(again)
    if looked_at is None:
        return None
    found, changes, asked = _sums(*lines_of_all(given), *looked_at, rounds[0], slots, *tables, shown)
    if not found:
        return None
    lines, valid, (low, high) = changes

    def values() -> list[pa.Array]:
        types = schema.types[len(layout.key) :]
        return [column_of(t, low[a], high[a], valid[a]) for a, t in enumerate(types)]

    return told(given, again, schema, tuple(lines), values, asked, rounds[0])


@compiled()
def _sums(  # noqa: C901, PLR0912, PLR0915  # one loop over groups; what it needs is read once
    table: Ints,
    addresses: Ints,
    old: int,
    again: Hashes,
    epoch: int,
    at: int,
    slots: Hashes,
    kinds: Ints,
    finishing: Ints,
    shown: int,
) -> tuple[bool, Any, Ints]:
    """If it is answered; changes at the round, as ``told`` takes them, with validity and words; and those ahead."""
    hashes, order, epoch = touched_keys(table, addresses, old, again, epoch)
    many, room = len(finishing), _SETS * len(hashes)
    made, asked = np.empty((4, room), np.int64), np.empty((4, len(hashes)), np.int64)
    valid, words = np.empty((many, room), np.bool_), np.empty((2, many, room), np.int64)
    nothing = False, (made[:, :0], valid[:, :0], words[:, :, :0]), asked[:, :0].copy()
    rows = np.empty((4, MOST_ROWS), np.int64)  # slot, round, diff, whether it is of this epoch
    sums, magnitude = np.zeros(len(slots), np.int64), np.zeros(SCRATCH, np.int64)
    states, signs = np.zeros(_SETS, np.int64), np.zeros(_SETS, np.int64)
    some, finals = np.zeros((_SETS, many), np.bool_), np.zeros((2, _SETS, many), np.int64)
    made_count, asked_count, first = 0, 0, 0
    while first < len(order):
        key = hashes[order[first]]
        if key == NULL_HASH:
            return nothing
        count = 0
        for block in range(len(table)):
            start, stop = run_of(table, block, key)
            for row in range(start, stop):
                then = word_at(addresses, block, 2, row)
                if count == MOST_ROWS or then > epoch or (block >= old and then != epoch):
                    return nothing
                word, slot = np.uint64(word_at(addresses, block, 0, row)), 0
                while slot < len(slots) and slots[slot] != word:
                    slot += 1
                if slot == len(slots):
                    return nothing
                rows[0, count], rows[1, count] = slot, word_at(addresses, block, 3, row)
                rows[2, count], rows[3, count] = word_at(addresses, block, 1, row), then == epoch
                count += 1
        later, place = NEVER, at
        for ahead in range(AHEAD_ROUNDS + 2):
            if ahead:
                following = NEVER
                for i in range(count):
                    if rows[1, i] > place:
                        following = min(following, rows[1, i])
                if following == NEVER:
                    break
                place = following
                if ahead > AHEAD_ROUNDS:
                    later = place
                    break
            for which in range(_SETS):
                overflow = False
                for i in range(count):
                    if (which % 2 == 0 or rows[3, i] == 0) and rows[1, i] <= place - which // 2:
                        overflow |= bump(sums, rows[0, i], rows[2, i])
                finals_into(finishing, kinds, sums, shown, states, some, finals, which, magnitude)
                for i in range(count):
                    sums[rows[0, i]] = 0
                if overflow or (states[which] != EMPTY and states[which] != DATA):
                    return nothing
            changed = _signs(states, some, finals, signs)
            if changed and ahead:
                later = place
                break
            for which in range(_SETS if changed else 0):
                if signs[which] != 0:
                    made[0, made_count], made[1, made_count] = order[first], np.int64(unmixed(key))
                    made[2, made_count], made[3, made_count] = signs[which], epoch
                    for a in range(many):
                        valid[a, made_count] = some[which, a]
                        words[0, a, made_count], words[1, a, made_count] = finals[0, which, a], finals[1, which, a]
                    made_count += 1
        if later != NEVER:
            asked[0, asked_count], asked[1, asked_count] = order[first], np.int64(unmixed(key))
            asked[2, asked_count], asked[3, asked_count] = epoch, later
            asked_count += 1
        while first < len(order) and hashes[order[first]] == key:
            first += 1
    changes = made[:, :made_count], valid[:, :made_count], words[:, :, :made_count]
    return True, changes, asked[:, :asked_count].copy()


@compiled()
def _signs(states: Ints, valid: Any, words: Ints, signs: Ints) -> bool:
    """How often each of the sets' rows counts in the change of the output, equal ones together; whether any does.

    It is what all up to the round come to, less that of those before this epoch, less the same of lesser rounds.
    """
    changed = False
    for which in range(_SETS):
        signs[which] = 0
        if states[which] != DATA:
            continue
        to = 0
        while not _are_equal(states, valid, words, to, which):
            to += 1
        signs[to] += 1 if which in (0, _SETS - 1) else -1
    for which in range(_SETS):
        changed |= signs[which] != 0
    return changed


@compiled()
def _are_equal(states: Ints, valid: Any, words: Ints, one: int, other: int) -> bool:
    """Whether two sets have rows that are equal."""
    if states[one] != DATA or states[other] != DATA:
        return False
    for a in range(valid.shape[1]):
        if valid[one, a] != valid[other, a]:
            return False
        if valid[one, a] and (words[0, one, a] != words[0, other, a] or words[1, one, a] != words[1, other, a]):
            return False
    return True
