"""``COLLATE``, and the texts by which collations compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions.collations import name_of, of_icu
from altneu.expressions.each import RowFailure, each
from altneu.expressions.functions.strings import scalar
from altneu.expressions.icu import sort_keys
from altneu.expressions.registry import Out
from altneu.expressions.rules import Arguments

if TYPE_CHECKING:
    from altneu.expressions.expr import Call


def _check_name(args: Arguments) -> None:
    name = getattr(args[1], "value", None)
    if not isinstance(name, str):
        raise TypeMismatchError(f"{args.name}: the collation `{args[1].text}` must be a constant, such as 'UTF8_LCASE'")
    name_of(name)
    if args[0].type not in (T.STRING, T.NULL):
        raise TypeMismatchError(
            f"{args.name} takes a text, not {T.type_name(args[0].type)} (`{args[0].text}`); cast it"
        )


@scalar(
    "collate(s string, name string) -> string",
    check=_check_name,
    usage="s COLLATE name, collate(s, 'name')",
    fold=False,
)
def collate(s: pa.Array, name: str) -> pa.Array:  # noqa: ARG001 -- read where the text is compared
    """The text, compared by the collation UTF8_BINARY, UTF8_LCASE, UNICODE or that of a language, such as de.

    ``_CI``, ``_AI`` and ``_RTRIM`` behind a name ignore case, accents and spaces at the end.
    """
    return s


@scalar("collated(s string, name string) -> string", check=_check_name, fold=False)
def collated(s: pa.Array, name: str) -> pa.Array:  # noqa: ARG001 -- read where the text is compared
    """The text with the collation of a column, as CAST(s AS STRING COLLATE name) gives it."""
    return s


def _of_icu(call: Call) -> bool:
    name = getattr(call.args[1], "value", None)
    return not isinstance(name, str) or of_icu(name_of(name)) is not None


@scalar("collation_key(s string, name string) -> string", check=_check_name, fails=_of_icu)
def collation_key(s: pa.Array, name: str) -> pa.Array | Out:
    """The text by which the collation compares s: in lower case, without spaces at the end, or a sort key of ICU's.

    A text with a character that ICU has another order for than Spark's ICU has no key: it fails.
    """
    name = name_of(name)
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
        given, low = _Lowered(text), _lower(p)
        return given.lower.startswith(low) and given.place(len(low)) is not None

    return each(call, starts, s, part)


@scalar("lcase_endswith(s string, part string) -> boolean")
def lcase_endswith(call: Call, s: pa.Array, part: pa.Array) -> Out:
    """What endswith gives by the collation UTF8_LCASE."""

    def ends(text: str, p: str) -> bool:
        given, low = _Lowered(text), _lower(p)
        return given.lower.endswith(low) and given.place(len(given.lower) - len(low)) is not None

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
