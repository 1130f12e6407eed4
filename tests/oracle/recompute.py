"""The oracle: what a plan means, recomputed from scratch over multisets of Python tuples.

Nothing here knows of batches or arrangements, of time only what it is now, and nothing is shared with the kernels but
the meaning of an expression on a single row. A multiset is a ``Counter`` of rows whose counts may be negative; errors
are a set of (code, row as text).
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from functools import cache, partial
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows, record_type
from altneu.expressions import Expr
from altneu.expressions.temporal import Bound
from altneu.linear import (
    BoundLogic,
    Delay,
    Emit,
    ExplodeFunction,
    Extend,
    Filter,
    FilterFunction,
    FlatMapFunction,
    GenerateSeries,
    JoinFunction,
    MapFunction,
    Negate,
    ParseJson,
    Project,
    RepeatRow,
    Temporal,
    Unnest,
)
from altneu.linear.steps import FunctionStep
from altneu.plan import ir
from tests.oracle.sample import sample

Row = tuple[Any, ...]
Multiset = Counter[Row]
Errors = set[tuple[str, str]]
NAN = math.nan
LAST_TO_ENTER = 6  # no row enters a loop later


Sources = Mapping[str, Multiset]


def recompute(
    node: ir.Node, sources: Sources, now: int = 0, past: Callable[[int], Sources] | None = None
) -> tuple[Multiset, Errors]:
    """The contents of a collection when its sources hold these rows, and the errors of all it is computed from.

    ``now`` is what ``logical_now()`` means; ``past`` says what sources held at earlier times, for delays.
    """
    evaluation = _Evaluation(sources, now, past)
    for below in ir.walk(node):  # what only a delay reads has errors all the same
        if ir.free_level(below) is None and not isinstance(below, ir.Loop | ir.Recurrence):
            evaluation.contents(below, now)
    return evaluation.contents(node, now), evaluation.errors


class _Evaluation:
    """Collections at times, each computed once; those inside a loop once in every round."""

    def __init__(self, sources: Sources, now: int, past: Callable[[int], Sources] | None) -> None:
        self.sources, self.now, self.past = sources, now, past
        self.errors: Errors = set()
        self.muted = 0
        self.done: dict[tuple[Any, ...], Any] = {}
        self.variables: dict[int, tuple[int, list[Multiset], int]] = {}  # by level: change, values, round
        self.changes = 0

    def contents(self, node: ir.Node, time: int) -> Multiset:
        key = (id(node), time, self.muted and ir.free_level(node) is not None, *self._rounds(node))
        if key not in self.done:
            held = self.sources if time == self.now or self.past is None else self.past(time)
            actual = self.errors if time == self.now and not self.muted else set()
            self.done[key] = without_zeros(self._meaning(node, held, actual, time))
        return self.done[key]

    def _rounds(self, node: ir.Node) -> tuple[int, ...]:
        return tuple(self.variables[level][0] for level in sorted(ir._free(node)))

    def _meaning(self, node: ir.Node, held: Sources, found: Errors, time: int) -> Multiset:
        match node:
            case ir.Variable(level, index):
                return self.variables[level][1][index]
            case ir.EnterAt(below, rounds, level):
                at = self.variables[level][2]
                ask = lambda row: evaluate(rounds, row, below.schema)  # noqa: E731
                entered = {row: _tolerated(partial(ask, row), 0, True) or 0 for row in self.contents(below, time)}
                return Counter({row: n for row, n in self.contents(below, time).items() if entered[row] <= at})
            case ir.Result(loop, index):
                return self._loop(loop, time)[index]
            case ir.Recurred(recurrence, index):
                return self._recurred(recurrence, time)[index]
            case _:
                return _meaning(node, self.contents, held, found, time)

    def _recurred(self, whole: ir.Recurrence, time: int) -> list[Multiset]:
        """Time after time from the beginning."""
        key = ("recurred", id(whole), time)
        if key not in self.done:
            before = [self._recurred(whole, time - by)[i] if time >= by else Counter() for i, by in enumerate(whole.by)]
            around = self.variables.get(whole.level)
            self.changes += 1
            self.variables[whole.level] = self.changes, before, 0
            self.done[key] = [self.contents(body, time) for body in whole.bodies]
            if around is not None:
                self.variables[whole.level] = around
        return self.done[key]

    def _loop(self, loop: ir.Loop, time: int) -> list[Multiset]:
        """Round by round from the beginning; only the last one's errors are errors."""
        key = ("loop", id(loop), time, self.muted, *self._rounds(loop))
        if key not in self.done:
            around = self.variables.get(loop.level)
            numbers = range(len(loop.bodies))
            longest = max(map(loop.step, numbers))
            first = [self.contents(node, time) for node in loop.initial]
            made = [first] * longest  # by round, the first of them before there are any
            for at in range(loop.max_rounds):
                last = loop.stops and at == loop.max_rounds - 1
                now = [made[at + longest - loop.step(i)][i] for i in numbers]
                result = self._round(loop, now, time, at, muted=not last)
                made.append(result)
                if (all(one == result for one in made[at : at + longest]) and at >= LAST_TO_ENTER) or last:
                    break
            else:
                raise NoFixpoint
            self.done[key] = result if last else self._round(loop, now, time, at, muted=False)
            if around is not None:
                self.variables[loop.level] = around
        return self.done[key]

    def _round(self, loop: ir.Loop, now: list[Multiset], time: int, at: int, *, muted: bool) -> list[Multiset]:
        self.changes += 1
        self.variables[loop.level] = self.changes, now, at
        self.muted += muted
        result = [self.contents(body, time) for body in loop.bodies]
        self.muted -= muted
        return result


