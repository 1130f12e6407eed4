"""Following rows back through a loop: round by round, each to the round in which it arose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.errors import PlanError
from altneu.plan import ir
from altneu.plan.rewrite.transform import transform
from altneu.provenance.finding import EVERYTHING, Finder, counted, unseen
from altneu.provenance.following import Part, Place, insert, together, under
from altneu.trace.update import Updates

_NOT_FOLLOWED = (
    "the loop cannot be traced round by round, because the session does not keep all of its inputs (declare its "
    "sources with keep=True), or because the loop inspects times: the explanation lists all of its inputs"
)
VARIABLE, OUTSIDE, ENTERING = "#variable", "#outside", "#entering"


def unrolled(place: Place, node: ir.Result, rows: Rows) -> Iterator[Part]:
    """The rows of the collections from outside that rows of a loop's result rest on.

    The loop is run again in a session whose times are its rounds: its variables are sources there, its bodies views.
    A row is then followed back from the round since which it has been there as often as it is in the end.

    Cost:   that of the loop from the beginning.
    """
    outside = list(ir.read_from_outside(node.loop))
    contents = [place.finder.find(below, EVERYTHING) for below in outside]
    if any(updates is None for updates in contents) or _is_about_time(node.loop):
        place.note(_NOT_FOLLOWED)
        for below, updates in zip(outside, contents, strict=True):
            yield below, EVERYTHING if updates is None else counted(updates).rows, place.finder.at
        return
    known = {n.fingerprint: counted(u) for n, u in zip(outside, contents, strict=True) if u is not None}
    with unseen() as engine:
        unrolling = _Unrolling(node.loop, engine, known)
        last = unrolling.run()
        for below, some in unrolling.follow(place, node.index, rows, last):
            yield below, some, place.finder.at


def _is_about_time(loop: ir.Loop) -> bool:
    """Whether something inside looks at times, which are rounds where it is run again."""
    outside = {n.fingerprint for n in ir.read_from_outside(loop)}

    def inside(node: ir.Node) -> Iterator[ir.Node]:
        if node.fingerprint not in outside:
            yield node
            for below in node.inputs:
                yield from inside(below)

    for body in loop.bodies:
        for node in inside(body):
            if node.reads_times:
                return True
    return False


@dataclass
class _Unrolling:
    """A loop whose rounds are times of a session; ``known`` are the collections from outside, by fingerprint."""

    loop: ir.Loop
    engine: Engine
    known: dict[str, Updates]
    sources: dict[str, ir.Node] = field(default_factory=dict)  # by their names: what they stand for outside
    inserts: dict[str, Updates] = field(default_factory=dict)
    latest: int = 0  # the last round in which something enters
    bodies: list[ir.Node] = field(default_factory=list)  # of those sources

    def run(self) -> int:
        """Run all rounds; the last one, in which the bodies make the results."""
        self.bodies = [transform(body, self._replaced) for body in self.loop.bodies]
        for i, body in enumerate(self.bodies):
            self.engine.maintain(f"body {i}", Collection(body))
            first = self.loop.initial[i]
            self.engine.maintain(f"variable {i}", Collection(self._variable(i)))
            self._insert(f"{VARIABLE} {i}", self.known[first.fingerprint], 0)
        for name, updates in self.inserts.items():
            self._insert(name, updates)
        for at in range(self.loop.max_rounds):
            self.engine.advance(at + 1)
            changes = [self._change(i, at) for i in range(len(self.bodies))]
            stopped = self.loop.stops and at == self.loop.max_rounds - 1
            for i, change in enumerate(changes):
                self._insert(f"{VARIABLE} {i}", change, at + self.loop.step(i))
                if len(change):
                    self.latest = max(self.latest, at + self.loop.step(i))
            if stopped or at >= self.latest:
                self.engine.advance(at + 1 + max(map(self.loop.step, range(len(changes)))))
                return at
        raise PlanError(f"the loop over {', '.join(self.loop.names)} does not end within {self.loop.max_rounds} rounds")

    def _variable(self, i: int) -> ir.Source:
        return ir.Source(f"{VARIABLE} {i}", self.loop.variable(i).schema, keep=True)

    def _replaced(self, new: ir.Node, old: ir.Node) -> ir.Node:
        if isinstance(old, ir.Variable) and old.level == self.loop.level:
            return self._variable(old.index)
        if isinstance(old, ir.EnterAt) and old.level == self.loop.level:
            return self._entering(old)
        if old.fingerprint not in self.known or isinstance(old, ir.Constant):
            return new
        name = f"{OUTSIDE} {old.fingerprint}"
        self.sources[name], self.inserts[name] = old, self.known[old.fingerprint]
        return ir.Source(name, old.schema, keep=True)

    def _entering(self, node: ir.EnterAt) -> ir.Source:
        name = f"{ENTERING} {node.fingerprint}"
        updates = self.known[node.input.fingerprint]
        rounds = node.rounds.evaluate(updates.rows)
        values = rounds.values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        values = values if rounds.failed is None else np.where(rounds.failed, 0, values)
        self.inserts[name] = Updates(updates.rows, np.maximum(values, 0)[None, :], updates.diffs)
        self.latest = max(self.latest, int(values.max(initial=0)))
        self.sources[name] = node.input
        return ir.Source(name, node.schema, keep=True)

    def _insert(self, name: str, updates: Updates, at: int | None = None) -> None:
        times = updates.times[:1] if at is None else np.full((1, len(updates)), at)
        insert(self.engine, name, Updates(updates.rows, times, updates.diffs))

    def _change(self, i: int, at: int) -> Updates:
        """The change of a variable from this round to the next."""
        schema = self.loop.variable(i).schema
        change = counted(under(schema, self.engine.last_changes(f"body {i}")))
        if at:
            return change
        initial = under(schema, self.known[self.loop.initial[i].fingerprint])
        negated = Updates(initial.rows, initial.times, -initial.diffs)
        return counted(Updates.concat([change, negated], schema, 1))

    def follow(self, place: Place, index: int, rows: Rows, last: int) -> Iterator[tuple[ir.Node, Rows]]:
        """Rows of a variable in the last round, back to the rows from outside."""
        pending: dict[tuple[int, int], list[Rows]] = {}  # by round and variable
        leaves: dict[str, tuple[ir.Node, list[Rows]]] = {}

        def want(i: int, some: Rows, at: int) -> None:
            for since, part in self._by_since(i, some, at):
                if since == 0:
                    leaves.setdefault(f"{VARIABLE} {i}", (self.loop.initial[i], []))[1].append(part)
                else:
                    pending.setdefault((since - self.loop.step(i), i), []).append(part)

        want(index, rows, last + self.loop.step(index))
        while pending:
            at = max(r for r, _ in pending)
            ready = [i for r, i in pending if r == at]
            wanted = [(self.bodies[i], together(pending.pop((at, i)), self.bodies[i].schema)) for i in ready]
            for (name, _), some in place.follow_in(Finder.of(self.engine, (at,)), wanted, round_=at).items():
                if name.startswith(VARIABLE):
                    want(int(name.removeprefix(f"{VARIABLE} ")), some, at)
                else:
                    leaves.setdefault(name, (self.sources[name], []))[1].append(some)
        for below, parts in leaves.values():
            yield below, together(parts, below.schema)

    def _by_since(self, i: int, rows: Rows, at: int) -> Iterator[tuple[int, Rows]]:
        """Rows of a variable in a round, by the round since which they have been there as often."""
        updates = Finder.of(self.engine, (at,)).find(self._variable(i), rows)
        assert updates is not None
        wanted = Rows(updates.schema, rows.columns, rows.count)
        own, theirs = hash_rows(wanted), hash_rows(updates.rows)
        last = dict[int, int]()
        for h, t in zip(theirs.tolist(), updates.times[0].tolist(), strict=True):
            last[h] = max(last.get(h, 0), t)
        since = np.array([last.get(h, 0) for h in own.tolist()], np.int64)
        for t in np.unique(since).tolist():
            yield t, wanted.filter(since == t)
