"""Trees of joins become joins of all their relations at once, where that is worth it.

A tree of binary joins keeps every intermediate result. A delta join keeps none: only arrangements of the relations, one
for each key by which a path looks one up. Where the pattern is cyclic an intermediate result may be far greater than
the relations and the answer (as the wedges of a graph, when triangles are asked for), so that a delta join is chosen;
else when it has fewer arrangements to build than the tree. Once it is known how many rows come, and how often keys are
repeated in them, it may turn out that no intermediate result of a cyclic pattern outgrows the relations: then the joins
are taken that keep fewer bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeGuard

import pyarrow as pa

from altneu.errors import PlanError
from altneu.expressions import Column, Expr
from altneu.linear import (
    BoundLogic,
    Extend,
    Filter,
    GenerateSeries,
    Negate,
    Project,
    RepeatRow,
    Step,
    Temporal,
    Unnest,
)
from altneu.linear.mapping import mapped
from altneu.linear.normal import normalise
from altneu.operators.delta_join.paths import Keyed, delta_paths, is_cyclic
from altneu.plan.ir import Join, Linear, MultiJoin, Node, UpdateTime, inputs_first, walk
from altneu.plan.rewrite.choices import Choices
from altneu.plan.rewrite.join_order import CYCLIC, along_keys, in_turn, names_of
from altneu.plan.rewrite.sizes import Sizes
from altneu.plan.rewrite.transform import handed_on_by, readers, replaced

Joins = Literal["auto", "delta", "binary"]
_Made = Literal["delta", "binary"] | Sequence[int]
"""What is made of a tree: a join of all at once, the tree as it is, or joins in an order of its relations."""
Exists = Callable[[Node, tuple[str, ...]], bool]
"""Whether a node is arranged by these columns already."""
MOST_RELATIONS = 32
"""Collections that are joined at once unless more are requested: paths through n of them have n * n steps."""
_LIFTED = "+"  # behind the fingerprint of a join of which steps between the joins of its tree come after it
_REMEDY = 'leave joins="auto", or compute it after the last join'
LIMIT = 200
"""Collections that are joined at once at most."""


@dataclass(frozen=True)
class _Grounds:
    """What a choice goes by: what is arranged, what was requested or chosen before, and how many rows come first."""

    exists: Exists
    joins: Joins | Choices = "auto"
    sizes: Sizes | None = None


def _as_before(choices: Choices, place: str) -> _Made:
    """What was chosen for the joins at a place."""
    return choices.turns.get(place) or ("delta" if place in choices.delta else "binary")


def delta_joins(root: Node, exists: Exists, joins: Joins = "auto") -> Node:
    """The plan with trees of joins as delta joins; ``joins`` says which: those that are worth it, all, or none.

    A join that others read, too, stays as it is: it would be computed twice. Filters of intermediate results are
    applied to the whole; rows that one fails on may thereby be dropped by a join first.

    Law:    the plans before and after give the same updates (tests/golden/test_delta_joins.py).
    """
    return chosen_joins(root, exists, joins)[0]


def chosen_joins(
    root: Node, exists: Exists, joins: Joins | Choices = "auto", sizes: Sizes | None = None
) -> tuple[Node, Choices]:
    """The same, and what was chosen, for the fingerprints that joins had; ``joins`` may be what was chosen before.

    With ``sizes`` it is known how many rows come in the first step.

    Joins below an ``update_time()`` are chosen by themselves, whatever is arranged: all views over it read one.
    """
    instead: dict[str, Node] = {}
    chosen = Choices()
    for node in walk(root):
        if isinstance(node, UpdateTime):
            below = _chosen_above(replaced(node.input, instead), _Grounds(_nothing, joins), chosen)
            instead[node.fingerprint] = UpdateTime(below)
    plan = _chosen_above(replaced(root, instead) if instead else root, _Grounds(exists, joins, sizes), chosen)
    return plan, chosen


def open_joins(root: Node) -> bool:
    """Whether joins of a plan were chosen by their pattern alone, and could be others if sizes were known."""
    return any(isinstance(n, MultiJoin) and n.reason.endswith(CYCLIC) for n in walk(root))


def _nothing(_node: Node, _key: tuple[str, ...]) -> bool:
    return False


def _chosen_above(root: Node, grounds: _Grounds, chosen: Choices) -> Node:
    """The same for what is above each ``update_time()``; what is chosen is added to ``chosen``."""
    chooser = _Chooser(grounds, chosen, readers(root))
    changed: dict[str, Node] = {}
    done: dict[str, Node] = {}
    todo = [(root, False)]  # a tree is looked at from its root
    while todo:
        node, is_entered = todo.pop()
        place = node.fingerprint
        if is_entered:
            done[place] = changed[place].over([done[i.fingerprint] for i in changed[place].inputs])
        elif place not in changed:
            changed[place] = chooser.change(node)
            if isinstance(node, UpdateTime):
                done[place] = node
                continue
            todo.append((node, True))
            todo += [(below, False) for below in reversed(changed[place].inputs)]
    return done[root.fingerprint]


@dataclass
class _Chooser:
    """Looks at the trees of a plan, of which ``counts`` tells the readers of each node.

    ``inner`` are the joins of trees that were looked at already, ``settled`` those that were put in an order.
    """

    grounds: _Grounds
    chosen: Choices
    counts: Counter[str]
    inner: set[str] = field(default_factory=set)
    settled: set[str] = field(default_factory=set)

    def change(self, node: Node) -> Node:
        """The node, or what is joined in its place."""
        joins = self.grounds.joins
        if isinstance(node, MultiJoin):
            return _by_hand(node, self.grounds.exists, joins)
        if not _is_open(node) or node.fingerprint in self.settled:
            return node
        limit, place = MOST_RELATIONS if joins == "auto" else LIMIT, node.fingerprint
        lifted = _Tree(limit, lifts=True)
        columns = lifted.add(node, self.counts, is_root=True)
        if joins == "delta" and lifted.blocked:
            raise PlanError(f'joins="delta" is not possible for {_called(node)}: {lifted.blocked[0]}; {_REMEDY}')
        if lifted.is_lifted and _is_worth_lifting(lifted, self.grounds, place):
            joined = _joined(node, lifted, columns, self.grounds, self.chosen, f"{place}{_LIFTED}")
            if joined.fingerprint != place:
                return self._settled(node, joined, lifted)
        tree = _Tree(limit)
        columns = tree.add(node, self.counts, is_root=True)
        joined = _joined(node, tree, columns, self.grounds, self.chosen, place)
        if joined.fingerprint != place or place in self.chosen.turns:
            return self._settled(node, joined, tree)
        return self._with_reason(node, joined, tree, lifted)

    def _settled(self, before: Node, after: Node, tree: _Tree) -> Node:
        """What is joined in the place of a tree; joins that were made for it stay as they are."""
        self.inner.update(tree.joins)
        if not isinstance(after.input if isinstance(after, Linear) else after, MultiJoin):
            there = {below.fingerprint for below in walk(before)}.difference(tree.joins)
            self.settled.update(below.fingerprint for below in walk(after) if below.fingerprint not in there)
        return after

    def _with_reason(self, node: Join, joined: Node, tree: _Tree, lifted: _Tree) -> Node:
        """The binary join, with the reason why it is one where no tree above has it."""
        is_told = isinstance(joined, Join) and bool(joined.reason)
        is_inner = node.fingerprint in self.inner
        self.inner.update(tree.joins)
        if not is_told and lifted.blocked and self.grounds.joins == "auto":
            return replace(node, reason=f"binary joins: {lifted.blocked[0]}")
        if is_inner:
            return node  # the join at the root has the reason
        if not is_told and self.grounds.joins == "delta":
            return replace(node, reason=f"binary joins: {_why_binary(tree)}")
        return joined


def _by_hand(node: MultiJoin, exists: Exists, joins: Joins | Choices) -> MultiJoin:
    """A join that was planned by hand, with which of its arrangements are there already."""
    if joins == "binary":
        raise PlanError(
            f'joins="binary" is not possible for the {node.title} that was planned by hand; leave joins="auto", or '
            "write it with join"
        )
    columns = [dict(zip(v, p.schema.names, strict=True)) for v, p in zip(node.variables, node.parts, strict=True)]
    read = {keyed for path in node.paths for keyed in path.arrangements}
    reused = ((i, key) for i, key in read if exists(node.parts[i], tuple(columns[i][v] for v in key)))
    return replace(node, reused=frozenset(reused))


def _joined(  # a tree, and all that its choice goes by
    node: Join, tree: _Tree, columns: dict[str, int], grounds: _Grounds, chosen: Choices, place: str
) -> Node:
    """The join of all that a tree joins; where the tree is better the node, with the reason.

    What is chosen is added to ``chosen`` for a ``place``.
    """
    if tree.is_cut:
        if grounds.joins == "delta":
            raise PlanError(
                f'joins="delta" joins at most {LIMIT} collections at once, and this plan joins more: {_called(node)}'
            )
        return replace(node, reason=f"binary joins: more than {tree.limit} collections are joined")
    variables = tuple(tuple(tree.name(v) for v in part) for part in tree.variables)
    if len(variables) < 3 or any(len(set(part)) < len(part) for part in variables):
        return node
    read = {keyed for path in delta_paths(variables) for keyed in path.arrangements}
    existing = frozenset((i, key) for i, key in read if grounds.exists(tree.parts[i], tree.columns(i, key)))
    made, why = _chosen(tree, variables, columns, read - existing, grounds, place)
    if made == "binary":
        return replace(node, reason=f"binary joins{why}")
    outputs = tuple((name, tree.name(columns[name])) for name in node.schema.names)
    if made == "delta":
        chosen.delta.append(place)
        reason = f"delta join{why}"
        parts = tuple(tree.parts)
        if not tree.steps:
            return MultiJoin(parts, variables, outputs, node.schema, reason, existing)
        shown = tree.fields(variables)
        named = tuple((f.name, v) for v, f in shown.items())
        joined: Node = MultiJoin(parts, variables, named, pa.schema(shown.values()), reason, existing)
    else:
        chosen.turns[place] = [*made]
        joined = replace(in_turn(tree.parts, variables, made, tree.needed(columns)), reason=f"binary joins{why}")
        if joined.fingerprint == node.fingerprint:
            return joined  # in the order in which they were written
        called = names_of(tree.parts, variables)
        shown = {v: joined.schema.field(n) for v, n in called.items() if n in joined.schema.names}
    shown |= tree.made_fields()
    project = Project(
        tuple(
            (f.name, Column(shown[v].name, f.type, f.nullable)) for f, (_, v) in zip(node.schema, outputs, strict=True)
        )
    )
    logic = BoundLogic((*(tree.lifted(step, shown) for step in tree.steps), project))
    return Linear(joined, normalise(logic, joined.schema) if tree.is_lifted else logic)


def _is_worth_lifting(tree: _Tree, grounds: _Grounds, place: str) -> bool:
    """Whether what is between the joins of a tree comes after it: on request, or where the pattern is cyclic."""
    if not isinstance(grounds.joins, str):
        return _as_before(grounds.joins, f"{place}{_LIFTED}") != "binary"
    if grounds.joins != "auto":
        return grounds.joins == "delta"
    return not tree.is_cut and is_cyclic(tuple(tuple(tree.name(v) for v in part) for part in tree.variables))


def _chosen(  # a tree, and all that its choice goes by
    tree: _Tree,
    variables: tuple[tuple[str, ...], ...],
    columns: dict[str, int],
    lacking: set[Keyed],
    grounds: _Grounds,
    place: str,
) -> tuple[_Made, str]:
    """Whether the relations should be joined at once, as the tree has it, or in another order; and why."""
    if not isinstance(grounds.joins, str):
        return _as_before(grounds.joins, place), ", as when the view was first maintained"
    if grounds.joins != "auto":
        return grounds.joins, ", as requested"
    exists = grounds.exists
    if is_cyclic(variables):
        if grounds.sizes is None:
            return "delta", f": {CYCLIC}"
        at_once = {(tree.parts[i], tree.columns(i, key)) for i, key in lacking}
        return along_keys(tree.parts, variables, tree.needed(columns), at_once, exists, grounds.sizes)
    if tree.steps:
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
    that they are more: the tree ``is_cut``. ``steps`` are applied to the whole, in order; only one that ``lifts`` has
    others than filters, and lists what ``blocked`` it. ``made`` are the columns that steps make.
    """

    limit: int
    lifts: bool = False
    is_cut: bool = False
    parts: list[Node] = field(default_factory=list)
    variables: list[list[int]] = field(default_factory=list)
    binary: list[tuple[Node, tuple[str, ...]]] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    made: dict[int, pa.Field] = field(default_factory=dict)
    blocked: list[str] = field(default_factory=list)
    joins: list[str] = field(default_factory=list)
    _leads: list[int] = field(default_factory=list)

    @property
    def is_lifted(self) -> bool:
        """Whether other steps than filters come after the join."""
        return any(not isinstance(s.step, Filter) for s in self.steps) or bool(self.made)

    def add(
        self, node: Node, counts: Counter[str], keys: Collection[str] = (), *, is_root: bool = False
    ) -> dict[str, int]:
        """Take up a node with all that it joins, of which joins above read ``keys``; the variable of each column."""
        if is_root or counts[node.fingerprint] == 1:
            if _is_open(node) and len(self.joins) >= self.limit - 1:
                self.is_cut = True
            elif _is_open(node):
                self.joins.append(node.fingerprint)
                sides = [self.add(below, counts, _keys_below(node, i, keys)) for i, below in enumerate(node.inputs)]
                self.binary += [(node.left, node.left_key), (node.right, node.right_key)]
                for left, right in zip(node.left_key, node.right_key, strict=True):
                    self._leads[self._end(sides[1][right])] = self._end(sides[0][left])
                return {name: sides[side][column] for name, side, column in node.outputs}
            if isinstance(node, Linear) and (picked := _picked(node)) is not None and _is_join(node.input, counts):
                below = self.add(node.input, counts, {picked.names[k] for k in keys})
                self.steps += [_Step(test, below) for test in picked.filters]
                return {name: below[column] for name, column in picked.names.items()}
            if self.lifts and isinstance(node, Linear) and _is_open(node.input):
                if picked is not None or counts[node.input.fingerprint] > 1:
                    return self._leaf(node)  # others read it, too
                why = _why_not_lifted(node, keys)
                if why is None:
                    return self._lift(node, counts, keys)
                self.blocked.append(f"{why} between it and {_called(node.input)}")
        return self._leaf(node)

    def _lift(self, node: Linear, counts: Counter[str], keys: Collection[str]) -> dict[str, int]:
        """Take up what logic joins; what it does comes after the join of all."""
        handed_on = handed_on_by(node)
        columns = self.add(node.input, counts, {handed_on[k] for k in keys})
        schema = node.input.schema
        for step in node.logic.steps:
            before, schema = columns, step.output(schema)
            if isinstance(step, Project | Extend):
                outputs = tuple((n, e) for n, e in step.outputs if not e.is_column)
                same = {n: before[e.column_name] for n, e in step.outputs if e.is_column}
                fresh = {n: self._fresh(schema.field(n)) for n, _ in outputs}
                columns = (before if isinstance(step, Extend) else {}) | same | fresh
                if outputs:
                    self.steps.append(_Step(Extend(outputs), before, fresh))
            else:
                fresh = {n: self._fresh(schema.field(n)) for n in schema.names if n not in before}
                columns = before | fresh
                self.steps.append(_Step(step, before, fresh))
        return {n: columns[n] for n in node.schema.names}

    def _fresh(self, column: pa.Field) -> int:
        self._leads.append(len(self._leads))
        self.made[self._leads[-1]] = column
        return self._leads[-1]

    def _leaf(self, node: Node) -> dict[str, int]:
        inner, names = before_renaming(node)
        if inner is not node:  # called otherwise, and arranged as it is called there
            below = self._leaf(inner)
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

    def needed(self, columns: dict[str, int]) -> frozenset[str]:
        """The variables that are read of the whole: by steps, and as ``columns`` of what comes out."""
        read = [*columns.values(), *(v for step in self.steps for v in step.columns.values())]
        return frozenset(self.name(v) for v in read if v not in self.made)

    def fields(self, variables: tuple[tuple[str, ...], ...]) -> dict[str, pa.Field]:
        """Every variable as a column."""
        pairs = [
            p for part, names in zip(self.parts, variables, strict=True) for p in zip(part.schema, names, strict=True)
        ]
        labels = self._labels() if self.is_lifted else {}
        return {v: f.with_name(labels.get(v, v)).with_nullable(True) for f, v in pairs}

    def made_fields(self) -> dict[str, pa.Field]:
        """Every column that a step makes."""
        labels = self._labels() if self.is_lifted else {}
        return {self.name(v): f.with_name(labels[self.name(v)]) for v, f in self.made.items()}

    def _labels(self) -> dict[str, str]:
        """What steps call variables, so that errors name columns as they were written; two of one name differ."""
        labels: dict[str, str] = {}
        taken: set[str] = set()
        for columns in (c for s in self.steps for c in (s.columns, s.made)):
            for name, v in columns.items():
                if self.name(v) not in labels:
                    is_free = name not in taken and not re.fullmatch(
                        r"v\d+", name
                    )  # as those are called that no step reads
                    labels[self.name(v)] = name if is_free else f"{name} {self.name(v)}"
                    taken.add(labels[self.name(v)])
        return labels

    def lifted(self, inner: _Step, columns: dict[str, pa.Field]) -> Step:
        """A step on an intermediate result as one on the whole."""
        fields = {name: columns[self.name(v)] for name, v in inner.columns.items()}
        instead: dict[str, Expr] = {n: Column(f.name, f.type, f.nullable) for n, f in fields.items()}
        step = mapped(inner.step, lambda e: e.substitute(instead))
        names = {name: columns[self.name(v)].name for name, v in inner.made.items()}
        match step:
            case Extend(outputs):
                return replace(step, outputs=tuple((names[n], e) for n, e in outputs))
            case GenerateSeries(name):
                return replace(step, name=names[name])
            case Unnest(_, columns_made, ordinality):
                numbered = None if ordinality is None else names[ordinality]
                return replace(step, names=tuple(names[n] for n in columns_made), ordinality=numbered)
            case _:
                return step

    def columns(self, part: int, key: tuple[str, ...]) -> tuple[str, ...]:
        """The columns of a part that variables are."""
        names = [self.name(v) for v in self.variables[part]]
        return tuple(self.parts[part].schema.names[names.index(v)] for v in key)


