"""Calls of functions of users inside expressions: a Python function of values, or of whole columns of them.

A ``UserFunction`` is to an expression what a function of the registry is, so that such a call may stand wherever an
expression may. It names the Python function by the digest that also names those of ``map``: plans are told apart by it,
and a store notices a function that has changed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import types as pt

from altneu.columnar.python_values import exception_text, reason, value_text
from altneu.columnar.rows import as_array
from altneu.errors import ImpureFunctionError, SchemaError, TooWideError, TypeMismatchError
from altneu.expressions import Call, Expr, Scope, cast, parts_of
from altneu.expressions.lambdas import Lambda
from altneu.expressions.limits import VALUE_TOO_LARGE, overflows, too_large
from altneu.expressions.rules import accept, expect_count
from altneu.expressions.vector import Failure, Vector, failed_rows
from altneu.linear.checked import impure, same
from altneu.linear.function import Function
from altneu.linear.user_values import given, taken, taken_or_null

Form = Literal["row", "pickled", "arrow", "pandas"]
"""What the function is given and how results are converted: values of a row, those as Spark's pickled UDFs, arrays
of Arrow, or series of pandas."""

PYTHON_EXCEPTION, PYTHON_VALUE, PYTHON_RESULT_TYPE = "PYTHON_EXCEPTION", "PYTHON_VALUE", "PYTHON_RESULT_TYPE"
_ALONE = 3  # rows of the first batch that are given again, each by itself
_tried: set[str] = set()  # the functions of which a batch was, in this process

Errors = dict[int, tuple[str, str]]


@dataclass(frozen=True)
class UserFunction:
    """A function of a user, as calls in expressions know it.

    ``takes`` are the types that its arguments are cast to, None where it takes them as they are. ``memo`` says that
    results are kept by argument (``altneu.collections.remembering``), so that it may answer differently each time.
    """

    title: str
    function: Function
    returns: pa.DataType
    form: Form = "row"
    takes: tuple[pa.DataType, ...] | None = None
    memo: bool = False

    style: ClassVar[str] = "lazy"
    infix: ClassVar[bool] = False
    right_first: ClassVar[bool] = False
    fold: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What calls are compared by: no name of SQL, and equal for equal functions alone."""
        return f"{self.title} {self.digest}"

    @property
    def digest(self) -> str:
        """What tells it from any other function, but for its title; stable across processes."""
        return f"{self.function.digest} {self.form}{' memo' * self.memo}"

    def over(self, args: Sequence[Expr]) -> Call:
        """A call of it.

        Raises:
            TypeMismatchError: too few or too many arguments, or one that has not the declared type.
        """
        if self.takes is not None:
            expect_count(self.title, args, len(self.takes))
            args = [
                cast(a, accept(self.title, i, a, want))
                for i, (a, want) in enumerate(zip(args, self.takes, strict=True))
            ]
        else:
            self._check_count(len(args))
        if not args and self.form in ("arrow", "pandas"):
            raise TypeMismatchError(f"{self.title} is a function of columns, and needs at least one argument")
        for i, arg in enumerate(args):
            if pt.is_null(arg.type) or isinstance(arg, Lambda):
                what = (
                    "NULL without a type; cast it"
                    if pt.is_null(arg.type)
                    else "a lambda, which only SQL's functions take"
                )
                raise TypeMismatchError(f"{self.title}: argument {i + 1} is {what}")
        return Call(self, tuple(args), self.returns, True)

    def _check_count(self, count: int) -> None:
        if isinstance(self.function.call, partial):
            return  # a function of iterators of batches takes all columns in one
        try:
            signature = inspect.signature(self.function.call)
        except (TypeError, ValueError):
            return  # a builtin that does not say
        try:
            signature.bind(*range(count))
        except TypeError as error:
            raise TypeMismatchError(
                f"{self.title} is the function {self.function.title}{signature}, which cannot be called with {count} "
                f"argument{'s' * (count != 1)}: {error}"
            ) from None

    # as expressions see it --------------------------------------------------------------------------------------------

    def can_fail(self, call: Call) -> bool:
        """It may raise."""
        return True

    def can_grow(self, call: Call) -> bool:
        """Its values may be of any size."""
        return True

    def render(self, call: Call, texts: list[str]) -> str:
        """The call as it is written; which function the name stands for is not in it."""
        return f"{self.title}({', '.join(texts)})"

    def evaluate(self, call: Call, scope: Scope) -> Vector:
        """Call the function for the rows of a scope on which no argument fails.

        Cost:   one call a row; one for all rows of a function of arrays or series, and more where it raises: the rows
                are halved until those that fail stand alone.

        Raises:
            ImpureFunctionError: it gave two results for one row.
            TooWideError: the values of several rows are too large together; evaluate fewer at a time.
        """
        vectors = [arg.vector(scope) for arg in call.args]
        failures = tuple(f for v in vectors for f in v.failures)
        failed = failed_rows(failures)
        columns = [v.expand(scope.count).arrow for v in vectors]
        there = np.arange(scope.count) if failed is None else np.flatnonzero(~failed)
        if len(there) < scope.count:
            columns = [column.take(pa.array(there)) for column in columns]
        try:
            values, errors = self.of_columns(columns, len(there))
        except (TooWideError, pa.ArrowException) as error:
            if scope.count != 1 or not overflows(error):
                raise
            values, errors = pa.nulls(1, self.returns), {0: (VALUE_TOO_LARGE, too_large(self.title))}
        if len(there) < scope.count:
            place = np.full(scope.count, -1)
            place[there] = np.arange(len(there))
            values = values.take(pa.array(place, mask=place < 0))
            errors = {int(there[at]): error for at, error in errors.items()}
        return Vector(self.returns, arrow=values, failures=(*failures, *_failures(errors, scope.count)))

    def of_columns(self, columns: list[pa.Array], count: int) -> tuple[pa.Array, Errors]:
        """What it comes to on rows of arguments: values, and of the rows on which it fails, by position, why."""
        if not count:
            return pa.nulls(0, self.returns), {}
        whole = self._in_batches if self.form in ("arrow", "pandas") else self._row_by_row
        values, errors = whole(columns, count)
        if not self.memo and self.name not in _tried:  # of each process the first rows; check_functions checks all
            _tried.add(self.name)
            self._compare(columns, values, errors, whole)
        return values, errors

    def _compare(self, columns: list[pa.Array], values: pa.Array, errors: Errors, again: Callable[..., Any]) -> None:
        """Give the function the first rows again, each by itself."""
        for row in range(min(_ALONE, len(values))):
            alone, error = again([column.slice(row, 1) for column in columns], 1)
            first: Any = errors[row] if row in errors else values[row].as_py()
            second: Any = error[0] if error else alone[0].as_py()
            if not same(first, second):
                shown = tuple(given(column.slice(row, 1))[0][0] for column in columns)
                raise ImpureFunctionError(impure(self.function.title, shown, first, second))

    # functions of rows ------------------------------------------------------------------------------------------------

    def _row_by_row(self, columns: list[pa.Array], count: int) -> tuple[pa.Array, Errors]:
        call, errors = self.function.call, Errors()
        read = [given(column) for column in columns]
        for place, (values, beyond) in enumerate(read):
            for row in beyond:
                errors.setdefault(row, (PYTHON_VALUE, _beyond(self.title, place, values[row])))
        rows: Iterator[tuple[Any, ...]] = (
            zip(*(values for values, _ in read), strict=True) if read else iter([()] * count)
        )
        results: list[Any] = [None] * count
        for row, arguments in enumerate(rows):
            if row in errors:
                continue
            try:
                results[row] = call(*arguments)
            except ImpureFunctionError:
                raise
            except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
                errors[row] = (PYTHON_EXCEPTION, exception_text(error))
        return self._column(results, errors), errors

    def _column(self, results: list[Any], errors: Errors) -> pa.Array:
        """Results as a column; those that do not fit become errors."""
        convert = taken_or_null if self.form == "pickled" else taken
        try:
            return convert(results, self.returns)
        except (MemoryError, TooWideError):
            raise
        except Exception:  # noqa: BLE001, S110 -- pyarrow calls what the values are made of
            pass
        parts: list[pa.Array] = []
        for row, result in enumerate(results):
            try:
                parts.append(convert([result], self.returns))
            except Exception as error:
                if overflows(error):
                    raise
                text = f"{self.title} returned {value_text(result)}, which does not fit its type: {reason(error)}"
                errors[row] = (PYTHON_RESULT_TYPE, text)
                parts.append(pa.nulls(1, self.returns))
        return pa.concat_arrays(parts)

    # functions of columns ---------------------------------------------------------------------------------------------

    def _in_batches(self, columns: list[pa.Array], count: int) -> tuple[pa.Array, Errors]:
        """All rows at once; where the function raises, halves of them, until the rows that fail stand alone."""
        call = _of_series(self.function.call, self.returns) if self.form == "pandas" else self.function.call
        errors, done = Errors(), list[tuple[int, pa.Array]]()
        work = [(0, count)]
        while work:
            start, size = work.pop()
            try:
                result = call(*(column.slice(start, size) for column in columns))
                done.append((start, self._checked(result, size)))
            except (ImpureFunctionError, TooWideError):
                raise
            except Exception as error:  # noqa: BLE001 -- whatever a user's function raises is data
                if size == 1:
                    code = PYTHON_RESULT_TYPE if isinstance(error, SchemaError) else PYTHON_EXCEPTION
                    errors[start] = (code, reason(error) if isinstance(error, SchemaError) else exception_text(error))
                    done.append((start, pa.nulls(1, self.returns)))
                else:
                    work += [(start + size // 2, size - size // 2), (start, size // 2)]
        return pa.concat_arrays([part for _, part in sorted(done, key=lambda pair: pair[0])]), errors

    def _checked(self, result: Any, size: int) -> pa.Array:
        """What a function of columns returned, as a column of its type."""
        if not isinstance(result, pa.Array | pa.ChunkedArray):
            raise SchemaError(f"{self.title} returned {value_text(result)}, and must return an Arrow array")
        if len(result) != size:
            raise SchemaError(f"{self.title} returned {len(result)} values for {size} rows")
        try:
            return as_array(result).cast(self.returns)
        except pa.ArrowException as error:
            if overflows(error):
                raise
            raise SchemaError(f"{self.title} returned values that do not fit its type: {error}") from None


def _of_series(function: Callable[..., Any], returns: pa.DataType) -> Callable[..., Any]:
    """A function of series of pandas (of frames, for structs) as one of Arrow arrays, as Spark converts both."""
    import pandas as pd

    def series(column: pa.Array) -> Any:
        if pt.is_struct(column.type):
            return pd.DataFrame({f.name: series(as_array(column.field(i))) for i, f in enumerate(column.type)})
        if pt.is_timestamp(column.type) and column.type.tz:
            column = column.cast(pa.timestamp("us"))
        return column.to_pandas(date_as_object=True, timestamp_as_object=False, coerce_temporal_nanoseconds=True)

    def array(values: Any, kind: pa.DataType) -> pa.Array:
        if isinstance(values, pd.DataFrame):
            if not pt.is_struct(kind):
                raise SchemaError(f"the function returned a DataFrame, and its type is {kind}")
            missing = [f.name for f in kind if f.name not in values.columns]
            if missing:
                raise SchemaError(f"the function returned a DataFrame without the column {missing[0]!r}")
            return pa.StructArray.from_arrays([array(values[f.name], f.type) for f in kind], fields=list(kind))
        if not isinstance(values, pd.Series):
            raise SchemaError(f"the function returned {value_text(values)}, and must return a series of pandas")
        if pt.is_timestamp(kind) and kind.tz and getattr(values.dtype, "tz", None) is None:
            return as_array(pa.Array.from_pandas(values, type=pa.timestamp("us"))).cast(kind)
        return as_array(pa.Array.from_pandas(values, type=kind))

    def call(*columns: pa.Array) -> Any:
        result = function(*map(series, columns))
        try:
            return array(result, returns)
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            if overflows(error):
                raise
            raise SchemaError(f"the function returned values that do not fit its type: {error}") from None

    return call


def _beyond(title: str, place: int, value: object) -> str:
    return (
        f"argument {place + 1} of {title} is {str(value)[:200]!r}, for which Python has no value (its dates are those "
        "of the years 1 to 9999); cast it to string before the call"
    )


def _failures(errors: Errors, count: int) -> tuple[Failure, ...]:
    """Errors of rows as failures, one for each code."""
    masks: dict[str, npt.NDArray[np.bool_]] = {}
    for row, (code, _) in errors.items():
        masks.setdefault(code, np.zeros(count, np.bool_))[row] = True
    return tuple(Failure(mask, code, lambda row: errors[row][1]) for code, mask in masks.items())


# results that are kept -----------------------------------------------------------------------------------------------


class Results:
    """A function of a user as one of record batches: of arguments, to these and what it comes to, failures included.

    A batch has one column, a struct of the arguments; ``schema`` is that and the results'.
    """

    def __init__(self, of: UserFunction, schema: pa.Schema) -> None:
        self.of, self.schema = of, schema
        self.__qualname__ = self.__name__ = f"{of.title} (memo)"  # what messages call it

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The results of some arguments."""
        (arguments,) = batch.columns
        columns = arguments.flatten()[: len(arguments.type) - (not self.takes_some)]
        values, errors = self.of.of_columns(columns, len(arguments))
        codes = pa.array([errors[row][0] if row in errors else None for row in range(len(arguments))], pa.string())
        messages = pa.array([errors[row][1] if row in errors else None for row in range(len(arguments))], pa.string())
        if errors:
            there = np.array([row not in errors for row in range(len(arguments))])
            values = values.take(pa.array(np.arange(len(arguments)), mask=~there))
        fields = list(result_type(self.of.returns))
        results = pa.StructArray.from_arrays([values, codes, messages], fields=fields)
        return pa.RecordBatch.from_arrays([arguments, results], schema=self.schema)

    @property
    def takes_some(self) -> bool:
        """Whether there are arguments; a struct has a field in any case."""
        return self.schema.field(0).type.field(0).name != NO_ARGUMENT

    @property
    def function(self) -> Function:
        """As a function of a plan, known as the user's function is."""
        digest = Function.digest_of(f"{self.of.digest} {self.schema}")
        return replace(self.of.function, call=self, digest=digest, batch=True)


NO_ARGUMENT = "none"


def result_type(returns: pa.DataType) -> pa.DataType:
    """The type of a kept result: a value, or the code and the message of a failure."""
    return pa.struct([("value", returns), ("code", pa.string()), ("message", pa.string())])


@dataclass(frozen=True)
class ValueOf:
    """The value of a kept result; where the function failed, its failure."""

    title: str

    style: ClassVar[str] = "lazy"
    infix: ClassVar[bool] = False
    right_first: ClassVar[bool] = False
    fold: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """No name of SQL."""
        return f"value of {self.title}"

    def can_fail(self, call: Call) -> bool:
        """Where the function has."""
        return True

    def can_grow(self, call: Call) -> bool:
        """It is a part of a value."""
        return False

    def render(self, call: Call, texts: list[str]) -> str:
        """The result's column."""
        return f"value({texts[0]})"

    def evaluate(self, call: Call, scope: Scope) -> Vector:
        """The field of the value, and failures from the others."""
        (vector,) = (arg.vector(scope) for arg in call.args)
        values, codes, messages = vector.expand(scope.count).arrow.flatten()
        failures = list(vector.failures)
        if codes.null_count < len(codes):
            found = np.array(codes.to_pylist(), object)
            failures += [Failure(found == c, c, lambda i: str(messages[i].as_py())) for c in dict.fromkeys(found) if c]
        return Vector(call.type, arrow=values, failures=tuple(failures))


# the functions of an expression ---------------------------------------------------------------------------------------


def user_calls(expression: Expr) -> Iterator[Call]:
    """The calls of functions of users in an expression, inner ones first; equal ones are repeated."""
    some = expression.calls and any(map(_is_of_user, parts_of(expression)))
    return _calls_within(expression) if some else iter(())


def _calls_within(expression: Expr) -> Iterator[Call]:
    for part in expression.inner:
        yield from _calls_within(part)
    if _is_of_user(expression):
        yield expression


def _is_of_user(expression: Expr) -> TypeGuard[Call]:
    return isinstance(expression, Call) and isinstance(expression.function, UserFunction)


def digest_of(expression: Expr) -> str:
    """Which functions the calls in an expression are of, which its text does not say; nothing where there are none."""
    return " ".join(call.function.digest for call in user_calls(expression) if isinstance(call.function, UserFunction))


def with_user_functions(expression: Expr, change: Callable[[Function], Function]) -> Expr:
    """The expression with each function of a user changed; itself where it calls none."""
    if isinstance(expression, Lambda):
        body = with_user_functions(expression.body, change)
        return expression if body is expression.body else Lambda(expression.parameters, body)
    if not isinstance(expression, Call):
        return expression
    args = tuple(with_user_functions(arg, change) for arg in expression.args)
    function = expression.function
    if isinstance(function, UserFunction):
        function = replace(function, function=change(function.function))
    elif all(new is old for new, old in zip(args, expression.args, strict=True)):
        return expression
    return Call(function, args, expression.type, expression.nullable, expression.implicit)
