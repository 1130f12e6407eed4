"""How much of the costly tests a run takes: some of each, or all of them with ``ALTNEU_EVERY=1``."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict

import pytest

EVERY = bool(os.environ.get("ALTNEU_EVERY"))


def seeds(every: int, some: int) -> range:
    """The seeds of a property test: as many as it takes, or the first of them."""
    return range(every if EVERY else some)


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of tests marked ``sampled(n)``, all sets of parameters but one in n: the same in each run, spread over all."""
    tests = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            tests[item.nodeid.split("[")[0], mark.args[0]].append(item)
    result = list[pytest.Item]()
    for (_, one_in), sets in tests.items():
        sets.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        result += sets[-(-len(sets) // one_in) :]
    return result
