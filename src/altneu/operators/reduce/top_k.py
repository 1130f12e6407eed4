"""The first k rows of each group in an order, kept right by one sweep through the moments of a step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import DiffOverflowError, PlanError, TypeMismatchError, UnknownColumnError
from altneu.operators.kernels.bitmap import empty_set, following, insert, remove
from altneu.operators.kernels.changes import state_text
from altneu.operators.kernels.contents import contents
from altneu.operators.kernels.exact_sum import bump
from altneu.operators.kernels.groups import (
    NOTHING_PENDED,
    Groups,
    ReduceOutput,
    error_updates,
    is_quiet,
    no_errors,
    output,
    require_total,
)
from altneu.operators.kernels.small_ends import first_rows
from altneu.operators.reduce.aggregates import NEGATIVE
from altneu.operators.reduce.spec import ReduceSpec
from altneu.order import Epoch
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates, consolidate
from altneu.types import no_key


@dataclass(frozen=True)
class TopKSpec(ReduceSpec):
    """The first ``k`` rows of each group of ``key``, counted with their multiplicity.

    ``order`` lists (column, descending, nulls first). Ties are decided by the whole row's value, column by column in
    the schema's order, ascending, nulls first; arrival means nothing.

    Raises:
        PlanError: ``k`` is negative.
        UnknownColumnError: an order column that is not there.
        TypeMismatchError: an order column that is a map.
    """

    key: tuple[str, ...]
    k: int
    order: tuple[Order, ...]
    schema: pa.Schema

    def __post_init__(self) -> None:
        if self.k < 0:
            raise PlanError(f"top_k takes a count of rows that is not negative, not {self.k}")
        for name, _, _ in self.order:
            if self.schema.get_field_index(name) < 0:
                raise UnknownColumnError(name, self.schema.names, "top_k order")
            if what := no_key(self.schema.field(name).type):
                raise TypeMismatchError(
                    f"top_k cannot order by {name!r}: {what} have no order; order by a value taken of it"
                )

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """The rows of each group, in the order."""
        return reduce_top_k(given, self, operator)

    def of_ends(self, given: Arranged) -> ReduceOutput | None:
        """The rows at the front of each group, where the group lies in the order."""
        if given.layout.order != self.order or (found := first_rows(given, self.k)) is None:
            return None
        updates, _ = found
        rows = Rows(self.schema, updates.rows.columns, updates.rows.count)
        return ReduceOutput(Updates(rows, updates.times, updates.diffs), no_errors(1), NOTHING_PENDED)


@dataclass(frozen=True)
class FirstValueSpec(ReduceSpec):
    """Of the first row of each group in an order the column behind the key, so many times.

    Shape:  rows of ``input`` are the key, this column, and others.
    """

    key: tuple[str, ...]
    order: tuple[Order, ...]
    input: pa.Schema
    copies: int = 1

    @cached_property
    def schema(self) -> pa.Schema:
        """The key and the column, as often as it is wanted."""
        field = self.input.field(len(self.key))
        copies = [pa.field(f"{field.name}{i}", field.type) for i in range(self.copies)]
        return pa.schema([*(self.input.field(name) for name in self.key), *copies])

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """The first rows, where they are others in these columns."""
        first = reduce_top_k(given, TopKSpec(self.key, 1, self.order, self.input), operator)
        at = [*range(len(self.key)), *[len(self.key)] * self.copies]
        rows = Rows(self.schema, tuple(first.oks.rows.columns[i] for i in at), len(first.oks))
        return replace(first, oks=consolidate(replace(first.oks, rows=rows), Epoch()))


def reduce_top_k(given: Arranged | Groups, spec: TopKSpec, operator: str = "top_k") -> ReduceOutput:
    """Bring the first k rows of the touched groups up to date.

    Shape:  an arrangement by ``spec.key`` in; rows of ``spec.schema`` out, a row that counts 3 among the first 2 as 2.
    Cost:   re-reads the touched groups once, one sort of their rows; then O(k log n) a moment that changes the first k,
            O(log n) one that does not. No exchange, no state beside the arrangement.
    Law:    at every time the output accumulates to the first k of what the input accumulates to; a row whose count is
            below zero makes its group an error until it is not (tests/operators/test_reduce_top_k.py).

    Raises:
        PlanError: the times are not totally ordered.
        DiffOverflowError: a count leaves the signed 64-bit range.
    """
    require_total(given, operator)
    if is_quiet(given):
        return output(spec.schema, [], [])
    held = contents(given)
    groups = held.groups
    ordered, starts = held.in_order(spec.order)
    rank = np.empty(len(ordered), np.int64)
    rank[ordered] = np.arange(len(ordered))
    rows_made, errors_made, overflow = _sweep(
        (held.moment_group, held.moments, groups.old_start, starts),
        (rank[held.new_value], held.new_diffs),
        (rank[held.old_value], groups.old_diffs),
        empty_set(len(ordered)),
        spec.k,
    )
    if overflow:
        raise DiffOverflowError("the count of a row left the signed 64-bit range; the step is not committed")
    moment, which, diffs = rows_made
    at = held.moment_at[moment]
    rows = groups.layout.join(groups.keys.take(groups.new_group[at]), held.values.take(ordered[which]))
    oks = Updates(Rows(spec.schema, rows.columns, rows.count), groups.new_times[at].reshape(1, -1), diffs)
    at, diffs = held.moment_at[errors_made[0]], errors_made[1]
    errs = error_updates(operator, groups, at, diffs, [state_text(NEGATIVE, ())] * len(at))
    return output(spec.schema, [oks], [errs])


@compiled()
def _apply(begin: int, end: int, updates: Any, counts: Ints, bits: Any, levels: Ints) -> tuple[int, int, bool]:
    """Add updates to the rows' counts: the least rank touched, the change in how many are below zero, and overflow."""
    ranks, diffs = updates
    least, negatives = len(counts), 0
    overflow = False
    for p in range(begin, end):
        at = ranks[p]
        least = min(least, at)
        before = counts[at]
        overflow |= bump(counts, at, diffs[p])
        after = counts[at]
        if before <= 0 < after:
            insert(bits, levels, at)
        elif after <= 0 < before:
            remove(bits, levels, at)
        negatives += (1 if after < 0 else 0) - (1 if before < 0 else 0)
    return least, negatives, overflow


