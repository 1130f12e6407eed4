"""The tables as DataFrames, answers that can be compared, and Spark's answers as they were once given."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pyspark

import altneu as an
from altneu.runtime.spark.versions import spark_schema
from altneu.sql.frames.handles import of_plan
from tests.frames import generator
from tests.frames.queries import QUERIES, ROWS, SCHEMAS, Query, Tables

WRITE = os.environ.get("ALTNEU_FRAMES") == "write"
WHOLE = bool(os.environ.get("ALTNEU_FRAMES"))  # every query on Spark too, which takes minutes
ANSWERS = Path(__file__).with_name("answers.json")
VERSION = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
Rows = tuple[list[str], Counter[Any]]


RANDOM = {f"random {seed}": generator.query(seed) for seed in range(300 if WHOLE and not WRITE else 60)}
ALL: dict[str, Query] = {**QUERIES, **RANDOM}


def sources() -> dict[str, an.Collection]:
    """The tables as sources."""
    return {name: an.source(name, schema) for name, schema in SCHEMAS.items()}


def spark_tables(spark: Any) -> Tables:
    """The tables with their rows, as Spark has them."""
    frames = {n: spark.createDataFrame(ROWS[n], spark_schema(s.schema)).alias(n) for n, s in sources().items()}
    return Tables(**frames, range=spark.range)


def handles(session: an.Session) -> Tables:
    """The tables as what stands for them."""
    frames = {name: session.frame(source) for name, source in sources().items()}
    if session.spark is not None:
        return Tables(**frames, range=session.spark.range)
    from pyspark.sql.connect.plan import Range

    def numbers(start: int, end: int, step: int = 1) -> Any:
        return of_plan(Range(start, end, step), frames["orders"].sparkSession)

    return Tables(**frames, range=numbers)


def written(query: Callable[..., Any], *given: Any) -> Any:
    """The DataFrame that a query is; None where a Spark before 4.1 cannot write it, as most subqueries."""
    try:
        return query(*given)
    except (AttributeError, TypeError):
        if VERSION >= (4, 1):
            raise
        return None


def fill(session: an.Session) -> None:
    """Rows of all tables, after a first step with others in their place."""
    for name in session.sources:
        session.insert(name, [*ROWS[name][1:], ROWS[name][-1]])
    session.advance()
    for name in session.sources:
        session.insert(name, [ROWS[name][0]])
        session.retract(name, [ROWS[name][-1]])
    session.advance()


def kept(view: an.View) -> Rows:
    """The names of a view's columns, and its rows."""
    table = view.to_arrow()
    return table.column_names, counted(zip(*(c.to_pylist() for c in table.columns), strict=True))


def by_spark(query: Query, functions: Any, window: Any, tables: Tables) -> Rows:
    """What Spark answers."""
    frame = query(functions, window, tables)
    return frame.columns, counted(frame.collect())


def comparable(value: Any) -> Any:
    """A value that equals another one if Spark would say so: NaN, times, rows and numbers of other kinds included."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else float(f"{value:.9g}")
    if hasattr(value, "asDict") or isinstance(value, list | tuple):
        return tuple(comparable(v) for v in (value if not isinstance(value, dict) else value.values()))
    if isinstance(value, dict):
        return tuple(comparable(v) for v in value.values())
    return value.replace(tzinfo=None).isoformat() if hasattr(value, "tzinfo") else value


def counted(rows: Any) -> Counter[Any]:
    """Rows with their numbers."""
    return Counter(tuple(comparable(v) for v in row) for row in rows)


@cache
def answers() -> dict[str, Rows]:
    """Spark's answers, as of when they were written; rows are shown as texts."""
    stored = json.loads(ANSWERS.read_text())
    return {name: (columns, Counter(dict(rows))) for name, (columns, rows) in stored.items()}


def shown(rows: Rows) -> Rows:
    """Rows as texts, as they are stored."""
    names, counts = rows
    result: Counter[Any] = Counter()
    for row, count in counts.items():
        result[repr(row)] += count
    return names, result


def write(found: dict[str, Rows]) -> None:
    """Store Spark's answers."""
    texts = {name: (columns, sorted(rows.items())) for name, (columns, rows) in found.items()}
    ANSWERS.write_text(json.dumps(texts, indent=1) + "\n")


__all__ = [
    "ALL",
    "RANDOM",
    "WHOLE",
    "WRITE",
    "answers",
    "by_spark",
    "fill",
    "handles",
    "kept",
    "shown",
    "spark_tables",
    "write",
    "written",
]
