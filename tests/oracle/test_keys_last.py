"""Plans of the oracle with the columns of every input backwards, and so with keys behind the other columns.

By themselves nearly all of them have the key in front, where an operator that mixes up its columns does nothing wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from altneu import Collection, Session
from altneu.expressions import Column
from altneu.linear import BoundLogic, Project
from altneu.plan import ir
from altneu.plan.rewrite.transform import transform
from tests.oracle import append_only_cases, asof_cases, delta_joins_cases, latest_cases, locked_cases, loops_cases
from tests.oracle.operators_cases import HISTORY, PLANS, TIMES
from tests.oracle.queries import SOURCES
from tests.oracle.runners import Judge, Runner

EACH = list(range(1, TIMES + 2))
ALONE = Runner("memory", lambda _: Session(shards=3))
TOGETHER = Runner("memory", lambda _: Session(), together=True)  # where views share what they keep


def with_columns(node: ir.Node, names: list[str]) -> ir.Node:
    """A node with its columns in another order."""
    fields = [node.schema.field(name) for name in names]
    return ir.Linear(node, BoundLogic((Project(tuple((f.name, Column(f.name, f.type, f.nullable)) for f in fields)),)))


def backwards(new: ir.Node, old: ir.Node) -> ir.Node:
    """An operator over its inputs with their columns backwards; what it gives has them as before.

    Where the key is all that there is, errors alone would show the difference.
    """
    is_turned = isinstance(new, ir.Reduce | ir.Join | ir.AsOf | ir.Latest)
    if not is_turned or (isinstance(new, ir.Reduce) and {*new.key} == {*new.schema.names}):
        return new
    turned = new.over([with_columns(i, i.schema.names[::-1]) for i in new.inputs])
    return turned if turned.schema.names == old.schema.names else with_columns(turned, old.schema.names)


def turned(plans: Mapping[str, Collection]) -> dict[str, Collection]:
    return {name: Collection(transform(plan.node, backwards)) for name, plan in plans.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PLANS)
def test_the_order_of_columns_changes_nothing(name):
    Judge(turned({name: PLANS[name]}), HISTORY).run(ALONE, SOURCES, EACH)


@pytest.mark.parametrize("part", range(4))
def test_nor_do_other_views(part):
    """Plans as they are and with their columns backwards, in one session."""
    some = {name: plan for i, (name, plan) in enumerate(PLANS.items()) if i % 4 == part}
    both = some | {f"{name} backwards": plan for name, plan in turned(some).items()}
    Judge(both, HISTORY).run(TOGETHER, SOURCES, EACH)


def test_nor_do_sources_that_only_grow():
    plans = append_only_cases.KEPT | append_only_cases.WHOLE
    Judge(turned(plans), append_only_cases.HISTORY).run(ALONE, append_only_cases.SOURCES, append_only_cases.CUTS)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", loops_cases.PLANS)
def test_nor_do_loops(name):
    plans = turned({name: loops_cases.PLANS[name]})
    Judge(plans, loops_cases.HISTORY).run(ALONE, loops_cases.SOURCES, [2, 3, loops_cases.TIMES + 1])


@pytest.mark.parametrize("cases", [asof_cases, latest_cases, locked_cases, delta_joins_cases])
def test_nor_do_joins_of_other_kinds(cases):
    both = cases.PLANS | {f"{name} backwards": plan for name, plan in turned(cases.PLANS).items()}
    for runner in (ALONE, TOGETHER):
        Judge(both, cases.HISTORY).run(runner, cases.SOURCES, [2, 3, cases.TIMES + 1])
