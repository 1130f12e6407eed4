"""Planning takes about as long again for each condition and each view.

It is counted in calls of functions, which no other load changes.
"""

import inspect
import sys
from contextlib import contextmanager, nullcontext

import pytest

import altneu as an
from altneu import types as T
from altneu.errors import PlanError
from altneu.explain import explained, refuse_unbounded, rendered
from altneu.expressions import parse, parts_of
from altneu.order import Epoch
from altneu.plan import ir
from altneu.plan.hydrate import hydration_plan
from altneu.plan.lower import lower
from altneu.plan.rewrite import RULES, chosen_joins, optimise, without_indexes
from altneu.sql import query

TABLES = {"t": an.source("t", "a int, b string, x bigint")}


def calls_for(text):
    """How many Python functions are called while a query is rewritten."""
    node = query(text, TABLES).node
    return calls_of(lambda: optimise(node))


def calls_of(work):
    """How many Python functions are called by one."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("condition", ["x <> {}", "100 / (x + {}) > 0", "lower(b) <> 'k{}'", "(x <> {0} OR a = {0})"])
def test_conditions(condition):
    def wide(n):
        return calls_for("SELECT a, x + 1 AS y FROM t WHERE " + " AND ".join(condition.format(i) for i in range(n)))

    wide(2)  # what is computed once and kept
    few, many = wide(20), wide(80)
    assert many < 8 * few  # 4 times would be linear, 16 times quadratic


def test_parts_that_repeat():
    """Every ``nullif`` has its first argument twice, so that there are thousands of calls of few that differ."""

    def nested(n):
        expr = parse("nullif(" * n + "a" + ", 9)" * n, T.parse_schema("a int"))
        return expr.calls, len(parts_of(expr)), calls_of(lambda: parts_of(expr))

    (_, _, few), (calls, parts, many) = nested(4), nested(12)
    assert calls > 4000
    assert parts < 100
    assert many < 4 * few  # 3 times as deep


def test_clauses_of_merge():
    """Each clause is a query, and its condition has those before it in it: they are cheap beside the query itself."""

    def merge(n):
        session = an.Session()
        session.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        clauses = " ".join(f"WHEN MATCHED AND t.v = {i} THEN UPDATE SET v = {i + 1}" for i in range(n))
        return calls_of(lambda: session.sql(f"MERGE INTO t USING (SELECT 1 AS k) AS z ON t.k = z.k {clauses}"))

    merge(2)
    few, many = merge(8), merge(32)
    assert many < 8 * few  # 4 times would be linear, 16 times quadratic


def test_views():
    def all_views(n):
        texts = [f"SELECT a, sum(x + {i}) AS s FROM t WHERE x > {i} GROUP BY a" for i in range(n)]
        nodes = {f"v{i}": optimise(query(text, TABLES).node) for i, text in enumerate(texts)}
        return calls_of(lambda: lower(nodes, Epoch()))

    all_views(2)
    assert all_views(60) < 8 * all_views(15)


WIDE = an.source("w", "k long, v long, u long", keep=True)
SHARED = {  # collections that read the one before twice: 2 ** n paths through n of them
    "joined with itself": lambda c: c.join(c, on="k").select("k", "v", u="right.u"),
    "swapped and joined": lambda c: c.select(k="k", v="u", u="v").join(c, on="k").select("k", "v", "u"),
    "semijoined": lambda c: c.semijoin(c.filter("u > 1"), on="k"),
    "joined outer": lambda c: c.join(c.select(j="k", t="v"), on={"k": "j"}, how="left").select("k", "v", "u"),
    "summed and distinct": lambda c: c.select("k", v="u", u="v").concat(c.select("k", v="v", u="v")).distinct(),
    "filtered, summed and grouped": lambda c: (
        c.filter("v > 0").concat(c.filter("v < 0")).group_by("k", "v").agg(u="sum(u)")
    ),
    "in a loop": lambda c: c.iterate(lambda x: x.concat(c).distinct()),
}


def passes(node):
    """Calls of every pass over the plan of a view, by the name of the pass."""
    result, counts = {"node": node}, {}

    def counted(name, work):
        counts[name] = calls_of(lambda: result.update(found=work()))
        return result["found"]

    counted("columns", lambda: node.schema)
    counted("fingerprint", lambda: node.fingerprint)
    counted("levels, moments and times", lambda: (ir.free_level(node), ir.moments(node), ir.coordinates(node)))
    counted("walk", lambda: [n.describe() for n in ir.walk(node)])
    for rule in RULES:
        counted(rule.__name__, lambda rule=rule: rule(node))
    best = counted("optimise", lambda: without_indexes(optimise(node)))
    counted("delta joins", lambda: chosen_joins(best, lambda *_: False))
    plan = counted("lower", lambda: lower({"v": best}, Epoch()))
    counted("hydration", lambda: hydration_plan(plan, "v", set(), set()))
    answer = counted("explain", lambda: explained(plan, "v"))
    counted("explain as text", lambda: rendered(answer, "text"))
    counted("bounds", lambda: refuse_unbounded(plan, "v"))
    return counts


@pytest.mark.parametrize("shape", SHARED)
def test_what_is_shared_is_planned_once(shape):
    def shared(n):
        actual = WIDE.filter("v > 1")
        for _ in range(n):
            actual = SHARED[shape](actual)
        return passes(actual.filter("v > 3").node)

    shared(2)
    few, many = shared(8), shared(32)  # of 2 ** 32 paths no pass would see the end
    slow = {name: (few[name], many[name]) for name in few if many[name] > 5 * few[name] + 2000}
    assert not slow  # 4 times would be linear


@pytest.mark.parametrize("condition", ["{0} NOT IN (SELECT {1} FROM b)", "({0}, z) NOT IN (SELECT {1}, z FROM b)"])
def test_not_in(condition):
    tables = {name: an.source(name, "x long, y long, z long") for name in "ab"}

    def wide(n):
        asked = " AND ".join(condition.format("xyz"[i % 3], "xyz"[i // 3 % 3]) for i in range(n))
        return calls_of(lambda: optimise(query(f"SELECT x FROM a WHERE {asked}", tables).node))

    wide(1)
    assert wide(6) < 5 * wide(2)  # 3 times would be linear


def test_first_rows_beside_outer_joins():
    tables = {name: an.source(name, "k long, v long") for name in "abc"}
    first = "(SELECT b.v FROM b LEFT JOIN c ON b.k = c.k WHERE b.k = a.k ORDER BY b.v LIMIT 1) AS s{}"

    def wide(n):
        items = ", ".join(first.format(i) for i in range(n))
        text = f"SELECT a.k, {items} FROM a LEFT JOIN c ON a.k = c.k"
        return calls_of(lambda: optimise(query(text, tables).node))

    wide(1)
    assert wide(6) < 5 * wide(2)


LEFT, RIGHT = an.source("l", "k long, v long", keep=True), an.source("r", "k long, u long", keep=True)
DEEP = {
    "concat": lambda c, _: c.concat(LEFT),
    "distinct": lambda c, _: c.distinct().filter("v > 0"),
    "group_by": lambda c, _: c.group_by("k").agg(v="sum(v)"),
    "top_k": lambda c, _: c.top_k(2, "v", per="k"),
    "semijoin": lambda c, _: c.semijoin(LEFT, on="k"),
    "select": lambda c, _: c.select("k", v="v + 0"),
    "map": lambda c, _: c.map(lambda r: (r.k, r.v), "k long, v long"),
    "consolidate": lambda c, _: c.map(lambda r: (r.k, r.v), "k long, v long").consolidate(),
    "inspect": lambda c, i: c.inspect(lambda *_: None) if i % 50 == 0 else c.consolidate().filter(f"v <> -{i}"),
    "window": lambda c, _: c.window(n="row_number() over (partition by k order by v)").select("k", v="n"),
    "loop": lambda c, i: c.iterate(lambda x: x.concat(c).distinct()) if i % 5 == 0 else c.filter(f"v <> -{i}"),
    "integrate": lambda c, _: c.distinct().differentiate().integrate(),
}


FRAMES = 150


@contextmanager
def few_frames():
    """Too little room for a call inside a call for each node of a plan that deep; imports are done before."""
    before, depth = sys.getrecursionlimit(), len(inspect.stack(0))
    sys.setrecursionlimit(depth + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


def deep_plan(shape, depth):
    result = LEFT
    for i in range(depth):
        result = DEEP[shape](result, i)
    return result


def runs(plan):
    with an.Session() as session:
        view = session.maintain("v", plan)
        session.insert("l", [(1, 1)])
        session.advance()
        assert set(view.to_pylist()) == {(1, 1)}
        assert session.explain("v").count("\n") > 2
        assert set(session.maintain("late", plan.filter("k = 1")).to_pylist()) == {(1, 1)}
        session.retract("l", [(1, 1)])
        session.advance()
        assert view.to_pylist() == session.view("late").to_pylist() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("shape", DEEP)
def test_deep_plans(shape):
    runs(deep_plan(shape, 6))
    with nullcontext() if shape in ("select", "inspect") else few_frames():  # those two make expressions deep
        runs(deep_plan(shape, FRAMES))


@pytest.mark.parametrize("shape", ["concat", "integrate"])
def test_plans_deeper_than_calls_may_be(shape):
    runs(deep_plan(shape, sys.getrecursionlimit() + 200))


def test_deep_plans_on_shards_and_in_a_store(tmp_path):
    def many(depth):
        result = LEFT
        for i in range(depth):
            result = result.semijoin(RIGHT, on="k") if i % 3 else result.concat(LEFT).distinct()
        return result

    def stored(path, depth):
        with an.Session(path=path, shards=2) as session:
            session.maintain("v", many(depth))
            session.insert("l", [(1, 1), (2, 2)])
            session.insert("r", [(1, 1)])
            session.advance()
        with an.Session(path=path) as session:
            view = session.maintain("v", many(depth))
            assert view.to_pylist() == [(1, 1)]
            session.insert("r", [(2, 1)])
            session.advance()
            assert sorted(view.to_pylist()) == [(1, 1), (2, 2)]
            assert {i.source for i in view.explain_row((2, 2)).inputs} == {"l", "r"}

    stored(tmp_path / "shallow", 6)
    with few_frames():
        stored(tmp_path / "deep", FRAMES)


def _of(text):
    with an.Session() as session:
        session.sql("CREATE TABLE t (k BIGINT, v BIGINT); INSERT INTO t VALUES (1, 2)")
        return session.sql(text).to_pylist()


def test_long_queries():
    assert len(_of(" UNION ALL ".join(f"SELECT {i} AS a" for i in range(600)))) == 600
    assert len(_of(" UNION ".join(f"SELECT {i % 7} AS a" for i in range(400)))) == 7
    parts = [f", c{i} AS (SELECT k, v + 1 AS v FROM c{i - 1})" for i in range(1, 400)]
    [(k, v)] = _of(
        f"WITH c0 AS (SELECT * FROM t){''.join(parts)} SELECT c399.k, c399.v FROM c399 JOIN t ON t.k = c399.k"
    )
    assert (k, v) == (1, 401)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT " + "+".join(["v"] * 5000) + " AS s FROM t",
        "SELECT k FROM t WHERE " + " AND ".join(f"v <> {i}" for i in range(5000)),
        "SELECT " + "(" * 5000 + "v" + ")" * 5000 + " AS s FROM t",
        "SELECT * FROM " + "(SELECT * FROM " * 2000 + "t" + ")" * 2000,
    ],
)
def test_what_is_too_deep_says_so(text):
    with pytest.raises(PlanError, match=r"nested too deeply|calls deep"):
        _of(text)


def test_an_expression_that_is_too_deep_says_so():
    actual = an.col("v")
    for _ in range(300):
        actual = actual + 1
    with pytest.raises(PlanError, match="nested too deeply"):
        LEFT.select(x=actual)
    with pytest.raises(PlanError, match=r"calls deep|nested too deeply"):
        LEFT.filter("+".join(["v"] * 5000) + " > 0")


def test_more_joins_than_are_built_at_once():
    actual = LEFT
    for _ in range(220):
        actual = actual.join(RIGHT, on="k").select("k", "v")
    with an.Session() as session:
        session.maintain("v", actual)
        assert "binary joins: more than 32 collections are joined" in session.explain("v")
        with pytest.raises(PlanError, match=r'joins="delta" joins at most 200 collections at once'):
            session.maintain("w", actual, joins="delta")
