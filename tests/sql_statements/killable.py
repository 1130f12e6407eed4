"""A process that forks sessions which run statements, to be killed: it reads ``<seed> <folder>`` a line.

With a seed it kills itself in front of an operation on a file that the seed chooses; with 0 it comes to its end.
"""

from __future__ import annotations

from pathlib import Path

import altneu as an
from tests.fate import forks

DEFINITIONS = """
CREATE TABLE events (k BIGINT, v STRING);
CREATE SOURCE names FROM FILE '{folder}/names.csv' FORMAT CSV OPTIONS (header true) KEEP;
CREATE VIEW counted AS SELECT k, count(*) AS n FROM events GROUP BY k;
CREATE MATERIALIZED VIEW named AS SELECT name, n FROM counted JOIN names ON k = CAST(id AS BIGINT);
CREATE INDEX by_name ON named (name);
CREATE SINK out FROM named INTO PARQUET '{folder}/out' MODE UPSERT KEY (name) WITH (BUCKETS = 2);
"""
STEPS = 5


def run(folder: Path) -> None:
    with an.Session(path=folder / "state") as session:
        session.sql(DEFINITIONS.format(folder=folder))
        session.sql("SELECT 1")  # what the file has is taken
        while session.lower < STEPS:
            n = session.lower
            session.sql(
                "BEGIN; DELETE FROM events WHERE v = 'a1'; "
                f"INSERT INTO events VALUES ({n % 3}, 'a{n}'), ({n % 2}, 'b'); COMMIT"
            )
        if "by_name" in session._engine.definitions:
            session.sql("DROP INDEX by_name")
        session.sql(
            "CREATE OR REPLACE MATERIALIZED VIEW last AS SELECT k, max(v) AS v FROM events GROUP BY k; "
            "DROP VIEW IF EXISTS nothing"
        )


def main() -> None:
    an.Session().sql("SELECT 1")  # what is slow to import is imported once
    forks(run)


if __name__ == "__main__":
    main()
