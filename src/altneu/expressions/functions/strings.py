"""Strings: counted in characters from one, compared by their bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import limits
from altneu.expressions.coercion import can_implicitly_cast, common_type
from altneu.expressions.lists import compacted, concat_arrays
from altneu.expressions.registry import Out, Rule, Typing, register
from altneu.expressions.rules import accept, expect_count, takes
from altneu.expressions.vector import Vector, validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr

GROUP = "Strings"
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


def _case(array: pa.Array, *, upper: bool) -> pa.Array:
    """Arrow maps character to character; ``ß`` to ``SS`` and its like take the full mapping."""
    if _is_ascii(array):
        return pc.ascii_upper(array) if upper else pc.ascii_lower(array)
    series = polars_text(array)
    return text_array(series.str.to_uppercase() if upper else series.str.to_lowercase())


@register(
    "upper",
    "ucase",
    rule=takes("upper", TEXT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="upper(s)",
    doc="In upper case.",
)
def upper(call: Call, s: pa.Array) -> pa.Array:
    """In upper case."""
    return _case(s, upper=True)


@register(
    "lower",
    "lcase",
    rule=takes("lower", TEXT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="lower(s)",
    doc="In lower case.",
)
def lower(call: Call, s: pa.Array) -> pa.Array:
    """In lower case."""
    return _case(s, upper=False)


@register(
    "initcap",
    rule=takes("initcap", TEXT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="initcap(s)",
    doc="Every word's first letter in upper case, the rest in lower.",
)
def initcap(call: Call, s: pa.Array) -> pa.Array:
    """Words capitalised; a word ends at a blank."""
    words = pc.split_pattern(s, " ")
    flat = words.flatten()
    first = pc.utf8_slice_codeunits(flat, 0, 1).dictionary_encode()
    capitals = pa.array([letter.title() for letter in first.dictionary.to_pylist()], TEXT).take(first.indices)
    flat = pc.binary_join_element_wise(capitals, _case(pc.utf8_slice_codeunits(flat, 1), upper=False), "")
    offsets = pa.array(
        np.concatenate([[0], np.cumsum(np.asarray(pc.list_value_length(words).fill_null(0)))]), pa.int32()
    )
    valid = validity(s)
    lists = pa.ListArray.from_arrays(offsets, flat, mask=None if valid is None else pa.array(~valid))
    return pc.binary_join(lists, " ")


def _text_or_binary(name: str, returns: pa.DataType) -> Rule:
    def rule(args: Sequence[Expr]) -> Typing:
        expect_count(name, args, 1)
        kind = args[0].type
        return Typing([None if kind == T.BINARY else accept(name, 0, args[0], TEXT)], returns)

    return rule


@register(
    "length",
    "char_length",
    "character_length",
    "len",
    rule=_text_or_binary("length", T.INT),
    style="arrow",
    group=GROUP,
    usage="length(s)",
    doc="Number of characters; of bytes, of a binary.",
)
def length(call: Call, s: pa.Array) -> pa.Array:
    """Number of characters."""
    return pc.cast(pc.binary_length(s) if s.type == T.BINARY else pc.utf8_length(s), T.INT)


@register(
    "octet_length",
    rule=_text_or_binary("octet_length", T.INT),
    style="arrow",
    group=GROUP,
    usage="octet_length(s)",
    doc="Number of bytes.",
)
def octet_length(call: Call, s: pa.Array) -> pa.Array:
    """Number of bytes."""
    return pc.cast(pc.binary_length(s), T.INT)


@register(
    "bit_length",
    rule=_text_or_binary("bit_length", T.INT),
    style="arrow",
    group=GROUP,
    usage="bit_length(s)",
    doc="Number of bits.",
)
def bit_length(call: Call, s: pa.Array) -> pa.Array:
    """Number of bits."""
    return pc.multiply(pc.cast(pc.binary_length(s), T.INT), pa.scalar(8, T.INT))


def _substring_rule(args: Sequence[Expr]) -> Typing:
    expect_count("substring", args, 2, 3)
    kind = T.BINARY if args[0].type == T.BINARY else accept("substring", 0, args[0], TEXT)
    return Typing([kind, *(accept("substring", i, a, T.INT) for i, a in enumerate(args[1:], 1))], kind or TEXT)


@register(
    "substring",
    "substr",
    rule=_substring_rule,
    style="vector",
    group=GROUP,
    usage="substring(s, start[, length])",
    doc="Part of a text from a place counted from one, or from the end when negative.",
)
def substring(call: Call, count: int, s: Vector, start: Vector, size: Vector | None = None) -> Any:
    """Part of a text."""
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


@register(
    "left",
    rule=takes("left", TEXT, T.INT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="left(s, n)",
    doc="The first n characters.",
    constants=(1,),
)
def left(call: Call, s: pa.Array, n: int) -> pa.Array:
    """The first characters."""
    return pc.utf8_slice_codeunits(s, 0, max(n, 0))


@register(
    "right",
    rule=takes("right", TEXT, T.INT, returns=TEXT),
    style="arrow",
    group=GROUP,
    usage="right(s, n)",
    doc="The last n characters.",
    constants=(1,),
)
def right(call: Call, s: pa.Array, n: int) -> pa.Array:
    """The last characters."""
    return pc.utf8_slice_codeunits(s, 0, 0) if n <= 0 else pc.utf8_slice_codeunits(s, -n)


def _concat_rule(args: Sequence[Expr]) -> Typing:
    expect_count("concat", args, 0, 100_000)
    if args and any(pt.is_list(a.type) for a in args):
        found = common_type((a.type for a in args), "concat")
        return Typing([found] * len(args), found)
    kinds = {a.type for a in args}
    kind = T.BINARY if kinds == {T.BINARY} else TEXT
    return Typing([accept("concat", i, a, kind) for i, a in enumerate(args)], kind)


@register(
    "concat",
    rule=_concat_rule,
    style="arrow",
    group=GROUP,
    usage="concat(a, b, …), a || b",
    doc="Texts, binaries or arrays one after another; null when one is null.",
    grows=True,
)
def concat(call: Call, *parts: pa.Array) -> Any:
    """Values one after another."""
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


def _concat_ws_rule(args: Sequence[Expr]) -> Typing:
    expect_count("concat_ws", args, 1, 100_000)
    types = [TEXT]
    for i, arg in enumerate(args[1:], 1):
        if pt.is_list(arg.type):
            if not can_implicitly_cast(arg.type.value_type, TEXT):
                raise TypeMismatchError(
                    f"concat_ws takes texts and arrays of texts, not {T.type_name(arg.type)} (`{arg.text}`)"
                )
            types.append(T.list_type(TEXT))
        else:
            types.append(accept("concat_ws", i, arg, TEXT))
    return Typing(types, TEXT, args[0].nullable)


@register(
    "concat_ws",
    rule=_concat_ws_rule,
    style="vector",
    group=GROUP,
    usage="concat_ws(separator, a, b, …)",
    doc="Texts, and the elements of arrays of texts, that are not null, with a separator between them.",
    grows=True,
)
def concat_ws(call: Call, count: int, separator: Vector, *parts: Vector) -> Vector:
    """Texts with a separator between them."""
    constant = separator.constant and all(p.constant for p in parts)
    if not parts:
        empty = pc.if_else(pc.is_valid(separator.arrow), "", None)
        return Vector(TEXT, arrow=empty.cast(TEXT), constant=separator.constant)
    arrays = [_joined(p.arrow, separator.arrow) if pt.is_list(p.type) else p.arrow for p in parts]
    return Vector(
        TEXT, arrow=pc.binary_join_element_wise(*arrays, separator.arrow, null_handling="skip"), constant=constant
    )


def _joined(lists: pa.Array, separator: pa.Array) -> pa.Array:
    """Each list's texts that are not null, joined; null when there is none, so that it is skipped."""
    kept = compacted(lists)
    joined = pc.binary_join(kept, separator)
    return pc.if_else(pc.equal(pc.list_value_length(kept), 0), None, joined)


_TRIMS = {
    "btrim": (pc.utf8_trim, "both ends"),
    "ltrim": (pc.utf8_ltrim, "the start"),
    "rtrim": (pc.utf8_rtrim, "the end"),
}


def _trim(name: str) -> None:
    """``btrim(s, characters)`` but ``ltrim(characters, s)``: Spark has it so."""
    kernel, where = _TRIMS[name]

    def both(call: Call, s: pa.Array, characters: str = " ") -> pa.Array:
        return kernel(s, characters) if characters else s

    usage = "btrim(s[, characters]), trim([BOTH characters FROM] s)"
    if name != "btrim":
        usage = f"{name}(s), trim({'LEADING' if name == 'ltrim' else 'TRAILING'} characters FROM s)"
    names = (name, "trim") if name == "btrim" else (name,)
    register(
        *names,
        rule=takes(name, TEXT, TEXT, returns=TEXT, optional=1),
        style="arrow",
        group=GROUP,
        usage=usage,
        doc=f"Without blanks (or those characters) at {where}.",
        constants=(1,),
    )(both)


for _name in _TRIMS:
    _trim(_name)
