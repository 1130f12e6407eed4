"""Following rows back: of each operator, which rows of its inputs given rows of its output rest on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from altneu.provenance.following import Leaf, Part, When
from altneu.provenance.moments import moved
from altneu.provenance.narrow import chosen, narrow
from altneu.provenance.rounds import unrolled
from altneu.provenance.ticks import recurred
from altneu.runtime.read import At
from altneu.trace.update import Updates, consolidate


@dataclass
class Demand:
    """The rows of one collection to be traced, as of one time: whole rows, and rows of which some columns are known."""

    node: ir.Node
    finder: Finder
    rows: list[Rows] = field(default_factory=list)
    partly: list[Rows] = field(default_factory=list)
    readers: list[int] = field(default_factory=list)


@dataclass
class Traced:
    """The result of following rows back.

    ``leaves`` are the rows of each source, as of each time, ``partly`` the known columns of rows that are not kept;
    ``supports`` the operators on the way.
    """

    leaves: dict[Leaf, Rows] = field(default_factory=dict)
    partly: dict[str, list[Rows]] = field(default_factory=dict)
    supports: list[Support] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)

    def leaf(self, leaf: Leaf, rows: Rows) -> None:
        """Add rows of a source."""
        known = self.leaves.get(leaf)
        self.leaves[leaf] = distinct(rows if known is None else Rows.concat([known, rows], rows.schema))

    @property
    def rows(self) -> dict[str, Rows]:
        """The rows of each source, of all times together."""
        together: dict[str, list[Rows]] = {}
        for (name, _), rows in self.leaves.items():
            together.setdefault(name, []).append(rows)
        return {name: distinct(Rows.concat(parts, parts[0].schema)) for name, parts in together.items()}


class Tracer:
    """Follows rows of some collections back to their sources, each collection once a time, after all that read it.

    Loops, feedback and moments are run again in sessions of their own; of one of those ``when`` says what a time of it
    is called, and ``rounds`` in which rounds of which loops it is.
    """

    def __init__(
        self, finder: Finder, rounds: tuple[int, ...] = (), number: int = 0, when: Callable[[At], str] | None = None
    ) -> None:
        self.finder, self.rounds, self.number = finder, rounds, number
        self.called = when or (lambda at: "" if at == finder.at else f"time {at[0]}")
        self._demands: dict[str, dict[At, Demand]] = {}
        self._finders: dict[At, Finder] = {finder.at: finder}
        self.traced = Traced()

    def follow(self, wanted: Sequence[tuple[ir.Node, Rows]]) -> Traced:
        """Follow rows of collections back."""
        for node, rows in wanted:
            self._want(node, rows, None, self.finder.at)
        order = list(ir.walk(*(node for node, _ in wanted)))
        for node in reversed(order):
            for demand in self._demands.get(node.fingerprint, {}).values():
                self._trace(demand)
        return self.traced

    def follow_in(
        self, finder: Finder, wanted: Sequence[tuple[ir.Node, Rows]], rounds: tuple[int, ...], when: Callable[[At], str]
    ) -> Mapping[Leaf, Rows]:
        """The rows of each source that rows rest on in a session of its own; sources there stand for collections."""
        inner = Tracer(finder, (*self.rounds, *rounds), self.number, when)
        traced = inner.follow(wanted)
        self.number = inner.number
        self.traced.supports += [s for s in traced.supports if not s.label.startswith("source #")]
        self.traced.notes |= traced.notes
        return traced.leaves

    def _want(self, node: ir.Node, rows: Rows, reader: int | None, at: At) -> None:
        """Demand rows of a collection; rows of fewer columns than it has stand for all that agree with them."""
        finder = self._finders.setdefault(at, self.finder.as_of(at))
        demand = self._demands.setdefault(node.fingerprint, {}).setdefault(at, Demand(node, finder))
        if reader is not None and reader not in demand.readers:
            demand.readers.append(reader)
        whole = rows.schema.names == node.schema.names
        (demand.rows if whole else demand.partly).append(rows)

    def _trace(self, demand: Demand) -> None:
        node, at = demand.node, demand.finder.at
        rows, partly = self._rows(demand)
        number = self.number
        self.number += 1
        for i, support in enumerate(self.traced.supports):
            if support.number in demand.readers:
                self.traced.supports[i] = replace(support, inputs=(*support.inputs, number))
        shown = rows if rows.count or not partly else partly[0]
        self.traced.supports.append(Support(number, node.title, shown, (), not partly, self.rounds, self.called(at)))
        if isinstance(node, ir.Source):
            if rows.count:
                self.traced.leaf((node.name, at), rows)
            if partly:
                self.traced.partly.setdefault(node.name, []).extend(partly)
            return
        for known in partly:
            for below, some in zip(node.inputs, narrow(node, known), strict=True):
                self._want(below, some, number, at)
        if not rows.count:
            return
        for below, some, time in self._support(node, rows, _Place(self, demand.finder)):
            if some.count:
                self._want(below, some, number, time)

    def _rows(self, demand: Demand) -> tuple[Rows, list[Rows]]:
        """The rows of a demand, whole where the finder finds them, and those that stay partly known."""
        parts, missing = list(demand.rows), []
        for known in demand.partly:
            updates = demand.finder.find(demand.node, known)
            if updates is None:
                missing.append(known)
            else:
                parts.append(counted(updates).rows)
        return distinct(Rows.concat(parts, demand.node.schema)), missing

    # operator by operator --------------------------------------------------------------------------------------------

    def _support(self, node: ir.Node, rows: Rows, place: _Place) -> Iterator[Part]:
        """Rows of other collections that rows of a node rest on, of its inputs; of fewer columns if nothing keeps them.

        Most rest on rows of the same time.
        """
        found: Iterable[Part] | None = None
        match node:
            case ir.Result():
                found = unrolled(place, node, rows)
            case ir.Recurred():
                found = recurred(place, node, rows)
            case ir.Integrate():
                found = moved(place, node, rows)
        if found is not None:
            yield from found
        elif not isinstance(node, ir.Recurred):
            yield from ((below, some, place.finder.at) for below, some in self._at_once(node, rows, place.finder))

    def _at_once(self, node: ir.Node, rows: Rows, finder: Finder) -> Iterator[tuple[ir.Node, Rows]]:
        """The same of a node whose rows rest on rows of the same time."""
        narrowed = narrow(node, rows)
        candidates = [finder.find(below, some) for below, some in zip(node.inputs, narrowed, strict=True)]
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
                yield below, self._of_one(node, side, rows, updates, finder)

    def _of_one(self, node: ir.Node, side: int, rows: Rows, candidates: Updates, finder: Finder) -> Rows:
        """The rows of one input that rows of a node rest on, among candidates."""
        match node:
            case ir.Linear():
                return self._through(node, rows, candidates, finder.at)
            case ir.Reduce():
                return self._group(node, rows, candidates, finder)
            case _:
                shown = chosen(rows, node.shown(side))
                return counted(agreeing(candidates, shown if shown.schema.names else EVERYTHING)).rows

    def _through(self, node: ir.Linear, rows: Rows, candidates: Updates, at: At) -> Rows:
        """The input rows from which linear logic computes these rows, found by a coordinate that numbers them."""
        each = _by_row(candidates)
        tagged = Updates(each.updates.rows, np.vstack([each.updates.times, each.number]), each.updates.diffs)
        logic = node.logic.with_event_times() if ir.coordinates(node) else node.logic
        output = agreeing(run_logic(logic, tagged)[0], rows)
        own = np.array(at[: len(output.times) - 1], np.int64)[:, None]
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

    def _group(self, node: ir.Reduce, rows: Rows, candidates: Updates, finder: Finder) -> Rows:
        """The rows of a group that decide its result."""
        group = counted(candidates)
        if node.reducer.picks_rows:
            winners = finder.find(node, rows.select(node.key))
            return rows if winners is None else counted(agreeing(winners, rows.select(node.key))).rows
        witnesses = node.reducer.witnesses
        keep = np.full(len(group), not witnesses, np.bool_)
        for own in witnesses:  # of a group whose values are all null one row that has such a value
            names = {**{k: k for k in node.key}, **own}
            keep |= np.isin(hash_rows(group.rows.select(list(names))), hash_rows(chosen(rows, names)))
        return group.rows.filter(keep)


@dataclass(frozen=True)
class _Place:
    """Where a tracer is: at a time, with what finds rows as of it."""

    tracer: Tracer
    finder: Finder

    def note(self, text: str) -> None:
        """Add a note to the explanation."""
        self.tracer.traced.notes[text] = None

    def follow_in(
        self, finder: Finder, wanted: Sequence[tuple[ir.Node, Rows]], *, round_: int | None = None, when: When = None
    ) -> Mapping[Leaf, Rows]:
        """As the tracer does; where nothing else is said times are called as the one at which it is."""
        own = self.tracer.called(self.finder.at)
        rounds = () if round_ is None else (round_,)
        return self.tracer.follow_in(finder, wanted, rounds, when or (lambda _: own))


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
