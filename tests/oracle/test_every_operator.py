"""Every operator has a meaning in the oracle, and random plans with it; the few that have none are listed with where
they are drawn or stated instead."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pyarrow as pa
import pytest

import altneu as an
from altneu import Collection
from altneu.plan import ir
from altneu.plan.rewrite import optimise
from tests.oracle import (
    asof_cases,
    calculus_cases,
    delta_joins_cases,
    feedback_cases,
    latest_cases,
    locked_cases,
    loops_cases,
    queries,
    reduce_core_cases,
    update_time_cases,
)
from tests.oracle.plans import SOURCES, VERBS
from tests.oracle.recompute import recompute

OF_OTHER_COLLECTIONS: dict[type[ir.Node], dict[str, Collection]] = {
    ir.AsOf: {**asof_cases.plans(), **locked_cases.plans()},  # timestamps and rules of both sides
    ir.Recurred: feedback_cases.PLANS,  # a body, and times that follow each other
    ir.Recurrence: feedback_cases.PLANS,
    ir.ReduceCore: reduce_core_cases.plans(),  # sees its own output, which depends on the past
    ir.UpdateTime: update_time_cases.plans(),  # depends on the steps, and so on the runner
    ir.Latest: latest_cases.plans(),  # takes a log without retractions
    ir.Differentiate: calculus_cases.plans(calculus_cases.ORDERS, calculus_cases.PRICES),  # has to be integrated
    ir.Integrate: calculus_cases.plans(calculus_cases.ORDERS, calculus_cases.PRICES),
    ir.ToNeu: calculus_cases.plans(calculus_cases.ORDERS, calculus_cases.PRICES),
    ir.TellMoment: calculus_cases.plans(calculus_cases.ORDERS, calculus_cases.PRICES),
    ir.Result: loops_cases.PLANS,  # a body that comes to an end
    ir.Loop: loops_cases.PLANS,
    ir.Variable: loops_cases.PLANS,
    ir.EnterAt: loops_cases.PLANS,
    ir.Inspect: queries.queries(),  # shows rows and changes none
}
"""Operators that a plan of random verbs over collections of one shape cannot have, and the plans that have them."""
MADE_BY_RULES = {ir.MultiJoin: delta_joins_cases.PLANS, ir.ArrangedBy: {}}
"""``MultiJoin`` is made of joins; ``ArrangedBy`` says where rows lie, and is lowered to nothing."""


def concrete(kind: type) -> set[type]:
    below: set[type] = set().union(*map(concrete, kind.__subclasses__()))
    return below or {kind}


def kinds(plans: Iterable[Collection]) -> set[type]:
    """The classes of the nodes of plans, and of the reducers in them."""
    nodes = [node for plan in plans for node in ir.walk(plan.node)]
    return {type(n) for n in nodes} | {type(n.reducer) for n in nodes if isinstance(n, ir.Reduce)}


def drawn() -> set[type]:
    def of(name: str, seed: int) -> Collection:
        rng = random.Random(seed)
        return VERBS[name](rng, lambda: rng.choice([*SOURCES.values()]))

    return kinds(of(name, seed) for name in VERBS for seed in range(8))


def test_every_operator_is_in_random_plans_or_said_to_be_elsewhere() -> None:
    assert concrete(ir.Node) - drawn() == {*OF_OTHER_COLLECTIONS, *MADE_BY_RULES}
    assert concrete(ir.Reducer) - drawn() == {ir.AsOfReduce}  # an as-of join over two times, made by its lowering


@pytest.mark.parametrize("kind", OF_OTHER_COLLECTIONS, ids=lambda kind: kind.__name__)
def test_operators_of_other_collections_are_in_their_plans(kind: type[ir.Node]) -> None:
    assert kind in kinds(OF_OTHER_COLLECTIONS[kind].values())


QUERIES = queries.queries()


def tables(rng: random.Random) -> dict[str, Counter[tuple[object, ...]]]:
    """Rows that are there once or twice: a group with a row below zero is an error, and shows nothing of a rule."""
    drawn = {
        name: [row_of(rng, case) for case in range(3) for _ in range(5)] for name, row_of in queries.TABLES.items()
    }
    return {name: Counter(rows) for name, rows in drawn.items()}


def asked(plan: Collection, rows: list[tuple[object, ...]], rng: random.Random) -> Iterable[Collection]:
    """What rules move or leave out because of the facts of the operator below: tests of its columns, sets, columns."""
    for place, name in enumerate(plan.columns):
        yield plan.filter(an.col(name).is_not_null())
        values = [row[place] for row in rows if type(row[place]) in (int, str, bool)]
        if values:
            yield plan.filter(an.col(name) == rng.choice(values))
        if not pa.types.is_map(plan.schema.field(name).type):
            yield plan.select(name).distinct()
    if not any(pa.types.is_map(type_) for type_ in plan.schema.types):
        yield plan.distinct()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", QUERIES)
def test_what_is_asked_of_every_operator_is_the_same_after_rewriting(name: str) -> None:
    """A wrong fact of a node, as which column is which or what is a set, lets a rule make another plan of these.

    Where the plan as it is written makes an error, the rewritten one may make another one, or none.
    """
    rng = random.Random(name)
    held = [tables(rng) for _ in range(2)]
    rows = sorted(recompute(QUERIES[name].node, held[0], 3, lambda _: held[0])[0], key=repr)
    for plan in asked(QUERIES[name], rows, rng):
        rewritten = optimise(plan.node)
        for some in held:
            contents, errors = recompute(plan.node, some, 3, lambda _, some=some: some)
            if not errors:
                assert recompute(rewritten, some, 3, lambda _, some=some: some) == (contents, set())
