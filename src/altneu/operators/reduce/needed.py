"""Groups in order of which only the rows are read that a function needs."""

from __future__ import annotations

import numpy as np

from altneu.columnar.hashing import hash_rows
from altneu.operators.kernels.around import around_of
from altneu.operators.kernels.ends import NewRows, ends_of
from altneu.operators.kernels.groups import Groups, number_new
from altneu.operators.kernels.quantiles import quantiles_of
from altneu.operators.kernels.suffix import suffix_of
from altneu.operators.kernels.within import within_of
from altneu.operators.reduce.node import Around, Ends, Needed, Quantiles, Suffix, Within
from altneu.trace.batch import Arranged, Matches


def read_needed(given: Arranged, needed: Needed, negative: Arranged) -> Groups:
    """The groups that have new updates, with those of their old updates that are needed.

    Shape:  ``given`` in an order of columns; ``negative`` has the number of rows of each key whose count is
            below zero, arranged by the key.
    """
    layout = given.layout
    hashes, keys = given.new.distinct_keys()
    values, words, times, diffs = given.new.updates_by_key()
    new = NewRows(hashes, keys, number_new(given), values, words, diffs)
    skipped = None
    if isinstance(needed, Suffix):
        old, skipped = suffix_of(given, needed, negative, new)
    else:
        old = old_rows(given, needed, negative, new)
    starts = np.searchsorted(old.probe, np.arange(keys.count + 1))
    updates = new.number, values, hash_rows(values), times[0], diffs
    return Groups(layout, keys, *updates, starts, old.values, hash_rows(old.values), old.diffs, skipped)


def old_rows(given: Arranged, needed: Ends | Around | Within | Quantiles, negative: Arranged, new: NewRows) -> Matches:
    """The old updates that are needed of some keys, by key; ``new`` has all that is new of them."""
    if isinstance(needed, Ends):
        return ends_of(given, needed, negative, new)
    if isinstance(needed, Around):
        return around_of(given, needed, negative, new)
    if isinstance(needed, Within):
        return within_of(given, needed, negative, new)
    return quantiles_of(given, needed, negative, new)
