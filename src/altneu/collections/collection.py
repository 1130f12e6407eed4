"""Collections: the Python front end. Every verb builds a plan and checks it at once; nothing runs here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from altneu.collections.asof import AsOfMode, AsOfOptions, Direction, Tolerance, absent, as_of, times_of
from altneu.collections.grouping import Grouping, check_names, user_schema
from altneu.collections.joining import JoinKind, equijoin, having, padded, without
from altneu.collections.timed import with_update_time, without_update_time
from altneu.collections.verbs import LinearVerbs, Verb, column_of
from altneu.collections.windowing import with_windows
from altneu.errors import PlanError, SchemaError, TypeMismatchError, UnknownColumnError, UpdateTimeError
from altneu.expressions import Col, Expr, parse, parse_order, parse_projection, parse_window
from altneu.linear import BoundLogic, Function, Project
from altneu.plan import ir
from altneu.types import quote_name, type_name

On = str | Sequence[str] | Mapping[str, str]
OnLimit = Literal["error", "stop"]
MAX_ROUNDS = ir.MAX_ROUNDS

_WITH = 'select("*", name=...) (for a name that is there already: select(...) of all columns)'
# What a verb of Spark's DataFrames is here, told to whoever calls it by that name.
_SPARK_VERBS = {
    "agg": "group_by().agg(...)",
    "crossJoin": "join on a constant column",
    "drop": "select(...)",
    "dropDuplicates": "distinct()",
    "drop_duplicates": "distinct()",
    "groupBy": "group_by(...)",
    "groupby": "group_by(...)",
    "limit": "top_k(...)",
    "orderBy": "top_k(...), or an order when the view is read",
    "sort": "top_k(...), or an order when the view is read",
    "union": "concat(...)",
    "unionAll": "concat(...)",
    "unionByName": "concat(...)",
    "where": "filter(...)",
    "withColumn": _WITH,
    "withColumnRenamed": "select(new=...)",
    "withColumns": _WITH,
}


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

    if not TYPE_CHECKING:  # a type checker is to know the verbs there are, and no others

        def __getattr__(self, name: str) -> Any:
            instead = f"; what Spark calls {name} is {_SPARK_VERBS[name]} here" if name in _SPARK_VERBS else ""
            raise AttributeError(f"a collection has no {name!r}{instead}", name=name, obj=self)

    def _then(self, verb: Verb) -> Collection:
        try:
            return self._linear(verb.bind(self.schema))
        except UpdateTimeError:
            timed = Collection(with_update_time(self.node))
        return Collection(without_update_time(timed._linear(verb.bind(timed.schema)).node))

    def _linear(self, logic: BoundLogic) -> Collection:
        if not logic.keeps_times:
            self._refuse_moments("a filter or function of time", "does not commute with it")
        return Collection(ir.Linear(self.node, logic)) if logic else self

    def _project(self, outputs: Iterable[tuple[str, Expr]]) -> Collection:
        return self._linear(BoundLogic((Project(tuple(outputs)),)))

    def _column(self, name: str) -> Expr:
        return column_of(name, self.schema)

    def _check(self, names: Iterable[str]) -> None:
        for name in names:
            self._column(name)

    def concat(self, *others: Collection) -> Collection:
        """Add up collections of the same columns; counts add, nothing is made distinct (SQL's UNION ALL).

        Cost:   no exchange, no state.

        Raises:
            SchemaError: names or types differ.
        """
        for other in others:
            check_collection(other, "concat")
            mine, theirs = ([(f.name, type_name(f.type)) for f in c.schema] for c in (self, other))
            if mine != theirs:
                raise SchemaError(
                    f"concat needs equal columns, but {_show(mine)} is not {_show(theirs)}; use select to make them so"
                )
        return Collection(ir.Concat((self.node, *(o.node for o in others)))) if others else self

    def consolidate(self) -> Collection:
        """The same collection, with at most one update for each row and time.

        Cost:   one exchange by row, unless equal rows are together already; no state.
        """
        return Collection(ir.Consolidate(self.node))

    def sample(self, fraction: float, by: str | Sequence[str] = (), *, seed: int = 0) -> Collection:
        """The rows of a share of the values of some columns, by default of all: of each value all rows, or none.

        Which values these are depends on the values and ``seed`` alone. So a row that is retracted goes where it came,
        in every session and store; samples of several collections by one key, with one seed, have the same keys; and
        the sample by a fraction is part of the one by a greater fraction.

        Shape:  the same columns.
        Cost:   one hash a row; no exchange, no state.
        Law:    sample(x + y) = sample(x) + sample(y) (tests/operators/test_sample.py).

        Raises:
            PlanError: ``fraction`` is not over 0 and at most 1, or ``seed`` not a whole number from 0 to 2^63 - 1.
            UnknownColumnError: one of ``by`` is not a column.

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
        key = (by,) if isinstance(by, str) else tuple(by)
        self._check(key)
        return Collection(ir.Sample(self.node, key or tuple(self.columns), float(fraction), int(seed)))

    def inspect(self, function: Callable[..., Any] = print, *, version: str | int | None = None) -> Collection:
        """The same collection; after each commit ``function(row, time, diff)`` is called for every consolidated update.

        ``version`` is as in ``map``: it stands for what the function reads.

        Cost:   one exchange by row, unless equal rows are together already; the updates travel to the driver.
        """
        self._refuse_moments("inspect", "shows times and not moments")
        return Collection(ir.Inspect(self.node, Function.of(function, version)))

    def arrange_by(self, *columns: str) -> Collection:
        """The same collection; a view of it keeps its rows by these columns, and joins on them read them there.

        Other views that are made of this, and not of the collection before it, read its rows as they are: a filter or
        a column that is left out is no reason to arrange them anew. It is what ``CREATE INDEX`` maintains.

        Shape:  the same columns.
        Cost:   one exchange by these columns, unless rows are spread so already; one arrangement of all columns.
        Law:    every view is as it is without it (tests/sql_statements/test_indexes.py).

        Raises:
            PlanError: no columns.
            UnknownColumnError: one that is not there.

        >>> import altneu as an
        >>> people = an.source("people", "id long, name string").arrange_by("id")
        >>> with an.Session() as session:
        ...     index = session.maintain("people by id", people)
        ...     session.insert("people", [(1, "Ada")])
        ...     _ = session.advance()
        ...     index.to_pylist()
        [(1, 'Ada')]
        """
        if not columns:
            raise PlanError("arrange_by takes the columns by which rows are looked up")
        self._check(columns)
        return Collection(ir.ArrangedBy(self.node, tuple(dict.fromkeys(columns))))

    # joins ----------------------------------------------------------------------------------------------------------

    def join(self, other: Collection, on: On, how: JoinKind = "inner") -> Collection:
        """Pair the rows of two collections with equal keys; null keys match nothing.

        ``on`` is a column name, a list of them, or a mapping from this side's columns to the other's. The output has
        this side's columns, then the other's: a key of the same name on both sides appears once, any other name that
        clashes is called ``right.<name>``.

        Shape:  counts multiply; left, right and full joins pad the rows without a partner with nulls.
        Cost:   one exchange a side by key (none where rows are spread so already); an arrangement a side, shared with
                every other join on the same key. Outer joins also keep the count of each key of the padded-against
                side.

        Raises:
            UnknownColumnError: a key that is no column.
            TypeMismatchError: keys that cannot be compared.
        """
        if how not in ("inner", "left", "right", "full"):
            raise PlanError(f"how={how!r} is not a join; use inner, left, right or full (or semijoin, antijoin)")
        left, right, pairs = _comparable(self, other, on)
        names = _output_names(self, other, pairs)
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        shared = {p.left_name: p.right_name for p in pairs if (1, p.right_name) not in names}
        return Collection(equijoin(left.node, right.node, keys, names, how, shared))

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
        """Join each row with the right side as of a time; ``mode`` says which time, and what a retraction takes back.

        * ``"revising"``: the right row nearest to the row's timestamp, at every time: corrected when late rows come or
          go. A view of today's inputs, however they came.
        * ``"locked"``: what the right side says when the row comes, kept with it: all right rows of the key, or, with
          timestamps, the nearest one as known then. A retraction takes back what was emitted, whatever the right side
          has become.
        * ``"logical"``: each update meets the right side as of that update's own time, a retraction too, which may so
          take back something else than was emitted: no view of the inputs, but every change as it happened.

        docs/asof.md runs one example in all three. ``on`` is as in ``join``; with timestamps there may be no key.
        ``time`` names the timestamp of both sides (``left_time`` and ``right_time`` where they differ): whole numbers,
        dates or timestamps. ``direction`` is ``"backward"`` (the latest at or before), ``"forward"`` (the first at or
        after) or ``"nearest"`` (the earlier of two at one distance); ``tolerance`` is how far away at most, a number or
        for timestamps a timedelta or an interval (``"10 minutes"``); without ``allow_exact_matches`` the row's own
        timestamp does not count. Null keys and timestamps meet nothing. Of right rows with one timestamp the greatest
        is met, column by column, nulls least; or, in every direction, the last by ``ties``, an order of the right
        side's columns (``"seq"``, ``"rank desc, seq"``), and then the greatest. With ``how="left"`` a row that meets
        nothing has nulls.

        Locked in, copies of a row go in the order in which they came; a retraction of a row that is not there is an
        error row, and the next copy that comes makes good for it. ``simultaneous=False``: changes of the right side at
        the row's own time are not met. It depends on when rows came, so a view maintained late begins with the present.

        Shape:  this side's columns, then the other's, named as by ``join``. By timestamps one row for each left row,
                as often as that counts; a right row whose count is negative is an error row and is not there. Without
                timestamps counts multiply.
        Cost:   one exchange a side by key; an arrangement a side, ordered by the timestamp within the key. Revising, a
                change re-reads the rows between its neighbours and no more. Locked, the left side's arrangement is of
                what each row met. In loops and with two times the groups that change are read again.
        Law:    at every time the as-of join of the rows there are (tests/oracle/test_asof.py); locked, what each copy
                that is there met when it came (tests/oracle/test_locked.py).

        Raises:
            PlanError: no mode; arguments that do not go together.
            UnknownColumnError: a key or a timestamp that is no column.
            TypeMismatchError: keys or timestamps that cannot be compared, or a tolerance that has other units.

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
        if mode == "logical":
            return self.differentiate().join(right if simultaneous else right.delay_to_neu(), on).integrate()
        left, other, pairs = _comparable(self, right, on, keyless=times is not None)
        for side, names in ((self, times[:1] if times else ()), (right, times[1:] if times else ())):
            side._check(names)
        if mode == "locked":
            left._by_row(ir.Distinct())  # its rows are told apart
            for side in (self, right):
                side._refuse_moments("a locked asof_join", "is about when rows come")
        outputs = tuple((n, side, c) for (side, c), n in _output_names(self, right, pairs).items())
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        joined = Collection(as_of((left.node, other.node), keys, outputs, options))
        alone = absent(left.node, (*keys[0], *(times or ())[:1])) if how == "left" else None
        if alone is None:
            return joined
        mine = {n: c for n, side, c in outputs if side == 0}
        return joined.concat(Collection(padded(alone, joined.schema, mine)))

    def semijoin(self, other: Collection, on: On) -> Collection:
        """The rows whose key appears in the other collection, with their own counts (SQL's EXISTS).

        Cost:   one exchange a side by key; an arrangement of this side, and the count of each key of the other.
        """
        left, right, pairs = _comparable(self, other, on)
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        return Collection(having(left.node, right.node, keys))._only(self.columns)

    def antijoin(self, other: Collection, on: On) -> Collection:
        """The rows whose key does not appear in the other collection (SQL's NOT EXISTS: null keys stay).

        Cost:   as ``semijoin``.
        """
        left, right, pairs = _comparable(self, other, on)
        keys = tuple(p.left for p in pairs), tuple(p.right for p in pairs)
        return Collection(without(left.node, right.node, keys))._only(self.columns)

    def _only(self, names: Sequence[str]) -> Collection:
        return self if self.columns == list(names) else self.select(*map(quote_name, names))

    # loops ----------------------------------------------------------------------------------------------------------

    def iterate(
        self, body: Callable[[Collection], Collection], *, max_rounds: int = MAX_ROUNDS, on_limit: OnLimit = "error"
    ) -> Collection:
        """What this collection comes to when ``body`` is applied to it again and again, until nothing changes.

        X0 is this collection, X1 is ``body(X0)``, and so on; the result is the X that is its own successor. The body is
        any composition of verbs, loops included; other collections it reads enter the loop, and what does not depend on
        the variable is computed once and not in every round. A loop of which the rows are never made distinct may not
        come to an end: duplicates go round for ever.

        With ``on_limit="stop"`` the result is what ``max_rounds`` applications make, exactly, settled or not.

        Shape:  the columns of this collection, all nullable.
        Cost:   a change costs the rounds and the groups that it touches; state as that of the body's operators, which
                keep what every round changed.
        Law:    at every time the result is what iterating from scratch over the inputs at that time gives
                (tests/oracle/test_loops.py).
        Source: McSherry et al., Differential Dataflow, CIDR 2013.

        Raises:
            SchemaError: the body's columns are not those of this collection.
            PlanError: the body reads ``latest`` or ``inspect`` of what changes from round to round.
            NoFixpointError: (by ``advance``) the loop still changes after ``max_rounds`` rounds.

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
        (result,) = loop(lambda x: (body(x),), {"x": self}, max_rounds, on_limit)
        return result

    def enter_at(self, rounds: str | Col) -> Collection:
        """Inside the body of a loop: this collection from outside, each row from the round on that an expression says.

        For loops whose limit does not depend on when a row enters, as that of the least label to reach a node: what
        matters most may go first, so that the rest finds its work done and changes little. Of nested loops it is the
        innermost one that the body belongs to. Where the expression is null, negative or fails, it is round 0.

        Cost:   no exchange; rows wait until their round. Rounds in which nothing is due are passed over.
        Law:    the body of round r has the rows whose round is r or less (tests/oracle/test_loops.py).
        Source: ``enter_at`` of differential dataflow.

        Raises:
            PlanError: outside the body of a loop, or on what changes from round to round.
            TypeMismatchError: the expression is no whole number.
        """
        level = _level()
        if level < 0:
            raise PlanError("enter_at says when a row enters a loop; use it in the body of iterate or recursive")
        if ir.free_level(self.node) == level:
            raise PlanError("enter_at takes a collection from outside the loop; this one changes from round to round")
        value = parse(rounds, self.schema)
        if not pa.types.is_integer(value.type):
            raise TypeMismatchError(f"enter_at({value.sql!r}) is {type_name(value.type)}; a round is a whole number")
        return Collection(ir.EnterAt(self.node, value, level))

    # calculus -------------------------------------------------------------------------------------------------------

    def differentiate(self) -> Collection:
        """The changes of this collection: each there at the moment it happens, and gone right after.

        Every time has two moments, ``alt`` and, right after it, ``neu``, and no other time can tell them apart. An
        update ``(row, t, diff)`` becomes ``(row, alt(t), diff)`` and ``(row, neu(t), -diff)``. What is computed of
        that is in moments too, and so is what it meets: a collection that is not differentiated is seen at ``alt``,
        with what happens at the same time, or after ``delay_to_neu`` without. ``integrate`` leads back.
        docs/calculus.md tells what it is for.

        The answer depends on when rows came, and not only on which are there: a view that is added later starts from
        the present. It takes what is there then as having come all at once.

        Shape:  the same columns.
        Cost:   no exchange, no state; twice the updates. An operator on moments keeps what is not differentiated, and
                of changes only those of the last step.
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
        level = _level()
        return Collection(ir.Differentiate(self.node, ir.moments(self.node).get(level, 0) + 1, level))

    def integrate(self) -> Collection:
        """What the changes add up to that ``differentiate`` and what followed it made: the way back to ordinary times.

        An update ``(row, alt(t), diff)`` becomes ``(row, t, diff)``, and those at ``neu`` are forgotten. A row that was
        there for a moment is there from then on. Errors are integrated as rows are: one of a single moment stays.

        Shape:  the same columns.
        Cost:   no exchange, no state.
        Law:    as ``differentiate``.

        Raises:
            PlanError: nothing was differentiated, or it was outside of the loop that this is written in.
        """
        level, found = _level(), ir.moments(self.node)
        if not found:
            raise PlanError(
                "integrate adds up the changes of what was differentiated, and nothing was: use it after "
                "differentiate and the verbs in between"
            )
        if max(found) != level:
            raise PlanError(
                "integrate belongs where differentiate does: both inside the body of the same loop, or both outside"
            )
        return Collection(ir.Integrate(self.node, found[level], level))

    def delay_to_neu(self) -> Collection:
        """This collection beside one that was differentiated, seen right after each time and not at it.

        So a change meets what was there before its time, without what happens at the same time. As the times of
        ``differentiate`` are those of the loop that it is written in, so are these.

        Shape:  the same columns.
        Cost:   no exchange, no state; an arrangement of it serves moments alone.
        Law:    ``orders.differentiate().join(prices.delay_to_neu(), ...)`` meets prices before the time of an order
                (tests/oracle/test_calculus.py).

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
        level = _level()
        return Collection(ir.ToNeu(self.node, max(ir.moments(self.node).get(level, 0), 1), level))

    def _refuse_moments(self, verb: str, why: str) -> None:
        if ir.moments(self.node):
            raise PlanError(
                f"{verb} {why}, and this was differentiated; use it before differentiate or after integrate"
            )

    # reductions -----------------------------------------------------------------------------------------------------

    def group_by(self, *keys: str | Col, **named: str | Col) -> Grouping[Collection]:
        """Group rows by columns or expressions; follow with ``agg`` or ``reduce``. No key: one group of everything."""
        try:
            return Grouping(self.node, _group_keys(keys, named, self.schema), Collection)
        except UpdateTimeError:
            node = with_update_time(self.node)
        return Grouping(node, _group_keys(keys, named, node.schema), Collection)

    def _by_row(self, reducer: ir.Reducer) -> Collection:
        for f in self.schema:
            if pa.types.is_map(f.type):
                raise TypeMismatchError(
                    f"column {f.name!r} is a map, and maps cannot be compared; select what you need of it"
                )
        return Collection(ir.Reduce(self.node, tuple(self.columns), reducer))

    def distinct(self) -> Collection:
        """One copy of every row that is there; a row whose count is negative is an error row.

        Cost:   one exchange by row; one number for each distinct row.
        """
        return self._by_row(ir.Distinct())

    def count(self, name: str = "count") -> Collection:
        """Every distinct row once, with its count in a new column; negative counts are shown, zero counts vanish.

        Cost:   one exchange by row; one number for each distinct row.
        """
        check_names([*self.columns, name])
        return self._by_row(ir.CountOf(name))

    def threshold(self, function: Callable[[int], int], *, version: str | int | None = None) -> Collection:
        """Every row as often as ``function(count)`` says; not called for a count of zero.

        ``version`` is as in ``map``: it stands for what the function reads.

        Cost:   one exchange by row; one number for each distinct row.
        """
        return self._by_row(ir.Threshold(Function.of(function, version)))

    def top_k(self, k: int, by: str | Col | Sequence[str | Col], per: str | Sequence[str] = ()) -> Collection:
        """The first k rows in an order (``"delay desc, carrier"``), in each group of ``per`` or of everything.

        Ties are decided by the whole row's value, never by arrival. Rows count as often as they occur.
        Cost:   one exchange by group; the group's rows are kept and re-read when it changes.
        """
        if not isinstance(k, Integral) or k < 1:
            raise PlanError(f"top_k needs a whole number k of at least 1, not {k!r}")
        group = (per,) if isinstance(per, str) else tuple(per)
        self._check(group)
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
        """All columns, and new ones by SQL's window functions, with Spark's frames and types.

        Ranks, ``lag`` and ``lead``, ``first_value``, ``last_value`` and ``nth_value``, and every aggregate, over
        partitions and frames (docs/window_functions.md). What an order leaves undecided is decided by the whole row's
        value, never by arrival. A row that is there n times is n rows.
        (``an.windows`` is something else: windows of time, into which rows are sorted.)

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

        Shape:  as many rows as before, with more columns.
        Cost:   for each distinct partition and order one exchange by partition; the partition's rows are kept, and a
                change re-reads its partition.
        Law:    at every time the new columns are what SQL makes of the rows that are there
                (tests/oracle/test_operators.py).

        Raises:
            UnsupportedFunctionError: a function that has no window.
            TypeMismatchError: an argument, an order or a frame does not fit.
        """
        if not named:
            raise PlanError('window needs at least one column, for example window(n="count(*) OVER (PARTITION BY k)")')
        check_names([*self.columns, *named])
        found = [(name, parse_window(text, self.schema)) for name, text in named.items()]
        for name, one in found:
            if not one.calls:
                raise PlanError(f"window: {name} has no window function, f(…) OVER (…), in it; select(…) computes it")
        return Collection(with_windows(self.node, found, self.columns))

    def latest(self, key: str | Sequence[str], order: str | Sequence[str]) -> Collection:
        """The current row of each key of a log of events: the one that is greatest in the order of some columns.

        What upsert streams mean. The log only grows: a later row of a key takes the place of the one before. Rows may
        come twice and in any order, for only ``order`` decides, and between equals the whole row (column by column;
        null is least, NaN greatest). A row that says that its key is gone is a row like any other: filter it away
        afterwards. Null keys are one key.

        To retract the current row of a key, or one greater than it, makes the key an error, ``RETRACTED_EVENT``, until
        a greater row of that key comes: what the retracted row had replaced is not kept. To retract a lesser row
        changes nothing.

        Shape:  one row at most for each key, of the same columns.
        Cost:   one exchange by key (none where rows are spread so already); the current row of each key is kept, and
                rows whose time has not come. A step looks up the keys that it has rows of.
        Law:    at every time each key's row is the greatest of the rows up to then, however they came
                (tests/oracle/test_latest.py).

        Raises:
            UnknownColumnError: a key or an order that is no column.
            TypeMismatchError: a key or an order that is a map, which cannot be compared.

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
        keys, columns = ((names,) if isinstance(names, str) else tuple(names) for names in (key, order))
        if not columns:
            raise PlanError("latest needs a column that tells which row of a key is the later one: order=...")
        self._check([*keys, *columns])
        for name in (*keys, *columns):
            if pa.types.is_map(self.schema.field(name).type):
                raise TypeMismatchError(
                    f"latest: column {name!r} is a map, and maps cannot be compared; select what you need of it"
                )
        return Collection(ir.Latest(self.node, keys, columns))


def _show(columns: list[tuple[str, str]]) -> str:
    return f"({', '.join(f'{n} {t}' for n, t in columns)})"


class _Pair:
    """One column of a join key: its name on either side, and the column that is compared there."""

    def __init__(self, left_name: str, right_name: str) -> None:
        self.left_name, self.right_name = left_name, right_name
        self.left, self.right = left_name, right_name


def _names_two(time: Any) -> bool:
    return isinstance(time, tuple) and len(set(time)) == 2 and all(isinstance(t, str) and t for t in time)


def _group_keys(keys: Iterable[str | Col], named: Mapping[str, str | Col], schema: pa.Schema) -> list[tuple[str, Expr]]:
    outputs = [parse_projection(k, schema) for k in keys]
    return [*outputs, *((name, parse(text, schema)) for name, text in named.items())]


def _comparable(
    left: Collection, right: Collection, on: On, *, keyless: bool = False
) -> tuple[Collection, Collection, list[_Pair]]:
    """Resolve ``on``: sides of one type, each column once; what is not so gets an extra column."""
    check_collection(right, "a join")
    names = {on: on} if isinstance(on, str) else dict(on) if isinstance(on, Mapping) else {n: n for n in on}
    if not names and not keyless:
        raise PlanError(
            "join needs at least one key column; a join without a key would pair everything with everything"
        )
    left._check(names.keys())
    right._check(names.values())
    pairs = [_Pair(a, b) for a, b in names.items()]
    extra: tuple[list[tuple[str, Expr]], list[tuple[str, Expr]]] = ([], [])
    for i, pair in enumerate(pairs):
        types = [left.schema.field(pair.left_name).type, right.schema.field(pair.right_name).type]
        if any(pa.types.is_map(t) for t in types):
            raise TypeMismatchError(
                f"join key {pair.left_name!r}: maps cannot be compared; join on what you need of them"
            )
        if types[0] != types[1]:
            common = _common_type(pair, types)
            pair.left, pair.right = f"#key{i}", f"#key{i}"
            for side, collection, name in ((0, left, pair.left_name), (1, right, pair.right_name)):
                extra[side].append((f"#key{i}", parse(f"CAST({quote_name(name)} AS {common})", collection.schema)))
        elif any(pair.right == p.right for p in pairs[:i]):
            pair.right = f"#key{i}"
            extra[1].append((pair.right, right._column(pair.right_name)))
    return _with(left, extra[0]), _with(right, extra[1]), pairs


def check_collection(given: object, what: str) -> None:
    """Refuse what is data, or the name of something.

    Raises:
        PlanError: it is no collection.
    """
    if not isinstance(given, Collection):
        raise PlanError(
            f"{what} takes a collection, such as an.source(...), not {type(given).__name__}; a DataFrame or a list of "
            "rows is inserted into a source: session.insert(name, data)"
        )


def _with(collection: Collection, extra: list[tuple[str, Expr]]) -> Collection:
    if not extra:
        return collection
    return collection._project([*((n, collection._column(n)) for n in collection.columns), *extra])


def _common_type(pair: _Pair, types: list[pa.DataType]) -> str:
    schema = pa.schema([("l", types[0]), ("r", types[1])])
    try:
        return type_name(parse("coalesce(l, r)", schema).type)
    except TypeMismatchError as error:
        raise TypeMismatchError(
            f"join key {pair.left_name!r} is {type_name(types[0])}, {pair.right_name!r} is "
            f"{type_name(types[1])}; cast one of them"
        ) from error


def _output_names(left: Collection, right: Collection, pairs: list[_Pair]) -> dict[tuple[int, str], str]:
    """The output column of every (side, column): what clashes on the right is qualified, a shared key appears once."""
    names = {(0, n): n for n in left.columns}
    shared = {p.right_name for p in pairs if p.left_name == p.right_name}
    for n in right.columns:
        if n in shared:
            continue
        name = n if n not in left.columns else f"right.{n}"
        if name in names.values():
            raise SchemaError(f"the join would have two columns called {name!r}; select or rename on one side first")
        names[1, n] = name
    return names


def recursive(
    body: Callable[..., Sequence[Collection]],
    *,
    max_rounds: int = MAX_ROUNDS,
    on_limit: OnLimit = "error",
    **initial: Collection,
) -> tuple[Collection, ...]:
    """What several collections come to that are defined by each other.

    ``initial`` names the variables and what they begin as; ``body`` takes them, in that order, and gives what each
    becomes. All change together: what one becomes in a round is made of what the others were at its start. Returns what
    each comes to, in the same order.

    Raises:
        SchemaError: a variable would get other columns than it has.

    >>> import altneu as an
    >>> roots, edges = an.source("roots", "node long"), an.source("edges", "src long, dst long")
    >>> def step(even, odd):
    ...     def next_to(c):
    ...         return c.join(edges, on={"node": "src"}).select(node="dst")
    ...
    ...     return next_to(odd).concat(roots).distinct(), next_to(even).distinct()
    >>> even, odd = an.recursive(step, even=roots, odd=roots.filter("false"))
    >>> with an.Session() as session:
    ...     view = session.maintain("odd", odd)
    ...     session.insert("roots", [(1,)])
    ...     session.insert("edges", [(1, 2), (2, 3), (3, 4)])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist())
    [(2,), (4,)]
    """
    return loop(body, initial, max_rounds, on_limit)


_open_loops = threading.local()


def _level() -> int:
    """The level of the innermost loop that is being written, -1 outside of all."""
    return getattr(_open_loops, "count", 0) - 1


def loop(
    body: Callable[..., Sequence[Collection]], initial: Mapping[str, Collection], max_rounds: int, on_limit: OnLimit
) -> tuple[Collection, ...]:
    """A loop over named variables, as ``recursive`` says."""
    if on_limit not in ("error", "stop"):
        raise PlanError(f'on_limit={on_limit!r} is neither "error" nor "stop"')
    if not isinstance(max_rounds, Integral) or max_rounds < 1:
        raise PlanError(f"max_rounds must be at least 1, got {max_rounds!r}")
    if not initial:
        raise PlanError("a recursion needs a variable: recursive(body, name=what it begins as)")
    level = getattr(_open_loops, "count", 0)
    names, first = tuple(initial), tuple(c.node for c in initial.values())
    variables = [ir.Variable(level, i, ir.open_schema(node.schema)) for i, node in enumerate(first)]
    _open_loops.count = level + 1
    try:
        made = tuple(body(*map(Collection, variables)))
    finally:
        _open_loops.count = level
    _check_bodies(names, variables, made)
    stops = on_limit == "stop"
    whole = ir.Loop(names, first, tuple(c.node for c in made), level, int(max_rounds), stops)
    return tuple(Collection(ir.Result(whole, i)) for i in range(len(names)))


def _check_bodies(names: Sequence[str], variables: Sequence[ir.Variable], made: Sequence[Any]) -> None:
    if len(made) != len(names) or not all(isinstance(c, Collection) for c in made):
        raise PlanError(
            f"the body of a loop over {', '.join(names)} must give {len(names)} collection(s), one for each variable, "
            f"and gave {made!r}"
        )
    for name, variable, collection in zip(names, variables, made, strict=True):
        mine, theirs = ([(f.name, type_name(f.type)) for f in s] for s in (variable.schema, collection.schema))
        if mine != theirs:
            raise SchemaError(
                f"the loop's variable {name} has the columns {_show(mine)}, and its body gives {_show(theirs)}; "
                "use select to make them equal"
            )
        if max(ir.moments(collection.node), default=-1) >= variables[0].level:
            raise PlanError(f"the body of a loop gives what it has differentiated for {name}; integrate it first")
        if verb := ir.arrival_verb_in_loop(collection.node):
            raise PlanError(
                f"{verb} reads what changes from round to round, which it cannot; use it before the loop or after"
            )


def source(
    name: str,
    schema: str | pa.Schema,
    *,
    keep: bool = False,
    time: tuple[str, str] | None = None,
    key: str | Sequence[str] | None = None,
    distinct: bool = False,
) -> Collection:
    """A collection that a session inserts into and retracts from.

    ``schema`` is Spark DDL (``"src long, dst long"``) or a pyarrow schema. With ``keep`` the session keeps the rows
    themselves, so that a view added later can be computed from them whatever it reads. They are kept from the first
    ``maintain`` that reads the source until ``session.drop_source``, also while no view reads it.

    With ``time=("system", "event")`` its rows have two times: when they became known, which is the session's clock, and
    what they are about. Corrections to the past arrive at later system times, and everything computed from the source
    can be read at both: what was known at one about the other.

    With ``distinct`` it is a set: a row is there or not, however often it is inserted, and to insert one that is there
    or retract one that is not does nothing. With a ``key``, of one column or several, it is a set that has one row of
    each key: ``session.insert_or_update`` replaces it, ``session.delete_key`` deletes it by its key. An insert beside
    another row of the key leaves both, each of them an error row (``DUPLICATE_KEY``) until the key has one row or none
    (docs/keyed.md).

    Cost:   no state, unless ``keep``: then one arrangement of all rows. A set and a source with a key keep one, by row
            or by key, as long as a view reads them, which all views share; a step looks up the keys that have commands.
            With two times a change to a group is followed through the later event times of that group.

    Raises:
        SchemaError: the schema does not parse, or has two columns of one name.
        UnknownColumnError: a column of the key that there is not.
        PlanError: a key without columns, a key beside ``distinct``, or either of them beside two times.

    >>> import altneu as an
    >>> delays = an.source("delays", "carrier string, minutes long", time=("known", "day"))
    >>> with an.Session(retain="all") as session:
    ...     total = session.maintain("total", delays.group_by("carrier").agg(minutes="sum(minutes)"))
    ...     session.insert("delays", [("UA", 10)], time=1)
    ...     session.insert("delays", [("UA", 5)], time=3)
    ...     _ = session.advance()
    ...     session.retract("delays", [("UA", 10)], time=1)  # a correction of day 1, known a day later
    ...     _ = session.advance()
    ...     [total.to_pylist(at=at) for at in [(0, 1), (0, 3), (1, 1), (1, 3)]]
    [[('UA', 10)], [('UA', 15)], [], [('UA', 5)]]
    """
    if time is not None and not _names_two(time):
        raise SchemaError(
            f'time must name the two times of a source, such as time=("system", "event"), got {time!r}; of a source '
            f"with one time it is given where rows are inserted: session.insert({name!r}, rows, time=...)"
        )
    if not name:
        raise SchemaError("a source needs a name")
    columns = user_schema(schema)
    if not len(columns):
        raise SchemaError(f"source {name!r} needs at least one column")
    if not isinstance(distinct, bool):
        raise PlanError(f"distinct must be True or False, got {distinct!r}")
    by = None if key is None else _key_of(name, key, columns)
    if by and distinct:
        raise PlanError(
            f"source {name!r} has a key, so that it is a set already, with one row of each key: leave out "
            "distinct=True, or leave out key= where a key may have several rows"
        )
    if time is not None and (by or distinct):
        raise PlanError(
            f"source {name!r} has two times, and {'key=' if by else 'distinct='} is for sources with one: a key "
            "alone does not say which row a correction to the past replaces; retract that row"
        )
    return Collection(ir.Source(name, columns, keep, time, by, distinct))


def _key_of(source: str, key: str | Sequence[str], columns: pa.Schema) -> tuple[str, ...]:
    """The columns of a source's key, checked."""
    names = (key,) if isinstance(key, str) else tuple(key)
    if not names or len({*names}) < len(names):
        raise PlanError(f"key={key!r} of source {source!r} must name one column or several, each once")
    for name in names:
        if name not in columns.names:
            raise UnknownColumnError(name, columns.names, f"the key of source {source!r}")
    return names
