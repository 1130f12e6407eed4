"""What every operator's operation is: a node's work in one step, in one shard, as a value that tasks are sent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import ClassVar, Literal, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from altneu.columnar.immutable import immutable, lazy
from altneu.expressions import Expr
from altneu.linear import BoundLogic
from altneu.operators.linear.logic import run_logic
from altneu.order import AltNeu, Antichain, Lattice, Product, Rounds, fixed, lifted_frontier, parted
from altneu.trace.batch import Arranged, Batch, Description, Layout
from altneu.trace.future import MERGED_BYTES, FutureUpdates
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
Bound = Literal["the change", "the groups touched", "everything"]
CHANGE: Bound = "the change"
GROUPS: Bound = "the groups touched"
EVERYTHING: Bound = "everything"
COSTS: dict[Bound, str] = {CHANGE: "|change|", GROUPS: "rows of the groups touched", EVERYTHING: "n"}
_FEW = 64  # updates whose times are looked at one by one
BY_KEY = "|change| log n"  # what is new is looked up, or merged


@immutable(frozen=True)
class Region:
    """The times a step closes: outer times in ``[lower, upper)`` at the rounds given (none outside loops).

    ``since`` is how far history may be folded while the step runs, ``compacted`` how far where no round of a loop comes
    back to it (None: as ``since``). What is about event times before ``events`` counts as of then. ``kept`` are the
    arrangements whose history is folded less far, each up to a time of its own.
    """

    lower: Antichain
    upper: Antichain
    since: Antichain
    rounds: tuple[int, ...] = ()
    compacted: Antichain | None = None
    events: int = 0
    kept: Mapping[str, int] | None = None

    def since_of(self, name: str, lattice: Lattice) -> Antichain:
        """How far the history of an arrangement may be folded, in the times of its scope."""
        kept, since = self.kept.get(name) if self.kept else None, self.since.least
        if kept is None or since is None or since <= kept:
            return self.inside(lattice).since
        return _inside(self.lower, self.upper, Antichain.of(self.since.lattice, kept), self.events, lattice).since

    def inside(self, lattice: Lattice) -> Description:
        """The region's bounds in the times of a scope, for what a batch says of itself."""
        known = self._inside.get(id(lattice))
        if known is None or known[0] is not lattice:
            own = self.lower.lattice  # which has no event times
            if lattice is own:
                description = Description(self.lower, self.upper, self.since)
            elif lattice == own:
                description = self.inside(own)
            else:
                description = _inside(self.lower, self.upper, self.since, self.events, lattice)
            known = self._inside[id(lattice)] = lattice, description
        return known[1]

    @lazy
    def _inside(self) -> dict[int, tuple[Lattice, Description]]:
        return {}  # by the identity of the lattice: a hash takes longer

    def at(self, rounds: tuple[int, ...]) -> Region:
        """The same at other rounds."""
        other = object.__new__(Region)
        attributes = {"_inside": self._inside, "final": self.final, "rounds": rounds}  # nothing cached depends on them
        other.__dict__.update(self.__dict__, **attributes)
        return other

    @lazy
    def final(self) -> Region:
        """The same with history compacted as far as where no round of a loop comes back to it."""
        since = self.compacted
        return self if since is None or since is self.since else replace(self, since=since, rounds=())

    def split(self, parts: list[Updates], lattice: Lattice) -> tuple[list[Updates], list[Updates]]:
        """Updates of this region, and future ones: of times at or beyond its upper, or of other rounds."""
        arrived: list[Updates] = []
        later: list[Updates] = []
        least = self.upper.least
        if lattice is self.upper.lattice and least is not None:
            for part in parts:
                if 0 < part.diffs.size <= _FEW and max(part.times[0].tolist()) < least:
                    arrived += (part,)
                    continue
                due = part.times[0] < least
                if np.count_nonzero(due) == len(due):
                    arrived.append(part)
                else:
                    arrived.append(part.filter(due))
                    later.append(part.filter(~due))
            return arrived, later
        if (
            least is not None
            and lattice.__class__ is Rounds
            and lattice.outer is self.upper.lattice
            and len(self.rounds) == lattice.depth
            and all([0 < part.diffs.size <= _FEW for part in parts])  # noqa: C419  # a generator takes longer
        ):
            return self._split_few(parts, least)
        upper = self.upper
        if fixed(lattice).is_total:
            upper = lifted_frontier(upper, fixed(lattice))
        for part in parts:
            times, at = parted(lattice, part.times)
            beyond = upper.less_equal(times[: upper.lattice.width])
            for line, number in zip(at, self.rounds, strict=False):
                beyond |= line != number
            if not np.count_nonzero(beyond):
                arrived.append(part)
            else:
                arrived.append(part.filter(~beyond))
                later.append(part.filter(beyond))
        return arrived, later

    def _split_few(self, parts: list[Updates], least: int) -> tuple[list[Updates], list[Updates]]:
        """The same of few updates in a round of loops, whose times are looked at one by one."""
        arrived: list[Updates] = []
        later: list[Updates] = []
        wanted = [*self.rounds]
        for part in parts:
            times = part.times.T.tolist()
            due = [time[1:] == wanted and time[0] < least for time in times]
            if all(due):
                arrived.append(part)
            elif not any(due):
                later.append(part)
            else:
                arrived.append(part.take(np.array([i for i, is_due in enumerate(due) if is_due])))
                later.append(part.take(np.array([i for i, is_due in enumerate(due) if not is_due])))
        return arrived, later

    def from_events(self, updates: Updates, lattice: Lattice) -> Updates:
        """Updates about event times before ``events``, which are not retained apart, as of ``events``."""
        if not self.events or not has_events(lattice):
            return updates
        times = updates.times.copy()
        times[1] = np.maximum(times[1], self.events)
        return replace(updates, times=times)


