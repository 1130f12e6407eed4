"""Samples: updates whose hash is below a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from altneu.columnar.hashing import Hashes, full_hashes
from altneu.operators.base import Here, Outputs, RowByRow
from altneu.operators.node import Key


@dataclass(frozen=True)
class SampleOp(RowByRow, tag="SampleOp", kind="sample"):
    """The updates whose hash of some columns, mixed with a seed, is among the least ``fraction`` of all hashes.

    Mixed once more, it says nothing of the shard of a row, which is chosen by the hash itself.
    """

    at_each_time = True

    key: Key
    fraction: float
    seed: int

    def step(self, here: Here) -> Outputs:
        """A part of the updates."""
        updates = here.one()
        if updates is None:
            return [None]
        hashes = _mixed(full_hashes(updates.rows, self.key), self.seed)
        return [updates.filter(hashes <= np.uint64(bound_of(self.fraction)))]


def bound_of(fraction: float) -> int:
    """The greatest of the least ``fraction`` of all 64-bit words."""
    return max(min(int(fraction * 2.0**64), 2**64) - 1, 0)


def _mixed(hashes: Hashes, seed: int) -> Hashes:
    return _mix(hashes ^ _mix(np.array([seed], np.uint64)))


def _mix(words: Hashes) -> Hashes:
    """SplitMix64 of each word."""
    z = words + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
