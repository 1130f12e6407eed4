"""The groups a step touches: their keys, what arrived for them, and where their history lies."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import Hashes, hash_rows
from altneu.columnar.immutable import immutable, lazy
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import ERROR_SCHEMA, PlanError
from altneu.trace.batch import Arranged, Block, Layout, find_in
from altneu.trace.update import Updates

Words = TypeVar("Words", Ints, Hashes)

NEGATIVE_MULTIPLICITY, ARITHMETIC_OVERFLOW, PYTHON_EXCEPTION, PYTHON_VALUE = (
    "NEGATIVE_MULTIPLICITY",
    "ARITHMETIC_OVERFLOW",
    "PYTHON_EXCEPTION",
    "PYTHON_VALUE",
)
_FEW = 32  # that are sorted by insertion
_REMEMBERED = 1 << 14  # updates


NOTHING_PENDED = Updates.empty(pa.schema([]), 1)


@immutable(frozen=True)
class ReduceOutput:
    """What a reduce made of a step: rows, errors (``ERROR_SCHEMA``), and times at which it must look again.

    ``pended`` holds rows of the key at those times; outside loops there are none.
    """

    oks: Updates
    errs: Updates
    pended: Updates


class Skipped(Protocol):
    """Rows of groups that were not read."""

    @property
    def units(self) -> Ints:
        """How many they are of each group, counted as often as they are there: (K,)."""

    @property
    def peers(self) -> Ints:
        """How many distinct values of the order they have: (K,); zeros where nothing asks for it."""

    def sums(self, name: str, kind: int) -> Ints:
        """The exact sums of a column over these rows, (K, STRIDE)."""


@immutable(frozen=True)
class Groups:
    """The K distinct keys of a step's updates, the updates, and what the groups held before.

    Shape:  ``keys`` K rows; ``new_group`` (n,), ascending, the group of each new update, with ``new_values`` n rows,
            ``new_hashes`` of the values, ``new_times`` and ``new_diffs`` (n,); ``old_start`` (K + 1,): the old updates
            of group g are those from ``old_start[g]`` up to ``old_start[g + 1]`` of ``old_values``, ``old_hashes`` and
            ``old_diffs``. ``skipped`` are old updates of the groups that are not among them, before all that are.

    The times of old updates are not kept: over a total order all of them are before every new one, and sum up.
    """

    layout: Layout
    keys: Rows
    new_group: Ints
    new_values: Rows
    new_hashes: Hashes
    new_times: Ints
    new_diffs: Ints
    old_start: Ints
    old_values: Rows
    old_hashes: Hashes
    old_diffs: Ints
    skipped: Skipped | None = None

    def __len__(self) -> int:
        return len(self.old_start) - 1

    @lazy
    def old_group(self) -> Ints:
        """The group of each old update."""
        return np.repeat(np.arange(len(self)), np.diff(self.old_start))

    def picked(self) -> Picked:
        """Old and new updates as positions in one set of values and diffs."""
        count = len(self.old_diffs)
        return Picked(
            Rows.concat([self.old_values, self.new_values], self.layout.value_schema),
            np.concatenate([self.old_diffs, self.new_diffs]),
            np.arange(count),
            np.arange(count, count + len(self.new_diffs)),
        )

    def keys_of(self, groups: Ints) -> Rows:
        """The keys of some groups."""
        return self.keys.take(groups)


class AllNew(Groups):
    """Groups to which all updates are new; values are hashed only where that is asked for."""

    def __init__(self, layout: Layout, keys: Rows, group: Ints, values: Rows, times: Ints, diffs: Ints) -> None:
        nothing = np.empty(0, np.int64)
        attributes = {"layout": layout, "keys": keys, "new_group": group, "new_values": values, "new_times": times}
        attributes |= {"new_diffs": diffs, "old_start": np.zeros(keys.count + 1, np.int64), "old_diffs": nothing}
        attributes |= {"old_values": Rows.empty(layout.value_schema), "old_hashes": nothing.view(np.uint64)}
        self.__dict__.update(attributes | {"skipped": None})

    @lazy
    def new_hashes(self) -> Hashes:
        """Of the values."""
        return hash_rows(self.new_values)


class Picked(NamedTuple):
    """Updates as positions in ``values`` and ``diffs``."""

    values: Rows
    diffs: Ints
    old: Ints
    new: Ints


def touched(given: Arranged | Groups) -> Groups:
    """Number the groups that have new updates, and fetch their history; groups that are given stay as they are.

    Few of them are remembered with the arrangement, which several operations may read in a step.

    Cost:   O(d log n + what the groups hold) for d new updates.
    """
    if isinstance(given, Groups):
        return given
    known: Groups | None = given.__dict__.get("#touched")
    if known is None:
        known = _touched(given)
        if known.new_group.size + known.old_diffs.size <= _REMEMBERED:
            given.__dict__["#touched"] = known
    return known


def _touched(arranged: Arranged) -> Groups:
    layout = arranged.layout
    hashes, keys = arranged.new.distinct_keys()
    values, value_hashes, times, diffs = arranged.new.updates_by_key()
    new = (number_new(arranged), values, value_hashes, times[0], diffs)
    if not any([batch.blocks for batch in arranged.old]):  # noqa: C419  # a generator takes longer
        nothing = Rows.empty(layout.value_schema), np.empty(0, np.uint64), np.empty(0, np.int64)
        return Groups(layout, keys, *new, np.zeros(keys.count + 1, np.int64), *nothing)
    old = find_in(arranged.old, hashes, keys)
    starts = np.array([0, old.diffs.size]) if keys.count == 1 else np.searchsorted(old.probe, np.arange(keys.count + 1))
    return Groups(layout, keys, *new, starts, old.values, old.value_hash, old.diffs)


def is_quiet(given: Arranged | Groups) -> bool:
    """Whether nothing is new."""
    return not (given.new.count if isinstance(given, Arranged) else given.new_group.size)


class WithOld(NamedTuple):
    """The new updates of some keys and, before them, ``first_new`` updates that these keys have already.

    ``group`` is the place of each update's key in ``keys``.
    """

    keys: Rows
    values: Rows
    group: Ints
    times: Ints
    diffs: Ints
    first_new: int


def with_old(arranged: Arranged) -> WithOld:
    """All updates of the keys that have new ones.

    Cost:   one lookup of these keys in the old batches.
    """
    hashes, keys = arranged.new.distinct_keys()
    values, _, times, diffs = arranged.new.updates_by_key()
    group = number_new(arranged)
    there = [batch for batch in arranged.old if len(batch)]
    old = find_in(there, hashes, keys) if there else None
    if old is None or not len(old):
        return WithOld(keys, values, group, times, diffs, 0)
    return WithOld(
        keys,
        Rows.concat([old.values, values], arranged.layout.value_schema),
        np.concatenate([old.probe, group]),
        np.concatenate([old.times, times], axis=1),
        np.concatenate([old.diffs, diffs]),
        len(old),
    )


def number_new(arranged: Arranged) -> Ints:
    """The group of each new update, in batch order; groups are those of ``distinct_keys``."""
    blocks = arranged.new.blocks
    count = arranged.new.count
    if count < 2 or arranged.new.distinct_keys()[1].count < 2:
        return np.zeros(count, np.int64)
    return _number(blocks)


def _number(blocks: Sequence[Block]) -> Ints:
    """Group of each row; equal keys are contiguous, and a key's run may go on in the next block."""
    parts = []
    count = 0
    for i, block in enumerate(blocks):
        starts = block.run_starts()
        fresh = np.zeros(len(block), np.int64)
        fresh[starts] = 1
        if i > 0 and all(
            _last(a).equals(b.slice(0, 1)) for a, b in zip(blocks[i - 1].keys.columns, block.keys.columns, strict=True)
        ):
            fresh[0] = 0
        ids = np.cumsum(fresh) + (count - 1)
        count = int(ids[-1]) + 1
        parts.append(ids)
    return _join(parts)


