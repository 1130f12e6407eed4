"""Columns that nobody reads are cut back to the sources: they are not read, exchanged or kept."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from altneu.expressions import Column
from altneu.linear import BoundLogic, Project
from altneu.linear.normal import normalise
from altneu.plan.ir import (
    Aggregates,
    AsOf,
    Concat,
    Consolidate,
    Constant,
    Join,
    Linear,
    Moments,
    Node,
    Reduce,
    Source,
    TopK,
    WindowFunctions,
    walk,
)
from altneu.plan.rewrite.demand import arrangement_of
from altneu.plan.rewrite.merge_linear import merge_linear
from altneu.plan.rewrite.transform import transform
from altneu.plan.rewrite.use_indexes import keys_of

Columns = frozenset[str]


def prune_columns(node: Node) -> Node:
    """Leave out the columns, and the aggregates, that nothing above reads.

    What several read keeps the columns of all of them, and so does an arrangement, so that it stays one. Where the row
    itself counts nothing is left out: below distinct, count and threshold, below latest, functions and inspect. A top_k
    ties by the whole row, and so does an as-of join on the right: only columns behind all that are read may go. Locked
    in, it tells left rows apart by all they have. Rows that become equal add up; counts that are not negative stay so.
    """
    while True:
        made = merge_linear(transform(node, _Needs.of(node).rebuilt))
        if made.fingerprint == node.fingerprint:
            return node
        node = made


@dataclass
class _Needs:
    """The columns that are read of every node, and of every arrangement of one, by fingerprints of the plan as it was.

    A node has those that are read of it, and perhaps more, in the order in which it had them.
    """

    nodes: dict[str, Columns] = field(default_factory=dict)
    arranged: dict[tuple[str, object], Columns] = field(default_factory=dict)

    @classmethod
    def of(cls, root: Node) -> _Needs:
        """Readers first, so that a node's readers have all spoken before it does."""
        needs = cls({root.fingerprint: _all(root)})
        for node in reversed(list(walk(root))):
            if isinstance(node, Source) and node.arranged_by:
                needs.arranged[node.fingerprint, node.arranged_by] = _all(node)
            for key in keys_of(node):
                needs.arranged[node.fingerprint, key] = _all(node)
            needed = needs.nodes[node.fingerprint] = _something(node, needs.nodes[node.fingerprint])
            for i, below in enumerate(node.inputs):
                read = _read(node, i, needed)
                place = below.fingerprint, arrangement_of(node, i)
                needs.nodes[below.fingerprint] = needs.nodes.get(below.fingerprint, frozenset()) | read
                needs.arranged[place] = needs.arranged.get(place, frozenset()) | read
        return needs

    def rebuilt(self, new: Node, old: Node) -> Node:
        """A node over its new inputs, without what nobody reads of it."""
        needed = self.nodes[old.fingerprint]
        match new, old:
            case Constant(rows, schema), _:
                at = [i for i, n in enumerate(schema.names) if n in needed]
                return Constant(
                    tuple(tuple(row[i] for i in at) for row in rows), pa.schema([schema.field(i) for i in at])
                )
            case Linear(below, logic), Linear():
                return Linear(below, _narrowed(logic, old.input, needed))
            case Concat(parts), Concat():
                return Concat(tuple(_fitted(p, _read(old, i, needed)) for i, p in enumerate(parts)))
            case Join(left, right), Join():
                outputs = tuple(o for o in old.outputs if o[0] in needed)
                left, right = (self._arranged(old, i, below) for i, below in enumerate((left, right)))
                return replace(new, left=left, right=right, outputs=outputs)
            case AsOf(left, right), AsOf():
                outputs = tuple(o for o in old.outputs if o[0] in needed)
                left, right = (self._arranged(old, i, below) for i, below in enumerate((left, right)))
                return replace(new, left=left, right=right, outputs=outputs)
            case Reduce(below), Reduce():
                fitted = below if old.accumulable else self._arranged(old, 0, below)
                return _fewer_calls(replace(new, input=fitted), needed)
            case Consolidate(below), _:
                return Consolidate(_fitted(below, needed))
            case Moments(below), _:
                return replace(new, input=_fitted(below, needed))
            case _:
                return new

    def _arranged(self, old: Node, i: int, below: Node) -> Node:
        """An input of which an arrangement is kept, as wide as all need it who read that arrangement."""
        return _fitted(below, self.arranged[old.inputs[i].fingerprint, arrangement_of(old, i)])


def _all(node: Node) -> Columns:
    return frozenset(node.schema.names)


def _something(node: Node, needed: Columns) -> Columns:
    """What a node keeps at least: one column, so that its rows remain rows, and one aggregate."""
    if isinstance(node, Reduce) and isinstance(node.reducer, Aggregates) and not _calls(node.reducer, needed):
        cheapest = next((i for i, c in enumerate(node.reducer.calls) if c.accumulable), 0)
        return needed | {f"#{cheapest}"}
    if needed or not len(node.schema):
        return needed
    if isinstance(node, Join):
        keys = (node.left_key, node.right_key)
        return frozenset([next((n for n, side, c in node.outputs if c in keys[side]), node.outputs[0][0])])
    return frozenset(node.schema.names[:1])


