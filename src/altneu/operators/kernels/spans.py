"""Spans: updates that know when they end, as linear logic passes them from step to step.

A temporal filter makes two updates of one, a row that appears and the same row that goes. Until the logic ends they
travel as one row with the time at which it goes, so that what follows the filter does its work once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Ints, Rows
from altneu.errors import ERROR_SCHEMA, TooWideError
from altneu.linear import EVENT, NEVER, Step
from altneu.order import difference
from altneu.trace.update import Updates

Mask = npt.NDArray[np.bool_]
_LONGEST_SHOWN = 1 << 24  # characters of a text that an error row has room for


@immutable(frozen=True, slots=True)
class Spans:
    """n updates, each of which is undone at a time of its own.

    Shape:  ``until`` int64 ``(n,)``, later than the update's first time coordinate; ``NEVER`` or None: not undone.
    """

    updates: Updates
    until: Ints | None = None

    def __len__(self) -> int:
        return self.updates.diffs.size

    @property
    def rows(self) -> Rows:
        """The data."""
        return self.updates.rows

    @property
    def schema(self) -> pa.Schema:
        """Schema of the data."""
        return self.updates.rows.schema

    def take(self, index: npt.NDArray[np.integer]) -> Spans:
        """Spans at ``index``, in that order."""
        return Spans(self.updates.take(index), None if self.until is None else self.until[index])

    def filter(self, mask: Mask) -> Spans:
        """Spans whose mask is true."""
        return self if mask.all() else self.take(np.flatnonzero(mask))

    def with_rows(self, rows: Rows) -> Spans:
        """The same times and diffs on other rows (of equal count)."""
        updates = self.updates
        return Spans(Updates(rows, updates.times, updates.diffs), self.until)

    def taken_with(self, index: npt.NDArray[np.integer], rows: Rows) -> Spans:
        """The times and diffs at ``index`` on rows that were made of those: the old rows are not moved."""
        old = self.updates
        until = None if self.until is None else self.until[index]
        return Spans(Updates(rows, old.times.take(index, axis=1), old.diffs.take(index)), until)

    def multiplied(self, factors: Ints) -> Spans:
        """Every diff multiplied with a factor (one for all, or one each), which may leave none.

        Raises:
            DiffOverflowError: a product leaves int64.
        """
        old = self.updates
        return Spans(Updates(old.rows, old.times, difference.multiply(old.diffs, factors)), self.until)

    def about(self, events: Ints) -> Spans:
        """Every update, and its end, at the join of its event time with another one."""
        old = self.updates
        moved = old.times.copy()
        moved[EVENT] = np.maximum(moved[EVENT], events)
        return Spans(Updates(old.rows, moved, old.diffs), self.until)

    def joined(self, times: Ints) -> Spans:
        """Every update at the join of its time with another one, after which it may have ended before it begins."""
        old = self.updates
        moved = old.times.copy()
        moved[0] = np.maximum(moved[0], times)
        until = None if self.until is None else np.maximum(self.until, times)
        return Spans(Updates(old.rows, moved, old.diffs), until)

    def existing(self) -> Spans:
        """The spans that are not empty: of a diff that is not zero, and ending after they begin."""
        there: Mask = self.updates.diffs != 0
        if self.until is not None:
            there &= self.until > self.updates.times[0]
        return self.filter(there)

    def closed(self) -> Updates:
        """As updates: each when it begins, and its opposite when it ends."""
        if self.until is None:
            return self.updates
        ends = np.flatnonzero(self.until != NEVER)
        if not len(ends):
            return self.updates
        opposite = self.updates.take(ends)
        times = opposite.times.copy()
        times[0] = self.until[ends]
        undone = Updates(opposite.rows, times, difference.negate(opposite.diffs))
        return Updates.concat([self.updates, undone], self.schema, len(times))


def concat(parts: Sequence[Spans], schema: pa.Schema, width: int) -> Spans:
    """Stack spans of one schema."""
    parts = [p for p in parts if len(p)]
    if len(parts) == 1:
        return parts[0]
    updates = Updates.concat([p.updates for p in parts], schema, width)
    if all(p.until is None for p in parts):
        return Spans(updates)
    return Spans(
        updates, np.concatenate([np.full(len(p), NEVER, np.int64) if p.until is None else p.until for p in parts])
    )


class RowLost(TooWideError):  # noqa: N818  # a signal between two modules
    """A row makes a value that is too large where no error row is read."""


@dataclass
class Failures:
    """Error rows gathered while logic is evaluated.

    ``step`` is what is being evaluated: an error is the same however steps were merged or shared. ``kept`` says whether
    anybody reads them.
    """

    step: Step | str = ""
    kept: bool = True
    parts: list[Updates] = field(default_factory=list)

    def add(self, spans: Spans, index: npt.NDArray[np.integer], describe: Callable[[int], tuple[str, str]]) -> None:
        """Record the rows at ``index`` as errors; ``describe(i)`` gives (code, message).

        Raises:
            RowLost: nobody reads errors of what cannot fail otherwise; the row must not be lost.
        """
        if not len(index):
            return
        failed = spans.take(index)
        names = [n for n in failed.schema.names if not n.startswith("#")]
        texts = [describe(int(i)) for i in index]
        if not self.kept:
            shown = show_row(names, failed.rows.select(names).to_pylist()[0])
            raise RowLost(f"{self.step}: {texts[0][1]}, of the row {shown:.1000}; retract it")
        columns = {
            "operator": [self._operator] * len(index),
            "code": [c for c, _ in texts],
            "message": [m for _, m in texts],
            "row": [show_row(names, r) for r in failed.rows.select(names).to_pylist()],
        }
        self.parts.append(failed.with_rows(Rows.from_pydict(columns, ERROR_SCHEMA)).closed())

    @property
    def _operator(self) -> str:
        return self.step.label if isinstance(self.step, Step) else self.step


def show_row(names: Sequence[str], row: Sequence[object]) -> str:
    """A row as readable text: JSON with Python's own text for what JSON lacks; altneu's own columns are left out.

    >>> show_row(["a", "b"], (1, None))
    '{"a": 1, "b": null}'
    """
    shown = {n: _shortened(v) for n, v in zip(names, row, strict=True) if not n.startswith("#")}
    return json.dumps(shown, default=str, ensure_ascii=False)


def _shortened(value: object) -> object:
    """A text or bytes that error rows have room for."""
    if isinstance(value, str | bytes) and len(value) > _LONGEST_SHOWN:
        return f"{value[:1000]!r}… ({len(value):,} in all)"
    return value


def truth(values: pa.Array) -> Mask:
    """True where a boolean array is true, false where it is false or null."""
    if values.null_count:
        values = values.fill_null(False)
    return np.array(values.to_numpy(zero_copy_only=False), dtype=np.bool_)
