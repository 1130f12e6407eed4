"""Times of one's own on coordinates: random lattices, and what a session computes at their times."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import altneu as an
from altneu.errors import AltneuError, TimeRangeError
from altneu.order import MAX_TIMES, Embedding, FiniteLattice, Lexicographic
from altneu.testing import assert_time_laws

quick = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])

# every finite lattice is one of sets, closed under intersection, ordered by being contained
families = st.sets(st.frozensets(st.integers(0, 4), max_size=5), max_size=7)


def closed(sets):
    """The least family with these sets and the whole that is closed under intersection."""
    family = {frozenset(range(5)), *sets}
    while more := {a & b for a, b in itertools.combinations(family, 2)} - family:
        family |= more
    return sorted(family, key=lambda s: (len(s), sorted(s)))


def joined(family, a, b):
    """The least set of the family that contains both: by the definition."""
    bounds = [s for s in family if a | b <= s]
    (least,) = [s for s in bounds if all(s <= t for t in bounds)]
    return least


@quick
@given(families)
def test_coordinates_keep_order_and_least_upper_bounds(sets):
    family = closed(sets)
    lattice = FiniteLattice("at", family, frozenset.issubset)
    codes = [lattice.encode(s) for s in family]
    assert lattice.encode(family[0]) == (0,) * lattice.coordinates
    for a, b in itertools.product(family, repeat=2):
        assert lattice.less_equal(a, b) == (a <= b)
        assert lattice.join(a, b) == joined(family, a, b)
    assert len({*codes}) == len(family)
    assert [lattice.decode(c) for c in codes] == family


@quick
@given(families)
def test_there_are_no_more_coordinates_than_incomparable_irreducibles(sets):
    """Dilworth: as many chains as the largest set of meet-irreducibles none of which is before another."""
    family = closed(sets)
    irreducible = [s for s in family if sum(s < t and not any(s < u < t for u in family) for t in family) == 1]
    assert FiniteLattice("at", family, frozenset.issubset).coordinates == max(width(irreducible), 1)


def width(sets):
    """The most of them none of which contains another."""
    most = 0
    while any(
        not any(a < b or b < a for a, b in itertools.combinations(c, 2)) for c in itertools.combinations(sets, most + 1)
    ):
        most += 1
    return most


def test_chains_are_fewest_in_larger_orders():
    """The meet-irreducibles of the down-sets of points are as the points themselves are (Birkhoff)."""
    rng = random.Random(5)
    for _ in range(8):
        points = sorted({(rng.randrange(9), rng.randrange(9)) for _ in range(12)})
        below = {p: frozenset(q for q in points if q[0] <= p[0] and q[1] <= p[1]) for p in points}
        family = closed_under_unions(below.values())
        assert FiniteLattice("at", family, frozenset.issubset).coordinates == width(list(below.values()))


def closed_under_unions(sets):
    family = {frozenset()}
    for s in sets:
        family |= {s | t for t in family}
    return sorted(family, key=lambda s: (len(s), sorted(s)))[:MAX_TIMES]


REVIEW = {"draft": set(), "legal": {"l"}, "tax": {"t"}, "audit": {"a"}, "final": {"l", "t", "a"}}  # not distributive


@pytest.mark.parametrize("shards", [1, 2])
def test_views_can_be_read_at_the_times_of_a_lattice_that_is_not_distributive(shards, tmp_path):
    """``max`` and a count of distinct values at every time, against the rows at or before it; reopened, too."""
    state = FiniteLattice("state", REVIEW, lambda a, b: REVIEW[a] <= REVIEW[b])
    assert state.coordinates == 3
    rows = an.source("rows", "k long, v long", time=("known", *state.names))
    plan = rows.group_by("k").agg(most="max(v)", different="count(distinct v)")
    rng, there = random.Random(3), []
    for _ in range(4):
        with an.Session(path=tmp_path / "store", shards=shards) as session:
            view = session.maintain("v", plan)
            for _ in range(3):
                for _ in range(rng.randrange(1, 4)):
                    if there and rng.random() < 0.4:
                        at, row = there.pop(rng.randrange(len(there)))
                        session.retract("rows", [row], time=(None, *state.encode(at)))
                    else:
                        at, row = rng.choice([*REVIEW]), (rng.randrange(2), rng.randrange(4))
                        there.append((at, row))
                        session.insert("rows", [row], time=(None, *state.encode(at)))
                session.advance()
                for time, reviews in REVIEW.items():
                    values = {}
                    for at, (k, v) in there:
                        if REVIEW[at] <= reviews:
                            values.setdefault(k, []).append(v)
                    wanted = sorted((k, max(vs), len({*vs})) for k, vs in values.items())
                    assert sorted(view.to_pylist(at=(None, *state.encode(time)))) == wanted
                changes = view.changes().to_pylist()
                assert {state.decode([c[n] for n in state.names]) for c in changes} <= {*REVIEW}


def test_lexicographic_pairs_are_read_in_their_order():
    at = Lexicographic("at", 100)
    rows = an.source("rows", "v long", time=("known", *at.names))
    given_at = [(0, 5), (1, 0), (0, 99), (2, 3), (1, 7)]
    with an.Session() as session:
        view = session.maintain("v", rows.group_by().agg(n="count(*)", most="max(v)"))
        session.insert("rows", [(0,)], time=(None, *at.encode(given_at[0])))
        more = pa.table({"v": range(1, 5), "at": at.columns(given_at[1:])[0]})
        session.insert("rows", more, time=(None, "at"))
        session.advance()
        for time in [(0, 0), *given_at, (9, 9)]:
            there = [v for v, t in enumerate(given_at) if t <= time]
            wanted = [(len(there), max(there))] if there else [(0, None)]
            assert view.to_pylist(at=(None, *at.encode(time))) == wanted
        session.advance(event=at.encode((1, 0))[0])
        with pytest.raises(AltneuError, match="closed"):
            session.insert("rows", [(1,)], time=(None, *at.encode((0, 99))))
        session.insert("rows", [(9,)], time=(None, *at.encode((1, 0))))


@quick
@given(st.tuples(st.integers(0, 7), st.integers(0, 3), st.integers(0, 9)))
def test_places_come_back(time):
    at = Lexicographic("at", 4, 10)
    assert at.decode(at.encode(time)) == time


def test_numbers_of_numpy_are_numbers():
    at = Lexicographic("at", np.int32(10))
    assert at.encode((np.int64(2), 3)) == at.encode((2, 3)) == (23,)
    assert [type(place) for place in at.decode(at.encode((np.int8(2), 3)))] == [int, int]
    for time in ((np.float64(1), 0), (np.bool_(1), 0), (np.int64(-1), 0), (np.int8(0), np.int8(10))):
        with pytest.raises(TimeRangeError, match="place"):
            at.encode(time)


def test_the_largest_time_of_places_fits():
    at = Lexicographic("at", 2**32)
    assert at.decode(at.encode((2**30 - 1, 2**32 - 1))) == (2**30 - 1, 2**32 - 1)
    with pytest.raises(TimeRangeError, match="place 1"):
        at.encode((2**30, 0))
    with pytest.raises(TimeRangeError, match="2\\^62"):
        Lexicographic("at", 3).encode((2**62 // 3, 2))


@pytest.mark.parametrize(
    ("elements", "less_equal", "said"),
    [
        ([], lambda *_: True, "1 to 1,024 elements, got 0"),
        ("aba", str.__le__, "'a' twice"),
        (["a", ["b"]], lambda *_: True, "hashable: unhashable type: 'list'"),
        ("ab", lambda a, b: a < b, "reflexive: 'a'"),
        ("ab", lambda *_: True, "antisymmetric: 'a' and 'b'"),
        ("abc", lambda a, b: a == b or a + b in ("ab", "bc"), "transitive: 'a' is before 'b' and that before 'c'"),
        ("ab", lambda a, b: a == b, "least element"),
        ("0abcd", lambda a, b: a in ("0", b) or (a in "ab" and b in "cd"), "least upper bound: 'a' and 'b'"),
        ("0ab", lambda a, b: a in ("0", b), "least upper bound: 'a' and 'b'"),
    ],
)
def test_what_is_no_lattice_is_refused(elements, less_equal, said):
    with pytest.raises(TimeRangeError, match=said):
        FiniteLattice("at", elements, less_equal)


def test_what_is_no_time_is_refused():
    lattice = FiniteLattice("at", "ab", lambda a, b: a <= b)
    for refused in ("c", ["a"]):
        with pytest.raises(TimeRangeError, match="is not an element"):
            lattice.encode(refused)
    with pytest.raises(TimeRangeError, match="are not the coordinates"):
        lattice.decode((7,))
    for bounds in ((0,), (True,), ("9",)):
        with pytest.raises(TimeRangeError, match="from 1 on"):
            Lexicographic("at", *bounds)
    for time in ((1,), 3, (0, 10), (0, -1), (0, True), (0, 1.0)):
        with pytest.raises(TimeRangeError):
            Lexicographic("at", 10).encode(time)


class Broken(Embedding):
    """Pairs, of which one law does not hold."""

    coordinates = 2

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def encode(self, time):
        a, b = time
        return {"coordinates": [a, b], "decode": (a, b), "order": (a, a + b), "negative": (a - 1, b)}[self.fault]

    def decode(self, coordinates):
        a, b = coordinates
        return (a, 0) if self.fault == "decode" else (a, b - a) if self.fault == "order" else (a, b)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("coordinates", "coordinates are a tuple of 2"),
        ("negative", "coordinates are a tuple of 2"),
        ("decode", "decode undoes encode"),
        ("order", "ordered as times are"),
    ],
)
def test_a_broken_law_is_told(fault, said):
    times = st.tuples(st.integers(0, 5), st.integers(0, 5))
    with pytest.raises(AssertionError, match=said):
        assert_time_laws(Broken(fault), times, lambda a, b: a[0] <= b[0] and a[1] <= b[1])


def test_laws_of_a_finite_lattice_hold():
    lattice = FiniteLattice("state", REVIEW, lambda a, b: REVIEW[a] <= REVIEW[b])
    assert_time_laws(lattice, st.sampled_from([*REVIEW]), lambda a, b: REVIEW[a] <= REVIEW[b])
    with pytest.raises(AssertionError, match="ordered as times are"):
        assert_time_laws(lattice, st.sampled_from([*REVIEW]), lambda a, b: a <= b)
