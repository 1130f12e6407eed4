"""Which joins become one: the golden text says it and why, and that both plans mean the same shows it is sound."""

from __future__ import annotations

import random

import pytest

import altneu as an
from altneu.plan import ir, rewrite
from altneu.plan.rewrite import delta_joins
from tests.golden import plans
from tests.golden.golden import check, tree
from tests.golden.rewrite_cases import Meaning
from tests.oracle import delta_joins_cases as patterns
from tests.oracle.operators_cases import HISTORY, TIMES
from tests.oracle.queries import queries

E = an.source("edges", "src long, dst long")
N = an.source("names", "node long, name string")
WEDGES = E.join(E, on={"dst": "src"}).select(a="src", b="dst", c="`right.dst`")
TRIANGLES = WEDGES.join(E, on={"a": "src", "c": "dst"})
NAMED = WEDGES.join(N, on={"c": "node"})
EXAMPLES = {
    "a circle is one join": TRIANGLES.select("a", "b", "c"),
    "a chain of edges has less to build": NAMED,
    "a chain of others does not": N.join(E, on={"node": "src"}).select("name", "dst").join(N, on={"dst": "node"}),
    "a circle with what hangs on it": TRIANGLES.join(N, on={"a": "node"}).select("name", "b", "c"),
    "a circle in a chain of others": TRIANGLES.distinct().join(N, on={"a": "node"}).join(N, on={"b": "node"}),
    "what others read is not taken apart": TRIANGLES.select("a", "c").concat(WEDGES.select("a", "c")),
    "a filter on the way is asked at the end": WEDGES.filter("a < c").join(E, on={"a": "src", "c": "dst"}),
    "inside a loop": E.iterate(
        lambda x: TRIANGLES.join(x, on={"a": "src", "b": "dst"}).select(src="a", dst="c").distinct()
    ),
}
ARRANGED = {(E.node.fingerprint, ("src",)), (E.node.fingerprint, ("dst",)), (N.node.fingerprint, ("node",))}


def nothing_exists(node, key):
    return False


def arranged(node, key):
    return (node.fingerprint, key) in ARRANGED


def test_what_becomes_one_join():
    parts = []
    for title, plan in EXAMPLES.items():
        result = delta_joins(rewrite.optimise(plan.node), nothing_exists)
        parts += [f"# {title}", tree(rewrite.optimise(plan.node)), "=>", tree(result), ""]
    result = delta_joins(rewrite.optimise(NAMED.node), arranged)
    parts += ["# a chain along arrangements that exist", tree(result), ""]
    check("delta_joins", "\n".join(parts))


PLANS = queries()


@pytest.mark.parametrize("name", PLANS)
def test_the_meaning_is_kept(name):
    plan = PLANS[name].node
    result, meaning = delta_joins(plan, nothing_exists, "delta"), Meaning(plan, HISTORY)
    assert result.schema == plan.schema
    assert sum(meaning.is_kept(result, time) for time in (1, TIMES - 1))


@pytest.mark.parametrize("name", patterns.PLANS)
def test_the_meaning_of_patterns_is_kept(name):
    judge = patterns.judge_of(name)
    plan = patterns.PLANS[name].node
    result = delta_joins(plan, nothing_exists, "delta")
    assert any(isinstance(n, ir.MultiJoin) for n in ir.walk(result))
    meaning = Meaning(plan, judge.history)
    for time in (1, patterns.TIMES - 1):
        assert meaning.is_kept(result, time)


@pytest.mark.parametrize("seed", range(40))
def test_the_meaning_of_random_plans_is_kept(seed):
    rng = random.Random(seed)
    plan = rewrite.optimise(plans.random_plan(rng, rng.randint(3, 8)).node)
    history = {s: plans.random_history(rng, 12, 6) for s in plans.SOURCES}
    result = delta_joins(plan, nothing_exists, "delta")
    assert result.schema == plan.schema
    meaning = Meaning(plan, history)
    for time in (1, 5):
        meaning.is_kept(result, time)
