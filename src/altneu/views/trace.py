"""Traces: arrangements as values, which are looked up, read by cursors, imported elsewhere, and compacted apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from altneu.collections.collection import Collection
from altneu.columnar.canonical import canonical
from altneu.columnar.hashing import hash_rows
from altneu.columnar.rows import Record, Rows, array_of, record_type
from altneu.engine.engine import Engine, at_rest
from altneu.engine.reading import OnErrors, Time, check_on_errors, refuse_without_contents, updates_table
from altneu.errors import ReadError
from altneu.operators.kernels.grouping import group_rows
from altneu.order import Antichain
from altneu.runtime.read import At
from altneu.trace.batch import Batch, Layout
from altneu.trace.cursor import between, chunks, places, settled
from altneu.trace.update import Updates
from altneu.types import to_ddl
from altneu.views.contents import Contents
from altneu.views.view import View

_UNBOUNDED = object()


class Entry(NamedTuple):
    """An update as a cursor gives it: ``key`` and ``value`` are Records, the columns of the key and the others."""

    key: Record
    value: Record
    time: int | tuple[int, ...]
    diff: int


class Trace(View):
    """An arrangement of a session as a value: a view whose rows lie by a key, and within each key in an order.

    ``session.arrange`` makes one, ``session.trace`` and ``reader.trace`` give one of any view with contents. It can do
    what a view can, and is dropped and found again in a store by its name.

    >>> import altneu as an
    >>> flights = an.source("flights", "carrier string, day long, delay long")
    >>> with an.Session() as session:
    ...     by_day = session.arrange("by day", flights, "carrier", order="day")
    ...     session.insert("flights", [("UA", 1, 5), ("UA", 3, 20), ("UA", 2, 0), ("AA", 1, 7)])
    ...     _ = session.advance()
    ...     (
    ...         by_day.lookup("AA"),
    ...         [(value.day, value.delay) for _, value, _, _ in by_day.cursor("UA", start=2)],
    ...     )
    ([((1, 7), 1)], [(2, 0), (3, 20)])
    """

    def __repr__(self) -> str:
        return f"Trace({self.name}: {to_ddl(self.schema)}, by {', '.join(self.key) or 'nothing'})"

    @property
    def order(self) -> tuple[tuple[str, bool, bool], ...]:
        """The order of the rows of a key: a column, whether it descends, and whether nulls come first."""
        return self._layout.order

    @property
    def _layout(self) -> Layout:
        ports = self._readings.ports(self.name)
        return self._readings.table.layouts[ports.contents]

    @property
    def lower(self) -> int:
        """The frontier: the trace has all updates of the times before it."""
        return self._readings.known(self.name).lower

    @property
    def collection(self) -> Collection:
        """The collection that is arranged, to build further views on: their joins by the key read this arrangement.

        Raises:
            ReadError: the trace is one of a reader, which has rows but no plans; ``source_from`` imports them.
        """
        return self._engine("has no plan to build upon; import its rows with session.source_from").collections[
            self.name
        ]

    def _engine(self, why: str) -> Engine:
        if not isinstance(self._readings, Engine):
            raise ReadError(f"trace {self.name!r} is read from a store and {why}")
        return self._readings

    def lookup(self, *key: Any, at: Time = None, errors: OnErrors = "raise") -> list[tuple[Record, int]]:
        """The values of a key at a time (default: the last closed one), each with its count, in their order.

        ``key`` has a value for each column of the key, and, of an ordered trace, may go on with values of the first
        columns of the order. None finds null. Counts below zero are given as they are.

        Cost:   O(log n) and the rows that are found.
        Law:    tests/oracle/test_traces.py (against recomputation, on every runner).

        Raises:
            ReadError: too few or too many values, or one that does not fit its column.
            ViewHasErrorsError: an operator below has an error at that time.
            HistoryGoneError, NotYetKnownError: a time outside ``[since, lower)``.
        """
        if len(key) < len(self.key):
            raise ReadError(f"the key of {self.name!r} has {len(self.key)} columns, got {len(key)} value(s)")
        return [(entry.value, entry.diff) for entry in self._cursor(key, {}, at, errors, as_of=True)]

    def cursor(
        self,
        *key: Any,
        start: Any = _UNBOUNDED,
        stop: Any = _UNBOUNDED,
        at: Time = None,
        errors: OnErrors = "raise",
    ) -> Cursor:
        """A cursor over the updates: key, value, time and diff of each, those of a key together.

        With a time ``at`` it gives the rows of that time with their counts; without, all updates that the trace
        distinguishes: what came before ``since`` has the time ``since``. It stays at the state that the trace has now,
        whatever steps follow; what is inserted for later times is not in it.

        Without values it goes through all keys, in the order of their hashes, shard by shard; with values it is at a
        key, or at the part of the key's rows that begins with values of the order's first columns. ``start`` and
        ``stop`` are bounds of the next column of the order: from ``start`` on, up to but not including ``stop``, in the
        direction of the order. ``seek`` moves the cursor.

        Cost:   O(log n) to begin, and what is read. In memory are at most 8192 updates of each batch (there are
                O(log n) batches), or the updates with one key and one value of the order's first column.
        Law:    tests/oracle/test_traces.py (against recomputation, on every runner).

        Raises:
            ReadError: wrong values, or bounds of a trace without an order.
            ViewHasErrorsError, HistoryGoneError, NotYetKnownError: as ``lookup``.
        """
        return self._cursor(key, {"start": start, "stop": stop}, at, errors, as_of=at is not None)

    def _cursor(
        self, key: Sequence[Any], bounds: Mapping[str, Any], at: Time, errors: OnErrors, *, as_of: bool
    ) -> Cursor:
        check_on_errors(errors, ReadError)
        with at_rest(self._readings) as state:
            known, ports = state.known(self.name), state.ports(self.name)
            refuse_without_contents(ports, self.name)
            time = known.readable(at)
            if errors == "raise":
                Contents(state, self.name).raise_errors(time)
            layout, table = state.table.layouts[ports.contents], state.table
            states = [table.get(ports.contents, shard) for shard in table.shards_of(ports.contents)]
            batches = [state.spine.batches for state in states if state is not None]
        since = (known.since, known.events, *[0] * layout.lattice.width)[: layout.lattice.width]
        names = known.coordinates or ("time",)
        return Cursor(self.name, layout, batches, names, since, time if as_of else None).seek(*key, **bounds)

    def retain(self, times: int | Literal["all"]) -> None:
        """Keep so many times before the last closed one readable, or all from now on; 0 ends it.

        Only this trace keeps them: the session and its other views are compacted as they are. What is gone does not
        come back. ``since`` says what can be read.

        Raises:
            PlanError: ``times`` is neither a whole number of at least 0 nor "all".
            ReadError: the trace is one of a reader; ``reader.hold`` requests history.
        """
        engine = self._engine("cannot say what its writer keeps; reader.hold(since) requests history")
        engine.retain_view(self.name, times)

    def join_core(
        self, other: Trace, function: Callable[..., Any], schema: str | pa.Schema, *, version: str | int | None = None
    ) -> Collection:
        """The rows that a function makes of each pair of rows with equal keys: ``function(key, value, value)``.

        Both arrangements are read as they are; the keys have as many columns, of the same types, in the same order.
        ``Collection.join_core`` says the rest.

        Raises:
            ReadError: one of them is of a reader.
            PlanError: the keys have different numbers of columns, or none.
        """
        if not isinstance(other, Trace):
            raise ReadError(f"join_core needs a Trace, got {other!r}; Collection.join_core joins collections")
        mine, theirs = self.key, other.key
        if len(mine) != len(theirs) or not mine:
            raise ReadError(
                f"join_core needs keys of as many columns, got ({', '.join(mine)}) and ({', '.join(theirs)})"
            )
        on = dict(zip(mine, theirs, strict=True))
        return self.collection.join_core(other.collection, on, function, schema, version=version)


class Cursor:
    """The updates of a trace, from where it was sought on; ``Trace.cursor`` makes one, and iterating gives ``Entry``s.

    It holds the batches of one state, which no later step changes. Of a store, files that nothing names any more may
    be removed while it is open: hold a reader with a lease for long reads.
    """

    def __init__(
        self,
        name: str,
        layout: Layout,
        batches: Sequence[Sequence[Batch]],
        times: Sequence[str],
        since: At,
        at: At | None,
    ) -> None:
        self._name, self._layout, self._batches, self._times, self._at = name, layout, batches, times, at
        self._since = Antichain(layout.lattice, np.array(since, np.int64)[:, None])
        self._parts = self._all()
        self._entries = self._entered()
        self.updates_read = 0

    def seek(self, *key: Any, start: Any = _UNBOUNDED, stop: Any = _UNBOUNDED) -> Cursor:
        """Move to a key, a part of its rows or, without values, to the beginning; returns the cursor itself.

        Arguments and errors are those of ``Trace.cursor``. A key that is not there has no updates.
        """
        layout = self._layout
        names = [*layout.key, *(name for name, _, _ in layout.order)]
        bounded = [bound for bound in (start, stop) if bound is not _UNBOUNDED]
        if len(key) > len(names) or ((key or bounded) and len(key) < len(layout.key)):
            order = f", then of the order ({', '.join(names[len(layout.key) :])})" if layout.order else ""
            raise ReadError(
                f"{self._name!r} is sought by values of its key ({', '.join(layout.key)}){order}, got {len(key)} "
                "value(s); the key is hashed, so it is given whole: arrange by the columns that are sought, and put "
                "the others into the order"
            )
        if bounded and len(key) >= len(names):
            raise ReadError(
                f"start= and stop= bound the next column of the order of {self._name!r}, but there is none after the "
                f"{len(key)} value(s) given; arrange it with order= that column"
            )
        if not key and not bounded:
            self._parts = self._all()
        else:
            wanted = self._values(names[: len(key)], key)
            bounds = [None if b is _UNBOUNDED else self._values([names[len(key)]], (b,)) for b in (start, stop)]
            self._parts = self._within(wanted, bounds)
        self._entries = self._entered()
        return self

    def __iter__(self) -> Iterator[Entry]:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def tables(self) -> Iterator[pa.Table]:
        """The updates as Arrow tables, some thousand rows each: the columns of the rows, then times and ``diff``.

        They are read from where the cursor stands in whole parts: use either this or the entries.
        """
        for updates in self._parts:
            if len(updates):
                yield updates_table(updates, self._times[: len(updates.times)], "diff")

    # reading --------------------------------------------------------------------------------------------------------

    def _entered(self) -> Iterator[Entry]:
        layout = self._layout
        key_record, value_record = record_type(layout.key), record_type(layout.values)
        for updates in self._parts:
            keys, values = layout.split(updates.rows)
            times = updates.times[0].tolist() if len(updates.times) == 1 else map(tuple, updates.times.T.tolist())
            lines = (map(key_record, keys.to_pylist()), map(value_record, values.to_pylist()), times)
            yield from map(Entry, *lines, updates.diffs.tolist())

    def _all(self) -> Iterator[Updates]:
        for shard in self._batches:
            for part in chunks(shard, self._layout):
                self.updates_read += len(part)
                yield self._settled(part)

    def _within(self, wanted: Rows, bounds: Sequence[Rows | None]) -> Iterator[Updates]:
        """The updates of a key: those with its wanted values, between bounds of the next column of the order."""
        layout = self._layout
        hashed = int(hash_rows(wanted.select(layout.key))[0])
        given = len(wanted.schema) - len(layout.key)
        start, stop = bounds
        by = None if start is None and stop is None else layout.order[given]
        first, last = places(layout, hashed, [wanted, wanted] if given else [start, stop])
        for shard in self._batches:
            for part in chunks(shard, layout, first, last):
                self.updates_read += len(part)
                found = self._settled(_equal_to(wanted, part))
                yield found if by is None else between(found, by, start, stop)

    def _settled(self, updates: Updates) -> Updates:
        """What of the updates is to be seen, each once, in order: as of a time, or of ``since`` and later."""
        layout = self._layout
        if self._at is not None:
            own = np.array(self._at[: layout.lattice.width], np.int64)[:, None]
            updates = updates.filter(np.asarray((updates.times <= own).all(axis=0)))
            updates = replace(updates, times=np.tile(own, len(updates)))
        else:
            updates = replace(updates, times=self._since.advance(updates.times))
        found = settled(updates, layout)
        return found if self._at is None else replace(found, times=found.times[:1])

    def _values(self, names: Sequence[str], values: Sequence[Any]) -> Rows:
        fields = [self._layout.schema.field(name) for name in names]
        try:
            columns = tuple(
                canonical(array_of([value], field.type)) for value, field in zip(values, fields, strict=True)
            )
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise ReadError(f"the values do not fit the columns of {self._name!r}: {error}") from None
        return Rows(pa.schema(fields), columns, 1)


def _equal_to(wanted: Rows, updates: Updates) -> Updates:
    """The updates of rows that have some values, compared by value: of hashes alone two may be equal."""
    both = Rows.concat([updates.rows.select(wanted.schema.names), wanted], wanted.schema)
    number, _ = group_rows(both, np.empty((0, both.count), np.int64))
    mine = number[:-1] == number[-1]
    return updates if mine.all() else updates.filter(mine)
