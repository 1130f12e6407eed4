"""How much of the costly tests a run takes: some of each, or all of them with ``ALTNEU_EVERY=1``."""

from __future__ import annotations

import os

EVERY = bool(os.environ.get("ALTNEU_EVERY"))


def seeds(every: int, some: int) -> range:
    """The seeds of a property test: as many as it takes, or the first of them."""
    return range(every if EVERY else some)
