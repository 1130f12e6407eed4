"""Joins of several collections as a session's user meets them: what is chosen, what is shared, what is freed."""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa
import pytest

import altneu as an
from altneu.errors import PlanError
from altneu.operators.delta_join.operation import DeltaScanOp
from altneu.plan.physical import Port

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
    result = np.unique(rng.integers(0, nodes, (count, 2)), axis=0)
    return pa.table({"src": result[:, 0], "dst": result[:, 1]})


@pytest.mark.parametrize("view", [TRIANGLES, CHAIN], ids=["triangles", "a chain"])
def test_new_rows_are_looked_up_where_their_arrangement_is(view):
    """Where a path begins nothing is exchanged: it takes new rows of the arrangement by what is looked up first."""
    edges, names = some_edges(400, 40), [(i, f"n{i}") for i in range(40)]
    found = []
    for shards in (1, 3):
        with an.Session(shards=shards) as session:
            shown = session.maintain("v", view, joins="delta")
            plan = session._engine.plan
            starts = [i for i, node in enumerate(plan.nodes) if isinstance(node.operation, DeltaScanOp)]
            assert len(starts) == (3 if shards > 1 else 0)
            assert not [i for i in starts if Port(i) in plan.outlets]
            for half in (0, 1):
                session.insert("edges", edges.slice(200 * half, 200))
                if "names" in session.sources:
                    session.insert("names", names[20 * half : 20 * half + 20])
                session.advance()
            session.retract("edges", edges.slice(50, 100))
            session.advance()
            found.append(sorted(shown.to_pylist()))
    assert found[0] == found[1] != []


def arrangements(session):
    """The states that hold something, with their updates and bytes."""
    return {
        name: (sum(len(b) for b in state.spine.batches), sum(b.nbytes for b in state.spine.batches))
        for (name, _), state in session._engine.table.live.items()
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
        before = set(session._engine.plan.arrangements)
        session.maintain("friends", FRIENDS)
        text = session.explain("friends")
        assert "| delta join: it has 0 arrangements to build, binary joins have 1" in text
        assert "1:edges -> 2:names by node (reused) -> 3:names by node (reused)" in text
        own = set(session._engine.plan.arrangements) - before
        assert own == {session._engine.plan.views["friends"].contents}


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
        actual = view.to_pylist()
        session.drop("triangles")
        assert not arrangements(session)
    assert actual == [(_triangles(edges),)]


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
    with an.Session() as session, pytest.raises(PlanError, match=r"joins must be .*, got 'best'"):
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
        with pytest.raises(PlanError, match=r"needs a collection, such as an.source"):
            join()


@pytest.mark.parametrize("joins", ["delta", "binary"])
def test_a_view_that_is_there_keeps_what_it_has(tmp_path, joins):
    other = {"delta": "binary", "binary": "delta"}[joins]
    for asked in (joins, other, "auto"):
        with an.Session(path=tmp_path) as session:
            for _ in range(2):
                session.maintain("triangles", COUNT, joins=asked)
            assert ("delta join of" in session.explain("triangles")) == (joins == "delta")


BOUNDS = an.source("bounds", "src long, dst long, lo long, hi long")
WEDGES = BOUNDS.join(BOUNDS, on={"dst": "src"})
TRIPLES = WEDGES.select(
    a="src", b="dst", c="`right.dst`", v="lo", w="`right.hi`", x="lo + `right.hi`", y="coalesce(hi, 0) * 2"
)
CLOSED = {  # what stands between the joins of a triangle
    "computed": TRIPLES.select("a", "b", "c", "x", "y"),
    "computed and filtered": TRIPLES.filter("x > 3").select("a", "b", "c", "x", z="x + y"),
    "failing": TRIPLES.select("a", "b", "c", x="10 / (v - 2)"),
    "series": TRIPLES.generate_series("v", "w", as_="i").select("a", "b", "c", "i"),
    "series and computed": TRIPLES.generate_series(1, "v", as_="i").select("a", "b", "c", x="i * x").filter("x > 4"),
    "counted": TRIPLES.repeat_row("w").select("a", "b", "c"),
    "negated": TRIPLES.select("a", "b", "c", "x").negate(),
    "while": TRIPLES.temporal("v + w", "v + w + 3").select("a", "b", "c", "y"),
}


def closed(between):
    return between.join(BOUNDS, on={"a": "src", "c": "dst"}).select(*between.columns, last="hi")


def bounded_edges(seed):
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.integers(0, 6, (40, 2)), rng.integers(0, 5, (40, 2))], axis=1)
    return [tuple(map(int, row)) for row in rows]


