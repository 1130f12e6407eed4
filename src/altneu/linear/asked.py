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


def asked_first(logic: BoundLogic, schema: pa.Schema) -> list[Filter | Temporal]:
    """What a logic asks of rows of ``schema`` as they come in; bounds not when it delays them first."""
    tests = [part for test in Cutter.of(logic, schema).blocks[0].tests for part in parts_of(test)]
    return [t for t in tests if isinstance(t, Filter) or not logic.delay]


@dataclass(frozen=True)
class Asked:
    """A logic with one more test of what comes out.

    ``before``: the test as it is asked of the rows that come in, where that may be. ``known``: it drops nothing that
    the logic would not drop without it.
    """

    logic: BoundLogic
    before: Filter | Temporal | None
    known: bool


def ask(logic: BoundLogic, schema: pa.Schema, test: Filter | Temporal) -> Asked:
    """Put a test behind a logic over rows of ``schema``, and see how far to the front it gets."""
    cutter = Cutter.of(logic, schema)
    tests, empty = [list(b.tests) for b in cutter.blocks], cutter.empty
    before = cutter.test(test)
    known = empty or (not cutter.empty and tests == [b.tests for b in cutter.blocks])
    if logic.delay and isinstance(before, Temporal):
        before = None
    extended = logic if known else BoundLogic((*logic.steps, test), logic.delay)
    assert not isinstance(before, Test) or isinstance(before, Filter | Temporal)
    return Asked(extended, before, known)


def without_first(logic: BoundLogic, schema: pa.Schema, known: Callable[[Filter | Temporal], bool]) -> BoundLogic:
    """The logic without those of its first tests that are known to hold of all rows that come in."""
    cutter = Cutter.of(logic, schema)
    left = [t for test in cutter.blocks[0].tests for t in _left(test, known, delayed=bool(logic.delay))]
    if left == cutter.blocks[0].tests:
        return logic
    cutter.blocks[0].tests = left
    return BoundLogic(tuple(cutter.steps(schema)), logic.delay)


def _left(test: Test, known: Callable[[Filter | Temporal], bool], *, delayed: bool) -> Iterable[Test]:
    """What is left to ask of a test; a bound or predicate that can fail is known only where it was asked exactly."""
    if isinstance(test, Filter):
        return [] if known(test) else [test]
    if isinstance(test, Temporal) and not delayed:
        bounds = tuple(b for b in test.bounds if not known(replace(test, bounds=(b,))))
        return [replace(test, bounds=bounds)] if bounds else []
    return [test]
