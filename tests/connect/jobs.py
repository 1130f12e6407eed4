"""What clients of a server of Spark Connect are asked to do, each in a child of a process that has imported it all."""

from __future__ import annotations

from collections.abc import Callable

import pyspark.sql.connect.functions
import pyspark.sql.connect.session  # noqa: F401  # imported once, for all children

from tests.connect import work

JOBS: dict[str, Callable[..., None]] = {
    "step": work.step,
    "interrupted": work.interrupted,
    "doctor": work.doctor,
}
