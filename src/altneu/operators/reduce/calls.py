"""Aggregates and window functions as values: what nodes say and kernels compute, over columns by name."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.expressions.names import ACCUMULABLE

State = Literal[
    "sums",
    "sums of distinct values",
    "ends",
    "quantiles",
    "quantiles of distinct values",
    "counts of values",
    "distinct values",
]
"""From what of a group aggregates are computed: sums, or values in an order, and from which of these."""


@dataclass(frozen=True)
class Aggregate:
    """One aggregate of a group: a function over named columns of the input; ``text`` is how it was written.

    ``count`` without arguments counts rows. ``distinct`` says that equal values count once. ``options`` are a
    percentile's fraction and whether it is counted from the greatest value on, whether a mode is the greatest of the
    most frequent values, and for each further argument of collect_list, which it is ordered by, (descending, nulls
    first), and in the end whether the values themselves descend. A list ends after ``most`` elements if that is not 0.

    >>> total = Aggregate("sum", ("#a0",), pa.int64(), distinct=True, text="sum(distinct price * qty)")
    >>> str(total), total.signature
    ('sum(distinct price * qty)', 'sum(distinct #a0)')
    """

    function: str
    arguments: tuple[str, ...]
    type: pa.DataType
    distinct: bool = False
    text: str = field(default="", compare=False, repr=False)

    options: tuple[Any, ...] = ()
    most: int = 0

    @property
    def accumulable(self) -> bool:
        """Whether a few numbers per group are all the state it needs."""
        several = self.function == "count" and len(self.arguments) > 1
        return self.function in ACCUMULABLE and not self.distinct and not several

    @property
    def is_extreme(self) -> bool:
        """Whether its value is a row's, the least or the greatest."""
        return self.function in ("min", "max") and len(self.arguments) == 1 and not self.options

    @property
    def state(self) -> State | None:
        """From what of its group it is computed; None for the whole of it."""
        if self.accumulable:
            return "sums"
        if self.is_extreme or self.most:
            return "ends"
        if self.function in ("percentile", "percentile_disc"):
            return "quantiles of distinct values" if self.distinct else "quantiles"
        if self.function == "mode":
            return "counts of values"
        if self.function == "collect_set":
            return "distinct values"
        adds_distinct = self.distinct and len(self.arguments) == 1 and self.of_all.accumulable
        return "sums of distinct values" if adds_distinct else None

    @property
    def fraction(self) -> float:
        """How far through the values in ascending order a percentile is."""
        fraction, descending = self.options
        return float(1 - fraction if descending else fraction)

    @property
    def is_last(self) -> bool:
        """Whether a mode is the last in order of the most frequent values."""
        return self.function == "mode" and bool(self.options[0])

    @property
    def from_end(self) -> bool:
        """Whether it is of the last values in ascending order, if it is of the first or last."""
        return bool(self.options and self.options[-1]) if self.most else self.function == "max"

    @property
    def of_all(self) -> Aggregate:
        """The same of all values, and not of distinct ones."""
        return replace(self, distinct=False)

    def __repr__(self) -> str:
        options = f", options={self.options!r}" * bool(self.options) + f", most={self.most!r}" * bool(self.most)
        return (
            f"Aggregate(function={self.function!r}, arguments={self.arguments!r}, type={self.type!r}, "
            f"distinct={self.distinct!r}{options})"
        )

    @property
    def signature(self) -> str:
        """The function and the columns that it reads: what errors call it."""
        return f"{self.function}({'distinct ' * self.distinct}{', '.join(self.arguments) or '*'})"

    def __str__(self) -> str:
        return self.text or self.signature


@dataclass(frozen=True)
class Frame:
    """Which rows of its group a row's function is over, in an order: those from ``start`` up to and with ``end``.

    Bounds of ``rows`` count rows from the row itself, those before it negative. Else 0 is the row with its peers,
    which are equal to it in the order, and a name is the column that holds a value of the one order column. None has
    no bound.
    """

    rows: bool
    start: int | str | None
    end: int | str | None

    @property
    def backward(self) -> Frame:
        """The same rows in the reverse order."""
        start, end = (-bound if isinstance(bound, int) else bound for bound in (self.start, self.end))
        return Frame(self.rows, end, start)

    def __repr__(self) -> str:
        return f"Frame(rows={self.rows!r}, start={self.start!r}, end={self.end!r})"

    def __str__(self) -> str:
        start = _bound(self.start, "unbounded preceding")
        return f"{'rows' if self.rows else 'range'} between {start} and {_bound(self.end, 'unbounded following')}"


def _bound(bound: int | str | None, without: str) -> str:
    if bound is None or isinstance(bound, str):
        return bound or without
    return f"{abs(bound)} {'preceding' if bound < 0 else 'following'}" if bound else "current row"


