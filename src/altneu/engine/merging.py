"""Merging what is quiet: arrangements that no step touches become one batch each, without the history that has gone."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from altneu.engine.engine import Engine
from altneu.errors import InputError
from altneu.runtime import interrupts
from altneu.runtime.inputs import whole_number
from altneu.trace.spine import Spine


def merge(engine: Engine, most: int | None) -> int:
    """Merge arrangements and commit; see ``Session.merge``."""
    if most is not None and whole_number(most, "most") < 0:
        raise InputError(f"most must be a whole number of at least 0, or None, got {most!r}")
    with engine.lock:
        engine.check_open()
        engine.require_stored_views()
        engine.adopt()
        journal, table, lower = engine.journal, engine.table, engine.lower
        since, events, before = (
            engine.times.since_after(lower),
            engine.times.events_after(lower, engine.journal.own),
            table.total,
        )
        region = engine.times.region(lower, lower, since, events)
        left, is_changed = most, False
        with journal.undoing():
            for name, shard in sorted({**table.live, **table.stored}, key=lambda key: (table.rows(key[0]), key)):
                if (layout := table.layouts.get(name)) is None:
                    continue
                state = table.get(name, shard)
                if state is None or not _is_worth_it(state.spine):
                    continue
                if left is not None:
                    if state.spine.rows > left:
                        break
                    left -= state.spine.rows
                spine = state.spine.compact(region.since_of(name, layout.lattice))
                if len(state.spine.batches) == 1 and len(spine) == len(state.spine):
                    continue
                table.put(name, shard, replace(state, spine=spine))
                is_changed = True
                interrupts.check()
            if is_changed:
                with interrupts.deferred():
                    journal.commit_step(lower, since, events, frozenset(), None, {"merged": before - table.total})
        journal.tidy()
        return before - table.total


def _is_worth_it(spine: Spine) -> bool:
    """Whether there are several batches, or one whose updates lie at several times, some of which may be past."""
    if len(spine.batches) != 1:
        return bool(spine.batches)
    times = [block.times for block in spine.batches[0].blocks if len(block)]
    least, greatest = (np.min([t.min(axis=1) for t in times], axis=0), np.max([t.max(axis=1) for t in times], axis=0))
    return bool((least != greatest).any())
