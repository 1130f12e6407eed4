"""What the touched groups contain: every distinct value once, and the updates that refer to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from altneu.columnar.ranking import Order
from altneu.columnar.rows import Ints, Rows
from altneu.operators.kernels.grouping import group_rows
from altneu.operators.kernels.groups import Groups, in_time_order, touched
from altneu.operators.kernels.in_order import GroupsInOrder, in_order
from altneu.trace.batch import Arranged

KNOWN = "#contents"  # where groups have theirs, if they are known


@dataclass(frozen=True)
class Contents:
    """The distinct values of the groups that have new updates.

    Shape:  ``values`` V rows, no two equal in one group, with ``group`` (V,). Old updates: ``old_value`` and
            ``groups.old_diffs``, by ``groups.old_start``. New ones by (group, time): ``new_value`` and ``new_diffs``.
            A moment is a run of new updates of equal (group, time): moment m goes from ``moments[m]`` up to
            ``moments[m + 1]``, is of ``moment_group[m]``, and ``moment_at[m]`` is one of its updates in ``groups``.
            Values are by group, and by ``order`` within it, ties by all other columns, unless it is None.
    """

    groups: Groups
    values: Rows
    group: Ints
    old_value: Ints
    new_value: Ints
    new_diffs: Ints
    moments: Ints
    moment_group: Ints
    moment_at: Ints
    order: tuple[Order, ...] | None = None

    def in_order(self, order: Sequence[Order]) -> tuple[Ints, Ints]:
        """Values by group and order, ties by all other columns; and where each group starts (one more at the end)."""
        key = self.groups.layout.key  # within a group all values of a key column are equal
        order = tuple(one for one in order if one[0] not in key)
        by = np.arange(self.values.count) if order == self.order else in_order(self.values, self.group, order).first
        return by, self.group[by].searchsorted(np.arange(len(self.groups) + 1))


def contents(given: Arranged | Groups) -> Contents:
    """Gather the groups that have new updates and tell their values apart.

    Cost:   O(what the groups hold + d log n) for d new updates.
    """
    groups = touched(given)
    known: Contents | None = groups.__dict__.get(KNOWN)
    if known is not None:
        return known
    group = np.concatenate([groups.old_group, groups.new_group])
    if isinstance(groups, GroupsInOrder):
        value, first = groups.in_order
        values: Rows = groups.both.at(first)
    else:
        both = Rows.concat([groups.old_values, groups.new_values], groups.layout.value_schema)
        hashes = np.concatenate([groups.old_hashes, groups.new_hashes])
        value, first = group_rows(both, group.reshape(1, -1), hashes)
        values = both if len(first) == both.count else both.take(first)
    order, moments = in_time_order(groups.new_group, groups.new_times)
    old, moment_at = len(groups.old_diffs), order[moments[:-1]]
    return Contents(
        groups,
        values,
        group[first],
        value[:old],
        value[old:][order],
        groups.new_diffs[order],
        moments,
        groups.new_group[moment_at],
        moment_at,
        groups.layout.order if isinstance(groups, GroupsInOrder) else None,
    )
