"""JSON documents: read as Spark's reader (Jackson) reads them, and written as it writes them.

Python's scanner reads what is JSON. What it refuses is read again by a slower one, which knows the liberties that
Spark takes: single quotes, and where numbers are read also ``NaN`` and ``INF``. What follows a document is not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from json.scanner import make_scanner
from typing import Any

import pyarrow as pa

from altneu.expressions.text_out import to_text

MISSING: Any = object()
"""What is not a document."""

_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_ESCAPES = {'"': '"', "'": "'", "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WRITTEN = {i: f"\\u{i:04X}" for i in range(32)} | {
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
    34: '\\"',
    92: "\\\\",
}
_WORDS = {"true": True, "false": False, "null": None}
_ENDLESS = {
    "NaN": "NaN",
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), "Infinity"),
    **dict.fromkeys(("-Infinity", "-INF"), "-Infinity"),
}
_MOST_DIGITS = 1000
_DEEPEST = 200  # Spark's is 1000, for which Python's stack has no room everywhere
_BRACKETS = re.compile(r""""(?:[^"\\]|\\.)*"|[\[{]|[\]}]""", re.DOTALL)


class Object(list[tuple[str, Any]]):
    """The members of an object, in their order, a name that comes twice too."""


class Real(str):
    """A number with a point or an exponent, as it is written."""

    __slots__ = ()

    @property
    def double(self) -> float:
        """Its value, infinite beyond the range of doubles."""
        return float(self)


class _NotJson(Exception):  # noqa: N818 -- a signal inside this module
    """A text is no document."""


class Reader:
    """Reads documents; ``numbers`` as the reader of values does, else as Hive's functions do.

    One that is not ``liberal`` takes nothing but JSON.

    >>> Reader(numbers=False)("{'a': [1, 1.50, null]} and more")
    [('a', [1, '1.50', None])]
    >>> Reader(numbers=True)('{"a": -INF}'), Reader(numbers=False)('{"a": NaN}') is MISSING
    ([('a', '-Infinity')], True)
    """

    def __init__(self, *, numbers: bool, liberal: bool = True) -> None:
        self.liberal = liberal
        self.numbers = self.strict = numbers
        decoder = json.JSONDecoder(
            strict=self.strict,
            object_pairs_hook=Object,
            parse_float=Real,
            parse_int=self._whole,
            parse_constant=self._constant,
        )
        self._scan: Any = make_scanner(decoder)  # type: ignore[arg-type]

    def _constant(self, word: str) -> Real:
        if not (self.numbers and self.liberal):
            raise _NotJson(word)
        return Real(word)

    def _whole(self, digits: str) -> int:
        if len(digits) > _MOST_DIGITS:
            raise _NotJson(digits)
        return int(digits)

    def __call__(self, text: str) -> Any:
        """The document at the start of a text; ``MISSING`` if there is none."""
        if too_deep(text):
            return MISSING
        start = _SPACE.match(text).end()  # type: ignore[union-attr]
        try:
            try:
                value, end = self._scan(text, start)
            except (ValueError, StopIteration, _NotJson):
                if not self.liberal:
                    return MISSING
                value, end = self._slowly(text, start, 0)
        except (_NotJson, RecursionError):
            return MISSING
        if isinstance(value, int | Real | None) and end < len(text):  # the end of a word or number must show
            follows = text[end]
            word = value is None or isinstance(value, bool)
            if (follows.isalnum() or follows in "_$") if word else follows not in " \t\n\r":
                return MISSING
        return value

    def _slowly(self, text: str, at: int, depth: int) -> tuple[Any, int]:
        """A value at a place, and where it ends."""
        char = text[at : at + 1]
        if depth > _DEEPEST:
            raise _NotJson(text)
        if char == "{":
            return self._members(text, at + 1, depth + 1)
        if char == "[":
            return self._elements(text, at + 1, depth + 1)
        if char in ('"', "'") and char:
            return self._string(text, at)
        word = re.compile(r"[+-]?[A-Za-z]+").match(text, at)
        if word is not None:
            if word[0] in _WORDS:
                return _WORDS[word[0]], word.end()
            if self.numbers and word[0] in _ENDLESS:
                return Real(_ENDLESS[word[0]]), word.end()
            raise _NotJson(text)
        number = _NUMBER.match(text, at)
        if number is None or text[number.end() : number.end() + 1].isalnum() or len(number[0]) > _MOST_DIGITS:
            raise _NotJson(text)
        return (Real(number[0]) if number[1] or number[2] else int(number[0])), number.end()

    def _members(self, text: str, at: int, depth: int) -> tuple[Object, int]:
        members, at = Object(), _after_space(text, at)
        while text[at : at + 1] != "}":
            if members:
                at = _expect(text, at, ",")
            if text[at : at + 1] not in ('"', "'"):
                raise _NotJson(text)
            name, at = self._string(text, at)
            value, at = self._slowly(text, _expect(text, _after_space(text, at), ":"), depth)
            members.append((name, value))
            at = _after_space(text, at)
        return members, at + 1

    def _elements(self, text: str, at: int, depth: int) -> tuple[list[Any], int]:
        elements: list[Any] = []
        at = _after_space(text, at)
        while text[at : at + 1] != "]":
            if elements:
                at = _expect(text, at, ",")
            value, at = self._slowly(text, at, depth)
            elements.append(value)
            at = _after_space(text, at)
        return elements, at + 1

    def _string(self, text: str, at: int) -> tuple[str, int]:
        out: list[str] = []
        quote, at = text[at], at + 1
        while True:
            char = text[at : at + 1]
            if not char or (self.strict and char < " "):
                raise _NotJson(text)
            if char == quote:
                return "".join(out).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass"), at + 1
            at += 1
            if char == "\\":
                char, at = _escaped(text, at)
            out.append(char)