def _read(node: Node, i: int, needed: Columns) -> Columns:
    """The columns of an input that a node reads when these are needed of it."""
    below = node.inputs[i]
    match node:
        case Linear(_, logic):
            return _narrowed(logic, below, needed).columns_read(below.schema)
        case Concat():
            pairs = zip(node.schema.names, below.schema.names, strict=True)
            return frozenset(theirs for mine, theirs in pairs if mine in needed)
        case Consolidate() | Moments():
            return needed
        case Join(left_key=left, right_key=right):
            return frozenset((left, right)[i]) | {c for n, side, c in node.outputs if side == i and n in needed}
        case AsOf():
            return _met(node, i, needed)
        case Reduce(_, key, Aggregates() as reducer):
            calls = (reducer.calls[at] for at in _calls(reducer, needed))
            return frozenset(key).union(*(call.arguments for call in calls))
        case Reduce(_, key, TopK(_, order)):
            return _up_to(below, frozenset(key) | {column for column, _, _ in order}, needed)
        case Reduce(_, key, WindowFunctions() as reducer):
            return _lined_up(below, frozenset(key), reducer, needed)
        case _:
            return _all(below)


def _met(node: AsOf, i: int, needed: Columns) -> Columns:
    """What an as-of join reads of a side: one that is locked tells left rows apart by all of their columns."""
    wanted = frozenset(c for n, side, c in node.outputs if side == i and n in needed)
    fixed = frozenset((node.left_key, node.right_key)[i]) | frozenset((node.stamps or ())[i : i + 1])
    if i == 0:
        return _all(node.left) if node.locked else fixed | wanted
    if node.rule is None:
        return fixed | wanted
    return _up_to(node.right, fixed | {column for column, _, _ in node.rule.ties}, wanted)


def _up_to(below: Node, fixed: Columns, needed: Columns) -> Columns:
    """Columns of an input whose ties are decided by all of them in turn: those behind all that are needed may go."""
    names = below.schema.names
    last = max((at for at, n in enumerate(names) if n in needed - fixed), default=-1)
    return fixed | frozenset(names[: last + 1])


def _lined_up(below: Node, key: Columns, reducer: WindowFunctions, needed: Columns) -> Columns:
    """What window functions read: where one tells rows apart that are equal in the order, all that decides it."""
    calls = [reducer.calls[i] for i in _windows(reducer, needed)]
    wanted = frozenset(n for n in below.schema.names if n in needed).union(*(call.columns for call in calls))
    tied = [frozenset(column for column, _, _ in call.order) for call in calls if call.asks_for_ties]
    return _up_to(below, key | frozenset.intersection(*tied), wanted) if tied else key | wanted


def _windows(reducer: WindowFunctions, needed: Columns) -> list[int]:
    return [i for i in range(len(reducer.calls)) if f"#w{i}" in needed]


def _fewer_windows(node: Reduce, reducer: WindowFunctions, needed: Columns) -> Node:
    """The same without the window functions that nobody reads; with none it is its input."""
    kept = _windows(reducer, needed)
    if len(kept) == len(reducer.calls):
        return node
    made: Node = node.input
    if kept:
        made = replace(node, reducer=replace(reducer, calls=tuple(reducer.calls[i] for i in kept)))
    names = [*node.input.schema.names, *(f"#w{i}" for i in kept)]
    outputs = ((name, Column(f.name, f.type, f.nullable)) for name, f in zip(names, made.schema, strict=True))
    return Linear(made, BoundLogic((Project(tuple(outputs)),)))


def _calls(reducer: Aggregates, needed: Columns) -> list[int]:
    return [i for i in range(len(reducer.calls)) if f"#{i}" in needed]


def _fewer_calls(node: Reduce, needed: Columns) -> Node:
    """A reduce without the aggregates that nobody reads, the others in the columns that they had."""
    reducer = node.reducer
    if isinstance(reducer, WindowFunctions):
        return _fewer_windows(node, reducer, needed)
    if not isinstance(reducer, Aggregates):
        return node
    kept = _calls(reducer, needed)
    if len(kept) == len(reducer.calls):
        return node
    made = replace(node, reducer=replace(reducer, calls=tuple(reducer.calls[i] for i in kept)))
    names = [*node.key, *(f"#{i}" for i in kept)]
    outputs = (
        (name, Column(f.name, f.type, f.nullable)) for name, f in zip(names, made.schema, strict=True) if name in needed
    )
    return Linear(made, BoundLogic((Project(tuple(outputs)),)))


def _narrowed(logic: BoundLogic, below: Node, needed: Columns) -> BoundLogic:
    """A logic that gives the needed ones of its columns."""
    made = logic.output(below.schema)
    if needed.issuperset(made.names):
        return logic
    return normalise(logic.followed_by(BoundLogic((_projection(made, needed),))), below.schema)


def _fitted(below: Node, columns: Columns) -> Node:
    """A node with no more than these columns."""
    if columns.issuperset(below.schema.names):
        return below
    return Linear(below, BoundLogic((_projection(below.schema, columns),)))


def _projection(schema: pa.Schema, columns: Columns) -> Project:
    return Project(tuple((f.name, Column(f.name, f.type, f.nullable)) for f in schema if f.name in columns))
