"""``COLLATE``, and the texts by which collations compare."""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.collations import has_texts, name_of, of_icu
from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.patterns import (
    checked_pattern,
    like_pattern,
    regexp_count,
    regexp_extract,
    regexp_instr,
    regexp_replace,
    regexp_substr,
    rlike,
    split,
)
from altneu.expressions.functions.strings import case, scalar
from altneu.expressions.icu import sort_keys
from altneu.expressions.lists import Lists, explode, first_per_row, implode
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments
from altneu.expressions.vector import Mask

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _check_name(args: Arguments) -> None:
    name = getattr(args[1], "value", None)
    if not isinstance(name, str):
        raise TypeMismatchError(f"{args.name}: the collation `{args[1].text}` must be a constant, such as 'UTF8_LCASE'")
    name_of(name)
    if args[0].type != T.NULL and not has_texts(args[0].type):
        raise TypeMismatchError(
            f"{args.name} takes a text, not {T.type_name(args[0].type)} (`{args[0].text}`); cast it"
        )


@scalar(
    "collate(s string|array<string>, name string) -> s",
    check=_check_name,
    usage="s COLLATE name, collate(s, 'name')",
    fold=False,
)
def collate(s: pa.Array, name: str) -> pa.Array:  # noqa: ARG001 -- read where the text is compared
    """The text, compared by the collation UTF8_BINARY, UTF8_LCASE, UNICODE or that of a language, such as de.

    ``_CI``, ``_AI`` and ``_RTRIM`` behind a name ignore case, accents and spaces at the end.
    """
    return s


@scalar("collated(s string|array<string>, name string) -> s", check=_check_name, fold=False)
def collated(s: pa.Array, name: str) -> pa.Array:  # noqa: ARG001 -- read where the text is compared
    """The text with the collation of a column, as CAST(s AS STRING COLLATE name) gives it."""
    return s


def _of_icu(call: Call) -> bool:
    name = getattr(call.args[1], "value", None)
    return not isinstance(name, str) or of_icu(name_of(name)) is not None


@scalar("collation_key(s string|array<string>, name string) -> s", check=_check_name, fails=_of_icu)
def collation_key(s: pa.Array, name: str) -> pa.Array | Out:
    """The text by which the collation compares s: in lower case, without spaces at the end, or a sort key of ICU's.

    Of an array of texts it is an array of these. A text with a character that ICU has another order for than Spark's
    ICU has no key: it fails.
    """
    if not pt.is_list(s.type):
        return _keys(s, name_of(name))
    lists = explode(s)
    found = _keys(lists.elements, name_of(name))
    keys = implode(lists.lengths, found.values if isinstance(found, Out) else found, lists.valid)
    if not isinstance(found, Out):
        return keys
    return Out(keys, [_of_rows(lists, mask, text) for mask, _, text in found.failures])


def _of_rows(lists: Lists, mask: Mask, text: str | Callable[[int], str]) -> tuple[Mask, str, Callable[[int], str]]:
    """The failures of elements, as those of the arrays that have them."""
    first = first_per_row(lists, mask)
    return first >= 0, _UNKNOWN, lambda row: text(int(lists.offsets[row] + first[row])) if callable(text) else text


def _keys(s: pa.Array, name: str) -> pa.Array | Out:
    if name.endswith("_RTRIM"):
        s = pc.utf8_rtrim(s, " ")
    if name.startswith("UTF8_BINARY"):
        return s
    encoded = s.dictionary_encode()
    words = encoded.dictionary
    icu = of_icu(name)
    if icu is None:
        return pa.array([_lower(w) for w in words.to_pylist()], pa.string()).take(encoded.indices)
    keys, faults = sort_keys(words, *icu)
    result = keys.take(encoded.indices)
    if not faults:
        return result
    which = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    return Out(result, [(np.isin(which, list(faults)), _UNKNOWN, lambda row: _unknown(name, faults[int(which[row])]))])


_UNKNOWN = "COLLATION_UNKNOWN_CHARACTER"


def _unknown(name: str, characters: str) -> str:
    shown = " ".join(f"U+{ord(c):04X}" for c in characters)
    return f"the collation {name}: no place is known among the others of {characters!r} ({shown})"


def _lower(text: str) -> str:
    """In lower case, character by character; the sigma at the end of a word is any sigma."""
    return text.lower() if text.isascii() else "".join(c.lower() for c in text).replace("ς", "σ")


