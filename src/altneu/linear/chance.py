"""Calls of chance and of the clock in the code of a Python function, as far as its text shows them.

A function of a user must answer the same whenever it is asked. What is named here answers differently each time; what
is not named may, too.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from altneu.linear.code import names_of
from altneu.linear.modules import library

_DEEPEST = 4
_BY_CHANCE = re.compile(
    r"random\.(?!Random\b)\w+|secrets\.\w+|uuid\.uuid[1467]|time\.(time|time_ns)|os\.(urandom|getrandom)"
    r"|datetime\.(datetime|date)\.(now|utcnow|today)|pandas\.Timestamp\.(now|utcnow|today)"
    r"|numpy\.random\.(?!default_rng\b|Generator\b|RandomState\b|SeedSequence\b|PCG64|Philox\b|MT19937\b|SFC64\b)\w+"
)


def by_chance(function: Callable[..., Any]) -> str | None:
    """What a function calls that answers differently each time; None if nothing of the kind is seen.

    Its code is looked at, and that of functions of the user's own that it names.

    >>> by_chance(lambda x: x + random.random()), by_chance(lambda x: random.Random(x).random())
    ('random.random', None)
    """
    return next(_calls(function, 0, set()), None)


def _calls(function: Any, depth: int, seen: set[int]) -> Iterator[str]:
    function = getattr(function, "__wrapped__", getattr(function, "func", function))
    if not isinstance(function, FunctionType) or depth > _DEEPEST or id(function) in seen:
        return
    seen.add(id(function))
    around: dict[str, Any] = dict(function.__globals__)
    try:
        around |= dict(
            zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=True)
        )
    except ValueError:
        return  # a variable that has no value yet
    names = names_of(function.__code__)
    for chain in (*names.globals, *names.enclosed):
        if chain[0] not in around:
            continue
        path = ".".join((_path(around[chain[0]]), *chain[1:]))
        if (found := _BY_CHANCE.match(path)) is not None:
            yield found[0]
        value = around[chain[0]]
        if isinstance(value, FunctionType) and library(value.__globals__.get("__name__")) is None:
            yield from _calls(value, depth + 1, seen)
    for imported in names.imports:
        taken = imported.names or names.attributes
        yield from (m[0] for name in sorted(taken) if (m := _BY_CHANCE.fullmatch(f"{imported.module}.{name}")))


def _path(value: Any) -> str:
    """What a name stands for, from its module on."""
    if isinstance(value, ModuleType):
        return value.__name__
    if getattr(value, "__self__", None) is getattr(random, "_inst", value):  # random.random is a method
        return f"random.{value.__name__}"
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
