"""Sums of a column over the rows of ordered groups up to some place, without reading these rows.

Of each block the exact sums of every ``CHUNK`` rows are kept, added up from its beginning on: half a byte a row,
computed when they are first needed. A sum over a run of rows is the difference of two of them, and
the rows of at most two chunks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.columns import Mask, valid_mask
from altneu.columnar.rows import Ints
from altneu.compiled import compiled
from altneu.operators.kernels.exact_sum import INTEGER, NULLS, STRIDE, add_value, bump
from altneu.operators.kernels.located import Located, NewRows, column_of
from altneu.operators.reduce.accumulate import words_of
from altneu.trace.batch import Block

CHUNK = 1024
_LARGEST_SUM = float(2**62)
_ALL_VALID = np.empty(0, np.bool_)


@dataclass(frozen=True)
class SkippedRows:
    """Rows of some keys that were not read: of each run of ``located.hits`` those before ``upto``, but for some.

    Shape:  ``read`` are the runs before that were read all the same. ``units`` (K,) how many rows were not, counted as
            often as they are there; ``peers`` (K,) how many distinct values of the order they have.
    """

    located: Located
    upto: Ints
    read: Ints
    units: Ints
    peers: Ints

    def sums(self, name: str, kind: int) -> Ints:
        """The exact sums of a column over the rows of each key, (K, STRIDE)."""
        result = np.zeros((len(self.units), STRIDE), np.int64)
        columns, diffs, keys = [], [], []
        for (key, number, start, _), stop in zip(self.located.hits.tolist(), self.upto.tolist(), strict=True):
            block = self.located.used[number]
            first, last = -(-start // CHUNK), -(-stop // CHUNK) if stop == len(block) else stop // CHUNK
            rest = [(start, stop)]
            if first < last:
                sums = _chunks(block, name, kind).sums
                result[key] += sums[last] - sums[first]
                rest = [(start, first * CHUNK), (last * CHUNK, stop)]
            for low, high in rest:
                if low < high:
                    columns.append(column_of(block, name, low, high))
                    diffs.append(block.diffs_at(slice(low, high)))
                    keys.append(np.full(high - low, key))
        for key, number, low, high in self.read.tolist():
            block = self.located.used[number]
            columns.append(column_of(block, name, low, high))
            diffs.append(-block.diffs_at(slice(low, high)))
            keys.append(np.full(high - low, key))
        if columns:
            words = _words(pa.concat_arrays(columns), kind)
            _add_rows(result, np.concatenate(keys), *words, np.concatenate(diffs), kind)
        return result


def may_leave_range(located: Located, new: NewRows, names: tuple[str, ...]) -> Mask:
    """Of which keys sums of whole numbers of 64 bits might leave their range, at some time and of some of the rows.

    Cost:   one addition for each chunk of a block that is used.
    """
    count = new.keys.count
    result = np.zeros(count, np.bool_)
    for name in names:
        total = np.zeros(count, np.float64)
        for key, number, start, stop in located.hits.tolist():
            sizes = _chunks(located.used[number], name, INTEGER).sizes
            total[key] += sizes[-(-stop // CHUNK)] - sizes[start // CHUNK]
        low, _, valid = _words(new.values.column(name), INTEGER)
        added = np.abs(low.astype(np.float64)) * np.abs(new.diffs.astype(np.float64))
        np.add.at(total, new.number, np.where(valid, added, 0.0) if len(valid) else added)
        result |= ~(total < _LARGEST_SUM)
    return result


@dataclass(frozen=True)
class _Chunks:
    """Sums of a column over the first chunks of a block.

    Shape:  over the first c chunks the exact ``sums`` (C + 1, STRIDE); of absolute values ``sizes`` (C + 1,).
    """

    sums: Ints
    sizes: npt.NDArray[np.float64]


def _chunks(block: Block, name: str, kind: int) -> _Chunks:
    """Those of a block, which keeps them."""
    kept: dict[tuple[str, int], _Chunks] = block.__dict__.setdefault("#chunks", {})
    if (name, kind) not in kept:
        kept[name, kind] = _Chunks(
            *_add_chunks(*_words(column_of(block, name, 0, len(block)), kind), block.diffs, kind)
        )
    return kept[name, kind]


def _words(column: pa.Array, kind: int) -> tuple[Ints, Ints, Mask]:
    """Low and high words of a column, and which values are not null; of none, where all are."""
    low, high = np.zeros(len(column), np.int64), np.zeros(len(column), np.int64)
    words_of(column, kind, low, high)
    return low, high, valid_mask(column) if column.null_count else _ALL_VALID


@compiled()
def _add_row(sums: Ints, row: int, low: Ints, high: Ints, valid: Mask, diff: int, kind: int, digits: Ints) -> None:
    if len(valid) > 0 and not valid[row]:
        bump(sums, NULLS, diff)
    else:
        add_value(sums, 0, kind, low[row], high[row], diff, digits)


@compiled()
def _add_rows(result: Ints, key: Ints, low: Ints, high: Ints, valid: Mask, diffs: Ints, kind: int) -> None:
    """Add rows to the sums of their keys."""
    digits = np.zeros(8, np.int64)
    for row in range(len(key)):
        _add_row(result[key[row]], row, low, high, valid, diffs[row], kind, digits)


@compiled()
def _add_chunks(low: Ints, high: Ints, valid: Mask, diffs: Ints, kind: int) -> tuple[Ints, npt.NDArray[np.float64]]:
    """The sums of all rows before each chunk, and of those of a last one that is shorter."""
    chunks = -(-len(diffs) // CHUNK)
    sums, sizes = np.zeros((chunks + 1, STRIDE), np.int64), np.zeros(chunks + 1, np.float64)
    digits = np.zeros(8, np.int64)
    for chunk in range(chunks):
        sums[chunk + 1], sizes[chunk + 1] = sums[chunk], sizes[chunk]
        for row in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(diffs))):
            _add_row(sums[chunk + 1], row, low, high, valid, diffs[row], kind, digits)
            if kind == INTEGER and (len(valid) == 0 or valid[row]):
                sizes[chunk + 1] += abs(float(low[row])) * abs(float(diffs[row]))
    return sums, sizes
