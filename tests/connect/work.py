"""Sessions on a server, each in a process of its own: ``<what> <url> <folder>``; the last line is JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import altneu as an

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

N = an.source("n", "k long, v long")
SUMS = N.group_by("k").agg(n="count(*)", total="sum(v)")


def step(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """Two steps of DataFrames, what is said meanwhile, and where they ran."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with an.Session(spark, folder / "state") as session:
            view = session.maintain("v", SUMS)
            session.insert("n", spark.range(1000).selectExpr("id % 3 AS k", "id AS v"))
            first = session.advance()
            session.retract("n", spark.range(999).selectExpr("id % 3 AS k", "id AS v"))
            session.advance()
            frame = view.df()
            return {
                "placement": first.placement,
                "chosen": session._engine.placement,
                "shards": session.shards,
                "rows": sorted(view.to_pylist()),
                "frame": sorted(map(list, frame.collect())),
                "jobs": [job.title for job in session._engine.jobs.last],
                "read": session._engine.jobs.read,
                "said": [str(warning.message) for warning in said if "altneu" in str(warning.message)],
            }


def interrupted(spark: SparkSession, folder: Path) -> dict[str, Any]:
    """A step whose rows take a minute to read is interrupted after some seconds; it is cancelled, and another works."""
    with an.Session(spark, folder / "state", placement="spark", shards=2) as session:
        view = session.maintain("v", SUMS)
        session.insert("n", [(1, 1)])
        session.advance()
        sleep = "length(concat('', reflect('java.lang.Thread', 'sleep', 2000L)))"
        session.insert("n", spark.range(0, 60, 1, 2).selectExpr("id AS k", f"cast({sleep} AS long) AS v"))
        began = time.monotonic()
        threading.Timer(6, os.kill, (os.getpid(), signal.SIGINT)).start()
        notes: list[str] = []
        try:
            session.advance()
        except KeyboardInterrupt as error:
            notes = error.__notes__
        seconds = time.monotonic() - began
        session.discard()
        tags = spark.getTags()
        session.insert("n", spark.range(2).selectExpr("id AS k", "id AS v"))
        session.advance()  # which waits for free tasks if the one before goes on
        return {
            "notes": notes,
            "seconds": seconds,
            "after": time.monotonic() - began,
            "tags": sorted(tags),
            "rows": sorted(view.to_pylist()),
        }


WORK: dict[str, Callable[[SparkSession, Path], dict[str, Any]]] = {"step": step, "interrupted": interrupted}

if __name__ == "__main__":
    what, url, folder = sys.argv[1:]
    answer = WORK[what](an.spark_session(master=url, config={"spark.sql.shuffle.partitions": 2}), Path(folder))
    sys.stdout.write(json.dumps(answer) + "\n")
