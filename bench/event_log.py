"""What Spark wrote into its event log of the queries that ran meanwhile: the log that Spark's history server shows."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PYTHON = ("MapInArrow", "PythonMapInArrow")
ROWS, FILES = "number of output rows", "number of files read"
TO_PYTHON = "data sent to Python workers"


@dataclass
class Operator:
    """An operator of a query's plan: what Spark calls it, and its metrics by name."""

    name: str
    text: str
    metadata: Mapping[str, str]
    metrics: dict[str, int]
    inputs: list[Operator]

    def all(self) -> Iterator[Operator]:
        """It and all below it."""
        yield self
        for below in self.inputs:
            yield from below.all()

    @property
    def columns(self) -> list[str]:
        """The columns that a scan reads."""
        return re.findall(r"[<,](\w+):", self.metadata["ReadSchema"])

    @property
    def rows(self) -> int:
        """The rows that it gave, as it or the operators below it that hand rows on have counted them."""
        return self.metrics[ROWS] if ROWS in self.metrics else sum(below.rows for below in self.inputs)


@dataclass
class Query:
    """A query: its title, its plan as it ran, and the bytes of the results that its tasks sent to the driver."""

    title: str
    plan: Operator
    result_bytes: int = 0

    @property
    def scans(self) -> list[Operator]:
        """The scans of files."""
        return [o for o in self.plan.all() if FILES in o.metrics]

    def into_python(self, text: str = "") -> int:
        """The rows that came into Python from elsewhere, and not from other tasks of altneu."""
        entered = [o for o in self.plan.all() if o.name in PYTHON and text in o.text]
        return sum(b.rows for o in entered for b in o.inputs if not any(x.name in PYTHON for x in b.all()))


@dataclass
class Log:
    """The queries of a log, in the order in which they began."""

    queries: list[Query] = field(default_factory=list)

    def titled(self, start: str) -> list[Query]:
        """Those whose title begins so."""
        return [query for query in self.queries if query.title.startswith(start)]


@contextmanager
def logged(spark: Any, folder: Path) -> Iterator[Log]:
    """The queries that end inside, from a log of Spark's own that is written into a folder meanwhile."""
    context = spark.sparkContext
    scala, jvm = context._jsc.sc(), context._jvm
    settings = scala.conf().clone()
    for name in ("compress", "rolling.enabled", "logBlockUpdates.enabled"):
        settings = settings.set(f"spark.eventLog.{name}", "false")
    base, none = jvm.java.net.URI(folder.resolve().as_uri()), jvm.scala.Option.empty()
    kind = jvm.org.apache.spark.scheduler.EventLoggingListener
    listener = kind("events", none, base, settings, scala.hadoopConfiguration())
    listener.start()
    scala.addSparkListener(listener)
    found = Log()
    try:
        yield found
        scala.listenerBus().waitUntilEmpty()
    finally:
        scala.removeSparkListener(listener)
        listener.stop()
    found.queries += read(folder / "events")


def read(path: Path) -> list[Query]:
    """The queries of a log that have ended."""
    with path.open() as lines:
        events = [json.loads(line) for line in lines]
    values: dict[int, int] = defaultdict(int)
    plans: dict[int, dict[str, Any]] = {}
    titles: dict[int, str] = {}
    query_of: dict[int, int] = {}  # by stage
    results: dict[int, int] = defaultdict(int)
    ended: set[int] = set()
    for event in events:
        kind = str(event["Event"]).rpartition(".")[2]
        if kind == "SparkListenerSQLExecutionStart":
            plans[event["executionId"]], titles[event["executionId"]] = event["sparkPlanInfo"], event["description"]
        elif kind == "SparkListenerSQLAdaptiveExecutionUpdate":
            plans[event["executionId"]] = event["sparkPlanInfo"]
        elif kind == "SparkListenerSQLExecutionEnd":
            ended.add(event["executionId"])
        elif kind == "SparkListenerDriverAccumUpdates":
            for number, value in event["accumUpdates"]:
                values[number] += value
        elif kind == "SparkListenerJobStart":
            number = event["Properties"].get("spark.sql.execution.id")
            if number is not None:
                query_of |= {info["Stage ID"]: int(number) for info in event["Stage Infos"]}
        elif kind == "SparkListenerTaskEnd":
            for one in event["Task Info"]["Accumulables"]:
                if str(one.get("Update", "")).lstrip("-").isdigit():
                    values[one["ID"]] += int(one["Update"])
            if event["Stage ID"] in query_of and event["Task Type"] == "ResultTask":
                results[query_of[event["Stage ID"]]] += event["Task Metrics"]["Result Size"]

    def operator(info: dict[str, Any]) -> Operator:
        metrics = {m["name"]: values[m["accumulatorId"]] for m in info["metrics"]}
        text, metadata = info["simpleString"], info.get("metadata", {})
        return Operator(info["nodeName"], text, metadata, metrics, [operator(below) for below in info["children"]])

    return [Query(titles[n], operator(plans[n]), results[n]) for n in sorted(plans) if n in ended]
