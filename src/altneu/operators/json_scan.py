"""JSON read as bytes: one pass that checks a text against RFC 8259 and finds the members that are asked for.

A value is a span of bytes, from its first to behind its last; a span that begins before 0 is absent. Whatever lies in
a text that ``scan`` has passed is well formed, and the other kernels rely on it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from altneu.columns import load8, load64
from altneu.operators.compiled import compiled
from altneu.rows import Ints

Bytes = npt.NDArray[np.uint8]

DEEPEST = 1_000
"""Objects and arrays within each other: as many as Spark's parser takes."""

QUOTE, _ESCAPE, COMMA, _COLON, _PLUS, MINUS, _DOT, ZERO, _NINE, _U = map(ord, '"\\,:+-.09u')
OBJECT, ARRAY, _TRUE, _FALSE, _NULL = map(ord, "{[tfn")
TO_CLOSE = 2  # from an opening bracket to its closing one, of both kinds
_EACH, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _ESCAPES, _SPACES = np.uint64(QUOTE) * _EACH, np.uint64(_ESCAPE) * _EACH, np.uint64(0x20) * _EACH
_WORDS = np.frombuffer(b"true false null ", np.uint8)
_ESCAPED = np.zeros(256, np.uint8)
for _name, _value in zip(b'"\\/bfnrt', b'"\\/\b\f\n\r\t', strict=True):
    _ESCAPED[_name] = _value


@compiled
def scan(
    base: int, begin: Ints, end: Ints, names: Bytes, name_ends: Ints, subtrees: Ints, starts: Ints, ends: Ints
) -> Ints:
    """Check every text, and find the members that a tree of names asks for.

    The tree lies in preorder: node 0 is the whole text, the name of node k ends at ``name_ends[k]``, and the nodes
    below it end before ``subtrees[k]``. ``starts[row, k]`` and ``ends[row, k]``, absent at first, become the span of
    node k. Of members of one name the last counts.

    Returns -1 for each text that is JSON, else the byte at which it stops being so; -2 less that byte where objects
    and arrays are too deep there.
    """
    wrong = np.full(len(begin), -1, np.int64)
    kinds, nodes = np.empty(DEEPEST, np.int64), np.empty(DEEPEST, np.int64)
    for row in range(len(begin)):
        first = begin[row]
        if first < 0:
            continue
        at = _scan_text(base, first, end[row], names, name_ends, subtrees, starts[row], ends[row], kinds, nodes)
        if at >= 0:
            wrong[row] = at - first
        elif at < -1:
            wrong[row] = at + first
    return wrong


@compiled
def _scan_text(
    base: int,
    at: int,
    end: int,
    names: Bytes,
    name_ends: Ints,
    subtrees: Ints,
    starts: Ints,
    ends: Ints,
    kinds: Ints,
    nodes: Ints,
) -> int:
    depth, node = 0, 0
    while True:
        at = skip_space(base, at, end)
        if at == end:
            return at
        if node >= 0:
            starts[node] = at
        kind = int(load8(base + at))
        if kind in (OBJECT, ARRAY):
            if depth == DEEPEST:
                return -2 - at
            kinds[depth], nodes[depth] = kind, node
            depth += 1
            at = skip_space(base, at + 1, end)
            entered = at == end or load8(base + at) != kind + TO_CLOSE
        else:
            at = _scan_scalar(base, at, end)
            if at < 0:
                return -1 - at
            if node >= 0:
                ends[node] = at
            entered = False
        if not entered:
            at, depth = _close(base, at, end, ends, kinds, nodes, depth)
            if at < 0:
                return -1 - at
            if depth == 0:
                return -1 if at == end else at
        node = -1
        if kinds[depth - 1] == OBJECT:
            at, node = _scan_name(base, at, end, names, name_ends, subtrees, starts, nodes[depth - 1])
            if at < 0:
                return -1 - at


@compiled
def _close(base: int, at: int, end: int, ends: Ints, kinds: Ints, nodes: Ints, depth: int) -> tuple[int, int]:
    """Close what ends behind a value: behind the comma before the next one, or the end of the text at depth 0."""
    while True:
        at = skip_space(base, at, end)
        if depth == 0:
            return at, depth
        if at == end:
            return -1 - at, depth
        byte = load8(base + at)
        at += 1
        if byte == COMMA:
            return at, depth
        if byte != kinds[depth - 1] + TO_CLOSE:
            return -at, depth
        depth -= 1
        if nodes[depth] >= 0:
            ends[nodes[depth]] = at


@compiled
def _scan_name(
    base: int, at: int, end: int, names: Bytes, name_ends: Ints, subtrees: Ints, starts: Ints, parent: int
) -> tuple[int, int]:
    """Behind the colon after a member's name (-1 less the place of an error), and the node that asks for it, or -1."""
    at = skip_space(base, at, end)
    if at == end or load8(base + at) != QUOTE:
        return -1 - at, -1
    first = at + 1
    at = scan_string(base, first, end)
    if at < 0:
        return at, -1
    last = at - 1
    at = skip_space(base, at, end)
    if at == end or load8(base + at) != _COLON:
        return -1 - at, -1
    node = parent + 1
    while 0 < node < subtrees[parent]:
        if _is_name(base, first, last, names, name_ends[node - 1], name_ends[node]):
            if starts[node] >= 0:
                starts[node : subtrees[node]] = -1
            return at + 1, node
        node = subtrees[node]
    return at + 1, -1


