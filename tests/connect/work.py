"""Sessions on a server, each in a process of its own (tests/connect/jobs.py)."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import CliRunner

import altneu as an
from altneu.cli import main
from altneu.errors import PlanError

Say = Callable[[str, Any], None]
N = an.source("n", "k long, v long")
SUMS = N.group_by("k").agg(n="count(*)", total="sum(v)")


def step(folder: Path, say: Say, *, url: str) -> None:
    """Two steps of DataFrames, what is said meanwhile, and where they ran."""
    spark = an.spark_session(master=url)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with an.Session(spark, folder / "state") as session:
            view = session.maintain("v", SUMS)
            session.insert("n", spark.range(1000).selectExpr("id % 3 AS k", "id AS v"))
            first = session.advance()
            session.retract("n", spark.range(999).selectExpr("id % 3 AS k", "id AS v"))
            session.advance()
            frame = view.df()
            spark.range(1).createOrReplaceTempView("there")
            try:
                session.maintain("w", spark.table("there"))
            except PlanError as error:
                refused = str(error)
            answer = {
                "refused": refused,
                "placement": first.placement,
                "chosen": session._engine.placement,
                "shards": session.shards,
                "rows": sorted(view.to_pylist()),
                "frame": sorted(map(list, frame.collect())),
                "jobs": [job.title for job in session._engine.jobs.last],
                "read": session._engine.jobs.read,
                "said": [str(warning.message) for warning in said if "altneu" in str(warning.message)],
            }
    say("said", answer)


def interrupted(folder: Path, say: Say, *, url: str) -> None:
    """A step whose rows take a minute to read is interrupted after some seconds; it is cancelled, and another works."""
    spark = an.spark_session(master=url)
    with an.Session(spark, folder / "state", placement="spark", shards=2) as session:
        view = session.maintain("v", SUMS)
        session.insert("n", [(1, 1)])
        session.advance()
        sleep = "length(concat('', reflect('java.lang.Thread', 'sleep', 2000L)))"
        session.insert("n", spark.range(0, 60, 1, 2).selectExpr("id AS k", f"cast({sleep} AS long) AS v"))
        began = time.monotonic()
        threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()
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
        answer = {
            "notes": notes,
            "seconds": seconds,
            "after": time.monotonic() - began,
            "tags": sorted(tags),
            "rows": sorted(view.to_pylist()),
        }
    say("said", answer)


def doctor(folder: Path, say: Say, *, url: str) -> None:
    """What ``altneu doctor`` finds of Spark, with a store."""
    found = CliRunner().invoke(main, ["doctor", "--json", "--master", url, "--path", str(folder / "state")])
    checks = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    say("said", {check["check"]: check for check in checks if check["check"].startswith("Spark")})
