"""The queries of docs/comparison.md that Databricks has reasons not to refresh incrementally: altneu maintains them."""

from __future__ import annotations

import random
import re
from datetime import date
from pathlib import Path

import pytest

import altneu as an
from altneu.sql import query

PAGE = (Path(__file__).parents[2] / "docs" / "comparison.md").read_text()
ROWS = re.findall(r"^\| ([^|]+) \| `((?:SELECT|WITH) [^|]+)` \|$", PAGE, re.MULTILINE)
ORDERS = an.source("orders", "id long, customer string, item string, price long, day date", keep=True)
EDGES = an.source("edges", "src long, dst long", keep=True)
TABLES = {"orders": ORDERS, "edges": EDGES}


def test_the_table_has_the_reasons():
    assert len(ROWS) == 9
    for name in ("AGGREGATE_NOT_TOP_NODE", "WINDOW_WITHOUT_PARTITION_BY", "SUBQUERY_EXPRESSION_NOT_INCREMENTALIZABLE"):
        assert any(name in reason for reason, _ in ROWS)


def a_row(rng):
    return (
        rng.randrange(40),
        rng.choice(["ann", "bob", "eve"]),
        rng.choice(["tea", "jam"]),
        rng.randrange(9),
        date(2026, 1, rng.randrange(1, 5)),
    )


@pytest.mark.parametrize(("reason", "text"), ROWS)
def test_a_query_is_maintained(reason, text):
    """With ``strict``, and after every change it is what a session computes that has the rows at once."""
    rng = random.Random(5)
    orders, edges = [], []
    with an.Session() as session:
        view = session.maintain("v", query(text, TABLES), strict=True)
        for _ in range(2):
            came = [a_row(rng) for _ in range(12)]
            gone = [orders.pop(rng.randrange(len(orders))) for _ in range(min(len(orders), 5))]
            between = [(rng.randrange(12), rng.randrange(12)) for _ in range(4)]
            cut = [edges.pop(rng.randrange(len(edges))) for _ in range(min(len(edges), 2))]
            orders += came
            edges += between
            for name, new, old in (("orders", came, gone), ("edges", between, cut)):
                if name in session.sources:
                    session.insert(name, new)
                    session.retract(name, old)
            session.advance()
            with an.Session() as once:
                fresh = once.maintain("v", query(text, TABLES))
                for name, rows in (("orders", orders), ("edges", edges)):
                    if name in once.sources:
                        once.insert(name, rows)
                once.advance()
                assert sorted(view.to_pylist(), key=str) == sorted(fresh.to_pylist(), key=str)