class _Lowered:
    """A text in lower case as UTF8_LCASE has it, where each letter begins: one of them becomes two characters."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lower = _lower(text)
        self.starts: dict[int, int] | None = None
        if len(self.lower) != len(text):
            self.starts, at = {}, 0
            for i, c in enumerate(text):
                self.starts[at] = i
                at += len(_lower(c))
            self.starts[at] = len(text)

    def place(self, at: int) -> int | None:
        """The letter that begins at a character in lower case; None inside of one."""
        return at if self.starts is None else self.starts.get(at)

    def starts_with(self, part: str) -> bool:
        """Whether the text begins with a part in lower case."""
        return self.lower.startswith(part) and self.place(len(part)) is not None

    def ends(self, part: str) -> bool:
        """Whether the text ends with a part in lower case."""
        return self.lower.endswith(part) and self.place(len(self.lower) - len(part)) is not None

    def find(self, part: str, first: int = 0) -> tuple[int, int] | None:
        """Where a part in lower case is found first, from a letter on: its beginning and its end, in letters."""
        at = -1
        while (at := self.lower.find(part, at + 1)) >= 0:
            begin, end = self.place(at), self.place(at + len(part))
            if begin is not None and end is not None and begin >= first:
                return begin, end
        return None

    def found(self, part: str) -> list[tuple[int, int]]:
        """All places of a part that is not empty, one behind the other."""
        result: list[tuple[int, int]] = []
        while (place := self.find(part, result[-1][1] if result else 0)) is not None:
            result.append(place)
        return result

    def found_from_the_end(self, part: str) -> list[tuple[int, int]]:
        """All places of a part that is not empty, from the last one on."""
        result: list[tuple[int, int]] = []
        at = len(self.lower)
        while (at := self.lower.rfind(part, 0, at)) >= 0:
            begin, end = self.place(at), self.place(at + len(part))
            if begin is not None and end is not None:
                result.append((begin, end))
            else:
                at += len(part) - 1
        return result


@scalar("lcase_contains(s string, part string) -> boolean")
def lcase_contains(call: Call, s: pa.Array, part: pa.Array) -> Out:
    """What contains gives by the collation UTF8_LCASE."""
    return each(call, lambda text, p: _Lowered(text).find(_lower(p)) is not None, s, part)


@scalar("lcase_startswith(s string, part string) -> boolean")
def lcase_startswith(call: Call, s: pa.Array, part: pa.Array) -> Out:
    """What startswith gives by the collation UTF8_LCASE."""

    def starts(text: str, p: str) -> bool:
        return _Lowered(text).starts_with(_lower(p))

    return each(call, starts, s, part)


@scalar("lcase_endswith(s string, part string) -> boolean")
def lcase_endswith(call: Call, s: pa.Array, part: pa.Array) -> Out:
    """What endswith gives by the collation UTF8_LCASE."""

    def ends(text: str, p: str) -> bool:
        return _Lowered(text).ends(_lower(p))

    return each(call, ends, s, part)


@scalar("lcase_instr(s string, part string) -> int")
def lcase_instr(call: Call, s: pa.Array, part: pa.Array) -> Out:
    """What instr gives by the collation UTF8_LCASE."""
    return each(call, lambda text, p: _position(text, p, 1), s, part)


@scalar("lcase_locate(part string, s string[, start int]) -> int")
def lcase_locate(call: Call, part: pa.Array, s: pa.Array, start: int = 1) -> Out:
    """What locate gives by the collation UTF8_LCASE."""
    return each(call, lambda p, text: _position(text, p, start), part, s)


def _position(text: str, part: str, start: int) -> int:
    if start < 1 or part == "":
        return int(start >= 1)
    place = _Lowered(text).find(_lower(part), start - 1)
    return 0 if place is None else place[0] + 1


@scalar("lcase_find_in_set(s string, list string) -> int")
def lcase_find_in_set(call: Call, s: pa.Array, listed: pa.Array) -> Out:
    """What find_in_set gives by the collation UTF8_LCASE."""

    def place(text: str, items: str) -> int:
        parts = _lower(items).split(",")
        return parts.index(_lower(text)) + 1 if _lower(text) in parts else 0

    return each(call, place, s, listed)


@scalar("lcase_replace(s string, part string[, by string]) -> string", grows=True)
def lcase_replace(call: Call, s: pa.Array, part: pa.Array, by: str = "") -> Out:
    """What replace gives by the collation UTF8_LCASE."""
    return each(call, lambda text, p: by.join(_pieces(text, p)), s, part)


def _pieces(text: str, delimiter: str) -> list[str]:
    """A text between the places of a delimiter."""
    if delimiter == "":
        return [text]
    places = _Lowered(text).found(_lower(delimiter))
    begins, ends = [0, *(end for _, end in places)], [*(begin for begin, _ in places), len(text)]
    return [text[begin:end] for begin, end in zip(begins, ends, strict=True)]


@scalar("lcase_split_part(s string, delimiter string, n int) -> string", fails=True)
def lcase_split_part(call: Call, s: pa.Array, delimiter: pa.Array, n: int) -> Out:
    """What split_part gives by the collation UTF8_LCASE."""

    def part(text: str, d: str) -> str:
        if n == 0:
            raise RowFailure("INVALID_INDEX_OF_ZERO", f"`{call.text}`: parts are counted from 1, or from -1 at the end")
        pieces = _pieces(text, d)
        return pieces[n - 1 if n > 0 else n] if 1 <= abs(n) <= len(pieces) else ""

    return each(call, part, s, delimiter)


@scalar("lcase_substring_index(s string, delimiter string, n int) -> string")
def lcase_substring_index(call: Call, s: pa.Array, delimiter: pa.Array, n: int) -> Out:
    """What substring_index gives by the collation UTF8_LCASE."""

    def before(text: str, d: str) -> str:
        if n == 0 or d == "":
            return ""
        if n > 0:
            places = _Lowered(text).found(_lower(d))
            return text[: places[n - 1][0]] if n <= len(places) else text
        ends = _Lowered(text).found_from_the_end(_lower(d))
        return text[ends[-n - 1][1] :] if -n <= len(ends) else text

    return each(call, before, s, delimiter)


_DOTTED = "i\u0307"  # an i with a dot above it, the lower case of İ


def _units(text: str, known: Container[str]) -> list[tuple[str, str]]:
    """The characters of a text, each behind what UTF8_LCASE compares; i and a dot are one only where İ is ``known``."""
    units: list[tuple[str, str]] = []
    for char in text:
        if char == "\u0307" and _DOTTED in known and units and units[-1][1] == "i":
            units[-1] = (_DOTTED, _DOTTED)
        else:
            units.append((_lower(char), char))
    return units


@scalar("lcase_translate(s string, from string, to string) -> string", grows=True)
def lcase_translate(call: Call, s: pa.Array, source: str, target: str) -> Out:
    """What translate gives by the collation UTF8_LCASE."""
    pairs: dict[str, str] = {}
    for i, char in enumerate(source):
        pairs.setdefault(_lower(char), target[i] if i < len(target) else "")
    return each(call, lambda text: "".join(pairs.get(low, char) for low, char in _units(text, pairs)), s)


def _trim(*, start: bool, end: bool) -> Callable[..., Out]:
    def trimmed(call: Call, s: pa.Array, characters: str) -> Out:
        dropped = set(map(_lower, characters))

        def trim(text: str) -> str:
            units = _units(text, dropped)
            first, last = 0, len(units)
            while start and first < last and units[first][0] in dropped:
                first += 1
            while end and last > first and units[last - 1][0] in dropped:
                last -= 1
            return "".join(char for _, char in units[first:last])

        return each(call, trim, s)

    return trimmed


for _name, _start, _end in (("btrim", True, True), ("ltrim", True, False), ("rtrim", False, True)):
    scalar(f"lcase_{_name}(s string, characters string) -> string", doc=f"What {_name} gives by UTF8_LCASE.")(
        _trim(start=_start, end=_end)
    )


_SHARP = "\ufdd0"
"""In place of ẞ, which is ß without case only for some patterns: a character that no text has, by Unicode."""


def _folded(text: pa.Array) -> pa.Array:
    """Each character in upper case and then in lower case, as Java's regular expressions compare without case."""
    return pc.utf8_lower(pc.utf8_upper(pc.replace_substring(text, "ẞ", _SHARP)))


