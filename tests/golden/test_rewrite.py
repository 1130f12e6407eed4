"""Every rewriting rule: the golden text says what it is for, and that both plans mean the same shows it is sound."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu import rewrite, session
from altneu.rewrite.merge_linear import merge_linear
from tests.golden.golden import check, tree
from tests.oracle.histories import accumulated
from tests.oracle.plans import random_plan
from tests.oracle.queries import SOURCES, queries
from tests.oracle.recompute import recompute
from tests.oracle.runners import Runner
from tests.oracle.test_operators import HISTORY, JUDGE, TIMES
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


@pytest.mark.parametrize("rule", rewrite.RULES, ids=lambda r: r.__name__)
@pytest.mark.parametrize("name", PLANS)
def test_a_rule_keeps_the_meaning(rule, name):
    """By recomputation, errors included; and a second application finds nothing to do."""
    plan = PLANS[name].node
    held = {source: accumulated(updates, TIMES - 1) for source, updates in HISTORY.items()}
    assert recompute(rule(plan), held) == recompute(plan, held)
    assert rule(plan).schema == plan.schema
    assert rule(rule(plan)).fingerprint == rule(plan).fingerprint


def test_random_plans_keep_their_meaning():
    for seed in range(8):
        scene = Scene(seed)
        held = {source: accumulated(updates, 2) for source, updates in scene.history.items()}
        for plan in [*scene.plans.values(), random_plan(random.Random(seed), 8)]:
            assert recompute(rewrite.optimise(plan.node), held) == recompute(plan.node, held)


def test_plans_that_are_not_rewritten_run_to_the_same(monkeypatch):
    monkeypatch.setattr(session, "optimise", lambda node: node)
    runner = Runner("memory", lambda _: an.Session(), together=True)
    for name, trace in runner.run(PLANS, SOURCES, HISTORY, [3, 8]).items():
        JUDGE.check(name, trace)
