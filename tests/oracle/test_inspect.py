"""What ``inspect`` shows where times have several coordinates: updates with their rounds, as an oracle has them."""

from __future__ import annotations

from collections import Counter

import pytest

import altneu as an
from altneu import Session
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from tests.oracle import loops_cases as loops
from tests.oracle.moments import Meaning, Moving
from tests.oracle.runners import table_of


class Inspected(Meaning):
    """A meaning that remembers what inspected collections are, in loops in the end."""

    def _of(self, node):
        made = super()._of(node)
        if isinstance(node, ir.Inspect):
            self.__dict__.setdefault("shown", {})[node.describe()] = made
        return made


def least(own):
    def body(x, see):
        label = loops.step_along(x, loops.BOTH).concat(own)
        return see(label).group_by("trial", "node").agg(label="min(label)")

    return body


OWN = loops.VERTICES.select("trial", "node", label="node")
BODIES = {
    "the variable": (loops.ROOTS, lambda x, see: loops.step_along(see(x)).concat(loops.ROOTS).distinct()),
    "labels": (OWN, least(OWN)),
    "labels in the end": (OWN, lambda x, see: see(least(OWN)(x, lambda y: y))),
    "least first": (OWN.filter("false"), least(OWN)),
    "moments": (
        loops.ROOTS,
        lambda x, see: see(loops.step_along(x).differentiate()).integrate().concat(loops.ROOTS).distinct(),
    ),
}


def shown_as(path, time):
    """A time as ``inspect`` shows it."""
    if path == ("loop",):
        return str(time)
    assert path == ("loop", "moment")
    return f"{'neu' if time[-1] else 'alt'}({time[:-1]})"


def compare(name, sessions, cuts):
    first, body = BODIES[name]
    seen = []
    plan = first.iterate(lambda x: body(x, lambda y: y.inspect(lambda *update: seen.append(update))))
    history = loops.history_of(seed=2, cases=3, size=6)
    meaning = Inspected({n: Moving.of((), ((r, (t,), d) for r, t, d in u)) for n, u in history.items()})
    meaning.of(optimise(plan.node))
    (shown,) = meaning.shown.values()
    wanted = {(row, shown_as(shown.path, time)): n for (row, time), n in shown.updates.items()}
    assert any(time[1] for _, time in shown.updates)  # in later rounds too
    with sessions() as session:
        session.maintain(name, plan)
        for source, updates in history.items():
            if source in session.sources:
                session.insert(source, table_of(updates, loops.SOURCES[source]), time="time", diff="diff")
        for upper in cuts:
            session.advance(to=upper)
    found = Counter()
    for row, time, diff in seen:
        found[tuple(row), str(time)] += diff
    assert {key: n for key, n in found.items() if n} == wanted


@pytest.mark.parametrize("name", BODIES)
def test_every_round_is_shown(name):
    compare(name, Session, [1, 2, loops.TIMES + 1])


def test_every_round_is_shown_of_several_shards():
    compare("labels", lambda: Session(shards=3), [loops.TIMES + 1])


def test_rounds_that_run_on_spark_are_shown(spark):
    seen = []
    plan = loops.ROOTS.iterate(lambda x: loops.step_along(x).concat(loops.ROOTS).inspect(lambda *u: seen.append(u)))
    with Session(spark, placement="spark", shards=2) as session:
        session.maintain("v", plan)
        session.insert("roots", [(0, 1)])
        session.insert("edges", [(0, 1, 2, 1)], time=1)
        session.advance(to=2)
    shown = Counter({(tuple(row), time): diff for row, time, diff in seen})
    assert shown == {((0, 1), (0, 0)): 1, ((0, 2), (1, 0)): 1}


def test_pairs_of_times_are_shown():
    events, seen = an.source("events", "k long", time=("known", "day")), []
    with Session() as session:
        session.maintain("v", events.inspect(lambda row, time, diff: seen.append((row.k, time, diff))))
        session.insert("events", [(7,)], time=(1, 5), diff=2)
        session.insert("events", [(7,)], time=(0, 9))
        session.advance(to=3)
    assert seen == [(7, (0, 9), 1), (7, (1, 5), 2)]


def test_rounds_of_loops_in_loops_are_shown_the_outer_first():
    edges, seen = an.source("edges", "src long, dst long"), []

    def along(x):
        return x.join(edges, on={"node": "src"}).select(node="dst")

    def body(x):
        inner = x.iterate(lambda y: along(y).concat(x).distinct().inspect(lambda row, t, n: seen.append((*row, t, n))))
        return along(inner).concat(x).distinct()

    with Session() as session:
        session.maintain("v", edges.select(node="src").distinct().iterate(body))
        session.insert("edges", [(0, 1), (1, 2)], time=1)
        session.advance(to=2)
    assert sorted(seen) == [(0, (1, 0, 0), 1), (1, (1, 0, 0), 1), (2, (1, 0, 0), 1)]


def test_two_functions_that_look_at_one_collection_are_both_called():
    rows, one, two = an.source("rows", "k long"), [], []
    with Session() as session:
        session.maintain("one", rows.inspect(lambda row, time, diff: one.append((*row, time, diff))))
        session.maintain("two", rows.inspect(lambda row, time, diff: two.append((row.k, time, diff))))
        session.insert("rows", [(3,)])
        session.advance()
    assert one == two == [(3, 0, 1)]
