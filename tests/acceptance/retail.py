"""A small retail star schema: its tables, what happens in them, and dashboards over them in Spark's SQL."""

from __future__ import annotations

import datetime as dt
import json
import random
from decimal import Decimal

import pyarrow as pa

TABLES = {
    "products": "product_id BIGINT, title STRING, category STRING, price DECIMAL(8,2), attributes STRING",
    "stores": "store_id BIGINT, city STRING, opened DATE",
    "customers": "customer_id BIGINT, name STRING, city STRING, segment STRING, loaded TIMESTAMP",
    "sales": "sale_id BIGINT, at TIMESTAMP, customer_id BIGINT, product_id BIGINT, store_id BIGINT, quantity INT, "
    "payload STRING",
    "returned": "sale_id BIGINT, reason STRING, day DATE",
    "clicks": "customer_id BIGINT, at TIMESTAMP, page STRING, ms DOUBLE",
}
_START = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
_PAYLOAD = "from_json(payload, 'channel STRING, discount DOUBLE, tags ARRAY<STRING>')"
_HISTORY = """
    WITH hashed AS (
        SELECT *, sha2(concat_ws('|', name, city, segment), 256) AS row_hash FROM customers
    ), compared AS (
        SELECT *, lag(row_hash) OVER (PARTITION BY customer_id ORDER BY loaded) AS before FROM hashed
    ), versions AS (
        SELECT customer_id, name, city, segment, row_hash, loaded AS valid_from,
            lead(loaded) OVER (PARTITION BY customer_id ORDER BY loaded) AS valid_to
        FROM compared WHERE before IS NULL OR before <> row_hash
    )"""
_SESSIONS = """
    WITH gaps AS (
        SELECT *, CASE WHEN at > lag(at) OVER (PARTITION BY customer_id ORDER BY at, page, ms) + INTERVAL 30 MINUTES
            THEN 1 ELSE 0 END AS starts FROM clicks
    ), numbered AS (
        SELECT *, sum(starts) OVER (PARTITION BY customer_id ORDER BY at, page, ms ROWS UNBOUNDED PRECEDING) AS number
        FROM gaps
    )"""

