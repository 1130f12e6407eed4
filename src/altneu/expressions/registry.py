"""The registry of functions: names, argument types, and the kernel that computes each.

    scalar = Group("Strings")

    @scalar("instr(s string, part string) -> int")
    def instr(s: pa.Array, part: str) -> pa.Array:
        "The position of the first occurrence, from one; 0 if there is none."

The text is the signature (``signatures``), the docstring the documentation in docs/functions.md, and the kernel's
parameters say in which form it takes its arguments:

* ``s: Values``: NumPy arrays of the values, constants of length one (they broadcast); values under a null are
  arbitrary.
* ``s: Bounded``: the same as ``Vector`` objects, which know the bounds of whole numbers.
* ``s: pa.Array``: Arrow arrays of equal length, nulls and all.
* ``s: Vector``: ``Vector`` objects; the function is then not strict.
* ``part: str``, and int and bool: one Python value. The kernel is called once per distinct value when a row's differ.
* ``call: Call``, ``count: int``, before all of them: the call itself, and the number of rows.
* ``call: Call, scope: Scope`` alone: the kernel decides what is evaluated and which failures count.

A function is *strict* otherwise: a null argument makes the result null, arguments are evaluated from the left, and the
ones after a null are not evaluated (so they cannot fail), as in Spark. If it is not, failures of arguments are failures
of the result.

A kernel returns an array of the result's values, or an ``Out`` with the rows that failed or became null as well.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from altneu import types as T
from altneu.errors import NonDeterministicError, TooWideError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions import signatures
from altneu.expressions.catalogue import NON_DETERMINISTIC, SPARK, refusal
from altneu.expressions.limits import VALUE_TOO_LARGE, overflows, too_large
from altneu.expressions.printing import render_call
from altneu.expressions.rules import Arguments, Rule, Typing, expect_count
from altneu.expressions.signatures import Check
from altneu.expressions.vector import Bounds, Failure, Failures, Mask, Vector, both_valid, has_numpy, restrict, validity

if TYPE_CHECKING:
    from altneu.expressions.expr import Call, Expr, Scope

Style = Literal["numpy", "bounded", "arrow", "vector", "lazy"]
_STYLES: dict[str, Style] = {"Values": "numpy", "Bounded": "bounded", "pa.Array": "arrow", "Vector": "vector"}


class Out(NamedTuple):
    """A kernel's values with the rows that failed, ``(mask, code, message)`` each, and the rows that became null.

    ``bounds`` are those of the values, where the kernel knows them.
    """

    values: Any
    failures: Sequence[tuple[Mask, str, str | Callable[[int], str]]] = ()
    null: Mask | None = None
    bounds: Bounds | None = None


class Inputs(NamedTuple):
    """The form in which a kernel takes its arguments, read from its parameters, see above."""

    style: Style
    strict: bool
    constants: frozenset[int]
    wants_call: bool
    wants_count: bool

    @classmethod
    def read(cls, kernel: Callable[..., Any]) -> Inputs:
        """The form that the parameters of a kernel declare.

        Raises:
            TypeError: it has no annotations.
        """
        if "return" not in kernel.__annotations__:
            raise TypeError(f"{kernel!r} must have annotations, which say what it is given")
        parameters = {name: kind.removesuffix(" | None") for name, kind in kernel.__annotations__.items()}
        call, count, scope = (parameters.pop(name, None) is not None for name in ("call", "count", "scope"))
        styles = [_STYLES[kind] for kind in parameters.values() if kind in _STYLES] or ["numpy"]
        style: Style = "lazy" if scope else styles[0]
        del parameters["return"]
        constants = frozenset(i for i, kind in enumerate(parameters.values()) if kind in ("str", "int", "bool"))
        return cls(style, style not in ("vector", "lazy"), constants, call, count)

    def of(self, vectors: list[Vector], count: int, constant: bool) -> list[Any] | None:
        """The arguments of a kernel; None when a constant argument of a strict one is null."""
        fixed = self.constants
        if self.style == "numpy":
            arguments: list[Any] = [None if i in fixed else v.values for i, v in enumerate(vectors)]
        elif self.style == "arrow":
            arguments = [
                None if i in fixed else (v if constant else v.expand(count)).arrow for i, v in enumerate(vectors)
            ]
        else:
            arguments = list(vectors) if constant or self.strict else [v.expand(count) for v in vectors]
        for i in fixed:
            if i < len(vectors):
                arguments[i] = constant_value(vectors[i])
                if arguments[i] is None and self.strict:
                    return None
        return arguments


@dataclass(frozen=True)
class Function:
    """A registered function; ``message_name`` is its name in messages."""

    name: str
    aliases: tuple[str, ...]
    group: str
    usage: str
    doc: str
    message_name: str
    counts: tuple[int, int]
    rule: Rule
    kernel: Callable[..., Any]
    inputs: Inputs
    fails: bool | Callable[[Call], bool] = False
    infix: bool = False
    right_first: bool = False
    fold: bool = True
    grows: bool | Callable[[Call], bool] = False

    def __reduce__(self) -> tuple[Callable[[str], Function], tuple[str]]:
        return function, (self.name,)

    @property
    def style(self) -> Style:
        """The form in which the kernel takes arguments."""
        return self.inputs.style

    def typing(self, args: Sequence[Expr]) -> Typing:
        """Types of the arguments and of the result.

        Raises:
            TypeMismatchError: the arguments do not fit.
        """
        expect_count(self.message_name, args, *self.counts)
        typing = self.rule(Arguments(self.message_name, args))
        if refused := T.refused_keys(typing.type):
            raise TypeMismatchError(f"{self.message_name}: {refused}")
        return typing

    def can_fail(self, call: Call) -> bool:
        """Whether the call itself could fail on some row."""
        return self.fails if isinstance(self.fails, bool) else self.fails(call)

    def can_grow(self, call: Call) -> bool:
        """Whether the call's value may be larger than its arguments."""
        return self.grows if isinstance(self.grows, bool) else self.grows(call)

    def render(self, call: Call, texts: list[str]) -> str:
        """SQL text of a call, given the texts of its arguments."""
        return render_call(call, texts)

    def evaluate(self, call: Call, scope: Scope) -> Vector:
        """Evaluate a call over the rows of a scope; on a single row a value too large for a column is its failure.

        Raises:
            TooWideError, ArrowException: the values of several rows are together; evaluate fewer at a time.
        """
        try:
            inputs = self.inputs
            if inputs.style == "lazy":
                lazy: Vector = self.kernel(call, scope)
                return lazy
            return self._evaluated(call, scope)
        except (TooWideError, pa.ArrowException) as error:
            if scope.count != 1 or not overflows(error):
                raise
            failure = Failure(np.ones(1, np.bool_), VALUE_TOO_LARGE, too_large(self.message_name))
            return null_result(call.type, 1, (failure,), False)

    def _evaluated(self, call: Call, scope: Scope) -> Vector:
        inputs = self.inputs
        vectors = [a.vector(scope) for a in call.args]
        failures: Failures = ()
        constant = True
        for vector in vectors:
            if vector.failures and not failures:
                failures = _argument_failures(vectors, inputs.strict, self.right_first)
            if not vector.constant:
                constant = False
        if inputs.constants and not all(vectors[i].constant for i in inputs.constants if i < len(vectors)):
            return self._by_distinct(call, vectors, scope.count, failures)
        return self._apply(call, vectors, 1 if constant else scope.count, scope.count, failures, constant)

    def _apply(
        self, call: Call, vectors: list[Vector], count: int, rows: int, failures: Failures, constant: bool
    ) -> Vector:
        """Call the kernel; ``count`` is 1 when every argument is constant, whatever the number of rows."""
        inputs = self.inputs
        arguments = inputs.of(vectors, count, constant)
        if arguments is None:
            return null_result(call.type, count, failures, constant)
        valid: Mask | None = None
        if inputs.strict:
            for vector in vectors:
                own_valid = vector.valid
                if own_valid is not None:
                    valid = own_valid if valid is None else valid & own_valid
        if inputs.wants_count:
            arguments.insert(0, count)
        values = self.kernel(call, *arguments) if inputs.wants_call else self.kernel(*arguments)
        null: Mask | None = None
        bounds: Bounds | None = None
        if type(values) is Out:
            values, own, null, bounds = values
            if own:
                failures = failures + _own_failures(own, valid, rows)
        if isinstance(values, Vector):
            if values.failures:
                failures = failures + tuple(f if len(f.mask) == rows else _spread(f, rows) for f in values.failures)
            return values.with_failures(tuple(f for f in failures if len(f.mask))) if failures else values
        if isinstance(values, np.ndarray):
            if null is not None:
                valid = both_valid(valid, ~null)
            return _numpy_result(call, values, valid, failures, count, constant, bounds)
        array = _nulled(values, null)
        if valid is not None:
            array = _strict(array, valid)
        return Vector(call.type, arrow=array, failures=failures, constant=constant)

    def _by_distinct(self, call: Call, vectors: list[Vector], count: int, failures: Failures) -> Vector:
        """Evaluate once per distinct value of the arguments that the kernel wants constant; put the parts together."""
        varying = [i for i in sorted(self.inputs.constants) if i < len(vectors) and not vectors[i].constant]
        table = pa.table([vectors[i].arrow for i in varying], names=[str(i) for i in varying])
        codes = _group_codes(table, count)
        order = np.argsort(codes, kind="stable")
        pieces: list[pa.Array] = []
        failed: dict[str, list[tuple[Any, Failure]]] = {}
        for index in np.split(order, np.flatnonzero(np.diff(codes[order])) + 1) if count else ():
            part = [_part(v, index, i in varying) for i, v in enumerate(vectors)]
            out = self._apply(call, part, len(index), len(index), (), False).expand(len(index))
            pieces.append(out.arrow)
            for failure in out.failures:
                failed.setdefault(failure.code, []).append((index, failure))
        if not pieces:
            return Vector(call.type, arrow=pa.nulls(0, call.type), failures=failures)
        failures = (*failures, *(_together(code, parts, count) for code, parts in failed.items()))
        back = np.empty(count, np.int64)
        back[order] = np.arange(count)
        return Vector(call.type, arrow=pa.concat_arrays(pieces).take(pa.array(back)), failures=failures)


