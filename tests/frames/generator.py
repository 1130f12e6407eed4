"""Random queries over the tables, each the same for its seed whoever's functions it is written with."""

from __future__ import annotations

import random
from typing import Any

from tests.frames.queries import Query, Tables

Columns = dict[str, str]  # name to kind: "i" whole numbers, "d" doubles, "s" texts
BASES: dict[str, Columns] = {
    "orders": {"k": "i", "x": "i", "y": "i", "d": "d", "n": "s"},
    "items": {"k": "i", "q": "s", "w": "d"},
    "shops": {"id": "i", "name": "s"},
}


class Writer:
    """Writes one query, operation by operation; all choices come from ``rng``."""

    def __init__(self, rng: random.Random, F: Any, W: Any, tables: Tables) -> None:
        self.rng, self.F, self.W, self.tables = rng, F, W, tables
        self.made = 0
        self.frame, self.columns = self.base()

    def query(self) -> Any:
        operations = [
            *(self.filter, self.filter, self.with_column, self.with_column, self.select, self.aggregate, self.join),
            *(self.join, self.union, self.distinct, self.window, self.limit, self.missing, self.rename, self.less),
            *(self.subquery, self.unpivot, self.pivot),
        ]
        for _ in range(self.rng.randint(2, 6)):
            self.rng.choice(operations)()
        return self.frame

    # parts ----------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        self.made += 1
        return f"c{self.made}"

    def base(self) -> tuple[Any, Columns]:
        """A table, with names that nothing else has."""
        table = self.rng.choice(list(BASES))
        names = {old: (self.name(), kind) for old, kind in BASES[table].items()}
        renamed = [self.F.col(old).alias(new) for old, (new, _) in names.items()]
        return getattr(self.tables, table).select(*renamed), dict(names.values())

    def of(self, *kinds: str) -> str | None:
        names = [n for n, kind in self.columns.items() if kind in kinds]
        return self.rng.choice(names) if names else None

    def number(self) -> Any:
        F, name = self.F, self.of("i")
        if name is None:
            return F.lit(self.rng.randint(-3, 9))
        col = F.col(name)
        return self.rng.choice(
            [
                lambda: col + self.rng.randint(-2, 3),
                lambda: -col,
                lambda: F.coalesce(col, F.lit(0)) % 5,
                lambda: F.when(self.test(), col).otherwise(F.lit(self.rng.randint(0, 3))),
                lambda: F.greatest(col, F.lit(2)),
                lambda: F.abs(name),
                lambda: F.length(self.of("s")) if self.of("s") else col,
            ]
        )()

    def text(self) -> Any:
        F, name = self.F, self.of("s")
        if name is None:
            return F.lit(self.rng.choice("abz"))
        col = F.col(name)
        return self.rng.choice(
            [
                lambda: F.upper(name),
                lambda: F.concat(col, F.lit("-")),
                lambda: F.when(self.test(), col),
                lambda: col.substr(1, 1),
                lambda: F.coalesce(col, F.lit("none")),
            ]
        )()

    def test(self) -> Any:
        F = self.F
        number, text = self.of("i", "d"), self.of("s")
        choices = []
        if number:
            col, value = F.col(number), self.rng.randint(-1, 5)
            choices += [
                lambda: col > value,
                lambda: col <= value,
                lambda: col.isNull(),
                lambda: col.isin(value, value + 2),
                lambda: col.between(value, value + 3),
                lambda: col.eqNullSafe(value),
                lambda: ~(col == value),
            ]
        if text:
            of_text = F.col(text)
            choices += [lambda: of_text.like("%a%"), lambda: of_text >= "b", lambda: of_text.isNotNull()]
        one = self.rng.choice(choices)()
        how = self.rng.random()
        if how < 0.2:
            return one & self.rng.choice(choices)()
        return one | self.rng.choice(choices)() if how < 0.4 else one

    # operations -----------------------------------------------------------------------------------------------------

    def filter(self) -> None:
        self.frame = self.frame.filter(self.test())

    def with_column(self) -> None:
        kind = self.rng.choice("is")
        name = self.rng.choice([self.name(), self.of(kind) or self.name()])
        self.frame = self.frame.withColumn(name, self.number() if kind == "i" else self.text())
        self.columns[name] = kind

    def select(self) -> None:
        chosen = self.rng.sample(list(self.columns), self.rng.randint(1, len(self.columns)))
        new = self.name()
        outputs = [self.F.col(n) if self.rng.random() < 0.7 else self.frame[n] for n in chosen]
        self.frame = self.frame.select(*outputs, self.number().alias(new))
        self.columns = {**{n: self.columns[n] for n in chosen}, new: "i"}

    def aggregate(self) -> None:
        F = self.F
        keys = self.rng.sample(list(self.columns), self.rng.randint(0, min(2, len(self.columns))))
        calls, columns = [F.count("*").alias(first := self.name())], {first: "i"}
        for name in self.rng.sample(list(self.columns), min(2, len(self.columns))):
            function, kind = self.rng.choice(
                [(F.min, self.columns[name]), (F.max, self.columns[name]), (F.count, "i"), (F.countDistinct, "i")]
            )
            columns[new := self.name()] = kind
            calls.append(function(name).alias(new))
        number = self.of("i")
        if number:
            columns[new := self.name()] = "i"
            calls.append(F.sum(number).alias(new))
        how = self.rng.random()
        grouped = self.frame.rollup(*keys) if keys and how < 0.2 else self.frame.groupBy(*keys)
        self.frame = grouped.agg(*calls)
        self.columns = {**{k: self.columns[k] for k in keys}, **columns}

    def join(self) -> None:
        F = self.F
        other, columns = self.base()
        left, right = self.of("i"), next((n for n, kind in columns.items() if kind == "i"), None)
        if left is None or right is None:
            return
        how = self.rng.choice(["inner", "left", "right", "outer", "left_semi", "left_anti", "using"])
        if how == "using":
            kind = self.rng.choice(["inner", "left", "right", "full"])
            self.frame = self.frame.join(other.withColumnRenamed(right, left), [left], kind)
            del columns[right]
        else:
            on = self.rng.choice([F.col(left) == F.col(right), self.frame[left] == other[right]])
            if self.rng.random() < 0.3 and how in ("inner", "left"):
                on = on & (F.col(left) < 3)
            self.frame = self.frame.join(other, on, how)
        if not how.startswith("left_"):
            self.columns = {**self.columns, **columns}
            if how == "using":  # the column comes first
                self.columns = {left: "i", **self.columns}

    def union(self) -> None:
        other = self.frame.filter(self.test())
        self.frame = self.rng.choice([self.frame.union, self.frame.unionByName])(other)

    def less(self) -> None:
        other = self.frame.filter(self.test())
        verb = self.rng.choice(["exceptAll", "subtract", "intersect", "intersectAll"])
        self.frame = getattr(self.frame, verb)(other)

    def distinct(self) -> None:
        self.frame = self.frame.distinct() if self.rng.random() < 0.5 else self.frame.dropDuplicates()

    def window(self) -> None:
        F, W = self.F, self.W
        by, order = self.rng.choice(list(self.columns)), self.of("i")
        number = self.of("i")
        if order is None or number is None:
            return
        over = W.partitionBy(by).orderBy(order)
        new, choice = self.name(), self.rng.randint(0, 3)
        value = [
            lambda: F.sum(number).over(W.partitionBy(by)),
            lambda: F.rank().over(over),
            lambda: F.count(number).over(over),
            lambda: F.max(number).over(over.rangeBetween(-2, 1)),
        ][choice]()
        self.frame, self.columns[new] = self.frame.withColumn(new, value), "i"

    def limit(self) -> None:
        keys = [self.F.col(n).desc() if self.rng.random() < 0.5 else self.F.asc(n) for n in self.columns]
        self.frame = self.frame.orderBy(*keys).limit(self.rng.randint(1, 6))

    def missing(self) -> None:
        kind = self.rng.randint(0, 3)
        if kind == 0:
            self.frame = self.frame.fillna(self.rng.choice([0, "?"]))
        elif kind == 1:
            self.frame = self.frame.dropna(subset=[self.rng.choice(list(self.columns))])
        elif kind == 2:
            self.frame = self.frame.dropna(thresh=self.rng.randint(1, len(self.columns)))
        elif (name := self.of("i")) is not None:
            self.frame = self.frame.replace({1: 11, 2: 12}, subset=[name])

    def rename(self) -> None:
        old, new = self.rng.choice(list(self.columns)), self.name()
        self.frame = self.frame.withColumnRenamed(old, new)
        self.columns = {new if n == old else n: kind for n, kind in self.columns.items()}
        if len(self.columns) > 2:
            gone = self.rng.choice(list(self.columns))
            self.frame = self.frame.drop(gone)
            del self.columns[gone]

    def subquery(self) -> None:
        other, columns = self.base()
        mine, theirs = self.of("i"), next((n for n, kind in columns.items() if kind == "i"), None)
        if mine is None or theirs is None:
            return
        inside = other.select(theirs)
        if self.rng.random() < 0.5:
            self.frame = self.frame.filter(self.F.col(mine).isin(inside))
        else:
            self.frame = self.frame.filter(self.F.col(mine) > inside.select(self.F.min(theirs)).scalar())

    def unpivot(self) -> None:
        numbers = [n for n, kind in self.columns.items() if kind == "i"]
        ids = [n for n in self.columns if n not in numbers]
        if len(numbers) < 2 or not ids:
            return
        var, value = self.name(), self.name()
        self.frame = self.frame.unpivot(ids, numbers, var, value)
        self.columns = {**{n: self.columns[n] for n in ids}, var: "s", value: "i"}

    def pivot(self) -> None:
        by, text, number = self.rng.choice(list(self.columns)), self.of("s"), self.of("i")
        if text is None or number is None or by in (text, number):
            return
        cells = [self.F.sum(number).alias("t")]
        pivoted = self.frame.groupBy(by).pivot(text, ["a", "b"]).agg(*cells)
        names = [self.name(), self.name(), self.name()]
        self.frame, self.columns = pivoted.toDF(*names), {names[0]: self.columns[by], names[1]: "i", names[2]: "i"}


def query(seed: int) -> Query:
    """The random query of a seed."""
    return lambda F, W, t: Writer(random.Random(seed), F, W, t).query()
