"""As-of joins as operations: over two arrangements in order of time, over what left rows have met, or as a reduce."""

from __future__ import annotations

from dataclasses import replace

from altneu.expressions import Column, Expr, Literal, literal
from altneu.linear import BoundLogic, Project
from altneu.operators.arrange.operation import ArrangeOp
from altneu.operators.asof.locked import LockSpec, locked_layout, times_spec
from altneu.operators.asof.node import AsOf, UpdateTime
from altneu.operators.asof.operation import AsofOp, LockedOp
from altneu.operators.asof.reducer import AsOfReduce
from altneu.operators.asof.retention import LockedMatches
from altneu.operators.asof.revising import AsofSpec
from altneu.operators.asof.rule import MixedSides
from altneu.operators.concat.node import Concat
from altneu.operators.linear.node import Linear
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label, arrangement_id
from altneu.operators.node import Key, Node
from altneu.operators.reduce.node import Reduce


def lower_asof(to: Lowering, node: AsOf) -> Lowered:
    """Over arrangements where times are a chain, and else as a reduce."""
    left, right = to.lower(node.left), to.lower(node.right)
    scope = to.innermost(map(to.scope_of, (left, right)))
    if scope and not node.locked:  # of times that do not form a chain, or no longer the sides' own
        return to.lower(mixed(node))
    if (apart := stamps_apart(node)) is not node:
        return to.lower(apart)
    if node.locked:
        return _locked(to, node, left, right)
    sides = ((left, node.left, node.left_key), (right, node.right, node.right_key))
    inputs = tuple(
        Port(_by_stamp(to, lowered, key, side, stamp))
        for (lowered, side, key), stamp in zip(sides, node.stamps or (), strict=True)
    )
    label = f"as-of join by {' and '.join(dict.fromkeys(node.stamps or ()))}, {node.rule}"
    operation = AsofOp(asof_spec_of(node))
    number = to.add(operation, inputs, node.schema, label=label, logical=node.fingerprint)
    return _joined(to, node, number)


def _by_stamp(to: Lowering, lowered: Lowered, key: Key, side: Node, stamp: str) -> int:
    label = f"arrange by {', '.join((*key, stamp))}"
    return to.arrange(lowered, key, to.name_of(side), label, ((stamp, False, True),))


def _locked(to: Lowering, node: AsOf, left: Lowered, right: Lowered) -> Lowered:
    """Matches of left rows lie in the shard of the right rows of their key, whatever key they are arranged by."""
    if node.stamps is None:
        label = arrange_label(node.right_key)
        state = to.arrange(right, node.right_key, to.name_of(node.right), label)
    else:
        state = _by_stamp(to, right, node.right_key, node.right, node.stamps[1])
    spec = lock_spec_of(node)
    layout = locked_layout(spec, to.lattice)
    operation = ArrangeOp(arrangement_id(f"locked|{node.fingerprint}", layout.key), layout, LockedMatches(spec))
    exchange = None if left.spread is not None and left.spread == node.left_key else node.left_key
    label = f"as-of join on {', '.join(node.left_key)}, locked in"
    inputs = (left.port, Port(state))
    logical = node.fingerprint
    locked = to.add(operation, inputs, layout.schema, exchange=exchange, label=f"keep {label}", logical=logical)
    return _joined(to, node, to.add(LockedOp(spec), (Port(locked),), node.schema, label=label, logical=logical))


def lower_update_time(to: Lowering, node: UpdateTime) -> Lowered:
    """Arranged by the whole row, so that the state is the same however the input is computed and partitioned."""
    below = to.lower(node.input)
    spec = times_spec(node.input.schema, node.schema)
    layout = locked_layout(spec, to.lattice)
    operation = ArrangeOp(arrangement_id(f"update time|{node.fingerprint}", layout.key), layout, LockedMatches(spec))
    exchange = None if below.spread == layout.key else layout.key
    logical, label = node.fingerprint, "update_time()"
    locked = to.add(operation, (below.port,), layout.schema, exchange=exchange, label=f"keep {label}", logical=logical)
    number = to.add(LockedOp(spec), (Port(locked),), node.schema, label=label, logical=logical)
    to.may_fail(node, Lowered(Port(number, 1), None))
    return Lowered(Port(number), layout.key)


