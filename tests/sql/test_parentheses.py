"""Random FROM clauses: joins of every kind in parentheses that are named or not, nested, and in subqueries.

DuckDB says what each means, at every step of a history; Spark says so of some, and of what it alone refuses.
"""

from __future__ import annotations

import random
import re
from collections import Counter

import pytest

import altneu as an
from altneu.errors import PlanError
from altneu.sql import query
from tests.interpreted import interpreted

duckdb = pytest.importorskip("duckdb")

TABLES = {"a": ("x", "y"), "b": ("x", "z"), "c": ("y", "z"), "d": ("x", "w")}
SOURCES = {name: an.source(name, ", ".join(f"{c} int" for c in columns), keep=True) for name, columns in TABLES.items()}
KINDS = ["JOIN", "JOIN", "CROSS JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"]


class Clause:
    """One random FROM clause: its text, and the columns that it shows, by their qualified names."""

    def __init__(self, rng: random.Random, *, semi: bool = True) -> None:
        self.rng, self.count = rng, 0
        self.kinds = KINDS if semi else [k for k in KINDS if "SEMI" not in k and "ANTI" not in k]
        self.text, self.columns = self.item(rng.randint(1, 3))

    def name(self) -> str:
        self.count += 1
        return f"n{self.count}"

    def item(self, depth: int) -> tuple[str, list[str]]:
        if depth == 0 or self.rng.random() < 0.15:
            return self.leaf()
        text, columns = self.joined(depth)
        for _ in range(self.rng.choice([1, 1, 2])):
            text = f"({text})"
        return self.named(text, columns) if self.rng.random() < 0.25 else (text, columns)

    def leaf(self) -> tuple[str, list[str]]:
        table, name = self.rng.choice(list(TABLES)), self.name()
        columns = [f"{name}.{c}" for c in TABLES[table]]
        form = self.rng.random()
        if form < 0.55:
            return f"{table} AS {name}", columns
        if form < 0.7:
            return f"({table} AS {name})", columns
        if form < 0.9:
            condition = f"WHERE {TABLES[table][0]} > 0" if self.rng.random() < 0.5 else ""
            return f"(SELECT * FROM {table} {condition}) AS {name}", columns
        return f"(VALUES (1, 2), (2, 1)) AS {name}(p, q)", [f"{name}.p", f"{name}.q"]

    def named(self, text: str, columns: list[str]) -> tuple[str, list[str]]:
        """A name around a join, with names for its columns: those inside are hidden."""
        name = self.name()
        result = [f"k{i}" for i in range(len(columns))]
        return f"{text} AS {name}({', '.join(result)})", [f"{name}.{c}" for c in result]

    def joined(self, depth: int) -> tuple[str, list[str]]:
        text, columns = self.item(depth - 1)
        for _ in range(self.rng.choice([1, 1, 2])):
            kind = self.rng.choice(self.kinds)
            other, more = self.item(depth - 1)
            if kind == "CROSS JOIN":
                text = f"{text} CROSS JOIN {other}"
            else:
                text = f"{text} {kind} {other} ON {self.rng.choice(columns)} = {self.rng.choice(more)}"
            columns = columns if "SEMI" in kind or "ANTI" in kind else columns + more
        return text, columns

    def query(self) -> str:
        """The rows of the clause, or those of a table for which it has some."""
        rng = self.rng
        shown = rng.sample(self.columns, min(3, len(self.columns)))
        if rng.random() < 0.75:
            outputs = ", ".join(f"{c} AS o{i}" for i, c in enumerate(shown))
            asked = f"WHERE {shown[0]} >= 1" if rng.random() < 0.3 else ""
            return f"SELECT {outputs} FROM {self.text} {asked}"
        if rng.random() < 0.5:
            return f"SELECT x, y FROM a WHERE EXISTS (SELECT 1 FROM {self.text} WHERE {shown[0]} = a.x)"
        return f"SELECT x, (SELECT count(*) FROM {self.text} WHERE {shown[0]} = a.x) AS n FROM a"


def clauses(seed: int, count: int, **kinds: bool) -> list[str]:
    return [Clause(random.Random(f"{seed} {i}"), **kinds).query() for i in range(count)]


def in_duckdb(text: str) -> str:
    """The text as DuckDB has it, which takes no parentheses around a table alone."""
    text = re.sub(r"\((\w+ AS n\d+)\)", r"\1", text)
    return text.replace("LEFT SEMI JOIN", "SEMI JOIN").replace("LEFT ANTI JOIN", "ANTI JOIN")


def history(seed: int, steps: int):
    """Rows that come and go at each step, with duplicates and nulls, and what there is then."""
    rng = random.Random(seed)
    there: dict[str, list[tuple[int | None, ...]]] = {name: [] for name in TABLES}
    for step in range(steps):
        changes = {}
        for name, rows in there.items():
            came = [tuple(rng.choice([0, 1, 2, 3, None]) for _ in range(2)) for _ in range(rng.randint(1, 3))]
            gone = rng.sample(rows, min(len(rows), rng.randint(0, 2))) if step else []
            for row in gone:
                rows.remove(row)
            rows.extend(came)
            changes[name] = came, gone
        yield changes, there


