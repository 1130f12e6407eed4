"""Loops as a session's user meets them: what is refused, what is said, what a loop costs."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

import altneu as an
from altneu.errors import NoFixpointError, PlanError, SchemaError
from altneu.runtime import local

EDGES = an.source("edges", "src long, dst long")
ROOTS = an.source("roots", "node long")


def step(reached):
    return reached.join(EDGES, on={"node": "src"}).select(node="dst").concat(ROOTS).distinct()


def doubled(c):
    return c.concat(c)


def test_a_loop_that_does_not_end_says_where_and_commits_nothing():
    with an.Session() as session:
        view = session.maintain("v", EDGES.concat(EDGES.iterate(doubled, max_rounds=30)))
        session.advance()
        session.insert("edges", [(1, 2)], time=3)
        session.insert("edges", [(5, 6)], time=4)
        with pytest.raises(NoFixpointError, match=r"loop over x still changes after 30 rounds at time 3, 4; nothing"):
            session.advance(to=6)
        assert (session.lower, view.to_pylist()) == (1, [])
        session.retract("edges", [(1, 2)], time=3)
        session.retract("edges", [(5, 6)], time=4)
        session.advance(to=6)
        assert (session.lower, view.to_pylist()) == (6, [])


def test_a_change_runs_the_rounds_that_it_touches():
    """An edge at the end of a chain of ten next matters at round ten; rounds one to nine are not run."""
    rounds = []
    with an.Session() as session:
        view = session.maintain("reach", ROOTS.iterate(step))
        session.insert("roots", [(0,)])
        session.insert("edges", [(i, i + 1) for i in range(10)])
        session.advance()
        session.insert("edges", [(10, 11)])
        with recorded_rounds(rounds):
            session.advance()
        assert len(view.to_pylist()) == 12
    assert [r for r in rounds if r] == [(0,), (10,), (11,)]


@contextmanager
def recorded_rounds(rounds):
    """Notes the rounds of the stages that are run."""
    stage_run = local._stage_whole

    def noting(plan, stage, snapshot, inbox, region, *more):
        if not rounds or rounds[-1] != region.rounds:
            rounds.append(region.rounds)
        return stage_run(plan, stage, snapshot, inbox, region, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_stage_whole", noting)
        yield


def test_many_times_are_one_run_of_the_rounds():
    rounds = []
    with an.Session() as session:
        view = session.maintain("reach", ROOTS.iterate(step))
        session.insert("roots", [(0,)])
        for time in range(100):
            session.insert("edges", [(time, time + 1)], time=time)
        with recorded_rounds(rounds):
            session.advance(to=100)
        assert len(view.to_pylist()) == 101
        assert view.changes().num_rows == 101
    assert len([r for r in rounds if r]) <= 2 * 103


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: ROOTS.iterate(lambda x: x.select(n="node")), SchemaError, "variable x has the columns .node bigint"),
        (lambda: ROOTS.iterate(lambda _: None), PlanError, "must return 1 collection"),
        (lambda: an.recursive(lambda _: 7, one=ROOTS), PlanError, "must return 1 collection"),
        (lambda: an.recursive(lambda one, _: one, one=ROOTS, other=ROOTS), PlanError, "must return 2 collection"),
        (lambda: an.recursive(lambda one, _: (one,), one=ROOTS, other=ROOTS), PlanError, "must return 2 collection"),
        (lambda: an.recursive(lambda: ()), PlanError, "needs at least one variable"),
        (lambda: ROOTS.iterate(step, max_rounds=0), PlanError, "max_rounds must be at least 1, got 0"),
        (lambda: ROOTS.iterate(step, step=0), PlanError, "step must be a whole number of rounds of at least 1"),
        (lambda: ROOTS.iterate(step, step=1.5), PlanError, "whole number of rounds"),
        (lambda: an.recursive(lambda x: (x,), x=ROOTS, step={"y": 2}), PlanError, "for each variable"),
        (lambda: ROOTS.iterate(step, on_limit="go"), PlanError, 'must be "error" or "stop"'),
        (lambda: ROOTS.iterate(lambda x: x.latest("node", "node")), PlanError, "latest reads what changes from round"),
    ],
)
def test_what_is_refused_when_the_plan_is_built(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_the_variable_of_a_loop_means_nothing_outside():
    leaked = []
    ROOTS.iterate(lambda x: leaked.append(x) or step(x))
    with an.Session() as session, pytest.raises(PlanError, match="only known inside the loop's body"):
        session.maintain("v", leaked[0].distinct())


def test_an_error_while_a_body_is_built_leaves_later_loops_right():
    with pytest.raises(ZeroDivisionError):
        ROOTS.iterate(lambda _: 1 // 0)
    assert ROOTS.iterate(step).node.fingerprint == ROOTS.iterate(step).node.fingerprint


def test_what_does_not_depend_on_the_variable_is_kept_once():
    """The arrangement of the edges is shared between the loop and a join outside."""
    with an.Session() as session:
        session.maintain("reach", ROOTS.iterate(step))
        alone = len(session._engine.plan.arrangements)
        session.maintain("next", ROOTS.join(EDGES, on={"node": "src"}))
        arrangements = len(session._engine.plan.arrangements)
    assert arrangements - alone == 2  # of the roots, and the view's contents


def test_a_store_goes_on_where_it_was_also_with_rows_of_the_future(tmp_path):
    for time in range(4):
        with an.Session(path=tmp_path) as session:
            view = session.maintain("reach", ROOTS.iterate(step))
            if time == 0:
                session.insert("roots", [(0,)])
                session.insert("edges", [(i, i + 1) for i in range(3)])
                session.insert("edges", [(3, 4)], time=2)
                session.retract("edges", [(0, 1)], time=3)
            session.advance()
            assert len(view.to_pylist()) == [4, 4, 5, 1][time]


def test_explain_shows_the_loop():
    with an.Session() as session:
        session.maintain("reach", ROOTS.iterate(step))
        text = session.explain("reach")
    assert "leave the loop over x" in text
    assert "x of the round before" in text
    assert "variable x" in text


@pytest.mark.parametrize("late", [False, True])
def test_a_dropped_loop_leaves_no_state_also_of_a_variable_that_nobody_reads(late):
    """What one result is made of needs not be all of the loop, and all of the loop is computed."""
    edges = an.source("edges", "src long, dst long", keep=True)

    def body(x, y):
        return x.concat(edges).top_k(3, "src", per="dst").distinct(), y.concat(edges).distinct()

    with an.Session(shards=2) as session:
        kept = session.maintain("edges", edges)
        session.insert("edges", [(1, 2), (2, 3)])
        for _ in range(2):  # once from the beginning or late, once more late
            if late:
                session.advance()
            session.maintain("y", an.recursive(body, x=edges, y=edges)[1])
            session.advance()
            assert sorted(session.view("y").to_pylist()) == [(1, 2), (2, 3)]
            session.drop("y")
            assert {name for name, _ in session._engine.table.live} <= set(session._engine.plan.arrangements)
            session.reshard(2 * session.shards)
        assert sorted(kept.to_pylist()) == [(1, 2), (2, 3)]
