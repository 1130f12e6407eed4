"""Collections: the Python front end. Every verb builds a plan and checks it at once; nothing runs here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal, Never, Protocol, TypeVar

import pyarrow as pa

from altneu.collections.asof import (
    AsOfMode,
    AsOfOptions,
    Direction,
    Tolerance,
    absent,
    as_of,
    refuse_maps,
    times_of,
)
from altneu.collections.grouping import Grouping, check_names, order_beside
from altneu.collections.join_keys import On, Pair, comparable, output_names, pairs_of
from altneu.collections.joining import JoinKind, equijoin, having, of_pair, padded, project, without
from altneu.collections.loops import MAX_ROUNDS, OnLimit, level_of_loop, loop, shown_columns
from altneu.collections.moments import refuse_moments
from altneu.collections.remembering import linear
from altneu.collections.timed import with_update_time, without_update_time
from altneu.collections.verbs import LinearVerbs, Verb, column_of, name_of, names_in
from altneu.collections.windowing import with_windows
from altneu.columnar import html
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UpdateTimeError
from altneu.expressions import Col, Expr, parse, parse_order, parse_projection, parse_window
from altneu.expressions.construct import in_common_units
from altneu.linear import BoundLogic, FlatMapFunction, Function, Project
from altneu.plan import ir
from altneu.types import mark_of, no_key, quote_name, type_name

_WITH = 'select("*", name=...) (for an existing name: select(...) of all columns)'
_BY_NAME = 'filter("{0} IS NOT NULL") or F.col("{0}")'
# The counterparts of methods of Spark's DataFrames, named in the error for whoever calls these.
_SPARK_VERBS = {
    "agg": "group_by().agg(...)",
    "collect": "session.peek(collection).to_pylist()",
    "crossJoin": "join on a constant column",
    "drop": "select(...)",
    "dropDuplicates": "distinct()",
    "drop_duplicates": "distinct()",
    "groupBy": "group_by(...)",
    "groupby": "group_by(...)",
    "limit": "top_k(...)",
    "order_by": "top_k(...), or an order when the view is read",
    "orderBy": "top_k(...), or an order when the view is read",
    "printSchema": "schema",
    "show": "print(session.peek(collection))",
    "sort": "top_k(...), or an order when the view is read",
    "toPandas": "session.peek(collection).to_pandas()",
    "union": "concat(...)",
    "unionAll": "concat(...)",
    "unionByName": "concat(...)",
    "where": "filter(...)",
    "withColumn": _WITH,
    "withColumnRenamed": "select(new=...)",
    "withColumns": _WITH,
}


W_co = TypeVar("W_co", covariant=True)


class Weighing(Protocol[W_co]):
    """What gives the rows of a collection weights: see ``altneu.collections.weights``."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of its columns."""

    @property
    def negate(self) -> Any:
        """None where it has no negatives."""

    def over(self, collection: Collection) -> W_co:
        """The weighted collection."""


