"""The rows of a group whose frames, from one value of the order to another, may have a row that a step touches.

How far frames reach is measured in words of the order (``ranking.order_words``): the greatest distance of a row's word
from those of its bounds, over all rows of the blocks that hold the group and those that are new. For whole numbers,
dates and timestamps that is the distance that the frame was written with. A row with a touched one in its frame is not
farther from it than that, and its frame ends at twice the distance. What is read between is all that there is; a row
that is farther away has, at all times, what it had before (``around``). That holds where no row's count is below zero:
groups that have such a row are read whole.
"""

from __future__ import annotations

import numpy as np

from altneu.columnar.columns import Mask
from altneu.columnar.lookup import LAST_WORD, ONE, first_word
from altneu.columnar.ranking import Order, Words, order_words
from altneu.columnar.rows import Ints, Rows
from altneu.compiled import compiled
from altneu.operators.kernels.located import NewRows, OldRows, joined_runs, put_run
from altneu.operators.reduce.node import Within
from altneu.trace.batch import Block, Matches


def within_of(needed: Within, new: NewRows, old: OldRows) -> Matches:
    """The old updates that may share a frame with those that are new, by key; ``new`` has all that is new.

    Shape:  ``old`` in the order of one column.
    Cost:   the rows at twice the distance that frames have, and two bisections in each batch. Of each block one number,
            derived from its rows.
    Law:    functions of such frames change of these rows as of the whole groups (tests/operators/test_within.py).
    """
    located, far = old.located, farthest(needed.bounds, new, old)
    order = np.lexsort((new.words, new.number))
    touched = new.number[order], new.words[order]
    return old.read(joined_runs(_runs_within(located.hits, located.words, *touched, far, old.whole_up_to())))


def farthest(bounds: tuple[str, ...], new: NewRows, old: OldRows) -> Words:
    """How far, in words of the order, frames of each key reach that end at values of some columns."""
    located = old.located
    far = np.zeros(new.keys.count, np.uint64)
    spans = np.array([_span(block, bounds) for block in located.used], np.uint64)
    np.maximum.at(far, located.hits[:, 0], spans[located.hits[:, 1]])
    np.maximum.at(far, new.number, _distances(new.values, new.words, bounds, old.layout.order[0]))
    return far


def _span(block: Block, bounds: tuple[str, ...]) -> int:
    """The greatest distance in a block, which keeps it."""
    kept: dict[tuple[str, ...], int] = block.__dict__.setdefault("#spans", {})
    if bounds not in kept:
        distances = _distances(block.values, block.value_hash, bounds, block.layout.order[0])
        kept[bounds] = int(distances.max())
    return kept[bounds]


def _distances(values: Rows, words: Words, bounds: tuple[str, ...], order: Order) -> Words:
    """How far each row's word is from those of its bounds."""
    _, descending, nulls_first = order
    result = np.zeros(len(words), np.uint64)
    for name in bounds:
        ends = order_words(values.column(name), descending=descending, nulls_first=nulls_first)
        np.maximum(result, np.where(ends > words, ends - words, words - ends), out=result)
    return result


@compiled()
def _runs_within(hits: Ints, lines: Ints, number: Ints, words: Words, far: Words, whole: Mask) -> Ints:
    """Twice ``far`` from each word of a key, as runs; keys and their words ascend."""
    out, count, low = np.empty((2 * len(hits) + 8, 4), np.int64), 0, 0
    for h in range(len(hits)):
        key, block = hits[h, 0], hits[h, 1]
        while low < len(number) and number[low] < key:
            low += 1
        at, n = hits[h, 2], low
        while at < hits[h, 3] and (whole[key] or (n < len(number) and number[n] == key)):
            stop = hits[h, 3]
            if not whole[key]:
                reach = far[key] + min(far[key], LAST_WORD - far[key])
                at = first_word(lines, block, at, hits[h, 3], words[n] - min(words[n], reach))
                if LAST_WORD - words[n] > reach:
                    stop = first_word(lines, block, at, hits[h, 3], words[n] + reach + ONE)
                n += 1
            out, count = put_run(out, count, key, hits[h, 1], at, stop)
            at = stop
    return out[:count].copy()
