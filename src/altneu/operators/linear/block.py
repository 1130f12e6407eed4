"""Runs of expression steps (filter, extend, select) evaluated together, with nothing moved before the end.

A filter marks the rows that it rejects instead of copying those that it keeps; columns are taken once, when the run
is over, and only those that come out of it. Where few rows are left the rest is evaluated on those alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Ints, Rows
from altneu.expressions import Expr
from altneu.expressions.expr import Scope
from altneu.expressions.vector import Failures as Failed
from altneu.expressions.vector import Vector, failed_rows, has_numpy
from altneu.linear import Extend, Filter, Outputs, Project, Step
from altneu.operators.kernels.spans import Failures, Mask, Spans

Expressions = Filter | Extend | Project
FEW_ROWS = 16  # whose marks are counted by Python, as NumPy takes longer
FEW = 4  # rows are left behind when there are so many times more of them than of those that are left


class Frame:
    """The columns of some rows, each made when first asked for: as it came, computed, or taken from another frame.

    Shape:  ``index`` (k,) positions in ``base`` of this frame's k rows.
    """

    def __init__(self, count: int, base: Frame | Rows, index: Ints | None = None) -> None:
        self.count, self.base, self.index = count, base, index
        self.vectors: dict[str, Vector] = {}

    @property
    def scope(self) -> Scope:
        """What expressions are evaluated on; made anew, for in a cycle the columns would outlive their use."""
        return Scope(self, self.vectors)  # type: ignore[arg-type]  # a scope asks for columns and a count

    def column(self, name: str) -> pa.Array:
        """A column as an Arrow array."""
        return self.vector(name).arrow

    def vector(self, name: str) -> Vector:
        """A column as a vector."""
        vectors = self.vectors
        if name in vectors:
            return vectors[name]
        base = self.base
        if isinstance(base, Rows):
            array = base.column(name)
            result = Vector(array.type, arrow=array)
        else:
            result = base.vector(name) if self.index is None else base.vector_at(name, self.index)
        vectors[name] = result
        return result

    def vector_at(self, name: str, index: Ints) -> Vector:
        """The values of a column at ``index``; of one that was not read yet, only these are made."""
        if name in self.vectors:
            return taken(self.vectors[name], index)
        if isinstance(self.base, Rows):
            array = self.base.column_at(name, index)
            return Vector(array.type, arrow=array)
        return self.base.vector_at(name, index if self.index is None else self.index[index])


def taken(vector: Vector, index: Ints) -> Vector:
    """The rows of a vector at ``index``."""
    if has_numpy(vector.type):
        valid = vector.valid
        return Vector(vector.type, vector.values.take(index), None if valid is None else valid.take(index))
    return Vector(vector.type, arrow=vector.arrow.take(pa.array(index)))


def run_block(steps: Sequence[Step], spans: Spans, failures: Failures) -> Spans:
    """Apply a run of expression steps.

    Cost:   each expression once, on the rows that are left when it is reached (or on up to ``FEW`` times as many); each
            column that comes out is taken once.
    """
    block = _Block(spans, failures)
    for step in steps:
        failures.step = step
        match step:
            case Filter():
                block.filter(step)
            case Extend(outputs):
                block.compute(outputs, keep=True)
            case Project(outputs):
                block.compute(outputs, keep=False)
        block.schema = step.output(block.schema)
        if block.left == 0:
            break
    return block.result()


class _Block:
    def __init__(self, spans: Spans, failures: Failures) -> None:
        self.spans, self.failures = spans, failures
        rows = spans.updates.rows
        self.schema, self.left = rows.schema, rows.count
        self.frame = Frame(rows.count, rows)
        self.positions: Ints | None = None  # of the frame's rows among the spans; None: they are the same
        self.alive: Mask | None = None  # rows of the frame that nothing has rejected; None: all of them

    def filter(self, step: Filter) -> None:
        """Mark the rows on which the predicate is not true."""
        vector = step.predicate.computed(self.frame.scope)
        valid = vector.valid
        keep: Mask = vector.values if valid is None else vector.values & valid
        failed = failed_rows(vector.failures) if vector.failures else None
        if failed is not None:
            keep = keep | failed if step.tolerant else keep & ~failed
            if not step.tolerant:
                self._fail(failed, vector.failures)
        self._keep(keep)
        if self.alive is not None and self.left * FEW < self.frame.count:
            self._leave_behind()

    def _keep(self, keep: Mask) -> None:
        alive = keep if self.alive is None else self.alive & keep
        self.left = alive.tolist().count(True) if alive.size < FEW_ROWS else int(np.count_nonzero(alive))
        self.alive = None if self.left == self.frame.count else alive

    def compute(self, outputs: Outputs, *, keep: bool) -> None:
        """Add columns to the frame's, or put them in the place of all."""
        results = [(name, self._computed(expression)) for name, expression in outputs]
        if not keep:
            self.frame = Frame(self.frame.count, self.frame)
        vectors = self.frame.vectors
        for name, result in results:
            vectors[name] = result

    def _computed(self, expression: Expr) -> Vector:
        if expression.is_column:
            return self.frame.vector(expression.column_name)
        vector = expression.computed(self.frame.scope)
        if not vector.failures:
            return vector
        failed = failed_rows(vector.failures)
        assert failed is not None
        self._fail(failed, vector.failures)
        self._keep(~failed)
        return vector.with_failures(())

    def _fail(self, failed: Mask, failures: Failed) -> None:
        """Rows that were alive until now are errors; ``failures`` say of each why, the first one that it has."""
        fresh = failed if self.alive is None else failed & self.alive
        index = np.flatnonzero(fresh)
        if not len(index):
            return
        columns = tuple(self.frame.vector_at(n, index).arrow for n in self.schema.names)
        rows = Rows(self.schema, columns, len(index))
        part = self.spans.taken_with(index if self.positions is None else self.positions[index], rows)

        def describe(at: int) -> tuple[str, str]:
            first = next(f for f in failures if f.mask[index[at]])
            return first.code, first.text(int(index[at]))

        self.failures.add(part, np.arange(len(index)), describe)

    def _leave_behind(self) -> None:
        """Go on with the rows that are left; their columns are taken when they are asked for."""
        assert self.alive is not None
        index = np.flatnonzero(self.alive)
        self.positions = index if self.positions is None else self.positions[index]
        self.frame = Frame(len(index), self.frame, index)
        self.alive = None

    def result(self) -> Spans:
        """The rows that are left, their columns taken."""
        if self.alive is not None:
            self._leave_behind()
        frame = self.frame
        rows = Rows(self.schema, tuple([frame.vector(n).arrow for n in self.schema.names]), frame.count)
        return self.spans.with_rows(rows) if self.positions is None else self.spans.taken_with(self.positions, rows)
