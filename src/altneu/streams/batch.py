"""A micro-batch: its rows with their times, in the driver or in Spark, and its late rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from altneu.errors import SchemaError
from altneu.operators.source.keyed import COMMANDS, KIND, ROW
from altneu.runtime.spark.frames import few_rows
from altneu.runtime.spark.versions import to_arrow
from altneu.streams.late import CLOSED, LATE_TIME
from altneu.streams.tables import DIFF
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TIME, EVENT = "#time", "#event"
HERE_ROWS = 50_000  # a batch of no more rows is fetched to the driver

Late = Literal["revise", "error", "drop"]


def normalised(frame: DataFrame, source: str, columns: Sequence[str], controls: dict[str, str]) -> DataFrame:
    """The columns of a source with times, diffs and commands, each the name of a column or a SQL expression.

    Times and diffs are longs, commands are strings.

    Raises:
        SchemaError: an expression for a time or a diff is not a whole number, or one for a command is not a string.
    """
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as sf

    chosen = [sf.col(quote_name(n)) for n in columns]
    for name, control in controls.items():
        what = {TIME: "time", EVENT: "event time", DIFF: "diff", KIND: "command"}[name]
        value = sf.col(quote_name(control)) if control in frame.columns else sf.expr(control)
        try:
            kind = frame.select(value.alias(name)).schema[0].dataType
        except AnalysisException as error:
            raise SchemaError(
                f"{what}={control!r} is neither a column of the stream for {source!r} nor an expression that Spark "
                f"understands: {str(error).splitlines()[0]}"
            ) from None
        if name == KIND:
            if kind.typeName() != "string":
                raise SchemaError(
                    f"{what}={control!r} of the stream for {source!r} must be a string, one of {', '.join(COMMANDS)}, "
                    f"got {kind.simpleString()}"
                )
            chosen.append(value.alias(name))
            continue
        if kind.typeName() not in ("byte", "short", "integer", "long"):
            raise SchemaError(
                f"{what}={control!r} of the stream for {source!r} is {kind.simpleString()}, and must be a whole "
                "number; for a timestamp, use unix_seconds(...) or unix_millis(...), which also chooses the tick"
            )
        chosen.append(value.cast("long").alias(name))
    return frame.select(*chosen)


@dataclass(frozen=True)
class Measured:
    """Counts of rows: all, those at times that are closed, and the greatest time."""

    rows: int
    late: int
    seen: int | None


class MicroBatch:
    """The rows of a micro-batch, whole or split into pieces by a hash of their columns.

    A small batch is fetched once; of a large one Spark reads what it needs, after the first time from its cache. The
    same rows are always split in the same way. With a ``key``, rows are commands: each has its position in the batch,
    and those of one key stay in one piece, so that they are carried out in order.
    """

    def __init__(self, frame: DataFrame, key: Sequence[str] | None = None, *, here: bool) -> None:
        self.frame, self.key, self.here = _in_place(frame) if key else frame, key, here
        self._cached = False
        self._whole: Any = None

    def pieces(self, max_rows: int | None) -> int:
        """The number of pieces of about ``max_rows`` rows each."""
        if max_rows is None or not self._hashed:
            return 1
        self._whole = few_rows(self.frame, HERE_ROWS) if self.here else self._fetched(self.frame)
        rows = self.frame.count() if self._whole is None else self._whole.num_rows
        return max(-(-rows // max_rows), 1)

    def piece(self, piece: int, of: int) -> Any:
        """The rows of one piece: an Arrow table if they are few, else a DataFrame."""
        if of == 1:
            whole = self._whole if self._whole is not None else self._fetched(self.frame)
            return self.frame if whole is None else whole
        part = self.frame.where(f"pmod(xxhash64({', '.join(self._hashed)}), {of}) = {piece}")
        rows = self._fetched(part)
        return part if rows is None else rows

    @property
    def _hashed(self) -> list[str]:
        hashable = _hashed(self.frame)
        if self.key is None:
            return hashable
        by_key = [quote_name(name) for name in self.key]
        return by_key if {*by_key} <= {*hashable} else []

    def _fetched(self, frame: DataFrame) -> pa.Table | None:
        if self.here:
            return to_arrow(frame)
        rows = few_rows(frame, HERE_ROWS)
        if rows is not None:
            return rows
        if not self._cached:
            self.frame.persist()
            self._cached = True
        return None

    def release(self) -> None:
        """Remove it from Spark's cache."""
        if self._cached:
            self.frame.unpersist()


