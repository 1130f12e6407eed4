"""Groups of a collection, waiting for the function that reduces them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, ClassVar, Generic, TypeVar

import pyarrow as pa

from altneu import types as T
from altneu.collections.needs import Needs
from altneu.collections.remembering import linear
from altneu.collections.timed import with_update_time
from altneu.columnar.ranking import Order
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UpdateTimeError
from altneu.errors.elsewhere import NamedElsewhere
from altneu.expressions import (
    AggregateCall,
    AggregateExpr,
    Col,
    Column,
    Expr,
    call,
    cast,
    literal,
    parse,
    parse_aggregate,
    parse_order,
)
from altneu.expressions.aggregate import mark_of_call
from altneu.expressions.collations import checked
from altneu.expressions.names import UPDATE_TIME
from altneu.expressions.parse import tree_of
from altneu.linear import BoundLogic, Function, Project, Unnest
from altneu.plan import ir
from altneu.types import no_key, parse_schema, quote_name

MOST_COLUMNS = 10_000
MOST_KEYS = 63
MOST_COMMAS = 10 * MOST_COLUMNS  # of a schema as text, decimals and structs included

Outputs = list[tuple[str, Expr]]
C = TypeVar("C")


def check_names(names: Sequence[str]) -> None:
    """Refuse names that a user may not give to columns.

    Raises:
        SchemaError: two columns of one name, or a name that begins with ``#``.
    """
    twice = next((n for n, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise SchemaError(f"two columns are called {twice!r}; give one of them another name")
    reserved = next((n for n in names if n.startswith("#")), None)
    if reserved is not None:
        raise SchemaError(f"column {reserved!r}: names that begin with # are reserved for altneu; rename it")


def user_schema(schema: str | pa.Schema | T.StructType) -> pa.Schema:
    """A schema that a user declares, with its names checked; that of a Spark DataFrame is one too.

    Raises:
        SchemaError: it does not parse, has two columns of one name, or more columns than a plan can have.
    """
    if isinstance(schema, str) and schema.count(",") > MOST_COMMAS:  # before long is spent on parsing it
        raise _too_many("the schema of a source has far")
    parsed = parse_schema(schema)
    if len(parsed) > MOST_COLUMNS:
        raise _too_many(f"the schema of a source has {len(parsed):,} columns,")
    check_names(parsed.names)
    return checked(parsed)


def _too_many(what: str) -> SchemaError:
    return SchemaError(
        f"{what} more than {MOST_COLUMNS:,}, which are too many for a plan: "
        "put values of one kind into an array or a map column"
    )


def aggregate_node(node: ir.Node, keys: Outputs, results: Sequence[tuple[str, AggregateExpr]]) -> ir.Node:
    """The plan that groups a node's rows by ``keys`` and gives each group's row: its keys, and then ``results``.

    Without keys there is always one row. Calls that several results have in common are computed once.

    Raises:
        SchemaError: two columns would have one name.
        TypeMismatchError: a key has variants.
    """
    for name, expression in keys:
        if T.contains(expression.type, T.VARIANT.equals):
            raise TypeMismatchError(f"group column {name!r} has variants, which cannot be compared; group by a part")
    key = tuple(n for n, _ in keys)
    arguments: dict[Expr, str] = {}
    calls: dict[ir.Aggregate, int] = {}
    outputs: Outputs = []
    for name, parsed in results:
        aggregates = [aggregate_of(c, lambda e: arguments.setdefault(e, f"#arg{len(arguments)}")) for c in parsed.calls]
        numbers = [calls.setdefault(c, len(calls)) for c in aggregates]
        outputs.append((name, _renumber(parsed.result, parsed.calls, numbers)))
    projected = _project(node, [*keys, *((n, e) for e, n in arguments.items())])
    reduced: ir.Node = ir.Reduce(projected, key, ir.Aggregates(tuple(calls), default_row=not keys))
    if not keys:
        row = tuple(_of_nothing(c) for c in calls)
        reduced = ir.Concat((ir.Constant((row,), reduced.schema), reduced))
    outputs = [*_columns(reduced.schema, key), *outputs]
    check_names([n for n, _ in outputs])
    return _project(reduced, outputs)


def grouping_sets(
    node: ir.Node, keys: Outputs, sets: Sequence[Sequence[int]], name: str = "grouping_id"
) -> tuple[ir.Node, Outputs]:
    """A node with every row once for each grouping set, and the keys to group it by: those of no set are null.

    ``sets`` are positions of keys, as in ``rollup`` and ``cube``. The last of the keys is the grouping id, a bigint
    with a bit for each key, the first key's the highest, that is 1 where the key is not in the set; where sets are
    given twice there is one key more, which tells them apart. Spark's ids take the keys in the order in which GROUP BY
    first names them.

    Cost:   linear: one copy of a row for each set, no state; what is behind it costs so many groups.

    Raises:
        PlanError: no set, a set of keys that are not there, or more keys than the id has bits.
    """
    many = len(keys)
    if not sets or many > MOST_KEYS or any(not 0 <= place < many for one in sets for place in one):
        raise PlanError(
            f"grouping sets must be sets of positions of the {many} keys, at least one set and at most {MOST_KEYS} keys"
        )
    number = Column(f"#{name}_set", T.INT, True)
    numbers = call("array", [literal(i) for i in range(len(sets))])
    nulled: Outputs = [(f"#{name}{i}", _where(number, sets, i, e)) for i, (_, e) in enumerate(keys)]
    ids = [sum(1 << (many - 1 - i) for i in range(many) if i not in one) for one in sets]
    branches = [x for i, id_ in enumerate(ids[:-1]) for x in (call("=", [number, literal(i)]), literal(id_, T.LONG))]
    last = literal(ids[-1], T.LONG)
    shown = [*nulled, (f"#{name}", call("case", [*branches, last]) if branches else last)]
    shown += [(number.name, number)] if len(set(ids)) < len(ids) else []
    columns = _columns(node.schema, node.schema.names)
    expanded = linear(node, BoundLogic((Unnest(numbers, (number.name,)), Project((*columns, *shown)))))
    named = [*(n for n, _ in keys), name, f"{name}_set"]
    columns = _columns(expanded.schema, [n for n, _ in shown])
    return expanded, [(n, e) for n, (_, e) in zip(named, columns, strict=False)]


def _where(number: Expr, sets: Sequence[Sequence[int]], place: int, key: Expr) -> Expr:
    """A key in the sets that have it."""
    inside = [literal(i) for i, one in enumerate(sets) if place in one]
    if len(inside) == len(sets):
        return key
    return call("case", [call("in", [number, *inside]) if inside else literal(False), key])


def rollup(count: int) -> list[tuple[int, ...]]:
    """The sets of ROLLUP: all keys, and then always one less, from the last on.

    >>> rollup(2)
    [(0, 1), (0,), ()]
    """
    return [tuple(range(n)) for n in range(count, -1, -1)]


def cube(count: int) -> list[tuple[int, ...]]:
    """The sets of CUBE: every set of keys.

    >>> cube(2)
    [(0, 1), (0,), (1,), ()]
    """
    return [one for n in range(count, -1, -1) for one in combinations(range(count), n)]


def grouping(grouping_id: Expr, place: int, count: int) -> Expr:
    """SQL's ``grouping(key)`` for the key at a place of so many: 1 where it is not in the row's set, else 0."""
    bit = call("shiftright", [grouping_id, literal(count - 1 - place)])
    return cast(call("&", [bit, literal(1, T.LONG)]), T.BYTE, implicit=False)


class Grouping(NamedElsewhere, Generic[C]):
    """What ``Collection.group_by`` returns: a plan and its group columns; ``wrap`` makes a collection of a plan."""

    _what = "a group_by(...)"
    _instead: ClassVar = {
        "count": 'use agg(count="count(*)")',
        **{name: f'use agg(name="{name}(column)")' for name in ("sum", "avg", "mean", "min", "max")},
        "pivot": "use PIVOT of session.sql, or session.frame",
    }

    def __init__(self, node: ir.Node, keys: Outputs, wrap: Callable[[ir.Node], C]) -> None:
        self.node, self.keys, self.wrap = node, keys, wrap
        check_names([n for n, _ in keys])
        for name, expression in keys:
            if what := no_key(expression.type):
                raise TypeMismatchError(
                    f"group column {name!r} has {what}, and {what} cannot be compared; select what you need of it"
                )

    def __repr__(self) -> str:
        return f"group_by({', '.join(self.key)}), to be followed by agg(...) or reduce(...)"

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the group columns."""
        return tuple(n for n, _ in self.keys)

    def agg(self, *columns: str | Col, **named: str | Col) -> C:
        """Aggregate each group: ``agg(n="count(*)", mean="sum(price * qty) / sum(qty)")``.

        The aggregate functions are listed in docs/functions.md and may have DISTINCT and FILTER; among them are count,
        sum, avg, min, max, stddev, median, percentile, mode, max_by, collect_list and listagg. Sums of integers are
        exact in 128 bits; sums of doubles are exact and rounded once. A group that becomes empty has no row. Without
        group columns there is always one row, as in SQL.

        Cost:   one exchange by group. For count, sum, avg, stddev and similar functions a few numbers per group are
                kept, and the cost is proportional to the change. For min, max, percentiles and mode values are kept in
                order, and a few of them are read; so it is for max_by(a, b, n). For collect_set the distinct values of
                a group are read again when they change. For collect_list and others whose result is as long as the
                group, and all functions beside them, the rows of each group are kept, and read again when it changes.

        Raises:
            UnsupportedFunctionError: a function is unknown, or depends on the order of rows.
        """
        requested = [(None, c) for c in columns] + list(named.items())
        if not requested:
            raise PlanError('agg needs at least one aggregate, for example agg(n="count(*)")')
        node = self.node
        try:
            results = _results(requested, node.schema)
        except UpdateTimeError:
            node = with_update_time(node)
            results = _results(requested, node.schema)
        return self.wrap(aggregate_node(node, self.keys, results))

    def reduce(
        self,
        function: Callable[..., Any],
        schema: str | pa.Schema,
        *,
        with_diffs: bool = False,
        version: str | int | None = None,
        needs: Needs | None = None,
    ) -> C:
        """Reduce each group to the rows that a Python function ``function(key, rows)`` yields or returns as a list.

        ``key`` is a tuple, also with one group column. ``rows`` is a list of pairs ``(row, count)``, sorted by the
        values of the rows; a row has the columns that are not group columns, as ``row.price`` or ``row["price"]``. The
        function yields the columns of ``schema``; the output has the group columns before them. With
        ``with_diffs=True`` it yields pairs ``(row, diff)``. The function must be pure. A group on which it raises
        becomes an error row. ``version`` is as in ``map``: it identifies the function in place of its code.

        With ``needs=an.first(10, by="at")``, or ``an.last``, the function is given only these rows of a group, sorted
        as always; of a row that is only in part among them, so many as are.

        >>> import altneu as an
        >>> prices = an.source("prices", "item string, price long")
        >>> def spread(key, rows):
        ...     values = [row.price for row, _ in rows]
        ...     yield max(values) - min(values)
        >>> prices.group_by("item").reduce(spread, "spread long")
        Collection(item: string, spread: bigint)

        >>> latest = an.last(2, by="price")
        >>> prices.group_by("item").reduce(spread, "spread long", needs=latest)
        Collection(item: string, spread: bigint)

        Cost:   one exchange by group; the rows of each group are kept, and read again when the group changes. With
                ``needs`` they are kept in order, and a change of d rows reads about k + d of them, whatever the size of
                the group; in loops, with two times, and where the count of a row is below zero, all of them.

        Raises:
            SchemaError: a column of the result has the name of a group column.
            PlanError: ``needs`` was not made by ``an.first`` or ``an.last``, its k is not a whole number of at least 1,
                or it orders by a group column or an expression.
        """
        result, grouped = self._result(schema), self._grouped()
        if needs is not None and not isinstance(needs, Needs):
            raise PlanError(f"needs must be an.first(k, by=...) or an.last(k, by=...), got {needs!r}")
        some = None if needs is None else needs.rows_of(grouped.schema, self.key)
        reducer = ir.PythonReduce(Function.of(function, version), result, with_diffs, some)
        return self.wrap(ir.Reduce(grouped, self.key, reducer))

    def reduce_core(
        self,
        function: Callable[..., Any],
        schema: str | pa.Schema,
        *,
        order: str | Col | Sequence[str | Col] = (),
        version: str | int | None = None,
    ) -> C:
        """Reduce each group by a function that sees its output so far and gives its changes, as pairs ``(row, diff)``.

        ``function(key, changes, group)`` is called at each time at which a group changes. ``changes`` is a list of
        pairs ``(row, diff)``: what is new at that time. ``group`` is the group as it is then: iterate it for all rows
        with their counts, or ask for a part, ``group.rows(start=, stop=)`` in the ``order`` of its columns and
        ``group.count(row)``; ``group.output`` are pairs ``(row, count)``, what the function has made of the group. The
        output has the group columns before those of ``schema``. A group without rows has no output, and the function is
        not called. Where it raises, the group is an error row and has no output; when it changes again, ``changes`` is
        the whole group, as of a new one.

        A function whose output is the same however the group became what it is can be used like any other. If it is
        not, as that of a thermostat is not, the view depends on the order of changes: times decide, and not how they
        are cut into steps. docs/reduce_core.md has the rules. Both are refused in loops on what changes from round to
        round, with two times, and between ``differentiate`` and ``integrate``.

        Cost:   one exchange by group; arrangements of the groups and of their output. A change reads the output of its
                group, and of the group what the function asks for.
        Law:    at each time the output is what it was before the time, and the changes that the function gives
                (tests/oracle/test_reduce_core.py).
        Source: ``reduce_core`` of differential dataflow.

        Raises:
            SchemaError: a column of the result has the name of a group column.
            PlanError: the order has a group column or an expression.

        >>> import altneu as an
        >>> readings = an.source("readings", "room string, degrees long")
        >>> def heating(key, changes, group):  # on below 18 degrees, off above 22, and as it is in between
        ...     (degrees, _), *_ = group
        ...     was = group.output[0][0].heating if group.output else False
        ...     now = degrees.degrees < 18 or (was and degrees.degrees <= 22)
        ...     if not group.output or now != was:
        ...         yield from ((row, -count) for row, count in group.output)
        ...         yield (now,), 1
        >>> with an.Session() as session:
        ...     view = session.maintain(
        ...         "heating", readings.group_by("room").reduce_core(heating, "heating boolean")
        ...     )
        ...     for before, degrees in [(None, 20), (20, 17), (17, 21), (21, 23)]:
        ...         session.retract("readings", [] if before is None else [("hall", before)])
        ...         session.insert("readings", [("hall", degrees)])
        ...         _ = session.advance()
        ...         print(view.to_pylist())
        [('hall', False)]
        [('hall', True)]
        [('hall', True)]
        [('hall', False)]
        """
        result, grouped = self._result(schema), self._grouped()
        if ir.moments(grouped):
            raise PlanError(
                "reduce_core sees its output of the time before, and changes exist for a moment: use it before "
                "differentiate or after integrate"
            )
        by = order_beside(self.key, order, grouped.schema) if order else ()
        return self.wrap(ir.ReduceCore(grouped, self.key, Function.of(function, version), result, by))

    def _result(self, schema: str | pa.Schema) -> pa.Schema:
        result = user_schema(schema)
        clash = next((n for n in result.names if n in self.key), None)
        if clash is not None:
            raise SchemaError(f"schema has a column {clash!r}, which is a group column too; rename it")
        return result

    def _grouped(self) -> ir.Node:
        """The group columns and the others, for a function of rows."""
        rest = _columns(self.node.schema, [n for n in self.node.schema.names if n not in (*self.key, UPDATE_TIME)])
        plain = all(e.is_column and e.column_name == n for n, e in self.keys)
        plain = plain and UPDATE_TIME not in self.node.schema.names
        return self.node if plain else _project(self.node, [*self.keys, *rest])


