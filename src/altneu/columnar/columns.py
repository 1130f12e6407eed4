"""Columns seen by kernels: Arrow buffers by address, rows compared and gathered across several blocks at once.

Sorting, merging and matching decide *which* rows; this module is what then touches the rows themselves. Everything
works on a ``Stack``: parts of one schema, indexed as if they were stacked, and never copied together. Fixed-width,
boolean, string and binary columns go through Numba loops over the buffers; nested columns through recursion over their
child arrays.

Sliced arrays are read in place (offsets are respected), and so are memory-mapped ones. Values are compared by their
bits: floats are normalised where they enter altneu.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import Enum
from functools import partial
from itertools import accumulate
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from altneu.columnar.narrow import WORD, Narrow, NarrowRows
from altneu.columnar.rows import Ints, Rows, positions_of, taken
from altneu.columnar.threads import in_parts
from altneu.compiled import compiled
from altneu.errors import TooWideError, TypeMismatchError

Mask = npt.NDArray[np.bool_]

FEW = 4096  # up to this many rows Arrow stacks and takes faster than a kernel is called
COLUMN_BYTES = 2**31 - 1  # int32 offsets reach no further


class Kind(Enum):
    """How a column lies in memory."""

    FIXED = 0  # width bytes a value
    BITS = 1  # one bit a value
    BYTES = 2  # int32 offsets into bytes
    NESTED = 3
    NULL = 4  # no buffers at all


_FIXED_WIDTH = {
    pa.lib.Type_INT8: 1, pa.lib.Type_UINT8: 1, pa.lib.Type_INT16: 2, pa.lib.Type_UINT16: 2, pa.lib.Type_INT32: 4,
    pa.lib.Type_UINT32: 4, pa.lib.Type_INT64: 8, pa.lib.Type_UINT64: 8, pa.lib.Type_FLOAT: 4, pa.lib.Type_DOUBLE: 8,
    pa.lib.Type_DATE32: 4, pa.lib.Type_DATE64: 8, pa.lib.Type_TIMESTAMP: 8, pa.lib.Type_TIME32: 4,
    pa.lib.Type_TIME64: 8, pa.lib.Type_DURATION: 8, pa.lib.Type_DECIMAL128: 16,
}  # fmt: skip
KINDS = {code: (Kind.FIXED, width) for code, width in _FIXED_WIDTH.items()} | {
    pa.lib.Type_BOOL: (Kind.BITS, 0),
    pa.lib.Type_STRING: (Kind.BYTES, 0),
    pa.lib.Type_BINARY: (Kind.BYTES, 0),
    pa.lib.Type_LIST: (Kind.NESTED, 0),
    pa.lib.Type_STRUCT: (Kind.NESTED, 0),
    pa.lib.Type_MAP: (Kind.NESTED, 0),
    pa.lib.Type_NA: (Kind.NULL, 0),
}
"""By the code of a type how its columns lie in memory, and their width in bytes when that is fixed."""


def kind_of(dtype: pa.DataType) -> tuple[Kind, int]:
    """How columns of a type lie in memory, and their width in bytes when that is fixed.

    Raises:
        TypeMismatchError: rows of this type cannot be arranged; the message says what to cast to.
    """
    try:
        return KINDS[dtype.id]
    except KeyError:
        raise TypeMismatchError(
            f"columns of type {dtype} cannot be arranged; cast the column to one of the types of Spark "
            "(integers, float, double, decimal, string, binary, boolean, date, timestamp, array, map, struct)"
        ) from None


def _storer(numba_type: types.Type, llvm_type: ir.Type) -> Callable[[int, Any], None]:
    """Make ``store(address, value)``: writes a little-endian value at an address, which may be unaligned."""

    @intrinsic
    def store(_context: Any, address: Any, _value: Any) -> Any:
        def codegen(_cg: Any, builder: Any, _signature: Any, args: Any) -> Any:
            builder.store(args[1], builder.inttoptr(args[0], llvm_type.as_pointer()), align=1)

        return types.void(address, numba_type), codegen

    return cast(Callable[[int, Any], None], store)


def _loader(numba_type: types.Type, llvm_type: ir.Type) -> Callable[[int], Any]:
    """Make ``load(address)``: the unaligned little-endian value at an address."""

    @intrinsic
    def load(_context: Any, address: Any) -> Any:
        def codegen(_cg: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.load(builder.inttoptr(args[0], llvm_type.as_pointer()), align=1)

        return numba_type(address), codegen

    return cast(Callable[[int], Any], load)


_I8, _I16, _I32, _I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
load8, load16 = _loader(types.uint8, _I8), _loader(types.uint16, _I16)
load32, load64 = _loader(types.uint32, _I32), _loader(types.uint64, _I64)
load_int8, load_int16 = _loader(types.int8, _I8), _loader(types.int16, _I16)
load_int32, load_int64 = _loader(types.int32, _I32), _loader(types.int64, _I64)
store8, store64 = _storer(types.uint8, _I8), _storer(types.uint64, _I64)
load_float32, load_float64 = _loader(types.float32, ir.FloatType()), _loader(types.float64, ir.DoubleType())


@compiled(inline="always")
def is_valid(bitmap: int, position: int) -> bool:
    """Whether a validity bitmap (0: none, all valid) has the bit of ``position`` set."""
    return bitmap == 0 or (load8(bitmap + (position >> 3)) >> (position & 7)) & 1 != 0


def raw(column: pa.Array, kind: Kind) -> tuple[int, int, int, int]:
    """Addresses of (data, validity, offsets) and the array's own offset; 0 where there is no buffer."""
    buffers = column.buffers()
    valid = buffers[0].address if buffers[0] is not None else 0
    if kind is Kind.BYTES:
        data = buffers[2].address if buffers[2] is not None else 0
        return data, valid, buffers[1].address if buffers[1] is not None else 0, column.offset
    return buffers[1].address if buffers[1] is not None else 0, valid, 0, column.offset


