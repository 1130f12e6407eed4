"""Laws of times and frontiers, over every kind of lattice: by exhaustion on small grids, and at the ends of int64."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu import order
from altneu.errors import TimeRangeError
from altneu.order import AltNeu, Antichain, Lattice, Moment, Product, alt, neu
from altneu.order.lattice import Mask, Times
from tests.laws.order_cases import LATTICES, E, values

NAMES = sorted(LATTICES)
SMALLEST, LARGEST = -(2**63), 2**63 - 1
ENDS = (SMALLEST, SMALLEST + 1, -1, 0, 1, 2, 3, LARGEST - 1, LARGEST)
quick = settings(max_examples=25, deadline=None)
each_lattice = pytest.mark.parametrize("name", NAMES)


def grid(name: str) -> tuple[Lattice, Times]:
    lattice, n = LATTICES[name]
    return lattice, lattice.from_pylist(values(lattice, n))


def column_values(lattice: Lattice) -> list[tuple[int, ...]]:
    """What each column may hold, ends of int64 included; a flag column holds 0 and 1."""
    if lattice.is_total:
        return [ENDS]
    if isinstance(lattice, Product):
        return [column for factor in lattice.factors for column in column_values(factor)]
    assert isinstance(lattice, AltNeu)
    return [*column_values(lattice.inner), (0, 1)]


def arrays(lattice: Lattice, largest: int = 7) -> st.SearchStrategy[Times]:
    """Arrays of up to ``largest`` times whose columns reach to the ends of int64."""
    column = st.tuples(*(st.sampled_from(allowed) for allowed in column_values(lattice)))
    return st.lists(column, min_size=1, max_size=largest).map(lambda times: np.array(times, np.int64).T)


def pairs(a: Times, b: Times) -> tuple[Times, Times]:
    """Every time of ``a`` beside every time of ``b``, those of ``a`` changing slowest."""
    return np.repeat(a, b.shape[1], axis=1), np.tile(b, a.shape[1])


def below(lattice: Lattice, a: Times, b: Times) -> Mask:
    """``less_equal`` of every pair, as a matrix."""
    return lattice.less_equal(*pairs(a, b)).reshape(a.shape[1], b.shape[1])


def model_less_equal(lattice: Lattice, a: object, b: object) -> bool:
    """The order as the definitions state it, on Python values."""
    if isinstance(lattice, Product):
        return all(model_less_equal(f, x, y) for f, x, y in zip(lattice.factors, a, b, strict=True))
    if isinstance(lattice, AltNeu):
        return a.is_neu <= b.is_neu if a.time == b.time else model_less_equal(lattice.inner, a.time, b.time)
    return a <= b


def check_lattice_laws(lattice: Lattice, times: Times) -> None:
    n = times.shape[1]
    order = below(lattice, times, times)
    same = lattice.equal(*pairs(times, times)).reshape(n, n)
    strict = lattice.less_than(*pairs(times, times)).reshape(n, n)
    assert order.diagonal().all(), "reflexive"
    assert (order & order.T == same).all(), "antisymmetric, and equal only where all columns are"
    assert (strict == order & ~same).all(), "less_than is <= and not equal"
    assert not ((order.astype(int) @ order.astype(int) > 0) & ~order).any(), "transitive"
    joins, meets = lattice.join(*pairs(times, times)), lattice.meet(*pairs(times, times))
    above_both = (order[:, None, :] & order[None, :, :]).reshape(n * n, n)
    assert (below(lattice, joins, times) == above_both).all(), "u is above both exactly when it is above the join"
    below_both = (order.T[:, None, :] & order.T[None, :, :]).reshape(n * n, n)
    assert (below_both == below(lattice, times, meets).T).all(), "u is below both exactly when it is below the meet"
    a, b = pairs(times, times)
    assert lattice.less_equal(a, joins).all()
    assert lattice.less_equal(b, joins).all()
    assert lattice.less_equal(meets, a).all()
    assert lattice.less_equal(meets, b).all()
    assert lattice.less_equal(times, lattice.maximum()).all()
    keys = [tuple(key) for key in np.stack(lattice.sort_keys(times), axis=1).tolist()]
    for i, j in itertools.product(range(n), repeat=2):
        assert not strict[i, j] or keys[i] < keys[j], "the linear extension agrees with the order"
        assert same[i, j] or keys[i] != keys[j], "different times never tie"


@each_lattice
def test_lattice_laws_on_every_triple_of_a_grid(name: str) -> None:
    lattice, times = grid(name)
    check_lattice_laws(lattice, times)
    assert lattice.less_equal(lattice.minimum(), times).all()
    assert (lattice.join(times, lattice.minimum()) == times).all()


@each_lattice
@quick
@given(data=st.data())
def test_lattice_laws_at_the_ends_of_int64(name: str, data: st.DataObject) -> None:
    lattice, _ = LATTICES[name]
    check_lattice_laws(lattice, data.draw(arrays(lattice)))


@each_lattice
def test_order_is_the_one_defined(name: str) -> None:
    lattice, times = grid(name)
    listed = lattice.to_pylist(times)
    expected = [[model_less_equal(lattice, a, b) for b in listed] for a in listed]
    assert below(lattice, times, times).tolist() == expected


def test_join_and_meet_of_moments_follow_their_rules() -> None:
    plane = Product(E, E)
    moments = AltNeu(plane)
    for s, t in itertools.product(values(plane, 3), repeat=2):
        join, meet = tuple(map(max, s, t)), tuple(map(min, s, t))
        for f, g in itertools.product((False, True), repeat=2):
            a, b = moments.from_python((s, f)), moments.from_python((t, g))
            assert moments.to_python(moments.join(a, b)) == Moment(join, (join == s and f) or (join == t and g))
            assert moments.to_python(moments.meet(a, b)) == Moment(meet, (meet != s or f) and (meet != t or g))


def test_no_other_time_tells_two_moments_apart() -> None:
    for name in NAMES:
        lattice, times = grid(name)
        if not isinstance(lattice, AltNeu):
            continue
        inner = lattice.unwrap(times)
        a, b = lattice.alt(inner), lattice.neu(inner)
        assert lattice.less_than(a, b).all()
        others = ~lattice.inner.equal(*pairs(inner, inner)).reshape(times.shape[1], -1)
        assert (below(lattice, a, times) == below(lattice, b, times))[others].all()
        assert (below(lattice, times, a) == below(lattice, times, b))[others].all()


@each_lattice
@quick
@given(data=st.data())
def test_vectors_answer_as_one_by_one(name: str, data: st.DataObject) -> None:
    lattice, _ = LATTICES[name]
    a = data.draw(arrays(lattice))
    b = data.draw(arrays(lattice))
    n = min(a.shape[1], b.shape[1])
    a, b = a[:, :n], b[:, :n]
    frontier = Antichain(lattice, b)
    for operation in (lattice.less_equal, lattice.less_than, lattice.equal, lattice.join, lattice.meet):
        whole = operation(a, b)
        assert whole.shape[-1] == n
        singly = [operation(a[:, i : i + 1], b[:, i : i + 1]) for i in range(n)]
        assert (whole == np.concatenate(singly, axis=-1)).all()
        assert (operation(a, b[:, :1]) == operation(a, np.repeat(b[:, :1], n, axis=1))).all(), "broadcast right"
        assert (operation(a[:, :1], b) == operation(np.repeat(a[:, :1], n, axis=1), b)).all(), "broadcast left"
    for ask in (frontier.less_equal, frontier.less_than, frontier.advance):
        assert (ask(a) == np.concatenate([ask(a[:, i : i + 1]) for i in range(n)], axis=-1)).all()


@each_lattice
def test_times_are_well_founded(name: str) -> None:
    """They map, in order, to tuples of natural numbers ordered lexicographically, of which none descends for ever."""
    lattice, times = grid(name)
    keys = [*zip(*(column.tolist() for column in lattice.sort_keys(times)), strict=True)]
    assert min(number for key in keys for number in key) == 0
    for i, j in np.argwhere(below(lattice, times, times)).tolist():
        assert keys[i] < keys[j] or i == j
    for place in range(lattice.width if lattice.is_columnwise else 0):
        lesser = times[:, :1].copy()
        lesser[place] = -1  # and a time before the least one is refused, whatever its other coordinates are
        with pytest.raises(TimeRangeError):
            lattice.encode(lattice.decode(tuple(lesser[:, 0].tolist())))


@each_lattice
def test_no_times_at_all(name: str) -> None:
    lattice, _ = LATTICES[name]
    none = lattice.from_pylist([])
    assert none.shape == (lattice.width, 0)
    assert lattice.less_equal(none, lattice.minimum()).shape == (0,)
    assert lattice.join(none, lattice.minimum()).shape == (lattice.width, 0)
    assert Antichain(lattice, none).is_empty
    assert Antichain.minimum(lattice).advance(none).shape == (lattice.width, 0)


@each_lattice
def test_distributive_exactly_when_columnwise(name: str) -> None:
    lattice, times = grid(name)
    a, b = pairs(times, times)
    distributes = True
    for c in lattice.to_pylist(times):
        time = lattice.from_python(c)
        left = lattice.join(time, lattice.meet(a, b))
        right = lattice.meet(lattice.join(time, a), lattice.join(time, b))
        distributes &= bool((left == right).all())
    assert distributes == lattice.is_columnwise


def test_which_lattices_are_total_and_columnwise() -> None:
    seen = {name: (lat.width, lat.is_total, lat.is_columnwise) for name, (lat, _) in LATTICES.items()}
    assert seen == {
        "Epoch": (1, True, True),
        "Product(E,E)": (2, False, True),
        "AltNeu(E)": (1, True, True),
        "AltNeu(Product(E,E))": (3, False, False),
        "AltNeu(Product(E,E,E))": (4, False, False),
        "Product(AltNeu(E),E)": (2, False, True),
        "Product(AltNeu(E),AltNeu(E))": (2, False, True),
        "Product(AltNeu(Product(E,E)),E)": (4, False, False),
        "AltNeu(AltNeu(Product(E,E)))": (4, False, False),
    }
    assert (Product(AltNeu(E)).is_total, AltNeu(Product(E)).width) == (True, 1)


# ---- frontiers


def frontiers(lattice: Lattice, times: Times) -> st.SearchStrategy[Antichain]:
    """Frontiers of up to four of ``times``, the closed one among them."""
    index = st.lists(st.integers(0, times.shape[1] - 1), max_size=4)
    return index.map(lambda picked: Antichain(lattice, times[:, picked]))


@each_lattice
@quick
@given(data=st.data())
def test_antichain_keeps_exactly_the_minimal_times(name: str, data: st.DataObject) -> None:
    lattice, _ = LATTICES[name]
    given_times = data.draw(arrays(lattice))
    frontier = Antichain(lattice, given_times)
    order = below(lattice, frontier.elements, frontier.elements)
    assert (order == np.eye(len(frontier), dtype=bool)).all(), "no element is <= another"
    assert frontier.less_equal(given_times).all(), "every time given is at or beyond it"
    kept = set(map(tuple, frontier.elements.T.tolist()))
    assert kept <= set(map(tuple, given_times.T.tolist())), "no element is made up"
    shuffled = data.draw(st.permutations(range(given_times.shape[1])))
    again = Antichain(lattice, given_times[:, [*shuffled, shuffled[0]]])
    assert (again, hash(again)) == (frontier, hash(frontier)), "a set: no order, no repeats"
    assert not frontier.is_empty
    assert frontier != Antichain(lattice, given_times[:, :0])


@each_lattice
@quick
@given(data=st.data())
def test_frontier_comparisons_compare_elements(name: str, data: st.DataObject) -> None:
    lattice, times = grid(name)
    frontier = data.draw(frontiers(lattice, times))
    assert (frontier.less_equal(times) == below(lattice, frontier.elements, times).any(axis=0)).all()
    strict = [lattice.less_than(frontier.elements[:, i : i + 1], times) for i in range(len(frontier))]
    assert (frontier.less_than(times) == np.array(strict).reshape(-1, times.shape[1]).any(axis=0)).all()
    assert frontier.is_empty == (len(frontier) == 0) == (not frontier.less_equal(times).any())
    assert Antichain.of(lattice, *frontier.to_pylist()) == frontier
    assert pickle.loads(pickle.dumps(frontier)) == frontier  # noqa: S301 -- made here


def check_frontier_laws(lattice: Lattice, times: Times, f: Antichain, g: Antichain) -> None:
    in_f, in_g = f.less_equal(times), g.less_equal(times)
    assert (f.join(g).less_equal(times) == (in_f & in_g)).all(), "the join is at or beyond both"
    assert (f.meet(g).less_equal(times) == (in_f | in_g)).all(), "the meet is at or beyond either"
    assert f.less_equal_frontier(g) == bool((in_f | ~in_g).all())
    assert (f == g) == bool((in_f == in_g).all()), "equal exactly when no time tells them apart"
    assert f.join(g) == g.join(f)
    assert f.meet(g) == g.meet(f)
    least, closed = Antichain.minimum(lattice), Antichain.of(lattice)
    assert least.less_equal_frontier(f)
    assert f.less_equal_frontier(closed)
    assert (f.join(closed), f.meet(closed), f.join(least), f.meet(least)) == (closed, f, f, least)


@each_lattice
@quick
@given(data=st.data())
def test_frontiers_form_a_lattice(name: str, data: st.DataObject) -> None:
    lattice, times = grid(name)
    check_frontier_laws(lattice, times, data.draw(frontiers(lattice, times)), data.draw(frontiers(lattice, times)))


def test_frontiers_form_a_lattice_for_every_pair_on_a_plane() -> None:
    plane = Product(E, E)
    listed = values(plane, 3)
    times = plane.from_pylist(listed)
    every = {Antichain.of(plane, *some) for k in range(4) for some in itertools.combinations(listed, k)}
    assert len(every) == 20, "as many antichains as monotone paths through the grid"
    for f, g in itertools.product(every, repeat=2):
        check_frontier_laws(plane, times, f, g)


# ---- advancing


@each_lattice
@quick
@given(data=st.data())
def test_advancing_keeps_what_readers_see_and_merges_what_they_cannot_tell_apart(
    name: str, data: st.DataObject
) -> None:
    lattice, times = grid(name)
    frontier = data.draw(frontiers(lattice, times))
    readers = times[:, frontier.less_equal(times)]
    advanced = frontier.advance(times)
    seen = below(lattice, times, readers)
    assert (below(lattice, advanced, readers) == seen).all(), "preservation: readers compare as before"
    folded = lattice.equal(*pairs(advanced, advanced)).reshape(times.shape[1], -1)
    alike = (seen[:, None, :] == seen[None, :, :]).all(axis=2)
    assert (folded == alike).all(), "progress: times that no reader tells apart become one, and no others"
    assert (frontier.advance(advanced) == advanced).all(), "idempotent"
    assert lattice.less_equal(times, advanced).all(), "never backwards"


@each_lattice
@quick
@given(data=st.data())
def test_advancing_at_the_ends_of_int64(name: str, data: st.DataObject) -> None:
    lattice, _ = LATTICES[name]
    times, frontier = data.draw(arrays(lattice)), Antichain(lattice, data.draw(arrays(lattice, largest=3)))
    advanced = frontier.advance(times)
    candidates = lattice.join(*pairs(times, frontier.elements))
    readers = np.concatenate([candidates, frontier.elements], axis=1)
    assert (below(lattice, advanced, readers) == below(lattice, times, readers)).all()
    assert (frontier.advance(advanced) == advanced).all()


@each_lattice
def test_a_closed_frontier_has_no_reader_so_every_time_becomes_one(name: str) -> None:
    lattice, times = grid(name)
    assert (Antichain.of(lattice).advance(times) == lattice.maximum()).all()
    assert Antichain.of(lattice).advance(times).shape == times.shape


def test_joins_of_advanced_times_need_advancing_again_over_partial_moments() -> None:
    moments = AltNeu(Product(E, E))
    a, b = moments.from_python(alt((0, 1))), moments.from_python(alt((1, 0)))
    frontier = Antichain.of(moments, alt((2, 0)), neu((0, 2)))
    join = frontier.advance(moments.join(a, b))
    joined = moments.join(frontier.advance(a), frontier.advance(b))
    assert moments.format(join) != moments.format(joined)
    assert (frontier.advance(joined) == join).all()


# ---- values


def test_a_total_frontier_is_a_plain_int() -> None:
    frontier = Antichain.of(E, 7, 3, 5)
    assert (frontier.least, len(frontier), frontier.elements.tolist()) == (3, 1, [[3]])
    assert Antichain.of(AltNeu(E), neu(3)).least == 7
    assert Antichain.of(Product(E, E), (1, 1)).least is None
    assert Antichain.of(E).least is None
    assert Antichain.of(E, 0) != Antichain.of(AltNeu(E), alt(0))


def test_frontiers_print_and_do_not_change() -> None:
    frontier = Antichain.of(AltNeu(Product(E, E)), neu((0, 1)), alt((1, 0)), neu((1, 0)))
    assert repr(frontier) == "Antichain({neu((0, 1)), alt((1, 0))})"
    assert repr(Antichain.of(E)) == "Antichain({})"
    with pytest.raises(AttributeError, match="immutable"):
        frontier.least = 3
    with pytest.raises(ValueError, match="read-only"):
        frontier.elements[0, 0] = 3
    with pytest.raises(ValueError, match="read-only"):
        Antichain.of(E, 3).elements[0, 0] = 4


@each_lattice
def test_lattices_are_values(name: str) -> None:
    lattice, times = grid(name)
    copy = pickle.loads(pickle.dumps(lattice))  # noqa: S301 -- made here
    assert (copy, hash(copy), repr(copy)) == (lattice, hash(lattice), repr(lattice))
    assert (copy.width, copy.is_total) == (lattice.width, lattice.is_total)
    assert eval(repr(lattice), vars(order)) == lattice  # noqa: S307 -- the repr is the constructor call
    assert [other for other in NAMES if LATTICES[other][0] == lattice] == [name]
    with pytest.raises(AttributeError):
        lattice.width = 9
    listed = values(*LATTICES[name])
    assert lattice.to_pylist(times) == listed
    assert [lattice.to_python(lattice.from_python(value)) for value in listed] == listed
    assert [lattice.format(times[:, i]) for i in range(len(listed))] == [repr(value) for value in listed]


def test_times_are_never_compared_as_python_values() -> None:
    for a, b in ((alt(1), neu(1)), (Antichain.of(E, 1), Antichain.of(E, 2)), (E, E)):
        with pytest.raises(TypeError, match="not supported"):
            _ = a < b
        with pytest.raises(TypeError, match="not supported"):
            _ = a <= b


BAD = [
    (E, -1),
    (E, 2**63),
    (E, True),
    (E, 1.0),
    (E, "1"),
    (E, None),
    (Product(E, E), 3),
    (Product(E, E), (1,)),
    (Product(E, E), (1, 2, 3)),
    (Product(E, E), (1, -2)),
    (AltNeu(E), 3),
    (AltNeu(E), (3, 1)),
    (AltNeu(E), alt(2**62)),
    (AltNeu(AltNeu(E)), alt(neu(2**61))),
]


@pytest.mark.parametrize(("lattice", "value"), BAD, ids=[f"{lattice}-{value}" for lattice, value in BAD])
def test_a_value_that_is_no_time_is_refused(lattice: Lattice, value: object) -> None:
    with pytest.raises(TimeRangeError):
        lattice.from_python(value)
    with pytest.raises(TimeRangeError):
        Antichain.of(lattice, value)


def test_a_packed_moment_that_leaves_int64_is_refused() -> None:
    moments = AltNeu(E)
    edge = E.from_python(2**62 - 1)
    assert moments.neu(edge).tolist() == [[LARGEST]]
    assert (moments.unwrap(moments.alt(edge)) == edge).all()
    assert moments.is_neu(moments.from_pylist([alt(2**62 - 1), neu(2**62 - 1)])).tolist() == [False, True]
    for wrap in (moments.alt, moments.neu):
        with pytest.raises(TimeRangeError, match="too large"):
            wrap(np.array([[0, 2**62]]))
        with pytest.raises(TimeRangeError, match="too large"):
            wrap(np.array([[-(2**62) - 1]]))


def test_lattices_are_built_from_lattices() -> None:
    for build in (Product, lambda: Product(E, 3), lambda: AltNeu(3)):
        with pytest.raises(TypeError, match="needs"):
            build()
