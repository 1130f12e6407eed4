"""Updates on their way to another stage: numbers in as few bytes as their range takes, what is constant once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import pyarrow as pa

from altneu.columnar.narrow import Narrow, narrowed, of_words, words_of
from altneu.columnar.rows import Ints, Rows
from altneu.operators.base import Message
from altneu.runtime.files import from_ipc, to_ipc
from altneu.trace.update import Updates

_LEAST_ROWS = 64  # of fewer, numbers stay as they are
_LEAST = b"#least"
_CODES = {0: pa.null(), 1: pa.uint8(), 2: pa.uint16(), 4: pa.uint32()}


@dataclass(frozen=True)
class Packed:
    """Updates as one record batch: a column for each of their rows', for each line of their times, for their diffs.

    Whole numbers, dates, times and decimals of eight bytes that have no nulls are what is added to the least of them,
    in 1, 2 or 4 bytes; of equal ones there is nothing but the number, in the metadata of the column's field.

    >>> rows = Rows.from_pydict({"k": [*range(1000, 1100)]}, pa.schema([("k", pa.int64())]))
    >>> updates = Updates(rows, np.zeros((1, 100), np.int64), np.ones(100, np.int64))
    >>> packed = Packed.of(updates)
    >>> packed.nbytes, packed.bytes_as_updates
    (100, 2400)
    >>> packed.slice(10, 12).updates().rows.to_pylist()
    [(1010,), (1011,)]
    """

    batch: pa.RecordBatch
    schema: pa.Schema  # of the updates' rows

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    @classmethod
    def of(cls, updates: Updates) -> Packed:
        """Pack updates.

        Cost:   one pass over each column to find its least and greatest number, and one to write its codes.
        """
        count = len(updates)
        parts = [_packed(f.name, column) for f, column in zip(updates.schema, updates.rows.columns, strict=True)]
        for i, line in enumerate((*updates.times, updates.diffs)):
            parts.append(_packed_words(f"#{i}", np.ascontiguousarray(line), None))
        schema = pa.schema([f for f, _ in parts])
        columns = [pa.nulls(count) if column is None else column for _, column in parts]
        return cls(pa.RecordBatch.from_arrays(columns, schema=schema), updates.schema)

    @cached_property
    def bytes_as_updates(self) -> int:
        """Bytes that ``updates`` takes up in memory."""
        size = 0
        for i, column in enumerate(self.batch.columns):
            if _LEAST in (self.batch.schema.field(i).metadata or {}):
                dtype = self.schema.field(i).type if i < len(self.schema) else pa.int64()
                size += len(self) * (dtype.bit_width >> 3)
            else:
                size += column.nbytes
        return size

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return int(self.batch.nbytes)

    def slice(self, start: int, stop: int) -> Packed:
        """Updates ``start`` to ``stop`` without copying."""
        return Packed(self.batch.slice(start, stop - start), self.schema)

    def take(self, index: Ints) -> Packed:
        """Updates at some positions."""
        return Packed(self.batch.take(pa.array(index)), self.schema)

    def updates(self) -> Updates:
        """What was packed."""
        n = len(self.schema)
        names = enumerate(self.schema.types)
        columns = tuple([_unpacked(self.batch.column(i), self.batch.schema.field(i), dtype) for i, dtype in names])
        lines = [self._line(i) for i in range(n, self.batch.num_columns)]
        times = lines[0].reshape(1, -1) if not lines[2:] else np.stack(lines[:-1])
        return Updates(Rows(self.schema, columns, len(self)), times, lines[-1])

    def _line(self, place: int) -> Ints:
        column = _unpacked(self.batch.column(place), self.batch.schema.field(place), pa.int64())
        return np.frombuffer(column.buffers()[1], np.int64, len(column), 8 * column.offset)

    def to_bytes(self) -> bytes:
        """As an Arrow IPC stream."""
        return to_ipc([self.batch], self.batch.schema)

    @classmethod
    def from_bytes(cls, data: bytes, schema: pa.Schema) -> Packed:
        """What ``to_bytes`` wrote, of updates whose rows have a schema; nothing is copied."""
        (batch,) = from_ipc(data)
        return cls(batch, schema)


@overload
def unpacked(message: Updates | Packed) -> Updates: ...
@overload
def unpacked(message: Message | Packed) -> Message: ...
def unpacked(message: Message | Packed) -> Message:
    """A message in the form that operators take: updates that were packed are unpacked."""
    return message.updates() if isinstance(message, Packed) else message


def _packed(name: str, column: pa.Array) -> tuple[pa.Field, pa.Array | None]:
    words = words_of(column)
    return (pa.field(name, column.type), column) if words is None else _packed_words(name, words, column)


def _packed_words(name: str, words: Ints, column: pa.Array | None) -> tuple[pa.Field, pa.Array | None]:
    narrow = narrowed(words) if words.size >= _LEAST_ROWS else None
    if narrow is None:
        column = pa.array(words) if column is None else column
        return pa.field(name, column.type), column
    width = 0 if narrow.codes is None else narrow.codes.itemsize
    field = pa.field(name, _CODES[width], metadata={_LEAST: str(narrow.least).encode()})
    return field, None if narrow.codes is None else pa.array(narrow.codes)


def _unpacked(column: pa.Array, field: pa.Field, dtype: pa.DataType) -> pa.Array:
    least = (field.metadata or {}).get(_LEAST)
    if least is None:
        return column
    codes = None if pa.types.is_null(column.type) else np.asarray(column)
    return of_words(Narrow(int(least), codes, len(column)).words(), dtype)
