"""Bytes, digits and texts as one another: bases, base 64 and 32, character sets."""

from __future__ import annotations

import base64 as b64
import codecs
import re
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.strings import scalar
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments
from altneu.expressions.vector import Values

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_WORD = 1 << 64
_CHARSETS = {
    "US-ASCII": "ascii",
    "ISO-8859-1": "latin-1",
    "UTF-8": "utf-8",
    "UTF-16": "utf-16-be",
    "UTF-16BE": "utf-16-be",
    "UTF-16LE": "utf-16-le",
    "UTF-32": "utf-32-be",
}
_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"


@scalar("bin(n bigint) -> string")
def binary_digits(call: Call, n: pa.Array) -> Out:
    """A whole number in base 2, a negative one as its 64 bits."""
    return each(call, lambda value: format(value % _WORD, "b"), n)


@scalar("conv(s string, from int, to int) -> string?", fails=True)
def conv(call: Call, s: pa.Array, source: pa.Array, target: pa.Array) -> Out:
    """A whole number written in another base, 2 to 36; a negative target is for signed numbers."""

    def converted(text: str, from_base: int, to_base: int) -> str | None:
        text = text.strip(" ")
        if not (2 <= from_base <= 36 and 2 <= abs(to_base) <= 36 and text):
            return None
        negative, value = text[0] == "-", 0
        for char in text[negative:]:
            digit = _DIGITS.find(char.upper()) if char.isascii() else -1
            if not 0 <= digit < from_base:
                break
            value = value * from_base + digit
            if value >= _WORD:
                raise RowFailure("ARITHMETIC_OVERFLOW", f"conv: {text!r} is beyond 64 bits")
        signed = value - _WORD if value >= _WORD // 2 else value
        if negative and to_base > 0:
            signed = -1 if signed < 0 else -signed
        if to_base < 0 and signed < 0:
            signed, negative = -signed, True
        return ("-" if negative and to_base < 0 else "") + _written(signed % _WORD, abs(to_base))

    return each(call, converted, s, source, target)


def _written(value: int, base: int) -> str:
    digits = []
    while value:
        value, digit = divmod(value, base)
        digits.append(_DIGITS[digit])
    return "".join(reversed(digits)) or "0"


@scalar("unhex(s string) -> binary?")
def unhex(call: Call, s: pa.Array) -> Out:
    """The bytes that digits in base 16 say; NULL if there are others."""
    return each(call, _from_hex, s)


def _from_hex(text: str) -> bytes | None:
    if not re.fullmatch(r"[0-9A-Fa-f]*", text):
        return None
    return bytes.fromhex("0" * (len(text) % 2) + text)


@scalar("unbase64(s string) -> binary", fails=True)
def unbase64(call: Call, s: pa.Array) -> Out:
    """The bytes that a text in base 64 says; other characters are passed over."""
    return each(call, from_base64, s)


def from_base64(text: str) -> bytes:
    """As the MIME decoder of Java: what is none of the 64 characters is passed over, as what follows the end.

    Raises:
        RowFailure: it ends amid four characters.
    """
    raw = text.encode()
    kept = bytearray()
    place = 0
    while place < len(raw):
        byte = raw[place]
        place += 1
        if byte == ord("="):
            left = len(kept) % 4
            if left == 0 or (left == 2 and raw[place : place + 1] != b"="):
                raise RowFailure("CONVERSION_INVALID_INPUT", f"{text!r} ends amid four characters of base 64")
            if any(other in _BASE64 for other in raw[place:]):
                raise RowFailure("CONVERSION_INVALID_INPUT", f"{text!r} goes on after its end, which `=` is in base 64")
            break
        if byte in _BASE64:
            kept.append(byte)
    if len(kept) % 4 == 1:
        raise RowFailure("CONVERSION_INVALID_INPUT", f"{text!r} ends with a single character of base 64")
    return b64.b64decode(bytes(kept) + b"=" * (-len(kept) % 4))


def _charset(name: str, function: str) -> str:
    codec = _CHARSETS.get(name.upper())
    if codec is None:
        known = ", ".join(_CHARSETS)
        message = f"{function}: the character set must be one of {known}, got {name!r}"
        raise RowFailure("INVALID_PARAMETER_VALUE", message)
    return codec


@scalar("encode(s string, charset string) -> binary", fails=True, grows=True)
def encode(call: Call, s: pa.Array, charset: pa.Array) -> Out:
    """The bytes of a text in a character set: UTF-8, UTF-16, UTF-16BE, UTF-16LE, UTF-32, US-ASCII or ISO-8859-1."""

    def encoded(text: str, name: str) -> bytes:
        codec = _charset(name, "encode")
        mark = codecs.BOM_UTF16_BE if name.upper() == "UTF-16" and text else b""
        try:
            return mark + text.encode(codec)
        except UnicodeEncodeError:
            raise RowFailure("MALFORMED_CHARACTER_CODING", f"encode: {text!r} is not in {name}") from None

    return each(call, encoded, s, charset)


