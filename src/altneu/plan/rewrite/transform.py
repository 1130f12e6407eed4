"""How rules walk plans: once through every node, inputs first, so that what is shared stays shared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from altneu.linear.steps import Extend, Project
from altneu.plan.ir import Linear, Node, ordered, walk


def transform(root: Node, change: Callable[[Node, Node], Node]) -> Node:
    """The plan with every node replaced by ``change(new, old)``: the node over its new inputs, and as it was.

    ``change`` is called once for each fingerprint of the old plan: nodes that were one stay one.
    """
    done: dict[str, Node] = {}
    for node in walk(root):
        done[node.fingerprint] = change(node.over([done[i.fingerprint] for i in node.inputs]), node)
    return done[root.fingerprint]


def replaced(root: Node, instead: Mapping[str, Node]) -> Node:
    """The plan with other nodes in the place of some, which are named by their fingerprints.

    Cost:   a visit for each node that is not below one that is replaced.
    """
    done = dict(instead)
    for node in ordered(root, key=lambda n: n.fingerprint, without=lambda n: n.fingerprint in done):
        done[node.fingerprint] = node.over([done[i.fingerprint] for i in node.inputs])
    return done[root.fingerprint]


def readers(root: Node) -> Counter[str]:
    """How many nodes of a plan read each fingerprint; the root has a reader outside the plan."""
    counts = Counter(child for node in walk(root) for child in {i.fingerprint for i in node.inputs})
    counts[root.fingerprint] += 1
    return counts


def handed_on_by(node: Linear) -> dict[str, str]:
    """The columns of logic that are columns of its input, with what they are called there."""
    names = {n: n for n in node.input.schema.names}
    for step in node.logic.steps:
        if isinstance(step, Project | Extend):
            same = {n: names[e.column_name] for n, e in step.outputs if e.is_column and e.column_name in names}
            replaced = {n for n, _ in step.outputs}
            others = {n: c for n, c in names.items() if n not in replaced} if isinstance(step, Extend) else {}
            names = others | same
    return names
