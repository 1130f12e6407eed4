"""Python functions inside plans, with an identity that survives a restart."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType
from typing import Any


@dataclass(frozen=True)
class Function:
    """A Python function inside a plan, with an identity that survives a restart.

    ``digest`` covers the code, its constants, names, defaults and the values it closes over, or the ``version`` that
    its author declares with it, so that a store notices when the function has been edited.
    """

    call: Callable[..., Any] = field(repr=False)
    digest: str
    batch: bool = False

    @classmethod
    def of(cls, call: Callable[..., Any]) -> Function:
        """Wrap a callable; ``altneu.arrow`` marks those that take record batches."""
        version = getattr(call, "__altneu_version__", None)
        text = f"{getattr(call, '__qualname__', type(call).__name__)}:{version or _code_text(call)}"
        digest = hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
        return cls(call, digest, bool(getattr(call, "__altneu_arrow__", False)))

    @property
    def name(self) -> str:
        """The function's own name, for messages."""
        return str(getattr(self.call, "__name__", type(self.call).__name__))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Function) and (self.digest, self.batch) == (other.digest, other.batch)

    def __hash__(self) -> int:
        return hash((self.digest, self.batch))


def _code_text(call: Callable[..., Any]) -> str:
    """Everything about a function that can change what it computes, as text without addresses."""
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
