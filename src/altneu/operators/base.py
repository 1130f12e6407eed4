"""What every operator's operation is: a node's work in one step, in one shard, as a value that tasks are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from altneu.linear import BoundLogic
from altneu.operators.linear.logic import run_logic
from altneu.order import AltNeu, Antichain, Lattice, Product, Rounds, fixed, lifted_frontier, parted
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.hold import MERGED_BYTES, Holds
from altneu.trace.spine import Spine
from altneu.trace.update import Updates

IDENTITY = BoundLogic()
LOGIC_ERRORS = 2
"""The output on which hosts give the errors of the linear logic that they took over."""
MANY_ROWS = 1 << 18
"""Of more new updates than these readers see what is kept of them, which takes less room."""

Message = Updates | Arranged
Outputs: TypeAlias = Sequence[Message | None]
"""A value, or None, for each output of a node."""
Pieces = tuple[Updates | None, ...]
"""A piece of each output of a node."""
Kind: TypeAlias = str
"""What EXPLAIN calls an operator: a word or two."""


@dataclass(frozen=True)
class Region:
    """The times a step closes: outer times in ``[lower, upper)`` at the rounds given (none outside loops).

    ``since`` is how far history may be folded while the step runs, ``folded`` how far where no round of a loop comes
    back to it (None: as ``since``). What is about event times before ``events`` counts as of then.
    """

    lower: Antichain
    upper: Antichain
    since: Antichain
    rounds: tuple[int, ...] = ()
    folded: Antichain | None = None
    events: int = 0

    def inside(self, lattice: Lattice) -> Description:
        """The region's bounds in the times of a scope, for what a batch says of itself."""
        return _inside(self.lower, self.upper, self.since, self.events, lattice)

    def split(self, parts: list[Updates], lattice: Lattice) -> tuple[list[Updates], list[Updates]]:
        """Updates of this region, and future ones: of times at or beyond its upper, or of other rounds."""
        arrived, later = [], []
        rounds, upper = np.array(self.rounds, np.int64)[:, None], self.upper
        if fixed(lattice).is_total:
            upper = lifted_frontier(upper, fixed(lattice))
        for part in parts:
            times, at = parted(lattice, part.times)
            beyond = upper.less_equal(times[: upper.lattice.width])
            if len(rounds):
                beyond = beyond | (at != rounds).any(axis=0)
            if not beyond.any():
                arrived.append(part)
            else:
                arrived.append(part.filter(~beyond))
                later.append(part.filter(beyond))
        return arrived, later

    def from_events(self, updates: Updates, lattice: Lattice) -> Updates:
        """Updates about event times before ``events``, which are not retained apart, as of ``events``."""
        if not self.events or not has_events(lattice):
            return updates
        times = updates.times.copy()
        times[1] = np.maximum(times[1], self.events)
        return replace(updates, times=times)


@lru_cache(maxsize=16)
def _inside(lower: Antichain, upper: Antichain, since: Antichain, events: int, lattice: Lattice) -> Description:
    folded = lifted_frontier(since, lattice)
    if events and has_events(lattice):
        times = folded.elements.copy()
        times[1] = events
        folded = Antichain(lattice, times)
    return Description(lifted_frontier(lower, lattice), lifted_frontier(upper, lattice), folded)


def has_events(lattice: Lattice) -> bool:
    """Whether times have an event time, as their second coordinate."""
    while isinstance(lattice, AltNeu | Rounds):
        lattice = lattice.inner if isinstance(lattice, AltNeu) else lattice.outer
    return isinstance(lattice, Product)


@dataclass(frozen=True)
class ArrangementState:
    """What one arrangement keeps in one shard: the readable batches and the updates that are not due yet."""

    spine: Spine
    holds: Holds

    @classmethod
    def empty(cls, layout: Layout) -> ArrangementState:
        """That of an arrangement which nothing has come to yet."""
        return cls(Spine.empty(layout), Holds(layout.schema, layout.lattice))


Snapshot = Mapping[str, ArrangementState]
"""The states of one shard as they are when a stage begins, by name."""


@dataclass(frozen=True)
class StepMode:
    """How a step differs from the ordinary.

    ``given`` arrangements are read whole and as new (hydration); ``anew`` ones are there already and are computed again
    on the way (loops); ``budget`` bounds the matches of a join. With ``apart`` what is new is not put into its spine:
    whoever asks does that (``inserted``), with what other parts of the stage have made; ``later_part`` says that it is
    not the first of them. ``held`` bounds the bytes to which runs of held updates are merged.
    """

    shards: int = 1
    given: frozenset[str] = frozenset()
    hydrating: bool = False
    budget: int | None = None
    anew: frozenset[str] = frozenset()
    held: int = MERGED_BYTES
    apart: bool = False
    later_part: bool = False


