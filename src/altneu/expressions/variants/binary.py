"""The binary form of a variant: two byte strings, its value and the names that it uses.

Source: the variant encoding of Apache Parquet (``VariantEncoding.md``), in the form in which Spark writes it: fields of
objects are in the order of their names, whole numbers take the least number of bytes, names are numbered in the order
in which they are met.

A value is taken apart into a tree: an ``Object`` of names and values, a list, or the ``bytes`` of any other value,
which are copied as they are. A tree may also have the values of documents: None, booleans, whole numbers, ``Real`` and
texts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from altneu import types as T
from altneu.expressions.documents import Object, Real
from altneu.expressions.each import RowFailure

MOST_BYTES = 128 * 1024 * 1024
"""A value and its names have no more bytes each, as in Spark."""
DEEPEST = 200
"""More arrays and objects are not in one another; Spark's limit is 1000, for which Python's stack has no room."""
SHORT_TEXT, OBJECT, ARRAY = 1, 2, 3
_LONGEST_SHORT = 63
_DOUBLE, _FLOAT, _BINARY, _LONG_TEXT, _UUID = 7, 14, 15, 16, 20
_DECIMALS = {8: (4, 9), 9: (8, 18), 10: (16, 38)}
_WHOLE = {3: 1, 4: 2, 5: 4, 6: 8}
_MOMENTS = {11: (T.DATE, 4), 12: (T.TIMESTAMP, 8), 13: (T.TIMESTAMP_NTZ, 8)}
_OF_MOMENTS = {kind: (number, size) for number, (kind, size) in _MOMENTS.items()}
UUID: Any = "uuid"
"""The type of a UUID, which Spark has no type for."""


class Variant(NamedTuple):
    """A value and its names, as a column has them."""

    value: bytes
    metadata: bytes


class Scalar(NamedTuple):
    """A value that is neither object nor array: its type, and itself; moments are numbers, decimals ``Decimal``."""

    type: Any
    value: Any


def malformed() -> RowFailure:
    """The failure of bytes that are no variant."""
    return RowFailure("MALFORMED_VARIANT", "the bytes of a variant are not what its format says")


class Reader:
    """Reads the parts of a variant, each by its place among the bytes of the value.

    >>> it = Reader(*encoded([1, "x", None]))
    >>> [it.scalar(place).value for place in it.elements(0)]
    [1, 'x', None]

    Raises:
        RowFailure: the bytes are no variant; from every method.
    """

    def __init__(self, value: bytes, metadata: bytes) -> None:
        self.value, self.metadata = value, metadata
        if not metadata or metadata[0] & 15 != 1:
            raise malformed()

    @cached_property
    def _names(self) -> tuple[int, int]:
        """How many names there are, and the bytes of an offset."""
        size = (self.metadata[0] >> 6) + 1
        return _unsigned(self.metadata, 1, size), size

    def name(self, number: int) -> str:
        """The name of a number."""
        count, size = self._names
        if number >= count:
            raise malformed()
        start, end = (_unsigned(self.metadata, 1 + (number + i) * size, size) for i in (1, 2))
        first = 1 + (count + 2) * size
        if start > end or first + end > len(self.metadata):
            raise malformed()
        return self.metadata[first + start : first + end].decode("utf-8", "replace")

    def kind(self, at: int) -> int:
        """``OBJECT``, ``ARRAY``, ``SHORT_TEXT``, or 0 for any other value."""
        return self._header(at) & 3

    def _header(self, at: int) -> int:
        if not 0 <= at < len(self.value):
            raise malformed()
        return self.value[at]

    def is_null(self, at: int) -> bool:
        """Whether it is the null of a document."""
        return self._header(at) == 0

    def members(self, at: int) -> Iterator[tuple[str, int]]:
        """Names and places of an object's fields, in the order of the names."""
        info = self._header(at) >> 2
        wide = info >> 4 & 1
        width, size = (info >> 2 & 3) + 1, (info & 3) + 1
        count = _unsigned(self.value, at + 1, 4 if wide else 1)
        numbers = at + (5 if wide else 2)
        offsets = numbers + count * width
        data = offsets + (count + 1) * size
        for i in range(count):
            name = self.name(_unsigned(self.value, numbers + i * width, width))
            yield name, data + _unsigned(self.value, offsets + i * size, size)

    def elements(self, at: int) -> list[int]:
        """Places of an array's elements."""
        info = self._header(at) >> 2
        wide, size = info >> 2 & 1, (info & 3) + 1
        count = _unsigned(self.value, at + 1, 4 if wide else 1)
        offsets = at + (5 if wide else 2)
        data = offsets + (count + 1) * size
        if data > len(self.value):
            raise malformed()
        return [data + _unsigned(self.value, offsets + i * size, size) for i in range(count)]

    def member(self, at: int, name: str) -> int | None:
        """The place of a field; None if the value is no object that has it."""
        if self.kind(at) != OBJECT:
            return None
        return next((place for found, place in self.members(at) if found == name), None)

    def element(self, at: int, index: int) -> int | None:
        """The place of an element; None if the value is no array that has it."""
        places = self.elements(at) if self.kind(at) == ARRAY else []
        return places[index] if index < len(places) else None

    def scalar(self, at: int) -> Scalar:
        """A value that is neither an object nor an array."""
        header = self._header(at)
        number, start = header >> 2, at + 1
        if header & 3 == SHORT_TEXT:
            return Scalar(T.STRING, self._bytes(start, number).decode("utf-8", "replace"))
        if number in _WHOLE:
            return Scalar(T.LONG, self._signed(start, _WHOLE[number]))
        if number in (0, 1, 2):
            return Scalar(*((T.NULL, None), (T.BOOLEAN, True), (T.BOOLEAN, False))[number])
        if number in _MOMENTS:
            kind, size = _MOMENTS[number]
            return Scalar(kind, self._signed(start, size))
        if number in _DECIMALS:
            size, most = _DECIMALS[number]
            scale, unscaled = _unsigned(self.value, start, 1), self._signed(start + 1, size)
            if scale > most or len(str(abs(unscaled))) > most:
                raise malformed()
            return Scalar(Decimal, Decimal(f"{unscaled}E-{scale}"))
        if number in (_DOUBLE, _FLOAT):
            kind, letter, size = (T.DOUBLE, "<d", 8) if number == _DOUBLE else (T.FLOAT, "<f", 4)
            return Scalar(kind, struct.unpack(letter, self._bytes(start, size))[0])
        if number in (_BINARY, _LONG_TEXT):
            data = self._bytes(start + 4, _unsigned(self.value, start, 4))
            return Scalar(T.BINARY, data) if number == _BINARY else Scalar(T.STRING, data.decode("utf-8", "replace"))
        if number == _UUID:
            digits = self._bytes(start, 16).hex()
            return Scalar(UUID, "-".join(digits[a:b] for a, b in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))))
        raise RowFailure("UNKNOWN_PRIMITIVE_TYPE_IN_VARIANT", f"a variant has a value of the unknown type {number}")

    def _end(self, at: int) -> tuple[int, int]:
        """Where the parts of an object or an array begin, and how many bytes they have."""
        info = self._header(at) >> 2
        is_object = self.kind(at) == OBJECT
        wide, size = info >> (4 if is_object else 2) & 1, (info & 3) + 1
        width = (info >> 2 & 3) + 1 if is_object else 0
        count = _unsigned(self.value, at + 1, 4 if wide else 1)
        offsets = at + (5 if wide else 2) + count * width
        return offsets + (count + 1) * size, _unsigned(self.value, offsets + count * size, size)

    def tree(self, at: int = 0, depth: int = 0) -> Any:
        """A value taken apart."""
        if depth > DEEPEST:
            raise too_deep()
        kind = self.kind(at)
        if kind == OBJECT:
            return Object((name, self.tree(place, depth + 1)) for name, place in self.members(at))
        if kind == ARRAY:
            return [self.tree(place, depth + 1) for place in self.elements(at)]
        return self.whole(at)

    def check(self, at: int = 0, depth: int = 0) -> None:
        """Read everything."""
        if depth > DEEPEST:
            raise too_deep()
        kind = self.kind(at)
        if kind == OBJECT:
            for _, place in self.members(at):
                self.check(place, depth + 1)
        elif kind == ARRAY:
            for place in self.elements(at):
                self.check(place, depth + 1)
        else:
            self.scalar(at)

    def whole(self, at: int) -> bytes:
        """The bytes of a value, which has the same names."""
        return self._bytes(at, self._size(at))

    def _size(self, at: int) -> int:
        """How many bytes a value has."""
        header = self._header(at)
        if header & 3 in (OBJECT, ARRAY):
            data, ends = self._end(at)
            return data + ends - at
        number = header >> 2
        if header & 3 == SHORT_TEXT:
            size = 1 + number
        elif number in (_BINARY, _LONG_TEXT):
            size = 5 + _unsigned(self.value, at + 1, 4)
        elif number in _SIZES:
            size = _SIZES[number]
        else:
            self.scalar(at)  # raises
            raise AssertionError(number)
        return size

    def _bytes(self, at: int, size: int) -> bytes:
        if at + size > len(self.value):
            raise malformed()
        return self.value[at : at + size]

    def _signed(self, at: int, size: int) -> int:
        return int.from_bytes(self._bytes(at, size), "little", signed=True)


