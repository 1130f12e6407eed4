"""Rows of many types, and tests of them, for what Spark filters."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa

import altneu as an

SCHEMA = (
    "i int, n bigint, s string, d date, t timestamp, p decimal(12,2), b boolean, x double, y binary, z timestamp_ntz"
)
VALUES = {
    "i": [None, -5, 0, 1, 2, 3, 2**31 - 1],
    "n": [None, -1, 0, 1, 7, 2**63 - 1],
    "s": [None, "", "a", "ab", "b%", "é", "a_c", "\\"],
    "d": [None, date(1, 1, 1), date(1969, 12, 31), date(2024, 2, 29), date(9999, 12, 31)],
    "t": [None, datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 3, 31, 1, 30, tzinfo=UTC)],
    "p": [None, Decimal("-0.01"), Decimal("0.00"), Decimal("1.10"), Decimal("9999999999.99")],
    "b": [None, True, False],
    "x": [None, 0.0, -0.0, 1.5, float("inf"), float("nan")],
    "y": [None, b"", b"\x00", b"ab"],
    "z": [None, datetime.fromisoformat("1970-01-01"), datetime.fromisoformat("2024-03-31T01:30")],
}
TESTS = [
    "i > 0",
    "i + 1 > 2",
    "n <= 1",
    "i <=> null or n = 7",
    "s >= 'a'",
    "s like 'a%'",
    "s like '%_c' or s = '\\\\'",
    "s in ('a', 'é', null)",
    "not (s = 'ab')",
    "startswith(s, 'a') and contains(s, 'b')",
    "d between date'1970-01-01' and date'2025-01-01'",
    "d < date'0001-01-02' or d is null",
    "t >= timestamp'2024-03-31 01:30:00'",
    "t != timestamp'1970-01-01 00:00:00'",
    "p > 1",
    "p * 2 < 2.2 or p = 9999999999.99",
    "p <= i",
    "b",
    "not b and i is not null",
    "x > 1",
    "x = 0",
    "x < 1e300 and n > 0",
    "y > x'00'",
    "z > timestamp_ntz'1970-01-01 00:00:00'",
    "case when b then i else 2 end > 1",
    "coalesce(i, 1) = 1",
    "10 div i > 3",
    "n > 0 and 10 div i > 3",
    "10 div i > 3 and n > 0",
    "cast(s as int) is null",
    "upper(s) = 'AB'",
    "hour(t) = 1",
    "logical_now() < i",
]


def rows_at_random(rng: random.Random, count: int) -> pa.Table:
    schema = an.source("r", SCHEMA).schema
    return pa.table({f.name: pa.array([rng.choice(VALUES[f.name]) for _ in range(count)], f.type) for f in schema})


def shown(view: an.View):
    rows = [tuple(map(repr, row.values())) for row in view.to_arrow(errors="ignore").to_pylist()]
    errors = [(e["code"], e["row"]) for e in view.errors().to_pylist()]
    return Counter(rows), Counter(errors)
