"""Whose a module is: a library's, which is known by name and version, or a user's own, which is read."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from functools import lru_cache
from importlib import metadata
from pathlib import PurePath

_INSTALLED = {"site-packages", "dist-packages"}
_BY_NAME = {"altneu"}  # its own functions are compared by name: a store outlives its releases
_FORMER = {  # where modules are, and where they were when the first stores were written: functions are known by that
    "altneu.collections.declaring": "altneu.collection",
    "altneu.collections.recursion": "altneu.collection",
    "altneu.collections.": "altneu.",
    "altneu.engine.history": "altneu.session",
    "altneu.engine.": "altneu.",
    "altneu.views.": "altneu.",
    "altneu.runtime.spark.session": "altneu.executor.spark_session",
}
_LIBRARIES = {"pyspark", "py4j"}  # Spark's own folder is on the path of its programs


def is_standard(module: str) -> bool:
    """Whether a module is Python's own."""
    return library(module) == module and module.partition(".")[0] not in _BY_NAME


def library(module: object) -> str | None:
    """The name of a library's module, with the version where it is not Python's own; None for a user's module."""
    return _library(module) if isinstance(module, str) and module else None


@lru_cache(maxsize=4096)
def _library(module: str) -> str | None:
    top = module.partition(".")[0]
    if top == "__main__":
        return None
    if top in _BY_NAME:
        return next((at + module.removeprefix(now) for now, at in _FORMER.items() if module.startswith(now)), module)
    if top in _LIBRARIES:
        return f"{module} {_version(top)}"
    file = _file(module) or _file(top)
    if file is None:
        return module if top in sys.stdlib_module_names or top in sys.builtin_module_names else None
    if _INSTALLED & set(PurePath(file).parts):
        return f"{module} {_version(top)}"
    standard = (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))
    return module if any(PurePath(file).is_relative_to(place) for place in standard) else None


def _file(module: str) -> str | None:
    module_object: object = sys.modules.get(module)
    if module_object is None and "." not in module:  # not imported yet: to look for it runs none of it
        try:
            module_object = importlib.util.find_spec(module)
        except (ImportError, ValueError):
            return None
    file = getattr(module_object, "__file__", None) or getattr(module_object, "origin", None)
    if isinstance(file, str) and file not in ("built-in", "frozen"):
        return file
    places = list(
        getattr(module_object, "__path__", None) or getattr(module_object, "submodule_search_locations", None) or ()
    )
    return str(places[0]) if places else None


@lru_cache(maxsize=1024)
def _version(top: str) -> str:
    """The version of an installed package, "" where none is told."""
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        pass
    version = getattr(sys.modules.get(top), "__version__", None)
    if isinstance(version, str):
        return version
    names = metadata.packages_distributions().get(top, [])
    return metadata.version(names[0]) if names else ""
