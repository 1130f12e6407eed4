"""Window functions: calls over the rows of a partition, and what is computed from their results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import ExpressionSyntaxError, PlanError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions.aggregate import AggregateCall, aggregate_expr, mark_of_call, with_nulls
from altneu.expressions.build import Builder
from altneu.expressions.coercion import INTEGRAL, is_decimal, is_numeric
from altneu.expressions.collations import collation_among, text_of
from altneu.expressions.construct import call, cast, get_field, key_of_order, with_collation
from altneu.expressions.expr import Column, Expr, Literal
from altneu.expressions.names import AGGREGATES, COLLECTED, NEVER_NULL, RANKING
from altneu.expressions.parse import OrderKey, Source, explained, order_key, tree_of
from altneu.expressions.rules import accept, expect_count

FUNCTIONS = (
    ("row_number()", "The row's number in the partition, from 1."),
    ("rank(), dense_rank()", "The row's rank; `rank` leaves gaps after ties."),
    (
        "percent_rank(), cume_dist()",
        "The share of the other rows that come before the row; the share of all rows up to it. Doubles.",
    ),
    ("ntile(n)", "The number of the row's part, of n parts of equal size."),
    (
        "lag(a), lag(a, n), lag(a, n, default), lead(…)",
        "The value n rows (default 1) before or after the row; `default`, or null, if there is no such row.",
    ),
    ("first_value(a), first(a), any_value(a)", "The value on the first row of the frame."),
    ("last_value(a), last(a)", "The value on the last row of the frame."),
    ("nth_value(a, n)", "The value on the nth row of the frame; null if there is none."),
    (
        "counter_diff(a), counter_diff(a, start)",
        (
            "What a counter has grown by since the last row that has one; null if it is the first, or if it was reset: "
            "the counter is less, or the time of its start later. A negative counter and an earlier start are errors."
        ),
    ),
)
"""How window functions are written, for docs/window_functions.md; every aggregate is one too."""

_RANKING = dict.fromkeys(RANKING, T.INT) | dict.fromkeys(("percent_rank", "cume_dist"), T.DOUBLE)
_OFFSETS = ("lag", "lead")
_NAMES = {
    "first": "first",
    "first_value": "first",
    "any_value": "first",
    "last": "last",
    "last_value": "last",
    "nth_value": "nth_value",
}
_MOST = 2**31 - 1


@dataclass(frozen=True)
class Window:
    """Rows by which columns a function is over, and in which order."""

    partition: tuple[Expr, ...]
    order: tuple[OrderKey, ...]


@dataclass(frozen=True)
class WindowFrame:
    """Which rows of its partition a row's function is over: from ``start`` up to and with ``end``.

    Bounds of ``rows`` count rows, those before the row itself negative. Else 0 is the row with its peers, and an
    expression says up to which value of the one order key. None has no bound.
    """

    rows: bool
    start: int | Expr | None
    end: int | Expr | None


@dataclass(frozen=True)
class WindowCall:
    """One window function.

    ``call.function`` is an aggregate's, as ``AggregateCall`` says, or one of row_number, rank, dense_rank,
    percent_rank, cume_dist, ntile, lag, lead, first, last, nth_value. ``number`` is what lag, lead, nth_value and ntile
    count. lag and lead without an argument say whether there is such a row: true or null.
    """

    call: AggregateCall
    window: Window
    frame: WindowFrame | None = None
    number: int = 1
    ignore_nulls: bool = False

    @property
    def nullable(self) -> bool:
        """Whether it may be null."""
        return self.call.function not in NEVER_NULL

    @property
    def sql(self) -> str:
        """The function as it is called."""
        name, args = self.call.function, [a.sql for a in self.call.args]
        if name in _OFFSETS and not args:
            return f"{name}(…, {self.number}) is there"
        if name not in (*_RANKING, *_OFFSETS, *_NAMES):
            return self.call.sql
        if name in ("ntile", "nth_value", *_OFFSETS) and (name not in _OFFSETS or self.number != 1):
            args.append(str(self.number))
        return f"{name}({', '.join(args)}){' IGNORE NULLS' if self.ignore_nulls else ''}"


@dataclass(frozen=True)
class WindowExpr:
    """Window calls, and an expression over the row's own columns and columns ``#w0``, ``#w1`` … with their results."""

    calls: tuple[WindowCall, ...]
    result: Expr


