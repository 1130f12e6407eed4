"""``session.udf``: functions of the program under names that statements know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from altneu.collections.functions import Returns, Udf, Vectorized, udf
from altneu.engine.engine import Engine
from altneu.errors import StatementError
from altneu.sql.statements.defined import Definitions


class Registration:
    """Gives functions of the program names, by which the SQL of its session calls them."""

    def __init__(self, engine: Engine, known: Definitions) -> None:
        self._engine, self._known = engine, known

    def register(
        self,
        name: str,
        f: Callable[..., Any],
        returns: Returns = None,
        *,
        vectorized: Vectorized = None,
        memo: bool = False,
        version: str | int | None = None,
    ) -> Udf:
        """Register a function under a name, and return it as an expression's function; the arguments are ``udf``'s.

        The name belongs to this session, and is not stored: a program that opens a store again registers the functions
        of its statements before it runs the first of them. Of functions with one name the last counts, for statements
        that come later. A function that ``spark.udf.register`` has given a name needs none here.

        Raises:
            StatementError: SQL has a function of that name, a statement has created one, or it is no name.
            NonDeterministicError, PlanError, SchemaError: as ``udf``.

        >>> import altneu as an
        >>> session = an.Session()
        >>> _ = session.udf.register("initial", lambda name: name[:1], "string")
        >>> session.sql("SELECT initial('Ada') AS first").to_pylist()
        [('A',)]
        """
        if not isinstance(name, str):
            raise StatementError(f"the name of a function must be a text, got {name!r}")
        function = udf(f, returns, name=name, vectorized=vectorized, memo=memo, version=version)
        with self._engine.lock:
            self._engine.check_open()
            self._known.register(name, function)
        return function

    def __repr__(self) -> str:
        return f"Registration({', '.join(self._known.function_names())})"
