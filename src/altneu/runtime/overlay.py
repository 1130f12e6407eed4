"""What a step makes of the state before it is committed: a table laid over the session's, which stays as it is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from altneu.operators.base import ArrangementState
from altneu.plan.physical import PENDED, Plan
from altneu.runtime.state import FutureSummary, StateTable
from altneu.runtime.stored import StoredState
from altneu.trace.future import FutureUpdates


class Overlay(StateTable):
    """The states as the step has changed them so far, in this process or in tasks, and below them those of the table.

    ``anew`` are computed from nothing: what the table has of them is not seen.
    """

    def __init__(self, table: StateTable, plan: Plan, anew: Collection[str]) -> None:
        super().__init__(table.store, table.lattice, table.durable, blobs=table.blobs, layouts=plan.layouts)
        self.table, self.anew = table, anew
        self.names = table.names
        self._holding = {key for key in table.future if key[0] not in anew}

    def get(self, name: str, shard: int) -> ArrangementState | None:
        """The state of one arrangement in one shard, opened if need be; None where there is none yet."""
        result = self.live.get((name, shard))
        if result is None and self.stored:
            result = super().get(name, shard)
        return result if result is not None or name in self.anew else self.table.get(name, shard)

    def put(self, name: str, shard: int, state: ArrangementState) -> None:
        """Replace a state by the one a step made in this process."""
        key = (name, shard)
        if self.live.get(key) is state:
            return
        self.live[key] = state
        self._note_future(key, state)
        if self.durable:
            self.fresh.add(key)

    def _note_future(self, key: tuple[str, int], state: ArrangementState | StoredState) -> None:
        """What waits is asked for a stage at a time, by ``waiting``."""
        if state.future.buckets if isinstance(state, ArrangementState) else state["hold"]:
            self._holding.add(key)
        else:
            self._holding.discard(key)

    @property
    def holding(self) -> Collection[tuple[str, int]]:
        """The states that have future updates, by name and shard."""
        return self._holding

    def waiting(self, name: str, shard: int) -> FutureUpdates | FutureSummary | None:
        """What waits in one shard of a state; nothing is opened to tell."""
        key = (name, shard)
        if not self.lattice.is_total:  # only the times themselves tell what is due
            state = self.get(name, shard)
            return None if state is None else state.future
        if key in self.live:
            return self.live[key].future
        if key in self.stored:
            return FutureSummary.of_stored(self.stored[key])
        return None if name in self.anew else self.table.future.get(key)

    def named(self, names: Collection[str]) -> dict[tuple[str, int], StoredState]:
        """What states are called in the store, so that tasks can open them."""
        self.table.settle()
        self.settle()
        below = {k: v for k, v in self.table.stored.items() if k[0] in names and k[0] not in self.anew}
        return below | {k: v for k, v in self.stored.items() if k[0] in names}

    def retained(self) -> tuple[dict[tuple[str, int], ArrangementState], dict[tuple[str, int], StoredState]]:
        """What the commit keeps of this: the states that only this process has, and those that the store has."""

        def part(states: Mapping[tuple[str, int], Any]) -> dict[tuple[str, int], Any]:
            return {k: v for k, v in states.items() if not (k[0].startswith(PENDED) or k[0] in self.anew)}

        here = {k: s for k, s in self.live.items() if k in self.fresh or k not in self.stored}
        return part(here), part({k: v for k, v in self.stored.items() if k not in here})
