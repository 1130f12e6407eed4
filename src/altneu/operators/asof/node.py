"""What as-of joins mean, and the time at which a row arrived."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from altneu.expressions.names import UPDATE_TIME
from altneu.operators.asof.rule import AsOfRule
from altneu.operators.node import Columns, Derived, Key, Node, Outputs, Unary, Whole, all_columns, own_columns, up_to


@dataclass(frozen=True, eq=False)
class AsOf(Derived, tag="AsOf"):
    """Each left row with right rows of equal key as of its timestamp, or as of its arrival.

    ``rule`` with the columns ``stamps`` chooses the one right row that is nearest; without, all of the key are met.
    With ``keeps`` a left row that meets nothing has nulls. With ``locked`` a left row meets what is there at its own
    logical time (``simultaneous`` changes in or out), and keeps it; else the matches follow the right side. Keys and
    timestamps are not null. ``outputs`` as in ``Join``.
    """

    left: Node
    right: Node
    left_key: Key
    right_key: Key
    outputs: Outputs
    keeps: bool
    stamps: tuple[str, str] | None
    rule: AsOfRule | None
    locked: bool = False
    simultaneous: bool = True

    @property
    def inputs(self) -> tuple[Node, ...]:
        """Left and right."""
        return (self.left, self.right)

    def _schema(self) -> pa.Schema:
        """The output columns; those of the right side are nullable where a left row may meet nothing."""
        sides = (self.left.schema, self.right.schema)
        fields = [(side, sides[side].field(column).with_name(name)) for name, side, column in self.outputs]
        return pa.schema([f.with_nullable(f.nullable or (self.keeps and side == 1)) for side, f in fields])

    def describe(self) -> str:
        """Keys, outputs and which rows are met."""
        times = f"{self.stamps} {self.rule} {self.locked} {self.simultaneous}"
        return f"{self.left_key} {self.right_key} {self.outputs} {self.keeps} {times}"

    @property
    def title(self) -> str:
        """Its key."""
        return f"as-of join on {', '.join(self.left_key)}"

    def arrangement(self, i: int) -> Hashable | None:
        """The key of the side, with its timestamp where there are some; a locked left side is not arranged."""
        stamp = None if self.stamps is None else self.stamps[i]
        if self.locked and (i == 0 or stamp is None):
            return self.right_key if i else None
        return (self.left_key, self.right_key)[i], stamp

    def lineage(self, i: int) -> Mapping[str, str]:
        """The left side's columns: a test of the right side would choose another row."""
        return {n: c for n, side, c in self.outputs if side == i == 0}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """Rows that agree on the left side's columns; which right row is met is decided among all of the key."""
        left = own_columns(self.outputs, known)[0]
        if i == 0:
            return left
        return {r: left[k] for k, r in zip(self.left_key, self.right_key, strict=True) if k in left}

    def reads(self, i: int, needed: Columns) -> Columns:
        """A locked one distinguishes left rows by all of their columns; right rows tie by all of theirs."""
        wanted = frozenset(c for n, side, c in self.outputs if side == i and n in needed)
        fixed = frozenset((self.left_key, self.right_key)[i]) | frozenset((self.stamps or ())[i : i + 1])
        if i == 0:
            return all_columns(self.left) if self.locked else fixed | wanted
        if self.rule is None:
            return fixed | wanted
        return up_to(self.right, fixed | {column for column, _, _ in self.rule.ties}, wanted)

    def keeping(self, needed: Columns, inputs: Sequence[Node]) -> Node:
        """With fewer outputs."""
        left, right = inputs
        return replace(self, left=left, right=right, outputs=tuple(o for o in self.outputs if o[0] in needed))

    def shown(self, i: int) -> Mapping[str, str]:
        """The outputs of a side: of several right rows that look alike a row rests on all."""
        return {column: name for name, side, column in self.outputs if side == i}

    def is_nothing(self, empty: Sequence[bool]) -> bool:
        """Where there is no left row, or none meets anything."""
        return empty[0] or (empty[1] and not self.keeps)

    @property
    def needs_every_input(self) -> bool:
        """A left row at least."""
        return True

    @property
    def is_sum(self) -> bool:
        """A row is made of a row of each side."""
        return False

    @property
    def moves_times(self) -> bool:
        """A left row that is locked in stays."""
        return self.locked

    @property
    def arrival_verb(self) -> str | None:
        """That of a locked one."""
        return "a locked asof_join" if self.locked else None

    @property
    def reads_times(self) -> bool:
        """Where matches are locked in: what a row met depends on when it came."""
        return self.locked

    @property
    def is_by_arrival(self) -> bool:
        """Where it is locked."""
        return self.locked

    @property
    def hosts(self) -> bool:
        """It does."""
        return True


@dataclass(frozen=True, eq=False)
class UpdateTime(Unary, Whole, tag="UpdateTime"):
    """The same rows with the time at which each copy arrived; of copies the first to arrive is the first removed.

    What it gives depends on its input's history, so rules change nothing below it for the sake of what is above: two
    views that are written over one such collection say the same of a row.
    """

    def _schema(self) -> pa.Schema:
        """That of the input, and the time."""
        return self.input.schema.append(pa.field(UPDATE_TIME, pa.int64(), nullable=False))

    def describe(self) -> str:
        """Nothing beside the input."""
        return ""

    def shown(self, i: int) -> Mapping[str, str]:
        """All columns of the input."""
        return {c: c for c in self.input.schema.names}

    @property
    def title(self) -> str:
        """Its function."""
        return "update_time()"

    @property
    def arrival_verb(self) -> str | None:
        """Its verb."""
        return "update_time()"

    @property
    def reads_times(self) -> bool:
        """They are its column."""
        return True

    @property
    def is_by_arrival(self) -> bool:
        """It is."""
        return True

    @property
    def hosts(self) -> bool:
        """It does."""
        return True