@dataclass(frozen=True)
class WindowCall:
    """One window function: an aggregate over a frame, or a function of a row's place in its group.

    Rows that ``order`` leaves undecided are in the order of the whole row's value, column by column in the schema's
    order, ascending, nulls first; arrival means nothing. ``number`` is how many rows on ``lead`` reads (``lag``: back),
    which row of its frame ``nth_value`` gives, and into how many parts ``ntile`` cuts. With ``ignore_nulls`` rows on
    which the argument is null do not count. ``lag`` and ``lead`` without an argument are true where there is such a
    row, and null where there is none.
    """

    call: Aggregate
    order: tuple[Order, ...] = ()
    frame: Frame | None = None
    number: int = 1
    ignore_nulls: bool = False

    def __repr__(self) -> str:
        return (
            f"WindowCall(call={self.call!r}, order={self.order!r}, frame={self.frame!r}, "
            f"number={self.number!r}, ignore_nulls={self.ignore_nulls!r})"
        )

    def __str__(self) -> str:
        order = ", ".join(f"{c}{' desc' if d else ''}" for c, d, _ in self.order)
        frame = "" if self.frame in (None, *USUAL_FRAMES) else f" {self.frame}"
        return f"{self.call}{f' by {order}' if order else ''}{frame}"

    @property
    def signature(self) -> str:
        """That of its function: what errors call it."""
        return self.call.signature

    @property
    def columns(self) -> frozenset[str]:
        """The columns that it reads."""
        bounds = () if self.frame is None else (self.frame.start, self.frame.end)
        return frozenset((*self.call.arguments, *(c for c, _, _ in self.order), *(b for b in bounds if type(b) is str)))

    @property
    def _near(self) -> Frame | None:
        """The frame, or for a function of its first rows or its last a part of it that has these, if that is near."""
        frame = self.frame
        if frame is None or self.ignore_nulls:
            return frame
        if self.call.function == "last" and frame.start is None and isinstance(frame.end, int):
            return replace(frame, start=frame.end)
        if self.first_rows and frame.end is None and isinstance(frame.start, int):
            further = self.number - 1
            return replace(frame, end=frame.start + further) if frame.rows or not further else frame
        return frame

    @property
    def reach(self) -> int | None:
        """How many rows from its own its value depends on, back or on; None where that has no bound of some use."""
        away: int | None = None
        frame = self._near
        if self.call.function in ("lag", "lead"):
            away = None if self.ignore_nulls and self.number else abs(self.number)
        elif self.call.function == COPY_NUMBER:
            away = 0
        elif frame is not None and frame.rows:
            start, end = frame.start, frame.end
            if isinstance(start, int) and isinstance(end, int) and self.call.function in OF_FRAMES:
                away = max(abs(start), abs(end))
        return None if away is None or away > FARTHEST else away

    @property
    def seeks(self) -> int | None:
        """How many rows on which its argument is not null its value depends on, back or on, if it ignores nulls.

        That many are enough whatever is null between them. None: it asks for the first of all rows before its own, or
        the last of all behind.
        """
        away, frame = None, self.frame
        if self.call.function in ("lag", "lead"):
            away = abs(self.number) if self.ignore_nulls and self.number else None
        elif frame is not None and self.ignore_nulls:
            if self.call.function == "last" and frame.start is None and isinstance(frame.end, int):
                away = 1 + abs(frame.end)
            elif self.first_rows and frame.end is None and isinstance(frame.start, int):
                away = self.number + abs(frame.start)
        return None if away is None or away > FARTHEST else away

    def bounds(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """The columns in which its frame ends, if it ends at values of its order on both sides or at its row's peers.

        None: it does not, or these values have no distance.
        """
        frame = self._near
        if frame is None or frame.rows or None in (frame.start, frame.end) or self.call.function not in OF_FRAMES:
            return None
        return self._with_distances(frame, schema)

    def _with_distances(self, frame: Frame, schema: pa.Schema) -> tuple[str, ...] | None:
        """The columns that hold bounds of a frame; None where they and the order have no distance."""
        names = tuple(bound for bound in (frame.start, frame.end) if isinstance(bound, str))
        types = {schema.field(name).type for name in (*names, *(name for name, _, _ in self.order[: bool(names)]))}
        return names if all(len(types) == 1 and _has_distances(type_) for type_ in types) else None

    def running_bounds(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """The column in which its frame ends, if it ``runs`` up to a value of its order; None if that has no distance.

        Else none.
        """
        return () if self.frame is None else self._with_distances(self.frame, schema)

    @property
    def runs(self) -> int | None:
        """How many rows from its own, or from where its frame ends, its value depends on, beside all rows before these.

        Of these it is enough to know their number and sums, that of their distinct values in the order, the first of
        them, and extremes. None: on something else.
        """
        if self.call.function in ("row_number", "rank", "dense_rank"):
            return 0
        frame = self.frame
        if frame is None or frame.start is not None or self.ignore_nulls or self.call.distinct:
            return None
        if self.call.function not in RUNNING or len(self.call.arguments) > 1 or frame.end is None:
            return None
        to_bound = int(self.call.function == "last") if isinstance(frame.end, str) else abs(frame.end)
        away = max(to_bound, self.first_rows)
        return None if away > FARTHEST else away

    @property
    def settles(self) -> bool:
        """Whether, if it ``runs``, a change may end: behind a greater value a new one changes no greatest value."""
        decided = self.running_extreme is not None or bool(self.first_rows)
        return decided and self.frame is not None and self.frame.end == 0

    @property
    def first_rows(self) -> int:
        """Which row of its frame its value is of, from the first on; 0 where it is something else."""
        return self.number if self.call.function in ("first", "nth_value") else 0

    @property
    def running_extreme(self) -> tuple[str, bool] | None:
        """The column of which it is the least or the greatest value, and which, if it ``runs``."""
        extreme = self.call.function in ("min", "max")
        return (self.call.arguments[0], self.call.function == "max") if extreme else None

    def backward(self, order: tuple[Order, ...]) -> WindowCall | None:
        """The same function in an order that is the reverse of its own; None where there is none."""
        function, frame = self.call.function, self.frame
        if function not in MIRRORED and (frame is None or function not in KNOW_NO_ORDER):
            return None
        call = replace(self.call, function=MIRRORED.get(function, function))
        return replace(self, call=call, order=order, frame=frame and frame.backward)

    @property
    def of_rows(self) -> WindowCall:
        """The same, of rows and not of peers, where it is the last row of all from its own, or its peers, on."""
        if self.call.function != "last" or self.ignore_nulls or self.frame != Frame(False, 0, None):
            return self
        return replace(self, frame=Frame(True, 0, None))

    def sums_wide(self, schema: pa.Schema) -> bool:
        """Whether it is a sum of numbers of 64 bits, which leaves the range of its type where they are large."""
        return self.call.function == "sum" and schema.field(self.call.arguments[0]).type == pa.int64()

    def may_fail(self, schema: pa.Schema) -> bool:
        """Whether a result may leave the range of its type otherwise."""
        if self.call.function not in ("sum", "avg"):
            return False
        type_ = schema.field(self.call.arguments[0]).type
        wide = pa.types.is_decimal(type_) and type_.precision > WIDEST_DECIMAL
        narrow = pa.types.is_floating(type_) or pa.types.is_decimal(type_) or pa.types.is_integer(type_)
        return not narrow or wide

    @property
    def reads_peers(self) -> bool:
        """Whether rows that are equal in the order are one to it."""
        return self.call.function in OF_PEERS if self.frame is None else not self.frame.rows

    @property
    def reads_ties(self) -> bool:
        """Whether it tells rows apart that are equal in the order, which all of their columns decide then."""
        if self.frame is None:
            return self.call.function not in OF_PEERS
        return self.frame.rows or not (self.call.distinct or self.call.function in KNOW_NO_ORDER)


def copy_number(order: tuple[Order, ...]) -> WindowCall:
    """Which copy of its row each is, from 1 on, in an order of the rows."""
    return WindowCall(Aggregate(COPY_NUMBER, (), pa.int32(), text=f"{COPY_NUMBER}()"), order)


@dataclass(frozen=True)
class FirstRows:
    """The rows of a group on which ``number``, its row number or a rank, is at most ``k``."""

    number: WindowCall
    k: int

    def __repr__(self) -> str:
        return f"FirstRows(number={self.number!r}, k={self.k!r})"

    def __str__(self) -> str:
        return f"{self.number} <= {self.k}"


def _has_distances(type_: pa.DataType) -> bool:
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_))


COPY_NUMBER = "copy_number"
"""The function that tells copies of a row apart, and knows of no other rows."""
OF_PEERS = frozenset({"rank", "dense_rank", "percent_rank", "cume_dist"})
"""Functions of a row's place that are the same for all rows that are equal in the order."""
USUAL_FRAMES = Frame(False, None, 0), Frame(False, None, None)
KNOW_NO_ORDER = ACCUMULABLE | {"min", "max", "collect_set", "mode", "percentile", "percentile_disc"}
"""Aggregates of which the order of rows is known to make no difference."""
OF_FRAMES = KNOW_NO_ORDER | {"collect_list", "first", "last", "nth_value"}
"""Functions of frames that are known to read nothing else."""
RUNNING = frozenset({"count", "sum", "avg", "min", "max", "first", "last", "nth_value"})
"""Functions of frames that can go on from what is known of the rows before."""
MIRRORED = {"lag": "lead", "lead": "lag", "first": "last", "last": "first"}
"""Functions that become others in the reverse order."""
FARTHEST = 1_000
"""Frames that reach farther are read with their whole group, which is rarely much more."""
WIDEST_DECIMAL = 28
"""Sums and means of so many digits of as many rows as there may be have at most 38."""
