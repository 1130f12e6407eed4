"""A process that follows a stream of files to its end, to be killed: ``<state> <input> <point> <max rows>``.

``point`` says when it kills itself with SIGKILL: ``operation n`` in front of its n-th operation on a file of the store,
``offsets n`` or ``commits n`` as soon as Spark has written that file of its checkpoint, ``never``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path

import altneu as an
from tests.session.streaming import COUNTS, Files
from tests.store.killable import arm


def arm_spark(path: Path) -> None:
    def watch() -> None:
        pause = threading.Event()
        while not path.exists():
            pause.wait(0.001)
        os.kill(os.getpid(), signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def main(state: str, folder: str, point: str, max_rows: str) -> None:
    spark = an.spark_session("altneu-child", "local[1]", config={"spark.sql.shuffle.partitions": 1})
    with an.Session(spark, state) as session:
        session.maintain("v", COUNTS)
        kind, _, number = point.partition(" ")
        if kind == "operation":
            arm(state, int(number))
        elif number:
            arm_spark(Path(state, "streams", "n", kind, number))
        files = Files(spark, Path(folder))
        with session.follow(n=files.stream(), available_now=True, max_rows=int(max_rows)) as following:
            following.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
