"""Trees of joins become joins of all their relations at once, where that is worth it.

A tree of binary joins keeps every intermediate result. A delta join keeps none: only arrangements of the relations, one
for each key by which a path looks one up. Where the pattern is cyclic an intermediate result may be far greater than
the relations and the answer (as the wedges of a graph, when triangles are asked for), so that a delta join is chosen;
else when it has fewer arrangements to build than the tree.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa

from altneu.errors import PlanError
from altneu.expressions import Column, Expr
from altneu.ir import Join, Linear, MultiJoin, Node
from altneu.linear import BoundLogic, Filter, Project
from altneu.paths import Keyed, delta_paths, is_cyclic
from altneu.rewrite.transform import readers, with_inputs

Joins = Literal["auto", "delta", "binary"]
Exists = Callable[[Node, tuple[str, ...]], bool]
"""Whether a node is arranged by these columns already."""
MOST_RELATIONS = 32
"""Collections that are joined at once unless more are asked for: paths through n of them have n * n steps."""
LIMIT = 200
"""Collections that are joined at once at most."""


def delta_joins(root: Node, exists: Exists, joins: Joins = "auto") -> Node:
    """The plan with trees of joins as delta joins; ``joins`` says which: those that are worth it, all, or none.

    A join that others read, too, is kept as it is: it would be computed twice. Filters of intermediate results are
    asked of the whole; rows that one fails on may thereby be dropped by a join first.

    Law:    the plans before and after give the same updates (tests/golden/test_delta_joins.py).
    """
    return chosen_joins(root, exists, joins)[0]


def chosen_joins(root: Node, exists: Exists, joins: Joins | Collection[str] = "auto") -> tuple[Node, list[str]]:
    """The same, and which joins were made delta joins, by the fingerprints they had; ``joins`` may be such a list."""
    counts = readers(root)
    made: dict[str, Node] = {}
    done: dict[str, Node] = {}
    inner: set[str] = set()  # joins of trees that were looked at already
    chosen: list[str] = []

    def change(node: Node) -> Node:
        if not isinstance(node, Join):
            return node
        tree = _Tree(MOST_RELATIONS if joins == "auto" else LIMIT)
        joined = _joined(node, tree, tree.add(node, counts, is_root=True), exists, joins)
        if not isinstance(joined, Join):
            chosen.append(node.fingerprint)
        elif node.fingerprint in inner:
            joined = node  # the join at the root tells of it
        inner.update(tree.joins)
        return joined

    todo = [(root, False)]  # a tree is looked at from its root
    while todo:
        node, is_entered = todo.pop()
        place = node.fingerprint
        if is_entered:
            done[place] = with_inputs(made[place], [done[i.fingerprint] for i in made[place].inputs])
        elif place not in made:
            made[place] = change(node)
            todo.append((node, True))
            todo += [(below, False) for below in reversed(made[place].inputs)]
    return done[root.fingerprint], chosen


def _joined(node: Join, tree: _Tree, columns: dict[str, int], exists: Exists, joins: Joins | Collection[str]) -> Node:
    """The join of all that a tree joins; where the tree is better the node, which then says so."""
    if tree.is_cut:
        if joins == "delta":
            raise PlanError(
                f'joins="delta" joins {LIMIT} collections at once, and more are joined here: {_called(node)}'
            )
        return replace(node, reason=f"binary joins: more than {tree.limit} collections are joined")
    variables = tuple(tuple(tree.name(v) for v in part) for part in tree.variables)
    if len(variables) < 3 or any(len(set(part)) < len(part) for part in variables):
        return node
    read = {keyed for path in delta_paths(variables) for keyed in path.arrangements}
    known = frozenset((i, key) for i, key in read if exists(tree.parts[i], tree.columns(i, key)))
    if isinstance(joins, str):
        chosen, why = _chosen(tree, variables, read - known, exists, joins)
    else:
        chosen, why = ("delta" if node.fingerprint in joins else "binary"), ", as when the view was first maintained"
    if chosen == "binary":
        return replace(node, reason=f"binary joins{why}")
    reason = f"delta join{why}"
    parts, outputs = tuple(tree.parts), tuple((name, tree.name(columns[name])) for name in node.schema.names)
    if not tree.filters:
        return MultiJoin(parts, variables, outputs, node.schema, reason, known)
    columns_of = tree.fields(variables)
    made = MultiJoin(parts, variables, tuple((v, v) for v in columns_of), pa.schema(columns_of.values()), reason, known)
    project = Project(
        tuple((f.name, Column(v, f.type, f.nullable)) for f, (_, v) in zip(node.schema, outputs, strict=True))
    )
    return Linear(made, BoundLogic((*(tree.lifted(f, columns_of) for f in tree.filters), project)))


def _chosen(
    tree: _Tree, variables: tuple[tuple[str, ...], ...], lacking: set[Keyed], exists: Exists, joins: str
) -> tuple[str, str]:
    """Whether the relations should be joined at once, and why."""
    if joins != "auto":
        return joins, ", as was asked for"
    if is_cyclic(variables):
        return "delta", ": the pattern is cyclic, and an intermediate result may outgrow the relations and the answer"
    if tree.filters:
        return "binary", ": a filter makes less of an intermediate result"
    built = {(tree.parts[i].fingerprint, tree.columns(i, key)) for i, key in lacking}
    others = {(n.fingerprint, key) for n, key in tree.binary if not exists(n, key)}
    if len(built) < len(others):
        return "delta", f": it has {len(built)} arrangements to build, binary joins have {len(others)}"
    return "binary", f": they have {len(others)} arrangements to build, a delta join has {len(built)}"


@dataclass
class _Tree:
    """The relations of a tree of joins; each of their columns is a variable, and equal ones lead to one of them.

    ``binary`` are the arrangements of the tree: a node and its key. Of more than ``limit`` relations it is only known
    that they are more: the tree ``is_cut``.
    """

    limit: int
    is_cut: bool = False
    parts: list[Node] = field(default_factory=list)
    variables: list[list[int]] = field(default_factory=list)
    binary: list[tuple[Node, tuple[str, ...]]] = field(default_factory=list)
    filters: list[tuple[Filter, dict[str, int]]] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    _leads: list[int] = field(default_factory=list)

    def add(self, node: Node, counts: Counter[str], *, is_root: bool = False) -> dict[str, int]:
        """Take up a node with all that it joins; the variable of each of its columns."""
        if is_root or counts[node.fingerprint] == 1:
            if isinstance(node, Join) and len(self.joins) >= self.limit - 1:
                self.is_cut = True
            elif isinstance(node, Join):
                self.joins.append(node.fingerprint)
                sides = [self.add(below, counts) for below in node.inputs]
                self.binary += [(node.left, node.left_key), (node.right, node.right_key)]
                for left, right in zip(node.left_key, node.right_key, strict=True):
                    self._leads[self._end(sides[1][right])] = self._end(sides[0][left])
                return {name: sides[side][column] for name, side, column in node.outputs}
            if isinstance(node, Linear) and (found := _picked(node)) is not None and _is_join(node.input, counts):
                below = self.add(node.input, counts)
                self.filters += [(test, below) for test in found.filters]
                return {name: below[column] for name, column in found.names.items()}
        return self._leaf(node)

    def _leaf(self, node: Node) -> dict[str, int]:
        if isinstance(node, Linear) and (found := _picked(node)) is not None and found.renames(node.input):
            below = self._leaf(node.input)  # called otherwise, and arranged as it is called there
            return {name: below[column] for name, column in found.names.items()}
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

    def fields(self, variables: tuple[tuple[str, ...], ...]) -> dict[str, pa.Field]:
        """Every variable as a column."""
        pairs = [
            p for part, names in zip(self.parts, variables, strict=True) for p in zip(part.schema, names, strict=True)
        ]
        return {v: f.with_name(v).with_nullable(True) for f, v in pairs}

    def lifted(self, found: tuple[Filter, dict[str, int]], columns: dict[str, pa.Field]) -> Filter:
        """A filter of an intermediate result as one of the whole."""
        test, below = found
        fields = {name: columns[self.name(v)] for name, v in below.items()}
        instead: dict[str, Expr] = {n: Column(f.name, f.type, f.nullable) for n, f in fields.items()}
        return replace(test, predicate=test.predicate.substitute(instead))

    def columns(self, part: int, key: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of a part that variables are."""
        names = [self.name(v) for v in self.variables[part]]
        return tuple(self.parts[part].schema.names[names.index(v)] for v in key)


def _called(node: Join) -> str:
    return f"the join on {', '.join(node.left_key)}"


def _is_join(node: Node, counts: Counter[str]) -> bool:
    while isinstance(node, Linear) and _picked(node) is not None and counts[node.fingerprint] == 1:
        node = node.input
    return isinstance(node, Join) and counts[node.fingerprint] == 1


@dataclass(frozen=True)
class _Picked:
    """What logic does that only filters rows and picks and renames columns: its filters, and what each was called."""

    filters: tuple[Filter, ...]
    names: dict[str, str]

    def renames(self, below: Node) -> bool:
        """Whether that is all, and every column is there once."""
        return not self.filters and sorted(self.names.values()) == sorted(below.schema.names)


def _picked(node: Linear) -> _Picked | None:
    steps = node.logic.steps
    names = {n: n for n in node.schema.names}
    if steps and isinstance(last := steps[-1], Project):
        if not all(expression.is_column for _, expression in last.outputs):
            return None
        steps, names = steps[:-1], {name: expression.column_name for name, expression in last.outputs}
    filters = tuple(step for step in steps if isinstance(step, Filter))
    return None if node.logic.delay.parts or len(filters) < len(steps) else _Picked(filters, names)
