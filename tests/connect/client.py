"""A client of Spark Connect in a process of its own, which follows a stream of files: ``<what as JSON>``.

``what`` has the server's ``url``, the ``state`` of the session, the ``folder`` of the files, the ``plan`` to maintain,
options of ``follow``, and the ``point`` where the process kills itself (faults/follower.py). The last line is what it
has to say, as JSON.
"""

from __future__ import annotations

import json
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

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


def main(what: dict[str, Any]) -> dict[str, Any]:
    """Follow to the end, or up to the point."""
    kind, _, number = what.get("point", "").partition(" ")
    relay.GROUP = what.get("group", relay.GROUP)

    def look(status: Status, _: an.Step) -> None:
        if kind == "after" and status.batch >= int(number):
            die()

    spark = SparkSession.builder.remote(what["url"]).create()
    plan, schema = PLANS[what["plan"]]
    state = Path(what["state"])
    with an.Session(spark, state, shards=1, placement=what.get("placement", "auto")) as session:
        view = session.maintain("v", plan)
        if what["plan"] == "counts":
            session.maintain("late", LATE)
        if kind == "operation":
            kill_at(state, int(number))
        elif kind in ("offsets", "commits", "relay"):
            kill_when_written(state / "streams" / "n" / kind / number)
        frame = Files(spark, Path(what["folder"]), schema).stream()
        options = {"available_now": True, **what.get("options", {})}
        try:
            with session.follow(n=frame, on_step=look, **{"extra": "ignore", **options}) as following:
                assert following.wait(300)
        except StreamError as error:
            return {"error": str(error), "rows": sorted(view.to_pylist(), key=str)}
        status = following.status["n"]
        return {
            "rows": sorted(view.to_pylist(), key=str),
            "taken": status.rows,
            "batch": status.batch,
            "batches": status.batches,
        }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(main(json.loads(sys.argv[1])), default=str) + "\n")
