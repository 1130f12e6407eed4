"""Delta joins lowered: the arrangements of the relations, and their paths as one operation or as many.

Where there is one shard a path is a loop over lookups, in chunks. Where there are several, each lookup is an operation
that the prefixes are exchanged for: to the shard that has the key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from altneu.expressions import Column
from altneu.linear import BoundLogic, Outputs, Project
from altneu.operators.base import Operation
from altneu.operators.concat.operation import ConcatOp
from altneu.operators.delta_join.candidates import Offer
from altneu.operators.delta_join.extend import BY, LEAST, DeltaSpec, ExtensionSpec, PathSpec
from altneu.operators.delta_join.node import MultiJoin
from altneu.operators.delta_join.operation import CountOp, DeltaJoinOp, DeltaScanOp, ProposeOp, ValidateOp
from altneu.operators.delta_join.paths import Extension, Keyed, Part, Path, Variables
from altneu.operators.linear.operation import LinearOp
from altneu.operators.lowering import Lowered, Lowering, Port, arrange_label
from altneu.operators.node import walk
from altneu.operators.source.node import Source


@dataclass(frozen=True)
class Relations:
    """A join with its paths; ``arrangements`` are the inputs of its operation: a part, and columns of it as key."""

    node: MultiJoin
    paths: Sequence[Path]

    @cached_property
    def arrangements(self) -> tuple[Keyed, ...]:
        """What the paths read, by columns: each arrangement of each part once."""
        read = (a for path in self.paths for e in path.extensions for part in e.parts for a in part.arrangements)
        return tuple(dict.fromkeys(self._by_columns(a) for a in read))

    def _by_columns(self, keyed: Keyed) -> Keyed:
        relation, variables = keyed
        return relation, tuple(self._column_of(relation, v) for v in variables)

    def _column_of(self, relation: int, variable: str) -> str:
        at = self.node.variables[relation].index(variable)
        return self.node.parts[relation].schema.names[at]

    def _input(self, relation: int, key: Sequence[str]) -> int:
        return self.arrangements.index(self._by_columns((relation, tuple(key))))

    def _input_of(self, path: Path) -> int:
        """The arrangement of its relation whose new rows a path takes: that by what is looked up first, if there is."""
        places = [i for i, (relation, _) in enumerate(self.arrangements) if relation == path.relation]
        first = path.extensions[0].parts[0].key
        return next((i for i in places if self.key_of(i) == first), places[0])

    def key_of(self, at: int) -> Variables:
        """The variables by which an arrangement is."""
        relation, columns = self.arrangements[at]
        named = dict(zip(self.node.parts[relation].schema.names, self.node.variables[relation], strict=True))
        return tuple(named[column] for column in columns)

    def field(self, variable: str) -> pa.Field:
        """A variable as a column."""
        at = next(i for i, variables in enumerate(self.node.variables) if variable in variables)
        column = self.node.parts[at].schema.field(self.node.variables[at].index(variable))
        return column.with_name(variable).with_nullable(True)

    def column(self, variable: str) -> Column:
        """A variable as an expression."""
        f = self.field(variable)
        return Column(f.name, f.type, f.nullable)

    def path_spec(self, path: Path) -> PathSpec:
        """A path over the inputs."""
        at = self._input_of(path)
        before = start = pa.schema([self.field(v) for v in self.node.variables[path.relation]])
        extensions = []
        for extension in path.extensions:
            spec = self._extension_spec(extension, before, path.relation)
            extensions.append(spec)
            before = spec.after
        return PathSpec(at, start, tuple(extensions))

    def _extension_spec(self, extension: Extension, before: pa.Schema, start: int) -> ExtensionSpec:
        after = pa.schema([*before, *(self.field(v) for v in extension.binds)])
        offers = tuple(self._offer(part, start) for part in extension.parts)
        return ExtensionSpec(before, after, extension.adds, offers)

    def _offer(self, part: Part, start: int) -> Offer:
        variables = self.node.variables[part.relation]
        at = self._input(part.relation, part.key)
        validates = self._input(part.relation, part.validate_key) if part.validate_key else at
        values = tuple(v for v in variables if v not in part.key)
        return Offer(part, at, values, part.relation < start, validates)

    def describe(self, path: Path) -> str:
        """A line for EXPLAIN: what new rows of a relation meet, by which keys, and what of it was there before."""
        steps = [f"{self._called(path.relation)} ->"]
        for extension in path.extensions:
            steps.append(" and ".join(self._met(part) for part in extension.parts))
            steps.append("->")
        return " ".join(steps[:-1])

    def _met(self, part: Part) -> str:
        seen = [
            f"by {', '.join(self._by_columns((i, key))[1])} ({'reused' if (i, key) in self.node.reused else 'built'})"
            for i, key in part.arrangements
        ]
        return f"{self._called(part.relation)} {', '.join(seen)}"

    def _called(self, relation: int) -> str:
        """A relation by its number and the sources that it is made of."""
        names = [n.name for n in walk(self.node.parts[relation]) if isinstance(n, Source)]
        return f"{relation + 1}:{'+'.join(dict.fromkeys(names))}"


def lower_delta_join(to: Lowering, node: MultiJoin) -> Lowered:
    """A join of several over the arrangements that its paths read."""
    parts = [(to.lower(part), to.name_of(part)) for part in node.parts]
    relations = Relations(node, node.paths)
    inputs = tuple(
        Port(to.arrange(parts[i][0], key, parts[i][1], arrange_label(key))) for i, key in relations.arrangements
    )
    scope = to.innermost(to.scope_of(part) for part, _ in parts)
    return Lowered(delta_join(to, relations, inputs, scope), None)


def delta_join(builder: Lowering, relations: Relations, inputs: tuple[Port, ...], scope: int) -> Port:
    """The join of the relations over their arrangements."""
    node, paths = relations.node, relations.paths
    label = f"delta join of {len(node.parts)}"
    notes = (node.reason, *map(relations.describe, paths))
    if builder.shards == 1:
        specs = tuple(map(relations.path_spec, paths))
        operation = DeltaJoinOp(DeltaSpec(node.schema, node.outputs, specs, builder.lattice_in(scope)))
        return Port(builder.add(operation, inputs, node.schema, notes=notes, label=label, logical=node.fingerprint))
    ends = tuple(_Path(builder, inputs, scope).made(relations, path) for path in paths)
    return Port(
        builder.add(
            ConcatOp(paths=True), ends, node.schema, scope=scope, notes=notes, label=label, logical=node.fingerprint
        )
    )


@dataclass(frozen=True)
class _Stream:
    """Prefixes under way, and by which variables they are spread."""

    port: Port
    spread: Variables | None = None


@dataclass(frozen=True)
class _Path:
    """A path as operations of their own: prefixes go to the shard of each arrangement that they are looked up in."""

    builder: Lowering
    inputs: tuple[Port, ...]
    scope: int

    def made(self, relations: Relations, path: Path) -> Port:
        """The operations, and the port at the end of them."""
        spec = relations.path_spec(path)
        at = self.builder.add(DeltaScanOp(), (self.inputs[spec.at],), spec.start, label="start", scope=self.scope)
        stream = _Stream(Port(at), relations.key_of(spec.at))  # they lie where the arrangement has them
        for extension in spec.extensions:
            stream = self._extended(stream, extension)
        outputs = tuple((name, relations.column(variable)) for name, variable in relations.node.outputs)
        return self._projected(stream, outputs, relations.node.schema).port

    def _extended(self, stream: _Stream, spec: ExtensionSpec) -> _Stream:
        """Count, propose, validate; with one relation only propose."""
        if len(spec.offers) == 1:
            return self._proposed(stream, spec, 0, None)
        counted = pa.schema([*spec.before, *(pa.field(n, pa.int64(), nullable=False) for n in (LEAST, BY))])
        for i, offer in enumerate(spec.offers):
            operation = CountOp(replace(offer, at=0), i)
            stream = self._lookup(operation, stream, offer.part.key, offer.at, counted, "count")
        ends = tuple(self._proposed(stream, spec, i, i).port for i in range(len(spec.offers)))
        return _Stream(Port(self.builder.add(ConcatOp(), ends, spec.after, label="extended", scope=self.scope)))

    def _proposed(self, stream: _Stream, spec: ExtensionSpec, proposer: int, number: int | None) -> _Stream:
        """The candidates of one relation, validated by the others."""
        offer = spec.offers[proposer]
        after = pa.schema([*spec.before, *(spec.after.field(v) for v in (*spec.adds, *offer.part.own))])
        alone = ExtensionSpec(spec.before, after, spec.adds, (replace(offer, at=0),))
        extended = self._lookup(ProposeOp(alone, number), stream, offer.part.key, offer.at, after, "propose")
        for other in (o for i, o in enumerate(spec.offers) if i != proposer):
            if not other.part.own:
                validation = ValidateOp(replace(other, at=0), spec.adds)
                extended = self._lookup(validation, extended, other.part.key, other.at, after, "validate")
                continue
            before, after = after, pa.schema([*after, *(spec.after.field(v) for v in other.part.own)])
            lookup = ProposeOp(ExtensionSpec(before, after, (), (replace(other.alone, at=0),)))
            extended = self._lookup(lookup, extended, other.part.validate_key, other.validates, after, "look up")
        if after.names == spec.after.names:
            return extended
        return self._projected(
            extended, tuple((f.name, Column(f.name, f.type, f.nullable)) for f in spec.after), spec.after
        )

    def _lookup(
        self, operation: Operation, stream: _Stream, key: Variables, at: int, schema: pa.Schema, what: str
    ) -> _Stream:
        exchange = None if stream.spread == key else key
        label = f"{what} by {', '.join(key)}"
        inputs = (stream.port, self.inputs[at])
        number = self.builder.add(operation, inputs, schema, exchange=exchange, label=label, scope=self.scope)
        return _Stream(Port(number), key)

    def _projected(self, stream: _Stream, outputs: Outputs, schema: pa.Schema) -> _Stream:
        project = LinearOp(BoundLogic((Project(outputs),)))
        number = self.builder.add(project, (stream.port,), schema, label="columns", scope=self.scope)
        return replace(stream, port=Port(number))
