"""Every rewriting rule: the golden text says what it is for, and that both plans mean the same shows it is sound."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import rewrite, session
from altneu.rewrite.merge_linear import merge_linear
from tests.golden.golden import check, tree
from tests.oracle import runners
from tests.oracle.histories import accumulated
from tests.oracle.plans import random_plan
from tests.oracle.queries import SOURCES, queries
from tests.oracle.recompute import recompute
from tests.oracle.runners import Judge, Runner
from tests.oracle.test_operators import HISTORY, TIMES
from tests.oracle.test_random_plans import Scene

PLANS = queries()
T = an.source("t", "k long, v long")
CHAIN = T.filter("v > 0").select("k", w="v + 1").filter("w < 9")
EXAMPLES = {
    merge_linear: {
        "a run of linear operators is one": CHAIN,
        "negations meet and vanish": T.negate().negate(),
        "a negation moves with the rest": T.negate().filter("v > 0").negate(),
        "what two read is not merged into what they have in common": CHAIN.join(CHAIN.distinct(), on=["k", "w"]),
        "on both sides of a reduce": CHAIN.group_by("k").agg(n="count(*)").filter("n > 1").select("k"),
        "below everything else": CHAIN.consolidate().concat(CHAIN.top_k(1, "w").filter("k > 0").negate()),
    },
}


def test_every_rule_has_its_examples():
    assert tuple(EXAMPLES) == rewrite.RULES


@pytest.mark.parametrize("rule", rewrite.RULES, ids=lambda r: r.__name__)
def test_a_rule_does_what_it_is_for(rule):
    parts = []
    for title, plan in EXAMPLES[rule].items():
        parts += [f"# {title}", tree(plan.node), "=>", tree(rule(plan.node)), ""]
    check(rule.__name__, "\n".join(parts))


@pytest.mark.parametrize("rule", [*rewrite.RULES, rewrite.optimise], ids=lambda r: r.__name__)
@pytest.mark.parametrize("name", PLANS)
def test_a_rule_keeps_the_meaning(rule, name):
    """By recomputation; and a second application finds nothing to do."""
    plan = PLANS[name].node
    assert rule(plan).schema == plan.schema
    assert rule(rule(plan)).fingerprint == rule(plan).fingerprint
    assert sum(means_the_same(plan, rule(plan), HISTORY, time) for time in (1, TIMES - 1))


@pytest.mark.parametrize("seed", range(40))
def test_random_plans_keep_their_meaning(seed):
    scene = Scene(seed)
    for plan in [*scene.plans.values(), random_plan(random.Random(seed), 8)]:
        made = rewrite.optimise(plan.node)
        assert rewrite.optimise(made).fingerprint == made.fingerprint
        means_the_same(plan.node, made, scene.history, 2)


def means_the_same(plan, made, history, now):
    """Whether two plans show the same in every case in which the first makes no error; how many cases those are.

    Where it makes an error, the other may make another one, or none.
    """
    sound = 0
    for case in {row[0] for updates in history.values() for row, _, _ in updates}:
        part = {s: [u for u in updates if u[0][0] == case] for s, updates in history.items()}
        past = lambda time, part=part: {s: accumulated(updates, time) for s, updates in part.items()}  # noqa: E731
        contents, errors = recompute(plan, past(now), now, past)
        if not errors:
            assert recompute(made, past(now), now, past) == (contents, set())
            sound += 1
    return sound


def test_plans_that_are_not_rewritten_run_to_what_was_written(monkeypatch):
    for module in (session, runners):
        monkeypatch.setattr(module, "optimise", lambda node: node)
    judge = Judge(PLANS, HISTORY)
    runner = Runner("memory", lambda _: an.Session(), together=True)
    for name, trace in runner.run(PLANS, SOURCES, HISTORY, [3, 8]).items():
        judge.check(name, trace)
