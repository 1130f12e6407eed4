"""min and max of the one column that the rows of a group have: the values of each group sorted once, then one sweep."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from altneu.columnar.ranking import codes
from altneu.columnar.rows import Ints, Rows, positions_of, taken
from altneu.compiled import compiled
from altneu.operators.kernels.exact_sum import bump
from altneu.operators.kernels.groups import NOTHING_PENDED, Groups, ReduceOutput, in_time_order, no_errors, sort_by
from altneu.trace.update import Updates

_MOST_MOMENTS = 16  # of a group, each of which looks for its extremes along the group


def reduce_extremes(groups: Groups, greatest: Sequence[bool], schema: pa.Schema) -> ReduceOutput | None:
    """Bring the extremes of the touched groups up to date, each the least or the ``greatest`` of the only value column.

    None where more is needed than this has: a group that has a null, more than ``_MOST_MOMENTS`` moments, a row whose
    count is below zero, or counts that leave int64.

    Shape:  rows of ``schema`` out: the columns of the key, then one for each of ``greatest``.
    Cost:   one sort of the touched groups' values, and once along them for each moment.
    Law:    what ``reduce_general`` makes of the groups (tests/operators/test_reduce_general.py).
    """
    values, diffs, old, new = groups.picked()
    column = values.columns[0]
    if column.null_count:
        return None
    order, moments = in_time_order(groups.new_group, groups.new_times)
    code = codes(column)
    code.flags.writeable = False  # as those of numbers are: one type for Numba
    changes, found = _changes(code, diffs, old, groups.old_start, new, groups.new_group, order, moments)
    if not found:
        return None
    keys = groups.keys_of(groups.new_group[changes[0]])
    columns = [taken(column, positions_of(changes[3 if last else 2])) for last in greatest]
    rows = Rows(schema, (*keys.columns, *columns), keys.count)
    oks = Updates(rows, groups.new_times[changes[0]].reshape(1, -1), changes[1])
    return ReduceOutput(oks, no_errors(1), NOTHING_PENDED)


@compiled()
def _changes(
    code: Ints, diffs: Ints, old: Ints, old_start: Ints, new: Ints, new_group: Ints, order: Ints, moments: Ints
) -> tuple[Ints, bool]:
    """Lines of changes: a new update of the moment, -1 or +1, positions of the least and the greatest value; if found.

    ``code`` and ``diffs`` are of all updates; ``old`` and ``new`` say which of these are.
    """
    made, lines = 0, np.empty((4, 2 * (len(moments) - 1)), np.int64)
    at = 0
    while at < len(moments) - 1:
        group, end = new_group[order[moments[at]]], at
        while end < len(moments) - 1 and new_group[order[moments[end]]] == group:
            end += 1
        if end - at > _MOST_MOMENTS:
            return lines[:, :0], False
        begin, some = (
            moments[at],
            np.concatenate((old[old_start[group] : old_start[group + 1]], new[order[moments[at] : moments[end]]])),
        )
        before = old_start[group + 1] - old_start[group]
        by_code = np.arange(len(some))
        sort_by(by_code, code[some])
        rank, value, ranks = np.empty(len(some), np.int64), np.empty(len(some), np.int64), 0
        for p in range(len(some)):
            if p == 0 or code[some[by_code[p]]] != code[some[by_code[p - 1]]]:
                value[ranks] = some[by_code[p]]
                ranks += 1
            rank[by_code[p]] = ranks - 1
        counts, wrong = np.zeros(ranks, np.int64), False
        for p in range(before):
            wrong |= bump(counts, rank[p], diffs[some[p]])
        least, most, negative = _ends(counts)
        wrong |= negative
        for m in range(at, end):
            for p in range(moments[m], moments[m + 1]):
                wrong |= bump(counts, rank[before + p - begin], diffs[new[order[p]]])
            was, was_most = least, most
            least, most, negative = _ends(counts)
            if wrong or negative:
                return lines[:, :0], False
            if least == was and most == was_most:
                continue
            for diff, low, high in ((-1, was, was_most), (1, least, most)):
                if low >= 0:
                    lines[0, made], lines[1, made] = order[moments[m]], diff
                    lines[2, made], lines[3, made] = value[low], value[high]
                    made += 1
        at = end
    return lines[:, :made].copy(), True


@compiled()
def _ends(counts: Ints) -> tuple[int, int, bool]:
    """The first and the last position that is there, -1 where none is; and whether one is below zero."""
    first, last, negative = -1, -1, False
    for i in range(len(counts)):
        if counts[i] > 0:
            first = i if first < 0 else first
            last = i
        negative |= counts[i] < 0
    return first, last, negative
