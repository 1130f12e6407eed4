"""Functions of users in DataFrames: what PySpark keeps of one as bytes, and names of the session's."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from sqlglot import exp

from altneu.collections.functions import udf
from altneu.errors import PlanError
from altneu.expressions.pyspark import forms
from altneu.sql.functions import Functions, SqlFunction


class Called:
    """The functions that the DataFrames of a session may call.

    ``functions`` has those of a name, if there are any.
    """

    def __init__(self, functions: Functions | None) -> None:
        self._functions = functions

    def call(self, name: str, arguments: Sequence[exp.Expr]) -> exp.Expr | None:
        """A call of a function by its name; None if none of the session's has it."""
        function = None if self._functions is None else self._functions.function(name.lower())
        if function is None:
            return None
        given = [forms.unnamed(argument) for argument in arguments]
        if isinstance(function, SqlFunction):
            return function.over(given, exp.Anonymous(this=name, expressions=[g.copy() for g in given]))
        return forms.call_of(function, given)

    def made(
        self, name: str, command: bytes, kind: int, returns: str, arguments: Sequence[exp.Expr], *, deterministic: bool
    ) -> exp.Expr:
        """A call of a function of which PySpark keeps a pickle of the Python function and its type.

        Raises:
            PlanError: it cannot be read, or is of a kind that is no expression of a row.
            NonDeterministicError: it is declared so.
        """
        try:
            function = pickle.loads(command)[0]  # noqa: S301  # which this program has just pickled
        except Exception as error:  # whatever a user's class raises
            raise PlanError(f"the function {name} of a DataFrame cannot be read again: {error}") from error
        title = name if name.isidentifier() else "function"
        given: Any = SimpleNamespace(func=function, evalType=kind, returnType=returns, deterministic=deterministic)
        return forms.call_of(udf(given, name=title).function, arguments)
