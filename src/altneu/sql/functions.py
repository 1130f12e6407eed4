"""Functions of users in queries: what a name that is called means, and calls of SQL functions written out.

A SQL function is an expression over its parameters. A call of it is that expression with the arguments in the places of
the parameters, so that plans know nothing of it, and views are told apart by what it says. The parameters of its
lambdas get names that nobody writes, so that none of them captures a name in an argument.
"""

from __future__ import annotations

import ast
import difflib
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.collections.functions import Udf, udf
from altneu.errors import PlanError, StatementError, TypeMismatchError, UnsupportedFunctionError
from altneu.expressions import cast, registry
from altneu.expressions.build import build
from altneu.expressions.dialect import parse_tree
from altneu.expressions.nodes import FUNCTION
from altneu.linear.user_function import UserFunction
from altneu.sql.trees import name_of

B = TypeVar("B")
LARGEST = 100_000
"""Parts of an expression that a call of a SQL function may stand for."""

_OTHERS = ("mz_now", "system_time", "differentiate", "integrate", "delay_to_neu", "moments")


@runtime_checkable
class Functions(Protocol):
    """What the names of functions mean that are not SQL's own."""

    def function(self, name: str) -> UserFunction | SqlFunction | None:
        """The function of a name, in lower case; None if there is none."""

    def find(self, name: str) -> bool:
        """Look for a function where it takes long, after nothing was found; whether there is one now."""

    def function_names(self) -> Sequence[str]:
        """All names, for messages."""


class Given(dict[str, Udf]):
    """Functions by name, as a caller of ``sql.query`` gives them."""

    def function(self, name: str) -> UserFunction | SqlFunction | None:
        """The function of a name."""
        return next((udf.function for own, udf in self.items() if own.lower() == name), None)

    def find(self, name: str) -> bool:
        """There are no others."""
        return False

    def function_names(self) -> Sequence[str]:
        """All names."""
        return list(self)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a SQL function: its type, and what stands for it where no argument is given, if anything."""

    name: str
    type: pa.DataType
    default: exp.Expr | None = None


@dataclass(frozen=True)
class SqlFunction:
    """A function that is an expression over its parameters; ``body`` calls no SQL function itself."""

    name: str
    parameters: tuple[Parameter, ...]
    returns: pa.DataType
    body: exp.Expr

    @classmethod
    def of(
        cls,
        name: str,
        parameters: Sequence[Parameter],
        returns: pa.DataType | None,
        body: exp.Expr,
        functions: Functions,
    ) -> SqlFunction:
        """A function from what a statement says of it, checked by itself.

        Raises:
            PlanError: its body is no expression of its parameters, or not of the type that it returns.
        """
        names = [p.name.lower() for p in parameters]
        if len(set(names)) < len(names):
            raise StatementError(f"function {name}: two of its parameters have the same name")
        schema = pa.schema([pa.field(p.name, p.type) for p in parameters])
        try:
            written, value = with_functions(lambda tree: (tree, build(tree, schema)), body, functions)
            kind = value.type if returns is None else returns
            if pa.types.is_null(kind):
                raise TypeMismatchError("its value is NULL without a type; write RETURNS and a type")
            cast(value, kind, implicit=False)
            for parameter in parameters:
                if parameter.default is not None:
                    cast(build(parameter.default, pa.schema([])), parameter.type, implicit=False)
        except PlanError as error:
            error.args = (f"function {name}: {error}",)
            raise
        return cls(name, tuple(parameters), kind, _without_captures(written, name))

    def over(self, arguments: Sequence[exp.Expr], shown: exp.Expr) -> exp.Expr:
        """The expression that a call stands for.

        Raises:
            TypeMismatchError: too few or too many arguments.
            PlanError: that is larger than LARGEST.
        """
        least = sum(p.default is None for p in self.parameters)
        if not least <= len(arguments) <= len(self.parameters):
            most = len(self.parameters)
            count = f"{least}" if least == most else f"{least} to {most}"
            plural, where = "s" * (count != "1"), shown.sql("spark")
            raise TypeMismatchError(f"{self.name} takes {count} argument{plural}, not {len(arguments)} [in `{where}`]")
        given = [*arguments, *(p.default for p in self.parameters[len(arguments) :] if p.default is not None)]
        values = {p.name.lower(): _as(value, p.type) for p, value in zip(self.parameters, given, strict=True)}

        def is_parameter(node: exp.Expr) -> bool:
            return isinstance(node, exp.Column) and len(node.parts) == 1 and node.name.lower() in values

        def visit(node: exp.Expr) -> exp.Expr:
            return values[node.name.lower()].copy() if is_parameter(node) else node

        sizes = {name: _size(value) for name, value in values.items()}
        size = sum(sizes[node.name.lower()] if is_parameter(node) else 1 for node in self.body.walk())
        if size > LARGEST:  # functions of functions: twice as large with each
            raise PlanError(
                f"a call of {self.name} must stand for an expression of at most {LARGEST:,} parts, got {size:,}; "
                "compute some of it as columns, in a query in FROM"
            )
        return _as(_replaced(self.body, visit), self.returns)

    @property
    def usage(self) -> str:
        """How it is called."""
        return f"{self.name}({', '.join(f'{p.name} {T.type_name(p.type)}' for p in self.parameters)})"


def _size(tree: exp.Expr) -> int:
    return sum(1 for _ in tree.walk())


def _as(value: exp.Expr, kind: pa.DataType) -> exp.Expr:
    to = parse_tree(f"CAST(NULL AS {T.type_name(kind)})").args["to"]
    return exp.Cast(this=exp.Paren(this=value.copy()), to=to)


def _replaced(tree: exp.Expr, visit: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A tree with nodes replaced; what stands in their place is not visited."""
    replaced = visit(tree)
    if replaced is not tree:
        return replaced
    copied = tree.copy()
    for node in list(copied.find_all(exp.Column, exp.Anonymous)):
        if node is copied:
            continue
        new = visit(node)
        if new is not node:
            node.replace(new)
    return copied


