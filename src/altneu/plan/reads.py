"""What a plan reads of its sources: the rows with some values, only how many rows there are, or everything."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from altneu.expressions import Expr
from altneu.expressions.equalities import required_bound, required_values
from altneu.expressions.expr import Literal
from altneu.expressions.parameters import with_values
from altneu.expressions.sharing import conjuncts
from altneu.linear import BoundLogic, Filter, Project
from altneu.operators.node import inputs_first
from altneu.plan.ir import Inspect, Join, Linear, Node, Source, free_level, walk
from altneu.plan.rewrite.transform import replaced

Values = Mapping[str, pa.Array]
"""Values of columns, one of which a row has if it matters."""


@dataclass(frozen=True)
class Reader:
    """The linear logic that reads a source, over a source of its own, whose name is ``name``."""

    name: str
    source: str
    node: Linear

    def with_constants(self, constants: Sequence[Literal]) -> Reader:
        """With constants for the parameters of its filters."""
        steps = (
            replace(step, predicate=with_values(step.predicate, constants)) if isinstance(step, Filter) else step
            for step in self.node.logic.steps
        )
        return replace(self, node=Linear(self.node.input, BoundLogic(tuple(steps), self.node.logic.delay)))


@dataclass(frozen=True)
class Read:
    """What one reader of a plan needs of a source.

    ``name`` is that of the reader's own source. ``values`` are the values of which a row that matters has one, by
    column; None if only the number of rows matters.
    """

    name: str
    source: str
    values: Values | None
    bounds: tuple[tuple[str, str, pa.Array], ...] = ()  # column, comparison, value: what the rows satisfy as well

    @property
    def is_partial(self) -> bool:
        """Whether some rows do not matter, or none for itself."""
        return self.values is None or bool(self.values or self.bounds)

    def and_of(self, values: Values) -> Read:
        """With more values that rows have; of a column that has some, the fewer."""
        assert self.values is not None
        merged = dict(self.values)
        for column, among in values.items():
            if column not in merged or len(among) < len(merged[column]):
                merged[column] = among
        return replace(self, values=merged)


def separated(root: Node) -> tuple[Node, tuple[Reader, ...]] | None:
    """A plan in which each reader of a source has a source of its own, and these; None if it may not be cut so.

    The plan is as ``optimise`` gives it. What depends on the times of rows, and not on the rows of one time alone,
    needs all rows.
    """
    nodes = list(walk(root))
    if any(node.is_by_arrival or node.arrival_verb or node.reads_times or isinstance(node, Inspect) for node in nodes):
        return None
    parts: dict[str, list[Node]] = defaultdict(list)
    for node in nodes:
        for below in node.inputs if not isinstance(node, Linear) else ():
            if isinstance(below, Source) and below.fingerprint not in {n.fingerprint for n in parts[below.name]}:
                parts[below.name].append(below)
        if isinstance(node, Linear) and isinstance(node.input, Source):
            parts[node.input.name].append(node)
    if isinstance(root, Source):
        parts[root.name].append(root)
    instead: dict[str, Node] = {}
    readers: list[Reader] = []
    for name, of_source in parts.items():
        for number, node in enumerate(of_source):
            own = name if len(of_source) == 1 else f"{name} ({number + 1})"
            source, logic = (node.input, node.logic) if isinstance(node, Linear) else (node, BoundLogic())
            assert isinstance(source, Source)
            readers.append(Reader(own, name, Linear(replace(source, name=own), logic)))
            instead[node.fingerprint] = readers[-1].node
    return (replaced(root, instead), tuple(readers)) if readers else None


def read_of(reader: Reader) -> Read:
    """What a reader needs by its own tests."""
    return Read(reader.name, reader.source, _values(reader.node), tuple(_bounds(reader.node)))


def values_by_joins(
    root: Node, found: Collection[str], values_of: Callable[[Node, Sequence[str]], Values]
) -> dict[str, Values]:
    """By the name of a source not among those ``found``: values that its rows have if they matter, because of joins.

    A row of one side of a join matters if the other side has its key. Where all sources below the other side are
    found, ``values_of`` computes the keys: the values of columns of a node, without those that have too many. They
    restrict the side itself, and what its columns come from.

    Shape:  values are distinct and not null. A source whose rows matter for another reason too is not in the result.
    Law:    as for ``push_filters``: a test of columns may be applied to the input that they come from.
    """
    required: dict[str, dict[str, pa.Array] | None] = {root.fingerprint: {}}
    sources: dict[str, Values] = {}
    for node in reversed(list(walk(root))):
        own = required[node.fingerprint] or {}
        if isinstance(node, Source) and node.name not in found and own:
            sources[node.name] = own
        for i, below in enumerate(node.inputs):
            wanted = {old: own[new] for new, old in node.lineage(i).items() if new in own}
            if isinstance(node, Join) and not node.nulls_equal:
                keys, other = (node.left_key, node.right_key), node.inputs[1 - i]
                is_found = _sources_below(other) <= set(found) and free_level(other) is None
                if is_found and not _sources_below(below) <= set(found):
                    values = values_of(other, keys[1 - i])
                    pairs = zip(keys[i], keys[1 - i], strict=True)
                    wanted |= {mine: values[theirs] for mine, theirs in pairs if theirs in values}
            required[below.fingerprint] = _either(required.get(below.fingerprint), wanted)
    return sources


def _either(known: Mapping[str, pa.Array] | None, more: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """The values that at least one of two readers requires; ``known`` is None before the first reader."""
    if known is None:
        return dict(more)
    return {name: _distinct(pa.concat_arrays([known[name], more[name]])) for name in known if name in more}


@inputs_first
def _sources_below(node: Node) -> frozenset[str]:
    own = frozenset([node.name]) if isinstance(node, Source) else frozenset[str]()
    return own.union(*map(_sources_below, node.inputs))


def _values(node: Linear) -> dict[str, pa.Array] | None:
    """The values that the first filters of a node require, by column; None if it reads no column of any row."""
    logic, values = node.logic, dict[str, pa.Array]()
    if logic.delay:
        return values
    if not logic.columns_read(node.input.schema) and all(isinstance(step, Project) for step in logic.steps):
        return None
    for part in _first_tests(node):
        known = required_values(part)
        if known is not None:
            column, among = known[0], _distinct(known[1])
            if column not in values or len(among) < len(values[column]):
                values[column] = among
    return values


def _distinct(values: pa.Array) -> pa.Array:
    """Each of some canonical values once; pyarrow has no ``unique`` of structs and lists, of which queries name few."""
    if len(values) == 1:
        return values
    if not pa.types.is_nested(values.type):
        return pc.unique(values)
    places = {repr(value): place for place, value in enumerate(values.to_pylist())}
    return values.take(pa.array(places.values(), pa.int64()))


def _bounds(node: Linear) -> Iterator[tuple[str, str, pa.Array]]:
    for part in () if node.logic.delay else _first_tests(node):
        bound = required_bound(part)
        if bound is not None:
            yield bound


def _first_tests(node: Linear) -> Iterator[Expr]:
    """What the first filters of a node test, all of which a row that matters passes."""
    for step in node.logic.steps:
        if not isinstance(step, Filter) or step.predicate.can_fail:
            break  # a row on which it fails may be one that does not pass
        yield from conjuncts(step.predicate)


def is_row_by_row(root: Node) -> bool:
    """Whether each row of a plan is made of one row of a source, none of which can fail."""
    if not isinstance(root, Linear) or not isinstance(root.input, Source):
        return False
    logic = root.logic
    return not logic.delay and not logic.has_errors and all(isinstance(step, Filter | Project) for step in logic.steps)


def column_read(root: Linear, output: str) -> str | None:
    """The column of a source that an output of a plan is, which is row by row; None if it is computed."""
    for step in reversed(root.logic.steps):
        if isinstance(step, Project):
            expression = dict(step.outputs)[output]
            if not expression.is_column:
                return None
            output = expression.column_name
    return output
