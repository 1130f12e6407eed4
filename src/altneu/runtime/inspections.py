"""What inspected collections show, given to their functions in order of time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from altneu.columnar.rows import record_type
from altneu.operators.concat.operation import InspectOp
from altneu.order import Antichain, Lattice, lifted_frontier
from altneu.plan.physical import Plan
from altneu.trace.future import FutureRuns, Run
from altneu.trace.update import Updates


class Inspections:
    """Updates of inspected collections, with the times of the scopes they are in, retained until they can be shown.

    A step shows its updates in order of time. Of an advance in several steps the first may see updates of times that
    only a later one closes: they wait for it, so that the order is that of one step.
    """

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self._waiting: dict[tuple[str, str], tuple[InspectOp, FutureRuns]] = {}  # by a name that a later plan has too

    @property
    def is_waiting(self) -> bool:
        """Whether there is anything to be shown yet."""
        return bool(self._waiting)

    def add(self, plan: Plan, inspected: Mapping[int, list[Updates]]) -> None:
        """Take what the taps of a plan saw in a step."""
        for number, parts in inspected.items():
            node = plan.nodes[number]
            assert isinstance(node.operation, InspectOp)
            lattice = plan.lattice_of(number)
            name = node.identity.partition("-")[0], node.operation.function.digest
            _, runs = self._waiting.get(name, (None, FutureRuns(node.schema, lattice)))
            more = Updates.concat(parts, node.schema, lattice.width)
            self._waiting[name] = node.operation, runs.add(more)

    def show(self, upper: Antichain, closed: int) -> None:
        """Call the functions with the updates before ``upper``; ``closed`` is the time up to which all is committed.

        What a function raises gets a note; the updates that it was to be shown are not shown again.
        """
        shown: list[tuple[InspectOp, Updates, Lattice]] = []
        for name, (operation, runs) in [*self._waiting.items()]:
            lattice = runs.lattice
            due, rest = runs.take(upper if lattice is self.lattice else lifted_frontier(upper, lattice))
            self._waiting[name] = operation, rest
            if not len(rest):
                del self._waiting[name]
            together = Updates.concat(due, runs.schema, lattice.width)
            shown.append((operation, together if len(due) < 2 else Run.of(together, lattice).whole, lattice))
        for operation, updates, lattice in shown:
            _show(operation, updates, lattice, closed)


def _show(operation: InspectOp, updates: Updates, lattice: Lattice, closed: int) -> None:
    record: Any = record_type(updates.schema.names)
    columns = updates.rows.to_pylist(), lattice.to_pylist(updates.times), updates.diffs.tolist()
    for row, time, diff in zip(*columns, strict=True):
        try:
            operation.function.call(record(row), time, diff)
        except Exception as error:
            error.add_note(f"altneu: raised by a function for inspect; the step is committed, lower is {closed}")
            raise