def has_window(tree: exp.Expr) -> bool:
    """Whether a tree has a window function in it, outside of subqueries."""
    return next(_windows(tree), None) is not None


def parse_window(source: Source, schema: pa.Schema, builder: type[Builder] = Builder) -> WindowExpr:
    """Compile an expression in which window functions stand, ``f(args) OVER (PARTITION BY … ORDER BY … frame)``.

    ``builder`` says how names are resolved; those of a WINDOW clause are to have been replaced by what they mean.

    >>> found = parse_window(
    ...     "price - lag(price) OVER (ORDER BY day)", T.parse_schema("price bigint, day date")
    ... )
    >>> [c.call.sql for c in found.calls], found.result
    (['lag(price)'], <price - `#w0`: bigint>)

    Raises:
        UnsupportedFunctionError: a function that cannot have a window, or one that altneu does not maintain.
        TypeMismatchError: an argument, an order or a frame does not fit.
    """
    tree = tree_of(source)
    if isinstance(tree, exp.Alias):
        tree = tree.this
    tree = exp.Paren(this=tree.copy())  # whose child may be replaced like any other
    building = builder(schema)
    calls: list[WindowCall] = []
    results: dict[str, Expr] = {}
    try:
        for node in list(_windows(tree)):
            name = f"#w{len(calls)}"
            results[name] = _Call(node, building, calls).result()
            node.replace(exp.Column(this=exp.to_identifier(name, quoted=True)))
        building.variables = {**building.variables, **results}
        result = building.build(tree)
    except RecursionError:
        raise ExpressionSyntaxError("an expression is nested too deeply; split it over several select()") from None
    except PlanError as error:
        raise explained(error, source) from None
    return WindowExpr(tuple(calls), result)


def _windows(tree: exp.Expr) -> Iterator[exp.Window]:
    """The windows of a tree that are in no other, and in no subquery."""
    inside = (exp.Window, exp.Query)
    for node in tree.walk(prune=lambda n: isinstance(n, inside)):
        if isinstance(node, exp.Window):
            yield node


