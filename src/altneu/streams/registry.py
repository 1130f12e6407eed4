"""The streams of a session: those followed, their positions, and how far these let the session advance."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from altneu.collections.sources import is_spark_frame
from altneu.engine.engine import Engine
from altneu.errors import InputError
from altneu.errors.nearest import listed, nearest
from altneu.runtime.inputs import Inputs, whole_number
from altneu.runtime.stored import StoredStream
from altneu.streams import checkpoint
from altneu.streams.following import Following
from altneu.streams.record import Record, target
from altneu.streams.spark_stream import SparkStream
from altneu.streams.stream import Options, Stream
from altneu.streams.table_stream import TableStream
from altneu.streams.tables import Delta, Given, Iceberg

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_LATE = ("revise", "error", "drop")


def _option_meant(name: str) -> str:
    """What is said of a name that may be a misspelt option of ``follow``: other names are those of sources."""
    options = [*(field.name for field in fields(Options)), "available_now", "checkpoint", "trigger"]
    option = nearest(name, options, cutoff=0.8)
    return f". If it is an option of follow, it is spelt {option[0]!r}" if option else ""


class Streams:
    """The streams of a session; a caller that changes them holds the session's lock."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._followed: dict[str, Stream] = {}
        self._scratch: tempfile.TemporaryDirectory[str] | None = None
        self.changed = threading.Condition()
        self.taking: set[int] = set()  # threads that are at a micro-batch

    def follow(
        self,
        given: Mapping[str, DataFrame | Given],
        checkpoint_base: str | None,
        options: Mapping[str, Any],
        *,
        available_now: bool,
        trigger: str | None,
    ) -> Following:
        """Start a query for each stream, or none."""
        if not given:
            raise InputError(
                "follow needs streams by the names of sources: session.follow(edges=spark.readStream...), or tables: "
                "session.follow(orders=an.delta(path))"
            )
        self._engine.check_open()
        self._engine.make_ready()
        _check_names(options, given)
        if checkpoint_base is not None and not any(map(is_spark_frame, given.values())):
            raise InputError(
                f"checkpoint={checkpoint_base!r} is the folder of Spark's checkpoints, and no stream of Spark's is "
                "followed: of a table the store has the position; leave it out"
            )
        with self._engine.lock:
            streams = [self._stream(name, rows, _options(name, options)) for name, rows in given.items()]
            folders = [self._folder(checkpoint_base, stream) for stream in streams]
            before = self._followed
            self._refuse_waiting(streams)
            self._followed = before | {stream.name: stream for stream in streams}  # all hold it back from now on
        try:
            self._catch_up()
            for stream, folder in zip(streams, folders, strict=True):
                stream.start(folder, available_now=available_now, trigger=trigger)
        except BaseException:
            for stream in streams:
                stream.stop()
            self._followed = before
            raise
        return Following(streams, self.changed)

    def _refuse_waiting(self, streams: Sequence[Stream]) -> None:
        """Refuse snapshots where streams with times decide when a time is closed.

        Raises:
            InputError: a snapshot would wait, and the next one would not know what it replaces.
        """
        running = {name: stream for name, stream in self._followed.items() if stream.active}
        together = {**running, **{stream.name: stream for stream in streams}}
        snapshots = [name for name, stream in together.items() if stream.options.snapshots]
        records = {**self.records(), **{stream.name: stream.record for stream in streams}}
        timed = [name for name, record in records.items() if record.delay is not None]
        if snapshots and timed:
            raise InputError(
                f"the snapshots of {snapshots[0]!r} each need a step of their own, but the times of stream "
                f"{timed[0]!r} say which times are closed; follow them in two sessions, which an.sinks.feed makes "
                f"one dataflow, or session.unfollow({timed[0]!r})"
            )

    def _catch_up(self) -> None:
        """Advance to the watermarks: a long advance may have been interrupted after its first commit."""
        with self._engine.lock:
            upper, lower = self.target({}), self._engine.lower
            if upper > lower and any(record.delay is not None for record in self.records().values()):
                self._engine.take(Inputs(), upper, {})

    def _stream(self, name: str, given: Any, options: Options) -> Stream:
        is_table = isinstance(given, (Delta, Iceberg))
        if not is_table and (not is_spark_frame(given) or not given.isStreaming):
            raise InputError(
                f"follow({name}=...) needs a streaming DataFrame, as spark.readStream returns it, or a table, "
                f"an.delta(path); insert({name!r}, ...) takes other data{_option_meant(name)}"
            )
        self._engine.refuse_closed(name)
        if name in self._engine.catalogue.static:
            raise InputError(
                f"source {name!r} is static, so its first step closes it, and a stream goes on: declare it without "
                f"static=True, and call session.close_source({name!r}) after session.unfollow"
            )
        if name in self._followed and self._followed[name].active:
            raise InputError(f"source {name!r} is followed already; stop that first, or follow a union of both streams")
        kind = TableStream if is_table else SparkStream
        return kind(self._engine, self, given, self._engine.source(name), options)

    def _folder(self, checkpoint_base: str | None, stream: Stream) -> str:
        """The folder of Spark's checkpoint; that of a table is the store itself."""
        if isinstance(stream, TableStream):
            return ""
        store = self._engine.store
        if checkpoint_base is None and not store.durable and self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory(prefix="altneu-streams-")
        scratch = None if store.durable or self._scratch is None else self._scratch.name
        return checkpoint.folder_of(store, scratch, checkpoint_base, stream.name, stream.record.query)

    def unfollow(self, name: str) -> None:
        """Forget the position of a stream."""
        if name in self._followed and self._followed[name].active:
            raise InputError(f"source {name!r} is being followed; stop that first")
        if name not in self._followed and name not in self._engine.streams_stored:
            raise InputError(f"no stream {name!r} was followed; there are: {listed(name, self.records())}")
        self._followed.pop(name, None)

    def release(self, name: str) -> None:
        """As ``unfollow``, of a source that may have had no stream: it is about to be dropped."""
        if name in self._followed or name in self._engine.streams_stored:
            self.unfollow(name)

    def forget(self, name: str) -> None:
        """Stop a stream, if there is one, and no longer wait for its watermark."""
        if (stream := self._followed.pop(name, None)) is not None:
            stream.stop()

    @property
    def followed(self) -> dict[str, Stream]:
        """The streams that are or were followed in this session."""
        return dict(self._followed)

    @property
    def have_times(self) -> bool:
        """Whether rows of any stream have their own times, so that the streams decide when a time is closed."""
        return any(record.delay is not None for record in self.records().values())

    def stop(self) -> None:
        """Stop all streams."""
        for stream in self._followed.values():
            stream.stop()
        if self._scratch is not None:
            self._scratch.cleanup()
            self._scratch = None

    def stored(self, name: str) -> Record:
        """The position of a stream, as of the store."""
        value = self._engine.streams_stored.get(name)
        return Record() if value is None else Record.from_json(value)

    def records(self) -> dict[str, Record]:
        """The position of each stream: those in the store, and new ones."""
        stored = {name: self.stored(name) for name in self._engine.streams_stored}
        return stored | {name: stream.record for name, stream in self._followed.items()}

    def encoded_records(self, changed: Mapping[str, Record]) -> dict[str, StoredStream]:
        """The part of a commit about streams: those that changed, and those that are not in the store yet.

        The watermarks of the latter count after a restart too.
        """
        new = {n: r for n, r in self.records().items() if n not in self._engine.streams_stored}
        return {name: record.to_json() for name, record in {**new, **changed}.items()}

    def target(self, changed: Mapping[str, Record]) -> int:
        """The time up to which the session advances with streams at these positions."""
        return target({**self.records(), **changed}.values(), self._engine.lower)


