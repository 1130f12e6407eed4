"""``format_string``: values in a text by the format of Java's ``Formatter``, taken apart when a plan is made."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.coercion import INTEGRAL, is_decimal
from altneu.expressions.each import each
from altneu.expressions.functions.documents import key_texts
from altneu.expressions.functions.strings import scalar
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_PIECE = re.compile(r"%(?:(\d+)\$)?([-#+ 0,(]*)(\d+)?(?:\.(\d+))?([a-zA-Z%])|([^%]+)")
_BITS = {T.BYTE: 8, T.SHORT: 16, T.INT: 32, T.LONG: 64}
_SHOWN = (T.STRING, T.FLOAT, T.DOUBLE, T.BOOLEAN, T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ, T.NULL)
_TAKES: dict[str, tuple[str, Callable[[pa.DataType], bool]]] = {
    **dict.fromkeys("doxX", ("a whole number", lambda kind: kind in INTEGRAL)),
    **dict.fromkeys("eEf", ("a float or double", lambda kind: kind in (T.FLOAT, T.DOUBLE))),
    **dict.fromkeys("cC", ("a whole number below bigint", lambda kind: kind in INTEGRAL[:3])),
    **dict.fromkeys(
        "sS", ("a text, number, boolean or time", lambda kind: kind in (*INTEGRAL, *_SHOWN) or is_decimal(kind))
    ),
    **dict.fromkeys("bB", ("anything", lambda _kind: True)),
}
_FLAGS = {**dict.fromkeys("d", "-+ 0,("), **dict.fromkeys("oxX", "-#0"), **dict.fromkeys("eE", "-+ 0("), "f": "-+ 0,("}
_WIDE = Context(prec=1200)


class _Part(NamedTuple):
    """A part of a format: a text, or how the argument ``index`` is written."""

    text: str = ""
    conversion: str = ""
    place: int = -1
    flags: str = ""
    width: int = 0
    precision: int | None = None


@lru_cache(maxsize=256)
def _parts(text: str) -> tuple[_Part, ...]:
    """Take a format apart.

    Raises:
        TypeMismatchError: it is none.
        UnsupportedFunctionError: a conversion that altneu does not know.
    """
    parts, end, following = [], 0, 0
    for match in _PIECE.finditer(text):
        if match.start() != end:
            break
        end = match.end()
        index, flags, width, precision, conversion, plain = match.groups()
        if plain is not None:
            parts.append(_Part(plain))
            continue
        if conversion in "n%":
            parts.append(_Part("\n" if conversion == "n" else "%".rjust(int(width or 0))))
            continue
        if conversion not in _TAKES:
            raise UnsupportedFunctionError(
                f"format_string: the conversion %{conversion} in {text!r} is not one of d, o, x, e, f, s, c, b"
            )
        if index is None:
            following += 1
        allowed = _FLAGS.get(conversion, "-")
        wrong = (
            set(flags) - set(allowed)
            or len(set(flags)) != len(flags)
            or (set(flags) & {"-", "0"} and width is None)
            or {"-", "0"} <= set(flags)
            or {"+", " "} <= set(flags)
            or (precision is not None and conversion in "doxXcC")
        )
        if wrong:
            raise TypeMismatchError(f"format_string: {match[0]!r} in {text!r} is no format")
        place = (int(index) if index else following) - 1
        parts.append(
            _Part("", conversion, place, flags, int(width or 0), None if precision is None else int(precision))
        )
    if end != len(text):
        raise TypeMismatchError(f"format_string: {text[end:]!r} in {text!r} is no format")
    return tuple(parts)


def _rule(args: Arguments) -> Typing:
    value = getattr(args[0], "value", None)
    if args[0].type == T.NULL or (args[0].is_literal and value is None):
        return Typing([T.STRING, *[None] * (len(args) - 1)], T.STRING, True)
    if not isinstance(value, str):
        raise TypeMismatchError(f"format_string: the format `{args[0].text}` must be a constant text")
    for part in _parts(value):
        if part.place >= len(args) - 1:
            raise TypeMismatchError(
                f"format_string: {value!r} needs {part.place + 1} values, and there are {len(args) - 1}"
            )
        if part.place >= 0:
            arg = args[part.place + 1]
            wanted, takes = _TAKES[part.conversion]
            if arg.type != T.NULL and not takes(arg.type):
                raise TypeMismatchError(
                    f"format_string: %{part.conversion} takes {wanted}, not `{arg.text}` ({T.type_name(arg.type)})"
                )
    return Typing([None] * len(args), T.STRING, False)


@scalar("format_string(format, …)", "printf", rule=_rule, usage="format_string(format, a, b, …)", grows=True)
def format_string(call: Call, count: int, form: Vector, *values: Vector) -> Vector:
    """The values in a text, by a format of Java's such as `'%s: %5.2f'`; conversions are d, o, x, e, f, s, c and b."""
    constant = all(v.constant for v in values)
    size = 1 if constant else count
    text = form.arrow[0].as_py() if len(form.arrow) else None
    if text is None:
        return Vector(T.STRING, arrow=pa.nulls(size, T.STRING), constant=constant)
    parts = _parts(text)
    used = [part for part in parts if part.place >= 0]
    arrays = [(v if constant else v.expand(count)).arrow for v in values]
    columns = [_column(part, arrays[part.place]) for part in used]
    writers = [_writer(part, arrays[part.place].type) for part in used]

    def line(*row: Any) -> str:
        shown = iter([writer(value) for writer, value in zip(writers, row, strict=True)])
        return "".join(part.text if part.place < 0 else next(shown) for part in parts)

    if not columns:
        return Vector(T.STRING, arrow=pa.repeat(line(), size), constant=constant)
    return Vector(T.STRING, arrow=each(call, line, *columns, strict=False).values, constant=constant)


