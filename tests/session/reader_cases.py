"""What tests of reader share with other tests."""

from __future__ import annotations

from collections import Counter


def accumulate(table, contents=()) -> Counter:
    """The rows that changes make of contents."""
    actual = Counter(contents)
    for row in table.to_pylist():
        diff = row.pop("diff")
        row.pop("time", None)
        actual[tuple(row.values())] += diff
    return Counter({row: count for row, count in actual.items() if count})