def _joined(to: Lowering, node: AsOf, number: int) -> Lowered:
    """The output of an as-of join: spread as the left side's key is."""
    to.may_fail(node, Lowered(Port(number, 1), None))
    name_of = {column: name for name, side, column in node.outputs if side == 0}
    has_key = all(k in name_of for k in node.left_key)
    return Lowered(Port(number), tuple(name_of[k] for k in node.left_key) if has_key else None)


def asof_spec_of(node: AsOf) -> AsofSpec:
    """How an as-of join by event time is computed of two ordered arrangements."""
    assert node.rule is not None
    return AsofSpec(node.schema, node.outputs, node.rule, node.keeps)


def lock_spec_of(node: AsOf) -> LockSpec:
    """What a locked as-of join remembers, and how it looks up what it locks in."""
    return LockSpec(
        node.schema,
        (node.left.schema, node.right.schema),
        (node.left_key, node.right_key),
        node.outputs,
        node.keeps,
        node.stamps,
        node.rule,
        node.simultaneous,
    )


def stamps_apart(node: AsOf) -> AsOf:
    """The same join where timestamps that are keys too are columns of their own: rows of a key are ordered by values.

    Of a locked one the right side alone is in order of timestamps. What is in a store is as it was: a side with such a
    timestamp could not be arranged.
    """
    if node.stamps is None:
        return node
    sides, stamps = [node.left, node.right], [*node.stamps]
    for i, key in enumerate((node.left_key, node.right_key)):
        if stamps[i] in key and not (node.locked and i == 0):
            side, stamp = sides[i], _column(sides[i], stamps[i])
            own = tuple((name, _column(side, name)) for name in side.schema.names)
            sides[i], stamps[i] = Linear(side, BoundLogic((Project((*own, ("#stamp", stamp))),))), "#stamp"
    if sides == [node.left, node.right]:
        return node
    return replace(node, left=sides[0], right=sides[1], stamps=(stamps[0], stamps[1]))


def mixed(node: AsOf) -> Node:
    """An as-of join by event time as a reduce of groups that hold the rows of both sides: right at any times."""
    assert node.stamps is not None
    assert node.rule is not None
    sides, keys = (node.left, node.right), (node.left_key, node.right_key)
    names = tuple(
        tuple(f"#{letter}{i}" for i in range(len(side.schema))) for letter, side in zip("lr", sides, strict=True)
    )
    grouped = tuple(f"#key{i}" for i in range(len(node.left_key)))
    parts: list[Node] = []
    for i, (side, key) in enumerate(zip(sides, keys, strict=True)):
        outputs = [(name, _column(side, column)) for name, column in zip(grouped, key, strict=True)]
        outputs += [("#side", literal(i == 0)), ("#stamp", _column(side, node.stamps[i]))]
        for j, other in enumerate(sides):
            values = (_column(other, f.name) if i == j else Literal(None, f.type) for f in other.schema)
            outputs += zip(names[j], values, strict=True)
        parts.append(Linear(side, BoundLogic((Project(tuple(outputs)),))))
    shown = tuple(zip(node.right.schema.names, names[1], strict=True))
    called = dict(shown)
    rule = replace(node.rule, ties=tuple((called[column], *how) for column, *how in node.rule.ties))
    reducer = AsOfReduce(MixedSides("#side", "#stamp", names[0], names[1], shown, rule, node.keeps))
    joined = Reduce(Concat(tuple(parts)), grouped, reducer)
    place = [dict(zip(s.schema.names, n, strict=True)) for s, n in zip(sides, names, strict=True)]
    return Linear(
        joined, BoundLogic((Project(tuple((name, _column(joined, place[i][c])) for name, i, c in node.outputs)),))
    )


def _column(node: Node, name: str) -> Expr:
    field = node.schema.field(name)
    return Column(field.name, field.type, field.nullable)