def _together(code: str, parts: list[tuple[Any, Failure]], count: int) -> Failure:
    """Failures of parts of the rows as one of all rows; each part has the positions of its rows."""
    mask, whose = np.zeros(count, np.bool_), np.zeros(count, np.int64)
    for number, (index, failure) in enumerate(parts):
        bad = index[failure.mask]
        mask[bad], whose[bad] = True, number

    def text(row: int) -> str:
        index, failure = parts[int(whose[row])]
        return failure.text(int(np.searchsorted(index, row)))

    return Failure(mask, code, text)


def _group_codes(table: pa.Table, count: int) -> Any:
    codes = np.zeros(count, np.int64)
    for column in table.columns:
        encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.combine_chunks()
        codes = codes * (len(encoded.dictionary) + 1) + encoded.indices.to_numpy(zero_copy_only=False)
    return np.unique(codes, return_inverse=True)[1].reshape(-1)


def _part(vector: Vector, index: Any, one: bool) -> Vector:
    if vector.constant:
        return vector
    array = vector.arrow.take(pa.array(index[:1] if one else index))
    return Vector(vector.type, arrow=array, constant=one)


def _argument_failures(vectors: Sequence[Vector], shield: bool, right_first: bool) -> Failures:
    """Failures of the arguments in the order of evaluation; a null argument hides what comes after it."""
    if not any(v.failures for v in vectors):
        return ()
    failures: Failures = ()
    reachable: Mask | None = None
    for vector in reversed(vectors) if right_first else vectors:
        if vector.failures:
            failures += vector.failures if reachable is None else restrict(vector.failures, reachable)
        if shield:
            reachable = both_valid(reachable, vector.valid)
    return failures


