"""What a session asks of an executor, wherever that computes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from altneu.errors import ReadError
from altneu.operators.base import Region, StepMode
from altneu.plan.physical import Plan, ViewPorts
from altneu.runtime.inputs import Inputs
from altneu.runtime.outcome import Outcome
from altneu.runtime.read import At
from altneu.runtime.reshard import Parting
from altneu.runtime.spark.jobs import Jobs
from altneu.runtime.state import StateTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def no_spark() -> ReadError:
    """The error of asking a session without Spark for a DataFrame."""
    return ReadError(
        "this session has no Spark; read the view with to_arrow() or to_pylist(), or make Session(spark, ...)"
    )


class Executor(Protocol):
    """Runs the steps of one session; ``jobs`` are the Spark jobs that they were."""

    shards: int
    jobs: Jobs

    def step(self, plan: Plan, table: StateTable, inputs: Inputs, region: Region, mode: StepMode) -> Outcome:
        """Compute a step from the state in the table; nothing is changed in place."""

    def reshard(self, plan: Plan, table: StateTable, parting: Parting) -> Outcome:
        """Split the state of every shard."""

    def frame_of(self, table: pa.Table) -> DataFrame:
        """A table as a Spark DataFrame.

        Raises:
            ReadError: there is no Spark.
        """

    def read(self, table: StateTable, ports: ViewPorts, view: str, at: At, on_errors: str) -> DataFrame:
        """The contents of a view as a Spark DataFrame, which Spark's tasks read.

        Raises:
            ReadError: there is no Spark.
        """

    def read_updates(self, table: StateTable, name: str, diff: str, at: At) -> DataFrame:
        """The rows of an arrangement at a time, each once with its count in the column ``diff``, which tasks read.

        Raises:
            ReadError: there is no Spark.
        """

    def close(self) -> None:
        """Release what the executor holds."""
