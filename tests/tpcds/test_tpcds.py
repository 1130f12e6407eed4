"""TPC-DS's 99 queries as maintained views: right on load and after each step, as DuckDB answers them each time."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

import altneu as an
from altneu import sql
from bench.tpch import data
from bench.tpch.compare import Row, rows_of

pytestmark = pytest.mark.skipif(
    data.extension("tpcds") is None, reason="duckdb or duckdb-extension-tpcds is not installed"
)

SCALE, SEED, STEPS = 0.1, 99, 2
FACTS = ("store_sales", "catalog_sales", "web_sales", "store_returns", "catalog_returns", "web_returns", "inventory")
FEWEST = 50  # rows of a table of which some go: of so small a scale there is one store


class History:
    """The tables, and what happens to them: in each step rows of all tables go, and rows of facts come, some again."""

    def __init__(self) -> None:
        self.duckdb = data.connect("tpcds")
        self.duckdb.execute(f"CALL dsdgen(sf={SCALE})")
        names = [name for (name,) in self.duckdb.execute("SHOW TABLES").fetchall()]
        self.tables = {name: self.duckdb.execute(f"FROM {name}").to_arrow_table() for name in names}
        texts = self.duckdb.execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
        self.limited = {number: text.rstrip("; \n") for number, text in texts}
        # Of a query with a limit all rows are compared: which of those that are alike come first is left open.
        self.texts = {number: re.sub(r"(?i)\s+LIMIT\s+100\s*;?\s*$", "", text) for number, text in texts}
        self.sources = {name: an.source(name, table.schema) for name, table in self.tables.items()}

    @cached_property
    def steps(self) -> list[dict[str, tuple[pa.Table, pa.Table]]]:
        """What goes and what comes in each step. DuckDB has a schema for each step, with the tables after it."""
        draw, there, result = random.Random(SEED), dict(self.tables), []
        for step in range(1, STEPS + 1):
            changes = {name: self._change(draw, name, there[name]) for name in there}
            self.duckdb.execute(f"CREATE SCHEMA after{step}")
            for name, (left, _, come) in changes.items():
                there[name] = pa.concat_tables([left, come])
                self.duckdb.register("rows", there[name])
                self.duckdb.execute(f"CREATE TABLE after{step}.{name} AS FROM rows")
                self.duckdb.unregister("rows")
            result.append({name: (gone, come) for name, (_, gone, come) in changes.items()})
        return result

    def _change(self, draw: random.Random, name: str, table: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
        count = table.num_rows // 100 if table.num_rows >= FEWEST else 0
        gone = {*draw.sample(range(table.num_rows), count)}
        again = draw.sample(range(self.tables[name].num_rows), count // 2) if name in FACTS else []
        is_left = pa.array([i not in gone for i in range(table.num_rows)], pa.bool_())
        taken = pa.array(sorted(gone), pa.int64()), pa.array(again, pa.int64())
        return table.filter(is_left), table.take(taken[0]), self.tables[name].take(taken[1])

    def answer(self, number: int, step: int) -> list[Row]:
        """DuckDB's rows of a query after a step."""
        assert step <= len(self.steps)
        self.duckdb.execute(f"SET search_path = '{f'after{step},' if step else ''}main'")
        return self.duckdb.execute(self.texts[number]).fetchall()


@pytest.fixture(scope="module")
def history() -> Iterator[History]:
    made = History()
    yield made
    made.duckdb.close()


def plain(value: Any) -> Any:
    """A value as both say it: DuckDB's averages and quotients of decimals are doubles."""
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return float(value)
    return str(value)[:10] if isinstance(value, date) else value


def in_order(rows: list[Row]) -> list[Row]:
    """Rows as ``plain`` has them; those that differ in the last digits of a number alone may stand either way."""
    made = [tuple(map(plain, row)) for row in rows]
    return sorted(made, key=lambda row: [(v is None, f"{v:.2f}" if isinstance(v, float) else str(v)) for v in row])


def are_alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=2e-3)
    return one == other


def difference(mine: list[Row], theirs: list[Row]) -> str | None:
    if len(mine) != len(theirs):
        return f"{len(mine)} rows and not {len(theirs)}"
    pairs = zip(in_order(mine), in_order(theirs), strict=True)
    return next((f"{a} and not {b}" for a, b in pairs if not all(map(are_alike, a, b))), None)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("number", range(1, 100))
def test_a_view_follows_every_step(history, number):
    with an.Session(shards=1 + number % 3) as session:
        view = session.maintain("v", sql.query(history.texts[number], history.sources))
        for name in session.sources:
            session.insert(name, history.tables[name])
        session.advance()
        problems = [difference(rows_of(view.to_arrow()), history.answer(number, 0))]
        for step, changes in enumerate(history.steps, 1):
            for name in session.sources:
                gone, come = changes[name]
                session.retract(name, gone)
                session.insert(name, come)
            session.advance()
            problems.append(difference(rows_of(view.to_arrow()), history.answer(number, step)))
    assert problems == [None] * len(problems)


def test_every_query_is_planned_as_it_is_written(history):
    for number, text in history.limited.items():
        assert sql.query(text, history.sources).columns == sql.query(history.texts[number], history.sources).columns


def test_most_answers_have_rows_and_change(history):
    answers = [[in_order(history.answer(number, step)) for step in range(STEPS + 1)] for number in range(1, 100)]
    assert sum(bool(first) for first, *_ in answers) >= 80
    assert sum(any(before != after for before, after in pairwise(each)) for each in answers) >= 65
