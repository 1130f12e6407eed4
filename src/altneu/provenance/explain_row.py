"""``view.explain_row(row)``: the input rows that a row of a view rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows, array_of
from altneu.engine.engine import Engine
from altneu.engine.reading import Time, refuse_without_contents
from altneu.errors import ReadError
from altneu.errors.nearest import listed
from altneu.operators.kernels.spans import show_row
from altneu.plan import ir
from altneu.provenance.explanation import Explanation, InputRows
from altneu.provenance.finding import (
    EVERYTHING,
    Finder,
    Scratch,
    agree,
    agreeing,
    asked_of,
    consolidated,
    counted,
    distinct,
    in_order,
)
from altneu.provenance.tracing import Traced, Tracer
from altneu.runtime.inputs import Inputs
from altneu.runtime.read import contents
from altneu.trace.update import Updates

_ALIKE = 3


def explain_row(engine: Engine, name: str, row: Mapping[str, Any] | Sequence[Any], at: Time) -> Explanation:
    """The input rows that a row of a view rests on; documented as ``View.explain_row``."""
    known = engine.known(name)
    refuse_without_contents(engine.ports(name), name)
    time = known.readable(at)
    node = engine.catalogue.nodes[name]
    while isinstance(node, ir.ArrangedBy):
        node = node.input
    finder = Finder.of(engine, time)
    rows = counted(contents(engine.table, engine.ports(name).contents, time))
    one, count = _the_row(name, rows, row)
    traced = Tracer(finder).follow([(node, one)])
    inputs, sufficient = _Explained(finder, node, one, count).inputs(traced)
    return Explanation(
        name,
        dict(zip(one.schema.names, one.to_pylist()[0], strict=True)),
        count,
        time,
        engine.since_of(name),
        tuple(inputs),
        tuple(sorted(traced.supports, key=lambda s: s.number)),
        sufficient,
        tuple(traced.notes),
    )


def _the_row(name: str, rows: Updates, row: Mapping[str, Any] | Sequence[Any]) -> tuple[Rows, int]:
    """The row among those of a view that ``row`` describes, and how often it is there.

    Raises:
        ReadError: no row or several rows match.
    """
    names = rows.schema.names
    if isinstance(row, Mapping):
        unknown = [n for n in row if n not in names]
        if unknown:
            raise ReadError(f"view {name!r} has no column {unknown[0]!r}; it has: {listed(unknown[0], names)}")
        by_column = dict(row)
    else:
        values = list(row) if isinstance(row, tuple | list) else [row]
        if len(values) != len(names):
            raise ReadError(f"view {name!r} has {len(names)} columns ({', '.join(names)}), and the row {len(values)}")
        by_column = dict(zip(names, values, strict=True))
    fields = [rows.schema.field(n) for n in by_column]
    try:
        columns = tuple(array_of([by_column[f.name]], f.type) for f in fields)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise ReadError(f"the row does not fit view {name!r}: {error}") from None
    wanted = Rows(pa.schema(fields), columns, 1)
    matches = agreeing(rows, wanted)
    if len(matches) == 1:
        return matches.rows, int(matches.diffs[0])
    shown = show_row(list(by_column), list(by_column.values()))
    if not len(matches):
        raise ReadError(f"view {name!r} has no row {shown} at that time{_nearest(rows, wanted)}")
    some = "; ".join(show_row(names, r) for r in matches.rows.slice(0, min(_ALIKE, len(matches))).to_pylist())
    raise ReadError(f"view {name!r} has {len(matches)} rows with {shown}, such as {some}; say which")


def _nearest(rows: Updates, wanted: Rows) -> str:
    """Rows that agree on the first columns, for the message."""
    for width in range(len(wanted.schema) - 1, 0, -1):
        matches = agreeing(rows, wanted.select(wanted.schema.names[:width]))
        if len(matches):
            shown = matches.rows.slice(0, min(_ALIKE, len(matches))).to_pylist()
            return "; it has " + "; ".join(show_row(rows.schema.names, r) for r in shown)
    return ""


@dataclass(frozen=True)
class _Explained:
    """The row that is explained: the collection it belongs to, and how often it is there."""

    finder: Finder
    node: ir.Node
    row: Rows
    count: int

    def inputs(self, traced: Traced) -> tuple[list[InputRows], bool | None]:
        """The input rows with their times, and whether the row follows from them alone.

        Where it does not (rows may be missing because of others, which were not traced), all input rows are taken that
        agree with it on the columns that operators pass on.
        """
        sources = {n.name: n for n in ir.walk(self.node) if isinstance(n, ir.Source)}
        times = ir.coordinates(self.node) or ("time",)
        partly = [
            InputRows(name, _timeless(distinct(some)), False, times)
            for name, parts in traced.partly.items()
            for some in parts
        ]
        own = traced.rows
        rows = {name: self.finder.find(sources[name], some) for name, some in own.items()}
        unread = [name for name, updates in rows.items() if updates is None]
        partly += [InputRows(name, _timeless(own[name]), False, times) for name in unread]
        by_source = {name: updates for name, updates in rows.items() if updates is not None}
        sufficient = None
        if not partly:
            sufficient = self._follows(by_source)
            if not sufficient and (wider := self._all_that_agree()) is not None:
                by_source, sufficient = wider, self._follows(wider)
        whole = [
            InputRows(name, in_order(consolidated(updates)), True, times)
            for name, updates in by_source.items()
            if len(updates)
        ]
        return [*whole, *partly], sufficient

    def _follows(self, by_source: Mapping[str, Updates]) -> bool:
        """Whether the query over these input rows alone has the row as often."""
        scratch = Scratch()
        scratch.inputs = Inputs({name: [updates] for name, updates in by_source.items() if len(updates)})
        result = counted(agreeing(scratch.contents(self.node, self.finder.at), self.row))
        return result.diffs.tolist() == [self.count]

    def _all_that_agree(self) -> dict[str, Updates] | None:
        """All input rows that agree with the row on what operators pass on; None where they are not kept."""
        by_source: dict[str, Updates] = {}
        for node, wanted in asked_of([(self.node, self.row)], lambda n: isinstance(n, ir.Source)):
            assert isinstance(node, ir.Source)
            updates = self.finder.find(node, EVERYTHING)
            if updates is None:
                return None
            by_source[node.name] = updates.filter(np.logical_or.reduce([agree(updates, rows) for rows in wanted]))
        return by_source


def _timeless(rows: Rows) -> Updates:
    return Updates(rows, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64))
