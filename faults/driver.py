"""A Spark driver that takes the steps its store lacks: ``python driver.py MASTER FOLDER STEPS``."""

from __future__ import annotations

import sys
from pathlib import Path

import altneu as an
from faults import work
from faults.server import say


def main(master: str, folder: str, steps: str) -> None:
    """Take the steps, tell each, and at last what the views show."""
    spark = an.spark_session("faults", master, config={"spark.driver.memory": "1g"})
    work.small_files()
    say("shows", work.run(Path(folder), say, steps=int(steps), spark=spark))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
