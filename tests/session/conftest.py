"""What tests of sessions share."""

from __future__ import annotations

import pytest

from altneu.columnar.columns import Stack
from altneu.operators.kernels import small_ends
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

    for name, place in (("_first_rows", 1), ("_extremes", 2)):
        kernel = getattr(small_ends, name)

        def walked(*given, kernel=kernel, place=place):
            result = kernel(*given)
            counts[-1] += max(result[place], 0)
            return result

        monkeypatch.setattr(small_ends, name, walked)
    monkeypatch.setattr(Stack, "take", taken)
    monkeypatch.setattr(batch, "Matches", matched)
    return counts
