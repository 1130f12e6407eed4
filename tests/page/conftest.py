"""A small session, and what it is looked at with."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

import altneu as an

SCRIPT = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@pytest.fixture
def session() -> Iterator[an.Session]:
    """Orders, what they add up to, and one that cannot be divided."""
    orders = an.source("orders", "item string, price long, qty long")
    with an.Session() as made:
        made.maintain("orders", orders)
        made.maintain("total", orders.group_by("item").agg(total="sum(price)", n="count(*)"))
        made.maintain("each", orders.select("item", each="price / qty"))
        made.insert("orders", [("tea", 3, 1), ("jam", 5, 2), (SCRIPT, 7, 1), ("salt", 1, 0)])
        made.advance()
        yield made


@pytest.fixture
def page(session) -> Iterator[an.Session]:
    """It, served."""
    with session.serve() as served:
        yield served


@pytest.fixture
def client(page) -> Iterator[httpx.Client]:
    """Who asks it."""
    with httpx.Client(base_url=page.url, timeout=30) as made:
        yield made
