"""The relations of a join of several collections: their arrangements, and their delta paths as operators take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from altneu import ir
from altneu.expressions import Column
from altneu.operators.extend import ExtensionSpec, Offer, PathSpec
from altneu.paths import Extension, Keyed, Part, Path


@dataclass(frozen=True)
class Relations:
    """A join with its paths; ``arrangements`` are the inputs of its operation: a part, and columns of it as key."""

    node: ir.MultiJoin
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

    def field(self, variable: str) -> pa.Field:
        """A variable as a column."""
        at = next(i for i, variables in enumerate(self.node.variables) if variable in variables)
        found = self.node.parts[at].schema.field(self.node.variables[at].index(variable))
        return found.with_name(variable).with_nullable(True)

    def column(self, variable: str) -> Column:
        """A variable as an expression."""
        f = self.field(variable)
        return Column(f.name, f.type, f.nullable)

    def path_spec(self, path: Path) -> PathSpec:
        """A path over the inputs."""
        at = next(i for i, (relation, _) in enumerate(self.arrangements) if relation == path.relation)
        before = start = pa.schema([self.field(v) for v in self.node.variables[path.relation]])
        extensions = []
        for extension in path.extensions:
            made = self._extension_spec(extension, before, path.relation)
            extensions.append(made)
            before = made.after
        return PathSpec(at, start, tuple(extensions))

    def _extension_spec(self, extension: Extension, before: pa.Schema, start: int) -> ExtensionSpec:
        after = pa.schema([*before, *(self.field(v) for v in extension.binds)])
        offers = tuple(self._offer(part, start) for part in extension.parts)
        return ExtensionSpec(before, after, extension.adds, offers)

    def _offer(self, part: Part, start: int) -> Offer:
        variables = self.node.variables[part.relation]
        at = self._input(part.relation, part.key)
        confirms = self._input(part.relation, part.confirm_key) if part.confirm_key else at
        values = tuple(v for v in variables if v not in part.key)
        return Offer(at, part.key, values, part.own, part.relation < start, confirms, part.confirm_key)

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
        names = [n.name for n in ir.walk(self.node.parts[relation]) if isinstance(n, ir.Source)]
        return f"{relation + 1}:{'+'.join(dict.fromkeys(names))}"
