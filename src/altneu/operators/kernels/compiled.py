"""The one way this package compiles loops that vectors cannot express."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile with Numba at the first call for each signature and keep the code on disk.

    Numba does not see that a compiled function called from another module has changed: after editing one, remove the
    ``__pycache__`` of its callers.
    """
    return cast("Callable[P, R]", numba.njit(cache=True)(function))
