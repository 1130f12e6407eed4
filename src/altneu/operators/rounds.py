"""Reduce where times are not a chain: inside loops, and where collections have an event time of their own.

In a loop a step runs one round at a time. What must come out at the outer time t and round r is what is left of f(I),
the function of the input at (t, r) and before, when its changes along every coordinate are taken. With an epoch e and
one loop, and writing e- and r- for the moments before, that is

    f(I(e, r)) - f(I(e-, r)) - f(I(e, r-)) + f(I(e-, r-))

which is two runs along the epochs: one over the history of rounds <= r, and one, taken away, over that of rounds < r.
Inside k loops there are 2^k of them, a round being before another when it is so in some coordinate. Outer times that
are no chain themselves are covered by chains (altneu.operators.plane), or taken one by one
(altneu.operators.any_lattice). No outputs are kept.
"""

from __future__ import annotations

import numpy as np

from altneu.batch import Arranged
from altneu.operators.along import Lines, reduce_along
from altneu.operators.any_lattice import reduce_at_any
from altneu.operators.groups import Groups, ReduceOutput
from altneu.operators.plane import reduce_on_plane
from altneu.operators.reduce import ReduceSpec
from altneu.operators.touched_history import History
from altneu.order import outside
from altneu.rows import Ints
from altneu.update import Updates


def reduce_in_round(
    arranged: Arranged, rounds: tuple[int, ...], again: Updates, spec: ReduceSpec, operator: str
) -> ReduceOutput:
    """Bring the groups up to date, at one round, that have new updates or are to be looked at ``again``.

    Shape:  times are those of any lattice, with ``rounds`` behind them in loops, where every new update and every time
            of ``again`` (rows of the key) is at ``rounds``, and old ones are folded to epochs before this step's;
            ``pended`` are the times, at later rounds, at which groups must be looked at again.
    Cost:   re-reads the touched groups' histories; 2^k runs over them inside k loops.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/oracle/test_loops.py, tests/oracle/test_two_times.py).
    """
    outer, _ = outside(arranged.layout.lattice)
    if not arranged.layout.lattice.is_columnwise or outer.width > 2:
        return reduce_at_any(arranged, rounds, again, spec, operator)
    history = History.of(arranged, rounds, again)
    if outer.width == 2:
        return reduce_on_plane(history, spec, operator)
    return reduce_along(history, _Epochs(history), spec, operator)


class _Epochs(Lines):
    """One line a group, of the epochs at which something is new; a moment is an epoch's number times the groups."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.owner = np.arange(history.keys.count)
        self.epochs = np.unique(history.times[0, ~history.known])

    def sizes(self, rows: Ints) -> Ints:
        return np.bincount(self.history.group[rows], minlength=len(self.owner))

    def groups(self, rows: Ints, low: int, high: int) -> Groups:
        history = self.history
        start, stop = np.searchsorted(history.group[rows], [low, high])
        rows = rows[start:stop]
        known = history.known[rows]
        new, old = rows[~known], rows[known]
        group = history.group[new]
        moments = np.searchsorted(self.epochs, history.times[0, new]) * len(self.owner) + group
        return history.groups(self.owner[low:high], (new, group - low, moments), (old, history.group[old] - low))

    def spread(self, made: Updates, low: int, high: int) -> Updates:
        epoch = self.epochs[made.times[0] // max(1, len(self.owner))]
        rounds = np.repeat(self.history.at, len(made), axis=1)
        return Updates(made.rows, np.concatenate([epoch[None], rounds]), made.diffs)
