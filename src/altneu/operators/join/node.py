"""What an equijoin means."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from altneu.operators.node import AtEachTime, Columns, Derived, Key, Node, Outputs, own_columns


@dataclass(frozen=True, eq=False)
class Join(AtEachTime, Derived, tag="Join"):
    """Equijoin: pairs with equal, non-null keys; times joined, diffs multiplied.

    ``outputs`` lists (name, side, column): side 0 is the left input, 1 the right. Where it is the last of a tree of
    joins, ``reason`` is EXPLAIN's note on why it is one. With ``nulls_equal`` a null in a key is equal to a null.
    """

    left: Node
    right: Node
    left_key: Key
    right_key: Key
    outputs: Outputs
    reason: str = field(default="", compare=False)
    nulls_equal: bool = False

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    def _schema(self) -> pa.Schema:
        """The output columns with the types they have in their inputs."""
        sides = (self.left.schema, self.right.schema)
        return pa.schema([sides[side].field(column).with_name(name) for name, side, column in self.outputs])

    def describe(self) -> str:
        """Keys and outputs."""
        return f"{self.left_key} {self.right_key} {self.outputs}{' nulls are equal' * self.nulls_equal}"

    @property
    def title(self) -> str:
        """Its key."""
        return f"join on {', '.join(self.left_key)}{', with nulls' * self.nulls_equal}"

    def arrangement(self, i: int) -> Hashable:
        """The key of the side."""
        return (self.left_key, self.right_key)[i]

    def lineage(self, i: int) -> Mapping[str, str]:
        """The side's columns, and the other's key, which is equal to its own."""
        mine, theirs = ((self.left_key, self.right_key), (self.right_key, self.left_key))[i]
        same = dict(zip(theirs, mine, strict=True))
        return {n: c if side == i else same[c] for n, side, c in self.outputs if side == i or c in same}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """Rows that agree on the side's own columns, and on the key where a column of the other side has its value."""
        own, keys = own_columns(self.outputs, known), (self.left_key, self.right_key)
        decided = dict(own[i])
        for mine, theirs in zip(keys[i], keys[1 - i], strict=True):
            if theirs in own[1 - i]:
                decided.setdefault(mine, own[1 - i][theirs])
        return decided

    def reads(self, i: int, needed: Columns) -> Columns:
        """The key, and what is handed on."""
        own = {c for n, side, c in self.outputs if side == i and n in needed}
        return frozenset((self.left_key, self.right_key)[i]) | own

    def at_least(self, needed: Columns) -> Columns:
        """A column of the key, which is read anyway, or any."""
        if needed or not self.outputs:
            return needed
        keys = (self.left_key, self.right_key)
        return frozenset([next((n for n, side, c in self.outputs if c in keys[side]), self.outputs[0][0])])

    def keeping(self, needed: Columns, inputs: Sequence[Node]) -> Node:
        """With fewer outputs."""
        left, right = inputs
        return replace(self, left=left, right=right, outputs=tuple(o for o in self.outputs if o[0] in needed))

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Where a side is."""
        return any(empty)

    @property
    def needs_every_input(self) -> bool:
        """It does."""
        return True

    @property
    def is_sum(self) -> bool:
        """A row is made of a row of each side."""
        return False

    @property
    def moves_times(self) -> bool:
        """A pair changes when a row of it does."""
        return False

    @property
    def hosts(self) -> bool:
        """It does."""
        return True
