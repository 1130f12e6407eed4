"""What lowering a node is given: the plan under construction, and where the rows of its inputs are.

An operator's lowering is in its folder, in ``lowering.py``: from its node to its operations, and to the
arrangements that they read. ``altneu.plan.lower`` makes the plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from altneu.columnar.ranking import Order, order_text
from altneu.linear import BoundLogic, Outputs
from altneu.linear.lineage import projections
from altneu.operators.base import Hosting, Operation
from altneu.operators.linear.node import Linear
from altneu.operators.loop.node import Loop
from altneu.operators.node import Columns, Key, Node
from altneu.order import Lattice


class Port(NamedTuple):
    """One output of one operation."""

    node: int
    output: int = 0


@dataclass(frozen=True)
class Lowered:
    """A logical node's output port and where its rows are.

    ``spread`` is the key that decides their shard (None: not known; the empty key: all are in one shard); ``settled``
    says that equal rows are always in the same shard, whatever decides it. Rows straight from a source are neither:
    they come from any task.
    """

    port: Port
    spread: Key | None
    settled: bool = True


@dataclass(frozen=True)
class OpenLoop:
    """A loop that is being lowered: its scope, its variables there, its name among all loops, and where it stops."""

    scope: int
    variables: tuple[Lowered, ...]
    name: str
    limit: int | None


class Earlier(Protocol):
    """An earlier version of a source, made of the ``present`` one by logic; ``same`` are columns that are called alike.

    These have the same types in both.
    """

    @property
    def present(self) -> Node:
        """The source as it is now."""

    @property
    def logic(self) -> BoundLogic:
        """What makes rows of the earlier version of its rows."""

    @property
    def same(self) -> Columns:
        """The columns that need not be made."""


class Lowering(Protocol):
    """A plan under construction; ``loops`` are those that are being lowered, by level.

    ``errors_show_all`` are fingerprints of linear nodes whose errors show all columns of a row, not only those read.
    ``earlier`` has, by fingerprint, the sources that are earlier versions of others.
    """

    lattice: Lattice
    shards: int
    errors_show_all: Collection[str]
    earlier: Mapping[str, Earlier]
    loops: dict[int, OpenLoop]

    def lower(self, node: Node) -> Lowered:
        """Lower a node and all it depends on, once."""

    def add(
        self,
        operation: Operation,
        inputs: tuple[Port, ...],
        schema: pa.Schema,
        *,
        exchange: Key | None = None,
        label: str = "",
        logical: str = "",
        scope: int | None = None,
        notes: tuple[str, ...] = (),
    ) -> int:
        """Append an operation, in the innermost scope of its inputs where none is given; its number."""

    def input_of(self, node: Linear) -> Node:
        """What the logic of a node reads: its input, or the present version of a source if it has all of that."""

    def once(self, name: str, make: Callable[[], int]) -> int:
        """The operation of a name, made at the first call."""

    def arrange(
        self,
        lowered: Lowered,
        key: Key,
        origin: str,
        label: str,
        order: tuple[Order, ...] = (),
        *,
        changes_only: bool = False,
    ) -> int:
        """The arrangement of a port by a key, made once; ``origin`` names the collection across processes."""

    def arranged_already(self, lowered: Lowered, state: int) -> None:
        """Note that an operation arranges the rows of a port by the key that partitions them, and is read instead."""

    def host_of(self, node: Node) -> Hosting | None:
        """The operation of a node that is lowered, if it takes over logic and has one reader."""

    def give(self, port: Port, logic: BoundLogic, node: Node) -> None:
        """Have the operation of a port take over logic; its rows are those of a node then."""

    def may_fail(self, node: Node, errors: Lowered) -> None:
        """Note that an operation has errors: each origin keeps its own."""

    def name_of(self, node: Node) -> str:
        """A name for a collection across processes: that of its plan, and of the loops it is in."""

    def entered(self, lowered: Lowered, scope: int) -> Lowered:
        """Updates as they are seen in a loop; those that are there already as they are."""

    def left(self, lowered: Lowered) -> Lowered:
        """Updates as they are seen outside the innermost scope that they are in."""

    def scope_of(self, lowered: Lowered) -> int:
        """The scope that a lowered node's updates are in."""

    def innermost(self, scopes: Iterable[int]) -> int:
        """Of scopes that are inside one another the innermost.

        Raises:
            PlanError: they are not.
        """

    def event_scope(self, names: tuple[str, ...]) -> int:
        """The scope of what has times of its own."""

    def loop_scope(self, loop: Loop, notes: tuple[str, ...]) -> int:
        """A new scope for a loop, inside the innermost scope of what the loop reads."""

    def moment_scope(self, lowered: Lowered, level: int, depth: int) -> int:
        """The scope of the moments, so many inside one another, of the times of a loop, or (-1) of the outer times."""

    def around(self, scope: int) -> int:
        """The scope that a scope is in."""

    def results_of(self, loop: Node, make: Callable[[str], tuple[Lowered, ...]]) -> tuple[Lowered, ...]:
        """The results of the variables of a loop, or of feedback, outside it, made once for its name."""

    def lattice_in(self, scope: int) -> Lattice:
        """The times of a scope."""


def arrangement_id(origin: str, key: Key) -> str:
    """What an arrangement by a key is called in every process."""
    return hashlib.blake2b(f"{origin}|{key}".encode(), digest_size=12).hexdigest()


def below_zero_name(origin: str, order: tuple[Order, ...]) -> str:
    """What the numbers of rows with counts below zero are called, of an arrangement of ``origin`` in an order."""
    return f"below zero|{origin}|by {order_text(order)}"


def arrange_label(key: Key) -> str:
    """What an arrangement of rows is called, whether joins or reduces read it: both may, and other views' too."""
    return f"arrange by {', '.join(key)}" if key else "one group"


def group_label(key: Key) -> str:
    """What the numbers of groups are called."""
    return f"group by {', '.join(key)}" if key else "one group"


def spread_after(logic: BoundLogic, spread: Key | None) -> Key | None:
    """By which columns rows are still spread after linear logic."""
    for step in logic.steps:
        outputs_of = projections(step)
        if spread is None or outputs_of is None:
            return None
        if outputs_of:
            spreads = {_carried(outputs, spread) for outputs in outputs_of}
            spread = spreads.pop() if len(spreads) == 1 else None
    return spread


def _carried(outputs: Outputs, spread: Key) -> Key | None:
    """The names that columns have after a projection; None when one of them is not handed on."""
    names: dict[str, str] = {}
    for name, expression in outputs:
        if expression.is_column:
            names.setdefault(expression.column_name, name)
    return tuple(names[k] for k in spread) if all(k in names for k in spread) else None


def by_row(to: Lowering, node: Node, operation: Operation, label: str) -> Lowered:
    """An operation for which equal rows must meet, however they are spread."""
    lowered = to.lower(node)
    everything = tuple(node.schema.names)
    number = to.add(
        operation,
        (lowered.port,),
        node.schema,
        exchange=everything if lowered.spread is None else None,
        label=label,
        logical=node.fingerprint,
    )
    return Lowered(Port(number), everything if lowered.spread is None else lowered.spread)
