"""What relations offer to prefixes: runs of rows in their blocks, counted, listed and validated without being built."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from altneu.columnar.columns import Stack, load64
from altneu.columnar.hashing import NULL_HASH, Hashes, hash_rows, is_injective
from altneu.columnar.lookup import first_at, gather_words
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.delta_join.paths import Part
from altneu.operators.join.pairs import Search
from altneu.order import Lattice
from altneu.trace.batch import Arranged, Batch, Block, Probed, probe
from altneu.trace.update import Updates

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Offer:
    """A relation's part in an extension, over the inputs of an operation.

    ``at`` is the input that offers by the part's key; its value columns are called ``values``, which are what the
    extension adds and what is the relation's own. ``validates`` is the input that validates, by the part's other key,
    what another relation proposed, when it has something of its own; else it is ``at``. With ``fresh``, what is new in
    this step counts.
    """

    part: Part
    at: int
    values: tuple[str, ...]
    fresh: bool
    validates: int = -1

    @property
    def alone(self) -> Offer:
        """The lookup of a relation's own variables when all others are bound."""
        own = Part(self.part.relation, self.part.validate_key, self.part.own)
        return Offer(own, self.validates, own.own, self.fresh)


def seen(arranged: Arranged, fresh: bool) -> tuple[Batch, ...]:
    """The batches that count for a lookup."""
    return arranged.all if fresh else tuple(arranged.old)


@dataclass(frozen=True)
class Offered:
    """What a relation has for each prefix: runs of rows in its blocks.

    Shape:  ``starts`` of each prefix's hits, one more at the end; ``counts`` of rows.
    """

    offer: Offer
    found: Probed
    starts: Ints
    counts: Ints

    @classmethod
    def of(cls, prefixes: Updates, offer: Offer, inputs: Sequence[Arranged]) -> Offered:
        """Look all prefixes up; one with a null in its key finds nothing."""
        keys = prefixes.rows.select(offer.part.key)
        result = probe(seen(inputs[offer.at], offer.fresh), hash_rows(keys), keys)
        if any(c.null_count for c in keys.columns):
            result = Probed(result.hits[without_null(keys)[result.hits[:, 0]]], result.blocks)
        return cls(offer, result, *counted_hits(result.hits, len(prefixes)))

    @cached_property
    def stack(self) -> Stack:
        """The values of all blocks."""
        blocks = self.found.blocks
        return Stack([b.values for b in blocks], blocks[0].layout.value_schema)

    @property
    def lattice(self) -> Lattice:
        """The times of its updates."""
        return self.found.blocks[0].layout.lattice

    @cached_property
    def addresses(self) -> Ints:
        """Where the control columns of the blocks are."""
        return np.array([b.addresses for b in self.found.blocks])

    @property
    def value_hashes(self) -> Ints:
        """Where the value hashes of the blocks are."""
        return np.ascontiguousarray(self.addresses[:, 0, 0])

    def controls(self, rows: Ints) -> tuple[Ints, Ints]:
        """Diffs and times of rows of the stack."""
        words = gather_words(self.addresses[:, 1:], self.stack.starts, rows)
        return words[0], words[1:]

    def hashes(self, rows: Ints, adds: tuple[str, ...]) -> Ints:
        """The hashes of what rows of the stack add."""
        if not self.offer.part.own:
            return gather_words(self.addresses[:, :1], self.stack.starts, rows)[0]
        return hash_rows(self.added(self.stack.take(rows), adds)).view(np.int64)

    def added(self, values: Rows, adds: tuple[str, ...]) -> Rows:
        """The columns of values that others validate."""
        names = values.schema.names
        return values.select([names[self.offer.values.index(v)] for v in adds])

    def verified(
        self, at: Ints, hashes: Ints, validated: Sequence[tuple[Offered, Ints]], adds: tuple[str, ...]
    ) -> Ints | None:
        """Which candidates really are what others have, hashes aside; None when all are."""
        result: Ints | None = None
        values = self.added(self.stack.take(at), adds)
        for other, rows in validated:
            some = equal_values(values, other, rows, hashes)
            if some is not None:
                result = some if result is None else np.intersect1d(result, some)
        return result


def without_null(rows: Rows) -> Mask:
    """The rows without a null: a null is equal to nothing."""
    mask = np.ones(rows.count, np.bool_)
    for column in rows.columns:
        if column.null_count:
            mask &= np.asarray(column.is_valid())
    return mask


