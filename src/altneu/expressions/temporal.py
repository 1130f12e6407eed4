"""Temporal predicates: comparisons of ``logical_now()`` become bounds on the times at which a row exists."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.errors import PlanError, TemporalPredicateError
from altneu.expressions import registry
from altneu.expressions.build import Builder, build
from altneu.expressions.coercion import INTEGRAL, is_fractional
from altneu.expressions.construct import call, cast
from altneu.expressions.expr import Call, Expr
from altneu.expressions.expr import Literal as Constant
from altneu.expressions.parse import Source, explained, parse_predicate, tree_of


@dataclass(frozen=True)
class Bound:
    """One bound of the times at which a row exists: from ``value`` on (lower), or until before it (upper).

    ``value`` is a long in ticks; ``after`` makes it one tick later (``now <= e`` is an upper bound of e + 1). Where
    ``unless`` is true there is no such bound. A null value excludes the row, unless ``null_open``: then it is no bound.
    """

    kind: Literal["lower", "upper"]
    value: Expr
    after: bool = False
    unless: Expr | None = None
    null_open: bool = False

    @property
    def columns(self) -> frozenset[str]:
        """Names of the columns it reads."""
        return self.value.columns | (self.unless.columns if self.unless is not None else frozenset())

    @property
    def can_fail(self) -> bool:
        """Whether any row could fail: one tick more may leave 64 bits."""
        return self.after or self.value.can_fail or (self.unless is not None and self.unless.can_fail)

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Everything that is evaluated, in that order."""
        return (self.value,) if self.unless is None else (self.unless, self.value)

    @property
    def digest(self) -> str:
        """What tells this bound from any other."""
        parts = (self.value.sql, self.value.text, self.unless.sql if self.unless is not None else "")
        return f"{self} {parts} {self.null_open}"

    def __str__(self) -> str:
        sign = {("lower", False): ">=", ("lower", True): ">", ("upper", False): "<", ("upper", True): "<="}
        text = f"logical_now() {sign[self.kind, self.after]} {self.value.sql}"
        return f"({text} or {self.unless.sql})" if self.unless is not None else text


@dataclass(frozen=True)
class TemporalPredicate:
    """A predicate taken apart: a row exists while every bound holds, if all of ``row`` is true of it.

    ``row`` is tested first, in order. Without bounds it is the whole predicate, as one expression.
    """

    row: tuple[Expr, ...]
    bounds: tuple[Bound, ...]


_Parts = tuple[list[Expr], list[Bound]]
_KINDS: dict[str, Sequence[tuple[Literal["lower", "upper"], bool]]] = {
    "=": (("lower", False), ("upper", True)),
    "<": (("upper", False),),
    "<=": (("upper", True),),
    ">": (("lower", True),),
    ">=": (("lower", False),),
}
"""The bounds of ``logical_now() op e``, each with whether it is one tick after e."""

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_TURNED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ONE_SPAN = "a row exists in one span of time"
_SPANS = f"it is true in several spans of time, but {_ONE_SPAN}"


def split_temporal(source: Source | Expr, schema: pa.Schema) -> TemporalPredicate:
    """Compile a condition that may compare ``logical_now()``, the session's time in ticks, with expressions of a row.

    Such comparisons are parts of the conjunction that the condition is, after NOT has been moved inwards. One that
    stands in an OR with conditions of the row is a bound unless one of these is true.

    >>> schema = T.parse_schema("v int, start long, stop long")
    >>> found = split_temporal(
    ...     "v > 0 and logical_now() >= start and (logical_now() < stop or stop is null)", schema
    ... )
    >>> found.row, [str(bound) for bound in found.bounds]
    ((<v > 0: boolean>,), ['logical_now() >= start', '(logical_now() < stop or stop IS NULL)'])

    Raises:
        TemporalPredicateError: a use of ``logical_now()`` that is not a bound; the message names the term.
        PlanError: whatever ``parse_predicate`` refuses.
    """
    if isinstance(source, Expr):
        return TemporalPredicate((parse_predicate(source, schema),), ())
    tree = tree_of(source)
    if isinstance(tree, exp.Alias):
        tree = tree.this
    try:
        expr = build(tree, schema, _TemporalBuilder)
        if not _has_now(expr):
            return TemporalPredicate((parse_predicate(expr, schema),), ())
        row, bounds = _split(expr, False)
    except PlanError as error:
        raise explained(error, source) from None
    return TemporalPredicate(tuple(row), tuple(bounds))


