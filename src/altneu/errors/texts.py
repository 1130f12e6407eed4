"""Texts in messages, of which nobody reads a hundred thousand characters."""

from __future__ import annotations

import re

LONGEST = 1_000


def shortened(text: str) -> str:
    """A text of at most ``LONGEST`` characters: the beginning of one that is longer, and how long it is.

    >>> shortened("short"), len(shortened("x" * 5_000))
    ('short', 1020)
    """
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}… ({len(text):,} characters)"


_OWN = r"\^(?:sub|outer|full|out|key|\d+) "
_QUOTED = re.compile(rf"`{_OWN}((?:[^`]|``)+)`")
_WHOLE = re.compile(rf"{_OWN}(.+)", re.DOTALL)


def meant(name: str) -> str | None:
    """What a column stands for that a query of SQL has made, if its name says it; None for any other column.

    >>> meant("^0 SUM(`k`)"), meant("^there"), meant("k")
    ('SUM(`k`)', None, None)
    """
    found = _WHOLE.fullmatch(name)
    return found[1] if found else None


def as_meant(message: str) -> str:
    """A message with what such columns stand for in the place of their names.

    >>> as_meant("``^0 SUM(``k``)` + 1` is bigint; a condition must be boolean")
    '`SUM(k) + 1` is bigint; a condition must be boolean'
    """
    return _QUOTED.sub(lambda found: found[1].replace("``", ""), message)
