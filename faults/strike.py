"""Doing something to Spark's processes while its tasks run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        while not self._busy():
            if self._over.wait(0.002):
                return
        if self._over.wait(self._delay):
            return
        while not self._over.wait(0.002):
            if self._busy():
                self._act()
                self.acted = True
                return

    def _busy(self) -> bool:
        stages = [self._status.getStageInfo(stage) for stage in self._status.getActiveStageIds()]
        return any(stage is not None and stage.numActiveTasks for stage in stages)
