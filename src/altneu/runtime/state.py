"""What arrangements keep, between the form that a step reads and the form that a store names.

In memory an arrangement's state is a spine and future updates. In a store it is one JSON value a shard that names
immutable batches, and the runs of its future updates: large ones are segments, small ones blobs inside the commit
itself. Spark tasks are sent the second form and open what they touch; the driver keeps both and translates only what
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, cast

import numpy as np
import pyarrow as pa

from altneu.columnar.rows import Rows
from altneu.operators.base import ArrangementState, Region
from altneu.order import Antichain, Lattice, fixed
from altneu.runtime.files import Files, description_from_json, frontier_from_json, frontier_to_json, to_ipc
from altneu.runtime.stored import Data, StoredBatch, StoredFuture, StoredRun, StoredState, in_segment
from altneu.store import Admitted, Store
from altneu.trace.batch import Batch, Description, Layout, LazyBatch, reaches, uncompacted_from
from altneu.trace.future import FutureUpdates, LazyRun, Rounds, Run
from altneu.trace.records import batch_of_records, records_of, rows_schema
from altneu.trace.spine import Spine
from altneu.trace.update import Updates

_NAMES_CACHED = 64  # names remembered for each state before those no longer in use are looked for
_ROWS_CACHED = 1 << 20  # updates that are kept in memory by their names alone before they are looked for
BLOB_BYTES = (
    16 * 1024
)  # below this a batch travels inside the commit: a file of its own would cost more than its content

WriteData = Callable[[list[pa.RecordBatch], pa.Schema], Data]
OpenData = Callable[[Data], list[pa.RecordBatch]]


def batch_to_json(batch: Batch, write: WriteData) -> StoredBatch:
    """Name a batch; its data is written by ``write``."""
    data = batch.stored if isinstance(batch, LazyBatch) else None
    if data is None:
        batches = records_of(batch)
        data = write(batches, batches[0].schema)
    return {
        "lower": frontier_to_json(batch.description.lower),
        "upper": frontier_to_json(batch.description.upper),
        "since": frontier_to_json(batch.description.since),
        "rows": len(batch),
        "data": data,
    }


def batch_from_json(layout: Layout, value: StoredBatch, open_data: OpenData) -> Batch:
    """Open the batch that ``batch_to_json`` named."""
    return batch_of_records(layout, description_from_json(layout, value), open_data(value["data"]))


def updates_to_batch(updates: Updates) -> pa.RecordBatch:
    """Updates as one record batch: the rows, then ``#time0`` …, then ``#diff``."""
    controls = [(f"#time{i}", t) for i, t in enumerate(updates.times)] + [("#diff", updates.diffs)]
    fields = [*updates.schema, *(pa.field(n, pa.int64()) for n, _ in controls)]
    return pa.RecordBatch.from_arrays(
        [*updates.rows.columns, *(pa.array(np.ascontiguousarray(c)) for _, c in controls)], schema=pa.schema(fields)
    )


def updates_from_batch(batch: pa.RecordBatch | pa.Table, schema: pa.Schema, width: int) -> Updates:
    """The updates that ``updates_to_batch`` wrote."""
    rows = Rows.from_batch(batch)
    n = len(schema)
    controls = [np.asarray(c) for c in rows.columns[n:]]
    times = controls[0].reshape(1, -1) if width == 1 else np.stack(controls[:width])  # a mapped column is not copied
    return Updates(Rows(schema, rows.columns[:n], rows.count), times, controls[width])


