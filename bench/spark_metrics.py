"""What Spark itself counted of the queries that ran meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass
class Scanned:
    """What scans of files read.

    ``bytes`` is the size of the files that were not skipped, ``rows`` what came out of the scans; ``into_python`` are
    bytes that went to Python's workers.
    """

    files: int = 0
    bytes: int = 0
    rows: int = 0
    into_python: int = 0


@contextmanager
def scanned(spark: Any) -> Iterator[Scanned]:
    """The figures of all scans that end inside, which are there afterwards."""
    store = spark._jsparkSession.sharedState().statusStore()
    before, found = _last(store), Scanned()
    yield found
    listed = store.executionsList()
    for i in range(int(listed.size())):
        number = int(listed.apply(i).executionId())
        if number <= before:
            continue
        until = time.monotonic() + 30
        while not store.execution(number).get().completionTime().isDefined() and time.monotonic() < until:
            time.sleep(0.05)
        values, nodes = store.executionMetrics(number), store.planGraph(number).allNodes()
        for at in range(int(nodes.size())):
            node = nodes.apply(at)
            name, metrics = str(node.name()), node.metrics()
            for place in range(int(metrics.size())):
                metric = metrics.apply(place)
                value = values.get(metric.accumulatorId())
                text = str(value.get()) if value.isDefined() else "0"
                if name.startswith("Scan ") and metric.name() == "number of files read":
                    found.files += int(_number(text))
                elif name.startswith("Scan ") and metric.name() == "size of files read":
                    found.bytes += int(_number(text))
                elif name.startswith("Scan ") and metric.name() == "number of output rows":
                    found.rows += int(_number(text))
                elif metric.name() == "data sent to Python workers":
                    found.into_python += int(_number(text))


@contextmanager
def exchanged(spark: Any) -> Iterator[list[list[int]]]:
    """For each stage of a job that ends inside and reads what others have shuffled: the bytes that each task has read.

    They are there afterwards, those of later stages last.
    """
    context = spark.sparkContext._jsc.sc()
    store, found = context.statusStore(), list[list[int]]()
    known = max(_stages(store), default=-1)
    yield found
    context.listenerBus().waitUntilEmpty()
    for number in sorted({number for number in _stages(store) if number > known}):
        if not _has_run(store, number):
            continue
        tasks = store.taskList(number, 0, 1 << 20)
        metrics = (tasks.apply(at).taskMetrics() for at in range(int(tasks.size())))
        reads = [one.get().shuffleReadMetrics() for one in metrics if one.isDefined()]
        read = [int(one.localBytesRead()) + int(one.remoteBytesRead()) for one in reads]
        if any(read):
            found.append(read)


def _has_run(store: Any, stage: int) -> bool:
    """Whether a stage has run; of one that it skipped Spark may know nothing."""
    from py4j.protocol import Py4JJavaError

    try:
        return str(store.lastStageAttempt(stage).status()) != "SKIPPED"
    except Py4JJavaError as error:
        if "NoSuchElementException" not in str(error.java_exception):
            raise
        return False


def _stages(store: Any) -> Iterator[int]:
    """The numbers of the stages of all jobs that Spark remembers; it may have forgotten the older ones of them."""
    jobs = store.jobsList(None)
    for at in range(int(jobs.size())):
        stages = jobs.apply(at).stageIds()
        for place in range(int(stages.size())):
            yield int(stages.apply(place))


def _last(store: Any) -> int:
    """The number of the last query; Spark forgets old ones, so that their count says nothing."""
    listed = store.executionsList()
    return max((int(listed.apply(i).executionId()) for i in range(int(listed.size()))), default=-1)


_UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _number(text: str) -> float:
    r"""The total in what Spark shows of a metric.

    >>> _number(
    ...     "total (min, med, max (stageId: taskId))\n1.5 KiB (0.0 B, 1.0 KiB, 0.5 KiB (stage 3.0: task 4))"
    ... )
    1536.0
    """
    number, *unit = text.rsplit("\n", 1)[-1].split(" (", 1)[0].split(" ")
    return float(number.replace(",", "")) * (_UNITS.get(unit[0], 1) if unit else 1)
