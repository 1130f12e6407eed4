"""One stream, and the processing of its micro-batches."""

from __future__ import annotations

import re
import threading
import time as clock
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from altneu.collections.source_weights import Diff
from altneu.collections.sources import Extra, commands_of, own_times, refuse_extra, unread
from altneu.engine.engine import Engine
from altneu.engine.history import Step
from altneu.engine.replace import difference
from altneu.errors import InputError, StreamError
from altneu.operators.source.keyed import COMMANDS, KIND, ROW
from altneu.order import Antichain
from altneu.plan import ir
from altneu.runtime.inputs import Commands, Inputs, Stamp
from altneu.streams.batch import (
    EVENT,
    TIME,
    Bounds,
    Late,
    late,
    measured,
    on_time,
    revised,
)
from altneu.streams.late import late_name, late_source
from altneu.streams.record import Record
from altneu.streams.tables import DIFF

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from altneu.collections.sources import InsertTime

    OnStep = Callable[["Status", Step], object]

_NAME = re.compile(r"\w+")  # what an expression may read


@dataclass(frozen=True)
class Options:
    """The options of a stream; ``session.follow`` documents them."""

    time: InsertTime = None
    diff: Diff = None
    watermark: int | None = None
    late: Late = "revise"
    command: str | None = None
    max_rows: int | None = None
    restart: str | None = None
    snapshots: bool = False
    extra: Extra = "error"
    on_step: OnStep | None = None


@dataclass(frozen=True)
class Status:
    """The status of a stream.

    Units:  ``batches`` and ``seconds`` are of this run, ``last_seconds`` of the last step, from fetching its rows to
            the commit; ``rows`` and ``late`` are totals over all runs. ``seen``, ``frontier`` and ``lag`` are times,
            None if rows have no times of their own: the greatest time so far, the time before which no more rows are
            expected, and how far ``lower`` is behind ``seen``. The session does not advance while a stream whose rows
            have times has no ``frontier`` yet.
    """

    name: str
    active: bool
    batch: int
    batches: int
    rows: int
    late: int
    seconds: float
    last_seconds: float
    seen: int | None
    frontier: int | None
    lag: int | None
    error: StreamError | None


class Registry(Protocol):
    """The part of the session's streams that a single stream uses."""

    changed: threading.Condition
    taking: set[int]

    def stored(self, name: str) -> Record:
        """The position of a stream, as of the store."""

    def encoded_records(self, changed: Mapping[str, Record]) -> dict[str, Any]:
        """The part of a commit about streams, given those that changed."""

    def target(self, changed: Mapping[str, Record]) -> int:
        """The time up to which the session advances with streams at these positions."""


