"""JSON read as bytes: one pass that checks a text against RFC 8259 and finds the members that are asked for.

A value is a span of bytes, from its first to behind its last; a span that begins before 0 is absent. Whatever lies in
a text that ``scan`` has passed is well formed, and the other kernels rely on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.extending import intrinsic

from altneu.columnar.columns import load8, load64, load_int64
from altneu.columnar.rows import Ints
from altneu.compiled import compiled

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


@compiled()
def scan(base: int, begin: Ints, end: Ints, tree: int, starts: Ints, ends: Ints) -> Ints:
    """Check every text, and find the members that a tree of names asks for.

    ``tree`` is the address of a line of three numbers a node, in preorder: the address of its name, the length of that,
    and the first node that is not below it. Node 0 is the whole text. ``starts[row, k]`` and ``ends[row, k]``, absent
    at first, become the span of node k. Of members of one name the last counts.

    Returns -1 for each text that is JSON, else the byte at which it stops being so; -2 less that byte where objects
    and arrays are too deep there.
    """
    wrong = np.full(len(begin), -1, np.int64)
    kinds, nodes = np.empty(DEEPEST, np.int64), np.empty(DEEPEST, np.int64)
    for row in range(len(begin)):
        first = begin[row]
        if first < 0:
            continue
        at = _scan_text(base, first, end[row], tree, starts[row], ends[row], kinds, nodes)
        if at >= 0:
            wrong[row] = at - first
        elif at < -1:
            wrong[row] = at + first
    return wrong


@compiled()
def _scan_text(base: int, at: int, end: int, tree: int, starts: Ints, ends: Ints, kinds: Ints, nodes: Ints) -> int:
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
            first = skip_space(base, at, end)
            last, at = _scan_name(base, first, end)
            if at < 0:
                return -1 - at
            node = _find_node(base, first + 1, last, tree, nodes[depth - 1])
            if node >= 0 and starts[node] >= 0:
                _forget(starts, tree, node)


@compiled()
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


@compiled()
def _scan_name(base: int, at: int, end: int) -> tuple[int, int]:
    """Where a member's name ends, and behind the colon after it, or -1 less the place of an error."""
    if at == end or load8(base + at) != QUOTE:
        return -1, -1 - at
    after = scan_string(base, at + 1, end)
    if after < 0:
        return -1, after
    at = skip_space(base, after, end)
    if at == end or load8(base + at) != _COLON:
        return -1, -1 - at
    return after - 1, at + 1


# Arrays are not handed on here, but addresses: a call with arrays counts references, which costs more than a name


@compiled()
def _behind(tree: int, node: int) -> int:
    """The first node that is not below one."""
    return load_int64(tree + 24 * node + 16)


@compiled()
def _forget(starts: Ints, tree: int, node: int) -> None:
    """Make a node and those below it absent again."""
    for below in range(node, _behind(tree, node)):
        starts[below] = -1


@compiled()
def _find_node(base: int, first: int, last: int, tree: int, parent: int) -> int:
    """The node below ``parent`` that asks for a name, or -1."""
    if parent >= 0:
        node = parent + 1
        while node < _behind(tree, parent):
            line = tree + 24 * node
            if _is_name(base + first, last - first, load_int64(line), load_int64(line + 8)):
                return node
            node = _behind(tree, node)
    return -1


@compiled()
def _is_name(text: int, length: int, name: int, size: int) -> bool:
    """Whether the inside of a string means a name."""
    if length < size:
        return False
    for k in range(size):
        byte = load8(text + k)
        if byte == _ESCAPE:
            return _unescapes_to(text, length, name, size)
        if byte != load8(name + k):
            return False
    return length == size


@compiled()
def _unescapes_to(text: int, length: int, name: int, size: int) -> bool:
    content = np.empty(length, np.uint8)
    same = unescape(text, 0, length, content, 0) == size
    for k in range(size if same else 0):
        same = same and content[k] == load8(name + k)
    return same


@compiled()
def skip_space(base: int, at: int, end: int) -> int:
    """Behind white space."""
    while at < end:
        byte = load8(base + at)
        if byte > 0x20 or byte not in (0x20, 0x0A, 0x0D, 0x09):
            break
        at += 1
    return at


def _counter() -> Callable[[Any], int]:
    """Make ``trailing_zeros(word)``: how many of the low bits of a word that is not 0 are 0."""

    @intrinsic
    def trailing_zeros(_context: Any, word: Any) -> Any:
        def codegen(_cg: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

        return types.int64(word), codegen

    return cast(Callable[[Any], int], trailing_zeros)


_trailing_zeros = _counter()


@compiled()
def scan_string(base: int, at: int, end: int) -> int:
    """Behind the quote that ends a string, or -1 less the place of an error."""
    while at < end:
        if at + 8 <= end:  # look at eight bytes at once
            word = load64(base + at)
            quotes, escapes = word ^ _QUOTES, word ^ _ESCAPES
            special = ((quotes - _EACH) & ~quotes) | ((escapes - _EACH) & ~escapes) | ((word - _SPACES) & ~word)
            special &= _HIGH
            if special == 0:
                at += 8
                continue
            at += _trailing_zeros(special) >> 3  # the lowest mark is right; one above it may be a carry
        byte = load8(base + at)
        if byte == QUOTE:
            return at + 1
        if byte < 0x20:
            return -1 - at
        if byte == _ESCAPE:
            size = _escape_size(base, at, end)
            if size == 0:
                return -1 - at
            at += size
        else:
            at += 1
    return -1 - end


@compiled()
def _escape_size(base: int, at: int, end: int) -> int:
    """How long an escape is; 0 when it is none."""
    if at + 2 > end:
        return 0
    name = load8(base + at + 1)
    if name == _U:
        return 6 if at + 6 <= end and _hex(base, at + 2) >= 0 else 0
    return 2 if _ESCAPED[name] != 0 else 0


@compiled()
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


@compiled()
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


@compiled()
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


@compiled()
def _skip_digits(base: int, at: int, end: int) -> int:
    while at < end and ZERO <= load8(base + at) <= _NINE:
        at += 1
    return at


@compiled()
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


@compiled()
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