@pytest.mark.parametrize("between", CLOSED)
@pytest.mark.parametrize("shards", [1, 3])
def test_what_is_between_the_joins_of_a_pattern_comes_after_it(between, shards, tmp_path):
    pattern, rows = closed(CLOSED[between]), bounded_edges(1)

    def seen(session):
        errors = {e["message"] for e in session.view("v").errors().to_pylist()}
        return sorted(session.view("v").to_pylist(errors="ignore")), errors

    with an.Session() as plain:
        plain.maintain("v", pattern, joins="binary")
        with an.Session(path=tmp_path, shards=shards) as session:
            session.maintain("v", pattern)
            assert "| delta join: the pattern is cyclic" in session.explain("v")
            for change in (rows[:25], rows[25:]):
                for each in (plain, session):
                    each.insert("bounds", change)
                    each.advance()
                assert seen(session)[0] == seen(plain)[0]
                assert seen(session)[1] <= seen(plain)[1]  # a rule may lose an error, and invents none
        with an.Session(path=tmp_path) as session:
            session.maintain("v", pattern, joins="binary")  # it has what it was made with
            for each in (plain, session):
                each.retract("bounds", rows[10:30])
                each.insert("bounds", rows[:5])
                each.advance()
            assert seen(session)[0] == seen(plain)[0]


def test_an_acyclic_pattern_is_lifted_where_that_is_asked_for():
    result = (
        WEDGES.select("src", x="lo + `right.hi`", c="`right.dst`").join(NAMES, on={"c": "node"}).select("x", "name")
    )
    with an.Session() as session, an.Session() as plain:
        session.maintain("v", result, joins="delta")
        plain.maintain("v", result)
        assert "| delta join, as requested" in session.explain("v")
        assert "delta join" not in plain.explain("v")
        for each in (session, plain):
            each.insert("bounds", bounded_edges(2))
            each.insert("names", [(i, f"n{i}") for i in range(5)])
            each.advance()
        assert sorted(session.view("v").to_pylist()) == sorted(plain.view("v").to_pylist()) != []


@pytest.mark.parametrize(
    ("between", "why"),
    [
        (WEDGES.map(lambda r: (r.src, r.lo), "a long, c long"), r"map .* stands between it and the join on dst"),
        (WEDGES.select(a="src", c="`right.dst` % 3"), r"its key c is computed between it and the join on dst"),
    ],
)
def test_a_delta_join_that_is_not_possible_says_why(between, why):
    result = between.join(BOUNDS, on={"a": "src", "c": "dst"}).select("a", "hi")
    with an.Session() as session:
        with pytest.raises(PlanError, match=rf'joins="delta" is not possible for the join on a, c: .*{why}'):
            session.maintain("v", result, joins="delta")
        session.maintain("v", result)
        assert [line for line in session.explain("v").splitlines() if "| binary joins: " in line]


@pytest.mark.parametrize(
    ("wedges", "why"),
    [
        (EDGES.join(EDGES, on={"dst": "src"}, how="left").select("src", end="`right.dst`"), r"a sum .* ends"),
        (TWO_HOPS.distinct().select("src", end="dst"), "an aggregate or distinct ends"),
    ],
)
def test_a_pattern_that_ends_says_so_where_a_delta_join_is_asked_for(wedges, why):
    result = wedges.join(EDGES, on={"end": "src", "src": "dst"})
    with an.Session() as session:
        session.maintain("v", result, joins="delta")
        actual = [line for line in session.explain("v").splitlines() if "| binary joins: " in line]
        assert any(re.search(why, line) for line in actual), actual
