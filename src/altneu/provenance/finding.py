"""The rows of any collection of a plan that agree with given ones: read from an arrangement, or else recomputed."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from collections.abc import Collection as Some
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.engine.reading import history
from altneu.operators.arrange.operation import ArrangeOp
from altneu.order import Epoch, Product
from altneu.plan import ir
from altneu.plan.physical import Plan
from altneu.plan.rewrite.share_orders import without_orders
from altneu.plan.rewrite.transform import replaced
from altneu.provenance.narrow import narrow
from altneu.runtime.inputs import Inputs
from altneu.runtime.inspections import Inspections
from altneu.runtime.read import At
from altneu.runtime.state import StateTable
from altneu.trace.batch import Batch, Layout, find_in
from altneu.trace.update import Updates, consolidate

EVERYTHING = Rows(pa.schema([]), (), 1)
"""What all rows agree with."""


def consolidated(updates: Updates) -> Updates:
    """Each (row, time) once."""
    width = len(updates.times)
    return consolidate(updates, Epoch() if width == 1 else Product(*(Epoch() for _ in range(width))))


def counted(updates: Updates) -> Updates:
    """Each row once with its count, all at time 0."""
    return consolidate(Updates(updates.rows, np.zeros((1, len(updates)), np.int64), updates.diffs), Epoch())


def in_order(updates: Updates) -> Updates:
    """In order of their times, and of what their rows look like."""
    rows = list(map(repr, updates.rows.to_pylist()))
    times = updates.times.T.tolist()
    return updates.take(np.array(sorted(range(len(updates)), key=lambda i: (times[i], rows[i])), np.int64))


def distinct(rows: Rows) -> Rows:
    """Each row once."""
    return counted(Updates(rows, np.zeros((1, rows.count), np.int64), np.ones(rows.count, np.int64))).rows


def agree(updates: Updates, wanted: Rows) -> npt.NDArray[np.bool_]:
    """Which updates are of rows that agree with one of the wanted ones on its columns; null agrees with null.

    Rows are compared by their hashes: a collision could only add a row to an explanation, which is checked as a whole
    in the end.
    """
    if not len(wanted.schema):
        return np.full(len(updates), wanted.count > 0)
    return np.isin(hash_rows(updates.rows.select(wanted.schema.names)), hash_rows(wanted))


def agreeing(updates: Updates, wanted: Rows) -> Updates:
    """The updates of rows that agree with one of the wanted ones."""
    return updates.filter(agree(updates, wanted)) if len(wanted.schema) or not wanted.count else updates


def asked_of(
    wanted: Sequence[tuple[ir.Node, Rows]], is_end: Callable[[ir.Node], bool]
) -> list[tuple[ir.Node, list[Rows]]]:
    """For the collections at which a plan ends, what rows of theirs agree with that matter for wanted ones above.

    A loop may make anything of what it reads, and so may feedback.
    """
    demands: dict[str, dict[tuple[str, ...], Rows]] = {}
    ends: list[tuple[ir.Node, list[Rows]]] = []

    def demand(node: ir.Node, rows: Rows) -> None:
        by_columns = demands.setdefault(node.fingerprint, {})
        names = tuple(rows.schema.names)
        known = by_columns.get(names)
        by_columns[names] = rows if known is None or not names else distinct(Rows.concat([known, rows], rows.schema))

    for node, rows in wanted:
        demand(node, rows)
    for node in reversed(list(ir.walk(*(node for node, _ in wanted)))):
        asked = list(demands.get(node.fingerprint, {}).values())
        if asked and is_end(node):
            ends.append((node, asked))
            continue
        looped = isinstance(node, ir.Result | ir.Loop | ir.Recurred | ir.Recurrence)
        for rows in asked:
            narrowed = [EVERYTHING] * len(node.inputs) if looped else narrow(node, rows)
            for below, some in zip(node.inputs, narrowed, strict=True):
                demand(below, some)
    return ends


def any_of(parts: Sequence[Updates], asked: Sequence[Rows]) -> Updates:
    """The updates that agree with any of what is asked, once, when ``parts`` are those that agree with each."""
    new = []
    for i, updates in enumerate(parts):
        known = [agree(updates, rows) for rows in asked[:i]]
        new.append(updates.filter(~np.logical_or.reduce(known)) if known else updates)
    return Updates.concat(new, parts[0].schema, len(parts[0].times))


def is_before(node: ir.Node, integrate: ir.Integrate) -> bool:
    """Whether a collection below ``integrate`` is outside the moments that this leads out of."""
    return ir.moments(node).get(integrate.level, 0) < integrate.depth


Place = tuple[str, tuple[str, ...], bytes]
Search = Generator[tuple[ir.Node, Rows], tuple[Updates | None], Updates | None]


def _place(node: ir.Node, wanted: Rows) -> Place:
    """What identifies a search: a collection, and the hashes of what its rows are to agree with."""
    hashes = hash_rows(wanted).tobytes() if len(wanted.schema) else bytes([wanted.count > 0])
    return node.fingerprint, tuple(wanted.schema.names), hashes


@dataclass(frozen=True)
class Finder:
    """Rows of a session's collections at a time.

    Shape:  ``plan`` is the session's, ``existing`` names the arrangements that have state and ``filled`` the sources
            that ever had rows; ``at`` is a time, coordinate by coordinate. History is ``complete`` if none of it is
            compacted.
    """

    plan: Plan
    table: StateTable
    existing: Some[str]
    filled: Some[str]
    at: At
    complete: bool
    _results: dict[Place, tuple[Updates | None]] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, engine: Engine, at: At) -> Finder:
        """The finder of a session's rows at a time."""
        journal = engine.journal
        return cls(engine.plan, engine.table, journal.existing(), journal.filled, at, journal.since <= 0)

    def as_of(self, at: At) -> Finder:
        """The finder of rows at another time."""
        return replace(self, at=at, _results={})

    @cached_property
    def _arrangements(self) -> Mapping[str, list[str]]:
        """The arrangements with all rows of a collection, by its fingerprint; none of loops and moments."""
        arrangements: dict[str, list[str]] = {}
        for node in self.plan.nodes:
            operation = node.operation
            if not isinstance(operation, ArrangeOp) or not operation.has_collection:
                continue
            outside = not (self.plan.loop_around(node.scope) or self.plan.has_moments(node))
            if outside and operation.arrangement in self.existing:
                arrangements.setdefault(node.logical, []).append(operation.arrangement)
        return arrangements

    def find(self, node: ir.Node, wanted: Rows) -> Updates | None:
        """The updates, up to the time, of the rows of a collection that agree with wanted ones; None: not kept.

        Cost:   a lookup where ``wanted`` has an arrangement's key, else a pass over an arrangement; where there is
                none, its operator over what this finds of its inputs. Results are cached.
        """
        searches = [self._started(node, wanted)]
        updates: Updates | None = None
        result: tuple[Updates | None] | None = None
        while searches:
            place, search = searches[-1]
            try:
                below, rows = search.send(result)  # type: ignore[arg-type]
            except StopIteration as stop:
                updates = stop.value
                result = self._results[place] = (updates,)
                searches.pop()
                continue
            result = self._results.get(_place(below, rows))
            if result is None:
                searches.append(self._started(below, rows))
        return updates

    def _started(self, node: ir.Node, wanted: Rows) -> tuple[Place, Search]:
        return _place(node, wanted), self._search(node, wanted)

    def _search(self, node: ir.Node, wanted: Rows) -> Search:
        """Yields each input with the rows to find in it, and is sent the result of that search."""
        while isinstance(node, ir.ArrangedBy):
            node = node.input
        if names := self._arrangements.get(node.fingerprint):
            return self._read(names, wanted)
        if isinstance(node, ir.Source):
            return None if node.name in self.filled else Updates.empty(node.schema, 2 if node.coordinates else 1)
        if ir.moments(node) or isinstance(node, ir.Variable | ir.EnterAt):
            return None
        if isinstance(node, ir.Integrate):
            return (yield from self._integrated(node, wanted))
        looped = isinstance(node, ir.Result)
        inputs = list(ir.read_from_outside(node.loop)) if isinstance(node, ir.Result) else list(node.inputs)
        narrowed = [EVERYTHING] * len(inputs) if looped else narrow(node, wanted)
        known = []
        for below, rows in zip(inputs, narrowed, strict=True):
            (updates,) = yield below, rows
            if updates is not None:
                known.append(updates)
        if len(known) < len(inputs):
            return None
        return agreeing(evaluated(node, inputs, known, self.at), wanted)

    def _integrated(self, node: ir.Integrate, wanted: Rows) -> Search:
        """What is between ``differentiate`` and ``integrate``, of what comes in."""
        if not self.complete or node.level >= 0:
            return None
        ends, known = asked_of([(node.input, wanted)], lambda n: is_before(n, node)), []
        for below, asked in ends:
            parts = []
            for rows in asked:
                (updates,) = yield below, rows
                if updates is None:
                    return None
                parts.append(updates)
            known.append(any_of(parts, asked))
        return agreeing(evaluated(node, [below for below, _ in ends], known, self.at), wanted)

    def _read(self, names: Sequence[str], wanted: Rows) -> Updates:
        """From the arrangement that is looked up by most of the columns that are known."""
        known = set(wanted.schema.names)

        def fit(name: str) -> int:
            key = self.table.layouts[name].key
            return len(key) if known.issuperset(key) else 0

        name = max(names, key=fit)
        layout = self.table.layouts[name]
        parts = []
        for shard in self.table.shards_of(name):
            state = self.table.get(name, shard)
            batches = () if state is None else state.spine.batches
            parts.append(until(_looked_up(batches, layout, wanted) if fit(name) else _all(batches, layout), self.at))
        return consolidated(agreeing(Updates.concat(parts, layout.schema, layout.lattice.width), wanted))


