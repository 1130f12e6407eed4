"""A client of Spark Connect that follows a stream of files, in a process of its own (tests/connect/jobs.py)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.connect.client.retries import DefaultPolicy

import altneu as an
from altneu.errors import StreamError
from altneu.streams import Status, relay
from faults.follower import kill_when_written
from faults.injected import die, kill_at
from faults.stream_files import COUNTS, LATE, SCHEMA, Files

KEYED = an.source("n", "`a b;{}=` string, `K` long, day date, at timestamp", key="K")
KEYED_SCHEMA = pa.schema(
    [("a b;{}=", pa.string()), ("K", pa.int64()), ("day", pa.date32()), ("at", pa.timestamp("us", "UTC"))]
)
EARLY = date(1066, 10, 14)
PLANS = {"counts": (COUNTS, SCHEMA), "keyed": (KEYED, KEYED_SCHEMA)}


def follow(
    state: Path,
    say: Callable[[str, Any], None],
    *,
    url: str,
    files: str,
    plan: str = "counts",
    point: str = "",
    group: int = relay.GROUP,
    options: dict[str, Any] | None = None,
) -> None:
    """Follow the files of a folder to the end, or up to the ``point`` (faults/follower.py)."""
    kind, _, number = point.partition(" ")
    relay.GROUP = group

    def look(status: Status, _: an.Step) -> None:
        if kind == "after" and status.batch >= int(number):
            die()

    spark = SparkSession.builder.remote(url).create()
    # Soon again: Spark's clients would wait for a minute where a server takes twenty seconds to start.
    spark.client.set_retry_policies([DefaultPolicy(max_retries=600, max_backoff=1000)])
    maintained, schema = PLANS[plan]
    with an.Session(spark, state, shards=1) as session:
        view = session.maintain("v", maintained)
        if plan == "counts":
            session.maintain("late", LATE)
        if kind == "operation":
            kill_at(state, int(number))
        elif kind in ("offsets", "commits", "relay"):
            kill_when_written(state / "streams" / "n" / kind / number)
        frame = Files(spark, Path(files), schema).stream()
        asked = {"extra": "ignore", "available_now": True, **(options or {})}
        try:
            with session.follow(n=frame, on_step=look, **asked) as following:
                assert following.wait(300)
        except StreamError as error:
            say("said", {"error": str(error)})
            return
        status = following.status["n"]
        rows = [[str(v) if isinstance(v, date) else v for v in row] for row in sorted(view.to_pylist(), key=str)]
        say("said", {"rows": rows, "taken": status.rows, "batch": status.batch, "batches": status.batches})