class Collection(LinearVerbs):
    """A multiset of rows that changes, described by a plan.

    >>> import altneu as an
    >>> edges = an.source("edges", "src long, dst long")
    >>> two_hops = edges.join(edges, on={"dst": "src"}).select("src", dst="right.dst")
    >>> two_hops.columns
    ['src', 'dst']
    """

    def __init__(self, node: ir.Node) -> None:
        self.node = node

    @property
    def schema(self) -> pa.Schema:
        """Names and types of the columns, as Arrow has them."""
        return self.node.schema

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.schema.names)

    def __repr__(self) -> str:
        return f"Collection({', '.join(f'{f.name}: {type_name(f.type)}' for f in self.schema)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: its columns and their types."""
        return html.titled("Collection", html.columns(self.schema))

    if not TYPE_CHECKING:  # a type checker must report verbs that do not exist

        def __getattr__(self, name: str) -> Any:
            instead = f"; what Spark calls {name} is {_SPARK_VERBS[name]} here" if name in _SPARK_VERBS else ""
            if "node" in self.__dict__ and name in self.columns:
                instead = f"; a column is named in expressions, as in {_BY_NAME.format(name)}"
            raise AttributeError(f"a collection has no {name!r}{instead}", name=name, obj=self)

    def __getitem__(self, name: object) -> Never:
        raise TypeError(f"a collection is not indexed: a column is named in expressions, as in {_BY_NAME.format(name)}")

    def _then(self, verb: Verb) -> Collection:
        try:
            return self._linear(verb.bind(self.schema))
        except UpdateTimeError:
            timed = Collection(with_update_time(self.node))
        return Collection(without_update_time(timed._linear(verb.bind(timed.schema)).node))

    def _linear(self, logic: BoundLogic) -> Collection:
        if not logic.keeps_times:
            self._refuse_moments("a filter or function of time", "does not commute with it")
        return Collection(linear(self.node, logic)) if logic else self

    def _project(self, outputs: Iterable[tuple[str, Expr]]) -> Collection:
        return self._linear(BoundLogic((Project(tuple(outputs)),)))

    def _column(self, name: str) -> Expr:
        return column_of(name, self.schema)

    def _named(self, names: str | Iterable[str]) -> tuple[str, ...]:
        """What the columns that an argument names are called here."""
        return tuple(name_of(name, self.schema) for name in names_in(names))

    def concat(self, *others: Collection) -> Collection:
        """Add collections of the same columns: counts add up and duplicates stay (SQL's UNION ALL).

        Cost:   no exchange, no state.

        Raises:
            SchemaError: the names or types of the columns differ.
        """
        for other in others:
            check_collection(other, "concat")
            mine, theirs = ([(f.name, type_name(f.type)) for f in c.schema] for c in (self, other))
            if mine != theirs:
                raise SchemaError(
                    f"concat needs collections of the same columns, got {shown_columns(mine)} and "
                    f"{shown_columns(theirs)}; use select to make them equal"
                )
        return Collection(ir.Concat(tuple(_of_one_kind([self.node, *(o.node for o in others)])))) if others else self

    def consolidate(self) -> Collection:
        """The same collection, with at most one update for each row and time.

        Cost:   one exchange by row, unless equal rows are in one shard already; no state.
        """
        return Collection(ir.Consolidate(self.node))

    def sample(self, fraction: float, by: str | Sequence[str] = (), *, seed: int = 0) -> Collection:
        """A sample: all rows of a random fraction of the values of ``by``, by default of all columns.

        Of each value the sample has either all rows or none. The choice depends on the value and ``seed`` alone, so a
        retraction always meets the choice that its insertion met, in every session and store; samples of several
        collections by the same key and seed have the same keys; and a sample with a greater fraction contains every
        sample with a smaller one.

        Shape:  the same columns.
        Cost:   one hash a row; no exchange, no state.
        Law:    sample(x + y) = sample(x) + sample(y) (tests/operators/test_sample.py).

        Raises:
            PlanError: ``fraction`` is not over 0 and at most 1, or ``seed`` is not a whole number from 0 to 2^63 - 1.
            UnknownColumnError: a name in ``by`` is not a column.

        >>> import altneu as an
        >>> orders = an.source("orders", "customer long, amount long")
        >>> with an.Session() as session:
        ...     view = session.maintain("few", orders.sample(0.2, by="customer"))
        ...     session.insert("orders", [(customer, amount) for customer in range(10) for amount in (1, 2)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [(6, 1), (6, 2)]
        """
        if not isinstance(fraction, Real) or not 0 < fraction <= 1:
            raise PlanError(f"sample: fraction must be over 0 and at most 1, got {fraction!r}")
        if not isinstance(seed, Integral) or isinstance(seed, bool) or not 0 <= seed < 2**63:
            raise PlanError(f"sample: seed must be a whole number from 0 to 2^63 - 1, got {seed!r}")
        key = self._named(by)
        return Collection(ir.Sample(self.node, key or tuple(self.columns), float(fraction), int(seed)))

    def inspect(self, function: Callable[..., Any] = print, *, version: str | int | None = None) -> Collection:
        """The same collection; after each commit ``function(row, time, diff)`` is called for every consolidated update.

        Between ``differentiate`` and ``integrate`` the time is one of the two moments of a time, ``alt(t)`` or
        ``neu(t)`` (``altneu.order``). With several times it is a tuple of them; in the body of a loop it is a pair,
        ``(time, round)``, where each update is what a round has other than the rounds and times before. ``version`` is
        as in ``map``: it identifies the function in place of its code.

        Cost:   one exchange by row, unless equal rows are in one shard already; the updates are sent to the driver.
        Law:    at each time and round, the updates are the difference to those before (tests/oracle/test_inspect.py).
        """
        return Collection(ir.Inspect(self.node, Function.of(function, version)))

    def arrange_by(self, *columns: str, order: str | Col | Sequence[str | Col] = ()) -> Collection:
        """The same collection, arranged by these columns: an index that joins on them share.

        A view of it keeps its rows by these columns. Other views that are built on this collection, instead of on the
        one before it, read that arrangement, also where they filter rows or leave columns out. ``CREATE INDEX``
        maintains such a view, and ``session.arrange`` gives it as a ``Trace``, with lookups and cursors.

        With an ``order`` of further columns ("price desc, id") the rows of each key are kept in that order, in which a
        cursor reads a part of them; joins then do not share it. Without columns there is one key, of all rows.

        Shape:  the same columns.
        Cost:   one exchange by these columns, unless rows are partitioned by them already; one arrangement of all
                columns.
        Law:    no view's rows depend on it (tests/sql_statements/test_indexes.py).

        Raises:
            PlanError: neither columns nor an order are named, or the order has a column of the key or an expression.
            UnknownColumnError: a name is not a column.

        >>> import altneu as an
        >>> people = an.source("people", "id long, name string").arrange_by("id")
        >>> with an.Session() as session:
        ...     index = session.maintain("people by id", people)
        ...     session.insert("people", [(1, "Ada")])
        ...     _ = session.advance()
        ...     index.to_pylist()
        [(1, 'Ada')]
        """
        ordered = bool(order) if isinstance(order, str | list | tuple) else True
        if not columns and not ordered:
            raise PlanError("arrange_by needs at least one column, by which rows are looked up")
        key = tuple(dict.fromkeys(self._named(columns)))
        return Collection(ir.ArrangedBy(self.node, key, order_beside(key, order, self.schema) if ordered else ()))

    def weighted(self, weight: Weighing[W_co]) -> W_co:
        """This collection with some of its columns as the weights of its rows, in the place of counts.

        ``weight`` is one of ``an.weights``, which names these columns: ``Sums("n", "total")``, ``Min("cost")``,
        ``Union("sources")`` or one of your own. A row weighs the sum of the weights that it is there with, each as
        often as it is there (docs/weights.md).

        Shape:  an ``an.weights.Weighted``, whose columns are those of this collection without the weight's.
        Cost:   linear: no exchange, no state.

        Raises:
            UnknownColumnError: the weight names a column that is none.
            TypeMismatchError: a column has a type that is not the weight's.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, n long, price long")
        >>> orders.weighted(an.weights.Sums("n", "price"))
        Weighted(item: string; Sums('n', 'price'))
        """
        return weight.over(self)

    # joins ----------------------------------------------------------------------------------------------------------

    def join(self, other: Collection, on: On, how: JoinKind = "inner") -> Collection:
        """Pair the rows of two collections with equal keys; null keys match nothing.

        ``on`` is a column name, a list of names, or a mapping from this side's columns to the other's; a name means a
        column exactly, or whatever its case. The output has this side's columns, then the other's. A key that has one
        name for both sides appears once, as this side calls it; any other column of the right side whose name exists
        already becomes ``right.<name>``.

        Shape:  counts multiply. Left, right and full joins keep rows without a partner and fill the other side's
                columns with nulls.
        Cost:   one exchange of each side by key (none if the rows are partitioned by it already); one arrangement of
                each side, shared with every other join on the same key. Outer joins also keep the number of rows of
                each key of the side that may lack partners.

        Raises:
            UnknownColumnError: a key is not a column.
            TypeMismatchError: the keys cannot be compared.
        """
        if how not in ("inner", "left", "right", "full"):
            raise PlanError(
                f"how must be inner, left, right or full, got {how!r}; the other joins are semijoin and antijoin"
            )
        left, right, pairs = _comparable(self, other, on)
        names = output_names(self.schema, other.schema, pairs)
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        shared = {p.left_name: p.right_name for p in pairs if (1, p.right_name) not in names}
        return Collection(equijoin(left, right, keys, names, how, shared))

    def asof_join(  # noqa: PLR0913 -- each says one thing, and by name
        self,
        right: Collection,
        on: On = (),
        *,
        mode: AsOfMode | None = None,
        time: str | None = None,
        left_time: str | None = None,
        right_time: str | None = None,
        direction: Direction = "backward",
        tolerance: Tolerance | None = None,
        allow_exact_matches: bool = True,
        how: Literal["inner", "left"] = "inner",
        simultaneous: bool = True,
        ties: str | Col | Sequence[str | Col] | None = None,
    ) -> Collection:
        """Join each row with the right side as of a time; ``mode`` says which time, and what a retraction removes.

        * ``"revising"``: the right row nearest to the row's timestamp, revised whenever late rows arrive or are
          retracted. The result depends on the rows of both inputs, but not on when they arrived.
        * ``"locked"``: the right side as it is when the row arrives, locked in with the row: all right rows of the
          key, or, with timestamps, the nearest one known then. A retraction removes what was emitted, whatever has
          become of the right side since.
        * ``"logical"``: each update joins the right side as of the update's own time. This applies to retractions
          too, which may therefore remove something other than what was emitted: the result is a record of changes,
          each as it happened, and not a function of the inputs' rows.

        docs/asof.md runs one example in all three modes.

        ``on`` is as in ``join``; with timestamps it may be left out. ``time`` names the timestamp of both sides
        (``left_time`` and ``right_time`` if the names differ): a column of whole numbers, dates or timestamps.
        ``direction`` is ``"backward"`` (the latest at or before), ``"forward"`` (the first at or after) or
        ``"nearest"`` (of two at the same distance the earlier). ``tolerance`` is the greatest distance: a number, or
        for timestamps a timedelta or an interval (``"10 minutes"``). With ``allow_exact_matches=False`` a right row
        with the row's own timestamp does not match. Null keys and null timestamps match nothing. Of several right
        rows with the same timestamp the greatest matches, compared column by column with nulls first; ``ties``, an
        order of the right side's columns (``"seq"``, ``"rank desc, seq"``), chooses the last in that order before, in
        every direction. With ``how="left"`` a row without a match stays, with nulls.

        In locked mode copies of a row are retracted in the order in which they arrived. A retraction of a row that
        does not exist is an error row until the next copy arrives, which it cancels. With ``simultaneous=False`` a
        row does not see changes of the right side at its own time. Since the result depends on when rows arrived, a
        view that is maintained later starts with the present state.

        Shape:  this side's columns, then the other's, named as by ``join``. With timestamps, one row for each left
                row, with its count; a right row with a negative count is an error row and does not match. Without
                timestamps, counts multiply.
        Cost:   one exchange of each side by key; one arrangement of each side, ordered by timestamp within the key.
                Revising: a change reads only the rows between its neighbours. Locked: the arrangement of the left
                side also holds the match of each row. In loops and with two times, groups that change are read again.
        Law:    at every time the result is the as-of join of the rows at that time (tests/oracle/test_asof.py);
                locked, the matches that each present copy had when it arrived (tests/oracle/test_locked.py).

        Raises:
            PlanError: no mode, or arguments that exclude each other.
            UnknownColumnError: a key or a timestamp is not a column.
            TypeMismatchError: keys or timestamps cannot be compared, or the tolerance has other units.

        >>> import altneu as an
        >>> trades = an.source("trades", "ticker string, at long, quantity long")
        >>> quotes = an.source("quotes", "ticker string, at long, bid long")
        >>> with an.Session() as session:
        ...     quoted = trades.asof_join(quotes, "ticker", time="at", mode="revising")
        ...     view = session.maintain("quoted", quoted.select("ticker", "at", "bid"))
        ...     session.insert("quotes", [("A", 10, 500), ("A", 20, 510)])
        ...     session.insert("trades", [("A", 15, 7), ("A", 25, 3)])
        ...     _ = session.advance()
        ...     session.insert("quotes", [("A", 12, 505)])  # late
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [('A', 15, 505), ('A', 25, 510)]
        """
        check_collection(right, "asof_join")
        times = times_of(time, left_time, right_time)
        options = AsOfOptions(mode, times, direction, tolerance, allow_exact_matches, how, simultaneous, ties)
        options.check()
        if times is not None:
            times = name_of(times[0], self.schema), name_of(times[1], right.schema)
            options = replace(options, times=times)
        if mode == "logical":
            return self.differentiate().join(right if simultaneous else right.delay_to_neu(), on).integrate()
        left, other, pairs = _comparable(self, right, on, keyless=times is not None)
        outputs = tuple((n, side, c) for (side, c), n in output_names(self.schema, right.schema, pairs).items())
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        joined = Collection(as_of((left, other), keys, outputs, options))
        alone = absent(left, (*keys[0], *(times or ())[:1])) if how == "left" else None
        if alone is None:
            return joined
        mine = {n: c for n, side, c in outputs if side == 0}
        return joined.concat(Collection(padded(alone, joined.schema, mine)))

    def join_core(
        self,
        other: Collection,
        on: On,
        function: Callable[..., Any],
        schema: str | pa.Schema,
        *,
        version: str | int | None = None,
    ) -> Collection:
        """Pair the rows of two collections with equal keys, and replace each pair by the rows that a function yields.

        ``function(key, left, right)`` gets Records of the key's columns, named as on this side, and of the other
        columns of both sides. It is a function as for ``flat_map``: pure, and with ``version``.

        Shape:  each yielded row as often as the product of both rows' counts says.
        Cost:   as ``join``: it reads the arrangements that joins on this key share, and the function runs in the join,
                which builds no pairs besides.
        Law:    that of ``join`` followed by ``flat_map`` (tests/oracle/test_operators.py).
        Source: ``join_core`` of differential dataflow.

        Raises:
            UnknownColumnError, TypeMismatchError, PlanError: as ``join`` and ``flat_map``.

        >>> import altneu as an
        >>> orders = an.source("orders", "item string, pieces long")
        >>> prices = an.source("prices", "item string, price long")
        >>> def bill(key, order, price):
        ...     for piece in range(order.pieces):
        ...         yield f"{key.item} {piece + 1}", price.price
        >>> with an.Session() as session:
        ...     view = session.maintain(
        ...         "bill", orders.join_core(prices, "item", bill, "what string, price long")
        ...     )
        ...     session.insert("orders", [("tea", 2)])
        ...     session.insert("prices", [("tea", 5), ("jam", 7)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [('tea 1', 5), ('tea 2', 5)]
        """
        joined = self.join(other, on)
        names = {p.left_name: p.right_name for p in pairs_of(self.schema, other.schema, on)}
        key, left = tuple(names), tuple(n for n in self.columns if n not in names)
        right = tuple(n for n in other.columns if n not in {*names.values()})
        places = {n: i for i, n in enumerate(self.columns)}
        rest = {n: i for i, n in enumerate(joined.columns)}
        named = {n: n if n not in self.columns else f"right.{n}" for n in right}
        if not callable(function):
            raise PlanError(f"join_core needs a function of a key and two values, got {function!r}")
        taken = (tuple(places[n] for n in key), tuple(places[n] for n in left), tuple(rest[named[n]] for n in right))
        calling = of_pair(function, (key, left, right), taken)
        return joined._calling("join_core", FlatMapFunction, calling, schema, version)

    def semijoin(self, other: Collection, on: On) -> Collection:
        """The rows whose key appears in the other collection, with their own counts (SQL's EXISTS).

        Cost:   one exchange of each side by key; an arrangement of this side, and the count of each key of the other.
        """
        left, right, pairs = _comparable(self, other, on)
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        return Collection(having(left, right, keys))._only(self.columns)

    def antijoin(self, other: Collection, on: On) -> Collection:
        """The rows whose key does not appear in the other collection (SQL's NOT EXISTS: null keys stay).

        Cost:   as ``semijoin``.
        """
        left, right, pairs = _comparable(self, other, on)
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        return Collection(without(left, right, keys))._only(self.columns)

    def _only(self, names: Sequence[str]) -> Collection:
        return self if self.columns == list(names) else self._project([(n, self._column(n)) for n in names])

    # loops ----------------------------------------------------------------------------------------------------------

    def iterate(
        self,
        body: Callable[[Collection], Collection],
        *,
        max_rounds: int = MAX_ROUNDS,
        on_limit: OnLimit = "error",
        step: int = 1,
    ) -> Collection:
        """The fixpoint of ``body``, which is applied to this collection again and again until nothing changes.

        X0 is this collection, X1 is ``body(X0)``, and so on; the result is the X that equals its successor. The body
        may be any composition of verbs, including loops. Other collections that it reads enter the loop; whatever does
        not depend on the variable is computed once instead of in every round. Make the rows distinct in the body (or
        aggregate them): otherwise duplicates may accumulate for ever.

        With ``on_limit="stop"`` the result is exactly that of ``max_rounds`` applications, whether it is a fixpoint or
        not. With a ``step`` of several rounds, the variable is in each round what the body made so many rounds before,
        and this collection until then; what enters at a round (``enter_at``) is then in the meantime seen alone.

        Shape:  the columns of this collection, all nullable.
        Cost:   a change costs in proportion to the rounds and groups that it affects. The operators of the body keep
                the changes of every round.
        Law:    at every time the result equals iteration from scratch over the inputs at that time
                (tests/oracle/test_loops.py).
        Source: McSherry et al., Differential Dataflow, CIDR 2013.

        Raises:
            SchemaError: the body returns other columns than those of this collection.
            PlanError: the body applies ``latest`` or ``reduce_core`` to a collection that changes from round to round.
            NoFixpointError: (raised by ``advance``) the loop still changes after ``max_rounds`` rounds.

        >>> import altneu as an
        >>> edges = an.source("edges", "src long, dst long")
        >>> def longer(paths):
        ...     more = paths.join(edges, on={"dst": "src"}).select("src", dst="`right.dst`")
        ...     return more.concat(edges).distinct()
        >>> with an.Session() as session:
        ...     view = session.maintain("reach", edges.iterate(longer))
        ...     session.insert("edges", [(1, 2), (2, 3)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [(1, 2), (1, 3), (2, 3)]
        """
        (result,) = loop(Collection, lambda x: (body(x),), {"x": self}, max_rounds, on_limit, step)
        return result

    def enter_at(self, rounds: str | Col) -> Collection:
        """In the body of a loop: this outer collection, whose rows enter the loop at the round that ``rounds`` gives.

        Use it where the fixpoint does not depend on when a row enters, such as the least label that reaches a node: if
        the rows that matter most enter first, later rows change little. In nested loops it refers to the innermost
        loop. A row for which the expression is null, negative or fails enters at round 0.

        Cost:   no exchange; rows are held back until their round. Rounds without due rows are skipped.
        Law:    the body of round r has the rows whose round is r or less (tests/oracle/test_loops.py).
        Source: ``enter_at`` of differential dataflow.

        Raises:
            PlanError: it is used outside the body of a loop, or on a collection that changes from round to round.
            TypeMismatchError: the expression is not a whole number.
        """
        level = level_of_loop()
        if level < 0:
            raise PlanError("enter_at says when a row enters a loop; use it in the body of iterate or recursive")
        if ir.free_level(self.node) == level:
            raise PlanError("enter_at needs a collection from outside the loop; this one changes from round to round")
        value = parse(rounds, self.schema)
        if not pa.types.is_integer(value.type):
            raise TypeMismatchError(
                f"enter_at: the round must be a whole number, got {value.sql!r} of type {type_name(value.type)}"
            )
        return Collection(ir.EnterAt(self.node, value, level))

    # calculus -------------------------------------------------------------------------------------------------------

    def differentiate(self) -> Collection:
        """The changes of this collection: each exists at the moment at which it happens, and no longer.

        Every time consists of two moments, ``alt`` and, right after it, ``neu``. An update ``(row, t, diff)`` becomes
        ``(row, alt(t), diff)`` and ``(row, neu(t), -diff)``. Everything computed from the result has moments too.
        Where it is joined with a collection that is not differentiated, it sees that collection at ``alt``, including
        the changes of the same time, or, after ``delay_to_neu``, excluding them. ``integrate`` leads back to ordinary
        times. docs/calculus.md explains the uses.

        The result depends on when rows arrived, not only on which rows exist. A view that is added later starts from
        the present and takes the rows that exist then as if they had arrived together.

        Shape:  the same columns.
        Cost:   no exchange, no state; twice the updates. An operator on moments keeps the input that is not
                differentiated, and of changes only those of the last step.
        Law:    ``x.differentiate().integrate()`` is x (tests/oracle/test_calculus.py).
        Source: McSherry, Differential dataflow meets calculus.

        >>> import altneu as an
        >>> orders, prices = an.source("orders", "item string"), an.source("prices", "item string, price long")
        >>> pay_me = orders.differentiate().join(prices, on="item").integrate()
        >>> with an.Session() as session:
        ...     view = session.maintain("pay_me", pay_me)
        ...     session.insert("prices", [("bacon", 5)])
        ...     session.insert("orders", [("bacon",)])
        ...     _ = session.advance()
        ...     session.retract("prices", [("bacon", 5)])
        ...     session.insert("prices", [("bacon", 6)])
        ...     _ = session.advance()
        ...     view.to_pylist()
        [('bacon', 5)]
        """
        level = level_of_loop()
        return Collection(ir.Differentiate(self.node, ir.moments(self.node).get(level, 0) + 1, level))

    def integrate(self) -> Collection:
        """The sum of the changes of a differentiated collection: the way back to ordinary times.

        An update ``(row, alt(t), diff)`` becomes ``(row, t, diff)``; those at ``neu`` are dropped. A row that existed
        for a moment exists from then on. Errors are integrated as rows are: an error of a single moment stays.

        Shape:  the same columns.
        Cost:   no exchange, no state.
        Law:    as ``differentiate``.

        Raises:
            PlanError: the collection was not differentiated, or it was differentiated outside of this loop.
        """
        level, depth = self._moments("integrate")
        return Collection(ir.Integrate(self.node, depth, level))

    def moments(self, column: str = "moment") -> Collection:
        """The changes of a differentiated collection as rows of ordinary times, with a column that says their moments.

        An update ``(row, alt(t), diff)`` becomes ``((row, "alt"), t, diff)``, and ``(row, neu(t), diff)`` becomes
        ``((row, "neu"), t, diff)``. So the derivative can be maintained and read: the changes of the view are what
        ``inspect`` would show. What has gone again at ``neu`` has a negative count there; maintain the view with
        ``contents=False`` where its changes alone are of interest, or filter or ``count()`` its rows.

        Shape:  the same columns, and the new one, a string.
        Cost:   no exchange, no state.
        Law:    its rows at ``alt`` are those of ``integrate`` (tests/oracle/test_calculus.py).

        Raises:
            PlanError: as ``integrate``.
            SchemaError: there is a column of that name.

        >>> import altneu as an
        >>> people = an.source("people", "name string")
        >>> with an.Session() as session:
        ...     view = session.maintain("moments", people.differentiate().moments(), contents=False)
        ...     session.insert("people", [("frank",)])
        ...     _ = session.advance()
        ...     for row in sorted(view.changes().to_pylist(), key=lambda row: row["moment"]):
        ...         print(row)
        {'name': 'frank', 'moment': 'alt', 'time': 0, 'diff': 1}
        {'name': 'frank', 'moment': 'neu', 'time': 0, 'diff': -1}
        """
        level, depth = self._moments("moments")
        check_names([*self.columns, column])
        return Collection(ir.Integrate(ir.TellMoment(self.node, depth, level, column), depth, level))

    def _moments(self, verb: str) -> tuple[int, int]:
        """The level and the depth of the innermost moments that this collection is in."""
        level, levels = level_of_loop(), ir.moments(self.node)
        if not levels:
            raise PlanError(
                f"{verb} needs a differentiated collection: use it after differentiate and the verbs that follow that"
            )
        if max(levels) != level:
            raise PlanError(
                f"{verb} and differentiate must stand together: both in the body of the same loop, or both outside"
            )
        return level, levels[level]

    def delay_to_neu(self) -> Collection:
        """This collection, delayed to ``neu``, so that a differentiated one joins it without changes of the same time.

        A change then sees this collection as it was before the change's time. In the body of a loop both refer to the
        times of that loop, as ``differentiate`` does.

        Shape:  the same columns.
        Cost:   no exchange, no state; only operators on moments can share an arrangement of it.
        Law:    ``orders.differentiate().join(prices.delay_to_neu(), ...)`` joins each order with the prices before its
                time (tests/oracle/test_calculus.py).

        >>> import altneu as an
        >>> orders, prices = an.source("orders", "item string"), an.source("prices", "item string, price long")
        >>> before = orders.differentiate().join(prices.delay_to_neu(), on="item").integrate()
        >>> with an.Session() as session:
        ...     view = session.maintain("before", before)
        ...     session.insert("prices", [("bacon", 5)])
        ...     session.insert("orders", [("bacon",)])
        ...     _ = session.advance()
        ...     session.insert("orders", [("bacon",)])
        ...     _ = session.advance()
        ...     view.to_pylist()
        [('bacon', 5)]
        """
        level = level_of_loop()
        return Collection(ir.ToNeu(self.node, max(ir.moments(self.node).get(level, 0), 1), level))

    def _refuse_moments(self, verb: str, why: str) -> None:
        refuse_moments(self.node, verb, why)

    # reductions -----------------------------------------------------------------------------------------------------

    def group_by(self, *keys: str | Col, **named: str | Col) -> Grouping[Collection]:
        """Group rows by columns or expressions, to be followed by ``agg`` or ``reduce``; no key: one group of all."""
        try:
            return Grouping(self.node, _group_keys(keys, named, self.schema), Collection)
        except UpdateTimeError:
            node = with_update_time(self.node)
        return Grouping(node, _group_keys(keys, named, node.schema), Collection)

    def _by_row(self, reducer: ir.Reducer) -> Collection:
        refuse_maps(self.schema)
        return Collection(ir.Reduce(self.node, tuple(self.columns), reducer))

    def distinct(self) -> Collection:
        """Each row once, whatever its count; a row with a negative count is an error row.

        Cost:   one exchange by row; one number for each distinct row.
        """
        return self._by_row(ir.Distinct())

    def count(self, name: str = "count") -> Collection:
        """Each distinct row once, with its count in a new column. Negative counts are shown; rows with count 0 are not.

        Cost:   one exchange by row; one number for each distinct row.
        """
        check_names([*self.columns, name])
        return self._by_row(ir.CountOf(name))

    def threshold(
        self, function: Callable[..., int], *, with_row: bool = False, version: str | int | None = None
    ) -> Collection:
        """Each row with the count ``function(count)``; the function is not called for a count of zero.

        With ``with_row=True`` the count is ``function(row, count)``, so that it may depend on the row, which
        has its columns as ``row.price`` or ``row["price"]``. ``version`` is as in ``map``: it identifies the function
        in place of its code.

        Cost:   one exchange by row; one number for each distinct row.

        >>> import altneu as an
        >>> seats = an.source("seats", "flight string, most int")
        >>> with an.Session() as session:
        ...     sold = seats.threshold(lambda row, count: min(row.most, count), with_row=True)
        ...     view = session.maintain("sold", sold)
        ...     session.insert("seats", [("a", 2)] * 3 + [("b", 5)] * 3)
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [('a', 2), ('a', 2), ('b', 5), ('b', 5), ('b', 5)]

        Raises:
            PlanError: ``with_row`` is neither True nor False.
        """
        if not isinstance(with_row, bool):
            raise PlanError(f"with_row must be True or False, got {with_row!r}")
        return self._by_row(ir.Threshold(Function.of(function, version), with_row))

    def top_k(self, k: int, by: str | Col | Sequence[str | Col], per: str | Sequence[str] = ()) -> Collection:
        """The first k rows in an order (``"delay desc, carrier"``), of each group of ``per`` or of all rows.

        Ties are decided by the value of the whole row, never by arrival. A row that occurs n times counts n times.

        Cost:   one exchange by group. The rows of each group are kept in this order, and a change of d rows reads about
                k + d of them, whatever the size of the group. In loops, with two times, and where the count of a row
                is below zero, the whole group is read.
        """
        if not isinstance(k, Integral) or k < 1:
            raise PlanError(f"top_k: k must be a whole number of at least 1, got {k!r}")
        group = self._named(per)
        outputs = [(n, self._column(n)) for n in self.columns]
        order = []
        for i, one in enumerate(parse_order(by, self.schema)):
            name = one.expr.column_name if one.expr.is_column else f"#order{i}"
            if not one.expr.is_column:
                outputs.append((name, one.expr))
            order.append((name, one.descending, one.nulls_first))
        ordered = self if len(outputs) == len(self.columns) else self._project(outputs)
        return Collection(ir.Reduce(ordered.node, group, ir.TopK(int(k), tuple(order))))._only(self.columns)

    def window(self, **named: str | Col) -> Collection:
        """Add columns computed by SQL's window functions, with Spark's frames and types.

        Ranks, ``lag`` and ``lead``, ``first_value``, ``last_value`` and ``nth_value``, and every aggregate, over
        partitions and frames (docs/window_functions.md). Ties in an order are decided by the value of the whole row,
        never by arrival. A row that occurs n times is n rows. (For windows over event time see ``an.windows``.)

        >>> import altneu as an
        >>> flights = an.source("flights", "carrier string, delay long")
        >>> with an.Session() as session:
        ...     ranked = flights.window(
        ...         rank="rank() OVER (PARTITION BY carrier ORDER BY delay DESC)",
        ...         share="delay / sum(delay) OVER (PARTITION BY carrier)",
        ...     )
        ...     view = session.maintain("ranked", ranked)
        ...     session.insert("flights", [("UA", 30), ("UA", 10), ("AA", 5)])
        ...     _ = session.advance()
        ...     sorted(view.to_pylist())
        [('AA', 5, 1, 1.0), ('UA', 10, 2, 0.25), ('UA', 30, 1, 0.75)]

        Shape:  the same rows with more columns.
        Cost:   for each distinct pair of partition and order one exchange by partition. The rows of each partition are
                kept, and a change reads its partition again.
        Law:    at every time the new columns are those that SQL computes from the rows at that time
                (tests/oracle/test_operators.py).

        Raises:
            UnsupportedFunctionError: the function cannot be used with OVER.
            TypeMismatchError: an argument, an order or a frame has the wrong type.
        """
        if not named:
            raise PlanError('window needs at least one column, for example window(n="count(*) OVER (PARTITION BY k)")')
        check_names([*self.columns, *named])
        windows = [(name, parse_window(text, self.schema)) for name, text in named.items()]
        for name, one in windows:
            if not one.calls:
                raise PlanError(f"window: {name} contains no window function, f(…) OVER (…); select(…) computes it")
        return Collection(with_windows(self.node, windows, self.columns))

    def latest(self, key: str | Sequence[str], order: str | Sequence[str]) -> Collection:
        """The current row of each key of a log of events: the greatest in the order of the columns ``order``.

        This is the meaning of an upsert stream. The log only grows, and a later row of a key replaces the one before.
        Rows may arrive in any order and repeatedly, since only ``order`` decides; between rows that are equal in it the
        greater row does (compared column by column; null is least, NaN greatest). A row that marks its key as deleted
        is a row like any other: filter such rows out of the result. Null is a key too.

        A retraction of a key's current row, or of a greater one, turns the key into an error, ``RETRACTED_EVENT``,
        until a greater row of the key arrives, because the rows that it replaced are not kept. A retraction of a
        lesser row changes nothing.

        Shape:  at most one row for each key, of the same columns.
        Cost:   one exchange by key (none if the rows are partitioned by it already); the current row of each key is
                kept, and future updates. A step looks up the keys of its rows.
        Law:    at every time each key's row is the greatest of its rows up to then, in whatever order they arrived
                (tests/oracle/test_latest.py).

        Raises:
            UnknownColumnError: a key or an order column does not exist.
            TypeMismatchError: a key or an order column is a map, which cannot be compared.

        >>> import altneu as an
        >>> log = an.source("log", "offset long, name string, price long")
        >>> with an.Session() as session:
        ...     prices = log.latest(key="name", order="offset").filter("price is not null")
        ...     view = session.maintain("prices", prices)
        ...     session.insert("log", [(1, "tea", 3), (4, "tea", 5), (2, "tea", 4)])
        ...     session.insert("log", [(3, "jam", 7), (5, "jam", None)])
        ...     _ = session.advance()
        ...     view.to_pylist()
        [(4, 'tea', 5)]
        """
        self._refuse_moments("latest", "reads a log that only grows")
        keys, columns = self._named(key), self._named(order)
        if not columns:
            raise PlanError("latest needs order=, a column that says which row of a key is the latest")
        for name in (*keys, *columns):
            if what := no_key(self.schema.field(name).type):
                raise TypeMismatchError(
                    f"latest: column {name!r} has {what}, and {what} cannot be compared; select what you need of it"
                )
        return Collection(ir.Latest(self.node, keys, columns))


