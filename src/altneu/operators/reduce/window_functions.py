"""Window functions over rows that are lined up: for each place its result, in a form in which results compare fast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from altneu.columnar.columns import column_of_words
from altneu.columnar.rows import Ints, positions_of, taken
from altneu.operators.reduce.accumulate import Mask, valid_of
from altneu.operators.reduce.aggregates import column_of, result_type
from altneu.operators.reduce.calls import COPY_NUMBER, Frame, WindowCall
from altneu.operators.reduce.lined_up import Places

_MOST_ROWS = 1 << 40  # away from a place; no line is as long


def frame_of(frame: Frame, places: Places) -> tuple[Ints, Ints]:
    """Where the frame of each place begins and ends; an empty one ends where it begins."""
    low, high = places.start, places.end
    if frame.rows:
        if frame.start is not None:
            low = np.minimum(np.maximum(places.at + _near(frame.start), places.start), places.end)
        if frame.end is not None:
            high = np.minimum(np.maximum(places.at + _near(frame.end) + 1, places.start), places.end)
    else:
        if isinstance(frame.start, str):
            low = places.first_at(places.ordered.bound(frame.start, after=False)[places.row])
        elif frame.start is not None:
            low = places.peers_start
        if isinstance(frame.end, str):
            high = places.first_at(places.ordered.bound(frame.end, after=True)[places.row])
        elif frame.end is not None:
            high = places.peers_end
    return low, np.maximum(low, high)


def _near(bound: int | str) -> int:
    assert isinstance(bound, int)
    return max(-_MOST_ROWS, min(bound, _MOST_ROWS))


# results --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Words:
    """Numbers: the words of each place's result. ``failed`` are places whose result leaves the range of its type."""

    type: pa.DataType
    low: Ints
    high: Ints | None = None
    valid: Mask | None = None
    failed: Mask | None = None

    def lines(self) -> list[Ints] | None:
        """Keys of which all are equal exactly where results are."""
        lines = [self.low] if self.high is None else [self.low, self.high]
        if self.valid is None:
            return lines
        return [self.valid.astype(np.int64), *(np.where(self.valid, line, 0) for line in lines)]

    def at(self, places: Ints) -> Words:
        """The results at some places."""
        return Words(
            self.type,
            self.low[places],
            None if self.high is None else self.high[places],
            None if self.valid is None else self.valid[places],
            None if self.failed is None else self.failed[places],
        )

    @property
    def array(self) -> pa.Array:
        """The results as a column."""
        if self.valid is None and self.high is None and self.type.bit_width in (32, 64):
            return column_of_words(self.type, self.low)
        valid = np.ones(len(self.low), np.bool_) if self.valid is None else self.valid
        if pa.types.is_int32(self.type) or pa.types.is_boolean(self.type):
            return pa.array(self.low.astype(self.type.to_pandas_dtype()), mask=~valid)
        return column_of(self.type, self.low, self.low if self.high is None else self.high, valid)


@dataclass(frozen=True)
class Picked:
    """Values of a column: the position of each place's result in it, -1 for null.

    With ``codes`` of the values, which are equal exactly where these are, results can be compared.
    """

    values: pa.Array
    position: Ints
    codes: Callable[[], Ints] | None
    failed: Mask | None = field(default=None)

    def lines(self) -> list[Ints] | None:
        """Keys of which all are equal exactly where results are; None where only the values themselves can tell."""
        if self.codes is None:
            return None
        valid = self.position >= 0
        if self.values.null_count:
            valid[valid] = valid_of(self.values)[self.position[valid]]
        code = np.zeros(len(valid), np.int64)
        code[valid] = self.codes()[self.position[valid]]
        return [valid.astype(np.int64), code]

    def at(self, places: Ints) -> Picked:
        """The results at some places."""
        return Picked(
            self.values, self.position[places], self.codes, None if self.failed is None else self.failed[places]
        )

    @property
    def array(self) -> pa.Array:
        """The results as a column."""
        return taken(self.values, positions_of(self.position, self.position >= 0))


Results = Words | Picked


def row_picked(places: Places, name: str, at: Ints) -> Picked:
    """The values of a column at other places, null where such a place is -1."""
    position = np.where(at < 0, at, places.row[at])
    return Picked(places.ordered.column(name), position, partial(places.ordered.codes, name))


# functions of a place -------------------------------------------------------------------------------------------------


def _row_number(places: Places) -> Ints:
    return places.at - places.start + 1 + places.skipped


def _rank(places: Places) -> Ints:
    return places.peers_start - places.start + 1 + places.skipped


