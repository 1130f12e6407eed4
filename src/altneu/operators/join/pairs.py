"""Equijoin of two arrangements, by arrival.

Every pair of one update from either side is produced exactly once, in the step in which the later of the two arrives,
at the join of their times: new left with old and new right, old left with new right. No time is compared, so this is
right for every lattice, any partition of the updates into steps, self-joins, and any compaction up to ``lower``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar import few
from altneu.columnar.columns import Stack
from altneu.columnar.hashing import Hashes
from altneu.columnar.immutable import immutable
from altneu.columnar.lookup import rows_in
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import ERROR_SCHEMA, DiffOverflowError
from altneu.linear import BoundLogic
from altneu.operators.base import Message
from altneu.operators.join.few import FEW_PAIRS, few_pairs, met_with
from altneu.operators.join.matched import MatchedRows, Pairs
from altneu.operators.join.sweep import Matches, sweep
from altneu.operators.join.wave import wave
from altneu.operators.linear.logic import CHUNK as CHUNK_ROWS
from altneu.operators.linear.logic import run_logic
from altneu.order import Lattice, difference, lifted
from altneu.trace.batch import Arranged, Batch, Block, Layout, hit_blocks, matches_of, runs_of
from altneu.trace.update import Updates

Search = Callable[[Sequence[Batch], Hashes, Rows], Iterator[tuple[Block, Ints, Ints]]]
_ONE = np.arange(2)  # where the only row of a block starts and ends
FEW_PROBES = 4096  # that are looked up in all blocks at once
FEW_ROWS = 1 << 14  # of several blocks, that are brought together before they are matched
CHUNK = CHUNK_ROWS  # matches known at a time: what does not pass is gone before the next ones come


class TooManyMatches(Exception):  # noqa: N818 -- a signal between the step and its executor, not an error
    """A join would make more matches than the executor allows in this place."""


@dataclass
class Meter:
    """Counts matches against a budget; None: as many as there are."""

    budget: int | None = None
    count: int = 0

    def allow(self, count: int) -> None:
        """Note that so many more are about to be made.

        Raises:
            TooManyMatches: the budget is spent.
        """
        self.count += count
        if self.budget is not None and self.count > self.budget:
            raise TooManyMatches(f"{self.count} matches")


@dataclass(frozen=True)
class JoinSpec:
    """Which columns of which side form the output; ``outputs`` holds (name, side, column). A null key has no match.

    With ``nulls_equal`` it has those with the same nulls.

    It is not the node, which has its inputs and keys: a task is sent this, with the times of the scope that the join
    was lowered into. Delta joins make such joins of their own, for which there is no node.
    """

    schema: pa.Schema
    outputs: tuple[tuple[str, int, str], ...]
    lattice: Lattice
    nulls_equal: bool = False

    @cached_property
    def types(self) -> list[pa.DataType]:
        """The types of the output columns."""
        types: list[pa.DataType] = self.schema.types
        return types

    def choice(self, left: Layout, right: Layout) -> Ints:
        """For each output column its side, and where it is there among the columns of the key and of the value."""
        known = self._choice[0]
        if known[0] is not left or known[1] is not right:
            names = [(*layout.key, *layout.values) for layout in (left, right)]
            sources = [self.sources[name] for name in self.schema.names]
            places = [(side, names[side].index(column)) for side, column in sources]
            known = self._choice[0] = left, right, np.array(places, np.int64).reshape(-1, 2)
        return known[2]

    @cached_property
    def _choice(self) -> list[tuple[Layout | None, Layout | None, Ints]]:
        """What was last chosen of which sides."""
        return [(None, None, np.empty((0, 2), np.int64))]

    @cached_property
    def sources(self) -> dict[str, tuple[int, str]]:
        """Side and name there of each output column."""
        return {name: (side, column) for name, side, column in self.outputs}


def join(
    left: Arranged, right: Arranged, spec: JoinSpec, logic: BoundLogic | None = None, budget: int | None = None
) -> tuple[Updates, Updates]:
    """Join the updates that arrive in this step with what is there; return what logic makes of them, and its errors.

    Shape:  output columns as ``spec.outputs`` says, then as the logic says; times are joins, diffs products.
    Cost:   O(d log n + h log h + matches) for d new updates to keys whose histories have h. What was added and removed
            before the other side arrived does not match; over lattices that are not products of chains, every pair is
            a match. No exchange, no state beside the two arrangements. Of a match that the logic rejects only the
            columns are gathered that it read; memory follows what passes.
    Law:    at every time the output accumulates to the join of what the inputs accumulate to
            (tests/oracle/test_operators.py); with logic to what that makes of it (tests/operators/test_join_fusion.py).
    Source: McSherry et al., Differential Dataflow, CIDR 2013.

    Raises:
        DiffOverflowError: a product of diffs leaves int64.
        TooManyMatches: more than ``budget`` matches, when a budget is given.
    """
    parts = list(join_pieces(left, right, spec, logic, budget))
    return together(parts, spec.schema if logic is None else logic.output(spec.schema), spec.lattice)


def join_pieces(
    left: Arranged, right: Arranged, spec: JoinSpec, logic: BoundLogic | None = None, budget: int | None = None
) -> Iterator[tuple[Updates, Updates]]:
    """What ``join`` gives, some of the rows and errors at a time: what comes of about ``CHUNK`` matches.

    Cost:   as of ``join``; in memory is a piece.
    Law:    the pieces together are what ``join`` gives (tests/operators/test_pieces.py).
    """
    matches = Matcher(spec, logic or BoundLogic(), budget)
    for new, others, flipped in ((left.new, right.all, False), (right.new, left.old, True)):
        for block in new.blocks:
            for _ in matches.crossing(block, others, flipped=flipped):
                yield from matches.taken()
    matches.flush()
    yield from matches.taken()


def join_few(
    left: Arranged, right: Arranged, spec: JoinSpec, logic: BoundLogic, budget: int | None
) -> list[Message | None] | None:
    """What comes of few new updates on one side: rows, nothing, and the errors of the logic; None where more is needed.

    That is where ``few_pairs`` does not tell, and for columns other than numbers, dates and times.

    Law:    tests/operators/test_few_pairs.py
    """
    flipped = not left.new.count
    new, others = (right.new, left.old) if flipped else (left.new, right.old)
    if not new.count:
        return [None, None, None]
    if (not flipped and right.new.count) or new.blocks[1:] or logic.expands:
        return None
    block = new.blocks[0]
    met = met_with(block, others, spec.lattice)
    if met is None:
        return None
    used, ends, at, times, diffs = met
    if not used:
        return [None, None, None]
    if budget is not None:
        Meter(budget).allow(diffs.size)
    mine, theirs = block.places, [other.places for other in used]
    if mine is None or any(places is None for places in theirs):
        return None
    choice = spec.choice(left.layout, right.layout)
    columns = few.chosen(mine, at, np.array(theirs), ends, choice, flipped, spec.types)
    if columns is None:
        return None
    rows = Updates(Rows(spec.schema, tuple(columns), diffs.size), times, diffs)
    if not logic:
        return [rows, None, None]
    passed, failed = run_logic(logic, rows)
    return [passed, None, failed]


def together(pieces: Sequence[tuple[Updates, Updates]], schema: pa.Schema, lattice: Lattice) -> tuple[Updates, Updates]:
    """Pieces of rows and errors as one."""
    oks = Updates.concat([rows for rows, _ in pieces], schema, lattice.width)
    return oks, Updates.concat([errors for _, errors in pieces], ERROR_SCHEMA, lattice.width)


class Matcher:
    """Collects the matches of blocks with batches, and hands them to the logic chunk by chunk."""

    def __init__(self, spec: JoinSpec, logic: BoundLogic, budget: int | None) -> None:
        self.spec, self.logic, self.meter = spec, logic, Meter(budget)
        self.waiting = 0
        self.pairs: list[Pairs] = []
        self._done: list[tuple[Updates, Updates]] = []

    def results(self) -> tuple[Updates, Updates]:
        """What all matches came to."""
        self.flush()
        return together(list(self.taken()), self.logic.output(self.spec.schema), self.spec.lattice)

    def taken(self) -> Iterator[tuple[Updates, Updates]]:
        """The rows and errors that the logic has made since this was last asked."""
        done, self._done = self._done, []
        yield from done

    def cross(self, block: Block, batches: Sequence[Batch], *, flipped: bool, search: Search | None = None) -> None:
        """Match every update of ``block`` with those of equal key in ``batches``, or with what a search finds there."""
        for _ in self.crossing(block, batches, flipped=flipped, search=search):
            pass

    def crossing(
        self, block: Block, batches: Sequence[Batch], *, flipped: bool, search: Search | None = None
    ) -> Iterator[None]:
        """The same with a halt after some of the matches, at which what they came to may be taken."""
        if not len(block):
            return
        some = few_pairs(block, batches, self.spec.lattice, flipped=flipped) if search is None else None
        if some is not None:
            self.meter.allow(sum([pairs.diffs.size for pairs in some]))
            for pairs in some:
                self._add(pairs)
            if some:
                yield
            return
        starts, ends, keys = _probes(block, nulls_match=self.spec.nulls_equal)
        if not len(starts):
            return
        hashes = block.key_hash if len(starts) == len(block) else block.key_hash[starts]
        is_columnwise = self.spec.lattice.is_columnwise
        runs = _value_runs(block, None) if is_columnwise else None
        for other, counts, rows in (search or few_together)(batches, hashes, keys):
            result = (starts, ends, counts, rows)
            their_runs = _value_runs(other, rows) if is_columnwise else None
            for mine, theirs, times, diffs in self._block_pairs(block, other, result, (runs, their_runs)):
                self._add(
                    Pairs((other, block), (theirs, mine), times, diffs)
                    if flipped
                    else Pairs((block, other), (mine, theirs), times, diffs)
                )
                yield

    def _block_pairs(
        self, block: Block, other: Block, matches: Matches, runs: tuple[Ints | None, Ints | None]
    ) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """All matches: where values repeat, those whose rows are there at one time."""
        if runs[0] is None and runs[1] is None:
            yield from self._pairs(block, other, matches)
            return
        starts, ends, counts, rows = matches
        numbers = tuple(np.arange(n) if r is None else r for n, r in zip((len(block), len(rows)), runs, strict=True))
        if self.spec.lattice.is_total:
            yield from self._swept(block, other, matches, numbers)
            return
        upto = np.cumsum(counts)
        repeated = (ends - 1 > starts) & (numbers[0][ends - 1] - numbers[0][starts] < ends - 1 - starts)
        some = np.flatnonzero(counts)
        first, last = (upto - counts)[some], upto[some] - 1
        repeated[some] |= numbers[1][last] - numbers[1][first] < last - first
        many = repeated & ((ends - starts) * counts > FEW_PAIRS)
        if not many.all():
            yield from self._pairs(block, other, _those(matches, ~many))
        if many.any():
            yield from self._waved(
                block, other, _those(matches, many), (numbers[0], numbers[1][np.repeat(many, counts)])
            )

    def _pairs(self, block: Block, other: Block, matches: Matches) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """Every pair, at the join of its times."""
        starts, ends, counts, _ = matches
        upto = np.cumsum((ends - starts) * counts)
        first, total = 0, int(upto[-1])
        self.meter.allow(total)
        while first < total:
            last = min(first + self._room, total)
            mine, theirs = _expand(*matches, upto, first, last)
            one = self._inside(block.times_at(mine), block)
            times = self.spec.lattice.join(one, self._inside(other.times_at(theirs), other))
            yield mine, theirs, times, difference.multiply(block.diffs_at(mine), other.diffs_at(theirs))
            first = last

    def _swept(
        self, block: Block, other: Block, matches: Matches, runs: tuple[Ints, ...]
    ) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """Every pair of values as long as both are there, the histories of a key swept together in order of time."""
        starts, ends, counts, rows = matches
        mine_history = (runs[0], self._inside(block.times, block)[0], block.diffs)
        their_history = (runs[1], self._inside(other.times_at(rows), other)[0], other.diffs_at(rows))
        places, cursor = (starts, ends, counts, np.arange(len(rows))), np.zeros(5, np.int64)
        while cursor[0] < len(starts):
            (mine, theirs, times, diffs), fits = sweep(places, mine_history, their_history, cursor, self._room)
            self._checked(len(mine), fits)
            yield mine, rows[theirs], times.reshape(1, -1), diffs

    def _waved(
        self, block: Block, other: Block, matches: Matches, runs: tuple[Ints, Ints]
    ) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
        """Every pair of values that no later one undoes, the histories of a key walked through together."""
        starts, ends, counts, theirs = matches
        bounds, their_bounds = (np.concatenate([[0], np.cumsum(c)]) for c in (ends - starts, counts))
        mine = np.arange(bounds[-1]) + np.repeat(starts - bounds[:-1], ends - starts)
        left, right = (
            (numbers, self._inside(b.times_at(rows), b), b.diffs_at(rows))
            for b, rows, numbers in ((block, mine, runs[0][mine]), (other, theirs, runs[1]))
        )
        cursor = np.zeros(3, np.int64)
        while cursor[0] < len(starts):
            places, times, diffs, fits = wave(bounds, their_bounds, left, right, cursor, self._room)
            self._checked(len(diffs), fits)
            yield mine[places[0]], theirs[places[1]], times, diffs

    def _checked(self, count: int, fits: bool) -> None:
        if not fits:
            raise DiffOverflowError(
                "a count or a product of diffs in a join left the signed 64-bit range; the step is not committed"
            )
        self.meter.allow(count)

    def _inside(self, times: Ints, block: Block) -> Ints:
        """Times of a side as they are in the scope of the join, which may be further in."""
        return lifted(times, block.layout.lattice, self.spec.lattice)

    @property
    def _room(self) -> int:
        return CHUNK - self.waiting

    def _add(self, pairs: Pairs) -> None:
        if len(pairs):
            self.pairs.append(pairs)
            self.waiting += len(pairs)
            if self.waiting >= CHUNK:
                self.flush()

    def flush(self) -> None:
        """Let the logic decide on what is waiting; what passes is built."""
        if not self.pairs:
            return
        pairs, self.pairs, self.waiting = self.pairs, [], 0
        rows = MatchedRows.of(pairs, self.spec.schema, self.spec.sources)
        if len(pairs) == 1:
            matched = Updates(rows, pairs[0].times, pairs[0].diffs)
        else:
            times = np.concatenate([p.times for p in pairs], axis=1)
            matched = Updates(rows, times, np.concatenate([p.diffs for p in pairs]))
        failed = Updates.empty(ERROR_SCHEMA, self.spec.lattice.width)
        if self.logic:
            matched, failed = run_logic(self.logic, matched)
        self._done.append((matched.with_rows(matched.rows.built()), failed))


def by_key(batches: Sequence[Batch], hashes: Hashes, keys: Rows) -> Iterator[tuple[Block, Ints, Ints]]:
    """The blocks that have probes' keys: how many rows each probe has there, and which.

    A few probes are looked up in all blocks at once; of many, what is found is known for one block at a time.
    """
    if len(hashes) <= FEW_PROBES:
        yield from _by_block(*runs_of(batches, hashes, keys), len(hashes))
        return
    for block in hit_blocks(batches, hashes):
        counts, rows = block.find(hashes, keys)
        if len(rows):
            yield block, counts, rows


def few_together(batches: Sequence[Batch], hashes: Hashes, keys: Rows) -> Iterator[tuple[Block, Ints, Ints]]:
    """The same, where few rows of several blocks are brought together in one: a block costs more than its few rows."""
    if len(hashes) > FEW_PROBES:
        yield from by_key(batches, hashes, keys)
        return
    hits, blocks = runs_of(batches, hashes, keys)
    sizes = hits[:, 3] - hits[:, 2]
    if len(blocks) < 2 or int(sizes.sum()) > FEW_ROWS:
        yield from _by_block(hits, blocks, len(hashes))
        return
    layout = blocks[0].layout
    found = matches_of(hits, blocks, layout)
    probe, part = found.probe, np.repeat(hits[:, 1], sizes)
    own = Rows(layout.key_schema, keys.take(probe).columns, len(probe))
    block = _Gathered(layout, own, found.values, hashes[probe], found.value_hash, found.times, found.diffs, True, part)
    yield block, np.bincount(probe, minlength=len(hashes)).astype(np.int64, copy=False), np.arange(len(probe))


def _by_block(hits: Ints, blocks: Sequence[Block], probes: int) -> Iterator[tuple[Block, Ints, Ints]]:
    for number, block in enumerate(blocks):
        counts, rows = rows_in(hits, number, probes)
        if len(rows):
            yield block, counts, rows


@immutable(frozen=True, eq=False)
class _Gathered(Block):
    """Rows that were found in several blocks, by probe; ``part`` numbers the blocks.

    Only rows of one part are in the order of a block: by value, then by time.
    """

    part: Ints


def _probes(block: Block, *, nulls_match: bool) -> tuple[Ints, Ints, Rows]:
    """Where the runs of equal key start and end, and what the keys are; null keys that never match are left out."""
    count = block.key_hash.size
    starts = _ONE[:1] if count == 1 else block.run_starts()
    ends = _ONE[1:] if count == 1 else np.append(starts[1:], count)
    keys = block.keys if len(starts) == count else block.keys.take(starts)
    if not nulls_match and any([c.null_count for c in keys.columns]):  # noqa: C419  # a generator takes longer
        valid = np.logical_and.reduce([np.asarray(c.is_valid()) for c in keys.columns])
        return starts[valid], ends[valid], keys.filter(valid)
    return starts, ends, keys


def _those(matches: Matches, mask: npt.NDArray[np.bool_]) -> Matches:
    """What was found for some of the probes."""
    if mask.all():
        return matches
    starts, ends, counts, rows = matches
    return starts[mask], ends[mask], counts[mask], rows[np.repeat(mask, counts)]


def _value_runs(block: Block, rows: Ints | None) -> Ints | None:
    """For each of ``rows`` (or all) the number of its run of equal key and value; None when every run is one row."""
    count = len(block) if rows is None else len(rows)
    if count == 1:
        return None
    values = block.value_hash if rows is None else block.value_hash_at(rows)
    keys = block.key_hash if rows is None else block.key_hash[rows]
    equal = (values[1:] == values[:-1]) & (keys[1:] == keys[:-1])
    if isinstance(block, _Gathered):
        equal &= block.part[1:] == block.part[:-1]
    later = np.flatnonzero(equal) + 1
    if not len(later):
        return None
    same = np.ones(len(later), np.bool_)
    one, next_one = (later - 1, later) if rows is None else (rows[later - 1], rows[later])
    for part in (block.keys, block.values):
        if part.columns:
            same &= Stack([part], part.schema).equal(one, next_one)
    fresh = np.ones(count, np.int64)
    fresh[later[same]] = 0
    return np.cumsum(fresh) if same.any() else None


@compiled()
def _expand(
    starts: npt.NDArray[np.int64],
    ends: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64],
    upto: npt.NDArray[np.int64],
    first: int,
    last: int,
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pairs ``first`` to ``last`` of each probe's own run crossed with its matches: two parallel arrays of positions.

    ``upto[i]`` counts the pairs of the probes up to and with i.
    """
    mine = np.empty(last - first, np.int64)
    theirs = np.empty(last - first, np.int64)
    i, base = 0, 0
    while upto[i] <= first:
        base += counts[i]
        i += 1
    skipped = first - (upto[i] - (ends[i] - starts[i]) * counts[i])
    m, k = starts[i] + skipped // counts[i], skipped % counts[i]
    for at in range(last - first):
        while m == ends[i] or counts[i] == 0:
            base += counts[i]
            i += 1
            m, k = starts[i], 0
        mine[at] = m
        theirs[at] = rows[base + k]
        k += 1
        if k == counts[i]:
            m, k = m + 1, 0
    return mine, theirs
