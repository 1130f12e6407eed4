"""Counting the calls of functions."""

import sys

STEPS = 40  # that are counted


def calls_of(run):
    """The median number of calls in some steps: loading a kernel for the first time takes thousands."""
    counts = []
    for i in range(STEPS):
        count = 0

        def note(_frame, event, _argument):
            nonlocal count
            count += event in ("call", "c_call")

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            run(i)
        finally:
            sys.setprofile(before)
        counts.append(count)
    return sorted(counts)[STEPS // 2]
