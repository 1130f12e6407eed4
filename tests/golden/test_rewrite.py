"""Each rule does what it says (the plan's text), and changes no answer (both plans are run)."""

from __future__ import annotations

import pytest

import altneu as an
from altneu import ir
from altneu.collection import Collection
from altneu.rewrite import RULES, optimise

SALES = an.source("sales", "item string, price long, qty long")
ROWS = [("tea", 3, 2), ("tea", 0, 5), ("jam", 7, 1), (None, 7, None), ("jam", 7, 1)]


def text(node: ir.Node, depth: int = 0) -> str:
    line = "  " * depth + type(node).__name__ + (f" {node.logic}" if isinstance(node, ir.Linear) else "")
    return "\n".join([line, *(text(child, depth + 1) for child in node.inputs)])


PLANS = {
    "two filters and a select become one": (
        SALES.filter("qty > 0").filter("price > 0").select("item", total="price * qty"),
        "Linear filter qty > 0L; filter price > 0L; select item, price * qty as total\n  Source",
    ),
    "two negations are none": (SALES.negate().negate(), "Source"),
    "below a reduce, and on both sides of a concat": (
        SALES.filter("qty > 0").negate().concat(SALES.negate()).select("item").distinct(),
        """Reduce
  Linear select item
    Concat
      Linear filter qty > 0L; negate
        Source
      Linear negate
        Source""",
    ),
    "what two share stays shared": (
        (rich := SALES.filter("price > 1").select("item", "price")).join(rich, on="item").select("item"),
        """Linear select item
  Join
    Linear filter price > 1L; select item, price
      Source
    Linear filter price > 1L; select item, price
      Source""",
    ),
}


def run(plan: ir.Node, monkeypatch: pytest.MonkeyPatch, *, rewritten: bool) -> list[object]:
    """Contents and changes after each step of an insert, a correction and a retraction."""
    if not rewritten:
        monkeypatch.setattr("altneu.session.optimise", lambda node: node)
    seen: list[object] = []
    with an.Session() as session:
        view = session.maintain("view", Collection(plan))
        for rows, diff in ((ROWS, 1), (ROWS[1:3], -1), (ROWS[:2], 2)):
            session.insert("sales", rows, diff=diff)
            session.advance()
            changes = view.changes().to_pylist()
            seen.append((sorted(view.to_pylist(errors="ignore"), key=str), sorted(changes, key=str)))
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize("name", PLANS)
def test_the_plan_is_the_one_intended(name):
    collection, expected = PLANS[name]
    assert text(optimise(collection.node)) == expected


@pytest.mark.parametrize("name", PLANS)
def test_both_plans_give_the_same_updates(name, monkeypatch):
    node = PLANS[name][0].node
    assert run(node, monkeypatch, rewritten=True) == run(node, monkeypatch, rewritten=False)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_rule_has_nothing_left_to_do_after_itself(rule):
    for collection, _ in PLANS.values():
        once = rule(collection.node)
        assert text(rule(once)) == text(once)
