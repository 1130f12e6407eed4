"""Parameters: ``:name`` and ``?`` in a text stand for values, and become constants in it before it is parsed.

The constants are written as expressions write theirs, so that a value is never anything else: a text that was made of
parts could be. What a statement defines is stored with them.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import NoneType
from typing import Any, TypeAlias

import numpy as np
from sqlglot.tokens import Token, TokenType

from altneu.errors import PlanError, StatementError
from altneu.expressions import literal

Arguments: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""The values of parameters: of ``:name`` by name, or of each ``?`` in order."""

_OPERANDS = (TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.STRING)
_UNNAMED = "?"


@dataclass(frozen=True)
class _Place:
    """What is replaced in a text: a parameter, or ``IDENTIFIER(…)`` around one or around a ``constant``."""

    start: int
    end: int
    name: str | None
    constant: str = ""
    identifier: bool = False

    def written(self, value: Any) -> str:
        """What stands there instead.

        Raises:
            StatementError: the value cannot.
        """
        if self.identifier:
            return _name(self.constant if self.name is None else value)
        return constant(value, f":{self.name}" if self.name != _UNNAMED else "a parameter ?")


def with_arguments(text: str, tokens: Sequence[Token], arguments: Arguments | None) -> str:
    """A text with the values of its parameters in their places; ``IDENTIFIER('a.b')`` becomes the name.

    >>> from altneu.sql.statements.parser import with_parameters
    >>> with_parameters(
    ...     "SELECT * FROM IDENTIFIER(:t) WHERE k = :k AND s = :s", {"t": "db.t", "k": -1, "s": "tea"}
    ... )
    "SELECT * FROM `db`.`t` WHERE k = (-1) AND s = 'tea'"
    >>> with_parameters("SELECT ? + ?", [1, 2.5])
    'SELECT 1 + 2.5D'

    Raises:
        StatementError: a parameter has no value, a value has no parameter, or is of a type that has no constants.
    """
    places = list(_places(tokens))
    named = list(dict.fromkeys(p.name for p in places if p.name not in (None, _UNNAMED)))
    unnamed = sum(place.name == _UNNAMED for place in places)
    if arguments is None:
        arguments = () if unnamed else {}
    if isinstance(arguments, str | bytes) or not isinstance(arguments, Mapping | Sequence):
        raise StatementError(
            f"args must be a mapping of values by the names of :parameters, or a list for ?, got {arguments!r}"
        )
    if isinstance(arguments, Mapping):
        _check_named([str(name) for name in named], unnamed, arguments)
    elif named:
        raise StatementError(
            f"the text has parameters by name, {_shown(named)}: args must be a mapping, "
            f"args={{{named[0]!r}: …}}, got {arguments!r}"
        )
    elif unnamed != len(arguments):
        raise StatementError(
            f"the text has {unnamed} parameters ?, and args must be a list of as many values, got {len(arguments)}"
        )
    in_order = iter(() if isinstance(arguments, Mapping) else arguments)
    result, end = [], 0
    for place in places:
        value = None
        if place.name is not None:
            value = arguments[place.name] if isinstance(arguments, Mapping) else next(in_order)
        result += [text[end : place.start], place.written(value)]
        end = place.end
    return "".join([*result, text[end:]])


def _check_named(named: Sequence[str], unnamed: int, arguments: Mapping[str, Any]) -> None:
    if unnamed:
        raise StatementError("the text has parameters without a name, ?: args must be a list of their values")
    missing = [name for name in named if name not in arguments]
    if missing:
        raise StatementError(
            f"the parameters {_shown(missing)} have no value: session.sql(text, args={{{missing[0]!r}: …}})"
        )
    unknown = [str(name) for name in arguments if name not in named]
    if unknown:
        raise StatementError(
            f"args has values for {_shown(unknown)}, and the text has no such parameter; it has: "
            f"{_shown(named) or 'none'}"
        )


def _shown(names: Sequence[str | None]) -> str:
    return ", ".join(f":{name}" for name in names)