class Here(Protocol):
    """A node in a stage that is being run: what an operation is given, and where it puts what it keeps."""

    shard: int
    region: Region
    mode: StepMode

    @property
    def schema(self) -> pa.Schema:
        """The schema of the node's output 0."""

    @property
    def label(self) -> str:
        """What errors call the node."""

    @property
    def lattice(self) -> Lattice:
        """The times of the node's updates."""

    @property
    def inputs(self) -> int:
        """How many inputs the node has."""

    def lattice_of_input(self, place: int) -> Lattice:
        """The times of the updates on an input."""

    # what comes in

    def received(self) -> list[Updates]:
        """The updates on the node's inputs, from this stage or an earlier one."""

    def one(self) -> Updates | None:
        """The same as one, None where there are none."""

    def arranged(self, place: int = 0) -> Arranged:
        """The arrangement on an input, with what is new to it in this step (perhaps nothing)."""

    def inserted_rows(self) -> list[Updates]:
        """The updates that the session was given for a source."""

    # what goes out otherwise than by a port

    def summed(self, made: Updates | None, *, settle: bool = False) -> Updates | None:
        """What an operation that sums updates up has made, with what it made of pieces that came before.

        With ``settle`` sums that rows reach by many ways are consolidated.
        """

    def ready(self, outputs: int) -> Outputs:
        """What an operation made that runs in pieces, where it made so little that it is one."""

    def show(self, updates: Updates) -> None:
        """Hand updates to the node's Python function, after the commit."""

    def measure(self, came: int | None = None, went: int | None = None) -> None:
        """Say how many rows came in or went out, where the node's ports do not tell."""

    # what is kept

    def state(self, name: str, layout: Layout) -> ArrangementState:
        """What is kept under a name, with what this stage has done to it."""

    def known(self, name: str) -> ArrangementState | None:
        """The same, None where nothing is kept under the name."""

    def keep(self, name: str, state: ArrangementState) -> None:
        """Keep a state in the place of what was kept."""

    def stored(self, name: str) -> ArrangementState | None:
        """What was kept under a name when the step began."""

    def put(self, name: str, state: ArrangementState, new: Batch) -> None:
        """Put a new batch into an arrangement, and keep its held updates."""

    @property
    def pended(self) -> tuple[str, Layout]:
        """The name and layout of the state in which a reduce notes where to look again in later rounds."""

    # times

    def description(self, lattice: Lattice) -> Description:
        """The region in the times of a scope."""

    def present(self, updates: Updates, lattice: Lattice) -> Updates:
        """What a hydration reads comes all at once: how much of history is folded already makes no difference."""


class Operation(ABC):
    """What a node of a physical plan does in one step and one shard.

    ``tag`` is what the names of state call a class, whatever it is renamed to: stores are read by them. ``kind`` is
    what EXPLAIN calls it. What an ``additive`` operation makes of a sum is the sum of what it makes of the parts, and
    it keeps nothing; a ``summing`` one consolidates what it gets, piece by piece. One that ``starts`` may make
    something of no input in a step that fills views. Where it reads its inputs by several keys, its stage is run
    ``whole``: not for some keys after the others.
    """

    tag: ClassVar[str]
    kind: ClassVar[Kind]
    additive: ClassVar[bool] = False
    summing: ClassVar[bool] = False
    starts: ClassVar[bool] = False
    whole: ClassVar[bool] = False

    def __init_subclass__(cls, tag: str = "", kind: Kind | None = None) -> None:
        super().__init_subclass__()
        if tag:
            cls.tag = tag
        if kind is not None:
            cls.kind = kind

    @abstractmethod
    def step(self, here: Here) -> Outputs:
        """What the node makes of what has come in: a value, or None, for each output."""

    def in_pieces(self, here: Here) -> Iterator[Pieces] | None:
        """The same piece by piece, where it may be much more than what came in; None where it is one value."""
        return None

    @property
    def word(self) -> Kind:
        """What EXPLAIN calls it: its kind, where that is not a matter of what it is given."""
        return self.kind

    @property
    def keeps(self) -> tuple[str, Layout] | None:
        """The name and layout of the state that it keeps."""
        return None

    @property
    def takes_from(self) -> str | None:
        """The name of the state from whose held updates it takes those that are due."""
        return None

    @property
    def reads(self) -> str | None:
        """The name of a state that it reads without changing it."""
        return None

    def lies_by(self) -> tuple[str, ...] | None:
        """By which columns the updates on its first input lie in their shards, where no exchange says."""
        return None


@dataclass(frozen=True)
class Hosting(Operation):
    """An operation that takes over the linear logic that alone reads its rows, and applies it to them at once.

    Output 0 the rows, output 1 its own errors, output 2 those of the logic.
    """

    flows: ClassVar[bool] = False
    """Whether it makes its rows in pieces, so that logic may make many rows of each."""

    logic: BoundLogic = field(default=IDENTITY, kw_only=True)

    def finished(self, rows: Updates, errors: Updates) -> Outputs:
        """What the operation made, with the logic that it took over applied."""
        if not self.logic:
            return [rows, errors]
        passed, failed = run_logic(self.logic, rows)
        return [passed, errors, failed]