@dataclass(frozen=True)
class _Step:
    """A step on an intermediate result: the variables of the columns that it reads, and of those that it makes."""

    step: Step
    columns: dict[str, int]
    made: dict[str, int] = field(default_factory=dict)


_LIFTABLE = (Filter, Temporal, RepeatRow, Negate, GenerateSeries, Unnest, Project, Extend)
"""Steps that act row by row, whatever other columns rows have: they may come before a join or after it."""


def _keys_below(node: Join, side: int, keys: Collection[str]) -> frozenset[str]:
    """The columns of a join's input that it, or a join above it, has in its key."""
    own = (node.left_key, node.right_key)[side]
    return frozenset((*own, *(c for name, s, c in node.outputs if s == side and name in keys)))


def _why_not_lifted(node: Linear, keys: Collection[str]) -> str | None:
    """Why logic above a join cannot come after a join of its result; None where it can."""
    if node.logic.delay.parts:
        return "times are delayed"
    for step in node.logic.steps:
        if not isinstance(step, _LIFTABLE):
            return f"`{step}` stands"
    handed_on = handed_on_by(node)
    computed = sorted(k for k in keys if k not in handed_on)
    return f"its key {', '.join(computed)} is computed" if computed else None


def _why_binary(tree: _Tree) -> str:
    """Why the collections of a tree are not a pattern that could be joined at once."""
    if len(tree.parts) > 2:
        return "two columns of one collection must be equal"
    for part in tree.parts:
        below = part
        while isinstance(below, Linear):
            below = below.input
        if _is_open(below):
            return f"something else reads {_called(below)}, too"
        if _has_join(below):
            return f"{below.noun} ends the pattern below"
    return "only two collections are joined"