def order_beside(key: Sequence[str], order: str | Col | Sequence[str | Col], schema: pa.Schema) -> tuple[Order, ...]:
    """An order of columns beside those of a key.

    Raises:
        PlanError: one of them is an expression, or belongs to the key.
    """
    keys = parse_order(order, schema)
    for one in keys:
        if not one.expr.is_column:
            raise PlanError(f"order must be of columns, got {one.expr.sql}; compute it with select first")
        if one.expr.column_name in key:
            raise PlanError(f"column {one.expr.column_name!r} of the order belongs to the key; leave it out")
    return tuple({k.expr.column_name: (k.expr.column_name, k.descending, k.nulls_first) for k in keys}.values())


def _results(requested: Sequence[tuple[str | None, str | Col]], schema: pa.Schema) -> list[tuple[str, AggregateExpr]]:
    return [(name or _name_of(text), parse_aggregate(text, schema)) for name, text in requested]


def _project(node: ir.Node, outputs: Outputs) -> ir.Node:
    return linear(node, BoundLogic((Project(tuple(outputs)),)))


def _columns(schema: pa.Schema, names: Sequence[str]) -> Outputs:
    return [(n, parse(quote_name(n), schema)) for n in names]


def _name_of(text: str | Col) -> str:
    """The alias of an aggregate, or its text, as Spark names it."""
    tree = tree_of(text)
    return str(tree.alias or tree.sql(dialect="spark"))