_SIZES = {
    **dict.fromkeys((0, 1, 2), 1),
    **{number: 1 + size for number, size in _WHOLE.items()},
    **{number: 1 + size for number, (_, size) in _MOMENTS.items()},
    **{number: 2 + size for number, (size, _) in _DECIMALS.items()},
    _DOUBLE: 9,
    _FLOAT: 5,
    _UUID: 17,
}


def too_deep() -> RowFailure:
    """The failure of a value that is more deeply nested than values may be."""
    return RowFailure("VALUE_TOO_LARGE", f"a variant has more than {DEEPEST} arrays and objects in one another")


def _unsigned(data: bytes, at: int, size: int) -> int:
    if at < 0 or at + size > len(data):
        raise malformed()
    return int.from_bytes(data[at : at + size], "little")


# writing --------------------------------------------------------------------------------------------------------------


def encoded(tree: Any) -> Variant:
    r"""The bytes of a tree.

    >>> encoded(Object([("b", 1), ("a", [True])])).value.hex(), encoded(None)
    ('020201000200070c010301000104', Variant(value=b'\x00', metadata=b'\x01\x00\x00'))

    Raises:
        RowFailure: a name comes twice in an object, or there are too many bytes.
    """
    numbers: dict[str, int] = {}
    value = _written(tree, numbers, 0)
    names = [name.encode() for name in numbers]
    ends = [0]
    for name in names:
        ends.append(ends[-1] + len(name))
    size = _width(max(ends[-1], len(names)))
    header = bytes([1 | size - 1 << 6]) + len(names).to_bytes(size, "little")
    metadata = b"".join([header, *(end.to_bytes(size, "little") for end in ends), *names])
    if max(len(value), len(metadata)) > MOST_BYTES:
        raise RowFailure("VARIANT_SIZE_LIMIT", f"a variant has more than {MOST_BYTES} bytes")
    return Variant(value, metadata)


