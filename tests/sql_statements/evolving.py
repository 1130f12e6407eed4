"""A process that forks sessions whose table changes four times, to be killed: it reads ``<seed> <folder>`` a line.

With a seed it kills itself in front of an operation on a file that the seed chooses; with 0 it comes to its end.
"""

from __future__ import annotations

from pathlib import Path

import altneu as an
from tests.fate import forks

DEFINITIONS = """
CREATE TABLE stages (number INT);
CREATE TABLE orders (item STRING, price INT);
CREATE VIEW cheap AS SELECT item, price FROM orders WHERE price < 5;
CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM cheap;
CREATE INDEX by_price ON orders (price);
"""
SINK = "CREATE SINK out FROM total INTO PARQUET '{folder}/out' MODE UPSERT KEY (item) WITH (BUCKETS = 2)"
STAGES = (
    ("", "INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('oil', 7)"),
    (
        "ALTER TABLE orders ADD COLUMN shop STRING DEFAULT 'main'",
        "DELETE FROM orders WHERE item = 'jam'; INSERT INTO orders VALUES ('tea', 4, 'fair')",
    ),
    (
        (
            "ALTER TABLE orders RENAME COLUMN shop TO place; "
            "CREATE MATERIALIZED VIEW IF NOT EXISTS places AS SELECT place, sum(price) AS t FROM orders GROUP BY place"
            "; CREATE TABLE copied AS SELECT * FROM places"
        ),
        "INSERT INTO orders VALUES ('oil', 9, 'fair')",
    ),
    (
        (
            "ALTER TABLE orders ADD COLUMN note STRING; "
            "CREATE OR REPLACE VIEW cheap AS SELECT item, price FROM orders WHERE price < 8; "
            "CREATE OR REPLACE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM cheap GROUP BY item"
        ),
        "INSERT INTO orders VALUES ('ink', 1, 'main', 'blue')",
    ),
    (
        "ALTER TABLE orders DROP COLUMN note; ALTER TABLE orders ALTER COLUMN price TYPE BIGINT",
        "UPDATE orders SET price = price + 1 WHERE item = 'ink'",
    ),
)
FINAL = """
CREATE TABLE orders (item STRING, price BIGINT, place STRING);
CREATE VIEW cheap AS SELECT item, price FROM orders WHERE price < 8;
CREATE MATERIALIZED VIEW total AS SELECT item, sum(price) AS total FROM cheap GROUP BY item;
CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM cheap;
CREATE MATERIALIZED VIEW places AS SELECT place, sum(price) AS t FROM orders GROUP BY place;
CREATE TABLE copied (place STRING, t BIGINT);
INSERT INTO copied VALUES ('main', 10), ('fair', 4);
INSERT INTO orders VALUES ('tea', 3, 'main'), ('oil', 7, 'main'), ('tea', 4, 'fair'), ('oil', 9, 'fair'),
    ('ink', 2, 'main');
"""


def run(folder: Path) -> None:
    with an.Session(path=folder / "state") as session:
        if not session.sql("SHOW SINKS").to_pylist():
            session.sql(DEFINITIONS)
            session.sql(SINK.format(folder=folder))
        for number, (changes, rows) in enumerate(STAGES):
            if (number,) not in session.sql("SELECT * FROM stages").to_pylist():
                if changes:
                    session.sql(changes)
                session.sql(f"BEGIN; {rows}; INSERT INTO stages VALUES ({number}); COMMIT")


def main() -> None:
    an.Session().sql("SELECT 1")  # what is slow to import is imported once
    forks(run)


if __name__ == "__main__":
    main()