def _dense_rank(places: Places) -> Ints:
    return places.peers - places.peers[places.start] + 1 + places.skipped_peers


def _percent_rank(places: Places) -> Ints:
    others = places.end - places.start - 1
    return np.where(others > 0, (_rank(places) - 1) / np.maximum(others, 1), 0.0).view(np.int64)


def _cume_dist(places: Places) -> Ints:
    return ((places.peers_end - places.start) / (places.end - places.start)).view(np.int64)


def _ntile(places: Places, parts: int) -> Ints:
    """Parts of equal size, the first ones one larger."""
    size, larger = np.divmod(places.end - places.start, parts)
    before = places.at - places.start
    inside = larger * (size + 1)
    return np.where(
        before < inside, before // (size + 1), larger + (before - inside) // np.maximum(size, 1)
    ) + 1  # fmt: skip


def _copy_number(places: Places) -> Ints:
    return places.copy + 1


_OF_PLACE: dict[str, tuple[Callable[[Places], Ints], pa.DataType]] = {
    "row_number": (_row_number, pa.int32()),
    "rank": (_rank, pa.int32()),
    "dense_rank": (_dense_rank, pa.int32()),
    "percent_rank": (_percent_rank, pa.float64()),
    "cume_dist": (_cume_dist, pa.float64()),
    COPY_NUMBER: (_copy_number, pa.int32()),
}


def of_place(call: WindowCall, places: Places) -> Words:
    """A function of where a place is in its line."""
    function = call.call.function
    if function == "ntile":
        return Words(pa.int32(), _ntile(places, call.number))
    result, type_ = _OF_PLACE[function]
    return Words(type_, result(places))


# functions that pick a place ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Some:
    """The places that count: those on which some columns are not null.

    Shape:  ``places`` (m,) ascending; ``before`` (n + 1,): how many of them are before each place.
    """

    places: Ints
    before: Ints

    @classmethod
    def of(cls, places: Places, names: tuple[str, ...]) -> Some:
        """Those on which no column of ``names`` is null."""
        columns = [places.ordered.column(name) for name in names]
        columns = [column for column in columns if column.null_count]
        if not columns:
            return cls(places.at, np.arange(len(places) + 1))
        there = np.ones(len(places), np.bool_)
        for column in columns:
            there &= valid_of(column)[places.row]
        return cls(np.flatnonzero(there), np.append(0, np.cumsum(there)))

    def pick(self, number: Ints, low: Ints, high: Ints) -> Ints:
        """The places by number that are from ``low`` up to ``high``, -1 where one is not."""
        inside = (number >= self.before[low]) & (number < self.before[high])
        result = np.full(len(number), -1, np.int64)
        result[inside] = self.places[number[inside]]
        return result


def picking(call: WindowCall, places: Places) -> Results:
    """A function that gives a value of another row: ``lag``, ``lead``, ``first``, ``last``, ``nth_value``."""
    function, arguments = call.call.function, call.call.arguments
    if function in ("lag", "lead"):
        at = _away(places, call.number if function == "lead" else -call.number, call, arguments)
        if not arguments:
            return Words(pa.bool_(), (at >= 0).astype(np.int64), valid=at >= 0)
        return row_picked(places, arguments[0], at)
    assert call.frame is not None
    low, high = frame_of(call.frame, places)
    some = Some.of(places, arguments if call.ignore_nulls else ())
    number = some.before[high] - 1 if function == "last" else some.before[low] + call.number - 1
    return row_picked(places, arguments[0], some.pick(number, low, high))


def _away(places: Places, distance: int, call: WindowCall, arguments: tuple[str, ...]) -> Ints:
    """The place so many places on, or back; of those that count, where nulls do not."""
    if not call.ignore_nulls or not distance:
        at = places.at + _near(distance)
        return np.where((at >= places.start) & (at < places.end), at, -1)
    some = Some.of(places, arguments)
    number = some.before[places.at + 1] - 1 if distance > 0 else some.before[places.at]
    return some.pick(number + _near(distance), places.start, places.end)


PICKING = ("lag", "lead", "first", "last", "nth_value")
OF_PLACE = (*_OF_PLACE, "ntile")


def type_of(call: WindowCall, schema: pa.Schema) -> pa.DataType:
    """The type of a function's results over columns of ``schema``."""
    function, arguments = call.call.function, call.call.arguments
    if function in OF_PLACE:
        return pa.int32() if function not in _OF_PLACE else _OF_PLACE[function][1]
    if function in PICKING:
        return schema.field(arguments[0]).type if arguments else pa.bool_()
    return result_type(call.call, schema)
