"""Groups in order of which only the rows are read that a function needs."""

from __future__ import annotations

from altneu.operators.kernels.around import around_of
from altneu.operators.kernels.block_sums import may_leave_range
from altneu.operators.kernels.ends import ends_of
from altneu.operators.kernels.groups import Groups, number_new
from altneu.operators.kernels.in_order import GroupsInOrder, InPart
from altneu.operators.kernels.located import NewRows, OldRows, no_matches
from altneu.operators.kernels.quantiles import quantiles_of
from altneu.operators.kernels.suffix import suffix_of
from altneu.operators.kernels.within import within_of
from altneu.operators.reduce.node import Around, Ends, Needed, Quantiles, Suffix, Within
from altneu.trace.batch import Arranged


def read_needed(given: Arranged, needed: Needed, negative: Arranged, distinct: Arranged | None = None) -> Groups:
    """The groups that have new updates, with those of their old updates that are needed.

    Shape:  ``given`` in an order of columns; ``negative`` has the number of rows of each key whose count is
            below zero, arranged by the key; ``distinct`` has the distinct values of the order, where these are needed,
            by the key and in that order.
    """
    layout = given.layout
    hashes, keys = given.new.distinct_keys()
    values, words, times, diffs = given.new.updates_by_key()
    new = NewRows(hashes, keys, number_new(given), values, words, diffs)
    read = old_rows(given, needed, negative, new, distinct)
    return GroupsInOrder(layout, keys, (new.number, values, words, times[0], diffs), read)


def old_rows(
    given: Arranged, needed: Needed, negative: Arranged, new: NewRows, distinct: Arranged | None = None
) -> InPart:
    """The old updates that are needed of some keys, by key; ``new`` has all that is new of them.

    Beside them those that come before all of them and are not read, if it matters what these are.
    """
    if not any([batch.blocks for batch in given.old]):  # noqa: C419  # a generator takes longer
        return InPart(no_matches(given.layout))
    old = OldRows.of(given, negative, new.hashes, new.keys)
    if needed.sums_of_wide:
        old = old.and_whole(may_leave_range(old.located, new, needed.sums_of_wide))
    match needed:
        case Ends():
            return InPart(ends_of(needed, new, old))
        case Around():
            return around_of(needed, new, old)
        case Suffix():
            return suffix_of(needed, new, old, distinct)
        case Within():
            return InPart(within_of(needed, new, old))
        case Quantiles():
            return InPart(quantiles_of(needed, new, old))
