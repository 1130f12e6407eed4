"""What is read of a parsed text: for each class of sqlglot's nodes, the arguments that a query's meaning is made of.

sqlglot parses the clauses of many databases. An argument that is set and that nothing reads would be ignored without a
word, so ``refuse_unread`` looks at every node of a parsed tree once, before anything is made of it: what is not in
``READ`` is refused by name. A class that is not in ``READ`` is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sqlglot import ErrorLevel, exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokens import Token, TokenType

from altneu.errors import PlanError, UnsupportedFunctionError
from altneu.errors.nearest import nearest

_Parser: Any = Spark.Parser

_ORDERED = ("order", "limit", "offset")
_SET = ("with_", "this", "expression", "distinct", *_ORDERED)
_BOTH_SIDES = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE),
    *(exp.NullSafeEQ, exp.NullSafeNEQ, exp.And, exp.Or, exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor),
    *(exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.RegexpLike, exp.DPipe, exp.Is, exp.Escape, exp.Dot),
    *(exp.IntervalSpan, exp.Extract, exp.Filter, exp.WithinGroup),
)
_ONE = (
    *(exp.Not, exp.BitwiseNot, exp.Neg, exp.Paren, exp.RawString, exp.National, exp.HexString, exp.Boolean, exp.Var),
    *(exp.IgnoreNulls, exp.RespectNulls, exp.Any, exp.All, exp.From, exp.Where, exp.Having, exp.Qualify, exp.Exists),
    exp.CommentColumnConstraint,
)
_LISTS = (exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets, exp.Order, exp.Concat, exp.Hint)

READ: Mapping[type[exp.Expr], tuple[str, ...]] = {
    **dict.fromkeys(_BOTH_SIDES, ("this", "expression")),
    **dict.fromkeys(_ONE, ("this",)),
    **dict.fromkeys(_LISTS, ("expressions",)),
    **dict.fromkeys((exp.Anonymous, exp.Bracket, exp.Lambda, exp.Aliases), ("this", "expressions")),
    **dict.fromkeys((exp.Like, exp.ILike), ("this", "expression", "negate")),
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _SET),
    **dict.fromkeys((exp.Null, exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentUser), ()),
    # names and values
    exp.Column: ("this", "table", "db", "catalog"),
    exp.Identifier: ("this", "quoted"),
    exp.Literal: ("this", "is_string"),
    exp.Star: ("except_", "replace"),
    exp.Alias: ("this", "alias"),
    exp.Interval: ("this", "unit"),
    exp.DataType: ("this", "expressions", "kind", "collate"),
    exp.CollateColumnConstraint: ("this",),
    exp.DataTypeParam: ("this",),
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.ColumnConstraint: ("this", "kind"),
    exp.NotNullColumnConstraint: ("allow_null",),
    # expressions
    exp.Between: ("this", "low", "high"),
    exp.Case: ("this", "ifs", "default"),
    exp.Cast: ("this", "to"),
    exp.TryCast: ("this", "to"),
    exp.If: ("this", "true"),
    exp.In: ("this", "expressions", "query"),
    exp.Overlay: ("this", "expression", "from_", "for_"),
    exp.StrPosition: ("this", "substr", "position"),
    exp.Substring: ("this", "start", "length"),
    exp.Trim: ("this", "expression", "position"),
    exp.Distinct: ("expressions", "on"),
    exp.Ordered: ("this", "desc", "nulls_first"),
    exp.Window: ("this", "partition_by", "order", "spec", "alias", "over"),
    exp.WindowSpec: ("kind", "start", "start_side", "end", "end_side"),
    # queries
    exp.Select: (
        *("with_", "expressions", "hint", "distinct", "from_", "laterals", "joins", "where", "group", "having"),
        *("qualify", "windows", *_ORDERED),
    ),
    exp.Subquery: ("this", "alias", "joins", "pivots", *_ORDERED),
    exp.Values: ("expressions", "alias", *_ORDERED),
    exp.With: ("expressions", "recursive"),
    exp.CTE: ("this", "alias", "materialized"),
    exp.Table: ("this", "alias", "db", "catalog", "joins", "ordinality", "pivots"),
    exp.Pivot: ("expressions", "fields", "unpivot", "include_nulls", "alias"),
    exp.TableAlias: ("this", "columns"),
    exp.Lateral: ("this", "alias", "view", "outer", "ordinality"),
    exp.Unnest: ("expressions", "alias", "offset"),
    exp.Join: ("this", "on", "using", "side", "kind", "method"),
    exp.Group: ("expressions", "all", "rollup", "cube", "grouping_sets"),
    exp.Limit: ("expression", "limit_options"),
    exp.Offset: ("expression",),
    exp.Fetch: ("direction", "count", "limit_options"),
    exp.LimitOptions: ("rows",),
}
"""The arguments of each class that are obeyed. A hint of Spark's and MATERIALIZED change no answer: any is obeyed."""

