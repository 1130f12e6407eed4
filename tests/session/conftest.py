"""What tests of sessions share."""

from __future__ import annotations

import pytest

from altneu.columnar.columns import Stack
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

    monkeypatch.setattr(Stack, "take", taken)
    monkeypatch.setattr(batch, "Matches", matched)
    return counts