@compiled(inline="always")
def _part(starts: Ints, row: int) -> int:
    low, high = 0, len(starts) - 1
    while high - low > 1:
        middle = (low + high) >> 1
        if starts[middle] <= row:
            low = middle
        else:
            high = middle
    return low


@compiled(inline="always")
def load_narrow(address: int, width: int, least: int, position: int) -> int:
    """The word at a position of a column of whole numbers that may be narrow (``altneu.columnar.narrow``)."""
    if width == 8:
        return load_int64(address + 8 * position)
    code = np.int64(0)
    if width == 4:
        code = np.int64(load32(address + 4 * position))
    elif width == 1:
        code = np.int64(load8(address + position))
    elif width == 2:
        code = np.int64(load16(address + 2 * position))
    return least + int(code)


@compiled(inline="always")
def _load_halves(table: Ints, part: int, position: int) -> tuple[int, int]:
    """The low and the high half of a number of sixteen bytes, which may be narrow."""
    if table[part, 4] == 16:
        at = table[part, 0] + 16 * position
        return load_int64(at), load_int64(at + 8)
    word = load_narrow(table[part, 0], table[part, 4], table[part, 5], position)
    return word, word >> 63


@compiled(nogil=True)
def _equal_fixed(table: Ints, starts: Ints, width: int, left: Ints, right: Ints, mask: Mask) -> None:
    for k in range(len(left)):
        if not mask[k]:
            continue
        a, b = _part(starts, left[k]), _part(starts, right[k])
        i, j = left[k] - starts[a] + table[a, 3], right[k] - starts[b] + table[b, 3]
        valid = is_valid(table[a, 1], i)
        if valid != is_valid(table[b, 1], j):
            mask[k] = False
        elif valid and width == 8:
            one = load_narrow(table[a, 0], table[a, 4], table[a, 5], i)
            mask[k] = one == load_narrow(table[b, 0], table[b, 4], table[b, 5], j)
        elif valid:
            p, q = table[a, 0] + i * width, table[b, 0] + j * width
            if width == 4:
                mask[k] = load32(p) == load32(q)
            elif width == 16:
                low, high = _load_halves(table, a, i)
                mask[k] = (low, high) == _load_halves(table, b, j)
            else:
                for byte in range(width):
                    if load8(p + byte) != load8(q + byte):
                        mask[k] = False


