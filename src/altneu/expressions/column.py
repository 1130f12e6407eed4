"""``col``, ``lit`` and ``fn``: the same trees, written in Python.

>>> from altneu.expressions import col, fn, parse
>>> import pyarrow as pa
>>> schema = pa.schema([("delay", pa.int64()), ("carrier", pa.string())])
>>> parse((col("delay") > 15) & col("carrier").isin("UA", "AA"), schema)
<(delay > 15L) AND (carrier IN ('UA', 'AA')): boolean>
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from altneu import types as T
from altneu.errors import TypeMismatchError
from altneu.expressions import dialect, literals

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Col:
    """An expression over columns that are resolved when it is used; immutable, and not a boolean itself.

    ``==`` and the other operators build expressions; ``&``, ``|`` and ``~`` are AND, OR and NOT.
    """

    __slots__ = ("tree",)
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tree: exp.Expr) -> None:
        self.tree = tree

    def _with(self, node: type[exp.Expr], other: Any, *, swap: bool = False) -> Col:
        left, right = operand(self), operand(other)
        if swap:
            left, right = right, left
        return Col(node(this=left, expression=right))

    def __add__(self, other: Any) -> Col:
        return self._with(exp.Add, other)

    def __radd__(self, other: Any) -> Col:
        return self._with(exp.Add, other, swap=True)

    def __sub__(self, other: Any) -> Col:
        return self._with(exp.Sub, other)

    def __rsub__(self, other: Any) -> Col:
        return self._with(exp.Sub, other, swap=True)

    def __mul__(self, other: Any) -> Col:
        return self._with(exp.Mul, other)

    def __rmul__(self, other: Any) -> Col:
        return self._with(exp.Mul, other, swap=True)

    def __truediv__(self, other: Any) -> Col:
        return self._with(exp.Div, other)

    def __rtruediv__(self, other: Any) -> Col:
        return self._with(exp.Div, other, swap=True)

    def __floordiv__(self, other: Any) -> Col:
        return self._with(exp.IntDiv, other)

    def __rfloordiv__(self, other: Any) -> Col:
        return self._with(exp.IntDiv, other, swap=True)

    def __mod__(self, other: Any) -> Col:
        return self._with(exp.Mod, other)

    def __rmod__(self, other: Any) -> Col:
        return self._with(exp.Mod, other, swap=True)

    def __eq__(self, other: object) -> Col:  # type: ignore[override]
        return self._with(exp.EQ, other)

    def __ne__(self, other: object) -> Col:  # type: ignore[override]
        return self._with(exp.NEQ, other)

    def __lt__(self, other: Any) -> Col:
        return self._with(exp.LT, other)

    def __le__(self, other: Any) -> Col:
        return self._with(exp.LTE, other)

    def __gt__(self, other: Any) -> Col:
        return self._with(exp.GT, other)

    def __ge__(self, other: Any) -> Col:
        return self._with(exp.GTE, other)

    def __and__(self, other: Any) -> Col:
        return self._with(exp.And, other)

    def __rand__(self, other: Any) -> Col:
        return self._with(exp.And, other, swap=True)

    def __or__(self, other: Any) -> Col:
        return self._with(exp.Or, other)

    def __ror__(self, other: Any) -> Col:
        return self._with(exp.Or, other, swap=True)

    def __invert__(self) -> Col:
        return Col(exp.Not(this=operand(self)))

    def __neg__(self) -> Col:
        return Col(exp.Neg(this=operand(self)))

    def __getitem__(self, key: Any) -> Col:
        """An element by index or key, or a field of a struct by name."""
        return Col(exp.Bracket(this=operand(self), expressions=[operand(key)]))

    def __iter__(self) -> Any:
        raise TypeMismatchError("an expression is not iterable; use col(...)[index]")

    def __bool__(self) -> bool:
        raise TypeMismatchError(
            "an expression is neither true nor false; use & | ~ and not `and`, `or`, `not`, and .between for a < x < b"
        )

    def eq_null_safe(self, other: Any) -> Col:
        """Equal, or both null."""
        return self._with(exp.NullSafeEQ, other)

    def isin(self, *values: Any) -> Col:
        """Whether it equals one of the values, given one by one or as one list."""
        if len(values) == 1 and isinstance(values[0], Iterable) and not isinstance(values[0], (str, bytes, Col)):
            values = tuple(values[0])
        return Col(exp.In(this=operand(self), expressions=[operand(v) for v in values]))

    def between(self, low: Any, high: Any) -> Col:
        """Whether it is within the bounds, both included."""
        return Col(exp.Between(this=operand(self), low=operand(low), high=operand(high)))

    def is_null(self) -> Col:
        """Whether it is null."""
        return Col(exp.Is(this=operand(self), expression=exp.Null()))

    def is_not_null(self) -> Col:
        """Whether it is not null."""
        return Col(exp.Not(this=exp.Is(this=operand(self), expression=exp.Null())))

    def cast(self, data_type: str) -> Col:
        """The value in another type, named as in DDL."""
        return Col(exp.Cast(this=operand(self), to=_type_node(data_type)))

    def try_cast(self, data_type: str) -> Col:
        """The value in another type, null where it does not fit."""
        return Col(exp.TryCast(this=operand(self), to=_type_node(data_type)))

    def alias(self, name: str) -> Col:
        """The expression under a name."""
        inner = self.tree.this if isinstance(self.tree, exp.Alias) else self.tree
        return Col(exp.Alias(this=inner, alias=exp.to_identifier(name, quoted=True)))

    def like(self, pattern: Any) -> Col:
        """Whether the whole text fits a pattern with ``%`` and ``_``."""
        return self._with(exp.Like, pattern)

    def ilike(self, pattern: Any) -> Col:
        """``like`` whatever the case."""
        return self._with(exp.ILike, pattern)

    def rlike(self, pattern: Any) -> Col:
        """Whether a regular expression is found in the text."""
        return self._with(exp.RegexpLike, pattern)

    def substr(self, start: Any, length: Any) -> Col:
        """Part of the text, counted from one."""
        return _call("substring", (self, start, length))

    def startswith(self, other: Any) -> Col:
        """Whether the text starts so."""
        return _call("startswith", (self, other))

    def endswith(self, other: Any) -> Col:
        """Whether the text ends so."""
        return _call("endswith", (self, other))

    def contains(self, other: Any) -> Col:
        """Whether the text contains the part."""
        return _call("contains", (self, other))

    def get_field(self, name: str) -> Col:
        """A field of a struct."""
        return Col(exp.Dot(this=operand(self), expression=exp.to_identifier(name, quoted=True)))

    getField = get_field  # noqa: N815 -- the name that PySpark gives it

    def desc(self) -> Col:
        """A sort key, greatest first, nulls last."""
        return Col(exp.Ordered(this=self.tree, desc=True, nulls_first=False))

    def asc(self) -> Col:
        """A sort key, least first, nulls first."""
        return Col(exp.Ordered(this=self.tree, desc=False, nulls_first=True))

    def __repr__(self) -> str:
        return f"Col({self.tree.sql(dialect='spark')})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Col, (self.tree,)


def operand(value: Any) -> exp.Expr:
    """The tree of a Col or a constant as a part of another one."""
    tree = lit(value).tree if not isinstance(value, Col) else value.tree
    if isinstance(tree, exp.Alias):
        tree = tree.this
    return (
        exp.Paren(this=tree.copy())
        if isinstance(tree, (exp.Binary, exp.Unary, exp.Between, exp.In)) and not isinstance(tree, exp.Paren)
        else tree.copy()
    )


def _type_node(data_type: str) -> exp.Expr:
    T.parse_type(data_type)
    tree = dialect.parse_tree(f"CAST(NULL AS {data_type})")
    node: exp.Expr = tree.args["to"]
    return node


_LEVELS = ("this", "table", "db", "catalog")


def col(name: str) -> Col:
    """A column by name; a dot leads to a field of a struct, unless a column is literally so named.

    >>> col("delay") > 15
    Col(delay > 15)
    """
    if "`" in name:
        return Col(dialect.parse_tree(name))
    parts = [exp.to_identifier(p, quoted=not p.isidentifier()) for p in name.split(".")]
    if len(parts) > len(_LEVELS):
        return Col(exp.Dot.build([exp.Column(this=parts[0]), *parts[1:]]))
    return Col(exp.Column(**dict(zip(_LEVELS, reversed(parts), strict=False))))


def lit(value: Any) -> Col:
    """A constant from a Python value; a Col is returned as it is.

    Raises:
        TypeMismatchError: the value has no SQL type.
    """
    if isinstance(value, Col):
        return value
    if isinstance(value, (list, tuple)):
        return _call("array", tuple(value))
    if isinstance(value, dict):
        return _call("map", tuple(part for pair in value.items() for part in pair))
    return Col(dialect.parse_tree(_literal_text(value)))


def _literal_text(value: Any) -> str:
    item = getattr(value, "item", None)
    if callable(item):
        value = item()  # a NumPy scalar
    if value is None:
        return "NULL"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, bool | str | bytes | float):
        return literals.literal_sql(value, T.DOUBLE)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        kind = T.TIMESTAMP if value.tzinfo else T.TIMESTAMP_NTZ
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return literals.literal_sql((moment - _EPOCH) // timedelta(microseconds=1), kind)
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    if isinstance(value, time):
        if value.tzinfo is not None:
            raise TypeMismatchError(f"{value!r} has a time zone, which a time of day has not; leave it out")
        return f"TIME '{value.isoformat()}'"
    if isinstance(value, timedelta):
        return literals.literal_sql(value // timedelta(microseconds=1), T.DAY_TIME)
    raise TypeMismatchError(
        f"{value!r} has no SQL type; give a number, a text, a date, a datetime, a timedelta, bytes, a list or a dict"
    )


def _call(name: str, args: tuple[Any, ...]) -> Col:
    return Col(exp.Anonymous(this=name, expressions=[operand(a) for a in args]))


def update_time() -> Col:
    """The time at which a row came into a collection, as a column.

    It is the session's time, a bigint, at which this copy of the row was inserted; a retraction takes away the copy
    that came first, with its time. It stands in the linear verbs of a collection, and in ``agg``. docs/update_time.md
    has all of it.

    Cost:   one exchange by row; each row that is there is kept with its time, once for all views of the collection.
            A change reads the copies of that row alone.

    >>> import altneu as an
    >>> flags = an.source("flags", "name string, enabled boolean")
    >>> enabled = flags.filter("enabled").select("name", since=an.update_time())
    >>> with an.Session() as session:
    ...     view = session.maintain("enabled", enabled)
    ...     session.insert("flags", [("dark", True)], time=3)
    ...     session.insert("flags", [("beta", True)], time=5)
    ...     _ = session.advance(to=9)
    ...     sorted(view.to_pylist())
    [('beta', 5), ('dark', 3)]
    """
    return _call("update_time", ())


class _Functions:
    """Any SQL function as an attribute: ``fn.upper(col("carrier"))``; a text is a constant, no column."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*args: Any) -> Col:
            return _call(name.rstrip("_"), args)

        function.__name__ = name
        return function


fn = _Functions()