def _written(tree: Any, numbers: dict[str, int], depth: int) -> bytes:
    if depth > DEEPEST:
        raise too_deep()
    if isinstance(tree, bytes):
        return tree
    if isinstance(tree, RowFailure):  # of what could not be taken apart
        raise tree
    if isinstance(tree, Object):
        fields, parts, at = [], [], 0
        for name, member in tree:
            number = numbers.setdefault(name, len(numbers))
            fields.append((name.encode("utf-16-be"), number, at))
            parts.append(_written(member, numbers, depth + 1))
            at += len(parts[-1])
        fields.sort()
        twice = next((a for (a, _, _), (b, _, _) in pairwise(fields) if a == b), None)
        if twice is not None:
            raise RowFailure("VARIANT_DUPLICATE_KEY", f"an object has the key {twice.decode('utf-16-be')!r} twice")
        count, wide = len(fields), len(fields) > 255
        width, size = _width(max((number for _, number, _ in fields), default=0)), _width(at)
        header = bytes([wide << 6 | width - 1 << 4 | size - 1 << 2 | OBJECT]) + count.to_bytes(
            4 if wide else 1, "little"
        )
        ids = [number.to_bytes(width, "little") for _, number, _ in fields]
        offsets = [offset.to_bytes(size, "little") for offset in (*(o for _, _, o in fields), at)]
        return b"".join([header, *ids, *offsets, *parts])
    if isinstance(tree, list):
        parts = [_written(element, numbers, depth + 1) for element in tree]
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + len(part))
        wide, size = len(parts) > 255, _width(ends[-1])
        header = bytes([wide << 4 | size - 1 << 2 | ARRAY]) + len(parts).to_bytes(4 if wide else 1, "little")
        return b"".join([header, *(end.to_bytes(size, "little") for end in ends), *parts])
    return _of_document(tree)


