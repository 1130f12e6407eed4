"""Makes a store as it was before functions were compared by what they read: run once, by such an altneu, and kept.

``python -c "from tests.store.functions import make; make.main()"``, with Python 3.11, whose code it compares.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import altneu as an

HERE = Path(__file__).parent / "python3.11"
ADDED = 1
TABLE = {"added": 1}


def helper(x: int) -> int:
    return x + ADDED


def uses_helper(row: Any) -> int:
    return helper(row.k)


class Adding:
    def __init__(self, added: int) -> None:
        self.added = added

    def __call__(self, row: Any) -> int:
        return row.k + self.added

    def method(self, row: Any) -> int:
        return row.k + self.added


def capturing(added: int) -> Callable[[Any], int]:
    return lambda row: row.k + added


def partial_of(added: int, row: Any) -> int:
    return row.k + added


def views() -> dict[str, an.Collection]:
    a = an.source("a", "k long", keep=True)
    functions: dict[str, Callable[[Any], Any]] = {
        "nothing": lambda row: row.k + 1,
        "captured": capturing(1),
        "standard": lambda row: row.k + math.floor(1.5),
        "global": lambda row: row.k + ADDED,
        "table": lambda row: row.k + TABLE["added"],
        "helper": uses_helper,
        "object": Adding(1),
        "method": Adding(1).method,
        "partial": functools.partial(partial_of, 1),
        "builtin": len,
    }
    result = {name: a.map(function, "k long") for name, function in functions.items()}
    result["filter"] = a.filter(lambda row: row.k > ADDED)
    result["threshold"] = a.threshold(lambda n: min(n, ADDED))
    result["reduce"] = a.group_by(m="k % 2").reduce(lambda _, rows: [sum(r.k + ADDED for r, _ in rows)], "s long")
    result["delay"] = a.delay(by=lambda t: t + ADDED)
    return result


def main() -> None:
    with an.Session(path=HERE) as session:
        for name, plan in views().items():
            session.maintain(name, plan)
        session.insert("a", [1, 2, 3])
        session.advance()
    (HERE / "lock").unlink(missing_ok=True)
