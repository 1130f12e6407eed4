"""Strings: counted in characters from one, compared by their bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import limits
from altneu.expressions.coercion import can_implicitly_cast
from altneu.expressions.lists import compacted, concat_arrays
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Vector, validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

scalar = Group("Strings")
TEXT = T.STRING
_MOST = 2**31 - 1


def polars_text(array: pa.Array) -> Any:
    """A Polars series of an Arrow array."""
    import polars as pl

    return pl.Series("x", array)


def text_array(series: Any) -> pa.Array:
    """The Arrow array of a Polars series of texts."""
    return series.to_arrow().cast(TEXT)


def _is_ascii(array: pa.Array) -> bool:
    return bool(pc.all(pc.string_is_ascii(array), skip_nulls=True).as_py() is not False)


def case(array: pa.Array, *, upper: bool) -> pa.Array:
    """Arrow maps character to character; ``ß`` to ``SS`` and its like take the full mapping."""
    if _is_ascii(array):
        return pc.ascii_upper(array) if upper else pc.ascii_lower(array)
    series = polars_text(array)
    return text_array(series.str.to_uppercase() if upper else series.str.to_lowercase())


@scalar("upper(s string) -> string", "ucase")
def upper(s: pa.Array) -> pa.Array:
    """The text in upper case."""
    return case(s, upper=True)


@scalar("lower(s string) -> string", "lcase")
def lower(s: pa.Array) -> pa.Array:
    """The text in lower case."""
    return case(s, upper=False)


@scalar("initcap(s string) -> string")
def initcap(s: pa.Array) -> pa.Array:
    """Every word's first letter in upper case, the rest in lower case."""
    words = pc.split_pattern(s, " ")  # a word ends at a blank
    flat = words.flatten()
    first = pc.utf8_slice_codeunits(flat, 0, 1).dictionary_encode()
    capitals = pa.array([letter.title() for letter in first.dictionary.to_pylist()], TEXT).take(first.indices)
    flat = pc.binary_join_element_wise(capitals, case(pc.utf8_slice_codeunits(flat, 1), upper=False), "")
    offsets = pa.array(
        np.concatenate([[0], np.cumsum(np.asarray(pc.list_value_length(words).fill_null(0)))]), pa.int32()
    )
    valid = validity(s)
    lists = pa.ListArray.from_arrays(offsets, flat, mask=None if valid is None else pa.array(~valid))
    return pc.binary_join(lists, " ")


@scalar("length(s string|binary) -> int", "char_length", "character_length", "len")
def length(s: pa.Array) -> pa.Array:
    """Number of characters of a text, or of bytes of a binary."""
    return pc.cast(pc.binary_length(s) if s.type == T.BINARY else pc.utf8_length(s), T.INT)


@scalar("octet_length(s string|binary) -> int")
def octet_length(s: pa.Array) -> pa.Array:
    """Number of bytes."""
    return pc.cast(pc.binary_length(s), T.INT)


@scalar("bit_length(s string|binary) -> int")
def bit_length(s: pa.Array) -> pa.Array:
    """Number of bits."""
    return pc.multiply(pc.cast(pc.binary_length(s), T.INT), pa.scalar(8, T.INT))


@scalar("substring(s string|binary, start int[, length int]) -> s", "substr")
def substring(call: Call, s: Vector, start: Vector, size: Vector | None = None) -> Any:
    """The part of a text from position start, counted from one, or from the end if negative."""
    simple = call.args[1].is_literal and (size is None or call.args[2].is_literal) and len(start)
    if simple and start.valid is None and start.values[0] >= 0 and (size is None or size.valid is None):
        first = max(int(start.values[0]) - 1, 0)
        stop = None if size is None else first + max(int(size.values[0]), 0)
        return Vector(s.type, arrow=_sliced(s.arrow, first, stop), constant=s.constant)
    lengths = np.asarray(
        pc.cast(pc.binary_length(s.arrow) if s.type == T.BINARY else pc.utf8_length(s.arrow), T.LONG).fill_null(0)
    )
    position = start.values.astype(np.int64)
    begin = np.where(position > 0, position - 1, np.where(position < 0, lengths + position, 0))
    end = np.full(len(begin), _MOST, np.int64) if size is None else np.minimum(begin + size.values, _MOST)
    begin, end = np.clip(begin, 0, lengths), np.clip(end, 0, lengths)
    array = slice_rows(s.arrow, begin, np.maximum(end - begin, 0))
    valid = [v.valid for v in (start, size) if v is not None and v.valid is not None]
    if valid:
        array = pc.if_else(pa.array(np.logical_and.reduce(valid)), array, None)
    return Vector(s.type, arrow=array, constant=s.constant and start.constant and (size is None or size.constant))


def _sliced(array: pa.Array, first: int, stop: int | None) -> pa.Array:
    if array.type == T.BINARY:
        return pc.binary_slice(array, first, stop)
    return pc.utf8_slice_codeunits(array, first, stop)


def slice_rows(array: pa.Array, start: Any, size: Any) -> pa.Array:
    """Each row's own part, from a place counted from zero."""
    import polars as pl

    series = polars_text(array)
    frame = pl.DataFrame({"x": series, "a": start, "n": size})
    part = (
        pl.col("x").bin.slice(pl.col("a"), pl.col("n"))
        if array.type == T.BINARY
        else pl.col("x").str.slice(pl.col("a"), pl.col("n"))
    )
    return frame.select(part).to_series().to_arrow().cast(array.type)