def by_key_and_value(offer: Offer, adds: tuple[str, ...]) -> Search:
    """Where the probes are key and value: rows of the key whose value is equal too."""

    def search(batches: Sequence[Batch], _: Hashes, probes: Rows) -> Iterator[tuple[Block, Ints, Ints]]:
        keys, values = probes.select(offer.part.key), probes.select(adds)
        result = probe(batches, hash_rows(keys), keys)
        if not len(result.hits):
            return
        offered = Offered(offer, result, *counted_hits(result.hits, probes.count))
        hashes = hash_rows(values).view(np.int64)
        all_probes = np.arange(probes.count)
        stack = offered.stack
        which, rows = validated_in(all_probes, hashes, result.hits, offered.starts, offered.value_hashes, stack.starts)
        real = equal_values(values.take(which), offered, rows, hashes[which])
        if real is not None:
            which, rows = which[real], rows[real]
        blocks = np.searchsorted(stack.starts, rows, side="right") - 1
        for number, block in enumerate(result.blocks):
            here = np.flatnonzero(blocks == number)
            if len(here):
                counts = np.bincount(which[here], minlength=probes.count)
                yield block, counts, rows[here] - stack.starts[number]

    return search


def equal_values(values: Rows, other: Offered, rows: Ints, hashes: Ints) -> Ints | None:
    """Which of some values really are those of a relation's rows, and not null; None when all are."""
    schema = other.stack.schema
    has_null = any(c.null_count for c in values.columns)
    if is_injective(schema) and not has_null and not (hashes.view(np.uint64) == NULL_HASH).any():
        return None
    stack = Stack([*other.stack.parts, Rows(schema, values.columns, values.count)], schema)
    mask = stack.equal(rows, stack.starts[-2] + np.arange(len(rows)))
    if has_null:
        mask &= without_null(values)
    return None if mask.all() else np.flatnonzero(mask)


@compiled()
def counted_hits(hits: Ints, probes: int) -> tuple[Ints, Ints]:
    """Where each probe's hits start, and how many rows they have together."""
    starts, counts = np.zeros(probes + 1, np.int64), np.zeros(probes, np.int64)
    for h in range(len(hits)):
        starts[hits[h, 0] + 1] += 1
        counts[hits[h, 0]] += hits[h, 3] - hits[h, 2]
    for p in range(probes):
        starts[p + 1] += starts[p]
    return starts, counts


@compiled()
def expanded(hits: Ints, starts: Ints, chosen: Ints, bases: Ints) -> tuple[Ints, Ints]:
    """Every row of the hits of the chosen probes: the probe, and the number in the stack."""
    total = 0
    for p in chosen:
        for h in range(starts[p], starts[p + 1]):
            total += hits[h, 3] - hits[h, 2]
    at, rows = np.empty(total, np.int64), np.empty(total, np.int64)
    to = 0
    for p in chosen:
        for h in range(starts[p], starts[p + 1]):
            base = bases[hits[h, 1]]
            for row in range(hits[h, 2], hits[h, 3]):
                at[to], rows[to] = p, base + row
                to += 1
    return at, rows


@compiled()
def repeated(at: Ints, hashes: Ints, diffs: Ints) -> Any:
    """Which candidates a prefix has several times; looked for where one was taken away or two alike lie together."""
    often = np.zeros(len(at), np.bool_)
    first = 0
    while first < len(at):
        last, suspect = first + 1, diffs[first] < 0
        while last < len(at) and at[last] == at[first]:
            suspect |= diffs[last] < 0 or hashes[last] == hashes[last - 1]
            last += 1
        if suspect:
            order = first + np.argsort(hashes[first:last])
            for i in range(1, len(order)):
                if hashes[order[i]] == hashes[order[i - 1]]:
                    often[order[i]] = often[order[i - 1]] = True
        first = last
    return often


@compiled()
def validated_in(at: Ints, hashes: Ints, hits: Ints, starts: Ints, addresses: Ints, bases: Ints) -> tuple[Ints, Ints]:
    """For candidates of probes, rows of another relation's hits with equal value hash: candidate, number in the stack.

    The rows of a hit are in the order of their value hashes.
    """
    index, rows = np.empty(len(at) + 8, np.int64), np.empty(len(at) + 8, np.int64)
    to = 0
    for i in range(len(at)):
        wanted = np.uint64(hashes[i])
        for h in range(starts[at[i]], starts[at[i] + 1]):
            address, stop = addresses[hits[h, 1]], hits[h, 3]
            low = first_at(address, hits[h, 2], stop, wanted)
            while low < stop and load64(address + 8 * low) == wanted:
                if to == len(index):
                    index, rows = _longer(index), _longer(rows)
                index[to], rows[to] = i, bases[hits[h, 1]] + low
                to += 1
                low += 1
    return index[:to], rows[:to]


@compiled()
def _longer(words: Ints) -> Ints:
    more = np.empty(2 * len(words), np.int64)
    more[: len(words)] = words
    return more