class _TemporalBuilder(Builder):
    """Lets ``logical_now()`` stand in an expression, uncast; what it stands in is checked afterwards."""

    def function(self, name: str, nodes: Sequence[exp.Expr]) -> Expr:
        if name.lower() == "logical_now":
            if nodes:
                raise TemporalPredicateError("logical_now() takes no argument: it is the session's own time, in ticks")
            return Call(registry.function("logical_now"), (), T.LONG, False)
        return super().function(name, nodes)

    def operate(self, symbol: str, left: Expr, right: Expr) -> Expr:
        if (symbol in _TURNED or symbol in ("+", "-")) and (_has_now(left) or _has_now(right)):
            return _untyped(symbol, left, right)
        if symbol in ("and", "or"):
            left, right = _condition(left), _condition(right)
        return super().operate(symbol, left, right)

    def negate(self, value: Expr) -> Expr:
        return super().negate(_condition(value))


def _condition(value: Expr) -> Expr:
    """Refuse a number of ticks where a condition belongs: a cast, which types alone would ask for, is not a remedy."""
    if _has_now(value) and value.type != T.BOOLEAN:
        assert isinstance(value, Call)
        raise _refusal(value, False, _INSIDE["logical_now"])
    return value


def _is_now(expr: Expr) -> bool:
    return isinstance(expr, Call) and expr.name == "logical_now"


def _has_now(expr: Expr) -> bool:
    return isinstance(expr, Call) and (_is_now(expr) or any(map(_has_now, expr.args)))


def _split(expr: Expr, negated: bool) -> _Parts:
    """Conditions of the row and bounds whose conjunction is the condition, or its negation."""
    if not _has_now(expr):
        return [call("not", [expr]) if negated else expr], []
    assert isinstance(expr, Call)
    if expr.name == "not":
        return _split(expr.args[0], not negated)
    if expr.name == ("or" if negated else "and"):
        left, right = (_split(a, negated) for a in expr.args)
        return left[0] + right[0], left[1] + right[1]
    if expr.name in ("and", "or"):
        return _alternative(expr, negated)
    return [], _bounds(expr, negated)


def _alternative(expr: Call, negated: bool) -> _Parts:
    """``term OR condition``: whatever the term is a conjunction of, unless the condition is true."""
    parts = list(_alternatives(expr, negated))
    if sum(_has_now(part) for part, _ in parts) > 1:
        raise _refusal(expr, negated, _one_comparison(parts) or _several_spans(parts))
    left, right = expr.args
    row, bounds = _split(left if _has_now(left) else right, negated)
    other = right if _has_now(left) else left
    if negated:
        other = call("not", [other])

    def either(term: Expr) -> Expr:
        return call("or", [term, other] if _has_now(left) else [other, term])

    return list(map(either, row)), [replace(b, unless=either(b.unless) if b.unless else other) for b in bounds]


