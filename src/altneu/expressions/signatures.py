"""Signatures: the arguments that a function takes and what it gives, as a text that is read once.

``name(a type, b type[, c type]) -> type``: the arguments in brackets may be missing, ``…`` is any number more. A type
is written as in SQL, and an argument becomes it by an implicit cast. Besides,

* ``as type``: it becomes it by whatever cast there is;
* ``type|type``: it stays if it is one of the latter (``array`` is any array), and becomes the first otherwise;
* ``number``, ``array``, ``any``: it stays if it is that; a string and NULL are read as a number, a double;
* ``ordered array``: an array whose elements can be compared.

The result is a type, or an argument by its name: it then has the type of that argument. It is null where an argument
is; after ``?`` it may be null elsewhere too, after ``!`` it never is. A signature without types leaves them to a rule.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions.rules import Arguments, Rule, Typing

if TYPE_CHECKING:
    from altneu.expressions.expr import Expr

Check: TypeAlias = Callable[[Arguments], None]
_Reader: TypeAlias = Callable[[Arguments, int], pa.DataType | None]
_MOST = 1_000_000
_type = cache(T.parse_type)


@dataclass(frozen=True)
class Signature:
    """A signature taken apart.

    >>> it = read("lpad(s string, n int[, pad string]) -> string")
    >>> it.usage, it.least, it.most, it.types, it.result
    ('lpad(s, n[, pad])', 2, 3, ('string', 'int', 'string'), 'string')
    """

    name: str
    usage: str
    least: int
    most: int
    types: tuple[str, ...]
    result: str

    def rule(self, check: Check | None) -> Rule:
        """The rule that the types say; ``check`` raises where they do not say everything."""
        readers = [_reader(text) for text in self.types]
        names = re.findall(r"\w+", self.usage.partition("(")[2])
        text = self.result.rstrip("?!")
        place = names.index(text) if text in names else None
        fixed = _type(text) if place is None else None
        nullable = {"?": True, "!": False}.get(self.result[-1])

        def rule(args: Arguments) -> Typing:
            types = [read(args, i) for i, read in enumerate(readers[: len(args)])]
            if check is not None:
                check(args)
            return Typing(types, fixed if place is None else types[place] or args[place].type, nullable)

        return rule


def read(text: str) -> Signature:
    """The signature that a text says."""
    head, _, result = text.partition(" -> ")
    name, inside = head.removesuffix(")").split("(", 1)
    required = _parts(inside.partition("[")[0])
    every = _parts(re.sub(r"[\[\]]", "", inside))
    usage = re.sub(r"(\w) (?:[^,\[\]]|,(?! ))+", r"\1", inside)
    least, most = len(required), len(every)
    if every and every[-1] == "…":
        least, most = least - 1, _MOST
    types = tuple(part.partition(" ")[2] for part in every)
    return Signature(name, f"{name}({usage})", least, most, types, result)


def _parts(text: str) -> list[str]:
    return [part for part in text.split(", ") if part]


def _reader(text: str) -> _Reader:
    """What becomes of an argument's type: the type it is cast to, None when it is left alone."""
    first, *others = text.split("|")
    if others:
        stay = [_stays(other) for other in others]
        becomes = _reader(first)
        return lambda args, i: None if any(s(args[i]) for s in stay) else becomes(args, i)
    if text == "any":
        return lambda _args, _i: None
    if text == "number":
        return Arguments.number
    if text in ("array", "ordered array"):
        return lambda args, i: args.element(i, ordered=text != "array") and None
    if text.startswith("as "):
        forced = _type(text.removeprefix("as "))
        return lambda _args, _i: forced
    target = _type(text)
    return lambda args, i: args.accept(i, target)


def _stays(text: str) -> Callable[[Expr], bool]:
    if text == "array":
        return lambda arg: pt.is_list(arg.type)
    kind = _type(text)
    return lambda arg: arg.type == kind
