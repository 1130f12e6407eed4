"""Laws of interesting times and of the joins of two chains: against the joins of all subsets, in each lattice."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from altneu.order import AltNeu, Antichain, Epoch, Lattice, Product, chains, closure, sweeps
from altneu.order.closure import chain_joins, due_and_pended, interesting_times
from altneu.order.lattice import Mask, Times
from altneu.order.sweeps import Ints
from tests.laws.order_cases import LATTICES as NINE
from tests.laws.order_cases import values

E = Epoch()
PLANE, SPACE = Product(E, E), Product(E, E, E)
LATTICES: dict[str, tuple[Lattice, int]] = NINE | {
    "Product(E,E,E)": (SPACE, 3),
    "Product(E,E,E,E)": (Product(E, E, E, E), 3),
    "Product(E,AltNeu(E),E,E,E)": (Product(E, AltNeu(E), E, E, E), 2),
}
GRIDS = {name: lattice.from_pylist(values(lattice, n)) for name, (lattice, n) in LATTICES.items()}
each_lattice = pytest.mark.parametrize("name", sorted(LATTICES))
quick = settings(max_examples=40, deadline=None)

Time = tuple[int, ...]
History = tuple[Ints, Times, Mask]


# ---- the oracle


def closed(lattice: Lattice, times: Times, new: Mask) -> set[Time]:
    """All joins of non-empty sets with a new element: pairs are joined until nothing comes of it."""
    actual = set(zip(map(tuple, times.T.tolist()), new.tolist(), strict=True))
    while True:
        listed, marked = np.array([t for t, _ in actual]).T, np.array([n for _, n in actual])
        i, j = (index.ravel() for index in np.indices((len(marked), len(marked))))
        joins = lattice.join(listed[:, i], listed[:, j])
        more = actual | set(zip(map(tuple, joins.T.tolist()), (marked[i] | marked[j]).tolist(), strict=True))
        if len(more) == len(actual):
            return {time for time, is_new in actual if is_new}
        actual = more


def expected(lattice: Lattice, history: History) -> list[tuple[int, Time]]:
    groups, times, new = history
    return [
        (int(g), time)
        for g in np.unique(groups)
        for time in sorted(closed(lattice, times[:, groups == g], new[groups == g]))
    ]


def listed(found: tuple[Ints, Times]) -> list[tuple[int, Time]]:
    groups, times = found
    assert (groups.dtype, times.dtype) == (np.int64, np.int64)
    return list(zip(groups.tolist(), map(tuple, times.T.tolist()), strict=True))


def check(lattice: Lattice, history: History) -> None:
    assert listed(interesting_times(lattice, *history)) == expected(lattice, history)


def one_group(times: Times, new: Mask) -> History:
    return np.full(times.shape[1], 7), times, new


def histories(name: str, largest: int = 12) -> st.SearchStrategy[History]:
    """Updates of up to three groups at times of the lattice's grid, in any order, with repeats, some of them new."""
    update = st.tuples(st.sampled_from([-5, 0, 2**40]), st.integers(0, GRIDS[name].shape[1] - 1), st.booleans())

    def as_arrays(updates: list[tuple[int, int, bool]]) -> History:
        groups, picked, new = (list(column) for column in zip(*updates, strict=True))
        return np.array(groups), GRIDS[name][:, picked], np.array(new)

    return st.lists(update, min_size=1, max_size=largest).map(as_arrays)


# ---- interesting times


@each_lattice
@quick
@given(data=st.data())
def test_the_joins_of_all_subsets_with_a_new_element_and_no_others(name: str, data: st.DataObject) -> None:
    check(LATTICES[name][0], data.draw(histories(name)))


@each_lattice
def test_random_histories(name: str) -> None:
    lattice, rng = LATTICES[name][0], np.random.default_rng(len(name))
    for _ in range(60):
        n, grid = int(rng.integers(1, 25)), GRIDS[name]
        times = grid[:, rng.integers(0, grid.shape[1], n)]
        check(lattice, (rng.integers(0, 4, n), times, rng.random(n) < rng.random()))


