"""What the touched groups contain: every distinct value once, and the updates that refer to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from altneu.columnar.rows import Ints, Rows
from altneu.operators.grouping import group_rows
from altneu.operators.groups import Groups, in_time_order, touched
from altneu.trace.batch import Arranged


@dataclass(frozen=True)
class Contents:
    """The distinct values of the groups that have new updates.

    Shape:  ``values`` V rows, no two equal in one group, with ``group`` (V,). Old updates: ``old_value`` and
            ``groups.old_diffs``, by ``groups.old_start``. New ones by (group, time): ``new_value`` and ``new_diffs``.
            A moment is a run of new updates of equal (group, time): moment m goes from ``moments[m]`` up to
            ``moments[m + 1]``, is of ``moment_group[m]``, and ``moment_at[m]`` is one of its updates in ``groups``.
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


def contents(given: Arranged | Groups) -> Contents:
    """Gather the groups that have new updates and tell their values apart.

    Cost:   O(what the groups hold + d log n) for d new updates.
    """
    groups = touched(given)
    old_group = np.repeat(np.arange(len(groups)), np.diff(groups.old_start))
    both = Rows.concat([groups.old_values, groups.new_values], groups.layout.value_schema)
    group = np.concatenate([old_group, groups.new_group])
    hashes = np.concatenate([groups.old_hashes, groups.new_hashes])
    value, first = group_rows(both, group.reshape(1, -1), hashes)
    order, moments = in_time_order(groups.new_group, groups.new_times)
    old, moment_at = len(old_group), order[moments[:-1]]
    return Contents(
        groups,
        both if len(first) == both.count else both.take(first),
        group[first],
        value[:old],
        value[old:][order],
        groups.new_diffs[order],
        moments,
        groups.new_group[moment_at],
        moment_at,
    )