def until(updates: Updates, at: At) -> Updates:
    """Those up to a time, which may have more coordinates than theirs."""
    own = np.array(at[: len(updates.times)], np.int64)[:, None]
    late = np.asarray((updates.times > own).any(axis=0))
    return updates.filter(~late) if late.any() else updates


def evaluated(node: ir.Node, inputs: Sequence[ir.Node], updates_of: Sequence[Updates], at: At) -> Updates:
    """The output of a node over updates of its inputs, up to a time: computed in a session of its own.

    A constant is left as it is, whatever its updates.
    """
    scratch = Scratch()
    sources = {
        below.fingerprint: scratch.source(f"#{i}", below, updates)
        for i, (below, updates) in enumerate(zip(inputs, updates_of, strict=True))
        if not isinstance(below, ir.Constant)
    }
    return scratch.contents(replaced(node, sources), at)


class _Unseen(Inspections):
    """Inspections that show nothing."""

    def add(self, plan: Plan, inspected: Mapping[int, list[Updates]]) -> None:
        """Take nothing."""


def unseen() -> Engine:
    """A session in memory, to compute something again: functions for ``inspect`` have seen it, and are not called."""
    engine = Engine(retain="all")
    engine.inspections = _Unseen(engine.lattice)
    return engine


class Scratch:
    """A session in memory for one computation."""

    def __init__(self) -> None:
        self.inputs = Inputs()

    def source(self, name: str, like: ir.Node, updates: Updates) -> ir.Source:
        """A source that has the columns and times of a collection, and these updates."""
        if len(updates):
            self.inputs.updates[name] = [updates]
        return ir.Source(name, updates.schema, coordinates=ir.coordinates(like))

    def contents(self, node: ir.Node, at: At) -> Updates:
        """The updates of a collection of these sources, up to a time; rows that fail are none."""
        commanded = {n.fingerprint: n.plain for n in ir.walk(node) if isinstance(n, ir.Source) and n.commanded_by}
        node = without_orders(replaced(node, commanded))
        with unseen() as engine:
            engine.maintain("#", Collection(node))
            engine.wait_again(self.inputs)
            engine.advance(at[0] + 1)
            return until(history(engine.table, engine.ports("#").contents, 0, at[0] + 1), at)


def _all(batches: Sequence[Batch], layout: Layout) -> Updates:
    return Updates.concat([b.updates() for b in batches], layout.schema, layout.lattice.width)


def _looked_up(batches: Sequence[Batch], layout: Layout, wanted: Rows) -> Updates:
    batches = [b for b in batches if len(b)]
    if not batches:
        return Updates.empty(layout.schema, layout.lattice.width)
    keys = distinct(wanted.select(layout.key))
    matches = find_in(batches, hash_rows(keys), keys)
    return Updates(layout.join(keys.take(matches.probe), matches.values), matches.times, matches.diffs)