class Names:
    """What immutable batches and runs are called in the store: what is written once is not written again."""

    def __init__(self, write: WriteData, *, admit: bool = False) -> None:
        self.write, self.admit = write, admit
        self.known: dict[int, tuple[Batch | Updates, StoredBatch | StoredRun]] = {}
        self._rows = self._rows_used = 0

    def of(self, batch: Batch) -> StoredBatch:
        """The name of a batch, which is written now if it never was."""
        known = self.known.get(id(batch))
        return cast(StoredBatch, known[1] if known else self._add(batch, batch_to_json(batch, self.write)))

    def of_run(self, run: Run) -> StoredRun:
        """The name of a run's updates, in the same way."""
        if isinstance(run, LazyRun):
            stored: StoredRun = run.stored
            return stored
        updates = run.whole
        known = self.known.get(id(updates))
        return known[1] if known else self._add(updates, run_to_json(updates, self.write))

    def _add(self, part: Batch | Updates, name: StoredBatch | StoredRun) -> StoredBatch | StoredRun:
        if self.admit:
            name = cast(StoredBatch | StoredRun, Admitted(name))
        self._note(part, name)
        return name

    def _note(self, part: Batch | Updates, name: StoredBatch | StoredRun) -> None:
        self._rows += len(part)
        self.known[id(part)] = part, name  # keeps it alive, so that its id stays its own

    def note(self, state: ArrangementState, value: StoredState) -> None:
        """Remember what the parts of a state are called that was opened from ``value``."""
        for batch, name in zip(state.spine.batches, value["batches"], strict=True):
            self._note(batch, name)
        for (_, run), future in zip(state.future.runs, value["hold"], strict=True):
            if not isinstance(run, LazyRun):
                self._note(run.whole, future["run"])

    def undo(self, number: int, blobs: Collection[str]) -> None:
        """Let go of the names of what was written for commit ``number``, which did not happen.

        Blobs may be gone, and segments not be on the disk as they were written.
        """
        uncommitted = f"b{number}."

        def gone(name: StoredBatch | StoredRun) -> bool:
            segments = name.references.segments.values() if isinstance(name, Admitted) else ()
            return any(segment.number == number for segment in segments) or any(
                blob.startswith(uncommitted) and blob not in blobs for blob in blob_names(name)
            )

        self.known = {i: result for i, result in self.known.items() if not gone(result[1])}

    def forget(self, states: Collection[ArrangementState]) -> None:
        """Now and then, let go of what no state has any more."""
        many = _NAMES_CACHED * (1 + len(states))
        if len(self.known) <= many and self._rows - self._rows_used <= max(_ROWS_CACHED, self._rows_used):
            return
        runs = [run for s in states for _, run in s.future.runs if not isinstance(run, LazyRun)]
        used = {id(batch) for s in states for batch in s.spine.batches} | {id(run.whole) for run in runs}
        self.known = {i: result for i, result in self.known.items() if i in used}
        self._rows = self._rows_used = sum(len(part) for part, _ in self.known.values())


def run_to_json(updates: Updates, write: WriteData) -> StoredRun:
    """Name the updates of a run; they are written by ``write``."""
    batch = updates_to_batch(updates)
    return {"rows": len(updates), "data": write([batch], batch.schema)}


def state_to_json(state: ArrangementState, names: Names) -> StoredState:
    """Name everything one arrangement has in one shard."""
    batches = [names.of(batch) for batch in state.spine.batches if len(batch)]
    return {"batches": batches, "hold": [_future_to_json(state.future, *run, names) for run in state.future.runs]}


def _future_to_json(future: FutureUpdates, rounds: Rounds, run: Run, names: Names) -> StoredFuture:
    value: StoredFuture = {"run": names.of_run(run), "skip": run.skip, "least": run.least(future.outer)}
    if rounds:
        value["rounds"] = list(rounds)
    return value


def state_from_json(layout: Layout, value: StoredState, open_data: OpenData) -> ArrangementState:
    """Open everything that one arrangement keeps in one shard."""
    spine = Spine.of(layout, [batch_from_json(layout, batch, open_data) for batch in value["batches"]])
    runs = [Run(_open_run(layout, future["run"], open_data), future["skip"]) for future in value["hold"]]
    return ArrangementState(spine, _future_of(layout, value, runs))


def lazy_state(layout: Layout, value: StoredState, files: Files) -> ArrangementState:
    """What one arrangement keeps in one shard, opened where it is touched."""
    spine = Spine.of(layout, [files.batch(layout, batch) for batch in value["batches"]])
    return ArrangementState(spine, _future_of(layout, value, _lazy_runs(layout, value, files)))


