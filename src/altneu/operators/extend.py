"""Delta joins: prefixes extended by lookups in arrangements, several relations at once where several bind a variable.

In one step the update of relation k meets ``old + new`` of every relation before k and ``old`` of every one after it:
each combination of one update per relation is made exactly once, by the last of its members that arrive, at the join of
their times. No time is compared, so this is right for every lattice, in loops, for self-joins, for any partition of the
updates into steps and chunks, and under any compaction up to ``lower``.

An extension counts the candidates that every relation offers a prefix, takes those of the relation that has the fewest,
and keeps those that the others confirm: count, propose, validate. All three are searches in arrangements. Prefixes go
through a path in chunks, depth first, so that only what a chunk may grow to is ever there at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu import difference
from altneu.batch import Arranged, Batch, Block, Description, Layout, Probed, probe
from altneu.columns import Stack, load64
from altneu.errors import ERROR_SCHEMA
from altneu.hashing import NULL_HASH, Hashes, hash_rows, is_injective
from altneu.linear import BoundLogic
from altneu.lookup import gather_words
from altneu.operators.compiled import compiled
from altneu.operators.join import JoinSpec, Matcher, Search, TooManyMatches, by_key
from altneu.operators.linear import run_logic
from altneu.order import Antichain, Lattice
from altneu.rows import Ints, Rows
from altneu.update import Updates, consolidate, entered

Mask = npt.NDArray[np.bool_]

CHUNK = 1 << 17  # candidates known at a time
LEAST, BY = "#least", "#by"  # columns of prefixes that are being counted
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class Offer:
    """A relation's part in an extension, as ``paths.Part`` has it, over the inputs of an operation.

    ``at`` is the input that offers by ``key``; its value columns are called ``values``, which are what the extension
    adds and what is the relation's ``own``. ``confirms`` is the input that confirms, by ``confirm_key``, what another
    relation proposed, when it has something of its own; else it is ``at``. With ``fresh``, what is new in this step
    counts.
    """

    at: int
    key: tuple[str, ...]
    values: tuple[str, ...]
    own: tuple[str, ...]
    fresh: bool
    confirms: int = -1
    confirm_key: tuple[str, ...] = ()

    @property
    def alone(self) -> Offer:
        """The lookup of a relation's own variables when all others are bound."""
        return Offer(self.confirms, self.confirm_key, self.own, self.own, self.fresh)


@dataclass(frozen=True)
class ExtensionSpec:
    """An extension: prefixes of ``before`` become rows of ``after``, its columns named by variables, in that order."""

    before: pa.Schema
    after: pa.Schema
    adds: tuple[str, ...]
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class PathSpec:
    """The way of a relation's new updates: those of input ``at``, named by variables, through extensions."""

    at: int
    start: pa.Schema
    extensions: tuple[ExtensionSpec, ...]


@dataclass(frozen=True)
class DeltaSpec:
    """All paths of a join; ``outputs`` are (name, variable) of ``schema``."""

    schema: pa.Schema
    outputs: tuple[tuple[str, str], ...]
    paths: tuple[PathSpec, ...]
    lattice: Lattice


def delta_join(
    inputs: Sequence[Arranged], spec: DeltaSpec, logic: BoundLogic | None = None, budget: int | None = None
) -> tuple[Updates, Updates]:
    """Join what is new of every relation with the others; return what logic makes of the results, and its errors.

    Shape:  columns as ``spec.outputs`` says, then as the logic says; times are joins, diffs products.
    Cost:   O(c log n) for the c candidates that the least of the relations offer; memory follows the results. No state
            beside the arrangements.
    Law:    at every time the output accumulates to the join of what the inputs accumulate to
            (tests/oracle/test_delta_joins.py).
    Source: McSherry, differential dataflow's dogsdogsdogs; Ngo et al. 2012; Ammar et al. 2018.

    Raises:
        DiffOverflowError: a product of diffs leaves int64.
        TooManyMatches: more than ``budget`` candidates, when a budget is given.
    """
    oks, errors = [], []
    meter = Meter(budget)
    for path in spec.paths:
        for found in _along(path, inputs, spec.lattice, meter):
            made = Updates(named(found.rows, spec.outputs, spec.schema), found.times, found.diffs)
            if logic:
                made, failed = run_logic(logic, made)
                errors.append(failed)
            oks.append(made)
    width = spec.lattice.width
    schema = spec.schema if logic is None else logic.output(spec.schema)
    return Updates.concat(oks, schema, width), Updates.concat(errors, ERROR_SCHEMA, width)


