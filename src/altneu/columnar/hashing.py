"""Hashes of rows: 64 bits, the same for ever, whatever wrote them.

Stored batches are sorted by these hashes, so they may never change; vectors in ``tests/laws/test_hashing.py`` pin
them.

* integers, dates, timestamps, booleans: SplitMix64 of the value, sign-extended to 64 bits (all widths hash alike);
* floats and doubles: SplitMix64 of the bits of the double, -0.0 taken as 0.0 and every NaN as one;
* strings and binary: XXH64, seed 0; decimals: both 64-bit words of the unscaled value, low word first;
* structs, lists and maps: their parts folded in order, lists and maps behind their length; null: a constant.

Several columns are folded in order; one column is not folded. SplitMix64 is a bijection, so equal hashes of a single
column of at most 64 bits mean equal values (``is_injective``), and no key needs to be compared: only null shares its
hash with one value.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.columns import (
    KINDS,
    Kind,
    children,
    is_valid,
    kind_of,
    load8,
    load32,
    load64,
    load_float32,
    load_float64,
    load_int8,
    load_int16,
    load_int32,
    raw,
)
from altneu.columnar.rows import Rows
from altneu.columnar.threads import LEAST, in_parts
from altneu.compiled import compiled

Hashes = npt.NDArray[np.uint64]

NULL_HASH = np.uint64(0x6E756C6C5F726F77)
EMPTY_HASH = np.uint64(0x656D7074795F726F)  # of a row without columns

_GAMMA, _MIX1, _MIX2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_UNMIX1, _UNMIX2 = (np.uint64(pow(int(factor), -1, 1 << 64)) for factor in (_MIX1, _MIX2))
_NAN = np.float64(np.nan)
_P1, _P2, _P3 = np.uint64(0x9E3779B185EBCA87), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_P4, _P5 = np.uint64(0x85EBCA77C2B2AE63), np.uint64(0x27D4EB2F165667C5)

# How a fixed-width column is read; booleans are bits, floats are normalised.
_INT, _UINT, _FLOAT, _BOOL, _DECIMAL = range(5)
_READ = {
    pa.lib.Type_BOOL: _BOOL,
    pa.lib.Type_FLOAT: _FLOAT,
    pa.lib.Type_DOUBLE: _FLOAT,
    pa.lib.Type_DECIMAL128: _DECIMAL,
    pa.lib.Type_UINT8: _UINT,
    pa.lib.Type_UINT16: _UINT,
    pa.lib.Type_UINT32: _UINT,
}


WORDS = {
    code: (width, _READ.get(code, _INT)) for code, (kind, width) in KINDS.items() if kind in (Kind.FIXED, Kind.BITS)
}
"""Of types without offsets or parts, by their codes, the width and how they are read (``hash_at``)."""


class _Setting:
    """The test hook: which low bits of a row's hash are kept, in the whole process; ``kept`` has them for kernels."""

    mask: np.uint64 | None = None
    kept = -1


SETTING = _Setting()


@contextmanager
def hash_bits(bits: int) -> Iterator[None]:
    """Keep only the low ``bits`` bits of every row's hash within the block, so that tests meet collisions.

    Answers must stay exact. Batches built under different settings must not meet.

    >>> numbers = Rows.from_pydict({"a": list(range(100))}, pa.schema([("a", pa.int64())]))
    >>> with hash_bits(2):
    ...     sorted(set(hash_rows(numbers).tolist()))
    [0, 1, 2, 3]
    """
    before = SETTING.mask, SETTING.kept
    SETTING.mask, SETTING.kept = np.uint64((1 << bits) - 1), -1 if bits == 64 else (1 << bits) - 1
    try:
        yield
    finally:
        SETTING.mask, SETTING.kept = before


def tells_number(schema: pa.Schema) -> bool:
    """Whether a hash that is not ``NULL_HASH`` is that of one whole number, date or time, which ``unmixed`` gives."""
    return is_number(schema) and is_injective(schema)


def is_number(schema: pa.Schema) -> bool:
    """Whether a row is one whole number, date or time."""
    return len(schema) == 1 and WORDS.get(schema.types[0].id, (0, None))[1] == _INT


def is_injective(schema: pa.Schema) -> bool:
    """Whether equal hashes of two rows of ``schema`` prove equal rows, unless the hash is ``NULL_HASH``.

    >>> is_injective(pa.schema([("a", pa.int64())])), is_injective(pa.schema([("a", pa.string())]))
    (True, False)
    """
    if len(schema) != 1:
        return len(schema) == 0
    return SETTING.mask is None and _is_word(schema.field(0).type.id)


def _is_word(code: int) -> bool:
    return code not in _NOT_A_WORD


_NOT_A_WORD = {
    pa.lib.Type_STRING, pa.lib.Type_BINARY, pa.lib.Type_DECIMAL128, pa.lib.Type_LIST, pa.lib.Type_STRUCT,
    pa.lib.Type_MAP,
}  # fmt: skip