def _last(column: pa.Array) -> pa.Array:
    return column.slice(len(column) - 1, 1)


def _join(parts: Sequence[Words]) -> Words:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def require_total(given: Arranged | Groups, operator: str) -> None:
    """Refuse times that are only partially ordered; those of groups that are given are moments of a chain.

    Raises:
        PlanError: the lattice is not a total order.
    """
    lattice = given.layout.lattice
    if isinstance(given, Arranged) and not lattice.is_total:
        raise PlanError(
            f"{operator} takes totally ordered times, not {lattice!r}; reduce before the times become partial"
        )


def output(schema: pa.Schema, oks: Sequence[Updates], errs: Sequence[Updates]) -> ReduceOutput:
    """Put a reduce's output together; nothing is pended."""
    errs = [one for one in errs if one.diffs.size]
    failed = Updates.concat(errs, ERROR_SCHEMA, 1) if errs else no_errors(1)
    return ReduceOutput(Updates.concat(oks, schema, 1), failed, NOTHING_PENDED)


@lru_cache
def no_errors(width: int) -> Updates:
    """No error rows."""
    return Updates.empty(ERROR_SCHEMA, width)


def error_updates(operator: str, groups: Groups, at: Ints, diffs: Ints, texts: Sequence[tuple[str, str]]) -> Updates:
    """Error updates for the groups and times of the new updates ``at``, each with its (code, message)."""
    if not len(at):
        return no_errors(1)
    return key_errors(operator, groups.keys.take(groups.new_group[at]), groups.new_times[at], diffs, texts)


