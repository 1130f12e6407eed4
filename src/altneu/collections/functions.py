"""Functions of users as expressions: ``an.udf``, which takes Python functions and what PySpark makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Any, Literal, TypeAlias, overload

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import MissingExtraError, NonDeterministicError, PlanError, SchemaError
from altneu.expressions import Col, col, lit
from altneu.expressions.column import operand
from altneu.expressions.nodes import FUNCTION
from altneu.linear import Function
from altneu.linear.chance import by_chance
from altneu.linear.user_function import Form, UserFunction

Returns: TypeAlias = Any
"""A type as DDL (``"array<int>"``), an Arrow type, or one of ``pyspark.sql.types``."""
Vectorized: TypeAlias = Literal["arrow", "pandas"] | None

_FORMS: dict[int, tuple[Form, bool]] = {
    100: ("pickled", False),
    101: ("row", False),
    200: ("pandas", False),
    204: ("pandas", True),
    250: ("arrow", False),
    251: ("arrow", True),
}
"""PySpark's ``evalType`` of functions that give a value for each row, and whether they take iterators of batches."""
_KINDS = {
    **dict.fromkeys((202, 203, 217, 252, 253, 254), "aggregates groups, which group_by(...).reduce(...) does here"),
    **dict.fromkeys((300, 301, 302), "makes rows, which flat_map(...) does here"),
}


class Udf:
    """A function of a user: called with columns it is an expression, wherever an.col("x") + 1 could be one.

    Arguments are as those of PySpark's functions: a text is the name of a column, anything else a Col or a constant.
    """

    __slots__ = ("function",)

    def __init__(self, function: UserFunction) -> None:
        self.function = function

    def __call__(self, *columns: Any) -> Col:
        """The function of columns."""
        arguments = [operand(col(c) if isinstance(c, str) else lit(c)) for c in columns]
        return Col(exp.Anonymous(this=self.function.title, expressions=arguments, **{FUNCTION: self.function}))

    def __repr__(self) -> str:
        return f"Udf({self.function.title} -> {T.type_name(self.function.returns)})"


@overload
def udf(
    f: Callable[..., Any],
    returns: Returns = None,
    *,
    name: str | None = None,
    vectorized: Vectorized = None,
    memo: bool = False,
    version: str | int | None = None,
) -> Udf: ...


@overload
def udf(
    f: None = None,
    returns: Returns = None,
    *,
    name: str | None = None,
    vectorized: Vectorized = None,
    memo: bool = False,
    version: str | int | None = None,
) -> Callable[[Callable[..., Any]], Udf]: ...


