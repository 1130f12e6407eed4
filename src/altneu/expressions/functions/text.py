"""Strings searched, replaced, padded and encoded."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions import limits
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.functions.strings import TEXT, polars_text, scalar, slice_rows, text_array
from altneu.expressions.limits import MOST_BYTES, emptied, row_bytes, sized
from altneu.expressions.lists import reversed_lists
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


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


@scalar("lpad(s string, n int[, pad string]) -> string", fails=_may_be_too_long(1))
def lpad(call: Call, s: pa.Array, size: int, pad: str = " ") -> Out:
    """The text padded on the left to n characters, with blanks or `pad`; a longer text is cut."""
    return _pad(call, s, size, pad, at_left=True)


@scalar("rpad(s string, n int[, pad string]) -> string", fails=_may_be_too_long(1))
def rpad(call: Call, s: pa.Array, size: int, pad: str = " ") -> Out:
    """The text padded on the right to n characters, with blanks or `pad`; a longer text is cut."""
    return _pad(call, s, size, pad, at_left=False)


@scalar("repeat(s string, n int) -> string", fails=True)
def repeat(call: Call, s: pa.Array, n: pa.Array) -> Out:
    """The text n times."""
    return _repeated(call, s, n)


def _repeated(call: Call, s: pa.Array, n: pa.Array) -> Out:
    times = np.maximum(np.asarray(n.fill_null(0)).astype(np.int64), 0)
    bad, failed = sized(call.text, row_bytes(s) * times)
    counts = pa.array(np.where(bad, 0, times), mask=np.asarray(n.is_null()))
    return Out(pc.binary_repeat(s, counts), [failed])


@scalar("space(n int) -> string", doc="n blanks.", fails=_may_be_too_long(0))
def space(call: Call, n: pa.Array) -> Out:
    """Blanks."""
    return _repeated(call, pa.repeat(" ", len(n)), n)


@scalar("reverse(s string|array) -> s")
def reverse(call: Call, s: pa.Array) -> pa.Array:
    """The characters of a text, or the elements of an array, in reverse."""
    if pt.is_list(call.type):
        return reversed_lists(s)
    return pc.utf8_reverse(s)


def find(s: pa.Array, part: str) -> Any:
    """Place of the first occurrence, counted from one; 0 when there is none."""
    if part == "":
        return np.ones(len(s), np.int64)
    pieces = pc.split_pattern(s, part, max_splits=1)
    result = np.asarray(pc.list_value_length(pieces).fill_null(0)) > 1
    before = pc.list_element(pc.if_else(pc.is_valid(pieces), pieces, pa.scalar([""], pieces.type)), 0)
    return np.where(result, np.asarray(pc.utf8_length(before)).astype(np.int64) + 1, 0)


def _int_array(values: Any, like: pa.Array) -> pa.Array:
    valid = validity(like)
    return pa.array(values.astype(np.int32), T.INT, mask=None if valid is None else ~valid)


@scalar("instr(s string, part string) -> int")
def instr(s: pa.Array, part: str) -> pa.Array:
    """The position of the first occurrence, from one; 0 if there is none."""
    return _int_array(find(s, part), s)


@scalar(
    "locate(part string, s string[, start int]) -> int",
    "position",
    "charindex",
    usage="locate(part, s[, start]), position(part IN s)",
)
def locate(part: str, s: pa.Array, start: int = 1) -> pa.Array:
    """The position of the first occurrence at or after start, from one; 0 if there is none."""
    if start < 1:
        return _int_array(np.zeros(len(s), np.int64), s)
    if part == "":  # as in Spark, wherever the search starts
        return _int_array(np.ones(len(s), np.int64), s)
    place = find(pc.utf8_slice_codeunits(s, start - 1), part)
    return _int_array(np.where(place > 0, place + start - 1, 0), s)


@scalar("replace(s string, part string[, by string]) -> string", grows=True)
def replace(call: Call, s: pa.Array, part: str, by: str = "") -> Any:
    """The text with every occurrence replaced, or removed."""
    if part == "":
        return s
    more, sizes = len(by.encode()) - len(part.encode()), row_bytes(s)
    if more <= 0 or int(sizes.sum()) * len(by.encode()) <= limits.CHUNK_BYTES:
        return pc.replace_substring(s, part, by)
    # How often it occurs is counted first, where the text may become too large
    bad, failed = sized(
        limits.anonymous(call.name), sizes + more * np.asarray(pc.count_substring(s, part).fill_null(0), np.int64)
    )
    return Out(pc.replace_substring(emptied(s, bad), part, by), [failed])


@scalar("translate(s string, from string, to string) -> string", grows=True)
def translate(s: pa.Array, source: str, target: str) -> pa.Array:
    """The text with characters replaced one by one; those without a counterpart are removed."""
    pairs: dict[str, str] = {}
    for i, char in enumerate(source):
        pairs.setdefault(char, target[i] if i < len(target) else "")
    if not pairs:
        return s
    return text_array(polars_text(s).str.replace_many(list(pairs), list(pairs.values())))


@scalar("ascii(s string) -> int")
def ascii_code(s: pa.Array) -> pa.Array:
    """Code point of the first character; 0 for an empty text."""
    first = pc.utf8_slice_codeunits(s, 0, 1).dictionary_encode()
    codes = pa.array([ord(c) if c else 0 for c in first.dictionary.to_pylist()], T.INT)
    return codes.take(first.indices)


@scalar("char(n bigint) -> string", "chr", usage="chr(n)", message_name="chr")
def char(n: pa.Array) -> pa.Array:
    """The character with code n modulo 256; an empty text if n is negative."""
    codes = np.asarray(n.fill_null(0))
    table = pa.array([chr(i) for i in range(256)] + [""])
    return table.take(pa.array(np.where(codes < 0, 256, codes & 255), mask=np.asarray(n.is_null())))


@scalar("startswith(s string, part string) -> boolean")
def startswith(s: pa.Array, part: str) -> pa.Array:
    """Whether the text starts with the part."""
    return pc.starts_with(s, part)


@scalar("endswith(s string, part string) -> boolean")
def endswith(s: pa.Array, part: str) -> pa.Array:
    """Whether the text ends with the part."""
    return pc.ends_with(s, part)


@scalar("contains(s string, part string) -> boolean")
def contains(s: pa.Array, part: str) -> pa.Array:
    """Whether the text contains the part."""
    return pc.match_substring(s, part)


@scalar("substring_index(s string, delimiter string, n int) -> string")
def substring_index(s: pa.Array, delimiter: str, n: int) -> pa.Array:
    """The text before the n-th delimiter, or, if n is negative, after the n-th delimiter from the end."""
    if n == 0 or delimiter == "":
        return pc.utf8_slice_codeunits(s, 0, 0)
    splits = min(abs(n), pc.max(pc.binary_length(s)).as_py() or 0)  # Arrow takes memory for as many, from the end
    pieces = pc.split_pattern(s, delimiter, max_splits=splits, reverse=n < 0)
    enough = pc.greater(pc.list_value_length(pieces), abs(n))
    parts = pc.list_slice(pieces, 0, n) if n > 0 else pc.list_slice(pieces, 1)
    return pc.if_else(enough, pc.binary_join(parts, delimiter), s)


@scalar("split_part(s string, delimiter string, n int) -> string", fails=True)
def split_part(call: Call, s: pa.Array, delimiter: str, n: int) -> Any:
    """The n-th part between delimiters, from the end if n is negative; an empty text if there is none."""
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


@scalar(
    "overlay(s string, by string, start int[, length int]) -> string",
    usage="overlay(s, by, start[, length]), overlay(s PLACING by FROM start FOR length)",
    grows=True,
)
def overlay(s: pa.Array, by: pa.Array, start: int, size: int = -1) -> pa.Array:
    """The text with a part replaced by another text."""
    before = pc.utf8_slice_codeunits(s, 0, max(start - 1, 0))
    lengths = np.asarray(pc.utf8_length(by if size < 0 else s).fill_null(0)).astype(np.int64)
    skip = lengths if size < 0 else np.full(len(s), size)
    total = np.asarray(pc.utf8_length(s).fill_null(0)).astype(np.int64)
    begin = np.clip(start - 1 + skip, 0, total)
    return pc.binary_join_element_wise(before, by, slice_rows(s, begin, total - begin), "")


def _bytes(array: pa.Array) -> Any:
    return polars_text(pc.cast(array, T.BINARY))


@scalar("base64(b string|binary) -> string", grows=True)
def base64(b: pa.Array) -> pa.Array:
    """Bytes in base 64."""
    return text_array(_bytes(b).bin.encode("base64"))


def _hex_rule(args: Arguments) -> Typing:
    kind = args[0].type
    return Typing([T.LONG if kind in INTEGRAL else None if kind == T.BINARY else args.accept(0, TEXT)], TEXT)


@scalar("hex(b)", rule=_hex_rule, grows=True)
def hexadecimal(b: pa.Array) -> pa.Array:
    """Bytes, characters or a whole number in base 16."""
    if b.type == T.LONG:
        raw = np.ascontiguousarray(np.asarray(b.fill_null(0))).byteswap().tobytes()
        fixed = pa.Array.from_buffers(pa.binary(8), len(b), [None, pa.py_buffer(raw)])
        digits = pc.ascii_upper(text_array(_bytes(fixed).bin.encode("hex")))
        trimmed = pc.utf8_ltrim(digits, "0")
        return pc.if_else(pc.is_valid(b), pc.if_else(pc.equal(trimmed, ""), "0", trimmed), None)
    return pc.ascii_upper(text_array(_bytes(b).bin.encode("hex")))


@scalar("levenshtein(a string, b string) -> int")
def levenshtein(a: pa.Array, b: str) -> pa.Array:
    """The least number of characters to insert, delete or change to get from a to b."""
    encoded = a.dictionary_encode()  # once per distinct text
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
