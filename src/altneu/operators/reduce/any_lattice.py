"""Reduce over any lattice of times, distributive or not: simple and right rather than fast.

Let T be the interesting times of a group, and G(t) what the function makes of its input at t less what it made of the
input before this step. Both are found by adding up what is at or below t. What must come out at t is what is left of
G(t) when the outputs at all lesser times of T are taken away,

    D(t) = G(t) - sum of D(t') over t' < t,

which makes D a sum of G at times of T with whole factors, found by going through T in its linear extension.
"""

from __future__ import annotations

import numpy as np

from altneu.columnar.rows import Ints
from altneu.operators.kernels.groups import Groups, ReduceOutput
from altneu.operators.reduce.along import Lines, Spread, reduce_along
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.touched_history import History, Mask
from altneu.order import interesting_times
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates


def reduce_at_any(
    arranged: Arranged, rounds: tuple[int, ...], again: Updates, spec: ReduceSpec, operator: str
) -> ReduceOutput:
    """Bring groups up to date over any lattice, at one round of the loops around, if there are any.

    Shape:  as ``reduce_in_round``: in loops every new update and every time of ``again`` is at ``rounds``, and the
            times of earlier steps are folded to epochs before this one's, an epoch being the first column of a time.
    Cost:   for the m interesting times of a group with n updates O(m n + m^3), and one evaluation for each of the m
            times now and before.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/operators/test_reduce_at_partial_times.py).
    """
    history = History.of(arranged, rounds, again)
    return reduce_along(history, _Points(history), spec, operator)


class _Points(Lines):
    """Each interesting time as a line of one point; behind these each once more, for what was before."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.lattice = history.layout.lattice
        inside, (seeds, seeded) = history.within, history.seeds
        groups, times = interesting_times(
            self.lattice,
            np.concatenate([seeds, history.group[inside]]),
            np.concatenate([seeded, history.times[:, inside]], axis=1),
            np.arange(len(seeds) + np.count_nonzero(inside)) < len(seeds),
        )
        self.owner, self.points = np.tile(groups, 2), np.tile(times, 2)
        factors = [np.zeros((3, 0), np.int64)]
        for some in np.split(np.arange(len(groups)), np.flatnonzero(np.diff(groups)) + 1):
            inverse = self._inverse(times[:, some])
            targets, points = np.nonzero(inverse)
            factors.append(np.stack([some[points], some[targets], inverse[targets, points]]))
        points, targets, factor = np.concatenate(factors, axis=1)
        requested = (
            np.concatenate([points, points + len(groups)]),
            np.tile(targets, 2),
            np.concatenate([factor, -factor]),
        )
        order = np.argsort(requested[0], kind="stable")
        none = np.empty(0, np.int64)
        changes = (requested[0][order], requested[1][order], requested[2][order])
        self.out = Spread(np.arange(len(self.owner) + 1), times, changes, (none, none, none))

    def _inverse(self, times: Ints) -> Ints:
        """For each of some times, sorted by the linear extension, the factors of G that make up D."""
        many = times.shape[1]
        below = self._below(times, times)
        inverse = np.eye(many, dtype=np.int64)
        for i in range(many):
            inverse[i] -= below[:i, i].astype(np.int64) @ inverse[:i]
        return inverse

    def _below(self, a: Ints, b: Ints) -> Mask:
        """Whether each of ``a`` is <= each of ``b``."""
        pairs = np.repeat(a, b.shape[1], axis=1), np.tile(b, a.shape[1])
        return self.lattice.less_equal(*pairs).reshape(a.shape[1], b.shape[1])

    def _found(self, rows: Ints, low: int, high: int) -> tuple[Ints, Ints]:
        """Lines from ``low`` to ``high`` and the updates at or below them, by line."""
        starts = np.searchsorted(self.history.group[rows], np.arange(self.history.keys.count + 1))
        lines, which = [], []
        for line in range(low, high):
            mine = rows[starts[self.owner[line]] : starts[self.owner[line] + 1]]
            if line >= len(self.owner) // 2:
                mine = mine[self.history.known[mine]]
            mine = mine[self.lattice.less_equal(self.history.times[:, mine], self.points[:, line : line + 1])]
            which.append(mine)
            lines.append(np.full(len(mine), line))
        return np.concatenate([*lines, np.empty(0, np.int64)]), np.concatenate([*which, np.empty(0, np.int64)])

    def sizes(self, rows: Ints) -> Ints:
        return np.bincount(self._found(rows, 0, len(self.owner))[0], minlength=len(self.owner))

    def groups(self, rows: Ints, low: int, high: int) -> Groups:
        line, which = self._found(rows, low, high)
        none = np.empty(0, np.int64)
        nothing = none, np.zeros(high - low + 1, np.int64)
        return self.history.groups(self.owner[low:high], (which, line - low, line), nothing)

    def spread(self, result: Updates, low: int, high: int) -> Updates:
        return self.out(result, low, high)