def _width(number: int) -> int:
    """The least number of bytes for an offset or a number of a name."""
    return max(1, (number.bit_length() + 7) // 8)


def _of_document(value: Any) -> bytes:
    """A value of a document: a number that is written without an exponent is a decimal if 38 digits are enough."""
    if value is None:
        return b"\x00"
    if isinstance(value, bool):
        return b"\x04" if value else b"\x08"
    if isinstance(value, Real):
        if not set(value) <= _PLAIN:
            return scalar(T.DOUBLE, float(value))
        return _decimal_or_double(Decimal(value), value)
    if isinstance(value, int):
        return (
            scalar(T.LONG, value) if -(1 << 63) <= value < 1 << 63 else _decimal_or_double(Decimal(value), str(value))
        )
    return scalar(T.STRING, value)


_PLAIN = set("-.0123456789")


def _decimal_or_double(number: Decimal, text: str) -> bytes:
    _, digits, exponent = number.as_tuple()
    fits = -int(exponent) <= 38 and len(_significant(digits)) <= 38
    return scalar(Decimal, number) if fits else scalar(T.DOUBLE, float(text))


def _significant(digits: tuple[int, ...]) -> str:
    return "".join(map(str, digits)).lstrip("0") or "0"


def scalar(kind: Any, value: Any) -> bytes:
    r"""The bytes of a value of a type: moments are numbers, a decimal has its scale, whatever its type's.

    >>> scalar(T.LONG, 300), scalar(T.STRING, "é"), scalar(Decimal, Decimal("-1.50"))
    (b'\x10,\x01', b'\t\xc3\xa9', b' \x02j\xff\xff\xff')
    """
    if kind in (T.BYTE, T.SHORT, T.INT, T.LONG):
        number = next(n for n, size in _WHOLE.items() if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1)
        return bytes([number << 2]) + value.to_bytes(_WHOLE[number], "little", signed=True)
    if kind == T.STRING:
        data = value.encode()
        if len(data) <= _LONGEST_SHORT:
            return bytes([len(data) << 2 | SHORT_TEXT]) + data
        return bytes([_LONG_TEXT << 2]) + len(data).to_bytes(4, "little") + data
    if kind == T.BOOLEAN:
        return b"\x04" if value else b"\x08"
    if kind == T.DOUBLE:
        return bytes([_DOUBLE << 2]) + struct.pack("<d", value)
    if kind == T.FLOAT:
        return bytes([_FLOAT << 2]) + struct.pack("<f", value)
    if kind == T.BINARY:
        return bytes([_BINARY << 2]) + len(value).to_bytes(4, "little") + value
    if kind in _OF_MOMENTS:
        number, size = _OF_MOMENTS[kind]
        return bytes([number << 2]) + int(value).to_bytes(size, "little", signed=True)
    sign, digits, exponent = value.as_tuple()
    unscaled, scale = _significant(digits), -int(exponent)
    number = next(n for n, (_, most) in _DECIMALS.items() if max(scale, len(unscaled)) <= most)
    signed = -int(unscaled) if sign else int(unscaled)
    return bytes([number << 2, scale]) + signed.to_bytes(_DECIMALS[number][0], "little", signed=True)


def variants(values: list[Variant | None]) -> pa.Array:
    r"""A column of variants.

    >>> variants([encoded(True), None]).to_pylist()
    [{'value': b'\x04', 'metadata': b'\x01\x00\x00'}, None]
    """
    return pa.array([None if v is None else v._asdict() for v in values], T.VARIANT)