def _folded_pattern(pattern: str, escape: str) -> str:
    """The regular expression of a LIKE pattern for folded texts.

    Java takes ẞ for ß, but not where ß stands between two wildcards.

    Raises:
        ValueError: the escape character stands before something that needs no escape.
    """
    parts = re.split(r"(\.\*|(?<!\\)\.)", like_pattern(pattern, escape).removeprefix("^(?s:").removesuffix(")$"))
    for i, part in enumerate(parts):
        if i % 2 == 0 and not part.isascii():
            low = str(_folded(pa.array([part]))[0].as_py()).replace(_SHARP, f"[ß{_SHARP}]")
            parts[i] = low if low == "ß" else re.sub(r"(?<!\[)ß", f"[ß{_SHARP}]", low)
        elif i % 2 == 0:
            parts[i] = part.lower()
    return f"^(?s:{''.join(parts)})$"


_PLAIN = re.compile(r"(%?)([^_%]*)(?:(%)([^_%]*))?", re.DOTALL)


def _like_by_comparing(s: pa.Array, pattern: str, escape: str, call: Call) -> Out | None:
    """LIKE of a constant pattern with texts at its ends alone, which Spark looks for by their collation."""
    form = _PLAIN.fullmatch(pattern)
    if form is None or escape in pattern:
        return None
    first, begin, percent, end = form.group(1), form.group(2), form.group(3), form.group(4) or ""
    if first and (not begin or end):
        return None
    low, low_end = _lower(begin), _lower(end)

    def fits(text: str) -> bool:
        given = _Lowered(text)
        if first:
            return given.find(low) is not None if percent else given.ends(low)
        if percent:
            return len(text) >= len(begin) + len(end) and given.starts_with(low) and given.ends(low_end)
        return given.lower == low

    return each(call, fits, s) if begin or not percent else None