class NoFixpoint(Exception):  # noqa: N818
    pass


def _meaning(  # noqa: C901, PLR0911, PLR0912 -- a case for each operator
    node: ir.Node, contents: Callable[[ir.Node, int], Multiset], sources: Sources, errors: Errors, now: int
) -> Multiset:
    """What an operator outside loops makes of the contents of its inputs: the one place with a case for each."""
    match node:
        case ir.Source(name):
            errors.update(_duplicates(node, sources[name]))
            return sources[name]
        case ir.Constant(rows):
            return Counter(plain(row) for row in rows)
        case ir.Linear(below, logic):
            return _linear(node, _arrived(logic, lambda t: contents(below, t), now), errors, now)
        case ir.Concat(parts):
            return add(*(contents(part, now) for part in parts))
        case ir.Join(left, right):
            return _join(node, contents(left, now), contents(right, now))
        case ir.MultiJoin(parts):
            return _join_all(node, [contents(part, now) for part in parts])
        case ir.Reduce(below):
            return _reduce(node, contents(below, now), errors)
        case ir.Latest(below):
            return _latest(node, contents(below, now))
        case ir.AsOf(left, right) if node.locked:
            return locked(node, [(contents(left, t), contents(right, t)) for t in range(now + 1)], errors)
        case ir.UpdateTime(below):
            return update_times(node, [contents(below, t) for t in range(now + 1)], errors)
        case ir.ReduceCore(below):
            return corrected(node, [contents(below, t) for t in range(now + 1)], errors)
        case ir.AsOf(left, right):
            return _as_of(node, contents(left, now), contents(right, now), errors)
        case ir.Sample(below):
            return sample(node, contents(below, now))
        case ir.Consolidate(below) | ir.Inspect(below) | ir.ArrangedBy(below):
            return contents(below, now)
        case _:
            raise TypeError(f"no meaning for {type(node).__name__}: add a case to tests/oracle/recompute.py")


def _duplicates(source: ir.Source, rows: Multiset) -> Errors:
    """The rows of a source that share its key with another one."""
    names, groups = source.schema.names, dict[Row, list[Row]]()
    for row, n in rows.items():
        if n and source.key:
            groups.setdefault(tuple(row[names.index(k)] for k in source.key), []).append(row)
    return {("DUPLICATE_KEY", _shown(row, names)) for found in groups.values() for row in found if len(found) > 1}


# multisets and values -------------------------------------------------------------------------------------------------


def without_zeros(rows: Multiset) -> Multiset:
    return Counter({row: n for row, n in rows.items() if n})


def add(*parts: Multiset) -> Multiset:
    total: Multiset = Counter()
    for part in parts:
        for row, n in part.items():
            total[row] += n
    return total


def plain(value: Any) -> Any:
    """A value that equals its equals: one NaN, no -0.0, and lists as tuples, so that rows can be counted."""
    if isinstance(value, float):
        return NAN if math.isnan(value) else value + 0.0
    if isinstance(value, list | tuple):
        return tuple(plain(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, plain(v)) for k, v in value.items())
    return value


def rank(value: Any) -> Any:
    """What a value that is not null sorts by: NaN above every number, lists element by element with nulls first."""
    if isinstance(value, float):
        return (True, 0.0) if math.isnan(value) else (False, value)
    if isinstance(value, tuple):
        return tuple((v is not None, rank(v) if v is not None else 0) for v in value)
    return value


def in_order(rows: list[Row], columns: list[tuple[int, bool, bool]]) -> list[Row]:
    """Rows by several columns (position, descending, nulls first), the first weighing most."""
    for i, descending, nulls_first in reversed(columns):
        some = sorted((r for r in rows if r[i] is not None), key=lambda r: rank(r[i]), reverse=descending)
        none = [r for r in rows if r[i] is None]
        rows = none + some if nulls_first else some + none
    return rows


