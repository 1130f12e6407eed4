"""What loops, their variables and their results mean."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.expressions import Expr
from altneu.operators.node import AtEachTime, Leaf, Node, Unary, Whole


def open_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with nulls allowed everywhere: a round may bring what the first collection had not."""
    return pa.schema([f.with_nullable(True) for f in schema])


@dataclass(frozen=True, eq=False)
class Variable(Leaf, tag="Variable"):
    """The contents of a variable of a loop at the start of a round.

    ``level`` counts the loops around it that were being written when its own was, so that of two loops one inside the
    other each knows its variables.
    """

    level: int
    index: int
    schema: pa.Schema

    def describe(self) -> str:
        """Which variable of which loop."""
        return f"{self.level}.{self.index}"

    def free(self, below: frozenset[int]) -> frozenset[int]:
        """Its loop."""
        return below | {self.level}


@dataclass(frozen=True, eq=False)
class EnterAt(AtEachTime, Unary, Whole, tag="EnterAt"):
    """A collection from outside of which each row enters a loop at the round that an expression says."""

    rounds: Expr
    level: int

    def describe(self) -> str:
        """The expression and the loop."""
        return f"{self.rounds.sql} {self.level}"

    def free(self, below: frozenset[int]) -> frozenset[int]:
        """The loop that it enters."""
        return below | {self.level} if self.level >= 0 else below


MAX_ROUNDS = 1_000_000
"""A loop that needs more rounds is taken for one that never ends, unless it says how many it may have."""
_FIRST_MAX_ROUNDS = 10_000


@dataclass(frozen=True, eq=False)
class Loop(AtEachTime, Whole, tag="Loop"):
    """Variables that begin as ``initial`` and become, all at once and round after round, what ``bodies`` make of them.

    A variable is in each round what its body made some rounds before, by ``steps``; where these are not given, one.

    No collection itself: ``Result`` is what a variable comes to. ``max_rounds`` bounds the rounds; with ``stops`` the
    variables then are what they are, else a loop that needs more fails. ``unread`` numbers variables that no
    body reads, so that nothing of them is fed back; ``hoisted`` are EXPLAIN's notes on those that were taken out.
    """

    names: tuple[str, ...]
    initial: tuple[Node, ...]
    bodies: tuple[Node, ...]
    level: int
    max_rounds: int
    stops: bool = False
    unread: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()
    hoisted: tuple[str, ...] = ()

    is_sum = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """What the variables begin as, then what becomes of them."""
        return (*self.initial, *self.bodies)

    def _schema(self) -> pa.Schema:
        """That of the first variable."""
        return self.variable(0).schema

    def step(self, index: int) -> int:
        """After how many rounds a variable is what its body made."""
        return self.steps[index] if self.steps else 1

    def variable(self, index: int) -> Variable:
        """A variable as the bodies read it."""
        return Variable(self.level, index, open_schema(self.initial[index].schema))

    def describe(self) -> str:
        """Names and bounds; the default bound is written as it was when the first stores were made."""
        limit = _FIRST_MAX_ROUNDS if self.max_rounds == MAX_ROUNDS and not self.stops else self.max_rounds
        unread, steps = f" {self.unread}" * bool(self.unread), f" by {self.steps}" * bool(self.steps)
        return f"{self.names} {self.level} {limit} {self.stops}{unread}{steps}"

    def free(self, below: frozenset[int]) -> frozenset[int]:
        """Its own variables are part of it."""
        return below - {self.level}

    def moments(self, below: dict[int, int]) -> dict[int, int]:
        """A loop leaves those of its own level."""
        return {level: depth for level, depth in below.items() if level < self.level}


@dataclass(frozen=True, eq=False)
class Result(AtEachTime, Whole, tag="Result"):
    """What a variable of a loop comes to."""

    loop: Loop
    index: int

    is_sum = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The loop."""
        return (self.loop,)

    def _schema(self) -> pa.Schema:
        """That of the variable."""
        return self.loop.variable(self.index).schema

    def describe(self) -> str:
        """Which variable."""
        return str(self.index)

    @property
    def title(self) -> str:
        """The variable, and the loop."""
        return f"{self.loop.names[self.index]} of the loop over {', '.join(self.loop.names)}"
