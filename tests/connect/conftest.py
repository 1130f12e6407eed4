"""A server of Spark Connect for the tests of a module, and its clients, which are processes of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench.cluster.server import ConnectServer
from faults.children import Server
from tests.connect.clients import forking


@pytest.fixture(scope="module")
def server() -> Iterator[ConnectServer]:
    """A server with altneu in its workers."""
    with ConnectServer() as started:
        yield started


@pytest.fixture(scope="module")
def clients() -> Iterator[Server]:
    """What runs clients, one at a time."""
    with forking() as started:
        yield started
