"""What a logic asks of the rows that come in, before anything else is done with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from altneu import types as T
from altneu.expressions import Call, Column, Expr, call, conjuncts, literal, parts_of
from altneu.expressions.construct import decided
from altneu.expressions.failing import never_fails
from altneu.linear.blocks import Test
from altneu.linear.bound import BoundLogic
from altneu.linear.normal import Cutter
from altneu.linear.steps import Extend, Filter, Project, RowStep, Step, Temporal, Unnest


def single_tests(test: Test) -> Iterator[Filter | Temporal]:
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
        tests = [part for test in self._cutter.blocks[0].tests for part in single_tests(test)]
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


MOST_LOOKS = 16  # as many rows are made of one row, where Spark adds up for grouping sets
_LARGEST = 64  # parts of an expression over the input's columns; substitution multiplies them


def required_of(logic: BoundLogic, schema: pa.Schema, now: int | None = None) -> tuple[Expr, ...]:
    """Tests that an incoming row must pass for the logic to make anything of it, be it a row or an error.

    None of them can fail, so a test that is evaluated after something that may fail is not among them. With ``now``,
    the time of all rows, there is also a test for rows that have ended by then.

    Shape:  expressions over columns of ``schema``; fewer tests would only mean that more rows are read.
    Cost:   follows the logic; an expression of more than 64 parts is not put together.
    Law:    the logic makes of the rows that pass what it makes of all (tests/laws/test_logic.py).

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> schema = T.parse_schema("a int, b int")
    >>> logic = BoundLogic(
    ...     (Filter(parse("a > 0 and 1 div b = 1 and b < 5", schema)), Filter(parse("a < 9", schema)))
    ... )
    >>> required_of(logic, schema)
    (<(a > 0) OR (a IS NULL): boolean>,)
    """
    if logic.delay:
        return ()  # which may fail for any row
    found: list[Expr] = []
    columns: dict[str, Expr] = {f.name: Column(f.name, f.type, f.nullable) for f in schema}
    for step in logic.steps:
        if isinstance(step, Filter):
            tests = list(_certain(step.predicate))
        elif isinstance(step, Temporal):
            tests = list(_unexpired(step, now))
        else:
            tests = []
        found += [e for test in tests if (e := _over(columns, test)) is not None]
        if _may_fail(step):
            break
        if isinstance(step, Extend | Project):
            made = {n: e for n, expr in step.outputs if (e := _over(columns, expr)) is not None}
            columns = {**columns, **made} if isinstance(step, Extend) else made
        elif not isinstance(step, RowStep):
            break
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class Look:
    """A filter and a projection: the tests that a row must pass, and the columns that are made of it."""

    tests: tuple[Expr, ...]
    columns: Mapping[str, Expr]


def looks_of(logic: BoundLogic, before: Iterable[Look]) -> tuple[Look, ...] | None:
    """Logic as filters and projections, each of which makes at most one row of a row; they follow those before it.

    A row is an error if any of these expressions fails. Elements of an array of constants, as grouping sets are
    numbered by, are a look each. None for logic that does more than this, or is too large.

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> rows = (all_columns(T.parse_schema("a int, b int")),)
    >>> numbers = Unnest(parse("array(0, 1)", T.parse_schema("a int")), ("i",))
    >>> either = Project((("c", parse("CASE WHEN i = 0 THEN a END", T.parse_schema("a int, i int"))),))
    >>> for look in looks_of(BoundLogic((numbers, either)), rows):
    ...     print(look.columns)
    {'c': <a: int>}
    {'c': <CAST(NULL AS int): int>}
    """
    looks = [*before]
    for step in logic.steps:
        found = [new for look in looks for new in _behind(look, step)]
        if None in found or len(found) > MOST_LOOKS:
            return None
        looks = [look for look in found if look is not None]
    return None if logic.delay else tuple(looks)


def all_columns(schema: pa.Schema) -> Look:
    """The look that takes rows as they are."""
    return Look((), {f.name: Column(f.name, f.type, f.nullable) for f in schema})


def in_one_look(logic: BoundLogic, schema: pa.Schema) -> tuple[tuple[Expr, ...], Mapping[str, Expr]] | None:
    """Logic as one filter and one projection; None for logic that is more.

    >>> from altneu.expressions import parse
    >>> from altneu import types as T
    >>> schema = T.parse_schema("a int, b int")
    >>> doubled = Project((("c", parse("a + a", schema)),))
    >>> logic = BoundLogic((doubled, Filter(parse("c > 2", T.parse_schema("c int")))))
    >>> in_one_look(logic, schema)
    ((<(a + a) > 2: boolean>,), {'c': <a + a: int>})
    """
    looks = looks_of(logic, (all_columns(schema),))
    return (looks[0].tests, looks[0].columns) if looks is not None and len(looks) == 1 else None


def _behind(look: Look, step: Step) -> Iterator[Look | None]:
    """A look followed by a step; None where it is more."""
    made = [decided(expr) for e in step.expressions if (expr := _over(look.columns, e)) is not None]
    if len(made) < len(step.expressions):
        yield None
    elif isinstance(step, Unnest):
        yield from _elements(look, step, made[0])
    elif any(e.can_grow for e in made):
        yield None
    elif isinstance(step, Filter) and not step.tolerant:
        yield replace(look, tests=(*look.tests, *made))
    elif isinstance(step, Extend | Project):
        new = dict(zip((name for name, _ in step.outputs), made, strict=True))
        yield replace(look, columns={**look.columns, **new} if isinstance(step, Extend) else new)
    else:
        yield None


def _elements(look: Look, step: Unnest, array: Expr) -> Iterator[Look | None]:
    """A look for each element, where these are constants."""
    elements = array.args if isinstance(array, Call) and array.name == "array" else ()
    if not elements or not all(e.is_literal for e in elements) or step.ordinality:
        yield None
    else:
        yield from (replace(look, columns={**look.columns, step.names[0]: element}) for element in elements)


def _certain(predicate: Expr) -> Iterator[Expr]:
    """The parts of a predicate that cannot fail and are true wherever the predicate is true or fails.

    The right side of an AND is evaluated, and may fail, where the left side is true or null.
    """
    is_sure = never_fails(predicate)
    for part in conjuncts(predicate):
        if not never_fails(part):
            return
        yield part if is_sure else _or_null(part)


def _may_fail(step: Step) -> bool:
    """Whether a row may become an error, be it because a value grows too large for a column."""
    if any(e.can_grow for e in step.expressions):
        return True
    if isinstance(step, Filter | Extend | Project):
        return not (isinstance(step, Filter) and step.tolerant) and not all(map(never_fails, step.expressions))
    return step.can_fail


def _or_null(test: Expr) -> Expr:
    """True where a test is, and wherever it may be null: where a column is, which readers of files can tell."""
    for column in [part for part in parts_of(test) if part.is_column and part.nullable]:
        test = call("or", [test, call("isnull", [column])])
    return test


def _unexpired(step: Temporal, now: int | None) -> Iterator[Expr]:
    """What is true of every row that exists at a time or later, or on which a bound fails.

    Lower bounds are asked first; then upper ones, until one ends the row at once. A null bound ends it too, but not
    the asking.
    """
    lower, upper = ([b for b in step.bounds if b.kind == kind] for kind in ("lower", "upper"))
    if now is None or step.delay or any(b.can_fail for b in lower):
        return
    for bound in upper:
        if not all(map(never_fails, bound.expressions)):
            return
        test = call(">=" if bound.after else ">", [bound.value, literal(now, T.LONG)])
        if bound.value.nullable and (bound.null_open or any(b.can_fail for b in upper if b is not bound)):
            test = call("or", [test, call("isnull", [bound.value])])
        yield test if bound.unless is None else call("or", [bound.unless, test])
        if bound.can_fail:
            return


def _over(columns: Mapping[str, Expr], expr: Expr) -> Expr | None:
    """An expression with columns replaced by what they are; None if one is not known, or the whole is too large."""
    if not expr.columns <= columns.keys():
        return None
    whole = expr.substitute(columns)
    return whole if _is_small(whole) else None


def _is_small(expr: Expr) -> bool:
    """Whether an expression has few parts; those that are the same object count each time."""
    left, count = [expr], 0
    while left and count <= _LARGEST:
        part, count = left.pop(), count + 1
        left += part.args if isinstance(part, Call) else ()
    return count <= _LARGEST
