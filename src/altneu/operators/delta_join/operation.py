"""Delta joins as operations: in one shard a single one, else a path of lookups for the updates of each relation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from altneu.operators.base import CHANGE, Here, Hosting, Outputs, OverArrangements, Pieces, Stateless
from altneu.operators.delta_join.candidates import Offer
from altneu.operators.delta_join.extend import (
    DeltaSpec,
    ExtensionSpec,
    counted,
    delta_join_pieces,
    new_updates,
    proposed,
    validate,
)
from altneu.operators.join.pairs import Meter


@dataclass(frozen=True)
class DeltaJoinOp(Hosting, tag="DeltaJoinOp", kind="delta join"):
    """Join of several arrangements, all in one shard: the paths of the updates of each, and the linear logic after it.

    Output 0 the rows, output 2 the errors of the logic.
    """

    whole = flows = has_paths = at_each_time = True
    bound = CHANGE

    spec: DeltaSpec

    @property
    def cost(self) -> str:
        """Of each path the candidates of the relation that has fewest."""
        return "(|change| + |matches|) log n"

    def looked_up_for(self, place: int) -> frozenset[int]:
        """The relations whose paths read the arrangement."""
        return frozenset(path.at for path in self.spec.paths if path.reads(place))

    def step(self, here: Here) -> Outputs:
        """The matches, which come in pieces where they are many."""
        return here.ready(3)

    def in_pieces(self, here: Here) -> Iterator[Pieces]:
        """The matches."""
        inputs = [here.arranged(place) for place in range(here.inputs)]
        here.measure(rows_in=sum(inputs[path.at].new.rows_at_most for path in self.spec.paths))
        pieces = delta_join_pieces(inputs, self.spec, self.logic, here.mode.budget)
        return ((rows, None, failed) for rows, failed in pieces)


@dataclass(frozen=True)
class DeltaScanOp(OverArrangements, tag="NewsOp", kind="path"):
    """What is new in this step of an arrangement, its columns called by their variables: where a delta path starts."""

    makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    def looked_up_for(self, place: int) -> frozenset[int]:
        """None: it reads what is new."""
        return frozenset()

    def step(self, here: Here) -> Outputs:
        """The updates of its new batch."""
        return [new_updates(here.arranged(), here.schema, here.lattice)]


class Lookup(Stateless):
    """A lookup of prefixes, the first input, in an arrangement, the second."""

    makes_rows = at_each_time = True
    whole = False
    bound = CHANGE

    @abstractmethod
    def lies_by(self) -> tuple[str, ...]:
        """The key that is looked up."""

    def looked_up_for(self, place: int) -> frozenset[int]:
        """The prefixes."""
        return frozenset((0,))

    def exchange_key(self, schema: pa.Schema) -> None:
        """None: prefixes lie as the plan of the paths says."""


@dataclass(frozen=True)
class CountOp(Lookup, tag="CountOp", kind="path"):
    """Prefixes, the first input, with the fewest candidates so far and the number of the relation that has them."""

    offer: Offer
    number: int

    def step(self, here: Here) -> Outputs:
        """The prefixes with both."""
        prefixes, others = here.one(), [here.arranged(1)]
        return [None if prefixes is None else counted(prefixes, self.offer, self.number, others, here.schema)]

    def lies_by(self) -> tuple[str, ...]:
        """The key that is looked up."""
        return self.offer.part.key


@dataclass(frozen=True)
class ProposeOp(Lookup, tag="ProposeOp", kind="path"):
    """Prefixes extended by the candidates of an arrangement, the second input; of those counted, only its own.

    With ``number`` it is one of several relations, and prefixes have been counted.
    """

    spec: ExtensionSpec
    number: int | None = None

    def step(self, here: Here) -> Outputs:
        """The extended prefixes."""
        prefixes, others = here.one(), [here.arranged(1)]
        if prefixes is None:
            return [None]
        return [proposed(prefixes, self.spec, self.number, others, here.lattice, Meter(here.mode.budget))]

    def lies_by(self) -> tuple[str, ...]:
        """The key that is looked up."""
        return self.spec.offers[0].part.key


@dataclass(frozen=True)
class ValidateOp(Lookup, tag="ConfirmOp", kind="path"):
    """Prefixes, the first input, that an arrangement, the second, has too."""

    offer: Offer
    adds: tuple[str, ...]

    def step(self, here: Here) -> Outputs:
        """Those prefixes."""
        prefixes, others = here.one(), [here.arranged(1)]
        return [None if prefixes is None else validate(prefixes, self.offer, self.adds, others, here.lattice)]

    def lies_by(self) -> tuple[str, ...]:
        """The key that is looked up."""
        return self.offer.part.key
