"""Columns of sources that come, go and are called otherwise: views are as if all rows had had them from the start."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from tests.oracle.runners import Runner, contents_of

TYPES = ("INT", "BIGINT", "STRING")
Row = dict[int, Any]
"""A row, by the numbers of columns."""


@dataclass
class Column:
    number: int
    name: str
    kind: str
    default: Any


@dataclass
class Shown:
    """A view, and what it means of rows: it reads columns by their numbers, whatever they are called."""

    statement: str
    reads: set[int]
    meaning: Any


@dataclass
class Life:
    """A table whose columns change while rows come and go, with views that were made at different times."""

    rng: random.Random
    runner: Runner
    kind: str = "TABLE"
    columns: list[Column] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    views: dict[str, Shown] = field(default_factory=dict)
    made: int = 0
    alterations: int = 0

    def __post_init__(self) -> None:
        self.folder = self.runner.folder()
        self.session = self.runner.open_session(self.folder)
        self.columns = [Column(n, f"c{n}", kind, None) for n, kind in enumerate(("INT", "STRING", "BIGINT"))]
        self.made = len(self.columns)
        listed = ", ".join(f"{c.name} {c.kind}" for c in self.columns)
        self.session.sql(f"CREATE {self.kind} t ({listed})" + " KEEP" * (self.kind == "SOURCE"))
        self.view()

    def value(self, column: Column) -> Any:
        if self.rng.random() < 0.15:
            return None
        return self.rng.choice("xyz") if column.kind == "STRING" else self.rng.randrange(3)

    def insert(self) -> None:
        new = [{c.number: self.value(c) for c in self.columns} for _ in range(self.rng.randint(1, 4))]
        self.session.insert("t", [tuple(row[c.number] for c in self.columns) for row in new])
        self.rows += new

    def retract(self) -> None:
        if self.rows:
            row = self.rows.pop(self.rng.randrange(len(self.rows)))
            self.session.retract("t", [{c.name: row[c.number] for c in self.columns}])

    def view(self) -> None:
        """Another view, of some of the present columns."""
        rng, name = self.rng, f"v{len(self.views)}"
        some = rng.sample(self.columns, rng.randint(1, len(self.columns)))
        numbers = [c.number for c in some]
        listed = ", ".join(f"{c.name} AS o{i}" for i, c in enumerate(some))
        kind = rng.randrange(4)
        if kind == 0:
            query = f"SELECT {listed} FROM t"
            meaning = lambda rows: Counter(tuple(row[n] for n in numbers) for row in rows)  # noqa: E731
        elif kind == 1:
            query = f"SELECT {listed}, count(*) AS n FROM t GROUP BY {', '.join(c.name for c in some)}"
            meaning = lambda rows: Counter(  # noqa: E731
                (*key, n) for key, n in Counter(tuple(row[n] for n in numbers) for row in rows).items()
            )
        elif kind == 2:
            query = f"SELECT DISTINCT {listed} FROM t"
            meaning = lambda rows: Counter({tuple(row[n] for n in numbers) for row in rows})  # noqa: E731
        else:
            query = "SELECT * FROM t"  # those that there are now
            numbers = [c.number for c in self.columns]
            meaning = lambda rows: Counter(tuple(row[n] for n in numbers) for row in rows)  # noqa: E731
        plain = rng.random() < 0.3
        statement = f"CREATE {'' if plain else 'MATERIALIZED '}VIEW {name} AS {query}"
        self.session.sql(statement)
        self.views[name] = Shown(statement, set(numbers), meaning)

    def alter(self) -> None:
        rng = self.rng
        what = rng.choice(["add", "add", "rename", "drop", "widen"])
        self.alterations += 1
        if what == "add":
            column = Column(self.made, f"c{self.made}", rng.choice(TYPES), None)
            self.made += 1
            if rng.random() < 0.6:
                column.default = "d" if column.kind == "STRING" else 7
            default = "" if column.default is None else f" DEFAULT {column.default!r}"
            self.session.sql(f"ALTER {self.kind} t ADD COLUMN {column.name} {column.kind}{default}")
            self.columns.append(column)
            for row in self.rows:
                row[column.number] = column.default
        elif what == "widen":
            column = rng.choice(self.columns)
            wider = {"INT": ["BIGINT", "DOUBLE"], "BIGINT": ["DECIMAL(22, 1)"]}.get(column.kind, [])
            if wider:
                column.kind = rng.choice(wider)
                self.session.sql(f"ALTER {self.kind} t ALTER COLUMN {column.name} TYPE {column.kind}")
        elif what == "rename":
            column = rng.choice(self.columns)
            to = f"r{self.alterations}"
            self.session.sql(f"ALTER {self.kind} t RENAME COLUMN {column.name} TO {to}")
            column.name = to
        else:
            column = rng.choice(self.columns)
            readers = [name for name, view in self.views.items() if column.number in view.reads]
            if len(self.columns) == 1 or readers:
                with pytest.raises(an.errors.AltneuError):
                    self.session.sql(f"ALTER {self.kind} t DROP COLUMN {column.name}")
                return
            self.session.sql(f"ALTER {self.kind} t DROP COLUMN {column.name}")
            self.columns.remove(column)

    def check(self) -> None:
        for name, view in self.views.items():
            got = Counter(map(tuple, self.session.sql(f"SELECT * FROM {name}").to_pylist()))
            assert got == view.meaning(self.rows), view.statement
        wanted = Counter(tuple(row[c.number] for c in self.columns) for row in self.rows)
        assert contents_of(self.session.view("t")) == wanted

    def step(self) -> None:
        self.runner.before_step(self.session, self.rng.randrange(2))
        for _ in range(self.rng.randint(0, 3)):
            self.retract() if self.rng.random() < 0.4 else self.insert()
        self.session.advance()
        self.check()

    def reopen(self) -> None:
        self.session.close()
        self.session = self.runner.open_session(self.folder)
        self.check()


def lived(seed: int, runner: Runner, steps: int, kind: str = "TABLE") -> Life:
    life = Life(random.Random(seed), runner, kind)
    for _ in range(steps):
        life.step()
        life.alter()
        life.check()
        if life.rng.random() < 0.6:
            life.view()
        if runner.reopened and life.rng.random() < 0.5:
            life.reopen()
    life.step()
    return life


def test_views_are_as_if_rows_had_had_the_columns_from_the_start(runner: Runner) -> None:
    quick = runner.name not in ("driver", "spark", "mixed")
    for seed in range(5 if quick else 1):
        lived(seed, runner, 6 if quick else 2, "SOURCE" if seed % 2 else "TABLE").session.close()


def test_with_collisions_and_more_shards() -> None:
    for seed, bits in enumerate((1, 3)):
        with hash_bits(bits):
            life = lived(70 + seed, Runner("many", lambda _: Session(shards=2, retain="all")), 4)
            life.session.reshard(4)
            life.session.merge()
            life.alter()
            life.step()
            life.session.close()