@scalar("decode(b binary|string, charset string) -> string", fails=True, usage="decode(b, charset)", grows=True)
def decode(call: Call, b: pa.Array, charset: pa.Array) -> Out:
    """The text that bytes are in a character set. `decode(a, b, c, …, d)` is c where `a <=> b` and so on, else d."""

    def decoded(value: bytes, name: str) -> str:
        codec = _charset(name, "decode")
        if name.upper() == "UTF-16":
            codec = "utf-16-le" if value[:2] == codecs.BOM_UTF16_LE else codec
            value = value[2:] if value[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else value
        if name.upper() == "UTF-32":
            codec = "utf-32-le" if value[:4] == codecs.BOM_UTF32_LE else codec
            value = value[4:] if value[:4] in (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE) else value
        try:
            return value.decode(codec)
        except UnicodeDecodeError:
            raise RowFailure("MALFORMED_CHARACTER_CODING", f"decode: {value!r} is not {name}") from None

    return each(call, decoded, b.cast(T.BINARY), charset)


def _check_format(args: Arguments) -> None:
    if len(args) < 2 or args[1].type == T.NULL:
        return
    value = getattr(args[1], "value", None)
    if not isinstance(value, str) or value.lower() not in ("hex", "utf-8", "utf8", "base64"):
        raise TypeMismatchError(f"{args.name}: `{args[1].text}` must be 'hex', 'utf-8' or 'base64', a constant")


def _to_binary(call: Call, s: pa.Array, form: str = "hex") -> Out:
    def converted(text: str) -> bytes | None:
        if form.lower() in ("utf-8", "utf8"):
            return text.encode()
        result = _from_hex(text) if form.lower() == "hex" else _strictly(text)
        if result is None and call.name == "to_binary":
            raise RowFailure("CONVERSION_INVALID_INPUT", f"to_binary: {text!r} is not {form}")
        return result

    return each(call, converted, s)


def _strictly(text: str) -> bytes | None:
    """Bytes of a text in base 64 in which there is nothing else but white space; None of others."""
    text = re.sub(r"[ \t\n\r\f]", "", text)
    symbols = text.rstrip("=")
    padding = len(text) - len(symbols)
    if not re.fullmatch(r"[A-Za-z0-9+/]*", symbols) or len(symbols) % 4 == 1 or padding > 2:
        return None
    if padding and len(text) % 4:
        return None
    return b64.b64decode(symbols + "=" * (-len(symbols) % 4))


scalar(
    "to_binary(s string[, format string]) -> binary",
    check=_check_format,
    fails=True,
    doc=(
        "The bytes that a text says in base 16 (`'hex'`, the default), in UTF-8 (`'utf-8'`) or in base 64 (`'base64'`)."
    ),
)(_to_binary)
scalar(
    "try_to_binary(s string[, format string]) -> binary?",
    check=_check_format,
    doc=("`to_binary`, but NULL if the text does not fit."),
)(_to_binary)


@scalar("to_base32(b string|binary) -> string", grows=True)
def to_base32(call: Call, b: pa.Array) -> Out:
    """Bytes in base 32."""
    return each(call, lambda value: b64.b32encode(value).decode(), b.cast(T.BINARY))


@scalar("from_base32(s string) -> binary")
def from_base32(call: Call, s: pa.Array) -> Out:
    """The bytes that a text in base 32 says, up to the first `=`; other characters are passed over."""
    return each(call, _from_base32, s)


def _from_base32(text: str) -> bytes:
    digits = [_BASE32.index(c.upper()) for c in text.partition("=")[0] if c.isascii() and c.upper() in _BASE32]
    out = bytearray()
    for start in range(0, len(digits), 8):
        part, value = digits[start : start + 8], 0
        for digit in part:
            value = value << 5 | digit
        size, spare = ((1, 2), (1, 2), (1, 7), (2, 4), (3, 1), (3, 6), (4, 3), (5, 0))[len(part) - 1]
        out += (value >> spare).to_bytes(size, "big")
    return bytes(out)


@scalar("is_valid_utf8(s string) -> boolean")
def is_valid_utf8(s: pa.Array) -> pa.Array:
    """Whether a text is UTF-8; true, as every text in altneu is."""
    return pa.repeat(True, len(s))


def _valid(s: pa.Array) -> pa.Array:
    return s


for _name, _result in (("make_valid_utf8", "string"), ("validate_utf8", "string"), ("try_validate_utf8", "string?")):
    scalar(f"{_name}(s string) -> {_result}", doc="The text itself: every text in altneu is UTF-8.")(_valid)


@scalar("bitmap_bit_position(n bigint) -> bigint")
def bitmap_bit_position(n: Values) -> Values:
    """The place of a number's bit in its bitmap of 32768 bits."""
    return np.where(n > 0, (n - 1) % 32768, -(n % -32768))


@scalar("bitmap_bucket_number(n bigint) -> bigint")
def bitmap_bucket_number(n: Values) -> Values:
    """The number of the bitmap of 32768 bits that a number is in."""
    return np.where(n > 0, 1 + (n - 1) // 32768, -(n // -32768))


@scalar("bitmap_count(b binary) -> bigint")
def bitmap_count(call: Call, b: pa.Array) -> Out:
    """Number of bits set in bytes."""
    return each(call, lambda value: int.from_bytes(value, "big").bit_count(), b)
