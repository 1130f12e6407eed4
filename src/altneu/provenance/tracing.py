"""Following rows back: of each operator, which rows of its inputs given rows of its output rest on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Ints, Rows
from altneu.operators.linear.logic import run_logic
from altneu.order import Epoch
from altneu.plan import ir
from altneu.provenance.explanation import Support
from altneu.provenance.finding import EVERYTHING, Finder, agreeing, counted, distinct, evaluated
from altneu.provenance.narrow import chosen, narrow
from altneu.provenance.rounds import unrolled
from altneu.trace.update import Updates, consolidate


@dataclass
class Demand:
    """The rows of one collection to be traced: whole rows, and rows of which only some columns are known."""

    node: ir.Node
    rows: list[Rows] = field(default_factory=list)
    partly: list[Rows] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)


@dataclass
class Traced:
    """The result of following rows back.

    ``leaves`` are the rows of each source, ``partly`` the known columns of rows that are not kept; ``supports`` the
    operators on the way.
    """

    leaves: dict[str, Rows] = field(default_factory=dict)
    partly: dict[str, list[Rows]] = field(default_factory=dict)
    supports: list[Support] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def leaf(self, source: str, rows: Rows) -> None:
        """Add rows of a source."""
        known = self.leaves.get(source)
        self.leaves[source] = distinct(rows if known is None else Rows.concat([known, rows], rows.schema))


class Tracer:
    """Follows rows of some collections back to their sources, each collection once, after all that read it."""

    def __init__(self, finder: Finder, rounds: tuple[int, ...] = (), number: int = 0) -> None:
        self.finder, self.rounds, self.number = finder, rounds, number
        self.demands: dict[str, Demand] = {}
        self.traced = Traced()

    def follow(self, wanted: Sequence[tuple[ir.Node, Rows]]) -> Traced:
        """Follow rows of collections back."""
        for node, rows in wanted:
            self.want(node, rows, None)
        order = list(ir.walk(*(node for node, _ in wanted)))
        for node in reversed(order):
            if node.fingerprint in self.demands:
                self._trace(self.demands[node.fingerprint])
        return self.traced

    def follow_in_round(self, finder: Finder, at: int, wanted: Sequence[tuple[ir.Node, Rows]]) -> Mapping[str, Rows]:
        """The rows of each source that rows of a round rest on; sources there are collections from outside the loop."""
        inner = Tracer(finder, (*self.rounds, at), self.number)
        traced = inner.follow(wanted)
        self.number = inner.number
        self.traced.supports += [s for s in traced.supports if not s.label.startswith("source #")]
        self.traced.notes |= traced.notes
        return traced.leaves

    def note(self, text: str) -> None:
        """Add a note to the explanation."""
        self.traced.notes[text] = None

    def want(self, node: ir.Node, rows: Rows, reader: int | None) -> None:
        """Demand rows of a collection; rows of fewer columns than it has stand for all that agree with them."""
        demand = self.demands.setdefault(node.fingerprint, Demand(node))
        if reader is not None and reader not in demand.readers:
            demand.readers.append(reader)
        whole = rows.schema.names == node.schema.names
        (demand.rows if whole else demand.partly).append(rows)

    def _trace(self, demand: Demand) -> None:
        node = demand.node
        rows, partly = self._rows(demand)
        number = self.number
        self.number += 1
        for i, support in enumerate(self.traced.supports):
            if support.number in demand.readers:
                self.traced.supports[i] = replace(support, inputs=(*support.inputs, number))
        shown = rows if rows.count or not partly else partly[0]
        self.traced.supports.append(Support(number, node.title, shown, (), not partly, self.rounds))
        if isinstance(node, ir.Source):
            if rows.count:
                self.traced.leaf(node.name, rows)
            if partly:
                self.traced.partly.setdefault(node.name, []).extend(partly)
            return
        for known in partly:
            for below, some in zip(node.inputs, narrow(node, known), strict=True):
                self.want(below, some, number)
        if not rows.count:
            return
        for below, some in self.support(node, rows):
            if some.count:
                self.want(below, some, number)

    def _rows(self, demand: Demand) -> tuple[Rows, list[Rows]]:
        """The rows of a demand, whole where the finder finds them, and those that stay partly known."""
        parts, missing = list(demand.rows), []
        for known in demand.partly:
            updates = self.finder.find(demand.node, known)
            if updates is None:
                missing.append(known)
            else:
                parts.append(counted(updates).rows)
        return distinct(Rows.concat(parts, demand.node.schema)), missing

    # operator by operator --------------------------------------------------------------------------------------------

    def support(self, node: ir.Node, rows: Rows) -> Iterator[tuple[ir.Node, Rows]]:
        """Rows of the inputs that rows of a node rest on; of fewer columns where nothing keeps them."""
        if isinstance(node, ir.Result):
            yield from unrolled(self, node, rows)
            return
        narrowed = narrow(node, rows)
        candidates = [self.finder.find(below, some) for below, some in zip(node.inputs, narrowed, strict=True)]
        known = [updates for updates in candidates if updates is not None]
        for below, some, updates in zip(node.inputs, narrowed, candidates, strict=True):
            if updates is None:
                yield below, distinct(some) if some.schema.names else EVERYTHING
        if isinstance(node, ir.Join | ir.MultiJoin):
            if len(known) == len(candidates):
                yield from zip(node.inputs, self._matches(node, rows, known), strict=True)
            return
        for side, (below, updates) in enumerate(zip(node.inputs, candidates, strict=True)):
            if updates is not None:
                yield below, self._of_one(node, side, rows, updates)

    def _of_one(self, node: ir.Node, side: int, rows: Rows, candidates: Updates) -> Rows:
        """The rows of one input that rows of a node rest on, among candidates."""
        match node:
            case ir.Linear():
                return self._through(node, rows, candidates)
            case ir.Reduce():
                return self._group(node, rows, candidates)
            case _:
                shown = chosen(rows, node.shown(side))
                return counted(agreeing(candidates, shown if shown.schema.names else EVERYTHING)).rows

    def _through(self, node: ir.Linear, rows: Rows, candidates: Updates) -> Rows:
        """The input rows from which linear logic computes these rows, found by a coordinate that numbers them."""
        each = _by_row(candidates)
        tagged = Updates(each.updates.rows, np.vstack([each.updates.times, each.number]), each.updates.diffs)
        logic = node.logic.with_event_times() if ir.coordinates(node) else node.logic
        output = agreeing(run_logic(logic, tagged)[0], rows)
        own = np.array(self.finder.at[: len(output.times) - 1], np.int64)[:, None]
        output = output.filter(np.asarray((output.times[:-1] <= own).all(axis=0)))
        numbered = _numbered(output.rows, "#tag", output.times[-1])
        accumulated = consolidate(Updates(numbered, np.zeros((1, len(output)), np.int64), output.diffs), Epoch())
        return each.rows.take(np.unique(accumulated.rows.column("#tag").to_numpy()))

    def _matches(self, node: ir.Join | ir.MultiJoin, rows: Rows, candidates: Sequence[Updates]) -> list[Rows]:
        """The rows of each side that are joined in these rows, numbered by a further column of each side."""
        sides = [counted(updates).rows for updates in candidates]
        numbered = [_numbered(side, f"#row {i}") for i, side in enumerate(sides)]
        sources = [ir.Source(f"#{i}", side.schema) for i, side in enumerate(numbered)]
        more = [(f"#row {i}", i) for i in range(len(sides))]
        if isinstance(node, ir.Join):
            join: ir.Node = replace(
                node, left=sources[0], right=sources[1], outputs=(*node.outputs, *((n, i, n) for n, i in more))
            )
        else:
            fields = [pa.field(n, pa.int64(), nullable=False) for n, _ in more]
            join = replace(
                node,
                parts=tuple(sources),
                variables=tuple((*names, n) for names, (n, _) in zip(node.variables, more, strict=True)),
                outputs=(*node.outputs, *((n, n) for n, _ in more)),
                schema=pa.schema([*node.schema, *fields]),
                planned=(),  # which know nothing of the numbers
            )
        ones = [Updates(s, np.zeros((1, s.count), np.int64), np.ones(s.count, np.int64)) for s in numbered]
        output = agreeing(evaluated(join, sources, ones, (0,)), rows)
        return [
            side.take(np.unique(output.rows.column(n).to_numpy())) for side, (n, _) in zip(sides, more, strict=True)
        ]

    def _group(self, node: ir.Reduce, rows: Rows, candidates: Updates) -> Rows:
        """The rows of a group that decide its result."""
        group = counted(candidates)
        if node.reducer.picks_rows:
            winners = self.finder.find(node, rows.select(node.key))
            return rows if winners is None else counted(agreeing(winners, rows.select(node.key))).rows
        witnesses = node.reducer.witnesses
        keep = np.full(len(group), not witnesses, np.bool_)
        for own in witnesses:  # of a group whose values are all null one row that has such a value
            names = {**{k: k for k in node.key}, **own}
            keep |= np.isin(hash_rows(group.rows.select(list(names))), hash_rows(chosen(rows, names)))
        return group.rows.filter(keep)


@dataclass(frozen=True)
class _ByRow:
    """Updates with the number of the distinct row that each is of."""

    updates: Updates
    number: Ints
    rows: Rows


def _by_row(updates: Updates) -> _ByRow:
    hashes = hash_rows(updates.rows)
    _, first, number = np.unique(hashes, return_index=True, return_inverse=True)
    return _ByRow(updates, number.astype(np.int64), updates.rows.take(first))


def _numbered(rows: Rows, name: str, numbers: Ints | None = None) -> Rows:
    numbers = np.arange(rows.count) if numbers is None else numbers
    schema = pa.schema([*rows.schema, pa.field(name, pa.int64(), nullable=False)])
    return rows.widened(schema, [pa.array(numbers, pa.int64())])
