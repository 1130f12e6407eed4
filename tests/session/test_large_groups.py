"""Groups of hundreds of rows, of which a step reads few: their views are what a new session computes of the same rows.

The groups of the oracle are small, and kernels read small groups whole.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pyarrow as pa
import pytest

import altneu as an
from altneu.operators.kernels import suffix
from altneu.operators.kernels.located import SMALL
from tests.session.large_groups_cases import listed

SCHEMA = "g int, id long, d date, at timestamp, v long, x double, w string"
T = an.source("t", SCHEMA, keep=True)
FIELDS = [T.schema.field(name) for name in ("g", "id", "d", "at", "v", "x", "w")]
BY_G = T.group_by("g")


def over(order, frame=""):
    return f"OVER (PARTITION BY g ORDER BY {order} {frame})"


VIEWS = {
    "extremes": BY_G.agg(lo="min(v)", hi="max(x)", first="min(w)", last="max(d)", n="count(*)", s="sum(v)"),
    "extreme": BY_G.agg(lo="min(x)"),
    "extreme of all": T.group_by().agg(hi="max(x)", first="min(at)"),
    "rows of extremes": BY_G.agg(first="min_by(w, id)", last="max_by(x, d)", least="min_by(v, x)"),
    "top": T.top_k(3, "x desc", per="g"),
    "top of all": T.top_k(10, "d, v desc"),
    "middle": BY_G.agg(m="median(x)", q="percentile(v, 0.9)", a="percentile_approx(v, 0.25)"),
    "modes": BY_G.agg(m="mode(w)", n="mode(v)", l="mode() within group (order by x desc)"),
    "middle of distinct values": BY_G.agg(m="median(distinct x)", q="percentile(distinct v, 0.9)"),
    "tuples": BY_G.agg(n="count(w, x)", d="count(distinct d, x)", m="mode(d)", s="sum(v)"),
    "distinct": BY_G.agg(
        n="count(distinct w)", s="sum(distinct v)", m="avg(distinct x)", several="count(distinct v, w)"
    ),
    "near": T.window(
        a=f"lag(v) {over('id')}",
        b=f"lead(w, 3) {over('id')}",
        c=f"avg(x) {over('id', 'ROWS 5 PRECEDING')}",
        e=f"max(v) {over('id', 'ROWS BETWEEN 2 PRECEDING AND 2 FOLLOWING')}",
    ),
    "near statistics": T.window(
        a=f"stddev(x) {over('id', 'ROWS 5 PRECEDING')}",
        b=f"mode(w) {over('id', 'ROWS BETWEEN 4 PRECEDING AND 1 FOLLOWING')}",
        c=f"median(x) {over('id', 'ROWS BETWEEN 1 FOLLOWING AND 4 FOLLOWING')}",
        e=f"sum(distinct v) {over('id', 'ROWS 3 PRECEDING')}",
    ),
    "between with statistics": T.window(
        a=f"count(distinct v) {over('id', 'RANGE BETWEEN 8 PRECEDING AND CURRENT ROW')}",
        b=f"bit_xor(v) {over('id', 'RANGE BETWEEN 3 PRECEDING AND 5 FOLLOWING')}",
        c=f"collect_set(w) {over('id', 'RANGE BETWEEN 3 PRECEDING AND CURRENT ROW')}",
    ),
    "near and tied": T.window(a=f"lag(x) {over('v')}", b=f"sum(v) {over('v', 'ROWS 3 PRECEDING')}"),
    "near in days": T.window(a=f"lead(id) {over('d DESC')}"),
    "ranks": T.window(a=f"row_number() {over('x DESC')}", b=f"rank() {over('x DESC')}"),
    "first ranks": T.window(a=f"rank() {over('v')}", b=f"sum(id) {over('v')}", c=f"lag(w) {over('v')}").filter(
        "a < 20"
    ),
    "first places": T.window(a=f"dense_rank() {over('w DESC, v')}", b=f"max(x) {over('w DESC, v')}").filter(
        "a in (2, 4)"
    ),
    "first rows and peers": T.window(a=f"row_number() {over('d')}", b=f"count(x) {over('d')}").filter("a <= 3"),
    "a function of the first": BY_G.reduce(listed, "some string", needs=an.first(5, by="v, d desc")),
    "a function of the last": BY_G.reduce(listed, "some string", needs=an.last(4, by="x")),
    "dense": T.window(a=f"dense_rank() {over('v')}"),
    "dense by text": T.window(a=f"dense_rank() {over('w, v')}", b=f"rank() {over('w, v')}"),
    "shares": T.window(a=f"percent_rank() {over('v')}", b=f"cume_dist() {over('v')}", c=f"ntile(4) {over('id')}"),
    "running": T.window(
        a=f"sum(v) {over('id')}",
        b=f"avg(x) {over('id', 'ROWS UNBOUNDED PRECEDING')}",
        c=f"count(w) {over('id', 'ROWS BETWEEN UNBOUNDED PRECEDING AND 2 PRECEDING')}",
    ),
    "running extremes": T.window(
        a=f"max(v) {over('id')}",
        b=f"min(x) {over('id', 'ROWS UNBOUNDED PRECEDING')}",
        c=f"first_value(w) {over('id')}",
        e=f"last_value(w) {over('id')}",
        f=f"nth_value(v, 2) {over('id')}",
    ),
    "running extremes of many types": T.window(
        a=f"max(d) {over('at')}", b=f"min(w) {over('at')}", c=f"max(at) {over('at')}"
    ),
    "running extremes of text": T.window(a=f"max(w) {over('d')}", b=f"row_number() {over('d')}"),
    "running back": T.window(
        a=f"sum(v) {over('v', 'ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING')}",
        b=f"min(x) {over('v', 'ROWS BETWEEN 2 PRECEDING AND UNBOUNDED FOLLOWING')}",
        c=f"last_value(w) {over('v', 'ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING')}",
        e=f"lead(x, 2) {over('v')}",
    ),
    "running back with peers": T.window(
        a=f"count(w) {over('d DESC', 'RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING')}",
        b=f"max(x) {over('d DESC', 'RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING')}",
    ),
    "between": T.window(
        a=f"sum(v) {over('id', 'RANGE BETWEEN 8 PRECEDING AND CURRENT ROW')}",
        b=f"max(x) {over('id', 'RANGE BETWEEN 3 PRECEDING AND 5 FOLLOWING')}",
    ),
    "between days": T.window(a=f"count(*) {over('d', 'RANGE BETWEEN INTERVAL 3 DAYS PRECEDING AND CURRENT ROW')}"),
    "between times": T.window(a=f"min(v) {over('at', 'RANGE BETWEEN INTERVAL 1 MINUTE PRECEDING AND CURRENT ROW')}"),
    "few of each": T.window(n=f"row_number() {over('id DESC')}").filter("n <= 3"),
}

FAR_DAYS, FAR_TIMES = (2**31 - 1, -(2**31), -719_163), (2**62, -(2**62))
SIZES = {1: 300, None: 150, 2: 90, 3: 8}
MINUTE = 60_000_000


def random_row(rng, g, number):
    """Ties in all but ``id``, mostly; nulls, numbers that are none, days and times that Python has no value for."""
    x = rng.choice([None, float("nan"), float("inf"), -1e300, *(i / 4 for i in range(60))])
    d = rng.choice([None, *FAR_DAYS, *range(400)])
    at = rng.choice([None, *FAR_TIMES, *(i * MINUTE // 3 for i in range(600))])
    w = rng.choice([None, "", "long enough to tie", *(f"long enough to tie {i}" for i in range(12))])
    return g, number, d, at, rng.choice([None, *range(-40, 40)]), x, w


def extremes_of(group):
    """Rows with the least and the greatest values of some columns."""
    picked = set()
    for column, pick in ((4, min), (4, max), (5, max), (6, max)):
        some = [row for row in group if row[column] is not None and row[column] == row[column]]
        picked |= {pick(some, key=lambda row: row[column])} if some else set()
    return sorted(picked, key=repr)


def step_of(rng, rows, number):
    """Changes (row, moment, diff) of one step, at two moments of it."""
    made = []

    def add(row, diff, moment=None):
        made.append((row, rng.randrange(2) if moment is None else moment, diff))
        rows[row] += diff

    for g in SIZES:
        group = sorted((row for row, n in rows.items() if n > 0 and row[0] == g), key=lambda row: (row[1], repr(row)))
        match rng.choice(["front", "back", "middle", "new", "same", "extremes", "gone", "quiet"]):
            case "front":
                for row in group[: rng.choice([1, 3, 12])]:
                    add(row, -rows[row], 1)
            case "back":
                for i in range(rng.choice([1, 2])):
                    add(random_row(rng, g, number + i), rng.choice([1, 1, 2]))
            case "middle" if group:
                add(random_row(rng, g, rng.choice(group)[1] + rng.choice([0, 1])), 1)
                add(rng.choice(group), 1)
            case "new":
                row = random_row(rng, g, rng.randrange(number))
                add(row, 1, 0)
                add(row, -1, 1)
            case "same" if group:  # goes and comes again
                row = rng.choice(group)
                add(row, -1, 0)
                add(row, 1, 1)
            case "extremes":
                for row in extremes_of(group):
                    add(row, -1, 1)
            case "gone" if g == 3:
                for row in group:
                    add(row, -rows[row], 1)
    return made


def table(changes, first=0):
    """Changes as rows of the source, with their times and diffs."""
    columns = {
        field.name: pa.array([row[i] for row, _, _ in changes], _counts(field.type)).cast(field.type)
        for i, field in enumerate(FIELDS)
    }
    return pa.table({**columns, "time": [first + t for _, t, _ in changes], "diff": [diff for _, _, diff in changes]})


def _counts(type_):
    return pa.int32() if pa.types.is_date(type_) else pa.int64() if pa.types.is_timestamp(type_) else type_


def shown(session):
    return {name: Counter(map(repr, session.view(name).to_pylist())) for name in VIEWS}


def recomputed(rows):
    with an.Session() as session:
        for name, view in VIEWS.items():
            session.maintain(name, view)
        session.insert("t", table([(row, 0, n) for row, n in rows.items() if n]), time="time", diff="diff")
        session.advance()
        return shown(session)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("runs", "seed"),
    [
        *itertools.product(("in one shard", "in two shards", "reopened"), range(2)),
        pytest.param("on Spark", 0, marks=pytest.mark.spark),  # the same kernels in other processes
    ],
)
def test_views_of_large_groups_are_what_recomputation_gives(runs, seed, tmp_path, request, monkeypatch):
    monkeypatch.setattr(suffix, "_SEARCHED", SMALL)
    monkeypatch.setattr(suffix, "_READ_ON", 1)
    rng, rows = random.Random(f"{runs}{seed}"), Counter()
    make = {
        "in one shard": an.Session,
        "in two shards": lambda: an.Session(shards=2),
        "reopened": lambda: an.Session(path=tmp_path),
        "on Spark": lambda: an.Session(request.getfixturevalue("spark"), placement="spark", shards=2),
    }[runs]

    def opened():
        session = make()
        for name, view in VIEWS.items():
            session.maintain(name, view)
        return session

    session = opened()
    try:
        number = 0
        for g, size in SIZES.items():
            for _ in range(size):
                rows[random_row(rng, g, number)] += 1
                number += 1
        session.insert("t", table([(row, 0, n) for row, n in rows.items()]), time="time", diff="diff")
        session.advance()
        assert sum(n > SMALL for n in Counter(row[0] for row in rows).values()) == 3
        for step in range(3 if runs == "on Spark" else 8):
            if changes := step_of(rng, rows, number):
                session.insert("t", table(changes, session.lower), time="time", diff="diff")
            number += 10
            session.advance(session.lower + 2)
            expected, actual = recomputed(rows), shown(session)
            for name in VIEWS:
                assert actual[name] == expected[name], (step, name)
            if runs == "reopened" and step % 3 == 2:
                session.close()
                session = opened()
    finally:
        session.close()
