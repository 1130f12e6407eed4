"""What the algorithms refuse when they are called, what they let pass, and what nothing can be said about."""

from __future__ import annotations

import pytest

import altneu as an
from altneu import algorithms as algo
from altneu.errors import NoFixpointError, PlanError, TypeMismatchError, UnknownColumnError

EDGES = an.source("edges", "src long, dst long, weight long")
NODES = an.source("nodes", "node long")
NAMES = an.source("names", "name string")
LABELS = an.source("labels", "node long, label date")
PAIRS = an.source("pairs", "start long, stop long")
CALLS = {
    "reachability": lambda edges, **more: algo.reachability(edges, NODES, **more),
    "bfs": lambda edges, **more: algo.bfs(edges, NODES, **more),
    "shortest_paths": lambda edges, **more: algo.shortest_paths(edges, NODES, **more),
    "transitive_closure": algo.transitive_closure,
    "connected_components": algo.connected_components,
    "strongly_connected_components": algo.strongly_connected_components,
    "pagerank": algo.pagerank,
    "label_propagation": algo.label_propagation,
    "k_core": lambda edges, **more: algo.k_core(edges, 3, **more),
    "k_truss": lambda edges, **more: algo.k_truss(edges, 3, **more),
    "triangles": algo.triangles,
    "propagate": lambda edges, **more: algo.propagate(edges, LABELS, **more),
    "sequence": lambda edges, **more: algo.sequence(edges, LABELS, max, **more),
    "bidirectional_search": lambda edges, **more: algo.bidirectional_search(edges, PAIRS, **more),
    "clustering_coefficient": algo.clustering_coefficient,
}
PLAIN = an.source("plain", "a double, b array<int>, c int, d date, e string, f decimal(9, 2)")


def test_every_algorithm_is_tested():
    assert {*CALLS, "identifiers", "prefix_scan", "prefix_sums"} == set(algo.__all__)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(
    ("src", "dst", "error", "says"),
    [
        ("from", "c", UnknownColumnError, r"no column 'from' \(in src=\); the columns are: a, b"),
        ("c", "to", UnknownColumnError, r"no column 'to' \(in dst=\); the columns are: a, b"),
        ("c", "e", TypeMismatchError, "got 'c' of type int and 'e' of type string; cast one of them"),
        ("a", "a", TypeMismatchError, "got 'a' of type double; cast it"),
        ("b", "b", TypeMismatchError, "got 'b' of type array"),
        ("d", "d", TypeMismatchError, "got 'd' of type date"),
    ],
)
def test_ends_that_are_refused(name, src, dst, error, says):
    with pytest.raises(error, match=says):
        CALLS[name](PLAIN, src=src, dst=dst)


@pytest.mark.parametrize("name", ["reachability", "bfs", "shortest_paths"])
def test_roots_that_are_refused(name):
    with pytest.raises(TypeMismatchError, match="roots: 'name' is string, and the edges' nodes are bigint"):
        getattr(algo, name)(EDGES, NAMES)
    with pytest.raises(
        PlanError, match="roots must be a collection of one column, the node, got the columns src, dst, weight"
    ):
        getattr(algo, name)(EDGES, EDGES)


@pytest.mark.parametrize(
    "name",
    [
        "connected_components",
        "strongly_connected_components",
        "pagerank",
        "label_propagation",
        "clustering_coefficient",
    ],
)
def test_nodes_that_are_refused(name):
    with pytest.raises(TypeMismatchError, match="nodes: 'name' is string"):
        getattr(algo, name)(EDGES, NAMES)
    with pytest.raises(PlanError, match="nodes must be a collection of one column"):
        getattr(algo, name)(EDGES, EDGES)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda: algo.propagate(EDGES, NODES),
            PlanError,
            "labels must be a collection of two columns, the",
        ),
        (lambda: algo.propagate(EDGES, LABELS, at="label"), TypeMismatchError, "enter_at: the round must be a whole"),
        (lambda: algo.propagate(EDGES, EDGES.select("weight", "src"), at="x"), UnknownColumnError, "no column 'x'"),
        (
            lambda: algo.sequence(EDGES, NODES, max),
            PlanError,
            "states must be a collection of two columns, the",
        ),
        (lambda: algo.sequence(EDGES, LABELS, "max"), PlanError, "function must be a function, got 'max'"),
        (lambda: algo.bidirectional_search(EDGES, NODES), PlanError, "pairs must be a collection of two columns, both"),
        (lambda: algo.bidirectional_search(EDGES, LABELS), TypeMismatchError, "pairs: 'label' is date, and the edges'"),
        (lambda: algo.propagate(EDGES, NAMES.select("name", b="1")), TypeMismatchError, "labels: 'name' is string"),
        (lambda: algo.prefix_scan(EDGES, 1, by="src", value="dst"), PlanError, "combine must be a function, got 1"),
        (lambda: algo.prefix_scan(NAMES, max, by="name", value="name"), TypeMismatchError, "positions must be whole"),
        (lambda: algo.prefix_scan(EDGES, max, by="src"), UnknownColumnError, "no column 'value'"),
    ],
)
def test_other_inputs_that_are_refused(call, error, says):
    with pytest.raises(error, match=says):
        call()


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: algo.k_core(EDGES, 0), "k must be a whole number of at least 1, got 0"),
        (lambda: algo.k_core(EDGES, True), "k must be .*, got True"),
        (lambda: algo.k_truss(EDGES, 1), "k must be a whole number of at least 2, got 1"),
        (lambda: algo.label_propagation(EDGES, rounds=0), "rounds must be a whole number of at least 1, got 0"),
        (lambda: algo.pagerank(EDGES, rounds=2.5), "rounds must be .*, got 2.5"),
        (lambda: algo.pagerank(EDGES, unit=0), "unit must be .*, got 0"),
        (lambda: algo.pagerank(EDGES, damping=1.5), "damping must be a number from 0 to 1, got 1.5"),
        (lambda: algo.pagerank(EDGES, damping=float("nan")), "damping must be .*, got nan"),
        (lambda: algo.pagerank(EDGES, damping=float("inf")), "damping must be .*, got inf"),
        (lambda: algo.pagerank(EDGES, damping="much"), "damping must be .*, got 'much'"),
    ],
)
def test_numbers_that_are_refused(call, says):
    with pytest.raises(PlanError, match=says):
        call()