VIEWS = {
    "revenue_by_day": """
        SELECT to_date(s.at) AS day, sum(s.quantity * p.price) AS revenue, count(*) AS n
        FROM sales s JOIN products p USING (product_id) GROUP BY to_date(s.at)""",
    "channels": """
        SELECT get_json_object(payload, '$.channel') AS channel, sum(quantity) AS units FROM sales
        GROUP BY get_json_object(payload, '$.channel')""",
    "discounts": f"""
        SELECT {_PAYLOAD}.channel AS channel, avg({_PAYLOAD}.discount) AS mean, max({_PAYLOAD}.discount) AS most
        FROM sales GROUP BY 1""",
    "tags": f"""
        SELECT tag, count(DISTINCT customer_id) AS customers, sum(quantity) AS units
        FROM sales LATERAL VIEW explode({_PAYLOAD}.tags) t AS tag GROUP BY tag""",
    "colours": """
        SELECT a.colour, cast(a.grams AS INT) AS grams, count(*) AS n
        FROM products LATERAL VIEW json_tuple(attributes, 'colour', 'grams') a AS colour, grams
        GROUP BY a.colour, a.grams""",
    "as_json": """
        SELECT category, to_json(named_struct('n', count(*), 'dearest', max(price))) AS summary
        FROM products GROUP BY category""",
    "customer_history": f"{_HISTORY} SELECT *, valid_to IS NULL AS is_current FROM versions",
    "segments": f"{_HISTORY} SELECT segment, count(*) AS n FROM versions WHERE valid_to IS NULL GROUP BY segment",
    "revenue_by_segment": f"""{_HISTORY}
        SELECT coalesce(v.segment, 'unknown') AS segment, sum(s.quantity * p.price) AS revenue
        FROM sales s JOIN products p ON s.product_id = p.product_id
        LEFT JOIN versions v ON s.customer_id = v.customer_id AND s.at >= v.valid_from
            AND (v.valid_to IS NULL OR s.at < v.valid_to)
        GROUP BY coalesce(v.segment, 'unknown')""",
    "moves": f"""{_HISTORY}
        SELECT customer_id, count(DISTINCT city) AS cities, max(valid_from) AS last FROM versions
        GROUP BY customer_id HAVING count(*) > 1""",
    "sessions": f"""{_SESSIONS}
        SELECT customer_id, number, min(at) AS began, max(at) AS ended, count(*) AS clicks, sum(ms) AS ms
        FROM numbered GROUP BY customer_id, number""",
    "entry_pages": f"""{_SESSIONS}, ordered AS (
            SELECT page, row_number() OVER (PARTITION BY customer_id, number ORDER BY at, page, ms) AS place
            FROM numbered
        ) SELECT page, count(*) AS n FROM ordered WHERE place = 1 GROUP BY page""",
    "by_weekday": """
        SELECT * FROM (SELECT p.category, date_format(s.at, 'EEE') AS weekday, s.quantity
            FROM sales s JOIN products p USING (product_id))
        PIVOT (sum(quantity) AS units, count(*) AS n FOR weekday IN ('Mon', 'Tue', 'Sun'))""",
    "measures": """
        SELECT * FROM (SELECT store_id, sum(quantity) AS units, count(DISTINCT customer_id) AS customers FROM sales
            GROUP BY store_id)
        UNPIVOT (value FOR measure IN (units, customers))""",
    "net": """
        SELECT sale_id, quantity * price AS gross, gross * 0.19 AS tax, gross + tax AS total,
            CASE WHEN total > 100 THEN 'large' ELSE 'small' END AS size
        FROM sales JOIN products USING (product_id)""",
    "by_place": """
        SELECT p.category, t.city, sum(s.quantity) AS units, grouping_id(p.category, t.city) AS level
        FROM sales s JOIN products p USING (product_id) JOIN stores t USING (store_id)
        GROUP BY GROUPING SETS ((p.category, t.city), (p.category), ())""",
    "rolled_up": """
        SELECT year(at) AS y, month(at) AS m, count(*) AS n FROM sales GROUP BY ROLLUP (year(at), month(at))""",
    "cubed": """
        SELECT category, substr(title, 1, 1) AS letter, min(price) AS least, grouping(category) AS g
        FROM products GROUP BY CUBE (category, substr(title, 1, 1))""",
    "best_sellers": """
        SELECT * FROM (SELECT category, title, units, rank() OVER (PARTITION BY category ORDER BY units DESC) AS place
            FROM (SELECT p.category, p.title, sum(s.quantity) AS units FROM sales s JOIN products p USING (product_id)
                GROUP BY p.category, p.title)) WHERE place <= 2""",
    "moving": """
        SELECT day, units, avg(units) OVER (ORDER BY day ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS mean,
            sum(units) OVER (ORDER BY day RANGE BETWEEN INTERVAL 3 DAYS PRECEDING AND CURRENT ROW) AS recent
        FROM (SELECT to_date(at) AS day, sum(quantity) AS units FROM sales GROUP BY to_date(at))""",
    "running": """
        SELECT sale_id, customer_id, sum(quantity) OVER (PARTITION BY customer_id ORDER BY at, sale_id) AS units,
            datediff(at, lag(at) OVER (PARTITION BY customer_id ORDER BY at, sale_id)) AS days
        FROM sales""",
    "quartiles": """
        SELECT customer_id, units, ntile(4) OVER (ORDER BY units DESC, customer_id) AS quartile,
            percent_rank() OVER (ORDER BY units) AS share
        FROM (SELECT customer_id, sum(quantity) AS units FROM sales GROUP BY customer_id)""",
    "first_and_last": """
        SELECT customer_id, min_by(product_id, struct(at, sale_id)) AS first, max_by(product_id, struct(at, sale_id)) AS
            last, percentile(quantity, 0.5) AS middle FROM sales GROUP BY customer_id""",
    "cohorts": """
        SELECT f.month AS cohort, months_between(date_trunc('MONTH', s.at), f.month) AS age,
            count(DISTINCT s.customer_id) AS customers
        FROM sales s JOIN (SELECT customer_id, date_trunc('MONTH', min(at)) AS month FROM sales GROUP BY customer_id) f
            ON s.customer_id = f.customer_id
        GROUP BY 1, 2""",
    "return_rates": """
        SELECT p.category, count(r.sale_id) AS gone, count(*) AS sold,
            round(count(r.sale_id) / count(*), 3) AS rate, max(datediff(r.day, s.at)) AS slowest
        FROM sales s JOIN products p USING (product_id) LEFT JOIN returned r USING (sale_id) GROUP BY p.category""",
    "unsold": """
        SELECT product_id, upper(title) AS title FROM products p
        WHERE NOT EXISTS (SELECT 1 FROM sales s WHERE s.product_id = p.product_id AND s.quantity > 1)""",
    "reasons": """
        SELECT t.city, array_join(sort_array(collect_set(r.reason)), ', ') AS reasons, count_if(r.reason = 'size') AS n
        FROM stores t LEFT JOIN sales s USING (store_id) LEFT JOIN returned r USING (sale_id) GROUP BY t.city""",
    "shares": """
        SELECT store_id, sum(quantity) AS units, sum(quantity) / (SELECT sum(quantity) FROM sales) AS share
        FROM sales GROUP BY store_id
        HAVING sum(quantity) >= (SELECT avg(units) FROM
            (SELECT sum(quantity) AS units FROM sales GROUP BY store_id))""",
    "tiers": """
        SELECT tier(units) AS tier, count(*) AS n, sum(units) AS units FROM
            (SELECT customer_id, sum(quantity) AS units FROM sales GROUP BY customer_id) GROUP BY tier(units)""",
    "together": """
        SELECT a.product_id AS one, b.product_id AS other, count(*) AS n FROM sales a JOIN sales b
            ON a.customer_id = b.customer_id AND to_date(a.at) = to_date(b.at) AND a.product_id < b.product_id
        GROUP BY a.product_id, b.product_id""",
    "only_seen": """
        (SELECT customer_id FROM clicks EXCEPT SELECT customer_id FROM sales)
        UNION ALL (SELECT customer_id FROM customers INTERSECT SELECT customer_id FROM sales WHERE quantity > 3)""",
    "hours": """
        SELECT hour(at) AS hour, sum(CASE WHEN page LIKE '/cart%' THEN 1 ELSE 0 END) AS carts,
            sum(ms) FILTER (WHERE ms > 50) AS slow, stddev(ms) AS spread FROM clicks GROUP BY hour(at)""",
}