# linear ---------------------------------------------------------------------------------------------------------------


def _arrived(logic: BoundLogic, contents: Callable[[int], Multiset], now: int) -> Multiset:
    """What has come in by now: with a delay, what was there at the last time that it takes no further than now."""
    if not logic.delay:
        return contents(now)
    earlier = (t for t in range(now, -1, -1) if delayed(logic.delay, t) <= now)
    last = next(earlier, None)
    return Counter() if last is None else contents(last)


def delayed(delay: Delay, time: int) -> int:
    return int(delay.apply(np.array([max(time, 0)]))[0])


def _read(logic: BoundLogic, rows: Multiset, schema: pa.Schema) -> tuple[Multiset, pa.Schema]:
    """The columns of a source's rows that logic reads: the errors of rows show these."""
    read = [schema.get_field_index(name) for name in schema.names if name in logic.columns_read(schema)]
    narrow: Multiset = Counter()
    for row, n in rows.items():
        narrow[tuple(row[i] for i in read)] += n
    return narrow, pa.schema([schema.field(i) for i in read])


def _linear(node: ir.Linear, rows: Multiset, errors: Errors, now: int) -> Multiset:
    logic, schema = node.logic, node.input.schema
    if isinstance(node.input, ir.Source):
        rows, schema = _read(logic, rows, schema)
    failed: Counter[tuple[str, str]] = Counter()
    for step in logic.steps:
        made: Multiset = Counter()
        for row, n in without_zeros(rows).items():
            try:
                for result, m in list(_step(step, row, schema, now)):
                    made[result] += n * m
            except FailureError as failure:
                failed[failure.code, _shown(row, schema.names)] += n
        rows, schema = made, step.output(schema)
    errors.update({error: n for error, n in failed.items() if n})
    return rows


def _shown(row: Row, names: list[str]) -> str:
    shown = {n: v for n, v in zip(names, row, strict=True) if not n.startswith("#")}
    return json.dumps(shown, default=str)


class FailureError(Exception):
    def __init__(self, code: str) -> None:
        self.code = code


def _step(step: Any, row: Row, schema: pa.Schema, now: int) -> Iterator[tuple[Row, int]]:
    """What one linear step makes of one row at a time, with the factor for its count."""
    match step:
        case Filter(predicate, tolerant):
            if _tolerated(lambda: evaluate(predicate, row, schema), True, tolerant):
                yield row, 1
        case Project(outputs):
            yield tuple(evaluate(e, row, schema) for _, e in outputs), 1
        case Extend(outputs):
            yield (*row, *(evaluate(e, row, schema) for _, e in outputs)), 1
        case Temporal(bounds, delay, tolerant):
            held = [_tolerated(lambda b=b: _holds(b, delay, row, schema, now), True, tolerant) for b in bounds]
            if all(held):
                yield row, 1
        case Negate():
            yield row, -1
        case FunctionStep():
            yield from _function_step(step, row, schema, now)
        case _:
            yield from _table_step(step, row, schema, now)


def _table_step(step: Any, row: Row, schema: pa.Schema, now: int) -> Iterator[tuple[Row, int]]:
    """The same for steps that make any number of rows."""
    match step:
        case Emit(updates, delay):
            for update in updates:
                if update.when is None or evaluate(update.when, row, schema):
                    time = 0 if update.time is None else evaluate(update.time, row, schema)
                    diff = 1 if update.diff is None else evaluate(update.diff, row, schema)
                    result = tuple(evaluate(e, row, schema) for _, e in update.outputs)
                    if time is not None and diff is not None and (update.time is None or delayed(delay, time) <= now):
                        yield result, diff
        case RepeatRow(count, non_negative):
            times = evaluate(count, row, schema) or 0
            if times < 0 and non_negative:
                raise FailureError("NEGATIVE_REPEAT")
            yield row, times
        case GenerateSeries(_, start, stop, by, outer):
            series = _series(*(evaluate(e, row, schema) for e in (start, stop, by)))
            yield from (((*row, v), 1) for v in (series or (None,) * outer))
        case Unnest(value, _, ordinality, outer):
            actual = evaluate(value, row, schema)
            entries = [(x if pa.types.is_map(value.type) else (x,)) for x in actual or ()]
            for i, entry in enumerate(entries):
                yield (*row, *entry, *([i + 1] if ordinality else [])), 1
            if outer and not entries:
                yield row + (None,) * (len(step.output(schema)) - len(row)), 1
        case ParseJson(column, fields):
            yield (*row, *_json_fields(row[schema.names.index(column)], fields)), 1
        case _:
            raise TypeError(type(step).__name__)


