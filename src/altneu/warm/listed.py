"""The list of kernels and signatures, by which several processes share the work of compiling them."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from numba import types
from numba.core.errors import NumbaError
from numba.core.sigutils import normalize_signature

from altneu.compiled import kernels

LIST = Path(__file__).with_name("kernels.txt")


def write() -> None:
    """Write the list: what this process has called so far."""
    LIST.write_text("".join(f"{name} {signature}\n" for name, signature in sorted(met(), key=_longest_first)))


def listed() -> list[tuple[str, str]]:
    """The kernels that Python calls, with their signatures; those that take longest to compile are first.

    Others are called by these, and are compiled with them. The list is a hint: what it lacks, ``warm`` compiles.
    ``python -m altneu.warm --list`` writes it.

    >>> name, signature = listed()[0]
    >>> name in kernels(), signature.startswith("(")
    (True, True)
    """
    lines = LIST.read_text().splitlines()
    return [(name, signature) for name, _, signature in (line.partition(" ") for line in lines)]


def met() -> set[tuple[str, str]]:
    """The kernels that Python has called in this process, with their signatures; those too that it has compiled."""
    return {(name, _signature(arguments)) for name, kernel in kernels().items() for arguments in kernel.signatures}


def compile_one(kernel: tuple[str, str]) -> None:
    """Compile a kernel for a signature, as they are listed, or find it compiled."""
    name, signature = kernel
    module, _, function = name.rpartition(".")
    arguments, _ = normalize_signature(signature)  # type: ignore[no-untyped-call]
    with suppress(AttributeError, NumbaError):  # of an earlier source, where a kernel is being written
        getattr(importlib.import_module(module), function).compile(arguments)


def _longest_first(kernel: tuple[str, str]) -> tuple[int, tuple[str, str]]:
    """Sorts kernels by the size of what was compiled, which tells how long that takes."""
    function = kernels()[kernel[0]].py_func
    name = f"*.{function.__qualname__}-{function.__code__.co_firstlineno}.py*.nbc"
    place = Path(kernels()[kernel[0]].stats.cache_path)
    return -max((file.stat().st_size for file in place.glob(name)), default=0), kernel


def _signature(arguments: Sequence[types.Type]) -> str:
    """A signature as Numba reads it."""
    text = ", ".join(map(_type, arguments))
    return f"({text})" if len(arguments) > 1 else f"({text},)"


def _type(kind: types.Type) -> str:
    match kind:
        case types.Array(mutable=True, aligned=True, layout="C"):
            return f"{_type(kind.dtype)}[{':, ' * (kind.ndim - 1)}::1]"
        case types.Array(mutable=True, aligned=True, layout="A"):
            return f"{_type(kind.dtype)}[{', '.join(':' * kind.ndim)}]"
        case types.Array(aligned=True):
            return f"Array({_type(kind.dtype)}, {kind.ndim}, {kind.layout!r}, {not kind.mutable})"
        case types.UniTuple():
            return f"UniTuple({_type(kind.dtype)}, {kind.count})"
        case types.Tuple():
            return f"Tuple([{', '.join(map(_type, kind.types))}])"
        case types.Boolean():
            return "boolean"
        case _:
            return str(kind)
