"""Spark's datetime patterns (``yyyy-MM-dd HH:mm:ss``): printing and reading moments by them, whole columns at a time.

Source: Spark SQL reference, Datetime Patterns for Formatting and Parsing.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import UnsupportedFunctionError
from altneu.expressions.calendar import civil_from_days, days_from_civil, month_length
from altneu.expressions.time_in import zone_offsets
from altneu.expressions.vector import Mask, Values, Vector

_DAY = 86_400_000_000
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_LETTERS = frozenset("yuMLdDEaHhkKmsSQqXxZzVO")
_TOKEN = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']+")


class Piece(NamedTuple):
    """A part of a pattern: ``letter`` and how often it stands, or a text when ``letter`` is empty."""

    letter: str
    width: int
    text: str = ""


@lru_cache(maxsize=256)
def pieces(pattern: str) -> tuple[Piece, ...]:
    """Take a pattern apart.

    >>> [p.text or p.letter * p.width for p in pieces("yyyy-MM'T'")]
    ['yyyy', '-', 'MM', 'T']

    Raises:
        UnsupportedFunctionError: it has a letter that altneu does not read.
    """
    results, end = [], 0
    for match in _TOKEN.finditer(pattern):
        end = match.end()
        if match[1] is not None:
            results.append(Piece("", 0, match[1].replace("''", "'") or "'"))
        elif match[2] is None:
            results.append(Piece("", 0, match[0]))
        elif match[2] in _LETTERS:
            results.append(Piece(match[2], len(match[0])))
        else:
            raise UnsupportedFunctionError(
                f"the letter {match[2]!r} of the datetime pattern {pattern!r} is not supported"
            )
    if end != len(pattern):
        raise UnsupportedFunctionError(f"the datetime pattern {pattern!r} is not closed: a quote is missing")
    return tuple(results)


def _padded(values: Values, width: int) -> pa.Array:
    text = pc.cast(pa.array(values), T.STRING)
    return pc.utf8_lpad(text, width, "0") if width > 1 else text


def _year(year: Values, width: int) -> pa.Array:
    """A year; one with more digits than the pattern has letters gets a sign."""
    text = _padded(year, width)
    if width < 4 or not (year >= 10**width).any():
        return text
    return pc.if_else(pa.array(year >= 10**width), pc.binary_join_element_wise("+", text, ""), text)


def _words(words: list[str], index: Values, width: int) -> pa.Array:
    return pa.array(words if width >= 4 else [w[:3] for w in words]).take(pa.array(index))


def print_moments(micros: Values, pattern: str) -> pa.Array:
    """Moments, as microseconds in UTC, printed by a pattern.

    >>> print_moments(np.array([0]), "EEE d MMM yyyy h:mm a").to_pylist()
    ['Thu 1 Jan 1970 12:00 AM']
    """
    days, clock = micros // _DAY, micros % _DAY
    civil = civil_from_days(days)
    parts = [_printed(p, days, clock, civil) if p.letter else pa.repeat(p.text, len(micros)) for p in pieces(pattern)]
    return pc.binary_join_element_wise(*parts, "") if parts else pa.repeat("", len(micros))


def _printed(piece: Piece, days: Values, clock: Values, civil: tuple[Values, Values, Values]) -> pa.Array:
    letter, width = piece.letter, piece.width
    year, month, day = civil
    if letter in "yu":
        return _padded(year % 100, 2) if width == 2 else _year(year, width)
    if letter in "ML":
        return _padded(month, width) if width < 3 else _words(_MONTHS, month - 1, width)
    if letter == "E":
        return _words(_WEEKDAYS, (days + 3) % 7, width)
    if letter in "Qq":
        quarter = (month + 2) // 3
        if width < 3:
            return _padded(quarter, width)
        return pa.array(
            [
                f"Q{i}" if width == 3 else f"{i}{s} quarter"
                for i, s in zip(range(1, 5), ("st", "nd", "rd", "th"), strict=True)
            ]
        ).take(pa.array(quarter - 1))
    hour = clock // 3_600_000_000
    if letter == "a":
        return pa.array(["AM", "PM"]).take(pa.array((hour >= 12).astype(np.int8)))
    if letter == "S":
        return pc.utf8_slice_codeunits(_padded(clock % 1_000_000, 6), 0, width)
    if letter in "XxZzVO":
        return pa.repeat(_zone_text(letter, width), len(days))
    one = np.ones(1, np.int64)
    numbers: dict[str, Callable[[], Values]] = {
        "d": lambda: day,
        "D": lambda: days - days_from_civil(year, one, one) + 1,
        "H": lambda: hour,
        "k": lambda: np.where(hour == 0, 24, hour),
        "K": lambda: hour % 12,
        "h": lambda: np.where(hour % 12 == 0, 12, hour % 12),
        "m": lambda: clock // 60_000_000 % 60,
        "s": lambda: clock // 1_000_000 % 60,
    }
    return _padded(numbers[letter](), width)


def _zone_text(letter: str, width: int) -> str:
    if letter == "X":
        return "Z"
    if letter == "x":
        return {1: "+00", 2: "+0000", 4: "+0000"}.get(width, "+00:00")
    if letter == "Z":
        return "+0000" if width < 4 else "GMT" if width == 4 else "Z"
    if letter == "z":
        return "UTC" if width < 4 else "Coordinated Universal Time"
    return "GMT" if letter == "O" else "UTC"


class _Reader(NamedTuple):
    regex: str
    letters: tuple[str, ...]
    two_digit_year: bool


@lru_cache(maxsize=256)
def _reader(pattern: str) -> _Reader:
    """The regular expression of a pattern, its groups in order."""
    out: list[str] = []
    letters: list[str] = []
    short = False
    parts = pieces(pattern)
    for i, piece in enumerate(parts):
        letter, width = piece.letter, piece.width
        if not letter:
            out.append(re.escape(piece.text) if piece.text.isascii() else piece.text)
            continue
        adjacent = i + 1 < len(parts) and parts[i + 1].letter in "yuMLdDHhkKmsS" and bool(parts[i + 1].letter)
        short = short or (letter in "yu" and width == 2)
        out.append(f"(?P<p{len(letters)}>{_read_regex(letter, width, adjacent=adjacent)})")
        letters.append(letter)
    return _Reader(f"^{''.join(out)}$", tuple(letters), short)


def _read_regex(letter: str, width: int, *, adjacent: bool) -> str:
    if letter in "yu":
        if width == 2 or adjacent:
            return rf"\d{{{width}}}"
        return rf"-?\d{{{width}}}|\+\d{{{width + 1},6}}" if width >= 4 else r"[+-]?\d{1,6}"
    if letter in "ML" and width >= 3:
        return "(?i:" + "|".join(m if width >= 4 else m[:3] for m in _MONTHS) + ")"
    if letter == "E":
        return "(?i:" + "|".join(w if width >= 4 else w[:3] for w in _WEEKDAYS) + ")"
    if letter == "a":
        return "(?i:AM|PM)"
    if letter == "S":
        return rf"\d{{1,{width}}}"
    if letter in "XxZO":
        return r"Z|[+-]\d{2}(?::?\d{2})?(?::?\d{2})?|GMT(?:[+-]\d{1,2}(?::?\d{2})?)?"
    if letter in "zV":
        return r"[A-Za-z][A-Za-z0-9/_+:-]*"
    if letter in "Qq":
        return r"\d{1,2}"
    return rf"\d{{{width}}}" if width > 1 or adjacent else r"\d{1,2}" if letter != "D" else r"\d{1,3}"


def read_moments(text: pa.Array, pattern: str) -> tuple[Values, Mask]:
    """Microseconds of texts read by a pattern, and where one does not fit it; what is missing is as in 1970-01-01."""
    reader = _reader(pattern)
    named = reader.regex if reader.letters else f"(?P<p0>{reader.regex})"
    result = pc.extract_regex(text, named)
    good = np.asarray(result.is_valid())
    fields = {letter: pc.fill_null(result.field(i), "") for i, letter in enumerate(reader.letters)}
    number = {letter: _integers(part) for letter, part in fields.items() if letter in "yudDHhkKmsQq"}
    year = number.get("y", number.get("u", np.full(len(good), 1970, np.int64)))
    if reader.two_digit_year:
        year = year + 2000
    month, month_good = _month(fields, len(good))
    day = number.get("d", np.ones(len(good), np.int64))
    hour, clock_good = _hour(number, fields, len(good))
    minute, second = number.get("m", np.zeros(1, np.int64)), number.get("s", np.zeros(1, np.int64))
    good = good & month_good & clock_good & (minute < 60) & (second < 60) & (day >= 1) & (np.abs(year) < 290_000)
    year, month = np.where(good, year, 1970), np.where(good, month, 1)
    good = good & (day <= month_length(year, month))
    days = days_from_civil(year, month, np.where(good, day, 1))
    if "D" in number:
        one = np.ones(1, np.int64)
        days = days_from_civil(year, one, one) + number["D"] - 1
    micros = days * _DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + _fraction(fields.get("S"))
    zone = next((fields[z] for z in "XxZzVO" if z in fields), None)
    if zone is not None:
        shift, zone_bad = _zones(zone, micros)
        micros, good = micros - shift, good & ~zone_bad
    return np.where(good, micros, 0), ~good


def _integers(part: pa.Array) -> Values:
    text = pc.utf8_ltrim(pc.if_else(pc.equal(part, ""), "0", part), "+")
    return Vector(T.LONG, arrow=pc.cast(text, T.LONG)).values


def _month(fields: dict[str, pa.Array], count: int) -> tuple[Values, Mask]:
    part = fields.get("M", fields.get("L"))
    if part is None:
        return np.ones(count, np.int64), np.ones(count, np.bool_)
    names = pa.array([m[:3].lower() for m in _MONTHS])
    word = pc.index_in(pc.utf8_slice_codeunits(pc.ascii_lower(part), 0, 3), value_set=names)
    by_name = np.asarray(pc.fill_null(word, -1)).astype(np.int64) + 1
    digits = np.asarray(pc.match_substring_regex(part, r"^\d+$"))
    by_number = _integers(pc.if_else(pa.array(digits), part, "0"))
    month = np.where(digits, by_number, by_name)
    return month, (month >= 1) & (month <= 12)


def _hour(number: dict[str, Values], fields: dict[str, pa.Array], count: int) -> tuple[Values, Mask]:
    good = np.ones(count, np.bool_)
    if "H" in number:
        return number["H"], number["H"] < 24
    if "k" in number:
        return number["k"] % 24, (number["k"] >= 1) & (number["k"] <= 24)
    if "h" not in number and "K" not in number:
        return np.zeros(count, np.int64), good
    hour = number.get("h", number.get("K", np.zeros(count, np.int64)))
    good = (hour >= 1) & (hour <= 12) if "h" in number else hour <= 11
    afternoon = np.asarray(pc.equal(pc.ascii_lower(fields["a"]), "pm")) if "a" in fields else np.zeros(count, np.bool_)
    return hour % 12 + 12 * afternoon, good


def _fraction(part: pa.Array | None) -> Values:
    if part is None:
        return np.zeros(1, np.int64)
    return _integers(pc.utf8_slice_codeunits(pc.utf8_rpad(part, 6, "0"), 0, 6))


def _zones(zone: pa.Array, micros: Values) -> tuple[Values, Mask]:
    encoded: Any = zone.dictionary_encode()
    codes = np.asarray(encoded.indices)
    shift, bad = np.zeros(len(micros), np.int64), np.zeros(len(micros), np.bool_)
    for code, name in enumerate(encoded.dictionary.to_pylist()):
        rows = np.flatnonzero(codes == code)
        result = zone_offsets(name, micros[rows])
        if result is None:
            bad[rows] = True
        else:
            shift[rows] = result
    return shift, bad
