"""What is known of sources' rows before their first step: how many were inserted, and how often keys are repeated."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from altneu.operators.source.node import Source
from altneu.runtime.inputs import Inputs
from altneu.runtime.spark.frames import is_dear, most_equal, most_repeated

_AT_A_TIME = 4  # jobs that count rows, each of which waits more than it works
_FEW_ROWS = 100_000  # whose keys are brought here, where to count them takes no job with a shuffle


class SizesOfInputs:
    """The sizes of sources of which all rows are inputs of one step.

    Of a DataFrame Spark counts the rows, and groups them by a key where that is asked. Nothing is known of one whose
    rows Spark moves between tasks before it has them: it would be computed twice.

    Cost:   each question is asked once, and none whose answer another one has: rows that are all different in some
            columns are so in more. Of a DataFrame it is a job of Spark's: a count of Parquet files reads no rows, how
            often a key is repeated reads the key's columns. The first question for a count asks for those of all
            DataFrames, in jobs that run at the same time.
    """

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs
        self._known: dict[tuple[str, tuple[str, ...] | None], int | None] = {}
        self._counted: dict[str, int | None] = {}

    def in_frames(self, source: str) -> int | None:
        """How many rows the DataFrames of a source have."""
        if source not in self._counted:
            asked = dict.fromkeys([source, *(name for name in self._inputs.frames if name not in self._counted)])
            with ThreadPoolExecutor(_AT_A_TIME, "altneu-count") as pool:
                counts = pool.map(lambda name: self._of_frames(name, lambda frame: int(frame.count())), asked)
                self._counted.update(zip(asked, counts, strict=True))
        return self._counted[source]

    def rows(self, source: Source) -> int | None:
        """How many rows were inserted."""
        return self._once(source, None)

    def repeats(self, source: Source, columns: tuple[str, ...]) -> int | None:
        """The most rows that are equal in some columns, none of which is null."""
        return self._once(source, columns)

    def _once(self, source: Source, columns: tuple[str, ...] | None) -> int | None:
        at = source.name, columns
        if at not in self._known:
            self._known[at] = self._rows(source) if columns is None else self._repeats(source, columns)
        return self._known[at]

    def _rows(self, source: Source) -> int | None:
        in_frames = self.in_frames(source.name)
        return None if in_frames is None else in_frames + sum(map(len, self._updates(source)))

    def _repeats(self, source: Source, columns: tuple[str, ...]) -> int | None:
        fields = [source.schema.field(name) for name in columns]
        if any(pa.types.is_nested(f.type) for f in fields):
            return None  # Arrow does not group by such values
        unique = (known for (name, known), most in self._known.items() if name == source.name and most == 1)
        if any(known is not None and {*known} <= {*columns} for known in unique):
            return 1
        are_few = (self.in_frames(source.name) or 0) <= _FEW_ROWS and not any(
            pa.types.is_floating(f.type) for f in fields
        )
        most = self._of_frames(source.name, lambda frame: most_repeated(frame, fields, are_few=are_few))
        pieces = [pa.table(dict(zip(u.schema.names, u.rows.columns, strict=True))) for u in self._updates(source)]
        if most is not None and pieces:
            most += most_equal(pa.concat_tables([piece.select(columns) for piece in pieces]))
        return most

    def _updates(self, source: Source) -> Any:
        return self._inputs.updates.get(source.name, ())

    def _of_frames(self, source: str, asked: Callable[[Any], int]) -> int | None:
        """What Spark answers of each DataFrame of a source, added up."""
        if source not in self._inputs.sources:
            return None
        frames = [frame for frame, _ in self._inputs.frames.get(source, ())]
        if any(map(is_dear, frames)):
            return None
        try:
            return sum(map(asked, frames))
        except Exception:  # noqa: BLE001  # the step reads the same rows, and says why they cannot be read
            return None
