"""Updates: ``(data, time, diff)`` in columns, the form in which collections move."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.rows import Ints, Rows


@dataclass(frozen=True, slots=True)
class Updates:
    """n updates in no particular order, not necessarily consolidated.

    Shape:  ``rows`` n rows; ``times`` int64 of shape (width, n), one line per time coordinate; ``diffs`` int64 (n,).
    Units:  ``times`` counts ticks; ``diffs`` is a signed count.
    """

    rows: Rows
    times: Ints
    diffs: Ints

    def __len__(self) -> int:
        return len(self.diffs)

    @property
    def schema(self) -> pa.Schema:
        """Schema of the data."""
        return self.rows.schema

    @classmethod
    def empty(cls, schema: pa.Schema, width: int) -> Updates:
        """No updates."""
        return cls(Rows.empty(schema), np.empty((width, 0), np.int64), np.empty(0, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Updates], schema: pa.Schema, width: int) -> Updates:
        """Stack updates of one schema."""
        parts = [p for p in parts if len(p)]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.empty(schema, width)
        return cls(
            Rows.concat([p.rows for p in parts], schema),
            np.concatenate([p.times for p in parts], axis=1),
            np.concatenate([p.diffs for p in parts]),
        )

    def take(self, index: npt.NDArray[np.integer]) -> Updates:
        """Updates at ``index``, in that order."""
        return Updates(self.rows.take(index), self.times[:, index], self.diffs[index])

    def filter(self, mask: npt.NDArray[np.bool_]) -> Updates:
        """Updates whose mask is true."""
        return self.take(np.flatnonzero(mask))

    def with_rows(self, rows: Rows) -> Updates:
        """The same times and diffs on other rows (of equal count)."""
        return Updates(rows, self.times, self.diffs)