def _like(call: Call, s: pa.Array, pattern: str, escape: str = "\\") -> Out:
    compared = call.args[1].is_literal and not call.args[0].is_literal
    if compared and (result := _like_by_comparing(s, pattern, escape, call)) is not None:
        return result
    try:
        regex = _folded_pattern(pattern, escape)
    except ValueError:
        text = f"`{call.text}`: {escape!r} stands before something that needs no escape, or at the end"
        return Out(pa.nulls(len(s), T.BOOLEAN), ((np.ones(len(s), np.bool_), "INVALID_FORMAT", text),))
    return Out(pc.match_substring_regex(_folded(s), regex))


@scalar("lcase_like(s string, pattern string[, escape string]) -> boolean", fails=True)
def lcase_like(call: Call, s: pa.Array, pattern: str, escape: str = "\\") -> Out:
    """What LIKE gives by the collation UTF8_LCASE."""
    return _like(call, s, pattern, escape)


@scalar("lcase_ilike(s string, pattern string[, escape string]) -> boolean", fails=True)
def lcase_ilike(call: Call, s: pa.Array, pattern: str, escape: str = "\\") -> Out:
    """What ILIKE gives by the collation UTF8_LCASE."""
    return _like(call, case(s, upper=False), case(pa.array([pattern]), upper=False)[0].as_py(), escape)


_OTHERS = "İıẞſ\u212a"
"""Characters that Java and RE2 do not take for the same ones without case."""
_CLASSES = re.compile(r"\\[pP]|\[:|\[[^\]]*([^\x00-\x7f]-|-[^\x00-\x7f])")
"""Classes of which RE2 and Java may have other characters without case."""


def _check_without_case(args: Arguments) -> None:
    pattern = getattr(args[1], "value", None)
    if isinstance(pattern, str):
        if why := _unknown_without_case(pattern):
            raise UnsupportedFunctionError(f"{args.name} by the collation UTF8_LCASE: {why}")
        checked_pattern(pattern)


def _unknown_without_case(pattern: str) -> str:
    """Why it is not known what a regular expression means without case; an empty text if it is."""
    classes = _CLASSES.search(pattern)
    what = next((c for c in _OTHERS if c in pattern), "") or (classes.group() if classes else "")
    return what and f"{what!r} in the regular expression {pattern!r} is not supported"


def _without_case(kernel: Callable[..., Any]) -> Callable[..., Out]:
    def insensitive(call: Call, s: pa.Array, pattern: str, *more: Any) -> Out:
        if why := _unknown_without_case(pattern):
            failure = (np.ones(len(s), np.bool_), "INVALID_PARAMETER_VALUE", f"`{call.text}`: {why}")
            return Out(pa.nulls(len(s), call.type), (failure,))
        result = kernel(call, s, f"(?i){pattern}" if pattern else pattern, *more)
        values, failures = (result.values, tuple(result.failures)) if isinstance(result, Out) else (result, ())
        odd = np.asarray(pc.match_substring_regex(s, f"[{_OTHERS}]").fill_null(False))
        text = f"`{call.text}`: a text with one of {', '.join(_OTHERS)} is not matched by UTF8_LCASE"
        return Out(values, (*failures, (odd, _UNKNOWN, text)))

    insensitive.__annotations__ = {"call": "Call", **kernel.__annotations__, "return": "Out"}
    return insensitive


for _kernel, _signature in (
    (rlike, "rlike(s string, pattern string) -> boolean"),
    (regexp_count, "regexp_count(s string, pattern string) -> int"),
    (regexp_instr, "regexp_instr(s string, pattern string[, group int]) -> int"),
    (regexp_extract, "regexp_extract(s string, pattern string[, group int]) -> string"),
    (regexp_substr, "regexp_substr(s string, pattern string) -> string?"),
    (regexp_replace, "regexp_replace(s string, pattern string, by string) -> string"),
    (split, "split(s string, pattern string[, limit int]) -> array<string>"),
):
    scalar(
        f"lcase_{_signature}",
        check=_check_without_case,
        fails=True,
        grows=_kernel is regexp_replace,
        doc=f"What {_kernel.__name__} gives by the collation UTF8_LCASE.",
    )(_without_case(_kernel))
