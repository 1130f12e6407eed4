"""As-of joins over long keys: what a step reads of them is enough, whatever lies where; against brute force."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
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
    actual = Counter()
    for (id_, k, at), n in left.items():
        v = met(right, k, at, options)
        if v is not None or options["how"] == "left":
            actual[id_, v] += n
    return Counter({row: n for row, n in actual.items() if n})


class Side:
    """Rows that come and go: of few keys, many timestamps, and few values."""

    def __init__(self, rng, make):
        self.rng, self.make, self.rows = rng, make, Counter()

    def change(self):
        if self.rows and self.rng.random() < 0.5:
            row, diff = self.rng.choice(sorted(self.rows)), -1
        else:
            row, diff = self.make(), 1
        self.rows[row] += diff
        if not self.rows[row]:
            del self.rows[row]
        return row, diff


def sides(rng):
    left = Side(rng, lambda: (rng.randrange(90), rng.randrange(2), rng.randrange(SPAN)))
    return left, Side(rng, lambda: (rng.randrange(2), rng.randrange(SPAN), rng.randrange(3)))


@pytest.mark.parametrize("seed", range(3))
def test_few_changes_in_long_keys(seed):
    """Some steps change a row, some many; some have several times; rows of the middle go, and come again."""
    rng = random.Random(seed)
    left, right = sides(rng)
    with Session() as session:
        views = [
            session.maintain(f"{i}", L.asof_join(R, "k", time="at", mode="revising", **options).select("id", "v"))
            for i, options in enumerate(OPTIONS)
        ]
        for step in range(60):
            for _ in range(150 if step == 0 else rng.choice([1, 1, 1, 2, 9])):
                name = rng.choice("lr")
                row, diff = (left if name == "l" else right).change()
                session.insert(name, [row], time=session.lower + rng.randrange(2), diff=diff)
            session.advance(to=session.lower + 2)
            for options, view in zip(OPTIONS, views, strict=True):
                actual = Counter(view.to_pylist(errors="ignore"))
                assert actual == wanted(left.rows, right.rows, options), (step, options)
            assert not any(view.errors().num_rows for view in views)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("simultaneous", [True, False])
def test_few_changes_in_long_keys_locked_in(seed, simultaneous):
    """Several times a step, at each of which right rows come and go beside the left row that looks for them."""
    rng = random.Random(seed)
    left, right = sides(rng)
    memory = [defaultdict(list) for _ in OPTIONS]
    with Session() as session:
        views = [
            session.maintain(
                f"{i}",
                L.asof_join(R, "k", time="at", mode="locked", simultaneous=simultaneous, **options).select("id", "v"),
            )
            for i, options in enumerate(OPTIONS)
        ]
        for step in range(30):
            for time in range(session.lower, session.lower + 3):
                before = Counter(right.rows)
                for _ in range(100 if step == 0 else rng.choice([0, 1, 3])):
                    row, diff = right.change()
                    session.insert("r", [row], time=time, diff=diff)
                changes = Counter()
                for _ in range(rng.choice([1, 2, 3])):
                    row, diff = left.change()
                    changes[row] += diff
                    session.insert("l", [row], time=time, diff=diff)
                seen = right.rows if simultaneous else before
                for copies, options in zip(memory, OPTIONS, strict=True):
                    remember(copies, changes, seen, options)
            session.advance(to=session.lower + 3)
            for copies, options, view in zip(memory, OPTIONS, views, strict=True):
                kept = [(id_, v) for (id_, _, _), met in copies.items() for v in met]
                shown = Counter(row for row in kept if row[1] is not None or options["how"] == "left")
                assert Counter(view.to_pylist(errors="ignore")) == shown, (step, options)


def remember(copies, changes, right, options):
    """Copies that come meet what is seen; those that go are the first that came."""
    for row, diff in changes.items():
        copies[row] += [met(right, *row[1:], options) for _ in range(diff)]
        del copies[row][: max(-diff, 0)]
