"""Where rows come from: what a session was given, constants, and commands to sources that are sets or have a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.base import (
    BY_KEY,
    CHANGE,
    ArrangementState,
    Here,
    Operation,
    Outputs,
    OverArrangements,
    Stateless,
)
from altneu.operators.source.keyed import conflicts
from altneu.trace.batch import Layout
from altneu.trace.spine import Spine
from altneu.trace.update import Updates


@dataclass(frozen=True)
class SourceOp(Stateless, tag="SourceOp", kind="source"):
    """Updates that a session was given for a source."""

    makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    name: str

    def step(self, here: Here) -> Outputs:
        """All of them, together."""
        parts = here.inserted_rows()
        if not parts[1:]:
            return [parts[0] if parts else None]
        return [Updates.concat(parts, here.schema, here.lattice.width)]

    def lies_by(self) -> None:
        """It has no input."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """It has no input."""


@dataclass(frozen=True)
class ConstantOp(Stateless, tag="ConstantOp", kind="constant"):
    """Rows of the least time; they flow once, when what reads them is hydrated."""

    starts = makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    rows: tuple[tuple[object, ...], ...]

    def step(self, here: Here) -> Outputs:
        """The rows, in one shard of a step that fills views."""
        first = here.shard == 0 and not here.mode.later_part
        if not here.mode.hydrating or not first:
            return [None]
        rows = Rows.from_pylist(self.rows, here.schema)
        times = np.repeat(here.region.since.elements[:, :1], rows.count, axis=1)
        return [Updates(rows, times, np.ones(rows.count, np.int64))]

    def lies_by(self) -> None:
        """It has no input."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """It has no input."""


@dataclass(frozen=True)
class CommandsOp(Operation, tag="CommandsOp", kind="commands"):
    """Commands to a source that are due; those of later times wait, and nothing else is kept."""

    starts = looks_again = makes_rows = at_each_time = whole = False
    reads = None
    bound = CHANGE
    retained = "future commands only, and none that were carried out"

    arrangement: str
    layout: Layout

    @property
    def cost(self) -> str:
        """Of each key that has commands its row."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """The commands that have come and are due, and those that waited for these times."""
        layout = self.layout
        parts, future = here.received(), here.state(self.arrangement, layout).future
        due, waiting = future.take(here.region.rounds, here.region.upper)
        arrived, later = here.region.split(parts, layout.lattice)
        if later:
            waiting = waiting.add(Updates.concat(later, layout.schema, layout.lattice.width), here.mode.future_bytes)
        if due or later:
            here.keep(self.arrangement, ArrangementState(Spine.empty(layout), waiting))
        if not (due or arrived):
            return [None]
        return [Updates.concat([*due, *arrived], layout.schema, layout.lattice.width)]

    @property
    def keeps(self) -> tuple[str, Layout]:
        """The commands that wait."""
        return self.arrangement, self.layout

    @property
    def takes_from(self) -> str:
        """The same."""
        return self.arrangement

    def lies_by(self) -> None:
        """As the exchange says."""

    def exchange_key(self, schema: pa.Schema) -> tuple[str, ...]:
        """Commands of one key meet."""
        return self.layout.key

    def works_by(self, first: Layout | None) -> tuple[str, ...]:
        """That of the commands."""
        return self.layout.key


@dataclass(frozen=True)
class RowsOp(OverArrangements, tag="RowsOp", kind="rows"):
    """The rows of an arrangement that commands change; output 1 the errors of keys that have several rows.

    Where the ``key`` is the whole row, no key has.
    """

    makes_rows = True
    at_each_time = whole = False  # they depend on the order in which commands came
    bound = CHANGE

    key: tuple[str, ...] | None

    @property
    def cost(self) -> str:
        """Of each key that changes its rows."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """What is new of the rows."""
        arranged = here.arranged()
        if not len(arranged.new):
            return [None, None]
        return [arranged.new.updates(), conflicts(arranged, here.label) if self.key else None]
