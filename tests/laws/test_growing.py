"""The plan of views that came one after the other is that of all of them; and one more costs what it is itself."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

import altneu as an
from altneu.order import Epoch
from altneu.plan import ir
from altneu.plan.lower import Growing, Lowering, Options, Own, lower
from altneu.plan.rewrite import optimise, without_indexes
from altneu.plan.versions import Versions, earlier
from altneu.sql import query
from tests.oracle import loops_cases, queries, two_times_cases
from tests.session.calls import count_of


def best(collection):
    return without_indexes(optimise(collection.node))


PLANS = {name: best(collection) for name, collection in queries.queries().items()}
LOOPS = {name: best(collection) for name, collection in loops_cases.PLANS.items()}
TWO_TIMES = {name: best(collection) for name, collection in two_times_cases.PLANS.items()}
SOURCES = [node for node in ir.walk(*PLANS.values()) if isinstance(node, ir.Source) and not node.coordinates][:2]


def shape(plan):
    """All of a plan that is told apart."""
    nodes = [replace(node, operation=None) for node in plan.nodes]
    operations = [(type(node.operation), node.operation.tag, node.operation.keeps) for node in plan.nodes]
    logic = [str(getattr(node.operation, "logic", "")) for node in plan.nodes]
    return nodes, operations, logic, plan.views, plan.spreads, plan.scopes, plan.schedule


def anew(views, options, sources):
    return Growing(Epoch()).lower(views, options, sources, new=views)


@pytest.mark.parametrize("plans", [PLANS, LOOPS, TWO_TIMES], ids=["plans", "loops", "two times"])
@pytest.mark.parametrize("seed", range(3))
def test_one_after_the_other_is_all_at_once(plans, seed):
    rng, growing, views = random.Random(seed), Growing(Epoch()), {}
    names = rng.sample([*plans], min(25, len(plans)))
    sources = SOURCES if plans is PLANS else []
    for i, name in enumerate(names):
        refused = rng.choice(names[i:])  # by what lies behind; it does not stay
        growing.lower({**views, refused: plans[refused]}, Options(2), sources, new=[refused])
        views[name] = plans[name]
        if rng.random() < 0.1:
            del views[rng.choice([*views])]
        grown = growing.lower(views, Options(2), sources, new=[name])
        if i % 6 == 0 or i == len(names) - 1:
            assert shape(grown) == shape(anew(views, Options(2), sources))


T = an.source("t", "k long, v long", keep=True)
FILTERED = T.join(T.select("k", u="v"), on="k").filter("v > u")  # inside the join, if nobody else reads that
JOINED = T.join(T.select("k", u="v"), on="k")


def test_what_an_operation_gave_to_its_only_reader_is_lowered_again_when_there_is_another():
    growing, views = Growing(Epoch()), {}
    for name, collection in {"inside": FILTERED, "other": T.distinct(), "beside": JOINED}.items():
        views[name] = collection.node
        plan = growing.lower(views, Options(), new=[name])
        assert shape(plan) == shape(lower(views, Epoch()))
    assert Counter(node.logical for node in plan.nodes)[JOINED.node.fingerprint]
    views["last"] = T.select("v").node
    assert shape(growing.lower(views, Options(), new=["last"])) == shape(lower(views, Epoch()))


def test_views_that_are_lowered_otherwise_are_lowered_again():
    node = T.filter("v > 0").node
    versions = Versions.of(T.node.schema).renamed("v", "w")
    own = Own("origin", ("k",), node.schema)
    all_options = [
        Options(),
        Options(3),
        Options(3, changes_only=frozenset(["v"])),
        Options(errors_show_all=frozenset([node.fingerprint])),
        Options(earlier=earlier([node], {"t": versions})),
        Options(own={"v": own}),
        Options(),
    ]
    growing = Growing(Epoch())
    for options in all_options:
        for views in ({"v": node}, {"v": node, "w": T.distinct().node}):
            assert shape(growing.lower(views, options)) == shape(anew(views, options, ()))


def test_sources_with_other_columns_do_not_begin_anew(monkeypatch):
    versions = Versions.of(T.node.schema).renamed("v", "w")
    nodes = {f"v{i}": T.filter(f"v > {i}").node for i in range(12)}

    def one_more(count):
        growing = Growing(Epoch())
        views = {name: nodes[name] for name in [*nodes][:count]}
        growing.lower(views, Options(earlier=earlier([*views.values()], {"t": versions})))
        views["last"] = T.select("k").node
        options = Options(earlier=earlier([*views.values()], {"t": versions}))
        viewed = []
        real = Lowering.view
        monkeypatch.setattr(Lowering, "view", lambda *a, **k: (viewed.append(a), real(*a, **k))[1])
        growing.lower(views, options, new=["last"])
        return len(viewed)

    assert one_more(12) == one_more(3) == 1


def test_one_more_view_calls_little_for_each_other_view():
    """What each node gets is its stage."""

    def one_more(count):
        texts = [f"SELECT k, sum(v + {i}) AS s FROM t WHERE v > {i} GROUP BY k" for i in range(count + 1)]
        nodes = {f"v{i}": optimise(query(text, {"t": T}).node) for i, text in enumerate(texts)}
        last, growing = f"v{count}", Growing(Epoch())
        growing.lower({name: node for name, node in nodes.items() if name != last}, Options())
        return count_of(lambda: growing.lower(nodes, Options(), new=[last]))

    one_more(2)
    assert one_more(60) - one_more(15) < 45 * 250  # to lower it again, a thousand


def test_a_statement_that_creates_a_view_calls_little_for_each_other_view():
    with an.Session() as session:
        session.sql("CREATE TABLE t (k INT, v INT)")

        def create(i):
            text = f"CREATE MATERIALIZED VIEW v{i} AS SELECT k, sum(v + {i}) AS s FROM t WHERE v > {i} GROUP BY k"
            return count_of(session.sql, text)

        calls = [create(i) for i in range(61)]
    assert calls[60] - calls[15] < 45 * 450, (calls[15], calls[60])
