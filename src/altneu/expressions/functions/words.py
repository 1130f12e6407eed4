"""Texts compared, masked and taken apart: rare functions, in Python over the distinct texts."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.each import each
from altneu.expressions.functions.nested import checked_map
from altneu.expressions.functions.patterns import checked_pattern, split
from altneu.expressions.functions.strings import scalar
from altneu.expressions.lists import explode
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments, Typing
from altneu.expressions.vector import Vector

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

_SOUNDEX = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", "01230127022455012623017202", strict=True))
_SILENT = "7"


@scalar("soundex(s string) -> string")
def soundex(call: Call, s: pa.Array) -> Out:
    """How a text sounds in English: a letter and three digits; the text itself if it starts with none."""
    return each(call, _soundex, s)


def _soundex(text: str) -> str:
    first = text[:1]
    if not (first.isascii() and first.isalpha()):
        return text
    codes, last = [first.upper()], _SOUNDEX[first.upper()]
    for byte in text.encode()[1:]:
        code = _SOUNDEX.get(chr(byte).upper() if byte < 128 else "")
        if code is None:
            last = "0"
        elif code != _SILENT:
            if code not in ("0", last):
                codes.append(code)
                if len(codes) == 4:
                    break
            last = code
    return "".join(codes).ljust(4, "0")


@scalar("luhn_check(s string) -> boolean")
def luhn_check(call: Call, s: pa.Array) -> Out:
    """Whether digits end with the check digit of Luhn's algorithm; false for other texts."""
    return each(call, _luhn, s)


def _luhn(text: str) -> bool:
    if not re.fullmatch(r"[0-9]+", text):
        return False
    digits = [int(char) for char in reversed(text)]
    return (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10 == 0


@scalar("jaro_winkler_similarity(a string, b string) -> double")
def jaro_winkler_similarity(call: Call, a: pa.Array, b: pa.Array) -> Out:
    """How much two texts are alike by Jaro and Winkler, from 0 to 1."""
    return each(call, _jaro_winkler, a, b)


def _jaro_winkler(left: str, right: str) -> float:
    """Winkler, String Comparator Metrics, 1990; a common start of up to four characters counts 0.1 each.

    Characters are those of UTF-16, as Spark counts them here.
    """
    if left == right:
        return 1.0
    left, right = _units(left), _units(right)
    reach = max(max(len(left), len(right)) // 2 - 1, 0)
    taken = [False] * len(right)
    mine = []
    for place, char in enumerate(left):
        for other in range(max(place - reach, 0), min(place + reach + 1, len(right))):
            if not taken[other] and right[other] == char:
                taken[other] = True
                mine.append(char)
                break
    if not mine:
        return 0.0
    theirs = [char for char, used in zip(right, taken, strict=True) if used]
    moved = sum(a != b for a, b in zip(mine, theirs, strict=True)) // 2
    count = float(len(mine))
    jaro = (count / len(left) + count / len(right) + (count - moved) / count) / 3.0
    start = next((i for i, (a, b) in enumerate(zip(left[:4], right[:4], strict=False)) if a != b), None)
    common = min(len(left), len(right), 4) if start is None else start
    return jaro + 0.1 * common * (1.0 - jaro)


def _units(text: str) -> str:
    """The text with a character for each of its units in UTF-16."""
    if text.isascii():
        return text
    raw = text.encode("utf-16-le")
    return "".join(chr(raw[i] | raw[i + 1] << 8) for i in range(0, len(raw), 2))


@scalar("find_in_set(s string, list string) -> int")
def find_in_set(call: Call, s: pa.Array, listed: pa.Array) -> Out:
    """The position of a text in a list with commas, from one; 0 if it is not there or has a comma."""

    def place(text: str, items: str) -> int:
        parts = items.split(",")
        return parts.index(text) + 1 if text in parts else 0

    return each(call, place, s, listed)


_KINDS = {"Lu": 1, "Ll": 2, "Nd": 3}


def _mask_rule(args: Arguments) -> Typing:
    for arg, what in zip(args[1:], ("upper", "lower", "digit", "other"), strict=False):
        value = getattr(arg, "value", "")
        if not arg.is_literal or not (value is None or (isinstance(value, str) and len(value) == 1)):
            raise TypeMismatchError(f"mask: {what}, `{arg.text}`, must be one character or NULL, a constant")
    return Typing([args.accept(i, T.STRING) for i in range(len(args))], T.STRING, args[0].nullable)


@scalar("mask(s[, upper, lower, digit, other])", rule=_mask_rule)
def mask(
    call: Call,
    s: Vector,
    upper: str | None = "X",
    lower: str | None = "x",
    digit: str | None = "n",
    other: str | None = None,
) -> Vector:
    """The text with its letters and digits hidden, by X, x and n or by these characters; NULL keeps a kind."""
    by_kind = (other, upper, lower, digit)

    def masked(text: str) -> str:
        return "".join(by_kind[_KINDS.get(unicodedata.category(char), 0)] or char for char in text)

    return Vector(T.STRING, arrow=each(call, masked, s.arrow).values, constant=s.constant)


@scalar("quote(s string) -> string", grows=True)
def quote(s: pa.Array) -> pa.Array:
    r"""The text in single quotes, with a backslash before those inside."""
    return pc.binary_join_element_wise("'", pc.replace_substring(s, "'", "\\'"), "'", "")


def _check_delimiters(args: Arguments) -> None:
    for arg in args[1:]:
        if not isinstance(getattr(arg, "value", None), str):
            raise TypeMismatchError(f"str_to_map: the delimiter `{arg.text}` must be a constant text")
        checked_pattern(arg.value)  # type: ignore[attr-defined]


@scalar("str_to_map(s string[, pairs string, keys string]) -> map<string,string>", check=_check_delimiters, fails=True)
def str_to_map(call: Call, s: pa.Array, pairs: str = ",", keys: str = ":") -> Any:
    """A map of a text such as `a:1,b:2`, by regular expressions between pairs and between key and value."""
    listed = T.list_type(T.STRING)
    lists = explode(_parts(s, pairs, -1).cast(listed))
    entries = explode(_parts(lists.elements, keys, 2).cast(listed))
    first = entries.elements.take(pa.array(entries.offsets[:-1]))
    second = pa.array(entries.offsets[:-1] + 1, mask=entries.lengths < 2)
    return checked_map(call, lists.lengths, first, entries.elements.take(second), lists.valid)


def _parts(s: pa.Array, pattern: str, most: int) -> pa.Array:
    from types import SimpleNamespace

    return split(SimpleNamespace(type=T.list_type(T.STRING)), s, pattern, most)  # type: ignore[arg-type]