@scalar("left(s string, n int) -> string")
def left(s: pa.Array, n: int) -> pa.Array:
    """The first n characters."""
    return pc.utf8_slice_codeunits(s, 0, max(n, 0))


@scalar("right(s string, n int) -> string")
def right(s: pa.Array, n: int) -> pa.Array:
    """The last n characters."""
    return pc.utf8_slice_codeunits(s, 0, 0) if n <= 0 else pc.utf8_slice_codeunits(s, -n)


def _concat_rule(args: Arguments) -> Typing:
    if any(pt.is_list(a.type) for a in args):
        result = args.common()
        return Typing([result] * len(args), result)
    kinds = {a.type for a in args}
    kind = T.BINARY if kinds == {T.BINARY} else TEXT
    return Typing([args.accept(i, kind) for i in range(len(args))], kind)


@scalar("concat(…)", rule=_concat_rule, usage="concat(a, b, …), a || b", grows=True)
def concat(call: Call, *parts: pa.Array) -> Any:
    """Texts, binaries or arrays one after another; null if one is null."""
    if not parts:
        return pa.array([""])
    if pt.is_list(call.type):
        return concat_arrays(parts, call.type)
    if len(parts) == 1:
        return parts[0]
    empty = "" if call.type == TEXT else b""
    if sum(p.nbytes for p in parts) <= limits.CHUNK_BYTES:
        return pc.binary_join_element_wise(*parts, empty)
    bad, failed = limits.sized(limits.anonymous(call.name), np.sum([limits.row_bytes(p) for p in parts], axis=0))
    return Out(pc.binary_join_element_wise(*(limits.emptied(p, bad) for p in parts), empty), [failed])


def _concat_ws_rule(args: Arguments) -> Typing:
    types = [TEXT]
    for i, arg in enumerate(args[1:], 1):
        if pt.is_list(arg.type):
            if not can_implicitly_cast(arg.type.value_type, TEXT):
                raise TypeMismatchError(
                    f"concat_ws takes texts and arrays of texts, not {T.type_name(arg.type)} (`{arg.text}`)"
                )
            types.append(T.list_type(TEXT))
        else:
            types.append(args.accept(i, TEXT))
    return Typing(types, TEXT, args[0].nullable)


@scalar("concat_ws(separator, …)", rule=_concat_ws_rule, usage="concat_ws(separator, a, b, …)", grows=True)
def concat_ws(separator: Vector, *parts: Vector) -> Vector:
    """The texts, and the elements of arrays of texts, that are not null, with a separator between them."""
    constant = separator.constant and all(p.constant for p in parts)
    if not parts:
        empty = pc.if_else(pc.is_valid(separator.arrow), "", None)
        return Vector(TEXT, arrow=empty.cast(TEXT), constant=separator.constant)
    arrays = [_joined(p.arrow, separator.arrow) if pt.is_list(p.type) else p.arrow for p in parts]
    joined = joined_present(arrays, separator.arrow)
    return Vector(TEXT, arrow=pc.if_else(pc.is_valid(separator.arrow), joined, None), constant=constant)


def joined_present(texts: Sequence[pa.Array], separator: Any) -> pa.Array:
    """The texts of each row that are not null, joined; an empty one where all are or the separator is null.

    Arrow leaves out a row without texts altogether.
    """
    some = np.logical_or.reduce([np.asarray(t.is_valid()) for t in texts])
    if not isinstance(separator, str):
        some = some & np.asarray(separator.is_valid())
        separator = separator.filter(pa.array(some))
    kept = [t.filter(pa.array(some)) for t in texts]
    joined = pc.binary_join_element_wise(*kept, separator, null_handling="skip") if some.any() else kept[0]
    place = np.cumsum(some) - 1
    everything = pa.concat_arrays([joined, pa.array([""], joined.type)])
    return everything.take(pa.array(np.where(some, place, len(joined))))


def _joined(lists: pa.Array, separator: pa.Array) -> pa.Array:
    """Each list's texts that are not null, joined; null when there is none, so that it is skipped."""
    lists_here = compacted(lists)
    joined = pc.binary_join(lists_here, separator)
    return pc.if_else(pc.equal(pc.list_value_length(lists_here), 0), None, joined)


def _trim(kernel: Callable[[pa.Array, str], pa.Array]) -> Callable[..., pa.Array]:
    def trimmed(s: pa.Array, characters: str = " ") -> pa.Array:
        return kernel(s, characters) if characters else s

    return trimmed


for _name, _aliases, _trimmed, _where, _usage in (
    ("btrim", ("trim",), pc.utf8_trim, "both ends", "btrim(s[, characters]), trim([BOTH characters FROM] s)"),
    ("ltrim", (), pc.utf8_ltrim, "the start", "ltrim(s), trim(LEADING characters FROM s)"),  # ltrim(characters, s)
    ("rtrim", (), pc.utf8_rtrim, "the end", "rtrim(s), trim(TRAILING characters FROM s)"),
):
    scalar(
        f"{_name}(s string[, characters string]) -> string",
        *_aliases,
        usage=_usage,
        doc=f"The text without blanks (or these characters) at {_where}.",
    )(_trim(_trimmed))
