"""Random changes of one source, by which a graph is now dense and now sparse."""

from __future__ import annotations


def changes(rng, times, make, sizes):
    """Rows, some of them several times, of which at every time some are replaced, until there are so many."""
    held, updates = [], []
    for time in range(times):
        rng.shuffle(held)
        size = rng.choice(sizes)
        gone, held = held[max(0, size - 2) :], held[: max(0, size - 2)]
        new = [make() if rng.random() < 0.8 or not held else rng.choice(held) for _ in range(size - len(held))]
        held += new
        updates += [(row, time, -1) for row in gone] + [(row, time, 1) for row in new]
    return updates
