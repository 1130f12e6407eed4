"""Histories of small steps, of columns of many types, and what views have after each step."""

from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal

import altneu as an

VALUES = {
    "v": ("bigint", lambda i: i * 7919 % 100_003 - 500),
    "d": ("date", lambda i: date(2000, 1, 1) + timedelta(days=i * 31 % 997)),
    "x": ("double", lambda i: [float("nan"), -0.0, 0.0, float("inf")][i % 4] if i % 11 == 0 else i * 37 % 101 / 8),
    "s": ("string", lambda i: f"alike: {i * 53 % 97}"),
    "m": ("decimal(12,2)", lambda i: Decimal(i * 17 % 1013) / 4),
    "few": ("bigint", lambda i: i % 5),
}
KEYS = {
    "k": ("bigint", lambda i: i % 4),
    "t": ("string", lambda i: f"key {i % 4}"),
    "p": ("decimal(10,1)", lambda i: Decimal(i % 4) / 2),
}
COLUMNS = {**KEYS, **VALUES}
T = an.source("t", ", ".join(f"{name} {kind}" for name, (kind, _) in COLUMNS.items()))


def history(rng, nulls, often=1 << 41):
    """Steps of updates (row, time, diff): rows come, come twice, go, and sometimes go once more than they came."""
    there, steps = [], []
    first = [row_of(rng, rng.randrange(1_000), nulls) for _ in range(rng.choice([0, 40, 400]))]
    there += first
    steps.append([(row, 0, 1) for row in first])
    for at in range(1, 10):
        step = []
        for _ in range(rng.choice([1, 1, 2, 9])):
            draw = rng.random()
            if draw < 0.35 and there:
                row = there.pop(rng.randrange(len(there)))
                step.append((row, at, -1))
            elif draw < 0.42 and there:
                step.append((rng.choice(there), at, rng.choice([-2, 2, 2, 3, often])))
            else:
                row = row_of(rng, rng.randrange(1_000), nulls)
                there.append(row)
                step.append((row, at, 1))
        steps.append(step)
    return steps


def row_of(rng, i, nulls):
    row = [make(i) for _, make in COLUMNS.values()]
    if nulls and rng.random() < 0.1:
        row[rng.randrange(len(row))] = None
    return tuple(row)


def errors_of(view):
    return sorted((error["code"], error["row"]) for error in view.errors().to_pylist())


def shown(plan, steps, *, together=1):
    """What a view of the plan has after each step, and its errors."""
    result = []
    with an.Session() as session:
        view = session.maintain("view", plan)
        for at, step in enumerate(steps):
            for row, _, diff in step:
                session.insert("t", [row], time=at, diff=diff)
            if at % together == 0:
                session.advance(to=at + 1)
                result.append((sorted(map(repr, view.to_pylist(errors="ignore"))), errors_of(view)))
    return result
