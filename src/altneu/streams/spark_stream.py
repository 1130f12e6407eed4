"""A streaming query of Spark's, and the processing of its micro-batches."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from altneu.collections.source_weights import weight_names, with_weights
from altneu.collections.sources import check_columns
from altneu.engine.engine import Engine
from altneu.engine.replace import refuse_replacing
from altneu.errors import InputError
from altneu.operators.source.keyed import KIND
from altneu.order import Antichain
from altneu.plan import ir
from altneu.runtime.inputs import Stamp
from altneu.runtime.spark.versions import is_connect
from altneu.streams.batch import MicroBatch, normalised
from altneu.streams.checkpoint import Called
from altneu.streams.relay import Relay
from altneu.streams.stream import Options, Registry, Stream
from altneu.streams.tables import DIFF

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkStream(Stream):
    """A streaming query whose micro-batches a session processes, one after the other."""

    def __init__(
        self, engine: Engine, registry: Registry, frame: DataFrame, source: ir.Source, options: Options
    ) -> None:
        given = options.time, options.command, *weight_names(options.diff)
        frame, diff = with_weights(source, frame, options.diff)
        options = replace(options, diff=diff)
        super().__init__(engine, registry, source, options)
        commands = self._commands(source)
        schema = source.schema if commands is None else commands.read
        controls: dict[str, Any] = {**self.controls, DIFF: options.diff}
        if commands is not None and isinstance(commands.kind, str):
            controls[KIND] = options.command
        check_columns(frame, Stamp(source.name, schema, engine.lattice, Antichain.of(engine.lattice, 0), 0, 1))
        controls = {k: v for k, v in controls.items() if isinstance(v, str)}
        self.frame = normalised(frame, source.name, schema.names, controls)
        self._check_late()
        if options.snapshots:
            self._check_snapshots()
        several = options.time if isinstance(options.time, tuple) else ()
        self._refuse_extra(frame.columns, schema.names, (*given, *several))
        in_order = not options.snapshots and source.commanded_by is not None
        self.delivery: Called | Relay = (
            Relay(self.frame, in_order=in_order) if is_connect(frame) else Called(self.frame)
        )
        if options.max_rows is not None and not self.delivery.repeats_any:
            raise InputError(
                f"stream {self.name!r} computes random values (rand, uuid or a function declared non-deterministic), "
                "so a batch that is repeated after a crash would be divided differently; leave max_rows= out"
            )

    def _check_snapshots(self) -> None:
        """Refuse what would make a snapshot a part of one, or something else."""
        options, name = self.options, self.name
        refuse_replacing(self.source, options.diff)
        given = {"time": options.time, "command": options.command, "max_rows": options.max_rows}
        for option, value in given.items():
            if value is not None:
                raise InputError(
                    f"{option}={value!r} of stream {name!r} is not for snapshots, of which each is whole and replaces "
                    "what the source has at the next time; leave it out"
                )

    def start(self, folder: str, *, available_now: bool, trigger: str | None) -> None:
        """Start the query, with its checkpoint in ``folder``."""
        self.delivery.begin(folder, self.record, self.options.restart)
        writer = self.frame.writeStream
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif trigger is not None:
            writer = writer.trigger(processingTime=trigger)
        with self._busy:  # the first batch waits until the query is known
            self.query = self.delivery.start(writer, self._take)
            self._begun = True
        self._start()

    def _run(self) -> None:
        assert self.query is not None
        self.delivery.run(self.query)

    def _end(self) -> None:
        assert self.query is not None
        self.delivery.stop(self.query)

    def _take(self, frame: DataFrame, batch: int) -> None:
        """The function that Spark calls with each micro-batch; Spark continues with the next one when it returns."""
        with self._at_work(batch):
            self._take_batch(frame, batch)

    def _take_batch(self, frame: DataFrame, batch: int) -> None:
        assert self.query is not None
        query = str(self.query.id)
        plan = self.delivery.plan_of(batch)
        assert plan is not None, "Spark writes what a batch holds before it gives it"
        first_here = self._batches == 0  # within a run one batch follows the other
        before = self.delivery.plan_of(batch - 1) if first_here else None
        step = self.record.step(query, batch, plan, self.options.restart, before)
        if step is None:
            return
        first, of = step
        key = None if self.options.snapshots else self.source.commanded_by
        rows = MicroBatch(frame, key, here=self.engine.spark is None)
        try:
            of = rows.pieces(self.options.max_rows) if of is None else of
            for piece in range(first, of):
                done = query, batch, plan, piece, of
                self._take_piece(rows.piece(piece, of), done, snapshot=self.options.snapshots)
        finally:
            rows.release()
