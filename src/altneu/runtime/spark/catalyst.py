"""Expressions as Spark's own columns, where Spark means exactly the same by them whatever its settings are.

What is translated here is evaluated in the JVM, before any row comes to Python; and a filter lets Spark skip the files,
partitions and row groups that have none of the rows. So nothing is translated whose meaning depends on a setting of the
session (ANSI mode, the time zone, collations). Comparisons of floating-point numbers are not either: files written
elsewhere have statistics that leave NaN out, by which Spark skips rows that are greater than all numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import reduce
from operator import add, and_, eq, ge, gt, le, lt, mul, ne, or_, sub
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types as pt

from altneu import types as T
from altneu.expressions.coercion import INTEGRAL
from altneu.expressions.expr import Call, Expr, Literal
from altneu.expressions.failing import call_never_fails, never_fails
from altneu.runtime.spark.versions import spark_type
from altneu.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_COMPARED = (T.BOOLEAN, *INTEGRAL, T.STRING, T.BINARY, T.DATE, T.TIMESTAMP, T.TIMESTAMP_NTZ)
_MOST_STEPS = 32  # results that may fail; each is one more step in Spark's plan
_SUFFIXES = dict(zip(INTEGRAL, ("Y", "S", "", "L"), strict=True))
_PLAIN = re.compile(r"[\w .:/-]*")  # texts without escapes and variables
_MOST_SHOWN = 20  # constants of IN, in words
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


class Untranslatable(Exception):  # noqa: N818  # no error: what Spark cannot be asked is done here
    """Spark may mean something else by an expression, or cannot evaluate it at all."""


@dataclass
class Translator:
    """Translates expressions over the columns of a DataFrame.

    Wherever an expression fails, at least one condition in ``failed`` is true; elsewhere one may be true too. The value
    of an expression that fails is arbitrary. Columns must be read from ``frame``, to which each result that may fail
    is added as a column, so that it is computed once; the names of these begin with ``prefix``.
    """

    frame: DataFrame
    prefix: str = "#computed"
    failed: list[Column] = field(default_factory=list)
    _typed: list[tuple[Column, pa.DataType]] = field(default_factory=list)
    _known: dict[Expr, Column] = field(default_factory=dict)

    def column(self, expr: Expr) -> Column:
        """An expression as a column.

        Raises:
            Untranslatable: Spark may mean something else by it.
        """
        from pyspark.sql import functions as sf

        if isinstance(expr, Literal):
            return _constant(expr)
        if expr.is_column:
            return sf.col(quote_name(expr.column_name))
        if not isinstance(expr, Call) or expr.name not in _CALLS:
            raise Untranslatable(expr.sql)
        return _CALLS[expr.name](self, expr)

    def once(self, expr: Expr, column: Column) -> Column:
        """Compute the value of an expression as a column of the frame."""
        from pyspark.sql import functions as sf

        if expr not in self._known:
            if len(self._known) == _MOST_STEPS:
                raise Untranslatable(expr.sql)
            name = f"{self.prefix}{len(self._known)}"
            self.frame = self.frame.withColumn(name, column)
            self._known[expr] = sf.col(quote_name(name))
        return self._known[expr]

    def columns(self, exprs: Iterable[Expr]) -> list[Column]:
        """Several expressions."""
        return [self.column(expr) for expr in exprs]

    def computed(self, column: Column, kind: pa.DataType) -> Column:
        """Note the type that a column must have, for ``check``."""
        self._typed.append((column, kind))
        return column

    def check(self) -> None:
        """Check that Spark gives the results of arithmetic the types that they have here.

        Raises:
            Untranslatable: a setting gives one of them another type.
        """
        if self._typed:
            named = [column.alias(f"c{i}") for i, (column, _) in enumerate(self._typed)]
            fields = self.frame.select(*named).schema.fields
            for found, (_, kind) in zip(fields, self._typed, strict=True):
                if found.dataType != spark_type(kind):
                    raise Untranslatable(found.name)


def filter_of(frame: DataFrame, alternatives: Collection[Collection[Expr]]) -> tuple[Column, str] | None:
    """A filter that keeps at least the rows on which all tests of one of the alternatives are true, and its text.

    Tests that are not translated are left out; none of them can fail. None where an alternative keeps all rows.
    """
    plain = plain_columns(frame)
    results: list[Column] = []
    texts: list[str] = []
    for tests in dict.fromkeys(map(tuple, alternatives)):
        translated = {test: t for test in tests if (t := _test(frame, test, plain)) is not None}
        if not translated:
            return None
        results.append(reduce(and_, translated.values()))
        texts.append(" AND ".join(map(_said, translated)))
    return (reduce(or_, results), " OR ".join(texts)) if results else None


def _said(test: Expr) -> str:
    """A test in words; of many constants, the first and how many there are."""
    if not isinstance(test, Call) or test.name != "in" or len(test.args) <= _MOST_SHOWN:
        return test.sql
    value, first = test.args[:2]
    return f"{value.sql} IN ({first.sql}, …: {len(test.args) - 1} values)"


def _test(frame: DataFrame, expr: Expr, plain: Collection[str]) -> Column | None:
    if not never_fails(expr) or not expr.columns <= {*plain}:
        return None
    to = Translator(frame)
    try:
        result = to.column(expr)
        to.check()
    except Untranslatable:
        return None
    return result


def plain_columns(frame: DataFrame) -> set[str]:
    """The columns of a DataFrame that Spark compares as they are: CHAR and VARCHAR are padded first."""
    return {f.name for f in frame.schema if _CHAR not in (f.metadata or {})}


def _constant(expr: Literal) -> Any:
    """A constant that the session's time zone does not move."""
    from pyspark.sql import functions as sf

    value, kind = expr.value, expr.type
    if kind == T.NULL:
        return sf.lit(None)
    if not is_simple(kind) or (kind == T.TIMESTAMP_NTZ and value is not None):
        raise Untranslatable(expr.sql)
    if value is None:
        return sf.lit(None).cast(spark_type(kind))
    if kind == T.DATE:
        return sf.expr(f"date_from_unix_date({value})")
    if kind == T.TIMESTAMP:
        return sf.expr(f"timestamp_micros({value}L)")
    if kind == T.BINARY:
        return sf.lit(bytearray(value))
    return sf.lit(value).cast(spark_type(kind))