def tier(units: int | None) -> str:
    """A function of the user's: how much a customer buys."""
    return "none" if units is None else "gold" if units > 25 else "silver" if units > 12 else "bronze"


class Retail:
    """The rows of the tables, and increments of them; the same for a seed."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._sales = 0
        self.rows: dict[str, list[tuple[object, ...]]] = {name: [] for name in TABLES}

    def increment(self, sales: int) -> dict[str, tuple[list[tuple[object, ...]], list[tuple[object, ...]]]]:
        """Rows that come and go, by table."""
        chance, many = self._chance, self._chance.randrange
        new = {
            "products": [self._product(many(30)) for _ in range(sales // 12)],
            "stores": [(many(6), chance.choice(["Ulm", "Rom", "Nis"]), self._at(0, 300).date()) for _ in range(3)],
            "customers": [self._customer() for _ in range(sales // 4)],
            "sales": [self._sale() for _ in range(sales)],
            "returned": [self._return() for _ in range(sales // 8)],
            "clicks": [
                (
                    many(12),
                    self._at(many(2), 1).replace(hour=10 + many(3)),
                    chance.choice(["/", "/cart", "/cart/pay", "/help"]),
                    many(2000) / 16,
                )
                for _ in range(sales)
            ],
        }
        gone = {}
        for name, rows in self.rows.items():
            gone[name] = [rows.pop(many(len(rows))) for _ in range(len(rows) // 10)]
            rows.extend(new[name])
        return {name: (new[name], gone[name]) for name in TABLES}

    def _at(self, day: int, days: int) -> dt.datetime:
        return _START + dt.timedelta(days=day, minutes=self._chance.randrange(days * 1440))

    def _product(self, number: int) -> tuple[object, ...]:
        attributes = {"colour": self._chance.choice(["red", "blue", None]), "grams": self._chance.randrange(5) * 100}
        text = self._chance.choice([json.dumps(attributes), json.dumps(attributes), "{", None])
        price = Decimal(self._chance.randrange(100, 9000)) / 100
        return number, f"{'abc'[number % 3]} {number}", self._chance.choice(["food", "toys", "tools"]), price, text

    def _customer(self) -> tuple[object, ...]:
        number = self._chance.randrange(12)
        city, segment = self._chance.choice(["Ulm", "Rom"]), self._chance.choice(["home", "trade", None])
        return number, f"name {number}", city, segment, self._at(0, 60)

    def _sale(self) -> tuple[object, ...]:
        chance, many = self._chance, self._chance.randrange
        self._sales += 1
        tags = chance.sample(["gift", "sale", "new"], many(3))
        payload = {"channel": chance.choice(["web", "shop"]), "discount": many(8) / 8, "tags": tags}
        text = chance.choice([json.dumps(payload)] * 6 + ['{"channel": "web"}', None])
        return self._sales, self._at(0, 90), many(12), many(30), many(6), many(1, 6), text

    def _return(self) -> tuple[object, ...]:
        reason = self._chance.choice(["size", "late", "broken"])
        return self._chance.randrange(1, self._sales + 1), reason, self._at(60, 60).date()

    def tables(self, schemas: dict[str, pa.Schema]) -> dict[str, pa.Table]:
        """The present rows."""
        return {
            name: pa.Table.from_arrays(
                [pa.array([row[i] for row in rows], schemas[name].field(i).type) for i in range(len(schemas[name]))],
                schema=schemas[name],
            )
            for name, rows in self.rows.items()
        }
