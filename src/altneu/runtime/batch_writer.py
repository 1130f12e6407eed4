"""New batches put together out of parts, and batches merged, within a bound of memory.

Parts arrive in order of the key hash, so that in most cases their concatenation is the batch. Here batches stay in
memory; Spark's tasks write them into segments as the parts arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from altneu.order import Antichain
from altneu.trace.batch import LARGEST_HASH, Batch, Description, Layout
from altneu.trace.future import Run
from altneu.trace.spine import merge


@dataclass
class Growing:
    """A batch on its way: what parts of a stage made of one arrangement, each in order."""

    batch_writer: BatchWriter
    layout: Layout
    description: Description
    parts: list[Batch] = field(default_factory=list)

    def add(self, part: Batch) -> None:
        """The next part."""
        if len(part):
            self.parts.append(part)

    def finish(self, *, ordered: bool = False) -> Batch:
        """All of it as one batch; parts that are known to be ``ordered`` may share a key with the next one."""
        if ordered or in_order(self.parts):
            blocks = tuple(block for part in self.parts for block in part.blocks)
            return Batch(self.layout, self.description, blocks)
        return self.batch_writer.merged(self.parts, Antichain.minimum(self.layout.lattice))


@dataclass
class BatchWriter:
    """Puts the batches of a stage together in memory; ``room`` bounds the bytes that are read at once (None: no bound).

    ``mapped`` bounds how much state may be open at once, where addresses are scarce.
    """

    room: int | None = None
    mapped: int | None = None
    at_once: bool = False  # whether merges are taken to their end

    def growing(self, layout: Layout, description: Description) -> Growing:
        """A batch to be put together."""
        return Growing(self, layout, description)

    def future_run(self, run: Run, layout: Layout) -> Run:
        """A run of future updates, in memory or written."""
        return run

    def merged(self, batches: Sequence[Batch], since: Antichain) -> Batch:
        """Batches that follow each other in time as one, times advanced to ``since``, some keys after the others."""
        parts = ranges(sum(batch.bytes_as_rows for batch in batches), self.room)
        if len(parts) == 1:
            return merge(batches, since)
        description = batches[0].description
        for batch in batches:
            since_all = description.since.join(batch.description.since)
            description = Description(description.lower, batch.description.upper, since_all)
        result = self.growing(
            batches[0].layout, Description(description.lower, description.upper, description.since.join(since))
        )
        for lower, upper in parts:
            result.add(merge([batch.between(lower, upper) for batch in batches], since))
        return result.finish()


def ranges(size: int, room: int | None) -> list[tuple[int, int]]:
    """Ranges of key hashes, each of which has about ``room`` of ``size`` bytes."""
    count = 1 if room is None else min(-(-size // room), 1 << 16) or 1
    ends = [(LARGEST_HASH + 1) * i // count for i in range(count + 1)]
    return list(pairwise(ends))


def in_order(parts: Sequence[Batch]) -> bool:
    """Whether every key of a part comes before all of the next one."""
    return all(a.last_hash < b.first_hash for a, b in pairwise(parts))