@compiled
def _is_name(base: int, first: int, last: int, names: Bytes, start: int, stop: int) -> bool:
    """Whether the content of a string is a name."""
    size = stop - start
    if last - first < size:
        return False
    for k in range(size):
        byte = load8(base + first + k)
        if byte == _ESCAPE:
            content = np.empty(last - first, np.uint8)
            length = unescape(base, first, last, content, 0)
            return bool(length == size and np.all(content[:size] == names[start:stop]))
        if byte != names[start + k]:
            return False
    return last - first == size


@compiled
def skip_space(base: int, at: int, end: int) -> int:
    """Behind white space."""
    while at < end:
        byte = load8(base + at)
        if byte > 0x20 or byte not in (0x20, 0x0A, 0x0D, 0x09):
            break
        at += 1
    return at


@compiled
def scan_string(base: int, at: int, end: int) -> int:
    """Behind the quote that ends a string, or -1 less the place of an error."""
    while True:
        while at + 8 <= end:  # eight bytes at once, as long as none of them is special
            word = load64(base + at)
            quotes, escapes = word ^ _QUOTES, word ^ _ESCAPES
            special = ((quotes - _EACH) & ~quotes) | ((escapes - _EACH) & ~escapes) | ((word - _SPACES) & ~word)
            if special & _HIGH != 0:
                break
            at += 8
        if at >= end:
            return -1 - end
        byte = load8(base + at)
        if byte == QUOTE:
            return at + 1
        if byte < 0x20:
            return -1 - at
        if byte == _ESCAPE:
            if at + 1 == end:
                return -1 - end
            name = load8(base + at + 1)
            if name == _U:
                if at + 6 > end or _hex(base, at + 2) < 0:
                    return -1 - at
                at += 4
            elif _ESCAPED[name] == 0:
                return -1 - at
            at += 1
        at += 1


@compiled
def _hex(base: int, at: int) -> int:
    """The number of four hexadecimal digits, or -1."""
    number = 0
    for k in range(4):
        byte = int(load8(base + at + k))
        if ZERO <= byte <= _NINE:
            digit = byte - ZERO
        else:
            digit = (byte | 0x20) - 87
            if digit < 10 or digit > 15:
                return -1
        number = number * 16 + digit
    return number


@compiled
def _scan_scalar(base: int, at: int, end: int) -> int:
    """Behind a string, number or literal, or -1 less the place of an error."""
    byte = load8(base + at)
    if byte == QUOTE:
        return scan_string(base, at + 1, end)
    if byte == MINUS or ZERO <= byte <= _NINE:
        return _scan_number(base, at, end)
    word, size = (0, 4) if byte == _TRUE else (5, 5) if byte == _FALSE else (11, 4)
    for k in range(size):
        if at + k == end or load8(base + at + k) != _WORDS[word + k]:
            return -1 - at
    return at + size


@compiled
def _scan_number(base: int, at: int, end: int) -> int:
    if load8(base + at) == MINUS:
        at += 1
    first = at
    at = _skip_digits(base, at, end)
    if at == first:
        return -1 - at
    if at > first + 1 and load8(base + first) == ZERO:
        return -2 - first
    if at < end and load8(base + at) == _DOT:
        first = at + 1
        at = _skip_digits(base, first, end)
        if at == first:
            return -1 - at
    if at < end and load8(base + at) | 0x20 == 0x65:
        at += 1
        if at < end and (load8(base + at) == _PLUS or load8(base + at) == MINUS):
            at += 1
        first = at
        at = _skip_digits(base, first, end)
        if at == first:
            return -1 - at
    return at


@compiled
def _skip_digits(base: int, at: int, end: int) -> int:
    while at < end and ZERO <= load8(base + at) <= _NINE:
        at += 1
    return at


@compiled
def unescape(base: int, at: int, end: int, out: Bytes, to: int) -> int:
    """Write the content of a string; return where it ends, or -1 at half of a surrogate pair."""
    while at < end:
        byte = load8(base + at)
        if byte != _ESCAPE:
            out[to] = byte
            at += 1
            to += 1
            continue
        name = load8(base + at + 1)
        at += 2
        if name != _U:
            out[to] = _ESCAPED[name]
            to += 1
            continue
        code = _hex(base, at)
        at += 4
        if 0xD800 <= code < 0xE000:
            low = 0
            if at + 6 <= end and load8(base + at) == _ESCAPE and load8(base + at + 1) == _U:
                low = _hex(base, at + 2)
            if code >= 0xDC00 or low < 0xDC00 or low >= 0xE000:
                return -1
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
            at += 6
        to = _write_code(code, out, to)
    return to


@compiled
def _write_code(code: int, out: Bytes, to: int) -> int:
    """Write a code point as UTF-8; return where it ends."""
    if code < 0x80:
        out[to] = code
        return to + 1
    size = 2 if code < 0x800 else 3 if code < 0x10000 else 4
    for k in range(size - 1, 0, -1):
        out[to + k] = 0x80 | (code & 0x3F)
        code >>= 6
    out[to] = code | (0xC0 if size == 2 else 0xE0 if size == 3 else 0xF0)
    return to + size
