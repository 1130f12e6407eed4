"""An operator lives in its folder: what the rest of the engine knows of operators, and what each has to state."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import altneu
from altneu.operators.base import Hosting, Operation, OverArrangements, RowByRow, Stateless
from altneu.operators.node import AtEachTime, Leaf, Node, Unary, Whole
from altneu.plan import ir

SRC = Path(altneu.__file__).parent

OPERATIONS = {
    "plan.hydrate": {"ArrangeOp", "ReadOp", "LinearOp", "ConcatOp", "FromOp"},  # what can be read, and how; differences
    "plan.lower": {"ArrangeOp", "ConcatOp", "EnterOp", "LeaveOp", "IntegrateOp"},  # arrangements and borders of scopes
    "plan.physical": {"ArrangeOp", "SourceOp"},  # the arrangements and sources of a plan, asked for from elsewhere
    "engine.backfill": {"ArrangeOp", "ReadOp", "LinearOp", "ConcatOp", "ExplodeOp"},  # makes a plan; compares sums
    "engine.replace": {"ArrangeOp", "ReadOp", "LinearOp", "ConcatOp", "SourceOp"},  # makes a plan
    "plan.recompute": {  # what may be computed anew: made of arrangements, and of no time of arrival
        *("ArrangeOp", "FromOp", "ReadOp", "SourceOp"),
        *("EnterAtOp", "EnterOp", "FeedbackOp", "FeedOp", "LeaveOp"),
    },
    "plan.refresh_cost": {"ArrangeOp", "SourceOp"},  # where rows are read and counted
    "plan.static": {"ArrangeOp"},  # which arrangements nobody looks up
    "provenance.finding": {"ArrangeOp"},  # arrangements are what can be read
    "views.peek": {"ArrangeOp"},
    "runtime.base": {"ArrangeOp"},  # an arrangement to which nothing is new is read without being run
    "runtime.contents": {"ArrangeOp"},
    "runtime.measured": {"ArrangeOp", "ReadOp"},  # a late view: what is read whole did nothing
    "runtime.parts": {"ArrangeOp", "ReadOp"},  # what is read whole needs room
    "runtime.schedule": {"ArrangeOp", "ReadOp"},  # what is read whole is work
    "runtime.divided": {"ArrangeOp", "JoinOp", "ExplodeOp"},  # one pattern: joins and sums of slices of a key's rows
    "runtime.inspections": {"InspectOp"},  # the function that ``Here.show`` is given updates for
    "runtime.spark.sums": {"ArrangeOp", "ExplodeOp"},  # sums that Spark makes before rows leave it
    "runtime.spark.static_keys": {
        "ArrangeOp",
        "JoinOp",
        "LinearOp",
    },  # one pattern: rows joined with what never changes
    "runtime.spark.wire": {"ArrangeOp"},  # arrangements travel by name
}
"""The classes of operations that modules outside their folders know, with the reason: the one that has state, the ones
that modules make themselves, and rules about one pattern. No step, schedule, explanation or late view asks which
operator it has before it; those ask for its facts.
"""


def imported_operations() -> dict[str, set[str]]:
    known: dict[str, set[str]] = {}
    for path in SRC.rglob("*.py"):
        module = ".".join(path.relative_to(SRC).with_suffix("").parts)
        if module.startswith("operators."):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").endswith(".operation"):
                known.setdefault(module, set()).update(alias.name for alias in node.names)
    return known


def test_classes_of_operations_are_known_outside_their_folders_for_a_reason() -> None:
    assert imported_operations() == OPERATIONS


def test_explain_knows_no_operator() -> None:
    for path in (SRC / "explain").glob("*.py"):
        imported = [n.module or "" for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.ImportFrom)]
        assert {m for m in imported if m.startswith("altneu.operators.")} <= {"altneu.operators.base"}, path


def abstract(kind: type) -> set[str]:
    return {*kind.__abstractmethods__} if inspect.isabstract(kind) else set()


def test_a_fact_of_an_operation_whose_wrong_value_makes_wrong_rows_is_abstract() -> None:
    state = {"keeps", "takes_from", "reads", "looks_again", "starts"}
    place = {"whole", "lies_by", "exchange_key"}
    rows = {"makes_rows", "at_each_time", "bound"}
    assert abstract(Operation) == {"step", *state, *place, *rows}
    assert abstract(Stateless) == {"step", *place, *rows}
    assert abstract(RowByRow) == {"step", "at_each_time"}
    assert abstract(OverArrangements) == {"step", "whole", *rows}
    assert abstract(Hosting) == {"step", "whole", "at_each_time", "bound"}


def test_a_fact_of_a_node_whose_wrong_value_makes_wrong_rows_is_abstract() -> None:
    times = {"reads_times", "is_by_arrival", "arrival_verb"}
    rows = {"describe", "lineage", "decides", "reads", "is_nothing"}
    assert abstract(Node) == {*rows, *times, "is_sum", "moves_times"}
    assert abstract(AtEachTime) == {*rows, "is_sum", "moves_times"}
    assert abstract(Leaf) == {"describe"}
    assert abstract(Unary) == abstract(Node) - {"is_sum"}
    assert abstract(Whole) == {"describe", *times, "is_sum"}


def test_every_operation_and_node_states_its_facts() -> None:
    def below(kind: type) -> set[type]:
        return set().union(*({k, *below(k)} for k in kind.__subclasses__())) if kind.__subclasses__() else set()

    shapes = {kind for kind in below(Operation) | below(Node) if kind.__subclasses__()}
    for kind in (below(Operation) | below(Node)) - shapes:
        assert not abstract(kind), kind
    assert {ir.Loop, ir.Source}.isdisjoint(shapes)