OF_DIALECT: frozenset[tuple[type[exp.Expr], str]] = frozenset(
    {
        *((exp.Div, "safe"), (exp.Div, "typed"), (exp.Concat, "safe"), (exp.Concat, "coalesce")),
        *((exp.TryCast, "safe"), (exp.TryCast, "requires_string"), (exp.DataType, "nested")),
    }
)
"""Arguments with which sqlglot notes what its dialect means by a node, whatever the text says."""

_VALUES: Mapping[tuple[type[exp.Expr], str], frozenset[str]] = {
    (exp.Join, "side"): frozenset({"LEFT", "RIGHT", "FULL"}),
    (exp.Join, "kind"): frozenset({"INNER", "OUTER", "CROSS", "SEMI", "ANTI"}),
    (exp.Join, "method"): frozenset({"NATURAL", "ASOF"}),
    (exp.WindowSpec, "kind"): frozenset({"ROWS", "RANGE"}),
    (exp.Window, "over"): frozenset({"OVER"}),
}
"""The words that are obeyed, of arguments that are one word."""

_PAST = "ask for a time at the end of the statement, SELECT … AS OF t"
_PAST_JOIN = f"{_PAST}; a row with what was there at its time is ASOF JOIN … ON a.key = b.key AND a.time >= b.time"
_REFUSED: Mapping[str, str] = {
    "by_name": "UNION BY NAME; name the columns in one order",
    "changes": "CHANGES; SUBSCRIBE gives what changes",
    "cluster": "CLUSTER BY with LIMIT: the rows depend on Spark's partitions; use ORDER BY",
    "connect": "CONNECT BY: use WITH RECURSIVE",
    "cross_apply": "CROSS APPLY; use LATERAL",
    "cycle": "SEARCH and CYCLE of a recursive query; keep a path or a depth in a column",
    "distribute": "DISTRIBUTE BY with LIMIT: the rows depend on Spark's partitions; use ORDER BY",
    "format": "FORMAT: leave it out; to_date and to_timestamp take one",
    "into": "SELECT INTO: name the result with CREATE VIEW",
    "key_expressions": "USING KEY; WITH MUTUALLY RECURSIVE takes any query, such as max(...) of each key",
    "locks": "FOR UPDATE: a view locks nothing",
    "match": "MATCH_RECOGNIZE: use window functions",
    "percent": "LIMIT n PERCENT; count the rows, and compare with row_number() OVER (ORDER BY ...)",
    "prewhere": "PREWHERE: use WHERE",
    "rename": "* RENAME; write * EXCEPT (a), a AS b",
    "sample": "TABLESAMPLE, which is random; filter on a hash of a key",
    "search": "SEARCH and CYCLE of a recursive query; keep a path or a depth in a column",
    "settings": "SETTINGS: leave them out",
    "sort": "SORT BY with LIMIT: the rows depend on Spark's partitions; use ORDER BY",
    "symmetric": "BETWEEN SYMMETRIC; write BETWEEN least(a, b) AND greatest(a, b)",
    "totals": "WITH TOTALS; GROUP BY ROLLUP (...) has the totals too",
    "version": f"the past of one table (VERSION, TIMESTAMP or FOR SYSTEM_TIME AS OF); {_PAST_JOIN}",
    "when": f"the past of one table (AT, BEFORE); {_PAST_JOIN}",
    "with_ties": "WITH TIES; compare rank() OVER (ORDER BY ...) with the number of rows",
}
"""What some arguments are called in a text, and what to write instead."""

