"""Queries that read themselves: what a loop over the rows there are gives, at every time."""

import random

import pytest

import altneu as an
from altneu.errors import NoFixpointError
from altneu.sql import query

EDGES = an.source("edges", "src int, dst int")
REACH = """
with recursive reach as (
    select src, dst from edges union select r.src, e.dst from reach r join edges e on r.dst = e.src
) select * from reach
"""
EVEN_ODD = """
with mutually recursive
    even (node int) as (select 0 union select e.dst from odd o, edges e where o.node = e.src),
    odd (node int) as (select e.dst from even v, edges e where v.node = e.src union select node from odd where false)
select node, 'even' as side from even union all select node, 'odd' from odd
"""
UNREACHED = """
with mutually recursive
    found (node int) as (select 0 union select e.dst from found f, edges e where f.node = e.src),
    lost (node int) as (select distinct dst from edges where dst not in (select node from found where node is not null))
select * from lost
"""
DEPTH = """
with mutually recursive
    depth (node int, hops int) as (
        select node, min(hops) from (
            select 0 node, 0 hops union all select e.dst, d.hops + 1 from depth d, edges e where d.node = e.src
        ) group by node
    )
select * from depth
"""


def reached(edges):
    result = set(edges)
    while more := {(a, d) for a, b in result for c, d in edges if b == c} - result:
        result |= more
    return result


def sides(edges):
    even, odd = set(), set()
    while True:
        new_even = {0} | {d for s, d in edges if s in odd}
        new_odd = {d for s, d in edges if s in new_even}
        if (new_even, new_odd) == (even, odd):
            return {(n, "even") for n in even} | {(n, "odd") for n in odd}
        even, odd = new_even, new_odd


def depths(edges):
    actual = {0: 0}
    while True:
        more = {0: 0}
        for s, d in edges:
            if s in actual:
                more[d] = min(more.get(d, 99), actual[s] + 1)
        if more == actual:
            return set(actual.items())
        actual = more


def lost(edges):
    from_start = {0} | {d for s, d in reached(edges) if s == 0}
    return {(d,) for _, d in edges if d not in from_start}


CASES = {REACH: reached, EVEN_ODD: sides, DEPTH: depths, UNREACHED: lost}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("text", CASES, ids=["reach", "even and odd", "depth", "unreached"])
@pytest.mark.parametrize("where", ["driver", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_recursive_query_is_what_its_loop_gives(text, where, request):
    rng, there = random.Random(text), []
    spark = request.getfixturevalue("spark") if where == "spark" else None
    with an.Session(spark, placement="auto" if spark is None else "spark", shards=2) as session:
        view = session.maintain("view", query(text, {"edges": EDGES}))
        for step in range(8 if spark is None else 2):
            gone = [there.pop(rng.randrange(len(there))) for _ in range(len(there) // 3)]
            came = [(rng.randrange(7), rng.randrange(7)) for _ in range(8 if step == 0 else 3)]
            there += came
            session.insert("edges", came)
            session.retract("edges", gone)
            session.advance()
            shown = view.to_pylist()
            assert sorted(shown) == sorted(CASES[text](there))


def counting(limit):
    clause = f"({limit})" if limit else ""
    return (
        f"with mutually recursive {clause} n (k int) as (values (0) union select k + 1 from n) select max(k) m from n"
    )


def test_rounds_are_counted_from_nothing():
    with an.Session() as session:
        view = session.maintain("view", query(counting("return at recursion limit 5"), {}))
        session.maintain("edges", EDGES)
        session.advance()
        assert view.to_pylist() == [(4,)]


@pytest.mark.parametrize("limit", ["error at recursion limit 5", "recursion limit 5"])
def test_a_limit_is_an_error_where_it_says_so(limit):
    with an.Session() as session:
        session.maintain("view", query(counting(limit), {}))
        with pytest.raises(NoFixpointError, match="5 rounds"):
            session.advance()
