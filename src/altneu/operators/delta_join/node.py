"""What an equijoin of several collections at once means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from altneu.operators.delta_join.paths import Path, delta_paths
from altneu.operators.node import AtEachTime, Columns, Key, Node, all_columns


@dataclass(frozen=True, eq=False)
class MultiJoin(AtEachTime, tag="MultiJoin"):
    """Equijoin of several collections at once, without intermediate results; what a tree of ``Join`` may become.

    ``variables`` names the columns of each part: those of one name are equal, and not null when they are several.
    ``outputs`` lists (name, variable); ``schema`` is that of the tree. ``reason`` is EXPLAIN's note on the choice,
    and ``reused`` are the parts and keys that had been arranged when it was made. ``planned`` are the paths of a join
    that was planned by hand, one for each part; without them they follow from the variables.
    """

    parts: tuple[Node, ...]
    variables: tuple[Key, ...]
    outputs: tuple[tuple[str, str], ...]
    schema: pa.Schema
    reason: str = field(default="", compare=False)
    reused: frozenset[tuple[int, Key]] = field(default=frozenset(), compare=False)
    planned: tuple[Path, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """In which order an update of each part meets the others."""
        return self.planned or delta_paths(self.variables)

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The parts."""
        return self.parts

    def describe(self) -> str:
        """Variables and outputs, and the paths that were planned."""
        planned = f" {'; '.join(path.describe() for path in self.planned)}" if self.planned else ""
        return f"{self.variables} {self.outputs}{planned}"

    @property
    def title(self) -> str:
        """How many there are."""
        return f"join of {len(self.parts)} collections"

    def lineage(self, i: int) -> Mapping[str, str]:
        """None: it is made when tests have been pushed."""
        return {}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """Rows that agree on the variables that known outputs have."""
        shown = {variable: name for name, variable in self.outputs if name in known}
        columns = zip(self.parts[i].schema.names, self.variables[i], strict=True)
        return {column: shown[variable] for column, variable in columns if variable in shown}

    def reads(self, i: int, needed: Columns) -> Columns:
        """All columns: it is made when columns have been pruned."""
        return all_columns(self.parts[i])

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Not known: it is made when constants have been folded."""
        return False

    @property
    def is_sum(self) -> bool:
        """A row is made of a row of each part."""
        return False

    @property
    def moves_times(self) -> bool:
        """Taken to be so: it is made when tests have been pushed."""
        return True

    @property
    def hosts(self) -> bool:
        """It does."""
        return True
