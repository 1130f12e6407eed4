"""What tests of sessions share."""

from __future__ import annotations

import pytest

from altneu.columnar.columns import Stack
from altneu.operators.kernels import located
from altneu.trace import batch


@pytest.fixture
def read(monkeypatch):
    """How many rows of batches are read, counted."""
    counts = [0]
    take, matches, located_in = Stack.take, batch.Matches, located.matches_in

    def taken(self, rows):
        counts[-1] += len(rows)
        return take(self, rows)

    def matched(probe, *rest):
        counts[-1] += len(probe)
        return matches(probe, *rest)

    def read_in_order(runs, *rest):
        made = located_in(runs, *rest)
        counts[-1] += len(made) if len(runs) > 1 else 0  # one run is counted as matches
        return made

    monkeypatch.setattr(Stack, "take", taken)
    monkeypatch.setattr(located, "matches_in", read_in_order)
    monkeypatch.setattr(batch, "Matches", matched)
    return counts
