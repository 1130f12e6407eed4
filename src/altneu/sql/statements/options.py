"""Lists of options in parentheses: ``(HEADER = true, sep ';', KEYS = ('a', 'b'))``."""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from typing import Any

from sqlglot.tokens import TokenType

from altneu.errors import StatementError
from altneu.errors.nearest import listed

_VARIABLE = re.compile(r"\$\{(\w+)\}")


def options(p: Any, known: Collection[str] | None = None) -> dict[str, Any]:
    """Names with values; a name alone is true.

    With ``known`` the case of names does not matter and others are refused; without, they stay as written.
    """
    p.opening()
    settings: dict[str, Any] = {}
    while True:
        token = p.token
        name = _option_name(p)
        if known is not None:
            name = name.upper()
            if name not in known:
                p.fail(f"no option {name}; the options are: {listed(name, known)}", token)
        if name in settings:
            p.fail(f"option {name} comes twice", token)
        p.word("=")
        settings[name] = True if p.word(",", advance=False) or p.word(")", advance=False) else value(p)
        if not p.word(","):
            p.closing()
            return settings


def _option_name(p: Any) -> str:
    if p.token.token_type == TokenType.STRING:
        return str(p.string("an option"))
    parts = [p.part("an option")]
    while p.word("."):
        parts.append(p.part("the rest of an option's name"))
    return ".".join(parts)


def value(p: Any) -> Any:
    """A text, a number, a boolean, a word, or several of these in parentheses."""
    if p.word("("):
        values = [value(p)]
        while p.word(","):
            values.append(value(p))
        p.closing()
        return values
    token = p.token
    if token.token_type == TokenType.STRING:
        return p.string("a value")
    if token.token_type in (TokenType.NUMBER, TokenType.DASH):
        return p.number("a value")
    word = p.part("a value")
    return {"TRUE": True, "FALSE": False}.get(word.upper(), word)


def expanded(value: Any) -> Any:
    """An option with ``${NAME}`` replaced by a variable of the environment: so no password is in a store.

    Raises:
        StatementError: there is no such variable.
    """
    if not isinstance(value, str):
        return value

    def looked_up(variable: re.Match[str]) -> str:
        if variable[1] not in os.environ:
            raise StatementError(
                f"an option reads ${{{variable[1]}}}, and the environment has no variable of this name"
            )
        return os.environ[variable[1]]

    return _VARIABLE.sub(looked_up, value)