def aggregate_of(aggregate: AggregateCall, place: Callable[[Expr], str]) -> ir.Aggregate:
    """One aggregate over columns that are computed first, at the names that ``place`` gives them.

    Filters and their kin become conditions on the argument.
    """
    function, args, condition = aggregate.function, aggregate.args, aggregate.filter
    if function == "count_if":
        function, condition, args = "count", args[0] if condition is None else call("and", [args[0], condition]), ()
    function = {"bool_and": "min", "bool_or": "max"}.get(function, function)
    if condition is not None:
        args = tuple(call("case", [condition, a]) for a in args or (literal(1),))
    return ir.Aggregate(
        function, tuple(map(place, args)), aggregate.type, aggregate.distinct, aggregate.sql, aggregate.options
    )


def _renumber(result: Expr, calls: tuple[AggregateCall, ...], numbers: list[int]) -> Expr:
    """Read the aggregates from the columns they have in the common reduce."""
    numbered = zip(calls, numbers, strict=True)
    schema = pa.schema([T.marked(pa.field(f"#{n}", c.type), mark_of_call(c)) for c, n in numbered])
    return result.substitute({f"#{i}": parse(quote_name(f"#{n}"), schema) for i, n in enumerate(numbers)})


def _of_nothing(call: ir.Aggregate) -> object:
    """What an aggregate is over no rows."""
    if call.function == "count":
        return 0
    return [] if call.function.startswith("collect") else None
