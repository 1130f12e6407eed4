"""Queries that are asked again: bound, optimised and prepared once, for all values that columns are compared with.

The constants of a text after its WHERE (texts, numbers, dates, timestamps, true and false) are cut out by a regular
expression, and what is left is its template. Those that are compared with a column, in WHERE, are parameters of the
query; the others are a part of what it means. Whether the template means what the text does is checked when it is
prepared: it is parsed beside the text. The query is bound with texts that nobody writes, of which only the types are
read, and is not used if one of them has become part of its plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.engine.before import Before
from altneu.engine.engine import Engine
from altneu.engine.reading import Time
from altneu.engine.recent import Recent
from altneu.errors import AltneuError
from altneu.expressions.construct import cast, integer
from altneu.expressions.expr import Literal
from altneu.expressions.parameters import PARAMETER, marked
from altneu.expressions.parse import parse as expression
from altneu.linear import Filter
from altneu.plan import ir
from altneu.sql import Shown
from altneu.sql.scope import Within
from altneu.sql.statements.defined import Definitions
from altneu.sql.statements.ordered import Ordered, ordered
from altneu.sql.statements.parser import parse
from altneu.sql.statements.tree import Select
from altneu.views.peek import from_lookups
from altneu.views.prepared import Prepared, prepared

MOST_BYTES = 4096  # of a query that is remembered
MOST_QUERIES = 256

_WHERE = re.compile(r"\bwhere\b", re.IGNORECASE)
_UNCLEAR = r"""["\\:?;]|--|/\*"""
_SPECIAL = re.compile(_UNCLEAR)
_CONSTANT = re.compile(
    rf"""(?<!\w)(?:(?P<word>date|timestamp|timestamp_[nl]tz)\s*)?'(?P<characters>[^']*)'(?![\w'])
      | (?:interval\s*|\w+)'[^']*' | `[^`]*`
      | (?<![\w.])(?P<sign>-\s*)?(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:e[+-]?[0-9]+)?(?:bd|[lsyfd])?)(?![\w.])
      | (?<![\w.])(?P<boolean>true|false)(?![\w.(])
      | \w+
      | (?P<unclear>{_UNCLEAR}|'')""",
    re.IGNORECASE | re.VERBOSE,
)
_BEGINS = re.compile(r"(?:^|[=<>(,]|\b(?:and|or|between))\s*$", re.IGNORECASE)
"""What is before a sign that belongs to a number, and before a constant ``true`` or ``false``."""
_TYPES = {"date": T.DATE, "timestamp": T.TIMESTAMP, "timestamp_ltz": T.TIMESTAMP, "timestamp_ntz": T.TIMESTAMP_NTZ}
_NOTHING = pa.schema([])
_COMPARED = (exp.EQ, exp.NullSafeEQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.In, exp.Between)
_AROUND = (*_COMPARED, exp.And, exp.Or, exp.Paren)


@dataclass(frozen=True)
class Template:
    """A text without some of its constants, and these: as they are written, and as expressions have them."""

    text: str
    constants: tuple[str, ...]
    literals: tuple[Literal, ...]

    @classmethod
    def of(cls, text: str) -> Template:
        """The template of a text.

        >>> template = Template.of(
        ...     "SELECT * FROM v WHERE k = -17 AND s > 'x' AND v.a1 < 1.5 AND d = DATE '2024-02-29'"
        ... )
        >>> template.text
        'SELECT * FROM v WHERE k = :int_0 AND s > :string_1 AND v.a1 < :decimal_2_1_2 AND d = :date_3'
        >>> template.constants
        ('-17', "'x'", '1.5', "DATE '2024-02-29'")
        """
        where = _WHERE.search(text)
        if where is None or _SPECIAL.search(text, 0, where.end()) or "\\" in text:
            return cls(text, (), ())
        constants, literals, unclear = list[str](), list[Literal](), list[str]()

        def cut(match: re.Match[str]) -> str:
            if match["unclear"]:
                unclear.append(match[0])
            before, constant = "", match[0]
            if (match["sign"] or match["boolean"]) and not _BEGINS.search(match.string[: match.start()]):
                if match["boolean"]:
                    return constant
                before, constant = match["sign"], match["number"]  # a difference
            literal = _literal(match, constant)
            if literal is None:
                return match[0]
            constants.append(constant)
            literals.append(literal)
            return before + _place(literal, len(literals) - 1)

        rest = _CONSTANT.sub(cut, text[where.end() :])
        return cls(text, (), ()) if unclear else cls(text[: where.end()] + rest, tuple(constants), tuple(literals))


def _literal(match: re.Match[str], constant: str) -> Literal | None:
    """A constant as expressions have it; None of what is no constant, or null, or fails."""
    characters, word, number = match["characters"], match["word"], match["number"]
    if characters is not None:
        return Literal(characters, T.STRING) if word is None else _typed(word.lower(), characters)
    if number is not None and number.isdecimal():
        return integer(-int(number) if constant[0] == "-" else int(number))
    return None if number is None and match["boolean"] is None else _written(constant)


@lru_cache(maxsize=4096)
def _typed(word: str, characters: str) -> Literal | None:
    value = cast(Literal(characters, T.STRING), _TYPES[word], implicit=False)
    return value if isinstance(value, Literal) and not value.nullable else None


@lru_cache(maxsize=4096)
def _written(constant: str) -> Literal | None:
    try:
        value = expression(constant, _NOTHING)
    except AltneuError:
        return None
    return value if isinstance(value, Literal) and not value.nullable else None


def _place(literal: Literal, number: int) -> str:
    """What stands for a constant in the text: its type and its number."""
    return f":{_kind(literal.type)}_{number}"


@lru_cache(maxsize=1024)
def _kind(data_type: pa.DataType) -> str:
    return re.sub(r"\W+", "_", T.type_name(data_type)).strip("_")


def _unlikely(number: int) -> str:
    """A text that nobody writes, in place of a constant while a query is bound."""
    return f"\0{PARAMETER} {number}\0"


@dataclass(frozen=True)
class _Asked:
    """A prepared query, of which constants are parameters, and for which plan and definitions it was prepared."""

    plan: object
    version: int
    query: Prepared
    order: Ordered
    at: Time
    parameters: frozenset[int]

    def constants(self, template: Template) -> Sequence[Literal]:
        """Constants for its parameters."""
        return template.literals if self.parameters else ()


@dataclass(frozen=True)
class _Refused:
    """A query that lookups do not answer, as of a plan and definitions."""

    plan: object
    version: int


class Templates:
    """The queries that were asked of a session lately, prepared when they are asked for the second time.

    A query is prepared again once a view or a definition was made, replaced or dropped.
    """

    def __init__(self, engine: Engine, known: Definitions, shown: Callable[..., Shown]) -> None:
        self._engine, self._known, self._shown = engine, known, shown
        self._kept = Recent[tuple[int, ...]](MOST_QUERIES)  # which constants of a template are not parameters
        self._queries = Recent[_Asked | _Refused](MOST_QUERIES)

    def asked(self, text: str) -> Asking | None:
        """A query that was asked before, with other constants perhaps; None if it is to be bound as it is written."""
        if len(text) > MOST_BYTES:
            return None
        template = Template.of(text)
        kept = self._kept.get(template.text)
        if kept is None:
            self._kept.put(template.text, ())
            return None
        key = template.text, tuple(template.constants[number] for number in kept)
        query = self._queries.get(key)
        if query is None or not self._is_current(query):
            if self._engine.before is not None:
                return None  # who waits for the lock does it where the query is bound
            with self._engine.lock:
                query, kept = self._prepared(text, template)
            self._kept.put(template.text, kept)
            self._queries.put((template.text, tuple(template.constants[number] for number in kept)), query)
        return Asking(self, query, query.constants(template)) if isinstance(query, _Asked) else None

    def _is_current(self, query: _Asked | _Refused) -> bool:
        return query.plan is self._engine.plan and query.version == self._known.version

    def answer(self, query: _Asked, constants: Sequence[Literal], state: Engine | Before) -> pa.Table | None:
        """The rows of a query; None if it is to be computed otherwise. Under the lock of ``state``."""
        if not self._is_current(query):
            return None
        answer = from_lookups(state, query.query, query.at, constants)
        return None if answer is None else query.order.apply(answer.table)

    # preparing ------------------------------------------------------------------------------------------------------

    def _prepared(self, text: str, template: Template) -> tuple[_Asked | _Refused, tuple[int, ...]]:
        """A query, and which of its constants are no parameters."""
        every, version = tuple(range(len(template.constants))), self._known.version
        refused = _Refused(self._engine.plan, version)
        try:
            statements = parse(text, self._known.within)
            if len(statements) != 1 or not isinstance(statements[0], Select):
                return refused, every
            parameters, tree = _parameters(template, statements[0], self._known.within)
            shown = partial(self._shown, at=statements[0].at)
            order = ordered(tree, shown)
            collection = self._engine.catalogue.planner.recognised(PARAMETER, order.shown.collection, "auto")
            query = prepared(self._engine, collection, order.first)
            if query is None or not _stands(query, parameters):
                if not parameters:
                    return refused, every
                order = ordered(statements[0].query, shown)
                query = prepared(self._engine, order.shown.collection, order.first)
                parameters = frozenset()
        except AltneuError:
            return refused, every  # it is said when the query is bound as it is written
        if query is None:
            return refused, every
        asked = _Asked(self._engine.plan, version, query, order, statements[0].at, parameters)
        return asked, tuple(number for number in every if number not in parameters)


@dataclass(frozen=True)
class Asking:
    """A query with the constants that it is asked with."""

    templates: Templates
    query: _Asked
    constants: Sequence[Literal]

    @property
    def at(self) -> Time:
        """The time of AS OF."""
        return self.query.at

    def answer(self, state: Engine | Before) -> pa.Table | None:
        """Its rows; None if it is to be computed otherwise. Under the lock of ``state``."""
        return self.templates.answer(self.query, self.constants, state)


def _parameters(template: Template, written: Select, within: Within) -> tuple[frozenset[int], exp.Expr]:
    """Which constants of a template are parameters, and the tree of the query with marks in the places of these."""
    nothing = frozenset[int](), written.query
    if not template.constants:
        return nothing
    try:
        statements = parse(template.text, within)
        constants = [_tree(constant) for constant in template.constants]
        means = [expression(tree, _NOTHING) for tree in constants]
    except AltneuError:
        return nothing
    if len(statements) != 1 or not isinstance(statements[0], Select) or statements[0].at != written.at:
        return nothing
    tree = statements[0].query
    places = {f":{node.name}": node for node in tree.find_all(exp.Placeholder)}
    names = [_place(literal, number) for number, literal in enumerate(template.literals)]
    if means != list(template.literals) or places.keys() != set(names):
        return nothing
    parameters = dict[int, exp.Expr]()
    for number, (name, constant) in enumerate(zip(names, constants, strict=True)):
        if _is_compared(places[name]):
            parameters[number] = constant
        places[name].replace(constant)
    if tree != written.query:
        return nothing
    for number, constant in parameters.items():
        mark = exp.Literal.string(_unlikely(number))
        mark.meta[PARAMETER] = number, template.literals[number].type
        constant.replace(mark)
    return frozenset(parameters), tree


def _tree(constant: str) -> exp.Expr:
    """A constant as it is parsed in a query."""
    (statement,) = parse(f"SELECT {constant}")
    assert isinstance(statement, Select)
    (value,) = statement.query.expressions
    assert isinstance(value, exp.Expr)
    return value.pop()


def _is_compared(node: exp.Expr) -> bool:
    """Whether a constant is compared with a column, as one of the conditions of a WHERE."""
    parent = node.parent
    if not isinstance(parent, _COMPARED):
        return False
    others = [parent.this, parent.args.get("expression")]
    if not any(isinstance(other, exp.Column) for other in others):
        return False
    while isinstance(parent, _AROUND):
        parent = parent.parent
    return isinstance(parent, exp.Where)


def _stands(query: Prepared, parameters: frozenset[int]) -> bool:
    """Whether a plan has its parameters where constants are put in their places, and none of their other values."""
    filters = list[str]()
    rest = list[str]()
    nodes = {reader.node.fingerprint: reader.node for reader in query.readers}
    for node in ir.walk(query.node):
        if node.fingerprint not in nodes:
            rest.append(node.describe())
    for reader in nodes.values():
        for step in reader.logic.steps:
            (filters if isinstance(step, Filter) else rest).append(f"{step} {step.digest}")
    tests, others = "\n".join(filters), "\n".join(rest)
    unlikely = (_unlikely(number) for number in parameters)
    return (
        all(marked(number) in tests for number in parameters)
        and not any(marked(number) in others for number in parameters)
        and not any(value in tests or value in others for value in unlikely)
    )
