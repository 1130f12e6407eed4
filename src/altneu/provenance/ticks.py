"""Following rows back through feedback: each to the time since which it has been there, and on to those before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from altneu.collections.collection import Collection
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.engine.reading import history
from altneu.plan import ir
from altneu.plan.rewrite.transform import transform
from altneu.provenance.finding import EVERYTHING, Finder, agreeing, unseen, until
from altneu.provenance.following import Part, Place, insert, there, together
from altneu.trace.update import Updates

_NOT_FOLLOWED = (
    "{} rests on what it was at earlier times, which are not kept (declare its sources with keep=True, and keep "
    "history with Session(retain=...)): the explanation lists all of its inputs"
)
VARIABLE, OUTSIDE = "#variable", "#outside"


def recurred(place: Place, node: ir.Recurred, rows: Rows) -> list[Part] | None:
    """The rows from outside, as of their times, that rows of feedback rest on; None with a note: it is not known.

    The feedback is computed again in a session of its own. In another its variables are sources, which have the results
    so many ticks later, and its bodies are views: there a row is followed from the time since which it has been there
    as often to the rows of variables, and these to results of earlier times.

    Cost:   that of the feedback from the beginning.
    """
    outside = list(ir.read_from_outside(node.recurrence))
    contents = [place.finder.find(below, EVERYTHING) for below in outside]
    known = {n.fingerprint: u for n, u in zip(outside, contents, strict=True) if u is not None}
    (last,) = place.finder.at
    if len(known) == len(outside) and not any(map(ir.moments, outside)):
        again = _Again(node.recurrence, {n.fingerprint: n for n in outside}, known, last)
        results = again.results()
        if there(results[node.index], rows, (last,)).all():
            with unseen() as engine:
                return again.follow(place, engine, results, node.index, rows)
    place.note(_NOT_FOLLOWED.format(node.title))
    return None


@dataclass
class _Again:
    """Feedback that is computed again up to a time; ``known`` are the collections from outside, by fingerprint."""

    recurrence: ir.Recurrence
    outside: Mapping[str, ir.Node]
    known: Mapping[str, Updates]
    last: int
    sources: dict[str, ir.Node] = field(default_factory=dict)  # by their names: what they stand for outside

    def results(self) -> list[Updates]:
        """What the feedback made of each variable, up to the time."""
        whole = transform(self.recurrence, self._from_outside)
        assert isinstance(whole, ir.Recurrence)
        names = [f"result {i}" for i in range(len(whole.names))]
        with unseen() as engine:
            for i, name in enumerate(names):
                engine.maintain(name, Collection(ir.Recurred(whole, i)))
            self._insert(engine)
            engine.advance(self.last + 1)
            return [history(engine.table, engine.ports(name).contents, 0, self.last + 1) for name in names]

    def follow(self, place: Place, engine: Engine, results: list[Updates], index: int, rows: Rows) -> list[Part]:
        """Rows of a result at the time, back to the rows from outside."""
        by = self.recurrence.by
        bodies = [transform(body, self._of_sources) for body in self.recurrence.bodies]
        for i, body in enumerate(bodies):
            engine.maintain(f"body {i}", Collection(body))
        self._insert(engine)
        for i, result in enumerate(results):
            later = Updates(result.rows, result.times + by[i], result.diffs)
            insert(engine, f"{VARIABLE} {i}", until(later, (self.last,)))
        engine.advance(self.last + 1)
        pending: dict[tuple[int, int], list[Rows]] = {}  # by time and variable
        parts: list[Part] = []

        def want(i: int, some: Rows, at: int) -> None:
            for since, part in _by_since(results[i], some, at):
                pending.setdefault((since, i), []).append(part)

        want(index, rows, self.last)
        while pending:
            at = max(time for time, _ in pending)
            wanted = [(bodies[i], together(pending.pop((at, i)), bodies[i].schema)) for t, i in [*pending] if t == at]
            leaves = place.follow_in(Finder.of(engine, (at,)), wanted, when=lambda at: f"time {at[0]}")
            for (name, time), some in leaves.items():
                if name.startswith(VARIABLE):
                    i = int(name.removeprefix(f"{VARIABLE} "))
                    want(i, some, time[0] - by[i])
                else:
                    below = self.sources[name]
                    parts.append((below, Rows(below.schema, some.columns, some.count), time))
        return parts

    def _insert(self, engine: Engine) -> None:
        for name, stands in self.sources.items():
            insert(engine, name, self.known[stands.fingerprint])

    def _from_outside(self, new: ir.Node, old: ir.Node) -> ir.Node:
        if old.fingerprint not in self.outside or isinstance(old, ir.Constant):
            return new
        name = f"{OUTSIDE} {old.fingerprint}"
        self.sources[name] = old
        return ir.Source(name, self.known[old.fingerprint].schema, keep=True)

    def _of_sources(self, new: ir.Node, old: ir.Node) -> ir.Node:
        level = self.recurrence.level
        if isinstance(old, ir.Variable) and old.level == level:
            return ir.Source(f"{VARIABLE} {old.index}", old.schema, keep=True)
        if isinstance(new, ir.Moments) and new.level == level:
            return replace(new, level=-1)
        return self._from_outside(new, old)


def _by_since(updates: Updates, rows: Rows, at: int) -> list[tuple[int, Rows]]:
    """Rows at a time, by the time since which they have been there as often."""
    wanted = Rows(updates.schema, rows.columns, rows.count)
    found = until(agreeing(updates, wanted), (at,))
    last = dict[int, int]()
    for value, time in zip(hash_rows(found.rows).tolist(), found.times[0].tolist(), strict=True):
        last[value] = max(last.get(value, 0), time)
    since = np.array([last.get(value, -1) for value in hash_rows(wanted).tolist()], np.int64)
    return [(time, wanted.filter(since == time)) for time in np.unique(since).tolist() if time >= 0]