_OF_CLASS: Mapping[tuple[type[exp.Expr], str], str] = {
    (exp.Limit, "expressions"): "LIMIT n BY; use QUALIFY row_number() OVER (PARTITION BY ... ORDER BY ...) <= n",
    (exp.Order, "this"): "ORDER BY inside a call; write f(...) WITHIN GROUP (ORDER BY ...)",
    (exp.Star, "ilike"): "* ILIKE; name the columns",
    (exp.Table, "hints"): "hints of a table; leave them out",
    (exp.Table, "partition"): "PARTITION; ask in WHERE",
}
_NO_ALIAS = frozenset({"any", "final", "global", "positional"})
"""Words of other dialects that stand after a table; Spark's has them for its alias."""


def with_quotes(tokens: list[Token], sql: str) -> list[Token]:
    """Tokens in which texts beside each other are one, as in Spark 4.

    ``'it''s'`` has the quote in it, ``'a' 'b'`` is ``ab``, and so is ``r'a''b'``, as a raw text ends at any quote.
    sqlglot puts plain texts together, without the quote, and no raw ones.
    """
    result: list[Token] = []
    for token in tokens:
        last = result[-1] if result else None
        if last is not None and {token.token_type, last.token_type} <= _TEXTS:
            raw = token.token_type is TokenType.RAW_STRING or last.token_type is TokenType.RAW_STRING
            beside = token.start == last.end + 1 and sql[last.end : token.start + 1] in ("''", '""')
            if raw or beside:
                text = last.text + ("" if raw else sql[token.start]) + token.text
                result[-1] = Token(TokenType.STRING, text, last.line, last.col, last.start, token.end, last.comments)
                continue
        result.append(token)
    return result


_TEXTS = {TokenType.STRING, TokenType.RAW_STRING}


