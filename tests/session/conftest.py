"""What tests of sessions share."""

from __future__ import annotations

import pytest

from altneu.columnar.columns import Stack
from altneu.operators.kernels import small_around, small_ends
from altneu.trace import batch


@pytest.fixture
def read(monkeypatch):
    """How many rows of batches are read, counted."""
    counts = [0]
    take, matches = Stack.take, batch.Matches

    def taken(self, rows):
        counts[-1] += len(rows)
        return take(self, rows)

    def matched(probe, *rest):
        counts[-1] += len(probe)
        return matches(probe, *rest)

    for module, name, place in (
        (small_ends, "_first_rows", 1),
        (small_ends, "_extremes", 2),
        (small_around, "_stretches", 5),
    ):
        kernel = getattr(module, name)

        def walked(*given, kernel=kernel, place=place):
            result = kernel(*given)
            counts[-1] += max(result[place], 0)
            return result

        monkeypatch.setattr(module, name, walked)
    monkeypatch.setattr(Stack, "take", taken)
    monkeypatch.setattr(batch, "Matches", matched)
    return counts