def _column(part: _Part, array: pa.Array) -> pa.Array:
    if part.conversion in "bB" and array.type != T.BOOLEAN:
        return array.is_valid()
    return key_texts(array) if part.conversion in "sS" and array.type != T.NULL else array


def _writer(part: _Part, kind: pa.DataType) -> Callable[[Any], str]:
    def written(value: Any) -> str:
        if value is None or part.conversion in "sSbB":
            shown = {"b": "false", "B": "false"}.get(part.conversion, "null") if value is None else str(value)
            shown = shown.lower() if isinstance(value, bool) else shown
            shown = shown if part.precision is None else _cut(shown, part.precision)
        elif part.conversion in "cC":
            shown = chr(value)
        elif part.conversion in "oxX":
            shown = _based(part, value, _BITS[kind])
        else:
            shown = _signed(part, value)
        shown = shown.upper() if part.conversion.isupper() else shown
        blanks = " " * (part.width - len(shown) - sum(char > "\uffff" for char in shown))
        return shown + blanks if "-" in part.flags else blanks + shown

    return written


def _cut(text: str, size: int) -> str:
    """The first characters of a text as UTF-16 counts them; half of one is shown as a question mark."""
    if not any(char > "\uffff" for char in text):
        return text[:size]
    kept = text.encode("utf-16-le")[: 2 * size].decode("utf-16-le", "surrogatepass")
    return kept[:-1] + "?" if kept and "\ud800" <= kept[-1] < "\ue000" else kept


def _based(part: _Part, value: int, bits: int) -> str:
    digits = format(value % (1 << bits), "o" if part.conversion == "o" else "x")
    start = {"o": "0"}.get(part.conversion, "0x") if "#" in part.flags else ""
    return start + (digits.rjust(part.width - len(start), "0") if "0" in part.flags else digits)


def _signed(part: _Part, value: Any) -> str:
    """A number with its sign, as the flags say."""
    if value != value:  # noqa: PLR0124 -- NaN
        return "NaN"
    negative = value < 0
    start = (
        ("(" if "(" in part.flags else "-")
        if negative
        else "+"
        if "+" in part.flags
        else " "
        if " " in part.flags
        else ""
    )
    end = ")" if negative and "(" in part.flags else ""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return f"{start}Infinity{end}"
    digits = str(abs(value)) if part.conversion == "d" else _decimal(part, abs(value))
    if "," in part.flags:
        whole, point, rest = digits.partition(".")
        digits = f"{int(whole):,}{point}{rest}"
    if "0" in part.flags:
        digits = digits.rjust(part.width - len(start) - len(end), "0")
    return start + digits + end


def _decimal(part: _Part, value: float) -> str:
    places = 6 if part.precision is None else part.precision
    number = Decimal(repr(value))
    if part.conversion == "f":
        return format(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE), "f")
    exponent = number.adjusted() if number else 0
    rounded = number.scaleb(-exponent, _WIDE).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE)
    if rounded >= 10:
        exponent += 1
        rounded = number.scaleb(-exponent, _WIDE).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, _WIDE)
    return f"{format(rounded, 'f')}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"