def key_errors(operator: str, keys: Rows, times: Ints, diffs: Ints, texts: Sequence[tuple[str, str]]) -> Updates:
    """Error updates for some keys at some times, each with its (code, message)."""
    shown = [show_key(keys.schema.names, row) for row in keys.to_pylist()]
    columns: dict[str, Sequence[object]] = {
        "operator": [operator] * len(shown),
        "code": [code for code, _ in texts],
        "message": [message for _, message in texts],
        "row": shown,
    }
    return Updates(Rows.from_pydict(columns, ERROR_SCHEMA), times.reshape(1, -1), diffs)


def show_key(names: Sequence[str], row: Sequence[object]) -> str:
    """A key as readable text.

    >>> show_key(["carrier", "hour"], ("UA", 5)), show_key([], ())
    ('carrier=UA, hour=5', 'all rows')
    """
    if not names:
        return "all rows"
    return ", ".join(f"{name}={'null' if value is None else value}" for name, value in zip(names, row, strict=True))


def in_time_order(groups: Ints, times: Ints) -> tuple[Ints, Ints]:
    """Positions by (group, time), and where each moment, a run of equal (group, time), starts (one more at the end)."""
    times = times.copy()  # Numba has another type for those that are read only
    order, moments, is_sorted = _moments_as_given(groups, times)
    if not is_sorted:
        order = np.lexsort((times, groups))
        _, moments, _ = _moments_as_given(groups[order], times[order])
    return order, moments


@compiled()
def order_of_moments(groups: Ints, times: Ints) -> tuple[Ints, Ints]:
    """What ``in_time_order`` gives, for kernels; groups must ascend, as those of new updates do."""
    order = np.arange(len(groups))
    if not _in_order(groups, times):
        order = np.argsort(times, kind="mergesort")
        order = order[np.argsort(groups[order], kind="mergesort")]
    return order, _moments(groups, times, order)


@compiled()
def _moments_as_given(groups: Ints, times: Ints) -> tuple[Ints, Ints, bool]:
    """What ``in_time_order`` gives if the positions ascend already, and whether they do."""
    order = np.arange(len(groups))
    return order, _moments(groups, times, order), _in_order(groups, times)


@compiled()
def _in_order(groups: Ints, times: Ints) -> bool:
    ordered = True
    for i in range(1, len(groups)):
        ordered &= groups[i] != groups[i - 1] or times[i] >= times[i - 1]
    return ordered


@compiled()
def _moments(groups: Ints, times: Ints, order: Ints) -> Ints:
    starts = np.empty(len(order) + 1, np.int64)
    count = 0
    for p in range(len(order)):
        if p == 0 or groups[order[p]] != groups[order[p - 1]] or times[order[p]] != times[order[p - 1]]:
            starts[count] = p
            count += 1
    starts[count] = len(order)
    return starts[: count + 1]


@compiled()
def sort_by(positions: Ints, words: Ints | Hashes) -> None:
    """Sort positions by the words at them, in place; equal ones stay in order."""
    if len(positions) > _FEW:
        positions[:] = positions[np.argsort(words[positions], kind="mergesort")]
        return
    for p in range(1, len(positions)):
        i, q = positions[p], p
        while q > 0 and words[positions[q - 1]] > words[i]:
            positions[q] = positions[q - 1]
            q -= 1
        positions[q] = i
