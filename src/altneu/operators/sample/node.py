"""What a sample means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from altneu.operators.node import AtEachTime, Columns, Key, Unary, same_columns


@dataclass(frozen=True, eq=False)
class Sample(AtEachTime, Unary, tag="Sample"):
    """The rows of a share of the values of some columns: of one value all rows or none, whenever they arrive."""

    key: Key
    fraction: float
    seed: int

    @property
    def title(self) -> str:
        """The share and the columns."""
        return f"sample of {self.fraction:g} by {', '.join(self.key)}"

    def describe(self) -> str:
        """Columns, share and seed."""
        return f"{self.key} {self.fraction!r} {self.seed}"

    def lineage(self, i: int) -> Mapping[str, str]:
        """All columns: each row is in or out by itself."""
        return {n: n for n in self.schema.names}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """The same rows."""
        return same_columns(self.input, known)

    def reads(self, i: int, needed: Columns) -> Columns:
        """What is needed, and the columns of the sample."""
        return needed | frozenset(self.key)

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """As the input."""
        return empty[0]

    @property
    def moves_times(self) -> bool:
        """Its rows are those of its input."""
        return False

    def is_set(self, inputs: Sequence[bool]) -> bool:
        """As the input."""
        return inputs[0]

    def is_consolidated(self, inputs: Sequence[bool]) -> bool:
        """As the input."""
        return inputs[0]
