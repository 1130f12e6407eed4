"""How much memory a run may use, and so how much it takes up at a time.

Spark bounds a Python worker by its *addresses* (``spark.executor.pyspark.memory`` becomes RLIMIT_AS): what is imported
and what is mapped counts as much as what is used. So where there is such a bound, what is left of it when a task begins
is shared out, and segments are read block by block and not mapped.
"""

from __future__ import annotations

import ctypes
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from altneu.errors import PlanError

DEFAULT = 2 << 30  # bytes that a task may use where nothing says
SHARE = 12  # a run takes up this part of them at a time: sorting and gathering need several times its bytes
OPEN_SHARE = 4  # where addresses are scarce, state of this part of them is open at a time
LEAST = 4 << 20

_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_STATM = Path("/proc/self/statm")


def bytes_in(memory: int | str) -> int:
    """A number of bytes, as Spark's settings are written.

    Raises:
        PlanError: it is none.

    >>> bytes_in("1g"), bytes_in("512m"), bytes_in(10_000_000)
    (1073741824, 536870912, 10000000)
    """
    result = re.fullmatch(r"(\d+)\s*([bkmgt]?)b?", str(memory).strip().lower())
    if result is None or isinstance(memory, bool) or int(result[1]) < 1:
        raise PlanError(f'memory must be a number of bytes such as 1073741824 or "1g", got {memory!r}')
    return int(result[1]) * _UNITS[result[2]]


def addresses_left() -> int | None:
    """How many bytes this process may still map or allocate, None if nothing bounds that."""
    try:
        import resource
    except ImportError:  # there is none on Windows
        return None
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    used = int(_STATM.read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE") if _STATM.exists() else limit // 2
    return max(limit - used, 0)


def give_back() -> None:
    """Return freed memory to the system, where the C library can: it keeps what lies between blocks that are used.

    Cost:   microseconds, and what it takes to unmap what is returned.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Any:
    """Glibc's ``malloc_trim``; None where there is none."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None


def shares(memory: int | None) -> tuple[int, int | None]:
    """The bytes that a run of a task takes up at a time, and the bytes of state that it may have open, if bounded."""
    left = addresses_left()
    if left is None:
        return max((memory or DEFAULT) // SHARE, LEAST), None
    usable = left if memory is None else min(left, memory)
    return max(usable // SHARE, LEAST), max(usable // OPEN_SHARE, LEAST)
