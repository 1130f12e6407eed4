"""Pieces of a view as record batches for Spark, read in its tasks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from altneu.engine.reading import updates_table
from altneu.errors import ViewHasErrorsError
from altneu.runtime.pieces import Piece
from altneu.runtime.read import At, negatives
from altneu.trace.update import Updates
from altneu.views.contents import repeated

_CHUNK = 1 << 17  # rows of a record batch that is handed to Spark


@dataclass(frozen=True)
class Shape:
    """The shape of the rows: columns of the view, then for changes the columns of times and diff.

    Shape:  ``schema`` is Spark's, in Arrow; ``times`` and ``diff`` are empty for contents.
    """

    view: str
    columns: tuple[str, ...]
    schema: pa.Schema
    times: tuple[str, ...] = ()
    diff: str = ""


@dataclass
class Part(InputPartition):
    """The part of a piece that one task reads: contents at a time, the same as changes at that time, or changes.

    Shape:  ``at`` for the first two, ``start`` and ``end`` for the third; ``strict`` refuses negative counts.
    """

    shape: Shape
    piece: Piece
    at: At | None = None
    start: int = 0
    end: int = 0
    strict: bool = False

    def __post_init__(self) -> None:
        super().__init__(None)


def read_part(part: Part) -> Iterator[pa.RecordBatch]:
    """The rows of a part, as Spark's schema has them.

    Raises:
        ViewHasErrorsError: a row of the contents has a negative count, and ``errors`` is not "ignore".
        HistoryGoneError: a file was deleted because the lease has expired.
    """
    shape = part.shape
    if shape.diff:
        updates = part.piece.changes(part.start, part.end) if part.at is None else part.piece.snapshot(part.at[0])
        return _batches(updates_table(_chosen(updates, shape), shape.times, shape.diff), shape)
    assert part.at is not None
    updates = part.piece.contents(part.at)
    bad = negatives(updates, shape.view) if part.strict else None
    if bad is not None:
        operator, code, message, row = bad.rows.slice(0, 1).to_pylist()[0]
        raise ViewHasErrorsError(f'{operator}: {code}: {message} (row {row}); option errors="ignore" leaves it out')
    rows = repeated(_chosen(updates, shape))
    return _batches(pa.Table.from_arrays(list(rows.columns), schema=rows.schema), shape)


def _chosen(updates: Updates, shape: Shape) -> Updates:
    return updates.with_rows(updates.rows.select(shape.columns))


def _batches(table: pa.Table, shape: Shape) -> Iterator[pa.RecordBatch]:
    for chunk in table.to_batches(max_chunksize=_CHUNK):
        columns = [_cast(column, field.type) for column, field in zip(chunk.columns, shape.schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=shape.schema)


def _cast(column: Any, data_type: pa.DataType) -> pa.Array:
    return column if column.type == data_type else column.cast(data_type)
