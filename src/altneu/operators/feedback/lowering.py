"""Feedback as operations: what a variable was before, the bodies, and what waits until it comes back."""

from __future__ import annotations

from altneu.operators.feedback.node import Recurred, Recurrence
from altneu.operators.loop.operation import FeedbackOp, FeedOp
from altneu.operators.lowering import Lowered, Lowering, OpenLoop, Port, arrangement_id
from altneu.trace.batch import Layout


def lower_recurred(to: Lowering, node: Recurred) -> Lowered:
    """A body of the feedback, which is lowered once for all of them."""
    whole = node.recurrence
    return to.results_of(whole, lambda name: _lowered(to, whole, name))[node.index]


def _lowered(to: Lowering, node: Recurrence, name: str) -> tuple[Lowered, ...]:
    """The bodies; each is arranged too, so that a late view reads what is there and computes no past."""
    feeds = [arrangement_id(f"feedback|{name}|{i}", ()) for i in range(len(node.bodies))]
    variables = []
    for label, feed, schema, by in zip(node.names, feeds, node.schemas, node.by, strict=True):
        back = to.add(FeedbackOp(feed), (), schema, label=f"{label}, {by} tick{'s' * (by > 1)} before", scope=0)
        variables.append(Lowered(Port(back), None))
    to.loops[node.level] = OpenLoop(0, tuple(variables), name, None)
    results = [to.lower(body) for body in node.bodies]
    del to.loops[node.level]
    for i, (result, schema) in enumerate(zip(results, node.schemas, strict=True)):
        layout = Layout(schema, tuple(schema.names), to.lattice)
        operation = FeedOp(feeds[i], layout, None, node.by[i], outer=True)
        label = f"{node.names[i]} in {node.by[i]} ticks"
        to.add(operation, (result.port,), schema, exchange=layout.key, label=label)
        to.arrange(result, result.spread or layout.key, Recurred(node, i).fingerprint, f"keep {node.names[i]}")
    return tuple(results)