@each_lattice
def test_no_updates_and_nothing_new_are_no_times(name: str) -> None:
    lattice, grid = LATTICES[name][0], GRIDS[name]
    for n in (0, grid.shape[1]):
        groups, actual = interesting_times(lattice, np.arange(n), grid[:, :n], np.zeros(n, np.bool_))
        assert (groups.shape, actual.shape) == ((0,), (lattice.width, 0))
        assert (groups.dtype, actual.dtype) == (np.int64, np.int64)


@each_lattice
def test_many_groups_are_as_each_alone(name: str) -> None:
    lattice, grid = LATTICES[name][0], GRIDS[name]
    rng = np.random.default_rng(3)
    n = 4_000
    groups, new = rng.integers(0, 1_000, n) * 10**15, rng.random(n) < 0.3
    times = grid[:, rng.integers(0, grid.shape[1], n)]
    together = interesting_times(lattice, groups, times, new)
    alone = [
        interesting_times(lattice, groups[m], times[:, m], new[m]) for m in (groups == g for g in np.unique(groups))
    ]
    assert (together[0] == np.concatenate([g for g, _ in alone])).all()
    assert (together[1] == np.concatenate([t for _, t in alone], axis=1)).all()


@pytest.mark.parametrize("lattice", [E, PLANE, SPACE, Product(E, E, E, E), AltNeu(PLANE)], ids=repr)
def test_far_times_up_to_the_ends_of_int64(lattice: Lattice) -> None:
    rng = np.random.default_rng(4)
    far = np.array([-(2**63), -(2**62), -1, 0, 10**6, 10**15, 2**63 - 1])
    for _ in range(40):
        n = int(rng.integers(1, 8))
        times = far[rng.integers(0, len(far), (lattice.width, n))]
        if not lattice.is_columnwise:
            times[-1] &= 1
        check(lattice, (rng.integers(0, 2, n), times, rng.random(n) < 0.5))


def test_more_groups_than_are_laid_out_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(closure, "BLOCK", 8)
    rng = np.random.default_rng(5)
    for width in (4, 5):
        times = rng.integers(0, 3, (width, 30))
        check(Product(*[E] * width), (rng.integers(0, 5, 30), times, rng.random(30) < 0.4))


@contextmanager
def python_calls() -> Iterator[list[str]]:
    """Every function that Python calls, its own and compiled ones."""
    called: list[str] = []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event in {"call", "c_call"} else None)
    try:
        yield called
    finally:
        sys.setprofile(None)