@inputs_first
def _has_join(node: Node) -> bool:
    return isinstance(node, Join) or any(map(_has_join, node.inputs))


def _called(node: Join) -> str:
    return f"the join on {', '.join(node.left_key)}"


def _is_join(node: Node, counts: Counter[str]) -> bool:
    while isinstance(node, Linear) and _picked(node) is not None and counts[node.fingerprint] == 1:
        node = node.input
    return _is_open(node) and counts[node.fingerprint] == 1


def _is_open(node: Node) -> TypeGuard[Join]:
    """Whether a node is a join that may be one of several at once: in these a null is equal to nothing."""
    return isinstance(node, Join) and not node.nulls_equal


@dataclass(frozen=True)
class _Picked:
    """What logic does that only filters rows and picks and renames columns: its filters, and what each was called."""

    filters: tuple[Filter, ...]
    names: dict[str, str]

    def renames(self, below: Node) -> bool:
        """Whether that is all, and every column is there once."""
        return not self.filters and sorted(self.names.values()) == sorted(below.schema.names)


def before_renaming(node: Node) -> tuple[Node, dict[str, str]]:
    """What logic that does nothing but rename columns is over, and what each column was called; else the node."""
    names = {n: n for n in node.schema.names}
    while isinstance(node, Linear) and (picked := _picked(node)) is not None and picked.renames(node.input):
        names = {n: picked.names[c] for n, c in names.items()}
        node = node.input
    return node, names


def _picked(node: Linear) -> _Picked | None:
    steps = node.logic.steps
    names = {n: n for n in node.schema.names}
    if steps and isinstance(last := steps[-1], Project):
        if not all(expression.is_column for _, expression in last.outputs):
            return None
        steps, names = steps[:-1], {name: expression.column_name for name, expression in last.outputs}
    filters = tuple(step for step in steps if isinstance(step, Filter))
    return None if node.logic.delay.parts or len(filters) < len(steps) else _Picked(filters, names)
