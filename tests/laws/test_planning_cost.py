"""Planning takes about as long again for each condition: counted in calls of functions, which no other load changes."""

import sys

import pytest

import altneu as an
from altneu.rewrite import optimise
from altneu.sql import query

TABLES = {"t": an.source("t", "a int, b string, x bigint")}


def calls_for(text):
    """How many Python functions are called while a query is rewritten."""
    node = query(text, TABLES).node
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        optimise(node)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("condition", ["x <> {}", "100 / (x + {}) > 0", "lower(b) <> 'k{}'", "(x <> {0} OR a = {0})"])
def test_conditions(condition):
    def wide(n):
        return calls_for("SELECT a, x + 1 AS y FROM t WHERE " + " AND ".join(condition.format(i) for i in range(n)))

    wide(2)  # what is computed once and kept
    few, many = wide(30), wide(120)
    assert many < 8 * few  # 4 times would be linear, 16 times quadratic
