"""Code objects of Python functions: their text, free of addresses, and the names that they read."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

Chain = tuple[str, ...]

_GLOBAL = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"}
_ENCLOSED = {"LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"}
_ATTRIBUTE = {"LOAD_ATTR", "LOAD_METHOD"}
_SILENT = {"EXTENDED_ARG", "NOP", "CACHE"}
_CONSTANT = {"LOAD_CONST", "LOAD_SMALL_INT"}


@dataclass(frozen=True)
class Import:
    """An import statement inside a function: the module, how many packages up it begins, and the names taken of it."""

    module: str
    level: int
    names: tuple[str, ...]


@dataclass(frozen=True)
class Names:
    """What a code object reads by name, the code nested in it included, each once and in order.

    ``globals`` and ``enclosed`` (variables of enclosing functions) are chains: a name and the attributes taken of it at
    once. ``attributes`` are all names of attributes.
    """

    globals: tuple[Chain, ...]
    enclosed: tuple[Chain, ...]
    imports: tuple[Import, ...]
    attributes: frozenset[str]


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> Names:
    """The names that code reads."""
    globals_, enclosed, imports = dict[Chain, None](), dict[Chain, None](), dict[Import, None]()
    attributes: set[str] = set()
    for one in _nested(code):
        attributes.update(one.co_names)
        _read(one, globals_, enclosed, imports)
    return Names(tuple(globals_), tuple(enclosed), tuple(imports), frozenset(attributes))


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _read(
    code: CodeType, globals_: dict[Chain, None], enclosed: dict[Chain, None], imports: dict[Import, None]
) -> None:
    chain: list[str] = []
    chains = globals_
    constants: list[object] = [0, None]
    for instruction in dis.get_instructions(code):
        name = instruction.opname
        if name in _ATTRIBUTE and chain:
            chain.append(str(instruction.argval))
            continue
        if name in _SILENT:
            continue
        if chain:
            chains[tuple(chain)] = None
            chain = []
        if name in _GLOBAL | _ENCLOSED:
            chain, chains = [str(instruction.argval)], globals_ if name in _GLOBAL else enclosed
        elif name in _CONSTANT:
            constants = [constants[-1], instruction.argval]
        elif name == "IMPORT_NAME":
            level, taken = constants
            names = taken if isinstance(taken, tuple) else ()
            imports[Import(str(instruction.argval), level if isinstance(level, int) else 0, names)] = None
    if chain:
        chains[tuple(chain)] = None


def code_text(code: CodeType) -> str:
    """Everything of a code object that can change what it computes, as text that is equal in every process."""
    constants = [code_text(c) if isinstance(c, CodeType) else constant_text(c) for c in code.co_consts]
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    return f"{code.co_code.hex()} {code.co_exceptiontable.hex()} {counts} {names} {constants}"


def constant_text(value: object) -> str:
    """A constant of compiled code: sets have no order of their own, and tuples may have sets in them."""
    if isinstance(value, frozenset):
        return f"frozenset({sorted(map(constant_text, value))})"
    if isinstance(value, tuple):
        return f"({', '.join(map(constant_text, value))})"
    return repr(value)
