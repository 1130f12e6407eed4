"""What loops, feedback and moments need to follow rows that rest on rows of other rounds, times and moments.

Each of them is run again in a session of its own, and rows are followed there from place to place. The tracer that does
so (``tracing.Tracer``) stands above, and is reached through a protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Rows
from altneu.engine.engine import Engine
from altneu.plan import ir
from altneu.provenance.finding import Finder, any_of, counted, distinct, until
from altneu.runtime.inputs import Inputs
from altneu.runtime.read import At
from altneu.trace.update import Updates

Leaf = tuple[str, At]
"""A source as of a time."""
Part = tuple[ir.Node, Rows, At]
"""Rows of a collection that others rest on, as of a time."""
When = Callable[[At], str] | None
"""What a time is called."""


class Place(Protocol):
    """Where a tracer is: at a time, with what finds rows as of it."""

    @property
    def finder(self) -> Finder:
        """What finds rows as of the time."""

    def note(self, text: str) -> None:
        """Add a note to the explanation."""

    def follow_in(
        self, finder: Finder, wanted: Sequence[tuple[ir.Node, Rows]], *, round_: int | None = None, when: When = None
    ) -> Mapping[Leaf, Rows]:
        """The rows of each source that rows rest on in a session of its own, as of its times."""


def found(finder: Finder, node: ir.Node, asked: Sequence[Rows]) -> Updates | None:
    """The updates of rows of a collection that agree with any of what is asked; None: they are not kept."""
    parts = [finder.find(node, rows) for rows in asked]
    known = [updates for updates in parts if updates is not None]
    return any_of(known, asked) if len(known) == len(parts) else None


def there(updates: Updates, rows: Rows, at: At) -> npt.NDArray[np.bool_]:
    """Which rows are there at a time, however often, by their updates."""
    held = counted(until(updates, at)).rows
    return np.asarray(np.isin(hash_rows(rows), hash_rows(held)))


def insert(engine: Engine, name: str, updates: Updates) -> None:
    """Insert updates into a source of a session; one that no view reads needs none."""
    if not len(updates) or name not in engine.sources:
        return
    engine.wait_again(engine.waiting().and_more(Inputs({name: [under(engine.source(name).schema, updates)]})))


def under(schema: pa.Schema, updates: Updates) -> Updates:
    """The same updates under a schema that allows more nulls."""
    return updates.with_rows(Rows(schema, updates.rows.columns, updates.rows.count))


def together(parts: Iterable[Rows], schema: pa.Schema) -> Rows:
    """Rows of several parts as rows of a collection, each once."""
    return distinct(Rows.concat([Rows(schema, part.columns, part.count) for part in parts], schema))
