"""What tests of functions of users share; tasks of Spark import the functions from here."""

from __future__ import annotations

import random
from collections.abc import Callable

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

import altneu as an
from altneu import Collection
from altneu.sql import query
from tests.oracle.recompute import Row

T = an.source("t", "trial int, k long, s string", keep=True)
U = an.source("u", "trial int, k long, w long", keep=True)
SOURCES = {"t": T, "u": U}


def row_of_t(rng: random.Random, case: int) -> Row:
    return case, rng.choice([0, 1, 1, 2, 3, None]), rng.choice(["x", "y", "", None])


def row_of_u(rng: random.Random, case: int) -> Row:
    return case, rng.choice([1, 1, 2, None]), rng.choice([2, 6, None])


TABLES = {"t": row_of_t, "u": row_of_u}


def shift(k: int | None, s: str | None) -> int | None:
    """Fails on 3, and is null where the text is."""
    if k == 3:
        raise ValueError("three")
    return None if s is None else (k or 0) * 10 + len(s)


def shift_of_arrays(k: pa.Array, s: pa.Array) -> pa.Array:
    """The same on arrays: of a batch with a 3 the whole call fails."""
    if 3 in k.to_pylist():
        raise ValueError("three")
    return pc.add(pc.multiply(pc.fill_null(k, 0), 10), pc.utf8_length(s).cast(pa.int64()))


def shift_of_series(k: pd.Series, s: pd.Series) -> pd.Series:
    """The same on series."""
    if (k == 3).any():
        raise ValueError("three")
    return (k.fillna(0) * 10 + s.str.len()).astype("Int64")


FORMS: dict[str, Callable[..., an.Udf]] = {
    "of values": lambda **more: an.udf(shift, "long", name="shift", **more),
    "of arrays": lambda **more: an.udf(shift_of_arrays, "long", name="shift", vectorized="arrow", **more),
    "of series": lambda **more: an.udf(shift_of_series, "long", name="shift", vectorized="pandas", **more),
}


def plans(f: an.Udf) -> dict[str, Collection]:
    """By name; each has a twin in ``meaning``."""
    return {
        "selected": T.select("trial", "k", y=f("k", "s")),
        "filtered": T.filter((f("k", "s") > 5) & (an.col("trial") >= 0)).select("trial", "k", "s", z=f("k", "s") + 1),
        "joined": T.join(U, on=["trial", "k"]).select("trial", y=f("w", "s")),
        "grouped": T.filter("k is null or k <> 3").group_by("trial", y=f("k", "s")).agg(n="count(*)"),
        "twice": T.filter("k is null or k <> 3").select("trial", y=f(f("k", "s"), an.lit("ab"))),
        "in SQL": query(
            "SELECT trial, max(shift(k, s)) AS m FROM t WHERE k <> 3 AND coalesce(shift(k, 'ab'), 0) > 2 "
            "GROUP BY trial",
            {"t": T},
            {"shift": f},
        ),
    }