def _inside(lower: Antichain, upper: Antichain, since: Antichain, events: int, lattice: Lattice) -> Description:
    compacted = lifted_frontier(since, lattice)
    if events and has_events(lattice):
        times = compacted.elements.copy()
        times[1] = events
        compacted = Antichain(lattice, times)
    return Description(lifted_frontier(lower, lattice), lifted_frontier(upper, lattice), compacted)


def has_events(lattice: Lattice) -> bool:
    """Whether times have an event time, as their second coordinate, or more."""
    return own_times(lattice) > 0


def own_times(lattice: Lattice) -> int:
    """How many times of their own rows have, which are the coordinates after the first."""
    while isinstance(lattice, AltNeu | Rounds):
        lattice = lattice.inner if isinstance(lattice, AltNeu) else lattice.outer
    return lattice.width - 1 if isinstance(lattice, Product) else 0


@immutable(frozen=True)
class ArrangementState:
    """What one arrangement keeps in one shard: the readable batches and the updates that are not due yet."""

    spine: Spine
    future: FutureUpdates

    @property
    def rows(self) -> int:
        """The number of its updates."""
        future = self.future
        return self.spine.rows + len(future) if future.buckets else self.spine.rows

    @classmethod
    def empty(cls, layout: Layout) -> ArrangementState:
        """That of an arrangement which nothing has come to yet."""
        return cls(Spine.empty(layout), FutureUpdates(layout.schema, layout.lattice))


class Snapshot(Mapping[str, ArrangementState]):
    """The states of one shard as they are when a stage begins, by name."""

    @property
    def waiting(self) -> Collection[str] | None:
        """The names of the states that have future updates; None where only opening them tells."""
        return None


class Opened(Snapshot):
    """A snapshot of states that are in memory, none of them by default."""

    def __init__(self, states: Mapping[str, ArrangementState] = MappingProxyType({})) -> None:
        self._states = states

    def __getitem__(self, name: str) -> ArrangementState:
        return self._states[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)


@immutable(frozen=True, eq=False)
class Heavy:
    """Keys that have more rows than one task should take, by the channels on which their rows are sent.

    The rows of ``cut`` channels are divided, by the values of some columns (none: they are added up instead); those of
    channels ``beside`` are sent to all who take a part (``runtime/divided.py``). Keys are sorted hashes.
    """

    cut: Mapping[int, tuple[np.ndarray, tuple[str, ...]]]
    beside: Mapping[int, np.ndarray]

    def __contains__(self, channel: int) -> bool:
        return channel in self.cut or channel in self.beside

    def homes(self, shards: int) -> int:
        """The number of shards in which such keys are, but at least one: of so many a task may have a slice at once."""
        return len({int(key) % shards for keys, _ in self.cut.values() for key in keys.tolist()}) or 1