def _in_place(frame: DataFrame) -> DataFrame:
    """Rows with their positions in the batch, which those that a relay has written have already."""
    from pyspark.sql import functions as sf

    return frame if ROW in frame.columns else frame.withColumn(ROW, sf.monotonically_increasing_id())


def _hashed(frame: DataFrame) -> list[str]:
    """The columns of the source that Spark can hash: those without maps.

    Times and diffs are not among them, since other expressions may be given for them when a batch is repeated.
    """
    hashable = (f.name for f in frame.schema if "map<" not in f.dataType.simpleString())
    return [quote_name(name) for name in hashable if name not in (TIME, EVENT, DIFF, KIND, ROW)]


Bounds = Mapping[str, int]
"""The first time that is not closed, for each column of times that rows have."""


def measured(rows: Any, bounds: Bounds, source: str) -> Measured:
    """Count rows with times of their own.

    Raises:
        SchemaError: a row has no time.
    """
    if isinstance(rows, pa.Table):
        without, count = sum(rows[name].null_count for name in bounds), rows.num_rows
        late = pc.sum(_is_late(rows, bounds)).as_py() or 0
        seen = pc.max(rows[TIME]).as_py() if TIME in bounds else None
    else:
        missing = " or ".join(f"`{name}` is null" for name in bounds)
        greatest = f"max(`{TIME}`)" if TIME in bounds else "cast(null as bigint)"
        summary = rows.selectExpr("count(*)", f"count_if({missing})", f"count_if({_late(bounds)})", greatest).first()
        count, without, late, seen = summary
    if without:
        raise SchemaError(f"{without} row(s) for {source!r} have no time (null); every row needs one")
    return Measured(count, late, seen)


def _is_late(rows: pa.Table, bounds: Bounds) -> Any:
    return reduce(pc.or_, [pc.less(rows[name], lower) for name, lower in bounds.items()])


def _late(bounds: Bounds) -> str:
    return " or ".join(f"`{name}` < {lower}L" for name, lower in bounds.items())


def on_time(rows: Any, bounds: Bounds) -> Any:
    """The rows at times that are not closed."""
    if isinstance(rows, pa.Table):
        return rows.filter(pc.invert(_is_late(rows, bounds)))
    return rows.where(f"not ({_late(bounds)})")


def revised(rows: Any, bounds: Bounds) -> Any:
    """All rows, late ones at the first time that is not closed."""
    if isinstance(rows, pa.Table):
        for name, lower in bounds.items():
            times = pc.max_element_wise(rows[name], pa.scalar(lower, pa.int64()))
            rows = rows.set_column(rows.column_names.index(name), name, times)
        return rows
    return rows.selectExpr(
        *(f"greatest(`{n}`, {bounds[n]}L) as `{n}`" if n in bounds else quote_name(n) for n in rows.columns)
    )


def late(rows: Any, bounds: Bounds) -> Any:
    """The late rows, with the columns of ``late_rows``: of the time that is late, the first one if both are."""
    if isinstance(rows, pa.Table):
        rows = rows.filter(_is_late(rows, bounds))
        (first, lower), *more = bounds.items()
        times, closed = rows[first], pa.scalar(lower, pa.int64())
        for name, bound in more:
            only = pc.greater_equal(rows[first], lower)
            times, closed = pc.if_else(only, rows[name], times), pc.if_else(only, pa.scalar(bound, pa.int64()), closed)
        closed = pa.array([closed.as_py()] * rows.num_rows, pa.int64()) if isinstance(closed, pa.Scalar) else closed
        return rows.append_column(LATE_TIME, times).append_column(CLOSED, closed)
    cases = [f"when `{name}` < {lower}L then " for name, lower in bounds.items()]
    times = " ".join(case + f"`{name}`" for case, name in zip(cases, bounds, strict=True))
    closed = " ".join(case + f"{lower}L" for case, lower in zip(cases, bounds.values(), strict=True))
    columns = [*map(quote_name, rows.columns), f"case {times} end as {LATE_TIME}", f"case {closed} end as {CLOSED}"]
    return rows.where(_late(bounds)).selectExpr(*columns)
