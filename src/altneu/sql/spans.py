"""Spark's ``window(time, length[, slide[, start]])``: the tumbling or hopping windows of each row."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from sqlglot import exp

from altneu import types as T
from altneu.columnar.rows import Rows
from altneu.errors import PlanError
from altneu.expressions.parse import parse, tree_of

NAME = "window"
SPANS = "spans"
"""The key of a table function tree's ``meta`` for one whose column is not part of ``*``."""
_NO_ROWS = pa.schema([])
_MOST = 10_000  # spans that a row may be in


def with_spans(tree: exp.Select) -> exp.Select:
    """A SELECT that has ``window(...)`` as one over a column ``window``, made by a table function of each row.

    The column is a struct of ``start`` and ``end``; a row whose time is null is in no span, one with a slide less than
    the length in several.

    Raises:
        PlanError: calls that differ, or arguments that are not spans of time.

    >>> import altneu as an
    >>> clicks = {"clicks": an.source("clicks", "user string, at timestamp")}
    >>> counted = an.sql.query(
    ...     "SELECT window.end, count(*) AS n FROM clicks GROUP BY window(at, '1 minute')", clicks
    ... )
    >>> counted
    Collection(end: timestamp, n: bigint)
    """
    calls = list(_calls(tree))
    if not calls:
        return tree
    texts = list(dict.fromkeys(call.sql("spark") for call in calls))
    if len(texts) > 1:
        raise PlanError(f"not supported: several windows in one SELECT ({', '.join(texts)}); nest one in a subquery")
    first = calls[0].copy()
    for call in calls:
        call.replace(exp.column(NAME))
    lateral = exp.Lateral(
        this=exp.Anonymous(this="explode", expressions=[_spans(first)]),
        view=True,
        alias=exp.TableAlias(columns=[exp.to_identifier(NAME)]),
    )
    lateral.meta[SPANS] = True
    tree.append("laterals", lateral)
    return tree


def _calls(tree: exp.Expr) -> Iterator[exp.Anonymous]:
    """The calls of a query itself, and not of those inside."""
    for part in tree.iter_expressions():
        if isinstance(part, exp.Anonymous) and part.name.lower() == NAME:
            yield part
        elif not isinstance(part, exp.Query):
            yield from _calls(part)


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
    spans = [_span(f"{last} - {i * slide}L", length) for i in range(count)]
    array = f"array({', '.join(spans)})"
    if length % slide:  # the earliest may have ended
        array = f"filter({array}, w -> unix_micros(w.end) > {now})"
    return tree_of(f"CASE WHEN {now} IS NOT NULL THEN {array} END")


def _span(start: str, length: int) -> str:
    return f"named_struct('start', timestamp_micros({start}), 'end', timestamp_micros({start} + {length}L))"


def _micros(tree: exp.Expr) -> int:
    """A length of time: a text such as ``'10 minutes'``, or an INTERVAL."""
    if isinstance(tree, exp.Literal) and tree.is_string:
        tree = exp.Interval(this=tree.copy())
    length = parse(tree.copy(), _NO_ROWS)
    if length.type != T.DAY_TIME:
        raise PlanError(f"`{tree.sql('spark')}` must be a span of days, hours, minutes or seconds, as a window needs")
    return int(length.evaluate(Rows(_NO_ROWS, (), 1)).values.cast(pa.int64())[0].as_py())
