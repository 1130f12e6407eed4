"""The statements of a pipeline's SQL files: their heads are read here, and queries stay text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType

from altneu.cli.pipelines.elements import Cdc, Dataset, Elements, FlowOf, Kind, Place, Query, SqlQuery
from altneu.cli.pipelines.errors import unsupported
from altneu.cli.pipelines.settings import check_settings
from altneu.errors import PipelineError
from altneu.sql.dialect import SparkQueries
from altneu.types import parse_schema, quote_name, to_ddl

_STREAM = "#stream"
"""The catalog of tables that are read as streams: ``STREAM t`` is written as ``#stream.default.t``."""
_NAMES = "a name"


def tokens_of(text: str, place: object) -> list[Token]:
    """The words of a text.

    Raises:
        PipelineError: it has none, such as an open quote.
    """
    try:
        return [*SparkQueries().tokenize(text)]
    except TokenError as error:
        raise PipelineError(f"{error} ({place})") from None


def with_streams(text: str, catalog: str, database: str, place: object) -> str:
    """A query with ``STREAM t`` and ``STREAM(t)`` written as tables of a catalog of their own.

    >>> with_streams("SELECT * FROM STREAM raw r JOIN STREAM(a.b)", "spark_catalog", "default", "")
    'SELECT * FROM `#stream`.`spark_catalog.default`.`raw` r JOIN `#stream`.`spark_catalog.a`.`b`'
    """
    words, made, at, i = tokens_of(text, place), list[str](), 0, 0
    while i < len(words):
        if not _begins_stream(words, i):
            i += 1
            continue
        start, i = words[i].start, i + 1
        inside = words[i].token_type == TokenType.L_PAREN
        i += inside
        parts, i = _dotted(words, i)
        if inside:
            if i >= len(words) or words[i].token_type != TokenType.R_PAREN:
                raise PipelineError(f"STREAM(…) has the name of a table in its parentheses ({place})")
            i += 1
        made += [text[at:start], stream_name(parts, catalog, database)]
        at = words[i - 1].end + 1
    return "".join([*made, text[at:]])


def stream_name(parts: list[str], catalog: str, database: str) -> str:
    """What a query reads where it reads a table as a stream."""
    whole = [*(catalog, database)[: max(3 - len(parts), 0)], *parts]
    return ".".join("`" + part.replace("`", "``") + "`" for part in (_STREAM, ".".join(whole[:-1]), whole[-1]))


def stream_of(name: str) -> str | None:
    """The table that is read as a stream under a name that ``stream_name`` has made; None of another name."""
    return name.removeprefix(f"{_STREAM}.") if name.startswith(f"{_STREAM}.") else None


def _begins_stream(words: list[Token], i: int) -> bool:
    if words[i].text.upper() != "STREAM" or i + 1 == len(words) or words[i].token_type == TokenType.IDENTIFIER:
        return False
    before = words[i - 1].text.upper() if i else ""
    if before not in ("FROM", "JOIN", ",", "LATERAL"):
        return False
    following = words[i + 1]
    return following.token_type in (TokenType.L_PAREN, TokenType.IDENTIFIER, TokenType.VAR) or (
        following.text.isidentifier() and following.text.upper() not in ("AS", "WHERE", "JOIN", "GROUP", "ORDER", "ON")
    )


def _dotted(words: list[Token], i: int) -> tuple[list[str], int]:
    parts = [words[i].text]
    i += 1
    while i + 1 < len(words) and words[i].token_type == TokenType.DOT:
        parts.append(words[i + 1].text)
        i += 2
    return parts, i


def register(elements: Elements, text: str, file: str) -> None:
    """Add what the statements of a file define.

    Raises:
        PipelineError: a statement that a pipeline does not have, or a clause that altneu does not; with its place.
    """
    for words in _statements(tokens_of(text, file)):
        _Statement(elements, text, words, file).read()


def _statements(words: Iterable[Token]) -> Iterator[list[Token]]:
    one: list[Token] = []
    for word in words:
        if word.token_type == TokenType.SEMICOLON:
            if one:
                yield one
            one = []
        else:
            one.append(word)
    if one:
        yield one


