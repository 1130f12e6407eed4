"""Columns of whole numbers in as few bytes as their range takes: how large batches are kept in memory.

A column is a least value and, for each row, what is added to it, in 0, 1, 2 or 4 bytes; or, in 8, the numbers as they
are. Rows are read one by one without the column being built: kernels are given the address of the codes, their width
and the least value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.immutable import immutable
from altneu.columnar.rows import Ints, Rows, taken

WORD = 8  # bytes of what can be kept in fewer
_SIGN = np.int64(-(2**63))
_DIGITS = 18  # of a decimal whose number is surely one of eight bytes
_CODES = ((0, None), (0xFF, np.uint8), (0xFFFF, np.uint16), (0xFFFF_FFFF, np.uint32))


@immutable(frozen=True, eq=False, slots=True)
class Narrow:
    """``count`` whole numbers: ``least``, and ``codes`` that are added to it (None: they are all 0).

    Codes of 8 bytes are the numbers themselves, and ``least`` is 0.
    """

    least: int
    codes: npt.NDArray[Any] | None
    count: int

    @property
    def line(self) -> tuple[int, int, int]:
        """For kernels: the address of the codes, their width, the least value."""
        if self.codes is None:
            return 0, 0, self.least
        return self.codes.ctypes.data, self.codes.itemsize, self.least

    @property
    def nbytes(self) -> int:
        """Bytes of the codes."""
        return 0 if self.codes is None else int(self.codes.nbytes)

    def words(self) -> Ints:
        """All numbers."""
        if self.codes is None:
            return np.full(self.count, self.least, np.int64)
        if self.codes.itemsize == WORD:
            return self.codes
        return self.codes.astype(np.int64) + self.least

    def at(self, index: Any) -> Narrow:
        """Those at positions, or of a slice."""
        if self.codes is not None:
            codes = self.codes[index]
            return Narrow(self.least, codes, len(codes))
        count = len(range(*index.indices(self.count))) if isinstance(index, slice) else len(index)
        return Narrow(self.least, None, count)


def narrowed(words: Ints) -> Narrow | None:
    """Whole numbers in fewer bytes; None where that cannot be.

    >>> (
    ...     narrowed(np.array([1000, 1003], np.int64)).codes.tolist(),
    ...     narrowed(np.array([7, 7], np.int64)).codes,
    ... )
    ([0, 3], None)
    >>> narrowed(np.array([-(2**62), 2**62], np.int64)) is None
    True
    """
    if not len(words):
        return None
    least, most = int(words.min()), int(words.max())
    for reach, codes in _CODES:
        if most - least <= reach:
            if codes is None:
                return Narrow(least, None, len(words))
            return Narrow(least, np.subtract(words, least, dtype=np.int64).astype(codes), len(words))
    return None


def whole(words: npt.NDArray[Any]) -> Narrow:
    """Numbers of eight bytes as they are, in an array of their own."""
    own = words if words.base is None else words.copy()
    return Narrow(0, own.view(np.int64), len(words))


def one_word(words: npt.NDArray[Any]) -> Narrow | None:
    """Numbers of eight bytes that are all the same; None where they are not."""
    return Narrow(words[:1].view(np.int64).item(), None, len(words)) if (words == words[:1]).all() else None


def narrowed_words(words: Ints, column: Narrow | None) -> Narrow | None:
    """Unsigned words in fewer bytes, those of ``column`` where they are the same but for what is added to them.

    >>> column = narrowed(np.array([-1, 5], np.int64))
    >>> words = np.array([2**63 - 1, 2**63 + 5], np.uint64)
    >>> narrowed_words(words.view(np.int64), column).codes is column.codes
    True
    """
    signed = narrowed(words ^ _SIGN)  # whose order is that of the unsigned words
    if signed is None:
        return None
    least = signed.least + (1 << 63)
    codes = signed.codes
    if codes is not None and column is not None and column.codes is not None and np.array_equal(codes, column.codes):
        codes = column.codes
    return Narrow(least if least < 1 << 63 else least - (1 << 64), codes, len(words))


class NarrowRows(Rows):
    """Rows with some narrow columns; a column is built whenever it is read, and not stored."""

    __slots__ = ("stored",)

    stored: tuple[Narrow | pa.Array, ...]

    def __init__(self, schema: pa.Schema, stored: tuple[Narrow | pa.Array, ...], count: int) -> None:
        put = object.__setattr__  # the class it extends is frozen
        put(self, "schema", schema)
        put(self, "stored", stored)
        put(self, "count", count)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (self.schema, self.columns, self.count)

    @property
    def columns(self) -> tuple[pa.Array, ...]:
        """All columns, built."""
        return tuple([_built(c, t) for c, t in zip(self.stored, self.schema.types, strict=True)])

    @property
    def nbytes(self) -> int:
        """Bytes that are kept."""
        return sum(column.nbytes for column in self.stored)

    def column(self, name: str) -> pa.Array:
        """The array of one column."""
        place = self.schema.get_field_index(name)
        return _built(self.stored[place], self.schema.field(place).type)

    def column_slice(self, name: str, start: int, stop: int) -> pa.Array:
        """The values of one column from one row up to another: nothing else of it is built."""
        place = self.schema.get_field_index(name)
        column = self.stored[place]
        if isinstance(column, Narrow):
            return _built(column.at(slice(start, stop)), self.schema.field(place).type)
        return column.slice(start, stop - start)

    def gathered(self, name: str, positions: pa.Array) -> pa.Array:
        """The values of one column at some positions: nothing else of it is built."""
        place = self.schema.get_field_index(name)
        return _taken(self.stored[place], positions, self.schema.field(place).type)

    def take(self, index: npt.NDArray[np.integer]) -> Rows:
        """Rows at ``index``, as ordinary rows."""
        positions = pa.array(index)
        columns = [_taken(c, positions, t) for c, t in zip(self.stored, self.schema.types, strict=True)]
        return Rows(self.schema, tuple(columns), len(index))

    def slice(self, start: int, stop: int) -> Rows:
        """Rows ``start`` to ``stop`` without copying."""
        cut = [c.at(slice(start, stop)) if isinstance(c, Narrow) else c.slice(start, stop - start) for c in self.stored]
        return NarrowRows(self.schema, tuple(cut), stop - start)

    def built(self) -> Rows:
        """The same as ordinary rows."""
        return Rows(self.schema, self.columns, self.count)


def _built(column: Narrow | pa.Array, dtype: pa.DataType) -> pa.Array:
    return of_words(column.words(), dtype) if isinstance(column, Narrow) else column


def of_words(words: Ints, dtype: pa.DataType) -> pa.Array:
    """A column without nulls of a type that ``words_of`` takes."""
    own = words if is_word(dtype) else in_two_halves(words)
    return pa.Array.from_buffers(dtype, len(words), [None, pa.py_buffer(own)], 0)


def in_two_halves(words: Ints) -> Ints:
    """Whole numbers of eight bytes as Arrow's decimals have them, in a low and a high half: (n, 2)."""
    halves = np.empty((len(words), 2), np.int64)
    halves[:, 0] = words
    np.right_shift(words, 63, out=halves[:, 1])
    return halves


