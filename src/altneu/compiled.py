"""The one way this package compiles loops that vectors cannot express, and where their code is kept."""

from __future__ import annotations

import importlib
import pickle
import pkgutil
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, InTreeCacheLocator
from numba.core.codegen import get_host_cpu_features

P = ParamSpec("P")
R = TypeVar("R")

LEVEL = "x86-64-v3"
"""The processors for which a wheel has compiled kernels (``scripts/build-wheel``): x86 of 2015 and later."""
SHIPPED = "_kernels"
"""The folder beside a module in which a wheel has them."""
_LEVEL_FEATURES = ("+avx2", "+bmi", "+bmi2", "+f16c", "+fma", "+lzcnt", "+movbe", "+popcnt", "+sse4.2", "+xsave")


def compiled(**options: Any) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Compile with Numba at the first call for each signature and keep the code on disk.

    Code that came with the wheel is used if the processor can run it; ``options`` are those of ``numba.njit``.
    """

    def compile_(function: Callable[P, R]) -> Callable[P, R]:
        settings: dict[str, Any] = {"no_cfunc_wrapper": True, **options}  # nothing calls a kernel as C does
        dispatcher = numba.njit(**settings)(function)
        if hasattr(dispatcher, "py_func"):  # NUMBA_DISABLE_JIT leaves the function as it is
            dispatcher._cache = _Kernels(dispatcher.py_func)
            _every[f"{function.__module__}.{function.__name__}"] = dispatcher
        return cast("Callable[P, R]", dispatcher)

    return compile_


_every: dict[str, Any] = {}


@cache
def kernels() -> Mapping[str, Any]:
    """Every kernel of the package, Numba's dispatcher, by its module and name; imports all modules that can be.

    >>> "altneu.columnar.sorting._quick" in kernels()
    True
    """
    package = __name__.partition(".")[0]
    for module in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if module.name.rpartition(".")[2] not in _PROGRAMS:
            with suppress(ImportError):  # it is for an extra that is not installed, and has no kernels
                importlib.import_module(module.name)
    return _every


_PROGRAMS = ("__main__", "daemon")


class _NoPlace(InTreeCacheLocator):
    """Where no folder can be written: what is compiled lives as long as the process."""

    def ensure_cache_path(self) -> None:
        """Nothing will be written."""


class _Places(CompileResultCacheImpl):
    _locator_classes = [*CompileResultCacheImpl._locator_classes, _NoPlace]  # noqa: RUF012  # Numba declares it so


def built_in(function: Callable[..., Any]) -> str:
    """What the compiled code of a function has of its surroundings: constants of modules, and the code that it calls.

    Numba's key has the function's own code and file only. A constant that a test replaces, or a function that it calls
    in another module and that has been edited, would otherwise be met again as it was.

    >>> from altneu.columnar import sorting
    >>> before = built_in(sorting._quick.py_func)
    >>> "SMALL" in before, before == built_in(sorting._quick.py_func)
    (True, True)
    """
    found: list[tuple[object, ...]] = []
    waiting, seen = [function], {function}
    while waiting:
        one = waiting.pop()
        names = sorted(_names_in(one.__code__))
        modules = [vars(m) for m in map(one.__globals__.get, names) if isinstance(m, ModuleType)]
        for name in names:
            value = next((known[name] for known in (one.__globals__, *modules) if name in known), _Files)
            called = getattr(value, "py_func", None)
            if called is not None and called not in seen:
                seen.add(called)
                waiting.append(called)
                found.append((called.__module__, called.__qualname__, _told(called.__code__)))
            elif isinstance(value, np.ndarray):
                found.append((one.__qualname__, name, value.dtype.str, value.shape, value.tobytes()))
            elif value is None or isinstance(value, _CONSTANTS):
                found.append((one.__qualname__, name, repr(value)))
    return repr(found)


_CONSTANTS = (int, float, complex, str, bytes, tuple, np.generic)


def _names_in(code: CodeType) -> set[str]:
    inner = (_names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names}.union(*inner)


def _told(code: CodeType) -> tuple[object, ...]:
    """Code without the lines that it is on."""
    constants = [_told(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, tuple(constants)


class _Files(IndexDataCacheFile):
    """The files of a function's compiled code, each named after its signature, processor, source and ``built_in``.

    Numba numbers them instead. If two processes compile a function for different arguments at the same time, both take
    the same number, and a later process that looks up one signature runs the code of the other. Here code is found by
    the name of its file. Numba's index, in which such processes may overwrite each other's entries, is read only to
    remove the files of an earlier source.
    """

    def __init__(self, folder: str, base: str, stamp: object, function: Callable[..., Any] | None = None) -> None:
        super().__init__(folder, base, stamp)
        self._function = function

    def save(self, key: Any, data: Any) -> None:
        """Write the code for a signature and processor; remove files that were compiled from an earlier source."""
        name, known = self._name_of(key), self._load_index()
        if not known:
            for stale in self._stale():
                Path(self._data_path(stale)).unlink(missing_ok=True)
        self._save_data(name, data)
        self._save_index({**known, name: name})

    def load(self, key: Any) -> Any:
        """The code for a signature and processor, None where there is none."""
        try:
            return self._load_data(self._name_of(key))
        except OSError:
            return None

    def _name_of(self, key: Any) -> str:
        text = repr((self._version, self._source_stamp, key, self._function and built_in(self._function)))
        return f"{Path(self._index_name).stem}.{sha256(text.encode()).hexdigest()[:20]}.nbc"

    def _stale(self) -> list[str]:
        """The files that the index of an earlier source names."""
        try:
            with Path(self._index_path).open("rb") as file:  # as Numba itself reads it
                if pickle.load(file) != self._version:  # noqa: S301
                    return []
                stamp, names = pickle.load(file)  # noqa: S301
        except OSError:
            return []
        return [] if stamp == self._source_stamp else [*names.values()]


class _Kernels(FunctionCache):
    """Numba's cache, and behind it the code that came with the wheel, whose key names ``LEVEL`` and no processor."""

    _impl_class = _Places

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._has_place = not isinstance(self._impl.locator, _NoPlace)
        named = self._impl.filename_base, self._impl.locator.get_source_stamp(), function
        self._cache_file = _Files(self._cache_path, *named)
        self.shipped = _Files(str(Path(function.__code__.co_filename).parent / SHIPPED), *named)

    @property
    def came_compiled(self) -> bool:
        """Whether the wheel has code of this version of the function, for this Numba and processor."""
        return runs_shipped() and bool(self.shipped._load_index())

    def _load_overload(self, sig: Any, target_context: Any) -> Any:
        found = super()._load_overload(sig, target_context) if self._has_place else None
        if found is None and runs_shipped():
            _, (triple, *_), code = self._index_key(sig, target_context.codegen())
            data = self.shipped.load((sig, (triple, LEVEL, ""), code))
            found = None if data is None else self._impl.rebuild(target_context, data)
        return found

    def _save_overload(self, sig: Any, data: Any) -> None:
        if self._has_place:
            super()._save_overload(sig, data)


@cache
def runs_shipped() -> bool:
    """Whether this processor runs code for ``LEVEL``, and nobody chose another one (``NUMBA_CPU_NAME``)."""
    if platform.machine() != "x86_64" or config.CPU_NAME is not None:  # type: ignore[attr-defined]
        return False
    return {*_LEVEL_FEATURES} <= {*get_host_cpu_features().split(",")}
