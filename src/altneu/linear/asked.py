"""What a logic asks of the rows that come in, before anything else is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

import pyarrow as pa

from altneu.linear.blocks import Test
from altneu.linear.bound import BoundLogic
from altneu.linear.normal import Cutter
from altneu.linear.steps import Filter, Temporal


def parts_of(test: Test) -> Iterator[Filter | Temporal]:
    """Filters, and temporal filters of one bound each, that drop what a test drops; counts are no filters.

    One that can fail tolerates it: it may be asked earlier, of rows that are dropped by something else later.
    """
    if isinstance(test, Filter):
        yield replace(test, tolerant=test.predicate.can_fail)
    elif isinstance(test, Temporal):
        for bound in test.bounds:
            one = replace(test, bounds=(bound,), tolerant=False)
            yield replace(one, tolerant=one.can_fail)


@dataclass(frozen=True)
class Asked:
    """The answer for one more test of the output of a logic.

    ``before``: the test as it is asked of the rows that come in, where that may be. ``known``: it drops nothing that
    the logic would not drop without it.
    """

    before: Filter | Temporal | None
    known: bool


class Cut:
    """A logic over rows of a schema, cut into blocks once for all tests that are put behind it."""

    def __init__(self, logic: BoundLogic, schema: pa.Schema, cutter: Cutter | None = None) -> None:
        self.logic, self.schema = logic, schema
        self._cutter = Cutter.of(logic, schema) if cutter is None else cutter  # never changed: a copy is

    def asked_first(self) -> list[Filter | Temporal]:
        """What the logic asks of rows as they come in; bounds not when it delays them first."""
        tests = [part for test in self._cutter.blocks[0].tests for part in parts_of(test)]
        return [t for t in tests if isinstance(t, Filter) or not self.logic.delay]

    def ask(self, test: Filter | Temporal) -> Asked:
        """Put a test behind the logic, and see how far to the front it gets.

        Cost:   follows the test and the number of those that are there; the logic is not cut again.
        """
        own, cutter = self._cutter, self._cutter.copy()
        before = cutter.test(test)
        is_same = [b.tests for b in own.blocks] == [b.tests for b in cutter.blocks]
        known = own.empty or (not cutter.empty and is_same)
        if self.logic.delay and isinstance(before, Temporal):
            before = None
        assert not isinstance(before, Test) or isinstance(before, Filter | Temporal)
        return Asked(before, known)

    def with_test(self, test: Filter | Temporal) -> Cut:
        """The logic with one more test of its output; the same logic if the test drops nothing more."""
        if self.ask(test).known:
            return self
        cutter = self._cutter.copy()
        cutter.add(test)
        return Cut(BoundLogic((*self.logic.steps, test), self.logic.delay), self.schema, cutter)

    def without_first(self, known: Callable[[Filter | Temporal], bool]) -> BoundLogic:
        """The logic without those of its first tests that are known to hold of all rows that come in."""
        tests = self._cutter.blocks[0].tests
        left = [t for test in tests for t in _left(test, known, delayed=bool(self.logic.delay))]
        if left == tests:
            return self.logic
        cutter = self._cutter.copy()
        cutter.blocks[0].tests = left
        return BoundLogic(tuple(cutter.steps(self.schema)), self.logic.delay)


def _left(test: Test, known: Callable[[Filter | Temporal], bool], *, delayed: bool) -> Iterable[Test]:
    """What is left to ask of a test; a bound or predicate that can fail is known only where it was asked exactly."""
    if isinstance(test, Filter):
        return [] if known(test) else [test]
    if isinstance(test, Temporal) and not delayed:
        bounds = tuple(b for b in test.bounds if not known(replace(test, bounds=(b,))))
        return [replace(test, bounds=bounds)] if bounds else []
    return [test]
