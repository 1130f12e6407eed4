"""Following rows back through moments: each to the changes of which it is the sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from altneu.collections.collection import Collection
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.engine.reading import history
from altneu.linear import BoundLogic, Function
from altneu.linear.delay import Delay, DelayFunction
from altneu.operators.calculus.node import MOMENT_NAMES
from altneu.order import AltNeu, Epoch
from altneu.plan import ir
from altneu.plan.rewrite.transform import transform
from altneu.provenance.finding import Finder, agreeing, asked_of, counted, is_before, unseen
from altneu.provenance.following import Part, Place, found, insert, there
from altneu.runtime.read import At
from altneu.trace.update import Updates

_NOT_FOLLOWED = (
    "changes are not followed to their moments, because the session does not keep all of their inputs as they were "
    "(declare the sources with keep=True, and keep history with Session(retain=...)), because rows have several times, "
    "or because more is computed of what moments gives: the explanation lists the input rows that agree with the row"
)
MOMENTS = AltNeu(Epoch())
CHANGES, BESIDE = "#changes", "#beside"


def moved(place: Place, node: ir.Integrate, rows: Rows) -> list[Part] | None:
    """The rows from outside, as of their times, that integrated rows rest on; None with a note: it is not known.

    What is between ``differentiate`` and ``integrate`` is computed again in a session whose times are its moments: 2t
    and 2t + 1 for alt(t) and neu(t), which is how they are ordered. A row that is integrated is a sum of changes, one
    for each time at which it changed at alt: it rests on what it was made of at that moment, and at the one before.

    Cost:   that of the operators in between over the rows of their inputs that agree with the rows on what is handed
            on; and of following the rows at each time at which they changed.
    """
    (at, *rest), again = place.finder.at, _Again(node)
    if rest or is_before(again.root, node) or not again.read(place.finder, rows):
        place.note(_NOT_FOLLOWED)
        return None
    with unseen() as engine:
        wanted = again.changes(engine, rows, at)
        if wanted is None:
            place.note(_NOT_FOLLOWED)
            return None
        return [part for moment, some in wanted for part in again.follow(place, engine, moment, some)]


@dataclass
class _Again:
    """What is between ``differentiate`` and ``integrate``, computed again; ``known`` are its inputs, by fingerprint."""

    integrate: ir.Integrate
    known: dict[str, Updates] = field(default_factory=dict)
    sources: dict[str, ir.Node] = field(default_factory=dict)  # by their names: what they stand for outside
    body: ir.Node | None = None

    @property
    def told(self) -> ir.TellMoment | None:
        """What says of each row at which moment it was, so that it stays whichever that is."""
        below = self.integrate.input
        return below if isinstance(below, ir.TellMoment) and _is_same(below, self.integrate) else None

    @property
    def root(self) -> ir.Node:
        """What is computed again."""
        return self.integrate.input if self.told is None else self.told.input

    def read(self, finder: Finder, rows: Rows) -> bool:
        """Read what it is computed from; whether all of that is kept, and nothing on the way asks for moments."""
        wanted = [(self.root, self._shown(rows))]
        if any(isinstance(n, ir.TellMoment) and _is_same(n, self.integrate) for n in ir.walk(self.root)):
            return False
        for node, asked in asked_of(wanted, lambda n: is_before(n, self.integrate)):
            updates = found(finder, node, asked)
            if updates is None:
                return False
            self.known[node.fingerprint] = updates
        return True

    def _shown(self, rows: Rows) -> Rows:
        own = rows.select(self.root.schema.names)
        return Rows(self.root.schema, own.columns, own.count)

    def changes(self, engine: Engine, rows: Rows, at: int) -> list[tuple[int, Rows]] | None:
        """The moments at which the rows were there and changed, or were before they did; None: they are not there."""
        self.body = transform(self.root, self._in_moments)
        engine.maintain("moments", Collection(self.body))
        for name, below in self.sources.items():
            insert(engine, name, self._moments_of(name, self.known[below.fingerprint]))
        engine.advance(2 * at + 2)
        updates = history(engine.table, engine.ports("moments").contents, 0, 2 * at + 2)
        wanted: list[tuple[int, Rows]] = []
        for is_neu, name in enumerate(MOMENT_NAMES[: 1 if self.told is None else 2]):
            own = rows
            if self.told is not None:
                own = rows.filter(rows.column(self.told.column).to_numpy(zero_copy_only=False) == name)
            own = Rows(updates.schema, self._shown(own).columns, own.count)
            history_of = agreeing(updates, own)
            settled = history_of.filter(MOMENTS.is_neu(history_of.times) == is_neu)
            if not there(settled, own, (2 * at + 1,)).all():
                return None
            for time in np.unique(settled.times[0]).tolist():
                changed = counted(settled.filter(settled.times[0] == time)).rows
                for moment in (time, time - 1):
                    held = changed.filter(there(history_of, changed, (moment,)))
                    if moment >= 0 and held.count:
                        wanted.append((moment, held))
        return wanted

    def follow(self, place: Place, engine: Engine, moment: int, rows: Rows) -> list[Part]:
        """Rows at a moment, back to the rows from outside."""
        assert self.body is not None
        leaves: Mapping[tuple[str, At], Rows] = place.follow_in(
            Finder.of(engine, (moment,)), [(self.body, rows)], when=lambda at: str(MOMENTS.decode(at))
        )
        parts: list[Part] = []
        for (name, at), held in leaves.items():
            below, time = self.sources[name], at[0] >> 1
            some = Rows(below.schema, held.columns, held.count)
            now = there(self.known[below.fingerprint], some, (time,))
            before = there(self.known[below.fingerprint], some, (time - 1,))
            if not name.startswith(CHANGES):  # of a change both what it was and what it became matter
                before &= ~now
            parts += [(below, some.filter(which), (t,)) for which, t in ((now, time), (before, time - 1)) if t >= 0]
        return [part for part in parts if part[1].count]

    def _in_moments(self, new: ir.Node, old: ir.Node) -> ir.Node:
        """The plan of a session whose times are moments."""
        if isinstance(new, ir.Moments) and new.level == self.integrate.level and new.depth > self.integrate.depth:
            return replace(new, depth=new.depth - self.integrate.depth)
        if isinstance(old, ir.Differentiate) and _is_same(old, self.integrate) and old.input.fingerprint in self.known:
            return self._source(CHANGES, old.input)
        if is_before(old, self.integrate):  # a constant is there from the earliest moment on
            is_read = old.fingerprint in self.known and not isinstance(old, ir.Constant)
            return self._source(BESIDE, old) if is_read else new
        if isinstance(old, ir.ToNeu) and _is_same(old, self.integrate):
            return ir.Linear(new.inputs[0], BoundLogic((), Delay((DelayFunction(_TO_NEU),))))
        return new

    def _source(self, kind: str, below: ir.Node) -> ir.Node:
        name = f"{kind} {below.fingerprint}"
        self.sources[name] = below
        return ir.Source(name, self.known[below.fingerprint].schema, keep=True)

    def _moments_of(self, name: str, updates: Updates) -> Updates:
        early = Updates(updates.rows, MOMENTS.alt(updates.times), updates.diffs)
        if not name.startswith(CHANGES):
            return early
        late = Updates(updates.rows, MOMENTS.neu(updates.times), -updates.diffs)
        return Updates.concat([early, late], updates.schema, 1)


def _is_same(node: ir.Moments, integrate: ir.Integrate) -> bool:
    return (node.level, node.depth) == (integrate.level, integrate.depth)


def _later(moment: int) -> int:
    return moment | 1


_TO_NEU = Function.of(_later, "1")