def _bounds(expr: Call, negated: bool) -> list[Bound]:
    if expr.name not in _TURNED:
        raise _inside(expr, negated, expr)
    left, right = expr.args
    if _has_now(left) and _has_now(right):
        raise _refusal(expr, negated, "it compares logical_now() with itself; compare it with columns and constants")
    symbol = expr.name
    if _has_now(right):
        left, right, symbol = right, left, _TURNED[symbol]
    if negated:
        symbol = _NEGATED[symbol]
    if not _is_now(left):
        raise _computed(expr, negated, left, symbol, right)
    if symbol == "!=":
        first, second = f"logical_now() < {right.text}", f"logical_now() > {right.text}"
        why = f'{_SPANS}. Filter for each and add both: rows.filter("{first}").concat(rows.filter("{second}"))'
        raise _refusal(expr, negated, why)
    if right.type not in (*INTEGRAL, T.NULL):
        why = f"logical_now() counts ticks, a bigint, and `{right.text}` is {T.type_name(right.type)}"
        raise _refusal(expr, negated, f"{why}: {_remedy(symbol, right)}")
    return [Bound(kind, cast(right, T.LONG), after) for kind, after in _KINDS[symbol]]


_Alternatives = Sequence[tuple[Expr, bool]]
"""Conditions of which one has to be true, each with whether it is its negation that has to be."""


def _several_spans(parts: _Alternatives) -> str:
    """Why alternatives do not form one bound, and what is exactly their OR, however they overlap."""
    rest = [_said(*part) for part in parts if not _has_now(part[0])]
    one, *others = (_said(*part) for part in parts if _has_now(part[0]))
    first, second = (" OR ".join(f"({t})" for t in (*terms, *rest)) for terms in ([one], others))
    if not rest:
        first, second = one, second if len(others) > 1 else others[0]
    return (
        f"{_SPANS}. Filter for each, add both, and take away what is in both: "
        f'rows.filter("{first}").concat(rows.filter("{second}"), rows.filter("({first}) AND ({second})").negate())'
    )


def _one_comparison(parts: _Alternatives) -> str:
    """How to say alternatives that are all upper bounds, or all lower ones, as one; empty where they are not."""
    rest: list[str] = []
    bounds: list[Bound] = []
    for part, negated in parts:
        if not _has_now(part):
            rest.append(_said(part, negated))
        elif isinstance(part, Call) and (_NEGATED if negated else _TURNED).get(part.name, "!=") != "!=":
            bounds += _bounds(part, negated)
        else:
            return ""
    if len({b.kind for b in bounds}) > 1:
        return ""
    mixed = len({b.after for b in bounds}) > 1
    values = ", ".join(f"{b.value.text} + 1" if mixed and b.after else b.value.text for b in bounds)
    sign, chosen = ("<", "greatest") if bounds[0].kind == "upper" else (">=", "least")
    if bounds[0].after and not mixed:
        sign = {"<": "<=", ">=": ">"}[sign]
    written = " OR ".join([f"logical_now() {sign} {chosen}({values})", *rest])
    return f"several bounds, of which one decides: write `{written}`"


def _alternatives(expr: Expr, negated: bool) -> Iterator[tuple[Expr, bool]]:
    """The parts of which one has to be true."""
    if isinstance(expr, Call) and expr.name == "not":
        yield from _alternatives(expr.args[0], not negated)
    elif isinstance(expr, Call) and expr.name == ("and" if negated else "or"):
        for arg in expr.args:
            yield from _alternatives(arg, negated)
    else:
        yield expr, negated


def _said(expr: Expr, negated: bool) -> str:
    """A condition, or its negation, as a text; a NOT is taken into what holds ``logical_now()``."""
    if not isinstance(expr, Call) or not negated:
        return f"NOT ({expr.text})" if negated else expr.text
    if expr.name == "not":
        return _said(expr.args[0], False)
    if expr.name in ("and", "or"):
        word = " OR " if expr.name == "and" else " AND "
        return word.join(f"({_said(a, True)})" for a in expr.args)
    if expr.name in _NEGATED:
        return f"{expr.args[0].text} {_NEGATED[expr.name]} {expr.args[1].text}"
    return f"NOT ({expr.text})"


