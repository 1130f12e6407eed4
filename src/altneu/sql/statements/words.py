"""The parts of statements: words, names, lists, texts, times, and the queries and expressions between them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from altneu.errors import PlanError, StatementError
from altneu.sql.dialect import parse_query
from altneu.sql.scope import ANYWHERE, DEFAULT, MOST_PARTS, Path, Within, full_name, path_of
from altneu.sql.statements.tree import Select
from altneu.types.syntax import refuse_unread

_BEFORE_NAMES = ("FROM", "INTO", "JOIN", "TABLE", "UPDATE", "USING")  # what follows is a name, however it is spelled
CLAUSES = (
    "FROM",
    "WHERE",
    "GROUP",
    "ORDER",
    "HAVING",
    "QUALIFY",
    "LIMIT",
    "OFFSET",
    "UNION",
    "JOIN",
    "VALUES",
    "SELECT",
)
AROUND = 40  # characters of the text that an error shows on each side
NOT_NAMES = (TokenType.STRING, TokenType.NUMBER, TokenType.SEMICOLON)
_OF_ONE_TABLE = ("VERSION", "TIMESTAMP", "SYSTEM_TIME", "SYSTEM_VERSION")  # AS OF after these is of a table in FROM
_AFTER_TYPES = ("NOT", "DEFAULT", "FIRST", "AFTER", ",")
QUERIES = ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "(")


class Words:
    """A statement, read from left to right: each method consumes the next part, or raises with what is missing."""

    def __init__(self, parser: Any, within: Within = ANYWHERE) -> None:
        self._parser, self.within = parser, within

    def is_query(self) -> bool:
        """Whether a query comes next."""
        token = self._parser._curr
        return bool(token) and token.text.upper() in QUERIES and token.token_type not in NOT_NAMES

    def query(self) -> exp.Expr:
        """A query: all up to the end, or to a parenthesis that closes around it."""
        if not self.is_query():
            self.expected("a query")
        tree = self._parser._parse_statement()
        if not isinstance(tree, exp.Query | exp.Values):
            self.expected("a query")
        return tree

    @property
    def token(self) -> Token:
        """What comes next."""
        return self._parser._curr

    @property
    def last(self) -> Token:
        """What was taken last."""
        return self._parser._prev

    def text_from(self, first: Token) -> str:
        """What was written from a token on, up to here."""
        return str(self._parser._find_sql(first, self._parser._prev))

    def at_end(self) -> bool:
        """Whether the statement ends here."""
        return not self._parser._curr

    def is_string(self) -> bool:
        """Whether a text in quotes comes next."""
        return bool(self._parser._match(TokenType.STRING, advance=False))

    def word(self, *texts: str, advance: bool = True) -> bool:
        """Whether these words come next, which are then taken."""
        return bool(self._parser._match_text_seq(*texts, advance=advance))

    def one_of(self, *texts: str) -> str | None:
        """Which of some words comes next, which is then taken."""
        return next((text for text in texts if self.word(*text.split()) or self.word(text)), None)

    def expect(self, *texts: str) -> None:
        """Take these words, or say that they are missing."""
        if not self.word(*texts):
            self.expected(" ".join(texts))

    def part(self, what: str) -> str:
        """A word, quoted or not."""
        token = self._parser._curr
        quoted = token and token.token_type == TokenType.IDENTIFIER
        if not quoted and (not token or token.token_type in NOT_NAMES or not _begins_name(token.text)):
            self.expected(what)
        self._parser._advance()
        return token.text

    def name(self, what: str) -> str:
        """A name inside a definition, such as a column's: one part, quoted or not."""
        name = self.part(what)
        if self._parser._match(TokenType.DOT, advance=False):
            self.fail(f"{what} must have one part here, without a table or a schema before it")
        return name

    def table(self, what: str) -> str:
        """The name of a definition: ``[[catalog.]schema.]name``, each quoted or not."""
        return self.table_parts(what)[1]

    def new(self, what: str, read: Callable[[str], str]) -> str:
        """The name of a new definition, as ``read`` reads it, under which FROM is to find it.

        The words that FROM takes for something else are known to the parser of queries alone, so it is asked. A
        statement that a store has is read whatever its name is.
        """
        first = self._parser._curr
        name = read(what)
        last = self._parser._prev
        if self._parser.checks_names and not read_by_from(self._parser.sql[first.start : last.end + 1]):
            self.fail(f"FROM reads no table of this name; quote it: `{name}`", first)
        return name

    def table_parts(self, what: str) -> tuple[list[str], str]:
        """The parts of a definition's name as they are written, and the name."""
        first = self._parser._curr
        parts = self.parts(what)
        if len(parts) > MOST_PARTS:
            self.fail(f"{what} must have at most {MOST_PARTS} parts, catalog.schema.name", first)
        return parts, full_name(parts, self.within)

    def schema(self) -> Path:
        """The name of a schema, perhaps with its catalog."""
        first = self._parser._curr
        parts = self.parts("the name of a schema")
        if len(parts) > len(DEFAULT):
            self.fail("a schema's name must have at most 2 parts, catalog.schema", first)
        catalog, schema = path_of((*parts, ""), self.within)
        return catalog, schema

    def alias(self, *before: str) -> str | None:
        """``AS name`` or a name alone, which is none of the words that may come ``before`` it."""
        if self.word("AS"):
            return self.part("a name")
        if self.at_end() or self.token.token_type in NOT_NAMES or not _begins_name(self.token.text):
            return None
        quoted = self.token.token_type == TokenType.IDENTIFIER
        return None if not quoted and self.token.text.upper() in before else self.part("a name")

    def relation(self, what: str) -> exp.Expr:
        """A table, a view or a query in parentheses, with its alias, of which everything is read."""
        tree = self._parser._parse_table() if self._parser._curr else None
        if not isinstance(tree, exp.Table | exp.Subquery | exp.Values):
            self.expected(what)
        refuse_unread(tree)
        return tree

    def dotted(self, what: str) -> str:
        """A name of any number of parts."""
        return ".".join(self.parts(what))

    def parts(self, what: str) -> list[str]:
        """The parts of a name."""
        parts = [self.part(what)]
        while self._parser._match(TokenType.DOT):
            parts.append(self.part(what))
        return parts

    def names(self, what: str) -> tuple[str, ...]:
        """Names in parentheses, at least one."""
        self.opening()
        names = [self.name(what)]
        while self._parser._match(TokenType.COMMA):
            names.append(self.name(what))
        self.closing()
        return tuple(names)

    def column_type(self) -> str:
        """The type of a column, as DDL, with NOT NULL; "" where there is none."""
        if self.word("NOT", "NULL", advance=False) or self.word("COMMENT", advance=False):
            return "NOT NULL" if self.word("NOT", "NULL") else ""
        if self.at_end() or self.word(",", advance=False) or self.word(")", advance=False):
            return ""
        first = self._parser._curr
        if self._parser._parse_types() is None:
            self.expected("a type")
        text = self.text_from(first)
        return f"{text} NOT NULL" if self.word("NOT", "NULL") else text

    def string(self, what: str) -> str:
        """A text in quotes."""
        token = self._parser._curr
        if not self._parser._match(TokenType.STRING):
            self.expected(f"{what} in quotes")
        return token.text

    def whole(self, what: str) -> int:
        """A whole number."""
        sign = -1 if self._parser._match(TokenType.DASH) else 1
        token = self._parser._curr
        if not self._parser._match(TokenType.NUMBER) or not token.text.isdigit():
            self.expected(what, token)
        return sign * int(token.text)

    def number(self, what: str) -> int | float:
        """A number."""
        sign = -1 if self._parser._match(TokenType.DASH) else 1
        token = self._parser._curr
        if not self._parser._match(TokenType.NUMBER):
            self.expected(what)
        return sign * (int(token.text) if token.text.isdigit() else float(token.text))

    def time(self) -> int | tuple[int | None, ...]:
        """A time, or several of them in parentheses, where NULL is the last."""
        if not self._parser._match(TokenType.L_PAREN):
            return self.whole("a time")
        times = [self._time_or_null()]
        while self._parser._match(TokenType.COMMA):
            times.append(self._time_or_null())
        self.closing()
        if len(times) < 2:
            self.fail("AS OF (system, event) takes two times, or as many as the view has")
        return tuple(times)

    def event(self) -> int | tuple[int, ...]:
        """An event time, or several of them in parentheses."""
        if not self._parser._match(TokenType.L_PAREN):
            return self.whole("an event time")
        times = [self.whole("an event time")]
        while self._parser._match(TokenType.COMMA):
            times.append(self.whole("an event time"))
        self.closing()
        return times[0] if len(times) == 1 else tuple(times)

    def _time_or_null(self) -> int | None:
        return None if self._parser._match(TokenType.NULL) else self.whole("a time or NULL")

    def opening(self) -> None:
        """Take an opening parenthesis."""
        if not self._parser._match(TokenType.L_PAREN):
            self.expected("(")

    def closing(self) -> None:
        """Take a closing parenthesis."""
        if not self._parser._match(TokenType.R_PAREN):
            self.expected(")")

    def in_parentheses(self) -> str:
        """The text between parentheses, as it was written."""
        self.opening()
        first, depth = self.token, 1
        while depth and not self.at_end():
            depth += (self.token.token_type == TokenType.L_PAREN) - (self.token.token_type == TokenType.R_PAREN)
            if depth:
                self._parser._advance()
        text = self.text_from(first) if first is not self.token else ""
        self.closing()
        return text

    def columns(self) -> tuple[str, dict[str, exp.Expr], dict[str, str]]:
        """Columns in parentheses as DDL, and by name the DEFAULT and the COMMENT of those that have one.

        What else may be written about a column is left in the DDL, whose reader refuses it.
        """
        begin = self._parser._index
        try:
            return self._columns()
        except StatementError:
            self._parser._advance(begin - self._parser._index)
            return self.in_parentheses(), {}, {}

    def _columns(self) -> tuple[str, dict[str, exp.Expr], dict[str, str]]:
        columns, defaults, comments = list[str](), dict[str, exp.Expr](), dict[str, str]()
        self.opening()
        while True:
            first = self.token
            name = self.name("a column")
            self.column_type()
            if self.word("COLLATE"):
                self.name("a collation")
                while self._parser._match(TokenType.DOT):
                    self.name("a collation")
            columns.append(self.text_from(first))
            while not self.word(",", advance=False) and not self.word(")", advance=False):
                if self.word("DEFAULT"):
                    defaults[name] = self.expression("a value")
                elif self.word("COMMENT"):
                    comments[name] = self.string("a comment")
                else:
                    self.expected("DEFAULT or COMMENT")
            if not self.word(","):
                break
        self.closing()
        return ", ".join(columns), defaults, comments

    def type_text(self) -> str:
        """A type, as it was written: up to what may follow it, such as NOT and DEFAULT, or the end."""
        first, depth = self.token, 0
        while not self.at_end() and (depth or self.token.text.upper() not in (*_AFTER_TYPES, ";")):
            depth += sum((c in "(<") - (c in ")>") for c in self.token.text)
            self._parser._advance()
        if self.token is first:
            self.expected("a type")
        return self.text_from(first)

    def expression_text(self, what: str) -> str:
        """An expression, as it was written."""
        first = self._parser._curr
        self._expression(what)
        return self._parser._find_sql(first, self._parser._prev)

    def expression(self, what: str) -> exp.Expr:
        """An expression, of which everything is read."""
        tree = self._expression(what)
        refuse_unread(tree)
        return tree

    def _expression(self, what: str) -> exp.Expr:
        tree = self._parser._parse_disjunction() if self._parser._curr else None
        if tree is None:
            self.expected(what)
        return tree

    def type(self, what: str) -> str:
        """A type, as it was written."""
        first = self._parser._curr
        if not first or self._parser._parse_types() is None:
            self.expected(what, first)
        return self.text_from(first)

    def code(self, what: str) -> str:
        """A text between ``$$`` and ``$$``, or in quotes."""
        token = self._parser._curr
        if not self._parser._match(TokenType.RAW_STRING) and not self._parser._match(TokenType.STRING):
            self.expected(what)
        return str(token.text)

    def condition(self) -> exp.Expr | None:
        """The condition after WHERE, if there is one."""
        if not self._parser._match(TokenType.WHERE):
            return None
        return self.expression("a condition")

    def common_tables(self, *before: str) -> exp.With | None:
        """``WITH name AS (…), …`` of a statement that begins with one of some words; None: of a query."""
        depth = 0
        for token in self._parser._tokens[self._parser._index + 1 :]:
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            word = "" if depth or token.token_type == TokenType.IDENTIFIER else token.text.upper()
            if word in before:
                tree = self._parser._parse_with()
                return tree if isinstance(tree, exp.With) else None
            if word in QUERIES and word != "(":
                break
        return None

    def select(self) -> Select:
        """A query with or without ``AS OF``."""
        clause = next(self._as_of(), None)
        if clause is None:
            query = self.query()
            return Select(query, _version(query))
        with self._up_to(clause):
            query = self.query()
        self._parser._advance(2)
        return Select(query, self.time())

    def _as_of(self) -> Iterator[int]:
        """Where ``AS OF`` and a time stand, outside of parentheses."""
        depth = 0
        for i in range(self._parser._index, self._parser._tokens_size - 2):
            token = self._parser._tokens[i]
            depth += (token.token_type == TokenType.L_PAREN) - (token.token_type == TokenType.R_PAREN)
            if depth or token.token_type != TokenType.ALIAS or self._parser._tokens[i + 1].text.upper() != "OF":
                continue
            before = self._parser._tokens[i - 1] if i else token
            if before.token_type != TokenType.STRING and before.text.upper().split()[-1] in _OF_ONE_TABLE:
                continue
            after = self._parser._tokens[i + 2 : i + 4]
            if after[0].token_type == TokenType.L_PAREN:
                after = after[1:]
            if after and after[0].token_type in (TokenType.NUMBER, TokenType.DASH, TokenType.NULL):
                yield i

    @contextmanager
    def _up_to(self, end: int) -> Iterator[None]:
        """Inside, the statement ends before a token."""
        tokens, size = self._parser._tokens, self._parser._tokens_size
        self._parser._tokens, self._parser._tokens_size = tokens[:end], end
        self._parser._advance(0)
        try:
            yield
            if self._parser._curr:
                self.fail(f"unexpected {self._parser._curr.text!r}")
        finally:
            self._parser._tokens, self._parser._tokens_size = tokens, size
            self._parser._advance(0)

    # errors -----------------------------------------------------------------------------------------------------------

    def place(self, token: Token) -> tuple[int, int]:
        """Line and column of a token, from 1 on."""
        return place_of(self._parser.sql, token.start)

    def expected(self, what: str, token: Token | None = None) -> NoReturn:
        """Refuse the token here, naming the expected one."""
        shown = token or self._parser._curr
        self.fail(f"expected {what}, not {shown.text!r}" if shown else f"expected {what}, and the text ends", shown)

    def fail(self, reason: str, token: Token | None = None) -> NoReturn:
        """Refuse the statement, at a token.

        Raises:
            StatementError: always.
        """
        shown = token or self._parser._curr or self._parser._prev
        at, end = (shown.start, shown.end + 1) if shown else (len(self._parser.sql), len(self._parser.sql))
        if not token and not self._parser._curr:
            at = end
        raise StatementError(located(self._parser.sql, at, end, reason))


