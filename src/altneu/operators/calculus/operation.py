"""Changes as collections, as operations over times with two moments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from altneu.operators.base import Here, Outputs, RowByRow
from altneu.operators.calculus.node import MOMENT_NAMES
from altneu.order import AltNeu, Lattice, difference
from altneu.trace.update import Updates


@dataclass(frozen=True)
class DifferentiateOp(RowByRow, tag="DifferentiateOp", kind="moments"):
    """Each update at the earlier moment of its time, and its opposite at the later one."""

    at_each_time = False

    def step(self, here: Here) -> Outputs:
        """Both."""
        updates, moments = here.one(), _moments(here.lattice)
        if updates is None:
            return [None]
        updates = here.present(updates, moments.inner)
        removed = replace(updates, times=moments.neu(updates.times), diffs=difference.negate(updates.diffs))
        there = replace(updates, times=moments.alt(updates.times))
        return [Updates.concat([there, removed], updates.schema, moments.width)]


@dataclass(frozen=True)
class ToNeuOp(RowByRow, tag="ToNeuOp", kind="moments"):
    """Each update at the later moment of its time."""

    at_each_time = False

    def step(self, here: Here) -> Outputs:
        """The updates, later."""
        updates, moments = here.one(), _moments(here.lattice)
        return [None if updates is None else replace(updates, times=moments.neu(moments.unwrap(updates.times)))]


@dataclass(frozen=True)
class TellMomentOp(RowByRow, tag="TellMomentOp", kind="moments"):
    """Each update with the name of its moment in a further column, at the earlier moment of its time."""

    is_by_arrival = True
    at_each_time = False

    def step(self, here: Here) -> Outputs:
        """The updates with their moments."""
        updates, moments = here.one(), _moments(here.lattice)
        if updates is None:
            return [None]
        names = np.where(moments.is_neu(updates.times), *MOMENT_NAMES[::-1])
        rows = updates.rows.widened(here.schema, [pa.array(names, pa.string())])
        earlier = moments.alt(moments.unwrap(updates.times))
        return [Updates(rows, earlier, updates.diffs)]


@dataclass(frozen=True)
class IntegrateOp(RowByRow, tag="IntegrateOp", kind="moments"):
    """The updates of earlier moments, each at the time whose moment it was."""

    is_by_arrival = True
    at_each_time = False

    def step(self, here: Here) -> Outputs:
        """Those updates."""
        updates, moments = here.one(), _moments(here.lattice_of_input(0))
        if updates is None:
            return [None]
        settled = updates.filter(~moments.is_neu(updates.times))
        return [replace(settled, times=moments.unwrap(settled.times))]


def _moments(lattice: Lattice) -> AltNeu:
    assert isinstance(lattice, AltNeu)
    return lattice
