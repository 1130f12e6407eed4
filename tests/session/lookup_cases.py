"""Random views and queries that require values of their keys, for sessions and for stores that are read.

A query is answered twice: as it is, and with the lookups taken out of the way (``by_full_reads``).
"""

from __future__ import annotations

from contextlib import contextmanager

import pyarrow as pa

import altneu as an
from altneu.cli import offline
from altneu.errors import AltneuError
from altneu.sql.statements import Statements
from altneu.types import parse_schema
from altneu.views import peek
from altneu.views.prepared import Prepared

COLUMNS = "k long, i int, y tinyint, f float, d double, s string, b boolean, day date, at timestamp, e decimal(6,2)"
FACTS = an.source("facts", COLUMNS)
VALUES = {
    "k": (None, 0, 1, 2, 2**40),
    "i": (None, 0, 1, -3),
    "y": (None, 0, 7),
    "f": (None, 0.0, -0.0, 0.1, 1.5, float("nan")),
    "d": (None, 0.0, -0.0, 0.1, float("inf"), float("nan")),
    "s": (None, "", "a", "1"),
    "b": (None, True, False),
    "day": (None, "2024-01-01", "2024-02-29"),
    "at": (None, "2024-01-01T00:00:00Z", "2024-01-01T12:30:00Z"),
    "e": (None, "0.00", "1.50"),
}
LITERALS = {
    "k": ["0", "1", "2", "2L", "1.0", "1.5", "1D", "'2'", "1099511627776", "NULL", "(1+1)"],
    "i": ["0", "1", "-3", "1L", "1.0", "0.5", "1D", "5000000000", "'1'", "NULL"],
    "y": ["0", "7", "7L", "300", "7.0", "NULL"],
    "f": ["0", "0.0", "-0.0D", "0.1", "1.5", "1.5D", "0.1F", "double('NaN')", "float('NaN')", "NULL"],
    "d": ["0", "0.1", "-0.0D", "0.1F", "double('Infinity')", "double('NaN')", "NULL"],
    "s": ["''", "'a'", "'1'", "NULL"],
    "b": ["true", "false", "NULL"],
    "day": ["'2024-01-01'", "DATE'2024-02-29'", "TIMESTAMP'2024-01-01'", "NULL"],
    "at": ["'2024-01-01'", "DATE'2024-01-01'", "TIMESTAMP'2024-01-01T12:30:00Z'", "NULL"],
    "e": ["0", "1.5", "1.50", "1.505", "1.5D", "'1.5'", "NULL"],
}
NAMES = list(VALUES)
KEYS = (("k",), ("i",), ("y",), ("f",), ("d",), ("s",), ("b",), ("day",), ("at",), ("e",), ("i", "s"), ("d", "b", "k"))
TOTALS = FACTS.group_by("i", "s").agg(n="count(*)", top="max(d)")
RATIOS = FACTS.select("k", "i", ratio="1 / k").arrange_by("i")


@contextmanager
def by_full_reads(monkeypatch):
    """Nothing is looked up."""
    with monkeypatch.context() as patch:
        patch.setattr(Statements, "asked_again", lambda *_, **__: None)
        patch.setattr(peek, "_prepared", lambda *_, **__: None)
        patch.setattr(offline, "_looked_up", lambda *_: None)
        yield


@contextmanager
def counting(monkeypatch):
    """A list with an entry for each answer from lookups."""
    answers, real = [], Prepared.answer

    def answer(*given, **options):
        result = real(*given, **options)
        if result is not None:
            answers.append(result)
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Prepared, "answer", answer)
        yield answers


def outcome(ask):
    """The rows of an answer, in an order of their own, or its error."""
    try:
        return sorted(map(repr, ask().to_pylist()))
    except AltneuError as error:
        return type(error), str(error)


def random_rows(rng, count):
    return [tuple(rng.choice(values) for values in VALUES.values()) for _ in range(count)]


def typed(rows):
    columns = list(zip(*rows, strict=True)) or [()] * len(NAMES)
    arrays = []
    for field, column in zip(parse_schema(COLUMNS), columns, strict=True):
        text = pa.types.is_date(field.type) or pa.types.is_timestamp(field.type) or pa.types.is_decimal(field.type)
        arrays.append(pa.array(column, pa.string()).cast(field.type) if text else pa.array(column, field.type))
    return pa.table(arrays, names=NAMES)