@compiled()
def _equal_words(tables: Ints, widths: Ints, starts: Ints, left: Ints, right: Ints) -> Mask:
    """Whether rows are equal in all columns, which have fixed widths."""
    mask = np.ones(len(left), np.bool_)
    for column in range(len(tables)):
        _equal_fixed(tables[column], starts, widths[column], left, right, mask)
    return mask


@compiled(nogil=True)
def _equal_bits(table: Ints, starts: Ints, left: Ints, right: Ints, mask: Mask) -> None:
    for k in range(len(left)):
        a, b = _part(starts, left[k]), _part(starts, right[k])
        i, j = left[k] - starts[a] + table[a, 3], right[k] - starts[b] + table[b, 3]
        valid = is_valid(table[a, 1], i)
        if valid != is_valid(table[b, 1], j) or (valid and is_valid(table[a, 0], i) != is_valid(table[b, 0], j)):
            mask[k] = False


@compiled(nogil=True)
def _equal_bytes(table: Ints, starts: Ints, left: Ints, right: Ints, mask: Mask) -> None:
    for k in range(len(left)):
        if not mask[k]:
            continue
        a, b = _part(starts, left[k]), _part(starts, right[k])
        i, j = left[k] - starts[a] + table[a, 3], right[k] - starts[b] + table[b, 3]
        valid = is_valid(table[a, 1], i)
        if valid != is_valid(table[b, 1], j):
            mask[k] = False
        elif valid:
            p, q = load_int32(table[a, 2] + 4 * i), load_int32(table[b, 2] + 4 * j)
            size = load_int32(table[a, 2] + 4 * i + 4) - p
            if size != load_int32(table[b, 2] + 4 * j + 4) - q:
                mask[k] = False
                continue
            at, other = table[a, 0] + p, table[b, 0] + q
            while size >= 8 and load64(at) == load64(other):
                at, other, size = at + 8, other + 8, size - 8
            while size > 0 and load8(at) == load8(other):
                at, other, size = at + 1, other + 1, size - 1
            mask[k] = size == 0


@compiled(nogil=True)
def _gather_fixed(table: Ints, starts: Ints, width: int, index: Ints, out: npt.NDArray[Any]) -> None:
    # out has unsigned items of the width, two of eight bytes for a width of sixteen
    for k in range(len(index)):
        a = _part(starts, index[k])
        i = index[k] - starts[a] + table[a, 3]
        p = table[a, 0] + i * width
        if width == 8:
            out[k] = load_narrow(table[a, 0], table[a, 4], table[a, 5], i)
        elif width == 4:
            out[k] = load32(p)
        elif width == 16:
            low, high = _load_halves(table, a, i)
            out[2 * k], out[2 * k + 1] = low, high
        elif width == 2:
            out[k] = load_int16(p)
        else:
            out[k] = load8(p)


@compiled()
def _gather_words(lines: Ints, widths: Ints, starts: Ints, index: Ints, out: Ints) -> bool:
    """Columns at some rows of all parts, a line of words each; whether none may be null."""
    for c in range(len(widths)):
        for p in range(lines.shape[1]):
            if lines[c, p, 1] != 0:
                return False
    for k in range(len(index)):
        a = _part(starts, index[k])
        for c in range(len(widths)):
            i = index[k] - starts[a] + lines[c, a, 3]
            if widths[c] == 8:
                out[c, k] = load_narrow(lines[c, a, 0], lines[c, a, 4], lines[c, a, 5], i)
            elif widths[c] == 4:
                out[c, k] = load_int32(lines[c, a, 0] + 4 * i)
            elif widths[c] == 2:
                out[c, k] = load_int16(lines[c, a, 0] + 2 * i)
            else:
                out[c, k] = load8(lines[c, a, 0] + i)
    return True


@compiled()
def _gather_bitmap(table: Ints, starts: Ints, which: int, index: Ints, out: npt.NDArray[np.uint8]) -> int:
    """Gather bits of buffer ``which`` (0 data, 1 validity); return how many are unset."""
    unset = 0
    for k in range(len(index)):
        a = _part(starts, index[k])
        if is_valid(table[a, which], index[k] - starts[a] + table[a, 3]):
            out[k >> 3] |= np.uint8(1) << np.uint8(k & 7)
        else:
            unset += 1
    return unset