class _Statement:
    """One statement, read from left to right."""

    def __init__(self, elements: Elements, text: str, words: list[Token], file: str) -> None:
        self._elements, self._text, self._words = elements, text, words
        self._at = 0
        self._place = Place(file, words[0].line)

    # words ------------------------------------------------------------------------------------------------------------

    def _next(self) -> Token | None:
        return self._words[self._at] if self._at < len(self._words) else None

    def _is(self, *words: str) -> bool:
        """Whether these words come next; then they are read."""
        length = self._matched(words)
        self._at += length
        return length > 0

    def _matched(self, words: Sequence[str]) -> int:
        """How many tokens these words are, of which some, such as PARTITIONED BY, are one; 0 if others come next."""
        at, left = self._at, list(words)
        while left and at < len(self._words):
            here = self._words[at].text.upper().split() or [""]
            if left[: len(here)] != here:
                return 0
            left, at = left[len(here) :], at + 1
        return 0 if left else at - self._at

    def _must(self, *words: str) -> None:
        if not self._is(*words):
            self._fail(" ".join(words))

    def _fail(self, expected: str) -> Any:
        word = self._next()
        got = "the end" if word is None else f"{word.text!r} in line {word.line}"
        raise PipelineError(f"expected {expected}, got {got} ({self._place})")

    def _take(self, what: str) -> Token:
        word = self._next()
        if word is None:
            return self._fail(what)
        self._at += 1
        return word

    def _name(self) -> list[str]:
        parts = [self._take(_NAMES).text]
        while (word := self._next()) is not None and word.token_type == TokenType.DOT:
            self._at += 1
            parts.append(self._take(_NAMES).text)
        return parts

    def _string(self) -> str:
        word = self._take("a string")
        if word.token_type != TokenType.STRING:
            self._at -= 1
            self._fail("a string")
        return word.text

    def _inside(self) -> str:
        """The text in parentheses."""
        opening = self._take("(")
        if opening.token_type != TokenType.L_PAREN:
            self._at -= 1
            self._fail("(")
        depth = 1
        while True:
            word = self._take(")")
            depth += (word.token_type == TokenType.L_PAREN) - (word.token_type == TokenType.R_PAREN)
            if not depth:
                return self._text[opening.end + 1 : word.start]

    def _names(self) -> tuple[str, ...]:
        words = tokens_of(self._inside(), self._place)
        return tuple(w.text for w in words if w.token_type != TokenType.COMMA)

    def _rest(self) -> str:
        if self._next() is None:
            self._fail("a query")
        first, last = self._words[self._at], self._words[-1]
        self._at = len(self._words)
        return self._text[first.start : last.end + 1]

    def _until(self, *heads: tuple[str, ...]) -> str:
        """The text up to one of some clauses, or to the end."""
        first, depth = self._take("an expression"), 0
        self._at -= 1
        while (word := self._next()) is not None:
            if not depth and any(self._matched(head) for head in heads):
                break
            depth += (word.token_type == TokenType.L_PAREN) - (word.token_type == TokenType.R_PAREN)
            self._at += 1
        return self._text[first.start : self._words[self._at - 1].end + 1]

    # statements -------------------------------------------------------------------------------------------------------

    def read(self) -> None:
        """Read the statement."""
        if self._is("SET"):
            self._set()
        elif self._is("CREATE"):
            self._create()
        elif self._words[0].text.upper() == "USE":
            raise unsupported("USE in a pipeline", "say catalog: and database: in the spec", self._place)
        else:
            raise PipelineError(
                "[PIPELINE_SQL_GRAPH_ELEMENT_REGISTRATION_ERROR] the files of a pipeline have CREATE statements and "
                f"SET, got {self._words[0].text.upper()} ({self._place})"
            )

    def _set(self) -> None:
        rest = self._rest()
        name, _, value = rest.partition("=")
        check_settings({name.strip().strip("`"): value.strip().strip("'\"")}, "SET", self._place)

    def _create(self) -> None:
        self._is("OR", "REFRESH")
        if self._is("MATERIALIZED", "VIEW"):
            self._table("materialized view")
        elif self._is("STREAMING", "TABLE"):
            self._table("streaming table")
        elif self._is("TEMPORARY", "VIEW") or self._is("TEMP", "VIEW"):
            self._temporary_view()
        elif self._is("FLOW"):
            self._flow()
        elif self._is("VIEW"):
            raise unsupported(
                "CREATE VIEW in a pipeline", "write CREATE TEMPORARY VIEW, or CREATE MATERIALIZED VIEW", self._place
            )
        else:
            self._fail("MATERIALIZED VIEW, STREAMING TABLE, TEMPORARY VIEW or FLOW")

    def _table(self, kind: Kind) -> None:
        self._is("IF", "NOT", "EXISTS")
        names = self._elements.names
        name = names.known(self._name())
        given: dict[str, Any] = {}
        word = self._next()
        if word is not None and word.token_type == TokenType.L_PAREN:
            given["schema"] = to_ddl(parse_schema(self._inside()))
        while not self._is("AS"):
            if self._next() is None:
                break
            if self._is("FLOW", "AUTO", "CDC"):
                self._add_table(name, kind, given)
                self._add_flow(name, name, self._cdc())
                return
            self._clause(given, name)
        self._add_table(name, kind, given)
        if self._next() is not None:
            self._add_flow(name, name, SqlQuery(self._rest()))

    def _clause(self, given: dict[str, Any], name: str) -> None:
        if self._is("USING"):
            given["format"] = self._take("a format").text.lower()
        elif self._is("COMMENT"):
            given["comment"] = self._string()
        elif self._is("TBLPROPERTIES"):
            given["properties"] = self._properties()
        elif self._is("PARTITIONED", "BY"):
            given["partition_by"] = self._names()
        elif self._is("CLUSTER", "BY") or self._is("CLUSTERED", "BY"):
            raise unsupported(
                f"clusters of table {name!r}",
                "altneu does not order the rows in files by columns: leave the clause out, or use PARTITIONED BY",
                self._place,
            )
        else:
            self._fail("USING, PARTITIONED BY, COMMENT, TBLPROPERTIES or AS with a query")

    def _properties(self) -> dict[str, str]:
        words = [w for w in tokens_of(self._inside(), self._place) if w.token_type != TokenType.EQ]
        texts, found = iter(words), dict[str, str]()
        for word in texts:
            if word.token_type == TokenType.COMMA:
                continue
            name = word.text
            value = next(texts, None)
            while value is not None and value.token_type == TokenType.DOT:
                name += f".{next(texts).text}"
                value = next(texts, None)
            if value is None:
                self._fail("a value of the property")
            else:
                found[name] = value.text
        return found

    def _add_table(self, name: str, kind: Kind, given: dict[str, Any]) -> None:
        self._elements.add_dataset(Dataset(name, kind, self._place, **given))

    def _add_flow(self, name: str, target: str, query: Query) -> None:
        self._elements.add_flow(FlowOf(name, target, query, self._place))

    def _temporary_view(self) -> None:
        (name,) = self._name()
        word = self._next()
        if word is not None and word.token_type == TokenType.L_PAREN:
            raise unsupported(f"columns after the name of view {name!r}", "name them in its query", self._place)
        comment = self._string() if self._is("COMMENT") else None
        self._must("AS")
        self._elements.add_dataset(Dataset(name, "temporary view", self._place, comment))
        self._add_flow(name, name, SqlQuery(self._rest()))

    def _flow(self) -> None:
        name = ".".join(self._name())
        if self._is("COMMENT"):
            self._string()
        self._must("AS")
        if self._is("AUTO", "CDC", "INTO"):
            target = self._written()
            self._add_flow(name, target, self._cdc())
            return
        self._must("INSERT", "INTO")
        once = self._is("ONCE")  # or a table of that name
        self._is("TABLE")
        target = "once" if once else self._written()
        if not self._is("BY", "NAME"):
            if once:
                remedy = "make it a flow of a stream, or a materialized view"
                raise unsupported("a flow that is run ONCE", remedy, self._place)
            self._must("BY", "NAME")
        self._add_flow(name, target, SqlQuery(self._rest()))

    def _written(self) -> str:
        return ".".join(map(quote_name, self._name()))

    def _cdc(self) -> Cdc:
        clauses = (("APPLY", "AS", "DELETE"), ("SEQUENCE", "BY"), ("COLUMNS",), ("STORED", "AS"), ("TRACK", "HISTORY"))
        self._must("FROM")
        self._must("STREAM")
        parenthesis = self._is("(")
        source = ".".join(self._name())
        if parenthesis:
            self._must(")")
        self._must("KEYS")
        keys = self._names()
        found: dict[str, Any] = {"deleted": None, "columns": None, "without": None, "history": False}
        while self._next() is not None:
            if self._is("APPLY", "AS", "DELETE", "WHEN"):
                found["deleted"] = self._until(*clauses)
            elif self._is("SEQUENCE", "BY"):
                found["sequence"] = self._until(*clauses)
            elif self._is("COLUMNS"):
                found.update(zip(("columns", "without"), self._columns(), strict=True))
            elif self._is("STORED", "AS", "SCD", "TYPE"):
                kind = self._take("1 or 2").text
                if kind not in ("1", "2"):
                    raise PipelineError(f"STORED AS SCD TYPE must be 1 or 2, got {kind} ({self._place})")
                found["history"] = kind == "2"
            elif self._is("TRACK", "HISTORY", "ON"):
                found.update(zip(("tracked", "untracked"), self._columns(), strict=True))
            else:
                self._fail("APPLY AS DELETE WHEN, SEQUENCE BY, COLUMNS, STORED AS SCD TYPE or TRACK HISTORY ON")
        if "sequence" not in found:
            raise PipelineError(f"[AUTOCDC_MISSING_SEQUENCE_BY] auto CDC needs SEQUENCE BY ({self._place})")
        if (found.get("tracked") or found.get("untracked")) and not found["history"]:
            raise PipelineError(
                f"[AUTOCDC_TRACK_HISTORY_REQUIRES_SCD2] TRACK HISTORY ON needs STORED AS SCD TYPE 2 ({self._place})"
            )
        return Cdc(source, keys, **found)

    def _columns(self) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
        if self._is("*"):
            return None, self._names() if self._is("EXCEPT") else None
        word = self._next()
        if word is not None and word.token_type == TokenType.L_PAREN:
            return self._names(), None
        names = [self._take(_NAMES).text]
        while self._is(","):
            names.append(self._take(_NAMES).text)
        return tuple(names), None
