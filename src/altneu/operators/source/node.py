"""What sources and constants mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.node import Columns, Leaf, Node


@dataclass(frozen=True)
class SourceWeight:
    """What a session knows of the weight of a source: its columns, what it is called, and whether it has negatives."""

    columns: tuple[str, ...]
    text: str
    group: bool


@dataclass(frozen=True, eq=False)
class Source(Leaf, tag="Source"):
    """Rows that a session inserts and retracts; with ``keep``, they are arranged for late views.

    With a ``key``, or ``distinct``, the input is commands, and the rows that they make are arranged.
    """

    name: str
    schema: pa.Schema
    keep: bool = False
    coordinates: tuple[str, ...] | None = None  # what its times are called, when it has several
    key: tuple[str, ...] | None = None
    distinct: bool = False
    static: bool = False  # closed by the first step that has rows of it; no part of what identifies it
    append_only: bool = False  # no row is ever retracted, so that views need not be ready for it
    weight: SourceWeight | None = None  # what the rows have in the place of counts, in columns

    def describe(self) -> str:
        """The name, whether all rows are retained and only added, the weight, the coordinates of times, and the key."""
        text = self.name + " kept" * self.keep + " append-only" * self.append_only
        if self.weight is not None:
            text += f" weighted by {self.weight.text}"
        timed = text if self.coordinates is None else f"{text} {self.coordinates}"
        return timed if self.commanded_by is None else f"{timed} {f'key {self.key}' if self.key else 'distinct'}"

    @property
    def commanded_by(self) -> tuple[str, ...] | None:
        """The columns by which rows replace each other, None where rows only add up."""
        return self.key or (tuple(self.schema.names) if self.distinct else None)

    @property
    def arranged_by(self) -> tuple[str, ...] | None:
        """The columns by which all of its rows are arranged, None where they are not."""
        return self.commanded_by or (tuple(self.schema.names) if self.keep else None)

    @property
    def stays(self) -> bool:
        """Where its rows are retained for late views."""
        return self.keep

    @property
    def plain(self) -> Source:
        """The same rows where they only add up."""
        return Source(self.name, self.schema, self.keep, self.coordinates, append_only=self.append_only)

    @property
    def title(self) -> str:
        """Its name."""
        return f"source {self.name}"


@dataclass(frozen=True, eq=False)
class Constant(Leaf, tag="Constant"):
    """Rows that are there from the least time on and never change."""

    rows: tuple[tuple[object, ...], ...]
    schema: pa.Schema

    def describe(self) -> str:
        """The rows."""
        return repr(self.rows)

    @property
    def filled(self) -> Columns:
        """Columns with a value in every row."""
        return frozenset(n for i, n in enumerate(self.schema.names) if all(row[i] is not None for row in self.rows))

    def keeping(self, needed: Columns, inputs: Sequence[Node]) -> Node:  # there are none
        """The rows without the other columns."""
        at = [i for i, n in enumerate(self.schema.names) if n in needed]
        rows = tuple(tuple(row[i] for i in at) for row in self.rows)
        return Constant(rows, pa.schema([self.schema.field(i) for i in at]))

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Whether it has no row."""
        return not self.rows
