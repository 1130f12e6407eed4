"""Reduce in loops: along the epochs of a step, for every touched group with and without the rows of a round.

A *line* is a touched group in one set of rounds: the updates of rounds <= a round, or those of lesser rounds in some of
the loops, with the sign that this set counts with. All lines are groups of one run of the kernels, whose moments number
the epochs of the lines. A line at which nothing is new changes nothing, and there is none.

A change may matter again at the later rounds of a group, but it rarely does. In one loop the lines of small groups that
were read whole therefore go on through the next rounds: these say at which of them anything would come of what is there
by now. What comes between looks ahead itself, so the first of these rounds is looked at again and no other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.errors import ERROR_SCHEMA, DiffOverflowError
from altneu.operators.kernels.groups import ReduceOutput, sort_by
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.touched_history import History
from altneu.order.difference import multiply
from altneu.trace.update import Updates, consolidate

MOST_ROWS = 1 << 22  # that the kernels are given at once
AHEAD_ROUNDS = 8  # later rounds of a group that are looked at ahead
AHEAD_ROWS = 64  # updates of a group that is looked at ahead
AHEAD_GROUPS = 1024  # groups of a round that are looked at ahead
_NEVER = np.iinfo(np.int64).max


def reduce_along_epochs(history: History, spec: ReduceSpec, operator: str) -> ReduceOutput:
    """Bring groups up to date whose times are (epoch, rounds).

    A group often is the same with and without the rows of a round; a function in Python is then called once for both.

    Cost:   O(n) for the n updates of the groups, times 2^k inside k loops, and times at most ``AHEAD_ROUNDS`` for few
            small groups; one run of the kernels for about ``MOST_ROWS`` of them.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/oracle/test_loops.py).
    """
    spec = spec.for_similar_groups()
    few = history.keys.count <= AHEAD_GROUPS
    if few and history.is_whole and len(history.at) == 1 and spec.looks_ahead:
        try:
            return _reduced(history, spec, operator, AHEAD_ROUNDS)
        except DiffOverflowError:  # perhaps of a count that is not so by the time its round comes
            pass
    return _reduced(history, spec, operator, 0)


def _reduced(history: History, spec: ReduceSpec, operator: str, ahead: int) -> ReduceOutput:
    lines = _Lines.of(history, ahead)
    results: list[ReduceOutput] = []
    for low, high in lines.pieces():
        new, old = slice(*lines.new_start[[low, high]]), slice(*lines.old_start[[low, high]])
        groups = history.groups(
            lines.owner[low:high],
            (lines.new[new], lines.line[new] - low, lines.moment[new]),
            (lines.old[old], lines.old_start[low : high + 1] - lines.old_start[low]),
        )
        results.append(spec.reduce(groups, operator))
    oks, some = _spread([result.oks for result in results], spec.schema, lines, history)
    errs, failed = _spread([result.errs for result in results], ERROR_SCHEMA, lines, history)
    return ReduceOutput(oks, errs, lines.again(history, [*some, *failed]))


@dataclass(frozen=True)
class _Lines:
    """The lines at which something is new, and which updates they have.

    Shape:  line l is of the group ``owner[l]``; ``old`` and ``new`` are updates by line, from ``old_start[l]`` and
            ``new_start[l]`` on (one more at the end), new ones in order of epochs. New update i is of ``line[i]`` and
            ``moment[i]``; moment m is the epoch ``epochs[m]`` of a line that counts with ``signs[m]`` in the output at
            ``place[m]``. Places are the ``groups`` at the round, and then groups, ``ahead[0]``, at a later round,
            ``ahead[1]``. ``later`` is the first round of each group behind those (inside one loop).
    """

    owner: Ints
    old_start: Ints
    new_start: Ints
    old: Ints
    new: Ints
    line: Ints
    moment: Ints
    epochs: Ints
    signs: Ints
    place: Ints
    ahead: Ints
    later: Ints
    groups: int

    @classmethod
    def of(cls, history: History, ahead: int) -> _Lines:
        """Those of the touched groups, at the round and at so many later ones."""
        count = history.keys.count
        made = _laid_out(history.group, history.times, history.first[0], history.at, count, ahead, AHEAD_ROWS)
        (owner, *starts), old, (new, line, moment), (epochs, signs, place), some, later = made
        return cls(owner, starts[0], starts[1], old, new, line, moment, epochs, signs, place, some, later, count)

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Runs of lines that together have at most ``MOST_ROWS`` updates, or are one line."""
        upto = self.old_start + self.new_start
        first, last = 0, len(self.owner) - 1
        while first < last:
            end = last
            if upto[last] - upto[first] > MOST_ROWS:
                end = max(first + 1, int(np.searchsorted(upto, upto[first] + MOST_ROWS, side="right")) - 1)
            yield first, end
            first = end

    def again(self, history: History, some: Sequence[int]) -> Updates:
        """The next round of each group at which something comes of it, if ``some`` are such places; or may come."""
        if len(history.at) != 1:
            return history.later()
        for place in some:
            group = self.ahead[0, place - self.groups]
            self.later[group] = min(self.later[group], self.ahead[1, place - self.groups])
        groups = np.flatnonzero(self.later != _NEVER)
        if not len(groups):
            return Updates.empty(history.keys.schema, history.layout.lattice.width)
        times = np.array([history.first[0, groups], self.later[groups]])
        return Updates(history.keys.take(groups), times, np.ones(len(groups), np.int64))