def _own_failures(own: Iterable[tuple[Mask, str, Any]], valid: Mask | None, rows: int) -> Failures:
    failures = []
    for mask, code, message in own:
        bad = mask if valid is None else mask & valid
        if not bad.any() or not rows:
            continue
        if len(bad) == rows:
            failures.append(Failure(bad, code, message))
        else:  # a constant that fails, fails on every row
            failures.append(Failure(np.repeat(bad, rows), code, _first(message)))
    return tuple(failures)


def _spread(failure: Failure, rows: int) -> Failure:
    return Failure(np.repeat(failure.mask, rows), failure.code, failure.text(0))


def _first(message: Any) -> Any:
    return message if isinstance(message, str) else message(0)


def _nulled(array: Any, null: Mask | None) -> pa.Array:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if null is None or not null.any():
        return array
    return array.take(pa.array(np.arange(len(array)), mask=null))


def _numpy_result(
    call: Call,
    values: Any,
    valid: Mask | None,
    failures: Failures,
    count: int,
    constant: bool,
    bounds: Bounds | None,
) -> Vector:
    """The vector of a NumPy result, repeated where it was computed from constants alone."""
    if values.size != count:
        values = np.repeat(values, count)
    if valid is not None and len(valid) != count:
        valid = np.repeat(valid, count)
    return Vector(call.type, values, valid, failures=failures, constant=constant, bounds=bounds)


