"""Window functions: every row with what functions of its place in its group, or over its frame, come to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import Mask
from altneu.columnar.ranking import Order
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.errors import PlanError, TypeMismatchError, UnknownColumnError
from altneu.operators.kernels.changes import state_text
from altneu.operators.kernels.contents import Contents, contents
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
from altneu.operators.kernels.small_ends import PLACES, RANKS, first_rows
from altneu.operators.reduce.aggregates import DATA, OVERFLOW
from altneu.operators.reduce.calls import FirstRows, WindowCall
from altneu.operators.reduce.lined_up import Ordered, Places
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.window_aggregates import aggregate
from altneu.operators.reduce.window_functions import OF_PLACE, PICKING, Results, Words, of_place, picking, type_of
from altneu.order import Epoch
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates, consolidate
from altneu.types import no_key

_RANKED = {"rank": RANKS, "dense_rank": PLACES}


@dataclass(frozen=True)
class WindowSpec(ReduceSpec):
    """Every row of ``input``, or some ``first``, as often as it is there, with a column of each call behind its own.

    Raises:
        PlanError: a frame with values for bounds has not one order column.
        UnknownColumnError: an order column that is not there.
        TypeMismatchError: an order column that is a map.
    """

    kind = "window"

    key: tuple[str, ...]
    calls: tuple[WindowCall, ...]
    input: pa.Schema
    first: FirstRows | None = None

    def __post_init__(self) -> None:
        for call in self.calls:
            for name, _, _ in call.order:
                if self.input.get_field_index(name) < 0:
                    raise UnknownColumnError(name, self.input.names, "window order")
                if what := no_key(self.input.field(name).type):
                    raise TypeMismatchError(f"a window cannot be ordered by {name!r}: {what} have no order")
            bounds = () if call.frame is None else (call.frame.start, call.frame.end)
            if any(isinstance(b, str) for b in bounds) and len(call.order) != 1:
                raise PlanError(
                    f"the frame of {call.signature} has values as bounds, which needs exactly one order column"
                )

    @cached_property
    def schema(self) -> pa.Schema:
        """The input's columns, then one column a call."""
        return pa.schema([*self.input, *(pa.field(f"#w{i}", type_of(c, self.input)) for i, c in enumerate(self.calls))])

    @cached_property
    def computed(self) -> tuple[WindowCall, ...]:
        """The calls, and what numbers the first rows."""
        return self.calls if self.first is None else tuple(dict.fromkeys((*self.calls, self.first.number)))

    @cached_property
    def orders(self) -> list[tuple[Order, ...]]:
        """The distinct orders of the calls."""
        return [*dict.fromkeys(c.order for c in self.computed)]

    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """The rows of each group, lined up in each order."""
        return reduce_window(given, self, operator)

    def of_ends(self, given: Arranged) -> ReduceOutput | None:
        """The first rows by their rank at the front of each group, where nothing else is computed of them."""
        if self.first is None or self.calls or given.layout.order != self.first.number.order:
            return None
        way = _RANKED.get(self.first.number.call.function)
        if way is None or (found := first_rows(given, self.first.k, way)) is None:
            return None
        updates, _ = found
        rows = Rows(self.schema, updates.rows.columns, updates.rows.count)
        return ReduceOutput(Updates(rows, updates.times, updates.diffs), no_errors(1), NOTHING_PENDED)


def reduce_window(given: Arranged | Groups, spec: WindowSpec, operator: str = "window") -> ReduceOutput:
    """Bring the rows of the touched groups up to date with their window functions.

    Shape:  an arrangement by ``spec.key`` in; rows of ``spec.schema`` and error rows out. Of rows whose results stay as
            they are nothing comes, nor of what is not among the first rows, whose results may fail.
    Cost:   re-reads the touched groups: for each distinct order a sort of their rows, and then for each call, at each
            moment and before, what ``aggregate`` says or O(n). No exchange, no state beside the arrangement.
    Law:    at every time the output accumulates to the window functions of what the input accumulates to; a row whose
            count is below zero makes its group an error until it is not, and so does a result that leaves the range of
            its type (tests/operators/test_reduce_window.py).

    Raises:
        PlanError: the times are not totally ordered.
        DiffOverflowError: a count leaves the signed 64-bit range.
        StepFailedError: a group has more rows than can be numbered.
    """
    require_total(given, operator)
    if is_quiet(given):
        return output(spec.schema, [], [])
    held = contents(given)
    oks, errs = [], []
    for piece in zip(*(Ordered.of(held, order).pieces() for order in spec.orders), strict=True):
        places, results = piece[0], _results(piece, spec)
        shown = _shown(results, spec)
        results = results[: len(spec.calls)]
        _fail(places, results, shown)
        oks.append(_changed(places, results, spec, shown))
        errs.append(_errors(places, held, spec.calls, operator))
    return output(spec.schema, oks, errs)


