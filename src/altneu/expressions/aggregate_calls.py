"""What each aggregate takes and gives: how it is written, and the calls that compute it.

Some are calls of their own, others expressions over the results of others: ``max_by(x, y)`` is the ``x`` of the
greatest struct of both, ``listagg`` joins the text of a list.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from altneu import types as T
from altneu.errors import TypeMismatchError, UnsupportedFunctionError
from altneu.expressions import catalogue
from altneu.expressions.catalogue import INSTEAD
from altneu.expressions.coercion import INTEGRAL, is_decimal, is_numeric
from altneu.expressions.construct import call, cast, get_field, literal
from altneu.expressions.expr import Call, Expr, Literal
from altneu.expressions.names import MOMENTS_OF_ONE, MOMENTS_OF_TWO, NEVER_NULL, PICKED
from altneu.expressions.parse import OrderKey
from altneu.expressions.rules import expect_count


@dataclass(frozen=True)
class AggregateCall:
    """One aggregate over the rows of a group.

    ``function`` is one of count, sum, avg, try_sum, try_avg, min, max, collect_list, collect_set, count_if, bool_and,
    bool_or, bit_and, bit_or, bit_xor, mode, percentile, percentile_disc and ``MOMENTS``. ``count`` without arguments
    counts rows. Arguments have the types the function wants (a sum's are bigint, double, decimal or interval);
    ``filter`` keeps rows that enter; ``type`` is the result's, and the result is null on no rows unless it is a count
    or a collection. ``options``: a percentile's fraction and whether it is counted from the greatest value on; whether
    a mode is the greatest of the most frequent values; of an ordered collect_list (descending, nulls first) for each
    argument behind the first, and whether the first itself descends.
    """

    function: str
    distinct: bool
    args: tuple[Expr, ...]
    filter: Expr | None
    type: pa.DataType
    options: tuple[Any, ...] = ()

    @property
    def nullable(self) -> bool:
        """Whether a group without values gives null."""
        return self.function not in NEVER_NULL

    @property
    def sql(self) -> str:
        """Its text."""
        inside = ", ".join([*(a.sql for a in self.args), *map(str, self.options)]) or "*"
        text = f"{self.function}({'DISTINCT ' if self.distinct else ''}{inside})"
        return text if self.filter is None else f"{text} FILTER (WHERE {self.filter.sql})"


@dataclass(frozen=True)
class Written:
    """An aggregate as it is written, its parts compiled; ``order`` is that of WITHIN GROUP, ``nulls`` RESPECT NULLS."""

    name: str
    args: tuple[Expr, ...]
    distinct: bool
    order: tuple[OrderKey, ...]
    filter: Expr | None
    add: Callable[[AggregateCall], Expr]
    nulls: bool = False

    def call(
        self, function: str, args: Sequence[Expr], type_: pa.DataType, *options: Any, distinct: bool | None = None
    ) -> Expr:
        """The result of one call, with this one's filter."""
        once = self.distinct if distinct is None else distinct
        return self.add(AggregateCall(function, once, tuple(args), self.filter, type_, options))

    def wants(self, least: int, most: int | None = None) -> None:
        """Check the number of arguments."""
        expect_count(self.name, self.args, least, most)

    def refused(self, value: Expr, wanted: str) -> TypeMismatchError:
        """The error of an argument of the wrong type."""
        return TypeMismatchError(f"{self.name}({value.text}) takes {wanted}, not {T.type_name(value.type)}; cast it")


Handler = Callable[[Written], Expr]


def _count(it: Written) -> Expr:
    it.wants(1, 1000)
    if not it.distinct and all(a.is_literal and not a.nullable for a in it.args):
        return it.call("count", (), T.LONG)
    if it.distinct and (what := next(filter(None, (T.uncompared(a.type) for a in it.args)), "")):
        raise TypeMismatchError(f"count(DISTINCT {it.args[0].text}): {what} cannot be compared")
    return it.call("count", it.args, T.LONG)


def _approx_count_distinct(it: Written) -> Expr:
    it.wants(1, 2)
    return _count(replace(it, name="count", args=it.args[:1], distinct=True))


def _sum(it: Written) -> Expr:
    it.wants(1)
    value, summed = it.args[0], it.name in ("sum", "try_sum")
    if value.type in (T.NULL, T.TIMESTAMP):  # a timestamp as its seconds
        value = cast(value, T.DOUBLE)
    if is_decimal(value.type):
        whole, scale = (10, 0) if summed else (4, 4)
        kind = pa.decimal128(min(38, value.type.precision + whole), min(38, value.type.scale + scale))
        return it.call(it.name, (value,), kind)
    if value.type == T.DAY_TIME:
        return it.call(it.name, (value,), T.DAY_TIME)
    if not is_numeric(value.type):
        raise it.refused(value, "numbers")
    if value.type in INTEGRAL:
        return it.call(it.name, (cast(value, T.LONG),), T.LONG if summed else T.DOUBLE)
    return it.call(it.name, (cast(value, T.DOUBLE),), T.DOUBLE)


def _boolean(it: Written) -> Expr:
    it.wants(1)
    value = it.args[0]
    if value.type not in (T.BOOLEAN, T.NULL):
        raise TypeMismatchError(f"{it.name}({value.text}) takes a boolean, not {T.type_name(value.type)}")
    counted = it.name == "count_if"
    return it.call(
        it.name, (cast(value, T.BOOLEAN),), T.LONG if counted else T.BOOLEAN, distinct=it.distinct and counted
    )


def _extreme(it: Written) -> Expr:
    it.wants(1)
    return it.call(it.name, (_ordered(it, it.args[0]),), it.args[0].type, distinct=False)


def _any_value(it: Written) -> Expr:
    it.wants(1, 2)
    return it.call("min", (_ordered(it, it.args[0]),), it.args[0].type, distinct=False)


def _ordered(it: Written, value: Expr) -> Expr:
    if what := T.uncompared(value.type):
        raise TypeMismatchError(f"{it.name}({value.text}): {what} cannot be compared; take what you need of them")
    return value


def _with_nulls(it: Written, listed: Handler) -> Expr:
    """All values, nulls before the others: those of structs, none of which is null."""
    value = it.args[0]
    row = call("named_struct", [literal("value"), value])
    order = tuple(
        replace(key, expr=row) if key.expr == value and key.nulls_first != key.descending else key for key in it.order
    )
    return get_field(listed(replace(it, args=(row,), order=order, nulls=False)), "value")


def _list(it: Written) -> Expr:
    """The values that are not null in the order that is asked for, else in their own."""
    it.wants(1)
    if it.nulls:
        return _with_nulls(it, _list)
    value = it.args[0]
    behind = next((i for i, key in enumerate(it.order) if key.expr == value), len(it.order))
    keys = it.order[:behind]
    descending = behind < len(it.order) and it.order[behind].descending
    if it.distinct:
        if keys:
            raise TypeMismatchError(
                f"{it.name}(DISTINCT {value.text}) is ordered by its own values only: WITHIN GROUP (ORDER BY "
                f"{value.text})"
            )
        _ordered(it, value)
    listed = T.list_type(value.type)
    if it.distinct:
        distinct = it.call("collect_set", (value,), listed, distinct=False)
        return call("reverse", [distinct]) if descending else distinct
    for key in keys:
        _ordered(it, key.expr)
    options = (*((key.descending, key.nulls_first) for key in keys), descending) if keys or descending else ()
    return it.call("collect_list", (value, *(key.expr for key in keys)), listed, *options)


def _collect_set(it: Written) -> Expr:
    it.wants(1)
    if it.nulls:
        return _with_nulls(it, _collect_set)
    value = _ordered(it, it.args[0])
    return it.call("collect_set", (value,), T.list_type(value.type), distinct=False)


def _schema_of_variants(it: Written) -> Expr:
    """Of the distinct types of the values, merged in their order as texts."""
    it.wants(1)
    kind = call("schema_of_variant", [it.args[0]])
    found = it.call("collect_set", (kind,), T.list_type(T.STRING), distinct=False)
    return call("merged_variant_schema", [found])


def _listagg(it: Written) -> Expr:
    it.wants(1, 2)
    value, delimiter = it.args[0], it.args[1] if len(it.args) > 1 else literal("")
    if not isinstance(delimiter, Literal) or delimiter.type not in (T.STRING, T.NULL):
        raise TypeMismatchError(f"{it.name}: the delimiter `{delimiter.text}` must be a constant text")
    if value.type == T.BINARY:
        raise TypeMismatchError(f"{it.name}({value.text}) takes texts, not binary; use hex or base64, or collect_list")
    listed = _list(replace(it, args=(cast(value, T.STRING) if value.type == T.NULL else value,)))
    texts = cast(listed, T.list_type(T.STRING))
    joined = call("array_join", [texts, literal(delimiter.value or "")])
    return call("case", [call(">", [call("size", [listed]), literal(0)]), joined])


def _by(it: Written) -> Expr:
    """The value at which another one is greatest or least; ties are decided by the value itself."""
    it.wants(2, 3)
    value, key = it.args[0], it.args[1]
    if what := T.uncompared(key.type):
        raise TypeMismatchError(f"{it.name}(…, {key.text}): {what} cannot be compared")
    key = cast(key, T.BOOLEAN) if key.type == T.NULL else key
    pair = call("named_struct", [literal("key"), key, literal("value"), value])
    some = call("case", [call("isnotnull", [key]), pair])
    if len(it.args) == 2:
        return get_field(it.call(it.name[:3], (some,), some.type, distinct=False), "value")
    many = it.args[2]
    if not isinstance(many, Literal) or many.type not in INTEGRAL or many.value is None or many.value < 1:
        raise TypeMismatchError(f"{it.name}: how many, `{many.text}`, must be a constant whole number above 0")
    options = (True,) if it.name == "max_by" else ()
    if it.distinct:
        raise TypeMismatchError(f"{it.name} takes no DISTINCT with a number; make the rows distinct first")
    listed = it.call("collect_list", (some,), T.list_type(some.type), *options)
    first = get_field(call("slice", [listed, literal(1), many]), "value")
    return call("case", [call(">", [call("size", [listed]), literal(0)]), first])


def _picked(it: Written) -> Expr:
    """The value of the first or last row in an order; of rows that are equal in it, the least or greatest value."""
    it.wants(1, 2)
    if not it.order:
        raise refusal(it.name)
    if it.distinct:
        raise TypeMismatchError(f"{it.name} takes no DISTINCT; make the rows distinct first")
    value, ignore = it.args[0], it.args[1] if len(it.args) > 1 else literal(False)
    if not isinstance(ignore, Literal) or not isinstance(ignore.value, bool):
        raise TypeMismatchError(f"{it.name}: whether nulls are passed over, `{ignore.text}`, must be true or false")
    _ordered(it, value)
    for key in it.order:
        _ordered(it, key.expr)
    backwards = it.name.startswith("last")
    keys = tuple((key.descending != backwards, key.nulls_first != backwards) for key in it.order)
    descending = keys[0][0]
    # An order of structs, in which nulls are least, is one of which only the first rows need to be read.
    is_plain = set(keys) == {(descending, not descending)}
    fields = [part for i, key in enumerate(it.order) for part in (literal(f"key{i}"), key.expr)] if is_plain else []
    row = call("named_struct", [*fields, literal("value"), value])
    if ignore.value:
        row = call("case", [call("isnotnull", [value]), row])
    beside, options = ((), (descending,) * descending) if is_plain else ([k.expr for k in it.order], (*keys, backwards))
    listed = it.call("collect_list", (row, *beside), T.list_type(row.type), *options)
    return get_field(call("get", [call("slice", [listed, literal(1), literal(1)]), literal(0)]), "value")


def _collect_union(it: Written) -> Expr:
    """The elements of all arrays that are not null, each once."""
    it.wants(1)
    value = _ordered(it, it.args[0])
    if not pa.types.is_list(value.type):
        raise it.refused(value, "arrays")
    arrays = it.call("collect_set", (value,), T.list_type(value.type), distinct=False)
    return call("array_compact", [call("array_distinct", [call("flatten", [arrays])])])


def _bitmap(it: Written) -> Expr:
    it.wants(1)
    of_places = it.name == "bitmap_construct_agg"
    if not of_places and it.args[0].type != T.BINARY:
        raise it.refused(it.args[0], "bitmaps, binary")
    value = cast(it.args[0], T.LONG) if of_places else it.args[0]
    collected = it.call("collect_set", (value,), T.list_type(value.type), distinct=False)
    return call({"bitmap_construct_agg": "bitmap_of"}.get(it.name, it.name.removesuffix("_agg")), [collected])


def _mode(it: Written) -> Expr:
    it.wants(0, 0) if it.order else it.wants(1, 2)
    if it.distinct:
        raise TypeMismatchError("mode(DISTINCT …): every value would be as frequent as any other; use min or max")
    value = _only_key(it).expr if it.order else it.args[0]
    greatest = bool(it.order) and it.order[0].descending
    return it.call("mode", (_ordered(it, value),), value.type, greatest)


def _only_key(it: Written) -> OrderKey:
    if len(it.order) != 1:
        raise TypeMismatchError(f"{it.name} needs WITHIN GROUP (ORDER BY …) with one expression, not {len(it.order)}")
    return it.order[0]


def _percentile(it: Written) -> Expr:
    if it.name == "median":
        it.wants(1)
        return _at(it, "percentile", _measured(it, it.args[0]), literal(0.5))
    if len(it.args) == 3 and isinstance(it.args[2], Literal) and it.args[2].value == 1:
        it = replace(it, args=it.args[:2])  # PySpark always writes how often a value counts
    if len(it.args) == 3:
        raise UnsupportedFunctionError(
            f"percentile({it.args[0].text}, …, {it.args[2].text}) with frequencies is not supported: "
            "repeat the rows (repeat_row) and use percentile(x, p)"
        )
    it.wants(2)
    return _at(it, "percentile", _measured(it, it.args[0]), it.args[1])


def _percentile_in_order(it: Written) -> Expr:
    it.wants(1)
    if not it.order:
        raise TypeMismatchError(f"{it.name}({it.args[0].text}) is written with WITHIN GROUP (ORDER BY x)")
    if it.distinct:
        raise TypeMismatchError(f"{it.name} takes no DISTINCT; use percentile(DISTINCT x, p)")
    key = _only_key(it)
    function = "percentile" if it.name == "percentile_cont" else "percentile_disc"
    return _at(it, function, _measured(it, key.expr), it.args[0], key.descending)


def _percentile_approx(it: Written) -> Expr:
    it.wants(2, 3)
    value = cast(it.args[0], T.DOUBLE) if it.args[0].type in (T.NULL, T.STRING) else it.args[0]
    if not is_numeric(value.type) and value.type not in (T.DATE, T.TIME, T.TIMESTAMP, T.TIMESTAMP_NTZ, T.DAY_TIME):
        raise it.refused(value, "a number, a date, a time, a timestamp or an interval")
    return _at(it, "percentile_disc", value, it.args[1])


def _measured(it: Written, value: Expr) -> Expr:
    """A number as a double, an interval as it is."""
    return value if value.type == T.DAY_TIME else _double(it, value)


def _double(it: Written, value: Expr) -> Expr:
    if value.type not in (T.STRING, T.NULL) and not is_numeric(value.type):
        raise it.refused(value, "numbers")
    return cast(value, T.DOUBLE)


def _at(it: Written, function: str, value: Expr, place: Expr, descending: bool = False) -> Expr:
    if not (isinstance(place, Call) and place.name == "array" and place.args):
        return it.call(function, (value,), value.type, _fraction(it, place), descending)
    results = [it.call(function, (value,), value.type, _fraction(it, p), descending) for p in place.args]
    return call("case", [call("isnotnull", [results[0]]), call("array", results)])


def _fraction(it: Written, place: Expr) -> float:
    value = place.value if isinstance(place, Literal) and is_numeric(place.type) else None
    if value is None or not 0 <= value <= 1:
        raise TypeMismatchError(f"{it.name}: `{place.text}` must be a constant between 0 and 1, or an array of them")
    return float(value)


def _moment(it: Written) -> Expr:
    it.wants(1)
    name = {"stddev": "stddev_samp", "std": "stddev_samp", "variance": "var_samp"}.get(it.name, it.name)
    return it.call(name, (_double(it, it.args[0]),), T.DOUBLE)


def _pair(it: Written) -> tuple[Expr, Expr]:
    """Both arguments as doubles, each null where either is."""
    it.wants(2)
    first, second = (_double(it, value) for value in it.args)
    return _beside(first, second), _beside(second, first)


def _beside(value: Expr, other: Expr) -> Expr:
    return call("case", [call("isnotnull", [other]), value]) if other.nullable and other != value else value


def _moment_of_two(it: Written) -> Expr:
    return it.call(it.name, _pair(it), T.DOUBLE)


def _regression(it: Written) -> Expr:
    """What is an aggregate of one side of the pairs only."""
    it.wants(2)
    if it.distinct:
        raise TypeMismatchError(f"{it.name} takes no DISTINCT; make the pairs distinct first")
    first, second = it.args
    if it.name in ("regr_avgx", "regr_avgy"):
        value = _beside(second, first) if it.name == "regr_avgx" else _beside(first, second)
        return _sum(replace(it, name="avg", args=(value,)))
    first, second = _pair(it)
    if it.name == "regr_count":
        return it.call("count", (second,), T.LONG)
    return it.call("regr_sxx", (second if it.name == "regr_sxx" else first,), T.DOUBLE)


def _bits(it: Written) -> Expr:
    it.wants(1)
    value = cast(it.args[0], T.INT) if it.args[0].type == T.NULL else it.args[0]
    if value.type not in INTEGRAL:
        raise it.refused(value, "whole numbers")
    return it.call(it.name, (value,), value.type, distinct=it.distinct and it.name == "bit_xor")


_OF_ONE_SIDE = ("regr_count", "regr_avgx", "regr_avgy", "regr_sxx", "regr_syy")

HANDLERS: dict[str, Handler] = {
    "count": _count,
    "approx_count_distinct": _approx_count_distinct,
    **dict.fromkeys(("sum", "avg", "try_sum", "try_avg"), _sum),
    **dict.fromkeys(("min", "max"), _extreme),
    "any_value": _any_value,
    **dict.fromkeys(("max_by", "min_by"), _by),
    "collect_list": _list,
    "collect_set": _collect_set,
    "collect_union": _collect_union,
    **dict.fromkeys(PICKED, _picked),
    **dict.fromkeys(("bitmap_construct_agg", "bitmap_or_agg", "bitmap_and_agg"), _bitmap),
    **dict.fromkeys(("listagg", "string_agg"), _listagg),
    **dict.fromkeys(("count_if", "bool_and", "bool_or"), _boolean),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor"), _bits),
    "mode": _mode,
    "schema_of_variant_agg": _schema_of_variants,
    **dict.fromkeys(("median", "percentile"), _percentile),
    **dict.fromkeys(("percentile_cont", "percentile_disc"), _percentile_in_order),
    **dict.fromkeys(("percentile_approx", "approx_percentile"), _percentile_approx),
    **dict.fromkeys(("stddev", "std", "variance", *MOMENTS_OF_ONE), _moment),
    **dict.fromkeys(MOMENTS_OF_TWO, _moment_of_two),
    **dict.fromkeys(_OF_ONE_SIDE, _regression),
}
"""What is made of each aggregate, by name."""

ALIASES = {"mean": "avg", "array_agg": "collect_list", "every": "bool_and", "any": "bool_or", "some": "bool_or"}
WITH_ORDER = (*PICKED, "collect_list", "listagg", "string_agg", "mode", "percentile_cont", "percentile_disc")
"""Aggregates that may be followed by WITHIN GROUP (ORDER BY …)."""


def refusal(name: str) -> UnsupportedFunctionError:
    """The error of an aggregate that is not maintained: why, and what is nearest."""
    instead = INSTEAD.get(name) or catalogue.refusal(name)
    if instead is None:
        instead = f"use one of {', '.join(sorted(HANDLERS))}, or reduce(fn)"
    return UnsupportedFunctionError(f"the aggregate {name}() is not supported: {instead}")


AGGREGATES = (
    ("count(*)", "Number of rows, a bigint."),
    ("count(a)", "Number of rows on which a is not null; `count(a, b)`: on which neither is null."),
    (
        "count(DISTINCT a, b)",
        "Number of distinct values without a null. `approx_count_distinct(a)` is the same, and exact.",
    ),
    (
        "sum(a), sum(DISTINCT a)",
        (
            "Sum: a bigint for whole numbers (an error beyond its range), a double, a decimal with ten more digits, or "
            "an interval; of timestamps their seconds, as a double. `try_sum(a)` is null beyond the range."
        ),
    ),
    (
        "avg(a), mean(a), avg(DISTINCT a)",
        (
            "Mean: a double, a decimal with four more digits on each side of the point, or an interval; of timestamps "
            "their seconds. `try_avg(a)` is null beyond the range."
        ),
    ),
    (
        "stddev(a), stddev_samp(a), std(a), stddev_pop(a)",
        "Standard deviation, from exact sums: within a few units in the last place, even if sums cancel.",
    ),
    ("variance(a), var_samp(a), var_pop(a)", "Variance, from exact sums."),
    ("skewness(a), kurtosis(a)", "Third and fourth moment of the deviations, from exact sums."),
    (
        "covar_samp(a, b), covar_pop(a, b), corr(a, b)",
        "Covariance and correlation of the pairs without a null, from exact sums.",
    ),
    (
        "regr_slope(y, x), regr_intercept(y, x), regr_r2(y, x)",
        "The line of least squares. Also `regr_count`, `regr_avgx`, `regr_avgy`, `regr_sxx`, `regr_syy`, `regr_sxy`.",
    ),
    ("min(a), max(a)", "Least and greatest value."),
    ("any_value(a)", "The least value; null if there is none."),
    (
        "first(a[, ignore nulls]) WITHIN GROUP (ORDER BY b [DESC], …), last(…)",
        (
            "The a of the first or last row in an order; of several such rows the least or greatest a. Also "
            "`first_value`, `last_value`."
        ),
    ),
    (
        "max_by(a, b), min_by(a, b)",
        (
            "The a of the row with the greatest or least non-null b; among several such rows, the greatest or least a. "
            "`max_by(a, b, n)` returns an array of n."
        ),
    ),
    ("mode(a)", "The most frequent value; the least of several. Also `mode() WITHIN GROUP (ORDER BY a [DESC])`."),
    (
        "median(a), percentile(a, p)",
        (
            "The value at the fraction p of the sorted values, interpolated between two of them: a double, or an "
            "interval. For an array of fractions the result is an array."
        ),
    ),
    (
        "percentile_cont(p) WITHIN GROUP (ORDER BY a [DESC])",
        "Like `percentile(a, p)`. `percentile_disc`: the first value with at least the fraction p of values up to it.",
    ),
    (
        "percentile_approx(a, p), approx_percentile(a, p)",
        "The least value with at least the fraction p of the values up to it; exact, whatever the accuracy argument.",
    ),
    (
        "collect_list(a), array_agg(a)",
        "Every value that is not null, with RESPECT NULLS all; in the order of values.",
    ),
    ("collect_set(a)", "Every distinct value that is not null, with RESPECT NULLS null too; in order."),
    ("collect_union(a)", "Every distinct element of the arrays that is not null."),
    (
        "bitmap_construct_agg(n), bitmap_or_agg(b), bitmap_and_agg(b)",
        "The bitmap of 32768 bits at the places n, from 0; the bits in some, or in all bitmaps.",
    ),
    (
        "listagg([DISTINCT] a[, delimiter]) [WITHIN GROUP (ORDER BY b [DESC], …)], string_agg(…)",
        "The texts of the non-null values, joined in the order of b and then of the values.",
    ),
    (
        "schema_of_variant_agg(v)",
        "The type of all variants of a column, such as `OBJECT<a: BIGINT, b: VARIANT>`; `VOID` if there are none.",
    ),
    ("count_if(a)", "Number of rows on which a is true."),
    ("bool_and(a), every(a)", "Whether a is true on every row on which it is not null."),
    ("bool_or(a), any(a), some(a)", "Whether a is true on some row."),
    ("bit_and(a), bit_or(a), bit_xor(a)", "The bits set in all, in some, or in an odd number of the whole numbers."),
)
"""How aggregates are written, for docs/functions.md."""
