"""Hydration plans: compute what a new view lacks from what arrangements already hold, without re-reading sources.

The plan of the whole session is cut at every collection that can be read: an arrangement that exists is read whole,
and as new; a collection that some arrangement holds is read from it. What lies between is run again, and its results
kept only where nothing was kept before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType

from altneu.errors import HydrationError
from altneu.linear import BoundLogic, Filter, Project, Step
from altneu.linear.asked import Cut
from altneu.operators.arrange.operation import ArrangeOp, FromOp, ReadOp
from altneu.operators.base import Operation
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.linear.operation import LinearOp
from altneu.plan.physical import PhysicalNode, Plan, Port, scheduled
from altneu.trace.batch import Layout


@dataclass(frozen=True)
class Stored:
    """Where the rows of a source are when its columns have changed: an arrangement with earlier ones, and their logic.

    ``into`` is the arrangement of the present rows, of a source that takes commands; ``waiting`` that of its commands,
    of which there are none.
    """

    source: str
    arrangement: str
    layout: Layout
    logic: BoundLogic
    into: str | None = None
    waiting: str | None = None


@dataclass(frozen=True)
class Former:
    """The former contents of an arrangement: from ``time`` on they are those of its plan.

    ``present`` is the arrangement that has those already, and its layout, if one has. What reads the arrangement in
    this plan is given those of the plan alone, if they have a name: ``fresh``.
    """

    arrangement: str
    layout: Layout
    time: int
    present: tuple[str, Layout] | None = None
    fresh: str | None = None


@dataclass
class _Cutter:
    plan: Plan
    existing: Collection[str]
    filled: Collection[str]
    called: Mapping[str, str]
    view: str
    stored: Sequence[Stored] = ()
    former: Mapping[str, Former] = field(default_factory=dict)
    unlike: Collection[str] = ()
    nodes: list[PhysicalNode] = field(default_factory=list)
    made: dict[int, int | None] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    read: set[str] = field(default_factory=set)
    anew: set[str] = field(default_factory=set)
    widest: dict[int, int | None] = field(default_factory=dict)

    def add(self, node: PhysicalNode, inputs: tuple[Port, ...]) -> int:
        """Append a node at its stage in this plan.

        Rows read from arrangements may lie otherwise than the session's plan knew, so no exchange is left out, but that
        of errors which stay where they are: they are retracted there.
        """
        stay = node.exchange is None and node.operation.keeps is not None and node.operation.keeps[0] in self.errors
        key = node.operation.exchange_key(node.schema) if inputs and not stay else None
        exchange = node.exchange if key is None else key
        self.nodes.append(replace(node, inputs=inputs, exchange=exchange))
        return len(self.nodes) - 1

    def need(self, root: int) -> int | None:
        """The node here that gives what a node gives; None where that is known to be empty.

        What it is made of is made first, so that a plan may be of any depth; a loop is made as a whole.
        """
        todo = [(root, False)]
        while todo:
            i, is_entered = todo.pop()
            if i in self.made:
                continue
            if not is_entered:
                todo.append((i, True))
                todo += [(below, False) for below in reversed(self._below(i))]
            elif loop := self.plan.loop_around(self.plan.nodes[i].scope):
                self._make_loop(loop)
            else:
                self.made[i] = self._make(i)
        return self.made[root]

    def _below(self, i: int) -> list[int]:
        """The nodes without which a node cannot be made here."""
        node = self.plan.nodes[i]
        if loop := self.plan.loop_around(node.scope):
            inside = self.loops[loop]
            return [p.node for j in inside for p in self.plan.nodes[j].inputs if p.node not in inside]
        former = self._former(node)
        if self._stored_as(i) is not None or (former is not None and former.present is not None):
            return []
        if not self.plan.has_moments(node) and (
            self._is_readable(node) or i in self.readers or self.wider(i) is not None
        ):
            return []
        return [p.node for p in node.inputs]

    def _stored_as(self, i: int) -> Stored | None:
        """Where its rows are, if an arrangement has them in an earlier form."""
        for stored in self.stored:
            keeps = self.plan.nodes[i].operation.keeps
            if stored.into is not None:
                found = keeps is not None and keeps[0] == stored.into
            else:
                found = self.plan.source_of.get(i) == stored.source
            if found:
                return stored
        return None

    def _read_stored(self, node: PhysicalNode, stored: Stored) -> int:
        """Read the arrangement of an earlier form, and make the present one."""
        scope, schema = node.scope, stored.layout.schema
        read = self.add(PhysicalNode(ReadOp(stored.arrangement), (), 0, schema, label="read earlier", scope=scope), ())
        made = PhysicalNode(LinearOp(stored.logic), (), 0, node.schema, label="earlier rows", scope=scope)
        rows = self.add(made, (Port(read),))
        if stored.into is None:
            return rows
        assert node.operation.keeps is not None
        return self.add(replace(node, operation=ArrangeOp(*node.operation.keeps)), (Port(rows),))

    def _former(self, node: PhysicalNode) -> Former | None:
        """What a view had whose contents a node arranges from now on."""
        operation = node.operation
        return self.former.get(operation.arrangement) if isinstance(operation, ArrangeOp) else None

    def _redefined(self, node: PhysicalNode, former: Former) -> int:
        """Arrange what a view's plan makes less what the view had, as a change at the next time."""
        scope, schema = node.scope, former.layout.schema
        parts, made = list[Port](), list[Port]()
        if former.present is not None:
            name, layout = former.present
            there = PhysicalNode(ReadOp(name), (), 0, layout.schema, label="read contents", scope=scope)
            made.append(Port(self.add(there, ())))
        else:
            inputs = [(self.made[port.node], port.output) for port in node.inputs]
            made += [Port(number, output) for number, output in inputs if number is not None]
        for port in made:
            rows = PhysicalNode(FromOp(former.time), (), 0, node.schema, label="from now on", scope=scope)
            parts.append(Port(self.add(rows, (port,))))
        read = PhysicalNode(ReadOp(former.arrangement), (), 0, schema, label="read former contents", scope=scope)
        gone = PhysicalNode(FromOp(former.time, gone=True), (), 0, schema, label="less", scope=scope)
        parts.append(Port(self.add(gone, (Port(self.add(read, ())),))))
        both = PhysicalNode(ConcatOp(), (), 0, node.schema, label="concat", scope=scope)
        return self.add(node, (Port(self.add(both, tuple(parts))),))

    def _is_readable(self, node: PhysicalNode) -> bool:
        operation = node.operation
        return isinstance(operation, ArrangeOp) and operation.arrangement in self.existing and not operation.is_released

    def _make(self, i: int) -> int | None:
        node = self.plan.nodes[i]
        operation = node.operation
        if (stored := self._stored_as(i)) is not None:
            return self._read_stored(node, stored)
        if isinstance(operation, ArrangeOp) and (former := self._former(node)) is not None:
            changed = self._redefined(node, former)
            return changed if former.fresh is None else self._again(node, replace(operation, arrangement=former.fresh))
        moments = self.plan.has_moments(node)  # nothing keeps what was there at a moment: it is made again
        if isinstance(operation, ArrangeOp) and operation.arrangement in self.existing:
            if not moments and not operation.is_released:  # that has nothing: it is passed on again
                self.given.add(operation.arrangement)
                return self.add(replace(node, exchange=None), ())
            self.anew.add(operation.arrangement)
        reader = self.readers.get(i)
        if reader is not None and not moments:
            self.read.add(reader)
            label, present = f"read {node.label}", i in self.before_loops
            read = PhysicalNode(ReadOp(reader, present=present), (), 0, node.schema, label=label, scope=node.scope)
            return self.add(replace(read, identity=node.identity), ())
        if not moments and (at := self.wider(i)) is not None:
            if at not in self.made:
                self.made[at] = self._make(at)
            rows = self.made[at]
            assert rows is not None
            return self.add(node, (Port(rows),))
        if (source := self.plan.source_of.get(i)) in self.filled and source is not None:
            raise HydrationError(self._lacking(i, source))
        changing = self.former.get(operation.reads or "")
        if changing is not None and (fresh := changing.fresh) is not None:
            operation = replace(operation, arrangement=fresh)  # type: ignore[type-var]
        return self._again(node, operation)

    def _again(self, node: PhysicalNode, operation: Operation) -> int:
        """The node with an operation, over what its inputs are here."""
        ports = [Port(number, port.output) for port in node.inputs if (number := self.made[port.node]) is not None]
        return self.add(replace(node, operation=operation), tuple(ports))

    def _lacking(self, i: int, name: str) -> str:
        """The message if the rows of a source are needed and not stored."""
        readers = [(at, n) for at, n in enumerate(self.plan.nodes) if Port(i) in n.inputs]
        columns = sorted({c for at, n in readers if at in self.readers for c in n.schema.names})
        without = self._without(i)
        who = f"view {without[0]!r} is" if len(without) == 1 else f"views {', '.join(map(repr, without))} are"
        nobody = f"no view stores them ({who} maintained without contents)" if without else "no view stores them"
        what = f"only columns {', '.join(columns)} of some rows are retained" if columns else nobody
        first = f"maintain view {self.view!r} in a new session, and insert its rows there"
        if name in self.called:
            first = (
                f"call session.backfill({self.called[name]}, rows) with the rows that the source holds now, and "
                f"maintain view {self.view!r} after it"
            )
        return (
            f"{first}: view {self.view!r} needs the rows of source {name!r} that were inserted before, and {what}. "
            f"Views can be added at any time if the source is declared with an.source({name!r}, ..., keep=True), in "
            "SQL CREATE SOURCE … KEEP, before its first row, or if a view with all of its columns and rows was "
            "maintained before the first advance"
        )

    def _without(self, source: int) -> list[str]:
        """The other views that are made of a source and keep no contents."""
        plan = self.plan
        views = {n: p for n, p in plan.views.items() if p.changes_only and n != self.view}
        return [n for n, p in views.items() if source in plan.upstream(Port(plan.arrangements[p.contents]))]

    def _make_loop(self, loop: int) -> None:
        """The whole of a loop, from what enters it: its rounds are run again, even those whose state is stored."""
        for i in self.loops[loop]:
            node = self.plan.nodes[i]
            ports = [Port(number, p.output) for p in node.inputs if (number := self.made[p.node]) is not None]
            self.made[i] = self.add(node, tuple(ports))
            keeps = node.operation.keeps
            if keeps is not None and keeps[0] in self.existing:
                self.anew.add(keeps[0])

    @cached_property
    def errors(self) -> frozenset[str]:
        """The arrangements of errors."""
        return frozenset(name for ports in self.plan.views.values() for name in ports.errors)

    @cached_property
    def loops(self) -> dict[int, dict[int, None]]:
        """The nodes of each outermost loop, in order."""
        by_loop: dict[int, dict[int, None]] = {}
        for i, node in enumerate(self.plan.nodes):
            if loop := self.plan.loop_around(node.scope):
                by_loop.setdefault(loop, {})[i] = None
        return by_loop

    @cached_property
    def before_loops(self) -> set[int]:
        """The nodes that loops are made of which are run here.

        Such a loop must not see times that are not retained: they are folded in part, so that counts add up to nothing
        that ever was, and a loop may go round for ever there. All else may: what is not folded yet is known exactly.
        """
        missing = {i for name, i in self.plan.arrangements.items() if name not in self.existing}
        run = self._above(missing)
        inside = {i for loop in self.loops.values() if not run.isdisjoint(loop) for i in loop}
        return self._above(inside) - inside

    def _above(self, nodes: Iterable[int]) -> set[int]:
        """Nodes, and all that they are made of."""
        found, todo = set[int](), [*nodes]
        while todo:
            i = todo.pop()
            if i not in found:
                found.add(i)
                todo += [port.node for port in self.plan.nodes[i].inputs]
        return found

    @cached_property
    def readers(self) -> dict[int, str]:
        """For a node, an existing arrangement that has all rows of its output."""
        arrangements: dict[int, str] = {}
        for node in self.plan.nodes:
            operation = node.operation
            if not isinstance(operation, ArrangeOp) or operation.arrangement not in self.existing:
                continue
            if operation.arrangement in self.unlike:
                continue
            if len(node.inputs) == 1 and not node.inputs[0].output and not operation.transforms:
                below = node.inputs[0].node
                if self.plan.nodes[below].operation.makes_rows:
                    arrangements.setdefault(below, operation.arrangement)
        return arrangements

    @cached_property
    def retained_logic(self) -> dict[int, list[int]]:
        """For a source that is not arranged, the logic directly above it whose rows are."""
        by_source: dict[int, list[int]] = {}
        for i in self.readers:
            if self.plan.nodes[i].operation.is_linear:
                below = self.plan.nodes[i].inputs[0].node
                if below in self.plan.source_of and below not in self.readers:
                    by_source.setdefault(below, []).append(i)
        return {source: sorted(above) for source, above in by_source.items()}

    def wider(self, i: int) -> int | None:
        """For logic directly above a source that is not arranged: other such logic whose rows are, and serve it.

        What views keep of a source has the columns that they read, and the rows that all of them may want.

        Cost:   searched where it is needed, once, among what is arranged directly above the source.
        """
        if i not in self.widest:
            node = self.plan.nodes[i]
            source = node.inputs[0].node if node.operation.is_linear else -1
            candidates = self.retained_logic.get(source, ())
            self.widest[i] = next((at for at in candidates if self._serves(source, i, at)), None)
        return self.widest[i]

    def _serves(self, source: int, i: int, at: int) -> bool:
        """Whether logic makes of arranged rows what it makes of a source's: they have all that it reads."""
        schema, available = self.plan.nodes[source].schema, self.plan.nodes[at].schema
        needed, applied = self.plan.nodes[i].operation.applied, self.plan.nodes[at].operation.applied
        if applied.delay or not all(map(_only_leaves_out, applied.steps)):
            return False
        if not needed.columns_read(schema) <= {*available.names}:
            return False
        tests = Cut(applied, schema).asked_first()
        if tests and (needed.can_fail or not {*tests} <= {*Cut(needed, schema).asked_first()}):
            return False  # a row that was left out may be one that fails, or passes
        return bool(needed.output(available).equals(needed.output(schema)))


