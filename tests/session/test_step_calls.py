"""What a small step costs in calls of functions: a bound, and how little views with nothing to do add to it."""

import random

import pytest

import altneu as an
from tests.session.calls import STEPS, calls_of

MOST_CALLS = 351  # of Python functions and built-in ones, in a step of a filter and a count with its insert
MOST_CALLS_OF_A_JOIN = 355  # the same, of a filter and a join
MOST_CALLS_IN_A_LOOP = 2_150  # the same, of replacing an edge of a graph that is searched: some three rounds
MOST_CALLS_OF_A_CORE = 2_200  # the same, of a graph whose core is known
MOST_CALLS_OF_CORES = 3_000  # the same, of replacing ten edges: what a hundred take is about twice as much

MOST_CALLS_IN_ORDER = {  # the same, of a row that comes into a group of 5,000 which is read in an order
    "max(v) AS a, min(v) AS b": 450,
    "max_by(i, v) AS a": 530,
    "max(v) AS a, count(*) AS n": 680,
    "count(*) AS n, max(v) AS a, count(DISTINCT i) AS d": 1_030,
    "count(DISTINCT v) AS n": 840,
    "lag(v) OVER (ORDER BY i) AS w": 640,
    "avg(v) OVER (ORDER BY i ROWS BETWEEN 3 PRECEDING AND 3 FOLLOWING) AS w": 700,
    "row_number() OVER (ORDER BY i) AS w": 700,
    "max(v) OVER (ORDER BY i) AS w": 910,
}


def counting(number):
    source = an.source(f"t{number}", "k bigint, v bigint")
    return source.filter("v % 2 = 0").group_by("k").agg("count(*) AS n")


def one_row(session):
    def run(i):
        session.insert("t0", [(i % 7, 2 * i)])
        session.advance()

    for i in range(STEPS):
        run(i)
    return calls_of(run)


def test_a_small_step_makes_few_calls():
    with an.Session() as session:
        session.maintain("c0", counting(0))
        session.insert("t0", [(i % 500, i) for i in range(5_000)])
        session.advance()
        assert one_row(session) <= MOST_CALLS


def test_a_small_step_of_a_join_makes_few_calls():
    left, right = an.source("t0", "k bigint, v bigint"), an.source("t1", "k bigint, w bigint")
    with an.Session() as session:
        view = session.maintain("joined", left.filter("v % 2 = 0").join(right, on="k"))
        session.insert("t0", [(i % 500, i) for i in range(5_000)])
        session.insert("t1", [(i, i) for i in range(500)])
        session.advance()
        assert one_row(session) <= MOST_CALLS_OF_A_JOIN
        assert len(view.changes().to_pylist()) == 1


@pytest.mark.parametrize("made", MOST_CALLS_IN_ORDER)
def test_a_row_in_a_large_ordered_group_takes_few_calls(made):
    rows = [(0, i, 7 * i % 10_007) for i in range(5_000)]

    def run(i):
        session.insert("t", [(0, 5_000 + i, 20_000 + i)])
        session.advance()

    with an.Session() as session:
        session.sql("CREATE TABLE t (k BIGINT, i BIGINT, v BIGINT)")
        columns = "k, i, v, " if "OVER" in made else ""
        grouped = "" if "OVER" in made else " GROUP BY k"
        made_in_group = made.replace("OVER (", "OVER (PARTITION BY k ")
        session.sql(f"CREATE MATERIALIZED VIEW a AS SELECT {columns or 'k, '}{made_in_group} FROM t{grouped}")
        session.insert("t", rows)
        session.advance()
        for i in range(STEPS):
            run(i)
        assert calls_of(lambda i: run(STEPS + i)) <= MOST_CALLS_IN_ORDER[made]


def test_views_with_nothing_to_do_add_at_most_two_calls_each():
    with an.Session() as few, an.Session() as many:
        few.maintain("c0", counting(0))
        for number in range(40):
            many.maintain(f"c{number}", counting(number))
        assert one_row(many) <= one_row(few) + 80


def calls_of_an_edge(nodes, plan_of, *, many=1):
    """Of replacing edges of a random graph with five edges a node, over which a loop is maintained."""
    rng = random.Random(nodes)

    def edge():
        return rng.randrange(nodes), rng.randrange(nodes)

    edges = [edge() for _ in range(5 * nodes)]
    with an.Session() as session:
        view = session.maintain("view", plan_of(an.source("edges", "src int, dst int"), an.source("roots", "node int")))

        def replace_some(rows):
            at = rng.sample(range(len(edges)), many)
            session.retract("edges", [edges[i] for i in at])
            for i, row in zip(at, rows, strict=True):
                edges[i] = row
            session.insert("edges", rows)
            session.advance()

        session.insert("edges", edges)
        if "roots" in session.sources:
            session.insert("roots", [(0,)])
        session.advance()
        steps = [[edge() for _ in range(many)] for _ in range(STEPS)]
        for rows in steps:
            replace_some(rows)
        result = calls_of(lambda i: replace_some(steps[i]))
        assert len(view.to_pylist()) > nodes // 2
        return result


def test_an_edge_of_a_search_makes_few_calls_however_large_the_graph():
    few = calls_of_an_edge(200, an.algorithms.bfs)
    assert few <= MOST_CALLS_IN_A_LOOP
    assert calls_of_an_edge(5_000, an.algorithms.bfs) <= 1.5 * few


def test_edges_of_a_core_make_few_calls_however_many_they_are():
    def calls(nodes, many):
        return calls_of_an_edge(nodes, lambda edges, _: an.algorithms.k_core(edges, 5), many=many)

    assert calls(200, 1) <= MOST_CALLS_OF_A_CORE
    few = calls(5_000, 10)
    assert few <= MOST_CALLS_OF_CORES
    assert calls(5_000, 100) <= 2.5 * few
