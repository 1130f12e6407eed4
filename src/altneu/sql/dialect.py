"""The grammar of queries: Spark's, with ``WITH MUTUALLY RECURSIVE``, and function calls left as they are written."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar

import sqlglot
from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from altneu.errors import ExpressionSyntaxError
from altneu.expressions.dialect import SparkExpressions
from altneu.sql.pipes import piped

MUTUAL = "mutual"
"""The key of a ``WITH`` tree's ``meta`` for ``MUTUALLY RECURSIVE``: the limit of rounds, and whether it is an error."""

LEVELS = "levels"
"""The key of the ``meta`` of a query of WITH RECURSIVE for MAX RECURSION LEVEL: how often it may be repeated."""

MODE = "mode"
"""The key of an as-of join's ``meta`` for what stands after its condition: REVISING, LOCKED or LOGICAL."""
MODES = ("REVISING", "LOCKED", "LOGICAL")
SYSTEM_TIME = "system_time"
"""The function in the ON of ``JOIN b FOR SYSTEM_TIME AS OF a.at``: of what the left row's time is."""
CALCULUS = "calculus"
"""The key of a query's ``meta`` for ``DIFFERENTIATE (t)`` and the like in FROM."""
CALCULUS_VERBS = ("differentiate", "integrate", "delay_to_neu", "moments")
_ARRIVAL = ("proctime", "update_time")

_PLACES = ("sort", "cluster", "distribute")

_NAMES = ("GLOB", "RETURNING", "XOR")
_Base: Any = SparkExpressions.Parser
_Tokenizer: Any = SparkExpressions.Tokenizer