def _spread(
    results: Sequence[Updates], schema: pa.Schema, lines: _Lines, history: History
) -> tuple[Updates, Sequence[int]]:
    """What the kernels made, at epochs and the round; and at which places ahead they made anything."""
    results = [result for result in results if len(result)]
    if not results:
        return Updates.empty(schema, history.layout.lattice.width), ()
    made = Updates.concat(results, schema, 1)
    moment = made.times[0]
    times = np.empty((1 + len(history.at), len(made)), np.int64)
    times[0], times[1:] = lines.epochs[moment], history.at
    ahead = lines.ahead.shape[1] > 0
    if ahead:
        times[1] = lines.place[moment]
    settled = consolidate(Updates(made.rows, times, multiply(made.diffs, lines.signs[moment])), history.layout.lattice)
    if not ahead:
        return settled, ()
    here = settled.times[1] < lines.groups
    some = settled.times[1, ~here].tolist()
    if some:
        settled = settled.filter(here)
    times = settled.times.copy()
    times[1] = history.at
    return Updates(settled.rows, times, settled.diffs), some


@compiled()
def _laid_out(group: Ints, times: Ints, first: Ints, at: Ints, count: int, ahead: int, small: int) -> Any:
    """Lines as ``_Lines`` has them, sets of rounds one after the other, each by place."""
    rounds, sets = times[1:], 1 << len(at)
    begins, some, later = _next_rounds(group, rounds, at, count, ahead, small)
    places = count + len(some[0])
    upto = np.empty((len(at), places), np.int64)
    for loop in range(len(at)):
        upto[loop, :count] = at[loop, 0]
        upto[loop, count:] = some[1]
    many = np.zeros((2, sets * places), np.int64)
    for i in range(len(group)):
        which = 0 if times[0, i] < first[group[i]] else 1
        for k in range(begins[group[i]] - 1, begins[group[i] + 1]):
            place = group[i] if k < begins[group[i]] else count + k
            for s in range(sets):
                if _is_in(rounds, i, upto, place, s):
                    many[which, s * places + place] += 1
    owners = np.flatnonzero(many[1])
    line_of = np.full(sets * places, -1, np.int64)
    lines = np.zeros((3, len(owners) + 1), np.int64)
    for line in range(len(owners)):
        place = owners[line] % places
        line_of[owners[line]], lines[0, line] = line, place if place < count else some[0, place - count]
        for which in range(2):
            lines[1 + which, line + 1] = lines[1 + which, line] + many[which, owners[line]]
    old, new = np.empty(lines[1, -1], np.int64), np.empty((3, lines[2, -1]), np.int64)
    following = lines[1:, :-1].copy()
    for i in range(len(group)):
        is_new = times[0, i] >= first[group[i]]
        for k in range(begins[group[i]] - 1, begins[group[i] + 1]):
            place = group[i] if k < begins[group[i]] else count + k
            for s in range(sets):
                line = line_of[s * places + place]
                if line >= 0 and _is_in(rounds, i, upto, place, s):
                    if is_new:
                        new[0, following[1, line]] = i
                        following[1, line] += 1
                    else:
                        old[following[0, line]] = i
                        following[0, line] += 1
    return lines, old, new, _moments(times[0], new, lines[2], owners, places), some, later


@compiled()
def _next_rounds(group: Ints, rounds: Ints, at: Ints, count: int, ahead: int, small: int) -> Any:
    """Inside one loop the next ``ahead`` rounds of each small group, as groups and rounds, by both; and the one behind.

    Those of group g are from ``begins[g]`` up to ``begins[g + 1]``.
    """
    begins, later = np.zeros(count + 1, np.int64), np.full(count, _NEVER)
    if len(at) != 1:
        return begins, np.empty((2, 0), np.int64), later
    size, following = np.zeros(count, np.int64), np.full((count, ahead), _NEVER)
    for g in group:
        size[g] += 1
    for i in range(len(group)):
        g, number = group[i], rounds[0, i]
        if number > at[0, 0]:
            for k in range(ahead if size[g] <= small else 0):
                known = following[g, k]
                following[g, k] = min(number, known)
                number = _NEVER if number == known else max(number, known)
            later[g] = min(later[g], number)
    for g in range(count):
        begins[g + 1] = begins[g] + np.sum(following[g] != _NEVER)
    some = np.empty((2, begins[count]), np.int64)
    for g in range(count):
        for k in range(begins[g], begins[g + 1]):
            some[0, k], some[1, k] = g, following[g, k - begins[g]]
    return begins, some, later


@compiled()
def _is_in(rounds: Ints, i: int, upto: Ints, place: int, strict: int) -> bool:
    """Whether an update is of the rounds up to a place, lesser ones in the loops whose bits are set."""
    for loop in range(len(rounds)):  # noqa: SIM110 -- Numba takes no generator here
        if rounds[loop, i] > upto[loop, place] - ((strict >> loop) & 1):
            return False
    return True


@compiled()
def _moments(epoch: Ints, new: Ints, starts: Ints, owners: Ints, places: int) -> Ints:
    """Sort the new updates of each line by epoch, and fill in their lines and moments; epochs, signs and places."""
    result, moments = np.empty((3, new.shape[1]), np.int64), 0
    for line in range(len(owners)):
        start, end, sign, left = starts[line], starts[line + 1], 1, owners[line] // places
        while left:
            sign, left = -sign, left & (left - 1)
        sort_by(new[0, start:end], epoch)
        for p in range(start, end):
            if p == start or epoch[new[0, p]] != epoch[new[0, p - 1]]:
                result[0, moments], result[1, moments] = epoch[new[0, p]], sign
                result[2, moments] = owners[line] % places
                moments += 1
            new[1, p], new[2, p] = line, moments - 1
    return result[:, :moments]