class _Written:
    """A value that knows how it was written."""

    raw: str


class _WrittenObject(Object, _Written):
    pass


class _WrittenList(list[Any], _Written):
    pass


class _WrittenReal(Real, _Written):
    pass


class _WrittenInt(int, _Written):
    pass


_KINDS: dict[type, Callable[[Any], Any]] = {
    Object: _WrittenObject,
    list: _WrittenList,
    Real: _WrittenReal,
    int: _WrittenInt,
}


class ExactReader(Reader):
    """Reads documents whose objects, arrays and numbers have ``raw``, how they were written.

    >>> [value.raw for _, value in ExactReader(numbers=True)('{"a": [1,  2], "b": 1.50}')]
    ['[1,  2]', '1.50']
    """

    def __init__(self, *, numbers: bool) -> None:
        super().__init__(numbers=numbers)
        self._scan = lambda text, start: self._slowly(text, start, 0)

    def _slowly(self, text: str, at: int, depth: int) -> tuple[Any, int]:
        value, end = super()._slowly(text, at, depth)
        kind = _KINDS.get(type(value))
        if kind is not None:
            value = kind(value)
            value.raw = text[at:end]
        return value, end


def too_deep(text: str) -> bool:
    """Whether more arrays and objects are in one another than there is room for."""
    if text.count("[") + text.count("{") <= _DEEPEST:
        return False
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += 1 if match[0] in ("[", "{") else -1 if match[0] in ("]", "}") else 0
        if depth > _DEEPEST:
            return True
    return False


def _escaped(text: str, at: int) -> tuple[str, int]:
    char = text[at : at + 1]
    if char == "u":
        digits = text[at + 1 : at + 5]
        if re.fullmatch(r"[0-9A-Fa-f]{4}", digits) is None:
            raise _NotJson(text)
        return chr(int(digits, 16)), at + 5
    if char not in _ESCAPES:
        raise _NotJson(text)
    return _ESCAPES[char], at + 1


def _after_space(text: str, at: int) -> int:
    return _SPACE.match(text, at).end()  # type: ignore[union-attr]


def _expect(text: str, at: int, char: str) -> int:
    if text[at : at + 1] != char:
        raise _NotJson(text)
    return _after_space(text, at + 1)


def quoted(text: str) -> str:
    r"""A text as a string of JSON.

    >>> print(quoted('a"\n\u0001é'))
    "a\"\n\u0001é"
    """
    return f'"{text.translate(_WRITTEN)}"'


def units(text: str) -> str:
    r"""A text as a string, characters beyond the basic plane as their two halves in UTF-16.

    >>> print(units("é😀"))
    "é\uD83D\uDE00"
    """
    if text.isascii() or not any(char > "\uffff" or "\ud800" <= char <= "\udfff" for char in text):
        return quoted(text)
    raw = text.encode("utf-16-be", "surrogatepass")
    units = (raw[i] << 8 | raw[i + 1] for i in range(0, len(raw), 2))
    escaped = "".join(f"\\u{u:04X}" if 0xD800 <= u < 0xE000 else chr(u).translate(_WRITTEN) for u in units)
    return f'"{escaped}"'


def _lone(text: str) -> bool:
    """Whether a text has half of a character of UTF-16."""
    return not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)


def is_whole(text: str) -> bool:
    """Whether a text has no half of a character, so that it can be UTF-8."""
    return not _lone(text)


@lru_cache(maxsize=4096)
def double_text(value: float) -> str:
    """A double as Java prints it."""
    return str(to_text(pa.array([value]))[0].as_py())


def written(value: Any, text: Callable[[str], str] = units) -> str:
    """A value as a document without blanks; a number with a point as the double that it is, texts as ``text`` says.

    >>> written(Reader(numbers=False)('{"a": [1, 1.50, "x"]}'))
    '{"a":[1,1.5,"x"]}'
    """
    return "".join(_pieces(value, text))


def _pieces(value: Any, text: Callable[[str], str]) -> Iterator[str]:
    if isinstance(value, Object):
        yield "{"
        for place, (name, member) in enumerate(value):
            yield f"{',' if place else ''}{text(name)}:"
            yield from _pieces(member, text)
        yield "}"
    elif isinstance(value, list):
        yield "["
        for place, element in enumerate(value):
            if place:
                yield ","
            yield from _pieces(element, text)
        yield "]"
    else:
        yield _scalar(value, text)


def _scalar(value: Any, text: Callable[[str], str]) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Real):
        double = value.double
        if double in (float("inf"), float("-inf")) or double != double:  # noqa: PLR0124 -- NaN
            return f'"{double_text(double)}"'
        return "-0.0" if double == 0 and value.startswith("-") else double_text(double)
    return text(value) if isinstance(value, str) else str(value)