def _series(first: int | None, last: int | None, by: int | None) -> Sequence[int]:
    if first is None or last is None or by is None:
        return ()
    if not by:
        raise FailureError("STEP_SIZE_ZERO")
    return range(first, last + (1 if by > 0 else -1), by)


def _function_step(step: Any, row: Row, schema: pa.Schema, now: int) -> Iterator[tuple[Row, int]]:
    """The same for steps that call Python functions."""
    match step:
        case FilterFunction(function):
            if _call(function.call, row, schema):
                yield row, 1
        case MapFunction(function, result) if function.batch:
            made = _call(lambda _: function.call(Rows.from_pylist([row], schema).to_batch()), row, schema)
            yield plain(tuple(made.column(name)[0].as_py() for name in result.names)), 1
        case MapFunction(function):
            yield _as_row(_call(function.call, row, schema)), 1
        case FlatMapFunction(function):
            for made in _call(lambda r: list(function.call(r)), row, schema):
                yield _as_row(made), 1
        case ExplodeFunction(function):
            for made, diff in _call(lambda r: list(function.call(r)), row, schema):
                yield _as_row(made), diff
        case JoinFunction(function, _, delay):
            for made, time, diff in _call(lambda r: list(function.call(r)), row, schema):
                if time is None or delayed(delay, time) <= now:
                    yield _as_row(made), diff
        case _:
            raise TypeError(type(step).__name__)


def _tolerated(ask: Callable[[], Any], otherwise: Any, tolerant: bool) -> Any:
    try:
        return ask()
    except FailureError:
        if not tolerant:
            raise
        return otherwise


def _holds(bound: Bound, delay: Delay, row: Row, schema: pa.Schema, now: int) -> bool:
    """A bound at a time, which is what its comparison says with the time put in."""
    if bound.unless is not None and evaluate(bound.unless, row, schema):
        return True
    value = evaluate(bound.value, row, schema)
    if value is None:
        return bound.null_open
    if bound.after:
        if value == 2**63 - 1:
            raise FailureError("TIME_OVERFLOW")
        value += 1
    if delay:
        value = delayed(delay, value)
    return now >= value if bound.kind == "lower" else now < value


def _json_fields(text: str | None, fields: tuple[Any, ...]) -> Iterator[Any]:
    """Members of a document, of types that JSON has."""
    try:
        document = None if text is None else json.loads(text)
    except ValueError as error:
        raise FailureError("INVALID_JSON") from error
    for f in fields:
        actual = document
        for name in f.path:
            actual = actual.get(name) if isinstance(actual, dict) else None
        yield plain(actual)


def _call(function: Callable[[Any], Any], row: Row, schema: pa.Schema) -> Any:
    try:
        return function(record_type(schema.names)(row))
    except Exception as error:
        raise FailureError("PYTHON_EXCEPTION") from error


def _as_row(made: Any) -> Row:
    """A tuple, a dictionary in the order of the columns, or one value for one column."""
    if isinstance(made, dict):
        return plain(tuple(made.values()))
    return plain(tuple(made)) if isinstance(made, tuple | list) else (plain(made),)


def _unplain(value: Any, kind: pa.DataType) -> Any:
    """A value as Arrow reads it: structs by their fields."""
    if value is None or not (pa.types.is_struct(kind) or pa.types.is_list(kind)):
        return value
    if pa.types.is_list(kind):
        return [_unplain(v, kind.value_type) for v in value]
    return {name: _unplain(v, kind.field(name).type) for name, v in value}


@cache
def evaluate(expression: Expr, row: Row, schema: pa.Schema) -> Any:
    """One expression on one row, by itself."""
    given = tuple(_unplain(value, field.type) for value, field in zip(row, schema, strict=True))
    result = expression.evaluate(Rows.from_pylist([given], schema))
    if result.failed is not None and result.failed[0]:
        raise FailureError(result.error(0)[0])
    return plain(result.values[0].as_py())


# join -----------------------------------------------------------------------------------------------------------------


def _join(node: ir.Join, left: Multiset, right: Multiset) -> Multiset:
    sides = (node.left.schema.names, node.right.schema.names)
    left_key, right_key = (
        [names.index(k) for k in key] for names, key in zip(sides, (node.left_key, node.right_key), strict=True)
    )
    picks = [(side, sides[side].index(column)) for _, side, column in node.outputs]
    result: Multiset = Counter()
    for mine, n in left.items():
        key = [mine[i] for i in left_key]
        for theirs, m in right.items():
            if (node.nulls_equal or None not in key) and key == [theirs[i] for i in right_key]:
                result[tuple((mine, theirs)[side][i] for side, i in picks)] += n * m
    return result