def _results(piece: Sequence[Places], spec: WindowSpec) -> list[Results]:
    """What each call comes to at each place of the first order."""
    same = [None, *(piece[0].places_in(other) for other in piece[1:])]
    results = []
    for call in spec.computed:
        order = spec.orders.index(call.order)
        result, moved = _result(call, piece[order]), same[order]
        results.append(result if moved is None else result.at(moved))
    return results


def _result(call: WindowCall, places: Places) -> Results:
    if call.call.function in OF_PLACE:
        return of_place(call, places)
    return picking(call, places) if call.call.function in PICKING else aggregate(call, places)


def _shown(results: Sequence[Results], spec: WindowSpec) -> Mask | None:
    """Which places are among the first rows; None for all."""
    if spec.first is None:
        return None
    number = results[spec.computed.index(spec.first.number)]
    assert isinstance(number, Words)
    return number.low <= spec.first.k


def _fail(places: Places, results: Sequence[Results], shown: Mask | None) -> None:
    """A line with a result that is out of range is an error, of the first call that fails on it."""
    for number, result in reversed([*enumerate(results)]):
        if result.failed is not None:
            failed = result.failed if shown is None else result.failed & shown
            places.state[places.line[failed]] = OVERFLOW + number


def _changed(places: Places, results: Sequence[Results], spec: WindowSpec, shown: Mask | None) -> Updates:
    """Rows that come and go from one line to the next."""
    compared = [result.lines() for result in results]
    flat = [line for lines in compared for line in lines or []]
    if shown is not None:
        flat.append(shown.astype(np.int64))
    keys = np.array(flat, np.int64).reshape(len(flat), places.rank.size)
    sure = all([lines is not None for lines in compared])  # noqa: C419  # a generator takes longer
    at, signs, moments, copies = _differ(
        places.bounds, places.state, places.moment, places.rank, places.copy, keys, sure
    )
    if shown is not None:
        at, signs, moments = (some[shown[at]] for some in (at, signs, moments))
    held = places.ordered.held
    groups, value = held.groups, places.row[at]
    rows = groups.layout.join(groups.keys.take(held.group[value]), held.values.take(value))
    rows = rows.widened(spec.schema, [result.at(at).array for result in results])
    built = Updates(rows, groups.new_times[held.moment_at[moments]].reshape(1, -1), signs)
    return consolidate(built, Epoch()) if not sure or copies else built


@compiled()
def _differ(bounds: Ints, states: Ints, moments: Ints, ranks: Ints, copies: Ints, keys: Ints, sure: bool) -> Any:
    """What comes and goes: (place, sign, moment); and whether any is a further copy of its row.

    Unless ``sure``, equal keys do not say that results are equal.
    """
    room = 2 * len(ranks)
    at, signs, moment = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room, np.int64)
    count, further = 0, False
    for line in range(1, len(moments)):
        if moments[line] < 0:
            continue
        i, was = bounds[line - 1], bounds[line]
        j, is_ = bounds[line], bounds[line + 1]
        if states[line - 1] != DATA:
            i = was
        if states[line] != DATA:
            j = is_
        while i < was or j < is_:
            goes, comes = i < was, j < is_
            if goes and comes:
                earlier = ranks[i] - ranks[j] if ranks[i] != ranks[j] else copies[i] - copies[j]
                goes, comes = earlier <= 0, earlier >= 0
            same = goes and comes and sure
            for k in range(len(keys) if same else 0):
                same &= keys[k, i] == keys[k, j]
            if goes and not same:
                at[count], signs[count], moment[count] = i, -1, moments[line]
                count, further = count + 1, further or copies[i] > 0
            if comes and not same:
                at[count], signs[count], moment[count] = j, 1, moments[line]
                count, further = count + 1, further or copies[j] > 0
            i, j = i + goes, j + comes
    return at[:count], signs[:count], moment[:count], further


def _errors(places: Places, held: Contents, calls: Sequence[WindowCall], operator: str) -> Updates:
    """Groups that become errors and that heal."""
    changed = ((places.moment[1:] >= 0) & (places.state[1:] != places.state[:-1])).nonzero()[0]
    if not changed.size:
        return no_errors(1)
    lines = np.stack([changed, changed + 1], axis=1).reshape(-1)
    signs = np.tile([-1, 1], len(changed))
    moments = np.repeat(places.moment[changed + 1], 2)
    wrong = places.state[lines] != DATA
    texts = [state_text(state, calls) for state in places.state[lines[wrong]].tolist()]
    return error_updates(operator, held.groups, held.moment_at[moments[wrong]], signs[wrong], texts)
