"""What updates add up to."""

from collections import Counter


def counted(updates):
    """The diffs by row and time, without zeros."""
    total = Counter()
    for row, time, n in zip(updates.rows.to_pylist(), updates.times.T.tolist(), updates.diffs.tolist(), strict=True):
        total[row, tuple(time)] += n
    return {what: n for what, n in total.items() if n}