@each_lattice
def test_no_python_runs_for_each_group(name: str) -> None:
    lattice, rng, counts = LATTICES[name][0], np.random.default_rng(7), []
    for n in (100, 100, 20_000):  # the first compiles
        times, new = GRIDS[name][:, rng.integers(0, GRIDS[name].shape[1], n)], rng.random(n) < 0.5
        with python_calls() as called:
            groups, _ = interesting_times(lattice, rng.permutation(n) // 10, times, new)
        assert len(np.unique(groups)) > n // 11
        counts.append(len(called))
    assert counts[1] == counts[2]


@each_lattice
def test_arrays_of_any_layout_are_taken_and_nothing_is_compiled_for_them(name: str) -> None:
    lattice, grid = LATTICES[name][0], GRIDS[name]
    groups, times, new = np.arange(grid.shape[1]) // 5, np.ascontiguousarray(grid), np.arange(grid.shape[1]) % 3 == 0
    answer, joins = interesting_times(lattice, groups, times, new), chain_joins(lattice, times[:, :1], times[:, -1:])
    kernels = [k for module in (sweeps, chains) for k in vars(module).values() if hasattr(k, "signatures")]
    compiled = [len(kernel.signatures) for kernel in kernels]
    frozen = [array.copy() for array in (groups, times, new)]
    for array in frozen:
        array.flags.writeable = False
    strided = [np.repeat(groups, 2)[::2], np.repeat(times, 2, axis=1)[:, ::2], np.repeat(new, 2)[::2]]
    for given_as in (frozen, strided, [groups, np.asfortranarray(times), new]):
        actual = interesting_times(lattice, *given_as)
        assert listed(actual) == listed(answer)
        assert (chain_joins(lattice, given_as[1][:, :1], given_as[1][:, -1:]) == joins).all()
    assert [len(kernel.signatures) for kernel in kernels] == compiled


# ---- the instances of the post, and others


def lines(n: int) -> tuple[Times, Mask]:
    """(0, 0) to (0, n - 1), and (1, 0) to (1, n - 1), which are new."""
    return np.stack([np.repeat([0, 1], n), np.tile(np.arange(n), 2)]), np.arange(2 * n) >= n


def grid(n: int) -> tuple[Times, Mask]:
    """(0, 0) to (0, n - 1), and (0, 0) to (n - 1, 0), which are new."""
    up, zero = np.arange(n), np.zeros(n, np.int64)
    return np.concatenate([[zero, up], [up, zero]], axis=1), np.arange(2 * n) >= n


def diagonal(n: int, width: int = 3) -> tuple[Times, Mask]:
    """The chain (i, i, i), every other time new."""
    return np.tile(np.arange(n), (width, 1)), np.arange(n) % 2 == 0


def many_chains(n: int, seed: int = 0) -> tuple[Times, Mask]:
    """As in loops: for each of some rounds a chain of epochs; the last epochs are new."""
    rng = np.random.default_rng(seed)
    times = np.stack([rng.integers(0, n, n), rng.integers(0, 10, n)])
    return times, times[0] >= n - n // 4


def with_gaps(instance: tuple[Times, Mask], seed: int) -> tuple[Times, Mask]:
    """Random elements dropped out, and what is left shuffled."""
    times, new = instance
    kept = np.random.default_rng(seed).permutation(len(new))[: len(new) * 2 // 3]
    return times[:, kept], new[kept]


def flat(times: Times) -> Times:
    """Times of a plane as those of ``AltNeu(plane)``, for the walk along chains."""
    return np.concatenate([times, np.zeros((1, times.shape[1]), np.int64)])


def test_lines_have_as_many_times_as_are_new() -> None:
    times, new = lines(500)
    assert (interesting_times(PLANE, *one_group(times, new))[1] == times[:, 500:]).all()


def test_a_grid_has_all_its_times() -> None:
    actual = interesting_times(PLANE, *one_group(*grid(40)))[1]
    assert actual.T.tolist() == [[x, y] for x in range(40) for y in range(40)]


def test_a_chain_of_three_coordinates_has_its_own_times() -> None:
    times, new = diagonal(300)
    assert (interesting_times(SPACE, *one_group(times, new))[1] == times).all()
    late = np.arange(300) == 100
    assert (interesting_times(SPACE, *one_group(times, late))[1] == times[:, 100:]).all()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "instance", [lines(20), grid(9), many_chains(25), diagonal(20, 2)], ids=["lines", "grid", "chains", "diagonal"]
)
def test_instances_with_random_gaps(instance: tuple[Times, Mask], seed: int) -> None:
    times, new = with_gaps(instance, seed)
    check(PLANE, one_group(times, new))
    check(AltNeu(PLANE), one_group(flat(times), new))


def test_the_algorithms_agree_where_several_apply() -> None:
    """A plane, the same as a space that is flat, as one of four coordinates, and as moments of which all are early."""
    for seed in range(5):
        times, new = with_gaps(many_chains(300, seed), seed)
        answer = interesting_times(PLANE, *one_group(times, new))[1]
        for width in (3, 4):
            for at in range(width - 1):
                wider = np.insert(times, [at] * (width - 2), 5, axis=0)
                actual = interesting_times(Product(*[E] * width), *one_group(wider, new))[1]
                assert (actual == np.insert(answer, [at] * (width - 2), 5, axis=0)).all()
        actual = interesting_times(AltNeu(PLANE), *one_group(flat(times), new))[1]
        assert (actual == flat(answer)).all()


# ---- output-linear: steps are counted, not timed. A line of Python is a step; every time found is one in each of two
# passes, and the bounds are far below the product of the numbers of x and y, which a plain search goes through.


@dataclass
class Steps:
    """Lines that ran in some functions, and how often each function was called."""

    lines: int = 0
    calls: dict[str, int] = field(default_factory=dict)


@contextmanager
def counted(module: object, monkeypatch: pytest.MonkeyPatch) -> Iterator[Steps]:
    """Run the kernels of a module as plain Python and count each line that they execute."""
    steps, bodies = Steps(), set[CodeType]()
    for name, kernel in vars(module).items():
        if hasattr(kernel, "py_func"):
            monkeypatch.setattr(module, name, kernel.py_func)
            bodies.add(kernel.py_func.__code__)

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object] | None:
        if frame.f_code not in bodies:
            return None
        if event == "call":
            steps.calls[frame.f_code.co_name] = steps.calls.get(frame.f_code.co_name, 0) + 1
        steps.lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield steps
    finally:
        sys.settrace(before)
        monkeypatch.undo()


