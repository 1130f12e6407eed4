"""An executor that runs the very tasks that Spark runs, in this process, each of them more than once.

A task that is retried, speculated or recomputed gets its messages in another order and in other batches. It must make
the same again: the same rows for the same shards, the same state under the same names. One that is killed on its way
leaves files behind, which nobody may notice.
"""

from __future__ import annotations

import json
import pickle
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from altneu import Session
from altneu.runtime.files import Files, from_ipc
from altneu.runtime.local import LocalExecutor
from altneu.runtime.measured import SECONDS
from altneu.runtime.packed import Packed
from altneu.runtime.schedule import Run, Segment
from altneu.runtime.spark import worker
from altneu.runtime.spark.executor import Frames, Seen, SparkExecutor
from altneu.runtime.spark.wire import META, Row, pack, unpack, unpack_meta
from altneu.runtime.spark.worker import Task, run_stage, start
from altneu.runtime.state import OpenData, blob_names, updates_to_batch
from tests.oracle.runners import Judge, Runner, Sources

ATTEMPTS = 2


class Retries(SparkExecutor):
    """Runs every task of every step ``ATTEMPTS`` times and goes on with any one of them.

    Of the segments, each is run in tasks with the probability ``share``, or else in the driver. With ``room`` tasks
    have so many bytes for their messages, and every other one no more for what it opens.
    """

    def __init__(self, shards: int, share: float = 1, room: int | None = None) -> None:
        super().__init__(None, shards, "spark")
        self.rng = random.Random(shards)
        self.share, self.tasks, self.room = share, 0, room
        self.placed: Counter[bool] = Counter()

    def _job(self, title: str, settings: Mapping[str, str] | None = None) -> AbstractContextManager[None]:
        return nullcontext()

    def _run_on_shards(self, kernel: Any, shards: int, title: str) -> list[bytes]:
        rows = [row for shard in range(shards) for row in unpack(kernel(iter([pa.record_batch({"id": [shard]})])))]
        return [payload for _, port, payload in rows if port == META]

    def is_large(self, step: Run, segment: Segment, frames: Frames) -> bool:
        large = super().is_large(step, segment, frames) and self.rng.random() < self.share
        self.placed[large] += 1
        return large

    def _run_job(self, task: Task, title: str, frames: Frames, rows: list[Row], seen: Seen) -> list[bytes]:
        task = pickle.loads(cloudpickle.dumps(task))  # noqa: S301 -- as tasks get it
        messages = [] if task.stages[0] else rows
        if task.starts:
            messages = [row for shard in range(self.shards) for row in self._start(task, shard)] + messages
        for stage in task.stages[1:]:
            by_shard: dict[int, list[Row]] = defaultdict(list)
            for row in messages:
                by_shard[row[0]].append(row)
            messages = [row for rows in by_shard.values() for row in self._attempt(task, run_stage(task, stage), rows)]
        return [payload for _, port, payload in messages if port == META]

    def _start(self, task: Task, shard: int) -> list[Row]:
        return self._same(task, start(task), lambda: iter([pa.record_batch({"id": [shard]})]))

    def _attempt(self, task: Task, kernel: Any, rows: Sequence[Row]) -> list[Row]:
        return self._same(task, kernel, lambda: self._arriving(rows))

    def _same(self, task: Task, kernel: Any, arriving: Callable[[], Iterator[pa.RecordBatch]]) -> list[Row]:
        """What a task makes, having seen that it makes the same in every attempt, one that was killed before."""
        with pytest.MonkeyPatch.context() as patch:
            if self.room is not None:
                shares = self.room, self.rng.choice([None, self.room])
                patch.setattr(worker, "shares", lambda _: shares)
            killed = kernel(arriving())
            next(killed, None)
            killed.close()
            attempts = [list(unpack(kernel(arriving()))) for _ in range(ATTEMPTS)]
        self.tasks += len(attempts)
        first = counted_rows(task, attempts[0], named=self.room is None)
        for other in attempts[1:]:
            now = counted_rows(task, other, named=self.room is None)
            assert now == first, (now - first, first - now)
        return self.rng.choice(attempts)

    def _arriving(self, rows: Sequence[Row]) -> Iterator[pa.RecordBatch]:
        """Rows in any order and any batches."""
        order = self.rng.sample(list(rows), len(rows))
        while order:
            cut = self.rng.randint(1, len(order))
            yield from pack(order[:cut])
            order = order[cut:]