TYPES = (
    *("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "varchar", "binary"),
    *("date", "time", "timestamp", "timestamp_ntz", "interval", "variant", "void", "array", "map", "struct"),
    *("byte", "short", "integer", "long", "real", "numeric", "timestamp_ltz"),
)
"""The names of types, as Spark has them; other words for some of them come last."""

NO_TYPE = "there is no type"
"""How what is said of a word in the place of a type begins."""


_OF_TYPES = frozenset((*_Parser.STRING_PARSERS, *_Parser.PLACEHOLDER_PARSERS))
"""What follows a type of which a value is written."""


def _closing(tokens: Sequence[Token]) -> Mapping[int, int]:
    """Where each parenthesis closes that opens."""
    opened: list[int] = []
    pairs: dict[int, int] = {}
    for place, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            opened.append(place)
        elif token.token_type is TokenType.R_PAREN and opened:
            pairs[opened.pop()] = place
    return pairs


class WithTypes(_Parser):  # type: ignore[misc]  # sqlglot makes it an attribute, not a type
    """The parser of sqlglot, which says of a word in the place of a type that it is none."""

    _no_type: Token | None = None
    _closing: tuple[Sequence[Token], Mapping[int, int]] = (), {}

    def _parse_types(self, *args: Any, **kwargs: Any) -> exp.Expr | None:
        at = self._curr
        if kwargs.get("check_func") and self._is_call():
            return None
        found: exp.Expr | None = super()._parse_types(*args, **kwargs)
        is_asked = not kwargs.get("check_func") and kwargs.get("allow_identifiers", True)  # or an expression may stand
        if found is None and is_asked and at is not None and at.token_type is TokenType.VAR:
            self._no_type = at
        return found

    def _is_call(self) -> bool:
        """Whether the name of a type, where a value may stand, is called as a function: ``bigint(x)``.

        That is so if no text follows, as in ``DECIMAL(3, 1) '1.5'``. Otherwise what is in its parentheses would be
        parsed twice, as the sizes of a type and as arguments, and what is in theirs four times.
        """
        if self._curr is None or self._next is None or self._next.token_type is not TokenType.L_PAREN:
            return False
        if self._closing[0] is not self._tokens:
            self._closing = self._tokens, _closing(self._tokens)
        behind = self._closing[1].get(self._index + 1, -1) + 1
        if not behind or self._curr.token_type not in self.TYPE_TOKENS:
            return False
        after = self._tokens[behind] if behind < len(self._tokens) else None
        return after is None or (after.token_type not in _OF_TYPES and after.text.upper() not in ("WITH", "WITHOUT"))

    def raise_error(self, message: str, *token: Token) -> None:
        """Refuse the text, at a token or where the parser is.

        Raises:
            ParseError: unless errors are gathered.
        """
        at: Token | None = token[0] if token else self._curr or self._prev
        if at is not None and at is self._no_type:
            near = nearest(at.text, TYPES)
            message = f"{NO_TYPE} {at.text!r} ({f'did you mean {near[0]}?' if near else ', '.join(TYPES)})"
        super().raise_error(message, *token)


class Ddl(Spark):
    """Spark's DDL, with texts as Spark 4 reads them."""

    class Parser(WithTypes):
        """The parser of sqlglot."""

        def _parse(self, parse_method: Callable[..., Any], raw_tokens: list[Token], sql: str | None = None) -> Any:
            return super()._parse(parse_method, with_quotes(raw_tokens, sql or ""), sql)


def refuse_unread(tree: exp.Expr) -> None:
    """Refuse a parsed text in which something is set that nothing reads.

    >>> import sqlglot
    >>> refuse_unread(sqlglot.parse_one("SELECT a FROM t LIMIT 50 PERCENT"))
    Traceback (most recent call last):
        ...
    altneu.errors.PlanError: not supported: LIMIT n PERCENT; count the rows, and compare with row_number() OVER ...

    Raises:
        PlanError: naming it, with its place and what to write instead, as far as these are known.

    Cost:   linear in the nodes of the tree.
    """
    for node in tree.walk():
        read = READ.get(type(node))
        if isinstance(node, exp.Placeholder):
            name = f":{node.name}" if node.name else "?"
            raise PlanError(
                f"not supported: the parameter {name} without a value; session.sql(text, args=...) takes it"
            )
        if read is None:
            kind = type(node).__name__
            raise UnsupportedFunctionError(f"not supported: `{_shown(node)}` ({kind}){in_text(node)}")
        for name, value in node.args.items():
            if value is None or value is False or (isinstance(value, list) and not value):
                continue
            if name not in read and (type(node), name) not in OF_DIALECT:
                raise PlanError(f"not supported: {_words(node, name)}{in_text(node)}")
            allowed = _VALUES.get((type(node), name))
            if allowed is not None and str(value).upper() not in allowed:
                raise PlanError(f"not supported: {str(value).upper()} in `{_shown(node)}`{in_text(node)}")
        if isinstance(node, exp.TableAlias):
            _refuse_word(node)


def _refuse_word(node: exp.TableAlias) -> None:
    """Refuse a word of another dialect that Spark's grammar takes for the alias of a table.

    Raises:
        PlanError: naming it.
    """
    name = node.this
    if not isinstance(name, exp.Identifier | None):
        said = f"@{name.name}" if isinstance(name, exp.Parameter) else _shown(name)
        raise PlanError(f"not supported: `{said}` after the name of a table{in_text(node)}; {_PAST_JOIN}")
    if name is not None and not name.args.get("quoted") and name.name.lower() in _NO_ALIAS:
        word = name.name.upper()
        raise PlanError(
            f"not supported: {word} after the name of a table{in_text(node)}; an alias is written `{name.name}`"
        )


def _words(node: exp.Expr, name: str) -> str:
    """What an argument is called, and what to write instead of it."""
    known = _OF_CLASS.get((type(node), name)) or _REFUSED.get(name)
    if known is not None:
        return known
    said = name.strip("_").replace("_", " ").upper()
    return f"{said} of {node.key.upper()}, in `{_shown(node)}`"


def _shown(node: exp.Expr) -> str:
    try:
        return node.sql("spark", unsupported_level=ErrorLevel.IGNORE)[:80]
    except ValueError:  # some have no text of their own
        return node.key.upper()


def in_text(node: exp.Expr) -> str:
    """Where in the text something stands, to end a message with; empty if the parser has not kept it."""
    place = place_of(node)
    return f" ({place})" if place else ""


def place_of(tree: exp.Expr) -> str:
    """Where in the text something stands, as far as the parser has kept it."""
    for node in tree.find_all(exp.Identifier):
        if "line" in node.meta:
            return f"line {node.meta['line']}, column {node.meta['col'] - len(node.name) + 1}"
    return ""
