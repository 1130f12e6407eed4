"""Joins of several collections as a session's user meets them: what is chosen, what is shared, what is freed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import PlanError

EDGES = an.source("edges", "src long, dst long")
NAMES = an.source("names", "node long, name string")
TWO_HOPS = EDGES.join(EDGES, on={"dst": "src"}).select("src", via="dst", dst="`right.dst`")
BACK = EDGES.select(node="dst").distinct().join(EDGES, on={"node": "dst"})
TRIANGLES = TWO_HOPS.join(EDGES, on={"src": "src", "dst": "dst"})
CHAIN = TWO_HOPS.join(NAMES, on={"dst": "node"}).select("src", "name")
COUNT = TRIANGLES.group_by().agg(n="count(*)")
FRIENDS = (
    EDGES.join(NAMES, on={"src": "node"})
    .select("src", "dst", a="name")
    .join(NAMES, on={"dst": "node"})
    .select("a", b="name")
)


def some_edges(count, nodes=300, seed=3):
    rng = np.random.default_rng(seed)
    made = np.unique(rng.integers(0, nodes, (count, 2)), axis=0)
    return pa.table({"src": made[:, 0], "dst": made[:, 1]})


def arrangements(session):
    """The states that hold something, with their updates and bytes."""
    return {
        name: (sum(len(b) for b in state.spine.batches), sum(b.nbytes for b in state.spine.batches))
        for (name, _), state in session.table.live.items()
        if len(state.spine)
    }


def test_a_cyclic_pattern_is_a_delta_join_and_a_chain_is_not():
    with an.Session() as session:
        session.maintain("triangles", TRIANGLES)
        text = session.explain("triangles")
        assert "| delta join: the pattern is cyclic" in text
        assert "| 1:edges -> 2:edges by src (built) and 3:edges by src (built)" in text
        assert text.count("arrange by src  [") == 1
        assert text.count("arrange by dst  [") == 1
    with an.Session() as session:
        session.maintain("friends", FRIENDS)
        text = session.explain("friends")
        assert "| binary joins: they have 3 arrangements to build, a delta join has 3" in text
        assert "delta join of" not in text


def test_a_chain_is_a_delta_join_where_that_has_less_to_build():
    with an.Session() as session:
        session.maintain("two hops", TWO_HOPS)
        session.maintain("back", BACK)
        session.maintain("name", NAMES.join(EDGES, on={"node": "src"}))
        before = set(session._plan.arrangements)
        session.maintain("friends", FRIENDS)
        text = session.explain("friends")
        assert "| delta join: it has 0 arrangements to build, binary joins have 1" in text
        assert "1:edges -> 2:names by node (reused) -> 3:names by node (reused)" in text
        own = set(session._plan.arrangements) - before
        assert own == {session._plan.views["friends"].contents}


def test_triangles_of_a_graph_that_serves_others_build_nothing():
    edges = some_edges(4000)
    with an.Session() as session:
        session.maintain("two hops", TWO_HOPS)
        session.maintain("back", BACK)
        session.insert("edges", edges)
        session.advance()
        before = arrangements(session)
        view = session.maintain("triangles", COUNT)
        after = arrangements(session)
        assert {n: after[n] for n in before} == before
        assert sum(rows for n, (rows, _) in after.items() if n not in before) <= 2  # the count, twice
        assert "built" not in session.explain("triangles")
        session.maintain("again", TRIANGLES.group_by("src").agg(n="count(*)"))
        session.drop("two hops")
        session.drop("back")
        left = arrangements(session)
        assert sorted(rows for rows, _ in left.values())[-2:] == [edges.num_rows] * 2
        session.drop("again")
        found = view.to_pylist()
        session.drop("triangles")
        assert not arrangements(session)
    assert found == [(_triangles(edges),)]


def _triangles(edges):
    matrix = np.zeros((300, 300), np.int64)
    matrix[edges["src"].to_numpy(), edges["dst"].to_numpy()] = 1
    return int(((matrix @ matrix) * matrix).sum())


def test_state_is_two_arrangements_of_the_edges_however_many_cyclic_views():
    edges = some_edges(3000)
    kept = []
    for views in (1, 3, 10):
        with an.Session() as session:
            for i in range(views):
                session.maintain(f"v{i}", COUNT.select(n=f"n + {i}"))
            session.insert("edges", edges)
            kept.append(session.advance().state_rows)
    assert kept[0] < 2 * edges.num_rows + 10
    assert kept[2] < kept[0] + 50


@pytest.mark.parametrize("joins", ["delta", "binary"])
def test_a_store_that_is_opened_again_keeps_what_was_chosen(tmp_path, joins):
    edges = some_edges(500)
    with an.Session(path=tmp_path) as session:
        view = session.maintain("triangles", COUNT, joins=joins)
        session.insert("edges", edges)
        session.advance()
        before = view.to_pylist()
    with an.Session(path=tmp_path) as session:
        view = session.maintain("triangles", COUNT)
        assert view.to_pylist() == before == [(_triangles(edges),)]
        assert ("delta join of" in session.explain("triangles")) == (joins == "delta")
        session.retract("edges", edges)
        session.advance()
        assert view.to_pylist() == [(0,)]
        assert session.maintain("triangles", COUNT).to_pylist() == [(0,)]


def star(names, key, *more):
    """Several collections joined by one key, and others by the first of its columns."""
    columns = ", ".join(f"{k} long" for k in key)
    first, *rest = (an.source(n, f"{columns}, {n} long") for n in names)
    for other in rest:
        first = first.join(other, on=[*key])
    for name in more:
        first = first.join(an.source(name, f"x long, {name} long"), on="x")
    return first.select("x", *names)


@pytest.mark.parametrize("first", ["auto", "delta", "binary"])
def test_each_tree_of_a_view_keeps_what_was_chosen(tmp_path, first):
    """In any order of opening, and whatever other views have built since: alone it might be chosen otherwise now."""
    filtered = an.source("d", "x long, d long").join(an.source("e", "x long, e long"), on="x").filter("d < e")
    filtered = filtered.join(an.source("f", "x long, f long"), on={"x": "x", "d": "f"}).select("x", g="d", h="e", i="d")
    middle = an.source("k", "y long, z long, x long, k long").select(y2="y", z2="z", x2="x", k="k")
    corners = an.source("l", "x long, y long, z long").join(middle, on={"y": "y2", "z": "z2", "x": "x2"})
    corners = corners.join(an.source("m", "x long, y long, z long"), on=["x", "y", "z"])
    tied = corners.join(an.source("n", "w long"), on={"y": "w"}).select("x", "y", "z", "k")
    nested, mixed = star("abc", "xy", "j"), star("ghi", "x").concat(filtered)
    plans = {"nested": nested, "mixed": mixed, "tied": tied}
    text = {}
    with an.Session(path=tmp_path) as session:
        for name, plan in plans.items():
            session.maintain(name, plan, joins=first)
            text[name] = session.explain(name).count("delta join of")
        session.maintain("other", star("ghi", "x").select("x", d="g"), joins="binary")
        for joins in ("auto", "delta", "binary"):  # a view that is there keeps what it has
            for name, plan in plans.items():
                session.maintain(name, plan, joins=joins)
        for name in "abcdefghij":
            session.insert(name, [(1, 1, 2) if name in "abc" else (1, 2)])
        session.advance()
        before = {name: session.view(name).to_pylist() for name in plans}
    for joins in ("auto", "delta", "binary"):
        with an.Session(path=tmp_path) as session:
            for name in sorted(plans, reverse=joins == "delta"):
                assert session.maintain(name, plans[name], joins=joins).to_pylist() == before[name]
                assert session.explain(name).count("delta join of") == text[name]
    assert before["nested"] == [(1, 2, 2, 2)]


def test_another_way_to_join_is_refused():
    with an.Session() as session, pytest.raises(PlanError, match="joins='best' is none of"):
        session.maintain("triangles", TRIANGLES, joins="best")


def test_what_two_views_read_is_kept_and_not_computed_twice():
    """The two hops are joined once for both: a view of their own, or an intermediate that two joins read."""
    left = TWO_HOPS.join(EDGES, on={"dst": "src"})
    both = left.select("src", "dst").concat(TWO_HOPS.select("src", "dst"))
    with an.Session() as session:
        session.maintain("both", both, joins="delta")
        assert "delta join of" not in session.explain("both")


def test_a_collection_by_other_names_is_arranged_once():
    wedges = EDGES.select(a="src", b="dst").join(EDGES.select(b="src", c="dst"), on="b")
    with an.Session() as session:
        session.maintain("triangles", TRIANGLES)
        session.maintain("renamed", wedges.join(EDGES.select(a="src", c="dst"), on=["a", "c"]))
        assert "built" not in session.explain("renamed")


@pytest.mark.parametrize("other", [[(1, 2)], "edges", pa.table({"src": [1], "dst": [2]}), None])
def test_data_is_no_collection(other):
    for join in (
        lambda: EDGES.join(other, on="src"),
        lambda: EDGES.antijoin(other, on="src"),
        lambda: EDGES.concat(other),
        lambda: EDGES.asof_join(other, "src", mode="locked"),
        lambda: an.algorithms.bfs(EDGES, other),
        lambda: an.algorithms.triangles(other),
    ):
        with pytest.raises(PlanError, match=r"takes a collection, such as an.source"):
            join()


@pytest.mark.parametrize("joins", ["delta", "binary"])
def test_a_view_that_is_there_keeps_what_it_has(tmp_path, joins):
    other = {"delta": "binary", "binary": "delta"}[joins]
    for asked in (joins, other, "auto"):
        with an.Session(path=tmp_path) as session:
            for _ in range(2):
                session.maintain("triangles", COUNT, joins=asked)
            assert ("delta join of" in session.explain("triangles")) == (joins == "delta")
