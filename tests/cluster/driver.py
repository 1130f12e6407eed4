"""A driver of its own: takes the steps that the store lacks, says each, and at last what the views show.

``python driver.py MASTER STORE``.
"""

from __future__ import annotations

import sys

import altneu as an
from tests.cluster.work import contents, go_on, maintain


def main(master: str, path: str) -> None:
    config = {"spark.driver.host": "127.0.0.1", "spark.executor.memory": "512m", "spark.cores.max": 2}
    spark = an.spark_session("driver", master, config=config)
    with an.Session(spark, path=path, placement="spark") as session:
        views = maintain(session)
        say("from", session.lower)
        for step in go_on(session):
            say("step", step)
        say("shows", sorted((name, sorted(rows.items())) for name, rows in contents(views).items()))
    spark.stop()


def say(word: str, what: object) -> None:
    """Tell whoever started the driver."""
    sys.stdout.write(f"{word} {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
