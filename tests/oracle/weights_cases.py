"""Weighted collections as they are defined: a table of rows and weights, and every verb on that, with the weight's own
``add``, ``negate`` and ``multiply`` in Python. It shares with altneu only logic of single rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

import altneu as an
from altneu import Collection
from altneu.collections.verbs import LinearVerbs, Verb
from altneu.collections.weights import Weight
from altneu.collections.weights.weighted import times
from altneu.columnar.rows import record_type
from tests.oracle.histories import History, random_history
from tests.oracle.recompute import Errors, Multiset, Row, _step, plain
from tests.oracle.runners import Judge, Runner, Update

Table = dict[Row, Any]


class Polynomial(Weight):
    """Whole-number polynomials by their coefficients, the constant first and the last not 0: a ring."""

    layout = "array<bigint>"
    zero: Any = []  # noqa: RUF012
    one: Any = [1]  # noqa: RUF012

    def add(self, a: list[int], b: list[int]) -> list[int]:
        wide = max(len(a), len(b))
        total = [x + y for x, y in zip(a + [0] * (wide - len(a)), b + [0] * (wide - len(b)), strict=True)]
        while total and not total[-1]:
            total.pop()
        return total

    def negate(self, a: list[int]) -> list[int]:
        return [-x for x in a]

    def multiply(self, a: list[int], b: list[int]) -> list[int]:
        total: list[int] = []
        for i, x in enumerate(a):
            total = self.add(total, [0] * i + [x * y for y in b])
        return total


class MinPlus(Weight):
    """The semiring of shortest paths, as a user writes it."""

    layout, zero, one = "bigint", 2**62, 0

    def add(self, a: int, b: int) -> int:
        return min(a, b)

    def multiply(self, a: int, b: int) -> int:
        return min(a + b, self.zero)


class Xor(Weight):
    """A group without a product, added up in stages."""

    buckets = (2, 6)

    layout, zero = "bigint", 0

    def add(self, a: int, b: int) -> int:
        return a ^ b

    def negate(self, a: int) -> int:
        return a


@dataclass
class Direct(LinearVerbs):
    """A weighted collection at one time: each row with its weight, none of them zero."""

    schema: pa.Schema
    table: Table
    weight: Weight
    now: int

    def _of(self, pairs: list[tuple[Row, Any]], schema: pa.Schema | None = None) -> Direct:
        table: Table = {}
        for row, weight in pairs:
            table[row] = self.weight.add(table[row], weight) if row in table else weight
        there = {row: weight for row, weight in table.items() if not self.weight.is_zero(weight)}
        return Direct(self.schema if schema is None else schema, there, self.weight, self.now)

    def _then(self, verb: Verb) -> Direct:
        logic, result = verb.bind(self.schema), self
        for step in logic.steps:
            made = [
                (new, times(self.weight, weight, n))
                for row, weight in result.table.items()
                for new, n in _step(step, row, result.schema, self.now)
                if n
            ]
            result = result._of(made, step.output(result.schema))
        return result._split()

    def _split(self) -> Direct:
        """Columns of the weight's names are factors of the weight."""
        names = self.schema.names
        if not all(n in names for n in self.weight.columns):
            return self
        own = [names.index(n) for n in self.weight.columns]
        rest = [i for i in range(len(names)) if i not in own]
        pairs = []
        for row, weight in self.table.items():
            given = row[own[0]] if len(own) == 1 else tuple(row[i] for i in own)
            given = list(given) if isinstance(given, tuple) and len(own) == 1 else given
            if given is not None:
                pairs.append((tuple(row[i] for i in rest), self.weight.multiply(weight, given)))
        return self._of(pairs, pa.schema([self.schema.field(i) for i in rest]))

    def explode(self, function: Callable[..., Any], schema: str) -> Direct:
        pairs = []
        for row, weight in self.table.items():
            record = record_type(self.schema.names)(row)
            pairs += [(plain(made), self.weight.multiply(weight, by)) for made, by in function(record)]
        return self._of(pairs, an.source("_", schema).schema)

    def concat(self, other: Direct) -> Direct:
        return self._of([*self.table.items(), *other.table.items()])

    def join(self, other: Direct | Plain, on: Mapping[str, str] | list[str], how: str = "inner") -> Direct:
        pairs_of = on if isinstance(on, Mapping) else {n: n for n in on}
        mine, theirs = (
            [s.schema.names.index(n) for n in ns] for s, ns in ((self, pairs_of), (other, pairs_of.values()))
        )
        shared = {b for a, b in pairs_of.items() if a == b}
        kept = [i for i, n in enumerate(other.schema.names) if n not in shared]
        fields = [other.schema.field(i) for i in kept]
        taken = [*self.schema.names, *(self.weight.columns if isinstance(other, Plain) else ())]
        fields = [f.with_name(f"right.{f.name}") if f.name in taken else f for f in fields]
        result, met = [], set()
        for row, weight in self.table.items():
            key = [row[i] for i in mine]
            partners = [r for r in other.table if None not in key and key == [r[i] for i in theirs]]
            met.update(partners)
            result += [((*row, *(there[i] for i in kept)), self._product(weight, other, there)) for there in partners]
            if how in ("left", "full") and not partners:
                result.append(((*row, *(None for _ in kept)), weight))
        if how in ("right", "full"):
            for there in other.table.keys() - met:
                shown = [there[other.schema.names.index(n)] if n in shared else None for n in self.schema.names]
                result.append(((*shown, *(there[i] for i in kept)), self._product(self.weight.one, other, there)))
        return self._of(result, pa.schema([*self.schema, *fields]))

    def _product(self, weight: Any, other: Direct | Plain, row: Row) -> Any:
        by = other.table[row]
        return times(self.weight, weight, by) if isinstance(other, Plain) else self.weight.multiply(weight, by)

    def _having(self, other: Direct | Plain, on: list[str], wanted: bool) -> Direct:
        mine, theirs = ([s.schema.names.index(n) for n in on] for s in (self, other))
        keys = {tuple(row[i] for i in theirs) for row in other.table}
        keys = {key for key in keys if None not in key}
        return self._of([(r, w) for r, w in self.table.items() if (tuple(r[i] for i in mine) in keys) is wanted])

    def semijoin(self, other: Direct | Plain, on: list[str]) -> Direct:
        return self._having(other, on, True)

    def antijoin(self, other: Direct | Plain, on: list[str]) -> Direct:
        return self._having(other, on, False)

    def iterate(self, body: Callable[[Direct], Direct]) -> Direct:
        last = self
        for _ in range(50):
            now = body(last)
            if now.table == last.table:
                return now
            last = now
        raise AssertionError("no fixpoint")

    def consolidate(self) -> Multiset:
        width = len(self.weight.columns)
        return Counter({(*row, *((plain(w),) if width == 1 else plain(w))): 1 for row, w in self.table.items()})

    def distinct(self) -> Multiset:
        return Counter(self.table.keys())


