"""How much of the costly tests a run takes: some of each, or all of them with ``ALTNEU_EVERY=1``."""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import TypeVar

import pytest

EVERY = bool(os.environ.get("ALTNEU_EVERY"))


def seeds(every: int, some: int) -> range:
    """The seeds of a property test: as many as it takes, or the first of them."""
    return range(every if EVERY else some)


T = TypeVar("T")


def some_of(all_: Iterable[T], one_in: int) -> list[T]:
    """One in so many of what is tried together: the same in each run, and not those that stand beside each other."""
    there = list(all_)
    return there if EVERY else _chosen(there, one_in, repr)


def left_out(items: list[pytest.Item]) -> list[pytest.Item]:
    """Of tests marked ``sampled(n)``, all sets of parameters but one in n: the same in each run, spread over all."""
    tests = defaultdict[tuple[str, int], list[pytest.Item]](list)
    for item in items:
        if mark := item.get_closest_marker("sampled"):
            tests[item.nodeid.split("[")[0], mark.args[0]].append(item)
    result = list[pytest.Item]()
    for (_, one_in), sets in tests.items():
        kept = {*_chosen(sets, one_in, lambda item: item.nodeid)}
        result += [item for item in sets if item not in kept]
    return result


def _chosen(there: list[T], one_in: int, name: Callable[[T], str]) -> list[T]:
    return sorted(there, key=lambda one: zlib.crc32(name(one).encode()))[: -(-len(there) // one_in)]