def _without_captures(body: exp.Expr, name: str) -> exp.Expr:
    """A body whose lambdas have parameters of names that no argument has."""
    body = body.copy()
    for function in list(body.find_all(exp.Lambda)):
        names = {p.name.lower(): f"{p.name} of {name}" for p in function.expressions}
        for node in (*function.expressions, *function.this.find_all(exp.Identifier)):
            inner = node if isinstance(node, exp.Identifier) else node.find(exp.Identifier)
            is_first = not isinstance(inner.parent, exp.Dot) or inner.parent.this is inner
            parts = inner.parent.parts if isinstance(inner.parent, exp.Column) else [inner]
            if inner.name.lower() in names and is_first and parts[0] is inner:
                inner.set("this", names[inner.name.lower()])
                inner.set("quoted", True)
    return body


# queries --------------------------------------------------------------------------------------------------------------


def expanded(tree: exp.Expr, functions: Functions) -> exp.Expr:
    """A tree in which calls of SQL functions are written out, and other calls of users' functions carry them."""
    if not any(True for _ in tree.find_all(exp.Anonymous)):
        return tree
    copied = exp.Paren(this=tree.copy())  # so that the call may be all of the tree
    _keep_names(copied, functions)
    calls = [node for node in copied.find_all(exp.Anonymous) if node.args.get(FUNCTION) is None]
    for node in reversed(calls):  # inner ones first
        function = functions.function(node.name.lower())
        if function is None:
            continue
        for argument in node.expressions:
            if isinstance(argument, exp.Kwarg | exp.PropertyEQ):
                raise PlanError(f"{node.name}(): arguments by name are not supported; give them in order")
        if isinstance(function, SqlFunction):
            node.replace(function.over(node.expressions, node))
        else:
            node.set(FUNCTION, function)
    result: exp.Expr = copied.this
    result.parent = None
    return result


def _keep_names(tree: exp.Expr, functions: Functions) -> None:
    """Give columns that a query does not name the names that they would have, had no call been written out."""
    for query in tree.find_all(exp.Select):
        for item in list(query.expressions):
            if isinstance(item, exp.Alias):
                continue
            calls = (node.name.lower() for node in item.find_all(exp.Anonymous))
            if any(isinstance(functions.function(name), SqlFunction) for name in calls):
                item.replace(exp.alias_(item.copy(), name_of(item), quoted=True))


