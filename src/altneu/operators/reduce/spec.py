"""How a function of groups is computed: what a reducer says, prepared for one key and the columns of one input."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import pyarrow as pa

from altneu.operators.base import Kind
from altneu.operators.kernels.groups import Groups, ReduceOutput
from altneu.operators.reduce.accumulate import Accumulator
from altneu.trace.batch import Arranged
from altneu.trace.update import Updates


class ReduceSpec(ABC):
    """A reducer for kernels.

    A reducer (``reducers.py``) says what becomes of a group whatever its key and the other columns are; plans compare
    and rewrite it. A spec is that for one key and one schema, checked against the columns, with what kernels prepare
    once: the two have different lives, and share the values in ``calls.py``.
    """

    kind: ClassVar[Kind] = "reduce"
    looks_ahead: ClassVar[bool] = True
    """Whether it may be asked for groups as they are by now at rounds that are not complete."""
    schema: pa.Schema

    @abstractmethod
    def reduce(self, given: Arranged | Groups, operator: str) -> ReduceOutput:
        """Bring the results of the groups that have new updates up to date.

        Law:    at every time the output accumulates to the function of what the input accumulates to (tests/operators).
        """

    def of_few(self, given: Arranged, rounds: tuple[int, ...], again: Updates) -> ReduceOutput | None:
        """What ``reduce_in_round`` makes of few small groups, read as wholes; None where it is to be asked itself."""
        return None

    def of_ends(self, given: Arranged) -> ReduceOutput | None:
        """What ``reduce`` makes of few new rows of groups in order of which no row has a count below zero.

        None where that takes more than the ends of these groups, and where it is to be asked itself.
        """
        return None

    @property
    def sums(self) -> Accumulator | None:
        """What is kept of each group in place of its rows; None where the rows themselves are."""
        return None

    def for_similar_groups(self) -> ReduceSpec:
        """The same for runs over groups that mostly have been seen before, where that saves work."""
        return self