def hash_rows(rows: Rows, columns: Sequence[str] | None = None) -> Hashes:
    """Hash every row over ``columns`` (all of them by default), in that order.

    Shape:  (n,) uint64.
    Cost:   O(bytes); about 5 ns an integer, 2 microseconds for one row.
    Law:    equal rows hash equal; the values are pinned by vectors (tests/laws/test_hashing.py).
    Source: Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, OOPSLA 2014; Collet, xxHash.

    Raises:
        TypeMismatchError: a column of a type that rows cannot have.

    >>> rows = Rows.from_pydict({"a": [0, None]}, pa.schema([("a", pa.int8())]))
    >>> [hex(h) for h in hash_rows(rows)]
    ['0xe220a8397b1dcdaf', '0x6e756c6c5f726f77']
    """
    hashes = full_hashes(rows, columns)
    if SETTING.mask is not None:
        hashes &= SETTING.mask
    return hashes


def full_hashes(rows: Rows, columns: Sequence[str] | None = None) -> Hashes:
    """The hash of each row, all 64 bits of it, whatever collisions are tried: for what is decided by it."""
    arrays = rows.columns if columns is None else [rows.column(name) for name in columns]
    count = rows.count
    if not arrays:
        return np.full(count, EMPTY_HASH, np.uint64)
    hashes, first = np.empty(count, np.uint64), True
    for array in arrays:
        word = WORDS[code] if count < LEAST and (code := array.type.id) in WORDS else None
        if word is None:
            _hash_into(array, hashes, first)
        else:  # as it does, without what a small step would mostly wait for
            valid, data = array.buffers()
            places = 0 if data is None else data.address, 0 if valid is None else valid.address
            _hash_words(*places, array.offset, *word, hashes, first)
        first = False
    return hashes


def _hash_into(column: pa.Array, out: Hashes, first: bool) -> None:
    """Write the hash of each value of ``column`` to ``out``, or fold it in when it is not the first."""
    kind, width = kind_of(column.type)
    if kind is Kind.NESTED:
        _hash_nested(column, out, first)
        return
    if kind is Kind.NULL:
        _combine_all(np.full(len(out), NULL_HASH, np.uint64), out, first)
        return
    data, valid, offsets, offset = raw(column, kind)
    if kind is Kind.BYTES:
        in_parts(len(out), lambda a, b: _hash_bytes(data, valid, offsets, offset + a, out[a:b], first))
        return
    read = _READ.get(column.type.id, _INT)
    if len(out) < LEAST:
        _hash_words(data, valid, offset, width, read, out, first)
        return
    in_parts(len(out), lambda a, b: _hash_words(data, valid, offset + a, width, read, out[a:b], first))


def _hash_nested(column: pa.Array, out: Hashes, first: bool) -> None:
    if pa.types.is_struct(column.type):
        own = np.full(len(out), EMPTY_HASH, np.uint64)
        for field in range(column.type.num_fields):
            _hash_into(column.field(field), own, first=False)
        valid = column.buffers()[0]
        _combine_struct(own, valid.address if valid is not None else 0, column.offset, out, first)
        return
    offsets, values = children(column)
    start, stop = (int(offsets[0]), int(offsets[-1])) if len(column) else (0, 0)
    entries = np.empty(stop - start, np.uint64)
    for i, child in enumerate(values):
        _hash_into(child.slice(start, stop - start), entries, first=i == 0)
    valid = column.buffers()[0]
    _combine_lists(offsets - start, entries, valid.address if valid is not None else 0, column.offset, out, first)


@compiled(inline="always")
def mix(word: np.uint64) -> np.uint64:
    """SplitMix64: the output for the state ``word``."""
    z = word + _GAMMA
    z = (z ^ (z >> np.uint64(30))) * _MIX1
    z = (z ^ (z >> np.uint64(27))) * _MIX2
    return z ^ (z >> np.uint64(31))


@compiled(inline="always")
def unmixed(h: np.uint64) -> np.uint64:
    """The word that ``mix`` has made a hash of.

    >>> [int(unmixed(np.uint64(mix(np.uint64(word))))) for word in (0, 5, 2**64 - 1)]
    [0, 5, 18446744073709551615]
    """
    z = (h ^ (h >> np.uint64(31)) ^ (h >> np.uint64(62))) * _UNMIX2
    z = (z ^ (z >> np.uint64(27)) ^ (z >> np.uint64(54))) * _UNMIX1
    return (z ^ (z >> np.uint64(30)) ^ (z >> np.uint64(60))) - _GAMMA


@compiled(inline="always")
def _rotate(word: np.uint64, by: int) -> np.uint64:
    return (word << np.uint64(by)) | (word >> np.uint64(64 - by))


