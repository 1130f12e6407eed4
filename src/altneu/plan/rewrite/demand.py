"""Tests on their way down a plan: rows that every reader drops are not arranged below.

A test is *wanted* of a node when every reader of the node drops the rows that fail it. So it may be applied at the
node, or below it, and then it is *known* above and need not be applied again. Each reader passes tests on to its
inputs, in the columns that those have; what several read gets only what all of them want, so that it is still one.

Tests that can fail go down as tolerant copies: the rows on which they fail pass, and become errors where the test was
written if they get there.

So a node loses all copies of a row or none, wherever they come from: what cancels in a sum must still cancel, or rows
get to tests that they never got to, and fail. All parts of a sum are therefore asked the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from altneu.expressions import Column, Expr
from altneu.linear import BoundLogic, Temporal
from altneu.linear.asked import single_tests
from altneu.linear.mapping import mapped
from altneu.plan.ir import Linear, Node, walk
from altneu.plan.rewrite.merge_linear import merge_linear
from altneu.plan.rewrite.questions import Answering, Questions, Test
from altneu.plan.rewrite.transform import transform

Wanted = dict[Test, bool]  # and whether it has passed an operator with state, for whose sake it moves down
Kinds = tuple[type[Test], ...]


def push(root: Node, kinds: Kinds) -> Node:
    """The plan with all tests of some kinds as far down as they may go.

    Tests do not move into an arrangement that another operator of the plan reads without them: there would be two.
    """
    while True:
        pushed = merge_linear(transform(root, _Flow.of(root, kinds).rebuilt))
        if pushed.fingerprint == root.fingerprint:
            return root
        root = pushed


@dataclass
class _Flow:
    """What is wanted of every node, and passed along every edge, by fingerprints of the plan as it was."""

    kinds: Kinds
    wanted: dict[str, Wanted] = field(default_factory=dict)
    edges: dict[tuple[str, int], Wanted] = field(default_factory=dict)
    arranged: dict[tuple[str, object], Wanted] = field(default_factory=dict)
    is_known: Questions = field(default_factory=lambda: Questions(_is_known))
    reaches_state: Questions = field(default_factory=lambda: Questions(_reaches_state))

    @classmethod
    def of(cls, root: Node, kinds: Kinds) -> _Flow:
        """Readers first, so that a node's readers have all spoken before it does."""
        flow = cls(kinds, {root.fingerprint: {}})
        for node in reversed(list(walk(root))):
            if node.arranged_by:
                flow.arranged[node.fingerprint, node.arranged_by] = {}
            for i, below in enumerate(node.inputs):
                flow._pass(node, i, below)
        return flow

    def _pass(self, node: Node, i: int, below: Node) -> None:
        passed = self._passed(node, i, below)
        self.edges[node.fingerprint, i] = passed
        self.wanted[below.fingerprint] = _both(self.wanted.get(below.fingerprint), passed)
        place = below.fingerprint, node.arrangement(i)
        if place[1] is not None:
            self.arranged[place] = _both(self.arranged.get(place), passed)

    def _passed(self, node: Node, i: int, below: Node) -> Wanted:
        """What a node wants of an input."""
        wanted = self.wanted[node.fingerprint]
        if isinstance(node, Linear):
            own = {t: False for t in node.cut.asked_first() if isinstance(t, self.kinds)}
            through = ((node.cut.ask(t).before, kept) for t, kept in wanted.items())
            return own | {t: kept for before, kept in through if before is not None for t in single_tests(before)}
        if node.is_sum:
            wanted = {t: True for t, kept in wanted.items() if kept or not t.tolerant or self.reaches_state(node, t)}
        return {t: True for t in (test_below(node, i, t) for t in wanted) if t is not None}

    def rebuilt(self, new: Node, old: Node) -> Node:
        """A node over its new inputs, with the tests that are applied there."""
        if isinstance(new, Linear):
            below, cut = new.input, new.cut
            for test, kept in self.wanted[old.fingerprint].items():
                if kept or not test.tolerant:
                    cut = cut.with_test(test)
            return Linear(below, cut.without_first(lambda t: self.is_known(below, t)))
        return new.over([self._fitted(old, i, below) for i, below in enumerate(new.inputs)])

    def _fitted(self, old: Node, i: int, below: Node) -> Node:
        """An input with the tests that could not move into it, unless that would make two of one arrangement."""
        place = old.inputs[i].fingerprint, old.arrangement(i)
        passed = self.arranged[place] if place[1] is not None else self.edges[old.fingerprint, i]
        tests = [t for t, kept in passed.items() if (kept or not t.tolerant) and not self.is_known(below, t)]
        return Linear(below, BoundLogic(tuple(tests))) if tests else below


def _both(one: Wanted | None, other: Wanted) -> Wanted:
    if one is None:
        return dict(other)
    return {t: kept or one[t] for t, kept in other.items() if t in one}


def test_below(node: Node, i: int, test: Test) -> Test | None:
    """A test of a node's rows as one of an input's rows; None when the input cannot decide it."""
    columns = {} if node.hands_on else node.lineage(i)
    schema = node.inputs[i].schema
    names = test.columns_read(node.schema)
    if not names or not names <= columns.keys():
        return None
    if isinstance(test, Temporal) and node.moves_times:
        return None
    fields = {n: schema.field(columns[n]) for n in names}
    if any(node.schema.field(n).type != f.type for n, f in fields.items()):
        return None
    return _over(test, {n: Column(f.name, f.type, f.nullable) for n, f in fields.items()})


def _reaches_state(node: Node, test: Test) -> Answering:
    """Whether a test of a node's rows gets past an operator with state."""
    if isinstance(node, Linear):
        before = node.cut.ask(test).before
        for part in () if before is None else single_tests(before):
            if (yield node.input, part):
                return True
        return False
    for i, below in enumerate(node.inputs):
        test_of_input = test_below(node, i, test)
        if test_of_input is not None and (not node.is_sum or (yield below, test_of_input)):
            return True
    return False


def _over(test: Test, columns: dict[str, Expr]) -> Test:
    return mapped(test, lambda e: e.substitute(columns))


def _is_known(node: Node, test: Test) -> Answering:
    """Whether all rows of a node are known to pass a test."""
    if isinstance(node, Linear):
        answer = node.cut.ask(test)
        return answer.known or (answer.before is not None and (yield node.input, answer.before))
    if node.hands_on:
        return (yield node.inputs[0], test)
    one_is_enough = node.needs_every_input
    for i, below in enumerate(node.inputs):
        test_of_input = test_below(node, i, test)
        passed = test_of_input is not None and (yield below, test_of_input)
        if passed == one_is_enough:
            return passed
    return bool(node.inputs) and not one_is_enough
