"""The grammar of statements: sqlglot's parser with the project's Spark dialect, and what it is missing for it.

A statement is dispatched by its first word (``grammar``); its names, lists and options are read by ``words``,
and every query and expression inside is sqlglot's to parse, with calls left as they are written.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import sqlglot
from sqlglot.tokens import Token, TokenType

from altneu.errors import StatementError
from altneu.sql.dialect import SparkQueries
from altneu.sql.scope import ANYWHERE, Within
from altneu.sql.statements.arguments import Arguments, with_arguments
from altneu.sql.statements.grammar import WORDS
from altneu.sql.statements.tree import CreateView, Statement, Use
from altneu.sql.statements.words import QUERIES, Words, located

_Tokenizer: Any = SparkQueries.Tokenizer
_Parser: Any = SparkQueries.Parser


class SparkStatements(SparkQueries):
    """Spark SQL with the statements of a session."""

    class Tokenizer(_Tokenizer):  # type: ignore[misc]  # sqlglot makes it an attribute, not a type
        """No word makes the rest of a statement one text: all of them are parsed."""

        COMMANDS: ClassVar[set[TokenType]] = set()
        RAW_STRINGS: ClassVar[list[Any]] = [*_Tokenizer.RAW_STRINGS, ("$$", "$$")]
        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind for word, kind in _Tokenizer.KEYWORDS.items() if kind is not TokenType.COMMAND
        }

    class Parser(_Parser):  # type: ignore[misc]
        """The parser of one statement after the other; ``within`` is where the next one is written.

        ``checks_names`` refuses names of new definitions that FROM does not take.
        """

        within: Within = ANYWHERE
        checks_names: bool = True

        def parse(self, raw_tokens: list[Token], sql: str) -> list[Any]:
            """All statements of a text."""
            return [s for s in self._parse(_statement, raw_tokens, sql) if s is not None]


def _statement(parser: Any) -> Statement | None:
    """The statement that begins here; None where there is nothing but comments."""
    words = Words(parser, parser.within)
    while words.word(";"):
        pass
    if words.at_end():
        return None
    first = words.token
    begins = first.text.upper()
    common = words.common_tables("DELETE", "INSERT", "MERGE", "UPDATE") if begins == "WITH" else None
    if common is not None:
        begins = words.token.text.upper()
    known = WORDS.get(begins) if first.token_type not in (TokenType.STRING, TokenType.IDENTIFIER) else None
    if known is not None:
        words.word(begins)
        statement = known(words)
    elif begins in QUERIES:
        statement = words.select()
    else:
        words.fail(f"no statement begins with {first.text!r}{_nearest(begins)}", first)
    if not words.at_end():
        words.fail(f"unexpected {words.token.text!r}")
    if common is not None:
        statement = statement.within(common)
    if isinstance(statement, Use):
        parser.within = replace(parser.within, path=statement.path)
    elif isinstance(statement, CreateView) and statement.temporary:
        parser.within = replace(parser.within, alone=parser.within.alone | {statement.name.lower()})
    return replace(statement, text=words.text_from(first), line=words.place(first)[0])


_INSTEAD = {
    "CALL": "a Python program calls session's methods",
    "COPY": "CREATE SOURCE … FROM FILE reads files, CREATE SINK … INTO PARQUET writes them",
    "DECLARE": "SUBSCRIBE gives what changes",
    "FETCH": "SUBSCRIBE gives what changes",
    "GRANT": "the permissions of a store's folder decide who may read it",
    "PIVOT": "sum(…) FILTER (WHERE …) for each column",
    "SET": "the session's settings are arguments of Session, or --set of altneu run",
    "TAIL": "SUBSCRIBE",
    "VACUUM": "stores are tidied by themselves",
}


def _nearest(word: str) -> str:
    if word in _INSTEAD:
        return f", which is not supported; instead: {_INSTEAD[word]}"
    return "; statements begin with " + ", ".join(sorted({*WORDS, *QUERIES[:3]}))


def with_parameters(text: str, arguments: Arguments | None) -> str:
    """A text with constants in the places of its parameters (``arguments``).

    >>> with_parameters("SELECT * FROM t WHERE k = :k", {"k": 3})
    'SELECT * FROM t WHERE k = 3'

    Raises:
        StatementError: values and parameters do not fit; a quote or a comment is not closed.
    """
    _check_text(text)
    return with_arguments(text, _tokens(SparkStatements(), text), arguments)


def _check_text(text: object) -> None:
    if not isinstance(text, str):
        raise StatementError(f"session.sql needs a text, not {type(text).__name__}")


def parse(text: str, within: Within = ANYWHERE, *, stored: bool = False) -> list[Statement]:
    """The statements of a text, which semicolons part; names have the schema ``within`` which they are written.

    What is ``stored`` may have names that are refused by now.

    >>> [type(s).__name__ for s in parse("CREATE TABLE t (k int); SELECT * FROM t -- all of it")]
    ['CreateSource', 'Select']

    Raises:
        StatementError: it does not parse; with the place, the token there and the expected one.
    """
    _check_text(text)
    dialect = SparkStatements()
    tokens = _tokens(dialect, text)
    try:
        parser: Any = dialect.parser()
        parser.within, parser.checks_names = within, not stored
        statements: Any = parser.parse(tokens, text)
    except sqlglot.errors.ParseError as error:
        raise StatementError(_from_sqlglot(text, error)) from None
    except RecursionError:
        raise StatementError("a statement is nested too deeply; CREATE VIEW gives a part of it a name") from None
    return list(statements)


def count_tokens(text: str) -> int:
    """How many tokens a text has: what parsing it costs, known before it is parsed.

    >>> count_tokens("SELECT k + 1 FROM t")
    6

    Raises:
        StatementError: a quote or a comment is not closed.
    """
    return len(_tokens(SparkStatements(), text))


def _tokens(dialect: SparkStatements, text: str) -> list[Token]:
    try:
        return dialect.tokenize(text)
    except sqlglot.errors.TokenError as error:
        raise StatementError(_unfinished(error)) from None


def _unfinished(error: Exception) -> str:
    """A quote or a comment that nothing closes, as sqlglot says where it begins."""
    where = str(error.__cause__ or "")
    hint = f" ({where})" if where.startswith("Missing") else ""
    return f"the text ends inside quotes or a comment{hint}: close them"


def _from_sqlglot(text: str, error: sqlglot.errors.ParseError) -> str:
    details: dict[str, Any] = error.errors[0] if error.errors else {}
    reason = str(details.get("description") or error).split("\n")[0]
    if reason.startswith("Required keyword"):  # sqlglot goes on with the names of its own classes
        reason = "an operand or argument is missing"
    reason = reason.partition(" but got <")[0]  # sqlglot's own form of a token
    highlight = str(details.get("highlight") or "")
    line, end = int(details.get("line") or 1), int(details.get("col") or 1)
    begin = 0
    for _ in range(line - 1):
        begin = text.find("\n", begin) + 1
    start = max(begin, begin + end - len(highlight))
    return located(text, start, start + len(highlight), reason)
