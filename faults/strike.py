"""Doing something to Spark's processes while its tasks run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WATCHED = {"spark.ui.liveUpdate.period": "0"}
"""Settings of a session that is watched: else Spark tells of stages ten times a second, and short ones not at all."""


class InStage:
    """Does something once, while tasks of the Spark session run, ``delay`` seconds after the first at the earliest.

    ``acted`` says whether it came to that.
    """

    def __init__(self, spark: SparkSession, act: Callable[[], object], delay: float = 0) -> None:
        self._status, self._act, self._delay = spark.sparkContext.statusTracker(), act, delay
        self._over = threading.Event()
        self.acted = False
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        if self._sees_tasks() and not self._over.wait(self._delay) and self._sees_tasks():
            self._act()
            self.acted = True

    def _sees_tasks(self) -> bool:
        """Wait until tasks run; whether they did before the ``with`` block was over."""
        while not (busy := self._busy()) and not self._over.wait(0.002):
            continue
        return busy

    def _busy(self) -> bool:
        stages = [self._status.getStageInfo(stage) for stage in self._status.getActiveStageIds()]
        return any(stage is not None and stage.numActiveTasks for stage in stages)
