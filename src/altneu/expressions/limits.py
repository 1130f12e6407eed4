"""How large values may become: looked at before there is memory for them.

One value has at most as many bytes as Arrow counts in 32 bits, and an array at most as many elements as Spark gives it.
What is larger fails on its row. The values of many rows together may be more than a column holds, or than is good for
memory: a ``TooWideError`` makes the caller evaluate fewer rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu.errors import TooWideError

Mask = npt.NDArray[np.bool_]
Values = npt.NDArray[Any]
MOST_BYTES = (1 << 31) - 1
MOST_ELEMENTS = 2_147_483_632  # Spark's ByteArrayMethods.MAX_ROUNDED_ARRAY_LENGTH
CHUNK_BYTES = 1 << 28
"""Bytes of a column that one expression may make for the rows that are evaluated together."""
FOLDED_BYTES = 1 << 20
"""Bytes of a constant that is computed when a plan is made; a larger one is computed where it is used."""
VALUE_TOO_LARGE = "VALUE_TOO_LARGE"
COLLECTION_SIZE_LIMIT_EXCEEDED = "COLLECTION_SIZE_LIMIT_EXCEEDED"

_bound: ContextVar[tuple[int, int]] = ContextVar("bound", default=(MOST_BYTES, 1))
Failed = tuple[Mask, str, Callable[[int], str]]


@contextmanager
def bounded(size: int, *, alone: bool = False) -> Iterator[None]:
    """Within it ``claim`` refuses more than ``size`` bytes for several rows, and ``alone`` for a single one too."""
    token = _bound.set((size, 0 if alone else 1))
    try:
        yield
    finally:
        _bound.reset(token)


def claim(size: float, rows: int) -> None:
    """So many bytes are about to be made for so many rows.

    Raises:
        TooWideError: they are more than a column, or what evaluates it, has room for; take fewer rows.
    """
    most, alone = _bound.get()
    if rows > alone and size > most:
        raise TooWideError(f"{rows} rows come to {int(size)} bytes in one column; evaluate fewer at a time")


def sized(text: str, sizes: Values) -> tuple[Mask, Failed]:
    """Values of so many bytes: which are too large for one value, and the failure that they are.

    Shape:  ``sizes`` (n,) bytes; ``text`` is the expression's.

    Raises:
        TooWideError: the others are too many bytes together.
    """
    bad: Mask = sizes > MOST_BYTES
    claim(float(np.where(bad, 0, sizes).sum(dtype=np.float64)), len(sizes))

    def message(row: int) -> str:
        size = int(sizes[row if len(sizes) > 1 else 0])
        return f"`{text}` would have {size:,} bytes; a value has at most {MOST_BYTES:,}"

    return bad, (bad, VALUE_TOO_LARGE, message)


def anonymous(name: str) -> str:
    """A call without its arguments, whose text depends on what is shared: an error must be the same when it goes."""
    return f"{name}(…)"


def too_large(name: str) -> str:
    """What is said of a value of which only that is known: Arrow had no room for it."""
    return f"`{anonymous(name)}` would have more than {MOST_BYTES:,} bytes, which is the most that a value has"


def whole(array: pa.Array) -> pa.Array:
    """Texts that Arrow has made, unless they are more than their offsets count: some of its kernels do not look.

    Raises:
        TooWideError: they are.
    """
    buffer = array.buffers()[2] if len(array) else None
    if buffer is not None and buffer.size > MOST_BYTES:
        raise TooWideError(f"{len(array)} rows come to {buffer.size} bytes in one column; evaluate fewer at a time")
    return array


def counted(text: str, lengths: Values, widths: Values | int) -> tuple[Mask, Failed]:
    """Arrays of so many elements, of so many bytes each: which are too large, and the failure that they are.

    Raises:
        TooWideError: the others are too many bytes together.
    """
    sizes = lengths.astype(np.float64) * widths
    bad: Mask = (lengths > MOST_ELEMENTS) | (sizes > MOST_BYTES)
    claim(float(np.where(bad, 0, sizes).sum()), len(lengths))

    def message(row: int) -> str:
        at = row if len(lengths) > 1 else 0
        return (
            f"`{text}` would have {int(lengths[at]):,} elements in {int(sizes[at]):,} bytes; an array has at most "
            f"{MOST_ELEMENTS:,} elements and {MOST_BYTES:,} bytes"
        )

    return bad, (bad, COLLECTION_SIZE_LIMIT_EXCEEDED, message)


def row_bytes(column: pa.Array) -> Values:
    """About how many bytes each value of a column has."""
    if pt.is_string(column.type) or pt.is_binary(column.type):
        raw = column.buffers()[1]
        if raw is None or not len(column):
            return np.zeros(len(column), np.int64)
        offsets = np.frombuffer(raw, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
        return np.diff(offsets)
    each = -(-column.nbytes // len(column)) if len(column) else 0
    return np.full(len(column), each, np.int64)


def emptied(texts: pa.Array, bad: Mask) -> pa.Array:
    """The texts, those that fail empty."""
    return pc.if_else(pa.array(~bad), texts, "") if bad.any() else texts


def overflows(error: Exception) -> bool:
    """Whether an error says that a column has more bytes than it can hold, which fewer rows would not have."""
    if isinstance(error, TooWideError | pa.ArrowCapacityError):
        return True
    return isinstance(error, pa.ArrowInvalid) and any(
        word in str(error) for word in ("overflow", "capacity", "2147483")
    )
