"""What clients of a server of Spark Connect are asked to do, each in a child of a process that has imported it all."""

from __future__ import annotations

from collections.abc import Callable

import pyspark.sql.connect.functions
import pyspark.sql.connect.session
import pyspark.sql.connect.streaming.query  # noqa: F401  # imported once, for all children

from tests.connect import client, work

JOBS: dict[str, Callable[..., None]] = {
    "follow": client.follow,
    "step": work.step,
    "interrupted": work.interrupted,
    "doctor": work.doctor,
}
