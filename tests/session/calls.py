"""Counting the calls of functions."""

import sys

STEPS = 40  # that are counted


def count_of(run, *arguments):
    """How many functions a call calls."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run(*arguments)
    finally:
        sys.setprofile(before)
    return count


def calls_of(run):
    """The median number of calls in some steps: loading a kernel for the first time takes thousands."""
    return sorted(count_of(run, i) for i in range(STEPS))[STEPS // 2]