def _join_all(node: ir.MultiJoin, parts: list[Multiset]) -> Multiset:
    """Every choice of one row of each part in which what has one name is equal, and not null if it has it twice."""
    names = Counter(v for part in node.variables for v in part)
    actual: list[tuple[dict[str, Any], int]] = [({}, 1)]
    for variables, rows in zip(node.variables, parts, strict=True):
        longer = []
        for bound, n in actual:
            for row, m in rows.items():
                here = dict(zip(variables, row, strict=True))
                nulls = any(value is None and names[v] > 1 for v, value in here.items())
                if not nulls and all(bound.get(v, value) == value for v, value in here.items()):
                    longer.append((bound | here, n * m))
        actual = longer
    result: Multiset = Counter()
    for bound, n in actual:
        result[tuple(bound[v] for _, v in node.outputs)] += n
    return result


# as-of joins ----------------------------------------------------------------------------------------------------------


def _as_of(node: ir.AsOf, left: Multiset, right: Multiset, errors: Errors) -> Multiset:
    """Each left row with the one right row that is nearest."""
    errors |= {("NEGATIVE_MULTIPLICITY", _shown(row, node.right.schema.names)) for row, n in right.items() if n < 0}
    result: Multiset = Counter()
    for row, n in left.items():
        for met, m in _met(node, row, right).items():
            result[_pair(node, row, met)] += n * m
    return result


def _met(node: ir.AsOf, row: Row, right: Multiset) -> Multiset:
    """What a left row meets, None standing for nothing."""
    mine, theirs = node.left.schema.names, node.right.schema.names
    key = [row[mine.index(k)] for k in node.left_key]
    actual = Counter({r: n for r, n in right.items() if key == [r[theirs.index(k)] for k in node.right_key]})
    if node.rule is not None:
        assert node.stamps is not None
        at, of = row[mine.index(node.stamps[0])], theirs.index(node.stamps[1])
        best = [r for r, n in actual.items() if n > 0 and _may_meet(node.rule, at, r[of])]
        # the nearest, the earlier of two at one distance, and of one timestamp the last by ties, then the greatest
        nearest = min(((abs(at - r[of]), r[of]) for r in best), default=None)
        tied = in_order([r for r in best if r[of] == nearest[1]], _tied(node.rule, theirs)) if best else []
        actual = Counter(tied[-1:])
    return actual or Counter([None] if node.keeps else [])


def _tied(rule: ir.AsOfRule, names: list[str]) -> list[tuple[int, bool, bool]]:
    given = [(names.index(c), descending, first) for c, descending, first in rule.ties]
    return [*given, *((i, False, True) for i in range(len(names)) if i not in {g[0] for g in given})]


def _may_meet(rule: ir.AsOfRule, at: Any, other: Any) -> bool:
    if other == at and not rule.exact:
        return False
    if (rule.direction == "backward" and other > at) or (rule.direction == "forward" and other < at):
        return False
    return rule.tolerance is None or abs(at - other) <= rule.tolerance


def _pair(node: ir.AsOf, row: Row, met: Row | None) -> Row:
    mine, theirs = node.left.schema.names, node.right.schema.names
    return tuple(
        row[mine.index(c)] if side == 0 else None if met is None else met[theirs.index(c)]
        for _, side, c in node.outputs
    )


def locked(node: ir.AsOf, history: list[tuple[Multiset, Multiset]], errors: Errors) -> Multiset:
    """What each copy of a left row met when it came: a queue for every row, and how often it is owed."""
    copies: dict[Row, list[Multiset]] = {}
    owed: Multiset = Counter()
    before: tuple[Multiset, Multiset] = (Counter(), Counter())
    for left, right in history:
        for row in left.keys() | before[0].keys():
            diff, queue = left[row] - before[0][row], copies.setdefault(row, [])
            for _ in range(diff):
                if owed[row]:
                    owed[row] -= 1
                else:
                    queue.append(_met(node, row, right if node.simultaneous else before[1]))
            for _ in range(-diff):
                if queue:
                    queue.pop(0)
                else:
                    owed[row] += 1
        before = left, right
    errors |= {("NEGATIVE_MULTIPLICITY", _shown(row, node.left.schema.names)) for row, n in owed.items() if n}
    result: Multiset = Counter()
    for row, queue in copies.items():
        for found in queue:
            for met, n in found.items():
                result[_pair(node, row, met)] += n
    return result


def update_times(node: ir.UpdateTime, history: list[Multiset], errors: Errors) -> Multiset:
    """When each copy of a row came: a queue for every row, and how often it is owed."""
    copies: dict[Row, list[int]] = {}
    owed: Multiset = Counter()
    before: Multiset = Counter()
    for time, rows in enumerate(history):
        for row in rows.keys() | before.keys():
            diff, queue = rows[row] - before[row], copies.setdefault(row, [])
            paid = min(max(diff, 0), owed[row])
            queue += [time] * (max(diff, 0) - paid)
            taken = min(max(-diff, 0), len(queue))
            del queue[:taken]
            owed[row] += max(-diff, 0) - taken - paid
        before = rows
    errors |= {("NEGATIVE_MULTIPLICITY", _shown(row, node.input.schema.names)) for row, n in owed.items() if n}
    return Counter((*row, time) for row, queue in copies.items() for time in queue)


