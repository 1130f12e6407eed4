"""What aggregates over ranked groups follow and read: tracks, sums of their values, and a line an aggregate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.rows import Ints
from altneu.operators.kernels.exact_sum import ANYTHING, DIGITS, INTEGER, STRIDE, slots_of_extra
from altneu.operators.reduce.aggregates import finishing_table, number_kind, sums_of
from altneu.operators.reduce.calls import Aggregate

# What an aggregate reads: sums, how many ranks are there, what is between two of them, one of them, or all of them.
SUMS, DISTINCT_SUMS, RANKS, POINT, FIRST, LAST, NTH, MODE, LIST, SET = range(10)
_READS = {
    "min": FIRST,
    "max": LAST,
    "percentile": POINT,
    "percentile_disc": NTH,
    "mode": MODE,
    "collect_list": LIST,
    "collect_set": SET,
}

# Columns of the tables that the kernel takes.
TRACK, WHAT, DESCENDING, COLUMN, WHOLE, _READ_WIDTH = range(6)
KIND, BASE, FACTORS, TERM_WIDTH = 1, 2, 3, 7

# How the places of a track are counted: not at all, each value as often as it is there, or once.
NOT, ALL, ONCE = range(3)


@dataclass(frozen=True)
class Track:
    """One thing to follow in a group: that a column is not null, or the ranks of a column's (or several's) values.

    ``order`` are the options of an ordered list.
    """

    arguments: tuple[str, ...]
    ranked: bool
    order: tuple[Any, ...] = ()
    places: int = NOT

    @property
    def needed(self) -> tuple[str, ...]:
        """The columns of which none may be null."""
        return self.arguments[:1] if self.order else self.arguments


@dataclass(frozen=True)
class Plan:
    """What to follow, and how to read it.

    Shape:  ``ordered`` (T,): tracks whose ranks are in the order of values. ``terms`` (S, 7): a sum's track, kind,
            first slot, and the columns that are its factors (-1: no more). ``reads`` (A, 5): an aggregate's track
            (-1: none), what it reads, whether from the end, its column, whether that has whole numbers; ``fractions``
            (A,): its percentage.
    """

    tracks: tuple[Track, ...]
    columns: tuple[str, ...]
    ordered: frozenset[int]
    terms: Ints
    slots: int
    reads: Ints
    fractions: npt.NDArray[np.float64]
    finishing: Ints


def plan_of(aggregates: Sequence[Aggregate], schema: pa.Schema) -> Plan:
    """The least to follow for all of the aggregates together."""
    columns = tuple(dict.fromkeys(name for a in aggregates for name in a.arguments))
    tracks: dict[Track, int] = {}
    sums = _Sums()
    ordered = set()
    reads, fractions = np.full((len(aggregates), _READ_WIDTH), -1, np.int64), np.zeros(len(aggregates))
    for at, (line, aggregate) in enumerate(zip(reads, aggregates, strict=True)):
        what = _what(aggregate)
        line[WHAT], line[DESCENDING] = what, 0
        places: dict[tuple[int, ...], int] = {}
        sums.bases.append(places)
        if not aggregate.arguments:
            continue
        line[COLUMN] = columns.index(aggregate.arguments[0])
        line[WHOLE] = number_kind(schema.field(aggregate.arguments[0]).type) == INTEGER
        if what in (SUMS, DISTINCT_SUMS):
            for kind, factors in sums_of(aggregate, schema):
                read = tuple(aggregate.arguments[place] for place in factors)
                whole = aggregate.distinct or aggregate.function == "count"
                followed = Track(aggregate.arguments if whole else read[:1], aggregate.distinct)
                track = tracks.setdefault(followed, len(tracks))
                places[factors] = sums.base(track, kind, tuple(columns.index(name) for name in read))
                line[TRACK] = track if line[TRACK] < 0 else line[TRACK]
            continue
        line[TRACK] = tracks.setdefault(_ranked(aggregate, what), len(tracks))
        if what != RANKS:
            ordered.add(int(line[TRACK]))
        if what in (POINT, NTH):
            fractions[at], line[DESCENDING] = aggregate.options
        elif what == MODE:
            line[DESCENDING] = aggregate.options[0]
    finishing = finishing_table(aggregates, sums.bases, schema)
    return Plan(tuple(tracks), columns, frozenset(ordered), sums.table, sums.slots, reads, fractions, finishing)


def _what(aggregate: Aggregate) -> int:
    if not aggregate.distinct or aggregate.function in _READS:
        return _READS.get(aggregate.function, SUMS)
    return RANKS if aggregate.function == "count" else DISTINCT_SUMS


def _ranked(aggregate: Aggregate, what: int) -> Track:
    places = NOT if what not in (POINT, NTH) else ONCE if aggregate.distinct else ALL
    return Track(aggregate.arguments, True, aggregate.options if what == LIST else (), places)


class _Sums:
    """Numbers the slots of the sums that are read."""

    def __init__(self) -> None:
        self.terms: dict[tuple[int, ...], list[int]] = {}  # by track, factors and, of products, kind
        self.bases: list[dict[tuple[int, ...], int]] = []
        self.slots = 1

    def base(self, track: int, kind: int, factors: tuple[int, ...]) -> int:
        """The first slot of a sum; a column's own sum is kept with the number of its nulls."""
        own = len(factors) == 1
        term = self.terms.get((track, *factors) if own else (track, kind, *factors, -1))
        if term is None:
            filled = [*factors, *[-1] * (TERM_WIDTH - FACTORS - len(factors))]
            term = [track, kind, self.slots if own else self.slots - DIGITS, *filled]
            self.terms[(track, *factors) if own else (track, kind, *factors, -1)] = term
            self.slots += STRIDE if own else slots_of_extra(kind, len(factors))
        if own and term[KIND] == ANYTHING:
            term[KIND] = kind
        return term[BASE]

    @property
    def table(self) -> Ints:
        """A line a sum."""
        return np.array(list(self.terms.values()), np.int64).reshape(-1, TERM_WIDTH)
