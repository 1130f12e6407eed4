"""As-of joins over long keys: what a step reads of them is enough, whatever lies where; against brute force."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

import altneu as an
from altneu import Session

L = an.source("l", "id long, k long, at long")
R = an.source("r", "k long, at long, v long")
OPTIONS = [
    {"direction": direction, "allow_exact_matches": exact, "tolerance": tolerance, "how": how}
    for (direction, exact), (tolerance, how) in zip(
        product(("backward", "forward", "nearest"), (True, False)),
        [(None, "inner"), (None, "left"), (9, "left"), (None, "left"), (None, "inner"), (5, "left")],
        strict=True,
    )
]
SPAN = 120


def met(right, k, at, options):
    """Among the right rows that are there: the nearest timestamp, the lesser at one distance, and its greatest row."""
    direction, exact, tolerance, _ = options.values()
    some = [
        (abs(at - s), s)
        for (key, s, _), n in right.items()
        if key == k
        and n > 0
        and (exact or s != at)
        and (direction == "nearest" or (s <= at if direction == "backward" else s >= at))
        and (tolerance is None or abs(at - s) <= tolerance)
    ]
    if not some:
        return None
    _, nearest = min(some)
    return max(v for (key, s, v), n in right.items() if (key, s) == (k, nearest) and n > 0)


def wanted(left, right, options):
    found = Counter()
    for (id_, k, at), n in left.items():
        v = met(right, k, at, options)
        if v is not None or options["how"] == "left":
            found[id_, v] += n
    return Counter({row: n for row, n in found.items() if n})


@pytest.mark.parametrize("seed", range(2))
def test_few_changes_in_long_keys(seed):
    """Some steps change a row, some many; some have several times; rows of the middle go, and come again."""
    rng = random.Random(seed)
    left, right = Counter(), Counter()

    def change(rows, make):
        if rows and rng.random() < 0.5:
            row = rng.choice(sorted(rows))
            rows[row] -= 1
            diff = -1
        else:
            row, diff = make(), 1
            rows[row] += 1
        if not rows[row]:
            del rows[row]
        return row, diff

    with Session() as session:
        views = [
            session.maintain(f"{i}", L.asof_join(R, "k", time="at", mode="revising", **options).select("id", "v"))
            for i, options in enumerate(OPTIONS)
        ]
        number = 0
        for step in range(60):
            many = 150 if step == 0 else rng.choice([1, 1, 1, 2, 9])
            for _ in range(many):
                time = session.lower + rng.randrange(2)
                source = rng.choice("lr")
                if source == "l":
                    row, diff = change(left, lambda: (rng.randrange(90), rng.randrange(2), rng.randrange(SPAN)))
                else:
                    row, diff = change(right, lambda: (rng.randrange(2), rng.randrange(SPAN), rng.randrange(3)))
                session.insert(source, [row], time=time, diff=diff)
                number += 1
            session.advance(to=session.lower + 2)
            for options, view in zip(OPTIONS, views, strict=True):
                assert Counter(map(tuple, view.to_pylist(errors="ignore"))) == wanted(left, right, options), (
                    step,
                    options,
                )
            assert not any(view.errors().num_rows for view in views)
    assert number > 200