PLANES = {
    "lines": lines(400),
    "lines, new first": (lines(400)[0], ~lines(400)[1]),
    "lines with gaps": with_gaps(lines(600), 1),
    "grid": grid(30),
    "grid with gaps": with_gaps(grid(40), 2),
    "grid, one new": (grid(400)[0], np.arange(800) == 799),
    "diagonal": diagonal(1000, 2),
    "falling": (np.stack([np.arange(300), np.arange(300)[::-1]]), np.arange(300) == 299),
    "chains": many_chains(300),
    "far": (with_gaps(lines(600), 3)[0] * 10**9, with_gaps(lines(600), 3)[1]),
}
SPACES = {
    "chain (i, i, i)": diagonal(1000),
    "one new": (diagonal(1000)[0], np.arange(1000) == 500),
    "grid": (
        np.concatenate([np.eye(3, dtype=np.int64)[:, [i]] * np.arange(8) for i in range(3)], axis=1),
        np.ones(24, bool),
    ),
    "lines": (np.insert(lines(300)[0], 1, 4, axis=0), lines(300)[1]),
    "antichain": (np.stack([np.arange(200), np.arange(200)[::-1], np.zeros(200, np.int64)]), np.arange(200) == 7),
    "chains": (np.insert(many_chains(200)[0], 0, np.arange(200) % 3, axis=0), many_chains(200)[1]),
}


@pytest.mark.parametrize("name", PLANES)
def test_a_sweep_of_the_plane_takes_steps_in_proportion_to_its_output(name: str, monkeypatch) -> None:
    times, new = PLANES[name]
    with counted(sweeps, monkeypatch) as steps:
        _, actual = interesting_times(PLANE, *one_group(times, new))
    assert 2 * actual.shape[1] <= steps.lines <= 45 * (len(new) + actual.shape[1]) + 200
    assert steps.calls["_walk"] <= 2 * actual.shape[1], "each x that is visited has a time"


@pytest.mark.parametrize("name", SPACES)
def test_a_sweep_of_the_space_takes_steps_in_proportion_to_its_output(name: str, monkeypatch) -> None:
    times, new = SPACES[name]
    with counted(sweeps, monkeypatch) as steps:
        _, actual = interesting_times(SPACE, *one_group(times, new))
    logarithm = math.log2(len(new)) + 6
    assert 2 * actual.shape[1] <= steps.lines <= 12 * logarithm * (len(new) + actual.shape[1]) + 200
    assert steps.calls["_walk"] <= 2 * actual.shape[1], "each x that is visited has a time"


