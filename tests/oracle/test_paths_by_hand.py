"""Joins planned by hand: the sum of the paths is the join, for every order of the lookups, on every runner."""

from __future__ import annotations

import itertools
import random
import re

import pytest

import altneu as an
from altneu import Session
from altneu.columnar.hashing import hash_bits
from altneu.errors import PlanError
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from tests.lane import seeds
from tests.oracle.delta_joins_cases import HISTORY, SOURCES, TIMES, E, even, history_of
from tests.oracle.histories import random_cuts
from tests.oracle.paths_by_hand_cases import APART, EXTENDED, MAPS, OWN, PLANS, SIDES, WEIGHED, planned, side
from tests.oracle.runners import Judge, Runner, contents_of, state_left, table_of

NEEDS_COUNTS_OVER_ZERO = {"in a loop"}


def judge_of(name, history=HISTORY):
    return Judge(PLANS, even(history) if name in NEEDS_COUNTS_OVER_ZERO else history)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_every_step_shows_what_joining_gives(runner, name):
    each, one = list(range(1, TIMES + 2)), [TIMES + 1]
    cuts = {"memory": [each, one, [2, 4, TIMES + 1]], "shards": [each, one], "durable": [[2, 3, TIMES + 1]]}
    judge = judge_of(name)
    for some in cuts.get(runner.name, [[3, 4, TIMES + 1]]):
        judge.check(name, runner.run({name: PLANS[name]}, SOURCES, judge.history, some)[name])


@pytest.mark.parametrize("seed", seeds(3, 1))
@pytest.mark.parametrize("name", PLANS)
def test_other_histories_and_cuts(name, seed):
    judge = judge_of(name, history_of(seed=100 + seed, cases=6))
    runner = Runner("memory", lambda _: Session(shards=1 + seed), ahead=seed == 1)
    cuts = random_cuts(random.Random(seed), TIMES + 1)
    judge.check(name, runner.run({name: PLANS[name]}, SOURCES, judge.history, cuts)[name])


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("name", PLANS)
def test_collisions_of_hashes_change_nothing(name, shards):
    judge = judge_of(name, even(history_of(seed=2, cases=4)))
    with hash_bits(2):
        runner = Runner("memory", lambda _: Session(shards=shards))
        judge.check(name, runner.run({name: PLANS[name]}, SOURCES, judge.history, [3, TIMES + 1])[name])


def test_every_order_of_lookups_gives_the_join():
    """Of triangles all orders in which three paths can meet two relations, extended or one after the other."""
    names, third = list(SIDES.columns), {"ab": "c", "bc": "a", "ac": "b"}
    choices = []
    for start in names:
        one, other = (n for n in names if n != start)
        choices.append(
            [f"{start}: {one}, {other}", f"{start}: {other}, {one}", f"{start}: {third[start]} by {one} {other}"]
        )
    plans = {"/".join(paths): planned(SIDES, *paths) for paths in itertools.product(*choices)}
    assert len(plans) == 27
    plans["the join"] = (
        side(E, "a", "b").join(side(E, "b", "c"), ["trial", "b"]).join(side(E, "a", "c"), ["trial", "a", "c"])
    )
    runner = Runner("memory", lambda _: Session())
    traces = runner.run(plans, SOURCES, HISTORY, [2, 3, TIMES + 1])
    assert any(contents for contents in Judge(plans, HISTORY).expected("the join", 3))
    for name in plans:
        Judge({**plans, name: plans["the join"]}, HISTORY).check(name, traces[name])


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("name", PLANS)
def test_a_late_view_shows_the_same_and_nothing_is_left(name, shards):
    judge = judge_of(name)
    with Session(shards=shards, retain="all") as session:
        for source in SOURCES.values():
            session.maintain(f"keep {source.node.name}", an.source(source.node.name, source.schema))

        def insert(lower, upper):
            for source in SOURCES:
                updates = [u for u in judge.history[source] if lower <= u[1] < upper]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")

        insert(0, 3)
        session.advance(to=3)
        view = session.maintain(name, PLANS[name])
        for time in range(3):
            assert contents_of(view, time) == +judge.expected(name, time)[0]
        insert(3, TIMES + 1)
        session.advance(to=TIMES)
        assert contents_of(view) == +judge.expected(name, TIMES - 1)[0]
    with Session(shards=shards) as session:
        view = session.maintain(name, PLANS[name])
        for diff in (1, -1):
            for source in session._engine.declared:
                rows = [((1, 1, 2, 1), 0, diff), ((1, 2, 3, 1), 0, diff), ((1, 1, 3, 1), 0, diff)]
                texts = {"links": [((1, "x", "y"), 0, diff)], "marks": [((1, 2, "m"), 0, diff)]}
                updates = [(row, session.lower, n) for row, _, n in texts.get(source, rows)]
                session.insert(source, table_of(updates, SOURCES[source]), time="time", diff="diff")
            session.advance()
        session.advance(to=20)
        assert not view.to_pylist()
        assert not [state for state, _ in state_left(session)]


TWO = {n: an.source(n, f"k long, {n} long", time=("system", "event")) for n in ("x", "y", "z")}