class _Group:
    """A group as ``reduce_core`` shows it: all of it in memory."""

    def __init__(
        self, rows: list[tuple[Any, int]], names: list[str], order: Any, output: list[tuple[Any, int]]
    ) -> None:
        self.members, self.names, self.order, self.output = rows, names, order, output

    def __iter__(self) -> Iterator[tuple[Any, int]]:
        return iter(self.members)

    def rows(self, start: Any, stop: Any) -> Iterator[tuple[Any, int]]:
        ((name, descending, nulls_first),) = self.order
        sign = -1 if descending else 1
        for row, n in self.members:
            value = row[name]
            assert not nulls_first
            if value is not None and sign * start <= sign * value < sign * stop:
                yield row, n

    def count(self, row: Any) -> int:
        wanted = tuple(row[name] for name in self.names)
        return sum(n for one, n in self.members if tuple(one) == wanted)


def corrected(node: ir.ReduceCore, history: list[Multiset], errors: Errors) -> Multiset:
    """What a function adds up to that sees its own output: one time after the other, group by group."""
    names = node.input.schema.names
    rest = [n for n in names if n not in node.key]
    record, result = record_type(rest), record_type(node.result.names)
    outputs: dict[Row, Multiset] = {}
    failures: dict[Row, str] = {}
    before: Multiset = Counter()
    columns = [(rest.index(c), d, f) for c, d, f in node.order] + [(i, False, True) for i in range(len(rest))]
    for rows in history:
        changed = {row: rows[row] - before[row] for row in rows.keys() | before.keys() if rows[row] != before[row]}
        for key in {tuple(row[names.index(k)] for k in node.key) for row in changed}:
            of_key = lambda some: {  # noqa: E731
                tuple(row[names.index(n)] for n in rest): c
                for row, c in some.items()
                if c and tuple(row[names.index(k)] for k in node.key) == key  # noqa: B023
            }
            group, output = of_key(rows), outputs.pop(key, Counter())
            members = [(record(row), group[row]) for row in in_order(list(group), columns)]
            changes = members if key in failures else [(record(row), n) for row, n in of_key(changed).items()]
            failures.pop(key, None)
            if not group:
                continue
            given = _Group(members, rest, node.order, [(result(row), n) for row, n in output.items()])
            try:
                pairs = list(node.function.call(record_type(node.key)(key), changes, given))
            except ValueError:
                failures[key] = "PYTHON_EXCEPTION"
                continue
            as_rows = [
                (tuple(row[n] for n in node.result.names) if isinstance(row, dict) else row, n) for row, n in pairs
            ]
            outputs[key] = without_zeros(add(output, *(Counter({tuple(map(plain, row)): n}) for row, n in as_rows)))
        before = rows
    shown = lambda key: ", ".join(f"{k}={'null' if v is None else v}" for k, v in zip(node.key, key, strict=True))  # noqa: E731
    errors |= {(code, shown(key) or "all rows") for key, code in failures.items()}
    return add(*(Counter({(*key, *row): n for row, n in output.items()}) for key, output in outputs.items()))


# latest ---------------------------------------------------------------------------------------------------------------


def _latest(node: ir.Latest, rows: Multiset) -> Multiset:
    """The greatest row of each key, of those that are there."""
    names = node.schema.names
    columns = [(names.index(c), False, True) for c in (*node.order, *names)]
    there = in_order([row for row, n in rows.items() if n > 0], columns)
    return Counter({tuple(row[names.index(k)] for k in node.key): row for row in there}.values())


# reduce ---------------------------------------------------------------------------------------------------------------


def _reduce(node: ir.Reduce, rows: Multiset, errors: Errors) -> Multiset:
    names = node.input.schema.names
    at = [names.index(k) for k in node.key]
    groups: dict[Row, Multiset] = {}
    for row, n in rows.items():
        groups.setdefault(tuple(row[i] for i in at), Counter())[row] += n
    result: Multiset = Counter()
    for key, group in groups.items():
        try:
            result.update(_group(node, key, group, names))
        except FailureError as failure:
            shown = [f"{n}={'null' if v is None else v}" for n, v in zip(node.key, key, strict=True)]
            errors.add((failure.code, ", ".join(shown) or "all rows"))
        if getattr(node.reducer, "default_row", False) and _is_shown(node, group):
            result[tuple(_of_nothing(call) for call in node.reducer.calls)] -= 1
    return result