def run_twice(judge: Judge, sources: Sources, cuts: Sequence[int], folder: Path, names: Iterable[str]) -> None:
    """Run plans together in tasks that are attempted again; every other step runs here, on what tasks have written."""
    retries = Retries(3)

    def open_session(path: Path | None) -> Session:
        session = Session(path=path, shards=3)
        session._engine.executor = retries
        return session

    def alternate(session: Session, step: int) -> None:
        session._engine.executor = (retries, LocalExecutor())[step % 2]

    runner = Runner("retries", open_session, lambda: folder, together=True, before_step=alternate)
    judge.run(runner, sources, cuts, names)
    assert retries.tasks > 0


def counted_rows(task: Task, rows: Sequence[Row], *, named: bool = True) -> Counter[Any]:
    """What the rows say, whatever the order of the messages, and of the rows in one of them.

    Unless it is to be ``named`` the same, what is in the files counts: in parts, blocks may end elsewhere.
    """
    said: Counter[Any] = Counter()
    opened = dict(task.blobs)
    for _, port, payload in rows:
        opened |= unpack_meta(payload)[1] if port == META else {}
    open_data = Files(task.directory, opened.__getitem__).open
    for shard, port, payload in rows:
        if port == META:
            meta, blobs = unpack_meta(payload)
            for counts in meta.get("measured", {}).values():
                counts[SECONDS] = 0.0
            meta["error"] = meta.get("error", [""])[0]  # its class: the text may name a temporary file
            for target, channel, message in meta.pop("sent", []):
                said.update((target, channel, repr(row)) for row in in_message(message, open_data, named=named))
            kept = {n: blobs[n] for n in blob_names(meta) if n in blobs} if named else {}
            said[shard, repr(meta if named else content(meta, open_data)), tuple(sorted(kept.items()))] += 1
        elif not payload:  # a seed, or an arrangement that is there already
            said[shard, port] += 1
        elif payload[:1] == b"{":
            said[shard, port, repr(content(json.loads(payload), open_data))] += 1
        else:
            said.update((shard, port, repr(row)) for row in _rows_of(task, port, payload))
    return said


def _rows_of(task: Task, port: int, payload: bytes) -> list[Any]:
    channel = task.plan.channels[port]
    if channel.arranged:
        return [row for batch in from_ipc(payload) for row in batch.to_pylist()]
    return updates_to_batch(Packed.from_bytes(payload, channel.schema).updates()).to_pylist()


def content(value: Any, open_data: OpenData) -> Any:
    """A value with the rows in place of the data that it names."""
    if isinstance(value, list):
        return [content(inner, open_data) for inner in value]
    if not isinstance(value, dict):
        return value
    if "segment" in value or "blob" in value:
        return [row for batch in open_data(value) for row in batch.to_pylist()]
    return {key: content(inner, open_data) for key, inner in value.items()}


def in_message(ref: dict[str, Any], open_data: OpenData, *, named: bool) -> Iterator[Any]:
    """The rows that a message brings, and what it names besides."""
    old = ref.get("old")
    if named or old is not None:  # in parts it may be another number of messages
        yield ref["rows"], old if named else content(old, open_data)
    batches = open_data(ref["data"]) if "data" in ref else []
    for batch in [batches[ref["part"]]] if "part" in ref else batches:
        yield from batch.to_pylist()
