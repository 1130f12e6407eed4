"""What tests of statements share."""

from __future__ import annotations

ORDERS = """
CREATE TABLE orders (item STRING NOT NULL, price BIGINT);
CREATE MATERIALIZED VIEW totals AS SELECT item, sum(price) AS total FROM orders GROUP BY item;
INSERT INTO orders VALUES ('tea', 3), ('jam', 5), ('tea', 4);
"""


def rows(session, text):
    return session.sql(text).to_pylist()