def _group(node: ir.Reduce, key: Row, group: Multiset, names: list[str]) -> Multiset:
    """What a reducer makes of one group that is not empty."""
    match node.reducer:
        case ir.Distinct():
            return Counter(_not_negative(group).keys())
        case ir.CountOf():
            return Counter({(*row, n): 1 for row, n in group.items()})
        case ir.Threshold(function, with_row):
            given = (partial(function.call, record_type(names)(row)) if with_row else function.call for row in group)
            return Counter({row: int(_ask(call, n)) for call, (row, n) in zip(given, group.items(), strict=True)})
        case ir.TopK(k, order):
            columns = [(names.index(c), descending, nulls_first) for c, descending, nulls_first in order]
            columns += [(i, False, True) for i in range(len(names))]
            ranked = in_order(list(_not_negative(group)), columns)
            return Counter(list(chain.from_iterable([row] * group[row] for row in ranked))[:k])
        case ir.WindowFunctions(calls, _, first):
            from tests.oracle.windows import with_windows

            return with_windows(calls, _not_negative(group), node.input.schema, first)
        case ir.Totals(calls):
            totals = [
                _total([(row[names.index(call.arguments[0])], n) for row, n in group.items()], call.type)
                for call in calls
            ]
            return Counter([(*key, *totals)]) if any(total != 0 for total in totals) else Counter()
        case ir.PythonReduce(function, _, with_diffs, needs, signed):
            rest = [i for i, n in enumerate(names) if n not in node.key]
            values: Multiset = Counter()
            for row, n in group.items():
                values[tuple(row[i] for i in rest)] += n
            columns = [(i, False, True) for i in range(len(rest))]
            if needs is not None:
                by = [(rest.index(names.index(c)), d, f) for c, d, f in needs.order]
                ranked = in_order(list(_not_negative(values)), [*by, *columns])
                values = Counter(list(chain.from_iterable([row] * values[row] for row in ranked))[: needs.k])
            ranked = in_order([v for v, n in values.items() if n] if signed else list(_not_negative(values)), columns)
            record = record_type([names[i] for i in rest])
            result = _ask(lambda rows: list(function.call(key, rows)), [(record(row), values[row]) for row in ranked])
            pairs = result if with_diffs else [(row, 1) for row in result]
            return add(*(Counter({(*key, *_as_row(row)): n}) for row, n in pairs))
        case ir.Aggregates(calls):
            if _negative(node, group, names):
                raise FailureError("NEGATIVE_MULTIPLICITY")
            if not group.total():
                return Counter()
            read = _read_of(node.reducer, group, names)
            return Counter([(*key, *(aggregated(c, read[i], names, node.input.schema) for i, c in enumerate(calls)))])


def _ask(function: Callable[[Any], Any], argument: Any) -> Any:
    try:
        return function(argument)
    except Exception as error:
        raise FailureError("PYTHON_EXCEPTION") from error


def _not_negative(group: Multiset) -> Multiset:
    if any(n < 0 for n in group.values()):
        raise FailureError("NEGATIVE_MULTIPLICITY")
    return group


def _is_shown(node: ir.Reduce, group: Multiset) -> bool:
    """Whether a group has a row or an error: only an empty one has neither."""
    return bool(group.total()) or _negative(node, group, node.input.schema.names)


def _negative(node: ir.Reduce, group: Multiset, names: list[str]) -> bool:
    """Whether what is kept of a group shows a negative count: its rows, or only what was added up of each column."""
    match node.reducer:
        case ir.Aggregates(calls) as reducer if reducer.accumulable:
            return _negative_sums(calls, group, names)
        case ir.Aggregates(calls) as reducer if reducer.parts:
            return any(
                _negative_sums([calls[i] for i in part.places], group, names)
                if part.state == "sums"
                else any(n < 0 for c in part.columns for n in _of_columns(group, [names.index(c)]).values())
                for part in reducer.parts
            )
    return any(n < 0 for n in group.values())


def _read_of(reducer: ir.Aggregates, group: Multiset, names: list[str]) -> dict[int, Multiset]:
    """The rows that each aggregate sees: one that has a state of its own, as if there were no columns but its own."""
    if not reducer.parts:
        return dict.fromkeys(range(len(reducer.calls)), group)
    return {i: _of_columns(group, [names.index(a) for a in call.arguments]) for i, call in enumerate(reducer.calls)}


def _of_columns(group: Multiset, places: list[int]) -> Multiset:
    """Rows as often as others with the same values at some places are there, with one of these for all."""
    one: dict[Row, Row] = {}
    counts: Multiset = Counter()
    for row, n in group.items():
        counts[one.setdefault(tuple(row[at] for at in places), row)] += n
    return Counter({row: n for row, n in counts.items() if n})


