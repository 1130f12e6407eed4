"""Aggregates put together from several states: what they come to is what whole groups come to, and little is read."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu.operators.kernels import ends, located, quantiles
from altneu.operators.reduce import collate
from altneu.plan.rewrite import optimise
from tests.lane import seeds
from tests.oracle.recompute import recompute

SCHEMA = "k int, v int, w string, x double"
CALLS = {
    "n": "count(*)",
    "least": "min(v)",
    "most": "max(w)",
    "last": "max_by(x, v)",
    "total": "sum(v)",
    "mean": "avg(x)",
    "different": "count(distinct w)",
    "once": "sum(distinct v)",
    "middle": "avg(distinct x)",
    "median": "median(x)",
    "quarter": "percentile(x, 0.25)",
    "both": "count(v, x)",
    "pairs": "count(distinct w, x)",
    "frequent": "mode(x)",
    "frequent last": "mode() within group (order by w desc)",
    "middle once": "median(distinct x)",
    "near once": "percentile(distinct v, 0.9)",
    "near": "percentile_approx(v, 0.9)",
    "last three": "max_by(w, v, 3)",
    "first two": "min_by(v, x, 2)",
    "first words": "slice(collect_list(w), 1, 4)",
}
SETS = {
    "set": "collect_set(w)",
    "joined": "string_agg(DISTINCT w, ';')",
    "numbers": "collect_set(x) FILTER (WHERE v > 0)",
}
LISTS = {
    **{name: CALLS[name] for name in ("last three", "first two", "first words", "least", "most", "n")},
    **SETS,
    "first of these": "element_at(slice(collect_list(w), 1, 2), 1)",
    "last of all": "max_by(k, w, 100)",
    "some": "max_by(v, w, 2) FILTER (WHERE x > 0)",
    "all of it": "size(collect_list(x))",
}
FILTERED = {
    "different": "count(distinct w)",
    "some": "count(distinct w) FILTER (WHERE v > 1)",
    "others": "count(distinct w) FILTER (WHERE v <= 1 OR x > 0)",
    "once": "sum(distinct v)",
    "odd": "sum(distinct v) FILTER (WHERE v % 2 = 1)",
    "named": "avg(distinct v) FILTER (WHERE w IS NOT NULL)",
    "count": "count(distinct v) FILTER (WHERE x IS NULL)",
    "real": "sum(distinct x) FILTER (WHERE v > 0)",
    "unreal": "count(distinct x) FILTER (WHERE v < 0)",
}


def random_row(rng):
    texts = [None, "a", "b", "long enough to tie 1", "long enough to tie 2"]
    return (
        rng.choice([None, 1, 2]),
        rng.choice([None, -3, *range(5)]),
        rng.choice(texts),
        rng.choice([None, 0.5, -0.0, 0.0, float("nan"), float("inf"), 1e300]),
    )


def agree(session, views, rows):
    """Every view has the rows and the errors that recomputation gives."""
    for name, (view, collection) in views.items():
        expected, errors = recompute(optimise(collection.node), {"t": rows})
        shown = [tuple(tuple(v) if type(v) is list else v for v in row) for row in view.to_pylist(errors="ignore")]
        actual = Counter(map(repr, shown))
        assert actual == Counter(map(repr, expected.elements())), name
        shown = view.errors().to_pylist()
        assert {(e["code"], e["row"]) for e in shown} == errors, name
        assert len(shown) == len(errors), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("calls", [CALLS, FILTERED, LISTS], ids=["all", "filtered", "lists"])
@pytest.mark.parametrize("seed", seeds(8, 3))
@pytest.mark.parametrize("below", [False, True])
def test_what_is_put_together_is_what_recomputation_gives(calls, seed, below, monkeypatch):
    monkeypatch.setattr(located, "SMALL", 0)
    monkeypatch.setattr(ends, "_MORE", 2)
    monkeypatch.setattr(quantiles, "_MORE", 0)
    rng = random.Random(f"{seed}{below}")
    session, source = an.Session(shards=rng.choice([1, 2])), an.source("t", SCHEMA)
    views = {}
    for i in range(4):
        names = rng.sample(sorted(calls), rng.randint(1, 7 if calls is FILTERED else 4))
        keys = rng.choice([["k"], [], ["k", "w"]])
        collection = source.group_by(*keys).agg(**{name: calls[name] for name in names})
        views[f"v{i}"] = session.maintain(f"v{i}", collection), collection
    rows = Counter()
    for step in range(12):
        for time in range(step * 2, step * 2 + rng.choice([1, 2])):
            for _ in range(rng.choice([1, 1, 3, 12])):
                standing = [row for row, n in rows.items() if n > 0]
                if standing and rng.random() < (0.6 if step > 7 else 0.3):
                    row, diff = rng.choice(standing), -1
                    diff = -rng.randint(1, rows[row])
                else:
                    row, diff = random_row(rng), -1 if below and rng.random() < 0.1 else rng.randint(1, 2)
                rows[row] += diff
                session.insert("t", [row], diff=diff, time=time)
        session.advance(step * 2 + 2)
        agree(session, views, Counter({row: n for row, n in rows.items() if n}))


def old_rows(count, change, monkeypatch):
    """How many updates the parts of a step are given, after a group of so many rows was loaded."""
    session, source = an.Session(), an.source("t", SCHEMA)
    view = session.maintain("v", source.group_by("k").agg(**CALLS))
    order = list(range(count))
    random.Random(0).shuffle(order)
    for part in (order[::2], order[1::2]):
        session.insert("t", [(1, v, f"{v:07}", v / 2) for v in part])
        session.advance()
    given, groups = 0, collate._Input.groups

    def counted(self, old):
        nonlocal given
        given += len(old)
        return groups(self, old)

    session.insert("t", change)
    with monkeypatch.context() as patch:
        patch.setattr(collate._Input, "groups", counted)
        session.advance()
    assert len(view.to_pylist()) == 1
    return given


@pytest.mark.parametrize("value", [-5, 700, 10**8])
def test_what_is_read_does_not_grow_with_the_group(value, monkeypatch):
    change = [(1, value, f"{value:07}", value / 2)]
    few, many = (old_rows(count, change, monkeypatch) for count in (1_000, 30_000))
    assert many <= few + 20
    assert few < 300


def test_filters_share_the_distinct_values_of_a_column():
    shared = {"w": ["different", "some", "others"], "v": ["once", "odd", "named"], "x": ["real", "unreal"]}
    for names in (*shared.values(), ["different", "once", "real"]):
        with an.Session() as session:
            view = an.source("t", SCHEMA).group_by("k").agg(**{name: FILTERED[name] for name in names})
            session.maintain("v", view)
            explained = str(session.explain("v"))
        assert ("#value, #flags" in explained) == (names in shared.values()), explained
