"""What the touched groups contain: every distinct value once, and the updates that refer to it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from altneu.batch import Arranged
from altneu.operators.grouping import group_rows
from altneu.operators.groups import Groups, in_time_order, touched
from altneu.rows import Ints, Rows


@dataclass(frozen=True)
class Contents:
    """The distinct values of the groups that have new updates.

    Shape:  ``values`` V rows, no two equal in one group, with ``group`` (V,). Old updates: ``old_value`` and
            ``groups.old_diffs``, by ``groups.old_start``. New ones: ``new_value``; ``order`` has their positions by
            (group, time), ``moments`` where in it each run of equal (group, time) starts, one more at the end.
    """

    groups: Groups
    values: Rows
    group: Ints
    old_value: Ints
    new_value: Ints
    order: Ints
    moments: Ints


def contents(arranged: Arranged) -> Contents:
    """Gather the groups that have new updates and tell their values apart.

    Cost:   O(what the groups hold + d log n) for d new updates.
    """
    groups = touched(arranged)
    old_group = np.repeat(np.arange(len(groups)), np.diff(groups.old_start))
    both = Rows.concat([groups.old_values, groups.new_values], arranged.layout.value_schema)
    group = np.concatenate([old_group, groups.new_group])
    value, first = group_rows(both, group.reshape(1, -1))
    order, moments = in_time_order(groups.new_group, groups.new_times)
    old = len(old_group)
    values = both if len(first) == both.count else both.take(first)
    return Contents(groups, values, group[first], value[:old], value[old:], order, moments)
