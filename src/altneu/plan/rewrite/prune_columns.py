"""Columns that are not needed are cut back to the sources: they are not read, exchanged or arranged."""

from __future__ import annotations

from dataclasses import dataclass, field

from altneu.linear import BoundLogic
from altneu.operators.node import Columns, all_columns, projection
from altneu.plan.ir import Linear, Node, walk
from altneu.plan.rewrite.merge_linear import merge_linear
from altneu.plan.rewrite.transform import transform
from altneu.plan.rewrite.use_indexes import keys_of


def prune_columns(node: Node) -> Node:
    """Leave out the columns, and the aggregates, that nothing above reads.

    What several read keeps the columns of all of them, and so does an arrangement, so that it stays one. Where the row
    itself counts nothing is left out: below distinct, count and threshold, below latest, functions and inspect. A top_k
    ties by the whole row, and so does an as-of join on the right: only columns behind all that are read may go. Locked
    in, it tells left rows apart by all they have. Rows that become equal add up; counts that are not negative stay so.
    """
    while True:
        pruned = merge_linear(transform(node, _Needs.of(node).rebuilt))
        if pruned.fingerprint == node.fingerprint:
            return node
        node = pruned


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
        needs = cls({root.fingerprint: all_columns(root)})
        for node in reversed(list(walk(root))):
            if node.arranged_by:
                needs.arranged[node.fingerprint, node.arranged_by] = all_columns(node)
            for key in keys_of(node):
                needs.arranged[node.fingerprint, key] = all_columns(node)
            needed = needs.nodes[node.fingerprint] = node.at_least(needs.nodes[node.fingerprint])
            for i, below in enumerate(node.inputs):
                read = node.reads(i, needed)
                place = below.fingerprint, node.arrangement(i)
                needs.nodes[below.fingerprint] = needs.nodes.get(below.fingerprint, frozenset()) | read
                needs.arranged[place] = needs.arranged.get(place, frozenset()) | read
        return needs

    def rebuilt(self, new: Node, old: Node) -> Node:
        """A node over its new inputs, without columns that are not needed."""
        needed = self.nodes[old.fingerprint]
        inputs = new.inputs if old.picks else [self._cut(old, i, below, needed) for i, below in enumerate(new.inputs)]
        return old.keeping(needed, inputs)

    def _cut(self, old: Node, i: int, below: Node, needed: Columns) -> Node:
        """An input with what is read of it; one that is arranged as wide as all need it who read that arrangement."""
        key = old.arrangement(i)
        columns = old.reads(i, needed) if key is None else self.arranged[old.inputs[i].fingerprint, key]
        if columns.issuperset(below.schema.names):
            return below
        return Linear(below, BoundLogic((projection(below.schema, columns),)))