def is_simple(kind: pa.DataType) -> bool:
    """Whether values of a type are compared, and grouped, by Spark as they are here."""
    return kind in _COMPARED or pt.is_decimal(kind)


def _same(call: Call, types: Iterable[pa.DataType]) -> None:
    """Refuse types that Spark would convert first, and those that are not simple."""
    if len({*types}) != 1 or not all(map(is_simple, types)):
        raise Untranslatable(call.sql)


def _comparison(operator: Callable[[Any, Any], Any]) -> Callable[[Translator, Call], Any]:
    def translated(to: Translator, call: Call) -> Any:
        _same(call, [a.type for a in call.args])
        return operator(*to.columns(call.args))

    return translated


def _in(to: Translator, call: Call) -> Any:
    from pyspark.sql import functions as sf

    _same(call, [a.type for a in call.args])
    value, *others = call.args
    texts = [_text_of(other) for other in others]
    if (
        value.is_column and None not in texts
    ):  # thousands of constants are parsed sooner than they are passed one by one
        return sf.expr(f"{quote_name(value.column_name)} IN ({', '.join(filter(None, texts))})")
    return to.column(value).isin(*to.columns(others))


def _text_of(expr: Expr) -> str | None:
    """A constant in Spark's SQL, whatever its settings are; None where it would depend on one."""
    if not isinstance(expr, Literal) or expr.value is None:
        return None
    if expr.type in _SUFFIXES:
        return f"{expr.value}{_SUFFIXES[expr.type]}"
    if expr.type == T.DATE:
        return f"date_from_unix_date({expr.value})"
    if expr.type == T.STRING and _PLAIN.fullmatch(expr.value):
        return f"'{expr.value}'"
    return None


def _text(method: str) -> Callable[[Translator, Call], Any]:
    """A test of a text by a constant one."""

    def translated(to: Translator, call: Call) -> Any:
        value, part = call.args[0], call.args[1]
        text = part.value if isinstance(part, Literal) else None
        if len(call.args) != 2 or value.type != T.STRING or not isinstance(text, str) or "\\" in text:
            raise Untranslatable(call.sql)
        return getattr(to.column(value), method)(text)

    return translated


