"""The linear verbs, written once: on a ``Logic`` they compose, on a collection they apply.

A verb records an operation and its arguments; they are checked when the verb is bound to a schema.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Collection as Several
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeAlias

import pyarrow as pa

from altneu import types as T
from altneu.collections.grouping import check_names, user_schema
from altneu.collections.sources import to_table
from altneu.columnar.rows import Rows
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UnknownColumnError
from altneu.expressions import (
    Bound,
    Col,
    Expr,
    cast,
    literal,
    parse,
    parse_projection,
    split_temporal,
)
from altneu.expressions.limits import MOST_ELEMENTS
from altneu.expressions.names import UPDATE_TIME
from altneu.expressions.parse import tree_of
from altneu.linear import (
    NO_DELAY,
    BoundLogic,
    Delay,
    DelayBoth,
    DelayFunction,
    Emit,
    ExplodeFunction,
    Filter,
    FilterFunction,
    FlatMapFunction,
    Function,
    GenerateSeries,
    JoinFunction,
    MapFunction,
    Negate,
    ParseJson,
    Project,
    RepeatRow,
    Step,
    Temporal,
    Unnest,
    Update,
)
from altneu.operators.json.text import Unit, json_fields
from altneu.operators.linear.logic import run_logic
from altneu.operators.linear.series import series
from altneu.runtime.inputs import conform
from altneu.trace.update import Updates
from altneu.types import quote_name, type_name

Text: TypeAlias = str | Col
Number: TypeAlias = str | Col | int
Version: TypeAlias = str | int | None
Later: TypeAlias = int | Callable[[int], int]
At: TypeAlias = int | tuple[int, int]
Triple: TypeAlias = tuple[Mapping[str, Text], Number | tuple[Number | None, Number | None] | None, Number]


@dataclass(frozen=True)
class Verb:
    """One verb with its arguments; ``bind`` checks them against a schema. Equality is that of name and arguments."""

    name: str
    arguments: tuple[Any, ...]
    bind: Callable[[pa.Schema], BoundLogic] = field(compare=False, repr=False)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(_shown, self.arguments))})"


class LinearVerbs(ABC):
    """Operations that apply to each update by itself: none of them needs an exchange or keeps state."""

    @abstractmethod
    def _then(self, verb: Verb) -> Self:
        """Append a verb."""

    def select(self, *columns: Text, **named: Text) -> Self:
        """Compute the columns of a new collection.

        Positional arguments are column names, ``"*"``, or expressions with an alias (``"price * qty as total"``). A
        keyword argument names its column (``total="price * qty"``).

        Shape:  as many rows as before.
        Cost:   linear: no exchange, no state.

        Raises:
            UnknownColumnError: a name is not a column.
            SchemaError: two output columns have the same name.
        """
        if not columns and not named:
            raise SchemaError("select needs at least one column")

        def bind(schema: pa.Schema) -> BoundLogic:
            outputs: list[tuple[str, Expr]] = []
            for column in columns:
                if isinstance(column, str) and column.strip() == "*":
                    outputs += [(n, column_of(n, schema)) for n in _own(schema)]
                else:
                    outputs.append(parse_projection(column, schema))
            outputs += [(name, parse(text, schema)) for name, text in named.items()]
            check_names([n for n, _ in outputs])
            return _logic(Project(tuple(outputs)))

        arguments = (*map(_text, columns), *((n, _text(t)) for n, t in named.items()))
        return self._then(Verb("select", arguments, bind))

    def filter(self, predicate: Text | Callable[..., Any], *, version: Version = None) -> Self:
        """Keep the rows for which the predicate is true; rows for which it is false or null are dropped.

        ``logical_now()`` in an expression is the session's time in ticks. Comparisons of it with expressions of the
        row, joined by AND (``"v > 0 and logical_now() >= start and logical_now() < stop"``), bound the times at which a
        row exists: rows appear and disappear by themselves as time advances. Such a comparison may also be joined by
        OR with conditions of the row: ``"logical_now() < stop or stop is null"``.

        The predicate may also be a Python function of a row; ``version`` is as in ``map``.

        Cost:   linear: no exchange, no state; future updates wait, in order of time, in the operator that needs them.

        Raises:
            TypeMismatchError: the predicate is not boolean.
            TemporalPredicateError: ``logical_now()`` is used other than as a bound.
        """
        if callable(predicate) and not isinstance(predicate, Col):
            function = Function.of(predicate, version)
            return self._then(Verb("filter", (function,), lambda _: _logic(FilterFunction(function))))

        _refuse_version("filter", version)

        def bind(schema: pa.Schema) -> BoundLogic:
            parts = split_temporal(predicate, schema)
            steps: list[Step] = [Filter(p) for p in parts.row]
            return _logic(*steps, *([Temporal(parts.bounds)] if parts.bounds else []))

        return self._then(Verb("filter", (_text(predicate),), bind))

    def map(self, function: Callable[..., Any], schema: str | pa.Schema, *, version: Version = None) -> Self:
        """Replace each row by the result of a Python function: a tuple, a dict, or one value for a single column.

        A row is a tuple whose values can also be read by name: ``row.price``, ``row["price"]``, ``row.asdict()``. The
        function must be pure: a retraction calls it again. A row on which it raises becomes an error row.

        A stored view is found again only if its functions are the same. By default, altneu compares their code and,
        as far as it can follow them, the values and functions that the code reads (docs/python_functions.md). If
        ``version``, a string or a number, is given, it compares the function's name and version instead.

        Cost:   linear: no exchange, no state.

        Raises:
            PlanError: the version is neither a string nor a number, or there is none and the function reads too much
                to be compared.
        """
        return self._calling("map", MapFunction, function, schema, version)

    def flat_map(self, function: Callable[..., Any], schema: str | pa.Schema, *, version: Version = None) -> Self:
        """Replace each row by the rows that a Python function yields for it; ``version`` is as in ``map``.

        Cost:   linear: no exchange, no state.
        """
        return self._calling("flat_map", FlatMapFunction, function, schema, version)

    def explode(
        self,
        what: Text | Callable[..., Any],
        schema: str | pa.Schema | None = None,
        *,
        as_: str | Sequence[str] = "col",
        outer: bool = False,
        version: Version = None,
    ) -> Self:
        """Replace each row by the ``(row, diff)`` pairs that a Python function yields for it.

        With an expression of an array or a map instead of a function it is Spark's explode: see ``unnest``.
        ``version`` is as in ``map``.

        Shape:  counts are multiplied by the diffs, which may be negative.
        Cost:   linear: no exchange, no state; a row is one update, however large its diff.

        Raises:
            PlanError: a function is given without a schema.
        """
        if not callable(what) or isinstance(what, Col):
            _refuse_version("explode", version)
            return self.unnest(what, as_=as_, outer=outer)
        return self._calling("explode", ExplodeFunction, what, schema, version)

    def join_function(
        self,
        function: Callable[..., Any] | Sequence[Triple] | Logic,
        schema: str | pa.Schema | None = None,
        *,
        version: Version = None,
    ) -> Self:
        """Replace each row by ``(row, time, diff)`` triples: the most general linear operator.

        ``function`` maps a row to triples. The result is the equijoin with the collection of all pairs of a row and a
        triple, which is never built: times are joined and diffs multiplied. Instead of a Python function it may be a
        list of triples ``({column: expression}, time, diff)``, in which times and diffs are expressions too, or a
        ``Logic``. The time None means the first time. Where the expression of a time or a diff is null, the triple is
        left out. ``version`` of a Python function is as in ``map``.

        With two times (``an.source(..., time=("system", "event"))``) a time may be a pair, of the time and the event
        time, with which both are joined; a time that is not a pair leaves the event time as it is. A function of
        batches may then return event times too, after the diffs.

        >>> import altneu as an
        >>> x = an.source("x", "x long")
        >>> copies = x.join_function(lambda r: [(2 * r.x, 3 * r.x, r.x), (2 * r.x, 4 * r.x, -r.x)], "y long")
        >>> same = x.join_function([({"y": "2 * x"}, "3 * x", "x"), ({"y": "2 * x"}, "4 * x", "-x")])
        >>> with an.Session() as session:  # x copies of 2x, from time 3x until 4x, for x from 0 to 9
        ...     views = session.maintain("copies", copies.count()), session.maintain("same", same.count())
        ...     session.insert("x", range(10))
        ...     for now in (8, 9, 12, 15):
        ...         _ = session.advance(to=now + 1)
        ...         print(now, *(sorted(view.to_pylist()) for view in views))
        8 [] []
        9 [(6, 3)] [(6, 3)]
        12 [(8, 4)] [(8, 4)]
        15 [(8, 4), (10, 5)] [(8, 4), (10, 5)]

        Cost:   linear: no exchange, no state; future updates wait in the operator that needs them.
        Source: McSherry, "Generalizing linear operators", 2021.

        Raises:
            PlanError: a function is given without a schema.
            SchemaError: the triples have different columns.
            TypeMismatchError: columns of the triples differ in type, or a time or a diff is not a whole number.
        """
        if not callable(function):
            _refuse_version("join_function", version)
        if isinstance(function, Logic):
            result = self
            for verb in function.verbs:
                result = result._then(verb)
            return result
        if callable(function):
            return self._calling("join_function", JoinFunction, function, schema, version)
        triples = _triples(function)

        def bind(input_schema: pa.Schema) -> BoundLogic:
            return _logic(Emit(_same_columns([_update(t, input_schema) for t in triples])))

        shown = tuple(
            (tuple((n, _text(e)) for n, e in columns.items()), _times_text(t), _text(d)) for columns, t, d in triples
        )
        return self._then(Verb("join_function", shown, bind))

    def _calling(
        self,
        name: str,
        step: type[MapFunction | FlatMapFunction | ExplodeFunction | JoinFunction],
        function: Callable[..., Any],
        schema: str | pa.Schema | None,
        version: Version,
    ) -> Self:
        if not callable(function):
            raise PlanError(f"{name} needs a Python function of a row, got {function!r}; pass an expression to select")
        if schema is None:
            raise PlanError(f'{name} needs the schema of its result, for example "total long"')
        wrapped, output = Function.of(function, version), user_schema(schema)
        return self._then(Verb(name, (wrapped, output), lambda _: _logic(step(wrapped, output))))

    # time -----------------------------------------------------------------------------------------------------------

    def temporal(
        self,
        lower: Number | None = None,
        upper: Number | None = None,
        *,
        null_upper: Literal["exclude", "never"] = "exclude",
    ) -> Self:
        """Let each row exist only while ``lower <= logical_now() < upper``.

        A row that arrives after its lower bound appears when it arrives; one that arrives after its upper bound never
        appears. A null bound excludes the row, as a comparison in SQL does; with ``null_upper="never"`` a null upper
        bound means that there is none.

        Units:  ticks of the session's time.
        Cost:   linear: no exchange, no state; future updates wait, at the same cost however far ahead they are.

        Raises:
            PlanError: neither bound is given.
            TypeMismatchError: a bound is not a whole number.
        """
        if lower is None and upper is None:
            raise PlanError('temporal needs a bound: temporal("start", "stop"), or one of lower= and upper=')
        if null_upper not in ("exclude", "never"):
            raise PlanError(f'null_upper must be "exclude" or "never", got {null_upper!r}')

        def bind(schema: pa.Schema) -> BoundLogic:
            bounds = []
            if lower is not None:
                bounds.append(Bound("lower", _ticks(lower, schema, "the lower bound")))
            if upper is not None:
                never = null_upper == "never"
                bounds.append(Bound("upper", _ticks(upper, schema, "the upper bound"), null_open=never))
            return _logic(Temporal(tuple(bounds)))

        arguments = (*(None if b is None else _text(b) for b in (lower, upper)), null_upper)
        return self._then(Verb("temporal", arguments, bind))

    def delay(
        self,
        by: Later | tuple[Later | None, Later | None] | None = None,
        *,
        every: int | tuple[int | None, int | None] | None = None,
        both: Callable[[tuple[int, int]], tuple[int, int]] | None = None,
        version: Version = None,
    ) -> Self:
        """Delay every update: by a number of ticks, to the next multiple of ``every``, or as a function says.

        A function maps a time to one that is not earlier, and must be monotone; ``version`` is as in ``map``. Updates
        that get the same time add up: ``delay(every=60)`` is the collection as it was at the last full minute.

        With two times (``an.source(..., time=("system", "event"))``) ``by`` and ``every`` may be pairs, of what happens
        to the first time and to the event time, None being nothing: ``delay(by=(None, 7))`` is about days a week later.
        A function ``both`` maps the pair of both times to one that is not before it in either, and must be monotone: if
        neither time is less, neither result is. A time on which it is not is an error row.

        Units:  ticks of the session's time, and of event times.
        Cost:   linear: no exchange, no state; delayed updates wait in the operator that needs them.
        Law:    at each pair of times the rows whose delayed times are not later (tests/oracle/test_event_delays.py).

        Raises:
            PlanError: not exactly one of ``by``, ``every`` and ``both`` is given, or the delay is negative; or event
                times are delayed of a collection with one time, or in a session with ``retain_events`` of anything but
                rows of sources, because compacted event times can no longer be delayed.
        """
        if sum(given is not None for given in (by, every, both)) != 1:
            raise PlanError(
                "delay needs exactly one of by=ticks, by=function and every=ticks, each also as a pair for two times, "
                "and both=function"
            )
        if both is not None:
            delayed = Delay((DelayBoth(Function.of(both, version)),))
        else:
            option, given = ("by", by) if every is None else ("every", every)
            pair = _pair(given, option)
            if not any(map(callable, pair)):
                _refuse_version("delay", version)
            delayed = NO_DELAY
            for coordinate, part in enumerate(pair):
                if part is not None:
                    delayed = delayed.then(_delayed(option, part, coordinate, version))
        return self._then(Verb("delay", (delayed,), lambda _: BoundLogic((), delayed)))

    # table functions ------------------------------------------------------------------------------------------------

    def generate_series(
        self,
        start: Number,
        stop: Number,
        step: Number | None = None,
        *,
        as_: str = "generate_series",
        outer: bool = False,
    ) -> Self:
        """Repeat each row for every value from ``start`` to ``stop``, inclusive, in a new column.

        The values are whole numbers, dates or timestamps; the step of dates and timestamps is an interval
        (``"interval 1 month"``, by default one day). A step in the wrong direction or a null argument gives an empty
        series; a step of zero is an error row. Months are added one by one, and each day is clamped to its month. A row
        with an empty series disappears; with ``outer=True`` it stays, with null in the new column.

        Cost:   linear: no exchange, no state; the series is not built before it is used.

        Raises:
            TypeMismatchError: the arguments are not of types that form a series.
            PlanError: they are constants, and the series has more than 2,147,483,632 values.
        """
        if not isinstance(as_, str):
            raise PlanError(f"generate_series(as_=...): as_ must be the new column's name, got {as_!r}")
        if not isinstance(outer, bool):
            raise PlanError(f"generate_series(outer=...) must be True or False, got {outer!r}")

        def bind(schema: pa.Schema) -> BoundLogic:
            check_names([*_own(schema), as_])
            return _logic(_of_a_length(GenerateSeries(as_, *_series_arguments(start, stop, step, schema), outer)))

        arguments = (_text(start), _text(stop), None if step is None else _text(step), as_, *(("outer",) * outer))
        return self._then(Verb("generate_series", arguments, bind))

    def unnest(
        self, value: Text, *, as_: str | Sequence[str] = "col", ordinality: str | None = None, outer: bool = False
    ) -> Self:
        """Repeat each row for every element of an array, or entry of a map, in new columns.

        ``as_`` names the new column, or the two columns of a map (by default ``key`` and ``value``). ``ordinality``
        names a column of positions, from 1. A row without elements disappears; with ``outer=True`` it stays, with
        nulls.

        Cost:   linear: no exchange, no state.

        Raises:
            TypeMismatchError: the value is neither an array nor a map.
        """

        def bind(schema: pa.Schema) -> BoundLogic:
            expression = parse(value, schema)
            is_map = pa.types.is_map(expression.type)
            if not is_map and not pa.types.is_list(expression.type):
                raise TypeMismatchError(
                    f"`{expression.text}` is {type_name(expression.type)}; only an array or a map can be unnested"
                )
            names = (as_,) if isinstance(as_, str) else tuple(as_)
            if is_map and names == ("col",):
                names = ("key", "value")
            if len(names) != 1 + is_map:
                raise SchemaError(
                    f"unnest of {'a map' if is_map else 'an array'} makes {1 + is_map} column(s), got {len(names)} "
                    "name(s)"
                )
            check_names([*_own(schema), *names, *([ordinality] if ordinality else [])])
            return _logic(Unnest(expression, names, ordinality, outer))

        return self._then(
            Verb("unnest", (_text(value), as_ if isinstance(as_, str) else tuple(as_), ordinality, outer), bind)
        )

    def repeat_row(self, count: Number) -> Self:
        """Multiply the count of each row; 0 and null remove the row, a negative number makes its count negative.

        Cost:   linear: no exchange, no state; a row is one update, however often it is repeated.

        Raises:
            TypeMismatchError: the count is not a whole number.
        """
        return self._repeating(count, non_negative=False)

    def repeat_row_non_negative(self, count: Number) -> Self:
        """``repeat_row``, except that a negative count is an error row.

        Cost:   linear: no exchange, no state.
        """
        return self._repeating(count, non_negative=True)

    def _repeating(self, count: Number, *, non_negative: bool) -> Self:
        def bind(schema: pa.Schema) -> BoundLogic:
            return _logic(RepeatRow(_ticks(count, schema, "the count"), non_negative))

        return self._then(Verb("repeat_row" + "_non_negative" * non_negative, (_text(count),), bind))

    def json(
        self, column: str, fields: str | pa.Schema, *, paths: Mapping[str, str] | None = None, unit: Unit = ""
    ) -> Self:
        """Read fields of a JSON string into new columns; fields that no operator reads are not parsed.

        ``fields`` are names and types (``"id long, tags array<string>"``); ``paths`` says where the value of a name is
        (``{"city": "address.city"}``), by default at the name itself. A null string and a missing member give null; a
        string that is not JSON, and a member of another type, are error rows.

        Units:  ``unit`` says what whole numbers mean that are read as dates ("d") or timestamps ("s", "ms", "us",
                "ns"), for all fields that it fits or by name (``{"at": "ms"}``); without it they are read from strings.
        Cost:   linear: no exchange, no state.

        Raises:
            UnknownColumnError: the column does not exist, or a path or a unit is given for a name that is not a field.
            TypeMismatchError: the column is not a string, or JSON cannot be read as the type of a field.
            PlanError: the unit is unknown, or does not fit its field.
        """
        output = user_schema(fields)
        parsed = json_fields(output, unit, paths)

        def bind(schema: pa.Schema) -> BoundLogic:
            text = column_of(column, schema)
            if text.type != T.STRING:
                raise TypeMismatchError(f"json needs a string column, got {column!r} of type {type_name(text.type)}")
            check_names([*_own(schema), *output.names])
            return _logic(ParseJson(column, parsed))

        ways = tuple((paths or {}).items())
        return self._then(
            Verb("json", (column, output, ways, unit if isinstance(unit, str) else tuple(unit.items())), bind)
        )

    def negate(self) -> Self:
        """Negate every count.

        Cost:   linear: no exchange, no state.
        """
        return self._then(Verb("negate", (), lambda _: _logic(Negate())))


@dataclass(frozen=True)
class Logic(LinearVerbs):
    """Linear logic as a value: a sequence of verbs that apply to each row, independent of collections and schemas.

    Shape:  an update ``(row, t, d)`` becomes ``(row', t joined with t', d * d')`` for every ``(row', t', d')`` that
            the logic computes from the row.
    Law:    ``followed_by`` is associative, ``Logic()`` its identity (tests/laws/test_logic.py).

    >>> import altneu as an
    >>> late = an.logic.filter("v > 1").followed_by(an.logic.delay(by=3))
    >>> late == an.logic.filter("v > 1").delay(by=3)
    True
    >>> late.run([(1,), (2,)], "v long")
    ([((2,), 3, 1)], [])
    """

    verbs: tuple[Verb, ...] = ()

    def _then(self, verb: Verb) -> Self:
        return type(self)((*self.verbs, verb))

    def followed_by(self, after: Logic) -> Logic:
        """The composition: this logic, then the other.

        Raises:
            PlanError: the other is not a ``Logic``.
        """
        if not isinstance(after, Logic):
            raise PlanError(f'followed_by needs a Logic, such as an.logic.filter("v > 0"), got {after!r}')
        return Logic((*self.verbs, *after.verbs))

    def bind(self, schema: str | pa.Schema) -> BoundLogic:
        """The logic for rows of a schema, with names and types resolved.

        Raises:
            PlanError: a verb cannot be applied to this schema.
        """
        current, bound = T.parse_schema(schema), BoundLogic()
        for verb in self.verbs:
            one = verb.bind(current)
            if not bound.may_be_followed_by(one):
                raise PlanError(
                    f"{verb} delays both times by one function, after {bound} has made times: apply it to the "
                    "collection that this makes, collection.join_function(logic).delay(both=...)"
                )
            bound, current = bound.followed_by(one), one.output(current)
        return bound

    def run(
        self, rows: Sequence[Any], schema: str | pa.Schema, *, time: At = 0, diff: int = 1
    ) -> tuple[list[tuple[tuple[object, ...], At, int]], list[tuple[dict[str, str], At, int]]]:
        """Apply the logic to rows; returns updates ``(row, time, diff)``, and error rows with their times and diffs.

        Shape:  rows are tuples or dictionaries, or, of one column, bare values. With a pair as ``time``, a time and an
                event time, all times are pairs.
        Cost:   that of the steps, in this process.

        Raises:
            SchemaError: a row does not fit the schema, as in ``Session.insert``.
            PlanError: as in ``bind``; or it moves event times, and ``time`` has none.
        """
        parsed = T.parse_schema(schema)
        tuples = [r if isinstance(r, tuple | Mapping) else (r,) for r in rows]
        batch = conform(to_table(tuples, parsed.names, parsed, "run"), parsed, "run")
        logic, times = self.bind(parsed), time if isinstance(time, tuple) else (time,)
        if len(times) == 1 and logic.moves_events:
            raise PlanError(f"{self} moves event times: run it at a pair, time=(time, event time), got {time!r}")
        stamped = Updates(batch, _full((len(tuples), len(times)), times).T, _full(len(tuples), diff))
        oks, errors = run_logic(logic if len(times) == 1 else logic.with_event_times(), stamped)
        return _listed(oks), [(dict(zip(errors.schema.names, r, strict=True)), t, d) for r, t, d in _listed(errors)]

    def __str__(self) -> str:
        return ".".join(map(str, self.verbs)) or "identity"


def _full(shape: Any, value: int | tuple[int, ...]) -> Any:
    import numpy as np

    return np.full(shape, value, np.int64)


def _listed(updates: Updates) -> list[tuple[tuple[object, ...], At, int]]:
    times: Any = updates.times[0].tolist() if len(updates.times) == 1 else zip(*updates.times.tolist(), strict=True)
    return list(zip(updates.rows.to_pylist(), times, updates.diffs.tolist(), strict=True))


# arguments ------------------------------------------------------------------------------------------------------------


def _logic(*steps: Step) -> BoundLogic:
    return BoundLogic(steps)


def column_of(name: str, schema: pa.Schema) -> Expr:
    """A column as an expression.

    Raises:
        UnknownColumnError: as ``name_of``.
    """
    return parse(quote_name(name_of(name, schema)), schema)


def name_of(name: str, schema: pa.Schema, where: str = "") -> str:
    """What the schema calls a column that an argument names: exactly so, or whatever the case, as in expressions.

    Raises:
        UnknownColumnError: there is no such column, or several differ from the name by case alone.
        PlanError: it is no name.
    """
    _check_name(name)
    if name in schema.names:
        return name
    same = [known for known in schema.names if known.lower() == name.lower()]
    if len(same) != 1:
        several = "write one of them as it is, since they differ by case alone" if same else ""
        raise UnknownColumnError(name, same or schema.names, where, several)
    return same[0]


def names_in(named: object) -> tuple[str, ...]:
    """The names of columns that an argument gives, one or several.

    Raises:
        PlanError: one of them is no name.
    """
    names = tuple(named) if isinstance(named, Several | Iterator) and not isinstance(named, str | bytes) else (named,)
    for name in names:
        _check_name(name)
    return names


def _check_name(name: object) -> None:
    if not isinstance(name, str):
        raise PlanError(
            f"a column must be given by its name, such as 'k', got {name!r}; select an expression as a column first"
        )


def _own(schema: pa.Schema) -> list[str]:
    """The columns that users see, without the hidden update time."""
    return [n for n in schema.names if n != UPDATE_TIME]


def _refuse_version(verb: str, version: Version) -> None:
    if version is not None:
        raise PlanError(f"{verb}(version={version!r}): version is for a Python function, and this call has none")


def _shown(argument: object) -> str:
    if isinstance(argument, Function):
        return argument.name
    return repr(T.to_ddl(argument)) if isinstance(argument, pa.Schema) else repr(argument)


def _text(value: Any) -> str:
    """How an argument is written, for comparing and showing it."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) else tree_of(value).sql("spark")