def _version(query: exp.Expr) -> int | None:
    """The time of ``t VERSION AS OF 3``, which is taken out, where the query reads no other table.

    Of a query that reads several it would be the time of one of them, and a query has one.
    """
    tables = list(query.find_all(exp.Table))
    version = tables[0].args.get("version") if len(tables) == 1 and not query.find(exp.CTE) else None
    if version is None or version.name.upper() != "VERSION" or version.args.get("kind") != "AS OF":
        return None
    time = version.expression
    if not isinstance(time, exp.Literal) or time.is_string or not time.name.isdigit():
        return None
    tables[0].set("version", None)
    return int(time.name)


def read_by_from(name: str) -> bool:
    """Whether FROM takes a name, as it is written, for that of a table.

    >>> read_by_from("db.orders"), read_by_from("select"), read_by_from("`select`")
    (True, False, True)
    """
    try:
        read = parse_query(f"FROM {name}").args["from_"].this
    except (PlanError, KeyError):
        return False
    return isinstance(read, exp.Table) and not read.alias and all(isinstance(p, exp.Identifier) for p in read.parts)


def _begins_name(text: str) -> bool:
    return text[:1].isalpha() or text[:1] == "_"


def place_of(text: str, at: int) -> tuple[int, int]:
    """Line and column of a position, from 1 on."""
    return text.count("\n", 0, at) + 1, at - (text.rfind("\n", 0, at) + 1) + 1