@dataclass
class Meter:
    """Counts candidates against a budget."""

    budget: int | None
    count: int = 0

    def allow(self, count: int) -> None:
        """Note that so many more are about to be made.

        Raises:
            TooManyMatches: the budget is spent.
        """
        self.count += count
        if self.budget is not None and self.count > self.budget:
            raise TooManyMatches(f"{self.count} candidates")


def named(rows: Rows, outputs: Sequence[tuple[str, str]], schema: pa.Schema) -> Rows:
    """Rows of ``schema`` from columns that are called otherwise."""
    return Rows(schema, tuple([rows.column(variable) for _, variable in outputs]), rows.count)


def news(arranged: Arranged, schema: pa.Schema, width: int) -> Updates:
    """What is new of a relation, its columns called by their variables, at times of ``width`` coordinates."""
    updates = arranged.new.updates()
    times = entered(updates.times, width - len(updates.times))
    return Updates(Rows(schema, updates.rows.columns, len(updates)), times, updates.diffs)


def _along(path: PathSpec, inputs: Sequence[Arranged], lattice: Lattice, meter: Meter) -> Iterator[Updates]:
    for extension in path.extensions:
        if not all(any(map(len, seen(inputs[offer.at], offer.fresh))) for offer in extension.offers):
            return  # a relation with nothing in it
    start = inputs[path.at].new
    if not len(start):
        return
    yield from _deeper(news(inputs[path.at], path.start, lattice.width), path.extensions, inputs, lattice, meter)


def _deeper(
    prefixes: Updates, rest: Sequence[ExtensionSpec], inputs: Sequence[Arranged], lattice: Lattice, meter: Meter
) -> Iterator[Updates]:
    if not rest:
        yield prefixes
        return
    for longer in extend(prefixes, rest[0], inputs, lattice, meter):
        yield from _deeper(longer, rest[1:], inputs, lattice, meter)


def seen(arranged: Arranged, fresh: bool) -> tuple[Batch, ...]:
    """The batches that count for a lookup."""
    return arranged.all if fresh else tuple(arranged.old)


def extend(
    prefixes: Updates, spec: ExtensionSpec, inputs: Sequence[Arranged], lattice: Lattice, meter: Meter
) -> Iterator[Updates]:
    """Prefixes with the variables bound that an extension binds, a chunk at a time."""
    offers = [_Offered.of(prefixes, offer, inputs) for offer in spec.offers]
    counts = np.stack([o.counts for o in offers])
    best, least = counts.argmin(axis=0), counts.min(axis=0)
    wave = _has_histories(prefixes)
    for which, offered in enumerate(offers):
        others = [o for o in offers if o is not offered and not o.offer.own]
        for rows in _chunks(np.flatnonzero((best == which) & (least > 0)), least):
            meter.allow(int(least[rows].sum()))
            made = (
                _waved(prefixes.take(rows), offered.offer, [o.offer for o in others], spec, inputs, lattice)
                if wave
                else _extended(prefixes, rows, offered, others, spec, inputs, lattice)
            )
            yield from _completed(made, spec, which, inputs, lattice, meter)


def _completed(
    made: Updates, spec: ExtensionSpec, proposer: int, inputs: Sequence[Arranged], lattice: Lattice, meter: Meter
) -> Iterator[Updates]:
    """What was proposed, looked up where a relation binds variables of its own."""
    rest = [o for i, o in enumerate(spec.offers) if o.own and i != proposer]
    if not len(made):
        return
    if not rest:
        yield made if made.schema.names == spec.after.names else made.with_rows(made.rows.select(spec.after.names))
        return
    lookups, before = [], made.schema
    for other in rest:
        after = pa.schema([*before, *(spec.after.field(v) for v in other.own)])
        lookups.append(ExtensionSpec(before, after, (), (other.alone,)))
        before = after
    for longer in _deeper(made, lookups, inputs, lattice, meter):
        yield longer.with_rows(longer.rows.select(spec.after.names))


def _chunks(rows: Ints, sizes: Ints) -> Iterator[Ints]:
    """Rows in runs that come to no more than a chunk, or are one row."""
    upto = np.cumsum(sizes[rows])
    first = 0
    while first < len(rows):
        before = int(upto[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(upto, before + CHUNK, side="right")))
        yield rows[first:last]
        first = last


def _has_histories(prefixes: Updates) -> bool:
    """Whether some row is there at several times, so that it pays to sweep through them."""
    if len(prefixes) < 2 or bool((prefixes.times == prefixes.times[:, :1]).all()):
        return False
    hashes = np.sort(hash_rows(prefixes.rows))
    return bool((hashes[1:] == hashes[:-1]).any())