def _negative_sums(calls: Sequence[ir.Aggregate], group: Multiset, names: list[str]) -> bool:
    if group.total() < 0:
        return True
    for name in {a for call in calls for a in call.arguments}:
        plain = ("count", "bit_and", "bit_or", "bit_xor")
        summed = any(call.function not in plain and name in call.arguments for call in calls)
        kinds: Counter[str] = Counter({"finite": 0})
        total = Fraction(0)
        for row, n in group.items():
            value = row[names.index(name)]
            special = value is None or (summed and isinstance(value, float) and not math.isfinite(value))
            kinds[repr(value) if special else "finite"] += n
            if summed and not special:
                total += Fraction(value) * n
        if min(kinds.values()) < 0 or (kinds["finite"] == 0 and total != 0):
            return True
    return False


def aggregated(call: ir.Aggregate, group: Multiset, names: list[str], schema: pa.Schema) -> Any:
    """An SQL aggregate over the rows on which none of its arguments is null."""
    from tests.oracle.aggregates import further, listed

    at = [names.index(a) for a in call.arguments]
    picked = [(tuple(row[i] for i in at), n) for row, n in group.items()]
    if call.function == "collect_list" and call.options:
        return listed(call, add(*(Counter({v: n}) for v, n in picked)))
    values = add(*(Counter({v: n}) for v, n in picked if None not in v))
    if call.distinct:
        values = Counter(dict.fromkeys(values, 1))
    if call.function == "count":
        return values.total()
    ones = Counter({v[0]: n for v, n in values.items()}) if len(at) == 1 else Counter()
    ranked = sorted(ones, key=rank)
    match call.function:
        case "collect_list":
            return tuple(chain.from_iterable([v] * ones[v] for v in ranked))
        case "collect_set":
            return tuple(ranked)
        case "min" | "max":
            return (ranked[0] if call.function == "min" else ranked[-1]) if ranked else None
        case "sum" | "avg":
            return _sum(call, ones, schema.field(call.arguments[0]).type) if ones.total() else None
        case "try_sum" | "try_avg":
            try:
                return _sum(call, ones, schema.field(call.arguments[0]).type) if ones.total() else None
            except FailureError:
                return None
        case _:
            return further(call, values)


def _sum(call: ir.Aggregate, values: Counter[Any], kind: pa.DataType) -> Any:
    """The exact sum, rounded once; averages of doubles and integers divide the rounded sum."""
    summed = call.function in ("sum", "try_sum")
    count = values.total()
    odd = {v for v in values if isinstance(v, float) and not math.isfinite(v)}
    if odd:
        return odd.pop() if len(odd) == 1 else NAN
    exact = sum((Fraction(v) * n for v, n in values.items()), Fraction(0))
    if pa.types.is_decimal(kind):
        if abs(exact) >= 10 ** (min(kind.precision + 10, 38) - kind.scale):
            raise FailureError("ARITHMETIC_OVERFLOW")
        with localcontext(prec=200):
            number = Decimal(exact.numerator) / Decimal(exact.denominator)
            return number if summed else (number / count).quantize(Decimal(1).scaleb(-call.type.scale), ROUND_HALF_UP)
    if pa.types.is_integer(kind) and summed:
        if not -(2**63) <= exact < 2**63:
            raise FailureError("ARITHMETIC_OVERFLOW")
        return int(exact)
    return as_double(exact) if summed else as_double(exact) / count


def _total(values: list[tuple[Any, int]], kind: pa.DataType) -> Any:
    """The sum of values of any sign: of those that are not finite, one that is taken away is its negative."""
    finite, odd = Fraction(0), set()
    counts: Counter[Any] = Counter()
    for value, n in values:
        if value is not None:
            counts[value] += n
    for value, n in counts.items():
        if isinstance(value, float) and not math.isfinite(value):
            odd |= {NAN if math.isnan(value) else value * n} if n else set()
        else:
            finite += Fraction(value) * n
    if odd:
        return odd.pop() if len(odd) == 1 else NAN
    if pa.types.is_floating(kind):
        return as_double(finite)
    if pa.types.is_decimal(kind):
        if abs(finite) >= 10 ** (38 - kind.scale):
            raise FailureError("ARITHMETIC_OVERFLOW")
        with localcontext(prec=200):
            return Decimal(finite.numerator) / Decimal(finite.denominator)
    if not -(2**63) <= finite < 2**63:
        raise FailureError("ARITHMETIC_OVERFLOW")
    return int(finite)


def as_double(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)


def _of_nothing(call: ir.Aggregate) -> Any:
    return 0 if call.function == "count" else () if call.function.startswith("collect") else None
