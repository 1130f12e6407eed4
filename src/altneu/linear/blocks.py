"""Blocks of linear logic: what drops rows, then one projection, then the step that ends the block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pyarrow as pa

from altneu.expressions import Column, Expr, conjunction
from altneu.linear.shared import share
from altneu.linear.steps import Emit, Filter, GenerateSeries, ParseJson, Project, RepeatRow, Step, Temporal, Unnest

Test = Filter | Temporal | RepeatRow
Columns = dict[str, Expr]

DEEPEST = 100  # calls inside calls in one expression that is put together here
_RANK = {Filter: 0, Temporal: 1, RepeatRow: 2}


@dataclass
class Block:
    """Tests over the columns that come in, the columns handed on, and the step that ends the block (None: nothing)."""

    incoming: pa.Schema
    outputs: Columns
    tests: list[Test] = field(default_factory=list)
    closing: Step | None = None

    @classmethod
    def of(cls, schema: pa.Schema) -> Block:
        """A block that does nothing yet."""
        return cls(schema, {f.name: Column(f.name, f.type, f.nullable) for f in schema})

    @property
    def schema(self) -> pa.Schema:
        """What is handed on to the closing step."""
        return pa.schema([pa.field(n, e.type, e.nullable) for n, e in self.outputs.items()])

    @property
    def output(self) -> pa.Schema:
        """What comes out."""
        return self.schema if self.closing is None else self.closing.output(self.schema)

    def insert(self, test: Test) -> None:
        """Put a test among the others: behind all when it can fail, else before those that are dearer.

        A test that was asked before is not asked again.
        """
        at = len(self.tests)
        if not test.can_fail:
            ranks = [_RANK[type(t)] for t in self.tests]
            at = next((i for i, r in enumerate(ranks) if r > _RANK[type(test)]), at)
        before = self.tests[:at]
        if isinstance(test, Temporal):
            test = _without_known(test, before)
            if not test.bounds:
                return
            last = before[-1] if before else None
            if isinstance(last, Temporal) and _may_join(last, test):
                at, test = at - 1, replace(last, bounds=(*last.bounds, *test.bounds))
                del self.tests[at]
        elif isinstance(test, Filter):
            if any(
                isinstance(t, Filter) and t.predicate == test.predicate and t.tolerant <= test.tolerant for t in before
            ):
                return
            if before and before[-1] == replace(test, tolerant=True):
                at -= 1
                del self.tests[at]
        self.tests.insert(at, test)

    def prune(self, needed: frozenset[str]) -> frozenset[str]:
        """Drop output columns that nobody reads; returns the input columns that are still read."""
        self.closing, names_read = _pruned(self.closing, needed, frozenset(self.outputs))
        self.outputs = {n: e for n, e in self.outputs.items() if n in names_read}
        read = [t.columns_read(pa.schema([])) for t in self.tests]
        return frozenset().union(*read, *(e.columns for e in self.outputs.values()))

    def steps(self, schema: pa.Schema, *, last: bool) -> list[Step]:
        """The block over columns of ``schema``, which may have more than it reads."""
        steps: list[Step] = list(_conjoined(self.tests))
        same = all(e.is_column and e.column_name == n for n, e in self.outputs.items())
        narrow = same and not last and isinstance(self.closing, Emit | ParseJson | None)
        if not narrow and not (same and list(self.outputs) == schema.names):
            steps.append(self._projection)
        if isinstance(self.closing, Emit):
            return share([*steps, self.closing])
        shared = share(steps)
        if len(shared) > len(steps) and not isinstance(shared[-1], Project):
            shared.append(self._projection)
        return [*shared, *([] if self.closing is None else [self.closing])]

    @property
    def _projection(self) -> Project:
        """The columns handed on."""
        return Project(tuple(self.outputs.items()))


def _may_join(before: Temporal, test: Temporal) -> bool:
    """Bounds of one step are all asked: what the first exclude must not fail on the others."""
    return not test.can_fail and (before.delay, before.tolerant) == (test.delay, test.tolerant)


def _without_known(test: Temporal, before: Iterable[Test]) -> Temporal:
    known = [t for t in before if isinstance(t, Temporal) and t.delay == test.delay and t.tolerant <= test.tolerant]
    fresh = [b for b in dict.fromkeys(test.bounds) if not any(b in t.bounds for t in known)]
    return replace(test, bounds=tuple(fresh))


def _pruned(
    closing: Step | None, needed: frozenset[str], all_columns: frozenset[str]
) -> tuple[Step | None, frozenset[str]]:
    """A step without what nobody reads of it, and what is read of its input when ``needed`` is of its output."""
    match closing:
        case None:
            return None, needed
        case GenerateSeries(name):
            return closing, needed - {name} | _columns(closing)
        case Unnest(_, names, ordinality):
            closing = replace(closing, ordinality=ordinality if ordinality in needed else None)
            return closing, needed - {*names, ordinality} | _columns(closing)
        case ParseJson(column, fields):
            fields_read = tuple(f for f in fields if f.name in needed)
            needed -= {f.name for f in fields}
            return (replace(closing, fields=fields_read), needed | {column}) if fields_read else (None, needed)
        case Emit(updates):
            pruned = tuple(replace(u, outputs=tuple((n, e) for n, e in u.outputs if n in needed)) for u in updates)
            closing = replace(closing, updates=pruned)
            return closing, _columns(closing)
        case _:
            return closing, all_columns


def _columns(step: Step) -> frozenset[str]:
    return step.columns_read(pa.schema([]))


def _conjoined(tests: Iterable[Test]) -> list[Test]:
    """Filters that cannot fail and stand side by side as one: rows are moved once and not once for each."""
    joined: list[Test] = []
    for test in tests:
        last = joined[-1] if joined else None
        if _is_plain(last) and _is_plain(test) and max(last.predicate.depth, test.predicate.depth) < DEEPEST:  # type: ignore[union-attr]
            joined[-1] = Filter(conjunction([last.predicate, test.predicate]))  # type: ignore[union-attr]
        else:
            joined.append(test)
    return joined


def _is_plain(test: Test | None) -> bool:
    return isinstance(test, Filter) and not test.tolerant and not test.predicate.can_fail
