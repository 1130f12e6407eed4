"""Reduce in loops: along the epochs of a step, for every touched group with and without the rows of a round.

A *line* is a touched group in one set of rounds: the updates of rounds <= ``at``, or those of lesser rounds in some of
the loops, with the sign that this set counts with. All lines are groups of one run of the kernels, whose moments number
the epochs of the lines. A line at which nothing is new changes nothing, and there is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from altneu.columnar.rows import Ints
from altneu.errors import ERROR_SCHEMA
from altneu.operators.kernels.compiled import compiled
from altneu.operators.kernels.groups import ReduceOutput, no_errors, sort_by
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.touched_history import History, round_columns
from altneu.order.difference import multiply
from altneu.trace.update import Updates, consolidate

MOST_ROWS = 1 << 22  # that the kernels are given at once


def reduce_along_epochs(history: History, spec: ReduceSpec, operator: str) -> ReduceOutput:
    """Bring groups up to date whose times are (epoch, rounds).

    A group often is the same with and without the rows of a round; a function in Python is then called once for both.

    Cost:   O(n) for the n updates of the groups, times 2^k inside k loops; one run of the kernels for about
            ``MOST_ROWS`` of them.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/oracle/test_loops.py).
    """
    lines, width = _Lines.of(history), history.layout.lattice.width
    spec = spec.for_similar_groups()
    results: list[ReduceOutput] = []
    for low, high in lines.pieces():
        new, old = slice(*lines.new_start[[low, high]]), slice(*lines.old_start[[low, high]])
        groups = history.groups(
            lines.owner[low:high],
            (lines.new[new], lines.line[new] - low, lines.moment[new]),
            (lines.old[old], lines.old_start[low : high + 1] - lines.old_start[low]),
        )
        results.append(spec.reduce(groups, operator))
    oks = [_spread(result.oks, lines, history.at) for result in results if len(result.oks)]
    errs = [_spread(result.errs, lines, history.at) for result in results if len(result.errs)]
    return ReduceOutput(
        consolidate(Updates.concat(oks, spec.schema, width), history.layout.lattice),
        consolidate(Updates.concat(errs, ERROR_SCHEMA, width), history.layout.lattice) if errs else no_errors(width),
        history.later(),
    )


@dataclass(frozen=True)
class _Lines:
    """The lines at which something is new, and which updates they have.

    Shape:  line l is of the group ``owner[l]``; ``old`` and ``new`` are updates by line, from ``old_start[l]`` and
            ``new_start[l]`` on (one more at the end), new ones in order of epochs. New update i is of ``line[i]`` and
            ``moment[i]``; moment m is the epoch ``epochs[m]`` of a line that counts with ``signs[m]``.
    """

    owner: Ints
    old: Ints
    old_start: Ints
    new: Ints
    new_start: Ints
    line: Ints
    moment: Ints
    epochs: Ints
    signs: Ints

    @classmethod
    def of(cls, history: History) -> _Lines:
        """Those of the touched groups."""
        rounds = history.times[round_columns(history.layout.lattice)]
        return cls(*_laid_out(history.group, history.times[0], rounds, history.known, history.at, history.keys.count))

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Runs of lines that together have at most ``MOST_ROWS`` updates, or are one line."""
        upto = self.old_start + self.new_start
        first, last = 0, len(self.owner)
        while first < last:
            end = last
            if upto[last] - upto[first] > MOST_ROWS:
                end = max(first + 1, int(np.searchsorted(upto, upto[first] + MOST_ROWS, side="right")) - 1)
            yield first, end
            first = end


def _spread(result: Updates, lines: _Lines, at: Ints) -> Updates:
    """What the kernels made, at epochs and the round."""
    times = np.empty((1 + len(at), len(result)), np.int64)
    times[0], times[1:] = lines.epochs[result.times[0]], at
    return Updates(result.rows, times, multiply(result.diffs, lines.signs[result.times[0]]))


@compiled
def _lesser(rounds: Ints, at: Ints) -> Ints:
    """The set of loops, as bits, in which an update is of a lesser round; -1 where it is of a later one in any."""
    result = np.zeros(rounds.shape[1], np.int64)
    for loop in range(len(at)):
        for i in range(len(result)):
            if rounds[loop, i] > at[loop, 0]:
                result[i] = -1
            elif rounds[loop, i] < at[loop, 0] and result[i] >= 0:
                result[i] |= 1 << loop
    return result


@compiled
def _laid_out(group: Ints, epoch: Ints, rounds: Ints, known: Any, at: Ints, count: int) -> Any:
    """Lines as ``_Lines`` has them, sets of rounds one after the other, each by group."""
    sets, lesser = 1 << len(at), _lesser(rounds, at)
    many = np.zeros((2, sets * count), np.int64)
    for i in range(len(group)):
        for s in range(sets if lesser[i] >= 0 else 0):
            if s & ~lesser[i] == 0:
                many[0 if known[i] else 1, s * count + group[i]] += 1
    owners = np.flatnonzero(many[1])
    line_of = np.full(sets * count, -1, np.int64)
    line_of[owners] = np.arange(len(owners))
    starts = np.zeros((2, len(owners) + 1), np.int64)
    for line in range(len(owners)):
        for which in range(2):
            starts[which, line + 1] = starts[which, line] + many[which, owners[line]]
    old, new = np.empty(starts[0, -1], np.int64), np.empty(starts[1, -1], np.int64)
    following = starts[:, :-1].copy()
    for i in range(len(group)):
        for s in range(sets if lesser[i] >= 0 else 0):
            line = line_of[s * count + group[i]]
            if s & ~lesser[i] == 0 and line >= 0:
                which = 0 if known[i] else 1
                if which:
                    new[following[1, line]] = i
                else:
                    old[following[0, line]] = i
                following[which, line] += 1
    return owners % count, old, starts[0], new, starts[1], *_moments(epoch, new, starts[1], owners // count)


@compiled
def _moments(epoch: Ints, new: Ints, starts: Ints, chosen: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Sort the new updates of each line by epoch; their lines and moments, and the epochs and signs of these."""
    line, moment = np.empty(len(new), np.int64), np.empty(len(new), np.int64)
    epochs, signs = np.empty(len(new), np.int64), np.empty(len(new), np.int64)
    moments = 0
    for at in range(len(chosen)):
        start, end, sign, left = starts[at], starts[at + 1], 1, chosen[at]
        while left:
            sign, left = -sign, left & (left - 1)
        sort_by(new[start:end], epoch)
        for p in range(start, end):
            if p == start or epoch[new[p]] != epoch[new[p - 1]]:
                epochs[moments], signs[moments] = epoch[new[p]], sign
                moments += 1
            line[p], moment[p] = at, moments - 1
    return line, moment, epochs[:moments], signs[:moments]
