"""Delta joins: prefixes extended by lookups in arrangements, several relations at once where several bind a variable.

In one step the update of relation k meets ``old + new`` of every relation before k and ``old`` of every one after it:
each combination of one update per relation is made exactly once, by the last of its members that arrive, at the join of
their times. No time is compared, so this is right for every lattice, in loops, for self-joins, for any partition of the
updates into steps and chunks, and under any compaction up to ``lower``.

An extension counts the candidates that every relation offers a prefix, takes those of the relation that has the fewest,
and keeps those that the others validate: count, propose, validate. All three are searches in arrangements. Prefixes go
through a path in chunks, depth first, so that only what a chunk may grow to is ever there at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.errors import ERROR_SCHEMA
from altneu.linear import BoundLogic
from altneu.operators.delta_join.candidates import (
    Offer,
    Offered,
    by_key_and_value,
    equal_values,
    expanded,
    repeated,
    seen,
    validated_in,
)
from altneu.operators.join.pairs import JoinSpec, Matcher, Meter, Search, by_key, together
from altneu.operators.linear.logic import run_logic
from altneu.order import Antichain, Lattice, difference, lifted
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.update import Updates, consolidate

Mask = npt.NDArray[np.bool_]

CHUNK = 1 << 17  # candidates known at a time
LEAST, BY = "#least", "#by"  # columns of prefixes that are being counted
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True)
class ExtensionSpec:
    """An extension: prefixes of ``before`` become rows of ``after``, its columns named by variables, in that order.

    A ``paths.Extension`` is about relations and variables: it is chosen before anything is lowered, and explained. This
    is about the inputs and the columns of one operation, and is also made of single lookups of an extension, where each
    is an operation of its own.
    """

    before: pa.Schema
    after: pa.Schema
    adds: tuple[str, ...]
    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class PathSpec:
    """The way of a relation's new updates: those of input ``at``, named by variables, through extensions.

    It is a ``paths.Path`` over the inputs of one operation.
    """

    at: int
    start: pa.Schema
    extensions: tuple[ExtensionSpec, ...]

    def reads(self, place: int) -> bool:
        """Whether an extension looks an input up."""
        return any(place in (offer.at, offer.validates) for e in self.extensions for offer in e.offers)


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
    parts = list(delta_join_pieces(inputs, spec, logic, budget))
    return together(parts, spec.schema if logic is None else logic.output(spec.schema), spec.lattice)


def delta_join_pieces(
    inputs: Sequence[Arranged], spec: DeltaSpec, logic: BoundLogic | None = None, budget: int | None = None
) -> Iterator[tuple[Updates, Updates]]:
    """What ``delta_join`` gives, some of the rows and errors at a time: ``CHUNK`` of them or more, the last has fewer.

    Cost:   as of ``delta_join``; in memory is a piece.
    Law:    the pieces together are what ``delta_join`` gives (tests/operators/test_pieces.py).
    """
    meter = Meter(budget)
    schema = spec.schema if logic is None else logic.output(spec.schema)
    parts: list[tuple[Updates, Updates]] = []
    rows = 0
    for path in spec.paths:
        for matches in _along(path, inputs, spec.lattice, meter):
            result = Updates(named(matches.rows, spec.outputs, spec.schema), matches.times, matches.diffs)
            failed = Updates.empty(ERROR_SCHEMA, spec.lattice.width)
            if logic:
                result, failed = run_logic(logic, result)
            parts.append((result, failed))
            rows += len(result) + len(failed)
            if rows >= CHUNK:
                yield together(parts, schema, spec.lattice)
                parts, rows = [], 0
    if rows:
        yield together(parts, schema, spec.lattice)


def named(rows: Rows, outputs: Sequence[tuple[str, str]], schema: pa.Schema) -> Rows:
    """Rows of ``schema`` from columns that are called otherwise."""
    return Rows(schema, tuple([rows.column(variable) for _, variable in outputs]), rows.count)


def new_updates(arranged: Arranged, schema: pa.Schema, lattice: Lattice) -> Updates:
    """What is new of a relation, its columns called by their variables, at times of ``lattice``."""
    updates = arranged.new.updates()
    times = lifted(updates.times, arranged.layout.lattice, lattice)
    return Updates(Rows(schema, updates.rows.columns, len(updates)), times, updates.diffs)


def _along(path: PathSpec, inputs: Sequence[Arranged], lattice: Lattice, meter: Meter) -> Iterator[Updates]:
    if not all(_may_match(extension, inputs) for extension in path.extensions):
        return
    start = inputs[path.at].new
    if not len(start):
        return
    yield from _deeper(new_updates(inputs[path.at], path.start, lattice), path.extensions, inputs, lattice, meter)


def _may_match(extension: ExtensionSpec, inputs: Sequence[Arranged]) -> bool:
    """Whether each of the relations that it looks up has any rows that it may see: in a first step few have."""
    return all(any(map(len, seen(inputs[offer.at], offer.fresh))) for offer in extension.offers)


def _deeper(
    prefixes: Updates, rest: Sequence[ExtensionSpec], inputs: Sequence[Arranged], lattice: Lattice, meter: Meter
) -> Iterator[Updates]:
    if not rest:
        yield prefixes
        return
    for longer in extend(prefixes, rest[0], inputs, lattice, meter):
        yield from _deeper(longer, rest[1:], inputs, lattice, meter)


def extend(
    prefixes: Updates, spec: ExtensionSpec, inputs: Sequence[Arranged], lattice: Lattice, meter: Meter
) -> Iterator[Updates]:
    """Prefixes with the variables bound that an extension binds, a chunk at a time."""
    offers = [Offered.of(prefixes, offer, inputs) for offer in spec.offers]
    counts = np.stack([o.counts for o in offers])
    best, least = counts.argmin(axis=0), counts.min(axis=0)
    wave = _has_histories(prefixes)
    for which, offered in enumerate(offers):
        others = [o for o in offers if o is not offered and not o.offer.part.own]
        for rows in _chunks(np.flatnonzero((best == which) & (least > 0)), least):
            meter.allow(int(least[rows].sum()))
            result = (
                _waved(prefixes.take(rows), offered.offer, [o.offer for o in others], spec, inputs, lattice)
                if wave
                else _extended(prefixes, rows, offered, others, spec, inputs, lattice)
            )
            yield from _completed(result, spec, which, inputs, lattice, meter)


def _completed(
    result: Updates, spec: ExtensionSpec, proposer: int, inputs: Sequence[Arranged], lattice: Lattice, meter: Meter
) -> Iterator[Updates]:
    """What was proposed, looked up where a relation binds variables of its own."""
    rest = [o for i, o in enumerate(spec.offers) if o.part.own and i != proposer]
    if not len(result):
        return
    if not rest:
        yield (
            result
            if result.schema.names == spec.after.names
            else result.with_rows(result.rows.select(spec.after.names))
        )
        return
    lookups, before = [], result.schema
    for other in rest:
        after = pa.schema([*before, *(spec.after.field(v) for v in other.part.own)])
        lookups.append(ExtensionSpec(before, after, (), (other.alone,)))
        before = after
    for longer in _deeper(result, lookups, inputs, lattice, meter):
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


def _extended(
    prefixes: Updates,
    chosen: Ints,
    offered: Offered,
    others: Sequence[Offered],
    spec: ExtensionSpec,
    inputs: Sequence[Arranged],
    lattice: Lattice,
) -> Updates:
    """Candidates of one relation for some prefixes that others validate; only what they validate is built."""
    at, rows = expanded(offered.found.hits, offered.starts, chosen, offered.stack.starts)
    if not others:
        return _built(prefixes, at, offered, rows, [], spec, lattice)
    hashes = offered.hashes(rows, spec.adds)
    often = repeated(at, hashes, offered.controls(rows)[0])
    parts = []
    if often.any():  # a history on either side: what is validated is not to be a match for every pair of changes
        result = _built(prefixes, at[often], offered, rows[often], [], spec, lattice)
        for other in others:
            result = _sifted(result, other.offer, spec.adds, inputs, lattice)
        parts.append(result)
        at, rows, hashes = at[~often], rows[~often], hashes[~often]
    validated: list[tuple[Offered, Ints]] = []
    for other in others:
        index, theirs = validated_in(at, hashes, other.found.hits, other.starts, other.value_hashes, other.stack.starts)
        at, rows, hashes = at[index], rows[index], hashes[index]
        validated = [*((o, r[index]) for o, r in validated), (other, theirs)]
    some = offered.verified(rows, hashes, validated, spec.adds)
    if some is not None:
        at, rows = at[some], rows[some]
        validated = [(o, r[some]) for o, r in validated]
    result = _built(prefixes, at, offered, rows, validated, spec, lattice)
    return Updates.concat([*parts, result], result.schema, lattice.width) if parts else result


def _built(
    prefixes: Updates,
    at: Ints,
    offered: Offered,
    rows: Ints,
    validated: Sequence[tuple[Offered, Ints]],
    spec: ExtensionSpec,
    lattice: Lattice,
) -> Updates:
    """Prefixes ``at`` with the values of a relation's rows, as far as known; times joined, diffs multiplied."""
    times, diffs, churned = prefixes.times.take(at, axis=1), prefixes.diffs[at], False
    for one, theirs in ((offered, rows), *validated):
        more, when = one.controls(theirs)
        times = lattice.join(times, lifted(when, one.lattice, lattice))
        diffs = difference.multiply(diffs, more)
        churned |= bool((more < 0).any())
    values = offered.stack.take(rows)
    matches = {**_by_name(prefixes.rows.take(at)), **dict(zip(offered.offer.values, values.columns, strict=True))}
    schema = pa.schema([f for f in spec.after if f.name in matches])
    result = Updates(Rows(schema, tuple([matches[n] for n in schema.names]), len(at)), times, diffs)
    return consolidate(result, lattice) if churned else result