@pytest.mark.parametrize("kind", ["string", "decimal(9, 2)", "date"])
def test_weights_that_are_refused(kind):
    edges = an.source("edges", f"src long, dst long, cost {kind}")
    with pytest.raises(TypeMismatchError, match=r"got 'cost' of type .*; cast it"):
        algo.shortest_paths(edges, NODES, weight="cost")
    with pytest.raises(UnknownColumnError, match=r"no column 'weight' \(in weight=\)"):
        algo.shortest_paths(edges, NODES)


def shown(plan, **rows):
    with an.Session() as session:
        view = session.maintain("view", plan)
        for source, some in rows.items():
            session.insert(source, some)
        session.advance()
        return sorted(view.to_pylist())


def test_an_edge_with_a_null_end_or_without_a_weight_is_none():
    rows = [(1, 2, 1), (2, None, 1), (None, 3, 1), (2, 4, None)]
    assert shown(algo.shortest_paths(EDGES, NODES), edges=rows, nodes=[(1,), (None,)]) == [(1, 0), (2, 1)]
    assert shown(algo.connected_components(EDGES, NODES), edges=rows, nodes=[(9,), (None,)]) == [
        (1, 1), (2, 1), (4, 1), (9, 9),
    ]  # fmt: skip


@pytest.mark.parametrize(("kind", "zero"), [("tinyint", 0), ("bigint", 0), ("float", 0.0), ("double", 0.0)])
def test_distances_are_of_the_kind_of_weights(kind, zero):
    edges = an.source("edges", f"src long, dst long, weight {kind}")
    ((_, actual),) = shown(algo.shortest_paths(edges, NODES), edges=[(2, 3, 1)], nodes=[(1,)])
    assert (actual, type(actual)) == (zero, type(zero))


def test_weights_below_zero():
    rows = [(1, 2, 5), (1, 3, 6), (3, 2, -4), (2, 4, 1)]
    assert shown(algo.shortest_paths(EDGES, NODES), edges=rows, nodes=[(1,)]) == [(1, 0), (2, 2), (3, 6), (4, 3)]


def test_a_cycle_below_zero_that_is_reached_is_no_answer():
    with an.Session() as session:
        view = session.maintain("distances", algo.shortest_paths(EDGES, NODES, max_rounds=20))
        session.insert("nodes", [(1,)])
        session.insert("edges", [(1, 2, 1), (3, 4, -1), (4, 3, -1)])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, 0), (2, 1)]
        session.insert("edges", [(2, 3, 1)])
        with pytest.raises(NoFixpointError, match="still changes after 20 rounds"):
            session.advance()
        session.retract("edges", [(3, 4, -1)])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, 0), (2, 1), (3, 2)]


def test_an_edge_taken_away_that_was_not_there_is_an_error_until_it_comes():
    with an.Session() as session:
        view = session.maintain("triangles", algo.triangles(EDGES))
        session.insert("edges", [(1, 2, 0), (2, 3, 0)])
        session.retract("edges", [(3, 1, 0)])
        session.advance()
        assert {error["code"] for error in view.errors().to_pylist()} == {"NEGATIVE_MULTIPLICITY"}
        session.insert("edges", [(3, 1, 0), (3, 1, 0)])
        session.advance()
        assert view.to_pylist() == [(1, 2, 3)]


def test_the_least_and_the_greatest_numbers_are_nodes():
    least, greatest = -(2**63), 2**63 - 1
    chain = [(greatest, greatest - 1, 0), (2**53 + 1, greatest, 0), (greatest - 1, 7, 0)]
    assert shown(algo.connected_components(EDGES, NODES), edges=chain, nodes=[(least,), (-1,), (0,)]) == [
        (least, least), (-1, -1), (0, 0), (7, 7), (2**53 + 1, 7), (greatest - 1, 7), (greatest, 7),
    ]  # fmt: skip
