"""Two linear operators in a row are one, in normal form: rows pass through both without being handed over."""

from __future__ import annotations

from altneu.ir import Linear, Node
from altneu.linear import BoundLogic, Negate, Project
from altneu.linear.normal import normalise
from altneu.rewrite.transform import readers, transform


def merge_linear(node: Node) -> Node:
    """Merge every run of linear nodes, bring what they do into normal form, and leave out those that do nothing.

    What several nodes read is computed once for all of them, unless it only chooses columns: to do that again costs
    nothing.
    """
    counts = readers(node)

    def merged(new: Node, old: Node) -> Node:
        if not isinstance(new, Linear) or not isinstance(old, Linear):
            return new
        under = new.input
        if isinstance(under, Linear) and (counts[old.input.fingerprint] == 1 or _costs_nothing(under.logic)):
            new = Linear(under.input, under.logic.followed_by(new.logic))
        logic = normalise(new.logic, new.input.schema)
        return Linear(new.input, logic) if logic else new.input

    return transform(node, merged)


def _costs_nothing(logic: BoundLogic) -> bool:
    return not logic.delay and all(
        isinstance(s, Negate) or (isinstance(s, Project) and all(e.is_column for _, e in s.outputs))
        for s in logic.steps
    )