def is_own(name: str) -> bool:
    """Whether SQL has a function of a name itself, evaluated or refused."""
    return registry.is_known(name.lower()) or name.lower() in _OTHERS


def check_name(name: str) -> None:
    """Refuse a name that no function of a user can have.

    Raises:
        StatementError: SQL has a function of that name, or it is no name.
    """
    if not name.isidentifier():
        raise StatementError(f"the name of a function must be letters, digits and _, got {name!r}")
    if is_own(name):
        raise StatementError(f"{name}() is a function of SQL; choose another name")


def with_functions(bind: Callable[[exp.Expr], B], tree: exp.Expr, functions: Functions) -> B:
    """What binding makes of a tree in which users' functions are put in, those that are found late among them.

    Raises:
        UnsupportedFunctionError: there is no function of a name; names functions of users that may be meant.
    """
    looked_for: set[str] = set()
    while True:
        try:
            return bind(expanded(tree, functions))
        except UnsupportedFunctionError as error:
            name = (error.unknown or "").lower()
            if name in looked_for or not name or not functions.find(name):
                raise _near(error, functions) from None
            looked_for.add(name)


def _near(error: UnsupportedFunctionError, functions: Functions) -> UnsupportedFunctionError:
    """An error about a name that is unknown, with functions of users that may be meant."""
    if error.unknown is not None:
        close = difflib.get_close_matches(error.unknown.lower(), functions.function_names(), 3, 0.7)
        if close:
            error.args = (f"{error}; of your own functions, did you mean {' or '.join(close)}?",)
    return error


# functions written in Python ------------------------------------------------------------------------------------------


def in_python(name: str, parameters: Sequence[Parameter], returns: pa.DataType, body: str) -> UserFunction:
    """The function whose body is a text in Python, which reads its parameters as variables and returns a value.

    Raises:
        StatementError: it is not Python.
        NonDeterministicError: it calls chance or the clock.
    """
    for parameter in parameters:
        if not parameter.name.isidentifier() or parameter.default is not None:
            raise StatementError(
                f"function {name}: a parameter of a function in Python must be a name of Python without a default, got "
                f"{parameter.name!r}"
            )
    try:
        module = ast.parse(f"def {name}({', '.join(p.name for p in parameters)}): pass", f"<function {name}>")
        statements = ast.parse(textwrap.dedent(body), f"<function {name}>").body
    except (SyntaxError, ValueError) as error:
        raise StatementError(f"function {name} is not Python: {error}") from None
    if not any(isinstance(node, ast.Return) for statement in statements for node in ast.walk(statement)):
        raise StatementError(f"function {name} returns nothing: its body must have a return statement")
    (definition,) = module.body
    assert isinstance(definition, ast.FunctionDef)
    definition.body = statements
    names: dict[str, object] = {"__name__": "__main__"}  # pickled by value, as what a program defines itself
    try:
        exec(compile(ast.fix_missing_locations(module), f"<function {name}>", "exec"), names)  # noqa: S102 -- it is asked for
    except (SyntaxError, ValueError) as error:
        raise StatementError(f"function {name} is not Python: {error}") from None
    call = names[name]
    assert callable(call)
    return replace(udf(call, returns, name=name).function, takes=tuple(p.type for p in parameters))


def usage_of(name: str, function: UserFunction | SqlFunction) -> tuple[str, str, str, str]:
    """A function as SHOW FUNCTIONS lists it: name, group, how it is called, and what it is."""
    if isinstance(function, SqlFunction):
        return (
            name,
            "Functions of users",
            function.usage,
            f"{T.type_name(function.returns)}: {function.body.sql('spark')}",
        )
    takes = "…" if function.takes is None else ", ".join(map(T.type_name, function.takes))
    kept = ", results kept by argument" if function.memo else ""
    return name, "Functions of users", f"{name}({takes})", f"{T.type_name(function.returns)}: Python{kept}"