def _group_keys(keys: Iterable[str | Col], named: Mapping[str, str | Col], schema: pa.Schema) -> list[tuple[str, Expr]]:
    outputs = [parse_projection(k, schema) for k in keys]
    return [*outputs, *((name, parse(text, schema)) for name, text in named.items())]


def _comparable(
    left: Collection, right: Collection, on: On, *, keyless: bool = False
) -> tuple[ir.Node, ir.Node, list[Pair]]:
    """The plans of two sides, with the columns that are compared."""
    check_collection(right, "a join")
    return comparable(left.node, right.node, on, keyless=keyless)


def check_collection(value: object, what: str) -> None:
    """Check that an argument is a collection, and not data or the name of a source.

    Raises:
        PlanError: it is not a collection.
    """
    if not isinstance(value, Collection):
        rows = "a DataFrame or a list of rows goes into a source: session.insert(name, data)"
        instead = getattr(type(value), "as_collection", rows)
        raise PlanError(f"{what} needs a collection, such as an.source(...), got {type(value).__name__}; {instead}")


def _of_one_kind(nodes: list[ir.Node]) -> list[ir.Node]:
    """Plans whose columns have equal names and types, with the units of intervals in common."""
    if len({tuple(map(mark_of, node.schema)) for node in nodes}) == 1:
        return nodes
    columns = [[parse(quote_name(name), node.schema) for name in node.schema.names] for node in nodes]
    together = zip(*(in_common_units(*values) for values in zip(*columns, strict=True)), strict=True)
    return [
        project(node, zip(node.schema.names, values, strict=True)) for node, values in zip(nodes, together, strict=True)
    ]
