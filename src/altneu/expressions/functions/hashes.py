"""``hash`` and ``xxhash64``: Spark's hashes of values of any type, over whole columns.

Source: Appleby, MurmurHash3 (x86, 32 bits), with Spark's own handling of the last bytes; Collet, xxHash (64 bits).
A null leaves the hash as it is; an array or a struct is hashed element by element, each from the hash before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.functions.digests import scalar
from altneu.expressions.lists import explode
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Values, Vector, validity

_SEED = 42
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_SMALL_DECIMAL = 18


def _turned(values: Values, by: int) -> Values:
    """Bits turned to the left."""
    kind = values.dtype.type
    return (values << kind(by)) | (values >> kind(values.dtype.itemsize * 8 - by))


def _mixed(h: Values, k: Values) -> Values:
    k = _turned(k * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _turned(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _murmur_end(h: Values, length: Values | int) -> Values:
    h = h ^ np.asarray(length, np.uint32)
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


class _Bytes:
    """The bytes of n texts, of which words are read at a place each.

    Shape:  ``starts`` and ``sizes`` n, in ``data``.
    """

    def __init__(self, array: pa.Array) -> None:
        raw = np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array) + 1]
        self.starts, self.sizes = raw[:-1].astype(np.int64), np.diff(raw).astype(np.int64)
        buffer = array.buffers()[2]
        self.data = np.frombuffer(buffer, np.uint8) if buffer is not None else np.zeros(0, np.uint8)

    def words(self, rows: Values, places: Values | int, kind: type[np.unsignedinteger[Any]]) -> Values:
        """A word of each of some rows, little end first."""
        size = np.dtype(kind).itemsize
        index = (self.starts[rows] + places)[:, None] + np.arange(size)
        return np.ascontiguousarray(self.data[index]).view(kind).reshape(-1)


def _murmur_bytes(array: pa.Array, seeds: Values) -> Values:
    texts, h = _Bytes(array), seeds.copy()
    whole = texts.sizes // 4
    for word in range(int(whole.max(initial=0))):
        rows = np.flatnonzero(whole > word)
        h[rows] = _mixed(h[rows], texts.words(rows, 4 * word, np.uint32))
    for left in range(3):  # each byte left over is a word of its own, with its sign
        rows = np.flatnonzero(texts.sizes - 4 * whole > left)
        byte = texts.words(rows, 4 * whole[rows] + left, np.uint8).view(np.int8)
        h[rows] = _mixed(h[rows], byte.astype(np.int32).view(np.uint32))
    return _murmur_end(h, texts.sizes)


def _xx_end(h: Values) -> Values:
    h = (h ^ (h >> np.uint64(33))) * _P2
    h = (h ^ (h >> np.uint64(29))) * _P3
    return h ^ (h >> np.uint64(32))


def _round(v: Values, word: Values) -> Values:
    return _turned(v + word * _P2, 31) * _P1


def _xx_bytes(array: pa.Array, seeds: Values) -> Values:
    texts = _Bytes(array)
    h = seeds + _P5
    long = np.flatnonzero(texts.sizes >= 32)
    stripes = texts.sizes // 32
    lanes = [seeds + _P1 + _P2, seeds + _P2, seeds.copy(), seeds - _P1]
    for stripe in range(int(stripes.max(initial=0))):
        rows = np.flatnonzero(stripes > stripe)
        for i, lane in enumerate(lanes):
            lane[rows] = _round(lane[rows], texts.words(rows, 32 * stripe + 8 * i, np.uint64))
    merged = sum((_turned(lane, by) for lane, by in zip(lanes[1:], (7, 12, 18), strict=True)), _turned(lanes[0], 1))
    for lane in lanes:
        merged = (merged ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    h[long] = merged[long]
    h = h + texts.sizes.astype(np.uint64)
    done = 32 * stripes
    for _ in range(3):
        rows = np.flatnonzero(texts.sizes - done >= 8)
        word = _round(np.zeros(len(rows), np.uint64), texts.words(rows, done[rows], np.uint64))
        h[rows] = _turned(h[rows] ^ word, 27) * _P1 + _P4
        done[rows] += 8
    rows = np.flatnonzero(texts.sizes - done >= 4)
    half = texts.words(rows, done[rows], np.uint32).astype(np.uint64) * _P1
    h[rows] = _turned(h[rows] ^ half, 23) * _P2 + _P3
    done[rows] += 4
    for _ in range(3):
        rows = np.flatnonzero(texts.sizes > done)
        byte = texts.words(rows, done[rows], np.uint8).astype(np.uint64) * _P5
        h[rows] = _turned(h[rows] ^ byte, 11) * _P1
        done[rows] += 1
    return _xx_end(h)


def _murmur_int(values: Values, seeds: Values) -> Values:
    return _murmur_end(_mixed(seeds, values.astype(np.int32).view(np.uint32)), 4)


def _murmur_long(values: Values, seeds: Values) -> Values:
    bits = values.astype(np.int64).view(np.uint64)
    low, high = (bits & np.uint64(0xFFFFFFFF)).astype(np.uint32), (bits >> np.uint64(32)).astype(np.uint32)
    return _murmur_end(_mixed(_mixed(seeds, low), high), 8)


def _xx_int(values: Values, seeds: Values) -> Values:
    h = seeds + _P5 + np.uint64(4)
    h = h ^ (values.astype(np.int32).view(np.uint32).astype(np.uint64) * _P1)
    return _xx_end(_turned(h, 23) * _P2 + _P3)


def _xx_long(values: Values, seeds: Values) -> Values:
    h = seeds + _P5 + np.uint64(8)
    h = h ^ _round(np.zeros(len(values), np.uint64), values.astype(np.int64).view(np.uint64))
    return _xx_end(_turned(h, 27) * _P1 + _P4)


_Kernel = Callable[[Any, Values], Values]
_KERNELS: dict[str, tuple[_Kernel, _Kernel, _Kernel]] = {
    "hash": (_murmur_int, _murmur_long, _murmur_bytes),
    "xxhash64": (_xx_int, _xx_long, _xx_bytes),
}
_INTS = (T.BOOLEAN, T.BYTE, T.SHORT, T.INT, T.DATE, T.YEAR_MONTH)


def _hashed(array: pa.Array, seeds: Values, kernels: tuple[_Kernel, _Kernel, _Kernel]) -> Values:
    """The hash of every value from a seed; a null's is the seed."""
    kind, valid = array.type, validity(array)
    if kind == T.NULL or not len(array):
        return seeds
    if pt.is_struct(kind):
        result = seeds
        for values in array.flatten():
            result = _hashed(values, result, kernels)
    elif pt.is_list(kind):
        lists, result = explode(array), seeds.copy()
        for place in range(int(lists.lengths.max(initial=0))):
            rows = np.flatnonzero(lists.lengths > place)
            elements = lists.elements.take(pa.array(lists.offsets[rows] + place))
            result[rows] = _hashed(elements, result[rows], kernels)
    else:
        result = _plain(array, seeds, kernels)
    return result if valid is None else np.where(valid, result, seeds)


