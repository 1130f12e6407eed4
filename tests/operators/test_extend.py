"""Delta joins by themselves: any lattice, any split of the updates into old and new, long histories, hubs."""

from __future__ import annotations

import random
import tracemalloc
from collections import Counter
from itertools import product

import numpy as np
import pytest

from altneu.errors import DiffOverflowError
from altneu.operators.delta_join import extend
from altneu.operators.delta_join.extend import delta_join
from altneu.operators.delta_join.paths import delta_paths, is_cyclic
from altneu.operators.join.pairs import TooManyMatches
from altneu.order import AltNeu, Epoch, Product
from altneu.trace.update import consolidate
from tests.operators.extend_cases import PATTERNS, TRIANGLE, consolidated, prepared

EPOCH, PLANE, SPACE = Epoch(), Product(Epoch(), Epoch()), Product(Epoch(), Epoch(), Epoch())
LATTICES = {"epochs": EPOCH, "plane": PLANE, "space": SPACE, "moments": AltNeu(PLANE)}


def joined(variables, names, lattice, relations):
    """Every combination, at the join of its times: consolidated."""
    counts = Counter()
    for combination in product(*relations):
        bound = {}
        for part, (row, _, _) in zip(variables, combination, strict=True):
            for v, value in zip(part, row, strict=True):
                if bound.setdefault(v, value) != value:
                    break
            else:
                continue
            break
        else:
            time, diff = combination[0][1], 1
            for _, t, d in combination:
                one, other = (np.array(x, np.int64).reshape(-1, 1) for x in (time, t))
                time, diff = tuple(lattice.join(one, other)[:, 0].tolist()), diff * d
            counts[tuple(bound[v] for v in names), time] += diff
    return Counter({k: n for k, n in counts.items() if n})


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("lattice", LATTICES)
def test_what_arrives_meets_what_is_there_exactly_once(pattern, lattice, monkeypatch):
    """In any lattice, however the updates are split: together what is old and what is new make the whole join."""
    variables, lattice = PATTERNS[pattern], LATTICES[lattice]
    names, spec, arranged = prepared(variables, lattice)
    rng = random.Random(f"{pattern} {lattice}")
    for trial in range(12):
        monkeypatch.setattr(extend, "CHUNK", rng.choice([1, 3, 1 << 17]))
        limits = [2 if isinstance(lattice, AltNeu) and i == lattice.width - 1 else 3 for i in range(lattice.width)]
        whole, old, new = [], [], []
        for part in variables:
            updates = [
                (tuple(rng.randrange(3) for _ in part), tuple(map(rng.randrange, limits)), rng.choice([1, 1, -1, 2]))
                for _ in range(rng.randint(0, 9))
            ]
            cut = rng.randint(0, len(updates)) if trial else 0
            whole.append(updates)
            old.append(updates[:cut])
            new.append(updates[cut:])
        result, failed = delta_join(arranged(old, new), spec)
        assert not len(failed)
        before = joined(variables, names, lattice, old)
        wanted = joined(variables, names, lattice, whole)
        wanted.subtract(before)
        assert consolidated(result) == Counter({k: n for k, n in wanted.items() if n})


def test_rows_that_come_and_go_meet_when_they_are_there(monkeypatch):
    """Toggled 1,000 times on either side in one step: not a match for every pair of changes."""
    lattice, actual = EPOCH, []

    def counting(updates, lattice):
        actual.append(len(updates))
        return consolidate(updates, lattice)

    monkeypatch.setattr(extend, "consolidate", counting)
    names, spec, arranged = prepared(TRIANGLE, lattice)
    toggled = [[((1, 2), (t,), 1 - 2 * (t % 2)) for t in range(1000)]]
    toggled.append([((2, 3), (t,), 1 - 2 * (t % 2)) for t in range(1000)])
    toggled.append([((1, 3), (0,), 1)])
    nothing = [[], [], []]
    result, _ = delta_join(arranged(nothing, toggled), spec)
    wanted = joined(TRIANGLE, names, lattice, [toggled[0][:40], toggled[1][:40], toggled[2]])
    upto = [(r, t) for r, t in consolidated(result) if t[0] < 40]
    assert {k: consolidated(result)[k] for k in upto} == {k: n for k, n in wanted.items() if k[1][0] < 40}
    assert sum(actual) < 10_000


def test_a_hub_stays_in_bounded_memory():
    """All edges of a node with 45,000 neighbours in one step, twice as a wedge and never as all pairs of neighbours."""
    names, spec, arranged = prepared(TRIANGLE, EPOCH)
    assert names == ["a", "b", "c"]
    hub = [((0, i), (0,), 1) for i in range(1, 45_000)] + [((i, 0), (0,), 1) for i in range(1, 45_000)]
    inputs = arranged([[], [], []], [hub, hub, hub])
    tracemalloc.start()
    result, _ = delta_join(inputs, spec)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert not len(result)
    assert peak < 100 * 2**20


def test_a_budget_ends_it_before_candidates_are_built():
    _, spec, arranged = prepared(TRIANGLE, EPOCH)
    edges = [((a, b), (0,), 1) for a in range(20) for b in range(20)]
    with pytest.raises(TooManyMatches):
        delta_join(arranged([[], [], []], [edges, edges, edges]), spec, budget=100)


def test_a_product_beyond_64_bits_is_not_committed():
    _, spec, arranged = prepared(TRIANGLE, EPOCH)
    new = [[((1, 2), (0,), 2**40)], [((2, 3), (0,), 2**40)], [((1, 3), (0,), 1)]]
    with pytest.raises(DiffOverflowError):
        delta_join(arranged([[], [], []], new), spec)


def test_paths_of_random_patterns_bind_everything():
    rng = random.Random(7)
    for _ in range(300):
        letters = "abcdef"[: rng.randint(2, 6)]
        relations = [tuple(rng.sample(letters, rng.randint(1, min(3, len(letters))))) for _ in range(rng.randint(2, 5))]
        try:
            paths = delta_paths(relations)
        except ValueError:
            continue  # not connected
        for path in paths:
            bound = set(relations[path.relation])
            done = [path.relation]
            for extension in path.extensions:
                for part in extension.parts:
                    assert part.key
                    assert bound.issuperset(part.key)
                    assert {*part.key, *extension.adds, *part.own} == set(relations[part.relation])
                    done.append(part.relation)
                bound.update(extension.binds)
            assert sorted(done) == list(range(len(relations)))


@pytest.mark.parametrize(
    ("relations", "cyclic"),
    [
        ([("a", "b"), ("b", "c"), ("a", "c")], True),
        ([("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")], True),
        ([("a", "b"), ("b", "c"), ("c", "d")], False),
        ([("a", "b"), ("a", "c"), ("a", "d")], False),
        ([("a", "b"), ("a", "b"), ("b", "c")], False),
        ([("a", "b", "c"), ("a", "b"), ("b", "c"), ("a", "c")], False),  # the widest one contains the circle
        ([("a", "b"), ("b", "c"), ("a", "c"), ("c", "d")], True),
    ],
)
def test_cycles_are_found(relations, cyclic):
    assert is_cyclic(relations) == cyclic