@dataclass
class Plain:
    """An ordinary collection at one time."""

    schema: pa.Schema
    table: Multiset


# the plans ------------------------------------------------------------------------------------------------------------

P = an.source("p", "trial int, k long, v long, w long")
Q = an.source("q", "trial int, k long, v long, w long")
KEY = ["trial", "k"]
DATA = {"trial": "trial", "k": "k", "v": "v"}


@dataclass(frozen=True)
class Kind:
    """A weight, and the expressions of its columns over those of the sources."""

    weight: Weight
    columns: Mapping[str, str]
    group: bool = False
    ring: bool = False

    def of(self, source: Collection) -> an.weights.Weighted:
        return source.select(**DATA, **self.columns).weighted(self.weight)

    @cached_property
    def source(self) -> an.weights.Weighted:
        """A source of the rows of p whose weights are given beside them."""
        return an.source("p", P.select(**DATA, **self.columns).schema, weight=self.weight)

    def columns_of(self, row: Row) -> Row:
        """The data of a row of a source, and the columns of its weight."""
        one = Direct(P.schema, {row: 1}, _Counts("n"), 0).select(**DATA, **self.columns_named)
        (made,) = one.table
        return made

    @property
    def columns_named(self) -> dict[str, str]:
        return {f"w{i}": e for i, e in enumerate(self.columns.values())}

    def value(self, values: Row) -> Any:
        """The weight of a row, from its columns; None if it is zero."""
        own = [list(v) if isinstance(v, tuple) else v for v in values]
        value = own[0] if len(own) == 1 else tuple(own)
        return None if None in values else sorted({*value}) if isinstance(self.weight, W.Union) else value

    def direct(self, name: str, held: Mapping[str, Multiset], now: int) -> Direct:
        """The same of what a source holds, by the weight's own ``add``."""
        rows = Direct(P.schema, {}, _Counts("n"), now)._of([*held[name].items()])
        made = rows.select(**DATA, **self.columns_named)
        schema = pa.schema([made.schema.field(n) for n in DATA])
        weights = [(row[:3], self.value(row[3:]), n) for row, n in made.table.items()]
        pairs = [(row, times(self.weight, value, n)) for row, value, n in weights if value is not None]
        return Direct(schema, {}, self.weight, now)._of(pairs)


class _Counts(Weight):
    layout, zero = "bigint", 0

    def add(self, a: int, b: int) -> int:
        return a + b

    def negate(self, a: int) -> int:
        return -a


