"""LIKE and regular expressions. Patterns are RE2's: one with look-around or back references is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu import types as T
from altneu.errors import UnsupportedFunctionError
from altneu.expressions.functions.strings import case
from altneu.expressions.limits import overflows, whole
from altneu.expressions.lists import concat_arrays, explode, implode, keep
from altneu.expressions.registry import Group, Out
from altneu.expressions.rules import Arguments
from altneu.expressions.vector import validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call

Kernel = TypeVar("Kernel", bound=Callable[..., Any])

scalar = Group("Patterns")
TEXT = T.STRING


def like_pattern(pattern: str, escape: str) -> str:
    r"""The regular expression of a LIKE pattern.

    Raises:
        ValueError: the escape character stands before something else than ``%``, ``_`` or itself.

    >>> like_pattern("a\\_%", "\\")
    '^(?s:a_.*)$'
    """
    out: list[str] = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            escaped = next(chars, "")
            if escaped not in ("%", "_", escape) or not escaped:
                raise ValueError(pattern)
            out.append(_quoted(escaped))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or _quoted(char))
    return f"^(?s:{''.join(out)})$"


def _quoted(char: str) -> str:
    return re.escape(char) if char.isascii() else char


def _like(ignore_case: bool) -> Callable[..., Any]:
    def kernel(call: Call, s: pa.Array, pattern: str, escape: str = "\\") -> Any:
        try:
            regex = like_pattern(pattern, escape)
        except ValueError:
            bad = np.ones(len(s), np.bool_)
            text = f"`{call.text}`: {escape!r} stands before something that needs no escape, or at the end"
            return Out(pa.nulls(len(s), T.BOOLEAN), ((bad, "INVALID_FORMAT", text),))
        if ignore_case:
            lower = case(pa.array([pattern]), upper=False)[0].as_py()
            return pc.match_substring_regex(case(s, upper=False), like_pattern(lower, escape))
        inner = pattern.strip("%")
        if not set(inner) & {"%", "_", escape}:
            return _plain_like(s, pattern, inner)
        return pc.match_substring_regex(s, regex)

    return kernel


def _plain_like(s: pa.Array, pattern: str, inner: str) -> pa.Array:
    """LIKE without wildcards inside: equality, start, end or substring."""
    start, end = pattern.startswith("%"), pattern.endswith("%")
    if not inner:
        return pc.equal(s, "") if not pattern else pc.if_else(pc.is_valid(s), True, None)
    if start and end:
        return pc.match_substring(s, inner)
    if end:
        return pc.starts_with(s, inner)
    return pc.ends_with(s, inner) if start else pc.equal(s, inner)


for _name, _ignore, _doc in (
    ("like", False, "Whether the whole text fits a pattern: `%` stands for any characters, `_` for one."),
    ("ilike", True, "`LIKE`, but ignores case."),
):
    scalar(
        f"{_name}(s string, pattern string[, escape string]) -> boolean",
        usage=f"s {_name.upper()} pattern [ESCAPE c]",
        doc=_doc,
        infix=True,
        fails=True,
    )(_like(_ignore))


def checked_pattern(pattern: str) -> str:
    """A pattern that RE2 takes.

    Raises:
        UnsupportedFunctionError: it does not, with its reason.
    """
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except pa.ArrowInvalid as error:
        raise UnsupportedFunctionError(
            f"the regular expression {pattern!r} is not supported: {error} "
            "(RE2 has no look-around and no back references)"
        ) from None
    return pattern


def _check_pattern(args: Arguments) -> None:
    pattern = getattr(args[1], "value", None)
    if isinstance(pattern, str):
        checked_pattern(pattern)


def _per_row(kernel: Kernel) -> Kernel:
    """A kernel that is called once for each pattern of the rows, and fails where one is none."""
    named = "call" in kernel.__annotations__

    @wraps(kernel)
    def tolerant(call: Call, s: pa.Array, pattern: str, *more: Any) -> Any:
        try:
            return kernel(call, s, pattern, *more) if named else kernel(s, pattern, *more)
        except pa.ArrowInvalid as error:
            if overflows(error):
                raise
            text = f"`{call.text}`: {pattern!r} is no regular expression that is supported: {error}"
            return Out(pa.nulls(len(s), call.type), ((np.ones(len(s), np.bool_), "INVALID_PARAMETER_VALUE", text),))

    tolerant.__annotations__ = {"call": "Call", **kernel.__annotations__}
    return cast(Kernel, tolerant)


def _varies(call: Call) -> bool:
    """Whether a regular expression comes out of a row, where it may be none."""
    return not call.args[1].is_literal


@scalar(
    "rlike(s string, pattern string) -> boolean",
    "regexp_like",
    "regexp",
    check=_check_pattern,
    usage="s RLIKE pattern, regexp_like(s, pattern)",
    fails=_varies,
    infix=True,
)
@_per_row
def rlike(s: pa.Array, pattern: str) -> pa.Array:
    """Whether a regular expression is found in the text; the pattern may be a column."""
    return pc.match_substring_regex(s, pattern)


def named_groups(pattern: str) -> tuple[str, int]:
    """A pattern with every group named ``g1``, ``g2`` …, inside one named ``g0``, and the number of groups.

    >>> named_groups(r"(a)[(](?:b)(c)")
    ('(?P<g0>(?P<g1>a)[(](?:b)(?P<g2>c))', 2)
    """
    out, count, in_class, i = [], 0, False, 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            out.append(pattern[i : i + 2])
            i += 2
            continue
        if in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "(":
            named = re.match(r"\(\?P?<[A-Za-z]\w*>", pattern[i:])
            if named or not pattern.startswith("(?", i):
                count += 1
                out.append(f"(?P<g{count}>")
                i += len(named[0]) if named else 1
                continue
        out.append(char)
        i += 1
    return f"(?P<g0>{''.join(out)})", count


def _group_error(call: Call, s: pa.Array, pattern: str, index: int, count: int) -> Out:
    text = f"`{call.text}`: the pattern has {count} groups, not {index}"
    matched = np.asarray(pc.match_substring_regex(s, pattern).fill_null(False))
    nothing = (pa.array([""]) if call.type == TEXT else pa.array([[]], call.type)).take(
        pa.array(np.zeros(len(s), np.int64))
    )
    return Out(nothing, ((matched, "INVALID_PARAMETER_VALUE", text),))


@scalar("regexp_extract(s string, pattern string[, group int]) -> string", check=_check_pattern, fails=True)
@_per_row
def regexp_extract(call: Call, s: pa.Array, pattern: str, group: int = 1) -> Any:
    """A group of the first match (default 1; 0 is the whole match); an empty text if there is no match."""
    named, count = named_groups(pattern)
    if not 0 <= group <= count:
        return _group_error(call, s, pattern, group, count)
    result = pc.struct_field(pc.extract_regex(s, named), f"g{group}")
    return pc.if_else(pc.is_valid(s), pc.fill_null(result, ""), None)


def java_replacement(text: str) -> str:
    r"""RE2's spelling of a Java replacement: ``$1`` is ``\1``.

    >>> java_replacement("<$1>")
    '<\\1>'
    """
    out, i = [], 0
    while i < len(text):
        char = text[i]
        if char == "\\" and i + 1 < len(text):
            out.append(text[i + 1].replace("\\", "\\\\"))
            i += 2
        elif char == "$" and i + 1 < len(text) and text[i + 1].isdigit():
            out.append("\\" + text[i + 1])
            i += 2
        else:
            out.append(char.replace("\\", "\\\\"))
            i += 1
    return "".join(out)


_FIRST, _LAST, _INSIDE, _END = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
"""Characters that no text has, by Unicode: they mark where matches start and end."""


_ASSERTION = re.compile(r"(?<!\[)\^|\$|\\[bBAz]")
"""What matches nothing, but not everywhere."""


@lru_cache(maxsize=1024)
def _asserts(pattern: str) -> bool:
    return _ASSERTION.search(re.sub(r"\\[^bBAz]", "", pattern)) is not None


@lru_cache(maxsize=1024)
def _matches_nothing(pattern: str) -> bool:
    """Whether a pattern matches the empty text."""
    return bool(pc.match_substring_regex(pa.array([""]), f"^(?:{pattern})$")[0].as_py())


def _marked(s: pa.Array, pattern: str, by: str = "\\0", nothing: str = "") -> pa.Array:
    """The texts with each match replaced, by RE2's rules of rewriting, and a mark at both ends of it.

    As Java has it, a match of nothing may follow directly behind another one, which RE2 passes over; its replacement
    is ``nothing``. An assertion that may hold there or not is left to RE2.
    """
    if not _matches_nothing(pattern) or _asserts(pattern):
        return whole(pc.replace_substring_regex(s, pattern, f"{_FIRST}{by}{_LAST}"))
    marked = whole(pc.replace_substring_regex(s, pattern, f"{_FIRST}\\0{_INSIDE}{by}{_LAST}"))
    marked = pc.replace_substring_regex(marked, f"{_FIRST}{_INSIDE}([^{_LAST}]*){_LAST}", f"{_FIRST}\\1{_END}")
    marked = pc.replace_substring_regex(
        marked, f"{_FIRST}[^{_INSIDE}{_END}]+{_INSIDE}([^{_LAST}]*){_LAST}", f"{_FIRST}\\1{_LAST}"
    )
    more = f"{_LAST}{_FIRST}{nothing}{_END}"
    marked = whole(pc.replace_substring(marked, _LAST, more))
    return pc.replace_substring(pc.replace_substring(marked, f"{more}{_FIRST}", f"{_LAST}{_FIRST}"), _END, _LAST)


@scalar(
    "regexp_replace(s string, pattern string, by string) -> string", check=_check_pattern, fails=_varies, grows=True
)
@_per_row
def regexp_replace(s: pa.Array, pattern: str, by: str) -> pa.Array:
    """The text with every match replaced; `$1` stands for a group."""
    if _matches_nothing(pattern) and not _asserts(pattern):
        rewriting = java_replacement(by)
        nothing = re.sub(r"\\(.)", lambda escaped: "" if escaped[1].isdigit() else escaped[1], rewriting)
        return pc.replace_substring_regex(_marked(s, pattern, rewriting, nothing), f"[{_FIRST}{_LAST}]", "")
    return whole(pc.replace_substring_regex(s, pattern, java_replacement(by)))


@scalar("regexp_count(s string, pattern string) -> int", check=_check_pattern, fails=_varies)
@_per_row
def regexp_count(s: pa.Array, pattern: str) -> pa.Array:
    """Number of matches."""
    if _matches_nothing(pattern) or _asserts(pattern):  # Arrow goes on byte by byte, in what is left of the text
        return pc.cast(pc.count_substring(_marked(s, pattern), _FIRST), T.INT)
    return pc.cast(pc.count_substring_regex(s, pattern), T.INT)


@scalar(
    "regexp_extract_all(s string, pattern string[, group int]) -> array<string>",
    check=_check_pattern,
    fails=True,
    grows=True,
)
@_per_row
def regexp_extract_all(call: Call, s: pa.Array, pattern: str, group: int = 1) -> Any:
    """A group of every match (default 1; 0 is the whole match); an empty text where it takes no part."""
    _, count = named_groups(pattern)
    if not 0 <= group <= count:
        return _group_error(call, s, pattern, group, count)
    marked = _marked(s, pattern, f"\\{group}")
    lists = explode(pc.split_pattern(marked, _FIRST).cast(call.type))
    texts = keep(lists, lists.places > 0)
    ends = explode(pc.split_pattern(texts.flatten(), _LAST).cast(call.type))
    matches = ends.elements.take(pa.array(ends.offsets[:-1]))
    return implode(explode(texts).lengths, matches, lists.valid)


@scalar("regexp_instr(s string, pattern string[, group int]) -> int", check=_check_pattern, fails=_varies)
@_per_row
def regexp_instr(s: pa.Array, pattern: str, group: int = 0) -> pa.Array:  # noqa: ARG001 -- Spark reads it neither
    """The position of the first match, from one; 0 if there is none."""
    marked = whole(pc.replace_substring_regex(s, pattern, _FIRST, max_replacements=1))
    before = pc.list_element(pc.split_pattern(marked, _FIRST, max_splits=1).fill_null([""]), 0)
    found = pc.match_substring(marked, _FIRST)
    return pc.cast(pc.if_else(found, pc.add(pc.utf8_length(before), 1), 0), T.INT)


@scalar("regexp_substr(s string, pattern string) -> string?", check=_check_pattern, fails=_varies)
@_per_row
def regexp_substr(s: pa.Array, pattern: str) -> pa.Array:
    """The first match; NULL if there is none, or if it is empty."""
    result = pc.extract_regex(s, named_groups(pattern)[0])
    text = pc.struct_field(result, "g0")
    return pc.if_else(pc.and_kleene(pc.is_valid(result), pc.not_equal(text, "")), text, None)


@scalar("split(s string, pattern string[, limit int]) -> array<string>", check=_check_pattern, fails=_varies)
@_per_row
def split(call: Call, s: pa.Array, pattern: str, limit: int = -1) -> pa.Array:
    """The parts between matches; at most `limit` parts if that is positive."""
    most = limit - 1 if limit > 0 else None
    if most == 0:
        return _singletons(s)
    if pattern == "":
        return _characters(s, limit)
    if not set(pattern) & set("\\^$.|?*+()[]{}"):
        pieces = pc.split_pattern(s, pattern, max_splits=most)
    elif _matches_nothing(pattern) or _asserts(pattern):
        return _between(_marked(s, pattern), most, call.type)
    else:
        pieces = pc.split_pattern_regex(s, pattern, max_splits=most)
    return pieces.cast(call.type)


def _between(marked: pa.Array, most: int | None, kind: pa.DataType) -> pa.Array:
    """What stands between marked matches; a match of nothing at the start is none, as in Java."""
    marked = pc.replace_substring_regex(marked, f"^{_FIRST}{_LAST}", "")
    lists = explode(pc.split_pattern(marked, _FIRST, max_splits=most).cast(kind))
    behind = pc.replace_substring_regex(lists.elements, f"(?s)^[^{_LAST}]*{_LAST}", "")
    parts = pc.if_else(pa.array(lists.places > 0), behind, lists.elements)
    return implode(lists.lengths, pc.replace_substring_regex(parts, f"[{_FIRST}{_LAST}]", ""), lists.valid)


def _singletons(s: pa.Array) -> pa.Array:
    valid = validity(s)
    lengths = np.ones(len(s), np.int64) if valid is None else valid.astype(np.int64)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    mask = None if valid is None else pa.array(~valid)
    return pa.ListArray.from_arrays(offsets, s.drop_null(), type=T.list_type(TEXT), mask=mask)


def _characters(s: pa.Array, limit: int) -> pa.Array:
    import polars as pl

    parts = pl.Series("x", s).str.split("").to_arrow().cast(T.list_type(TEXT))
    parts = pc.if_else(pc.equal(s, ""), pa.scalar([""], parts.type), parts)
    if limit > 0:
        rest = pc.utf8_slice_codeunits(s, limit - 1)
        longer = pc.greater(pc.utf8_length(s), limit)
        head = pc.list_slice(parts, 0, limit - 1).cast(parts.type)
        return pc.if_else(longer, concat_arrays((head, _singletons(rest)), parts.type), parts)
    return parts