@dataclass(frozen=True)
class _Offered:
    """What a relation has for each prefix: runs of rows in its blocks.

    Shape:  ``starts`` of each prefix's hits, one more at the end; ``counts`` of rows.
    """

    offer: Offer
    found: Probed
    starts: Ints
    counts: Ints

    @classmethod
    def of(cls, prefixes: Updates, offer: Offer, inputs: Sequence[Arranged]) -> _Offered:
        """Look all prefixes up; one with a null in its key finds nothing."""
        keys = prefixes.rows.select(offer.key)
        found = probe(seen(inputs[offer.at], offer.fresh), hash_rows(keys), keys)
        if any(c.null_count for c in keys.columns):
            found = Probed(found.hits[without_null(keys)[found.hits[:, 0]]], found.blocks)
        return cls(offer, found, *_counted(found.hits, len(prefixes)))

    @cached_property
    def stack(self) -> Stack:
        """The values of all blocks."""
        blocks = self.found.blocks
        return Stack([b.values for b in blocks], blocks[0].layout.value_schema)

    @cached_property
    def addresses(self) -> Ints:
        """Where the control columns of the blocks are."""
        return np.array([b.addresses for b in self.found.blocks])

    @property
    def value_hashes(self) -> Ints:
        """Where the value hashes of the blocks are."""
        return self.addresses[:, 0]

    def controls(self, rows: Ints) -> tuple[Ints, Ints]:
        """Diffs and times of rows of the stack."""
        words = gather_words(self.addresses[:, 1:], self.stack.starts, rows)
        return words[0], words[1:]

    def hashes(self, rows: Ints, adds: tuple[str, ...]) -> Ints:
        """The hashes of what rows of the stack add."""
        if not self.offer.own:
            return gather_words(self.addresses[:, :1], self.stack.starts, rows)[0]
        return hash_rows(self.added(self.stack.take(rows), adds)).view(np.int64)

    def added(self, values: Rows, adds: tuple[str, ...]) -> Rows:
        """The columns of values that others confirm."""
        names = values.schema.names
        return values.select([names[self.offer.values.index(v)] for v in adds])

    def verified(
        self, at: Ints, hashes: Ints, confirmed: Sequence[tuple[_Offered, Ints]], adds: tuple[str, ...]
    ) -> Ints | None:
        """Which candidates really are what others have, hashes aside; None when all are."""
        found: Ints | None = None
        values = self.added(self.stack.take(at), adds)
        for other, rows in confirmed:
            some = _equal(values, other, rows, hashes)
            if some is not None:
                found = some if found is None else np.intersect1d(found, some)
        return found


def without_null(rows: Rows) -> Mask:
    """The rows without a null: a null is equal to nothing."""
    mask = np.ones(rows.count, np.bool_)
    for column in rows.columns:
        if column.null_count:
            mask &= np.asarray(column.is_valid())
    return mask


def _extended(
    prefixes: Updates,
    chosen: Ints,
    offered: _Offered,
    others: Sequence[_Offered],
    spec: ExtensionSpec,
    inputs: Sequence[Arranged],
    lattice: Lattice,
) -> Updates:
    """Candidates of one relation for some prefixes that others confirm; only what they confirm is built."""
    at, rows = _expanded(offered.found.hits, offered.starts, chosen, offered.stack.starts)
    if not others:
        return _built(prefixes, at, offered, rows, [], spec, lattice)
    hashes = offered.hashes(rows, spec.adds)
    often = _repeated(at, hashes, offered.controls(rows)[0])
    parts = []
    if often.any():  # a history on either side: what is confirmed is not to be a match for every pair of changes
        made = _built(prefixes, at[often], offered, rows[often], [], spec, lattice)
        for other in others:
            made = _sifted(made, other.offer, spec.adds, inputs, lattice)
        parts.append(made)
        at, rows, hashes = at[~often], rows[~often], hashes[~often]
    confirmed: list[tuple[_Offered, Ints]] = []
    for other in others:
        index, theirs = _confirmed(at, hashes, other.found.hits, other.starts, other.value_hashes, other.stack.starts)
        at, rows, hashes = at[index], rows[index], hashes[index]
        confirmed = [*((o, r[index]) for o, r in confirmed), (other, theirs)]
    some = offered.verified(rows, hashes, confirmed, spec.adds)
    if some is not None:
        at, rows = at[some], rows[some]
        confirmed = [(o, r[some]) for o, r in confirmed]
    made = _built(prefixes, at, offered, rows, confirmed, spec, lattice)
    return Updates.concat([*parts, made], made.schema, lattice.width) if parts else made