def udf(
    f: Callable[..., Any] | None = None,
    returns: Returns = None,
    *,
    name: str | None = None,
    vectorized: Vectorized = None,
    memo: bool = False,
    version: str | int | None = None,
) -> Udf | Callable[[Callable[..., Any]], Udf]:
    """A function of yours as an expression: ``an.udf(f, "int")``, or ``@an.udf(returns="int")`` above it.

    ``f`` is a Python function of the values of a row, nulls included, or what ``udf``, ``pandas_udf`` or ``arrow_udf``
    of PySpark has made of one, whose type and kind it then has. ``returns`` is the type of its result (by default a
    string, as in PySpark); a value of another type is converted as Spark converts it, or makes an error row. A row on
    which the function raises becomes an error row. With ``vectorized`` it is given Arrow arrays or series of pandas
    with the values of many rows, and returns one as long.

    The function must be pure, as that of ``map``: a retraction calls it again. altneu refuses one that is declared
    nondeterministic or whose code calls the clock or chance, and compares the first rows with what it answers for each
    of them alone. With ``memo`` it keeps the results by argument instead, and calls the function once for each
    argument, so that it may be expensive, or answer differently each time (docs/functions_of_users.md).

    ``version`` is as in ``map``; ``name`` is what expressions and errors call it.

    Cost:   linear: no exchange, no state. With ``memo`` an exchange by arguments, and all arguments there ever were
            with their results.

    Raises:
        NonDeterministicError: it does not depend on its arguments alone, by declaration or by its code.
        SchemaError: ``returns`` is not a type.
        PlanError: PySpark made it a function of groups or one that makes rows.

    >>> import altneu as an
    >>> @an.udf(returns="string")
    ... def initials(name):
    ...     return None if name is None else "".join(part[0] for part in name.split())
    >>> people = an.source("people", "name string")
    >>> with an.Session() as session:
    ...     view = session.maintain("people", people.select("name", short=initials("name")))
    ...     session.insert("people", ["Ada Lovelace", None])
    ...     _ = session.advance()
    ...     sorted(view.to_pylist(), key=str)
    [('Ada Lovelace', 'AL'), (None, None)]
    """
    if f is None:
        given = {"returns": returns, "name": name, "vectorized": vectorized, "memo": memo, "version": version}
        return lambda function: udf(function, **given)
    if isinstance(f, Udf):
        return Udf(_renamed(f.function, name))
    if vectorized not in (None, "arrow", "pandas"):
        raise PlanError(f"vectorized must be 'arrow', 'pandas' or None, got {vectorized!r}")
    title = name or _title(getattr(f, "__name__", type(f).__name__))
    call: Any = f
    form: Form = vectorized or ("arrow" if getattr(f, "__altneu_arrow__", False) else "row")
    if hasattr(f, "evalType") and hasattr(f, "returnType"):
        call, form, returns = _of_pyspark(f, title, returns, vectorized, memo=memo)
    if not callable(call):
        raise PlanError(f"udf needs a function, got {f!r}; as a decorator it is written @an.udf(returns=...)")
    if form == "pandas":
        _require_pandas()
    if not memo and (what := by_chance(call)) is not None:
        raise NonDeterministicError(
            f"the function {title} calls {what}, which answers differently each time, and a retraction calls it again; "
            "give it the value as an argument, or keep its results with memo=True"
        )
    return Udf(UserFunction(title, Function.of(call, version), type_of(returns), form, memo=memo))


def _require_pandas() -> None:
    try:
        import_module("pandas")
    except ImportError as error:
        raise MissingExtraError("a function of series of pandas", "spark", str(error)) from None


def _renamed(function: UserFunction, name: str | None) -> UserFunction:
    return function if name is None else replace(function, title=name)


def _title(name: str) -> str:
    return name if name.isidentifier() else "function"  # <lambda>


def _of_pyspark(f: Any, name: str, returns: Returns, vectorized: Vectorized, *, memo: bool) -> tuple[Any, Form, Any]:
    """The Python function, the form and the type of a function that PySpark has made.

    It is known by its attributes: PySpark itself is not imported.
    """
    if returns is not None or vectorized is not None:
        raise PlanError(f"{name} is a function of PySpark, with a type and a kind: leave out returns and vectorized")
    known = _FORMS.get(f.evalType)
    if known is None:
        raise PlanError(f"{name} {_KINDS.get(f.evalType, 'does not give one value for each row')}")
    if not getattr(f, "deterministic", True) and not memo:
        raise NonDeterministicError(
            f"the function {name} is declared nondeterministic (asNondeterministic()), and a retraction calls it "
            "again; keep its results with memo=True"
        )
    form, in_iterators = known
    call = f.func
    if in_iterators:
        one = partial(_only_batch, call)
        one.__wrapped__ = call  # type: ignore[attr-defined]  # what messages call it
        call = one
    return call, form, f.returnType


def _only_batch(function: Callable[..., Any], *columns: Any) -> Any:
    """A function of iterators of batches, of one batch."""
    results = list(function(iter([columns[0] if len(columns) == 1 else columns])))
    if len(results) != 1:
        raise SchemaError(f"the function returned {len(results)} batches for one")
    return results[0]


def type_of(returns: Returns) -> pa.DataType:
    """A type as altneu has it, of any way to write it; a string where none is given.

    Raises:
        SchemaError: it is none.
    """
    if returns is None:
        return T.STRING
    if isinstance(returns, pa.DataType):
        return T.normalise_type(returns, "the function's result")
    if hasattr(returns, "simpleString"):  # a DataType of PySpark
        returns = returns.simpleString()
    if not isinstance(returns, str):
        raise SchemaError(f"returns must be a type, such as 'int' or 'array<string>', got {returns!r}")
    return T.parse_type(returns)
