"""Planning takes about as long again for each condition and each view.

It is counted in calls of functions, which no other load changes.
"""

import sys

import pytest

import altneu as an
from altneu.lower import lower
from altneu.order import Epoch
from altneu.rewrite import optimise
from altneu.sql import query

TABLES = {"t": an.source("t", "a int, b string, x bigint")}


def calls_for(text):
    """How many Python functions are called while a query is rewritten."""
    node = query(text, TABLES).node
    return calls_of(lambda: optimise(node))


def calls_of(work):
    """How many Python functions are called by one."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
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


def test_views():
    def all_views(n):
        texts = [f"SELECT a, sum(x + {i}) AS s FROM t WHERE x > {i} GROUP BY a" for i in range(n)]
        nodes = {f"v{i}": optimise(query(text, TABLES).node) for i, text in enumerate(texts)}
        return calls_of(lambda: lower(nodes, Epoch()))

    all_views(2)
    assert all_views(60) < 8 * all_views(15)