@compiled()
def _first(k: int, start: int, end: int, counts: Ints, bits: Any, levels: Ints, top: Any) -> int:
    """Write the first k rows between two ranks into ``top`` (rank, how often); returns how many ranks they are."""
    ranks, times = top
    used, left = 0, k
    at = following(bits, levels, start)
    while left > 0 and 0 <= at < end:
        ranks[used], times[used] = at, min(counts[at], left)
        left -= times[used]
        used += 1
        at = following(bits, levels, at + 1)
    return used


@compiled()
def _differ(was: Any, was_used: int, is_: Any, is_used: int, at: int, out: Any, count: int) -> int:
    """Write how two first-k lists, both by rank, differ."""
    out_at, out_rank, out_diff = out
    i, j = 0, 0
    while i < was_used or j < is_used:
        if j == is_used or (i < was_used and was[0][i] < is_[0][j]):
            rank, diff = was[0][i], -was[1][i]
            i += 1
        elif i == was_used or is_[0][j] < was[0][i]:
            rank, diff = is_[0][j], is_[1][j]
            j += 1
        else:
            rank, diff = is_[0][j], is_[1][j] - was[1][i]
            i, j = i + 1, j + 1
        if diff != 0:
            out_at[count], out_rank[count], out_diff[count] = at, rank, diff
            count += 1
    return count


@compiled()
def _sweep(groups: Any, new: Any, old: Any, empty: Any, k: int) -> Any:
    """Go through the moments: (moment, rank, diff) of the rows that come and go, (moment, diff) of errors.

    A moment that touches only ranks behind a full first k changes nothing and is passed over.
    """
    moment_group, moments, old_starts, starts = groups
    bits, levels = empty
    counts = np.zeros(starts[-1], np.int64)
    most = min(k, np.max(np.diff(starts))) + 1
    was = np.empty(most, np.int64), np.empty(most, np.int64)
    is_ = np.empty(most, np.int64), np.empty(most, np.int64)
    out = np.empty(2 * most, np.int64), np.empty(2 * most, np.int64), np.empty(2 * most, np.int64)
    err_at, err_diff = np.empty(len(moments), np.int64), np.empty(len(moments), np.int64)
    result, errors, current, negatives, used = 0, 0, -1, 0, 0
    overflow = False
    for m in range(len(moments) - 1):
        group = moment_group[m]
        start, end = starts[group], starts[group + 1]
        if group != current:
            current = group
            _, negatives, over = _apply(old_starts[group], old_starts[group + 1], old, counts, bits, levels)
            overflow |= over
            used = 0 if negatives else _first(k, start, end, counts, bits, levels, was)
        before = negatives
        least, change, over = _apply(moments[m], moments[m + 1], new, counts, bits, levels)
        negatives += change
        overflow |= over
        if (before > 0) != (negatives > 0):
            err_at[errors], err_diff[errors] = m, 1 if negatives > 0 else -1
            errors += 1
        elif negatives > 0 or (used > 0 and least > was[0][used - 1] and np.sum(was[1][:used]) == k):
            continue
        now = 0 if negatives else _first(k, start, end, counts, bits, levels, is_)
        if result + 2 * most > len(out[0]):
            more = np.empty(len(out[0]), np.int64)
            out = np.concatenate((out[0], more)), np.concatenate((out[1], more)), np.concatenate((out[2], more))
        result = _differ(was, used, is_, now, m, out, result)
        was, is_, used = is_, was, now
    rows = out[0][:result], out[1][:result], out[2][:result]
    return rows, (err_at[:errors].copy(), err_diff[:errors].copy()), overflow