def _lazy_runs(layout: Layout, value: StoredState, files: Files) -> list[Run]:
    return [lazy_run(layout, future["run"], future["skip"], future["least"], files) for future in value["hold"]]


def lazy_run(layout: Layout, stored: StoredRun, skip: int, least: int, files: Files) -> LazyRun:
    """A run of an arrangement's hold, opened when some of it is due."""
    outer = fixed(layout.lattice)
    counts, nothing = (stored["rows"], files.size(stored["data"])), Updates.empty(layout.schema, outer.width)
    return LazyRun(stored, counts, skip, least, outer, nothing, lambda: _open_run(layout, stored, files.open))


def _future_of(layout: Layout, value: StoredState, runs: Sequence[Run]) -> FutureUpdates:
    rounds = [tuple(future.get("rounds", ())) for future in value["hold"]]
    return FutureUpdates.of(layout.schema, layout.lattice, zip(rounds, runs, strict=True))


def _open_run(layout: Layout, stored: StoredRun, open_data: OpenData) -> Updates:
    """Open a run, which was stored in order and lies in one record batch."""
    (batch,) = open_data(stored["data"])
    return updates_from_batch(batch, layout.schema, fixed(layout.lattice).width)


@dataclass(frozen=True)
class FutureSummary:
    """What a hold has, without opening it: of each run its round, the least epoch, its updates.

    It answers as ``FutureUpdates`` does where outer times are a total order; how many are due it says at most.
    """

    runs: tuple[tuple[Rounds, int, int], ...]

    @classmethod
    def of_state(cls, state: ArrangementState) -> FutureSummary:
        """Of a live state."""
        future = state.future
        return cls(tuple((rounds, run.least(future.outer), len(run)) for rounds, run in future.runs))

    @classmethod
    def of_stored(cls, value: StoredState) -> FutureSummary:
        """Of a stored one."""
        return cls(tuple((tuple(r.get("rounds", ())), r["least"], r["run"]["rows"] - r["skip"]) for r in value["hold"]))

    @cached_property
    def least(self) -> int:
        """The least epoch of all."""
        return min((least for _, least, _ in self.runs), default=0)

    @cached_property
    def rows(self) -> int:
        """Updates in all rounds."""
        return sum(rows for *_, rows in self.runs)

    def next_round(self, rounds: Rounds, upper: Antichain) -> int | None:
        """The least round, of a loop that runs in ``rounds`` of those around it, in which anything is due."""
        at = len(rounds)
        return min((r[at] for r, least, _ in self.runs if r[:at] == rounds and _is_before(least, upper)), default=None)

    def is_due(self, rounds: Rounds, upper: Antichain) -> bool:
        """Whether anything of a round lies before ``upper``."""
        return any(r == rounds and _is_before(least, upper) for r, least, _ in self.runs)

    def due_in(self, rounds: Rounds, upper: Antichain) -> int:
        """At most so many updates of a round lie before ``upper``."""
        return sum(rows for r, least, rows in self.runs if r == rounds and _is_before(least, upper))


def _is_before(least: int, upper: Antichain) -> bool:
    return upper.least is None or least < upper.least


def _stored_rows(value: StoredState) -> int:
    return sum(batch["rows"] for batch in value["batches"]) + FutureSummary.of_stored(value).rows


def blob_names(value: Any) -> Iterator[str]:
    """Names of the blobs that a stored value names, at any depth."""
    if isinstance(value, Admitted):
        yield from value.references.blobs
    elif isinstance(value, Mapping):
        if isinstance(value.get("blob"), str):
            yield value["blob"]
        for inner in value.values():
            yield from blob_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from blob_names(inner)