def _plain(array: pa.Array, seeds: Values, kernels: tuple[_Kernel, _Kernel, _Kernel]) -> Values:
    of_int, of_long, of_bytes = kernels
    kind = array.type
    if kind in (T.STRING, T.BINARY):
        return of_bytes(array, seeds)
    values = Vector(kind, arrow=array).values
    if kind == T.TIME:
        return of_long(values * 1000, seeds)  # Spark counts nanoseconds
    if pt.is_decimal128(kind) and kind.precision > _SMALL_DECIMAL:
        raw = [v.to_bytes((8 + (v + (v < 0)).bit_length()) // 8, "big", signed=True) for v in map(int, values)]
        return of_bytes(pa.array(raw, T.BINARY), seeds)
    if kind == T.FLOAT:
        return of_int((values + np.float32(0)).view(np.int32), seeds)
    if kind == T.DOUBLE:
        return of_long((values + 0.0).view(np.int64), seeds)
    return of_int(values, seeds) if kind in _INTS else of_long(values, seeds)


def _rule(args: Arguments) -> Typing:
    for arg in args:
        if what := T.uncompared(arg.type):
            raise TypeMismatchError(f"{args.name}: `{arg.text}` has {what}, which have no hash")
    return Typing([None] * len(args), T.INT if args.name == "hash" else T.LONG, False)


def _kernel(name: str) -> Callable[..., Vector]:
    dtype = np.uint32 if name == "hash" else np.uint64

    def kernel(count: int, *values: Vector) -> Vector:
        constant = all(v.constant for v in values)
        size = 1 if constant else count
        result = np.full(size, _SEED, dtype)
        with np.errstate(over="ignore"):
            for value in values:
                result = _hashed((value if constant else value.expand(count)).arrow, result, _KERNELS[name])
        signed = result.view(np.int32 if name == "hash" else np.int64)
        return Vector(T.INT if name == "hash" else T.LONG, signed, constant=constant)

    return kernel


for _name, _algorithm in (("hash", "MurmurHash3, of 32 bits"), ("xxhash64", "xxHash, of 64 bits")):
    scalar(
        f"{_name}(a, …)",
        rule=_rule,
        usage=f"{_name}(a, b, …)",
        doc=f"A hash of the values, the same as Spark's: {_algorithm}. Nulls are passed over.",
    )(_kernel(_name))
