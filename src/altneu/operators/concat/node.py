"""What sums, consolidation and inspection mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from altneu.linear import Function
from altneu.operators.node import AtEachTime, Columns, Derived, Node, Unary, all_columns, same_columns


@dataclass(frozen=True, eq=False)
class Concat(AtEachTime, Derived, tag="Concat"):
    """The sum of collections of one schema."""

    parts: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The parts."""
        return self.parts

    def _schema(self) -> pa.Schema:
        """The common schema; a column is nullable where it is in any part."""
        first = self.parts[0].schema
        return pa.schema(
            [f.with_nullable(any(p.schema.field(i).nullable for p in self.parts)) for i, f in enumerate(first)]
        )

    @property
    def noun(self) -> str:
        """A sum."""
        return "a sum (an outer join is one)"

    def describe(self) -> str:
        """Nothing beside the parts."""
        return ""

    def lineage(self, i: int) -> Mapping[str, str]:
        """All columns, by their places."""
        return dict(zip(self.schema.names, self.parts[i].schema.names, strict=True))

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """A row is the same row of a part."""
        return same_columns(self.parts[i], known)

    def reads(self, i: int, needed: Columns) -> Columns:
        """The needed columns, by their places."""
        return frozenset(theirs for mine, theirs in self.lineage(i).items() if mine in needed)

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Where all parts are."""
        return all(empty)

    @property
    def is_sum(self) -> bool:
        """It is."""
        return True

    @property
    def moves_times(self) -> bool:
        """Its rows are those of its inputs."""
        return False

    def same_as(self, sets: Sequence[bool], consolidated: Sequence[bool]) -> Node | None:
        """Of one part that part."""
        return self.parts[0] if len(self.parts) == 1 else None

    def without(self, empty: Sequence[bool]) -> Node:
        """Without empty parts, unless a column then is not nullable that was."""
        sum_of_others = Concat(tuple(part for part, is_empty in zip(self.parts, empty, strict=True) if not is_empty))
        return sum_of_others if sum_of_others.schema.equals(self.schema) else self


@dataclass(frozen=True, eq=False)
class _SameRows(Unary):
    """The same collection."""

    def lineage(self, i: int) -> Mapping[str, str]:
        """All columns."""
        return {n: n for n in self.schema.names}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """The same rows."""
        return same_columns(self.input, known)

    @property
    def moves_times(self) -> bool:
        """Its rows are those of its input."""
        return False

    def is_set(self, inputs: Sequence[bool]) -> bool:
        """As the input."""
        return inputs[0]


@dataclass(frozen=True, eq=False)
class Consolidate(AtEachTime, _SameRows, tag="Consolidate"):
    """The same collection, each (data, time) in one update."""

    def describe(self) -> str:
        """Nothing beside the input."""
        return ""

    def reads(self, i: int, needed: Columns) -> Columns:
        """What is needed: rows that become equal add up."""
        return needed

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """As the input."""
        return empty[0]

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """It is."""
        return True

    def same_as(self, sets: Sequence[bool], consolidated: Sequence[bool]) -> Node | None:
        """What is consolidated already."""
        return self.input if consolidated[0] else None


@dataclass(frozen=True, eq=False)
class Named(_SameRows):
    """The same collection, requested by name."""

    def reads(self, i: int, needed: Columns) -> Columns:
        """All columns."""
        return all_columns(self.input)

    @property
    def hands_on(self) -> bool:
        """It does."""
        return True

    @property
    def stays(self) -> bool:
        """It does."""
        return True

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """It stays."""
        return False

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """As the input."""
        return inputs[0]


@dataclass(frozen=True, eq=False)
class Inspect(Named, tag="Inspect"):
    """The same collection; after each commit a Python function is shown its consolidated updates."""

    function: Function

    def describe(self) -> str:
        """The function's digest."""
        return self.function.digest

    def functions(self) -> Iterable[Function]:
        """What is shown the rows."""
        return (self.function,)

    def with_functions(self, change: Callable[[Function], Function]) -> Node:
        """Another one is."""
        return replace(self, function=change(self.function))

    is_by_arrival = False
    reads_times = False
    arrival_verb = None
