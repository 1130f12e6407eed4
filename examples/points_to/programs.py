"""Programs as statements: any number of random ones, and what a solver in plain Python says of them."""

from __future__ import annotations

import random
from collections.abc import Iterable

Statement = tuple[str, tuple[str, ...]]
"""The source of a statement, and its row."""

OBJECTS_A_METHOD, FIELDS = 4, ("next", "value", "left")


def statement(rng: random.Random, method: int, methods: int) -> Statement:
    """Some statement of a method, whose variables are its own, but for a few that it takes from another one."""

    def var(anywhere: float = 0.0) -> str:
        of = rng.randrange(methods) if rng.random() < anywhere else method
        return f"m{of}.v{rng.randrange(6)}"

    match rng.randrange(8):
        case 0 | 1:
            return "news", (var(), f"m{method}.new{rng.randrange(OBJECTS_A_METHOD)}")
        case 2 | 3 | 4:
            return "moves", (var(), var(0.2))
        case 5 | 6:
            return "stores", (var(), rng.choice(FIELDS), var())
        case _:
            return "loads", (var(), var(), rng.choice(FIELDS))


def program(rng: random.Random, methods: int, size: int = 10) -> list[Statement]:
    """The statements of some methods, each with ``size``; the same one may be there several times."""
    return [statement(rng, method, methods) for method in range(methods) for _ in range(size)]


def solved(statements: Iterable[Statement]) -> tuple[set[tuple[str, str]], set[tuple[str, str, str]]]:
    """What variables and fields point to: the rules applied to all that is known, until they find nothing new."""
    rows = [*statements]
    points = {row for source, row in rows if source == "news"}
    heap: set[tuple[str, ...]] = set()
    while True:
        of: dict[str, set[str]] = {}
        for var, obj in points:
            of.setdefault(var, set()).add(obj)
        inside: dict[tuple[str, str], set[str]] = {}
        for obj, field, value in heap:
            inside.setdefault((obj, field), set()).add(value)
        more, stored = set(points), set[tuple[str, ...]]()
        for source, row in rows:
            if source == "moves":
                more |= {(row[0], obj) for obj in of.get(row[1], ())}
            elif source == "loads":
                more |= {(row[0], value) for obj in of.get(row[1], ()) for value in inside.get((obj, row[2]), ())}
            elif source == "stores":
                stored |= {(obj, row[1], value) for obj in of.get(row[0], ()) for value in of.get(row[2], ())}
        if (more, stored) == (points, heap):
            return points, heap  # type: ignore[return-value]
        points, heap = more, stored
