"""How large the cases are."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scale:
    """Sizes of the inputs and numbers of repetitions.

    Units:  ``*_rows`` rows of an input; ``states`` rows kept before the steps of case d; ``turns`` timed runs of each
            contender; ``changes`` one-row changes; ``streams`` pairs (rows a batch, updates in all).
    """

    name: str
    group_rows: int
    groups: int
    join_rows: int
    turns: int
    changes: int
    streams: tuple[tuple[int, int], ...]
    stream_groups: int
    stream_dimension: int
    states: tuple[int, ...]
    steps: int


FULL = Scale(
    name="full",
    group_rows=5_000_000,
    groups=10_000,
    join_rows=1_000_000,
    turns=3,
    changes=1_000,
    streams=((1, 3_000), (100, 100_000), (10_000, 1_000_000)),
    stream_groups=10_000,
    stream_dimension=100_000,
    states=(10_000, 100_000, 1_000_000, 10_000_000),
    steps=3_000,
)

QUICK = Scale(
    name="quick",
    group_rows=1_000_000,
    groups=10_000,
    join_rows=100_000,
    turns=2,
    changes=200,
    streams=((1, 1_000), (100, 20_000), (10_000, 200_000)),
    stream_groups=10_000,
    stream_dimension=100_000,
    states=(10_000, 100_000, 1_000_000),
    steps=1_000,
)

SCALES = {scale.name: scale for scale in (FULL, QUICK)}
