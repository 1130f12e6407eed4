"""Spines: all batches of an arrangement, kept few by merging in small instalments.

Batches are in order of time, oldest first. The class of a batch is ``ceil(log2 rows)``. A group of neighbours is merged
when no older batch of it has a higher class than all newer ones together. Therefore classes fall from one batch to the
next, and there are O(log n) batches. A row is merged O(log n) times, since every merge raises its class or removes
rows.

Small merges happen at once, and so do those of at most a few times the inserted rows: for a bulk load, inputs and
output of a slow merge would need memory together for longer than the merge takes. Larger merges become a ``Merge`` in
place of the batches, and every insert does a part of each: twice its own rows, so that each merge ends before the next
one needs its result, and a constant for the smallest. Readers see the inputs until a merge has ended.

A step with loops inserts ``loosely`` what its rounds read: where a merge of small batches is due, they wait beside the
others until the step ends, which merges them all at once (``gathered``), or until they are many.

A spine into which nothing is inserted is merged by ``exert``, an amount of work at a time, until it is one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from altneu.columnar.immutable import immutable, lazy
from altneu.errors import BeforeFrontierError
from altneu.order import Antichain
from altneu.trace.batch import BLOCK_ROWS, Batch, Description, Layout, reaches, uncompacted_from
from altneu.trace.merging import Merge, merge

__all__ = ["EFFORT", "Spine", "is_settled", "merge"]

EFFORT = 512  # rows of merging that every insert pays for beyond twice its own
SLICE_ROWS = 4096  # rows merged between two looks at the fuel; also: merges up to this size happen at once
AT_ONCE = 16  # a merge of so many times the rows inserted, or fewer, is done at once
_FEW = 8  # adding up takes away at most twice the older or the newer updates: too little if either are under an eighth
LOOSE_ROWS, LOOSE_BATCHES = 4096, 8  # larger batches, and more of them, do not wait for the end of a step
TINY_ROWS, TINY_BATCHES = 64, 8  # fewer and smaller new batches than these are left alone

_Node = Batch | Merge
Merging = Callable[[Sequence[Batch], Antichain], Batch]
"""How batches are merged at once: ``merge``, or what keeps less of them in memory."""


@immutable(frozen=True, eq=False)
class Spine:
    """The batches of an arrangement, an immutable value: inserting returns another spine, and this one stays readable.

    >>> import numpy as np, pyarrow as pa
    >>> from altneu.order import Epoch
    >>> from altneu.columnar.rows import Rows
    >>> from altneu.trace.update import Updates
    >>> layout = Layout(pa.schema([("k", pa.int64())]), ("k",), Epoch())
    >>> spine = Spine.empty(layout)
    >>> for t in range(100):
    ...     one = Updates(Rows.from_pydict({"k": [t % 3]}, layout.schema), np.array([[t]]), np.array([1]))
    ...     batch = Batch.build(one, layout, Description.interval(Epoch(), t, t + 1))
    ...     spine = spine.insert(batch, since=Antichain.of(Epoch(), t))
    >>> len(spine.batches) <= 14, spine.compact(Antichain.of(Epoch(), 100)).batches[0].updates().diffs.sum()
    (True, np.int64(100))
    """

    layout: Layout
    nodes: tuple[_Node, ...] = ()
    upper: Antichain | None = None  # None before the first batch
    tidied: bool = False  # no group of its batches is due, if there are no merges
    loose: int = 0  # how many batches at its end have waited since others were last merged

    @classmethod
    def empty(cls, layout: Layout) -> Spine:
        """A spine without batches."""
        return cls(layout)

    @classmethod
    def of(cls, layout: Layout, batches: Sequence[Batch]) -> Spine:
        """A spine of batches that follow each other in time, oldest first, as they were read from a store."""
        return cls(layout, tuple(b for b in batches if len(b)), batches[-1].description.upper if batches else None)

    @lazy
    def batches(self) -> tuple[Batch, ...]:
        """All readable batches, oldest first; none is empty."""
        if not self.has_merges:
            return self.nodes  # type: ignore[return-value]  # none is a merge
        return tuple([b for node in self.nodes for b in (node.inputs if isinstance(node, Merge) else (node,))])

    @lazy
    def has_merges(self) -> bool:
        """Whether any merge is in progress."""
        return Merge in [node.__class__ for node in self.nodes]

    @lazy
    def rows(self) -> int:
        """The number of updates."""
        return sum([node.total if isinstance(node, Merge) else node.count for node in self.nodes])

    def __len__(self) -> int:
        return self.rows

    def insert(
        self,
        batch: Batch,
        since: Antichain,
        effort: int = EFFORT,
        *,
        merging: Merging | None = None,
        loosely: bool = False,
    ) -> Spine:
        """This spine with ``batch``, which begins where it ends; merges continue, and advance times to ``since``.

        Once the result replaces this spine, its batches must not be read at times that are not at or beyond ``since``.
        With ``merging``, that function does all merges that are due or in progress at once. A small batch that is
        inserted ``loosely`` is not merged yet where that is due: ``gathered`` or a later insert does it.

        Cost:   amortised O(log n) merged rows for each row inserted; never more than ``AT_ONCE`` times the rows
                inserted for each merge in progress, plus ``effort`` and one slice. About 20 microseconds for one row.
        Law:    sums at every t with since <= t are those of all updates inserted; the number of batches stays
                logarithmic; rows that are inserted and retracted repeatedly do not accumulate
                (tests/laws/test_spine.py).

        Raises:
            BeforeFrontierError: the batch begins before this spine ends.
            DiffOverflowError: a summed diff exceeds the signed 64-bit range.
        """
        rows, nodes, merges = batch.count, self.nodes, self.has_merges
        waits = loosely and not merging and 0 < rows <= LOOSE_ROWS and self.loose < LOOSE_BATCHES
        merged = rows + self._loose_rows if self.loose and not waits else rows
        if merges and not merging and not waits:
            nodes = _pay(nodes, 2 * merged, effort, since)
        tidied = self.tidied and (not merges or len(nodes) == len(self.nodes))  # else a merge has ended
        if rows:
            lower = batch.description.lower
            if nodes and lower is self.upper and lower is _described(nodes[-1]).upper:
                nodes = (*nodes, batch)
            else:
                nodes = (*nodes, self._following(nodes, batch))
        if rows and not merges and tidied:
            count = len(nodes)
            start, of_group = _group(nodes, count)
            if not _is_due(count - start, of_group):
                result = Spine(self.layout, nodes, batch.description.upper, tidied=True)
                known = result.__dict__  # what is computed lazily: these are all
                known["batches"], known["rows"], known["has_merges"] = nodes, self.rows + rows, False
                return result
        if waits:
            result = Spine(self.layout, nodes, batch.description.upper, loose=self.loose + 1)
            known = result.__dict__
            known["batches"], known["rows"] = (*self.batches, nodes[-1]), self.rows + rows
            known["has_merges"] = merges
            return result
        nodes = _tidy(nodes, since, 0 if merging else AT_ONCE * merged, tidied=tidied)
        while merging and any(isinstance(node, Merge) for node in nodes):
            nodes = _tidy(_finish(nodes, since, merging), since, 0)
        return Spine(self.layout, nodes, batch.description.upper, tidied=True)

    @property
    def _loose_rows(self) -> int:
        return sum([node.count for node in self.nodes[-self.loose :]])  # type: ignore[union-attr,misc]  # none is a merge

    def gathered(self, since: Antichain, effort: int = EFFORT) -> Spine:
        """This spine with the batches merged that were inserted loosely, as ``insert`` does it."""
        if not self.loose:
            return self
        rows, nodes = self._loose_rows, self.nodes
        if self.has_merges:
            nodes = _pay(nodes, 2 * rows, effort, since)
        return Spine(self.layout, _tidy(nodes, since, AT_ONCE * rows), self.upper, tidied=True)

    def _following(self, nodes: tuple[_Node, ...], batch: Batch) -> Batch:
        """``batch``, described as beginning where the last of ``nodes`` ends, as there are no updates in between."""
        description = batch.description
        if self.upper is not None and not self.upper.less_equal_frontier(description.lower):
            raise BeforeFrontierError(
                f"a batch from {description.lower} on cannot follow batches up to {self.upper}; "
                "cut updates at the frontier up to which the arrangement is complete"
            )
        if not nodes or (ends := _described(nodes[-1]).upper) == description.lower:
            return batch
        return batch.described(Description(ends, description.upper, description.since))

    def merged(self, since: Antichain) -> Batch:
        """All updates as one batch, times advanced to ``since``; this spine stays as it is."""
        if self.batches:
            return merge(self.batches, since)
        start = Antichain.minimum(self.layout.lattice)
        return Batch.empty(self.layout, Description(start, self.upper or start, since))

    def compacted(self, lower: Antichain, since: Antichain, least: int) -> Spine:
        """This spine with its batches from ``lower`` on compacted to ``since``, if they have at least ``least`` rows.

        If ``since`` is not beyond ``lower``, the times of these updates do not change, and compaction only adds up
        older updates of a batch with newer ones: a batch with few older updates stays as it is. So does one with few
        newer ones, which its next merge adds up.

        Cost:   the rows from ``lower`` on, and older batches only if they were, or are being, merged with these.
        """
        nodes = self.nodes
        stays = since.less_equal_frontier(lower)
        for i in range(len(nodes) - 1, -1, -1):
            node = nodes[i]
            if node.__class__ is not Merge and node.rows_at_most < least:  # type: ignore[union-attr]
                continue
            if _described(node).upper.less_equal_frontier(lower):
                break
            if isinstance(node, Batch) and since.less_equal_frontier(node.description.since):
                continue  # it was merged so far
            if isinstance(node, Batch):
                older = _before(node, lower)
                if (stays and older * _FEW < node.count) or (node.count - older) * _FEW < node.count:
                    continue
            batches = node.inputs if isinstance(node, Merge) else (node,)
            if sum(map(len, batches)) >= least:
                nodes = _put(nodes, i, i + 1, merge(batches, since))
        return self if nodes is self.nodes else Spine(self.layout, nodes, self.upper)

    def exert(self, effort: int, since: Antichain) -> tuple[Spine, int]:
        """This spine after at most about ``effort`` rows of merging all its batches into one, and how many it took.

        ``effort`` is at least 1. Times advance to the ``since`` at which the merge began. Until it ends, readers see
        its inputs; the next call continues it. An insert in between continues it too, beside what follows.

        Cost:   fewer than twice ``effort`` rows, but rows that are equal except for their times are merged together.
        Law:    repeated calls end in a spine that is settled; sums at every t with since <= t do not change
                (tests/laws/test_spine.py).
        """
        if is_settled([batch.description for batch in self.batches], since):
            return self, 0
        node = self.nodes[0]
        merging = node if len(self.nodes) == 1 and isinstance(node, Merge) else Merge.start(self.batches, since)
        after = merging.advance(effort, min(effort, SLICE_ROWS), merging.since)
        nodes = _put((after,), 0, 1, after.finished()) if after.remaining == 0 else (after,)
        return Spine(self.layout, nodes, self.upper), merging.remaining - after.remaining

    def from_time(self, start: int) -> Spine:
        """This spine without the batches that end before ``start``, the first coordinate of a time.

        Without loss only for a layout with ``changes_only``.
        """
        nodes = tuple(node for node in self.nodes if reaches(_described(node).upper.elements, start))
        return self if len(nodes) == len(self.nodes) else Spine(self.layout, nodes, self.upper)

    def compact(self, since: Antichain) -> Spine:
        """This spine as at most one batch, with times advanced to ``since``; for maintenance: it costs all n rows."""
        batch = self.merged(since)
        return Spine(self.layout, (batch,) if len(batch) else (), self.upper)


def is_settled(batches: Sequence[Description], since: Antichain) -> bool:
    """Whether batches, of which these are the descriptions, would gain nothing now from being merged into one.

    That is so for no batch, and for a single one that has one time, or history that ``since`` still tells apart, or
    none left since it was merged. A single batch is therefore merged again at most once, when all of it is past.
    """
    if len(batches) != 1:
        return not batches
    (batch,) = batches
    upper = batch.upper.elements
    if reaches(upper, uncompacted_from(since)) or not reaches(upper, int(batch.lower.elements[0].min()) + 1):
        return True
    return not reaches(upper, uncompacted_from(batch.since))


def _pay(nodes: tuple[_Node, ...], share: int, effort: int, since: Antichain) -> tuple[_Node, ...]:
    """Continue every merge by ``share`` rows, and the one that is nearest to its end by ``effort`` more."""
    merges = [node for node in nodes if isinstance(node, Merge)]
    if not merges:
        return nodes
    nearest = min(merges, key=lambda m: m.remaining)
    after: list[_Node] = []
    for node in nodes:
        paid = node
        if isinstance(node, Merge):
            credit = node.credit + share + (effort if node is nearest else 0)
            paid = replace(node, credit=credit)
            if credit >= min(SLICE_ROWS, node.remaining):
                slice_rows = BLOCK_ROWS if credit > BLOCK_ROWS else SLICE_ROWS
                paid = node.advance(credit, slice_rows, since)
                paid = replace(paid, credit=max(credit - (node.remaining - paid.remaining), 0))
        after.append(paid)
    return _end(tuple(after))


def _finish(nodes: tuple[_Node, ...], since: Antichain, merging: Merging) -> tuple[_Node, ...]:
    """Complete every merge, from its beginning."""
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if isinstance(node, Merge):
            nodes = _put(nodes, i, i + 1, merging(node.inputs, node.since.join(since)))
    return nodes


def _end(nodes: tuple[_Node, ...]) -> tuple[_Node, ...]:
    """Replace completed merges by their batches."""
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if isinstance(node, Merge) and node.remaining == 0:
            nodes = _put(nodes, i, i + 1, node.finished())
    return nodes


def _put(nodes: tuple[_Node, ...], start: int, stop: int, batch: Batch) -> tuple[_Node, ...]:
    """``batch`` in the place of what it was merged from; when all rows have vanished, the next one tells for both."""
    if len(batch):
        return (*nodes[:start], batch, *nodes[stop:])
    rest = nodes[stop:]
    if start > 0 and rest:
        lower, node = batch.description.lower, rest[0]
        first = node.inputs[0] if isinstance(node, Merge) else node
        first = first.described(replace(first.description, lower=lower))
        rest = (replace(node, inputs=(first, *node.inputs[1:])) if isinstance(node, Merge) else first, *rest[1:])
    return (*nodes[:start], *rest)


def _before(batch: Batch, lower: Antichain) -> int:
    """The number of updates of a batch at epochs (first coordinates of times) before those of a frontier."""
    if lower.less_equal_frontier(batch.description.lower):
        return 0
    start = int(lower.elements[0].min())
    return sum(int(np.count_nonzero(block.times[0] < start)) for block in batch.blocks)


def _described(node: _Node) -> Description:
    return node.inputs[-1].description if type(node) is Merge else node.description  # type: ignore[union-attr]


def _tidy(nodes: tuple[_Node, ...], since: Antichain, at_once: int, *, tidied: bool = False) -> tuple[_Node, ...]:
    """Merge the groups of neighbours that are due: small ones at once, others as a ``Merge`` in instalments.

    A group is small if it has at most ``at_once`` rows; a merge in progress with no more remaining rows is completed.
    ``tidied`` says that only the last node is new: no group that ends before it is due.
    """
    ended = _ended(nodes, since, at_once)
    tidied, nodes = tidied and ended is nodes, ended
    stop = len(nodes)
    while stop > 0:
        start, rows = _group(nodes, stop)
        if _is_due(stop - start, rows):
            group = [node for node in nodes[start:stop] if isinstance(node, Batch)]
            small = len(group) if rows <= at_once else _newest_within(group, SLICE_ROWS)
            if small > 1:
                before = len(nodes)
                nodes = _put(nodes, stop - small, stop, merge(group[-small:], since))
                stop -= before - len(nodes)
                continue  # what is left of it may be due together with what is older, or not any more
            nodes = (*nodes[:start], Merge.start(group, since), *nodes[stop:])
        elif tidied:
            break
        stop = start
    return nodes


def _ended(nodes: tuple[_Node, ...], since: Antichain, most: int) -> tuple[_Node, ...]:
    """Complete merges with at most a number of remaining rows."""
    if not any(isinstance(node, Merge) and node.remaining <= most for node in nodes):
        return nodes
    return _end(
        tuple(
            node.advance(node.remaining, BLOCK_ROWS, since)
            if isinstance(node, Merge) and node.remaining <= most
            else node
            for node in nodes
        )
    )


def _newest_within(group: Sequence[Batch], limit: int) -> int:
    """The number of newest batches that have at most ``limit`` rows together."""
    count, rows = 0, 0
    while count < len(group) and rows + group[-1 - count].count <= limit:
        rows += group[-1 - count].count
        count += 1
    return count


def _is_due(count: int, rows: int) -> bool:
    """Whether a group of so many nodes, which have so many rows, is to be merged."""
    return count > 1 and not (count < TINY_BATCHES and rows <= TINY_ROWS)


def _group(nodes: tuple[_Node, ...], stop: int) -> tuple[int, int]:
    """The start of the group of neighbours that ends at ``stop``, and its number of rows."""
    if not stop:
        return 0, 0
    newest = nodes[stop - 1]
    if type(newest) is Merge:
        return stop - 1, 0
    start, rows = stop - 1, newest.count  # type: ignore[union-attr]
    most = 1  # of the class of these rows are up to ``most``
    while start > 0:
        while most < rows:
            most *= 2
        older = nodes[start - 1]
        if older.__class__ is Merge or (count := older.count) > most:  # type: ignore[union-attr]
            break
        start, rows = start - 1, rows + count
    return start, rows
