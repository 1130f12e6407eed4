"""What a function of groups means that sees its own output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from altneu.columnar.ranking import Order
from altneu.linear import Function
from altneu.operators.node import Columns, Key, Node, Unary, all_columns


@dataclass(frozen=True, eq=False)
class ReduceCore(Unary, tag="ReduceCore"):
    """The rows to which the changes of a group's output add up that a function gives whenever the group changes.

    The function sees the changes of the group, the group, and its output so far, so what it gives may depend on how the
    group became what it is: rules leave what is below for the sake of what is above.
    """

    key: Key
    function: Function
    result: pa.Schema
    order: tuple[Order, ...] = ()

    def _schema(self) -> pa.Schema:
        """The key, then the columns of the result."""
        return pa.schema([*(self.input.schema.field(name) for name in self.key), *self.result])

    def describe(self) -> str:
        """Key, function, result and order."""
        order = f" in order {self.order!r}" * bool(self.order)
        return f"{self.key} {self.function!r} {[(f.name, str(f.type)) for f in self.result]}{order}"

    @property
    def title(self) -> str:
        """The function, and the key."""
        by = f"group by {', '.join(self.key)}" if self.key else "one group"
        return f"reduce_core {self.function.name}, {by}"

    @property
    def noun(self) -> str:
        """As of any function of groups."""
        return "an aggregate or distinct"

    def lineage(self, i: int) -> Mapping[str, str]:
        """The key: a group is there as a whole or not at all."""
        return {k: k for k in self.key}

    def decides(self, i: int, known: Columns) -> Mapping[str, str]:
        """The rows of the group."""
        return {k: k for k in self.key if k in known}

    def reads(self, i: int, needed: Columns) -> Columns:
        """The function may read any."""
        return all_columns(self.input)

    def is_nothing(self, empty: tuple[bool, ...]) -> bool:  # type: ignore[override]
        """A group without rows has no output."""
        return empty[0]

    def shown(self, i: int) -> Mapping[str, str]:
        """The key."""
        return {k: k for k in self.key}

    def arrangement(self, i: int) -> tuple[Key, tuple[Order, ...]]:
        """By the key, in the order."""
        return self.key, self.order

    @property
    def moves_times(self) -> bool:
        """The output of a group changes with any of its rows."""
        return True

    @property
    def reads_times(self) -> bool:
        """What it gives depends on the order in which changes come."""
        return True

    @property
    def is_by_arrival(self) -> bool:
        """It may be."""
        return True

    @property
    def arrival_verb(self) -> str | None:
        """Its verb."""
        return "reduce_core"

    def functions(self) -> Iterable[Function]:
        """The one."""
        return (self.function,)

    def with_functions(self, change: Callable[[Function], Function]) -> Node:
        """With it changed."""
        return replace(self, function=change(self.function))
