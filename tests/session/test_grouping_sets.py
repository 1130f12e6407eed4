"""GROUP BY ROLLUP, CUBE and GROUPING SETS as Spark has them, corrected step by step."""

from __future__ import annotations

import random
from collections import Counter

import pytest

import altneu as an
from altneu import Collection
from altneu.collections.grouping import aggregate_node, cube, grouping, grouping_sets, rollup
from altneu.errors import PlanError
from altneu.expressions import parse, parse_aggregate
from altneu.linear import BoundLogic, Project
from altneu.plan import ir

ROWS = an.source("rows", "a int, b string, x long")
SETS = {
    "ROLLUP(a, b)": rollup(2),
    "CUBE(a, b)": cube(2),
    "GROUPING SETS ((a, b), (b), ())": [(0, 1), (1,), ()],
    "GROUPING SETS ((a), (a), ())": [(0,), (0,), ()],
    "GROUPING SETS ((a, b))": [(0, 1)],
}
VALUES = ([1, 2, None], ["x", "y", None], [1, 5, None])
CALLS = ("sum(x)", "count(*)", "sum(a)", "max(b)")


def grouped(sets) -> Collection:
    schema = ROWS.node.schema
    keys = [(name, parse(name, schema)) for name in ("a", "b")]
    node, keys = grouping_sets(ROWS.node, keys, sets)
    results = [(f"c{i}", parse_aggregate(text, node.schema)) for i, text in enumerate(CALLS)]
    result = aggregate_node(node, keys, results)
    shown = ["a", "b", "grouping_id", *(name for name, _ in results)]
    outputs = [(name, parse(name, result.schema)) for name in shown]
    outputs += [(f"g{i}", grouping(parse("grouping_id", result.schema), i, 2)) for i in range(2)]
    return Collection(ir.Linear(result, BoundLogic((Project(tuple(outputs)),))))


@pytest.mark.parametrize("text", SETS)
def test_groups_are_sparks(text, spark):
    rng = random.Random(text)
    held: Counter[tuple[int | None, str | None, int | None]] = Counter()
    key_b = "b" if "b" in text else "cast(null as string)"
    grouping_b = "grouping(b)" if "b" in text else "cast(1 as tinyint)"
    ids = "grouping_id()" if "b" in text else "grouping_id() * 2 + 1"
    with an.Session() as session:
        view = session.maintain("view", grouped(SETS[text]))
        for _ in range(4):
            rows = [
                (rng.choice([1, 2, None]), rng.choice(["x", "y", None]), rng.choice([1, 5, None])) for _ in range(5)
            ]
            gone = rng.sample(sorted(held.elements(), key=repr), min(3, held.total()))
            session.insert("rows", rows)
            session.retract("rows", gone)
            session.advance()
            held += Counter(rows)
            held -= Counter(gone)
            spark.createDataFrame(list(held.elements()), "a int, b string, x long").createOrReplaceTempView("sets")
            theirs = spark.sql(
                f"SELECT a, {key_b}, {ids}, {', '.join(CALLS)}, grouping(a), {grouping_b} FROM sets GROUP BY {text}"
            ).collect()
            ours = [tuple(row.values()) for row in view.to_arrow().to_pylist()]
            assert Counter(ours) == Counter(map(tuple, theirs))
        session.retract("rows", list(held.elements()))
        session.advance()
        assert view.to_arrow().num_rows == 0


@pytest.mark.parametrize("sets", [[], [(2,)], [(-1,)]])
def test_sets_that_are_none_are_refused(sets):
    keys = [(name, parse(name, ROWS.node.schema)) for name in ("a", "b")]
    with pytest.raises(PlanError, match="positions of the 2 keys"):
        grouping_sets(ROWS.node, keys, sets)
