"""What an algorithm costs where much of a graph changes, counted in rows read and updates kept."""

from __future__ import annotations

import operator
import random

import pytest

import altneu as an
from altneu.operators.reduce import touched_history


@pytest.mark.parametrize("nodes", [30, 300])
def test_page_rank_is_changed_everywhere_for_twice_what_it_was_computed_for(monkeypatch, nodes):
    """With a tenth of the edges every rank of every round changes: the old one goes, the new one comes."""
    reread = []
    find_in = touched_history.find_in

    def counted(*given):
        result = find_in(*given)
        reread.append(len(result))
        return result

    monkeypatch.setattr(touched_history, "find_in", counted)
    rng = random.Random(nodes)
    edges = [(rng.randrange(nodes), rng.randrange(nodes)) for _ in range(5 * nodes)]
    with an.Session() as session:
        session.maintain("ranks", an.algorithms.pagerank(an.source("edges", "src long, dst long")))
        session.insert("edges", edges)
        session.advance()
        loaded, kept = read(session), held(session)
        assert kept < 110 * nodes  # in 20 rounds a rank, what an edge is given of it, two slots of their sum
        assert sum(reread) == 0  # no round reads what other rounds were made of
        session.retract("edges", edges[: len(edges) // 10])
        session.advance()
        assert read(session) - loaded < 2 * loaded
        assert held(session) < 2 * kept
        assert sum(reread) < 2 * kept


@pytest.mark.parametrize("nodes", [300, 30_000])
def test_a_search_from_both_ends_looks_at_the_nodes_within_half_of_the_distance(nodes):
    """In a tree of which every node has three children, the pairs of the root and a leaf: rows read for a pair."""
    edges = [((node - 1) // 3, node) for node in range(1, nodes)]
    leaf = nodes - 1
    sources = an.source("edges", "src long, dst long"), an.source("pairs", "start long, stop long")
    with an.Session() as session:
        view = session.maintain("distances", an.algorithms.bidirectional_search(*sources))
        session.insert("edges", edges)
        session.advance()
        loaded = read(session)
        session.insert("pairs", [(0, leaf)])
        session.advance()
        depth = 0
        while leaf:
            leaf, depth = (leaf - 1) // 3, depth + 1
        assert view.to_pylist() == [(0, nodes - 1, depth)]
        assert read(session) - loaded < 60 * 3 ** ((depth + 1) // 2)  # of 3 ** depth nodes


LENGTH = 10  # nodes of each of many paths, which are all of the graph


def paths(nodes):
    return [(node, node + 1) for node in range(nodes) if (node + 1) % LENGTH]


@pytest.mark.parametrize("nodes", [300, 30_000])
def test_a_label_costs_the_nodes_that_it_reaches(nodes):
    edges, labels = an.source("edges", "src long, dst long"), an.source("labels", "node long, label long")
    with an.Session() as session:
        view = session.maintain("least", an.algorithms.propagate(edges, labels))
        session.insert("edges", paths(nodes))
        session.insert("labels", [(node, 5) for node in range(0, nodes, LENGTH)])
        session.advance()
        loaded = read(session)
        session.insert("labels", [(LENGTH, 3)])
        session.advance()
        assert len(view.changes()) == 2 * LENGTH
        assert read(session) - loaded < 40 * LENGTH


@pytest.mark.parametrize("nodes", [300, 30_000])
def test_a_state_costs_the_nodes_that_hear_of_it(nodes):
    edges, states = an.source("edges", "src long, dst long"), an.source("states", "node long, state long")
    with an.Session() as session:
        view = session.maintain("swept", an.algorithms.sequence(edges, states, heard_by))
        session.insert("edges", paths(nodes))
        session.insert("states", [(node, 1) for node in range(nodes)])
        session.advance()
        loaded = read(session)
        session.retract("edges", [(LENGTH, LENGTH + 1)])
        session.advance()
        assert len(view.changes()) == 2 * (LENGTH - 1)
        assert read(session) - loaded < 80 * LENGTH


def heard_by(node, heard):
    """How many nodes lead to it, one after the other."""
    return sum(heard) + 1


@pytest.mark.parametrize("places", [50, 5_000])
def test_a_value_costs_the_blocks_that_have_it_and_the_positions_whose_scan_changes(places):
    values, at = an.source("values", "position long, value string"), an.source("at", "position long")
    with an.Session() as session:
        view = session.maintain("scan", an.algorithms.prefix_scan(values, operator.add, at=at))
        session.insert("values", [(3 * place, "a") for place in range(places)])
        session.insert("at", [(place,) for place in (0, places, 3 * places)])
        session.advance()
        loaded = read(session)
        session.insert("values", [(3 * places - 1, "b")])
        session.advance()
        assert view.changes()["diff"].to_pylist() in ([1, -1], [-1, 1])
        assert ((3 * places), "a" * places + "b") in view.to_pylist()
        assert read(session) - loaded < 800  # of 16 parts of a block, and 255 of a position


def read(session):
    """Rows that operators have been given since the session was opened."""
    return sum(o.total.rows_in for view in session.views for o in session.explained(view).operators if o.total)


def held(session):
    """Updates in all arrangements."""
    return sum(rows for rows, _ in session._engine.table.sizes().values())
