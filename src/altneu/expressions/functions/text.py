"""Strings searched, replaced, padded and encoded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions import limits
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.functions.strings import GROUP, TEXT, polars_text, slice_rows, text_array
from altneu.expressions.limits import MOST_BYTES, emptied, row_bytes, sized
from altneu.expressions.lists import reversed_lists
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import accept, expect_count, takes
from altneu.expressions.vector import validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr


def _may_be_too_long(at: int) -> Callable[[Call], bool]:
    """Whether a call may make a value too large, of so many characters as the argument ``at`` says."""

    def fails(call: Call) -> bool:
        size = call.args[at]
        return not (size.is_literal and (size.value is None or size.value <= MOST_BYTES // 4))  # type: ignore[attr-defined]

    return fails


def _pad(call: Call, s: pa.Array, size: int, pad: str, *, at_left: bool) -> Out:
    lengths = np.asarray(pc.utf8_length(s).fill_null(0)).astype(np.int64)
    size = max(size, 0)
    cut = pc.utf8_slice_codeunits(s, 0, size)
    if not pad:
        return Out(cut)
    missing = np.maximum(size - lengths, 0)
    bad, failed = sized(call.text, row_bytes(cut) + missing * len(pad.encode()) // len(pad))
    missing[bad] = 0
    needed, index = np.unique(missing, return_inverse=True)
    repeated = pad * (int(needed.max(initial=0)) // len(pad) + 1)
    padding = pa.array([repeated[:n] for n in needed], TEXT).take(pa.array(index.reshape(-1)))
    return Out(pc.binary_join_element_wise(*((padding, cut) if at_left else (cut, padding)), ""), [failed])


for _name, _side in (("lpad", True), ("rpad", False)):
    register(
        _name,
        rule=takes(_name, TEXT, T.INT, TEXT, returns=TEXT, optional=1),
        style="arrow",
        group=GROUP,
        usage=f"{_name}(s, n[, pad])",
        doc=f"Made n characters long, padded at the {'left' if _side else 'right'} with blanks or a text; or cut.",
        constants=(1, 2),
        fails=_may_be_too_long(1),
    )(lambda call, s, size, pad=" ", side=_side: _pad(call, s, size, pad, at_left=side))


@register(
    "repeat",
    rule=takes("repeat", TEXT, T.INT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="repeat(s, n)",
    doc="The text n times.",
    fails=True,
)
def repeat(call: Call, s: pa.Array, n: pa.Array) -> Out:
    """The text so many times."""
    return _repeated(call, s, n)


def _repeated(call: Call, s: pa.Array, n: pa.Array) -> Out:
    times = np.maximum(np.asarray(n.fill_null(0)).astype(np.int64), 0)
    bad, failed = sized(call.text, row_bytes(s) * times)
    counts = pa.array(np.where(bad, 0, times), mask=np.asarray(n.is_null()))
    return Out(pc.binary_repeat(s, counts), [failed])


@register(
    "space",
    rule=takes("space", T.INT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="space(n)",
    doc="n blanks.",
    fails=_may_be_too_long(0),
)
def space(call: Call, n: pa.Array) -> Out:
    """Blanks."""
    return _repeated(call, pa.repeat(" ", len(n)), n)


def _reverse_rule(args: Sequence[Expr]) -> Typing:
    expect_count("reverse", args, 1)
    if pt.is_list(args[0].type):
        return Typing([None], args[0].type)
    return Typing([accept("reverse", 0, args[0], TEXT)], TEXT)


@register(
    "reverse",
    rule=_reverse_rule,
    style="arrow",
    group=GROUP,
    usage="reverse(s)",
    doc="Characters (or elements of an array) in reverse.",
)
def reverse(call: Call, s: pa.Array) -> pa.Array:
    """In reverse."""
    if pt.is_list(call.type):
        return reversed_lists(s)
    return pc.utf8_reverse(s)


def find(s: pa.Array, part: str) -> Any:
    """Place of the first occurrence, counted from one; 0 when there is none."""
    if part == "":
        return np.ones(len(s), np.int64)
    pieces = pc.split_pattern(s, part, max_splits=1)
    found = np.asarray(pc.list_value_length(pieces).fill_null(0)) > 1
    before = pc.list_element(pc.if_else(pc.is_valid(pieces), pieces, pa.scalar([""], pieces.type)), 0)
    return np.where(found, np.asarray(pc.utf8_length(before)).astype(np.int64) + 1, 0)


def _int_array(values: Any, like: pa.Array) -> pa.Array:
    valid = validity(like)
    return pa.array(values.astype(np.int32), T.INT, mask=None if valid is None else ~valid)


@register(
    "instr",
    rule=takes("instr", TEXT, TEXT, returns=T.INT),
    style="arrow",
    group=GROUP,
    usage="instr(s, part)",
    doc="Place of the first occurrence, from one; 0 when there is none.",
    constants=(1,),
)
def instr(call: Call, s: pa.Array, part: str) -> pa.Array:
    """Place of the first occurrence."""
    return _int_array(find(s, part), s)


@register(
    "locate",
    "position",
    "charindex",
    rule=takes("locate", TEXT, TEXT, T.INT, returns=T.INT, optional=1),
    style="arrow",
    group=GROUP,
    usage="locate(part, s[, start]), position(part IN s)",
    doc="Place of the first occurrence at or after start, from one; 0 when there is none.",
    constants=(0, 2),
)
def locate(call: Call, part: str, s: pa.Array, start: int = 1) -> pa.Array:
    """Place of the first occurrence at or after a place."""
    if start < 1:
        return _int_array(np.zeros(len(s), np.int64), s)
    rest = pc.utf8_slice_codeunits(s, start - 1)
    place = find(rest, part)
    beyond = np.asarray(pc.utf8_length(s).fill_null(0)) < start - (part == "")
    return _int_array(np.where((place > 0) & ~beyond, place + start - 1, 0), s)


@register(
    "replace",
    rule=takes("replace", TEXT, TEXT, TEXT, returns=TEXT, optional=1),
    style="arrow",
    group=GROUP,
    usage="replace(s, part[, by])",
    doc="Every occurrence replaced, or taken out.",
    constants=(1, 2),
    grows=True,
)
def replace(call: Call, s: pa.Array, part: str, by: str = "") -> Any:
    """Every occurrence replaced; how often it occurs is counted first, where the text may become too large."""
    if part == "":
        return s
    more, sizes = len(by.encode()) - len(part.encode()), row_bytes(s)
    if more <= 0 or int(sizes.sum()) * len(by.encode()) <= limits.CHUNK_BYTES:
        return pc.replace_substring(s, part, by)
    bad, failed = sized(
        limits.anonymous(call.name), sizes + more * np.asarray(pc.count_substring(s, part).fill_null(0), np.int64)
    )
    return Out(pc.replace_substring(emptied(s, bad), part, by), [failed])


@register(
    "translate",
    rule=takes("translate", TEXT, TEXT, TEXT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="translate(s, from, to)",
    doc="Characters replaced one by one; those without a counterpart are taken out.",
    constants=(1, 2),
    grows=True,
)
def translate(call: Call, s: pa.Array, source: str, target: str) -> pa.Array:
    """Characters replaced one by one."""
    pairs: dict[str, str] = {}
    for i, char in enumerate(source):
        pairs.setdefault(char, target[i] if i < len(target) else "")
    if not pairs:
        return s
    return text_array(polars_text(s).str.replace_many(list(pairs), list(pairs.values())))


@register(
    "ascii",
    rule=takes("ascii", TEXT, returns=T.INT),
    style="arrow",
    group=GROUP,
    usage="ascii(s)",
    doc="Code point of the first character; 0 of an empty text.",
)
def ascii_code(call: Call, s: pa.Array) -> pa.Array:
    """Code point of the first character."""
    first = pc.utf8_slice_codeunits(s, 0, 1).dictionary_encode()
    codes = pa.array([ord(c) if c else 0 for c in first.dictionary.to_pylist()], T.INT)
    return codes.take(first.indices)


@register(
    "char",
    "chr",
    rule=takes("chr", T.LONG, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="chr(n)",
    doc="The character of code n modulo 256; an empty text below zero.",
)
def char(call: Call, n: pa.Array) -> pa.Array:
    """The character of a code."""
    codes = np.asarray(n.fill_null(0))
    table = pa.array([chr(i) for i in range(256)] + [""])
    return table.take(pa.array(np.where(codes < 0, 256, codes & 255), mask=np.asarray(n.is_null())))


for _name, _kernel, _doc in (
    ("startswith", pc.starts_with, "starts with"),
    ("endswith", pc.ends_with, "ends with"),
    ("contains", pc.match_substring, "contains"),
):
    register(
        _name,
        rule=takes(_name, TEXT, TEXT, returns=T.BOOLEAN),
        style="arrow",
        group=GROUP,
        usage=f"{_name}(s, part)",
        doc=f"Whether the text {_doc} another.",
        constants=(1,),
    )(lambda call, s, part, kernel=_kernel: kernel(s, part))


@register(
    "substring_index",
    rule=takes("substring_index", TEXT, TEXT, T.INT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="substring_index(s, delimiter, n)",
    doc="What stands before the n-th delimiter, or after the n-th from the end when negative.",
    constants=(1, 2),
)
def substring_index(call: Call, s: pa.Array, delimiter: str, n: int) -> pa.Array:
    """What stands before a delimiter."""
    if n == 0 or delimiter == "":
        return pc.utf8_slice_codeunits(s, 0, 0)
    pieces = pc.split_pattern(s, delimiter, max_splits=abs(n), reverse=n < 0)
    enough = pc.greater(pc.list_value_length(pieces), abs(n))
    kept = pc.list_slice(pieces, 0, n) if n > 0 else pc.list_slice(pieces, 1)
    return pc.if_else(enough, pc.binary_join(kept, delimiter), s)


@register(
    "split_part",
    rule=takes("split_part", TEXT, TEXT, T.INT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="split_part(s, delimiter, n)",
    doc="The n-th part between delimiters, from the end when negative; empty beyond.",
    constants=(1, 2),
    fails=True,
)
def split_part(call: Call, s: pa.Array, delimiter: str, n: int) -> Any:
    """The n-th part between delimiters."""
    if n == 0:
        bad = np.ones(len(s), np.bool_)
        return Out(
            s, ((bad, "INVALID_INDEX_OF_ZERO", f"`{call.text}`: parts are counted from 1, or from -1 at the end"),)
        )
    pieces = pc.split_pattern(s, delimiter) if delimiter else pc.split_pattern(s, "\x00\x01\x02")
    lengths = np.asarray(pc.list_value_length(pieces).fill_null(0)).astype(np.int64)
    index = n - 1 if n > 0 else lengths + n
    inside = (index >= 0) & (index < lengths)
    starts = np.cumsum(lengths) - lengths
    part = pieces.flatten().take(pa.array(starts + index, mask=~inside))
    return pc.if_else(pc.is_valid(s), pc.fill_null(part, ""), None)


@register(
    "overlay",
    rule=takes("overlay", TEXT, TEXT, T.INT, T.INT, returns=TEXT, optional=1),
    style="arrow",
    group=GROUP,
    usage="overlay(s, by, start[, length]), overlay(s PLACING by FROM start FOR length)",
    doc="A part replaced by another text.",
    constants=(2, 3),
    grows=True,
)
def overlay(call: Call, s: pa.Array, by: pa.Array, start: int, size: int = -1) -> pa.Array:
    """A part replaced by another text."""
    before = pc.utf8_slice_codeunits(s, 0, max(start - 1, 0))
    lengths = np.asarray(pc.utf8_length(by if size < 0 else s).fill_null(0)).astype(np.int64)
    skip = lengths if size < 0 else np.full(len(s), size)
    total = np.asarray(pc.utf8_length(s).fill_null(0)).astype(np.int64)
    begin = np.clip(start - 1 + skip, 0, total)
    return pc.binary_join_element_wise(before, by, slice_rows(s, begin, total - begin), "")


def _coded(name: str, source: pa.DataType, returns: pa.DataType) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        if name == "hex" and args[0].type in (*INTEGRAL, T.BINARY):
            return Typing([T.LONG if args[0].type in INTEGRAL else T.BINARY], returns)
        return Typing([T.BINARY if args[0].type == T.BINARY else accept(name, 0, args[0], source)], returns)

    return rule


def _bytes(array: pa.Array) -> Any:
    return polars_text(pc.cast(array, T.BINARY))


@register(
    "base64",
    rule=_coded("base64", TEXT, TEXT),
    style="arrow",
    group=GROUP,
    usage="base64(b)",
    doc="Bytes in base 64.",
    grows=True,
)
def base64(call: Call, b: pa.Array) -> pa.Array:
    """Bytes in base 64."""
    return text_array(_bytes(b).bin.encode("base64"))


@register(
    "hex",
    rule=_coded("hex", TEXT, TEXT),
    style="arrow",
    group=GROUP,
    usage="hex(b)",
    doc="Bytes, characters or a whole number in base 16.",
    grows=True,
)
def hexadecimal(call: Call, b: pa.Array) -> pa.Array:
    """In base 16."""
    if b.type == T.LONG:
        raw = np.ascontiguousarray(np.asarray(b.fill_null(0))).byteswap().tobytes()
        fixed = pa.Array.from_buffers(pa.binary(8), len(b), [None, pa.py_buffer(raw)])
        digits = pc.ascii_upper(text_array(_bytes(fixed).bin.encode("hex")))
        trimmed = pc.utf8_ltrim(digits, "0")
        return pc.if_else(pc.is_valid(b), pc.if_else(pc.equal(trimmed, ""), "0", trimmed), None)
    return pc.ascii_upper(text_array(_bytes(b).bin.encode("hex")))


@register(
    "levenshtein",
    rule=takes("levenshtein", TEXT, TEXT, returns=T.INT),
    style="arrow",
    group=GROUP,
    usage="levenshtein(a, b)",
    doc="Least number of characters to insert, delete or change.",
    constants=(1,),
)
def levenshtein(call: Call, a: pa.Array, b: str) -> pa.Array:
    """Edit distance, worked out once per distinct text."""
    encoded = a.dictionary_encode()
    distances = pa.array([_distance(v, b) for v in encoded.dictionary.to_pylist()], T.INT)
    return distances.take(encoded.indices)


def _distance(a: str, b: str) -> int:
    """Edit distance of two texts; the row of the table is a NumPy vector."""
    other = np.array([ord(c) for c in b], np.int64)
    places = np.arange(len(b) + 1)
    row = places
    for i, char in enumerate(a, 1):
        best = np.minimum(row[1:] + 1, row[:-1] + (other != ord(char)))
        row = np.minimum.accumulate(np.concatenate([[i], best]) - places) + places
    return int(row[-1])
