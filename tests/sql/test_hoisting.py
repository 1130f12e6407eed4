"""Bindings that are taken out of their loop: rounds give what they gave, whatever the order of bindings says."""

import random
from collections import Counter

import pytest

import altneu as an
from altneu.collections.collection import Collection
from altneu.plan import ir, rewrite
from altneu.plan.rewrite.hoist_bindings import hoist_bindings
from altneu.sql import query

EDGES = an.source("edges", "src int, dst int")
NOTHING = Collection(ir.Constant((), EDGES.select(node="src").schema))
NAMES = ["a", "b", "c", "d"]


def number(rng):
    n = rng.randrange(4)
    return f"select {n} node", lambda _values, _edges: Counter([n])


def nodes(rng):
    column = rng.randrange(2)
    return f"select {('src', 'dst')[column]} node from edges", lambda _values, edges: Counter(e[column] for e in edges)


def read(rng):
    name = rng.choice(NAMES)
    return f"select node from {name}", lambda values, _edges: values[name]


def stepped(rng):
    name = rng.choice(NAMES)

    def value(values, edges):
        return Counter(
            {d: n for d, n in sum((Counter({d: values[name][s]}) for s, d in edges), Counter()).items() if n}
        )

    return f"select e.dst node from {name} x join edges e on x.node = e.src", value


def lacking(rng):
    name, other = rng.choice(NAMES), rng.choice(NAMES)
    text = f"select x.node from {name} x where not exists (select 1 from {other} y where y.node = x.node)"
    return text, lambda values, _edges: Counter({k: n for k, n in values[name].items() if not values[other][k]})


def united(rng):
    (one, first), (two, second) = part(rng), part(rng)
    text = f"select node from ({one}) union select node from ({two})"
    return text, lambda values, edges: Counter({*+first(values, edges), *+second(values, edges)})


def added(rng):
    (one, first), (two, second) = part(rng), part(rng)
    text = f"select node from ({one}) union all select node from ({two})"
    return text, lambda values, edges: first(values, edges) + second(values, edges)


def part(rng):
    return rng.choice([number, nodes, nodes, read, read, stepped, lacking, united])(rng)


def binding(rng):
    return rng.choice([nodes, stepped, lacking, united, united, added])(rng)


def program(rng, limit):
    """A query of four bindings, in a random order, and what its rounds give."""
    actual = {name: binding(rng) for name in NAMES}
    bindings = ", ".join(f"{name} (node int) as ({text})" for name, (text, _) in actual.items())
    shown = " union all ".join(f"select node, '{name}' as name from {name}" for name in NAMES)

    def meaning(edges):
        values = {name: Counter() for name in NAMES}
        for _ in range(limit):
            for name, (_, value) in actual.items():
                values[name] = value(values, edges)
        return sorted((node, name) for name, rows in values.items() for node in rows.elements())

    return f"with mutually recursive (return at recursion limit {limit}) {bindings} {shown}", meaning


@pytest.mark.parametrize("seed", range(3))
def test_rounds_of_random_bindings_are_those_of_plain_iteration(seed):
    rng = random.Random(seed)
    programs = [program(rng, rng.randint(1, 5)) for _ in range(10)]
    changed = 0
    with an.Session() as session:
        views = []
        for i, (text, _) in enumerate(programs):
            result = query(text, {"edges": EDGES})
            changed += hoist_bindings(result.node).fingerprint != result.node.fingerprint
            views.append(session.maintain(f"v{i}", result))
        there = []
        for _ in range(3):
            gone = [there.pop(rng.randrange(len(there))) for _ in range(len(there) // 3)]
            came = list({(rng.randrange(4), rng.randrange(4)) for _ in range(3)} - {*there, *gone})
            there += came
            session.insert("edges", came)
            session.retract("edges", gone)
            session.advance()
            for view, (text, meaning) in zip(views, programs, strict=True):
                assert sorted(view.to_pylist()) == meaning(there), text
    assert changed > 3


EARLY_READER = """
with mutually recursive
    kept (node int) as (
        select 1 node where not exists (select 1 from base where node = 7) union select node from kept
    ),
    base (node int) as (select 7 node union select dst from edges)
select node, 'kept' name from kept union all select node, 'base' from base
"""
CHAIN = """
with mutually recursive
    pairs (src int, dst int) as (select src + 0, dst + 0 from edges),
    starts (node int) as (select src from pairs where src not in (select dst from pairs)),
    reached (node int) as (select node from starts union select p.dst from reached r join pairs p on r.node = p.src),
    lost (node int) as (select src from pairs where src not in (select node from reached))
select node, 'reached' name from reached union all select node, 'lost' from lost
"""


def test_who_stands_before_a_constant_binding_has_read_nothing_of_it_in_the_first_round():
    with an.Session() as session:
        view = session.maintain("view", query(EARLY_READER, {"edges": EDGES}))
        session.insert("edges", [(0, 3)])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, "kept"), (3, "base"), (7, "base")]