@pytest.mark.parametrize("shards", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_with_two_times_the_paths_are_the_join_at_both(seed, shards):
    """Where blips lose matches: neither of two changes is before the other (docs/calculus.md)."""
    relations, rng = an.Relations(**TWO), random.Random(seed)
    by_hand = planned(relations, "x: y, z", "y: z, x", "z: x, y")
    joined = TWO["x"].join(TWO["y"], "k").join(TWO["z"], "k")
    with Session(shards=shards, retain="all") as session:
        one, other = session.maintain("by hand", by_hand), session.maintain("joined", joined, joins="binary")
        for time in range(3):
            for name in TWO:
                for _ in range(3):
                    row, diff = (rng.randrange(2), rng.randrange(2)), rng.choice([1, 1, -1])
                    session.insert(name, [row], time=(time, rng.randrange(4)), diff=diff)
            session.advance()
            for event in range(4):
                assert contents_of(one, (time, event)) == contents_of(other, (time, event))


def test_it_is_computed_along_the_paths_that_were_planned():
    plan = PLANS["paths of both kinds"]
    (node,) = (n for n in ir.walk(optimise(plan.node)) if isinstance(n, ir.MultiJoin))
    assert [p.relation for p in node.planned] == [0, 1, 2]
    with Session() as session:
        session.maintain("v", plan)
        lines = [line.strip() for line in session.explain("v").splitlines() if "->" in line]
        assert lines == [
            "| 1:edges -> 2:edges by trial, src (built) and 3:edges by trial, src (built)",
            "| 2:edges -> 1:edges by trial, dst (built) -> 3:edges by trial, src, dst (built)",
            "| 3:edges -> 1:edges by trial, src (built) -> 2:edges by trial, src, dst (built)",
        ]
        session.insert("edges", [(0, 1, 2, 1)])
        session.advance()
        session.maintain("w", PLANS["triangles extended"])
        assert all("(reused)" in line for line in session.explain("w").splitlines() if "->" in line)


def test_what_cannot_be_obeyed_is_refused_by_name():
    with Session() as session, pytest.raises(PlanError, match=r'joins="binary" is not possible .* planned by hand'):
        session.maintain("v", PLANS["a chain"], joins="binary")
    path = SIDES.changes("ab")
    refused = {
        "at least two collections, each by a name, got 1": lambda: an.Relations(ab=E),
        "relation 'b' needs a collection": lambda: an.Relations(a=E, b=[(1, 2)]),
        "column 'src' must be of one type, got bigint in 'e' and int in 'f'; cast": lambda: an.Relations(
            e=E, f=E.select(src="cast(src as int)")
        ),
        "column 'm' of 'e' and 'f' is a map": lambda: an.Relations(e=MAPS, f=MAPS),
        "relation must be one of 'ab', 'bc', 'ac', got 'xy'": lambda: SIDES.changes("xy"),
        "all columns of 'ac' are bound, so half_join binds none: use lookup": lambda: path.half_join("bc").half_join(
            "ac"
        ),
        "lookup needs all columns of 'bc' to be bound, and 'c' is not": lambda: path.lookup("bc"),
        "has met 'ab' already": lambda: path.half_join("bc").lookup("ab"),
        "no column of 'bc' is bound in the path bm": lambda: APART.changes("bm").half_join("bc"),
        "extend needs at least two relations, each once, which propose and validate, got 'bc'": lambda: path.extend(
            "c", "bc"
        ),
        "extend needs one or several columns, each once, got": lambda: path.extend((), "bc", "ac"),
        "'b' is bound already in the path ab": lambda: path.extend("b", "bc", "ac"),
        "no column 'd' (in relation 'bc'); the columns are: c": lambda: path.extend("d", "bc", "ac"),
        "extend would bind 'w' by several relations": lambda: OWN.changes("ab").extend("c", "bc", "ac"),
        "join needs paths, such as changes('ab')": lambda: SIDES.join(E),
        "is one of other relations": lambda: SIDES.join(WEIGHED.changes("ab")),
        "the path ab -> bc by trial, b must meet every relation once; add 'ac'": lambda: SIDES.join(
            path.half_join("bc")
        ),
        "got 2 for 'ab', 0 for 'bc', 0 for 'ac'": lambda: SIDES.join(*[path.extend("c", "bc", "ac")] * 2),
    }
    for message, make in refused.items():
        with pytest.raises(PlanError, match=re.escape(message)):
            make()


def test_rows_are_explained_through_it():
    with Session() as session:
        sources = {n: an.source(n, f"{n[0]} long, {n[1]} long, {n} string", keep=True) for n in ("ab", "bc", "ac")}
        triangles = planned(an.Relations(**sources), *EXTENDED)
        view = session.maintain("v", triangles.select("a", "b", "c"))
        session.insert("ab", [(1, 2, "p"), (1, 3, "q")])
        session.insert("bc", [(2, 4, "r"), (3, 5, "s")])
        session.insert("ac", [(1, 4, "t")])
        session.advance()
        why = view.explain_row((1, 2, 4))
        assert why.sufficient
        assert [why.to_arrow(name).to_pylist()[0][name] for name in sources] == ["p", "r", "t"]
        assert [why.to_arrow(name).num_rows for name in sources] == [1, 1, 1]