def _cast(to: Translator, call: Call) -> Any:
    """A cast between whole numbers and decimals, to a type that has all values of the other."""
    source, target = call.args[0].type, call.type
    exact = pt.is_decimal(target) and (source in INTEGRAL or (pt.is_decimal(source) and source.scale <= target.scale))
    whole = source in INTEGRAL and target in INTEGRAL
    if not is_simple(target) or call.function.can_fail(call) or not (source in (target, T.NULL) or exact or whole):
        raise Untranslatable(call.sql)
    return to.column(call.args[0]).cast(spark_type(target))


def _case(to: Translator, call: Call) -> Any:
    from pyspark.sql import functions as sf

    pairs, otherwise = call.args[: len(call.args) // 2 * 2], call.args[len(call.args) // 2 * 2 :]
    _same(call, [call.type, *(a.type for a in (*pairs[1::2], *otherwise))])
    last = to.column(otherwise[0]) if otherwise else sf.lit(None).cast(spark_type(call.type))
    for condition, value in zip(reversed(pairs[::2]), reversed(pairs[1::2]), strict=True):
        last = sf.when(to.column(condition), to.column(value)).otherwise(last)
    return last


def _coalesce(to: Translator, call: Call) -> Any:
    from pyspark.sql import functions as sf

    _same(call, [call.type, *(a.type for a in call.args)])
    return sf.coalesce(*to.columns(call.args))


def _arithmetic(operator: Callable[[Any, Any], Any], careful: str) -> Callable[[Translator, Call], Any]:
    """Whole numbers and decimals; what may overflow is null then, whatever ANSI mode says."""

    def translated(to: Translator, call: Call) -> Any:
        from pyspark.sql import functions as sf

        kinds = [call.type, *(a.type for a in call.args)]
        if not all(pt.is_decimal(k) for k in kinds) and not (call.type in INTEGRAL and len({*kinds}) == 1):
            raise Untranslatable(call.sql)
        left, right = to.columns(call.args)
        if call_never_fails(call):
            return to.computed(operator(left, right), call.type)
        result = to.computed(to.once(call, getattr(sf, careful)(left, right)), call.type)
        to.failed.append(result.isNull() & left.isNotNull() & right.isNotNull())
        return result

    return translated


def _part_of_date(name: str) -> Callable[[Translator, Call], Any]:
    def translated(to: Translator, call: Call) -> Any:
        from pyspark.sql import functions as sf

        if call.args[0].type != T.DATE:
            raise Untranslatable(call.sql)
        return getattr(sf, name)(to.column(call.args[0]))

    return translated


def _negative(to: Translator, call: Call) -> Any:
    if not pt.is_decimal(call.type) or call.function.can_fail(call):
        raise Untranslatable(call.sql)
    return to.computed(-to.column(call.args[0]), call.type)


_CALLS: dict[str, Callable[[Translator, Call], Any]] = {
    "=": _comparison(eq),
    "!=": _comparison(ne),
    "<": _comparison(lt),
    "<=": _comparison(le),
    ">": _comparison(gt),
    ">=": _comparison(ge),
    "<=>": _comparison(lambda a, b: a.eqNullSafe(b)),
    "and": lambda to, call: and_(*to.columns(call.args)),
    "or": lambda to, call: or_(*to.columns(call.args)),
    "not": lambda to, call: ~to.column(call.args[0]),
    "isnull": lambda to, call: to.column(call.args[0]).isNull(),
    "isnotnull": lambda to, call: to.column(call.args[0]).isNotNull(),
    "in": _in,
    "like": _text("like"),
    "startswith": _text("startswith"),
    "endswith": _text("endswith"),
    "contains": _text("contains"),
    "cast": _cast,
    "case": _case,
    "coalesce": _coalesce,
    "+": _arithmetic(add, "try_add"),
    "-": _arithmetic(sub, "try_subtract"),
    "*": _arithmetic(mul, "try_multiply"),
    "negative": _negative,
    **{name: _part_of_date(name) for name in ("year", "quarter", "month", "dayofmonth")},
}