@pytest.mark.parametrize(("instance", "chain_count"), [(lines(100), 2), (grid(20), 2), (diagonal(100, 2), 1)])
def test_the_walk_probes_each_chain_once_a_time(instance: tuple[Times, Mask], chain_count: int, monkeypatch) -> None:
    times, new = instance
    with counted(chains, monkeypatch) as steps:
        _, actual = interesting_times(AltNeu(PLANE), *one_group(flat(times), new))
    assert steps.calls["_first_not_below"] == actual.shape[1] * chain_count
    assert steps.calls["_push"] <= new.sum() + actual.shape[1] * chain_count


# ---- two chains


def chain(lattice: Lattice, times: Times) -> Times:
    """Of some times those that make a chain, taken greedily in the linear extension."""
    kept: list[Times] = []
    for i in np.lexsort(lattice.sort_keys(times)[::-1]):
        if not kept or lattice.less_equal(kept[-1], times[:, [i]])[0]:
            kept.append(times[:, [i]])
    return np.concatenate(kept, axis=1)


def check_chain_joins(lattice: Lattice, a: Times, b: Times) -> Times:
    result = chain_joins(lattice, a, b)
    i, j = (index.ravel() for index in np.indices((a.shape[1], b.shape[1])))
    pairs = set(map(tuple, lattice.join(a[:, i], b[:, j]).T.tolist()))
    assert set(map(tuple, result.T.tolist())) == pairs
    assert result.shape[1] == len(pairs), "each once"
    for k in range(result.shape[1]):
        assert not lattice.less_equal(result[:, k + 1 :], result[:, [k]]).any(), "a lesser time comes first"
    return result


@each_lattice
@quick
@given(data=st.data())
def test_the_joins_of_two_chains_each_once(name: str, data: st.DataObject) -> None:
    picks = st.lists(st.integers(0, GRIDS[name].shape[1] - 1), min_size=1, max_size=20)
    lattice = LATTICES[name][0]
    a, b = (chain(lattice, GRIDS[name][:, data.draw(picks)]) for _ in range(2))
    check_chain_joins(lattice, a, b)


@each_lattice
def test_two_chains_of_any_lattice_take_a_step_a_join(name: str, monkeypatch) -> None:
    lattice, rng = LATTICES[name][0], np.random.default_rng(6)
    for _ in range(20):
        a, b = (chain(lattice, GRIDS[name][:, rng.integers(0, GRIDS[name].shape[1], 15)]) for _ in range(2))
        with counted(chains, monkeypatch) as steps:
            result = chain_joins(lattice, a, b)
        assert steps.calls["join"] <= a.shape[1] + result.shape[1]
        assert steps.calls["_first_not_below"] == result.shape[1]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("instance", [lines(40), grid(12)], ids=["lines", "grid"])
def test_the_instances_of_the_post_with_elements_dropped_out(instance: tuple[Times, Mask], seed: int) -> None:
    times, new = with_gaps(instance, seed)
    old, late = (times[:, mask][:, np.lexsort(times[:, mask][::-1])] for mask in (~new, new))
    actual = check_chain_joins(PLANE, old, late)
    both = interesting_times(PLANE, *one_group(times, new))[1]
    assert set(map(tuple, actual.T.tolist())) <= set(map(tuple, both.T.tolist()))


def test_lines_as_two_chains_take_linear_steps(monkeypatch) -> None:
    times, new = lines(300)
    with counted(chains, monkeypatch) as steps:
        result = chain_joins(PLANE, times[:, ~new], times[:, new])
    assert (result == times[:, new]).all()
    assert steps.calls["join"] <= 600


def test_an_empty_chain_has_no_joins_and_what_is_no_chain_is_refused() -> None:
    none, some = PLANE.from_pylist([]), PLANE.from_pylist([(0, 1), (0, 1), (1, 1)])
    assert chain_joins(PLANE, none, some).shape == chain_joins(PLANE, some, none).shape == (2, 0)
    assert PLANE.to_pylist(chain_joins(PLANE, some, some)) == [(0, 1), (1, 1)]
    with pytest.raises(ValueError, match=r"ascending order, and here \(0, 1\), \(1, 0\)"):
        chain_joins(PLANE, some, PLANE.from_pylist([(0, 0), (0, 1), (1, 0)]))