def _check_names(options: Mapping[str, Any], frames: Mapping[str, Any]) -> None:
    """Refuse options for streams that do not exist: a misspelled name would be ignored."""
    for option, value in options.items():
        for name in value if isinstance(value, Mapping) else ():
            if name not in frames:
                raise InputError(f"{option}= names {name!r}, and the streams are: {listed(name, frames)}")


def _options(name: str, values: Mapping[str, Any]) -> Options:
    """The options of one stream: of an option that is a mapping, the value for this stream."""
    of = {k: v.get(name, getattr(Options(), k)) if isinstance(v, Mapping) else v for k, v in values.items()}
    options = Options(**of)
    if not isinstance(options.snapshots, bool):
        raise InputError(f"snapshots must be True or False, got {options.snapshots!r}")
    if options.late not in _LATE:
        raise InputError(f'late must be "revise", "error" or "drop", got {options.late!r}')
    if options.max_rows is not None and whole_number(options.max_rows, "max_rows") < 1:
        raise InputError(f"max_rows must be at least 1, got {options.max_rows!r}")
    if options.watermark is not None:
        if whole_number(options.watermark, "watermark") < 0:
            raise InputError(
                f"watermark={options.watermark!r} must be at least 0: it says how much earlier rows may arrive"
            )
        known = options.time[0] if isinstance(options.time, tuple) else options.time
        if not isinstance(known, str):
            raise InputError(
                f"watermark={options.watermark!r} of {name!r} needs time=, the column with the times of rows"
            )
    return options
