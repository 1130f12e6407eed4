"""What stored views are found by: the fingerprints of plans and the names of their state never change.

A line that changes means that a store of today does not open with the program of tomorrow. Do not write the file anew
because of it: give the class that was renamed, or the text that was changed, its former ``tag`` or ``describe()``. New
plans add lines: write the file (``golden.py``), and check that the difference has no other.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass

import pytest

import altneu as an
from altneu.engine import planning
from altneu.expressions import Expr
from altneu.linear import Function
from altneu.linear.modules import library
from altneu.linear.user_function import user_calls
from altneu.operators.arrange.operation import FromOp, ReadOp
from altneu.operators.base import Operation
from altneu.plan import ir
from altneu.plan.functions import with_functions
from altneu.plan.lower import OPERATORS
from altneu.plan.physical import PhysicalNode
from altneu.plan.rewrite import NEWER, Rule, optimise
from tests.golden import plans
from tests.golden.golden import check
from tests.oracle import (
    asof_cases,
    calculus_cases,
    delta_joins_cases,
    feedback_cases,
    keyed_cases,
    latest_cases,
    locked_cases,
    loops_cases,
    operators_cases,
    paths_by_hand_cases,
    reduce_core_cases,
    two_times_cases,
    update_time_cases,
)
from tests.oracle.plans import random_plan

T = an.source("t", "k long, v long")
GROWS = an.source("grows", "k long, v long", append_only=True)
TRIANGLES = T.join(T, on={"v": "k"}).select("k", "v", w="`right.v`").join(T, on={"w": "k", "k": "v"})
AMONG = [
    "filter", "select", "swap", "map", "flat_map", "negate", "concat", "minus", "consolidate", "inner join",
    "outer join", "semijoin", "antijoin", "distinct", "count", "threshold", "sum", "max", "count distinct", "top_k",
    "top_k of all", "sum of all", "reduce of all", "window", "reduce",
]  # fmt: skip
"""The verbs of random plans when these were first made: a new one would make others of all of them."""
CASES = {
    "arranged": {
        "by a key": T.arrange_by("v"),
        "in an order": T.arrange_by("k", order="v desc"),
        "delta join": TRIANGLES.select("k", "v", "w"),
        "numbered": an.algorithms.identifiers(T),
    },
    "operators": operators_cases.PLANS,
    "as-of": asof_cases.PLANS,
    "calculus": calculus_cases.PLANS,
    "delta joins": delta_joins_cases.PLANS,
    "feedback": feedback_cases.PLANS,
    "keyed": keyed_cases.PLANS,
    "latest": latest_cases.PLANS,
    "locked": locked_cases.PLANS,
    "loops": loops_cases.PLANS,
    "planned by hand": paths_by_hand_cases.PLANS,
    "reduce_core": reduce_core_cases.PLANS,
    "two times": two_times_cases.PLANS,
    "update time": update_time_cases.PLANS,
    "random": {str(n): random_plan(random.Random(n), 3 + n % 7, among=AMONG) for n in range(60)},
    "random, rewritten": {str(n): plans.random_plan(random.Random(n), 3 + n % 7) for n in range(40)},
    "append-only": {
        "extremes": GROWS.group_by("k").agg(lo="min(v)", hi="max(v)"),
        "beside sums": GROWS.group_by("k").agg(hi="max(v)", n="count(*)"),
        "first": GROWS.top_k(1, "v desc", per="k"),
    },
}


def every() -> Iterator[tuple[str, an.Collection, str]]:
    """Every plan with its name and the joins it asks for."""
    for kind, some in CASES.items():
        for name, plan in some.items():
            joins = "delta" if kind == "delta joins" and name != "closing" else "auto"
            yield f"{kind}: {name}", an.Collection(with_functions(plan.node, named)), joins


def named(function: Function) -> Function:
    """A function known by its name alone: what Python compiles it to is another matter."""
    return function.known_as(Function.digest_of(function.name))


def digest(texts: Iterable[str]) -> str:
    return hashlib.blake2b("\n".join(texts).encode(), digest_size=8).hexdigest()


def placed(plan: an.Collection, joins: str, without: tuple[Rule, ...] = ()) -> tuple[str, set[type]]:
    """A digest of what the operations of a view are called in stores, and their classes."""
    nodes: list[PhysicalNode] = []
    for shards in (1, 2):  # in one shard a delta join is one operation
        with an.Session(shards=shards) as session, pytest.MonkeyPatch.context() as patch:
            patch.setattr(planning, "optimise", lambda node, more=(): optimise(node, (*without, *more)))
            session.maintain("view", plan, joins=joins)
            nodes += session._engine.catalogue.plan.nodes
    return digest(n.identity for n in nodes), {type(n.operation) for n in nodes}


def test_nothing_that_stored_views_are_found_by_changes():
    """A rule that came after a release is left out for the views of stores from before: of these the later words."""
    lines = []
    for name, plan, joins in every():
        digests = [placed(plan, joins, without)[0] for without in (*NEWER[3::-1], ())]
        lines.append(f"{name} | {plan.node.fingerprint} {' '.join(dict.fromkeys(digests))}")
    check("identity", "\n".join(lines) + "\n")


def concrete(kind: type) -> set[type]:
    below = set().union(*map(concrete, kind.__subclasses__()), set())
    return below or {kind}


def test_every_node_reducer_and_operation_is_among_them():
    result = [(plan, joins) for _, plan, joins in every()]
    nodes = [node for plan, _ in result for node in ir.walk(plan.node)]
    assert {type(node) for node in nodes} == concrete(ir.Node)
    assert {type(n.reducer) for n in nodes if isinstance(n, ir.Reduce)} == concrete(ir.Reducer) - {
        ir.AsOfReduce
    }  # made by a lowering
    assert set().union(*(placed(*one)[1] for one in result)) == concrete(Operation) - {FromOp, ReadOp}  # have no state


def test_every_node_is_lowered_and_has_a_name_in_ir():
    assert concrete(ir.Node) - {ir.Loop, ir.Recurrence} == {*OPERATORS}  # lowered with their first results
    assert {kind.__name__ for kind in concrete(ir.Node) | concrete(ir.Reducer)} <= {*ir.__all__}


def held(value: object) -> Iterator[str]:
    """The digests of all functions in a value and the values in it, other nodes aside."""
    if isinstance(value, Function):
        yield value.digest
    elif isinstance(value, Expr):
        yield from (call.function.function.digest for call in user_calls(value))
    elif isinstance(value, tuple):
        for one in value:
            yield from held(one)
    elif is_dataclass(value) and not isinstance(value, ir.Node):
        for one in fields(value):
            yield from held(getattr(value, one.name))


def test_every_node_states_the_functions_that_it_holds():
    """One that is not stated would change unseen below a stored view."""
    nodes = [node for _, plan, _ in every() for node in ir.walk(plan.node)]
    for node in nodes:
        own = {digest for one in fields(node) for digest in held(getattr(node, one.name))}
        assert {f.digest for f in node.functions()} == own
        changed = node.with_functions(lambda f: f.known_as(f"another {f.digest}"))
        assert {f.digest for f in changed.functions()} == {f"another {digest}" for digest in own}
    assert {type(n) for n in nodes if any(True for _ in n.functions())} == {
        ir.Linear,
        ir.Reduce,
        ir.ReduceCore,
        ir.Inspect,
    }


def test_no_two_classes_have_one_tag():
    for kind in (ir.Node, Operation):
        tags = [made.__dict__["tag"] for made in concrete(kind)]
        assert len({*tags}) == len(tags)


def test_functions_of_users_know_the_public_names_by_where_they_were_first():
    homes = {
        "altneu": ["arrow"],
        "altneu.functions": ["Udf", "udf"],
        "altneu.comparing": ["compare"],
        "altneu.collection": ["Collection", "feedback", "recursive", "source"],
        "altneu.needs": ["first", "last"],
        "altneu.executor.spark_session": ["spark_session"],
        "altneu.expressions.column": ["col", "fn", "lit", "update_time"],
        "altneu.paths": ["Changes", "Relations"],
        "altneu.reader": ["Reader", "read"],
        "altneu.session": ["Session", "Step"],
        "altneu.store.survey": ["StoreCheck", "check_store"],
        "altneu.streams.changes": ["table_changes"],
        "altneu.streams.late": ["late_rows"],
        "altneu.streams.tables.delta": ["delta"],
        "altneu.streams.tables.iceberg": ["iceberg"],
        "altneu.trace": ["Trace"],
        "altneu.view": ["View"],
    }
    known = {name: library(vars(an)[name].__module__) for name in an.__all__ if hasattr(vars(an)[name], "__module__")}
    assert known == {name: home for home, names in homes.items() for name in names}
