"""Random patterns of three to five relations: delta joins against binary ones, change by change."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an

PAIRS = an.source("pairs", "x long, y long")
TRIPLES = an.source("triples", "x long, y long, z string")
NAMED = an.source("named", "x string, y long")
NODES = an.source("nodes", "x long")
SOURCES = {c.node.name: c for c in (PAIRS, TRIPLES, NAMED, NODES)}
NUMBERS, TEXTS = ["a", "b", "c", "d"], ["s", "t"]


def random_pattern(rng):
    """Relations joined by the variables that they share; some distinct, some filtered, some columns their own."""
    result = None
    for i in range(rng.randint(3, 5)):
        known = set() if result is None else set(result.columns)
        side = None
        while side is None:
            side = random_relation(rng, i, known)
        result = side if result is None else result.join(side, on=[v for v in side.columns if v in known])
        numbers = [v for v in result.columns if v in NUMBERS]
        if numbers and rng.random() < 0.15:
            result = result.filter(f"{rng.choice(numbers)} <> 1")
    return result.group_by(result.columns[0]).agg(n="count(*)") if rng.random() < 0.3 else result


def random_relation(rng, number, known):
    """A source with its columns called by variables; None when it has one twice, or none that others can share."""
    source = SOURCES[rng.choice(["pairs", "pairs", *SOURCES])]
    names = []
    for name in source.columns:
        pool = TEXTS if (source.node.name, name) in {("triples", "z"), ("named", "x")} else NUMBERS
        names.append(f"p{number}{name}" if rng.random() < 0.2 else rng.choice(pool))
    shared = [n for n in names if n in NUMBERS or n in TEXTS]
    if not shared or len(set(names)) < len(names) or (known and known.isdisjoint(shared)):
        return None
    side = source.select(**dict(zip(names, source.columns, strict=True)))
    return side.distinct() if rng.random() < 0.15 else side


def random_row(rng, name):
    number = lambda: rng.choice([0, 1, 2, 3, None, rng.randrange(100)])  # noqa: E731
    text = lambda: rng.choice(["x", "y", "long", None])  # noqa: E731
    columns = {"pairs": "nn", "triples": "nnt", "named": "tn", "nodes": "n"}[name]
    return tuple(number() if c == "n" else text() for c in columns)


def changes_of(view):
    return sorted((tuple(row.values()) for row in view.changes().to_pylist()), key=repr)


@pytest.mark.parametrize("seed", range(60))
def test_both_ways_to_join_change_alike(seed):
    rng = random.Random(seed)
    pattern = random_pattern(rng)
    retain = rng.choice([None, "all"])
    with an.Session(shards=rng.choice([1, 1, 2]), retain=retain) as session, an.Session() as other:
        view, same = session.maintain("v", pattern, joins="delta"), other.maintain("v", pattern, joins="binary")
        there: Counter = Counter()
        for step in range(rng.randint(1, 5)):
            for _ in range(rng.randint(0, 25)):
                name = rng.choice(list(session._engine.declared))
                row, diff = random_row(rng, name), rng.choice([1, 1, 2])
                mine = [r for (n, r), count in there.items() if n == name and count > 0]
                if mine and rng.random() < 0.4:
                    row, diff = rng.choice(mine), -1
                there[name, row] += diff
                time = rng.randint(session.lower, session.lower + 3)
                for each in (session, other):
                    each.insert(name, [row], diff=diff, time=time)
            upper = rng.randint(session.lower + 1, session.lower + 4)
            session.advance(to=upper)
            other.advance(to=upper)
            assert changes_of(view) == changes_of(same)
            if rng.random() < 0.2:
                late = session.maintain(f"late {step}", pattern)
                shown = [v.to_arrow(errors="ignore").to_pylist() for v in (late, view)]
                assert sorted(shown[0], key=repr) == sorted(shown[1], key=repr)
