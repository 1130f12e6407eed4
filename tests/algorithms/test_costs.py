"""What an algorithm costs where much of a graph changes, counted in rows read and updates kept."""

from __future__ import annotations

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


def read(session):
    """Rows that operators have been given since the session was opened."""
    return sum(o.total.rows_in for o in session.explained("ranks").operators if o.total)


def held(session):
    """Updates in all arrangements."""
    return sum(rows for rows, _ in session._engine.table.sizes().values())
