"""The parts of ordered arrangements that an as-of join has to read: windows around what is new, and no more.

Both sides are arranged by key and, within a key, by their timestamps (``Layout.order``). A *barrier* is a timestamp at
which a right row was there before the step and of which nothing is new: some right row is there throughout. No left
row looks past a barrier, so what is new between two neighbouring barriers concerns only left rows between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from altneu.columnar.columns import load_narrow
from altneu.columnar.hashing import Hashes
from altneu.columnar.lookup import LAST_WORD, ONE, first_word, word_of, word_stretch
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.located import put_run
from altneu.trace.batch import Batch, Layout, Matches, matches_of, runs_of

_FIRST = np.uint64(0)


@dataclass(frozen=True)
class Points:
    """Timestamps, as ``order_words``, around which an as-of join reads.

    Shape:  ``keys`` K distinct rows with ``key_hash``; n points: ``key`` (n,) numbers them, ``word`` (n,) is the
            timestamp, and ``moves`` (n,) says of which the right side may change.
    """

    keys: Rows
    key_hash: Hashes
    key: Ints
    word: Hashes
    moves: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Spans:
    """Spans of timestamps of keys: span i is of ``key[i]``, from ``low[i]`` up to and with ``high[i]``."""

    key: Ints
    low: Hashes
    high: Hashes


@dataclass(frozen=True)
class Windows:
    """Spans between barriers, disjoint, that have all points in them.

    Left rows are read in ``spans``, and only where the right side ``moves`` (W,); right rows in ``reach``, which is a
    barrier wider on both sides where a left row may not meet its own timestamp.
    """

    spans: Spans
    reach: Spans
    moves: npt.NDArray[np.bool_]


def windows(points: Points, old: Sequence[Batch], new: Batch, *, exact: bool) -> Windows:
    """The windows of the points, in order of key and timestamp, for a right side of ``old`` and ``new`` batches.

    Cost:   O(log n) for each point and old batch, unless many timestamps beside it are new or hold nothing.
    """
    order = np.lexsort((points.word, points.key))
    before, after = _lines(points, old), _lines(points, (new,))
    key, edges, moves = _windows(points.key[order], points.word[order], points.moves[order], before, after, not exact)
    return Windows(Spans(key, edges[0], edges[1]), Spans(key, edges[2], edges[3]), moves)


def _lines(points: Points, batches: Sequence[Batch]) -> tuple[Ints, Ints, Ints, Ints]:
    """Where the keys are: runs of rows, where those of each key start, and each block's lines of words and of diffs."""
    hits, used = runs_of(batches, points.key_hash, points.keys)
    words, diffs = (np.array([b.addresses[i] for b in used], np.int64).reshape(-1, 3) for i in (0, 1))
    return hits, np.searchsorted(hits[:, 0], np.arange(points.keys.count + 1)), words, diffs


def between(points: Points, spans: Spans, batches: Sequence[Batch], layout: Layout) -> Matches:
    """The updates of batches in spans, ``probe`` being the span.

    Cost:   O(log n) for each span and batch, and what is found.
    """
    hits, used = runs_of(batches, points.key_hash, points.keys)
    starts = np.searchsorted(hits[:, 0], np.arange(points.keys.count + 1))
    table = np.array([b.addresses[0] for b in used], np.int64).reshape(-1, 3)
    return matches_of(_cut(hits, starts, table, spans.key, spans.low, spans.high), used, layout)


@compiled()
def _cut(hits: Ints, starts: Ints, table: Ints, key: Ints, low: Any, high: Any) -> Ints:
    """Runs cut to spans, as lines (span, block, start, stop)."""
    out = np.empty((len(key) + 8, 4), np.int64)
    count = 0
    for s in range(len(key)):
        for h in range(starts[key[s]], starts[key[s] + 1]):
            start, stop = word_stretch(table, hits[h, 1], hits[h, 2], hits[h, 3], low[s], high[s])
            out, count = put_run(out, count, s, hits[h, 1], start, stop)
    return out[:count]