def _strict(array: pa.Array, valid: Mask) -> pa.Array:
    """The array with null wherever an argument is null; kernels may leave anything there."""
    if len(valid) != len(array):  # of a constant
        valid = np.broadcast_to(valid, len(array))
    present = validity(array)
    loose = ~valid if present is None else present & ~valid
    return _nulled(array, loose)


def null_result(data_type: pa.DataType, count: int, failures: Failures, constant: bool) -> Vector:
    """Null on every row."""
    return Vector(data_type, arrow=pa.nulls(count, data_type), failures=failures, constant=constant)


def constant_value(vector: Vector) -> Any:
    """The Python value of a constant vector, None when null; dates and timestamps are integers."""
    if vector.valid is not None and not vector.valid[0]:
        return None
    if has_numpy(vector.type):
        return vector.values[0].item() if vector.values.dtype != object else vector.values[0]
    return vector.arrow[0].as_py()


FUNCTIONS: dict[str, Function] = {}
"""Every function by every one of its names, lower case; filled by the modules of ``altneu.expressions.functions``."""

Kernel = TypeVar("Kernel", bound=Callable[..., Any])


class Group:
    """A group of functions in docs/functions.md, and the decorator that registers a kernel in it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(  # noqa: PLR0913 -- all properties of a function
        self,
        signature: str,
        *aliases: str,
        rule: Rule | None = None,
        check: Check | None = None,
        usage: str = "",
        message_name: str = "",
        doc: str = "",
        fails: bool | Callable[[Call], bool] = False,
        infix: bool = False,
        right_first: bool = False,
        fold: bool = True,
        grows: bool | Callable[[Call], bool] = False,
    ) -> Callable[[Kernel], Kernel]:
        """Register a kernel.

        ``rule`` gives the types that the signature leaves out, ``check`` refuses arguments that the types allow.
        ``usage`` is how a call is written, ``message_name`` the function's name in error messages, and ``doc`` its
        documentation where there is no docstring. ``fails``: whether a row could fail; ``grows``: whether a value may
        be larger than its arguments; ``infix`` calls are in parentheses inside one another; arguments are evaluated
        ``right_first``; a call of constants that does not ``fold`` stays a call.
        """
        parsed = signatures.read(signature)

        def decorate(kernel: Kernel) -> Kernel:
            registered = Function(
                parsed.name,
                aliases,
                self.name,
                usage or parsed.usage,
                doc or " ".join((kernel.__doc__ or "").split()),
                message_name or parsed.name.removeprefix("lcase_"),
                (parsed.least, parsed.most),
                rule or parsed.rule(check),
                kernel,
                Inputs.read(kernel),
                fails,
                infix,
                right_first,
                fold,
                grows,
            )
            for name in (parsed.name, *aliases):
                if name in FUNCTIONS:
                    raise ValueError(f"the function {name!r} is registered twice")
                FUNCTIONS[name] = registered
            return kernel

        return decorate


_TABLE_FUNCTIONS = {
    "explode": '.explode("xs", as_="x")',
    "explode_outer": '.explode("xs", as_="x", outer=True)',
    "posexplode": '.unnest("xs", as_="x", ordinality="place"), whose places count from 1',
    "posexplode_outer": '.unnest("xs", as_="x", ordinality="place", outer=True), whose places count from 1',
    "inline": '.unnest("xs", as_="x").select("x.a", "x.b")',
    "inline_outer": '.unnest("xs", as_="x", outer=True).select("x.a", "x.b")',
    "variant_explode": '.unnest("variant_entries(v)", as_="x").select("x.pos", "x.key", "x.value")',
    "variant_explode_outer": '.unnest("variant_entries(v)", as_="x", outer=True).select("x.pos", "x.key", "x.value")',
    "generate_series": '.generate_series(start, stop, as_="n")',
    "repeat_row": ".repeat_row(n)",
    "unnest": '.unnest("xs", as_="x")',
}


def function(name: str) -> Function:
    """The function of a name.

    Raises:
        NonDeterministicError: its result would differ when a row is retracted.
        UnsupportedFunctionError: altneu does not evaluate it; names near matches.
    """
    registered = FUNCTIONS.get(name) or FUNCTIONS.get(name.lower())
    if registered is not None:
        return registered
    reason = NON_DETERMINISTIC.get(name.lower())
    if reason is not None:
        raise NonDeterministicError(
            f"{name}() gives another value when a row is retracted, so no view that uses it can be maintained; {reason}"
        )
    verb = _TABLE_FUNCTIONS.get(name.lower())
    if verb is not None:
        raise UnsupportedFunctionError(f"{name}() produces rows: it is a verb and not an expression: {verb}")
    refused = refusal(name.lower())
    if refused is not None:
        raise UnsupportedFunctionError(f"the function {name.lower()}() is not supported: {refused}")
    error = UnsupportedFunctionError(
        f"there is no function {name!r}{_near(name)}; docs/functions.md and SHOW FUNCTIONS list those that there are"
    )
    error.unknown = name
    raise error


def is_known(name: str) -> bool:
    """Whether SQL has a function, aggregate or window function of a name in lower case, evaluated here or refused."""
    known = (FUNCTIONS, NON_DETERMINISTIC, _TABLE_FUNCTIONS, SPARK)
    return any(name in names_ for names_ in known) or refusal(name) is not None or name in names()


def _near(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), names(), 3, 0.7)
    return f" (did you mean {' or '.join(near)}?)" if near else ""


def names() -> list[str]:
    """The names of all functions, aggregates and window functions, in order; operators are none."""
    written = {n for n, f in FUNCTIONS.items() if n != f.name or f"{n}(" in f.usage}
    known = {n for n in SPARK if refusal(n) is None and n.isidentifier()}
    return sorted(written | known)


def functions() -> list[Function]:
    """Every function once, in the order of registration."""
    return list(dict.fromkeys(FUNCTIONS.values()))