def counted(rows) -> Counter:
    return Counter(map(tuple, rows))


def check(texts: list[str], seed: int, steps: int, shards: int = 1) -> None:
    with an.Session(shards=shards) as session, duckdb.connect() as other:
        for name, columns in TABLES.items():
            other.execute(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
            session.maintain(f"all of {name}", SOURCES[name])
        views = {text: session.maintain(text, query(text, SOURCES)) for text in dict.fromkeys(texts)}
        for changes, there in history(seed, steps):
            for name, (came, gone) in changes.items():
                session.insert(name, came)
                session.retract(name, gone)
                other.execute(f"DELETE FROM {name}")
                other.executemany(f"INSERT INTO {name} VALUES (?, ?)", there[name])
            session.advance()
            for text, view in views.items():
                want = counted(other.execute(in_duckdb(text)).fetchall())
                assert counted(view.to_pylist()) == want, text
        assert any(view.to_pylist() for view in views.values())


@pytest.mark.parametrize("seed", range(4))
def test_a_view_of_a_random_clause_is_what_duckdb_says_at_every_step(seed):
    check(clauses(seed, 12), seed, steps=3, shards=1 + 2 * (seed % 2))


def test_a_view_that_comes_late_and_a_query_are_the_same():
    texts = clauses(50, 6)
    with an.Session() as session, duckdb.connect() as other:
        for name, columns in TABLES.items():
            other.execute(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
            session.sql(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
        for changes, _ in history(50, 1):
            for name, (came, _) in changes.items():
                other.executemany(f"INSERT INTO {name} VALUES (?, ?)", came)
                session.insert(name, came)
        session.advance()
        for i, text in enumerate(texts):
            want = counted(other.execute(in_duckdb(text)).fetchall())
            assert counted(session.sql(text).to_pylist()) == want, text
            session.sql(f"CREATE MATERIALIZED VIEW v{i} AS {text}")
            assert counted(session.view(f"v{i}").to_pylist()) == want, text


def test_conditions_choose_the_order_of_joins_in_parentheses_that_come_first():
    """What stands first is joined as if it had no parentheses, so that nothing meets everything."""
    inside = query("SELECT a.x FROM ((a CROSS JOIN b) CROSS JOIN d) WHERE a.x = b.x AND b.x = d.x", SOURCES)
    outside = query("SELECT a.x FROM a CROSS JOIN b CROSS JOIN d WHERE a.x = b.x AND b.x = d.x", SOURCES)
    assert inside.node.fingerprint == outside.node.fingerprint


HIDDEN = [
    "SELECT * FROM (a JOIN b USING (x)) AS n WHERE a.x = 1",
    "SELECT a.x FROM (a) AS n",
    "SELECT p.x FROM ((SELECT * FROM a) AS p) AS n",
    "SELECT * FROM a JOIN (b JOIN d ON a.x = d.x) ON a.x = b.x",
    "SELECT x FROM (a CROSS JOIN b) AS n",
    "SELECT x AS k, y AS k FROM a ORDER BY k",
    "SELECT * FROM a AS p, a AS q ORDER BY x",
]


@pytest.mark.parametrize("text", HIDDEN)
def test_names_that_are_hidden_or_ambiguous_are_refused(text):
    with pytest.raises(PlanError, match=r"no column|may be one of several|two columns"):
        query(text, SOURCES)
    with an.Session() as session:
        for name, columns in TABLES.items():
            session.sql(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in columns)})")
        with pytest.raises(PlanError, match=r"no column|may be one of several"):
            session.sql(text)


@pytest.mark.spark
def test_spark_says_the_same(spark):
    """Of random clauses, and of what is refused."""
    texts = [*clauses(70, 16), *clauses(71, 4, semi=False)]
    shown = ["SELECT x, x FROM a ORDER BY x", "SELECT *, * FROM a ORDER BY x", "SELECT x FROM a ORDER BY ALL DESC"]
    ((_, there),) = history(70, 1)
    for name, columns in TABLES.items():
        frame = spark.createDataFrame(there[name], ", ".join(f"{c} int" for c in columns)).coalesce(1).cache()
        frame.createOrReplaceTempView(name)
    with an.Session() as session, interpreted(spark):
        for name, rows in there.items():
            session.sql(f"CREATE TABLE {name} ({', '.join(f'{c} INT' for c in TABLES[name])})")
            session.insert(name, rows)
        session.advance()
        for text in [*texts, *shown]:
            assert counted(session.sql(text).to_pylist()) == counted(spark.sql(text).collect()), text
    for text in HIDDEN:
        with pytest.raises(Exception, match=r"AMBIGUOUS_REFERENCE|UNRESOLVED_COLUMN"):
            spark.sql(text).collect()
