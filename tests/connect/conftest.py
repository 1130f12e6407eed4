"""A server of Spark Connect for the tests of this folder; their clients are processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.cluster.server import ConnectServer


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    """A server with altneu in its workers."""
    with ConnectServer() as started:
        yield started
