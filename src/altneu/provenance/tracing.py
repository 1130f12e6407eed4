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
    """What is asked for of one collection: rows of it, and rows of which some columns are all that is known."""

    node: ir.Node
    rows: list[Rows] = field(default_factory=list)
    partly: list[Rows] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)


@dataclass
class Traced:
    """What following rows back came to.

    ``leaves`` are the rows of each source, ``partly`` what is known of rows that are not kept; ``supports`` the
    operators on the way.
    """

    leaves: dict[str, Rows] = field(default_factory=dict)
    partly: dict[str, list[Rows]] = field(default_factory=dict)
    supports: list[Support] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def leaf(self, source: str, rows: Rows) -> None:
        """Note rows of a source."""
        known = self.leaves.get(source)
        self.leaves[source] = distinct(rows if known is None else Rows.concat([known, rows], rows.schema))


class Tracer:
    """Follows rows of some collections back to their sources, each collection once, what reads it first."""

    def __init__(self, finder: Finder, rounds: tuple[int, ...] = (), number: int = 0) -> None:
        self.finder, self.rounds, self.number = finder, rounds, number
        self.demands: dict[str, Demand] = {}
        self.traced = Traced()

    def follow(self, wanted: Sequence[tuple[ir.Node, Rows]]) -> Traced:
        """What rows of collections rest on."""
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
        """Ask for rows of a collection; of fewer columns than it has: for all rows that agree."""
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
            for below, asked in zip(node.inputs, narrow(node, known), strict=True):
                self.want(below, asked, number)
        if not rows.count:
            return
        for below, found in self.support(node, rows):
            if found.count:
                self.want(below, found, number)

    def _rows(self, demand: Demand) -> tuple[Rows, list[Rows]]:
        """The rows that are asked for, those found that were only partly known among them, and what was not found."""
        parts, lacking = list(demand.rows), []
        for known in demand.partly:
            found = self.finder.find(demand.node, known)
            if found is None:
                lacking.append(known)
            else:
                parts.append(counted(found).rows)
        return distinct(Rows.concat(parts, demand.node.schema)), lacking

    # operator by operator --------------------------------------------------------------------------------------------

    def support(self, node: ir.Node, rows: Rows) -> Iterator[tuple[ir.Node, Rows]]:
        """Rows of the inputs that rows of a node rest on; of fewer columns where nothing keeps them."""
        if isinstance(node, ir.Result):
            yield from unrolled(self, node, rows)
            return
        asked = narrow(node, rows)
        found = [self.finder.find(below, some) for below, some in zip(node.inputs, asked, strict=True)]
        known = [updates for updates in found if updates is not None]
        for below, some, updates in zip(node.inputs, asked, found, strict=True):
            if updates is None:
                yield below, distinct(some) if some.schema.names else EVERYTHING
        if isinstance(node, ir.Join | ir.MultiJoin):
            if len(known) == len(found):
                yield from zip(node.inputs, self._met(node, rows, known), strict=True)
            return
        for side, (below, updates) in enumerate(zip(node.inputs, found, strict=True)):
            if updates is not None:
                yield below, self._of_one(node, side, rows, updates)

    def _of_one(self, node: ir.Node, side: int, rows: Rows, found: Updates) -> Rows:
        """The rows of one input, of those found of it."""
        match node:
            case ir.Linear():
                return self._through(node, rows, found)
            case ir.Reduce():
                return self._group(node, rows, found)
            case _:
                shown = chosen(rows, node.shown(side))
                return counted(agreeing(found, shown if shown.schema.names else EVERYTHING)).rows

    def _through(self, node: ir.Linear, rows: Rows, found: Updates) -> Rows:
        """The input rows of which linear logic makes these rows: a further coordinate of their times tells which."""
        each = _by_row(found)
        tagged = Updates(each.updates.rows, np.vstack([each.updates.times, each.number]), each.updates.diffs)
        made = agreeing(run_logic(node.logic, tagged)[0], rows)
        own = np.array(self.finder.at[: len(made.times) - 1], np.int64)[:, None]
        made = made.filter(np.asarray((made.times[:-1] <= own).all(axis=0)))
        left = _numbered(made.rows, "#tag", made.times[-1])
        there = consolidate(Updates(left, np.zeros((1, len(made)), np.int64), made.diffs), Epoch())
        return each.rows.take(np.unique(there.rows.column("#tag").to_numpy()))

    def _met(self, node: ir.Join | ir.MultiJoin, rows: Rows, found: Sequence[Updates]) -> list[Rows]:
        """The rows of each side that meet to make these rows: a further column of each side tells which."""
        sides = [counted(updates).rows for updates in found]
        numbered = [_numbered(side, f"#row {i}") for i, side in enumerate(sides)]
        sources = [ir.Source(f"#{i}", side.schema) for i, side in enumerate(numbered)]
        more = [(f"#row {i}", i) for i in range(len(sides))]
        if isinstance(node, ir.Join):
            asked: ir.Node = replace(
                node, left=sources[0], right=sources[1], outputs=(*node.outputs, *((n, i, n) for n, i in more))
            )
        else:
            fields = [pa.field(n, pa.int64(), nullable=False) for n, _ in more]
            asked = replace(
                node,
                parts=tuple(sources),
                variables=tuple((*names, n) for names, (n, _) in zip(node.variables, more, strict=True)),
                outputs=(*node.outputs, *((n, n) for n, _ in more)),
                schema=pa.schema([*node.schema, *fields]),
            )
        ones = [Updates(s, np.zeros((1, s.count), np.int64), np.ones(s.count, np.int64)) for s in numbered]
        made = agreeing(evaluated(asked, sources, ones, (0,)), rows)
        return [side.take(np.unique(made.rows.column(n).to_numpy())) for side, (n, _) in zip(sides, more, strict=True)]

    def _group(self, node: ir.Reduce, rows: Rows, found: Updates) -> Rows:
        """The rows of a group that decide what is made of it."""
        group = counted(found)
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