def _misspelled(before: str) -> str:
    """A word of the grammar that the last word before may be meant to be."""
    *_, previous, word = ["", "", *re.findall(r"\w+", before)]
    typed = word.upper()
    is_word = typed not in CLAUSES and previous.upper() not in _BEFORE_NAMES
    close = difflib.get_close_matches(typed, CLAUSES, 1, 0.7) if is_word else []
    return f"; is {word!r} before it meant to be {close[0]}?" if close else ""


def located(text: str, start: int, end: int, reason: str) -> str:
    """A reason with where it is and what is around.

    >>> print(located("DROP VEIW x", 5, 9, "expected VIEW, not 'VEIW'"))
    line 1, column 6: expected VIEW, not 'VEIW'
      DROP VEIW x
           ^^^^
    """
    reason += _misspelled(text[:start])
    line, column = place_of(text, start)
    begin = text.rfind("\n", 0, start) + 1
    shown = text[begin : text.find("\n", begin) if "\n" in text[begin:] else len(text)]
    cut = max(0, column - 1 - AROUND)
    shown = shown[cut : cut + 2 * AROUND + max(end - start, 1)]
    marks = "^" * max(1, min(end - start, len(shown) - (column - 1 - cut)))
    return f"line {line}, column {column}: {reason}\n  {shown}\n  {' ' * (column - 1 - cut)}{marks}"