def loops_of(collection):
    return {n for n in ir.walk(hoist_bindings(collection.node)) if isinstance(n, ir.Loop)}


def test_what_no_round_changes_and_what_none_reads_is_outside_the_loop():
    result = query(CHAIN, {"edges": EDGES})
    (loop,) = loops_of(result)
    assert loop.names == ("reached",)
    with an.Session() as session:
        view = session.maintain("view", result)
        text = session.explain("view")
        assert "leave the loop over reached  [" in text
        assert (
            "| computed outside the loop: pairs (reads no variable), starts (reads no variable), "
            "lost (no variable reads it)" in text
        )
        session.insert("edges", [(1, 2), (2, 3), (4, 5), (5, 4)])
        session.advance()
        assert sorted(view.to_pylist()) == [(1, "reached"), (2, "reached"), (3, "reached"), (4, "lost"), (5, "lost")]
        session.retract("edges", [(5, 4)])
        session.advance()
        assert sorted(view.to_pylist()) == [(n, "reached") for n in range(1, 6)]


def test_a_loop_of_which_nothing_reads_a_variable_is_none():
    bindings = "a (node int) as (select src from edges), b (node int) as (select node + 1 from a)"
    text = f"with mutually recursive {bindings} select * from b"
    assert not loops_of(query(text, {"edges": EDGES}))


def test_what_a_variable_begins_as_is_seen_in_the_first_round():
    first, later = EDGES.select(node="src").distinct(), EDGES.select(node="dst").distinct()

    def body(grown, fixed):
        return grown.concat(fixed.select(node="node + 10")).distinct(), later

    for begins, stays, seen in ((first, True, [1, 11, 12]), (later, False, [1, 12]), (NOTHING, False, [1, 12])):
        grown, _ = an.recursive(body, max_rounds=30, on_limit="stop", grown=first, fixed=begins)
        (loop,) = loops_of(grown)
        assert loop.names == (("grown", "fixed") if stays else ("grown",))
        with an.Session() as session:
            view = session.maintain("view", grown)
            session.insert("edges", [(1, 2)])
            session.advance()
            assert sorted(node for (node,) in view.to_pylist() if node < 20) == seen


@pytest.mark.parametrize("text", [EARLY_READER, CHAIN])
def test_a_view_of_an_older_store_keeps_its_plan(text, tmp_path, monkeypatch):
    result = query(text, {"edges": EDGES})
    with monkeypatch.context() as older:
        older.setattr(rewrite, "RULES", tuple(rule for rule in rewrite.RULES if rule is not hoist_bindings))
        with an.Session(path=tmp_path / "store") as session:
            session.maintain("view", result)
            session.insert("edges", [(1, 2)])
            session.advance()
    with an.Session(path=tmp_path / "store") as session:
        view = session.maintain("view", result)
        session.insert("edges", [(2, 3)])
        session.advance()
        assert (3, "base" if text is EARLY_READER else "reached") in view.to_pylist()