class Stream(ABC):
    """Rows from outside that a session takes piece by piece, each in a step whose commit has the position.

    Law:    every piece counts once, whatever is killed in between (tests/session/test_follow_killed.py,
            tests/session/test_follow_delta_killed.py).
    """

    taken = "batch", "batches"  # what is taken, as messages say it
    query: StreamingQuery | None = None  # Spark's, of a stream that is one

    def __init__(self, engine: Engine, registry: Registry, source: ir.Source, options: Options) -> None:
        self.engine, self.name, self.options = engine, source.name, options
        self.registry = registry
        if source.coordinates is not None and len(source.coordinates) > 2:
            raise InputError(
                f"source {source.name!r} has the times {' and '.join(source.coordinates)}, and a stream's rows say two "
                "at most: insert its micro-batches with session.insert"
            )
        time, own = own_times(source, options.time)
        self.event = own[0] if own else None
        self.timed = isinstance(time, str)
        self.delay = (options.watermark or 0) if self.timed else None
        self.source = source
        self.controls = {n: c for n, c in ((TIME, time), (EVENT, self.event)) if isinstance(c, str)}
        self.error: StreamError | None = None
        self.active = True
        self._failed: BaseException | None = None
        self._begun = self._stopping = False
        self._busy = threading.RLock()
        self._batches, self._seconds, self._last, self._since = 0, 0.0, 0.0, 0.0

    def _commands(self, source: ir.Source) -> Commands | None:
        """The commands of the rows of a micro-batch, for a source with a key."""
        command, name = self.options.command, source.name
        if command is None:
            return commands_of(source, self.engine.next_call(), None)
        if not isinstance(command, str):
            raise InputError(
                f"command={command!r} of stream {name!r} must be one of {', '.join(COMMANDS)}, or a column"
            )
        if self.options.diff != 1:
            raise InputError(
                f"command={command!r} of stream {name!r} says already what happens to a row; leave diff= out"
            )
        if self.timed and self.options.late == "error" and command != "insert":
            raise InputError(
                f'late="error" of stream {name!r} keeps late rows, but not what command={command!r} would do with '
                'them; use late="revise" or late="drop"'
            )
        kind: int | str = COMMANDS.index(command) if command in COMMANDS else KIND
        return commands_of(source, self.engine.next_call(), kind)

    def _refuse_extra(self, names: Iterable[str], read: Sequence[str], given: Iterable[object]) -> None:
        """Refuse columns that neither the source has nor an option reads, by a name or in an expression.

        Raises:
            SchemaError: naming one.
        """
        words = [word for text in given if isinstance(text, str) for word in (text, *_NAME.findall(text))]
        refuse_extra(names, read, unread(self.source, self.options.extra, words), self.name)

    def _check_late(self) -> None:
        """Refuse late rows for which there is no source."""
        if self.options.late != "error" or not self.controls:
            return
        name = late_name(self.name)
        schema = late_source(self.source).schema
        if name not in self.engine.sources or self.engine.source(name).schema != schema:
            raise StreamError(
                f'late="error" keeps late rows of {self.name!r} in a source {name!r} that no maintained view reads; '
                f"maintain one of an.late_rows({self.name}) first, or choose another late="
            )

    def _stamp(self, source: ir.Source, lower: int) -> Stamp:
        """The times and diffs of rows."""
        event = EVENT if isinstance(self.event, str) else self.event
        diff = DIFF if isinstance(self.options.diff, str) else self.options.diff
        frontier = Antichain.of(self.engine.lattice, lower)
        commands = None if source is not self.source else self._commands(source)
        return Stamp(
            source.name,
            source.schema if commands is None else commands.read,
            self.engine.lattice,
            frontier,
            TIME if self.timed else lower,
            diff,
            own=() if event is None else (event,),
            commands=None if commands is None else replace(commands, row=ROW),
            append_only=source.append_only,
            closed=self.engine.closed.own if event is not None else (),
        )

    # life -----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def start(self, folder: str, *, available_now: bool, trigger: str | None) -> None:
        """Start, with Spark's checkpoint in ``folder`` if it is a query of Spark's."""

    @abstractmethod
    def _run(self) -> None:
        """Take what there is, until the end or until it is stopped."""

    @abstractmethod
    def _end(self) -> None:
        """Have ``_run`` return, after what it is at."""

    def _start(self) -> None:
        """Wait for the end in a thread of its own."""
        threading.Thread(target=self._watch, name=f"altneu stream {self.name}", daemon=True).start()

    def _watch(self) -> None:
        """Wait for the end of the stream; its failure becomes this stream's error, unless it was stopped."""
        try:
            self._run()
        except Exception as error:  # noqa: BLE001  # whatever ends it is said by ``wait``
            if not self._stopping:
                self.error = self._stopped(self._failed or error)
        finally:
            with self.registry.changed:
                self.active = False
                self.registry.changed.notify_all()

    def _stopped(self, cause: BaseException) -> StreamError:
        text, record = str(cause).split("\n\nJVM stacktrace")[0].strip(), self.record
        done = "nothing of it is" if record.batch < 0 else f"its {self.taken[1]} up to {record.batch} are"
        if not record.is_whole:
            done += f" (of that {self.taken[0]} {record.piece + 1} of {record.of} pieces)"
        error = StreamError(
            f"stream {self.name!r} stopped, {done} committed: {type(cause).__name__}: {text}\n"
            "The session and the other streams continue, and nothing is lost: remove the cause and follow the stream "
            f"again; it continues with the next {self.taken[0]}."
        )
        error.__cause__ = cause
        return error

    def stop(self) -> None:
        """Stop after the current step.

        A callback of a micro-batch or a step has the session's lock and must not wait for streams that may need it;
        from there, streams are stopped in another thread.
        """
        has_lock = self.engine.lock.is_mine  # a step's functions are called with it
        if has_lock or threading.get_ident() in self.registry.taking:
            threading.Thread(target=self.stop, name=f"altneu stop {self.name}", daemon=True).start()
            return
        self._stopping = True
        with self._busy:
            begun = self._begun
        if not begun:
            self.active = False
            return
        self._end()
        with self.registry.changed:
            self.registry.changed.wait_for(lambda: not self.active)

    @property
    def record(self) -> Record:
        """The position of the stream."""
        return replace(self.registry.stored(self.name), delay=self.delay)

    @property
    def followed(self) -> str:
        """What is followed, as messages say it."""
        return "a stream of Spark's"

    @property
    def title(self) -> str:
        """What is followed into which source, and how far it is; takes no lock, so that a step may be under way."""
        one, many = self.taken
        state = "running" if self.active else "ended" if self.error is None else f"failed: {self.error}"
        count = f"{self._batches} {one if self._batches == 1 else many}"
        return f"{self.followed} into source {self.name!r}: {state}, {count} taken"

    @property
    def status(self) -> Status:
        """The status of the stream."""
        with self.engine.lock:
            record, lower = self.record, self.engine.lower
        return self.status_at(record, lower)

    def status_at(self, record: Record, lower: int) -> Status:
        """The status, given its position when the session was at ``lower``; takes no lock."""
        lag = None if record.seen is None else max(record.seen + 1 - lower, 0)
        counts = self._batches, record.rows, record.late, self._seconds, self._last
        return Status(self.name, self.active, record.batch, *counts, record.seen, record.frontier, lag, self.error)

    # batches --------------------------------------------------------------------------------------------------------

    @contextmanager
    def _at_work(self, batch: int) -> Iterator[None]:
        """While a batch is taken: ``stop`` waits for the end, and what fails is remembered.

        Raises:
            StreamError: the stream is being stopped.
        """
        with self._busy:
            if self._stopping:
                raise StreamError(f"stream {self.name!r} is being stopped; {self.taken[0]} {batch} was not processed")
            self._since = clock.perf_counter()
            self.registry.taking.add(threading.get_ident())
            try:
                yield
            except BaseException as error:
                self._failed = error
                raise
            finally:
                self.registry.taking.discard(threading.get_ident())

    def _take_piece(self, rows: Any, done: tuple[str, int, str, int, int], *, snapshot: bool) -> None:
        """Take the rows of a piece in a step; of a ``snapshot`` they are all that the source has from then on."""
        with self.engine.lock:
            present = self.engine.source(self.name)  # a view may have been dropped meanwhile, the last that read it
            if present.fingerprint != self.source.fingerprint:
                raise StreamError(
                    f"the columns of source {self.name!r} have changed: follow the stream again with these"
                )
            lower, record = self.engine.lower, self.record
            bounds = self._bounds()
            if snapshot:
                inputs = self._difference(rows)
                record = replace(record, rows=record.rows + _count(rows))
            elif bounds:
                counts = measured(rows, bounds, self.name)
                seen = max((at for at in (record.seen, counts.seen) if at is not None), default=None)
                record = replace(record, rows=record.rows + counts.rows, late=record.late + counts.late, seen=seen)
                inputs = self._placed(rows, lower, bounds, some=counts.late > 0)
            else:
                inputs = self._inputs(self.source, rows, lower)
                record = replace(record, rows=record.rows + _count(rows))
            record = record.after(*done)
            upper = self.registry.target({self.name: record}) if record.is_whole or not self.timed else lower
            replaced = self.name if snapshot else None
            records = self.registry.encoded_records({self.name: record})
            step = self.engine.take(inputs, upper, records, replaced=replaced)
            self._count(last=record.is_whole)
            if self.options.on_step is not None:
                self.options.on_step(self.status, step)

    def _count(self, *, last: bool) -> None:
        now = clock.perf_counter()
        self._last, self._since = now - self._since, now
        self._batches, self._seconds = self._batches + last, self._seconds + self._last

    def _difference(self, rows: Any) -> Inputs:
        """The rows of a snapshot less those of the source."""
        return difference(
            self.engine, self.name, rows, DIFF if isinstance(self.options.diff, str) else self.options.diff, "ignore"
        )

    def _bounds(self) -> Bounds:
        """The first time that is not closed, for each column of times whose rows may be late."""
        event = next(iter(self.engine.closed.own), 0) if isinstance(self.event, str) else 0
        return ({TIME: self.engine.lower} if self.timed else {}) | ({EVENT: event} if event else {})

    def _placed(self, rows: Any, lower: int, bounds: Bounds, *, some: bool) -> Inputs:
        """The rows at their own times, and late ones (if ``some``) as declared."""
        if not some:
            return self._inputs(self.source, rows, lower)
        if self.options.late == "revise":
            return self._inputs(self.source, revised(rows, bounds), lower)
        inputs = self._inputs(self.source, on_time(rows, bounds), lower)
        if self.options.late == "drop":
            return inputs
        source = self.engine.source(late_name(self.name))
        return inputs.and_more(self._inputs(source, late(rows, bounds), lower, at_lower=True))

    def _inputs(self, source: ir.Source, rows: Any, lower: int, *, at_lower: bool = False) -> Inputs:
        stamp = self._stamp(source, lower)
        stamp = replace(stamp, time=lower, own=(), closed=()) if at_lower else stamp
        if not isinstance(rows, pa.Table):
            return Inputs(frames={source.name: [(rows, stamp)]})
        updates = stamp.updates(rows)
        return Inputs(updates={source.name: [updates]} if len(updates) else {})


def _count(rows: Any) -> int:
    return rows.num_rows if isinstance(rows, pa.Table) else rows.count()
