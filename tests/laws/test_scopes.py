"""Times of scopes inside one another: lifted, and taken apart into rounds and the rest."""

from __future__ import annotations

import numpy as np
import pytest

from altneu.order import (
    AltNeu,
    Antichain,
    Epoch,
    Product,
    Rounds,
    epochs,
    fixed,
    lifted,
    lifted_frontier,
    parted,
    placed,
)

PLANE = Product(Epoch(), Epoch())
CHAINS = [
    [Epoch(), AltNeu(Epoch()), AltNeu(AltNeu(Epoch())), Rounds(AltNeu(AltNeu(Epoch())), 1)],
    [
        Epoch(),
        Rounds(Epoch(), 1),
        Rounds(Epoch(), 2),
        AltNeu(Rounds(Epoch(), 2)),
        Rounds(AltNeu(Rounds(Epoch(), 2)), 1),
    ],
    [Epoch(), PLANE, AltNeu(PLANE), AltNeu(AltNeu(PLANE))],
    [Epoch(), PLANE, Rounds(PLANE, 1), AltNeu(Rounds(PLANE, 1)), Rounds(AltNeu(Rounds(PLANE, 1)), 2)],
]
PAIRS = [(chain[i], chain[j]) for chain in CHAINS for j in range(len(chain)) for i in range(j + 1)]
SCOPES = list(dict.fromkeys(lattice for chain in CHAINS for lattice in chain))


def all_times(lattice):
    """Every time of small coordinates."""
    match lattice:
        case AltNeu():
            inner = all_times(lattice.inner)
            return np.concatenate([lattice.alt(inner), lattice.neu(inner)], axis=1)
        case Product():
            parts = [all_times(f) for f in lattice.factors]
            index = np.indices([p.shape[1] for p in parts]).reshape(len(parts), -1)
            return np.concatenate([p[:, i] for p, i in zip(parts, index, strict=True)])
        case _:
            return np.arange(3, dtype=np.int64)[None]


@pytest.mark.parametrize(("below", "above"), PAIRS)
def test_lifting_keeps_order_and_joins(below, above):
    times = all_times(below)
    inside = lifted(times, below, above)
    some = np.arange(times.shape[1])
    a, b = some.repeat(len(some)), np.tile(some, len(some))
    for operation in ("less_equal", "join"):  # of two moments of times apart the meet is neu
        outer = getattr(below, operation)(times[:, a], times[:, b])
        inner = getattr(above, operation)(inside[:, a], inside[:, b])
        assert np.array_equal(inner, lifted(outer, below, above) if outer.ndim == 2 else outer)
    assert np.array_equal(epochs(above, inside), epochs(below, times))
    least = lifted(below.minimum(), below, above)
    assert above.less_equal(least.repeat(all_times(above).shape[1], axis=1), all_times(above)).all()


@pytest.mark.parametrize("above", SCOPES)
def test_what_lies_beyond_a_lifted_frontier_comes_from_beyond_it(above):
    """A moment or a round of a time is at or beyond a frontier when the time is."""
    times = all_times(above)
    for epoch in range(4):
        frontier = Antichain.of(Epoch(), epoch)
        beyond = lifted_frontier(frontier, above).less_equal(times)
        assert np.array_equal(beyond, epochs(above, times) >= epoch)
        assert np.array_equal(lifted_frontier(frontier, fixed(above)).less_equal(parted(above, times)[0]), beyond)


@pytest.mark.parametrize("lattice", SCOPES)
def test_rounds_and_the_rest_make_the_time(lattice):
    times = all_times(lattice)
    rest, rounds = parted(lattice, times)
    assert np.array_equal(placed(lattice, rest, rounds), times)
    assert len({(*r, *t) for r, t in zip(rounds.T.tolist(), rest.T.tolist(), strict=True)}) == times.shape[1]
    a, b = np.triu_indices(times.shape[1])
    alike = (rounds[:, a] == rounds[:, b]).all(axis=0)
    a, b = a[alike], b[alike]
    assert np.array_equal(
        fixed(lattice).less_equal(rest[:, a], rest[:, b]), lattice.less_equal(times[:, a], times[:, b])
    )


def test_only_scopes_further_in_can_be_lifted_to():
    with pytest.raises(TypeError, match="is not inside"):
        lifted(np.array([[1]]), AltNeu(Epoch()), Epoch())