@compiled()
def _is_new(word: np.uint64, key: int, new: Any) -> bool:
    hits, starts, words, _ = new
    for h in range(starts[key], starts[key + 1]):
        at = first_word(words, hits[h, 1], hits[h, 2], hits[h, 3], word)
        if at < hits[h, 3] and word_of(words, hits[h, 1], at) == word:
            return True
    return False


@compiled()
def _below(word: np.uint64, key: int, old: Any, new: Any, at: Ints) -> np.uint64:
    """The greatest barrier below a word, or the first word when there is none."""
    hits, starts, words, diffs = old
    first, last = starts[key], starts[key + 1]
    for h in range(first, last):
        at[h - first] = first_word(words, hits[h, 1], hits[h, 2], hits[h, 3], word)
    while True:
        best, result = _FIRST, False
        for h in range(first, last):
            if at[h - first] > hits[h, 2]:
                best = max(best, word_of(words, hits[h, 1], at[h - first] - 1))
                result = True
        if not result:
            return _FIRST
        total = 0
        for h in range(first, last):
            p = at[h - first]
            while p > hits[h, 2] and word_of(words, hits[h, 1], p - 1) == best:
                p -= 1
                total += load_narrow(diffs[hits[h, 1], 0], diffs[hits[h, 1], 1], diffs[hits[h, 1], 2], p)
            at[h - first] = p
        if total > 0 and not _is_new(best, key, new):
            return best


@compiled()
def _above(word: np.uint64, key: int, old: Any, new: Any, at: Ints) -> np.uint64:
    """The least barrier above a word, or the last word when there is none."""
    hits, starts, words, diffs = old
    first, last = starts[key], starts[key + 1]
    for h in range(first, last):
        at[h - first] = hits[h, 3]
        if word < LAST_WORD:
            at[h - first] = first_word(words, hits[h, 1], hits[h, 2], hits[h, 3], word + ONE)
    while True:
        best, result = LAST_WORD, False
        for h in range(first, last):
            if at[h - first] < hits[h, 3]:
                best = min(best, word_of(words, hits[h, 1], at[h - first]))
                result = True
        if not result:
            return LAST_WORD
        total = 0
        for h in range(first, last):
            p = at[h - first]
            while p < hits[h, 3] and word_of(words, hits[h, 1], p) == best:
                total += load_narrow(diffs[hits[h, 1], 0], diffs[hits[h, 1], 1], diffs[hits[h, 1], 2], p)
                p += 1
            at[h - first] = p
        if total > 0 and not _is_new(best, key, new):
            return best


@compiled()
def _windows(key: Ints, word: Any, moves: Any, old: Any, new: Any, wide: bool) -> Any:
    """Windows of points that are sorted by key and word: their keys, (low, high, reach low, reach high), and moves."""
    edges = np.empty((4, len(key)), np.uint64)
    keys, moved = np.empty(len(key), np.int64), np.zeros(len(key), np.bool_)
    most = 1
    for k in range(len(old[1]) - 1):
        most = max(most, old[1][k + 1] - old[1][k])
    at = np.empty(most, np.int64)
    count = 0
    for p in range(len(key)):
        again = count > 0 and keys[count - 1] == key[p]
        if not (again and (word[p] < edges[1, count - 1] or edges[1, count - 1] == LAST_WORD)):
            low, high = _below(word[p], key[p], old, new, at), _above(word[p], key[p], old, new, at)
            if not (again and low <= edges[1, count - 1]):
                keys[count], edges[0, count] = key[p], low
                count += 1
            edges[1, count - 1] = high
        moved[count - 1] |= moves[p]
    for w in range(count):
        edges[2, w], edges[3, w] = edges[0, w], edges[1, w]
        if wide:
            edges[2, w] = _below(edges[0, w], keys[w], old, new, at)
            edges[3, w] = _above(edges[1, w], keys[w], old, new, at)
    return keys[:count].copy(), edges[:, :count].copy(), moved[:count].copy()