@dataclass
class StateTable:
    """Every arrangement's state in every shard, live, stored, or both.

    ``stored`` is what the store holds or will hold after the next commit; ``fresh`` are the live states that no stored
    value tells yet. A memory store is never told: then live is all there is.
    """

    store: Store
    lattice: Lattice
    durable: bool
    live: dict[tuple[str, int], ArrangementState] = field(default_factory=dict)
    stored: dict[tuple[str, int], StoredState] = field(default_factory=dict)
    fresh: set[tuple[str, int]] = field(default_factory=set)
    unlogged: set[tuple[str, int]] = field(default_factory=set)  # stored, and not yet in a commit
    names: Names = field(init=False)
    blobs: dict[str, bytes] = field(default_factory=dict)
    layouts: dict[str, Layout] = field(default_factory=dict)
    future: dict[tuple[str, int], FutureSummary] = field(default_factory=dict)  # of each hold that has anything
    total: int = field(init=False)  # updates in all states

    def __post_init__(self) -> None:
        self.names = Names(self.write, admit=True)
        self.total = sum([self.rows_in(*key) for key in {**self.live, **self.stored}])

    @property
    def files(self) -> Files:
        """Where to open what was committed, or is about to be."""
        return Files(self.store.segment_directory, self.blob)

    def open_data(self, data: Data) -> list[pa.RecordBatch]:
        """Open data that was committed, or is about to be."""
        return self.files.open(data)

    def blob(self, name: str) -> bytes | memoryview:
        """The bytes of a blob that was committed, or is about to be."""
        return self.blobs[name] if name in self.blobs else self.store.blob(name)

    def get(self, name: str, shard: int) -> ArrangementState | None:
        """The state of one arrangement in one shard, opened if need be; None where nothing was ever kept."""
        key = (name, shard)
        if key in self.live:
            return self.live[key]
        state = None
        if key in self.stored:
            state = state_from_json(self.layouts[name], self.stored[key], self.open_data)
            self.names.note(state, self.stored[key])
            self.live[key] = state
        return state

    def put(self, name: str, shard: int, state: ArrangementState) -> None:
        """Replace a state by the one a step made in this process."""
        key = (name, shard)
        if state.future.buckets or key in self.future or key not in self.live:
            self.total += state.rows - self.rows_in(name, shard)
            self._note_future(key, state)
        else:
            self.total += state.spine.rows - self.live[key].spine.rows
        self.live[key] = state
        if self.durable:
            self.fresh.add(key)

    def put_live(self, name: str, shard: int, state: ArrangementState) -> None:
        """Replace a state by one that the store names alike: a merge has gone on in it, and has not ended."""
        self.live[name, shard] = state

    def put_stored(self, name: str, shard: int, value: StoredState) -> None:
        """Replace a state by the one a task made and wrote."""
        key = (name, shard)
        self.total += _stored_rows(value) - self.rows_in(*key)
        self.stored[key] = value
        self._note_future(key, value)
        self.live.pop(key, None)
        self.fresh.discard(key)
        self.unlogged.add(key)

    def put_present(self, name: str, shard: int, other: str) -> None:
        """Give an arrangement in one shard what another has there but for future updates; nothing is opened."""
        state = self.live.get((other, shard))
        if state is not None:
            self.put(name, shard, ArrangementState(state.spine, ArrangementState.empty(self.layouts[other]).future))
        elif (value := self.stored.get((other, shard))) is not None:
            self.put_stored(name, shard, {"batches": value["batches"], "hold": []})

    def _note_future(self, key: tuple[str, int], state: ArrangementState | StoredState) -> None:
        if not (state.future.buckets if isinstance(state, ArrangementState) else state["hold"]):
            self.future.pop(key, None)
            return
        summary = (
            FutureSummary.of_state(state) if isinstance(state, ArrangementState) else FutureSummary.of_stored(state)
        )
        if summary.rows:
            self.future[key] = summary
        else:
            self.future.pop(key, None)

    @property
    def holding(self) -> Collection[tuple[str, int]]:
        """The states that have future updates, by name and shard."""
        return self.future

    def is_due(self, upper: Antichain, beyond: int) -> bool:
        """Whether more than ``beyond`` future updates are due before ``upper``; opens none if all have so few."""
        return sum(self.future[key].rows for key in self._future_before(upper)) > beyond and self.due(upper) > beyond

    def due(self, upper: Antichain) -> int:
        """How many future updates are due before ``upper``, over all arrangements and shards."""
        return sum(self.due_of(upper).values())

    def due_of(self, upper: Antichain) -> dict[str, int]:
        """How many future updates of each arrangement are due before ``upper``, over all shards."""
        due = dict[str, int]()
        for name, shard in self._future_before(upper):
            due[name] = due.get(name, 0) + self._future_in(name, shard).due(upper)
        return due

    def _future_in(self, name: str, shard: int) -> FutureUpdates:
        """The future updates of a state in one shard; where it is not open, runs are opened of which some are due."""
        state = self.live.get((name, shard))
        if state is not None:
            return state.future
        layout, value = self.layouts[name], self.stored[name, shard]
        return _future_of(layout, value, _lazy_runs(layout, value, self.files))

    def _future_before(self, upper: Antichain) -> list[tuple[str, int]]:
        return [key for key, summary in self.future.items() if upper.least is None or summary.least < upper.least]

    def remove(self, name: str) -> list[tuple[str, int]]:
        """Forget an arrangement; returns the stored keys that the next commit has to delete."""
        self.total -= self.rows(name)
        removed = [key for key in self.stored if key[0] == name]
        for table in (self.live, self.stored, self.future):
            for key in [k for k in table if k[0] == name]:
                del table[key]
        self.fresh = {k for k in self.fresh if k[0] != name}
        self.unlogged = {k for k in self.unlogged if k[0] != name}
        return removed

    def forget_before(self, names: Collection[str], region: Region) -> None:
        """Drop the batches of arrangements with ``changes_only`` that have nothing which ``since`` tells apart.

        Cost:   a look at the descriptions of their batches; none is opened.
        """
        for name, shard in [key for key in {**self.live, **self.stored} if key[0] in names]:
            lattice = self.layouts[name].lattice
            start = uncompacted_from(region.since_of(name, lattice))
            state = self.live.get((name, shard))
            if state is not None:
                spine = state.spine.from_time(start)
                if spine is not state.spine:
                    self.put(name, shard, replace(state, spine=spine))
                continue
            value = self.stored[name, shard]
            ends = (frontier_from_json(lattice, batch["upper"]).elements for batch in value["batches"])
            rest = [batch for batch, upper in zip(value["batches"], ends, strict=True) if reaches(upper, start)]
            if len(rest) < len(value["batches"]):
                self.put_stored(name, shard, {**value, "batches": rest})

    def descriptions(self, name: str, shard: int) -> list[Description]:
        """What is known of the batches of a state without opening it."""
        state = self.live.get((name, shard))
        if state is not None:
            return [batch.description for batch in state.spine.batches]
        value = self.stored.get((name, shard), {"batches": [], "hold": []})
        return [description_from_json(self.layouts[name], batch) for batch in value["batches"]]

    def columns_of(self, name: str) -> pa.Schema | None:
        """The columns of an arrangement's rows as its data tells them, without a layout; None where there are none."""
        for shard in self.shards_of(name):
            value = self.stored.get((name, shard), {"batches": [], "hold": []})
            parts = (*(batch["data"] for batch in value["batches"]), *(run["run"]["data"] for run in value["hold"]))
            for data in parts:
                for batch in self.open_data(data):
                    return rows_schema(batch.schema)
        return None

    def rows(self, name: str) -> int:
        """Updates that an arrangement keeps, over all shards."""
        return sum(self.rows_in(name, s) for s in self.shards_of(name))

    def rows_in(self, name: str, shard: int) -> int:
        """Updates that an arrangement keeps in one shard."""
        key = (name, shard)
        state = self.live.get(key)
        if state is not None:
            return state.rows
        value = self.stored.get(key)
        return 0 if value is None else _stored_rows(value)

    def copy(self) -> StateTable:
        """What is there now, to be read while this one goes on: states and blobs are named, not copied."""
        live, stored, layouts = dict(self.live), dict(self.stored), dict(self.layouts)
        blobs: dict[str, Any] = {**self.store.blobs(), **self.blobs}
        return StateTable(self.store, self.lattice, self.durable, live, stored, blobs=blobs, layouts=layouts)

    def sizes(self) -> dict[str, tuple[int, int]]:
        """Updates and about how many bytes each arrangement keeps, over all shards; nothing is opened to tell."""
        result = dict.fromkeys(self.layouts, (0, 0))
        for name, shard in {**self.live, **self.stored}:
            rows, size = result.get(name, (0, 0))
            result[name] = rows + self.rows_in(name, shard), size + self._size(name, shard)
        return result

    def size(self, name: str) -> int:
        """Bytes that an arrangement takes, over all shards: in memory if it is open there, else in the store."""
        return sum(self._size(name, s) for s in self.shards_of(name))

    def _size(self, name: str, shard: int) -> int:
        state, files = self.live.get((name, shard)), self.files
        if state is not None:
            return sum(batch.nbytes for batch in state.spine.batches) + sum(run.nbytes for _, run in state.future.runs)
        value = self.stored[name, shard]
        data = (*(batch["data"] for batch in value["batches"]), *(run["run"]["data"] for run in value["hold"]))
        return sum(map(files.size, data))

    def mark(self) -> tuple[Any, ...]:
        """What ``restore`` needs to undo everything since."""
        return (
            self.total,
            dict(self.live),
            dict(self.stored),
            dict(self.future),
            {*self.fresh},
            {*self.unlogged},
            dict(self.blobs),
        )

    def restore(self, mark: tuple[Any, ...]) -> None:
        """Undo everything since ``mark``: a step that failed never happened."""
        self.total, live, stored, future, fresh, unlogged, blobs = mark
        self.live, self.stored, self.future, self.blobs = map(dict, (live, stored, future, blobs))
        self.fresh, self.unlogged = set(fresh), set(unlogged)
        self.names.undo(self.store.next_number, self.blobs)

    def as_of(self, mark: tuple[Any, ...], layouts: Mapping[str, Layout]) -> StateTable:
        """What there was at ``mark``, to be read while this one goes on; states are named, not copied."""
        _, live, stored, future, *_, blobs = mark
        table = StateTable(self.store, self.lattice, self.durable, dict(live), dict(stored), future=future)
        table.blobs, table.layouts = dict(blobs), dict(layouts)
        return table

    def shards_of(self, name: str) -> list[int]:
        """The shards in which an arrangement keeps anything."""
        return sorted({s for n, s in (*self.live, *self.stored) if n == name})

    def write(self, batches: list[pa.RecordBatch], schema: pa.Schema) -> Data:
        """Write data for the commit to come: small as a blob, large as a segment."""
        if sum(b.nbytes for b in batches) < BLOB_BYTES:
            name = f"b{self.store.next_number}.{len(self.blobs)}"
            self.blobs[name] = to_ipc(batches, schema)
            return {"blob": name}
        return in_segment(self.store.write_segment(batches, schema))

    def settle(self) -> None:
        """Name everything fresh, so that tasks can open it and a commit can tell it."""
        for key in sorted(self.fresh):
            self.stored[key] = state_to_json(self.live[key], self.names)
        self.unlogged |= self.fresh
        self.fresh.clear()

    def release(self) -> None:
        """Let go of everything: the memory of a closed session is not kept until a collector finds it."""
        for table in (self.live, self.stored, self.names.known, self.blobs, self.future):
            table.clear()
        self.total = 0

    def uncommitted(self) -> dict[tuple[str, int], StoredState]:
        """Every stored value that no commit tells yet."""
        return {key: self.stored[key] for key in sorted(self.unlogged)}

    def committed(self) -> None:
        """All is told: drop the blobs, which are in the log now, and the names of what nothing has any more."""
        self.unlogged.clear()
        self.blobs.clear()
        self.names.forget(self.live.values())