def _by_name(rows: Rows) -> dict[str, pa.Array]:
    return dict(zip(rows.schema.names, rows.columns, strict=True))


def validate(
    prefixes: Updates, offer: Offer, adds: tuple[str, ...], inputs: Sequence[Arranged], lattice: Lattice
) -> Updates:
    """Of prefixes in which ``adds`` are bound, those that a relation has."""
    offered = Offered.of(prefixes, offer, inputs)
    some = np.flatnonzero(offered.counts)
    if not len(some):
        return prefixes.take(some)
    bound = prefixes.rows.select(adds)
    hashes = hash_rows(bound).view(np.int64)[some]
    index, rows = validated_in(
        some, hashes, offered.found.hits, offered.starts, offered.value_hashes, offered.stack.starts
    )
    at = some[index]
    real = equal_values(bound.take(at), offered, rows, hashes[index])
    if real is not None:
        at, rows = at[real], rows[real]
    diffs, times = offered.controls(rows)
    result = prefixes.take(at)
    times = lattice.join(result.times, lifted(times, offered.lattice, lattice))
    result = Updates(result.rows, times, difference.multiply(result.diffs, diffs))
    return consolidate(result, lattice) if (diffs < 0).any() else result


def counted(prefixes: Updates, offer: Offer, number: int, inputs: Sequence[Arranged], schema: pa.Schema) -> Updates:
    """Prefixes with two columns more: the least number of candidates so far, and the number of the relation."""
    counts = Offered.of(prefixes, offer, inputs).counts
    numbers = np.full(len(counts), number)
    names = prefixes.schema.names
    if LEAST in names:
        least, by = (prefixes.rows.column(n).to_numpy() for n in (LEAST, BY))
        numbers = np.where(counts < least, numbers, by)
        counts = np.minimum(counts, least)
    columns = [n for n in names if n not in (LEAST, BY)]
    rows = prefixes.rows.select(columns)
    result = prefixes.with_rows(rows.widened(schema, [pa.array(counts), pa.array(numbers)]))
    return result.filter(counts > 0)


def proposed(
    prefixes: Updates,
    spec: ExtensionSpec,
    number: int | None,
    inputs: Sequence[Arranged],
    lattice: Lattice,
    meter: Meter,
) -> Updates:
    """Prefixes with the candidates of one relation; when they were counted, those of which it has the fewest."""
    if not _may_match(spec, inputs):
        return Updates.empty(spec.after, lattice.width)
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
    result = _swept(prefixes, offer, offer.part.key, by_key, after, inputs, lattice)
    for other in others:
        result = _sifted(result, other, spec.adds, inputs, lattice)
    return result


def _sifted(
    prefixes: Updates, offer: Offer, adds: tuple[str, ...], inputs: Sequence[Arranged], lattice: Lattice
) -> Updates:
    """Prefixes in which ``adds`` are bound and that a relation has, histories swept together."""
    both = (*offer.part.key, *adds)
    return _swept(prefixes, offer, both, by_key_and_value(offer, adds), prefixes.schema, inputs, lattice)


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