@immutable(frozen=True)
class StepMode:
    """How a step differs from the ordinary.

    ``given`` arrangements are read whole and as new (hydration); ``anew`` ones are there already and are computed again
    on the way (loops); ``budget`` bounds the matches of a join. With ``apart`` what is new is not put into its spine:
    whoever asks does that (``inserted``), with what other parts of the stage have made; ``later_part`` says that it is
    not the first of them. ``future_bytes`` bounds the bytes to which runs of future
    updates are merged. The work for ``heavy`` keys is divided over tasks.
    """

    shards: int = 1
    given: frozenset[str] = frozenset()
    hydrating: bool = False
    budget: int | None = None
    anew: frozenset[str] = frozenset()
    future_bytes: int = MERGED_BYTES
    apart: bool = False
    later_part: bool = False
    heavy: Heavy | None = None


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

    def summed(self, updates: Updates | None, *, settle: bool = False) -> Updates | None:
        """What an operation that sums updates up has made, with what it made of pieces that came before.

        With ``settle`` sums that rows reach by many ways are consolidated.
        """

    def ready(self, outputs: int) -> Outputs:
        """What an operation made that runs in pieces, where it made so little that it is one."""

    def show(self, updates: Updates) -> None:
        """Hand updates to the node's Python function, after the commit."""

    def measure(self, rows_in: int | None = None, rows_out: int | None = None) -> None:
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
        """Put a new batch into an arrangement, and keep its future updates."""

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
    what EXPLAIN calls it.

    A fact is abstract where a wrong value makes wrong rows: the state that it keeps and reads, when it runs without
    input, how its stage may be divided, whether its rows may be read back, and what bounds its cost, by which plans
    are refused. ``Stateless``, ``RowByRow``, ``OverArrangements`` and
    ``Hosting`` state those that follow from their definitions. A fact has
    a default where the default is right for every operation and only costs time or a word: it is not ``additive``
    (pieces of its input wait until all are there), not ``summing`` (they are not consolidated while they wait), makes
    one value (``in_pieces``), reads every column (``columns_read``), and EXPLAIN shows its label and nothing more.
    """

    tag: ClassVar[str]
    kind: ClassVar[Kind]

    def __init_subclass__(cls, tag: str = "", kind: Kind | None = None) -> None:
        super().__init_subclass__()
        if tag:
            cls.tag = tag
        if kind is not None:
            cls.kind = kind

    @abstractmethod
    def step(self, here: Here) -> Outputs:
        """What the node makes of what has come in: a value, or None, for each output."""

    # state ----------------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def keeps(self) -> tuple[str, Layout] | None:
        """The name and layout of the state that it keeps."""

    @property
    @abstractmethod
    def takes_from(self) -> str | None:
        """The name of the state from whose future updates it takes those that are due."""

    @property
    @abstractmethod
    def reads(self) -> str | None:
        """The name of a state that it reads without changing it."""

    @property
    @abstractmethod
    def looks_again(self) -> bool:
        """Whether it computes groups again at later times, in scopes whose times do not form a chain.

        A change at one time and one at another may meet at a third, the join of both, at which nothing is new. These
        times are stored until the step reaches them (``Here.pended``, ``operators/reduce/rounds.py``).
        """

    @property
    @abstractmethod
    def starts(self) -> bool:
        """Whether it may make something of no input in a step that fills views."""

    @property
    def comes_back(self) -> int | None:
        """After how many ticks its input comes back at another operation that has nothing else to do with it.

        A step goes no further than that. None: never, or in a later round of the same time.
        """
        return None

    def looked_up_for(self, place: int) -> frozenset[int] | None:
        """The inputs for whose new updates it looks up what the arrangement on an input had before the step.

        None if it may look there whatever is new. If all of these never change again, the arrangement need not be
        stored for this operation (``plan/static.py``).
        """
        return None

    # where rows are -------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def whole(self) -> bool:
        """Whether it reads its inputs by several keys, so that its stage is not run for some keys after the others."""

    @abstractmethod
    def lies_by(self) -> tuple[str, ...] | None:
        """By which columns the updates on its first input lie in their shards, where no exchange says."""

    @abstractmethod
    def exchange_key(self, schema: pa.Schema) -> tuple[str, ...] | None:
        """The columns by which its input is exchanged in a plan of its own, such as that which fills a late view.

        None where it needs no exchange but those of the plan that it was made for. ``schema`` is that of output 0.
        """

    # what its rows are ----------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def makes_rows(self) -> bool:
        """Whether output 0 are rows as an arrangement of them has them, so that these may be read in its place."""

    @property
    @abstractmethod
    def at_each_time(self) -> bool:
        """Whether its rows at each time follow from the rows of its inputs at that time, whenever they arrived.

        Where they do not, a view that is added later cannot be computed from the rows that are there. Logic that it
        applies may delay them all the same: ``is_timeless`` says of both.
        """

    @property
    def is_timeless(self) -> bool:
        """Whether that is so with the logic that it applies, which may be that of a delay behind it."""
        return self.at_each_time and not self.applied.delay

    @property
    @abstractmethod
    def bound(self) -> Bound:
        """What bounds the cost of a step: of one group, that the groups touched do means everything does."""

    @property
    def cost(self) -> str:
        """What a step costs, as a formula of |change|, the rows that are new at its inputs, and n, those that it keeps.

        Rows that are read, times what finding them takes. Tested by counting (tests/session/test_cost.py).
        """
        return COSTS[self.bound]

    # how it runs ----------------------------------------------------------------------------------------------------

    @property
    def additive(self) -> bool:
        """Whether what it makes of a sum is the sum of what it makes of the parts, and it keeps nothing."""
        return False

    @property
    def summing(self) -> bool:
        """Whether it consolidates its input, so that pieces of it may be consolidated one by one."""
        return False

    @property
    def shows(self) -> bool:
        """Whether it shows what passes, so that it runs although it keeps nothing and nobody reads it."""
        return False

    @property
    def is_sum(self) -> bool:
        """Whether it adds several inputs up, consolidated where rows reach it along many paths (``Here.summed``)."""
        return False

    @property
    def is_linear(self) -> bool:
        """Whether it is the linear logic that it applies, and nothing else."""
        return False

    @property
    def applied(self) -> BoundLogic:
        """The linear logic that it applies to its rows."""
        return IDENTITY

    def in_pieces(self, here: Here) -> Iterator[Pieces] | list[Message | None] | None:
        """The same piece by piece, where it may be much more than what came in; a list where it is little.

        None where ``step`` makes it.
        """
        return None

    @property
    def flows(self) -> bool:
        """Whether ``in_pieces`` ever gives pieces: it is not asked otherwise."""
        return type(self).in_pieces is not Operation.in_pieces

    def columns_read(self, schema: pa.Schema) -> frozenset[str] | None:
        """The columns that it reads of an input with a schema; None for all of them."""
        return None

    def tests_of(self, schema: pa.Schema, now: int | None) -> tuple[Expr, ...]:
        """Tests that a row of an input with this schema must pass for the operation to make anything of it.

        None of the tests can fail. ``now`` is the time of all rows, None if they have several.
        """
        return ()

    # what EXPLAIN says ----------------------------------------------------------------------------------------------

    @property
    def word(self) -> Kind:
        """What EXPLAIN calls it: its kind, where that is not a matter of what it is given."""
        return self.kind

    def described(self, label: str, *, own_times: int) -> str:
        """What EXPLAIN shows of an operation with a label, in a scope where updates have so many times of their own."""
        return label

    @property
    def is_named(self) -> bool:
        """Whether its label is part of the name of its stage."""
        return True

    @property
    def has_paths(self) -> bool:
        """Whether the operations between arrangements and it are shown as its parts."""
        return False

    @property
    def is_by_arrival(self) -> bool:
        """Whether a view of it depends on when rows arrived."""
        return False

    @property
    def retained(self) -> str:
        """The state that it keeps, in words."""
        return ""

    def works_by(self, first: Layout | None) -> tuple[str, ...]:
        """The key by which it works; ``first`` is the layout of its first input, where that is an arrangement."""
        return ()


class Stateless(Operation):
    """An operation without state of its own: what it makes is a function of its inputs in this step."""

    @property
    def keeps(self) -> None:
        """Nothing."""

    @property
    def takes_from(self) -> None:
        """Nothing."""

    @property
    def reads(self) -> None:
        """Nothing."""

    @property
    def looks_again(self) -> bool:
        """It does not."""
        return False

    @property
    def starts(self) -> bool:
        """No input, no output."""
        return False


class RowByRow(Stateless):
    """An operation that looks at one update at a time, so that its input may lie and be divided anyhow."""

    bound = CHANGE
    makes_rows = True
    whole = False

    @property
    def additive(self) -> bool:
        """It is."""
        return True

    def lies_by(self) -> None:
        """Anyhow."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """None."""


class OverArrangements(Stateless):
    """An operation all of whose inputs are arrangements, which lie by their keys and stay where they are."""

    def lies_by(self) -> None:
        """By their keys."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """None."""


@dataclass(frozen=True)
class Hosting(OverArrangements):
    """An operation over arrangements that takes over the linear logic that alone reads its rows, and applies it.

    Output 0 the rows, output 1 its own errors, output 2 those of the logic.
    """

    flows: ClassVar[bool] = False
    """Whether it makes its rows in pieces, so that logic may make many rows of each."""
    makes_rows = True

    logic: BoundLogic = field(default=IDENTITY, kw_only=True)

    def finished(self, rows: Updates, errors: Updates) -> Outputs:
        """What the operation made, with the logic that it took over applied."""
        if not self.logic:
            return [rows, errors]
        passed, failed = run_logic(self.logic, rows)
        return [passed, errors, failed]

    @property
    def applied(self) -> BoundLogic:
        """What it took over."""
        return self.logic

    def described(self, label: str, *, own_times: int) -> str:
        """With the logic that it took over."""
        return f"{label}, then {self.logic}" if self.logic else label

    def works_by(self, first: Layout | None) -> tuple[str, ...]:
        """That of the arrangement that it reads first."""
        return () if first is None or self.whole else first.key