def _built(
    prefixes: Updates,
    at: Ints,
    offered: _Offered,
    rows: Ints,
    confirmed: Sequence[tuple[_Offered, Ints]],
    spec: ExtensionSpec,
    lattice: Lattice,
) -> Updates:
    """Prefixes ``at`` with the values of a relation's rows, as far as known; times joined, diffs multiplied."""
    times, diffs, churned = prefixes.times[:, at], prefixes.diffs[at], False
    for one, theirs in ((offered, rows), *confirmed):
        more, when = one.controls(theirs)
        times = lattice.join(times, entered(when, lattice.width - len(when)))
        diffs = difference.multiply(diffs, more)
        churned |= bool((more < 0).any())
    values = offered.stack.take(rows)
    found = {**_by_name(prefixes.rows.take(at)), **dict(zip(offered.offer.values, values.columns, strict=True))}
    schema = pa.schema([f for f in spec.after if f.name in found])
    made = Updates(Rows(schema, tuple([found[n] for n in schema.names]), len(at)), times, diffs)
    return consolidate(made, lattice) if churned else made


def _by_name(rows: Rows) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def confirm(
    prefixes: Updates, offer: Offer, adds: tuple[str, ...], inputs: Sequence[Arranged], lattice: Lattice
) -> Updates:
    """Of prefixes in which ``adds`` are bound, those that a relation has."""
    offered = _Offered.of(prefixes, offer, inputs)
    some = np.flatnonzero(offered.counts)
    if not len(some):
        return prefixes.take(some)
    bound = prefixes.rows.select(adds)
    hashes = hash_rows(bound).view(np.int64)[some]
    index, rows = _confirmed(
        some, hashes, offered.found.hits, offered.starts, offered.value_hashes, offered.stack.starts
    )
    at = some[index]
    real = _equal(bound.take(at), offered, rows, hashes[index])
    if real is not None:
        at, rows = at[real], rows[real]
    diffs, times = offered.controls(rows)
    made = prefixes.take(at)
    times = lattice.join(made.times, entered(times, lattice.width - len(times)))
    made = Updates(made.rows, times, difference.multiply(made.diffs, diffs))
    return consolidate(made, lattice) if (diffs < 0).any() else made


def counted(prefixes: Updates, offer: Offer, number: int, inputs: Sequence[Arranged], schema: pa.Schema) -> Updates:
    """Prefixes with two columns more: the least number of candidates so far, and the number of the relation."""
    counts = _Offered.of(prefixes, offer, inputs).counts
    numbers = np.full(len(counts), number)
    names = prefixes.schema.names
    if LEAST in names:
        least, by = (prefixes.rows.column(n).to_numpy() for n in (LEAST, BY))
        numbers = np.where(counts < least, numbers, by)
        counts = np.minimum(counts, least)
    kept = [n for n in names if n not in (LEAST, BY)]
    rows = prefixes.rows.select(kept)
    made = prefixes.with_rows(rows.widened(schema, [pa.array(counts), pa.array(numbers)]))
    return made.filter(counts > 0)


def proposed(
    prefixes: Updates,
    spec: ExtensionSpec,
    number: int | None,
    inputs: Sequence[Arranged],
    lattice: Lattice,
    meter: Meter,
) -> Updates:
    """Prefixes with the candidates of one relation; when they were counted, those of which it has the fewest."""
    if number is not None:
        prefixes = prefixes.filter(prefixes.rows.column(BY).to_numpy() == number)
    prefixes = prefixes.with_rows(prefixes.rows.select(spec.before.names))
    parts = list(extend(prefixes, spec, inputs, lattice, meter)) if len(prefixes) else []
    return Updates.concat(parts, spec.after, lattice.width)


def _waved(
    prefixes: Updates,
    offer: Offer,
    others: Sequence[Offer],
    spec: ExtensionSpec,
    inputs: Sequence[Arranged],
    lattice: Lattice,
) -> Updates:
    """The same where rows are there at several times: the histories of what meets are swept together."""
    after = pa.schema([spec.after.field(n) for n in (*spec.before.names, *offer.values)])
    made = _swept(prefixes, offer, offer.key, by_key, after, inputs, lattice)
    for other in others:
        made = _sifted(made, other, spec.adds, inputs, lattice)
    return made


