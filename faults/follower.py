"""A process that follows a stream of files to its end, to be killed: ``<state> <input> <point> <options>``.

``point`` says when it kills itself with SIGKILL: ``operation n`` in front of its n-th operation on a file of the store,
``after n`` when batch n is committed and Spark does not know it, ``offsets n`` or ``commits n`` as soon as Spark has
written that file of its checkpoint.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import altneu as an
from altneu.streams import Status
from faults.injected import die, kill_at
from faults.stream_files import COUNTS, LATE, Files


def kill_when_written(path: Path) -> None:
    """Die as soon as a file is there."""

    def watch() -> None:
        pause = threading.Event()
        while not path.exists():
            pause.wait(0.001)
        die()

    threading.Thread(target=watch, daemon=True).start()


def main(state: str, folder: str, point: str, options: str) -> None:
    """Follow to the end, or up to the point."""
    kind, number = point.split()

    def look(status: Status, _: an.Step) -> None:
        if kind == "after" and status.batch >= int(number):
            die()

    spark = an.spark_session("altneu-child", "local[1]", config={"spark.sql.shuffle.partitions": 1})
    with an.Session(spark, state, shards=1) as session:
        session.maintain("v", COUNTS)
        session.maintain("late", LATE)
        if kind == "operation":
            kill_at(Path(state), int(number))
        elif kind != "after":
            kill_when_written(Path(state, "streams", "n", kind, number))
        frame = Files(spark, Path(folder)).stream()
        with session.follow(
            n=frame, available_now=True, on_step=look, **{"extra": "ignore", **json.loads(options)}
        ) as following:
            following.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
