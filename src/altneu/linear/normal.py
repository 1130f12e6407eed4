"""The normal form of linear logic: rows are dropped as early as may be, and nothing is computed twice or in vain.

A logic is cut into blocks where it cannot be reordered: at Python functions, at steps that make other rows, and where
one projection in place of two would be more work. A block is: what drops rows (filters first, then temporal bounds,
then factors for counts), over the columns that come in; one projection; the step that ends the block.

What may be reordered follows from one rule. A row that passes cleanly gives the rows it gave; one that is dropped
cleanly is still dropped cleanly; one that was an error may be anything. So nothing that can fail is asked of a row that
was dropped before it was asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from altneu.expressions import Column, Expr, Literal, literal
from altneu.expressions.sharing import conjuncts, simplify
from altneu.expressions.temporal import Bound
from altneu.linear.blocks import DEEPEST, Block, Test
from altneu.linear.bound import BoundLogic
from altneu.linear.mapping import fits, mapped
from altneu.linear.shared import adds_at_most, work
from altneu.linear.steps import (
    Emit,
    Extend,
    Filter,
    GenerateSeries,
    Negate,
    Outputs,
    ParseJson,
    Project,
    RepeatRow,
    Step,
    Temporal,
    Unnest,
)

S = TypeVar("S", Project, Extend, Emit, Test)
LARGEST = 300  # calls in one expression that is put together here
NOTHING = Filter(literal(False))
_ROUNDS = 10


def normalise(logic: BoundLogic, schema: pa.Schema) -> BoundLogic:
    """The normal form of a logic over rows of ``schema``.

    Law:    a row that passes cleanly gives what it gave, one that is dropped cleanly still is; what is in normal form
            stays as it is (tests/laws/test_normal_form.py).
    """
    for _ in range(_ROUNDS):
        normal = _once(logic, schema)
        if normal.digest == logic.digest:
            return logic
        logic = normal
    return logic


def is_empty(logic: BoundLogic) -> bool:
    """Whether a logic in normal form gives nothing, whatever comes in."""
    return bool(logic.steps) and logic.steps[0] == NOTHING


def _once(logic: BoundLogic, schema: pa.Schema) -> BoundLogic:
    return BoundLogic(tuple(Cutter.of(logic, schema).steps(schema)), logic.delay)


class Cutter:
    """Takes a logic step by step and cuts it into blocks."""

    def __init__(self, schema: pa.Schema) -> None:
        self.blocks = [Block.of(schema)]
        self.negated = self.empty = False

    @classmethod
    def of(cls, logic: BoundLogic, schema: pa.Schema) -> Cutter:
        """A whole logic, cut into blocks."""
        cutter = cls(schema)
        for step in logic.steps:
            cutter.add(step)
        return cutter

    def copy(self) -> Cutter:
        """The same blocks, into which more can be put; the expressions and steps in them never change."""
        result = copy(self)
        result.blocks = [replace(block, tests=list(block.tests)) for block in self.blocks]
        return result

    @property
    def last(self) -> Block:
        """The block that the next step is put into."""
        return self.blocks[-1]

    def add(self, step: Step) -> None:
        """Put the next step where it belongs."""
        match step:
            case Negate():
                self.negated = not self.negated
            case Filter(predicate, tolerant):
                for part in [predicate] if tolerant else conjuncts(predicate):
                    self.test(Filter(part, tolerant))
            case Temporal() | RepeatRow():
                self.test(step)
            case Project(outputs):
                self._project(outputs)
            case Extend(outputs):
                self._extend(outputs)
            case Emit():
                self._emit(step)
            case _:
                self._close(self._filled(step))

    def _close(self, step: Step | None) -> None:
        """End the block; a step is over the columns that it hands on."""
        self.last.closing = step
        self.blocks.append(Block.of(self.last.output))

    def _filled(self, step: Step) -> Step:
        """A step with the constants among its columns put in."""
        constants = {n: e for n, e in self.last.outputs.items() if e.is_literal}
        return mapped(step, lambda e: _substituted(e, constants))

    # projections ----------------------------------------------------------------------------------------------------

    def _project(self, outputs: Outputs) -> None:
        merged = self._over(Project(outputs), self.last)
        if merged is None:
            self._close(None)
            merged = Project(outputs)
        self.last.outputs = dict(merged.outputs)

    def _extend(self, outputs: Outputs) -> None:
        passed = tuple(Column(n, e.type, e.nullable) for n, e in self.last.outputs.items())
        merged = self._over(Extend(outputs), self.last) if fits(passed, self.last.outputs, LARGEST, DEEPEST) else None
        if merged is None:
            self._close(None)
            merged = Extend(outputs)
        self.last.outputs = self.last.outputs | dict(merged.outputs)

    def _emit(self, step: Emit) -> None:
        if len(step.updates) == 1 and step.updates[0].event is None:
            self._emit_one(step)
            return
        merged = self._over(step, self.last)
        if merged is not None:
            step, self.last.outputs = merged, Block.of(self.last.incoming).outputs
        self._close(step)

    def _emit_one(self, step: Emit) -> None:
        """One update is a filter, a bound, a factor and a projection."""
        [update] = step.updates
        if update.when is not None:
            self.add(Filter(update.when))
        if update.time is not None:
            self.add(Temporal((Bound("lower", update.time),), step.delay))
        if update.diff is not None:
            self.add(RepeatRow(update.diff))
        self._project(update.outputs)

    def _over(self, step: S, block: Block) -> S | None:
        """The step over the columns that come into a block; None when that is more work than after its projection."""
        expressions = step.expressions
        if not fits(expressions, block.outputs, LARGEST, DEEPEST):
            return None
        merged = mapped(step, lambda e: _substituted(e, block.outputs))
        if not any(block.outputs[c].calls for e in expressions for c in e.columns if c in block.outputs):
            return merged  # nothing is computed that was not
        written, alone = Project(tuple(block.outputs.items())), work([step])
        if isinstance(step, Project | Emit):
            return merged if work([*block.tests, merged]) <= work([*block.tests, written]) + alone else None
        return merged if adds_at_most(alone, merged, block.tests, written) else None

    # tests ----------------------------------------------------------------------------------------------------------

    def test(self, test: Test) -> Test | None:
        """Put a test into the first block that it can reach; returns it as it is asked of the rows that come in.

        None when it cannot be asked of them, or need not.
        """
        at = len(self.blocks) - 1
        while True:
            below = self._over(test, self.blocks[at])
            if below is None and at == len(self.blocks) - 1:
                self._close(None)
                at += 1
                below = test
            if below is None:
                at += 1
                break
            settled = self._settled(below)
            if settled is None:
                return None
            test = settled
            if at == 0 or not self._may_pass(test, at):
                break
            at -= 1
        self.blocks[at].insert(test)
        return test if at == 0 else None

    def _may_pass(self, test: Test, at: int) -> bool:
        """Whether a test of a block may be asked before the step that ends the block before it."""
        closing = self.blocks[at - 1].closing
        handed_on = self.blocks[at - 1].outputs
        if not isinstance(closing, ParseJson | GenerateSeries | Unnest | None):
            return False
        if not test.columns_read(pa.schema([])) <= handed_on.keys():
            return False
        if not test.can_fail and not isinstance(test, RepeatRow):  # whose product may be no diff any more
            return True
        return not self.blocks[at].tests and isinstance(closing, ParseJson | None)

    def _settled(self, test: Test) -> Test | None:
        """A test without what is known beforehand; None when nothing of it is left to ask."""
        if isinstance(test, Filter):
            if isinstance(test.predicate, Literal):
                self.empty |= not test.predicate.value
                return None
            return test
        if isinstance(test, RepeatRow):
            if not isinstance(test.count, Literal):
                return test
            count = test.count.value
            self.empty |= not count
            if test.non_negative and count and count < 0:
                return test
            self.negated ^= count == -1
            return None if count in (None, -1, 0, 1) else replace(test, non_negative=False)
        bounds = [b for b in map(_settled_bound, test.bounds) if b is not None]
        self.empty |= any(b.unless is None and _is_null(b.value) for b in bounds)
        return replace(test, bounds=tuple(bounds)) if bounds else None

    # the result -----------------------------------------------------------------------------------------------------

    def steps(self, schema: pa.Schema) -> list[Step]:
        """All blocks as steps, without what nobody reads."""
        needed = frozenset(self.last.outputs)
        for block in reversed(self.blocks):
            if self.empty:
                block.tests = []
            needed = block.prune(needed)
        result: list[Step] = [NOTHING] if self.empty else []
        for block in self.blocks:
            steps = block.steps(schema, last=block is self.last)
            schema = BoundLogic(tuple(steps)).output(schema)
            result += steps
        return [*result, Negate()] if self.negated and not self.empty else result


def _substituted(expression: Expr, columns: Mapping[str, Expr]) -> Expr:
    """An expression with its columns replaced, made simple unless that changes what a schema says of it."""
    substituted = expression.substitute(columns)
    simple = simplify(substituted)
    return simple if simple.nullable == expression.nullable else substituted


def _settled_bound(bound: Bound) -> Bound | None:
    if isinstance(bound.unless, Literal):
        if bound.unless.value:
            return None
        bound = replace(bound, unless=None)
    return None if bound.null_open and _is_null(bound.value) else bound


def _is_null(expression: Expr) -> bool:
    return isinstance(expression, Literal) and expression.value is None
