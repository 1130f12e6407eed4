"""Python functions inside plans, with an identity that survives a restart."""

from __future__ import annotations

import builtins
import hashlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

from altneu.errors import PlanError
from altneu.linear.code import names_of
from altneu.linear.modules import is_standard, library
from altneu.linear.reads import MOST_VALUES, TooMuch, parts_of

_PLAIN = {int, float, complex, str, bytes, bool, type(None), type(Ellipsis)}
_DEEPEST = 20


@dataclass(frozen=True)
class Function:
    """A Python function inside a plan, with an identity that survives a restart.

    ``digest`` covers all that the function reads, as far as that can be followed (``altneu.linear.reads``), or the
    ``version`` that its author declares for it, so that a store notices when it has been edited. ``parts`` tells what
    was read, a digest for each part by its name, so that what has changed can be said.
    """

    call: Callable[..., Any] = field(repr=False)
    digest: str
    batch: bool = False
    parts: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def __repr__(self) -> str:  # fingerprints are made of it
        return f"Function(digest={self.digest!r}, batch={self.batch!r})"

    @classmethod
    def of(cls, call: Callable[..., Any], version: str | int | None = None) -> Function:
        """Wrap a callable; ``altneu.arrow`` marks those that take record batches.

        Raises:
            PlanError: a version that is none, or a function that reads more than is followed.
        """
        batch = bool(getattr(call, "__altneu_arrow__", False))
        version = getattr(call, "__altneu_version__", None) if version is None else _checked(version)
        if version:
            parts = {"version": str(version)}
            return cls(call, _digest(f"{_name(call)}:{version}"), batch, parts)
        try:
            parts = parts_of(call)  # all of it each time: what a name stands for may have changed meanwhile
        except TooMuch as error:
            raise PlanError(
                f"the function {title(call)} reads more than {MOST_VALUES:,} values ({error.what}), too many to see "
                "whether they change; give it a version=..., a text or a number that you change when its meaning does"
            ) from None
        digest = former_digest(call) if _is_covered(call) else _digest(f"{_name(call)}:{sorted(parts.items())}")
        return cls(call, digest, batch, parts)

    @property
    def name(self) -> str:
        """The function's own name, for messages."""
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    @property
    def title(self) -> str:
        """The name that tells it from others of the program: the class of an object, the function in a partial."""
        return title(self.call)

    @property
    def former_digest(self) -> str:
        """The digest that releases before 0.2 gave it, of its own code and captured values only."""
        return former_digest(self.call)

    def read(self) -> dict[str, str]:
        """What it reads now, also where a version stands for that."""
        return parts_of(self.call)

    @staticmethod
    def digest_of(text: str) -> str:
        """A text as one of the digests that functions have."""
        return _digest(text)

    def known_as(self, digest: str) -> Function:
        """The same function under the digest that a store has for it."""
        return replace(self, digest=digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and (self.digest, self.batch) == (other.digest, other.batch)

    def __hash__(self) -> int:
        return hash((self.digest, self.batch))


def title(call: Callable[..., Any]) -> str:
    """What to call a callable in a message."""
    if isinstance(call, partial):  # one that stands for another function is called as that is
        return title(call.__wrapped__) if hasattr(call, "__wrapped__") else f"a partial of {title(call.func)}"
    own = f"{call.__module__}." if is_own(call) else ""
    return own + str(getattr(call, "__qualname__", f"an object of {type(call).__qualname__}"))


def is_own(call: Callable[..., Any]) -> bool:
    """Whether a function is one of altneu's own, which the verbs for windows and the like are made of."""
    return str(getattr(call, "__module__", "")).partition(".")[0] == "altneu"


def _checked(version: object) -> str:
    if isinstance(version, bool) or not isinstance(version, str | int) or version == "":
        raise PlanError(f"version must be a text or a whole number, got {version!r}")
    return str(version)


def _name(call: Callable[..., Any]) -> str:
    """What a function's digest calls it."""
    if isinstance(call, partial):
        return f"{type(call).__name__} of {_name(call.func)}"
    return str(getattr(call, "__qualname__", type(call).__name__))


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


# as 0.1 told functions apart ------------------------------------------------------------------------------------------


def _is_covered(call: Any, depth: int = 0) -> bool:
    """Whether the former digest covers all that a function reads: it keeps that one, and stored plans theirs."""
    if type(call) is BuiltinFunctionType:
        return isinstance(call.__self__, ModuleType) and is_standard(call.__self__.__name__)
    if type(call) is not FunctionType or depth > _DEEPEST:
        return False
    if (of := library(call.__globals__.get("__name__"))) is not None:
        return of.partition(".")[0] == "altneu"  # its own: a store outlives its releases
    names, around = names_of(call.__code__), call.__globals__
    if any(not is_standard(i.module) for i in names.imports):
        return False
    for name in {chain[0] for chain in names.globals}:
        value = around.get(name) if name in around else None
        if isinstance(value, ModuleType):
            if value.__name__ != name or not is_standard(name):
                return False
        elif name in around or not hasattr(builtins, name):
            return False
    defaults = [*(call.__defaults__ or ()), *(call.__kwdefaults__ or {}).values()]
    try:
        cells = [c.cell_contents for c in call.__closure__ or ()]
    except ValueError:
        return False
    functions = [c for c in cells if type(c) in (FunctionType, BuiltinFunctionType)]
    plain = [c for c in cells if type(c) not in (FunctionType, BuiltinFunctionType)]
    return all(_is_plain(v, 0) for v in (*defaults, *plain)) and all(_is_covered(f, depth + 1) for f in functions)


def _is_plain(value: Any, depth: int) -> bool:
    """Whether a value's text is all of it, and the same in every process."""
    kind = type(value)
    if kind in _PLAIN:
        return True
    if depth > _DEEPEST:
        return False
    if kind in (list, tuple):
        return all(_is_plain(v, depth + 1) for v in value)
    return kind is dict and all(_is_plain(v, depth + 1) for item in value.items() for v in item)


def former_digest(call: Callable[..., Any]) -> str:
    """The digest by which stores of before know a function."""
    version = getattr(call, "__altneu_version__", None)
    return _digest(f"{getattr(call, '__qualname__', type(call).__name__)}:{version or _code_text(call)}")


def _code_text(call: Callable[..., Any]) -> str:
    """What the former digest covers of a function."""
    code = getattr(call, "__code__", None)
    if not isinstance(code, CodeType):  # a builtin, a class, a partial: its name and its parts must do
        parts = [getattr(call, "__module__", ""), getattr(call, "__qualname__", type(call).__qualname__)]
        inner = getattr(call, "func", None)
        if inner is not None:
            parts += [_code_text(inner), repr(getattr(call, "args", ())), repr(getattr(call, "keywords", {}))]
        return "|".join(parts)
    cells = [c.cell_contents for c in getattr(call, "__closure__", None) or ()]
    bound = [getattr(call, "__defaults__", None), getattr(call, "__kwdefaults__", None), *cells]
    return "|".join([_bytecode_text(code), *(_value_text(v) for v in bound)])


def _bytecode_text(code: CodeType) -> str:
    constants = [_bytecode_text(c) if isinstance(c, CodeType) else _value_text(c) for c in code.co_consts]
    return f"{code.co_code.hex()}{code.co_names}{code.co_varnames}{constants}"


def _value_text(value: object) -> str:
    if callable(value):
        return _code_text(value)
    if isinstance(value, frozenset | set):
        return str(sorted(map(repr, value)))
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text  # an address would differ in every process


def running_python() -> str:
    """The version of Python, which decides the code to which functions are compiled."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"
