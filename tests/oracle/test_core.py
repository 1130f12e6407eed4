"""The core operators once more, against a line of Python each that shares nothing with altneu, not even expressions.

The oracle asks altneu what an expression means on a row, and follows altneu's own plans. Here neither is trusted: a
query is a verb of the front end, and its meaning a comprehension over lists of rows.
"""

from __future__ import annotations

import random
from collections import Counter
from itertools import groupby

import pytest

from altneu import Session
from tests.oracle.histories import accumulated, random_history
from tests.oracle.queries import SOURCES, TABLES, A, B
from tests.oracle.runners import contents_of, table_of

TIMES = 10
EVERY = random_history(random.Random(3), TABLES, 10, TIMES, 4)
HISTORY = {name: [u for u in updates if u[0][0] % 2 == 0] for name, updates in EVERY.items()}  # no count below zero


def groups(rows, key):
    return [(k, list(g)) for k, g in groupby(sorted(rows, key=lambda r: repr(key(r))), key)]


def matches(a, b):
    return [(x, y) for x in a for y in b if x[1] is not None and x[:2] == y[:2]]


def alone(a, b):
    keys = {r[:2] for r in b if r[1] is not None}
    return [r for r in a if r[:2] not in keys]


def known(values):
    return [v for v in values if v is not None]


ON = ["trial", "k"]
NARROW = B.select("trial", "k", "w")
MEANINGS = {
    "select": (A.select("k", x="v * 2 + 1"), lambda a, _: [(r[1], None if r[2] is None else r[2] * 2 + 1) for r in a]),
    "filter": (
        A.filter("v >= 0 and s <> 'y'"),
        lambda a, _: [r for r in a if r[2] is not None and r[2] >= 0 and r[3] not in ("y", None)],
    ),
    "filter by either": (A.filter("v > 1 or k = 1"), lambda a, _: [r for r in a if (r[2] or 0) > 1 or r[1] == 1]),
    "map": (A.map(lambda r: (r.s, r.k), "s string, k long"), lambda a, _: [(r[3], r[1]) for r in a]),
    "flat_map": (
        A.flat_map(lambda r: [r.k] * (r.v or 0), "k long"),
        lambda a, _: [(r[1],) for r in a for _ in range(r[2] or 0)],
    ),
    "concat": (A.select("k").concat(A.select("v as k")), lambda a, _: [(r[1],) for r in a] + [(r[2],) for r in a]),
    "distinct": (A.select("k", "s").distinct(), lambda a, _: {(r[1], r[3]) for r in a}),
    "count": (A.select("k").count(), lambda a, _: Counter(r[1] for r in a).items()),
    "threshold": (
        A.select("k").threshold(lambda n: n > 2),
        lambda a, _: [(k,) for k, n in Counter(r[1] for r in a).items() if n > 2],
    ),
    "join": (A.join(NARROW, on=ON), lambda a, b: [(*x, y[2]) for x, y in matches(a, b)]),
    "left join": (
        A.join(NARROW, on=ON, how="left"),
        lambda a, b: [(*x, y[2]) for x, y in matches(a, b)] + [(*x, None) for x in alone(a, b)],
    ),
    "right join": (
        A.join(NARROW, on=ON, how="right"),
        lambda a, b: [(*x, y[2]) for x, y in matches(a, b)] + [(*r[:2], None, None, r[2]) for r in alone(b, a)],
    ),
    "full join": (
        A.join(NARROW, on=ON, how="full"),
        lambda a, b: (
            [(*x, y[2]) for x, y in matches(a, b)]
            + [(*x, None) for x in alone(a, b)]
            + [(*r[:2], None, None, r[2]) for r in alone(b, a)]
        ),
    ),
    "semijoin": (A.semijoin(B, on=ON), lambda a, b: [r for r in a if r not in alone(a, b)]),
    "antijoin": (A.antijoin(B, on=ON), alone),
    "sum and count": (
        A.group_by("s").agg(n="count(*)", m="count(v)", total="sum(v)"),
        lambda a, _: [
            (s, len(g), len(known(r[2] for r in g)), sum(vs) if (vs := known(r[2] for r in g)) else None)
            for s, g in groups(a, lambda r: r[3])
        ],
    ),
    "min, max, avg": (
        A.group_by("k").agg(least="min(v)", most="max(v)", mean="avg(v)"),
        lambda a, _: [
            (k, min(vs, default=None), max(vs, default=None), sum(vs) / len(vs) if vs else None)
            for k, g in groups(a, lambda r: r[1])
            for vs in [known(r[2] for r in g)]
        ],
    ),
    "count distinct and collect": (
        A.group_by("k").agg(n="count(distinct s)", xs="collect_list(v)", ys="collect_set(v)"),
        lambda a, _: [
            (k, len({*known(r[3] for r in g)}), tuple(sorted(vs)), tuple(sorted({*vs})))
            for k, g in groups(a, lambda r: r[1])
            for vs in [known(r[2] for r in g)]
        ],
    ),
    "everything at once": (
        A.group_by().agg(n="count(*)", most="max(v)"),
        lambda a, _: [(len(a), max(known(r[2] for r in a), default=None))],
    ),
    "top_k": (
        A.select("k", "v").filter("v is not null").top_k(2, "v desc", per="k"),
        lambda a, _: [
            pair
            for _, g in groups([r[1:3] for r in a if r[2] is not None], lambda r: r[0])
            for pair in sorted(g, key=lambda r: -r[1])[:2]
        ],
    ),
    "reduce": (
        A.group_by("k").reduce(lambda _, rows: [sum(n for _, n in rows)], "n long"),
        lambda a, _: Counter(r[1] for r in a).items(),
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_an_operator_means_what_python_says(name):
    plan, meaning = MEANINGS[name]
    computed = 0
    with Session() as session:
        view = session.maintain(name, plan)
        for time in range(TIMES):
            for source in session._engine.declared:
                updates = [u for u in HISTORY[source] if u[1] == time]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            session.advance()
            a, b = (list(accumulated(HISTORY[source], time).elements()) for source in "ab")
            wanted = Counter(tuple(row) for row in meaning(a, b))
            assert contents_of(view) == wanted
            computed += wanted.total()
    assert computed >= TIMES
