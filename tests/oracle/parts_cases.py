"""What tests of parts share with other tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from altneu import Session
from altneu.runtime.batch_writer import BatchWriter
from tests.oracle.retries import Retries


def in_parts(rng: random.Random) -> Callable[[Path | None], Session]:
    """Sessions that have room for a few rows at a time."""

    def opened(path: Path | None) -> Session:
        session = Session(path=path, shards=rng.randint(1, 2))
        session._engine.executor.batch_writer = BatchWriter(rng.choice([100, 300, 2000]), at_once=rng.random() < 0.5)
        return session

    return opened


def in_tasks(room: int) -> Callable[[Path | None], Session]:
    """Sessions whose every step runs as Spark's tasks do, with little room."""

    def opened(path: Path | None) -> Session:
        session = Session(path=path, shards=2)
        session._engine.executor = Retries(2, room=room)
        return session

    return opened
