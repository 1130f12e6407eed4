"""Vectors: the values of an expression on n rows, as NumPy buffers or as an Arrow array, whichever is needed.

A kernel on one row costs what its calls cost, and NumPy's are ten times cheaper than Arrow's. So numbers, booleans,
dates and timestamps travel as NumPy arrays with a validity mask, and turn into Arrow (and back) only where a kernel
asks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu import types as T
from altneu.expressions.limits import claim

Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]
Bounds = tuple[int, int]
"""No value is less than the first or greater than the second."""

_DTYPES: dict[pa.DataType, np.dtype[Any]] = {
    T.BOOLEAN: np.dtype(np.bool_),
    T.BYTE: np.dtype(np.int8),
    T.SHORT: np.dtype(np.int16),
    T.INT: np.dtype(np.int32),
    T.LONG: np.dtype(np.int64),
    T.FLOAT: np.dtype(np.float32),
    T.DOUBLE: np.dtype(np.float64),
    T.DATE: np.dtype(np.int32),
    T.TIMESTAMP: np.dtype(np.int64),
    T.TIMESTAMP_NTZ: np.dtype(np.int64),
    T.TIME: np.dtype(np.int64),
    T.DAY_TIME: np.dtype(np.int64),
    T.YEAR_MONTH: np.dtype(np.int64),
}
_BY_CODE = {t.id: dtype for t, dtype in _DTYPES.items() if not hasattr(t, "unit")}
"""Those of types without parameters by their codes: the hash of a type is that of its text."""
_SMALL_DECIMAL = 18
_LOW = (1 << 64) - 1


def dtype_of(data_type: pa.DataType) -> np.dtype[Any]:
    """The NumPy type of a type's values; a decimal's are unscaled: int64 up to 18 digits, Python's beyond."""
    dtype = _BY_CODE.get(data_type.id)
    if dtype is None:
        dtype = _DTYPES.get(data_type)
    if dtype is not None:
        return dtype
    if pa.types.is_decimal128(data_type):
        return np.dtype(np.int64) if data_type.precision <= _SMALL_DECIMAL else np.dtype(object)
    raise TypeError(f"{data_type} has no NumPy form")


def has_numpy(data_type: pa.DataType) -> bool:
    """Whether values of a type are held in NumPy buffers."""
    return data_type.id in _BY_CODE or data_type in _DTYPES or pa.types.is_decimal128(data_type)


@dataclass(frozen=True, slots=True)
class Failure:
    """Rows that failed for one reason.

    Shape:  ``mask`` has n entries, at least one true. ``message`` is a text, or gives the text for a row.
    """

    mask: Mask
    code: str
    message: str | Callable[[int], str]

    def text(self, row: int) -> str:
        """The message of one row."""
        return self.message if isinstance(self.message, str) else self.message(row)


Failures = tuple[Failure, ...]


def failed_rows(failures: Failures) -> Mask | None:
    """Rows at which anything failed; None when nothing did."""
    if not failures:
        return None
    mask = failures[0].mask
    for failure in failures[1:]:
        mask = mask | failure.mask
    return mask


def restrict(failures: Failures, reachable: Mask) -> Failures:
    """Failures at rows that are evaluated at all."""
    kept = []
    for failure in failures:
        mask = failure.mask & reachable
        if mask.any():
            kept.append(Failure(mask, failure.code, failure.message))
    return tuple(kept)


class Vector:
    """n values of one type, with the failures met on the way.

    ``values`` and ``valid`` are the NumPy form (``valid`` is None when no value is null; what stands under a null means
    nothing), ``arrow`` the Arrow form; each is made from the other once. A vector with ``constant`` stands for n
    equal rows and holds one, which NumPy broadcasts; ``expand`` writes it out. What stands at a failed row means
    nothing either.
    """

    __slots__ = ("_arrow", "_bounds", "_valid", "_values", "constant", "failures", "type")

    def __init__(
        self,
        data_type: pa.DataType,
        values: Values | None = None,
        valid: Mask | None = None,
        arrow: Any = None,
        failures: Failures = (),
        *,
        constant: bool = False,
        bounds: Bounds | None = None,
    ) -> None:
        self.type, self.failures, self.constant, self._bounds = data_type, failures, constant, bounds
        self._values, self._valid = values, valid
        self._arrow: Any = arrow

    def __len__(self) -> int:
        return len(self._values) if self._values is not None else len(self._arrow)

    @property
    def values(self) -> Values:
        """The values as a NumPy array."""
        if self._values is None:
            self._values, self._valid = _to_numpy(self._arrow)
        return self._values

    @property
    def valid(self) -> Mask | None:
        """True where a value is not null; None when none is."""
        if self._values is None and self._valid is None and self._arrow.null_count:
            self._valid = validity(self._arrow)
        return self._valid

    @property
    def bounds(self) -> Bounds:
        """Bounds of whole numbers, those under a null included: given by the kernel, or computed once."""
        if self._bounds is None:
            values = self.values
            if len(values) == 1:  # a constant, or the row of a small step
                self._bounds = (values.item(), values.item())
            else:
                self._bounds = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        return self._bounds

    @property
    def arrow(self) -> pa.Array:
        """The values as an Arrow array."""
        if self._arrow is None:
            assert self._values is not None
            self._arrow = _to_arrow(self._values, self._valid, self.type)
        return self._arrow

    def expand(self, count: int) -> Vector:
        """The same vector with ``count`` rows written out."""
        if not self.constant:
            return self
        if self._values is not None:
            values = np.repeat(self._values, count)
            valid = None if self._valid is None else np.repeat(self._valid, count)
            return Vector(self.type, values, valid, failures=self.failures)
        claim(self._arrow.nbytes * count, count)
        repeated = self._arrow.take(pa.array(np.zeros(count, np.int64)))
        return Vector(self.type, arrow=repeated, failures=self.failures)

    def with_failures(self, failures: Failures) -> Vector:
        """The same values with these failures."""
        if not failures and not self.failures:
            return self
        return Vector(
            self.type, self._values, self._valid, self._arrow, failures, constant=self.constant, bounds=self._bounds
        )


