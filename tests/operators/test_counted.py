"""The word at a place of an ordered group, against all of its units in order; and how many runs are looked at."""

from __future__ import annotations

import numpy as np
import pytest

from altneu.columnar.lookup import LAST_WORD
from altneu.operators.kernels import counted


class Runs:
    """A group's runs: words in order, and the diffs of their rows, as kernels see them."""

    def __init__(self, words, diffs):
        self.words = [np.sort(np.array(run, np.uint64)) for run in words]
        self.diffs = [np.array(run, np.int64) for run in diffs]
        self.sums = [np.concatenate([[0], np.cumsum(run)]) for run in self.diffs]
        self.hits = np.array([[0, i, 0, len(run)] for i, run in enumerate(self.words)], np.int64).reshape(-1, 4)
        lines = [(run.ctypes.data, 8, 0) for run in self.words]
        known = [(run.ctypes.data, 0) for run in self.sums]
        self.blocks = np.array(known, np.int64).reshape(-1, 2), np.array(lines, np.int64).reshape(-1, 3)

    def word_at(self, place, kernel=counted.word_at):
        return int(kernel(self.hits, self.hits[:, 2].copy(), 0, len(self.hits), self.blocks, place))

    def in_order(self):
        """The word of each unit, found by sorting: updates that cancel leave none."""
        words, diffs = (np.concatenate([np.empty(0, one[0].dtype), *one]) for one in (self.words, self.diffs))
        distinct, at = np.unique(words, return_inverse=True)
        return np.repeat(distinct, np.bincount(at, diffs, len(distinct)).astype(np.int64)).tolist()


@pytest.mark.parametrize("most", [3, 40, 2**64 - 1])
def test_the_word_at_every_place(most):
    """Batches of several blocks, empty runs, words that are in many of them, and rows that cancel across batches."""
    rng = np.random.default_rng(most % 1000)
    for _ in range(60):
        words, diffs = [], []
        for _ in range(rng.integers(1, 4)):
            batch = np.sort(rng.integers(0, most, rng.integers(0, 30), np.uint64, endpoint=True))
            for block in np.array_split(batch, rng.integers(1, 4)):
                words.append(block)
                diffs.append(rng.integers(1, 4, len(block)))
        gone = rng.integers(0, len(words))
        words.append(words[gone])
        diffs.append(-diffs[gone])  # a later batch takes back what an earlier one had
        runs = Runs(words, diffs)
        expected = runs.in_order()
        assert [runs.word_at(place) for place in range(len(expected))] == expected
        assert runs.word_at(len(expected)) == LAST_WORD


@pytest.mark.parametrize("place", [0.0, 0.5, 1.0])
def test_few_runs_are_looked_at_whatever_the_size_of_the_group(place, monkeypatch):
    """Each run once or twice, and those that may have the place as often as it takes to halve what is left."""
    looked = []
    find = counted.first_word
    monkeypatch.setattr(counted, "first_word", lambda *given: looked.append(given[1]) or find(*given))
    plain = getattr(counted.word_at, "py_func", counted.word_at)
    beyond = []
    for n in (1_000, 100_000):
        blocks = np.array_split(np.arange(n), n // 100)
        runs = Runs([*blocks, [n // 2]], [*(np.ones(len(block)) for block in blocks), [1]])
        looked.clear()
        wanted = int(place * n)
        assert runs.word_at(wanted, plain) == runs.in_order()[wanted]
        beyond.append(len(looked) - 3 * len(runs.hits))
        assert beyond[-1] <= 8 * np.log2(n)