def words_of(column: pa.Array) -> Ints | None:
    """A column's values as whole numbers of eight bytes; None if its type has none, or a value is null.

    A decimal of at most 18 digits is its unscaled value.
    """
    dtype = column.type
    if column.null_count or column.buffers()[-1] is None:
        return None
    if is_word(dtype):
        return np.frombuffer(column.buffers()[1], np.int64, len(column), WORD * column.offset)
    if pa.types.is_decimal128(dtype) and dtype.precision <= _DIGITS:
        return np.frombuffer(column.buffers()[1], np.int64, 2 * len(column), 2 * WORD * column.offset)[::2]
    return None


def _taken(column: Narrow | pa.Array, positions: pa.Array, dtype: pa.DataType) -> pa.Array:
    if isinstance(column, Narrow):
        return of_words(column.at(positions.to_numpy()).words(), dtype)
    return taken(column, positions)


def narrow_rows(rows: Rows) -> Rows:
    """Rows with those columns narrow that can be: numbers and times of eight bytes, short decimals, without nulls."""
    if isinstance(rows, NarrowRows):
        return rows
    stored = tuple([_narrow_column(column) for column in rows.columns])
    if not any(isinstance(column, Narrow) for column in stored):
        return rows
    return NarrowRows(rows.schema, stored, rows.count)


def _narrow_column(column: pa.Array) -> Narrow | pa.Array:
    words = words_of(column)
    return column if words is None else narrowed(words) or column


_TIME = pa.time64("us")


def is_word(dtype: pa.DataType) -> bool:
    """Whether values are signed numbers of eight bytes, whatever they mean."""
    return pa.types.is_int64(dtype) or pa.types.is_timestamp(dtype) or pa.types.is_duration(dtype) or dtype == _TIME


def stored_columns(rows: Rows) -> tuple[Narrow | pa.Array, ...]:
    """The columns of rows as they are stored."""
    return rows.stored if isinstance(rows, NarrowRows) else rows.columns


def bytes_of(columns: Sequence[pa.Array] | Rows) -> int:
    """Bytes that columns, or rows, take."""
    if isinstance(columns, NarrowRows):
        return columns.nbytes
    return int(sum(c.nbytes for c in (columns.columns if isinstance(columns, Rows) else columns)))