# ---- pended times


@each_lattice
@quick
@given(data=st.data())
def test_what_is_pended_brings_back_all_that_is_beyond(name: str, data: st.DataObject) -> None:
    """Parted at one frontier after the other, what is due makes up the interesting times, each once."""
    lattice = LATTICES[name][0]
    groups, times, new = data.draw(histories(name))
    frontiers = data.draw(st.lists(st.lists(st.integers(0, GRIDS[name].shape[1] - 1), max_size=3), max_size=3))
    actual = interesting_times(lattice, groups, times, new)
    seen: list[tuple[int, Time]] = []
    seeds = groups[new], times[:, new]
    for upper in (*(Antichain(lattice, GRIDS[name][:, picked]) for picked in frontiers), Antichain.of(lattice)):
        waiting = upper.less_equal(seeds[1])
        kept = seeds[0][waiting], seeds[1][:, waiting]
        due, pended = due_and_pended(lattice, *with_seeds(lattice, groups, times, seeds, ~waiting), upper)
        assert not upper.less_equal(due[1]).any()
        assert upper.less_equal(pended[1]).all()
        seen += listed(due)
        seeds = np.concatenate([kept[0], pended[0]]), np.concatenate([kept[1], pended[1]], axis=1)
    assert len(seeds[0]) == 0
    assert sorted(seen) == listed(actual)


def with_seeds(
    lattice: Lattice, groups: Ints, times: Times, seeds: tuple[Ints, Times], due: Mask
) -> tuple[Ints, Times]:
    """The interesting times of a history whose only new times are the seeds that are due."""
    where, at = seeds[0][due], seeds[1][:, due]
    new = np.arange(len(groups) + len(where)) >= len(groups)
    return interesting_times(lattice, np.concatenate([groups, where]), np.concatenate([times, at], axis=1), new)


@each_lattice
@quick
@given(data=st.data())
def test_pended_times_are_the_least_beyond(name: str, data: st.DataObject) -> None:
    lattice = LATTICES[name][0]
    groups, actual = interesting_times(lattice, *data.draw(histories(name)))
    upper = Antichain(
        lattice, GRIDS[name][:, data.draw(st.lists(st.integers(0, GRIDS[name].shape[1] - 1), max_size=3))]
    )
    due, (where, pended) = due_and_pended(lattice, groups, actual, upper)
    beyond = upper.less_equal(actual)
    assert listed(due) == [
        pair for pair, is_beyond in zip(listed((groups, actual)), beyond, strict=True) if not is_beyond
    ]
    for g in np.unique(groups):
        least = Antichain(lattice, actual[:, beyond & (groups == g)])
        assert (pended[:, where == g] == least.elements).all() if len(least) else not (where == g).any()


# ---- the theorem itself


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_the_condition_by_coordinates(width: int) -> None:
    """A time is wanted exactly when something new is at or below it and each coordinate is one of a time below it."""
    rng = np.random.default_rng(width)
    m = {1: 6, 2: 5, 3: 4, 4: 3}[width]
    everything = np.array(list(itertools.product(range(m), repeat=width))).T
    for _ in range(50):
        times = everything[:, rng.integers(0, everything.shape[1], rng.integers(1, 9))]
        new = rng.random(times.shape[1]) < 0.4
        wanted = []
        for time in everything.T:
            at_or_below = (times <= time[:, None]).all(axis=0)
            attained = ((times == time[:, None]) & at_or_below).any(axis=1).all()
            if attained and (at_or_below & new).any():
                wanted.append(tuple(time.tolist()))
        assert set(wanted) == closed(Product(*[E] * width), times, new)
