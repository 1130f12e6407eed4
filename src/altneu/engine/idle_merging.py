"""Idle merging: what no step touches is merged too, a bounded amount in each step; ``merging`` does it at once."""

from __future__ import annotations

from dataclasses import replace

from altneu.operators.base import Region
from altneu.runtime import interrupts
from altneu.runtime.state import StateTable
from altneu.trace.spine import is_settled

LEAST_EFFORT = 512  # rows of merging that take about as long as the calls for a batch of one row


class IdleMerging:
    """The merging of quiet arrangements, a number of rows (``effort``) in each step.

    An arrangement, in one shard, is quiet once it has been left alone for as many steps as its merge takes. So merging
    what was not quiet after all costs no more than leaving it alone would have saved (the rule of ski rental), and one
    that changes every few steps is not written again and again. One merge is in progress at a time; the smallest comes
    first. What is known here are hints that a step which fails may leave behind: a state is recognised by identity,
    and one that is another than it was counts as touched.

    Cost:   for each step a look at each state that is kept, and merges of about ``effort`` rows, each arrangement
            counted as ``LEAST_EFFORT`` at least; memory for the output of one merge. A merge that ends is written
            with the commit of its step.
    Source: the ``idle_merge_effort`` of differential dataflow's arrangements.
    """

    __slots__ = ("_current", "_step", "_touched", "effort")

    def __init__(self, effort: int) -> None:
        self.effort = effort
        self._step = 0
        self._touched: dict[tuple[str, int], tuple[object, int]] = {}  # each state, and the step that touched it
        self._current: tuple[str, int] | None = None  # whose merge is in progress

    def step(self, table: StateTable, region: Region) -> None:
        """Merge what is quiet after a step has put its states into ``table``, before they are committed."""
        self._step += 1
        before, now = self._touched, self._step
        self._touched = touched = {}
        quiet: list[tuple[bool, int, tuple[str, int]]] = []
        for key, state in {**table.stored, **table.live}.items():
            known = before.get(key)
            touched[key] = known if known is not None and known[0] is state else (state, now)
            layout = table.layouts.get(key[0])
            rows = max(table.rows_in(*key), LEAST_EFFORT)
            if layout is None or (key != self._current and (now - touched[key][1]) * self.effort < rows):
                continue
            since = region.final.since_of(key[0], layout.lattice)
            if now != touched[key][1] and not is_settled(table.descriptions(*key), since):
                quiet.append((key != self._current, rows, key))
        left, self._current = self.effort, None
        for _, _, key in sorted(quiet):
            if left <= 0:
                break
            state = table.get(*key)
            assert state is not None
            spine, used = state.spine.exert(left, region.final.since_of(key[0], state.spine.layout.lattice))
            left -= max(used, LEAST_EFFORT)
            state = replace(state, spine=spine)
            if spine.has_merges:
                self._current = key
                table.put_live(*key, state)
            else:
                table.put(*key, state)
            touched[key] = state, touched[key][1]
            interrupts.check()
