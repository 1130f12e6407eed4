"""Spark without compiled code: its answers over a few rows, most of whose time would be the compiler's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


@contextmanager
def interpreted(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, whose queries are interpreted meanwhile."""
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)
    try:
        yield spark
    finally:
        for name in INTERPRETED:
            spark.conf.unset(name)