class _Call:
    """One window of a tree; its calls are noted in ``calls``, each once."""

    def __init__(self, node: exp.Window, builder: Builder, calls: list[WindowCall]) -> None:
        self.node, self.builder, self.calls = node, builder, calls
        self.ignore_nulls, self.condition, self.ordered = False, None, None
        nulls: type[exp.IgnoreNulls | exp.RespectNulls] | None = None
        inner = node.this
        while isinstance(inner, (exp.IgnoreNulls, exp.RespectNulls, exp.Filter, exp.WithinGroup)):
            if isinstance(inner, exp.Filter):
                self.condition = inner.expression.this
            elif isinstance(inner, exp.WithinGroup):
                self.ordered = inner.expression
            else:
                nulls = type(inner)
            inner = inner.this
        if not isinstance(inner, exp.Anonymous):
            raise ExpressionSyntaxError(f"{node.sql('spark')}: OVER must follow the call of a function")
        if nulls is not None:
            inner = with_nulls(inner, nulls)
        self.ignore_nulls = nulls is exp.IgnoreNulls
        self.name, self.arguments = inner.name.lower(), list(inner.expressions)
        if self.arguments and isinstance(self.arguments[0], (exp.IgnoreNulls, exp.RespectNulls)):
            self.ignore_nulls = isinstance(self.arguments[0], exp.IgnoreNulls)
            self.arguments[0] = self.arguments[0].this
        self.function = inner
        self.window = self._window()

    def result(self) -> Expr:
        """What stands in the window's place: a column with its result, or an expression of such columns."""
        name = self.name
        if self.ordered is not None and name not in AGGREGATES:
            raise UnsupportedFunctionError(f"{name}() has its order in OVER (… ORDER BY …); leave WITHIN GROUP out")
        if name in _RANKING:
            return self._ranking()
        if name in _OFFSETS:
            return self._collated(self._offset())
        if name in _NAMES and self.ordered is None:
            return self._collated(self._picked())
        if name == "counter_diff":
            return self._counted()
        if name not in AGGREGATES:
            known = ", ".join([*_RANKING, *_OFFSETS, *_NAMES, "counter_diff"])
            raise UnsupportedFunctionError(f"{name}() is not a window function; those are the aggregates and {known}")
        if self.ignore_nulls and name not in COLLECTED:
            raise UnsupportedFunctionError(f"{name}() takes no IGNORE NULLS here; write {name}(x, true)")
        frame = self._frame()
        return aggregate_expr(
            self.function,
            self.ordered,
            self.condition,
            self.builder,
            lambda built: self._column(WindowCall(built, self.window, frame)),
        )

    def _texts(self) -> list[Expr]:
        """The arguments of a function that gives values of the first one, without its collation."""
        args = [self.builder.build(n) for n in self.arguments]
        return [text_of(a) if i in (0, 2) else a for i, a in enumerate(args)]

    def _collated(self, result: Expr) -> Expr:
        """A value with the collation of the first argument, and of the default."""
        args = [self.builder.build(n) for i, n in enumerate(self.arguments) if i in (0, 2)]
        return with_collation(result, collation_among(self.name, args)[0])

    def _column(self, result: WindowCall) -> Expr:
        if result not in self.calls:
            self.calls.append(result)
        mark = mark_of_call(result.call)
        return Column(f"#w{self.calls.index(result)}", result.call.type, result.nullable, mark)

    def _made(self, args: tuple[Expr, ...], kind: pa.DataType) -> AggregateCall:
        if self.condition is not None:
            raise UnsupportedFunctionError(f"{self.name}() does not accept FILTER, which is for aggregates")
        return AggregateCall(_NAMES.get(self.name, self.name), False, args, None, kind)

    def _ranking(self) -> Expr:
        name = self.name
        self._in_order()
        args = [self.builder.build(n) for n in self.arguments]
        expect_count(name, args, 0, 1 if name == "ntile" else 0)
        number = self._number(args, 0, least=1)
        return self._column(WindowCall(self._made((), _RANKING[name]), self.window, number=number))

    def _offset(self) -> Expr:
        name = self.name
        self._in_order()
        args = self._texts()
        expect_count(name, args, 1, 3)
        number = self._number(args, 1, least=-_MOST)
        result = WindowCall(self._made((args[0],), args[0].type), self.window, None, number, self.ignore_nulls)
        if len(args) < 3 or (isinstance(args[2], Literal) and args[2].value is None):
            return self._column(result)
        default = cast(args[2], accept(name, 2, args[2], args[0].type) or args[0].type)
        if self.ignore_nulls and number:
            return call("coalesce", [self._column(result), default])
        value = self._column(result)
        there = self._column(WindowCall(self._made((), T.BOOLEAN), self.window, None, number))
        return call("case", [there, value, default])

    def _counted(self) -> Expr:
        """``counter_diff``: the value less the last one before it that is neither null nor an error."""
        name = self.name
        self._in_order()
        if self.ignore_nulls:
            raise UnsupportedFunctionError(f"{name}() ignores nulls already; leave IGNORE NULLS out")
        value, *starts = args = [self.builder.build(n) for n in self.arguments]
        expect_count(name, args, 1, 2)
        if not is_numeric(value.type):
            raise TypeMismatchError(f"{name} takes a number, not {T.type_name(value.type)} (`{value.text}`); cast it")
        if starts and starts[0].type not in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
            kind = T.type_name(starts[0].type)
            raise TypeMismatchError(f"{name}: the start `{starts[0].text}` must be a timestamp, not {kind}; cast it")
        zero, missing = cast(Literal(0, T.INT), value.type), Literal(None, value.type)
        parts = [e for i, arg in enumerate(args) for e in (Literal(f"c{i}", T.STRING), arg)]
        counter = call("case", [call(">=", [value, zero]), call("named_struct", parts)])
        made = replace(self._made((counter,), counter.type), function="lag")
        last = self._column(WindowCall(made, self.window, None, 1, True))
        before, *starts_before = [get_field(last, f"c{i}") for i in range(len(args))]

        def failed(code: str, why: str) -> Expr:
            return call("raise_error", [Literal(code, T.STRING), Literal(f"{name}: {why}", T.STRING)])

        branches = [
            *(call("<", [value, zero]), failed("COUNTER_DIFF_NEGATIVE_COUNTER_VALUE", "the counter is negative")),
            *(call("<", [value, before]), missing),
        ]
        for start, earlier in zip(starts, starts_before, strict=True):
            why = "the time of the counter's start is before that of the row before"
            wrong = failed("COUNTER_DIFF_START_TIME_DECREASED", why)
            present = call("isnotnull", [value])
            branches[2:2] = [call("and", [present, call("<", [start, earlier])]), wrong]
            branches += [call(">", [start, earlier]), missing]
        grown = cast(call("-", [value, before]), value.type, implicit=False)
        return call("case", [*branches, grown])

    def _picked(self) -> Expr:
        name = self.name
        if name == "nth_value":
            self._in_order()
        args = self._texts()
        expect_count(name, args, 1, 2)
        number, ignored = 1, self.ignore_nulls
        if name == "nth_value":
            expect_count(name, args, 2)
            number = self._number(args, 1, least=1)
        elif len(args) == 2:
            if not isinstance(args[1], Literal) or args[1].type != T.BOOLEAN or args[1].value is None:
                raise TypeMismatchError(f"{name}: its second argument must be true, which ignores nulls, or false")
            ignored = ignored or bool(args[1].value)
        result = self._made((args[0],), args[0].type)
        return self._column(WindowCall(result, self.window, self._frame(), number, ignored))

    def _number(self, args: Sequence[Expr], at: int, least: int) -> int:
        """A constant argument; 1 where it is not given."""
        if len(args) <= at:
            return 1
        value = args[at]
        if not isinstance(value, Literal) or value.type not in INTEGRAL or value.value is None:
            raise TypeMismatchError(f"{self.name}: `{value.text}` must be a constant whole number")
        if not least <= value.value <= _MOST:
            raise TypeMismatchError(f"{self.name}: {value.value} must be from {least} to {_MOST}")
        return int(value.value)

    def _in_order(self) -> None:
        """Refuse a window without an order, or with a frame, for functions that know only the order."""
        if not self.window.order:
            raise TypeMismatchError(f"{self.name}() asks for the order of rows: OVER (… ORDER BY …)")
        if self.name != "nth_value" and self.node.args.get("spec") is not None:
            raise TypeMismatchError(f"{self.name}() takes no frame ({self.node.args['spec'].sql('spark')})")

    def _window(self) -> Window:
        node = self.node
        if node.args.get("alias") is not None:
            raise ExpressionSyntaxError(f"the window {node.alias!r} is not known here: write it out, OVER (…)")
        partition = [key_of_order(self.builder.build(n)) for n in node.args.get("partition_by") or ()]
        for one in partition:
            if what := T.uncompared(one.type):
                raise TypeMismatchError(f"PARTITION BY {one.text}: {what} cannot be compared")
        order = node.args.get("order")
        keys = [order_key(tree, self.builder) for tree in (order.expressions if order is not None else ())]
        return Window(tuple(p for p in partition if not p.is_literal), tuple(keys))

    # frames

    def _frame(self) -> WindowFrame:
        """The frame that is written, or else Spark's: rows up to the row's peers, or all where there is no order."""
        spec = self.node.args.get("spec")
        if spec is None:
            return WindowFrame(rows=False, start=None, end=0 if self.window.order else None)
        kind, shown = spec.args["kind"].upper(), spec.sql("spark")
        if spec.args.get("exclude") is not None or kind not in ("ROWS", "RANGE"):
            raise UnsupportedFunctionError(f"the frame {shown!r} is not supported: ROWS or RANGE, without EXCLUDE")
        start, end = results = [self._bound(spec, side) for side in ("start", "end")]
        if isinstance(start, _Offset) and isinstance(end, _Offset) and start.follows(end):
            raise TypeMismatchError(f"the frame {shown!r} ends before it begins")
        if kind == "ROWS":
            return WindowFrame(True, *(b.count(shown) if isinstance(b, _Offset) else b for b in results))
        if results != [None, None] and not self.window.order:
            raise TypeMismatchError(f"the frame {shown!r} asks for the order of rows: OVER (… ORDER BY …)")
        return WindowFrame(False, *(self._value(b, shown) if isinstance(b, _Offset) else b for b in results))

    def _bound(self, spec: exp.Expr, which: str) -> _Offset | int | None:
        """0 for the current row, None without a bound, else a constant."""
        value, side = spec.args.get(which), str(spec.args.get(f"{which}_side")).upper()
        if value is None or (isinstance(value, str) and value.upper() == "CURRENT ROW"):
            return 0
        if isinstance(value, str):
            if side != ("PRECEDING" if which == "start" else "FOLLOWING"):
                raise TypeMismatchError(f"the frame {spec.sql('spark')!r} ends before it begins")
            return None
        result = self.builder.build(value)
        if not isinstance(result, Literal) or result.value is None:
            raise TypeMismatchError(f"the bound {value.sql('spark')!r} of a frame must be a constant")
        return _Offset(result, side == "PRECEDING")

    def _value(self, bound: _Offset, shown: str) -> Expr:
        """The value of the order key that a frame reaches to."""
        if len(self.window.order) != 1:
            raise TypeMismatchError(f"the frame {shown!r} has a value as a bound, which needs exactly one order key")
        key, by = self.window.order[0], bound.by
        kind = key.expr.type
        if is_numeric(kind) and is_numeric(by.type):
            narrow = cast(by, kind, implicit=False)
            if not isinstance(narrow, Literal):
                raise TypeMismatchError(f"the frame {shown!r}: {by.text} must be {T.type_name(kind)}")
            by = narrow
        elif T.STRING in (kind, by.type):
            raise TypeMismatchError(
                f"the frame {shown!r} cannot have a value as a bound if it is ordered by {T.type_name(kind)}"
            )
        result = self.builder.operate("-" if key.descending != bound.before else "+", key.expr, by)
        if is_decimal(kind):
            result = cast(result, pa.decimal128(min(38, kind.precision + 1), kind.scale), implicit=False)
        elif result.type != kind:
            raise TypeMismatchError(
                f"the frame {shown!r}: {T.type_name(kind)} and {T.type_name(by.type)} cannot be added for such a bound"
            )
        return result


@dataclass(frozen=True)
class _Offset:
    """A constant bound of a frame: so far before the current row, or after it."""

    by: Literal
    before: bool

    def follows(self, other: _Offset) -> bool:
        """Whether it is behind another one."""
        if self.by.type != other.by.type:
            return False
        one, two = (-b.by.value if b.before else b.by.value for b in (self, other))
        return bool(one > two)

    def count(self, shown: str) -> int:
        """The same in rows."""
        if self.by.type not in INTEGRAL:
            raise TypeMismatchError(f"the frame {shown!r} must count rows with whole numbers")
        return int(-self.by.value if self.before else self.by.value)


__all__ = ["FUNCTIONS", "Window", "WindowCall", "WindowExpr", "WindowFrame", "has_window", "parse_window"]