class SparkQueries(SparkExpressions):
    """Spark SQL with the extensions for streams and recursion."""

    class Tokenizer(_Tokenizer):  # type: ignore[misc]  # sqlglot makes it an attribute, not a type
        """Without words of other databases, which are names in Spark."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in _Tokenizer.KEYWORDS.items() if word not in _NAMES
        }

    class Parser(_Base):  # type: ignore[misc]  # sqlglot makes it an attribute, not a type
        """The parser of expressions, for whole queries."""

        SUPPORTS_TABLE_QUERY = True

        def _parse(self, parse_method: Any, raw_tokens: list[Token], sql: str | None = None) -> list[Any]:
            """As sqlglot, but the ``window(`` of a GROUP BY is a function; a WINDOW clause has a name there.

            Queries and statements are both parsed by this.
            """
            for token, following in pairwise(raw_tokens):
                if token.token_type == TokenType.WINDOW and following.token_type == TokenType.L_PAREN:
                    token.token_type = TokenType.VAR
            trees: list[Any] = super()._parse(parse_method, raw_tokens, sql)
            return trees

        def _parse_with(self, skip_with_token: bool = False) -> exp.With | None:
            index = self._index
            if (skip_with_token or self._match(TokenType.WITH)) and self._match_text_seq("MUTUALLY", "RECURSIVE"):
                limit = self._parse_limit_of_rounds()
                mutual: exp.With | None = super()._parse_with(skip_with_token=True)
                if mutual is not None:
                    mutual.meta[MUTUAL] = limit
                return mutual
            self._retreat(index)
            plain: exp.With | None = super()._parse_with(skip_with_token=skip_with_token)
            return plain

        def _parse_statement(self) -> exp.Expr | None:
            """As sqlglot, with pipe operators behind any query."""
            tree: exp.Expr | None = super()._parse_statement()
            if isinstance(tree, exp.Query | exp.Values) and self._match(TokenType.PIPE_GT, advance=False):
                return piped(self, tree)
            return tree

        def _parse_pipe_syntax_query(self, query: exp.Expr) -> exp.Expr:
            return piped(self, query)

        def _parse_select(self, *args: Any, consume_pipe: bool = True, **kwargs: Any) -> exp.Expr | None:
            """As sqlglot, with pipe operators behind VALUES too."""
            query: exp.Expr | None = super()._parse_select(*args, consume_pipe=consume_pipe, **kwargs)
            if consume_pipe and isinstance(query, exp.Values) and self._match(TokenType.PIPE_GT, advance=False):
                return piped(self, query)
            return query

        def _parse_derived_table_values(self, allow_value_synonym: bool = False) -> exp.Values | None:
            """As sqlglot, unless VALUES in parentheses are a side of a set operation."""
            index = self._index
            if self._match_pair(TokenType.L_PAREN, TokenType.VALUES):
                rows = self._parse_csv(self._parse_value)
                alias = self._parse_table_alias()
                if not self._match(TokenType.R_PAREN):
                    self._retreat(index)
                    return None
                return self.expression(exp.Values(expressions=rows, alias=alias or self._parse_table_alias()))
            plain: exp.Values | None = super()._parse_derived_table_values(allow_value_synonym)
            return plain

        def _parse_cube_or_rollup(self, with_prefix: bool = False) -> exp.Cube | exp.Rollup | None:
            """As sqlglot, with any expression for a key: ``CUBE (a > 1, b IS NULL)``."""
            if with_prefix or not self._match_set((TokenType.CUBE, TokenType.ROLLUP)):
                plain: exp.Cube | exp.Rollup | None = super()._parse_cube_or_rollup(with_prefix=with_prefix)
                return plain
            kind = exp.Cube if self._prev.token_type == TokenType.CUBE else exp.Rollup
            return self.expression(kind(expressions=self._parse_wrapped_csv(self._parse_disjunction)))

        def _parse_grouping_set(self) -> exp.Expr | None:
            return self._parse_grouping_sets() or self._parse_cube_or_rollup() or self._parse_disjunction()

        def _parse_query_modifiers(self, this: Any) -> Any:
            """As sqlglot, where SORT, DISTRIBUTE and CLUSTER BY order a query as ORDER BY does."""
            tree = super()._parse_query_modifiers(this)
            return tree if tree is None else self.without_places(tree)

        def without_places(self, query: exp.Expr) -> exp.Expr:
            """A query in which SORT, DISTRIBUTE and CLUSTER BY are its order, as its rows have no places.

            With LIMIT or OFFSET they stay, and are refused: Spark's answer depends on the number of its partitions.
            """
            given = [clause for name in _PLACES if (clause := query.args.get(name)) is not None]
            if not given or query.args.get("limit") or query.args.get("offset"):
                return query
            words = [clause.key.upper() for clause in given] + (["ORDER"] if query.args.get("order") else [])
            if len(words) > 1 and set(words) != {"SORT", "DISTRIBUTE"}:
                self.raise_error(f"{words[0]} BY and {words[1]} BY of one query", self._prev)
            keys = [key for clause in given for key in clause.expressions if not isinstance(key, exp.Literal)]
            keys = [key if isinstance(key, exp.Ordered) else exp.Ordered(this=key, nulls_first=True) for key in keys]
            for name in _PLACES:
                query.set(name, None)
            query.set("order", exp.Order(expressions=keys) if keys else None)
            return query

        def _parse_cte(self) -> exp.CTE | None:
            """As sqlglot, with ``MAX RECURSION LEVEL n`` before AS."""
            index = self._index
            alias = self._parse_table_alias(self.ID_VAR_TOKENS)
            if alias is None or not self._match_text_seq("MAX", "RECURSION", "LEVEL"):
                self._retreat(index)
                plain: exp.CTE | None = super()._parse_cte()
                return plain
            number = self._parse_number()
            if number is None or not number.name.isdigit():
                self.raise_error("Expected a number of levels")
            self._match(TokenType.ALIAS)
            cte = self.expression(exp.CTE(this=self._parse_wrapped(self._parse_statement), alias=alias))
            cte.meta[LEVELS] = int(number.name)
            return cte

        def _parse_version(self) -> exp.Version | None:
            is_system_time = self._match_text_seq("FOR", "SYSTEM_TIME", advance=False)
            version: exp.Version | None = super()._parse_version()
            if version is not None:
                version.meta[SYSTEM_TIME] = bool(is_system_time)
            return version

        def _parse_join(self, *args: Any, **kwargs: Any) -> exp.Join | None:
            """As sqlglot, with the mode of an as-of join behind it, and with Flink's join as of a time."""
            join: exp.Join | None = super()._parse_join(*args, **kwargs)
            if join is None:
                return None
            if (join.method or "").upper() == "ASOF":
                mode = next((word for word in MODES if self._match_text_seq(word)), None)
                if mode is not None:
                    join.meta[MODE] = mode
            elif not join.method and isinstance(join.this, exp.Table):
                _as_of_system_time(join)
            return join

        def _parse_table(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
            """As sqlglot, with ``DIFFERENTIATE (t)``, ``INTEGRATE (SELECT ...)`` and the like."""
            table: exp.Expr | None = super()._parse_table(*args, **kwargs)
            if isinstance(table, exp.Table | exp.Subquery):
                pivots = self._parse_pivots()
                table.set("pivots", [*(table.args.get("pivots") or ()), *(pivots or ())] or None)
            call = table.this if isinstance(table, exp.Table) else None
            if table is None or not isinstance(call, exp.Anonymous) or call.name.lower() not in CALCULUS_VERBS:
                return table
            if len(call.expressions) != 1:
                self.raise_error(f"{call.name.upper()} takes a table or a query")
            (of,) = call.expressions
            if isinstance(of, exp.Column):
                of = exp.Table(this=of.this, db=of.args.get("table"))
            elif isinstance(of, exp.Query) and not isinstance(of, exp.Subquery):
                of = exp.Subquery(this=of)
            elif not isinstance(of, exp.Subquery):
                self.raise_error(f"{call.name.upper()} takes a table or a query")
            query = exp.Select(expressions=[exp.Star()], from_=exp.From(this=of))
            query.meta[CALCULUS] = call.name.lower()
            return exp.Subquery(this=query, **{name: v for name, v in table.args.items() if name != "this"})

        def _parse_pivot(self) -> exp.Pivot | None:
            """Read ``PIVOT (...)`` or ``UNPIVOT (...)`` with its alias, of expressions and of several columns."""
            unpivot = bool(self._match(TokenType.UNPIVOT))
            if not unpivot and not self._match(TokenType.PIVOT):
                return None
            include = unpivot and bool(self._match_text_seq("INCLUDE", "NULLS"))
            if unpivot and not include:
                self._match_text_seq("EXCLUDE", "NULLS")
            self._match_l_paren()
            if unpivot:
                expressions = [self._parse_columns_of_pivot()]
            else:
                expressions = self._parse_csv(self._parse_aggregate_of_pivot)
            if not self._match(TokenType.FOR):
                self.raise_error("Expected FOR")
            fields = [self._parse_columns_of_pivot()]  # and what is in the list
            if not self._match(TokenType.IN):
                self.raise_error("Expected IN")
            self._match_l_paren()
            fields += self._parse_csv(lambda: self._parse_alias(self._parse_disjunction()))
            self._match_r_paren()
            self._match_r_paren()
            alias = None
            if not self._match_set((TokenType.PIVOT, TokenType.UNPIVOT), advance=False):
                alias = self._parse_table_alias()
            return self.expression(
                exp.Pivot(expressions=expressions, fields=fields, unpivot=unpivot, include_nulls=include, alias=alias)
            )

        def _parse_comprehension(self, this: exp.Expr | None) -> None:
            """Leave ``FOR`` to PIVOT, as Spark has no list comprehensions."""
            self._retreat(self._index - 1)

        def _parse_aggregate_of_pivot(self) -> exp.Expr | None:
            """An expression with or without an alias, which FOR is not."""
            tree: exp.Expr | None = self._parse_disjunction()
            if tree is None or self._match_set((TokenType.FOR, TokenType.COMMA), advance=False):
                return tree
            self._match(TokenType.ALIAS)
            return self.expression(exp.Alias(this=tree, alias=self._parse_id_var()))

        def _parse_columns_of_pivot(self) -> exp.Expr | None:
            """One column, or several in parentheses."""
            if not self._match(TokenType.L_PAREN):
                column: exp.Expr | None = self._parse_column()
                return column
            columns = self._parse_csv(self._parse_column)
            self._match_r_paren()
            return self.expression(exp.Tuple(expressions=columns))

        def _parse_limit_of_rounds(self) -> tuple[int | None, bool]:
            """Read ``([RETURN AT | ERROR AT] RECURSION LIMIT n)``; the limit, and whether more rounds are an error."""
            if not self._match(TokenType.L_PAREN):
                return None, True
            error = not self._match_text_seq("RETURN", "AT")
            if error:
                self._match_text_seq("ERROR", "AT")
            if not self._match_text_seq("RECURSION", "LIMIT"):
                self.raise_error("Expected RETURN AT RECURSION LIMIT n or ERROR AT RECURSION LIMIT n")
            number = self._parse_number()
            if number is None:
                self.raise_error("Expected a number of rounds")
            self._match_r_paren()
            return int(number.name), error


def _as_of_system_time(join: exp.Join) -> None:
    """``JOIN b FOR SYSTEM_TIME AS OF x``: an as-of join; by the row's arrival, or by a time that ON then has."""
    version = join.this.args.get("version")
    if version is None or not version.meta.get(SYSTEM_TIME) or version.args.get("kind") != "AS OF":
        return
    join.this.set("version", None)
    join.set("method", "ASOF")
    at, on = version.expression, join.args.get("on")
    if isinstance(at, exp.Anonymous) and at.name.lower() in _ARRIVAL and not at.expressions:
        join.meta[MODE] = "LOCKED"
        return
    time = exp.Anonymous(this=SYSTEM_TIME, expressions=[at])
    join.set("on", time if on is None else exp.And(this=on, expression=time))


def parse_query(text: str) -> exp.Expr:
    """Parse one query.

    >>> parse_query("select a from t where b > 1").sql("spark")
    'SELECT a FROM t WHERE b > 1'

    Raises:
        ExpressionSyntaxError: the text is not a query; the message shows where.
    """
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect=SparkQueries) if tree is not None]
    except sqlglot.errors.SqlglotError as error:
        raise ExpressionSyntaxError(syntax_error(error)) from None
    except RecursionError:
        raise ExpressionSyntaxError("a query is nested too deeply; split it into views or WITH parts") from None
    if len(trees) != 1 or not isinstance(trees[0], exp.Query | exp.Values):
        shown = "nothing" if not trees else f"{len(trees)} statements" if len(trees) > 1 else _kind(trees[0])
        raise ExpressionSyntaxError(f"the text must be one query (SELECT, VALUES, WITH ...), got {shown}")
    return trees[0]


def _kind(tree: exp.Expr) -> str:
    return f"{tree.key.upper()}: {tree.sql('spark')[:60]}"


def syntax_error(error: sqlglot.errors.SqlglotError) -> str:
    """The message of a parser's error, with its place."""
    details = getattr(error, "errors", None)
    if not details:
        return f"cannot parse the query: {str(error).splitlines()[0]}"
    first = details[0]
    near = first.get("highlight") or ""
    description = str(first.get("description", "syntax error")).rstrip(".")
    if description.startswith("Required keyword"):  # sqlglot goes on with the names of its own classes
        description = "an operand or argument is missing"
    return f"line {first.get('line')}, column {first.get('col')}: {description}" + (f" near {near!r}" if near else "")
