"""Functions of groups as operations."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.base import (
    BY_KEY,
    CHANGE,
    GROUPS,
    Bound,
    Here,
    Hosting,
    Kind,
    Operation,
    Outputs,
    OverArrangements,
    RowByRow,
    Stateless,
)
from altneu.operators.kernels.below_zero import below_zero
from altneu.operators.kernels.groups import Groups, ReduceOutput
from altneu.operators.kernels.small_around import stretches
from altneu.operators.kernels.small_ends import is_small
from altneu.operators.reduce.accumulable import negative_rows, present_rows
from altneu.operators.reduce.accumulate import Accumulator
from altneu.operators.reduce.best_rows import Orders, added, may_be_first
from altneu.operators.reduce.collate import Collation, collate
from altneu.operators.reduce.needed import read_needed
from altneu.operators.reduce.node import WHOLE, Around, Ends, Needed
from altneu.operators.reduce.rounds import step_in_round
from altneu.operators.reduce.seen import Seen
from altneu.operators.reduce.spec import ReduceSpec
from altneu.operators.reduce.standing import FirstRows
from altneu.trace.batch import Arranged

_READ_IN_PLACE = Ends, Around  # of groups in order that have few new rows


@dataclass(frozen=True)
class ExplodeOp(Stateless, tag="ExplodeOp", kind="combine"):
    """Rows into the additive slots of their group, combined before they are exchanged."""

    summing = at_each_time = True
    makes_rows = whole = False  # sums of the groups in a step
    bound = CHANGE

    accumulator: Accumulator

    def step(self, here: Here) -> Outputs:
        """The slots."""
        updates = here.one()
        return [here.summed(None if updates is None else self.accumulator.explode(updates, here.lattice))]

    def lies_by(self) -> None:
        """Anyhow: sums of one group may come from everywhere."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """None."""

    def columns_read(self, schema: pa.Schema) -> frozenset[str]:
        """The key, and what is summed up."""
        return frozenset((*self.accumulator.key, *self.accumulator.arguments))


@dataclass(frozen=True)
class MayBeFirstOp(RowByRow, tag="MayBeFirstOp", kind="combine"):
    """Of added rows those that may be the first of their group, so that no others are exchanged.

    It looks at several rows, and yet pieces of its input may be told apart: what it leaves out is behind another row.
    """

    at_each_time = True
    makes_rows = False

    key: tuple[str, ...]
    orders: Orders

    def step(self, here: Here) -> Outputs:
        """The rows of this step."""
        updates = here.one()
        return [None if updates is None else may_be_first(added(updates), self.key, self.orders)]


@dataclass(frozen=True)
class BelowZeroOp(Operation, tag="BelowZeroOp", kind="count"):
    """How many rows of each group of an ordered arrangement have a count below zero, into an arrangement by the key."""

    starts = looks_again = whole = False
    makes_rows = at_each_time = True
    keeps = takes_from = None
    bound = CHANGE

    arrangement: str

    @property
    def cost(self) -> str:
        """The counts of the rows that are new."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """The changes of these numbers."""
        state = here.stored(self.arrangement)
        changes = below_zero(here.arranged(), () if state is None else state.spine.batches)
        return [changes if len(changes) else None]

    @property
    def reads(self) -> str:
        """The numbers as they were before the step."""
        return self.arrangement

    def lies_by(self) -> None:
        """An arrangement lies by its key."""

    def exchange_key(self, schema: pa.Schema) -> None:
        """An arrangement stays where it is."""


@dataclass(frozen=True)
class PresentOp(OverArrangements, tag="PresentOp", kind="distinct"):
    """The rows of an arrangement of counts that are there, once each."""

    makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    @property
    def cost(self) -> str:
        """The counts of the rows that are new."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """Where a count has become positive, or is so no more."""
        given = here.arranged()
        return [present_rows(given, here.schema) if len(given.new) else None]


@dataclass(frozen=True)
class NegativeOp(OverArrangements, tag="NegativeOp", kind="count"):
    """Some columns of the rows of an arrangement of counts that are below zero."""

    makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    @property
    def cost(self) -> str:
        """The counts of the rows that are new."""
        return BY_KEY

    def step(self, here: Here) -> Outputs:
        """Where a count has become negative, or is so no more."""
        given = here.arranged()
        return [negative_rows(given, here.schema) if len(given.new) else None]


@dataclass(frozen=True)
class CollateOp(Hosting, tag="CollateOp", kind="reduce"):
    """Aggregates of each group, from the arrangements of all their parts in order."""

    at_each_time = True
    whole = False

    collation: Collation

    @property
    def bound(self) -> Bound:
        """Few rows of a group, but for what is made of all of its distinct values."""
        return GROUPS if any(part.is_whole for part in self.collation.parts) else CHANGE

    @property
    def cost(self) -> str:
        """What its parts read."""
        rows = sum(part.rows for part in self.collation.parts if not part.is_whole)
        if self.bound is CHANGE:
            return f"({rows} + |change|) log n"
        return "distinct values of the groups touched" + f" + ({rows} + |change|) log n" * bool(rows)

    def step(self, here: Here) -> Outputs:
        """The changes of the groups' rows."""
        given = [here.arranged(place) for place in range(here.inputs)]
        if not any(len(one.new) for one in given):
            return [None, None]
        result = collate(given, self.collation, here.label)
        return self.finished(result.oks, result.errs)

    def described(self, label: str, *, own_times: int) -> str:
        """That it has parts."""
        return super().described(f"reduce {label} [by parts]", own_times=own_times)