Bounded: TypeAlias = Vector
"""A vector of numbers, of which a kernel looks at the bounds."""


def null_vector(data_type: pa.DataType) -> Vector:
    """A constant null."""
    if has_numpy(data_type):
        return Vector(data_type, np.zeros(1, dtype_of(data_type)), np.zeros(1, np.bool_), constant=True)
    return Vector(data_type, arrow=pa.nulls(1, data_type), constant=True)


def both_valid(left: Mask | None, right: Mask | None) -> Mask | None:
    """Rows valid in both."""
    if left is None:
        return right
    return left if right is None else left & right


_PLAIN = {code: dtype for code, dtype in _BY_CODE.items() if code not in (T.BOOLEAN.id, T.YEAR_MONTH.id)}


def validity(array: pa.Array) -> Mask | None:
    """True where an array is not null; None when no value is null."""
    if not array.null_count:
        return None
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.zeros(len(array), np.bool_)  # pa.null() keeps no bitmap
    return _unpack(bitmap, array.offset, len(array))


def _unpack(bitmap: pa.Buffer, offset: int, count: int) -> Mask:
    first = offset >> 3
    packed = np.frombuffer(bitmap, np.uint8)[first : (offset + count + 7) >> 3]
    bits = np.unpackbits(packed, bitorder="little")
    offset &= 7
    return bits[offset : offset + count].view(np.bool_)


def _to_numpy(array: pa.Array) -> tuple[Values, Mask | None]:
    count, offset, data_type = len(array), array.offset, array.type
    bitmap, data = array.buffers()
    plain = _PLAIN.get(data_type.id)
    if plain is not None and data is not None and (bitmap is None or not array.null_count):
        return np.frombuffer(data, plain, count, offset * plain.itemsize), None
    dtype = dtype_of(data_type)
    valid = _unpack(bitmap, offset, count) if bitmap is not None and array.null_count else None
    if data is None or count == 0:
        return np.zeros(count, dtype), valid
    if data_type == T.BOOLEAN:
        return _unpack(data, offset, count), valid
    if data_type == T.YEAR_MONTH:
        months = np.frombuffer(data, np.int32)[4 * offset : 4 * (offset + count) : 4]
        return months.astype(np.int64), valid
    if pa.types.is_decimal128(data_type):
        limbs = np.frombuffer(data, np.int64)[2 * offset : 2 * (offset + count)]
        low, high = limbs[0::2], limbs[1::2]
        if dtype.kind != "O":
            return np.ascontiguousarray(low), valid
        values = high.astype(object) * (1 << 64) + low.view(np.uint64).astype(object)
        if valid is not None:
            values[~valid] = 0
        return values, valid
    return np.frombuffer(data, dtype, count, offset * dtype.itemsize), valid


def _to_arrow(values: Values, valid: Mask | None, data_type: pa.DataType) -> pa.Array:
    count = len(values)
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    if data_type == T.BOOLEAN:
        data = pa.py_buffer(np.packbits(values, bitorder="little"))
    elif data_type == T.YEAR_MONTH:
        parts = np.zeros((count, 4), np.int32)
        parts[:, 0] = values
        data = pa.py_buffer(parts)
    elif pa.types.is_decimal128(data_type):
        data = pa.py_buffer(_limbs(values, valid))
    else:
        data = pa.py_buffer(np.ascontiguousarray(values, dtype_of(data_type)))
    return pa.Array.from_buffers(data_type, count, [bitmap, data])


def _limbs(values: Values, valid: Mask | None) -> Values:
    limbs = np.empty(2 * len(values), np.int64)
    if values.dtype != object:
        limbs[0::2], limbs[1::2] = values, values >> 63
        return limbs
    if valid is not None:
        values = np.where(valid, values, 0)
    limbs[0::2] = (values & _LOW).astype(np.uint64).view(np.int64) if len(values) else 0
    limbs[1::2] = (values >> 64).astype(np.int64) if len(values) else 0
    return limbs


def constant_vector(value: Any, data_type: pa.DataType) -> Vector:
    """One value standing for any number of rows; dates and timestamps are given as integers, decimals as Decimal."""
    if value is None:
        return null_vector(data_type)
    if has_numpy(data_type):
        if isinstance(value, Decimal):
            value = int(value.scaleb(data_type.scale, _WIDE))
        values = np.empty(1, dtype_of(data_type))
        values[0] = value
        return Vector(data_type, values, constant=True)
    return Vector(data_type, arrow=pa.array([value], data_type), constant=True)


def _wide_context() -> Any:
    from decimal import Context

    return Context(prec=80)


_WIDE = _wide_context()


def common_length(vectors: Sequence[Vector], count: int) -> list[Vector]:
    """The same vectors, constants written out."""
    return [v.expand(count) for v in vectors]
