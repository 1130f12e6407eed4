"""The Spark jobs of a session: how long each took, and how many rows of DataFrames Spark says that it read."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from altneu.runtime.spark.versions import observed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

KEPT = 50  # jobs, and observations that Spark has not told of yet


@dataclass(frozen=True, slots=True)
class Job:
    """A job that is done.

    Units:  ``ended`` in seconds since 1970, UTC; ``passed`` counts rows that went from stage to stage.
    """

    title: str
    ended: float
    seconds: float
    passed: int


class Jobs:
    """What became of the jobs of one session; those who add to it hold its lock.

    ``read`` counts rows by source as Spark's observable metrics tell it, which the same names show on Spark's own
    pages. Spark tells it a moment after a job has ended, so it is asked when somebody wants to know, and waited for by
    nobody.
    """

    def __init__(self) -> None:
        self.last: deque[Job] = deque(maxlen=KEPT)
        self.count, self.seconds = 0, 0.0
        self.asked: dict[str, str] = {}  # by source, what Spark was last asked for of a DataFrame, in words
        self._read: dict[str, int] = {}
        self._untold: deque[tuple[str, Any]] = deque(maxlen=KEPT)
        self._observed = 0

    def add(self, title: str, seconds: float, passed: int = 0) -> None:
        """Note a job that has just ended."""
        self.count, self.seconds = self.count + 1, self.seconds + seconds
        self.last.append(Job(title, time.time(), seconds, passed))
        self._hear()

    def observed(self, source: str, frame: DataFrame) -> DataFrame:
        """A DataFrame of a source whose rows Spark counts while a job reads them."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as sf

        self._observed += 1  # two of one name in one job are refused
        observation = Observation(f"altneu read {source} {self._observed}")
        self._untold.append((source, observation))
        return frame.observe(observation, sf.count(sf.lit(1)).alias("rows"))

    def fetched(self, source: str, rows: int) -> None:
        """Note rows that came to the driver, where they were counted."""
        self._read[source] = self._read.get(source, 0) + rows

    @property
    def read(self) -> dict[str, int]:
        """Rows read by Spark's tasks or brought to the driver, by source."""
        self._hear()
        return dict(self._read)

    def _hear(self) -> None:
        """Take what Spark has told since."""
        for source, observation in [*self._untold]:
            rows = observed(observation, "rows")
            if rows is not None:
                self._untold.remove((source, observation))
                self.fetched(source, rows)