def _remedy(symbol: str, value: Expr) -> str:
    """How to compare with a number of ticks in place of a value that is none."""
    kind, text = value.type, value.text
    if kind in (T.TIMESTAMP, T.TIMESTAMP_NTZ):
        return f"write unix_seconds({text}), unix_millis({text}) or unix_micros({text}), whichever a tick is"
    if kind == T.DATE:
        return f"write unix_date({text}) where a tick is a day, or unix_seconds({text}) where it is a second"
    if isinstance(value, Constant) and is_fractional(kind):
        if value.value is None or not -(2**63) < value.value < 2**63 - 1:
            return "compare it with a whole number below 2^63"
        return f"write `{_between_ticks(symbol, str(math.ceil(value.value)), str(math.floor(value.value)))}`"
    if is_fractional(kind):
        return f"write `{_between_ticks(symbol, f'CAST(ceil({text}) AS bigint)', f'CAST(floor({text}) AS bigint)')}`"
    return f"write CAST({text} AS bigint)" if kind == T.STRING else "compare it with a number"


def _between_ticks(symbol: str, above: str, below: str) -> str:
    """The comparison with a value between two ticks, as one with those ticks."""
    if symbol == "=":
        return f"logical_now() BETWEEN {above} AND {below}"
    return f"logical_now() {symbol} {above if symbol in ('<', '>=') else below}"


def _computed(expr: Call, negated: bool, side: Expr, symbol: str, other: Expr) -> TemporalPredicateError:
    """The refusal of ``side symbol other`` whose side is computed from ``logical_now()``: solved where that is easy."""
    inside = side
    while isinstance(inside, Call) and inside.name in ("+", "-") and not all(map(_has_now, inside.args)):
        (first, second), minus = inside.args, inside.name == "-"
        if _has_now(first):
            inside, other = first, _untyped("+" if minus else "-", other, second)
        elif minus:
            inside, other, symbol = second, _untyped("-", first, other), _TURNED[symbol]
        else:
            inside, other = second, _untyped("-", other, first)
    if not _is_now(inside):
        return _inside(expr, negated, side)
    written = f"logical_now() {symbol} {other.text}"
    return _refusal(expr, negated, f"logical_now() must be alone on its side; write `{written}`")


def _untyped(symbol: str, left: Expr, right: Expr) -> Call:
    """A call that is shown and never evaluated."""
    return Call(registry.function(symbol), (left, right), T.BOOLEAN if symbol in _TURNED else T.LONG, True)


_INSIDE: dict[str, str] = {
    "<=>": "<=> cannot bound a time; use =, and add OR … IS NULL if null means unbounded",
    "logical_now": "it is a bigint, not a condition; compare it, as in logical_now() < stop",
}


def _inside(term: Call, negated: bool, inner: Expr) -> TemporalPredicateError:
    """The refusal of a term that computes with ``logical_now()`` otherwise than by a comparison."""
    if isinstance(inner, Call) and inner.name == "in" and list(map(_has_now, inner.args)).index(True) == 0:
        return _refusal(term, negated, _several_times(inner, negated))
    why = _INSIDE.get(inner.name if isinstance(inner, Call) else "") or (
        f"logical_now() stands inside `{inner.text}`; it must be alone on one side of =, <, <=, > or >=, and such "
        "comparisons be joined by AND (and by OR with conditions without it)"
    )
    return _refusal(term, negated, why)


def _several_times(term: Call, negated: bool) -> str:
    """Why a list of times is not a bound, and how to have a row at each of them, once however often one is listed."""
    times = f"array_distinct(array({', '.join(a.text for a in term.args[1:])}))"
    there = f'rows.unnest("{times}", as_="t").filter("logical_now() = t").select(…)'
    if negated:
        what, how = "all times but some are", "Where no time is null, take the rows at them away"
        there = f"rows.concat({there}.negate())"
    else:
        what, how = "a list of times is", "Make a row for each time"
    return f"{what} several spans, but {_ONE_SPAN}. {how}: {there}, selecting the columns there were"


def _refusal(term: Call, negated: bool, why: str) -> TemporalPredicateError:
    shown = f"NOT ({term.text})" if negated else term.text
    return TemporalPredicateError(f"`{shown}` cannot bound the times at which a row exists: {why}")