def _times_text(time: Any) -> Any:
    """The same of a time, or of a pair of times."""
    return tuple(map(_times_text, time)) if isinstance(time, tuple) else None if time is None else _text(time)


def _source(value: Number) -> Text:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value  # type: ignore[return-value]


def _ticks(value: Number, schema: pa.Schema, what: str) -> Expr:
    """A whole number as a long.

    Raises:
        TypeMismatchError: it is something else.
    """
    expression = parse(_source(value), schema)
    if pa.types.is_null(expression.type) or pa.types.is_integer(expression.type):
        return cast(expression, T.LONG)
    remedy = (
        "; unix_seconds(...) or unix_micros(...) converts it to a number"
        if pa.types.is_timestamp(expression.type)
        else ""
    )
    raise TypeMismatchError(
        f"{what} must be a whole number, got `{expression.text}` of type {type_name(expression.type)}{remedy}"
    )


def _plain_int(value: object, what: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlanError(f"delay({what}=...): {what} must be a whole number of ticks, got {value!r}")
    return value


def _series_arguments(start: Number, stop: Number, step: Number | None, schema: pa.Schema) -> tuple[Expr, Expr, Expr]:
    first, last = (parse(_source(v), schema) for v in (start, stop))
    by = None if step is None else parse(_source(step), schema)
    whole = [e for e in (first, last, by) if e is not None]
    if all(pa.types.is_integer(e.type) or pa.types.is_null(e.type) for e in whole):
        wide = T.LONG if any(e.type == T.LONG for e in whole) else T.INT
        return cast(first, wide), cast(last, wide), cast(literal(1) if by is None else by, wide)
    kinds = {first.type, last.type} - {pa.null()}
    if len(kinds) == 1 and (kind := kinds.pop()) in (T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ):
        by = parse("interval 1 day", schema) if by is None else by
        if by.type in (T.YEAR_MONTH, T.DAY_TIME):
            return cast(first, kind), cast(last, kind), by
        raise TypeMismatchError(
            f"the step of a series of {type_name(kind)} must be an interval, such as interval 1 month, "
            f"got `{by.text}` of type {type_name(by.type)}"
        )
    shown = ", ".join(f"`{e.text}` is {type_name(e.type)}" for e in whole)
    raise TypeMismatchError(f"generate_series needs whole numbers, dates or timestamps of one type, but {shown}")


def _of_a_length(step: GenerateSeries) -> GenerateSeries:
    """A series, unless it is one of constants that would be made for hours.

    Raises:
        PlanError: it has more values than an array may have elements.
    """
    if all(e.is_literal for e in step.expressions):
        row = Rows(pa.schema([]), (), 1)
        count = int(series(*(e.evaluate(row).values for e in step.expressions)).counts[0])
        if count > MOST_ELEMENTS:
            raise PlanError(
                f"a series (generate_series, range) must have at most {MOST_ELEMENTS:,} values, got {count:,}: let it "
                "stop earlier, or take larger steps"
            )
    return step


def _pair(value: object, option: str) -> tuple[object, object]:
    """What happens to both times: of one value, something to the first.

    Raises:
        PlanError: it is a tuple other than a pair, or has nothing in it.
    """
    pair = value if isinstance(value, tuple) else (value, None)
    if len(pair) != 2 or pair == (None, None):
        raise PlanError(
            f"delay({option}=...) must be one delay or a pair, of the time and the event time, got {value!r}"
        )
    return pair


def _delayed(option: str, part: Any, coordinate: int, version: Version) -> Delay:
    """A delay of one of the times."""
    if option == "every":
        return Delay.every(_plain_int(part, "every"), coordinate)
    if callable(part):
        return Delay((DelayFunction(Function.of(part, version), coordinate),))
    return Delay.by(_plain_int(part, "by"), coordinate)


def _triples(value: object) -> list[Triple]:
    """The updates of a declarative ``join_function``.

    Raises:
        PlanError: there are none, or one is something else.
    """
    form = "({column: expression}, time, diff)"
    if isinstance(value, str | Mapping) or not isinstance(value, Iterable) or not (triples := list(value)):
        raise PlanError(f"join_function needs a function, a Logic, or a list of triples {form}, got {value!r}")
    for triple in triples:
        if not (isinstance(triple, tuple | list) and len(triple) == 3 and isinstance(triple[0], Mapping)):
            raise PlanError(f"join_function needs triples {form}, got {triple!r}")
    return triples


def _update(triple: Triple, schema: pa.Schema) -> Update:
    columns, time, diff = triple
    outputs = tuple((name, parse(text, schema)) for name, text in columns.items())
    check_names([n for n, _ in outputs])
    known, about = time if isinstance(time, tuple) and len(time) == 2 else (time, None)
    at = None if known is None else _ticks(known, schema, "the time")
    event = None if about is None else _ticks(about, schema, "the event time")
    return Update(outputs, at, _ticks(diff, schema, "the diff"), event=event)


def _same_columns(updates: list[Update]) -> tuple[Update, ...]:
    names = [n for n, _ in updates[0].outputs]
    for other in updates[1:]:
        others = [n for n, _ in other.outputs]
        if others != names:
            raise SchemaError(f"the triples of join_function have different columns: {names} and {others}")
        for (name, a), (_, b) in zip(updates[0].outputs, other.outputs, strict=True):
            if a.type != b.type:
                raise TypeMismatchError(
                    f"column {name!r} is {type_name(a.type)} in one triple and {type_name(b.type)} in another; cast one"
                )
    return tuple(updates)
