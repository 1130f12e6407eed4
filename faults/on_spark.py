"""Faults of Spark's processes: drivers, Python workers and executors that are killed."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

import altneu as an
from bench.cluster import Cluster
from faults import driver, work
from faults.children import ENVIRONMENT, Ended, Server
from faults.local import reading_meanwhile, unsteady
from faults.report import Findings
from faults.strike import WATCHED, InStage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MASTER = "local[2,4]"  # local[2] never tries a task again
STEPS = 5
_LONGEST = 8.0  # seconds after the store is open at which a driver is killed at the latest
_PATIENCE = 240  # seconds for a driver that is left alone

Victims = Callable[[], list[psutil.Process]]


def kills(count: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """Kill -9 of a driver with its Spark, at any moment from the opening of the store on."""
    findings = Findings("kill -9 of a session on Spark")
    with Server() as readers:
        for number in range(count):
            place, rng = folder / str(number), random.Random(f"{seed} {number}")
            with reading_meanwhile(readers, place, findings) as seen:
                ended = _drive(place, rng.uniform(0, _LONGEST))
                reported = max([0, *(step + 1 for step in ended.all("step"))])
                last = _drive(place, None)
            differences = unsteady(last, reported, place.name) + _wrong(last.last("shows"), place.name)
            findings.add(struck=ended.code == -signal.SIGKILL, differences=differences + seen)
            shutil.rmtree(place, ignore_errors=True)
            done()
    return findings


def _drive(place: Path, patience: float | None) -> Ended:
    """One driver; killed so many seconds after it has opened the store, if it is not done by then."""
    ended = Ended()
    command = [sys.executable, "-W", "ignore", driver.__file__, MASTER, str(place), str(STEPS)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT, start_new_session=True
    ) as process:
        assert process.stdout is not None
        clock = threading.Timer(_PATIENCE, _kill_all, [process])
        clock.start()
        for line in process.stdout:
            word, value = json.loads(line)
            ended.messages.append((word, value))
            if word == "from" and patience is not None:
                clock.cancel()
                clock = threading.Timer(patience, _kill_all, [process])
                clock.start()
        ended.code = process.wait()
        clock.cancel()
    return ended


def _kill_all(process: subprocess.Popen[str]) -> None:
    """Kill a driver, and with it the Java and the Python workers that it started."""
    os.killpg(process.pid, signal.SIGKILL)


def _wrong(shows: Any, what: str, steps: int = STEPS) -> list[str]:
    answers = work.expected()[steps]
    return [f"{what}: view {name} differs" for name in answers if shows is None or shows[name] != answers[name]]


def workers(count: int, executors: int, seed: int, folder: Path, done: Callable[[], None]) -> Findings:
    """Kill a Python worker, or, on a cluster, an executor, while a step's tasks run; ``executors`` of the runs."""
    findings = Findings("a Python worker or an executor killed")

    def disturb(spark: SparkSession, victims: Victims, numbers: range) -> None:
        for number in numbers:
            place = folder / str(number)
            with reading_meanwhile(readers, place, findings) as seen:
                struck, differences = _disturbed(spark, victims, place, random.Random(f"{seed} {number}"))
            findings.add(struck=struck, differences=differences + seen)
            shutil.rmtree(place, ignore_errors=True)
            done()

    with Server() as readers:
        with _local() as spark:
            disturb(spark, _python_workers, range(count - executors))
        if executors:
            with Cluster() as cluster:
                spark = cluster.session("faults", WATCHED)
                spark.sparkContext.setLogLevel("OFF")
                disturb(spark, cluster.executors, range(count - executors, count))
                spark.stop()
    return findings


@contextmanager
def _local() -> Iterator[SparkSession]:
    spark = an.spark_session("faults", MASTER, config=WATCHED)
    spark.sparkContext.setLogLevel("OFF")  # of what is done to it here it would have much to say
    try:
        yield spark
    finally:
        spark.stop()


def _python_workers() -> list[psutil.Process]:
    """The processes that run tasks: grandchildren of this one's Java, children of the daemon."""
    java = [child for child in psutil.Process().children() if "java" in child.name()]
    daemons = [child for process in java for child in process.children() if "python" in child.name()]
    return [child for daemon in daemons for child in daemon.children()]


def _disturbed(spark: SparkSession, victims: Victims, place: Path, rng: random.Random) -> tuple[bool, list[str]]:
    """Steps until a process was killed in one of them; then the store is opened without Spark, and goes on."""
    steps, struck = 1, False
    with an.Session(spark, path=place, placement="spark") as session:
        views = work.maintain(session)
        work.insert(session, 0)
        session.advance()
        while not struck and steps < STEPS:
            work.insert(session, steps)
            delay = rng.uniform(0, 0.1) if steps == 1 else 0.0  # a step may be over by then
            with InStage(spark, lambda: _kill_one(victims, rng), delay) as strike:
                session.advance()
            steps, struck = steps + 1, strike.acted
        shows = work.digests(views)
    differences = _wrong(shows, place.name, steps)
    differences += _wrong(work.run(place, lambda *_: None, steps=STEPS), f"{place.name}, opened again")
    return struck, differences


def _kill_one(victims: Victims, rng: random.Random) -> None:
    if processes := victims():
        rng.choice(processes).kill()