def _places(tokens: Sequence[Token]) -> Iterator[_Place]:
    """Where parameters and ``IDENTIFIER(…)`` stand."""
    at = 0
    while at < len(tokens):
        place = _identifier(tokens, at) or _parameter(tokens, at)
        if place is not None:
            yield place
        while place is not None and at + 1 < len(tokens) and tokens[at + 1].start < place.end:
            at += 1
        at += 1


def _parameter(tokens: Sequence[Token], at: int) -> _Place | None:
    """A ``?``, or a colon and a name right behind it, unless that takes a part of what is before it."""
    token = tokens[at]
    if token.token_type == TokenType.PLACEHOLDER:
        return _Place(token.start, token.end + 1, _UNNAMED)
    if token.token_type != TokenType.COLON or at + 1 == len(tokens):
        return None
    before, name = (tokens[at - 1] if at else None), tokens[at + 1]
    if before is not None and before.token_type in _OPERANDS and before.end + 1 == token.start:
        return None
    if name.start != token.end + 1 or not _NAME.fullmatch(name.text):
        return None
    return _Place(token.start, name.end + 1, name.text)


def _identifier(tokens: Sequence[Token], at: int) -> _Place | None:
    """``IDENTIFIER`` of a text or of a parameter."""
    if tokens[at].text.upper() != "IDENTIFIER" or tokens[at].token_type != TokenType.VAR or at + 3 >= len(tokens):
        return None
    if tokens[at + 1].token_type != TokenType.L_PAREN:
        return None
    inside = tokens[at + 2]
    parameter = _parameter(tokens, at + 2)
    stop = at + 3
    while parameter is not None and stop < len(tokens) and tokens[stop].start < parameter.end:
        stop += 1
    if stop == len(tokens) or tokens[stop].token_type != TokenType.R_PAREN:
        return None
    start, end = tokens[at].start, tokens[stop].end + 1
    if parameter is not None:
        return _Place(start, end, parameter.name, identifier=True)
    return _Place(start, end, None, inside.text, identifier=True) if inside.token_type == TokenType.STRING else None


_OF_CONSTANTS = (NoneType, bool, int, float, Decimal, str, bytes, dt.date, dt.time, dt.timedelta)


def constant(value: Any, what: str) -> str:
    """A value as it is written in a text: a list as an array, a dict as a map.

    >>> constant([1, None], ":x"), constant({"a": 1.5}, ":x")
    ('array(1, NULL)', "map('a', 1.5D)")

    Raises:
        StatementError: it has no constants.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, list | tuple):
        return f"array({', '.join(constant(v, what) for v in value)})"
    if isinstance(value, Mapping):
        return f"map({', '.join(constant(v, what) for pair in value.items() for v in pair)})"
    if not isinstance(value, _OF_CONSTANTS):
        kind = type(value).__name__
        raise StatementError(
            f"the value of {what} must be None, a bool, number, text, bytes, date, datetime, time, timedelta, or a "
            f"list or dict of these, got {value!r}, which is of type {kind}"
        )
    try:
        text = literal(value).sql
    except (PlanError, TypeError, ValueError, ArithmeticError) as error:
        raise StatementError(f"the value of {what} must fit a type of SQL, got {value!r}: {error}") from None
    return f"({text})" if text.startswith("-") else text


_NAME = re.compile(r"\w+")
_PART = re.compile(r"`((?:[^`]|``)*)`|([^`.\s]+)")


def _name(text: Any) -> str:
    """The name that ``IDENTIFIER('a.b')`` stands for.

    Raises:
        StatementError: the text is not a name.
    """
    parts, at = [], 0
    while isinstance(text, str) and (part := _PART.match(text, at)):
        parts.append(part[2] if part[1] is None else part[1].replace("``", "`"))
        at = part.end()
        if at == len(text):
            return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
        if text[at] != ".":
            break
        at += 1
    raise StatementError(
        f"IDENTIFIER must have the name of a table, a view or a column, like 'db.orders', got {text!r}"
    )
