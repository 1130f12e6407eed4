"""Walking through groups from what is new gives the answers of the kernels that read and rank rows around it."""

from __future__ import annotations

import random

import pytest

from altneu import sql
from altneu.operators.kernels import small_around
from altneu.operators.reduce import operation
from tests.operators.small_steps import T, history, shown

FUNCTIONS = {
    "lag of numbers": ("k, v, x", "lag(x) OVER (PARTITION BY k ORDER BY v)"),
    "lag and lead by days": (
        "k, d",
        "lag(d, 2) OVER w AS r, lead(d, 1, DATE '2000-01-01') OVER w",
        "PARTITION BY k ORDER BY d",
    ),
    "lead by two keys": ("k, t, m, s", "lead(s) OVER (PARTITION BY k, t ORDER BY m DESC)"),
    "moving average": ("p, few, v", "avg(few) OVER (PARTITION BY p ORDER BY v ROWS 3 PRECEDING)"),
    "moving extremes": ("t, v, x", "max(x) OVER (PARTITION BY t ORDER BY v ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING)"),
    "of everything": ("v, d", "first_value(d) OVER (ORDER BY v ROWS BETWEEN 1 FOLLOWING AND 4 FOLLOWING)"),
    "of copies": ("k, few", "lag(few) OVER (PARTITION BY k ORDER BY few)"),
    "of ties": ("k, few, v", "lag(v, 3) OVER (PARTITION BY k ORDER BY few, v)"),
    "by floats": ("k, x", "lag(x) OVER (PARTITION BY k ORDER BY x NULLS LAST)"),
    "by decimals": ("t, m, v", "lead(v, 2) OVER (PARTITION BY t ORDER BY m DESC NULLS LAST, v)"),
    "by texts": ("k, s, v", "lead(v) OVER (PARTITION BY k ORDER BY s)"),
}


def plan_of(columns, function, window=None):
    named = f"WINDOW w AS ({window})" if window else ""
    return sql.query(f"SELECT {columns}, {function} AS made FROM t {named}", {"t": T})


PLANS = {name: plan_of(*parts) for name, parts in FUNCTIONS.items()}


@pytest.fixture
def answered(monkeypatch):
    """How often the kernel answered."""
    counts, ask = {"yes": 0, "no": 0}, small_around.stretches

    def asked(*given):
        result = ask(*given)
        counts["no" if result is None else "yes"] += 1
        return result

    monkeypatch.setattr(operation, "stretches", asked)
    return counts


# Texts that begin alike, and different rows that are equal in the first column of the order, are left to the others.
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("name", PLANS)
def test_rows_around_what_is_new_say_what_the_groups_say(name, nulls, answered, monkeypatch):
    rng = random.Random(f"{name}{nulls}")
    for _ in range(5):
        steps, together = history(rng, nulls, 7), rng.choice([1, 1, 3])
        made = shown(PLANS[name], steps, together=together)
        with monkeypatch.context() as patch:
            patch.setattr(operation, "is_small", lambda _: False)
            assert made == shown(PLANS[name], steps, together=together)
    if name not in ("of ties", "by texts", "by floats"):
        assert 2 * answered["yes"] >= answered["no"], answered


def test_groups_whose_new_rows_lie_far_apart_are_read_as_others(answered, monkeypatch):
    monkeypatch.setattr(small_around, "MOST_ROWS", 8)
    rng = random.Random(8)
    for _ in range(5):
        steps = history(rng, False, 7)
        made = shown(PLANS["lag of numbers"], steps)
        with monkeypatch.context() as patch:
            patch.setattr(operation, "is_small", lambda _: False)
            assert made == shown(PLANS["lag of numbers"], steps)
    assert answered["no"], answered