@compiled()
def _gather_offsets(table: Ints, starts: Ints, index: Ints, out: npt.NDArray[np.int32], limit: int) -> int:
    """Offsets of the values gathered; their total, or -1 when it is over ``limit``."""
    total = 0
    out[0] = 0
    for k in range(len(index)):
        a = _part(starts, index[k])
        i = index[k] - starts[a] + table[a, 3]
        if is_valid(table[a, 1], i):
            total += load_int32(table[a, 2] + 4 * i + 4) - load_int32(table[a, 2] + 4 * i)
        if total > limit:
            return -1
        out[k + 1] = total
    return total


@compiled(nogil=True)
def _gather_bytes(table: Ints, starts: Ints, index: Ints, offsets: Any, out: npt.NDArray[np.uint8]) -> None:
    """Copy the values' bytes by words, and those of rows that follow each other in one part together."""
    to, k, n = out.ctypes.data, 0, len(index)
    while k < n:
        size = np.int64(offsets[k + 1]) - np.int64(offsets[k])
        if size == 0:
            k += 1
            continue
        a = _part(starts, index[k])
        at = table[a, 2] + 4 * (index[k] - starts[a] + table[a, 3])
        p, q = table[a, 0] + load_int32(at), to + offsets[k]
        # a row belongs to the run if its bytes end where it says: a null may have bytes, which are left out
        k, left = k + 1, starts[a + 1] - index[k]
        while k < n and left > 1 and index[k] == index[k - 1] + 1:
            at, left = at + 4, left - 1
            more = np.int64(offsets[k + 1]) - np.int64(offsets[k])
            if more != load_int32(at + 4) - load_int32(at):
                break
            size, k = size + more, k + 1
        while size >= 8:
            store64(q, load64(p))
            p, q, size = p + 8, q + 8, size - 8
        while size > 0:
            store8(q, load8(p))
            p, q, size = p + 1, q + 1, size - 1


def _line(rows: Rows, column: int, kind: Kind, width: int) -> tuple[int, ...]:
    """For kernels: where a column of one part is, how wide its values are there and what is added to them."""
    if isinstance(rows, NarrowRows):
        stored = rows.stored[column]
        if isinstance(stored, Narrow):
            address, narrow, least = stored.line
            return address, 0, 0, 0, narrow, least
        return *raw(stored, kind), width, 0
    return *raw(rows.columns[column], kind), width, 0