W = an.weights
NUMBER = "coalesce(w, 1L)"
KINDS: dict[str, Kind] = {
    "sums": Kind(W.Sums("n", "s", "q"), {"n": "1L", "s": NUMBER, "q": f"{NUMBER} * {NUMBER}"}, True, True),
    "doubles": Kind(W.Sums("x"), {"x": f"{NUMBER} * 0.25D"}, True, True),
    "decimals": Kind(W.Sums("d"), {"d": f"cast({NUMBER} as decimal(12,2))"}, True),
    "moments": Kind(W.Moments("n", "s", "q"), {"n": "1L", "s": NUMBER, "q": f"{NUMBER} * {NUMBER}"}, True, True),
    "min": Kind(W.Min("m"), {"m": "w"}),
    "min-plus": Kind(W.Min("m", multiply="+"), {"m": "w"}, ring=True),
    "max": Kind(W.Max("m"), {"m": "w"}),
    "widest": Kind(W.Max("m", multiply="least"), {"m": "w"}, ring=True),
    "best": Kind(W.Best("a", "b desc"), {"a": NUMBER, "b": "coalesce(v, 0L)"}),
    "best-plus": Kind(W.Best("a", "b", multiply="+"), {"a": NUMBER, "b": "1L"}, ring=True),
    "union": Kind(W.Union("u"), {"u": f"array({NUMBER}, coalesce(v, 7L))"}, ring=True),
    "polynomial": Kind(Polynomial("f"), {"f": f"array({NUMBER}, 1L)"}, True, True),
    "own min-plus": Kind(MinPlus("m"), {"m": NUMBER}, ring=True),
    "xor": Kind(Xor("b"), {"b": NUMBER}, True),
}


@dataclass(frozen=True)
class Given:
    """What queries are of: p and q, weighted, and q without weights."""

    p: Any
    q: Any
    plain: Any


Query = Callable[[Given], Any]
ANY: dict[str, Query] = {
    "all": lambda s: s.p.consolidate(),
    "by key": lambda s: s.p.select("trial", "k").consolidate(),
    "of nothing": lambda s: s.p.filter("false").consolidate(),
    "some": lambda s: s.p.filter("v > 0").select("trial", k="v").consolidate(),
    "function": lambda s: (
        s.p.filter(lambda row: row.v != 2 and len(row) == 3)
        .map(lambda row: (row.trial, len(row)), "trial int, at long")
        .consolidate()
    ),
    "rows": lambda s: s.p.flat_map(
        lambda row: [(row.trial, n) for n in range(row.k or 0)], "trial int, at long"
    ).consolidate(),
    "series": lambda s: s.p.generate_series(0, "k", as_="i").select("trial", "i").consolidate(),
    "together": lambda s: s.p.concat(s.q).select("trial", "k").consolidate(),
    "in time": lambda s: s.p.temporal("v", "k + 4").select("trial", "k").consolidate(),
    "distinct": lambda s: s.p.select("trial", "v").distinct(),
    "partners": lambda s: s.p.join(s.plain, KEY).select("trial", "k").consolidate(),
    "with": lambda s: s.p.semijoin(s.q, KEY).consolidate(),
    "without": lambda s: s.p.antijoin(s.plain, KEY).select("trial").consolidate(),
}
GROUPS: dict[str, Query] = {
    "less": lambda s: s.p.concat(s.q.negate()).select("trial", "k").consolidate(),
    "owed": lambda s: s.p.repeat_row("v").select("trial", "k").consolidate(),
    "nothing left": lambda s: s.p.concat(s.p.negate()).consolidate(),
}
RINGS: dict[str, Query] = {
    "product": lambda s: s.p.join(s.q, KEY).select("trial", "k").consolidate(),
    "squares": lambda s: s.p.select("trial", "k").join(s.p.select("trial", "k"), KEY).consolidate(),
    "three": lambda s: (
        s.p.join(s.q, KEY).select("trial", "v").join(s.q.select("trial", v="k"), ["trial", "v"]).consolidate()
    ),
}


UNITS: dict[str, Query] = {
    "left": lambda s: s.p.join(s.q, KEY, "left").consolidate(),
    "full": lambda s: s.p.join(s.q, KEY, "full").select("trial", "k").consolidate(),
    "right of all": lambda s: s.p.join(s.plain, KEY, "right").consolidate(),
}


def of_numbers(column: str) -> dict[str, Query]:
    """Weights that are given as one number."""

    def pairs(row: Any) -> list[Any]:
        return [((row.trial, row.k), 2), ((row.trial, row.v), 3)]

    return {
        "given": lambda s: s.p.select("trial", "k", **{column: "v"}).consolidate(),
        "exploded": lambda s: s.p.explode(pairs, "trial int, k long").consolidate(),
    }


def shortest(s: Given) -> Any:
    """From the rows of p with k = 1 along those of q."""
    start, edges = s.p.filter("k = 1").select("trial", node="k"), s.q.filter("k is not null and v is not null")

    def further(x: Any) -> Any:
        near = x.join(edges, {"trial": "trial", "node": "k"})
        return near.select("trial", node="v").concat(start)

    return start.iterate(further).consolidate()


