"""The arguments of ``Collection.asof_join``: which of the three as-of joins, and how it chooses a match."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from numbers import Integral
from typing import Literal

import pyarrow as pa

from altneu.collections.moments import refuse_moments
from altneu.collections.remembering import linear
from altneu.columnar.rows import Rows
from altneu.errors import PlanError, TypeMismatchError
from altneu.expressions import Col, Expr, parse, parse_order
from altneu.linear import BoundLogic, Filter, Project
from altneu.plan import ir
from altneu.types import DATE, DAY_TIME, TIMESTAMP, TIMESTAMP_NTZ, no_key, quote_name, type_name

AsOfMode = Literal["logical", "locked", "revising"]
Direction = Literal["backward", "forward", "nearest"]
Tolerance = int | timedelta | str
Sides = tuple[ir.Node, ir.Node]

MODES = {
    "logical": "each update of the left side is joined with the right side at that update's own time; so is a "
    "retraction, which may therefore remove something other than what was emitted",
    "locked": "each left row is joined with the right side when the row arrives, and keeps that match: a retraction "
    "removes what was emitted",
    "revising": "each left row is joined with the right row nearest to its timestamp, and is corrected when late rows "
    "arrive or are removed",
}


@dataclass(frozen=True)
class AsOfOptions:
    """The arguments other than the two sides and their key."""

    mode: AsOfMode | None
    times: tuple[str, str] | None
    direction: Direction
    tolerance: Tolerance | None
    exact: bool
    how: str
    simultaneous: bool
    ties: str | Col | Sequence[str | Col] | None = None

    def check(self) -> None:
        """Refuse arguments that exclude each other.

        Raises:
            PlanError: names the argument and its purpose.
        """
        if not isinstance(self.mode, str) or self.mode not in MODES:
            listed = "".join(f"\n  mode={mode!r}: {text}" for mode, text in MODES.items())
            problem = "asof_join needs a mode" if self.mode is None else f"mode={self.mode!r} is not an as-of join"
            raise PlanError(f"{problem}; there are three:{listed}")
        for name, value in (("allow_exact_matches", self.exact), ("simultaneous", self.simultaneous)):
            if not isinstance(value, bool):
                raise PlanError(f"{name} must be True or False, got {value!r}")
        if self.direction not in ("backward", "forward", "nearest"):
            raise PlanError(f"direction must be 'backward', 'forward' or 'nearest', got {self.direction!r}")
        if self.how not in ("inner", "left"):
            raise PlanError(
                f"how must be inner or left for an as-of join, whose rows are those of the left side, got {self.how!r}"
            )
        chooses = self.direction != "backward" or self.tolerance is not None or not self.exact
        if self.times is None and self.mode == "revising":
            raise PlanError(
                "mode='revising' needs timestamps: give time='column', or left_time= and right_time= of the two sides"
            )
        if self.times is None and chooses:
            raise PlanError("direction, tolerance and allow_exact_matches compare timestamps: give time='column'")
        if self.times is None and self.ties is not None:
            raise PlanError("ties= chooses among right rows with equal timestamps: give time='column'")
        if self.mode == "logical" and (self.times is not None or self.how != "inner"):
            raise PlanError(
                "mode='logical' uses the times of updates alone: it takes no timestamps and no how='left'; "
                "mode='locked' has both"
            )
        if self.mode == "revising" and not self.simultaneous:
            raise PlanError("mode='revising' does not depend on when rows arrived, so it takes no simultaneous=False")


def times_of(time: str | None, left: str | None, right: str | None) -> tuple[str, str] | None:
    """The timestamp columns of both sides.

    Raises:
        PlanError: a timestamp is given for one side only, or twice.
    """
    if time is not None and (left is not None or right is not None):
        raise PlanError("time= names the timestamp of both sides; leave left_time= and right_time= out")
    left, right = left or time, right or time
    if (left is None) != (right is None):
        raise PlanError("either both sides must have a timestamp or neither: give left_time= and right_time=")
    return None if left is None or right is None else (left, right)


def as_of(
    sides: Sides,
    keys: tuple[tuple[str, ...], tuple[str, ...]],
    outputs: tuple[tuple[str, int, str], ...],
    options: AsOfOptions,
) -> ir.Node:
    """An as-of join of the rows of both sides whose keys and timestamps are not null.

    Raises:
        PlanError: it is locked, and a side is differentiated.
        TypeMismatchError: it is locked, and rows of the left side cannot be compared; or timestamps cannot.
    """
    if options.mode == "locked":
        refuse_maps(sides[0].schema)
        for side in sides:
            refuse_moments(side, "a locked asof_join", "depends on when rows arrive")
    stamps, rule = options.times, None
    if stamps is not None:
        sides, stamps = _one_type(sides, stamps)
        kind = sides[0].schema.field(stamps[0]).type
        rule = ir.AsOfRule(
            options.direction, _units(options.tolerance, kind), options.exact, _ties(options.ties, sides[1].schema)
        )
    not_null = [(*key, *(stamps or ())[i : i + 1]) for i, key in enumerate(keys)]
    left, right = (_present(side, names) for side, names in zip(sides, not_null, strict=True))
    keeps, locked = options.how == "left", options.mode == "locked"
    return ir.AsOf(left, right, *keys, outputs, keeps, stamps, rule, locked, options.simultaneous)


def refuse_maps(schema: pa.Schema) -> None:
    """Refuse rows that cannot be compared.

    Raises:
        TypeMismatchError: naming the column that is a map, or has variants.
    """
    for f in schema:
        if what := no_key(f.type):
            raise TypeMismatchError(
                f"column {f.name!r} has {what}, and {what} cannot be compared; select what you need of it"
            )


def _ties(ties: str | Col | Sequence[str | Col] | None, schema: pa.Schema) -> tuple[tuple[str, bool, bool], ...]:
    """An order of the right side's columns.

    Raises:
        PlanError: it is not an order, or it names no columns, or something other than columns.
    """
    if ties is None:
        return ()
    named: object = ties
    if not isinstance(named, str | Col | Sequence) or (not isinstance(named, Col) and not named):
        raise PlanError(f"ties must be an order of the right side's columns, such as 'seq desc', got {ties!r}")
    keys = parse_order(ties, schema)
    other = next((key for key in keys if not key.expr.is_column), None)
    if other is not None:
        raise PlanError(
            f"ties= must name columns of the right side, got `{other.expr.text}`: select it as a column first"
        )
    return tuple((key.expr.column_name, key.descending, key.nulls_first) for key in keys)


def absent(side: ir.Node, names: Iterable[str]) -> ir.Node | None:
    """The rows in which one of some columns is null; None when none of them can be."""
    some = [quote_name(n) for n in names if side.schema.field(n).nullable]
    return _filtered(side, " or ".join(f"{n} is null" for n in some)) if some else None


def _present(side: ir.Node, names: Iterable[str]) -> ir.Node:
    some = [quote_name(n) for n in names if side.schema.field(n).nullable]
    return _filtered(side, " and ".join(f"{n} is not null" for n in some)) if some else side


def _filtered(side: ir.Node, predicate: str) -> ir.Node:
    return linear(side, BoundLogic((Filter(parse(predicate, side.schema)),)))


def check_stamp(what: str, kind: pa.DataType) -> None:
    """Refuse a timestamp whose distances are not whole numbers.

    Raises:
        TypeMismatchError: says of ``what`` that it is neither a whole number nor a date nor a timestamp.
    """
    if not (pa.types.is_integer(kind) or kind in (DATE, TIMESTAMP, TIMESTAMP_NTZ)):
        raise TypeMismatchError(
            f"{what} is {type_name(kind)}; a timestamp is a whole number, a date or a timestamp: "
            "cast it, or scale it to whole units"
        )


def _one_type(
    sides: tuple[ir.Node, ir.Node], stamps: tuple[str, str]
) -> tuple[tuple[ir.Node, ir.Node], tuple[str, str]]:
    """Both sides with timestamps of one type, in an additional column where a cast is needed.

    Raises:
        TypeMismatchError: the timestamps cannot be compared, or have no units for a tolerance.
    """
    kinds = [side.schema.field(n).type for side, n in zip(sides, stamps, strict=True)]
    for name, kind in zip(stamps, kinds, strict=True):
        check_stamp(f"asof_join: {name!r}", kind)
    if kinds[0] == kinds[1]:
        return sides, stamps
    both = pa.schema([("l", kinds[0]), ("r", kinds[1])])
    try:
        common = type_name(parse("coalesce(l, r)", both).type)
    except TypeMismatchError as error:
        raise TypeMismatchError(
            f"asof_join: {stamps[0]!r} is {type_name(kinds[0])}, {stamps[1]!r} is {type_name(kinds[1])}; "
            "cast one of them"
        ) from error
    left, right = (_cast(side, name, common) for side, name in zip(sides, stamps, strict=True))
    return (left, right), ("#stamp", "#stamp")


def _cast(side: ir.Node, name: str, kind: str) -> ir.Node:
    outputs: list[tuple[str, Expr]] = [(n, parse(quote_name(n), side.schema)) for n in side.schema.names]
    outputs.append(("#stamp", parse(f"CAST({quote_name(name)} AS {kind})", side.schema)))
    return linear(side, BoundLogic((Project(tuple(outputs)),)))


_INSTEAD = {DATE: "days, or a timedelta of whole days", TIMESTAMP: "a timedelta, or an interval such as '10 minutes'"}


def _units(tolerance: Tolerance | None, kind: pa.DataType) -> int | None:
    """A tolerance in the units of a timestamp: those of a number, days of a date, microseconds of a timestamp.

    Raises:
        TypeMismatchError: the tolerance cannot be expressed in these units.
        PlanError: it is negative.
    """
    if tolerance is None:
        return None
    span = _span(tolerance) if isinstance(tolerance, str) else tolerance
    micros = span // timedelta(microseconds=1) if isinstance(span, timedelta) else None
    units: int | None = None
    if isinstance(span, Integral) and not isinstance(span, bool) and kind not in (TIMESTAMP, TIMESTAMP_NTZ):
        units = int(span)
    elif micros is not None and kind in (TIMESTAMP, TIMESTAMP_NTZ):
        units = micros
    elif micros is not None and kind == DATE and micros % (day := timedelta(days=1) // timedelta(microseconds=1)) == 0:
        units = micros // day
    if units is None:
        unit = _INSTEAD.get(TIMESTAMP if kind == TIMESTAMP_NTZ else kind, "a whole number")
        raise TypeMismatchError(f"tolerance must be {unit} for timestamps of type {type_name(kind)}, got {tolerance!r}")
    if not 0 <= units < 2**63:
        raise PlanError(f"tolerance must not be negative and must fit 64 bits, got {tolerance!r}")
    return units


def _span(text: str) -> timedelta | None:
    """An interval of Spark SQL, with or without the word INTERVAL; None unless its units are days to microseconds."""
    nothing = pa.schema([])
    try:
        value = parse(text if text.lower().lstrip().startswith("interval") else f"interval {text}", nothing)
    except PlanError:
        return None
    if value.type != DAY_TIME:
        return None
    span = value.evaluate(Rows(nothing, (), 1)).values[0].as_py()
    return span if isinstance(span, timedelta) else None