@compiled(inline="always")
def combine(before: np.uint64, then: np.uint64) -> np.uint64:
    """Put the hash of the next column behind those before; not symmetric."""
    return mix(_rotate(before, 23) ^ then)


@compiled(nogil=True)
def _hash_words(data: int, valid: int, offset: int, width: int, read: int, out: Hashes, first: bool) -> None:
    for k in range(len(out)):
        h = hash_at(data, valid, offset + k, width, read)
        out[k] = h if first else combine(out[k], h)


@compiled(nogil=True)
def _bits(value: float) -> np.uint64:
    return np.float64(value).view(np.uint64)


@compiled(nogil=True)
def hash_at(data: int, valid: int, i: int, width: int, read: int) -> np.uint64:
    """The hash of value ``i`` of a column without offsets or parts, which ``WORDS`` says how to read."""
    if not is_valid(valid, i):
        h = NULL_HASH
    elif read in (_INT, _UINT):
        if width == 8:
            h = mix(load64(data + 8 * i))
        elif width == 4:
            h = mix(np.uint64(load_int32(data + 4 * i)) if read == _INT else np.uint64(load32(data + 4 * i)))
        elif width == 2:
            word = np.int64(load_int16(data + 2 * i))
            h = mix(np.uint64(word if read == _INT else word & 0xFFFF))
        else:
            h = mix(np.uint64(load_int8(data + i)) if read == _INT else np.uint64(load8(data + i)))
    elif read == _FLOAT:
        value = np.float64(load_float32(data + 4 * i)) if width == 4 else load_float64(data + 8 * i)
        h = mix(_bits(_NAN if np.isnan(value) else value + 0.0))  # adding 0.0 takes the sign of -0.0 away
    elif read == _BOOL:
        h = mix(np.uint64(is_valid(data, i)))
    else:
        h = combine(mix(load64(data + 16 * i)), mix(load64(data + 16 * i + 8)))
    return h


@compiled(inline="always")
def _round(lane: np.uint64, word: np.uint64) -> np.uint64:
    return _rotate(lane + word * _P2, 31) * _P1


@compiled(inline="always")
def _merge_lane(h: np.uint64, lane: np.uint64) -> np.uint64:
    return (h ^ _round(np.uint64(0), lane)) * _P1 + _P4


@compiled(nogil=True)
def xxh64(address: int, size: int) -> np.uint64:
    """XXH64 with seed 0 of ``size`` bytes at ``address``."""
    at, end = address, address + size
    if size >= 32:
        a, b, c, d = _P1 + _P2, _P2, np.uint64(0), np.uint64(0) - _P1
        while at + 32 <= end:
            a, b = _round(a, load64(at)), _round(b, load64(at + 8))
            c, d = _round(c, load64(at + 16)), _round(d, load64(at + 24))
            at += 32
        h = _rotate(a, 1) + _rotate(b, 7) + _rotate(c, 12) + _rotate(d, 18)
        h = _merge_lane(_merge_lane(_merge_lane(_merge_lane(h, a), b), c), d)
    else:
        h = _P5
    h += np.uint64(size)
    while at + 8 <= end:
        h = _rotate(h ^ _round(np.uint64(0), load64(at)), 27) * _P1 + _P4
        at += 8
    if at + 4 <= end:
        h = _rotate(h ^ (np.uint64(load32(at)) * _P1), 23) * _P2 + _P3
        at += 4
    while at < end:
        h = _rotate(h ^ (np.uint64(load8(at)) * _P5), 11) * _P1
        at += 1
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


@compiled(nogil=True)
def _hash_bytes(data: int, valid: int, offsets: int, offset: int, out: Hashes, first: bool) -> None:
    for k in range(len(out)):
        i = offset + k
        if is_valid(valid, i):
            start = load_int32(offsets + 4 * i)
            h = xxh64(data + start, load_int32(offsets + 4 * i + 4) - start)
        else:
            h = NULL_HASH
        out[k] = h if first else combine(out[k], h)


@compiled()
def _combine_all(own: Hashes, out: Hashes, first: bool) -> None:
    for k in range(len(out)):
        out[k] = own[k] if first else combine(out[k], own[k])


@compiled()
def _combine_struct(own: Hashes, valid: int, offset: int, out: Hashes, first: bool) -> None:
    for k in range(len(out)):
        h = own[k] if is_valid(valid, offset + k) else NULL_HASH
        out[k] = h if first else combine(out[k], h)


@compiled()
def _combine_lists(
    offsets: npt.NDArray[np.int64], entries: Hashes, valid: int, offset: int, out: Hashes, first: bool
) -> None:
    for k in range(len(out)):
        h = NULL_HASH
        if is_valid(valid, offset + k):
            h = mix(np.uint64(offsets[k + 1] - offsets[k]))
            for j in range(offsets[k], offsets[k + 1]):
                h = combine(h, entries[j])
        out[k] = h if first else combine(out[k], h)