def maintained(session):
    views = {"facts": FACTS, "totals": TOTALS, "ratios": RATIOS, "tops": TOTALS.filter("n > 1").select("s", "n")}
    for key in KEYS:
        views["by_" + "_".join(key)] = FACTS.arrange_by(*key)
    return {name: session.maintain(name, plan) for name, plan in views.items()}


def filled(rng, rows=60, steps=3, *, views=maintained, negative=False, zero=False, **options):
    session = an.Session(**options)
    views(session)
    facts = [row for row in random_rows(rng, rows) if zero or row[0] != 0]
    for step in range(steps):
        session.insert("facts", typed(facts[step::steps]))
        if step:
            session.retract("facts", typed(facts[: rows // 9]))
            session.insert("facts", typed(facts[: rows // 9]))
            session.retract("facts", typed(facts[step - 1 :: 2 * steps]))
        if negative:
            session.retract("facts", typed(random_rows(rng, 2)))
        session.advance()
    return session


def equality(rng, name):
    literal = rng.choice(LITERALS[name])
    match rng.randrange(8):
        case 0:
            return f"{name} <=> {literal}"
        case 1:
            return f"{name} IN ({', '.join(rng.choices(LITERALS[name], k=rng.choice([1, 2, 12])))})"
        case 2:
            return f"{name} IS NULL"
        case 3:
            return f"({name} = {literal} OR {name} = {rng.choice(LITERALS[name])})"
        case 4:
            return f"{literal} = {name}"
        case 5 if name == "b":
            return rng.choice(["b", "NOT b"])
        case _:
            return f"{name} = {literal}"


OTHERS = ("d > 0", "k % 2 = 0", "s LIKE 'a%'", "1 / k > 0", "i IS NOT NULL", "b OR f = 0", "k < 2 AND NOT (i = 1)")
HEADS = (
    "*",
    "s, k",
    "count(*), sum(k), max(d)",
    "DISTINCT i",
    "k, 1 / i AS q",
    "i, count(*) AS n",
    "s, row_number() OVER (PARTITION BY s ORDER BY k, i, y, f, d, b, day, at, e) AS r",
    "1",
)


def facts_query(rng, by_key=False):
    key = rng.choice(KEYS)
    view = "by_" + "_".join(key) if by_key else "facts"
    tests = [equality(rng, name) for name in key] + rng.sample(OTHERS, rng.choice([0, 0, 1, 2]))
    if rng.random() < 0.3:
        tests.append(equality(rng, rng.choice(NAMES)))
    rng.shuffle(tests)
    head = rng.choice(HEADS)
    text = f"SELECT {head} FROM {view} WHERE {' AND '.join(tests)}"
    return text + " GROUP BY i" * head.startswith("i, ") + " LIMIT 3" * (head == "1")


def query(rng, by_key=False):
    match rng.randrange(10):
        case 0:
            return f"SELECT * FROM totals WHERE {equality(rng, 'i')} AND {equality(rng, 's')}"
        case 1:
            return f"SELECT s, sum(n) FROM totals WHERE {equality(rng, 'i')} GROUP BY s HAVING {equality(rng, 's')}"
        case 2:
            return f"SELECT * FROM ratios WHERE {equality(rng, 'i')}"
        case 3:
            return f"SELECT count(*) FROM {rng.choice(['facts', 'totals', 'ratios', 'tops', 'by_i'])}"
        case 4:
            return f"SELECT 1 FROM totals UNION ALL SELECT n FROM totals WHERE i IN (0, 1) AND {equality(rng, 's')}"
        case 5:
            return f"SELECT * FROM tops WHERE {equality(rng, 's')} AND n IN (1, 2, 3)"
        case _:
            return facts_query(rng, by_key)


JOINS = (
    "SELECT f.k, f.d, t.n FROM facts f {kind} JOIN totals t ON f.i = t.i AND f.s = t.s WHERE {f}",
    "SELECT t.i, t.s, f.k, f.y FROM totals t {kind} JOIN facts f USING (i, s) WHERE t.i = 1 AND {t}",
    "SELECT a.k, b.d FROM facts a {kind} JOIN facts b ON a.i = b.k WHERE {a}",
    "SELECT a.k, sum(t.n) AS n FROM facts a {kind} JOIN tops t ON a.s = t.s WHERE {a} GROUP BY a.k",
    "SELECT * FROM tops WHERE s IN (SELECT s FROM facts WHERE {one})",
    "SELECT s, n FROM tops WHERE EXISTS (SELECT 1 FROM facts f WHERE f.s = tops.s AND {f})",
    "SELECT k, d FROM facts a WHERE {a} AND s NOT IN (SELECT s FROM tops WHERE n > 2)",
    "SELECT a.k, t.n, r.ratio FROM facts a JOIN totals t USING (i, s) {kind} JOIN ratios r ON r.i = t.n WHERE {a}",
    "SELECT k, (SELECT max(n) FROM totals t WHERE t.i = a.i AND t.s = a.s) AS m FROM facts a WHERE {a}",
    "SELECT v.x, f.k, f.d FROM (VALUES (1, 'p'), (NULL, 'q'), (0, 'r')) AS v (i, x) {kind} JOIN facts f ON f.i = v.i",
    "SELECT k, d FROM facts f WHERE (i, s) IN (SELECT * FROM VALUES (1, 'a'), (0, '')) AND {f}",
)


def join_query(rng):
    """A join of which one side has a condition on a key."""

    def of(prefix):
        name = rng.choice(["k", "i", "y", "s", "e"])
        return f"{prefix}{name} = {rng.choice(LITERALS[name])}"

    tests = {"f": of("f."), "a": of("a."), "one": of(""), "t": f"t.s = {rng.choice(LITERALS['s'])}"}
    return rng.choice(JOINS).format(kind=rng.choice(["", "", "LEFT"]), **tests)


def whole_query(rng):
    """A join without a condition: of one side all rows are read, if they are few."""
    tests = {"f": ["true", "f.b", "f.d > 0"], "a": ["true", "a.b", "a.d > 0"], "one": ["b", "d > 0"], "t": ["true"]}
    tests = {name: rng.choice(some) for name, some in tests.items()}
    return rng.choice(JOINS).format(kind=rng.choice(["", "", "LEFT"]), **tests)


def ranked(session):
    """Views that keep the rows of facts in orders: by keys, and of all rows."""
    session.maintain("facts", FACTS)
    for name, key, by in (("a", ("s",), "k desc"), ("b", ("i",), "d"), ("c", ("s", "b"), "at desc"), ("e", (), "y")):
        session.maintain(name, FACTS.top_k(2, by, per=key))


RANGES = (
    ("k", "s = 'a' AND k {} {}"),
    ("d", "i IN (0, 1) AND d {} {}"),
    ("at", "s <=> NULL AND b AND at {} {}"),
    ("y", "y {} {}"),
    ("d", "d {} {} AND i IS NULL"),
    ("k", "s IN ('a', '') AND k {} {} AND k > -5 AND d < 9"),
)
ORDERS = (
    ("s = 'a'", "k DESC, d"),
    ("i = 1 AND b", "d, k"),
    ("s = '1' AND NOT b", "at DESC NULLS LAST, i"),
    ("true", "y, k, d"),
    ("s IN ('a', '1')", "k DESC, y"),
    ("f > 0", "y"),
    ("i = 0", "d DESC"),
    ("i <=> 0 AND d >= 0", "d ASC NULLS LAST"),
    ("i = 1 AND 1 / k > 0", "d"),
)


def ordered_query(rng):
    if rng.random() < 0.4:
        column, test = rng.choice(RANGES)
        test = test.format(rng.choice(["<", "<=", ">", ">="]), rng.choice(LITERALS[column]))
        return f"SELECT * FROM facts WHERE {test}"
    test, order = rng.choice(ORDERS)
    columns = rng.choice(["*", "k, d, s", "d, k + i AS q, at, y", "s"])
    rest = ", ".join(name for name in NAMES if name not in order.replace(",", "").split())
    offset = rng.choice(["", f" OFFSET {rng.randrange(4)}"])
    return (
        f"SELECT {columns} FROM facts WHERE {test} ORDER BY {order}, {rest} LIMIT {rng.choice([0, 1, 3, 50])}{offset}"
    )
