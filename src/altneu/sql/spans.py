"""Spark's windows of time: ``window(time, length[, slide[, start]])`` and ``session_window(time, gap)``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.expressions.nodes import MOMENT
from altneu.expressions.parse import parse, tree_of
from altneu.sql import windows
from altneu.sql.scope import Scope

NAME, SESSION = "window", "session_window"
SPANS = "spans"
"""The key of a table function tree's ``meta`` for one whose column is not part of ``*``."""
_NO_ROWS = pa.schema([])
_MOST = 10_000  # spans that a row may be in


def with_spans(tree: exp.Select) -> exp.Select:
    """A SELECT that has ``window(...)`` or ``session_window(...)`` as one over a column of that name.

    A table function of each row makes the column, a struct of ``start`` and ``end``. A row whose time is null is in no
    span, one with a slide less than the length in several. The session of a row is its own time and the gap after it,
    until ``with_sessions`` puts those together that meet.

    Raises:
        PlanError: calls that differ, or arguments that are not spans of time.

    >>> import altneu as an
    >>> clicks = {"clicks": an.source("clicks", "user string, at timestamp")}
    >>> counted = an.sql.query(
    ...     "SELECT window.end, count(*) AS n FROM clicks GROUP BY window(at, '1 minute')", clicks
    ... )
    >>> counted
    Collection(end: timestamp, n: bigint)
    >>> an.sql.query(
    ...     "SELECT user, session_window.end AS until FROM clicks GROUP BY user, session_window(at, '5 minutes')",
    ...     clicks,
    ... )
    Collection(user: string, until: timestamp)
    """
    calls = list(_calls(tree))
    if not calls:
        return tree
    texts = list(dict.fromkeys(call.sql("spark") for call in calls))
    if len(texts) > 1:
        raise PlanError(f"not supported: several windows in one SELECT ({', '.join(texts)}); nest one in a subquery")
    first, name = calls[0].copy(), calls[0].name.lower()
    for call in calls:
        column = exp.column(name)
        column.meta[SESSION] = name == SESSION
        call.replace(column)
    lateral = exp.Lateral(
        this=exp.Anonymous(this="explode", expressions=[_own_session(first) if name == SESSION else _spans(first)]),
        view=True,
        alias=exp.TableAlias(columns=[exp.to_identifier(name)]),
    )
    lateral.meta[SPANS] = True
    tree.append("laterals", lateral)
    return tree


def is_session(tree: exp.Expr) -> bool:
    """Whether a key of GROUP BY is the session of a row."""
    return bool(tree.meta.get(SESSION))


def with_sessions(scope: Scope, keys: Sequence[exp.Expr]) -> Scope:
    """A scope in which the session of a row is the whole session, among the rows of equal ``keys``, resolved.

    A session begins at a row that no earlier row's span reaches. It begins, with what meets it, at the latest such
    time, and ends where the last of its rows' spans does.

    Cost:   three windows over the rows of equal ``keys``: one exchange; what changes is read from the first time on
            that changes.
    """
    own = scope.resolve(exp.column(SESSION))

    def part(name: str) -> exp.Expr:
        return exp.Dot(this=own.copy(), expression=exp.to_identifier(name, quoted=True))

    def latest(value: exp.Expr, *more: exp.Expr, order: bool = True, before: bool = False) -> exp.Window:
        moment = exp.Interval(this=exp.Literal.string("1"), unit=exp.var("MICROSECOND"))
        earlier = exp.WindowSpec(
            kind="RANGE", start="UNBOUNDED", start_side="PRECEDING", end=moment, end_side="PRECEDING"
        )
        return exp.Window(
            this=exp.Anonymous(this="max", expressions=[value]),
            partition_by=[*(k.copy() for k in keys), *more],
            order=exp.Order(expressions=[exp.Ordered(this=part("start"))]) if order else None,
            spec=earlier if before else None,
        )

    reached = exp.LTE(this=part("start"), expression=latest(part("end"), before=True))
    beginning: exp.Expr = exp.Case(ifs=[exp.If(this=reached, true=exp.Null())], default=part("start"))
    scope, (beginning,) = windows.computed(scope, [beginning])
    scope, (start,) = windows.computed(scope, [latest(beginning)])
    named = [exp.Literal.string("start"), start, exp.Literal.string("end"), latest(part("end"), start, order=False)]
    scope, (whole,) = windows.computed(scope, [exp.Anonymous(this="named_struct", expressions=named)])
    column, session = own.name, whole.name
    fields = [replace(f, column=session) if f.column == column else f for f in scope.relation.fields]
    return Scope(replace(scope.relation, fields=tuple(fields)), scope.around)


def _calls(tree: exp.Expr) -> Iterator[exp.Anonymous]:
    """The calls of a query itself, and not of those inside."""
    for part in tree.iter_expressions():
        if isinstance(part, exp.Anonymous) and part.name.lower() in (NAME, SESSION):
            yield part
        elif not isinstance(part, exp.Query):
            yield from _calls(part)