def ways(s: Given) -> Any:
    """The same along edges to greater numbers, so that there are finitely many ways: weights of a group cancel."""
    start, edges = s.p.filter("k = 1").select("trial", node="k"), s.q.filter("k < v")

    def further(x: Any) -> Any:
        return x.join(edges, {"trial": "trial", "node": "k"}).select("trial", node="v").concat(start)

    return start.iterate(further).consolidate()


def queries_of(name: str) -> dict[str, Query]:
    """Those that a kind of weight has all operations for."""
    kind = KINDS[name]
    numbers = of_numbers(kind.weight.columns[0]) if name in ("min-plus", "widest") else {}
    loops = {"loop": shortest} if name in ("min-plus", "widest", "union", "best-plus", "own min-plus") else {}
    loops |= {"loop": ways} if name in ("polynomial", "moments") else {}
    units = UNITS if kind.ring and kind.weight.one is not None else {}
    return {**ANY, **(GROUPS if kind.group else {}), **(RINGS if kind.ring else {}), **units, **numbers, **loops}


def plans_of(name: str) -> dict[str, Collection]:
    kind = KINDS[name]
    return {query: make(Given(kind.source, kind.of(Q), Q.select(**DATA))) for query, make in queries_of(name).items()}


@dataclass
class ByWeight(Runner):
    """A way to run sessions in which the rows of p come with their weights as ``diff``.

    Groups take what so many rows weigh, and its negative; of others a row is inserted, and taken back, as often.
    """

    kind: str = ""
    known: dict[Row, Row] = field(default_factory=dict)

    def give(self, session: an.Session, name: str, updates: Sequence[Update], source: Any) -> None:
        if name != "p":
            super().give(session, name, updates, source)
            return
        kind = KINDS[self.kind]
        come: list[Row] = []
        gone: list[Row] = []
        for row, time, n in updates:
            made = self.known[row] = self.known.get(row) or kind.columns_of(row)
            data, value, rows = made[:3], kind.value(made[3:]), come if n > 0 else gone
            if kind.group:
                value = times(kind.weight, value, abs(n))
            weight = [None] * len(kind.columns) if value is None else [value] if len(kind.columns) == 1 else value
            rows += [(*data, time, *weight)] * (1 if kind.group else abs(n))
        beside = [f"beside {i}" for i in range(len(kind.columns))]
        diff = tuple(beside) if len(beside) > 1 else beside[0]
        session.insert(name, self.convert(self.table(kind, come, beside)), time="time", diff=diff)
        if kind.group:
            session.retract(name, self.convert(self.table(kind, gone, beside)), time="time", diff=diff)
        else:
            session.retract(name, self.convert(self.table(kind, gone, [*kind.columns])), time="time")

    def table(self, kind: Kind, rows: list[Row], names: list[str]) -> pa.Table:
        """Rows with times, and weights in columns of these names."""
        data = kind.source._rows.schema
        fields = [data.field(n) for n in DATA] + [pa.field("time", pa.int64())]
        fields += [data.field(n).with_name(name) for n, name in zip(kind.columns, names, strict=True)]
        columns = [*zip(*rows, strict=True)] or [()] * len(fields)
        return pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields))


@dataclass
class Weigher(Judge):
    """What weighted plans ought to show: what the table of rows and weights says."""

    kind: str = ""
    queries: Mapping[str, Query] = field(default_factory=dict)

    def expected(self, name: str, time: int) -> tuple[Multiset, Errors]:
        if (name, time) not in self.known:
            held, kind = self.held(time), KINDS[self.kind]
            counts: Multiset = Counter()
            for row, n in held["q"].items():
                counts[row[:3]] += n
            counts = Counter({row: n for row, n in counts.items() if n})
            sides = [kind.direct(source, held, time) for source in ("p", "q")]
            found = self.queries[name](Given(*sides, Plain(Q.select(**DATA).schema, counts)))
            self.known[name, time] = Counter({plain(row): n for row, n in found.items()}), set()
        return self.known[name, time]


def row(rng: random.Random, case: int) -> Row:
    values = rng.choice([1, 1, 2, 3, None]), rng.choice([0, 1, 2, 3, None]), rng.choice([0, 1, 2, 4, 5, None])
    return 2 * case, *values


def history_of(seed: int, cases: int = 3, times_: int = 6, size: int = 3) -> History:
    """Counts below zero only at times, and only of weights that are groups: see ``even``."""
    return random_history(random.Random(seed), {"p": row, "q": row}, cases, times_, size)


def even(history: History) -> History:
    """The cases in which no count is ever below zero."""
    return {name: [u for u in updates if u[0][0] % 4 == 0] for name, updates in history.items()}
