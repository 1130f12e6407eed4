"""JSON taken apart: items of arrays and objects, texts and integers, out of values that ``scan`` has passed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from altneu.columnar.columns import Mask, load8
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.json.scan import (
    ARRAY,
    COMMA,
    MINUS,
    OBJECT,
    QUOTE,
    TO_CLOSE,
    ZERO,
    Bytes,
    scan_string,
    skip_space,
    unescape,
)


@compiled()
def _skip_value(base: int, at: int, end: int) -> int:
    """Behind a well-formed value."""
    depth = 0
    while True:
        byte = load8(base + at)
        if byte == QUOTE:
            at = scan_string(base, at + 1, end)
        elif byte in (OBJECT, ARRAY):
            depth += 1
            at += 1
        elif byte in (OBJECT + TO_CLOSE, ARRAY + TO_CLOSE):
            depth -= 1
            at += 1
        else:
            at += 1
            while depth == 0 and at < end and _in_scalar(load8(base + at)):
                at += 1
        if depth == 0:
            return at


@compiled()
def _in_scalar(byte: int) -> bool:
    """Whether a number or literal goes on with this byte."""
    return byte > 0x20 and byte not in (COMMA, ARRAY + TO_CLOSE, OBJECT + TO_CLOSE)


@compiled()
def count_items(base: int, begin: Ints, end: Ints) -> Ints:
    """How many elements or members each value has: 0 when it is absent, or neither an array nor an object."""
    none = np.empty((4, 0), np.int64)
    counts = np.zeros(len(begin), np.int64)
    for row in range(len(begin)):
        if begin[row] >= 0:
            counts[row] = _split(base, begin[row], end[row], none, 0)
    return counts


@compiled()
def find_items(base: int, begin: Ints, end: Ints, offsets: Ints) -> Ints:
    """Where the elements of arrays and the members of objects begin and end, and before that the members' names.

    Shape:  four lines of ``offsets[-1]`` items: begin and end of names (absent in arrays), begin and end of values.
    """
    spans = np.full((4, offsets[-1]), -1, np.int64)
    for row in range(len(begin)):
        if offsets[row] < offsets[row + 1]:
            _split(base, begin[row], end[row], spans, offsets[row])
    return spans


@compiled()
def _split(base: int, at: int, end: int, spans: Ints, to: int) -> int:
    """Write the spans of the items of a value, when there is room for any; return how many there are."""
    kind = load8(base + at)
    if kind not in (OBJECT, ARRAY):
        return 0
    at = skip_space(base, at + 1, end)
    if load8(base + at) == kind + TO_CLOSE:
        return 0
    count = 0
    while True:
        first = at
        if kind == OBJECT:
            name_end = scan_string(base, at + 1, end)
            first = skip_space(base, skip_space(base, name_end, end) + 1, end)
            if to + count < spans.shape[1]:
                spans[0, to + count], spans[1, to + count] = at, name_end
        last = _skip_value(base, first, end)
        if to + count < spans.shape[1]:
            spans[2, to + count], spans[3, to + count] = first, last
        count += 1
        at = skip_space(base, last, end)
        if load8(base + at) != COMMA:
            return count
        at = skip_space(base, at + 1, end)


@compiled()
def copy_texts(base: int, begin: Ints, end: Ints, offsets: npt.NDArray[np.int32], out: Bytes, bad: Mask) -> None:
    """The content of strings, and the JSON of other values without its white space; nothing for what is absent.

    ``bad`` is set at a string with half of a surrogate pair, which no text can hold.
    """
    to = 0
    offsets[0] = 0
    for row in range(len(begin)):
        first, last = begin[row], end[row]
        if first >= 0 and load8(base + first) == QUOTE:
            result = unescape(base, first + 1, last - 1, out, to)
            if result < 0:
                bad[row] = True
            else:
                to = result
        elif first >= 0:
            to = _compact(base, first, last, out, to)
        offsets[row + 1] = to


@compiled()
def _compact(base: int, at: int, end: int, out: Bytes, to: int) -> int:
    """Write a value without the white space between its parts; return where it ends."""
    while at < end:
        last = at + 1
        if load8(base + at) == QUOTE:
            last = scan_string(base, at + 1, end)
        for k in range(at, last):
            out[to] = load8(base + k)
            to += 1
        at = skip_space(base, last, end)
    return to


@compiled()
def read_integers(base: int, begin: Ints, end: Ints, out: Ints, bad: Mask) -> None:
    """Numbers without fraction and exponent; ``bad`` is set at whatever else is there and what has over 64 bits."""
    for row in range(len(begin)):
        at, last = begin[row], end[row]
        if at < 0:
            continue
        negative = load8(base + at) == MINUS
        if negative:
            at += 1
        value = 0  # kept negative: there is one more number below zero
        fits = True
        while at < last:
            digit = int(load8(base + at)) - ZERO
            if digit < 0 or digit > 9 or value < -922337203685477580 or (value == -922337203685477580 and digit > 8):
                fits = False
                break
            value = value * 10 - digit
            at += 1
        if not negative:
            fits = fits and value != -9223372036854775807 - 1
            value = -value
        out[row] = value
        bad[row] = bad[row] or not fits