def _sifted(
    prefixes: Updates, offer: Offer, adds: tuple[str, ...], inputs: Sequence[Arranged], lattice: Lattice
) -> Updates:
    """Prefixes in which ``adds`` are bound and that a relation has, histories swept together."""
    both = (*offer.key, *adds)
    return _swept(prefixes, offer, both, _by_key_and_value(offer, adds), prefixes.schema, inputs, lattice)


def _swept(
    prefixes: Updates,
    offer: Offer,
    key: tuple[str, ...],
    search: Search,
    after: pa.Schema,
    inputs: Sequence[Arranged],
    lattice: Lattice,
) -> Updates:
    names = inputs[offer.at].layout.values
    sides = {n: (0, n) for n in prefixes.schema.names}
    sides |= {v: (1, n) for v, n in zip(offer.values, names, strict=True) if v not in sides}
    spec = JoinSpec(after, tuple((n, *sides[n]) for n in after.names), lattice)
    layout = Layout(prefixes.schema, key, lattice)
    least = Antichain.minimum(lattice)
    matcher = Matcher(spec, BoundLogic(), None)
    for block in Batch.build(prefixes, layout, Description(least, least, least)).blocks:
        matcher.cross(block, seen(inputs[offer.at], offer.fresh), flipped=False, search=search)
    return consolidate(matcher.results()[0], lattice)


def _by_key_and_value(offer: Offer, adds: tuple[str, ...]) -> Search:
    """Where the probes are key and value: rows of the key whose value is equal too."""

    def search(batches: Sequence[Batch], _: Hashes, probes: Rows) -> Iterator[tuple[Block, Ints, Ints]]:
        keys, values = probes.select(offer.key), probes.select(adds)
        found = probe(batches, hash_rows(keys), keys)
        if not len(found.hits):
            return
        offered = _Offered(offer, found, *_counted(found.hits, probes.count))
        hashes = hash_rows(values).view(np.int64)
        all_probes = np.arange(probes.count)
        stack = offered.stack
        which, rows = _confirmed(all_probes, hashes, found.hits, offered.starts, offered.value_hashes, stack.starts)
        real = _equal(values.take(which), offered, rows, hashes[which])
        if real is not None:
            which, rows = which[real], rows[real]
        blocks = np.searchsorted(stack.starts, rows, side="right") - 1
        for number, block in enumerate(found.blocks):
            here = np.flatnonzero(blocks == number)
            if len(here):
                counts = np.bincount(which[here], minlength=probes.count)
                yield block, counts, rows[here] - stack.starts[number]

    return search


def _equal(values: Rows, other: _Offered, rows: Ints, hashes: Ints) -> Ints | None:
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


@compiled
def _counted(hits: Ints, probes: int) -> tuple[Ints, Ints]:
    """Where each probe's hits start, and how many rows they have together."""
    starts, counts = np.zeros(probes + 1, np.int64), np.zeros(probes, np.int64)
    for h in range(len(hits)):
        starts[hits[h, 0] + 1] += 1
        counts[hits[h, 0]] += hits[h, 3] - hits[h, 2]
    for p in range(probes):
        starts[p + 1] += starts[p]
    return starts, counts


@compiled
def _expanded(hits: Ints, starts: Ints, chosen: Ints, bases: Ints) -> tuple[Ints, Ints]:
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


@compiled
def _repeated(at: Ints, hashes: Ints, diffs: Ints) -> Any:
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


@compiled
def _confirmed(at: Ints, hashes: Ints, hits: Ints, starts: Ints, addresses: Ints, bases: Ints) -> tuple[Ints, Ints]:
    """For candidates of probes, rows of another relation's hits with equal value hash: candidate, number in the stack.

    The rows of a hit are in the order of their value hashes.
    """
    index, rows = np.empty(len(at) + 8, np.int64), np.empty(len(at) + 8, np.int64)
    to = 0
    for i in range(len(at)):
        wanted = np.uint64(hashes[i])
        for h in range(starts[at[i]], starts[at[i] + 1]):
            address, stop = addresses[hits[h, 1]], hits[h, 3]
            low, high = hits[h, 2], stop
            while low < high:
                middle = (low + high) >> 1
                if load64(address + 8 * middle) < wanted:
                    low = middle + 1
                else:
                    high = middle
            while low < stop and load64(address + 8 * low) == wanted:
                if to == len(index):
                    index, rows = _longer(index), _longer(rows)
                index[to], rows[to] = i, bases[hits[h, 1]] + low
                to += 1
                low += 1
    return index[:to], rows[:to]


@compiled
def _longer(words: Ints) -> Ints:
    more = np.empty(2 * len(words), np.int64)
    more[: len(words)] = words
    return more