@dataclass(frozen=True)
class ReduceOp(Hosting, tag="ReduceOp", kind="reduce"):
    """A function of each group of an arrangement.

    Of an arrangement in an order it reads what is ``needed``; its second input is then how many rows of each group are
    below zero, and the third, where that is needed, the distinct values of the order. If only some columns of its rows
    are ``seen``, the function is one of these.
    """

    looks_again = at_each_time = True
    whole = False

    spec: ReduceSpec
    needed: Needed = WHOLE
    seen: Seen | None = None

    @property
    def cost(self) -> str:
        """Sums are looked up; of groups the rows that are needed."""
        return BY_KEY if self.spec.sums is not None else self.needed.cost

    def step(self, here: Here) -> Outputs:
        """The changes of what the function makes of the groups that have changed."""
        arranged = here.arranged()
        if not arranged.layout.lattice.is_total:
            result = step_in_round(arranged, here, self.spec, self._first_rows(arranged, here))
            if result is None or not (len(result.oks) or len(result.errs)):
                return [None, None]
            return self.finished(result.oks, result.errs)
        if not arranged.new.count:
            return [None, None]
        result = self._of_few(arranged, here) if arranged.layout.order else None
        if result is None:
            read = self._read(arranged, here) if arranged.layout.order else arranged
            result = self.spec.reduce(read, here.label)
        return self.finished(result.oks, result.errs)

    def _of_few(self, arranged: Arranged, here: Here) -> ReduceOutput | None:
        """What comes of few new rows, where rows are needed from ends or around, and no count is below zero."""
        if self.seen is not None or self.needed.__class__ not in _READ_IN_PLACE or not is_small(arranged):
            return None
        negative = here.arranged(1)
        if negative.new.count or any([batch.count for batch in negative.old]):  # noqa: C419
            return None
        if self.needed.__class__ is Ends:
            return self.spec.of_ends(arranged)
        near = stretches(arranged, self.needed)  # type: ignore[arg-type]  # the other one that is read in place
        return None if near is None else self.spec.reduce(near, here.label)

    def _first_rows(self, arranged: Arranged, here: Here) -> FirstRows | None:
        """Which rows of ordered groups must be read if times are not totally ordered; None for groups read whole."""
        if not arranged.layout.order:
            return None
        assert isinstance(self.needed, Ends)
        return FirstRows(self.needed, here.arranged(1))

    def _read(self, arranged: Arranged, here: Here) -> Arranged | Groups:
        """All that is needed of the groups of an arrangement in an order."""
        others = [here.arranged(place) for place in range(1, here.inputs)]
        if self.seen is None:
            return read_needed(arranged, self.needed, *others)
        return self.seen.groups(read_needed(arranged, self.seen.called(self.needed), *others))

    @property
    def word(self) -> Kind:
        """That of what is computed."""
        return self.spec.kind

    @property
    def bound(self) -> Bound:
        """Sums, and some rows of groups in order, are read without the groups; in loops other rows too."""
        whole = isinstance(self.needed, Ends) and (self.needed.standing or self.needed == WHOLE)
        return GROUPS if self.spec.sums is None and whole else CHANGE

    def described(self, label: str, *, own_times: int) -> str:
        """Whether it adds up or reads groups, and along which times."""
        if self.spec.sums is not None:
            label = f"reduce {label} [accumulable]"
        else:
            verb = "" if self.spec.kind == "window" else "reduce "
            label = f"{verb}{label.removeprefix('reduce ')} [general]"
        along = ", along chains of its two times" if own_times == 1 else ", at each of its times" if own_times else ""
        return super().described(f"{label}{along}", own_times=own_times)
