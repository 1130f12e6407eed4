"""Reduce where times are not a chain: inside loops, and where collections have an event time of their own.

In a loop a step runs one round at a time. What must come out at the outer time t and round r is what is left of f(I),
the function of the input at (t, r) and before, when its changes along every coordinate are taken. With an epoch e and
one loop, and writing e- and r- for the moments before, that is

    f(I(e, r)) - f(I(e-, r)) - f(I(e, r-)) + f(I(e-, r-))

which is two functions of the epochs: one of the history of rounds <= r, and one, taken away, of that of rounds < r.
Inside k loops there are 2^k of them, a round being before another when it is so in some coordinate
(altneu.operators.reduce.along_epochs). Outer times that
are no chain themselves are covered by chains (altneu.operators.reduce.plane), or taken one by one
(altneu.operators.reduce.any_lattice). No outputs are kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from altneu.columnar.hashing import hash_rows
from altneu.operators.base import ArrangementState, Here
from altneu.operators.kernels.dead_rows import DeadRows
from altneu.operators.kernels.groups import ReduceOutput
from altneu.operators.reduce.along_epochs import reduce_along_epochs
from altneu.operators.reduce.any_lattice import reduce_at_any
from altneu.operators.reduce.plane import reduce_on_plane
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.standing import FirstRows
from altneu.operators.reduce.touched_history import History
from altneu.order import outside
from altneu.trace.batch import LARGEST_HASH, Arranged
from altneu.trace.spine import Spine
from altneu.trace.update import Updates

MOST_ROWS = 1 << 19  # new updates whose groups are reduced together


def step_in_round(
    arranged: Arranged, here: Here, spec: ReduceSpec, needed: FirstRows | None = None
) -> ReduceOutput | None:
    """The step of an operation that computes a function of groups over times that are no chain; None: nothing changes.

    In a loop it computes groups again at the rounds that earlier rounds asked for, and stores what it asks for itself.
    """
    name, layout = here.pended
    due, future = here.state(name, layout).future.take(here.region.rounds, here.region.upper)
    if not due and not len(arranged.new):
        return None
    again = Updates.concat(due, layout.schema, layout.lattice.width)
    result = reduce_in_round(arranged, here.region.rounds, again, spec, here.label, needed)
    if due or len(result.pended):
        future = future.add(result.pended, here.mode.future_bytes, settled=True)
        here.keep(name, ArrangementState(Spine.empty(layout), future))
    return result


def reduce_in_round(
    arranged: Arranged,
    rounds: tuple[int, ...],
    again: Updates,
    spec: ReduceSpec,
    operator: str,
    needed: FirstRows | None = None,
) -> ReduceOutput:
    """Bring the groups up to date, at one round, that have new updates or are to be looked at ``again``.

    Shape:  times are those of any lattice, with ``rounds`` behind them in loops, where every new update and every time
            of ``again`` (rows of the key) is at ``rounds``, and old ones are folded to epochs before this step's;
            ``pended`` are the times, at later rounds, at which groups must be looked at again. Of groups in order
            only the rows are read that are ``needed``.
    Cost:   re-reads the touched groups' histories, or what is needed of them; 2^k runs over them inside k loops. In
            memory are those of about ``MOST_ROWS`` of what is new at a time.
    Law:    at every time the output accumulates to the function of what the input accumulates to
            (tests/oracle/test_loops.py, tests/oracle/test_two_times.py).
    """
    size = len(arranged.new) + len(again)
    if size <= MOST_ROWS:
        return _reduced(arranged, rounds, again, spec, operator, needed)
    if any(len(batch) for batch in arranged.old):
        DeadRows.of(arranged).gaps.clear()  # the parts are read beside it
    parts = [_reduced(*part, spec, operator, needed) for part in _parted(arranged, rounds, again, size)]
    width = arranged.layout.lattice.width
    oks, errs, pended = (
        Updates.concat(result, result[0].schema, width)
        for result in zip(*((part.oks, part.errs, part.pended) for part in parts), strict=True)
    )
    return ReduceOutput(oks, errs, pended)


def _parted(
    arranged: Arranged, rounds: tuple[int, ...], again: Updates, size: int
) -> Iterator[tuple[Arranged, tuple[int, ...], Updates]]:
    """The same groups, those of a range of key hashes after the others: what is read of them is much more than they."""
    hashes = hash_rows(again.rows)
    count = -(-size // MOST_ROWS)
    for lower, upper in pairwise((LARGEST_HASH + 1) * i // count for i in range(count + 1)):
        old = tuple(batch.between(lower, upper) for batch in arranged.old)
        new = arranged.new.between(lower, upper)
        within = (hashes >= np.uint64(lower)) & (hashes <= np.uint64(upper - 1))
        if len(new) or within.any():
            yield Arranged(arranged.layout, old, new), rounds, again.filter(within)


def _reduced(
    arranged: Arranged,
    rounds: tuple[int, ...],
    again: Updates,
    spec: ReduceSpec,
    operator: str,
    needed: FirstRows | None,
) -> ReduceOutput:
    if needed is None or not any(batch.count for batch in arranged.old) or not DeadRows.of(arranged).gaps:
        result = spec.of_few(arranged, rounds, again)
        if result is not None:
            return result
    outer, _ = outside(arranged.layout.lattice)
    if not arranged.layout.lattice.is_columnwise or outer.width > 2:
        return reduce_at_any(arranged, rounds, again, spec, operator)
    history = History.of(arranged, rounds, again, needed)
    if outer.width == 2:
        return reduce_on_plane(history, spec, operator)
    return reduce_along_epochs(history, spec, operator)
