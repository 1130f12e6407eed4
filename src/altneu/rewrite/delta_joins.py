"""Trees of joins become joins of all their relations at once, where that is worth it.

A tree of binary joins keeps every intermediate result. A delta join keeps none: only arrangements of the relations, one
for each key by which a path looks one up. Where the pattern is cyclic an intermediate result may be far greater than
the relations and the answer (as the wedges of a graph, when triangles are asked for), so that a delta join is chosen;
else when it has fewer arrangements to build than the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from altneu.ir import Join, Linear, MultiJoin, Node
from altneu.linear import Project
from altneu.paths import Keyed, delta_paths, is_cyclic
from altneu.rewrite.transform import readers, with_inputs

Joins = Literal["auto", "delta", "binary"]
Exists = Callable[[Node, tuple[str, ...]], bool]
"""Whether a node is arranged by these columns already."""


def delta_joins(root: Node, exists: Exists, joins: Joins = "auto") -> Node:
    """The plan with trees of joins as delta joins; ``joins`` says which: those that are worth it, all, or none.

    A join that others read, too, is kept as it is: it would be computed twice. So is what lies below a filter.

    Law:    the plans before and after give the same updates (tests/golden/test_rewrite.py).
    """
    counts = readers(root)
    done: dict[str, Node] = {}

    def visit(node: Node) -> Node:
        if node.fingerprint not in done:
            made: Node = node
            if isinstance(node, Join) and joins != "binary":
                made = _joined(node, counts, exists, joins) or node
            done[node.fingerprint] = with_inputs(made, [visit(i) for i in made.inputs])
        return done[node.fingerprint]

    return visit(root)


def _joined(node: Join, counts: Counter[str], exists: Exists, joins: Joins) -> MultiJoin | None:
    """The join of all that a tree joins; None where the tree is better, or no more than one join."""
    tree = _Tree()
    columns = tree.add(node, counts, is_root=True)
    variables = tuple(tuple(tree.name(v) for v in part) for part in tree.variables)
    if len(variables) < 3 or any(len(set(part)) < len(part) for part in variables):
        return None
    read = {keyed for path in delta_paths(variables) for keyed in path.arrangements}
    known = frozenset((i, key) for i, key in read if exists(tree.parts[i], tree.columns(i, key)))
    reason = _reason(tree, variables, read - known, exists, joins)
    if not reason:
        return None
    outputs = tuple((name, tree.name(columns[name])) for name in node.schema.names)
    return MultiJoin(tuple(tree.parts), variables, outputs, node.schema, reason, known)


def _reason(
    tree: _Tree, variables: tuple[tuple[str, ...], ...], lacking: set[Keyed], exists: Exists, joins: Joins
) -> str:
    """Why the relations should be joined at once; nothing when they should not."""
    if joins == "delta":
        return "delta join, as was asked for"
    if is_cyclic(variables):
        return "delta join: the pattern is cyclic, and an intermediate result may outgrow the relations and the answer"
    built = {(tree.parts[i].fingerprint, tree.columns(i, key)) for i, key in lacking}
    others = {(n.fingerprint, key) for n, key in tree.binary if not exists(n, key)}
    if len(built) >= len(others):
        return ""
    return f"delta join: it has {len(built)} arrangements to build, binary joins have {len(others)}"


@dataclass
class _Tree:
    """The relations of a tree of joins; each of their columns is a variable, and equal ones lead to one of them.

    ``binary`` are the arrangements of the tree: a node and its key.
    """

    parts: list[Node] = field(default_factory=list)
    variables: list[list[int]] = field(default_factory=list)
    binary: list[tuple[Node, tuple[str, ...]]] = field(default_factory=list)
    _leads: list[int] = field(default_factory=list)

    def add(self, node: Node, counts: Counter[str], *, is_root: bool = False) -> dict[str, int]:
        """Take up a node with all that it joins; the variable of each of its columns."""
        if is_root or counts[node.fingerprint] == 1:
            if isinstance(node, Join):
                sides = [self.add(below, counts) for below in node.inputs]
                self.binary += [(node.left, node.left_key), (node.right, node.right_key)]
                for left, right in zip(node.left_key, node.right_key, strict=True):
                    self._leads[self._end(sides[1][right])] = self._end(sides[0][left])
                return {name: sides[side][column] for name, side, column in node.outputs}
            if isinstance(node, Linear) and (names := _renamed(node)) is not None and _is_join(node.input, counts):
                below = self.add(node.input, counts)
                return {name: below[column] for name, column in names.items()}
        first = len(self._leads)
        fresh = list(range(first, first + len(node.schema)))
        self._leads += fresh
        self.parts.append(node)
        self.variables.append(fresh)
        return dict(zip(node.schema.names, fresh, strict=True))

    def _end(self, variable: int) -> int:
        while self._leads[variable] != variable:
            variable = self._leads[variable]
        return variable

    def name(self, variable: int) -> str:
        """What a variable is called."""
        return f"v{self._end(variable)}"

    def columns(self, part: int, key: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of a part that variables are."""
        names = [self.name(v) for v in self.variables[part]]
        return tuple(self.parts[part].schema.names[names.index(v)] for v in key)


def _is_join(node: Node, counts: Counter[str]) -> bool:
    while isinstance(node, Linear) and _renamed(node) is not None and counts[node.fingerprint] == 1:
        node = node.input
    return isinstance(node, Join) and counts[node.fingerprint] == 1


def _renamed(node: Linear) -> dict[str, str] | None:
    """For logic that only picks and renames columns, what each was called."""
    if node.logic.delay.parts or len(node.logic.steps) != 1 or not isinstance(step := node.logic.steps[0], Project):
        return None
    if not all(expression.is_column for _, expression in step.outputs):
        return None
    return {name: expression.column_name for name, expression in step.outputs}