def _only_leaves_out(step: Step) -> bool:
    """Whether a step leaves out rows or columns, and does nothing else."""
    if isinstance(step, Project):
        return all(e.is_column and e.column_name == n for n, e in step.outputs)
    return isinstance(step, Filter) and (step.tolerant or not step.predicate.can_fail)


def hydration_plan(
    plan: Plan,
    view: str,
    existing: Collection[str],
    filled: Collection[str],
    called: Mapping[str, str] = MappingProxyType({}),
    stored: Sequence[Stored] = (),
    former: Mapping[str, Former] = MappingProxyType({}),
    unlike: Collection[str] = (),
) -> tuple[Plan, frozenset[str], frozenset[str]]:
    """The plan that fills what does not exist yet, the arrangements it is given, and those that it computes again.

    Shape:  ``existing`` names the arrangements that hold state, ``filled`` the sources that ever had rows; ``called``
            is how ``session.backfill`` is given those that it takes, for the error; ``stored`` where the rows of
            sources are that have other columns now, or are views as they were; ``former`` has, by their names, the
            former contents of arrangements that change to those of the plan; ``unlike`` are arrangements that had
            other rows at the time that matters than the plan makes, so that nothing is computed from them.

    Raises:
        HydrationError: a source's rows are needed and not stored.
    """
    cutter = _Cutter(plan, existing, filled, called, view, stored, former, unlike)
    for name, i in plan.arrangements.items():
        if name not in existing and all(name != one.waiting for one in stored):
            cutter.need(i)
    layouts = {
        n: o.layout
        for n, i in plan.arrangements.items()
        if isinstance(o := plan.nodes[i].operation, ArrangeOp) and n in cutter.read
    }
    layouts |= {one.arrangement: one.layout for one in former.values()}
    layouts |= dict(one.present for one in former.values() if one.present is not None)
    layouts |= {one.arrangement: one.layout for one in stored}
    nodes, schedule = scheduled(cutter.nodes, plan.scopes)
    hydration = Plan(plan.lattice, nodes, read_layouts=layouts, scopes=plan.scopes, schedule=schedule)
    return hydration, frozenset(cutter.given), frozenset(cutter.anew)


def missing(plan: Plan, existing: Mapping[str, object] | Collection[str]) -> list[str]:
    """Arrangements of a plan that do not exist yet."""
    return [name for name in plan.arrangements if name not in existing]
