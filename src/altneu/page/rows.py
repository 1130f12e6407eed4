"""The rows of a view, a window at a time: filtered, in an order, and found again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from altneu.columnar.hashing import hash_rows
from altneu.columnar.python_values import python_values, readable
from altneu.columnar.rows import Rows
from altneu.engine.reading import refuse_without_contents
from altneu.errors import ReadError, UnknownColumnError
from altneu.operators.kernels.spans import show_row
from altneu.page.cells import cells_of, columns_of
from altneu.page.snapshot import Snapshot
from altneu.runtime.read import contents, summed
from altneu.trace.update import Updates
from altneu.views.contents import Contents, stored_errors

MOST = 2_000_000  # updates of a view that are added up; of a larger one the page shows the first part
SORTED = 20_000  # fewer rows than these are in order of their columns, if nothing else is asked for
MOST_ERRORS = 100_000  # updates of errors, beyond which they are counted as they are kept
KEPT = 6  # parts and selections that are remembered


@dataclass(frozen=True)
class RowQuery:
    """Which rows of a view: those that have ``text`` in some column, in order of one."""

    text: str = ""
    sort: str | None = None
    descending: bool = False


@dataclass(frozen=True)
class Selection:
    """Rows of a view with their counts, each once, in an order; ``whole`` if the view has no other rows to select from.

    Units:  ``of`` counts the distinct rows selected from, ``counted`` their sum with counts.
    """

    updates: Updates
    of: int
    counted: int
    whole: bool

    def window(self, offset: int, limit: int) -> dict[str, Any]:
        """Some of the rows, as JSON; ``id`` identifies a row."""
        part = self.updates.take(np.arange(offset, min(offset + limit, len(self.updates))))
        ids = [f"{h:016x}" for h in hash_rows(part.rows).tolist()] if len(part) else []
        return {
            "columns": columns_of(self.updates.schema),
            "rows": cells_of(part.rows),
            "counts": part.diffs.tolist(),
            "ids": ids,
            "offset": offset,
            "selected": len(self.updates),
            "distinct": self.of,
            "rows_with_counts": self.counted,
            "whole": self.whole,
        }

    def row(self, id_: str) -> tuple[object, ...] | None:
        """The row of an id, None if it is not there any more."""
        if not len(self.updates):
            return None
        at = np.flatnonzero(hash_rows(self.updates.rows) == np.uint64(int(id_, 16)))
        return self.updates.rows.take(at[:1]).to_pylist()[0] if len(at) else None


class Windows:
    """Windows into views, of which the last selections are remembered."""

    def __init__(self) -> None:
        self._cached: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()

    def select(self, snapshot: Snapshot, name: str, query: RowQuery) -> Selection:
        """The rows of a view that are asked for.

        Cost:   once for each snapshot and query: adds up the view's updates (0.2 s a million), filters, sorts.

        Raises:
            UnknownColumnError: it is to be sorted by something else.
            ReadError: by a column that has no order.
        """
        updates, whole = self.remembered((snapshot, name), lambda: part_of(snapshot, name))
        return self.remembered((snapshot, name, query), lambda: _selected(updates, whole, query))

    def remembered(self, key: Any, make: Callable[[], Any]) -> Any:
        """What was made for a key, made now if it is not remembered."""
        with self._lock:
            if key in self._cached:
                self._cached.move_to_end(key)
                return self._cached[key]
        value = make()
        with self._lock:
            self._cached[key] = value
            while len(self._cached) > KEPT:
                self._cached.popitem(last=False)
        return value


def part_of(snapshot: Snapshot, name: str) -> tuple[Updates, bool]:
    """The rows of a view with their counts, and whether they are all: of a large view, those whose keys hash lowest."""
    refuse_without_contents(snapshot.ports(name), name)
    time, contained = snapshot.known(name).readable(None), snapshot.ports(name).contents
    with snapshot.lock:
        total = snapshot.table.rows(contained)
        if total <= MOST:
            return contents(snapshot.table, contained, time), True
        upper, layout = int((1 << 64) * (MOST / total)), snapshot.table.layouts[contained]
        states = [
            s
            for shard in snapshot.table.shards_of(contained)
            if (s := snapshot.table.get(contained, shard)) is not None
        ]
        parts = [summed([b.between(0, upper) for b in s.spine.batches], layout, time) for s in states]
    return Updates.concat(parts, layout.schema, 1), False


def _selected(updates: Updates, whole: bool, query: RowQuery) -> Selection:
    of, counted = len(updates), int(updates.diffs.sum())
    if query.text:
        updates = updates.filter(having(updates.rows, query.text))
    order = _order(updates.rows, query)
    return Selection(updates if order is None else updates.take(order), of, counted, whole)


def having(rows: Rows, text: str) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which rows have a text in any column, as they are shown, whatever the case of its letters."""
    mask = np.zeros(rows.count, np.bool_)
    for column in rows.columns:
        matches = pc.match_substring(_as_text(column), text.lower(), ignore_case=True)
        mask |= matches.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_interval(column.type):
        return pa.array([show_row(["v"], (v,)) for v in python_values(column)], pa.string())
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        values, beyond = readable(column)
        if beyond:
            return pa.array([None if value is None else str(value) for value in values], pa.string())
    return pc.cast(column, pa.string())


def _order(rows: Rows, query: RowQuery) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The positions of the rows in order; None: as they are."""
    if query.sort is not None:
        if query.sort not in rows.schema.names:
            raise UnknownColumnError(query.sort, rows.schema.names, "the order of the rows")
        if not _has_order(rows.schema.field(query.sort).type):
            raise ReadError(f"column {query.sort!r} cannot be used for sorting: its values are nested")
        names = [query.sort]
    elif rows.count <= SORTED:
        names = [f.name for f in rows.schema if _has_order(f.type)]
    else:
        names = []
    if not names or not rows.count:
        return None
    table = pa.table([rows.column(name) for name in names], names=[str(i) for i in range(len(names))])
    way = "descending" if query.descending else "ascending"
    return np.asarray(pc.sort_indices(table, [(name, way) for name in table.column_names])).astype(np.int64)


def _has_order(kind: pa.DataType) -> bool:
    return not (pa.types.is_nested(kind) or pa.types.is_null(kind) or pa.types.is_interval(kind))


def errors_of(snapshot: Snapshot, name: str) -> Rows:
    """The errors of a view, each once."""
    return Rows.from_batch(Contents(snapshot, name).errors())


def count_errors(snapshot: Snapshot, name: str) -> int:
    """How many errors a view has, those of negative counts left out, which only its rows tell."""
    counts = [snapshot.sizes.get(origin, (0, 0))[0] for origin in snapshot.ports(name).errors]
    if not any(counts) or sum(counts) > MOST_ERRORS:
        return sum(counts)
    if name not in snapshot.errors:
        with snapshot.lock:
            time = snapshot.known(name).readable(None)
            snapshot.errors[name] = stored_errors(snapshot.table, snapshot.ports(name), time).count
    return snapshot.errors[name]