def _lines(rows: Rows, widths: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The same of all columns of one part, whose values are fixed and have these widths; the part keeps it."""
    if isinstance(rows, NarrowRows):
        places = tuple([_line(rows, c, Kind.FIXED, width) for c, width in enumerate(widths)])
    else:
        places = tuple([(*raw(c, Kind.FIXED), width, 0) for c, width in zip(rows.columns, widths, strict=True)])
    object.__setattr__(rows, "places", places)
    return places


_SINGLE = 4
"""Rows of a nested column that are cut out one by one: taking them costs several times as much."""

# How a column lies, its width, a line of addresses for each part, whether any part may hold nulls.
_Table = tuple[Kind, int, Ints, bool]


class Stack:
    """Rows of several parts under one schema, numbered through as if stacked, without being copied together.

    >>> schema = pa.schema([("a", pa.string())])
    >>> parts = [Rows.from_pydict({"a": ["x", None]}, schema), Rows.from_pydict({"a": ["x", "y"]}, schema)]
    >>> stack = Stack(parts, schema)
    >>> stack.equal(np.array([0, 1]), np.array([2, 3])).tolist()
    [True, False]
    >>> stack.take(np.array([3, 1, 0])).to_pylist()
    [('y',), (None,), ('x',)]
    """

    __slots__ = ("_fixed", "_tables", "parts", "schema", "starts", "total")

    def __init__(self, parts: Sequence[Rows], schema: pa.Schema) -> None:
        self.parts = parts
        self.schema = schema
        starts = list(accumulate([part.count for part in parts], initial=0))
        self.starts = np.array(starts, np.int64)
        self.total = starts[-1]
        self._tables: dict[int, _Table] = {}
        self._fixed: Ints | None = None  # what ``_lines`` made, once it was called

    def _lines(self, widths: Sequence[int]) -> Ints:
        """Where all columns are, whose values are fixed and have these widths: (columns, parts, 6)."""
        if self._fixed is None:
            lines = self._places(widths)
            self._fixed = np.array([*zip(*lines, strict=True)], np.int64)
        return self._fixed

    def _places(self, widths: Sequence[int]) -> list[tuple[tuple[int, ...], ...]]:
        """Where the columns of each part are, whose values are fixed and have these widths; kept with the part.

        A part is read in many steps, and by several operations in each.
        """
        result: list[tuple[tuple[int, ...], ...]] = []
        for part in self.parts:
            try:
                result += (part.places,)
            except AttributeError:
                result += (_lines(part, widths),)
        return result

    def _table(self, column: int) -> _Table:
        entry = self._tables.get(column)
        if entry is None:
            kind, width = kind_of(self.schema.field(column).type)
            lines: Sequence[tuple[int, ...]] = [(0, 0, 0, 0, 0, 0)]
            if (widths := _widths_of(self.schema)) is not None:
                lines = [places[column] for places in self._places(widths)]
            elif kind is not Kind.NESTED and kind is not Kind.NULL:
                lines = [_line(p, column, kind, width) for p in self.parts]
            nullable = any([line[1] for line in lines])  # noqa: C419  # a generator takes longer
            entry = self._tables[column] = kind, width, np.array(lines, np.int64), nullable
        return entry

    def _stacked(self, column: int) -> pa.Array:
        arrays = [p.columns[column] for p in self.parts]
        return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)

    def _nested(self, column: int, index: Ints) -> pa.Array:
        """A nested column of the rows at ``index``; where they are few of all, nothing else is copied."""
        if not index.size:
            return self.parts[0].columns[column][:0]
        if 0 < index.size <= _SINGLE:
            starts = self.starts.tolist()
            places = [(row, bisect_right(starts, row) - 1) for row in index.tolist()]
            return pa.concat_arrays([self.parts[i].columns[column].slice(row - starts[i], 1) for row, i in places])
        if 2 * index.size >= self.total or not self.parts[1:]:
            return taken(self._stacked(column), positions_of(index))
        order = index.argsort(kind="stable")
        ascending = index[order]
        cuts = ascending.searchsorted(self.starts).tolist()
        arrays = [
            taken(rows.columns[column], positions_of(ascending[start:stop] - before))
            for rows, before, start, stop in zip(self.parts, self.starts.tolist(), cuts, cuts[1:], strict=False)
            if start < stop
        ]
        return taken(pa.concat_arrays(arrays), positions_of(order.argsort()))

    def equal(self, left: Ints, right: Ints) -> Mask:
        """Whether row ``left[k]`` equals row ``right[k]``, for each k; null equals null."""
        widths = _widths_of(self.schema) if left.size <= FEW else None
        if widths is not None:
            same: Mask = _equal_words(self._lines(widths), np.array(widths), self.starts, left, right)
            return same
        mask = np.ones(len(left), np.bool_)
        for column in range(len(self.schema)):
            kind, width, table, _ = self._table(column)
            if kind is Kind.NESTED:
                places = np.arange(len(left))
                both = self._nested(column, np.concatenate([left, right]))
                mask &= equal_values(both, places, places + len(left))
            elif kind is not Kind.NULL:
                in_parts(len(left), partial(_equal_part, (kind, width, table), self.starts, left, right, mask))
        return mask

    def take(self, index: Ints) -> Rows:
        """The rows at ``index``, in that order, as one run of rows."""
        columns = range(len(self.schema))
        if self.total <= FEW:
            if not self.parts[1:]:
                return Rows(self.schema, self.parts[0].take(index).columns, index.size)
            positions = positions_of(index)
            return Rows(self.schema, tuple([taken(self._stacked(i), positions) for i in columns]), index.size)
        return Rows(self.schema, tuple([self._take(i, index) for i in columns]), len(index))

    def _take(self, column: int, index: Ints) -> pa.Array:
        kind, width, table, nullable = self._table(column)
        dtype = self.schema.field(column).type
        if kind is Kind.NULL:
            return pa.nulls(len(index))
        if kind is Kind.NESTED:
            return self._nested(column, index)
        return _gather((kind, width, table, nullable), self.starts, index, dtype)

    def take_column(self, column: int, index: Ints) -> pa.Array:
        """One column of the rows at ``index``."""
        if self.total <= FEW:
            return taken(self._stacked(column), positions_of(index))
        return self._take(column, index)

    def take_words(self, index: Ints) -> list[pa.Array] | None:
        """All columns of few rows at once; None where one is not of whole words, or may have nulls."""
        widths = _widths_of(self.schema) if index.size <= FEW and self.total > FEW else None
        if widths is None or max(widths) > WORD:
            return None
        lines = self._lines(widths)
        words = np.empty((len(widths), index.size), np.int64)
        if not _gather_words(lines, np.array(widths), self.starts, index, words):
            return None
        return [column_of_words(data_type, line) for data_type, line in zip(self.schema.types, words, strict=True)]

    def encode(self, index: Ints) -> list[bytes]:
        """One canonical byte string per row: equal exactly when the rows are equal; their order is the tie-break."""
        return encode(self.take(index))


_WIDTHS: dict[int, tuple[pa.Schema, tuple[int, ...] | None]] = {}  # by the identity of the schema, which they keep
_MOST_WIDTHS = 4096


def _widths_of(schema: pa.Schema) -> tuple[int, ...] | None:
    """The widths of its columns, at least one, where all are fixed."""
    known = _WIDTHS.get(id(schema))
    if known is None or known[0] is not schema:
        if len(_WIDTHS) >= _MOST_WIDTHS:
            _WIDTHS.clear()
        kinds = [kind_of(data_type) for data_type in schema.types]
        fixed = bool(kinds) and all(kind is Kind.FIXED for kind, _ in kinds)
        known = _WIDTHS[id(schema)] = schema, tuple(width for _, width in kinds) if fixed else None
    return known[1]


_NUMBERS = {8: np.int64, 4: np.int32, 2: np.int16, 1: np.int8}


def column_of_words(data_type: pa.DataType, words: Ints) -> pa.Array:
    """A column of a fixed width, without nulls, from the words of its values, which it keeps if they are as wide."""
    width = data_type.bit_width >> 3
    own = words if width == 8 else words.astype(_NUMBERS[width])
    return pa.Array.from_buffers(data_type, words.size, [None, pa.py_buffer(own)], 0)


def _equal_part(
    source: tuple[Kind, int, Ints], starts: Ints, left: Ints, right: Ints, mask: Mask, start: int, stop: int
) -> None:
    kind, width, table = source
    left, right, mask = left[start:stop], right[start:stop], mask[start:stop]
    if kind is Kind.FIXED:
        _equal_fixed(table, starts, width, left, right, mask)
    elif kind is Kind.BYTES:
        _equal_bytes(table, starts, left, right, mask)
    else:
        _equal_bits(table, starts, left, right, mask)


def _gather(source: _Table, starts: Ints, index: Ints, dtype: pa.DataType) -> pa.Array:
    kind, width, table, nullable = source
    size = len(index)
    valid, nulls = None, 0
    if nullable:
        bitmap = np.zeros((size + 7) >> 3, np.uint8)
        nulls = _gather_bitmap(table, starts, 1, index, bitmap)
        valid = pa.py_buffer(bitmap) if nulls else None
    if kind is Kind.BYTES:
        offsets = np.empty(size + 1, np.int32)
        total = _gather_offsets(table, starts, index, offsets, COLUMN_BYTES)
        if total < 0:
            raise TooWideError(f"{size} rows hold over {COLUMN_BYTES} bytes in one column; gather fewer at a time")
        content = np.empty(total, np.uint8)
        in_parts(size, lambda a, b: _gather_bytes(table, starts, index[a:b], offsets[a : b + 1], content))
        return pa.Array.from_buffers(dtype, size, [valid, pa.py_buffer(offsets), pa.py_buffer(content)], nulls)
    if kind is Kind.BITS:
        data: npt.NDArray[Any] = np.zeros((size + 7) >> 3, np.uint8)
        _gather_bitmap(table, starts, 0, index, data)
    else:
        items = max(width // 8, 1)
        data = np.empty(size * items, f"u{min(width, 8)}")
        in_parts(size, lambda a, b: _gather_fixed(table, starts, width, index[a:b], data[items * a : items * b]))
    return pa.Array.from_buffers(dtype, size, [valid, pa.py_buffer(data)], nulls)


def children(column: pa.Array) -> tuple[Ints, list[pa.Array]]:
    """Offsets (length + 1) of a list or map array into its child arrays; a null entry is empty."""
    if len(column):
        offsets = np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset).astype(np.int64)
    else:
        offsets = np.zeros(1, np.int64)  # the buffer may be missing
    if pa.types.is_map(column.type):
        return offsets, [column.keys, column.items]
    return offsets, [column.values]


def valid_mask(column: pa.Array) -> Mask:
    """True where ``column`` is not null."""
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def equal_values(column: pa.Array, left: Ints, right: Ints) -> Mask:
    """Whether value ``left[k]`` of ``column`` equals value ``right[k]``, whatever its type; null equals null."""
    kind, _ = kind_of(column.type)
    if kind is not Kind.NESTED:
        schema = pa.schema([("", column.type)])
        return Stack([Rows(schema, (column,), len(column))], schema).equal(left, right)
    if pa.types.is_struct(column.type) and not column.null_count and column.type.num_fields:
        schema = pa.schema(list(column.type))
        return Stack([Rows(schema, tuple(column.flatten()), len(column))], schema).equal(left, right)
    valid = valid_mask(column)
    mask = np.asarray(valid[left] == valid[right])
    both = np.flatnonzero(valid[left] & valid[right])
    if pa.types.is_struct(column.type):
        for field in range(column.type.num_fields):
            mask[both] &= equal_values(column.field(field), left[both], right[both])
        return mask
    offsets, values = children(column)
    sizes = offsets[left + 1] - offsets[left]
    mask[both] &= sizes[both] == (offsets[right + 1] - offsets[right])[both]
    both = both[mask[both]]
    sizes, pair = sizes[both], np.repeat(np.arange(len(both)), sizes[both])
    step = np.arange(len(pair)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    for child in values:
        same = equal_values(child, offsets[left[both]][pair] + step, offsets[right[both]][pair] + step)
        mask[both[pair[~same]]] = False
    return mask


def encode(rows: Rows) -> list[bytes]:
    """One canonical byte string per row, equal exactly when the rows are equal."""
    parts = [_encode_column(c) for c in rows.columns]
    return [b"".join(row) for row in zip(*parts, strict=True)] if parts else [b""] * rows.count


def _encode_column(column: pa.Array) -> list[bytes]:
    """One self-delimiting byte string per value: a tag for null, lengths before whatever varies in length."""
    kind, width = kind_of(column.type)
    if kind is Kind.NULL:
        return [b"\0"] * len(column)
    if kind is Kind.NESTED and pa.types.is_struct(column.type):
        fields = [_encode_column(column.field(i)) for i in range(column.type.num_fields)]
        content = [b"".join(row) for row in zip(*fields, strict=True)] if fields else [b""] * len(column)
    elif kind is Kind.NESTED:
        offsets, values = children(column)
        first, last = int(offsets[0]), int(offsets[-1])
        parts = [_encode_column(v.slice(first, last - first)) for v in values]
        entries = [b"".join(row) for row in zip(*parts, strict=True)]
        spans = zip((offsets - first).tolist(), (offsets[1:] - first).tolist(), strict=False)
        content = [(stop - start).to_bytes(8, "big") + b"".join(entries[start:stop]) for start, stop in spans]
    elif kind is Kind.FIXED:
        data = column.buffers()[1].to_pybytes() if len(column) else b""
        content = [data[i * width : (i + 1) * width] for i in range(column.offset, column.offset + len(column))]
    else:
        content = [_encode_scalar(value) for value in column.to_pylist()]
    return [b"\1" + c if valid else b"\0" for c, valid in zip(content, valid_mask(column), strict=True)]


def _encode_scalar(value: bool | str | bytes | None) -> bytes:
    if isinstance(value, str):
        value = value.encode()
    return len(value).to_bytes(8, "big") + value if isinstance(value, bytes) else bytes([bool(value)])
