"""Questions about a node and a test that lead to questions about its inputs: each is answered once, at any depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from altneu.linear import Filter, Temporal
from altneu.plan.ir import Node

Test = Filter | Temporal
Question = tuple[Node, Test]
Answering = Generator[Question, bool, bool]
"""Yields the questions about inputs on which an answer depends, is sent their answers, and returns its own."""

MOST = 4
"""Tests of one node that one question may lead to. Paths to a shared node may each make another test of it."""


@dataclass
class Questions:
    """Answers by a rule, each stored: in a plan that is shared along many paths each node and test is answered once.

    A question that would lead to more tests of one node than ``MOST`` is answered with no there.

    Cost:   ``MOST`` visits of each node below the one in question, at most, and none for a question that was answered.
    """

    rule: Callable[[Node, Test], Answering]
    _found: dict[tuple[int, Test], tuple[Node, bool]] = field(default_factory=dict)  # the node, so that its id is its

    def __call__(self, node: Node, test: Test) -> bool:
        """The answer for a node and a test."""
        if (id(node), test) in self._found:
            return self._found[id(node), test][1]
        visits = Counter([id(node)])
        open_questions = [(node, test, self.rule(node, test))]
        answer: bool | None = None
        while open_questions:
            node, test, answering = open_questions[-1]
            try:
                below, needed = answering.send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                answer = bool(stop.value)
                self._found[id(node), test] = node, answer
                open_questions.pop()
                continue
            stored = self._found.get((id(below), needed))
            answer = None if stored is None else stored[1]
            if stored is None and visits[id(below)] >= MOST:
                answer = False
            elif stored is None:
                visits[id(below)] += 1
                open_questions.append((below, needed, self.rule(below, needed)))
        assert answer is not None
        return answer