def _own_session(call: exp.Anonymous) -> exp.Expr:
    """An array of the span from a row's time until the gap after it; none where the gap is not positive."""
    if len(call.expressions) != 2:
        raise PlanError("session_window() needs a time and a gap: session_window(at, '10 minutes')")
    time, gap = call.expressions
    start = exp.Anonymous(this=MOMENT, expressions=[time.copy()])
    end = after(start, gap, call)
    named = [exp.Literal.string("start"), start, exp.Literal.string("end"), end]
    own = exp.Anonymous(this="array", expressions=[exp.Anonymous(this="named_struct", expressions=named)])
    return exp.Case(ifs=[exp.If(this=exp.GT(this=end.copy(), expression=start.copy()), true=own)]).copy()


def after(start: exp.Expr, gap: exp.Expr, call: exp.Anonymous) -> exp.Expr:
    """The time that is a gap later: a constant one, or that of the row's case; null where it has none.

    Raises:
        PlanError: the gap is something else.
    """
    gap = gap.unnest()
    if isinstance(gap, exp.Literal) and gap.is_string:
        gap = exp.Interval(this=gap.copy())
    if isinstance(gap, exp.Interval):
        return exp.Add(this=start.copy(), expression=gap.copy())
    if isinstance(gap, exp.Null):
        return exp.Case(ifs=[exp.If(this=exp.false(), true=start.copy())])
    if isinstance(gap, exp.Cast) and gap.to.is_type("string"):
        return after(start, gap.this, call)
    if isinstance(gap, exp.Anonymous) and gap.name.lower() == "if" and len(gap.expressions) == 3:
        test, then, other = gap.expressions
        gap = exp.Case(ifs=[exp.If(this=test.copy(), true=then.copy())], default=other.copy())
    if isinstance(gap, exp.Case):
        made = gap.copy()
        for branch in made.args["ifs"]:
            branch.set("true", after(start, branch.args["true"], call))
        if made.args.get("default") is not None:
            made.set("default", after(start, made.args["default"], call))
        return made
    raise PlanError(
        f"`{call.sql('spark')}`: the gap must be a text such as '10 minutes', or a CASE with a text for each case, got "
        f"`{gap.sql('spark')}`"
    )


def _spans(call: exp.Anonymous) -> exp.Expr:
    """The array of the spans of a row, as an expression."""
    time, *arguments = call.expressions
    if not 1 <= len(arguments) <= 3:
        raise PlanError("window() needs a time, a length, and optionally a slide and a start: window(at, '10 minutes')")
    length = _micros(arguments[0])
    slide = _micros(arguments[1]) if len(arguments) > 1 else length
    start = _micros(arguments[2]) if len(arguments) > 2 else 0
    if length <= 0 or not 0 < slide <= length:
        raise PlanError(f"`{call.sql('spark')}`: the slide must be positive and no longer than the length")
    count = -(-length // slide)
    if count > _MOST:
        raise PlanError(f"`{call.sql('spark')}`: a row would be in {count:,} spans, but at most {_MOST:,} are possible")
    now = f"unix_micros(CAST({time.sql('spark')} AS TIMESTAMP))"
    last = f"({now} - pmod({now} - {start}, {slide}L))"
    spans = [_span(time, f"{last} - {i * slide}L", length) for i in range(count)]
    array: exp.Expr = exp.Anonymous(this="array", expressions=spans)
    if length % slide:  # the earliest may have ended
        open_ones = tree_of(f"filter(spans, w -> unix_micros(CAST(w.end AS TIMESTAMP)) > {now})")
        open_ones.set("expressions", [array, *open_ones.expressions[1:]])
        array = open_ones
    return exp.Case(ifs=[exp.If(this=tree_of(f"{now} IS NOT NULL"), true=array)])


def _span(time: exp.Expr, start: str, length: int) -> exp.Expr:
    """The span of so many microseconds from ``start`` on, in the type of ``time``."""
    parts = list[exp.Expr]()
    for name, micros in (("start", start), ("end", f"{start} + {length}L")):
        parts += [exp.Literal.string(name), exp.Anonymous(this=MOMENT, expressions=[time.copy(), tree_of(micros)])]
    return exp.Anonymous(this="named_struct", expressions=parts)


def _micros(tree: exp.Expr) -> int:
    """A length of time: a text such as ``'10 minutes'``, or an INTERVAL."""
    if isinstance(tree, exp.Literal) and tree.is_string:
        tree = exp.Interval(this=tree.copy())
    length = parse(tree.copy(), _NO_ROWS)
    if length.type != T.DAY_TIME:
        raise PlanError(f"`{tree.sql('spark')}` must be a span of days, hours, minutes or seconds, as a window needs")
    return int(length.evaluate(Rows(_NO_ROWS, (), 1)).values.cast(pa.int64())[0].as_py())
